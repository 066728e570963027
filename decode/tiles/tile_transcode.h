/*  tile_transcode -- a JPEG to a tiled one (tile_frame.h), without losing a bit of what it shows.
 *
 *  The coefficients are read and written again: sequential, with Huffman tables made for them, in one scan
 *  with restart markers.  Markers that carry metadata (applications' and comments) come along byte for byte
 *  and in their order, before everything else; so do bytes behind the end marker.  (Where they stand behind a
 *  scan's header decoders do not look for them, and before it they would begin to count: such a file is
 *  refused.)  Then the result is read back, and is only good if coefficients, quantisation, sampling and the
 *  meaning of the colours are the original's.
 *
 *  What cannot be expressed so is told, and is to be kept as it is: arithmetic coding, other than 8 bits,
 *  progressive files that end before their coefficients are exact (decoders smooth those), more blocks than
 *  one MCU may have, several pictures in one file (their places in it would be wrong), damage of any kind.
 *
 *  Untrusted bytes: bounded memory (TILE_PIXELS_MAX, a few times the file), no abort.  Owner: one thread, no
 *  state.
 */
#ifndef TILE_TRANSCODE_H
#define TILE_TRANSCODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  Two sets of coefficients are in memory, of up to eight bytes a pixel (CMYK).
enum { TILE_PIXELS_MAX = 64 * 1000 * 1000 };

//  Narrower segments cost more bytes than they save time; and TILE_WITHIN of how many thousandths is the best
//  layout for its size (docs/tiles.md has the figures).
enum { TILE_SPAN_LEAST = 24, TILE_AUTO_THOUSANDTHS = 1100 };

//  Which of the intervals that divide a row of MCUs.
typedef enum {
    TILE_EVERY_MCU,
    TILE_COLUMNS,               //  number: at least so many segments a row, as few as possible
    TILE_SPAN,                  //  number: the widest segments of at most so many pixels, and of at least one
                                //  MCU
    TILE_WITHIN                 //  number: the most segments with which the file has at most so many
                                //  thousandths of its original's size (where fewer segments always take fewer
                                //  bytes; else some of them), but none narrower than TILE_SPAN of
                                //  TILE_SPAN_LEAST makes them; one a row, if that does not help either
} tile_rule_t;

typedef struct {
    tile_rule_t rule;
    uint32_t number;
} tile_layout_t;

typedef struct {
    uint8_t *bytes;             //  the caller frees them
    size_t size;
    uint32_t interval;          //  in MCUs
    uint32_t segments;
    bool was_progressive;
} tiled_t;

//  0 and *tiled_p, which the caller frees; or, with nothing to free and error (always ended) saying why, for
//  people:
//    -EBADMSG  damaged: an original that libjpeg complains about
//    -EDOM     a good file, perhaps, but of no kind that can be tiled
//    -ENOMEM
int tile_transcode (const uint8_t *bytes, size_t size, tile_layout_t layout, tiled_t *tiled_p, char *error,
    size_t error_bytes) __attribute__ ((warn_unused_result));

//  How many bytes of coefficients that takes at most; 0 for what its header already says cannot be tiled.
uint64_t tile_transcode_memory (const uint8_t *bytes, size_t size);

//  Whether two files have the same coefficients, quantisation, sampling and meaning of colours, and the same
//  metadata: what tile_transcode asks before it is content.  0, -EDOM: they differ; others as above, of
//  either file.
int tile_compare (const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes, char *error,
    size_t error_bytes) __attribute__ ((warn_unused_result));

#endif

/*  finish_avx2 -- the inner loops of finish for processors with AVX2, FMA and F16C: one row, whatever the
 *  format, with the same bytes as finish.c's own.  They read and write no byte outside the row.
 *
 *  8-bit rows are done 32 pixels at a time, others 16 at a time, so that the channels take turns in the same
 *  way each time.  What is left at the end of a row is done by doing its last pixels again; a row that is
 *  shorter than one step, in a buffer of its own.
 *
 *  Only for finish.c.
 */
#ifndef FINISH_AVX2_H
#define FINISH_AVX2_H
#include "finish.h"

//  What all rows of an image have in common.
typedef struct {
    const finish_format_t *format;
    uint32_t width;
    uint32_t channels;          //  of the source
    bool across;                //  the last pixel comes first
    bool is_large;              //  the whole target: worth going past the caches
    bool streams;               //  it does, and every row of the target begins at FINISH_ALIGNMENT
} finish_way_t;

enum { FINISH_ALIGNMENT = 32 };

typedef struct {
    //  targets: one of each plane, or only the first.
    void (*row) (const finish_way_t *way, const uint8_t *source, uint8_t *const targets [IMAGE_COLOURS]);
    void (*copy) (const uint8_t *source, size_t bytes, uint8_t *target, bool streams);
    //  Where something may have been streamed: before other threads look.
    void (*end) (void);
} finish_loops_t;

extern const finish_loops_t finish_loops_avx2;

//  Whether the channels of a row lie one behind the other in one place.
static inline bool
finish_interleaves (const finish_format_t *format)
{
    return format->channels > 1 && !format->planar;
}

#endif

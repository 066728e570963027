/*  packing -- makes a pack of a source: a full shuffle in two passes, in bounded memory, that can be gone on
 *  with.
 *
 *  Every sample has a key: 128 bits, hashed from the seed and its id.  The order of the pack is that of the
 *  keys.  The keys are independent and identically distributed, so every order of all samples is equally
 *  likely, whatever the order of the source; nothing is ever "shuffled" within a window. (Two equal keys, one
 *  chance in 2^128 a pair, fall back to the ids.)  The seed alone determines the order: memory and buckets do
 *  not matter.
 *
 *  Pass 1 reads the source once, in its order, and appends each sample to one of many bucket files: that of
 *  its key's range.  Pass 2 takes bucket after bucket into memory, in the order of their ranges, and writes
 *  its samples by key.
 *  A bucket that is larger than memory is taken in several runs; each reads only its own samples, forwards
 *  through the file.
 *
 *  While it runs the target holds the folder PACKING_FOLDER, with buckets, the samples' sizes and checksums,
 *  and a journal of what is durable; index.tureen comes last, by rename.  If the process is killed at any
 *  moment the target is no pack, and `resume` continues from the journal.  A bucket is deleted when its
 *  samples are durable in the volumes, so that at most the data, one bucket and the padding of chunks are on
 *  the disk: about once the size of the data, and one bucket.
 *
 *  Memory: memory_bytes for buffers, 28 bytes a sample and 16 a file for the tables, and the source's own.
 *  The same data, seed, chunk and tile make the same pack, byte for byte: its id is a hash of these.
 *
 *  Files may be changed (tile, convert): in pass 1, so that the rest sees only the new sizes and checksums.
 *  Each file has a mark for its change, durable in the table; so the figures at the end are for all files,
 *  however often the packing was interrupted.
 *
 *  Owner: one thread; blocks for as long as disks do.  The target is locked (flock) against a second one.
 */
#ifndef PACKING_H
#define PACKING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pack_format.h"
#include "pack_source.h"

enum { PACKING_MEMORY_BYTES_MIN = 1 << 20, PACKING_BUCKETS_MAX = 8192, PACKING_MARKS_MAX = 16,
    PACKING_NOTE_BYTES = 256 };

//  Whether JPEGs are tiled: no, automatically, or with segments of at most so many pixels.
enum { PACKING_TILE_OFF = 0, PACKING_TILE_AUTO = 1, PACKING_TILE_LEAST = 8, PACKING_TILE_MOST = 65535,
    PACKING_TILE_BYTES = 40 };
//  Combined with one of these but the first: a changed file also keeps its original's bytes.
enum { PACKING_TILE_ORIGINALS = 1 << 16 };
//  As the command's arguments: "off", "auto" or the number, and "auto --keep-original-bytes"; returns text.
const char *packing_tile_text (uint32_t tile, char text [PACKING_TILE_BYTES]);
//  "off", "auto" or pixels; false: none of these, without a message.
bool packing_tile_parse (const char *text, uint32_t *tile_p);
bool packing_tile_is_good (uint32_t tile);
//  Without PACKING_TILE_ORIGINALS.
static inline uint32_t
packing_tile_layout (uint32_t tile)
{
    return tile & ~(uint32_t) PACKING_TILE_ORIGINALS;
}

typedef struct {
    int pass;                           //  1: reading the source, 2: writing volumes
    uint64_t samples;                   //  done in this pass
    uint64_t bytes, bytes_total;        //  of this pass; total 0: not known
} packing_progress_t;

typedef struct {
    uint64_t files;
    uint64_t source_bytes, bytes;       //  of these files, before and after
} packing_mark_t;

typedef struct packing_result packing_result_t;

typedef struct {
    pack_source_options_t source;
    const char *target;                 //  a missing or empty folder; with resume an unfinished pack
    uint32_t chunk_samples;             //  a multiple of PACK_CHUNK_SAMPLES; 0: the default, or the resumed
                                        //  packing's
    uint64_t volume_bytes;              //  0: PACK_VOLUME_BYTES, or the resumed packing's; less in tests
    bool has_seed;                      //  false: a random seed, or the resumed packing's
    uint64_t seed;
    uint64_t memory_bytes;              //  at least PACKING_MEMORY_BYTES_MIN and the largest sample twice
    uint32_t buckets;                   //  0: from the source's size and the memory; ignored when resuming
    bool resume;                        //  continues an unfinished packing; begins if there is none; reports
                                        //  a finished one
    bool has_tile;                      //  false: off, or the resumed packing's
    uint32_t tile;                      //  PACKING_TILE_OFF, _AUTO, or pixels; and _ORIGINALS
    //  If tile is not off: replaces *source_p by a source that wraps and owns it, with as many samples and
    //  files.  0; or -errno and error, nothing changed.
    int (*convert) (void *context, uint32_t tile, pack_source_t **source_p, char *error);
    //  And the note for the index (pack_index.h), which tells readers about the tiling.
    void (*note) (void *context, const packing_result_t *result, char note [PACKING_NOTE_BYTES]);
    void (*progress) (void *context, const packing_progress_t *progress);   //  after every sample; NULL: none
    bool (*stopped) (void *context);    //  true: give up now, resumable; NULL: never
    void *context;
} packing_options_t;

struct packing_result {
    uint64_t samples, bytes, volumes, chunks;
    uint64_t seed;
    bool resumed;                       //  from a journal
    bool was_finished;                  //  before this call, which did nothing; tile and marks are unknown
                                        //  then
    uint32_t tile;
    packing_mark_t marks [PACKING_MARKS_MAX];
};

//  0; or -errno and error (PACK_SOURCE_ERROR_BYTES) says what is wrong and the remedy: -EEXIST the target is
//  a pack or holds something else, -EBUSY another process packs into it, -ESTALE the source has changed since
//  what is to be resumed was begun, -EINVAL options that cannot be, or another seed, chunk or tile than it
//  was begun with, -EFBIG a sample that memory_bytes has no room for, -ECANCELED stopped, -ENOSPC no room now
//  or later, -EBADMSG a journal or bucket that is damaged ..  All but the first and the last leave what can
//  be resumed, if anything was begun; where the source cannot be packed from its first sample on, nothing
//  was.
int packing_run (const packing_options_t *options, packing_result_t *result, char *error);

#endif

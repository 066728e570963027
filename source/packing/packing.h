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
 *  Memory: memory_bytes for buffers (a quarter of it for samples that are read ahead), 28 bytes a sample and
 *  16 a file for the tables, the source's own, and what finds rows (about the largest JPEG for each thread).
 *  The same data, seed, chunk and volumes' size make the same pack, byte for byte: its id is a hash of these.
 *
 *  With an address the pack goes to an object store (packing_upload.c): a volume is sent when it is finished,
 *  and deleted when the store has it; the index is sent last.  The target holds what a folder's packing
 *  holds, less what has been sent: about the size of the data and one bucket at most.
 *
 *  Owner: one thread; blocks for as long as disks and stores do.  The target is locked (flock) against a
 *  second one.
 */
#ifndef PACKING_H
#define PACKING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pack_format.h"
#include "pack_source.h"

enum { PACKING_MEMORY_BYTES_MIN = 1 << 20, PACKING_BUCKETS_MAX = 8192 };

typedef struct {
    int pass;                           //  1: reading the source, 2: writing volumes, 3: waiting until the
                                        //  store has them
    int passes;                         //  2, or 3
    uint64_t samples;                   //  done in this pass
    uint64_t bytes, bytes_total;        //  of this pass; total 0: not known
} packing_progress_t;

//  What finds out where the rows of field 0's JPEG begin.
typedef struct {
    uint32_t threads;                   //  0: the caller's
    void *(*finder_new) (void);         //  what `find` works with, one a thread; NULL: no memory
    void (*finder_destroy) (void *finder);
    //  0 and the bytes that are packed with the JPEG, lent until the finder's next call; 0 bytes: not known.
    //  -ENOMEM.
    int (*find) (void *finder, const uint8_t *bytes, size_t size, const uint8_t **rows_p,
        size_t *rows_bytes_p);
} packing_rows_t;

typedef struct {
    pack_source_options_t source;
    const char *target;                 //  a missing or empty folder; with resume an unfinished pack
    const char *address;                //  s3://..: the pack goes there, volume after volume, and the target
                                        //  is for what is under way, and removed at the end.  NULL: the pack
                                        //  stays in the target
    uint32_t patience_ms;               //  with a store that fails
    uint32_t chunk_samples;             //  a multiple of PACK_CHUNK_SAMPLES; 0: the default, or the resumed
                                        //  packing's
    uint64_t volume_bytes;              //  0: PACK_VOLUME_BYTES, or the resumed packing's; less in tests
    bool has_seed;                      //  false: a random seed, or the resumed packing's
    uint64_t seed;
    uint64_t memory_bytes;              //  at least PACKING_MEMORY_BYTES_MIN and the largest sample twice
    uint32_t buckets;                   //  0: from the source's size and the memory; ignored when resuming
    bool resume;                        //  continues an unfinished packing; begins if there is none; reports
                                        //  a finished one
    const packing_rows_t *rows;         //  NULL: they are not packed
    void (*progress) (void *context, const packing_progress_t *progress);   //  after every sample; NULL: none
    //  Once, as soon as the names of all samples are known: of tar files, when they were read.  The catalogue
    //  is lent until packing_run returns.  NULL: none.
    void (*found) (void *context, const catalogue_t *catalogue);
    //  Each sample that is read from the source, in the order of the ids; lent for the call.  NULL: none.
    void (*read) (void *context, uint64_t id, const pack_item_t *item);
    bool (*stopped) (void *context);    //  true: give up now, resumable; NULL: never
    void *context;
} packing_options_t;

typedef struct {
    uint64_t samples, bytes, volumes, chunks;
    uint64_t with_rows, rows_bytes;     //  samples with known rows, and the bytes that record the rows, a
                                        //  part of `bytes`
    uint64_t seed;
    bool resumed;                       //  from a journal
    bool was_finished;                  //  before this call, which did nothing
} packing_result_t;

//  0; or -errno and error (PACK_SOURCE_ERROR_BYTES) says what is wrong and the remedy: -EEXIST the target is
//  a pack or holds something else, -EBUSY another process packs into it, -ESTALE the source has changed since
//  what is to be resumed was begun, -EINVAL options that cannot be, or another seed or chunk than it was
//  begun with, -EFBIG a sample that memory_bytes has no room for, -ECANCELED stopped, -ENOSPC no room now
//  or later, -EBADMSG a journal or bucket that is damaged ..  All but the first and the last leave what can
//  be resumed, if anything was begun; where the source cannot be packed from its first sample on, nothing
//  was.
int packing_run (const packing_options_t *options, packing_result_t *result, char *error);

#endif

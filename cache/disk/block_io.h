/*  block_io -- threads that read and write the cache on the local disk, so that a disk that hangs holds up no
 *  others.
 *
 *  happy path:     block_io_do (request): a thread works on a copy of the request, in memory of its own; the
 *                  caller waits for it, and has the result
 *  failure modes:  a request takes 2 s (BLOCK_IO_PATIENCE slices of BLOCK_IO_SLICE_MS): the caller goes on
 *                  without a result, and the thread throws its own away when the disk answers.  Until then,
 *                  and for 8 s at least (BLOCK_IO_SHARE times as long), the cache is *aside*: no request
 *                  begins.
 *                  The disk answers, but takes more than 0.1 s (a slice): the caller's wait is lost.  A lost
 *                  second is forgotten after four.  When 2 s are lost, the cache is aside for 8 s.  So a disk
 *                  that is always late costs about a quarter of the time, and a third if each answer takes
 *                  nearly 2 s.
 *                  Another server has the cache's lock for long: that time is not lost by the disk, and does
 *                  not count.
 *                  No more threads can be started: callers wait for a free thread.
 *  on close:       all threads are waited for.
 *
 *  Any thread.
 */
#ifndef BLOCK_IO_H
#define BLOCK_IO_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "block_data.h"

typedef struct block_io block_io_t;

enum {
    BLOCK_IO_THREADS_MAX = 8, BLOCK_IO_UNITS_MAX = 256, BLOCK_IO_SLICE_MS = 100, BLOCK_IO_PATIENCE = 20,
    BLOCK_IO_SHARE = 4
};

//  Some units of a data set, and what is to be done with them.
typedef struct block_io_request {
    void (*work) (struct block_io_request *self);
    block_cache_t *cache;               //  lent until block_io_destroy
    block_data_t *data;                 //  the same
    uint64_t first;                     //  unit
    size_t count;                       //  of units, at most BLOCK_IO_UNITS_MAX
    size_t bytes;                       //  the last one may be short
    uint8_t *memory;                    //  of `bytes` bytes; NULL: none is needed
    bool is_change;                     //  what is in the memory goes to the disk
    //  the result
    bool is_good;
    bool is_locked_out;                 //  another server has the cache's lock
    size_t begin, end;                  //  of the memory: what has a meaning
    size_t found;                       //  units
    uint32_t sums [BLOCK_IO_UNITS_MAX];
} block_io_request_t;

//  With one thread; more are started when they are needed.  NULL: no memory, or no thread can be had.
block_io_t *block_io_new (void);
void block_io_destroy (block_io_t **self_p);
//  False: the cache is aside, or the disk took longer than the patience.
bool block_io_do (block_io_t *self, block_io_request_t *request);
//  True while the cache is set aside.
bool block_io_is_aside (block_io_t *self);
//  How often the cache has been set aside.
uint64_t block_io_times_aside (block_io_t *self);
//  For tests: waits until no thread works for a caller that has gone on.
void block_io_settle (block_io_t *self);
//  For tests: slices of another length.
void block_io_set_slice (block_io_t *self, uint32_t slice_ms);

#endif

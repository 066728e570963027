/*  block_cache_state -- the cache's structure, and what its files share; for them alone.
 *
 *      block_cache.c           the folder: opening, the lock, how much it takes; heads, and removing what no
 *                              server uses
 *      block_data.c            a data set: reads, writes
 *      block_io.c              the threads that do these for a server
 */
#ifndef BLOCK_CACHE_STATE_H
#define BLOCK_CACHE_STATE_H
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "block_cache.h"
#include "block_io.h"

enum {
    BLOCK_CACHE_MAGIC = 0xb10cac4e,
    BLOCK_CACHE_BLOCK_BYTES = 4096,
    BLOCK_CACHE_NAME_BYTES = 33,                //  of a data set's folder
    BLOCK_CACHE_PATH_BYTES = BLOCK_CACHE_NAME_BYTES + 8,
    BLOCK_CACHE_ERROR_BYTES = 700
};

//  The first block of `sums`.
typedef struct {
    char format [8];
    uint64_t held;                      //  what DIR/usage counts of this data set
    uint64_t stores;                    //  how often something was written to `data`
    uint64_t sum;                       //  of what stands before it
} block_head_t;

#define BLOCK_HEAD_FORMAT "tureenB2"

//  A data set that is closed while the disk does not answer: it ends with the cache.
typedef struct block_cache_closed {
    void (*end) (block_data_t *data);
    block_data_t *data;
    struct block_cache_closed *next;
} block_cache_closed_t;

struct block_cache {
    uint32_t magic;
    //  set at birth
    char *folder;
    uint64_t bytes_max;
    block_io_t *io;                     //  NULL: callers wait for the disk themselves
    //  set before is_open
    int descriptor;                     //  of the folder
    int usage;                          //  DIR/usage
    int opened;                         //  0 or -errno
    char error [BLOCK_CACHE_ERROR_BYTES];
    //  under the lock
    pthread_mutex_t lock;               //  before usage's: locks of a file are the process's, not a thread's
    uint64_t bytes;                     //  what DIR/usage says
    int64_t full_until_ms;              //  nothing can be removed before; 0: not known
    //  shared
    atomic_bool is_open;
    _Atomic (block_cache_closed_t *) closed;
    atomic_uint_fast64_t bytes_seen;    //  what DIR/usage said last
    atomic_int failure;                 //  -errno; 0: none
    atomic_bool is_full;                //  the last write found no room
    atomic_uint_fast64_t damaged;       //  records and units that were thrown away
};

//  Takes the lock of this process and all servers; 0 or -errno and it is not taken.  A damaged DIR/usage is
//  counted again.
int block_cache_begin (block_cache_t *self, bool may_wait);
void block_cache_end (block_cache_t *self);
//  Under the lock: notes what all takes; 0 or -errno.
int block_cache_set_bytes (block_cache_t *self, uint64_t bytes);
//  For the figures: other servers change it too.  Without the lock, since it is for people; what takes the
//  lock finds damage.  from_memory: only if it lies in the page cache.
void block_cache_look (block_cache_t *self, bool from_memory);
//  The local disk has failed: nothing more is written.  Returns rc.
int block_cache_failed (block_cache_t *self, int rc);

//  Whether a file begins as one of an earlier build does.  That is no damage: the cache is filled again.
bool block_cache_is_older (int descriptor);
//  Something was not as it was written.
void block_cache_found_damage (block_cache_t *self);

//  -- under the lock

//  The head in the file `sums` of the data set of this name.  False: it is damaged, or of another version;
//  *head is one with which the data set takes rather too much.
bool block_cache_head_read (const block_cache_t *self, const char *name, int sums, block_head_t *head);
//  0 or -errno.
int block_cache_head_write (int sums, const block_head_t *head);
//  What the data set of this name takes, with what the file system may still need for the map of `data`.
uint64_t block_cache_room_taken (const block_cache_t *self, const char *name, uint64_t stores);
//  Measures all that is in the folder; 0 or -errno.
int block_cache_room_count (block_cache_t *self);
//  Removes what no server uses until there are so many bytes of room, or as many as there can be; returns
//  the room.
uint64_t block_cache_room_make (block_cache_t *self, uint64_t bytes);

#endif

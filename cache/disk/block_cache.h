/*  block_cache -- a folder of the local disk that keeps what servers have read of object stores.
 *
 *      DIR/usage           how many bytes all of it takes; its lock (flock) is held while that changes
 *      DIR/KEY/            one data set (block_data.h); KEY: 32 hexadecimal digits
 *          lock            servers that use the data set hold a shared lock; its time is that of the last use
 *          data            a sparse file: the data set's objects, one after the other, in units of 4 KiB
 *          sums            a head (and in its block what the data set is, block_data.h), then 4 bytes for
 *                          each unit: 0, it is not here; else its checksum
 *
 *  happy path:     block_cache_open .. block_data_open, block_data_read, block_data_store ..
 *                  block_data_close .. block_cache_close
 *  failure modes:  a local disk that is full or fails (ENOSPC, EIO): nothing more is written, and what cannot
 *                  be read is not here; block_cache_figures has the error.  What is damaged is counted again
 *                  (usage) or is not here any more (the rest).  No failure here loses a sample.
 *                  A local disk that hangs, or answers late: see block_cache_threads.h.
 *  The bound:      the blocks of all files and folders (st_blocks), and what the file system may still need
 *                  for their maps, never exceed bytes_max.  They are reserved before a write and measured
 *                  after it.  Everything is measured anew when a server opens the folder or a data set.
 *  What goes:      the cache is filled until it is full, and nothing of data in use is thrown out: with a
 *                  fresh shuffle each epoch no choice saves more reads.  A full cache removes data sets that
 *                  no server uses, as a whole, the one that was not used for longest first.
 *
 *  A server has threads read and write it (block_cache_threads.h), so that a disk that hangs holds up no
 *  others.
 *
 *  Servers of one user share a folder.  A server that is killed at any moment leaves it whole: a unit's bytes
 *  are written before its checksum, and the kernel gives up its locks.
 *  Any thread; several may use it at once.
 */
#ifndef BLOCK_CACHE_H
#define BLOCK_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "block_cache_threads.h"

typedef struct block_cache block_cache_t;

enum { BLOCK_CACHE_LEAST_BYTES = 1024 * 1024 };

typedef struct {
    const char *folder;                 //  lent
    uint64_t bytes, bytes_max;          //  bytes: when this server read or wrote it last
    uint64_t damaged;                   //  records and units that were not as written, and were thrown away
    int failure;                        //  -errno: why nothing more is written; 0: it goes on
    bool is_open;                       //  false: the disk has not answered yet, or it cannot be opened
                                        //  (failure)
    uint64_t times_aside;               //  how often the disk did not answer, or too late
    bool is_aside;                      //  it is not asked now for this reason
    uint64_t waiting;                   //  bytes that wait to be written, and are not in `bytes`
} block_cache_figures_t;

//  Makes the folder if it is missing (0700).  bytes_max >= BLOCK_CACHE_LEAST_BYTES.  Removes what is beyond
//  that, as far as no server uses it.  0; or -errno, *self_p NULL and in error (always ended) what is wrong
//  and how to mend it.
int block_cache_open (block_cache_t **self_p, const char *folder, uint64_t bytes_max, char *error,
    size_t error_bytes);
//  The same by these threads, which the cache takes in any case.  They open, read and write it, and callers
//  do without it while the disk does not answer.  If it does not answer now: 0, and the cache is aside; it is
//  opened as soon as the disk answers, and if that fails, block_cache_figures has the error.
int block_cache_open_by (block_cache_t **self_p, block_cache_threads_t **threads_p, const char *folder,
    uint64_t bytes_max, char *error, size_t error_bytes);
//  Opens a server's cache for reading; -ENOENT: the folder has none.  Nothing is kept, and nothing given up
//  but what is found damaged; data sets that are not in the cache are not made (block_data_open: -ENOENT);
//  the time of their last use stays.  No threads: callers wait for the disk.
int block_cache_open_guest (block_cache_t **self_p, const char *folder, char *error, size_t error_bytes);
//  All data sets must be closed.  Waits for the disk, and for all threads.
void block_cache_close (block_cache_t **self_p);
//  Never waits for the disk.
block_cache_figures_t block_cache_figures (const block_cache_t *self);


//  ---- for block_data.c: requests

//  By a thread, which works on a copy of the request; without threads by the caller.  False: the cache is
//  aside, or the disk took longer than callers wait.
bool block_cache_do (block_cache_t *self, block_cache_request_t *request);
//  The same for what opens something.  While another server has the cache's lock, it is tried again for about
//  5 s, and these waits do not count as the disk's.  The last try waits for the lock (may_wait), as long as
//  callers wait for the disk.
bool block_cache_do_opening (block_cache_t *self, block_cache_request_t *request);
//  True while no request begins.
bool block_cache_is_aside (block_cache_t *self);
//  NULL: callers wait for the disk themselves.
block_cache_threads_t *block_cache_threads (const block_cache_t *self);


//  ---- for block_data.c: the folder

enum {
    BLOCK_CACHE_BLOCK_BYTES = 4096,
    BLOCK_CACHE_NAME_BYTES = 33,                //  of a data set's folder
    BLOCK_CACHE_PATH_BYTES = BLOCK_CACHE_NAME_BYTES + 8
};

//  Of DIR.
int block_cache_descriptor (const block_cache_t *self);
bool block_cache_is_open (const block_cache_t *self);
bool block_cache_is_guest (const block_cache_t *self);
//  Something was not as it was written.
void block_cache_found_damage (block_cache_t *self);
//  Whether a file begins as one of an earlier build does.  That is no damage: the cache is filled again.
bool block_cache_is_older (int descriptor);
//  Whether it is as a later build writes it: that is no damage either, and stays as it is.
bool block_cache_is_newer (int descriptor);
//  Calls for the name of each data set's folder; 0 or -errno.
typedef void (block_cache_each_fn) (void *context, const char *name);
int block_cache_each (const block_cache_t *self, block_cache_each_fn *each, void *context);
//  The local disk has failed: nothing more is written.  Returns rc.
int block_cache_failed (block_cache_t *self, int rc);
bool block_cache_has_failed (const block_cache_t *self);
//  Whether the last write found no room.
bool block_cache_is_full (const block_cache_t *self);
void block_cache_set_full (block_cache_t *self, bool is_full);
//  For the figures: other servers change it too.  Without the lock, since it is for people; what takes the
//  lock finds damage.  from_memory: only if it lies in the page cache.
void block_cache_look (block_cache_t *self, bool from_memory);

//  A data set that is closed while the disk does not answer: it ends with the cache.
typedef struct block_cache_closed {
    void (*end) (struct block_data *data);
    struct block_data *data;
    struct block_cache_closed *next;    //  the cache's
} block_cache_closed_t;

//  Lent until it ends.
void block_cache_end_later (block_cache_t *self, block_cache_closed_t *closed);

//  Takes the lock of this process and all servers; 0 or -errno and it is not taken.  A damaged DIR/usage is
//  counted again.
//  may_wait: as long as another process has it; else -EAGAIN after 0.1 s, or at once if that was so in the
//  last second.
int block_cache_begin (block_cache_t *self, bool may_wait);
void block_cache_end (block_cache_t *self);

//  -- under the lock

//  What all takes.
uint64_t block_cache_bytes (const block_cache_t *self);
//  Notes it; 0 or -errno.
int block_cache_set_bytes (block_cache_t *self, uint64_t bytes);

//  The first block of `sums`.
typedef struct {
    char format [8];
    uint64_t held;                      //  what DIR/usage counts of this data set
    uint64_t stores;                    //  how often something was written to `data`
    uint64_t sum;                       //  of what stands before it
} block_cache_head_t;

//  The head in the file `sums` of the data set of this name.  False: it is damaged, or of another version;
//  *head is one with which the data set takes rather too much.
bool block_cache_head_read (const block_cache_t *self, const char *name, int sums, block_cache_head_t *head);
//  0 or -errno.
int block_cache_head_write (int sums, const block_cache_head_t *head);
//  What the data set of this name takes, with what the file system may still need for the map of `data`.
uint64_t block_cache_room_taken (const block_cache_t *self, const char *name, uint64_t stores);
//  Measures all that is in the folder; 0 or -errno.
int block_cache_room_count (block_cache_t *self);
uint64_t block_cache_room (const block_cache_t *self);
//  Removes what no server uses until there are so many bytes of room, or as many as there can be; returns
//  the room.
uint64_t block_cache_room_make (block_cache_t *self, uint64_t bytes);
//  Removes the data set of this name; 0 too if it has gone meanwhile.  -EBUSY: a server uses it; -EIO: its
//  files cannot be removed.
int block_cache_remove (block_cache_t *self, const char *name);

#endif

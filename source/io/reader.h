/*  reader -- reads of ranges and of whole files, many at once, through io_uring, or one after the other where
 *  there is none; or of an object store's objects and their ranges, through libcurl.
 *
 *  happy path:     reader_submit .. reader_wait .. reader_take (request, rc 0, bytes there)
 *  failure modes:  a request carries its result; short reads continue where they ended, EINTR and EAGAIN are
 *                  retried, EIO and ENOMEM READER_TRIES times.  The end of the file before the end of the
 *                  range, or a sample's file of another size, is -CATALOGUE_CHANGED (not ESTALE, which file
 *                  systems return for open files).  A request `is_afresh` first opens its file again, by its
 *                  path, so that reading continues after a file system was remounted, or its server came
 *                  back.  The new descriptor is used if the file is the same (its inode, and a file's size);
 *                  otherwise the old one stays, so that a replaced file is not read.  A kernel that refuses
 *                  io_uring (-ENOSYS, -EPERM, -ENOMEM ..): reads are preadv's, done in reader_wait one by
 *                  one, and reader_mode says so and why.  A file system that refuses O_DIRECT, at opening or
 *                  at the first read: that file is read through the page cache from then on.  A ring that
 *                  fails later (a sandbox, no memory): its requests are waited for, and preadv takes over.
 *                  Of a store: transfers.h's errors; a connection that breaks in the middle of a range is
 *                  made again READER_TRIES times for what is missing; all else is for the caller's patience.
 *                  An object that has gone is -EREMCHG, like one that has changed.  With a cache on the local
 *                  disk (block_data.h) only what is not there is asked for, whole units at a time; a request
 *                  `is_afresh` does not use it, and replaces what is there.  The same holds of ranges of
 *                  files; a sample's file comes from there as a whole, or not.  In a cluster each block comes
 *                  from its home if that is another member (peers.h), and what that does not give from the
 *                  store.
 *                  With pins (pins.h) a range copies what is pinned at its beginning and at its end, reads
 *                  the gap between, whole units of it where they can be kept, and keeps what was read, of a
 *                  store also what came from the local disk or from members.  A sample's file is copied if
 *                  all of it is pinned, and otherwise read as a whole.  A request `is_afresh` gives up the
 *                  pins of its range.
 *  on close:       every request must have been taken; reader_cancel shortens the wait.
 *
 *  Ranges of registered files are read whole blocks at a time where the file is open with O_DIRECT, as small
 *  ones as the file system allows (STATX_DIOALIGN; READER_ALIGN_BYTES if it does not say).  Memory must be
 *  aligned to READER_ALIGN_BYTES and has room for reader_span bytes; `skip` says where the range begins in
 *  it.
 *  A request and its memory are the reader's from submit until take.
 *  Owner: one thread.
 */
#ifndef READER_H
#define READER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "block_data.h"
#include "catalogue.h"
#include "cluster.h"
#include "pins.h"
#include "reader_looks.h"
#include "store.h"

typedef struct reader reader_t;
typedef struct reader_backend reader_backend_t;
struct reader_file;                     //  reader_step.h

enum { READER_ALIGN_BYTES = 4096, READER_DEPTH_MAX = 256, READER_TRIES = 3 };

typedef enum { READER_RANGE, READER_FILE } reader_kind_t;

//  The state of a request; the reader's own.
typedef struct {
    uint8_t step;                       //  reader_step_t
    uint8_t tries;                      //  that ended in EIO or made no progress
    uint8_t again;                      //  tries that were interrupted, in a row
    bool direct;                        //  the read under way passes the page cache,
    unsigned int align;                 //  in blocks of so many bytes
    bool is_pinned;                     //  what comes is pinned
    bool is_kept;                       //  what was read goes to the local disk
    bool is_replaced;                   //  its file is another descriptor under the old number
    int descriptor;                     //  FILE: while it is open
    size_t begin, end;                  //  of what is to be read, from the beginning of the memory; with
                                        //  O_DIRECT, whole blocks around it
    size_t unpinned_begin, unpinned_end;        //  RANGE with pins: what was not pinned
    size_t done;                        //  bytes, from the beginning of the memory
    uint64_t began_ns;
    reader_look_t look;                 //  on the local disk
} reader_progress_t;

typedef struct reader_request {
    reader_kind_t kind;
    void *user;                         //  the caller's
    //  RANGE: of a file that reader_add took
    uint32_t file;
    uint64_t offset;
    size_t bytes;                       //  > 0
    uint8_t *memory;                    //  reader_span (offset, bytes) of room, aligned
    //  FILE: a sample's file of a plain catalogue, with catalogue_read's results; opened, read and closed
    //  through the ring.  Of a store, its object
    const catalogue_t *catalogue;
    uint32_t id;
    size_t field;
    catalogue_buffer_t *buffer;
    bool is_afresh;                     //  it failed, or was damaged: use another descriptor, past the page
                                        //  cache
    pins_file_t pins;                   //  of its file: used if that has the bytes that these say
    //  the result
    int rc;                             //  0 or -errno
    size_t skip;                        //  RANGE: the wanted bytes are memory [skip .. skip + bytes)
    uint64_t read_bytes;                //  bytes read from the disk, or the store: whole blocks, repeated
                                        //  reads included
    uint64_t wait_ns;                   //  from the first submission to the kernel to the last completion
    uint64_t cached_bytes, cached_ns;   //  what came from the local disk's cache instead, and how long that
                                        //  took, beside wait_ns
    bool is_here;                       //  FILE of a folder: the local disk has all of it, or is about to
    uint64_t pinned_bytes;              //  what was pinned, whole units
    uint64_t peer_bytes, peer_ns;       //  of a store: what came from other members instead (peers.h), and
                                        //  how long they took, each by itself
    uint32_t gets, slow_gets;           //  of a store: how often it was asked; of these, given up as far
                                        //  slower than others
    uint32_t in_flight;                 //  reads in flight when it was submitted to the kernel, or to the
                                        //  store, itself included
    //  the reader's
    struct reader_request *next;
    reader_progress_t progress;
} reader_request_t;

typedef struct {
    uint32_t depth;                     //  requests in flight at once, 1 .. READER_DEPTH_MAX.  On a store
                                        //  the bytes still to come count: a request that has half of its
                                        //  bytes is half a request, and at most twice `depth` are in flight.
                                        //  Those that are looked for on the local disk are beside these, as
                                        //  many as that disk can use (reader_looks.h)
    bool no_ring;                       //  as if the kernel refused io_uring
    bool no_direct;                     //  as if file systems refused O_DIRECT
    const reader_t *files_of;           //  a reader that has the files; destroy it after this one; NULL:
                                        //  reader_add opens them
    const store_t *store;               //  its files are objects of this store; lent; NULL: files
    const reader_backend_t *backend;    //  of a store: reader_store; else NULL
    cluster_t *cluster;                 //  of a store: members that keep blocks for each other; lent; NULL:
                                        //  this server alone
} reader_options_t;

//  Where ranges of an object are kept on the local disk.
typedef struct {
    block_data_t *data;                 //  lent for the reader's life; NULL: nowhere
    uint64_t begin;                     //  of the object there
    uint64_t bytes;                     //  of the object
    uint64_t object;                    //  its number (cluster.h)
} reader_blocks_t;

//  0, or -errno and *self_p NULL.
int reader_new (reader_t **self_p, const reader_options_t *options);
void reader_destroy (reader_t **self_p);

//  Opens and registers a file for ranges; all before the first submit.  The number in *file_p.  -errno: it
//  cannot be opened.
int reader_add (reader_t *self, const char *path, uint32_t *file_p);
//  The same with an object of the reader's store, which must have this version ("": any).  Asks for nothing.
int reader_add_object (reader_t *self, const char *url, const char *version, uint32_t *file_p);
//  From now on ranges of the file or the object are kept there.
void reader_keep_object (reader_t *self, uint32_t file, const reader_blocks_t *blocks);
//  Whether ranges of the file are read past the page cache; known for good after the first read.  Any thread.
bool reader_is_direct (const reader_t *self, uint32_t file);
//  Room that a range needs: whole blocks around it.
size_t reader_span (uint64_t offset, size_t bytes);

//  Adds a request; any number may wait, as many are in flight as `depth` says.  They begin in reader_wait and
//  reader_take.
void reader_submit (reader_t *self, reader_request_t *request);
//  Waits until a request is done or wake_descriptor (-1: none) is readable; returns at once if one is done
//  already, or if there is nothing in flight and no descriptor.  May return early, after a signal.  A reader
//  has one wake descriptor: all calls that give one give the same.
void reader_wait (reader_t *self, int wake_descriptor);
//  A request that is done, in order of completion; NULL: none.  Never waits.
reader_request_t *reader_take (reader_t *self);
//  In flight or waiting.
size_t reader_pending (const reader_t *self);
//  Ends requests that are not in flight yet, and of a store those that are as well, with -ECANCELED.  One
//  that is being looked for on the local disk ends so if it is not there.
void reader_cancel (reader_t *self);
//  Changes how many are in flight at once, from now on.
void reader_set_depth (reader_t *self, uint32_t depth);

//  "io_uring", "preadv (io_uring: Operation not permitted)", or "libcurl/7.88.1"; lent, changes if the ring
//  fails.
const char *reader_mode (const reader_t *self);
//  Whether many reads are under way at once: there is a ring, or a store.
bool reader_is_concurrent (const reader_t *self);
//  How many reads of the local disk may be under way at once; 0: none has been so far.  Any thread.
uint32_t reader_local_depth (const reader_t *self);


//  ---- what reads in place of files

//  A back end takes requests of a reader and carries them out.  Owner: the reader's thread.
struct reader_backend {
    //  0 and *state_p is the back end's; or -errno, and nothing is open.
    int (*open) (void **state_p, reader_t *reader, const reader_options_t *options);
    void (*close) (void *state);
    //  Breaks off what is under way.
    void (*cancel) (void *state);
    //  Takes what is done and keeps `depth` under way.  Never waits.
    void (*turn) (void *state);
    //  The same until a request is done or the descriptor is readable.
    void (*wait) (void *state, int wake_descriptor);
    //  As reader_mode; static.
    const char *(*mode) (void);
};

//  Reads a store.
extern const reader_backend_t reader_store;

//  The first request that waits is in flight from now on; NULL: none waits.
reader_request_t *reader_begin (reader_t *self);
//  The request in flight has its result.
void reader_finish (reader_t *self, reader_request_t *request);
//  How many are in flight, and may be at once; whether there is one to take.
uint32_t reader_in_flight (const reader_t *self);
uint32_t reader_depth (const reader_t *self);
bool reader_has_done (const reader_t *self);
//  What it looks for on the local disk; lent.
reader_looks_t *reader_looks (const reader_t *self);
//  A file or an object that was added; lent.
struct reader_file *reader_file (const reader_t *self, uint32_t file);

#endif

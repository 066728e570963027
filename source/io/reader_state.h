/*  reader_state -- the reader's structure, and what its files share; for them alone.
 *
 *      reader.c            life, files, what waits and what is done; operations through io_uring, or by
 *                          system calls, one after the other
 *      reader_step.c       a request as a row of operations: which is next, and what a result means
 *      reader_store.c      ranges of objects in a store, and whole ones
 *
 *  A range:    READ (until all is there)
 *  A file:     OPEN, READ (until all is there; none for an empty file), CLOSE
 *  Afresh:     REOPEN before these
 */
#ifndef READER_STATE_H
#define READER_STATE_H
#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <liburing.h>
#include "peers.h"
#include "reader.h"

enum { READER_MAGIC = 0x0ead0e12 };

typedef enum { READER_REOPEN, READER_OPEN, READER_READ, READER_CLOSE } reader_step_t;

typedef struct {
    int descriptor;
    atomic_bool direct;
    char *path;                         //  of an object: its URL
    uint64_t bytes, inode;              //  when it was opened
    char version [TRANSFER_VERSION_BYTES];      //  of an object
    reader_blocks_t blocks;             //  of an object
} reader_file_t;

typedef struct {
    reader_request_t *first, *last;
    size_t count;
} reader_list_t;

//  ---- a store

//  Requests, and what the peer server wants fetched.
enum { READER_RANGES_MAX = READER_DEPTH_MAX + CLUSTER_FETCHES_MAX };

//  A range of an object that is under way, in parts.
typedef struct {
    reader_request_t *request;          //  that it is for; NULL: a fetch
    cluster_fetch_t *fetch;             //  NULL too: free
    transfer_t whole;                   //  of whole units, as far as there is room for them
    char *url;                          //  of a sample's object; owned
    reader_blocks_t blocks;             //  where it is kept
    size_t data;                        //  in the cluster; SIZE_MAX: not kept in common
    size_t wanted_begin, wanted_end;    //  of the range's bytes
    size_t begun;                       //  bytes of it that are here, or that there is a part for
    size_t parts;                       //  under way
    int rc;                             //  of the first part that failed
} reader_range_t;

typedef enum {
    READER_PART_FREE,
    READER_PART_STORE,                  //  a transfer
    READER_PART_PEER,                   //  a question to its home
    READER_PART_WAITS                   //  another part of its block is being read to be kept
} reader_part_way_t;

typedef struct {
    reader_part_way_t way;
    reader_range_t *range;
    transfer_t transfer;
    peer_question_t question;
    bool is_kept;                       //  what comes of the store
    uint32_t tries;
    uint64_t began_ns;                  //  of the transfer
} reader_part_t;

//  What reads in place of files.
struct reader_backend {
    //  0, or -errno and nothing is open.
    int (*open) (reader_t *self, const reader_options_t *options);
    void (*close) (reader_t *self);
    //  Breaks off what is under way.
    void (*cancel) (reader_t *self);
    //  Takes what is done and keeps `depth` under way.  Never waits.
    void (*turn) (reader_t *self);
    //  The same until a request is done or the descriptor is readable.
    void (*wait) (reader_t *self, int wake_descriptor);
};

struct reader {
    uint32_t magic;
    //  set at birth, the files before the first request
    bool no_direct;
    bool begun;                         //  no more files
    reader_file_t *files;
    size_t file_count, file_limit;      //  limit 0: another reader's files, or none
    //  owner only
    char mode [96];
    uint32_t depth;
    uint32_t in_flight;                 //  begun and not done
    reader_list_t waiting, done;
    //  a store in place of files
    const reader_backend_t *backend;    //  NULL: files
    transfers_t *transfers;
    peers_t *peers;                     //  NULL: no cluster
    reader_range_t *ranges;           //  READER_RANGES_MAX of them
    reader_part_t *parts;               //  as many
    size_t parts_busy, fetches_busy;
    //  the ring, if there is one
    bool has_ring;
    bool files_registered;
    bool wake_armed;                    //  a poll of wake_descriptor is in the ring
    bool woken;
    int wake_descriptor;                //  -1: none so far
    unsigned int failed_submissions;    //  in a row
    struct io_uring ring;
    char (*paths) [PATH_MAX];           //  one for each entry of the submission queue, until the kernel has
                                        //  taken it
};

//  The parameters of one read.
typedef struct {
    uint8_t *memory;
    uint32_t bytes;
    uint64_t offset;
} reader_read_t;


//  -- reader.c

void reader_append (reader_list_t *list, reader_request_t *request);
reader_request_t *reader_first (reader_list_t *list);
//  The request in flight has its result.
void reader_finish (reader_t *self, reader_request_t *request);

//  -- reader_step.c

//  True: there is an operation to carry out; false: done, with rc.
bool reader_begin (reader_t *self, reader_request_t *request);
//  The operation under way had this result, >= 0 or -errno.  True: there is another to carry out.  Every
//  result of the ring and of a system call passes through here.
bool reader_advance (reader_t *self, reader_request_t *request, int result);
//  The read to carry out now.
reader_read_t reader_next_read (reader_t *self, reader_request_t *request);
//  REOPEN: what to open, and how; the path lives as long as the file or the catalogue.
const char *reader_again_path (const reader_t *self, const reader_request_t *request, int *flags_p);
//  The file to open now, below reader_root; path has PATH_MAX bytes.
void reader_path (const reader_request_t *request, char *path);
int reader_root (const reader_request_t *request);
int reader_descriptor (const reader_t *self, const reader_request_t *request);

#endif

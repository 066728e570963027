/*  reading -- the thread that owns the reader (reader.h), and the way to it and back.
 *
 *  happy path:     reading_submit (request) .. the thread gives a range its memory, reads, calls finish (in
 *                  the thread:
 *                  checks and copies what is wanted), takes the memory back .. reading_descriptor readable ..
 *                  reading_done
 *  failure modes:  in the request (reader.h).  Without io_uring, or once the ring fails, there is a thread
 *                  for each read in flight, as far as threads can be started; several may then call finish at
 *                  once.
 *  on close:       reading_stop: reads in flight are finished, waiting ones come back with -ECANCELED.
 *
 *  Memory for ranges: buffer_bytes for all of them together, given out in the order of submission; a range
 *  waits for its share.  The largest range must fit.
 *  Owner: one thread submits and takes back.
 */
#ifndef READING_H
#define READING_H
#include <stddef.h>
#include "reader.h"

typedef struct reading reading_t;

enum { READING_DEPTH_MAX = READER_DEPTH_MAX };

typedef struct {
    const char *const *paths;           //  files of ranges: request.file is the index; may be none
    const char *const *versions;        //  of a store, where paths are URLs: what reader_add_object takes
    const reader_blocks_t *blocks;      //  where each is kept on the local disk; NULL: nowhere
    size_t path_count;
    const store_t *store;               //  lent; NULL: files
    cluster_t *cluster;                 //  of a store: reader_options_t's
    size_t buffer_bytes;                //  at least reader_span of the largest range
    size_t requests_max;                //  submitted and not yet taken back, at most
    uint32_t depth;                     //  1 .. READING_DEPTH_MAX
    bool no_ring, no_direct;
    void (*finish) (void *context, reader_request_t *request);      //  in a reading thread, for ranges with
                                                                    //  rc 0; may set rc
    void *context;
} reading_options_t;

//  0 and the threads run; or -errno and *self_p NULL, with the path in *path_p if it cannot be opened.
int reading_new (reading_t **self_p, const reading_options_t *options, const char **path_p);
void reading_destroy (reading_t **self_p);
//  request->memory is ignored: ranges get memory in the thread.  After reading_stop the request comes back
//  with -ECANCELED.
void reading_submit (reading_t *self, reader_request_t *request);
//  A finished request, or NULL.  Never blocks.
reader_request_t *reading_done (reading_t *self);
//  Requests that were submitted and are not taken back.
size_t reading_pending (const reading_t *self);
//  Readable while reading_done has something.
int reading_descriptor (const reading_t *self);
//  From now on at most so many requests are in flight at once.
void reading_set_depth (reading_t *self, uint32_t depth);
//  How many may be in flight: fewer than asked for if threads cannot be started.
uint32_t reading_depth (const reading_t *self);
//  The same without those that the local disk answers, which are under way beside the others.
uint32_t reading_source_depth (const reading_t *self);
//  No thread runs after it; reading_done gives back all submitted requests.
void reading_stop (reading_t *self);
//  reader_mode; lent.
const char *reading_mode (const reading_t *self);
bool reading_is_direct (const reading_t *self, uint32_t file);

#endif

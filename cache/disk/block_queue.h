/*  block_queue -- one caller's requests to the cache on the local disk that are under way beside each other
 *  (block_cache_threads.h).
 *
 *  happy path:     block_queue_put .. (block_queue_descriptor is readable) .. block_queue_take ..
 *                  block_queue_free
 *  failure modes:  a request that takes longer than callers wait is taken without an answer, as is one for
 *                  which there is no memory; what its thread reads later goes nowhere.
 *  on close:       waits for what is under way, as long as callers wait for it.
 *  Owner: one thread.
 */
#ifndef BLOCK_QUEUE_H
#define BLOCK_QUEUE_H
#include "block_cache_threads.h"

typedef struct block_queue block_queue_t;

//  threads: lent.  NULL: no memory, or no descriptors.
block_queue_t *block_queue_new (block_cache_threads_t *threads);
void block_queue_destroy (block_queue_t **self_p);
//  Of a copy of the request.  False: the cache is aside, or there is no memory.
bool block_queue_put (block_queue_t *self, const block_cache_request_t *request, void *user);
//  One that has ended: *request_p has its results, and its memory what was read, until block_queue_free;
//  NULL: there is no answer.  False: none has.  Never waits.
bool block_queue_take (block_queue_t *self, block_cache_request_t **request_p, void **user_p);
void block_queue_free (block_cache_request_t *request);
//  Those of this user will not be taken.
void block_queue_drop (block_queue_t *self, const void *user);
//  Readable when there may be something to take.
int block_queue_descriptor (const block_queue_t *self);
block_cache_threads_t *block_queue_threads (const block_queue_t *self);

#endif

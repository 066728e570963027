/*  bucket_question -- an operator's question: what an epoch over data in a bucket takes under each policy,
 *  in bytes, seconds, GETs and money.
 *
 *  One job runs on `nodes` machines; each draws its slice of every epoch's fresh shuffle, and has a cache,
 *  a link and an equal part of the rate of its own.  The policies:
 *    - each sample is an object, and nothing is cached;
 *    - the same with a cache that evicts what was used longest ago;
 *    - DELI with f = tau = q/2 (bucket_deli.h); its service and its loader share a node's link and GETs;
 *    - NoPFS: each node keeps what it will use most, and serves it to the others;
 *    - pinned caches that divide the data between the nodes, of single objects, and of a pack's pieces.
 *  All but DELI read ahead in the order of the epoch, up to `memory` (bucket_clock.h).  Reading from a
 *  cache or from another node takes no time.  Loaders of single objects list the bucket once an epoch,
 *  DELI for each post.
 *
 *  The first epoch and a later one, with all caches full, are played; the money is that of the later one.
 *  Nodes with caches of their own are alike: one of them is played, and counts for all.
 *  Owner: one thread.
 */
#ifndef BUCKET_QUESTION_H
#define BUCKET_QUESTION_H
#include <stdint.h>
#include "bucket_clock.h"
#include "bucket_prices.h"

enum {
    BUCKET_QUESTION_DIRECT, BUCKET_QUESTION_LRU, BUCKET_QUESTION_DELI, BUCKET_QUESTION_NOPFS,
    BUCKET_QUESTION_OBJECTS, BUCKET_QUESTION_PACK, BUCKET_QUESTION_POLICIES
};

typedef struct {
    double data;                    //  bytes
    uint32_t samples, nodes, epochs;
    double rate;                    //  samples a second of the job
    bucket_store_t store;           //  of each node
    double cache, memory;           //  bytes of each node
    double piece;                   //  bytes of a GET from a pack
    bucket_prices_t prices;
} bucket_question_t;

//  Of all nodes together; seconds: of the slowest.
typedef struct {
    double bytes, gets, lists, seconds;
    double first_bytes, first_seconds;
    double money;
} bucket_answer_t;

//  NULL: the question makes sense; else what is wrong.
const char *bucket_question_trouble (const bucket_question_t *self);
//  answers [BUCKET_QUESTION_POLICIES] is written.
void bucket_question_answer (const bucket_question_t *self, uint64_t seed, bucket_answer_t *answers);
const char *bucket_question_name (int policy);

#endif

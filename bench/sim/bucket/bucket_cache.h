/*  bucket_cache -- a worker's local cache: which samples (or pieces of a pack) it holds.
 *
 *  BUCKET_FIFO evicts what came first, BUCKET_LRU what was used longest ago.  BUCKET_PINNED fills until it is
 *  full and evicts nothing; with fresh shuffles no rule misses less.
 *
 *  Invariants, checked by bucket_cache_check ():
 *    B1  it holds at most capacity units, each once.
 *    B2  the list of held units is whole in both directions.
 *  Owner: one thread.
 */
#ifndef BUCKET_CACHE_H
#define BUCKET_CACHE_H
#include <stdbool.h>
#include <stdint.h>

typedef enum { BUCKET_FIFO, BUCKET_LRU, BUCKET_PINNED } bucket_rule_t;
typedef struct bucket_cache bucket_cache_t;

//  units > 0; a capacity of 0 holds nothing.
bucket_cache_t *bucket_cache_new (bucket_rule_t rule, uint32_t units, uint32_t capacity);
void bucket_cache_destroy (bucket_cache_t **self_p);
bool bucket_cache_holds (const bucket_cache_t *self, uint32_t unit);
//  A use of a unit: true if it is held.
bool bucket_cache_use (bucket_cache_t *self, uint32_t unit);
//  A unit that is not held comes in, if the rule has room for it.
void bucket_cache_insert (bucket_cache_t *self, uint32_t unit);
uint32_t bucket_cache_count (const bucket_cache_t *self);
void bucket_cache_check (const bucket_cache_t *self);

//  One of `workers` workers with a cache that takes in what it misses: its misses in each of `epochs` epochs.
typedef struct {
    bucket_rule_t rule;
    uint32_t units, workers, capacity, epochs;
} bucket_cache_plan_t;
void bucket_cache_run (const bucket_cache_plan_t *plan, uint64_t seed, uint32_t *misses);

//  Closed forms; share: of the data that the cache holds, from 0 to 1.

//  Misses of BUCKET_LRU with one worker, as a share of all draws.
double bucket_cache_lru_misses (double share);
//  The same of BUCKET_FIFO in the second epoch, of one of several workers.  workers > 1.
//  partitions: the capacity in slices of a worker.
double bucket_cache_second_misses (uint32_t workers, double partitions);

#endif

/*  bucket_deli -- DELI (Krichevsky, St Louis, Guo 2021): a sampler that announces samples, a service that
 *  fetches them, and a FIFO cache, on a virtual clock.
 *
 *  The sampler takes `fetch` ids whenever its queue holds at most `threshold`, and posts them.  The
 *  service drops those that are cached, GETs the others, all posts side by side, and inserts a post's
 *  samples when all have come.  The loader takes a batch's ids, then the samples one by one: from the
 *  cache, or by a GET of its own, which is not inserted.  Then the job computes on the batch.  The cache
 *  and the queue go on into the next epoch.
 *
 *  Without prefetching (fetch 0) nothing is posted, and what is missed goes into the cache.
 *  Owner: one thread.
 */
#ifndef BUCKET_DELI_H
#define BUCKET_DELI_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t samples, workers;          //  of the data; each worker draws samples / workers in an epoch
    uint32_t fetch, threshold, cache;   //  samples
    uint32_t batch;                     //  > 0
    double get_seconds;                 //  of the loader's GET
    double gets_per_second;             //  of the service, all its threads together
    //  Service and loader share what gives gets_per_second: a GET of the loader takes twice its time while
    //  the service is busy, which becomes later by it.  Else each has what is said here by itself.
    bool is_shared;
    double hit_seconds, compute_seconds;        //  of a sample
    uint32_t epochs;
} bucket_deli_plan_t;

typedef struct {
    uint64_t draws, misses;
    uint64_t gets;                      //  of service and loader
    uint64_t posts;
    double loading, seconds;            //  the loader's share; the whole epoch
} bucket_deli_epoch_t;

//  Plays one of the workers.  epochs [plan->epochs] is written.
void bucket_deli_run (const bucket_deli_plan_t *plan, uint64_t seed, bucket_deli_epoch_t *epochs);

//  The paper's cost model, in money, for all machines and epochs.
typedef struct {
    uint32_t machines, epochs;
    double system_gb, data_gb;          //  of the operating system; of the data
    double cached_share;                //  of the data, on each machine's disk: 1 without a bucket
    double disk_gb, bucket_gb;          //  price of a GB, for the time of the run
    double machine_hour;
    double seconds;                     //  computing and loading, all epochs
    double list_price, get_price;       //  of a request
    double samples, page, fetch;        //  page: names that one listing gives; fetch 0: a listing an epoch
    double group;                       //  samples of a super-sample
} bucket_deli_cost_t;
double bucket_deli_disk_cost (const bucket_deli_cost_t *cost);
double bucket_deli_bucket_cost (const bucket_deli_cost_t *cost);

#endif

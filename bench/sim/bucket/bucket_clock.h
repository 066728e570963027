/*  bucket_clock -- a virtual clock for a loader that reads ahead from a bucket.
 *
 *  The loader knows its order, and has up to `reads` GETs under way.  A GET waits for the latency, then
 *  for its bytes at the speed of one stream, and all GETs together share the link.  The job takes a unit
 *  when it is there and the job is ready for it; a GET does not begin before the unit fits into what may
 *  be read ahead.
 *  Owner: one thread.
 */
#ifndef BUCKET_CLOCK_H
#define BUCKET_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double latency;                 //  seconds
    double stream, link;            //  bytes a second: of one GET, of all together
    uint32_t reads;                 //  GETs under way at most, > 0
} bucket_store_t;

typedef struct bucket_clock bucket_clock_t;

//  unit_bytes: of a GET.  unit_seconds: how long the job is busy with a unit.  ahead: units, > 0.
bucket_clock_t *bucket_clock_new (const bucket_store_t *store, double unit_bytes, double unit_seconds,
    uint32_t ahead);
void bucket_clock_destroy (bucket_clock_t **self_p);
//  The next unit of the order, from the store or from a cache, which takes no time.
void bucket_clock_step (bucket_clock_t *self, bool from_store);
//  When the job will be done with the last unit.
double bucket_clock_seconds (const bucket_clock_t *self);

//  GETs a second when all are under way, and seconds of one that is alone.
double bucket_clock_store_rate (const bucket_store_t *self, double bytes);
double bucket_clock_store_alone (const bucket_store_t *self, double bytes);

#endif

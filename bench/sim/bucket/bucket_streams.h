/*  bucket_streams -- which samples each worker uses in which order, under each of NoPFS's policies, and which
 *  worker keeps which sample.
 *
 *  Owner: one thread.
 */
#ifndef BUCKET_STREAMS_H
#define BUCKET_STREAMS_H
#include <stddef.h>
#include "bucket_nopfs.h"

enum { BUCKET_STREAMS_UNKEPT = 0 };             //  else the class that keeps it, 1 or 2

typedef struct {
    uint32_t workers, samples;      //  scaled
    uint32_t slice, epochs;         //  samples of a worker in an epoch
    uint32_t **streams;             //  [worker] [epochs x slice]
    double *sizes;                  //  [samples], MB
    uint8_t *kept;                  //  [worker x samples + id]
    double room [BUCKET_NOPFS_WORKERS_MAX] [BUCKET_NOPFS_CLASSES];          //  MB that are free in each class
} bucket_streams_t;

bucket_streams_t *bucket_streams_new (const bucket_nopfs_plan_t *plan, uint64_t seed);
void bucket_streams_destroy (bucket_streams_t **self_p);
//  Keeps a sample in this class, if there is room.
bool bucket_streams_keep (bucket_streams_t *self, uint32_t worker, uint32_t id, uint8_t class);
static inline uint8_t
bucket_streams_kept (const bucket_streams_t *self, uint32_t worker, uint32_t id)
{
    return self->kept [(size_t) worker * self->samples + id];
}

#endif

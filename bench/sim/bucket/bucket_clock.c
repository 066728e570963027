#include "bucket_clock.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "simulated_memory.h"

struct bucket_clock {
    bucket_store_t store;
    double unit_bytes, unit_seconds;
    double *free_at;                //  of each read
    double *taken_at;               //  of the last `ahead` units, in a ring
    uint32_t next_read;             //  GETs are alike, so reads are free in the order in which they began
    uint32_t ahead;
    uint64_t units;
    double link_free, done;
};

double
bucket_clock_store_alone (const bucket_store_t *self, double bytes)
{
    return self->latency + bytes / fmin (self->stream, self->link);
}

double
bucket_clock_store_rate (const bucket_store_t *self, double bytes)
{
    return fmin (self->reads / bucket_clock_store_alone (self, bytes), self->link / bytes);
}

bucket_clock_t *
bucket_clock_new (const bucket_store_t *store, double unit_bytes, double unit_seconds, uint32_t ahead)
{
    assert (store->reads > 0 && ahead > 0);
    bucket_clock_t *self = simulated_alloc (1, sizeof *self);
    *self = (bucket_clock_t) {
        .store = *store, .unit_bytes = unit_bytes, .unit_seconds = unit_seconds, .ahead = ahead
    };
    self->free_at = simulated_alloc (store->reads, sizeof *self->free_at);
    self->taken_at = simulated_alloc (ahead, sizeof *self->taken_at);
    return self;
}

void
bucket_clock_destroy (bucket_clock_t **self_p)
{
    bucket_clock_t *self = *self_p;
    if (!self)
        return;
    free (self->free_at);
    free (self->taken_at);
    free (self);
    *self_p = NULL;
}

//  When a GET that begins as soon as there is room for its unit has all bytes.
static double
s_read (bucket_clock_t *self, double room_at)
{
    double *free_at = &self->free_at [self->next_read];
    double first_byte = fmax (room_at, *free_at) + self->store.latency;
    self->link_free = fmax (self->link_free, first_byte) + self->unit_bytes / self->store.link;
    *free_at = fmax (self->link_free, first_byte + self->unit_bytes / self->store.stream);
    self->next_read = (self->next_read + 1) % self->store.reads;
    return *free_at;
}

void
bucket_clock_step (bucket_clock_t *self, bool from_store)
{
    //  The unit takes the room of the one that lies `ahead` units before it.
    double *taken_at = &self->taken_at [self->units++ % self->ahead];
    double there = from_store? s_read (self, *taken_at): 0;
    *taken_at = fmax (there, self->done);
    self->done = *taken_at + self->unit_seconds;
}

double
bucket_clock_seconds (const bucket_clock_t *self)
{
    return self->done;
}

#include "bucket_streams.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "bucket_draws.h"
#include "bucket_frequency.h"
#include "simulated_memory.h"

//  ---- sizes

//  Box and Muller's method.
static double
s_normal (random_t *random)
{
    double radius = sqrt (-2 * log (1 - random_real (random)));
    return radius * cos (2 * acos (-1) * random_real (random));
}

static void
s_draw_sizes (bucket_streams_t *self, const bucket_nopfs_data_t *data, uint64_t seed)
{
    random_t random = random_from_seed (seed);
    double sum = 0;
    for (uint32_t id = 0; id < self->samples; id++) {
        do
            self->sizes [id] = data->mean + data->deviation * s_normal (&random);
        while (self->sizes [id] <= 0);
        sum += self->sizes [id];
    }
    for (uint32_t id = 0; id < self->samples; id++)
        self->sizes [id] *= data->mean * self->samples / sum;
}

//  ---- what is kept where

bool
bucket_streams_keep (bucket_streams_t *self, uint32_t worker, uint32_t id, uint8_t class)
{
    if (self->room [worker] [class] < self->sizes [id])
        return false;
    self->room [worker] [class] -= self->sizes [id];
    self->kept [(size_t) worker * self->samples + id] = class;
    return true;
}

//  In the fastest class that has room.
static void
s_keep (bucket_streams_t *self, uint32_t worker, uint32_t id, uint8_t last_class)
{
    for (uint8_t class = 1; class <= last_class; class++)
        if (bucket_streams_keep (self, worker, id, class))
            return;
}

static void
s_keep_parts (bucket_streams_t *self, uint8_t last_class)
{
    for (uint32_t id = 0; id < self->samples; id++)
        s_keep (self, id % self->workers, id, last_class);
}

//  NoPFS: what a worker uses most comes first, into the fastest class.
static void
s_keep_frequent (bucket_streams_t *self)
{
    uint16_t *uses = simulated_alloc (self->samples, sizeof *uses);
    uint32_t *order = simulated_alloc (self->samples, sizeof *order);
    for (uint32_t worker = 0; worker < self->workers; worker++) {
        for (uint32_t id = 0; id < self->samples; id++)
            uses [id] = 0;
        for (size_t at = 0; at < (size_t) self->epochs * self->slice; at++)
            uses [self->streams [worker] [at]]++;
        uint32_t used = bucket_frequency_order (uses, self->samples, order);
        for (uint32_t at = 0; at < used; at++)
            s_keep (self, worker, order [at], BUCKET_NOPFS_CLASSES - 1);
    }
    free (order);
    free (uses);
}

//  ---- streams

static void
s_shuffle (uint32_t *ids, uint32_t count, random_t *random)
{
    for (uint32_t place = count; place > 1; place--) {
        uint32_t other = (uint32_t) random_below (random, place), id = ids [place - 1];
        ids [place - 1] = ids [other];
        ids [other] = id;
    }
}

//  Equal slices of a shuffle.
static void
s_deal_epoch (bucket_streams_t *self, uint32_t epoch, const uint32_t *order)
{
    for (uint32_t worker = 0; worker < self->workers; worker++)
        for (uint32_t at = 0; at < self->slice; at++)
            self->streams [worker] [(size_t) epoch * self->slice + at] =
                order [(size_t) at * self->workers + worker];
}

//  Of count samples of all workers: each goes to its keeper, until that has its part; others fill the parts.
static void
s_deal_local (bucket_streams_t *self, const uint32_t *order, uint32_t count, uint32_t **ends)
{
    uint32_t left [BUCKET_NOPFS_WORKERS_MAX], rest = 0, *others = simulated_alloc (count, sizeof *others);
    for (uint32_t worker = 0; worker < self->workers; worker++)
        left [worker] = count / self->workers;
    for (uint32_t at = 0; at < count; at++) {
        uint32_t id = order [at], keeper = id % self->workers;
        if (bucket_streams_kept (self, keeper, id) && left [keeper]) {
            *ends [keeper]++ = id;
            left [keeper]--;
        }
        else
            others [rest++] = id;
    }
    for (uint32_t worker = 0; worker < self->workers; worker++)
        for (; left [worker]; left [worker]--)
            *ends [worker]++ = others [--rest];
    assert (rest == 0);
    free (others);
}

static void
s_deal_epoch_local (bucket_streams_t *self, uint32_t epoch, const uint32_t *order, uint32_t batch)
{
    uint32_t *ends [BUCKET_NOPFS_WORKERS_MAX], count = self->slice * self->workers;
    for (uint32_t worker = 0; worker < self->workers; worker++)
        ends [worker] = self->streams [worker] + (size_t) epoch * self->slice;
    for (uint32_t first = 0; first < count; first += batch * self->workers) {
        uint32_t rest = count - first, whole = batch * self->workers;
        s_deal_local (self, order + first, rest < whole? rest: whole, ends);
    }
}

//  Shuffles of the given samples, one after another, until the epoch is full.
static void
s_repeat (uint32_t *stream, uint32_t length, uint32_t *ids, uint32_t count, random_t *random)
{
    assert (count > 0);
    for (uint32_t at = 0; at < length; at++) {
        if (at % count == 0)
            s_shuffle (ids, count, random);
        stream [at] = ids [at % count];
    }
}

//  What workers from first_worker up to end_worker keep.
static uint32_t
s_list_kept (const bucket_streams_t *self, uint32_t first_worker, uint32_t end_worker, uint32_t *ids)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < self->samples; id++) {
        uint32_t keeper = id % self->workers;
        if (keeper >= first_worker && keeper < end_worker && bucket_streams_kept (self, keeper, id))
            ids [count++] = id;
    }
    return count;
}

//  Every worker uses its own part only; or, from the second epoch on, what is in any worker's memory.
static void
s_deal_kept (bucket_streams_t *self, bool is_own, random_t *random)
{
    uint32_t *ids = simulated_alloc (self->samples, sizeof *ids), slice = self->slice;
    for (uint32_t worker = 0; worker < self->workers; worker++)
        for (uint32_t epoch = 0; epoch < (is_own? self->epochs: 1); epoch++) {
            uint32_t count = s_list_kept (self, worker, worker + 1, ids);
            s_repeat (self->streams [worker] + (size_t) epoch * slice, slice, ids, count, random);
        }
    uint32_t *all = simulated_alloc ((size_t) slice * self->workers, sizeof *all);
    for (uint32_t epoch = 1; epoch < self->epochs && !is_own; epoch++) {
        uint32_t count = s_list_kept (self, 0, self->workers, ids);
        s_repeat (all, slice * self->workers, ids, count, random);
        s_deal_epoch (self, epoch, all);
    }
    free (all);
    free (ids);
}

static void
s_deal (bucket_streams_t *self, const bucket_nopfs_plan_t *plan, uint64_t seed)
{
    bucket_draws_t *draws = bucket_draws_new (self->samples, seed);
    for (uint32_t epoch = 0; epoch < self->epochs; epoch++) {
        const uint32_t *order = bucket_draws_epoch (draws, self->slice * self->workers);
        if (plan->policy == BUCKET_LOCALITY)
            s_deal_epoch_local (self, epoch, order, plan->data.batch);
        else
            s_deal_epoch (self, epoch, order);
    }
    bucket_draws_destroy (&draws);
}

static void
s_arrange (bucket_streams_t *self, const bucket_nopfs_plan_t *plan, uint64_t seed)
{
    random_t random = random_from_seed (seed + 1);
    bool is_disk_used = plan->policy == BUCKET_PARALLEL || plan->policy == BUCKET_LOCALITY;
    if (is_disk_used || plan->policy == BUCKET_LBANN_PRELOAD || plan->policy == BUCKET_DEEPIO_OPPORTUNISTIC)
        s_keep_parts (self, is_disk_used? 2: 1);
    if (plan->policy == BUCKET_PARALLEL || plan->policy == BUCKET_DEEPIO_OPPORTUNISTIC)
        s_deal_kept (self, plan->policy == BUCKET_PARALLEL, &random);
    else
        s_deal (self, plan, seed);
    if (plan->policy == BUCKET_FREQUENCY)
        s_keep_frequent (self);
}

bucket_streams_t *
bucket_streams_new (const bucket_nopfs_plan_t *plan, uint64_t seed)
{
    uint32_t workers = plan->data.workers, samples = (uint32_t) (plan->data.samples / plan->scale);
    assert (workers > 0 && workers <= BUCKET_NOPFS_WORKERS_MAX && samples >= workers && plan->epochs > 0);
    bucket_streams_t *self = simulated_alloc (1, sizeof *self);
    *self = (bucket_streams_t) {
        .workers = workers, .samples = samples, .slice = samples / workers, .epochs = plan->epochs
    };
    self->sizes = simulated_alloc (samples, sizeof *self->sizes);
    self->kept = simulated_alloc ((size_t) workers * samples, sizeof *self->kept);
    self->streams = simulated_alloc (workers, sizeof *self->streams);
    for (uint32_t worker = 0; worker < workers; worker++) {
        self->streams [worker] = simulated_alloc ((size_t) plan->epochs * self->slice,
            sizeof **self->streams);
        for (int class = 0; class < BUCKET_NOPFS_CLASSES; class++)
            self->room [worker] [class] = plan->machine.capacity [class] / plan->scale;
    }
    s_draw_sizes (self, &plan->data, seed + 2);
    s_arrange (self, plan, seed);
    return self;
}

void
bucket_streams_destroy (bucket_streams_t **self_p)
{
    bucket_streams_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t worker = 0; worker < self->workers; worker++)
        free (self->streams [worker]);
    free (self->streams);
    free (self->sizes);
    free (self->kept);
    free (self);
    *self_p = NULL;
}

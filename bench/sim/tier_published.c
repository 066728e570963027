#include "tier_published.h"
#include <assert.h>
#include <stdlib.h>
#include "published_random.h"
#include "simulated_memory.h"
#include "tier_disk.h"

typedef struct {
    const tier_plan_t *plan;
    random_t random;
    uint8_t *consumed;          //  by id: in this epoch
    raw_pool_t *pool;
    tier_disk_t *disk;
    tier_result_t *result;
    orders_record_t *record;
    uint32_t *requests, *order;
} published_t;

//  raw_pool's choices among equals.
static uint64_t
s_bounded (void *random, uint64_t bound)
{
    return published_random_below (random, bound);
}

static size_t
s_sample_bytes (void *context, uint32_t id)
{
    (void) id;
    return ((const published_t *) context)->plan->sample_bytes;
}

static raw_need_t
s_need (void *context, uint32_t job, uint32_t id)
{
    (void) job;
    return ((const published_t *) context)->consumed [id]? RAW_UNNEEDED: RAW_NEEDED;
}

static bool
s_accepts (void *context, uint32_t id)
{
    return !((const published_t *) context)->consumed [id];
}

static void
s_read_all (published_t *self, uint32_t epoch)
{
    raw_read_t read;
    while (raw_pool_next (self->pool, &read)) {
        self->result->loads [epoch]++;
        self->result->reads++;
        self->result->read_bytes += tier_disk_bytes (self->disk, read.first, read.count);
        self->result->filled += (uint64_t) __builtin_popcountll (read.keep);
    }
    raw_pool_figures_t figures = raw_pool_figures (self->pool);
    if (figures.resident_bytes > self->result->most_bytes)
        self->result->most_bytes = figures.resident_bytes;
    mean_add (&self->result->resident, (double) figures.resident_bytes / (double) figures.limit_bytes);
}

//  Of a chunk that lacks samples.
static void
s_read_single (published_t *self, uint32_t epoch, uint32_t id)
{
    tier_result_t *result = self->result;
    uint64_t bytes = tier_disk_bytes (self->disk, self->disk->positions [id], 1);
    result->singles++;
    result->singles_by_epoch [epoch]++;
    result->single_bytes += bytes;
    result->read_bytes += bytes;
}

static void
s_play_epoch (published_t *self, uint32_t epoch)
{
    tier_result_t *result = self->result;
    published_random_shuffle (&self->random, self->requests, self->plan->samples);
    for (uint32_t place = 0; place < self->plan->samples; place++) {
        uint32_t id = raw_pool_redirect (self->pool, self->requests [place], s_accepts, self);
        assert (!self->consumed [id]);
        self->consumed [id] = 1;
        s_read_all (self, epoch);
        if (!raw_pool_take (self->pool, id))
            s_read_single (self, epoch, id);
        self->order [place] = id;
        orders_record_deliver (self->record, id);
        result->order_hash = tier_hash_add (result->order_hash, id);
    }
    orders_record_epoch_end (self->record);
    tier_mixing_add (&result->jobs->mixing, self->order, self->plan->samples, self->disk->positions,
        self->plan->samples, self->plan->chunk, self->plan->piece, self->plan->batch);
    for (uint32_t id = 0; id < self->plan->samples; id++)
        self->consumed [id] = 0;
    raw_pool_needs_grew (self->pool);
}

static void
s_set_up (published_t *self, uint64_t seed)
{
    const tier_plan_t *plan = self->plan;
    tier_result_t *result = self->result;
    uint32_t epochs = plan->jobs->epochs;
    self->random = published_random_new (seed);
    self->disk = tier_disk_new_plain (plan);
    self->consumed = simulated_alloc (plan->samples, 1);
    self->requests = simulated_alloc (plan->samples, sizeof *self->requests);
    self->order = simulated_alloc (plan->samples, sizeof *self->order);
    raw_pool_options_t options = {
        .ops = &raw_redox_ops, .samples = plan->samples, .order = self->disk->order,
        .positions = self->disk->positions, .breaks = self->disk->breaks,
        .break_count = self->disk->break_count,
        .sample_bytes = s_sample_bytes, .need = s_need, .context = self,
        .random_below = s_bounded, .random = &self->random,
        .limit_bytes = tier_disk_limit (plan), .piece = plan->piece, .chunk = plan->chunk,
        .virtual_chunks = plan->virtual_chunks
    };
    self->pool = raw_pool_new (&options);
    orders_options_t orders = { .to = plan->samples, .batch = plan->batch, .epochs_max = epochs };
    self->record = orders_record_new (&orders);
    *result = (tier_result_t) {
        .loads = simulated_alloc (epochs, sizeof *result->loads), .load_count = epochs,
        .singles_by_epoch = simulated_alloc (epochs, sizeof *result->singles_by_epoch),
        .jobs = simulated_alloc (1, sizeof *result->jobs), .job_count = 1,
        .data_epochs = (double) plan->samples * (double) plan->sample_bytes * epochs,
        .limit_bytes = options.limit_bytes, .order_hash = tier_hash_begin ()
    };
}

static void
s_tear_down (published_t *self)
{
    tier_result_t *result = self->result;
    result->handed = result->deliveries = (uint64_t) self->plan->samples * result->load_count;
    result->discarded = raw_pool_figures (self->pool).discarded;
    result->jobs->order_hash = result->order_hash;
    result->jobs->orders = orders_record_figures (self->record);
    orders_record_destroy (&self->record);
    raw_pool_destroy (&self->pool);
    tier_disk_destroy (&self->disk);
    free (self->consumed);
    free (self->requests);
    free (self->order);
}

tier_result_t
tier_published_run (const tier_plan_t *plan, uint64_t seed)
{
    assert (plan->policy == RAW_REDOX && plan->job_count == 1);
    tier_result_t result;
    published_t self = { .plan = plan, .result = &result };
    s_set_up (&self, seed);
    for (uint32_t epoch = 0; epoch < plan->jobs->epochs; epoch++)
        s_play_epoch (&self, epoch);
    s_tear_down (&self);
    return result;
}

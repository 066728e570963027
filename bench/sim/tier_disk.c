#include "tier_disk.h"
#include <stdlib.h>
#include "random.h"
#include "simulated_memory.h"

static const uint64_t VOLUME_BYTES = UINT64_C (1) << 30;

static uint64_t
s_round_up (uint64_t bytes, uint64_t align)
{
    return (bytes + align - 1) / align * align;
}

static void
s_cut_volumes (tier_disk_t *self)
{
    const tier_plan_t *plan = self->plan;
    uint64_t chunks = VOLUME_BYTES / self->chunk_bytes, samples = (chunks? chunks: 1) * plan->chunk;
    self->break_count = (size_t) ((plan->samples + samples - 1) / samples);
    self->breaks = simulated_alloc (self->break_count, sizeof *self->breaks);
    for (size_t volume = 0; volume < self->break_count; volume++)
        self->breaks [volume] = (uint32_t) (volume * samples);
}

tier_disk_t *
tier_disk_new_plain (const tier_plan_t *plan)
{
    tier_disk_t *self = simulated_alloc (1, sizeof *self);
    self->plan = plan;
    self->chunk_bytes = s_round_up ((uint64_t) plan->chunk * plan->sample_bytes, plan->align);
    self->order = simulated_alloc (plan->samples, sizeof *self->order);
    self->positions = simulated_alloc (plan->samples, sizeof *self->positions);
    for (uint32_t place = 0; place < plan->samples; place++)
        self->order [place] = self->positions [place] = place;
    s_cut_volumes (self);
    return self;
}

tier_disk_t *
tier_disk_new (const tier_plan_t *plan, uint64_t seed)
{
    tier_disk_t *self = tier_disk_new_plain (plan);
    random_t random = random_from_seed (seed);
    for (uint32_t place = plan->samples - 1; place > 0; place--) {
        uint32_t other = (uint32_t) random_below (&random, (uint64_t) place + 1), id = self->order [place];
        self->order [place] = self->order [other];
        self->order [other] = id;
    }
    for (uint32_t place = 0; place < plan->samples; place++)
        self->positions [self->order [place]] = place;
    return self;
}

void
tier_disk_destroy (tier_disk_t **self_p)
{
    tier_disk_t *self = *self_p;
    if (!self)
        return;
    free (self->order);
    free (self->positions);
    free (self->breaks);
    free (self);
    *self_p = NULL;
}

static uint64_t
s_offset (const tier_disk_t *self, uint32_t place)
{
    const tier_plan_t *plan = self->plan;
    return place / plan->chunk * self->chunk_bytes + (uint64_t) (place % plan->chunk) * plan->sample_bytes;
}

uint64_t
tier_disk_bytes (const tier_disk_t *self, uint32_t first, uint32_t count)
{
    uint64_t align = self->plan->align, begin = s_offset (self, first);
    uint64_t end = s_offset (self, first + count - 1) + self->plan->sample_bytes;
    return s_round_up (end, align) - begin / align * align;
}

size_t
tier_disk_limit (const tier_plan_t *plan)
{
    if (plan->policy == RAW_REDOX && plan->virtual_chunks)
        return (size_t) plan->virtual_chunks * plan->chunk * plan->sample_bytes;
    return (size_t) (plan->memory * plan->samples + 0.5) * plan->sample_bytes;
}

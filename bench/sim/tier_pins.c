#include "tier_pins.h"
#include <stdbool.h>
#include <stdlib.h>
#include "simulated_memory.h"

enum {
    BLOCK_BYTES = 4 * 1024 * 1024,
    BLOCKS_LEAST = 64                   //  of a small pack blocks are smaller
};

struct tier_pins {
    const tier_disk_t *disk;            //  lent
    bool *here;                         //  by place
    bool *reserved;                     //  by block
    uint32_t block;                     //  samples
    uint64_t limit, taken;              //  samples of blocks
    uint64_t count;                     //  that are here
};

tier_pins_t *
tier_pins_new (const tier_disk_t *disk)
{
    const tier_plan_t *plan = disk->plan;
    if (plan->pins <= 0)
        return NULL;
    tier_pins_t *self = simulated_alloc (1, sizeof *self);
    uint64_t block = BLOCK_BYTES / plan->sample_bytes, most = plan->samples / BLOCKS_LEAST;
    block = block < most? block: most;
    self->disk = disk;
    self->block = block? (uint32_t) block: 1;
    self->limit = (uint64_t) (plan->pins * plan->samples + 0.5);
    self->here = simulated_alloc (plan->samples, sizeof *self->here);
    self->reserved = simulated_alloc (plan->samples / self->block + 1, sizeof *self->reserved);
    return self;
}

void
tier_pins_destroy (tier_pins_t **self_p)
{
    tier_pins_t *self = *self_p;
    if (!self)
        return;
    free (self->here);
    free (self->reserved);
    free (self);
    *self_p = NULL;
}

//  Whether the sample's block has memory.
static bool
s_reserve (tier_pins_t *self, uint32_t place)
{
    uint32_t number = place / self->block, begin = number * self->block,
        left = self->disk->plan->samples - begin, samples = left < self->block? left: self->block;
    if (!self->reserved [number] && self->taken + samples <= self->limit) {
        self->reserved [number] = true;
        self->taken += samples;
    }
    return self->reserved [number];
}

uint64_t
tier_pins_read (tier_pins_t *self, uint32_t first, uint32_t count)
{
    uint32_t begin = first, end = first + count;
    while (begin < end && self->here [begin])
        begin++;
    while (end > begin && self->here [end - 1])
        end--;
    for (uint32_t place = begin; place < end; place++)
        if (!self->here [place] && s_reserve (self, place)) {
            self->here [place] = true;
            self->count++;
        }
    return begin < end? tier_disk_bytes (self->disk, begin, end - begin): 0;
}

double
tier_pins_part (const tier_pins_t *self)
{
    return (double) self->count / self->disk->plan->samples;
}

//  tier_disk -- a simulated pack: the order of its samples, and the bytes that a read of them takes.
#ifndef TIER_DISK_H
#define TIER_DISK_H
#include <stddef.h>
#include <stdint.h>
#include "tier_plan.h"

typedef struct {
    const tier_plan_t *plan;            //  lent
    uint32_t *order, *positions;        //  the id at each place; the place of each id
    uint32_t *breaks;                   //  the first place of each volume
    size_t break_count;
    uint64_t chunk_bytes;               //  padded
} tier_disk_t;

//  The samples in an order that follows from seed.
tier_disk_t *tier_disk_new (const tier_plan_t *plan, uint64_t seed);
//  In the order of their ids.
tier_disk_t *tier_disk_new_plain (const tier_plan_t *plan);
void tier_disk_destroy (tier_disk_t **self_p);
//  Bytes of a read of the samples at places first .. first + count - 1.
uint64_t tier_disk_bytes (const tier_disk_t *self, uint32_t first, uint32_t count);

//  The pool's limit under this plan.
size_t tier_disk_limit (const tier_plan_t *plan);

#endif

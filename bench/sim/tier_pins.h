//  tier_pins -- pins (cache/encoded/pins.h) of a simulated disk: blocks of the pack, filled until full, and
//  nothing is evicted.
#ifndef TIER_PINS_H
#define TIER_PINS_H
#include <stdint.h>
#include "tier_disk.h"

typedef struct tier_pins tier_pins_t;

//  NULL: the plan has none.
tier_pins_t *tier_pins_new (const tier_disk_t *disk);
void tier_pins_destroy (tier_pins_t **self_p);
//  Bytes that the disk gives for a read of the samples at places first .. first + count - 1: of the gap
//  between what is pinned at its ends.  They are pinned then, as far as there is room.
uint64_t tier_pins_read (tier_pins_t *self, uint32_t first, uint32_t count);
//  Samples that are pinned, as a share of all.
double tier_pins_part (const tier_pins_t *self);

#endif

/*  packing_order -- the order of a pack: that of its samples' keys; and where each sample will lie, from
 *  order and sizes alone; pack_format.h says by which rules.  A format: the same seed gives the same order
 *  for ever.
 */
#ifndef PACKING_ORDER_H
#define PACKING_ORDER_H
#include <stdint.h>
#include "pack_format.h"

//  Which of so many equal ranges of keys the sample's is in; ranges are in the order of keys.
uint32_t packing_bucket (uint64_t seed, uint32_t id, uint32_t buckets);

//  Writes the ids 0 .. count-1 by key.
void packing_order (uint64_t seed, uint32_t count, uint32_t *order);

typedef struct {
    uint32_t samples;                   //  > 0
    uint32_t chunk_samples;
    uint64_t volume_bytes;
    const uint32_t *order;
    uint64_t (*bytes) (const void *context, uint32_t id);   //  of all files of a sample
    const void *context;
} packing_order_layout_t;

//  Writes places, by id.  0 and *volumes_p (*count_p of them) to be freed; or -ENOMEM.
int packing_order_layout (const packing_order_layout_t *self, pack_place_t *places,
    pack_volume_t **volumes_p, uint32_t *count_p);

#endif

/*  packing_layout -- where each sample will lie, from order and sizes alone; pack_format.h says by which
 *  rules.  */
#ifndef PACKING_LAYOUT_H
#define PACKING_LAYOUT_H
#include <stdint.h>
#include "pack_format.h"

typedef struct {
    uint32_t samples;                   //  > 0
    uint32_t chunk_samples;
    uint64_t volume_bytes;
    const uint32_t *order;
    uint64_t (*bytes) (const void *context, uint32_t id);   //  of all files of a sample
    const void *context;
} packing_layout_t;

//  Writes places, by id.  0 and *volumes_p (*count_p of them) to be freed; or -ENOMEM.
int packing_layout (const packing_layout_t *self, pack_place_t *places, pack_volume_t **volumes_p,
    uint32_t *count_p);

#endif

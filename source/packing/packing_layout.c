#include "packing_layout.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static uint64_t
s_whole_blocks (uint64_t bytes)
{
    return (bytes + PACK_BLOCK_BYTES - 1) / PACK_BLOCK_BYTES * PACK_BLOCK_BYTES;
}

static int
s_add_volume (pack_volume_t **volumes_p, uint32_t *count_p, uint32_t first)
{
    pack_volume_t *volumes = *volumes_p;
    if ((*count_p & (*count_p - 1)) == 0) {             //  room for 1, 2, 4 ..
        volumes = reallocarray (*volumes_p, *count_p? 2 * (size_t) *count_p: 1, sizeof *volumes);
        if (!volumes)
            return -ENOMEM;
        *volumes_p = volumes;
    }
    volumes [(*count_p)++] = (pack_volume_t) { .bytes = PACK_BLOCK_BYTES, .first = first };
    return 0;
}

int
packing_layout (const packing_layout_t *self, pack_place_t *places, pack_volume_t **volumes_p,
    uint32_t *count_p)
{
    assert (self && self->samples && self->chunk_samples && self->order && self->bytes);
    assert (places); assert (volumes_p); assert (count_p);
    *volumes_p = NULL;
    *count_p = 0;
    uint64_t at = 0;
    for (uint32_t position = 0; position < self->samples; position++) {
        if (position % self->chunk_samples == 0) {
            at = s_whole_blocks (at);
            if (position == 0 || at > self->volume_bytes) {
                if (s_add_volume (volumes_p, count_p, position)) {
                    free (*volumes_p);
                    *volumes_p = NULL;
                    return -ENOMEM;
                }
                at = PACK_BLOCK_BYTES;
            }
        }
        uint32_t id = self->order [position];
        places [id] = (pack_place_t) { .offset = at, .volume = *count_p - 1, .position = position };
        at += self->bytes (self->context, id);
        (*volumes_p) [*count_p - 1].bytes = s_whole_blocks (at);
    }
    return 0;
}

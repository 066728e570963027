#include "packing_order.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include <xxhash.h>

//  -- the order

typedef struct {
    uint64_t high, low;
} sample_key_t;

static sample_key_t
s_key (uint64_t seed, uint32_t id)
{
    //  The seed twice: as a number that is hashed it cannot meet the id, as XXH3's seed it changes what is
    //  hashed with.
    uint64_t numbers [3] = { htole64 (seed), htole64 (id), htole64 (UINT64_C (0x6b63617065657275)) };
    XXH128_hash_t hash = XXH3_128bits_withSeed (numbers, sizeof numbers, seed);
    return (sample_key_t) { hash.high64, hash.low64 };
}

uint32_t
packing_bucket (uint64_t seed, uint32_t id, uint32_t buckets)
{
    assert (buckets > 0);
    return (uint32_t) ((unsigned __int128) s_key (seed, id).high * buckets >> 64);
}

static int
s_compare (const void *left, const void *right, void *seed_p)
{
    uint32_t a = *(const uint32_t *) left, b = *(const uint32_t *) right;
    sample_key_t x = s_key (*(uint64_t *) seed_p, a), y = s_key (*(uint64_t *) seed_p, b);
    if (x.high != y.high)
        return x.high < y.high? -1: 1;
    if (x.low != y.low)
        return x.low < y.low? -1: 1;
    return (a > b) - (a < b);
}

void
packing_order (uint64_t seed, uint32_t count, uint32_t *order)
{
    assert (order || count == 0);
    for (uint32_t id = 0; id < count; id++)
        order [id] = id;
    //  Keys are hashed again at each comparison, which keeps memory at 4 bytes a sample: a million take a
    //  second.
    if (count)
        qsort_r (order, count, sizeof *order, s_compare, &seed);
}


//  -- the layout

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
packing_order_layout (const packing_order_layout_t *self, pack_place_t *places, pack_volume_t **volumes_p,
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

#include "parts.h"
#include <assert.h>
#include <stdlib.h>
#include "permutation.h"
#include "random.h"
#include "xalloc.h"

//  A bit for each id, or for each place of one.
typedef uint64_t bits_t;

static bits_t *
s_bits_new (uint32_t sample_count)
{
    return xalloc_jobs (calloc (sample_count / PARTS_UNIT + 1, sizeof (bits_t)));
}

static void
s_bits_add (bits_t *bits, uint32_t number)
{
    bits [number / PARTS_UNIT] |= UINT64_C (1) << number % PARTS_UNIT;
}

static bits_t *
s_bits_of (uint32_t sample_count, const roaring_bitmap_t *ids)
{
    bits_t *bits = s_bits_new (sample_count);
    roaring_uint32_iterator_t each;
    for (roaring_init_iterator (ids, &each); each.has_value; roaring_advance_uint32_iterator (&each))
        s_bits_add (bits, each.current_value);
    return bits;
}

//  The ids, count of them; frees the bits.
static roaring_bitmap_t *
s_set_of (bits_t *bits, uint64_t count)
{
    uint32_t *ids = xalloc_jobs (malloc ((count + 1) * sizeof *ids));
    uint64_t found = 0;
    for (uint32_t word = 0; found < count; word++)
        for (bits_t left = bits [word]; left; left &= left - 1)
            ids [found++] = word * PARTS_UNIT + (uint32_t) __builtin_ctzll (left);
    roaring_bitmap_t *set = xalloc_jobs (roaring_bitmap_of_ptr (found, ids));
    free (ids);
    free (bits);
    return set;
}

//  A bit for each place of a sample that remains.
static bits_t *
s_places (const parts_t *self, uint32_t sample_count, const roaring_bitmap_t *remaining)
{
    bits_t *ids = s_bits_of (sample_count, remaining);
    if (!self->pack_order)
        return ids;
    bits_t *places = s_bits_new (sample_count);
    for (uint32_t place = 0; place < sample_count; place++) {
        uint32_t id = self->pack_order [place];
        if (ids [id / PARTS_UNIT] >> id % PARTS_UNIT & 1)
            s_bits_add (places, place);
    }
    free (ids);
    return places;
}

//  The ids at row [first .. first + count).
static roaring_bitmap_t *
s_row (const parts_t *self, uint64_t epoch, uint32_t sample_count, const bits_t *places, uint64_t first,
    uint64_t count)
{
    uint32_t units = (sample_count + PARTS_UNIT - 1) / PARTS_UNIT;
    uint64_t seed = random_first (random_first (random_first (self->key) ^ (self->is_fixed? 0: epoch))
        ^ self->nodes);
    permutation_t order = permutation_new (seed, 0, units);
    bits_t *ids = s_bits_new (sample_count);
    uint64_t at = 0, found = 0;
    for (uint32_t turn = 0; found < count; turn++) {
        assert (turn < units);
        uint32_t unit = permutation_at (&order, turn);
        bits_t left = places [unit];
        uint64_t end = at + (uint64_t) __builtin_popcountll (left);
        for (; end > first && found < count && left; left &= left - 1) {
            uint32_t place = unit * PARTS_UNIT + (uint32_t) __builtin_ctzll (left);
            if (at++ < first)
                continue;
            s_bits_add (ids, self->pack_order? self->pack_order [place]: place);
            found++;
        }
        at = end;
    }
    return s_set_of (ids, found);
}

roaring_bitmap_t *
parts_of (const parts_t *self, uint64_t epoch, uint32_t sample_count, const roaring_bitmap_t *remaining)
{
    assert (self->nodes > 0 && self->node < self->nodes);
    uint64_t all = roaring_bitmap_get_cardinality (remaining);
    uint64_t least = all / self->nodes, longer = all % self->nodes;
    uint64_t first = self->node * least + (self->node < longer? self->node: longer);
    bits_t *places = s_places (self, sample_count, remaining);
    roaring_bitmap_t *part = s_row (self, epoch, sample_count, places, first, least + (self->node < longer));
    free (places);
    return part;
}

uint64_t
parts_batches (uint32_t nodes, uint64_t remaining, uint64_t batch_size, bool drop_last)
{
    uint64_t longest = (remaining + nodes - 1) / nodes;
    return drop_last? remaining / nodes / batch_size: (longest + batch_size - 1) / batch_size;
}

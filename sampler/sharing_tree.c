#include "sharing_tree.h"
#include "demand.h"
#include "need.h"
#include "random.h"
#include "tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 64 };

//  What a tree costs: looking at an id of each job, and of each pair of jobs at a word, in the same unit.
enum { WORK_MAX = 800000, PAIR_PART = 32 };

uint64_t
sharing_tree_weight (size_t jobs)
{
    return jobs < 2? 0: jobs + jobs * jobs / PAIR_PART;
}

uint64_t
sharing_tree_ids (uint64_t weight)
{
    uint64_t ids = WORK_MAX / (weight? weight: 1);
    return ids < WORD? WORD: ids;
}

//  ------------------------------------------------------------------------------------------------
//  What is looked at

//  What the jobs need of some words of ids, 64 each.
typedef struct {
    sharing_tree_t *tree;
    uint32_t *words;            //  which
    size_t count;               //  of the words
    uint64_t *bits;             //  by job, as the caller named them: a row each
    uint64_t *found;            //  bits of its row
    uint64_t *hashes;
} look_t;

//  A word of each part of the data set; the same ones each time, so that no figure changes by itself.
static void
s_choose_words (look_t *look, uint32_t sample_count, uint64_t ids_max)
{
    uint32_t all = 1 + (sample_count - 1) / WORD;
    look->count = ids_max / WORD < all? (size_t) (ids_max / WORD): all;
    look->count = look->count? look->count: 1;
    look->words = sampler_need (malloc (look->count * sizeof *look->words));
    look->tree->looked_at = 0;
    for (size_t index = 0; index < look->count; index++) {
        uint32_t from = (uint32_t) ((uint64_t) all * index / look->count);
        uint32_t to = (uint32_t) ((uint64_t) all * (index + 1) / look->count);
        uint32_t word = from + (uint32_t) (random_first (index) % (to - from));
        look->words [index] = word;
        look->tree->looked_at += word + 1 == all? sample_count - word * WORD: WORD;
    }
}

//  How many bits are set.  In the common instructions of all x86-64: without `popcnt` the compiler's own is a
//  call, and takes three times as long.
static inline uint64_t
s_ones (uint64_t word)
{
    word -= word >> 1 & UINT64_C (0x5555555555555555);
    word = (word & UINT64_C (0x3333333333333333)) + (word >> 2 & UINT64_C (0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C (0x0f0f0f0f0f0f0f0f);
    return word * UINT64_C (0x0101010101010101) >> 56;
}

//  Equal rows have the same hash.
static void
s_look (look_t *look, demand_t *const *demands, const uint32_t *jobs, size_t count)
{
    look->bits = sampler_need (malloc (count * look->count * sizeof *look->bits));
    look->found = sampler_need (calloc (count, sizeof *look->found));
    look->hashes = sampler_need (calloc (count, sizeof *look->hashes));
    for (size_t job = 0; job < count; job++) {
        uint64_t *row = look->bits + job * look->count;
        demand_copy_remaining (demands [jobs [job]], look->words, look->count, row);
        for (size_t index = 0; index < look->count; index++) {
            look->found [job] += s_ones (row [index]);
            look->hashes [job] = random_first (look->hashes [job] ^ row [index]);
        }
    }
}

static void
s_end_look (look_t *look)
{
    free (look->words);
    free (look->bits);
    free (look->found);
    free (look->hashes);
}

//  ------------------------------------------------------------------------------------------------
//  The path

typedef struct { uint64_t remaining, hash; size_t job; } standing_t;

static int
s_compare (const void *one, const void *other)
{
    const standing_t *a = one, *b = other;
    if (a->remaining != b->remaining)
        return a->remaining < b->remaining? -1: 1;
    if (a->hash != b->hash)
        return a->hash < b->hash? -1: 1;
    return (a->job > b->job) - (a->job < b->job);
}

//  Fills order with indices of jobs: the path's, then those that are not on it, by what remains to them.
static void
s_order (const look_t *look, demand_t *const *demands, const tree_t *kept, const uint32_t *jobs,
    size_t *order)
{
    size_t count = look->tree->count, waiting = 0;
    standing_t *standing = sampler_need (malloc (count * sizeof *standing));
    look->tree->on_path = kept? tree_count (kept): count;
    for (size_t job = 0; job < count; job++) {
        size_t place = kept? tree_place (kept, jobs [job]): TREE_NOWHERE;
        if (place != TREE_NOWHERE)
            order [place] = job;
        else
            standing [waiting++] = (standing_t) {
                .remaining = demand_remaining_count (demands [jobs [job]]), .hash = look->hashes [job],
                .job = job
            };
    }
    qsort (standing, waiting, sizeof *standing, s_compare);
    for (size_t index = 0; index < waiting; index++)
        order [count - waiting + index] = standing [index].job;
    free (standing);
}

//  part / whole of a number, which is as exact as the look was.
static uint64_t
s_scaled (uint64_t number, uint64_t part, uint64_t whole)
{
    return whole? (number * part + whole / 2) / whole: 0;
}

//  What the jobs from each place on have in common: of a vertex, what the one before it has not.
static void
s_measure_path (const look_t *look, const size_t *order)
{
    sharing_tree_t *tree = look->tree;
    uint64_t *common = sampler_need (malloc (look->count * sizeof *common)), size = UINT64_MAX;
    memset (common, 0xff, look->count * sizeof *common);
    for (size_t place = tree->count; place-- > 0; ) {
        const uint64_t *row = look->bits + order [place] * look->count;
        uint64_t found = 0;
        for (size_t index = 0; index < look->count; index++) {
            common [index] &= row [index];
            found += s_ones (common [index]);
        }
        sharing_place_t *here = &tree->places [place];
        uint64_t own = place + 1 == tree->count? here->remaining:
            s_scaled (here->remaining, found, look->found [order [place]]);
        size = own < size? own: size;
        here->vertex = size;
        here->leaf = here->remaining - size;
    }
    for (size_t place = tree->count; place-- > 1; )
        tree->places [place].vertex -= tree->places [place - 1].vertex;
    free (common);
}

static void
s_copy_path (sharing_tree_t *self, const tree_t *kept)
{
    for (size_t place = 0; place < self->count; place++) {
        sharing_place_t *here = &self->places [place];
        bool is_on_path = place < self->on_path;
        here->vertex = is_on_path? tree_vertex_size (kept, place): 0;
        here->leaf = is_on_path? roaring_bitmap_get_cardinality (tree_leaf (kept, place)): here->remaining;
    }
}

//  ------------------------------------------------------------------------------------------------
//  Pairs

static size_t
s_pair (size_t place, size_t other)
{
    size_t high = place > other? place: other, low = place > other? other: place;
    return high * (high - 1) / 2 + low;
}

static void
s_measure_pairs (const look_t *look, const size_t *order)
{
    sharing_tree_t *tree = look->tree;
    for (size_t place = 1; place < tree->count; place++)
        for (size_t other = 0; other < place; other++) {
            const uint64_t *row = look->bits + order [place] * look->count;
            const uint64_t *beside = look->bits + order [other] * look->count;
            uint64_t found = 0;
            for (size_t index = 0; index < look->count; index++)
                found += s_ones (row [index] & beside [index]);
            uint64_t a = tree->places [place].remaining, b = tree->places [other].remaining;
            uint64_t all = look->found [order [place]] + look->found [order [other]], most = a < b? a: b;
            uint64_t size = s_scaled (a + b, found, all);
            tree->common [s_pair (place, other)] = size < most? size: most;
        }
}

uint64_t
sharing_tree_common (const sharing_tree_t *self, size_t place, size_t other)
{
    assert (place != other && place < self->count && other < self->count);
    return self->common [s_pair (place, other)];
}

//  ------------------------------------------------------------------------------------------------
//  The whole

sharing_tree_t *
sharing_tree_new (demand_t *const *demands, uint32_t sample_count, const tree_t *kept, const uint32_t *jobs,
    size_t count, uint64_t ids_max)
{
    assert (count > 0 && count <= SAMPLER_JOBS_MAX);
    sharing_tree_t *self = sampler_need (calloc (1, sizeof *self));
    self->is_kept = kept != NULL;
    self->ids = sample_count;
    self->count = count;
    self->places = sampler_need (calloc (count, sizeof *self->places));
    self->common = sampler_need (calloc (count * (count - 1) / 2 + 1, sizeof *self->common));
    look_t look = { .tree = self };
    size_t order [SAMPLER_JOBS_MAX];
    s_choose_words (&look, sample_count, ids_max);
    s_look (&look, demands, jobs, count);
    s_order (&look, demands, kept, jobs, order);
    for (size_t place = 0; place < count; place++) {
        uint32_t job = jobs [order [place]];
        self->places [place] = (sharing_place_t) {
            .job = job, .remaining = demand_remaining_count (demands [job])
        };
    }
    if (kept)
        s_copy_path (self, kept);
    else
        s_measure_path (&look, order);
    s_measure_pairs (&look, order);
    s_end_look (&look);
    return self;
}

void
sharing_tree_destroy (sharing_tree_t **self_p)
{
    assert (self_p);
    sharing_tree_t *self = *self_p;
    if (!self)
        return;
    free (self->places);
    free (self->common);
    free (self);
    *self_p = NULL;
}

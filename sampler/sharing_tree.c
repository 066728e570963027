#include "sharing_tree.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "demand.h"
#include "random.h"
#include "tree.h"
#include "xalloc.h"

enum { WORD = 64, PIECES = WORD / DEMAND_PIECE };          //  ids in a word; pieces in it

//  What a tree costs: looking at an id of each job, and of each pair of jobs at a word, in the same unit.
enum { WORK_MAX = 500000, PAIR_PART = 32 };

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

//  Pieces [from, to) of ids.  Of each `stride` of them one is looked at, for all of these.
typedef struct {
    uint32_t from, to;
    double rarity;              //  twice the binary logarithm: of how many pieces one is wanted
    uint32_t level;             //  of the stride
} region_t;

//  A job's data begin or end.
typedef struct {
    uint32_t piece;
    double change;              //  of the density
} bound_t;

enum {
    LEVELS = 64,                //  s_stride's
    LIST_MAX = 4096,            //  so few ids of a job are looked at all
    LISTED_MAX = 65536,         //  of all jobs
    SPREAD_PARTS = 16, SPREAD_MAX = 128         //  parts of a job's data; of all jobs'
};

//  What the jobs need of some words, of PIECES pieces each.
typedef struct {
    sharing_tree_t *tree;
    size_t count;               //  of the words
    uint32_t *pieces;           //  which, word after word; NO_PIECE: none
    uint32_t *strides;          //  by word: how many ids each id that is found in it stands for
    uint64_t *bits;             //  by job, as the caller named them: a row each
    uint64_t *found;            //  ids that its row stands for
    uint64_t *seen;             //  ids in its row
    bool *is_whole;             //  all that remains to it was seen
    uint32_t *from, *end;       //  its data are in here
    uint64_t *hashes;
} look_t;

#define NO_PIECE UINT32_MAX

//  1, 1, 2, 3, 4, 6, 8, 12: about 2 to the power level / 2.
static uint32_t
s_stride (uint32_t level)
{
    return level < 2? 1: level % 2? UINT32_C (3) << (level - 3) / 2: UINT32_C (1) << level / 2;
}

static int
s_compare_bounds (const void *one, const void *other)
{
    const bound_t *a = one, *b = other;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

//  Small jobs' pieces, while they leave room for the others'.  Others' data are spread: each part of them
//  gets as much of the look.  Returns the number of bounds.
static size_t
s_put_jobs (look_t *look, demand_t *const *demands, const uint32_t *jobs, uint64_t pieces_max,
    roaring_bitmap_t *listed, bound_t *bounds)
{
    size_t jobs_count = look->tree->count, filled = 0, ids_left = LISTED_MAX;
    size_t parts = SPREAD_MAX / jobs_count < SPREAD_PARTS? SPREAD_MAX / jobs_count: SPREAD_PARTS;
    uint32_t *ids = xalloc_jobs (malloc (LIST_MAX * sizeof *ids));
    parts = parts? parts: 1;
    for (size_t job = 0; job < jobs_count; job++) {
        const demand_t *demand = demands [jobs [job]];
        uint32_t ends [SPREAD_PARTS + 1], last = NO_PIECE;
        size_t max = ids_left < LIST_MAX? ids_left: LIST_MAX, count;
        uint64_t room = pieces_max / 2, held = roaring_bitmap_get_cardinality (listed);
        max = room > held && room - held < max? (size_t) (room - held): room > held? max: 0;
        if (demand_epoch_count (demand) > 0) {
            demand_spread (demand, ends, parts);
            look->from [job] = ends [0];
            look->end [job] = ends [parts];
        }
        if (demand_remaining_count (demand) == 0)
            continue;
        if (demand_list_remaining (demand, ids, max, &count)) {
            for (size_t index = 0; index < count; index++)
                if (ids [index] / DEMAND_PIECE != last)
                    roaring_bitmap_add (listed, last = ids [index] / DEMAND_PIECE);
            ids_left -= count;
            continue;
        }
        for (size_t part = 0; part < parts; part++) {
            uint32_t from = ends [part] / DEMAND_PIECE, to = (ends [part + 1] - 1) / DEMAND_PIECE + 1;
            double density = 1.0 / ((double) (to - from) * (double) parts);
            bounds [filled++] = (bound_t) { from, density };
            bounds [filled++] = (bound_t) { to, -density };
        }
    }
    free (ids);
    qsort (bounds, filled, sizeof *bounds, s_compare_bounds);
    return filled;
}

static size_t
s_make_regions (const bound_t *bounds, size_t count, region_t *regions)
{
    size_t filled = 0;
    double density = 0;
    for (size_t index = 0; index + 1 < count; index++) {
        density += bounds [index].change;
        //  Less than what a part can have: rounding has left it.
        if (bounds [index].piece < bounds [index + 1].piece && density > 1e-12)
            regions [filled++] = (region_t) { .from = bounds [index].piece, .to = bounds [index + 1].piece,
                .rarity = -2 * log2 (density) };
    }
    return filled;
}

//  How many words a look takes that is so much rarer.  Sets levels, multiples of step.
static uint64_t
s_set_levels (region_t *regions, size_t count, double rarer, uint32_t step)
{
    uint64_t pieces [LEVELS] = { 0 }, words = 0;
    for (size_t index = 0; index < count; index++) {
        region_t *region = &regions [index];
        double level = region->rarity + rarer;
        region->level = level < 0? 0: level < LEVELS - 1? (uint32_t) level: LEVELS - 1;
        region->level -= region->level % step;
        pieces [region->level] += region->to - region->from;
    }
    for (uint32_t level = 0; level < LEVELS; level++) {
        uint64_t of_word = (uint64_t) PIECES * s_stride (level);
        words += (pieces [level] + of_word - 1) / of_word;
    }
    return words;
}

static uint64_t
s_count_pieces (const region_t *regions, size_t count)
{
    double pieces = 0;
    for (size_t index = 0; index < count; index++)
        pieces += (double) (regions [index].to - regions [index].from) / s_stride (regions [index].level);
    return (uint64_t) pieces;
}

//  As much as there is room for, with this step of the levels.
static void
s_fit_step (region_t *regions, size_t count, uint64_t words_max, uint32_t step)
{
    double low = -LEVELS, high = LEVELS;
    if (s_set_levels (regions, count, low, step) <= words_max)
        return;
    for (int turn = 0; turn < 12; turn++) {
        double middle = (low + high) / 2;
        if (s_set_levels (regions, count, middle, step) <= words_max)
            high = middle;
        else
            low = middle;
    }
    s_set_levels (regions, count, high, step);
}

//  Each region by its rarity.  Each level's last word may be nearly empty: where that leaves too little of
//  the room, there are fewer levels.
static void
s_fit_levels (region_t *regions, size_t count, uint64_t words_max)
{
    enum { STEP_MAX = 8 };
    uint64_t most = 0;
    uint32_t best = 1;
    for (uint32_t step = 1; step <= STEP_MAX; step *= 2) {
        s_fit_step (regions, count, words_max, step);
        uint64_t pieces = s_count_pieces (regions, count);
        if (pieces > most) {
            most = pieces;
            best = step;
        }
        if (pieces >= words_max * PIECES * 2 / 3)
            return;
    }
    s_fit_step (regions, count, words_max, best);
}

static void
s_add_piece (look_t *look, size_t *filled_p, uint32_t piece, uint32_t stride)
{
    size_t size = (*filled_p / PIECES + 1) * PIECES;
    if (*filled_p % PIECES == 0) {
        if ((size / PIECES & (size / PIECES - 1)) == 0) {           //  a power of two: room up to the next
            look->pieces = xalloc_jobs (realloc (look->pieces, 2 * size * sizeof *look->pieces));
            look->strides = xalloc_jobs (realloc (look->strides, 2 * size / PIECES
                * sizeof *look->strides));
        }
        for (size_t place = *filled_p; place < size; place++)
            look->pieces [place] = NO_PIECE;
        look->strides [*filled_p / PIECES] = stride;
        look->count = size / PIECES;
    }
    look->pieces [(*filled_p)++] = piece;
}

//  Of each stride of a level's pieces one, the same ones each time, so that no figure changes by itself.
//  What is beyond the end stands for nothing, as the last stride is shorter.
static void
s_add_level (look_t *look, size_t *filled_p, uint32_t level, const region_t *regions, size_t count,
    const roaring_bitmap_t *listed)
{
    uint64_t stride = s_stride (level), turn = 0, passed = 0;       //  passed: pieces of regions before
    for (size_t index = 0; index < count; index++) {
        const region_t *region = &regions [index];
        if (region->level != level)
            continue;
        uint64_t end = passed + region->to - region->from, at;
        while ((at = turn * stride + random_first (turn) % stride) < end) {
            uint32_t piece = region->from + (uint32_t) (at - passed);
            if (!roaring_bitmap_contains (listed, piece))
                s_add_piece (look, filled_p, piece, (uint32_t) stride);
            turn++;
        }
        passed = end;
    }
    *filled_p = look->count * PIECES;
}

static void
s_choose_pieces (look_t *look, demand_t *const *demands, const uint32_t *jobs, uint64_t ids_max)
{
    uint64_t words_max = ids_max / WORD? ids_max / WORD: 1;
    size_t bounds_max = 2 * (SPREAD_MAX + look->tree->count), filled = 0;
    bound_t *bounds = xalloc_jobs (malloc (bounds_max * sizeof *bounds));
    region_t *regions = xalloc_jobs (malloc (bounds_max * sizeof *regions));
    roaring_bitmap_t *listed = xalloc_jobs (roaring_bitmap_create ());
    size_t count = s_put_jobs (look, demands, jobs, words_max * PIECES, listed, bounds);
    count = s_make_regions (bounds, count, regions);
    uint64_t words_listed = (roaring_bitmap_get_cardinality (listed) + PIECES - 1) / PIECES;
    s_fit_levels (regions, count, words_max > words_listed? words_max - words_listed: 1);
    roaring_uint32_iterator_t pieces;
    for (roaring_init_iterator (listed, &pieces); pieces.has_value; roaring_advance_uint32_iterator (&pieces))
        s_add_piece (look, &filled, pieces.current_value, 1);
    filled = look->count * PIECES;
    for (uint32_t level = 0; level < LEVELS; level++)
        s_add_level (look, &filled, level, regions, count, listed);
    roaring_bitmap_free (listed);
    free (regions);
    free (bounds);
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
    look->bits = xalloc_jobs (malloc (count * look->count * sizeof *look->bits + 1));
    bool is_whole = true;
    for (size_t job = 0; job < count; job++) {
        uint64_t *row = look->bits + job * look->count;
        demand_copy_remaining (demands [jobs [job]], look->pieces, look->count * PIECES, (uint8_t *) row);
        for (size_t index = 0; index < look->count; index++) {
            uint64_t seen = s_ones (row [index]);
            look->seen [job] += seen;
            look->found [job] += seen * look->strides [index];
            look->hashes [job] = random_first (look->hashes [job] ^ row [index]);
        }
        look->is_whole [job] = look->seen [job] == demand_remaining_count (demands [jobs [job]]);
        is_whole &= look->is_whole [job];
    }
    look->tree->looked_at = look->tree->ids;
    if (is_whole || count == 1)
        return;
    uint64_t looked_at = 0;
    for (size_t place = 0; place < look->count * PIECES; place++)
        looked_at += look->pieces [place] == NO_PIECE? 0: DEMAND_PIECE;
    look->tree->looked_at = looked_at < look->tree->ids? (uint32_t) looked_at: look->tree->ids - 1;
}

static look_t
s_new_look (sharing_tree_t *tree)
{
    size_t count = tree->count;
    return (look_t) { .tree = tree,
        .found = xalloc_jobs (calloc (count, sizeof (uint64_t))),
        .seen = xalloc_jobs (calloc (count, sizeof (uint64_t))),
        .is_whole = xalloc_jobs (calloc (count, sizeof (bool))),
        .from = xalloc_jobs (calloc (count, sizeof (uint32_t))),
        .end = xalloc_jobs (calloc (count, sizeof (uint32_t))),
        .hashes = xalloc_jobs (calloc (count, sizeof (uint64_t))) };
}

static void
s_end_look (look_t *look)
{
    free (look->pieces);
    free (look->strides);
    free (look->bits);
    free (look->found);
    free (look->seen);
    free (look->is_whole);
    free (look->from);
    free (look->end);
    free (look->hashes);
}

//  What some jobs have in common, as far as it was seen.
typedef struct {
    uint64_t found, seen;
    uint64_t least;             //  of the jobs, that was seen least: its ids
    uint32_t from, end;         //  all of their data are in here
    bool is_whole;              //  all that remains to one of them was seen
} common_t;

static void
s_join_common (const look_t *look, common_t *common, size_t job)
{
    common->least = look->seen [job] < common->least? look->seen [job]: common->least;
    common->from = look->from [job] > common->from? look->from [job]: common->from;
    common->end = look->end [job] < common->end? look->end [job]: common->end;
    common->is_whole |= look->is_whole [job];
}

static const common_t s_all = { .least = UINT64_MAX, .end = UINT32_MAX };

//  Of `number`, of which `all` ids were found.  Where nothing was found, and too little was looked at to say
//  that there is nothing, it is not known.
static uint64_t
s_size (const common_t *common, uint64_t number, uint64_t all)
{
    enum { SEEN_MIN = 40 };
    if (common->is_whole)
        return common->seen;
    if (common->from >= common->end)
        return 0;
    if (common->found == 0)
        return common->least < SEEN_MIN? SHARING_TREE_UNKNOWN: 0;
    return (uint64_t) ((double) number * (double) common->found / (double) all + 0.5);
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
    standing_t *standing = xalloc_jobs (malloc (count * sizeof *standing));
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

//  What the jobs from each place on have in common: of a vertex, what the one before it has not.
static void
s_measure_path (const look_t *look, const size_t *order)
{
    sharing_tree_t *tree = look->tree;
    uint64_t *bits = xalloc_jobs (malloc (look->count * sizeof *bits + 1)), size = UINT64_MAX;
    uint64_t sizes [SAMPLER_JOBS_MAX];
    common_t common = s_all;
    memset (bits, 0xff, look->count * sizeof *bits);
    for (size_t place = tree->count; place-- > 0; ) {
        const uint64_t *row = look->bits + order [place] * look->count;
        s_join_common (look, &common, order [place]);
        common.found = common.seen = 0;
        for (size_t index = 0; index < look->count; index++) {
            bits [index] &= row [index];
            uint64_t seen = s_ones (bits [index]);
            common.seen += seen;
            common.found += seen * look->strides [index];
        }
        uint64_t remaining = tree->places [place].remaining;
        uint64_t own = place + 1 == tree->count? remaining:
            s_size (&common, remaining, look->found [order [place]]);
        sizes [place] = size == 0? 0: own == SHARING_TREE_UNKNOWN || own < size? own: size;
        size = sizes [place] == SHARING_TREE_UNKNOWN? size: sizes [place];
    }
    for (size_t place = 0; place < tree->count; place++) {
        sharing_place_t *here = &tree->places [place];
        uint64_t above = place? sizes [place - 1]: 0;
        bool is_known = sizes [place] != SHARING_TREE_UNKNOWN;
        here->vertex = is_known && above != SHARING_TREE_UNKNOWN? sizes [place] - above: SHARING_TREE_UNKNOWN;
        here->leaf = is_known? here->remaining - sizes [place]: SHARING_TREE_UNKNOWN;
    }
    free (bits);
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
            common_t common = s_all;
            s_join_common (look, &common, order [place]);
            s_join_common (look, &common, order [other]);
            for (size_t index = 0; index < look->count; index++) {
                uint64_t seen = s_ones (row [index] & beside [index]);
                common.seen += seen;
                common.found += seen * look->strides [index];
            }
            uint64_t a = tree->places [place].remaining, b = tree->places [other].remaining;
            uint64_t all = look->found [order [place]] + look->found [order [other]], most = a < b? a: b;
            uint64_t size = s_size (&common, a + b, all);
            tree->common [s_pair (place, other)] = size < most || size == SHARING_TREE_UNKNOWN? size: most;
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
    sharing_tree_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->is_kept = kept != NULL;
    self->ids = sample_count;
    self->count = count;
    self->places = xalloc_jobs (calloc (count, sizeof *self->places));
    self->common = xalloc_jobs (calloc (count * (count - 1) / 2 + 1, sizeof *self->common));
    look_t look = s_new_look (self);
    size_t order [SAMPLER_JOBS_MAX];
    //  A lone job shares with none, and its sizes are known.
    if (count > 1)
        s_choose_pieces (&look, demands, jobs, ids_max);
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
    sharing_tree_t *self = *self_p;
    if (!self)
        return;
    free (self->places);
    free (self->common);
    free (self);
    *self_p = NULL;
}

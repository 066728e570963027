/*  Guards: a job over several nodes, as its sampler sees it.
 *
 *    - parts are what parts.h describes, in every build: values that were computed by another program;
 *    - each sample of what remains is in one node's part, whatever remains, and parts are equally long;
 *    - over epochs each sample is equally likely on each node;
 *    - samplers that know of no other draw each sample once over all nodes, in all orders and policies, with
 *      samples that some of them cannot read, and when another number of nodes goes on in mid-epoch.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "parts.h"
#include "sampler.h"
#include "seed.h"
#include "statistics.h"

enum { NODES_MAX = 9, SAMPLES_MAX = 700 };

//  ------------------------------------------------------------------------------------------------
//  Values

typedef struct {
    parts_t parts;
    uint64_t epoch;
    uint32_t samples;
    uint32_t from, to, without;         //  what remains: [from, to) but for multiples of `without` (0: none)
    uint64_t count, sum, squares;       //  of the ids
    uint32_t least [6];
} golden_t;

static void
test_golden_parts (void **state)
{
    (void) state;
    static uint32_t order [1000];
    for (uint32_t place = 0; place < 1000; place++)
        order [place] = place * 617 % 1000;
    const golden_t golden [] = {
        { { 3, 1, false, 7, NULL }, 0, 1000, 0, 1000, 0, 333, 189164, 129594806,
            { 192, 193, 194, 195, 196, 197 } },
        { { 3, 1, false, 7, NULL }, 1, 1000, 0, 1000, 0, 333, 128300, 83970998, { 0, 1, 2, 3, 4, 5 } },
        { { 3, 1, true, 7, NULL }, 1, 1000, 0, 1000, 0, 333, 189164, 129594806,
            { 192, 193, 194, 195, 196, 197 } },
        { { 4, 3, false, UINT64_MAX, NULL }, 5, 4000, 0, 4000, 3, 666, 1529098, 4346862936,
            { 320, 322, 323, 325, 326, 328 } },
        { { 2, 0, false, 20261125, order }, 2, 1000, 100, 900, 0, 400, 200139, 121387649,
            { 100, 101, 102, 106, 108, 113 } },
    };
    for (size_t index = 0; index < sizeof golden / sizeof *golden; index++) {
        const golden_t *each = &golden [index];
        roaring_bitmap_t *remaining = roaring_bitmap_create ();
        for (uint32_t id = each->from; id < each->to; id++)
            if (!each->without || id % each->without)
                roaring_bitmap_add (remaining, id);
        roaring_bitmap_t *part = parts_of (&each->parts, each->epoch, each->samples, remaining);
        assert_int_equal (roaring_bitmap_get_cardinality (part), each->count);
        uint64_t sum = 0, squares = 0;
        uint32_t *ids = malloc (each->count * sizeof *ids);
        roaring_bitmap_to_uint32_array (part, ids);
        for (uint64_t place = 0; place < each->count; place++) {
            sum += ids [place];
            squares += (uint64_t) ids [place] * ids [place];
        }
        assert_int_equal (sum, each->sum);
        assert_int_equal (squares, each->squares);
        assert_memory_equal (ids, each->least, sizeof each->least);
        free (ids);
        roaring_bitmap_free (part);
        roaring_bitmap_free (remaining);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Partitions

static void
s_shuffle (uint32_t *ids, uint32_t count, uint64_t *random)
{
    for (uint32_t place = count; place-- > 1;) {
        uint32_t other = (uint32_t) test_below (random, place + 1), id = ids [other];
        ids [other] = ids [place];
        ids [place] = id;
    }
}

static void
test_each_sample_is_in_one_part (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (300); round++) {
        uint32_t samples = 1 + (uint32_t) test_below (&random, SAMPLES_MAX), order [SAMPLES_MAX];
        for (uint32_t place = 0; place < samples; place++)
            order [place] = place;
        s_shuffle (order, samples, &random);
        uint64_t share = test_below (&random, 5);
        roaring_bitmap_t *remaining = roaring_bitmap_create (), *seen = roaring_bitmap_create ();
        for (uint32_t id = 0; id < samples; id++)
            if (test_below (&random, 4) < share)
                roaring_bitmap_add (remaining, id);
        parts_t parts = { .nodes = 1 + (uint32_t) test_below (&random, NODES_MAX),
            .key = test_below (&random, UINT64_MAX), .pack_order = round % 2? order: NULL };
        uint64_t all = roaring_bitmap_get_cardinality (remaining), longest = 0, shortest = UINT64_MAX;
        for (; parts.node < parts.nodes; parts.node++) {
            roaring_bitmap_t *part = parts_of (&parts, 3, samples, remaining);
            uint64_t count = roaring_bitmap_get_cardinality (part);
            assert_false (roaring_bitmap_intersect (part, seen));
            roaring_bitmap_or_inplace (seen, part);
            assert_true (count <= shortest || parts.node == 0);         //  the first are the longer ones
            longest = count > longest? count: longest;
            shortest = count < shortest? count: shortest;
            roaring_bitmap_free (part);
        }
        assert_true (roaring_bitmap_equals (seen, remaining));
        assert_true (longest - shortest <= 1);
        uint64_t batch = 1 + test_below (&random, 7);
        uint64_t whole = parts_batches (parts.nodes, all, batch, false);
        assert_true (whole * batch >= longest && (whole == 0 || (whole - 1) * batch < longest));
        assert_int_equal (parts_batches (parts.nodes, all, batch, true), shortest / batch);
        roaring_bitmap_free (remaining);
        roaring_bitmap_free (seen);
    }
}

//  A unit's samples go together, so one of each is counted.  Both margins are fixed.
static void
test_uniform_over_nodes (void **state)
{
    (void) state;
    enum { UNITS = 40, NODES = 4, EPOCHS = 1000, SAMPLES = UNITS * PARTS_UNIT };
    static uint64_t counts [UNITS * NODES];
    roaring_bitmap_t *all = roaring_bitmap_from_range (0, SAMPLES, 1);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint32_t node = 0; node < NODES; node++) {
            parts_t parts = { .nodes = NODES, .node = node, .key = test_seed () };
            roaring_bitmap_t *part = parts_of (&parts, epoch, SAMPLES, all);
            for (uint32_t unit = 0; unit < UNITS; unit++)
                counts [unit * NODES + node] += roaring_bitmap_contains (part, unit * PARTS_UNIT + 17);
            roaring_bitmap_free (part);
        }
    double z = statistics_z_of_chi_square (
        statistics_chi_square_even (counts, UNITS * NODES) * (UNITS - 1.0) / UNITS,
        (UNITS - 1.0) * (NODES - 1.0));
    print_message ("sample x node: z %.2f\n", z);
    assert_true (fabs (z) < statistics_z_limit (1));
    roaring_bitmap_free (all);
}

//  ------------------------------------------------------------------------------------------------
//  Jobs

//  One job over nodes, each with a sampler of its own.
typedef struct {
    sampler_policy_t policy;
    sampler_order_t order;
    uint32_t samples, pool;
    const uint32_t *pack_order;
    roaring_bitmap_t *data;
    uint64_t seed, epoch;
    roaring_bitmap_t *taken;            //  of the epoch, over all nodes, when the present nodes began
    uint32_t nodes;
    sampler_t *samplers [NODES_MAX];
    uint32_t jobs [NODES_MAX];
    roaring_bitmap_t *had [NODES_MAX];  //  of the epoch, since then
    uint64_t random;
} scene_t;

static void
s_begin (scene_t *self, uint32_t nodes)
{
    self->nodes = nodes;
    for (uint32_t node = 0; node < nodes; node++) {
        parts_t parts = { .nodes = nodes, .node = node, .key = self->seed, .pack_order = self->pack_order };
        self->samplers [node] = sampler_new (self->samples, self->policy, test_below (&self->random, 1000));
        //  Each server knows of other unreadable samples.
        for (uint32_t id = 0; id < self->samples; id++)
            if (id % NODES_MAX == node && id % 13 == 0)
                sampler_drop (self->samplers [node], id);
        sampler_join_t join = { .order = self->order, .data = self->data, .seed = self->seed,
            .pool = self->pool, .pack_order = self->pool? self->pack_order: NULL, .epoch = self->epoch,
            .taken = self->taken, .cut = self->taken, .parts = &parts };
        self->jobs [node] = sampler_join (self->samplers [node], &join);
        self->had [node] = roaring_bitmap_create ();
        sampler_check (self->samplers [node]);
    }
}

static void
s_end (scene_t *self)
{
    for (uint32_t node = 0; node < self->nodes; node++) {
        sampler_leave (self->samplers [node], self->jobs [node]);
        sampler_destroy (&self->samplers [node]);
        roaring_bitmap_or_inplace (self->taken, self->had [node]);
        roaring_bitmap_free (self->had [node]);
    }
}

static void
s_draw (scene_t *self, uint32_t node)
{
    sampler_t *sampler = self->samplers [node];
    sampler_offer_t offer;
    sampler_round_begin (sampler, &self->jobs [node], 1);
    while (sampler_offer (sampler, &offer)) {
        uint32_t id = sampler_pick (sampler);
        assert_true (roaring_bitmap_contains (self->data, id));
        assert_false (roaring_bitmap_contains (self->taken, id));
        for (uint32_t other = 0; other < self->nodes; other++)
            assert_false (roaring_bitmap_contains (self->had [other], id));
        roaring_bitmap_add (self->had [node], id);
        sampler_commit (sampler, id);
    }
}

//  Draws up to so many on each node; true: nothing remains on any.
static bool
s_draw_some (scene_t *self, uint64_t most)
{
    bool is_over = true;
    for (uint32_t node = 0; node < self->nodes; node++) {
        for (uint64_t count = 0; count < most
            && sampler_remaining (self->samplers [node], self->jobs [node]) > 0; count++)
            s_draw (self, node);
        sampler_check (self->samplers [node]);
        is_over = is_over && sampler_remaining (self->samplers [node], self->jobs [node]) == 0;
    }
    return is_over;
}

//  What is missing of the epoch is what the node that has it in its part cannot read.
static void
s_check_epoch (const scene_t *self)
{
    roaring_bitmap_t *all = roaring_bitmap_copy (self->taken);
    for (uint32_t node = 0; node < self->nodes; node++)
        roaring_bitmap_or_inplace (all, self->had [node]);
    assert_true (roaring_bitmap_is_subset (all, self->data));
    roaring_bitmap_t *missing = roaring_bitmap_andnot (self->data, all);
    roaring_uint32_iterator_t each;
    for (roaring_init_iterator (missing, &each); each.has_value; roaring_advance_uint32_iterator (&each))
        assert_int_equal (each.current_value % 13, 0);
    roaring_bitmap_free (missing);
    roaring_bitmap_free (all);
}

static void
s_next_epoch (scene_t *self)
{
    s_check_epoch (self);
    roaring_bitmap_clear (self->taken);
    self->epoch++;
    for (uint32_t node = 0; node < self->nodes; node++) {
        roaring_bitmap_t *foreseen = roaring_bitmap_create ();
        for (uint32_t id = 0; id < self->samples; id++)
            if (sampler_needs_next (self->samplers [node], self->jobs [node], id))
                roaring_bitmap_add (foreseen, id);
        sampler_epoch_begin (self->samplers [node], self->jobs [node]);
        roaring_bitmap_clear (self->had [node]);
        for (uint32_t id = 0; id < self->samples; id++)
            assert_int_equal (roaring_bitmap_contains (foreseen, id),
                sampler_needs (self->samplers [node], self->jobs [node], id));
        roaring_bitmap_free (foreseen);
    }
}

static void
s_play (sampler_policy_t policy, sampler_order_t order, uint32_t pool, uint64_t seed)
{
    static uint32_t places [SAMPLES_MAX];
    scene_t self = { .policy = policy, .order = order, .pool = pool, .seed = seed, .random = seed,
        .taken = roaring_bitmap_create (), .data = roaring_bitmap_create () };
    self.samples = 1 + (uint32_t) test_below (&self.random, SAMPLES_MAX);
    for (uint32_t place = 0; place < self.samples; place++)
        places [place] = place;
    s_shuffle (places, self.samples, &self.random);
    self.pack_order = pool || test_below (&self.random, 2)? places: NULL;
    uint64_t share = 1 + test_below (&self.random, 4);
    for (uint32_t id = 0; id < self.samples; id++)
        if (id == self.samples / 2 || test_below (&self.random, 4) < share)
            roaring_bitmap_add (self.data, id);
    s_begin (&self, 1 + (uint32_t) test_below (&self.random, NODES_MAX));
    for (int turn = 0; turn < 12; turn++) {
        if (s_draw_some (&self, test_below (&self.random, 4) == 0? self.samples:
            test_below (&self.random, self.samples / self.nodes + 1)))
            s_next_epoch (&self);
        else
        if (test_below (&self.random, 2) == 0) {
            s_end (&self);
            s_begin (&self, 1 + (uint32_t) test_below (&self.random, NODES_MAX));
        }
    }
    s_end (&self);
    roaring_bitmap_free (self.taken);
    roaring_bitmap_free (self.data);
}

static void
test_once_over_all_nodes (void **state)
{
    (void) state;
    static const sampler_policy_t policies [] = { SAMPLER_POLICY_DSA, SAMPLER_POLICY_FOLLOW,
        SAMPLER_POLICY_RESIDENT };
    uint64_t seed = test_seed ();
    for (int round = 0; round < EFFORT (60); round++)
        for (size_t policy = 0; policy < 3; policy++) {
            s_play (policies [policy], SAMPLER_ORDER_SHARED, 0, seed++);
            s_play (policies [policy], SAMPLER_ORDER_PRIVATE, 0, seed++);
            s_play (policies [policy], SAMPLER_ORDER_LIST, 0, seed++);
            s_play (policies [policy], SAMPLER_ORDER_SEEDED, 0, seed++);
            s_play (policies [policy], SAMPLER_ORDER_SEEDED, 32, seed++);
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_golden_parts),
        cmocka_unit_test (test_each_sample_is_in_one_part),
        cmocka_unit_test (test_uniform_over_nodes),
        cmocka_unit_test (test_once_over_all_nodes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

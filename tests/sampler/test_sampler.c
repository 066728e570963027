/*  Guards: what sampler.h says of single events.  */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <malloc.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "sampler.h"
#include "seed.h"

enum { SAMPLES = 70000 };           //  two containers

static uint32_t
s_join_range (sampler_t *sampler, sampler_order_t order, uint32_t from, uint32_t to)
{
    roaring_bitmap_t *data = roaring_bitmap_from_range (from, to, 1);
    uint32_t job = sampler_join (sampler, &(sampler_join_t) { .order = order, .data = data });
    roaring_bitmap_free (data);
    return job;
}

static uint32_t
s_join_list (sampler_t *sampler, const uint32_t *list, size_t count)
{
    uint32_t job = sampler_join (sampler,
        &(sampler_join_t) { .order = SAMPLER_ORDER_LIST, .list = list, .list_count = count });
    return job;
}

//  A number that is given again is another job: it is grouped by its own data.
static void
test_a_number_that_is_given_again_is_another_job (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_FOLLOW, 1);
    roaring_bitmap_t *low = roaring_bitmap_from_range (0, SAMPLES / 2, 1),
        *high = roaring_bitmap_from_range (SAMPLES / 2, SAMPLES, 1);
    const roaring_bitmap_t *const datas [] = { low, low, high };
    for (uint32_t job = 0; job < 3; job++)
        assert_int_equal (sampler_join (sampler, &(sampler_join_t) { .data = datas [job] }), job);
    for (uint32_t job = 0; job < 3; job++)
        sampler_epoch_begin (sampler, job);
    assert_int_equal (sampler_group_count (sampler), 2);
    sampler_leave (sampler, 0);
    assert_int_equal (sampler_join (sampler, &(sampler_join_t) { .data = high }), 0);
    sampler_epoch_begin (sampler, 0);
    size_t count;
    const uint32_t *jobs = sampler_group (sampler, 0, &count);
    assert_int_equal (count, 2);
    assert_int_equal (jobs [0], 0);
    assert_int_equal (jobs [1], 2);
    sampler_check (sampler);
    sampler_destroy (&sampler);
    roaring_bitmap_free (low);
    roaring_bitmap_free (high);
}

//  One draw of a job that is alone in its round.
static uint32_t
s_draw (sampler_t *sampler, uint32_t job)
{
    sampler_offer_t offer;
    sampler_round_begin (sampler, &job, 1);
    assert_true (sampler_offer (sampler, &offer));
    assert_int_equal (offer.job_count, 1);
    assert_int_equal (offer.jobs [0], job);
    uint32_t id = sampler_pick (sampler);
    sampler_commit (sampler, id);
    assert_false (sampler_offer (sampler, &offer));
    sampler_check (sampler);
    return id;
}

//  A list that was made before is what a copied one is: wherever the job begins in it, whatever cannot be
//  read.
static void
test_a_made_list_is_as_a_copied_one (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (20); seed++, round++) {
        uint64_t random = seed;
        size_t count = 1 + test_below (&random, 300), places = test_below (&random, count + 1);
        uint32_t *ids = malloc (count * sizeof *ids), *copy = malloc (count * sizeof *ids);
        assert_true (ids && copy);
        uint32_t different = 1 + (uint32_t) test_below (&random, SAMPLES);
        for (size_t place = 0; place < count; place++)
            copy [place] = ids [place] = (uint32_t) test_below (&random, different);
        sampler_list_t *made = sampler_list_new (ids, count, SAMPLES, 1, 0);
        assert_non_null (made);
        sampler_t *samplers [2];
        uint32_t jobs [2];
        for (int one = 0; one < 2; one++) {
            samplers [one] = sampler_new (SAMPLES, SAMPLER_POLICY_FOLLOW, 1);
            for (uint32_t id = 0; round % 2 && id < different; id += 3)
                sampler_drop (samplers [one], id);
            jobs [one] = sampler_join (samplers [one], &(sampler_join_t) { .order = SAMPLER_ORDER_LIST,
                .list = one? ids: copy, .list_count = count, .made = one? made: NULL,
                .taken_places = places });
            sampler_check (samplers [one]);
        }
        sampler_list_destroy (&made);               //  the sampler holds it
        assert_null (made);
        for (int epoch = 0; epoch < 2; epoch++) {
            uint64_t remaining = sampler_remaining (samplers [0], jobs [0]), expected = 0;
            for (size_t place = epoch? 0: places; place < count; place++)
                expected += round % 2 == 0 || copy [place] % 3 != 0;
            assert_int_equal (remaining, expected);
            assert_int_equal (sampler_remaining (samplers [1], jobs [1]), expected);
            for (; remaining > 0; remaining--)
                assert_int_equal (s_draw (samplers [0], jobs [0]), s_draw (samplers [1], jobs [1]));
            for (int one = 0; one < 2; one++)
                sampler_epoch_begin (samplers [one], jobs [one]);
        }
        for (int one = 0; one < 2; one++)
            sampler_destroy (&samplers [one]);
        free (copy);
    }
}

//  A node's part of a list does not keep the room of the whole one: memory is counted by the part.
static void
test_a_part_of_a_list_holds_what_it_says (void **state)
{
    (void) state;
    for (uint32_t step = 1; step <= 8; step++) {
        uint32_t *ids = malloc (SAMPLES * sizeof *ids);
        assert_non_null (ids);
        for (uint32_t place = 0; place < SAMPLES; place++)
            ids [place] = SAMPLES - 1 - place;
        sampler_list_t *made = sampler_list_new (ids, SAMPLES, SAMPLES, step, step - 1);
        assert_non_null (made);
        size_t held = malloc_usable_size ((void *) made->ids)
            + malloc_usable_size ((void *) made->occurrences)
            + malloc_usable_size ((void *) made->times);
        assert_true (held <= sampler_list_bytes (made->count, SAMPLES, step > 1));
        sampler_list_destroy (&made);
    }
}

//  A list and what a simple model knows of it: all places as they were given, those of dropped ids passed
//  over when they come.  With nodes the job has each nodes-th place of the whole list.
enum { MODEL_LIST = 60, MODEL_IDS = 12, MODEL_EPOCHS = 4, MODEL_NODES = 3 };

typedef struct {
    sampler_t *sampler;
    uint32_t job;
    uint32_t whole [MODEL_LIST * MODEL_NODES], nodes, node;
    uint32_t list [MODEL_LIST];
    size_t count, place;
    bool dropped [MODEL_IDS];
} listed_t;

static uint64_t
s_listed_from (const listed_t *self, size_t from, uint32_t id, bool any)
{
    uint64_t count = 0;
    for (size_t place = from; place < self->count; place++)
        count += !self->dropped [self->list [place]] && (any || self->list [place] == id);
    return count;
}

static void
s_check_listed (const listed_t *self)
{
    sampler_check (self->sampler);
    assert_int_equal (sampler_epoch_samples (self->sampler, self->job), s_listed_from (self, 0, 0, true));
    assert_int_equal (sampler_remaining (self->sampler, self->job),
        s_listed_from (self, self->place, 0, true));
    for (uint32_t id = 0; id < MODEL_IDS; id++) {
        assert_int_equal (sampler_has (self->sampler, self->job, id), s_listed_from (self, 0, id, false) > 0);
        assert_int_equal (sampler_needs (self->sampler, self->job, id),
            s_listed_from (self, self->place, id, false) > 0);
        assert_int_equal (sampler_is_dropped (self->sampler, id), self->dropped [id]);
        assert_int_equal (roaring_bitmap_contains (sampler_dropped (self->sampler), id), self->dropped [id]);
    }
}

static void
s_drop_listed (listed_t *self, uint64_t *random)
{
    uint32_t id = (uint32_t) test_below (random, MODEL_IDS);
    sampler_drop (self->sampler, id);
    self->dropped [id] = true;
}

//  Joins behind so many places of a list in which ids repeat, in runs and apart.
static void
s_join_listed (listed_t *self, size_t round, uint64_t *random)
{
    *self = (listed_t) { .sampler = sampler_new (MODEL_IDS, SAMPLER_POLICY_FOLLOW, 1),
        .nodes = 1 + (uint32_t) test_below (random, MODEL_NODES) };
    self->node = (uint32_t) test_below (random, self->nodes);
    size_t whole = self->nodes * (1 + test_below (random, MODEL_LIST - 1))
        + test_below (random, self->nodes);
    uint32_t *ids = malloc (whole * sizeof *ids);
    assert_non_null (ids);
    for (size_t place = 0; place < whole; place++) {
        ids [place] = self->whole [place] = place > 0 && test_below (random, 2)? ids [place - 1]
            : (uint32_t) test_below (random, 1 + round % MODEL_IDS);
        if (place % self->nodes == self->node)
            self->list [self->count++] = ids [place];
    }
    sampler_list_t *made = sampler_list_new (ids, whole, MODEL_IDS, self->nodes, self->node);
    assert_non_null (made);
    assert_int_equal (made->count, self->count);
    for (uint64_t drops = test_below (random, 4); drops > 0; drops--)
        s_drop_listed (self, random);
    self->place = round / MODEL_IDS % (self->count + 1);
    self->job = sampler_join (self->sampler,
        &(sampler_join_t) { .order = SAMPLER_ORDER_LIST, .list = made->ids, .made = made,
        .list_count = self->count, .taken_places = self->place, .epoch = test_below (random, 3) });
    sampler_list_destroy (&made);
    s_check_listed (self);
}

static void
s_draw_listed (listed_t *self)
{
    while (self->dropped [self->list [self->place]])
        self->place++;
    uint32_t id = self->list [self->place], occurrence = 0;
    for (size_t before = self->place++ * self->nodes + self->node; before-- > 0; )
        occurrence += self->whole [before] == id;
    assert_int_equal (s_draw (self->sampler, self->job), id);
    assert_int_equal (sampler_occurrence (self->sampler, self->job), occurrence);
}

//  Drops before the join, in mid-epoch and between epochs, at each place where a job can go on: the draws and
//  counts are those of the list that was given, and so is how often an id came before.  Some epochs end
//  early, as with drop_last.
static void
test_a_list_passes_over_what_is_dropped (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (4000); seed++, round++) {
        uint64_t random = seed;
        listed_t listed;
        s_join_listed (&listed, round, &random);
        for (int epoch = 0; epoch < MODEL_EPOCHS; epoch++) {
            bool is_cut = test_below (&random, 4) == 0;
            while (sampler_remaining (listed.sampler, listed.job) > 0
                && !(is_cut && test_below (&random, 20) == 0)) {
                s_draw_listed (&listed);
                if (test_below (&random, 40) == 0)
                    s_drop_listed (&listed, &random);
                s_check_listed (&listed);
            }
            if (test_below (&random, 4) == 0)
                s_drop_listed (&listed, &random);
            sampler_epoch_begin (listed.sampler, listed.job);
            listed.place = 0;
            s_check_listed (&listed);
        }
        sampler_destroy (&listed.sampler);
    }
}

//  Numbers are the smallest free ones, and there are only so many.
static void
test_join_gives_the_smallest_free_number (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        roaring_bitmap_t *data = roaring_bitmap_of (2, job, job + 1);
        assert_int_equal (sampler_join (sampler, &(sampler_join_t) { .data = data }), job);
        roaring_bitmap_free (data);
    }
    size_t count;
    assert_int_equal (sampler_group_count (sampler), 1);
    sampler_group (sampler, 0, &count);
    assert_int_equal (count, SAMPLER_JOBS_MAX);
    roaring_bitmap_t *data = roaring_bitmap_of (1, 5);
    assert_int_equal (sampler_join (sampler, &(sampler_join_t) { .data = data }), SAMPLER_JOB_NONE);
    roaring_bitmap_free (data);
    sampler_leave (sampler, 200);
    sampler_leave (sampler, 7);
    sampler_check (sampler);
    assert_int_equal (s_join_range (sampler, SAMPLER_ORDER_PRIVATE, 0, 10), 7);
    assert_int_equal (s_join_range (sampler, SAMPLER_ORDER_PRIVATE, 0, 10), 200);
    sampler_destroy (&sampler);
    assert_null (sampler);
    sampler_destroy (&sampler);
}

//  The largest possible group: its rounds still give every job one sample.
static void
test_round_of_all_jobs (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        s_join_range (sampler, SAMPLER_ORDER_SHARED, job % 7, SAMPLES - job % 5);
    size_t count;
    const uint32_t *jobs = sampler_group (sampler, 0, &count);
    for (int round = 0; round < 20; round++) {
        sampler_offer_t offer;
        size_t served = 0;
        sampler_round_begin (sampler, jobs, count);
        while (sampler_offer (sampler, &offer)) {
            served += offer.job_count;
            sampler_commit (sampler, sampler_pick (sampler));
        }
        assert_int_equal (served, SAMPLER_JOBS_MAX);
    }
    sampler_check (sampler);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        assert_int_equal (sampler_remaining (sampler, job), SAMPLES - job % 5 - job % 7 - 20);
    sampler_destroy (&sampler);
}

//  Repeats come as often as listed; an id is needed until its last place is past.
static void
test_list_with_repeats (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    const uint32_t list [] = { 9, 69999, 9, 3, 9, 3 };
    uint32_t job = s_join_list (sampler, list, 6);
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal (sampler_epoch_samples (sampler, job), 6);
        for (size_t place = 0; place < 6; place++) {
            assert_int_equal (sampler_remaining (sampler, job), 6 - place);
            assert_int_equal (sampler_needs (sampler, job, 9), place < 5);
            assert_int_equal (sampler_needs (sampler, job, 69999), place < 2);
            assert_int_equal (sampler_needs (sampler, job, 3), true);
            assert_int_equal (s_draw (sampler, job), list [place]);
        }
        assert_int_equal (sampler_remaining (sampler, job), 0);
        assert_false (sampler_needs (sampler, job, 3));
        assert_true (sampler_has (sampler, job, 3));
        sampler_epoch_begin (sampler, job);
    }
    sampler_destroy (&sampler);
}

//  A dropped id leaves all its places, those to come and those of the next epoch, wherever the cursor stands.
static void
test_list_and_drops (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    const uint32_t list [] = { 1, 1, 2, 3, 1, 4, 1 };
    uint32_t job = s_join_list (sampler, list, 7);
    assert_int_equal (s_draw (sampler, job), 1);
    sampler_drop (sampler, 1);
    sampler_drop (sampler, 1);
    sampler_check (sampler);
    assert_int_equal (sampler_dropped_count (sampler), 1);
    assert_int_equal (sampler_epoch_samples (sampler, job), 3);
    assert_int_equal (sampler_remaining (sampler, job), 3);
    assert_int_equal (s_draw (sampler, job), 2);
    sampler_drop (sampler, 4);
    assert_int_equal (s_draw (sampler, job), 3);
    assert_int_equal (sampler_remaining (sampler, job), 0);
    sampler_epoch_begin (sampler, job);
    assert_int_equal (sampler_remaining (sampler, job), 2);
    assert_int_equal (s_draw (sampler, job), 2);
    uint32_t late = s_join_list (sampler, list, 7);
    assert_int_equal (sampler_epoch_samples (sampler, late), 2);
    assert_int_equal (s_draw (sampler, late), 2);
    const uint32_t unreadable [] = { 1, 4, 4 };
    uint32_t empty = s_join_list (sampler, unreadable, 3);
    assert_int_equal (sampler_epoch_samples (sampler, empty), 0);
    assert_int_equal (sampler_remaining (sampler, empty), 0);
    sampler_destroy (&sampler);
}

//  A drop costs no walk through the list, which stops all jobs of the server: this many would take minutes.
static void
test_many_drops_from_a_long_list (void **state)
{
    (void) state;
    enum { PLACES = 1 << 22, IDS = 1 << 17, KEPT = 5 };
    uint32_t *ids = malloc (PLACES * sizeof *ids);
    assert_non_null (ids);
    for (size_t place = 0; place < PLACES; place++)
        ids [place] = (uint32_t) (place * 0x9e3779b1u >> 15) % IDS;
    uint64_t kept = 0;
    for (size_t place = 0; place < PLACES; place++)
        kept += ids [place] < KEPT;
    sampler_t *sampler = sampler_new (IDS, SAMPLER_POLICY_FOLLOW, 1);
    uint32_t job = s_join_list (sampler, ids, PLACES);
    for (uint32_t id = IDS; id-- > KEPT; )
        sampler_drop (sampler, id);
    assert_int_equal (sampler_remaining (sampler, job), kept);
    assert_int_equal (sampler_epoch_samples (sampler, job), kept);
    sampler_check (sampler);
    sampler_destroy (&sampler);
    free (ids);
}

//  Data come as runs, and CRoaring 0.2.66 overruns the heap where it undoes a short one that ends a
//  container.
static void
test_data_of_runs_at_the_end_of_a_container (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    for (uint32_t from = 65536 - 5000; from < 65536; from += 499) {
        uint32_t job = s_join_range (sampler, SAMPLER_ORDER_SHARED, from, 65536);
        assert_int_equal (sampler_epoch_samples (sampler, job), 65536 - from);
        assert_true (sampler_needs (sampler, job, 65535));
        assert_false (sampler_needs (sampler, job, 65536));
        s_draw (sampler, job);
    }
    sampler_destroy (&sampler);
}

//  LIST without ids is the data, ascending, across containers.
static void
test_list_of_data_ascends (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    uint32_t job = s_join_range (sampler, SAMPLER_ORDER_LIST, 65530, 65545);
    sampler_drop (sampler, 65530);
    sampler_drop (sampler, 65536);
    for (uint32_t id = 65531; id < 65545; id++)
        if (id != 65536)
            assert_int_equal (s_draw (sampler, job), id);
    assert_int_equal (sampler_remaining (sampler, job), 0);
    sampler_destroy (&sampler);
}

//  What was dropped before a join is left out of it, and drops reach every job once.
static void
test_drop_reaches_present_and_future_jobs (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    uint32_t first = s_join_range (sampler, SAMPLER_ORDER_SHARED, 0, 10);
    uint32_t drawn = s_draw (sampler, first);
    sampler_drop (sampler, drawn);
    sampler_drop (sampler, (drawn + 1) % 10);
    sampler_check (sampler);
    assert_int_equal (sampler_remaining (sampler, first), 8);
    assert_int_equal (sampler_epoch_samples (sampler, first), 8);
    assert_false (sampler_has (sampler, first, drawn));
    uint32_t second = s_join_range (sampler, SAMPLER_ORDER_SHARED, 0, 10);
    assert_int_equal (sampler_epoch_samples (sampler, second), 8);
    assert_false (sampler_needs (sampler, second, drawn));
    for (uint32_t id = 0; id < 10; id++)
        sampler_drop (sampler, id);
    sampler_check (sampler);
    assert_int_equal (sampler_remaining (sampler, first), 0);
    assert_int_equal (sampler_epoch_samples (sampler, second), 0);
    assert_int_equal (sampler_dropped_count (sampler), 10);
    sampler_destroy (&sampler);
}

//  An epoch cut short leaves nothing behind: the next one has all the data.
static void
test_epoch_begin_forgets_what_remained (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    uint32_t job = s_join_range (sampler, SAMPLER_ORDER_PRIVATE, 0, 100);
    for (int draw = 0; draw < 60; draw++)
        s_draw (sampler, job);
    assert_int_equal (sampler_remaining (sampler, job), 40);
    sampler_epoch_begin (sampler, job);
    sampler_check (sampler);
    assert_int_equal (sampler_remaining (sampler, job), 100);
    sampler_destroy (&sampler);
}

static void
s_assert_groups (const sampler_t *sampler, size_t groups, const uint32_t *members, const size_t *counts)
{
    assert_int_equal (sampler_group_count (sampler), groups);
    for (size_t group = 0; group < groups; group++) {
        size_t count;
        const uint32_t *jobs = sampler_group (sampler, group, &count);
        assert_int_equal (count, counts [group]);
        for (size_t place = 0; place < count; place++)
            assert_int_equal (jobs [place], *members++);
    }
}

//  Overlap joins groups, also through a third job, and a leave parts them; only SHARED jobs count.
static void
test_groups_are_components_of_overlap (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    s_assert_groups (sampler, 0, NULL, NULL);
    s_join_range (sampler, SAMPLER_ORDER_SHARED, 0, 10);
    s_join_range (sampler, SAMPLER_ORDER_PRIVATE, 0, 30);
    s_join_range (sampler, SAMPLER_ORDER_SHARED, 20, 30);
    s_join_range (sampler, SAMPLER_ORDER_LIST, 0, 30);
    s_assert_groups (sampler, 4, (uint32_t []) { 0, 1, 2, 3 }, (size_t []) { 1, 1, 1, 1 });
    uint32_t bridge = s_join_range (sampler, SAMPLER_ORDER_SHARED, 9, 21);
    s_assert_groups (sampler, 3, (uint32_t []) { 0, 2, 4, 1, 3 }, (size_t []) { 3, 1, 1 });
    //  What remains plays no part: two jobs that have nothing left in common stay together.
    while (sampler_remaining (sampler, bridge))
        s_draw (sampler, bridge);
    s_assert_groups (sampler, 3, (uint32_t []) { 0, 2, 4, 1, 3 }, (size_t []) { 3, 1, 1 });
    sampler_leave (sampler, bridge);
    s_assert_groups (sampler, 4, (uint32_t []) { 0, 1, 2, 3 }, (size_t []) { 1, 1, 1, 1 });
    //  The number is given again, to data that touch only one of them.
    s_join_range (sampler, SAMPLER_ORDER_SHARED, 29, 40);
    s_assert_groups (sampler, 4, (uint32_t []) { 0, 1, 2, 4, 3 }, (size_t []) { 1, 1, 2, 1 });
    //  A group is fixed until the next join or leave, even when its only common id is dropped.
    sampler_drop (sampler, 29);
    s_assert_groups (sampler, 4, (uint32_t []) { 0, 1, 2, 4, 3 }, (size_t []) { 1, 1, 2, 1 });
    sampler_leave (sampler, 3);
    s_assert_groups (sampler, 4, (uint32_t []) { 0, 1, 2, 4 }, (size_t []) { 1, 1, 1, 1 });
    sampler_destroy (&sampler);
}

//  Equal jobs that draw together share every draw: one preparation for all of them.
static void
test_equal_jobs_share_every_draw (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    for (int job = 0; job < 4; job++)
        s_join_range (sampler, SAMPLER_ORDER_SHARED, 0, 500);
    const uint32_t jobs [] = { 3, 1, 0, 2 };
    for (uint64_t left = 500; left > 0; left--) {
        sampler_offer_t offer;
        sampler_round_begin (sampler, jobs, 4);
        assert_true (sampler_offer (sampler, &offer));
        assert_int_equal (offer.job_count, 4);
        sampler_commit (sampler, sampler_pick (sampler));
        assert_false (sampler_offer (sampler, &offer));
    }
    sampler_check (sampler);
    sampler_destroy (&sampler);
}

//  One seed, one order: whatever else happens on the machine.
static void
test_same_seed_same_order (void **state)
{
    (void) state;
    uint32_t orders [2] [300];
    for (int run = 0; run < 2; run++) {
        sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
        uint32_t job = s_join_range (sampler, SAMPLER_ORDER_PRIVATE, 0, 300);
        for (int draw = 0; draw < 300; draw++)
            orders [run] [draw] = s_draw (sampler, job);
        sampler_destroy (&sampler);
    }
    assert_memory_equal (orders [0], orders [1], sizeof orders [0]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_made_list_is_as_a_copied_one),
        cmocka_unit_test (test_a_part_of_a_list_holds_what_it_says),
        cmocka_unit_test (test_a_list_passes_over_what_is_dropped),
        cmocka_unit_test (test_join_gives_the_smallest_free_number),
        cmocka_unit_test (test_round_of_all_jobs),
        cmocka_unit_test (test_list_with_repeats),
        cmocka_unit_test (test_list_and_drops),
        cmocka_unit_test (test_many_drops_from_a_long_list),
        cmocka_unit_test (test_data_of_runs_at_the_end_of_a_container),
        cmocka_unit_test (test_list_of_data_ascends),
        cmocka_unit_test (test_drop_reaches_present_and_future_jobs),
        cmocka_unit_test (test_a_number_that_is_given_again_is_another_job),
        cmocka_unit_test (test_epoch_begin_forgets_what_remained),
        cmocka_unit_test (test_groups_are_components_of_overlap),
        cmocka_unit_test (test_equal_jobs_share_every_draw),
        cmocka_unit_test (test_same_seed_same_order),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

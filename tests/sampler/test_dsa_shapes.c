/*  Guards: under `dsa`, whatever shape the data sets of 2 to 16 jobs have, each draw is uniform over what
 *  remains to the job given all that was drawn before, and two jobs alone draw the same sample with
 *  probability |I| / max (|R_1|, |R_2|), also beside a job that draws rarely.  Jobs with one set draw as one,
 *  and each of their orders is uniform as before.
 *  (test_dsa_law.c has the whole joint law, on sets of eight.)
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "random.h"
#include "sampler.h"
#include "seed.h"
#include "statistics.h"

enum { SAMPLES = 256, JOBS_MAX = 16, ROUNDS = 6000 };

typedef enum { NESTED, OVERLAPPING, DISJOINT, SCATTERED, PAIRS, SHAPES } shape_t;

static const char *const s_shape_names [SHAPES] = { "nested", "overlapping", "disjoint", "scattered",
    "pairwise equal" };

typedef struct {
    bool data [SAMPLES], left [SAMPLES];
    uint32_t size, remaining;
} model_job_t;

typedef struct {
    sampler_t *sampler;
    uint64_t random;
    size_t count;
    model_job_t jobs [JOBS_MAX];
    statistics_events_t lower [JOBS_MAX];       //  the draw is in the lower half of what remains
    statistics_events_t same;                   //  two jobs drew one id
} world_t;

static bool
s_is_in (world_t *world, shape_t shape, size_t job, uint32_t id)
{
    uint32_t part = (uint32_t) (SAMPLES / 2 / world->count);
    switch (shape) {
    case NESTED:
        return id < SAMPLES - part * job;
    case OVERLAPPING:
        return id >= part * job && id < part * job + SAMPLES / 2;
    case DISJOINT:
        return id / (2 * part) == job;
    case PAIRS:
        return id >= part * (job / 2 * 2) && id < part * (job / 2 * 2) + SAMPLES / 2;
    default:
        return test_below (&world->random, 3) > 0;
    }
}

static void
s_make (world_t *world, shape_t shape, size_t count, uint64_t seed)
{
    *world = (world_t) { .sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, seed), .random = seed,
        .count = count };
    for (size_t job = 0; job < count; job++) {
        model_job_t *model = &world->jobs [job];
        roaring_bitmap_t *data = roaring_bitmap_create ();
        for (uint32_t id = 0; id < SAMPLES; id++)
            if (s_is_in (world, shape, job, id)) {
                roaring_bitmap_add (data, id);
                model->data [id] = true;
                model->size++;
            }
        memcpy (model->left, model->data, sizeof model->left);
        model->remaining = model->size;
        assert_int_equal (sampler_join (world->sampler, &(sampler_join_t) { .data = data }), job);
        roaring_bitmap_free (data);
    }
}

//  What must be expected of a draw is known before it: the remaining sets as the round began.
static void
s_note_draw (world_t *world, size_t job, uint32_t id)
{
    model_job_t *model = &world->jobs [job];
    assert_true (model->left [id]);
    uint32_t rank = 0;
    for (uint32_t lower = 0; lower < id; lower++)
        rank += model->left [lower];
    uint32_t half = model->remaining / 2;
    statistics_event (&world->lower [job], rank < half, (double) half / model->remaining);
}

static double
s_same_probability (const model_job_t *one, const model_job_t *other)
{
    uint32_t common = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        common += one->left [id] && other->left [id];
    return (double) common / (one->remaining > other->remaining? one->remaining: other->remaining);
}

//  A round of some jobs of a group.  A job that has nothing left begins an epoch, and now and then one in
//  mid-epoch does.
static void
s_round (world_t *world)
{
    size_t members, takers = 0;
    uint32_t jobs [JOBS_MAX], ids [JOBS_MAX];
    const uint32_t *group = sampler_group (world->sampler,
        test_below (&world->random, sampler_group_count (world->sampler)), &members);
    for (size_t index = 0; index < members; index++)
        if (test_below (&world->random, 5) > 0)
            jobs [takers++] = group [index];
    if (takers == 0)
        return;
    bool is_pair = takers == 2 && members == 2;         //  others of the path would cut what they share
    double same = is_pair? s_same_probability (&world->jobs [jobs [0]], &world->jobs [jobs [1]]): 0;
    sampler_offer_t offer;
    sampler_round_begin (world->sampler, jobs, takers);
    while (sampler_offer (world->sampler, &offer)) {
        uint32_t offered [JOBS_MAX], id = sampler_pick (world->sampler);
        memcpy (offered, offer.jobs, offer.job_count * sizeof *offered);
        size_t count = offer.job_count;
        sampler_commit (world->sampler, id);
        for (size_t index = 0; index < count; index++)
            for (size_t taker = 0; taker < takers; taker++)
                if (jobs [taker] == offered [index])
                    ids [taker] = id;
    }
    if (is_pair)
        statistics_event (&world->same, ids [0] == ids [1], same);
    for (size_t taker = 0; taker < takers; taker++) {
        model_job_t *model = &world->jobs [jobs [taker]];
        s_note_draw (world, jobs [taker], ids [taker]);
        model->left [ids [taker]] = false;
        if (--model->remaining > 0 && test_below (&world->random, 200) > 0)
            continue;
        sampler_epoch_begin (world->sampler, jobs [taker]);
        memcpy (model->left, model->data, sizeof model->left);
        model->remaining = model->size;
    }
}

static void
test_every_shape_and_number (void **state)
{
    (void) state;
    static const size_t counts [] = { 2, 3, 4, 7, 16 };
    enum { COUNTS = sizeof counts / sizeof *counts };
    const double limit = statistics_z_limit (SHAPES * (2 + 3 + 4 + 7 + 16 + COUNTS));
    uint64_t seed = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", seed);
    for (shape_t shape = NESTED; shape < SHAPES; shape++)
        for (size_t index = 0; index < COUNTS; index++) {
            static world_t world;
            s_make (&world, shape, counts [index], seed++);
            for (int round = 0; round < ROUNDS; round++)
                s_round (&world);
            sampler_check (world.sampler);
            sampler_destroy (&world.sampler);
            double worst = fabs (statistics_z_of_events (&world.same));
            for (size_t job = 0; job < world.count; job++)
                worst = fmax (worst, fabs (statistics_z_of_events (&world.lower [job])));
            if (worst > limit)
                fail_msg ("%zu jobs with %s data: z = %.2f", world.count, s_shape_names [shape], worst);
            assert_true (world.lower [0].variance > 30);
            assert_true (world.count > 2 || shape == DISJOINT || world.same.variance > 30);
        }
}

//  ------------------------------------------------------------------------------------------------
//  Two jobs with the same data, those below TWINS, and a third with those from THIRD on

enum { TRIO_SAMPLES = 60, TWINS = 42, THIRD = 18, TRIO_SEEDS = 1500, TRIO_EPOCHS = 5 };

typedef struct {
    uint32_t counts [3] [TRIO_EPOCHS] [TRIO_SAMPLES] [STATISTICS_BINS];     //  how often an id came there
    uint64_t offers, draws;
} trio_t;

//  Rounds of all three, until all have ended so many epochs; at every fourth round the last one sits out, and
//  it begins its epochs when the others are anywhere in theirs.
static void
s_play_trio (trio_t *trio, uint64_t seed)
{
    sampler_t *sampler = sampler_new (TRIO_SAMPLES, SAMPLER_POLICY_DSA, seed);
    uint32_t sizes [3], drawn [3] = { 0 };
    for (uint32_t job = 0; job < 3; job++) {
        roaring_bitmap_t *data = roaring_bitmap_from_range (job < 2? 0: THIRD, job < 2? TWINS: TRIO_SAMPLES,
            1);
        sizes [job] = (uint32_t) roaring_bitmap_get_cardinality (data);
        sampler_join (sampler, &(sampler_join_t) { .data = data });
        roaring_bitmap_free (data);
    }
    while (drawn [0] < TRIO_EPOCHS * sizes [0] || drawn [2] < TRIO_EPOCHS * sizes [2]) {
        uint32_t ids [3] = { 0 };
        static const uint32_t jobs [] = { 0, 1, 2 };
        sampler_offer_t offer;
        bool third = drawn [0] % 4 > 0;
        for (sampler_round_begin (sampler, jobs, third? 3: 2); sampler_offer (sampler, &offer);
            trio->offers++) {
            uint32_t id = sampler_pick (sampler);
            for (size_t index = 0; index < offer.job_count; index++)
                ids [offer.jobs [index]] = id;
            trio->draws += offer.job_count;
            sampler_commit (sampler, id);
        }
        assert_int_equal (ids [0], ids [1]);
        for (uint32_t job = 0; job < (third? 3: 2); job++) {
            uint32_t epoch = drawn [job] / sizes [job], position = drawn [job] % sizes [job];
            if (epoch < TRIO_EPOCHS)
                trio->counts [job] [epoch] [ids [job]] [position * STATISTICS_BINS / sizes [job]]++;
            if (++drawn [job] % sizes [job] == 0)
                sampler_epoch_begin (sampler, job);
        }
    }
    sampler_check (sampler);
    sampler_destroy (&sampler);
}

//  They never part, so each sample that one of them draws serves both: at most .6 for each draw of the three
//  (as players of their own they come to .64).  And every epoch of every job is uniform, sample by position.
static void
test_jobs_with_one_set_draw_as_one (void **state)
{
    (void) state;
    static trio_t trio;
    trio = (trio_t) { .offers = 0 };
    const double limit = statistics_z_limit (3 * TRIO_EPOCHS);
    for (uint64_t seed = test_seed (); seed < test_seed () + TRIO_SEEDS; seed++)
        s_play_trio (&trio, seed);
    for (uint32_t job = 0; job < 3; job++)
        for (uint32_t epoch = 0; epoch < TRIO_EPOCHS; epoch++) {
            uint32_t size = job < 2? TWINS: TRIO_SAMPLES - THIRD;
            double z = statistics_z_of_positions (trio.counts [job] [epoch], TRIO_SAMPLES, size, TRIO_SEEDS);
            if (fabs (z) > limit)
                fail_msg ("job %u, epoch %u: z = %.2f of sample by position", job, epoch, z);
        }
    double offers = (double) trio.offers / (double) trio.draws;
    if (offers > 0.6)
        fail_msg ("%.3f samples for each draw", offers);
}

//  Jobs become one when what remains to them becomes equal, by whatever way, and two when it does not stay
//  so.
static void
test_jobs_part_and_meet (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, test_seed ());
    static const uint32_t jobs [] = { 0, 1, 2 };
    for (uint32_t job = 0; job < 3; job++) {
        roaring_bitmap_t *data = roaring_bitmap_from_range (job < 2? 0: SAMPLES - 2, SAMPLES, 1);
        sampler_join (sampler, &(sampler_join_t) { .data = data });
        roaring_bitmap_free (data);
    }
    for (uint32_t meeting = 0; meeting < SAMPLES / 4; meeting++) {
        sampler_offer_t offer;
        uint32_t together = 0, id = 0;
        for (sampler_round_begin (sampler, jobs, 3); sampler_offer (sampler, &offer); ) {
            for (size_t index = 0; index < offer.job_count; index++)
                together += offer.jobs [index] < 2;
            assert_int_not_equal (together, 1);
            sampler_commit (sampler, sampler_pick (sampler));
        }
        sampler_epoch_begin (sampler, 2);
        for (sampler_round_begin (sampler, jobs, 1); sampler_offer (sampler, &offer);
            sampler_commit (sampler, id))
            id = sampler_pick (sampler);
        assert_true (sampler_needs (sampler, 1, id) && !sampler_needs (sampler, 0, id));
        sampler_check (sampler);
        if (id < SAMPLES - 2)
            sampler_drop (sampler, id);
        else
            for (uint32_t job = 0; job < 2; job++)
                sampler_epoch_begin (sampler, job);
        sampler_check (sampler);
    }
    sampler_destroy (&sampler);
}

//  A third job that draws once in many rounds, with other data: the two share as if it were not there.
static void
test_a_slow_job_cuts_nothing (void **state)
{
    (void) state;
    enum { SLOW = 100, SLOW_ROUNDS = 40000 };
    static world_t world;
    s_make (&world, NESTED, 3, test_seed ());           //  the third has the fewest
    uint32_t ids [2] = { 0 };
    for (uint32_t round = 1; round <= SLOW_ROUNDS; round++) {
        static const uint32_t jobs [] = { 0, 1, 2 };
        double same = s_same_probability (&world.jobs [0], &world.jobs [1]);
        bool all = round % SLOW == 0;
        sampler_offer_t offer;
        for (sampler_round_begin (world.sampler, jobs, all? 3: 2); sampler_offer (world.sampler, &offer); ) {
            uint32_t id = sampler_pick (world.sampler);
            for (size_t index = 0; index < offer.job_count; index++) {
                world.jobs [offer.jobs [index]].left [id] = false;
                world.jobs [offer.jobs [index]].remaining--;
                if (offer.jobs [index] < 2)
                    ids [offer.jobs [index]] = id;
            }
            sampler_commit (world.sampler, id);
        }
        if (round > SLOW)               //  until then it leaves the path
            statistics_event (&world.same, ids [0] == ids [1], same);
        for (uint32_t job = 0; job < 3; job++)
            if (world.jobs [job].remaining == 0) {
                sampler_epoch_begin (world.sampler, job);
                memcpy (world.jobs [job].left, world.jobs [job].data, sizeof world.jobs [job].left);
                world.jobs [job].remaining = world.jobs [job].size;
            }
    }
    sampler_check (world.sampler);
    sampler_destroy (&world.sampler);
    double z = statistics_z_of_events (&world.same);
    if (fabs (z) > statistics_z_limit (1))
        fail_msg ("z = %.2f", z);
}

//  Where parts of a range from which no job has drawn meet again, its bitset is full.  It stays one: as a run
//  it would cost a draw twenty times as much.
static void
test_full_ranges_stay_bitsets (void **state)
{
    (void) state;
    enum { RANGES = 2 << 16, JOBS = 3 };
    roaring_bitmap_t *all = roaring_bitmap_from_range (0, RANGES, 1), *half = roaring_bitmap_create ();
    uint64_t random = test_seed ();
    for (uint32_t id = 0; id < RANGES; id++)
        if (test_below (&random, 2))
            roaring_bitmap_add (half, id);
    sampler_t *sampler = sampler_new (RANGES, SAMPLER_POLICY_DSA, test_seed ());
    const roaring_bitmap_t *const data [JOBS] = { all, half, all };
    uint32_t jobs [JOBS];
    for (size_t job = 0; job < JOBS; job++)
        jobs [job] = sampler_join (sampler, &(sampler_join_t) { .data = data [job] });
    sampler_offer_t offer;
    for (sampler_round_begin (sampler, jobs, JOBS); sampler_offer (sampler, &offer);)
        sampler_commit (sampler, sampler_pick (sampler));
    sampler_check (sampler);
    sampler_leave (sampler, jobs [1]);
    sampler_check (sampler);
    sampler_destroy (&sampler);
    roaring_bitmap_free (all);
    roaring_bitmap_free (half);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_every_shape_and_number),
        cmocka_unit_test (test_jobs_with_one_set_draw_as_one),
        cmocka_unit_test (test_jobs_part_and_meet),
        cmocka_unit_test (test_a_slow_job_cuts_nothing),
        cmocka_unit_test (test_full_ranges_stay_bitsets),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  Guards: under `dsa`, whatever shape the data sets of 2 to 16 jobs have, each draw is uniform over what remains to
 *  the job given all that was drawn before, and two jobs alone draw the same sample with probability
 *  |I| / max (|R_1|, |R_2|).  (test_dsa_law.c has the whole joint law, on sets of eight.)
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

typedef enum { NESTED, OVERLAPPING, DISJOINT, SCATTERED, SHAPES } shape_t;

static const char *const s_shape_names [SHAPES] = { "nested", "overlapping", "disjoint", "scattered" };

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
    default:
        return test_below (&world->random, 3) > 0;
    }
}

static void
s_make (world_t *world, shape_t shape, size_t count, uint64_t seed)
{
    *world = (world_t) { .sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, seed), .random = seed, .count = count };
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

//  A round of some jobs of a group; who has nothing left begins an epoch, and now and then one in the middle of his.
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
    double same = takers == 2? s_same_probability (&world->jobs [jobs [0]], &world->jobs [jobs [1]]): 0;
    sampler_offer_t offer;
    sampler_round_begin (world->sampler, jobs, takers);
    while (sampler_offer (world->sampler, &offer)) {
        uint32_t offered [JOBS_MAX], id = sampler_pick (world->sampler, NULL);
        memcpy (offered, offer.jobs, offer.job_count * sizeof *offered);
        size_t count = offer.job_count;
        sampler_commit (world->sampler, id);
        for (size_t index = 0; index < count; index++)
            for (size_t taker = 0; taker < takers; taker++)
                if (jobs [taker] == offered [index])
                    ids [taker] = id;
    }
    if (takers == 2)
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

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_every_shape_and_number) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

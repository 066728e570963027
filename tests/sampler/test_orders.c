/*  Guards: the contract of sampling as a trainer sees it, over whole epochs.
 *
 *    - uniform: each sample is equally likely at each position of each epoch, whatever other jobs there are;
 *    - shared: two jobs draw the same sample with probability |I| / max (|R_1|, |R_2|), given all before;
 *    - fresh: an epoch's order says nothing about the next.
 *
 *  Schedules (which jobs take part in which round, and when they join) are drawn from the seed, never from
 *  the draws.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sampler.h"
#include "effort.h"
#include "seed.h"
#include "statistics.h"

enum { SAMPLES = 100, JOBS_MAX = 5, EPOCHS = 2, BINS = 20, SEEDS = EFFORT (1000) };

//  ------------------------------------------------------------------------------------------------
//  Data sets and schedules

typedef enum { SHAPE_EQUAL, SHAPE_NESTED, SHAPE_OVERLAPPING, SHAPE_DISJOINT, SHAPE_RANDOM, SHAPES } shape_t;

static roaring_bitmap_t *
s_data (shape_t shape, uint32_t job, uint32_t samples, uint64_t *random)
{
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t id = 0; id < samples; id++) {
        uint32_t tenth = id * 10 / samples;
        bool wanted = shape == SHAPE_EQUAL
            || (shape == SHAPE_NESTED && tenth < 10 - 2 * job)
            || (shape == SHAPE_OVERLAPPING && tenth >= job && tenth < job + 6)
            || (shape == SHAPE_DISJOINT && id % JOBS_MAX == job)
            || (shape == SHAPE_RANDOM && test_below (random, 3) > 0);
        if (wanted)
            roaring_bitmap_add (data, id);
    }
    return data;
}

//  Plays a round of jobs; ids [job] is what each got.
static void
s_play (sampler_t *sampler, const uint32_t *jobs, size_t count, uint32_t *ids)
{
    sampler_offer_t offer;
    sampler_round_begin (sampler, jobs, count);
    while (sampler_offer (sampler, &offer)) {
        uint32_t id = sampler_pick (sampler);
        for (size_t sharer = 0; sharer < offer.job_count; sharer++)
            ids [offer.jobs [sharer]] = id;
        sampler_commit (sampler, id);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Uniform

typedef struct {
    shape_t shape;
    uint32_t jobs;
    roaring_bitmap_t *data [JOBS_MAX];
    uint64_t counts [JOBS_MAX] [EPOCHS] [SAMPLES] [BINS];
} trial_t;

typedef struct {
    sampler_t *sampler;
    uint64_t random;
    uint32_t joined;                            //  jobs join one after the other, by number
    unsigned epoch [JOBS_MAX];
    uint64_t position [JOBS_MAX];
    uint64_t pace [JOBS_MAX];                   //  takes part in pace of 8 rounds
} play_t;

static void
s_join_next (play_t *self, const trial_t *trial)
{
    uint32_t job = sampler_join (self->sampler, &(sampler_join_t) { .data = trial->data [self->joined] });
    assert_int_equal (job, self->joined);
    self->pace [job] = 2 + test_below (&self->random, 7);
    self->joined++;
}

static void
s_count (play_t *self, trial_t *trial, uint32_t job, uint32_t id)
{
    uint64_t size = sampler_epoch_samples (self->sampler, job);
    uint64_t bin = self->position [job] * BINS / size;
    trial->counts [job] [self->epoch [job]] [id] [bin]++;
    if (++self->position [job] < size)
        return;
    assert_int_equal (sampler_remaining (self->sampler, job), 0);
    self->position [job] = 0;
    self->epoch [job]++;
    sampler_epoch_begin (self->sampler, job);
}

//  One round of each group, of the jobs that keep pace and still have an epoch to go.  Returns how many
//  still do.
static size_t
s_round_of_all_groups (play_t *self, trial_t *trial)
{
    size_t active = 0;
    for (size_t group = 0; group < sampler_group_count (self->sampler); group++) {
        uint32_t takers [JOBS_MAX], ids [JOBS_MAX];
        size_t count, taker_count = 0;
        const uint32_t *jobs = sampler_group (self->sampler, group, &count);
        for (size_t place = 0; place < count; place++) {
            if (self->epoch [jobs [place]] == EPOCHS)
                continue;
            active++;
            if (test_below (&self->random, 8) < self->pace [jobs [place]])
                takers [taker_count++] = jobs [place];
        }
        if (taker_count == 0)
            continue;
        s_play (self->sampler, takers, taker_count, ids);
        for (size_t taker = 0; taker < taker_count; taker++)
            s_count (self, trial, takers [taker], ids [takers [taker]]);
    }
    return active;
}

static void
s_run_trial (trial_t *trial, uint64_t seed)
{
    play_t self = { .random = seed ^ 0x5eed };
    self.sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, seed);
    s_join_next (&self, trial);
    size_t active = 1;
    while (active > 0 || self.joined < trial->jobs) {
        if (self.joined < trial->jobs && (active == 0 || test_below (&self.random, 20) == 0))
            s_join_next (&self, trial);
        active = s_round_of_all_groups (&self, trial);
    }
    sampler_check (self.sampler);
    sampler_destroy (&self.sampler);
}

//  The chi-square of sample x position, scaled by (N - 1) / N because a sample comes once.
static double
s_z_of_positions (const trial_t *trial, uint32_t job, unsigned epoch)
{
    uint64_t size = roaring_bitmap_get_cardinality (trial->data [job]);
    double sum = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        for (uint64_t bin = 0; bin < BINS; bin++) {
            //  Positions p with p * BINS / size == bin.
            uint64_t width = ((bin + 1) * size + BINS - 1) / BINS - (bin * size + BINS - 1) / BINS;
            double expected = (double) SEEDS * (double) width / (double) size;
            double off = (double) trial->counts [job] [epoch] [id] [bin] - expected;
            if (roaring_bitmap_contains (trial->data [job], id) && width > 0)
                sum += off * off / expected;
        }
    double scale = ((double) size - 1) / (double) size;
    return statistics_z_of_chi_square (sum * scale, (BINS - 1) * ((double) size - 1));
}

static void
test_each_sample_is_equally_likely_at_each_position (void **state)
{
    (void) state;
    const size_t figures = SHAPES * (2 + 3 + 4 + 5) * EPOCHS;
    const double limit = statistics_z_limit (figures);
    uint64_t seed = test_seed ();
    trial_t *trial = malloc (sizeof *trial);
    for (shape_t shape = 0; shape < SHAPES; shape++)
        for (uint32_t jobs = 2; jobs <= JOBS_MAX; jobs++) {
            memset (trial, 0, sizeof *trial);
            trial->shape = shape;
            trial->jobs = jobs;
            uint64_t random = seed;
            for (uint32_t job = 0; job < jobs; job++)
                trial->data [job] = s_data (shape, job, SAMPLES, &random);
            for (uint64_t run = 0; run < SEEDS; run++)
                s_run_trial (trial, seed + 1000003 * (shape * 8 + jobs) + run);
            for (uint32_t job = 0; job < jobs; job++)
                for (unsigned epoch = 0; epoch < EPOCHS; epoch++) {
                    double z = s_z_of_positions (trial, job, epoch);
                    if (fabs (z) > limit)
                        fail_msg ("seed %" PRIu64 ": shape %d, %u jobs: job %u epoch %u: z = %f", seed,
                            (int) shape, jobs, job, epoch, z);
                }
            for (uint32_t job = 0; job < jobs; job++)
                roaring_bitmap_free (trial->data [job]);
        }
    free (trial);
}

//  ------------------------------------------------------------------------------------------------
//  Even: a bias too small for the positions above, over many more draws

enum { EVEN_SAMPLES = 1000, EVEN_JOBS = 3, EVEN_ROUNDS = EFFORT (1000000) };

//  Two ways to halve the samples: the low ids and the even ones.
static bool
s_in_half (unsigned way, uint32_t id)
{
    return way == 0? id < EVEN_SAMPLES / 2: id % 2 == 0;
}

typedef struct {
    roaring_bitmap_t *data;
    uint64_t left, half_left [2];       //  in this epoch: samples, and those of each half
    statistics_events_t events [2];
} even_t;

static void
s_begin_even_epoch (even_t *self)
{
    self->left = roaring_bitmap_get_cardinality (self->data);
    memset (self->half_left, 0, sizeof self->half_left);
    for (uint32_t id = 0; id < EVEN_SAMPLES; id++)
        for (unsigned way = 0; way < 2; way++)
            self->half_left [way] += roaring_bitmap_contains (self->data, id) && s_in_half (way, id);
}

//  Each draw is an event of known probability, given all before: how much of what is left is in the half.
static void
s_see_even (even_t *self, uint32_t id)
{
    for (unsigned way = 0; way < 2; way++) {
        bool in_half = s_in_half (way, id);
        statistics_event (&self->events [way], in_half, (double) self->half_left [way] / (double) self->left);
        self->half_left [way] -= in_half;
    }
    self->left--;
}

static void
test_no_half_of_the_samples_comes_first (void **state)
{
    (void) state;
    uint64_t seed = test_seed (), random = seed;
    even_t jobs [EVEN_JOBS] = { 0 };
    sampler_t *sampler = sampler_new (EVEN_SAMPLES, SAMPLER_POLICY_DSA, seed);
    for (uint32_t job = 0; job < EVEN_JOBS; job++) {
        jobs [job].data = s_data (SHAPE_OVERLAPPING, job, EVEN_SAMPLES, &random);
        sampler_join (sampler, &(sampler_join_t) { .data = jobs [job].data });
        s_begin_even_epoch (&jobs [job]);
    }
    for (int round = 0; round < EVEN_ROUNDS; round++) {
        uint32_t ids [EVEN_JOBS], takers [EVEN_JOBS];
        size_t count = 0;
        for (uint32_t job = 0; job < EVEN_JOBS; job++)
            if (job == 0 || test_below (&random, 4))
                takers [count++] = job;
        s_play (sampler, takers, count, ids);
        for (size_t taker = 0; taker < count; taker++) {
            s_see_even (&jobs [takers [taker]], ids [takers [taker]]);
            if (jobs [takers [taker]].left == 0) {
                sampler_epoch_begin (sampler, takers [taker]);
                s_begin_even_epoch (&jobs [takers [taker]]);
            }
        }
    }
    const double limit = statistics_z_limit (2 * EVEN_JOBS);
    for (uint32_t job = 0; job < EVEN_JOBS; job++) {
        double z_low = statistics_z_of_events (&jobs [job].events [0]);
        double z_even = statistics_z_of_events (&jobs [job].events [1]);
        if (fabs (z_low) > limit || fabs (z_even) > limit)
            fail_msg ("seed %" PRIu64 ": job %u: low ids %f, even ids %f", seed, job, z_low, z_even);
        roaring_bitmap_free (jobs [job].data);
    }
    sampler_destroy (&sampler);
}

//  ------------------------------------------------------------------------------------------------
//  Shared

enum { PAIR_SAMPLES = 2000, PAIR_RUNS = 40, PAIR_ROUNDS = 3000 };

static uint64_t
s_left (const sampler_t *sampler, uint32_t job, uint64_t *other_too)
{
    uint64_t left = 0;
    *other_too = 0;
    for (uint32_t id = 0; id < PAIR_SAMPLES; id++)
        if (sampler_needs (sampler, job, id)) {
            left++;
            *other_too += sampler_needs (sampler, 1 - job, id);
        }
    return left;
}

//  The two jobs on data of this shape; returns how many samples both need.
static uint64_t
s_join_pair (sampler_t *sampler, shape_t shape, uint64_t *random, uint64_t left [2])
{
    uint64_t common = 0;
    for (uint32_t job = 0; job < 2; job++) {
        roaring_bitmap_t *data = s_data (shape, job, PAIR_SAMPLES, random);
        sampler_join (sampler, &(sampler_join_t) { .data = data });
        roaring_bitmap_free (data);
    }
    for (uint32_t job = 0; job < 2; job++)
        left [job] = s_left (sampler, job, &common);
    return common;
}

//  Draws of two jobs, sometimes of one alone, through several epochs of each.  The model keeps how many
//  samples each still needs, and how many both.
static void
s_run_pair (shape_t shape, uint64_t seed, statistics_events_t *same)
{
    uint64_t random = seed;
    uint64_t left [2];
    sampler_t *sampler = sampler_new (PAIR_SAMPLES, SAMPLER_POLICY_DSA, seed);
    uint64_t common = s_join_pair (sampler, shape, &random, left);
    for (int round = 0; round < PAIR_ROUNDS; round++) {
        const uint32_t jobs [] = { 0, 1 };
        uint32_t ids [2] = { 0 };
        uint32_t alone = (uint32_t) test_below (&random, 8);        //  2 and more: neither is
        s_play (sampler, alone < 2? jobs + alone: jobs, alone < 2? 1: 2, ids);
        bool one_id = alone >= 2 && ids [0] == ids [1];
        if (alone >= 2)
            statistics_event (same, one_id,
                (double) common / (double) (left [0] > left [1]? left [0]: left [1]));
        common -= one_id;
        for (uint32_t job = 0; job < 2; job++) {
            if (alone < 2 && job != alone)
                continue;
            left [job]--;
            //  An id that both needed before is now needed by the other only.
            common -= !one_id && sampler_needs (sampler, 1 - job, ids [job]);
        }
        for (uint32_t job = 0; job < 2; job++)
            if (left [job] == 0) {
                sampler_epoch_begin (sampler, job);
                left [job] = s_left (sampler, job, &common);
            }
    }
    sampler_check (sampler);
    sampler_destroy (&sampler);
}

static void
test_two_jobs_share_as_often_as_can_be (void **state)
{
    (void) state;
    const shape_t shapes [] = { SHAPE_EQUAL, SHAPE_NESTED, SHAPE_OVERLAPPING, SHAPE_RANDOM };
    const double limit = statistics_z_limit (4);
    uint64_t seed = test_seed ();
    for (size_t shape = 0; shape < 4; shape++) {
        statistics_events_t same = { 0 };
        for (uint64_t run = 0; run < PAIR_RUNS; run++)
            s_run_pair (shapes [shape], seed + run, &same);
        double z = statistics_z_of_events (&same);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": shape %zu: %.0f shared, %.1f expected, z = %f", seed, shape,
                same.happened, same.expected, z);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Fresh

enum { FRESH_SAMPLES = 400, FRESH_JOBS = 4, FRESH_EPOCHS = 12, FRESH_RUNS = 20 };

typedef struct {
    uint64_t table [10] [10];           //  tenth of this epoch x tenth of the next
    unsigned tenth [FRESH_SAMPLES];     //  of the epoch before
    unsigned epoch;
    uint64_t position;
    double chi_square;                  //  sum over the pairs of epochs
    unsigned pairs;
} fresh_t;

static void
s_end_fresh_epoch (fresh_t *self)
{
    const double expected = FRESH_SAMPLES / 100.0;
    for (size_t row = 0; row < 10 && self->epoch > 0; row++)
        for (size_t column = 0; column < 10; column++) {
            double off = (double) self->table [row] [column] - expected;
            self->chi_square += off * off / expected;
        }
    self->pairs += self->epoch > 0;
    memset (self->table, 0, sizeof self->table);
    self->position = 0;
    self->epoch++;
}

static void
s_see (fresh_t *self, uint32_t id)
{
    unsigned tenth = (unsigned) (self->position++ * 10 / FRESH_SAMPLES);
    self->table [self->tenth [id]] [tenth]++;
    self->tenth [id] = tenth;
}

//  Jobs on the same data, joined a part of an epoch after one another, of unlike pace: the hardest case for
//  a policy that shares, because what one job leaves over is what the next begins with.
static void
s_run_fresh (fresh_t jobs [FRESH_JOBS], uint64_t seed)
{
    uint64_t random = seed;
    sampler_t *sampler = sampler_new (FRESH_SAMPLES, SAMPLER_POLICY_DSA, seed);
    roaring_bitmap_t *data = s_data (SHAPE_EQUAL, 0, FRESH_SAMPLES, &random);
    for (uint64_t round = 0; jobs [FRESH_JOBS - 1].epoch < FRESH_EPOCHS; round++) {
        uint32_t takers [FRESH_JOBS], ids [FRESH_JOBS];
        size_t count = 0;
        if (round % (FRESH_SAMPLES / 3) == 0 && round / (FRESH_SAMPLES / 3) < FRESH_JOBS)
            sampler_join (sampler, &(sampler_join_t) { .data = data });
        for (uint32_t job = 0; job < FRESH_JOBS && job <= round / (FRESH_SAMPLES / 3); job++)
            if (job != 2 || test_below (&random, 3))
                takers [count++] = job;
        s_play (sampler, takers, count, ids);
        for (size_t taker = 0; taker < count; taker++) {
            uint32_t job = takers [taker];
            s_see (&jobs [job], ids [job]);
            if (sampler_remaining (sampler, job) == 0) {
                s_end_fresh_epoch (&jobs [job]);
                sampler_epoch_begin (sampler, job);
            }
        }
    }
    roaring_bitmap_free (data);
    sampler_destroy (&sampler);
}

static void
test_an_order_says_nothing_about_the_next (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (FRESH_JOBS);
    uint64_t seed = test_seed ();
    double sum [FRESH_JOBS] = { 0 };
    unsigned pairs [FRESH_JOBS] = { 0 };
    for (uint64_t run = 0; run < FRESH_RUNS; run++) {
        fresh_t jobs [FRESH_JOBS] = { 0 };
        s_run_fresh (jobs, seed + run);
        for (size_t job = 0; job < FRESH_JOBS; job++) {
            sum [job] += jobs [job].chi_square;
            pairs [job] += jobs [job].pairs;
        }
    }
    for (size_t job = 0; job < FRESH_JOBS; job++) {
        //  Margins are fixed, so independent shuffles give 81 N / (N - 1) on average.
        double scale = (FRESH_SAMPLES - 1.0) / FRESH_SAMPLES;
        double phi2 = (sum [job] / pairs [job] - 81) / FRESH_SAMPLES;
        double z = statistics_z_of_chi_square (sum [job] * scale, 81.0 * pairs [job]);
        assert_true (pairs [job] >= 10 * FRESH_RUNS / 2);
        if (fabs (z) > limit || phi2 > 0.02)
            fail_msg ("seed %" PRIu64 ": job %zu: phi2 = %f, z = %f", seed, job, phi2, z);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_each_sample_is_equally_likely_at_each_position),
        cmocka_unit_test (test_no_half_of_the_samples_comes_first),
        cmocka_unit_test (test_two_jobs_share_as_often_as_can_be),
        cmocka_unit_test (test_an_order_says_nothing_about_the_next),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

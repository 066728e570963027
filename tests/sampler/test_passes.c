/*  Guards: jobs that draw along common passes get each sample once an epoch, uniformly, however the data of
 *  others lie, and their epochs know nothing of each other; versions lose a job's claim when, and only when,
 *  it is told; and jobs come to a sample together.
 */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "history.h"
#include "parts.h"
#include "passes.h"
#include "permutation.h"
#include "sampler.h"
#include "sampler_passes.h"
#include "seed.h"
#include "statistics.h"

enum { SAMPLES_MAX = 1200, JOBS = 24, NO_JOB = 0xffffffff };
//  Two cases here divide the rate of false alarms that statistics.h gives this file.
enum { CASES = 2 };

//  ---- the inverse of a permutation

static void
test_positions_are_the_inverse (void **state)
{
    (void) state;
    static const uint32_t sizes [] = { 1, 2, 63, 64, 65, 66, 100, 127, 1000, 4095, 4096, 4097, 10007 };
    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        permutation_t order = permutation_new (test_seed (), index, sizes [index]);
        for (uint32_t position = 0; position < sizes [index]; position++)
            assert_int_equal (permutation_position (&order, permutation_at (&order, position)), position);
    }
}

//  ---- a world of jobs on the passes

typedef struct {
    uint32_t number;                    //  in the sampler; NO_JOB: not here
    uint8_t has [SAMPLES_MAX];          //  its data; the model's
    uint8_t had [SAMPLES_MAX];          //  drawn in this epoch
    uint32_t size, drawn, epoch;
    double speed, due;
    uint8_t told [SAMPLES_MAX];         //  a skip was told in this draw: -1 seen, then +1
    bool told_all;
} job_t;

//  What was drawn at its place, newest last.
typedef struct { uint32_t id; uint64_t place; } drawn_t;
enum { REMEMBERED = 64 };

typedef struct {
    sampler_t *sampler;
    uint32_t samples;
    job_t jobs [JOBS];
    drawn_t drawn [REMEMBERED];
    size_t drawn_count;
    uint64_t places, repeats;           //  draws at a place; those at a place that another job drew at
    void (*on_draw) (void *context, size_t job, uint32_t id);
    void *context;
} world_t;

static void
s_skip (void *context, uint32_t id, int change)
{
    job_t *job = context;
    if (id == PASSES_ALL)
        job->told_all = true;
    else
        job->told [id] |= change < 0? 1: 2;
}

//  Jobs that never draw, until two are on the passes: then all others turn to them.
static void
s_fill_strata (sampler_t *sampler, uint32_t samples)
{
    for (uint32_t job = 0; job < 2 || !sampler_passes_has (sampler, job - 2); job++) {
        roaring_bitmap_t *data = roaring_bitmap_create ();
        random_t random = random_from_seed (job + 77);
        for (uint32_t id = 0; id < samples; id++)
            if (random_below (&random, 2))
                roaring_bitmap_add (data, id);
        assert_int_equal (sampler_join (sampler, &(sampler_join_t) { .data = data }), job);
        roaring_bitmap_free (data);
        assert_true (job < 100);
    }
}

static void
s_join (world_t *self, size_t index, uint64_t *seed, const parts_t *parts)
{
    job_t *job = &self->jobs [index];
    roaring_bitmap_t *data = roaring_bitmap_create ();
    memset (job, 0, sizeof *job);
    for (uint32_t id = 0; id < self->samples; id++)
        if (test_below (seed, 2)) {
            job->size += !sampler_is_dropped (self->sampler, id);
            job->has [id] = !sampler_is_dropped (self->sampler, id);
            roaring_bitmap_add (data, id);
        }
    job->number = sampler_join (self->sampler, &(sampler_join_t) { .data = data, .parts = parts });
    assert_true (sampler_passes_has (self->sampler, job->number));
    roaring_bitmap_free (data);
    sampler_passes_on_skip (self->sampler, job->number, s_skip, job);
}

//  What a job comes to after the draw is told less than before only where it was told of.
static void
s_check_claims (const world_t *self, const job_t *job, const bool *came)
{
    for (size_t index = 0; index < self->drawn_count; index++) {
        const drawn_t *drawn = &self->drawn [index];
        bool comes = sampler_passes_comes (self->sampler, job->number, drawn->id, drawn->place);
        if (came [index] && !comes && sampler_needs (self->sampler, job->number, drawn->id))
            assert_true (job->told_all || job->told [drawn->id] == 3);
        assert_false (comes && !came [index]);
    }
}

static void
s_draw (world_t *self, size_t index)
{
    job_t *job = &self->jobs [index];
    bool came [REMEMBERED];
    for (size_t each = 0; each < self->drawn_count; each++)
        came [each] = sampler_passes_comes (self->sampler, job->number, self->drawn [each].id,
            self->drawn [each].place);
    memset (job->told, 0, sizeof job->told);
    job->told_all = false;
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, &job->number, 1);
    assert_true (sampler_offer (self->sampler, &offer));
    uint32_t id = sampler_pick (self->sampler);
    assert_int_equal (sampler_pick (self->sampler), id);
    assert_true (sampler_accepts (self->sampler, id));
    assert_true (job->has [id] && !job->had [id]);
    sampler_commit (self->sampler, id);
    assert_false (sampler_offer (self->sampler, &offer));
    s_check_claims (self, job, came);
    job->had [id] = 1;
    job->drawn++;
    if (self->on_draw)
        self->on_draw (self->context, index, id);
    uint64_t place = sampler_passes_place (self->sampler, job->number);
    if (place == PASSES_NO_PLACE)
        return;
    self->places++;
    for (size_t each = 0; each < self->drawn_count; each++)
        if (self->drawn [each].place == place) {
            assert_int_equal (self->drawn [each].id, id);
            self->repeats++;
            return;
        }
    if (self->drawn_count == REMEMBERED)
        memmove (self->drawn, self->drawn + 1, --self->drawn_count * sizeof *self->drawn);
    self->drawn [self->drawn_count++] = (drawn_t) { id, place };
}

//  Each sample of the data came once.
static void
s_end_epoch (world_t *self, job_t *job)
{
    assert_int_equal (sampler_remaining (self->sampler, job->number), 0);
    for (uint32_t id = 0; id < self->samples; id++)
        assert_true (!job->has [id] || job->had [id] || sampler_is_dropped (self->sampler, id));
    memset (job->had, 0, sizeof job->had);
    job->drawn = 0;
    job->epoch++;
    sampler_epoch_begin (self->sampler, job->number);
    assert_true (sampler_passes_has (self->sampler, job->number));
}

//  Property: in any mix of joins, leaves, pauses, speeds, bursts and bad samples.
static void
test_any_mix (void **state)
{
    (void) state;
    enum { ROUNDS = EFFORT (20) };
    for (uint64_t round = 0, seed = test_seed (); round < ROUNDS; round++, seed++) {
        uint64_t random = seed;
        world_t *world = calloc (1, sizeof *world);
        assert_non_null (world);
        world->samples = 100 + (uint32_t) test_below (&random, SAMPLES_MAX - 100);
        world->sampler = sampler_new (world->samples, SAMPLER_POLICY_FOLLOW, seed);
        s_fill_strata (world->sampler, world->samples);
        for (size_t job = 0; job < JOBS; job++)
            world->jobs [job].number = NO_JOB;
        for (uint32_t step = 0; step < 4000; step++) {
            size_t index = (size_t) (test_below (&random, JOBS) * test_below (&random, JOBS) / JOBS);
            job_t *job = &world->jobs [index];
            if (job->number == NO_JOB)
                s_join (world, index, &random, NULL);
            else
            if (test_below (&random, 400) == 0) {
                sampler_leave (world->sampler, job->number);
                job->number = NO_JOB;
                continue;
            }
            else
            if (test_below (&random, 100) == 0)
                sampler_drop (world->sampler, (uint32_t) test_below (&random, world->samples));
            for (uint64_t burst = 1 + test_below (&random, 40); burst > 0; burst--) {
                if (sampler_remaining (world->sampler, job->number) == 0)
                    s_end_epoch (world, job);
                if (sampler_remaining (world->sampler, job->number) > 0)
                    s_draw (world, index);
            }
            if (step % 100 == 0)
                sampler_check (world->sampler);
        }
        sampler_destroy (&world->sampler);
        free (world);
    }
}

//  ---- the law

enum { LAW_SAMPLES = 200, LAW_EPOCHS = 4, LAW_JOBS = 9, LAW_SEEDS = EFFORT (1500) };

typedef struct {
    world_t *world;
    //  By job and epoch: the places of its samples, by bin.
    uint32_t counts [LAW_JOBS] [LAW_EPOCHS] [LAW_SAMPLES] [STATISTICS_BINS];
} law_t;

static void
s_count (void *context, size_t index, uint32_t id)
{
    law_t *law = context;
    const job_t *job = &law->world->jobs [index];
    if (job->epoch < LAW_EPOCHS)
        law->counts [index] [job->epoch] [id] [(job->drawn - 1) * STATISTICS_BINS / job->size]++;
}

//  Jobs of three speeds on the same subsets in every run, each from a time of its own on.
static void
s_play_law (law_t *law, uint64_t seed)
{
    world_t *world = law->world;
    *world = (world_t) { .samples = LAW_SAMPLES, .on_draw = s_count, .context = law };
    world->sampler = sampler_new (LAW_SAMPLES, SAMPLER_POLICY_FOLLOW, seed);
    s_fill_strata (world->sampler, LAW_SAMPLES);
    uint64_t sets = 5;
    size_t ready = 0;
    for (size_t job = 0; job < LAW_JOBS; job++)
        world->jobs [job].number = NO_JOB;
    for (double now = 0; ready < LAW_JOBS; now++) {
        ready = 0;
        for (size_t index = 0; index < LAW_JOBS; index++) {
            job_t *job = &world->jobs [index];
            if (job->number == NO_JOB && now >= (double) index * 17)
                s_join (world, index, &sets, NULL);
            if (job->number == NO_JOB)
                continue;
            ready += job->epoch >= LAW_EPOCHS;
            job->due += index % 3 == 0? 1: index % 3 == 1? 0.6: 0.35;
            for (; job->due >= 1 && job->epoch < LAW_EPOCHS; job->due--) {
                s_draw (world, index);
                if (sampler_remaining (world->sampler, job->number) == 0)
                    s_end_epoch (world, job);
            }
        }
    }
    sampler_destroy (&world->sampler);
}

//  Of the samples of one job's epoch, those that another job holds: the z of their positions.
static double
s_z_held_by (const law_t *law, const job_t *job, uint32_t epoch, size_t index, const job_t *other)
{
    double found [STATISTICS_BINS] = { 0 }, widths [STATISTICS_BINS] = { 0 }, held = 0, chi_square = 0;
    for (uint32_t position = 0; position < job->size; position++)
        widths [position * STATISTICS_BINS / job->size]++;
    for (uint32_t id = 0; id < LAW_SAMPLES; id++)
        if (job->has [id] && other->has [id]) {
            held++;
            for (int bin = 0; bin < STATISTICS_BINS; bin++)
                found [bin] += law->counts [index] [epoch] [id] [bin];
        }
    double share = held / job->size;
    for (int bin = 0; bin < STATISTICS_BINS; bin++) {
        double places = LAW_SEEDS * widths [bin];
        chi_square += (found [bin] - places * share) * (found [bin] - places * share)
            / (places * share * (1 - share));
    }
    return statistics_z_of_chi_square (chi_square * (job->size - 1.0) / job->size, STATISTICS_BINS - 1.0);
}

//  Each sample at each position of each epoch, and the samples that each other job holds.
static void
test_uniform (void **state)
{
    (void) state;
    law_t *law = calloc (1, sizeof *law);
    assert_non_null (law);
    law->world = calloc (1, sizeof *law->world);
    assert_non_null (law->world);
    for (uint64_t run = 0; run < LAW_SEEDS; run++)
        s_play_law (law, test_seed () + run * 7919);
    double worst = 0;
    size_t tests = 0;
    for (size_t index = 0; index < LAW_JOBS; index++)
        for (uint32_t epoch = 0; epoch < LAW_EPOCHS; epoch++) {
            const job_t *job = &law->world->jobs [index];
            worst = fmax (worst, statistics_worst_z (law->counts [index] [epoch], LAW_SAMPLES, job->size,
                LAW_SEEDS));
            tests += 2;
            for (size_t other = 0; other < LAW_JOBS; other++)
                if (other != index) {
                    double z = s_z_held_by (law, job, epoch, index, &law->world->jobs [other]);
                    worst = fmax (worst, fabs (z));
                    tests++;
                }
        }
    print_message ("largest |z| %.2f of %zu figures\n", worst, tests);
    assert_true (tests > 0 && worst < statistics_z_limit (CASES * tests));
    free (law->world);
    free (law);
}

//  ---- nodes

enum { NODES = 2, NODE_SAMPLES = 1000, NODE_JOBS = 4, NODE_EPOCHS = 4, NODE_SEEDS = EFFORT (300) };

typedef struct {
    world_t *world;
    //  Of the run: on how many nodes each sample has come.
    uint8_t came [NODE_JOBS] [NODE_EPOCHS] [NODE_SAMPLES];
    //  Of the node: at which positions.
    uint32_t order [NODE_JOBS] [NODE_EPOCHS] [NODE_SAMPLES], sizes [NODE_JOBS] [NODE_EPOCHS];
    //  Of all runs and nodes, by job, epoch, other job: how often in each bin, what chance gives, and its
    //  variance but for (1 - width).
    double found [NODE_JOBS] [NODE_EPOCHS] [NODE_JOBS] [STATISTICS_BINS];
    double expected [NODE_JOBS] [NODE_EPOCHS] [NODE_JOBS] [STATISTICS_BINS];
    double variance [NODE_JOBS] [NODE_EPOCHS] [NODE_JOBS] [STATISTICS_BINS];
} nodes_t;

static void
s_note_part (void *context, size_t index, uint32_t id)
{
    nodes_t *nodes = context;
    const job_t *job = &nodes->world->jobs [index];
    if (job->epoch >= NODE_EPOCHS)
        return;
    nodes->came [index] [job->epoch] [id]++;
    nodes->order [index] [job->epoch] [job->drawn - 1] = id;
    nodes->sizes [index] [job->epoch] = job->drawn;
}

//  What a node draws of one job's epoch: the samples of its part that another job holds too.  Positions are
//  drawn without replacement.
static void
s_add_held (nodes_t *nodes, size_t index, uint32_t epoch, size_t other)
{
    const uint32_t *order = nodes->order [index] [epoch], size = nodes->sizes [index] [epoch];
    double held = 0, widths [STATISTICS_BINS] = { 0 };
    for (uint32_t position = 0; position < size; position++) {
        uint32_t bin = position * STATISTICS_BINS / size;
        bool has = nodes->world->jobs [other].has [order [position]];
        widths [bin] += 1.0 / size;
        held += has;
        nodes->found [index] [epoch] [other] [bin] += has;
    }
    for (int bin = 0; bin < STATISTICS_BINS; bin++) {
        nodes->expected [index] [epoch] [other] [bin] += held * widths [bin];
        nodes->variance [index] [epoch] [other] [bin] += held * (size - held) / (size - 1.0) * widths [bin];
    }
}

static void
s_play_node (nodes_t *nodes, uint64_t seed, uint32_t node)
{
    world_t *world = nodes->world;
    *world = (world_t) { .samples = NODE_SAMPLES, .on_draw = s_note_part, .context = nodes };
    world->sampler = sampler_new (NODE_SAMPLES, SAMPLER_POLICY_FOLLOW, seed);
    s_fill_strata (world->sampler, NODE_SAMPLES);
    uint64_t sets = 11;
    for (size_t index = 0; index < NODE_JOBS; index++) {
        parts_t parts = { .nodes = NODES, .node = node, .key = seed + index };
        s_join (world, index, &sets, &parts);
    }
    for (size_t ready = 0; ready < NODE_JOBS;) {
        ready = 0;
        for (size_t index = 0; index < NODE_JOBS; index++) {
            job_t *job = &world->jobs [index];
            ready += job->epoch >= NODE_EPOCHS;
            job->due += index % 2 == node? 1: 0.55;
            for (; job->due >= 1 && job->epoch < NODE_EPOCHS; job->due--) {
                s_draw (world, index);
                if (sampler_remaining (world->sampler, job->number) > 0)
                    continue;
                memset (job->had, 0, sizeof job->had);
                job->drawn = 0;
                job->epoch++;
                sampler_epoch_begin (world->sampler, job->number);
            }
        }
    }
    for (size_t index = 0; index < NODE_JOBS; index++)
        for (uint32_t epoch = 0; epoch < NODE_EPOCHS; epoch++)
            for (size_t other = 0; other < NODE_JOBS; other++)
                if (other != index)
                    s_add_held (nodes, index, epoch, other);
    sampler_destroy (&world->sampler);
}

static void
s_check_exactly_once (const nodes_t *nodes)
{
    for (size_t index = 0; index < NODE_JOBS; index++)
        for (uint32_t epoch = 0; epoch < NODE_EPOCHS; epoch++)
            for (uint32_t id = 0; id < NODE_SAMPLES; id++)
                assert_int_equal (nodes->came [index] [epoch] [id], nodes->world->jobs [index].has [id]);
}

//  Jobs over two nodes with samplers of one seed: each sample comes once, on either node, and where it
//  comes in the node's order does not depend on the jobs that hold it.  A false alarm: statistics.h.
static void
test_uniform_over_nodes (void **state)
{
    (void) state;
    nodes_t *nodes = calloc (1, sizeof *nodes);
    assert_non_null (nodes);
    nodes->world = calloc (1, sizeof *nodes->world);
    assert_non_null (nodes->world);
    for (uint64_t run = 0; run < NODE_SEEDS; run++) {
        memset (nodes->came, 0, sizeof nodes->came);
        for (uint32_t node = 0; node < NODES; node++)
            s_play_node (nodes, test_seed () + run * 104729, node);
        s_check_exactly_once (nodes);
    }
    double worst = 0;
    size_t tests = 0;
    for (size_t index = 0; index < NODE_JOBS; index++)
        for (uint32_t epoch = 0; epoch < NODE_EPOCHS; epoch++)
            for (size_t other = 0; other < NODE_JOBS; other++) {
                if (other == index)
                    continue;
                double chi_square = 0;
                for (int bin = 0; bin < STATISTICS_BINS; bin++) {
                    double off = nodes->found [index] [epoch] [other] [bin]
                        - nodes->expected [index] [epoch] [other] [bin];
                    chi_square += off * off / nodes->variance [index] [epoch] [other] [bin];
                }
                worst = fmax (worst, fabs (statistics_z_of_chi_square (chi_square, STATISTICS_BINS - 1.0)));
                tests++;
            }
    print_message ("over nodes: largest |z| %.2f of %zu figures\n", worst, tests);
    assert_true (tests > 0 && worst < statistics_z_limit (CASES * tests));
    free (nodes->world);
    free (nodes);
}

//  ---- fresh, and together

enum { LONG_SAMPLES = 1200, LONG_EPOCHS = 30, LONG_JOBS = 12 };

typedef struct {
    world_t *world;
    uint32_t positions [LONG_JOBS] [LONG_EPOCHS] [LONG_SAMPLES];
} orders_t;

static void
s_note (void *context, size_t index, uint32_t id)
{
    orders_t *orders = context;
    const job_t *job = &orders->world->jobs [index];
    if (job->epoch < LONG_EPOCHS)
        orders->positions [index] [job->epoch] [id] = job->drawn - 1;
}

//  Of samples by their tenths in two epochs; *samples_p, which may be NULL: how many they are.
static double
s_phi2_of_table (const double table [100], double *samples_p)
{
    double samples = 0, squares = 0;
    for (size_t cell = 0; cell < 100; cell++) {
        samples += table [cell];
        squares += table [cell] * table [cell];
    }
    if (samples_p)
        *samples_p = samples;
    return (squares * 100 / samples - samples - HISTORY_FREEDOM) / samples;
}

static double
s_phi2_of_pair (const orders_t *orders, size_t index, uint32_t one, uint32_t other)
{
    const job_t *job = &orders->world->jobs [index];
    double table [100] = { 0 };
    for (uint32_t id = 0; id < orders->world->samples; id++)
        if (job->has [id])
            table [orders->positions [index] [one] [id] * 10 / job->size * 10
                + orders->positions [index] [other] [id] * 10 / job->size]++;
    return s_phi2_of_table (table, NULL);
}

static double
s_phi2 (const orders_t *orders, size_t index, size_t lag, uint32_t first)
{
    double sum = 0;
    for (uint32_t epoch = first; epoch + lag < LONG_EPOCHS; epoch++)
        sum += s_phi2_of_pair (orders, index, epoch, epoch + (uint32_t) lag);
    return sum / (double) (LONG_EPOCHS - lag - first);
}

//  The mean over the jobs of one speed: of independent shuffles it has a standard deviation of 12.7 / (600
//  sqrt (4 x 20)) = 0.0024.  Fast jobs have little more than a pass an epoch, slow ones many.
static const double speeds [] = { 1, 0.7, 0.4 };

static void
s_check_fresh (bool changing)
{
    orders_t *orders = calloc (1, sizeof *orders);
    assert_non_null (orders);
    world_t *world = orders->world = calloc (1, sizeof *world);
    assert_non_null (world);
    *world = (world_t) { .samples = LONG_SAMPLES, .on_draw = s_note, .context = orders };
    world->sampler = sampler_new (LONG_SAMPLES, SAMPLER_POLICY_FOLLOW, test_seed ());
    s_fill_strata (world->sampler, LONG_SAMPLES);
    uint64_t seed = test_seed ();
    for (size_t job = 0; job < LONG_JOBS; job++)
        s_join (world, job, &seed, NULL);
    uint64_t changes = 0;
    for (size_t ready = 0; ready < LONG_JOBS;) {
        ready = 0;
        changes++;
        for (size_t index = 0; index < LONG_JOBS; index++) {
            job_t *job = &world->jobs [index];
            ready += job->epoch >= LONG_EPOCHS;
            if (changing && (changes + index * 61) % 350 == 0)
                job->speed = (double) test_below (&seed, 4);
            job->due += speeds [index % 3] * (changing? job->speed: 1);
            for (; job->due >= 1; job->due--) {
                s_draw (world, index);
                if (sampler_remaining (world->sampler, job->number) == 0)
                    s_end_epoch (world, job);
            }
        }
    }
    for (size_t lag = 1; lag <= 6; lag++)
        for (size_t speed = 0; speed < 3; speed++) {
            double phi2 = 0;
            for (size_t index = speed; index < LONG_JOBS; index += 3)
                phi2 += s_phi2 (orders, index, lag, 2) / (LONG_JOBS / 3.0);
            print_message ("speed %.1f, lag %zu: phi2 %.4f\n", speeds [speed], lag, phi2);
            assert_true (phi2 < (changing? HISTORY_FRESH: 0.014));
        }
    double together = (double) world->repeats / (double) world->places;
    print_message ("of %.0f draws in the passes %.2f at a place that another job had drawn at just now\n",
        (double) world->places, together);
    assert_true (changing || together > 0.4);
    sampler_destroy (&world->sampler);
    free (world);
    free (orders);
}

static void
test_fresh_and_together (void **state)
{
    (void) state;
    s_check_fresh (false);
}

//  Each job stops, or goes on at up to three times its speed, several times in each of its epochs: plans are
//  off.  What a plan has left over must not come first in the next epoch.
static void
test_fresh_whatever_the_pace (void **state)
{
    (void) state;
    s_check_fresh (true);
}

//  Few samples, of which a job draws a fifth at a time: it is far ahead of the clock or far behind, mostly.
//  Returns the highest phi2 of an epoch and the next one.
static double
s_play_bursts (uint64_t seed)
{
    enum { BURST_SAMPLES = 600, BURST = 64 };
    orders_t *orders = calloc (1, sizeof *orders);
    assert_non_null (orders);
    world_t *world = orders->world = calloc (1, sizeof *world);
    assert_non_null (world);
    *world = (world_t) { .samples = BURST_SAMPLES, .on_draw = s_note, .context = orders };
    world->sampler = sampler_new (BURST_SAMPLES, SAMPLER_POLICY_FOLLOW, seed);
    s_fill_strata (world->sampler, BURST_SAMPLES);
    for (size_t job = 0; job < LONG_JOBS; job++)
        s_join (world, job, &seed, NULL);
    size_t ready = 0;
    for (uint64_t turn = 0; ready < LONG_JOBS; turn++) {
        ready = 0;
        for (size_t index = 0; index < LONG_JOBS; index++) {
            job_t *job = &world->jobs [index];
            ready += job->epoch >= LONG_EPOCHS;
            if ((turn + index * 61) % 350 == 0)
                job->speed = (double) test_below (&seed, 4);
            job->due += speeds [index % 3] * job->speed;
            for (int left = job->due >= BURST? BURST: 0; left > 0; left--, job->due--) {
                s_draw (world, index);
                if (sampler_remaining (world->sampler, job->number) == 0)
                    s_end_epoch (world, job);
            }
        }
    }
    double worst = 0;
    for (size_t index = 0; index < LONG_JOBS; index++)
        for (uint32_t epoch = 0; epoch + 1 < LONG_EPOCHS; epoch++)
            worst = fmax (worst, s_phi2_of_pair (orders, index, epoch, epoch + 1));
    sampler_destroy (&world->sampler);
    free (world);
    free (orders);
    return worst;
}

//  Of 300 samples in independent shuffles, one pair of epochs in 100 million has a phi2 above 0.31.
static void
test_fresh_where_jobs_draw_much_at_once (void **state)
{
    (void) state;
    double worst = 0;
    for (uint64_t run = 0; run < EFFORT (15); run++)
        worst = fmax (worst, s_play_bursts (test_seed () + run));
    print_message ("the highest phi2 of a pair of epochs: %.3f\n", worst);
    assert_true (worst < 0.35);
}

enum { PAUSE_SAMPLES = 2000 };

//  A job on a random half, by itself.
typedef struct {
    history_t *history;
    uint32_t drawn [PAUSE_SAMPLES], before [PAUSE_SAMPLES];     //  in this epoch, and in the one before
    size_t count, epochs, placed;       //  placed: draws of this epoch at a place of a pass
} walker_t;

static void
s_walk (passes_t *passes, walker_t *walker, uint32_t job, random_t *random)
{
    uint32_t id = passes_pick (passes, job, random);
    history_draw (walker->history, id);
    passes_draw (passes, job, id);
    walker->drawn [walker->count++] = id;
    walker->placed += passes_place (passes, job) != PASSES_NO_PLACE;
}

static bool
s_ends (passes_t *passes, walker_t *walker, uint32_t job)
{
    if (history_remaining (walker->history) > 0)
        return false;
    history_epoch_begin (walker->history);
    passes_epoch_begin (passes, job);
    walker->epochs++;
    return true;
}

static void
s_end_walkers (passes_t **passes_p, walker_t *walkers, uint32_t count)
{
    for (uint32_t job = 0; job < count; job++) {
        passes_leave (*passes_p, job);
        history_destroy (&walkers [job].history);
    }
    free (walkers);
    passes_destroy (passes_p);
}

static roaring_bitmap_t *
s_half (random_t *random)
{
    roaring_bitmap_t *half = roaring_bitmap_create ();
    for (uint32_t id = 0; id < PAUSE_SAMPLES; id++)
        if (random_below (random, 2))
            roaring_bitmap_add (half, id);
    return half;
}

//  How many samples come at the place of the epoch before.
static size_t
s_same (const walker_t *walker)
{
    size_t same = 0;
    for (size_t at = 0; at < walker->count; at++)
        same += walker->drawn [at] == walker->before [at];
    return same;
}

//  A job that stood still while the others had fifty epochs goes on as if it had not: neither far ahead,
//  where it would draw all alone, nor in one order again and again.
static void
test_a_long_pause (void **state)
{
    (void) state;
    enum { WALKERS = 8, BEFORE = 3, AFTER = 8, PAUSE = 50 };
    random_t random = random_from_seed (test_seed ());
    passes_t *passes = passes_new (PAUSE_SAMPLES, test_seed ());
    walker_t *walkers = calloc (WALKERS, sizeof *walkers);
    assert_non_null (walkers);
    for (uint32_t job = 0; job < WALKERS; job++) {
        roaring_bitmap_t *half = s_half (&random);
        walkers [job].history = history_new (half, PAUSE_SAMPLES);
        passes_join (passes, job, walkers [job].history, false);
        roaring_bitmap_free (half);
    }
    for (uint64_t turn = 0; walkers [0].epochs < BEFORE + AFTER; turn++)
        for (uint32_t job = 0; job < WALKERS; job++) {
            walker_t *walker = &walkers [job];
            bool stands = job == 0 && walker->epochs == BEFORE && walker->count == PAUSE_SAMPLES / 4
                && walkers [1].epochs < BEFORE + PAUSE;
            if (stands)
                continue;
            s_walk (passes, walker, job, &random);
            if (!s_ends (passes, walker, job))
                continue;
            if (job == 0 && walker->epochs > 1)
                assert_true (s_same (walker) < walker->count / 8);
            if (job == 0 && walker->epochs > BEFORE + 3)
                assert_true (walker->placed > walker->count / 2);
            memcpy (walker->before, walker->drawn, sizeof walker->drawn);
            walker->count = walker->placed = 0;
        }
    s_end_walkers (&passes, walkers, WALKERS);
}

//  A draw; and of what the job could take in place of the sample that is picked, as a tier would: what suits
//  it.
static void
s_draw_and_count (const world_t *world, const job_t *job, size_t *suited, size_t *others)
{
    sampler_offer_t offer;
    sampler_round_begin (world->sampler, &job->number, 1);
    assert_true (sampler_offer (world->sampler, &offer));
    uint32_t picked = sampler_pick (world->sampler);
    for (uint32_t id = 0; id < world->samples; id++)
        if (sampler_accepts (world->sampler, id))
            ++*(sampler_suits (world->sampler, id)? suited: others);
    sampler_commit (world->sampler, picked);
    assert_false (sampler_offer (world->sampler, &offer));
}

//  Where a folder comes to be read in pieces in mid-epoch: its draws are redirected, which no pass survives.
static void
test_jobs_leave_the_passes (void **state)
{
    (void) state;
    world_t *world = calloc (1, sizeof *world);
    assert_non_null (world);
    world->samples = 500;
    world->sampler = sampler_new (world->samples, SAMPLER_POLICY_FOLLOW, test_seed ());
    s_fill_strata (world->sampler, world->samples);
    uint64_t seed = test_seed ();
    s_join (world, 0, &seed, NULL);
    job_t *job = &world->jobs [0];
    for (uint32_t drawn = 0; drawn < job->size / 2; drawn++)
        s_draw (world, 0);
    sampler_passes_allow (world->sampler, false);
    assert_true (sampler_passes_has (world->sampler, job->number));
    for (int epoch = 0; epoch < 3; epoch++) {
        size_t suited = 0, others = 0;
        while (sampler_remaining (world->sampler, job->number) > 0)
            s_draw_and_count (world, job, &suited, &others);
        print_message ("epoch %d: %zu suit, %zu do not\n", epoch, suited, others);
        assert_true (suited > others / 4);
        sampler_epoch_begin (world->sampler, job->number);
        assert_false (sampler_passes_has (world->sampler, job->number));
        assert_false (sampler_follows (world->sampler, job->number));
    }
    sampler_check (world->sampler);
    sampler_destroy (&world->sampler);
    free (world);
}

enum { RESUMES = EFFORT (60), COMPANY = 8 };

//  Takes a part of a random half for drawn, in a random order, on another server.
static void
s_go_on (walker_t *walker, double part, random_t *random)
{
    roaring_bitmap_t *half = s_half (random), *taken = roaring_bitmap_create ();
    walker->history = history_new (half, PAUSE_SAMPLES);
    roaring_bitmap_to_uint32_array (half, walker->drawn);
    size_t size = roaring_bitmap_get_cardinality (half);
    for (; walker->count < (size_t) (part * (double) size); walker->count++) {
        uint64_t other = walker->count + random_below (random, size - walker->count);
        uint32_t id = walker->drawn [other];
        walker->drawn [other] = walker->drawn [walker->count];
        walker->drawn [walker->count] = id;
        roaring_bitmap_add (taken, id);
    }
    history_go_on (walker->history, taken, random);
    roaring_bitmap_free (taken);
    roaring_bitmap_free (half);
}

//  By the tenths of an epoch and of the one before it: the samples.
static void
s_add_tenths (const walker_t *walker, double table [100])
{
    uint8_t before [PAUSE_SAMPLES];
    for (size_t at = 0; at < walker->count; at++)
        before [walker->before [at]] = (uint8_t) (at * 10 / walker->count);
    for (size_t at = 0; at < walker->count; at++)
        table [before [walker->drawn [at]] * 10 + at * 10 / walker->count]++;
}

//  Where in the epoch a job is interrupted; on another server, and how much the others have drawn here when
//  it comes, or here, in its third epoch.
typedef struct { double part; uint64_t comes; } interruption_t;
enum { HERE = 0 };

//  As a server knows it that is told what was taken, and no more.
static void
s_kill_and_go_on (passes_t *passes, walker_t *walker, random_t *random)
{
    roaring_bitmap_t *data = roaring_bitmap_create (), *taken = roaring_bitmap_create ();
    for (uint32_t id = 0; id < PAUSE_SAMPLES; id++)
        if (history_has (walker->history, id))
            roaring_bitmap_add (data, id);
    roaring_bitmap_add_many (taken, walker->count, walker->drawn);
    passes_leave (passes, 0);
    history_destroy (&walker->history);
    walker->history = history_new (data, PAUSE_SAMPLES);
    history_go_on (walker->history, taken, random);
    passes_join (passes, 0, walker->history, true);
    roaring_bitmap_free (taken);
    roaring_bitmap_free (data);
}

//  The tables of the epoch before and the one that the job is interrupted in, if that is here; of this one
//  and the next; of that and the one after.
static void
s_resume (const interruption_t *interruption, uint64_t run, double tables [3] [100])
{
    bool is_here = interruption->comes == HERE, was_killed = !is_here;
    size_t interrupted = is_here? 2: 0;
    random_t random = random_from_seed (test_seed () + run);
    passes_t *passes = passes_new (PAUSE_SAMPLES, test_seed () + run);
    walker_t *walkers = calloc (COMPANY, sizeof *walkers);
    assert_non_null (walkers);
    for (uint64_t turn = 0; walkers [0].epochs < interrupted + 3; turn++)
        for (uint32_t job = 0; job < COMPANY; job++) {
            walker_t *walker = &walkers [job];
            if (job == 0 && turn < interruption->comes)
                continue;
            if (!walker->history) {
                s_go_on (walker, job || is_here? 0: interruption->part, &random);
                passes_join (passes, job, walker->history, job == 0 && !is_here);
            }
            if (job == 0 && !was_killed && walker->epochs == interrupted
                && walker->count == (size_t) (interruption->part * (double) history_size (walker->history))) {
                s_kill_and_go_on (passes, walker, &random);
                was_killed = true;
            }
            s_walk (passes, walker, job, &random);
            if (!s_ends (passes, walker, job))
                continue;
            if (job == 0 && walker->epochs > 1 && walker->epochs >= interrupted + 1)
                s_add_tenths (walker, tables [walker->epochs - interrupted - 1]);
            memcpy (walker->before, walker->drawn, sizeof walker->drawn);
            walker->count = 0;
        }
    s_end_walkers (&passes, walkers, COMPANY);
}

//  Wherever a job was interrupted, the epochs about that know nothing of when its samples came in each other.
//  Of n samples in independent shuffles phi2 has a standard deviation of 12.7 / n; that two epochs knew of
//  each other showed as .020, .020 and .009, and as .005 here.
static void
test_fresh_after_a_resumed_epoch (void **state)
{
    (void) state;
    static const interruption_t interruptions [] = { { 0.3, 1050 }, { 0.5, 1350 }, { 0.7, 1350 }, { 0, HERE },
        { 0.1, HERE }, { 0.4, HERE } };
    for (size_t each = 0; each < sizeof interruptions / sizeof *interruptions; each++) {
        double tables [3] [100] = { 0 };
        for (uint64_t run = 0; run < RESUMES; run++)
            s_resume (&interruptions [each], run, tables);
        for (size_t pair = interruptions [each].comes == HERE? 0: 1; pair < 3; pair++) {
            double samples, phi2 = s_phi2_of_table (tables [pair], &samples);
            print_message ("interrupted at %.1f%s, epochs %d and %d: phi2 %.5f\n", interruptions [each].part,
                interruptions [each].comes == HERE? " here": "", (int) pair - 1, (int) pair, phi2);
            assert_true (phi2 < 0.001 + 5 * 12.7 / samples);
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_positions_are_the_inverse),
        cmocka_unit_test (test_any_mix),
        cmocka_unit_test (test_uniform),
        cmocka_unit_test (test_uniform_over_nodes),
        cmocka_unit_test (test_fresh_and_together),
        cmocka_unit_test (test_fresh_whatever_the_pace),
        cmocka_unit_test (test_fresh_where_jobs_draw_much_at_once),
        cmocka_unit_test (test_a_long_pause),
        cmocka_unit_test (test_jobs_leave_the_passes),
        cmocka_unit_test (test_fresh_after_a_resumed_epoch)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  Guards: a round of all jobs follows the published law (published.h), where jobs with one set are one
 *  player, and in any round each draw is uniform over what remains to the job, given all before.
 *    - One round, many times over, from one state: the joint law of all ids of all jobs, by chi-square.
 *    - Long schedules, where the state comes from draws of before: how often jobs share a sample, and which
 *      of its remaining samples each one gets.
 *  (test_dsa_enumerated.c has the exact law of single rounds.)
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sampler.h"
#include "effort.h"
#include "published.h"
#include "seed.h"
#include "statistics.h"

enum { IDS = PUBLISHED_IDS, JOBS_MAX = PUBLISHED_JOBS_MAX, OUTCOMES = PUBLISHED_OUTCOMES };

//  The law of one round of these jobs, with their sets by slot.  Returns false, no law, if two sets that
//  differ are of one size: then the law depends on an order that the paper leaves open.
static bool
s_round_law (const uint8_t *sets, size_t count, double *law)
{
    published_players_t players = { .count = 0 };
    for (unsigned slot = 0; slot < count; slot++) {
        size_t place = 0;
        while (place < players.count && published_size (players.sets [place]) < published_size (sets [slot]))
            place++;
        published_add (&players, place, sets [slot], slot);
    }
    for (size_t place = 1; place < players.count; place++)
        if (published_size (players.sets [place]) == published_size (players.sets [place - 1]))
            return false;
    memset (law, 0, OUTCOMES * sizeof *law);
    published_law (&players, 1, 0, law);
    return true;
}

//  ------------------------------------------------------------------------------------------------
//  The sampler under test

static uint32_t
s_join (sampler_t *sampler, uint8_t set)
{
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t id = 0; id < IDS; id++)
        if (set >> id & 1)
            roaring_bitmap_add (data, id);
    uint32_t job = sampler_join (sampler, &(sampler_join_t) { .data = data });
    roaring_bitmap_free (data);
    return job;
}

//  Plays one round of jobs; ids [i] is what jobs [i] got.
static void
s_play (sampler_t *sampler, const uint32_t *jobs, size_t count, uint32_t *ids)
{
    sampler_offer_t offer;
    sampler_round_begin (sampler, jobs, count);
    while (sampler_offer (sampler, &offer)) {
        uint32_t id = sampler_pick (sampler);
        for (size_t sharer = 0; sharer < offer.job_count; sharer++)
            for (size_t slot = 0; slot < count; slot++)
                if (jobs [slot] == offer.jobs [sharer])
                    ids [slot] = id;
        sampler_commit (sampler, id);
    }
}

//  One of those before, now and then; or one of `many` from `first` on.
static uint8_t
s_any_set (uint64_t *random, const uint8_t *before, size_t count, unsigned first, unsigned many)
{
    return count && test_below (random, 3) == 0? before [test_below (random, count)]:
        (uint8_t) (first + test_below (random, many));
}

static bool
s_one_group (const sampler_t *sampler)
{
    return sampler_group_count (sampler) == 1;
}

//  ------------------------------------------------------------------------------------------------
//  One state, one round, many times

enum { STATES = EFFORT (60), ROUNDS = 30000 };

//  Chi-square of all outcomes, those expected less than ten times taken together.  What cannot happen must
//  not.
static double
s_compare_law (const double *law, const uint32_t *counts, uint64_t seed)
{
    double sum = 0, rare_expected = 0, rare_count = 0;
    int cells = 0;
    for (unsigned outcome = 0; outcome < OUTCOMES; outcome++) {
        double expected = law [outcome] * ROUNDS, count = counts [outcome];
        if (law [outcome] <= 0 && counts [outcome])
            fail_msg ("seed %" PRIu64 ": outcome %o is impossible", seed, outcome);
        if (expected < 10) {
            rare_expected += expected;
            rare_count += count;
            continue;
        }
        sum += (count - expected) * (count - expected) / expected;
        cells++;
    }
    if (rare_expected >= 10) {
        sum += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
        cells++;
    }
    return cells > 1? statistics_z_of_chi_square (sum, cells - 1): 0;
}

static void
test_joint_law_of_a_round (void **state)
{
    (void) state;
    static double law [OUTCOMES];
    const double limit = statistics_z_limit (STATES);
    uint64_t seed = test_seed ();
    for (int tested = 0; tested < STATES; seed++) {
        uint64_t random = seed;
        size_t count = 2 + test_below (&random, JOBS_MAX - 1);
        uint8_t sets [JOBS_MAX];
        uint32_t jobs [JOBS_MAX];
        sampler_t *sampler = sampler_new (IDS, SAMPLER_POLICY_DSA, seed);
        for (size_t slot = 0; slot < count; slot++) {
            sets [slot] = s_any_set (&random, sets, slot, 1, 255);
            jobs [slot] = s_join (sampler, sets [slot]);
        }
        static uint32_t counts [OUTCOMES];
        memset (counts, 0, sizeof counts);
        bool fit = s_one_group (sampler) && s_round_law (sets, count, law);
        for (int round = 0; fit && round < ROUNDS; round++) {
            uint32_t ids [JOBS_MAX] = { 0 };
            unsigned outcome = 0;
            s_play (sampler, jobs, count, ids);
            for (size_t slot = 0; slot < count; slot++) {
                outcome |= ids [slot] << 3 * slot;
                sampler_epoch_begin (sampler, jobs [slot]);
            }
            counts [outcome]++;
        }
        double z = fit? s_compare_law (law, counts, seed): 0;
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": %zu jobs, z = %f", seed, count, z);
        tested += fit;
        sampler_destroy (&sampler);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Schedules: the law of each round given all that was before

enum { SCHEDULES = EFFORT (80), SCHEDULE_ROUNDS = 2000 };

typedef struct {
    statistics_events_t pair;           //  two certain jobs of the round got the same id
    statistics_events_t all;            //  all of them did
    statistics_events_t lower;          //  the first job got one of the lower half of what it has left
    statistics_events_t least;          //  or the very first of it
} tallies_t;

//  The probability that all the slots from first to last got one id.
static double
s_same (const double *law, size_t first, size_t last)
{
    double p = 0;
    for (unsigned outcome = 0; outcome < OUTCOMES; outcome++) {
        bool same = true;
        for (size_t slot = first; slot < last; slot++)
            same &= (outcome >> 3 * slot & 7) == (outcome >> 3 * (slot + 1) & 7);
        p += same? law [outcome]: 0;
    }
    return p;
}

static void
s_tally (tallies_t *tallies, const uint8_t *sets, const uint32_t *ids, size_t count, bool is_all)
{
    static double law [OUTCOMES];
    //  Of one job only: jobs that share a sample are not so many independent events.
    int size = published_size (sets [0]);
    int rank = published_size (sets [0] & (uint8_t) ((1u << ids [0]) - 1));
    statistics_event (&tallies->lower, rank < size / 2, (double) (size / 2) / size);
    statistics_event (&tallies->least, rank == 0, 1.0 / size);
    //  Jobs that take no part are on the path, too.  So without them less is shared than the paper has it.
    if (!is_all || count < 2 || !s_round_law (sets, count, law))
        return;
    bool all = true;
    for (size_t slot = 0; slot + 1 < count; slot++)
        all &= ids [slot] == ids [slot + 1];
    double pair = s_same (law, 0, 1);
    //  Sums of floating point may pass 1 by a hair: certain is certain.
    statistics_event (&tallies->pair, ids [0] == ids [1], pair > 1 - 1e-12? 1: pair);
    double every = s_same (law, 0, count - 1);
    statistics_event (&tallies->all, all, every > 1 - 1e-12? 1: every);
}

//  A round of some of the jobs, in any order.  Then jobs that have nothing left begin anew, and sometimes one
//  in mid-epoch does.  sets [job] is the model.
static void
s_schedule_round (sampler_t *sampler, uint64_t *random, size_t job_count, const uint8_t *data, uint8_t *left,
    tallies_t *tallies)
{
    uint32_t jobs [JOBS_MAX], ids [JOBS_MAX] = { 0 };
    uint8_t sets [JOBS_MAX];
    size_t count = 0;
    uint32_t start = (uint32_t) test_below (random, job_count);
    for (uint32_t step = 0; step < job_count; step++) {
        uint32_t job = (uint32_t) ((start + step) % job_count);
        if (count == 0 || test_below (random, 4)) {
            sets [count] = left [job];
            jobs [count++] = job;
        }
    }
    s_play (sampler, jobs, count, ids);
    s_tally (tallies, sets, ids, count, count == job_count);
    for (size_t slot = 0; slot < count; slot++)
        left [jobs [slot]] &= (uint8_t) ~(1u << ids [slot]);
    for (uint32_t job = 0; job < job_count; job++)
        if (!left [job] || test_below (random, 40) == 0) {
            sampler_epoch_begin (sampler, job);
            left [job] = data [job];
        }
}

static void
s_judge (const tallies_t *tallies, double limit, uint64_t seed, const char *what)
{
    const double z [] = { statistics_z_of_events (&tallies->pair), statistics_z_of_events (&tallies->all),
        statistics_z_of_events (&tallies->lower), statistics_z_of_events (&tallies->least) };
    for (size_t figure = 0; figure < 4; figure++)
        if (fabs (z [figure]) > limit)
            fail_msg ("seed %" PRIu64 ": %s: pair %f, all %f, lower %f, least %f", seed, what,
                z [0], z [1], z [2], z [3]);
}

static void
s_pool (statistics_events_t *sum, const statistics_events_t *part)
{
    sum->happened += part->happened;
    sum->expected += part->expected;
    sum->variance += part->variance;
}

//  Each schedule by itself shows a law that is wrong for some sets; all of them together a bias that is
//  small.
static void
test_law_given_all_that_was_before (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (4 * (SCHEDULES + 1));
    uint64_t seed = test_seed ();
    tallies_t pool = { 0 };
    for (int tested = 0; tested < SCHEDULES; seed++) {
        uint64_t random = seed;
        size_t count = 2 + test_below (&random, JOBS_MAX - 1);
        uint8_t data [JOBS_MAX], left [JOBS_MAX];
        sampler_t *sampler = sampler_new (IDS, SAMPLER_POLICY_DSA, seed);
        for (size_t job = 0; job < count; job++) {
            data [job] = left [job] = s_any_set (&random, data, job, 56, 200);
            s_join (sampler, data [job]);
        }
        bool fit = s_one_group (sampler);
        tallies_t tallies = { 0 };
        for (int round = 0; fit && round < SCHEDULE_ROUNDS; round++)
            s_schedule_round (sampler, &random, count, data, left, &tallies);
        sampler_check (sampler);
        sampler_destroy (&sampler);
        if (fit) {
            s_judge (&tallies, limit, seed, "one schedule");
            s_pool (&pool.pair, &tallies.pair);
            s_pool (&pool.all, &tallies.all);
            s_pool (&pool.lower, &tallies.lower);
            s_pool (&pool.least, &tallies.least);
        }
        tested += fit;
    }
    s_judge (&pool, limit, test_seed (), "all schedules");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_joint_law_of_a_round),
        cmocka_unit_test (test_law_given_all_that_was_before),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  Packing, and the loss of power: whatever the disk has kept, there is no pack or the whole one, and going
//  on makes the same pack.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "packing_play.h"

static const play_source_t s_source = { 24, 60000, false };

static void
s_prepare (void *state, play_job_t *job, const char *target)
{
    play_prepare (state, job, &s_source, target);
    job->options.buckets = 2;
}

//  A path that stays.
static void
s_path (void *state, const char *name, char path [200])
{
    snprintf (path, 200, "%.100s", play_in (state, name));
}

//  As a person goes on after a loss of power: begins, and is told where there is something to go on with.
static int
s_go_on (play_job_t *job)
{
    int rc = play_run (job);
    if (rc != -EEXIST)
        return rc;
    job->options.resume = true;
    return play_run (job);
}

//  Packs to disk/two, where a loss of power has left something.  An index there must be the whole pack's.
static void
s_check (void *state, const char *disk, uint64_t seed, size_t steps, power_luck_t luck)
{
    char path [PATH_MAX], index [PATH_MAX];
    snprintf (path, sizeof path, "%.2000s/two", disk);
    snprintf (index, sizeof index, "%.2000s/two/index.tureen", disk);
    play_job_t job;
    s_prepare (state, &job, path);
    if (access (index, F_OK) == 0)
        play_assert_same_file (play_in (state, "one/index.tureen"), index);
    int rc = s_go_on (&job);
    if (rc)
        fail_msg ("seed %" PRIu64 ", power lost behind %zu steps, %d: %d: %s", seed, steps, (int) luck, rc,
            job.error);
    play_assert_same (play_in (state, "one"), path);
}

//  What is made of it: one/; and the folder disk/, in which packing to disk/two is recorded.
static size_t
s_record (void *state, uint64_t seed)
{
    play_make_source (state, &s_source, seed);
    play_job_t job;
    s_prepare (state, &job, play_in (state, "one"));
    play_run_well (&job);
    assert_int_equal (mkdir (play_in (state, "disk"), 0700), 0);
    s_prepare (state, &job, play_in (state, "disk/two"));
    size_t before = power_record (play_in (state, "disk"));
    play_run_well (&job);
    size_t all = power_stop ();
    assert_true (all > before + 20);
    return all;
}

static void
test_power_lost_at_every_step (void **state)
{
    uint64_t seed = test_seed (), random = seed;
    size_t all = s_record (*state, seed);
    char lost [200];
    s_path (*state, "lost", lost);
    for (size_t steps = 0; steps <= all; steps++)
        for (unsigned int turn = 0; turn < 2 + EFFORT (10); turn++) {
            power_luck_t luck = turn < POWER_SOME_LOST? (power_luck_t) turn: POWER_SOME_LOST;
            power_lose (lost, steps, luck, &random);
            s_check (*state, lost, seed, steps, luck);
            power_remove (lost);
        }
    print_message ("%zu steps\n", all);
    power_forget ();
}

//  The power goes a second time, while packing goes on.
static void
test_power_lost_twice (void **state)
{
    uint64_t seed = test_seed (), random = seed;
    size_t all = s_record (*state, seed);
    char lost [200], again [200];
    s_path (*state, "lost", lost);
    s_path (*state, "again", again);
    for (unsigned int round = 0; round < EFFORT (60); round++) {
        size_t steps = test_below (&random, all + 1);
        power_lose (lost, steps, POWER_SOME_LOST, &random);
        power_recording_t first = power_put_away ();
        size_t there = power_record (lost);
        s_check (*state, lost, seed, steps, POWER_SOME_LOST);
        size_t more = there + test_below (&random, power_stop () - there + 1);
        power_lose (again, more, POWER_SOME_LOST, &random);
        s_check (*state, again, seed, more, POWER_SOME_LOST);
        power_take_back (&first);
        power_remove (lost);
        power_remove (again);
    }
    power_forget ();
}

//  Packing that says it is done has made the pack durable.
static void
test_power_lost_at_the_end (void **state)
{
    uint64_t random = test_seed ();
    size_t all = s_record (*state, random);
    for (power_luck_t luck = POWER_ALL_LOST; luck <= POWER_SOME_LOST; luck++) {
        power_lose (play_in (*state, "lost"), all, luck, &random);
        play_assert_same (play_in (*state, "one"), play_in (*state, "lost/two"));
        power_remove (play_in (*state, "lost"));
    }
    power_forget ();
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_power_lost_at_every_step, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_power_lost_twice, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_power_lost_at_the_end, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

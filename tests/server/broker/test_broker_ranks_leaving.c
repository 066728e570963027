//  Jobs of several ranks of which one leaves, or comes back when all has been sent (docs/protocol.md, Losing
//  one).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "ranks_scene.h"
#include "seed.h"

//  Must hold: a rank that leaves before it was sent all ends the job for the others; after that it does not,
//  nor does one that is lost then.
static void
test_a_rank_leaves (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (size_t sent = 0; sent <= all; sent++) {
        simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), sent);
        int leaver = (int) (sent % WORLD);
        bool had_all = simulation_records_sent (simulation, 0) == all;
        if (had_all && sent % 2)
            simulation_lose (simulation, leaver);
        else
            simulation_leave (simulation, leaver);
        ranks_scene_run_whole (simulation);
        char named [24];
        snprintf (named, sizeof named, "rank %d", leaver);
        for (int rank = 0; rank < WORLD; rank++) {
            const char *message;
            assert_int_equal (simulation_rank_notices (simulation, rank, &message), 0);
            if (rank == leaver || had_all)
                assert_false (simulation_ended (simulation, rank));
            else {
                ranks_scene_assert_ended (simulation, rank, "rank_left", named);
                ranks_scene_assert_ended (simulation, rank, "rank_left", "'x'");
            }
        }
        if (had_all) {
            for (int rank = 0; rank < WORLD; rank++)
                assert_true (simulation_finished (simulation, rank));
            //  A rank that has left by itself does not come back.
            int back = -1;
            simulated_return_t how = { .records = all - 1, .run = ranks_scene_run };
            broker_return_t expected = sent % 2? BROKER_RETURN_READY: BROKER_RETURN_NONE;
            assert_int_equal (simulation_return (simulation, leaver, &how, &back), expected);
        }
        simulation_destroy (&simulation);
    }
}

//  Must hold: so at whatever moment, while the last steps are prepared too.
static void
test_a_rank_leaves_at_any_time (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    int before = 0;
    for (int64_t at_us = 0; at_us < 26 * MS; at_us += at_us < 18 * MS? 1100: 130) {
        simulation_options_t options = ranks_scene_options (test_seed ());
        options.copy_us = 500;
        simulation_t *simulation = simulation_new (&options);
        assert_int_equal (simulation_join (simulation, &ranks_scene_job), 0);
        simulation_run (simulation, at_us);
        int leaver = (int) (at_us / 10 % WORLD), other = (leaver + 1) % WORLD;
        bool had_all = simulation_records_sent (simulation, 0) == all;
        before += !had_all && simulation_records_sent (simulation, 0) + 2 == all;
        simulation_leave (simulation, leaver);
        ranks_scene_run_whole (simulation);
        if (had_all)
            assert_true (!simulation_ended (simulation, other) && simulation_finished (simulation, other));
        else
            ranks_scene_assert_ended (simulation, other, "rank_left", "rank");
        simulation_destroy (&simulation);
    }
    assert_true (before > 3);
}

//  Must hold: a rank that was sent everything may be gone, and come back for what it did not receive.  If it
//  is lost then, the job waits for it.
static void
test_a_rank_comes_back_at_the_end (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (int again = 0; again < 2; again++) {
        simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), all);
        const char *message;
        simulation_lose (simulation, 1);
        ranks_scene_pass (simulation, 100 * SECOND_US);
        assert_int_equal (simulation_rank_notices (simulation, 0, &message), 0);
        int back = -1;
        simulated_return_t how = { .records = all - 3, .run = ranks_scene_run, .detached = true };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        simulation_lose (simulation, back);
        ranks_scene_pass (simulation, SECOND_US);
        assert_int_equal (simulation_rank_notices (simulation, 0, &message), 1);
        if (again)
            ranks_scene_return (simulation, back, all - 2);
        ranks_scene_run_whole (simulation);
        if (again)
            ranks_scene_assert_whole (simulation, &ranks_scene_job);
        else
            ranks_scene_assert_ended (simulation, 0, "rank_lost", "rank 1");
        simulation_destroy (&simulation);
    }
}

//  Must hold: one that comes back with everything, and is lost or leaves before it takes its ring, holds up
//  no other.
static void
test_a_rank_with_everything_takes_no_ring (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (int leaves = 0; leaves < 2; leaves++) {
        simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), all);
        int back = -1;
        simulation_lose (simulation, 1);
        ranks_scene_pass (simulation, MS);
        simulated_return_t how = { .records = all, .run = ranks_scene_run, .detached = true };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        if (leaves)
            simulation_leave (simulation, back);
        else
            simulation_lose (simulation, back);
        ranks_scene_pass (simulation, MS);
        ranks_scene_run_whole (simulation);
        assert_true (simulation_finished (simulation, 0) && simulation_finished (simulation, 2));
        simulation_destroy (&simulation);
    }
}

//  Must hold: when the others have left at the end, one that died before it had taken all is still waited
//  for; then nothing is left of the job.
static void
test_the_last_rank_comes_back (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (int comes = 0; comes < 2; comes++)
        for (int64_t at_us = 0; at_us < 3 * MS; at_us += 100) {
            simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), all);
            int back = -1;
            ranks_scene_pass (simulation, at_us);
            bool has_taken_all = simulation_consumed (simulation, 1) == all - EPOCHS;
            simulation_lose (simulation, 1);
            simulation_leave (simulation, 0);
            simulation_leave (simulation, 2);
            ranks_scene_pass (simulation, (WAIT - 1) * SECOND_US);
            assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), !has_taken_all);
            simulated_return_t how = { .records = all - 2, .run = ranks_scene_run };
            broker_return_t expected = has_taken_all? BROKER_RETURN_NONE: BROKER_RETURN_READY;
            if (comes)
                assert_int_equal (simulation_return (simulation, 1, &how, &back), expected);
            ranks_scene_pass (simulation, 2 * SECOND_US);
            if (back >= 0) {
                assert_true (simulation_finished (simulation, back)
                    && simulation_is_there (simulation, back));
                simulation_leave (simulation, back);
                ranks_scene_pass (simulation, MS);
            }
            assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
            simulation_destroy (&simulation);
        }
}

//  Must hold: so too for a rank that is lost once more while it is given what it lacks, and no other rank is
//  there any more.
static void
test_the_last_rank_is_lost_again (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (int detached = 0; detached < 2; detached++) {
        simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), all);
        int back = -1;
        simulation_lose (simulation, 1);
        ranks_scene_pass (simulation, MS);
        simulated_return_t how = { .records = all - 4, .run = ranks_scene_run, .detached = detached };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        simulation_leave (simulation, 0);
        simulation_leave (simulation, 2);
        ranks_scene_pass (simulation, 20);
        assert_false (simulation_finished (simulation, back));
        simulation_lose (simulation, back);
        ranks_scene_pass (simulation, SECOND_US);
        back = ranks_scene_return (simulation, back, all - 4);
        ranks_scene_run_whole (simulation);
        assert_true (simulation_finished (simulation, back) && simulation_is_there (simulation, back));
        simulation_leave (simulation, back);
        ranks_scene_pass (simulation, MS);
        assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
        simulation_destroy (&simulation);
    }
}

//  Must hold: one that comes back and does not take its ring is lost again, and may come back for as long as
//  it is waited for.
static void
test_a_rank_comes_back_and_takes_no_ring (void **state)
{
    (void) state;
    for (int again = 0; again < 2; again++) {
        simulated_job_t job = ranks_scene_job;
        job.rank_wait_seconds = 30;
        simulation_t *simulation = ranks_scene_begun (&job, test_seed (), 5);
        int back = -1;
        const char *message;
        simulation_lose (simulation, 1);
        ranks_scene_pass (simulation, MS);
        simulated_return_t how = { .records = simulation_records (simulation, 1), .run = ranks_scene_run,
            .detached = true };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        ranks_scene_pass (simulation, 12 * SECOND_US);
        assert_false (simulation_is_there (simulation, back));
        assert_true (simulation_is_there (simulation, 0));
        if (again) {
            ranks_scene_return (simulation, back, how.records);
            ranks_scene_run_whole (simulation);
            ranks_scene_assert_whole (simulation, &job);
        }
        else {
            ranks_scene_pass (simulation, 20 * SECOND_US);
            assert_string_equal (simulation_reason (simulation, 0, &message), "rank_lost");
        }
        simulation_destroy (&simulation);
    }
}

//  Must hold: one that leaves while another is lost ends the job, and one that is lost twice counts once.
static void
test_a_rank_leaves_while_another_is_lost (void **state)
{
    (void) state;
    simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), 4);
    simulation_lose (simulation, 0);
    simulation_lose (simulation, 0);
    ranks_scene_pass (simulation, SECOND_US);
    simulation_leave (simulation, 2);
    ranks_scene_pass (simulation, MS);
    ranks_scene_assert_ended (simulation, 1, "rank_left", "rank 2");
    assert_false (simulation_ended (simulation, 0));
    assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
    simulation_destroy (&simulation);
}

//  Must hold: a plain job that leaves or is lost is gone.
static void
test_a_plain_job_leaves_or_is_lost (void **state)
{
    (void) state;
    for (int how = 0; how < 2; how++) {
        simulation_options_t options = ranks_scene_options (test_seed ());
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = ranks_scene_job;
        job.world_size = 1;
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_run (simulation, 3 * MS);
        if (how)
            simulation_lose (simulation, 0);
        else
            simulation_leave (simulation, 0);
        assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), 0);
        ranks_scene_run_whole (simulation);
        assert_false (simulation_ended (simulation, 0));
        assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
        simulation_destroy (&simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_rank_leaves),
        cmocka_unit_test (test_a_rank_leaves_at_any_time),
        cmocka_unit_test (test_a_rank_comes_back_at_the_end),
        cmocka_unit_test (test_a_rank_with_everything_takes_no_ring),
        cmocka_unit_test (test_the_last_rank_comes_back),
        cmocka_unit_test (test_the_last_rank_is_lost_again),
        cmocka_unit_test (test_a_rank_comes_back_and_takes_no_ring),
        cmocka_unit_test (test_a_rank_leaves_while_another_is_lost),
        cmocka_unit_test (test_a_plain_job_leaves_or_is_lost)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  Jobs of several ranks of which one leaves, is lost, or comes back (docs/protocol.md, Losing one).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, MS = 1000, SAMPLES = 60, EPOCHS = 2, WORLD = 3, SLOTS = 3, WAIT = 10 };

static const char s_run [] = "4b7c1d2e3f405162738495a6b7c8d9ea",
    s_other_run [] = "00000000000000000000000000000001", s_stranger [] = "ffeeddccbbaa99887766554433221100";

static simulation_options_t
s_options (uint64_t seed)
{
    return (simulation_options_t) { .policy = seed % 2? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW,
        .seed = seed,
        .samples = SAMPLES, .cache_versions = 12, .workers = 2, .check = true };
}

//  Steps of six samples, ten an epoch.
static const simulated_job_t s_job = { .batch_size = 2, .world_size = WORLD, .slots = SLOTS, .epochs = EPOCHS,
    .sample_us = 500,
    .rank_wait_seconds = WAIT, .run = s_run, .job_name = "x", .uid = 7 };

static void
s_run_whole (simulation_t *simulation)
{
    if (!simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US))
        fail_msg ("it hangs");
}

static void
s_pass (simulation_t *simulation, int64_t us)
{
    simulation_run (simulation, simulation_now_us (simulation) + us);
}

//  A job that has sent at least so many records.
static simulation_t *
s_begun (const simulated_job_t *job, uint64_t seed, size_t records)
{
    simulation_options_t options = s_options (seed);
    simulation_t *simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, job), 0);
    while (simulation_records_sent (simulation, 0) < records)
        if (simulation_run (simulation, simulation_now_us (simulation) + 100))
            assert_true (simulation_records_sent (simulation, 0) >= records);
    return simulation;
}

static void
s_assert_refused (const simulation_t *simulation, const char *code, const char *fragment)
{
    const refusal_t *refusal = simulation_refusal (simulation);
    if (strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment, refusal->code, refusal->message);
}

static void
s_assert_ended (const simulation_t *simulation, int client, const char *expected, const char *fragment)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    if (!reason || strcmp (reason, expected) != 0 || !strstr (message, fragment))
        fail_msg ("client %d: expected %s with '%s', got %s: %s", client, expected, fragment,
            reason? reason: "nothing", reason? message: "");
}

//  All ranks have got all.
static void
s_assert_whole (const simulation_t *simulation, const simulated_job_t *job)
{
    size_t steps = (SAMPLES + job->batch_size * job->world_size - 1) / (job->batch_size * job->world_size);
    assert_int_equal (simulation_records_sent (simulation, 0), EPOCHS * (steps + 1));
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        int client = simulation_rank (simulation, 0, rank);
        assert_true (simulation_finished (simulation, client));
        assert_int_equal (simulation_records (simulation, client), EPOCHS * (steps + 1));
        for (size_t epoch = 0; epoch < simulation_epochs (simulation, client); epoch++)
            if (simulation_epoch (simulation, client, epoch)->ended)
                simulation_assert_permutation (simulation_epoch (simulation, client, epoch), 0, SAMPLES);
    }
}

//  Comes back where it has got so many records, when what was known of it is gone.
static int
s_return (simulation_t *simulation, int client, size_t records)
{
    int back = -1;
    simulated_return_t how = { .records = records, .run = s_run, .sample_us = 300 };
    broker_return_t answer = simulation_return (simulation, client, &how, &back);
    if (answer == BROKER_RETURN_REFUSED && strcmp (simulation_refusal (simulation)->code, "busy") == 0) {
        s_pass (simulation, MS);
        answer = simulation_return (simulation, client, &how, &back);
    }
    if (answer != BROKER_RETURN_READY)
        fail_msg ("it is not taken: %s",
            answer == BROKER_RETURN_NONE? "no return": simulation_refusal (simulation)->message);
    return back;
}

//  How many steps a rank lacks that has got so many records.
static size_t
s_steps_behind (const simulation_t *simulation, int client, size_t records)
{
    size_t steps = 0;
    for (size_t record = records; record < simulation_records_sent (simulation, client); record++)
        steps += !simulation_record (simulation, client, record)->is_end;
    return steps;
}

//  ---- waiting for one

//  Must hold: the others are told once each, nothing more is drawn, and when the time is over the job ends
//  for them, by name;
//  with no time it ends at once.
static void
test_a_rank_is_waited_for (void **state)
{
    (void) state;
    for (int lost = 0; lost < WORLD; lost++)
        for (uint32_t wait = 0; wait <= WAIT; wait += WAIT) {
            simulated_job_t job = s_job;
            job.rank_wait_seconds = wait;
            simulation_t *simulation = s_begun (&job, test_seed () + wait, 5);
            char named [24];
            snprintf (named, sizeof named, "rank %d", lost);
            simulation_lose (simulation, lost);
            s_pass (simulation, 0);
            if (wait) {
                s_pass (simulation, SECOND_US);
                uint64_t prepared = simulation_prepared (simulation),
                    sent = simulation_records_sent (simulation, 0);
                s_pass (simulation, 8900 * MS);
                assert_int_equal (simulation_prepared (simulation), prepared);
                assert_int_equal (simulation_records_sent (simulation, 0), sent);
                for (int rank = 0; rank < WORLD; rank++) {
                    const char *message;
                    assert_false (simulation_ended (simulation, rank));
                    assert_int_equal (simulation_rank_notices (simulation, rank, &message), rank != lost);
                    if (rank != lost)
                        assert_true (strstr (message, named) && strstr (message, "10 s"));
                }
                s_pass (simulation, 200 * MS);
            }
            for (int rank = 0; rank < WORLD; rank++)
                if (rank != lost) {
                    s_assert_ended (simulation, rank, "rank_lost", named);
                    s_assert_ended (simulation, rank, "rank_lost", "'x'");
                }
            assert_false (simulation_ended (simulation, lost));
            s_pass (simulation, MS);
            assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
            simulation_destroy (&simulation);
        }
}

//  Must hold: wherever in its epochs, and from whatever place that the server still knows, a rank comes back:
//  it gets first what it lacks, and then all go on and get all. From further back it is no return.
static void
test_a_rank_comes_back_at_every_step (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (size_t sent = 0; sent <= all; sent++)
        for (size_t lag = 0; lag <= SLOTS + 4 && lag <= sent; lag += EFFORT (10) == 10? 1: 2) {
            int lost = (int) ((sent + lag) % WORLD), back = -1;
            simulation_t *simulation = s_begun (&s_job, test_seed () + lag, sent);
            simulation_lose (simulation, lost);
            size_t records = simulation_records (simulation, lost) - lag;
            s_pass (simulation, 20 * MS);
            size_t behind = s_steps_behind (simulation, lost, records);
            simulated_return_t how = { .records = records, .run = s_run, .is_inline = sent % 2 };
            broker_return_t answer = simulation_return (simulation, lost, &how, &back);
            bool was_all = simulation_records_sent (simulation, 0) == all;
            if (was_all && answer != BROKER_RETURN_READY)
                ;                               //  it had got all, and so has left
            else
            if (answer == BROKER_RETURN_READY) {
                assert_true (behind <= SLOTS + 2);
                simulation_run (simulation, 300 * SECOND_US);
                s_assert_whole (simulation, &s_job);
            }
            else
                assert_true (answer == BROKER_RETURN_NONE && behind > SLOTS + 1);
            simulation_destroy (&simulation);
        }
}

//  Must hold: one that takes nothing of what it gets again is not sent more, unless it has fewer batches
//  before it than slots; and when it takes it the job goes on.
static void
test_a_rank_takes_nothing_when_it_is_back (void **state)
{
    (void) state;
    for (size_t lag = 0; lag <= SLOTS + 1; lag++)
        for (int twice = 0; twice < 2; twice++) {
            simulation_t *simulation = s_begun (&s_job, test_seed (), 7);
            simulation_stop (simulation, 1);
            s_pass (simulation, SECOND_US);
            size_t records = simulation_records_sent (simulation, 0) - lag;
            simulation_lose (simulation, 1);
            s_pass (simulation, MS);
            size_t lacks = s_steps_behind (simulation, 1, records);
            int back = s_return (simulation, 1, records);
            simulation_stop (simulation, back);
            s_pass (simulation, SECOND_US);
            assert_true (s_steps_behind (simulation, back, records) <= (lacks > SLOTS? lacks: SLOTS));
            if (twice) {
                simulation_lose (simulation, back);
                s_pass (simulation, MS);
                s_return (simulation, back, records);
            }
            else
                simulation_continue (simulation, back);
            s_run_whole (simulation);
            s_assert_whole (simulation, &s_job);
            simulation_destroy (&simulation);
        }
}

//  Says of all that it was sent, and of one batch more each time, that it is done with it; all ranks in turn,
//  before anything that follows is carried out.
static void
s_release_ahead (simulation_t *simulation)
{
    for (int turn = 0; turn < 4 * SLOTS; turn++)
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            rank_t *of = job_rank (simulation_job (simulation, 0), rank);
            refusal_t refusal;
            for (uint64_t done = 0; done < 100; done++)
                broker_progress (simulation_broker (simulation), of, &(wire_progress_t) { done, done, 0 },
                    simulation_now_us (simulation) / 1000, &refusal);
        }
}

//  Must hold: a client that says to be done with batches which it has not got yet is not believed, though
//  they be ready: what is sent is carried out before clients are heard again.
static void
test_nothing_is_sent_while_clients_are_heard (void **state)
{
    (void) state;
    for (size_t lag = 1; lag <= SLOTS + 1; lag++) {
        simulation_t *simulation = s_begun (&s_job, test_seed (), 7);
        simulation_stop (simulation, 1);
        s_pass (simulation, SECOND_US);
        size_t records = simulation_records_sent (simulation, 0) - lag;
        simulation_lose (simulation, 1);
        s_pass (simulation, MS);
        int back = s_return (simulation, 1, records);
        simulation_stop (simulation, back);
        s_pass (simulation, SECOND_US);
        uint64_t delivered = simulation_delivered (simulation);
        s_release_ahead (simulation);
        assert_int_equal (simulation_delivered (simulation), delivered);
        broker_advance (simulation_broker (simulation), simulation_now_us (simulation) / 1000);
        assert_true (simulation_delivered (simulation) > delivered || lag < 3);
        simulation_destroy (&simulation);
    }
}

//  Must hold: several that are lost come back in any order, again and again, and in the middle of what they
//  lack.
static void
test_several_are_lost (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (100); round++) {
        simulation_t *simulation = s_begun (&s_job, test_seed () + (uint64_t) round,
            1 + test_below (&random, 12));
        for (int turn = 0; turn < 12; turn++) {
            uint32_t rank = (uint32_t) test_below (&random, WORLD);
            int client = simulation_rank (simulation, 0, rank);
            if (!simulation_finished (simulation, client) && simulation_is_there (simulation, client)) {
                int others = 0;
                for (uint32_t other = 0; other < WORLD; other++)
                    others += other != rank && simulation_is_there (simulation,
                        simulation_rank (simulation, 0, other));
                if (others)
                    simulation_lose (simulation, client);
            }
            else
            if (!simulation_is_there (simulation, client)) {
                s_pass (simulation, MS);
                size_t records = simulation_records (simulation, client), lag = test_below (&random, 3);
                if (lag > records || s_steps_behind (simulation, client, records - lag) > SLOTS + 1)
                    lag = 0;
                s_return (simulation, client, records - lag);
            }
            s_pass (simulation, (int64_t) test_below (&random, 3000));
        }
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            int client = simulation_rank (simulation, 0, rank);
            if (!simulation_is_there (simulation, client) && !simulation_finished (simulation, client)) {
                s_pass (simulation, MS);
                s_return (simulation, client, simulation_records (simulation, client));
            }
        }
        s_run_whole (simulation);
        s_assert_whole (simulation, &s_job);
        simulation_destroy (&simulation);
    }
}

//  Must hold: a rank that turns out to be dead while the broker's messages are carried out.
static void
test_a_rank_dies_while_it_is_sent_to (void **state)
{
    (void) state;
    for (int64_t at_us = 0; at_us < 20 * MS; at_us += 700)
        for (uint32_t wait = 0; wait <= WAIT; wait += WAIT) {
            simulation_options_t options = s_options (test_seed ());
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t job = s_job;
            job.rank_wait_seconds = wait;
            assert_int_equal (simulation_join (simulation, &job), 0);
            simulation_run (simulation, at_us);
            int dead = (int) (at_us / 700 % WORLD);
            simulation_dies_at_send (simulation, dead);
            s_pass (simulation, 20 * MS);
            bool was_lost = !simulation_is_there (simulation, dead);
            if (was_lost && wait)
                s_return (simulation, dead, simulation_records (simulation, dead));
            s_run_whole (simulation);
            bool had_all = simulation_records_sent (simulation, 0) == EPOCHS * (SAMPLES / 6 + 1);
            if (was_lost && !wait && !had_all)
                s_assert_ended (simulation, (dead + 1) % WORLD, "rank_lost", "rank");
            else
            if (!was_lost || wait)
                s_assert_whole (simulation, &job);
            simulation_destroy (&simulation);
        }
}

//  Must hold: what a worker still copies for a rank that is lost keeps its ring, and it can't come back
//  before.
static void
test_a_rank_is_lost_while_its_samples_are_copied (void **state)
{
    (void) state;
    int busy = 0;
    for (int lost = 0; lost < WORLD; lost++)
        for (int64_t at_us = 0; at_us < 20 * MS; at_us += 900) {
            simulation_options_t options = s_options (test_seed ());
            options.copy_us = 3 * MS;
            simulation_t *simulation = simulation_new (&options);
            assert_int_equal (simulation_join (simulation, &s_job), 0);
            simulation_run (simulation, at_us);
            size_t records = simulation_records (simulation, lost);
            simulation_lose (simulation, lost);
            int back = -1;
            simulated_return_t how = { .records = records, .run = s_run };
            if (simulation_return (simulation, lost, &how, &back) == BROKER_RETURN_REFUSED) {
                s_assert_refused (simulation, "busy", "");
                busy++;
                s_pass (simulation, 1 * MS);
                //  Nothing else stands in its way.
                s_pass (simulation, 3 * MS);
                assert_int_equal (simulation_return (simulation, lost, &how, &back), BROKER_RETURN_READY);
            }
            s_run_whole (simulation);
            s_assert_whole (simulation, &s_job);
            simulation_destroy (&simulation);
        }
    assert_true (busy > 10);
}

//  Must hold: so before it took its ring, and when it comes back and is lost before it takes that one.
static void
test_a_rank_is_lost_before_it_takes_its_ring (void **state)
{
    (void) state;
    for (int lost = 0; lost < WORLD; lost++) {
        simulation_options_t options = s_options (test_seed ());
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job;
        job.detached = true;
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_lose (simulation, lost);
        for (int rank = 0; rank < WORLD; rank++)
            simulation_attach (simulation, rank);
        s_pass (simulation, SECOND_US);
        assert_int_equal (simulation_records_sent (simulation, 0), 0);
        int back = -1;
        simulated_return_t how = { .run = s_run, .detached = true };
        assert_int_equal (simulation_return (simulation, lost, &how, &back), BROKER_RETURN_READY);
        s_pass (simulation, SECOND_US);
        assert_int_equal (simulation_records_sent (simulation, 0), 0);
        simulation_lose (simulation, back);
        s_pass (simulation, SECOND_US);
        s_return (simulation, back, 0);
        s_run_whole (simulation);
        s_assert_whole (simulation, &job);
        simulation_destroy (&simulation);
    }
}

//  Must hold: where all are lost nobody is waited for, and nothing is left.
static void
test_all_are_lost (void **state)
{
    (void) state;
    simulation_t *simulation = s_begun (&s_job, test_seed (), 4);
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal (broker_jobs (simulation_broker (simulation)), 1);
        simulation_lose (simulation, rank);
        s_pass (simulation, MS);
    }
    assert_int_equal (broker_jobs (simulation_broker (simulation)), 0);
    assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
    int back = -1;
    simulated_return_t how = { .records = 3, .run = s_run };
    assert_int_equal (simulation_return (simulation, 0, &how, &back), BROKER_RETURN_NONE);
    simulation_destroy (&simulation);
}

//  Must hold: an inline rank that is silent for the lease is lost.
static void
test_a_silent_rank_is_lost (void **state)
{
    (void) state;
    simulated_job_t job = s_job;
    job.is_inline = true;
    simulation_t *simulation = s_begun (&job, test_seed (), 4);
    simulation_silence (simulation, 1);
    int64_t since_us = simulation_now_us (simulation);
    simulation_run (simulation, since_us + BROKER_LEASE_MS * MS - SECOND_US);
    const char *message;
    assert_int_equal (simulation_rank_notices (simulation, 0, &message), 0);
    simulation_run (simulation, since_us + BROKER_LEASE_MS * MS + SECOND_US);
    assert_int_equal (simulation_rank_notices (simulation, 0, &message), 1);
    assert_non_null (strstr (message, "rank 1"));
    assert_false (simulation_ended (simulation, 0));
    simulation_run (simulation, since_us + BROKER_LEASE_MS * MS + (WAIT + 1) * SECOND_US);
    s_assert_ended (simulation, 0, "rank_lost", "rank 1");
    s_assert_ended (simulation, 2, "rank_lost", "rank 1");
    simulation_destroy (&simulation);
}

//  ---- leaving

//  Must hold: a rank that leaves before it was sent all ends the job for the others; after that it does not,
//  nor does one that is lost then.
static void
test_a_rank_leaves (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (size_t sent = 0; sent <= all; sent++) {
        simulation_t *simulation = s_begun (&s_job, test_seed (), sent);
        int leaver = (int) (sent % WORLD);
        bool had_all = simulation_records_sent (simulation, 0) == all;
        if (had_all && sent % 2)
            simulation_lose (simulation, leaver);
        else
            simulation_leave (simulation, leaver);
        s_run_whole (simulation);
        char named [24];
        snprintf (named, sizeof named, "rank %d", leaver);
        for (int rank = 0; rank < WORLD; rank++) {
            const char *message;
            assert_int_equal (simulation_rank_notices (simulation, rank, &message), 0);
            if (rank == leaver || had_all)
                assert_false (simulation_ended (simulation, rank));
            else {
                s_assert_ended (simulation, rank, "rank_left", named);
                s_assert_ended (simulation, rank, "rank_left", "'x'");
            }
        }
        if (had_all) {
            for (int rank = 0; rank < WORLD; rank++)
                assert_true (simulation_finished (simulation, rank));
            //  Who has left by itself does not come back.
            int back = -1;
            simulated_return_t how = { .records = all - 1, .run = s_run };
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
        simulation_options_t options = s_options (test_seed ());
        options.copy_us = 500;
        simulation_t *simulation = simulation_new (&options);
        assert_int_equal (simulation_join (simulation, &s_job), 0);
        simulation_run (simulation, at_us);
        int leaver = (int) (at_us / 10 % WORLD), other = (leaver + 1) % WORLD;
        bool had_all = simulation_records_sent (simulation, 0) == all;
        before += !had_all && simulation_records_sent (simulation, 0) + 2 == all;
        simulation_leave (simulation, leaver);
        s_run_whole (simulation);
        if (had_all)
            assert_true (!simulation_ended (simulation, other) && simulation_finished (simulation, other));
        else
            s_assert_ended (simulation, other, "rank_left", "rank");
        simulation_destroy (&simulation);
    }
    assert_true (before > 3);
}

//  Must hold: who was sent all may be gone and come back for what it did not receive; if it is lost then, it
//  is waited for.
static void
test_a_rank_comes_back_at_the_end (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (int again = 0; again < 2; again++) {
        simulation_t *simulation = s_begun (&s_job, test_seed (), all);
        const char *message;
        simulation_lose (simulation, 1);
        s_pass (simulation, 100 * SECOND_US);
        assert_int_equal (simulation_rank_notices (simulation, 0, &message), 0);
        int back = -1;
        simulated_return_t how = { .records = all - 3, .run = s_run, .detached = true };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        simulation_lose (simulation, back);
        s_pass (simulation, SECOND_US);
        assert_int_equal (simulation_rank_notices (simulation, 0, &message), 1);
        if (again)
            s_return (simulation, back, all - 2);
        s_run_whole (simulation);
        if (again)
            s_assert_whole (simulation, &s_job);
        else
            s_assert_ended (simulation, 0, "rank_lost", "rank 1");
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
        simulation_t *simulation = s_begun (&s_job, test_seed (), all);
        int back = -1;
        simulation_lose (simulation, 1);
        s_pass (simulation, MS);
        simulated_return_t how = { .records = all, .run = s_run, .detached = true };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        if (leaves)
            simulation_leave (simulation, back);
        else
            simulation_lose (simulation, back);
        s_pass (simulation, MS);
        s_run_whole (simulation);
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
            simulation_t *simulation = s_begun (&s_job, test_seed (), all);
            int back = -1;
            s_pass (simulation, at_us);
            bool has_taken_all = simulation_consumed (simulation, 1) == all - EPOCHS;
            simulation_lose (simulation, 1);
            simulation_leave (simulation, 0);
            simulation_leave (simulation, 2);
            s_pass (simulation, (WAIT - 1) * SECOND_US);
            assert_int_equal (broker_jobs (simulation_broker (simulation)), !has_taken_all);
            simulated_return_t how = { .records = all - 2, .run = s_run };
            broker_return_t expected = has_taken_all? BROKER_RETURN_NONE: BROKER_RETURN_READY;
            if (comes)
                assert_int_equal (simulation_return (simulation, 1, &how, &back), expected);
            s_pass (simulation, 2 * SECOND_US);
            if (back >= 0) {
                assert_true (simulation_finished (simulation, back)
                    && simulation_is_there (simulation, back));
                simulation_leave (simulation, back);
                s_pass (simulation, MS);
            }
            assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
            simulation_destroy (&simulation);
        }
}

//  Must hold: so one that is lost once more while it is given what it lacks, and nobody else is there any
//  more.
static void
test_the_last_rank_is_lost_again (void **state)
{
    (void) state;
    size_t all = EPOCHS * (SAMPLES / 6 + 1);
    for (int detached = 0; detached < 2; detached++) {
        simulation_t *simulation = s_begun (&s_job, test_seed (), all);
        int back = -1;
        simulation_lose (simulation, 1);
        s_pass (simulation, MS);
        simulated_return_t how = { .records = all - 4, .run = s_run, .detached = detached };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        simulation_leave (simulation, 0);
        simulation_leave (simulation, 2);
        s_pass (simulation, 20);
        assert_false (simulation_finished (simulation, back));
        simulation_lose (simulation, back);
        s_pass (simulation, SECOND_US);
        back = s_return (simulation, back, all - 4);
        s_run_whole (simulation);
        assert_true (simulation_finished (simulation, back) && simulation_is_there (simulation, back));
        simulation_leave (simulation, back);
        s_pass (simulation, MS);
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
        simulated_job_t job = s_job;
        job.rank_wait_seconds = 30;
        simulation_t *simulation = s_begun (&job, test_seed (), 5);
        int back = -1;
        const char *message;
        simulation_lose (simulation, 1);
        s_pass (simulation, MS);
        simulated_return_t how = { .records = simulation_records (simulation, 1), .run = s_run,
            .detached = true };
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        s_pass (simulation, 12 * SECOND_US);
        assert_false (simulation_is_there (simulation, back));
        assert_true (simulation_is_there (simulation, 0));
        if (again) {
            s_return (simulation, back, how.records);
            s_run_whole (simulation);
            s_assert_whole (simulation, &job);
        }
        else {
            s_pass (simulation, 20 * SECOND_US);
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
    simulation_t *simulation = s_begun (&s_job, test_seed (), 4);
    simulation_lose (simulation, 0);
    simulation_lose (simulation, 0);
    s_pass (simulation, SECOND_US);
    simulation_leave (simulation, 2);
    s_pass (simulation, MS);
    s_assert_ended (simulation, 1, "rank_left", "rank 2");
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
        simulation_options_t options = s_options (test_seed ());
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job;
        job.world_size = 1;
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_run (simulation, 3 * MS);
        if (how)
            simulation_lose (simulation, 0);
        else
            simulation_leave (simulation, 0);
        assert_int_equal (broker_jobs (simulation_broker (simulation)), 0);
        s_run_whole (simulation);
        assert_false (simulation_ended (simulation, 0));
        assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
        simulation_destroy (&simulation);
    }
}

//  ---- who comes back

typedef enum { READY, NONE, DIFFERS, TAKEN } comes_t;

static const struct {
    const char *row;
    bool is_lost;
    bool is_itself;             //  the same instance
    const char *run;
    uid_t uid;
    uint32_t world_size, batch_size;
    comes_t outcome;
} s_rows [] = {
    { "lost, with the run", true, false, s_run, 7, WORLD, 2, READY },
    { "lost, the same instance, no run", true, true, NULL, 7, WORLD, 2, READY },
    { "lost, the same instance, with the run", true, true, s_run, 7, WORLD, 2, READY },
    { "lost, a stranger without run", true, false, NULL, 7, WORLD, 2, TAKEN },
    { "lost, another run", true, false, s_other_run, 7, WORLD, 2, TAKEN },
    { "lost, another user", true, true, s_run, 8, WORLD, 2, TAKEN },
    { "lost, other settings", true, true, s_run, 7, WORLD, 3, DIFFERS },
    { "lost, another world size with the run", true, true, s_run, 7, 2, 2, NONE },
    { "there, the same instance", false, true, s_run, 7, WORLD, 2, READY },
    { "there, with the run: the job is started anew", false, false, s_run, 7, WORLD, 2, NONE },
    { "there, a stranger", false, false, NULL, 7, WORLD, 2, TAKEN },
    { "there, a stranger of another world size", false, false, NULL, 7, 2, 2, TAKEN },
    { "there, another user", false, true, s_run, 8, WORLD, 2, TAKEN },
};

static void
s_try_row (size_t row)
{
    simulation_t *simulation = s_begun (&s_job, test_seed (), 6);
    if (s_rows [row].is_lost)
        simulation_lose (simulation, 1);
    s_pass (simulation, 10 * MS);
    int back = -1;
    simulated_job_t job = s_job;
    job.world_size = s_rows [row].world_size;
    job.batch_size = s_rows [row].batch_size;
    job.uid = s_rows [row].uid;
    simulated_return_t how = { .records = simulation_records (simulation, 1), .run = s_rows [row].run,
        .job = &job,
        .instance = s_rows [row].is_itself? NULL: s_stranger };
    broker_return_t answer = simulation_return (simulation, 1, &how, &back);
    if (!s_rows [row].is_lost && s_rows [row].outcome == READY && answer == BROKER_RETURN_REFUSED) {
        s_assert_refused (simulation, "busy", "");          //  its old connection is reclaimed now
        s_pass (simulation, MS);
        answer = simulation_return (simulation, 1, &how, &back);
    }
    static const broker_return_t answers [] = { BROKER_RETURN_READY, BROKER_RETURN_NONE,
        BROKER_RETURN_REFUSED, BROKER_RETURN_REFUSED };
    if (answer != answers [s_rows [row].outcome])
        fail_msg ("%s: %d, %s", s_rows [row].row, (int) answer,
            answer == BROKER_RETURN_REFUSED? simulation_refusal (simulation)->message: "");
    if (s_rows [row].outcome == DIFFERS)
        s_assert_refused (simulation, "ranks_differ", "batch_size");
    if (s_rows [row].outcome == TAKEN)
        s_assert_refused (simulation, "job_taken", "'x'");
    if (answer != BROKER_RETURN_READY && s_rows [row].is_lost)
        s_return (simulation, 1, simulation_records (simulation, 1));
    s_run_whole (simulation);
    s_assert_whole (simulation, &s_job);
    simulation_destroy (&simulation);
}

//  Must hold: who may come back as a rank, and who may not; a refusal costs the job nothing.
static void
test_who_comes_back (void **state)
{
    (void) state;
    for (size_t row = 0; row < sizeof s_rows / sizeof *s_rows; row++) {
        printf ("    %s\n", s_rows [row].row);
        s_try_row (row);
    }
}

//  Must hold: a complete new join of the run ends the old job, whatever its ranks' number; and a plain job
//  and one of ranks may follow each other.
static void
test_a_new_join_of_the_run_fences_the_old_job (void **state)
{
    (void) state;
    for (uint32_t world_size = 1; world_size <= 4; world_size++)
        for (uint32_t other = 1; other <= 4; other++) {
            simulation_options_t options = s_options (test_seed ());
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t job = s_job, later = s_job;
            job.world_size = world_size;
            later.world_size = other;
            assert_int_equal (simulation_join (simulation, &job), 0);
            simulation_run (simulation, 12 * MS);
            if (world_size > 1 && other % 2)
                simulation_lose (simulation, 1);
            simulated_state_t stood;
            simulation_state (simulation, 0, &stood);
            later.state = &stood;
            int first = simulation_join (simulation, &later);
            assert_int_equal (first, world_size);
            s_run_whole (simulation);
            for (int rank = 0; rank < (int) world_size; rank++)
                if (rank == 1 && other % 2)
                    assert_false (simulation_ended (simulation, rank));
                else
                    s_assert_ended (simulation, rank, "fenced", "");
            for (int rank = 0; rank < (int) other; rank++) {
                assert_true (simulation_finished (simulation, first + rank));
                assert_string_equal (job_run (simulation_job (simulation, first + rank)), s_run);
            }
            simulation_state_clear (&stood);
            simulation_destroy (&simulation);
        }
}

//  ---- what has become unreadable

//  Must hold: where samples of what a rank lacks have become unreadable since, it gets the others, or
//  padding, and all go on.
static void
test_what_a_rank_lacks_has_become_unreadable (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (100); round++) {
        uint64_t bad = 0;
        simulation_options_t options = s_options (test_seed () + (uint64_t) round);
        options.readable = simulation_is_readable;
        options.context = &bad;
        options.cache_versions = 3 + test_below (&random, 9);
        simulation_t *simulation = simulation_new (&options);
        assert_int_equal (simulation_join (simulation, &s_job), 0);
        for (size_t records = 4 + test_below (&random, 6); simulation_records_sent (simulation, 0) < records;)
            s_pass (simulation, 100);
        simulation_lose (simulation, 1);
        s_pass (simulation, 20 * MS);
        size_t sent = simulation_records_sent (simulation, 1);
        for (size_t record = sent - 3; record < sent; record++) {
            const broker_record_t *step = simulation_record (simulation, 1, record);
            for (uint64_t index = 0; !step->is_end && index < step->samples; index++)
                if (test_below (&random, 2) && test_below (&random, 2))
                    bad |= 1ull << step->step [WORLD + index];
        }
        s_return (simulation, 1, sent - 3);
        s_run_whole (simulation);
        bool is_over = simulation_ended (simulation, 0);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            int client = simulation_rank (simulation, 0, rank);
            assert_int_equal (simulation_ended (simulation, client), is_over);
            if (is_over)
                s_assert_ended (simulation, client, "unreadable", "");
            else
                assert_true (simulation_finished (simulation, client)
                    && simulation_records (simulation, client)
                        == simulation_records_sent (simulation, client));
        }
        simulation_destroy (&simulation);
    }
}

static int64_t
s_a_millisecond (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return MS;
}

//  Another job's samples take the place of all others in the cache.
static void
s_fill_cache (simulation_t *simulation, uint32_t from)
{
    simulated_job_t churn = { .batch_size = 5, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_PRIVATE,
        .from = from,
        .to = SAMPLES };
    int client = simulation_join (simulation, &churn);
    assert_true (client >= 0);
    s_pass (simulation, SECOND_US);
    assert_true (simulation_finished (simulation, client));
    simulation_leave (simulation, client);
}

//  Must hold: where all that is left of an epoch turns out unreadable while a rank is missing, the epoch ends
//  when it is back.
static void
test_an_epoch_ends_while_a_rank_is_missing (void **state)
{
    (void) state;
    for (int kind = 0; kind < 2; kind++) {
        uint64_t bad = 0;
        simulation_options_t options = s_options (test_seed ());
        options.readable = simulation_is_readable;
        options.context = &bad;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job,
            list = { .batch_size = 7, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_LIST };
        job.order = kind? SAMPLER_ORDER_LIST: SAMPLER_ORDER_SHARED;
        assert_int_equal (simulation_join (simulation, &job), 0);
        s_pass (simulation, 3 * MS);
        for (int rank = 0; rank < WORLD; rank++)
            simulation_stop (simulation, rank);
        s_pass (simulation, 100 * MS);
        bad = (1ull << SAMPLES) - 1;
        size_t sent = simulation_records_sent (simulation, 0);
        for (size_t record = 0; record < sent; record++)
            for (uint64_t index = 0; index < simulation_record (simulation, 0, record)->samples; index++)
                bad &= ~(1ull << simulation_record (simulation, 0, record)->step [WORLD + index]);
        simulation_lose (simulation, 1);
        assert_true (simulation_join (simulation, &list) > 0);
        s_pass (simulation, SECOND_US);
        assert_int_equal (simulation_records_sent (simulation, 0), sent);
        for (int rank = 0; rank < WORLD; rank++)
            simulation_continue (simulation, rank);
        s_return (simulation, 1, sent);
        s_run_whole (simulation);
        //  The same steps again, and an end behind each epoch's.
        assert_int_equal (simulation_records_sent (simulation, 0), 2 * (sent + 1));
        assert_true (simulation_record (simulation, 0, sent)->is_end);
        for (uint32_t rank = 0; rank < WORLD; rank++)
            assert_true (simulation_finished (simulation, simulation_rank (simulation, 0, rank)));
        simulation_destroy (&simulation);
    }
}

//  Must hold: where the sample of a padding leaves the step, because the rank that it is of was lost and it
//  can't be read for it any more, the padding becomes one of another.
static void
test_the_sample_of_a_padding_is_lost (void **state)
{
    (void) state;
    for (int64_t at_us = 0; at_us < 12 * MS; at_us += 200) {
        uint64_t bad = 1 << 1;
        simulation_options_t options = s_options (test_seed ());
        options.readable = simulation_is_readable;
        options.context = &bad;
        options.cost_us = s_a_millisecond;
        options.copy_us = 2 * MS;
        options.workers = 3;
        options.cache_versions = 4;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job;
        job.batch_size = 1;
        job.order = SAMPLER_ORDER_LIST;
        job.to = 3;
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_run (simulation, at_us);
        simulation_lose (simulation, 0);
        s_pass (simulation, 10 * MS);
        s_fill_cache (simulation, 3);
        bad |= 1;
        s_return (simulation, 0, simulation_records (simulation, 0));
        s_run_whole (simulation);
        for (uint32_t rank = 0; rank < WORLD; rank++)
            assert_true (simulation_finished (simulation, simulation_rank (simulation, 0, rank)));
        simulation_destroy (&simulation);
    }
}

//  Must hold: a job that ends because a step can't be read any more, for several of its ranks at once, leaves
//  alone who else waits for that sample.
static void
test_others_wait_for_the_sample_that_ends_a_job (void **state)
{
    (void) state;
    uint64_t bad = 0;
    simulation_options_t options = s_options (test_seed ());
    options.readable = simulation_is_readable;
    options.context = &bad;
    options.cost_us = s_a_millisecond;
    simulated_job_t job = s_job, plain = { .batch_size = 3, .slots = 3, .epochs = 1, .to = 3 };
    job.batch_size = 1;
    job.to = 2;                                 //  of two samples two ranks get padding
    job.world_size = 4;
    job.pipeline = plain.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";
    job.epochs = 3;
    simulation_t *before = simulation_new (&options);
    assert_int_equal (simulation_join (before, &job), 0);
    s_run_whole (before);
    bad = 3;
    simulation_t *simulation = simulation_new (&options);
    simulated_standing_t standing = { .simulation = before, .records = (size_t []) { 4, 4, 2, 2 },
        .recent_count = 2 };
    job.standing = &standing;
    assert_int_equal (simulation_join (simulation, &plain), 0);
    s_pass (simulation, 100);
    assert_int_equal (simulation_join (simulation, &job), 1);
    s_pass (simulation, 5 * SECOND_US);
    for (int client = 1; client <= 4; client++)
        s_assert_ended (simulation, client, "unreadable", "");
    assert_true (simulation_finished (simulation, 0));
    assert_int_equal (simulation_epoch (simulation, 0, 0)->count, 1);
    simulation_destroy (&simulation);
    simulation_destroy (&before);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_rank_is_waited_for),
        cmocka_unit_test (test_a_rank_comes_back_at_every_step),
        cmocka_unit_test (test_a_rank_takes_nothing_when_it_is_back),
        cmocka_unit_test (test_nothing_is_sent_while_clients_are_heard),
        cmocka_unit_test (test_several_are_lost),
        cmocka_unit_test (test_a_rank_dies_while_it_is_sent_to),
        cmocka_unit_test (test_a_rank_is_lost_while_its_samples_are_copied),
        cmocka_unit_test (test_a_rank_is_lost_before_it_takes_its_ring),
        cmocka_unit_test (test_all_are_lost),
        cmocka_unit_test (test_a_silent_rank_is_lost),
        cmocka_unit_test (test_a_rank_leaves),
        cmocka_unit_test (test_a_rank_leaves_at_any_time),
        cmocka_unit_test (test_a_rank_comes_back_at_the_end),
        cmocka_unit_test (test_a_rank_with_everything_takes_no_ring),
        cmocka_unit_test (test_the_last_rank_comes_back),
        cmocka_unit_test (test_the_last_rank_is_lost_again),
        cmocka_unit_test (test_a_rank_comes_back_and_takes_no_ring),
        cmocka_unit_test (test_a_rank_leaves_while_another_is_lost),
        cmocka_unit_test (test_a_plain_job_leaves_or_is_lost),
        cmocka_unit_test (test_who_comes_back),
        cmocka_unit_test (test_a_new_join_of_the_run_fences_the_old_job),
        cmocka_unit_test (test_what_a_rank_lacks_has_become_unreadable),
        cmocka_unit_test (test_an_epoch_ends_while_a_rank_is_missing),
        cmocka_unit_test (test_the_sample_of_a_padding_is_lost),
        cmocka_unit_test (test_others_wait_for_the_sample_that_ends_a_job)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

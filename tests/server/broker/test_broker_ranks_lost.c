//  Jobs of several ranks of which one is lost or comes back (docs/protocol.md, Losing a rank).  A rank that
//  leaves or comes back at the end: test_broker_ranks_leaving.c.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "job.h"
#include "ranks_scene.h"
#include "seed.h"

static const char s_other_run [] = "00000000000000000000000000000001",
    s_stranger [] = "ffeeddccbbaa99887766554433221100";

static void
s_assert_refused (const simulation_t *simulation, const char *code, const char *fragment)
{
    const refusal_t *refusal = simulation_refusal (simulation);
    if (strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment, refusal->code, refusal->message);
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
//  for them, by name; with no time it ends at once.
static void
test_a_rank_is_waited_for (void **state)
{
    (void) state;
    for (int lost = 0; lost < WORLD; lost++)
        for (uint32_t wait = 0; wait <= WAIT; wait += WAIT) {
            simulated_job_t job = ranks_scene_job;
            job.rank_wait_seconds = wait;
            simulation_t *simulation = ranks_scene_begun (&job, test_seed () + wait, 5);
            char named [24];
            snprintf (named, sizeof named, "rank %d", lost);
            simulation_lose (simulation, lost);
            ranks_scene_pass (simulation, 0);
            if (wait) {
                ranks_scene_pass (simulation, SECOND_US);
                uint64_t prepared = simulation_prepared (simulation),
                    sent = simulation_records_sent (simulation, 0);
                ranks_scene_pass (simulation, 8900 * MS);
                assert_int_equal (simulation_prepared (simulation), prepared);
                assert_int_equal (simulation_records_sent (simulation, 0), sent);
                for (int rank = 0; rank < WORLD; rank++) {
                    const char *message;
                    assert_false (simulation_ended (simulation, rank));
                    assert_int_equal (simulation_rank_notices (simulation, rank, &message), rank != lost);
                    if (rank != lost)
                        assert_true (strstr (message, named) && strstr (message, "10 s"));
                }
                ranks_scene_pass (simulation, 200 * MS);
            }
            for (int rank = 0; rank < WORLD; rank++)
                if (rank != lost) {
                    ranks_scene_assert_ended (simulation, rank, "rank_lost", named);
                    ranks_scene_assert_ended (simulation, rank, "rank_lost", "'x'");
                }
            assert_false (simulation_ended (simulation, lost));
            ranks_scene_pass (simulation, MS);
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
            simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed () + lag, sent);
            simulation_lose (simulation, lost);
            size_t records = simulation_records (simulation, lost) - lag;
            ranks_scene_pass (simulation, 20 * MS);
            size_t behind = s_steps_behind (simulation, lost, records);
            simulated_return_t how = { .records = records, .run = ranks_scene_run, .is_inline = sent % 2 };
            broker_return_t answer = simulation_return (simulation, lost, &how, &back);
            bool was_all = simulation_records_sent (simulation, 0) == all;
            if (was_all && answer != BROKER_RETURN_READY)
                ;                               //  it had got all, and so has left
            else
            if (answer == BROKER_RETURN_READY) {
                assert_true (behind <= SLOTS + 2);
                simulation_run (simulation, 300 * SECOND_US);
                ranks_scene_assert_whole (simulation, &ranks_scene_job);
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
            simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), 7);
            simulation_stop (simulation, 1);
            ranks_scene_pass (simulation, SECOND_US);
            size_t records = simulation_records_sent (simulation, 0) - lag;
            simulation_lose (simulation, 1);
            ranks_scene_pass (simulation, MS);
            size_t lacks = s_steps_behind (simulation, 1, records);
            int back = ranks_scene_return (simulation, 1, records);
            simulation_stop (simulation, back);
            ranks_scene_pass (simulation, SECOND_US);
            assert_true (s_steps_behind (simulation, back, records) <= (lacks > SLOTS? lacks: SLOTS));
            if (twice) {
                simulation_lose (simulation, back);
                ranks_scene_pass (simulation, MS);
                ranks_scene_return (simulation, back, records);
            }
            else
                simulation_continue (simulation, back);
            ranks_scene_run_whole (simulation);
            ranks_scene_assert_whole (simulation, &ranks_scene_job);
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
        simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), 7);
        simulation_stop (simulation, 1);
        ranks_scene_pass (simulation, SECOND_US);
        size_t records = simulation_records_sent (simulation, 0) - lag;
        simulation_lose (simulation, 1);
        ranks_scene_pass (simulation, MS);
        int back = ranks_scene_return (simulation, 1, records);
        simulation_stop (simulation, back);
        ranks_scene_pass (simulation, SECOND_US);
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
        simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed () + (uint64_t) round,
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
                ranks_scene_pass (simulation, MS);
                size_t records = simulation_records (simulation, client), lag = test_below (&random, 3);
                if (lag > records || s_steps_behind (simulation, client, records - lag) > SLOTS + 1)
                    lag = 0;
                ranks_scene_return (simulation, client, records - lag);
            }
            ranks_scene_pass (simulation, (int64_t) test_below (&random, 3000));
        }
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            int client = simulation_rank (simulation, 0, rank);
            if (!simulation_is_there (simulation, client) && !simulation_finished (simulation, client)) {
                ranks_scene_pass (simulation, MS);
                ranks_scene_return (simulation, client, simulation_records (simulation, client));
            }
        }
        ranks_scene_run_whole (simulation);
        ranks_scene_assert_whole (simulation, &ranks_scene_job);
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
            simulation_options_t options = ranks_scene_options (test_seed ());
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t job = ranks_scene_job;
            job.rank_wait_seconds = wait;
            assert_int_equal (simulation_join (simulation, &job), 0);
            simulation_run (simulation, at_us);
            int dead = (int) (at_us / 700 % WORLD);
            simulation_dies_at_send (simulation, dead);
            ranks_scene_pass (simulation, 20 * MS);
            bool was_lost = !simulation_is_there (simulation, dead);
            if (was_lost && wait)
                ranks_scene_return (simulation, dead, simulation_records (simulation, dead));
            ranks_scene_run_whole (simulation);
            bool had_all = simulation_records_sent (simulation, 0) == EPOCHS * (SAMPLES / 6 + 1);
            if (was_lost && !wait && !had_all)
                ranks_scene_assert_ended (simulation, (dead + 1) % WORLD, "rank_lost", "rank");
            else
            if (!was_lost || wait)
                ranks_scene_assert_whole (simulation, &job);
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
            simulation_options_t options = ranks_scene_options (test_seed ());
            options.copy_us = 3 * MS;
            simulation_t *simulation = simulation_new (&options);
            assert_int_equal (simulation_join (simulation, &ranks_scene_job), 0);
            simulation_run (simulation, at_us);
            size_t records = simulation_records (simulation, lost);
            simulation_lose (simulation, lost);
            int back = -1;
            simulated_return_t how = { .records = records, .run = ranks_scene_run };
            if (simulation_return (simulation, lost, &how, &back) == BROKER_RETURN_REFUSED) {
                char words [60];
                snprintf (words, sizeof words, "what rank %d of job '", lost);
                s_assert_refused (simulation, "busy", words);
                busy++;
                ranks_scene_pass (simulation, 1 * MS);
                //  Nothing else stands in its way.
                ranks_scene_pass (simulation, 3 * MS);
                assert_int_equal (simulation_return (simulation, lost, &how, &back), BROKER_RETURN_READY);
            }
            ranks_scene_run_whole (simulation);
            ranks_scene_assert_whole (simulation, &ranks_scene_job);
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
        simulation_options_t options = ranks_scene_options (test_seed ());
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = ranks_scene_job;
        job.detached = true;
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_lose (simulation, lost);
        for (int rank = 0; rank < WORLD; rank++)
            simulation_attach (simulation, rank);
        ranks_scene_pass (simulation, SECOND_US);
        assert_int_equal (simulation_records_sent (simulation, 0), 0);
        int back = -1;
        simulated_return_t how = { .run = ranks_scene_run, .detached = true };
        assert_int_equal (simulation_return (simulation, lost, &how, &back), BROKER_RETURN_READY);
        ranks_scene_pass (simulation, SECOND_US);
        assert_int_equal (simulation_records_sent (simulation, 0), 0);
        simulation_lose (simulation, back);
        ranks_scene_pass (simulation, SECOND_US);
        ranks_scene_return (simulation, back, 0);
        ranks_scene_run_whole (simulation);
        ranks_scene_assert_whole (simulation, &job);
        simulation_destroy (&simulation);
    }
}

//  Must hold: one that comes back and never takes its ring is lost again, for the rest of its time, and then
//  the job ends, though nothing else happens.
static void
test_a_rank_never_takes_its_ring (void **state)
{
    (void) state;
    simulated_job_t job = ranks_scene_job;
    job.rank_wait_seconds = 30;
    simulation_t *simulation = ranks_scene_begun (&job, test_seed (), 5);
    simulated_return_t how = { .run = ranks_scene_run, .detached = true };
    int back = -1;
    simulation_lose (simulation, 1);
    ranks_scene_pass (simulation, SECOND_US);
    how.records = simulation_records (simulation, 1);
    assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
    ranks_scene_pass (simulation, 28 * SECOND_US);
    assert_false (simulation_ended (simulation, 0));
    ranks_scene_pass (simulation, 2 * SECOND_US);
    for (int rank = 0; rank < WORLD; rank += 2)
        ranks_scene_assert_ended (simulation, rank, "rank_lost", "rank 1");
    simulation_destroy (&simulation);
}

//  Must hold: if all ranks are lost, the job waits for none of them, and nothing is left.
static void
test_all_are_lost (void **state)
{
    (void) state;
    simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), 4);
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), 1);
        simulation_lose (simulation, rank);
        ranks_scene_pass (simulation, MS);
    }
    assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), 0);
    assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
    int back = -1;
    simulated_return_t how = { .records = 3, .run = ranks_scene_run };
    assert_int_equal (simulation_return (simulation, 0, &how, &back), BROKER_RETURN_NONE);
    simulation_destroy (&simulation);
}

//  Must hold: an inline rank that is silent for the lease is lost.
static void
test_a_silent_rank_is_lost (void **state)
{
    (void) state;
    simulated_job_t job = ranks_scene_job;
    job.is_inline = true;
    simulation_t *simulation = ranks_scene_begun (&job, test_seed (), 4);
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
    ranks_scene_assert_ended (simulation, 0, "rank_lost", "rank 1 of job 'x' has been gone for 10 seconds");
    ranks_scene_assert_ended (simulation, 2, "rank_lost", "rank 1");
    simulation_destroy (&simulation);
}

//  ---- clients that come back

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
    { "lost, with the run", true, false, ranks_scene_run, 7, WORLD, 2, READY },
    { "lost, the same instance, no run", true, true, NULL, 7, WORLD, 2, READY },
    { "lost, the same instance, with the run", true, true, ranks_scene_run, 7, WORLD, 2, READY },
    { "lost, a stranger without run", true, false, NULL, 7, WORLD, 2, TAKEN },
    { "lost, another run", true, false, s_other_run, 7, WORLD, 2, TAKEN },
    { "lost, another user", true, true, ranks_scene_run, 8, WORLD, 2, TAKEN },
    { "lost, other settings", true, true, ranks_scene_run, 7, WORLD, 3, DIFFERS },
    { "lost, another world size with the run", true, true, ranks_scene_run, 7, 2, 2, NONE },
    { "there, the same instance", false, true, ranks_scene_run, 7, WORLD, 2, READY },
    { "there, with the run: the job is started anew", false, false, ranks_scene_run, 7, WORLD, 2, NONE },
    { "there, a stranger", false, false, NULL, 7, WORLD, 2, TAKEN },
    { "there, a stranger of another world size", false, false, NULL, 7, 2, 2, TAKEN },
    { "there, another user", false, true, ranks_scene_run, 8, WORLD, 2, TAKEN },
};

static void
s_try_row (size_t row)
{
    simulation_t *simulation = ranks_scene_begun (&ranks_scene_job, test_seed (), 6);
    if (s_rows [row].is_lost)
        simulation_lose (simulation, 1);
    ranks_scene_pass (simulation, 10 * MS);
    int back = -1;
    simulated_job_t job = ranks_scene_job;
    job.world_size = s_rows [row].world_size;
    job.batch_size = s_rows [row].batch_size;
    job.uid = s_rows [row].uid;
    simulated_return_t how = { .records = simulation_records (simulation, 1), .run = s_rows [row].run,
        .job = &job,
        .instance = s_rows [row].is_itself? NULL: s_stranger };
    broker_return_t answer = simulation_return (simulation, 1, &how, &back);
    if (!s_rows [row].is_lost && s_rows [row].outcome == READY && answer == BROKER_RETURN_REFUSED) {
        s_assert_refused (simulation, "busy", "what rank 1 of job");  //  its old connection is reclaimed now
        ranks_scene_pass (simulation, MS);
        answer = simulation_return (simulation, 1, &how, &back);
    }
    static const broker_return_t answers [] = { BROKER_RETURN_READY, BROKER_RETURN_NONE,
        BROKER_RETURN_REFUSED, BROKER_RETURN_REFUSED };
    if (answer != answers [s_rows [row].outcome])
        fail_msg ("%s: %d, %s", s_rows [row].row, (int) answer,
            answer == BROKER_RETURN_REFUSED? simulation_refusal (simulation)->message: "");
    if (s_rows [row].outcome == DIFFERS)
        s_assert_refused (simulation, "ranks_differ", "batch_size");
    bool is_stranger = !s_rows [row].is_lost && s_rows [row].world_size == WORLD && s_rows [row].uid == 7;
    if (s_rows [row].outcome == TAKEN)
        s_assert_refused (simulation, "job_taken",
            is_stranger? "rank 1 of job 'x' is there already (joined 0 seconds ago)": "'x'");
    if (answer != BROKER_RETURN_READY && s_rows [row].is_lost)
        ranks_scene_return (simulation, 1, simulation_records (simulation, 1));
    ranks_scene_run_whole (simulation);
    ranks_scene_assert_whole (simulation, &ranks_scene_job);
    simulation_destroy (&simulation);
}

//  Must hold: which clients may come back as a rank, and which may not; a refusal costs the job nothing.
static void
test_clients_that_come_back (void **state)
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
            simulation_options_t options = ranks_scene_options (test_seed ());
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t job = ranks_scene_job, later = ranks_scene_job;
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
            ranks_scene_run_whole (simulation);
            for (int rank = 0; rank < (int) world_size; rank++)
                if (rank == 1 && other % 2)
                    assert_false (simulation_ended (simulation, rank));
                else
                    ranks_scene_assert_ended (simulation, rank, "fenced", "");
            for (int rank = 0; rank < (int) other; rank++) {
                assert_true (simulation_finished (simulation, first + rank));
                assert_string_equal (job_run (simulation_job (simulation, first + rank)), ranks_scene_run);
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
        simulation_options_t options = ranks_scene_options (test_seed () + (uint64_t) round);
        options.readable = simulation_is_readable;
        options.context = &bad;
        options.cache_versions = 3 + test_below (&random, 9);
        simulation_t *simulation = simulation_new (&options);
        assert_int_equal (simulation_join (simulation, &ranks_scene_job), 0);
        for (size_t records = 4 + test_below (&random, 6); simulation_records_sent (simulation, 0) < records;)
            ranks_scene_pass (simulation, 100);
        simulation_lose (simulation, 1);
        ranks_scene_pass (simulation, 20 * MS);
        size_t sent = simulation_records_sent (simulation, 1);
        for (size_t record = sent - 3; record < sent; record++) {
            const broker_record_t *step = simulation_record (simulation, 1, record);
            for (uint64_t index = 0; !step->is_end && index < step->samples; index++)
                if (test_below (&random, 2) && test_below (&random, 2))
                    bad |= 1ull << step->step [WORLD + index];
        }
        ranks_scene_return (simulation, 1, sent - 3);
        ranks_scene_run_whole (simulation);
        bool is_over = simulation_ended (simulation, 0);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            int client = simulation_rank (simulation, 0, rank);
            assert_int_equal (simulation_ended (simulation, client), is_over);
            if (is_over)
                ranks_scene_assert_ended (simulation, client, "unreadable", "");
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
    ranks_scene_pass (simulation, SECOND_US);
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
        simulation_options_t options = ranks_scene_options (test_seed ());
        options.readable = simulation_is_readable;
        options.context = &bad;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = ranks_scene_job,
            list = { .batch_size = 7, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_LIST };
        job.order = kind? SAMPLER_ORDER_LIST: SAMPLER_ORDER_SHARED;
        assert_int_equal (simulation_join (simulation, &job), 0);
        ranks_scene_pass (simulation, 3 * MS);
        for (int rank = 0; rank < WORLD; rank++)
            simulation_stop (simulation, rank);
        ranks_scene_pass (simulation, 100 * MS);
        bad = (1ull << SAMPLES) - 1;
        size_t sent = simulation_records_sent (simulation, 0);
        for (size_t record = 0; record < sent; record++)
            for (uint64_t index = 0; index < simulation_record (simulation, 0, record)->samples; index++)
                bad &= ~(1ull << simulation_record (simulation, 0, record)->step [WORLD + index]);
        simulation_lose (simulation, 1);
        assert_true (simulation_join (simulation, &list) > 0);
        ranks_scene_pass (simulation, SECOND_US);
        assert_int_equal (simulation_records_sent (simulation, 0), sent);
        for (int rank = 0; rank < WORLD; rank++)
            simulation_continue (simulation, rank);
        ranks_scene_return (simulation, 1, sent);
        ranks_scene_run_whole (simulation);
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
        simulation_options_t options = ranks_scene_options (test_seed ());
        options.readable = simulation_is_readable;
        options.context = &bad;
        options.cost_us = s_a_millisecond;
        options.copy_us = 2 * MS;
        options.workers = 3;
        options.cache_versions = 4;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = ranks_scene_job;
        job.batch_size = 1;
        job.order = SAMPLER_ORDER_LIST;
        job.to = 3;
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_run (simulation, at_us);
        simulation_lose (simulation, 0);
        ranks_scene_pass (simulation, 10 * MS);
        s_fill_cache (simulation, 3);
        bad |= 1;
        ranks_scene_return (simulation, 0, simulation_records (simulation, 0));
        ranks_scene_run_whole (simulation);
        for (uint32_t rank = 0; rank < WORLD; rank++)
            assert_true (simulation_finished (simulation, simulation_rank (simulation, 0, rank)));
        simulation_destroy (&simulation);
    }
}

//  Must hold: a job that ends because a step can't be read any more, for several of its ranks at once, does
//  not disturb other jobs that wait for that sample.
static void
test_others_wait_for_the_sample_that_ends_a_job (void **state)
{
    (void) state;
    uint64_t bad = 0;
    simulation_options_t options = ranks_scene_options (test_seed ());
    options.readable = simulation_is_readable;
    options.context = &bad;
    options.cost_us = s_a_millisecond;
    simulated_job_t job = ranks_scene_job, plain = { .batch_size = 3, .slots = 3, .epochs = 1, .to = 3 };
    job.batch_size = 1;
    job.to = 2;                                 //  of two samples two ranks get padding
    job.world_size = 4;
    job.pipeline = plain.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";
    job.epochs = 3;
    simulation_t *before = simulation_new (&options);
    assert_int_equal (simulation_join (before, &job), 0);
    ranks_scene_run_whole (before);
    bad = 3;
    simulation_t *simulation = simulation_new (&options);
    simulated_standing_t standing = { .simulation = before, .records = (size_t []) { 4, 4, 2, 2 },
        .recent_count = 2 };
    job.standing = &standing;
    assert_int_equal (simulation_join (simulation, &plain), 0);
    ranks_scene_pass (simulation, 100);
    assert_int_equal (simulation_join (simulation, &job), 1);
    ranks_scene_pass (simulation, 5 * SECOND_US);
    for (int client = 1; client <= 4; client++)
        ranks_scene_assert_ended (simulation, client, "unreadable", "");
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
        cmocka_unit_test (test_a_rank_never_takes_its_ring),
        cmocka_unit_test (test_all_are_lost),
        cmocka_unit_test (test_a_silent_rank_is_lost),
        cmocka_unit_test (test_clients_that_come_back),
        cmocka_unit_test (test_a_new_join_of_the_run_fences_the_old_job),
        cmocka_unit_test (test_what_a_rank_lacks_has_become_unreadable),
        cmocka_unit_test (test_an_epoch_ends_while_a_rank_is_missing),
        cmocka_unit_test (test_the_sample_of_a_padding_is_lost),
        cmocka_unit_test (test_others_wait_for_the_sample_that_ends_a_job)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

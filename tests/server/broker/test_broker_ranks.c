//  Jobs of several ranks (docs/protocol.md, Ranks): how steps are dealt, padding, memory.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "explain.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES_MAX = 40, BATCH_MAX = 5, WORLD_MAX = 5, EPOCHS = 2 };

static sampler_policy_t s_dsa = SAMPLER_POLICY_DSA, s_follow = SAMPLER_POLICY_FOLLOW;

static simulation_options_t
s_options (void **state, uint32_t samples)
{
    const sampler_policy_t *policy = *state;
    return (simulation_options_t) { .policy = policy? *policy: SAMPLER_POLICY_FOLLOW, .seed = test_seed (),
        .samples = samples,
        .cache_versions = 12, .workers = 2, .check = true };
}

//  A list in which ids come several times.
static const uint32_t *
s_list (uint32_t count)
{
    static uint32_t list [SAMPLES_MAX];
    for (uint32_t place = 0; place < count; place++)
        list [place] = place * 5 % (count / 2 + 1);
    return list;
}

enum { SHARED, PRIVATE, ASCENDING, GIVEN, SEEDED, KINDS };

static simulated_job_t
s_job (int kind, uint32_t samples, uint32_t batch_size, uint32_t world_size)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE,
        SAMPLER_ORDER_LIST, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED };
    return (simulated_job_t) { .batch_size = batch_size, .world_size = world_size, .slots = 3,
        .epochs = EPOCHS,
        .order = orders [kind], .seed = 42, .list = kind == GIVEN? s_list (samples): NULL,
        .list_count = kind == GIVEN? samples: 0, .to = kind == GIVEN? 0: samples, .rank_wait_seconds = 10 };
}

static void
s_run_whole (simulation_t *simulation)
{
    if (!simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US))
        fail_msg ("it hangs");
}

//  ---- dealing

//  What the rank must have got of an undisturbed job.  The simulation has checked that each step has the form
//  that the protocol says, and that each rank got its part of it.
static void
s_assert_dealt (const simulation_t *simulation, int client, uint32_t rank, const simulated_job_t *job,
    uint32_t samples)
{
    uint32_t step = job->batch_size * job->world_size, rest = job->drop_last? 0: samples % step;
    uint32_t delivered = job->drop_last? samples / step * step: samples;
    assert_true (simulation_finished (simulation, client));
    for (size_t number = 0; number < EPOCHS; number++) {
        const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
        assert_true (epoch->ended);
        assert_int_equal (epoch->batches, samples / step + (rest > 0));
        assert_int_equal (epoch->count, delivered);         //  none twice was checked on arrival
        assert_int_equal (epoch->told_samples, delivered);
        if (job->list)
            assert_memory_equal (epoch->ids, job->list, delivered * sizeof *job->list);
        for (uint32_t index = 0; job->order == SAMPLER_ORDER_LIST && !job->list && index < delivered; index++)
            assert_int_equal (epoch->ids [index], index);
    }
    if (job->world_size > 1)
        assert_int_equal (simulation_paddings (simulation, client), rest > 0 && rank >= rest? EPOCHS: 0);
}

static void
s_deal (void **state, const simulated_job_t *job, uint32_t samples)
{
    simulation_options_t options = s_options (state, samples);
    options.check = samples % 5 == 1;
    simulation_t *simulation = simulation_new (&options);
    int first = simulation_join (simulation, job);
    if (job->drop_last && samples < job->batch_size * job->world_size) {
        assert_int_equal (first, -1);
        assert_string_equal (simulation_refusal (simulation)->code, "bad_request");
    }
    else {
        assert_int_equal (first, 0);
        s_run_whole (simulation);
        for (uint32_t rank = 0; rank < job->world_size; rank++)
            s_assert_dealt (simulation, (int) rank, rank, job, samples);
        //  What drop_last leaves out isn't even drawn.
        if (job->drop_last)
            assert_true (simulation_prepared (simulation) <= simulation_delivered (simulation));
    }
    simulation_destroy (&simulation);
}

//  Must hold: for each number of samples, batch size, world size and order, with and without drop_last: all
//  ranks get equally many batches, each sample once an epoch, full steps batch by batch in turn, the last one
//  spread evenly, padding where none is left.
static void
test_steps_are_dealt_evenly (void **state)
{
    static const int kinds [] = { SHARED, GIVEN, ASCENDING, SEEDED };
    uint32_t turn = 0;
    for (uint32_t samples = 1; samples <= SAMPLES_MAX; samples++)
        for (uint32_t batch_size = 1; batch_size <= BATCH_MAX; batch_size++)
            for (uint32_t world_size = 1; world_size <= WORLD_MAX; world_size++)
                for (int variant = 0; variant < 8; variant++) {
                    simulated_job_t job = s_job (kinds [variant % 4], samples, batch_size, world_size);
                    job.drop_last = variant >= 4;
                    if (turn++ % (EFFORT (10) == 10? 1: 13) == 0)
                        s_deal (state, &job, samples);
                }
}

//  Must hold: the order of a seeded or a listed job is that of a plain job, of which batch b goes to rank b
//  mod world size.
static void
test_an_order_is_the_same_for_all_world_sizes (void **state)
{
    enum { SAMPLES = 37, BATCH = 3 };
    for (int kind = ASCENDING; kind < KINDS; kind++)
        for (uint32_t world_size = 2; world_size <= WORLD_MAX; world_size++) {
            simulation_options_t options = s_options (state, SAMPLES);
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t plain = s_job (kind, SAMPLES, BATCH, 1),
                ranks = s_job (kind, SAMPLES, BATCH, world_size);
            assert_int_equal (simulation_join (simulation, &plain), 0);
            assert_int_equal (simulation_join (simulation, &ranks), 1);
            s_run_whole (simulation);
            for (size_t number = 0; number < EPOCHS; number++) {
                const seen_epoch_t *one = simulation_epoch (simulation, 0, number),
                    *other = simulation_epoch (simulation, 1, number);
                assert_int_equal (one->count, SAMPLES);
                assert_int_equal (other->count, SAMPLES);
                assert_memory_equal (one->ids, other->ids, SAMPLES * sizeof *one->ids);
            }
            for (uint32_t batch = 0; batch < SAMPLES / (BATCH * world_size) * world_size; batch++) {
                const uint64_t *step = simulation_record (simulation, 1, batch / world_size)->step;
                for (uint32_t row = 0; row < BATCH; row++)
                    assert_int_equal (step [world_size + batch % world_size * BATCH + row],
                        simulation_epoch (simulation, 0, 0)->ids [batch * BATCH + row]);
            }
            simulation_destroy (&simulation);
        }
}

//  Must hold: the pace is that of the slowest, and no rank is ahead of it by more than its ring.
static void
test_the_slowest_rank_holds_the_others (void **state)
{
    enum { SAMPLES = 40 };
    for (uint32_t slow = 0; slow < 3; slow++) {
        int64_t paces [3] = { 10, 10, 10 };
        paces [slow] = 10000;
        simulation_options_t options = s_options (state, SAMPLES);
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (SHARED, SAMPLES, 2, 3);
        job.rank_us = paces;
        assert_int_equal (simulation_join (simulation, &job), 0);
        bool idle = false;
        for (int64_t now_us = 0; !idle; now_us += 3000) {
            idle = simulation_run (simulation, now_us);
            uint64_t behind = simulation_consumed (simulation, (int) slow);
            for (int rank = 0; rank < 3; rank++)
                assert_true (simulation_consumed (simulation, rank) <= behind + job.slots);
        }
        for (int rank = 0; rank < 3; rank++)
            assert_true (simulation_finished (simulation, rank));
        simulation_destroy (&simulation);
    }
}

//  Must hold: what one rank's user keeps holds up no other rank: the rings together are full of kept batches
//  of different steps, and each of them has room.
static void
test_each_rank_keeps_batches_of_its_own (void **state)
{
    static const struct { uint32_t slots, world_size, kept; } cases [] = {
        { 4, 2, 2 }, { 4, 4, 1 }, { 3, 3, 2 }, { 3, 5, 1 }, { 8, 3, 6 } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        for (int kind = 0; kind < KINDS; kind++) {
            simulation_options_t options = s_options (state, SAMPLES_MAX);
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t job = s_job (kind, SAMPLES_MAX, 1, cases [index].world_size);
            job.slots = cases [index].slots;
            job.kept_for_ever = cases [index].kept;
            assert_int_equal (simulation_join (simulation, &job), 0);
            s_run_whole (simulation);
            for (uint32_t rank = 0; rank < job.world_size; rank++)
                s_assert_dealt (simulation, (int) rank, rank, &job, SAMPLES_MAX);
            simulation_destroy (&simulation);
        }
}

//  Must hold: nothing is sent before each rank has its ring, and one that never takes it ends the job for
//  all, by name.
static void
test_all_ranks_are_waited_for (void **state)
{
    enum { SAMPLES = 30 };
    for (int late = 0; late < 3; late++)
        for (int never = 0; never < 2; never++) {
            simulation_options_t options = s_options (state, SAMPLES);
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t job = s_job (late, SAMPLES, 2, 3);
            job.detached = true;
            assert_int_equal (simulation_join (simulation, &job), 0);
            for (int rank = 0; rank < 3; rank++)
                if (rank != late)
                    simulation_attach (simulation, rank);
            simulation_run (simulation, 9 * SECOND_US);
            assert_int_equal (simulation_records_sent (simulation, 0), 0);
            if (!never)
                simulation_attach (simulation, late);
            simulation_run (simulation, 60 * SECOND_US);
            for (int rank = 0; rank < 3; rank++) {
                const char *message, *reason = simulation_reason (simulation, rank, &message);
                char named [20];
                snprintf (named, sizeof named, "rank %d", late);
                assert_int_equal (simulation_finished (simulation, rank), !never);
                assert_int_equal (reason != NULL, never);
                if (reason) {
                    assert_string_equal (reason, "transport");
                    assert_non_null (strstr (message, named));
                }
            }
            simulation_destroy (&simulation);
        }
}

//  Must hold: ranks by ring and as frames get the same.
static void
test_ranks_as_frames (void **state)
{
    enum { SAMPLES = 33 };
    simulation_options_t options = s_options (state, SAMPLES);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, SAMPLES, 4, 3);
    job.is_inline = true;
    job.sample_us = SECOND_US;
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 300 * SECOND_US);
    for (int rank = 0; rank < 3; rank++)
        assert_true (simulation_finished (simulation, rank));
    simulation_destroy (&simulation);
}

//  ---- padding and samples that cannot be read

//  A listed job keeps its holes, so what each rank must get is plain.
static void
s_assert_holes (const simulation_t *simulation, const uint64_t *bad, uint32_t samples, uint32_t batch_size,
    uint32_t world_size)
{
    uint32_t step_size = batch_size * world_size, expected = 0, paddings [WORLD_MAX] = { 0 };
    for (uint32_t begin = 0; begin < samples; begin += step_size) {
        uint32_t planned = samples - begin < step_size? samples - begin: step_size, id = begin, filled = 0;
        uint32_t counts [WORLD_MAX] = { 0 };
        for (uint32_t rank = 0; rank < world_size; rank++)
            for (uint32_t row = 0; row < planned / world_size + (rank < planned % world_size); row++)
                counts [rank] += simulation_is_readable ((void *) (uintptr_t) bad, id++);
        for (uint32_t rank = 0; rank < world_size; rank++)
            filled += counts [rank];
        if (filled == 0)
            continue;                                       //  no step at all
        const broker_record_t *record = simulation_record (simulation, 0, expected++);
        assert_int_equal (record->samples, filled);
        for (uint32_t rank = 0; rank < world_size; rank++) {
            assert_int_equal (record->step [rank], counts [rank]);
            paddings [rank] += counts [rank] == 0;
        }
    }
    assert_true (simulation_record (simulation, 0, expected)->is_end);
    assert_int_equal (simulation_record (simulation, 0, expected)->index, expected);
    for (uint32_t rank = 0; rank < world_size; rank++)
        assert_int_equal (simulation_paddings (simulation, (int) rank), paddings [rank]);
}

//  Must hold: a rank gets padding if all its samples turn out unreadable, in mid-epoch too.  A step without
//  any readable sample does not come, on any rank.
static void
test_unreadable_samples_make_padding (void **state)
{
    enum { SAMPLES = 26 };
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (400); round++) {
        //  Runs of bad ones, so that they empty ranks and steps.
        uint64_t bad = 0;
        for (int run = 0; run < 3; run++)
            bad |= ((1ull << (1 + test_below (&random, 9))) - 1) << test_below (&random, SAMPLES);
        if (round == 0)
            bad = 0x3f000;                              //  just one step of 2 x 3
        uint32_t world_size = 2 + (uint32_t) test_below (&random, 3),
            batch_size = 1 + (uint32_t) test_below (&random, 4);
        simulation_options_t options = s_options (state, SAMPLES);
        options.readable = simulation_is_readable;
        options.context = &bad;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (ASCENDING, SAMPLES, batch_size, world_size);
        job.epochs = 1;
        assert_int_equal (simulation_join (simulation, &job), 0);
        s_run_whole (simulation);
        if (simulation_ended (simulation, 0))
            assert_true ((bad & ((1ull << SAMPLES) - 1)) == (1ull << SAMPLES) - 1);
        else
            s_assert_holes (simulation, &bad, SAMPLES, batch_size, world_size);
        simulation_destroy (&simulation);
    }
}

//  Must hold: all ranks are told of what is missing, once and before the epoch's end; one that comes back is
//  told when it comes; ranks that want different things of such samples are refused.
static void
test_all_ranks_are_told_of_unreadable_samples (void **state)
{
    enum { SAMPLES = 40, WORLD = 3 };
    for (int few = 0; few < 2; few++) {
        uint64_t bad = few? 0x100: 0x700;
        const char *message;
        simulation_options_t options = s_options (state, SAMPLES);
        options.readable = simulation_is_readable;
        options.context = &bad;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (SHARED, SAMPLES, 2, WORLD);
        job.sample_us = 100000;                         //  an epoch takes about two seconds
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulation_run (simulation, 3 * SECOND_US);
        for (int rank = 0; rank < WORLD; rank++) {
            assert_int_equal (simulation_unreadable_notices (simulation, rank, &message), 1);
            assert_non_null (strstr (message, few? "1 sample of": "3 samples of"));
        }
        simulation_lose (simulation, 1);
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 10);
        simulated_return_t how = { .records = simulation_records (simulation, 1) };
        int back;
        assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 10);
        assert_int_equal (simulation_unreadable_notices (simulation, back, &message), 1);
        s_run_whole (simulation);
        for (int rank = 0; rank < WORLD; rank++)
            assert_int_equal (simulation_unreadable_notices (simulation, rank == 1? back: rank, &message), 1);
        simulation_destroy (&simulation);
    }
}

static void
test_ranks_agree_on_bad_samples (void **state)
{
    simulation_options_t options = s_options (state, 40);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t silent = s_job (SHARED, 40, 2, 2), fails = silent, drops = silent;
    fails.on_bad_given = drops.on_bad_given = true;
    fails.on_bad = BROKER_BAD_FAIL;
    const broker_terms_t *said = simulation_asked (simulation, &fails),
        *unsaid = simulation_asked (simulation, &silent),
        *default_said = simulation_asked (simulation, &drops);
    refusal_t refusal;
    assert_true (broker_agree (unsaid, 0, default_said, 1, &refusal));
    assert_false (broker_agree (said, 0, unsaid, 1, &refusal));
    assert_string_equal (refusal.code, "ranks_differ");
    assert_non_null (strstr (refusal.message, "on_bad"));
    simulation_asked_clear (said);
    simulation_asked_clear (unsaid);
    simulation_asked_clear (default_said);
    simulation_destroy (&simulation);
}

//  Must hold: in every order, beside plain jobs: each readable sample once an epoch, all ranks the same
//  steps, and with drop_last only full ones where the order may close up.
static void
test_unreadable_samples_of_every_order (void **state)
{
    enum { SAMPLES = 40 };
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (200); round++) {
        uint64_t bad = test_below (&random, 1ull << SAMPLES) & test_below (&random, 1ull << SAMPLES);
        int kind = (int) test_below (&random, KINDS);
        uint32_t world_size = 2 + (uint32_t) test_below (&random, 3),
            batch_size = 1 + (uint32_t) test_below (&random, 4);
        simulation_options_t options = s_options (state, SAMPLES);
        options.readable = simulation_is_readable;
        options.context = &bad;
        options.cache_versions = 3 + test_below (&random, 40);
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (kind, SAMPLES, batch_size, world_size),
            plain = s_job (SHARED, SAMPLES, 3, 1);
        job.drop_last = test_below (&random, 3) == 0;
        plain.sample_us = (int64_t) test_below (&random, 500);
        job.sample_us = (int64_t) test_below (&random, 500);
        if (test_below (&random, 2))
            assert_true (simulation_join (simulation, &plain) >= 0);
        int first = simulation_join (simulation, &job);
        assert_true (first >= 0);
        s_run_whole (simulation);
        uint64_t readable = 0;
        for (uint32_t place = 0; place < SAMPLES; place++)
            readable += simulation_is_readable (&bad, job.list? job.list [place]: place);
        for (int client = first; client < first + (int) world_size; client++) {
            if (simulation_ended (simulation, client)) {
                const char *message;
                assert_string_equal (simulation_reason (simulation, client, &message), "unreadable");
                assert_true (readable < (job.drop_last? batch_size * world_size: 1));
                continue;
            }
            assert_true (simulation_finished (simulation, client));
            for (size_t number = 0; number < EPOCHS; number++) {
                const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
                assert_true (epoch->ended);
                assert_int_equal (epoch->told_samples, epoch->count);
                if (!job.drop_last)
                    assert_int_equal (epoch->count, readable);
                else
                    assert_true (epoch->count <= readable);
                if (job.drop_last && kind <= PRIVATE)
                    assert_int_equal (epoch->count % (batch_size * world_size), 0);
            }
        }
        simulation_destroy (&simulation);
    }
}

//  Must hold: where none can be read the job ends for all ranks.
static void
test_nothing_can_be_read (void **state)
{
    uint64_t bad = UINT64_MAX;
    simulation_options_t options = s_options (state, 20);
    options.readable = simulation_is_readable;
    options.context = &bad;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, 20, 2, 3);
    assert_int_equal (simulation_join (simulation, &job), 0);
    s_run_whole (simulation);
    for (int rank = 0; rank < 3; rank++) {
        const char *message;
        assert_string_equal (simulation_reason (simulation, rank, &message), "unreadable");
    }
    simulation_destroy (&simulation);
}

//  ---- memory and status

//  Must hold: a job's rings count for each rank, and nothing is left of it when it is over.
static void
test_memory (void **state)
{
    for (uint32_t world_size = 1; world_size <= WORLD_MAX; world_size++) {
        simulation_options_t options = s_options (state, 30);
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (SHARED, 30, 2, world_size);
        assert_int_equal (simulation_join (simulation, &job), 0);
        assert_int_equal (simulation_figure (simulation, "ring_bytes"), world_size * job.slots * 4096);
        size_t bytes = (size_t) simulation_figure (simulation, "jobs_bytes");
        //  Of several, a batch that each is given again, and the ids of all that each is told.
        uint32_t others = world_size > 1? world_size: 0;
        assert_true (bytes > world_size * job.slots * 4096
            + others * (4096 + job.slots * world_size * job.batch_size * 8));
        s_run_whole (simulation);
        assert_int_equal (simulation_figure (simulation, "jobs_bytes"), bytes);
        for (uint32_t rank = 0; rank < world_size; rank++) {
            assert_non_null (simulation_job (simulation, (int) rank));
            simulation_leave (simulation, (int) rank);
            simulation_run (simulation, simulation_now_us (simulation) + 10);
        }
        for (uint32_t rank = 0; rank < world_size; rank++) {
            assert_null (simulation_job (simulation, (int) rank));
            assert_false (simulation_ended (simulation, (int) rank));   //  each left after it had got all
        }
        assert_int_equal (simulation_figure (simulation, "ring_bytes"), 0);
        assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
        //  The budget is for all of it.
        simulation_destroy (&simulation);
        options.jobs_bytes = bytes - 1;
        simulation = simulation_new (&options);
        assert_int_equal (simulation_join (simulation, &job), -1);
        assert_string_equal (simulation_refusal (simulation)->code, "budget");
        simulation_destroy (&simulation);
    }
}

//  Guards: what `tureen status` shows of ranks.
static void
test_status (void **state)
{
    simulation_options_t options = s_options (state, 30);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, 30, 2, 2), plain = s_job (SHARED, 30, 2, 1);
    job.sample_us = plain.sample_us = 10000;
    simulation_join (simulation, &job);
    simulation_join (simulation, &plain);
    //  While rank 0 has batches that it has not consumed, the two figures differ.
    int64_t at_us = 0;
    while (simulation_records (simulation, 0) == simulation_consumed (simulation, 0) && at_us < 50000)
        simulation_run (simulation, at_us += 500);
    json_t *early = broker_status (simulation_broker (simulation), NULL, at_us / 1000);
    json_int_t sent, consumed;
    assert_int_equal (json_unpack (early, "{s:[{s:[{s:I,s:I}]}]}", "jobs", "ranks", "sent_batches", &sent,
        "consumed_batches", &consumed), 0);
    assert_int_equal (sent, simulation_records (simulation, 0));
    assert_int_equal (consumed, simulation_consumed (simulation, 0));
    assert_true (sent > consumed);
    json_decref (early);
    simulation_run (simulation, 50000);
    simulation_lose (simulation, 1);
    simulation_run (simulation, 70000);
    json_t *status = broker_status (simulation_broker (simulation), NULL, 70),
        *jobs = json_object_get (status, "jobs");
    assert_int_equal (json_array_size (jobs), 2);
    const json_t *one = json_array_get (jobs, 0), *other = json_array_get (jobs, 1),
        *ranks = json_object_get (one, "ranks");
    assert_int_equal (json_integer_value (json_object_get (one, "world_size")), 2);
    assert_int_equal (json_integer_value (json_object_get (other, "world_size")), 1);
    assert_true (json_is_null (json_object_get (other, "ranks")));
    assert_int_equal (json_array_size (ranks), 2);
    const json_t *here = json_array_get (ranks, 0), *lost = json_array_get (ranks, 1);
    assert_int_equal (json_integer_value (json_object_get (lost, "rank")), 1);
    assert_string_equal (json_string_value (json_object_get (here, "state")), "here");
    assert_string_equal (json_string_value (json_object_get (lost, "state")), "lost");
    assert_int_equal (json_integer_value (json_object_get (here, "sent_batches")),
        simulation_records (simulation, 0));
    assert_int_equal (json_integer_value (json_object_get (here, "consumed_batches")),
        simulation_consumed (simulation, 0));
    assert_string_equal (json_string_value (json_object_get (one, "waiting_on")), "rank");
    json_decref (status);
    simulation_destroy (&simulation);
}

//  Must hold: a sample is explained in the step and the row of its rank in which that rank got it.
static void
test_explain (void **state)
{
    enum { SAMPLES = 40, BATCH = 3, WORLD = 4 };
    simulation_options_t options = s_options (state, SAMPLES);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, SAMPLES, BATCH, WORLD);
    job.sample_us = 1000;
    assert_int_equal (simulation_join (simulation, &job), 0);
    while (!simulation_finished (simulation, 0)) {
        simulation_run (simulation, simulation_now_us (simulation) + 1000);
        size_t sent = simulation_records_sent (simulation, 0);
        const broker_record_t *step = sent? simulation_record (simulation, 0, sent - 1): NULL;
        if (!step || step->is_end)
            continue;
        const uint64_t *ids = step->step + WORLD;
        for (uint32_t rank = 0; rank < WORLD; rank++)
            for (uint64_t row = 0; row < step->step [rank]; row++) {
                explanation_t told;
                refusal_t refusal;
                request_explain_t request = { .id = *ids++, .epoch_given = true, .epoch = step->epoch };
                assert_true (explain_sample (simulation_broker (simulation), simulation_job (simulation, 0),
                    &request, &told, 0, &refusal));
                assert_true (told.reply.is_placed);
                assert_int_equal (told.reply.index, step->index);
                assert_int_equal (told.reply.row, row);
                explain_clear (&told);
            }
    }
    simulation_destroy (&simulation);
}

//  Must hold: two jobs of ranks share as two plain jobs do that have their steps as batches.
static void
test_jobs_of_ranks_share (void **state)
{
    enum { SAMPLES = 40 };
    uint64_t prepared [2];
    for (int ranks = 0; ranks < 2; ranks++) {
        simulation_options_t options = s_options (state, SAMPLES);
        options.cache_versions = 2 * SAMPLES;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = ranks? s_job (SHARED, SAMPLES, 2, 3): s_job (SHARED, SAMPLES, 6, 1);
        job.sample_us = 100;
        assert_int_equal (simulation_join (simulation, &job), 0);
        job.job_name = "other";
        assert_true (simulation_join (simulation, &job) > 0);
        s_run_whole (simulation);
        prepared [ranks] = simulation_prepared (simulation);
        assert_int_equal (simulation_delivered (simulation), 2 * EPOCHS * SAMPLES);
        simulation_destroy (&simulation);
    }
    assert_int_equal (prepared [1], prepared [0]);
    assert_true (prepared [0] < 2 * EPOCHS * SAMPLES * 3 / 5);
}

#define UNDER_BOTH(test) { #test " (dsa)", test, NULL, NULL, &s_dsa }, \
    { #test " (follow)", test, NULL, NULL, &s_follow }

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_steps_are_dealt_evenly),
        cmocka_unit_test (test_an_order_is_the_same_for_all_world_sizes),
        UNDER_BOTH (test_the_slowest_rank_holds_the_others),
        UNDER_BOTH (test_each_rank_keeps_batches_of_its_own),
        cmocka_unit_test (test_all_ranks_are_waited_for),
        cmocka_unit_test (test_ranks_as_frames),
        UNDER_BOTH (test_unreadable_samples_make_padding),
        UNDER_BOTH (test_all_ranks_are_told_of_unreadable_samples),
        UNDER_BOTH (test_ranks_agree_on_bad_samples),
        UNDER_BOTH (test_unreadable_samples_of_every_order),
        cmocka_unit_test (test_nothing_can_be_read),
        cmocka_unit_test (test_memory),
        cmocka_unit_test (test_status),
        cmocka_unit_test (test_explain),
        UNDER_BOTH (test_jobs_of_ranks_share)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  Identity (docs/protocol.md): runs, forks, ghosts and job names, row by row.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 60, REFUSED = -1 };

static const char s_run [] = "4b7c1d2e3f405162738495a6b7c8d9ea",
    s_one [] = "00112233445566778899aabbccddeeff", s_other [] = "ffeeddccbbaa99887766554433221100";

static simulation_options_t
s_options (void)
{
    return (simulation_options_t) { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (), .samples = SAMPLES,
        .cache_versions = 12, .workers = 2, .check = true };
}

static const simulated_job_t s_plain = { .batch_size = 4, .slots = 3, .epochs = 2, .sample_us = 1000 };

//  The identity that a join gives; NULL: nothing said.
typedef struct {
    const char *run, *instance, *job_name;
    uid_t uid;
} identity_t;

static simulated_job_t
s_job (identity_t identity)
{
    simulated_job_t job = s_plain;
    job.run = identity.run;
    job.instance = identity.instance;
    job.job_name = identity.job_name;
    job.uid = identity.uid;
    return job;
}

static int
s_join (simulation_t *simulation, identity_t identity)
{
    simulated_job_t job = s_job (identity);
    return simulation_join (simulation, &job);
}

static void
s_assert_refused (const simulation_t *simulation, const char *code, const char *fragment)
{
    const refusal_t *refusal = simulation_refusal (simulation);
    if (strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment, refusal->code, refusal->message);
}

typedef enum { KEEPS_RUN, FENCES, FORKS, IS_TAKEN } outcome_is_t;

static const struct {
    const char *row;
    identity_t there, comes;
    outcome_is_t outcome;
} s_rows [] = {
    { "the same instance", { s_run, s_one, NULL, 7 }, { s_run, s_one, NULL, 7 }, FENCES },
    { "the same instance, tcp", { s_run, s_one, NULL, (uid_t) -1 }, { s_run, s_one, NULL, (uid_t) -1 },
        FENCES },
    { "the same instance, another name", { s_run, s_one, "old", 7 }, { s_run, s_one, "new", 7 }, FENCES },
    { "the same instance, another user", { s_run, s_one, NULL, 7 }, { s_run, s_one, NULL, 8 }, FORKS },
    { "the same instance, by tcp and by ipc", { s_run, s_one, NULL, (uid_t) -1 }, { s_run, s_one, NULL, 7 },
        FORKS },
    { "the same name", { s_run, s_one, "sweep", 7 }, { s_run, s_other, "sweep", 7 }, FENCES },
    { "the same name, no instance", { s_run, NULL, "sweep", 7 }, { s_run, NULL, "sweep", 7 }, FENCES },
    { "the same name, another user", { s_run, s_one, "sweep", 7 }, { s_run, s_other, "sweep", 8 }, IS_TAKEN },
    { "another instance", { s_run, s_one, NULL, 7 }, { s_run, s_other, NULL, 7 }, FORKS },
    { "no instance on either side", { s_run, NULL, NULL, 7 }, { s_run, NULL, NULL, 7 }, FORKS },
    { "another instance, a name on one side", { s_run, s_one, "sweep", 7 }, { s_run, s_other, NULL, 7 },
        FORKS },
    { "another instance, a name on the other side", { s_run, s_one, NULL, 7 }, { s_run, s_other, "sweep", 7 },
        FORKS },
    { "another instance and another name", { s_run, s_one, "old", 7 }, { s_run, s_other, "new", 7 }, FORKS },
    { "another run", { s_run, s_one, NULL, 7 }, { s_other, s_one, NULL, 7 }, KEEPS_RUN },
    { "no run", { s_run, s_one, NULL, 7 }, { NULL, s_one, NULL, 7 }, KEEPS_RUN },
    { "another run of the name", { s_run, s_one, "sweep", 7 }, { s_other, s_other, "sweep", 7 }, IS_TAKEN },
    { "another run of the name, the same instance", { s_run, s_one, "sweep", 7 },
        { s_other, s_one, "sweep", 7 }, IS_TAKEN },
    { "no run, the same name", { s_run, s_one, "sweep", 7 }, { NULL, s_other, "sweep", 7 }, IS_TAKEN },
    { "an answer that never came", { s_run, s_one, "sweep", 7 }, { NULL, s_one, "sweep", 7 }, FENCES },
    { "the same of another user", { s_run, s_one, "sweep", 7 }, { NULL, s_one, "sweep", 8 }, IS_TAKEN },
};

static void
s_try_row (size_t row)
{
    const identity_t *there = &s_rows [row].there, *comes = &s_rows [row].comes;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    int first = s_join (simulation, *there);
    assert_string_equal (job_run (simulation_job (simulation, first)), s_run);      //  no job had it
    assert_false (job_is_forked (simulation_job (simulation, first)));
    simulation_run (simulation, 10000);
    outcome_is_t outcome = s_rows [row].outcome;
    int second = s_join (simulation, *comes);
    simulation_run (simulation, 20000);
    const char *message = NULL, *reason = simulation_reason (simulation, first, &message);
    assert_int_equal (reason != NULL, outcome == FENCES);
    assert_int_equal (second >= 0, outcome != IS_TAKEN);
    if (outcome == FENCES) {
        assert_string_equal (reason, "fenced");
        assert_null (job_of_id (simulation_broker (simulation), simulation_job_id (simulation, first)));
        char number [32];
        snprintf (number, sizeof number, "as job %llu",
            (unsigned long long) simulation_job_id (simulation, second));
        assert_non_null (strstr (message, number));
    }
    if (outcome == IS_TAKEN)
        s_assert_refused (simulation, "job_taken", "the job name 'sweep' is ");
    if (second >= 0) {
        const job_t *job = simulation_job (simulation, second);
        assert_int_equal (job_is_forked (job), outcome == FORKS);
        if (outcome == FENCES && comes->run)
            assert_string_equal (job_run (job), s_run);
        if (outcome == FORKS || !comes->run) {
            assert_string_not_equal (job_run (job), s_run);
            assert_int_equal (strlen (job_run (job)), WIRE_RUN_BYTES);
        }
    }
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_int_equal (simulation_finished (simulation, first), outcome != FENCES);
    simulation_destroy (&simulation);
}

//  Must hold: each row of the protocol's table, and which job's name is taken; a job that is not fenced
//  notices nothing.
static void
test_identities (void **state)
{
    (void) state;
    for (size_t row = 0; row < sizeof s_rows / sizeof *s_rows; row++) {
        printf ("    %s\n", s_rows [row].row);
        s_try_row (row);
    }
}

//  Guards: what a user is told of a name says since when; of another user's name it says nothing but that.
static void
test_a_taken_name_is_told_to_its_user_only (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job ((identity_t) { NULL, s_one, "sweep", 7 });
    job.sample_us = 1000 * SECOND_US;           //  takes one batch and is silent
    int first = simulation_join (simulation, &job);
    simulation_run (simulation, 120 * SECOND_US);
    assert_int_equal (s_join (simulation, (identity_t) { NULL, s_other, "sweep", 7 }), REFUSED);
    char since [100];
    snprintf (since, sizeof since,
        "job %llu on data set 'data', which joined 120 seconds ago and was last heard of 1",
        (unsigned long long) simulation_job_id (simulation, first));
    s_assert_refused (simulation, "job_taken", since);
    assert_int_equal (s_join (simulation, (identity_t) { NULL, s_other, "sweep", 8 }), REFUSED);
    s_assert_refused (simulation, "job_taken",
        "the job name 'sweep' is another user's at present: take another");
    assert_null (strstr (simulation_refusal (simulation)->message, "data"));
    simulation_gone (simulation, first);
    //  over, and not yet reclaimed
    assert_true (s_join (simulation, (identity_t) { NULL, s_other, "sweep", 8 }) >= 0);
    simulation_destroy (&simulation);
}

//  Must hold: a run and a name are free as soon as their job is over, though a worker still writes for it.
static void
test_a_job_that_is_over_holds_nothing (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    const identity_t one = { s_run, s_one, "sweep", 7 }, other = { s_run, s_other, "sweep", 8 };
    int first = s_join (simulation, one);
    for (int64_t now_us = 0; !simulation_consumed (simulation, first); now_us += 3)
        simulation_run (simulation, now_us);
    simulation_gone (simulation, first);
    assert_non_null (simulation_job (simulation, first));       //  not reclaimed
    int second = s_join (simulation, other);
    assert_true (second >= 0);
    assert_string_equal (job_run (simulation_job (simulation, second)), s_run);
    assert_false (job_is_forked (simulation_job (simulation, second)));
    simulation_destroy (&simulation);
}

//  ---- what a join that is refused must leave alone

//  Its bytes, as the first of an empty server.
static size_t
s_bytes_of (const simulated_job_t *job)
{
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    assert_true (simulation_join (simulation, job) >= 0);
    size_t bytes = (size_t) simulation_figure (simulation, "jobs_bytes");
    simulation_destroy (&simulation);
    return bytes;
}

//  Must hold: the ghost's memory is the new job's; and whatever else a join is refused for, the old job goes
//  on.
static void
test_only_a_join_that_is_taken_ends_the_ghost (void **state)
{
    (void) state;
    const identity_t identity = { s_run, s_one, "sweep", 7 }, stranger = { NULL, s_other, NULL, 7 };
    simulated_job_t job = s_job (identity);
    simulation_options_t options = s_options ();
    options.jobs_bytes = s_bytes_of (&job);
    simulation_t *simulation = simulation_new (&options);
    int first = simulation_join (simulation, &job);
    assert_true (first >= 0);
    assert_int_equal (s_join (simulation, stranger), REFUSED);          //  the budget has room for one
    s_assert_refused (simulation, "budget", "0 of ");
    simulated_job_t refused = job;
    refused.batch_size = 50;
    refused.drop_last = true;
    assert_int_equal (simulation_join (simulation, &refused), REFUSED); //  too much without the ghost, too
    s_assert_refused (simulation, "budget", "batches");
    refused = job;
    refused.pipeline = "[{\"op\":\"center_crop\",\"size\":[100,100]}]";
    assert_int_equal (simulation_join (simulation, &refused), REFUSED);
    s_assert_refused (simulation, "budget", "--cache");
    simulated_state_t stood = { .epoch = 2 };
    refused = job;
    refused.state = &stood;
    assert_int_equal (simulation_join (simulation, &refused), REFUSED);
    s_assert_refused (simulation, "bad_state", "nothing is left");
    refused = job;
    refused.from = 0;
    refused.to = 3;
    refused.drop_last = true;
    assert_int_equal (simulation_join (simulation, &refused), REFUSED);
    s_assert_refused (simulation, "bad_request", "drop_last with 3 samples");
    refused = job;
    refused.batch_size = 1;
    refused.pool = 16;
    refused.order = SAMPLER_ORDER_SEEDED;
    assert_int_equal (simulation_join (simulation, &refused), REFUSED);
    s_assert_refused (simulation, "bad_request", "is no pack");
    simulation_run (simulation, SECOND_US / 100);
    assert_false (simulation_ended (simulation, first));
    int second = simulation_join (simulation, &job);
    assert_true (second >= 0);
    simulation_run (simulation, simulation_now_us (simulation));
    assert_true (simulation_ended (simulation, first));
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, second));
    simulation_gone (simulation, second);
    simulation_run (simulation, 101 * SECOND_US);
    assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
    simulation_destroy (&simulation);
}

//  Must hold: so with what jobs on packs have of the raw memory, a tier of their own or a pool: there is
//  enough for the new job where the ghost's is.
static void
test_a_ghost_gives_its_raw_memory (void **state)
{
    (void) state;
    for (int pooled = 0; pooled < 2; pooled++) {
        const identity_t identity = { s_run, s_one, NULL, 7 }, stranger = { NULL, s_other, NULL, 7 };
        simulation_options_t options = s_options ();
        options.raw_bytes = pooled? 100000: 60000;
        options.tier = pooled? RAW_STREAM: RAW_REDOX;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (identity), another = s_job (stranger);
        job.order = another.order = pooled? SAMPLER_ORDER_SEEDED: SAMPLER_ORDER_PRIVATE;
        job.pool = another.pool = pooled? 60: 0;
        int first = simulation_must_join (simulation, &job);
        simulation_run (simulation, SECOND_US / 100);
        assert_int_equal (simulation_join (simulation, &another), REFUSED);
        s_assert_refused (simulation, "budget", "--raw");
        int second = simulation_must_join (simulation, &job);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        assert_true (simulation_ended (simulation, first) && simulation_finished (simulation, second));
        simulation_destroy (&simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_identities),
        cmocka_unit_test (test_a_taken_name_is_told_to_its_user_only),
        cmocka_unit_test (test_a_job_that_is_over_holds_nothing),
        cmocka_unit_test (test_only_a_join_that_is_taken_ends_the_ghost),
        cmocka_unit_test (test_a_ghost_gives_its_raw_memory)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

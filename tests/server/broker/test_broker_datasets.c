//  Data sets that come and go while jobs run on others, from one seed each: the jobs of the others get every
//  sample once an epoch, in the order that they asked for; those of a removed one end; the broker tells that
//  it is gone when nothing of it is out, and its number is another's.  Replay: TEST_SEED.  More of them:
//  TEST_RUNS.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "budget.h"
#include "effort.h"
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { MS = 1000, SECOND_US = 1000 * MS, PLAYS = 90, STEPS = 60, JOBS = 80, LIST = 12, NAMES = 12,
    READERS = 20, FAILING_US = 3 * SECOND_US };

static const char *const s_names [NAMES] = { "data", "val", "test", "three", "four", "five", "six", "seven",
    "eight", "nine", "ten", "eleven" };
static const char *const s_pipelines [] = { NULL, "[{\"op\":\"center_crop\",\"size\":[1,1]}]",
    "[{\"op\":\"center_crop\",\"size\":[4,4]},{\"share\":true},{\"op\":\"center_crop\",\"size\":[1,1]},"
    "{\"op\":\"flip\"}]", "[{\"op\":\"center_crop\",\"size\":[9,9]}]" };

static uint64_t
s_runs (uint64_t ordinary)
{
    const char *text = getenv ("TEST_RUNS");
    return text? strtoull (text, NULL, 0): ordinary;
}

typedef struct {
    simulated_job_t job;
    int client;                 //  of ranks: the first rank's
    int dataset;                //  the simulation's number
    bool was_removed;           //  with its data set
    bool was_disturbed;         //  it, or a rank of it, left or was lost
    uint32_t list [LIST];
} joined_t;

typedef struct {
    uint64_t seed, random;
    simulation_options_t options;
    simulation_t *simulation;
    int numbers [NAMES];        //  of the data set of this name now; -1: none
    bool is_held [STEPS + 1];   //  by the data set's number
    int added;                  //  their numbers are below
    joined_t joined [JOBS];
    int count;
    bool reads_fail, has_bad;   //  for a while; samples
} play_t;

static uint64_t
s_below (play_t *self, uint64_t bound)
{
    return test_below (&self->random, bound);
}

//  A name of a data set that is there, or that is not; NAMES: there is none.
static int
s_any_name (play_t *self, bool is_there)
{
    int first = (int) s_below (self, NAMES);
    for (int step = 0; step < NAMES; step++)
        if ((self->numbers [(first + step) % NAMES] >= 0) == is_there)
            return (first + step) % NAMES;
    return NAMES;
}

//  ---- what happens

static simulated_job_t
s_any_job (play_t *self, uint32_t list [LIST])
{
    uint32_t samples = self->options.samples, from = (uint32_t) s_below (self, samples);
    uint64_t tenant = s_below (self, self->options.tenant_count + 1);
    simulated_job_t job = { .tenant = tenant? self->options.tenants [tenant - 1].name: NULL,
        .batch_size = 1 + (uint32_t) s_below (self, 12), .slots = 3 + (uint32_t) s_below (self, 3),
        .epochs = s_below (self, 4), .order = (sampler_order_t) s_below (self, 4),
        .seed = 1 + s_below (self, 4), .from = from,
        .to = from + 1 + (uint32_t) s_below (self, samples - from),
        .sample_us = 20 + (int64_t) s_below (self, 600), .slot_bytes = 1000,
        .pipeline = s_pipelines [s_below (self, sizeof s_pipelines / sizeof *s_pipelines)],
        .is_inline = s_below (self, 3) == 0, .keeps = s_below (self, 4) == 0 };
    if (job.order == SAMPLER_ORDER_LIST) {
        job.from = job.to = 0;
        job.list = list;
        job.list_count = 1 + s_below (self, LIST);
        for (size_t index = 0; index < job.list_count; index++)
            list [index] = (uint32_t) s_below (self, samples);
    }
    if (s_below (self, 4) == 0) {
        job.world_size = 2;
        job.rank_wait_seconds = (uint32_t) s_below (self, 3);
        job.keeps = false;
    }
    return job;
}

static const tenant_t *
s_tenant (play_t *self, const simulated_job_t *job)
{
    return tenant_named (simulation_broker (self->simulation), job->tenant);
}

static void
s_join (play_t *self)
{
    int name = s_any_name (self, true);
    if (self->count == JOBS || name == NAMES)
        return;
    joined_t *joined = &self->joined [self->count];
    *joined = (joined_t) { .dataset = self->numbers [name] };
    joined->job = s_any_job (self, joined->list);
    joined->job.dataset = s_names [name];
    dataset_t *dataset = dataset_named (simulation_broker (self->simulation), s_tenant (self, &joined->job),
        s_names [name]);
    if (!dataset)
        return;                 //  it is not the tenant's
    if (joined->job.order == SAMPLER_ORDER_SEEDED && dataset->prefetch && s_below (self, 2))
        joined->job.pool = WIRE_POOL_MIN + (uint32_t) s_below (self, 40);
    joined->client = simulation_join (self->simulation, &joined->job);
    self->count += joined->client >= 0;
}

static bool
s_has_ranks (const joined_t *joined)
{
    return joined->job.world_size > 1;
}

//  The newest client of a rank.
static int
s_client (const play_t *self, const joined_t *joined, uint32_t rank)
{
    return s_has_ranks (joined)? simulation_rank (self->simulation, joined->client, rank): joined->client;
}

//  NULL: its job is over.
static const job_t *
s_job (const play_t *self, const joined_t *joined)
{
    for (uint32_t rank = 0; rank < (s_has_ranks (joined)? joined->job.world_size: 1); rank++) {
        const job_t *job = simulation_job (self->simulation, s_client (self, joined, rank));
        if (job && !job_is_over (job))
            return job;
    }
    return NULL;
}

static void
s_disturb (play_t *self, uint64_t how)
{
    if (self->count == 0)
        return;
    joined_t *joined = &self->joined [s_below (self, (uint64_t) self->count)];
    int client = s_client (self, joined, s_has_ranks (joined)? (uint32_t) s_below (self, 2): 0);
    joined->was_disturbed = joined->was_disturbed || how <= 2;
    switch (how) {
    case 0: simulation_leave (self->simulation, client); break;
    case 1: simulation_lose (self->simulation, client); break;
    case 2: simulation_gone (self->simulation, client); break;
    case 3: simulation_stop (self->simulation, client); break;
    default: simulation_continue (self->simulation, client);
    }
}

//  A rank that is not there comes back to its job, if that is; never to one of a removed data set.
static void
s_return (play_t *self)
{
    if (self->count == 0)
        return;
    const joined_t *joined = &self->joined [s_below (self, (uint64_t) self->count)];
    dataset_t *dataset = dataset_named (simulation_broker (self->simulation), NULL, joined->job.dataset);
    for (uint32_t rank = 0; s_has_ranks (joined) && dataset && rank < joined->job.world_size; rank++) {
        int client = s_client (self, joined, rank), back;
        if (simulation_is_there (self->simulation, client))
            continue;
        simulated_return_t how = { .records = simulation_records (self->simulation, client) };
        bool is_over = !s_job (self, joined);
        broker_return_t answer = simulation_return (self->simulation, client, &how, &back);
        assert_true (!joined->was_removed || is_over);
        assert_true (!joined->was_removed || answer != BROKER_RETURN_READY
            || simulation_job (self->simulation, back)->dataset == dataset);
        return;
    }
}

static void
s_add (play_t *self)
{
    int name = s_any_name (self, false);
    bool is_pack = self->options.raw_bytes > 0 && s_below (self, 2);
    if (name == NAMES)
        return;
    int number = simulation_add_dataset (self->simulation, s_names [name], is_pack, s_below (self, 3) > 0);
    self->numbers [name] = number;
    self->added = number >= 0? number + 1: self->added + 1;
}

//  Must hold: its jobs end, with its name; what was asked of it before is refused.
static void
s_remove (play_t *self)
{
    int name = s_any_name (self, true);
    if (name == NAMES)
        return;
    int number = self->numbers [name];
    broker_t *broker = simulation_broker (self->simulation);
    const broker_terms_t *asked = NULL;
    bool was_there [JOBS][2];
    for (int which = 0; which < self->count; which++) {
        joined_t *joined = &self->joined [which];
        bool ends = joined->dataset == number && s_job (self, joined);
        joined->was_removed = joined->was_removed || ends;
        for (uint32_t rank = 0; rank < 2; rank++)
            was_there [which] [rank] = ends && (rank == 0 || s_has_ranks (joined))
                && simulation_is_there (self->simulation, s_client (self, joined, rank));
    }
    if ((self->is_held [number] = s_below (self, 2))) {
        simulation_hold_dataset (self->simulation, number, true);
        asked = simulation_asked (self->simulation, &(simulated_job_t) { .dataset = s_names [name],
            .batch_size = 1, .slots = 3 });
    }
    simulation_remove_dataset (self->simulation, number);
    self->numbers [name] = -1;
    assert_null (dataset_named (broker, NULL, s_names [name]));
    simulation_run (self->simulation, simulation_now_us (self->simulation));
    for (int which = 0; which < self->count; which++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            if (!was_there [which] [rank])
                continue;
            const char *message, *reason = simulation_reason (self->simulation, s_client (self,
                &self->joined [which], rank), &message);
            assert_true (!s_job (self, &self->joined [which]));
            assert_true (reason && strcmp (reason, "removed") == 0 && strstr (message, s_names [name]));
        }
    refusal_t refusal;
    if (asked) {
        assert_false (broker_allows (broker, asked, 0, &refusal));
        assert_string_equal (refusal.code, "removed");
        simulation_asked_clear (asked);
    }
}

static void
s_let_go (play_t *self, bool all)
{
    for (int number = 0; number < self->added; number++)
        if (self->is_held [number] && (all || s_below (self, 2))) {
            self->is_held [number] = false;
            simulation_hold_dataset (self->simulation, number, false);
        }
}

//  Must hold: nothing is reported of a removed data set.
static void
s_take_reports (play_t *self)
{
    broker_t *broker = simulation_broker (self->simulation);
    dataset_t *dataset;
    uint32_t id;
    const char *reason;
    broker_trouble_t trouble;
    while (dataset_next_bad (broker, &dataset, &id, &reason))
        assert_ptr_equal (dataset_named (broker, NULL, dataset_name (dataset)), dataset);
    while (dataset_next_trouble (broker, &trouble))
        assert_ptr_equal (dataset_named (broker, NULL, dataset_name (trouble.dataset)), trouble.dataset);
}

static void
s_step (play_t *self)
{
    switch (s_below (self, 20)) {
    case 0: s_disturb (self, s_below (self, 4)); break;
    case 1: s_disturb (self, 4); break;
    case 2: s_return (self); break;
    case 3: case 4: case 5: case 6: s_add (self); break;
    case 7: case 8: case 9: s_remove (self); break;
    case 10: s_let_go (self, false); break;
    default: s_join (self);
    }
}

//  ---- what must hold in the end

//  Jobs of other data sets are not touched: each has got all that it asked for.
static void
s_check_job (play_t *self, const joined_t *joined)
{
    const char *message, *reason = simulation_reason (self->simulation, joined->client, &message);
    simulated_job_t job = joined->job;
    job.from = job.to? job.from: 0;
    job.to = job.to? job.to: self->options.samples;
    if (!s_has_ranks (joined) && !self->has_bad)
        simulation_assert_epochs (self->simulation, joined->client, &job);
    if (joined->was_removed)
        return;
    if (reason && strcmp (reason, "removed") == 0)
        fail_msg ("a job of '%s' ended: %s", job.dataset, message);
    if (joined->was_disturbed || self->reads_fail || self->has_bad)
        return;
    assert_null (reason);
    assert_true (joined->job.epochs == 0 || simulation_finished (self->simulation, joined->client));
}

//  An order of a seed follows from the seed alone: that of a server with one data set and no other job.
static void
s_check_order (play_t *self, const joined_t *joined)
{
    simulation_options_t options = self->options;
    options.is_folder = options.is_folder && !joined->job.pool;
    options.fetch_us = 0;
    options.tenant_count = 0;
    options.unread_rc = NULL;
    options.check = false;
    simulation_t *alone = simulation_new (&options);
    simulated_job_t job = joined->job;
    job.dataset = job.tenant = NULL;
    job.is_inline = job.keeps = false;
    job.sample_us = 0;
    job.epochs = simulation_epochs (self->simulation, joined->client);
    job.epochs += job.epochs == 0;
    int client = simulation_must_join (alone, &job);
    simulation_run (alone, 100 * SECOND_US);
    for (size_t number = 0; number < simulation_epochs (self->simulation, joined->client); number++) {
        const seen_epoch_t *seen = simulation_epoch (self->simulation, joined->client, number),
            *known = simulation_epoch (alone, client, number);
        assert_true (seen->count <= known->count);
        assert_true (seen->count == 0
            || memcmp (seen->ids, known->ids, seen->count * sizeof *seen->ids) == 0);
    }
    simulation_destroy (&alone);
}

static int
s_unread_rc (void *context, uint32_t id, int64_t now_us)
{
    const uint64_t *seed = context;
    uint64_t random = *seed ^ id;
    return now_us < FAILING_US && test_below (&random, 3) == 0? -EIO: 0;
}

static bool
s_is_readable (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

static void
s_begin (play_t *self, uint64_t seed, broker_tenant_t tenants [2])
{
    *self = (play_t) { .seed = seed, .random = seed };
    self->options = (simulation_options_t) { .seed = seed, .check = true, .tenants = tenants,
        .tenant_count = s_below (self, 3),
        .policy = s_below (self, 2)? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW,
        .samples = 1 + (uint32_t) s_below (self, 60), .workers = 1 + (uint32_t) s_below (self, 3),
        .fetch_us = (int64_t) s_below (self, 2) * 700, .context = &self->seed };
    for (size_t index = 0; index < self->options.tenant_count; index++)
        tenants [index] = (broker_tenant_t) { .name = index? "bravo": "alpha",
            .weight = 1 + (uint32_t) s_below (self, 4) };
    self->options.cache_versions = (self->options.workers + 1) * (1 + self->options.tenant_count) * 2
        + s_below (self, 200);
    if (s_below (self, 3)) {
        self->options.tier = (raw_policy_t) s_below (self, 3);
        self->options.raw_bytes = (self->options.tier == RAW_REDOX? 70000: 20000)
            + s_below (self, s_below (self, 2)? 100000: 600000);
        self->options.is_folder = s_below (self, 2);
    }
    self->reads_fail = s_below (self, 4) == 0;
    self->has_bad = s_below (self, 5) == 0;
    self->options.unread_rc = self->reads_fail? s_unread_rc: NULL;
    self->options.readable = self->has_bad? s_is_readable: NULL;
    for (int name = 0; name < NAMES; name++)
        self->numbers [name] = name == 0? 0: -1;
    self->added = 1;
    self->simulation = simulation_new (&self->options);
}

static void
s_play (uint64_t seed)
{
    static play_t play;
    broker_tenant_t tenants [2];
    s_begin (&play, seed, tenants);
    simulation_t *simulation = play.simulation;
    for (int step = 0; step < STEPS; step++) {
        s_step (&play);
        simulation_run (simulation, simulation_now_us (simulation) + (int64_t) s_below (&play,
            play.reads_fail? 150 * MS: 15 * MS));
        s_take_reports (&play);
    }
    s_let_go (&play, true);
    for (int which = 0; which < play.count; which++)
        for (uint32_t rank = 0; rank < (s_has_ranks (&play.joined [which])? 2: 1); rank++) {
            int client = s_client (&play, &play.joined [which], rank);
            simulation_continue (simulation, client);
            if (play.joined [which].job.epochs == 0)
                simulation_gone (simulation, client);
        }
    simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US);
    int ordered = -1;
    for (int which = 0; which < play.count; which++) {
        s_check_job (&play, &play.joined [which]);
        if (play.joined [which].job.order == SAMPLER_ORDER_SEEDED && !s_has_ranks (&play.joined [which]))
            ordered = which;
    }
    if (ordered >= 0 && !play.has_bad)
        s_check_order (&play, &play.joined [ordered]);
    for (int name = 0; name < NAMES; name++)
        if (play.numbers [name] >= 0)
            simulation_remove_dataset (simulation, play.numbers [name]);
    simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US);
    for (int number = 0; number < play.added; number++)
        assert_true (simulation_dataset_is_gone (simulation, number));
    assert_int_equal (dataset_places (simulation_broker (simulation)), BROKER_DATASETS_MAX);
    simulation_destroy (&simulation);
}

//  Guards: the jobs of all other data sets when one is added or removed, and the memory that it had.
static void
any_data_set_comes_and_goes (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + s_runs (EFFORT (PLAYS)); seed < last; seed++) {
        if (getenv ("TEST_RUNS"))
            printf ("    TEST_SEED=%llu\n", (unsigned long long) seed), fflush (stdout);
        s_play (seed);
    }
}

//  ---- by hand

//  A tenant that could use the data set that is gone may not use the next one with its number.
static void
a_number_is_taken_again_without_its_rights (void **state)
{
    (void) state;
    const broker_tenant_t tenants [] = { { .name = "alpha", .weight = 1 } };
    simulation_options_t options = { .seed = test_seed (), .samples = 10, .workers = 1, .cache_versions = 50,
        .tenants = tenants, .tenant_count = 1, .check = true };
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    tenant_t *alpha = tenant_named (broker, "alpha");
    int number = simulation_add_dataset (simulation, "val", false, true);
    const dataset_t *dataset = dataset_named (broker, alpha, "val");
    assert_non_null (dataset);
    uint32_t place = dataset->number;
    simulation_must_join (simulation, &(simulated_job_t) { .tenant = "alpha", .dataset = "val",
        .batch_size = 2, .slots = 3 });
    assert_int_equal (dataset_jobs (dataset), 1);
    simulation_remove_dataset (simulation, number);
    simulation_run (simulation, SECOND_US);
    assert_true (simulation_dataset_is_gone (simulation, number));
    simulation_add_dataset (simulation, "val", false, false);
    assert_int_equal (dataset_named (broker, NULL, "val")->number, place);
    assert_null (dataset_named (broker, alpha, "val"));
    broker_check (broker);
    simulation_destroy (&simulation);
}

//  Guards: after the first turn the limits of tasks and reads stay.  The first data sets take all that they
//  may; later ones get their parts, and all finish.
static void
s_fill_places (bool is_pack)
{
    simulation_options_t options = { .seed = test_seed (), .samples = 600, .workers = 2,
        .cache_versions = 100000, .fetch_us = 20 * MS, .raw_bytes = 100000000 };
    static char names [BROKER_DATASETS_MAX] [16];
    int clients [READERS + 1];
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    simulation_must_join (simulation, &(simulated_job_t) { .batch_size = 1, .slots = 3, .epochs = 1 });
    simulation_run (simulation, 100 * MS);
    size_t tasks = budget_tasks_most (broker), reads = budget_reads_most (broker);
    budget_lend (broker, BROKER_LENT_MAX);
    for (int number = 1; number < BROKER_DATASETS_MAX; number++) {
        snprintf (names [number], sizeof names [number], "%d", number);
        assert_int_equal (simulation_add_dataset (simulation, names [number], is_pack, true), number);
        if (number > READERS)
            continue;
        clients [number] = simulation_must_join (simulation, &(simulated_job_t) { .dataset = names [number],
            .batch_size = 150, .slots = 4, .epochs = 1, .order = SAMPLER_ORDER_SEEDED });
        simulation_run (simulation, simulation_now_us (simulation) + 500);
        broker_check (broker);
    }
    assert_int_equal (dataset_places (broker), 0);
    assert_true (budget_tasks_most (broker) == tasks && budget_reads_most (broker) == reads);
    simulation_run (simulation, 600 * SECOND_US);
    for (int number = 1; number <= READERS; number++)
        assert_true (simulation_finished (simulation, clients [number]));
    simulation_remove_dataset (simulation, 5);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    assert_int_equal (dataset_places (broker), 1);
    assert_int_equal (simulation_add_dataset (simulation, "5", is_pack, true), BROKER_DATASETS_MAX);
    broker_check (broker);
    simulation_destroy (&simulation);
}

static void
all_places_are_used (void **state)
{
    (void) state;
    s_fill_places (false);
    s_fill_places (true);
}

//  With several tenants every pack has its part of the memory: one more is refused when a job's pack would
//  have less than it needs.
static void
a_pack_leaves_others_their_least (void **state)
{
    (void) state;
    const broker_tenant_t tenants [] = { { .name = "alpha", .weight = 1 } };
    simulation_options_t options = { .seed = test_seed (), .samples = 100, .workers = 1,
        .cache_versions = 100, .tenants = tenants, .tenant_count = 1, .check = true,
        .tier = RAW_REDOX, .raw_bytes = 150000 };
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    int client = simulation_must_join (simulation, &(simulated_job_t) { .tenant = "alpha", .batch_size = 4,
        .slots = 3, .epochs = 3, .sample_us = 10, .to = 100 });
    simulation_run (simulation, 5 * MS);
    static char names [BROKER_DATASETS_MAX] [16];
    int packs = 1;
    for (;; packs++) {
        snprintf (names [packs], sizeof names [packs], "%d", packs);
        if (simulation_add_dataset (simulation, names [packs], true, true) < 0)
            break;
        simulation_run (simulation, simulation_now_us (simulation) + MS);
    }
    assert_in_range (packs, 2, 4);
    assert_null (dataset_named (broker, NULL, names [packs]));
    simulation_run (simulation, simulation_now_us (simulation) + MS);
    assert_true (simulation_dataset_is_gone (simulation, packs));
    simulation_remove_dataset (simulation, 1);
    simulation_run (simulation, simulation_now_us (simulation) + MS);
    assert_true (simulation_add_dataset (simulation, "again", true, true) > 0);
    simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US);
    assert_true (simulation_finished (simulation, client));
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (any_data_set_comes_and_goes),
        cmocka_unit_test (a_number_is_taken_again_without_its_rights),
        cmocka_unit_test (all_places_are_used),
        cmocka_unit_test (a_pack_leaves_others_their_least)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

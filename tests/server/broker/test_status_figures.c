//  What `status` tells of the broker, all of it: of a run that is planned to the last copy, each figure and
//  word is known.  And the rate of a job, and what a pack's reads brought.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "job.h"
#include "seed.h"
#include "simulation.h"
#include "version.h"

enum { SAMPLES = 80, BAD = 65, MS = 1000, SECOND_US = 1000 * MS, PREPARE_US = 100, COPY_US = 200 };

//  ---- a run that is known

static int64_t
s_prepare_us (void *context, uint32_t id)
{
    (void) context, (void) id;
    return PREPARE_US;
}

static int64_t
s_copy_us (void *context, const batch_row_t *row)
{
    (void) context, (void) row;
    return COPY_US;
}

static bool
s_readable (void *context, uint32_t id)
{
    (void) context;
    return id != BAD;
}

static const broker_tenant_t s_tenants [] = { { .name = "audio", .weight = 2, .jobs_max = 9,
    .batches_bytes_max = 5000000, .cache_bytes_max = 100000 }, { .name = "vision", .weight = 5 } };

//  The operator's job takes a list, slowly.  Vision's two take the same 40 samples, one of them slowly.
//  Audio's has two ranks, and in its data is a sample that cannot be read.
static simulation_t *
s_begin (void)
{
    static const uint32_t list [] = { 3, 1, 4, 15, 9, 2, 6, 5, 8, 7, 10, 11, 12, 13 };
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (),
        .samples = SAMPLES, .cache_versions = 1000, .workers = 2, .cost_us = s_prepare_us,
        .copying_us = s_copy_us, .readable = s_readable, .tenants = s_tenants, .tenant_count = 2,
        .jobs_bytes = 100000000, .check = true };
    const simulated_job_t jobs [] = {
        { .order = SAMPLER_ORDER_LIST, .list = list, .list_count = 14, .batch_size = 4, .slots = 3,
            .epochs = 1, .sample_us = 10 * MS, .is_inline = true, .job_name = "alpha", .slot_bytes = 1000 },
        { .tenant = "vision", .from = 20, .to = 60, .batch_size = 8, .slots = 4, .epochs = 1 },
        { .tenant = "vision", .from = 20, .to = 60, .batch_size = 5, .slots = 3, .epochs = 1,
            .sample_us = 10 * MS },
        { .tenant = "audio", .order = SAMPLER_ORDER_PRIVATE, .from = 61, .to = 80, .batch_size = 3,
            .slots = 3, .epochs = 1, .world_size = 2, .rank_wait_seconds = 10, .slot_bytes = 2000 } };
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    tenant_outside (broker, tenant_named (broker, "vision"), 1, 777);
    for (size_t job = 0; job < 4; job++)
        assert_int_equal (simulation_must_join (simulation, &jobs [job]), job);
    return simulation;
}

//  ---- all figures and words

//  In JSON: while jobs run, when all have got all, and when they are gone; NULL: as before.  "*" stands for
//  any place in a list; the first row that fits counts.
typedef struct {
    const char *path, *running, *resting, *gone;
} told_t;

#define SAME NULL, NULL
#define ANY "?"                         //  s_look_at_bytes looks at it

static const told_t s_all [] = {
    { "policy", "\"follow\"", SAME },
    { "datasets.0.name", "\"data\"", SAME },
    { "datasets.0.samples", "80", SAME },
    { "datasets.0.on_bad", "\"drop\"", SAME },
    { "datasets.0.bad.0.id", "65", SAME },
    { "datasets.0.bad.0.reason", "\"made unreadable\"", SAME },
    { "datasets.0.bad_samples", "1", SAME },
    { "datasets.0.trouble", "null", SAME },
    { "datasets.0.pack", "null", SAME },
    { "datasets.0.pieces", "null", SAME },
    { "datasets.0.drawing_alone.0", "1", SAME },
    { "datasets.0.drawing_alone.1", "4294967297", SAME },
    { "jobs.0.job", "1", SAME },
    { "jobs.*.name", "\"\"", SAME },
    { "jobs.0.job_name", "\"alpha\"", SAME },
    { "jobs.*.resumed", "false", SAME },
    { "jobs.*.dataset", "\"data\"", SAME },
    { "jobs.0.order", "\"list\"", SAME },
    { "jobs.0.tenant", "\"operator\"", SAME },
    { "jobs.*.apart", "false", SAME },
    { "jobs.*.passes", "false", SAME },
    { "jobs.0.transport", "\"inline\"", SAME },
    { "jobs.0.world_size", "1", SAME },
    { "jobs.0.ranks", "null", SAME },
    { "jobs.*.epoch", "0", SAME },
    { "jobs.*.epochs", "1", SAME },
    { "jobs.0.epoch_samples", "14", SAME },
    { "jobs.0.epoch_delivered", "8", "0", NULL },
    { "jobs.0.delivered_samples", "8", "14", NULL },
    { "jobs.0.consumed_samples", "4", "14", NULL },
    { "jobs.*.consumed_epoch", "0", SAME },
    { "jobs.0.epoch_consumed", "4", "14", NULL },
    { "jobs.0.rate", "114.286", "0.0", NULL },
    { "jobs.0.window.slots", "3", SAME },
    { "jobs.0.window.batch_size", "4", SAME },
    { "jobs.0.window.drawn_samples", "8", "0", NULL },
    { "jobs.0.window.filled_samples", "8", "0", NULL },
    { "jobs.0.window.sent_batches", "2", "0", NULL },
    { "jobs.0.waiting_on", "\"client\"", "\"nothing\"", NULL },
    { "jobs.0.sharing.places", "8", "14", NULL },
    { "jobs.0.sharing.alone", "8", "14", NULL },
    { "jobs.0.sharing.shared", "0", SAME },
    { "jobs.*.little_shared", "null", SAME },
    { "jobs.0.ring_bytes", "3000", SAME },
    { "jobs.*.single_reads", "0", SAME },
    { "jobs.*.single_bytes", "0", SAME },
    { "jobs.*.reads.bytes", "0", SAME },
    { "jobs.*.reads.pinned_bytes", "0", SAME },
    { "jobs.*.reads.saved_seconds", "0.0", SAME },
    { "jobs.*.reads.epoch", "0", SAME },
    { "jobs.*.reads.epoch_bytes", "0", SAME },
    { "jobs.*.reads.epoch_pinned_bytes", "0", SAME },
    { "jobs.*.reads.epoch_saved_seconds", "0.0", SAME },
    { "jobs.*.tier", "null", SAME },
    { "jobs.*.pool", "null", SAME },
    { "jobs.*.pool_bytes", "0", SAME },
    { "jobs.*.on_bad", "\"drop\"", SAME },
    { "jobs.0.unreadable.count", "0", SAME },
    { "jobs.0.unreadable.samples", "[]", SAME },
    { "jobs.1.job", "8589934593", SAME },
    { "jobs.1.job_name", "null", SAME },
    { "jobs.1.order", "\"shared\"", SAME },
    { "jobs.1.tenant", "\"vision\"", SAME },
    { "jobs.1.transport", "\"ring\"", SAME },
    { "jobs.1.world_size", "1", SAME },
    { "jobs.1.ranks", "null", SAME },
    { "jobs.1.epoch_samples", "40", SAME },
    { "jobs.1.epoch_delivered", "0", SAME },
    { "jobs.1.delivered_samples", "40", SAME },
    { "jobs.1.consumed_samples", "40", SAME },
    { "jobs.1.epoch_consumed", "40", SAME },
    { "jobs.1.rate", "1142.86", "0.0", NULL },
    { "jobs.1.window.slots", "4", SAME },
    { "jobs.1.window.batch_size", "8", SAME },
    { "jobs.1.window.drawn_samples", "0", SAME },
    { "jobs.1.window.filled_samples", "0", SAME },
    { "jobs.1.window.sent_batches", "0", SAME },
    { "jobs.1.waiting_on", "\"nothing\"", SAME },
    { "jobs.1.sharing.places", "40", SAME },
    { "jobs.1.sharing.alone", "25", "0", NULL },
    { "jobs.1.sharing.shared", "15", "40", NULL },
    { "jobs.1.ring_bytes", "16384", SAME },
    { "jobs.1.unreadable.count", "0", SAME },
    { "jobs.1.unreadable.samples", "[]", SAME },
    { "jobs.2.job", "8589934594", SAME },
    { "jobs.2.job_name", "null", SAME },
    { "jobs.2.order", "\"shared\"", SAME },
    { "jobs.2.tenant", "\"vision\"", SAME },
    { "jobs.2.transport", "\"ring\"", SAME },
    { "jobs.2.world_size", "1", SAME },
    { "jobs.2.ranks", "null", SAME },
    { "jobs.2.epoch_samples", "40", SAME },
    { "jobs.2.epoch_delivered", "15", "0", NULL },
    { "jobs.2.delivered_samples", "15", "40", NULL },
    { "jobs.2.consumed_samples", "5", "40", NULL },
    { "jobs.2.epoch_consumed", "5", "40", NULL },
    { "jobs.2.rate", "142.857", "0.0", NULL },
    { "jobs.2.window.slots", "3", SAME },
    { "jobs.2.window.batch_size", "5", SAME },
    { "jobs.2.window.drawn_samples", "15", "0", NULL },
    { "jobs.2.window.filled_samples", "15", "0", NULL },
    { "jobs.2.window.sent_batches", "3", "0", NULL },
    { "jobs.2.waiting_on", "\"client\"", "\"nothing\"", NULL },
    { "jobs.2.sharing.places", "15", "40", NULL },
    { "jobs.2.sharing.alone", "0", SAME },
    { "jobs.2.sharing.shared", "15", "40", NULL },
    { "jobs.2.ring_bytes", "12288", SAME },
    { "jobs.2.unreadable.count", "0", SAME },
    { "jobs.2.unreadable.samples", "[]", SAME },
    { "jobs.3.job", "4294967297", SAME },
    { "jobs.3.job_name", "\"ranks\"", SAME },
    { "jobs.3.order", "\"private\"", SAME },
    { "jobs.3.tenant", "\"audio\"", SAME },
    { "jobs.3.transport", "\"ring\"", SAME },
    { "jobs.3.world_size", "2", SAME },
    { "jobs.3.ranks.0.rank", "0", SAME },
    { "jobs.3.ranks.*.state", "\"here\"", SAME },
    { "jobs.3.ranks.*.transport", "\"ring\"", SAME },
    { "jobs.3.ranks.*.sent_batches", "3", SAME },
    { "jobs.3.ranks.*.consumed_batches", "3", SAME },
    { "jobs.3.ranks.*.lacks_steps", "0", SAME },
    { "jobs.3.ranks.1.rank", "1", SAME },
    { "jobs.3.epoch_samples", "18", SAME },
    { "jobs.3.epoch_delivered", "0", SAME },
    { "jobs.3.delivered_samples", "18", SAME },
    { "jobs.3.consumed_samples", "18", SAME },
    { "jobs.3.epoch_consumed", "18", SAME },
    { "jobs.3.rate", "514.286", "0.0", NULL },
    { "jobs.3.window.slots", "3", SAME },
    { "jobs.3.window.batch_size", "3", SAME },
    { "jobs.3.window.drawn_samples", "0", SAME },
    { "jobs.3.window.filled_samples", "0", SAME },
    { "jobs.3.window.sent_batches", "0", SAME },
    { "jobs.3.waiting_on", "\"nothing\"", SAME },
    { "jobs.3.sharing.places", "19", SAME },
    { "jobs.3.sharing.alone", "19", SAME },
    { "jobs.3.sharing.shared", "0", SAME },
    { "jobs.3.ring_bytes", "12000", SAME },
    { "jobs.3.unreadable.count", "1", SAME },
    { "jobs.3.unreadable.samples.0.id", "65", SAME },
    { "jobs.3.unreadable.samples.0.reason", "\"made unreadable\"", SAME },
    { "uptime_seconds", "0.034", "29.999", "30.999" },
    { "tenants.0.name", "\"operator\"", SAME },
    { "tenants.0.weight", "1", SAME },
    { "tenants.0.jobs", "1", NULL, "0" },
    { "tenants.0.gathering_jobs", "0", SAME },
    { "tenants.0.jobs_max", "32", SAME },
    { "tenants.0.jobs_total", "1", SAME },
    { "tenants.0.ranks", "1", NULL, "0" },
    { "tenants.*.ranks_max", "null", SAME },
    { "tenants.0.batches_bytes", ANY, SAME },
    { "tenants.0.batches_bytes_max", "12500000", SAME },
    { "tenants.*.pools_bytes", "0", SAME },
    { "tenants.0.cache_bytes_max", "32000", SAME },
    { "tenants.0.cache_is_limited", "false", SAME },
    { "tenants.0.delivered", "8", "14", NULL },
    { "tenants.0.prepared", "8", "14", NULL },
    { "tenants.0.dropped", "0", SAME },
    { "tenants.*.ended", "{}", SAME },
    { "tenants.0.cache_bytes", "0", SAME },
    { "tenants.*.evictions", "0", SAME },
    { "tenants.*.prepared_again", "0", SAME },
    { "tenants.*.dropped_unused", "0", SAME },
    { "tenants.0.worker_seconds", "0.0024", "0.0042", NULL },
    { "tenants.*.waiting_samples", "0", SAME },
    { "tenants.1.name", "\"audio\"", SAME },
    { "tenants.1.weight", "2", SAME },
    { "tenants.1.jobs", "1", NULL, "0" },
    { "tenants.1.gathering_jobs", "0", SAME },
    { "tenants.1.jobs_max", "9", SAME },
    { "tenants.1.jobs_total", "1", SAME },
    { "tenants.1.ranks", "2", NULL, "0" },
    { "tenants.1.batches_bytes", ANY, SAME },
    { "tenants.1.batches_bytes_max", "5000000", SAME },
    { "tenants.1.cache_bytes_max", "100000", SAME },
    { "tenants.1.cache_is_limited", "true", SAME },
    { "tenants.1.delivered", "18", SAME },
    { "tenants.1.prepared", "18", SAME },
    { "tenants.1.dropped", "1", SAME },
    { "tenants.1.cache_bytes", "0", SAME },
    { "tenants.1.worker_seconds", "0.0055", SAME },
    { "tenants.2.name", "\"vision\"", SAME },
    { "tenants.2.weight", "5", SAME },
    { "tenants.2.jobs", "2", NULL, "0" },
    { "tenants.2.gathering_jobs", "1", SAME },
    { "tenants.2.jobs_max", "159", SAME },
    { "tenants.2.jobs_total", "2", SAME },
    { "tenants.2.ranks", "2", NULL, "0" },
    { "tenants.2.batches_bytes", ANY, SAME },
    { "tenants.2.batches_bytes_max", "62499999", SAME },
    { "tenants.2.cache_bytes_max", "159999", SAME },
    { "tenants.2.cache_is_limited", "false", SAME },
    { "tenants.2.delivered", "55", "80", NULL },
    { "tenants.2.prepared", "40", SAME },
    { "tenants.2.dropped", "0", SAME },
    { "tenants.2.cache_bytes", "6400", "0", NULL },
    { "tenants.2.worker_seconds", "0.015", "0.02", NULL },
    { "jobs_total", "4", SAME },
    { "prepared", "66", "72", NULL },
    { "delivered", "81", "112", NULL },
    { "prepared_per_delivered", "0.814815", "0.642857", NULL },
    { "cache_hits", "15", "40", NULL },
    { "cache_misses", "67", "73", NULL },
    { "cache_bytes", "6400", "0", NULL },
    { "cache_bytes_max", "256000", SAME },
    { "cache_versions", "25", "0", NULL },
    { "raw_bytes", "0", SAME },
    { "raw_bytes_max", "0", SAME },
    { "evictions", "0", SAME },
    { "prepared_again", "0", SAME },
    { "dropped_unused", "0", SAME },
    { "ring_bytes", "43672", NULL, "0" },
    { "jobs_bytes", ANY, SAME },
    { "outgoing_bytes", "777", SAME },
    { "jobs_bytes_max", "100000000", SAME },
    { "bad_samples", "1", SAME },
    { "read_failures", "0", SAME },
    { "datasets.0.drawing_alone", "[]", SAME },
    { "jobs", "[]", SAME }
};

//  Looked at by test_waits.c and test_sharing_view.c.
static bool
s_is_of_others (const char *key)
{
    return strcmp (key, "waits") == 0 || strcmp (key, "batch_waits") == 0
        || strcmp (key, "sharing_trees") == 0;
}

static bool
s_fits (const char *pattern, const char *path)
{
    for (; *pattern && (*pattern == '*' || *pattern == *path); pattern++, path++)
        if (*pattern == '*')
            path += strspn (path, "0123456789") - 1;
    return *pattern == *path;
}

typedef struct {
    int moment;
    bool is_seen [sizeof s_all / sizeof *s_all];
} look_t;

//  A list has its members, and an empty one is told itself.
static void
s_look (look_t *self, const char *path, const json_t *value)
{
    char below [200];
    const char *key;
    const json_t *member;
    size_t index, row = 0;
    json_object_foreach ((json_t *) value, key, member)
        if (!s_is_of_others (key)) {
            snprintf (below, sizeof below, *path? "%s.%s": "%s%s", path, key);
            s_look (self, below, member);
        }
    json_array_foreach (value, index, member) {
        snprintf (below, sizeof below, "%s.%zu", path, index);
        s_look (self, below, member);
    }
    if (json_array_size (value) + json_object_size (value) > 0)
        return;
    while (row < sizeof s_all / sizeof *s_all && !s_fits (s_all [row].path, path))
        row++;
    char *text = json_dumps (value, JSON_ENCODE_ANY | JSON_REAL_PRECISION (6) | JSON_COMPACT);
    assert_non_null (text);
    if (row == sizeof s_all / sizeof *s_all)
        fail_msg ("%s is %s, and nothing is expected", path, text);
    const told_t *all = &s_all [row];
    const char *expected = self->moment == 2 && all->gone? all->gone:
        self->moment > 0 && all->resting? all->resting: all->running;
    if (strcmp (expected, ANY) != 0 && strcmp (text, expected) != 0)
        fail_msg ("moment %d: %s is %s, not %s", self->moment, path, text, expected);
    self->is_seen [row] = true;
    free (text);
}

static json_int_t
s_number (const json_t *object, const char *key)
{
    assert_true (json_is_integer (json_object_get (object, key)));
    return json_integer_value (json_object_get (object, key));
}

//  What the jobs take, with their books, each for its own tenant; vision has something beside its jobs.
static void
s_look_at_bytes (simulation_t *simulation, const json_t *status)
{
    json_int_t expected [3] = { 0, 0, 777 }, all = 0;
    for (int client = 0; client < 5; client++) {
        const job_t *job = simulation_job (simulation, client);
        if (job && client < 4) {        //  the last one is the other rank of the fourth
            expected [tenant_number (job_tenant (job))] += (json_int_t) job->life.memory_bytes;
            all += (json_int_t) job->life.memory_bytes;
        }
    }
    for (size_t tenant = 0; tenant < 3; tenant++)
        assert_int_equal (s_number (json_array_get (json_object_get (status, "tenants"), tenant),
            "batches_bytes"), expected [tenant]);
    assert_int_equal (s_number (status, "jobs_bytes"), all);
    assert_true (all == 0 || all > s_number (status, "ring_bytes"));
}

//  Must hold: each job is told what its clients got, each tenant what its jobs did, and the server what all
//  did; nothing is told of another, in another unit or twice.  What jobs hold is given back with them, and
//  what was counted stays counted.
static void
test_all_that_is_told (void **state)
{
    static const int64_t times_ms [] = { 35, 30000, 31000 };
    (void) state;
    simulation_t *simulation = s_begin ();
    look_t look = { .moment = 0 };
    for (; look.moment < 3; look.moment++) {
        for (int client = 0; look.moment == 2 && client < 5; client++)
            simulation_gone (simulation, client);
        simulation_run (simulation, times_ms [look.moment] * MS);
        json_t *status = broker_status (simulation_broker (simulation), NULL, times_ms [look.moment]);
        s_look (&look, "", status);
        s_look_at_bytes (simulation, status);
        json_decref (status);
    }
    for (size_t row = 0; row < sizeof s_all / sizeof *s_all; row++)
        if (!look.is_seen [row])
            fail_msg ("%s is not told", s_all [row].path);
    simulation_destroy (&simulation);
}

//  Must hold: a job is told no less than the operator is told of it, but for what devices did for it.
static void
test_what_its_tenant_is_told (void **state)
{
    (void) state;
    simulation_t *simulation = s_begin ();
    broker_t *broker = simulation_broker (simulation);
    simulation_run (simulation, 35 * MS);
    json_t *all = broker_status (broker, NULL, 35), *jobs = json_object_get (all, "jobs"),
        *told = broker_status (broker, tenant_named (broker, "vision"), 35);
    for (size_t job = 1; job <= 2; job++)
        json_object_del (json_array_get (jobs, job), "reads");
    json_array_remove (jobs, 3);
    json_array_remove (jobs, 0);
    assert_true (json_equal (json_object_get (told, "jobs"), jobs));
    json_t *tenant = json_array_get (json_object_get (all, "tenants"), 2);
    json_object_del (tenant, "dropped_unused");
    assert_true (json_equal (json_object_get (told, "tenant"), tenant));
    static const char *const keys [] = { "policy", "uptime_seconds" };
    for (size_t key = 0; key < 2; key++)
        assert_true (json_equal (json_object_get (told, keys [key]), json_object_get (all, keys [key])));
    assert_int_equal (json_object_size (told), 5);
    json_decref (all);
    json_decref (told);
    simulation_destroy (&simulation);
}

//  ---- the rate

static double
s_rate_at (simulation_t *simulation, int64_t now_ms)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, now_ms);
    double rate = json_real_value (json_object_get (json_array_get (json_object_get (status, "jobs"), 0),
        "rate"));
    json_decref (status);
    return rate;
}

//  Must hold: the rate is that of the last ten seconds: it follows a job that stops, within them, down to
//  nothing.
static void
test_the_rate_follows_the_job (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (),
        .samples = SAMPLES, .cache_versions = SAMPLES, .workers = 2 };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4, .sample_us = 5 * MS };
    int client = simulation_must_join (simulation, &job);
    for (int64_t second = 1; second <= 25; second++) {
        simulation_run (simulation, second * SECOND_US);
        assert_in_range ((int) s_rate_at (simulation, second * 1000), 190, 210);
    }
    simulation_stop (simulation, client);
    for (int64_t second = 26; second <= 40; second++) {
        broker_advance (simulation_broker (simulation), second * 1000);
        double left = second < 35? (double) (35 - second) / 10: 0;
        assert_in_range ((int) (s_rate_at (simulation, second * 1000) - 200 * left + 21), 0, 42);
    }
    assert_true (s_rate_at (simulation, 40000) == 0);
    simulation_destroy (&simulation);
}

//  ---- what a job waits on

//  Must hold: a client that does not take its ring is named; test_waits.c and test_broker_patience.c have the
//  others.
static void
test_a_client_without_its_ring (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = SAMPLES,
        .workers = 2 };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4, .detached = true };
    simulation_must_join (simulation, &job);
    simulation_run (simulation, MS);
    json_t *status = broker_status (simulation_broker (simulation), NULL, 1);
    assert_string_equal (json_string_value (json_object_get (json_array_get (json_object_get (status, "jobs"),
        0), "waiting_on")), "ring");
    json_decref (status);
    simulation_destroy (&simulation);
}

static int64_t
s_ten_ms (void *context, uint32_t id)
{
    (void) context, (void) id;
    return 10 * MS;
}

//  Must hold: of a window it is told how much is drawn, and how much of that is there.
static void
test_a_window_fills (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = SAMPLES,
        .workers = 1, .cost_us = s_ten_ms };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4 };
    simulation_must_join (simulation, &job);
    for (json_int_t filled = 0; filled < 4; filled++) {
        simulation_run (simulation, filled * 10 * MS + 5 * MS);
        json_t *status = broker_status (simulation_broker (simulation), NULL, 30);
        const json_t *window = json_object_get (json_array_get (json_object_get (status, "jobs"), 0),
            "window");
        assert_int_equal (s_number (window, "drawn_samples"), 12);
        assert_int_equal (s_number (window, "filled_samples"), filled);
        assert_int_equal (s_number (window, "sent_batches"), 0);
        json_decref (status);
    }
    simulation_destroy (&simulation);
}

//  ---- memory that is too small

//  Must hold: what is prepared again because the cache was too small is told as that, of the tenant with the
//  jobs that it is for; nothing is told of another tenant's.
static void
test_losses_are_their_tenants (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (),
        .samples = SAMPLES, .cache_versions = 40, .workers = 2, .tenants = s_tenants, .tenant_count = 2,
        .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t quick = { .tenant = "vision", .batch_size = 4, .slots = 3, .epochs = 1,
        .from = 0, .to = 60 }, slow = quick, other = quick;
    slow.sample_us = 10 * MS;
    other.tenant = NULL;
    other.order = SAMPLER_ORDER_PRIVATE;
    other.from = 60;
    other.to = 80;
    simulation_must_join (simulation, &quick);
    simulation_must_join (simulation, &slow);
    simulation_must_join (simulation, &other);
    simulation_run (simulation, 30 * SECOND_US);
    json_t *status = broker_status (simulation_broker (simulation), NULL, 30000),
        *tenants = json_object_get (status, "tenants");
    static const char *const losses [] = { "evictions", "prepared_again", "dropped_unused" };
    json_int_t again = s_number (status, "prepared_again");
    assert_true (again > 0);
    assert_int_equal (s_number (status, "evictions"), again);
    for (size_t tenant = 0; tenant < 3; tenant++) {
        const json_t *told = json_array_get (tenants, tenant);
        static const json_int_t prepared [] = { 20, 0, 60 };
        assert_int_equal (s_number (told, "prepared"), prepared [tenant] + (tenant == 2? again: 0));
        for (size_t loss = 0; loss < 3; loss++)
            assert_int_equal (s_number (told, losses [loss]), tenant == 2? s_number (status, losses [loss]):
                0);
    }
    json_decref (status);
    simulation_destroy (&simulation);
}

//  ---- a pack

//  The pack's breaks are behind 192 and 384 samples, and a piece ends there.
enum { PACK_SAMPLES = 600, PIECES = 78 };

typedef struct {
    uint64_t reads, read_bytes, cached_bytes, peer_bytes, pinned_bytes, gets, slow_gets;
    double source_s, cached_s, peer_s;
    uint64_t handed_bytes;
} brought_t;

//  What came from the disk's cache, another member and pins, beside what the source gave.
static void
s_answer (void *context, raw_request_t *request)
{
    brought_t *brought = context;
    uint64_t read = ++brought->reads;
    request->read_ns = 1000 + read;
    request->cached_bytes = 10 + read;
    request->cached_ns = 200000 + read;
    request->peer_bytes = 2000 + read;
    request->peer_ns = 30000000 + read;
    request->pinned_bytes = 300000 + read;
    request->saved_ns = 4000000000 + read;
    request->gets = 5;
    request->slow_gets = 2;
    brought->read_bytes += request->read_bytes;
    brought->cached_bytes += request->cached_bytes;
    brought->peer_bytes += request->peer_bytes;
    brought->pinned_bytes += request->pinned_bytes;
    brought->gets += request->gets;
    brought->slow_gets += request->slow_gets;
    brought->source_s += (double) request->read_ns / 1e9;
    brought->cached_s += (double) request->cached_ns / 1e9;
    brought->peer_s += (double) request->peer_ns / 1e9;
}

static int64_t
s_handed (void *context, broker_t *broker, const version_t *version)
{
    brought_t *brought = context;
    (void) broker;
    brought->handed_bytes += version_raw (version)->bytes;
    return PREPARE_US;
}

static void
s_assert_real (const json_t *object, const char *key, double expected)
{
    double told = json_real_value (json_object_get (object, key));
    if (fabs (told - expected) > 1e-6 * fabs (expected))
        fail_msg ("%s is %.9g, not %.9g", key, told, expected);
}

//  Samples have 500 to 1499 bytes here.
static void
s_assert_resident (simulation_t *simulation)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 10);
    const json_t *pack = json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "pack");
    json_int_t samples = s_number (pack, "resident_samples"), bytes = s_number (pack, "resident_bytes"),
        most = s_number (pack, "resident_bytes_max");
    assert_true (samples > 10 && bytes > 500 * samples && bytes < 1500 * samples);
    assert_true (bytes > most / 2 && bytes <= most && most < s_number (status, "raw_bytes_max"));
    assert_in_range (s_number (status, "raw_bytes"), bytes, 200000);
    assert_int_equal (s_number (status, "raw_bytes_max"), 200000);
    assert_string_equal (json_string_value (json_object_get (pack, "policy")), "stream");
    assert_int_equal (s_number (pack, "piece_samples"), 8);
    json_decref (status);
}

//  misses: of the only job, which may be gone.
static void
s_assert_brought (simulation_t *simulation, const brought_t *brought, uint64_t misses, uint64_t miss_bytes)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 30000);
    const json_t *pack = json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "pack");
    const struct { const char *key; uint64_t expected; } counts [] = {
        { "reads", brought->reads }, { "source_bytes", brought->read_bytes },
        { "block_cache_bytes", brought->cached_bytes }, { "peer_bytes", brought->peer_bytes },
        { "bytes_read", brought->read_bytes + brought->cached_bytes + brought->peer_bytes
            + brought->pinned_bytes },
        { "passes", 2 }, { "pieces", 2 * PIECES }, { "discarded", 0 },
        { "gets", brought->gets }, { "slow_gets", brought->slow_gets },
        { "bytes_handed", brought->handed_bytes },
        { "misses", misses },
        { "hits", 2 * PACK_SAMPLES - misses },
        { "memory_bytes", brought->handed_bytes - miss_bytes } };
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++)
        if ((uint64_t) s_number (pack, counts [index].key) != counts [index].expected)
            fail_msg ("%s is %lld, not %llu", counts [index].key,
                (long long) s_number (pack, counts [index].key),
                (unsigned long long) counts [index].expected);
    s_assert_real (pack, "source_seconds", brought->source_s);
    s_assert_real (pack, "block_cache_seconds", brought->cached_s);
    s_assert_real (pack, "peer_seconds", brought->peer_s);
    s_assert_real (pack, "read_amplification", (double) s_number (pack, "bytes_read")
        / (double) brought->handed_bytes);
    json_decref (status);
}

//  Must hold: of a pack it is told where its bytes came from and in which time, how often stores were asked,
//  what was handed out of memory and what was read for that; all of it in bytes, samples or seconds as said.
static void
test_what_a_pack_brought (void **state)
{
    (void) state;
    brought_t brought = { .reads = 0 };
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (),
        .samples = PACK_SAMPLES, .cache_versions = PACK_SAMPLES, .workers = 2, .raw_bytes = 200000,
        .sample_bytes = 1000, .answer = s_answer, .prepare_us = s_handed, .context = &brought,
        .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 20, .slots = 4, .epochs = 2 };
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, 10 * MS);
    s_assert_resident (simulation);
    simulation_run (simulation, 30 * SECOND_US);
    assert_true (simulation_finished (simulation, client));
    const job_t *is = simulation_job (simulation, client);
    uint64_t misses = is->counts.single_reads, miss_bytes = is->counts.single_bytes;
    assert_int_equal (is->counts.reads.all.bytes, brought.read_bytes);
    s_assert_brought (simulation, &brought, misses, miss_bytes);
    simulation_gone (simulation, client);
    simulation_run (simulation, 31 * SECOND_US);
    assert_null (simulation_job (simulation, client));
    s_assert_brought (simulation, &brought, misses, miss_bytes);
    simulation_destroy (&simulation);
}

//  Must hold: of a pack a tenant is told the policy of its reads, and nothing that other tenants' jobs move.
static void
test_a_tenant_is_told_the_policy_of_a_pack (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (),
        .samples = PACK_SAMPLES, .cache_versions = 10, .workers = 2, .raw_bytes = 200000,
        .sample_bytes = 1000, .tenants = s_tenants, .tenant_count = 2, .check = true };
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    json_t *status = broker_status (broker, tenant_named (broker, "vision"), 10);
    json_t *pack = json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "pack");
    assert_string_equal (json_string_value (json_object_get (pack, "policy")), "stream");
    assert_int_equal (json_object_size (pack), 1);
    json_decref (status);
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_all_that_is_told),
        cmocka_unit_test (test_what_its_tenant_is_told),
        cmocka_unit_test (test_the_rate_follows_the_job),
        cmocka_unit_test (test_losses_are_their_tenants),
        cmocka_unit_test (test_a_client_without_its_ring),
        cmocka_unit_test (test_a_window_fills),
        cmocka_unit_test (test_what_a_pack_brought),
        cmocka_unit_test (test_a_tenant_is_told_the_policy_of_a_pack)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

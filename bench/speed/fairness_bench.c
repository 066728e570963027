/*  fairness_bench -- what two tenants get of the workers: the server's broker, tasks and decoder on real
 *  files, without sockets.
 *
 *      fairness_bench [--workers N] [--seconds S] [--weights A:B] [--jobs A:B] [--batch A:B] [--sides A:B]
 *      FOLDER
 *
 *  Tenant a has the workers to itself for a while; then b comes with its jobs.  All jobs take what they can
 *  get, and nothing is shared: each has a seed, and so pixels of its own.  Told are shares of workers'
 *  processor time and of samples, how they stand to the weights, how long a's jobs wait from batch to batch,
 *  alone and beside b, and how long b waited for its first batch.
 */
#include <assert.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "budget.h"
#include "catalogue.h"
#include "clock.h"
#include "dataset_source.h"
#include "job.h"
#include "layout.h"
#include "tasks.h"
#include "tenant.h"

enum { TENANTS = 2, JOBS_MAX = 256, SLOTS = 6, WAITS_MAX = 1 << 20, ERROR_BYTES = 400, POLL_MS = 100 };

typedef struct {
    const char *folder;
    uint32_t workers;
    double seconds;
    long weights [TENANTS], jobs [TENANTS], batches [TENANTS], sides [TENANTS];
} options_t;

typedef struct {
    job_t *job;
    size_t tenant;
    layout_t layout;
    uint8_t *ring;
    int64_t joined_us, last_us;     //  when it began, and got its last batch; 0: none
} client_t;

//  From batch to batch, of all jobs of a tenant.
typedef struct {
    double *ms;
    size_t count;
} wait_list_t;

typedef struct {
    options_t options;
    dataset_source_t source;
    device_t *device;
    broker_t *broker;
    dataset_t *dataset;
    tasks_t *tasks;
    tenant_t *tenants [TENANTS];
    client_t clients [JOBS_MAX];
    size_t client_count;
    wait_list_t waits [TENANTS];
    uint64_t samples [TENANTS];
    double first_ms [TENANTS];      //  that the slowest of its jobs waited for its first batch
    uint64_t runs;
} bench_t;

static void
s_fail (const char *text)
{
    fprintf (stderr, "fairness_bench: %s\n", text);
    exit (1);
}

//  ---- options

static void
s_read_pair (const char *text, long *pair)
{
    if (sscanf (text, "%ld:%ld", &pair [0], &pair [1]) != TENANTS || pair [0] < 1 || pair [1] < 1)
        s_fail ("a pair is two positive numbers: 1:3");
}

static void
s_read_options (options_t *options, int argc, char **argv)
{
    static const struct option known [] = {
        { "workers", required_argument, NULL, 'w' }, { "seconds", required_argument, NULL, 's' },
        { "weights", required_argument, NULL, 'g' }, { "jobs", required_argument, NULL, 'j' },
        { "batch", required_argument, NULL, 'b' }, { "sides", required_argument, NULL, 'd' },
        { NULL, 0, NULL, 0 }
    };
    *options = (options_t) { .workers = (uint32_t) sysconf (_SC_NPROCESSORS_ONLN), .seconds = 10,
        .weights = { 1, 1 },
        .jobs = { 1, 8 }, .batches = { 64, 64 }, .sides = { 224, 224 } };
    for (int option; (option = getopt_long (argc, argv, "", known, NULL)) != -1;)
        switch (option) {
        case 'w': options->workers = (uint32_t) atoi (optarg); break;
        case 's': options->seconds = atof (optarg); break;
        case 'g': s_read_pair (optarg, options->weights); break;
        case 'j': s_read_pair (optarg, options->jobs); break;
        case 'b': s_read_pair (optarg, options->batches); break;
        case 'd': s_read_pair (optarg, options->sides); break;
        default: s_fail ("see the first lines of bench/speed/fairness_bench.c");
        }
    if (optind + 1 != argc || options->workers == 0 || options->seconds <= 0
    ||  options->jobs [0] + options->jobs [1] > JOBS_MAX || options->weights [0] > BROKER_WEIGHT_MAX
    ||  options->weights [1] > BROKER_WEIGHT_MAX)
        s_fail ("one folder of images, at most 256 jobs, weights of at most 1000");
    options->folder = argv [optind];
}

//  ---- a server without sockets

static void
s_start (bench_t *self)
{
    static const char *const names [TENANTS] = { "a", "b" };
    char error [ERROR_BYTES];
    catalogue_options_t folder = { .path = self->options.folder };
    if (catalogue_open (&self->source.catalogue, &folder, error, sizeof error))
        s_fail (error);
    self->source.jpeg_warnings_max = UINT32_MAX;
    self->device = device_new (catalogue_device (self->source.catalogue, 0), NULL, 0);
    assert (self->device);
    device_add_folder (self->device);
    self->source.fields [0] = self->device;
    broker_options_t broker = { .cache_bytes = (size_t) 1 << 30, .workers = self->options.workers,
        .jobs_bytes_max = SIZE_MAX / 2,
        .seed = 1 };
    self->broker = broker_new (&broker);
    self->dataset = dataset_add (self->broker, "data", catalogue_samples (self->source.catalogue),
        BROKER_BAD_DROP, &self->source);
    for (size_t index = 0; index < TENANTS; index++) {
        broker_tenant_t tenant = { .name = names [index], .weight = (uint32_t) self->options.weights [index],
            .jobs_max = JOBS_MAX };
        self->tenants [index] = tenant_add (self->broker, &tenant);
        tenant_allow (self->broker, self->tenants [index], self->dataset);
        self->waits [index].ms = calloc (WAITS_MAX, sizeof (double));
        assert (self->waits [index].ms);
    }
    tasks_options_t tasks = { .broker = self->broker, .workers = self->options.workers,
        .devices = &self->device,
        .device_count = 1, .buffer_bytes = 1 << 24 };
    const char *path;
    if (tasks_new (&self->tasks, &tasks, &path))
        s_fail ("the threads cannot be started");
}

static void
s_join (bench_t *self, size_t tenant)
{
    char text [128], error [ERROR_BYTES], run [WIRE_RUN_BYTES + 1];
    long side = self->options.sides [tenant];
    snprintf (text, sizeof text,
        "[{\"op\":\"random_resized_crop\",\"size\":[%ld,%ld]},{\"share\":true},{\"op\":\"flip\"}]",
        side, side);
    snprintf (run, sizeof run, "%032llx", (unsigned long long) ++self->runs);
    const pipeline_t *pipeline;
    json_t *list = json_loads (text, 0, NULL);
    if (pipeline_new (&pipeline, list, NULL, NULL, 0, error, sizeof error))
        s_fail (error);
    json_decref (list);
    client_t *client = &self->clients [self->client_count++];
    uint32_t batch = (uint32_t) self->options.batches [tenant];
    *client = (client_t) { .tenant = tenant, .joined_us = (int64_t) (clock_now_ns () / 1000) };
    if (layout_of (&client->layout, pipeline, self->source.catalogue, batch))
        s_fail ("such batches are too large");
    client->ring = malloc (SLOTS * client->layout.slot_bytes);
    assert (client->ring);
    broker_terms_t join = { .tenant = self->tenants [tenant], .dataset = self->dataset, .pipeline = pipeline,
        .world_size = 1,
        .batch_size = batch, .slots = SLOTS, .order = SAMPLER_ORDER_SEEDED, .seed = self->runs,
        .slot_bytes = client->layout.slot_bytes, .fresh_run = run };
    refusal_t refusal;
    client->job = broker_join (self->broker, &join, clock_now_ms (), &refusal);
    if (!client->job)
        s_fail (refusal.message);
    pipeline_destroy (&pipeline);
    rank_set_user (job_rank (client->job, 0), client, false);
    broker_attached (self->broker, job_rank (client->job, 0), clock_now_ms ());
}

static void
s_receive (bench_t *self, rank_t *rank, const wire_batch_t *batch)
{
    client_t *client = rank_user (rank);
    int64_t now_us = (int64_t) (clock_now_ns () / 1000);
    wait_list_t *waits = &self->waits [client->tenant];
    self->samples [client->tenant] += batch->count;
    if (client->last_us && waits->count < WAITS_MAX)
        waits->ms [waits->count++] = (double) (now_us - client->last_us) / 1000;
    double since_ms = (double) (now_us - client->joined_us) / 1000;
    if (!client->last_us && since_ms > self->first_ms [client->tenant])
        self->first_ms [client->tenant] = since_ms;
    client->last_us = now_us;
    wire_progress_t progress = { .consumed = batch->sequence + 1, .released = batch->sequence + 1 };
    refusal_t refusal;
    if (!broker_progress (self->broker, rank, &progress, now_us / 1000, &refusal))
        s_fail (refusal.message);
}

static void
s_carry_out (bench_t *self, const action_t *action)
{
    client_t *client = action->rank? rank_user (action->rank): NULL;
    if (action->kind == ACTION_PREPARE)
        tasks_prepare (self->tasks, action->version);
    if (action->kind == ACTION_COPY)
        tasks_copy (self->tasks, action->row, &client->layout,
            client->ring + row_slot (action->row) * client->layout.slot_bytes);
    if (action->kind == ACTION_SEND_BATCH)
        s_receive (self, action->rank, &action->batch);
    if (action->kind == ACTION_SEND_ENDED)
        s_fail (action->message);
    if (action->kind == ACTION_RECLAIM)
        broker_reclaim (self->broker, action->job);
}

static void
s_turn (bench_t *self)
{
    action_t action;
    int descriptors [TASKS_DESCRIPTORS];
    struct pollfd items [TASKS_DESCRIPTORS];
    tasks_collect (self->tasks, clock_now_ms ());
    broker_advance (self->broker, clock_now_ms ());
    while (broker_next (self->broker, &action))
        s_carry_out (self, &action);
    tasks_descriptors (self->tasks, descriptors);
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [index] = (struct pollfd) { .fd = descriptors [index], .events = POLLIN };
    if (broker_wakeup (self->broker) > clock_now_ms ())
        poll (items, TASKS_DESCRIPTORS, POLL_MS);
}

static void
s_stop (bench_t *self)
{
    for (size_t index = 0; index < self->client_count; index++)
        broker_gone (self->broker, self->clients [index].job);
    tasks_stop (self->tasks);
    for (action_t action; broker_next (self->broker, &action);)
        if (action.kind == ACTION_RECLAIM)
            broker_reclaim (self->broker, action.job);
    tasks_destroy (&self->tasks);
    broker_destroy (&self->broker);
    catalogue_destroy (&self->source.catalogue);
    for (size_t index = 0; index < self->client_count; index++)
        free (self->clients [index].ring);
    for (size_t index = 0; index < TENANTS; index++)
        free (self->waits [index].ms);
}

//  ---- measuring

typedef struct {
    double seconds, worker [TENANTS], samples [TENANTS], median_ms, p99_ms;     //  of a's waits
} measured_t;

static int
s_compare (const void *one, const void *other)
{
    double difference = *(const double *) one - *(const double *) other;
    return (difference > 0) - (difference < 0);
}

static double
s_quantile (wait_list_t *waits, double part)
{
    if (waits->count == 0)
        return 0;
    qsort (waits->ms, waits->count, sizeof *waits->ms, s_compare);
    return waits->ms [(size_t) (part * (double) (waits->count - 1))];
}

static measured_t
s_measure (bench_t *self, double seconds)
{
    measured_t measured;
    double start = clock_seconds (CLOCK_MONOTONIC);
    for (size_t index = 0; index < TENANTS; index++) {
        measured.worker [index] = -(double) tenant_worker_ns (self->broker, self->tenants [index]) / 1e9;
        measured.samples [index] = -(double) self->samples [index];
        self->waits [index].count = 0;
    }
    while (clock_seconds (CLOCK_MONOTONIC) - start < seconds)
        s_turn (self);
    measured.seconds = clock_seconds (CLOCK_MONOTONIC) - start;
    for (size_t index = 0; index < TENANTS; index++) {
        measured.worker [index] += (double) tenant_worker_ns (self->broker, self->tenants [index]) / 1e9;
        measured.samples [index] += (double) self->samples [index];
    }
    measured.median_ms = s_quantile (&self->waits [0], 0.5);
    measured.p99_ms = s_quantile (&self->waits [0], 0.99);
    return measured;
}

static void
s_report (const bench_t *self, const measured_t *alone, const measured_t *both)
{
    const options_t *options = &self->options;
    double worker = both->worker [0] + both->worker [1], samples = both->samples [0] + both->samples [1];
    double weights = (double) (options->weights [0] + options->weights [1]);
    printf ("workers %u, tasks in flight at most %zu; a alone: %.0f samples/s, workers busy %.2f of %u; from "
        "batch to batch %.1f ms (median), %.1f ms (p99)\n", options->workers, budget_tasks_max (self->broker),
        alone->samples [0] / alone->seconds, alone->worker [0] / alone->seconds, options->workers,
        alone->median_ms, alone->p99_ms);
    printf ("b came: its slowest job's first batch after %.0f ms\n", self->first_ms [1]);
    for (size_t index = 0; index < TENANTS; index++) {
        double due = (double) options->weights [index] / weights, share = both->worker [index] / worker;
        printf ("%s: weight %ld, %ld jobs, batches of %ld, sides of %ld: %.3f s of workers (share %.4f, due "
            "%.4f, ratio %.4f), %.0f samples/s (share %.4f)\n", tenant_name (self->tenants [index]),
            options->weights [index], options->jobs [index],
            options->batches [index], options->sides [index], both->worker [index], share, due, share / due,
            both->samples [index] / both->seconds, both->samples [index] / samples);
    }
    printf ("beside b, a's jobs: from batch to batch %.1f ms (median), %.1f ms (p99); workers busy %.2f of "
        "%u\n", both->median_ms, both->p99_ms, worker / both->seconds, options->workers);
}

int
main (int argc, char **argv)
{
    static bench_t self;
    s_read_options (&self.options, argc, argv);
    s_start (&self);
    for (long number = 0; number < self.options.jobs [0]; number++)
        s_join (&self, 0);
    s_measure (&self, 1);                   //  the files come to memory, workers learn what tasks take
    measured_t alone = s_measure (&self, self.options.seconds / 2);
    for (long number = 0; number < self.options.jobs [1]; number++)
        s_join (&self, 1);
    s_measure (&self, 1);
    measured_t both = s_measure (&self, self.options.seconds);
    s_report (&self, &alone, &both);
    s_stop (&self);
    return 0;
}

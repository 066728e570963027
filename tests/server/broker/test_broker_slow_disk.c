//  The broker with two data sets, of one of which no read ever ends, or each fails: the other's jobs go on,
//  through whole epochs, in little memory, while nothing of the first comes; and when it comes at last, its
//  jobs go on too.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <cmocka.h>
#include "broker.h"
#include "budget.h"
#include "job.h"
#include "tenant.h"
#include "version.h"

enum { SAMPLES = 700, SAMPLE_BYTES = 1000, BATCH = 16, SLOTS = 32, FEW_SLOTS = 4, CACHE_BYTES = 1 << 20,
    VERSION_BYTES = 256, WORKERS = 2, EPOCHS = 2, JOBS_MAX = 4, KEPT_MAX = 4096, SLOW_JOB_QUOTA_MAX = 20000 };

typedef enum { SLOW, QUICK, DATASETS } which_t;

typedef struct {
    job_t *job;
    which_t which;
    uint64_t epochs, delivered;
} client_t;

typedef struct {
    broker_t *broker;
    dataset_t *datasets [DATASETS];
    uint32_t order [SAMPLES];
    client_t clients [JOBS_MAX];
    size_t client_count;
    uint32_t slots;
    int64_t now_ms;
    bool comes;                     //  the slow disk's reads end
    bool fails;                     //  or fail
    action_t kept [KEPT_MAX];       //  reads and preparations of the slow one
    size_t kept_count;
} scene_t;

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    (void) user;
    return SAMPLE_BYTES + id % 7;
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    (void) user;
    return pool_samples > 4? 4: 1;
}

static void
s_begin (scene_t *self, bool slow_is_packed, bool quick_is_packed, size_t cache_bytes, uint32_t slots)
{
    static const uint32_t breaks [1];
    *self = (scene_t) { .slots = slots };
    broker_options_t options = { .raw_bytes = 400 * SAMPLE_BYTES, .cache_bytes = cache_bytes,
        .workers = WORKERS,
        .jobs_bytes_max = 1 << 28, .seed = 5 };
    self->broker = broker_new (&options);
    for (uint32_t id = 0; id < SAMPLES; id++)
        self->order [id] = id;
    for (which_t which = SLOW; which < DATASETS; which++) {
        dataset_t *dataset = dataset_add (self->broker, which == SLOW? "slow": "quick", SAMPLES,
            BROKER_BAD_DROP, NULL);
        self->datasets [which] = dataset;
        broker_pack_t pack = { .order = self->order, .breaks = breaks, .break_count = 1,
            .sample_bytes = s_sample_bytes,
            .piece = s_piece, .policy = RAW_STREAM, .chunk = 8, .read_bytes_max = 64 * SAMPLE_BYTES };
        size_t least;
        if (which == SLOW? slow_is_packed: quick_is_packed)
            assert_true (dataset_set_pack (self->broker, dataset, &pack, &least));
    }
}

static void
s_join (scene_t *self, which_t which, sampler_order_t order)
{
    const pipeline_t *pipeline;
    pipeline_source_t source = { .fields = { { .name = "image" } }, .count = 1 };
    json_t *list = json_loads ("[{\"op\":\"decode\"},{\"op\":\"resize\",\"size\":[2,3]}]", 0, NULL);
    char error [256], run [33];
    snprintf (run, sizeof run, "%032zx", self->client_count + 1);
    if (pipeline_new (&pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    broker_terms_t join = { .dataset = self->datasets [which], .pipeline = pipeline, .world_size = 1,
        .batch_size = BATCH,
        .slots = self->slots, .slot_bytes = 4096, .order = order, .seed = 3, .fresh_run = run };
    refusal_t refusal;
    client_t *client = &self->clients [self->client_count++];
    *client = (client_t) { .job = broker_join (self->broker, &join, 0, &refusal), .which = which };
    assert_non_null (client->job);
    rank_set_user (job_rank (client->job, 0), client, false);
    broker_attached (self->broker, job_rank (client->job, 0), 0);
    pipeline_destroy (&pipeline);
}

static void
s_end_read (scene_t *self, raw_request_t *request)
{
    for (uint32_t index = 0; index < request->sample_count; index++)
        memset (request->samples [index]->memory, 1, request->samples [index]->bytes);
    request->read_bytes = SAMPLE_BYTES;
    broker_read (self->broker, request);
}

static void
s_end_slow (scene_t *self, const action_t *action)
{
    if (action->kind == ACTION_READ)
        s_end_read (self, action->request);
    else {
        broker_fetched (self->broker, action->version);
        broker_prepared (self->broker, action->version, OUTCOME_READY, NULL);
    }
}

static void
s_fail_slow (scene_t *self, const action_t *action)
{
    if (action->kind == ACTION_READ)
        broker_unread_range (self->broker, action->request, -EIO, "made to fail", self->now_ms);
    else
        broker_unread (self->broker, action->version, -EIO, "made to fail", self->now_ms);
}

//  What is under way of the slow disk ends, well or not.
static void
s_end_kept (scene_t *self)
{
    size_t count = self->kept_count;
    self->kept_count = 0;
    for (size_t index = 0; index < count; index++)
        if (self->fails)
            s_fail_slow (self, &self->kept [index]);
        else
            s_end_slow (self, &self->kept [index]);
}

//  What needs the slow disk waits for it; bytes of a pack are there when a version is to be prepared.
static bool
s_is_slow (const scene_t *self, const action_t *action)
{
    if (action->kind == ACTION_READ)
        return dataset_of_request (self->broker, action->request) == self->datasets [SLOW];
    return action->kind == ACTION_PREPARE && !version_raw (action->version)
        && version_dataset (self->broker, action->version) == self->datasets [SLOW];
}

static void
s_receive (scene_t *self, rank_t *rank, const wire_batch_t *batch)
{
    client_t *client = rank_user (rank);
    client->delivered += batch->count;
    wire_progress_t progress = { .consumed = batch->sequence + 1, .released = batch->sequence + 1 };
    refusal_t refusal;
    assert_true (broker_progress (self->broker, rank, &progress, 1, &refusal));
}

static void
s_carry_out (scene_t *self, const action_t *action)
{
    if (self->fails && s_is_slow (self, action))
        s_fail_slow (self, action);
    else
    if (!self->comes && s_is_slow (self, action)) {
        assert_true (self->kept_count < KEPT_MAX);
        self->kept [self->kept_count++] = *action;
    }
    else
    if (action->kind == ACTION_READ || action->kind == ACTION_PREPARE)
        s_end_slow (self, action);
    else
    if (action->kind == ACTION_COPY)
        broker_copied (self->broker, action->row);
    else
    if (action->kind == ACTION_SEND_BATCH)
        s_receive (self, action->rank, &action->batch);
    else
    if (action->kind == ACTION_SEND_EPOCH_END)
        ((client_t *) rank_user (action->rank))->epochs++;
    else
    if (action->kind == ACTION_RECLAIM)
        broker_reclaim (self->broker, action->job);
}

static bool
s_have_epochs (const scene_t *self, which_t which, uint64_t epochs)
{
    bool all = true;
    for (size_t index = 0; index < self->client_count; index++)
        all = all && (self->clients [index].which != which || self->clients [index].epochs >= epochs);
    return all;
}

static void
s_turn (scene_t *self)
{
    broker_advance (self->broker, ++self->now_ms);
    broker_check (self->broker);
    for (action_t action; broker_next (self->broker, &action);)
        s_carry_out (self, &action);
}

//  With much asked of the slow disk.
static void
s_ask_much (scene_t *self)
{
    for (int turn = 0; turn < 100; turn++) {
        dataset_set_fetches (self->broker, self->datasets [SLOW], 100);
        s_turn (self);
    }
}

static void
s_run (scene_t *self, which_t which, uint64_t epochs)
{
    for (int64_t turn = 0; turn < SLOW_JOB_QUOTA_MAX && !s_have_epochs (self, which, epochs); turn++)
        s_turn (self);
    if (!s_have_epochs (self, which, epochs))
        fail_msg ("%s stands still: %zu reads and preparations of the slow disk are under way",
            which == SLOW? "slow": "quick", self->kept_count);
}

static void
s_end (scene_t *self)
{
    for (size_t index = 0; index < self->client_count; index++)
        broker_gone (self->broker, self->clients [index].job);
    for (action_t action; broker_next (self->broker, &action);)
        s_carry_out (self, &action);
    broker_destroy (&self->broker);
}

//  The quick one's jobs come through whole epochs while enough is asked of the slow one to fill every queue
//  there is; and the slow one's do when it comes.
static void
s_block_no_tenant (int kind, size_t cache_bytes, uint32_t slots)
{
    const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SEEDED };
    scene_t *scene = calloc (1, sizeof *scene);
    assert_non_null (scene);
    s_begin (scene, kind & 1, kind & 2, cache_bytes, slots);
    s_join (scene, SLOW, orders [kind >> 2]);
    s_join (scene, SLOW, orders [kind >> 2]);
    s_ask_much (scene);
    assert_true (scene->kept_count > 0);
    s_join (scene, QUICK, orders [kind >> 2]);
    s_join (scene, QUICK, SAMPLER_ORDER_PRIVATE);
    s_run (scene, QUICK, EPOCHS);
    for (size_t index = 0; index < scene->client_count; index++)
        if (scene->clients [index].which == SLOW)
            assert_int_equal (scene->clients [index].delivered, 0);
    scene->comes = true;
    s_end_kept (scene);
    s_run (scene, SLOW, EPOCHS);
    s_end (scene);
    free (scene);
}

//  Guards: whatever the two are, and however their jobs draw, in much memory and in little, which the quick
//  one's samples go through again and again, with windows of any size.
static void
test_a_slow_disk_delays_no_other_job (void **state)
{
    (void) state;
    const size_t versions [] = { CACHE_BYTES / VERSION_BYTES, 400, 100, 24, WORKERS + 1 };
    for (int kind = 0; kind < 8; kind++)
        for (size_t size = 0; size < sizeof versions / sizeof *versions; size++)
            if (size == 0 || kind == 0 || (int) size == kind % 5)
                s_block_no_tenant (kind, versions [size] * VERSION_BYTES, size == 0? SLOTS: FEW_SLOTS);
}

//  Guards: a folder of which more is worth reading at once has that much under way, and the others what they
//  had.  With a second tenant, none has more than keeps the workers busy.
static void
test_a_deep_queue_is_filled (void **state)
{
    (void) state;
    for (int tenants = 1; tenants <= 2; tenants++) {
        scene_t *scene = calloc (1, sizeof *scene);
        assert_non_null (scene);
        s_begin (scene, false, false, CACHE_BYTES, SLOTS);
        if (tenants == 2)
            tenant_add (scene->broker, &(broker_tenant_t) { .name = "second", .weight = 1 });
        const size_t least = 4 * WORKERS + 8, asked [] = { 1, 100, 100000 },
            had [] = { least, 100, BROKER_FETCHES_MAX };
        s_join (scene, SLOW, SAMPLER_ORDER_SHARED);
        for (int step = 0; step < 3; step++) {
            dataset_set_fetches (scene->broker, scene->datasets [SLOW], asked [step]);
            broker_advance (scene->broker, ++scene->now_ms);
            broker_check (scene->broker);
            for (action_t action; broker_next (scene->broker, &action);)
                s_carry_out (scene, &action);
            assert_int_equal (scene->kept_count, tenants == 2? least: had [step]);
        }
        assert_true (budget_tasks_max (scene->broker) >= scene->kept_count);
        s_join (scene, QUICK, SAMPLER_ORDER_SHARED);
        s_run (scene, QUICK, 1);
        scene->comes = true;
        s_end_kept (scene);
        s_run (scene, SLOW, 1);
        s_end (scene);
        free (scene);
    }
}

static json_int_t
s_reads_at_rest (scene_t *self)
{
    json_t *status = broker_status (self->broker, NULL, self->now_ms);
    assert_int_equal (json_integer_value (json_object_get (status, "bad_samples")), 0);
    json_t *trouble = json_object_get (json_array_get (json_object_get (status, "datasets"), SLOW),
        "trouble");
    assert_true (json_is_true (json_object_get (trouble, "still")));
    json_int_t count = json_integer_value (json_object_get (trouble, "failing"));
    json_decref (status);
    return count;
}

//  Guards: a data set that stands still has nothing under way but what tries it, so that all that was asked
//  of its disk can be under way again when that is back; and the quick one goes on meanwhile.
static void
test_a_disk_that_fails_delays_no_other_job (void **state)
{
    (void) state;
    const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SEEDED };
    for (int kind = 0; kind < 8; kind++) {
        scene_t *scene = calloc (1, sizeof *scene);
        assert_non_null (scene);
        s_begin (scene, kind & 1, kind & 2, CACHE_BYTES, SLOTS);
        for (int job = 0; job < 2; job++)
            s_join (scene, SLOW, orders [kind >> 2]);
        s_join (scene, QUICK, orders [kind >> 2]);
        s_ask_much (scene);
        size_t under_way = scene->kept_count;
        scene->fails = true;
        s_end_kept (scene);
        assert_true (s_reads_at_rest (scene) > 0);
        s_run (scene, QUICK, EPOCHS);
        assert_true (s_reads_at_rest (scene) > 0);
        assert_int_equal (scene->clients [0].delivered, 0);
        scene->fails = false;
        for (int turn = 0; turn < SLOW_JOB_QUOTA_MAX && scene->kept_count == 0; turn++)
            s_turn (scene);
        assert_in_range (scene->kept_count, 1, 2);
        s_end_kept (scene);
        s_ask_much (scene);
        assert_int_equal (scene->kept_count, under_way);
        scene->comes = true;
        s_end_kept (scene);
        s_run (scene, SLOW, EPOCHS);
        s_end (scene);
        free (scene);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_slow_disk_delays_no_other_job),
        cmocka_unit_test (test_a_deep_queue_is_filled),
        cmocka_unit_test (test_a_disk_that_fails_delays_no_other_job)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

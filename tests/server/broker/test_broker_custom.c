//  The broker with operations of the operator's own, all but one of which never end: jobs without them, and
//  those with the one, go on through whole epochs of the same data, in the least memory; and when the others
//  end at last, their jobs go on too.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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

enum { SAMPLES = 500, SAMPLE_BYTES = 1000, BATCH = 16, SLOTS = 8, WORKERS = 2, EPOCHS = 2, TURNS_MAX = 20000,
    VERSION_BYTES = 256 };

//  All but the last job have operations, by their numbers; those before WORKS hang.
enum { WORKS = CUSTOM_MAX - 1, PLAIN, CLIENTS };

typedef struct {
    broker_t *broker;
    dataset_t *dataset;
    custom_t customs [CUSTOM_MAX];
    uint32_t order [SAMPLES];
    tenant_t *other;                //  NULL: there is one tenant
    job_t *jobs [CLIENTS];
    uint64_t epochs [CLIENTS], delivered [CLIENTS];
    int64_t now_ms;
    bool ends;                      //  those that hang do
    version_t *kept [64];           //  that are with them
    size_t kept_count, kept_of [CUSTOM_MAX];
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
s_begin (scene_t *self, bool is_packed, size_t cache_bytes, bool has_two_tenants)
{
    static const uint32_t breaks [1];
    broker_options_t options = { .raw_bytes = 400 * SAMPLE_BYTES, .cache_bytes = cache_bytes,
        .workers = WORKERS, .customs = CUSTOM_MAX, .jobs_bytes_max = 1 << 28, .seed = 5 };
    self->broker = broker_new (&options);
    self->dataset = dataset_add (self->broker, "train", SAMPLES, BROKER_BAD_DROP, NULL);
    if (has_two_tenants) {
        self->other = tenant_add (self->broker, &(broker_tenant_t) { .name = "other", .weight = 1 });
        tenant_allow (self->broker, self->other, self->dataset);
    }
    for (uint32_t number = 0; number < CUSTOM_MAX; number++)
        self->customs [number] = (custom_t) { .name = { (char) ('a' + number) }, .number = number };
    for (uint32_t id = 0; id < SAMPLES; id++)
        self->order [id] = id;
    broker_pack_t pack = { .order = self->order, .breaks = breaks, .break_count = 1,
        .sample_bytes = s_sample_bytes, .piece = s_piece, .policy = RAW_STREAM, .chunk = 8,
        .read_bytes_max = 64 * SAMPLE_BYTES };
    size_t least;
    if (is_packed)
        assert_true (dataset_set_pack (self->broker, self->dataset, &pack, &least));
}

static void
s_join (scene_t *self, unsigned which)
{
    const pipeline_t *pipeline;
    pipeline_source_t source = { .fields = { { .name = "image" } }, .count = 1, .customs = self->customs,
        .custom_count = CUSTOM_MAX };
    json_t *list = which == PLAIN? json_pack ("[{s:s, s:[i,i]}]", "op", "resize", "size", 2, 3):
        json_pack ("[{s:s, s:s, s:[i,i]}]", "op", "custom", "name", self->customs [which].name, "size", 2, 3);
    char error [256], run [33];
    snprintf (run, sizeof run, "%032x", which + 1);
    if (pipeline_new (&pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    broker_terms_t join = { .dataset = self->dataset, .tenant = which == PLAIN? self->other: NULL,
        .pipeline = pipeline, .world_size = 1, .batch_size = BATCH, .slots = SLOTS, .slot_bytes = 4096,
        .fresh_run = run };
    refusal_t refusal;
    self->jobs [which] = broker_join (self->broker, &join, 0, &refusal);
    assert_non_null (self->jobs [which]);
    rank_set_user (job_rank (self->jobs [which], 0), &self->epochs [which], false);
    broker_attached (self->broker, job_rank (self->jobs [which], 0), 0);
    pipeline_destroy (&pipeline);
}

static void
s_prepare (scene_t *self, version_t *version)
{
    const custom_t *custom = pipeline_custom (version_pipeline (self->broker, version));
    if (!version_raw (version))
        broker_fetched (self->broker, version);
    if (!custom || custom->number == WORKS || self->ends)
        broker_prepared (self->broker, version, OUTCOME_READY, NULL);
    else {
        assert_true (self->kept_of [custom->number]++ < budget_custom_max (WORKERS));
        self->kept [self->kept_count++] = version;
    }
}

static void
s_carry_out (scene_t *self, const action_t *action)
{
    refusal_t refusal;
    if (action->kind == ACTION_READ) {
        for (uint32_t index = 0; index < action->request->sample_count; index++)
            memset (action->request->samples [index]->memory, 1, action->request->samples [index]->bytes);
        broker_read (self->broker, action->request);
    }
    else
    if (action->kind == ACTION_PREPARE)
        s_prepare (self, action->version);
    else
    if (action->kind == ACTION_COPY)
        broker_copied (self->broker, action->row);
    else
    if (action->kind == ACTION_SEND_BATCH) {
        uint64_t *epochs = rank_user (action->rank);
        self->delivered [epochs - self->epochs] += action->batch.count;
        wire_progress_t progress = { .consumed = action->batch.sequence + 1,
            .released = action->batch.sequence + 1 };
        assert_true (broker_progress (self->broker, action->rank, &progress, 1, &refusal));
    }
    else
    if (action->kind == ACTION_SEND_EPOCH_END)
        ++*(uint64_t *) rank_user (action->rank);
    else
    if (action->kind == ACTION_RECLAIM)
        broker_reclaim (self->broker, action->job);
}

static void
s_carry_out_all (scene_t *self)
{
    for (action_t action; broker_next (self->broker, &action);)
        s_carry_out (self, &action);
}

static void
s_run (scene_t *self, unsigned which, uint64_t until)
{
    for (int turn = 0; turn < TURNS_MAX && self->epochs [which] < until; turn++) {
        broker_advance (self->broker, ++self->now_ms);
        broker_check (self->broker);
        s_carry_out_all (self);
    }
    if (self->epochs [which] < until)
        fail_msg ("job %u stands still: %zu versions are with operations", which, self->kept_count);
}

static void
s_hold_up_nothing (bool is_packed, size_t cache_bytes)
{
    scene_t *scene = calloc (1, sizeof *scene);
    assert_non_null (scene);
    s_begin (scene, is_packed, cache_bytes, false);
    for (unsigned which = 0; which < WORKS; which++)
        s_join (scene, which);
    for (int turn = 0; turn < 100; turn++) {
        broker_advance (scene->broker, ++scene->now_ms);
        s_carry_out_all (scene);
    }
    assert_int_equal (scene->kept_count, WORKS * budget_custom_max (WORKERS));
    s_join (scene, WORKS);
    s_join (scene, PLAIN);
    s_run (scene, WORKS, EPOCHS);
    s_run (scene, PLAIN, EPOCHS);
    for (unsigned which = 0; which < WORKS; which++)
        assert_int_equal (scene->delivered [which], 0);
    scene->ends = true;
    for (size_t index = 0; index < scene->kept_count; index++)
        broker_prepared (scene->broker, scene->kept [index], OUTCOME_READY, NULL);
    for (unsigned which = 0; which < WORKS; which++)
        s_run (scene, which, EPOCHS);
    for (unsigned which = 0; which < CLIENTS; which++)
        broker_gone (scene->broker, scene->jobs [which]);
    s_carry_out_all (scene);
    broker_destroy (&scene->broker);
    free (scene);
}

//  Guards: of files and of a pack, in much memory and in the least.
static void
test_operations_that_hang_hold_up_their_own_jobs_alone (void **state)
{
    (void) state;
    size_t least = budget_cache_least (budget_hands (WORKERS, CUSTOM_MAX), VERSION_BYTES);
    for (int is_packed = 0; is_packed < 2; is_packed++) {
        s_hold_up_nothing (is_packed, 1 << 20);
        s_hold_up_nothing (is_packed, least);
    }
}

static void
s_leave_them_hanging (size_t cache_bytes, outcome_t outcome)
{
    scene_t *scene = calloc (1, sizeof *scene);
    assert_non_null (scene);
    s_begin (scene, false, cache_bytes, true);
    for (unsigned which = 0; which < WORKS; which++)
        s_join (scene, which);
    s_join (scene, PLAIN);
    for (int turn = 0; turn < 20; turn++) {
        broker_advance (scene->broker, ++scene->now_ms);
        s_carry_out_all (scene);
    }
    assert_int_not_equal (scene->kept_count, 0);
    for (size_t index = 0; index < scene->kept_count; index++)
        assert_false (version_abandon (scene->broker, scene->kept [index]));
    for (unsigned which = 0; which < WORKS; which++)
        broker_gone (scene->broker, scene->jobs [which]);
    s_run (scene, PLAIN, EPOCHS);
    for (size_t index = 0; index < scene->kept_count; index++) {
        if (outcome == OUTCOME_ABANDONED)
            assert_true (version_abandon (scene->broker, scene->kept [index]));
        broker_prepared (scene->broker, scene->kept [index], outcome, NULL);
    }
    broker_gone (scene->broker, scene->jobs [PLAIN]);
    s_carry_out_all (scene);
    broker_check (scene->broker);
    broker_destroy (&scene->broker);
    free (scene);
}

//  Guards: the memory of versions that operations have is another tenant's only when the operations end, as
//  they may when no job wants the versions, and not before.
static void
test_jobs_that_leave_them_hanging_hold_up_no_other_tenant (void **state)
{
    (void) state;
    size_t least = budget_cache_least (budget_hands (WORKERS, CUSTOM_MAX), VERSION_BYTES);
    for (size_t part = 2; part <= 6; part++) {
        s_leave_them_hanging (part * least, OUTCOME_READY);
        s_leave_them_hanging (part * least, OUTCOME_ABANDONED);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_operations_that_hang_hold_up_their_own_jobs_alone),
        cmocka_unit_test (test_jobs_that_leave_them_hanging_hold_up_no_other_tenant)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  What a job is counted for, beside what its join takes of the heap: of each order, over files and a pack.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include <cmocka.h>
#include "broker.h"
#include "dataset.h"
#include "job.h"
#include "pipeline.h"

//  Few samples fit into the raw memory, so that those which the jobs read hardly count.
enum { SAMPLES = 1000000, SAMPLE_BYTES = 100000, RAW_SAMPLES = 4096, BATCH = 16, SLOTS = 2, SLOT_BYTES = 4096,
    POOL = 1024, SET_BYTES = SAMPLES / 8, SMALL_BYTES = 1 << 16, JOBS_MAX = 64 };

typedef struct {
    broker_t *broker;
    sampler_policy_t policy;
    dataset_t *datasets [2];        //  files; a pack
    uint32_t *order, *list;
    const pipeline_t *pipeline;     //  of all jobs: one is mostly room for texts, untouched
    job_t *jobs [JOBS_MAX];
    unsigned joined;
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
    return pool_samples > 16? 2: 1;
}

static size_t
s_held (void)
{
    struct mallinfo2 heap = mallinfo2 ();
    return heap.uordblks + heap.hblkhd;
}

static size_t
s_counted (const scene_t *self)
{
    json_t *status = broker_status (self->broker, NULL, 0);
    json_int_t bytes = json_integer_value (json_object_get (status, "jobs_bytes"))
        - json_integer_value (json_object_get (status, "ring_bytes"));
    json_decref (status);
    return (size_t) bytes;
}

static void
s_begin (scene_t *self, sampler_policy_t policy, raw_policy_t tier)
{
    static const uint32_t breaks [1];
    broker_options_t options = { .raw_bytes = (size_t) RAW_SAMPLES * SAMPLE_BYTES, .cache_bytes = 1 << 20,
        .workers = 2, .jobs_bytes_max = (size_t) 1 << 32, .seed = 5, .policy = policy };
    *self = (scene_t) { .policy = policy, .broker = broker_new (&options),
        .order = malloc (SAMPLES * sizeof (uint32_t)), .list = malloc (SAMPLES * sizeof (uint32_t)) };
    assert_true (self->broker && self->order && self->list);
    for (uint32_t place = 0; place < SAMPLES; place++)
        self->order [place] = self->list [place] = SAMPLES - 1 - place;
    self->datasets [0] = dataset_add (self->broker, "files", SAMPLES, BROKER_BAD_DROP, NULL);
    self->datasets [1] = dataset_add (self->broker, "pack", SAMPLES, BROKER_BAD_DROP, NULL);
    broker_pack_t pack = { .order = self->order, .breaks = breaks, .break_count = 1,
        .sample_bytes = s_sample_bytes, .piece = s_piece, .policy = tier, .chunk = 8,
        .read_bytes_max = 64 * SAMPLE_BYTES };
    size_t least;
    assert_true (dataset_set_pack (self->broker, self->datasets [1], &pack, &least));
    pipeline_source_t source = { .fields = { { .name = "image" } }, .count = 1 };
    json_t *operations = json_pack ("[{s:s, s:[i,i]}]", "op", "resize", "size", 2, 3);
    char error [256];
    if (pipeline_new (&self->pipeline, operations, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (operations);
}

static void
s_end (scene_t *self)
{
    for (unsigned index = 0; index < self->joined; index++)
        broker_gone (self->broker, self->jobs [index]);
    for (action_t action; broker_next (self->broker, &action);) {
        if (action.kind == ACTION_READ)
            broker_read (self->broker, action.request);
        if (action.kind == ACTION_RECLAIM)
            broker_reclaim (self->broker, action.job);
    }
    broker_destroy (&self->broker);
    pipeline_destroy (&self->pipeline);
    free (self->order);
    free (self->list);
}

static void
s_join (scene_t *self, broker_terms_t join)
{
    char run [33];
    snprintf (run, sizeof run, "%032x", self->joined + 1);
    join.pipeline = self->pipeline;
    join.world_size = 1;
    join.batch_size = BATCH;
    join.slots = SLOTS;
    join.slot_bytes = SLOT_BYTES;
    join.fresh_run = run;
    refusal_t refusal;
    job_t *job = broker_join (self->broker, &join, 0, &refusal);
    if (!job)
        fail_msg ("%s", refusal.message);
    self->jobs [self->joined++] = job;
}

static void
s_check (scene_t *self, const char *what, broker_terms_t join)
{
    size_t held = s_held (), counted = s_counted (self);
    s_join (self, join);
    held = s_held () - held;
    counted = s_counted (self) - counted;
    if (held > counted + SMALL_BYTES)
        fail_msg ("%s: %zu bytes are counted, %zu are there", what, counted, held);
    //  Its vertex and its leaf in the tree of `dsa` come with its first draw.
    size_t drawn = self->policy == SAMPLER_POLICY_DSA && join.order == SAMPLER_ORDER_SHARED? 2 * SET_BYTES: 0;
    if (counted > 2 * held + drawn + SMALL_BYTES)
        fail_msg ("%s: %zu bytes are counted, only %zu are there", what, counted, held);
}

static void
s_check_orders (sampler_policy_t policy, raw_policy_t tier)
{
    scene_t scene;
    s_begin (&scene, policy, tier);
    roaring_bitmap_t *subset = roaring_bitmap_create ();
    for (uint32_t id = 0; id < SAMPLES; id += 2)
        roaring_bitmap_add (subset, id);
    for (int which = 0; which < 2; which++) {
        dataset_t *dataset = scene.datasets [which];
        //  What the data set has for all its jobs is there from the first one on.
        s_join (&scene, (broker_terms_t) { .dataset = dataset });
        s_join (&scene, (broker_terms_t) { .dataset = dataset, .subset = subset });
        s_check (&scene, "shared", (broker_terms_t) { .dataset = dataset });
        s_check (&scene, "private", (broker_terms_t) { .dataset = dataset, .order = SAMPLER_ORDER_PRIVATE });
        s_check (&scene, "ascending", (broker_terms_t) { .dataset = dataset, .order = SAMPLER_ORDER_LIST });
        s_check (&scene, "list", (broker_terms_t) { .dataset = dataset, .order = SAMPLER_ORDER_LIST,
            .list = scene.list, .list_count = SAMPLES });
        s_check (&scene, "short list", (broker_terms_t) { .dataset = dataset, .order = SAMPLER_ORDER_LIST,
            .list = scene.list, .list_count = SAMPLES / 100 });
        s_check (&scene, "seeded", (broker_terms_t) { .dataset = dataset, .order = SAMPLER_ORDER_SEEDED });
        s_check (&scene, "seeded subset", (broker_terms_t) { .dataset = dataset, .subset = subset,
            .order = SAMPLER_ORDER_SEEDED });
        if (which == 1)
            s_check (&scene, "pool", (broker_terms_t) { .dataset = dataset, .pool = POOL, .subset = subset,
                .order = SAMPLER_ORDER_SEEDED });
    }
    roaring_bitmap_free (subset);
    s_end (&scene);
}

static void
test_a_job_is_counted_for_what_it_takes (void **state)
{
    (void) state;
    size_t before = s_held ();
    void *block = malloc (SMALL_BYTES);
    bool is_told = block && s_held () >= before + SMALL_BYTES;
    free (block);
    if (!is_told)
        skip ();                    //  a sanitizer's heap tells nothing
    s_check_orders (SAMPLER_POLICY_FOLLOW, RAW_STREAM);
    s_check_orders (SAMPLER_POLICY_DSA, RAW_STREAM);
    s_check_orders (SAMPLER_POLICY_FOLLOW, RAW_REDOX);
}

//  A pack is refused below the memory that the refusal names, and taken from there on.
static void
test_a_pack_takes_the_least_that_it_names (void **state)
{
    (void) state;
    enum { FEW = 100 };
    static const raw_policy_t policies [] = { RAW_STREAM, RAW_REDOX, RAW_DIRECT };
    static const uint32_t breaks [1];
    uint32_t order [FEW];
    for (uint32_t place = 0; place < FEW; place++)
        order [place] = place;
    for (size_t policy = 0; policy < sizeof policies / sizeof *policies; policy++) {
        broker_pack_t pack = { .order = order, .breaks = breaks, .break_count = 1,
            .sample_bytes = s_sample_bytes, .piece = s_piece, .policy = policies [policy], .chunk = 8,
            .read_bytes_max = 64 * SAMPLE_BYTES };
        size_t named = 0;
        for (int turn = 0; turn < 3; turn++) {
            broker_options_t options = { .raw_bytes = turn? named - 2 + (size_t) turn: SAMPLE_BYTES,
                .cache_bytes = 1 << 20, .workers = 2, .jobs_bytes_max = 1 << 20, .seed = 5 };
            broker_t *broker = broker_new (&options);
            assert_non_null (broker);
            dataset_t *dataset = dataset_add (broker, "pack", FEW, BROKER_BAD_DROP, NULL);
            size_t least = 0;
            assert_int_equal (dataset_set_pack (broker, dataset, &pack, &least), turn == 2);
            assert_true (turn == 0 || least == named);
            named = least;
            broker_destroy (&broker);
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_job_is_counted_for_what_it_takes),
        cmocka_unit_test (test_a_pack_takes_the_least_that_it_names),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

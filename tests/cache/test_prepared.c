//  The prepared cache beside a dumb model, and event by event.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "prepared.h"
#include "seed.h"

static uint64_t
s_random_below (void *random, uint64_t bound)
{
    return test_below (random, bound);
}

static prepared_t *
s_new (size_t budget_bytes, size_t limit_bytes, uint64_t *random)
{
    prepared_options_t options = { .budget_bytes = budget_bytes, .limit_bytes = limit_bytes,
        .random_below = s_random_below, .random = random };
    return prepared_new (&options);
}

//  Guards: the lowest count goes first, whoever came first or last.
static void
test_lowest_count_is_evicted_first (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (100, 30, &random);
    uint32_t counts [] = { 2, 1, 3 };
    for (uint32_t id = 0; id < 3; id++)
        prepared_unpin (prepared, prepared_insert (prepared, 0, id, 0, 10, counts [id]));
    prepared_unpin (prepared, prepared_insert (prepared, 0, 3, 0, 10, 2));
    assert_null (prepared_find (prepared, 0, 1));
    assert_non_null (prepared_find (prepared, 0, 3));
    prepared_unpin (prepared, prepared_insert (prepared, 0, 4, 0, 10, 1));      //  itself the lowest
    assert_null (prepared_find (prepared, 0, 4));
    prepared_count (prepared, prepared_find (prepared, 0, 2), -1);
    prepared_count (prepared, prepared_find (prepared, 0, 2), -1);
    prepared_unpin (prepared, prepared_insert (prepared, 0, 5, 0, 10, 2));
    assert_null (prepared_find (prepared, 0, 2));
    assert_int_equal (prepared_evictions (prepared), 3);
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: among equal counts each is as likely to go.  Chi-square with 10 degrees of freedom over 11,000 trials; false
//  alarms 1e-6 (bound 46.9).
static void
test_ties_are_broken_evenly (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    double gone [11] = { 0 }, sum = 0;
    for (int trial = 0; trial < 11000; trial++) {
        prepared_t *prepared = s_new (10, 10, &random);
        for (uint32_t id = 0; id < 11; id++)
            prepared_unpin (prepared, prepared_insert (prepared, 0, id, 0, 1, 1));
        for (uint32_t id = 0; id < 11; id++)
            gone [id] += !prepared_find (prepared, 0, id);
        prepared_destroy (&prepared);
    }
    for (int id = 0; id < 11; id++)
        sum += (gone [id] - 1000) * (gone [id] - 1000) / 1000;
    assert_true (sum < 46.9);
}

//  Guards: what is evicted while pinned lives on until the last pin, its memory counted; P2, P3.
static void
test_a_pinned_version_outlives_its_eviction (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (20, 10, &random);
    version_t *first = prepared_insert (prepared, 0, 1, 7, 10, 1);
    assert_true (prepared_reserve (prepared, first));
    memset (first->memory, 42, 10);
    version_t *second = prepared_insert (prepared, 0, 2, 0, 10, 2);
    assert_null (prepared_find (prepared, 0, 1));
    assert_int_equal (first->memory [9], 42);
    assert_true (prepared_reserve (prepared, second));
    version_t *third = prepared_insert (prepared, 0, 3, 0, 10, 3);
    assert_false (prepared_reserve (prepared, third));          //  the budget holds, pins or not
    assert_int_equal (prepared_memory_bytes (prepared), 20);
    prepared_unpin (prepared, first);
    assert_true (prepared_reserve (prepared, third));
    prepared_unpin (prepared, second);
    prepared_unpin (prepared, third);
    assert_int_equal (prepared_memory_bytes (prepared), 10);
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: several versions of a sample are all found, other classes' and samples' are not.
static void
test_versions_of_one_sample_are_found (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (1000, 1000, &random);
    for (uint32_t draw = 0; draw < 5; draw++)
        for (uint32_t class = 0; class < 3; class++)
            prepared_unpin (prepared, prepared_insert (prepared, class, 9, draw, 1, 0));
    unsigned draws = 0, found = 0;
    for (version_t *version = prepared_find (prepared, 1, 9); version; version = prepared_find_next (version)) {
        assert_int_equal (version->class, 1);
        draws |= 1u << version->draw;
        found++;
    }
    assert_int_equal (found, 5);
    assert_int_equal (draws, 31);
    prepared_destroy (&prepared);
}

//  ---- property: beside an array of what should be there

enum { MODEL_MAX = 64 };

typedef struct {
    version_t *version;
    uint32_t id, count, pins;
    bool indexed, reserved;
} model_t;

//  Counts in the caller's own field how often a version has left.
static void
s_left (void *context, version_t *version, bool evicted)
{
    (void) evicted;
    (void) context;
    assert_false (version->indexed);
    version->ticket++;
}

static void
s_freed (void *context, const version_t *version)
{
    model_t *models = context;
    assert_int_equal (version->ticket, 1);
    for (int index = 0; index < MODEL_MAX; index++)
        if (models [index].version == version) {
            assert_false (models [index].pins > 0);
            models [index].version = NULL;
            return;
        }
    fail_msg ("an unknown version was freed");
}

//  The versions that the model believes indexed and the cache does not are the evicted ones: each must have had the lowest
//  count there was.
static void
s_follow_evictions (prepared_t *prepared, model_t *models)
{
    uint32_t lowest_left = UINT32_MAX, highest_gone = 0;
    for (int index = 0; index < MODEL_MAX; index++) {
        model_t *model = &models [index];
        if (!model->version || !model->indexed)
            continue;
        bool there = model->version->indexed;
        assert_int_equal (model->version->ticket, there? 0: 1);     //  whoever has left was told of, once
        if (there && model->count < lowest_left)
            lowest_left = model->count;
        if (!there && model->count > highest_gone)
            highest_gone = model->count;
        model->indexed = there;
    }
    assert_true (highest_gone <= lowest_left);
    prepared_check (prepared);
}

static void
s_random_step (prepared_t *prepared, model_t *models, uint64_t *random)
{
    model_t *model = &models [test_below (random, MODEL_MAX)];
    if (!model->version) {
        uint32_t count = (uint32_t) test_below (random, 4), id = (uint32_t) test_below (random, 6);
        //  Entered by hand after, so that a newcomer evicted at once is still known: its pin keeps it.
        version_t *version = prepared_insert (prepared, 0, id, 0, 10, count);
        *model = (model_t) { .version = version, .id = id, .count = count, .pins = 1, .indexed = true };
        return;
    }
    switch (test_below (random, 6)) {
    case 0:
        prepared_pin (model->version);
        model->pins++;
        break;
    case 1:
        model->reserved |= prepared_reserve (prepared, model->version);
        break;
    case 2:
        if (model->indexed && model->count < 5) {
            prepared_count (prepared, model->version, 1);
            model->count++;
        }
        break;
    case 3:
        if (model->indexed && model->count > 0) {
            prepared_count (prepared, model->version, -1);
            model->count--;
        }
        break;
    default:
        if (model->pins > 0) {
            model->pins--;
            prepared_unpin (prepared, model->version);
        }
    }
}

static void
test_random_steps_keep_to_the_model (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + 50; seed < last; seed++) {
        uint64_t random = seed;
        model_t models [MODEL_MAX] = { 0 };
        prepared_t *prepared = s_new (200, 100 + 10 * test_below (&random, 10), &random);
        prepared_on_leave (prepared, s_left, NULL);
        prepared_on_free (prepared, s_freed, models);
        for (int step = 0; step < 2000; step++) {
            if (test_below (&random, 200) == 0) {
                prepared_limit (prepared, 10 * (1 + test_below (&random, 20)));
                s_follow_evictions (prepared, models);
            }
            s_random_step (prepared, models, &random);
            s_follow_evictions (prepared, models);
        }
        size_t memory = 0;
        for (int index = 0; index < MODEL_MAX; index++)
            memory += models [index].version && models [index].reserved? 10: 0;
        assert_int_equal (memory, prepared_memory_bytes (prepared));
        for (int index = 0; index < MODEL_MAX; index++)
            while (models [index].version && models [index].pins > 0) {
                models [index].pins--;
                prepared_unpin (prepared, models [index].version);
            }
        prepared_destroy (&prepared);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_lowest_count_is_evicted_first),
        cmocka_unit_test (test_ties_are_broken_evenly),
        cmocka_unit_test (test_a_pinned_version_outlives_its_eviction),
        cmocka_unit_test (test_versions_of_one_sample_are_found),
        cmocka_unit_test (test_random_steps_keep_to_the_model)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  Guards: status tells a tree for each group of jobs, kept where draws are made from it; a tenant one of its
 *  own jobs alone, and nothing that another tenant's jobs move; the same for a second, unless jobs come or
 *  go; and it counts what it leaves out.
 *
 *  The sampler says which samples each job needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "seed.h"
#include "sharing_view.h"
#include "simulation.h"

enum { SAMPLES = 400, MS = 1000, SECOND_US = 1000 * MS, MANY = 130 };

static simulation_options_t
s_options (sampler_policy_t policy)
{
    static const broker_tenant_t tenants [] = { { .name = "audio", .weight = 1 },
        { .name = "vision", .weight = 1 } };
    return (simulation_options_t) { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 100,
        .workers = 2, .policy = policy, .tenants = tenants, .tenant_count = 2 };
}

//  It holds its first batch for long.
static int
s_join (simulation_t *simulation, const char *tenant, uint32_t from, uint32_t to, sampler_order_t order)
{
    return simulation_must_join (simulation, &(simulated_job_t) { .tenant = tenant, .batch_size = 8,
        .slots = 3, .epochs = 5, .order = order, .from = from, .to = to, .first_us = 1000 * SECOND_US });
}

static json_t *
s_status (simulation_t *simulation, const char *tenant)
{
    broker_t *broker = simulation_broker (simulation);
    json_t *status = broker_status (broker, tenant? tenant_named (broker, tenant): NULL,
        simulation_now_us (simulation) / MS);
    json_t *dataset = json_incref (json_array_get (json_object_get (status, "datasets"), 0));
    json_decref (status);
    return dataset;
}

static json_int_t
s_number (const json_t *object, const char *key)
{
    assert_true (json_is_integer (json_object_get (object, key)));
    return json_integer_value (json_object_get (object, key));
}

static const job_t *
s_job (simulation_t *simulation, json_int_t id)
{
    for (const job_t *job = simulation_broker (simulation)->jobs; job; job = job->next)
        if ((json_int_t) job->id == id)
            return job;
    fail_msg ("there is no job %lld", (long long) id);
    return NULL;
}

static json_int_t
s_count_both (const job_t *one, const job_t *other)
{
    const sampler_t *sampler = one->dataset->sampler;
    json_int_t count = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        count += sampler_needs (sampler, one->consumer.sampler_job, id)
            && sampler_needs (sampler, other->consumer.sampler_job, id);
    return count;
}

//  Every job of the tree is the tenant's, what it has left and shares is right, and sizes add up.
static void
s_check_tree (simulation_t *simulation, const json_t *tree, const char *tenant)
{
    const json_t *pairs = json_object_get (tree, "pairs"), *jobs = json_object_get (pairs, "jobs"), *vertex;
    size_t place;
    json_int_t above = 0;
    json_array_foreach (json_object_get (tree, "vertices"), place, vertex) {
        const json_t *leaf = json_object_get (vertex, "leaf");
        const job_t *job = s_job (simulation, s_number (leaf, "job"));
        above += s_number (vertex, "size");
        assert_int_equal (s_number (leaf, "remaining"), above + s_number (leaf, "size"));
        assert_int_equal (s_number (leaf, "remaining"), s_count_both (job, job));
        assert_true (!tenant || strcmp (job->tenant->name, tenant) == 0);
        if (place == 0)
            assert_true (json_is_null (json_object_get (vertex, "parent")));
        else
            assert_int_equal (s_number (vertex, "parent"), place - 1);
    }
    for (place = 0; place < json_array_size (jobs); place++)
        for (size_t other = 0; other < place; other++)
            assert_int_equal (json_integer_value (json_array_get (json_array_get (json_object_get (pairs,
                "common"), place), other)),
                s_count_both (s_job (simulation, json_integer_value (json_array_get (jobs, place))),
                s_job (simulation, json_integer_value (json_array_get (jobs, other)))));
}

static size_t
s_jobs (const json_t *tree)
{
    return json_array_size (json_object_get (tree, "vertices"))
        + json_array_size (json_object_get (tree, "off_path"));
}

static void
s_tell (sampler_policy_t policy)
{
    simulation_options_t options = s_options (policy);
    simulation_t *simulation = simulation_new (&options);
    s_join (simulation, "audio", 0, 200, SAMPLER_ORDER_SHARED);
    s_join (simulation, "vision", 100, 300, SAMPLER_ORDER_SHARED);
    s_join (simulation, "audio", 210, 300, SAMPLER_ORDER_SHARED);
    s_join (simulation, NULL, 300, 400, SAMPLER_ORDER_SHARED);
    int seeded = s_join (simulation, "vision", 0, 400, SAMPLER_ORDER_SEEDED);
    simulation_run (simulation, 2 * SECOND_US);
    json_t *dataset = s_status (simulation, NULL), *trees = json_object_get (dataset, "sharing_trees"), *tree;
    assert_int_equal (json_array_size (trees), 2);
    tree = json_array_get (trees, 0);
    assert_int_equal (s_jobs (tree), 3);
    assert_true (json_is_true (json_object_get (tree, "kept")) == (policy == SAMPLER_POLICY_DSA));
    s_check_tree (simulation, tree, NULL);
    tree = json_array_get (trees, 1);
    assert_int_equal (s_jobs (tree), 1);
    s_check_tree (simulation, tree, "operator");
    assert_int_equal (json_array_size (json_object_get (dataset, "drawing_alone")), 1);
    assert_int_equal (json_integer_value (json_array_get (json_object_get (dataset, "drawing_alone"), 0)),
        simulation_job_id (simulation, seeded));
    json_decref (dataset);
    //  Two jobs of one tenant that have nothing in common, but for a job of another tenant between them.
    dataset = s_status (simulation, "audio");
    trees = json_object_get (dataset, "sharing_trees");
    assert_int_equal (json_array_size (trees), 1);
    tree = json_array_get (trees, 0);
    assert_true (json_is_false (json_object_get (tree, "kept")));
    assert_int_equal (s_jobs (tree), 2);
    s_check_tree (simulation, tree, "audio");
    assert_int_equal (s_number (json_array_get (json_object_get (tree, "vertices"), 0), "size"), 0);
    assert_int_equal (json_array_size (json_object_get (dataset, "drawing_alone")), 0);
    json_decref (dataset);
    simulation_destroy (&simulation);
}

static void
every_viewer_is_told_its_own (void **state)
{
    (void) state;
    s_tell (SAMPLER_POLICY_DSA);
    s_tell (SAMPLER_POLICY_FOLLOW);
}

//  A job of another tenant is there or not: nothing changes for this one, under `dsa` either.  (Rounds that
//  another one needs fill this one's windows.  The first two such jobs do that.)  Equal jobs stand by their
//  ids: the younger one has the lower number in the sampler, where another tenant's job was.
static void
others_do_not_show (void **state)
{
    enum { FILLING = 2, TURNS = 4, EQUAL = 24 };        //  EQUAL: a job's memory holds all of them
    (void) state;
    simulation_options_t options = s_options (SAMPLER_POLICY_DSA);
    simulation_t *simulation = simulation_new (&options);
    int gone = s_join (simulation, "vision", 0, 400, SAMPLER_ORDER_SHARED);
    int old = s_join (simulation, "audio", 0, EQUAL, SAMPLER_ORDER_SHARED);
    s_join (simulation, "audio", 0, 200, SAMPLER_ORDER_SHARED);
    s_join (simulation, "audio", 100, 300, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, SECOND_US);
    simulation_leave (simulation, gone);
    simulation_run (simulation, 2 * SECOND_US);
    int young = s_join (simulation, "audio", 0, EQUAL, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, 3 * SECOND_US);
    assert_true (simulation_job (simulation, young)->consumer.sampler_job
        < simulation_job (simulation, old)->consumer.sampler_job);
    json_t *first = NULL;
    for (int turn = 0; turn < TURNS; turn++) {
        int client = s_join (simulation, "vision", 0, 400, SAMPLER_ORDER_SHARED);
        simulation_run (simulation, (4 * turn + 6) * SECOND_US);
        json_t *beside = s_status (simulation, "audio");
        simulation_leave (simulation, client);
        simulation_run (simulation, (4 * turn + 8) * SECOND_US);
        json_t *alone = s_status (simulation, "audio");
        assert_true (json_equal (alone, beside));
        const json_t *jobs = json_object_get (json_object_get (json_array_get (json_object_get (alone,
            "sharing_trees"), 0), "pairs"), "jobs");
        assert_int_equal (json_integer_value (json_array_get (jobs, 0)), simulation_job_id (simulation, old));
        assert_int_equal (json_integer_value (json_array_get (jobs, 1)),
            simulation_job_id (simulation, young));
        if (turn == FILLING)
            first = json_incref (alone);
        assert_true (turn <= FILLING || json_equal (alone, first));
        json_decref (alone);
        json_decref (beside);
    }
    json_decref (first);
    simulation_destroy (&simulation);
}

//  A picture is kept for a second, and made again when a job has come.
static void
a_second_long (void **state)
{
    (void) state;
    simulation_options_t options = s_options (SAMPLER_POLICY_FOLLOW);
    simulation_t *simulation = simulation_new (&options);
    int client = simulation_must_join (simulation, &(simulated_job_t) { .batch_size = 8, .slots = 3,
        .epochs = 1, .sample_us = 20 * MS });
    simulation_run (simulation, 2 * SECOND_US);
    const dataset_t *dataset = simulation_dataset (simulation);
    json_t *one = s_status (simulation, NULL);
    const sharing_picture_t *picture = dataset->pictures;
    uint64_t consumed = simulation_consumed (simulation, client);
    simulation_run (simulation, 2900 * MS);
    json_t *other = s_status (simulation, NULL);
    assert_true (simulation_consumed (simulation, client) > consumed);
    assert_ptr_equal (dataset->pictures, picture);
    assert_true (json_equal (one, other));
    json_decref (other);
    simulation_run (simulation, 3000 * MS);
    other = s_status (simulation, NULL);
    assert_false (json_equal (json_object_get (one, "sharing_trees"),
        json_object_get (other, "sharing_trees")));
    json_decref (one);
    s_join (simulation, NULL, 0, 100, SAMPLER_ORDER_SHARED);
    one = s_status (simulation, NULL);
    assert_int_equal (s_jobs (json_array_get (json_object_get (one, "sharing_trees"), 0)), 2);
    //  Each viewer has its own, and what is of before goes.
    json_decref (one);
    assert_int_equal (sharing_view_kept (dataset), 1);
    json_decref (s_status (simulation, "audio"));
    json_decref (s_status (simulation, NULL));
    assert_int_equal (sharing_view_kept (dataset), 2);
    simulation_run (simulation, 5 * SECOND_US);
    json_decref (s_status (simulation, "audio"));
    assert_int_equal (sharing_view_kept (dataset), 1);
    json_decref (other);
    simulation_destroy (&simulation);
}

//  EXPLAIN tells of the picture that status keeps, and keeps one if there is none; a place only of a kept
//  tree.
static void
s_explain (sampler_policy_t policy)
{
    simulation_options_t options = s_options (policy);
    options.tenant_count = 0;
    simulation_t *simulation = simulation_new (&options);
    int first = s_join (simulation, NULL, 0, 200, SAMPLER_ORDER_SHARED);
    for (int job = 0; job < 7; job++)
        s_join (simulation, NULL, 0, 200, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, 2 * SECOND_US);
    const dataset_t *dataset = simulation_dataset (simulation);
    const job_t *job = simulation_job (simulation, first);
    int64_t now_ms = simulation_now_us (simulation) / MS;
    char *text = sharing_view_words (job, NULL, now_ms), *again;
    const sharing_picture_t *picture = dataset->pictures;
    assert_int_equal (sharing_view_kept (dataset), 1);
    json_decref (s_status (simulation, NULL));
    again = sharing_view_words (job, NULL, now_ms + SHARING_VIEW_MS - 1);
    assert_ptr_equal (dataset->pictures, picture);
    assert_string_equal (text, again);
    if (policy == SAMPLER_POLICY_DSA)
        assert_non_null (strstr (text, "in the tree of data set"));
    else
        assert_non_null (strstr (text, "the job is one of 8 of data set"));
    assert_non_null (strstr (text, ", and at most "));
    assert_non_null (strstr (text, " with each of 2 others"));
    assert_null (strstr (text, "about"));
    free (text);
    free (again);
    simulation_destroy (&simulation);
}

//  Jobs that stand on the path of the tree have places of their own, from 1 on.
static void
an_explanation_counts_places_from_one (void **state)
{
    (void) state;
    enum { JOBS = 4 };
    simulation_options_t options = s_options (SAMPLER_POLICY_DSA);
    options.tenant_count = 0;
    simulation_t *simulation = simulation_new (&options);
    for (int job = 0; job < JOBS; job++)
        s_join (simulation, NULL, 0, 200, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, 2 * SECOND_US);
    bool is_taken [JOBS + 1] = { false };
    size_t found = 0;
    for (int job = 0; job < JOBS; job++) {
        size_t place, all;
        char *text = sharing_view_words (simulation_job (simulation, job), NULL,
            simulation_now_us (simulation) / MS);
        if (sscanf (text, "the job stands at place %zu of %zu", &place, &all) == 2) {
            assert_in_range (all, 1, JOBS);
            assert_in_range (place, 1, all);
            assert_false (is_taken [place]);
            is_taken [place] = true;
            found++;
        }
        free (text);
    }
    assert_true (found > 0);
    simulation_destroy (&simulation);
}

static size_t
s_occurrences (const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr (text, part)); text += strlen (part))
        count++;
    return count;
}

//  Each of few other jobs is told with what it shares, by commas and the last one by "and".
static void
s_explain_few (sampler_policy_t policy, size_t others)
{
    simulation_options_t options = s_options (policy);
    options.tenant_count = 0;
    simulation_t *simulation = simulation_new (&options);
    int first = s_join (simulation, NULL, 0, 200, SAMPLER_ORDER_SHARED);
    for (size_t other = 0; other < others; other++)
        s_join (simulation, NULL, 0, 200, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, 2 * SECOND_US);
    char *text = sharing_view_words (simulation_job (simulation, first), NULL,
        simulation_now_us (simulation) / MS);
    char *shares = strstr (text, "it shares ");
    assert_non_null (shares);
    shares [strcspn (shares, ";")] = 0;
    if (s_occurrences (shares, " with job ") != others || s_occurrences (shares, " and ") != (others > 1)
    ||  s_occurrences (shares, ", ") != (others > 2? others - 2: 0))
        fail_msg ("of %zu others: %s", others, shares);
    free (text);
    simulation_destroy (&simulation);
}

static void
an_explanation_names_few_others (void **state)
{
    (void) state;
    for (size_t others = 1; others <= 5; others++) {
        s_explain_few (SAMPLER_POLICY_DSA, others);
        s_explain_few (SAMPLER_POLICY_FOLLOW, others);
    }
}

static void
an_explanation_tells_the_same (void **state)
{
    (void) state;
    s_explain (SAMPLER_POLICY_DSA);
    s_explain (SAMPLER_POLICY_FOLLOW);
}

//  In large data sizes are estimates, and told as such; what lies in a kept tree's leaf is not one.
static void
s_estimate (sampler_policy_t policy)
{
    simulation_options_t options = s_options (policy);
    options.tenant_count = 0;
    options.samples = 1000000;
    simulation_t *simulation = simulation_new (&options);
    int first = s_join (simulation, NULL, 0, 600000, SAMPLER_ORDER_SHARED);
    s_join (simulation, NULL, 200000, 900000, SAMPLER_ORDER_SHARED);
    s_join (simulation, NULL, 0, 1000000, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, 2 * SECOND_US);
    json_t *dataset = s_status (simulation, NULL);
    const json_t *tree = json_array_get (json_object_get (dataset, "sharing_trees"), 0);
    assert_true (s_number (tree, "looked_at") < s_number (tree, "ids"));
    json_decref (dataset);
    char *text = sharing_view_words (simulation_job (simulation, first), NULL,
        simulation_now_us (simulation) / MS);
    assert_non_null (strstr (text, "it shares about "));
    const char *leaf = strstr (text, "are in its leaf");
    assert_true (leaf || policy == SAMPLER_POLICY_DSA);         //  else it may be beside the tree
    assert_true (!leaf || (strstr (text, "; about ") != NULL) == (policy == SAMPLER_POLICY_FOLLOW));
    free (text);
    simulation_destroy (&simulation);
}

static void
estimates_are_told_as_such (void **state)
{
    (void) state;
    s_estimate (SAMPLER_POLICY_DSA);
    s_estimate (SAMPLER_POLICY_FOLLOW);
}

//  More jobs than pairs are told of.
static void
what_is_left_out_is_counted (void **state)
{
    (void) state;
    simulation_options_t options = s_options (SAMPLER_POLICY_DSA);
    options.tenant_count = 0;
    simulation_t *simulation = simulation_new (&options);
    for (uint32_t job = 0; job < MANY; job++)
        s_join (simulation, NULL, job, 300 + job % 100, SAMPLER_ORDER_SHARED);
    simulation_run (simulation, 2 * SECOND_US);
    json_t *dataset = s_status (simulation, NULL);
    const json_t *tree = json_array_get (json_object_get (dataset, "sharing_trees"), 0),
        *pairs = json_object_get (tree, "pairs"), *row;
    assert_int_equal (s_jobs (tree), MANY);
    size_t told = 0, index;
    json_array_foreach (json_object_get (pairs, "common"), index, row)
        told += json_array_size (row);
    assert_int_equal (json_array_size (json_object_get (pairs, "jobs")), SHARING_VIEW_JOBS_MAX);
    assert_int_equal (told, SHARING_VIEW_JOBS_MAX * (SHARING_VIEW_JOBS_MAX - 1) / 2);
    assert_int_equal (s_number (pairs, "left_out"), MANY * (MANY - 1) / 2 - told);
    s_check_tree (simulation, tree, NULL);
    json_decref (dataset);
    simulation_destroy (&simulation);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (every_viewer_is_told_its_own),
        cmocka_unit_test (others_do_not_show),
        cmocka_unit_test (a_second_long),
        cmocka_unit_test (an_explanation_counts_places_from_one),
        cmocka_unit_test (an_explanation_names_few_others),
        cmocka_unit_test (an_explanation_tells_the_same),
        cmocka_unit_test (estimates_are_told_as_such),
        cmocka_unit_test (what_is_left_out_is_counted),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  The cache of tenants, with the broker: what is a tenant's stays, and its limit holds.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "budget.h"
#include "seed.h"
#include "simulation.h"

enum { SAMPLES = 600, CACHE = 120, FITS = 40, GREEDY = 4, LIMITED = 25, SECOND_US = 1000000 };

static const char s_one [] = "[{\"op\":\"center_crop\",\"size\":[1,1]},{\"share\":true},{\"op\":\"flip\"}]";

//  What the status says of the tenant.
static uint64_t
s_figure (simulation_t *simulation, const char *tenant, const char *key)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0), *one;
    uint64_t figure = UINT64_MAX;
    size_t index;
    json_array_foreach (json_object_get (status, "tenants"), index, one)
        if (strcmp (json_string_value (json_object_get (one, "name")), tenant) == 0)
            figure = (uint64_t) json_integer_value (json_object_get (one, key));
    json_decref (status);
    assert_true (figure != UINT64_MAX);
    return figure;
}

//  "modest" has data that fit in its part; "greedy" has more jobs, faster, with a pipeline of its own or the
//  same.
static simulation_t *
s_start (size_t greedy_bytes_max, const char *greedy_pipeline)
{
    static const broker_tenant_t plain [2] = { { .name = "modest", .weight = 1 },
        { .name = "greedy", .weight = 1 } };
    broker_tenant_t tenants [2] = { plain [0], plain [1] };
    tenants [1].cache_bytes_max = greedy_bytes_max;
    simulation_options_t options = { .seed = test_seed (), .policy = SAMPLER_POLICY_FOLLOW,
        .samples = SAMPLES,
        .cache_versions = CACHE, .workers = 2, .tenants = tenants, .tenant_count = 2 };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t modest = { .tenant = "modest", .pipeline = s_one, .batch_size = 4, .slots = 3,
        .sample_us = 2000,
        .order = SAMPLER_ORDER_PRIVATE, .to = FITS };
    simulated_job_t greedy = { .tenant = "greedy", .pipeline = greedy_pipeline, .batch_size = 4, .slots = 3,
        .sample_us = 400,
        .order = SAMPLER_ORDER_PRIVATE };
    assert_true (simulation_join (simulation, &modest) >= 0);
    for (int job = 0; job < GREEDY; job++)
        assert_true (simulation_join (simulation, &greedy) >= 0);
    return simulation;
}

//  Guards: a data set that fits in its tenant's part is prepared once, whatever another does.
static void
test_what_fits_is_prepared_once (void **state)
{
    const char *pipelines [] = { NULL, s_one };
    for (int pipeline = 0; pipeline < 2; pipeline++) {
        (void) state;
        simulation_t *simulation = s_start (0, pipelines [pipeline]);
        simulation_run (simulation, 1 * SECOND_US);
        uint64_t prepared = s_figure (simulation, "modest", "prepared");
        assert_in_range (prepared, 1, FITS);                //  of the same pipeline, some of it the other has
                                                            //  prepared
        simulation_run (simulation, 5 * SECOND_US);
        assert_int_equal (s_figure (simulation, "modest", "prepared"), prepared);
        assert_true (s_figure (simulation, "modest", "delivered") > 20 * FITS);
        assert_true (s_figure (simulation, "greedy", "prepared") > 20 * SAMPLES);
        assert_int_equal (s_figure (simulation, "modest", "prepared_again"), 0);
        assert_true (s_figure (simulation, "greedy", "prepared_again") > SAMPLES);
        assert_true (s_figure (simulation, "greedy", "evictions")
            >= s_figure (simulation, "greedy", "prepared_again"));
        broker_check (simulation_broker (simulation));
        simulation_destroy (&simulation);
    }
}

//  Guards: a tenant's limit holds though there be room, and is told.
static void
test_a_limit_holds (void **state)
{
    (void) state;
    size_t version_bytes = budget_version_cost (3);         //  one pixel
    simulation_t *simulation = s_start (LIMITED * version_bytes, NULL);
    simulation_run (simulation, 2 * SECOND_US);
    uint64_t bytes = s_figure (simulation, "greedy", "cache_bytes");
    assert_in_range (bytes, (LIMITED - 5) * version_bytes, LIMITED * version_bytes);
    assert_int_equal (s_figure (simulation, "greedy", "cache_bytes_max"), LIMITED * version_bytes);
    assert_int_equal (s_figure (simulation, "modest", "cache_bytes"), FITS * version_bytes);
    json_t *status = broker_status (simulation_broker (simulation), NULL, 2 * SECOND_US / 1000);
    size_t index;
    json_t *tenant;
    json_array_foreach (json_object_get (status, "tenants"), index, tenant)
        assert_int_equal (json_is_true (json_object_get (tenant, "cache_is_limited")),
            strcmp (json_string_value (json_object_get (tenant, "name")), "greedy") == 0);
    json_decref (status);
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%" PRIu64 "\n", test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_fits_is_prepared_once),
        cmocka_unit_test (test_a_limit_holds)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

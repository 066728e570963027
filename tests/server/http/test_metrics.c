//  Metrics: names that hold anything, jobs that have gone, workers of one name, both formats.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "metrics.h"

static const char s_status [] = "{\"version\": \"1\", \"delivered\": 100, \"prepared\": 25,"
    "\"draining\": true, \"block_cache\": {\"aside\": true},"
    "\"batch_waits\": {\"bounds\": [0.001, 0.1, 1.0, 10.0], \"read\": {\"counts\": [3, 2, 1, 1, 1],"
    "\"sum\": 4.5},"
    "\"decode\": {\"counts\": [8, 0, 0, 0, 0], \"sum\": 0},"
    "\"copy\": {\"counts\": [8, 0, 0, 0, 0], \"sum\": 0},"
    "\"client\": {\"counts\": [8, 0, 0, 0, 0], \"sum\": 0}},"
    "\"jobs\": [{\"job\": 7, \"name\": \"a\\\\\\\"b\\n\", \"dataset\": \"t\", \"delivered_samples\": 60,"
    "\"ranks\": [{\"waits\": {\"client\": 2}}, {\"waits\": {\"other_rank\": 0.5}}],"
    "\"waits\": {\"read\": 1.5}, \"batch_waits\": {\"bounds\": [1.0], \"batches\": 4,"
    "\"read\": {\"counts\": [3, 1], \"sum\": 3.25}}}],"
    "\"remote_workers\": [{\"name\": \"box\", \"done\": 1}, {\"name\": \"box\", \"done\": 2},"
    "{\"name\": \"box#2\", \"done\": 3}, {\"name\": \"a\\u0007\", \"done\": 4},"
    "{\"name\": \"a\\u001b\", \"done\": 5}],"
    "\"refusals\": {\"busy\": 2}}";

static char *
s_text (bool is_open_metrics)
{
    size_t size;
    json_t *status = json_loads (s_status, 0, NULL);
    assert_non_null (status);
    char *text = metrics_text (status, is_open_metrics, &size);
    json_decref (status);
    assert_non_null (text);
    assert_int_equal (strlen (text), size);
    return text;
}

static void
s_has (const char *text, const char *line)
{
    if (!strstr (text, line))
        fail_msg ("no line `%s` in:\n%s", line, text);
}

static void
what_is_in_them (void **state)
{
    (void) state;
    char *text = s_text (false);
    s_has (text, "\ntureen_samples_delivered_total 100\n");
    s_has (text, "\ntureen_draining 1\n");
    s_has (text, "\ntureen_block_cache_aside 1\n");
    s_has (text, "\n# TYPE tureen_samples_delivered_total counter\n");
    s_has (text, "\ntureen_job_samples_delivered_total{number=\"7\",name=\"a\\\\\\\"b?\",dataset=\"t\"} "
        "60\n");
    s_has (text, "\ntureen_job_samples_delivered_total{number=\"gone\"} 40\n");
    s_has (text, "\ntureen_job_wait_seconds_total{number=\"7\",name=\"a\\\\\\\"b?\",dataset=\"t\","
        "cause=\"read\"} 1.5\n");
    s_has (text, "\ntureen_rank_wait_seconds_total{number=\"7\",rank=\"0\",cause=\"client\"} 2\n"
        "tureen_rank_wait_seconds_total{number=\"7\",rank=\"1\",cause=\"other_rank\"} 0.5\n");
    s_has (text, "\ntureen_batch_wait_seconds_bucket{cause=\"read\",le=\"0.001\"} 3\n"
        "tureen_batch_wait_seconds_bucket{cause=\"read\",le=\"0.1\"} 5\n"
        "tureen_batch_wait_seconds_bucket{cause=\"read\",le=\"1\"} 6\n"
        "tureen_batch_wait_seconds_bucket{cause=\"read\",le=\"10\"} 7\n"
        "tureen_batch_wait_seconds_bucket{cause=\"read\",le=\"+Inf\"} 8\n"
        "tureen_batch_wait_seconds_sum{cause=\"read\"} 4.5\n"
        "tureen_batch_wait_seconds_count{cause=\"read\"} 8\n");
    //  A job's own, and of all batches those that are no present job's.
    s_has (text, "\ntureen_job_batch_wait_seconds_bucket{number=\"7\",cause=\"read\",le=\"1\"} 3\n"
        "tureen_job_batch_wait_seconds_bucket{number=\"7\",cause=\"read\",le=\"+Inf\"} 4\n"
        "tureen_job_batch_wait_seconds_sum{number=\"7\",cause=\"read\"} 3.25\n"
        "tureen_job_batch_wait_seconds_count{number=\"7\",cause=\"read\"} 4\n"
        "tureen_job_batch_wait_seconds_bucket{number=\"gone\",cause=\"read\",le=\"1\"} 3\n"
        "tureen_job_batch_wait_seconds_bucket{number=\"gone\",cause=\"read\",le=\"+Inf\"} 4\n"
        "tureen_job_batch_wait_seconds_sum{number=\"gone\",cause=\"read\"} 1.25\n");
    assert_null (strstr (text, "number=\"7\",cause=\"decode\""));
    s_has (text, "\ntureen_job_batch_wait_seconds_bucket{number=\"gone\",cause=\"decode\",le=\"1\"} 4\n");
    s_has (text, "\ntureen_worker_samples_total{worker=\"box\",result=\"done\"} 1\n"
        "tureen_worker_samples_total{worker=\"box#2\",result=\"done\"} 2\n"
        "tureen_worker_samples_total{worker=\"box#2#2\",result=\"done\"} 3\n"
        "tureen_worker_samples_total{worker=\"a?\",result=\"done\"} 4\n"
        "tureen_worker_samples_total{worker=\"a?#2\",result=\"done\"} 5\n");
    s_has (text, "\ntureen_requests_refused_total{code=\"busy\"} 2\n");
    //  What a viewer may not see is not there, not even as 0.
    assert_null (strstr (text, "tureen_processor_seconds"));
    assert_null (strstr (text, "# EOF"));
    free (text);
}

static void
open_metrics (void **state)
{
    (void) state;
    char *text = s_text (true);
    s_has (text, "\n# TYPE tureen_samples_delivered counter\ntureen_samples_delivered_total 100\n");
    s_has (text, "\ntureen_batch_wait_seconds_bucket{cause=\"read\",le=\"1.0\"} 6\n");
    assert_string_equal (text + strlen (text) - strlen ("\n# EOF\n"), "\n# EOF\n");
    free (text);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (what_is_in_them), cmocka_unit_test (open_metrics)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

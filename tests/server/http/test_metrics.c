//  Metrics: names that hold anything, jobs that have gone, workers of one name, both formats.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
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

//  Each series, its labels beside those of its object, and where its figure stands in the status; "*": of
//  both objects of a list.  A data set is a pack, or it has objects.
static const struct {
    const char *name, *labels, *path;
} s_series [] = {
    { "uptime_seconds", "", "uptime_seconds" },
    { "draining", "", "draining" },
    { "jobs_joined_total", "", "jobs_total" },
    { "samples_prepared_total", "", "prepared" },
    { "samples_delivered_total", "", "delivered" },
    { "cache_lookups_total", "result=\"hit\"", "cache_hits" },
    { "cache_lookups_total", "result=\"miss\"", "cache_misses" },
    { "cache_bytes", "", "cache_bytes" },
    { "cache_limit_bytes", "", "cache_bytes_max" },
    { "cache_evictions_total", "", "evictions" },
    { "cache_losses_total", "", "prepared_again" },
    { "raw_bytes", "", "raw_bytes" },
    { "raw_limit_bytes", "", "raw_bytes_max" },
    { "memory_limit_bytes", "part=\"mixing\"", "memory.mixing_bytes" },
    { "memory_limit_bytes", "part=\"prepared\"", "memory.prepared_bytes" },
    { "memory_limit_bytes", "part=\"pins\"", "memory.pins_bytes" },
    { "memory_limit_bytes", "part=\"pictures\"", "memory.pictures_bytes" },
    { "pinned_memory_bytes", "", "memory.pinned_bytes" },
    { "decoded_memory_bytes", "", "memory.decoded_bytes" },
    { "batches_bytes", "", "jobs_bytes" },
    { "batches_limit_bytes", "", "jobs_bytes_max" },
    { "bad_samples_total", "", "bad_samples" },
    { "read_failures_total", "", "read_failures" },
    { "shortages_total", "", "shortages" },
    { "processor_seconds_total", "", "cpu_seconds" },
    { "workers_lost_total", "", "remote_workers_lost" },
    { "descriptors", "", "descriptors.open" },
    { "descriptors_limit", "", "descriptors.max" },
    { "requests_unanswered_total", "", "unanswered" },
    { "requests_waiting", "", "waiting_requests" },
    { "log_lines_lost_total", "", "log_lines_lost" },
    { "restarts_total", "", "restarts" },
    { "block_cache_bytes", "", "block_cache.bytes" },
    { "block_cache_limit_bytes", "", "block_cache.bytes_max" },
    { "block_cache_aside", "", "block_cache.aside" },
    { "peers_given_bytes_total", "", "cluster.given.bytes" },
    { "peers_given_blocks_total", "", "cluster.given.blocks" },
    { "peers_given_fetched_total", "", "cluster.given.fetched" },
    { "peers_waiting_questions", "", "cluster.given.waiting" },
    { "peers_rejected_total", "", "cluster.given.rejected" },
    { "dataset_samples", "", "datasets.*.samples" },
    { "dataset_bytes", "", "datasets.*.bytes" },
    { "dataset_pinned_bytes", "", "datasets.*.pins.bytes" },
    { "dataset_pinned_saved_seconds_total", "", "datasets.*.pins.saved_seconds" },
    { "dataset_decoded_pictures", "", "datasets.*.pictures.count" },
    { "dataset_decoded_bytes", "", "datasets.*.pictures.bytes" },
    { "dataset_picture_lookups_total", "result=\"hit\"", "datasets.*.pictures.hits" },
    { "dataset_picture_lookups_total", "result=\"miss\"", "datasets.*.pictures.misses" },
    { "dataset_decoding_saved_seconds_total", "", "datasets.*.pictures.saved_seconds" },
    { "dataset_bad_samples", "", "datasets.*.bad_samples" },
    { "dataset_failing_reads", "", "datasets.*.trouble.failing" },
    { "dataset_read_bytes_total", "source=\"storage\"", "datasets.0.pack.source_bytes" },
    { "dataset_read_bytes_total", "source=\"block_cache\"", "datasets.0.pack.block_cache_bytes" },
    { "dataset_read_bytes_total", "source=\"peers\"", "datasets.0.pack.peer_bytes" },
    { "dataset_read_bytes_total", "source=\"pins\"", "datasets.*.pins.hit_bytes" },
    { "dataset_read_bytes_total", "source=\"storage\"", "datasets.1.objects.source_bytes" },
    { "dataset_read_bytes_total", "source=\"block_cache\"", "datasets.1.objects.block_cache_bytes" },
    { "dataset_read_bytes_total", "source=\"peers\"", "datasets.1.objects.peer_bytes" },
    { "dataset_read_seconds_total", "source=\"storage\"", "datasets.0.pack.source_seconds" },
    { "dataset_read_seconds_total", "source=\"block_cache\"", "datasets.0.pack.block_cache_seconds" },
    { "dataset_read_seconds_total", "source=\"peers\"", "datasets.0.pack.peer_seconds" },
    { "dataset_read_seconds_total", "source=\"storage\"", "datasets.1.objects.source_seconds" },
    { "dataset_read_seconds_total", "source=\"block_cache\"", "datasets.1.objects.block_cache_seconds" },
    { "dataset_read_seconds_total", "source=\"peers\"", "datasets.1.objects.peer_seconds" },
    { "dataset_store_requests_total", "", "datasets.0.pack.gets" },
    { "dataset_store_requests_total", "", "datasets.1.objects.gets" },
    { "dataset_store_slow_requests_total", "", "datasets.0.pack.slow_gets" },
    { "dataset_store_slow_requests_total", "", "datasets.1.objects.slow_gets" },
    { "dataset_resident_samples", "", "datasets.0.pack.resident_samples" },
    { "dataset_memory_hits_total", "", "datasets.0.pack.hits" },
    { "dataset_memory_misses_total", "", "datasets.0.pack.misses" },
    { "dataset_handed_bytes_total", "", "datasets.0.pack.bytes_handed" },
    { "job_epoch", "", "jobs.*.consumed_epoch" },
    { "job_epoch_samples", "", "jobs.*.epoch_samples" },
    { "job_epoch_consumed_samples", "", "jobs.*.epoch_consumed" },
    { "job_samples_consumed_total", "", "jobs.*.consumed_samples" },
    { "job_samples_drawn_total", "", "jobs.*.sharing.places" },
    { "job_samples_shared_total", "", "jobs.*.sharing.shared" },
    { "job_read_bytes_total", "", "jobs.*.reads.bytes" },
    { "job_pinned_read_bytes_total", "", "jobs.*.reads.pinned_bytes" },
    { "job_pinned_saved_seconds_total", "", "jobs.*.reads.saved_seconds" },
    { "job_wait_seconds_total", "cause=\"draw\"", "jobs.*.waits.draw" },
    { "job_wait_seconds_total", "cause=\"read\"", "jobs.*.waits.read" },
    { "job_wait_seconds_total", "cause=\"memory\"", "jobs.*.waits.memory" },
    { "job_wait_seconds_total", "cause=\"decode\"", "jobs.*.waits.decode" },
    { "job_wait_seconds_total", "cause=\"copy\"", "jobs.*.waits.copy" },
    { "job_wait_seconds_total", "cause=\"client\"", "jobs.*.waits.client" },
    { "job_window_samples", "state=\"drawn\"", "jobs.*.window.drawn_samples" },
    { "job_window_samples", "state=\"filled\"", "jobs.*.window.filled_samples" },
    { "job_batches_bytes", "", "jobs.*.ring_bytes" },
    { "job_ranks", "", "jobs.*.world_size" },
    { "job_unreadable_samples", "", "jobs.*.unreadable.count" },
    { "rank_wait_seconds_total", "cause=\"draw\"", "jobs.*.ranks.*.waits.draw" },
    { "rank_wait_seconds_total", "cause=\"read\"", "jobs.*.ranks.*.waits.read" },
    { "rank_wait_seconds_total", "cause=\"memory\"", "jobs.*.ranks.*.waits.memory" },
    { "rank_wait_seconds_total", "cause=\"decode\"", "jobs.*.ranks.*.waits.decode" },
    { "rank_wait_seconds_total", "cause=\"copy\"", "jobs.*.ranks.*.waits.copy" },
    { "rank_wait_seconds_total", "cause=\"client\"", "jobs.*.ranks.*.waits.client" },
    { "rank_wait_seconds_total", "cause=\"other_rank\"", "jobs.*.ranks.*.waits.other_rank" },
    { "rank_batches_consumed_total", "", "jobs.*.ranks.*.consumed_batches" },
    { "tenant_jobs", "", "tenants.*.jobs" },
    { "tenant_samples_prepared_total", "", "tenants.*.prepared" },
    { "tenant_samples_delivered_total", "", "tenants.*.delivered" },
    { "tenant_cache_bytes", "", "tenants.*.cache_bytes" },
    { "tenant_batches_bytes", "", "tenants.*.batches_bytes" },
    { "tenant_worker_seconds_total", "", "tenants.*.worker_seconds" },
    { "tenant_waiting_samples", "", "tenants.*.waiting_samples" },
    { "device_reads_limit", "", "devices.*.reads_max" },
    { "device_reads_total", "", "devices.*.observed_reads" },
    { "member_homes", "", "cluster.members.*.homes" },
    { "member_away", "", "cluster.members.*.is_away" },
    { "member_bytes_total", "", "cluster.members.*.bytes" },
    { "member_blocks_total", "", "cluster.members.*.blocks" },
    { "member_seconds_total", "", "cluster.members.*.seconds" },
    { "member_unanswered_total", "reason=\"late\"", "cluster.members.*.late" },
    { "member_unanswered_total", "reason=\"damaged\"", "cluster.members.*.damaged" },
    { "member_unanswered_total", "reason=\"store_quicker\"", "cluster.members.*.store_quicker" },
    { "member_unanswered_total", "reason=\"busy\"", "cluster.members.*.refused.busy" },
    { "member_unanswered_total", "reason=\"full\"", "cluster.members.*.refused.full" },
    { "member_unanswered_total", "reason=\"not_home\"", "cluster.members.*.refused.not_home" },
    { "member_unanswered_total", "reason=\"unknown_data\"", "cluster.members.*.refused.unknown_data" },
    { "member_unanswered_total", "reason=\"failed\"", "cluster.members.*.refused.failed" },
    { "member_unanswered_total", "reason=\"invalid\"", "cluster.members.*.refused.invalid" },
    { "worker_processors", "", "remote_workers.*.processors" },
    { "worker_tasks", "", "remote_workers.*.out" },
    { "worker_samples_total", "result=\"done\"", "remote_workers.*.done" },
    { "worker_samples_total", "result=\"lost\"", "remote_workers.*.lost" },
    { "worker_samples_total", "result=\"taken_back\"", "remote_workers.*.taken_back" },
    { "worker_sent_bytes_total", "", "remote_workers.*.bytes_sent" },
    { "worker_received_bytes_total", "", "remote_workers.*.bytes_received" },
    { "operation_calls_total", "", "operations.*.calls" },
    { "operation_failures_total", "", "operations.*.failures" },
    { "operation_restarts_total", "", "operations.*.restarts" },
    { "operation_seconds_total", "", "operations.*.seconds" },
    { "operation_cpu_seconds_total", "", "operations.*.cpu_seconds" },
    { "operation_processes", "", "operations.*.processes" }
};

//  Puts the number there, with the lists and objects on its way.
static void
s_put (json_t *at, const char *path, int number)
{
    char key [40];
    size_t size = strcspn (path, ".");
    snprintf (key, sizeof key, "%.*s", (int) size, path);
    if (!path [size]) {
        json_object_set_new (at, key, json_integer (number));
        return;
    }
    bool is_list = path [size + 1] >= '0' && path [size + 1] <= '9';
    json_t *below = json_object_get (at, key);
    if (!below)
        json_object_set_new (at, key, below = is_list? json_array (): json_object ());
    path += size + 1;
    if (is_list) {
        size_t index = (size_t) (*path - '0');
        while (json_array_size (below) <= index)
            json_array_append_new (below, json_object ());
        below = json_array_get (below, index);
        path += 2;
    }
    s_put (below, path, number);
}

//  With the object's number in place of each "*".
static void
s_fill (char path [80], const char *pattern, int object)
{
    snprintf (path, 80, "%s", pattern);
    for (char *star = path; (star = strchr (star, '*')); )
        *star = (char) ('0' + object);
}

static int
s_value_of (size_t series, int object)
{
    return 1000 * (object + 1) + (int) series;
}

//  Two of each kind, with a figure of its own everywhere.
static json_t *
s_full_status (void)
{
    static const struct { const char *list, *key; } named [] = { { "datasets", "name" },
        { "tenants", "name" }, { "devices", "device" }, { "remote_workers", "name" },
        { "operations", "name" } };
    json_t *status = json_object ();
    char path [80];
    for (size_t series = 0; series < sizeof s_series / sizeof *s_series; series++)
        for (int object = 0; object < (strchr (s_series [series].path, '*')? 2: 1); object++) {
            s_fill (path, s_series [series].path, object);
            s_put (status, path, s_value_of (series, object));
        }
    for (size_t object = 0; object < 2; object++) {
        const char *name = object? "x1": "x0";
        for (size_t list = 0; list < sizeof named / sizeof *named; list++)
            json_object_set_new (json_array_get (json_object_get (status, named [list].list), object),
                named [list].key, json_string (name));
        json_object_set_new (json_array_get (json_object_get (json_object_get (status, "cluster"), "members"),
            object), "member", json_string (name));
        json_object_set_new (json_array_get (json_object_get (status, "jobs"), object), "job",
            json_integer ((json_int_t) object));
    }
    return status;
}

//  `dataset="x1",source="peers"`.
static void
s_labels_of (char labels [80], const char *path, const char *own)
{
    static const struct { const char *begin, *label; } kinds [] = { { "datasets.", "dataset=\"x%c\"" },
        { "jobs.", "number=\"%c\"" }, { "tenants.", "tenant=\"x%c\"" },
        { "devices.", "device=\"x%c\"" }, { "remote_workers.", "worker=\"x%c\"" },
        { "operations.", "operation=\"x%c\"" }, { "cluster.members.", "member=\"x%c\"" } };
    size_t used = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (strncmp (path, kinds [kind].begin, strlen (kinds [kind].begin)) == 0)
            used += (size_t) snprintf (labels + used, 80 - used, kinds [kind].label,
                path [strlen (kinds [kind].begin)]);
    if (strstr (path, ".ranks."))
        used += (size_t) snprintf (labels + used, 80 - used, ",rank=\"%c\"", strstr (path, ".ranks.") [7]);
    snprintf (labels + used, 80 - used, "%s%s", used && *own? ",": "", own);
}

//  Must hold: each series has the figure that it is named after, of its own object, and is a counter if the
//  figure never falls; and there is no series beside these.
static void
every_series_has_its_figure (void **state)
{
    (void) state;
    for (int is_open_metrics = 0; is_open_metrics < 2; is_open_metrics++) {
        size_t size, expected = 0, found = 0;
        json_t *status = s_full_status ();
        char *text = metrics_text (status, is_open_metrics, &size), path [80], labels [80], line [200];
        assert_non_null (text);
        json_decref (status);
        for (size_t series = 0; series < sizeof s_series / sizeof *s_series; series++)
            for (int object = 0; object < (strchr (s_series [series].path, '*')? 2: 1); object++) {
                const char *name = s_series [series].name, *total = strstr (name, "_total");
                s_fill (path, s_series [series].path, object);
                s_labels_of (labels, path, s_series [series].labels);
                snprintf (line, sizeof line, *labels? "\ntureen_%s{%s} %d\n": "\ntureen_%s%s %d\n", name,
                    labels, s_value_of (series, object));
                s_has (text, line);
                snprintf (line, sizeof line, "\n# TYPE tureen_%.*s %s\n",
                    (int) (total && is_open_metrics? total - name: (int) strlen (name)), name,
                    total? "counter": "gauge");
                s_has (text, line);
                expected++;
            }
        for (const char *at = text; (at = strstr (at, "\ntureen_")); at++)
            found += strncmp (at, "\ntureen_batch_wait", 18) != 0
                && strncmp (at, "\ntureen_job_batch_wait", 22) != 0
                && strncmp (at, "\ntureen_job_samples_delivered", 29) != 0
                && strncmp (at, "\ntureen_build", 13) != 0;
        assert_int_equal (found, expected);
        free (text);
    }
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
        cmocka_unit_test (what_is_in_them), cmocka_unit_test (every_series_has_its_figure),
        cmocka_unit_test (open_metrics)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

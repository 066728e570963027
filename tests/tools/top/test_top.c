//  What `tureen top` shows: rates between two answers, order of the rows, and a server that answers anything.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "answer.h"
#include "top.h"

static json_t *
s_status (double uptime, int delivered)
{
    json_t *slow = json_pack ("{s:i, s:s, s:s, s:f, s:i, s:i, s:{s:f, s:f, s:f, s:f}, s:{s:i, s:i}}", "job",
        1,
        "name", "slow", "dataset", "t", "rate", 5.0, "epoch_samples", 100, "epoch_consumed", 25, "waits",
        "read", uptime / 2, "decode", 0.0, "copy", 0.0, "client", uptime / 2, "sharing", "alone", 30,
        "shared", 10);
    json_t *fast = json_pack ("{s:i, s:s, s:s, s:f, s:{s:i, s:i}}", "job", 2, "name", "fast", "dataset", "t",
        "rate", 50.0, "sharing", "alone", 0, "shared", 0);
    json_t *status = json_pack ("{s:s, s:f, s:i, s:i, s:[o, o]}", "version", "1.2", "uptime_seconds", uptime,
        "delivered", delivered, "prepared", delivered / 2, "jobs", slow, fast);
    assert_non_null (status);
    return status;
}

static void
rates_and_order (void **state)
{
    (void) state;
    json_t *before = s_status (10, 1000), *now = s_status (12, 1400);
    top_view_t view;
    char head [TOP_TEXT_BYTES], words [100];
    assert_true (top_view_make (&view, now, before, TOP_BY_RATE));
    assert_int_equal (view.count, 2);
    assert_string_equal (view.rows [0].name, "fast");
    assert_true (view.rows [0].shared < 0);
    assert_float_equal (view.rows [1].progress, 0.25, 1e-9);
    assert_float_equal (view.rows [1].waits [1], 0.5, 1e-9);
    assert_float_equal (view.rows [1].shared, 0.25, 1e-9);
    top_view_head (&view, head);
    assert_string_equal (head, "tureen 1.2, up for 12 s, 2 jobs, delivered 200/s, prepared 100/s, 2.00 "
        "deliveries of each since the start");
    top_view_words (&view, &view.rows [0], words, sizeof words);
    assert_string_equal (words, "it has drawn nothing yet");
    top_view_clear (&view);
    //  Half of the slow one's time is its own loop, which is no waiting.
    json_object_set_new (json_array_get (json_object_get (now, "jobs"), 1), "waits", json_pack ("{s:f}",
        "read", 2.0));
    assert_true (top_view_make (&view, now, before, TOP_BY_WAIT));
    assert_string_equal (view.rows [0].name, "fast");
    top_view_clear (&view);
    //  Another server answers: what was before does not count.
    assert_true (top_view_make (&view, before, now, TOP_BY_JOB));
    assert_true (view.delivered < 0);
    assert_int_equal (view.rows [0].job, 1);
    top_view_clear (&view);
    json_decref (before);
    json_decref (now);
}

static json_t *
s_whole (double uptime, double read_bytes)
{
    json_t *pack = json_pack ("{s:s, s:i, s:i, s:f, s:i}", "policy", "stream", "hits", 3, "misses", 1,
        "source_bytes", read_bytes, "block_cache_bytes", 0);
    json_t *status = json_pack ("{s:f, s:i, s:i, s:[{s:s, s:i, s:i, s:o, s:i}, {s:s, s:i, s:i, s:i, "
        "s:[{s:s}]}], s:[{s:s, s:s, s:i}], s:[{s:s, s:i, s:f}]}", "uptime_seconds", uptime, "cache_bytes",
        1048576, "cache_bytes_max", 4194304, "datasets", "name", "big", "samples", 500, "bytes", 2048, "pack",
        pack, "bad_samples", 0, "name", "a\033[2J", "samples", 20, "bytes", 10, "bad_samples", 1, "bad",
        "reason", "no\033picture", "remote_workers", "name", "box", "state", "works", "processors", 8,
        "tenants", "name", "vision", "jobs", 2, "worker_seconds", uptime / 2);
    assert_non_null (status);
    return status;
}

//  Guards: what stands in the tables, that they are sorted by any column, and that names cannot move the
//  cursor.
static void
tables (void **state)
{
    (void) state;
    json_t *before = s_whole (10, 1048576), *now = s_whole (12, 5 * 1048576);
    top_view_t view;
    top_table_t table;
    assert_true (top_view_make (&view, now, before, TOP_BY_JOB));
    assert_true (top_table_make (&table, &view, TOP_DATA, 0));
    assert_int_equal (table.count, 2);
    assert_string_equal (table.head, "prepared 1.0 MiB of 4.0 MiB");
    assert_null (strchr (table.rows [0].cells [0], '\033'));
    assert_null (strchr (table.rows [0].words, '\033'));
    assert_non_null (strstr (table.rows [0].words, "picture"));
    static const char *const cells [] = { "big", "500", "2.0 KiB", "pack, stream", "75 %", "2.0 MiB", "0 B",
        "0" };
    for (size_t column = 0; column < table.column_count; column++)
        assert_string_equal (table.rows [1].cells [column], cells [column]);
    top_table_clear (&table);
    assert_true (top_table_make (&table, &view, TOP_DATA, 1));
    assert_string_equal (table.rows [0].cells [0], "big");      //  the largest number first
    assert_string_equal (table.rows [1].cells [5], "-");        //  nothing is known of it
    top_table_clear (&table);
    assert_true (top_table_make (&table, &view, TOP_WORKERS, 0));
    assert_string_equal (table.head, "1 machine lends 8 processors");
    assert_string_equal (table.rows [0].cells [1], "works");
    top_table_clear (&table);
    assert_true (top_table_make (&table, &view, TOP_TENANTS, 0));
    assert_string_equal (table.rows [0].cells [6], "50");       //  per cent of a processor
    top_table_clear (&table);
    top_view_clear (&view);
    json_decref (before);
    json_decref (now);
}

//  Two answers, `turn` seconds apart from the begin: each counter grows by its own number a second.
static json_t *
s_distinct (int turn)
{
    json_t *status = json_pack ("{s:f, s:[{s:s, s:i, s:i, s:{s:s, s:i, s:i, s:i, s:i}, s:i}]}",
        "uptime_seconds", 10.0 + turn, "datasets", "name", "d", "samples", 11, "bytes", 12, "pack", "policy",
        "redox", "hits", 3, "misses", 2, "source_bytes", 13 * turn, "block_cache_bytes", 14 * turn,
        "bad_samples", 15);
    assert_non_null (status);
    json_object_set_new (status, "remote_workers", json_pack ("[{s:s, s:s, s:i, s:f, s:i, s:i, s:i, s:i, s:i,"
        " s:i, s:i}]", "name", "w", "state", "working", "processors", 21, "rate", 22.0, "done", 23, "lost",
        24, "bytes_sent", 25, "bytes_received", 26, "out", 27, "taken_back", 28, "late", 29));
    json_object_set_new (status, "tenants", json_pack ("[{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:i}]",
        "name", "t", "jobs", 31, "prepared", 32 * turn, "delivered", 33 * turn, "cache_bytes", 34,
        "batches_bytes", 35, "worker_seconds", 0.36 * turn, "waiting_samples", 37, "weight", 38));
    json_object_set_new (status, "cluster", json_pack ("{s:[{s:s, s:s, s:f, s:i, s:i, s:{s:i, s:i}}]}",
        "members", "member", "m", "state", "here", "homes", 0.41, "cache_bytes", 42, "bytes", 43 * turn,
        "refused", "busy", 4, "full", 40));
    return status;
}

//  Must hold: the column KIND tells objects of a store from files that the local disk keeps.
static void
kinds_of_data (void **state)
{
    (void) state;
    static const char *const datasets [] = {
        "{'name': 'd', 'folders': ['s3://b/d/'], 'objects': {'gets': 1}}",
        "{'name': 'd', 'folders': ['/data/a', 's3://b/d/'], 'objects': {}, 'pieces': null}",
        "{'name': 'd', 'folders': ['/data'], 'objects': {}, 'pieces': {'reads': 1}}",
        "{'name': 'd', 'folders': ['/data'], 'objects': null}",
        "{'name': 'd', 'folders': ['s3://b/d/'], 'pack': {'policy': 'stream'}}" },
        *const kinds [] = { "objects", "files", "files, pieces", "files", "pack, stream" };
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        char text [200];
        snprintf (text, sizeof text, "%s", datasets [at]);
        for (char *byte = text; *byte; byte++)
            *byte = *byte == '\''? '"': *byte;
        json_t *now = json_pack ("{s:f, s:[o]}", "uptime_seconds", 1.0, "datasets",
            json_loads (text, 0, NULL));
        assert_non_null (now);
        top_view_t view;
        top_table_t table;
        assert_true (top_view_make (&view, now, NULL, TOP_BY_JOB));
        assert_true (top_table_make (&table, &view, TOP_DATA, 0));
        assert_string_equal (table.rows [0].cells [3], kinds [at]);
        top_table_clear (&table);
        top_view_clear (&view);
        json_decref (now);
    }
}

//  Must hold: each cell has the figure of its column: what a counter grew by, or what there is.
static void
each_column_has_its_figure (void **state)
{
    (void) state;
    static const char *const cells [TOP_KINDS] [8] = {
        [TOP_DATA] = { "d", "11", "12 B", "pack, redox", "60 %", "13 B", "14 B", "15" },
        [TOP_WORKERS] = { "w", "working", "21", "22", "23", "24", "25 B", "26 B" },
        [TOP_TENANTS] = { "t", "31", "32", "33", "34 B", "35 B", "36", "37" },
        [TOP_MEMBERS] = { "m", "here", "41", "42 B", "43 B", "86 B", "44" } };
    static const char *const words [TOP_KINDS] = { [TOP_DATA] = "all of its samples that were read are good",
        [TOP_WORKERS] = "27 samples are there now; 28 were taken back, and 29 came late",
        [TOP_TENANTS] = "weight 38, prepared 64 samples and was sent 66 since the start" };
    json_t *before = s_distinct (0), *now = s_distinct (2);
    top_view_t view;
    assert_true (top_view_make (&view, now, before, TOP_BY_JOB));
    for (top_kind_t kind = TOP_DATA; kind < TOP_KINDS; kind++) {
        top_table_t table;
        assert_true (top_table_make (&table, &view, kind, 0));
        assert_int_equal (table.count, 1);
        assert_true (table.column_count <= 8);
        for (size_t column = 0; column < table.column_count; column++)
            if (strcmp (table.rows [0].cells [column], cells [kind] [column]) != 0)
                fail_msg ("kind %d, column %zu: %s, not %s", kind, column, table.rows [0].cells [column],
                    cells [kind] [column]);
        if (words [kind])
            assert_string_equal (table.rows [0].words, words [kind]);
        top_table_clear (&table);
    }
    top_view_clear (&view);
    json_decref (before);
    json_decref (now);
}

static void
a_server_that_answers_anything (void **state)
{
    (void) state;
    char version [500], head [TOP_TEXT_BYTES];
    memset (version, '\x1b', sizeof version - 1);
    version [sizeof version - 1] = 0;
    json_t *before = json_pack ("{s:f, s:f}", "uptime_seconds", 1.0, "delivered", 0.0), *now = json_pack (
        "{s:s, s:f, s:f, s:f, s:[s, {}, n], s:[s, {}, n], s:{}, s:[{s:[]}]}", "version", version,
        "uptime_seconds", 2.0, "delivered", 1e300,
        "prepared", 1e300, "jobs", "no job", "datasets", "no data", "remote_workers", "tenants", "name");
    top_view_t view;
    assert_true (top_view_make (&view, now, before, TOP_BY_WAIT));
    assert_int_equal (view.count, 3);
    top_view_head (&view, head);
    assert_null (strchr (head, '\x1b'));
    assert_true (strlen (head) < TOP_TEXT_BYTES);
    static const size_t rows [TOP_KINDS] = { 3, 0, 1 };
    for (top_kind_t kind = TOP_DATA; kind < TOP_KINDS; kind++)
        for (size_t sort = 0; sort < top_table_columns (kind); sort++) {
            top_table_t table;
            assert_true (top_table_make (&table, &view, kind, sort));
            assert_int_equal (table.count, rows [kind]);
            top_table_clear (&table);
        }
    top_view_clear (&view);
    json_decref (before);
    json_decref (now);
}

static size_t s_calls_left;             //  until jansson has no memory

static void *
s_scarce_malloc (size_t bytes)
{
    return s_calls_left == 0 || s_calls_left-- == 1? NULL: malloc (bytes);
}

//  Guards: keys are shown, too, and nothing of an answer gets lost when they are made safe to show: without
//  memory there is no answer.
static void
a_key_that_moves_the_terminal (void **state)
{
    (void) state;
    json_t *answer = NULL, *wanted = json_loads ("{\"waits\": [{\"\\\\x1b[2J\": "
        "{\"\\\\xe2\\\\x80\\\\xae\": \"\\\\x1b\"}, \"read\": 1}]}", 0, NULL);
    size_t calls = 0;
    json_set_alloc_funcs (s_scarce_malloc, free);
    while (!answer) {
        char error [100] = "";
        s_calls_left = ++calls;
        answer = answer_parse ("{\"waits\": [{\"\\u001b[2J\": {\"\\u202e\": \"\\u001b\"}, \"read\": 1}]}",
            error, sizeof error);
        assert_int_equal (!answer, !!*error);
    }
    json_set_alloc_funcs (malloc, free);
    assert_true (calls > 20);
    assert_true (json_equal (answer, wanted));
    json_decref (answer);
    json_decref (wanted);
}

//  Two jobs and one beside the path; the third has no name.
static json_t *
s_with_tree (void)
{
    json_t *status = s_status (10, 1000);
    json_array_append_new (json_object_get (status, "jobs"), json_pack ("{s:i, s:s, s:s}", "job", 7, "name",
        "", "dataset", "t"));
    json_t *tree = json_pack ("{s:b, s:i, s:i, s:[{s:i, s:n, s:i, s:{s:i, s:i, s:i}}, {s:i, s:i, s:i, s:{"
        "s:i, s:i, s:i}}], s:[{s:i, s:i}], s:{s:[i, i, i], s:[[], [i], [i, i]], s:i}}", "kept", 1, "ids", 100,
        "looked_at", 100, "vertices", "size", 30, "parent", "jobs", 2, "leaf", "job", 2, "size", 10,
        "remaining", 40, "size", 50, "parent", 0, "jobs", 1, "leaf", "job", 1, "size", 0, "remaining", 80,
        "off_path", "job", 7, "remaining", 20, "pairs", "jobs", 2, 1, 7, "common", 36, 4, 18, "left_out", 0);
    assert_non_null (tree);
    json_object_set_new (status, "datasets", json_pack ("[{s:s, s:[o], s:[]}]", "name", "t", "sharing_trees",
        tree, "drawing_alone"));
    return status;
}

static void
trees (void **state)
{
    (void) state;
    json_t *status = s_with_tree ();
    const json_t *tree = answer_tree_of (status, 7);
    assert_ptr_equal (tree, answer_tree_of (status, 1));
    assert_null (answer_tree_of (status, 3));
    assert_int_equal (answer_tree_jobs (tree), 3);
    assert_true (answer_tree_remaining (tree, 7) == 20 && answer_tree_remaining (tree, 3) < 0);
    assert_true (answer_tree_common (tree, 1, 2) == 36 && answer_tree_common (tree, 2, 1) == 36);
    assert_true (answer_tree_common (tree, 7, 1) == 18 && answer_tree_common (tree, 7, 2) == 4);
    assert_true (answer_tree_common (tree, 7, 7) < 0 && answer_tree_common (tree, 7, 3) < 0);
    assert_true (answer_tree_most (tree, 7) == 1 && answer_tree_most (tree, 1) == 2);
    char text [300];
    answer_tree_words (status, 1, text, sizeof text);
    assert_string_equal (text, "of what this job has to draw, fast needs 45 %, job 7 22 %");
    answer_tree_words (status, 3, text, sizeof text);
    assert_string_equal (text, "");
    answer_tree_summary (status, json_array_get (json_object_get (status, "datasets"), 0), text, sizeof text);
    assert_string_equal (text, "3 jobs; 30 samples are still needed by 2 of them; fast and slow share most: "
        "36");
    answer_tree_summary (status, json_array_get (json_object_get (status, "datasets"), 0), text, 20);
    assert_string_equal (text, "3 jobs; 30 samples ");
    //  Estimates are told as such, those of a tree that is not kept all of them.
    json_t *changed = s_with_tree (), *dataset = json_array_get (json_object_get (changed, "datasets"), 0),
        *estimated = json_array_get (json_object_get (dataset, "sharing_trees"), 0);
    json_object_set_new (estimated, "looked_at", json_integer (99));
    answer_tree_words (changed, 1, text, sizeof text);
    assert_string_equal (text, "of what this job has to draw, fast needs about 45 %, job 7 about 22 %");
    answer_tree_summary (changed, dataset, text, sizeof text);
    assert_string_equal (text, "3 jobs; 30 samples are still needed by 2 of them; fast and slow share most: "
        "about 36");
    json_object_set_new (estimated, "kept", json_false ());
    answer_tree_summary (changed, dataset, text, sizeof text);
    assert_non_null (strstr (text, "; about 30 samples are still"));
    //  A name that looks like another job's number.
    for (size_t job = 0; job < 2; job++)
        json_object_set_new (json_array_get (json_object_get (changed, "jobs"), job), "name",
            json_string ("job 7"));
    answer_tree_summary (changed, dataset, text, sizeof text);
    assert_non_null (strstr (text, "'job 7' and 'job 7' share most"));
    json_decref (changed);
    //  In the lines below the tables.
    top_view_t view;
    top_table_t table;
    assert_true (top_view_make (&view, status, NULL, TOP_BY_JOB));
    top_view_words (&view, &view.rows [0], text, sizeof text);
    assert_non_null (strstr (text, "; of what this job has to draw, fast needs 45 %, job 7 22 %"));
    assert_true (top_table_make (&table, &view, TOP_DATA, 0));
    assert_non_null (strstr (table.rows [0].words, "3 jobs; 30 samples are"));
    top_table_clear (&table);
    top_view_clear (&view);
    json_decref (status);
}

//  Whatever stands in an answer.
static void
trees_of_any_form (void **state)
{
    (void) state;
    static const char *const forms [] = {
        "{}", "[]", "[7]", "[{}]", "[[]]", "[{\"vertices\":7}]", "[{\"vertices\":[7,{\"leaf\":[]}]}]",
        "[{\"vertices\":[{\"leaf\":{\"job\":1}}],\"pairs\":[]}]",
        "[{\"vertices\":[{\"leaf\":{\"job\":1,\"remaining\":5}},{\"leaf\":{\"job\":1}}],"
            "\"pairs\":{\"jobs\":[1,1,2],\"common\":[[],7]}}]",
        "[{\"off_path\":[{\"job\":1,\"remaining\":-4},{}],"
            "\"pairs\":{\"jobs\":[\"x\",1],\"common\":[[],[\"x\"]]}}]"
    };
    for (size_t index = 0; index < sizeof forms / sizeof *forms; index++) {
        json_t *status = s_status (10, 1000), *trees = json_loads (forms [index], 0, NULL);
        assert_non_null (trees);
        json_t *dataset = json_pack ("{s:s, s:o}", "name", "t", "sharing_trees", trees);
        json_object_set_new (status, "datasets", json_pack ("[o]", dataset));
        char text [300];
        answer_tree_words (status, 1, text, sizeof text);
        answer_tree_summary (status, dataset, text, sizeof text);
        answer_tree_print (status, dataset);
        json_decref (status);
    }
}

//  ---- what --memory saves

static json_t *
s_pins (double bytes, double hits, double misses, double seconds)
{
    return json_pack ("{s:f, s:f, s:f, s:f, s:f}", "bytes", bytes, "data_bytes", 1000e6, "hit_bytes", hits,
        "miss_bytes", misses, "saved_seconds", seconds);
}

//  A server of 640 MB, a job of which read so much in its epoch.
static json_t *
s_with_memory (double seconds, double epoch_bytes)
{
    json_t *status = json_pack ("{s:f, s:{s:f, s:f, s:f, s:f, s:f}, s:[{s:s, s:o}, {s:s, s:o}, {s:s, s:n}], "
        "s:[{s:i, s:{s:i, s:f, s:f, s:f}}]}", "uptime_seconds", 3.0, "memory", "bytes", 640e6,
        "mixing_bytes", 20e6, "prepared_bytes", 25e6, "pins_bytes", 595e6, "pinned_bytes", 541e6, "datasets",
        "name", "photos", "pins", s_pins (540e6, 600e6, 600e6, seconds), "name", "val", "pins",
        s_pins (0, 0, 0, 0), "name", "none", "pins", "jobs", "job", 7, "reads", "epoch", 3, "epoch_bytes",
        epoch_bytes, "epoch_pinned_bytes", 5e6, "epoch_saved_seconds", 4.06);
    assert_non_null (status);
    return status;
}

static void
memory (void **state)
{
    (void) state;
    static const struct { double seconds; const char *words; } spans [] = { { 0.01, "less than 0.1 s" },
        { 4.06, "about 4.1 s" }, { 9.96, "about 10 s" }, { 41.2, "about 41 s" }, { 600, "about 10 minutes" },
        { 9000, "about 2.5 hours" } };
    char text [300], wanted [300];
    for (size_t index = 0; index < sizeof spans / sizeof *spans; index++) {
        json_t *status = s_with_memory (spans [index].seconds, 10e6);
        answer_memory_words (status, text, sizeof text);
        snprintf (wanted, sizeof wanted, "memory 640 MB: 541 MB of 595 MB pinned (54 %% of photos, 0 %% of "
            "val), 20 MB for mixing, 25 MB for prepared samples; 50 %% of the bytes read so far came from "
            "pins, %s of reading saved", spans [index].words);
        assert_string_equal (text, wanted);
        json_decref (status);
    }
    json_t *status = s_with_memory (41.2, 10e6), *datasets = json_object_get (status, "datasets"),
        *job = json_array_get (json_object_get (status, "jobs"), 0);
    answer_memory_dataset (json_array_get (datasets, 0), text, sizeof text);
    assert_string_equal (text, "pinned 540 MB, 54 % of it; 50 % of the bytes read so far came from there "
        "(600 MB), about 41 s of reading saved");
    json_t *val = json_array_get (datasets, 1);
    answer_memory_dataset (val, text, sizeof text);
    assert_string_equal (text, "pinned 0.0 kB, 0 % of it");
    json_object_set_new (val, "pictures", json_pack ("{s:i, s:f, s:f}", "count", 0, "bytes", 0.0,
        "saved_seconds", 0.0));
    answer_memory_dataset (val, text, sizeof text);
    assert_string_equal (text, "pinned 0.0 kB, 0 % of it");
    json_object_set_new (val, "pictures", json_pack ("{s:i, s:f, s:f}", "count", 2307, "bytes", 1.3e9,
        "saved_seconds", 41.2));
    answer_memory_dataset (val, text, sizeof text);
    assert_string_equal (text, "pinned 0.0 kB, 0 % of it; 2307 pictures decoded (1.3 GB), about 41 s of "
        "decoding saved");
    json_t *memory = json_object_get (status, "memory");
    json_object_set_new (memory, "pictures_bytes", json_real (2e9));
    json_object_set_new (memory, "decoded_bytes", json_real (1.3e9));
    answer_memory_words (status, text, sizeof text);
    assert_non_null (strstr (text, "25 MB for prepared samples, 1.3 GB of 2.0 GB decoded; "));
    answer_memory_dataset (json_array_get (datasets, 2), text, sizeof text);
    assert_string_equal (text, "");
    answer_memory_job (status, job, text, sizeof text);
    assert_string_equal (text, "in epoch 3, 50 % of the bytes read for it came from pins, about 4.1 s of "
        "reading saved");
    //  In the lines below the tables.
    top_view_t view;
    top_table_t table;
    assert_true (top_view_make (&view, status, NULL, TOP_BY_JOB));
    top_view_words (&view, &view.rows [0], text, sizeof text);
    assert_non_null (strstr (text, "; in epoch 3, 50 % of the bytes"));
    assert_true (top_table_make (&table, &view, TOP_DATA, 0));
    assert_non_null (strstr (table.head, "pinned 516 MiB of 567 MiB"));
    assert_non_null (strstr (table.rows [1].words, "pinned 540 MB, 54 % of it"));
    assert_null (strstr (table.rows [0].words, "pinned"));
    top_table_clear (&table);
    top_view_clear (&view);
    json_decref (status);
    //  Nothing was read in this epoch; and without --memory nothing is said.
    status = s_with_memory (1, 0);
    job = json_array_get (json_object_get (status, "jobs"), 0);
    answer_memory_job (status, job, text, sizeof text);
    assert_string_equal (text, "");
    json_object_set_new (json_object_get (job, "reads"), "epoch_bytes", json_real (10));
    json_object_set_new (status, "memory", json_null ());
    answer_memory_job (status, job, text, sizeof text);
    assert_string_equal (text, "");
    answer_memory_words (status, text, sizeof text);
    assert_string_equal (text, "");
    json_decref (status);
}

//  Whatever stands in an answer, and however little room there is.
static void
memory_of_any_form (void **state)
{
    (void) state;
    static const char *const forms [] = { "{}", "[]", "7", "{\"memory\":7}",
        "{\"memory\":{},\"datasets\":[7,{\"pins\":{}},{\"pins\":{\"hit_bytes\":1}},{\"pins\":[]}]}",
        "{\"memory\":{\"bytes\":1e300},\"datasets\":{},\"jobs\":[{\"reads\":{\"epoch_bytes\":\"x\"}}]}" };
    for (size_t index = 0; index < sizeof forms / sizeof *forms; index++) {
        json_t *status = json_loads (forms [index], JSON_DECODE_ANY, NULL);
        assert_non_null (status);
        for (size_t room = 1; room < 120; room += 7) {
            char text [120];
            answer_memory_words (status, text, room);
            assert_true (strlen (text) < room);
            answer_memory_dataset (json_array_get (json_object_get (status, "datasets"), 2), text, room);
            assert_true (strlen (text) < room);
            answer_memory_job (status, json_array_get (json_object_get (status, "jobs"), 0), text, room);
            assert_true (strlen (text) < room);
        }
        json_decref (status);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (rates_and_order), cmocka_unit_test (tables),
        cmocka_unit_test (kinds_of_data),
        cmocka_unit_test (each_column_has_its_figure),
        cmocka_unit_test (a_server_that_answers_anything), cmocka_unit_test (a_key_that_moves_the_terminal),
        cmocka_unit_test (trees), cmocka_unit_test (trees_of_any_form), cmocka_unit_test (memory),
        cmocka_unit_test (memory_of_any_form)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  DATASET: how it is asked, and the tables' parts, of a catalogue that is made up here.  STATUS: what stands
//  behind a data set.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "clock.h"
#include "dataset_answer.h"
#include "dataset_source.h"
#include "frames.h"
#include "seed.h"

//  ---- the catalogue: names of a length that follows from the row

static uint32_t s_samples, s_classes;
static size_t s_longest;
static catalogue_label_t s_labels [2];

static size_t
s_made_name (char kind, uint32_t row, char *buffer, size_t size)
{
    char name [8192];
    size_t length = (size_t) snprintf (name, sizeof name, "%c%u", kind, row),
        more = s_longest? (row * 7919u) % s_longest: 0;
    memset (name + length, 'x', more);
    name [length += more] = 0;
    if (size)
        snprintf (buffer, size, "%s", name);
    return length;
}

uint32_t
catalogue_samples (const catalogue_t *self)
{
    assert_null (self);
    return s_samples;
}

uint32_t
catalogue_classes (const catalogue_t *self)
{
    assert_null (self);
    return s_classes;
}

const char *
catalogue_class_name (const catalogue_t *self, uint32_t label)
{
    static char name [8192];
    assert_null (self);
    assert_true (label < s_classes);
    s_made_name ('c', label, name, sizeof name);
    return name;
}

size_t
catalogue_path (const catalogue_t *self, uint32_t id, size_t field, char *buffer, size_t size)
{
    assert_null (self);
    assert_true (id < s_samples && field == 0);
    return s_made_name ('s', id, buffer, size);
}

const char *
catalogue_fingerprint (const catalogue_t *self)
{
    assert_null (self);
    return "6d0c4f1e2a3b5c7d";
}

size_t
catalogue_labels (const catalogue_t *self)
{
    assert_null (self);
    return 2;
}

const catalogue_label_t *
catalogue_label (const catalogue_t *self, size_t label)
{
    assert_null (self);
    assert_true (label < 2);
    return &s_labels [label];
}

void
catalogue_label_value (const catalogue_t *self, size_t label, uint32_t id, uint8_t *target)
{
    assert_null (self);
    assert_true (label < 2 && id < s_samples);
    memset (target, (int) (id % 251), s_labels [label].bytes);
}

static void
s_make (uint32_t samples, uint32_t classes, size_t longest, size_t label_bytes)
{
    s_samples = samples;
    s_classes = classes;
    s_longest = longest;
    s_labels [0] = (catalogue_label_t) { .name = "label", .dtype = "int64", .bytes = 8 };
    s_labels [1] = (catalogue_label_t) { .name = "text", .dtype = "uint8", .dimensions = 1,
        .shape = { (uint32_t) label_bytes },
        .bytes = label_bytes };
}

//  ---- asking

static bool
s_ask (const char *text, request_table_t *wanted, refusal_t *refusal)
{
    frame_t frame = frame_of_text (text);
    return request_table (&frame, wanted, refusal);
}

//  Guards: what is asked for is read, and what cannot be is refused in words; the golden message is read as
//  described.
static void
test_questions (void **state)
{
    (void) state;
    static const struct { const char *text, *code, *fragment; } bad [] = {
        { "", "malformed", "" }, { "[]", "malformed", "" }, { "{}", "bad_request", "dataset is missing" },
        { "{\"dataset\":\"\"}", "bad_request", "dataset: expected a printable text" },
        { "{\"dataset\":\"d\",\"table\":\"pixels\"}", "bad_request",
            "table: expected \"classes\", \"names\" or \"label\"" },
        { "{\"dataset\":\"d\",\"table\":\"label\"}", "bad_request", "label: the table \"label\" needs it" },
        { "{\"dataset\":\"d\",\"table\":\"names\",\"label\":\"x\"}", "bad_request", "no other has it" },
        { "{\"dataset\":\"d\",\"first\":\"1\"}", "bad_request", "first: only with a table" },
        { "{\"dataset\":\"d\",\"table\":\"names\",\"first\":\"-1\"}", "bad_request",
            "first: expected a row's number" },
        { "{\"dataset\":\"d\",\"path\":7}", "bad_request", "path: expected a text of 1 to 8192 bytes" },
        { "{\"dataset\":\"d\",\"rows\":3}", "bad_request",
            "unknown key 'rows'; there are dataset, path, table, label, first" }
    };
    request_table_t wanted;
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        refusal_t refusal = { .code = NULL };
        if (s_ask (bad [index].text, &wanted, &refusal))
            fail_msg ("%s is taken", bad [index].text);
        assert_refusal (&refusal, bad [index].code, bad [index].fragment);
    }
    refusal_t refusal;
    assert_true (s_ask ("{\"dataset\":\"train\"}", &wanted, &refusal) && wanted.table == REQUEST_TABLE_NONE);
    assert_true (s_ask ("{\"first\":\"18446744073709551615\",\"label\":\"x\",\"table\":\"label\","
        "\"dataset\":\"d\"}", &wanted,
        &refusal));
    assert_true (wanted.table == REQUEST_TABLE_LABEL && wanted.first == UINT64_MAX
        && !strcmp (wanted.label, "x"));
    assert_true (s_ask ("{\"dataset\":\"d\",\"path\":\"/data/\u00fc\"}", &wanted, &refusal)
        && !strcmp (wanted.path, "/data/\u00fc"));
    message_t message;
    wire_head_t head;
    message_load (&message, "dataset");
    assert_int_equal (request_head (message.frames, message.count, &head, &refusal), REQUEST_OK);
    assert_true (head.kind == WIRE_DATASET && request_table (&message.frames [1], &wanted, &refusal));
    assert_true (!strcmp (wanted.dataset, "train") && wanted.table == REQUEST_TABLE_NAMES
        && wanted.first == 2998);
    message_unload (&message);
}

//  ---- tables

//  The golden message: names from row 2998 on.
static void
test_the_golden_answer (void **state)
{
    (void) state;
    message_t message;
    request_table_t wanted;
    refusal_t refusal;
    dataset_table_t table;
    s_make (3000, 2, 0, 12);
    assert_true (s_ask ("{\"dataset\":\"train\",\"table\":\"names\",\"first\":\"2998\"}", &wanted, &refusal));
    assert_true (dataset_answer_table (NULL, &wanted, &table, &refusal));
    char *text = dataset_answer_text (NULL, &wanted, &table);
    message_load (&message, "dataset_reply");
    assert_int_equal (message.count, 3);
    assert_int_equal (message.frames [1].size, strlen (text));
    assert_memory_equal (message.frames [1].data, text, strlen (text));
    assert_int_equal (message.frames [2].size, table.size);
    assert_memory_equal (message.frames [2].data, table.bytes, table.size);
    message_unload (&message);
    free (table.bytes);
    free (text);
}

static void
s_assert_rows (const request_table_t *wanted, const dataset_table_t *table)
{
    size_t at = table->count * sizeof (uint32_t);
    for (uint32_t row = 0; row < table->count; row++) {
        uint32_t number = (uint32_t) wanted->first + row, length;
        if (wanted->table == REQUEST_TABLE_LABEL) {
            size_t bytes = s_labels [strcmp (wanted->label, "text")? 0: 1].bytes;
            for (size_t byte = 0; byte < bytes; byte++)
                if (table->bytes [row * bytes + byte] != number % 251)
                    fail_msg ("row %u", number);
            continue;
        }
        char name [8192];
        memcpy (&length, table->bytes + row * sizeof length, sizeof length);
        assert_int_equal (length, s_made_name (wanted->table == REQUEST_TABLE_NAMES? 's': 'c', number, name,
            sizeof name));
        assert_memory_equal (table->bytes + at, name, length);
        at += length;
    }
    assert_int_equal (table->size, wanted->table == REQUEST_TABLE_LABEL
        ? table->count * s_labels [strcmp (wanted->label, "text")? 0: 1].bytes: at);
}

//  Property: whatever the rows' sizes, the parts are the whole table, each is within its bound or a single
//  row, and as large as that lets it be.
static void
test_parts_are_the_whole (void **state)
{
    (void) state;
    static const char *const tables [] = { "\"names\"", "\"classes\"", "\"label\",\"label\":\"label\"",
        "\"label\",\"label\":\"text\"" };
    for (uint64_t seed = test_seed (), last = seed + 24; seed < last; seed++) {
        uint64_t random = seed;
        bool is_long = test_below (&random, 2);         //  few long rows, or many short ones
        s_make (1 + (uint32_t) test_below (&random, is_long? 300: 60000),
            1 + (uint32_t) test_below (&random, is_long? 300: 30000),
            is_long? 1 + test_below (&random, 4000): 0, 1 + test_below (&random, is_long? 65536: 64));
        const char *name = tables [seed % 4];
        uint32_t rows = seed % 4 == 1? s_classes: s_samples, parts = 0;
        for (uint64_t first = 0; first < rows; parts++) {
            char text [128];
            request_table_t wanted;
            refusal_t refusal;
            dataset_table_t table;
            snprintf (text, sizeof text, "{\"dataset\":\"d\",\"table\":%s,\"first\":\"%llu\"}", name,
                (unsigned long long) first);
            assert_true (s_ask (text, &wanted, &refusal));
            assert_true (dataset_answer_table (NULL, &wanted, &table, &refusal));
            size_t most = wanted.table == REQUEST_TABLE_LABEL? DATASET_ANSWER_BYTES_MAX:
                DATASET_ANSWER_TEXT_BYTES_MAX;
            assert_true (table.count > 0 && (table.size <= most || table.count == 1));
            assert_true (first + table.count == rows || table.size > most - 70000);
            s_assert_rows (&wanted, &table);
            first += table.count;
            free (table.bytes);
        }
    }
}

//  Guards: a row behind the last is an empty part; one behind that, and a label that is none, are refused;
//  without a table only the facts are told.
static void
test_edges (void **state)
{
    (void) state;
    request_table_t wanted;
    refusal_t refusal;
    dataset_table_t table;
    s_make (10, 0, 0, 8);
    assert_true (s_ask ("{\"dataset\":\"d\",\"table\":\"names\",\"first\":\"10\"}", &wanted, &refusal));
    assert_true (dataset_answer_table (NULL, &wanted, &table, &refusal) && table.count == 0
        && table.size == 0);
    free (table.bytes);
    assert_true (s_ask ("{\"dataset\":\"d\",\"table\":\"names\",\"first\":\"11\"}", &wanted, &refusal));
    assert_false (dataset_answer_table (NULL, &wanted, &table, &refusal));
    assert_refusal (&refusal, "bad_request", "first: 11, and the table has 10 rows");
    assert_true (s_ask ("{\"dataset\":\"d\",\"table\":\"classes\"}", &wanted, &refusal));
    assert_true (dataset_answer_table (NULL, &wanted, &table, &refusal) && table.count == 0);
    free (table.bytes);
    assert_true (s_ask ("{\"dataset\":\"d\",\"table\":\"label\",\"label\":\"none\"}", &wanted, &refusal));
    assert_false (dataset_answer_table (NULL, &wanted, &table, &refusal));
    assert_refusal (&refusal, "bad_request", "label: data set 'd' has none called 'none'");
    assert_true (s_ask ("{\"dataset\":\"d\"}", &wanted, &refusal));
    assert_true (dataset_answer_table (NULL, &wanted, &table, &refusal) && !table.bytes);
    char *text = dataset_answer_text (NULL, &wanted, &table);
    assert_string_equal (text,
        "{\"dataset\":\"d\",\"fingerprint\":\"6d0c4f1e2a3b5c7d\",\"samples\":\"10\",\"classes\":\"0\","
        "\"labels\":[{\"name\":\"label\",\"dtype\":\"int64\",\"shape\":[]},"
        "{\"name\":\"text\",\"dtype\":\"uint8\",\"shape\":[8]}]}");
    free (text);
}

//  ---- what stands behind a data set

struct device { const char *name; };

const char *
device_name (const device_t *self, char name [DEVICE_NAME_BYTES])
{
    return strcpy (name, self->name);
}

size_t
catalogue_fields (const catalogue_t *self)
{
    (void) self;
    return 4;
}

const char *
catalogue_field_name (const catalogue_t *self, size_t field)
{
    (void) self;
    static const char *const names [] = { "image", "mask", "depth", "sound" };
    return names [field];
}

const char *
catalogue_root (const catalogue_t *self)
{
    (void) self;
    return "/data\xff";
}

const char *
catalogue_folder (const catalogue_t *self, size_t field)
{
    return field == 0? catalogue_root (self): "/masks";
}

uint64_t
catalogue_bytes (const catalogue_t *self)
{
    (void) self;
    return UINT64_C (1) << 40;
}

uint32_t
pack_volumes (const pack_t *self)
{
    (void) self;
    return 17;
}

static const store_t *s_store;

const store_t *
catalogue_store (const catalogue_t *self, size_t field)
{
    (void) self;
    (void) field;
    return s_store;
}

pins_figures_t
pins_figures (pins_data_t *self)
{
    (void) self;
    return (pins_figures_t) { .bytes = 250, .memory = 260, .limit = 270, .data_bytes = 1000, .hit_bytes = 280,
        .miss_bytes = 290 };
}

pictures_figures_t
pictures_figures (pictures_data_t *self)
{
    (void) self;
    return (pictures_figures_t) { .count = 300, .bytes = 310, .hits = 320, .misses = 330 };
}

block_data_t *
catalogue_blocks (const catalogue_t *self, size_t field, int *rc_p)
{
    (void) self;
    *rc_p = 0;
    return s_store && field < 2? (block_data_t *) &s_store: NULL;
}

uint64_t
block_data_held_bytes (const block_data_t *self)
{
    assert_ptr_equal (self, &s_store);
    return 1500;
}

uint32_t
space_missing (const space_t *self)
{
    (void) self;
    return 0;
}

block_data_t *
pack_blocks (const pack_t *self, int *rc_p)
{
    (void) self;
    *rc_p = 0;
    return s_store? (block_data_t *) &s_store: NULL;
}

uint32_t
jpeg_row_index_samples (const jpeg_row_index_t *self)
{
    (void) self;
    return 31;
}

static dataset_source_t s_source;

dataset_t *
dataset_named (broker_t *self, const tenant_t *tenant, const char *name)
{
    (void) self;
    assert_null (tenant);
    assert_true (strcmp (name, "train") == 0 || strcmp (name, "val") == 0);
    return (dataset_t *) (void *) &s_source;
}

void *
dataset_user (const dataset_t *self)
{
    (void) self;
    return &s_source;
}

//  Two warnings, the second one of `val` too.
const char *
data_warnings_text (const data_warnings_t *self, size_t index, const char **other_p)
{
    (void) self;
    *other_p = index == 1? "val": NULL;
    return index == 0? "caf\xe9": index == 1? "classes differ": NULL;
}

uint32_t
data_warnings_clipped (const data_warnings_t *self)
{
    (void) self;
    return 7;
}

bool
data_warnings_clipped_text (const data_warnings_t *self, char text [DATA_WARNINGS_TEXT_BYTES])
{
    (void) self;
    strcpy (text, "clipped");
    return true;
}

//  Guards: a data set's name is in no warning for a caller that may not know of it.
static void
test_warnings_name_what_the_caller_may_know (void **state)
{
    (void) state;
    s_make (10, 3, 0, 8);
    s_source = (dataset_source_t) { .warnings = (data_warnings_t *) &s_source };
    for (int knows = 0; knows < 2; knows++) {
        json_t *status = json_pack ("{s:[{s:s}]}", "datasets", "name", "train");
        if (knows)
            json_array_append_new (json_object_get (status, "datasets"), json_pack ("{s:s}", "name", "val"));
        dataset_answer_status (NULL, status, false);
        json_t *object = json_array_get (json_object_get (status, "datasets"), 0), *wanted = knows?
            json_pack ("[s, s, s]", "caf\xef\xbf\xbd", "classes differ", "clipped"):
            json_pack ("[s, s]", "caf\xef\xbf\xbd", "clipped");
        assert_true (json_equal (json_object_get (object, "warnings"), wanted));
        assert_int_equal (json_integer_value (json_object_get (object, "clipped_samples")), 7);
        json_decref (wanted);
        json_decref (status);
    }
}

//  Guards: each device is named once, and to operators only.
static void
test_devices_are_named_once (void **state)
{
    (void) state;
    s_make (10, 3, 0, 8);
    device_t one = { "8:1" }, other = { "8:17" };
    s_source = (dataset_source_t) { .fields = { &one, &other, &one, &other }, .jpeg_warnings_max = 5 };
    for (int sees_all = 0; sees_all < 2; sees_all++) {
        json_t *status = json_pack ("{s:[{s:s}]}", "datasets", "name", "train"), *wanted;
        dataset_answer_status (NULL, status, sees_all);
        json_t *object = json_array_get (json_object_get (status, "datasets"), 0);
        wanted = json_pack ("{s:s, s:s, s:i, s:I, s:[s, s, s, s], s:[s, s, s, s], s:[s, s], s:i, s:[], s:i}",
            "name", "train", "path", "(not UTF-8)", "classes", 3, "bytes", (json_int_t) 1 << 40, "fields",
            "image", "mask", "depth", "sound", "folders", "(not UTF-8)", "/masks", "/masks", "/masks",
            "labels", "label", "text", "jpeg_warnings", 5, "warnings", "clipped_samples", 0);
        if (sees_all)
            json_object_set_new (wanted, "objects", json_null ());
        if (sees_all)
            json_object_set_new (wanted, "pins", json_null ());
        if (sees_all)
            json_object_set_new (wanted, "pictures", json_null ());
        if (sees_all)
            json_object_set_new (wanted, "devices", json_pack ("[s, s]", "8:1", "8:17"));
        assert_true (json_equal (object, wanted));
        json_decref (wanted);
        json_decref (status);
    }
}

static void
s_assert_told (const json_t *object, const char *key, const char *expected)
{
    json_t *wanted = json_loads (expected, 0, NULL);
    assert_non_null (wanted);
    char *told = json_dumps (json_object_get (object, key), JSON_REAL_PRECISION (6));
    if (!json_equal (json_object_get (object, key), wanted))
        fail_msg ("%s is %s, not %s", key, told, expected);
    free (told);
    json_decref (wanted);
}

//  Must hold: what a store, the disk's cache, other members and pins gave stands under its own name, in bytes
//  and in seconds; of a pack the pack tells that itself.
static void
test_what_each_source_gave (void **state)
{
    (void) state;
    s_make (10, 3, 0, 8);
    s_source = (dataset_source_t) { .pins = (pins_data_t *) &s_source, .saved_ns = 2500000000,
        .pictures = (pictures_data_t *) &s_source, .decoding = { .saved_ns = 1500000000 },
        .rows = (jpeg_row_index_t *) &s_source, .listed_ms = 1, .jpeg_warnings_max = UINT32_MAX,
        .objects = { .source_bytes = 1, .source_ns = 500000000, .cached_bytes = 3, .cached_ns = 4000000000,
        .peer_bytes = 5, .peer_ns = 6250000000, .gets = 7, .slow_gets = 8, .ahead_samples = 9,
        .ahead_bytes = 10 } };
    device_t one = { "8:1" };
    dataset_source_volume_t volumes [17];
    for (size_t volume = 0; volume < 17; volume++)
        volumes [volume] = (dataset_source_volume_t) { .device = &one };
    s_source.volumes = volumes;
    s_store = (const store_t *) &s_source;
    for (int is_pack = 0; is_pack < 2; is_pack++) {
        json_t *status = json_pack ("{s:[{s:s, s:{}, s:{}}]}", "datasets", "name", "train", "pack",
            "pieces");
        s_source.space = is_pack? (space_t *) &s_source: NULL;
        s_source.space_since_ms = clock_now_ms () - 5000;
        s_source.pack = is_pack? (const pack_t *) &s_source: NULL;
        dataset_answer_status (NULL, status, true);
        const json_t *object = json_array_get (json_object_get (status, "datasets"), 0);
        s_assert_told (object, "devices", is_pack? "[\"8:1\"]": "[]");
        s_assert_told (object, "pins", "{\"bytes\":250,\"part\":0.25,\"data_bytes\":1000,"
            "\"memory_bytes\":260,\"limit_bytes\":270,\"hit_bytes\":280,\"miss_bytes\":290,"
            "\"saved_seconds\":2.5}");
        s_assert_told (object, "pictures", "{\"count\":300,\"bytes\":310,\"hits\":320,\"misses\":330,"
            "\"saved_seconds\":1.5}");
        if (is_pack)
            assert_true (json_is_null (json_object_get (object, "objects")));
        else
            s_assert_told (object, "objects", "{\"source_bytes\":1,\"source_seconds\":0.5,"
                "\"block_cache_bytes\":3,\"block_cache_seconds\":4.0,\"peer_bytes\":5,"
                "\"peer_seconds\":6.25,\"gets\":7,\"slow_gets\":8,\"ahead_samples\":9,\"ahead_bytes\":10,"
                "\"block_cache_held\":3000}");
        s_assert_told (object, "pack", is_pack? "{\"volumes\":17,\"block_cache_held\":1500}":
            "{}");
        assert_int_equal (json_integer_value (json_object_get (object, "jpeg_rows")), 31);
        assert_true (json_is_null (json_object_get (object, "jpeg_warnings")));
        double age = json_real_value (json_object_get (object, "listed_seconds")),
            since = (double) clock_now_ms () / 1000;
        assert_true (age <= since && age > since - 3600);
        json_t *pieces = json_object_get (object, "pieces");
        double copied = json_real_value (json_object_get (pieces, "since_seconds"));
        assert_true (!is_pack || (copied >= 5 && copied < 3600));
        json_decref (status);
    }
    s_store = NULL;
    s_source.space = NULL;
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_questions),
        cmocka_unit_test (test_the_golden_answer),
        cmocka_unit_test (test_parts_are_the_whole),
        cmocka_unit_test (test_edges),
        cmocka_unit_test (test_devices_are_named_once),
        cmocka_unit_test (test_what_each_source_gave),
        cmocka_unit_test (test_warnings_name_what_the_caller_may_know)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

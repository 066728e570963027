#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "frames.h"
#include "reply.h"
#include "seed.h"
#include "utf8.h"

//  The index-th frame of a golden message, as text; the caller's.
static char *
s_golden (const char *name, size_t index)
{
    message_t message;
    message_load (&message, name);
    assert_true (index < message.count);
    char *text = calloc (1, message.frames [index].size + 1);
    assert_non_null (text);
    memcpy (text, message.frames [index].data, message.frames [index].size);
    message_unload (&message);
    return text;
}

//  Ends both.
static void
s_assert_text (char *text, char *expected)
{
    assert_string_equal (text, expected);
    free (text);
    free (expected);
}

static const char *const s_classes [] = { "cat", "dog" };
static const reply_field_t s_fields [] = {
    { "image", "uint8", 3, { 224, 224, 3 }, 0, 150528, NULL },
    { "label", "int64", 0, { 0 }, 9633792, 8, NULL },
};
static const reply_joined_t s_joined = {
    .job = 5, .samples = 2020, .dataset_samples = 3000, .classes = s_classes, .class_count = 2,
    .batch_size = 64, .slots = 4, .slot_bytes = 9637888, .fields = s_fields, .field_count = 2,
    .ring_path = "/run/user/1000/tureen/server.sock.ring", .ring_token = "0123456789abcdef0123456789abcdef",
    .seed = 7, .fingerprint = "6d0c4f1e2a3b5c7d", .data = "9e1f0a2b3c4d5e6f",
    .run = "4b7c1d2e3f405162738495a6b7c8d9ea",
    .world_size = 1,
    .pipeline_text = "[{\"op\": \"decode\"}, {\"share\": true}]",
    .lease_ms = 90000 };

static void
joined_is_the_golden_one (void **state)
{
    (void) state;
    s_assert_text (reply_joined (&s_joined), s_golden ("joined", 1));
}

static void
joined_inline_is_the_golden_one (void **state)
{
    (void) state;
    static const reply_field_t fields [] = {
        { "image", "uint8", 3, { 2, 2, 3 }, 0, 12, NULL }, { "label", "int64", 0, { 0 }, 32, 8, NULL } };
    reply_joined_t joined = s_joined;
    joined.samples = 6;
    joined.batch_size = 2;
    joined.slot_bytes = 64;
    joined.fields = fields;
    joined.ring_path = joined.ring_token = NULL;
    joined.pipeline_text = "[{\"op\":\"center_crop\",\"size\":[224,224]}]";
    s_assert_text (reply_joined (&joined), s_golden ("joined_inline", 1));
    joined = s_joined;
    joined.samples = 3000;
    joined.batch_size = joined.world_size = 2;
    joined.rank = 1;
    joined.slot_bytes = 64;
    joined.fields = fields;
    s_assert_text (reply_joined (&joined), s_golden ("joined_ranks", 1));
}

static void
joined_with_a_ragged_field_is_the_golden_one (void **state)
{
    (void) state;
    static const reply_field_t fields [] = {
        { "tokens", "int16", 1, { 5 }, 0, 10, "tokens_length" },
        { "tokens_length", "int64", 0, { 0 }, 64, 8, NULL }, { "label", "int64", 0, { 0 }, 128, 8, NULL } };
    reply_joined_t joined = s_joined;
    joined.samples = 6;
    joined.batch_size = 2;
    joined.slot_bytes = 256;
    joined.fields = fields;
    joined.field_count = 3;
    joined.ring_path = joined.ring_token = NULL;
    s_assert_text (reply_joined (&joined), s_golden ("joined_ragged", 1));
}

static void
error_and_ended_are_the_golden_ones (void **state)
{
    (void) state;
    s_assert_text (reply_error ("unknown_dataset", "no data set 'trian'; this server has: train, val"),
        s_golden ("error", 1));
    s_assert_text (reply_ended ("left", "the client left"), s_golden ("ended", 1));
    s_assert_text (reply_ended ("stopping", "the server ends"), s_golden ("ended_stopping", 1));
    s_assert_text (reply_draining (3), s_golden ("draining", 1));
    s_assert_text (reply_adding (false, "data set 'val': 12,000 files"), s_golden ("adding", 1));
    s_assert_text (reply_adding (true, "data set 'val': 12,000 samples\nwarning: Gr\xc3\xb6\xc3\x9f" "e\n"),
        s_golden ("adding_ready", 1));
    s_assert_text (reply_adding (true, ""), strdup ("{\"state\":\"ready\",\"lines\":[]}"));
    s_assert_text (reply_adding (true, "\nno end"),
        strdup ("{\"state\":\"ready\",\"lines\":[\"\",\"no end\"]}"));
    s_assert_text (reply_removed (2), s_golden ("removed", 1));
    s_assert_text (reply_notice ("gathering",
        "1 of 2 ranks of job 'trial-3' are here; waiting for rank 0, for 118 more seconds"),
        s_golden ("notice_gathering", 1));
    json_t *unreadable = json_pack ("{s:i,s:[{s:i,s:s},{s:i,s:s}]}", "count", 2, "samples", "id", 17,
        "reason", "cat/0017.jpg: empty", "id", 1500, "reason", "dog/0001.png: ends before its image does");
    s_assert_text (reply_notice_unreadable ("2 samples of this job's data cannot be read, and are left out: "
        "cat/0017.jpg: empty; dog/0001.png: ends before its image does", 2018, unreadable),
        s_golden ("notice_unreadable", 1));
}

static void
error_of_another_version_names_ours (void **state)
{
    (void) state;
    char *text = reply_error ("version", "version 2 is none");
    assert_string_equal (text, "{\"error\":\"version\",\"message\":\"version 2 is none\",\"versions\":[1]}");
    free (text);
    text = reply_error ("versions", "");
    assert_null (strstr (text, "[1]"));
    free (text);
}

static void
s_assert_head (wire_kind_t kind, uint64_t job, uint64_t tag, const char *name)
{
    wire_head_t head = reply_head (kind, job, tag);
    char *expected = s_golden (name, 0);
    assert_memory_equal (&head, expected, sizeof head);
    free (expected);
}

static void
heads_are_the_golden_ones (void **state)
{
    (void) state;
    s_assert_head (WIRE_JOINED, 5, 1, "joined");
    s_assert_head (WIRE_BATCH, 5, 0, "batch");
    s_assert_head (WIRE_EPOCH_END, 5, 0, "epoch_end");
    s_assert_head (WIRE_ENDED, 5, 4, "ended");
    s_assert_head (WIRE_STATUS_REPLY, 0, 6, "status_reply");
    s_assert_head (WIRE_ERROR, 0, 1, "error");
    s_assert_head (WIRE_HEARTBEAT, 5, 0, "heartbeat");
    s_assert_head (WIRE_BATCH, 5, 0, "batch_ranks");
    s_assert_head (WIRE_NOTICE, 0, 13, "notice_gathering");
}

//  Parses what reply_joined says, and ends the text.
static json_t *
s_parsed (char *text)
{
    json_error_t error;
    json_t *object = json_loads (text, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg ("%s: %.200s", error.text, text);
    free (text);
    return object;
}

//  64 bits survive, as text.
static void
largest_numbers (void **state)
{
    (void) state;
    reply_joined_t joined = s_joined;
    joined.job = joined.seed = joined.samples = UINT64_MAX;
    joined.batch_size = joined.lease_ms = UINT32_MAX;
    joined.slots = 64;
    joined.slot_bytes = (size_t) 1 << 56;
    json_t *object = s_parsed (reply_joined (&joined));
    static const char *const keys [] = { "job", "seed", "samples" };
    for (size_t index = 0; index < 3; index++)
        assert_string_equal (json_string_value (json_object_get (object, keys [index])),
            "18446744073709551615");
    assert_int_equal (json_integer_value (json_object_get (object, "batch_size")), UINT32_MAX);
    assert_int_equal (json_integer_value (json_object_get (object, "lease_ms")), UINT32_MAX);
    json_t *ring = json_object_get (object, "ring");
    assert_string_equal (json_string_value (json_object_get (ring, "bytes")), "4611686018427387904");
    json_decref (object);
}

//  JOINED with count class names of length bytes; its classes (or NULL) are compared in number.
static void
s_assert_classes (size_t count, size_t length, const char *fill, bool there)
{
    char *name = calloc (1, length + 1);
    const char **names = calloc (count + 1, sizeof *names);
    assert_true (name && names);
    memset (name, *fill, length);
    for (size_t index = 0; index < count; index++)
        names [index] = name;
    reply_joined_t joined = s_joined;
    joined.classes = names;
    joined.class_count = count;
    json_t *object = s_parsed (reply_joined (&joined));
    json_t *classes = json_object_get (object, "classes");
    assert_int_equal (classes != NULL, there);
    if (there) {
        assert_int_equal (json_array_size (classes), count);
        assert_true (json_dumpb (classes, NULL, 0, JSON_COMPACT) <= 256 * 1024);
    }
    json_decref (object);
    free (names);
    free (name);
}

static void
classes_are_left_out_above_256_kib (void **state)
{
    (void) state;
    s_assert_classes (0, 1, "x", true);
    s_assert_classes (1000, 200, "x", true);
    //  Two brackets and two quotation marks; two names of half as much take a comma and two quotation marks
    //  more.
    s_assert_classes (1, 262144 - 4, "x", true);
    s_assert_classes (1, 262144 - 3, "x", false);
    s_assert_classes (2, 131068, "x", true);
    s_assert_classes (2, 131069, "x", false);
    s_assert_classes (100000, 10, "x", false);
    //  Counted as they are sent: a quotation mark takes two bytes, a byte that is no UTF-8 three.
    s_assert_classes (1, 140000, "\"", false);
    s_assert_classes (1, 90000, "\xff", false);
    s_assert_classes (1, 80000, "\xff", true);
    reply_joined_t joined = s_joined;
    joined.classes = NULL;
    json_t *object = s_parsed (reply_joined (&joined));
    assert_null (json_object_get (object, "classes"));
    json_decref (object);
}

static void
foreign_bytes_are_replaced (void **state)
{
    (void) state;
    static const char *const names [] = { "a\xffz", "gr\xc3\xbcn", "\xed\xa0\x80", "tab\t\"\\",
        "cut\xe2\x82" };
    static const char *const expected [] = { "a\xef\xbf\xbdz", "gr\xc3\xbcn",
        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "tab\t\"\\", "cut\xef\xbf\xbd\xef\xbf\xbd" };
    reply_joined_t joined = s_joined;
    joined.classes = names;
    joined.class_count = 5;
    json_t *object = s_parsed (reply_joined (&joined));
    json_t *classes = json_object_get (object, "classes");
    for (size_t index = 0; index < 5; index++)
        assert_string_equal (json_string_value (json_array_get (classes, index)), expected [index]);
    json_decref (object);
    object = s_parsed (reply_error ("bad_request", "no \xf5\x80 \x01"));
    assert_string_equal (json_string_value (json_object_get (object, "message")),
        "no \xef\xbf\xbd\xef\xbf\xbd \x01");
    json_decref (object);
    object = s_parsed (reply_ended ("stopping", "\xc0\xaf"));
    assert_string_equal (json_string_value (json_object_get (object, "message")), "\xef\xbf\xbd\xef\xbf\xbd");
    json_decref (object);
}

//  Property: of random bytes, exactly what jansson takes for UTF-8 is left as it is.
//  Replay: TEST_SEED=<seed>.
static void
utf8_agrees_with_jansson (void **state)
{
    (void) state;
    static const uint8_t likely [] = { 'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0,
        0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff };
    size_t good = 0;
    for (uint64_t seed = test_seed (), round = 0; round < 100000; seed++, round++) {
        uint64_t random = seed;
        char text [9] = "";
        for (uint64_t index = 0, size = 1 + test_below (&random, 8); index < size; index++)
            text [index] = (char) likely [test_below (&random, sizeof likely)];
        char *repaired = utf8_repaired (text);
        json_t *value = json_string (text), *after = json_string (repaired);
        if ((value != NULL) != (strcmp (text, repaired) == 0) || !after)
            fail_msg ("seed %" PRIu64 ": %s", seed, repaired);
        good += value != NULL;
        json_decref (value);
        json_decref (after);
        free (repaired);
    }
    assert_true (good > 1000);
}

static void
visible_text_is_bounded (void **state)
{
    (void) state;
    char buffer [64];
    assert_string_equal (utf8_visible ("a\nb\x1b[2J\x7f", 8, buffer, sizeof buffer), "a\\x0ab\\x1b[2J\\x7f");
    assert_string_equal (utf8_visible ("\xc2\x9b\xff\xc3\xbc", 5, buffer, sizeof buffer),
        "\\xc2\\x9b\\xff\xc3\xbc");
    assert_string_equal (utf8_visible ("", 0, buffer, sizeof buffer), "");
    assert_string_equal (utf8_visible ("1234567", 7, buffer, 8), "1234567");
    assert_string_equal (utf8_visible ("12345678", 8, buffer, 8), "1234...");
    assert_string_equal (utf8_visible ("\n\n", 2, buffer, 8), "\\x0a...");
    assert_string_equal (utf8_visible ("123\xe2\x82\xac" "45", 8, buffer, 8), "123...");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (joined_is_the_golden_one),
        cmocka_unit_test (joined_inline_is_the_golden_one),
        cmocka_unit_test (joined_with_a_ragged_field_is_the_golden_one),
        cmocka_unit_test (error_and_ended_are_the_golden_ones),
        cmocka_unit_test (error_of_another_version_names_ours),
        cmocka_unit_test (heads_are_the_golden_ones),
        cmocka_unit_test (largest_numbers),
        cmocka_unit_test (classes_are_left_out_above_256_kib),
        cmocka_unit_test (foreign_bytes_are_replaced),
        cmocka_unit_test (utf8_agrees_with_jansson),
        cmocka_unit_test (visible_text_is_bounded),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

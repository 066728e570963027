/*  What a line of the log looks like, whatever clients choose; and that a slow reader does not block it.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "effort.h"
#include "log.h"
#include "seed.h"

enum { SECONDS = 1795356000 };          //  2026-11-22T14:00:00Z
#define BEGIN "2026-11-22T14:00:00.123Z "

static void
s_assert_line (const log_field_t *fields, const char *text, const char *expected)
{
    char line [LOG_LINE_BYTES_MAX];
    size_t size = log_write (line, SECONDS, 123, LOG_LEVEL_INFO, "joined", fields, text);
    assert_string_equal (line, expected);
    assert_int_equal (size, strlen (expected));
}

static void
lines_as_described (void **state)
{
    (void) state;
    s_assert_line (LOG_FIELDS (LOG_TEXT ("tenant", "vision"), LOG_NUMBER ("job", 5),
        LOG_NUMBER ("user", 1000)),
        "train, batches of 64, ring",
        BEGIN "info joined tenant=vision job=5 user=1000: train, batches of 64, ring");
    s_assert_line (NULL, "x", BEGIN "info joined: x");
    s_assert_line (LOG_FIELDS (LOG_TEXT ("tenant", NULL), LOG_NUMBER ("job", UINT64_MAX)), "",
        BEGIN "info joined job=18446744073709551615: ");
    s_assert_line (LOG_FIELDS (LOG_TEXT ("a", ""), LOG_TEXT ("b", "two words"), LOG_TEXT ("c", "x: y=1"),
        LOG_TEXT ("d", "\"\\\n\x1b\xc3\xa9")),
        "x", BEGIN "info joined a=\"\" b=\"two words\" c=\"x: y=1\" d=\"\\\"\\\\\\x0a\\x1b\\xc3\\xa9\": x");
}

static void
text_ends_no_line (void **state)
{
    (void) state;
    s_assert_line (NULL, "a\nb\rc\td\x1b[2J\x7f", BEGIN "info joined: a?b?c?d?[2J?");
    //  C1 controls, line and paragraph separators, what turns the writing around; and bytes that are no
    //  character.
    s_assert_line (NULL, "\xc2\x85|\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xae|\xe2\x81\xa7|\xff|\xc3", BEGIN
        "info joined: ??|???|???|???|???|?|?");
    s_assert_line (NULL, "\xe0\x80\x8a|\xe0\x82\x85|\xf0\x80\x80\x8a|\xed\xa0\x80|\xf4\x90\x80\x80|\xd8\x9c",
        BEGIN
        "info joined: ???|???|????|???|????|??");
    s_assert_line (NULL, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\xb2",
        BEGIN "info joined: \xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\xb2");
}

//  A reader of lines: the fields of a line, of which there are as many as were given.
static const char *
s_skip_field (const char *at)
{
    while (*at && *at != '=' && *at != ' ' && *at != ':')
        at++;
    if (*at != '=')
        return NULL;
    at++;
    if (*at != '"') {
        while (*at && *at != ' ' && *at != ':')
            at++;
        return at;
    }
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\')
            at++;
    return *at? at + 1: NULL;
}

static size_t
s_fields_in (const char *line)
{
    const char *at = strstr (line, "joined");
    size_t count = 0;
    assert_non_null (at);
    at += strlen ("joined");
    while (at && *at == ' ') {
        at = s_skip_field (at + 1);
        count++;
    }
    assert_non_null (at);
    assert_true (at [0] == ':' && at [1] == ' ');
    return count;
}

//  Property: whatever values and text are, a line has the fields that it was given, and is one line.  Replay:
//  TEST_SEED=<seed>.
static void
nothing_is_forged (void **state)
{
    (void) state;
    static const char likely [] = "=: \"\\\n\r\t\x01 ab\x85\xc2\xe2\x80\xa8\xff job=5: info";
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (20000); seed++, round++) {
        uint64_t random = seed;
        char values [3] [64], text [400], line [LOG_LINE_BYTES_MAX];
        for (size_t index = 0; index < 3; index++) {
            size_t size = test_below (&random, sizeof values [0]);
            for (size_t at = 0; at < size; at++)
                values [index] [at] = likely [test_below (&random, sizeof likely - 1)];
            values [index] [size] = 0;
        }
        size_t size = test_below (&random, sizeof text);
        for (size_t at = 0; at < size; at++)
            text [at] = test_below (&random, 2)? likely [test_below (&random, sizeof likely - 1)]:
                (char) (1 + test_below (&random, 255));
        text [size] = 0;
        size_t length = log_write (line, SECONDS, 0, LOG_LEVEL_INFO, "joined",
            LOG_FIELDS (LOG_TEXT ("a", values [0]),
            LOG_TEXT ("b", values [1]), LOG_TEXT ("c", values [2])), text);
        if (length != strlen (line) || length >= LOG_LINE_BYTES_MAX || s_fields_in (line) != 3)
            fail_msg ("seed %" PRIu64 ": %s", seed, line);
        for (const char *at = line; *at; at++)
            assert_true ((unsigned char) *at >= 0x20 && *at != 0x7f);
    }
}

static void
long_values_and_texts_are_cut (void **state)
{
    (void) state;
    char value [3000], line [LOG_LINE_BYTES_MAX];
    memset (value, 'v', sizeof value - 1);
    value [sizeof value - 1] = 0;
    size_t size = log_write (line, SECONDS, 0, LOG_LEVEL_ERROR, "joined",
        LOG_FIELDS (LOG_TEXT ("a", value), LOG_NUMBER ("job", 7)), value);
    assert_int_equal (size, LOG_LINE_BYTES_MAX - 1);
    assert_non_null (strstr (line, " job=7: v"));
}

static void
a_pipe_that_is_not_read_loses_lines (void **state)
{
    (void) state;
    int ends [2];
    char read_back [1 << 17];
    assert_int_equal (pipe2 (ends, O_NONBLOCK), 0);
    log_t log = { .descriptor = ends [1] };
    for (int line = 0; line < 3000; line++)
        log_event (&log, LOG_LEVEL_INFO, "left", LOG_FIELDS (LOG_NUMBER ("job", (uint64_t) line)),
            "job %d left", line);
    assert_true (log.lost > 0);
    while (read (ends [0], read_back, sizeof read_back) > 0);
    uint64_t lost = log.lost;
    log_event (&log, LOG_LEVEL_INFO, "left", NULL, "the next");
    assert_int_equal (log.lost, 0);
    ssize_t size = read (ends [0], read_back, sizeof read_back - 1);
    assert_true (size > 0);
    read_back [size] = 0;
    char expected [120];
    snprintf (expected, sizeof expected,
        "warning lost lines=%" PRIu64 ": (%" PRIu64 " lines lost: the log's reader fell behind)\n", lost,
        lost);
    assert_non_null (strstr (read_back, expected));
    assert_non_null (strstr (read_back, "info left: the next\n"));
    close (ends [0]);
    close (ends [1]);
}

//  Must hold: each line is one JSON object, whatever clients choose and however long it is.
static void
json_lines (void **state)
{
    (void) state;
    char line [LOG_LINE_BYTES_MAX];
    size_t size = log_write_json (line, SECONDS, 7, LOG_LEVEL_WARNING, "bad", LOG_FIELDS (LOG_TEXT ("name",
        "a\"\\\n\x1b\xff\xc3\xa9"), LOG_TEXT ("tenant", NULL), LOG_NUMBER ("job", UINT64_MAX)), "x\ty");
    assert_string_equal (line, "{\"time\":\"2026-11-22T14:00:00.007Z\",\"level\":\"warning\","
        "\"event\":\"bad\","
        "\"name\":\"a\\\"\\\\\\u000a\\u001b\xef\xbf\xbd\xc3\xa9\",\"job\":18446744073709551615,"
        "\"message\":\"x\\u0009y\"}");
    assert_int_equal (size, strlen (line));
    uint64_t random = test_seed ();
    for (int round = 0; round < 3000; round++) {
        char text [1500], value [600];
        size_t length = (size_t) test_below (&random, sizeof text);
        for (size_t index = 0; index < length; index++)
            text [index] = (char) (1 + test_below (&random, round % 2? 255: 60));
        text [length] = 0;
        snprintf (value, sizeof value, "%.599s", text);
        const log_field_t fields [] = { LOG_TEXT ("one", value), LOG_TEXT ("two", value), LOG_TEXT ("three",
            value), LOG_NUMBER ("job", (uint64_t) round), LOG_TEXT ("four", value), LOG_TEXT ("five", value),
            { .key = NULL } };
        size = log_write_json (line, SECONDS, 0, LOG_LEVEL_INFO, "joined", fields, text);
        assert_true (size < LOG_LINE_BYTES_MAX && size == strlen (line) && !strchr (line, '\n'));
        json_error_t error;
        json_t *object = json_loads (line, JSON_REJECT_DUPLICATES, &error);
        if (!object)
            fail_msg ("%s: %s", error.text, line);
        assert_non_null (json_object_get (object, "message"));
        assert_string_equal (json_string_value (json_object_get (object, "event")), "joined");
        json_decref (object);
    }
}

static void
a_stream_of_lines (void **state)
{
    (void) state;
    int ends [2];
    char got [4096];
    assert_int_equal (pipe2 (ends, O_CLOEXEC), 0);
    log_t log = { .descriptor = ends [1], .is_json = true };
    FILE *stream = log_stream (&log);
    assert_non_null (stream);
    fprintf (stream, "begun, ");
    fprintf (stream, "%d ended\nwarning: little", 2);
    fprintf (stream, " room\n");
    assert_int_equal (fclose (stream), 0);
    ssize_t size = read (ends [0], got, sizeof got - 1);
    assert_true (size > 0);
    got [size] = 0;
    char *second = strchr (got, '\n') + 1;
    assert_non_null (strstr (got, "\"info\",\"event\":\"start\",\"message\":\"begun, 2 ended\"}\n"));
    assert_non_null (strstr (second, "\"warning\",\"event\":\"start\",\"message\":\"little room\"}\n"));
    close (ends [0]);
    close (ends [1]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (lines_as_described), cmocka_unit_test (json_lines),
        cmocka_unit_test (a_stream_of_lines),
        cmocka_unit_test (text_ends_no_line),
        cmocka_unit_test (nothing_is_forged),
        cmocka_unit_test (long_values_and_texts_are_cut),
        cmocka_unit_test (a_pipe_that_is_not_read_loses_lines),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

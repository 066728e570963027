//  Progress on a virtual clock: what is shown, how often, and where.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "progress.h"

static double s_time;

static double
s_clock (void)
{
    return s_time;
}

//  A progress that writes into memory.
typedef struct {
    progress_t progress;
    char *text;
    size_t bytes;
} shown_t;

static void
s_begin (shown_t *self, bool is_terminal)
{
    s_time = 100;
    *self = (shown_t) { .text = NULL };
    FILE *stream = open_memstream (&self->text, &self->bytes);
    assert_non_null (stream);
    self->progress = progress_begin ("test", false);
    self->progress.stream = stream;
    self->progress.is_terminal = is_terminal;
    self->progress.clock = s_clock;
    self->progress.began = self->progress.drawn = self->progress.told = s_time;
}

static void
s_end (shown_t *self)
{
    progress_clear (&self->progress);
    fclose (self->progress.stream);
}

static size_t
s_count (const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr (text, what)); text += strlen (what))
        count++;
    return count;
}

//  Tells `rate` units a second for so long, a hundred times a second.
static void
s_work (progress_t *progress, double seconds, double rate)
{
    double begin = s_time;
    uint64_t before = progress->done;
    for (int step = 1; step <= (int) (seconds * 100); step++) {
        s_time = begin + step / 100.0;
        progress_tell (progress, before + (uint64_t) (rate * step / 100), 0);
    }
}

//  Guards: figures of a step with a known end, of bytes and of files.
static void
test_a_line_has_rate_and_time_left (void **state)
{
    (void) state;
    char line [PROGRESS_LINE_BYTES];
    shown_t shown;
    s_begin (&shown, true);
    progress_t *progress = &shown.progress;
    progress_step (progress, &(progress_step_t) { .what = "reading (1 of 2)", .total = 600000000,
        .beside = "samples", .after = 600000000 }, 0);
    assert_string_equal (progress_line (progress, line),
        "reading (1 of 2) [....................]   0 % 0 B/s, 0 B, 0 samples");
    s_work (progress, 10, 12e6);
    progress_tell (progress, progress->done, 300);
    assert_string_equal (progress_line (progress, line),
        "reading (1 of 2) [####................]  20 % 1:30 left, 12.0 MB/s, 120 MB, 300 samples");
    progress->subject = "train";
    progress_step (progress, &(progress_step_t) { .what = "finding files", .unit = "files" }, 0);
    s_work (progress, 2, 1500);
    assert_string_equal (progress_line (progress, line),
        "data set 'train': finding files: 1500 files/s, 3000 files");
    progress_step (progress, &(progress_step_t) { .what = "x", .unit = "files", .total = 7200000 }, 0);
    s_work (progress, 1, 1000);
    assert_string_equal (progress_line (progress, line),
        "data set 'train': x [....................]   0 % 1:59:59 left, 1000 files/s, 1000 files");
    s_end (&shown);
    free (shown.text);
}

//  Guards: the rate is that of the last seconds, and what an earlier run has done counts for nothing.
static void
test_the_rate_follows (void **state)
{
    (void) state;
    char line [PROGRESS_LINE_BYTES];
    shown_t shown;
    s_begin (&shown, true);
    progress_step (&shown.progress, &(progress_step_t) { .what = "x", .total = 100000000 }, 40000000);
    s_work (&shown.progress, 30, 1e6);
    assert_non_null (strstr (progress_line (&shown.progress, line), " 1.0 MB/s, 70.0 MB"));
    s_work (&shown.progress, 31, 1e5);
    assert_non_null (strstr (progress_line (&shown.progress, line), " 4:29 left, 100 kB/s, 73.1 MB"));
    s_end (&shown);
    free (shown.text);
}

//  Guards: nothing of what is short; then at most five lines a second, and none is left behind.
static void
test_a_terminal_is_drawn_anew (void **state)
{
    (void) state;
    shown_t shown;
    s_begin (&shown, true);
    progress_step (&shown.progress, &(progress_step_t) { .what = "x" }, 0);
    s_work (&shown.progress, 0.45, 1e6);
    progress_clear (&shown.progress);
    fflush (shown.progress.stream);
    assert_int_equal (shown.bytes, 0);
    s_work (&shown.progress, 10, 1e6);
    fflush (shown.progress.stream);
    assert_in_range (s_count (shown.text, "\rx: "), 40, 50);
    assert_null (strchr (shown.text, '\n'));
    s_end (&shown);
    assert_string_equal (shown.text + shown.bytes - 4, "\r\033[K");
    free (shown.text);
}

//  Guards: without a terminal a line after 10, 30 and 70 seconds, then each minute.
static void
test_lines_without_a_terminal (void **state)
{
    (void) state;
    shown_t shown;
    s_begin (&shown, false);
    progress_step (&shown.progress, &(progress_step_t) { .what = "x" }, 0);
    static const struct { double until; size_t lines; } expected [] = { { 9.9, 0 }, { 10.1, 1 }, { 29.9, 1 },
        { 30.1, 2 }, { 69.9, 2 }, { 70.1, 3 }, { 129.9, 3 }, { 130.1, 4 }, { 190.1, 5 } };
    for (size_t index = 0; index < sizeof expected / sizeof *expected; index++) {
        s_work (&shown.progress, 100 + expected [index].until - s_time + 0.001, 1e6);
        fflush (shown.progress.stream);
        assert_int_equal (s_count (shown.text, "tureen test: x: 1.0 MB/s, "), expected [index].lines);
        assert_int_equal (s_count (shown.text, "\n"), expected [index].lines);
    }
    assert_null (strchr (shown.text, '\033'));
    s_end (&shown);
    free (shown.text);
}

//  Guards: with a log, an event with fields, beside the line on a terminal, which is taken away before.
static void
test_events_of_a_log (void **state)
{
    (void) state;
    int ends [2];
    char line [2 * LOG_LINE_BYTES_MAX];
    shown_t shown;
    assert_int_equal (pipe (ends), 0);
    log_t log = { .descriptor = ends [1], .is_json = true };
    s_begin (&shown, true);
    progress_use_log (&shown.progress, &log);
    shown.progress.subject = "train";
    progress_step (&shown.progress, &(progress_step_t) { .what = "looking at files", .unit = "files",
        .total = 20000 }, 0);
    s_work (&shown.progress, 12, 1000);
    ssize_t bytes = read (ends [0], line, sizeof line - 1);
    assert_true (bytes > 0);
    line [bytes] = 0;
    json_t *event = json_loads (line, 0, NULL);
    assert_non_null (event);
    const char *name, *dataset, *unit, *message;
    int done, total, rate, left;
    assert_int_equal (json_unpack (event, "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:s}", "event", &name,
        "dataset", &dataset, "unit", &unit, "done", &done, "total", &total, "per_second", &rate,
        "seconds_left", &left, "message", &message), 0);
    assert_string_equal (name, "progress");
    assert_string_equal (dataset, "train");
    assert_string_equal (unit, "files");
    assert_in_range (done, 9980, 10020);
    assert_int_equal (total, 20000);
    assert_in_range (rate, 998, 1002);
    assert_int_equal (left, 10);
    assert_non_null (strstr (message, "data set 'train': looking at files [#"));
    fflush (shown.progress.stream);
    assert_non_null (strstr (shown.text, "\rdata set 'train': looking at files ["));
    assert_non_null (strstr (shown.text, "\033[K\r\033[K"));
    assert_null (strchr (shown.text, '\n'));
    json_decref (event);
    close (ends [0]);
    close (ends [1]);
    s_end (&shown);
    free (shown.text);
}

//  Guards: --quiet, and callers without a progress.
static void
test_nothing_where_it_is_quiet (void **state)
{
    (void) state;
    progress_t quiet = progress_begin ("test", true), none = { .command = NULL };
    progress_step_t step = { .what = "x" };
    progress_t *all [] = { &quiet, &none, NULL };
    for (size_t index = 0; index < 3; index++) {
        progress_step (all [index], &step, 0);
        progress_tell (all [index], 1, 1);
        progress_clear (all [index]);
    }
    assert_null (quiet.stream);
    assert_true (progress_seconds (&quiet) >= 0);
}

static void
s_keep_line (void *context, const char *line)
{
    char *kept = context;
    assert_true (strlen (kept) + strlen (line) + 2 < 4096);
    strcat (strcat (kept, line), "\n");
}

//  One that is shown elsewhere: five times a second, and nothing on the stream.
static void
test_shown_elsewhere (void **state)
{
    (void) state;
    static char kept [4096];
    shown_t shown;
    s_begin (&shown, false);
    shown.progress.show = s_keep_line;
    shown.progress.context = kept;
    shown.progress.subject = "val";
    progress_step (&shown.progress, &(progress_step_t) { .what = "listing", .unit = "files" }, 0);
    for (int round = 1; round <= 100; round++) {
        s_time += 0.01;
        progress_tell (&shown.progress, (uint64_t) round, 0);
    }
    assert_true (s_count (kept, "\n") >= 4 && s_count (kept, "\n") <= 5);
    assert_int_equal (s_count (kept, "data set 'val': listing: "), s_count (kept, "\n"));
    s_end (&shown);
    assert_string_equal (shown.text, "");
    free (shown.text);
}

//  Guards: a line of another process is shown as one of its own: drawn, or told after ten seconds.
static void
test_a_line_of_another_process (void **state)
{
    (void) state;
    static const bool terminals [] = { true, false };
    for (size_t which = 0; which < 2; which++) {
        shown_t shown;
        s_begin (&shown, terminals [which]);
        progress_say (&shown.progress, "too early");
        s_time = 111;
        progress_say (&shown.progress, "data set 'val': 5 files");
        s_end (&shown);
        assert_string_equal (shown.text, terminals [which]? "\rdata set 'val': 5 files\033[K\r\033[K"
            : "tureen test: data set 'val': 5 files\n");
        free (shown.text);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_line_of_another_process),
        cmocka_unit_test (test_a_line_has_rate_and_time_left), cmocka_unit_test (test_the_rate_follows),
        cmocka_unit_test (test_a_terminal_is_drawn_anew), cmocka_unit_test (test_lines_without_a_terminal),
        cmocka_unit_test (test_events_of_a_log), cmocka_unit_test (test_shown_elsewhere),
        cmocka_unit_test (test_nothing_where_it_is_quiet)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

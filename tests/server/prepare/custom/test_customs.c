//  What is told of operations that fail, or of which files change: each failure once, and at most every ten
//  seconds.  Their processes are made up here.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "custom_process.h"
#include "customs.h"
#include "scratch.h"

struct custom_process {
    bool is_running;
};

static custom_process_t s_process;
static const char *s_failure;           //  of each call

custom_status_t __wrap_custom_process_start (custom_process_t **self_p,
    const custom_process_options_t *options, char *error, size_t error_bytes);
custom_status_t
__wrap_custom_process_start (custom_process_t **self_p, const custom_process_options_t *options, char *error,
    size_t error_bytes)
{
    (void) options; (void) error; (void) error_bytes;
    assert_false (s_process.is_running);
    s_process.is_running = true;
    *self_p = &s_process;
    return CUSTOM_DONE;
}

void __wrap_custom_process_destroy (custom_process_t **self_p);
void
__wrap_custom_process_destroy (custom_process_t **self_p)
{
    if (*self_p)
        (*self_p)->is_running = false;
    *self_p = NULL;
}

const char *__wrap_custom_process_greeting (const custom_process_t *self);
const char *
__wrap_custom_process_greeting (const custom_process_t *self)
{
    assert_true (self->is_running);
    return "{}";
}

custom_status_t __wrap_custom_process_call (custom_process_t *self, custom_call_t *call);
custom_status_t
__wrap_custom_process_call (custom_process_t *self, custom_call_t *call)
{
    assert_true (self->is_running);
    call->took_ns += 3000000000;
    if (!s_failure)
        return CUSTOM_DONE;
    snprintf (call->error, call->error_bytes, "%s", s_failure);
    return CUSTOM_FAILED;
}

bool __wrap_custom_process_is_random (const custom_process_t *self);
bool
__wrap_custom_process_is_random (const custom_process_t *self)
{
    (void) self;
    return false;
}

bool __wrap_custom_process_is_broken (const custom_process_t *self);
bool
__wrap_custom_process_is_broken (const custom_process_t *self)
{
    (void) self;
    return false;
}

bool __wrap_custom_process_was_killed (const custom_process_t *self);
bool
__wrap_custom_process_was_killed (const custom_process_t *self)
{
    (void) self;
    return false;
}

typedef struct {
    scratch_folder_t scratch;
    char command [100];
    customs_t *customs;
} play_t;

static void
s_write_command (const play_t *self, const char *text)
{
    FILE *file = fopen (self->command, "w");
    assert_non_null (file);
    fputs (text, file);
    assert_int_equal (fclose (file), 0);
    assert_int_equal (chmod (self->command, 0700), 0);
}

static int
s_begin (void **state)
{
    static play_t self;
    char error [CUSTOMS_TEXT_BYTES];
    *state = &self;
    assert_true (scratch_begin (&self.scratch));
    snprintf (self.command, sizeof self.command, "%s/command", self.scratch.path);
    s_write_command (&self, "#!/bin/sh\n");
    customs_command_t command = { .name = "sharpen", .command = self.command };
    if (customs_open (&self.customs, &(customs_options_t) { .commands = &command, .count = 1, .seconds = 1,
        .end = -1 }, error, sizeof error))
        fail_msg ("%s", error);
    return 0;
}

static int
s_end (void **state)
{
    play_t *self = *state;
    customs_close (&self->customs);
    return scratch_end (&self->scratch)? 0: -1;
}

//  Each call is made twice.
static void
s_fail (play_t *self, const char *why)
{
    char error [CUSTOMS_TEXT_BYTES];
    size_t count;
    const custom_t *is = customs_list (self->customs, &count);
    assert_int_equal (count, 1);
    s_failure = why;
    custom_call_t call = { .error = error, .error_bytes = sizeof error };
    assert_int_equal (is->run (is, &call), CUSTOM_FAILED);
    assert_non_null (strstr (error, why));
}

static void
s_check_news (play_t *self, int64_t now_ms, uint64_t times, const char *says)
{
    const char *name;
    uint64_t told;
    char text [CUSTOMS_TEXT_BYTES];
    assert_true (customs_next_news (self->customs, now_ms, &name, &told, text));
    assert_string_equal (name, "sharpen");
    assert_int_equal (told, times);
    assert_non_null (strstr (text, says));
}

static void
s_check_no_news (play_t *self, int64_t now_ms)
{
    const char *name;
    uint64_t told;
    char text [CUSTOMS_TEXT_BYTES];
    assert_false (customs_next_news (self->customs, now_ms, &name, &told, text));
}

//  Guards: failures within ten seconds of the last that were told are told after them.
static void
test_failures_are_told_once (void **state)
{
    play_t *self = *state;
    s_check_no_news (self, 500);
    s_fail (self, "first");
    s_check_news (self, 1000, 2, "first");
    s_check_no_news (self, 1000);
    s_fail (self, "second");
    s_fail (self, "third");
    s_check_no_news (self, 10999);
    s_check_news (self, 11000, 4, "third");
    s_check_no_news (self, 30000);
}

//  Guards: files that change are told once, and hide no failures.
static void
test_a_change_is_told_once (void **state)
{
    play_t *self = *state;
    s_write_command (self, "#!/bin/dash\n");
    s_fail (self, "after the change");
    s_check_news (self, 1000, 0, "is not what it was when the server started");
    s_check_news (self, 1000, 2, "after the change");
    s_check_no_news (self, 30000);
}

//  Must hold: calls, failures, their time and processes are counted each for itself.
static void
test_what_status_says (void **state)
{
    play_t *self = *state;
    size_t count;
    char error [CUSTOMS_TEXT_BYTES];
    const custom_t *is = customs_list (self->customs, &count);
    s_failure = NULL;
    for (int fails = 0; fails < 2; fails++) {
        for (int call = 0; !fails && call < 3; call++)
            assert_int_equal (is->run (is, &(custom_call_t) { .error = error, .error_bytes = sizeof error }),
                CUSTOM_DONE);
        if (fails)
            s_fail (self, "no edges");
        json_t *list = customs_status (self->customs), *status = json_array_get (list, 0), *wanted =
            json_pack ("{s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:O, s:f, s:s?, s:n}", "name", "sharpen",
            "identity", is->identity, "random", 0, "processes", fails? 0: 1, "calls", fails? 5: 3,
            "failures", fails? 2: 0, "restarts", fails? 2: 0, "seconds", json_object_get (status, "seconds"),
            "cpu_seconds", fails? 15.0: 9.0, "last_failure", fails? "no edges": NULL, "changed");
        assert_non_null (wanted);
        assert_true (json_equal (status, wanted));
        double seconds = json_real_value (json_object_get (status, "seconds"));
        assert_true (seconds > 0 && seconds < 3000);
        json_decref (wanted);
        json_decref (list);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_failures_are_told_once, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_change_is_told_once, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_what_status_says, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

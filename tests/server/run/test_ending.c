//  serve.h in a process that one of its threads keeps from ending, and in one that ends in time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "serve.h"

enum { STATUS = 7, LINES_BYTES = 1000 };

//  The exit status of a process that has begun to end.  is_kept: its own thread never comes to
//  serve_ending_end.
//  lines: its log.
static int
s_end (bool is_kept, char lines [LINES_BYTES])
{
    int ends [2];
    assert_int_equal (pipe (ends), 0);
    pid_t child = fork ();
    assert_true (child >= 0);
    if (child == 0) {
        log_t log = { .descriptor = ends [1] };
        serve_endpoints_t endpoints = { 0 };
        serve_ending_t ending;
        serve_ending_begin (&ending, &log, &endpoints, STATUS);
        if (is_kept)
            for (;;)
                pause ();
        serve_ending_end (&ending);
        _exit (STATUS + 1);
    }
    close (ends [1]);
    size_t bytes = 0;
    ssize_t got;
    while ((got = read (ends [0], lines + bytes, LINES_BYTES - 1 - bytes)) > 0)
        bytes += (size_t) got;
    lines [bytes] = 0;
    close (ends [0]);
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_true (WIFEXITED (status));
    return WEXITSTATUS (status);
}

static void
test_a_thread_that_stays_does_not_keep_it (void **state)
{
    (void) state;
    char lines [LINES_BYTES];
    assert_int_equal (s_end (true, lines), STATUS);
    assert_non_null (strstr (lines, " warning ended_late ms=5000: "));
}

static void
test_an_end_in_time_says_nothing (void **state)
{
    (void) state;
    char lines [LINES_BYTES];
    assert_int_equal (s_end (false, lines), STATUS + 1);
    assert_string_equal (lines, "");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_thread_that_stays_does_not_keep_it),
        cmocka_unit_test (test_an_end_in_time_says_nothing),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

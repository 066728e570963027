//  Programs that print keys: what they print, how they fail, and that none outlives its time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"
#include "key_source.h"

enum { LIMIT_MS = 20000, OUTPUT_BYTES = 1000 };

static char output [OUTPUT_BYTES + 1], what [KEY_SOURCE_SAID_BYTES];
static size_t used;
static atomic_bool is_stopped;

static int
s_run (const char *command, int64_t limit_ms)
{
    int rc = key_source_run_program (command, &is_stopped, limit_ms, output, OUTPUT_BYTES, &used,
        what, sizeof what);
    output [used] = 0;
    return rc;
}

//  Guards: all of what it prints comes, however it prints it, and what it says beside that is no part of it.
static void
test_what_it_prints (void **state)
{
    (void) state;
    assert_int_equal (s_run ("printf '{\"a\"'; echo talk >&2; sleep .2; printf ': 1}'; cat", LIMIT_MS), 0);
    assert_string_equal (output, "{\"a\": 1}");
    assert_string_equal (what, "");
    assert_int_equal (s_run ("true", LIMIT_MS), 0);
    assert_int_equal (used, 0);
    assert_int_equal (s_run ("head -c 1000 /dev/zero", LIMIT_MS), 0);
    assert_int_equal (used, OUTPUT_BYTES);
    assert_int_equal (s_run ("head -c 1001 /dev/zero", LIMIT_MS), -EBADMSG);
    assert_string_equal (what, "it printed more than keys");
}

//  Guards: the last line that it wrote says why, without what a terminal would obey; a long talk is no harm.
static void
test_how_it_fails (void **state)
{
    (void) state;
    assert_int_equal (s_run ("echo first >&2; printf 'log in \\033[1m\\n\\n' >&2; exit 3", LIMIT_MS),
        -EKEYREJECTED);
    assert_string_equal (what, "it ended with status 3: log in ?[1m");
    assert_int_equal (s_run ("exit 4", LIMIT_MS), -EKEYREJECTED);
    assert_string_equal (what, "it ended with status 4");
    assert_int_equal (s_run ("kill -9 $$", LIMIT_MS), -EKEYREJECTED);
    assert_string_equal (what, "signal 9 ended it");
    assert_int_equal (s_run ("/nowhere/at/all", LIMIT_MS), -EKEYREJECTED);
    assert_non_null (strstr (what, "status 127"));
    assert_int_equal (s_run ("head -c 1000000 /dev/zero >&2; echo >&2; echo end >&2; exit 1", LIMIT_MS),
        -EKEYREJECTED);
    assert_string_equal (what, "it ended with status 1: end");
}

static int64_t
s_took_ms (const char *command, int64_t limit_ms, int expected)
{
    int64_t begin_ms = clock_now_ms ();
    int rc = s_run (command, limit_ms);
    if (rc != expected)
        fail_msg ("'%s': %d, %s", command, rc, what);
    return clock_now_ms () - begin_ms;
}

//  Guards: a program without end is killed with what it began, whether it keeps its output open or not.
static void
test_its_time (void **state)
{
    (void) state;
    char command [200], folder [] = "/tmp/tureen-program-XXXXXX", fifo [60];
    assert_non_null (mkdtemp (folder));
    snprintf (fifo, sizeof fifo, "%s/fifo", folder);
    snprintf (command, sizeof command, "mkfifo '%s'", fifo);
    assert_int_equal (system (command), 0);
    int reader = open (fifo, O_RDONLY | O_NONBLOCK);    //  whatever of it lives holds the other end
    assert_true (reader >= 0);
    snprintf (command, sizeof command, "exec 3>'%s'; echo waiting >&2; (sleep 1000; true); true", fifo);
    s_took_ms (command, 5000, -ETIMEDOUT);             //  on a busy machine a shell begins late
    assert_string_equal (what, "it took more than 5 s: waiting");
    //  Until the last process that has it is gone: killed ones take a moment.
    struct pollfd ended = { .fd = reader, .events = POLLIN };
    assert_int_equal (poll (&ended, 1, LIMIT_MS), 1);
    assert_true (ended.revents & POLLHUP);
    assert_true (s_took_ms ("exec >&- 2>&-; sleep 1000", 500, -ETIMEDOUT) < LIMIT_MS);
    is_stopped = true;
    assert_true (s_took_ms ("sleep 1000", 1000000, -ECANCELED) < LIMIT_MS);
    is_stopped = false;
    close (reader);
    unlink (fifo);
    rmdir (folder);
}

//  Guards: it runs as from a shell, from a thread that blocks signals and in a process that ignores them, and
//  gets none of the process's files.
static void
test_what_it_gets (void **state)
{
    (void) state;
    sigset_t all, before;
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, &before);
    signal (SIGPIPE, SIG_IGN);
    int file = open ("/dev/null", O_RDONLY);    //  without O_CLOEXEC
    setenv ("TUREEN_TEST_OF_KEYS", "there", 1);
    int rc = s_run ("sed -n '/SigBlk\\|SigIgn/s/.*\\(.......\\)$/\\1/p' /proc/self/status; "
        "ls /proc/self/fd | wc -l; "
        "echo $TUREEN_TEST_OF_KEYS", LIMIT_MS);
    signal (SIGPIPE, SIG_DFL);
    sigprocmask (SIG_SETMASK, &before, NULL);
    close (file);
    assert_int_equal (rc, 0);
    //  Of the masks the C library has the last ones for itself; ls has the three, and what it lists.
    assert_string_equal (output, "0000000\n0000000\n4\nthere\n");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_it_prints),
        cmocka_unit_test (test_how_it_fails),
        cmocka_unit_test (test_its_time),
        cmocka_unit_test (test_what_it_gets)
    };
    return cmocka_run_group_tests_name ("key_program", tests, NULL, NULL);
}

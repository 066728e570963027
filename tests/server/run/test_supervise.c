//  A supervisor over small shell scripts that stand in for a server: what ends and what is begun again,
//  signals passed on, no process left over.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"
#include "scratch.h"
#include "seed.h"
#include "supervise.h"

enum { PATIENCE_MS = 60000, TEXT_BYTES = 8192, FAST_MS = 5 };

typedef struct {
    scratch_folder_t scratch;
    char seen [PATH_MAX];       //  scripts write here
    char log [PATH_MAX];
} world_t;

static int
begin (void **state)
{
    world_t *world = calloc (1, sizeof *world);
    *state = world;
    alarm (300);                //  what hangs fails
    if (!world || !scratch_begin (&world->scratch))
        return -1;
    snprintf (world->seen, sizeof world->seen, "%s/seen", world->scratch.path);
    snprintf (world->log, sizeof world->log, "%s/log", world->scratch.path);
    //  Children of a supervisor that was killed become ours.
    return prctl (PR_SET_CHILD_SUBREAPER, 1);
}

static int
end (void **state)
{
    world_t *world = *state;
    unlink (world->seen);
    unlink (world->log);
    bool clean = scratch_end (&world->scratch);
    free (world);
    return clean? 0: -1;
}

static void
s_read (const char *path, char text [TEXT_BYTES])
{
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0? 0: read (fd, text, TEXT_BYTES - 1);
    text [size > 0? size: 0] = 0;
    if (fd >= 0)
        close (fd);
}

static size_t
s_count (const char *path, const char *what)
{
    char text [TEXT_BYTES];
    size_t count = 0;
    s_read (path, text);
    for (const char *at = text; (at = strstr (at, what)); at++)
        count++;
    return count;
}

//  Of all lives that the log tells of.
static double
s_lived_seconds (const char *path)
{
    char text [TEXT_BYTES];
    double sum = 0, seconds;
    s_read (path, text);
    for (const char *at = text; (at = strstr (at, ") after ")); at++)
        if (sscanf (at, ") after %lf s;", &seconds) == 1)
            sum += seconds;
    return sum;
}

static void
s_pause (void)
{
    nanosleep (&(struct timespec) { .tv_nsec = 2000000 }, NULL);
}

//  Waits until the file says this so often.
static void
s_wait_for (const char *path, const char *what, size_t count)
{
    for (int waited = 0; s_count (path, what) < count; waited += 2) {
        if (waited > PATIENCE_MS)
            fail_msg ("'%s' did not come %zu times", what, count);
        s_pause ();
    }
}

//  A supervisor in a process of its own; the script's $0 is the file that is looked at.
static pid_t
s_begin (const world_t *world, const char *script, int64_t pause_ms)
{
    pid_t process = fork ();
    assert_true (process >= 0);
    if (process)
        return process;
    prctl (PR_SET_PDEATHSIG, SIGKILL);          //  also where the test fails
    prctl (PR_SET_CHILD_SUBREAPER, 1);          //  as the first process of a container
    char *argv [] = { (char *) "sh", (char *) "-c", (char *) (uintptr_t) script,
        (char *) (uintptr_t) world->seen, NULL };
    log_t log = { .descriptor = open (world->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) };
    supervise_options_t options = { .path = "/bin/sh", .argv = argv, .pause_ms = pause_ms, .kept = 9,
        .log = &log };
    _exit (supervise_run (&options));
}

static int
s_status (pid_t process)
{
    int status;
    while (waitpid (process, &status, 0) < 0)
        assert_int_equal (errno, EINTR);
    return status;
}

//  Its exit status.
static int
s_end (pid_t process)
{
    int status = s_status (process);
    assert_true (WIFEXITED (status));
    return WEXITSTATUS (status);
}

//  Guards: a server that ends by itself, whatever it says, is not begun again.
static void
test_an_exit_status_goes_through (void **state)
{
    const world_t *world = *state;
    static const int statuses [] = { 0, 1, 2, 3, 77, 127 };
    char script [64];
    for (size_t index = 0; index < sizeof statuses / sizeof *statuses; index++) {
        snprintf (script, sizeof script, "echo here >> $0; exit %d", statuses [index]);
        assert_int_equal (s_end (s_begin (world, script, FAST_MS)), statuses [index]);
        assert_int_equal (s_count (world->seen, "here"), index + 1);
    }
    assert_int_equal (s_count (world->log, "restart"), 0);
}

//  Guards: one that dies of a signal is begun again, is told how often, and the log says why.
static void
test_death_by_a_signal (void **state)
{
    const world_t *world = *state;
    const char *script = "echo \"begun $TUREEN_SUPERVISED.\" >> $0; case $TUREEN_SUPERVISED in "
        "*:0:9) kill -ABRT $$;; *:1:9) kill -SEGV $$;; *:2:9) kill -KILL $$;; *:3:9) kill -TERM $$;; *) "
        "exit 9;; "
        "esac; sleep 60";
    int64_t began_ms = clock_now_ms ();
    pid_t process = s_begin (world, script, FAST_MS);
    assert_int_equal (s_end (process), 9);
    assert_true (s_lived_seconds (world->log) <= (double) (clock_now_ms () - began_ms) / 1000 + 4 * .05);
    char line [64];
    for (int life = 0; life < 5; life++) {
        snprintf (line, sizeof line, "begun %ld:%d:9.\n", (long) process, life);
        assert_int_equal (s_count (world->seen, line), 1);
    }
    assert_int_equal (s_count (world->seen, "begun"), 5);
    assert_int_equal (s_count (world->log, "restart "), 4);
    assert_int_equal (s_count (world->log, "signal 6 (Aborted"), 1);
    assert_int_equal (s_count (world->log, "signal 11 (Segm"), 1);
    assert_int_equal (s_count (world->log, "signal 9 (Killed"), 1);
    assert_int_equal (s_count (world->log, "for the 4. time"), 1);
}

//  Guards: pauses double, have a limit, and begin anew after a life that was long enough.
static void
test_pauses (void **state)
{
    (void) state;
    int64_t pause_ms = 0, all_ms = 0;
    static const int64_t expected [] = { 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000 };
    for (size_t index = 0; index < sizeof expected / sizeof *expected; index++) {
        pause_ms = supervise_pause_ms (SUPERVISE_PAUSE_MS, pause_ms, SUPERVISE_GOOD_MS - 1);
        assert_int_equal (pause_ms, expected [index]);
        all_ms += pause_ms;
    }
    assert_true (all_ms < 120000);
    assert_int_equal (supervise_pause_ms (SUPERVISE_PAUSE_MS, pause_ms, SUPERVISE_GOOD_MS),
        SUPERVISE_PAUSE_MS);
}

//  Guards: each signal that asks for an end is passed on, and the child is waited for.
static void
test_signals_are_passed_on (void **state)
{
    const world_t *world = *state;
    static const struct { int number; const char *name; } signals [] = {
        { SIGTERM, "TERM" }, { SIGINT, "INT" }, { SIGHUP, "HUP" }
    };
    char script [256], begun [16];
    for (size_t index = 0; index < 3; index++) {
        snprintf (begun, sizeof begun, "begun %s", signals [index].name);
        snprintf (script, sizeof script, "trap 'sleep .1; echo ended >> $0; exit 5' %s; echo %s >> $0; "
            "while :; do sleep .02; done", signals [index].name, begun);
        pid_t process = s_begin (world, script, FAST_MS);
        s_wait_for (world->seen, begun, 1);
        kill (process, signals [index].number);
        assert_int_equal (s_end (process), 5);
        assert_int_equal (s_count (world->seen, "ended"), index + 1);
    }
    //  One that has not taken the signal yet dies of it: that is what was asked for.
    pid_t process = s_begin (world, "echo deaf >> $0; exec sleep 60", FAST_MS);
    s_wait_for (world->seen, "deaf", 1);
    kill (process, SIGTERM);
    assert_int_equal (s_end (process), 0);
    assert_int_equal (s_count (world->log, "restart"), 0);
    //  One that dies otherwise meanwhile is not begun again.
    process = s_begin (world, "trap 'kill -ABRT $$' TERM; echo dying >> $0; while :; do sleep .02; done",
        FAST_MS);
    s_wait_for (world->seen, "dying", 1);
    kill (process, SIGTERM);
    assert_int_equal (s_end (process), 1);
    assert_int_equal (s_count (world->seen, "dying"), 1);
    assert_int_equal (s_count (world->log, "while it was ending"), 1);
}

//  Guards: a signal in a pause ends the supervisor at once.
static void
test_a_signal_in_a_pause (void **state)
{
    const world_t *world = *state;
    pid_t process = s_begin (world, "kill -KILL $$", 10 * PATIENCE_MS);
    s_wait_for (world->log, "restart ", 1);
    kill (process, SIGTERM);
    assert_int_equal (s_end (process), 0);
}

//  Guards: whenever the supervisor dies without a word, its child dies, also one that has hardly begun.
static void
test_its_own_death (void **state)
{
    const world_t *world = *state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 25; round++) {
        pid_t process = s_begin (world, "echo \"pid $$\" >> $0; exec sleep 600", FAST_MS);
        nanosleep (&(struct timespec) { .tv_nsec = (long) test_below (&random, 4000000) }, NULL);
        kill (process, SIGKILL);
        assert_true (WIFSIGNALED (s_status (process)));
        //  Its child is ours now, if there is one, and dead: or this waits for as long as it sleeps.
        int status;
        pid_t child = waitpid (-1, &status, 0);
        if (child < 0)
            assert_int_equal (errno, ECHILD);
        else
            assert_true (WIFSIGNALED (status)? WTERMSIG (status) == SIGKILL: WEXITSTATUS (status) == 127);
    }
}

//  Guards: started by nohup, SIGHUP is none of its business: no end was asked for.
static void
test_a_hangup_that_is_ignored (void **state)
{
    const world_t *world = *state;
    signal (SIGHUP, SIG_IGN);
    pid_t process = s_begin (world,
        "case $TUREEN_SUPERVISED in *:0:9) echo begun >> $0; while [ ! -e $0.go ]; do sleep .02; done; "
        "rm $0.go; kill -KILL $$;; *) exit 4;; esac", FAST_MS);
    signal (SIGHUP, SIG_DFL);
    s_wait_for (world->seen, "begun", 1);
    kill (process, SIGHUP);
    char go [PATH_MAX + 8];
    snprintf (go, sizeof go, "%s.go", world->seen);
    close (open (go, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal (s_end (process), 4);
    assert_int_equal (s_count (world->log, "restart "), 1);
}

//  Guards: if its parent ignores its children, the supervisor still hears of its own.
static void
test_children_that_are_ignored (void **state)
{
    const world_t *world = *state;
    signal (SIGCHLD, SIG_IGN);
    pid_t process = s_begin (world,
        "echo here >> $0; [ $TUREEN_SUPERVISED != ${TUREEN_SUPERVISED%:0:9} ] && kill -KILL $$; exit 4",
        FAST_MS);
    signal (SIGCHLD, SIG_DFL);
    assert_int_equal (s_end (process), 4);
    assert_int_equal (s_count (world->seen, "here"), 2);
}

//  Guards: what others leave to the first process of a container does not stay as a zombie.
static void
test_children_of_others (void **state)
{
    const world_t *world = *state;
    char text [TEXT_BYTES];
    pid_t process = s_begin (world, "(: & echo left $!. >> $0); while :; do sleep .02; done", FAST_MS);
    s_wait_for (world->seen, ".", 1);
    s_read (world->seen, text);
    pid_t left = (pid_t) strtol (text + strlen ("left "), NULL, 10);
    assert_true (left > 0);
    for (int waited = 0; kill (left, 0) == 0; waited += 2) {
        assert_true (waited < PATIENCE_MS);
        s_pause ();
    }
    assert_int_equal (errno, ESRCH);
    kill (process, SIGTERM);
    assert_int_equal (s_end (process), 0);
}

//  Guards: a process that is not a supervisor's child does not take itself for one, whatever it inherited.
static void
test_a_supervised_child (void **state)
{
    (void) state;
    static const char *const texts [] = { NULL, "", "nonsense", "1", "999999999:3:0", "1:3" };
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        if (texts [index])
            setenv ("TUREEN_SUPERVISED", texts [index], 1);
        supervised_t none = supervise_child ();
        assert_true (none.supervisor == 0 && none.restarts == 0 && none.kept == -1);
        assert_null (getenv ("TUREEN_SUPERVISED"));
    }
    char text [64];
    snprintf (text, sizeof text, "%ld:7:1", (long) getppid ());
    setenv ("TUREEN_SUPERVISED", text, 1);
    char name [16];
    prctl (PR_GET_NAME, name);
    supervised_t child = supervise_child ();
    prctl (PR_SET_NAME, name);
    assert_true (child.supervisor == getppid () && child.restarts == 7 && child.kept == 1);
    assert_int_equal (fcntl (child.kept, F_GETFD), FD_CLOEXEC);
    fcntl (child.kept, F_SETFD, 0);
    assert_int_equal (supervise_child ().supervisor, 0);
}

//  Guards: a child that tells that it ends, and dies on its way, stays ended.
static void
test_a_child_that_tells_its_end (void **state)
{
    const world_t *world = *state;
    pid_t process = s_begin (world, "echo telling >> $0; trap '' TERM; kill -TERM $PPID; kill -KILL $$",
        FAST_MS);
    assert_int_equal (s_end (process), 1);
    assert_int_equal (s_count (world->seen, "telling"), 1);
    assert_int_equal (s_count (world->log, "while it was ending"), 1);
}

//  Guards: a child that tells its end sends no signal to a process that has taken its supervisor's place.
static void
test_a_supervisor_that_is_gone (void **state)
{
    (void) state;
    sigset_t asked, before, pending;
    sigemptyset (&asked);
    sigaddset (&asked, SIGTERM);
    sigprocmask (SIG_BLOCK, &asked, &before);
    const supervised_t child_of_this = { .supervisor = getpid () };
    for (int is_child = 0; is_child < 2; is_child++) {
        pid_t child = fork ();
        if (child == 0 && !is_child && fork () != 0) {
            wait (NULL);
            _exit (0);
        }
        if (child == 0) {
            supervise_tell_end (&child_of_this);
            _exit (0);
        }
        assert_int_equal (s_end (child), 0);
        sigpending (&pending);
        assert_int_equal (sigismember (&pending, SIGTERM), is_child);
    }
    assert_int_equal (sigwaitinfo (&asked, NULL), SIGTERM);
    sigprocmask (SIG_SETMASK, &before, NULL);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_an_exit_status_goes_through, begin, end),
        cmocka_unit_test_setup_teardown (test_death_by_a_signal, begin, end),
        cmocka_unit_test (test_pauses),
        cmocka_unit_test_setup_teardown (test_signals_are_passed_on, begin, end),
        cmocka_unit_test_setup_teardown (test_a_signal_in_a_pause, begin, end),
        cmocka_unit_test_setup_teardown (test_its_own_death, begin, end),
        cmocka_unit_test_setup_teardown (test_a_hangup_that_is_ignored, begin, end),
        cmocka_unit_test_setup_teardown (test_children_that_are_ignored, begin, end),
        cmocka_unit_test_setup_teardown (test_children_of_others, begin, end),
        cmocka_unit_test_setup_teardown (test_a_child_that_tells_its_end, begin, end),
        cmocka_unit_test (test_a_supervisor_that_is_gone),
        cmocka_unit_test (test_a_supervised_child)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  `tureen read` as a process, and how it ends: by a signal, without its server, where it cannot write.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fake_server.h"
#include "reading.h"

//  Waits until the ids file has something in it.
static void
s_wait_for_ids (void)
{
    for (int left = 12000; left > 0; left--) {
        reading_load ("ids", reading_ids);
        if (strlen (reading_ids) > 12)
            return;
        usleep (5000);
    }
    fail_msg ("no ids came");
}

static void
test_signals_end_in_order (void **state)
{
    (void) state;
    static const int signals [] = { SIGINT, SIGTERM };
    char ids [160];
    snprintf (ids, sizeof ids, "--ids=%s", reading_path ("ids"));
    for (int index = 0; index < 2; index++) {
        fake_server_t *fake = reading_fake (100000, 1);
        pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=100", "--json", ids);
        s_wait_for_ids ();
        kill (process, signals [index]);
        assert_int_equal (reading_finish (process), 128 + signals [index]);
        assert_int_equal (strncmp (reading_ids, "0: 0 1 2 3 4", 12), 0);
        assert_string_equal (reading_ids + strlen (reading_ids) - 5, " ...\n");
        assert_true (reading_result ("samples") >= 4 && reading_result ("epochs") == 0);
        assert_int_equal (fake_seen (fake).leaves, 1);
        fake_destroy (&fake);
    }
}

//  A signal that comes before the sleep has begun interrupts nothing; the sleep of 400 seconds ends all the
//  same.
static void
test_a_signal_before_the_sleep (void **state)
{
    (void) state;
    fake_server_t *fake = reading_fake (100000, 1);
    setenv ("TUREEN_TEST_LATE_SIGNAL", "15", 1);
    pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=0.01", "--json");
    unsetenv ("TUREEN_TEST_LATE_SIGNAL");
    alarm (60);                         //  ends the test, not the wait for it
    assert_int_equal (reading_finish (process), 128 + SIGTERM);
    alarm (0);
    assert_true (reading_result ("samples") == 4);
    assert_int_equal (fake_seen (fake).leaves, 1);
    fake_destroy (&fake);
}

//  Killed without a word: what was delivered is in the file.
static void
test_kill_leaves_the_ids (void **state)
{
    (void) state;
    char ids [160];
    snprintf (ids, sizeof ids, "--ids=%s", reading_path ("ids"));
    fake_server_t *fake = reading_fake (100000, 1);
    pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=100", ids);
    s_wait_for_ids ();
    kill (process, SIGKILL);
    assert_int_equal (reading_finish (process), 1000 + SIGKILL);
    assert_int_equal (strncmp (reading_ids, "0: 0 1 2 3", 10), 0);
    assert_null (strchr (reading_ids, '\n'));
    //  The ring's socket tells the server at once.
    for (int left = 12000; left > 0 && !fake_seen (fake).ring_closed; left--)
        usleep (5000);
    assert_int_equal (fake_seen (fake).ring_closed, 1);
    fake_destroy (&fake);
}

static void
test_server_dies (void **state)
{
    (void) state;
    char ids [160];
    snprintf (ids, sizeof ids, "--ids=%s", reading_path ("ids"));
    //  It comes back, and is not looked for.
    fake_plan_t plan = { .samples = 1000, .epochs = 1, .deed = FAKE_DIE, .deed_batches = 3,
        .revive_ms = 1 };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", "--json", "--rejoin=0", ids), 1);
    assert_non_null (strstr (reading_err, "server"));
    assert_string_equal (reading_ids, "0: 0 1 2 3 4 5 ...\n");
    assert_true (reading_result ("samples") == 6);
    fake_destroy (&fake);
}

static void
test_unwritable_ids (void **state)
{
    (void) state;
    fake_server_t *fake = reading_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--ids=/nowhere/ids"), 1);
    assert_non_null (strstr (reading_err, "/nowhere/ids"));
    assert_int_equal (RUN (fake, "--dataset=train", "--ids=/dev/full"), 1);
    assert_non_null (strstr (reading_err, "No space"));
    fake_destroy (&fake);
}

//  A command that cannot write its output has failed.
static void
test_unwritable_output (void **state)
{
    (void) state;
    static const struct { const char *path, *says; } cases [] = {
        { "/dev/full", "standard output: No space" }, { "", "standard output: Bad file descriptor" } };
    static const char *const status_arguments [] = { "--json", NULL };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        reading_stdout = cases [index].path;
        for (int command = 0; command < 4; command++) {
            fake_server_t *fake = reading_fake (8, 1);
            int status = command == 0? RUN (fake, "--dataset=train", "--json")
                : command == 1? RUN (fake, "--dataset=train")
                : command == 2? RUN (NULL, "--help")
                : reading_finish (reading_start_program ("tureen", "status", fake, status_arguments));
            if (status != 1 || !strstr (reading_err, cases [index].says))
                fail_msg ("case %zu, command %d: status %d, \"%s\"", index, command, status, reading_err);
            fake_destroy (&fake);
        }
        fake_server_t *fake = reading_fake (8, 1);
        assert_int_equal (RUN (fake, "--dataset=train", "--ids=-"), 1);
        assert_non_null (strstr (reading_err, "--ids -: "));
        //  What went wrong before is told as it was.
        assert_int_equal (RUN (NULL, "--frobnicate"), 2);
        fake_destroy (&fake);
    }
    reading_stdout = NULL;
}

//  The ids of an earlier run are lost only once there is a job to write down.
static void
test_ids_survive_a_failed_join (void **state)
{
    (void) state;
    char list [160];
    snprintf (list, sizeof list, "--ids=%s", reading_path ("list"));
    reading_write ("list", "0: the earlier run, which was a good deal longer than this one is\n");
    fake_plan_t plan = { .refuse = "no" };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", list), 1);
    fake_destroy (&fake);
    reading_load ("list", reading_ids);
    assert_int_equal (strncmp (reading_ids, "0: the earlier", 14), 0);
    fake = reading_fake (3, 1);
    assert_int_equal (RUN (fake, "--dataset=train", list), 0);
    fake_destroy (&fake);
    reading_load ("list", reading_ids);
    assert_string_equal (reading_ids, "0: 0 1 2\n");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_signals_end_in_order),
        cmocka_unit_test (test_a_signal_before_the_sleep),
        cmocka_unit_test (test_kill_leaves_the_ids),
        cmocka_unit_test (test_server_dies),
        cmocka_unit_test (test_unwritable_ids),
        cmocka_unit_test (test_unwritable_output),
        cmocka_unit_test (test_ids_survive_a_failed_join)
    };
    return cmocka_run_group_tests (tests, reading_set_up, reading_tear_down);
}

//  `tureen read --state` as a process, against a fake server: whatever ends a run, the next one goes on.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fake_server.h"
#include "reading.h"

static char s_record_argument [160], s_state_argument [160];

//  The arguments for the two files, which are not there yet.
static void
s_new_record (void)
{
    unlink (reading_path ("record"));
    unlink (reading_path ("state"));
    snprintf (s_record_argument, sizeof s_record_argument, "--ids=%s", reading_path ("record"));
    snprintf (s_state_argument, sizeof s_state_argument, "--state=%s", reading_path ("state"));
}

//  Both files as they are.
static void
s_load_record (char state [READING_BYTES])
{
    reading_load ("record", reading_ids);
    reading_load ("state", state);
}

//  The record has one finished line, with each of so many samples once.
static void
s_check_once (uint64_t samples)
{
    static bool had [READING_BYTES];
    uint64_t count = 0;
    char state [READING_BYTES];
    memset (had, 0, sizeof had);
    s_load_record (state);
    assert_int_equal (strncmp (reading_ids, "0: ", 3), 0);
    for (char *place = reading_ids + 2; *place == ' '; count++) {
        uint64_t id = strtoull (place + 1, &place, 10);
        if (id >= samples || had [id])
            fail_msg ("sample %d in: %s", (int) id, reading_ids);
        had [id] = true;
    }
    assert_int_equal (count, samples);
    assert_string_equal (strchr (reading_ids, '\n'), "\n");
    assert_non_null (strstr (state, "\"epoch\": \"1\""));
    reading_load ("state.new", state);
    assert_string_equal (state, "");
}

//  Waits until the record has ids in it.
static void
s_wait_for_record (void)
{
    for (int left = 12000; left > 0; left--) {
        reading_load ("record", reading_ids);
        if (strlen (reading_ids) > 80)
            return;
        usleep (5000);
    }
    fail_msg ("no ids came: %s", reading_err);
}

//  Ended by a signal, or killed at any moment: the next run goes on, and the ids of both are one epoch, each
//  once.  The state is behind the ids when it is killed; what comes again takes the place of what had been
//  written.
static void
test_a_run_goes_on (void **state)
{
    (void) state;
    static const int signals [] = { SIGTERM, SIGKILL, SIGKILL };
    static const char *const every [] = { "--state-every=100", "--state-every=1", "--state-every=3" };
    for (int index = 0; index < 3; index++) {
        s_new_record ();
        fake_plan_t plan = { .samples = 200, .epochs = 1, .shuffle = true };
        fake_server_t *fake = fake_new (&plan);
        //  It takes 4 seconds: on a slow machine too it is not done when it is killed.
        pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=50", s_record_argument,
            s_state_argument, every [index]);
        s_wait_for_record ();
        kill (process, signals [index]);
        assert_int_equal (reading_finish (process),
            (signals [index] == SIGKILL? 1000: 128) + signals [index]);
        fake_destroy (&fake);
        fake = fake_new (&plan);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--json", s_record_argument,
            s_state_argument), 0);
        if (reading_result ("samples") <= 0 || reading_result ("samples") >= 200)
            fail_msg ("signal %d, %s: %s", signals [index], every [index], reading_out);
        s_check_once (200);
        assert_int_equal (fake_seen (fake).joins, 1);
        //  Nothing is left: no server is asked, nothing is changed.
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--json", s_record_argument,
            s_state_argument), 0);
        assert_true (reading_result ("samples") == 0);
        s_check_once (200);
        assert_int_equal (fake_seen (fake).joins, 1);
        fake_destroy (&fake);
    }
}

//  A rank's record goes on where the state of all of them has come; with that of another rank, which was
//  behind, it is taken back.
static void
test_a_rank_goes_on (void **state)
{
    (void) state;
    char whole [READING_BYTES] = "0:", earlier [READING_BYTES];
    for (int id = 2; id < 200; id += id % 4 == 3? 3: 1)
        snprintf (whole + strlen (whole), sizeof whole - strlen (whole), " %d", id);
    strcat (whole, "\n");
    fake_plan_t plan = { .samples = 200, .epochs = 1 };
    fake_server_t *fake = fake_new (&plan);
    s_new_record ();
    pid_t process = START (fake, "--dataset=train", "--batch=2", "--rate=25", s_record_argument,
        s_state_argument, "--state-every=3", "--job=j", "--world-size=2", "--rank=1");
    s_wait_for_record ();
    kill (process, SIGKILL);
    assert_int_equal (reading_finish (process), 1000 + SIGKILL);
    s_load_record (earlier);
    assert_true (strlen (reading_ids) < strlen (whole)
        && !strncmp (reading_ids, whole, strlen (reading_ids)));
    fake_destroy (&fake);
    for (int round = 0; round < 2; round++) {
        FILE *file = fopen (reading_path ("state"), "w");
        assert_true (file && fputs (earlier, file) >= 0 && fclose (file) == 0);
        fake = fake_new (&plan);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", s_record_argument, s_state_argument,
            "--job=j", "--world-size=2", "--rank=1"), 0);
        reading_load ("record", reading_ids);
        assert_string_equal (reading_ids, whole);
        fake_destroy (&fake);
    }
    //  With a list, the recorded ids do not say where the job stood.
    FILE *file = fopen (reading_path ("list"), "w");
    assert_true (file && fputs ("5\n3\n", file) >= 0 && fclose (file) == 0);
    char list [160];
    snprintf (list, sizeof list, "--list=%s", reading_path ("list"));
    assert_int_equal (RUN (NULL, "--dataset=train", list, s_record_argument, s_state_argument, "--job=j",
        "--world-size=2", "--rank=1"), 2);
    assert_non_null (strstr (reading_err, "--list with --world-size: --ids or --state, not both"));
}

//  Of a list the state counts places, those of unreadable samples too; the record has only what came.
static void
test_a_list_goes_on_after_a_kill (void **state)
{
    (void) state;
    enum { PLACES = 300, BAD = 3 };
    char list [160], expected [READING_BYTES];
    snprintf (list, sizeof list, "--list=%s", reading_path ("list"));
    FILE *file = fopen (reading_path ("list"), "w");
    assert_non_null (file);
    size_t size = (size_t) sprintf (expected, "0:");
    for (int place = 0; place < PLACES; place++) {
        int id = place * place % 11;    //  with repeats
        fprintf (file, "%d\n", id);
        if (id != BAD)
            size += (size_t) sprintf (expected + size, " %d", id);
    }
    strcpy (expected + size, "\n");
    fclose (file);
    static const char *const every [] = { "--state-every=5", "--state-every=1" };
    for (int index = 0; index < 2; index++) {
        s_new_record ();
        fake_plan_t plan = { .samples = 11, .epochs = 1, .has_bad = true, .bad = BAD };
        fake_server_t *fake = fake_new (&plan);
        pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=80", list, s_record_argument,
            s_state_argument, every [index]);
        s_wait_for_record ();
        kill (process, SIGKILL);
        assert_int_equal (reading_finish (process), 1000 + SIGKILL);
        fake_destroy (&fake);
        fake = fake_new (&plan);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", list, s_record_argument,
            s_state_argument), 0);
        fake_destroy (&fake);
        reading_load ("record", reading_ids);
        assert_string_equal (reading_ids, expected);
    }
}

//  The server goes and comes back: the user reads of it, and the run is whole.
static void
test_a_run_outlives_its_server (void **state)
{
    (void) state;
    s_new_record ();
    fake_plan_t plan = { .samples = 100, .epochs = 1, .shuffle = true, .deed = FAKE_DIE, .deed_batches = 7,
        .revive_ms = 50 };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--job=trial-7", s_record_argument,
        s_state_argument), 0);
    s_check_once (100);
    assert_non_null (strstr (reading_err, "tureen read: the "));
    assert_non_null (strstr (reading_err, "; looking for it at ipc://"));
    assert_non_null (strstr (reading_err, "tureen read: the server is back after"));
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.joins, 2);
    assert_non_null (strstr (seen.join, "\"job\":\"trial-7\""));
    fake_destroy (&fake);
}

//  A disk that fills up under the ids: the run ends, and what the state says is in the file; the next run
//  makes it whole.
static void
test_a_full_disk_loses_nothing (void **state)
{
    (void) state;
    s_new_record ();
    fake_plan_t plan = { .samples = 900, .epochs = 1, .shuffle = true };
    fake_server_t *fake = fake_new (&plan);
    char command [1024];
    const char *folder = getenv ("TUREEN_BIN");
    //  The first sh that comes along counts in blocks of 512 or 1024 bytes: the ids need 3,490.
    snprintf (command, sizeof command,
        "ulimit -f 3; exec %s/tureen_read --dataset=train --batch=4 --state-every=5 "
        "%s %s --connect=%s 2>%s", folder? folder: ".", s_record_argument, s_state_argument,
        fake_endpoint (fake), reading_path ("err"));
    int status = system (command);
    assert_true (WIFEXITED (status));
    assert_int_equal (WEXITSTATUS (status), 1);
    reading_load ("err", reading_err);
    if (!strstr (reading_err, "--ids ")
        || !strstr (reading_err, "too large: raise the limit of file sizes (ulimit -f"))
        fail_msg ("%s", reading_err);
    char text [READING_BYTES];
    s_load_record (text);
    assert_non_null (strstr (text, "\"epoch\": \"0\""));
    fake_destroy (&fake);
    fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", s_record_argument, s_state_argument), 0);
    s_check_once (900);
    fake_destroy (&fake);
}

//  What cannot be written or read is said before anything is consumed, and nothing is touched.
static void
test_an_unusable_state (void **state)
{
    (void) state;
    s_new_record ();
    reading_write ("record", "0: 1 2 3\n");
    reading_write ("state", "{\"tureen_state\": 1}");
    fake_server_t *fake = reading_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, s_state_argument), 2);
    assert_non_null (strstr (reading_err, "read: --state: the state has no usable \"dataset\""));
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, "--state=/nowhere/state"), 1);
    assert_non_null (strstr (reading_err, "--state /nowhere/state: No such file"));
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, "--state=/"), 1);
    assert_non_null (strstr (reading_err, "--state /: Is a directory"));
    //  Each would take the other's place.
    char same [160];
    snprintf (same, sizeof same, "--state=%s", reading_path ("record"));
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, same), 2);
    assert_non_null (strstr (reading_err, "read: --ids and --state"));
    char text [READING_BYTES];
    s_load_record (text);
    assert_string_equal (reading_ids, "0: 1 2 3\n");
    assert_string_equal (text, "{\"tureen_state\": 1}");
    fake_destroy (&fake);
}

//  A state that is kept elsewhere, behind a link, is written there: a reader of the linked file continues
//  from it too.
static void
test_a_state_behind_a_link (void **state)
{
    (void) state;
    s_new_record ();
    char text [READING_BYTES];
    fake_server_t *fake = reading_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, s_state_argument), 0);
    fake_destroy (&fake);
    reading_load ("state", text);
    reading_write ("list", text);
    unlink (reading_path ("state"));
    assert_int_equal (symlink ("list", reading_path ("state")), 0);
    fake = reading_fake (64, 2);
    assert_int_equal (RUN (fake, "--dataset=train", "--epochs=2", s_record_argument, s_state_argument), 0);
    reading_load ("list", text);
    assert_non_null (strstr (text, "\"epoch\": \"2\""));
    assert_int_equal (readlink (reading_path ("state"), text, sizeof text), 4);
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_run_goes_on),
        cmocka_unit_test (test_a_rank_goes_on),
        cmocka_unit_test (test_a_list_goes_on_after_a_kill),
        cmocka_unit_test (test_a_run_outlives_its_server),
        cmocka_unit_test (test_a_full_disk_loses_nothing),
        cmocka_unit_test (test_an_unusable_state),
        cmocka_unit_test (test_a_state_behind_a_link)
    };
    return cmocka_run_group_tests (tests, reading_set_up, reading_tear_down);
}

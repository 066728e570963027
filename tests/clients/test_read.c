//  `tureen read` as a process, against a fake server: its exit status, what it prints, what it writes.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <jansson.h>
#include "fake_server.h"

extern char **environ;

enum { ARGUMENTS_MAX = 24, TEXT_BYTES = 16384 };

static char s_directory [] = "/tmp/tureen-read-XXXXXX";
static char s_out [TEXT_BYTES], s_err [TEXT_BYTES], s_ids [TEXT_BYTES];

static const char *
s_path (const char *name)
{
    static char path [128];
    snprintf (path, sizeof path, "%s/%s", s_directory, name);
    return path;
}

//  A whole file as a text; "" if there is none.
static void
s_load (const char *name, char text [TEXT_BYTES])
{
    FILE *file = fopen (s_path (name), "r");
    size_t size = file? fread (text, 1, TEXT_BYTES - 1, file): 0;
    text [size] = 0;
    if (file)
        fclose (file);
}

//  Where standard output goes: a path; "": closed; NULL: to the file `out`.
static const char *s_stdout;

//  Starts it with arguments up to NULL; output goes to files.  fake: its endpoint is added.
static pid_t
s_start_program (const char *name, const char *command, fake_server_t *fake, const char *const arguments [])
{
    char program [512];
    const char *folder = getenv ("TUREEN_BIN");
    snprintf (program, sizeof program, "%s/%s", folder? folder: ".", name);
    const char *all [ARGUMENTS_MAX + 5] = { name, command };
    size_t count = command? 2: 1;
    while (*arguments)
        all [count++] = *arguments++;
    if (fake) {
        all [count++] = "--connect";
        all [count++] = fake_endpoint (fake);
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init (&files);
    unlink (s_path ("ids"));
    posix_spawn_file_actions_addopen (&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen (&files, 1, s_stdout && *s_stdout? s_stdout: s_path ("out"),
        O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (s_stdout && !*s_stdout)
        posix_spawn_file_actions_addclose (&files, 1);
    posix_spawn_file_actions_addopen (&files, 2, s_path ("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t process;
    int rc = posix_spawn (&process, program, &files, NULL, (char *const *) all, environ);
    posix_spawn_file_actions_destroy (&files);
    if (rc)
        fail_msg ("%s: %s", program, strerror (rc));
    return process;
}

static pid_t
s_start (fake_server_t *fake, const char *const arguments [])
{
    return s_start_program ("tureen_read", NULL, fake, arguments);
}

//  Its exit status, or 1000 + the signal; loads what it wrote.
static int
s_finish (pid_t process)
{
    int status;
    assert_int_equal (waitpid (process, &status, 0), process);
    s_load ("out", s_out);
    s_load ("err", s_err);
    s_load ("ids", s_ids);
    return WIFEXITED (status)? WEXITSTATUS (status): 1000 + WTERMSIG (status);
}

#define RUN(fake, ...) s_finish (s_start (fake, (const char *const []) { __VA_ARGS__, NULL }))
#define START(fake, ...) s_start (fake, (const char *const []) { __VA_ARGS__, NULL })

static double
s_result (const char *key)
{
    json_t *root = json_loads (s_out, 0, NULL);
    if (!json_is_number (json_object_get (root, key)))
        fail_msg ("no %s in: %s (%s)", key, s_out, s_err);
    double value = json_number_value (json_object_get (root, key));
    json_decref (root);
    return value;
}

static fake_server_t *
s_fake (uint64_t samples, uint64_t epochs)
{
    fake_plan_t plan = { .samples = samples, .epochs = epochs };
    return fake_new (&plan);
}

//  --------------------------------------------------------------------------

static void
test_help (void **state)
{
    (void) state;
    assert_int_equal (RUN (NULL, "--help"), 0);
    assert_non_null (strstr (s_out, "Usage: tureen read --dataset NAME"));
    static const char *const options [] = { "--connect", "--dataset", "--batch", "--epochs", "--rate",
        "--subset",
        "--recipe", "--pipeline", "--order", "--list", "--slots", "--inline", "--drop-last", "--seed",
        "--pool", "--name",
        "--ids", "--json", "--timeout", "--state", "--state-every", "--job", "--rejoin", "--world-size",
        "--rank", "--gather", "--rank-wait", "--on-bad" };
    for (size_t index = 0; index < sizeof options / sizeof *options; index++)
        assert_non_null (strstr (s_out, options [index]));
}

//  Each is refused with status 2 and a sentence that names it, before anybody is asked.
static void
test_unusable_arguments (void **state)
{
    (void) state;
    static const char *const cases [] [4] = {
        { NULL, NULL, NULL, "--dataset NAME is required" }, { "--batch", "0", NULL, "--batch '0'" },
        { "--batch", "65537", NULL, "--batch" }, { "--batch", "1G", NULL, "--batch" },
        { "--batch", "-1", NULL, "--batch" },
        { "--batch", "64x", NULL, "--batch" }, { "--batch", "99999999999999999999", NULL, "--batch" },
        { "--epochs", "", NULL, "--epochs" }, { "--slots", "2", NULL, "3 to 64" },
        { "--rate", "0", NULL, "--rate" }, { "--rejoin", "-1", NULL, "--rejoin '-1'" },
        { "--rejoin", "nan", NULL, "--rejoin" },
        { "--state-every", "0", NULL, "--state-every '0'" },
        { "--dataset", "a", "--job=", "--job: expected 1 to 64" },
        { "--rate", "nan", NULL, "--rate" }, { "--timeout", "soon", NULL, "--timeout" },
        { "--subset", "5", NULL, "LO:HI" }, { "--subset", "5:5", NULL, "LO:HI" },
        { "--subset", "1:2,", NULL, "LO:HI" },
        { "--subset", "1:2;3:4", NULL, "LO:HI" }, { "--order", "random", NULL, "private, list or seeded" },
        { "--on-bad", "skip", NULL, "--on-bad 'skip': expected drop or fail" },
        { "--pool", "7", NULL, "--pool '7': expected a number from 8 to 16777216" },
        { "--dataset", "a", "--pool=64", "--pool needs --order seeded" },
        { "--list", "/nowhere/at/all", NULL, "--list /nowhere/at/all" }, { "--list", "-", NULL, "no ids" },
        { "--pipeline", "train", NULL, "JSON list" }, { "--frobnicate", NULL, NULL, "--frobnicate" },
        { "--batch", NULL, NULL, "needs a value" }, { "stray", NULL, NULL, "stray" },
        { "--json=3", NULL, NULL, "option '--json' takes no value" },
        { "--drop-last=no", NULL, NULL, "option '--drop-last' takes no value" },
        { "--s", "3", NULL, "option '--s' is ambiguous" },
        { "--dataste", "a", NULL, "unknown option '--dataste'; did you mean '--dataset'?" },
        { "-x", NULL, NULL, "unknown" },
        { "--dataset", "a", "--pipeline=[", "read: --pipeline: line 1" },
        { "--dataset", "a", "--recipe=\xff", "read: --recipe: not UTF-8" },
        { "--dataset", "a", "--name="
            "12345678901234567890123456789012345678901234567890123456789012345", "read: --name: longer" },
        { "--dataset", "a", "--connect=udp://x", "ipc://" },
        { "--dataset", "a", "--subset=4:6,0:5", "read: --subset: the ranges must be ascending" },
        { "--world-size", "65", NULL, "--world-size '65': expected a number from 1 to 64" },
        { "--dataset=a", "--rank=1", NULL, "--rank needs --world-size" },
        { "--dataset=a", "--gather=1", NULL, "--gather needs --world-size" },
        { "--dataset=a", "--world-size=2", NULL, "--world-size needs --rank" },
        { "--dataset=a", "--world-size=2", "--rank=1", "--world-size needs --job" },
        { "--dataset=a", "--world-size=1", "--rank=1", "read: --rank: 1; expected less than" },
        { "--gather", "0", NULL, "--gather '0'" }, { "--rank-wait", "86401", NULL, "--rank-wait '86401'" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        int status = RUN (NULL, cases [index] [0], cases [index] [1], cases [index] [2]);
        if (status != 2 || !strstr (s_err, cases [index] [3]))
            fail_msg ("case %zu: status %d, \"%s\"", index, status, s_err);
        assert_string_equal (s_out, "");
    }
}

static void
test_no_server (void **state)
{
    (void) state;
    assert_int_equal (RUN (NULL, "--dataset=train", "--timeout=0.1", "--connect=ipc:///tmp/tureen-nowhere"),
        1);
    assert_non_null (strstr (s_err, "tureen serve"));
}

static void
test_refused (void **state)
{
    (void) state;
    fake_plan_t plan = { .refuse = "this server has: train, val" };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=trian"), 1);
    assert_non_null (strstr (s_err, "this server has: train, val"));
    fake_destroy (&fake);
}

static void
test_ids_and_result_of_whole_epochs (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake (7, 2);
    char ids [160];
    snprintf (ids, sizeof ids, "--ids=%s", s_path ("ids"));
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=3", "--epochs=2", "--json", ids), 0);
    assert_string_equal (s_ids, "0: 0 1 2 3 4 5 6\n1: 0 1 2 3 4 5 6\n");
    assert_true (s_result ("job") == FAKE_JOB);
    assert_true (s_result ("epochs") == 2);
    assert_true (s_result ("samples") == 14);
    assert_true (s_result ("batches") == 6);
    assert_true (s_result ("bytes") == 14 * (FAKE_PIXELS + 8));
    assert_true (s_result ("seconds") > 0 && s_result ("samples_per_second") > 0
        && s_result ("wait_seconds") >= 0);
    assert_int_equal (fake_seen (fake).leaves, 1);
    assert_int_equal (fake_seen (fake).wrong, 0);
    fake_destroy (&fake);
}

//  Text for people, and that the ring and inline carry the same bytes.
static void
test_inline_has_the_same_checksum (void **state)
{
    (void) state;
    char checksums [2] [64];
    for (int round = 0; round < 2; round++) {
        fake_server_t *fake = s_fake (64, 1);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=8", "--json",
            round? "--inline": "--slots=3"), 0);
        json_t *root = json_loads (s_out, 0, NULL);
        snprintf (checksums [round], sizeof *checksums, "%s",
            json_string_value (json_object_get (root, "checksum")));
        assert_true (json_is_true (json_object_get (root, "ring")) == !round);
        json_decref (root);
        assert_int_equal (fake_seen (fake).inlines, round);
        fake_destroy (&fake);
    }
    assert_string_equal (checksums [0], checksums [1]);
    fake_server_t *fake = s_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=8"), 0);
    assert_non_null (strstr (s_out, "job 7 (shared memory, seed 7): 1 epoch, 64 samples in 8 batches"));
    fake_destroy (&fake);
}

//  Every option reaches the server.
static void
test_options_reach_the_server (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake (8, 1);
    assert_int_equal (RUN (fake, "--dataset=val", "--batch=1K", "--epochs=0", "--drop-last",
        "--subset=0:1,2:1K",
        "--recipe=eval", "--order=private", "--slots=5", "--seed=18446744073709551615", "--name=me",
        "--on-bad=fail"), 0);
    static const char *const texts [] = { "\"dataset\":\"val\"", "\"batch_size\":1024", "\"epochs\":null",
        "\"drop_last\":true", "\"pipeline\":\"eval\"", "\"order\":\"private\"", "\"slots\":5",
        "\"seed\":\"18446744073709551615\"", "\"name\":\"me\"", "\"frames\":[\"subset\"]",
        "\"on_bad\":\"fail\"" };
    fake_seen_t seen = fake_seen (fake);
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++)
        if (!strstr (seen.join, texts [index]))
            fail_msg ("%s is not in %s", texts [index], seen.join);
    assert_int_equal (seen.id_bytes, 8 + 4 * 8);
    fake_destroy (&fake);
}

//  What was not said of the order is left to the server; the result says the seed that gives the run again.
static void
test_seed_and_order (void **state)
{
    (void) state;
    static const struct { const char *arguments [2], *order; bool seeded; } cases [] = {
        { { "--json", NULL }, NULL, false }, { { "--seed=9", NULL }, NULL, true },
        { { "--order=seeded", NULL }, "\"order\":\"seeded\"", false },
        { { "--seed=9", "--order=seeded" }, "\"order\":\"seeded\"", true },
        { { "--pool=1K", "--order=seeded" }, "\"order\":\"seeded\",\"transport\":\"auto\",\"pool\":1024",
            false },
        { { "--order=shared", "--seed=9" }, "\"order\":\"shared\"", true },
        { { "--seed=9", "--order=list" }, "\"order\":\"list\"", true }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        fake_server_t *fake = s_fake (8, 1);
        assert_int_equal (RUN (fake, "--dataset=train", "--json", cases [index].arguments [0],
            cases [index].arguments [1]), 0);
        fake_seen_t seen = fake_seen (fake);
        if (cases [index].order? !strstr (seen.join, cases [index].order):
            strstr (seen.join, "order") != NULL)
            fail_msg ("case %zu: %s", index, seen.join);
        assert_int_equal (strstr (seen.join, "\"seed\":\"9\"") != NULL, cases [index].seeded);
        json_t *root = json_loads (s_out, 0, NULL);
        assert_string_equal (json_string_value (json_object_get (root, "seed")), "7");
        json_decref (root);
        fake_destroy (&fake);
    }
}

static void
test_a_list_of_ids (void **state)
{
    (void) state;
    FILE *file = fopen (s_path ("list"), "w");
    assert_non_null (file);
    fputs ("5\n3 \n5\n", file);
    fclose (file);
    char list [160];
    snprintf (list, sizeof list, "--list=%s", s_path ("list"));
    fake_server_t *fake = s_fake (3, 1);
    assert_int_equal (RUN (fake, "--dataset=train", list), 0);
    fake_seen_t seen = fake_seen (fake);
    assert_non_null (strstr (seen.join, "\"order\":\"list\""));
    assert_int_equal (seen.id_bytes, 8 + 3 * 8);
    assert_int_equal (RUN (NULL, "--dataset=train", list, "--order=shared"), 2);
    assert_int_equal (RUN (NULL, "--dataset=train", list, "--subset=0:1"), 2);
    file = fopen (s_path ("list"), "w");
    assert_non_null (file);
    fputs ("5\nfive\n", file);
    fclose (file);
    assert_int_equal (RUN (NULL, "--dataset=train", list), 2);
    assert_non_null (strstr (s_err, "line 2"));
    fake_destroy (&fake);
}

//  40 samples at 200 a second take 0.2 seconds, and the schedule does not add up delays.
static void
test_rate_paces (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake (44, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--rate=200", "--json"), 0);
    //  The last batch's turn counts as well, with its samples.
    assert_true (s_result ("seconds") >= 0.2199);
    assert_true (s_result ("seconds") < 30);    //  delays that add up would be the machine's: so only no hang
    fake_destroy (&fake);
    fake = s_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=64", "--rate=320", "--json"), 0);
    assert_true (s_result ("seconds") >= 0.1999);
    assert_true (s_result ("samples_per_second") <= 320.1);
    fake_destroy (&fake);
}

//  Waits until the ids file has something in it.
static void
s_wait_for_ids (void)
{
    for (int left = 12000; left > 0; left--) {
        s_load ("ids", s_ids);
        if (strlen (s_ids) > 12)
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
    snprintf (ids, sizeof ids, "--ids=%s", s_path ("ids"));
    for (int index = 0; index < 2; index++) {
        fake_server_t *fake = s_fake (100000, 1);
        pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=100", "--json", ids);
        s_wait_for_ids ();
        kill (process, signals [index]);
        assert_int_equal (s_finish (process), 128 + signals [index]);
        assert_int_equal (strncmp (s_ids, "0: 0 1 2 3 4", 12), 0);
        assert_string_equal (s_ids + strlen (s_ids) - 5, " ...\n");
        assert_true (s_result ("samples") >= 4 && s_result ("epochs") == 0);
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
    fake_server_t *fake = s_fake (100000, 1);
    setenv ("TUREEN_TEST_LATE_SIGNAL", "15", 1);
    pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=0.01", "--json");
    unsetenv ("TUREEN_TEST_LATE_SIGNAL");
    alarm (60);                         //  ends the test, not the wait for it
    assert_int_equal (s_finish (process), 128 + SIGTERM);
    alarm (0);
    assert_true (s_result ("samples") == 4);
    assert_int_equal (fake_seen (fake).leaves, 1);
    fake_destroy (&fake);
}

//  Killed without a word: what was delivered is in the file.
static void
test_kill_leaves_the_ids (void **state)
{
    (void) state;
    char ids [160];
    snprintf (ids, sizeof ids, "--ids=%s", s_path ("ids"));
    fake_server_t *fake = s_fake (100000, 1);
    pid_t process = START (fake, "--dataset=train", "--batch=4", "--rate=100", ids);
    s_wait_for_ids ();
    kill (process, SIGKILL);
    assert_int_equal (s_finish (process), 1000 + SIGKILL);
    assert_int_equal (strncmp (s_ids, "0: 0 1 2 3", 10), 0);
    assert_null (strchr (s_ids, '\n'));
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
    snprintf (ids, sizeof ids, "--ids=%s", s_path ("ids"));
    fake_plan_t plan = { .samples = 1000, .deed = FAKE_DIE, .deed_batches = 3 };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", "--json", "--rejoin=0", ids), 1);
    assert_non_null (strstr (s_err, "server"));
    assert_string_equal (s_ids, "0: 0 1 2 3 4 5 ...\n");
    assert_true (s_result ("samples") == 6);
    fake_destroy (&fake);
}

static void
test_unwritable_ids (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--ids=/nowhere/ids"), 1);
    assert_non_null (strstr (s_err, "/nowhere/ids"));
    assert_int_equal (RUN (fake, "--dataset=train", "--ids=/dev/full"), 1);
    assert_non_null (strstr (s_err, "No space"));
    fake_destroy (&fake);
}

//  Who cannot say what happened has not succeeded.
static void
test_unwritable_output (void **state)
{
    (void) state;
    static const struct { const char *path, *says; } cases [] = {
        { "/dev/full", "standard output: No space" }, { "", "standard output: Bad file descriptor" } };
    static const char *const status_arguments [] = { "--json", NULL };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_stdout = cases [index].path;
        for (int command = 0; command < 4; command++) {
            fake_server_t *fake = s_fake (8, 1);
            int status = command == 0? RUN (fake, "--dataset=train", "--json")
                : command == 1? RUN (fake, "--dataset=train")
                : command == 2? RUN (NULL, "--help")
                : s_finish (s_start_program ("tureen", "status", fake, status_arguments));
            if (status != 1 || !strstr (s_err, cases [index].says))
                fail_msg ("case %zu, command %d: status %d, \"%s\"", index, command, status, s_err);
            fake_destroy (&fake);
        }
        fake_server_t *fake = s_fake (8, 1);
        assert_int_equal (RUN (fake, "--dataset=train", "--ids=-"), 1);
        assert_non_null (strstr (s_err, "--ids -: "));
        //  What went wrong before is told as it was.
        assert_int_equal (RUN (NULL, "--frobnicate"), 2);
        fake_destroy (&fake);
    }
    s_stdout = NULL;
}

static void
s_write (const char *name, const char *text)
{
    FILE *file = fopen (s_path (name), "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

//  The ids of an earlier run are lost only once there is a job to write down.
static void
test_ids_survive_a_failed_join (void **state)
{
    (void) state;
    char list [160];
    snprintf (list, sizeof list, "--ids=%s", s_path ("list"));
    s_write ("list", "0: the earlier run, which was a good deal longer than this one is\n");
    fake_plan_t plan = { .refuse = "no" };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", list), 1);
    fake_destroy (&fake);
    s_load ("list", s_ids);
    assert_int_equal (strncmp (s_ids, "0: the earlier", 14), 0);
    fake = s_fake (3, 1);
    assert_int_equal (RUN (fake, "--dataset=train", list), 0);
    fake_destroy (&fake);
    s_load ("list", s_ids);
    assert_string_equal (s_ids, "0: 0 1 2\n");
}

//  What a rank is given, and no more: padding is a batch, and nothing else.
static void
test_a_rank_has_its_part (void **state)
{
    (void) state;
    static const char *const expected [] = { "0: 0 1 4\n1: 0 1 4\n", "0: 2 3\n1: 2 3\n" };
    for (int rank = 0; rank < 2; rank++) {
        fake_server_t *fake = s_fake (5, 2);
        char ids [160], number [24];
        snprintf (ids, sizeof ids, "--ids=%s", s_path ("ids"));
        snprintf (number, sizeof number, "--rank=%d", rank);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", "--epochs=2", "--json", ids,
            "--world-size=2", number, "--job=j", "--gather=7", "--rank-wait=0"), 0);
        assert_string_equal (s_ids, expected [rank]);
        assert_true (s_result ("rank") == rank && s_result ("world_size") == 2);
        assert_true (s_result ("batches") == 4);
        assert_true (s_result ("padding") == (rank? 2: 0));
        assert_true (s_result ("samples") == (rank? 4: 6));
        assert_true (s_result ("bytes") == (rank? 4: 6) * (FAKE_PIXELS + 8));
        fake_seen_t seen = fake_seen (fake);
        snprintf (ids, sizeof ids, "\"world_size\":2,\"rank\":%d,\"gather\":7,\"rank_wait\":0}", rank);
        if (!strstr (seen.join, ids))
            fail_msg ("%s", seen.join);
        fake_destroy (&fake);
    }
    fake_server_t *fake = s_fake (5, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", "--world-size=2", "--rank=1", "--job=j"), 0);
    assert_non_null (strstr (s_out,
        "job 7, rank 1 of 2 (shared memory, seed 7): 1 epoch, 2 samples in 2 batches"));
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  The state

static char s_record_argument [160], s_state_argument [160];

//  The arguments for the two files, which are not there yet.
static void
s_new_record (void)
{
    unlink (s_path ("record"));
    unlink (s_path ("state"));
    snprintf (s_record_argument, sizeof s_record_argument, "--ids=%s", s_path ("record"));
    snprintf (s_state_argument, sizeof s_state_argument, "--state=%s", s_path ("state"));
}

//  Both files as they are.
static void
s_load_record (char state [TEXT_BYTES])
{
    s_load ("record", s_ids);
    s_load ("state", state);
}

//  The record has one finished line, with each of so many samples once.
static void
s_check_once (uint64_t samples)
{
    static bool had [TEXT_BYTES];
    uint64_t count = 0;
    char state [TEXT_BYTES];
    memset (had, 0, sizeof had);
    s_load_record (state);
    assert_int_equal (strncmp (s_ids, "0: ", 3), 0);
    for (char *place = s_ids + 2; *place == ' '; count++) {
        uint64_t id = strtoull (place + 1, &place, 10);
        if (id >= samples || had [id])
            fail_msg ("sample %d in: %s", (int) id, s_ids);
        had [id] = true;
    }
    assert_int_equal (count, samples);
    assert_string_equal (strchr (s_ids, '\n'), "\n");
    assert_non_null (strstr (state, "\"epoch\": \"1\""));
    s_load ("state.new", state);
    assert_string_equal (state, "");
}

//  Waits until the record has ids in it.
static void
s_wait_for_record (void)
{
    for (int left = 12000; left > 0; left--) {
        s_load ("record", s_ids);
        if (strlen (s_ids) > 80)
            return;
        usleep (5000);
    }
    fail_msg ("no ids came: %s", s_err);
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
        assert_int_equal (s_finish (process), (signals [index] == SIGKILL? 1000: 128) + signals [index]);
        fake_destroy (&fake);
        fake = fake_new (&plan);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--json", s_record_argument,
            s_state_argument), 0);
        if (s_result ("samples") <= 0 || s_result ("samples") >= 200)
            fail_msg ("signal %d, %s: %s", signals [index], every [index], s_out);
        s_check_once (200);
        assert_int_equal (fake_seen (fake).joins, 1);
        //  Nothing is left: nobody is asked, nothing is changed.
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--json", s_record_argument,
            s_state_argument), 0);
        assert_true (s_result ("samples") == 0);
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
    char whole [TEXT_BYTES] = "0:", earlier [TEXT_BYTES];
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
    assert_int_equal (s_finish (process), 1000 + SIGKILL);
    s_load_record (earlier);
    assert_true (strlen (s_ids) < strlen (whole) && !strncmp (s_ids, whole, strlen (s_ids)));
    fake_destroy (&fake);
    for (int round = 0; round < 2; round++) {
        FILE *file = fopen (s_path ("state"), "w");
        assert_true (file && fputs (earlier, file) >= 0 && fclose (file) == 0);
        fake = fake_new (&plan);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", s_record_argument, s_state_argument,
            "--job=j", "--world-size=2", "--rank=1"), 0);
        s_load ("record", s_ids);
        assert_string_equal (s_ids, whole);
        fake_destroy (&fake);
    }
    //  Of a list nobody could tell.
    FILE *file = fopen (s_path ("list"), "w");
    assert_true (file && fputs ("5\n3\n", file) >= 0 && fclose (file) == 0);
    char list [160];
    snprintf (list, sizeof list, "--list=%s", s_path ("list"));
    assert_int_equal (RUN (NULL, "--dataset=train", list, s_record_argument, s_state_argument, "--job=j",
        "--world-size=2", "--rank=1"), 2);
    assert_non_null (strstr (s_err, "--list with --world-size: --ids or --state, not both"));
}

//  Of a list the state counts places, those of unreadable samples too; the record has only what came.
static void
test_a_list_goes_on_after_a_kill (void **state)
{
    (void) state;
    enum { PLACES = 300, BAD = 3 };
    char list [160], expected [TEXT_BYTES];
    snprintf (list, sizeof list, "--list=%s", s_path ("list"));
    FILE *file = fopen (s_path ("list"), "w");
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
        assert_int_equal (s_finish (process), 1000 + SIGKILL);
        fake_destroy (&fake);
        fake = fake_new (&plan);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", list, s_record_argument,
            s_state_argument), 0);
        fake_destroy (&fake);
        s_load ("record", s_ids);
        assert_string_equal (s_ids, expected);
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
    assert_non_null (strstr (s_err, "tureen read: the "));
    assert_non_null (strstr (s_err, "; looking for it at ipc://"));
    assert_non_null (strstr (s_err, "tureen read: the server is back after"));
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
        "%s %s --connect=%s 2>%s/err", folder? folder: ".", s_record_argument, s_state_argument,
        fake_endpoint (fake), s_directory);
    int status = system (command);
    assert_true (WIFEXITED (status));
    assert_int_equal (WEXITSTATUS (status), 1);
    s_load ("err", s_err);
    if (!strstr (s_err, "--ids ") || !strstr (s_err, "too large: raise the limit of file sizes (ulimit -f"))
        fail_msg ("%s", s_err);
    char text [TEXT_BYTES];
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
    s_write ("record", "0: 1 2 3\n");
    s_write ("state", "{\"tureen_state\": 1}");
    fake_server_t *fake = s_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, s_state_argument), 2);
    assert_non_null (strstr (s_err, "read: --state: the state has no usable \"dataset\""));
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, "--state=/nowhere/state"), 1);
    assert_non_null (strstr (s_err, "--state /nowhere/state: No such file"));
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, "--state=/"), 1);
    assert_non_null (strstr (s_err, "--state /: Is a directory"));
    //  Each would take the other's place.
    char same [160];
    snprintf (same, sizeof same, "--state=%s", s_path ("record"));
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, same), 2);
    assert_non_null (strstr (s_err, "read: --ids and --state"));
    char text [TEXT_BYTES];
    s_load_record (text);
    assert_string_equal (s_ids, "0: 1 2 3\n");
    assert_string_equal (text, "{\"tureen_state\": 1}");
    fake_destroy (&fake);
}

//  A state that is kept elsewhere, behind a link, is written there: who reads it there goes on from it too.
static void
test_a_state_behind_a_link (void **state)
{
    (void) state;
    s_new_record ();
    char text [TEXT_BYTES];
    fake_server_t *fake = s_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", s_record_argument, s_state_argument), 0);
    fake_destroy (&fake);
    s_load ("state", text);
    s_write ("list", text);
    unlink (s_path ("state"));
    assert_int_equal (symlink ("list", s_path ("state")), 0);
    fake = s_fake (64, 2);
    assert_int_equal (RUN (fake, "--dataset=train", "--epochs=2", s_record_argument, s_state_argument), 0);
    s_load ("list", text);
    assert_non_null (strstr (text, "\"epoch\": \"2\""));
    assert_int_equal (readlink (s_path ("state"), text, sizeof text), 4);
    fake_destroy (&fake);
}

static int
s_set_up (void **state)
{
    (void) state;
    return mkdtemp (s_directory)? 0: -1;
}

static int
s_tear_down (void **state)
{
    (void) state;
    static const char *const names [] = { "out", "err", "ids", "list", "record", "state", "state.new" };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        unlink (s_path (names [index]));
    return rmdir (s_directory);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_help),
        cmocka_unit_test (test_unusable_arguments),
        cmocka_unit_test (test_no_server),
        cmocka_unit_test (test_refused),
        cmocka_unit_test (test_ids_and_result_of_whole_epochs),
        cmocka_unit_test (test_a_rank_has_its_part),
        cmocka_unit_test (test_inline_has_the_same_checksum),
        cmocka_unit_test (test_options_reach_the_server),
        cmocka_unit_test (test_seed_and_order),
        cmocka_unit_test (test_a_list_of_ids),
        cmocka_unit_test (test_rate_paces),
        cmocka_unit_test (test_signals_end_in_order),
        cmocka_unit_test (test_a_signal_before_the_sleep),
        cmocka_unit_test (test_kill_leaves_the_ids),
        cmocka_unit_test (test_server_dies),
        cmocka_unit_test (test_unwritable_ids),
        cmocka_unit_test (test_unwritable_output),
        cmocka_unit_test (test_ids_survive_a_failed_join),
        cmocka_unit_test (test_a_run_goes_on),
        cmocka_unit_test (test_a_rank_goes_on),
        cmocka_unit_test (test_a_list_goes_on_after_a_kill),
        cmocka_unit_test (test_a_run_outlives_its_server),
        cmocka_unit_test (test_a_full_disk_loses_nothing),
        cmocka_unit_test (test_an_unusable_state),
        cmocka_unit_test (test_a_state_behind_a_link)
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}

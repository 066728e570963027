//  `tureen add` and `tureen remove` in the test's process, beside a made-up server: what they ask, and what
//  they say of the answers.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "command.h"
#include "control.h"

enum { SAID_BYTES = 4096, ARGUMENTS_MAX = 16 };

//  ---- the server

//  Its answers, one after the other; NULL: ERROR.
static struct {
    const char *answers [4];
    size_t asks;
    wire_kind_t kind;
    char text [SAID_BYTES];                 //  of the last question
} s_server;

int
control_open (control_t *self, const tureen_options_t *options, message_error_t *error)
{
    (void) self, (void) options, (void) error;
    return 0;
}

int
control_ask (control_t *self, wire_kind_t kind, const char *text, wire_kind_t reply, int timeout_ms,
    char **json_p, message_error_t *error)
{
    (void) self, (void) timeout_ms;
    assert_int_equal (reply, kind == WIRE_ADD? WIRE_ADDING: WIRE_REMOVED);
    const char *answer = s_server.answers [s_server.asks++];
    s_server.kind = kind;
    snprintf (s_server.text, sizeof s_server.text, "%s", text);
    *json_p = answer? strdup (answer): NULL;
    if (!answer)
        snprintf (error->text, sizeof error->text, "the server refused: because (taken)");
    return answer? 0: -ECONNREFUSED;
}

void
control_close (control_t *self)
{
    (void) self;
}

//  ---- the command

static char s_out [SAID_BYTES], s_err [SAID_BYTES];

//  What was written to the file since it was opened.
static void
s_read (FILE *file, char said [SAID_BYTES])
{
    rewind (file);
    said [fread (said, 1, SAID_BYTES - 1, file)] = 0;
    fclose (file);
}

//  Runs it with these words, up to a NULL, and its output in memory.  Its status.
static int
s_run (int (*command) (int argc, char **argv), const char *const words [])
{
    char *argv [ARGUMENTS_MAX] = { strdup (command == command_add? "add": "remove"),
        strdup ("--connect=ipc:///nowhere/socket") };
    int argc = 2, out = dup (STDOUT_FILENO), err = dup (STDERR_FILENO);
    for (; *words; words++)
        argv [argc++] = strdup (*words);
    FILE *said = tmpfile (), *complained = tmpfile ();
    assert_true (said && complained);
    fflush (stdout);
    dup2 (fileno (said), STDOUT_FILENO);
    dup2 (fileno (complained), STDERR_FILENO);
    s_server.asks = 0;
    char *held [ARGUMENTS_MAX];
    memcpy (held, argv, sizeof held);       //  the command moves words
    int status = command (argc, argv);
    fflush (stdout);
    dup2 (out, STDOUT_FILENO);
    dup2 (err, STDERR_FILENO);
    close (out);
    close (err);
    s_read (said, s_out);
    s_read (complained, s_err);
    for (int index = 0; index < argc; index++)
        free (held [index]);
    return status;
}
#define RUN(command, ...) s_run (command, (const char *const []) { __VA_ARGS__, NULL })

static void
s_answer (const char *first, const char *second)
{
    s_server.answers [0] = first;
    s_server.answers [1] = second;
    s_server.answers [2] = s_server.answers [3] = NULL;
}

//  ----

static void
it_asks_until_the_data_set_is_ready (void **state)
{
    (void) state;
    s_answer ("{\"state\":\"opening\",\"progress\":\"data set 'val': 5 files\"}",
        "{\"state\":\"ready\",\"lines\":[\"data set 'val': 5 samples\",\"warning: few\"]}");
    assert_int_equal (RUN (command_add, "val=/nowhere/val", "--on-bad", "val=fail",
        "--classes-from=val=train"), 0);
    assert_int_equal (s_server.asks, 2);
    assert_int_equal (s_server.kind, WIRE_ADD);
    assert_string_equal (s_server.text, "{\"arguments\":[\"--on-bad\",\"val=fail\",\"--classes-from\","
        "\"val=train\",\"--dataset\",\"val=/nowhere/val\"]}");
    assert_string_equal (s_out, "data set 'val': 5 samples\nwarning: few\n");
    assert_string_equal (s_err, "");
}

//  The server has another working folder.
static void
paths_are_whole (void **state)
{
    (void) state;
    char folder [64] = "/tmp/tureen-add-XXXXXX", *home = getcwd (NULL, 0), expected [SAID_BYTES];
    assert_non_null (mkdtemp (folder));
    assert_true (chdir (folder) == 0 && symlink (".", "link") == 0);
    s_answer ("{\"state\":\"ready\",\"lines\":[]}", NULL);
    assert_int_equal (RUN (command_add, "a=link", "b=s3://bucket/b", "c=missing", "--field",
        "a.m=mask:link/.", "--field", "b.m=mask:s3://bucket/m", "--tenant-datasets", "vision=a,b"), 0);
    snprintf (expected, sizeof expected, "{\"arguments\":[\"--field\",\"a.m=mask:%s\",\"--field\","
        "\"b.m=mask:s3://bucket/m\",\"--tenant-datasets\",\"vision=a,b\",\"--dataset\",\"a=%s\","
        "\"--dataset\",\"b=s3://bucket/b\",\"--dataset\",\"c=%s/missing\"]}", folder, folder, folder);
    assert_string_equal (s_server.text, expected);
    assert_true (unlink ("link") == 0 && chdir (home) == 0 && rmdir (folder) == 0);
    free (home);
}

static void
what_the_server_refuses_is_said (void **state)
{
    (void) state;
    s_answer ("{\"state\":\"opening\",\"progress\":\"\"}", NULL);
    assert_int_equal (RUN (command_add, "val=/nowhere"), 1);
    assert_string_equal (s_err, "tureen add: the server refused: because (taken)\n");
    s_answer (NULL, NULL);
    assert_int_equal (RUN (command_remove, "val"), 1);
    assert_string_equal (s_err, "tureen remove: the server refused: because (taken)\n");
    s_answer ("{}", NULL);
    assert_int_equal (RUN (command_add, "val=/nowhere"), 1);
    assert_non_null (strstr (s_err, "no server of ours"));
    s_answer ("{\"jobs\":\"many\"}", NULL);
    assert_int_equal (RUN (command_remove, "val"), 1);
    assert_non_null (strstr (s_err, "no server of ours"));
}

static void
a_data_set_is_removed (void **state)
{
    (void) state;
    s_answer ("{\"jobs\":0}", NULL);
    assert_int_equal (RUN (command_remove, "val"), 0);
    assert_string_equal (s_server.text, "{\"dataset\":\"val\",\"now\":false}");
    assert_string_equal (s_out, "data set 'val' is removed\n");
    s_answer ("{\"jobs\":1}", NULL);
    assert_int_equal (RUN (command_remove, "--now", "val"), 0);
    assert_string_equal (s_server.text, "{\"dataset\":\"val\",\"now\":true}");
    assert_string_equal (s_out, "data set 'val' is removed, and 1 job ends with it\n");
}

static void
arguments_that_are_unusable (void **state)
{
    (void) state;
    static const struct { bool adds; const char *word, *fragment; } cases [] = {
        { true, "--on-bad=val=drop", "no data set: expected NAME=PATH" },
        { true, "val", "NAME=PATH, got 'val'" },
        { true, "val=", "NAME=PATH, got 'val='" }, { true, "=/val", "NAME=PATH, got '=/val'" },
        { true, "--cache=4G", "unknown option" }, { true, "val=/\xff", "must be UTF-8" },
        { false, "--now", "which data set?" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_answer (NULL, NULL);
        assert_int_equal (RUN (cases [index].adds? command_add: command_remove, cases [index].word), 2);
        assert_int_equal (s_server.asks, 0);
        if (!strstr (s_err, cases [index].fragment))
            fail_msg ("%s: no '%s' in: %s", cases [index].word, cases [index].fragment, s_err);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (it_asks_until_the_data_set_is_ready),
        cmocka_unit_test (paths_are_whole),
        cmocka_unit_test (what_the_server_refuses_is_said),
        cmocka_unit_test (a_data_set_is_removed),
        cmocka_unit_test (arguments_that_are_unusable)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

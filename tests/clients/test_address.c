//  Where a client looks for its server is where a server listens, when neither is told.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "address.h"
#include "endpoint.h"

static char s_directory [] = "/tmp/tureen-address-XXXXXX";

static void
s_expect_agreement (const char *runtime)
{
    char client [ADDRESS_BYTES], server [ADDRESS_BYTES];
    message_error_t error;
    if (runtime)
        setenv ("XDG_RUNTIME_DIR", runtime, 1);
    else
        unsetenv ("XDG_RUNTIME_DIR");
    assert_true (address_resolve (NULL, client, &error));
    assert_int_equal (endpoint_default (server, sizeof server), 0);
    assert_string_equal (client, server);
}

static void
test_client_and_server_agree_on_the_default (void **state)
{
    (void) state;
    unsetenv ("TUREEN_ENDPOINT");
    assert_non_null (mkdtemp (s_directory));
    s_expect_agreement (NULL);
    s_expect_agreement ("");
    s_expect_agreement ("relative");
    s_expect_agreement ("/nowhere/at/all");
    s_expect_agreement ("/dev/null");
    s_expect_agreement (s_directory);
    char address [ADDRESS_BYTES], expected [ADDRESS_BYTES];
    message_error_t error;
    assert_true (address_resolve (NULL, address, &error));
    snprintf (expected, sizeof expected, "ipc://%s/tureen/server.sock", s_directory);
    assert_string_equal (address, expected);
    chmod (s_directory, 0500);          //  no hindrance for a superuser
    s_expect_agreement (s_directory);
    rmdir (s_directory);
}

//  A server that has claimed its endpoint is starting until it listens.  Of one that is dead the parent
//  tells, if it is a server.
static void
test_a_server_that_starts (void **state)
{
    (void) state;
    char folder [] = "/tmp/tureen-address-XXXXXX", text [64], process [32], how [ADDRESS_HOW_BYTES];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    message_error_t what;
    assert_non_null (mkdtemp (folder));
    snprintf (text, sizeof text, "ipc://%s/s.sock", folder);
    snprintf (address.sun_path, sizeof address.sun_path, "%s/s.sock", folder);
    snprintf (process, sizeof process, "process %ld has locked", (long) getpid ());
    prctl (PR_SET_NAME, "tureen");
    assert_false (address_is_starting (text, how));
    endpoint_t *endpoint;
    assert_int_equal (endpoint_claim (&endpoint, text, NULL, what.text, sizeof what.text), 0);
    assert_true (address_is_starting (text, how));
    assert_non_null (strstr (how, process));
    prctl (PR_SET_NAME, "another");
    assert_false (address_is_starting (text, how));
    prctl (PR_SET_NAME, "tureen");
    int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, sizeof address), 0);
    assert_true (address_is_starting (text, how));
    assert_int_equal (listen (listener, 1), 0);
    assert_false (address_is_starting (text, how));
    assert_false (address_is_starting ("tcp://127.0.0.1:1", how));
    close (listener);
    endpoint_destroy (&endpoint);
    assert_int_equal (rmdir (folder), 0);
    prctl (PR_SET_NAME, "test_address");
}

static void
test_what_is_given_wins (void **state)
{
    (void) state;
    char address [ADDRESS_BYTES], large [2 * ADDRESS_BYTES];
    message_error_t error;
    setenv ("TUREEN_ENDPOINT", "tcp://host:1", 1);
    assert_true (address_resolve ("ipc:///given", address, &error));
    assert_string_equal (address, "ipc:///given");
    assert_true (address_resolve (NULL, address, &error));
    assert_string_equal (address, "tcp://host:1");
    assert_true (address_resolve ("", address, &error));
    assert_string_equal (address, "tcp://host:1");
    unsetenv ("TUREEN_ENDPOINT");
    assert_false (address_resolve ("inproc://x", address, &error));
    memset (large, 'x', sizeof large - 1);
    large [sizeof large - 1] = 0;
    assert_false (address_resolve (large, address, &error));
}

//  The remedy names --listen only where the default is not what was asked.
static void
test_the_remedy_is_a_command_that_helps (void **state)
{
    (void) state;
    char address [ADDRESS_BYTES];
    message_error_t error;
    assert_true (address_resolve (NULL, address, &error));
    assert_false (address_fail (address, 100, &error));
    assert_null (strstr (error.text, "--listen"));
    assert_false (address_fail ("tcp://host:1", 100, &error));
    //  The server refuses tcp without keys.
    assert_non_null (strstr (error.text, "--listen tcp://host:1 --keys DIR"));
    assert_false (address_absent ("tcp://host:1", "none", &error));
    assert_non_null (strstr (error.text, "--listen tcp://host:1 --keys DIR"));
    assert_false (address_absent ("ipc:///tmp/x", "none", &error));
    assert_null (strstr (error.text, "--keys"));
}

static void
s_expect_use (const char *address, address_use_t expected, const char *words)
{
    char how [ADDRESS_HOW_BYTES];
    assert_int_equal (address_look (address, how), expected);
    if (!strstr (how, words))
        fail_msg ("%s: '%s' lacks '%s'", address, how, words);
}

//  What there is without a server's answer: a socket, a dead one, and the lock of a server that does not
//  listen yet.
static void
test_what_is_at_an_endpoint (void **state)
{
    (void) state;
    char folder [] = "/tmp/tureen-address-XXXXXX", address [ADDRESS_BYTES], lock [ADDRESS_BYTES + 8];
    assert_non_null (mkdtemp (folder));
    snprintf (address, sizeof address, "ipc://%s/s.sock", folder);
    snprintf (lock, sizeof lock, "%s/s.sock.lock", folder);
    s_expect_use (address, ADDRESS_VACANT, "there is no such socket");
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    snprintf (name.sun_path, sizeof name.sun_path, "%s/s.sock", folder);
    int listener = socket (AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &name, sizeof name), 0);
    assert_int_equal (listen (listener, 1), 0);
    s_expect_use (address, ADDRESS_IN_USE, "a server listens there, but it does not answer");
    close (listener);
    s_expect_use (address, ADDRESS_VACANT, "nothing listens at it: its server has died");
    unlink (name.sun_path);
    //  The lock counts if the process that it names is a living server.
    FILE *file = fopen (lock, "w");
    assert_non_null (file);
    fprintf (file, "%ld\n", (long) getpid ());
    fclose (file);
    s_expect_use (address, ADDRESS_VACANT, "there is no such socket");
    prctl (PR_SET_NAME, "tureen");
    s_expect_use (address, ADDRESS_STARTING, "has locked it and does not listen yet");
    prctl (PR_SET_NAME, "test_address");
    unlink (lock);
    rmdir (folder);
    s_expect_use ("tcp://host", ADDRESS_VACANT, "it has no port");
    s_expect_use ("tcp://255.255.255.255:9", ADDRESS_VACANT, "cannot be reached (Network is unreachable)");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_client_and_server_agree_on_the_default),
        cmocka_unit_test (test_a_server_that_starts),
        cmocka_unit_test (test_what_is_given_wins),
        cmocka_unit_test (test_the_remedy_is_a_command_that_helps),
        cmocka_unit_test (test_what_is_at_an_endpoint)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

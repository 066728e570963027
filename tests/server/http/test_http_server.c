//  Which requests may look over HTTP: tokens, hosts, addresses, and what is refused at the start.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "http_server.h"
#include "port.h"

#define OPERATORS "operators-token-1234"
#define VISION "vision-token-12345678"

static char s_folder [] = "/tmp/tu-http-XXXXXX";
static char s_path [64], s_socket [80];
static char s_port [8];
static const char *const s_tenants [] = { "audio", "vision" };

static const char *
s_at (const char *host)
{
    static char text [64];
    snprintf (text, sizeof text, "%s:%s", host, s_port);
    return text;
}

static int
s_begin (void **state)
{
    (void) state;
    unsigned port = port_find ();
    if (!mkdtemp (s_folder) || !port)
        return -1;
    snprintf (s_port, sizeof s_port, "%u", port);
    snprintf (s_path, sizeof s_path, "%s/tokens", s_folder);
    snprintf (s_socket, sizeof s_socket, "unix:%s/s", s_folder);
    return 0;
}

static int
s_end (void **state)
{
    (void) state;
    unlink (s_path);
    return rmdir (s_folder);
}

static void
s_write (const char *text, mode_t mode)
{
    FILE *file = fopen (s_path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
    assert_int_equal (chmod (s_path, mode), 0);
}

//  NULL: refused, with this in the error.
static http_server_t *
s_open (const char *listen, bool has_tokens, size_t tenants, const char *why)
{
    http_server_t *server;
    char error [512] = "";
    http_server_options_t options = { .listen = listen, .tokens = has_tokens? s_path: NULL,
        .tenants = s_tenants, .tenant_count = tenants };
    int rc = http_server_open (&server, &options, error, sizeof error);
    assert_true ((rc == 0) == (server != NULL));
    if (why) {
        assert_true (rc < 0);
        if (!strstr (error, why))
            fail_msg ("'%s' is not in '%s'", why, error);
        assert_null (strstr (error, OPERATORS));
    }
    else
    if (rc)
        fail_msg ("%s", error);
    return server;
}

static void
tokens (void **state)
{
    (void) state;
    s_write ("# viewers\n\n* " OPERATORS "\r\nvision\t" VISION "  \n", 0600);
    http_server_t *server = s_open (s_at ("0.0.0.0"), true, 2, NULL);
    assert_non_null (strstr (http_server_url (server), s_at ("http://0.0.0.0")));
    static const struct { const char *given; int viewer; } cases [] = {
        { "Bearer " OPERATORS, 0 }, { "bearer " VISION, 2 }, { NULL, HTTP_SERVER_DENIED },
        { "Bearer ", HTTP_SERVER_DENIED }, { OPERATORS, HTTP_SERVER_DENIED },
        { "Basic " OPERATORS, HTTP_SERVER_DENIED }, { "Bearer operators-token-123", HTTP_SERVER_DENIED },
        { "Bearer " OPERATORS "5", HTTP_SERVER_DENIED }, { "Bearer  " OPERATORS, HTTP_SERVER_DENIED }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        assert_int_equal (http_server_viewer (server, cases [index].given, "any.host"),
            cases [index].viewer);
    char large [400] = "Bearer ";
    memset (large + 7, 'a', sizeof large - 8);
    large [sizeof large - 1] = 0;
    assert_int_equal (http_server_viewer (server, large, NULL), HTTP_SERVER_DENIED);
    http_server_close (&server);
}

//  The longest token that a file may have is let in, and neither less nor more than it.
static void
the_longest_token (void **state)
{
    (void) state;
    char line [HTTP_SERVER_TOKEN_MOST + 8] = "* ", given [HTTP_SERVER_TOKEN_MOST + 16] = "Bearer ";
    memset (line + 2, 'a', HTTP_SERVER_TOKEN_MOST);
    s_write (line, 0600);
    http_server_t *server = s_open (s_at ("127.0.0.1"), true, 0, NULL);
    memset (given + 7, 'a', HTTP_SERVER_TOKEN_MOST - 1);
    assert_int_equal (http_server_viewer (server, given, NULL), HTTP_SERVER_DENIED);
    given [7 + HTTP_SERVER_TOKEN_MOST - 1] = 'a';
    assert_int_equal (http_server_viewer (server, given, NULL), 0);
    given [7 + HTTP_SERVER_TOKEN_MOST] = 'a';
    assert_int_equal (http_server_viewer (server, given, NULL), HTTP_SERVER_DENIED);
    http_server_close (&server);
}

static void
files_of_tokens_that_are_none (void **state)
{
    (void) state;
    static const struct { const char *text, *why; } cases [] = {
        { "", "no token in" }, { "# nothing\n", "no token in" }, { OPERATORS "\n", ":1: expected" },
        { "* " OPERATORS " more\n", ":1: expected" }, { "\nmusic " OPERATORS "\n", ":2: no tenant" },
        { "* short\n", ":1: a token has 16 to 128" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_write (cases [index].text, 0600);
        s_open (s_at ("127.0.0.1"), true, 2, cases [index].why);
    }
    s_write ("* " OPERATORS "\n", 0644);
    s_open (s_at ("127.0.0.1"), true, 2, "chmod 600");
    unlink (s_path);
    s_open (s_at ("127.0.0.1"), true, 2, "http-tokens: ");
}

static void
without_tokens (void **state)
{
    (void) state;
    s_open (s_at ("0.0.0.0"), false, 0, "--http-tokens FILE, or listen at 127.0.0.1");
    s_open (s_at ("[::]"), false, 0, "--http-tokens FILE");
    s_open (s_port, false, 1, "look at all tenants");
    http_server_t *server = s_open (s_port, false, 0, NULL);
    assert_non_null (strstr (http_server_url (server), s_at ("http://127.0.0.1")));
    static const struct { const char *host; int viewer; } cases [] = {
        { "localhost:19464", 0 }, { "LOCALHOST", 0 }, { "127.0.0.1:1", 0 }, { "[::1]:19464", 0 },
        { "evil.example", HTTP_SERVER_DENIED }, { "localhost.evil.example", HTTP_SERVER_DENIED },
        { "127.0.0.1.evil.example:19464", HTTP_SERVER_DENIED }, { NULL, HTTP_SERVER_DENIED }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        assert_int_equal (http_server_viewer (server, NULL, cases [index].host), cases [index].viewer);
    s_open (s_port, false, 0, "Address already in use");
    http_server_close (&server);
    //  Its file is the server's user's, so tenants' jobs may be seen; a dead server's file is replaced.
    server = s_open (s_socket, false, 2, NULL);
    assert_int_equal (http_server_viewer (server, NULL, NULL), 0);
    s_open (s_socket, false, 2, "Address already in use");
    http_server_close (&server);
    assert_int_not_equal (unlink (s_socket + strlen ("unix:")), 0);
    //  A file that is no socket stays.
    char listen [80];
    s_write ("mine", 0600);
    snprintf (listen, sizeof listen, "unix:%s", s_path);
    s_open (listen, false, 0, "Address already in use");
    assert_int_equal (unlink (s_path), 0);
    //  Another address of this machine has its own name.
    server = s_open (s_at ("127.0.0.2"), false, 0, NULL);
    assert_int_equal (http_server_viewer (server, NULL, s_at ("127.0.0.2")), 0);
    assert_int_equal (http_server_viewer (server, NULL, "127.0.0.3"), HTTP_SERVER_DENIED);
    http_server_close (&server);
}

//  A server that is so busy that it lets no one in at present keeps its socket.
static void
a_busy_server_keeps_its_socket (void **state)
{
    (void) state;
    enum { MOST = 8 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat before, after;
    int busy = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting [MOST], count = 0, rc = 0;
    strcpy (address.sun_path, s_socket + strlen ("unix:"));
    assert_int_equal (bind (busy, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (listen (busy, 0), 0);
    assert_int_equal (lstat (address.sun_path, &before), 0);
    while (rc == 0) {
        assert_true (count < MOST);
        waiting [count] = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        rc = connect (waiting [count++], (struct sockaddr *) &address, sizeof address);
    }
    assert_int_equal (errno, EAGAIN);
    s_open (s_socket, false, 0, "Address already in use");
    assert_int_equal (lstat (address.sun_path, &after), 0);
    assert_true (before.st_ino == after.st_ino);
    while (count > 0)
        close (waiting [--count]);
    close (busy);
    assert_int_equal (unlink (address.sun_path), 0);
}

static void
addresses_that_are_none (void **state)
{
    (void) state;
    static const char *const texts [] = { "", "http", "0", "70000", ":9464", "127.0.0.1:", "127.0.0.1:9464x",
        "localhost:9464", "1.2.3:4:5", "unix:" };
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++)
        s_open (texts [index], false, 0, "http: ");
    s_open ("192.0.2.1:9464", false, 0, "cannot listen at 192.0.2.1:9464");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (tokens), cmocka_unit_test (the_longest_token),
        cmocka_unit_test (files_of_tokens_that_are_none), cmocka_unit_test (without_tokens),
        cmocka_unit_test (a_busy_server_keeps_its_socket), cmocka_unit_test (addresses_that_are_none)
    };
    return cmocka_run_group_tests (tests, s_begin, s_end);
}

//  Many requests beside a broker's thread that does not answer: they keep out no probe, and are told.
//  The clock stands still, so that no request waits too long.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "clock.h"
#include "http_server.h"
#include "scratch.h"

//  CONNECTIONS_MAX, WAITING_MAX and PROBES_MAX of http_server.c.
enum { PLACES = 200, WAITING = 100, PROBES = 50, REQUESTS = PLACES + 50, ANSWER_BYTES = 4096 };

typedef struct {
    scratch_folder_t scratch;
    struct sockaddr_un address;
    http_server_t *server;
    int open [2 * REQUESTS];
    size_t count;
    struct pollfd unanswered [2 * REQUESTS];
} world_t;

static int
s_begin (void **state)
{
    char listen [80], error [256];
    world_t *world = calloc (1, sizeof *world);
    assert_non_null (world);
    *state = world;
    alarm (300);                        //  what hangs fails
    assert_true (scratch_begin (&world->scratch));
    world->address.sun_family = AF_UNIX;
    snprintf (world->address.sun_path, sizeof world->address.sun_path, "%s/s", world->scratch.path);
    snprintf (listen, sizeof listen, "unix:%s/s", world->scratch.path);
    http_server_options_t options = { .listen = listen };
    assert_int_equal (http_server_open (&world->server, &options, error, sizeof error), 0);
    assert_int_equal (http_server_start (world->server), 0);
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    http_server_close (&world->server);
    while (world->count > 0)
        close (world->open [--world->count]);
    bool is_clean = scratch_end (&world->scratch);
    free (world);
    return is_clean? 0: -1;
}

//  On a connection of its own; returns it.
static int
s_ask (world_t *world, const char *path)
{
    char text [80];
    int size = snprintf (text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    int connection = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true (connection >= 0);
    assert_int_equal (connect (connection, (const struct sockaddr *) &world->address, sizeof world->address),
        0);
    assert_int_equal (send (connection, text, (size_t) size, MSG_NOSIGNAL), size);
    world->unanswered [world->count] = (struct pollfd) { .fd = connection, .events = POLLIN };
    world->open [world->count++] = connection;
    return connection;
}

static void
s_assert_answer (int connection, const char *begin, const char *end)
{
    char answer [ANSWER_BYTES] = "";
    size_t used = 0;
    //  It may come in pieces.
    for (ssize_t got = 1; got > 0 && !strstr (answer, end); used += got > 0? (size_t) got: 0)
        got = recv (connection, answer + used, sizeof answer - 1 - used, 0);
    if (!strstr (answer, begin) || !strstr (answer, end))
        fail_msg ("'%s' instead of '%s .. %s'", answer, begin, end);
}

//  Waits until so many more requests were told that others wait.
static void
s_wait_for_busy (world_t *world, size_t wanted)
{
    while (wanted > 0) {
        assert_true (poll (world->unanswered, world->count, -1) > 0);
        for (size_t place = 0; place < world->count; place++) {
            if (!world->unanswered [place].revents)
                continue;
            assert_true (wanted-- > 0);
            s_assert_answer (world->unanswered [place].fd, "HTTP/1.1 503 ", "too many requests wait");
            world->unanswered [place].fd = -1;
            world->unanswered [place].revents = 0;
        }
    }
}

//  Guards: of more requests than there are connections, some wait for the broker, and the others are told; a
//  probe of /healthz comes in beside them, and has its answer with the broker's.
static void
test_more_than_can_wait (void **state)
{
    world_t *world = *state;
    for (size_t count = 0; count < REQUESTS; count++)
        s_ask (world, "/metrics");
    s_wait_for_busy (world, REQUESTS - WAITING);
    int probe = s_ask (world, "/healthz");
    for (size_t count = 0; count < PROBES; count++)
        s_ask (world, "/healthz");
    s_wait_for_busy (world, 1);
    for (size_t count = 0; count < WAITING; count++)
        s_ask (world, "/metrics");
    s_wait_for_busy (world, WAITING);
    size_t viewer;
    assert_true (http_server_next (world->server, &viewer));
    http_server_answer (world->server, viewer, json_pack ("{s:s}", "version", "1"));
    s_assert_answer (probe, "HTTP/1.1 200 ", "\r\n\r\nok\n");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_more_than_can_wait, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

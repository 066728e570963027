//  Bytes of a client's to the HTTP server, as it runs, with and without tokens: it answers, or ends the
//  connection, and what a token hides stays hidden.  A NUL byte parts what is sent at once.

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "http_server.h"

int LLVMFuzzerTestOneInput (const uint8_t *bytes, size_t size);

#define SECRET "only-for-viewers"

enum { ANSWER_BYTES = 1 << 18, SHORT_MS = 20, LONG_MS = 60000 };

typedef struct {
    struct sockaddr_un address;
    http_server_t *server;
    pthread_t broker;
} play_t;

static play_t s_open, s_closed;         //  without a token, and with one
static char s_folder [] = "/tmp/tu-fuzz-http-XXXXXX";
static char s_answer [ANSWER_BYTES];

//  Answers as the broker's thread does.
static void *
s_run_broker (void *argument)
{
    play_t *self = argument;
    for (;;) {
        struct pollfd item = { .fd = http_server_asked (self->server), .events = POLLIN };
        size_t viewer;
        poll (&item, 1, -1);
        while (http_server_next (self->server, &viewer))
            http_server_answer (self->server, viewer, json_loads ("{\"version\": \"1\", "
                "\"uptime_seconds\": 1.5, "
                "\"jobs\": [{\"job\": 1, \"name\": \"" SECRET "\", \"delivered_samples\": 5}]}", 0, NULL));
    }
    return NULL;
}

static void
s_start (play_t *self, const char *name, const char *tokens)
{
    char listen [120], error [256];
    self->address.sun_family = AF_UNIX;
    snprintf (self->address.sun_path, sizeof self->address.sun_path, "%s/%s", s_folder, name);
    snprintf (listen, sizeof listen, "unix:%s", self->address.sun_path);
    http_server_options_t options = { .listen = listen, .tokens = tokens };
    int rc = http_server_open (&self->server, &options, error, sizeof error);
    assert (rc == 0);
    rc = http_server_start (self->server);
    assert (rc == 0);
    rc = pthread_create (&self->broker, NULL, s_run_broker, self);
    assert (rc == 0);
}

static void
s_stop (play_t *self)
{
    pthread_cancel (self->broker);
    pthread_join (self->broker, NULL);
    http_server_close (&self->server);
}

static void
s_leave (void)
{
    s_stop (&s_open);
    s_stop (&s_closed);
    rmdir (s_folder);
}

static void
s_begin (void)
{
    char tokens [64];
    if (!mkdtemp (s_folder))
        abort ();
    snprintf (tokens, sizeof tokens, "%s/tokens", s_folder);
    umask (0077);
    FILE *file = fopen (tokens, "w");
    assert (file);
    fputs ("* 0123456789abcdef0123456789abcdef\n", file);
    fclose (file);
    s_start (&s_open, "open", NULL);
    s_start (&s_closed, "closed", tokens);
    unlink (tokens);
    atexit (s_leave);
}

//  What comes back, until the server ends the connection, or for so long: it waits for the rest of a request.
static size_t
s_send (const play_t *self, const uint8_t *bytes, size_t size, int patience_ms)
{
    struct timeval patience = { .tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000 };
    int connection = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = connect (connection, (const struct sockaddr *) &self->address, sizeof self->address);
    assert (rc == 0);
    setsockopt (connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (size > 0) {
        const uint8_t *end = memchr (bytes, 0, size);
        size_t part = end? (size_t) (end - bytes): size;
        if (part > 0 && send (connection, bytes, part, MSG_NOSIGNAL) < 0)
            break;
        part += end != NULL;
        bytes += part;
        size -= part;
    }
    shutdown (connection, SHUT_WR);
    size_t got = 0;
    ssize_t more;
    //  libFuzzer's clock is a signal.
    while ((more = recv (connection, s_answer + got, sizeof s_answer - 1 - got, 0)) > 0
        || (more < 0 && errno == EINTR))
        got += more > 0? (size_t) more: 0;
    close (connection);
    s_answer [got] = 0;
    return got;
}

int
LLVMFuzzerTestOneInput (const uint8_t *bytes, size_t size)
{
    if (!s_open.server)
        s_begin ();
    s_send (&s_open, bytes, size, SHORT_MS);
    size_t got = s_send (&s_closed, bytes, size, SHORT_MS);
    if (memmem (s_answer, got, SECRET, strlen (SECRET)))
        abort ();
    //  It goes on.
    static const char health [] = "GET /healthz HTTP/1.0\r\n\r\n";
    got = s_send (&s_closed, (const uint8_t *) health, strlen (health), LONG_MS);
    if (!memmem (s_answer, got, "200 OK", strlen ("200 OK"))) {
        fprintf (stderr, "a probe of /healthz got %zu bytes: %s\n", got, s_answer);
        abort ();
    }
    return 0;
}

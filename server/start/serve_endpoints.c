#include "serve_endpoints.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "complain.h"

enum { ERROR_BYTES = 1024, HOST_BYTES = 256 };

//  Where the next endpoint of a list begins.  A comma may be part of a path, so a scheme must follow it.
static const char *
s_next (const char *text)
{
    const char *comma = strchr (text, ',');
    while (comma && strncmp (comma + 1, "ipc://", 6) != 0 && strncmp (comma + 1, "tcp://", 6) != 0)
        comma = strchr (comma + 1, ',');
    return comma? comma + 1: NULL;
}

static int
s_claim (serve_endpoints_t *self, const options_t *options, const char *text, bool is_one_of_two)
{
    char error [ERROR_BYTES];
    endpoint_t **endpoint_p = text && strncmp (text, "tcp://", 6) == 0? &self->tcp: &self->ipc;
    endpoint_access_t access = { .open = options->open, .keys = options->keys, .group = options->group,
        .group_id = options->group_id, .is_one_of_two = is_one_of_two };
    for (size_t index = 0; index < options->user_count; index++)
        access.users = access.users
            || (options->users [index].uid != 0 && options->users [index].uid != geteuid ());
    int rc = endpoint_claim (endpoint_p, text, &access, error, sizeof error);
    if (rc)
        complain ("serve", "%s", error);
    return rc;
}

int
serve_endpoints_claim (serve_endpoints_t *self, const options_t *options)
{
    const char *second = options->listen? s_next (options->listen): NULL;
    if (!second)
        return s_claim (self, options, options->listen, false);
    if (s_next (second) || strncmp (options->listen, second, 3) == 0) {
        complain ("serve", "listen: one ipc and one tcp endpoint at most, as in "
            "ipc:///run/tureen/server.sock,tcp://0.0.0.0:5555, got '%s'", options->listen);
        return -EINVAL;
    }
    char *first = strndup (options->listen, (size_t) (second - options->listen) - 1);
    if (!first) {
        complain ("serve", "not enough memory to listen: free some");
        return -ENOMEM;
    }
    int rc = s_claim (self, options, first, true);
    rc = rc? rc: s_claim (self, options, second, true);
    free (first);
    return rc;
}

bool
serve_endpoints_is_port_taken (const serve_endpoints_t *self)
{
    static const char scheme [] = "tcp://";
    if (!self->tcp)
        return false;
    const char *address = endpoint_text (self->tcp) + strlen (scheme), *colon = strrchr (address, ':');
    bool is_six = *address == '[';
    char host [HOST_BYTES];
    snprintf (host, sizeof host, "%.*s", (int) (colon - address) - 2 * is_six, address + is_six);
    struct addrinfo *found, hints = { .ai_family = is_six? AF_INET6: AF_INET, .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_PASSIVE | AI_NUMERICHOST };
    if (getaddrinfo (strcmp (host, "*")? host: NULL, colon + 1, &hints, &found))
        return false;
    int one = 1, probe = socket (found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe >= 0)
        setsockopt (probe, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);        //  as ZeroMQ does
    bool is_taken = probe >= 0 && bind (probe, found->ai_addr, found->ai_addrlen) != 0 && errno == EADDRINUSE;
    if (probe >= 0)
        close (probe);
    freeaddrinfo (found);
    return is_taken;
}

bool
serve_endpoints_share (const serve_endpoints_t *self)
{
    char error [ERROR_BYTES];
    return !self->ipc || endpoint_share (self->ipc, error, sizeof error) == 0
        || complain ("serve", "%s", error);
}

void
serve_endpoints_release (serve_endpoints_t *self)
{
    endpoint_destroy (&self->tcp);
    endpoint_destroy (&self->ipc);
}

const char *
serve_endpoints_ipc (const serve_endpoints_t *self)
{
    return self->ipc? endpoint_text (self->ipc): NULL;
}

const char *
serve_endpoints_tcp (const serve_endpoints_t *self)
{
    return self->tcp? endpoint_text (self->tcp): NULL;
}

const char *
serve_endpoints_ring_path (const serve_endpoints_t *self)
{
    return endpoint_ring_path (self->ipc? self->ipc: self->tcp);
}

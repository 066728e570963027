#include "serve.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "clock.h"
#include "complain.h"
#include "tenant.h"

//  ---- tenants

_Static_assert ((int) OPTIONS_TENANTS_MAX + 1 <= (int) BROKER_TENANTS_MAX, "and the operator");
_Static_assert ((int) OPTIONS_WEIGHT_MAX <= (int) BROKER_WEIGHT_MAX
    && OPTIONS_DATASETS_MAX <= 64, "what settings may say");

static tenant_t *
s_make_tenant (broker_t *broker, const options_t *options, size_t index)
{
    const options_tenant_t *wanted = &options->tenants [index];
    broker_tenant_t given = { .name = wanted->name, .weight = wanted->weight, .jobs_max = wanted->jobs_max,
        .batches_bytes_max = wanted->batches_bytes_max, .cache_bytes_max = wanted->cache_bytes_max };
    tenant_t *tenant = tenant_add (broker, &given);
    for (size_t place = 0; place < options->dataset_count; place++) {
        //  An earlier process of this server may have removed it.
        const dataset_t *dataset = dataset_named (broker, NULL, options->datasets [place].name);
        if (dataset && wanted->datasets >> place & 1)
            tenant_allow (broker, tenant, dataset);
    }
    return tenant;
}

static void
s_make_tenants (broker_t *broker, const options_t *options, tenant_t *tenants [OPTIONS_TENANTS_MAX])
{
    const options_tenant_t *own = &options->own;
    broker_tenant_t given = { .weight = own->weight, .jobs_max = own->jobs_max,
        .batches_bytes_max = own->batches_bytes_max,
        .cache_bytes_max = own->cache_bytes_max };
    if (options->tenant_count > 0)
        tenant_limit (broker, tenant_named (broker, NULL), &given);
    for (size_t index = 0; index < options->tenant_count; index++)
        tenants [index] = s_make_tenant (broker, options, index);
}

tenants_t *
serve_tenants (broker_t *broker, const options_t *options, const client_keys_t *keys)
{
    tenant_t *tenants [OPTIONS_TENANTS_MAX];
    tenants_user_t *users = calloc (options->user_count + 1, sizeof *users);
    if (!users)
        return NULL;
    s_make_tenants (broker, options, tenants);
    for (size_t index = 0; index < options->user_count; index++) {
        size_t tenant = options->users [index].tenant;
        uint32_t jobs_max = options->tenants [tenant].jobs_max;
        users [index] = (tenants_user_t) { .uid = options->users [index].uid, .tenant = tenants [tenant],
            .jobs_max = jobs_max? jobs_max:
            (uint32_t) tenant_share (broker, tenants [tenant], OPTIONS_JOBS_MAX) };
    }
    tenants_t *self = tenants_new (broker, keys, options->open, users, options->user_count);
    free (users);
    return self;
}

bool
serve_tenants_has (void *broker, const char *name)
{
    return tenant_named (broker, name) != NULL;
}


//  ---- endpoints

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


//  ---- an end that is not waited for too long

static void *
s_watch (void *argument)
{
    serve_ending_t *self = argument;
    struct timespec due = clock_deadline (SERVE_ENDING_MS);
    pthread_mutex_lock (&self->mutex);
    while (!self->is_done && pthread_cond_timedwait (&self->changed, &self->mutex, &due) != ETIMEDOUT)
        ;
    self->is_late = !self->is_done;
    pthread_mutex_unlock (&self->mutex);
    if (!self->is_late)
        return NULL;
    log_event (self->log, LOG_LEVEL_WARNING, "ended_late", LOG_FIELDS (LOG_NUMBER ("ms", SERVE_ENDING_MS)),
        "ended without waiting any longer for a thread that still works or reads");
    serve_endpoints_release (self->endpoints);
    _exit (self->status);
}

void
serve_ending_begin (serve_ending_t *self, log_t *log, serve_endpoints_t *endpoints, int status)
{
    *self = (serve_ending_t) { .log = log, .endpoints = endpoints, .status = status };
    pthread_mutex_init (&self->mutex, NULL);
    clock_condition_init (&self->changed);
    self->is_watched = pthread_create (&self->thread, NULL, s_watch, self) == 0;
}

void
serve_ending_end (serve_ending_t *self)
{
    if (!self->log)
        return;
    pthread_mutex_lock (&self->mutex);
    self->is_done = !self->is_late;
    pthread_cond_signal (&self->changed);
    pthread_mutex_unlock (&self->mutex);
    if (self->is_watched)
        pthread_join (self->thread, NULL);      //  if it is late, it ends the process
    pthread_cond_destroy (&self->changed);
    pthread_mutex_destroy (&self->mutex);
}

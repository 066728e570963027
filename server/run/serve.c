#include "serve.h"
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "additions.h"
#include "budget.h"
#include "client_keys.h"
#include "client_socket.h"
#include "clock.h"
#include "cluster.h"
#include "complain.h"
#include "connection_limit.h"
#include "custom_sandbox.h"
#include "customs.h"
#include "decoder.h"
#include "http_server.h"
#include "loop.h"
#include "machine.h"
#include "options.h"
#include "pieces.h"
#include "receive_quota.h"
#include "served.h"
#include "service.h"
#include "spare_threads.h"
#include "supervise.h"
#include "tenant.h"
#include "words.h"

//  For ranges on their way, if there is so much memory: what 20 Gbit/s bring in 100 ms.  It is taken from the
//  system as far as ranges use it.
enum { BUFFER_BYTES = 256 * 1024 * 1024 };
//  Exit statuses; one of them means that another server has the endpoint, for scripts that start a server if
//  there is none.
enum { STATUS_FAILED = 1, STATUS_TAKEN = 3 };
enum { ERROR_BYTES = 1024, HOST_BYTES = 256, SIZE_BYTES = 32, MEBIBYTE = 1 << 20 };
enum { DESCRIPTORS_KEPT = 4 };      //  one part in so many is not for ranks of jobs, but for files and for
                                    //  clients that only ask

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

//  ---- endpoints

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
s_claim_one (serve_endpoints_t *self, const options_t *options, const char *text, bool is_one_of_two)
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
        return s_claim_one (self, options, options->listen, false);
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
    int rc = s_claim_one (self, options, first, true);
    rc = rc? rc: s_claim_one (self, options, second, true);
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


//  ---- the command

//  The parts of a server, in the order in which they are made.
typedef struct {
    options_t options;
    members_t *members;
    cluster_t *cluster;                 //  NULL: the settings name no members
    customs_t *customs;                 //  NULL: none
    served_sets_t sets;
    serve_endpoints_t endpoints;
    int signals;
    broker_t *broker;
    tasks_t *tasks;
    additions_t *additions;
    growth_t *growth;
    ring_server_t *ring_server;
    client_socket_t *client_socket;
    client_keys_t *keys;                //  NULL: on ipc, or open
    tenants_t *tenants;
    connection_limit_t *connection_limit;
    service_t *service;
    size_t cache_least;                 //  of prepared samples, for the standard recipes
    memory_parts_t parts;               //  of --memory
    http_server_t *http_server;         //  NULL: no HTTP
    const char *viewers [OPTIONS_TENANTS_MAX];      //  of HTTP, tenants by name
    log_t log;
    serve_ending_t ending;
    int64_t end_ms;                     //  the loop's time at its end; 0: it has not run
    int failure;                        //  exit status if it cannot start
    supervised_t supervised;
} server_t;

static bool
s_complain_errno (const char *what)
{
    return complain ("serve", "%s: %s", what, strerror (errno));
}

//  errno says what was short.
static bool
s_complain_shortage (const char *what)
{
    char text [MACHINE_SHORTAGE_BYTES];
    return complain ("serve", "%s: %s", what, machine_shortage (errno, text));
}

//  ---- starting

//  Clients of one host need many descriptors: raises the limit as far as the system allows.  Returns it.
static size_t
s_raise_descriptors (void)
{
    struct rlimit limit = { .rlim_cur = 0 };
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
        rlim_t before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit (RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    return limit.rlim_cur;
}

//  Makes the signals that ask for an end pollable; blocked before any thread exists, so that all threads
//  inherit it.
static bool
s_take_signals (server_t *self)
{
    signal (SIGPIPE, SIG_IGN);
    signal (SIGCHLD, SIG_DFL);              //  ignored, no end of an operation's process would be told
    sigset_t ends;
    sigemptyset (&ends);
    sigaddset (&ends, SIGTERM);
    sigaddset (&ends, SIGINT);
    sigaddset (&ends, SIGXCPU);
    //  Skips a signal that is ignored (nohup): if it were blocked, the kernel would deliver it all the same.
    struct sigaction hangup;
    if (sigaction (SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset (&ends, SIGHUP);
    sigprocmask (SIG_BLOCK, &ends, NULL);
    self->signals = signalfd (-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    return self->signals >= 0 || s_complain_errno ("no signal descriptor");
}

static bool
s_find_cache_least (server_t *self)
{
    const options_t *options = &self->options;
    const pipeline_t *recipe;
    char error [ERROR_BYTES];
    json_t *name = json_string ("train");
    int rc = pipeline_new (&recipe, name, NULL, NULL, 0, error, sizeof error);
    json_decref (name);
    if (rc)
        return complain ("serve", "%s", error);
    uint32_t hands = budget_hands (options->workers, (uint32_t) options->operation_count);
    self->cache_least = budget_cache_least (hands, pipeline_version_bytes (recipe));
    pipeline_destroy (&recipe);
    return true;
}

//  What else helps, of the parts that are given.
static const char *
s_leave_out (const memory_parts_wanted_t *wanted)
{
    return wanted->cache_given && wanted->raw_given? ", or leave out --cache and --raw":
        wanted->cache_given? ", or leave out --cache": wanted->raw_given? ", or leave out --raw": "";
}

//  Less than the parts that the server takes by itself cannot do without.
static bool
s_complain_least (const server_t *self, const memory_parts_wanted_t *wanted)
{
    const memory_parts_t *parts = &self->parts;
    char text [ERROR_BYTES] = "", size [SIZE_BYTES], memory [SIZE_BYTES];
    if (wanted->raw_given)
        append (text, sizeof text, "--raw has %s", served_size_text (parts->raw, size, SIZE_BYTES));
    else
    if (parts->raw > 1)
        append (text, sizeof text, "mixing needs %s (for the largest samples of the packs)",
            served_size_text (parts->raw, size, SIZE_BYTES));
    served_size_text (parts->cache, size, SIZE_BYTES);
    if (wanted->cache_given)
        append (text, sizeof text, "%s--cache has %s", *text? ", and ": "", size);
    else
        append (text, sizeof text, "%sprepared samples need %s (for %u workers)", *text? ", and ": "", size,
            self->options.workers);
    unsigned long long least = memory_parts_least (wanted) / MEBIBYTE + 1;
    served_size_text (wanted->memory, memory, SIZE_BYTES);
    //  Of so much the server itself needs an eighth.
    if (wanted->memory < self->options.memory_bytes)
        return complain ("serve", "%s of memory are too little: %s; let this process use %lluM or more",
            memory, text, least * 8 / 7 + 1);
    return complain ("serve", "--memory %s is too little: %s; give --memory %lluM or more%s", memory, text,
        least, s_leave_out (wanted));
}

//  False: there is too little for what is not given.
static bool
s_tell_parts (const server_t *self, const memory_parts_wanted_t *wanted, uint64_t data_bytes)
{
    const memory_parts_t *parts = &self->parts;
    bool is_given = wanted->cache_given && wanted->raw_given;
    char sizes [4] [SIZE_BYTES];
    if (parts->raw + parts->cache > wanted->memory && !is_given)
        return s_complain_least (self, wanted);
    const char *memory = served_size_text (wanted->memory, sizes [0], SIZE_BYTES);
    printf ("memory: %s for %s of data: %s for mixing, %s for prepared samples, ", memory,
        served_size_text (data_bytes, sizes [1], SIZE_BYTES),
        served_size_text (parts->raw, sizes [2], SIZE_BYTES),
        served_size_text (parts->cache, sizes [3], SIZE_BYTES));
    printf ("%s for pins", served_size_text (parts->pins - parts->pictures, sizes [1], SIZE_BYTES));
    if (wanted->pins_most > 0 && parts->pins >= wanted->pins_most)
        printf (", enough for all of the data; %s for decoded pictures",
            served_size_text (parts->pictures, sizes [1], SIZE_BYTES));
    else
    if (parts->pins > 0)
        printf (", enough for %.0f %% of the data", 100 * (double) parts->pins / (double) wanted->pins_most);
    printf ("\n");
    if (parts->raw + parts->cache > wanted->memory)
        printf ("warning: --cache %s and --raw %s take %s, more than --memory %s, and are used all the same; "
            "--memory leaves nothing for pins: give more, or leave out --cache and --raw\n", sizes [3],
            sizes [2], served_size_text (parts->raw + parts->cache, sizes [1], SIZE_BYTES), memory);
    else
    if (parts->pins == 0)
        printf ("warning: mixing and prepared samples take all of --memory %s, which leaves nothing for "
            "pins: give more%s\n", memory, s_leave_out (wanted));
    return true;
}

//  Sets the parts of --memory by what the data sets take.
static bool
s_divide_memory (server_t *self)
{
    options_t *options = &self->options;
    char sizes [4] [SIZE_BYTES];
    served_sizes_t data;
    uint64_t machine_bytes = machine_memory_bytes (""), memory = options->memory_bytes;
    if (memory > memory_parts_usable (machine_bytes)) {
        memory = memory_parts_usable (machine_bytes);
        printf ("warning: --memory %s, and this process may use %s (container limits included), of which "
            "the server itself needs an eighth: %s are used\n",
            served_size_text (options->memory_bytes, sizes [0], SIZE_BYTES),
            served_size_text (machine_bytes, sizes [1], SIZE_BYTES),
            served_size_text (memory, sizes [2], SIZE_BYTES));
    }
    if (!served_measure (&self->sets, options, &data))
        return false;
    memory_parts_wanted_t wanted = { .memory = memory, .cache_given = options->cache_bytes,
        .raw_given = options->raw_bytes, .cache_least = self->cache_least, .raw_least = data.raw_least,
        .pack_bytes = data.pack_bytes, .data_bytes = data.bytes, .pins_most = data.pins };
    self->parts = memory_parts_divide (&wanted);
    options->cache_bytes = self->parts.cache;
    options->raw_bytes = self->parts.raw;
    if (!s_tell_parts (self, &wanted, data.bytes))
        return false;
    self->sets.parts = &self->parts;
    self->sets.pins = pins_new (self->parts.pins);
    self->sets.pictures = pictures_new (self->parts.pictures);
    return (self->sets.pins && self->sets.pictures) || s_complain_shortage ("no memory for pins");
}

static bool
s_make_broker (server_t *self, size_t descriptors)
{
    uint32_t customs = (uint32_t) self->options.operation_count;
    size_t least = self->cache_least;
    if (self->options.cache_bytes < least)
        return complain ("serve", "a cache of %llu bytes is too small: with %u workers the standard "
            "recipes need at least %zu; start with --cache %zu or fewer --workers",
            (unsigned long long) self->options.cache_bytes, self->options.workers, least, least);
    broker_options_t options = {
        .cache_bytes = self->options.cache_bytes,
        .raw_bytes = self->options.raw_bytes - pieces_buffer_bytes (&self->options),
        .workers = self->options.workers, .customs = customs,
        .descriptors_max = descriptors - descriptors / DESCRIPTORS_KEPT,
        .jobs_bytes_max = machine_memory_bytes ("") / 4,
        //  options.c has refused other names.
        .policy = strcmp (self->options.policy, "dsa") == 0? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW,
        .gather_ms = BROKER_GATHER_MS, .patience_ms = self->options.patience * 1000,
        .job_cost_ms = self->options.job_cost_ms
    };
    if (getrandom (&options.seed, sizeof options.seed, 0) != sizeof options.seed)
        return s_complain_errno ("no random seed to be had");
    self->broker = broker_new (&options);
    return true;
}

static bool
s_open_keys (server_t *self)
{
    char error [ERROR_BYTES];
    return !self->options.keys || client_keys_open (&self->keys, self->options.keys, &self->log, error,
        sizeof error)
        == 0
        || complain ("serve", "%s", error);
}

//  Of two endpoints, tcp has no lock by which s_claim knows servers from other programs.
static void
s_note_taken (server_t *self)
{
    if (serve_endpoints_ipc (&self->endpoints))
        self->failure = STATUS_TAKEN;
}

static bool
s_open_client_socket (server_t *self)
{
    char error [ERROR_BYTES];
    client_socket_options_t options = { .ipc = serve_endpoints_ipc (&self->endpoints),
        .tcp = serve_endpoints_tcp (&self->endpoints), .keys = self->keys, .tenants = self->tenants,
        .log = &self->log };
    if (self->keys)
        client_keys_judge (self->keys, tenants_has, self->broker);
    errno = -spare_threads_try ();          //  ZeroMQ aborts without them
    if (errno)
        return s_complain_shortage ("cannot start the threads of the sockets");
    int rc = client_socket_open (&self->client_socket, &options, error, sizeof error);
    if (rc == -EADDRINUSE)
        s_note_taken (self);
    return rc == 0 || complain ("serve", "%s", error);
}

static bool
s_start_tasks (server_t *self)
{
    const char *path;
    size_t buffer_bytes = pieces_buffer_bytes (&self->options) < BUFFER_BYTES?
        pieces_buffer_bytes (&self->options): BUFFER_BYTES;
    tasks_options_t options = { .broker = self->broker, .workers = self->options.workers,
        .devices = self->sets.devices.all, .device_count = self->sets.devices.count,
        .cluster = self->cluster, .cache = self->sets.blocks, .customs = self->customs,
        .buffer_bytes = buffer_bytes };
    int rc = tasks_new (&self->tasks, &options, &path);
    if (rc == 0)
        return true;
    errno = -rc;
    bool is_short = !path && (rc == -EAGAIN || rc == -ENOMEM);
    if (is_short)
        return s_complain_shortage ("cannot start the threads that read and prepare");
    if (*machine_remedy (-rc) && !path)
        return complain ("serve", "cannot start the threads that read and prepare: %s%s", strerror (-rc),
            machine_remedy (-rc));
    return s_complain_errno (path? path: "cannot start the threads that read and prepare");
}

static bool
s_take_additions (server_t *self)
{
    additions_options_t options = { .broker = self->broker, .sets = &self->sets, .tasks = self->tasks,
        .log = &self->log, .kept = self->supervised.kept };
    served_allow (&self->sets);
    self->additions = additions_new (&options);
    self->growth = growth_new (&self->sets, &self->log);
    return (self->additions && self->growth)
        || s_complain_shortage ("no descriptor, or no memory, to add data sets");
}

static bool
s_claim (server_t *self)
{
    int rc = serve_endpoints_claim (&self->endpoints, &self->options);
    if (rc == -EADDRINUSE)
        self->failure = STATUS_TAKEN;
    return rc == 0;
}

//  Before data are opened, which may take long.
static bool
s_try_port (server_t *self)
{
    if (!serve_endpoints_is_port_taken (&self->endpoints))
        return true;
    s_note_taken (self);
    return complain ("serve", "cannot listen on %s: %s; choose another --listen",
        serve_endpoints_tcp (&self->endpoints), strerror (EADDRINUSE));
}

static size_t
s_connections_max (void *context, uid_t uid, const void **group_p)
{
    const server_t *self = context;
    const tenant_t *tenant;
    size_t most = tenants_connections_max (self->tenants, uid,
        connection_limit_descriptors_max (self->connection_limit), &tenant);
    *group_p = tenant;
    return most;
}

static bool
s_make_connection_limit (server_t *self)
{
    const char *ipc = serve_endpoints_ipc (&self->endpoints);
    int rc = connection_limit_new (&self->connection_limit, ipc? ipc + strlen ("ipc://"): NULL,
        s_connections_max, self);
    errno = -rc;
    return rc == 0 || s_complain_errno ("cannot look through the process's own descriptors (/proc/self/fd)");
}

//  Data that the peers of one user have sent and the server has not taken yet may use an eighth of the
//  memory.
static size_t
s_waiting_max (void)
{
    size_t part = (size_t) machine_memory_bytes ("") / 8;
    return part > RECEIVE_QUOTA_USER_LEAST? part: RECEIVE_QUOTA_USER_LEAST;
}

//  Before data are opened, so that a wrong setting or a taken port is reported at once; requests that come
//  meanwhile are answered when the server is ready.
static bool
s_listen_http (server_t *self)
{
    char error [ERROR_BYTES];
    if (!self->options.http)
        return !self->options.http_tokens || complain ("serve", "http-tokens without http: say where to "
            "listen, as in --http 9464");
    for (size_t index = 0; index < self->options.tenant_count; index++)
        self->viewers [index] = self->options.tenants [index].name;
    http_server_options_t options = { .listen = self->options.http, .tokens = self->options.http_tokens,
        .tenants = self->viewers, .tenant_count = self->options.tenant_count };
    return http_server_open (&self->http_server, &options, error, sizeof error) == 0
        || complain ("serve", "%s", error);
}

//  Opening data sets may take long.  Where a person watches the log and standard error on one terminal, the
//  line that is drawn there is enough.
static void
s_begin_progress (server_t *self)
{
    progress_t *progress = &self->sets.progress;
    *progress = progress_begin ("serve", false);
    if (self->log.is_json || !progress->is_terminal || !isatty (self->log.descriptor))
        progress_use_log (progress, &self->log);
}

static void
s_announce_customs (const customs_t *customs)
{
    size_t count;
    const custom_t *list = customs_list (customs, &count);
    for (size_t index = 0; index < count; index++)
        printf ("operation '%s', identity %s%s\n", list [index].name, list [index].identity,
            list [index].is_random? ", random": "");
    if (!custom_sandbox_has_seccomp ())
        printf ("warning: operations may start processes and open sockets: this kernel has no seccomp\n");
    if (!custom_sandbox_has_landlock ())
        printf ("warning: operations may overwrite, empty and remove files of this user: this kernel has no "
            "Landlock\n");
}

//  The memory for an image and its result is a file.  Of a limit that it reaches no sample would be to blame.
static bool
s_allows_files (const options_t *options)
{
    char file [SIZE_BYTES], memory [SIZE_BYTES];
    if (machine_file_bytes () >= options->operation_bytes)
        return true;
    return complain ("serve", "an operation may need a file of %s (--operation-memory), and the limit of "
        "file sizes is %s: raise it (ulimit -f, LimitFSIZE=), or lower --operation-memory",
        served_size_text (options->operation_bytes, memory, sizeof memory),
        served_size_text (machine_file_bytes (), file, sizeof file));
}

//  0; -EINTR: the server is to end; or another -errno, and the reason is on standard error.
static int
s_start_customs (customs_t **customs_p, const options_t *options, int end)
{
    customs_command_t commands [CUSTOM_MAX];
    char error [ERROR_BYTES];
    *customs_p = NULL;
    if (options->operation_count == 0)
        return 0;
    if (!s_allows_files (options))
        return -EFBIG;
    for (size_t index = 0; index < options->operation_count; index++)
        commands [index] = (customs_command_t) { options->operations [index].name,
            options->operations [index].command };
    customs_options_t wanted = { .commands = commands, .count = options->operation_count,
        .memory_bytes = options->operation_bytes, .seconds = options->operation_seconds, .end = end };
    int rc = customs_open (customs_p, &wanted, error, sizeof error);
    if (rc == 0)
        s_announce_customs (*customs_p);
    else
    if (rc != -EINTR)
        complain ("serve", "%s", error);
    return rc;
}

//  A signal that asks for the end meanwhile is no failure, as it is none later.
static bool
s_open_customs (server_t *self)
{
    int rc = s_start_customs (&self->customs, &self->options, self->signals);
    if (rc == -EINTR)
        self->failure = 0;
    return rc == 0;
}

static bool
s_is_this_machine (const char *name)
{
    return strncmp (name, "127.", 4) == 0 || strncmp (name, "localhost:", 10) == 0
        || strncmp (name, "[::1]:", 6) == 0;
}

//  False: the reason is on standard error.
static bool
s_check_members (const options_t *options)
{
    if (!options->members && (options->member || options->member_keys))
        return complain ("serve", "--member%s without --members: name all members, as in --members "
            "node1:7600,node2:7600", options->member? "": "-keys");
    if (!options->members)
        return true;
    if (!options->member)
        return complain ("serve", "--members without --member: say by which HOST:PORT the others reach this "
            "server, as in --member node1:7600");
    if (!options->blocks_folder)
        return complain ("serve", "--members without --disk: members keep blocks for each other on "
            "their local disks; name a folder and its size, as in --disk /var/cache/tureen=200G");
    const char *remedy = "make a folder with the key pair of all members (docs/cluster_cache.md), and give "
        "it to each as --member-keys DIR";
    if (!options->keys && !options->member_keys && !s_is_this_machine (options->member))
        return complain ("serve", "every program that reaches '%s' could read the data sets: %s",
            options->member, remedy);
    if (!options->keys && !options->member_keys && !options->open)
        return complain ("serve", "every user of this machine could read the data sets at '%s': %s, or say "
            "that they may (--open)", options->member, remedy);
    return true;
}

//  The members' own keys are never made here: a pair that no other member has would keep this server alone.
static bool
s_make_cluster (server_t *self)
{
    const options_t *options = &self->options;
    char error [ERROR_BYTES];
    certificate_t pair = { .public_text = "" };
    if (options->member_keys && client_keys_pair (&pair, options->member_keys, error, sizeof error))
        return complain ("serve", "--member-keys: %s", error);
    cluster_options_t cluster = { .members = self->members, .name = options->member };
    if (options->member_keys || self->keys) {
        cluster.public_key = options->member_keys? pair.public_text: client_keys_server_public (self->keys);
        cluster.secret_key = options->member_keys? pair.secret_text: client_keys_server_secret (self->keys);
    }
    self->cluster = cluster_new (&cluster);
    certificate_wipe (&pair);
    return self->cluster || complain ("serve", "no memory for the cluster");
}

//  Finds the members, before the data sets are opened.
static bool
s_open_cluster (server_t *self)
{
    const options_t *options = &self->options;
    char error [ERROR_BYTES];
    if (!s_check_members (options))
        return false;
    if (!options->members)
        return true;
    if (members_open (&self->members, options->members, options->member, options->blocks_bytes, error,
        sizeof error))
        return complain ("serve", "--members: %s", error);
    return s_make_cluster (self);
}

//  When all readers run: the other members may ask.
static bool
s_start_cluster (server_t *self)
{
    char error [ERROR_BYTES];
    if (!self->cluster)
        return true;
    if (cluster_start (self->cluster, error, sizeof error))
        return complain ("serve", "%s", error);
    members_look_t look;
    members_look (self->members, &look);
    printf ("blocks of stores are kept together with other servers: %s\n", look.source);
    return true;
}

static bool
s_start (server_t *self)
{
    umask (0077);                       //  sockets are this user's alone
    size_t descriptors = s_raise_descriptors ();
    bool has_parts = self->options.memory_bytes == 0;
    if (!s_take_signals (self) || !s_find_cache_least (self)
    ||  (has_parts && !s_make_broker (self, descriptors)) || !s_claim (self))
        return false;
    //  Before slow steps: wrong keys are reported at once.
    if (!s_try_port (self) || !s_listen_http (self) || !s_open_keys (self)
        || !s_open_cluster (self))
        return false;
    if (!s_open_customs (self))
        return false;
    self->sets.customs = self->customs;
    self->sets.cluster = self->cluster;
    s_begin_progress (self);
    //  What an earlier process of this server had added and removed.
    char *changes = self->supervised.kept >= 0? additions_kept_read (self->supervised.kept): NULL;
    self->sets.changes = changes? json_loads (changes, 0, NULL): NULL;
    free (changes);
    if (!has_parts && (!s_divide_memory (self) || !s_make_broker (self, descriptors)))
        return false;
    if (!served_open (&self->sets, self->broker, &self->options) || !s_start_tasks (self)
        || !s_start_cluster (self))
        return false;
    const char *ring_path = serve_endpoints_ring_path (&self->endpoints);
    int rc = ring_server_new (&self->ring_server, ring_path);
    if (rc) {
        errno = -rc;
        return s_complain_errno (ring_path);
    }
    self->tenants = serve_tenants (self->broker, &self->options, self->keys);
    if (!self->tenants)
        return s_complain_shortage ("no memory for the tenants");
    if (!s_take_additions (self))
        return false;
    receive_quota_set_limits (RECEIVE_QUOTA_CONNECTION_MAX, s_waiting_max ());
    if (!s_open_client_socket (self) || !s_make_connection_limit (self))
        return false;
    //  The group can connect from here on.
    if (!serve_endpoints_share (&self->endpoints))
        return false;
    errno = self->http_server? -http_server_start (self->http_server): 0;
    if (errno)
        return s_complain_errno ("cannot start the HTTP server");
    service_options_t options = { .broker = self->broker, .tenants = self->tenants, .tasks = self->tasks,
        .ring_server = self->ring_server,
        .router = client_socket_router (self->client_socket), .ring_path = ring_path, .log = &self->log,
        .client_socket = self->client_socket, .connection_limit = self->connection_limit,
        .customs = self->customs, .block_cache = self->sets.blocks, .cluster = self->cluster,
        .memory = self->options.memory_bytes? &self->parts: NULL,
        .additions = self->additions, .restarts = self->supervised.restarts };
    self->service = service_new (&options);
    return self->service || s_complain_shortage ("no memory for the jobs");
}

//  Prints which users are served, and warns of probable mistakes.
static void
s_announce_users (const server_t *self)
{
    const options_t *options = &self->options;
    for (size_t index = 0; index < options->tenant_count; index++) {
        const options_tenant_t *tenant = &options->tenants [index];
        size_t users = 0;
        for (size_t user = 0; user < options->user_count; user++)
            users += options->users [user].tenant == index;
        printf ("tenant '%s': %zu user%s, weight %u\n", tenant->name, users, plural (users), tenant->weight);
        if (!tenant->datasets)
            printf ("warning: tenant '%s' may use no data set: name some with tenant-datasets %s=NAME, or * "
                "for all\n", tenant->name, tenant->name);
        if (users == 0 && !self->keys)
            printf ("warning: tenant '%s' has no users, and without keys no client can belong to it\n",
                tenant->name);
    }
    if (options->open)
        printf ("warning: open: every program that can reach this server can read these data sets, see all "
            "jobs and end its service\n");
}

static void
s_announce_keys (const server_t *self)
{
    if (!self->keys)
        return;
    size_t count, admitted = 0;
    const client_keys_grant_t *grants = client_keys_grants (self->keys, &count);
    for (size_t index = 0; index < count; index++)
        admitted += grants [index].admits;
    printf ("keys that are let in (%s): %zu. The server's key: %s\n", self->options.keys, admitted,
        client_keys_server_public (self->keys));
    printf ("clients need it (TUREEN_SERVER_KEY) beside their own (TUREEN_KEY): `tureen key new FILE`, and "
        "here `tureen key allow %s FILE --tenant NAME`\n", self->options.keys);
}

static void
s_announce (const server_t *self)
{
    char size [32];
    printf ("%u worker%s, a cache of %s, policy %s\n", self->options.workers, plural (self->options.workers),
        served_size_text (self->options.cache_bytes, size, sizeof size), self->options.policy);
    if (machine_file_bytes () < machine_memory_bytes ("") / 4)
        printf ("warning: a file may have at most %s here (ulimit -f, LimitFSIZE=): jobs with larger windows "
            "of batches get them through the socket, which costs copies\n",
            served_size_text (machine_file_bytes (), size, sizeof size));
    const char *of_files = tasks_reading_mode (self->tasks, false),
        *of_stores = tasks_reading_mode (self->tasks, true);
    const char *direct = !of_files? "": tasks_reads_direct (self->tasks)? " and O_DIRECT":
        " through the page cache";
    if (budget_reads_max (self->broker) > 0)
        printf ("packs are read by %s%s%s%s, with %s for compressed samples\n", of_files? of_files: "",
            direct, of_files && of_stores? ", and by ": "", of_stores? of_stores: "",
            served_size_text (self->options.raw_bytes, size, sizeof size));
    else
        printf ("files are read by %s%s%s\n", of_files? of_files: "", of_files && of_stores? ", and by ": "",
            of_stores? of_stores: "");
    if (!decoder_has_entropy ())
        printf ("JPEGs are decoded by libjpeg alone, which takes half as long again: TUREEN_JPEG is set, or "
            "this libjpeg is of another version than the one that the server was built with\n");
    served_warn (&self->sets);
    s_announce_users (self);
    s_announce_keys (self);
    if (self->http_server)
        printf ("to look at: %s%s\n", http_server_url (self->http_server),
            self->options.http_tokens? ", with a token": "");
    const char *texts [] = { serve_endpoints_ipc (&self->endpoints), serve_endpoints_tcp (&self->endpoints) };
    for (size_t index = 0; index < 2; index++)
        if (texts [index])
            printf ("listening on %s\n", texts [index]);
    fflush (stdout);
}

//  ---- running

static void
s_run (server_t *self)
{
    loop_t loop = { .broker = self->broker, .tasks = self->tasks, .service = self->service,
        .additions = self->additions, .growth = self->growth,
        .ring_server = self->ring_server, .client_socket = self->client_socket,
        .connection_limit = self->connection_limit,
        .tenants = self->tenants, .keys = self->keys, .customs = self->customs,
        .block_cache = self->sets.blocks, .members = self->members, .http_server = self->http_server,
        .viewers = self->viewers, .sets = &self->sets,
        .idle_limit_ms = (int64_t) self->options.until_idle * 1000, .signals = self->signals,
        .waiting_bytes_max = s_waiting_max (), .log = &self->log };
    self->end_ms = loop_run (&loop);
}

//  ---- ending

//  In an order that lets every client learn of the end: jobs first, then the socket with time to send, then
//  the rings' sockets.  Before any thread is waited for, what was learned is written.
static void
s_stop (server_t *self)
{
    served_save (&self->sets);
    if (self->additions)
        additions_stop (self->additions);
    if (self->cluster)
        cluster_stop (self->cluster);
    if (self->service)
        service_stop (self->service, self->end_ms? self->end_ms: clock_now_ms ());
    else
    if (self->tasks)
        tasks_stop (self->tasks);
    http_server_close (&self->http_server);
    client_socket_destroy (&self->client_socket);
    service_destroy (&self->service);
    connection_limit_destroy (&self->connection_limit);
    tenants_destroy (&self->tenants);
    client_keys_destroy (&self->keys);
    ring_server_destroy (&self->ring_server);
    additions_destroy (&self->additions);
    growth_destroy (&self->growth);
    tasks_destroy (&self->tasks);
    broker_destroy (&self->broker);
    served_close (&self->sets);
    customs_close (&self->customs);
    cluster_destroy (&self->cluster);
    members_close (&self->members);
    serve_ending_end (&self->ending);
    serve_endpoints_release (&self->endpoints);
    if (self->signals >= 0)
        close (self->signals);
}

//  Whether SIGXCPU ended s_run; logs it then.
static bool
s_is_out_of_time (server_t *self)
{
    struct signalfd_siginfo signal;
    while (read (self->signals, &signal, sizeof signal) == sizeof signal)
        if (signal.ssi_signo == SIGXCPU) {
            log_event (&self->log, LOG_LEVEL_ERROR, "ending", LOG_FIELDS (LOG_TEXT ("reason", "cpu_limit")),
                "the limit of processor time is reached (ulimit -t, LimitCPU=): ending, before the system "
                "kills this process");
            return true;
        }
    return false;
}

//  A supervisor restarts a process that died of a signal, and the new process has its own CPU time limit.
static void
s_die_of_time (void)
{
    sigset_t time;
    sigemptyset (&time);
    sigaddset (&time, SIGXCPU);
    setrlimit (RLIMIT_CORE, &(struct rlimit) { .rlim_cur = 0 });
    signal (SIGXCPU, SIG_DFL);
    raise (SIGXCPU);
    sigprocmask (SIG_UNBLOCK, &time, NULL);
}

//  From now on what is printed to stdout are events, too, if the log is JSON.  *stdout_p: the stream that was
//  there; NULL: it still is.
static bool
s_print_events (server_t *self, FILE **stdout_p)
{
    if (!self->log.is_json)
        return true;
    FILE *lines = log_stream (&self->log);
    if (!lines)
        return s_complain_shortage ("no memory for the log");
    *stdout_p = stdout;
    stdout = lines;
    return true;
}

int
serve_command (int argc, char **argv)
{
    FILE *first_stdout = NULL;
    char error [ERROR_BYTES];
    server_t self = { .signals = -1, .supervised = supervise_child (), .log = { .descriptor = STDOUT_FILENO },
        .failure = STATUS_FAILED };
    option_status_t parsed = options_parse (&self.options, argc, argv, error, sizeof error);
    int status = 0;
    bool out_of_time = false;
    self.log.is_json = self.options.log_format && strcmp (self.options.log_format, "json") == 0;
    if (parsed == OPTION_HELP) {
        option_help (options_table (), stdout);
        printf ("\nThis build reads %s.\n", decoder_formats ());
    }
    else
    if (parsed == OPTION_WRONG) {
        complain ("serve", "%s", error);
        status = 2;
    }
    else
    if (self.options.supervise && !self.supervised.supervisor)
        status = supervise_run (&(supervise_options_t) { .argv = argv - 1, .kept = additions_kept_memory (),
            .log = &self.log });
    else
    if (s_print_events (&self, &first_stdout) && s_start (&self)) {
        s_announce (&self);
        s_run (&self);
        out_of_time = !service_ends_now (self.service) && s_is_out_of_time (&self);
        if (!out_of_time) {
            supervise_tell_end (&self.supervised);
            log_event (&self.log, LOG_LEVEL_NOTICE, "ending", NULL, "ending");
        }
        status = out_of_time? STATUS_FAILED: 0;
        serve_ending_begin (&self.ending, &self.log, &self.endpoints, status);
    }
    else {
        status = self.failure;
        fflush (stdout);                //  the end may be forced
        serve_ending_begin (&self.ending, &self.log, &self.endpoints, status);
    }
    s_stop (&self);
    if (first_stdout) {
        fclose (stdout);
        stdout = first_stdout;
    }
    options_clear (&self.options);
    if (out_of_time && self.supervised.supervisor)
        s_die_of_time ();
    return status;
}

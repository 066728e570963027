#include "command_serve.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include "clock.h"
#include "complain.h"
#include "connection_limit.h"
#include "decoder.h"
#include "ending.h"
#include "gate.h"
#include "http_access.h"
#include "http_server.h"
#include "keys.h"
#include "receive_quota.h"
#include "machine.h"
#include "options.h"
#include "plural.h"
#include "rlimits.h"
#include "serve_cluster.h"
#include "serve_customs.h"
#include "serve_endpoints.h"
#include "serve_tenants.h"
#include "service.h"
#include "sources.h"
#include "spare_threads.h"
#include "status_feed.h"
#include "supervise.h"

//  For ranges on their way, if there is so much memory: what 20 Gbit/s bring in 100 ms.  It is taken from the
//  system as far as ranges use it.
enum { BUFFER_BYTES = 256 * 1024 * 1024 };
//  Exit statuses; one of them means that another server has the endpoint, for scripts that start a server if
//  there is none.
enum { STATUS_FAILED = 1, STATUS_TAKEN = 3 };
enum { BEAT_MS = 500, ERROR_BYTES = 1024, TOLD_MS = 10000 };
enum { DESCRIPTORS_KEPT = 4 };      //  one part in so many is not for ranks of jobs, but for files and for
                                    //  clients that only ask

//  An event that may come a thousand times, as the log reports it.
typedef struct {
    uint64_t count;
    int64_t at_ms;                      //  when it was logged last
} told_t;

//  The parts of a server, in the order in which they are made.
typedef struct {
    options_t options;
    serve_cluster_t cluster;
    customs_t *customs;                 //  NULL: none
    sources_t sources;
    serve_endpoints_t endpoints;
    int signals;
    broker_t *broker;
    tasks_t *tasks;
    ring_server_t *ring_server;
    gate_t *gate;
    keys_t *keys;                       //  NULL: on ipc, or open
    tenants_t *tenants;
    connection_limit_t *connection_limit;
    told_t turned_away;                 //  by the connection limit
    told_t resets;                      //  of the receive quota
    told_t shortages;                   //  of memory and descriptors
    told_t damaged;                     //  in the cache on the local disk
    told_t set_aside;                   //  that cache
    bool is_set_aside;                  //  that was logged
    bool block_cache_failed;            //  that was logged
    service_t *service;
    http_access_t *http_access;         //  NULL: no HTTP, as the next two
    status_feed_t *status_feed;
    http_server_t *http_server;
    const char *viewers [OPTIONS_TENANTS_MAX];      //  of HTTP, tenants by name
    idle_t idle;
    log_t log;
    ending_t ending;
    int failure;                        //  exit status if it cannot start
    bool is_supervised;
    uint64_t restarts;                  //  how often its supervisor has restarted this server
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
s_make_broker (server_t *self, size_t descriptors)
{
    const pipeline_t *recipe;
    char error [ERROR_BYTES];
    json_t *name = json_string ("train");
    int rc = pipeline_new (&recipe, name, NULL, NULL, 0, error, sizeof error);
    json_decref (name);
    if (rc)
        return complain ("serve", "%s", error);
    uint32_t customs = (uint32_t) self->options.operation_count;
    size_t least = broker_cache_least (broker_hands (self->options.workers, customs),
        pipeline_version_bytes (recipe));
    pipeline_destroy (&recipe);
    if (self->options.cache_bytes < least)
        return complain ("serve", "a cache of %llu bytes is too small: with %u workers the standard "
            "recipes need at least %zu; start with --cache %zu or fewer --workers",
            (unsigned long long) self->options.cache_bytes, self->options.workers, least, least);
    broker_options_t options = {
        .cache_bytes = self->options.cache_bytes,
        .raw_bytes = self->options.raw_bytes - sources_buffer_part (&self->options),
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
s_is_tenant (void *context, const char *name)
{
    const server_t *self = context;
    return broker_tenant (self->broker, name) != NULL;
}

static bool
s_open_keys (server_t *self)
{
    char error [ERROR_BYTES];
    return !self->options.keys || keys_open (&self->keys, self->options.keys, &self->log, error, sizeof error)
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
s_open_gate (server_t *self)
{
    char error [ERROR_BYTES];
    gate_options_t options = { .ipc = serve_endpoints_ipc (&self->endpoints),
        .tcp = serve_endpoints_tcp (&self->endpoints), .keys = self->keys, .tenants = self->tenants,
        .log = &self->log };
    if (self->keys)
        keys_judge (self->keys, s_is_tenant, self);
    errno = -spare_threads_try ();          //  ZeroMQ aborts without them
    if (errno)
        return s_complain_shortage ("cannot start the threads of the sockets");
    int rc = gate_open (&self->gate, &options, error, sizeof error);
    if (rc == -EADDRINUSE)
        s_note_taken (self);
    return rc == 0 || complain ("serve", "%s", error);
}

static bool
s_start_tasks (server_t *self)
{
    const char *path;
    size_t buffer_bytes = sources_buffer_part (&self->options) < BUFFER_BYTES?
        sources_buffer_part (&self->options): BUFFER_BYTES;
    tasks_options_t options = { .broker = self->broker, .workers = self->options.workers,
        .devices = self->sources.devices, .device_count = self->sources.device_count,
        .cluster = self->cluster.cluster, .customs = self->customs, .buffer_bytes = buffer_bytes };
    int rc = tasks_new (&self->tasks, &options, &path);
    if (rc == 0)
        return true;
    errno = -rc;
    bool is_short = !path && (rc == -EAGAIN || rc == -ENOMEM);
    if (is_short)
        return s_complain_shortage ("cannot start the threads that read and prepare");
    if (*rlimits_remedy (-rc) && !path)
        return complain ("serve", "cannot start the threads that read and prepare: %s%s", strerror (-rc),
            rlimits_remedy (-rc));
    return s_complain_errno (path? path: "cannot start the threads that read and prepare");
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
    http_access_options_t access = { .listen = self->options.http, .tokens = self->options.http_tokens,
        .tenants = self->viewers, .tenant_count = self->options.tenant_count };
    return http_access_open (&self->http_access, &access, error, sizeof error) == 0
        || complain ("serve", "%s", error);
}

static bool
s_start_http (server_t *self)
{
    if (!self->http_access)
        return true;
    int rc = status_feed_new (&self->status_feed, self->options.tenant_count + 1);
    http_server_options_t options = { .access = self->http_access, .feed = self->status_feed,
        .tenants = self->viewers, .tenant_count = self->options.tenant_count };
    rc = rc? rc: http_server_start (&self->http_server, &options);
    errno = -rc;
    return rc == 0 || s_complain_errno ("cannot start the HTTP server");
}

//  Opening data sets may take long.  Where a person watches the log and standard error on one terminal, the
//  line that is drawn there is enough.
static void
s_begin_progress (server_t *self)
{
    progress_t *progress = &self->sources.progress;
    *progress = progress_begin ("serve", false);
    if (self->log.is_json || !progress->is_terminal || !isatty (self->log.descriptor))
        progress_use_log (progress, &self->log);
}

//  A signal that asks for the end meanwhile is no failure, as it is none later.
static bool
s_open_customs (server_t *self)
{
    int rc = serve_customs_open (&self->customs, &self->options, self->signals);
    if (rc == -EINTR)
        self->failure = 0;
    return rc == 0;
}

static bool
s_start (server_t *self)
{
    umask (0077);                       //  sockets are this user's alone
    size_t descriptors = s_raise_descriptors ();
    if (!s_take_signals (self) || !s_make_broker (self, descriptors) || !s_claim (self))
        return false;
    //  Before slow steps: wrong keys are reported at once.
    if (!s_try_port (self) || !s_listen_http (self) || !s_open_keys (self)
        || !serve_cluster_open (&self->cluster, &self->options, &self->log))
        return false;
    if (!s_open_customs (self))
        return false;
    self->sources.customs = self->customs;
    self->sources.cluster = self->cluster.cluster;
    s_begin_progress (self);
    if (!sources_open (&self->sources, self->broker, &self->options) || !s_start_tasks (self)
        || !serve_cluster_start (&self->cluster))
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
    receive_quota_set_limits (RECEIVE_QUOTA_CONNECTION_MAX, s_waiting_max ());
    if (!s_open_gate (self) || !s_make_connection_limit (self))
        return false;
    //  The group can connect from here on.
    if (!serve_endpoints_share (&self->endpoints) || !s_start_http (self))
        return false;
    service_options_t options = { .broker = self->broker, .tenants = self->tenants, .tasks = self->tasks,
        .ring_server = self->ring_server,
        .router = gate_router (self->gate), .ring_path = ring_path, .log = &self->log,
        .idle = &self->idle, .gate = self->gate, .connection_limit = self->connection_limit,
        .customs = self->customs, .block_cache = self->sources.blocks, .cluster = self->cluster.cluster,
        .restarts = self->restarts };
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
    const keys_grant_t *grants = keys_grants (self->keys, &count);
    for (size_t index = 0; index < count; index++)
        admitted += grants [index].admits;
    printf ("keys that are let in (%s): %zu. The server's key: %s\n", self->options.keys, admitted,
        keys_server_public (self->keys));
    printf ("clients need it (TUREEN_SERVER_KEY) beside their own (TUREEN_KEY): `tureen key new FILE`, and "
        "here `tureen key allow %s FILE --tenant NAME`\n", self->options.keys);
}

static void
s_announce (const server_t *self)
{
    char size [32];
    printf ("%u worker%s, a cache of %s, policy %s\n", self->options.workers, plural (self->options.workers),
        sources_size (self->options.cache_bytes, size, sizeof size), self->options.policy);
    if (rlimits_file_bytes () < machine_memory_bytes ("") / 4)
        printf ("warning: a file may have at most %s here (ulimit -f, LimitFSIZE=): jobs with larger windows "
            "of batches get them through the socket, which costs copies\n",
            sources_size (rlimits_file_bytes (), size, sizeof size));
    const char *of_files = tasks_reading_mode (self->tasks, false),
        *of_stores = tasks_reading_mode (self->tasks, true);
    const char *direct = !of_files? "": tasks_reads_direct (self->tasks)? " and O_DIRECT":
        " through the page cache";
    if (broker_reads_max (self->broker) > 0)
        printf ("packs are read by %s%s%s%s, with %s for compressed samples\n", of_files? of_files: "",
            direct, of_files && of_stores? ", and by ": "", of_stores? of_stores: "",
            sources_size (self->options.raw_bytes, size, sizeof size));
    else
        printf ("files are read by %s%s%s\n", of_files? of_files: "", of_files && of_stores? ", and by ": "",
            of_stores? of_stores: "");
    if (!decoder_has_entropy ())
        printf ("JPEGs are decoded by libjpeg alone, which takes half as long again: TUREEN_JPEG is set, or "
            "this libjpeg is of another version than the one that the server was built with\n");
    sources_warn (&self->sources);
    s_announce_users (self);
    s_announce_keys (self);
    if (self->http_access)
        printf ("to look at: %s%s\n", http_access_url (self->http_access),
            self->options.http_tokens? ", with a token": "");
    const char *texts [] = { serve_endpoints_ipc (&self->endpoints), serve_endpoints_tcp (&self->endpoints) };
    for (size_t index = 0; index < 2; index++)
        if (texts [index])
            printf ("listening on %s\n", texts [index]);
    fflush (stdout);
}

//  ---- running

static int
s_patience_ms (const server_t *self, int64_t now_ms, int64_t beat_ms)
{
    int64_t next = broker_wakeup (self->broker),
        due_ms = idle_due_ms (&self->idle, service_jobs (self->service));
    if (beat_ms < next)
        next = beat_ms;
    if (connection_limit_due_ms (self->connection_limit) < next)
        next = connection_limit_due_ms (self->connection_limit);
    if (due_ms < next)
        next = due_ms;
    if (service_wakeup (self->service) < next)
        next = service_wakeup (self->service);
    int64_t tasks_ms = tasks_wakeup (self->tasks);
    if (tasks_ms < next)
        next = tasks_ms;
    return next <= now_ms? 0: (int) (next - now_ms);
}

static bool
s_is_gone (void *context, const caller_t *caller)
{
    const server_t *self = context;
    return caller->uid == (uid_t) -1 && !keys_has_user (self->keys, caller->user);
}

//  Callers with a revoked key have no jobs from this moment on.
static void
s_look_at_keys (server_t *self, int64_t now_ms)
{
    if (!self->keys)
        return;
    bool gone = keys_look (self->keys);
    keys_judge (self->keys, s_is_tenant, self);
    if (gone)
        service_revoke (self->service, s_is_gone, self, now_ms);
}

//  How many more there are, if it is time to log them: one line in ten seconds.
static uint64_t
s_to_tell (told_t *told, uint64_t count, int64_t now_ms)
{
    uint64_t more = count - told->count;
    if (more == 0 || (told->count > 0 && now_ms - told->at_ms < TOLD_MS))
        return 0;
    *told = (told_t) { count, now_ms };
    return more;
}

static void
s_look_at_connection_limit (server_t *self, int64_t now_ms)
{
    connection_limit_look (self->connection_limit, now_ms);
    uint64_t times = s_to_tell (&self->turned_away, connection_limit_turned_away (self->connection_limit),
        now_ms);
    if (times == 0)
        return;
    caller_t caller;
    uid_t uid = connection_limit_last (self->connection_limit);
    bool known = tenants_caller (self->tenants, uid, CALLER_LOCAL, &caller);
    log_event (&self->log, LOG_LEVEL_NOTICE, "crowd",
        LOG_FIELDS (LOG_TEXT ("tenant", known? tenant_name (caller.tenant): NULL),
        LOG_NUMBER ("user", uid), LOG_NUMBER ("times", times)),
        "%llu connections were closed again, the last of user %u, because "
        "their tenants or users had more than their share; %zu of %zu descriptors are in use",
        (unsigned long long) times,
        (unsigned) uid, connection_limit_descriptors (self->connection_limit),
        connection_limit_descriptors_max (self->connection_limit));
}

static void
s_look_at_receive_quota (server_t *self, int64_t now_ms)
{
    uint64_t times = s_to_tell (&self->resets, receive_quota_resets (), now_ms);
    if (times == 0)
        return;
    log_event (&self->log, LOG_LEVEL_WARNING, "flood", LOG_FIELDS (LOG_NUMBER ("times", times)),
        "%llu connections were closed because of what they had sent: messages of too many frames or without "
        "an end, no ZMTP 3, or more than may wait (%zu MiB of one connection, %zu of one user)",
        (unsigned long long) times, RECEIVE_QUOTA_CONNECTION_MAX >> 20, s_waiting_max () >> 20);
}

static void
s_look_at_shortages (server_t *self, int64_t now_ms)
{
    uint64_t times = s_to_tell (&self->shortages, tasks_shortages (self->tasks), now_ms);
    if (times == 0)
        return;
    log_event (&self->log, LOG_LEVEL_WARNING, "shortage", LOG_FIELDS (LOG_NUMBER ("times", times)),
        "memory or descriptors are short: "
        "reading or preparing was put off %llu times, and goes on when there are some; %zu of %zu "
        "descriptors are in use",
        (unsigned long long) times, connection_limit_descriptors (self->connection_limit),
        connection_limit_descriptors_max (self->connection_limit));
}

static void
s_look_whether_aside (server_t *self, const block_cache_figures_t *figures, int64_t now_ms)
{
    //  A time that is over, or is within the ten seconds, is told with the next.
    uint64_t times = figures->is_aside? s_to_tell (&self->set_aside, figures->times_aside, now_ms): 0;
    if (times)
        log_event (&self->log, LOG_LEVEL_WARNING, "block_cache_aside",
            LOG_FIELDS (LOG_NUMBER ("times", times)),
            "the cache on the local disk, %s, does not answer, or too late: what it holds is read from the "
            "store until it does, and no sample is lost; if this is said again, mend or replace the disk",
            figures->folder);
    if (self->is_set_aside && !figures->is_aside)
        log_event (&self->log, LOG_LEVEL_NOTICE, "block_cache_answers", NULL,
            "the cache on the local disk, %s, is used again", figures->folder);
    self->is_set_aside = figures->is_aside && (times || self->is_set_aside);
}

static void
s_look_at_block_cache (server_t *self, int64_t now_ms)
{
    if (!self->sources.blocks)
        return;
    block_cache_figures_t figures = block_cache_figures (self->sources.blocks);
    s_look_whether_aside (self, &figures, now_ms);
    uint64_t times = s_to_tell (&self->damaged, figures.damaged, now_ms);
    if (times)
        log_event (&self->log, LOG_LEVEL_WARNING, "block_cache_damage",
            LOG_FIELDS (LOG_NUMBER ("times", times)),
            "the cache on the local disk, %s, is damaged in %llu places: what they held is read from the "
            "store again, and no sample is lost; if this is said again, mend or replace the disk",
            figures.folder, (unsigned long long) times);
    if (self->block_cache_failed)
        return;
    self->block_cache_failed = figures.failure;
    if (figures.failure)
        log_event (&self->log, LOG_LEVEL_WARNING, "block_cache",
            LOG_FIELDS (LOG_TEXT ("error", strerror (-figures.failure))),
            "the cache on the local disk, %s, cannot be written (%s): what is there is still used, and no "
            "sample is lost; free or mend the disk, and start the server again", figures.folder,
            strerror (-figures.failure));
}

//  What HTTP shows: to each viewer what its `tureen status` says.
static void
s_answer_viewers (server_t *self, int64_t now_ms)
{
    size_t viewer;
    while (status_feed_next (self->status_feed, &viewer)) {
        caller_t caller = { .is_operator = viewer == 0, .tenant = broker_tenant (self->broker,
            viewer? self->viewers [viewer - 1]: OPTIONS_OPERATOR) };
        status_feed_answer (self->status_feed, viewer, service_status (self->service, &caller, now_ms));
    }
}

static void
s_run (server_t *self)
{
    enum { ROUTER, QUESTIONS, RING_SERVER, SIGNALS, VIEWERS, TASKS, ITEMS = TASKS + TASKS_DESCRIPTORS };
    int tasks [TASKS_DESCRIPTORS];
    tasks_descriptors (self->tasks, tasks);
    zmq_pollitem_t items [ITEMS] = {
        [ROUTER] = { .socket = gate_router (self->gate), .events = ZMQ_POLLIN },
        [QUESTIONS] = { .socket = gate_questions (self->gate), .fd = -1, .events = ZMQ_POLLIN },
        [RING_SERVER] = { .fd = ring_server_descriptor (self->ring_server), .events = ZMQ_POLLIN },
        [SIGNALS] = { .fd = self->signals, .events = ZMQ_POLLIN },
        [VIEWERS] = { .fd = self->status_feed? status_feed_asked (self->status_feed): -1,
            .events = self->status_feed? ZMQ_POLLIN: 0 }
    };
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [TASKS + index] = (zmq_pollitem_t) { .fd = tasks [index], .events = ZMQ_POLLIN };
    int64_t beat_ms = 0;
    idle_begin (&self->idle, (int64_t) self->options.until_idle * 1000, clock_now_ms ());
    while (!(items [SIGNALS].revents & ZMQ_POLLIN)) {
        int64_t now_ms = clock_now_ms ();
        if (now_ms >= beat_ms) {
            ring_server_tick (self->ring_server, now_ms);
            s_look_at_keys (self, now_ms);
            service_beat (self->service, now_ms);
            s_look_at_block_cache (self, now_ms);
            serve_customs_look (self->customs, &self->log, now_ms);
            serve_cluster_look (&self->cluster, &self->log);
            beat_ms = now_ms + BEAT_MS;
        }
        s_look_at_connection_limit (self, now_ms);
        s_look_at_receive_quota (self, now_ms);
        s_look_at_shortages (self, now_ms);
        gate_answer (self->gate, now_ms);
        service_receive (self->service, now_ms);
        service_attend (self->service, now_ms);
        service_act (self->service, now_ms);
        if (items [VIEWERS].revents & ZMQ_POLLIN)
            s_answer_viewers (self, now_ms);
        if (idle_look (&self->idle, service_jobs (self->service), broker_jobs_total (self->broker), now_ms)) {
            log_event (&self->log, LOG_LEVEL_NOTICE, "ending", LOG_FIELDS (LOG_TEXT ("reason", "idle")),
                "no job is left, and none has come: ending (--until-idle)");
            break;
        }
        if (service_is_drained (self->service)) {
            log_event (&self->log, LOG_LEVEL_NOTICE, "drained", NULL, "drained: no job is left: ending");
            break;
        }
        items [ROUTER].events = service_is_full (self->service)? 0: ZMQ_POLLIN;
        zmq_poll (items, ITEMS, s_patience_ms (self, clock_now_ms (), beat_ms));
    }
}

//  In an order that lets every client learn of the end: jobs first, then the socket with time to send, then
//  the rings' sockets.
static void
s_stop (server_t *self)
{
    serve_cluster_stop (&self->cluster);
    if (self->service)
        service_stop (self->service, clock_now_ms ());
    else
    if (self->tasks)
        tasks_stop (self->tasks);
    http_server_stop (&self->http_server);
    status_feed_destroy (&self->status_feed);
    http_access_close (&self->http_access);
    gate_destroy (&self->gate);
    service_destroy (&self->service);
    connection_limit_destroy (&self->connection_limit);
    tenants_destroy (&self->tenants);
    keys_destroy (&self->keys);
    ring_server_destroy (&self->ring_server);
    tasks_destroy (&self->tasks);
    broker_destroy (&self->broker);
    sources_close (&self->sources);
    customs_close (&self->customs);
    serve_cluster_close (&self->cluster);
    ending_end (&self->ending);
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
command_serve (int argc, char **argv)
{
    FILE *first_stdout = NULL;
    char error [ERROR_BYTES];
    server_t self = { .signals = -1, .log = { .descriptor = STDOUT_FILENO }, .failure = STATUS_FAILED };
    option_status_t parsed = options_parse (&self.options, argc, argv, error, sizeof error);
    int status = 0;
    bool out_of_time = false;
    self.log.is_json = self.options.log_format && strcmp (self.options.log_format, "json") == 0;
    if (parsed == OPTION_HELP) {
        options_help (stdout);
        printf ("\nThis build reads %s.\n", decoder_formats ());
    }
    else
    if (parsed == OPTION_WRONG) {
        complain ("serve", "%s", error);
        status = 2;
    }
    else
    if (!(self.is_supervised = supervise_is_child (&self.restarts)) && self.options.supervise)
        status = supervise_run (&(supervise_options_t) { .argv = argv - 1, .log = &self.log });
    else
    if (s_print_events (&self, &first_stdout) && s_start (&self)) {
        s_announce (&self);
        s_run (&self);
        out_of_time = s_is_out_of_time (&self);
        if (!out_of_time)
            log_event (&self.log, LOG_LEVEL_NOTICE, "ending", NULL, "ending");
        status = out_of_time? STATUS_FAILED: 0;
        ending_begin (&self.ending, &self.log, &self.endpoints, status);
    }
    else
        status = self.failure;
    s_stop (&self);
    if (first_stdout) {
        fclose (stdout);
        stdout = first_stdout;
    }
    options_clear (&self.options);
    if (out_of_time && self.is_supervised)
        s_die_of_time ();
    return status;
}

//  `tureen work`: lends this machine's processors to servers on others (docs/workers.md).
//
//  happy path:     each server gives tasks -> they wait, in a line for each server -> the oldest of the
//                  server with the next turn (fairness.h) goes to a thread -> the answer
//  failure modes:  a server that goes: work.h.  All have refused this worker: status 1.
//  on close:       SIGTERM, SIGINT: goodbye to each server, which hands the tasks out again; status 0.
//
//  One network thread, this one, owns the sockets; the threads of the pool decode.

#include "command.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "build_check.h"
#include "catalogue.h"
#include "clock.h"
#include "complain.h"
#include "decoder.h"
#include "fairness.h"
#include "machine.h"
#include "option.h"
#include "pool.h"
#include "work.h"

enum {
    SERVERS_MAX = 16, WEIGHT_MAX = 1000,
    TASKS_A_THREAD = 2,                 //  with the threads: one is begun, one is next
    GOODBYE_MS = 1000, GOODBYE_LOOK_MS = 20,
    FIRST_ESTIMATE_NS = 1000000
};

typedef struct {
    //  options
    work_server_t servers [SERVERS_MAX];
    size_t count;
    const char *key;
    uint32_t threads;
    const char *paths [WIRE_WORK_DATASETS_MAX];
    catalogue_t *catalogues [WIRE_WORK_DATASETS_MAX];
    size_t datasets;
    //  running
    void *context;
    pool_t *pool;
    fairness_t *fairness;
    size_t submitted, build_checks;
    work_task_t *free;
    int signals;
} work_t;

//  ---- options

static bool
s_take_connect (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    work_t *self = target;
    work_server_t *server = &self->servers [self->count];
    message_error_t why;
    char *equals = strrchr (text, '=');
    uint64_t weight = 1;
    const char *end = "";
    if (self->count == SERVERS_MAX)
        return option_fail (error, "at most %d servers", SERVERS_MAX);
    bool is_number = !equals || (option_digits (equals + 1, "", &weight, &end) && !*end);
    if (!is_number || weight == 0 || weight > WEIGHT_MAX)
        return option_fail (error, "ENDPOINT or ENDPOINT=WEIGHT, with a weight of 1 to %d", WEIGHT_MAX);
    if (equals)
        *equals = 0;
    if (!address_resolve (text, server->address, &why))
        return option_fail (error, "%s", why.text);
    server->weight = (uint32_t) weight;
    self->count++;
    return true;
}

static bool
s_take_server_key (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    work_t *self = target;
    if (self->count == 0 || self->servers [self->count - 1].server_key)
        return option_fail (error, "one key behind each --connect");
    self->servers [self->count - 1].server_key = text;
    return true;
}

//  The name is for people: the server knows a data set by its fingerprint.
static bool
s_take_dataset (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    work_t *self = target;
    const char *equals = strchr (text, '=');
    if (!equals || equals == text || !equals [1])
        return option_fail (error, "NAME=PATH");
    if (self->datasets == WIRE_WORK_DATASETS_MAX)
        return option_fail (error, "at most %d data sets", WIRE_WORK_DATASETS_MAX);
    self->paths [self->datasets++] = equals + 1;
    return true;
}

#define AT(member) OPTION_AT (work_t, member)
static const option_row_t s_rows [] = {
    { "connect", "ENDPOINT[=WEIGHT]", OPTION_CALL (s_take_connect),
        "a server; several of them get this machine's time by their weights (1)" },
    { "key", "PATH", AT (key),
        "of this worker's certificate, for servers with keys (default: $TUREEN_KEY)" },
    { "server-key", "KEY", OPTION_CALL (s_take_server_key),
        "the public key of the server named before it, or the path of its certificate\n"
        "(default: $TUREEN_SERVER_KEY)" },
    { "dataset", "NAME=PATH", OPTION_CALL (s_take_dataset),
        "a folder of files that this machine has too: it reads them by itself, and is sent no\n"
        "bytes, of a data set with the same paths and sizes and no further fields or labels" },
    { "threads", "N", AT (threads), "that decode (default: the processors that this process may use, and a\n"
        "container's quota pays for)", 1,
        WIRE_WORK_PROCESSORS_MAX }
};

static const option_table_t s_table = { "tureen work", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: tureen work --connect ENDPOINT[=WEIGHT] ... [--key PATH --server-key KEY] [--threads N]\n"
    "                   [--dataset NAME=PATH] ...\n"
    "\n"
    "Lends this machine's processors to servers on others: it is sent the bytes of samples, runs the\n"
    "shared stage of pipelines, and sends the prepared samples back, bit for bit what the server would\n"
    "have made. The server's operator allows its key: tureen key allow DIR FILE --worker --name LABEL.\n"
    "It may be started, stopped and killed at any time; a server that goes is looked for again.\n"
    "\n"
    "  tureen work --connect tcp://server:5555 --key ~/.tureen.key --server-key 'KEY'\n"
    "\n", .after =
    "\n"
    "Exit status: 0 ended by SIGTERM or SIGINT, 1 refused by all servers or not started, 2 unusable\n"
    "arguments.\n" };

static uint32_t
s_processors (void)
{
    uint32_t count = machine_processors ("");
    return count < WIRE_WORK_PROCESSORS_MAX? count: WIRE_WORK_PROCESSORS_MAX;
}

//  ---- starting

static bool
s_complain (const char *text)
{
    return complain ("work", "%s", text);
}

static bool
s_take_signals (work_t *self)
{
    sigset_t ends;
    signal (SIGPIPE, SIG_IGN);
    sigemptyset (&ends);
    sigaddset (&ends, SIGTERM);
    sigaddset (&ends, SIGINT);
    sigprocmask (SIG_BLOCK, &ends, NULL);
    self->signals = signalfd (-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    return self->signals >= 0 || s_complain (strerror (errno));
}

static bool
s_open_datasets (work_t *self, work_hello_t *hello)
{
    char error [OPTION_ERROR_BYTES];
    for (size_t index = 0; index < self->datasets; index++) {
        catalogue_options_t options = { .path = self->paths [index], .allow_empty = true };
        if (catalogue_open (&self->catalogues [index], &options, error, sizeof error))
            return s_complain (error);
        snprintf (hello->fingerprints [index], sizeof hello->fingerprints [index], "%s",
            catalogue_files_fingerprint (self->catalogues [index]));
        hello->datasets++;
    }
    return true;
}

static bool
s_prepare_server (work_t *self, work_server_t *server, const work_hello_t *hello)
{
    message_error_t error;
    if (credentials_read (&server->credentials, self->key, server->server_key, server->address, &error))
        return s_complain (error.text);
    work_server_init (server);
    server->context = self->context;
    server->catalogues = self->catalogues;
    server->hello = *hello;
    server->hello.processors = self->threads;
    if (gethostname (server->hello.name, sizeof server->hello.name - 1))
        snprintf (server->hello.name, sizeof server->hello.name, "unnamed");
    build_check_libraries (server->hello.libraries);
    fairness_add (self->fairness, server->weight);
    return true;
}

static bool
s_start (work_t *self)
{
    if (self->count == 0)
        return s_complain ("which server? --connect ENDPOINT");
    self->threads = self->threads? self->threads: s_processors ();
    pool_options_t pool = { .name = "tureen-worker", .threads = self->threads,
        .tasks_max = TASKS_A_THREAD * self->threads + SERVERS_MAX + 1, .work = work_task_carry_out,
        .context_new = decoder_worker_new, .context_destroy = decoder_worker_destroy };
    if (!s_take_signals (self))
        return false;
    self->fairness = fairness_new (pool.tasks_max);
    self->context = dealer_begin_context ();
    self->pool = self->context && self->fairness? pool_new (&pool): NULL;
    if (!self->pool)
        return s_complain ("cannot start: no memory or no threads to be had (ulimit -u, TasksMax=)");
    work_hello_t hello = { .datasets = 0 };
    if (!s_open_datasets (self, &hello))
        return false;
    for (size_t index = 0; index < self->count; index++)
        if (!s_prepare_server (self, &self->servers [index], &hello))
            return false;
    return true;
}

//  ---- running

static void
s_release (work_t *self, work_task_t *task)
{
    if (task->is_build_check) {
        work_task_destroy (&task);
        return;
    }
    work_task_clear (task);
    task->next = self->free;
    self->free = task;
}

static void
s_collect (work_t *self)
{
    for (work_task_t *task; (task = pool_done (self->pool)); ) {
        work_server_done (task->server, task);
        if (task->is_build_check)
            self->build_checks--;
        else {
            self->submitted--;
            task->server->out--;
            fairness_done (self->fairness, task->payers, task->estimate_ns, task->result.worker_ns);
        }
        s_release (self, task);
    }
}

static void
s_submit (work_t *self)
{
    uint32_t number;
    for (size_t index = 0; index < self->count; index++) {
        work_server_t *server = &self->servers [index];
        if (server->build_check) {
            self->build_checks++;
            pool_submit (self->pool, server->build_check);
            server->build_check = NULL;
        }
        (server->waiting? fairness_wait: fairness_rest) (self->fairness, (uint32_t) index);
    }
    while (self->submitted < TASKS_A_THREAD * self->threads && fairness_next (self->fairness, 0, &number)) {
        work_server_t *server = &self->servers [number];
        work_task_t *task = work_server_take (server);
        task->estimate_ns = server->task_ns > 0? (uint64_t) server->task_ns: FIRST_ESTIMATE_NS;
        task->payers = fairness_serve (self->fairness, number, 0, 0, task->estimate_ns);
        self->submitted++;
        server->out++;
        if (server->waiting == 0)
            fairness_rest (self->fairness, number);
        pool_submit (self->pool, task);
    }
}

static int
s_patience_ms (const work_t *self, int64_t now_ms)
{
    int64_t next = pool_is_quiet (self->pool)? now_ms + POOL_QUIET_MS: INT64_MAX;
    for (size_t index = 0; index < self->count; index++) {
        int64_t wakeup_ms = work_server_wakeup (&self->servers [index]);
        next = wakeup_ms < next? wakeup_ms: next;
    }
    return next <= now_ms? 0: next - now_ms < WIRE_WORK_BEAT_MS? (int) (next - now_ms): WIRE_WORK_BEAT_MS;
}

//  Waits until there is something to do.  True: a signal has come.
static bool
s_wait (work_t *self)
{
    enum { SIGNALS, POOL, FIRST };
    zmq_pollitem_t items [FIRST + SERVERS_MAX * DEALER_POLL_ITEMS] = {
        [SIGNALS] = { .fd = self->signals, .events = ZMQ_POLLIN },
        [POOL] = { .fd = pool_descriptor (self->pool), .events = ZMQ_POLLIN }
    };
    int count = FIRST;
    for (size_t index = 0; index < self->count; index++)
        if (self->servers [index].dealer) {
            dealer_poll_items (self->servers [index].dealer, &items [count]);
            count += DEALER_POLL_ITEMS;
        }
    zmq_poll (items, count, s_patience_ms (self, clock_now_ms ()));
    return items [SIGNALS].revents & ZMQ_POLLIN;
}

//  True: some server may still want this worker.
static bool
s_turn (work_t *self)
{
    bool is_wanted = false;
    int64_t now_ms = clock_now_ms ();
    s_collect (self);
    for (size_t index = 0; index < self->count; index++) {
        work_server_turn (&self->servers [index], &self->free, now_ms);
        is_wanted = is_wanted || self->servers [index].state != WORK_SERVER_REFUSED;
    }
    s_submit (self);
    return is_wanted;
}

static int
s_run (work_t *self)
{
    while (s_turn (self))
        if (s_wait (self))
            return 0;
    s_complain ("no server takes this worker");
    return 1;
}

//  Tells each server, and gives it a second to hear it.
static void
s_say_goodbye (work_t *self)
{
    int64_t until_ms = clock_now_ms () + GOODBYE_MS;
    for (size_t index = 0; index < self->count; index++)
        work_server_goodbye (&self->servers [index]);
    for (bool is_heard = false; !is_heard && clock_now_ms () < until_ms; ) {
        is_heard = true;
        for (size_t index = 0; index < self->count; index++) {
            work_server_turn (&self->servers [index], &self->free, clock_now_ms ());
            is_heard = is_heard && (self->servers [index].has_said_goodbye || !self->servers [index].dealer);
        }
        if (!is_heard)
            zmq_poll (NULL, 0, GOODBYE_LOOK_MS);
    }
}

static void
s_stop (work_t *self)
{
    work_task_t *task;
    if (self->pool) {
        pool_stop (self->pool);
        while ((task = pool_done (self->pool)) || (task = pool_drain (self->pool)))
            s_release (self, task);
        pool_destroy (&self->pool);
    }
    for (size_t index = 0; self->context && index < self->count; index++)
        if (self->servers [index].context)
            work_server_destroy (&self->servers [index]);
    while ((task = self->free)) {
        self->free = task->next;
        work_task_destroy (&task);
    }
    for (size_t index = 0; index < self->datasets; index++)
        catalogue_destroy (&self->catalogues [index]);
    fairness_destroy (&self->fairness);
    dealer_end_context (&self->context);
    if (self->signals >= 0)
        close (self->signals);
}

int
command_work (int argc, char **argv)
{
    option_result_t result;
    work_t *self = calloc (1, sizeof *self);
    if (!self)
        return s_complain ("no memory") + 1;
    self->signals = -1;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status < 0) {
        bool has_server = self->count > 0;
        status = s_start (self)? s_run (self): has_server? 1: 2;
        if (status == 0)
            s_say_goodbye (self);
        s_stop (self);
    }
    free (self);
    return status;
}

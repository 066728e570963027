#include "customs.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <sodium.h>
#include "clock.h"
#include "custom_command.h"
#include "custom_process.h"
#include "needed.h"

enum { TRIES = 2, START_SECONDS = 60, PAUSE_MS = 100, PAUSE_MS_MAX = 5000,
    TOLD_MS = 10000 };

typedef struct {
    //  set at birth
    customs_t *set;
    custom_command_t command;
    custom_process_options_t options;
    //  shared, under the lock
    pthread_mutex_t lock;
    custom_process_t **free;            //  the one used last is the last
    size_t free_count, free_room, running;
    uint64_t calls, failures, starts, call_ns, took_ns;
    uint32_t in_a_row;                  //  failures since the last success
    char last [CUSTOMS_TEXT_BYTES];     //  failure
    //  of the thread that asks
    uint64_t told;
    int64_t told_ms;
} entry_t;

struct customs {
    custom_t list [CUSTOM_MAX];
    entry_t entries [CUSTOM_MAX];
    size_t count;
    int stop;                           //  readable when all is to end
    atomic_bool stopping;
};

//  ---- processes

static custom_process_t *
s_take_free (entry_t *self)
{
    pthread_mutex_lock (&self->lock);
    custom_process_t *process = self->free_count > 0? self->free [--self->free_count]: NULL;
    pthread_mutex_unlock (&self->lock);
    return process;
}

static void
s_keep_free (entry_t *self, custom_process_t *process)
{
    pthread_mutex_lock (&self->lock);
    if (self->free_count == self->free_room) {
        self->free_room = self->free_room? 2 * self->free_room: 8;
        self->free = needed_memory (reallocarray (self->free, self->free_room, sizeof *self->free));
    }
    self->free [self->free_count++] = process;
    pthread_mutex_unlock (&self->lock);
}

static void
s_end_process (entry_t *self, custom_process_t **process_p)
{
    custom_process_destroy (process_p);
    pthread_mutex_lock (&self->lock);
    self->running--;
    pthread_mutex_unlock (&self->lock);
}

//  What it is now must be what it was when the server started: jobs share its pixels by that.
static custom_status_t
s_identify (const entry_t *self, const custom_process_t *process, char identity [CUSTOM_IDENTITY_BYTES + 1],
    char *error, size_t error_bytes)
{
    const char *path;
    int rc = custom_command_identity (&self->command, custom_process_greeting (process), identity, &path);
    if (rc == 0)
        return CUSTOM_DONE;
    snprintf (error, error_bytes, "'%s' cannot be read: %s", path, strerror (-rc));
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM? CUSTOM_NO_MEMORY: CUSTOM_FAILED;
}

static custom_status_t
s_start (entry_t *self, custom_process_t **process_p, char identity [CUSTOM_IDENTITY_BYTES + 1], char *error,
    size_t error_bytes)
{
    custom_status_t status = custom_process_start (process_p, &self->options, error, error_bytes);
    if (!status)
        status = s_identify (self, *process_p, identity, error, error_bytes);
    if (status)
        custom_process_destroy (process_p);
    pthread_mutex_lock (&self->lock);
    self->starts++;
    self->running += status == CUSTOM_DONE;
    pthread_mutex_unlock (&self->lock);
    return status;
}

static void
s_pause (entry_t *self)
{
    pthread_mutex_lock (&self->lock);
    uint32_t in_a_row = self->in_a_row;
    pthread_mutex_unlock (&self->lock);
    int pause_ms = 0;
    for (; in_a_row > 0 && pause_ms < PAUSE_MS_MAX; in_a_row--)
        pause_ms = pause_ms? 2 * pause_ms: PAUSE_MS;
    struct pollfd stop = { self->set->stop, POLLIN, 0 };
    if (pause_ms > 0)
        poll (&stop, 1, pause_ms < PAUSE_MS_MAX? pause_ms: PAUSE_MS_MAX);
}

static custom_status_t
s_start_again (entry_t *self, const custom_t *is, custom_process_t **process_p, char *error,
    size_t error_bytes)
{
    char identity [CUSTOM_IDENTITY_BYTES + 1], text [CUSTOMS_TEXT_BYTES];
    s_pause (self);
    custom_status_t status = s_start (self, process_p, identity, text, sizeof text);
    if (status)
        snprintf (error, error_bytes, "it cannot be started: %s", text);
    else
    if (strcmp (identity, is->identity) != 0) {
        snprintf (error, error_bytes,
            "its command is not what it was when the server started: start the server again");
        s_end_process (self, process_p);
        status = CUSTOM_FAILED;
    }
    return status;
}

//  ---- calls

static void
s_count (entry_t *self, const custom_call_t *call, custom_status_t status, uint64_t began_ns)
{
    pthread_mutex_lock (&self->lock);
    self->calls++;
    self->call_ns += clock_now_ns () - began_ns;
    self->took_ns += call->took_ns;
    if (status == CUSTOM_DONE)
        self->in_a_row = 0;
    if (status == CUSTOM_FAILED) {
        self->failures++;
        self->in_a_row++;
        snprintf (self->last, sizeof self->last, "%s", call->error);
    }
    pthread_mutex_unlock (&self->lock);
}

static custom_status_t
s_try (entry_t *self, const custom_t *is, custom_call_t *call)
{
    custom_process_t *process = s_take_free (self);
    custom_status_t status = process? CUSTOM_DONE:
        s_start_again (self, is, &process, call->error, call->error_bytes);
    uint64_t began_ns = clock_now_ns (), before_ns = call->took_ns;
    call->took_ns = 0;
    if (!status)
        status = custom_process_call (process, call);
    s_count (self, call, status, began_ns);
    call->took_ns += before_ns;
    if (process && custom_process_is_broken (process))
        s_end_process (self, &process);
    else
    if (process)
        s_keep_free (self, process);
    return status;
}

static custom_status_t
s_run (const custom_t *is, custom_call_t *call)
{
    entry_t *self = is->context;
    char text [CUSTOMS_TEXT_BYTES];
    char *error = call->error;
    size_t error_bytes = call->error_bytes;
    custom_status_t status = CUSTOM_FAILED;
    snprintf (text, sizeof text, "the server ends");
    call->error = text;
    call->error_bytes = sizeof text;
    for (int tries = 0; tries < TRIES && status == CUSTOM_FAILED && !atomic_load (&self->set->stopping);
    tries++)
        status = s_try (self, is, call);
    call->error = error;
    call->error_bytes = error_bytes;
    if (status)
        snprintf (error, error_bytes, "operation '%s' failed, twice: %s", is->name, text);
    return status;
}

//  ---- opening and closing

static int
s_open_one (customs_t *self, const customs_options_t *options, size_t number, char *error, size_t error_bytes)
{
    const customs_command_t *given = &options->commands [number];
    entry_t *entry = &self->entries [number];
    custom_t *is = &self->list [number];
    custom_process_t *process;
    char why [CUSTOMS_TEXT_BYTES];
    *entry = (entry_t) { .set = self, .options = { .command = &entry->command,
        .memory_bytes = options->memory_bytes, .start_ms = START_SECONDS * 1000,
        .call_ms = (int64_t) options->seconds * 1000, .stop = self->stop } };
    *is = (custom_t) { .number = (uint32_t) number, .run = s_run, .context = entry };
    snprintf (is->name, sizeof is->name, "%s", given->name);
    pthread_mutex_init (&entry->lock, NULL);
    self->count++;
    int rc = custom_command_parse (&entry->command, given->command, why, sizeof why);
    if (rc == 0 && s_start (entry, &process, is->identity, why, sizeof why))
        rc = -EINVAL;
    if (rc) {
        snprintf (error, error_bytes, "operation '%s' cannot be started: %s", given->name, why);
        return rc;
    }
    is->is_random = custom_process_is_random (process);
    s_keep_free (entry, process);
    return 0;
}

int
customs_open (customs_t **self_p, const customs_options_t *options, char *error, size_t error_bytes)
{
    assert (options->count <= CUSTOM_MAX);
    *self_p = NULL;
    int rc = sodium_init () < 0? -EINVAL: 0;
    customs_t *self = needed_memory (calloc (1, sizeof *self));
    self->stop = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init (&self->stopping, false);
    if (self->stop < 0) {
        snprintf (error, error_bytes, "no descriptor for the operations: %s", strerror (errno));
        rc = -errno;
    }
    for (size_t number = 0; rc == 0 && number < options->count; number++)
        rc = s_open_one (self, options, number, error, error_bytes);
    if (rc)
        customs_close (&self);
    *self_p = self;
    return rc;
}

const custom_t *
customs_list (const customs_t *self, size_t *count_p)
{
    *count_p = self? self->count: 0;
    return self? self->list: NULL;
}

void
customs_stop (customs_t *self)
{
    const uint64_t one = 1;
    if (!self)
        return;
    atomic_store (&self->stopping, true);
    ssize_t written = write (self->stop, &one, sizeof one);
    assert (written == sizeof one);
}

void
customs_close (customs_t **self_p)
{
    customs_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (size_t number = 0; number < self->count; number++) {
        entry_t *entry = &self->entries [number];
        for (custom_process_t *process; (process = s_take_free (entry)); )
            s_end_process (entry, &process);
        assert (entry->running == 0);
        free (entry->free);
        custom_command_clear (&entry->command);
        pthread_mutex_destroy (&entry->lock);
    }
    if (self->stop >= 0)
        close (self->stop);
    free (self);
}

//  ---- figures

json_t *
customs_status (customs_t *self)
{
    json_t *list = json_array ();
    for (size_t number = 0; self && number < self->count; number++) {
        entry_t *entry = &self->entries [number];
        const custom_t *is = &self->list [number];
        pthread_mutex_lock (&entry->lock);
        json_array_append_new (list, json_pack ("{s:s,s:s,s:b,s:I,s:I,s:I,s:I,s:f,s:f,s:s?}",
            "name", is->name, "identity", is->identity, "random", is->is_random,
            "processes", (json_int_t) entry->running, "calls", (json_int_t) entry->calls,
            "failures", (json_int_t) entry->failures,
            "restarts", (json_int_t) (entry->starts - entry->running),
            "seconds", (double) entry->call_ns / 1e9, "cpu_seconds", (double) entry->took_ns / 1e9,
            "last_failure", *entry->last? entry->last: NULL));
        pthread_mutex_unlock (&entry->lock);
    }
    return list;
}

bool
customs_next_failure (customs_t *self, int64_t now_ms, const char **name_p, uint64_t *times_p,
    char text [CUSTOMS_TEXT_BYTES])
{
    for (size_t number = 0; self && number < self->count; number++) {
        entry_t *entry = &self->entries [number];
        if (entry->told > 0 && now_ms - entry->told_ms < TOLD_MS)
            continue;
        pthread_mutex_lock (&entry->lock);
        *times_p = entry->failures - entry->told;
        memcpy (text, entry->last, CUSTOMS_TEXT_BYTES);
        pthread_mutex_unlock (&entry->lock);
        if (*times_p == 0)
            continue;
        entry->told += *times_p;
        entry->told_ms = now_ms;
        *name_p = self->list [number].name;
        return true;
    }
    return false;
}

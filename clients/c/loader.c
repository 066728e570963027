//  A loader: the user's loop over batches, its start and its end, and what it is asked.

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "address.h"
#include "batch_queue.h"
#include "job_options.h"
#include "loader_thread.h"
#include "question_queue.h"
#include "state.h"
#include "tureen.h"

#define LOADER_MAGIC 0x4c4f4144u

struct tureen_loader {
    uint32_t magic;
    //  Set at birth.
    int timeout_ms;
    job_options_t *options;
    batch_queue_t *batches;
    question_queue_t *questions;
    loader_thread_t *thread;            //  NULL: the state had nothing left
    const tureen_info_t *info;
    tureen_info_t nothing_left;         //  what info is then
};


//  ---- life and batches

enum { LOADER_TIMEOUT_MS = 10000, LOADER_QUIET_MS = 1000 };

//  No server has answered for a while.  A listening server may wait for ranks: no message then.
static void
s_tell_waiting (const tureen_loader_t *self, const tureen_options_t *options, const char *address)
{
    message_error_t text;
    char how [ADDRESS_HOW_BYTES];
    if (address_look (address, how) == ADDRESS_IN_USE)
        return;
    message_fail (&text, "no server answers at %.150s yet: %.250s; looking for it for %g seconds", address,
        how, self->timeout_ms / 1e3);
    options->waiting (options->waiting_context, text.text);
}

//  Starts the loader's thread and waits until it has joined.  0, or -errno with error filled.
static int
s_join (tureen_loader_t *self, const tureen_options_t *options, message_error_t *error)
{
    char address [ADDRESS_BYTES];
    credentials_t credentials;
    if (!address_resolve (options->endpoint, address, error))
        return -EINVAL;
    int rc = credentials_read (&credentials, options->key, options->server_key, address, error);
    if (rc)
        return rc;
    loader_thread_setup_t setup = { .batches = self->batches, .questions = self->questions,
        .options = self->options, .address = address, .credentials = &credentials,
        .timeout_ms = self->timeout_ms, .rejoin_ms = options->rejoin_ms };
    rc = loader_thread_new (&self->thread, &setup);
    credentials_wipe (&credentials);
    if (rc) {
        message_fail (error, "no thread can be started (%s): raise the limit of processes and threads "
            "(ulimit -u, TasksMax=), or end some", strerror (-rc));
        return rc;
    }
    if (options->waiting && !batch_queue_wait_report (self->batches, LOADER_QUIET_MS))
        s_tell_waiting (self, options, address);
    rc = batch_queue_wait_open (self->batches, error);
    if (rc == 0)
        self->info = &batch_queue_joined (self->batches)->info;
    return rc;
}

//  The state leaves nothing to do: an end, and the figures of the state itself.
static void
s_finish (tureen_loader_t *self, const state_t *state)
{
    self->nothing_left = (tureen_info_t) { .samples = state->samples, .dataset_samples = state->samples,
        .batch_size = self->options->batch_size, .seed = state->seed,
        .fingerprint = state->fingerprint,
        .data = state->data, .run = state->run, .pipeline = "[]",
        .world_size = self->options->world_size, .rank = self->options->rank,
        .nodes = self->options->nodes, .node = self->options->node };
    self->info = &self->nothing_left;
    batch_queue_finish (self->batches);
    question_queue_close (self->questions, "the job is over");
}

static int
s_start (tureen_loader_t *self, const tureen_options_t *options, message_error_t *error)
{
    int rc = job_options_new (&self->options, options, error);
    if (rc)
        return rc;
    self->timeout_ms = options->timeout_ms? options->timeout_ms: LOADER_TIMEOUT_MS;
    self->batches = batch_queue_new ();
    if (!self->batches) {
        rc = -errno;
        message_fail (error, "no memory or no descriptor");
        return rc;
    }
    batch_queue_set_tell (self->batches, options->waiting, options->waiting_context);
    self->questions = question_queue_new ();
    if (!self->questions)
        return -ENOMEM;
    const state_t *state = self->options->state;
    if (!state || !options->epochs || state->epoch < options->epochs)
        return s_join (self, options, error);
    s_finish (self, state);
    return 0;
}

tureen_loader_t *
tureen_loader_new (const tureen_options_t *options, char *error, size_t error_bytes)
{
    assert (options);
    message_error_t why = { "" };
    tureen_loader_t *self = calloc (1, sizeof *self);
    int rc = -ENOMEM;
    if (self) {
        self->magic = LOADER_MAGIC;
        rc = s_start (self, options, &why);
    }
    if (rc)
        tureen_loader_destroy (&self);
    if (error && error_bytes)
        snprintf (error, error_bytes, "%s", rc && !*why.text? "out of memory": why.text);
    if (rc)
        errno = -rc;
    return self;
}

void
tureen_loader_destroy (tureen_loader_t **self_p)
{
    tureen_loader_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == LOADER_MAGIC);
    if (self->batches)
        batch_queue_stop (self->batches);
    loader_thread_destroy (&self->thread);
    batch_queue_destroy (&self->batches);
    question_queue_destroy (&self->questions);
    job_options_destroy (&self->options);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

tureen_event_t
tureen_loader_next (tureen_loader_t *self, tureen_batch_t **batch_p)
{
    assert (self && self->magic == LOADER_MAGIC && batch_p);
    return batch_queue_take (self->batches, batch_p, -1);
}

tureen_event_t
tureen_loader_next_within (tureen_loader_t *self, tureen_batch_t **batch_p, int timeout_ms)
{
    assert (self && self->magic == LOADER_MAGIC && batch_p);
    return batch_queue_take (self->batches, batch_p, timeout_ms);
}

tureen_epoch_t
tureen_loader_epoch (const tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return batch_queue_epoch (self->batches);
}

const char *
tureen_loader_error (const tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return batch_queue_error (self->batches);
}

const tureen_info_t *
tureen_loader_info (const tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return self->info;
}


//  ---- queries

//  What a loader can be asked: its state, notices, explanations, figures.

int
tureen_loader_state (tureen_loader_t *self, char **json_p)
{
    assert (self && self->magic == LOADER_MAGIC && json_p);
    *json_p = NULL;
    if (!self->thread) {
        *json_p = state_write (self->options->state);
        return *json_p? 0: -ENOMEM;
    }
    state_t state;
    batch_queue_given_t given;
    if (!job_options_describe (self->options, self->info, &state))
        return -ENOTSUP;
    if (!batch_queue_given (self->batches, &given))
        return -ENOMEM;
    state.epoch = given.epoch;
    state.batches = given.batches;
    state.taken = given.taken;
    job_options_set_part (self->options, given.batches, &given.cut, &state.part);
    memcpy (state.run, given.run, sizeof state.run);
    *json_p = state_write (&state);
    state_clear (&state);
    return *json_p? 0: -ENOMEM;
}

char *
tureen_loader_notice (tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return batch_queue_take_notice (self->batches);
}

int
tureen_loader_unreadable (tureen_loader_t *self, char **json_p)
{
    assert (self && self->magic == LOADER_MAGIC && json_p);
    *json_p = batch_queue_unreadable (self->batches);
    return *json_p? 0: -ENOMEM;
}

//  Asks, and waits for the answer.
static int
s_ask (tureen_loader_t *self, wire_kind_t kind, const char *text, char **json_p, message_error_t *error)
{
    question_queue_post (self->questions, kind, text);
    batch_queue_wake (self->batches);
    return question_queue_wait (self->questions, self->timeout_ms, json_p, error);
}

static int
s_tell (int rc, const message_error_t *why, char *error, size_t error_bytes)
{
    if (error && error_bytes)
        snprintf (error, error_bytes, "%s", rc? why->text: "");
    return rc;
}

int
tureen_loader_explain (tureen_loader_t *self, uint64_t id, int64_t epoch, char **json_p, char *error,
    size_t error_bytes)
{
    assert (self && self->magic == LOADER_MAGIC && json_p);
    char text [QUESTION_TEXT_BYTES];
    message_error_t why = { "" };
    if (epoch < 0)
        snprintf (text, sizeof text, "{\"id\":\"%" PRIu64 "\"}", id);
    else
        snprintf (text, sizeof text, "{\"id\":\"%" PRIu64 "\",\"epoch\":\"%" PRId64 "\"}", id, epoch);
    return s_tell (s_ask (self, WIRE_EXPLAIN, text, json_p, &why), &why, error, error_bytes);
}

//  The object of this job in a server's status; NULL: none.
static json_t *
s_find_job (json_t *status, uint64_t job)
{
    size_t index;
    json_t *each;
    json_array_foreach (json_object_get (status, "jobs"), index, each) {
        uint64_t number;
        if (message_read_number (json_object_get (each, "job"), UINT64_MAX, &number) && number == job)
            return each;
    }
    return NULL;
}

//  Makes the loader's figures from the server's status.
static char *
s_stats (const char *text, const batch_queue_figures_t *figures)
{
    json_t *status = json_loads (text, 0, NULL);
    json_t *job = s_find_job (status, figures->job);
    json_t *root = json_pack ("{s:O*,s:{s:f,s:I,s:I,s:I}}", "job", job, "loader",
        "wait_seconds", figures->waited_seconds, "batches", (json_int_t) figures->batches,
        "samples", (json_int_t) figures->samples, "joins", (json_int_t) figures->joins);
    if (root && !job)
        json_object_set_new (root, "job", json_null ());
    char *json = root? json_dumps (root, JSON_REAL_PRECISION (9)): NULL;
    json_decref (root);
    json_decref (status);
    return json;
}

int
tureen_loader_stats (tureen_loader_t *self, char **json_p, char *error, size_t error_bytes)
{
    assert (self && self->magic == LOADER_MAGIC && json_p);
    message_error_t why = { "" };
    char *status;
    *json_p = NULL;
    int rc = s_ask (self, WIRE_STATUS, "{}", &status, &why);
    if (rc == 0) {
        batch_queue_figures_t figures = batch_queue_figures (self->batches);
        *json_p = s_stats (status, &figures);
        if (!*json_p) {
            message_fail (&why, "out of memory");
            rc = -ENOMEM;
        }
    }
    free (status);
    return s_tell (rc, &why, error, error_bytes);
}

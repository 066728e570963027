//  What a loader can be asked: its state, notices, explanations, figures.
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "loader_state.h"
#include "state.h"

int
tureen_loader_state (tureen_loader_t *self, char **json_p)
{
    assert (self && self->magic == LOADER_MAGIC && json_p);
    *json_p = NULL;
    if (!self->courier) {
        *json_p = state_write (joining_state (self->joining));
        return *json_p? 0: -ENOMEM;
    }
    state_t state;
    handover_given_t given;
    if (!joining_describe (self->joining, self->info, &state))
        return -ENOTSUP;
    if (!handover_given (self->handover, &given))
        return -ENOMEM;
    state.epoch = given.epoch;
    state.batches = given.batches;
    state.taken = given.taken;
    joining_set_part (self->joining, given.batches, &given.cut, &state.part);
    memcpy (state.run, given.run, sizeof state.run);
    *json_p = state_write (&state);
    state_clear (&state);
    return *json_p? 0: -ENOMEM;
}

char *
tureen_loader_notice (tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return handover_take_notice (self->handover);
}

int
tureen_loader_unreadable (tureen_loader_t *self, char **json_p)
{
    assert (self && self->magic == LOADER_MAGIC && json_p);
    *json_p = handover_unreadable (self->handover);
    return *json_p? 0: -ENOMEM;
}

//  Asks, and waits for the answer.
static int
s_ask (tureen_loader_t *self, wire_kind_t kind, const char *text, char **json_p, message_error_t *error)
{
    inquiry_post (self->inquiry, kind, text);
    handover_wake (self->handover);
    return inquiry_wait (self->inquiry, self->timeout_ms, json_p, error);
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
    char text [INQUIRY_TEXT_BYTES];
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
s_stats (const char *text, const handover_figures_t *figures)
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
        handover_figures_t figures = handover_figures (self->handover);
        *json_p = s_stats (status, &figures);
        if (!*json_p) {
            message_fail (&why, "out of memory");
            rc = -ENOMEM;
        }
    }
    free (status);
    return s_tell (rc, &why, error, error_bytes);
}

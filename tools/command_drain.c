//  happy path:     DRAIN -> DRAINING; with --wait: the connection breaks -> no server answers at the endpoint
//                  -> gone
//  failure modes:  no answer, or ERROR (`forbidden`): said, status 1.  A connection that breaks while the
//                  server is still there: it is asked whether it drains, on another one.  One that is there
//                  and says nothing is waited for, for a minute.

#include "command_drain.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "address.h"
#include "complain.h"
#include "credentials.h"
#include "dealer.h"
#include "option.h"
#include "output.h"
#include "presence.h"
#include "tureen.h"

enum { PATIENCE_MS = 5000, LOOK_MS = 5000, PAUSE_MS = 200, LOST_PATIENCE_MS = 1000, SILENT_MS = 60000,
    DRAIN_TAG = 1 };

typedef struct {
    tureen_options_t options;           //  endpoint and keys
    bool wait;
    char address [ADDRESS_BYTES];
    void *context;
    dealer_t *dealer;
} drain_t;

static bool
s_complain (const char *what)
{
    fprintf (stderr, "tureen drain: %s\n", what);
    return false;
}

//  How many jobs an answer says that are left; -1: it is no answer of ours.
static long long
s_read_jobs (const dealer_message_t *message, message_error_t *error)
{
    char *text;
    if (!message_read_object (message->frames, message->count, &text, error))
        return -1;
    json_t *object = json_loads (text, 0, NULL);
    free (text);
    const json_t *jobs = json_object_get (object, "jobs");
    long long count = json_is_integer (jobs)? json_integer_value (jobs): -1;
    json_decref (object);
    return count;
}

//  True: it is the answer, or an error, which *good_p tells.
static bool
s_take (const dealer_message_t *message, bool *good_p)
{
    wire_head_t head;
    message_error_t error = { "" };
    *good_p = false;
    message_status_t status = message_read_head (message->frames, message->count, &head, &error);
    if (status == MESSAGE_BROKEN) {
        s_complain (error.text);
        return true;
    }
    if (status != MESSAGE_OK || head.tag != DRAIN_TAG
        || (head.kind != WIRE_DRAINING && head.kind != WIRE_ERROR))
        return false;
    message_note_t note;
    if (head.kind == WIRE_ERROR) {
        if (message_read_note (message->frames, message->count, &note, &error))
            message_fail (&error, "the server refused: %s (%s)", note.text, note.code);
        s_complain (error.text);
        return true;
    }
    long long jobs = s_read_jobs (message, &error);
    *good_p = jobs >= 0 || s_complain ("what answers is no server of ours");
    if (*good_p && jobs == 0)
        printf ("the server drains: it has no jobs, and ends\n");
    else
    if (*good_p)
        printf ("the server drains: %lld job%s left, each ends with its epoch\n", jobs,
            jobs == 1? " is": "s are");
    fflush (stdout);
    return true;
}

//  No server: what is there, as far as can be seen.
static bool
s_complain_absent (const drain_t *self, const char *how, int waited_ms)
{
    char waited [48] = "";
    if (waited_ms)
        snprintf (waited, sizeof waited, " within %d seconds", waited_ms / 1000);
    return complain ("drain", "no server answers at %s%s, so there is none to drain: %s", self->address,
        waited, how);
}

static bool
s_ask (drain_t *self)
{
    message_error_t error = { "" };
    credentials_t credentials;
    if (credentials_read (&credentials, self->options.key, self->options.server_key, self->address, &error))
        return complain_of_options ("drain", error.text);
    self->context = dealer_begin_context ();
    int rc = dealer_new (&self->dealer, self->context, self->address, &credentials, &error);
    credentials_wipe (&credentials);
    if (rc)
        return s_complain (error.text);
    wire_head_t head = message_head (WIRE_DRAIN, 0, DRAIN_TAG);
    message_frame_t frame = { .data = (const uint8_t *) "{}", .size = 2 };
    if (!dealer_send (self->dealer, &head, &frame, 1))
        return s_complain ("nothing can be sent");
    dealer_message_t message;
    dealer_message_init (&message);
    char how [PRESENCE_BYTES];
    bool good = false, is_answered = false, is_absent = false;
    int64_t deadline_ms = dealer_now_ms () + PATIENCE_MS;
    for (int64_t left_ms = PATIENCE_MS; !is_answered && !is_absent
        && left_ms > 0; left_ms = deadline_ms - dealer_now_ms ()) {
        zmq_pollitem_t items [DEALER_POLL_ITEMS];
        dealer_poll_items (self->dealer, items);
        zmq_poll (items, DEALER_POLL_ITEMS, left_ms);
        while (!is_answered && dealer_receive (self->dealer, &message))
            is_answered = s_take (&message, &good);
        if (!is_answered && dealer_welcome (self->dealer, &error) != DEALER_WELCOME)
            break;
        is_absent = !is_answered && dealer_is_unreached (self->dealer)
            && presence_look (self->address, how) == PRESENCE_NONE;
    }
    dealer_message_clear (&message);
    if (is_answered)
        return good;
    if (*error.text)
        return s_complain (error.text);
    if (!is_absent)
        presence_look (self->address, how);
    return s_complain_absent (self, how, is_absent? 0: PATIENCE_MS);
}

//  What is known of the server that drains.
typedef enum { DRAINS, ENDED, SILENT } there_t;

static there_t
s_look (drain_t *self)
{
    char *text;
    tureen_options_t options = self->options;
    if (dealer_is_lost (self->dealer))
        options.timeout_ms = LOST_PATIENCE_MS;          //  most likely the server is gone
    int rc = tureen_status_with (&options, &text, NULL, 0);
    //  Slow, stopped, or busy: it is there as long as our connection to it is.
    if (rc)
        return dealer_is_lost (self->dealer)? ENDED: SILENT;
    json_t *object = json_loads (text, 0, NULL);
    free (text);
    bool drains = json_is_true (json_object_get (object, "draining"));
    json_decref (object);
    return drains? DRAINS: ENDED;
}

//  A connection breaks for other reasons too, and a vanished host's does not break at all: so it asks the
//  server now and then.  False: the server's state is unknown.
static bool
s_wait (drain_t *self)
{
    there_t there;
    int64_t heard_ms = dealer_now_ms ();
    do {
        zmq_pollitem_t items [DEALER_POLL_ITEMS];
        dealer_poll_items (self->dealer, items);
        bool is_lost = dealer_is_lost (self->dealer);
        zmq_poll (&items [1], is_lost? 0: 1, is_lost? PAUSE_MS: LOOK_MS);
        there = s_look (self);
        heard_ms = there == SILENT? heard_ms: dealer_now_ms ();
    } while (there != ENDED && dealer_now_ms () - heard_ms < SILENT_MS);
    if (there != ENDED)
        return s_complain ("the server has not answered for a minute, and its connection is not closed: look "
            "at its host and its process");
    printf ("the server has ended\n");
    return true;
}

#define AT(member) OPTION_AT (drain_t, member)
static const option_row_t s_rows [] = {
    { "connect", "ENDPOINT", AT (options.endpoint),
        "where the server listens (default: $TUREEN_ENDPOINT, else the default endpoint,\n"
        "see `tureen serve --help`)" },
    { "key", "PATH", AT (options.key),
        "of this client's certificate, for a server with keys on tcp (default: $TUREEN_KEY)" },
    { "server-key", "KEY", AT (options.server_key),
        "that server's public key, or the path of its certificate (default: $TUREEN_SERVER_KEY)" },
    { "wait", NULL, AT (wait), "return when the server has ended" }
};

static const option_table_t s_table = { "tureen drain", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: tureen drain [--connect ENDPOINT] [--key PATH --server-key KEY] [--wait]\n"
    "\n"
    "Lets a running server come to its end: it takes no new jobs, each of its jobs ends with the epoch\n"
    "that it is in, and when none is left the server ends, with status 0.  Clients then look for a server\n"
    "at the same endpoint, and go on there. Needs the rights of an operator: the server's own user, root,\n"
    "or a key that was allowed with --operator.\n"
    "\n", .after =
    "\n"
    "Exit status: 0 it drains (with --wait: it has ended), 1 no answer or refused, 2 unusable arguments.\n" };

static int
s_run (int argc, char **argv)
{
    drain_t self = { .options = { .timeout_ms = PATIENCE_MS } };
    option_result_t result;
    message_error_t error = { "" };
    int status = option_parse (&s_table, &self, argc, argv, &result);
    if (status < 0 && !address_resolve (self.options.endpoint, self.address, &error)) {
        s_complain (error.text);
        status = 2;
    }
    if (status < 0) {
        bool good = s_ask (&self);
        if (good && self.wait)
            good = s_wait (&self);
        status = good? 0: 1;
    }
    dealer_destroy (&self.dealer);
    dealer_end_context (&self.context);
    return status;
}

int
command_drain (int argc, char **argv)
{
    output_begin ();
    return output_end ("drain", s_run (argc, argv));
}

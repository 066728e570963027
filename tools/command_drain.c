//  `tureen drain`: a running server takes no new jobs, lets each job end its epoch, and ends.
//  `tureen stop`: it ends now.
//
//  happy path:     DRAIN -> DRAINING; with --wait, and always for `stop`: the connection breaks -> no server
//                  answers at the endpoint -> gone
//  failure modes:  no answer, or ERROR (`forbidden`): said, status 1.  A connection that breaks while the
//                  server is still there: it is asked whether it drains, on another one.  One that is there
//                  and says nothing is waited for, for a minute.

#include "command.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include "complain.h"
#include "control.h"
#include "option.h"

enum { PATIENCE_MS = 5000, LOOK_MS = 5000, PAUSE_MS = 200, LOST_PATIENCE_MS = 1000, SILENT_MS = 60000 };

typedef struct {
    tureen_options_t options;           //  endpoint and keys
    bool wait;
    const char *command;                //  "drain" or
    bool now;                           //  "stop"
    control_t question;
} drain_t;

//  Says how many jobs an answer says that are left.
static bool
s_tell (const drain_t *self, const char *text)
{
    json_t *object = json_loads (text, 0, NULL);
    const json_t *jobs = json_object_get (object, "jobs");
    long long count = json_is_integer (jobs)? json_integer_value (jobs): -1;
    json_decref (object);
    if (count < 0)
        return complain (self->command, "what answers is no server of ours");
    if (self->now)
        printf ("the server ends, and %lld job%s with it\n", count, count == 1? "": "s");
    else
    if (count == 0)
        printf ("the server drains: it has no jobs, and ends\n");
    else
        printf ("the server drains: %lld job%s left, each ends with its epoch\n", count,
            count == 1? " is": "s are");
    fflush (stdout);
    return true;
}

static bool
s_ask (drain_t *self)
{
    message_error_t error = { "" };
    if (control_open (&self->question, &self->options, &error))
        return complain_of_options (self->command, error.text);
    char *text, waited [48] = "";
    int rc = control_ask (&self->question, WIRE_DRAIN, self->now? "{\"now\": true}": "{}", WIRE_DRAINING,
        PATIENCE_MS, &text, &error);
    if (rc == -EAGAIN)
        snprintf (waited, sizeof waited, " within %d seconds", PATIENCE_MS / 1000);
    if (rc == -EAGAIN || rc == -ETIMEDOUT)
        return complain (self->command, "no server answers at %s%s, so there is none to %s: %s",
            self->question.address, waited, self->command, self->question.how);
    if (rc)
        return complain (self->command, "%s", error.text);
    bool good = s_tell (self, text);
    free (text);
    return good;
}

//  What is known of the server that ends.
typedef enum { THERE, ENDED, SILENT } there_t;

static there_t
s_look (drain_t *self)
{
    char *text;
    tureen_options_t options = self->options;
    if (dealer_is_lost (self->question.dealer))
        options.timeout_ms = LOST_PATIENCE_MS;          //  most likely the server is gone
    int rc = tureen_status_with (&options, &text, NULL, 0);
    //  Slow, stopped, or busy: it is there as long as our connection to it is, and ends for as long as it
    //  holds its socket's lock.
    char how [ADDRESS_HOW_BYTES];
    if (rc)
        return dealer_is_lost (self->question.dealer)
            && !address_is_starting (self->question.address, how)? ENDED: SILENT;
    json_t *object = json_loads (text, 0, NULL);
    free (text);
    bool drains = json_is_true (json_object_get (object, "draining"));
    json_decref (object);
    return drains || (self->now && !dealer_is_lost (self->question.dealer))? THERE: ENDED;
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
        dealer_poll_items (self->question.dealer, items);
        bool is_lost = dealer_is_lost (self->question.dealer);
        zmq_poll (&items [1], is_lost? 0: 1, is_lost? PAUSE_MS: LOOK_MS);
        there = s_look (self);
        heard_ms = there == SILENT? heard_ms: dealer_now_ms ();
    } while (there != ENDED && dealer_now_ms () - heard_ms < SILENT_MS);
    if (there != ENDED)
        return complain (self->command, "the server has not answered for a minute, and its connection is "
            "not closed: look at its host and its process");
    printf ("the server has ended\n");
    return true;
}

#define AT(member) OPTION_AT (drain_t, member)
static const option_row_t s_rows [] = {
    COMMAND_SERVER_ROWS (drain_t, options),
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

static const option_row_t s_stop_rows [] = {
    COMMAND_SERVER_ROWS (drain_t, options)
};

static const option_table_t s_stop_table = { "tureen stop", s_stop_rows, OPTION_ROWS (s_stop_rows), .before =
    "usage: tureen stop [--connect ENDPOINT] [--key PATH --server-key KEY]\n"
    "\n"
    "Ends a running server now, as SIGTERM does, and returns when it has ended.  Its jobs end in the middle\n"
    "of their epochs: their clients wait for a server at the same endpoint, and go on there, or end with an\n"
    "error that says so.  `tureen drain` lets them end their epochs first.  Needs the rights of an\n"
    "operator: the server's own user, root, or a key that was allowed with --operator.\n"
    "\n", .after =
    "\n"
    "Exit status: 0 it has ended, 1 no answer or refused, 2 unusable arguments.\n" };

static int
s_run (drain_t *self, const option_table_t *table, int argc, char **argv)
{
    option_result_t result;
    message_error_t error = { "" };
    int status = option_parse (table, self, argc, argv, &result);
    if (status < 0 && !address_resolve (self->options.endpoint, self->question.address, &error)) {
        complain (self->command, "%s", error.text);
        status = 2;
    }
    if (status < 0) {
        bool good = s_ask (self);
        if (good && self->wait)
            good = s_wait (self);
        status = good? 0: 1;
    }
    control_close (&self->question);
    return status;
}

int
command_drain (int argc, char **argv)
{
    drain_t self = { .options = { .timeout_ms = PATIENCE_MS }, .command = "drain" };
    complain_begin ();
    return complain_of_output ("drain", s_run (&self, &s_table, argc, argv));
}

int
command_stop (int argc, char **argv)
{
    drain_t self = { .options = { .timeout_ms = PATIENCE_MS }, .command = "stop", .now = true,
        .wait = true };
    complain_begin ();
    return complain_of_output ("stop", s_run (&self, &s_stop_table, argc, argv));
}

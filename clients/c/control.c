#include "control.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CONTROL_TAG = 1, CONTROL_STATUS_MS = 10000 };

int
control_open (control_t *self, const tureen_options_t *options, message_error_t *error)
{
    credentials_t credentials = { .public_key = "" };
    int rc = credentials_read (&credentials, options->key, options->server_key, self->address, error);
    if (rc == 0) {
        self->context = dealer_begin_context ();
        rc = dealer_new (&self->dealer, self->context, self->address, &credentials, error);
    }
    credentials_wipe (&credentials);
    return rc;
}

//  Reads an answer: 0, -EAGAIN when it is not the one, or another -errno.
static int
s_take (const dealer_message_t *message, wire_kind_t reply, char **json_p, message_error_t *error)
{
    wire_head_t head;
    message_status_t status = message_read_head (message->frames, message->count, &head, error);
    if (status == MESSAGE_BROKEN)
        return -EPROTO;
    if (status != MESSAGE_OK)
        return -EAGAIN;
    if (head.kind == reply)
        return message_read_object (message->frames, message->count, json_p, error)? 0: -EPROTO;
    if (head.kind != WIRE_ERROR)
        return -EAGAIN;
    message_note_t note;
    if (message_read_note (message->frames, message->count, &note, error))
        message_fail (error, "the server refused: %s (%s)", note.text, note.code);
    return -ECONNREFUSED;
}

//  Waits for the answer; with -ETIMEDOUT at once if there is no server.
static int
s_wait (control_t *self, wire_kind_t reply, int timeout_ms, char **json_p, message_error_t *error)
{
    int64_t deadline_ms = dealer_now_ms () + timeout_ms;
    dealer_message_t message;
    dealer_message_init (&message);
    int rc = -EAGAIN;
    for (int64_t left_ms = timeout_ms; rc == -EAGAIN
        && left_ms > 0; left_ms = deadline_ms - dealer_now_ms ()) {
        zmq_pollitem_t items [DEALER_POLL_ITEMS];
        dealer_poll_items (self->dealer, items);
        zmq_poll (items, DEALER_POLL_ITEMS, left_ms);
        while (rc == -EAGAIN && dealer_receive (self->dealer, &message))
            rc = s_take (&message, reply, json_p, error);
        if (rc == -EAGAIN && dealer_welcome (self->dealer, error) != DEALER_WELCOME)
            rc = -EACCES;
        if (rc == -EAGAIN && dealer_is_unreached (self->dealer)
            && address_look (self->address, self->how) == ADDRESS_VACANT)
            rc = -ETIMEDOUT;
    }
    if (rc == -EAGAIN)
        address_look (self->address, self->how);
    dealer_message_clear (&message);
    return rc;
}

int
control_ask (control_t *self, wire_kind_t kind, const char *text, wire_kind_t reply, int timeout_ms,
    char **json_p, message_error_t *error)
{
    *json_p = NULL;
    wire_head_t head = message_head (kind, 0, CONTROL_TAG);
    message_frame_t frame = { .data = (const uint8_t *) text, .size = strlen (text) };
    //  Where the server has refused us already, it takes no request.
    dealer_send (self->dealer, &head, &frame, 1);
    if (dealer_welcome (self->dealer, error) != DEALER_WELCOME)
        return -EACCES;
    return s_wait (self, reply, timeout_ms, json_p, error);
}

void
control_close (control_t *self)
{
    dealer_destroy (&self->dealer);
    dealer_end_context (&self->context);
}

//  --------------------------------------------------------------------------
//  tureen_status

static int
s_ask_status (control_t *connection, const tureen_options_t *options, char **json_p, message_error_t *error)
{
    int patience_ms = options->timeout_ms? options->timeout_ms: CONTROL_STATUS_MS;
    if (patience_ms < 0)
        message_fail (error, "options.timeout_ms: %d; expected 0 or more", patience_ms);
    if (patience_ms < 0 || !address_resolve (options->endpoint, connection->address, error))
        return -EINVAL;
    int rc = control_open (connection, options, error);
    if (rc)
        return rc;
    rc = control_ask (connection, WIRE_STATUS, "{}", WIRE_STATUS_REPLY, patience_ms, json_p, error);
    if (rc == -ETIMEDOUT)
        address_absent (connection->address, connection->how, error);
    if (rc != -EAGAIN)
        return rc;
    address_fail (connection->address, patience_ms, error);
    return -ETIMEDOUT;
}

int
tureen_status_with (const tureen_options_t *options, char **json_p, char *error, size_t error_bytes)
{
    assert (options && json_p);
    *json_p = NULL;
    message_error_t why = { "" };
    control_t connection = { .dealer = NULL };
    int rc = s_ask_status (&connection, options, json_p, &why);
    control_close (&connection);
    if (error && error_bytes)
        snprintf (error, error_bytes, "%s", why.text);
    return rc;
}

int
tureen_status (const char *endpoint, int timeout_ms, char **json_p, char *error, size_t error_bytes)
{
    tureen_options_t options = { .endpoint = endpoint, .timeout_ms = timeout_ms };
    return tureen_status_with (&options, json_p, error, error_bytes);
}

//  tureen_status: one question on a connection of its own.
#include "tureen.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "address.h"
#include "dealer.h"
#include "presence.h"

enum { STATUS_TIMEOUT_MS = 10000, STATUS_TAG = 1 };

//  Reads an answer: 0, -EAGAIN when it is not the one, or another -errno.
static int
s_take (const dealer_message_t *message, char **json_p, message_error_t *error)
{
    wire_head_t head;
    message_status_t status = message_read_head (message->frames, message->count, &head, error);
    if (status == MESSAGE_BROKEN)
        return -EPROTO;
    if (status == MESSAGE_OK && head.kind == WIRE_STATUS_REPLY)
        return message_read_object (message->frames, message->count, json_p, error)? 0: -EPROTO;
    if (status == MESSAGE_OK && head.kind == WIRE_ERROR) {
        message_note_t note;
        if (message_read_note (message->frames, message->count, &note, error))
            message_fail (error, "the server refused: %s (%s)", note.text, note.code);
        return -ECONNREFUSED;
    }
    return -EAGAIN;
}

//  Waits for the answer; -EACCES: the server does not let us in; -ETIMEDOUT, at once: there is none.
static int
s_wait (dealer_t *dealer, const char *address, int timeout_ms, char **json_p, message_error_t *error)
{
    int64_t deadline_ms = dealer_now_ms () + timeout_ms;
    dealer_message_t message;
    dealer_message_init (&message);
    int rc = -EAGAIN;
    char how [PRESENCE_BYTES];
    for (int64_t left_ms = timeout_ms; rc == -EAGAIN
        && left_ms > 0; left_ms = deadline_ms - dealer_now_ms ()) {
        zmq_pollitem_t items [DEALER_POLL_ITEMS];
        dealer_poll_items (dealer, items);
        zmq_poll (items, DEALER_POLL_ITEMS, left_ms);
        while (rc == -EAGAIN && dealer_receive (dealer, &message))
            rc = s_take (&message, json_p, error);
        if (rc == -EAGAIN && dealer_welcome (dealer, error) != DEALER_WELCOME)
            rc = -EACCES;
        if (rc == -EAGAIN && dealer_is_unreached (dealer) && presence_look (address, how) == PRESENCE_NONE) {
            address_absent (address, how, error);
            rc = -ETIMEDOUT;
        }
    }
    dealer_message_clear (&message);
    return rc;
}

int
tureen_status_with (const tureen_options_t *options, char **json_p, char *error, size_t error_bytes)
{
    assert (options && json_p);
    *json_p = NULL;
    message_error_t why = { "" };
    dealer_t *dealer = NULL;
    void *context = NULL;
    char address [ADDRESS_BYTES];
    credentials_t credentials = { .public_key = "" };
    int patience_ms = options->timeout_ms? options->timeout_ms: STATUS_TIMEOUT_MS;
    int rc = -EINVAL;
    if (patience_ms < 0)
        message_fail (&why, "options.timeout_ms: %d; expected 0 or more", patience_ms);
    if (patience_ms < 0 || !address_resolve (options->endpoint, address, &why)) goto exit;
    rc = credentials_read (&credentials, options->key, options->server_key, address, &why);
    if (rc) goto exit;
    context = dealer_begin_context ();
    rc = dealer_new (&dealer, context, address, &credentials, &why);
    if (rc) goto exit;
    wire_head_t head = message_head (WIRE_STATUS, 0, STATUS_TAG);
    message_frame_t frame = { .data = (const uint8_t *) "{}", .size = 2 };
    bool sent = dealer_send (dealer, &head, &frame, 1);
    assert (sent);
    rc = s_wait (dealer, address, patience_ms, json_p, &why);
    if (rc == -EAGAIN) {
        address_fail (address, patience_ms, &why);
        rc = -ETIMEDOUT;
    }
exit:
    dealer_destroy (&dealer);
    dealer_end_context (&context);
    credentials_wipe (&credentials);
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

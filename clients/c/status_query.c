//  tureen_status: one question on a connection of its own.
#include "tureen.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "question.h"

enum { STATUS_TIMEOUT_MS = 10000 };

static int
s_ask (question_t *question, const tureen_options_t *options, char **json_p, message_error_t *error)
{
    int patience_ms = options->timeout_ms? options->timeout_ms: STATUS_TIMEOUT_MS;
    if (patience_ms < 0)
        message_fail (error, "options.timeout_ms: %d; expected 0 or more", patience_ms);
    if (patience_ms < 0 || !address_resolve (options->endpoint, question->address, error))
        return -EINVAL;
    int rc = question_open (question, options, error);
    if (rc)
        return rc;
    rc = question_ask (question, WIRE_STATUS, WIRE_STATUS_REPLY, patience_ms, json_p, error);
    if (rc == -ETIMEDOUT)
        address_absent (question->address, question->how, error);
    if (rc != -EAGAIN)
        return rc;
    address_fail (question->address, patience_ms, error);
    return -ETIMEDOUT;
}

int
tureen_status_with (const tureen_options_t *options, char **json_p, char *error, size_t error_bytes)
{
    assert (options && json_p);
    *json_p = NULL;
    message_error_t why = { "" };
    question_t question = { .dealer = NULL };
    int rc = s_ask (&question, options, json_p, &why);
    question_close (&question);
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

#include "tureen.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "address.h"
#include "courier.h"
#include "handover.h"
#include "joining.h"

#define LOADER_MAGIC 0x4c4f4144u

enum { LOADER_TIMEOUT_MS = 10000 };

struct tureen_loader {
    uint32_t magic;
    handover_t *handover;
    courier_t *courier;
};

//  Starts the courier and waits until it has joined.  0, or -errno with error filled.
static int
s_start (tureen_loader_t *self, const tureen_options_t *options, const joining_t *joining,
message_error_t *error)
{
    char address [ADDRESS_BYTES];
    if (!address_resolve (options->endpoint, address, error))
        return -EINVAL;
    self->handover = handover_new ();
    if (!self->handover) {
        int rc = -errno;
        message_fail (error, "no memory or no descriptor");
        return rc;
    }
    courier_options_t courier = { .handover = self->handover, .joining = joining, .address = address,
        .timeout_ms = options->timeout_ms? options->timeout_ms: LOADER_TIMEOUT_MS };
    int rc = courier_new (&self->courier, &courier);
    if (rc) {
        message_fail (error, "no thread");
        return rc;
    }
    return handover_wait_open (self->handover, error);
}

tureen_loader_t *
tureen_loader_new (const tureen_options_t *options, char *error, size_t error_bytes)
{
    assert (options);
    message_error_t why = { "" };
    joining_t *joining = NULL;
    tureen_loader_t *self = calloc (1, sizeof *self);
    int rc = -ENOMEM;
    if (!self) goto exit;
    self->magic = LOADER_MAGIC;
    rc = joining_new (&joining, options, &why);
    if (rc) goto exit;
    rc = s_start (self, options, joining, &why);
exit:
    joining_destroy (&joining);
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
    assert (self_p);
    tureen_loader_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == LOADER_MAGIC);
    if (self->handover)
        handover_stop (self->handover);
    courier_destroy (&self->courier);
    handover_destroy (&self->handover);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

tureen_event_t
tureen_loader_next (tureen_loader_t *self, tureen_batch_t **batch_p)
{
    assert (self && self->magic == LOADER_MAGIC && batch_p);
    return handover_take (self->handover, batch_p, -1);
}

tureen_event_t
tureen_loader_next_within (tureen_loader_t *self, tureen_batch_t **batch_p, int timeout_ms)
{
    assert (self && self->magic == LOADER_MAGIC && batch_p);
    return handover_take (self->handover, batch_p, timeout_ms);
}

tureen_epoch_t
tureen_loader_epoch (const tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return handover_epoch (self->handover);
}

const char *
tureen_loader_error (const tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return handover_error (self->handover);
}

const tureen_info_t *
tureen_loader_info (const tureen_loader_t *self)
{
    assert (self && self->magic == LOADER_MAGIC);
    return message_joined_info (handover_joined (self->handover));
}

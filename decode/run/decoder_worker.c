//  A thread of a pool with a decoder of its own (decoder.h).

#include "decoder.h"
#include <stdlib.h>
#include "clock.h"

enum { KEPT_BYTES_MAX = 64 << 20 };     //  of a decoder, between two samples

void *
decoder_worker_new (void)
{
    decoder_worker_t *self = calloc (1, sizeof *self);
    if (self)
        self->decoder = decoder_new ();
    if (self && !self->decoder) {
        free (self);
        self = NULL;
    }
    return self;
}

void
decoder_worker_destroy (void *worker)
{
    decoder_worker_t *self = worker;
    decoder_destroy (&self->decoder);
    free (self);
}

uint64_t
decoder_worker_charge (decoder_worker_t *self)
{
    uint64_t now_ns = clock_thread_ns (), before_ns = self->charged_ns;
    self->charged_ns = now_ns;
    return now_ns - before_ns + decoder_custom_ns (self->decoder);
}

void
decoder_worker_renew (decoder_worker_t *self)
{
    decoder_t *fresh = decoder_kept_bytes (self->decoder) > KEPT_BYTES_MAX? decoder_new (): NULL;
    if (!fresh)
        return;
    decoder_destroy (&self->decoder);
    self->decoder = fresh;
}

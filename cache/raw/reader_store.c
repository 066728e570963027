//  Ranges of objects in a store: a request is one transfer, begun again for what is missing where its
//  connection breaks.

#include "reader_state.h"
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int
reader_store_open (reader_t *self, const store_t *store)
{
    self->under_way = calloc (READER_DEPTH_MAX, sizeof *self->under_way);
    int rc = self->under_way? transfers_new (&self->transfers, store_account (store),
        store_keys (store)): -ENOMEM;
    if (rc)
        reader_store_close (self);
    snprintf (self->mode, sizeof self->mode, "%s", transfers_library ());
    return rc;
}

void
reader_store_close (reader_t *self)
{
    transfers_destroy (&self->transfers);
    free (self->under_way);
    self->under_way = NULL;
}

static void
s_finish (reader_t *self, reader_transfer_t *item, int rc)
{
    reader_request_t *request = item->request;
    item->request = NULL;
    //  It was there when its pack was opened.
    request->rc = rc == -ENOENT? -ESTALE: rc;
    request->read_bytes = item->transfer.done;
    reader_finish (self, request);
}

static void
s_start (reader_t *self, reader_request_t *request)
{
    assert (request->kind == READER_RANGE);
    reader_transfer_t *item = self->under_way;
    while (item->request)               //  fewer than the depth are under way
        item++;
    const reader_file_t *file = &self->files [request->file];
    *item = (reader_transfer_t) { .request = request, .transfer = { .url = file->path,
        .version = file->version, .offset = request->offset, .bytes = request->bytes,
        .memory = request->memory, .is_afresh = request->is_afresh, .user = item } };
    self->in_flight++;
    request->in_flight = self->in_flight;
    request->progress.began_ns = clock_now_ns ();
    int rc = transfers_begin (self->transfers, &item->transfer);
    if (rc)
        s_finish (self, item, rc);
}

//  The connection broke, and some bytes came or it is to be tried at least so often.
static bool
s_goes_on (reader_t *self, reader_transfer_t *item)
{
    bool is_broken = item->transfer.rc == -ECONNRESET;
    return is_broken && ++item->request->progress.tries < READER_TRIES
        && transfers_begin (self->transfers, &item->transfer) == 0;
}

void
reader_store_cancel (reader_t *self)
{
    for (size_t index = 0; index < READER_DEPTH_MAX; index++) {
        reader_transfer_t *item = &self->under_way [index];
        if (item->request) {
            transfers_drop (self->transfers, &item->transfer);
            s_finish (self, item, -ECANCELED);
        }
    }
}

void
reader_store_turn (reader_t *self)
{
    while (self->in_flight < self->depth && self->waiting.first)
        s_start (self, reader_first (&self->waiting));
    transfers_wait (self->transfers, -1, 0);
    for (transfer_t *transfer; (transfer = transfers_take (self->transfers));) {
        reader_transfer_t *item = transfer->user;
        if (!s_goes_on (self, item))
            s_finish (self, item, transfer->rc);
    }
}

void
reader_store_wait (reader_t *self, int wake_descriptor)
{
    reader_store_turn (self);
    if (self->done.count > 0 || (self->in_flight == 0 && wake_descriptor < 0))
        return;
    transfers_wait (self->transfers, wake_descriptor, -1);
    reader_store_turn (self);
}

//  Ranges of objects in a store: a request is one transfer, begun again for what is missing where its
//  connection breaks.  With a cache on the local disk the transfer is from the first byte to the last that is
//  not there, and what has come is kept there.
//
//  The cache is read and written here, in the thread that moves the transfers, by system calls that may wait
//  for the disk.  A local disk gives some MiB in milliseconds, and the sockets' buffers hold what comes
//  meanwhile.  Threads of its own would win only where the disk is slower than the store.

#include "reader_state.h"
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int
reader_store_open (reader_t *self, const store_t *store)
{
    self->under_way = calloc (READER_DEPTH_MAX, sizeof *self->under_way);
    int rc = self->under_way? transfers_new (&self->transfers, store_account (store)): -ENOMEM;
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

//  Keeps the units that the transfer has brought as a whole.
static void
s_keep (const reader_blocks_t *blocks, const transfer_t *transfer, bool is_afresh)
{
    enum { UNIT = BLOCK_DATA_UNIT_BYTES };
    uint64_t end = transfer->offset + transfer->bytes, first = block_data_next (transfer->offset, 0),
        last = end == blocks->bytes? end: end / UNIT * UNIT;
    if (first < last)
        block_data_store (blocks->data, blocks->begin + first, (size_t) (last - first),
            transfer->memory + (first - transfer->offset), is_afresh);
}

static void
s_finish (reader_t *self, reader_transfer_t *item, int rc)
{
    reader_request_t *request = item->request;
    const transfer_t *transfer = &item->transfer;
    const reader_blocks_t *blocks = &self->files [request->file].blocks;
    item->request = NULL;
    //  It was there when its pack was opened.
    request->rc = rc == -ENOENT? -ESTALE: rc;
    request->read_bytes = transfer->done;
    reader_finish (self, request);
    //  After the clock was stopped: the time is the local disk's.
    if (rc == 0 && blocks->data)
        s_keep (blocks, transfer, request->is_afresh);
}

//  Widens the transfer to whole units if there is room for them, and narrows it to what is not on the local
//  disk.  False: all is there.
static bool
s_look_in_cache (reader_request_t *request, const reader_blocks_t *blocks, transfer_t *transfer)
{
    enum { UNIT = BLOCK_DATA_UNIT_BYTES };
    uint64_t begin = request->offset / UNIT * UNIT, end = block_data_next (request->offset, request->bytes);
    end = end < blocks->bytes? end: blocks->bytes;
    size_t bytes = (size_t) (end - begin);
    block_data_gap_t gap = { .begin = 0, .end = bytes };
    request->skip = (size_t) (request->offset - begin);
    if (!request->is_afresh) {
        uint64_t began_ns = clock_now_ns ();
        gap = block_data_read (blocks->data, blocks->begin + begin, bytes, request->memory);
        request->cached_ns = clock_now_ns () - began_ns;
    }
    //  What is read afresh replaces whole units.
    if (gap.begin < gap.end && !request->is_afresh && block_data_is_full (blocks->data)) {
        size_t last = request->skip + request->bytes;
        gap.begin = gap.begin > request->skip? gap.begin: request->skip;
        gap.end = gap.end < last? gap.end: last;
    }
    transfer->offset = begin + gap.begin;
    transfer->bytes = gap.end - gap.begin;
    transfer->memory = request->memory + gap.begin;
    request->cached_bytes = request->bytes > transfer->bytes? request->bytes - transfer->bytes: 0;
    return transfer->bytes > 0;
}

static int
s_begin (reader_t *self, reader_transfer_t *item)
{
    item->request->gets++;
    return transfers_begin (self->transfers, &item->transfer);
}

//  True: it is under way; false: it is done.
static bool
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
    bool is_wanted = !file->blocks.data || s_look_in_cache (request, &file->blocks, &item->transfer);
    self->in_flight++;
    request->in_flight = self->in_flight;
    request->progress.began_ns = clock_now_ns ();
    if (!is_wanted) {
        item->request = NULL;
        reader_finish (self, request);
        return false;
    }
    int rc = s_begin (self, item);
    if (rc)
        s_finish (self, item, rc);
    return rc == 0;
}

//  The connection broke, and some bytes came or it is to be tried at least so often.
static bool
s_goes_on (reader_t *self, reader_transfer_t *item)
{
    bool is_broken = item->transfer.rc == -ECONNRESET;
    return is_broken && ++item->request->progress.tries < READER_TRIES
        && s_begin (self, item) == 0;
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
    //  One that is done at once ends the turn: transfers go on between reads of the local disk.
    while (self->in_flight < self->depth && self->waiting.first)
        if (!s_start (self, reader_first (&self->waiting)))
            break;
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

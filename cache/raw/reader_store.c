//  Ranges of objects in a store, and whole objects: a request is one transfer, begun again for what is
//  missing where its connection breaks.  With a cache on the local disk the transfer is from the first byte
//  to the last that is not there, and what has come is kept there.
//
//  The cache is read and written here, in the thread that moves the transfers, by system calls that may wait
//  for the disk.  A local disk gives some MiB in milliseconds, and the sockets' buffers hold what comes
//  meanwhile.  Threads of its own would win only where the disk is slower than the store.

#include "reader_state.h"
#include "catalogue_state.h"
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
    item->request = NULL;
    free (item->url);
    //  It was there when its pack was opened, or its store listed.
    request->rc = rc == -ENOENT? -EREMCHG: rc;
    request->read_bytes = transfer->done;
    if (request->kind == READER_FILE && rc == 0)
        request->buffer->size = catalogue_file_bytes (request->catalogue, request->id, request->field);
    reader_finish (self, request);
    //  After the clock was stopped: the time is the local disk's.
    if (rc == 0 && transfer->bytes > 0 && item->blocks.data)
        s_keep (&item->blocks, transfer, transfer->is_afresh);
}

//  Widens the transfer to whole units if there is room for them, and narrows it to what is not on the local
//  disk: to nothing if all is there.
static void
s_look_in_cache (reader_request_t *request, const reader_blocks_t *blocks, transfer_t *transfer)
{
    enum { UNIT = BLOCK_DATA_UNIT_BYTES };
    uint64_t begin = transfer->offset / UNIT * UNIT,
        end = block_data_next (transfer->offset, transfer->bytes);
    end = end < blocks->bytes? end: blocks->bytes;
    size_t bytes = (size_t) (end - begin), wanted = transfer->bytes,
        skip = (size_t) (transfer->offset - begin);
    block_data_gap_t gap = { .begin = 0, .end = bytes };
    if (!request->is_afresh) {
        uint64_t began_ns = clock_now_ns ();
        gap = block_data_read (blocks->data, blocks->begin + begin, bytes, transfer->memory);
        request->cached_ns = clock_now_ns () - began_ns;
    }
    //  What is read afresh replaces whole units.
    if (gap.begin < gap.end && !request->is_afresh && block_data_is_full (blocks->data)) {
        gap.begin = gap.begin > skip? gap.begin: skip;
        gap.end = gap.end < skip + wanted? gap.end: skip + wanted;
    }
    request->skip = skip;
    transfer->offset = begin + gap.begin;
    transfer->bytes = gap.end - gap.begin;
    transfer->memory += gap.begin;
    request->cached_bytes = wanted > transfer->bytes? wanted - transfer->bytes: 0;
}

static void
s_of_range (const reader_t *self, const reader_request_t *request, reader_transfer_t *item)
{
    const reader_file_t *file = &self->files [request->file];
    item->transfer = (transfer_t) { .url = file->path, .version = file->version, .offset = request->offset,
        .bytes = request->bytes, .memory = request->memory };
    item->blocks = file->blocks;
}

//  All of a sample's object, into its buffer.  0 or -errno.
static int
s_of_object (const reader_request_t *request, reader_transfer_t *item)
{
    const catalogue_t *catalogue = request->catalogue;
    uint64_t bytes = catalogue_file_bytes (catalogue, request->id, request->field);
    request->buffer->size = 0;
    if (bytes > CATALOGUE_SAMPLE_BYTES_MAX)
        return -EFBIG;
    int rc = catalogue_make_room (request->buffer, (size_t) bytes);
    if (rc)
        return rc;
    item->url = catalogue_url (catalogue, request->id, request->field);
    item->transfer = (transfer_t) { .url = item->url, .bytes = (size_t) bytes, .expected_bytes = bytes,
        .version = catalogue_version (catalogue, request->id, request->field),
        .memory = request->buffer->bytes };
    block_data_t *blocks = catalogue_blocks (catalogue, request->field, &rc);
    if (blocks)
        item->blocks = (reader_blocks_t) { .data = blocks, .bytes = bytes,
            .begin = catalogue_place (catalogue, request->id, request->field) };
    return item->url? 0: -ENOMEM;
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
    reader_transfer_t *item = self->under_way;
    while (item->request)               //  fewer than the depth are under way
        item++;
    *item = (reader_transfer_t) { .request = request };
    int rc = 0;
    if (request->kind == READER_RANGE)
        s_of_range (self, request, item);
    else
        rc = s_of_object (request, item);
    item->transfer.user = item;
    item->transfer.is_afresh = request->is_afresh;
    if (rc == 0 && item->blocks.data && item->transfer.bytes > 0)
        s_look_in_cache (request, &item->blocks, &item->transfer);
    self->in_flight++;
    request->in_flight = self->in_flight;
    request->progress.began_ns = clock_now_ns ();
    bool is_wanted = rc == 0 && item->transfer.bytes > 0;
    if (is_wanted)
        rc = s_begin (self, item);
    if (rc == 0 && is_wanted)
        return true;
    s_finish (self, item, rc);
    return false;
}

//  The connection broke, and some bytes came or it is to be tried at least so often.
static bool
s_goes_on (reader_t *self, reader_transfer_t *item)
{
    bool is_broken = item->transfer.rc == -ECONNRESET;
    if (!is_broken || ++item->request->progress.tries >= READER_TRIES)
        return false;
    int rc = s_begin (self, item);
    item->transfer.rc = rc? rc: item->transfer.rc;
    return rc == 0;
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

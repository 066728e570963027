#include "packing_ahead.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "pool.h"

enum { AHEAD_MAGIC = 0xa4ead000, SLOTS_A_THREAD = 8 };

//  A sample that was read ahead.
typedef struct {
    const packing_rows_t *how;
    pack_item_t item;               //  its files are in `bytes`
    uint8_t *bytes, *rows;          //  owned while the slot is in use
    size_t byte_count, row_bytes;
    bool is_done;
    int rc;                         //  -ENOMEM: a thread had no memory
} slot_t;

struct packing_ahead {
    uint32_t magic;
    pack_source_t *source;
    const packing_rows_t *how;
    uint64_t bytes_max;
    void *finder;                   //  without threads
    pool_t *pool;                   //  NULL: without
    slot_t *slots;                  //  a ring
    size_t slot_count, first, used;
    uint64_t bytes;                 //  of all slots in use
    bool is_lent;                   //  the first slot is the item that was given last
    int end;                        //  what the source answered last: 1, or 0 or an error at its end
    char error [PACK_SOURCE_ERROR_BYTES];
};

//  In a thread.
static void
s_find (void *finder, void *argument)
{
    slot_t *slot = argument;
    const uint8_t *rows = NULL;
    slot->rc = slot->how->find (finder, slot->item.files [0], slot->item.bytes [0], &rows, &slot->row_bytes);
    if (slot->rc || slot->row_bytes == 0)
        return;
    slot->rows = malloc (slot->row_bytes);
    if (slot->rows)
        memcpy (slot->rows, rows, slot->row_bytes);
    else
        slot->rc = -ENOMEM;
}

//  ---- reading ahead

static bool
s_copy (slot_t *slot, const packing_rows_t *how, const pack_item_t *item)
{
    *slot = (slot_t) { .how = how, .item = *item };
    for (size_t field = 0; field < item->field_count; field++)
        slot->byte_count += item->bytes [field];
    slot->bytes = malloc (slot->byte_count + 1);
    if (!slot->bytes)
        return false;
    uint8_t *end = slot->bytes;
    for (size_t field = 0; field < item->field_count; field++) {
        slot->item.files [field] = end;
        if (item->bytes [field])
            memcpy (end, item->files [field], item->bytes [field]);
        end += item->bytes [field];
    }
    return true;
}

//  One more; false: none, for now or for ever.
static bool
s_read (packing_ahead_t *self)
{
    bool has_room = self->used < self->slot_count && (self->used == 0 || self->bytes < self->bytes_max);
    if (!has_room || self->end <= 0)
        return false;
    slot_t *slot = &self->slots [(self->first + self->used) % self->slot_count];
    pack_item_t item = { .field_count = 0 };
    self->end = pack_source_next (self->source, &item, self->error);
    if (self->end > 0 && !s_copy (slot, self->how, &item))
        self->end = -ENOMEM;
    if (self->end <= 0)
        return false;
    self->used++;
    self->bytes += slot->byte_count;
    pool_submit (self->pool, slot);
    return true;
}

//  The first slot is not used any more.
static void
s_drop (packing_ahead_t *self)
{
    slot_t *slot = &self->slots [self->first];
    free (slot->bytes);
    free (slot->rows);
    self->bytes -= slot->byte_count;
    self->first = (self->first + 1) % self->slot_count;
    self->used--;
}

static void
s_await (packing_ahead_t *self, const slot_t *slot)
{
    struct pollfd wait = { .fd = pool_descriptor (self->pool), .events = POLLIN };
    for (;;) {
        slot_t *done;
        while ((done = pool_done (self->pool)))
            done->is_done = true;
        if (slot->is_done)
            return;
        poll (&wait, 1, -1);
    }
}

static int
s_next_ahead (packing_ahead_t *self, pack_item_t *item, const uint8_t **rows_p, size_t *rows_bytes_p,
    char *error)
{
    if (self->is_lent)
        s_drop (self);
    self->is_lent = false;
    while (s_read (self));
    if (self->used == 0) {
        memcpy (error, self->error, sizeof self->error);
        return self->end;
    }
    slot_t *slot = &self->slots [self->first];
    s_await (self, slot);
    self->is_lent = true;
    *item = slot->item;
    *rows_p = slot->rows;
    *rows_bytes_p = slot->row_bytes;
    return slot->rc? slot->rc: 1;
}

//  ---- all of it

int
packing_ahead_next (packing_ahead_t *self, pack_item_t *item, const uint8_t **rows_p, size_t *rows_bytes_p,
    char *error)
{
    assert (self && self->magic == AHEAD_MAGIC);
    assert (item); assert (rows_p); assert (rows_bytes_p);
    if (self->pool)
        return s_next_ahead (self, item, rows_p, rows_bytes_p, error);
    int rc = pack_source_next (self->source, item, error);
    if (rc > 0 && self->how->find (self->finder, item->files [0], item->bytes [0], rows_p, rows_bytes_p))
        return -ENOMEM;
    return rc;
}

packing_ahead_t *
packing_ahead_new (pack_source_t *source, const packing_rows_t *how, uint64_t bytes_max)
{
    packing_ahead_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (packing_ahead_t) { .magic = AHEAD_MAGIC, .source = source, .how = how, .bytes_max = bytes_max,
        .end = 1, .slot_count = (size_t) how->threads * SLOTS_A_THREAD };
    bool good;
    if (how->threads > 0) {
        pool_options_t options = { .name = "tureen-rows", .threads = how->threads,
            .tasks_max = self->slot_count, .work = s_find, .context_new = how->finder_new,
            .context_destroy = how->finder_destroy };
        self->slots = calloc (self->slot_count, sizeof *self->slots);
        self->pool = self->slots? pool_new (&options): NULL;
        good = self->pool;
    }
    else
        good = (self->finder = how->finder_new ());
    if (!good)
        packing_ahead_destroy (&self);
    return self;
}

void
packing_ahead_destroy (packing_ahead_t **self_p)
{
    packing_ahead_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == AHEAD_MAGIC);
    if (self->pool) {
        pool_stop (self->pool);
        while (pool_done (self->pool) || pool_drain (self->pool));
    }
    pool_destroy (&self->pool);
    while (self->used > 0)
        s_drop (self);
    free (self->slots);
    if (self->finder)
        self->how->finder_destroy (self->finder);
    self->magic = 0;
    free (self);
}

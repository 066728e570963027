#include "supply.h"
#include <assert.h>
#include <stdlib.h>
#include "xalloc.h"

enum { TABLE_LEAST = 64 };

void
supply_clear (supply_t *self)
{
    free (self->ids);
    free (self->table);
    *self = (supply_t) { .count = 0 };
}

static uint32_t
s_home (const supply_t *self, uint32_t id)
{
    return (uint32_t) (id * UINT64_C (0x9e3779b97f4a7c15) >> 32) & (self->table_size - 1);
}

//  Where the table has the id, or the free entry where it would be.
static uint32_t
s_find (const supply_t *self, uint32_t id)
{
    uint32_t at = s_home (self, id);
    while (self->table [at] && self->ids [self->table [at] - 1] != id)
        at = (at + 1) & (self->table_size - 1);
    return at;
}

bool
supply_has (const supply_t *self, uint32_t id)
{
    return self->count > 0 && self->table [s_find (self, id)];
}

static void
s_grow (supply_t *self)
{
    self->table_size = self->table_size? self->table_size * 2: TABLE_LEAST;
    free (self->table);
    self->table = xalloc_memory (calloc (self->table_size, sizeof *self->table));
    self->ids = xalloc_memory (realloc (self->ids, self->table_size / 2 * sizeof *self->ids));
    for (uint32_t place = 0; place < self->count; place++)
        self->table [s_find (self, self->ids [place])] = place + 1;
}

void
supply_add (supply_t *self, uint32_t id)
{
    if (2 * (self->count + 1) >= self->table_size)
        s_grow (self);
    uint32_t at = s_find (self, id);
    assert (!self->table [at]);
    self->ids [self->count++] = id;
    self->table [at] = self->count;
}

//  Entries behind the free one that a search would not reach any more move up.
static void
s_close_gap (supply_t *self, uint32_t gap)
{
    uint32_t mask = self->table_size - 1;
    for (uint32_t at = (gap + 1) & mask; self->table [at]; at = (at + 1) & mask) {
        uint32_t home = s_home (self, self->ids [self->table [at] - 1]);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        self->table [gap] = self->table [at];
        gap = at;
    }
    self->table [gap] = 0;
}

bool
supply_remove (supply_t *self, uint32_t id)
{
    if (self->count == 0)
        return false;
    uint32_t at = s_find (self, id), place = self->table [at];
    if (!place)
        return false;
    uint32_t last = self->ids [self->count - 1];
    self->table [s_find (self, last)] = place;
    self->ids [place - 1] = last;
    s_close_gap (self, at);
    self->count--;
    return true;
}

size_t
supply_bytes (uint64_t ids)
{
    //  The table doubles when it is half full, and has half its size of ids.
    uint64_t entries = 4 * (ids + 1) > TABLE_LEAST? 4 * (ids + 1): TABLE_LEAST;
    return (size_t) (entries + entries / 2) * sizeof (uint32_t);
}

void
supply_check (const supply_t *self)
{
    uint32_t entries = 0;
    assert (self->count == 0 || 2 * self->count < self->table_size);
    for (uint32_t at = 0; at < self->table_size; at++)
        entries += self->table [at] > 0;
    assert (entries == self->count);                                            //  Q1
    for (uint32_t place = 0; place < self->count; place++)
        assert (self->table [s_find (self, self->ids [place])] == place + 1);
}

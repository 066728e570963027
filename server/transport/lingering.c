#include "lingering.h"
#include <string.h>

static ring_t *
s_take_out (lingering_t *self, size_t index)
{
    ring_t *ring = self->rings [index].ring;
    self->count--;
    memmove (&self->rings [index], &self->rings [index + 1], (self->count - index) * sizeof self->rings [0]);
    return ring;
}

static size_t
s_count (const lingering_t *self, uint32_t tenant)
{
    size_t count = 0;
    for (size_t index = 0; index < self->count; index++)
        count += self->rings [index].tenant == tenant;
    return count;
}

//  The tenant's oldest; where it has none, which is when others' have more than their shares, the oldest of all.
static void
s_end_oldest (lingering_t *self, door_t *door, uint32_t tenant)
{
    size_t index = 0;
    while (index < self->count && self->rings [index].tenant != tenant)
        index++;
    index = index < self->count? index: 0;
    door_forget (door, self->rings [index].key);
    ring_t *oldest = s_take_out (self, index);
    ring_destroy (&oldest);
}

void
lingering_keep (lingering_t *self, door_t *door, uint64_t key, uint32_t tenant, size_t rings_max, ring_t **ring_p)
{
    if (self->count == LINGERING_MAX || s_count (self, tenant) >= rings_max)
        s_end_oldest (self, door, tenant);
    self->rings [self->count].key = key;
    self->rings [self->count].tenant = tenant;
    self->rings [self->count++].ring = *ring_p;
    *ring_p = NULL;
}

size_t
lingering_bytes (const lingering_t *self, uint32_t tenant)
{
    size_t bytes = 0;
    for (size_t index = 0; index < self->count; index++)
        bytes += self->rings [index].tenant == tenant? ring_bytes (self->rings [index].ring): 0;
    return bytes;
}

void
lingering_end (lingering_t *self, uint64_t key)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->rings [index].key == key) {
            ring_t *ring = s_take_out (self, index);
            ring_destroy (&ring);
            return;
        }
}

void
lingering_leave (lingering_t *self)
{
    while (self->count > 0) {
        ring_t *ring = s_take_out (self, self->count - 1);
        ring_leave (&ring);
    }
}

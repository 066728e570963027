#include "lingering.h"
#include <string.h>

static ring_t *
s_take_out (lingering_t *self, size_t index)
{
    ring_t *ring = self->rings [index].ring;
    self->count--;
    memmove (&self->rings [index], &self->rings [index + 1], (self->count - index) * sizeof self->rings [0]);
    self->bytes -= ring_bytes (ring);
    return ring;
}

void
lingering_keep (lingering_t *self, door_t *door, uint64_t key, ring_t **ring_p)
{
    if (self->count == LINGERING_MAX) {
        door_forget (door, self->rings [0].key);
        ring_t *oldest = s_take_out (self, 0);
        ring_destroy (&oldest);
    }
    self->rings [self->count].key = key;
    self->rings [self->count++].ring = *ring_p;
    self->bytes += ring_bytes (*ring_p);
    *ring_p = NULL;
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

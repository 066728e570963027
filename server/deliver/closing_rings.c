#include "closing_rings.h"
#include <string.h>

static ring_t *
s_take_out (closing_rings_t *self, size_t index)
{
    ring_t *ring = self->rings [index].ring;
    self->count--;
    memmove (&self->rings [index], &self->rings [index + 1], (self->count - index) * sizeof self->rings [0]);
    return ring;
}

static size_t
s_count (const closing_rings_t *self, uint32_t tenant)
{
    size_t count = 0;
    for (size_t index = 0; index < self->count; index++)
        count += self->rings [index].tenant == tenant;
    return count;
}

//  The tenant's oldest ring; if it has none, because other tenants exceed their shares, the oldest of all.
static void
s_end_oldest (closing_rings_t *self, ring_server_t *ring_server, uint32_t tenant)
{
    size_t index = 0;
    while (index < self->count && self->rings [index].tenant != tenant)
        index++;
    index = index < self->count? index: 0;
    ring_server_forget (ring_server, self->rings [index].key);
    ring_t *oldest = s_take_out (self, index);
    ring_destroy (&oldest);
}

void
closing_rings_keep (closing_rings_t *self, ring_server_t *ring_server, uint64_t key, uint32_t tenant,
    size_t rings_max, ring_t **ring_p)
{
    if (self->count == CLOSING_RINGS_MAX || s_count (self, tenant) >= rings_max)
        s_end_oldest (self, ring_server, tenant);
    self->rings [self->count].key = key;
    self->rings [self->count].tenant = tenant;
    self->rings [self->count++].ring = *ring_p;
    *ring_p = NULL;
}

size_t
closing_rings_bytes (const closing_rings_t *self, uint32_t tenant)
{
    size_t bytes = 0;
    for (size_t index = 0; index < self->count; index++)
        bytes += self->rings [index].tenant == tenant? ring_bytes (self->rings [index].ring): 0;
    return bytes;
}

void
closing_rings_end (closing_rings_t *self, uint64_t key)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->rings [index].key == key) {
            ring_t *ring = s_take_out (self, index);
            ring_destroy (&ring);
            return;
        }
}

void
closing_rings_leave (closing_rings_t *self)
{
    while (self->count > 0) {
        ring_t *ring = s_take_out (self, self->count - 1);
        ring_leave (&ring);
    }
}

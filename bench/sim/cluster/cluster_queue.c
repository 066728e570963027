#include "cluster_queue.h"
#include <assert.h>
#include <stdlib.h>

enum { CHILDREN = 4 };

static bool
s_is_before (const cluster_event_t *one, const cluster_event_t *other)
{
    return one->time < other->time || (one->time == other->time && one->number < other->number);
}

void
cluster_queue_add (cluster_queue_t *self, double time, uint32_t kind, uint32_t subject)
{
    if (self->count == self->room) {
        self->room = self->room? 2 * self->room: 1024;
        self->events = realloc (self->events, self->room * sizeof *self->events);
        assert (self->events);
    }
    cluster_event_t event = { .time = time, .number = self->added++, .kind = kind, .subject = subject };
    size_t at = self->count++;
    for (; at > 0 && s_is_before (&event, &self->events [(at - 1) / CHILDREN]); at = (at - 1) / CHILDREN)
        self->events [at] = self->events [(at - 1) / CHILDREN];
    self->events [at] = event;
}

//  The earliest child of the place; count: it has none.
static size_t
s_child (const cluster_queue_t *self, size_t at)
{
    size_t first = CHILDREN * at + 1, best = first;
    if (first >= self->count)
        return self->count;
    for (size_t child = first + 1; child < first + CHILDREN && child < self->count; child++)
        if (s_is_before (&self->events [child], &self->events [best]))
            best = child;
    return best;
}

bool
cluster_queue_next (cluster_queue_t *self, cluster_event_t *event_p)
{
    if (self->count == 0)
        return false;
    *event_p = self->events [0];
    cluster_event_t last = self->events [--self->count];
    size_t at = 0;
    for (;;) {
        size_t child = s_child (self, at);
        if (child == self->count || !s_is_before (&self->events [child], &last))
            break;
        self->events [at] = self->events [child];
        at = child;
    }
    self->events [at] = last;
    return true;
}

void
cluster_queue_clear (cluster_queue_t *self)
{
    free (self->events);
    *self = (cluster_queue_t) { .count = 0 };
}

#include "reader_looks.h"
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "clock.h"
#include "cost.h"

enum {
    DEPTH_MAX = BLOCK_CACHE_THREADS_MAX, DEPTH_BEGIN = 16,
    OBSERVED_A_TURN = 32                //  looks between two evaluations of the model
};

struct reader_looks {
    block_queue_t *queue;               //  NULL: none was needed yet, or none can be had
    uint32_t under_way;
    //  of the local disk
    cost_t cost;
    double bytes;                       //  of a look, running mean
    uint32_t observed;                  //  since the last evaluation
    uint32_t depth;
    atomic_uint shown;
};

reader_looks_t *
reader_looks_new (void)
{
    reader_looks_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->cost = cost_assumed ();
    self->depth = DEPTH_BEGIN;
    atomic_init (&self->shown, 0);
    return self;
}

void
reader_looks_destroy (reader_looks_t **self_p)
{
    reader_looks_t *self = *self_p;
    if (!self)
        return;
    assert (self->under_way == 0);
    block_queue_destroy (&self->queue);
    free (self);
    *self_p = NULL;
}

//  What the local disk needed for what it gave.
static void
s_learn (reader_looks_t *self, const reader_look_t *look)
{
    const block_data_range_t *range = &look->range;
    size_t bytes = range->bytes - (range->gap.end - range->gap.begin);
    if (bytes == 0)
        return;
    cost_observe (&self->cost, bytes, look->nanoseconds, look->in_flight);
    self->bytes += self->bytes > 0? ((double) bytes - self->bytes) / OBSERVED_A_TURN: (double) bytes;
    if (++self->observed < OBSERVED_A_TURN)
        return;
    self->observed = 0;
    self->depth = cost_next_depth (&self->cost, (uint64_t) self->bytes, DEPTH_MAX);
    atomic_store (&self->shown, self->depth);
}

static void
s_end (reader_look_t *look)
{
    look->nanoseconds = clock_now_ns () - look->began_ns;
}

bool
reader_looks_begin (reader_looks_t *self, reader_look_t *look)
{
    if (!self->queue)
        self->queue = block_data_queue (look->range.data);
    look->began_ns = clock_now_ns ();
    look->in_flight = self->under_way + 1;
    look->range.user = look;
    if (!block_data_begin (self->queue, &look->range)) {
        s_end (look);
        return false;
    }
    self->under_way++;
    if (atomic_load (&self->shown) == 0)
        atomic_store (&self->shown, self->depth);
    return true;
}

void
reader_looks_wait (reader_look_t *look)
{
    look->began_ns = clock_now_ns ();
    block_data_begin (NULL, &look->range);
    s_end (look);
}

reader_look_t *
reader_looks_take (reader_looks_t *self)
{
    block_data_range_t *range = self->under_way > 0? block_data_take (self->queue): NULL;
    if (!range)
        return NULL;
    reader_look_t *look = range->user;
    assert (self->under_way > 0);
    self->under_way--;
    s_end (look);
    s_learn (self, look);
    return look;
}

void
reader_looks_drop (reader_looks_t *self, reader_look_t *look)
{
    assert (self->under_way > 0);
    self->under_way--;
    block_queue_drop (self->queue, &look->range);
}

uint32_t
reader_looks_under_way (const reader_looks_t *self)
{
    return self->under_way;
}

bool
reader_looks_have_room (const reader_looks_t *self)
{
    return self->under_way < self->depth;
}

uint32_t
reader_looks_depth (const reader_looks_t *self)
{
    return atomic_load (&self->shown);
}

int
reader_looks_descriptor (const reader_looks_t *self)
{
    return block_queue_descriptor (self->queue);
}

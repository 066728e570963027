#include "recent_steps.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { RECENT_STEPS_HEAD = 4 };         //  numbers with which a record begins

//  Room for so many more numbers behind the last one.  False: no memory.
static bool
s_make_room (recent_steps_t *self, size_t more)
{
    size_t needed = self->count + more;
    if (self->first + needed <= self->room)
        return true;
    //  Half of it free, so that moving them is rare.
    size_t room = needed * 2 > self->room? needed * 2: self->room;
    uint64_t *numbers = room > self->room? reallocarray (NULL, room, sizeof *numbers): self->numbers;
    if (!numbers)
        return false;
    if (self->count)
        memmove (numbers, self->numbers + self->first, self->count * sizeof *numbers);
    if (numbers != self->numbers)
        free (self->numbers);
    self->numbers = numbers;
    self->room = room;
    self->first = 0;
    return true;
}

static void
s_drop_oldest (recent_steps_t *self)
{
    const uint64_t *head = self->numbers + self->first;
    bool is_step = head [0] == WIRE_RECENT_STEP;
    size_t size = RECENT_STEPS_HEAD + (is_step? self->world_size + head [3]: 0);
    assert (self->records && size <= self->count);
    self->steps -= is_step;
    self->ids -= is_step? head [3]: 0;
    self->records--;
    self->first += size;
    self->count -= size;
}

//  Counts the record that was just written.
static void
s_add (recent_steps_t *self, bool is_step, size_t size, uint64_t ids)
{
    self->count += size;
    self->records++;
    self->steps += is_step;
    self->ids += ids;
    while (self->steps > self->steps_max || self->records > WIRE_RECENT_RECORDS_MAX
        || self->ids > WIRE_RECENT_IDS_MAX)
        s_drop_oldest (self);
}

bool
recent_steps_add (recent_steps_t *self, const message_batch_t *batch)
{
    if (self->world_size <= 1)
        return true;
    assert (batch->counts);
    size_t size = RECENT_STEPS_HEAD + self->world_size + batch->step_count;
    if (!s_make_room (self, size))
        return false;
    uint64_t *place = self->numbers + self->first + self->count;
    const uint64_t head [RECENT_STEPS_HEAD] = { WIRE_RECENT_STEP, batch->head.epoch, batch->head.index,
        batch->step_count };
    memcpy (place, head, sizeof head);
    memcpy (place + RECENT_STEPS_HEAD, batch->counts, self->world_size * sizeof *place);
    memcpy (place + RECENT_STEPS_HEAD + self->world_size, batch->step, batch->step_count * sizeof *place);
    s_add (self, true, size, batch->step_count);
    return true;
}

bool
recent_steps_add_end (recent_steps_t *self, const wire_epoch_end_t *end)
{
    if (self->world_size <= 1)
        return true;
    if (!s_make_room (self, RECENT_STEPS_HEAD))
        return false;
    const uint64_t head [RECENT_STEPS_HEAD] = { WIRE_RECENT_END, end->epoch, end->batches, end->samples };
    memcpy (self->numbers + self->first + self->count, head, sizeof head);
    s_add (self, false, RECENT_STEPS_HEAD, 0);
    return true;
}

void
recent_steps_clear (recent_steps_t *self)
{
    free (self->numbers);
    *self = (recent_steps_t) { .world_size = self->world_size, .steps_max = self->steps_max };
}

const uint64_t *
recent_steps_numbers (const recent_steps_t *self, size_t *count_p)
{
    *count_p = self->count;
    return self->count? self->numbers + self->first: NULL;
}

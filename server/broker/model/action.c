//  The queue of actions, which the driver carries out in order.

#include "action.h"
#include <stdlib.h>
#include "job.h"
#include "xalloc.h"

void
broker_wake (broker_t *self, int64_t at_ms)
{
    if (at_ms < self->wakeup_ms)
        self->wakeup_ms = at_ms;
}

enum { ACTIONS_MIN = 256 };

action_t *
action_add (broker_t *self, action_kind_t kind, job_t *job)
{
    if (self->action_count == self->action_room) {
        size_t room = self->action_room? self->action_room * 2: ACTIONS_MIN;
        action_t *actions = xalloc_memory (calloc (room, sizeof *actions));
        for (size_t index = 0; index < self->action_count; index++)
            actions [index] = self->actions [(self->action_first + index) % self->action_room];
        free (self->actions);
        self->actions = actions;
        self->action_first = 0;
        self->action_room = room;
    }
    size_t place = (self->action_first + self->action_count++) % self->action_room;
    self->actions [place] = (action_t) { .kind = kind, .job = job };
    return &self->actions [place];
}

action_t *
action_add_rank (broker_t *self, action_kind_t kind, rank_t *rank)
{
    action_t *action = action_add (self, kind, rank->job);
    action->rank = rank;
    return action;
}

void
rank_tell (rank_t *rank, action_kind_t kind, const char *reason, const char *message)
{
    action_t *action = action_add_rank (rank->job->broker, kind, rank);
    action->reason = reason;
    action->message = message;
}

void
job_tell_ranks (job_t *job, action_kind_t kind, const char *reason, const char *message)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (rank_is_there (&job->ranks [number]))
            rank_tell (&job->ranks [number], kind, reason, message);
}

bool
broker_next (broker_t *self, action_t *action)
{
    if (self->action_count == 0)
        return false;
    *action = self->actions [self->action_first];
    self->action_first = (self->action_first + 1) % self->action_room;
    self->action_count--;
    return true;
}

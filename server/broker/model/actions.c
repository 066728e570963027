//  The queue of actions: what the driver is to carry out, in order.

#include "broker_state.h"
#include <stdlib.h>

enum { ACTIONS_MIN = 256 };

action_t *
broker_act (broker_t *self, action_kind_t kind, job_t *job)
{
    if (self->action_count == self->action_room) {
        size_t room = self->action_room? self->action_room * 2: ACTIONS_MIN;
        action_t *actions = needed_memory (calloc (room, sizeof *actions));
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
broker_act_rank (broker_t *self, action_kind_t kind, rank_t *rank)
{
    action_t *action = broker_act (self, kind, rank->job);
    action->rank = rank;
    return action;
}

void
broker_tell_rank (rank_t *rank, action_kind_t kind, const char *reason, const char *message)
{
    action_t *action = broker_act_rank (rank->job->broker, kind, rank);
    action->reason = reason;
    action->message = message;
}

void
broker_tell_ranks (job_t *job, action_kind_t kind, const char *reason, const char *message)
{
    for (uint32_t number = 0; number < job->world_size; number++)
        if (rank_is_there (&job->ranks [number]))
            broker_tell_rank (&job->ranks [number], kind, reason, message);
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

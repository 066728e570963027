#include "chores.h"
#include <assert.h>
#include <stdlib.h>

struct chores {
    broker_t *broker;
    tasks_t *tasks;
    chore_t *first, *last;      //  those that wait, of all tenants
    size_t out;
};

chores_t *
chores_new (broker_t *broker, tasks_t *tasks)
{
    chores_t *self = calloc (1, sizeof *self);
    if (self)
        *self = (chores_t) { .broker = broker, .tasks = tasks };
    return self;
}

void
chores_destroy (chores_t **self_p)
{
    chores_t *self = *self_p;
    assert (!self || (!self->first && self->out == 0));
    free (self);
    *self_p = NULL;
}

void
chores_add (chores_t *self, tenant_t *tenant, chore_t *chore)
{
    chore->tenant = tenant;
    chore->after = NULL;
    *(self->last? &self->last->after: &self->first) = chore;
    self->last = chore;
    broker_errand_waits (self->broker, tenant);
}

//  The oldest of the tenant, or of all, which waits no more; NULL: there is none.
static chore_t *
s_take (chores_t *self, const tenant_t *tenant)
{
    chore_t *before = NULL, *chore = self->first;
    while (chore && tenant && chore->tenant != tenant) {
        before = chore;
        chore = chore->after;
    }
    if (!chore)
        return NULL;
    *(before? &before->after: &self->first) = chore->after;
    if (self->last == chore)
        self->last = before;
    return chore;
}

void
chores_start (chores_t *self, const tenant_t *tenant, uint32_t charged_us)
{
    chore_t *chore = s_take (self, tenant);
    assert (chore);                 //  the broker counts them
    chore->charged_us = charged_us;
    self->out++;
    tasks_run (self->tasks, &chore->errand);
}

//  After tasks_stop a worker may have been told of it and never have begun.
void
chores_collect (chores_t *self, bool is_stopped)
{
    for (errand_t *errand; (errand = tasks_errand_done (self->tasks)); ) {
        chore_t *chore = (chore_t *) errand;
        assert (self->out > 0 && (errand->was_done || is_stopped));
        self->out--;
        broker_errand_took (self->broker, chore->tenant, chore->charged_us, errand->worker_ns);
        chore->done (chore, errand->was_done);
    }
    for (chore_t *chore; is_stopped && (chore = s_take (self, NULL)); ) {
        broker_errand_gives_up (self->broker, chore->tenant);
        chore->done (chore, false);
    }
}

#include "side_jobs.h"
#include <assert.h>
#include <stdlib.h>
#include "tenant.h"

struct side_jobs {
    broker_t *broker;
    tasks_t *tasks;
    side_job_t *first, *last;       //  waiting side jobs of all tenants
    size_t out;
};

side_jobs_t *
side_jobs_new (broker_t *broker, tasks_t *tasks)
{
    side_jobs_t *self = calloc (1, sizeof *self);
    if (self)
        *self = (side_jobs_t) { .broker = broker, .tasks = tasks };
    return self;
}

void
side_jobs_destroy (side_jobs_t **self_p)
{
    side_jobs_t *self = *self_p;
    assert (!self || (!self->first && self->out == 0));
    free (self);
    *self_p = NULL;
}

void
side_jobs_add (side_jobs_t *self, tenant_t *tenant, side_job_t *side_job)
{
    side_job->tenant = tenant;
    side_job->after = NULL;
    *(self->last? &self->last->after: &self->first) = side_job;
    self->last = side_job;
    tenant_side_task_waits (self->broker, tenant);
}

//  Takes out the oldest of the tenant, or of all; NULL: none.
static side_job_t *
s_take (side_jobs_t *self, const tenant_t *tenant)
{
    side_job_t *before = NULL, *side_job = self->first;
    while (side_job && tenant && side_job->tenant != tenant) {
        before = side_job;
        side_job = side_job->after;
    }
    if (!side_job)
        return NULL;
    *(before? &before->after: &self->first) = side_job->after;
    if (self->last == side_job)
        self->last = before;
    return side_job;
}

void
side_jobs_start (side_jobs_t *self, const tenant_t *tenant, uint32_t charged_us)
{
    side_job_t *side_job = s_take (self, tenant);
    assert (side_job);                  //  the broker counts them
    side_job->charged_us = charged_us;
    self->out++;
    tasks_run (self->tasks, &side_job->side_task);
}

//  After tasks_stop a side job may have been handed out and never begun.
void
side_jobs_collect (side_jobs_t *self, bool is_stopped)
{
    for (side_task_t *side_task; (side_task = tasks_side_task_done (self->tasks)); ) {
        side_job_t *side_job = (side_job_t *) side_task;
        assert (self->out > 0 && (side_task->was_done || is_stopped));
        self->out--;
        tenant_side_task_took (self->broker, side_job->tenant, side_job->charged_us, side_task->worker_ns);
        side_job->done (side_job, side_task->was_done);
    }
    for (side_job_t *side_job; is_stopped && (side_job = s_take (self, NULL)); ) {
        tenant_side_task_gives_up (self->broker, side_job->tenant);
        side_job->done (side_job, false);
    }
}

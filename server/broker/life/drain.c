//  The end of service: no job begins another epoch, and a client with a whole epoch is told to look for
//  another server.
//
//  happy path:     broker_drain -> a job between two epochs ends; any other job draws its epoch to the end ->
//                  the epoch's end is sent -> a turn later, when the driver has carried that out, the job
//                  ends
//  failure modes:  a rank is missing: its job pauses as usual, and ends when the wait is over.  A client that
//                  takes nothing keeps its epoch open, and the server running: the operator may stop it.
//  on close:       the last job has ended; the driver sees that there is none.
//
//  The running epoch is the one with batches sent.  The window reaches into the next epoch; a client that has
//  received none of that epoch can get all of it from another server.

#include "drain.h"
#include <assert.h>
#include "job.h"

void
broker_drain (broker_t *self)
{
    assert (self->magic == BROKER_MAGIC);
    if (self->draining)
        return;
    self->draining = true;
    //  A job that has begun to draw the next epoch may stop there.
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->state == JOB_RUNNING && job_sending_epoch (job) != job->epoch)
            job_move (job, JOB_DRAWN);
}

bool
broker_is_draining (const broker_t *self)
{
    return self->draining;
}

//  Whether all of the last epoch is sent.
static bool
s_is_complete (const job_t *job)
{
    return job->epochs && job->epoch + 1 >= job->epochs && job->state == JOB_DRAWN && job->order_count == 0;
}

//  A client has not taken everything, or may come back for it.  While the job is held up, a rank lacks steps
//  that it has not been sent yet.
static bool
s_is_wanted (const job_t *job)
{
    if (job->held_up)
        return true;
    for (uint32_t number = 0; number < job->world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        bool is_reading = rank->state == RANK_HERE && rank_batches_done (&rank->progress) < rank->sent;
        if (rank->is_awaited || is_reading)
            return true;
    }
    return false;
}

static bool
s_is_due (const job_t *job)
{
    return job->state != JOB_OVER && job_is_between_epochs (job)
        && !(s_is_complete (job) && s_is_wanted (job));
}

void
drain_mark (broker_t *self)
{
    for (job_t *job = self->jobs; job; job = job->next)
        if (s_is_due (job)) {
            job->is_drained = true;
            broker_wake (self, 0);
        }
}

void
drain_end (broker_t *self)
{
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->is_drained && s_is_due (job))
            job_end (job, "stopping", "the server takes no new epochs: it is to be stopped, or replaced by "
                "another");
}

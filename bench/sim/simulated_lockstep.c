//  CoorDL, in small: one order over the union of the data, each sample prepared once and given to all jobs
//  that have it in their data, step by step at the speed of the slowest that is there.  A joiner waits for
//  the others' next epoch; when a job leaves or has no more epochs, the others continue.

#include "simulated_run.h"

#include <math.h>
#include <stdlib.h>

#include "random.h"
#include "simulated_memory.h"

typedef enum { MEMBER_TO_COME, MEMBER_HERE, MEMBER_GONE } member_state_t;

typedef struct {
    member_state_t state;
    double start, leave;                //  ticks
    uint32_t from, to;
    uint32_t epochs;                    //  finished
} member_t;

typedef struct {
    const simulated_plan_t *plan;
    orders_record_t *const *records;
    member_t *members;
    uint32_t *order;
    random_t random;
    double now;
    uint64_t preparations, deliveries;
} lockstep_t;

//  Admits jobs that have come by now; if none is here, waits for the next.  False: all have gone.
static bool
s_admit (lockstep_t *self)
{
    double next = INFINITY;
    bool present = false;
    for (size_t job = 0; job < self->plan->job_count; job++) {
        member_t *member = &self->members [job];
        if (member->state == MEMBER_TO_COME && member->leave <= self->now)
            member->state = MEMBER_GONE;
        if (member->state == MEMBER_TO_COME && member->start <= self->now)
            member->state = MEMBER_HERE;
        present = present || member->state == MEMBER_HERE;
        if (member->state == MEMBER_TO_COME && member->start < next)
            next = member->start;
    }
    if (present || next == INFINITY)
        return present;
    self->now = next;
    return s_admit (self);
}

//  Removes jobs that leave by now, and returns the time of a step of the others.
static double
s_step_time (lockstep_t *self)
{
    double slowest = 1;
    for (size_t job = 0; job < self->plan->job_count; job++) {
        member_t *member = &self->members [job];
        if (member->state != MEMBER_HERE)
            continue;
        if (member->leave <= self->now)
            member->state = MEMBER_GONE;
        else
        if (self->plan->jobs [job].speed < slowest)
            slowest = self->plan->jobs [job].speed;
    }
    return 1 / slowest;
}

static bool
s_has (const member_t *member, uint32_t id)
{
    return member->state == MEMBER_HERE && id >= member->from && id < member->to;
}

static uint32_t
s_shuffle_union (lockstep_t *self)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < self->plan->samples; id++) {
        bool wanted = false;
        for (size_t job = 0; job < self->plan->job_count && !wanted; job++)
            wanted = s_has (&self->members [job], id);
        if (!wanted)
            continue;
        uint32_t place = (uint32_t) random_below (&self->random, count + 1);
        self->order [count++] = self->order [place];
        self->order [place] = id;
    }
    return count;
}

static void
s_epoch (lockstep_t *self)
{
    uint32_t count = s_shuffle_union (self);
    for (uint32_t step = 0; step < count; step++) {
        double step_time = s_step_time (self);
        uint64_t takers = 0;
        for (size_t job = 0; job < self->plan->job_count; job++)
            if (s_has (&self->members [job], self->order [step])) {
                orders_record_deliver (self->records [job], self->order [step]);
                takers++;
            }
        self->preparations += takers > 0;
        self->deliveries += takers;
        self->now += takers? step_time: 0;
    }
    for (size_t job = 0; job < self->plan->job_count; job++) {
        member_t *member = &self->members [job];
        if (member->state != MEMBER_HERE)
            continue;
        orders_record_epoch_end (self->records [job]);
        if (++member->epochs == self->plan->jobs [job].epochs)
            member->state = MEMBER_GONE;
    }
}

void
simulated_lockstep (const simulated_plan_t *plan, uint64_t seed, orders_record_t *const *records,
    simulated_result_t *result)
{
    lockstep_t self = { .plan = plan, .records = records, .random = random_from_seed (seed) };
    self.members = simulated_alloc (plan->job_count, sizeof *self.members);
    self.order = simulated_alloc (plan->samples, sizeof *self.order);
    for (size_t job = 0; job < plan->job_count; job++) {
        member_t *member = &self.members [job];
        member->start = round (plan->jobs [job].start * plan->samples);
        member->leave = round (plan->jobs [job].leave * plan->samples);
        simulated_data (plan, job, &member->from, &member->to);
    }
    while (s_admit (&self))
        s_epoch (&self);
    for (size_t job = 0; job < plan->job_count; job++)
        if (self.members [job].epochs < plan->jobs [job].epochs && plan->jobs [job].leave == INFINITY)
            orders_record_fail (records [job]);
    mean_add (&result->preparations, (double) self.preparations);
    mean_add (&result->deliveries, (double) self.deliveries);
    mean_add (&result->needed, (double) self.preparations);     //  all that can be shared is
    free (self.members);
    free (self.order);
}

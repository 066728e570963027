#include "remote_worker.h"
#include <assert.h>
#include <string.h>

enum {
    MEAN_TASKS = 16,                    //  of a running mean
    CREDIT_PARTS = 8,                   //  tasks for each processor, at most
    LATE_TURNS = 8, LATE_LEAST_MS = 1000,
    RATE_MS = 1000,
    REST_MS = 100, REST_DOUBLINGS = 6       //  to 6.4 s
};

static const char *const s_names [] = {
    [REMOTE_WORKER_FREE] = "gone", [REMOTE_WORKER_CHALLENGED] = "challenged",
    [REMOTE_WORKER_CHECKED] = "checked", [REMOTE_WORKER_WORKING] = "working",
    [REMOTE_WORKER_STALLED] = "stalled", [REMOTE_WORKER_REFUSED] = "refused"
};

static bool
s_may_move (remote_worker_state_t from, remote_worker_state_t to)
{
    switch (to) {
    case REMOTE_WORKER_CHALLENGED:
        return from == REMOTE_WORKER_FREE;
    case REMOTE_WORKER_CHECKED:
        return from == REMOTE_WORKER_CHALLENGED;
    case REMOTE_WORKER_WORKING:
        return from == REMOTE_WORKER_CHECKED || from == REMOTE_WORKER_STALLED;
    case REMOTE_WORKER_STALLED:
        return from == REMOTE_WORKER_WORKING || from == REMOTE_WORKER_STALLED;
    default:
        return from != REMOTE_WORKER_FREE;
    }
}

void
remote_worker_move (remote_worker_t *self, remote_worker_state_t state)
{
    assert (s_may_move (self->state, state));
    self->state = state;
}

bool
remote_worker_is_dismissed (const remote_worker_t *self)
{
    return self->wrong >= REMOTE_WORKER_WRONG_MAX;
}

size_t
remote_worker_credit (const remote_worker_t *self)
{
    if (self->state != REMOTE_WORKER_WORKING || self->granted == 0)
        return 0;
    double busy = self->task_ns > 0? 1 + self->trip_ns / self->task_ns: 1;
    busy = busy < CREDIT_PARTS? busy: CREDIT_PARTS;
    size_t credit = (size_t) (self->granted * busy) + 1, most = CREDIT_PARTS * (size_t) self->granted;
    credit = credit < most? credit: most;
    return self->window > 0 && self->window < (double) credit? (size_t) self->window: credit;
}

double
remote_worker_wait_ns (const remote_worker_t *self)
{
    return (double) (self->out + 1) * self->task_ns / (self->granted? self->granted: 1) + self->trip_ns;
}

int64_t
remote_worker_late_ms (const remote_worker_t *self)
{
    double late_ms = LATE_TURNS * self->turn_ns / 1e6;
    return late_ms > LATE_LEAST_MS? (int64_t) late_ms: LATE_LEAST_MS;
}

size_t
remote_worker_dataset (const remote_worker_t *self, const char *fingerprint)
{
    for (size_t index = 0; index < self->datasets; index++)
        if (strcmp (self->fingerprints [index], fingerprint) == 0)
            return index;
    return SIZE_MAX;
}

static void
s_mean (double *mean, double value)
{
    *mean += *mean > 0? (value - *mean) / MEAN_TASKS: value;
}

void
remote_worker_learn (remote_worker_t *self, double turn_ns, double held_ns, double worker_ns)
{
    self->empty_handed = 0;
    s_mean (&self->task_ns, worker_ns);
    s_mean (&self->turn_ns, turn_ns);
    //  With the time that both sides' threads wait for a processor.  In a full link it grows, and the bound
    //  of the credit holds.
    s_mean (&self->trip_ns, turn_ns > held_ns? turn_ns - held_ns: 0);
    if (self->window > 0)
        self->window += 1 / self->window;
    if (self->window > CREDIT_PARTS * (double) self->granted)
        self->window = 0;
}

//  As TCP does with its window: half of it, once for all tasks that were out when it was narrowed last; a
//  task more for each window of answers in time.
void
remote_worker_learn_taken_back (remote_worker_t *self, uint64_t number, uint64_t last_number)
{
    self->taken_back++;
    if (number <= self->window_number)
        return;
    double credit = (double) remote_worker_credit (self);
    self->window = credit > 2? credit / 2: 1;
    self->window_number = last_number;
}

void
remote_worker_learn_empty_handed (remote_worker_t *self, int64_t now_ms)
{
    if (now_ms < self->rests_until_ms)
        return;                         //  it was given this task before it rested
    uint64_t doublings = self->empty_handed < REST_DOUBLINGS? self->empty_handed: REST_DOUBLINGS;
    self->empty_handed++;
    self->rests_until_ms = now_ms + (REST_MS << doublings);
}

void
remote_worker_learn_late (remote_worker_t *self, double turn_ns)
{
    self->turn_ns = turn_ns > self->turn_ns? turn_ns: self->turn_ns;
}

void
remote_worker_rate (remote_worker_t *self, int64_t now_ms)
{
    if (now_ms < self->rated_ms + RATE_MS)
        return;
    self->rate = (double) (self->done - self->rated_done) * 1000 / (double) (now_ms - self->rated_ms);
    self->rated_done = self->done;
    self->rated_ms = now_ms;
}

json_t *
remote_worker_status (const remote_worker_t *self)
{
    return json_pack ("{s:s, s:s, s:s?, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "name", self->name, "state", remote_worker_is_dismissed (self)? "dismissed": s_names [self->state],
        "reason", self->state == REMOTE_WORKER_REFUSED? self->reason: NULL,
        "processors", (json_int_t) self->processors, "rate", self->rate,
        "out", (json_int_t) self->out, "credit", (json_int_t) remote_worker_credit (self),
        "done", (json_int_t) self->done, "read", (json_int_t) self->read,
        "late", (json_int_t) self->late, "lost", (json_int_t) self->lost,
        "taken_back", (json_int_t) self->taken_back, "wrong", (json_int_t) self->wrong,
        "bytes_sent", (json_int_t) self->bytes_sent, "bytes_received", (json_int_t) self->bytes_received);
}

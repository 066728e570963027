//  What a job, a rank, a slot, a row and a version go through: one table each, and one function that moves
//  it.  A move that the table does not have is a bug of ours: the server says it, and aborts.

#include "job.h"
#include <stdio.h>
#include <stdlib.h>
#include "version.h"

typedef struct {
    const char *name;
    unsigned next;              //  a bit for each state that may follow
} state_t;

#define TO(state) (1u << (state))

static const state_t s_jobs [] = {
    [JOB_ATTACHING] = { "attaching", TO (JOB_RUNNING) | TO (JOB_DRAWN) | TO (JOB_ENDING) },
    [JOB_RUNNING] = { "running", TO (JOB_DRAWN) | TO (JOB_ENDING) },
    [JOB_DRAWN] = { "drawn", TO (JOB_ENDING) },
    [JOB_ENDING] = { "ending", TO (JOB_OVER) },
    [JOB_OVER] = { "over", 0 }
};

//  A rank that is lost, or has left with everything, may come back.
static const state_t s_ranks [] = {
    [RANK_ATTACHING] = { "attaching", TO (RANK_HERE) | TO (RANK_LOST) | TO (RANK_LEFT) },
    [RANK_HERE] = { "here", TO (RANK_LOST) | TO (RANK_LEFT) },
    [RANK_LOST] = { "lost", TO (RANK_ATTACHING) },
    [RANK_LEFT] = { "left", TO (RANK_ATTACHING) }
};

//  A full batch that is not sent (all its samples are unreadable, or it is short under drop_last) becomes
//  free.
static const state_t s_slots [] = {
    [SLOT_FREE] = { "free", TO (SLOT_FILLING) },
    [SLOT_FILLING] = { "filling", TO (SLOT_FULL) },
    [SLOT_FULL] = { "full", TO (SLOT_SENT) | TO (SLOT_FREE) },
    [SLOT_SENT] = { "sent", TO (SLOT_FREE) }
};

//  A row that is cancelled is empty, until it gets another sample, or becomes a hole, or its rank comes back.
//  Only a worker's row cannot be cancelled.  A padding that is filled may get another sample.
static const state_t s_rows [] = {
    [ROW_EMPTY] = { "empty", TO (ROW_EMPTY) | TO (ROW_WAITING) | TO (ROW_READY) | TO (ROW_HOLE)
        | TO (ROW_LOST) },
    [ROW_WAITING] = { "waiting", TO (ROW_EMPTY) | TO (ROW_READY) },
    [ROW_READY] = { "ready", TO (ROW_EMPTY) | TO (ROW_COPYING) },
    [ROW_COPYING] = { "copying", TO (ROW_FILLED) },
    [ROW_FILLED] = { "filled", TO (ROW_EMPTY) | TO (ROW_WAITING) | TO (ROW_READY) | TO (ROW_HOLE)
        | TO (ROW_LOST) },
    [ROW_HOLE] = { "hole", TO (ROW_EMPTY) },
    [ROW_LOST] = { "lost", TO (ROW_EMPTY) | TO (ROW_WAITING) | TO (ROW_READY) | TO (ROW_HOLE) }
};

//  If a version's file could not be read, its worker gives the version back.  It waits for another try while
//  a row waits for it.
static const state_t s_versions [] = {
    [VERSION_IDLE] = { "idle", TO (VERSION_READING) | TO (VERSION_QUEUED) },
    [VERSION_READING] = { "reading", TO (VERSION_READING) | TO (VERSION_QUEUED) | TO (VERSION_IDLE) },
    [VERSION_QUEUED] = { "queued", TO (VERSION_QUEUED) | TO (VERSION_READING) | TO (VERSION_WORKING)
        | TO (VERSION_IDLE) },
    [VERSION_WORKING] = { "working", TO (VERSION_READY) | TO (VERSION_BAD) | TO (VERSION_READING)
        | TO (VERSION_IDLE) },
    [VERSION_READY] = { "ready", 0 },
    [VERSION_BAD] = { "bad", 0 }
};

static void
s_check (const char *thing, const state_t *states, unsigned from, unsigned to)
{
    if (states [from].next >> to & 1)
        return;
    fprintf (stderr, "tureen: a %s that is %s cannot become %s\n", thing, states [from].name,
        states [to].name);
    abort ();
}

void
job_move (job_t *self, job_state_t state)
{
    s_check ("job", s_jobs, self->state, state);
    self->state = state;
}

void
rank_move (rank_t *self, rank_state_t state)
{
    s_check ("rank", s_ranks, self->state, state);
    self->state = state;
}

void
job_batch_move (batch_t *self, slot_state_t state)
{
    s_check ("slot", s_slots, self->state, state);
    self->state = state;
}

void
row_move (batch_row_t *self, row_state_t state)
{
    s_check ("row", s_rows, self->state, state);
    self->state = state;
}

void
version_move (version_t *self, version_state_t state)
{
    s_check ("version", s_versions, self->state, state);
    self->state = state;
}

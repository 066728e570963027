//  Rows, and the versions that fill them: what the driver asks of one; and the queues of a job's rows: those
//  with a version that waits to be handed out (wanted), and those that wait to be copied (ready).

#include "row.h"
#include <assert.h>
#include "job.h"
#include "tenant.h"
#include "version.h"

job_t *
row_job (const batch_row_t *self)
{
    return self->job;
}

rank_t *
row_rank (const batch_row_t *self)
{
    return &self->job->ranks [self->rank];
}

uint32_t
row_slot (const batch_row_t *self)
{
    return self->slot == WIRE_SLOT_NONE? WIRE_SLOT_NONE: row_rank (self)->place [self->slot];
}

uint32_t
row_index (const batch_row_t *self)
{
    return self->rank_row;
}

uint32_t
row_id (const batch_row_t *self)
{
    return self->id;
}

const version_t *
row_version (const batch_row_t *self)
{
    return self->version;
}

pipeline_key_t
row_key (const batch_row_t *self)
{
    return (pipeline_key_t) { .seed = self->job->asked.seed, .round = self->epoch, .id = self->id,
        .occurrence = self->occurrence };
}

void
row_done (batch_row_t *row)
{
    job_t *job = row->job;
    rank_t *rank = &job->ranks [row->rank];
    if (row->slot == WIRE_SLOT_NONE) {
        assert (rank->again.open > 0);
        rank->again.open--;
    }
    else
    if (row != &rank->padding) {
        batch_t *batch = &job->draw.batches [row->slot];
        assert (batch->open > 0);
        batch->open--;
    }
    job_mark_delivery (job);
}

//  ---- versions

pipeline_key_t
version_key (const broker_t *self, const version_t *version)
{
    return (pipeline_key_t) { .seed = version_class (self, version)->seed, .round = version->draw,
        .id = version->id };
}

job_t *
version_job (const version_t *version, const tenant_t *tenant)
{
    for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
        if (!tenant || row->job->tenant == tenant)
            return row->job;
    return NULL;
}

tenant_t *
version_tenant (const broker_t *self, const version_t *version)
{
    assert (version->holder);
    return self->tenants [version->holder - 1];
}

//  The versions of an idle set would serve its next job, but one that takes long is not waited for.
bool
version_abandon (broker_t *self, version_t *version)
{
    assert (version->state == VERSION_WORKING);
    if (version->waiting
        || (version->indexed && !version_set_is_idle (version_set_of (self->version_index, version))))
        return false;
    version_index_discard (self->version_index, version);
    return true;
}

//  ---- queues

void
row_queue_append (row_list_t *list, batch_row_t *row)
{
    row->next = NULL;
    row->previous = list->last;
    if (list->last)
        list->last->next = row;
    else
        list->first = row;
    list->last = row;
    tenant_waits (row->job->broker, row->job->tenant);
}

void
row_queue_remove (row_list_t *list, batch_row_t *row)
{
    if (row->previous)
        row->previous->next = row->next;
    else
        list->first = row->next;
    if (row->next)
        row->next->previous = row->previous;
    else
        list->last = row->previous;
    row->previous = row->next = NULL;
    tenant_waits_no_more (row->job->broker, row->job->tenant);
}

void
row_queue_arrived (version_t *version)
{
    if (version->state != VERSION_READING)
        return;
    version_move (version, VERSION_QUEUED);
    for (batch_row_t *row = version->waiting; row; row = row->next_waiting)
        row_queue_append (&row->job->dispatch.wanted, row);
}

void
row_queue_left (version_t *version)
{
    if (version->state != VERSION_QUEUED)
        return;
    version_move (version, VERSION_READING);
    for (batch_row_t *row = version->waiting; row; row = row->next_waiting)
        row_queue_remove (&row->job->dispatch.wanted, row);
}

void
row_queue_ready (version_t *version)
{
    version_move (version, VERSION_READY);
    for (batch_row_t *row = version->waiting, *next; row; row = next) {
        next = row->next_waiting;
        row->next_waiting = row->previous_waiting = NULL;
        row_move (row, ROW_READY);
        row_queue_append (&row->job->dispatch.ready, row);
    }
    version->waiting = NULL;
}

void
row_queue_take_version (version_t *version)
{
    for (batch_row_t *row = version->waiting; row; row = row->next_waiting)
        row_queue_remove (&row->job->dispatch.wanted, row);
}

void
row_queue_take_copy (batch_row_t *row)
{
    row_queue_remove (&row->job->dispatch.ready, row);
}

//  The queues of a job's rows: those with a version that waits to be handed out (wanted), and those that wait
//  to be copied (ready).  A tenant with rows in queues waits for the workers.

#include "row_queue.h"
#include "states.h"
#include <assert.h>

//  ---- tenants that wait

void
tenant_waits (broker_t *self, tenant_t *tenant)
{
    if (tenant->wants.waiting++ == 0)
        fairness_wait (self->fairness, tenant->number);
}

void
tenant_waits_no_more (broker_t *self, tenant_t *tenant)
{
    assert (tenant->wants.waiting > 0);
    if (--tenant->wants.waiting == 0)
        fairness_rest (self->fairness, tenant->number);
}

//  ---- rows

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
        row_queue_append (&row->job->wanted, row);
}

void
row_queue_left (version_t *version)
{
    if (version->state != VERSION_QUEUED)
        return;
    version_move (version, VERSION_READING);
    for (batch_row_t *row = version->waiting; row; row = row->next_waiting)
        row_queue_remove (&row->job->wanted, row);
}

void
row_queue_ready (version_t *version)
{
    version_move (version, VERSION_READY);
    for (batch_row_t *row = version->waiting, *next; row; row = next) {
        next = row->next_waiting;
        row->next_waiting = row->previous_waiting = NULL;
        row_move (row, ROW_READY);
        row_queue_append (&row->job->ready, row);
    }
    version->waiting = NULL;
}

void
row_queue_take_version (version_t *version)
{
    for (batch_row_t *row = version->waiting; row; row = row->next_waiting)
        row_queue_remove (&row->job->wanted, row);
}

void
row_queue_take_copy (batch_row_t *row)
{
    row_queue_remove (&row->job->ready, row);
}

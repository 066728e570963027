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
row_queue_append (place_list_t *list, place_t *place)
{
    place->next = NULL;
    place->previous = list->last;
    if (list->last)
        list->last->next = place;
    else
        list->first = place;
    list->last = place;
    tenant_waits (place->job->broker, place->job->tenant);
}

void
row_queue_remove (place_list_t *list, place_t *place)
{
    if (place->previous)
        place->previous->next = place->next;
    else
        list->first = place->next;
    if (place->next)
        place->next->previous = place->previous;
    else
        list->last = place->previous;
    place->previous = place->next = NULL;
    tenant_waits_no_more (place->job->broker, place->job->tenant);
}

void
row_queue_arrived (version_t *version)
{
    if (version->state != VERSION_READING)
        return;
    version_move (version, VERSION_QUEUED);
    for (place_t *place = version->waiting; place; place = place->next_waiting)
        row_queue_append (&place->job->wanted, place);
}

void
row_queue_left (version_t *version)
{
    if (version->state != VERSION_QUEUED)
        return;
    version_move (version, VERSION_READING);
    for (place_t *place = version->waiting; place; place = place->next_waiting)
        row_queue_remove (&place->job->wanted, place);
}

void
row_queue_ready (version_t *version)
{
    version_move (version, VERSION_READY);
    for (place_t *place = version->waiting, *next; place; place = next) {
        next = place->next_waiting;
        place->next_waiting = place->previous_waiting = NULL;
        row_move (place, PLACE_READY);
        row_queue_append (&place->job->ready, place);
    }
    version->waiting = NULL;
}

void
row_queue_take_version (version_t *version)
{
    for (place_t *place = version->waiting; place; place = place->next_waiting)
        row_queue_remove (&place->job->wanted, place);
}

void
row_queue_take_copy (place_t *place)
{
    row_queue_remove (&place->job->ready, place);
}

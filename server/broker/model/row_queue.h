/*  row_queue -- the queues of a job's rows.  */
#ifndef ROW_QUEUE_H
#define ROW_QUEUE_H
#include "broker_state.h"

//  One more, or one fewer, of the tenant's rows and side tasks waits for a worker.
void tenant_waits (broker_t *self, tenant_t *tenant);
void tenant_waits_no_more (broker_t *self, tenant_t *tenant);
void row_queue_append (row_list_t *list, batch_row_t *row);
void row_queue_remove (row_list_t *list, batch_row_t *row);
//  The version's bytes have come: its rows may be handed out.
void row_queue_arrived (version_t *version);
//  The bytes are gone again: unless a worker has the version, its rows wait for them.
void row_queue_left (version_t *version);
//  The version is ready: the rows that wait for it may be copied.
void row_queue_ready (version_t *version);
//  A worker takes the version, or the row: it leaves its queue.
void row_queue_take_version (version_t *version);
void row_queue_take_copy (batch_row_t *row);

#endif

/*  dispatch -- which job's turn it is, and which tenant pays for it.  */
#ifndef DISPATCH_H
#define DISPATCH_H
#include "broker_state.h"

//  The job joins its tenant's list, is over, or is freed.
void dispatch_join (broker_t *self, job_t *job);
void dispatch_leave (broker_t *self, job_t *job);
void dispatch_reclaim (job_t *job);
//  The tenant holds the version, which has memory.
void dispatch_hold (version_t *version, tenant_t *tenant);
//  For version_index_on_leave; context is the broker.
void dispatch_left (void *context, version_t *version);
void dispatch_unpin (broker_t *self, version_t *version);
//  The cache memory beside the index that each worker needs: the largest version of each tenant with jobs.
size_t dispatch_beside_bytes (const broker_t *self);
//  The cache memory for versions of several data sets while their plain files are read; workers_bytes: the
//  workers' part.
size_t dispatch_fetching_bytes (const broker_t *self, size_t workers_bytes);
//  The version's plain files are read; a worker is done with the version.
void dispatch_fetched (broker_t *self, version_t *version);
void dispatch_prepared (broker_t *self, version_t *version);
//  The version's plain files could not be read: its task and its memory are free again.
void dispatch_unread (broker_t *self, version_t *version);
void dispatch_copied (broker_t *self, batch_row_t *row);
//  Hands out versions, copies and side tasks.  False: one waits because the cache's memory is all in use.
bool dispatch_work (broker_t *self);
void dispatch_check (const broker_t *self);

#endif

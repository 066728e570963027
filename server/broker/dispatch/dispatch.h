/*  dispatch -- which job's turn it is, and which tenant pays for it.  */
#ifndef DISPATCH_H
#define DISPATCH_H
#include "broker_state.h"

//  The job is its tenant's newest; it is over; nothing of it is left.
void dispatch_join (broker_t *self, job_t *job);
void dispatch_leave (broker_t *self, job_t *job);
void dispatch_reclaim (broker_t *self, job_t *job);
//  Somebody has hold of the version, which has memory; one pin less.
void dispatch_hold (broker_t *self, version_t *version, tenant_t *tenant);
//  For version_index_on_leave: context is the broker.
void dispatch_left (void *context, version_t *version);
void dispatch_unpin (broker_t *self, version_t *version);
//  What the cache's memory must have beside the index, for each worker: the largest version of each tenant
//  there is.
size_t dispatch_beside_bytes (const broker_t *self);
//  And besides, where this much is for the workers, for versions of several data sets whose plain files are
//  being read.
size_t dispatch_fetching_bytes (const broker_t *self, size_t workers_bytes);
//  The version's plain files have been read; a worker is done with it, or with the place.
void dispatch_fetched (broker_t *self, version_t *version);
void dispatch_prepared (broker_t *self, version_t *version);
//  Its plain files could not be read: it gives back its task, and its memory.
void dispatch_unread (broker_t *self, version_t *version);
void dispatch_copied (broker_t *self, place_t *place);
//  Hands out what may be handed out.  False: the cache's memory is all in use, so something waits.
bool dispatch_work (broker_t *self);
void dispatch_check (const broker_t *self);

#endif

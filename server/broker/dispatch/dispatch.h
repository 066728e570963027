/*  dispatch -- hands work out: which worker's task is next (prepare a version, copy it into rows, tasks
 *  beside these), tenants by weight, the jobs of a tenant in turn; and which piece of a pack is read next, in
 *  the raw store's order.  It has the classes of versions and their pipelines, and the rows that wait for a
 *  version or a copy.
 *
 *  Preparing, copying and side tasks are handed out in one order, that of the tenants' passes (fairness.h),
 *  because they take the same workers.  With an order for each kind, a tenant that only copies and one that
 *  only prepares would share by the numbers of tasks in flight.  A tenant may be unable to take its turn,
 *  because too many tasks of its kind are in flight or its version has no memory.  It holds up the others
 *  then, but only while all workers have other work; after that it counts as if it had not waited.
 *
 *  "No decision depends on a completion" (broker.h) is about draws, deliveries and evictions.  The order of
 *  tasks depends on how long others took; what is delivered, and in which order, does not.
 *
 *  Memory: beside the index each tenant has memory for as many of its largest versions as there are workers
 *  (s_workers_bytes), and no other tenant can take it.  Versions outside the index that a tenant holds count
 *  against its part; it may hold more while no tenant lacks its part.  A version that is not in the index and
 *  does not fit waits for copies of its own tenant's.  A version that leaves the index and does not fit waits
 *  for copies of the tenants that held more than their part at that moment, until these are back to their
 *  part.  No other version waits for it.  With several data sets, each has memory beside the index for
 *  versions with files being read (s_fetching_bytes).
 *
 *  Reading plain files takes up tasks in flight, and no worker.  Each data set has its own tasks in flight,
 *  so that a slow disk does not slow down another data set.  Of these a tenant has its part by weight while
 *  others want theirs, so that slow files of one tenant do not slow down another.  Some are kept for tenants
 *  with jobs on the data set that want none now, because a slow read cannot be cancelled.
 *
 *  Owner: the broker's thread.
 */
#ifndef DISPATCH_H
#define DISPATCH_H
#include "broker.h"

//  Whether the cache has room for versions of the join's shared stage; jobs that may leave do not count.
bool dispatch_allows (const broker_t *self, const broker_terms_t *join, refusal_t *refusal);
//  Makes the job a consumer of the class of its shared stage, and the class if it is new.  The job has joined
//  the sampler and is allowed.
void dispatch_join (broker_t *self, job_t *job);
//  For version_index_on_kind_end; context is the broker, user the class.
void dispatch_class_over (void *context, void *user);
//  The row is to be filled from the version, of the same sample.  Takes over a pin.
void dispatch_await (batch_row_t *row, version_t *version);
//  The row waits no more.  A row that a worker copies stays as it is.
void dispatch_cancel (broker_t *self, batch_row_t *row);
//  The job is over, or is freed.
void dispatch_leave (broker_t *self, job_t *job);
void dispatch_reclaim (job_t *job);
//  For version_index_on_leave; context is the broker.
void dispatch_left (void *context, version_t *version);
void dispatch_unpin (broker_t *self, version_t *version);
//  The version's plain files are read; a worker is done with the version.
void dispatch_fetched (broker_t *self, version_t *version);
void dispatch_prepared (broker_t *self, version_t *version);
//  The version's plain files could not be read: its task and its memory are free again.
void dispatch_unread (broker_t *self, version_t *version);
void dispatch_copied (broker_t *self, batch_row_t *row);
//  Hands out versions, copies and side tasks.  False: one waits because the cache's memory is all in use.
bool dispatch_work (broker_t *self);
//  Hands out reads of packs.  False: the first in line waits for memory.
bool dispatch_reads (broker_t *self);
void dispatch_check (const broker_t *self);

#endif

/*  schedule -- classes of versions, and rows that wait for a version.  */
#ifndef SCHEDULE_H
#define SCHEDULE_H
#include "broker_state.h"

//  Whether the cache has room for versions of the join's shared stage.  Who leaves makes no difference.
bool schedule_allows (const broker_t *self, const broker_join_t *join, refusal_t *refusal);
//  Makes the job, which has joined the sampler and is allowed, a consumer on the class of its shared stage,
//  which is made when it is new.
void schedule_join (broker_t *self, job_t *job);
//  For version_index_on_kind_end: context is the broker, user the class.
void schedule_class_over (void *context, void *user);
//  The place, of the version's sample, gets filled from it.  Takes over a pin.
void schedule_await (place_t *place, version_t *version);
//  Takes a place out of whatever it waits for (not COPYING).
void schedule_cancel (broker_t *self, place_t *place);
//  What jobs there are has changed: so may have what the index may hold.
void schedule_measure (broker_t *self);

#endif

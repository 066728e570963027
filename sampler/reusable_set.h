/*  reusable_set -- the newest scheduled versions, and which jobs may still take each.
 *
 *  A version lies in the list of its stratum and its *level*: how many jobs may take it, from 16 on the same
 *  one.
 *  A job that takes one prefers the low levels: what only this job can use would be evicted first, and what
 *  many can use serves the others later.  A level is chosen by weight, and a version of it uniformly; so all
 *  that decides is how many want a version, never which sample it is.  The weight is that of the level's
 *  whole list, how many of it the job may take being estimated as if all jobs were alike.  If they are, each
 *  further taker makes a version REUSABLE_SET_PREFERENCE times less likely; if not, a level of which this job
 *  may take little comes up more often than that, and its few versions with it.
 *
 *  Versions get ascending tickets and sit in a ring of as many places as the reusable set has: the newest
 *  push the oldest off.  Some 30 bytes a place while job numbers are below 64, and half a kilobyte a stratum.
 *
 *  Invariants, checked by reusable_set_check ():
 *    E1  an entry is in the list of its sample's stratum and of its level, the number of jobs in its mask.
 *    E2  takers [stratum] [job] is the number of the stratum's entries that the job may take.
 *  Owner: the sampler's thread.
 */
#ifndef REUSABLE_SET_H
#define REUSABLE_SET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "random.h"
#include "strata.h"

typedef struct reusable_set reusable_set_t;

enum { REUSABLE_SET_NO_ID = 0xffffffff, REUSABLE_SET_PREFERENCE = 12 };

//  places > 0.  strata (lent for good) says where a sample belongs.  Never NULL.
reusable_set_t *reusable_set_new (size_t places, const strata_t *strata);
void reusable_set_destroy (reusable_set_t **self_p);

//  Adds a version of id, which no job may take yet.  Returns its ticket, never 0.
uint64_t reusable_set_add (reusable_set_t *self, uint32_t id);
//  Calls with a ticket that has gone, by these or pushed off, do nothing.
void reusable_set_remove (reusable_set_t *self, uint64_t ticket);
void reusable_set_remove_until (reusable_set_t *self, uint64_t ticket);     //  this one and all older ones
void reusable_set_allow (reusable_set_t *self, uint64_t ticket, uint32_t job);
void reusable_set_forbid (reusable_set_t *self, uint64_t ticket, uint32_t job);
//  The newest ticket there ever was; 0: none.
uint64_t reusable_set_newest (const reusable_set_t *self);

//  A sample of the stratum that the job may take and that suits (context, id); REUSABLE_SET_NO_ID: none was
//  found.  Looks at a few dozen entries at most, so in a long list what is rare may be overlooked.
uint32_t reusable_set_pick (const reusable_set_t *self, uint32_t stratum, uint32_t job, random_t *random,
    bool (*suits) (const void *context, uint32_t id), const void *context);

//  Samples have changed their strata.
void reusable_set_restratify (reusable_set_t *self);

void reusable_set_check (const reusable_set_t *self);

#endif

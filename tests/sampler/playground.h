/*  playground -- the real sampler with a simple store of versions and a virtual clock, for tests of `follow`.
 *
 *  A job takes a step each 1 / speed; jobs with steps at the same time draw in one round.  The store holds a
 *  few versions, each usable once by a job (a random shared stage), and evicts the one that the fewest jobs
 *  may still use, ties at random.  Everything is looked up by walking the store.  Each draw is checked: the
 *  sample is in the job's data, and not drawn twice in an epoch.
 */
#ifndef PLAYGROUND_H
#define PLAYGROUND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"
#include "sampler.h"

typedef struct playground playground_t;

typedef struct {
    double speed;               //  1: a sample a tick
    double start;               //  in ticks from now
    uint32_t from, to;          //  data: ids from .. to - 1
    uint32_t stride;            //  only each stride-th of them; 0: all
    uint64_t epochs;            //  0: until it leaves
    sampler_order_t order;
    double jitter;              //  a step takes up to this share less or more
    uint64_t epoch;             //  its first one, below epochs ..
    const uint8_t *taken;       //  .. and by id, what of it is taken: lent until the job comes; NULL: nothing
} playground_job_t;

//  job: a number of playground_join's; position: of the epoch, from 0.
typedef void playground_drawn_t (void *context, int job, uint64_t epoch, uint32_t position, uint32_t id);

playground_t *playground_new (uint32_t samples, size_t versions, sampler_policy_t policy, uint64_t seed);
void playground_destroy (playground_t **self_p);
void playground_on_draw (playground_t *self, playground_drawn_t *drawn, void *context);
//  sampler_check after every round.
void playground_check_always (playground_t *self);

//  Comes at its start.  Returns its number.
int playground_join (playground_t *self, const playground_job_t *job);
//  It may have left already.
void playground_leave (playground_t *self, int job);
bool playground_is_there (const playground_t *self, int job);
//  By id, what the job has had in its present epoch, taken before or drawn; which epoch that is.  Lent; also
//  for a job that has left.
const uint8_t *playground_had (const playground_t *self, int job);
uint64_t playground_epoch (const playground_t *self, int job);
void playground_drop (playground_t *self, uint32_t id);
//  Lets time pass until then, or until no job is left (true).
bool playground_run (playground_t *self, double until);
double playground_now (const playground_t *self);

sampler_t *playground_sampler (playground_t *self);
uint64_t playground_prepared (const playground_t *self);
uint64_t playground_delivered (const playground_t *self);

#endif

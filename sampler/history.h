/*  history -- what remains to a job, and when in its last nine epochs each of it was drawn.
 *
 *  A job that follows others takes what they have scheduled, and so could come to draw the same samples at
 *  the same time of every epoch.  To stay fresh it keeps to quotas, at each *lag* from one epoch to
 *  HISTORY_LAGS.  A sample's class is the part of that earlier epoch in which the job drew it: at lag 1 the
 *  twentieth (its *age class*), at lags 2 and 3 the tenth, at lags 4 to 9 the fifth.  After d of n draws an
 *  independent shuffle has drawn size * d/n of a class, give or take sqrt (size * d/n * (1 - d/n)).  A class
 *  may be off by the least of
 *    - HISTORY_SLACK (at later lags HISTORY_SLACK_OLDER) such deviations, times sqrt (1 + HISTORY_FRESH * n /
 *      81).  An order is called fresh while the chi-square of its table of tenths is at most 81, the degrees
 *      of freedom, plus HISTORY_FRESH * n: so that is how much further than chance the cells of a large table
 *      may be off;
 *    - HISTORY_EARLY of size * d/n: so the last twentieth of one epoch is neither rare nor frequent in the
 *      first of the next;
 *  plus HISTORY_LEAST of a sample, so that a class of a few samples can move at all.  A class that is further
 *  ahead is not *allowed* at the next draw; if an age class that has something left is further behind, only
 *  such ones are.  Sizes are those of now, without what was dropped while it remained; those in the deviation
 *  are of the epoch's begin.  An epoch has quotas at the lags at which there was one before; a first epoch
 *  has none.  Quotas look at classes, never at a sample.
 *
 *  So the table "when in this epoch" by "when in that one" stays nearly as even as that of independent
 *  shuffles, at every lag and whatever is on offer.  Coarser classes do for older epochs because less of
 *  their order is left, and what is held at one lag hardly comes back at a later one; with halves from lag 5
 *  on, epoch 5 knew epoch 0 (phi2 0.09).  docs/randomness.md has the figures.
 *
 *  Of a job over several nodes, samples that another node draws are left out of an epoch.  When that node
 *  draws them is not known here, so they are a class of their own, *elsewhere*, at each lag: quotas spread
 *  them over a later epoch as they spread any other class.
 *
 *  Four bytes a sample: absent, remaining with its nine classes, or drawn with what they will be.  Late in an
 *  epoch a short list of what remains, so that a uniform proposal never takes more than some dozen tries.
 *
 *  Invariants, checked by history_check ():
 *    H1  the counts of each class, of what remains and of what there is agree with the samples' bits.
 *    H2  what remains is in the late list, if there is one.
 *  Owner: the sampler's thread.
 */
#ifndef HISTORY_H
#define HISTORY_H
#include <stdbool.h>
#include <stdint.h>
#include <roaring/roaring.h>
#include "random.h"

typedef struct history history_t;

//  The classes of a lag; ELSEWHERE is one more at each.
enum { HISTORY_LAGS = 9, HISTORY_AGES = 20, HISTORY_TENTHS = 10, HISTORY_FIFTHS = 5 };

//  Fresh is a phi2 up to HISTORY_FRESH; a table of tenths has HISTORY_FREEDOM degrees of freedom.
#define HISTORY_FRESH 0.02
#define HISTORY_FREEDOM 81
#define HISTORY_SLACK 0.95
#define HISTORY_SLACK_OLDER 0.6
#define HISTORY_EARLY 0.2f
#define HISTORY_LEAST 0.25f
#define HISTORY_EASE 0.75f
enum { HISTORY_EASE_LAGS = 2 };

//  At the beginning of a first epoch of data (not empty, ids below sample_count; not kept).  Never NULL.
history_t *history_new (const roaring_bitmap_t *data, uint32_t sample_count);
//  The most that a history of so many samples holds.
size_t history_bytes (uint32_t sample_count);
//  In a first epoch of which nothing has been drawn: taken, ids of the data (not kept), have been drawn by
//  the job that this one goes on for.  When each was is not known.  An order in which each sample is equally
//  likely at each place says nothing either, so they get the places up to now at random: each age class that
//  has passed the right number, and so the next epoch's quotas spread them as they spread all others.
void history_go_on (history_t *self, const roaring_bitmap_t *taken, random_t *random);
//  In an epoch of which nothing has been drawn: these ids are drawn elsewhere, and do not remain.  Ids that
//  are not in the data, or are left out already, change nothing.
void history_leave_out (history_t *self, const roaring_bitmap_t *ids);
void history_destroy (history_t **self_p);

bool history_has (const history_t *self, uint32_t id);
bool history_needs (const history_t *self, uint32_t id);
//  As demand_copy_remaining, demand_list_remaining and demand_spread.
void history_copy_remaining (const history_t *self, const uint32_t *pieces, size_t count, uint8_t *bits);
bool history_list_remaining (const history_t *self, uint32_t *ids, size_t max, size_t *count_p);
void history_spread (const history_t *self, uint32_t *bounds, size_t parts);
//  Prefetches id's byte for a query that comes soon.
void history_prefetch (const history_t *self, uint32_t id);
uint64_t history_size (const history_t *self);
uint64_t history_remaining (const history_t *self);
//  Of this epoch.
uint64_t history_drawn (const history_t *self);

//  A uniform sample of what remains (something does).  Costs a few tries, whatever remains.
uint32_t history_propose (history_t *self, random_t *random);
//  Settles which classes are allowed at the next draw; to be called before history_allows.
void history_settle (history_t *self);
//  Whether id, which remains, is of classes that are allowed.
bool history_allows (const history_t *self, uint32_t id);
//  The same with HISTORY_EASE of what a class may be ahead, at the first HISTORY_EASE_LAGS lags: for choices
//  that come on top of others that are up to the limit already (the raw tier's).  At later lags these need no
//  limit: pieces are read in a new random order each epoch, and all limits together would leave little of
//  what is in memory.
bool history_allows_easily (const history_t *self, uint32_t id);
//  The twentieth of the last epoch in which id, which remains, was drawn; HISTORY_AGES: it was drawn
//  elsewhere. In a first epoch 0.
uint32_t history_age (const history_t *self, uint32_t id);

//  id, which remains, is drawn.
void history_draw (history_t *self, uint32_t id);
//  id is in the data no longer; it may never have been.
void history_drop (history_t *self, uint32_t id);
//  All the data remain again.  What was left out of the last epoch counts as its end.
void history_epoch_begin (history_t *self);

//  Calls visit for each sample of the data, ascending.
void history_each (const history_t *self, void (*visit) (void *context, uint32_t id), void *context);
//  Aborts at the first invariant that does not hold.
void history_check (const history_t *self);

#endif

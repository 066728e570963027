/*  history -- what remains to a job, and when in its last two epochs each of it was drawn.
 *
 *  A job that follows others takes what they have scheduled, and so could come to draw the same samples at the
 *  same time of every epoch.  To stay fresh it keeps to quotas.  A sample's *age class* is the twentieth of the
 *  last epoch in which the job drew it; its *older class* the fifth of the epoch before.  After d of n draws an
 *  independent shuffle has drawn size * d/n of a class, give or take sqrt (size * d/n * (1 - d/n)).  A class that
 *  is ahead by HISTORY_SLACK such deviations + 1 is not *allowed* at the next draw; if an age class that has
 *  something left is further behind than that, only such ones are.  The 1 lets a class of a few samples move at
 *  all.  In place of the deviation comes HISTORY_MOST * size * sqrt (d/n * (1 - d/n)) where that is less (small data),
 *  and for age classes HISTORY_SHARE times the same where that is more (large data): so a class is 3.5 to 5 % of
 *  itself ahead at most, whatever its size.  Sizes are those of now, without what was dropped while it remained;
 *  those in the deviation are of the epoch's begin.  A first epoch has no quotas.  They look at classes, never at a
 *  sample.
 *
 *  So the table "when in this epoch" by "when in the last" stays nearly as even as that of independent shuffles,
 *  whatever is on offer.  Measured by test_history over epochs that were offered one fixed order for ever, the worst of
 *  what it offers: phi2 -0.03 of 500 samples, 0.00 of 1,500, 0.012 of 2,500, 0.011 of 4,000, 0.014 of 20,000; up to
 *  0.02 is called fresh.  Two epochs apart only fifths are held, and only ahead: the table of fifths had 0.012 of
 *  4,000 samples at worst, that of tenths up to 0.95 (offered the order before the last).  Three epochs apart nothing
 *  is.  docs/randomness.md has what jobs offer each other.
 *
 *  One byte a sample: absent, remaining with its two classes, or drawn with what they will be.  Late in an epoch
 *  a short list of what remains, so that a uniform proposal never takes more than some dozen tries.
 *
 *  Invariants, checked by history_check ():
 *    H1  the counts of each class, of what remains and of what there is agree with the bytes.
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

enum { HISTORY_AGES = 20, HISTORY_OLDER = 5 };

#define HISTORY_SLACK 1.3
#define HISTORY_SHARE 0.07
#define HISTORY_MOST 0.10
#define HISTORY_EASE 0.75f

//  At the beginning of a first epoch of data (not empty, ids below sample_count; not kept).  Never NULL.
history_t *history_new (const roaring_bitmap_t *data, uint32_t sample_count);
//  In a first epoch of which nothing has been drawn: taken, ids of the data (not kept), have been drawn by the job that this
//  one goes on for.  When each was is not known.  An order in which each sample is equally likely at each place says
//  nothing either, so they get the places up to now at random: each age class that has passed the right number, and so
//  the next epoch's quotas spread them as they spread all others.
void history_go_on (history_t *self, const roaring_bitmap_t *taken, random_t *random);
void history_destroy (history_t **self_p);

bool history_has (const history_t *self, uint32_t id);
bool history_needs (const history_t *self, uint32_t id);
//  Has id's byte fetched, so that who asks for it soon need not wait.
void history_prefetch (const history_t *self, uint32_t id);
uint64_t history_size (const history_t *self);
uint64_t history_remaining (const history_t *self);

//  A uniform sample of what remains (something does).  Costs a few tries, whatever remains.
uint32_t history_propose (history_t *self, random_t *random);
//  Settles which classes are allowed at the next draw; to be called before history_allows.
void history_settle (history_t *self);
//  Whether id, which remains, is of classes that are allowed.
bool history_allows (const history_t *self, uint32_t id);
//  The same with HISTORY_EASE of what a class may be ahead: for choices that come on top of others that are up to the
//  limit already (the raw tier's).
bool history_allows_easily (const history_t *self, uint32_t id);

//  id, which remains, is drawn.
void history_draw (history_t *self, uint32_t id);
//  id is in the data no longer; it may never have been.
void history_drop (history_t *self, uint32_t id);
//  All the data remain again.  What was left out of the last epoch counts as its end.
void history_epoch_begin (history_t *self);
//  Epochs begun since birth, the first not counted.
uint64_t history_epochs (const history_t *self);

//  Calls visit for each sample of the data, ascending.
void history_each (const history_t *self, void (*visit) (void *context, uint32_t id), void *context);
//  Aborts at the first invariant that does not hold.
void history_check (const history_t *self);

#endif

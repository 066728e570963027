/*  follow -- a round under the policy `follow` (ours): take what is scheduled, as far as the epoch stays
 *  fresh.
 *
 *  Each job of a round draws by itself:
 *    1. a *stratum* (strata.h), with probability what remains in it / what remains: exactly, because it is
 *       that of a uniform sample of what remains;
 *    2. inside it, a version on the reusable set (reusable_set.h) that it has not seen and still needs,
 *       of classes that its history allows now (history.h), preferably one that few others may take;
 *    3. if there is none, a uniform sample of what remains in the stratum, of allowed classes.
 *
 *  Every order is uniform: nothing but the stratum ever looks at which sample it is, so that within a stratum
 *  all are exchangeable, and the stratum is drawn as an independent shuffle would.  Every order is fresh,
 *  because quotas hold whatever is on offer.  No job leads: the first job to draw a sample makes it available
 *  to all, so there are no ranks, and no speed is measured.  docs/randomness.md has the argument at length
 *  and the figures.
 *
 *  Following makes orders a little less like independent shuffles, and saves nothing while no version is
 *  evicted before all have used it: they find it in the cache by chance.  So a draw looks at the reusable set
 *  only with a probability that evictions raise and their absence lowers; that of a job that shares samples
 *  with no other, never.
 *
 *  A job that the strata have no room for draws along common *passes* (passes.h), and does so while it is
 *  there.  While there are two such jobs the others turn to the passes too, those that follow when their
 *  next epochs begin and new ones at once: random subsets would be in the strata's way one after the other.
 *  Where jobs may not turn (follow_may_turn), and where its data are sparse, a job without room draws
 *  *apart*: uniformly, and what it schedules is not put on the reusable set.  Owner: the sampler's thread.
 */
#ifndef FOLLOW_H
#define FOLLOW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>
#include "demand.h"
#include "passes.h"
#include "random.h"
#include "reusable_set.h"
#include "strata.h"

typedef struct follow follow_t;

//  For ids below sample_count, and jobs that will be found in demands by their number (lent for good).
//  keeps_fresh: false for the policy `resident`, which takes whatever is on offer; its jobs do not turn to
//  passes.  seed: of these.  Never NULL.
follow_t *follow_new (uint32_t sample_count, demand_t **demands, bool keeps_fresh, uint64_t seed);
void follow_destroy (follow_t **self_p);

//  A SHARED job has joined, with data; taken: what of them is not to come in its first epoch (NULL: all is);
//  goes_on: it has drawn before, in that epoch or in another one.
void follow_join (follow_t *self, uint32_t job, const roaring_bitmap_t *data, const roaring_bitmap_t *taken,
    bool goes_on);
//  Whether jobs may turn to passes from now on; true at first.
void follow_may_turn (follow_t *self, bool may);
//  It leaves; its demand is still there.
void follow_leave (follow_t *self, uint32_t job);
//  merging (context) is called when strata are about to become one, so that nothing of before is used for
//  them.
void follow_on_merge (follow_t *self, void (*merging) (void *context), void *context);
//  A version on the reusable set was evicted before every job had used it: following saves something.
void follow_lost (follow_t *self);
//  Its demand has begun an epoch.
void follow_epoch_begin (follow_t *self, uint32_t job);
//  The sample leaves every demand.
void follow_drop (follow_t *self, uint32_t id);

//  Whether the job joined, is not apart and not on the passes.
bool follow_has (const follow_t *self, uint32_t job);
//  Prefetches the memory for asking which jobs need id.
void follow_prefetch (const follow_t *self, uint32_t id);
//  Whether two jobs that follow share samples.
bool follow_overlap (const follow_t *self, uint32_t job, uint32_t other);
reusable_set_t *follow_reusable (follow_t *self);
//  How often strata have merged.
uint64_t follow_merges (const follow_t *self);
passes_t *follow_passes (follow_t *self);

//  Begins the draw of one SHARED job that has something left.
void follow_begin (follow_t *self, uint32_t job, random_t *random);
//  A sample for it, by the rule above.
uint32_t follow_pick (follow_t *self, random_t *random);
//  Whether id may be committed: it remains, in the stratum that was drawn.
bool follow_accepts (const follow_t *self, uint32_t id);
//  Whether quotas allow id, which is accepted, easily (history.h).  After follow_pick.
bool follow_suits (const follow_t *self, uint32_t id);

//  The job's demand has drawn id.
void follow_draw (follow_t *self, uint32_t job, uint32_t id);

void follow_check (const follow_t *self, const roaring_bitmap_t *readable);

#endif

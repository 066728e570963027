#include "follow.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "xalloc.h"

enum {
    FOLLOW_MAGIC = 0xf0110e31,
    //  The reusable set holds the newest versions, up to this share of the samples.
    REUSABLE_SHARE = 50, REUSABLE_LEAST = 256,
    //  Proposals before a sample of a class that is not allowed is taken after all: quotas have slack.
    TRIES = 256,
    //  With so many jobs on the passes the others turn to them: one alone may only have been killed too
    //  often.
    TURN_JOBS = 2
};

//  A loss makes draws this much more eager, relative to the number of samples; so many draws without one,
//  relative to it, take one from how eager they are.
enum { EAGER_AT_ONCE = 500, CALM_AFTER = 2 };
//  Above 1, so that between two losses every draw is eager: jobs that draw in step part where one of them
//  looks elsewhere.
#define EAGER_MOST 1.25

struct follow {
    uint32_t magic;
    //  Set at birth.
    demand_t **demands;
    bool keeps_fresh;
    //  Owner only.
    strata_t *strata;
    reusable_set_t *reusable;
    passes_t *passes;
    bool may_turn;
    uint32_t sample_count;
    bool follows [SAMPLER_JOBS_MAX];
    uint32_t followers [SAMPLER_JOBS_MAX];
    size_t follower_count;
    size_t soles [SAMPLER_JOBS_MAX];    //  of jobs that follow: the stratum that has all their data, or the
                                        //  bound
    bool has_company [SAMPLER_JOBS_MAX];        //  of jobs that follow: another one shares samples with it
    void (*merging) (void *context);            //  called before strata merge; NULL: not called
    void *merging_context;
    uint64_t merges;
    //  How often a draw looks at the reusable set at all, always from 1 on: what is not there is found in the
    //  cache by chance, as long as nothing is evicted.
    double eagerness, loss_step, draw_step;
    //  Of the draw.
    uint32_t job;
    history_t *history;             //  the job's
    uint32_t stratum;
    uint32_t proposal;              //  uniform among what remains to it in the stratum; REUSABLE_SET_NO_ID:
                                    //  not needed yet
};

follow_t *
follow_new (uint32_t sample_count, demand_t **demands, bool keeps_fresh, uint64_t seed)
{
    follow_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = FOLLOW_MAGIC;
    self->demands = demands;
    self->keeps_fresh = keeps_fresh;
    self->eagerness = EAGER_MOST;
    self->loss_step = (double) EAGER_AT_ONCE / sample_count;
    self->draw_step = 1.0 / CALM_AFTER / sample_count;
    self->strata = strata_new (sample_count);
    self->passes = passes_new (sample_count, seed);
    self->may_turn = keeps_fresh;
    self->sample_count = sample_count;
    size_t places = sample_count / REUSABLE_SHARE;
    self->reusable = reusable_set_new (places > REUSABLE_LEAST? places: REUSABLE_LEAST, self->strata);
    return self;
}

void
follow_destroy (follow_t **self_p)
{
    follow_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == FOLLOW_MAGIC);
    reusable_set_destroy (&self->reusable);
    passes_destroy (&self->passes);
    strata_destroy (&self->strata);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

bool
follow_has (const follow_t *self, uint32_t job)
{
    return self->follows [job];
}

bool
follow_overlap (const follow_t *self, uint32_t job, uint32_t other)
{
    return self->follows [job] && self->follows [other] && strata_overlap (self->strata, job, other);
}

reusable_set_t *
follow_reusable (follow_t *self)
{
    return self->reusable;
}

passes_t *
follow_passes (follow_t *self)
{
    return self->passes;
}

void
follow_may_turn (follow_t *self, bool may)
{
    self->may_turn = may && self->keeps_fresh;
}

uint64_t
follow_merges (const follow_t *self)
{
    return self->merges;
}

//  ------------------------------------------------------------------------------------------------
//  Jobs

static bool
s_shares (const follow_t *self, uint32_t job)
{
    for (size_t index = 0; index < self->follower_count; index++)
        if (self->followers [index] != job && strata_overlap (self->strata, job, self->followers [index]))
            return true;
    return false;
}

//  Strata have changed, or which jobs follow.
static void
s_note_followers (follow_t *self)
{
    self->follower_count = 0;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (self->follows [job]) {
            self->followers [self->follower_count++] = job;
            self->soles [job] = strata_sole (self->strata, job);
        }
    for (size_t index = 0; index < self->follower_count; index++)
        self->has_company [self->followers [index]] = s_shares (self, self->followers [index]);
}

void
follow_prefetch (const follow_t *self, uint32_t id)
{
    for (size_t index = 0; index < self->follower_count; index++)
        history_prefetch (demand_history (self->demands [self->followers [index]]), id);
}

//  After a change of strata, of which there were `before`: none splits while others merge, so the number
//  tells.
static void
s_strata_changed (follow_t *self, size_t before)
{
    if (strata_count (self->strata) != before)
        reusable_set_restratify (self->reusable);
    s_note_followers (self);
}

//  Where nothing or all is taken, the mark of the data says as much.
static bool
s_refine (follow_t *self, uint32_t job, const roaring_bitmap_t *data, const roaring_bitmap_t *taken)
{
    if (!strata_refine (self->strata, job, data))
        return false;
    uint64_t size = taken? roaring_bitmap_get_cardinality (taken): 0;
    if (size == 0 || size == roaring_bitmap_get_cardinality (data)
        || strata_refine_taken (self->strata, job, taken))
        return true;
    strata_cancel (self->strata, job);
    //  There are as many strata as before, but a label may be another's.
    reusable_set_restratify (self->reusable);
    return false;
}

//  Sparse data are not worth walking the passes for.
static bool
s_turns (follow_t *self, uint32_t job)
{
    const history_t *history = demand_history (self->demands [job]);
    return self->may_turn && history_size (history) * PASSES_SPARSE >= self->sample_count;
}

void
follow_join (follow_t *self, uint32_t job, const roaring_bitmap_t *data, const roaring_bitmap_t *taken,
    bool goes_on)
{
    assert (self->magic == FOLLOW_MAGIC);
    bool turns = s_turns (self, job);
    size_t before = strata_count (self->strata);
    self->follows [job] = !(turns && passes_jobs (self->passes) >= TURN_JOBS)
        && s_refine (self, job, data, taken);
    if (!self->follows [job] && turns)
        passes_join (self->passes, job, demand_history (self->demands [job]), goes_on);
    s_strata_changed (self, before);
}

static void
s_merge (follow_t *self)
{
    //  Before a merge, every reusable version that was scheduled under the finer strata is withdrawn.  The
    //  set of available versions still shows which job's data a sample was in, even if the version was
    //  scheduled after that job had left.
    if (self->merging)
        self->merging (self->merging_context);
    reusable_set_remove_until (self->reusable, reusable_set_newest (self->reusable));
    size_t before = strata_count (self->strata);
    strata_merge (self->strata);
    self->merges++;
    s_strata_changed (self, before);
}

//  A job that follows does so no more.
static void
s_depart (follow_t *self, uint32_t job)
{
    uint32_t others [SAMPLER_JOBS_MAX];
    size_t count = 0;
    for (uint32_t other = 0; other < SAMPLER_JOBS_MAX; other++)
        if (other != job && follow_overlap (self, job, other))
            others [count++] = other;
    self->follows [job] = false;
    if (strata_depart (self->strata, job, others, count))
        s_merge (self);
    else
        s_note_followers (self);
}

void
follow_leave (follow_t *self, uint32_t job)
{
    assert (self->magic == FOLLOW_MAGIC);
    if (self->follows [job])
        s_depart (self, job);
    if (passes_has (self->passes, job))
        passes_leave (self->passes, job);
}

void
follow_on_merge (follow_t *self, void (*merging) (void *context), void *context)
{
    self->merging = merging;
    self->merging_context = context;
}

void
follow_epoch_begin (follow_t *self, uint32_t job)
{
    //  What redirects the draws may have come meanwhile.
    if (passes_has (self->passes, job) && !self->may_turn)
        passes_leave (self->passes, job);
    if (passes_has (self->passes, job))
        passes_epoch_begin (self->passes, job);
    else
    if (self->follows [job] && passes_jobs (self->passes) >= TURN_JOBS && s_turns (self, job)) {
        s_depart (self, job);
        passes_join (self->passes, job, demand_history (self->demands [job]), false);
    }
    else
    if (self->follows [job] && strata_epoch_begun (self->strata, job))
        s_merge (self);
}

void
follow_drop (follow_t *self, uint32_t id)
{
    strata_drop (self->strata, id);
}

//  ------------------------------------------------------------------------------------------------
//  Draws

void
follow_lost (follow_t *self)
{
    self->eagerness = fmin (EAGER_MOST, self->eagerness + self->loss_step);
}

//  Whether this draw looks at the reusable set.  A job that shares its samples with no other has nothing to
//  gain there: it finds as many of its own versions of the last epochs by chance.
static bool
s_is_eager (follow_t *self, random_t *random)
{
    bool eager = !self->keeps_fresh
        || (self->has_company [self->job] && random_real (random) < self->eagerness);
    self->eagerness = fmax (0, self->eagerness - self->draw_step);
    return eager;
}

void
follow_begin (follow_t *self, uint32_t job, random_t *random)
{
    assert (self->magic == FOLLOW_MAGIC);
    self->job = job;
    self->history = demand_history (self->demands [job]);
    self->proposal = REUSABLE_SET_NO_ID;
    if (passes_has (self->passes, job))
        return;
    size_t sole = self->follows [job]? self->soles [job]: strata_bound (self->strata);
    if (sole < strata_bound (self->strata))
        self->stratum = (uint32_t) sole;        //  there is nothing to choose
    else {
        self->proposal = history_propose (self->history, random);
        self->stratum = strata_of (self->strata, self->proposal);
    }
}

//  The class of a job that does not follow is all that remains to it.
bool
follow_accepts (const follow_t *self, uint32_t id)
{
    return history_needs (self->history, id)
        && (!self->follows [self->job] || strata_of (self->strata, id) == self->stratum);
}

//  For the reusable set: a job may take an entry of this stratum only if it needs the sample.
static bool
s_suits (const void *context, uint32_t id)
{
    const follow_t *self = context;
    return !self->keeps_fresh || history_allows (self->history, id);
}

bool
follow_suits (const follow_t *self, uint32_t id)
{
    return !self->keeps_fresh || passes_has (self->passes, self->job)
        || history_allows_easily (self->history, id);
}

static bool
s_wants (const follow_t *self, uint32_t id)
{
    return follow_accepts (self, id) && s_suits (self, id);
}

//  Uniform over what remains in the stratum, of allowed classes as far as tries find one.
static uint32_t
s_pick_any (follow_t *self, random_t *random)
{
    if (self->proposal == REUSABLE_SET_NO_ID)
        self->proposal = history_propose (self->history, random);
    uint32_t id = self->proposal;
    for (int tries = 0; tries < TRIES && !s_wants (self, id); tries++)
        id = history_propose (self->history, random);
    return s_wants (self, id)? id: self->proposal;
}

uint32_t
follow_pick (follow_t *self, random_t *random)
{
    assert (self->magic == FOLLOW_MAGIC);
    if (passes_has (self->passes, self->job))
        return passes_pick (self->passes, self->job, random);
    //  A tier may redirect the draw of a job that does not follow, too (follow_suits).
    if (self->keeps_fresh)
        history_settle (self->history);
    if (!self->follows [self->job])
        return self->proposal;
    uint32_t id = s_is_eager (self, random)?
        reusable_set_pick (self->reusable, self->stratum, self->job, random, s_suits, self):
        REUSABLE_SET_NO_ID;
    return id != REUSABLE_SET_NO_ID? id: s_pick_any (self, random);
}

void
follow_draw (follow_t *self, uint32_t job, uint32_t id)
{
    if (passes_has (self->passes, job))
        passes_draw (self->passes, job, id);
}

void
follow_check (const follow_t *self, const roaring_bitmap_t *readable)
{
    assert (self->magic == FOLLOW_MAGIC);
    strata_check (self->strata, readable);
    reusable_set_check (self->reusable);
    passes_check (self->passes);
}

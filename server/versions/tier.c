#include "tier.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "history.h"
#include "random.h"
#include "strata.h"
#include "xalloc.h"

enum {
    TIER_MAGIC = 0x71e20d15,
    //  Tries of each preference before a draw gives it up; up to SCAN_MAX residents are all looked at
    //  instead.
    TRIES = 64, SCAN_MAX = 1024,
    WITNESSES = 2,                  //  a draw
    NO_ID = 0xffffffff
};

enum {
    QUOTA_WITNESSES = 256,          //  a share's standard deviation is up to 0.03
    QUOTA_DUE = 6,
    QUOTA_SLACK_PARTS = 8,          //  the slack is this part of the room: four standard deviations
    QUOTA_NOBODY = 0xffff
};

typedef struct {
    uint32_t drawn [SAMPLER_JOBS_MAX];          //  by job number, halved at each ranking
    uint64_t drawn_all;
    uint64_t until_ranking;                     //  draws
    uint16_t witnesses [QUOTA_WITNESSES];       //  job numbers, a ring
    uint32_t newest;
    uint32_t seen [SAMPLER_JOBS_MAX];           //  how many of the witnesses are the job's
} slow_job_quota_t;

struct tier {
    uint32_t magic;
    //  set at birth
    version_index_t *version_index;
    sampler_t *sampler;
    raw_policy_t policy;
    uint32_t samples;
    size_t (*sample_bytes) (void *context, uint32_t id);
    void *context;
    raw_pool_t *pool;
    //  owner only
    random_t random;
    consumer_t *consumers [SAMPLER_JOBS_MAX];   //  as the quota ranks them
    size_t job_count;
    slow_job_quota_t quota;
    size_t served;                  //  so many consumers, from the first, are not throttled ..
    size_t bearable;                //  .. and so many not evictable; >= served
    bool stops [SAMPLER_JOBS_MAX];  //  by job number: the job begins no further epoch
    uint64_t merges;                //  the sampler's merges that the pool knows
    //  If the jobs do not follow, the samples that may be drawn can be of several strata.
    strata_t *strata;
    bool has_mark [SAMPLER_JOBS_MAX];
    bool goes_on [SAMPLER_JOBS_MAX];            //  by job number: in its first epoch, resumed with samples
                                                //  taken before
    size_t unknown;                 //  jobs that do not follow and have no mark
    size_t partial;                 //  jobs without some of the samples, or with other ones in each epoch
    //  By job number: the draws of its past epochs, for jobs that do not follow; else NULL.
    history_t *histories [SAMPLER_JOBS_MAX];
    uint32_t drawing [SAMPLER_JOBS_MAX];        //  the jobs of the offer of the last tier_pick
    size_t drawing_count;
};

//  ---- the quota of slow jobs

//  The quota: how much of a tier's pool the samples of slow jobs may fill.
//
//  A sample that only a slow or stopped job still needs enters the pool with each pass and hardly ever
//  leaves.  Without a quota such samples would fill the pool, and the other jobs, which never wait for
//  another, would have no room.
//
//  Jobs are ranked by their recent draws, most first.  A resident sample *belongs to* the first-ranked job
//  that needs it.  A job and those ranked behind it have a quota, as a share of the residents that fit:
//
//      1/4 + QUOTA_DUE * their share of the draws.
//
//  While their samples exceed it, these jobs are *throttled*: the tier reads only samples that other jobs
//  need.  While their samples exceed the quota by an eighth of the room, these jobs are *evictable*: the tier
//  evicts random samples of theirs.  So five eighths of the room belong to the other jobs, however many jobs
//  stop, and a stopped job keeps enough to resume with.
//
//  The first-ranked job is never throttled, and so a single job is not.  Nor is a job with an eighth or more
//  of all draws: its samples would be read anyway, for other jobs or one by one, and that costs more than it
//  saves (four jobs of speeds 1, .73, .41 and .23, memory for 2 %: with QUOTA_DUE 1/2, and 1/2 for 1/4, a
//  third fewer single reads, but 1.14 bytes read for each delivered in place of 1.05).
//
//  The shares are estimates: with each draw the tier names the job of a random resident (a witness), and the
//  newest QUOTA_WITNESSES count.  All decisions here depend on jobs only, never on samples.
//
//  Cost: O(jobs) a draw.  Some kilobytes.

//  The job of this number has not drawn yet, or has left.
static void
s_quota_reset (slow_job_quota_t *self, uint32_t job)
{
    self->drawn_all -= self->drawn [job];
    self->drawn [job] = 0;
    for (size_t index = 0; index < QUOTA_WITNESSES && self->seen [job] > 0; index++)
        if (self->witnesses [index] == job) {
            self->witnesses [index] = QUOTA_NOBODY;
            self->seen [job]--;
        }
}

static void
s_quota_drew (slow_job_quota_t *self, uint32_t job)
{
    self->drawn [job]++;
    self->drawn_all++;
    if (self->until_ranking > 0)
        self->until_ranking--;
}

//  If a ranking is due, sorts the consumers by their recent draws, most first; O(jobs) when little changes.
static void
s_quota_rank (slow_job_quota_t *self, consumer_t **consumers, size_t count, uint64_t residents)
{
    if (self->until_ranking > 0)
        return;
    self->until_ranking = residents + count * TIER_RANKING_DRAWS;
    for (size_t place = 1; place < count; place++)
        for (size_t at = place; at > 0; at--) {
            consumer_t *behind = consumers [at], *before = consumers [at - 1];
            if (self->drawn [behind->sampler_job] <= self->drawn [before->sampler_job])
                break;
            consumers [at] = before;
            consumers [at - 1] = behind;
        }
    self->drawn_all = 0;
    for (size_t place = 0; place < count; place++)
        self->drawn_all += self->drawn [consumers [place]->sampler_job] /= 2;
}

//  A resident chosen at random belongs to the job; QUOTA_NOBODY: to none.
static void
s_quota_witness (slow_job_quota_t *self, uint32_t job)
{
    uint16_t *oldest = &self->witnesses [self->newest++ % QUOTA_WITNESSES];
    if (*oldest != QUOTA_NOBODY)
        self->seen [*oldest]--;
    *oldest = (uint16_t) job;
    if (job != QUOTA_NOBODY)
        self->seen [job]++;
}

//  The number of consumers, from the first-ranked on, that are not throttled; at least one if there are any.
//  *bearable_p: the number that are not evictable.  residents: how many there are; room: how many fit.
static size_t
s_quota_served (const slow_job_quota_t *self, consumer_t *const *consumers, size_t count,
    uint64_t residents, uint64_t room, size_t *bearable_p)
{
    size_t served = count, bearable = count;
    double fill = room > 0? (double) residents / (double) room / QUOTA_WITNESSES: 0;
    uint64_t seen = 0, drawn = 0;
    for (size_t place = count; place-- > 1;) {
        uint32_t job = consumers [place]->sampler_job;
        seen += self->seen [job];
        drawn += self->drawn [job];
        double share = (double) seen * fill;
        double due = self->drawn_all? 0.25 + QUOTA_DUE * (double) drawn / (double) self->drawn_all:
            1;
        if (share > due)
            served = place;
        if (share > due + 1.0 / QUOTA_SLACK_PARTS)
            bearable = place;
    }
    *bearable_p = bearable;
    return served;
}

//  ---- the samples that jobs need

//  Whether all samples that remain to the job may be resident: its pass is over then, and samples of its next
//  epoch may enter.  Earlier they would evict samples of the present epoch.
static bool
s_is_ending (const tier_t *self, uint32_t job, uint64_t residents)
{
    return !self->stops [job] && sampler_remaining (self->sampler, job) <= residents;
}

//  Whether jobs that are not throttled need the sample.  Called for each sample of a piece, so the version
//  index, which costs most, comes last.
static raw_need_t
s_need (void *context, uint32_t id)
{
    const tier_t *self = context;
    if (self->job_count == 0)
        return RAW_UNNEEDED;
    uint64_t residents = raw_pool_figures (self->pool).resident;
    bool now = false, next = false;
    for (size_t place = 0; place < self->served && !(now && next); place++) {
        consumer_t *consumer = self->consumers [place];
        uint32_t job = consumer->sampler_job;
        bool needs = sampler_needs (self->sampler, job, id);
        bool needs_now = !now && needs;
        bool needs_next = !next && s_is_ending (self, job, residents)
            && sampler_needs_next (self->sampler, job, id);
        if ((needs_now || needs_next) && !version_index_serves (self->version_index, &consumer, 1, id)) {
            now = now || needs_now;
            next = next || needs_next;
        }
    }
    return now? (next? RAW_NEEDED_BOTH: RAW_NEEDED): next? RAW_NEEDED_NEXT: RAW_UNNEEDED;
}

//  The rank of the first job that needs the sample, in its present epoch or the next; job_count: no job does.
static size_t
s_first_to_need (const tier_t *self, uint32_t id)
{
    uint64_t residents = raw_pool_figures (self->pool).resident;
    for (size_t place = 0; place < self->job_count; place++) {
        consumer_t *consumer = self->consumers [place];
        uint32_t job = consumer->sampler_job;
        if ((sampler_needs (self->sampler, job, id)
                || (s_is_ending (self, job, residents) && sampler_needs_next (self->sampler, job, id)))
                && !version_index_serves (self->version_index, &consumer, 1, id))
            return place;
    }
    return self->job_count;
}

//  Decides again which jobs are throttled.
static void
s_share (tier_t *self)
{
    raw_pool_figures_t figures = raw_pool_figures (self->pool);
    size_t before = self->served, bearable = self->job_count;
    self->served = self->job_count;
    //  Redox would have to look at all its chunks at each change.  If all samples fit, no job needs a quota.
    if (figures.resident_max > 0 && figures.resident_max <= self->samples)
        self->served = s_quota_served (&self->quota, self->consumers, self->job_count,
            figures.resident, figures.resident_max, &bearable);
    self->bearable = bearable;
    if (self->served > before)
        raw_pool_needs_grew (self->pool);
}

//  After a draw.  At most one of the witnesses is evicted, because a draw makes room for one sample.
static void
s_apply_quota (tier_t *self)
{
    s_quota_rank (&self->quota, self->consumers, self->job_count,
        raw_pool_resident_count (self->pool));
    if (self->job_count < 2 || self->policy != RAW_STREAM)
        return;
    bool gave = false;
    for (int tries = 0; tries < WITNESSES; tries++) {
        uint32_t residents = raw_pool_resident_count (self->pool);
        if (residents == 0)
            break;
        uint32_t id = raw_pool_resident_at (self->pool, (uint32_t) random_below (&self->random, residents));
        size_t place = s_first_to_need (self, id);
        s_quota_witness (&self->quota,
            place < self->job_count? self->consumers [place]->sampler_job: QUOTA_NOBODY);
        if (place >= self->bearable && place < self->job_count && !gave) {
            raw_pool_drawn (self->pool, id);
            gave = true;
        }
    }
    s_share (self);
}

//  ---- life

static uint64_t
s_random_below (void *random, uint64_t bound)
{
    return random_below (random, bound);
}

static size_t
s_sample_bytes (void *context, uint32_t id)
{
    const tier_t *self = context;
    return self->sample_bytes (self->context, id);
}

static bool
s_tell_dropped (uint32_t id, void *pool)
{
    raw_pool_dropped (pool, id);
    return true;
}

static const raw_policy_ops_t *
s_ops (raw_policy_t policy)
{
    switch (policy) {
    case RAW_STREAM:
        return &raw_stream_ops;
    case RAW_REDOX:
        return &raw_redox_ops;
    case RAW_DIRECT:
        break;
    }
    return &raw_direct_ops;
}

tier_t *
tier_new (version_index_t *version_index, sampler_t *sampler, raw_policy_t policy,
    const raw_pool_options_t *options, size_t (*sample_bytes) (void *context, uint32_t id), void *context,
    uint64_t seed)
{
    tier_t *self = xalloc_memory (calloc (1, sizeof *self));
    *self = (tier_t) {
        .magic = TIER_MAGIC, .version_index = version_index, .sampler = sampler, .policy = policy,
        .samples = options->samples, .sample_bytes = sample_bytes, .context = context,
        .random = random_from_seed (seed), .merges = sampler_merges (sampler)
    };
    raw_pool_options_t filled = *options;
    filled.ops = s_ops (policy);
    filled.need = s_need;
    filled.sample_bytes = s_sample_bytes;
    filled.context = self;
    filled.random_below = s_random_below;
    filled.random = &self->random;
    for (size_t index = 0; index < QUOTA_WITNESSES; index++)
        self->quota.witnesses [index] = QUOTA_NOBODY;
    self->pool = raw_pool_new (&filled);
    roaring_iterate (sampler_dropped (sampler), s_tell_dropped, self->pool);
    return self;
}

size_t
tier_bytes (raw_policy_t policy, uint32_t samples, uint32_t chunk, uint64_t residents)
{
    return sizeof (tier_t) + raw_pool_bytes (s_ops (policy), samples, chunk, residents);
}

size_t
tier_job_bytes (raw_policy_t policy, uint32_t samples)
{
    return policy == RAW_STREAM? history_bytes (samples): 0;
}

void
tier_destroy (tier_t **self_p)
{
    tier_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == TIER_MAGIC);
    raw_pool_destroy (&self->pool);
    strata_destroy (&self->strata);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        history_destroy (&self->histories [job]);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

raw_pool_t *
tier_pool (tier_t *self)
{
    return self->pool;
}

size_t
tier_jobs (const tier_t *self)
{
    return self->job_count;
}

//  ---- strata, where the sampler has none: each choice must be among samples that are in the same jobs' data

static void
s_add (void *context, uint32_t id)
{
    roaring_bitmap_add (context, id);
}

//  The job's data; the caller frees it.
static roaring_bitmap_t *
s_data (const tier_t *self, uint32_t job)
{
    roaring_bitmap_t *data = xalloc_memory (roaring_bitmap_create ());
    sampler_each (self->sampler, job, s_add, data);
    return data;
}

typedef struct {
    const sampler_t *sampler;
    uint32_t job;
    roaring_bitmap_t *ids;
} gone_t;

static void
s_add_gone (void *context, uint32_t id)
{
    const gone_t *gone = context;
    if (!sampler_needs (gone->sampler, gone->job, id))
        roaring_bitmap_add (gone->ids, id);
}

//  The samples that the job will not draw any more in its present epoch; the caller frees them.
static roaring_bitmap_t *
s_gone (const tier_t *self, uint32_t job)
{
    gone_t gone = { self->sampler, job, xalloc_memory (roaring_bitmap_create ()) };
    sampler_each (self->sampler, job, s_add_gone, &gone);
    return gone.ids;
}

//  A resumed job refines the strata also by the samples that it has had: two such jobs may still need more of
//  some samples than of others (strata.h).
static bool
s_refine_gone (tier_t *self, uint32_t job)
{
    roaring_bitmap_t *gone = s_gone (self, job);
    bool refined = roaring_bitmap_is_empty (gone) || sampler_remaining (self->sampler, job) == 0
        || strata_refine_taken (self->strata, job, gone);
    roaring_bitmap_free (gone);
    return refined;
}

static bool
s_refine (tier_t *self, uint32_t job)
{
    roaring_bitmap_t *data = s_data (self, job);
    bool refined = !roaring_bitmap_is_empty (data) && strata_refine (self->strata, job, data);
    roaring_bitmap_free (data);
    if (refined && self->goes_on [job] && !s_refine_gone (self, job)) {
        strata_cancel (self->strata, job);
        refined = false;
    }
    return refined;
}

//  A job alone needs no strata.  Refining is safe at any time.
static void
s_mark_all (tier_t *self)
{
    self->unknown = 0;
    if (self->job_count < 2 || sampler_follows (self->sampler, self->consumers [0]->sampler_job))
        return;
    if (!self->strata)
        self->strata = strata_new (self->samples);
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t job = self->consumers [place]->sampler_job;
        if (!self->has_mark [job])
            self->has_mark [job] = s_refine (self, job);
        self->unknown += !self->has_mark [job];
    }
}

static void
s_count_partial (tier_t *self)
{
    uint64_t all = self->samples - sampler_dropped_count (self->sampler);
    self->partial = 0;
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t job = self->consumers [place]->sampler_job;
        self->partial += sampler_has_parts (self->sampler, job)
            || sampler_epoch_samples (self->sampler, job) < all;
    }
}

//  The resident and passed samples would reveal which jobs' data a sample was in.
static void
s_merge (tier_t *self)
{
    strata_merge (self->strata);
    raw_pool_restart (self->pool);
}

static void
s_unmark (tier_t *self, uint32_t job)
{
    uint32_t others [SAMPLER_JOBS_MAX];
    size_t count = 0;
    if (!self->has_mark [job])
        return;
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t other = self->consumers [place]->sampler_job;
        if (other != job && self->has_mark [other] && strata_overlap (self->strata, job, other))
            others [count++] = other;
    }
    self->has_mark [job] = false;
    if (strata_depart (self->strata, job, others, count))
        s_merge (self);
}

static void
s_notice_merges (tier_t *self)
{
    uint64_t merges = sampler_merges (self->sampler);
    if (merges == self->merges)
        return;
    self->merges = merges;
    raw_pool_restart (self->pool);
}

//  ---- jobs that join and leave

//  Of a job over several nodes: what others draw in the epoch, of which it has drawn nothing here.
static void
s_leave_out_others (tier_t *self, uint32_t job)
{
    roaring_bitmap_t *gone = s_gone (self, job);
    history_leave_out (self->histories [job], gone);
    roaring_bitmap_free (gone);
}

//  The sampler keeps no quotas of a job that does not follow.  But the residents depend on the job's last
//  epoch: a sample that no job drew in one pass is resident in the next.
static void
s_remember (tier_t *self, uint32_t job)
{
    if (self->policy != RAW_STREAM || sampler_follows (self->sampler, job))
        return;
    roaring_bitmap_t *data = s_data (self, job);
    if (!roaring_bitmap_is_empty (data))
        self->histories [job] = history_new (data, self->samples);
    if (self->histories [job] && sampler_has_parts (self->sampler, job))
        s_leave_out_others (self, job);
    else
    if (self->histories [job] && self->goes_on [job]) {
        roaring_bitmap_t *taken = s_gone (self, job);
        history_go_on (self->histories [job], taken, &self->random);
        roaring_bitmap_free (taken);
    }
    roaring_bitmap_free (data);
}

void
tier_join (tier_t *self, consumer_t *consumer)
{
    assert (self->magic == TIER_MAGIC);
    assert (self->job_count < SAMPLER_JOBS_MAX);
    assert (self->job_count == 0 || sampler_follows (self->sampler, consumer->sampler_job)
        == sampler_follows (self->sampler, self->consumers [0]->sampler_job));
    self->consumers [self->job_count++] = consumer;
    self->stops [consumer->sampler_job] = false;
    //  Of several nodes' parts chance alone decides what is this one's: no earlier job does.
    self->goes_on [consumer->sampler_job] = !sampler_has_parts (self->sampler, consumer->sampler_job)
        && sampler_remaining (self->sampler, consumer->sampler_job)
        < sampler_epoch_samples (self->sampler, consumer->sampler_job);
    s_quota_reset (&self->quota, consumer->sampler_job);
    s_share (self);
    s_mark_all (self);
    s_count_partial (self);
    s_remember (self, consumer->sampler_job);
    raw_pool_needs_grew (self->pool);
}

void
tier_leave (tier_t *self, const consumer_t *consumer)
{
    assert (self->magic == TIER_MAGIC);
    size_t place = 0;
    while (self->consumers [place] != consumer) {
        place++;
        assert (place < self->job_count);
    }
    s_unmark (self, consumer->sampler_job);
    history_destroy (&self->histories [consumer->sampler_job]);
    self->job_count--;
    memmove (&self->consumers [place], &self->consumers [place + 1],
        (self->job_count - place) * sizeof *self->consumers);
    s_quota_reset (&self->quota, consumer->sampler_job);
    s_share (self);
    s_mark_all (self);              //  a job that had no mark may get one now
    s_count_partial (self);
    raw_pool_sweep (self->pool);
}

void
tier_epoch_begin (tier_t *self, uint32_t sampler_job)
{
    assert (self->magic == TIER_MAGIC);
    if (self->has_mark [sampler_job] && strata_epoch_begun (self->strata, sampler_job))
        s_merge (self);
    if (self->histories [sampler_job])
        history_epoch_begin (self->histories [sampler_job]);
    if (self->histories [sampler_job] && sampler_has_parts (self->sampler, sampler_job))
        s_leave_out_others (self, sampler_job);
    if (self->goes_on [sampler_job]) {
        self->goes_on [sampler_job] = false;
        s_mark_all (self);          //  the samples taken before may have had no room for a mark
    }
    raw_pool_needs_grew (self->pool);
}

void
tier_goes_on (tier_t *self, uint32_t sampler_job, bool goes_on)
{
    assert (self->magic == TIER_MAGIC);
    bool stops = !goes_on;
    if (self->stops [sampler_job] == stops)
        return;
    self->stops [sampler_job] = stops;
    if (stops)
        raw_pool_sweep (self->pool);
    else
        raw_pool_needs_grew (self->pool);
}

void
tier_forget (tier_t *self, uint32_t id)
{
    assert (self->magic == TIER_MAGIC);
    if (self->strata)
        strata_drop (self->strata, id);
    for (size_t place = 0; place < self->job_count; place++)
        if (self->histories [self->consumers [place]->sampler_job])
            history_drop (self->histories [self->consumers [place]->sampler_job], id);
    raw_pool_drawn (self->pool, id);
    raw_pool_dropped (self->pool, id);
}

//  ---- draws

typedef struct {
    tier_t *tier;
    consumer_t *const *consumers;
    size_t count;
    uint32_t stratum;
    uint32_t id;                    //  the choice
} pick_t;

//  In the proposal's stratum, and not served by versions: proposals draw served ones often enough.
static bool
s_accepts (void *context, uint32_t id)
{
    const pick_t *pick = context;
    const tier_t *self = pick->tier;
    return sampler_accepts (self->sampler, id)
        && (!self->strata || strata_of (self->strata, id) == pick->stratum)
        && !version_index_serves (self->version_index, pick->consumers, pick->count, id);
}

//  Whether quotas allow the jobs to draw id, which is accepted.
static bool
s_suits (const pick_t *pick, uint32_t id)
{
    const tier_t *self = pick->tier;
    for (size_t index = 0; index < pick->count; index++) {
        const history_t *history = self->histories [pick->consumers [index]->sampler_job];
        if (history && history_needs (history, id) && !history_allows_easily (history, id))
            return false;
    }
    return sampler_suits (self->sampler, id);
}

//  True: id is the choice.
static bool
s_consider (pick_t *pick, uint32_t id)
{
    if (!s_accepts (pick, id) || !s_suits (pick, id))
        return false;
    pick->id = id;
    return true;
}

//  Uniform over the samples that are resident, accepted and allowed.  A random resident that passes is
//  uniform over them, and so is a random sample that may be drawn and is resident.  The second helps when the
//  first fails: at an epoch's end few residents may be drawn, but nearly all samples that may be drawn are
//  resident.
static void
s_try_residents (pick_t *pick)
{
    tier_t *self = pick->tier;
    uint32_t residents = raw_pool_resident_count (self->pool);
    for (int tries = 0; residents > 0 && tries < TRIES; tries++) {
        if (s_consider (pick, raw_pool_resident_at (self->pool,
            (uint32_t) random_below (&self->random, residents))))
            return;
        uint32_t id = sampler_try (self->sampler);
        if (raw_pool_is_resident (self->pool, id) && s_consider (pick, id))
            return;
    }
}

//  When tries find none and the residents are few.
static void
s_scan_residents (pick_t *pick)
{
    tier_t *self = pick->tier;
    uint32_t residents = raw_pool_resident_count (self->pool);
    uint64_t found = 0;
    for (uint32_t index = 0; residents <= SCAN_MAX && index < residents; index++) {
        uint32_t id = raw_pool_resident_at (self->pool, index);
        if (s_accepts (pick, id) && s_suits (pick, id) && random_below (&self->random, ++found) == 0)
            pick->id = id;
    }
}

static void
s_try_passed (pick_t *pick)
{
    tier_t *self = pick->tier;
    for (int tries = 0; tries < TRIES; tries++) {
        uint32_t id = sampler_try (self->sampler);
        if (raw_pool_was_passed (self->pool, id) && s_consider (pick, id))
            return;
    }
}

//  The choice in place of the proposal, which no version serves.
static uint32_t
s_redirect (pick_t *pick, uint32_t proposal)
{
    tier_t *self = pick->tier;
    if (self->policy == RAW_REDOX)
        return raw_pool_redirect (self->pool, proposal, s_accepts, pick);
    if (raw_pool_is_resident (self->pool, proposal) && s_suits (pick, proposal))
        return proposal;
    s_try_residents (pick);
    if (pick->id == NO_ID)
        s_scan_residents (pick);
    if (pick->id == NO_ID)
        s_try_passed (pick);
    return pick->id != NO_ID? pick->id: proposal;
}

static void
s_note_draw (tier_t *self, consumer_t *const *consumers, size_t count)
{
    self->drawing_count = count;
    for (size_t index = 0; index < count; index++) {
        self->drawing [index] = consumers [index]->sampler_job;
        if (self->histories [self->drawing [index]])
            history_settle (self->histories [self->drawing [index]]);
    }
}

//  The sampler has committed the noted draw.
static void
s_settle_draw (tier_t *self, uint32_t id)
{
    for (size_t index = 0; index < self->drawing_count; index++) {
        history_t *history = self->histories [self->drawing [index]];
        if (history && history_needs (history, id))
            history_draw (history, id);
        s_quota_drew (&self->quota, self->drawing [index]);
    }
    self->drawing_count = 0;
}

//  Direct reads are never redirected.  Other reads are not redirected while the strata do not know some job's
//  data: other jobs' draws would reveal these data.  Redox reads are not redirected while a job lacks some
//  samples: redox loads the fullest chunk, so chunks with more of the job's data would come earlier in every
//  epoch (z = 88 in 400 epochs of one pack).
static bool
s_redirects (const tier_t *self)
{
    switch (self->policy) {
    case RAW_STREAM:
        return self->unknown == 0;
    case RAW_REDOX:
        return self->unknown == 0 && self->partial == 0;
    case RAW_DIRECT:
        break;
    }
    return false;
}

uint32_t
tier_pick (tier_t *self, consumer_t *const *consumers, size_t count)
{
    assert (self->magic == TIER_MAGIC);
    assert (count > 0);
    s_notice_merges (self);
    s_note_draw (self, consumers, count);
    uint32_t id = sampler_pick (self->sampler);
    if (!s_redirects (self) || version_index_serves (self->version_index, consumers, count, id))
        return id;
    pick_t pick = {
        .tier = self, .consumers = consumers, .count = count, .id = NO_ID,
        .stratum = self->strata? strata_of (self->strata, id): 0
    };
    return s_redirect (&pick, id);
}

tier_taken_t
tier_take (tier_t *self, uint32_t id)
{
    assert (self->magic == TIER_MAGIC);
    s_settle_draw (self, id);
    tier_taken_t taken = TIER_ABSENT;
    if (raw_pool_take (self->pool, id))
        taken = raw_pool_is_resident (self->pool, id)? TIER_STAYED: TIER_HANDED;
    s_apply_quota (self);
    return taken;
}

void
tier_drawn (tier_t *self, uint32_t id)
{
    assert (self->magic == TIER_MAGIC);
    s_settle_draw (self, id);
    raw_pool_drawn (self->pool, id);
    s_apply_quota (self);
}

bool
tier_next (tier_t *self, raw_read_t *read)
{
    assert (self->magic == TIER_MAGIC);
    s_notice_merges (self);
    return raw_pool_next (self->pool, read);
}

//  ---- checks

//  Each witness is counted.
static void
s_quota_check (const slow_job_quota_t *self)
{
    uint32_t seen [SAMPLER_JOBS_MAX] = { 0 };
    uint64_t drawn = 0;
    for (size_t index = 0; index < QUOTA_WITNESSES; index++)
        if (self->witnesses [index] != QUOTA_NOBODY)
            seen [self->witnesses [index]]++;
    for (size_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        assert (seen [job] == self->seen [job]);
        drawn += self->drawn [job];
    }
    assert (drawn == self->drawn_all);
}

static void
s_check_consumers (const tier_t *self)
{
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t job = self->consumers [place]->sampler_job;
        assert (!self->has_mark [job] || self->strata);
        assert (!sampler_follows (self->sampler, job) || !self->has_mark [job]);
        for (size_t other = 0; other < place; other++)
            assert (self->consumers [other] != self->consumers [place]);
    }
}

void
tier_check (const tier_t *self)
{
    assert (self->magic == TIER_MAGIC);
    assert (self->unknown <= self->job_count);
    assert (self->served <= self->bearable && self->bearable <= self->job_count);
    assert (self->served > 0 || self->job_count == 0);
    s_quota_check (&self->quota);
    s_check_consumers (self);
    raw_pool_check (self->pool);
}

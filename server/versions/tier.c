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
    NO_ID = 0xffffffff
};

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
    consumer_t *consumers [SAMPLER_JOBS_MAX];   //  in no order
    size_t job_count;
    consumer_t *by_number [SAMPLER_JOBS_MAX];
    //  stream, by job number: a bit for each sample that is open to the job, and how many of these it needs.
    uint64_t *open [SAMPLER_JOBS_MAX];
    uint64_t open_count [SAMPLER_JOBS_MAX];
    uint32_t drawn [SAMPLER_JOBS_MAX];          //  by job number: its recent draws
    uint64_t until_pace;            //  draws
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

//  ---- how fast jobs draw

//  Tells the pool how fast jobs draw, and halves what has been counted: so a job that stops counts less and
//  less.
static void
s_measure_pace (tier_t *self)
{
    uint32_t most = 1;
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t drawn = self->drawn [self->consumers [place]->sampler_job];
        most = drawn > most? drawn: most;
    }
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t job = self->consumers [place]->sampler_job;
        raw_pool_pace (self->pool, job, (double) self->drawn [job] / most);
        self->drawn [job] /= 2;
    }
}

static void
s_begin_pace (tier_t *self)
{
    self->until_pace = raw_pool_resident_count (self->pool) + self->job_count * TIER_PACE_DRAWS;
}

static void
s_note_pace (tier_t *self)
{
    if (--self->until_pace > 0)
        return;
    if (self->job_count > 1)
        s_measure_pace (self);
    s_begin_pace (self);
}

//  ---- the samples that jobs need, and that are open to them

static size_t
s_open_bytes (uint32_t samples)
{
    return ((size_t) samples + 63) / 64 * sizeof (uint64_t);
}

static raw_need_t
s_need_of (const tier_t *self, const consumer_t *consumer, uint32_t id)
{
    uint32_t job = consumer->sampler_job;
    bool now = sampler_needs (self->sampler, job, id);
    bool next = !self->stops [job] && sampler_needs_next (self->sampler, job, id);
    if (!now && !next)
        return RAW_UNNEEDED;
    bool has = version_index_has (consumer, id);
    //  A deterministic version serves the next epoch too.
    bool reads_next = next && !(has && !version_set_is_random (consumer->kind));
    return (now? has? RAW_SERVED: RAW_NEEDED: 0) | (reads_next? RAW_NEEDED_NEXT: 0);
}

static raw_need_t
s_need (void *context, uint32_t job, uint32_t id)
{
    const tier_t *self = context;
    raw_need_t need = RAW_UNNEEDED;
    if (job != RAW_ANY_JOB)
        return s_need_of (self, self->by_number [job], id);
    for (size_t place = 0; place < self->job_count && !(need & RAW_NEEDED); place++)
        need |= s_need_of (self, self->consumers [place], id);
    return need;
}

//  Only `stream` gates what its jobs may use.
static bool
s_is_open (const tier_t *self, uint32_t job, uint32_t id)
{
    const uint64_t *open = self->open [job];
    return open && open [id / 64] >> id % 64 & 1;
}

//  Opens or closes a sample, if the job needs it.  Idempotent.
static void
s_open (void *context, uint32_t job, uint32_t id, bool open)
{
    tier_t *self = context;
    const consumer_t *consumer = self->by_number [job];
    if (s_is_open (self, job, id) == open || (open && !sampler_needs (self->sampler, job, id)))
        return;
    version_index_claim (consumer, id, -1);
    self->open [job] [id / 64] ^= UINT64_C (1) << id % 64;
    self->open_count [job] += open? 1: (uint64_t) -1;
    version_index_claim (consumer, id, +1);
}

static void
s_close_all (tier_t *self, const consumer_t *consumer)
{
    uint32_t job = consumer->sampler_job;
    if (self->open_count [job] == 0)
        return;
    version_index_claim_all (consumer, -1);
    memset (self->open [job], 0, s_open_bytes (self->samples));
    self->open_count [job] = 0;
    version_index_claim_all (consumer, +1);
}

static uint64_t
s_unopened (void *context, uint32_t job)
{
    const tier_t *self = context;
    uint64_t remaining = sampler_remaining (self->sampler, job);
    assert (self->open_count [job] <= remaining);
    return remaining - self->open_count [job];
}

//  From now on samples are open to the consumer only if they are opened here.
static void
s_gate (tier_t *self, consumer_t *consumer)
{
    version_index_claim_all (consumer, -1);
    self->open_count [consumer->sampler_job] = 0;
    self->open [consumer->sampler_job] = xalloc_memory (calloc (1, s_open_bytes (self->samples)));
    consumer->open = self->open [consumer->sampler_job];
    version_index_claim_all (consumer, +1);
}

static void
s_ungate (tier_t *self, consumer_t *consumer)
{
    version_index_claim_all (consumer, -1);
    free (self->open [consumer->sampler_job]);
    self->open [consumer->sampler_job] = NULL;
    consumer->open = NULL;
    version_index_claim_all (consumer, +1);
}

static bool
s_goes_on (void *context, uint32_t job)
{
    return !((tier_t *) context)->stops [job];
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
    filled.open = s_open;
    filled.unopened = s_unopened;
    filled.goes_on = s_goes_on;
    filled.sample_bytes = s_sample_bytes;
    filled.context = self;
    filled.random_below = s_random_below;
    filled.random = &self->random;
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
tier_job_bytes (raw_policy_t policy, uint32_t samples, uint64_t residents, bool follows)
{
    return (policy == RAW_STREAM? s_open_bytes (samples) + (follows? 0: history_bytes (samples)): 0)
        + raw_pool_job_bytes (s_ops (policy), samples, residents);
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
    for (size_t place = 0; place < self->job_count && self->policy == RAW_STREAM; place++)
        s_ungate (self, self->consumers [place]);
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

typedef struct {
    const sampler_t *sampler;
    uint32_t job;
    bool only_gone;
    roaring_bitmap_t *ids;
} data_t;

static void
s_add (void *context, uint32_t id)
{
    const data_t *self = context;
    if (!self->only_gone || !sampler_needs (self->sampler, self->job, id))
        roaring_bitmap_add (self->ids, id);
}

//  The job's data, or of them what it will not draw any more in its present epoch; the caller frees it.
static roaring_bitmap_t *
s_data (const tier_t *self, uint32_t job, bool only_gone)
{
    data_t data = { self->sampler, job, only_gone, xalloc_memory (roaring_bitmap_create ()) };
    sampler_each (self->sampler, job, s_add, &data);
    return data.ids;
}

//  A resumed job refines the strata also by the samples that it has had: two such jobs may still need more of
//  some samples than of others (strata.h).
static bool
s_refine_gone (tier_t *self, uint32_t job)
{
    roaring_bitmap_t *gone = s_data (self, job, true);
    bool refined = roaring_bitmap_is_empty (gone) || sampler_remaining (self->sampler, job) == 0
        || strata_refine_taken (self->strata, job, gone);
    roaring_bitmap_free (gone);
    return refined;
}

static bool
s_refine (tier_t *self, uint32_t job)
{
    roaring_bitmap_t *data = s_data (self, job, false);
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

//  The resident and open samples would reveal which jobs' data a sample was in.
static void
s_restart (tier_t *self)
{
    for (size_t place = 0; place < self->job_count; place++)
        s_close_all (self, self->consumers [place]);
    raw_pool_restart (self->pool);
}

static void
s_merge (tier_t *self)
{
    strata_merge (self->strata);
    s_restart (self);
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
    s_restart (self);
}

//  ---- jobs that join and leave

//  Of a job over several nodes: what others draw in the epoch, of which it has drawn nothing here.
static void
s_leave_out_others (tier_t *self, uint32_t job)
{
    roaring_bitmap_t *gone = s_data (self, job, true);
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
    roaring_bitmap_t *data = s_data (self, job, false);
    if (!roaring_bitmap_is_empty (data))
        self->histories [job] = history_new (data, self->samples);
    if (self->histories [job] && sampler_has_parts (self->sampler, job))
        s_leave_out_others (self, job);
    else
    if (self->histories [job] && self->goes_on [job]) {
        roaring_bitmap_t *taken = s_data (self, job, true);
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
    self->consumers [self->job_count++] = self->by_number [consumer->sampler_job] = consumer;
    //  All count from now on, so that a newcomer does not look slow.
    memset (self->drawn, 0, sizeof self->drawn);
    s_begin_pace (self);
    self->stops [consumer->sampler_job] = false;
    //  Of several nodes' parts chance alone decides what is this one's: no earlier job does.
    self->goes_on [consumer->sampler_job] = !sampler_has_parts (self->sampler, consumer->sampler_job)
        && sampler_remaining (self->sampler, consumer->sampler_job)
        < sampler_epoch_samples (self->sampler, consumer->sampler_job);
    s_mark_all (self);
    s_count_partial (self);
    s_remember (self, consumer->sampler_job);
    if (self->policy == RAW_STREAM)
        s_gate (self, consumer);
    raw_pool_join (self->pool, consumer->sampler_job);
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
    if (self->policy == RAW_STREAM)
        s_ungate (self, self->consumers [place]);
    raw_pool_leave (self->pool, consumer->sampler_job);
    self->by_number [consumer->sampler_job] = NULL;
    history_destroy (&self->histories [consumer->sampler_job]);
    self->job_count--;
    memmove (&self->consumers [place], &self->consumers [place + 1],
        (self->job_count - place) * sizeof *self->consumers);
    s_mark_all (self);              //  a job that had no mark may get one now
    s_count_partial (self);
    //  The speed of a job alone is not measured: what it once was must not count beside a newcomer.
    if (self->job_count == 1)
        raw_pool_pace (self->pool, self->consumers [0]->sampler_job, 1);
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
    s_close_all (self, self->by_number [sampler_job]);
    raw_pool_epoch_begin (self->pool, sampler_job);
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
    for (size_t place = 0; place < self->job_count; place++) {
        consumer_t *consumer = self->consumers [place];
        if (self->histories [consumer->sampler_job])
            history_drop (self->histories [consumer->sampler_job], id);
        if (self->policy == RAW_STREAM)
            s_open (self, consumer->sampler_job, id, false);
    }
    raw_pool_drawn (self->pool, id);
    raw_pool_dropped (self->pool, id);
}

//  ---- draws

typedef struct {
    tier_t *tier;
    consumer_t *const *consumers;
    size_t count;
    uint32_t stratum;
    bool from_supply;                //  only from the jobs' supplies; else from all residents
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

//  Whether the choice may be made among samples like this: in the supply of each job, or resident.
static bool
s_is_candidate (const pick_t *pick, uint32_t id)
{
    const raw_pool_t *pool = pick->tier->pool;
    if (!pick->from_supply)
        return raw_pool_is_resident (pool, id);
    for (size_t index = 0; index < pick->count; index++)
        if (!raw_pool_is_in_supply (pool, pick->consumers [index]->sampler_job, id))
            return false;
    return true;
}

//  True: id is the choice.
static bool
s_consider (pick_t *pick, uint32_t id)
{
    if (!s_is_candidate (pick, id) || !s_accepts (pick, id) || !s_suits (pick, id))
        return false;
    pick->id = id;
    return true;
}

//  Of a superset of the candidates.
static uint32_t
s_candidates (const pick_t *pick)
{
    const raw_pool_t *pool = pick->tier->pool;
    return pick->from_supply? raw_pool_supply_count (pool, pick->consumers [0]->sampler_job):
        raw_pool_resident_count (pool);
}

static uint32_t
s_candidate (const pick_t *pick, uint32_t index)
{
    const raw_pool_t *pool = pick->tier->pool;
    return pick->from_supply? raw_pool_supply_at (pool, pick->consumers [0]->sampler_job, index):
        raw_pool_resident_at (pool, index);
}

//  Uniform over the candidates that are accepted and allowed.  A random candidate that passes is uniform over
//  them, and so is a random sample that may be drawn and is a candidate.  The second helps when the first
//  fails: at an epoch's end few residents may be drawn, but nearly all samples that may be drawn are
//  resident.
static void
s_try (pick_t *pick)
{
    tier_t *self = pick->tier;
    uint32_t count = s_candidates (pick);
    for (int tries = 0; count > 0 && tries < TRIES; tries++)
        if (s_consider (pick, s_candidate (pick, (uint32_t) random_below (&self->random, count)))
                || s_consider (pick, sampler_try (self->sampler)))
            return;
}

//  When tries find none and the candidates are few.
static void
s_scan (pick_t *pick)
{
    tier_t *self = pick->tier;
    uint32_t count = s_candidates (pick), chosen = NO_ID;
    uint64_t found = 0;
    for (uint32_t index = 0; count <= SCAN_MAX && index < count; index++)
        if (s_consider (pick, s_candidate (pick, index)) && random_below (&self->random, ++found) == 0)
            chosen = pick->id;
    pick->id = chosen;
}

//  The choice in place of the proposal, which no version serves.
static uint32_t
s_redirect (pick_t *pick, uint32_t proposal)
{
    tier_t *self = pick->tier;
    if (self->policy == RAW_REDOX)
        return raw_pool_redirect (self->pool, proposal, s_accepts, pick);
    pick->from_supply = true;
    if (s_is_candidate (pick, proposal) && s_suits (pick, proposal))
        return proposal;
    for (int which = 0; which < 2 && pick->id == NO_ID; which++) {
        pick->from_supply = which == 0;
        s_try (pick);
        if (pick->id == NO_ID)
            s_scan (pick);
    }
    uint32_t id = pick->id != NO_ID? pick->id: proposal;
    //  After a single read every job may use the version.
    for (size_t place = 0; place < self->job_count && !raw_pool_is_resident (self->pool, id); place++)
        s_open (self, self->consumers [place]->sampler_job, id, true);
    return id;
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
        if (self->policy == RAW_STREAM)
            s_open (self, self->drawing [index], id, false);
        self->drawn [self->drawing [index]]++;
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

//  What one tenant takes does not stay in memory for another: it would be in the way of what the first one
//  needs (a fast job beside another tenant's slow one, memory for 200 samples: 5,280 samples in place of
//  8,700).  A job that a version serves needs no memory: the sample stays open to it.
static void
s_take_from_tenants (tier_t *self, uint32_t id)
{
    uint32_t tenant = self->by_number [self->drawing [0]]->tenant;
    for (size_t place = 0; place < self->job_count; place++) {
        const consumer_t *consumer = self->consumers [place];
        uint32_t job = consumer->sampler_job;
        if (consumer->tenant == tenant)
            continue;
        bool stays_open = s_is_open (self, job, id) && version_index_has (consumer, id);
        raw_pool_give_back (self->pool, job, id);
        if (stays_open)
            s_open (self, job, id, true);
    }
}

tier_taken_t
tier_take (tier_t *self, uint32_t id)
{
    assert (self->magic == TIER_MAGIC);
    if (self->drawing_count > 0)
        s_take_from_tenants (self, id);
    s_settle_draw (self, id);
    tier_taken_t taken = TIER_ABSENT;
    if (raw_pool_take (self->pool, id))
        taken = raw_pool_is_resident (self->pool, id)? TIER_STAYED: TIER_HANDED;
    s_note_pace (self);
    raw_pool_share_out (self->pool);
    return taken;
}

void
tier_drawn (tier_t *self, uint32_t id)
{
    assert (self->magic == TIER_MAGIC);
    s_settle_draw (self, id);
    raw_pool_drawn (self->pool, id);
    s_note_pace (self);
    raw_pool_share_out (self->pool);
}

bool
tier_next (tier_t *self, raw_read_t *read)
{
    assert (self->magic == TIER_MAGIC);
    s_notice_merges (self);
    //  Until a draw that is under way is told to the pool, its sample still counts as open.
    if (self->policy == RAW_STREAM && self->drawing_count > 0)
        return false;
    return raw_pool_next (self->pool, read);
}

//  ---- checks

static void
s_check_consumers (const tier_t *self)
{
    for (size_t place = 0; place < self->job_count; place++) {
        uint32_t job = self->consumers [place]->sampler_job;
        assert (!self->has_mark [job] || self->strata);
        assert (self->by_number [job] == self->consumers [place]);
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
    s_check_consumers (self);
    raw_pool_check (self->pool);
}

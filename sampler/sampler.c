#include "sampler.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "demand.h"
#include "dsa.h"
#include "follow.h"
#include "random.h"
#include "sampler_passes.h"
#include "sharing_tree.h"
#include "xalloc.h"

enum { SAMPLER_MAGIC = 0x3a9b51e7 };

//  IDLE --round_begin--> OPEN --offer--> OFFERED --commit--> OPEN --offer: false--> IDLE
typedef enum { ROUND_IDLE, ROUND_OPEN, ROUND_OFFERED } round_state_t;

//  A set of job numbers.
typedef struct { uint64_t words [SAMPLER_JOBS_MAX / 64]; } jobset_t;
_Static_assert (SAMPLER_JOBS_MAX % 64 == 0, "whole words");

typedef struct {
    round_state_t state;
    //  A round of SHARED jobs under `dsa` is dsa's; in all others the jobs draw one after the other.
    bool dependent;
    uint32_t jobs [SAMPLER_JOBS_MAX];
    size_t job_count, next;
    demand_t *drawing;              //  the one that an offer is for, if not dependent
} round_t;

struct sampler {
    uint32_t magic;
    //  Set at birth.
    uint32_t sample_count;
    sampler_policy_t policy;
    //  Changed by joins, leaves and drops.
    demand_t *demands [SAMPLER_JOBS_MAX];       //  by job number; NULL: free
    jobset_t disjoint [SAMPLER_JOBS_MAX];       //  [a] has b, a > b: their data are known not to overlap
    size_t group_count;
    size_t group_of [SAMPLER_JOBS_MAX];         //  of each job
    size_t group_first [SAMPLER_JOBS_MAX + 1];  //  of group g: members [[g] .. [g + 1])
    uint32_t members [SAMPLER_JOBS_MAX];
    roaring_bitmap_t *readable;                 //  what has not been dropped; never run-compressed
    roaring_bitmap_t *dropped;                  //  the rest
    //  Changed by rounds.
    random_t random;
    random_t past;                              //  invents when resumed jobs drew their samples, if that is
                                                //  unknown
    dsa_t *dsa;                                 //  one of them, by policy; the other is NULL
    follow_t *follow;
    void (*merging) (void *context, sampler_t *sampler);
    void *merging_context;
    round_t round;
};

//  CRoaring 0.2.66 overruns the heap where it undoes a short run at the end of a container (demand.c).  These
//  runs begin at a container's first id: one that ends a container fills it, and becomes a bitset.
static roaring_bitmap_t *
s_all_ids (uint32_t sample_count)
{
    roaring_bitmap_t *ids = roaring_bitmap_from_range (0, sample_count, 1);
    assert (ids);
    roaring_bitmap_remove_run_compression (ids);
    return ids;
}

sampler_t *
sampler_new (uint32_t sample_count, sampler_policy_t policy, uint64_t seed)
{
    assert (sample_count > 0);
    sampler_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = SAMPLER_MAGIC;
    self->sample_count = sample_count;
    self->policy = policy;
    self->random = random_from_seed (seed);
    self->past = random_from_seed (~seed);
    self->readable = s_all_ids (sample_count);
    self->dropped = xalloc_jobs (roaring_bitmap_create ());
    if (policy == SAMPLER_POLICY_DSA)
        self->dsa = dsa_new (sample_count, self->demands, random_next (&self->past));
    else
        self->follow = follow_new (sample_count, self->demands, policy == SAMPLER_POLICY_FOLLOW,
            random_mix (seed + 1));
    return self;
}

void
sampler_destroy (sampler_t **self_p)
{
    sampler_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == SAMPLER_MAGIC);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        demand_destroy (&self->demands [job]);
    dsa_destroy (&self->dsa);
    follow_destroy (&self->follow);
    if (self->readable)
        roaring_bitmap_free (self->readable);
    if (self->dropped)
        roaring_bitmap_free (self->dropped);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  Whether the data of two SHARED jobs overlap and they draw together.
static bool
s_overlap (const sampler_t *self, uint32_t a, uint32_t b)
{
    return self->follow? follow_overlap (self->follow, a, b):
        roaring_bitmap_intersect (demand_data (self->demands [a]), demand_data (self->demands [b]));
}

//  Whether a and b, a > b, belong together directly.  A job's data only shrink while it is there, so a pair
//  once found disjoint is never compared again.
static bool
s_is_pair (sampler_t *self, uint32_t a, uint32_t b)
{
    if (self->disjoint [a].words [b / 64] >> (b % 64) & 1)
        return false;
    bool overlap = demand_order (self->demands [a]) == SAMPLER_ORDER_SHARED
        && demand_order (self->demands [b]) == SAMPLER_ORDER_SHARED && s_overlap (self, a, b);
    if (!overlap)
        self->disjoint [a].words [b / 64] |= UINT64_C (1) << b % 64;
    return overlap;
}

//  Labels every job with the smallest job number of its component.
static void
s_label (sampler_t *self, uint32_t *labels)
{
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        labels [job] = job;
        for (uint32_t other = 0; self->demands [job] && other < job; other++) {
            if (!self->demands [other] || labels [other] == labels [job] || !s_is_pair (self, job, other))
                continue;
            uint32_t low = labels [other] < labels [job]? labels [other]: labels [job];
            uint32_t high = labels [other] < labels [job]? labels [job]: labels [other];
            for (uint32_t each = 0; each <= job; each++)
                if (labels [each] == high)
                    labels [each] = low;
        }
    }
}

//  Finds the groups anew: the connected components of overlapping data.
static void
s_regroup (sampler_t *self)
{
    uint32_t labels [SAMPLER_JOBS_MAX];
    s_label (self, labels);
    self->group_count = 0;
    size_t filled = 0;
    for (uint32_t root = 0; root < SAMPLER_JOBS_MAX; root++) {
        if (!self->demands [root] || labels [root] != root)
            continue;
        self->group_first [self->group_count] = filled;
        for (uint32_t job = root; job < SAMPLER_JOBS_MAX; job++)
            if (self->demands [job] && labels [job] == root) {
                self->group_of [job] = self->group_count;
                self->members [filled++] = job;
            }
        self->group_count++;
    }
    self->group_first [self->group_count] = filled;
    if (self->dsa)
        dsa_regroup (self->dsa, self->group_of);
}

static demand_t *
s_demand (const sampler_t *self, uint32_t job)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (job < SAMPLER_JOBS_MAX);
    assert (self->demands [job]);
    return self->demands [job];
}

//  ------------------------------------------------------------------------------------------------
//  Jobs

static void
s_follow (sampler_t *self, uint32_t job, const sampler_join_t *join)
{
    roaring_bitmap_t *data = roaring_bitmap_and (join->data, self->readable);
    roaring_bitmap_t *taken = join->taken? roaring_bitmap_and (join->taken, self->readable): NULL;
    assert (data && (taken || !join->taken));
    follow_join (self->follow, job, data, taken, join->epoch > 0 || taken);
    roaring_bitmap_free (data);
    if (taken)
        roaring_bitmap_free (taken);
}

uint32_t
sampler_join (sampler_t *self, const sampler_join_t *join)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_IDLE);
    uint32_t job = 0;
    while (job < SAMPLER_JOBS_MAX && self->demands [job])
        job++;
    if (job == SAMPLER_JOBS_MAX)
        return SAMPLER_JOB_NONE;
    bool shares = join->order == SAMPLER_ORDER_SHARED;
    bool follows = shares && self->follow && roaring_bitmap_intersect (join->data, self->readable);
    self->demands [job] = demand_new (join, self->readable, self->sample_count, follows, &self->past);
    if (follows)
        s_follow (self, job, join);
    if (self->dsa)
        dsa_join (self->dsa, job);
    s_regroup (self);
    return job;
}

void
sampler_leave (sampler_t *self, uint32_t job)
{
    demand_t *demand = s_demand (self, job);
    assert (self->round.state == ROUND_IDLE);
    if (self->dsa)
        dsa_leave (self->dsa, job);
    else
        follow_leave (self->follow, job);
    //  Another job will get its number.
    self->disjoint [job] = (jobset_t) { { 0 } };
    for (uint32_t other = job + 1; other < SAMPLER_JOBS_MAX; other++)
        self->disjoint [other].words [job / 64] &= ~(UINT64_C (1) << job % 64);
    demand_destroy (&demand);
    self->demands [job] = NULL;
    s_regroup (self);
}

uint64_t
sampler_remaining (const sampler_t *self, uint32_t job)
{
    return demand_remaining_count (s_demand (self, job));
}

uint64_t
sampler_epoch_samples (const sampler_t *self, uint32_t job)
{
    return demand_epoch_count (s_demand (self, job));
}

bool
sampler_needs (const sampler_t *self, uint32_t job, uint32_t id)
{
    return demand_needs (s_demand (self, job), id);
}

bool
sampler_needs_next (const sampler_t *self, uint32_t job, uint32_t id)
{
    return demand_needs_next (s_demand (self, job), id);
}

bool
sampler_has_parts (const sampler_t *self, uint32_t job)
{
    return demand_has_parts (s_demand (self, job));
}

bool
sampler_has (const sampler_t *self, uint32_t job, uint32_t id)
{
    return demand_has (s_demand (self, job), id);
}

void
sampler_each (const sampler_t *self, uint32_t job, void (*visit) (void *context, uint32_t id), void *context)
{
    const demand_t *demand = s_demand (self, job);
    if (demand_history (demand)) {
        history_each (demand_history (demand), visit, context);
        return;
    }
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (demand_data (demand), &ids); ids.has_value;
        roaring_advance_uint32_iterator (&ids))
        visit (context, ids.current_value);
}

bool
sampler_entered (sampler_t *self, uint32_t job, stream_piece_t *piece)
{
    return demand_entered (s_demand (self, job), piece);
}

void
sampler_epoch_begin (sampler_t *self, uint32_t job)
{
    demand_t *demand = s_demand (self, job);
    assert (self->round.state == ROUND_IDLE);
    demand_epoch_begin (demand);
    if (self->dsa)
        dsa_epoch_begin (self->dsa, job);
    else
        follow_epoch_begin (self->follow, job);
}

//  ------------------------------------------------------------------------------------------------
//  Drops and groups

void
sampler_drop (sampler_t *self, uint32_t id)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_IDLE);
    assert (id < self->sample_count);
    if (!roaring_bitmap_remove_checked (self->readable, id))
        return;
    roaring_bitmap_add (self->dropped, id);
    if (self->dsa)
        dsa_drop (self->dsa, id);
    else
        follow_drop (self->follow, id);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (self->demands [job])
            demand_drop (self->demands [job], id);
}

const roaring_bitmap_t *
sampler_dropped (const sampler_t *self)
{
    assert (self->magic == SAMPLER_MAGIC);
    return self->dropped;
}

size_t
sampler_group_count (const sampler_t *self)
{
    assert (self->magic == SAMPLER_MAGIC);
    return self->group_count;
}

const uint32_t *
sampler_group (const sampler_t *self, size_t group, size_t *count_p)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (group < self->group_count);
    *count_p = self->group_first [group + 1] - self->group_first [group];
    return self->members + self->group_first [group];
}

sharing_tree_t *
sharing_tree_of (const sampler_t *self, const uint32_t *jobs, size_t count, bool is_group, uint64_t ids_max)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_IDLE);
    for (size_t index = 0; index < count; index++) {
        assert (demand_order (s_demand (self, jobs [index])) == SAMPLER_ORDER_SHARED);
        assert (!is_group || self->group_of [jobs [index]] == self->group_of [jobs [0]]);
    }
    assert (!is_group || self->group_first [self->group_of [jobs [0]] + 1]
        - self->group_first [self->group_of [jobs [0]]] == count);
    const tree_t *kept = self->dsa && is_group? dsa_tree (self->dsa, jobs [0]): NULL;
    return sharing_tree_new (self->demands, self->sample_count, kept, jobs, count, ids_max);
}

//  ------------------------------------------------------------------------------------------------
//  Rounds

void
sampler_round_begin (sampler_t *self, const uint32_t *jobs, size_t count)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_IDLE);
    assert (count > 0);
    demand_t *first = s_demand (self, jobs [0]);
    self->round = (round_t) { .state = ROUND_OPEN };
    for (size_t place = 0; place < count; place++) {
        assert (demand_remaining_count (s_demand (self, jobs [place])) > 0);
        assert (self->group_of [jobs [place]] == self->group_of [jobs [0]]);
    }
    self->round.dependent = self->dsa && demand_order (first) == SAMPLER_ORDER_SHARED;
    if (self->round.dependent) {
        dsa_begin (self->dsa, jobs, count);
        return;
    }
    memcpy (self->round.jobs, jobs, count * sizeof *jobs);
    self->round.job_count = count;
}

//  A job that draws by itself: what its list or seed says, or of all that remains to it what it follows, or
//  any.
static bool
s_offer_next (sampler_t *self, sampler_offer_t *offer)
{
    round_t *round = &self->round;
    if (round->next == round->job_count)
        return false;
    offer->jobs = &round->jobs [round->next++];
    offer->job_count = 1;
    round->drawing = self->demands [*offer->jobs];
    if (demand_history (round->drawing))
        follow_begin (self->follow, *offer->jobs, &self->random);
    return true;
}

bool
sampler_offer (sampler_t *self, sampler_offer_t *offer)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_OPEN);
    round_t *round = &self->round;
    bool more = round->dependent?
        dsa_offer (self->dsa, &self->random, &offer->jobs, &offer->job_count):
        s_offer_next (self, offer);
    round->state = more? ROUND_OFFERED: ROUND_IDLE;
    return more;
}

//  Of all that remains to the job that draws by itself.
static uint32_t
s_pick_of_all (sampler_t *self)
{
    const demand_t *demand = self->round.drawing;
    return random_pick (&self->random, demand_remaining (demand), demand_remaining_count (demand),
        self->sample_count);
}

uint32_t
sampler_pick (sampler_t *self)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_OFFERED);
    const round_t *round = &self->round;
    if (round->dependent)
        return dsa_pick (self->dsa, &self->random);
    if (demand_history (round->drawing))
        return follow_pick (self->follow, &self->random);
    return demand_is_given (round->drawing)? demand_next (round->drawing): s_pick_of_all (self);
}

bool
sampler_accepts (const sampler_t *self, uint32_t id)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_OFFERED);
    const round_t *round = &self->round;
    if (round->dependent)
        return dsa_accepts (self->dsa, id);
    if (demand_history (round->drawing))
        return follow_accepts (self->follow, id);
    return demand_is_given (round->drawing)? id == demand_next (round->drawing):
        demand_needs (round->drawing, id);
}

bool
sampler_suits (const sampler_t *self, uint32_t id)
{
    const round_t *round = &self->round;
    return sampler_accepts (self, id)
        && (round->dependent || !demand_history (round->drawing) || follow_suits (self->follow, id));
}

uint32_t
sampler_try (sampler_t *self)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_OFFERED);
    const round_t *round = &self->round;
    if (round->dependent)
        return dsa_pick (self->dsa, &self->random);
    if (demand_history (round->drawing))
        return history_propose (demand_history (round->drawing), &self->random);
    assert (!demand_is_given (round->drawing));
    return s_pick_of_all (self);
}

static void
s_draw_alone (sampler_t *self, uint32_t id)
{
    const round_t *round = &self->round;
    demand_draw (round->drawing, id);
    if (demand_history (round->drawing))
        follow_draw (self->follow, round->jobs [round->next - 1], id);
}

void
sampler_commit (sampler_t *self, uint32_t id)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state == ROUND_OFFERED);
    if (self->round.dependent)
        dsa_commit (self->dsa, id);
    else
        s_draw_alone (self, id);
    self->round.state = ROUND_OPEN;
}

uint32_t
sampler_occurrence (const sampler_t *self, uint32_t job)
{
    return demand_occurrence (s_demand (self, job));
}

//  ------------------------------------------------------------------------------------------------
//  The reusable set

bool
sampler_follows (const sampler_t *self, uint32_t job)
{
    assert (s_demand (self, job));
    return self->follow && follow_has (self->follow, job);
}

bool
sampler_passes_has (const sampler_t *self, uint32_t job)
{
    assert (s_demand (self, job));
    return self->follow && passes_has (follow_passes (self->follow), job);
}

void
sampler_passes_allow (sampler_t *self, bool may)
{
    if (self->follow)
        follow_may_turn (self->follow, may);
}

uint64_t
sampler_passes_place (const sampler_t *self, uint32_t job)
{
    return sampler_passes_has (self, job)? passes_place (follow_passes (self->follow), job): PASSES_NO_PLACE;
}

bool
sampler_passes_comes (const sampler_t *self, uint32_t job, uint32_t id, uint64_t place)
{
    return sampler_needs (self, job, id)
        && (!sampler_passes_has (self, job) || passes_comes (follow_passes (self->follow), job, place));
}

void
sampler_passes_on_skip (sampler_t *self, uint32_t job, void (*skip) (void *context, uint32_t id, int change),
    void *context)
{
    if (sampler_passes_has (self, job))
        passes_on_skip (follow_passes (self->follow), job, skip, context);
}

uint64_t
sampler_reusable_add (sampler_t *self, uint32_t id)
{
    assert (self->magic == SAMPLER_MAGIC);
    assert (self->round.state != ROUND_OFFERED);
    return self->follow? reusable_set_add (follow_reusable (self->follow), id): 0;
}

void
sampler_prefetch (const sampler_t *self, uint32_t id)
{
    if (self->follow)
        follow_prefetch (self->follow, id);
}

static void
s_merging (void *context)
{
    sampler_t *self = context;
    self->merging (self->merging_context, self);
}

void
sampler_on_merge (sampler_t *self, void (*merging) (void *context, sampler_t *sampler), void *context)
{
    assert (self->magic == SAMPLER_MAGIC);
    self->merging = merging;
    self->merging_context = context;
    if (self->follow)
        follow_on_merge (self->follow, s_merging, self);
}

uint64_t
sampler_merges (const sampler_t *self)
{
    assert (self->magic == SAMPLER_MAGIC);
    return self->follow? follow_merges (self->follow): 0;
}

void
sampler_lost (sampler_t *self)
{
    if (self->follow)
        follow_lost (self->follow);
}

void
sampler_reusable_remove (sampler_t *self, uint64_t ticket)
{
    assert (self->magic == SAMPLER_MAGIC);
    if (ticket)
        reusable_set_remove (follow_reusable (self->follow), ticket);
}

void
sampler_allow (sampler_t *self, uint64_t ticket, uint32_t job)
{
    assert (sampler_follows (self, job));
    if (ticket)
        reusable_set_allow (follow_reusable (self->follow), ticket, job);
}

void
sampler_forbid (sampler_t *self, uint64_t ticket, uint32_t job)
{
    assert (self->magic == SAMPLER_MAGIC);
    if (ticket)
        reusable_set_forbid (follow_reusable (self->follow), ticket, job);
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

//  SHARED jobs that overlap are in one group; the others are alone in theirs.
static void
s_check_groups (const sampler_t *self, uint32_t job)
{
    size_t count;
    sampler_group (self, self->group_of [job], &count);
    assert (count == 1 || demand_order (self->demands [job]) == SAMPLER_ORDER_SHARED);          //  S3
    for (uint32_t other = 0; other < job; other++)
        if (self->demands [other]
                && demand_order (self->demands [job]) == SAMPLER_ORDER_SHARED
                && demand_order (self->demands [other]) == SAMPLER_ORDER_SHARED
                && s_overlap (self, job, other))
            assert (self->group_of [job] == self->group_of [other]);                    //  S3
}

//  Every job is in one group, which is the one that it is said to be in.
static void
s_check_partition (const sampler_t *self)
{
    size_t job_count = 0;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        job_count += self->demands [job] != NULL;
    for (size_t group = 0; group < self->group_count; group++) {
        size_t count;
        const uint32_t *jobs = sampler_group (self, group, &count);
        assert (count > 0);
        for (size_t place = 0; place < count; place++) {
            assert (self->demands [jobs [place]]);
            assert (place == 0 || jobs [place - 1] < jobs [place]);
            assert (self->group_of [jobs [place]] == group);            //  S3
        }
        job_count -= count;
    }
    assert (job_count == 0);                                                    //  S3
}

void
sampler_check (const sampler_t *self)
{
    assert (self->magic == SAMPLER_MAGIC);
    s_check_partition (self);
    assert (!roaring_bitmap_intersect (self->dropped, self->readable));
    assert (roaring_bitmap_get_cardinality (self->readable) + sampler_dropped_count (self)
        == self->sample_count);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (self->demands [job]) {
            demand_check (self->demands [job], self->readable);                 //  S1, S2
            s_check_groups (self, job);
        }
    if (self->dsa)
        dsa_check (self->dsa);                                                  //  S4
    else
        follow_check (self->follow, self->readable);
}

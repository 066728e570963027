//  The version index beside a dumb model, which knows who has used what and whose they are, and computes
//  counts and the reusable set from scratch.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "seed.h"
#include "reusable_versions_log.h"
#include "version_index.h"

enum {
    SAMPLES = 24, SAMPLERS = 2, KINDS = 12, JOBS = 14, VERSION_BYTES = 10, BUDGET_VERSIONS = 60,
    VERSIONS_MAX = BUDGET_VERSIONS + JOBS, PINS_MAX = 200, LIST_MAX = 30, FIRST_NUMBER = 1000,
    TENANTS = 3, STEPS = 1000, SEEDS = 60
};

_Static_assert (JOBS <= 32, "who has used a version is 32 bits");

//  ---- the model

typedef struct {
    version_set_t *kind;                 //  NULL: none
    int sampler;
    bool is_random, is_apart;
    uint32_t draws [SAMPLES];           //  above all numbers that versions of the sample have had
} model_kind_t;

typedef struct {
    bool there;
    int sampler, kind;
    sampler_order_t order;
    consumer_t consumer;
    bool drawn [SAMPLES];               //  at some time
    bool lost [VERSION_INDEX_LOST_KINDS] [SAMPLES];     //  a version that could have served it
} model_job_t;

//  An indexed version.  Draw numbers tell random ones apart; of a deterministic sample there may be two, one
//  of them on the reusable set.
typedef struct {
    const version_t *version;
    uint32_t class, id, draw;
    const model_kind_t *kind;
    uint32_t users;                     //  bits of jobs
    uint32_t user_count;                //  those that are gone included
    bool shelved;                       //  a user followed, be it gone
    bool met;                           //  in the present walk over the index
    bool left;                          //  the index, in this step
    bool thinned;                       //  by the present draw
    uint32_t payer;                     //  then
    uint64_t sharers;
} model_version_t;

//  What the step may do to versions, beside evicting them.
typedef enum { STEP_OTHER, STEP_DRAWS, STEP_FORGETS } step_t;

typedef struct {
    uint64_t seed, random;
    version_index_t *version_index;
    sampler_t *samplers [SAMPLERS];
    model_kind_t kinds [KINDS];
    model_job_t jobs [JOBS];
    model_version_t versions [VERSIONS_MAX];
    size_t version_count;
    version_t *pins [PINS_MAX];
    size_t pin_count;
    uint32_t tenants;                   //  how many there are
    bool was_limited [TENANTS];         //  there was a time when it might not have as much as there is
    uint64_t served, scheduled;
    step_t step;
    uint64_t evictions;                 //  seen so far
    version_index_losses_t losses, tenant_losses [TENANTS];
} model_t;

static uint32_t
s_below (model_t *model, uint64_t bound)
{
    return (uint32_t) test_below (&model->random, bound);
}

static sampler_t *
s_sampler (const model_t *model, const model_job_t *job)
{
    return model->samplers [job->sampler];
}

static bool
s_follows (const model_t *model, const model_job_t *job)
{
    return sampler_follows (s_sampler (model, job), job->consumer.sampler_job);
}

static model_version_t *
s_known (model_t *model, const version_t *version)
{
    for (size_t index = 0; index < model->version_count; index++) {
        model_version_t *known = &model->versions [index];
        if (known->version == version && known->class == version->class && known->id == version->id
            && known->draw == version->draw)
            return known;
    }
    return NULL;
}

static bool
s_may_use (const model_t *model, const model_job_t *job, const model_version_t *version)
{
    return &model->kinds [job->kind] == version->kind
        && !(version->kind->is_random && version->users >> (job - model->jobs) & 1);
}

static bool
s_counts (const model_t *model, const model_job_t *job, const model_version_t *version)
{
    return job->there && s_may_use (model, job, version)
        && sampler_needs (s_sampler (model, job), job->consumer.sampler_job, version->id)
        && version->shelved == s_follows (model, job);
}

//  ---- checks

//  Tenants of which a job of the version's side has used it, and one may still.
static uint64_t
s_sharers (const model_t *model, const model_version_t *version)
{
    uint64_t used = 0, useful = 0;
    for (const model_job_t *job = model->jobs; job < model->jobs + JOBS; job++) {
        uint64_t tenant = UINT64_C (1) << job->consumer.tenant;
        if (!job->there || &model->kinds [job->kind] != version->kind
            || s_follows (model, job) != version->shelved)
            continue;
        used |= version->users >> (job - model->jobs) & 1? tenant: 0;
        useful |= s_may_use (model, job, version)
            && sampler_has (s_sampler (model, job), job->consumer.sampler_job, version->id)? tenant: 0;
    }
    return used & useful;
}

//  Who is said to share it: where there is one tenant, that.
static uint64_t
s_tenants_of (const model_t *model, const model_version_t *version)
{
    return model->tenants == 1? 1: s_sharers (model, version);
}

//  One of its sharers, unless those have had no room on their accounts; else somebody who has a job in the
//  kind, or nobody.
static void
s_check_payer (const model_t *model, const version_t *version, const model_version_t *known)
{
    if (model->tenants == 1) {
        assert_int_equal (version->account, 0);
        assert_int_equal (version->sharers, 1);
        return;
    }
    uint64_t sharers = s_sharers (model, known);
    bool is_there = version->account == PREPARED_NOBODY;
    assert_int_equal (version->sharers, sharers);
    if (version->account != PREPARED_NOBODY && sharers >> version->account & 1)
        return;
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        assert_true (model->was_limited [tenant] || !(sharers >> tenant & 1));
    for (const model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        is_there |= job->there && &model->kinds [job->kind] == known->kind
            && job->consumer.tenant == version->account;
    assert_true (is_there);
}

static void
s_check_indexed (void *context, version_t *version)
{
    model_t *model = context;
    model_version_t *known = s_known (model, version);
    assert_non_null (known);
    assert_false (known->met);
    known->met = true;
    uint32_t count = 0;
    uint64_t allowed [SAMPLER_JOBS_MAX / 64] = { 0 };
    for (const model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (s_counts (model, job, known)) {
            uint32_t number = job->consumer.sampler_job;
            allowed [number / 64] |= 1ull << number % 64;
            count++;
        }
    if (version->count != count)
        fail_msg ("seed %" PRIu64 ": version %u of sample %u counts %u, should %u", model->seed,
            version->draw, version->id, version->count, count);
    s_check_payer (model, version, known);
    assert_int_equal (version->ticket != 0, known->shelved);
    if (!known->shelved)
        return;
    const told_t *told = reusable_told (model->samplers [known->kind->sampler], version->ticket);
    assert_int_equal (told->id, version->id);
    assert_memory_equal (told->allowed, allowed, sizeof allowed);
}

//  ---- losses

//  For all jobs of this side that might have used it in this epoch, or, if it is not random, in any.
static void
s_note_loss (model_t *model, const model_version_t *version, bool shelved, uint64_t sharers)
{
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++) {
        if (!job->there || !s_may_use (model, job, version) || s_follows (model, job) != shelved)
            continue;
        const sampler_t *sampler = s_sampler (model, job);
        uint32_t number = job->consumer.sampler_job;
        bool (*matters) (const sampler_t *, uint32_t, uint32_t) = version->kind->is_random? sampler_needs:
            sampler_has;
        if (matters (sampler, number, version->id))
            job->lost [sharers >> job->consumer.tenant & 1? VERSION_INDEX_LOST_OWN:
                VERSION_INDEX_LOST_OTHERS] [version->id] = true;
    }
}

static void
s_note_drop (model_t *model, const model_version_t *version, uint32_t payer)
{
    if (version->user_count > 1)
        return;
    model->losses.dropped++;
    if (payer != PREPARED_NOBODY)
        model->tenant_losses [payer].dropped++;
}

//  Whether a job that it may count has it, and has not used it.
static bool
s_is_wanted (const model_t *model, const model_version_t *version)
{
    for (const model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there && s_may_use (model, job, version) && (!version->shelved || s_follows (model, job))
        &&  sampler_has (s_sampler (model, job), job->consumer.sampler_job, version->id))
            return true;
    return false;
}

//  A version has left the index.  One that the present draw has entered is not known yet.
static void
s_left (void *context, version_t *version)
{
    model_t *model = context;
    uint64_t evictions = prepared_evictions (version_index_prepared (model->version_index));
    bool evicted = evictions > model->evictions;
    model->evictions = evictions;
    if (evicted && version->account != PREPARED_NOBODY)
        model->tenant_losses [version->account].evictions++;
    model_version_t *known = s_known (model, version);
    if (!known)
        return;
    known->left = true;
    if (version->pins == 0)
        known->version = NULL;          //  its memory may be another's before the draw is over
    known->payer = version->account;
    known->sharers = version->sharers;
    if (evicted)
        s_note_loss (model, known, known->shelved, version->sharers);
    else
    if (model->step == STEP_DRAWS)
        known->thinned = true;
    else
    if (model->step == STEP_OTHER) {
        s_note_drop (model, known, version->account);
        s_note_loss (model, known, known->shelved, version->sharers);
    }
}

//  What the draw has thinned out, when it is known who has used what: a drop, unless all have.
static void
s_note_thinned (model_t *model)
{
    for (size_t index = 0; index < model->version_count; index++) {
        model_version_t *version = &model->versions [index];
        if (version->thinned && s_is_wanted (model, version)) {
            s_note_drop (model, version, version->payer);
            s_note_loss (model, version, version->shelved, version->sharers);
        }
        version->thinned = false;
    }
}

typedef struct {
    bool had [VERSION_INDEX_LOST_KINDS];
} had_t;

//  The job draws the sample: whatever was lost, it gets a version now.
static had_t
s_take_lost (model_job_t *job, uint32_t id)
{
    had_t had;
    for (int whose = 0; whose < VERSION_INDEX_LOST_KINDS; whose++) {
        had.had [whose] = job->lost [whose] [id];
        job->lost [whose] [id] = false;
    }
    return had;
}

static void
s_note_new (model_t *model, const model_job_t *job, had_t had)
{
    model->losses.again += had.had [VERSION_INDEX_LOST_OWN] || had.had [VERSION_INDEX_LOST_OTHERS];
    model->tenant_losses [job->consumer.tenant].again += had.had [VERSION_INDEX_LOST_OWN];
}

static void
s_check_losses (const model_t *model)
{
    version_index_losses_t all = version_index_losses (model->version_index);
    assert_int_equal (all.evictions, model->evictions);
    if (all.again != model->losses.again || all.dropped != model->losses.dropped)
        fail_msg ("seed %" PRIu64 ": %" PRIu64 " again, %" PRIu64 " dropped, should %" PRIu64 ", %" PRIu64,
            model->seed, all.again, all.dropped, model->losses.again, model->losses.dropped);
    for (uint32_t tenant = 0; tenant < model->tenants; tenant++) {
        version_index_losses_t own = version_index_tenant_losses (model->version_index, tenant);
        assert_int_equal (own.evictions, model->tenant_losses [tenant].evictions);
        assert_int_equal (own.again, model->tenant_losses [tenant].again);
        assert_int_equal (own.dropped, model->tenant_losses [tenant].dropped);
    }
}

//  ---- the index

//  At a merge what was on the reusable set is gone, if it was random, or is the others', and lost to those
//  that follow.
static void
s_take_merges (model_t *model)
{
    for (size_t merge = 0; merge < reusable_merges (); merge++)
        for (size_t index = 0; index < model->version_count; index++) {
            model_version_t *known = &model->versions [index];
            if (known->kind->is_random || model->samplers [known->kind->sampler] != reusable_merged (merge))
                continue;
            if (known->shelved && !known->left)
                s_note_loss (model, known, true, s_tenants_of (model, known));
            known->shelved = false;
        }
    reusable_merges_clear ();
}

//  What the walk over the index has not met has left it; nothing else is on the reusable set.
static void
s_check_index (model_t *model)
{
    bool merged = reusable_merges () > 0;
    const sampler_t *sampler = merged? reusable_merged (0): NULL;
    s_take_merges (model);
    size_t kept = 0, shelved = 0;
    prepared_each (version_index_prepared (model->version_index), s_check_indexed, model);
    for (size_t index = 0; index < model->version_count; index++)
        if (model->versions [index].met) {
            shelved += model->versions [index].shelved;
            model->versions [kept] = model->versions [index];
            model->versions [kept++].met = false;
        }
    model->version_count = kept;
    assert_int_equal (reusable_count (), shelved);
    for (size_t index = 0; merged && index < kept; index++)
        assert_false (model->versions [index].shelved
            && model->samplers [model->versions [index].kind->sampler] == sampler);
    for (size_t pin = 0; pin < model->pin_count; pin++)
        assert_true (model->pins [pin]->indexed || model->pins [pin]->ticket == 0);
}

//  A kind is there as long as it has a consumer, or a version, indexed or pinned; a random one that has no
//  consumer has nothing in the index.
static void
s_check_kinds (const model_t *model)
{
    for (int number = 0; number < KINDS; number++) {
        const model_kind_t *kind = &model->kinds [number];
        if (!kind->kind)
            continue;
        size_t consumers = 0, indexed = 0, pinned = 0;
        for (int job = 0; job < JOBS; job++)
            consumers += model->jobs [job].there && model->jobs [job].kind == number;
        for (size_t index = 0; index < model->version_count; index++)
            indexed += model->versions [index].kind == kind;
        for (size_t pin = 0; pin < model->pin_count; pin++)
            pinned += version_set_of (model->version_index, model->pins [pin]) == kind->kind;
        assert_true (consumers + indexed + pinned > 0);
        assert_true (consumers > 0 || !kind->is_random || indexed == 0);
    }
}

static void
s_check (model_t *model)
{
    version_index_check (model->version_index);
    s_check_index (model);
    s_check_kinds (model);
    s_check_losses (model);
    assert_int_equal (version_index_misses (model->version_index), model->scheduled);
    assert_int_equal (version_index_hits (model->version_index), model->served - model->scheduled);
}

//  ---- joining and leaving

static void
s_kind_ended (void *context, void *user)
{
    (void) context;
    model_kind_t *kind = user;
    assert_non_null (kind->kind);
    kind->kind = NULL;
}

//  One that is there or a new one; -1: no room for it.
static int
s_choose_kind (model_t *model, const model_job_t *job)
{
    bool is_random = s_below (model, 2), is_apart = is_random && job->order == SAMPLER_ORDER_SEEDED;
    bool share = !is_apart && s_below (model, 4) > 0;
    int number = -1;
    for (int candidate = 0; candidate < KINDS; candidate++) {
        const model_kind_t *kind = &model->kinds [candidate];
        if (!kind->kind)
            number = candidate;
        else
        if (share && !kind->is_apart && kind->sampler == job->sampler && kind->is_random == is_random)
            return candidate;
    }
    if (number >= 0) {
        model_kind_t *kind = &model->kinds [number];
        *kind = (model_kind_t) { .sampler = job->sampler, .is_random = is_random, .is_apart = is_apart };
        kind->kind = version_set_new (model->version_index, s_sampler (model, job), VERSION_BYTES, is_random,
            kind);
    }
    return number;
}

//  What the job goes on without: a set of the data, or so many places of its list.  Not all of it: then the
//  epoch would be over.
static roaring_bitmap_t *
s_choose_taken (model_t *model, sampler_join_t *join)
{
    roaring_bitmap_t *taken = roaring_bitmap_create ();
    for (uint32_t id = 0; id < SAMPLES && join->data; id++)
        if (s_below (model, 3) > 0 && roaring_bitmap_contains (join->data, id))
            roaring_bitmap_add (taken, id);
    if (s_below (model, 2) == 0)
        return taken;
    join->epoch = s_below (model, 5);
    if (join->list)
        join->taken_places = s_below (model, LIST_MAX);
    else
        join->taken = taken;
    return taken;
}

//  The sampler's side.  Data are ranges, often all; a list has repeats; some go on in an epoch that another
//  has begun.
static void
s_join_sampler (model_t *model, model_job_t *job)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED,
        SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED };
    job->order = orders [s_below (model, sizeof orders / sizeof *orders)];
    uint32_t from = s_below (model, 2)? 0: s_below (model, SAMPLES), list [LIST_MAX];
    uint32_t to = from == 0? SAMPLES: from + 1 + s_below (model, SAMPLES - from);
    bool listed = job->order == SAMPLER_ORDER_LIST && s_below (model, 2);
    for (size_t place = 0; place < LIST_MAX; place++)
        list [place] = s_below (model, SAMPLES);
    roaring_bitmap_t *data = listed? NULL: roaring_bitmap_from_range (from, to, 1);
    sampler_join_t join = { .order = job->order, .data = data, .seed = s_below (model, 3) };
    if (listed) {
        join.list = list;
        join.list_count = LIST_MAX;
    }
    roaring_bitmap_t *taken = s_choose_taken (model, &join);
    job->consumer.sampler_job = sampler_join (s_sampler (model, job), &join);
    roaring_bitmap_free (taken);
    if (data)
        roaring_bitmap_free (data);
}

static void
s_note_user (const model_t *model, const model_job_t *job, model_version_t *version)
{
    uint32_t bit = 1u << (job - model->jobs);
    version->user_count += !(version->users & bit);
    version->users |= bit;
}

//  What was taken of a random kind counts as used, on the job's side.
static void
s_note_taken (model_t *model, const model_job_t *job)
{
    const sampler_t *sampler = s_sampler (model, job);
    uint32_t number = job->consumer.sampler_job;
    for (size_t index = 0; index < model->version_count; index++) {
        model_version_t *version = &model->versions [index];
        if (version->kind == &model->kinds [job->kind] && version->kind->is_random
        &&  version->shelved == s_follows (model, job) && sampler_has (sampler, number, version->id)
        &&  !sampler_needs (sampler, number, version->id))
            s_note_user (model, job, version);
    }
}

static void
s_step_join (model_t *model, model_job_t *job)
{
    *job = (model_job_t) { .sampler = (int) s_below (model, SAMPLERS) };
    s_join_sampler (model, job);
    bool is_empty = sampler_epoch_samples (s_sampler (model, job), job->consumer.sampler_job) == 0;
    job->kind = is_empty? -1: s_choose_kind (model, job);
    if (job->kind < 0) {
        sampler_leave (s_sampler (model, job), job->consumer.sampler_job);
        return;
    }
    job->there = true;
    job->consumer.kind = model->kinds [job->kind].kind;
    job->consumer.numbers = model->kinds [job->kind].is_apart;
    job->consumer.number = FIRST_NUMBER;
    job->consumer.tenant = s_below (model, model->tenants);
    version_index_join (model->version_index, &job->consumer);
    s_note_taken (model, job);
}

static void
s_step_leave (model_t *model, model_job_t *job)
{
    for (size_t index = 0; index < model->version_count; index++)
        model->versions [index].users &= ~(1u << (job - model->jobs));
    version_index_leave (model->version_index, &job->consumer);
    sampler_leave (s_sampler (model, job), job->consumer.sampler_job);
    job->there = false;
}

//  ---- draws

//  Whether something in the index serves the job: what the other side (of those that follow or not) has
//  scheduled does only while the cache has room for more.
static bool
s_is_served (const model_t *model, const model_job_t *job, uint32_t id)
{
    bool has_room = prepared_has_room (version_index_prepared (model->version_index), job->consumer.tenant,
        VERSION_BYTES);
    for (size_t index = 0; index < model->version_count; index++) {
        const model_version_t *version = &model->versions [index];
        if (version->id == id && s_may_use (model, job, version)
                && (has_room || version->shelved == s_follows (model, job)))
            return true;
    }
    return false;
}

//  A random version that was not there before has a number of its own.
static void
s_check_number (const model_t *model, const model_job_t *job, model_kind_t *kind, const version_t *version)
{
    if (kind->is_apart)
        assert_int_equal (version->draw, job->consumer.number);
    else
    if (!kind->is_random)
        assert_int_equal (version->draw, 0);
    else {
        for (size_t pin = 0; pin < model->pin_count; pin++)
            if (model->pins [pin] == version)
                return;
        assert_true (version->draw >= kind->draws [version->id]);
        kind->draws [version->id] = version->draw + 1;
    }
}

//  Writes down that the job was served with this version; one that was evicted at once is nothing to the
//  model.
static void
s_note_use (model_t *model, model_job_t *job, uint32_t id, version_t *version)
{
    model_kind_t *kind = &model->kinds [job->kind];
    assert_int_equal (version->id, id);
    assert_true (version->pins > 0);
    assert_ptr_equal (version_set_of (model->version_index, version), kind->kind);
    job->drawn [id] = true;
    model->served++;
    model_version_t *known = s_known (model, version);
    if (!known)
        s_check_number (model, job, kind, version);
    assert_true (model->pin_count < PINS_MAX);
    model->pins [model->pin_count++] = version;
    if (!known && !version->indexed) {
        model_version_t gone = { .id = id, .kind = kind, .users = 1u << (job - model->jobs) };
        s_note_loss (model, &gone, s_follows (model, job), version->sharers);
        return;
    }
    if (known && !known->shelved && s_follows (model, job))
        s_note_loss (model, known, false, s_tenants_of (model, known));
    if (!known) {
        assert_true (model->version_count < VERSIONS_MAX);
        known = &model->versions [model->version_count++];
        *known = (model_version_t) {
            .version = version, .class = version->class, .id = id, .draw = version->draw, .kind = kind
        };
    }
    assert_true (s_may_use (model, job, known));
    s_note_user (model, job, known);
    known->shelved |= s_follows (model, job);
}

//  Some jobs of one group, which have something left.
static size_t
s_choose_jobs (model_t *model, sampler_t *sampler, uint32_t *jobs)
{
    size_t groups = sampler_group_count (sampler), members, count = 0;
    if (groups == 0)
        return 0;
    const uint32_t *group = sampler_group (sampler, s_below (model, groups), &members);
    for (size_t index = 0; index < members; index++)
        if (sampler_remaining (sampler, group [index]) > 0 && s_below (model, 3) > 0)
            jobs [count++] = group [index];
    return count;
}

static model_job_t *
s_job (model_t *model, int sampler, uint32_t number)
{
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there && job->sampler == sampler && job->consumer.sampler_job == number)
            return job;
    fail_msg ("an unknown job draws");
    return NULL;
}

//  What every job that it may count has used is gone, where the draw has looked.
static void
s_check_thinned (const model_t *model, const model_job_t *drawer, uint32_t id)
{
    for (size_t index = 0; index < model->version_count; index++) {
        const model_version_t *version = &model->versions [index];
        if (version->id != id || version->kind != &model->kinds [drawer->kind] || !version->kind->is_random
        ||  version->shelved != s_follows (model, drawer))
            continue;
        assert_true (s_is_wanted (model, version));
    }
}

//  Whether it was scheduled for this one of the draw.
static bool
s_is_fresh (model_t *model, version_t *const *versions, size_t which)
{
    for (size_t index = 0; index < which; index++)
        if (versions [index] == versions [which])
            return false;
    return !s_known (model, versions [which]);
}

static void
s_draw (model_t *model, int sampler, const sampler_offer_t *offer)
{
    model_job_t *jobs [JOBS] = { NULL };
    consumer_t *consumers [JOBS];
    version_t *versions [JOBS];
    had_t had [JOBS];
    size_t count = offer->job_count, fresh = 0;
    uint32_t id = sampler_pick (model->samplers [sampler]);
    for (size_t index = 0; index < count; index++) {
        jobs [index] = s_job (model, sampler, offer->jobs [index]);
        consumers [index] = &jobs [index]->consumer;
        had [index] = s_take_lost (jobs [index], id);
    }
    bool served = s_is_served (model, jobs [0], id);
    uint64_t scheduled = 0;
    model->step = STEP_DRAWS;
    version_index_draw (model->version_index, consumers, count, id, versions, &scheduled);
    assert_in_range (scheduled, !served, count - served);
    model->scheduled += scheduled;
    for (size_t index = 0; index < count; index++)
        if (s_is_fresh (model, versions, index)) {
            s_note_new (model, jobs [index], had [index]);
            fresh++;
        }
    assert_int_equal (fresh, scheduled);
    for (size_t index = 0; index < count; index++)
        s_note_use (model, jobs [index], id, versions [index]);
    s_note_thinned (model);
    model->step = STEP_OTHER;
    s_check (model);
    for (size_t index = 0; index < count; index++)
        s_check_thinned (model, jobs [index], id);
}

//  A round, with everything in order after each draw of it.
static void
s_step_round (model_t *model)
{
    int number = (int) s_below (model, SAMPLERS);
    sampler_t *sampler = model->samplers [number];
    uint32_t jobs [JOBS];
    size_t count = s_choose_jobs (model, sampler, jobs);
    if (count == 0 || model->pin_count + count > PINS_MAX)
        return;
    sampler_offer_t offer;
    sampler_round_begin (sampler, jobs, count);
    while (sampler_offer (sampler, &offer))
        s_draw (model, number, &offer);
    sampler_check (sampler);
}

//  Serves another place with an id that the job has drawn, in this epoch or an earlier one.
static void
s_step_serve (model_t *model, model_job_t *job)
{
    uint32_t id = s_below (model, SAMPLES), number = job->consumer.number;
    if (!job->drawn [id] || job->order == SAMPLER_ORDER_LIST || model->pin_count == PINS_MAX)
        return;
    bool served = s_is_served (model, job, id);
    if (number > FIRST_NUMBER && s_below (model, 2))
        job->consumer.number--;
    had_t had = s_take_lost (job, id);
    model->step = STEP_DRAWS;
    version_t *version = version_index_serve (model->version_index, &job->consumer, id);
    model->scheduled += !served;
    if (!served)
        s_note_new (model, job, had);
    s_note_use (model, job, id, version);
    s_note_thinned (model);
    model->step = STEP_OTHER;
    job->consumer.number = number;
}

//  ---- the rest that may happen

static void
s_step_epoch (model_t *model, model_job_t *job)
{
    if (sampler_remaining (s_sampler (model, job), job->consumer.sampler_job) > 0 && s_below (model, 8) > 0)
        return;
    version_index_epoch_begin (model->version_index, &job->consumer);
    job->consumer.number++;
    if (model->kinds [job->kind].is_random)
        memset (job->lost, 0, sizeof job->lost);
}

static void
s_step_forget (model_t *model)
{
    int number = (int) s_below (model, SAMPLERS);
    sampler_t *sampler = model->samplers [number];
    uint32_t id = s_below (model, SAMPLES);
    model->step = STEP_FORGETS;
    version_index_forget (model->version_index, sampler, id);
    model->step = STEP_OTHER;
    if (s_below (model, 8) > 0)
        return;
    sampler_drop (sampler, id);
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there && job->sampler == number
        &&  sampler_epoch_samples (sampler, job->consumer.sampler_job) == 0)
            s_step_leave (model, job);
}

//  Some of them because nothing came of them.
static void
s_step_unpin (model_t *model)
{
    size_t least = s_below (model, model->pin_count + 1);
    while (model->pin_count > least) {
        size_t pin = s_below (model, model->pin_count);
        version_t *version = model->pins [pin];
        model->pins [pin] = model->pins [--model->pin_count];
        if (s_below (model, 4) == 0) {
            model->step = STEP_FORGETS;
            version_index_discard (model->version_index, version);
            model->step = STEP_OTHER;
            assert_false (version->indexed);
        }
        prepared_unpin (version_index_prepared (model->version_index), version);
    }
}

static void
s_step_tenant (model_t *model)
{
    uint32_t tenant = s_below (model, TENANTS);
    if (model->tenants == 1)
        return;
    bool is_limited = s_below (model, 2);
    model->was_limited [tenant] |= is_limited;
    version_index_tenant (model->version_index, tenant, 1 + s_below (model, 4),
        is_limited? VERSION_BYTES * s_below (model, BUDGET_VERSIONS): SIZE_MAX);
}

static void
s_random_step (model_t *model)
{
    model_job_t *job = &model->jobs [s_below (model, JOBS)];
    uint32_t choice = s_below (model, 100);
    if (choice < 60)
        s_step_round (model);
    else
    if (choice < 62)
        prepared_limit (version_index_prepared (model->version_index),
            VERSION_BYTES * (1 + s_below (model, BUDGET_VERSIONS)));
    else
    if (choice < 63)
        s_step_tenant (model);
    else
    if (choice < 70)
        s_step_unpin (model);
    else
    if (choice < 72)
        s_step_forget (model);
    else
    if (!job->there)
        s_step_join (model, job);
    else
    if (choice < 76)
        s_step_leave (model, job);
    else
    if (choice < 86)
        s_step_serve (model, job);
    else
        s_step_epoch (model, job);
    s_check (model);
}

//  Adds what was lost to both.
static void
s_run (sampler_policy_t policy, uint64_t seed, version_index_losses_t *all,
    version_index_losses_t *of_tenants)
{
    model_t *model = calloc (1, sizeof *model);
    assert_non_null (model);
    model->seed = model->random = seed;
    reusable_log_clear ();
    model->version_index = version_index_new (VERSION_BYTES * BUDGET_VERSIONS, seed);
    version_index_on_kind_end (model->version_index, s_kind_ended, NULL);
    version_index_on_leave (model->version_index, s_left, model);
    version_index_reserve (model->version_index, s_below (model, 4));
    model->tenants = seed % 3 == 0? 1: TENANTS;
    for (uint32_t tenant = 1; tenant < model->tenants; tenant++)
        version_index_tenant (model->version_index, tenant, 1, SIZE_MAX);
    for (uint64_t sampler = 0; sampler < SAMPLERS; sampler++)
        model->samplers [sampler] = sampler_new (SAMPLES, policy, seed + sampler);
    for (int step = 0; step < STEPS; step++)
        s_random_step (model);
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there)
            s_step_leave (model, job);
    while (model->pin_count)
        s_step_unpin (model);
    s_check (model);
    all->again += model->losses.again;
    all->dropped += model->losses.dropped;
    for (uint32_t tenant = 0; tenant < model->tenants; tenant++)
        of_tenants->again += model->tenant_losses [tenant].again;
    version_index_destroy (&model->version_index);
    assert_int_equal (reusable_count (), 0);
    for (int kind = 0; kind < KINDS; kind++)
        assert_null (model->kinds [kind].kind);
    for (int sampler = 0; sampler < SAMPLERS; sampler++)
        sampler_destroy (&model->samplers [sampler]);
    free (model);
}

//  Property: whatever happens in whatever order, counts and the reusable set are what the model computes from
//  scratch, a random version serves a job once, nothing is scheduled that is there, and what was lost and is
//  prepared again is counted.
//  Replay: TEST_SEED.
static void
test_random_steps_keep_to_the_model (void **state)
{
    version_index_losses_t all = { 0 }, of_tenants = { 0 };
    for (uint64_t seed = test_seed (), last = seed + SEEDS; seed < last; seed++)
        s_run (*(const sampler_policy_t *) *state, seed, &all, &of_tenants);
    printf ("  again %" PRIu64 ", told to tenants %" PRIu64 ", dropped %" PRIu64 "\n", all.again,
        of_tenants.again, all.dropped);
    assert_in_range (of_tenants.again, 100, all.again - 100);       //  there was something to count
    assert_true (all.dropped > 0);
}

static sampler_policy_t s_dsa = SAMPLER_POLICY_DSA, s_follow = SAMPLER_POLICY_FOLLOW,
    s_resident = SAMPLER_POLICY_RESIDENT;

int
main (void)
{
    printf ("TEST_SEED=%" PRIu64 "\n", test_seed ());
    const struct CMUnitTest tests [] = {
        { "dsa_keeps_to_the_model", test_random_steps_keep_to_the_model, NULL, NULL, &s_dsa },
        { "follow_keeps_to_the_model", test_random_steps_keep_to_the_model, NULL, NULL, &s_follow },
        { "resident_keeps_to_the_model", test_random_steps_keep_to_the_model, NULL, NULL, &s_resident }
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

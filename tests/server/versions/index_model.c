#include "index_model.h"
#include "sampler_passes.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "reusable_versions_log.h"

sampler_t *
index_model_sampler (const model_t *model, const model_job_t *job)
{
    return model->samplers [job->sampler];
}

bool
index_model_follows (const model_t *model, const model_job_t *job)
{
    return sampler_follows (index_model_sampler (model, job), job->consumer.sampler_job);
}

model_version_t *
index_model_known (model_t *model, const version_t *version)
{
    for (size_t index = 0; index < model->version_count; index++) {
        model_version_t *known = &model->versions [index];
        if (known->version == version && known->class == version->class && known->id == version->id
            && known->draw == version->draw)
            return known;
    }
    return NULL;
}

bool
index_model_may_use (const model_t *model, const model_job_t *job, const model_version_t *version)
{
    return &model->kinds [job->kind] == version->kind
        && !(version->kind->is_random && version->users >> (job - model->jobs) & 1);
}

static bool
s_counts (const model_t *model, const model_job_t *job, const model_version_t *version)
{
    const sampler_t *sampler = index_model_sampler (model, job);
    uint32_t number = job->consumer.sampler_job;
    return job->there && index_model_may_use (model, job, version)
        && sampler_passes_comes (sampler, number, version->id, version->drawn_at)
        && version->is_reusable == index_model_follows (model, job);
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
            || index_model_follows (model, job) != version->is_reusable)
            continue;
        used |= version->users >> (job - model->jobs) & 1? tenant: 0;
        useful |= index_model_may_use (model, job, version)
            && sampler_has (index_model_sampler (model, job), job->consumer.sampler_job, version->id)
            ? tenant: 0;
    }
    return used & useful;
}

uint64_t
index_model_tenants_of (const model_t *model, const model_version_t *version)
{
    return model->tenants == 1? 1: s_sharers (model, version);
}

//  The payer is one of the version's sharers, unless these have had no room on their accounts; else a tenant
//  with a job in the kind, or none.
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
    model_version_t *known = index_model_known (model, version);
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
    assert_int_equal (version->ticket != 0, known->is_reusable);
    if (!known->is_reusable)
        return;
    const told_t *told = reusable_told (model->samplers [known->kind->sampler], version->ticket);
    assert_int_equal (told->id, version->id);
    assert_memory_equal (told->allowed, allowed, sizeof allowed);
}

//  ---- losses

void
index_model_note_loss (model_t *model, const model_version_t *version, bool is_reusable, uint64_t sharers)
{
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++) {
        if (!job->there || !index_model_may_use (model, job, version)
            || index_model_follows (model, job) != is_reusable)
            continue;
        const sampler_t *sampler = index_model_sampler (model, job);
        uint32_t number = job->consumer.sampler_job;
        if (version->kind->is_random? sampler_passes_comes (sampler, number, version->id, version->drawn_at):
                sampler_has (sampler, number, version->id))
            job->lost [sharers >> job->consumer.tenant & 1? VERSION_INDEX_LOST_OWN:
                VERSION_INDEX_LOST_OTHERS] |= UINT64_C (1) << version->id;
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

bool
index_model_is_wanted (const model_t *model, const model_version_t *version)
{
    for (const model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there && index_model_may_use (model, job, version)
            && (!version->is_reusable || index_model_follows (model, job))
        &&  sampler_has (index_model_sampler (model, job), job->consumer.sampler_job, version->id))
            return true;
    return false;
}

void
index_model_left (void *context, version_t *version)
{
    model_t *model = context;
    uint64_t evictions = prepared_evictions (version_index_prepared (model->version_index));
    bool evicted = evictions > model->evictions;
    model->evictions = evictions;
    if (evicted && version->account != PREPARED_NOBODY)
        model->tenant_losses [version->account].evictions++;
    model_version_t *known = index_model_known (model, version);
    if (!known)
        return;
    known->left = true;
    if (version->pins == 0)
        known->version = NULL;          //  its memory may be another's before the draw is over
    known->payer = version->account;
    known->sharers = version->sharers;
    if (evicted)
        index_model_note_loss (model, known, known->is_reusable, version->sharers);
    else
    if (model->step == STEP_DRAWS)
        known->thinned = true;
    else
    if (model->step == STEP_OTHER) {
        s_note_drop (model, known, version->account);
        index_model_note_loss (model, known, known->is_reusable, version->sharers);
    }
}

void
index_model_note_thinned (model_t *model)
{
    for (size_t index = 0; index < model->version_count; index++) {
        model_version_t *version = &model->versions [index];
        if (version->thinned && index_model_is_wanted (model, version)) {
            s_note_drop (model, version, version->payer);
            index_model_note_loss (model, version, version->is_reusable, version->sharers);
        }
        version->thinned = false;
    }
}

had_t
index_model_take_lost (model_job_t *job, uint32_t id)
{
    had_t had;
    for (int kind = 0; kind < VERSION_INDEX_LOST_KINDS; kind++) {
        had.had [kind] = job->lost [kind] >> id & 1;
        job->lost [kind] &= ~(UINT64_C (1) << id);
    }
    return had;
}

void
index_model_note_new (model_t *model, const model_job_t *job, had_t had)
{
    model->losses.again += had.had [VERSION_INDEX_LOST_OWN] || had.had [VERSION_INDEX_LOST_OTHERS];
    model->tenant_losses [job->consumer.tenant].again += had.had [VERSION_INDEX_LOST_OWN];
}

static void
s_check_lost (const model_t *model, const model_job_t *job)
{
    for (int kind = 0; kind < VERSION_INDEX_LOST_KINDS; kind++) {
        const lost_samples_t *set = &job->consumer.lost [kind];
        uint64_t lost = set->room? set->words [0]: 0;
        if (lost != job->lost [kind])
            fail_msg ("seed %" PRIu64 ": job %td has lost %" PRIx64 ", should %" PRIx64, model->seed,
                job - model->jobs, lost, job->lost [kind]);
    }
}

static void
s_check_losses (const model_t *model)
{
    for (const model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there)
            s_check_lost (model, job);
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
            if (known->is_reusable && !known->left)
                index_model_note_loss (model, known, true, index_model_tenants_of (model, known));
            known->is_reusable = false;
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
    size_t kept = 0, reusable = 0;
    prepared_each (version_index_prepared (model->version_index), s_check_indexed, model);
    for (size_t index = 0; index < model->version_count; index++)
        if (model->versions [index].met) {
            reusable += model->versions [index].is_reusable;
            model->versions [kept] = model->versions [index];
            model->versions [kept++].met = false;
        }
    model->version_count = kept;
    assert_int_equal (reusable_count (), reusable);
    for (size_t index = 0; merged && index < kept; index++)
        assert_false (model->versions [index].is_reusable
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

void
index_model_check (model_t *model)
{
    version_index_check (model->version_index);
    s_check_index (model);
    s_check_kinds (model);
    s_check_losses (model);
    assert_int_equal (version_index_misses (model->version_index), model->scheduled);
    assert_int_equal (version_index_hits (model->version_index), model->served - model->scheduled);
}

//  The version index beside a simple model (index_model.h) while jobs join, leave, draw and forget at random.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "index_model.h"
#include "sampler_passes.h"
#include "reusable_versions_log.h"
#include "seed.h"

enum { VERSION_BYTES = 10, LIST_MAX = 30, FIRST_NUMBER = 1000, STEPS = 1000, SEEDS = EFFORT (180),
    MORE_SAMPLES = 600 };

static uint32_t
s_below (model_t *model, uint64_t bound)
{
    return (uint32_t) test_below (&model->random, bound);
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
        kind->kind = version_set_new (model->version_index, index_model_sampler (model, job), VERSION_BYTES,
            is_random, kind);
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
    job->consumer.sampler_job = sampler_join (index_model_sampler (model, job), &join);
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
    const sampler_t *sampler = index_model_sampler (model, job);
    uint32_t number = job->consumer.sampler_job;
    for (size_t index = 0; index < model->version_count; index++) {
        model_version_t *version = &model->versions [index];
        if (version->kind == &model->kinds [job->kind] && version->kind->is_random
        &&  version->is_reusable == index_model_follows (model, job)
        &&  sampler_has (sampler, number, version->id)
        &&  !sampler_needs (sampler, number, version->id))
            s_note_user (model, job, version);
    }
}

static void
s_step_join (model_t *model, model_job_t *job)
{
    *job = (model_job_t) { .sampler = (int) s_below (model, SAMPLERS) };
    s_join_sampler (model, job);
    bool is_empty = sampler_epoch_samples (index_model_sampler (model, job), job->consumer.sampler_job) == 0;
    job->kind = is_empty? -1: s_choose_kind (model, job);
    if (job->kind < 0) {
        sampler_leave (index_model_sampler (model, job), job->consumer.sampler_job);
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
    sampler_leave (index_model_sampler (model, job), job->consumer.sampler_job);
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
        if (version->id == id && index_model_may_use (model, job, version)
                && (has_room || version->is_reusable == index_model_follows (model, job)))
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
    model_version_t *known = index_model_known (model, version);
    if (!known)
        s_check_number (model, job, kind, version);
    assert_true (model->pin_count < PINS_MAX);
    model->pins [model->pin_count++] = version;
    if (!known && !version->indexed) {
        model_version_t gone = { .id = id, .drawn_at = version->drawn_at, .kind = kind,
            .users = 1u << (job - model->jobs) };
        index_model_note_loss (model, &gone, index_model_follows (model, job), version->sharers);
        return;
    }
    if (known && !known->is_reusable && index_model_follows (model, job))
        index_model_note_loss (model, known, false, index_model_tenants_of (model, known));
    if (!known) {
        assert_true (model->version_count < VERSIONS_MAX);
        known = &model->versions [model->version_count++];
        *known = (model_version_t) {
            .drawn_at = version->drawn_at,
            .version = version, .class = version->class, .id = id, .draw = version->draw, .kind = kind
        };
    }
    assert_true (index_model_may_use (model, job, known));
    s_note_user (model, job, known);
    known->is_reusable |= index_model_follows (model, job);
}

//  NULL: it is one of those that fill strata.
static model_job_t *
s_job (model_t *model, int sampler, uint32_t number)
{
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there && job->sampler == sampler && job->consumer.sampler_job == number)
            return job;
    return NULL;
}

//  Some jobs of one group, which have something left.
static size_t
s_choose_jobs (model_t *model, int number, uint32_t *jobs)
{
    sampler_t *sampler = model->samplers [number];
    size_t groups = sampler_group_count (sampler), members, count = 0;
    if (groups == 0)
        return 0;
    const uint32_t *group = sampler_group (sampler, s_below (model, groups), &members);
    for (size_t index = 0; index < members; index++)
        if (s_job (model, number, group [index]) && sampler_remaining (sampler, group [index]) > 0
        &&  s_below (model, 3) > 0)
            jobs [count++] = group [index];
    return count;
}

//  What every job that it may count has used is gone, where the draw has looked.
static void
s_check_thinned (const model_t *model, const model_job_t *drawer, uint32_t id)
{
    for (size_t index = 0; index < model->version_count; index++) {
        const model_version_t *version = &model->versions [index];
        if (version->id != id || version->kind != &model->kinds [drawer->kind] || !version->kind->is_random
        ||  version->is_reusable != index_model_follows (model, drawer))
            continue;
        assert_true (index_model_is_wanted (model, version));
    }
}

//  Whether it was scheduled for this one of the draw.
static bool
s_is_fresh (model_t *model, version_t *const *versions, size_t which)
{
    for (size_t index = 0; index < which; index++)
        if (versions [index] == versions [which])
            return false;
    return !index_model_known (model, versions [which]);
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
        assert_non_null (jobs [index]);
        consumers [index] = &jobs [index]->consumer;
        had [index] = index_model_take_lost (jobs [index], id);
    }
    bool served = s_is_served (model, jobs [0], id);
    uint64_t scheduled = 0;
    model->step = STEP_DRAWS;
    version_index_draw (model->version_index, consumers, count, id, versions, &scheduled);
    assert_in_range (scheduled, !served, count - served);
    model->scheduled += scheduled;
    for (size_t index = 0; index < count; index++)
        if (s_is_fresh (model, versions, index)) {
            index_model_note_new (model, jobs [index], had [index]);
            fresh++;
        }
    assert_int_equal (fresh, scheduled);
    for (size_t index = 0; index < count; index++)
        s_note_use (model, jobs [index], id, versions [index]);
    index_model_note_thinned (model);
    model->step = STEP_OTHER;
    index_model_check (model);
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
    size_t count = s_choose_jobs (model, number, jobs);
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
    had_t had = index_model_take_lost (job, id);
    model->step = STEP_DRAWS;
    version_t *version = version_index_serve (model->version_index, &job->consumer, id);
    model->scheduled += !served;
    if (!served)
        index_model_note_new (model, job, had);
    s_note_use (model, job, id, version);
    index_model_note_thinned (model);
    model->step = STEP_OTHER;
    job->consumer.number = number;
}

//  ---- the rest that may happen

static void
s_step_epoch (model_t *model, model_job_t *job)
{
    if (sampler_remaining (index_model_sampler (model, job), job->consumer.sampler_job) > 0
        && s_below (model, 8) > 0)
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
    index_model_check (model);
}

//  Jobs on other samples, which never draw, until the strata have room for no more: those of the model draw
//  along passes from then on, if they join now or begin an epoch.
static void
s_fill_strata (sampler_t *sampler)
{
    random_t random = random_from_seed (1);
    for (int count = 0; count < 2;) {
        roaring_bitmap_t *data = roaring_bitmap_create ();
        for (uint32_t id = SAMPLES; id < MORE_SAMPLES; id++)
            if (random_below (&random, 2))
                roaring_bitmap_add (data, id);
        count += sampler_passes_has (sampler, sampler_join (sampler, &(sampler_join_t) { .data = data }));
        roaring_bitmap_free (data);
    }
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
    version_index_on_leave (model->version_index, index_model_left, model);
    version_index_reserve (model->version_index, s_below (model, 4));
    model->tenants = seed % 3 == 0? 1: TENANTS;
    for (uint32_t tenant = 1; tenant < model->tenants; tenant++)
        version_index_tenant (model->version_index, tenant, 1, SIZE_MAX);
    for (uint64_t sampler = 0; sampler < SAMPLERS; sampler++)
        model->samplers [sampler] = sampler_new (MORE_SAMPLES, policy, seed + sampler);
    bool is_fill_strataed = policy == SAMPLER_POLICY_FOLLOW && seed % 2;
    int fills_at = is_fill_strataed? (int) s_below (model, STEPS / 2): STEPS;
    for (int step = 0; step < STEPS; step++) {
        if (step == fills_at)
            s_fill_strata (model->samplers [0]);
        s_random_step (model);
    }
    for (model_job_t *job = model->jobs; job < model->jobs + JOBS; job++)
        if (job->there)
            s_step_leave (model, job);
    while (model->pin_count)
        s_step_unpin (model);
    index_model_check (model);
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

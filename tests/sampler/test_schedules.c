/*  Guards: exactly once, whatever happens in whatever order.
 *
 *  Random schedules of joins, leaves, drops, epoch begins and rounds of changing participants, all orders
 *  mixed, beside a simple model that keeps a count per job and id.  The ids are a few dozen in four clusters
 *  around the ends of Roaring containers, so that jobs overlap and collide all the time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sampler.h"
#include "effort.h"
#include "seed.h"

enum { SEEDS = EFFORT (500), STEPS = 300, POOL = 48, JOBS = 7, SAMPLES = 200000 };

typedef struct {
    bool present;
    sampler_order_t order;
    unsigned epoch [POOL];              //  how often the id comes in an epoch
    unsigned left [POOL];               //  how often it is still to come in this one
    uint32_t list [POOL];               //  places of the pool, for LIST in order
    size_t list_count, list_next;
    uint32_t group;                     //  the smallest job number of its component
} model_job_t;

typedef struct {
    uint64_t seed, random;
    sampler_t *sampler;
    model_job_t jobs [JOBS];
    bool dropped [POOL];
    bool in_use [JOBS];                 //  of the round at hand: has no sample yet
} world_t;

//  Clusters at 0, 65530, 131066 and 199988: the last ends with the last sample there is.
static uint32_t
s_id (uint32_t place)
{
    const uint32_t starts [] = { 0, 65530, 131066, SAMPLES - 12 };
    return starts [place / 12] + place % 12;
}

static uint32_t
s_place (const world_t *self, uint32_t id)
{
    for (uint32_t place = 0; place < POOL; place++)
        if (s_id (place) == id)
            return place;
    fail_msg ("seed %" PRIu64 ": id %u is in no place", self->seed, id);
    return 0;
}

static uint64_t
s_sum (const unsigned *counts)
{
    uint64_t sum = 0;
    for (size_t place = 0; place < POOL; place++)
        sum += counts [place];
    return sum;
}

//  Components of overlapping data among SHARED jobs, by spreading the smallest number until nothing changes.
static void
s_regroup (world_t *self)
{
    for (uint32_t job = 0; job < JOBS; job++)
        self->jobs [job].group = job;
    for (bool changed = true; changed; ) {
        changed = false;
        for (uint32_t a = 0; a < JOBS; a++)
            for (uint32_t b = 0; b < JOBS; b++) {
                model_job_t *one = &self->jobs [a], *other = &self->jobs [b];
                if (!one->present || !other->present || one->order != SAMPLER_ORDER_SHARED
                        || other->order != SAMPLER_ORDER_SHARED || one->group >= other->group)
                    continue;
                for (size_t place = 0; place < POOL; place++)
                    if (one->epoch [place] && other->epoch [place]) {
                        other->group = one->group;
                        changed = true;
                        break;
                    }
            }
    }
}

static void
s_model_epoch_begin (model_job_t *job)
{
    memcpy (job->left, job->epoch, sizeof job->left);
    job->list_next = 0;
}

//  A stretch of the pool with holes, as places in ascending order.
static void
s_make_data (world_t *self, model_job_t *job)
{
    uint32_t from = (uint32_t) test_below (&self->random, POOL);
    uint32_t span = 1 + (uint32_t) test_below (&self->random, POOL - from);
    uint64_t holes = test_below (&self->random, 2)? 3: 1000;
    for (uint32_t place = from; place < from + span; place++)
        if (place == from || test_below (&self->random, holes))
            job->list [job->list_count++] = place;
}

//  Another list of the same places: any order, with repeats.
static void
s_shuffle_list (world_t *self, model_job_t *job)
{
    uint32_t places [POOL];
    size_t count = job->list_count;
    memcpy (places, job->list, sizeof places);
    job->list_count = 1 + test_below (&self->random, POOL);
    for (size_t item = 0; item < job->list_count; item++)
        job->list [item] = places [test_below (&self->random, count)];
}

static void
s_join (world_t *self)
{
    uint32_t number = 0;
    while (number < JOBS && self->jobs [number].present)
        number++;
    if (number == JOBS)
        return;
    model_job_t *job = &self->jobs [number];
    uint64_t kind = test_below (&self->random, 8);
    *job = (model_job_t) { .present = true, .order = kind < 5? SAMPLER_ORDER_SHARED:
        kind < 6? SAMPLER_ORDER_PRIVATE: SAMPLER_ORDER_LIST };
    s_make_data (self, job);
    if (kind == 7)
        s_shuffle_list (self, job);
    uint32_t ids [POOL];
    for (size_t item = 0; item < job->list_count; item++) {
        ids [item] = s_id (job->list [item]);
        job->epoch [job->list [item]] += !self->dropped [job->list [item]];
    }
    s_model_epoch_begin (job);
    roaring_bitmap_t *data = roaring_bitmap_of_ptr (job->list_count, ids);
    if (test_below (&self->random, 2))
        roaring_bitmap_run_optimize (data);
    sampler_join_t join = { .order = job->order, .data = data };
    if (kind == 7)
        join = (sampler_join_t) { .order = SAMPLER_ORDER_LIST, .list = ids, .list_count = job->list_count };
    assert_int_equal (sampler_join (self->sampler, &join), number);
    roaring_bitmap_free (data);
    s_regroup (self);
}

//  Some job that is there, or JOBS.
static uint32_t
s_any_job (world_t *self)
{
    uint32_t start = (uint32_t) test_below (&self->random, JOBS);
    for (uint32_t step = 0; step < JOBS; step++)
        if (self->jobs [(start + step) % JOBS].present)
            return (start + step) % JOBS;
    return JOBS;
}

static void
s_drop (world_t *self)
{
    uint32_t place = (uint32_t) test_below (&self->random, POOL);
    self->dropped [place] = true;
    for (uint32_t job = 0; job < JOBS; job++)
        self->jobs [job].epoch [place] = self->jobs [job].left [place] = 0;
    sampler_drop (self->sampler, s_id (place));
}

//  One job of the offer gets the id: it must be in the round, still lack a sample, and need this one.
static void
s_deliver (world_t *self, uint32_t number, uint32_t place)
{
    model_job_t *job = &self->jobs [number];
    if (number >= JOBS || !self->in_use [number])
        fail_msg ("seed %" PRIu64 ": job %u is served out of turn", self->seed, number);
    if (!job->left [place])
        fail_msg ("seed %" PRIu64 ": job %u does not need id %u", self->seed, number, s_id (place));
    self->in_use [number] = false;
    job->left [place]--;
    if (job->order != SAMPLER_ORDER_LIST)
        return;
    while (self->dropped [job->list [job->list_next]])
        job->list_next++;
    if (job->list [job->list_next++] != place)
        fail_msg ("seed %" PRIu64 ": job %u: id %u is not next in its list", self->seed, number,
            s_id (place));
}

//  Random participants out of one group; returns how many.
static size_t
s_participants (world_t *self, uint32_t *jobs)
{
    size_t count = 0;
    uint32_t first = s_any_job (self);
    uint64_t absent = test_below (&self->random, 2)? 3: 1000;
    for (uint32_t step = 0; first < JOBS && step < JOBS; step++) {
        uint32_t job = (first + step) % JOBS;
        if (self->jobs [job].present && self->jobs [job].group == self->jobs [first].group
                && s_sum (self->jobs [job].left) && test_below (&self->random, absent))
            jobs [count++] = job;
    }
    return count;
}

static void
s_round (world_t *self)
{
    uint32_t jobs [JOBS];
    size_t count = s_participants (self, jobs);
    if (count == 0)
        return;
    memset (self->in_use, 0, sizeof self->in_use);
    for (size_t place = 0; place < count; place++)
        self->in_use [jobs [place]] = true;
    size_t served = 0;
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, jobs, count);
    while (sampler_offer (self->sampler, &offer)) {
        assert_true (offer.job_count > 0);
        uint32_t id = sampler_pick (self->sampler);
        uint32_t place = s_place (self, id);
        for (size_t job = 0; job < offer.job_count; job++)
            s_deliver (self, offer.jobs [job], place);
        served += offer.job_count;
        sampler_commit (self->sampler, id);
    }
    assert_int_equal (served, count);
}

static void
s_compare_groups (const world_t *self)
{
    size_t group = 0;
    for (uint32_t root = 0; root < JOBS; root++) {
        if (!self->jobs [root].present || self->jobs [root].group != root)
            continue;
        size_t count = 0, place = 0;
        const uint32_t *jobs = sampler_group (self->sampler, group++, &count);
        for (uint32_t job = root; job < JOBS; job++)
            if (self->jobs [job].present && self->jobs [job].group == root
                    && (place == count || jobs [place++] != job))
                fail_msg ("seed %" PRIu64 ": job %u is not in the group of %u", self->seed, job, root);
        assert_int_equal (place, count);
    }
    assert_int_equal (group, sampler_group_count (self->sampler));
}

static void
s_compare (const world_t *self)
{
    sampler_check (self->sampler);
    uint64_t dropped = 0;
    for (size_t place = 0; place < POOL; place++)
        dropped += self->dropped [place];
    for (uint32_t place = 0; place < POOL; place++)
        assert_int_equal (sampler_is_dropped (self->sampler, s_id (place)), self->dropped [place]);
    assert_int_equal (sampler_dropped_count (self->sampler), dropped);
    for (uint32_t job = 0; job < JOBS; job++) {
        const model_job_t *model = &self->jobs [job];
        if (!model->present)
            continue;
        bool same = sampler_remaining (self->sampler, job) == s_sum (model->left)
            && sampler_epoch_samples (self->sampler, job) == s_sum (model->epoch);
        for (uint32_t place = 0; place < POOL; place++)
            same &= sampler_needs (self->sampler, job, s_id (place)) == (model->left [place] > 0)
                && sampler_has (self->sampler, job, s_id (place)) == (model->epoch [place] > 0);
        if (!same)
            fail_msg ("seed %" PRIu64 ": job %u and its model differ", self->seed, job);
    }
    s_compare_groups (self);
}

static void
s_begin_epoch (world_t *self, uint32_t job)
{
    s_model_epoch_begin (&self->jobs [job]);
    sampler_epoch_begin (self->sampler, job);
}

static void
s_leave (world_t *self, uint32_t job)
{
    self->jobs [job].present = false;
    sampler_leave (self->sampler, job);
    s_regroup (self);
}

static void
s_step (world_t *self)
{
    uint64_t what = test_below (&self->random, 100);
    uint32_t job = s_any_job (self);
    if (job == JOBS || what < 5)
        s_join (self);
    else
    if (what < 6)
        s_leave (self, job);
    else
    if (what < 8)
        s_begin_epoch (self, job);              //  in the middle of one, mostly
    else
    if (what < 9)
        s_drop (self);
    else
        s_round (self);
    for (job = 0; job < JOBS; job++)
        if (self->jobs [job].present && s_sum (self->jobs [job].left) == 0
                && test_below (&self->random, 4) == 0)
            s_begin_epoch (self, job);
}

static void
test_every_job_gets_each_of_its_samples_once_an_epoch (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), n = 0; n < SEEDS; n++, seed++) {
        world_t self = { .seed = seed, .random = seed };
        self.sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, seed);
        for (int step = 0; step < STEPS; step++) {
            s_step (&self);
            s_compare (&self);
        }
        sampler_destroy (&self.sampler);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_every_job_gets_each_of_its_samples_once_an_epoch),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

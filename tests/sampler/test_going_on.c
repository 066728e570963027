/*  Guards: a job that goes on where another stopped (sampler_join_t: epoch, taken, taken_places), beside a
 *  simple model.  At every step of an epoch it stops, and joins anew, in a new sampler and in the same one,
 *  under every policy and in every order, with others there and samples dropped before, between and after:
 *    - both together have each sample once, and the next epoch is whole;
 *    - a list and a seeded order (with a pool, too) go on as if nothing had been;
 *    - an order with a pool tells of every piece in time, and no more is held than the pool has room for.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "playground.h"
#include "sampler.h"
#include "seed.h"
#include "strata.h"

enum {
    SAMPLES = 40, LIST_COUNT = 50, POOL = 12, OTHERS = 3, EPOCHS = 3, SEED = 77,
    APART = 12 - EFFORT (11)                //  every step, or every eighth or tenth
};

typedef enum { SHARED, PRIVATE, ASCENDING, LIST, SEEDED, SEEDED_PART, POOLED, POOLED_PART, KINDS } kind_t;

static const char *const s_kinds [KINDS] = { "shared", "private", "list without ids", "list", "seeded",
    "seeded, a part", "with a pool", "with a pool, a part" };

//  What the job under test is.
typedef struct {
    kind_t kind;
    sampler_policy_t policy;
    roaring_bitmap_t *data;                 //  LIST: of the list
    uint32_t list [LIST_COUNT];
    uint32_t pack_order [SAMPLES];
    //  Of orders that are given: each epoch's, with nothing dropped.
    uint32_t given [EPOCHS] [LIST_COUNT];
    size_t given_count;                     //  0: of the others
} subject_t;

//  A sampler with the job in it, and what a model knows of both.
typedef struct {
    const subject_t *subject;
    uint64_t *random;
    sampler_t *sampler;
    uint32_t job;
    uint32_t others [OTHERS];
    size_t other_count;
    uint64_t epoch;
    uint8_t had [SAMPLES];                  //  in this epoch: how often
    size_t place;                           //  of a given order: the next one
    bool dropped [SAMPLES];
    bool held [SAMPLES];                    //  of a pool: told of, and not yet drawn
    uint32_t held_count;
} play_t;

static bool
s_is_pooled (const subject_t *subject)
{
    return subject->kind == POOLED || subject->kind == POOLED_PART;
}

static sampler_join_t
s_join_of (const subject_t *subject)
{
    static const sampler_order_t orders [KINDS] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE,
        SAMPLER_ORDER_LIST,
        SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SEEDED,
        SAMPLER_ORDER_SEEDED };
    sampler_join_t join = { .order = orders [subject->kind], .data = subject->data, .seed = SEED };
    if (subject->kind == LIST) {
        join.data = NULL;
        join.list = subject->list;
        join.list_count = LIST_COUNT;
    }
    if (s_is_pooled (subject)) {
        join.pool = POOL;
        join.pack_order = subject->pack_order;
    }
    return join;
}

//  ------------------------------------------------------------------------------------------------
//  The job under test, uninterrupted and alone

static void
s_note_given (subject_t *subject)
{
    if (subject->kind == SHARED || subject->kind == PRIVATE)
        return;
    sampler_join_t join = s_join_of (subject);
    sampler_t *sampler = sampler_new (SAMPLES, SAMPLER_POLICY_DSA, 1);
    uint32_t job = sampler_join (sampler, &join);
    subject->given_count = (size_t) sampler_remaining (sampler, job);
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (size_t place = 0; place < subject->given_count; place++) {
            sampler_offer_t offer;
            sampler_round_begin (sampler, &job, 1);
            assert_true (sampler_offer (sampler, &offer));
            subject->given [epoch] [place] = sampler_pick (sampler);
            sampler_commit (sampler, subject->given [epoch] [place]);
            assert_false (sampler_offer (sampler, &offer));
        }
        sampler_epoch_begin (sampler, job);
    }
    sampler_destroy (&sampler);
}

static roaring_bitmap_t *
s_part (uint64_t *random)
{
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t id = 0; id < SAMPLES; id++)
        if (test_below (random, 4))
            roaring_bitmap_add (data, id);
    return data;
}

static subject_t
s_subject (kind_t kind, uint64_t *random)
{
    subject_t subject = { .kind = kind };
    subject.data = kind == SEEDED
        || kind == POOLED? roaring_bitmap_from_range (0, SAMPLES, 1): s_part (random);
    if (kind == LIST) {
        roaring_bitmap_clear (subject.data);
        for (size_t place = 0; place < LIST_COUNT; place++) {
            subject.list [place] = (uint32_t) test_below (random, SAMPLES);
            roaring_bitmap_add (subject.data, subject.list [place]);
        }
    }
    for (uint32_t place = 0; place < SAMPLES; place++) {
        uint32_t other = (uint32_t) test_below (random, place + 1);
        subject.pack_order [place] = subject.pack_order [other];
        subject.pack_order [other] = place;
    }
    s_note_given (&subject);
    return subject;
}

//  ------------------------------------------------------------------------------------------------
//  Drops and pools

static void
s_let_go (play_t *self, uint32_t id)
{
    self->held_count -= self->held [id];
    self->held [id] = false;
}

static void
s_drop (play_t *self, uint32_t id)
{
    sampler_drop (self->sampler, id);
    self->dropped [id] = true;
    s_let_go (self, id);
}

static void
s_drop_now_and_then (play_t *self)
{
    if (test_below (self->random, 25) == 0)
        s_drop (self, (uint32_t) test_below (self->random, SAMPLES));
}

//  As the server does: what is told of and will be drawn is held until it is.
static void
s_hold (play_t *self)
{
    stream_piece_t piece;
    while (sampler_entered (self->sampler, self->job, &piece)) {
        uint32_t needed = 0;
        for (uint32_t index = 0; index < piece.count; index++) {
            uint32_t id = piece.ids [index];
            if (!sampler_needs (self->sampler, self->job, id))
                continue;
            needed++;
            assert_false (self->held [id]);
            self->held [id] = true;
            self->held_count++;
        }
        assert_true (needed > 0);
    }
    assert_true (self->held_count <= POOL);
}

//  ------------------------------------------------------------------------------------------------
//  Draws

//  How often the epoch has the id.
static unsigned
s_occurrences (const play_t *self, uint32_t id)
{
    unsigned count = 0;
    if (self->dropped [id] || self->subject->kind != LIST)
        return !self->dropped [id] && roaring_bitmap_contains (self->subject->data, id);
    for (size_t place = 0; place < LIST_COUNT; place++)
        count += self->subject->list [place] == id;
    return count;
}

static void
s_check_counts (const play_t *self)
{
    uint64_t epoch = 0, left = 0;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        unsigned occurrences = s_occurrences (self, id);
        epoch += occurrences;
        left += self->dropped [id]? 0: occurrences - self->had [id];
        if (!self->dropped [id])
            assert_true (self->had [id] <= occurrences);
        assert_int_equal (sampler_has (self->sampler, self->job, id), occurrences > 0);
        assert_int_equal (sampler_needs (self->sampler, self->job, id), occurrences > 0
            && self->had [id] < occurrences);
    }
    assert_int_equal (sampler_epoch_samples (self->sampler, self->job), epoch);
    assert_int_equal (sampler_remaining (self->sampler, self->job), left);
}

//  Of a place of a given order: that it does not come.
static bool
s_is_past (const play_t *self, uint32_t id)
{
    return self->dropped [id] || (self->subject->kind != LIST && self->had [id]);
}

static void
s_check_draw (play_t *self, uint32_t id)
{
    const subject_t *subject = self->subject;
    if (subject->given_count > 0) {
        while (s_is_past (self, subject->given [self->epoch] [self->place]))
            self->place++;
        if (subject->given [self->epoch] [self->place++] != id)
            fail_msg ("%s: epoch %d, place %zu: %u", s_kinds [subject->kind], (int) self->epoch,
                self->place - 1, id);
    }
    assert_true (self->had [id]++ < s_occurrences (self, id));
    if (s_is_pooled (subject)) {
        assert_true (self->held [id]);
        s_let_go (self, id);
    }
}

//  One round of the group of a job; what the one under test draws is checked.
static void
s_round (play_t *self, uint32_t first)
{
    uint32_t takers [OTHERS + 1];
    size_t groups = sampler_group_count (self->sampler), count = 0, taker_count = 0;
    const uint32_t *members = NULL;
    for (size_t group = 0; group < groups; group++) {
        members = sampler_group (self->sampler, group, &count);
        size_t place = 0;
        while (place < count && members [place] != first)
            place++;
        if (place < count)
            break;
    }
    for (size_t place = 0; place < count; place++)
        if (members [place] == first
        ||  (members [place] != self->job && sampler_remaining (self->sampler, members [place]) > 0
                && test_below (self->random, 2)))
            takers [taker_count++] = members [place];
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, takers, taker_count);
    while (sampler_offer (self->sampler, &offer)) {
        uint32_t id = sampler_pick (self->sampler);
        for (size_t index = 0; index < offer.job_count; index++)
            if (offer.jobs [index] == self->job)
                s_check_draw (self, id);
        sampler_commit (self->sampler, id);
    }
    for (size_t other = 0; other < self->other_count; other++)
        if (sampler_remaining (self->sampler, self->others [other]) == 0
        &&  sampler_epoch_samples (self->sampler, self->others [other]) > 0)
            sampler_epoch_begin (self->sampler, self->others [other]);
}

static void
s_others_draw (play_t *self)
{
    for (size_t other = 0; other < self->other_count; other++)
        if (test_below (self->random, 2) && sampler_remaining (self->sampler, self->others [other]) > 0)
            s_round (self, self->others [other]);
}

//  So many draws of the job under test, as far as its epoch has them.
static void
s_draw (play_t *self, size_t count)
{
    while (count-- > 0 && sampler_remaining (self->sampler, self->job) > 0) {
        s_round (self, self->job);
        s_hold (self);
        s_others_draw (self);
        s_drop_now_and_then (self);
        s_hold (self);
        sampler_check (self->sampler);
        s_check_counts (self);
    }
}

static void
s_begin_epoch (play_t *self)
{
    assert_int_equal (self->held_count, 0);
    sampler_epoch_begin (self->sampler, self->job);
    self->epoch++;
    self->place = 0;
    memset (self->had, 0, sizeof self->had);
    s_hold (self);
    s_check_counts (self);
}

//  ------------------------------------------------------------------------------------------------
//  Joins

//  Company: SHARED jobs on parts of the data that go on themselves, and a PRIVATE one.
static void
s_join_others (play_t *self)
{
    self->other_count = 0;
    for (size_t other = 0; other < OTHERS; other++) {
        roaring_bitmap_t *data = other == 0? roaring_bitmap_from_range (0, SAMPLES, 1): s_part (self->random);
        roaring_bitmap_t *taken = roaring_bitmap_create ();
        for (uint32_t id = 0; id < SAMPLES; id++)
            if (test_below (self->random, 3) == 0 && roaring_bitmap_contains (data, id))
                roaring_bitmap_add (taken, id);
        sampler_join_t join = { .order = other == 2? SAMPLER_ORDER_PRIVATE: SAMPLER_ORDER_SHARED,
            .data = data,
            .taken = test_below (self->random, 3)? taken: NULL, .epoch = test_below (self->random, 9) };
        self->others [self->other_count++] = sampler_join (self->sampler, &join);
        roaring_bitmap_free (data);
        roaring_bitmap_free (taken);
    }
}

//  Joins where the model stands.
static void
s_join (play_t *self)
{
    sampler_join_t join = s_join_of (self->subject);
    roaring_bitmap_t *taken = roaring_bitmap_create ();
    for (uint32_t id = 0; id < SAMPLES; id++)
        if (self->had [id] > 0)
            roaring_bitmap_add (taken, id);
    if (test_below (self->random, 2))
        roaring_bitmap_run_optimize (taken);
    join.epoch = self->epoch;
    if (self->subject->kind == LIST)
        join.taken_places = self->place;
    else
    if (!roaring_bitmap_is_empty (taken) || test_below (self->random, 2))
        join.taken = taken;
    self->job = sampler_join (self->sampler, &join);
    roaring_bitmap_free (taken);
    memset (self->held, 0, sizeof self->held);
    self->held_count = 0;
    sampler_check (self->sampler);
    s_check_counts (self);
    s_hold (self);
}

static void
s_new_sampler (play_t *self)
{
    self->sampler = sampler_new (SAMPLES, self->subject->policy, test_below (self->random, UINT32_MAX));
    s_join_others (self);
}

//  What another server has not come upon yet can be read there, as far as is known.
static void
s_change_sampler (play_t *self)
{
    sampler_destroy (&self->sampler);
    s_new_sampler (self);
    for (uint32_t id = 0; id < SAMPLES; id++)
        if (self->dropped [id] && test_below (self->random, 2))
            s_drop (self, id);
        else
            self->dropped [id] = false;
    //  Of a seeded order such samples come first, where they would have; of a list they are behind it.
    if (self->subject->kind != LIST)
        self->place = 0;
    else
        memset (self->had, 0, sizeof self->had);
    for (size_t place = 0; place < self->place; place++)
        self->had [self->subject->list [place]]++;
}

//  Stops after so many draws of an epoch, goes on in the same sampler or in a new one, and draws all the rest
//  and an epoch more.
static void
s_interrupt (const subject_t *subject, uint64_t epoch, size_t after, bool in_new, uint64_t *random)
{
    play_t self = { .subject = subject, .random = random };
    s_new_sampler (&self);
    s_join (&self);
    for (; self.epoch < epoch; s_begin_epoch (&self))
        s_draw (&self, SIZE_MAX);
    s_draw (&self, after);
    if (in_new)
        s_change_sampler (&self);
    else {
        sampler_leave (self.sampler, self.job);
        s_others_draw (&self);
        s_drop_now_and_then (&self);
    }
    s_join (&self);
    s_draw (&self, SIZE_MAX);
    assert_int_equal (sampler_remaining (self.sampler, self.job), 0);
    s_begin_epoch (&self);
    s_draw (&self, SIZE_MAX);
    sampler_destroy (&self.sampler);
}

static void
test_interrupted_at_every_step (void **state)
{
    (void) state;
    static const sampler_policy_t policies [] = { SAMPLER_POLICY_DSA, SAMPLER_POLICY_FOLLOW,
        SAMPLER_POLICY_RESIDENT };
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (kind_t kind = 0; kind < KINDS; kind++)
        //  To all but SHARED jobs the policy is only the others'.
        for (size_t turn = 0; turn < (kind == SHARED? 3: 1); turn++) {
            subject_t subject = s_subject (kind, &random);
            for (size_t after = 0; after <= LIST_COUNT; after += APART)
                for (int in_new = 0; in_new < 2; in_new++) {
                    size_t step = after / APART;
                    subject.policy = policies [kind == SHARED? turn: step % 3];
                    s_interrupt (&subject, step % 2, after, in_new, &random);
                }
            roaring_bitmap_free (subject.data);
        }
}

//  ------------------------------------------------------------------------------------------------
//  Room for marks

enum { MANY = 200, RUNNERS = 12 };

static void
s_take_some (uint8_t taken [MANY], uint64_t *random)
{
    for (uint32_t id = 0; id < MANY; id++)
        taken [id] = test_below (random, 2) == 0;
}

//  Jobs that go on with unlike sets: each doubles the strata, so few follow and the others draw along
//  passes, and all do from their next epochs on.  When but one of them is left there is room again.
static void
test_beyond_the_strata (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    uint8_t taken [RUNNERS + 1] [MANY];
    playground_t *ground = playground_new (MANY, 20, SAMPLER_POLICY_FOLLOW, random);
    playground_check_always (ground);
    for (int job = 0; job <= RUNNERS; job++) {
        s_take_some (taken [job], &random);
        playground_join (ground, &(playground_job_t) { .speed = 1, .to = MANY, .epoch = 5,
            .epochs = job == 0? 12: 9,
            .taken = taken [job], .start = job == RUNNERS? 4.5 * MANY: 0 });
    }
    playground_run (ground, 10);
    uint32_t follow = 0;
    for (uint32_t job = 0; job < RUNNERS; job++)
        follow += sampler_follows (playground_sampler (ground), job);
    print_message ("%u of %d follow\n", follow, RUNNERS);
    assert_in_range (follow, 5, 6);             //  64 strata
    playground_run (ground, 4.6 * MANY);
    assert_true (playground_is_there (ground, RUNNERS) && sampler_follows (playground_sampler (ground), 1));
    assert_true (playground_run (ground, 1e9));
    playground_destroy (&ground);
}

static uint32_t
s_join_range (sampler_t *sampler, uint32_t from, uint32_t to, uint32_t taken_to)
{
    roaring_bitmap_t *data = roaring_bitmap_from_range (from, to, 1), *taken = NULL;
    if (taken_to > from)
        taken = roaring_bitmap_from_range (from, taken_to, 1);
    uint32_t job = sampler_join (sampler, &(sampler_join_t) { .data = data, .taken = taken });
    roaring_bitmap_free (data);
    if (taken)
        roaring_bitmap_free (taken);
    return job;
}

//  There is room for a job's data, and not for what was taken: strata are as before, but one has a lower
//  label, and what is on the reusable set belongs to it.
static void
test_no_room_for_what_was_taken (void **state)
{
    (void) state;
    sampler_t *sampler = sampler_new (MANY, SAMPLER_POLICY_FOLLOW, test_seed ());
    for (uint32_t id = 0; id < STRATA_LEAST - 2; id++)
        assert_int_equal (s_join_range (sampler, id, id + 1, 0), id);
    uint32_t job = s_join_range (sampler, 100, 150, 0);
    assert_true (sampler_follows (sampler, job));
    sampler_leave (sampler, 0);                 //  its label, a low one, is free
    uint64_t ticket = sampler_reusable_add (sampler, 120);
    sampler_allow (sampler, ticket, job);
    sampler_check (sampler);
    uint32_t apart = s_join_range (sampler, 100, 125, 110);
    assert_false (sampler_follows (sampler, apart));
    assert_int_equal (sampler_remaining (sampler, apart), 15);
    sampler_check (sampler);
    sampler_leave (sampler, apart);
    assert_true (sampler_follows (sampler, s_join_range (sampler, 100, 125, 0)));
    sampler_check (sampler);
    sampler_destroy (&sampler);
}

//  A job that is killed and started again all the time, beside others that go on: everything once, and no
//  mark stays for good.
static void
test_killed_again_and_again (void **state)
{
    (void) state;
    enum { LIVES = 40 };
    playground_t *ground = playground_new (MANY, 20, SAMPLER_POLICY_FOLLOW, test_seed ());
    playground_check_always (ground);
    playground_join (ground, &(playground_job_t) { .speed = 1, .to = MANY });
    playground_join (ground, &(playground_job_t) { .speed = .8, .to = MANY / 2 });
    int job = playground_join (ground, &(playground_job_t) { .speed = 1, .to = MANY }), followed = 0;
    for (int life = 1; life <= LIVES; life++) {
        playground_run (ground, life * 0.6 * MANY);
        playground_leave (ground, job);
        job = playground_join (ground, &(playground_job_t) { .speed = 1, .to = MANY,
            .taken = playground_had (ground, job), .epoch = playground_epoch (ground, job) });
        playground_run (ground, playground_now (ground) + 1);
        followed += sampler_follows (playground_sampler (ground), 2);
    }
    print_message ("%d of %d lives follow\n", followed, LIVES);
    assert_int_equal (followed, LIVES);
    assert_in_range (playground_epoch (ground, job), LIVES * 6 / 10 - 1, LIVES * 6 / 10 + 1);
    playground_destroy (&ground);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_interrupted_at_every_step),
        cmocka_unit_test (test_beyond_the_strata),
        cmocka_unit_test (test_no_room_for_what_was_taken),
        cmocka_unit_test (test_killed_again_and_again),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

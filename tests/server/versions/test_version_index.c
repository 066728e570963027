//  The version index, event by event.  (Beside a model: test_version_index_model.c.  Tenants:
//  test_version_index_tenants.c.)

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "prepared.h"
#include "sampler_passes.h"
#include "seed.h"
#include "strata.h"
#include "version_index.h"

enum { SAMPLES = 24, VERSION_BYTES = 10, JOBS = 4, OF_SAMPLE_MAX = 16 };

typedef struct {
    version_index_t *version_index;
    sampler_t *sampler;
    consumer_t consumers [JOBS];
    size_t count;
    size_t room;
    bool is_plain;                      //  its kind is without random operations
} scene_t;

//  One kind on all samples of one sampler, with room for so many versions.
static void
s_set (scene_t *scene, sampler_policy_t policy, size_t room)
{
    *scene = (scene_t) { .version_index = version_index_new (VERSION_BYTES * room, test_seed ()),
        .room = room };
    scene->sampler = sampler_new (SAMPLES, policy, test_seed ());
}

static consumer_t *
s_enter (scene_t *scene, sampler_order_t order)
{
    consumer_t *consumer = &scene->consumers [scene->count];
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, SAMPLES, 1);
    sampler_join_t join = { .order = order, .data = data };
    consumer->sampler_job = sampler_join (scene->sampler, &join);
    roaring_bitmap_free (data);
    consumer->kind = scene->count++? scene->consumers->kind:
        version_set_new (scene->version_index, scene->sampler, VERSION_BYTES, !scene->is_plain, NULL);
    version_index_join (scene->version_index, consumer);
    return consumer;
}

//  The consumers, which have the same left, draw this sample together, and are done with their versions.  How
//  many were scheduled.
static uint64_t
s_take_together (scene_t *scene, consumer_t **consumers, size_t count, uint32_t id)
{
    sampler_offer_t offer;
    version_t *versions [JOBS];
    uint32_t jobs [JOBS];
    uint64_t scheduled = 0;
    for (size_t index = 0; index < count; index++)
        jobs [index] = consumers [index]->sampler_job;
    sampler_round_begin (scene->sampler, jobs, count);
    assert_true (sampler_offer (scene->sampler, &offer));
    assert_int_equal (offer.job_count, count);
    version_index_draw (scene->version_index, consumers, count, id, versions, &scheduled);
    assert_false (sampler_offer (scene->sampler, &offer));
    for (size_t index = 0; index < count; index++)
        prepared_unpin (version_index_prepared (scene->version_index), versions [index]);
    version_index_check (scene->version_index);
    return scheduled;
}

static void
s_take (scene_t *scene, consumer_t *consumer, uint32_t id)
{
    s_take_together (scene, &consumer, 1, id);
}

static void
s_leave_all (scene_t *scene)
{
    for (size_t index = 0; index < scene->count; index++) {
        version_index_leave (scene->version_index, &scene->consumers [index]);
        sampler_leave (scene->sampler, scene->consumers [index].sampler_job);
    }
    scene->count = 0;
}

static void
s_clear (scene_t *scene)
{
    s_leave_all (scene);
    version_index_destroy (&scene->version_index);
    sampler_destroy (&scene->sampler);
}

static version_t *
s_find (scene_t *scene, uint32_t id)
{
    return prepared_find (version_index_prepared (scene->version_index), 0, id);
}

//  Everything is evicted.
static void
s_evict (scene_t *scene)
{
    prepared_limit (version_index_prepared (scene->version_index), 0);
    prepared_limit (version_index_prepared (scene->version_index), VERSION_BYTES * scene->room);
}

static uint64_t
s_again (const scene_t *scene)
{
    return version_index_losses (scene->version_index).again;
}

//  Guards: a version weighs what its own side wants, from the first moment on, and the other side uses it
//  only while nothing would be pushed out.
static void
test_two_sides (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_FOLLOW, 1);
    consumer_t *follower = s_enter (&scene, SAMPLER_ORDER_SHARED);
    consumer_t *other = s_enter (&scene, SAMPLER_ORDER_PRIVATE);
    s_enter (&scene, SAMPLER_ORDER_PRIVATE);
    s_take (&scene, other, 0);
    assert_int_equal (s_find (&scene, 0)->count, 1);    //  the third's claim, not the follower's
    s_take (&scene, follower, 2);                       //  two others want it that do not follow
    assert_null (s_find (&scene, 2));
    assert_int_equal (s_take_together (&scene, &follower, 1, 0), 1);    //  no room: one of its own, which
                                                                        //  goes at once
    assert_int_equal (s_find (&scene, 0)->ticket, 0);
    s_clear (&scene);
    s_set (&scene, SAMPLER_POLICY_FOLLOW, 3);
    consumer_t *followers [] = { s_enter (&scene, SAMPLER_ORDER_SHARED),
        s_enter (&scene, SAMPLER_ORDER_SHARED) };
    other = s_enter (&scene, SAMPLER_ORDER_PRIVATE);
    s_take (&scene, other, 0);
    assert_int_equal (s_find (&scene, 0)->count, 0);
    assert_int_equal (s_take_together (&scene, followers, 1, 0), 0);    //  room for more: it is brought over
    assert_true (s_find (&scene, 0)->ticket != 0);
    assert_int_equal (s_find (&scene, 0)->count, 1);                    //  the other follower's
    s_take (&scene, followers [0], 1);
    s_take (&scene, followers [0], 2);
    assert_int_equal (s_take_together (&scene, &other, 1, 1), 1);       //  no room any more
    s_clear (&scene);
}

//  Guards: a job that is started again while others go on is not given again, in its next epoch, what it had
//  in this one.
static void
test_what_was_taken_is_not_used_again (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_FOLLOW, SAMPLES);
    consumer_t *goes_on = s_enter (&scene, SAMPLER_ORDER_SHARED), *again = &scene.consumers [1];
    s_take (&scene, s_enter (&scene, SAMPLER_ORDER_SHARED), 0);
    s_take (&scene, goes_on, 1);
    version_index_leave (scene.version_index, again);
    sampler_leave (scene.sampler, again->sampler_job);
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, SAMPLES, 1),
        *taken = roaring_bitmap_from_range (0, 1, 1);
    sampler_join_t join = { .data = data, .taken = taken };
    *again = (consumer_t) { .kind = goes_on->kind, .sampler_job = sampler_join (scene.sampler, &join) };
    version_index_join (scene.version_index, again);
    version_index_check (scene.version_index);
    assert_int_equal (s_find (&scene, 0)->count, 1);            //  the other one's
    version_index_epoch_begin (scene.version_index, again);
    assert_int_equal (s_find (&scene, 0)->count, 1);
    assert_false (version_index_serves (scene.version_index, &again, 1, 0));
    assert_int_equal (s_find (&scene, 1)->count, 1);            //  this one's
    assert_true (version_index_serves (scene.version_index, &again, 1, 1));
    roaring_bitmap_free (data);
    roaring_bitmap_free (taken);
    s_clear (&scene);
}

//  Guards: one version serves all jobs that draw together, even if it is evicted as soon as it is entered.
static void
test_what_a_draw_schedules_serves_all_of_it (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_DSA, 1);
    consumer_t *consumers [] = { s_enter (&scene, SAMPLER_ORDER_SHARED),
        s_enter (&scene, SAMPLER_ORDER_SHARED) };
    s_take (&scene, s_enter (&scene, SAMPLER_ORDER_PRIVATE), 0);
    assert_int_equal (s_take_together (&scene, consumers, 2, 1), 1);    //  one other wants it, two want what
                                                                        //  is there
    assert_null (s_find (&scene, 1));
    assert_int_equal (s_find (&scene, 0)->count, 2);
    assert_int_equal (version_index_losses (scene.version_index).evictions, 1);
    assert_int_equal (s_again (&scene), 0);
    s_take (&scene, &scene.consumers [2], 1);                           //  it might have used that one
    assert_int_equal (s_again (&scene), 1);
    s_clear (&scene);
}

//  Guards: if a version was evicted in this epoch, another version of its sample counts as prepared again for
//  each job that might have used the first, once; and for no other job.
static void
test_a_random_version_is_lost_to_jobs_that_need_it (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_DSA, 10);
    consumer_t *first = s_enter (&scene, SAMPLER_ORDER_PRIVATE),
        *second = s_enter (&scene, SAMPLER_ORDER_PRIVATE);
    consumer_t *third = s_enter (&scene, SAMPLER_ORDER_PRIVATE);
    s_take (&scene, first, 0);
    s_evict (&scene);
    version_index_epoch_begin (scene.version_index, first);
    s_take (&scene, first, 0);                              //  wanted a new one anyway
    assert_int_equal (s_again (&scene), 0);
    s_take (&scene, second, 0);                             //  found that
    s_evict (&scene);
    assert_int_equal (s_again (&scene), 0);
    s_take (&scene, third, 0);
    assert_int_equal (s_again (&scene), 1);
    s_take (&scene, third, 1);
    s_evict (&scene);
    version_index_epoch_begin (scene.version_index, second);
    s_take (&scene, second, 1);                             //  the epoch that needed it is over
    assert_int_equal (s_again (&scene), 1);
    version_index_forget (scene.version_index, scene.sampler, 1);           //  as bad: no loss
    s_take (&scene, first, 1);
    assert_int_equal (s_again (&scene), 2);                 //  but what third had prepared was one
    s_take (&scene, third, 2);
    version_index_forget (scene.version_index, scene.sampler, 2);
    s_take (&scene, first, 2);
    assert_int_equal (s_again (&scene), 2);
    assert_int_equal (version_index_losses (scene.version_index).evictions, 4);
    s_clear (&scene);
}

//  A job with half of the samples comes and leaves.  Strata merge when the others have begun as many epochs
//  as its mark is kept.
static void
s_pass_by (scene_t *scene)
{
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, SAMPLES / 2, 1);
    sampler_join_t join = { .order = SAMPLER_ORDER_SHARED, .data = data };
    sampler_leave (scene->sampler, sampler_join (scene->sampler, &join));
    roaring_bitmap_free (data);
}

//  Whatever the sampler would draw, this sample.
static void
s_serve (scene_t *scene, consumer_t *consumer, uint32_t id)
{
    version_t *version = version_index_serve (scene->version_index, consumer, id);
    prepared_unpin (version_index_prepared (scene->version_index), version);
    version_index_check (scene->version_index);
}

//  Guards: a version that goes because strata merge, as a job begins an epoch, is lost to every other job
//  that needs it; and not to the job that begins, which needs the sample only now.
static void
test_what_goes_when_an_epoch_begins_is_lost_to_the_others (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_FOLLOW, SAMPLES);
    consumer_t *first = s_enter (&scene, SAMPLER_ORDER_SHARED),
        *second = s_enter (&scene, SAMPLER_ORDER_SHARED), *third = s_enter (&scene, SAMPLER_ORDER_SHARED);
    s_pass_by (&scene);
    for (int epoch = 0; epoch < STRATA_EPOCHS_KEPT; epoch++) {
        version_index_epoch_begin (scene.version_index, first);
        version_index_epoch_begin (scene.version_index, second);
    }
    s_serve (&scene, first, 0);
    s_serve (&scene, first, 1);
    for (int epoch = 0; epoch < STRATA_EPOCHS_KEPT; epoch++) {
        assert_int_equal (sampler_merges (scene.sampler), 0);
        version_index_epoch_begin (scene.version_index, third);
    }
    assert_int_equal (sampler_merges (scene.sampler), 1);
    assert_null (s_find (&scene, 0));
    s_serve (&scene, second, 0);
    assert_int_equal (s_again (&scene), 1);
    s_serve (&scene, third, 1);
    assert_int_equal (s_again (&scene), 1);
    s_clear (&scene);
}

//  Guards: without random operations it is the same pixels once more, in a later epoch too, and for a job
//  that had not used it yet; what is still there, or was lost before the job came, does not count.
static void
test_the_same_pixels_are_prepared_again (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_FOLLOW, 10);
    scene.is_plain = true;
    consumer_t *first = s_enter (&scene, SAMPLER_ORDER_PRIVATE),
        *second = s_enter (&scene, SAMPLER_ORDER_PRIVATE);
    s_take (&scene, first, 0);
    version_index_epoch_begin (scene.version_index, first);
    s_take (&scene, first, 0);
    assert_int_equal (s_again (&scene), 0);
    s_evict (&scene);
    version_index_epoch_begin (scene.version_index, first);
    s_take (&scene, first, 0);
    assert_int_equal (s_again (&scene), 1);
    s_take (&scene, second, 0);                             //  it was there
    assert_int_equal (s_again (&scene), 1);
    s_evict (&scene);
    s_take (&scene, s_enter (&scene, SAMPLER_ORDER_PRIVATE), 0);
    assert_int_equal (s_again (&scene), 1);
    s_evict (&scene);
    version_index_epoch_begin (scene.version_index, second);
    s_take (&scene, second, 0);
    assert_int_equal (s_again (&scene), 2);
    s_clear (&scene);
}

//  Guards: what the last job of a kind leaves behind counts as dropped where only the job had it that it was
//  made for.
static void
test_what_the_last_one_leaves_is_dropped (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, SAMPLER_POLICY_FOLLOW, SAMPLES);
    consumer_t *first = s_enter (&scene, SAMPLER_ORDER_SHARED),
        *second = s_enter (&scene, SAMPLER_ORDER_SHARED);
    s_enter (&scene, SAMPLER_ORDER_SHARED);
    for (uint32_t id = 0; id < 5; id++)
        s_take (&scene, first, id);
    s_take (&scene, second, 1);
    assert_int_equal (version_index_losses (scene.version_index).dropped, 0);
    s_leave_all (&scene);
    assert_int_equal (version_index_losses (scene.version_index).dropped, 4);
    assert_int_equal (version_index_tenant_losses (scene.version_index, 0).dropped, 4);
    assert_int_equal (version_index_losses (scene.version_index).evictions, 0);
    s_clear (&scene);
}

//  Guards: a job that stands still lets versions pile up to a limit only, under every policy.
static void
test_versions_of_a_sample_do_not_pile_up (void **state)
{
    scene_t scene;
    s_set (&scene, *(const sampler_policy_t *) *state, 1000);
    consumer_t *drawer = s_enter (&scene, SAMPLER_ORDER_SHARED);
    consumer_t *stands = s_enter (&scene, SAMPLER_ORDER_SHARED);
    for (size_t epoch = 0; epoch < 3 * OF_SAMPLE_MAX; epoch++) {
        for (uint32_t id = 0; id < SAMPLES; id++)
            s_take (&scene, drawer, id);
        version_index_epoch_begin (scene.version_index, drawer);
        assert_true (prepared_versions (version_index_prepared (scene.version_index))
            <= OF_SAMPLE_MAX * SAMPLES);
    }
    assert_int_equal (prepared_versions (version_index_prepared (scene.version_index)),
        OF_SAMPLE_MAX * SAMPLES);
    assert_int_equal (version_index_losses (scene.version_index).dropped, 2 * OF_SAMPLE_MAX * SAMPLES);
    assert_int_equal (s_take_together (&scene, &stands, 1, 0), 0);      //  there are others of what it has
                                                                        //  lost
    assert_int_equal (s_again (&scene), 0);
    s_clear (&scene);
}

enum { SCENES = 60, PREPARED_BEFORE = 4 };

//  The others draw every sample, of which there are so many versions, and count which one each gets.
static void
s_count_picks (sampler_policy_t policy, uint32_t seed, uint32_t picks [PREPARED_BEFORE])
{
    scene_t scene = { .version_index = version_index_new (VERSION_BYTES * 1000, seed), .room = 1000 };
    scene.sampler = sampler_new (SAMPLES, policy, seed);
    consumer_t *first = s_enter (&scene, SAMPLER_ORDER_SHARED);
    for (size_t other = 1; other < JOBS; other++)
        s_enter (&scene, SAMPLER_ORDER_SHARED);
    for (size_t epoch = 0; epoch < PREPARED_BEFORE; epoch++) {
        for (uint32_t id = 0; id < SAMPLES; id++)
            s_take (&scene, first, id);
        version_index_epoch_begin (scene.version_index, first);
    }
    for (size_t other = 1; other < JOBS; other++)
        for (uint32_t id = 0; id < SAMPLES; id++) {
            version_t *version;
            uint64_t scheduled = 0;
            consumer_t *consumer = &scene.consumers [other];
            sampler_offer_t offer;
            sampler_round_begin (scene.sampler, &consumer->sampler_job, 1);
            assert_true (sampler_offer (scene.sampler, &offer));
            version_index_draw (scene.version_index, &consumer, 1, id, &version, &scheduled);
            assert_int_equal (scheduled, 0);
            assert_true (version->draw < PREPARED_BEFORE);
            picks [version->draw]++;
            prepared_unpin (version_index_prepared (scene.version_index), version);
            assert_false (sampler_offer (scene.sampler, &offer));
        }
    s_clear (&scene);
}

//  Guards: of several versions of a sample a job gets each as likely.  A count is 1,080 +- 28.5; by chance a
//  right program fails once in a million runs.
static void
test_any_of_several_versions_is_as_likely (void **state)
{
    uint32_t picks [PREPARED_BEFORE] = { 0 };
    const uint32_t expected = SCENES * (JOBS - 1) * SAMPLES / PREPARED_BEFORE;
    for (uint32_t scene = 0; scene < SCENES; scene++)
        s_count_picks (*(const sampler_policy_t *) *state, (uint32_t) test_seed () + scene, picks);
    for (size_t draw = 0; draw < PREPARED_BEFORE; draw++)
        assert_in_range (picks [draw], expected - 150, expected + 150);
}

static sampler_policy_t s_dsa = SAMPLER_POLICY_DSA, s_follow = SAMPLER_POLICY_FOLLOW;


enum { HALVES = 24, HALF_OF = 1000, SERVED = 30 };

//  On a random half of the samples.
static void
s_enter_half (scene_t *scene, consumer_t *consumers, size_t number, uint64_t *seed)
{
    consumer_t *consumer = &consumers [number];
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t id = 0; id < HALF_OF; id++)
        if (test_below (seed, 2))
            roaring_bitmap_add (data, id);
    sampler_join_t join = { .order = SAMPLER_ORDER_SHARED, .data = data };
    consumer->sampler_job = sampler_join (scene->sampler, &join);
    roaring_bitmap_free (data);
    consumer->kind = number > 0? consumers->kind: version_set_new (scene->version_index, scene->sampler,
        VERSION_BYTES, true, NULL);
    version_index_join (scene->version_index, consumer);
}

//  A draw, and what it served is done with at once.
static uint32_t
s_draw_and_go_on (scene_t *scene, consumer_t *consumer)
{
    sampler_offer_t offer;
    version_t *version;
    sampler_round_begin (scene->sampler, &consumer->sampler_job, 1);
    assert_true (sampler_offer (scene->sampler, &offer));
    uint32_t id = sampler_pick (scene->sampler);
    version_index_draw (scene->version_index, &consumer, 1, id, &version, NULL);
    prepared_unpin (version_index_prepared (scene->version_index), version);
    assert_false (sampler_offer (scene->sampler, &offer));
    if (sampler_remaining (scene->sampler, consumer->sampler_job) == 0)
        version_index_epoch_begin (scene->version_index, consumer);
    return id;
}

static void
s_draw_each (scene_t *scene, consumer_t *consumers, size_t times)
{
    for (size_t turn = 0; turn < times; turn++) {
        for (size_t number = HALVES / 2; number < HALVES; number++)
            s_draw_and_go_on (scene, &consumers [number]);
        version_index_check (scene->version_index);
    }
}

//  A version that is made anew for what a job on the passes drew long ago has no place in them: no other job
//  counts for it until it passes the place of something else.
static void
test_what_was_drawn_earlier_is_served_again (void **state)
{
    (void) state;
    static consumer_t consumers [HALVES];
    uint64_t seed = test_seed ();
    scene_t scene = { .version_index = version_index_new (VERSION_BYTES * 100, test_seed ()) };
    scene.sampler = sampler_new (HALF_OF, SAMPLER_POLICY_FOLLOW, test_seed ());
    for (size_t number = 0; number < HALVES; number++)
        s_enter_half (&scene, consumers, number, &seed);
    s_draw_each (&scene, consumers, SERVED);
    consumer_t *last = &consumers [HALVES - 1];
    assert_true (last->has_passes);
    uint32_t ids [SERVED];
    for (size_t at = 0; at < SERVED; at++)
        ids [at] = s_draw_and_go_on (&scene, last);
    for (size_t at = 0; at < SERVED; at++)
        prepared_unpin (version_index_prepared (scene.version_index), version_index_serve (
            scene.version_index, last, ids [at]));
    version_index_check (scene.version_index);
    s_draw_each (&scene, consumers, 300);
    //  Draws are redirected from now on: from its next epoch on the job is on no passes, and claims by needs.
    sampler_passes_allow (scene.sampler, false);
    s_draw_each (&scene, consumers, HALF_OF);
    assert_false (last->has_passes);
    for (size_t number = 0; number < HALVES; number++) {
        version_index_leave (scene.version_index, &consumers [number]);
        sampler_leave (scene.sampler, consumers [number].sampler_job);
    }
    version_index_destroy (&scene.version_index);
    sampler_destroy (&scene.sampler);
}

int
main (void)
{
    printf ("TEST_SEED=%" PRIu64 "\n", test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_two_sides),
        cmocka_unit_test (test_what_was_taken_is_not_used_again),
        cmocka_unit_test (test_what_was_drawn_earlier_is_served_again),
        cmocka_unit_test (test_what_a_draw_schedules_serves_all_of_it),
        cmocka_unit_test (test_a_random_version_is_lost_to_jobs_that_need_it),
        cmocka_unit_test (test_what_goes_when_an_epoch_begins_is_lost_to_the_others),
        cmocka_unit_test (test_the_same_pixels_are_prepared_again),
        cmocka_unit_test (test_what_the_last_one_leaves_is_dropped),
        { "dsa_any_is_as_likely", test_any_of_several_versions_is_as_likely, NULL, NULL, &s_dsa },
        { "follow_any_is_as_likely", test_any_of_several_versions_is_as_likely, NULL, NULL, &s_follow },
        { "dsa_does_not_pile_up", test_versions_of_a_sample_do_not_pile_up, NULL, NULL, &s_dsa },
        { "follow_does_not_pile_up", test_versions_of_a_sample_do_not_pile_up, NULL, NULL, &s_follow }
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

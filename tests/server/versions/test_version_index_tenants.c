//  Tenants in the version index, event by event, and that orders stay uniform beside them.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "version_index.h"

enum { JOBS = 8, KINDS = 3 };

//  Up to three kinds on one sampler; versions take one byte, but for those of the last kind.
typedef struct {
    version_index_t *version_index;
    sampler_t *sampler;
    version_set_t *kinds [KINDS];
    bool is_random [KINDS];
    size_t version_bytes [KINDS];
    consumer_t consumers [JOBS];
    size_t count;
} scene_t;

static void
s_kind_ended (void *context, void *user)
{
    (void) context;
    *(version_set_t **) user = NULL;
}

static void
s_set (scene_t *scene, uint32_t samples, size_t room, uint64_t seed)
{
    *scene = (scene_t) { .version_index = version_index_new (room, seed),
        .is_random = { true, false, false }, .version_bytes = { 1, 1, 5 } };
    scene->sampler = sampler_new (samples, SAMPLER_POLICY_FOLLOW, seed + 1);
    version_index_on_kind_end (scene->version_index, s_kind_ended, NULL);
}

static consumer_t *
s_enter_on (scene_t *scene, uint32_t tenant, int kind, sampler_order_t order, uint32_t from, uint32_t to)
{
    assert_true (scene->count < JOBS);
    consumer_t *consumer = &scene->consumers [scene->count++];
    roaring_bitmap_t *data = roaring_bitmap_from_range (from, to, 1);
    sampler_join_t join = { .order = order, .data = data };
    if (!scene->kinds [kind])
        scene->kinds [kind] = version_set_new (scene->version_index, scene->sampler,
            scene->version_bytes [kind], scene->is_random [kind], &scene->kinds [kind]);
    *consumer = (consumer_t) { .kind = scene->kinds [kind],
        .sampler_job = sampler_join (scene->sampler, &join),
        .tenant = tenant };
    roaring_bitmap_free (data);
    version_index_join (scene->version_index, consumer);
    version_index_check (scene->version_index);
    return consumer;
}

static consumer_t *
s_enter (scene_t *scene, uint32_t tenant, int kind, uint32_t samples)
{
    return s_enter_on (scene, tenant, kind, SAMPLER_ORDER_PRIVATE, 0, samples);
}

static void
s_leave (scene_t *scene, consumer_t *consumer)
{
    uint32_t number = consumer->sampler_job;
    version_index_leave (scene->version_index, consumer);
    sampler_leave (scene->sampler, number);
    version_index_check (scene->version_index);
}

static void
s_clear (scene_t *scene)
{
    for (size_t index = 0; index < scene->count; index++)
        if (scene->consumers [index].kind)
            s_leave (scene, &scene->consumers [index]);
    version_index_destroy (&scene->version_index);
    sampler_destroy (&scene->sampler);
}

//  One draw of its own, of a chosen sample (UINT32_MAX: as it comes).  Returns the sample.
static uint32_t
s_draw (scene_t *scene, consumer_t *consumer, uint32_t id)
{
    sampler_offer_t offer;
    version_t *version;
    if (sampler_remaining (scene->sampler, consumer->sampler_job) == 0)
        version_index_epoch_begin (scene->version_index, consumer);
    sampler_round_begin (scene->sampler, &consumer->sampler_job, 1);
    assert_true (sampler_offer (scene->sampler, &offer));
    if (id == UINT32_MAX)
        id = sampler_pick (scene->sampler);
    version_index_draw (scene->version_index, &consumer, 1, id, &version, NULL);
    assert_false (sampler_offer (scene->sampler, &offer));
    prepared_unpin (version_index_prepared (scene->version_index), version);
    return id;
}

static void
s_draw_many (scene_t *scene, consumer_t *consumer, uint32_t draws)
{
    for (uint32_t draw = 0; draw < draws; draw++)
        s_draw (scene, consumer, UINT32_MAX);
    version_index_check (scene->version_index);
}

static size_t
s_bytes (const scene_t *scene, uint32_t tenant)
{
    return version_index_tenant_bytes (scene->version_index, tenant);
}

//  Guards: what serves several tenants is split among them evenly, and a tenant's second job pays no second
//  time.  Binomial with n = 6,000 and p = 1/2, then 1/3: beyond 190 from the mean (4.9 and 5.2 standard
//  deviations) once in 10^6.
static void
test_what_serves_several_is_split (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 6000, 6000, test_seed ());
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    version_index_tenant (scene.version_index, 2, 7, SIZE_MAX);
    consumer_t *first = s_enter (&scene, 0, 1, 6000), *second = s_enter (&scene, 1, 1, 6000);
    consumer_t *again = s_enter (&scene, 0, 1, 6000), *third = s_enter (&scene, 2, 1, 6000);
    s_draw_many (&scene, first, 6000);
    assert_int_equal (s_bytes (&scene, 0), 6000);
    s_draw_many (&scene, second, 6000);
    s_draw_many (&scene, again, 6000);
    assert_in_range (s_bytes (&scene, 0), 3000 - 190, 3000 + 190);
    s_draw_many (&scene, third, 6000);
    for (uint32_t tenant = 0; tenant < 3; tenant++)
        assert_in_range (s_bytes (&scene, tenant), 2000 - 190, 2000 + 190);
    assert_int_equal (version_index_misses (scene.version_index), 6000);
    s_leave (&scene, third);                                //  the others take its part over
    assert_int_equal (s_bytes (&scene, 2), 0);
    assert_in_range (s_bytes (&scene, 0), 3000 - 190, 3000 + 190);
    assert_int_equal (s_bytes (&scene, 0) + s_bytes (&scene, 1), 6000);
    s_leave (&scene, first);                                //  its tenant has another job there
    assert_in_range (s_bytes (&scene, 0), 3000 - 190, 3000 + 190);
    s_clear (&scene);
}

//  Guards: what fits in a tenant's part stays, whatever another does: many jobs, a pipeline of its own or the
//  same, joins and leaves; and what the tenant does not use, the other may.
static void
test_a_greedy_tenant_has_its_part (void **state)
{
    for (int kind = 0; kind < 2; kind++) {
        (void) state;
        scene_t scene;
        s_set (&scene, 400, 100, test_seed ());
        version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
        consumer_t *modest = s_enter (&scene, 0, 1, 50), *greedy [4];
        for (int job = 0; job < 4; job++)
            greedy [job] = s_enter (&scene, 1, kind, 400);
        s_draw_many (&scene, modest, 25);
        for (int job = 0; job < 4; job++)
            s_draw_many (&scene, greedy [job], 1000);
        assert_true (s_bytes (&scene, 0) <= 25);            //  of the same kind: some of it may be the
                                                            //  other's now
        assert_int_equal (s_bytes (&scene, 1), 100 - s_bytes (&scene, 0));
        s_draw_many (&scene, modest, 25);
        for (int round = 0; round < 40; round++) {
            s_leave (&scene, greedy [round % 4]);
            scene.count = (size_t) (greedy [round % 4] - scene.consumers);
            s_enter (&scene, 1, kind, 400);
            scene.count = 5;
            s_draw_many (&scene, greedy [round % 4], 200);
        }
        assert_true (s_bytes (&scene, 0) <= 50);
        uint64_t misses = version_index_misses (scene.version_index);
        s_draw_many (&scene, modest, 50);
        assert_int_equal (version_index_misses (scene.version_index), misses);
        s_clear (&scene);
    }
}

//  Guards: many jobs with the pipeline of a tenant's one job all want what that job prepares.  They do not
//  cost the tenant what it keeps for itself, though that counts less; and it pays for nothing of theirs that
//  it has no use for.
static void
test_many_jobs_in_ones_own_kind (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 300, 100, test_seed ());
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    consumer_t *validates = s_enter (&scene, 0, 1, 45), *trains = s_enter (&scene, 0, 0, 300),
        *many [5];
    for (int job = 0; job < 5; job++)
        many [job] = s_enter (&scene, 1, 0, 300);
    s_draw_many (&scene, validates, 45);
    for (int draw = 0; draw < 900; draw++) {
        s_draw (&scene, trains, UINT32_MAX);
        for (int job = 0; job < 5; job++)
            s_draw (&scene, many [job], UINT32_MAX);
    }
    version_index_check (scene.version_index);
    assert_in_range (s_bytes (&scene, 0), 45, 51);
    uint64_t misses = version_index_misses (scene.version_index);
    s_draw_many (&scene, validates, 45);
    assert_int_equal (version_index_misses (scene.version_index), misses);
    s_clear (&scene);
}

//  Guards: versions that wait for a next job are on no account, and go before those on any account.  They go
//  to the account of the next job that uses them.  But a tenant that is alone on the server keeps them.
static void
test_what_waits_is_on_no_account (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 400, 100, test_seed ());
    s_draw_many (&scene, s_enter (&scene, 0, 1, 60), 60);
    s_leave (&scene, &scene.consumers [0]);
    assert_int_equal (s_bytes (&scene, 0), 60);
    s_clear (&scene);

    s_set (&scene, 400, 100, test_seed ());
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    s_draw_many (&scene, s_enter (&scene, 0, 1, 60), 60);
    s_leave (&scene, &scene.consumers [0]);
    assert_int_equal (s_bytes (&scene, 0), 0);
    assert_int_equal (prepared_versions (version_index_prepared (scene.version_index)), 60);
    consumer_t *next = s_enter (&scene, 1, 1, 60);
    s_draw_many (&scene, next, 20);
    assert_int_equal (s_bytes (&scene, 1), 20);
    assert_int_equal (version_index_misses (scene.version_index), 60);
    s_enter (&scene, 1, 0, 400);
    //  100 of them are kept: the 40 on no account go, then its own.
    s_draw_many (&scene, s_enter (&scene, 1, 0, 400), 400);
    assert_int_equal (s_bytes (&scene, 1), 100);
    s_clear (&scene);
}

//  Guards: a tenant's limit holds while the cache has room; then nothing is used that would have to make
//  room.
static void
test_a_tenant_may_have_a_limit (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 400, 100, test_seed ());
    version_index_tenant (scene.version_index, 1, 1, 30);
    consumer_t *limited = s_enter (&scene, 1, 1, 400);
    s_draw_many (&scene, limited, 400);
    assert_int_equal (s_bytes (&scene, 1), 30);
    assert_int_equal (prepared_versions (version_index_prepared (scene.version_index)), 30);
    consumer_t *other = s_enter (&scene, 0, 1, 400);
    //  It may use all of the other's versions; they stay on the account of the tenant that pays for them.
    s_draw_many (&scene, other, 60);
    size_t there = prepared_versions (version_index_prepared (scene.version_index));
    assert_int_equal (s_bytes (&scene, 0) + s_bytes (&scene, 1), there);
    version_index_tenant (scene.version_index, 1, 1, 5);
    assert_int_equal (s_bytes (&scene, 1), 5);
    consumer_t *follower = s_enter_on (&scene, 1, 1, SAMPLER_ORDER_SHARED, 0, 400);
    uint32_t id = s_draw (&scene, limited, UINT32_MAX);
    assert_false (version_index_serves (scene.version_index, &follower, 1, id));    //  of the other side, and
                                                                                    //  no room on its account
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    id = s_draw (&scene, limited, UINT32_MAX);
    assert_true (version_index_serves (scene.version_index, &follower, 1, id));
    s_clear (&scene);
}

//  Guards: a version that a follower fetches from the other side counts for its tenant alone: the jobs that
//  the version had served would tell which job has the sample in its data.
static void
test_what_is_fetched_is_the_fetchers (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 100, 100, test_seed ());
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    consumer_t *other = s_enter (&scene, 0, 1, 100);
    consumer_t *follower = s_enter_on (&scene, 1, 1, SAMPLER_ORDER_SHARED, 0, 100);
    for (uint32_t id = 0; id < 50; id++) {
        s_draw (&scene, other, id);
        assert_int_equal (s_bytes (&scene, 0), 1);
        s_draw (&scene, follower, id);
        assert_int_equal (s_bytes (&scene, 0), 0);
    }
    assert_int_equal (version_index_misses (scene.version_index), 50);
    s_enter (&scene, 0, 1, 100);
    s_draw_many (&scene, &scene.consumers [2], 100);        //  the other way it costs it nothing, but what it
                                                            //  makes itself
    assert_int_equal (s_bytes (&scene, 1), 50);
    assert_int_equal (s_bytes (&scene, 0), 50);
    s_clear (&scene);

    s_set (&scene, 100, 100, test_seed ());                 //  nor where the fetcher cannot use it again
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    other = s_enter (&scene, 0, 0, 100);
    s_enter (&scene, 0, 0, 100);
    follower = s_enter_on (&scene, 1, 0, SAMPLER_ORDER_SHARED, 0, 100);
    s_enter_on (&scene, 0, 0, SAMPLER_ORDER_SHARED, 0, 100);
    s_draw (&scene, other, 7);
    assert_int_equal (s_bytes (&scene, 0), 1);
    s_draw (&scene, follower, 7);
    assert_int_equal (s_bytes (&scene, 0), 0);
    assert_int_equal (s_bytes (&scene, 1), 1);
    s_clear (&scene);
}

//  Guards: a tenant with large versions, for which memory outside of the index is kept, has so much less of
//  the index; K4.
static void
test_the_reserve_counts (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 400, 200, test_seed ());
    prepared_limit (version_index_prepared (scene.version_index), 152);
    version_index_reserve (scene.version_index, 8);                         //  8 x 1 and 8 x 5 bytes
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    consumer_t *small = s_enter (&scene, 0, 1, 400), *large = s_enter (&scene, 1, 2, 400);
    for (int draw = 0; draw < 200; draw++) {
        s_draw (&scene, small, UINT32_MAX);
        s_draw (&scene, large, UINT32_MAX);
    }
    version_index_check (scene.version_index);
    assert_int_equal (prepared_account_outside_bytes (version_index_prepared (scene.version_index), 0), 8);
    assert_int_equal (prepared_account_outside_bytes (version_index_prepared (scene.version_index), 1), 40);
    assert_in_range (s_bytes (&scene, 1) + 40, 95, 105);    //  half of all 200
    s_leave (&scene, small);                                //  its versions wait for any next job
    assert_int_equal (prepared_account_outside_bytes (version_index_prepared (scene.version_index), 0), 0);
    s_draw_many (&scene, large, 200);
    assert_int_equal (prepared_account_outside_bytes (version_index_prepared (scene.version_index), 1), 40);
    s_clear (&scene);
}

//  Guards: a tenant is told of what goes from its own account, and of what is prepared again for it that one
//  of its own jobs had had; what another had prepared for itself, and lost, counts in the total only.
static void
test_a_tenants_losses_are_its_own (void **state)
{
    (void) state;
    scene_t scene;
    s_set (&scene, 100, 50, test_seed ());
    version_index_tenant (scene.version_index, 1, 1, SIZE_MAX);
    consumer_t *other = s_enter (&scene, 0, 0, 100), *own = s_enter (&scene, 1, 0, 100);
    consumer_t *again = s_enter (&scene, 1, 0, 100);
    s_draw (&scene, other, 7);
    prepared_limit (version_index_prepared (scene.version_index), 0);
    prepared_limit (version_index_prepared (scene.version_index), 50);
    s_draw (&scene, own, 7);
    assert_int_equal (version_index_losses (scene.version_index).again, 1);
    assert_int_equal (version_index_tenant_losses (scene.version_index, 1).again, 0);
    prepared_limit (version_index_prepared (scene.version_index), 0);
    prepared_limit (version_index_prepared (scene.version_index), 50);
    s_draw (&scene, again, 7);
    assert_int_equal (version_index_losses (scene.version_index).again, 2);
    assert_int_equal (version_index_tenant_losses (scene.version_index, 1).again, 1);
    assert_int_equal (version_index_tenant_losses (scene.version_index, 0).again, 0);
    for (uint32_t tenant = 0; tenant < 2; tenant++)
        assert_int_equal (version_index_tenant_losses (scene.version_index, tenant).evictions, 1);
    s_clear (&scene);
}

//  ---- uniformity
//
//  Two tenants with jobs on overlapping data, in one kind: of each a job that follows and a private one, the
//  data of which the others' strata do not know, and one that pushes out.  For each follower and epoch by
//  itself, over SEEDS runs: chi-square of sample x position in 20 bins, and the mean positions of samples
//  that are in each private job's data, by their spread over runs.  k = 2 x 3 x 3 tests; |z| must stay under
//  the two-sided normal quantile of 1e-4 / k, 4.55.  Nine runs in ten notice chances that are off by 9 %
//  (root mean square over samples and bins), or 0.7 of 80 places that the private jobs' samples are early or
//  late; with all rounds (effort.h) 5 %, or 0.4 places.

enum { SEEDS = EFFORT (1500), SAMPLES = 100, DATA = 80, BINS = 20, EPOCHS = 3, CACHE = 14, FOLLOWERS = 2,
    GROUPS = 2 };

#define Z_BOUND 4.55

typedef struct {
    uint32_t from, to;
} range_t;

static const range_t s_data [FOLLOWERS] = { { 0, DATA }, { SAMPLES - DATA, SAMPLES } };
static const range_t s_private [GROUPS] = { { 10, 50 }, { 40, 95 } };

typedef struct {
    double cells [FOLLOWERS] [EPOCHS] [SAMPLES] [BINS];
    double sum [FOLLOWERS] [EPOCHS] [GROUPS], squares [FOLLOWERS] [EPOCHS] [GROUPS];
} tally_t;

static bool
s_is_in (range_t range, uint32_t id)
{
    return id >= range.from && id < range.to;
}

//  An order of one epoch of a follower.
static void
s_count (tally_t *tally, int follower, int epoch, const uint32_t *order)
{
    for (uint32_t position = 0; position < DATA; position++)
        tally->cells [follower] [epoch] [order [position]] [position * BINS / DATA]++;
    for (int group = 0; group < GROUPS; group++) {
        double positions = 0, members = 0;
        for (uint32_t position = 0; position < DATA; position++)
            if (s_is_in (s_private [group], order [position])) {
                positions += position;
                members++;
            }
        double off = positions / members - (DATA - 1) / 2.0;
        tally->sum [follower] [epoch] [group] += off;
        tally->squares [follower] [epoch] [group] += off * off;
    }
}

static void
s_play (tally_t *tally, uint64_t seed)
{
    scene_t scene;
    s_set (&scene, SAMPLES, CACHE, seed);
    version_index_tenant (scene.version_index, 0, 2, SIZE_MAX);
    version_index_tenant (scene.version_index, 1, 1, CACHE * 3 / 4);
    consumer_t *followers [FOLLOWERS], *others [GROUPS + 1];
    for (uint32_t index = 0; index < FOLLOWERS; index++)
        followers [index] = s_enter_on (&scene, index, 0, SAMPLER_ORDER_SHARED, s_data [index].from,
            s_data [index].to);
    for (uint32_t index = 0; index < GROUPS; index++)
        others [index] = s_enter_on (&scene, index, 0, SAMPLER_ORDER_PRIVATE, s_private [index].from,
            s_private [index].to);
    others [GROUPS] = s_enter_on (&scene, 1, 1, SAMPLER_ORDER_PRIVATE, 0, SAMPLES);
    uint32_t orders [FOLLOWERS] [EPOCHS * DATA], drawn [FOLLOWERS] = { 0 };
    for (uint32_t tick = 0; drawn [0] < EPOCHS * DATA || drawn [1] < EPOCHS * DATA; tick++) {
        for (uint32_t index = 0; index < FOLLOWERS; index++)
            if ((index == 0 || (tick >= 30 && tick % 4 != 0)) && drawn [index] < EPOCHS * DATA)
                orders [index] [drawn [index]++] = s_draw (&scene, followers [index], UINT32_MAX);
        for (uint32_t index = 0; index <= GROUPS; index++)
            if (tick % (index + 1) == 0)
                s_draw (&scene, others [index], UINT32_MAX);
    }
    for (int follower = 0; follower < FOLLOWERS; follower++)
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            s_count (tally, follower, epoch, orders [follower] + epoch * DATA);
    s_clear (&scene);
}

static double
s_chi_square_z (double cells [SAMPLES] [BINS], range_t data)
{
    double expected = (double) SEEDS / BINS, sum = 0, degrees = (BINS - 1) * (DATA - 1);
    for (uint32_t sample = data.from; sample < data.to; sample++)
        for (size_t bin = 0; bin < BINS; bin++)
            sum += (cells [sample] [bin] - expected) * (cells [sample] [bin] - expected) / expected;
    return (sum * (DATA - 1) / DATA - degrees) / sqrt (2 * degrees);
}

static double
s_mean_z (double sum, double squares)
{
    double mean = sum / SEEDS, variance = (squares - sum * mean) / (SEEDS - 1);
    return mean / sqrt (variance / SEEDS);
}

static void
test_orders_stay_uniform (void **state)
{
    (void) state;
    tally_t *tally = calloc (1, sizeof *tally);
    assert_non_null (tally);
    double worst = 0;
    for (uint64_t seed = test_seed (), last = seed + SEEDS; seed < last; seed++)
        s_play (tally, seed * 7919);
    for (int follower = 0; follower < FOLLOWERS; follower++)
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            double z [1 + GROUPS] = { s_chi_square_z (tally->cells [follower] [epoch], s_data [follower]) };
            for (int group = 0; group < GROUPS; group++)
                z [1 + group] = s_mean_z (tally->sum [follower] [epoch] [group],
                    tally->squares [follower] [epoch] [group]);
            printf ("follower %d epoch %d: position z %.2f, of the private jobs' samples %.2f, %.2f\n",
                follower, epoch, z [0], z [1], z [2]);
            for (int test = 0; test < 1 + GROUPS; test++)
                worst = fmax (worst, fabs (z [test]));
        }
    free (tally);
    if (worst > Z_BOUND)
        fail_msg ("largest |z| %.2f", worst);
}

int
main (void)
{
    printf ("TEST_SEED=%" PRIu64 "\n", test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_serves_several_is_split),
        cmocka_unit_test (test_a_greedy_tenant_has_its_part),
        cmocka_unit_test (test_many_jobs_in_ones_own_kind),
        cmocka_unit_test (test_what_waits_is_on_no_account),
        cmocka_unit_test (test_a_tenant_may_have_a_limit),
        cmocka_unit_test (test_what_is_fetched_is_the_fetchers),
        cmocka_unit_test (test_the_reserve_counts),
        cmocka_unit_test (test_a_tenants_losses_are_its_own),
        cmocka_unit_test (test_orders_stay_uniform)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_flip -- the private stage: a copy, or a copy with the columns in reverse order, as the key says.  */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "pipelines.h"
#include "image.h"
#include "seed.h"

enum { HEIGHT = 5, WIDTH = 7, BYTES = HEIGHT * WIDTH * 3, GUARD = 16 };

static void
s_fill (uint8_t *version)
{
    for (int index = 0; index < BYTES; index++)
        version [index] = (uint8_t) (index * 37 + 11);
}

static bool
s_is_flipped (const uint8_t *version, const uint8_t *target)
{
    for (int row = 0; row < HEIGHT; row++)
        for (int column = 0; column < WIDTH; column++)
            if (memcmp (version + (row * WIDTH + column) * 3,
                target + (row * WIDTH + WIDTH - 1 - column) * 3, 3))
                return false;
    return true;
}

//  Runs the private stage and checks that it wrote one sample and nothing beside it; whether it flipped.
static bool
s_run (const pipeline_t *pipeline, const pipeline_key_t *key)
{
    uint8_t version [BYTES], target [GUARD + BYTES + GUARD], guard [GUARD];
    s_fill (version);
    memset (target, 0xa5, sizeof target);
    memset (guard, 0xa5, sizeof guard);
    assert_int_equal (pipeline_output (pipeline)->bytes, BYTES);
    pipeline_private (pipeline, key, version, target + GUARD);
    assert_memory_equal (target, guard, GUARD);
    assert_memory_equal (target + GUARD + BYTES, guard, GUARD);
    if (memcmp (target + GUARD, version, BYTES) == 0)
        return false;
    assert_true (s_is_flipped (version, target + GUARD));
    return true;
}

//  Flips in the private stage by their probabilities, and for how many of DRAWS keys a flip is to be
//  expected.
static const struct { const char *flips; double expected; } s_cases [] = {
    { "", 0 },
    { ",{'op':'flip','p':0}", 0 },
    { ",{'op':'flip','p':1}", 1 },
    { ",{'op':'flip','p':1},{'op':'flip','p':1}", 0 },
    { ",{'op':'flip'}", 0.5 },
    { ",{'op':'flip','p':0.1}", 0.1 },
    //  Either but not both: a second flip that drew the same numbers would give 0.
    { ",{'op':'flip','p':0.3},{'op':'flip','p':0.3}", 0.42 },
};

//  The share of flips is p: |z| above 5.5 comes once in 2e7 runs of a case.
static void
test_flips_as_often_as_asked (void **state)
{
    (void) state;
    enum { DRAWS = 20000 };
    for (size_t index = 0; index < sizeof s_cases / sizeof *s_cases; index++) {
        char text [300];
        snprintf (text, sizeof text, "[{'op':'resize','size':[5,7]},{'share':true}%s]",
            s_cases [index].flips);
        const pipeline_t *pipeline = pipeline_of (text);
        int flips = 0;
        for (uint64_t id = 0; id < DRAWS; id++) {
            pipeline_key_t key = { .seed = test_seed (), .round = 3, .id = id };
            flips += s_run (pipeline, &key);
        }
        double expected = s_cases [index].expected;
        double deviation = sqrt (DRAWS * expected * (1 - expected));
        if (fabs (flips - DRAWS * expected) > 5.5 * deviation)
            fail_msg ("seed %" PRIu64 "%s: %d flips", test_seed (), s_cases [index].flips, flips);
        pipeline_destroy (&pipeline);
    }
}

//  One key, one answer; another epoch, occurrence or view, an independent one.
static void
test_flip_follows_from_the_key (void **state)
{
    (void) state;
    const pipeline_t *pipeline = pipeline_of ("[{'op':'resize','size':[5,7]},{'op':'flip'}]");
    int agree [3] = { 0 };
    enum { IDS = 2000 };
    for (uint64_t id = 0; id < IDS; id++) {
        pipeline_key_t key = { .seed = test_seed (), .id = id };
        pipeline_key_t others [] = { key, key, key };
        others [0].round = 1;
        others [1].occurrence = 1;
        others [2].view = 1;
        bool flipped = s_run (pipeline, &key);
        assert_int_equal (flipped, s_run (pipeline, &key));
        for (int other = 0; other < 3; other++)
            agree [other] += flipped == s_run (pipeline, &others [other]);
    }
    for (int other = 0; other < 3; other++)
        assert_true (fabs (agree [other] - IDS / 2.) < 5.5 * sqrt (IDS / 4.));
    pipeline_destroy (&pipeline);
}

//  Rows that are wider than what is copied, and images of one column or row.
static void
test_copies_of_views (void **state)
{
    (void) state;
    uint8_t source [6 * 40], target [6 * 50];
    for (size_t index = 0; index < sizeof source; index++)
        source [index] = (uint8_t) index;
    for (uint32_t width = 1; width <= 13; width++)
        for (uint32_t height = 1; height <= 6; height++) {
            image_t image = { source, 40, height, width };
            memset (target, 0, sizeof target);
            image_copy_flipped (&image, target, 50);
            for (uint32_t row = 0; row < height; row++)
                for (uint32_t column = 0; column < 50; column++) {
                    uint32_t pixel = column / 3, channel = column % 3;
                    uint32_t mirrored = row * 40 + (width - 1 - pixel) * 3 + channel;
                    uint8_t expected = pixel < width? source [mirrored]: 0;
                    assert_int_equal (target [row * 50 + column], expected);
                }
            memset (target, 0, sizeof target);
            image_copy (&image, target, 50);
            for (uint32_t row = 0; row < height; row++)
                assert_memory_equal (target + row * 50, source + row * 40, width * 3);
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_flips_as_often_as_asked),
        cmocka_unit_test (test_flip_follows_from_the_key),
        cmocka_unit_test (test_copies_of_views),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

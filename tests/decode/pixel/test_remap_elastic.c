/*  test_remap_elastic -- displaced images beside a model in doubles.  Parity with torch is test_augment.py's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "levels.h"
#include "remap.h"
#include "seed.h"

enum { ROUNDS = 200, SIDE_MAX = 40, WIDE = 600, PIXELS_MAX = 3 * WIDE,
    VALUES_MAX = PIXELS_MAX * IMAGE_COLOURS, GUARD = 16, FILLER = 0xa5 };

typedef struct {
    uint8_t pixels [VALUES_MAX];
    uint8_t target [VALUES_MAX + GUARD];
    float across [PIXELS_MAX], down [PIXELS_MAX];
    image_t image;
    remap_elastic_t elastic;
} trial_t;

//  Displacements of up to two pixels, at times whole ones.
static void
s_make (trial_t *self, uint64_t *random)
{
    bool is_wide = test_below (random, 10) == 0;
    uint32_t height = 1 + (uint32_t) test_below (random, is_wide? 3: SIDE_MAX);
    uint32_t width = is_wide? WIDE - (uint32_t) test_below (random, 300):
        1 + (uint32_t) test_below (random, SIDE_MAX);
    uint32_t channels = test_below (random, 2)? IMAGE_COLOURS: 1;
    bool is_whole = test_below (random, 3) == 0;
    for (size_t index = 0; index < (size_t) height * width; index++) {
        double x = (double) test_below (random, 4001) / 1000 - 2;
        double y = (double) test_below (random, 4001) / 1000 - 2;
        self->across [index] = (float) (2 * (is_whole? rint (x): x) / width);
        self->down [index] = (float) (2 * (is_whole? rint (y): y) / height);
    }
    for (size_t index = 0; index < image_bytes (height, width, channels); index++)
        self->pixels [index] = (uint8_t) test_below (random, 256);
    self->image = (image_t) { self->pixels, image_bytes (1, width, channels), height, width, channels };
    self->elastic = (remap_elastic_t) { .across = self->across, .down = self->down,
        .is_bilinear = test_below (random, 2), .fill = { 9, 200, 77 } };
}

static double
s_value (const trial_t *self, int64_t row, int64_t column, uint32_t channel)
{
    bool is_there = row >= 0 && row < self->image.height && column >= 0 && column < self->image.width;
    return is_there? image_at (&self->image, (uint32_t) row, (uint32_t) column) [channel]:
        self->elastic.fill [channel];
}

//  What a pixel shows, before it is rounded; of the nearest, *is_near_p: whether another is about as near.
static double
s_shown (const trial_t *self, uint32_t row, uint32_t column, uint32_t channel, bool *is_near_p)
{
    size_t at = (size_t) row * self->image.width + column;
    double x = column + (double) self->across [at] * self->image.width / 2;
    double y = row + (double) self->down [at] * self->image.height / 2;
    *is_near_p = fabs (fabs (x - rint (x)) - 0.5) < 1e-3 || fabs (fabs (y - rint (y)) - 0.5) < 1e-3;
    if (!self->elastic.is_bilinear)
        return s_value (self, (int64_t) rint (y), (int64_t) rint (x), channel);
    int64_t left = (int64_t) floor (x), top = (int64_t) floor (y);
    double w = x - (double) left, n = y - (double) top;
    //  torch mixes the fill in by the part that is there, once more.
    double sum = 0, there = 0;
    for (int64_t corner = 0; corner < 4; corner++) {
        int64_t at_row = top + corner / 2, at_column = left + corner % 2;
        double weight = (corner / 2? n: 1 - n) * (corner % 2? w: 1 - w);
        bool is_there = at_row >= 0 && at_row < self->image.height && at_column >= 0
            && at_column < self->image.width;
        sum += is_there? weight * s_value (self, at_row, at_column, channel): 0;
        there += is_there? weight: 0;
    }
    return sum * there + (1 - there) * self->elastic.fill [channel];
}

//  Guards: every value is the model's, rounded, but for what 32-bit floats make of places; the same at every
//  level of instructions, and nothing is written behind the image.
static void
test_displaced_pixels_are_shown (void **state)
{
    (void) state;
    static trial_t trial;
    static uint8_t first [VALUES_MAX];
    uint64_t random = test_seed ();
    for (int round = 0; round < ROUNDS; round++) {
        s_make (&trial, &random);
        size_t count = image_bytes (trial.image.height, trial.image.width, trial.image.channels);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            if (!levels_use (level))
                continue;
            memset (trial.target, FILLER, sizeof trial.target);
            remap_elastic (&trial.elastic, &trial.image, trial.target);
            for (size_t index = 0; index < GUARD; index++)
                assert_int_equal (trial.target [count + index], FILLER);
            if (level == LOOPS_PORTABLE)
                memcpy (first, trial.target, count);
            assert_memory_equal (first, trial.target, count);
        }
        for (size_t index = 0; index < count; index++) {
            size_t pixel = index / trial.image.channels;
            bool is_near;
            double shown = s_shown (&trial, (uint32_t) (pixel / trial.image.width),
                (uint32_t) (pixel % trial.image.width), (uint32_t) (index % trial.image.channels), &is_near);
            bool is_exact = trial.elastic.is_bilinear || !is_near;
            if (is_exact && fabs (trial.target [index] - shown) > 0.5 + 0.05)
                fail_msg ("seed %" PRIu64 ", round %d: value %zu is %u, not %.6f", test_seed (), round, index,
                    trial.target [index], shown);
        }
    }
}

//  Guards: without displacements an image stays what it is, whatever its sides.
static void
test_nothing_displaced (void **state)
{
    (void) state;
    static trial_t trial;
    uint64_t random = test_seed ();
    for (int round = 0; round < ROUNDS; round++) {
        s_make (&trial, &random);
        memset (trial.across, 0, sizeof trial.across);
        memset (trial.down, 0, sizeof trial.down);
        remap_elastic (&trial.elastic, &trial.image, trial.target);
        size_t count = image_bytes (trial.image.height, trial.image.width, trial.image.channels);
        assert_memory_equal (trial.pixels, trial.target, count);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_displaced_pixels_are_shown),
        cmocka_unit_test (test_nothing_displaced),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

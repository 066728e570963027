/*  test_blur -- both blurs beside models: sums of doubles, and boxes that are added up anew for each pixel.
 *  Parity with Pillow and torch is tests/decode/test_parity.py's and test_augment.py's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "blur.h"
#include "levels.h"
#include "seed.h"

enum { ROUNDS = 300, SIDE_MAX = 40, WIDE = 1300, VALUES_MAX = WIDE * IMAGE_COLOURS * 3, FILLER = 0xa5,
    GUARD = 16 };

typedef struct {
    uint8_t pixels [VALUES_MAX];
    uint8_t target [VALUES_MAX + GUARD];
    image_t image;
} trial_t;

//  At times wider than what is convolved together, at times one row or column.
static void
s_make (trial_t *self, uint64_t *random)
{
    uint32_t channels = test_below (random, 2)? IMAGE_COLOURS: 1;
    uint32_t height = 1 + (uint32_t) test_below (random, SIDE_MAX);
    uint32_t width = 1 + (uint32_t) test_below (random, SIDE_MAX);
    if (test_below (random, 10) == 0) {
        height = 1 + (uint32_t) test_below (random, 3);
        width = WIDE - (uint32_t) test_below (random, 300);
    }
    size_t count = image_bytes (height, width, channels);
    assert_true (count <= VALUES_MAX);
    bool is_hard = test_below (random, 2);
    for (size_t index = 0; index < count; index++)
        self->pixels [index] = (uint8_t) (is_hard? test_below (random, 2) * 255: test_below (random, 256));
    memset (self->target, FILLER, sizeof self->target);
    self->image = (image_t) { self->pixels, image_bytes (1, width, channels), height, width, channels };
}

static void
s_check_guard (const trial_t *self)
{
    size_t count = image_bytes (self->image.height, self->image.width, self->image.channels);
    for (size_t index = 0; index < GUARD; index++)
        assert_int_equal (self->target [count + index], FILLER);
}

//  ---------------------------------------------------------------------------------------------------------
//  Convolution

static int64_t
s_mirror (int64_t at, int64_t side)
{
    while (side > 1 && (at < 0 || at >= side))
        at = at < 0? -at: 2 * (side - 1) - at;
    return side > 1? at: 0;
}

//  The sum along one axis, for the value at (row, column) of an image of doubles.
static double
s_sum (const image_t *image, const double *values, const double *weights, int64_t half, bool is_down,
    int64_t row, int64_t column, uint32_t channel)
{
    double sum = 0;
    for (int64_t tap = -half; tap <= half; tap++) {
        int64_t y = is_down? s_mirror (row + tap, image->height): row;
        int64_t x = is_down? column: s_mirror (column + tap, image->width);
        sum += weights [tap < 0? -tap: tap]
            * values [((size_t) y * image->width + (size_t) x) * image->channels + channel];
    }
    return sum;
}

static void
s_convolve (const image_t *image, double *values, uint32_t size, double sigma, bool is_down)
{
    static double result [VALUES_MAX];
    double weights [BLUR_HALF_MAX + 1], all = 0;
    int64_t half = size / 2;
    for (int64_t tap = 0; tap <= half; tap++) {
        weights [tap] = exp (-(double) (tap * tap) / (2 * sigma * sigma));
        all += weights [tap] * (tap? 2: 1);
    }
    for (int64_t tap = 0; tap <= half; tap++)
        weights [tap] /= all;
    double *at = result;
    for (uint32_t row = 0; row < image->height; row++)
        for (uint32_t column = 0; column < image->width; column++)
            for (uint32_t channel = 0; channel < image->channels; channel++)
                *at++ = s_sum (image, values, weights, half, is_down, row, column, channel);
    memcpy (values, result, (size_t) (at - result) * sizeof *result);
}

//  Guards: each value is the exact sum, rounded, but for sums that lie within 1e-4 of the middle between two;
//  the same at every level of instructions.
static void
test_convolution_is_rounded_sum (void **state)
{
    (void) state;
    static trial_t trial;
    static double values [VALUES_MAX];
    static const double sigmas [] = { 0.001, 0.1, 0.5, 1, 2, 5, 50, 1000 };
    uint64_t random = test_seed ();
    for (int round = 0; round < ROUNDS; round++) {
        s_make (&trial, &random);
        uint32_t size_max = test_below (&random, 8)? 12: BLUR_KERNEL_MAX / 2;
        uint32_t across = 2 * (uint32_t) test_below (&random, size_max) + 1;
        uint32_t down = 2 * (uint32_t) test_below (&random, size_max) + 1;
        double sigma = sigmas [test_below (&random, 8)];
        size_t count = image_bytes (trial.image.height, trial.image.width, trial.image.channels);
        for (size_t index = 0; index < count; index++)
            values [index] = trial.pixels [index];
        s_convolve (&trial.image, values, down, sigma, true);
        s_convolve (&trial.image, values, across, sigma, false);
        blur_kernel_t kernel_across = blur_kernel (across, sigma), kernel_down = blur_kernel (down, sigma);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            if (!levels_use (level))
                continue;
            blur_convolve (&trial.image, &kernel_across, &kernel_down, trial.target);
            s_check_guard (&trial);
            for (size_t index = 0; index < count; index++)
                if (fabs (trial.target [index] - values [index]) > 0.5 + 1e-4)
                    fail_msg ("seed %" PRIu64 ", round %d: value %zu is %u, not %.6f", test_seed (), round,
                        index, trial.target [index], values [index]);
        }
    }
}

//  Guards: floats are blurred by the same sums, in place, whatever their field's sides.
static void
test_fields_are_summed (void **state)
{
    (void) state;
    static trial_t trial;
    static double values [VALUES_MAX];
    static float field [VALUES_MAX], room [VALUES_MAX + WIDE + BLUR_KERNEL_MAX];
    uint64_t random = test_seed ();
    for (int round = 0; round < ROUNDS; round++) {
        s_make (&trial, &random);
        uint32_t height = trial.image.height, width = trial.image.width;
        trial.image.channels = 1;
        size_t count = (size_t) height * width;
        assert_true (blur_field_room (height, width) <= sizeof room / sizeof *room);
        uint32_t half_max = test_below (&random, 8)? 12: BLUR_HALF_MAX;
        uint32_t size = 2 * (uint32_t) test_below (&random, half_max + 1) + 1;
        double sigma = 0.3 + (double) test_below (&random, 20);
        double other = 0.3 + (double) test_below (&random, 9);
        blur_kernel_t across = blur_kernel (size, sigma), down = blur_kernel (size, other);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            if (!levels_use (level))
                continue;
            for (size_t index = 0; index < count; index++)
                field [index] = (float) (values [index] = trial.pixels [index]);
            s_convolve (&trial.image, values, size, other, true);
            s_convolve (&trial.image, values, size, sigma, false);
            blur_field (field, height, width, &across, &down, room);
            for (size_t index = 0; index < count; index++)
                if (fabs ((double) field [index] - values [index]) > 1e-4)
                    fail_msg ("seed %" PRIu64 ", round %d: value %zu is %.6f, not %.6f", test_seed (), round,
                        index, (double) field [index], values [index]);
        }
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Boxes

//  One pass along an axis: whole pixels with weight, the two beside them with edge.
static void
s_box_pass (const image_t *image, uint8_t *values, int64_t radius, uint32_t weight, uint32_t edge,
    bool is_down)
{
    static uint8_t result [VALUES_MAX];
    uint8_t *made = result;
    int64_t last = (is_down? image->height: image->width) - 1;
    for (int64_t row = 0; row < image->height; row++)
        for (int64_t column = 0; column < image->width; column++)
            for (uint32_t channel = 0; channel < image->channels; channel++) {
                uint64_t sum = 1 << 23;
                for (int64_t tap = -radius - 1; tap <= radius + 1; tap++) {
                    int64_t at = (is_down? row: column) + tap;
                    at = at < 0? 0: at > last? last: at;
                    size_t place = (size_t) (is_down? at * image->width + column: row * image->width + at);
                    bool is_edge = tap < -radius || tap > radius;
                    sum += (uint64_t) values [place * image->channels + channel] * (is_edge? edge: weight);
                }
                *made++ = (uint8_t) (sum >> 24);
            }
    memcpy (values, result, (size_t) (made - result));
}

//  Guards: three passes across and three down, whatever the box and the image.  The box has the variance of
//  the Gaussian, a third of it each.
static void
test_boxes_equal_their_model (void **state)
{
    (void) state;
    static trial_t trial;
    static uint8_t values [VALUES_MAX];
    uint64_t random = test_seed ();
    scratch_t room = { NULL, 0 };
    for (int round = 0; round < ROUNDS; round++) {
        s_make (&trial, &random);
        double drawn = (double) test_below (&random, 1001) / 1000;
        float radius = (float) (drawn * (test_below (&random, 5)? 4: BLUR_RADIUS_MAX));
        float variance = radius * radius / 3;
        float length = (float) sqrt (12.0 * variance + 1.0), whole = (float) floor ((length - 1.0) / 2.0);
        float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
        part /= 6 * (variance - (whole + 1) * (whole + 1));
        float width = whole + part;
        int64_t full = (int64_t) width;
        uint32_t weight = (uint32_t) (16777216.0f / (width * 2 + 1));
        uint32_t edge = (16777216 - (uint32_t) (2 * full + 1) * weight) / 2;
        double spread = (double) (full * (full + 1) * (2 * full + 1)) / 3 * weight
            + 2.0 * (double) ((full + 1) * (full + 1)) * edge;
        assert_true (fabs (spread / 16777216 - variance) < 1e-3 * (1 + variance));
        size_t count = image_bytes (trial.image.height, trial.image.width, trial.image.channels);
        memcpy (values, trial.pixels, count);
        for (int pass = 0; pass < 6; pass++)
            s_box_pass (&trial.image, values, full, weight, edge, pass >= 3);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            if (!levels_use (level))
                continue;
            assert_true (blur_boxes (&trial.image, (double) radius, &room, trial.target));
            s_check_guard (&trial);
            for (size_t index = 0; index < count; index++)
                if (trial.target [index] != values [index])
                    fail_msg ("seed %" PRIu64 ", round %d, radius %g: value %zu is %u, not %u", test_seed (),
                        round, (double) radius, index, trial.target [index], values [index]);
        }
    }
    scratch_free (&room);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_convolution_is_rounded_sum),
        cmocka_unit_test (test_fields_are_summed),
        cmocka_unit_test (test_boxes_equal_their_model),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

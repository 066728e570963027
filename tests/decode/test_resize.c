/*  test_resize -- resizing against Pillow's results, a naive model, and itself by windows.  */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "pipelines.h"
#include "resize.h"
#include "seed.h"

//  Noise, or 0 and 255 only, where rounding and clipping show most.
static uint8_t *
s_noise (uint32_t height, uint32_t width, uint64_t seed)
{
    uint8_t *pixels = malloc (image_bytes (height, width));
    assert_non_null (pixels);
    for (size_t index = 0; index < image_bytes (height, width); index++) {
        uint8_t value = (uint8_t) test_below (&seed, 256);
        pixels [index] = seed % 3? value: value & 1? 255: 0;
    }
    return pixels;
}

//  0 .. bound - 1
static uint32_t
s_up_to (uint64_t *random, uint32_t bound)
{
    return (uint32_t) test_below (random, bound);
}

static image_t
s_view (const uint8_t *pixels, uint32_t width, const image_box_t *box)
{
    image_t whole = { pixels, image_bytes (1, width), 0, width };
    return (image_t) { image_at (&whole, box->top, box->left), whole.stride, box->height, box->width };
}

static void
s_resize (resize_t *resize, const image_t *image, uint32_t height, uint32_t width, uint8_t *target)
{
    image_box_t all = { .height = height, .width = width };
    assert_true (resize_run (resize, image, height, width, &all, target, image_bytes (1, width)));
}

//  FNV-1a, 64 bits.
static uint64_t
s_hash (const uint8_t *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t index = 0; index < size; index++)
        hash = (hash ^ bytes [index]) * 0x100000001b3u;
    return hash;
}

//  What Pillow 9.4 makes of the noise, by make_golden.py: {source, box in it, result, hash of the result}.
static const struct {
    uint32_t height, width;
    image_box_t box;
    uint32_t new_height, new_width;
    uint64_t hash;
} s_golden [] = {
#include "golden/resize.inc"
};

static void
test_equals_pillow (void **state)
{
    (void) state;
    resize_t resize;
    resize_clear (&resize);
    for (size_t index = 0; index < sizeof s_golden / sizeof *s_golden; index++) {
        uint8_t *pixels = s_noise (s_golden [index].height, s_golden [index].width, index);
        image_t image = s_view (pixels, s_golden [index].width, &s_golden [index].box);
        size_t bytes = image_bytes (s_golden [index].new_height, s_golden [index].new_width);
        uint8_t *target = malloc (bytes);
        s_resize (&resize, &image, s_golden [index].new_height, s_golden [index].new_width, target);
        if (s_hash (target, bytes) != s_golden [index].hash)
            fail_msg ("golden resize %zu differs from Pillow's", index);
        free (target);
        free (pixels);
    }
    resize_free (&resize);
}

//  The naive model: one pass over both axes at once, in doubles, every source pixel asked for its weight.
static double
s_weight (uint32_t pixel, uint32_t index, uint32_t side, uint32_t full)
{
    double scale = (double) side / full, reach = scale > 1? scale: 1;
    double distance = fabs (pixel + 0.5 - (index + 0.5) * scale) / reach;
    return distance < 1? 1 - distance: 0;
}

static double
s_model (const image_t *image, uint32_t height, uint32_t width, uint32_t row, uint32_t column, int channel)
{
    double sum = 0, weights = 0;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            double weight = s_weight (y, row, image->height, height)
                * s_weight (x, column, image->width, width);
            sum += weight * image_at (image, y, x) [channel];
            weights += weight;
        }
    return sum / weights;
}

//  Sizes up and down, odd and tiny.  Two roundings to 8 bits, so a result may be 1 off the exact value, plus
//  a hair.
static void
test_equals_the_model (void **state)
{
    (void) state;
    resize_t resize;
    resize_clear (&resize);
    uint64_t random = test_seed ();
    for (int round = 0; round < 300; round++) {
        uint32_t height = 1 + s_up_to (&random, 24), width = 1 + s_up_to (&random, 24);
        uint32_t new_height = 1 + s_up_to (&random, round % 2? 6: 40);
        uint32_t new_width = 1 + s_up_to (&random, round % 3? 6: 40);
        uint8_t *pixels = s_noise (height, width, random), target [40 * 40 * 3];
        image_t image = { pixels, image_bytes (1, width), height, width };
        s_resize (&resize, &image, new_height, new_width, target);
        for (uint32_t index = 0; index < image_bytes (new_height, new_width); index++) {
            uint32_t pixel = index / 3;
            double exact = s_model (&image, new_height, new_width, pixel / new_width, pixel % new_width,
                (int) index % 3);
            if (fabs (target [index] - exact) > 1.01)
                fail_msg ("seed %" PRIu64 ", round %d, byte %u: %d for %g", test_seed (), round, index,
                    target [index], exact);
        }
        free (pixels);
    }
    resize_free (&resize);
}

//  A window of a result is what cropping the whole result gives, and nothing beside it is written.
static void
test_window_is_a_crop_of_the_whole (void **state)
{
    (void) state;
    resize_t resize;
    resize_clear (&resize);
    uint64_t random = test_seed ();
    for (int round = 0; round < 500; round++) {
        uint32_t height = 1 + s_up_to (&random, 50), width = 1 + s_up_to (&random, 50);
        uint32_t full_height = 1 + s_up_to (&random, 60), full_width = 1 + s_up_to (&random, 60);
        image_box_t window = {
            .top = s_up_to (&random, full_height), .left = s_up_to (&random, full_width) };
        window.height = 1 + s_up_to (&random, full_height - window.top);
        window.width = 1 + s_up_to (&random, full_width - window.left);
        uint8_t *pixels = s_noise (height, width, random), whole [60 * 60 * 3], part [60 * 61 * 3];
        image_t image = { pixels, image_bytes (1, width), height, width };
        s_resize (&resize, &image, full_height, full_width, whole);
        size_t stride = 61 * 3, row_bytes = image_bytes (1, window.width);
        memset (part, 0xa5, sizeof part);
        assert_true (resize_run (&resize, &image, full_height, full_width, &window, part, stride));
        for (uint32_t row = 0; row < window.height; row++) {
            const uint8_t *expected = whole + image_bytes (window.top + row, full_width) + window.left * 3;
            assert_memory_equal (part + row * stride, expected, row_bytes);
            for (size_t beside = row_bytes; beside < stride; beside++)
                assert_int_equal (part [row * stride + beside], 0xa5);
        }
        free (pixels);
    }
    resize_free (&resize);
}

//  Cropped first, then resized: what lies around the box does not shine through.
static void
test_box_is_all_it_sees (void **state)
{
    (void) state;
    resize_t resize;
    resize_clear (&resize);
    uint64_t random = test_seed ();
    for (int round = 0; round < 300; round++) {
        image_box_t box = { .top = s_up_to (&random, 9), .left = s_up_to (&random, 9),
            .height = 1 + s_up_to (&random, 9), .width = 1 + s_up_to (&random, 9) };
        uint8_t *pixels = s_noise (20, 20, random), *alone = malloc (image_bytes (box.height, box.width));
        uint8_t inside [30 * 30 * 3], cropped [30 * 30 * 3];
        image_t view = s_view (pixels, 20, &box);
        image_copy (&view, alone, image_bytes (1, box.width));
        image_t copy = { alone, image_bytes (1, box.width), box.height, box.width };
        uint32_t height = 1 + s_up_to (&random, 30), width = 1 + s_up_to (&random, 30);
        s_resize (&resize, &view, height, width, inside);
        s_resize (&resize, &copy, height, width, cropped);
        assert_memory_equal (inside, cropped, image_bytes (height, width));
        free (alone);
        free (pixels);
    }
    resize_free (&resize);
}

//  One colour stays that colour at any size: the weights add up.
static void
test_flat_stays_flat (void **state)
{
    (void) state;
    resize_t resize;
    resize_clear (&resize);
    uint8_t *pixels = malloc (image_bytes (3, 5000)), *target = malloc (image_bytes (7, 4096));
    for (int value = 0; value <= 255; value += 51) {
        memset (pixels, value, image_bytes (3, 5000));
        image_t image = { pixels, image_bytes (1, 5000), 3, 5000 };
        static const uint32_t widths [] = { 1, 2, 3, 224, 1023, 4096 };
        for (size_t index = 0; index < 6; index++) {
            s_resize (&resize, &image, 7, widths [index], target);
            for (size_t byte = 0; byte < image_bytes (7, widths [index]); byte++)
                assert_int_equal (target [byte], value);
        }
    }
    free (pixels);
    free (target);
    resize_free (&resize);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_equals_pillow),
        cmocka_unit_test (test_equals_the_model),
        cmocka_unit_test (test_window_is_a_crop_of_the_whole),
        cmocka_unit_test (test_box_is_all_it_sees),
        cmocka_unit_test (test_flat_stays_flat),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_resize -- every level of the loops against Pillow's results and a plain model of its arithmetic.  */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "instrument.h"
#include "loops.h"
#include "resize.h"
#include "seed.h"

static const resize_filter_t s_filters [] = { RESIZE_NEAREST, RESIZE_BILINEAR, RESIZE_BICUBIC };

//  0 .. bound - 1
static uint32_t
s_up_to (uint64_t *random, uint32_t bound)
{
    return (uint32_t) test_below (random, bound);
}

//  Mostly small, where the borders are, sometimes up to 600.
static uint32_t
s_side (uint64_t *random)
{
    static const uint32_t bounds [] = { 4, 40, 40, 600 };
    return 1 + s_up_to (random, bounds [s_up_to (random, 4)]);
}

//  Noise, or 0 and 255 only, where rounding and clipping show most.
INSTRUMENT_ROWS static void
s_noise (uint8_t *pixels, size_t bytes, uint64_t seed)
{
    for (size_t index = 0; index < bytes; index++) {
        uint8_t value = (uint8_t) test_below (&seed, 256);
        pixels [index] = seed % 3? value: value & 1? 255: 0;
    }
}

//  An image of noise, without gaps; free its pixels.
static image_t
s_image (uint32_t height, uint32_t width, uint32_t channels, uint64_t seed)
{
    uint8_t *pixels = malloc (image_bytes (height, width, channels));
    assert_non_null (pixels);
    s_noise (pixels, image_bytes (height, width, channels), seed);
    return (image_t) { pixels, image_bytes (1, width, channels), height, width, channels };
}

static void
s_free (const image_t *image)
{
    free ((void *) image->pixels);
}

//  False: this machine has not that level.
static bool
s_set_level (loops_level_t level)
{
    if (level == LOOPS_PORTABLE)
        setenv ("TUREEN_SIMD", "portable", 1);
    else
        unsetenv ("TUREEN_SIMD");
    return loops_has (level);
}

//  ---------------------------------------------------------------------------------------------------------
//  The model: what Pillow does, word for word, for the whole result

static double
s_model_filter (resize_filter_t filter, double x)
{
    x = fabs (x);
    if (filter == RESIZE_BILINEAR)
        return x < 1? 1 - x: 0;
    if (x < 1)
        return ((-0.5 + 2) * x - (-0.5 + 3)) * x * x + 1;
    return x < 2? (((x - 5) * x + 8) * x - 4) * -0.5: 0;
}

//  Which source pixels, and their weights, make pixel index of the result; how many.
static int
s_model_weights (resize_filter_t filter, const resize_span_t *span, uint32_t index, int *first_p,
    int32_t *weights)
{
    double scale = span->length / span->full, stretch = scale < 1? 1: scale;
    double support = (filter == RESIZE_BICUBIC? 2: 1) * stretch, center = span->from + (index + 0.5) * scale;
    int first = (int) (center - support + 0.5), end = (int) (center + support + 0.5);
    first = first < 0? 0: first;
    end = end > (int) span->side? (int) span->side: end;
    double total = 0;
    for (int pixel = first; pixel < end; pixel++)
        total += s_model_filter (filter, (pixel - center + 0.5) * (1 / stretch));
    for (int pixel = first; pixel < end; pixel++) {
        double weight = s_model_filter (filter, (pixel - center + 0.5) * (1 / stretch));
        if (total != 0)
            weight /= total;
        weights [pixel - first] = (int) ((weight < 0? -0.5: 0.5) + weight * (1 << 22));
    }
    *first_p = first;
    return end - first;
}

//  One axis of lines: each of `lines` lines has `side` cells, `step` bytes apart, and becomes span->full
//  cells.
INSTRUMENT_ROWS static void
s_model_pass (resize_filter_t filter, const resize_span_t *span, const uint8_t *source, size_t step,
    size_t line_step, size_t lines, uint8_t *target, size_t target_line_step)
{
    static int32_t weights [1 << 18];
    for (uint32_t index = 0; index < span->full; index++) {
        int first, count = s_model_weights (filter, span, index, &first, weights);
        for (size_t line = 0; line < lines; line++) {
            int32_t sum = 1 << 21;
            for (int tap = 0; tap < count; tap++)
                sum += source [line * line_step + (size_t) (first + tap) * step] * weights [tap];
            sum >>= 22;
            target [line * target_line_step + index * step] = (uint8_t) (sum < 0? 0: sum > 255? 255: sum);
        }
    }
}

//  Of NEAREST, Pillow's ImagingScaleAffine: the source pixel of each of the result's.
static uint32_t *
s_model_nearest (const resize_span_t *span)
{
    uint32_t *table = malloc (span->full * sizeof *table);
    assert_non_null (table);
    double step = span->length / span->full, at = span->from + step * 0.5;
    for (uint32_t index = 0; index < span->full; index++, at += step)
        table [index] = (uint32_t) at;
    return table;
}

//  The whole result, without gaps; to be freed.
INSTRUMENT_ROWS static uint8_t *
s_model (resize_filter_t filter, const image_t *image, const resize_span_t *down, const resize_span_t *across)
{
    uint32_t channels = image->channels;
    size_t row_bytes = image_bytes (1, across->full, channels);
    uint8_t *result = malloc (down->full * row_bytes);
    assert_non_null (result);
    if (filter == RESIZE_NEAREST) {
        uint32_t *rows = s_model_nearest (down), *columns = s_model_nearest (across);
        for (uint32_t row = 0; row < down->full; row++)
            for (uint32_t column = 0; column < across->full; column++)
                for (uint32_t channel = 0; channel < channels; channel++)
                    result [row * row_bytes + column * channels + channel] =
                        image_at (image, rows [row], columns [column]) [channel];
        free (rows);
        free (columns);
        return result;
    }
    uint8_t *between = malloc (image->height * row_bytes);
    assert_non_null (between);
    for (uint32_t channel = 0; channel < channels; channel++)
        s_model_pass (filter, across, image->pixels + channel, channels, image->stride, image->height,
            between + channel, row_bytes);
    s_model_pass (filter, down, between, row_bytes, 1, row_bytes, result, 1);
    free (between);
    return result;
}

//  Rows become columns.
INSTRUMENT_ROWS static image_t
s_turned (const image_t *image)
{
    image_t turned = s_image (image->width, image->height, image->channels, 0);
    uint8_t *to = (uint8_t *) turned.pixels;
    for (uint32_t row = 0; row < turned.height; row++)
        for (uint32_t column = 0; column < turned.width; column++, to += image->channels)
            memcpy (to, image_at (image, column, row), image->channels);
    return turned;
}

//  Down first is across first of a turned image, turned back.
static uint8_t *
s_model_in_order (resize_filter_t filter, bool down_first, const image_t *image, const resize_span_t *down,
    const resize_span_t *across)
{
    if (!down_first)
        return s_model (filter, image, down, across);
    image_t turned = s_turned (image);
    uint8_t *whole = s_model (filter, &turned, across, down);
    s_free (&turned);
    image_t made = { whole, image_bytes (1, down->full, image->channels), across->full, down->full,
        image->channels };
    image_t back = s_turned (&made);
    free (whole);
    return (uint8_t *) back.pixels;
}

//  ---------------------------------------------------------------------------------------------------------
//  Comparing

enum { GUARD = 64, GUARD_VALUE = 0xa5 };

//  A copy of the needed part of image, perhaps with a little more around it, in a block of its own that ends
//  with its last pixel, so that the address sanitizer sees a look beyond it.  Between its rows are a few
//  bytes of noise.
INSTRUMENT_ROWS static image_t
s_have (const image_t *image, resize_filter_t filter, const resize_span_t *down, const resize_span_t *across,
    uint32_t *top_p, uint32_t *left_p, uint64_t *random)
{
    image_box_t box;
    resize_needs (filter, down, &box.top, &box.height);
    resize_needs (filter, across, &box.left, &box.width);
    assert_true (box.height > 0 && box.top + box.height <= image->height);
    assert_true (box.width > 0 && box.left + box.width <= image->width);
    uint32_t more_top = s_up_to (random, 2) * s_up_to (random, box.top + 1);
    uint32_t more_left = s_up_to (random, 2) * s_up_to (random, box.left + 1);
    box = (image_box_t) { box.top - more_top, box.left - more_left, box.height + more_top,
        box.width + more_left };
    box.height += s_up_to (random, 2) * s_up_to (random, image->height - box.top - box.height + 1);
    box.width += s_up_to (random, 2) * s_up_to (random, image->width - box.left - box.width + 1);
    size_t row_bytes = image_bytes (1, box.width, image->channels), stride = row_bytes + s_up_to (random, 8);
    uint8_t *pixels = malloc ((box.height - 1) * stride + row_bytes);
    assert_non_null (pixels);
    s_noise (pixels, (box.height - 1) * stride + row_bytes, *random);
    for (uint32_t row = 0; row < box.height; row++)
        memcpy (pixels + row * stride, image_at (image, box.top + row, box.left), row_bytes);
    *top_p = box.top;
    *left_p = box.left;
    return (image_t) { pixels, stride, box.height, box.width, image->channels };
}

//  Runs the window on have, and compares it with that part of the whole result; around it nothing is written.
INSTRUMENT_ROWS static void
s_compare (resize_t *resize, resize_filter_t filter, bool down_first, const image_t *have, uint32_t top,
    uint32_t left, const resize_span_t *down, const resize_span_t *across, const uint8_t *whole,
    size_t stride)
{
    size_t row_bytes = image_bytes (1, across->count, have->channels);
    size_t bytes = down->count * stride;
    uint8_t *target = malloc (bytes + 2 * GUARD);
    assert_non_null (target);
    memset (target, GUARD_VALUE, bytes + 2 * GUARD);
    assert_true (resize_run (resize, filter, down_first, have, top, left, down, across, target + GUARD,
        stride));
    const uint8_t *expected = whole + image_bytes (down->begin, across->full, have->channels)
        + image_bytes (1, across->begin, have->channels);
    size_t wrong = 0;
    for (uint32_t row = 0; row < down->count;
        row++, expected += image_bytes (1, across->full, have->channels)) {
        const uint8_t *got = target + GUARD + row * stride;
        wrong += memcmp (got, expected, row_bytes) != 0;
        for (size_t beside = row_bytes; beside < stride; beside++)
            wrong += got [beside] != GUARD_VALUE;
    }
    for (size_t index = 0; index < GUARD; index++)
        wrong += target [index] != GUARD_VALUE || target [GUARD + bytes + index] != GUARD_VALUE;
    free (target);
    if (wrong)
        fail_msg ("seed %" PRIu64 ": filter %d, down first %d, level %d, %u channels: %u (%g + %g) x %u "
            "(%g + %g) to %u x %u differs", test_seed (), (int) filter, down_first, (int) loops_level (),
            have->channels, down->side, down->from,
            down->length, across->side, across->from, across->length, down->full, across->full);
}

//  Every level against the model, in one of the orders.
static void
s_check (resize_t *resize, resize_filter_t filter, const image_t *image, const resize_span_t *down,
    const resize_span_t *across, uint64_t *random)
{
    bool down_first = s_up_to (random, 2);
    uint8_t *whole = s_model_in_order (filter, down_first, image, down, across);
    for (loops_level_t level = LOOPS_PORTABLE; level < LOOPS_LEVELS; level++) {
        if (!s_set_level (level))
            continue;
        uint32_t top, left;
        image_t have = s_have (image, filter, down, across, &top, &left, random);
        size_t stride = image_bytes (1, across->count, image->channels) + s_up_to (random, 8);
        s_compare (resize, filter, down_first, &have, top, left, down, across, whole, stride);
        s_free (&have);
    }
    free (whole);
}

static void
s_take_window (resize_span_t *span, uint64_t *random)
{
    span->begin = s_up_to (random, span->full);
    span->count = 1 + s_up_to (random, span->full - span->begin);
}

//  Any part of the source, in fractions; now and then one that ends a little behind it, as a scale's rounding
//  has it.
static void
s_take_fraction (resize_span_t *span, uint64_t *random)
{
    span->from = span->side * (s_up_to (random, 1000) / 1000.);
    span->length = (span->side - span->from) * ((1 + s_up_to (random, 1000)) / 1000.);
    if (s_up_to (random, 8) == 0)
        span->length = span->side - span->from + 0.4;
}

//  ---------------------------------------------------------------------------------------------------------
//  Cases

//  What Pillow 9.4 makes of the noise, by make_golden_resize.py.
typedef struct {
    resize_filter_t filter;
    uint32_t channels, height, width;
    struct { double top, rows, left, columns; } box;
    uint32_t new_height, new_width;
    uint64_t hash;
} golden_t;

static const golden_t s_golden [] = {
#include "golden/resize.inc"
};

enum { GOLDEN_COUNT = sizeof s_golden / sizeof *s_golden };

static void
s_golden_spans (const golden_t *golden, resize_span_t *down, resize_span_t *across)
{
    *down = resize_whole (golden->height, golden->new_height);
    *across = resize_whole (golden->width, golden->new_width);
    down->from = golden->box.top;
    down->length = golden->box.rows;
    across->from = golden->box.left;
    across->length = golden->box.columns;
}

//  FNV-1a, 64 bits.
INSTRUMENT_ROWS static uint64_t
s_hash (const uint8_t *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t index = 0; index < size; index++)
        hash = (hash ^ bytes [index]) * 0x100000001b3u;
    return hash;
}

//  Every filter and level gives Pillow's bytes, of whole images and of boxes with fractions; so does the
//  model.
static void
test_pillow_gives_the_same (void **state)
{
    for (size_t index = 0; index < GOLDEN_COUNT; index++) {
        const golden_t *golden = &s_golden [index];
        resize_span_t down, across;
        s_golden_spans (golden, &down, &across);
        image_t image = s_image (golden->height, golden->width, golden->channels, index);
        uint8_t *whole = s_model (golden->filter, &image, &down, &across);
        if (s_hash (whole, image_bytes (down.full, across.full, image.channels)) != golden->hash)
            fail_msg ("golden resize %zu: the model differs from Pillow", index);
        for (loops_level_t level = LOOPS_PORTABLE; level < LOOPS_LEVELS; level++)
            if (s_set_level (level))
                s_compare (*state, golden->filter, false, &image, 0, 0, &down, &across, whole,
                    image_bytes (1, across.full, image.channels));
        free (whole);
        s_free (&image);
    }
}

//  Any size becomes any other, of images and masks; source and target have odd strides.
static void
test_any_size_becomes_any_other (void **state)
{
    uint64_t random = test_seed ();
    for (int round = 0; round < 250; round++) {
        image_t image = s_image (s_side (&random), s_side (&random), round % 3? IMAGE_COLOURS: 1, random);
        resize_span_t down = resize_whole (image.height, s_side (&random));
        resize_span_t across = resize_whole (image.width, s_side (&random));
        s_check (*state, s_filters [s_up_to (&random, 3)], &image, &down, &across, &random);
        s_free (&image);
    }
}

//  No side from 1 to 600 is special, in either direction: the ends of vectors, blocks and chunks lie
//  everywhere.
static void
test_every_side_is_resized (void **state)
{
    uint64_t random = test_seed ();
    for (uint32_t side = 1; side <= 600; side++) {
        uint32_t other = 1 + s_up_to (&random, 9), full = side % 2? 1 + s_up_to (&random, 600): side;
        uint32_t length = side % 2? side: 1 + s_up_to (&random, 600),
            channels = s_up_to (&random, 3)? IMAGE_COLOURS: 1;
        resize_filter_t filter = s_filters [1 + s_up_to (&random, 2)];
        image_t wide = s_image (other, length, channels, random),
            high = s_image (length, other, channels, random);
        resize_span_t along = resize_whole (length, full),
            beside = resize_whole (other, 1 + s_up_to (&random, 9));
        s_check (*state, filter, &wide, &beside, &along, &random);
        s_check (*state, filter, &high, &along, &beside, &random);
        s_free (&wide);
        s_free (&high);
    }
}

//  A window is what the whole result has there, whatever part of the source is at hand, also for spans with
//  fractions.
static void
test_window_of_a_part_is_the_same (void **state)
{
    uint64_t random = test_seed ();
    for (int round = 0; round < 500; round++) {
        image_t image = s_image (s_side (&random), s_side (&random), round % 3? IMAGE_COLOURS: 1, random);
        resize_span_t down = resize_whole (image.height, s_side (&random));
        resize_span_t across = resize_whole (image.width, s_side (&random));
        resize_filter_t filter = s_filters [s_up_to (&random, 3)];
        //  A nearest pixel must be in the source: the model does not ask.
        if (round % 2 && filter != RESIZE_NEAREST) {
            s_take_fraction (&down, &random);
            s_take_fraction (&across, &random);
        }
        s_take_window (&down, &random);
        s_take_window (&across, &random);
        s_check (*state, filter, &image, &down, &across, &random);
        s_free (&image);
    }
}

//  A side that keeps its size is passed by, not filtered, wherever in the source it begins; one that begins
//  at a fraction, or shows less of the source at the same size, is not.
static void
test_same_size_is_copied (void **state)
{
    uint64_t random = test_seed ();
    for (int round = 0; round < 240; round++) {
        uint32_t height = 2 + s_up_to (&random, 50), width = 2 + s_up_to (&random, 50);
        image_t image = s_image (height, width, round % 2? IMAGE_COLOURS: 1, random);
        resize_span_t down = resize_whole (height, height);
        resize_span_t across = resize_whole (width, round % 3? width: 1 + s_up_to (&random, 50));
        down.from = s_up_to (&random, height - 1) + (round % 5 == 1? 0.5: 0);
        down.length = height - (uint32_t) down.from - (round % 5 == 1? 1: 0);
        if (round % 5 != 2)
            down.full = (uint32_t) down.length;
        s_take_window (&down, &random);
        s_take_window (&across, &random);
        s_check (*state, s_filters [s_up_to (&random, 3)], &image, &down, &across, &random);
        //  The same the other way round.
        image_t turned = s_image (width, height, image.channels, random);
        s_check (*state, s_filters [s_up_to (&random, 3)], &turned, &across, &down, &random);
        s_free (&turned);
        s_free (&image);
    }
}

//  One colour stays that colour at any size: the weights add up.
static void
test_flat_stays_flat (void **state)
{
    enum { HEIGHT = 5, WIDTH = 5000, ROOM = 4096 };
    static const uint32_t widths [] = { 1, 2, 3, 224, 1023, ROOM };
    uint8_t *pixels = malloc (image_bytes (HEIGHT, WIDTH, IMAGE_COLOURS));
    uint8_t *whole = malloc (image_bytes (7, ROOM, IMAGE_COLOURS));
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t width = widths [round % 6];
        int value = (int) (255 - 51 * (round / 2));
        memset (pixels, value, image_bytes (HEIGHT, WIDTH, IMAGE_COLOURS));
        memset (whole, value, image_bytes (7, width, IMAGE_COLOURS));
        image_t image = { pixels, image_bytes (1, WIDTH, IMAGE_COLOURS), HEIGHT, WIDTH, IMAGE_COLOURS };
        resize_span_t down = resize_whole (HEIGHT, 7), across = resize_whole (WIDTH, width);
        for (loops_level_t level = LOOPS_PORTABLE; level < LOOPS_LEVELS; level++)
            if (s_set_level (level))
                s_compare (*state, s_filters [1 + round % 2], false, &image, 0, 0, &down, &across, whole,
                    image_bytes (1, width, IMAGE_COLOURS));
    }
    free (pixels);
    free (whole);
}

//  Thousands of pixels become one: sums do not overflow, and the work between turnings stays small.
static void
test_thousands_become_a_few (void **state)
{
    static const uint32_t sides [] [2] = { { 4, 60000 }, { 60000, 4 }, { 5, 700 }, { 700, 33 } };
    uint64_t random = test_seed ();
    for (int round = 0; round < 8; round++) {
        image_t image = s_image (sides [round / 2] [0], sides [round / 2] [1], IMAGE_COLOURS, random);
        if (round % 2)
            memset ((void *) image.pixels, 255, image_bytes (image.height, image.width, IMAGE_COLOURS));
        resize_span_t down = resize_whole (image.height, 1 + s_up_to (&random, 3));
        resize_span_t across = resize_whole (image.width, 1 + s_up_to (&random, 3));
        s_check (*state, s_filters [1 + s_up_to (&random, 2)], &image, &down, &across, &random);
        s_free (&image);
    }
}

static int
s_begin (void **state)
{
    *state = resize_new ();
    return *state? 0: -1;
}

static int
s_end (void **state)
{
    resize_t *resize = *state;
    resize_destroy (&resize);
    resize_destroy (&resize);
    return unsetenv ("TUREEN_SIMD");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_pillow_gives_the_same),
        cmocka_unit_test (test_any_size_becomes_any_other),
        cmocka_unit_test (test_every_side_is_resized),
        cmocka_unit_test (test_window_of_a_part_is_the_same),
        cmocka_unit_test (test_same_size_is_copied),
        cmocka_unit_test (test_flat_stays_flat),
        cmocka_unit_test (test_thousands_become_a_few),
    };
    return cmocka_run_group_tests (tests, s_begin, s_end);
}

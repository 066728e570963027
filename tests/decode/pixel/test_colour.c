/*  test_colour -- colour steps against Pillow's results, and against a model that does them one pixel at a
 *  time.  */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "colour.h"
#include "levels.h"
#include "seed.h"

enum { STEPS_MAX = 5, FILLER = 0xa5, HUES_HEIGHT = 6 * 256, HUES_WIDTH = 256 };

typedef struct {
    uint32_t height;
    uint32_t width;
    uint8_t *pixels;
} picture_t;

static picture_t
s_picture_new (uint32_t height, uint32_t width)
{
    picture_t picture = { height, width, malloc (image_bytes (height, width, IMAGE_COLOURS)) };
    assert_non_null (picture.pixels);
    return picture;
}

//  Noise: of all values, of 0 and 255, nearly grey, or of 16 values with hues that often lie on whole
//  numbers.
static picture_t
s_picture (uint32_t height, uint32_t width, uint64_t seed)
{
    picture_t picture = s_picture_new (height, width);
    uint64_t kind = seed % 4;
    for (size_t pixel = 0; pixel < (size_t) height * width; pixel++) {
        uint64_t number = test_below (&seed, UINT64_MAX);
        for (size_t channel = 0; channel < IMAGE_COLOURS; channel++) {
            uint64_t byte = number >> 8 * channel & 255, grey = (number >> 24 & 255) + byte % 12;
            byte = kind == 1? (byte & 1) * 255: kind == 2? (grey < 255? grey: 255): kind == 3? byte / 17 * 17:
                byte;
            picture.pixels [pixel * IMAGE_COLOURS + channel] = (uint8_t) byte;
        }
    }
    return picture;
}

//  Each mix of a full channel, an empty one and one between, at every saturation.
static picture_t
s_all_hues (void)
{
    static const int orders [6] [IMAGE_COLOURS]
        = { { 0, 1, 2 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 1, 0 }, { 2, 0, 1 }, { 0, 2, 1 } };
    picture_t picture = s_picture_new (HUES_HEIGHT, HUES_WIDTH);
    uint8_t *pixel = picture.pixels;
    for (int row = 0; row < HUES_HEIGHT; row++)
        for (int column = 0; column < HUES_WIDTH; column++, pixel += IMAGE_COLOURS) {
            const int *order = orders [row / 256];
            int span = row % 256;
            pixel [order [0]] = 255;
            pixel [order [1]] = (uint8_t) (255 - (column < span? column: span));
            pixel [order [2]] = (uint8_t) (255 - span);
        }
    return picture;
}

static void
s_run (const colour_program_t *program, picture_t *picture)
{
    colour_program_t measured = *program;
    size_t stride = image_bytes (1, picture->width, IMAGE_COLOURS);
    image_t image = { picture->pixels, stride, picture->height, picture->width, IMAGE_COLOURS };
    uint8_t *row = malloc (stride);
    colour_measure (&measured, &image, row);
    colour_pass_t pass;
    colour_begin (&pass, &measured, measured.count);
    for (uint32_t index = 0; index < picture->height; index++)
        colour_run (&pass, picture->pixels + index * stride, picture->width);
    free (row);
}

//  ---------------------------------------------------------------------------------------------------------
//  Pillow's results

//  FNV-1a, 64 bits.
static uint64_t
s_hash (const picture_t *picture)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t index = 0; index < image_bytes (picture->height, picture->width, IMAGE_COLOURS); index++)
        hash = (hash ^ picture->pixels [index]) * 0x100000001b3u;
    return hash;
}

//  By make_golden_colour.py; seed 0 is s_all_hues.
static const struct {
    uint32_t height, width;
    uint64_t seed;
    size_t count;
    colour_step_t steps [STEPS_MAX];
    uint64_t hash;
} s_golden [] = {
#include "golden/colour.inc"
};

static void
test_equals_pillow (void **state)
{
    (void) state;
    for (loops_level_t level = 0; level < LOOPS_LEVELS; level++)
        for (size_t index = 0; levels_use (level) && index < sizeof s_golden / sizeof *s_golden; index++) {
            picture_t picture = s_golden [index].seed
                ? s_picture (s_golden [index].height, s_golden [index].width, s_golden [index].seed):
                s_all_hues ();
            colour_program_t program = { .count = 0 };
            for (size_t step = 0; step < s_golden [index].count; step++)
                assert_true (colour_add (&program, s_golden [index].steps [step].kind,
                    s_golden [index].steps [step].factor));
            s_run (&program, &picture);
            if (s_hash (&picture) != s_golden [index].hash)
                fail_msg ("level %d: golden picture %zu differs from Pillow's", level, index);
            free (picture.pixels);
        }
}

//  ---------------------------------------------------------------------------------------------------------
//  The model: Pillow's arithmetic, as it is written there, types and all

static int
s_model_grey (const uint8_t *pixel)
{
    return (19595 * pixel [0] + 38470 * pixel [1] + 7471 * pixel [2] + 32768) / 65536;
}

static uint8_t
s_model_blend (int from, int to, double factor)
{
    float alpha = (float) factor;
    float value = (float) from + alpha * (float) (to - from);
    return value <= 0? 0: value >= 255? 255: (uint8_t) value;
}

static void
s_model_hsv (const uint8_t *rgb, uint8_t *hsv)
{
    int most = 0, least = 255;
    for (int channel = 0; channel < IMAGE_COLOURS; channel++) {
        most = rgb [channel] > most? rgb [channel]: most;
        least = rgb [channel] < least? rgb [channel]: least;
    }
    hsv [0] = hsv [1] = 0;
    hsv [2] = (uint8_t) most;
    if (most == least)
        return;
    float span = (float) (most - least), saturation = span / (float) most;
    float red = (float) (most - rgb [0]) / span;
    float green = (float) (most - rgb [1]) / span;
    float blue = (float) (most - rgb [2]) / span;
    float hue = rgb [0] == most? blue - green: rgb [1] == most? (float) (2.0 + red - blue)
        : (float) (4.0 + green - red);
    hue = (float) fmod (hue / 6.0 + 1.0, 1.0);
    hsv [0] = (uint8_t) (int) (hue * 255.0);
    hsv [1] = (uint8_t) (int) (saturation * 255.0);
}

static void
s_model_rgb (const uint8_t *hsv, uint8_t *rgb)
{
    int sixth = (int) floor (hsv [0] * 6.0 / 255.0);
    float along = (float) (hsv [0] * 6.0 / 255.0 - sixth), saturation = (float) (hsv [1] / 255.0);
    float value = hsv [2];
    uint8_t v = hsv [2];
    uint8_t p = (uint8_t) round (value * (1.0 - saturation));
    uint8_t q = (uint8_t) round (value * (1.0 - saturation * along));
    uint8_t t = (uint8_t) round (value * (1.0 - saturation * (1.0 - along)));
    const uint8_t colours [6] [IMAGE_COLOURS]
        = { { v, t, p }, { q, v, p }, { p, v, t }, { p, q, v }, { t, p, v }, { v, p, q } };
    memcpy (rgb, colours [sixth % 6], IMAGE_COLOURS);
}

static void
s_model_pixel (uint8_t *pixel, const colour_step_t *step, int mean)
{
    int grey = s_model_grey (pixel);
    if (step->kind == COLOUR_HUE) {
        uint8_t hsv [IMAGE_COLOURS];
        s_model_hsv (pixel, hsv);
        hsv [0] = (uint8_t) (hsv [0] + (int) (step->factor * 255));
        s_model_rgb (hsv, pixel);
        return;
    }
    for (int channel = 0; channel < IMAGE_COLOURS; channel++) {
        int from = step->kind == COLOUR_BRIGHTNESS? 0: step->kind == COLOUR_CONTRAST? mean: grey;
        pixel [channel] = s_model_blend (from, pixel [channel], step->kind == COLOUR_GREY? 0: step->factor);
    }
}

static int
s_model_auto_contrast (const int *histogram, int value)
{
    int low = 0, high = 255;
    while (low < 255 && histogram [low] == 0)
        low++;
    while (high > 0 && histogram [high] == 0)
        high--;
    if (high <= low)
        return value;
    double scale = 255.0 / (high - low), offset = -low * scale;
    int stretched = (int) (value * scale + offset);
    return stretched < 0? 0: stretched > 255? 255: stretched;
}

static int
s_model_equalize (const int *histogram, int value)
{
    int all = 0, kinds = 0, last = 0, below = 0;
    for (int other = 0; other < 256; other++) {
        all += histogram [other];
        kinds += histogram [other] > 0;
        last = histogram [other]? histogram [other]: last;
        below += other < value? histogram [other]: 0;
    }
    int step = (all - last) / 255;
    if (kinds <= 1 || step == 0)
        return value;
    int equalized = (step / 2 + below) / step;
    return equalized > 255? 255: equalized;
}

static int
s_model_point (const colour_step_t *step, const int *histogram, int value)
{
    switch (step->kind) {
    case COLOUR_INVERT:
        return 255 - value;
    case COLOUR_POSTERIZE:
        return value & ~((1 << (8 - (int) step->factor)) - 1);
    case COLOUR_SOLARIZE:
        return value < step->factor? value: 255 - value;
    case COLOUR_AUTOCONTRAST:
        return s_model_auto_contrast (histogram, value);
    default:
        return s_model_equalize (histogram, value);
    }
}

static void
s_model_points (const colour_step_t *step, picture_t *picture)
{
    size_t pixels = (size_t) picture->height * picture->width;
    for (size_t channel = 0; channel < IMAGE_COLOURS; channel++) {
        uint8_t *first = picture->pixels + channel;
        int histogram [256] = { 0 };
        for (size_t pixel = 0; pixel < pixels; pixel++)
            histogram [first [pixel * IMAGE_COLOURS]]++;
        for (size_t pixel = 0; pixel < pixels; pixel++)
            first [pixel * IMAGE_COLOURS]
                = (uint8_t) s_model_point (step, histogram, first [pixel * IMAGE_COLOURS]);
    }
}

static void
s_model (const colour_step_t *steps, size_t count, picture_t *picture)
{
    size_t pixels = (size_t) picture->height * picture->width;
    for (size_t step = 0; step < count; step++) {
        if (steps [step].kind > COLOUR_GREY) {
            s_model_points (&steps [step], picture);
            continue;
        }
        double sum = 0;
        for (size_t pixel = 0; pixel < pixels; pixel++)
            sum += s_model_grey (picture->pixels + pixel * IMAGE_COLOURS);
        int mean = (int) (sum / (double) pixels + 0.5);
        for (size_t pixel = 0; pixel < pixels; pixel++)
            s_model_pixel (picture->pixels + pixel * IMAGE_COLOURS, &steps [step], mean);
    }
}

static double
s_draw_factor (colour_kind_t kind, uint64_t *random)
{
    double part = (double) test_below (random, 100000) / 99999;
    if (kind == COLOUR_HUE)
        return part == 0.5? 0.25: part - 0.5;
    if (kind == COLOUR_POSTERIZE)
        return (double) test_below (random, 9);
    if (kind == COLOUR_SOLARIZE)
        return test_below (random, 2)? (double) test_below (random, 257): 256 * part;
    static const double usual [] = { 0, 1, 0.5, 2, 1e30 };
    uint64_t choice = test_below (random, 12);
    return choice < 5? usual [choice]: choice < 10? 2 * part: 12 * part;
}

//  Any steps on any picture, rows of every length up to 600, at each level.
static void
test_equals_the_model (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (uint32_t width = 1; width <= 600; width++) {
        uint32_t height = 1 + (uint32_t) test_below (&random, 3);
        uint64_t seed = test_below (&random, UINT64_MAX);
        colour_step_t steps [STEPS_MAX];
        colour_program_t program = { .count = 0 };
        size_t count = 1 + test_below (&random, STEPS_MAX);
        for (size_t step = 0; step < count; step++) {
            bool has_room = colour_has_room (&program, 1);
            steps [step].kind = (colour_kind_t) test_below (&random,
                has_room? COLOUR_EQUALIZE + 1: COLOUR_AUTOCONTRAST);
            steps [step].factor = s_draw_factor (steps [step].kind, &random);
            assert_true (colour_add (&program, steps [step].kind, steps [step].factor));
        }
        picture_t expected = s_picture (height, width, seed);
        s_model (steps, count, &expected);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            picture_t picture = s_picture (height, width, seed);
            if (levels_use (level))
                s_run (&program, &picture);
            if (levels_use (level) && memcmp (picture.pixels, expected.pixels,
                image_bytes (height, width, 3)))
                fail_msg ("seed %" PRIu64 ", level %d, width %u", test_seed (), level, width);
            free (picture.pixels);
        }
        free (expected.pixels);
    }
}

//  Every hue and saturation, turned by a few of 256.
static void
test_every_hue_equals_the_model (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 2; round++) {
        colour_step_t step = { .kind = COLOUR_HUE, .factor = s_draw_factor (COLOUR_HUE, &random) };
        colour_program_t program = { .count = 0 };
        colour_add (&program, COLOUR_HUE, step.factor);
        picture_t expected = s_all_hues ();
        s_model (&step, 1, &expected);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            if (!levels_use (level))
                continue;
            picture_t picture = s_all_hues ();
            s_run (&program, &picture);
            assert_memory_equal (picture.pixels, expected.pixels, HUES_HEIGHT * HUES_WIDTH * IMAGE_COLOURS);
            free (picture.pixels);
        }
        free (expected.pixels);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  The rest

//  The mean is that of a view: what lies beside its rows does not count; and nothing but width pixels is
//  written.
static void
test_keeps_to_its_pixels (void **state)
{
    (void) state;
    for (loops_level_t level = 0; level < LOOPS_LEVELS; level++)
        for (uint32_t width = 1; levels_use (level) && width < 300; width += 7) {
            enum { ROOM = 320 * IMAGE_COLOURS };
            uint8_t pixels [3 * ROOM], row [ROOM];
            memset (pixels, 255, sizeof pixels);
            size_t bytes = image_bytes (1, width, IMAGE_COLOURS);
            for (size_t index = 0; index < 3; index++)
                memset (pixels + index * ROOM, 10, bytes);
            image_t image = { pixels, ROOM, 3, width, IMAGE_COLOURS };
            colour_program_t program = { .count = 0 };
            colour_add (&program, COLOUR_HUE, 0.25);
            colour_add (&program, COLOUR_CONTRAST, 0);
            memset (row, FILLER, sizeof row);
            colour_measure (&program, &image, row);
            assert_int_equal (program.steps [1].mean, 10);
            memcpy (row, pixels, bytes);
            colour_pass_t pass;
            colour_begin (&pass, &program, program.count);
            colour_run (&pass, row, width);
            for (size_t index = 0; index < sizeof row; index++)
                assert_int_equal (row [index], index < bytes? 10: FILLER);
        }
}

//  A factor that is infinite in 32 bits still leaves alone what is equal to the mean, or black, or grey.
static void
test_huge_factors_do_as_large_ones (void **state)
{
    (void) state;
    for (colour_kind_t kind = COLOUR_BRIGHTNESS; kind <= COLOUR_SATURATION; kind++) {
        picture_t pictures [2] = { s_picture (20, 30, 5), s_picture (20, 30, 5) };
        for (int index = 0; index < 2; index++) {
            colour_program_t program = { .count = 0 };
            colour_add (&program, kind, index? 1e300: 1e20);
            s_run (&program, &pictures [index]);
        }
        assert_memory_equal (pictures [0].pixels, pictures [1].pixels, 20 * 30 * IMAGE_COLOURS);
        free (pictures [0].pixels);
        free (pictures [1].pixels);
    }
}

//  Steps that change nothing take no room; a full program says so.
static void
test_a_full_program_refuses (void **state)
{
    (void) state;
    colour_program_t program = { .count = 0 };
    for (int step = 0; step < COLOUR_STEPS_MAX; step++) {
        assert_true (colour_add (&program, COLOUR_BRIGHTNESS, 1));
        assert_true (colour_add (&program, COLOUR_HUE, 0));
        assert_int_equal (program.count, step);
        assert_true (colour_add (&program, COLOUR_CONTRAST, 1.01));
    }
    assert_false (colour_add (&program, COLOUR_SATURATION, 0.5));
    assert_true (colour_add (&program, COLOUR_SATURATION, 1));
    picture_t picture = s_picture (2, 9, 4);
    s_run (&program, &picture);
    free (picture.pixels);
}

//  Tables are few: another such step is refused, any other is not.
static void
test_tables_are_bounded (void **state)
{
    (void) state;
    colour_program_t program = { .count = 0 };
    for (int step = 0; step < COLOUR_TABLES_MAX; step++) {
        assert_true (colour_has_room (&program, COLOUR_STEPS_MAX - (size_t) step));
        assert_true (colour_add (&program, step % 2? COLOUR_EQUALIZE: COLOUR_AUTOCONTRAST, 0));
    }
    assert_false (colour_has_room (&program, 1));
    assert_false (colour_add (&program, COLOUR_EQUALIZE, 0));
    assert_true (colour_add (&program, COLOUR_INVERT, 0));
    assert_int_equal (program.count, COLOUR_TABLES_MAX + 1);
}

//  Pillow's SMOOTH in floats, as it sums it, and the blend; images without an inside stay as they are.
static int
s_model_smooth (const picture_t *picture, uint32_t row, uint32_t column, size_t channel)
{
    float sum = 0.5f;
    for (int down = 1; down >= -1; down--)
        for (int across = -1; across <= 1; across++) {
            size_t pixel = (size_t) (row + (uint32_t) down) * picture->width + (column + (uint32_t) across);
            float weight = (float) (down || across? 1: 5) / 13;
            sum += picture->pixels [pixel * IMAGE_COLOURS + channel] * weight;
        }
    return (int) sum;
}

static uint8_t
s_model_sharpen (const picture_t *picture, uint32_t row, uint32_t column, size_t channel, double factor)
{
    uint8_t value = picture->pixels [((size_t) row * picture->width + column) * IMAGE_COLOURS + channel];
    bool is_inside = row > 0 && row + 1 < picture->height && column > 0 && column + 1 < picture->width;
    return is_inside? s_model_blend (s_model_smooth (picture, row, column, channel), value, factor): value;
}

static void
test_sharpness (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (uint32_t width = 1; width <= 150; width++) {
        uint32_t height = 1 + (uint32_t) test_below (&random, 6);
        picture_t picture = s_picture (height, width, test_below (&random, UINT64_MAX));
        double factor = s_draw_factor (COLOUR_SATURATION, &random);
        size_t row_bytes = image_bytes (1, width, IMAGE_COLOURS), stride = row_bytes + 5;
        image_t image = { picture.pixels, row_bytes, height, width, IMAGE_COLOURS };
        uint8_t *target = malloc (stride * height);
        for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
            if (!levels_use (level))
                continue;
            memset (target, FILLER, stride * height);
            colour_sharpen (&image, factor, target, stride);
            for (uint32_t row = 0; row < height; row++)
                for (size_t index = 0; index < stride; index++) {
                    uint8_t expected = index >= row_bytes? FILLER: s_model_sharpen (&picture, row,
                        (uint32_t) (index / IMAGE_COLOURS), index % IMAGE_COLOURS, factor);
                    if (target [row * stride + index] != expected)
                        fail_msg ("seed %" PRIu64 ", level %d: %u x %u, factor %g: byte %zu of row %u",
                            test_seed (), level, width, height, factor, index, row);
                }
        }
        free (target);
        free (picture.pixels);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_equals_pillow),
        cmocka_unit_test (test_equals_the_model),
        cmocka_unit_test (test_every_hue_equals_the_model),
        cmocka_unit_test (test_keeps_to_its_pixels),
        cmocka_unit_test (test_huge_factors_do_as_large_ones),
        cmocka_unit_test (test_a_full_program_refuses),
        cmocka_unit_test (test_tables_are_bounded),
        cmocka_unit_test (test_sharpness),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

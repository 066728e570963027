/*  test_remap_affine -- affine maps beside Pillow's loops, written down as plainly as they can be; parity
 *  with Pillow itself is tests/decode/test_parity.py's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "remap.h"
#include "seed.h"

enum { ROUNDS = 3000, SIDE_MAX = 24, FILLER = 0xa5, GUARD = 16 };

static uint32_t
s_side (uint64_t *random)
{
    return 1 + (uint32_t) test_below (random, SIDE_MAX);
}

//  A number of every size that may come, whole or not.
static double
s_number (uint64_t *random)
{
    static const double sizes [] = { 0.01, 1, 1, 3, 30, 40000, 1e12, 1e32 };
    double number = ((double) test_below (random, 2001) / 1000 - 1) * sizes [test_below (random, 8)];
    return test_below (random, 3)? number: rint (number);
}

//  Mostly near an image, as maps are; at times anywhere.
static void
s_make_matrix (uint64_t *random, double matrix [6])
{
    uint64_t kind = test_below (random, 6);
    double turn = (double) test_below (random, 6284) / 1000;
    double scale = 0.3 + (double) test_below (random, 20) / 10;
    const double near [6] = { cos (turn) * scale, sin (turn), s_number (random), -sin (turn),
        cos (turn) * scale, 5 - (double) test_below (random, 10) };
    const double straight [6] = { scale, 0, s_number (random), 0, -scale, 7.5 };
    const double shift [6] = { 1, 0, (double) test_below (random, 40) - 20, 0, 1,
        (double) test_below (random, 40) - 20 };
    const double quarter [6] = { 0, -1, (double) test_below (random, 30), 1, 0, 0 };
    memcpy (matrix, kind == 0? straight: kind == 1? shift: kind == 2? quarter: near, 6 * sizeof *matrix);
    for (size_t index = 0; kind == 3 && index < 6; index++)
        matrix [index] = s_number (random);
}

//  ---------------------------------------------------------------------------------------------------------
//  The model

static int64_t
s_fix (double number)
{
    return (int64_t) floor (number * 65536.0 + 0.5);
}

static bool
s_corners_are_near (const remap_affine_t *map)
{
    const double *a = map->matrix;
    for (int corner = 0; corner < 4; corner++) {
        double x = corner & 1? map->width: 0, y = corner & 2? map->height: 0;
        if (!(fabs (x * a [0] + y * a [1] + a [2]) < 32768)
        ||  !(fabs (x * a [3] + y * a [4] + a [5]) < 32768))
            return false;
    }
    return true;
}

//  Where the nearest pixel of (column, row) is, as a place that may be beside the source.
static void
s_model_nearest (const remap_affine_t *map, uint32_t row, uint32_t column, double *x_p, double *y_p)
{
    const double *a = map->matrix;
    if (a [1] == 0 && a [3] == 0) {
        *x_p = a [2] + a [0] * 0.5;
        *y_p = a [5] + a [4] * 0.5;
        for (uint32_t step = 0; step < column; step++)
            *x_p += a [0];
        for (uint32_t step = 0; step < row; step++)
            *y_p += a [4];
        return;
    }
    if (s_corners_are_near (map)) {
        int64_t x = s_fix (a [2] + a [0] * 0.5 + a [1] * 0.5) + column * s_fix (a [0]) + row * s_fix (a [1]);
        int64_t y = s_fix (a [5] + a [3] * 0.5 + a [4] * 0.5) + column * s_fix (a [3]) + row * s_fix (a [4]);
        *x_p = floor ((double) x / 65536);
        *y_p = floor ((double) y / 65536);
        return;
    }
    *x_p = a [2] + a [1] * 0.5 + a [0] * 0.5;
    *y_p = a [5] + a [4] * 0.5 + a [3] * 0.5;
    for (uint32_t step = 0; step < row; step++) {
        *x_p += a [1];
        *y_p += a [4];
    }
    for (uint32_t step = 0; step < column; step++) {
        *x_p += a [0];
        *y_p += a [3];
    }
}

static int
s_clip (double at, uint32_t side)
{
    return at < 0? 0: at > side - 1? (int) side - 1: (int) at;
}

static int
s_value (const image_t *source, double row, double column, uint32_t channel)
{
    return image_at (source, (uint32_t) s_clip (row, source->height),
        (uint32_t) s_clip (column, source->width)) [channel];
}

static uint8_t
s_model_bilinear (const image_t *source, double x, double y, uint32_t channel)
{
    x -= 0.5;
    y -= 0.5;
    double left = floor (x), top = floor (y), across = x - left, down = y - top;
    int a = s_value (source, top, left, channel), b = s_value (source, top, left + 1, channel);
    int c = s_value (source, top + 1, left, channel), d = s_value (source, top + 1, left + 1, channel);
    double upper = a + (b - a) * across, lower = c + (d - c) * across;
    return (uint8_t) (upper + (lower - upper) * down);
}

static uint8_t
s_model (const remap_affine_t *map, const image_t *source, uint32_t row, uint32_t column, uint32_t channel)
{
    const double *a = map->matrix;
    double x, y;
    if (map->is_perspective) {
        const double *v = map->vanishing;
        double by = v [0] * (column + 0.5) + v [1] * (row + 0.5) + 1;
        x = (a [0] * (column + 0.5) + a [1] * (row + 0.5) + a [2]) / by;
        y = (a [3] * (column + 0.5) + a [4] * (row + 0.5) + a [5]) / by;
    }
    else
    if (map->is_bilinear) {
        x = a [0] * (column + 0.5) + a [1] * (row + 0.5) + a [2];
        y = a [3] * (column + 0.5) + a [4] * (row + 0.5) + a [5];
    }
    else
        s_model_nearest (map, row, column, &x, &y);
    if (!(x >= 0 && x < source->width && y >= 0 && y < source->height))
        return map->fill [channel];
    return map->is_bilinear? s_model_bilinear (source, x, y, channel)
        : (uint8_t) s_value (source, floor (y), floor (x),
        channel);
}

//  ---------------------------------------------------------------------------------------------------------
//  Beside it

static void
s_compare (const remap_affine_t *map, const image_t *source, uint64_t round)
{
    size_t bytes = image_bytes (map->height, map->width, source->channels), at = 0;
    uint8_t *target = malloc (bytes + GUARD);
    memset (target, FILLER, bytes + GUARD);
    remap_affine (map, source, target);
    for (uint32_t row = 0; row < map->height; row++)
        for (uint32_t column = 0; column < map->width; column++)
            for (uint32_t channel = 0; channel < source->channels; channel++, at++)
                if (target [at] != s_model (map, source, row, column, channel))
                    fail_msg ("seed %" PRIu64 ", round %" PRIu64 ": (%u, %u) is %u", test_seed (), round,
                        column, row, target [at]);
    for (size_t index = 0; index < GUARD; index++)
        assert_int_equal (target [bytes + index], FILLER);
    free (target);
}

//  Any map of any image, in rows that are longer than the image; nothing beside the result is written.
static void
test_equals_the_model (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        remap_affine_t map = { .is_bilinear = test_below (&random, 2), .height = s_side (&random),
            .width = s_side (&random), .fill = { 10, 20, (uint8_t) test_below (&random, 256) } };
        image_t source = { .height = s_side (&random), .width = s_side (&random),
            .channels = test_below (&random, 3)? IMAGE_COLOURS: 1 };
        map.is_perspective = test_below (&random, 3) == 0;
        for (size_t axis = 0; axis < 2; axis++)
            //  -0.4: by 0 at the second pixel and a half
            map.vanishing [axis] = test_below (&random, 3)? s_number (&random) / 30: -0.4;
        s_make_matrix (&random, map.matrix);
        source.stride = image_bytes (1, source.width, source.channels) + test_below (&random, 7);
        uint8_t *pixels = malloc (source.stride * source.height);
        for (size_t index = 0; index < source.stride * source.height; index++)
            pixels [index] = (uint8_t) test_below (&random, 256);
        source.pixels = pixels;
        s_compare (&map, &source, round);
        free (pixels);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_equals_the_model) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

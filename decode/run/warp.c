#include "warp.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "blur.h"
#include "geometry.h"

//  Python's math.radians.
static double
s_radians (double degrees)
{
    return degrees * (M_PI / 180);
}

//  ---------------------------------------------------------------------------------------------------------
//  Affine

//  The inverse of: shear, turn and scale about the centre, then translate; term by term as torchvision
//  computes it.
static void
s_invert (const warp_affine_t *affine, double center_x, double center_y, double matrix [6])
{
    double turn = s_radians (affine->angle);
    double shear_x = s_radians (affine->shear [0]), shear_y = s_radians (affine->shear [1]);
    double a = cos (turn - shear_y) / cos (shear_y);
    double b = -cos (turn - shear_y) * tan (shear_x) / cos (shear_y) - sin (turn);
    double c = sin (turn - shear_y) / cos (shear_y);
    double d = -sin (turn - shear_y) * tan (shear_x) / cos (shear_y) + cos (turn);
    const double inverse [6] = { d, -b, 0, -c, a, 0 };
    for (size_t index = 0; index < 6; index++)
        matrix [index] = inverse [index] / affine->scale;
    double from_x = -center_x - affine->translate [0], from_y = -center_y - affine->translate [1];
    matrix [2] += matrix [0] * from_x + matrix [1] * from_y;
    matrix [5] += matrix [3] * from_x + matrix [4] * from_y;
    matrix [2] += center_x;
    matrix [5] += center_y;
}

//  Shear, turn and scale about the centre, then translate; term by term as torchvision's v2 computes it for
//  boxes.
static boxes_map_t
s_points (const warp_affine_t *affine, double center_x, double center_y)
{
    double turn = s_radians (affine->angle), scale = affine->scale;
    double shear_x = s_radians (affine->shear [0]), shear_y = s_radians (affine->shear [1]);
    double a = cos (turn - shear_y) / cos (shear_y), c = sin (turn - shear_y) / cos (shear_y);
    double b = -(a * tan (shear_x) + sin (turn)), d = cos (turn) - c * tan (shear_x);
    double x = center_x + affine->translate [0] - a * scale * center_x - b * scale * center_y;
    double y = center_y + affine->translate [1] - c * scale * center_x - d * scale * center_y;
    return (boxes_map_t) { .matrix = { (float) (a * scale), (float) (b * scale), (float) x,
        (float) (c * scale), (float) (d * scale), (float) y, 0, 0, 1 } };
}

warp_t
warp_affine (const warp_affine_t *affine, uint32_t height, uint32_t width)
{
    assert (affine->scale > 0);
    warp_t warp = { .kind = WARP_MATRIX, .height = height, .width = width };
    const double middle [2] = { width * 0.5, height * 0.5 };
    const double *center = affine->center? affine->center: middle;
    s_invert (affine, center [0], center [1], warp.matrix);
    warp.points = s_points (affine, center [0], center [1]);
    const double *m = warp.matrix;
    if (m [0] == 1 && m [1] == 0 && m [2] == 0 && m [3] == 0 && m [4] == 1 && m [5] == 0)
        warp.kind = WARP_NOTHING;
    return warp;
}

//  ---------------------------------------------------------------------------------------------------------
//  Rotation

//  Python's round (number, 15): the decimal that is nearest to the exact value, in whatever locale.
static double
s_round (double number)
{
    char text [40];
    int length = snprintf (text, sizeof text, "%.15f", number);
    assert (length > 0 && (size_t) length < sizeof text);
    return strtod (text, NULL);
}

//  Python's angle % 360.
static double
s_modulo (double angle)
{
    double rest = fmod (angle, 360);
    return rest < 0? rest + 360: rest;
}

static void
s_move (double matrix [6], double x, double y)
{
    double moved_x = matrix [0] * x + matrix [1] * y + matrix [2];
    double moved_y = matrix [3] * x + matrix [4] * y + matrix [5];
    matrix [2] = moved_x;
    matrix [5] = moved_y;
}

static double
s_least (const double numbers [4])
{
    return fmin (fmin (numbers [0], numbers [1]), fmin (numbers [2], numbers [3]));
}

static double
s_most (const double numbers [4])
{
    return fmax (fmax (numbers [0], numbers [1]), fmax (numbers [2], numbers [3]));
}

static uint32_t
s_side (double side)
{
    return side < UINT32_MAX? (uint32_t) side: UINT32_MAX;
}

//  The result becomes as large as the turned image, and its middle is where it was.
static void
s_expand (warp_t *warp, uint32_t height, uint32_t width)
{
    const double *m = warp->matrix;
    const double corners [4] [2] = { { 0, 0 }, { width, 0 }, { width, height }, { 0, height } };
    double across [4], down [4];
    for (size_t corner = 0; corner < 4; corner++) {
        double x = corners [corner] [0], y = corners [corner] [1];
        across [corner] = m [0] * x + m [1] * y + m [2];
        down [corner] = m [3] * x + m [4] * y + m [5];
    }
    double new_width = ceil (s_most (across)) - floor (s_least (across));
    double new_height = ceil (s_most (down)) - floor (s_least (down));
    s_move (warp->matrix, -(new_width - width) / 2, -(new_height - height) / 2);
    warp->height = s_side (new_height);
    warp->width = s_side (new_width);
}

//  Angles for which Pillow moves pixels instead of computing them; false: none of these.
static bool
s_turn (double angle, bool expand, uint32_t height, uint32_t width, warp_t *warp)
{
    static const double quarter [6] = { 0, -1, 0, 1, 0, 0 }, three_quarters [6] = { 0, 1, 0, -1, 0, 0 };
    *warp = (warp_t) { .kind = WARP_MATRIX, .is_exact = true, .height = height, .width = width };
    if (angle == 0 || angle == 180) {
        warp->kind = angle == 0? WARP_NOTHING: WARP_HALF_TURN;
        return true;
    }
    if ((angle != 90 && angle != 270) || !(expand || height == width))
        return false;
    bool is_quarter = angle == 90;
    memcpy (warp->matrix, is_quarter? quarter: three_quarters, sizeof warp->matrix);
    warp->matrix [is_quarter? 2: 5] = is_quarter? width: height;
    warp->height = width;
    warp->width = height;
    return true;
}

//  Of pixels alone.
static warp_t
s_rotate (double angle, bool expand, const double *center, uint32_t height, uint32_t width)
{
    warp_t warp;
    angle = s_modulo (angle);
    if (!center && s_turn (angle, expand, height, width, &warp))
        return warp;
    warp = (warp_t) { .kind = WARP_MATRIX, .height = height, .width = width };
    double turn = -s_radians (angle);
    double center_x = center? center [0]: width / 2.0, center_y = center? center [1]: height / 2.0;
    const double matrix [6] = { s_round (cos (turn)), s_round (sin (turn)), 0, s_round (-sin (turn)),
        s_round (cos (turn)), 0 };
    memcpy (warp.matrix, matrix, sizeof matrix);
    s_move (warp.matrix, -center_x, -center_y);
    warp.matrix [2] += center_x;
    warp.matrix [5] += center_y;
    if (expand)
        s_expand (&warp, height, width);
    return warp;
}

warp_t
warp_rotate (double angle, bool expand, const double *center, uint32_t height, uint32_t width)
{
    const warp_affine_t counter = { .angle = -angle, .scale = 1 };
    warp_t warp = s_rotate (angle, expand, center, height, width);
    warp.points = s_points (&counter, center? center [0]: width * 0.5, center? center [1]: height * 0.5);
    warp.points.expands = expand;
    return warp;
}

//  ---------------------------------------------------------------------------------------------------------
//  Perspective

static bool
s_is_line (const int64_t one [2], const int64_t two [2], const int64_t three [2])
{
    return (two [0] - one [0]) * (three [1] - one [1]) == (two [1] - one [1]) * (three [0] - one [0]);
}

//  The map of the unit square to the corners: Heckbert, "Fundamentals of texture mapping and image warping",
//  1989; times its denominator, so of whole numbers.
static void
s_from_square (const warp_corners_t *to, long double map [9])
{
    const int64_t (*at) [2] = to->corners;
    int64_t across_x = at [1] [0] - at [2] [0], across_y = at [1] [1] - at [2] [1];
    int64_t down_x = at [3] [0] - at [2] [0], down_y = at [3] [1] - at [2] [1];
    int64_t sum_x = at [0] [0] - at [1] [0] - down_x, sum_y = at [0] [1] - at [1] [1] - down_y;
    int64_t g = sum_x * down_y - down_x * sum_y, h = across_x * sum_y - sum_x * across_y;
    int64_t by = across_x * down_y - down_x * across_y;
    for (size_t axis = 0; axis < 2; axis++) {
        map [3 * axis] = (long double) (at [1] [axis] - at [0] [axis]) * by + (long double) g * at [1] [axis];
        map [3 * axis + 1] = (long double) (at [3] [axis] - at [0] [axis]) * by
            + (long double) h * at [3] [axis];
        map [3 * axis + 2] = (long double) at [0] [axis] * by;
    }
    map [6] = g;
    map [7] = h;
    map [8] = by;
}

//  The inverse of coefficients of 32 bits, as torchvision's v2 computes it for boxes.
static boxes_map_t
s_perspective_points (const warp_t *warp)
{
    const double *m = warp->matrix, *v = warp->vanishing;
    const double inverse [8] = { m [4] - m [5] * v [1], -m [1] + m [2] * v [1], m [1] * m [5] - m [2] * m [4],
        -m [3] + m [5] * v [0], m [0] - m [2] * v [0], -m [0] * m [5] + m [2] * m [3],
        -m [4] * v [0] + m [3] * v [1], -m [0] * v [1] + m [1] * v [0] };
    double by = m [0] * m [4] - m [1] * m [3];
    boxes_map_t points = { .is_perspective = true, .matrix = { [8] = 1 } };
    for (size_t index = 0; index < 8; index++)
        points.matrix [index] = (float) (inverse [index] / by);
    return points;
}

//  So precise that no rounding to 32 bits depends on how it is solved: the corners are whole numbers.
warp_t
warp_perspective (const warp_corners_t *to, uint32_t height, uint32_t width)
{
    warp_t warp = { .kind = WARP_NOTHING, .is_perspective = true, .height = height, .width = width };
    const int64_t (*at) [2] = to->corners;
    if (height < 2 || width < 2 || s_is_line (at [0], at [1], at [2]) || s_is_line (at [1], at [2], at [3])
    ||  s_is_line (at [2], at [3], at [0]) || s_is_line (at [3], at [0], at [1]))
        return warp;
    long double m [9], inverse [9];
    s_from_square (to, m);
    for (size_t row = 0; row < 3; row++)
        for (size_t column = 0; column < 3; column++) {
            size_t up = (column + 1) % 3 * 3, down = (column + 2) % 3 * 3;
            size_t left = (row + 1) % 3, right = (row + 2) % 3;
            inverse [row * 3 + column] = m [up + left] * m [down + right] - m [up + right] * m [down + left];
        }
    const long double sides [3] = { width - 1, height - 1, 1 };
    for (size_t index = 0; index < 8; index++) {
        double number = (double) (float) (sides [index / 3] * inverse [index] / inverse [8]);
        if (!isfinite (number))
            return warp;
        if (index < 6)
            warp.matrix [index] = number;
        else
            warp.vanishing [index - 6] = number;
    }
    warp.kind = WARP_MATRIX;
    warp.points = s_perspective_points (&warp);
    return warp;
}

//  ---------------------------------------------------------------------------------------------------------
//  Draws

static double
s_draw (const double range [2], keyed_random_t *random)
{
    return range [0] + (range [1] - range [0]) * keyed_random_uniform (random);
}

double
warp_draw_angle (const operation_t *rotation, keyed_random_t *random)
{
    assert (rotation->kind == OPERATION_RANDOM_ROTATION);
    return s_draw (rotation->rotation.degrees, random);
}

warp_affine_t
warp_draw_affine (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random)
{
    assert (operation->kind == OPERATION_RANDOM_AFFINE);
    const double across = operation->affine.translate [0] * width,
        down = operation->affine.translate [1] * height;
    warp_affine_t drawn = { .center = operation->affine.has_center? operation->affine.center: NULL };
    drawn.angle = s_draw (operation->affine.degrees, random);
    //  Half to even, as Python's round.
    drawn.translate [0] = rint (s_draw ((const double [2]) { -across, across }, random));
    drawn.translate [1] = rint (s_draw ((const double [2]) { -down, down }, random));
    drawn.scale = s_draw (operation->affine.scale, random);
    drawn.shear [0] = s_draw (operation->affine.shear, random);
    drawn.shear [1] = s_draw (operation->affine.shear + 2, random);
    return drawn;
}

//  At random from one end of a side, or from its other one, inwards.
static int64_t
s_draw_corner (double distortion, uint32_t side, bool is_far, keyed_random_t *random)
{
    uint32_t reach = (uint32_t) (distortion * (side / 2));
    uint64_t drawn = keyed_random_below (random, (uint64_t) reach + 1);
    return is_far? (int64_t) side - reach - 1 + (int64_t) drawn: (int64_t) drawn;
}

warp_corners_t
warp_draw_corners (const operation_t *perspective, uint32_t height, uint32_t width, keyed_random_t *random)
{
    assert (perspective->kind == OPERATION_RANDOM_PERSPECTIVE);
    double distortion = perspective->perspective.distortion;
    warp_corners_t drawn;
    for (size_t corner = 0; corner < 4; corner++) {
        drawn.corners [corner] [0] = s_draw_corner (distortion, width, corner == 1 || corner == 2, random);
        drawn.corners [corner] [1] = s_draw_corner (distortion, height, corner >= 2, random);
    }
    return drawn;
}

static warp_t
s_draw_perspective (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random)
{
    if (!geometry_happens (operation, random))
        return (warp_t) { .kind = WARP_NOTHING, .is_perspective = true, .height = height, .width = width };
    warp_corners_t drawn = warp_draw_corners (operation, height, width, random);
    return warp_perspective (&drawn, height, width);
}

warp_t
warp_draw (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random)
{
    if (operation->kind == OPERATION_RANDOM_ROTATION)
        return warp_rotate (warp_draw_angle (operation, random), operation->rotation.expand,
            operation->rotation.has_center? operation->rotation.center: NULL, height, width);
    if (operation->kind == OPERATION_RANDOM_PERSPECTIVE)
        return s_draw_perspective (operation, height, width, random);
    warp_affine_t affine = warp_draw_affine (operation, height, width, random);
    return warp_affine (&affine, height, width);
}

//  ---------------------------------------------------------------------------------------------------------
//  Displacements

size_t
warp_field_floats (uint32_t height, uint32_t width)
{
    return 2 * (size_t) height * width + blur_field_room (height, width);
}

//  In [-1, 1), of the upper 24 bits: as many as torch.rand has.
static float
s_noise (uint32_t bits)
{
    return (float) (bits >> 8) * 0x1p-23f - 1;
}

static void
s_draw_noise (keyed_random_t *random, float *noise, size_t count)
{
    for (size_t at = 0; at < count; at += 2) {
        uint64_t number = keyed_random_next (random);
        noise [at] = s_noise ((uint32_t) number);
        noise [at + 1] = s_noise ((uint32_t) (number >> 32));
    }
}

void
warp_draw_field (const operation_t *elastic, uint32_t height, uint32_t width, keyed_random_t *random,
    float *field)
{
    assert (elastic->kind == OPERATION_ELASTIC_TRANSFORM);
    const double *alpha = elastic->elastic.alpha, *sigma = elastic->elastic.sigma;
    size_t count = (size_t) height * width;
    float *room = field + 2 * count;
    s_draw_noise (random, field, 2 * count);
    for (size_t axis = 0; axis < 2; axis++) {
        float *ways = field + axis * count;
        if (sigma [axis] > 0) {
            //  torchvision's: eight deviations, and odd.
            uint32_t size = (uint32_t) (8 * sigma [axis] + 1) | 1;
            blur_kernel_t across = blur_kernel (size, sigma [0]), down = blur_kernel (size, sigma [1]);
            blur_field (ways, height, width, &across, &down, room);
        }
        float strength = (float) alpha [axis], side = (float) (axis == 0? width: height);
        for (size_t at = 0; at < count; at++)
            ways [at] = ways [at] * strength / side;
    }
}

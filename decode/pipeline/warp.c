#include "warp.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

warp_t
warp_affine (const warp_affine_t *affine, uint32_t height, uint32_t width)
{
    assert (affine->scale > 0);
    warp_t warp = { .kind = WARP_MATRIX, .height = height, .width = width };
    const double middle [2] = { width * 0.5, height * 0.5 };
    const double *center = affine->center? affine->center: middle;
    s_invert (affine, center [0], center [1], warp.matrix);
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

warp_t
warp_rotate (double angle, bool expand, const double *center, uint32_t height, uint32_t width)
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

warp_t
warp_draw (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random)
{
    if (operation->kind == OPERATION_RANDOM_ROTATION)
        return warp_rotate (warp_draw_angle (operation, random), operation->rotation.expand,
            operation->rotation.has_center? operation->rotation.center: NULL, height, width);
    warp_affine_t affine = warp_draw_affine (operation, height, width, random);
    return warp_affine (&affine, height, width);
}

/*  warp -- the maps of random_rotation, random_affine and random_perspective: the draws, and the matrix that
 *  follows from them, in the arithmetic of torchvision and Pillow; for boxes in that of torchvision's v2; and
 *  the field of elastic_transform.
 *
 *  Pure functions; any thread.
 */
#ifndef WARP_H
#define WARP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boxes.h"
#include "keyed_random.h"
#include "operation.h"

//  Angles in degrees.  Affine turns clockwise, a rotation counter-clockwise.
typedef struct {
    double angle;
    double translate [2];           //  across, down, in pixels; whole numbers
    double scale;                   //  above 0
    double shear [2];
    const double *center;           //  x, y; NULL: the image's
} warp_affine_t;

typedef enum { WARP_NOTHING, WARP_HALF_TURN, WARP_MATRIX } warp_kind_t;

//  A map of an image.
typedef struct {
    warp_kind_t kind;
    double matrix [6];              //  of remap.h; of WARP_MATRIX
    bool is_perspective;
    double vanishing [2];           //  of remap.h; of a perspective
    bool is_exact;                  //  pixels move to pixels, so it is done to the nearest
    uint32_t height;                //  of the result; sides above UINT32_MAX come as that
    uint32_t width;
    boxes_map_t points;             //  where they go, but for a perspective of WARP_NOTHING; the matrix says
                                    //  where pixels come from
} warp_t;

//  The map of F.affine, of an image of height x width.
warp_t warp_affine (const warp_affine_t *affine, uint32_t height, uint32_t width);
//  The map of Image.rotate.  expand: the result holds all of the turned image.  center as above.
warp_t warp_rotate (double angle, bool expand, const double *center, uint32_t height, uint32_t width);

//  Where the corners of an image go, as x, y: upper left, upper right, lower right, lower left.
typedef struct {
    int64_t corners [4] [2];
} warp_corners_t;

//  The map of F.perspective: coefficients of 32 bits, those of the exact solution.  WARP_NOTHING: no
//  perspective does that, three corners being in a line, or the image has one row or column.
warp_t warp_perspective (const warp_corners_t *to, uint32_t height, uint32_t width);
//  The draws of random_perspective behind whether it is done at all: x, y of each corner, in their order.
warp_corners_t warp_draw_corners (const operation_t *perspective, uint32_t height, uint32_t width,
    keyed_random_t *random);
//  The draws of random_rotation: the angle.
double warp_draw_angle (const operation_t *rotation, keyed_random_t *random);
//  The draws of random_affine: angle, two translations, scale, two shears, always all of them.
warp_affine_t warp_draw_affine (const operation_t *affine, uint32_t height, uint32_t width,
    keyed_random_t *random);
//  The map of one of the three, drawn.
warp_t warp_draw (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random);

//  How many floats warp_draw_field needs room for.
size_t warp_field_floats (uint32_t height, uint32_t width);
//  The field of elastic_transform (remap.h): first the displacements of height x width pixels across, then
//  those down.  torchvision's get_params, but for the order in which a blur adds up: here down, then across.
//  Order of the draws: each number gives two of noise, from its lower and from its upper half; all of the
//  noise across, row by row, then that down.
void warp_draw_field (const operation_t *elastic, uint32_t height, uint32_t width, keyed_random_t *random,
    float *field);

#endif

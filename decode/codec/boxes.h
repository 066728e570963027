/*  boxes -- bounding boxes follow what happens to the image that they lie in: torchvision's v2 on
 *  BoundingBoxes of format XYXY, in its 32-bit floats.
 *
 *  A row of boxes is left, top, right, bottom in pixels, and columns that just come along.  Crops and pads
 *  move boxes and clip them to what is left of the image, a resize stretches them, a flip mirrors them.
 *  Where an image is turned or distorted, a box becomes the upright one around its four corners, clipped to
 *  the image.
 *  Pure functions on the rows; any thread.
 */
#ifndef BOXES_H
#define BOXES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decode_request.h"

enum { BOXES_SIDES = 4 };           //  the first columns of a row

//  The boxes of one image, where they are being moved.
typedef struct {
    uint8_t *rows;                  //  lent
    size_t row_bytes;
    uint32_t count;
    uint32_t height, width;         //  of the image, as it is by now
} boxes_t;

//  Where the point (x, y) goes: the matrix's rows times (x, y, 1).
typedef struct {
    float matrix [9];               //  of an affine map the last row is 0, 0, 1
    bool is_perspective;            //  the first two are divided by the third
    bool expands;                   //  all of the image stays: its leftmost and uppermost corners come to 0
} boxes_map_t;

//  Copies so many rows at from to target, which may be from; zeros behind them, up to tensor's most.  They
//  lie in an image of height x width.  Lends target.
boxes_t boxes_take (const decode_tensor_t *tensor, const uint8_t *from, uint32_t rows, uint32_t height,
    uint32_t width, uint8_t *target);

//  A part of height x width is taken, which begins at (top, left), or with a border before that.
void boxes_move (boxes_t *self, int64_t top, int64_t left, uint32_t height, uint32_t width);
void boxes_stretch (boxes_t *self, uint32_t height, uint32_t width);
void boxes_mirror (boxes_t *self, bool across);
//  The image is of height x width then.
void boxes_map (boxes_t *self, const boxes_map_t *map, uint32_t height, uint32_t width);

//  Behind the last stage: clips all boxes to the image, and leaves out those that are smaller than size_min
//  in a direction, or no numbers.  Zeros come behind those that stay.
void boxes_end (boxes_t *self, float size_min);

#endif

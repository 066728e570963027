/*  boxes -- boxes follow what happens to the image that they lie in: torchvision's v2 on BoundingBoxes of
 *  format XYXY, in its 32-bit floats.
 *
 *  A row of boxes is left, top, right, bottom in pixels, and columns that just come along.  Crops and pads
 *  move boxes and clip them to what is left of the image, a resize stretches them, a flip mirrors them.
 *  Pure functions; any thread.
 */
#ifndef BOXES_H
#define BOXES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decode_request.h"

enum { BOXES_SIDES = 4,             //  the first columns of a row
    BOXES_STEPS_MAX = 64 };

//  One thing that happens to all boxes of an image: horizontally [0], vertically [1].
typedef struct {
    enum { BOXES_MOVE, BOXES_STRETCH, BOXES_MIRROR } kind;
    bool mirrors [2];
    float by [2];                   //  moved: subtracted; stretched: factors
    float side [2];                 //  of the image: moved: what there is then; mirrored: what there is
} boxes_step_t;

//  What happens one after the other, and the image's size: before it, and behind what has been appended.
typedef struct {
    boxes_step_t steps [BOXES_STEPS_MAX];
    size_t count;
    uint32_t height, width;
} boxes_way_t;

//  A part of height x width is taken, which begins at (top, left), or with a border before that.
void boxes_move (boxes_way_t *self, int64_t top, int64_t left, uint32_t height, uint32_t width);
void boxes_stretch (boxes_way_t *self, uint32_t height, uint32_t width);
void boxes_mirror (boxes_way_t *self, bool across);

//  The rows at from, at the way's end, to target, which may be from; zeros behind them, up to tensor's most.
//  Returns how many: is_end (behind the last stage) clips all boxes to the image, and leaves out those that
//  are smaller than size_min in a direction, or no numbers.
uint32_t boxes_go (const boxes_way_t *self, const decode_tensor_t *tensor, const uint8_t *from, uint32_t rows,
    bool is_end, uint8_t *target);

#endif

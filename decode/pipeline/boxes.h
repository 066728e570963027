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
#include <stdint.h>
#include "plan.h"

enum { BOXES_SIDES = 4 };           //  the first columns of a row

//  One thing that happens to all boxes of an image: horizontally [0], vertically [1].
typedef struct {
    enum { BOXES_MOVE, BOXES_STRETCH, BOXES_MIRROR } kind;
    bool mirrors [2];
    float by [2];                   //  moved: subtracted; stretched: factors
    float side [2];                 //  of the image: moved: what there is then; mirrored: what there is
} boxes_step_t;

//  What happens in a stage, and the image's size: before it, and once it was made, behind it.
typedef struct {
    boxes_step_t steps [2 * PIPELINE_OPERATIONS_MAX];
    size_t count;
    uint32_t height, width;
} boxes_way_t;

//  The operations [begin, end) of the plan, for one view, on an image of self's height x width that they can
//  be done on; draws the numbers that the image's own stage draws.
void boxes_way (boxes_way_t *self, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view);
//  The rows at from, at the way's end, to target, which may be from; zeros behind them, up to tensor's most.
//  Returns how many: is_end (behind the last stage) clips all boxes to the image, and leaves out those that
//  are smaller than min_size in a direction, or no numbers.
uint32_t boxes_go (const boxes_way_t *self, const decode_tensor_t *tensor, const uint8_t *from, uint32_t rows,
    bool is_end, uint8_t *target);

#endif

/*  boxes_follow -- which operations of a list move the boxes of an image, and how: those that move its
 *  pixels, with the same draws.
 *
 *  Pure functions; any thread.  Only for files of decode/.
 */
#ifndef BOXES_FOLLOW_H
#define BOXES_FOLLOW_H
#include "boxes.h"
#include "keyed_random.h"
#include "plan.h"

//  Moves boxes as the operations [begin, end) of the plan, a stage, move the image in a view.  The image's
//  own stage has done them.
void boxes_follow (boxes_t *boxes, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view);

#endif

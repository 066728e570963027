#include "boxes.h"
#include <assert.h>
#include <string.h>

static boxes_step_t *
s_append (boxes_way_t *self)
{
    assert (self->count < sizeof self->steps / sizeof *self->steps);
    boxes_step_t *step = &self->steps [self->count++];
    *step = (boxes_step_t) { .kind = BOXES_MOVE };
    return step;
}

void
boxes_move (boxes_way_t *self, int64_t top, int64_t left, uint32_t height, uint32_t width)
{
    boxes_step_t *step = s_append (self);
    step->by [0] = (float) left;
    step->by [1] = (float) top;
    step->side [0] = (float) width;
    step->side [1] = (float) height;
    self->height = height;
    self->width = width;
}

void
boxes_stretch (boxes_way_t *self, uint32_t height, uint32_t width)
{
    if (height == self->height && width == self->width)
        return;
    boxes_step_t *step = s_append (self);
    step->kind = BOXES_STRETCH;
    step->by [0] = (float) ((double) width / self->width);
    step->by [1] = (float) ((double) height / self->height);
    self->height = height;
    self->width = width;
}

void
boxes_mirror (boxes_way_t *self, bool across)
{
    boxes_step_t *step = s_append (self);
    step->kind = BOXES_MIRROR;
    step->mirrors [0] = across;
    step->mirrors [1] = !across;
    step->side [0] = (float) self->width;
    step->side [1] = (float) self->height;
}

//  ---------------------------------------------------------------------------------------------------------
//  Rows

static float
s_clip (float value, float most)
{
    return value < 0? 0: value > most? most: value;
}

static void
s_clip_all (float box [BOXES_SIDES], const float side [2])
{
    for (size_t index = 0; index < BOXES_SIDES; index++)
        box [index] = s_clip (box [index], side [index % 2]);
}

static void
s_step (const boxes_step_t *step, float box [BOXES_SIDES])
{
    if (step->kind == BOXES_MIRROR) {
        size_t axis = step->mirrors [0]? 0: 1;
        float first = box [axis];
        box [axis] = -(box [axis + 2] - step->side [axis]);
        box [axis + 2] = -(first - step->side [axis]);
        return;
    }
    for (size_t index = 0; index < BOXES_SIDES; index++)
        box [index] = step->kind == BOXES_MOVE? box [index] - step->by [index % 2]:
            box [index] * step->by [index % 2];
    if (step->kind == BOXES_MOVE)
        s_clip_all (box, step->side);
}

//  What no number is in is not as large as anything.
static bool
s_is_large (const float box [BOXES_SIDES], float least)
{
    return box [2] - box [0] >= least && box [3] - box [1] >= least;
}

uint32_t
boxes_go (const boxes_way_t *self, const decode_tensor_t *tensor, const uint8_t *from, uint32_t rows,
    bool is_end, uint8_t *target)
{
    assert (tensor->as == DECODE_BOXES && rows <= tensor->shape [0]);
    size_t row_bytes = tensor->shape [1] * sizeof (float);
    const float side [2] = { (float) self->width, (float) self->height };
    uint32_t kept = 0;
    for (uint32_t row = 0; row < rows; row++) {
        float box [BOXES_SIDES];
        const uint8_t *source = from + row * row_bytes;
        uint8_t *place = target + kept * row_bytes;
        memcpy (box, source, sizeof box);
        for (size_t index = 0; index < self->count; index++)
            s_step (&self->steps [index], box);
        if (is_end) {
            s_clip_all (box, side);
            if (!s_is_large (box, tensor->size_min))
                continue;
        }
        memmove (place + sizeof box, source + sizeof box, row_bytes - sizeof box);
        memcpy (place, box, sizeof box);
        kept++;
    }
    memset (target + kept * row_bytes, 0, (tensor->shape [0] - kept) * row_bytes);
    return kept;
}

#include "boxes.h"
#include <assert.h>
#include <string.h>
#include "geometry.h"
#include "stage.h"

static boxes_step_t *
s_append (boxes_way_t *self)
{
    assert (self->count < sizeof self->steps / sizeof *self->steps);
    boxes_step_t *step = &self->steps [self->count++];
    *step = (boxes_step_t) { .kind = BOXES_MOVE };
    return step;
}

//  A part of height x width is taken, which begins at (top, left), or with a border before that.
static void
s_move (boxes_way_t *self, int64_t top, int64_t left, uint32_t height, uint32_t width)
{
    boxes_step_t *step = s_append (self);
    step->by [0] = (float) left;
    step->by [1] = (float) top;
    step->side [0] = (float) width;
    step->side [1] = (float) height;
    self->height = height;
    self->width = width;
}

static void
s_enter_window (boxes_way_t *self, const geometry_window_t *window)
{
    s_move (self, (int64_t) window->from.top - window->to_top,
        (int64_t) window->from.left - window->to_left, window->height, window->width);
}

//  Where image and crop have one size, and there is no padding, torchvision does not even clip.
static bool
s_crops_nothing (const boxes_way_t *self, const operation_t *crop)
{
    const uint32_t *border = crop->pad.border;
    return crop->height == self->height && crop->width == self->width
        && !border [0] && !border [1] && !border [2] && !border [3];
}

static void
s_stretch (boxes_way_t *self, uint32_t height, uint32_t width)
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

static void
s_mirror (boxes_way_t *self, bool across)
{
    boxes_step_t *step = s_append (self);
    step->kind = BOXES_MIRROR;
    step->mirrors [0] = across;
    step->mirrors [1] = !across;
    step->side [0] = (float) self->width;
    step->side [1] = (float) self->height;
}

static void
s_follow (boxes_way_t *self, const operation_t *operation, const pipeline_key_t *key, uint32_t view)
{
    keyed_random_t random = stage_random (operation, key, view);
    geometry_window_t window;
    image_box_t box;
    uint32_t height, width;
    bool fits;
    switch (operation->kind) {
    case OPERATION_RESIZE:
        geometry_resize (operation, self->height, self->width, &height, &width);
        s_stretch (self, height, width);
        break;
    case OPERATION_CENTER_CROP:
        window = geometry_center_crop (operation->height, operation->width, self->height, self->width);
        s_enter_window (self, &window);
        break;
    case OPERATION_PAD:
        window = geometry_pad (operation, self->height, self->width);
        s_enter_window (self, &window);
        break;
    case OPERATION_RANDOM_CROP:
        //  Where it does not, the image's stage has found the sample unsuitable.
        fits = geometry_random_crop (operation, self->height, self->width, &random, &window);
        assert (fits);
        if (!s_crops_nothing (self, operation))
            s_enter_window (self, &window);
        break;
    case OPERATION_RANDOM_RESIZED_CROP:
        box = geometry_random_box (operation, self->height, self->width, &random);
        s_move (self, box.top, box.left, box.height, box.width);
        s_stretch (self, operation->height, operation->width);
        break;
    case OPERATION_FLIP:
    case OPERATION_VERTICAL_FLIP:
        if (geometry_happens (operation, &random))
            s_mirror (self, operation->kind == OPERATION_FLIP);
        break;
    default:
        break;
    }
}

void
boxes_way (boxes_way_t *self, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    self->count = 0;
    for (size_t index = begin; index < end; index++) {
        const operation_t *operation = &plan->operations [index];
        uint32_t its_view = index > plan->views_at? view: 0;
        s_follow (self, operation, key, its_view);
        if (operation->kind == OPERATION_RANDOM_APPLY && stage_leaves_out (operation, key, its_view))
            index += operation->apply.count;
    }
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

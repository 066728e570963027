#include "boxes_follow.h"
#include <assert.h>
#include "augment.h"
#include "chosen.h"
#include "geometry.h"
#include "stage.h"
#include "warp.h"

static void
s_enter_window (boxes_t *boxes, const geometry_window_t *window)
{
    boxes_move (boxes, (int64_t) window->from.top - window->to_top,
        (int64_t) window->from.left - window->to_left, window->height, window->width);
}

//  Where image and crop have one size, and there is no padding, torchvision does not even clip.
static bool
s_crops_nothing (const boxes_t *boxes, const operation_t *crop)
{
    const uint32_t *border = crop->pad.border;
    return crop->height == boxes->height && crop->width == boxes->width
        && !border [0] && !border [1] && !border [2] && !border [3];
}

static void
s_random_crop (boxes_t *boxes, const operation_t *crop, keyed_random_t *random)
{
    geometry_window_t window;
    //  Where the crop does not fit, the image's stage has found the sample unsuitable.
    bool fits = geometry_random_crop (crop, boxes->height, boxes->width, random, &window);
    assert (fits);
    if (!s_crops_nothing (boxes, crop))
        s_enter_window (boxes, &window);
}

//  Turned by no angle at all, boxes are clipped all the same, as by torchvision; a perspective that is not
//  done leaves them alone.
static void
s_warp (boxes_t *boxes, const warp_t *warp)
{
    if (warp->kind != WARP_NOTHING || !warp->is_perspective)
        boxes_map (boxes, &warp->points, warp->height, warp->width);
}

static void
s_augment (boxes_t *boxes, const operation_t *operation, keyed_random_t *random)
{
    augment_step_t steps [AUGMENT_STEPS_MAX];
    size_t count = augment_draw (operation, boxes->height, boxes->width, random, steps);
    warp_t warp;
    for (size_t index = 0; index < count; index++)
        if (augment_warp (&steps [index], boxes->height, boxes->width, &warp))
            s_warp (boxes, &warp);
}

static void
s_step (boxes_t *boxes, const operation_t *operation, keyed_random_t *random)
{
    geometry_window_t window;
    image_box_t box;
    warp_t warp;
    uint32_t height, width;
    switch (operation->kind) {
    case OPERATION_RESIZE:
        geometry_resize (operation, boxes->height, boxes->width, &height, &width);
        boxes_stretch (boxes, height, width);
        break;
    case OPERATION_CENTER_CROP:
        window = geometry_center_crop (operation->height, operation->width, boxes->height, boxes->width);
        s_enter_window (boxes, &window);
        break;
    case OPERATION_PAD:
        window = geometry_pad (operation, boxes->height, boxes->width);
        s_enter_window (boxes, &window);
        break;
    case OPERATION_RANDOM_CROP:
        s_random_crop (boxes, operation, random);
        break;
    case OPERATION_RANDOM_RESIZED_CROP:
        box = geometry_random_box (operation, boxes->height, boxes->width, random);
        boxes_move (boxes, box.top, box.left, box.height, box.width);
        boxes_stretch (boxes, operation->height, operation->width);
        break;
    case OPERATION_FLIP:
    case OPERATION_VERTICAL_FLIP:
        if (geometry_happens (operation, random))
            boxes_mirror (boxes, operation->kind == OPERATION_FLIP);
        break;
    case OPERATION_RANDOM_ROTATION:
    case OPERATION_RANDOM_AFFINE:
    case OPERATION_RANDOM_PERSPECTIVE:
        warp = warp_draw (operation, boxes->height, boxes->width, random);
        s_warp (boxes, &warp);
        break;
    case OPERATION_RAND_AUGMENT:
    case OPERATION_TRIVIAL_AUGMENT_WIDE:
    case OPERATION_AUTO_AUGMENT:
        s_augment (boxes, operation, random);
        break;
    default:
        break;
    }
}

//  The operations [begin, end), all of them before or behind the views' parting.
static void
s_follow (boxes_t *boxes, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    chosen_t chosen = chosen_draw (plan->operations, begin, end, key, view);
    for (size_t index = 0; index < chosen.count; index++) {
        const operation_t *operation = &plan->operations [chosen.operations [index]];
        keyed_random_t random = stage_random (operation, key, view);
        s_step (boxes, operation, &random);
    }
}

void
boxes_follow (boxes_t *boxes, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    size_t parts = plan->views_at < end? plan->views_at + 1: end;
    parts = parts < begin? begin: parts;
    s_follow (boxes, plan, begin, parts, key, 0);
    s_follow (boxes, plan, parts, end, key, view);
}

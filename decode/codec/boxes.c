#include "boxes.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { CORNERS = 4 };

typedef struct {
    float at [BOXES_SIDES];
} box_t;

//  Rows are of bytes, which need not lie where floats may.
static box_t
s_box (const boxes_t *self, uint32_t row)
{
    box_t box;
    memcpy (&box, self->rows + row * self->row_bytes, sizeof box);
    return box;
}

static void
s_put (boxes_t *self, uint32_t row, const box_t *box)
{
    memcpy (self->rows + row * self->row_bytes, box, sizeof *box);
}

boxes_t
boxes_take (const decode_tensor_t *tensor, const uint8_t *from, uint32_t rows, uint32_t height,
    uint32_t width, uint8_t *target)
{
    assert (tensor->as == DECODE_BOXES && rows <= tensor->shape [0]);
    boxes_t self = { .rows = target, .row_bytes = tensor->shape [1] * sizeof (float), .count = rows,
        .height = height, .width = width };
    memmove (target, from, rows * self.row_bytes);
    memset (target + rows * self.row_bytes, 0, (tensor->shape [0] - rows) * self.row_bytes);
    return self;
}

//  To the image.
static void
s_clip_box (const boxes_t *self, box_t *box)
{
    const float side [2] = { (float) self->width, (float) self->height };
    for (size_t index = 0; index < BOXES_SIDES; index++) {
        float value = box->at [index], most = side [index % 2];
        box->at [index] = value < 0? 0: value > most? most: value;
    }
}

void
boxes_move (boxes_t *self, int64_t top, int64_t left, uint32_t height, uint32_t width)
{
    const float by [2] = { (float) left, (float) top };
    self->height = height;
    self->width = width;
    for (uint32_t row = 0; row < self->count; row++) {
        box_t box = s_box (self, row);
        for (size_t index = 0; index < BOXES_SIDES; index++)
            box.at [index] -= by [index % 2];
        s_clip_box (self, &box);
        s_put (self, row, &box);
    }
}

void
boxes_stretch (boxes_t *self, uint32_t height, uint32_t width)
{
    if (height == self->height && width == self->width)
        return;
    const float by [2] = { (float) ((double) width / self->width), (float) ((double) height / self->height) };
    self->height = height;
    self->width = width;
    for (uint32_t row = 0; row < self->count; row++) {
        box_t box = s_box (self, row);
        for (size_t index = 0; index < BOXES_SIDES; index++)
            box.at [index] *= by [index % 2];
        s_put (self, row, &box);
    }
}

void
boxes_mirror (boxes_t *self, bool across)
{
    size_t axis = across? 0: 1;
    float side = (float) (across? self->width: self->height);
    for (uint32_t row = 0; row < self->count; row++) {
        box_t box = s_box (self, row);
        float first = box.at [axis];
        box.at [axis] = -(box.at [axis + 2] - side);
        box.at [axis + 2] = -(first - side);
        s_put (self, row, &box);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Maps

//  A row of the matrix times (x, y, 1), in the order in which torch adds up so small a product.
static float
s_product (const float row [3], float x, float y)
{
    return x * row [0] + y * row [1] + row [2];
}

static void
s_point (const boxes_map_t *map, float x, float y, float to [2])
{
    float by = map->is_perspective? s_product (map->matrix + 6, x, y): 1;
    for (size_t axis = 0; axis < 2; axis++)
        to [axis] = s_product (map->matrix + 3 * axis, x, y) / by;
}

//  Of what is no number all is none.
static void
s_widen (float value, bool is_first, float *least, float *most)
{
    if (is_first || value < *least || isnan (value))
        *least = value;
    if (is_first || value > *most || isnan (value))
        *most = value;
}

//  The upright box around where the corners of one go.
static box_t
s_hull (const boxes_map_t *map, const box_t *box)
{
    box_t hull;
    for (size_t corner = 0; corner < CORNERS; corner++) {
        float to [2];
        s_point (map, box->at [corner == 1 || corner == 2? 2: 0], box->at [corner >= 2? 3: 1], to);
        for (size_t axis = 0; axis < 2; axis++)
            s_widen (to [axis], corner == 0, &hull.at [axis], &hull.at [axis + 2]);
    }
    return hull;
}

void
boxes_map (boxes_t *self, const boxes_map_t *map, uint32_t height, uint32_t width)
{
    box_t frame = { .at = { 0, 0, (float) self->width, (float) self->height } };
    frame = map->expands? s_hull (map, &frame): (box_t) { .at = { 0 } };
    self->height = height;
    self->width = width;
    for (uint32_t row = 0; row < self->count; row++) {
        box_t box = s_box (self, row);
        box = s_hull (map, &box);
        for (size_t index = 0; index < BOXES_SIDES; index++)
            box.at [index] -= frame.at [index % 2];
        s_clip_box (self, &box);
        s_put (self, row, &box);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  The end

void
boxes_end (boxes_t *self, float size_min)
{
    uint32_t rows = self->count;
    self->count = 0;
    for (uint32_t row = 0; row < rows; row++) {
        box_t box = s_box (self, row);
        s_clip_box (self, &box);
        //  What no number is in is not as large as anything.
        bool is_large = box.at [2] - box.at [0] >= size_min && box.at [3] - box.at [1] >= size_min;
        if (!is_large)
            continue;
        memmove (self->rows + self->count * self->row_bytes, self->rows + row * self->row_bytes,
            self->row_bytes);
        s_put (self, self->count++, &box);
    }
    memset (self->rows + self->count * self->row_bytes, 0, (rows - self->count) * self->row_bytes);
}

#include "jpeg_rows.h"
#include <assert.h>

//  A number takes 7 bits of each byte, the lowest first; the highest bit says that more follow.
enum { NUMBER_BYTES_MAX = 10, NUMBER_BITS = 7, MORE = 1 << NUMBER_BITS };
//  Coded data between two points.  Together the points take 0.7 % of a file.  Measured, on photographs of 113
//  KB: with points at the begin of rows only (0.24 %), a crop takes 3 % longer; with twice as many (1.3 %),
//  3 % less.
enum { POINT_BYTES = 1024 };
//  Larger DC values are libjpeg's affair (JPEG_DC_MAX in loops.h).
enum { DC_MAX = 1 << 30 };

typedef struct {
    const uint8_t *at, *end;
    bool is_good;
} input_t;

static uint8_t *
s_put (uint8_t *at, uint64_t number)
{
    for (; number >= MORE; number >>= NUMBER_BITS)
        *at++ = (uint8_t) (number | MORE);
    *at++ = (uint8_t) number;
    return at;
}

static uint64_t
s_get (input_t *input)
{
    uint64_t number = 0;
    for (unsigned shift = 0; input->at < input->end && shift < 63; shift += NUMBER_BITS) {
        uint8_t byte = *input->at++;
        number |= (uint64_t) (byte & (MORE - 1)) << shift;
        if (byte < MORE)
            return number;
    }
    input->is_good = false;
    return 0;
}

//  Signed numbers: 0, -1, 1, -2 .. are 0, 1, 2, 3 ..
static uint64_t
s_folded (int64_t number)
{
    return number < 0? ~((uint64_t) number << 1): (uint64_t) number << 1;
}

static int64_t
s_unfolded (uint64_t number)
{
    return (int64_t) (number >> 1) ^ -(int64_t) (number & 1);
}

static jpeg_rows_shape_t
s_shape (const jpeg_rows_image_t *image, size_t step)
{
    assert (step > 0 && step <= image->columns);
    size_t row_points = (image->columns + step - 1) / step;
    return (jpeg_rows_shape_t) { step, row_points, row_points * image->rows };
}

jpeg_rows_shape_t
jpeg_rows_shape_of (const jpeg_rows_image_t *image)
{
    size_t row_points = image->scan_bytes / image->rows / POINT_BYTES + 1;
    return s_shape (image, (image->columns + row_points - 1) / row_points);
}

size_t
jpeg_rows_bytes_max (const jpeg_rows_image_t *image, size_t points)
{
    return 1 + NUMBER_BYTES_MAX * (1 + points * (1 + image->components));
}

//  The first point is where the scan begins, with zeros, and is not written.
size_t
jpeg_rows_encode (const jpeg_rows_image_t *image, const jpeg_rows_shape_t *shape, const jpeg_point_t *points,
    size_t count, uint8_t *target)
{
    uint8_t *at = target;
    *at++ = JPEG_ROWS_VERSION;
    at = s_put (at, shape->step);
    for (size_t index = 1; index < count; index++) {
        const jpeg_point_t *point = &points [index], *before = point - 1;
        at = s_put (at, point->bit - before->bit);
        for (unsigned component = 0; component < image->components; component++)
            at = s_put (at, s_folded ((int64_t) point->dc [component] - before->dc [component]));
    }
    return (size_t) (at - target);
}

bool
jpeg_rows_shape (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image, jpeg_rows_shape_t *shape)
{
    if (size == 0 || bytes [0] != JPEG_ROWS_VERSION)
        return false;
    input_t input = { bytes + 1, bytes + size, true };
    uint64_t step = s_get (&input);
    if (!input.is_good || step == 0 || step > image->columns)
        return false;
    *shape = s_shape (image, (size_t) step);
    return true;
}

size_t
jpeg_rows_decode (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image, jpeg_point_t *points)
{
    jpeg_rows_shape_t shape;
    bool is_known = jpeg_rows_shape (bytes, size, image, &shape);
    assert (is_known);
    input_t input = { bytes + 1, bytes + size, is_known };
    s_get (&input);
    points [0] = (jpeg_point_t) { .bit = 0 };
    size_t count = 1;
    for (; count < shape.points && input.is_good && input.at < input.end; count++) {
        jpeg_point_t *point = &points [count];
        *point = point [-1];
        uint64_t bits = s_get (&input);
        input.is_good &= bits > 0 && bits < image->scan_bytes * 8 - point->bit;
        point->bit += bits;
        for (unsigned component = 0; component < image->components; component++) {
            int64_t difference = s_unfolded (s_get (&input)), dc;
            input.is_good &= !__builtin_add_overflow (point->dc [component], difference, &dc)
                && dc <= DC_MAX && dc >= -DC_MAX;
            point->dc [component] = (int32_t) dc;
        }
    }
    return input.is_good && input.at == input.end? count: 0;
}

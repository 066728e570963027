#include "tile_window.h"
#include <assert.h>
#include <string.h>
#include "jpeg_reader.h"

enum { MARKER_RST0 = 0xd0, MARKER_SOI = 0xd8, MARKER_EOI = 0xd9, MARKER_DRI = 0xdd, RESTARTS = 8 };
enum { FRAME_HEIGHT = 5, FRAME_WIDTH = 7, INTERVAL_BYTES = 6 };
//  Decoders smooth colours of half the width over three of their pixels, and leave it where a row has no more
//  than two.
//  No scale makes fewer than two of one MCU.
enum { SMOOTHED_COLUMNS_MIN = 2 };

//  From the first to before the last, in MCUs or segments.
typedef struct {
    uint32_t begin;
    uint32_t end;
} range_t;

//  ---- which segments

//  The MCUs of one axis that hold [begin, begin + length) at a scale, and `reach` scaled pixels around it, as
//  far as there are any.
static range_t
s_cover (uint32_t begin, uint32_t length, unsigned scale, uint32_t reach, uint32_t mcu, uint32_t count)
{
    uint64_t first = (uint64_t) begin * scale / JPEG_READER_SCALE_WHOLE;
    uint64_t end = ((uint64_t) (begin + length) * scale + JPEG_READER_SCALE_WHOLE
        - 1) / JPEG_READER_SCALE_WHOLE + reach;
    uint32_t side = mcu * scale / JPEG_READER_SCALE_WHOLE;
    first -= first < reach? first: reach;
    range_t range = { (uint32_t) (first / side), (uint32_t) ((end + side - 1) / side) };
    range.end = range.end < count? range.end: count;
    return range;
}

//  Whole segments, and not so few MCUs that colours are not smoothed which in the whole image are.
static range_t
s_segments (range_t columns, const tile_frame_t *frame)
{
    uint32_t interval = frame->interval, count = tile_frame_columns (frame);
    range_t range = { columns.begin / interval, (columns.end + interval - 1) / interval };
    if (!frame->mixed_across || (range.end - range.begin) * interval >= SMOOTHED_COLUMNS_MIN)
        return range;
    if (range.begin > 0)
        range.begin--;
    else if (range.end < count)
        range.end++;
    return range;
}

//  What covers a box: rows of MCUs, and columns of segments.
typedef struct {
    range_t rows;
    range_t columns;
} cover_t;

static cover_t
s_cover_box (const tile_frame_t *frame, const image_request_t *request)
{
    const image_box_t *box = &request->box;
    unsigned scale = jpeg_reader_scale (request);
    uint32_t margin = scale < JPEG_READER_SCALE_WHOLE? JPEG_READER_SCALED_MARGIN: 0;
    range_t mcus = s_cover (box->left, box->width, scale, margin + frame->mixed_across, frame->mcu_width,
        frame->columns);
    return (cover_t) {
        .rows = s_cover (box->top, box->height, scale, margin + frame->mixed_down, frame->mcu_height,
        frame->rows),
        .columns = s_segments (mcus, frame)
    };
}

//  Without a window, all of a row is decoded, and all rows down to the box's last.
bool
tile_window_pays (const tile_frame_t *frame, const image_request_t *request)
{
    cover_t cover = s_cover_box (frame, request);
    uint64_t segment = (uint64_t) frame->interval * frame->mcu_width * frame->mcu_height;
    uint64_t without = segment * cover.rows.end * tile_frame_columns (frame);
    uint64_t with = segment * (cover.rows.end - cover.rows.begin) * (cover.columns.end - cover.columns.begin);
    return without - with >= TILE_WINDOW_PIXELS_MIN && (without - with) * TILE_WINDOW_SHARE >= without;
}

//  ---- the bytes

static uint8_t *
s_put (uint8_t *target, const uint8_t *bytes, size_t count)
{
    memcpy (target, bytes, count);
    return target + count;
}

static void
s_put_big_16 (uint8_t *target, uint32_t value)
{
    target [0] = (uint8_t) (value >> 8);
    target [1] = (uint8_t) value;
}

static size_t
s_head_bytes (const tile_frame_t *frame)
{
    size_t sum = TILE_MARKER_BYTES + INTERVAL_BYTES;
    for (size_t index = 0; index < frame->piece_count; index++)
        sum += frame->pieces [index].size;
    return sum;
}

//  All up to the scan's header, with the window's size; then the restart interval, and that header.
static uint8_t *
s_put_head (uint8_t *target, const tile_frame_t *frame, const uint8_t *bytes, const image_box_t *part)
{
    *target++ = 0xff;
    *target++ = MARKER_SOI;
    for (size_t index = 0; index < frame->piece_count; index++) {
        const tile_piece_t *piece = &frame->pieces [index];
        if (index + 1 == frame->piece_count) {
            const uint8_t interval [INTERVAL_BYTES] = { 0xff, MARKER_DRI, 0,
                INTERVAL_BYTES - TILE_MARKER_BYTES,
                (uint8_t) (frame->interval >> 8), (uint8_t) frame->interval };
            target = s_put (target, interval, INTERVAL_BYTES);
        }
        uint8_t *here = target;
        target = s_put (target, bytes + piece->at, piece->size);
        if (index == frame->frame_piece) {
            s_put_big_16 (here + FRAME_HEIGHT, part->height);
            s_put_big_16 (here + FRAME_WIDTH, part->width);
        }
    }
    return target;
}

//  The segments of one row lie beside each other, with markers that only want another number.
static uint8_t *
s_put_row (uint8_t *target, const tile_table_t *table, const uint8_t *bytes, range_t segments,
    uint32_t *restarts)
{
    const size_t *begins = table->begins;
    size_t from = begins [segments.begin];
    uint8_t *end = s_put (target, bytes + from, begins [segments.end] - from);
    for (uint32_t index = segments.begin; index < segments.end; index++)
        target [begins [index + 1] - from - 1] = (uint8_t) (MARKER_RST0 + (*restarts)++ % RESTARTS);
    return end;
}

static size_t
s_rows_bytes (const tile_frame_t *frame, const tile_table_t *table, range_t rows, range_t columns)
{
    size_t sum = 0;
    uint32_t count = tile_frame_columns (frame);
    for (uint32_t row = rows.begin; row < rows.end; row++)
        sum += table->begins [row * count + columns.end] - table->begins [row * count + columns.begin];
    return sum;
}

//  Pixels of one axis.
static void
s_part (range_t mcus, uint32_t mcu, uint32_t side, uint32_t *begin_p, uint32_t *length_p)
{
    uint32_t end = mcus.end * mcu;
    *begin_p = mcus.begin * mcu;
    *length_p = (end < side? end: side) - *begin_p;
}

bool
tile_window_write (tile_window_t *self, const tile_frame_t *frame, const tile_table_t *table,
    const uint8_t *bytes, const image_request_t *request, scratch_t *room)
{
    assert (table->count == tile_frame_segments (frame));
    cover_t cover = s_cover_box (frame, request);
    range_t rows = cover.rows, columns = cover.columns;
    range_t mcus = { columns.begin * frame->interval, columns.end * frame->interval };
    s_part (rows, frame->mcu_height, frame->height, &self->part.top, &self->part.height);
    s_part (mcus, frame->mcu_width, frame->width, &self->part.left, &self->part.width);
    if (!scratch_need (room, s_head_bytes (frame) + s_rows_bytes (frame, table, rows, columns)))
        return false;
    uint8_t *begin = room->data, *at = s_put_head (begin, frame, bytes, &self->part);
    uint32_t restarts = 0, count = tile_frame_columns (frame);
    for (uint32_t row = rows.begin; row < rows.end; row++)
        at = s_put_row (at, table, bytes,
            (range_t) { row * count + columns.begin, row * count + columns.end }, &restarts);
    at [-1] = MARKER_EOI;
    self->bytes = begin;
    self->size = (size_t) (at - begin);
    return true;
}

image_request_t
tile_window_request (const tile_window_t *self, const image_request_t *request)
{
    image_request_t inner = *request;
    inner.box.top -= self->part.top;
    inner.box.left -= self->part.left;
    return inner;
}

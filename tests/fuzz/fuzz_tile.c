/*  fuzz_tile -- any bytes as a tiled JPEG: a window that can be decoded, or not;
 *  and any JPEG tiled: it is refused, or windows of it have the pixels of the original, and its bytes come
 *  back, where they are kept; and any bytes as a file that has an original.
 *
 *  The input begins with how it is read (tiled first; its original kept; scaled) and four numbers that make a
 *  box of any image; then the file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "read_box.h"
#include "tile_original.h"
#include "tile_transcode.h"
#include "tile_window.h"

//  Larger images are left out: fuzzing lives on speed.
enum { HEAD_BYTES = 5, ERROR_BYTES = 200, PIXELS_MAX = 1 << 18 };
enum { KEPT = 1, TILED_FIRST = 2, SCALED = 4, LAYOUT_SHIFT = 4 };

static const tile_layout_t s_layouts [] = {
    { TILE_EVERY_MCU, 0 }, { TILE_COLUMNS, 3 }, { TILE_SPAN, 48 }, { TILE_WITHIN, 1060 }
};

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *head;
    jpeg_reader_t *readers [2];
    tile_frame_t frame;
    tile_table_t table;
    scratch_t room;
} trial_t;

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

//  Places of [0, 1) that bytes stand for, as a range of at least one in count.
static void
s_range (uint8_t from, uint8_t length, uint32_t count, uint32_t *first_p, uint32_t *count_p)
{
    *first_p = (uint32_t) ((uint64_t) count * from / 256);
    *count_p = 1 + (uint32_t) ((uint64_t) (count - *first_p - 1) * length / 255);
}

static image_request_t
s_request (const trial_t *self)
{
    image_request_t request = { .least_height = 0 };
    s_range (self->head [1], self->head [2], self->frame.height, &request.box.top, &request.box.height);
    s_range (self->head [3], self->head [4], self->frame.width, &request.box.left, &request.box.width);
    if (self->head [0] & SCALED) {
        request.least_height = 1 + request.box.height / 5;
        request.least_width = 1 + request.box.width / 5;
    }
    return request;
}

static void
s_require_same (const image_pixels_t *one, const image_pixels_t *other)
{
    s_require (one->image.height == other->image.height && one->image.width == other->image.width);
    s_require (one->top == other->top && one->left == other->left);
    for (uint32_t row = 0; row < one->image.height; row++)
        s_require (memcmp (image_at (&one->image, row, 0), image_at (&other->image, row, 0),
            image_bytes (1, one->image.width, one->image.channels)) == 0);
}

//  original: what the window's pixels must be those of; NULL where nobody can say.
static void
s_try (trial_t *self, const uint8_t *bytes, const uint8_t *original, size_t original_bytes)
{
    if ((uint64_t) self->frame.height * self->frame.width > PIXELS_MAX)
        return;
    image_request_t request = s_request (self);
    tile_window_t window;
    s_require (tile_window_write (&window, &self->frame, &self->table, bytes, &request, &self->room));
    tile_frame_t inner;
    const char *reason;
    s_require (tile_frame_read (&inner, window.bytes, window.size, &reason));
    s_require (inner.height == window.part.height && inner.width == window.part.width);
    image_pixels_t got, expected;
    image_request_t there = tile_window_request (&window, &request);
    int rc = read_box (self->readers [0], window.bytes, window.size, &there, &got);
    if (!original)
        return;
    s_require (rc == 0 && read_box (self->readers [1], original, original_bytes, &request, &expected) == 0);
    s_require_same (&got, &expected);
}

static void
s_try_tiled (trial_t *self, const uint8_t *bytes, size_t size)
{
    const char *reason;
    if (!tile_frame_read (&self->frame, bytes, size, &reason)) {
        s_require (*reason);
        return;
    }
    if (tile_table_scan (&self->table, &self->frame, bytes, size) == TILE_TABLE_OK)
        s_try (self, bytes, NULL, 0);
}

//  One sees it before it is decoded.
static int
s_is_small (trial_t *self, const uint8_t *bytes, size_t size)
{
    const image_reader_options_t options = { .warnings_max = UINT32_MAX };
    uint32_t height, width;
    char error [ERROR_BYTES];
    return jpeg_reader_open (self->readers [0], &options, bytes, size, &height, &width, error, sizeof error)
        == 0
        && (uint64_t) height * width <= PIXELS_MAX;
}

//  original: what has to come back; NULL where nobody can say.
static void
s_try_restore (trial_t *self, const uint8_t *bytes, size_t size, const uint8_t *original,
    size_t original_bytes)
{
    uint8_t *restored;
    size_t restored_bytes;
    char error [ERROR_BYTES];
    if (!tile_original_is_kept (bytes, size) || !s_is_small (self, bytes, size))
        return;
    if (tile_original_restore (bytes, size, &restored, &restored_bytes, error, sizeof error)) {
        s_require (!original && *error && memchr (error, 0, sizeof error));
        return;
    }
    s_require (!original || (restored_bytes == original_bytes
        && memcmp (restored, original, original_bytes) == 0));
    free (restored);
}

static void
s_try_transcoded (trial_t *self, const uint8_t *bytes, size_t size)
{
    tiled_t tiled;
    char error [ERROR_BYTES];
    if (!s_is_small (self, bytes, size))
        return;
    tile_layout_t layout = s_layouts [self->head [0] >> LAYOUT_SHIFT & 3];
    if (tile_transcode (bytes, size, layout, &tiled, error, sizeof error)) {
        s_require (*error && memchr (error, 0, sizeof error));
        return;
    }
    if (self->head [0] & KEPT && tile_original_keep (bytes, size, &tiled, error, sizeof error) == 0) {
        s_require (tile_original_is_kept (tiled.bytes, tiled.size));
        s_try_restore (self, tiled.bytes, tiled.size, bytes, size);
    }
    const char *reason;
    s_require (tile_frame_read (&self->frame, tiled.bytes, tiled.size, &reason));
    s_require (tile_table_scan (&self->table, &self->frame, tiled.bytes, tiled.size) == TILE_TABLE_OK);
    s_try (self, tiled.bytes, bytes, size);
    free (tiled.bytes);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES)
        return 0;
    trial_t trial = { .head = data, .readers = { jpeg_reader_new (), jpeg_reader_new () } };
    s_require (trial.readers [0] && trial.readers [1]);
    size_t file_bytes = size - HEAD_BYTES;
    uint8_t *file = malloc (file_bytes? file_bytes: 1);
    s_require (file != NULL);
    memcpy (file, data + HEAD_BYTES, file_bytes);
    if (data [0] & TILED_FIRST)
        s_try_transcoded (&trial, file, file_bytes);
    else {
        s_try_restore (&trial, file, file_bytes, NULL, 0);
        s_try_tiled (&trial, file, file_bytes);
    }
    jpeg_reader_destroy (&trial.readers [0]);
    jpeg_reader_destroy (&trial.readers [1]);
    tile_table_free (&trial.table);
    scratch_free (&trial.room);
    free (file);
    return 0;
}

/*  fuzz_jpeg -- any bytes as a JPEG, read by the entropy decoder and by libjpeg alone: the same answer, and
 *  the same pixels of the box; if its rows can be found, with these too, and with those that were learned
 *  from another box.  With any other bytes as its rows it is read somehow.
 *
 *  The input begins with the scale and whether warnings count, and four numbers that make a box of any image.
 *  With FOREIGN_ROWS, a number and so many bytes that stand for rows follow, then another such head.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "jpeg_reader.h"

//  Larger images are opened, not read: fuzzing lives on speed.
enum { HEAD_BYTES = 5, ERROR_BYTES = 200, PIXELS_MAX = 1 << 20 };
enum { SCALE_BITS = 3, NO_WARNINGS = 4, IS_MASK = 8, FOREIGN_ROWS = 16 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

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

static int
s_read_box (jpeg_reader_t *reader, const uint8_t head [HEAD_BYTES], const uint8_t *bytes, size_t size,
    const uint8_t *rows, size_t rows_bytes, image_pixels_t *pixels)
{
    char error [ERROR_BYTES];
    uint32_t height, width;
    const image_reader_options_t options = { .warnings_max = head [0] & NO_WARNINGS? 0: UINT32_MAX,
        .is_mask = head [0] & IS_MASK, .rows = rows, .rows_bytes = rows_bytes };
    int rc = jpeg_reader.open (reader, &options, bytes, size, &height, &width, error, ERROR_BYTES);
    *pixels = (image_pixels_t) { .height = 0 };
    if (rc || (uint64_t) height * width > PIXELS_MAX)
        return rc;
    image_request_t request = { .least_height = 0 };
    s_range (head [1], head [2], height, &request.box.top, &request.box.height);
    s_range (head [3], head [4], width, &request.box.left, &request.box.width);
    if (head [0] & SCALE_BITS) {
        request.least_height = 1 + (request.box.height >> (head [0] & SCALE_BITS));
        request.least_width = 1 + (request.box.width >> (head [0] & SCALE_BITS));
    }
    return jpeg_reader.read (reader, &request, pixels, error, ERROR_BYTES);
}

static int
s_read (jpeg_reader_t *reader, const uint8_t *data, size_t size, const uint8_t *rows, size_t rows_bytes,
    image_pixels_t *pixels)
{
    return s_read_box (reader, data, data + HEAD_BYTES, size - HEAD_BYTES, rows, rows_bytes, pixels);
}

//  What is learned of a sound file by another box of it.  The caller frees it.
static uint8_t *
s_learn (jpeg_reader_t *reader, const uint8_t *data, size_t size, size_t *rows_bytes_p)
{
    const uint8_t head [HEAD_BYTES] = { data [0], data [2], data [1], data [4], data [3] }, *lent = NULL;
    image_pixels_t pixels;
    int rc = s_read_box (reader, head, data + HEAD_BYTES, size - HEAD_BYTES, NULL, 0, &pixels);
    *rows_bytes_p = rc == 0? jpeg_reader_learned (reader, &lent): 0;
    uint8_t *rows = malloc (*rows_bytes_p + 1);
    s_require (rows != NULL);
    if (*rows_bytes_p > 0)
        memcpy (rows, lent, *rows_bytes_p);
    return rows;
}

static void
s_require_same (const image_t *found, const image_t *expected)
{
    s_require (found->height == expected->height && found->width == expected->width);
    for (uint32_t y = 0; y < found->height; y++)
        s_require (memcmp (image_at (found, y, 0), image_at (expected, y, 0),
            image_bytes (1, found->width, found->channels)) == 0);
}

//  Behind the rows come a head and a file.
static void
s_read_foreign (jpeg_reader_t *reader, const uint8_t *data, size_t size)
{
    size_t rows_bytes = data [HEAD_BYTES];
    if (size <= HEAD_BYTES + 1 + rows_bytes + HEAD_BYTES)
        return;
    const uint8_t *rest = data + HEAD_BYTES + 1 + rows_bytes;
    image_pixels_t pixels;
    (void) s_read (reader, rest, size - (size_t) (rest - data), data + HEAD_BYTES + 1, rows_bytes, &pixels);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static jpeg_reader_t *ours, *plain;
    if (!ours) {
        ours = jpeg_reader.new ();
        setenv ("TUREEN_JPEG", "libjpeg", 1);
        plain = jpeg_reader.new ();
        unsetenv ("TUREEN_JPEG");
    }
    if (size <= HEAD_BYTES)
        return 0;
    if (data [0] & FOREIGN_ROWS) {
        s_read_foreign (ours, data, size);
        return 0;
    }
    image_pixels_t found, expected;
    int rc = s_read (plain, data, size, NULL, 0, &expected);
    s_require (s_read (ours, data, size, NULL, 0, &found) == rc);
    if (rc || expected.height == 0)
        return 0;
    s_require_same (&found.image, &expected.image);
    size_t rows_bytes;
    uint8_t *learned = s_learn (ours, data, size, &rows_bytes);
    s_require (s_read (ours, data, size, learned, rows_bytes, &found) == 0);
    s_require_same (&found.image, &expected.image);
    free (learned);
    const uint8_t *rows;
    s_require (jpeg_reader_rows (ours, data + HEAD_BYTES, size - HEAD_BYTES, &rows, &rows_bytes) == 0);
    if (rows_bytes > 0) {
        s_require (s_read (ours, data, size, rows, rows_bytes, &found) == 0);
        s_require_same (&found.image, &expected.image);
    }
    return 0;
}

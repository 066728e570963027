/*  fuzz_image -- any bytes as an image or a mask: pixels of the box that was asked for, or a reason.
 *
 *  The input begins with how it is read (as a mask, turned, without regard to warnings, scaled; with the
 *  checksums of a PNG put right first, which no mutation does) and four numbers that make a box of any image.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "decoder.h"
#include "image_reader.h"

//  Larger images are opened, not read: fuzzing lives on speed.
enum { HEAD_BYTES = 5, ERROR_BYTES = 200, PIXELS_MAX = 1 << 20 };
enum { IS_MASK = 1, ORIENTATION = 2, NO_WARNINGS = 4, SCALED = 8, MENDED = 16 };
enum { SIGNATURE_BYTES = 8, CHUNK_HEAD_BYTES = 8, CHUNK_BYTES = 12 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static void
s_check_answer (int rc, const char *error)
{
    s_require (memchr (error, 0, ERROR_BYTES) != NULL);
    s_require (!rc == !*error);
    for (const char *at = error; *at; at++)
        s_require (*at >= ' ' && *at <= '~');
}

static uint32_t
s_big_32 (const uint8_t *bytes)
{
    return (uint32_t) bytes [0] << 24 | (uint32_t) bytes [1] << 16 | (uint32_t) bytes [2] << 8 | bytes [3];
}

//  The CRC of PNG's chunks.
static uint32_t
s_checksum (const uint8_t *bytes, size_t count)
{
    uint32_t sum = UINT32_MAX;
    for (size_t index = 0; index < count; index++) {
        sum ^= bytes [index];
        for (int bit = 0; bit < 8; bit++)
            sum = (sum >> 1) ^ (sum & 1? 0xedb88320u: 0);
    }
    return ~sum;
}

//  As far as chunks can be told.
static void
s_mend (uint8_t *bytes, size_t size)
{
    for (size_t place = SIGNATURE_BYTES; size >= CHUNK_BYTES && place <= size - CHUNK_BYTES;) {
        size_t length = s_big_32 (bytes + place), behind = size - place - CHUNK_BYTES;
        if (length > behind)
            return;
        uint32_t sum = s_checksum (bytes + place + 4, length + 4);
        for (size_t index = 0; index < 4; index++)
            bytes [place + CHUNK_HEAD_BYTES + length + index] = (uint8_t) (sum >> (24 - 8 * index));
        place += length + CHUNK_BYTES;
    }
}

//  Places of [0, 1) that bytes stand for, as a range of at least one in count.
static void
s_range (uint8_t from, uint8_t length, uint32_t count, uint32_t *first_p, uint32_t *count_p)
{
    *first_p = (uint32_t) ((uint64_t) count * from / 256);
    *count_p = 1 + (uint32_t) ((uint64_t) (count - *first_p - 1) * length / 255);
}

//  Touches every pixel of the box; the sanitizers know which memory is allocated.
static uint32_t
s_sum (const image_pixels_t *pixels)
{
    const image_t *image = &pixels->image;
    uint32_t sum = 0;
    for (uint32_t row = 0; row < image->height; row++)
        for (size_t index = 0; index < (size_t) image->width * image->channels; index++)
            sum = sum * 31 + image_at (image, row, 0) [index];
    s_require (pixels->top >= 0 && pixels->top + pixels->height <= image->height);
    s_require (pixels->left >= 0 && pixels->left + pixels->width <= image->width);
    return sum;
}

static int
s_read (image_reader_t *reader, const image_reader_options_t *options, const image_request_t *request,
    uint32_t *sum_p)
{
    char error [ERROR_BYTES] = "";
    image_pixels_t pixels;
    int rc = image_reader_read (reader, request, &pixels, error, sizeof error);
    s_check_answer (rc, error);
    if (rc)
        return rc;
    s_require (pixels.image.channels == (options->is_mask? 1: IMAGE_COLOURS));
    s_require (pixels.height >= request->least_height && pixels.width >= request->least_width);
    if (!request->least_height)
        s_require (pixels.image.height == request->box.height && pixels.image.width == request->box.width);
    *sum_p = s_sum (&pixels);
    return 0;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES)
        return 0;
    image_reader_options_t options = { .is_mask = data [0] & IS_MASK, .orientation = data [0] & ORIENTATION,
        .warnings_max = data [0] & NO_WARNINGS? 0: UINT32_MAX };
    image_reader_t *reader = image_reader_new ();
    s_require (reader != NULL);
    size_t file_bytes = size - HEAD_BYTES;
    uint8_t *file = malloc (file_bytes? file_bytes: 1);
    s_require (file != NULL);
    memcpy (file, data + HEAD_BYTES, file_bytes);
    if (data [0] & MENDED)
        s_mend (file, file_bytes);
    uint32_t sums [2] = { 0, 0 };
    int answers [2] = { 0, 0 };
    for (int time = 0; time < 2; time++) {
        char error [ERROR_BYTES] = "";
        image_request_t request = { .least_height = 0 };
        uint32_t height, width;
        options.warnings_max -= options.warnings_max == UINT32_MAX && time == 1;
        answers [time] = image_reader_open (reader, &options, file, file_bytes, &height, &width,
            error, sizeof error);
        s_check_answer (answers [time], error);
        if (answers [time])
            continue;
        s_require (height > 0 && width > 0 && (uint64_t) height * width <= DECODER_PIXELS_MAX);
        if ((uint64_t) height * width > PIXELS_MAX)
            break;
        s_range (data [1], data [2], height, &request.box.top, &request.box.height);
        s_range (data [3], data [4], width, &request.box.left, &request.box.width);
        if (data [0] & SCALED) {
            request.least_height = 1 + request.box.height / 3;
            request.least_width = 1 + request.box.width / 3;
        }
        answers [time] = s_read (reader, &options, &request, &sums [time]);
    }
    //  Whatever the first time left behind in the reader, and whether or not there was a window.
    s_require (answers [0] == answers [1] && sums [0] == sums [1]);
    image_reader_destroy (&reader);
    free (file);
    return 0;
}

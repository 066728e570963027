/*  test_jpeg_reader -- boxes of JPEGs beside a simple model, which decodes all of the image.  */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "decoder.h"
#include "jpeg_model.h"
#include "jpeg_reader.h"

enum { ERROR_BYTES = 400, SIDE_MAX = 100 };

//  ---------------------------------------------------------------------------------------------------------
//  Reading

static const image_reader_options_t s_plain = { .warnings_max = UINT32_MAX };

//  Opens and reads a box (NULL: all) of an exact copy, so that the address sanitizer sees a read behind the
//  end.
//  pixels are lent by the reader.
static int
s_read (jpeg_reader_t *reader, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
    const image_request_t *request, image_pixels_t *pixels, char error [ERROR_BYTES])
{
    uint8_t *copy = malloc (size? size: 1);
    if (size)
        memcpy (copy, bytes, size);
    memset (error, 'x', ERROR_BYTES);
    uint32_t height, width;
    int rc = jpeg_reader.open (reader, options, copy, size, &height, &width, error, ERROR_BYTES);
    if (rc == 0) {
        image_request_t all = { .box = { 0, 0, height, width } };
        rc = jpeg_reader.read (reader, request? request: &all, pixels, error, ERROR_BYTES);
    }
    if (rc) {
        assert_true (rc == -EBADMSG || (rc == -EDOM && options->is_mask));
        assert_non_null (memchr (error, 0, ERROR_BYTES));
        assert_true (*error);
    }
    free (copy);
    return rc;
}

static image_request_t
s_random_box (uint32_t height, uint32_t width, uint64_t *random)
{
    image_request_t request = { .least_height = 0 };
    image_box_t *box = &request.box;
    box->height = 1 + (uint32_t) test_below (random, test_below (random, 3)? height: 1 + height / 4);
    box->width = 1 + (uint32_t) test_below (random, test_below (random, 3)? width: 1 + width / 4);
    box->top = (uint32_t) test_below (random, height - box->height + 1);
    box->left = (uint32_t) test_below (random, width - box->width + 1);
    return request;
}

//  The view is the model's pixels at (top, left).
static void
s_assert_part (const char *what, const image_t *image, const picture_t *model, uint32_t top, uint32_t left)
{
    assert_int_equal (image->channels, model->channels);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *expected = model->pixels
            + ((top + y) * (size_t) model->width + left) * model->channels;
        if (memcmp (image_at (image, y, 0), expected, (size_t) image->width * image->channels) == 0)
            continue;
        fail_msg ("%s: row %u of %u x %u at %u, %u of %u x %u differs", what, y, image->height, image->width,
            top, left, model->height, model->width);
    }
}

static void
s_assert_box (const char *what, const image_pixels_t *pixels, const image_request_t *request,
    const picture_t *model)
{
    const image_box_t *box = &request->box;
    assert_int_equal (pixels->image.height, box->height);
    assert_int_equal (pixels->image.width, box->width);
    assert_true (pixels->top == 0 && pixels->left == 0);
    assert_true (pixels->height == box->height && pixels->width == box->width);
    s_assert_part (what, &pixels->image, model, box->top, box->left);
}

static void
s_check_boxes (jpeg_reader_t *reader, const made_kind_t *kind, uint32_t height, uint32_t width, int boxes,
    uint64_t *random)
{
    char error [ERROR_BYTES];
    picture_t model;
    image_pixels_t pixels;
    made_file_t file = made_jpeg (kind, height, width, random);
    assert_true (jpeg_model (file.bytes, file.size, false, 8, &model));
    for (int index = 0; index < boxes; index++) {
        image_request_t request = s_random_box (height, width, random);
        if (s_read (reader, &s_plain, file.bytes, file.size, &request, &pixels, error))
            fail_msg ("%s, %u x %u: %s", kind->name, height, width, error);
        s_assert_box (kind->name, &pixels, &request, &model);
    }
    free (model.pixels);
    free (file.bytes);
}

//  Any box of any kind of file has the pixels of the whole image.
static void
test_boxes_are_parts_of_the_whole (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    jpeg_reader_t *reader = jpeg_reader.new ();
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        for (int size = 0; size < 8; size++) {
            uint32_t height = 1 + (uint32_t) test_below (&random, SIDE_MAX);
            uint32_t width = 1 + (uint32_t) test_below (&random, SIDE_MAX);
            s_check_boxes (reader, &made_kinds [kind], height, width, 12, &random);
        }
        s_check_boxes (reader, &made_kinds [kind], 1 + (uint32_t) test_below (&random, 3), SIDE_MAX, 6,
            &random);
        s_check_boxes (reader, &made_kinds [kind], SIDE_MAX, 1 + (uint32_t) test_below (&random, 3), 6,
            &random);
        s_check_boxes (reader, &made_kinds [kind], 130, 200, 20, &random);
    }
    jpeg_reader.destroy (reader);
}

//  A box never costs the room of the image; only that of points in its coded data (jpeg_rows.h).
static void
test_a_box_takes_little_room (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_444], 1000, 1000, &random);
    jpeg_reader_t *reader = jpeg_reader.new ();
    image_request_t request = { .box = { 900, 500, 40, 100 } };
    size_t before = mallinfo2 ().uordblks;
    assert_int_equal (s_read (reader, &s_plain, file.bytes, file.size, &request, &pixels, error), 0);
    assert_true (mallinfo2 ().uordblks < before + 41 * 120 * 3 + 8192 + file.size / 32);
    jpeg_reader.destroy (reader);
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Damage

//  A file cut short at any length is bad, whichever box is asked for.
static void
test_truncated_at_every_length (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    jpeg_reader_t *reader = jpeg_reader.new ();
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        made_file_t file = made_jpeg_with (&made_kinds [kind], 36, 40, 30, &random, NULL);
        for (size_t size = 0; size < file.size; size++) {
            image_request_t request = s_random_box (36, 40, &random);
            if (size % 2)
                request.box = (image_box_t) { 0, 0, 1, 1 };
            int rc = s_read (reader, &s_plain, file.bytes, size, &request, &pixels, error);
            picture_t model;
            bool good = jpeg_model (file.bytes, size, false, 8, &model);
            free (model.pixels);
            if ((rc == 0) != good)
                fail_msg ("%s at %zu of %lu: we say %d, the model says %d", made_kinds [kind].name, size,
                    file.size, rc, good);
            if (good && size + 2 < file.size)
                fail_msg ("%s at %zu of %lu passes", made_kinds [kind].name, size, file.size);
            if (rc && size > 3 && !strstr (error, "truncated JPEG"))
                fail_msg ("%s at %zu: %s", made_kinds [kind].name, size, error);
        }
        free (file.bytes);
    }
    jpeg_reader.destroy (reader);
}

static void
s_damage (made_file_t *file, uint64_t *random)
{
    for (uint64_t count = 1 + test_below (random, 5); count > 0; count--) {
        size_t at = test_below (random, file->size);
        file->bytes [at] = (uint8_t) test_below (random, 256);
        //  Markers where there are none, restarts and the end among them.
        if (test_below (random, 3) == 0 && at + 1 < file->size) {
            static const uint8_t codes [] = { 0xd9, 0xd0, 0xd5, 0xda, 0xc4, 0xe1, 0x00, 0xff, 0x01, 0xd8 };
            file->bytes [at] = 0xff;
            file->bytes [at + 1] = codes [test_below (random, sizeof codes)];
        }
    }
    if (test_below (random, 4) == 0)
        file->size = test_below (random, file->size);
}

//  Whether a damaged file is bad, and its pixels if not, is as for the whole image, whichever box is asked
//  for.
static void
test_damage_is_judged_as_in_the_whole (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    jpeg_reader_t *reader = jpeg_reader.new ();
    int bad = 0;
    enum { ROUNDS = 1500 };
    for (int round = 0; round < ROUNDS; round++) {
        const made_kind_t *kind = &made_kinds [test_below (&random, MADE_KINDS)];
        made_file_t file = made_jpeg_with (kind, 40, 50, 25, &random, NULL);
        s_damage (&file, &random);
        picture_t model;
        bool good = jpeg_model (file.bytes, file.size, false, 8, &model);
        for (int box = 0; box < 3 && !model.too_large; box++) {
            image_request_t request = { .box = { 0, 0, 1, 1 } };
            if (model.height && box)
                request = s_random_box (model.height, model.width, &random);
            int rc = s_read (reader, &s_plain, file.bytes, file.size, &request, &pixels, error);
            if ((rc == 0) != good)
                fail_msg ("round %d, %s: we say %d (%s), the model says %d", round, kind->name, rc,
                    rc? error: "", good);
            if (good)
                s_assert_box (kind->name, &pixels, &request, &model);
        }
        bad += !good;
        free (model.pixels);
        free (file.bytes);
    }
    assert_true (bad > ROUNDS / 10 && bad < ROUNDS * 9 / 10);
    jpeg_reader.destroy (reader);
}

//  Where the data of the first scan begin.
static size_t
s_scan (const made_file_t *file)
{
    size_t at = 2;
    while (file->bytes [at + 1] != 0xda)
        at += 2 + (size_t) (file->bytes [at + 2] << 8 | file->bytes [at + 3]);
    return at + 2 + (size_t) (file->bytes [at + 2] << 8 | file->bytes [at + 3]);
}

//  The limit counts the warnings of the whole file, whichever box is asked for, and the reason quotes the
//  first.
static void
test_warnings_are_counted (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    jpeg_reader_t *reader = jpeg_reader.new ();
    static const int kinds [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_RESTARTS, MADE_KIND_PROGRESSIVE };
    for (int round = 0; round < 60; round++) {
        made_file_t file = made_jpeg (&made_kinds [kinds [round % 4]], 90, 70, &random);
        size_t scan = s_scan (&file);
        for (uint64_t count = test_below (&random, 4) * 10; count > 0; count--)
            file.bytes [scan + test_below (&random,
                file.size - scan - 2)] ^= (uint8_t) (1 << test_below (&random, 8));
        picture_t model;
        if (jpeg_model (file.bytes, file.size, false, 8, &model))
            for (uint32_t allowed = 0; allowed < 6; allowed++) {
                image_reader_options_t options = { .warnings_max = allowed };
                image_request_t request = s_random_box (90, 70, &random);
                int rc = s_read (reader, &options, file.bytes, file.size, &request, &pixels, error);
                if ((rc == 0) != (model.warnings <= allowed))
                    fail_msg ("round %d: %ld warnings, %u allowed: %d", round, model.warnings, allowed, rc);
                char number [50];
                snprintf (number, sizeof number, "%u libjpeg warnings, %u allowed", allowed + 1, allowed);
                if (rc && (!strstr (error, number) || !strstr (error, "orrupt") ))
                    fail_msg ("\"%s\" lacks \"%s\" or libjpeg's words", error, number);
            }
        free (model.pixels);
        free (file.bytes);
    }
    jpeg_reader.destroy (reader);
}

//  ---------------------------------------------------------------------------------------------------------
//  Smaller pixels

//  Where the wanted box is in what came, by the formula of the header: scaled positions are exact eighths.
static void
s_assert_scaled (const char *what, const image_pixels_t *pixels, const image_request_t *request,
    unsigned scale, const picture_t *model)
{
    const image_box_t *box = &request->box;
    double top = box->top * scale / 8.0 - pixels->top, left = box->left * scale / 8.0 - pixels->left;
    assert_true (pixels->height == box->height * scale / 8.0 && pixels->width == box->width * scale / 8.0);
    assert_true (top >= 0 && top == (uint32_t) top && left >= 0 && left == (uint32_t) left);
    assert_true (pixels->top >= 0 && pixels->top + pixels->height <= pixels->image.height);
    assert_true (pixels->left >= 0 && pixels->left + pixels->width <= pixels->image.width);
    assert_true (top + pixels->image.height <= model->height && left + pixels->image.width <= model->width);
    //  Two pixels around the box, where the image has them.
    double below = pixels->image.height - pixels->top - pixels->height;
    double right = pixels->image.width - pixels->left - pixels->width;
    bool whole = scale == 8;
    assert_true (whole || (pixels->top >= 2 || top == 0));
    assert_true (whole || (pixels->left >= 2 || left == 0));
    assert_true (whole || below >= 2 || top + pixels->image.height == model->height);
    assert_true (whole || right >= 2 || left + pixels->image.width == model->width);
    s_assert_part (what, &pixels->image, model, (uint32_t) top, (uint32_t) left);
}

//  The scale that the header promises.
static unsigned
s_expected_scale (const image_request_t *request)
{
    for (unsigned scale = 1; scale < 8; scale *= 2)
        if (request->box.height * scale / 8.0 >= request->least_height
        &&  request->box.width * scale / 8.0 >= request->least_width)
            return scale;
    return 8;
}

//  A scaled box is the part of what libjpeg makes of the whole at the smallest scale that is large enough.
static void
test_scaled_boxes_are_parts_of_the_scaled_whole (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    jpeg_reader_t *reader = jpeg_reader.new ();
    int seen [9] = { 0 };
    for (int round = 0; round < MADE_KINDS * 6; round++) {
        const made_kind_t *kind = &made_kinds [round % MADE_KINDS];
        uint32_t height = 1 + (uint32_t) test_below (&random, 200),
            width = 1 + (uint32_t) test_below (&random, 200);
        made_file_t file = made_jpeg (kind, height, width, &random);
        picture_t models [9] = { { .pixels = NULL } };
        for (int box = 0; box < 12; box++) {
            image_request_t request = s_random_box (height, width, &random);
            request.least_height = 1 + (uint32_t) test_below (&random, request.box.height / 2 + 1);
            request.least_width = 1 + (uint32_t) test_below (&random, request.box.width / 2 + 1);
            unsigned scale = s_expected_scale (&request);
            seen [scale]++;
            if (!models [scale].pixels)
                assert_true (jpeg_model (file.bytes, file.size, false, scale, &models [scale]));
            assert_int_equal (s_read (reader, &s_plain, file.bytes, file.size, &request, &pixels, error), 0);
            s_assert_scaled (kind->name, &pixels, &request, scale, &models [scale]);
        }
        for (unsigned scale = 1; scale <= 8; scale++)
            free (models [scale].pixels);
        free (file.bytes);
    }
    assert_true (seen [1] && seen [2] && seen [4] && seen [8]);
    jpeg_reader.destroy (reader);
}

//  The mean distance of the scaled pixels from means of the full ones.
static INSTRUMENT_ROWS double
s_distance (const picture_t *full, const image_t *scaled, uint32_t factor)
{
    double sum = 0;
    uint32_t height = full->height / factor, width = full->width / factor;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t channel = 0; channel < 3; channel++) {
                uint32_t mean = factor * factor / 2;
                for (uint32_t row = y * factor; row < (y + 1) * factor; row++)
                    for (uint32_t column = x * factor; column < (x + 1) * factor; column++)
                        mean += full->pixels [((size_t) row * full->width + column) * 3 + channel];
                mean /= factor * factor;
                sum += abs ((int) mean - image_at (scaled, y, x) [channel]);
            }
    return sum / (height * width * 3.0);
}

//  Scaled pixels are about the means of those that they stand for; on these noisy images, within 8 of 255 on
//  average.
static void
test_scaled_pixels_are_means (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    picture_t full;
    static const int kinds [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_GREY, MADE_KIND_PROGRESSIVE };
    for (int index = 0; index < 4; index++) {
        made_file_t file = made_jpeg_with (&made_kinds [kinds [index]], 160, 240, 90, &random, NULL);
        assert_true (jpeg_model (file.bytes, file.size, false, 8, &full));
        for (unsigned scale = 1; scale < 8; scale *= 2) {
            char error [ERROR_BYTES];
            image_pixels_t pixels;
            image_request_t request = { { 0, 0, 160, 240 }, 20 * scale, 30 * scale };
            jpeg_reader_t *reader = jpeg_reader.new ();
            assert_int_equal (s_read (reader, &s_plain, file.bytes, file.size, &request, &pixels, error), 0);
            assert_int_equal (pixels.image.width, 30 * scale);
            double distance = s_distance (&full, &pixels.image, 8 / scale);
            print_message ("%s at %u/8: %.2f\n", made_kinds [kinds [index]].name, scale, distance);
            assert_true (distance < 8);
            jpeg_reader.destroy (reader);
        }
        free (full.pixels);
        free (file.bytes);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Masks, EXIF blocks, bombs, reuse

//  A grey JPEG gives its values, a byte each; one with colours is no mask.
static void
test_masks (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    image_reader_options_t options = { .is_mask = true, .warnings_max = UINT32_MAX };
    jpeg_reader_t *reader = jpeg_reader.new ();
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        picture_t model;
        made_file_t file = made_jpeg (&made_kinds [kind], 45, 61, &random);
        image_request_t request = s_random_box (45, 61, &random);
        int rc = s_read (reader, &options, file.bytes, file.size, &request, &pixels, error);
        if (made_kinds [kind].space == JCS_GRAYSCALE) {
            assert_int_equal (rc, 0);
            assert_true (jpeg_model (file.bytes, file.size, true, 8, &model));
            s_assert_box (made_kinds [kind].name, &pixels, &request, &model);
            free (model.pixels);
        }
        else {
            assert_int_equal (rc, -EDOM);
            assert_non_null (strstr (error, "a mask must be grey or have a palette"));
            //  Where there are no pixels, it is no image either.
            assert_int_equal (s_read (reader, &options, file.bytes, 15, NULL, &pixels, error), -EBADMSG);
        }
        free (file.bytes);
    }
    jpeg_reader.destroy (reader);
}

static const uint8_t *
s_exif (jpeg_reader_t *reader, const made_file_t *file, bool orientation, size_t *size_p)
{
    char error [ERROR_BYTES];
    uint32_t height, width;
    image_reader_options_t options = { .orientation = orientation, .warnings_max = UINT32_MAX };
    assert_int_equal (jpeg_reader.open (reader, &options, file->bytes, file->size, &height, &width, error,
        ERROR_BYTES), 0);
    image_block_t exif = jpeg_reader.notes (reader).exif;
    *size_p = exif.size;
    return exif.bytes;
}

//  The first EXIF block is lent, if it is asked for; other APP1 markers are stepped over, any number of them.
static void
test_exif_blocks (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    size_t size;
    made_file_t plain = made_jpeg (&made_kinds [MADE_KIND_GREY], 9, 9, &random);
    made_file_t block = { (uint8_t *) "Exif\0\0first", 11 };
    made_file_t file = made_jpeg_with (&made_kinds [MADE_KIND_420], 20, 20, 80, &random, &block);
    jpeg_reader_t *reader = jpeg_reader.new ();
    assert_null (s_exif (reader, &file, false, &size));
    assert_int_equal (size, 0);
    const uint8_t *exif = s_exif (reader, &file, true, &size);
    assert_int_equal (size, 11);
    assert_memory_equal (exif, "Exif\0\0first", 11);
    assert_null (s_exif (reader, &plain, true, &size));
    made_insert (&file, 2, "\xff\xe1\0\10http:/\xff\xe1\0\15Exif\0\0other\xff\xe1\0\2\xff\xe1\0\5Exi", 36);
    exif = s_exif (reader, &file, true, &size);
    assert_int_equal (size, 11);
    assert_memory_equal (exif, "Exif\0\0other", 11);
    enum { MARKERS = 200 * 1000 };
    uint8_t *many = malloc (4 * MARKERS);
    for (size_t index = 0; index < MARKERS; index++)
        memcpy (many + 4 * index, "\xff\xe1\0\2", 4);
    made_insert (&file, 2, many, 4 * MARKERS);
    time_t begin = time (NULL);
    assert_non_null (s_exif (reader, &file, true, &size));
    assert_true (time (NULL) - begin < 20);
    free (many);
    jpeg_reader.destroy (reader);
    free (plain.bytes);
    free (file.bytes);
}

//  A header of 60,000 x 60,000 is refused when it is opened, and takes no memory.
static void
test_pixel_bombs (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    uint32_t height, width;
    jpeg_reader_t *reader = jpeg_reader.new ();
    static const struct { uint32_t height, width; const char *fragment; } cases [] = {
        { 60000, 60000, "more pixels than the limit (60000 x 60000" },
        { 10001, 10000, "more pixels than the limit" },
        { 65535, 65535, "damaged or unsupported JPEG" }, { 0, 10, "damaged or unsupported JPEG" },
    };
    for (int kind = 0; kind < MADE_KINDS; kind++)
        for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
            made_file_t file = made_jpeg (&made_kinds [kind], 8, 8, &random);
            made_set_size (file.bytes, file.size, cases [index].height, cases [index].width);
            struct mallinfo2 before = mallinfo2 ();
            assert_int_equal (jpeg_reader.open (reader, &s_plain, file.bytes, file.size, &height, &width,
                error, sizeof error), -EBADMSG);
            struct mallinfo2 after = mallinfo2 ();
            assert_true (after.uordblks <= before.uordblks + 65536 && after.hblkhd == before.hblkhd);
            if (!strstr (error, cases [index].fragment))
                fail_msg ("\"%s\" lacks \"%s\"", error, cases [index].fragment);
            free (file.bytes);
        }
    jpeg_reader.destroy (reader);
}

//  A progressive file may repeat a scan DECODER_SCANS_MAX times, not more; a box is no way around the limit.
static void
test_scan_bombs (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    jpeg_reader_t *reader = jpeg_reader.new ();
    for (int count = 80; count <= 500; count += 420) {
        made_file_t file = made_jpeg (&made_kinds [MADE_KIND_PROGRESSIVE], 30, 30, &random);
        size_t end = file.size - 2, scan = end;
        while (file.bytes [scan] != 0xff || file.bytes [scan + 1] != 0xda)
            scan--;
        size_t length = end - scan;
        uint8_t *copies = malloc (length * (size_t) count);
        for (int index = 0; index < count; index++)
            memcpy (copies + length * (size_t) index, file.bytes + scan, length);
        made_insert (&file, end, copies, length * (size_t) count);
        free (copies);
        if (count > DECODER_SCANS_MAX)
            made_set_size (file.bytes, file.size, 1000, 1000);
        image_request_t request = { .box = { 3, 4, 5, 6 } };
        int rc = s_read (reader, &s_plain, file.bytes, file.size, &request, &pixels, error);
        assert_int_equal (rc, count > DECODER_SCANS_MAX? -EBADMSG: 0);
        if (rc && !strstr (error, "more than 100 scans"))
            fail_msg ("%s", error);
        free (file.bytes);
    }
    jpeg_reader.destroy (reader);
}

//  Opening without reading, failing and reading in any order; what is kept from image to image does not grow.
static void
test_reuse (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    made_file_t files [MADE_KINDS];
    picture_t models [MADE_KINDS];
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        files [kind] = made_jpeg (&made_kinds [kind], 50, 50, &random);
        assert_true (jpeg_model (files [kind].bytes, files [kind].size, false, 8, &models [kind]));
    }
    jpeg_reader_t *reader = jpeg_reader.new ();
    size_t settled = 0;
    for (int round = 0; round < 600; round++) {
        size_t kind = test_below (&random, MADE_KINDS);
        uint32_t height, width;
        const made_file_t *file = &files [kind];
        image_request_t request = s_random_box (50, 50, &random);
        switch (test_below (&random, 4)) {
        case 0:
            assert_int_equal (jpeg_reader.open (reader, &s_plain, file->bytes, file->size, &height, &width,
                error, sizeof error), 0);
            assert_true (height == 50 && width == 50);
            break;
        case 1:
            assert_int_equal (s_read (reader, &s_plain, file->bytes, file->size / 2, NULL, &pixels, error),
                -EBADMSG);
            break;
        default:
            assert_int_equal (s_read (reader, &s_plain, file->bytes, file->size, &request, &pixels, error),
                0);
            s_assert_box (made_kinds [kind].name, &pixels, &request, &models [kind]);
        }
        if (round == 200)
            settled = mallinfo2 ().uordblks;
    }
    assert_int_equal (s_read (reader, &s_plain, files [0].bytes, files [0].size, NULL, &pixels, error), 0);
    assert_true (mallinfo2 ().uordblks < settled + 65536);
    jpeg_reader.destroy (reader);
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        free (models [kind].pixels);
        free (files [kind].bytes);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_boxes_are_parts_of_the_whole),
        cmocka_unit_test (test_a_box_takes_little_room),
        cmocka_unit_test (test_truncated_at_every_length),
        cmocka_unit_test (test_damage_is_judged_as_in_the_whole),
        cmocka_unit_test (test_warnings_are_counted),
        cmocka_unit_test (test_scaled_boxes_are_parts_of_the_scaled_whole),
        cmocka_unit_test (test_scaled_pixels_are_means),
        cmocka_unit_test (test_masks),
        cmocka_unit_test (test_exif_blocks),
        cmocka_unit_test (test_pixel_bombs),
        cmocka_unit_test (test_scan_bombs),
        cmocka_unit_test (test_reuse),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

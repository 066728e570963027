/*  test_plain_reader -- BMP, PNM and GIF: masks, boxes, limits, and hostile bytes.  Pixels beside Pillow's
 *  are test_parity_files.py's part.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "file_kind.h"
#include "image_codec.h"
#include "seed.h"

enum { ERROR_BYTES = 200, PIXELS_MAX = 1 << 16 };

typedef struct {
    const char *bytes;
    size_t size;
} file_t;

#define FILE_OF(text) { text, sizeof text - 1 }
#define BMP_HEAD(offset, width, height, bits, kind, colours) "BM\0\0\0\0\0\0\0\0" offset "\0\0\0\x28\0\0\0" \
    width "\0\0\0" height "\0\0\0\1\0" bits "\0" kind "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" colours \
    "\0\0\0\0\0\0\0"
#define TWO_COLOURS "\1\2\3\0\4\5\6\0"

//  3 x 2 pixels with values each: 0 1 1, 1 0 1.
static const file_t s_values [] = {
    FILE_OF (BMP_HEAD ("\x3e", "\3", "\2", "\1", "\0", "\2") TWO_COLOURS "\xa0\0\0\0\x60\0\0\0"),
    FILE_OF (BMP_HEAD ("\x3e", "\3", "\2", "\x8", "\0", "\2") TWO_COLOURS "\1\0\1\0\0\1\1\0"),
    FILE_OF (BMP_HEAD ("\x3e", "\3", "\2", "\x8", "\1", "\2") TWO_COLOURS "\1\1\1\0\1\1\0\0\1\0\2\1"),
    //  A jump in the row, and a run that ends where the row does.
    FILE_OF (BMP_HEAD ("\x3e", "\3", "\2", "\x8", "\1", "\2") TWO_COLOURS
        "\1\1\0\2\1\0\x9\1\0\0\1\0\2\1"),
    FILE_OF (BMP_HEAD ("\x3e", "\3", "\2", "\4", "\2", "\2") TWO_COLOURS "\3\x10\0\0\1\0\2\x11"),
    FILE_OF ("P1 3 2 100010"), FILE_OF ("P4 3 2 \x80\x40"), FILE_OF ("P2 3 2 255 0 1 1 1 0 1"),
    FILE_OF ("P5 3 2 255 \0\1\1\1\0\1"),
    FILE_OF ("GIF89a\3\0\2\0\x80\0\0\1\2\3\4\5\6,\0\0\0\0\3\0\2\0\0\2\4\x44\x12\x10\x05\0;"),
    //  Interlaced: of two rows the second is of the last pass.
    FILE_OF ("GIF89a\3\0\2\0\x80\0\0\1\2\3\4\5\6,\0\0\0\0\3\0\2\0\x40\2\4\x44\x12\x10\x05\0;"),
};
//  No masks.
static const file_t s_others [] = {
    FILE_OF (BMP_HEAD ("\x36", "\1", "\1", "\x18", "\0", "\0") "\1\2\3\0"), FILE_OF ("P6 1 1 255 \1\2\3"),
    FILE_OF ("P3 1 1 255 1 2 3"), FILE_OF ("P5 1 1 999 \1\2"), FILE_OF ("P2 1 1 999 7"),
};
enum { VALUES = sizeof s_values / sizeof *s_values, OTHERS = sizeof s_others / sizeof *s_others };

static int
s_open_as (void *reader, const image_reader_options_t *options, const void *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char error [ERROR_BYTES])
{
    const char *name;
    file_kind_t kind = file_kind (bytes, size, &name);
    if (kind != FILE_KIND_GIF && kind != FILE_KIND_BMP && kind != FILE_KIND_PNM)
        return -EBADMSG;
    *error = 0;
    int rc = plain_reader.open (reader, options, bytes, size, height_p, width_p, error, ERROR_BYTES);
    assert_int_equal (!rc, !*error);
    return rc;
}

static int
s_open (void *reader, bool is_mask, const void *bytes, size_t size, uint32_t *height_p,
    uint32_t *width_p, char error [ERROR_BYTES])
{
    image_reader_options_t options = { .is_mask = is_mask };
    return s_open_as (reader, &options, bytes, size, height_p, width_p, error);
}

static void
test_masks (void **state)
{
    (void) state;
    static const uint8_t values [] = { 0, 1, 1, 1, 0, 1 };
    char error [ERROR_BYTES];
    uint32_t height, width;
    void *reader = plain_reader.new ();
    for (int index = 0; index < VALUES; index++) {
        image_pixels_t pixels;
        image_request_t request = { .box = { 0, 0, 2, 3 } };
        int rc = s_open (reader, true, s_values [index].bytes, s_values [index].size, &height, &width, error);
        if (rc == 0)
            rc = plain_reader.read (reader, &request, &pixels, error, ERROR_BYTES);
        if (rc)
            fail_msg ("file %d: %s", index, error);
        assert_int_equal (height, 2);
        assert_int_equal (width, 3);
        assert_int_equal (pixels.image.channels, 1);
        for (uint32_t pixel = 0; pixel < 6; pixel++)
            if (*image_at (&pixels.image, pixel / 3, pixel % 3) != values [pixel])
                fail_msg ("file %d: pixel %u", index, pixel);
    }
    for (int index = 0; index < OTHERS; index++) {
        assert_int_equal (s_open (reader, true, s_others [index].bytes, s_others [index].size, &height,
            &width, error), -EDOM);
        assert_non_null (strstr (error, "a mask must be grey or have a palette"));
        assert_int_equal (s_open (reader, false, s_others [index].bytes, s_others [index].size, &height,
            &width, error), 0);
    }
    plain_reader.destroy (reader);
    plain_reader.destroy (NULL);
}

static bool
s_clips (const file_t *file)
{
    return plain_reader.clips ((const uint8_t *) file->bytes, file->size);
}

//  Grey of 16 bits in a field of images is refused, not cut to 255; in colour, where Pillow takes the upper
//  byte, and as the sample's own file it is read.
static void
test_depths_of_a_field (void **state)
{
    (void) state;
    static const file_t colour = FILE_OF ("P6 1 1 999 \1\2\1\2\1\2"), grey = FILE_OF ("P5 1 1 999 \1\2");
    char error [ERROR_BYTES];
    uint32_t height, width;
    void *reader = plain_reader.new ();
    image_reader_options_t field = { .is_field = true };
    assert_int_equal (s_open_as (reader, &field, grey.bytes, grey.size, &height, &width, error), -EDOM);
    assert_non_null (strstr (error, "values above 255 would become 255"));
    assert_int_equal (s_open (reader, false, grey.bytes, grey.size, &height, &width, error), 0);
    assert_int_equal (s_open_as (reader, &field, colour.bytes, colour.size, &height, &width, error), 0);
    static const file_t bytes = FILE_OF ("P5 1 1 255 \1"), short_header = FILE_OF ("P5 1 1 9");
    assert_true (s_clips (&grey));
    assert_false (s_clips (&colour));
    assert_false (s_clips (&bytes));
    assert_false (s_clips (&short_header));
    assert_false (s_clips (&s_others [0]));
    plain_reader.destroy (reader);
}

//  A box is that part of the whole.
static void
test_boxes (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    uint32_t height, width;
    uint8_t whole [6] [3];
    void *reader = plain_reader.new ();
    for (int index = 0; index < VALUES; index++)
        for (uint32_t place = 0; place <= 6; place++) {
            image_pixels_t pixels;
            uint32_t row = place % 6 / 3, column = place % 6 % 3;
            image_request_t request = { .box = { 0, 0, 2, 3 } };
            if (place > 0)
                request.box = (image_box_t) { row, column, 2 - row, 3 - column };
            assert_int_equal (s_open (reader, false, s_values [index].bytes, s_values [index].size, &height,
                &width, error), 0);
            assert_int_equal (plain_reader.read (reader, &request, &pixels, error, ERROR_BYTES), 0);
            for (uint32_t y = 0; y < request.box.height; y++)
                for (uint32_t x = 0; x < request.box.width; x++) {
                    const uint8_t *pixel = image_at (&pixels.image, y, x);
                    uint8_t *of_whole = whole [(request.box.top + y) * 3 + request.box.left + x];
                    if (place == 0)
                        memcpy (of_whole, pixel, 3);
                    assert_memory_equal (of_whole, pixel, 3);
                }
        }
    plain_reader.destroy (reader);
}

//  Sizes that no memory is asked for.
static void
test_limits (void **state)
{
    (void) state;
    static const struct { file_t file; const char *fragment; } cases [] = {
        { FILE_OF ("P1 10001 10000 1"), "more pixels than the limit" },
        { FILE_OF ("P1 0 5 1"), "an image without pixels" }, { FILE_OF ("P1 4294967296 5 1"), "too large" },
        { FILE_OF ("P5 4294967295 4294967295 255 1"), "ends before" },
        { FILE_OF ("GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\0\2"), "more pixels than the limit" },
        { FILE_OF ("GIF89a\1\0\1\0\0\0\0;"), "it has no picture" },
        { FILE_OF (BMP_HEAD ("\x36", "\1", "\1", "\x18", "\4", "\0")), "it holds a JPEG" },
        { FILE_OF (BMP_HEAD ("\x36", "\1", "\1", "\2", "\0", "\0")), "neither 1, 4, 8" },
    };
    char error [ERROR_BYTES];
    uint32_t height, width;
    void *reader = plain_reader.new ();
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        assert_int_equal (s_open (reader, false, cases [index].file.bytes, cases [index].file.size, &height,
            &width, error), -EBADMSG);
        if (!strstr (error, cases [index].fragment))
            fail_msg ("\"%s\" lacks \"%s\"", error, cases [index].fragment);
    }
    plain_reader.destroy (reader);
}

//  Any damage, and any cut, gives pixels or a reason; the sanitizers see what is touched.
static void
test_hostile_bytes (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    void *reader = plain_reader.new ();
    for (int round = 0; round < 30000; round++) {
        size_t index = test_below (&random, VALUES + OTHERS);
        const file_t *file = index < VALUES? &s_values [index]: &s_others [index - VALUES];
        size_t size = test_below (&random, 4)? file->size: test_below (&random, file->size + 1);
        uint8_t *bytes = malloc (size? size: 1);
        memcpy (bytes, file->bytes, size);
        for (uint64_t count = test_below (&random, 6); count > 0 && size > 0; count--)
            bytes [test_below (&random, size)] = (uint8_t) test_below (&random,
                test_below (&random, 2)? 256: 8);
        char error [ERROR_BYTES];
        uint32_t height, width;
        int rc = s_open (reader, test_below (&random, 2), bytes, size, &height, &width, error);
        assert_true (rc == 0 || rc == -EBADMSG || rc == -EDOM);
        if (rc == 0 && (uint64_t) height * width <= PIXELS_MAX) {
            image_pixels_t pixels;
            image_request_t request = { .box = { 0, 0, height, width } };
            rc = plain_reader.read (reader, &request, &pixels, error, ERROR_BYTES);
            assert_true (rc == 0 || rc == -EBADMSG);
        }
        free (bytes);
    }
    plain_reader.destroy (reader);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_masks),
        cmocka_unit_test (test_depths_of_a_field), cmocka_unit_test (test_boxes),
        cmocka_unit_test (test_limits), cmocka_unit_test (test_hostile_bytes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  WebP: pixels, boxes, animations, damage.  test_parity.py has the comparison with Pillow.
#include "image_codec.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <webp/encode.h>
#include "seed.h"

enum { ERROR_BYTES = 200, HEIGHT = 37, WIDTH = 61, RIFF_BYTES = 12, CHUNK_HEAD_BYTES = 8, COLOURS = 3 };

typedef struct {
    uint8_t *bytes;
    size_t size;
} file_t;

//  What a lossless file gives back.
static uint8_t s_pixels [HEIGHT] [WIDTH] [COLOURS];

static void
s_draw (uint64_t seed)
{
    uint64_t random = seed;
    for (size_t row = 0; row < HEIGHT; row++)
        for (size_t column = 0; column < WIDTH * COLOURS; column++)
            s_pixels [row] [column / COLOURS] [column % COLOURS] = (uint8_t) (row * 3 + column
                + test_below (&random, 30));
}

static file_t
s_lossless (void)
{
    file_t file;
    file.size = WebPEncodeLosslessRGB (&s_pixels [0] [0] [0], WIDTH, HEIGHT, WIDTH * COLOURS, &file.bytes);
    assert_true (file.size > RIFF_BYTES);
    return file;
}

static file_t
s_lossy (void)
{
    file_t file;
    file.size = WebPEncodeRGB (&s_pixels [0] [0] [0], WIDTH, HEIGHT, WIDTH * COLOURS, 60, &file.bytes);
    assert_true (file.size > RIFF_BYTES);
    return file;
}

//  0 and the box's pixels, or what open or read says.
static int
s_read (void *reader, const uint8_t *bytes, size_t size, const image_box_t *box,
    image_pixels_t *pixels, char error [ERROR_BYTES])
{
    image_reader_options_t options = { .orientation = true };
    image_request_t request = { .least_height = 0 };
    *error = 0;
    int rc = webp_reader.open (reader, &options, bytes, size, &request.box.height, &request.box.width, error,
        ERROR_BYTES);
    if (box)
        request.box = *box;
    if (rc == 0)
        rc = webp_reader.read (reader, &request, pixels, error, ERROR_BYTES);
    assert_true (rc == 0 || *error);
    return rc;
}

static void
s_assert_box (const image_pixels_t *pixels, const image_box_t *box)
{
    assert_int_equal (pixels->image.height, box->height);
    assert_int_equal (pixels->image.width, box->width);
    assert_int_equal (pixels->image.channels, COLOURS);
    for (uint32_t row = 0; row < box->height; row++)
        assert_memory_equal (pixels->image.pixels + row * pixels->image.stride,
            s_pixels [box->top + row] [box->left], box->width * COLOURS);
}

static void
test_boxes (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    void *reader = webp_reader.new ();
    s_draw (random);
    file_t file = s_lossless ();
    for (int trial = 0; trial < 200; trial++) {
        image_box_t box = { .height = 1 + (uint32_t) test_below (&random, HEIGHT),
            .width = 1 + (uint32_t) test_below (&random, WIDTH) };
        box.top = (uint32_t) test_below (&random, HEIGHT - box.height + 1);
        box.left = (uint32_t) test_below (&random, WIDTH - box.width + 1);
        image_pixels_t pixels;
        assert_int_equal (s_read (reader, file.bytes, file.size, &box, &pixels, error), 0);
        s_assert_box (&pixels, &box);
    }
    WebPFree (file.bytes);
    webp_reader.destroy (reader);
    webp_reader.destroy (NULL);
}

//  A file that is cut anywhere is bad, whatever of it is looked at; a changed byte does no harm.
static void
test_damage (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    void *reader = webp_reader.new ();
    s_draw (random);
    file_t files [] = { s_lossless (), s_lossy () };
    for (size_t kind = 0; kind < 2; kind++) {
        const file_t *file = &files [kind];
        image_box_t corner = { .height = 1, .width = 1 };
        image_pixels_t pixels;
        for (size_t size = 0; size < file->size; size++) {
            uint8_t *cut = malloc (size + 1);           //  of that size alone, for the address sanitizer
            memcpy (cut, file->bytes, size);
            cut = realloc (cut, size? size: 1);
            assert_int_equal (s_read (reader, cut, size, &corner, &pixels, error), -EBADMSG);
            free (cut);
        }
        for (int trial = 0; trial < 2000; trial++) {
            size_t place = RIFF_BYTES + (size_t) test_below (&random, file->size - RIFF_BYTES);
            uint8_t old = file->bytes [place];
            file->bytes [place] = (uint8_t) test_below (&random, 256);
            int rc = s_read (reader, file->bytes, file->size, NULL, &pixels, error);
            assert_true (rc == 0 || rc == -EBADMSG);
            file->bytes [place] = old;
        }
        assert_int_equal (s_read (reader, file->bytes, file->size, NULL, &pixels, error), 0);
        WebPFree (files [kind].bytes);
    }
    webp_reader.destroy (reader);
}

static uint8_t *
s_put (uint8_t *at, uint32_t value, int bytes)
{
    for (int place = 0; place < bytes; place++)
        *at++ = (uint8_t) (value >> 8 * place);
    return at;
}

static uint8_t *
s_put_head (uint8_t *at, const char *name, uint32_t bytes)
{
    memcpy (at, name, 4);
    return s_put (at + 4, bytes, 4);
}

//  An animation of one image, at (left, top) on a canvas, with a chunk EXIF behind it.
static file_t
s_animate (const file_t *still, uint32_t height, uint32_t width, uint32_t top, uint32_t left)
{
    enum { FRAME_BYTES = 16, ANIMATION = 2, EXIF = 8 };
    size_t image = still->size - RIFF_BYTES;
    file_t file = { .size = RIFF_BYTES + 4 * CHUNK_HEAD_BYTES + 10 + 6 + FRAME_BYTES + image + 4 };
    file.bytes = malloc (file.size);
    uint8_t *at = s_put_head (file.bytes, "RIFF", (uint32_t) file.size - CHUNK_HEAD_BYTES);
    memcpy (at, "WEBP", 4);
    at = s_put_head (at + 4, "VP8X", 10);
    at = s_put (s_put (s_put (at, ANIMATION | EXIF, 4), width - 1, 3), height - 1, 3);
    at = s_put (s_put (s_put_head (at, "ANIM", 6), 0xffffffff, 4), 0, 2);
    at = s_put_head (at, "ANMF", (uint32_t) (FRAME_BYTES + image));
    at = s_put (s_put (s_put (s_put (at, left / 2, 3), top / 2, 3), WIDTH - 1, 3), HEIGHT - 1, 3);
    at = s_put (s_put (at, 100, 3), 0, 1);
    memcpy (at, still->bytes + RIFF_BYTES, image);
    at = s_put_head (at + image, "EXIF", 4);
    memcpy (at, "exif", 4);
    assert_true (at + 4 == file.bytes + file.size);
    return file;
}

//  Its image stands on a canvas of that size, which is black around it whatever was read before.
static void
s_assert_on_canvas (void *reader, const file_t *still, uint32_t height, uint32_t width, uint32_t top,
    uint32_t left)
{
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    file_t file = s_animate (still, height, width, top, left);
    assert_int_equal (s_read (reader, still->bytes, still->size, NULL, &pixels, error), 0);
    assert_int_equal (s_read (reader, file.bytes, file.size, NULL, &pixels, error), 0);
    image_block_t exif = webp_reader.notes (reader).exif;
    assert_int_equal (exif.size, 4);
    assert_memory_equal (exif.bytes, "exif", 4);
    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++) {
            bool is_image = row >= top && row < HEIGHT + top && column >= left && column < WIDTH + left;
            const uint8_t *wanted = is_image? s_pixels [row - top] [column - left]:
                (const uint8_t *) "\0\0\0";
            assert_memory_equal (pixels.image.pixels + row * pixels.image.stride + column * COLOURS, wanted,
                COLOURS);
        }
    free (file.bytes);
}

static void
test_animations (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = webp_reader.new ();
    s_draw (test_seed ());
    file_t still = s_lossless (), file;
    s_assert_on_canvas (reader, &still, HEIGHT + 10, WIDTH + 20, 4, 6);
    s_assert_on_canvas (reader, &still, HEIGHT, WIDTH + 20, 0, 6);
    s_assert_on_canvas (reader, &still, HEIGHT + 10, WIDTH, 4, 0);
    s_assert_on_canvas (reader, &still, HEIGHT, WIDTH, 0, 0);
    file = s_animate (&still, HEIGHT, WIDTH, 2, 0);     //  it leaves the canvas
    assert_int_equal (s_read (reader, file.bytes, file.size, NULL, &pixels, error), -EBADMSG);
    free (file.bytes);
    file = s_animate (&still, 10001, 10000, 0, 0);
    assert_int_equal (s_read (reader, file.bytes, file.size, NULL, &pixels, error), -EBADMSG);
    assert_non_null (strstr (error, "more pixels than the limit (10000 x 10001 pixels)"));
    free (file.bytes);
    WebPFree (still.bytes);
    webp_reader.destroy (reader);
}

static void
test_no_mask (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    uint32_t height, width;
    void *reader = webp_reader.new ();
    file_t file = s_lossy ();
    assert_int_equal (webp_reader.open (reader, &(image_reader_options_t) { .is_mask = true }, file.bytes,
        file.size, &height, &width, error, ERROR_BYTES), -EDOM);
    assert_string_equal (error, "a mask must be grey or have a palette: a WebP is in colour");
    WebPFree (file.bytes);
    webp_reader.destroy (reader);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_boxes), cmocka_unit_test (test_damage), cmocka_unit_test (test_animations),
        cmocka_unit_test (test_no_mask)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

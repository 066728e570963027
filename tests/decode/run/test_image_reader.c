/*  test_image_reader -- what the bytes are, which reader takes them, and turned images: boxes of them beside
 *  a simple model. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "image_reader.h"
#include "made_jpeg.h"
#include "orientation.h"

enum { ERROR_BYTES = 400, PLACE_NUMBER = 24 };

//  An EXIF block with the number at PLACE_NUMBER.
static const uint8_t s_exif [] = "Exif\0\0II*\0\x8\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0\0\0\0";

static made_file_t
s_make_turned (const made_kind_t *kind, uint32_t height, uint32_t width, uint32_t number, uint64_t *random)
{
    uint8_t exif [sizeof s_exif];
    memcpy (exif, s_exif, sizeof exif);
    exif [PLACE_NUMBER] = (uint8_t) number;
    made_file_t block = { exif, sizeof exif };
    return made_jpeg_with (kind, height, width, 70, random, &block);
}

static int
s_open (image_reader_t *reader, const image_reader_options_t *options, const void *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char error [ERROR_BYTES])
{
    memset (error, 'x', ERROR_BYTES);
    int rc = image_reader_open (reader, options, bytes, size, height_p, width_p, error, ERROR_BYTES);
    assert_true (rc == 0 || rc == -EBADMSG || rc == -EDOM);
    assert_true (rc == 0 || (memchr (error, 0, ERROR_BYTES) && *error));
    return rc;
}

static bool
s_has (const char *format)
{
    return strstr (image_reader_formats (), format);
}

typedef struct {
    const char *bytes;
    size_t size;
    int rc;
    const char *fragment;
} other_t;

//  Bytes that no reader takes are named for what they look like, and the reason says what would be taken.
static void
s_assert_named (image_reader_t *reader, const other_t *cases, size_t count)
{
    char error [ERROR_BYTES], formats [100];
    uint32_t height, width;
    image_reader_options_t options = { .warnings_max = UINT32_MAX };
    snprintf (formats, sizeof formats, "; it reads %s", image_reader_formats ());
    for (size_t index = 0; index < count; index++) {
        int rc = s_open (reader, &options, cases [index].bytes, cases [index].size, &height, &width, error);
        if (strncmp (error, "not an image that this build reads: ", 36)
        ||  !strstr (error, cases [index].fragment)
        ||  strcmp (error + strlen (error) - strlen (formats), formats))
            fail_msg ("\"%s\" lacks \"%s\" or \"%s\"", error, cases [index].fragment, formats);
        assert_int_equal (rc, cases [index].rc);
    }
}

//  They are no good but for arrays and sounds, which other pipelines read.
static void
test_other_formats (void **state)
{
    (void) state;
    static const other_t cases [] = {
        { "", 0, -EBADMSG, "the file is empty (0 bytes)" },
        { "GIF88a", 6, -EBADMSG, "of an unknown kind (6 bytes)" },
        { "BM\1\2", 4, -EBADMSG, "of an unknown kind" },
        { "\0\0\0\x1c""ftypavif", 12, -EBADMSG, "the file is an AVIF image (12 bytes)" },
        { "\0\0\0\x1c""ftypheic", 12, -EBADMSG, "a HEIC image" },
        { "\0\0\0\x1c""ftypmif1", 12, -EBADMSG, "a HEIF image" },
        { "\0\0\0\x1c""ftypisom", 12, -EBADMSG, "an MPEG-4 video" },
        { "\0\0\0\x0cjP  \r\n\x87\n", 12, -EBADMSG, "a JPEG 2000 image" },
        { "\xff\x4f\xff\x51", 4, -EBADMSG, "a JPEG 2000 image" },
        { "\xff\x0a", 2, -EBADMSG, "a JPEG XL image" }, { "8BPS", 4, -EBADMSG, "a Photoshop image" },
        { "\0\0\1\0\1\0\x10\x10\0\0", 10, -EBADMSG, "an icon (ICO)" },
        { "\0\0\2\0\1\0\x20\x20\0\0", 10, -EBADMSG, "a cursor (CUR)" },
        { "\0\0\2\0\1\0\x20\x20\0", 9, -EBADMSG, "of an unknown kind" },
        //  One pixel, as Pillow writes it: its first ten bytes could be those of a cursor of no pictures.
        { "\0\0\2\0\0\0\0\0\0\0\0\0\1\0\1\0\x18\0\x0a\x0a\xc8\0\0\0\0\0\0\0\0TRUEVISION-XFILE.", 47,
            -EBADMSG, "a TGA image (47 bytes)" },
        { "%PDF-1.7", 8, -EBADMSG, "a PDF document" }, { " <SVG width='1'>", 16, -EBADMSG, "an SVG image" },
        { "<?xml?><svg>", 12, -EBADMSG, "an SVG image" }, { "<?xml?>", 7, -EBADMSG, "an XML or HTML file" },
        { "\xef\xbb\xbf\n<!DOCTYPE html>", 19, -EBADMSG, "an HTML page" },
        { "\x1a\x45\xdf\xa3", 4, -EBADMSG, "a Matroska or WebM video" },
        { "RIFF\1\2\3\4AVI LIST", 16, -EBADMSG, "an AVI video" },
        { "P7\n", 3, -EBADMSG, "a PAM image" }, { "P5", 2, -EBADMSG, "of an unknown kind" },
        { "II+\0", 4, -EBADMSG, "a BigTIFF image" }, { "MM\0+", 4, -EBADMSG, "a BigTIFF image" },
        { "hello, world", 12, -EBADMSG, "of an unknown kind (12 bytes)" },
        { "\xff", 1, -EBADMSG, "unknown kind" },
        { "\xff\xd8", 2, -EBADMSG, "unknown kind" }, { "\x1f\x8b\x08", 3, -EBADMSG, "a gzip file" },
        { "PK\3\4", 4, -EBADMSG, "a zip file" },
        { "\x93NUMPY\1\0v\0{", 11, -EDOM, "the file is a NumPy array (11 bytes)" },
        { "\x93NUMP", 5, -EBADMSG, "unknown kind" },
    };
    char error [ERROR_BYTES];
    uint32_t height, width;
    image_reader_options_t options = { .warnings_max = UINT32_MAX };
    image_reader_t *reader = image_reader_new ();
    s_assert_named (reader, cases, sizeof cases / sizeof *cases);
    assert_int_equal (s_open (reader, &options, "\xff\xd8\xff\xd9", 4, &height, &width, error), -EBADMSG);
    assert_non_null (strstr (error, "damaged or unsupported JPEG"));
    assert_int_equal (s_open (reader, &options, "\x89PNG", 4, &height, &width, error), -EBADMSG);
    assert_int_equal (!strstr (error, "it reads JPEG"), s_has ("PNG"));
    assert_int_equal (s_open (reader, &options, "RIFF\1\2\3\4WEBPVP8 ", 16, &height, &width, error),
        -EBADMSG);
    assert_non_null (strstr (error, s_has ("WebP")? "damaged or truncated WebP": "the file is a WebP image"));
    assert_int_equal (s_open (reader, &options, "MM\0*", 4, &height, &width, error), -EBADMSG);
    assert_non_null (strstr (error, s_has ("TIFF")? "damaged or truncated TIFF": "the file is a TIFF image"));
    static const char *const plain [] = { "GIF89a", "BM\1\2\3\4\5\6\7\1\2\3\4\5\x28\0\0\0", "P6\n" };
    static const size_t plain_bytes [] = { 6, 18, 3 };
    for (int index = 0; index < 3; index++) {
        assert_int_equal (s_open (reader, &options, plain [index], plain_bytes [index], &height, &width,
            error), -EBADMSG);
        assert_non_null (strstr (error, "the file ends before"));
    }
    image_reader_options_t wide = { .warnings_max = UINT32_MAX, .is_wide = true };
    assert_int_equal (s_open (reader, &wide, plain [1], plain_bytes [1], &height, &width, error), -EDOM);
    assert_string_equal (error, "a mask of \"uint16\" must be a PNG or a TIFF: the file is a BMP image");
    assert_int_equal (strncmp (image_reader_formats (), "JPEG", 4), 0);
    image_reader_destroy (&reader);
    image_reader_destroy (&reader);
}

//  Sounds in a pipeline of images are named too.
static void
test_sounds (void **state)
{
    (void) state;
    static const other_t cases [] = {
        { "RIFF\1\2\3\4WAVEfmt ", 16, -EDOM, "the file is WAV audio (16 bytes)" },
        { "RIFF\1\2\3\4WAVE", 12, -EDOM, "WAV audio" }, { "RIFF\1\2\3\4WAV", 11, -EBADMSG, "unknown kind" },
        { "fLaC\0", 5, -EDOM, "FLAC audio" },
        { "fLa", 3, -EBADMSG, "unknown kind" }, { "OggS", 4, -EDOM, "Ogg audio" },
        { "RF64\xff\xff\xff\xff""WAVEds64", 16, -EDOM, "the file is RF64 audio (16 bytes)" },
        { "riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\4\xc1\0\0\x70\0\0\0\0\0\0\0wave", 28, -EDOM, "W64 audio" },
        { "FORM\0\0\0\x2e""AIFFCOMM", 16, -EDOM, "AIFF audio" },
        { "FORM\0\0\0\x2e""AIFC", 12, -EDOM, "AIFF audio" },
        { "FORM\0\0\0\x2eILBM", 12, -EBADMSG, "unknown kind" },
        { ".snd\0\0\0\x18", 8, -EDOM, "AU audio" }, { "caff\0\1\0\0", 8, -EDOM, "CAF audio" },
        { "caffeine", 8, -EBADMSG, "unknown kind" }, { "NIST_1A\n   1024\n", 16, -EDOM, "SPHERE audio" },
        { "\xff\xfb\x90\x64", 4, -EDOM, "MP3 audio" }, { "\xff\xf3\x40\xc4", 4, -EDOM, "MP3 audio" },
        { "ID3\3\0\0\0\0\0\x0a", 10, -EDOM, "audio behind an ID3 tag" },
    };
    image_reader_t *reader = image_reader_new ();
    s_assert_named (reader, cases, sizeof cases / sizeof *cases);
    image_reader_destroy (&reader);
}

//  The name of a tar's first file, with which the tar begins, may begin as another kind does.
static void
test_tars_are_told_by_more_than_their_begin (void **state)
{
    (void) state;
    static const char *const names [] = { "1.jpg", "caffe/1.jpg", "BM1.jpg", "ID3/1.mp3", "GIF89a", "P6 a" };
    char tar [512];
    image_reader_t *reader = image_reader_new ();
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        memset (tar, 0, sizeof tar);
        memcpy (tar, names [index], strlen (names [index]));
        memcpy (tar + 257, "ustar", 5);
        other_t one = { tar, sizeof tar, -EBADMSG, "the file is a tar file (512 bytes)" };
        s_assert_named (reader, &one, 1);
    }
    image_reader_destroy (&reader);
}

//  ---------------------------------------------------------------------------------------------------------
//  Turned images

static image_request_t
s_random_box (uint32_t height, uint32_t width, uint64_t *random)
{
    image_request_t request = { .least_height = 0 };
    image_box_t *box = &request.box;
    box->height = 1 + (uint32_t) test_below (random, height);
    box->width = 1 + (uint32_t) test_below (random, width);
    box->top = (uint32_t) test_below (random, height - box->height + 1);
    box->left = (uint32_t) test_below (random, width - box->width + 1);
    return request;
}

//  All of the image as it is stored, turned by a function with tests of its own; the caller frees its pixels.
static image_t
s_model (image_reader_t *reader, const made_file_t *file, uint32_t number, bool is_mask)
{
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    image_request_t all = { .least_height = 0 };
    image_reader_options_t options = { .is_mask = is_mask, .warnings_max = UINT32_MAX };
    int rc = s_open (reader, &options, file->bytes, file->size, &all.box.height, &all.box.width, error);
    assert_int_equal (rc, 0);
    assert_int_equal (image_reader_read (reader, &all, &pixels, error, ERROR_BYTES), 0);
    const image_t *stored = &pixels.image;
    orientation_t orientation = orientation_of_number (number);
    uint32_t height = orientation.swaps? stored->width: stored->height;
    uint32_t width = orientation.swaps? stored->height: stored->width;
    size_t stride = image_bytes (1, width, stored->channels);
    uint8_t *turned = malloc (stride * height);
    orientation_turn (orientation, stored, turned, stride);
    return (image_t) { turned, stride, height, width, stored->channels };
}

static void
s_assert_part (const image_t *image, const image_t *model, uint32_t top, uint32_t left, uint32_t number)
{
    assert_int_equal (image->channels, model->channels);
    for (uint32_t y = 0; y < image->height; y++)
        if (memcmp (image_at (image, y, 0), image_at (model, top + y, left),
            image_bytes (1, image->width, image->channels)))
            fail_msg ("number %u: row %u of %u x %u at %u, %u differs", number, y, image->height,
                image->width, top, left);
}

//  Size and boxes are those of the turned image, for images and masks; without the option nothing is turned.
static void
test_turned_boxes (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    image_reader_t *reader = image_reader_new ();
    for (int round = 0; round < 80; round++) {
        uint32_t number = (uint32_t) round % 10, height, width;
        bool is_mask = round >= 40;
        image_reader_options_t options = { .is_mask = is_mask, .orientation = true,
            .warnings_max = UINT32_MAX };
        made_file_t file = s_make_turned (&made_kinds [is_mask? MADE_KIND_GREY: MADE_KIND_420],
            1 + (uint32_t) test_below (&random, 80), 1 + (uint32_t) test_below (&random, 80), number,
            &random);
        image_t model = s_model (reader, &file, number, is_mask);
        for (int box = 0; box < 8; box++) {
            assert_int_equal (s_open (reader, &options, file.bytes, file.size, &height, &width, error), 0);
            assert_true (height == model.height && width == model.width);
            image_request_t request = s_random_box (height, width, &random);
            assert_int_equal (image_reader_read (reader, &request, &pixels, error, ERROR_BYTES), 0);
            assert_true (pixels.image.height == request.box.height
                && pixels.image.width == request.box.width);
            assert_true (pixels.top == 0 && pixels.left == 0);
            assert_true (pixels.height == request.box.height && pixels.width == request.box.width);
            s_assert_part (&pixels.image, &model, request.box.top, request.box.left, number);
        }
        free ((void *) model.pixels);
        free (file.bytes);
    }
    image_reader_destroy (&reader);
}

//  What came for the same box of an image that is stored as number says, and of the turned one stored as it
//  is: sides change places with the scale's two limits, and the box is where it is in the stored image, seen
//  from the other side.
static void
test_turned_and_scaled (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    char error [ERROR_BYTES];
    image_reader_t *reader = image_reader_new (), *other = image_reader_new ();
    for (int round = 0; round < 160; round++) {
        uint32_t number = 1 + (uint32_t) round % 8, height, width, stored_height, stored_width;
        orientation_t orientation = orientation_of_number (number);
        image_reader_options_t turning = { .orientation = true, .warnings_max = UINT32_MAX };
        image_reader_options_t plain = { .warnings_max = UINT32_MAX };
        made_file_t file = s_make_turned (&made_kinds [round % MADE_KINDS], 150, 90, number, &random);
        assert_int_equal (s_open (reader, &turning, file.bytes, file.size, &height, &width, error), 0);
        assert_int_equal (s_open (other, &plain, file.bytes, file.size, &stored_height, &stored_width, error),
            0);
        image_request_t request = s_random_box (height, width, &random), stored_request = request;
        request.least_height = stored_request.least_height = 1 + (uint32_t) test_below (&random, 20);
        request.least_width = stored_request.least_width = (uint32_t) test_below (&random, 20);
        stored_request.box = orientation_stored_box (orientation, &request.box, 150, 90);
        if (orientation.swaps) {
            stored_request.least_height = request.least_width > 0? request.least_width: 1;
            stored_request.least_width = request.least_height;
        }
        image_pixels_t pixels, stored;
        assert_int_equal (image_reader_read (reader, &request, &pixels, error, ERROR_BYTES), 0);
        assert_int_equal (image_reader_read (other, &stored_request, &stored, error, ERROR_BYTES), 0);
        size_t stride = image_bytes (1, pixels.image.width, 3);
        uint8_t *turned = malloc (stride * pixels.image.height);
        orientation_turn (orientation, &stored.image, turned, stride);
        image_t model = { turned, stride, pixels.image.height, pixels.image.width, 3 };
        s_assert_part (&pixels.image, &model, 0, 0, number);
        //  Distances to the four sides of the view.
        double sides [4] = { stored.top, stored.left, stored.image.height - stored.top - stored.height,
            stored.image.width - stored.left - stored.width };
        double top = sides [orientation.swaps? (orientation.across? 3: 1): (orientation.down? 2: 0)];
        double left = sides [orientation.swaps? (orientation.down? 2: 0): (orientation.across? 3: 1)];
        assert_true (pixels.top == top && pixels.left == left);
        assert_true (pixels.height == (orientation.swaps? stored.width: stored.height));
        assert_true (pixels.width == (orientation.swaps? stored.height: stored.width));
        assert_true (pixels.height >= request.least_height || pixels.height == request.box.height);
        free (turned);
        free (file.bytes);
    }
    image_reader_destroy (&other);
    image_reader_destroy (&reader);
}

//  ---------------------------------------------------------------------------------------------------------
//  PNG beside JPEG

static made_file_t
s_load (const char *name)
{
    char path [1000];
    const char *source = getenv ("TUREEN_SOURCE");
    snprintf (path, sizeof path, "%s/tests/decode/golden/%s", source? source: ".", name);
    FILE *file = fopen (path, "rb");
    if (!file)
        fail_msg ("%s: not there (TUREEN_SOURCE names the source folder)", path);
    enum { BYTES_MAX = 10000 };
    made_file_t loaded = { malloc (BYTES_MAX), 0 };
    loaded.size = fread (loaded.bytes, 1, BYTES_MAX, file);
    fclose (file);
    return loaded;
}

//  One reader for both, in turn; a PNG's eXIf chunk turns it as Pillow does; a JPEG with colours is no mask.
static void
test_formats_in_turn (void **state)
{
    (void) state;
    if (!s_has ("PNG")) {
        print_message ("SKIP: this build reads no PNG\n");
        skip ();
    }
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    made_file_t png = s_load ("orientation.png"), expected = s_load ("orientation.rgb");
    made_file_t jpeg = made_jpeg (&made_kinds [MADE_KIND_444], 20, 30, &random);
    image_t model = { expected.bytes, 5 * 3, 7, 5, 3 };
    assert_int_equal (expected.size, 7 * 5 * 3);
    image_reader_t *reader = image_reader_new ();
    for (int round = 0; round < 40; round++) {
        uint32_t height, width;
        image_reader_options_t options = { .orientation = round % 4 < 2, .warnings_max = UINT32_MAX },
            mask = { .is_mask = true, .orientation = false, .warnings_max = UINT32_MAX };
        bool is_png = round % 2;
        made_file_t *file = is_png? &png: &jpeg;
        assert_int_equal (s_open (reader, &options, file->bytes, file->size, &height, &width, error), 0);
        assert_int_equal (height, !is_png? 20: options.orientation? 7: 5);
        image_request_t request = s_random_box (height, width, &random);
        assert_int_equal (image_reader_read (reader, &request, &pixels, error, ERROR_BYTES), 0);
        if (is_png && options.orientation)
            s_assert_part (&pixels.image, &model, request.box.top, request.box.left, 6);
        assert_int_equal (s_open (reader, &mask, file->bytes, file->size, &height, &width, error), -EDOM);
        assert_int_equal (s_open (reader, &options, file->bytes, 50, &height, &width, error), -EBADMSG);
    }
    image_reader_destroy (&reader);
    free (jpeg.bytes);
    free (png.bytes);
    free (expected.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_other_formats),
        cmocka_unit_test (test_sounds),
        cmocka_unit_test (test_tars_are_told_by_more_than_their_begin),
        cmocka_unit_test (test_turned_boxes),
        cmocka_unit_test (test_turned_and_scaled),
        cmocka_unit_test (test_formats_in_turn),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

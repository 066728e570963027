/*  test_png_reader -- every kind of PNG against Pillow's results, boxes, damage, bombs, and silence.  */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <zlib.h>
#include <png.h>
#include "decoder.h"
#include "image_codec.h"
#include "seed.h"

enum {
    FILE_BYTES_MAX = 1 << 17, ERROR_BYTES = 200, GREY = 0, COLOUR = 2, PALETTE = 3, GREY_ALPHA = 4,
    COLOUR_ALPHA = 6, SIGNATURE_BYTES = 8, CHUNK_BYTES = 12, HEADER_BYTES = 25, END_BYTES = 12
};

typedef struct {
    uint8_t bytes [FILE_BYTES_MAX];
    size_t size;
} file_t;

typedef struct {
    int colour_type, depth;
    uint32_t height, width;
    int colours, transparent;
} kind_t;

//  What Pillow makes of the noise, by make_golden_png.py: as RGB, and as an array where it is a mask (else
//  0).
static const struct { kind_t kind; uint64_t colours; uint64_t mask; } s_golden [] = {
#include "golden/png.inc"
};
enum { KINDS = sizeof s_golden / sizeof *s_golden };

//  ---------------------------------------------------------------------------------------------------------
//  Files, made with libpng

//  Samples of 16 bits, many of them near 255, where clipping shows.
static uint64_t
s_noise (uint16_t *samples, size_t count, int depth, uint64_t seed)
{
    for (size_t index = 0; index < count; index++) {
        uint64_t value = test_below (&seed, 65536);
        samples [index] = (uint16_t) (depth < 16 || seed % 3? value >> (16 - depth): value % 300);
    }
    return seed;
}

static void
s_write (png_structp png, png_bytep bytes, size_t count)
{
    file_t *file = png_get_io_ptr (png);
    assert_true (file->size + count <= sizeof file->bytes);
    memcpy (file->bytes + file->size, bytes, count);
    file->size += count;
}

static void
s_no_flush (png_structp png)
{
    (void) png;
}

static void
s_no_warning (png_structp png, png_const_charp message)
{
    (void) png;
    (void) message;
}

//  The image of s_golden with this index, as make_golden_png.py makes it, if need be interlaced.
static void
s_make (file_t *file, const kind_t *kind, uint64_t seed, bool interlaced)
{
    static uint16_t samples [4 * 64 * 64], colours [3 * 256];
    static const int channels_of [] = { 1, 0, 3, 1, 2, 0, 4 };
    size_t channels = (size_t) channels_of [kind->colour_type], row_samples = kind->width * channels;
    s_noise (colours, 3 * 256, 8, s_noise (samples, kind->height * row_samples, kind->depth, seed));
    file->size = 0;
    png_structp png = png_create_write_struct (PNG_LIBPNG_VER_STRING, NULL, NULL, s_no_warning);
    png_infop info = png_create_info_struct (png);
    png_set_write_fn (png, file, s_write, s_no_flush);
    png_set_benign_errors (png, 1);         //  a palette that is too short
    png_set_IHDR (png, info, kind->width, kind->height, kind->depth, kind->colour_type,
        interlaced? PNG_INTERLACE_ADAM7: PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
        PNG_FILTER_TYPE_DEFAULT);
    png_set_filter (png, PNG_FILTER_TYPE_BASE, PNG_ALL_FILTERS);
    png_set_compression_buffer_size (png, 100 + seed % 200);        //  so many bytes a chunk
    png_color palette [256] = { { 0, 0, 0 } };
    png_byte opacity [256];
    for (int index = 0; index < 256; index++) {
        palette [index].red = (png_byte) colours [index * 3];
        palette [index].green = (png_byte) colours [index * 3 + 1];
        palette [index].blue = (png_byte) colours [index * 3 + 2];
        opacity [index] = (png_byte) index;
    }
    png_color_16 clear = { 0 };
    if (kind->colours)
        png_set_PLTE (png, info, palette, kind->colours);
    if (kind->transparent)
        png_set_tRNS (png, info, opacity, kind->transparent, &clear);
    png_set_gAMA (png, info, seed % 2? 0.45455: 1.8);
    png_write_info (png, info);
    png_set_packing (png);
    for (int pass = png_set_interlace_handling (png); pass > 0; pass--)
        for (uint32_t row = 0; row < kind->height; row++) {
            png_byte bytes [64 * 4 * 2];
            for (size_t index = 0; index < row_samples; index++) {
                uint16_t sample = samples [row * row_samples + index];
                if (kind->depth == 16)
                    png_save_uint_16 (bytes + 2 * index, sample);
                else
                    bytes [index] = (png_byte) sample;
            }
            png_write_row (png, bytes);
        }
    png_write_end (png, NULL);
    png_destroy_write_struct (&png, &info);
}

static uint32_t
s_sum (const uint8_t *bytes, size_t count)
{
    uint32_t sum = UINT32_MAX;
    for (size_t index = 0; index < count * 8; index++) {
        sum ^= index % 8? 0: bytes [index / 8];
        sum = (sum >> 1) ^ (sum & 1? 0xedb88320u: 0);
    }
    return ~sum;
}

//  A chunk, with the right checksum, in front of what stands at place.
static void
s_insert (file_t *file, size_t place, const char *name, const void *content, size_t count)
{
    assert_true (file->size + count + CHUNK_BYTES <= sizeof file->bytes);
    uint8_t *at = file->bytes + place;
    memmove (at + count + CHUNK_BYTES, at, file->size - place);
    png_save_uint_32 (at, (png_uint_32) count);
    memcpy (at + 4, name, 4);
    memcpy (at + 8, content, count);
    png_save_uint_32 (at + 8 + count, s_sum (at + 4, count + 4));
    file->size += count + CHUNK_BYTES;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading

//  A box of it, or with height 0 all, from a copy of exact size, so that the address sanitizer sees a read
//  behind the end.  Pixels are lent till the next read.
static int
s_read (void *reader, bool is_mask, const uint8_t *bytes, size_t size, image_box_t box,
    image_t *image, char error [ERROR_BYTES])
{
    uint8_t *copy = malloc (size? size: 1);
    if (size)
        memcpy (copy, bytes, size);
    memset (error, 'x', ERROR_BYTES);
    image_reader_options_t options = { .is_mask = is_mask };
    uint32_t height, width;
    int rc = png_reader.open (reader, &options, copy, size, &height, &width, error, ERROR_BYTES);
    image_request_t request = { .box = box.height? box: (image_box_t) { 0, 0, height, width } };
    image_pixels_t pixels;
    if (rc == 0)
        rc = png_reader.read (reader, &request, &pixels, error, ERROR_BYTES);
    assert_true (rc == 0 || rc == -EBADMSG || (rc == -EDOM && is_mask));
    assert_non_null (memchr (error, 0, ERROR_BYTES));
    assert_int_equal (rc != 0, *error != 0);
    free (copy);
    if (rc)
        return rc;
    *image = pixels.image;
    assert_true (pixels.top == 0 && pixels.left == 0);
    assert_true (pixels.height == request.box.height && pixels.width == request.box.width);
    assert_int_equal (image->height, request.box.height);
    assert_int_equal (image->width, request.box.width);
    assert_int_equal (image->channels, is_mask? 1: IMAGE_COLOURS);
    return 0;
}

static const image_box_t s_all = { 0, 0, 0, 0 };

static image_t
s_expect_good (void *reader, bool is_mask, const uint8_t *bytes, size_t size, image_box_t box)
{
    char error [ERROR_BYTES];
    image_t image = { 0 };
    if (s_read (reader, is_mask, bytes, size, box, &image, error))
        fail_msg ("refused: %s", error);
    return image;
}

static void
s_expect_bad (void *reader, bool is_mask, const uint8_t *bytes, size_t size, const char *fragment)
{
    char error [ERROR_BYTES];
    image_t image;
    assert_int_equal (s_read (reader, is_mask, bytes, size, s_all, &image, error), -EBADMSG);
    if (!strstr (error, fragment))
        fail_msg ("\"%s\" lacks \"%s\"", error, fragment);
}

//  A good image, but no mask.
static void
s_expect_no_mask (void *reader, const uint8_t *bytes, size_t size, const char *fragment)
{
    char error [ERROR_BYTES];
    image_t image;
    assert_int_equal (s_read (reader, true, bytes, size, s_all, &image, error), -EDOM);
    if (!strstr (error, fragment))
        fail_msg ("\"%s\" lacks \"%s\"", error, fragment);
    s_expect_good (reader, false, bytes, size, s_all);
}

//  FNV-1a, 64 bits.
static uint64_t
s_hash (const image_t *image)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t row = 0; row < image->height; row++)
        for (uint32_t index = 0; index < image->width * image->channels; index++)
            hash = (hash ^ image_at (image, row, 0) [index]) * 0x100000001b3u;
    return hash;
}

//  ---------------------------------------------------------------------------------------------------------
//  Cases

static void
test_equals_pillow (void **state)
{
    (void) state;
    static file_t file;
    void *reader = png_reader.new ();
    for (size_t index = 0; index < 2 * KINDS; index++) {
        const kind_t *kind = &s_golden [index / 2].kind;
        uint64_t mask = s_golden [index / 2].mask;
        s_make (&file, kind, index / 2, index % 2);
        image_t image = s_expect_good (reader, false, file.bytes, file.size, s_all);
        if (s_hash (&image) != s_golden [index / 2].colours)
            fail_msg ("kind %d, %d bits: other colours than Pillow's", kind->colour_type, kind->depth);
        if (!mask)
            s_expect_no_mask (reader, file.bytes, file.size, kind->colour_type == PNG_COLOR_TYPE_GRAY?
                "this PNG has 16 bits of grey": "a mask must be grey or have a palette");
        else {
            image = s_expect_good (reader, true, file.bytes, file.size, s_all);
            if (s_hash (&image) != mask)
                fail_msg ("kind %d, %d bits: other values than Pillow's", kind->colour_type, kind->depth);
        }
    }
    png_reader.destroy (reader);
    png_reader.destroy (NULL);
}

//  A box is that part of the whole, and with one reader for all images and boxes nothing stays behind.
static void
test_boxes_are_parts_of_the_whole (void **state)
{
    (void) state;
    static file_t file;
    uint64_t random = test_seed ();
    void *reader = png_reader.new (), *other = png_reader.new ();
    for (size_t index = 0; index < 2 * KINDS; index++) {
        const kind_t *kind = &s_golden [index / 2].kind;
        s_make (&file, kind, test_below (&random, 1000), index % 2);
        for (int round = 0; round < 10; round++) {
            bool is_mask = s_golden [index / 2].mask && round % 2;
            image_box_t box = { .top = (uint32_t) test_below (&random, kind->height),
                .left = (uint32_t) test_below (&random, kind->width) };
            box.height = 1 + (uint32_t) test_below (&random, kind->height - box.top);
            box.width = 1 + (uint32_t) test_below (&random, kind->width - box.left);
            image_t whole = s_expect_good (other, is_mask, file.bytes, file.size, s_all);
            image_t part = s_expect_good (reader, is_mask, file.bytes, file.size, box);
            for (uint32_t row = 0; row < box.height; row++)
                if (memcmp (image_at (&part, row, 0), image_at (&whole, box.top + row, box.left),
                    (size_t) box.width * part.channels))
                    fail_msg ("seed %" PRIu64 ", kind %zu: row %u of a box differs", test_seed (), index,
                        row);
        }
    }
    png_reader.destroy (reader);
    png_reader.destroy (other);
}

//  Whatever the box, a file that lacks a part of the image data is bad, and one that only lacks its end is
//  not.
static void
test_truncations_are_refused (void **state)
{
    (void) state;
    static file_t file;
    static const size_t which [] = { 1, 5, 7, 13, 16, 20 };
    void *reader = png_reader.new (), *other = png_reader.new ();
    for (size_t index = 0; index < 2 * sizeof which / sizeof *which; index++) {
        size_t golden = which [index / 2];
        s_make (&file, &s_golden [golden].kind, golden, index % 2);
        for (size_t size = 0; size < file.size; size++) {
            char error [ERROR_BYTES], other_error [ERROR_BYTES];
            image_t image, corner;
            int rc = s_read (reader, false, file.bytes, size, s_all, &image, error);
            assert_int_equal (s_read (other, false, file.bytes, size, (image_box_t) { 0, 0, 1, 1 }, &corner,
                other_error), rc);
            assert_int_equal (rc, size < file.size - END_BYTES? -EBADMSG: 0);
            if (rc == 0)
                assert_true (s_hash (&image) == s_golden [golden].colours);
            else
                assert_string_equal (error, other_error);
            if (rc && size > HEADER_BYTES + SIGNATURE_BYTES)
                assert_non_null (strstr (error, "truncated PNG"));
        }
        memcpy (file.bytes + file.size, "rubbish", 7);
        s_expect_good (reader, false, file.bytes, file.size + 7, s_all);
    }
    png_reader.destroy (reader);
    png_reader.destroy (other);
}

//  Bytes of a file changed one by one: up to the end of the image data a checksum sees it, whatever is looked
//  at, or the pixels are those that were written.
static void
test_damage_is_seen (void **state)
{
    (void) state;
    static file_t file;
    uint64_t random = test_seed ();
    void *reader = png_reader.new ();
    size_t read_count = 0;
    for (size_t index = 0; index < 2 * KINDS; index++) {
        s_make (&file, &s_golden [index / 2].kind, index / 2, index % 2);
        size_t step = 1 + file.size / 200;
        for (size_t place = test_below (&random, step); place < file.size - END_BYTES; place += step) {
            uint8_t bit = (uint8_t) (1 << test_below (&random, 8));
            file.bytes [place] ^= bit;
            char error [ERROR_BYTES], said [ERROR_BYTES];
            image_t image, corner;
            int rc = s_read (reader, false, file.bytes, file.size, s_all, &image, error);
            assert_true (rc == -EBADMSG? strstr (error, "PNG") != NULL:
                s_hash (&image) == s_golden [index / 2].colours);
            read_count += rc == 0;
            assert_int_equal (s_read (reader, false, file.bytes, file.size, (image_box_t) { 0, 0, 1, 1 },
                &corner, said), rc);
            file.bytes [place] ^= bit;
        }
    }
    assert_true (read_count > 0);           //  as where a checksum itself was changed
    png_reader.destroy (reader);
}

//  Damage that no checksum tells of: an answer, in bounds, and nothing on the standard error.
static void
test_damage_is_survived (void **state)
{
    (void) state;
    static file_t file, damaged;
    uint64_t random = test_seed ();
    void *reader = png_reader.new ();
    FILE *said = tmpfile ();
    int kept = dup (STDERR_FILENO);
    assert_non_null (said);
    dup2 (fileno (said), STDERR_FILENO);
    for (int round = 0; round < 3000; round++) {
        size_t golden = test_below (&random, KINDS);
        if (round % 30 == 0)
            s_make (&file, &s_golden [golden].kind, golden, round % 60);
        damaged = file;
        for (int times = 1 + round % 3; times > 0; times--)
            damaged.bytes [SIGNATURE_BYTES + test_below (&random, file.size - SIGNATURE_BYTES)] ^=
                (uint8_t) (1 << test_below (&random, 8));
        //  All checksums are made right again, as far as the chunks can be told.
        for (size_t place = SIGNATURE_BYTES; place + CHUNK_BYTES <= damaged.size;) {
            size_t length = png_get_uint_32 (damaged.bytes + place);
            if (length > damaged.size - place - CHUNK_BYTES)
                break;
            png_save_uint_32 (damaged.bytes + place + 8 + length,
                s_sum (damaged.bytes + place + 4, length + 4));
            place += length + CHUNK_BYTES;
        }
        char error [ERROR_BYTES];
        image_t image;
        image_box_t corner = { 0, 0, 1, 1 };
        int rc = s_read (reader, round % 4 == 0, damaged.bytes, damaged.size, round % 2? corner: s_all,
            &image, error);
        for (const char *at = error; rc && *at; at++)
            assert_true (*at >= ' ' && *at <= '~');
    }
    fflush (stderr);
    dup2 (kept, STDERR_FILENO);
    close (kept);
    assert_int_equal (fseek (said, 0, SEEK_END), 0);
    assert_int_equal (ftell (said), 0);
    fclose (said);
    png_reader.destroy (reader);
}

static void
s_set_size (file_t *file, uint32_t height, uint32_t width)
{
    uint8_t *header = file->bytes + SIGNATURE_BYTES;
    png_save_uint_32 (header + 8, width);
    png_save_uint_32 (header + 12, height);
    png_save_uint_32 (header + 21, s_sum (header + 4, 17));
}

//  Sizes that would need more than the limits are refused by the header.
static void
test_bombs (void **state)
{
    (void) state;
    static file_t file;
    void *reader = png_reader.new ();
    s_make (&file, &s_golden [7].kind, 7, false);
    static const struct { uint32_t height, width; const char *fragment; } cases [] = {
        { 60000, 60000, "more pixels than the limit (60000 x 60000 pixels)" },
        { 100, 1000 * 1000 + 1, "a longer side than the limit" }, { 1000 * 1000 + 1, 1, "a longer side" },
        { UINT32_MAX, UINT32_MAX, "a longer side" }, { 1, 0x80000000u, "a longer side" },
        { 10000, 10001, "more pixels" }, { 0, 5, "PNG" }, { 5, 0, "PNG" },
        { 10000, 10000, "Not enough image data" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        image_t image;
        char error [ERROR_BYTES];
        s_set_size (&file, cases [index].height, cases [index].width);
        //  Not all of the pixels, lest the test touch memory for them.
        int rc = s_read (reader, false, file.bytes, file.size,
            (image_box_t) { cases [index].height - 1, 0, 1, 1 }, &image, error);
        assert_int_equal (rc, -EBADMSG);
        if (!strstr (error, cases [index].fragment))
            fail_msg ("\"%s\" lacks \"%s\"", error, cases [index].fragment);
    }
    png_reader.destroy (reader);
}

//  Texts, profiles and palettes of other kinds are not looked into, whatever they are, but their checksums
//  are.
static void
test_other_chunks (void **state)
{
    (void) state;
    static file_t file, clean;
    static uint8_t much [1 << 16];
    void *reader = png_reader.new ();
    static const char *const names [] = { "zTXt", "iTXt", "tEXt", "iCCP", "sPLT", "gAMA", "sRGB", "cHRM",
        "eXIf", "acTL", "prIv" };
    s_make (&clean, &s_golden [7].kind, 7, false);
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        size_t place = SIGNATURE_BYTES + HEADER_BYTES;
        file = clean;
        s_insert (&file, place, names [index], much, sizeof much);
        s_insert (&file, place, names [index], "a\0\0stuff", 8);
        image_t image = s_expect_good (reader, false, file.bytes, file.size, s_all);
        assert_true (s_hash (&image) == s_golden [7].colours);
        file.bytes [place + 10] ^= 1;
        s_expect_bad (reader, false, file.bytes, file.size, "CRC error");
    }
    //  What the specification wants understood: Pillow reads past it, unless its checksum is wrong.
    file = clean;
    s_insert (&file, SIGNATURE_BYTES + HEADER_BYTES, "NEWs", "x", 1);
    image_t image = s_expect_good (reader, false, file.bytes, file.size, s_all);
    assert_true (s_hash (&image) == s_golden [7].colours);
    file.bytes [SIGNATURE_BYTES + HEADER_BYTES + 8] ^= 1;
    s_expect_bad (reader, false, file.bytes, file.size, "CRC error");
    png_reader.destroy (reader);
}

//  EXIF data are found before and behind the image, and are the file's own bytes.
static void
test_exif (void **state)
{
    (void) state;
    static file_t file;
    uint32_t height, width;
    char error [ERROR_BYTES];
    image_reader_options_t options = { .orientation = true };
    void *reader = png_reader.new ();
    s_make (&file, &s_golden [3].kind, 3, false);
    assert_int_equal (png_reader.open (reader, &options, file.bytes, file.size, &height, &width, error,
        ERROR_BYTES), 0);
    assert_null (png_reader.notes (reader).exif.bytes);
    assert_int_equal (png_reader.notes (reader).exif.size, 0);
    assert_int_equal (height, 17);
    assert_int_equal (width, 19);
    s_insert (&file, file.size - END_BYTES, "eXIf", "II*\0behind", 10);
    for (int before = 0; before < 2; before++) {
        size_t place = before? SIGNATURE_BYTES + HEADER_BYTES: file.size - END_BYTES - 10 - CHUNK_BYTES;
        if (before) {
            file.size -= END_BYTES + 10 + CHUNK_BYTES;
            s_insert (&file, file.size, "IEND", "", 0);
            s_insert (&file, place, "eXIf", "MM\0*before", 10);
        }
        assert_int_equal (png_reader.open (reader, &options, file.bytes, file.size, &height, &width, error,
            ERROR_BYTES), 0);
        assert_ptr_equal (png_reader.notes (reader).exif.bytes, file.bytes + place + 8);
        assert_int_equal (png_reader.notes (reader).exif.size, 10);
    }
    //  A chunk that claims to be longer than the file is none.
    png_save_uint_32 (file.bytes + SIGNATURE_BYTES + HEADER_BYTES, 0x7fffffff);
    assert_int_equal (png_reader.open (reader, &options, file.bytes, file.size, &height, &width, error,
        ERROR_BYTES), -EBADMSG);
    assert_null (png_reader.notes (reader).exif.bytes);
    png_reader.destroy (reader);
}

//  Must hold: a text is found in each kind of chunk, deflated or not, behind a language and a keyword in it;
//  one that is damaged is none.
static void
test_texts (void **state)
{
    (void) state;
    static const struct {
        const char *name, *front;
        size_t front_bytes;
        bool is_deflated, is_good;
    } kinds [] = {
        { "tEXt", "", 0, false, true }, { "zTXt", "\0", 1, true, true }, { "zTXt", "\1", 1, true, false },
        { "iTXt", "\0\0\0\0", 4, false, true }, { "iTXt", "\0\0de\0Bild\0", 10, false, true },
        { "iTXt", "\1\0\0\0", 4, true, true }, { "iTXt", "\1\0en-GB\0\0", 9, true, true },
        { "iTXt", "\1\1\0\0", 4, true, false }, { "iTXt", "\0\0de", 4, false, false } };
    static const char keyword [] = "XML:com.adobe.xmp", text [] = "<x tiff:Orientation=\"6\"/>";
    static file_t file;
    uint32_t height, width;
    char error [ERROR_BYTES];
    image_reader_options_t options = { .orientation = true };
    void *reader = png_reader.new ();
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        uint8_t content [200];
        size_t size = sizeof keyword;
        uLongf packed = sizeof content - 100;
        memcpy (content, keyword, sizeof keyword);
        memcpy (content + size, kinds [kind].front, kinds [kind].front_bytes);
        size += kinds [kind].front_bytes;
        if (kinds [kind].is_deflated) {
            assert_int_equal (compress (content + size, &packed, (const Bytef *) text, strlen (text)), Z_OK);
            size += packed;
        }
        else {
            memcpy (content + size, text, strlen (text));
            size += strlen (text);
        }
        s_make (&file, &s_golden [3].kind, 3, false);
        s_insert (&file, SIGNATURE_BYTES + HEADER_BYTES, kinds [kind].name, content, size);
        assert_int_equal (png_reader.open (reader, &options, file.bytes, file.size, &height, &width, error,
            ERROR_BYTES), 0);
        image_block_t found = png_reader.notes (reader).xmp;
        if (kinds [kind].is_good && (found.size != strlen (text) || memcmp (found.bytes, text, found.size)))
            fail_msg ("kind %zu: '%.*s'", kind, (int) found.size, (const char *) found.bytes);
        if (!kinds [kind].is_good)
            assert_int_equal (found.size, 0);
    }
    png_reader.destroy (reader);
}

static void
test_masks_that_are_none (void **state)
{
    (void) state;
    static file_t file;
    void *reader = png_reader.new ();
    for (size_t index = 0; index < KINDS; index++) {
        const kind_t *kind = &s_golden [index].kind;
        if (s_golden [index].mask)
            continue;
        s_make (&file, kind, index, false);
        s_expect_no_mask (reader, file.bytes, file.size, kind->colour_type & 2? "is in colour":
            kind->colour_type == GREY_ALPHA? "has alpha": "has 16 bits");
    }
    png_reader.destroy (reader);
}

static void
test_not_a_png (void **state)
{
    (void) state;
    void *reader = png_reader.new ();
    s_expect_bad (reader, false, (const uint8_t *) "", 0, "not a PNG");
    s_expect_bad (reader, false, (const uint8_t *) "\x89PNG\r\n\x1a", 7, "not a PNG");
    s_expect_bad (reader, false, (const uint8_t *) "\x89PNG\n\n\x1a\n....", 12, "not a PNG");
    s_expect_bad (reader, false, (const uint8_t *) "\x89PNG\r\n\x1a\n", 8, "truncated PNG");
    png_reader.destroy (reader);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_equals_pillow),
        cmocka_unit_test (test_boxes_are_parts_of_the_whole),
        cmocka_unit_test (test_truncations_are_refused),
        cmocka_unit_test (test_damage_is_seen),
        cmocka_unit_test (test_damage_is_survived),
        cmocka_unit_test (test_bombs),
        cmocka_unit_test (test_other_chunks),
        cmocka_unit_test (test_exif), cmocka_unit_test (test_texts),
        cmocka_unit_test (test_masks_that_are_none),
        cmocka_unit_test (test_not_a_png),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  TIFF: boxes, what is refused and why, damage.  test_parity.py has the comparison with Pillow.
#include "image_codec.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <tiff.h>
#include <zlib.h>
#include "made_jpeg.h"
#include "seed.h"

enum { ERROR_BYTES = 200, HEIGHT = 37, WIDTH = 61, STRIP_HEIGHT = 8, TILE = 32, COLOURS = 3, ENTRIES = 20,
    FILE_BYTES = 1 << 16, HEADER_BYTES = 8, ENTRY_BYTES = 12 };
enum { TAG_UNKNOWN = 65000, TAG_WINDOWS_PHOTO = 0xbc01 };

typedef struct {
    uint32_t tag, type, count, value;   //  or where the values are
} entry_t;

typedef struct {
    uint8_t bytes [FILE_BYTES];
    size_t size;
    entry_t entries [ENTRIES];
    uint32_t count;
} file_t;

static uint8_t s_pixels [HEIGHT] [WIDTH] [COLOURS];
static file_t s_file;

static void
s_draw (void)
{
    uint64_t random = test_seed ();
    for (size_t index = 0; index < sizeof s_pixels; index++)
        (&s_pixels [0] [0] [0]) [index] = (uint8_t) (index % 50 + test_below (&random, 30));
}

static void
s_put (uint32_t value, uint32_t bytes)
{
    assert_true (s_file.size + bytes <= FILE_BYTES);
    for (uint32_t place = 0; place < bytes; place++)
        s_file.bytes [s_file.size++] = (uint8_t) (value >> 8 * place);
}

//  In place of the tag's entry, or as a further one.
static void
s_set (entry_t entry)
{
    uint32_t at = 0;
    while (at < s_file.count && s_file.entries [at].tag != entry.tag)
        at++;
    s_file.entries [at] = entry;
    s_file.count += at == s_file.count;
}

static void
s_set_list (uint32_t tag, const uint32_t *values, uint32_t count)
{
    s_set ((entry_t) { tag, TIFF_LONG, count, count == 1? *values: (uint32_t) s_file.size });
    for (uint32_t index = 0; count > 1 && index < count; index++)
        s_put (values [index], 4);
}

//  RGB, in blocks of block_height x block_width; the directory is missing.
static void
s_start (uint32_t block_height, uint32_t block_width, bool is_tiled)
{
    uint32_t places [HEIGHT], sizes [HEIGHT], blocks = 0;
    s_file = (file_t) { .size = HEADER_BYTES };
    memcpy (s_file.bytes, "II*", 4);
    for (uint32_t top = 0; top < HEIGHT; top += block_height)
        for (uint32_t left = 0; left < WIDTH; left += block_width) {
            places [blocks] = (uint32_t) s_file.size;
            for (uint32_t row = top; row < top + block_height && (is_tiled || row < HEIGHT); row++)
                for (uint32_t byte = left * COLOURS; byte < (left + block_width) * COLOURS; byte++)
                    s_put (row < HEIGHT && byte < WIDTH * COLOURS?
                        s_pixels [row] [byte / COLOURS] [byte % COLOURS]: 77, 1);
            sizes [blocks] = (uint32_t) s_file.size - places [blocks];
            blocks++;
        }
    const entry_t entries [] = { { TIFFTAG_IMAGEWIDTH, TIFF_SHORT, 1, WIDTH },
        { TIFFTAG_IMAGELENGTH, TIFF_LONG, 1, HEIGHT },
        { TIFFTAG_COMPRESSION, TIFF_SHORT, 1, COMPRESSION_NONE },
        { TIFFTAG_PHOTOMETRIC, TIFF_SHORT, 1, PHOTOMETRIC_RGB },
        { TIFFTAG_SAMPLESPERPIXEL, TIFF_SHORT, 1, COLOURS } };
    for (size_t index = 0; index < sizeof entries / sizeof *entries; index++)
        s_set (entries [index]);
    s_set_list (TIFFTAG_BITSPERSAMPLE, (const uint32_t []) { 8, 8, 8 }, COLOURS);
    s_set_list (is_tiled? TIFFTAG_TILEOFFSETS: TIFFTAG_STRIPOFFSETS, places, blocks);
    s_set_list (is_tiled? TIFFTAG_TILEBYTECOUNTS: TIFFTAG_STRIPBYTECOUNTS, sizes, blocks);
    s_set ((entry_t) { is_tiled? TIFFTAG_TILELENGTH: TIFFTAG_ROWSPERSTRIP, TIFF_SHORT, 1, block_height });
    if (is_tiled)
        s_set ((entry_t) { TIFFTAG_TILEWIDTH, TIFF_SHORT, 1, block_width });
}

//  RGB, in strips of one colour: all of a colour before the next.
static void
s_start_planar (void)
{
    uint32_t places [HEIGHT], sizes [HEIGHT], strips = 0;
    s_start (STRIP_HEIGHT, WIDTH, false);
    for (uint32_t colour = 0; colour < COLOURS; colour++)
        for (uint32_t top = 0; top < HEIGHT; top += STRIP_HEIGHT) {
            places [strips] = (uint32_t) s_file.size;
            for (uint32_t row = top; row < top + STRIP_HEIGHT && row < HEIGHT; row++)
                for (uint32_t column = 0; column < WIDTH; column++)
                    s_put (s_pixels [row] [column] [colour], 1);
            sizes [strips] = (uint32_t) s_file.size - places [strips];
            strips++;
        }
    s_set_list (TIFFTAG_STRIPOFFSETS, places, strips);
    s_set_list (TIFFTAG_STRIPBYTECOUNTS, sizes, strips);
    s_set ((entry_t) { TIFFTAG_PLANARCONFIG, TIFF_SHORT, 1, PLANARCONFIG_SEPARATE });
}

//  One strip of these bytes.
static void
s_start_with (const uint8_t *bytes, size_t size, uint32_t compression)
{
    s_start (HEIGHT, WIDTH, false);
    s_file.size = HEADER_BYTES;
    for (size_t index = 0; index < size; index++)
        s_put (bytes [index], 1);
    s_set_list (TIFFTAG_BITSPERSAMPLE, (const uint32_t []) { 8, 8, 8 }, COLOURS);
    s_set ((entry_t) { TIFFTAG_STRIPBYTECOUNTS, TIFF_LONG, 1, (uint32_t) size });
    s_set ((entry_t) { TIFFTAG_COMPRESSION, TIFF_SHORT, 1, compression });
}

static void
s_end (void)
{
    uint32_t place = (uint32_t) s_file.size;
    s_put (s_file.count, 2);
    for (uint32_t index = 0; index < s_file.count; index++) {
        const entry_t *entry = &s_file.entries [index];
        s_put (entry->tag, 2);
        s_put (entry->type, 2);
        s_put (entry->count, 4);
        s_put (entry->value, 4);
    }
    s_put (0, 4);
    for (int byte = 0; byte < 4; byte++)
        s_file.bytes [4 + byte] = (uint8_t) (place >> 8 * byte);
}

//  0 and the box's pixels, or what open or read says.
static int
s_read_bytes (void *reader, const uint8_t *bytes, size_t size, const image_reader_options_t *options,
    const image_box_t *box, image_pixels_t *pixels, char error [ERROR_BYTES])
{
    image_request_t request = { .least_height = 0 };
    *error = 0;
    int rc = tiff_reader.open (reader, options, bytes, size, &request.box.height, &request.box.width, error,
        ERROR_BYTES);
    if (box)
        request.box = *box;
    if (rc == 0)
        rc = tiff_reader.read (reader, &request, pixels, error, ERROR_BYTES);
    assert_true (rc == 0 || strstr (error, "TIFF"));
    return rc;
}

static int
s_read (void *reader, const image_box_t *box, image_pixels_t *pixels, char error [ERROR_BYTES])
{
    const image_reader_options_t options = { .warnings_max = UINT32_MAX };
    return s_read_bytes (reader, s_file.bytes, s_file.size, &options, box, pixels, error);
}

static void
test_boxes (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    void *reader = tiff_reader.new ();
    for (int trial = 0; trial < 200; trial++) {
        if (trial % 3 == 2)
            s_start_planar ();
        else
            s_start (trial % 3? TILE: STRIP_HEIGHT, trial % 3? TILE: WIDTH, trial % 3);
        s_set ((entry_t) { TAG_UNKNOWN, TIFF_BYTE, 4, 1 });
        s_end ();
        image_box_t box = { .height = 1 + (uint32_t) test_below (&random, HEIGHT),
            .width = 1 + (uint32_t) test_below (&random, WIDTH) };
        box.top = (uint32_t) test_below (&random, HEIGHT - box.height + 1);
        box.left = (uint32_t) test_below (&random, WIDTH - box.width + 1);
        image_pixels_t pixels;
        assert_int_equal (s_read (reader, &box, &pixels, error), 0);
        assert_int_equal (pixels.image.height, box.height);
        assert_int_equal (pixels.image.width, box.width);
        for (uint32_t row = 0; row < box.height; row++)
            assert_memory_equal (image_at (&pixels.image, row, 0), s_pixels [box.top + row] [box.left],
                box.width * COLOURS);
    }
    tiff_reader.destroy (reader);
    tiff_reader.destroy (NULL);
}

static void
test_refused (void **state)
{
    (void) state;
    enum { STRIPS = 0, TILES = 1 };
    static const struct { int form; entry_t entry; const char *reason; } cases [] = {
        { STRIPS, { TIFFTAG_IMAGELENGTH, TIFF_LONG, 1, 2000000000 }, "more pixels than the limit (61 x 20" },
        { STRIPS, { TIFFTAG_ROWSPERSTRIP, TIFF_SHORT, 1, 0 }, "must have pixels" },
        { TILES, { TIFFTAG_TILELENGTH, TIFF_LONG, 1, 1u << 31 }, "more pixels than the limit" },
        { TILES, { TIFFTAG_TILEWIDTH, TIFF_LONG, 1, 24 }, "tiles with sides that 16 divides" },
        { STRIPS, { TIFFTAG_TILEWIDTH, TIFF_LONG, 1, 16 }, "either strips, or tiles" },
        { TILES, { TIFFTAG_STRIPOFFSETS, TIFF_LONG, 1, 8 }, "either strips, or tiles" },
        { STRIPS, { TIFFTAG_STRIPOFFSETS, TIFF_LONG, 4, 100 }, "5 strips or tiles are needed, there are 4" },
        { STRIPS, { TIFFTAG_STRIPBYTECOUNTS, TIFF_LONG, 5, 8 }, "or is too short" },
        { STRIPS, { TIFFTAG_STRIPOFFSETS, TIFF_SHORT, 5, 0xfff0 }, "values of tag 273 lie beyond its end" },
        { STRIPS, { 34675, TIFF_UNDEFINED, 0x7fffffff, 8 }, "values of tag 34675 lie beyond its end" },
        { STRIPS, { TIFFTAG_BITSPERSAMPLE, TIFF_SHORT, 1, 12 }, "photometric 2, 3 x 12 bits" },
        { STRIPS, { TIFFTAG_BITSPERSAMPLE, TIFF_SHORT, 2, 0x80008 }, "unsupported TIFF" },
        { STRIPS, { TIFFTAG_BITSPERSAMPLE, TIFF_SHORT, 1, 0 }, "3 x 0 bits" },
        { STRIPS, { TIFFTAG_COMPRESSION, TIFF_SHORT, 1, COMPRESSION_LZMA }, "compression 34925" },
        { STRIPS, { TIFFTAG_SAMPLEFORMAT, TIFF_SHORT, 1, SAMPLEFORMAT_IEEEFP }, "format 3" },
        { STRIPS, { TIFFTAG_FILLORDER, TIFF_SHORT, 1, FILLORDER_LSB2MSB }, "unsupported TIFF" },
        { STRIPS, { TIFFTAG_PHOTOMETRIC, TIFF_ASCII, 1, 2 }, "tag 262 comes twice, or its values are of a" },
        { STRIPS, { TIFFTAG_SAMPLESPERPIXEL, TIFF_SHORT, 0, 3 }, "(type 3, 0 values)" },
        { STRIPS, { TIFFTAG_ORIENTATION, TIFF_SHORT, 2, 1 }, "tag 274 comes twice" },
        { STRIPS, { TIFFTAG_XRESOLUTION, TIFF_ASCII, 1, 1 }, "tag 282 comes twice" },
        { STRIPS, { TAG_WINDOWS_PHOTO, TIFF_SHORT, 1, 1 }, "tag 48129 comes twice" },
    };
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    for (size_t number = 0; number < sizeof cases / sizeof *cases; number++) {
        if (cases [number].form == TILES)
            s_start (TILE, TILE, true);
        else
            s_start (STRIP_HEIGHT, WIDTH, false);
        s_set (cases [number].entry);
        s_end ();
        if (s_read (reader, NULL, &pixels, error) != -EBADMSG
            || !strstr (error, "TIFF")
        ||  !strstr (error, cases [number].reason))
            fail_msg ("case %zu: '%s', not '%s'", number, error, cases [number].reason);
    }
    s_start (STRIP_HEIGHT, WIDTH, false);
    s_file.entries [s_file.count++] = (entry_t) { TIFFTAG_IMAGEWIDTH, TIFF_SHORT, 1, WIDTH };
    s_end ();
    assert_int_equal (s_read (reader, NULL, &pixels, error), -EBADMSG);
    assert_non_null (strstr (error, "tag 256 comes twice"));
    tiff_reader.destroy (reader);
}

//  Must hold: a tag's values may end where the file ends, and not a byte behind it, of whatever tag and type
//  they are.
static void
test_values_at_the_files_end (void **state)
{
    (void) state;
    static const struct { uint32_t type, unit_bytes; } types [] = { { TIFF_BYTE, 1 }, { TIFF_SHORT, 2 },
        { TIFF_LONG, 4 }, { TIFF_RATIONAL, 8 } };
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    for (size_t type = 0; type < sizeof types / sizeof *types; type++)
        for (uint32_t count = 5; count < 12; count++) {
            uint32_t bytes = count * types [type].unit_bytes;
            s_start (STRIP_HEIGHT, WIDTH, false);
            uint32_t size = (uint32_t) s_file.size + 2 + (s_file.count + 1) * ENTRY_BYTES + 4;
            for (uint32_t beyond = 0; beyond <= bytes + 1; beyond++) {
                s_start (STRIP_HEIGHT, WIDTH, false);
                s_set ((entry_t) { TAG_UNKNOWN, types [type].type, count, size - bytes + beyond });
                s_end ();
                assert_int_equal (s_file.size, size);
                int rc = s_read (reader, NULL, &pixels, error);
                if (rc != (beyond? -EBADMSG: 0) || (beyond && !strstr (error, "lie beyond its end")))
                    fail_msg ("type %u, %u values, %u bytes beyond: '%s'", types [type].type, count, beyond,
                        error);
            }
        }
    tiff_reader.destroy (reader);
}

//  Must hold: of colours that were multiplied by their alpha the division gives them back, as Pillow does it;
//  those with another fourth sample are as they are.
static void
test_colours_beside_alpha (void **state)
{
    (void) state;
    static uint8_t pixels [HEIGHT * WIDTH * 4];
    char error [ERROR_BYTES];
    void *reader = tiff_reader.new ();
    uint64_t random = test_seed ();
    for (uint32_t extra = EXTRASAMPLE_UNSPECIFIED; extra <= EXTRASAMPLE_UNASSALPHA; extra++) {
        for (size_t at = 0; at < sizeof pixels; at++)
            pixels [at] = at % 4 == 3 && test_below (&random, 4) == 0? 0:
                (uint8_t) test_below (&random, 256);
        s_start_with (pixels, sizeof pixels, COMPRESSION_NONE);
        s_set ((entry_t) { TIFFTAG_SAMPLESPERPIXEL, TIFF_SHORT, 1, 4 });
        s_set_list (TIFFTAG_BITSPERSAMPLE, (const uint32_t []) { 8, 8, 8, 8 }, 4);
        s_set ((entry_t) { TIFFTAG_EXTRASAMPLES, TIFF_SHORT, 1, extra });
        s_end ();
        image_pixels_t image;
        image_box_t box = { .height = HEIGHT, .width = WIDTH };
        if (s_read (reader, &box, &image, error))
            fail_msg ("%s", error);
        for (uint32_t at = 0; at < HEIGHT * WIDTH; at++)
            for (uint32_t colour = 0; colour < COLOURS; colour++) {
                uint32_t value = pixels [at * 4 + colour], alpha = pixels [at * 4 + 3];
                if (extra == EXTRASAMPLE_ASSOCALPHA)
                    value = alpha? value * 255 / alpha: 0;
                assert_int_equal (image_at (&image.image, at / WIDTH, at % WIDTH) [colour],
                    value < 255? value: 255);
            }
    }
    tiff_reader.destroy (reader);
}

//  Small files that would take much memory, or much time.
static void
test_bytes_used_again (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    for (uint32_t tags = 1; tags <= 2; tags++) {
        s_start (STRIP_HEIGHT, WIDTH, false);
        for (uint32_t tag = 0; tag < tags; tag++)
            s_set ((entry_t) { TAG_UNKNOWN + tag, TIFF_BYTE, sizeof s_pixels - 100, HEADER_BYTES });
        s_end ();
        assert_int_equal (s_read (reader, NULL, &pixels, error), tags == 1? 0: -EBADMSG);
        assert_string_equal (error, tags == 1? "":
            "damaged TIFF: the values of its tags have more bytes than the file");
    }
    uint32_t places [HEIGHT], sizes [HEIGHT];
    for (uint32_t times = 10; times <= 20; times += 10) {
        s_start (1, WIDTH, false);
        for (uint32_t row = 0; row < HEIGHT; row++) {
            places [row] = HEADER_BYTES;
            sizes [row] = (uint32_t) sizeof s_pixels * times / HEIGHT;
        }
        s_set_list (TIFFTAG_STRIPOFFSETS, places, HEIGHT);
        s_set_list (TIFFTAG_STRIPBYTECOUNTS, sizes, HEIGHT);
        s_end ();
        assert_int_equal (s_read (reader, NULL, &pixels, error), times == 10? 0: -EBADMSG);
        assert_string_equal (error, times == 10? "":
            "damaged TIFF: its strips or tiles have more than 16 times the bytes of the file");
    }
    tiff_reader.destroy (reader);
}

static void
test_masks (void **state)
{
    (void) state;
    enum { PALETTE = 3 << 8 };
    const image_reader_options_t options = { .is_mask = true };
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    s_start (STRIP_HEIGHT, WIDTH, false);
    s_end ();
    assert_int_equal (s_read_bytes (reader, s_file.bytes, s_file.size, &options, NULL, &pixels, error),
        -EDOM);
    assert_string_equal (error, "a mask must be grey or have a palette: this TIFF has 3 samples");
    //  Its bytes as indices of a palette, of which one number is missing, or none.
    for (uint32_t missing = 0; missing < 2; missing++) {
        s_start (STRIP_HEIGHT, WIDTH, false);
        s_set ((entry_t) { TIFFTAG_SAMPLESPERPIXEL, TIFF_SHORT, 1, 1 });
        s_set ((entry_t) { TIFFTAG_BITSPERSAMPLE, TIFF_SHORT, 1, 8 });
        s_set ((entry_t) { TIFFTAG_PHOTOMETRIC, TIFF_SHORT, 1, PHOTOMETRIC_PALETTE });
        s_set ((entry_t) { TIFFTAG_COLORMAP, TIFF_SHORT, PALETTE - missing, 8 });
        s_end ();
        assert_int_equal (s_read_bytes (reader, s_file.bytes, s_file.size, &options, NULL, &pixels, error),
            missing? -EBADMSG: 0);
        assert_string_equal (error, missing? "damaged TIFF: its palette has 767 numbers, of 768": "");
    }
    assert_int_equal (pixels.image.channels, 1);
    assert_memory_equal (pixels.image.pixels, s_pixels, WIDTH);
    tiff_reader.destroy (reader);
}

//  A file that is cut anywhere is bad, whatever of it is looked at; a changed byte does no harm.
static void
test_damage (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    const image_reader_options_t options = { .warnings_max = UINT32_MAX };
    const image_box_t corner = { .height = 1, .width = 1 };
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    for (int form = 0; form < 2; form++) {
        if (form)
            s_start (TILE, TILE, true);
        else
            s_start (STRIP_HEIGHT, WIDTH, false);
        size_t pixels_end = s_file.size;
        s_end ();
        for (size_t size = 0; size < s_file.size; size += size < pixels_end - 100? 97: 1) {
            uint8_t *cut = malloc (size? size: 1);           //  of that size alone, for the address sanitizer
            memcpy (cut, s_file.bytes, size);
            assert_int_equal (s_read_bytes (reader, cut, size, &options, &corner, &pixels, error), -EBADMSG);
            free (cut);
        }
        for (int trial = 0; trial < 3000; trial++) {
            size_t place = s_file.size - 1 - (size_t) test_below (&random, s_file.size - pixels_end + 50);
            uint8_t old = s_file.bytes [place];
            s_file.bytes [place] = (uint8_t) test_below (&random, 256);
            int rc = s_read (reader, NULL, &pixels, error);
            assert_true (rc == 0 || rc == -EBADMSG);
            s_file.bytes [place] = old;
        }
        assert_int_equal (s_read (reader, NULL, &pixels, error), 0);
    }
    tiff_reader.destroy (reader);
}

//  Deflated data give as many bytes as the strip has, no fewer and no more; and not thousands for each byte.
static void
test_deflate (void **state)
{
    (void) state;
    static uint8_t data [FILE_BYTES], more [sizeof s_pixels + 1];
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    memcpy (more, s_pixels, sizeof s_pixels);
    for (int extra = -1; extra <= 1; extra++) {
        uLongf size = sizeof data;
        assert_int_equal (compress (data, &size, more, (uLong) ((int) sizeof s_pixels + extra)), Z_OK);
        s_start_with (data, size, COMPRESSION_ADOBE_DEFLATE);
        s_end ();
        assert_int_equal (s_read (reader, NULL, &pixels, error), extra? -EBADMSG: 0);
        if (extra)
            assert_non_null (strstr (error, "a strip or tile does not give its pixels"));
        else
            assert_memory_equal (pixels.image.pixels, s_pixels, sizeof s_pixels);
    }
    s_start_with (data, 200, COMPRESSION_LZW);
    s_set ((entry_t) { TIFFTAG_IMAGELENGTH, TIFF_LONG, 1, 10000 });
    s_set ((entry_t) { TIFFTAG_ROWSPERSTRIP, TIFF_LONG, 1, 10000 });
    s_end ();
    assert_int_equal (s_read (reader, NULL, &pixels, error), -EBADMSG);
    assert_non_null (strstr (error, "tile 0 (200 bytes at 8) lies beyond the file's end, or is too short"));
    tiff_reader.destroy (reader);
}

//  Damage that libjpeg reads past is good, unless no warnings are allowed; a JPEG of another size is bad.
static void
test_jpeg (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    const image_reader_options_t lenient = { .warnings_max = UINT32_MAX }, strict = { .warnings_max = 0 };
    char error [ERROR_BYTES];
    image_pixels_t pixels;
    void *reader = tiff_reader.new ();
    made_file_t jpeg = made_jpeg_with (&made_kinds [MADE_KIND_420], HEIGHT, WIDTH, 80, &random, NULL);
    s_start_with (jpeg.bytes, jpeg.size, COMPRESSION_JPEG);
    s_set ((entry_t) { TIFFTAG_PHOTOMETRIC, TIFF_SHORT, 1, PHOTOMETRIC_YCBCR });
    s_end ();
    assert_int_equal (s_read_bytes (reader, s_file.bytes, s_file.size, &strict, NULL, &pixels, error), 0);
    int only_lenient = 0;
    for (size_t place = HEADER_BYTES + jpeg.size / 2; place < HEADER_BYTES + jpeg.size - 2; place++) {
        uint8_t old = s_file.bytes [place];
        s_file.bytes [place] = (uint8_t) test_below (&random, 255);
        int rc = s_read_bytes (reader, s_file.bytes, s_file.size, &lenient, NULL, &pixels, error);
        int strict_rc = s_read_bytes (reader, s_file.bytes, s_file.size, &strict, NULL, &pixels, error);
        assert_true (rc == 0 || strict_rc == -EBADMSG);
        only_lenient += rc == 0 && strict_rc;
        s_file.bytes [place] = old;
    }
    assert_true (only_lenient > 0);
    s_start_with (jpeg.bytes, jpeg.size, COMPRESSION_JPEG);
    s_set ((entry_t) { TIFFTAG_PHOTOMETRIC, TIFF_SHORT, 1, PHOTOMETRIC_YCBCR });
    s_set ((entry_t) { TIFFTAG_IMAGEWIDTH, TIFF_SHORT, 1, WIDTH + 1 });
    s_end ();
    assert_int_equal (s_read (reader, NULL, &pixels, error), -EBADMSG);
    assert_non_null (strstr (error, "Improper JPEG strip/tile size"));
    free (jpeg.bytes);
    tiff_reader.destroy (reader);
}

static int
s_setup (void **state)
{
    (void) state;
    s_draw ();
    return 0;
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_boxes), cmocka_unit_test (test_refused),
        cmocka_unit_test (test_values_at_the_files_end), cmocka_unit_test (test_colours_beside_alpha),
        cmocka_unit_test (test_bytes_used_again), cmocka_unit_test (test_masks),
        cmocka_unit_test (test_damage), cmocka_unit_test (test_deflate), cmocka_unit_test (test_jpeg)
    };
    return cmocka_run_group_tests (tests, s_setup, NULL);
}

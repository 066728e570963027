/*  test_orientation -- EXIF blocks and turning: golden results of Pillow, simple models, hostile bytes.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "instrument.h"
#include "orientation.h"
#include "seed.h"

//  orientation_number on an exact copy, so that the address sanitizer sees a read behind the end.
static uint32_t
s_number (const void *bytes, size_t size)
{
    uint8_t *copy = malloc (size? size: 1);
    memcpy (copy, bytes, size);
    uint32_t number = orientation_number ((image_block_t) { copy, size }, (image_block_t) { NULL, 0 });
    assert_true (number >= 1 && number <= 8);
    free (copy);
    return number;
}

static const struct { uint32_t number; size_t size; const char *bytes; } s_blocks [] = {
#include "golden/orientation_blocks.inc"
};
enum { BLOCKS = sizeof s_blocks / sizeof *s_blocks };

//  Sound and damaged blocks: the number that Pillow finds.
static void
test_blocks_as_pillow (void **state)
{
    (void) state;
    for (size_t index = 0; index < BLOCKS; index++) {
        uint32_t number = s_number (s_blocks [index].bytes, s_blocks [index].size);
        if (number != s_blocks [index].number)
            fail_msg ("block %zu: %u for %u", index, number, s_blocks [index].number);
    }
    assert_int_equal (orientation_number ((image_block_t) { NULL, 0 }, (image_block_t) { NULL, 0 }), 1);
}

//  Any damage to any block gives a number and is over at once: a block is walked once, whatever it points at.
static void
test_hostile_blocks (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes [400];
        size_t block = test_below (&random, BLOCKS), size = s_blocks [block].size;
        assert_true (size <= sizeof bytes);
        memcpy (bytes, s_blocks [block].bytes, size);
        for (uint64_t count = test_below (&random, 8); count > 0 && size > 0; count--)
            bytes [test_below (&random, size)] = (uint8_t) test_below (&random, 256);
        s_number (bytes, size? test_below (&random, size + 1): 0);
    }
    enum { LARGE = 1 << 16 };
    uint8_t *large = malloc (LARGE);
    for (int round = 0; round < 50; round++) {
        //  Directories in directories: each entry is a pointer to the first one.
        static const uint8_t entry [12] = { 0x69, 0x87, 4, 0, 1, 0, 0, 0, 8, 0, 0, 0 };
        for (size_t index = 0; index < LARGE; index++)
            large [index] = (uint8_t) (round? test_below (&random, 256): entry [(index + 2) % 12]);
        memcpy (large, "II*\0\x8\0\0\0\xff\xff", 10);
        clock_t begin = clock ();
        s_number (large, LARGE);
        assert_true (clock () - begin < CLOCKS_PER_SEC / 10);
    }
    free (large);
}

static uint32_t
s_xmp_number (const char *text, size_t size)
{
    uint8_t *copy = malloc (size? size: 1);
    memcpy (copy, text, size);
    uint32_t number = orientation_number ((image_block_t) { NULL, 0 }, (image_block_t) { copy, size });
    free (copy);
    return number;
}

//  Where Pillow 13's pattern matches, cut at every byte; an EXIF entry of the tag, of whatever type, hides
//  it.
static void
test_xmp (void **state)
{
    (void) state;
    static const struct { const char *text; uint32_t number; } cases [] = {
        { "<a tiff:Orientation=\"6\"/>", 6 }, { "<tiff:Orientation>8</tiff:Orientation>", 8 },
        { "tiff:Orientation='6'", 1 }, { "tiff:Orientation = \"6\"", 1 }, { "tiff:Orientation=\"9\"", 1 },
        { "tiff:Orientation> 3 tiff:Orientation>4", 4 }, { "tiff:Orientation>1 tiff:Orientation>4", 1 },
        { "tiff:Orientationtiff:Orientation=\"2", 2 }, { "", 1 },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        size_t size = strlen (cases [index].text);
        assert_int_equal (s_xmp_number (cases [index].text, size), cases [index].number);
        for (size_t cut = 0; cut < size; cut++) {
            uint32_t number = s_xmp_number (cases [index].text, cut);
            assert_true (number == 1 || number == cases [index].number);
        }
    }
    image_block_t xmp = { (const uint8_t *) "tiff:Orientation>6", 18 };
    uint8_t exif [] = "II*\0\x8\0\0\0\1\0\x12\1\2\0\1\0\0\0A\0\0\0\0\0\0\0";
    assert_int_equal (orientation_number ((image_block_t) { exif, sizeof exif }, xmp), 1);
    exif [11] = 2;                      //  another tag
    assert_int_equal (orientation_number ((image_block_t) { exif, sizeof exif }, xmp), 6);
}

//  A TIFF's packet lies in its file, or there is none.
static void
test_tiff_xmp (void **state)
{
    (void) state;
    uint8_t file [] = "II*\0\x8\0\0\0\1\0\xbc\2\1\0\6\0\0\0\x1a\0\0\0\0\0\0\0packet";
    image_block_t xmp = orientation_tiff_xmp ((image_block_t) { file, sizeof file });
    assert_ptr_equal (xmp.bytes, file + 26);
    assert_int_equal (xmp.size, 6);
    file [12] = 2;                      //  a text: Pillow raises
    assert_null (orientation_tiff_xmp ((image_block_t) { file, sizeof file }).bytes);
    file [12] = 1;
    assert_null (orientation_tiff_xmp ((image_block_t) { file, 31 }).bytes);
}

static const struct { uint32_t number; uint32_t height, width; uint8_t pixels [6]; } s_turned [] = {
#include "golden/orientation_turned.inc"
};

//  Each number, and those that are none, on a small image: what Pillow makes of it.
static void
test_turned_as_pillow (void **state)
{
    (void) state;
    static const uint8_t pixels [6] = { 0, 1, 2, 3, 4, 5 };
    image_t image = { pixels, 3, 2, 3, 1 };
    for (size_t index = 0; index < sizeof s_turned / sizeof *s_turned; index++) {
        uint8_t target [6];
        orientation_t orientation = orientation_of_number (s_turned [index].number);
        assert_int_equal (orientation.swaps, s_turned [index].height == 3);
        orientation_turn (orientation, &image, target, s_turned [index].width);
        assert_memory_equal (target, s_turned [index].pixels, 6);
    }
    assert_false (orientation_turns (orientation_of_number (1)));
    assert_true (orientation_turns (orientation_of_number (8)));
    assert_false (orientation_turns (orientation_of_number (UINT32_MAX)));
}

//  Where pixel (y, x) of the turned image is in the stored one, by the words of the EXIF standard: which side
//  of the turned image the stored one's 0th row is, and which its 0th column.
static void
s_model (uint32_t number, uint32_t y, uint32_t x, uint32_t height, uint32_t width, uint32_t *row_p,
    uint32_t *column_p)
{
    static const char *const rows [] = { "", "top", "top", "bottom", "bottom", "left", "right", "right",
        "left" };
    static const char *const columns [] = { "", "left", "right", "right", "left", "top", "top", "bottom",
        "bottom" };
    const char *row = rows [number], *column = columns [number];
    *row_p = *row == 't'? y: *row == 'b'? height - 1 - y: *row == 'l'? x: height - 1 - x;
    *column_p = *column == 'l'? x: *column == 'r'? width - 1 - x: *column == 't'? y: width - 1 - y;
}

static INSTRUMENT_ROWS void
s_check_turned (uint32_t number, const image_t *stored, const uint8_t *target, size_t stride)
{
    orientation_t orientation = orientation_of_number (number);
    uint32_t height = orientation.swaps? stored->width: stored->height;
    uint32_t width = orientation.swaps? stored->height: stored->width;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint32_t row, column;
            s_model (number, y, x, stored->height, stored->width, &row, &column);
            if (memcmp (target + y * stride + (size_t) x * stored->channels, image_at (stored, row, column),
                    stored->channels))
                fail_msg ("number %u, %u x %u: pixel %u, %u", number, stored->height, stored->width, y, x);
        }
}

//  Images and views of any size and stride; nothing beside the target is touched.
static void
test_turned_as_the_model (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    enum { SIDE = 150, STRIDE = SIDE * 3 + 9 };
    static uint8_t source [SIDE * STRIDE], target [(SIDE + 1) * STRIDE];
    for (size_t index = 0; index < sizeof source; index++)
        source [index] = (uint8_t) test_below (&random, 256);
    for (int round = 0; round < 160; round++) {
        uint32_t number = 1 + (uint32_t) round % 8, channels = round % 16 < 8? 3: 1;
        uint32_t side = round % 5? 20: SIDE;
        image_t image = { source + test_below (&random, 9), STRIDE, 1 + (uint32_t) test_below (&random, side),
            1 + (uint32_t) test_below (&random, side), channels };
        orientation_t orientation = orientation_of_number (number);
        uint32_t width = orientation.swaps? image.height: image.width;
        uint32_t height = orientation.swaps? image.width: image.height;
        size_t stride = (size_t) width * channels + test_below (&random, 9);
        memset (target, 0xa5, sizeof target);
        orientation_turn (orientation, &image, target, stride);
        s_check_turned (number, &image, target, stride);
        for (size_t row = 0; row < height; row++)
            for (size_t at = (size_t) width * channels; at < stride; at++)
                assert_int_equal (target [row * stride + at], 0xa5);
        assert_int_equal (target [height * stride], 0xa5);
    }
}

//  A box of the turned image has the pixels of its stored box, turned.
static void
test_boxes (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (int round = 0; round < 2000; round++) {
        uint32_t number = 1 + (uint32_t) round % 8;
        orientation_t orientation = orientation_of_number (number);
        uint32_t height = 1 + (uint32_t) test_below (&random, 30),
            width = 1 + (uint32_t) test_below (&random, 30);
        uint32_t turned_height = orientation.swaps? width: height,
            turned_width = orientation.swaps? height: width;
        image_box_t box;
        box.top = (uint32_t) test_below (&random, turned_height);
        box.left = (uint32_t) test_below (&random, turned_width);
        box.height = 1 + (uint32_t) test_below (&random, turned_height - box.top);
        box.width = 1 + (uint32_t) test_below (&random, turned_width - box.left);
        image_box_t stored = orientation_stored_box (orientation, &box, height, width);
        for (uint32_t y = 0; y < box.height; y++)
            for (uint32_t x = 0; x < box.width; x++) {
                uint32_t row, column, inner_row, inner_column;
                s_model (number, box.top + y, box.left + x, height, width, &row, &column);
                s_model (number, y, x, stored.height, stored.width, &inner_row, &inner_column);
                assert_int_equal (row, stored.top + inner_row);
                assert_int_equal (column, stored.left + inner_column);
            }
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_blocks_as_pillow),
        cmocka_unit_test (test_hostile_blocks), cmocka_unit_test (test_xmp),
        cmocka_unit_test (test_tiff_xmp),
        cmocka_unit_test (test_turned_as_pillow),
        cmocka_unit_test (test_turned_as_the_model),
        cmocka_unit_test (test_boxes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_jpeg_entropy -- the entropy decoder beside libjpeg's own: which files it takes, and that what it
 *  calls sound is what libjpeg gives.  That boxes have the right pixels: test_jpeg_reader.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "clock.h"
#include "jpeg_model.h"
#include "jpeg_reader.h"
#include "levels.h"

enum { ERROR_BYTES = 400 };

static jpeg_reader_t *
s_reader (const char *wish)
{
    setenv ("TUREEN_JPEG", wish, 1);
    jpeg_reader_t *reader = jpeg_reader.new ();
    unsetenv ("TUREEN_JPEG");
    assert_non_null (reader);
    return reader;
}

static int
s_read (jpeg_reader_t *reader, const made_file_t *file, const image_box_t *box, uint32_t warnings_max,
    image_pixels_t *pixels)
{
    char error [ERROR_BYTES];
    uint32_t height, width;
    const image_reader_options_t options = { .warnings_max = warnings_max };
    int rc = jpeg_reader.open (reader, &options, file->bytes, file->size, &height, &width, error,
        ERROR_BYTES);
    if (rc)
        return rc;
    image_request_t request = { .box = box? *box: (image_box_t) { 0, 0, height, width } };
    return jpeg_reader.read (reader, &request, pixels, error, ERROR_BYTES);
}

//  Sequential files with Huffman codes and one scan are decoded by it, whatever their colours, sampling and
//  restarts; in the environment it can be turned off.
static void
test_kinds (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    jpeg_reader_t *fast = s_reader (""), *plain = s_reader ("libjpeg");
    assert_true (jpeg_reader_is_fast (fast) && !jpeg_reader_is_fast (plain));
    image_pixels_t pixels;
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        const made_kind_t *made = &made_kinds [kind];
        made_file_t file = made_jpeg (made, 90, 110, &random);
        for (int judged = 0; judged < 2; judged++) {
            assert_int_equal (s_read (fast, &file, NULL, judged? 0: UINT32_MAX, &pixels), 0);
            bool expected = made->scans == MADE_SEQUENTIAL && !made->arithmetic;
            if (jpeg_reader_was_fast (fast) != expected)
                fail_msg ("%s is %sdecoded by it", made->name, expected? "not ": "");
        }
        assert_int_equal (s_read (plain, &file, NULL, UINT32_MAX, &pixels), 0);
        assert_false (jpeg_reader_was_fast (plain));
        free (file.bytes);
    }
    jpeg_reader.destroy (fast);
    jpeg_reader.destroy (plain);
}

//  Files with markers in the wrong order, or that do not end with their scan, are left to libjpeg.
static void
test_other_markers (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    jpeg_reader_t *reader = s_reader ("");
    image_pixels_t pixels;
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_RESTARTS], 60, 60, &random);
    const image_box_t box = { 5, 5, 10, 10 };
    size_t restart = made_last_scan (&file) + 14;
    while (file.bytes [restart] != 0xff || file.bytes [restart + 1] != 0xd0)
        restart++;
    static const uint8_t codes [] = { 0xd1, 0xd9, 0xff, 0xfe };
    for (size_t index = 0; index < sizeof codes; index++) {
        file.bytes [restart + 1] = codes [index];
        (void) s_read (reader, &file, &box, UINT32_MAX, &pixels);
        assert_false (jpeg_reader_was_fast (reader));
    }
    file.bytes [restart + 1] = 0xd0;
    assert_int_equal (s_read (reader, &file, &box, UINT32_MAX, &pixels), 0);
    assert_true (jpeg_reader_was_fast (reader));
    made_insert_marker (&file, file.size - 2, 0xfe, "behind the scan", 15);
    assert_int_equal (s_read (reader, &file, &box, UINT32_MAX, &pixels), 0);
    assert_false (jpeg_reader_was_fast (reader));
    free (file.bytes);
    jpeg_reader.destroy (reader);
}

//  ---------------------------------------------------------------------------------------------------------
//  With rows

typedef struct {
    uint8_t *bytes;
    size_t size;
} rows_t;

static rows_t
s_rows (jpeg_reader_t *reader, const made_file_t *file)
{
    const uint8_t *lent;
    rows_t rows = { .bytes = NULL };
    assert_int_equal (jpeg_reader_rows (reader, file->bytes, file->size, &lent, &rows.size), 0);
    rows.bytes = malloc (rows.size + 1);        //  not a byte more than it is said to be
    if (rows.size)
        memcpy (rows.bytes, lent, rows.size);
    return rows;
}

static int
s_read_judged (jpeg_reader_t *reader, const made_file_t *file, const rows_t *rows, uint32_t warnings_max,
    const image_request_t *request, image_pixels_t *pixels)
{
    char error [ERROR_BYTES];
    uint32_t height, width;
    const image_reader_options_t options = { .warnings_max = warnings_max, .rows = rows->bytes,
        .rows_bytes = rows->size };
    int rc = jpeg_reader.open (reader, &options, file->bytes, file->size, &height, &width, error,
        ERROR_BYTES);
    return rc? rc: jpeg_reader.read (reader, request, pixels, error, ERROR_BYTES);
}

static int
s_read_by (jpeg_reader_t *reader, const made_file_t *file, const rows_t *rows, const image_request_t *request,
    image_pixels_t *pixels)
{
    return s_read_judged (reader, file, rows, UINT32_MAX, request, pixels);
}

static image_request_t
s_any_request (uint32_t height, uint32_t width, uint64_t *random)
{
    image_request_t request = { .box = { .height = 1 + (uint32_t) test_below (random, height),
        .width = 1 + (uint32_t) test_below (random, width) } };
    request.box.top = (uint32_t) test_below (random, height - request.box.height + 1);
    request.box.left = (uint32_t) test_below (random, width - request.box.width + 1);
    if (test_below (random, 3) == 0) {
        request.least_height = 1 + request.box.height / 4;
        request.least_width = 1 + request.box.width / 4;
    }
    return request;
}

static void
s_assert_same_pixels (const image_t *one, const image_t *other)
{
    assert_int_equal (one->height, other->height);
    assert_int_equal (one->width, other->width);
    for (uint32_t y = 0; y < one->height; y++)
        assert_memory_equal (image_at (one, y, 0), image_at (other, y, 0),
            image_bytes (1, one->width, one->channels));
}

//  Of sequential files without restarts the rows are known, and boxes have the same pixels with them.
static void
test_rows (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    jpeg_reader_t *fast = s_reader (""), *plain = s_reader ("libjpeg");
    unsigned known = 0;
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        const made_kind_t *made = &made_kinds [kind];
        uint32_t height = 1 + (uint32_t) test_below (&random, 200);
        uint32_t width = 1 + (uint32_t) test_below (&random, 200);
        made_file_t file = made_jpeg (made, height, width, &random);
        rows_t rows = s_rows (fast, &file), none = s_rows (plain, &file);
        assert_int_equal (none.size, 0);
        if (rows.size > 0 && (made->scans != MADE_SEQUENTIAL || made->arithmetic))
            fail_msg ("rows of %s", made->name);
        known += rows.size > 0;
        for (int box = 0; box < 40 && rows.size > 0; box++) {
            image_request_t request = s_any_request (height, width, &random);
            image_pixels_t ours, theirs;
            assert_int_equal (s_read_by (fast, &file, &rows, &request, &ours), 0);
            assert_true (jpeg_reader_was_fast (fast));
            assert_int_equal (s_read_by (plain, &file, &none, &request, &theirs), 0);
            s_assert_same_pixels (&ours.image, &theirs.image);
        }
        free (file.bytes);
        free (rows.bytes);
        free (none.bytes);
    }
    assert_true (known >= 10);
    jpeg_reader.destroy (fast);
    jpeg_reader.destroy (plain);
}

//  What one box finds out serves the next, whichever part of the image is known by then; in the end all is.
static void
test_rows_are_learned (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    jpeg_reader_t *fast = s_reader (""), *plain = s_reader ("libjpeg");
    for (int round = 0; round < 60; round++) {
        const made_kind_t *made = &made_kinds [test_below (&random, MADE_KIND_RESTARTS - 1)];
        uint32_t height = 1 + (uint32_t) test_below (&random, 300);
        uint32_t width = 1 + (uint32_t) test_below (&random, 300);
        made_file_t file = made_jpeg (made, height, width, &random);
        rows_t all = s_rows (fast, &file), known = { .bytes = NULL }, none = { .bytes = NULL };
        for (int box = 0; box < 12; box++) {
            image_request_t request = s_any_request (height, width, &random);
            if (box == 11)
                request = (image_request_t) { .box = { 0, 0, height, width } };
            image_pixels_t ours, theirs;
            assert_int_equal (s_read_by (fast, &file, &known, &request, &ours), 0);
            assert_true (jpeg_reader_was_fast (fast));
            assert_int_equal (s_read_by (plain, &file, &none, &request, &theirs), 0);
            s_assert_same_pixels (&ours.image, &theirs.image);
            const uint8_t *learned;
            size_t size = jpeg_reader_learned (fast, &learned);
            if (size == 0)
                continue;
            assert_true (size > known.size && size <= all.size);
            assert_memory_equal (learned, all.bytes, size);
            known.bytes = realloc (known.bytes, size);
            known.size = size;
            memcpy (known.bytes, learned, size);
            assert_int_equal (jpeg_reader_learned (fast, &learned), 0);     //  each row is told once
        }
        assert_true (known.size == all.size || all.size <= 3);      //  one point only
        free (file.bytes);
        free (all.bytes);
        free (known.bytes);
    }
    jpeg_reader.destroy (fast);
    jpeg_reader.destroy (plain);
}

//  No rows are looked for in several scans: to find none, libjpeg would decode all of them first.
static void
test_rows_of_several_scans (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    jpeg_reader_t *reader = s_reader ("");
    static const int kinds [] = { MADE_KIND_PROGRESSIVE, MADE_KIND_SEPARATE };
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++) {
        made_file_t file = made_jpeg (&made_kinds [kinds [index]], 700, 700, &random);
        image_pixels_t pixels;
        uint64_t begin_ns = clock_thread_ns ();
        assert_int_equal (s_read (reader, &file, NULL, UINT32_MAX, &pixels), 0);
        uint64_t read_ns = clock_thread_ns ();
        rows_t rows = s_rows (reader, &file);
        uint64_t rows_ns = clock_thread_ns ();
        assert_int_equal (rows.size, 0);
        assert_true ((rows_ns - read_ns) * 10 < read_ns - begin_ns);
        free (file.bytes);
        free (rows.bytes);
    }
    jpeg_reader.destroy (reader);
}

//  Nothing above a wanted row is looked at: what is damaged there does not show.
static void
test_rows_are_jumped_over (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    jpeg_reader_t *reader = s_reader ("");
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 320, 200, &random);
    rows_t rows = s_rows (reader, &file);
    const image_request_t request = { .box = { 250, 20, 60, 150 } };
    image_pixels_t pixels;
    assert_int_equal (s_read_by (reader, &file, &rows, &request, &pixels), 0);
    image_t kept = { malloc (60 * 150 * 3), 150 * 3, 60, 150, 3 };
    for (uint32_t y = 0; y < 60; y++)
        memcpy ((uint8_t *) kept.pixels + y * kept.stride, image_at (&pixels.image, y, 0), kept.stride);
    size_t scan = made_last_scan (&file) + 14, half = (file.size - scan) / 2;
    memset (file.bytes + scan, 0, half);
    assert_int_equal (s_read_by (reader, &file, &rows, &request, &pixels), 0);
    assert_true (jpeg_reader_was_fast (reader));
    s_assert_same_pixels (&pixels.image, &kept);
    //  Damage is judged as ever where warnings count.
    assert_int_equal (s_read_judged (reader, &file, &rows, 0, &request, &pixels), -EBADMSG);
    free ((void *) (uintptr_t) kept.pixels);
    free (file.bytes);
    free (rows.bytes);
    jpeg_reader.destroy (reader);
}

//  Rows of another image, or no rows at all, give other pixels at most; where there are restarts, the right
//  ones.
static void
test_foreign_rows (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    jpeg_reader_t *reader = s_reader (""), *plain = s_reader ("libjpeg");
    static const int kinds [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_GREY, MADE_KIND_RESTARTS };
    static const int others [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_GREY, MADE_KIND_444 };
    unsigned fast = 0;
    enum { ROUNDS = 3000, SIDE = 90 };
    for (int round = 0; round < ROUNDS; round++) {
        made_file_t file = made_jpeg (&made_kinds [kinds [round % 4]], SIDE, SIDE, &random);
        made_file_t other = made_jpeg (&made_kinds [others [round % 4]], SIDE, SIDE, &random);
        rows_t rows = s_rows (reader, &other);
        for (uint64_t count = test_below (&random, 4); count > 0; count--)
            rows.bytes [test_below (&random, rows.size)] ^= (uint8_t) (1 << test_below (&random, 8));
        if (test_below (&random, 4) == 0)
            rows.size = test_below (&random, rows.size);
        image_request_t request = s_any_request (SIDE, SIDE, &random);
        image_pixels_t pixels, expected;
        assert_int_equal (s_read_by (reader, &file, &rows, &request, &pixels), 0);
        fast += jpeg_reader_was_fast (reader);
        rows.size = 0;
        if (kinds [round % 4] == MADE_KIND_RESTARTS) {
            assert_int_equal (s_read_by (plain, &file, &rows, &request, &expected), 0);
            s_assert_same_pixels (&pixels.image, &expected.image);
        }
        free (file.bytes);
        free (other.bytes);
        free (rows.bytes);
    }
    assert_true (fast > ROUNDS / 10);
    jpeg_reader.destroy (reader);
    jpeg_reader.destroy (plain);
}

//  ---------------------------------------------------------------------------------------------------------
//  Damage

//  Bits of the coded data are turned, or bytes are taken out of them, or put in.
static void
s_damage (made_file_t *file, uint64_t *random)
{
    size_t scan = made_last_scan (file) + 14, data = file->size - 2 - scan;
    size_t at = scan + test_below (random, data);
    uint64_t how = test_below (random, 4);
    if (how == 0) {
        size_t count = 1 + test_below (random, 3);
        memmove (file->bytes + at, file->bytes + at + count, file->size - at - count);
        file->size -= count;
    }
    else if (how == 1)
        made_insert (file, at, "\x12\x34\x56", 1 + test_below (random, 3));
    else
        for (uint64_t count = 1 + test_below (random, 2); count > 0; count--)
            file->bytes [scan + test_below (random, data)] ^= (uint8_t) (1 << test_below (random, 8));
}

//  Whatever it calls sound, libjpeg gives the same pixels of, and if warnings are counted, without one.
static void
test_damage_is_found (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    jpeg_reader_t *fast = s_reader (""), *plain = s_reader ("libjpeg");
    unsigned sound = 0, found = 0;
    static const int kinds [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_GREY, MADE_KIND_RESTARTS };
    enum { ROUNDS = 4000, SIDE = 70 };
    for (int round = 0; round < ROUNDS; round++) {
        made_file_t file = made_jpeg_with (&made_kinds [kinds [round % 4]], SIDE, SIDE, 40, &random, NULL);
        s_damage (&file, &random);
        image_box_t box = { .height = 1 + (uint32_t) test_below (&random, SIDE),
            .width = 1 + (uint32_t) test_below (&random, SIDE) };
        box.top = (uint32_t) test_below (&random, SIDE - box.height + 1);
        box.left = (uint32_t) test_below (&random, SIDE - box.width + 1);
        uint32_t warnings_max = round % 2? 0: UINT32_MAX;
        image_pixels_t ours, theirs;
        int rc = s_read (fast, &file, &box, warnings_max, &ours);
        int expected = s_read (plain, &file, &box, warnings_max, &theirs);
        if (rc != expected)
            fail_msg ("round %d: %d, libjpeg says %d", round, rc, expected);
        for (uint32_t y = 0; y < box.height && rc == 0; y++)
            assert_memory_equal (image_at (&ours.image, y, 0), image_at (&theirs.image, y, 0),
                image_bytes (1, box.width, ours.image.channels));
        sound += jpeg_reader_was_fast (fast);
        found += !jpeg_reader_was_fast (fast);
        free (file.bytes);
    }
    print_message ("%u of %d read as sound\n", sound, ROUNDS);
    assert_true (sound > ROUNDS / 20 && found > ROUNDS / 20);
    jpeg_reader.destroy (fast);
    jpeg_reader.destroy (plain);
}

//  A grey image of side x side pixels, of which each block's DC value is 32,767 more than the one before.
static made_file_t
s_climbing (uint32_t side)
{
    enum { QUANTISERS = 64, QUANTISERS_HEAD = 7 };
    static const uint8_t quantisers [QUANTISERS_HEAD] = { 0xff, 0xd8, 0xff, 0xdb, 0, QUANTISERS + 3, 0 };
    static const uint8_t head [] = {
        0xff, 0xc0, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0,
        //  DC: one code, 0, for 15 bits; AC: one code, 0, for the end of the block.
        0xff, 0xc4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15,
        0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0 };
    size_t before = QUANTISERS_HEAD + QUANTISERS;
    size_t blocks = (size_t) (side / 8) * (side / 8), bits = 0;
    made_file_t file = { malloc (before + sizeof head + blocks * 5 + 8), before + sizeof head };
    memcpy (file.bytes, quantisers, QUANTISERS_HEAD);
    memset (file.bytes + QUANTISERS_HEAD, 1, QUANTISERS);
    memcpy (file.bytes + before, head, sizeof head);
    made_set_size (file.bytes, file.size, side, side);
    unsigned byte = 0;
    for (size_t bit = 0; bit < blocks * 17 || bits % 8; bit++, bits++) {
        byte = byte * 2 + (bit >= blocks * 17 || (bit % 17 > 0 && bit % 17 < 16));
        if (bits % 8 < 7)
            continue;
        file.bytes [file.size++] = (uint8_t) byte;
        if ((byte & 255) == 0xff)
            file.bytes [file.size++] = 0;
    }
    file.bytes [file.size++] = 0xff;
    file.bytes [file.size++] = 0xd9;
    return file;
}

//  What libjpeg does with a DC value that overflows an int (wrap, or refuse the file, by its version) is left
//  to it, and so are values that come near to one.
static void
test_dc_without_end (void **state)
{
    (void) state;
    jpeg_reader_t *fast = s_reader (""), *plain = s_reader ("libjpeg");
    //  32,767 a block: 2^31 is passed in block 65,539, the last row of 257 x 257 blocks; 2^30 in block
    //  32,769.
    static const struct { uint32_t side, row; bool is_fast; } cases [] = {
        { 64, 40, true }, { 1024, 1000, true }, { 2000, 900, true }, { 2000, 1900, false },
        { 2056, 2050, false } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        made_file_t file = s_climbing (cases [index].side);
        const image_box_t box = { cases [index].row, 3, 4, 40 };
        image_pixels_t ours, theirs;
        int expected = s_read (plain, &file, &box, UINT32_MAX, &theirs);
        assert_int_equal (s_read (fast, &file, &box, UINT32_MAX, &ours), expected);
        for (uint32_t y = 0; y < box.height && expected == 0; y++)
            assert_memory_equal (image_at (&ours.image, y, 0), image_at (&theirs.image, y, 0),
                image_bytes (1, box.width, ours.image.channels));
        assert_int_equal (jpeg_reader_was_fast (fast), cases [index].is_fast);
        free (file.bytes);
    }
    jpeg_reader.destroy (fast);
    jpeg_reader.destroy (plain);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_kinds), cmocka_unit_test (test_other_markers),
        cmocka_unit_test (test_rows), cmocka_unit_test (test_rows_are_learned),
        cmocka_unit_test (test_rows_of_several_scans),
        cmocka_unit_test (test_rows_are_jumped_over), cmocka_unit_test (test_foreign_rows),
        cmocka_unit_test (test_damage_is_found), cmocka_unit_test (test_dc_without_end) };
    int failed = 0;
    for (loops_level_t level = 0; level < LOOPS_LEVELS; level++)
        if (levels_use (level))
            failed += cmocka_run_group_tests (tests, NULL, NULL);
    return failed;
}

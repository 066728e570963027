//  test_tile_original -- the bytes of a tiled file: all of them come back, or none are kept.
#include <errno.h>
#include <malloc.h>
#include "effort.h"
#include "jpeg_model.h"
#include "tile_original.h"
#include "tiles.h"

enum { ERROR_BYTES = 400, SIDE_MAX = 120, WHOLE = 8 };

typedef struct {
    uint8_t *bytes;
    size_t size;
} bytes_t;

//  Of an exact copy, so that the address sanitizer sees a read behind the end.
static int
s_restore (const uint8_t *bytes, size_t size, bytes_t *original)
{
    uint8_t *copy = malloc (size? size: 1);
    if (size)
        memcpy (copy, bytes, size);
    char error [ERROR_BYTES];
    memset (error, 'x', sizeof error);
    *original = (bytes_t) { .bytes = NULL };
    int rc = tile_original_restore (copy, size, &original->bytes, &original->size, error, sizeof error);
    assert_true (rc == 0 || rc == -EDOM || rc == -EBADMSG);
    assert_non_null (memchr (error, 0, sizeof error));
    assert_int_equal (rc == 0, *error == 0);
    assert_int_equal (rc == 0, original->bytes != NULL);
    assert_int_equal (tile_original_is_kept (copy, size), rc != -EDOM);
    free (copy);
    return rc;
}

static void
s_assert_comes_back (const char *what, const uint8_t *bytes, size_t size, const uint8_t *original,
    size_t original_bytes)
{
    bytes_t back;
    if (s_restore (bytes, size, &back))
        fail_msg ("%s: does not come back", what);
    assert_int_equal (back.size, original_bytes);
    assert_memory_equal (back.bytes, original, original_bytes);
    free (back.bytes);
}

static int
s_keep (const made_file_t *file, tiled_t *tiled)
{
    char error [ERROR_BYTES] = "";
    int rc = tile_original_keep (file->bytes, file->size, tiled, error, sizeof error);
    assert_int_equal (rc == 0, *error == 0);
    assert_true (rc == 0 || strcmp (error, "JPEG that would not come back byte for byte") == 0);
    return rc;
}

static tiled_t
s_kept (const made_file_t *file, tile_layout_t layout)
{
    tiled_t tiled;
    char error [ERROR_BYTES];
    if (tile_transcode (file->bytes, file->size, layout, &tiled, error, sizeof error)
        || s_keep (file, &tiled))
        fail_msg ("%s", error);
    return tiled;
}

//  What others make of the file with the segment is what they make of the original, and windows can be cut
//  out of it.
static void
s_assert_whole (const tiled_t *tiled, const made_file_t *file)
{
    tiles_t tiles;
    tiles_open (&tiles, tiled->bytes, tiled->size);
    assert_int_equal (tiles.frame.interval, tiled->interval);
    tiles_close (&tiles);
    picture_t pictures [2];
    assert_true (jpeg_model (file->bytes, file->size, false, WHOLE, &pictures [0]));
    assert_true (jpeg_model (tiled->bytes, tiled->size, false, WHOLE, &pictures [1]));
    assert_int_equal (pictures [1].warnings, 0);
    assert_memory_equal (pictures [0].pixels, pictures [1].pixels,
        (size_t) pictures [0].height * pictures [0].width * pictures [0].channels);
    free (pictures [0].pixels);
    free (pictures [1].pixels);
}

//  What cameras and programs put into files.
static void
s_decorate (made_file_t *file, uint64_t *random)
{
    static const char tail [] = "behind the end \xff\xd8\xff\xd9";
    if (test_below (random, 2))
        made_insert (file, made_last_scan (file), "\xff\xff", 2);            //  filling
    if (test_below (random, 2))
        made_insert_marker (file, 2, 0xe1, "Exif\0\0 with \xff\xda\xff\xd9 in it", 22);
    if (test_below (random, 2))
        made_insert (file, file->size, tail, sizeof tail);
    if (test_below (random, 2))
        made_insert (file, 2, "\xff\xff\xff", 3);
}

//  ---------------------------------------------------------------------------------------------------------
//  What comes back

//  Every kind of file, in every layout.
static void
test_originals_come_back (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    int kept = 0;
    for (int round = 0; round < EFFORT (60) * MADE_KINDS; round++) {
        const made_kind_t *kind = &made_kinds [round % MADE_KINDS];
        uint32_t height = 1 + (uint32_t) test_below (&random, SIDE_MAX),
            width = 1 + (uint32_t) test_below (&random, SIDE_MAX);
        made_file_t file = made_jpeg (kind, height, width, &random);
        s_decorate (&file, &random);
        tiled_t tiled;
        char error [ERROR_BYTES];
        tile_layout_t layout = tiles_layouts [test_below (&random, TILES_LAYOUTS)];
        if (tile_transcode (file.bytes, file.size, layout, &tiled, error, sizeof error) == 0) {
            if (s_keep (&file, &tiled))
                fail_msg ("%s, %u x %u: not kept", kind->name, height, width);
            s_assert_comes_back (kind->name, tiled.bytes, tiled.size, file.bytes, file.size);
            s_assert_whole (&tiled, &file);
            free (tiled.bytes);
            kept++;
        }
        free (file.bytes);
    }
    assert_true (kept > EFFORT (60) * MADE_KINDS / 2);
}

//  The tables that everybody uses, and those that are best for the file, cost next to nothing.
static void
test_what_it_costs (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static const int kinds [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_GREY };
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++) {
        made_file_t file = made_jpeg (&made_kinds [kinds [index]], 200, 300, &random);
        tiled_t plain, kept = s_kept (&file, tiles_layouts [6]);
        char error [ERROR_BYTES];
        assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [6], &plain, error,
            sizeof error), 0);
        assert_in_range (kept.size - plain.size, 30, 130);
        free (plain.bytes);
        free (kept.bytes);
        free (file.bytes);
    }
}

//  A tiled file with its original is an original as any other.
static void
test_kept_again (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_PROGRESSIVE], 100, 120, &random);
    tiled_t first = s_kept (&file, tiles_layouts [0]);
    made_file_t between = { first.bytes, first.size };
    tiled_t second = s_kept (&between, tiles_layouts [3]);
    s_assert_comes_back ("again", second.bytes, second.size, first.bytes, first.size);
    s_assert_comes_back ("first", first.bytes, first.size, file.bytes, file.size);
    free (second.bytes);
    free (first.bytes);
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  What does not

//  Padding bits and tables are an encoder's choice: where another choice was made nothing is kept, and the
//  tiled file stays.
static void
test_another_encoder (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    int refused = 0;
    for (int round = 0; round < 40; round++) {
        made_file_t file = made_jpeg (&made_kinds [MADE_KIND_444], 20 + (uint32_t) round, 30, &random);
        file.bytes [file.size - 3] &= 0xfe;         //  the last bit, of the filling in seven files of eight
        tiled_t tiled, before;
        char error [ERROR_BYTES];
        if (tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error, sizeof error) == 0) {
            assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [0], &before, error,
                sizeof error), 0);
            bool is_kept = s_keep (&file, &tiled) == 0;
            refused += !is_kept;
            if (is_kept)
                s_assert_comes_back ("the last bit", tiled.bytes, tiled.size, file.bytes, file.size);
            else {
                assert_int_equal (tiled.size, before.size);
                assert_memory_equal (tiled.bytes, before.bytes, before.size);
            }
            free (before.bytes);
            free (tiled.bytes);
        }
        free (file.bytes);
    }
    assert_true (refused > 15);
}

//  Whatever the bytes of an original: not tiled, or not kept, or it comes back.
static void
test_any_original (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    int kept = 0;
    enum { ROUNDS = 2000 };
    for (int round = 0; round < EFFORT (ROUNDS); round++) {
        made_file_t file = made_jpeg_with (&made_kinds [test_below (&random, MADE_KINDS)], 40, 50, 25,
            &random, NULL);
        for (uint64_t count = 1 + test_below (&random, 3); count > 0; count--)
            file.bytes [test_below (&random, file.size)] = test_below (&random, 3)?
                (uint8_t) test_below (&random, 256): 0xff;
        tiled_t tiled;
        char error [ERROR_BYTES];
        if (tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error, sizeof error) == 0) {
            if (s_keep (&file, &tiled) == 0) {
                kept++;
                s_assert_comes_back ("any", tiled.bytes, tiled.size, file.bytes, file.size);
            }
            free (tiled.bytes);
        }
        free (file.bytes);
    }
    assert_true (kept > EFFORT (ROUNDS) / 20);
}

//  Whatever happens to a tiled file: what comes back is the original, or nothing does; and nothing is left
//  behind.
static void
test_any_damage (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    static const int kinds [] = { MADE_KIND_420, MADE_KIND_PROGRESSIVE, 25 };
    int good = 0, bad = 0;
    size_t settled = 0;
    for (int round = 0; round < EFFORT (3000); round++) {
        made_file_t file = made_jpeg_with (&made_kinds [kinds [round % 3]], 30, 40, 30, &random, NULL);
        s_decorate (&file, &random);
        tiled_t tiled = s_kept (&file, tiles_layouts [round % TILES_LAYOUTS]);
        //  Mostly where the segment is.
        size_t within = test_below (&random, 3)? tiled.size: tiled.size < 200? tiled.size: 200;
        if (test_below (&random, 5) == 0)
            tiled.size = test_below (&random, tiled.size);
        else
            tiled.bytes [test_below (&random, within)] ^= (uint8_t) (1 + test_below (&random, 255));
        bytes_t back;
        if (s_restore (tiled.bytes, tiled.size, &back) == 0) {
            assert_int_equal (back.size, file.size);
            assert_memory_equal (back.bytes, file.bytes, file.size);
            good++;
        } else
            bad++;
        free (back.bytes);
        free (tiled.bytes);
        free (file.bytes);
        if (round == 100)
            settled = mallinfo2 ().uordblks;
    }
    assert_true (bad > EFFORT (3000) / 2);
    print_message ("%d good, %d bad\n", good, bad);
    assert_true (mallinfo2 ().uordblks < settled + 65536);
}

//  Nothing is in other files; and of a later version nothing is guessed.
static void
test_nothing_kept (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 50, 60, &random);
    bytes_t back;
    assert_int_equal (s_restore (file.bytes, file.size, &back), -EDOM);
    assert_int_equal (s_restore (file.bytes, 0, &back), -EDOM);
    made_insert_marker (&file, 2, 0xe9, "Tureen\0", 7);
    assert_int_equal (s_restore (file.bytes, file.size, &back), -EDOM);
    free (file.bytes);
    file = made_jpeg (&made_kinds [MADE_KIND_420], 50, 60, &random);
    tiled_t tiled = s_kept (&file, tiles_layouts [0]);
    uint8_t *at = memmem (tiled.bytes, tiled.size, "Tureen", 7);
    assert_non_null (at);
    at [7] = 2;
    char error [ERROR_BYTES];
    assert_int_equal (tile_original_restore (tiled.bytes, tiled.size, &back.bytes, &back.size, error,
        sizeof error), -EBADMSG);
    assert_string_equal (error, "its original was kept by a later version: use that");
    free (tiled.bytes);
    free (file.bytes);
}

//  What is no JPEG by its first bytes has no original, though libjpeg or a walk over its markers found one:
//  packing did not look.
static void
test_other_files (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 50, 60, &random);
    tiled_t tiled = s_kept (&file, tiles_layouts [0]);
    bytes_t back;
    assert_int_equal (s_restore (tiled.bytes, tiled.size, &back), 0);
    free (back.bytes);
    assert_int_equal (s_restore (tiled.bytes + 2, tiled.size - 2, &back), -EDOM);
    made_file_t filled = { tiled.bytes, tiled.size };
    made_insert (&filled, 1, "\xff", 1);
    assert_int_equal (s_restore (filled.bytes, filled.size, &back), -EDOM);
    free (filled.bytes);
    free (file.bytes);
}

//  One colour, and a restart marker for each MCU.
static made_file_t
s_marked (uint32_t height, uint32_t width)
{
    made_file_t file = { NULL, 0 };
    struct jpeg_compress_struct writer;
    struct jpeg_error_mgr errors;
    writer.err = jpeg_std_error (&errors);
    jpeg_create_compress (&writer);
    jpeg_mem_dest (&writer, &file.bytes, &file.size);
    writer.image_height = height;
    writer.image_width = width;
    writer.input_components = 1;
    writer.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults (&writer);
    writer.restart_interval = 1;
    jpeg_start_compress (&writer, TRUE);
    uint8_t *row = calloc (width, 1);
    for (uint32_t y = 0; y < height; y++)
        jpeg_write_scanlines (&writer, &row, 1);
    jpeg_finish_compress (&writer);
    jpeg_destroy_compress (&writer);
    free (row);
    return file;
}

//  Sizes that the segment lies about: 0, more than a file may have, and coded data without end.
static void
test_sizes_that_lie (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 50, 60, &random);
    tiled_t tiled = s_kept (&file, tiles_layouts [0]);
    uint8_t *sizes = (uint8_t *) memmem (tiled.bytes, tiled.size, "Tureen", 7) + 9;
    for (size_t place = 0; place < 9; place += 8) {     //  the original's, the skeleton's
        static const uint32_t lies [] = { 0, 1, TILE_ORIGINAL_BYTES_MAX + 1, UINT32_MAX };
        uint8_t before [4];
        memcpy (before, sizes + place, 4);
        for (size_t lie = 0; lie < sizeof lies / sizeof *lies; lie++) {
            for (int byte = 0; byte < 4; byte++)
                sizes [place + (size_t) byte] = (uint8_t) (lies [lie] >> (24 - 8 * byte));
            bytes_t back;
            assert_int_equal (s_restore (tiled.bytes, tiled.size, &back), -EBADMSG);
        }
        memcpy (sizes + place, before, 4);
    }
    free (tiled.bytes);
    free (file.bytes);
    //  A small file that is said to have had a restart marker for each of its 160,000 MCUs: no more is
    //  written than it says it had.
    file = s_marked (3200, 3200);
    tiled = s_kept (&file, (tile_layout_t) { TILE_COLUMNS, 1 });
    assert_true (4 * tiled.size < file.size);
    bytes_t back;
    assert_int_equal (s_restore (tiled.bytes, tiled.size, &back), 0);
    free (back.bytes);
    sizes = (uint8_t *) memmem (tiled.bytes, tiled.size, "Tureen", 7) + 9;
    memcpy (sizes, (uint8_t []) { 0, 0, 3, 0 }, 4);
    assert_int_equal (s_restore (tiled.bytes, tiled.size, &back), -EBADMSG);
    free (tiled.bytes);
    free (file.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_originals_come_back),
        cmocka_unit_test (test_what_it_costs),
        cmocka_unit_test (test_kept_again),
        cmocka_unit_test (test_another_encoder),
        cmocka_unit_test (test_any_original),
        cmocka_unit_test (test_any_damage),
        cmocka_unit_test (test_nothing_kept),
        cmocka_unit_test (test_other_files),
        cmocka_unit_test (test_sizes_that_lie),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_tile_window -- windows of tiled JPEGs beside a dumb model: the untiled original, decoded in whole and
 *  cropped.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#define JPEG_MODEL_PIXELS_MAX (1000 * 1000)     //  photographs
#include "jpeg_model.h"
#include "read_box.h"
#include "tile_window.h"
#include "tiles.h"

enum { ERROR_BYTES = 400, SIDE_MAX = 120, WHOLE = JPEG_READER_SCALE_WHOLE };

//  ---------------------------------------------------------------------------------------------------------
//  One window, judged

//  What of a side is read at a scale: as many scaled pixels as hold it.
static void
s_scaled (uint32_t begin, uint32_t length, unsigned scale, uint32_t *first_p, uint32_t *count_p)
{
    *first_p = begin * scale / WHOLE;
    *count_p = ((begin + length) * scale + WHOLE - 1) / WHOLE - *first_p;
}

//  The window, decoded in whole by plain libjpeg, has the box's pixels where tile_window says, and no damage.
static void
s_check_plain (const char *what, const tile_window_t *window, const image_request_t *request, unsigned scale,
    const picture_t *model)
{
    picture_t picture;
    if (!jpeg_model (window->bytes, window->size, false, scale, &picture) || picture.warnings)
        fail_msg ("%s: a window that libjpeg complains of %ld times", what, picture.warnings);
    uint32_t top, left, height, width;
    uint32_t from_top = window->part.top * scale / WHOLE, from_left = window->part.left * scale / WHOLE;
    s_scaled (request->box.top, request->box.height, scale, &top, &height);
    s_scaled (request->box.left, request->box.width, scale, &left, &width);
    assert_true (top >= from_top && left >= from_left);
    assert_true (top + height - from_top <= picture.height && left + width - from_left <= picture.width);
    for (uint32_t y = top; y < top + height; y++) {
        const uint8_t *expected = model->pixels + ((size_t) y * model->width + left) * 3;
        const uint8_t *got = picture.pixels
            + ((size_t) (y - from_top) * picture.width + left - from_left) * 3;
        if (memcmp (got, expected, (size_t) width * 3) != 0)
            fail_msg ("%s: row %u of the box %u, %u, %u x %u differs at %u eighths", what, y,
                request->box.top, request->box.left, request->box.height, request->box.width, scale);
    }
    free (picture.pixels);
}

//  jpeg_reader makes the same of the box in the window as of the box in the original, pixels around it
//  included.
static void
s_check_reader (const char *what, jpeg_reader_t *readers [2], const made_file_t *original,
    const tile_window_t *window, const image_request_t *request)
{
    image_pixels_t expected, got;
    image_request_t inner = tile_window_request (window, request);
    assert_int_equal (read_box (readers [0], original->bytes, original->size, request, &expected), 0);
    assert_int_equal (read_box (readers [1], window->bytes, window->size, &inner, &got), 0);
    if (got.image.height != expected.image.height || got.image.width != expected.image.width
        || got.top != expected.top
    ||  got.left != expected.left || got.height != expected.height || got.width != expected.width)
        fail_msg ("%s: %u x %u pixels, not %u x %u", what, got.image.height, got.image.width,
            expected.image.height, expected.image.width);
    for (uint32_t y = 0; y < got.image.height; y++)
        if (memcmp (image_at (&got.image, y, 0), image_at (&expected.image, y, 0),
            (size_t) got.image.width * 3) != 0)
            fail_msg ("%s: row %u of %u x %u differs", what, y, got.image.height, got.image.width);
}

//  A window is itself tiled: the restarts are counted from 0, and are as many as its size says.
static void
s_check_tiled (const tile_window_t *window, const tiles_t *tiles)
{
    tiles_t inner;
    tiles_open (&inner, window->bytes, window->size);
    assert_int_equal (inner.frame.height, window->part.height);
    assert_int_equal (inner.frame.width, window->part.width);
    assert_int_equal (inner.frame.interval, tiles->frame.interval);
    assert_int_equal (window->part.top % inner.frame.mcu_height, 0);
    assert_int_equal (window->part.left % (inner.frame.mcu_width * inner.frame.interval), 0);
    tiles_close (&inner);
}

//  ---------------------------------------------------------------------------------------------------------
//  Many windows

//  Any box: small ones, one that touches this border or that, and the whole.
static image_request_t
s_random_box (uint32_t height, uint32_t width, uint64_t *random)
{
    image_request_t request = { .least_height = 0 };
    image_box_t *box = &request.box;
    box->height = 1 + (uint32_t) test_below (random, test_below (random, 3)? height: 1 + height / 8);
    box->width = 1 + (uint32_t) test_below (random, test_below (random, 3)? width: 1 + width / 8);
    box->top = (uint32_t) test_below (random, height - box->height + 1);
    box->left = (uint32_t) test_below (random, width - box->width + 1);
    switch (test_below (random, 6)) {
    case 0: box->top = 0; break;
    case 1: box->left = 0; break;
    case 2: box->top = height - box->height; break;
    case 3: box->left = width - box->width; break;
    default: break;
    }
    return request;
}

//  So that it is read at scale, or at the next one if it is too small for that.
static void
s_set_scale (image_request_t *request, unsigned scale)
{
    uint32_t height = request->box.height * scale / WHOLE, width = request->box.width * scale / WHOLE;
    request->least_height = scale == WHOLE? 0: height? height: 1;
    request->least_width = scale == WHOLE? 0: width? width: 1;
}

typedef struct {
    const char *what;
    const made_file_t *original;
    picture_t models [WHOLE + 1];       //  at 1, 2, 4 and 8 eighths
    jpeg_reader_t *readers [2];
    scratch_t room;
    uint64_t *random;
} trial_t;

static void
s_begin (trial_t *self, const char *what, const made_file_t *original, uint64_t *random)
{
    *self = (trial_t) { .what = what, .original = original, .random = random,
        .readers = { jpeg_reader_new (), jpeg_reader_new () } };
    for (unsigned scale = 1; scale <= WHOLE; scale *= 2)
        assert_true (jpeg_model (original->bytes, original->size, false, scale, &self->models [scale]));
}

static void
s_end (trial_t *self)
{
    for (unsigned scale = 1; scale <= WHOLE; scale *= 2)
        free (self->models [scale].pixels);
    jpeg_reader_destroy (&self->readers [0]);
    jpeg_reader_destroy (&self->readers [1]);
    scratch_free (&self->room);
}

static void
s_check_window (trial_t *self, const tiles_t *tiles, const image_request_t *request)
{
    tile_window_t window;
    unsigned scale = jpeg_reader_scale (request);
    assert_true (tile_window_write (&window, &tiles->frame, &tiles->table, tiles->bytes, request,
        &self->room));
    s_check_plain (self->what, &window, request, scale, &self->models [scale]);
    s_check_reader (self->what, self->readers, self->original, &window, request);
    s_check_tiled (&window, tiles);
}

static void
s_check_windows (trial_t *self, const uint8_t *bytes, size_t size, int count)
{
    tiles_t tiles;
    tiles_open (&tiles, bytes, size);
    for (int index = 0; index < count; index++) {
        image_request_t request = s_random_box (tiles.frame.height, tiles.frame.width, self->random);
        for (unsigned scale = 1; scale <= WHOLE; scale *= 2) {
            s_set_scale (&request, scale);
            s_check_window (self, &tiles, &request);
        }
    }
    tiles_close (&tiles);
}

static void
s_check_layout (trial_t *self, tile_layout_t layout, int count)
{
    tiled_t tiled;
    char error [ERROR_BYTES];
    int rc = tile_transcode (self->original->bytes, self->original->size, layout, &tiled, error,
        sizeof error);
    if (rc)
        fail_msg ("%s: %s", self->what, error);
    s_check_windows (self, tiled.bytes, tiled.size, count);
    free (tiled.bytes);
}

static bool
s_is_tileable (const made_kind_t *kind)
{
    return !kind->arithmetic && kind->scans != MADE_ROUGH;
}

static void
s_check_kind (const made_kind_t *kind, uint32_t height, uint32_t width, uint64_t *random)
{
    made_file_t file = made_jpeg (kind, height, width, random);
    trial_t trial;
    char what [100];
    snprintf (what, sizeof what, "%s, %u x %u", kind->name, height, width);
    s_begin (&trial, what, &file, random);
    for (int layout = 0; layout < TILES_LAYOUTS; layout++)
        s_check_layout (&trial, tiles_layouts [layout], 3);
    s_end (&trial);
    free (file.bytes);
}

//  Of any kind of file, in any layout, at any scale: any box has the pixels of the untiled original, to the
//  last bit.
static void
test_windows_are_parts_of_the_whole (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        if (!s_is_tileable (&made_kinds [kind]))
            continue;
        for (int size = 0; size < EFFORT (10); size++)
            s_check_kind (&made_kinds [kind], 1 + (uint32_t) test_below (&random, SIDE_MAX),
                1 + (uint32_t) test_below (&random, SIDE_MAX), &random);
        s_check_kind (&made_kinds [kind], 1 + (uint32_t) test_below (&random, 8),
            1 + (uint32_t) test_below (&random, 8), &random);
        s_check_kind (&made_kinds [kind], SIDE_MAX, 1 + (uint32_t) test_below (&random, 40), &random);
        s_check_kind (&made_kinds [kind], 96, 192, &random);
    }
}

//  Every box of one pixel, and every box from a corner: each border of an MCU is crossed.
static void
test_every_edge (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static const int kinds [] = { 0, 1, 2, 3, 4 };
    for (int index = 0; index < EFFORT (10) / 2 && index < 5; index++) {
        made_file_t file = made_jpeg (&made_kinds [kinds [index]], 35, 71, &random);
        trial_t trial;
        s_begin (&trial, made_kinds [kinds [index]].name, &file, &random);
        tiled_t tiled;
        char error [ERROR_BYTES];
        assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error,
            sizeof error), 0);
        tiles_t tiles;
        tiles_open (&tiles, tiled.bytes, tiled.size);
        for (uint32_t x = 0; x < 71; x++)
            for (unsigned scale = 1; scale <= WHOLE; scale *= 2) {
                uint32_t y = x % 35;
                image_request_t requests [] = {
                    { .box = { y, x, 1, 1 } }, { .box = { 0, 0, y + 1, x + 1 } },
                    { .box = { y, x, 35 - y, 71 - x } }
                };
                for (int request = 0; request < 3; request++) {
                    s_set_scale (&requests [request], scale);
                    s_check_window (&trial, &tiles, &requests [request]);
                }
            }
        tiles_close (&tiles);
        free (tiled.bytes);
        s_end (&trial);
        free (file.bytes);
    }
}

//  Where the segments are known, a window is no larger than it must be: that is what windows are for.
static void
test_no_more_than_needed (void **state)
{
    (void) state;
    //  4:4:4 needs no neighbours, 4:2:0 does at the border of an MCU, and none inside one.
    static const struct {
        int kind;
        uint32_t interval;
        image_box_t box, part;
    } cases [] = {
        { MADE_KIND_444, 1, { 8, 16, 8, 8 }, { 8, 16, 8, 8 } },
        { MADE_KIND_444, 1, { 15, 23, 2, 2 }, { 8, 16, 16, 16 } },
        { MADE_KIND_444, 3, { 0, 24, 1, 24 }, { 0, 24, 8, 24 } },
        { MADE_KIND_444, 3, { 0, 23, 1, 2 }, { 0, 0, 8, 48 } },
        { MADE_KIND_420, 1, { 16, 32, 16, 16 }, { 0, 16, 47, 48 } },
        { MADE_KIND_420, 1, { 17, 33, 14, 14 }, { 16, 16, 16, 32 } },
        { MADE_KIND_420, 1, { 17, 33, 14, 30 }, { 16, 32, 16, 32 } },
        { MADE_KIND_420, 1, { 0, 0, 15, 31 }, { 0, 0, 16, 32 } },
        { MADE_KIND_420, 1, { 17, 1, 30, 94 }, { 16, 0, 31, 95 } },
        { MADE_KIND_GREY, 1, { 7, 7, 1, 1 }, { 0, 0, 8, 8 } },
    };
    uint64_t random = test_seed ();
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        uint32_t mcu = cases [index].kind == MADE_KIND_420? 16: 8;
        tile_layout_t layout = { TILE_SPAN, cases [index].interval * mcu };
        tiled_t tiled = tiles_make (&made_kinds [cases [index].kind], 47, mcu == 16? 95: 72, layout, &random);
        tiles_t tiles;
        tiles_open (&tiles, tiled.bytes, tiled.size);
        assert_int_equal (tiles.frame.interval, cases [index].interval);
        tile_window_t window;
        scratch_t room = { NULL, 0 };
        image_request_t request = { .box = cases [index].box };
        assert_true (tile_window_write (&window, &tiles.frame, &tiles.table, tiles.bytes, &request, &room));
        assert_memory_equal (&window.part, &cases [index].part, sizeof window.part);
        scratch_free (&room);
        tiles_close (&tiles);
        free (tiled.bytes);
    }
}

//  A file that somebody wrote with restart markers that divide its rows is tiled as it is.
static void
test_restarts_of_the_source_are_tiles (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (unsigned interval = 1; interval < 6; interval++) {
        made_kind_t kind = { "restarts of its own", JCS_YCbCr, 2, 2, MADE_SEQUENTIAL, false, interval };
        made_file_t file = made_jpeg (&kind, 100, 16 * 5 * interval - 3, &random);
        trial_t trial;
        s_begin (&trial, kind.name, &file, &random);
        s_check_windows (&trial, file.bytes, file.size, 12);
        s_end (&trial);
        free (file.bytes);
    }
    made_kind_t odd = { "restarts that do not divide the row", JCS_YCbCr, 1, 1, MADE_SEQUENTIAL, false, 3 };
    made_file_t file = made_jpeg (&odd, 40, 40, &random);
    tile_frame_t frame;
    const char *reason;
    assert_false (tile_frame_read (&frame, file.bytes, file.size, &reason));
    assert_string_equal (reason, "no restart interval that divides a row");
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Photographs

static made_file_t
s_load (const char *path)
{
    made_file_t file = { NULL, 0 };
    FILE *stream = fopen (path, "rb");
    if (!stream)
        return file;
    assert_int_equal (fseek (stream, 0, SEEK_END), 0);
    file.size = (unsigned long) ftell (stream);
    rewind (stream);
    file.bytes = malloc (file.size);
    assert_int_equal (fread (file.bytes, 1, file.size, stream), file.size);
    fclose (stream);
    return file;
}

static void
s_check_photograph (const char *path, uint64_t *random)
{
    made_file_t file = s_load (path);
    picture_t model = { .pixels = NULL };
    bool is_photograph = file.bytes && file.bytes [0] == 0xff
        && jpeg_model (file.bytes, file.size, false, WHOLE, &model)
        && !model.warnings;
    free (model.pixels);
    if (is_photograph) {
        trial_t trial;
        s_begin (&trial, path, &file, random);
        for (int layout = 0; layout < TILES_LAYOUTS; layout += 3)
            s_check_layout (&trial, tiles_layouts [layout], 2);
        s_end (&trial);
    }
    free (file.bytes);
}

//  Real ones, where they are: every so many.
static void
test_photographs (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    glob_t found;
    if (!tiles_photographs (&found))
        skip ();
    size_t step = found.gl_pathc * 10 / EFFORT (600) + 1;
    for (size_t index = 0; index < found.gl_pathc; index += step)
        s_check_photograph (found.gl_pathv [index], &random);
    globfree (&found);
}

//  ---------------------------------------------------------------------------------------------------------
//  Damage

//  What a decoder says of a window, and whether it has the original's pixels.
typedef struct {
    bool decoded;
    long warnings;
    bool same;
} verdict_t;

static verdict_t
s_judge (const tiles_t *tiles, const image_request_t *request, const picture_t *model, scratch_t *room)
{
    tile_window_t window;
    picture_t picture;
    assert_true (tile_window_write (&window, &tiles->frame, &tiles->table, tiles->bytes, request, room));
    verdict_t verdict = { .decoded = jpeg_model (window.bytes, window.size, false, WHOLE, &picture) };
    verdict.warnings = picture.warnings;
    verdict.same = verdict.decoded;
    const image_box_t *box = &request->box, *part = &window.part;
    for (uint32_t y = box->top; verdict.same && y < box->top + box->height; y++)
        verdict.same = memcmp (picture.pixels
            + ((size_t) (y - part->top) * picture.width + box->left - part->left) * 3,
            model->pixels + ((size_t) y * model->width + box->left) * 3, (size_t) box->width * 3) == 0;
    free (picture.pixels);
    return verdict;
}

//  A flipped byte in a segment: found by the scan, or it does harm in windows that hold the segment, and in
//  no other.
static void
test_damage_stays_in_its_segment (void **state)
{
    (void) state;
    enum { ROUNDS = 3000, HEIGHT = 48, WIDTH = 96, MCU = 8 };
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_444], HEIGHT, WIDTH, tiles_layouts [0], &random);
    picture_t model;
    assert_true (jpeg_model (tiled.bytes, tiled.size, false, WHOLE, &model));
    int warned = 0, found = 0;
    for (int round = 0; round < EFFORT (ROUNDS); round++) {
        tiles_t tiles;
        scratch_t room = { NULL, 0 };
        tiles_open (&tiles, tiled.bytes, tiled.size);
        uint32_t segment = (uint32_t) test_below (&random, tiles.table.count);
        size_t begin = tiles.table.begins [segment], length = tiles.table.begins [segment + 1] - 2 - begin;
        tiles.bytes [begin + test_below (&random, length)] ^= (uint8_t) (1 + test_below (&random, 255));
        if (tile_table_scan (&tiles.table, &tiles.frame, tiles.bytes, tiles.size)) {
            found++;
        } else {
            uint32_t row = segment / (WIDTH / MCU), column = segment % (WIDTH / MCU);
            image_request_t here = { .box = { row * MCU, column * MCU, MCU, MCU } };
            image_request_t beside = { .box = { row * MCU, (column + 1) % (WIDTH / MCU) * MCU, MCU, MCU } };
            warned += s_judge (&tiles, &here, &model, &room).warnings > 0;
            verdict_t verdict = s_judge (&tiles, &beside, &model, &room);
            assert_true (verdict.decoded && !verdict.warnings && verdict.same);
        }
        scratch_free (&room);
        tiles_close (&tiles);
    }
    //  Most flips are bits that make other coefficients; many of them end the block too late.
    assert_true (warned > EFFORT (ROUNDS) / 20);
    assert_true (found > 0 && found < EFFORT (ROUNDS) / 10);
    free (model.pixels);
    free (tiled.bytes);
}

//  Whatever the bytes: refused, or windows that can be decoded or not; nothing falls over.
static void
test_any_damage (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (int round = 0; round < EFFORT (3000); round++) {
        const made_kind_t *kind = &made_kinds [test_below (&random, 16)];
        tiled_t tiled = tiles_make (kind, 40, 50, tiles_layouts [test_below (&random, TILES_LAYOUTS)],
            &random);
        for (uint64_t count = 1 + test_below (&random, 4); count > 0; count--)
            tiled.bytes [test_below (&random, tiled.size)] =
                test_below (&random, 3)? (uint8_t) test_below (&random, 256): 0xff;
        tile_frame_t frame;
        tile_table_t table = { .count = 0 };
        scratch_t room = { NULL, 0 };
        const char *reason;
        if (tile_frame_read (&frame, tiled.bytes, tiled.size, &reason)
        &&  tile_table_scan (&table, &frame, tiled.bytes, tiled.size) == TILE_TABLE_OK) {
            image_request_t request = s_random_box (frame.height, frame.width, &random);
            tile_window_t window;
            picture_t picture;
            assert_true (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
            jpeg_model (window.bytes, window.size, false, WHOLE, &picture);
            free (picture.pixels);
        }
        tile_table_free (&table);
        scratch_free (&room);
        free (tiled.bytes);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Metadata

//  The orientation is in a marker that windows do not have: it is told beside them, and profiles cost them
//  nothing.
static void
test_metadata_stay_outside (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static uint8_t exif [60000] = "Exif";
    made_file_t with = { exif, sizeof exif };
    made_file_t file = made_jpeg_with (&made_kinds [MADE_KIND_420], 40, 50, 70, &random, &with);
    tiled_t tiled;
    char error [ERROR_BYTES];
    assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error, sizeof error),
        0);
    tiles_t tiles;
    tiles_open (&tiles, tiled.bytes, tiled.size);
    tile_window_t window;
    scratch_t room = { NULL, 0 };
    image_request_t request = { .box = { 10, 10, 10, 10 } };
    assert_true (tile_window_write (&window, &tiles.frame, &tiles.table, tiles.bytes, &request, &room));
    assert_true (window.size < file.size - sizeof exif);
    scratch_free (&room);
    tiles_close (&tiles);
    free (tiled.bytes);
    free (file.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_windows_are_parts_of_the_whole),
        cmocka_unit_test (test_every_edge),
        cmocka_unit_test (test_no_more_than_needed),
        cmocka_unit_test (test_restarts_of_the_source_are_tiles),
        cmocka_unit_test (test_photographs),
        cmocka_unit_test (test_damage_stays_in_its_segment),
        cmocka_unit_test (test_any_damage),
        cmocka_unit_test (test_metadata_stay_outside),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

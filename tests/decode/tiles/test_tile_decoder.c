/*  test_tile_decoder -- the decoder on tiled samples: what it makes of windows is what it makes of the
 *  untiled originals, and what it says of damage does not depend on them.
 *
 *  A limit of warnings that nobody reaches makes the decoder read the same bytes without windows: the second
 *  model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pipelines.h"
#include "decoder.h"
#include "effort.h"
#include "tile_window.h"
#include "tiles.h"

#define ANY_WARNINGS UINT32_MAX
#define COUNTED_WARNINGS (UINT32_MAX - 1)

enum { SIDE_MAX = 200, VERSION_BYTES_MAX = 1 << 18, EXIF_NUMBER = 24 };

//  Lists that begin with a crop, or with a resize of which a crop follows; and those that want the whole
//  image.
static const struct { const char *text; bool crops; } s_lists [] = {
    { "'train'", true },
    { "'eval'", true },
    { "[{'op':'random_resized_crop','size':40},{'share':true},{'op':'flip'}]", true },
    { "[{'op':'decode','exact':false},{'op':'random_resized_crop','size':20,'interpolation':'bicubic'},"
        "{'share':true}]",
        true },
    { "[{'op':'decode','exact':false},{'op':'random_resized_crop','size':7},{'share':true}]", true },
    { "[{'op':'center_crop','size':[50,60]},{'share':true}]", true },
    { "[{'op':'random_crop','size':[70,50],'pad_if_needed':true},{'share':true}]", true },
    { "[{'op':'random_crop','size':60,'padding':9,'pad_if_needed':true},"
        "{'op':'color_jitter','brightness':0.4},"
        "{'share':true}]", true },
    { "[{'op':'decode','exact':false},{'op':'resize','size':[90,80]},{'op':'random_crop','size':40},"
        "{'share':true}]", true },
    { "[{'op':'resize','size':64},{'op':'center_crop','size':30},{'op':'flip'},{'share':true}]", true },
    { "[{'op':'flip','p':1},{'op':'vertical_flip'},{'op':'random_resized_crop','size':31},{'share':true}]",
        true },
    { "[{'op':'views','count':2},{'op':'random_resized_crop','size':24,'scale':[0.05,0.2]},{'share':true}]",
        true },
    { "[{'op':'resize','size':[33,44]},{'share':true},{'op':'random_crop','size':20}]", false },
    { "[{'op':'pad','padding':8,'mode':'reflect'},{'op':'random_crop','size':50,'pad_if_needed':true},"
        "{'share':true}]",
        false },
    { "[{'op':'decode','max_pixels':40000},{'share':true},{'op':'random_resized_crop','size':30}]", false },
};
enum { LISTS = sizeof s_lists / sizeof *s_lists };

//  ---------------------------------------------------------------------------------------------------------
//  One sample, in two ways

typedef struct {
    decoder_status_t status;
    char error [ERROR_BYTES];
    uint64_t windows;           //  that were used for it
    _Alignas (64) uint8_t version [VERSION_BYTES_MAX];
} made_version_t;

//  From an exact copy, so that the address sanitizer sees a read behind the file's end.
static void
s_prepare (made_version_t *self, decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *bytes, size_t size, uint32_t warnings_max)
{
    size_t version_bytes = pipeline_version_bytes (pipeline), files = pipeline_files (pipeline);
    uint8_t *copy = malloc (size);
    memcpy (copy, bytes, size);
    decoder_file_t both [2] = { { copy, size }, { copy, size } };
    decoder_sample_t sample = { both, warnings_max };
    uint64_t before = decoder_windows (decoder);
    assert_true (version_bytes <= VERSION_BYTES_MAX && files <= 2);
    memset (self->version, 0, version_bytes);
    self->status = decoder_shared (decoder, pipeline, key, &sample, self->version, NULL, self->error,
        ERROR_BYTES);
    self->windows = decoder_windows (decoder) - before;
    free (copy);
}

static void
s_assert_same (const char *what, const pipeline_t *pipeline, const made_version_t *got,
    const made_version_t *expected)
{
    if (got->status != expected->status || strcmp (got->error, expected->error) != 0)
        fail_msg ("%s: %d, \"%s\"; not %d, \"%s\"", what, (int) got->status, got->error,
            (int) expected->status, expected->error);
    if (got->status)
        return;
    for (size_t byte = 0; byte < pipeline_version_bytes (pipeline); byte++)
        if (got->version [byte] != expected->version [byte])
            fail_msg ("%s: byte %zu is %u, not %u (windows: %u)", what, byte, got->version [byte],
                expected->version [byte], (unsigned) got->windows);
}

//  The tiled bytes give what the original and what they give without windows; returns how many windows were
//  used.
static uint64_t
s_check (const char *what, decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key,
    const made_file_t *original, const uint8_t *tiled, size_t tiled_bytes)
{
    static made_version_t got, expected;
    s_prepare (&got, decoder, pipeline, key, tiled, tiled_bytes, ANY_WARNINGS);
    s_prepare (&expected, decoder, pipeline, key, original->bytes, original->size, COUNTED_WARNINGS);
    assert_int_equal (expected.windows, 0);
    s_assert_same (what, pipeline, &got, &expected);
    s_prepare (&expected, decoder, pipeline, key, tiled, tiled_bytes, COUNTED_WARNINGS);
    assert_int_equal (expected.windows, 0);
    s_assert_same (what, pipeline, &got, &expected);
    return got.windows;
}

//  ---------------------------------------------------------------------------------------------------------
//  The same pixels

static void
s_open_lists (const pipeline_t *pipelines [LISTS])
{
    for (int list = 0; list < LISTS; list++)
        pipelines [list] = pipeline_of (s_lists [list].text);
}

static void
s_close_lists (const pipeline_t *pipelines [LISTS])
{
    for (int list = 0; list < LISTS; list++)
        pipeline_destroy (&pipelines [list]);
}

static bool
s_is_tileable (const made_kind_t *kind)
{
    return !kind->arithmetic && kind->scans != MADE_ROUGH;
}

static void
s_check_kind (const made_kind_t *kind, decoder_t *decoder, const pipeline_t *pipelines [LISTS],
    uint64_t windows [LISTS], uint64_t *random)
{
    char what [200];
    uint32_t height = 1 + (uint32_t) test_below (random, SIDE_MAX),
        width = 1 + (uint32_t) test_below (random, SIDE_MAX);
    made_file_t file = made_jpeg (kind, height, width, random);
    for (int turn = 0; turn < 3; turn++) {
        uint64_t layout = test_below (random, TILES_LAYOUTS);
        tiled_t tiled;
        assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [layout], &tiled, what,
            sizeof what), 0);
        for (int list = 0; list < LISTS; list++) {
            pipeline_key_t key = { .seed = *random, .round = (uint64_t) turn, .id = (uint64_t) list };
            snprintf (what, sizeof what, "%s, %u x %u, layout %u: %.80s", kind->name, height, width,
                (unsigned) layout, s_lists [list].text);
            windows [list] += s_check (what, decoder, pipelines [list], &key, &file, tiled.bytes, tiled.size);
        }
        free (tiled.bytes);
    }
    free (file.bytes);
}

//  Of every kind, in every layout, for every pipeline: the version is that of the untiled original, to the
//  last bit.  And windows are used wherever less than the whole image is wanted, and nowhere else.
static void
test_versions_are_those_of_the_original (void **state)
{
    (void) state;
    uint64_t random = test_seed (), windows [LISTS] = { 0 };
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    const pipeline_t *pipelines [LISTS];
    s_open_lists (pipelines);
    decoder_t *decoder = decoder_new ();
    for (int kind = 0; kind < MADE_KINDS; kind++)
        for (int round = 0; s_is_tileable (&made_kinds [kind]) && round < EFFORT (15); round++)
            s_check_kind (&made_kinds [kind], decoder, pipelines, windows, &random);
    for (int list = 0; list < LISTS; list++)
        if ((windows [list] > (uint64_t) EFFORT (100)) != s_lists [list].crops)
            fail_msg ("%s: %u windows", s_lists [list].text, (unsigned) windows [list]);
    decoder_destroy (&decoder);
    s_close_lists (pipelines);
}

//  An image and its mask, from the same grey file: both are read from windows, the mask as it is stored.
static void
test_masks (void **state)
{
    (void) state;
    uint64_t random = test_seed (), windows = 0;
    static const pipeline_source_t source = { .fields = { { "image", false }, { "mask", true } },
        .count = 2 };
    const pipeline_t *pipeline = pipeline_on ("[{'op':'decode','fields':['image','mask']},"
        "{'op':'random_resized_crop','size':30},{'op':'flip'},{'share':true}]", &source);
    decoder_t *decoder = decoder_new ();
    for (uint64_t round = 0; round < 20; round++) {
        made_file_t file = made_jpeg (&made_kinds [MADE_KIND_GREY], 150, 170, &random);
        tiled_t tiled;
        char error [ERROR_BYTES];
        assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [round % TILES_LAYOUTS],
            &tiled, error, sizeof error), 0);
        pipeline_key_t key = { .seed = 1, .round = round };
        windows += s_check ("masks", decoder, pipeline, &key, &file, tiled.bytes, tiled.size);
        free (tiled.bytes);
        free (file.bytes);
    }
    assert_true (windows > 20 && windows % 2 == 0);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  The orientation is said in the file's header, which windows leave behind: all eight are obeyed.
static void
test_orientations (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    uint8_t exif [] = "Exif\0\0II*\0\x8\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0\0\0\0";
    made_file_t with = { exif, sizeof exif };
    static const char *const lists [] = {
        "[{'op':'decode','orientation':true},{'op':'random_resized_crop','size':[30,20]},{'share':true}]",
        "[{'op':'decode','orientation':true,'exact':false},{'op':'random_resized_crop','size':[10,14]},"
        "{'share':true}]",
        "[{'op':'decode','orientation':true},{'op':'center_crop','size':[40,70]},{'share':true}]",
    };
    static const int kinds [] = { MADE_KIND_444, 1, MADE_KIND_420, 3, MADE_KIND_GREY };
    decoder_t *decoder = decoder_new ();
    for (int index = 0; index < 3; index++) {
        const pipeline_t *pipeline = pipeline_of (lists [index]);
        for (uint32_t number = 1; number <= 8; number++) {
            uint64_t windows = 0;
            exif [EXIF_NUMBER] = (uint8_t) number;
            for (uint64_t kind = 0; kind < 5; kind++) {
                made_file_t file = made_jpeg_with (&made_kinds [kinds [kind]], 120, 190, 70, &random, &with);
                tiled_t tiled;
                char error [ERROR_BYTES];
                assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [kind], &tiled, error,
                    sizeof error), 0);
                pipeline_key_t key = { .seed = 1, .id = kind };
                windows += s_check (lists [index], decoder, pipeline, &key, &file, tiled.bytes, tiled.size);
                free (tiled.bytes);
                free (file.bytes);
            }
            assert_true (windows >= 2);
        }
        pipeline_destroy (&pipeline);
    }
    decoder_destroy (&decoder);
}

//  Whoever wrote the restart markers: those that divide a row of MCUs make windows, others do not; the pixels
//  do not tell.
static void
test_restarts_of_the_source (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    decoder_t *decoder = decoder_new ();
    const pipeline_t *pipeline = pipeline_of ("[{'op':'center_crop','size':48},{'share':true}]");
    for (unsigned interval = 1; interval <= 12; interval++) {
        enum { COLUMNS = 12, MCU = 16 };
        made_kind_t kind = { "restarts", JCS_YCbCr, 2, 2, MADE_SEQUENTIAL, false, interval };
        made_file_t file = made_jpeg (&kind, 100, COLUMNS * MCU - 3, &random);
        pipeline_key_t key = { .seed = 1 };
        uint64_t windows = s_check (kind.name, decoder, pipeline, &key, &file, file.bytes, file.size);
        assert_int_equal (windows, COLUMNS % interval == 0);
        free (file.bytes);
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  No window where it would leave next to nothing out: a border of the image, or all that is wanted of it.
static void
test_where_windows_do_not_pay (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_444], 160, 240, tiles_layouts [0], &random);
    static const struct { image_box_t box; bool pays; } cases [] = {
        { { 0, 0, 160, 240 }, false }, { { 0, 0, 80, 240 }, false }, { { 0, 0, 1, 240 }, false },
        { { 4, 0, 156, 240 }, false }, { { 8, 0, 152, 240 }, true }, { { 0, 8, 160, 232 }, true },
        { { 0, 7, 160, 232 }, false }, { { 0, 0, 160, 120 }, true }, { { 0, 0, 80, 120 }, true },
        { { 100, 100, 1, 1 }, true }, { { 0, 0, 8, 112 }, true }, { { 0, 0, 8, 120 }, false },
    };
    tile_frame_t frame;
    const char *reason;
    assert_true (tile_frame_read (&frame, tiled.bytes, tiled.size, &reason));
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        image_request_t request = { .box = cases [index].box };
        if (tile_window_pays (&frame, &request) != cases [index].pays)
            fail_msg ("case %zu: %d", index, !cases [index].pays);
    }
    free (tiled.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Damage

static void
s_flip (tiled_t *tiled, uint64_t count, uint64_t *random)
{
    for (; count > 0; count--)
        tiled->bytes [test_below (random, tiled->size)] =
            test_below (random, 4)? (uint8_t) test_below (random, 256): 0xff;
}

//  Any flips, cuts and things behind the end: the answer, its reason and the pixels are those of a decoder
//  without windows.
static void
test_damage_is_judged_alike (void **state)
{
    (void) state;
    uint64_t random = test_seed (), windows = 0, bad = 0;
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    enum { ROUNDS = 6000 };
    static made_version_t got, expected;
    const pipeline_t *pipelines [LISTS];
    s_open_lists (pipelines);
    decoder_t *decoder = decoder_new ();
    for (int round = 0; round < EFFORT (ROUNDS); round++) {
        const made_kind_t *kind = &made_kinds [test_below (&random, 16)];
        tiled_t tiled = tiles_make (kind, 60 + (uint32_t) test_below (&random, 60),
            60 + (uint32_t) test_below (&random, 60),
            tiles_layouts [test_below (&random, TILES_LAYOUTS)], &random);
        s_flip (&tiled, 1 + test_below (&random, 3), &random);
        if (test_below (&random, 8) == 0)
            tiled.size -= test_below (&random, tiled.size);
        pipeline_key_t key = { .seed = random };
        uint64_t list = 2 + test_below (&random, LISTS - 2);
        s_prepare (&got, decoder, pipelines [list], &key, tiled.bytes, tiled.size, ANY_WARNINGS);
        s_prepare (&expected, decoder, pipelines [list], &key, tiled.bytes, tiled.size, COUNTED_WARNINGS);
        s_assert_same (kind->name, pipelines [list], &got, &expected);
        windows += got.windows > 0;
        bad += got.status == DECODER_BAD;
        free (tiled.bytes);
    }
    assert_true (windows > (uint64_t) EFFORT (ROUNDS) / 5 && bad > (uint64_t) EFFORT (ROUNDS) / 20);
    decoder_destroy (&decoder);
    s_close_lists (pipelines);
}

//  A file that ends too early is bad, wherever the crop lies.
static void
test_truncated_at_every_length (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static made_version_t version;
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_420], 70, 90, tiles_layouts [5], &random);
    const pipeline_t *pipeline = pipeline_of (s_lists [2].text);
    decoder_t *decoder = decoder_new ();
    for (size_t size = 4; size <= tiled.size; size++) {
        pipeline_key_t key = { .seed = 1, .id = size };
        s_prepare (&version, decoder, pipeline, &key, tiled.bytes, size, ANY_WARNINGS);
        assert_int_equal (version.status, size < tiled.size? DECODER_BAD: DECODER_OK);
        if (size < tiled.size && !strstr (version.error, "truncated JPEG"))
            fail_msg ("at %zu: %s", size, version.error);
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    free (tiled.bytes);
}

//  A bad byte in the last segment: without a limit of warnings the sample is good whatever is cropped; with
//  one it is bad whatever is cropped, though most crops do not see it.
static void
test_warnings_do_not_depend_on_the_crop (void **state)
{
    (void) state;
    enum { CROPS = 200 };
    uint64_t random = test_seed (), windows = 0;
    static made_version_t version;
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_444], 120, 120, tiles_layouts [0], &random);
    memset (tiled.bytes + tiled.size - 8, 0x55, 6);
    const pipeline_t *pipeline = pipeline_of (s_lists [2].text);
    decoder_t *decoder = decoder_new ();
    for (uint64_t crop = 0; crop < CROPS; crop++) {
        pipeline_key_t key = { .seed = 1, .round = crop };
        s_prepare (&version, decoder, pipeline, &key, tiled.bytes, tiled.size, ANY_WARNINGS);
        assert_int_equal (version.status, DECODER_OK);
        windows += version.windows;
        s_prepare (&version, decoder, pipeline, &key, tiled.bytes, tiled.size, 0);
        assert_int_equal (version.status, DECODER_BAD);
        assert_non_null (strstr (version.error, "warnings"));
        assert_int_equal (version.windows, 0);
    }
    assert_true (windows > CROPS / 2);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    free (tiled.bytes);
}

//  A header that libjpeg takes and cannot decode with: the whole file is judged, not the window.
static void
test_missing_tables (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static made_version_t got, expected;
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_444], 120, 120, tiles_layouts [0], &random);
    tile_frame_t frame;
    const char *reason;
    assert_true (tile_frame_read (&frame, tiled.bytes, tiled.size, &reason));
    //  The number of a component's quantisation table, of which there is no third.
    uint8_t *header = tiled.bytes + frame.pieces [frame.frame_piece].at;
    assert_int_equal (header [12], 0);
    header [12] = 2;
    const pipeline_t *pipeline = pipeline_of (s_lists [5].text);
    decoder_t *decoder = decoder_new ();
    pipeline_key_t key = { .seed = 1 };
    s_prepare (&got, decoder, pipeline, &key, tiled.bytes, tiled.size, ANY_WARNINGS);
    s_prepare (&expected, decoder, pipeline, &key, tiled.bytes, tiled.size, COUNTED_WARNINGS);
    s_assert_same ("missing tables", pipeline, &got, &expected);
    assert_int_equal (got.status, DECODER_BAD);
    assert_non_null (strstr (got.error, "Quantization table"));
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    free (tiled.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Photographs

static bool
s_load (made_file_t *file, const char *path)
{
    FILE *stream = fopen (path, "rb");
    assert_non_null (stream);
    assert_int_equal (fseek (stream, 0, SEEK_END), 0);
    file->size = (unsigned long) ftell (stream);
    rewind (stream);
    file->bytes = malloc (file->size);
    assert_int_equal (fread (file->bytes, 1, file->size, stream), file->size);
    fclose (stream);
    return file->size > 1 && file->bytes [0] == 0xff && file->bytes [1] == 0xd8;
}

static uint64_t
s_check_photograph (const char *path, decoder_t *decoder, const pipeline_t *pipelines [LISTS],
    uint64_t *random)
{
    made_file_t file;
    tiled_t tiled;
    char error [ERROR_BYTES];
    uint64_t windows = 0;
    tile_layout_t layout = { TILE_WITHIN, TILE_AUTO_THOUSANDTHS };
    if (s_load (&file, path) && tile_transcode (file.bytes, file.size, layout, &tiled, error, sizeof error)
        == 0) {
        for (uint64_t turn = 0; turn < 6; turn++) {
            pipeline_key_t key = { .seed = *random, .round = turn };
            uint64_t list = turn < 4? turn: test_below (random, LISTS - 1);
            windows += s_check (path, decoder, pipelines [list], &key, &file, tiled.bytes, tiled.size);
        }
        free (tiled.bytes);
    }
    free (file.bytes);
    return windows;
}

//  Real ones, where they are: every so many.
static void
test_photographs (void **state)
{
    (void) state;
    uint64_t random = test_seed (), windows = 0;
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    glob_t found;
    if (!tiles_photographs (&found))
        skip ();
    const pipeline_t *pipelines [LISTS];
    s_open_lists (pipelines);
    decoder_t *decoder = decoder_new ();
    size_t step = found.gl_pathc * 10 / EFFORT (800) + 1, count = 0;
    for (size_t index = 0; index < found.gl_pathc; index += step, count++)
        windows += s_check_photograph (found.gl_pathv [index], decoder, pipelines, &random);
    assert_true (windows > count);
    decoder_destroy (&decoder);
    s_close_lists (pipelines);
    globfree (&found);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_versions_are_those_of_the_original),
        cmocka_unit_test (test_masks),
        cmocka_unit_test (test_orientations),
        cmocka_unit_test (test_restarts_of_the_source),
        cmocka_unit_test (test_where_windows_do_not_pay),
        cmocka_unit_test (test_damage_is_judged_alike),
        cmocka_unit_test (test_truncated_at_every_length),
        cmocka_unit_test (test_warnings_do_not_depend_on_the_crop),
        cmocka_unit_test (test_missing_tables),
        cmocka_unit_test (test_photographs),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_tile_transcode -- what a JPEG loses when it is tiled: nothing, or it is refused.  */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "jpeg_model.h"
#include "tile_table.h"
#include "tile_transcode.h"

enum { ERROR_BYTES = 400, SIDE_MAX = 120, WHOLE = 8 };

static const tile_layout_t s_every = { TILE_EVERY_MCU, 0 };

//  Of an exact copy, so that the address sanitizer sees a read behind the end.
static int
s_tile (const uint8_t *bytes, size_t size, tile_layout_t layout, tiled_t *tiled, char error [ERROR_BYTES])
{
    uint8_t *copy = malloc (size? size: 1);
    if (size)
        memcpy (copy, bytes, size);
    memset (error, 'x', ERROR_BYTES);
    *tiled = (tiled_t) { .bytes = NULL };
    int rc = tile_transcode (copy, size, layout, tiled, error, ERROR_BYTES);
    free (copy);
    assert_true (rc == 0 || rc == -EDOM || rc == -EBADMSG);
    assert_non_null (memchr (error, 0, ERROR_BYTES));
    assert_int_equal (rc == 0, *error == 0);
    assert_int_equal (rc == 0, tiled->bytes != NULL);
    return rc;
}

static tiled_t
s_tiled (const made_file_t *file, tile_layout_t layout)
{
    tiled_t tiled;
    char error [ERROR_BYTES];
    if (s_tile (file->bytes, file->size, layout, &tiled, error))
        fail_msg ("%s", error);
    return tiled;
}

static tile_frame_t
s_frame (const tiled_t *tiled)
{
    tile_frame_t frame;
    const char *reason;
    if (!tile_frame_read (&frame, tiled->bytes, tiled->size, &reason))
        fail_msg ("not tiled: %s", reason);
    assert_int_equal (frame.interval, tiled->interval);
    assert_int_equal (tile_frame_segments (&frame), tiled->segments);
    return frame;
}

//  ---------------------------------------------------------------------------------------------------------
//  A model of comparing: all coefficients, by libjpeg's plainest calls, as one number

typedef struct {
    uint64_t sum;
    uint64_t blocks;
} digest_t;

static void
s_mix (digest_t *self, const void *bytes, size_t size)
{
    for (const uint8_t *at = bytes; size > 0; size--, at++)
        self->sum = (self->sum ^ *at) * 0x100000001b3u;
}

static digest_t
s_digest (const uint8_t *bytes, size_t size)
{
    digest_t digest = { 1, 0 };
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    info.err = jpeg_std_error (&errors);
    jpeg_create_decompress (&info);
    jpeg_mem_src (&info, bytes, size);
    jpeg_read_header (&info, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients (&info);
    for (int index = 0; index < info.num_components; index++) {
        const jpeg_component_info *component = &info.comp_info [index];
        for (JDIMENSION row = 0; row < component->height_in_blocks; row++) {
            JBLOCKARRAY blocks = info.mem->access_virt_barray ((j_common_ptr) &info, arrays [index], row, 1,
                FALSE);
            s_mix (&digest, *blocks, component->width_in_blocks * sizeof **blocks);
            digest.blocks += component->width_in_blocks;
        }
        s_mix (&digest, component->quant_table->quantval, sizeof component->quant_table->quantval);
        s_mix (&digest, &component->h_samp_factor, sizeof component->h_samp_factor);
        s_mix (&digest, &component->v_samp_factor, sizeof component->v_samp_factor);
        s_mix (&digest, &component->component_id, sizeof component->component_id);
    }
    s_mix (&digest, &info.jpeg_color_space, sizeof info.jpeg_color_space);
    jpeg_destroy_decompress (&info);
    return digest;
}

static void
s_assert_equal (const char *what, const uint8_t *one, size_t one_bytes, const uint8_t *other,
    size_t other_bytes)
{
    digest_t left = s_digest (one, one_bytes), right = s_digest (other, other_bytes);
    if (left.sum != right.sum || left.blocks != right.blocks)
        fail_msg ("%s: other coefficients", what);
    char error [ERROR_BYTES];
    if (tile_compare (one, one_bytes, other, other_bytes, error, sizeof error))
        fail_msg ("%s: %s", what, error);
    for (unsigned scale = 1; scale <= WHOLE; scale *= 2) {
        picture_t pictures [2];
        assert_true (jpeg_model (one, one_bytes, false, scale, &pictures [0]));
        assert_true (jpeg_model (other, other_bytes, false, scale, &pictures [1]));
        assert_int_equal (pictures [1].warnings, 0);
        size_t bytes = (size_t) pictures [0].height * pictures [0].width * 3;
        assert_memory_equal (pictures [0].pixels, pictures [1].pixels, bytes);
        free (pictures [0].pixels);
        free (pictures [1].pixels);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  What comes back

static bool
s_is_tileable (const made_kind_t *kind)
{
    return !kind->arithmetic && kind->scans != MADE_ROUGH;
}

//  Every kind of file has the same coefficients in every layout, or is refused with a reason.
static void
test_coefficients_stay (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    static const tile_layout_t layouts [] = {
        { TILE_EVERY_MCU, 0 }, { TILE_COLUMNS, 3 }, { TILE_SPAN, 32 }, { TILE_WITHIN, 1030 }
    };
    for (int round = 0; round < EFFORT (40) * MADE_KINDS; round++) {
        const made_kind_t *kind = &made_kinds [round % MADE_KINDS];
        uint32_t height = 1 + (uint32_t) test_below (&random, SIDE_MAX);
        uint32_t width = 1 + (uint32_t) test_below (&random, SIDE_MAX);
        made_file_t file = made_jpeg (kind, height, width, &random);
        tiled_t tiled;
        char error [ERROR_BYTES];
        int rc = s_tile (file.bytes, file.size, layouts [test_below (&random, 4)], &tiled, error);
        if (rc != (s_is_tileable (kind)? 0: -EDOM))
            fail_msg ("%s: %d, %s", kind->name, rc, error);
        if (rc == 0) {
            s_assert_equal (kind->name, file.bytes, file.size, tiled.bytes, tiled.size);
            s_frame (&tiled);
            assert_int_equal (tiled.was_progressive, kind->scans == MADE_PROGRESSIVE);
        } else {
            assert_non_null (strstr (error,
                kind->arithmetic? "arithmetic": "before its coefficients are exact"));
        }
        free (tiled.bytes);
        free (file.bytes);
    }
}

//  What is tiled can be tiled again, in another way, and back.
static void
test_tiled_again (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 100, 192, &random);
    tiled_t rows = s_tiled (&file, (tile_layout_t) { TILE_COLUMNS, 1 });
    made_file_t between = { rows.bytes, rows.size };
    tiled_t every = s_tiled (&between, s_every);
    made_file_t again = { every.bytes, every.size };
    tiled_t back = s_tiled (&again, (tile_layout_t) { TILE_COLUMNS, 1 });
    assert_int_equal (back.size, rows.size);
    assert_memory_equal (back.bytes, rows.bytes, rows.size);
    assert_true (every.size > rows.size);
    free (rows.bytes);
    free (every.bytes);
    free (back.bytes);
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Layouts

static uint32_t
s_interval (const made_file_t *file, tile_rule_t rule, uint32_t number)
{
    tiled_t tiled = s_tiled (file, (tile_layout_t) { rule, number });
    tile_frame_t frame = s_frame (&tiled);
    assert_int_equal (frame.columns % frame.interval, 0);
    free (tiled.bytes);
    return frame.interval;
}

static void
test_layouts (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_444], 30, 8 * 24 - 3, &random);
    assert_int_equal (s_interval (&file, TILE_EVERY_MCU, 0), 1);
    //  24 columns: at least so many segments, as few as the divisors allow.
    static const uint32_t columns [] [2] = { { 0, 24 }, { 1, 24 }, { 2, 12 }, { 3, 8 }, { 4, 6 }, { 5, 4 },
        { 7, 3 },
        { 9, 2 }, { 12, 2 }, { 13, 1 }, { 24, 1 }, { 25, 1 }, { UINT32_MAX, 1 } };
    for (size_t index = 0; index < sizeof columns / sizeof *columns; index++)
        assert_int_equal (s_interval (&file, TILE_COLUMNS, columns [index] [0]), columns [index] [1]);
    static const uint32_t spans [] [2] = { { 0, 1 }, { 8, 1 }, { 15, 1 }, { 16, 2 }, { 24, 3 }, { 40, 4 },
        { 100, 12 },
        { 192, 24 }, { UINT32_MAX, 24 } };
    for (size_t index = 0; index < sizeof spans / sizeof *spans; index++)
        assert_int_equal (s_interval (&file, TILE_SPAN, spans [index] [0]), spans [index] [1]);
    free (file.bytes);
    //  A row of a prime number of MCUs is whole, or in single ones.
    file = made_jpeg (&made_kinds [MADE_KIND_420], 30, 16 * 7, &random);
    assert_int_equal (s_interval (&file, TILE_SPAN, 16 * 6), 1);
    assert_int_equal (s_interval (&file, TILE_SPAN, 16 * 7), 7);
    free (file.bytes);
}

//  The finest layout that keeps to the limit: the next finer one does not, or is as fine as is allowed.
static void
test_layouts_within_a_size (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg_with (&made_kinds [MADE_KIND_444], 200, 8 * 48, 50, &random, NULL);
    uint32_t last = 0;
    for (uint32_t thousandths = 1300; thousandths >= 700; thousandths -= 20) {
        tiled_t tiled = s_tiled (&file, (tile_layout_t) { TILE_WITHIN, thousandths });
        if (tiled.interval < 48)
            assert_true (tiled.size * 1000 <= file.size * thousandths);
        if (tiled.interval > TILE_SPAN_LEAST / 8) {
            uint32_t finer = tiled.interval - 1;
            while (48 % finer)
                finer--;
            tiled_t other = s_tiled (&file, (tile_layout_t) { TILE_SPAN, finer * 8 });
            assert_true (other.size * 1000 > file.size * thousandths);
            free (other.bytes);
        }
        assert_true (tiled.interval >= last && tiled.interval >= TILE_SPAN_LEAST / 8);
        last = tiled.interval;
        free (tiled.bytes);
    }
    assert_int_equal (last, 48);
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Metadata

//  Profiles, comments, thumbnails, behind filling bytes of any number, and what stands behind the end.
static void
test_metadata_stay (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static const char tail [] = "and what a camera wrote behind the end \xff\xd8\xff\xd9";
    for (int kind = 0; kind < MADE_KINDS; kind++) {
        if (!s_is_tileable (&made_kinds [kind]))
            continue;
        made_file_t file = made_jpeg (&made_kinds [kind], 40, 50, &random);
        made_insert_marker (&file, 2, 0xe2, "ICC_PROFILE\0\1\1 a profile", 25);
        made_insert_marker (&file, 2, 0xfe, "", 0);
        made_insert_marker (&file, 2, 0xe1, "Exif\0\0 with \xff\xda\xff\xd9 in it", 22);
        made_insert (&file, file.size, tail, sizeof tail);
        made_file_t filled = { malloc (file.size), file.size };
        memcpy (filled.bytes, file.bytes, file.size);
        //  A restart marker has no place there; libjpeg passes over it.
        made_insert (&filled, 2, "\xff\xd3\xff\xff\xff", (size_t) kind % 6);
        tiled_t tiled = s_tiled (&file, s_every), other = s_tiled (&filled, s_every);
        s_assert_equal (made_kinds [kind].name, file.bytes, file.size, tiled.bytes, tiled.size);
        assert_int_equal (other.size, tiled.size);
        assert_memory_equal (other.bytes, tiled.bytes, tiled.size);
        assert_memory_equal (tiled.bytes + tiled.size - sizeof tail, tail, sizeof tail);
        //  They are as they were, at the begin.
        assert_memory_equal (tiled.bytes, file.bytes, 2 + 26 + 4 + 29);
        //  Less by one byte is a difference.
        char error [ERROR_BYTES];
        made_file_t less = { tiled.bytes, tiled.size - 1 };
        assert_int_equal (tile_compare (file.bytes, file.size, less.bytes, less.size, error, sizeof error),
            -EDOM);
        assert_non_null (strstr (error, "metadata"));
        tiled.bytes [20] ^= 1;
        assert_int_equal (tile_compare (file.bytes, file.size, tiled.bytes, tiled.size, error, sizeof error),
            -EDOM);
        free (other.bytes);
        free (tiled.bytes);
        free (filled.bytes);
        free (file.bytes);
    }
}

//  Where decoders do not look for metadata any more they must not begin to count: not between scans, not
//  behind the last.
static void
test_late_metadata (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static const struct { uint8_t code; const char *text; size_t size; } markers [] = {
        { 0xe1, "Exif\0\0MM\0*\0\0\0\10", 14 }, { 0xe2, "ICC_PROFILE\0\1\1", 14 }, { 0xfe, "late", 4 },
        { 0xee, "Adobe\0\x64\0\0\0\0\0", 12 }
    };
    static const int kinds [] = { MADE_KIND_420, MADE_KIND_PROGRESSIVE, 25 };
    for (size_t index = 0; index < sizeof markers / sizeof *markers; index++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (int at_end = kind == 0; at_end < 2; at_end++) {
                made_file_t file = made_jpeg (&made_kinds [kinds [kind]], 40, 50, &random);
                made_insert_marker (&file, at_end? file.size - 2: made_last_scan (&file),
                    markers [index].code, markers [index].text, markers [index].size);
                tiled_t tiled;
                char error [ERROR_BYTES];
                assert_int_equal (s_tile (file.bytes, file.size, s_every, &tiled, error), -EDOM);
                assert_string_equal (error, "JPEG that cannot be tiled: metadata behind a scan's header");
                free (file.bytes);
            }
}

//  An index of several pictures says where they are: that would not be right any more.
static void
test_several_pictures (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 40, 50, &random);
    made_insert_marker (&file, 2, 0xe2, "MPF\0II", 6);
    tiled_t tiled;
    char error [ERROR_BYTES];
    assert_int_equal (s_tile (file.bytes, file.size, s_every, &tiled, error), -EDOM);
    assert_string_equal (error, "JPEG that cannot be tiled: several pictures in one file");
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Differences, damage, hostile files

//  Every difference is seen.
static void
test_differences (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    made_file_t file = made_jpeg_with (&made_kinds [MADE_KIND_420], 40, 50, 60, &random, NULL);
    static const struct { int kind; uint32_t height; uint32_t width; int quality; const char *what;
        } others [] = {
        { MADE_KIND_420, 41, 50, 60, "size" }, { MADE_KIND_420, 40, 49, 60, "size" },
        { MADE_KIND_GREY, 40, 50, 60, "size" },
        { MADE_KIND_444, 40, 50, 60, "sampling" }, { MADE_KIND_420, 40, 50, 61, "quantisation" },
        { MADE_KIND_420, 40, 50, 60, "coefficients" }, { 8, 40, 50, 60, "meaning" },
    };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        made_file_t other = made_jpeg_with (&made_kinds [others [index].kind], others [index].height,
            others [index].width, others [index].quality, &random, NULL);
        assert_int_equal (tile_compare (file.bytes, file.size, other.bytes, other.size, error, sizeof error),
            -EDOM);
        if (!strstr (error, others [index].what))
            fail_msg ("%s, not %s", error, others [index].what);
        free (other.bytes);
    }
    assert_int_equal (tile_compare (file.bytes, file.size, file.bytes, file.size, error, sizeof error), 0);
    assert_int_equal (tile_compare (file.bytes, file.size, file.bytes, file.size - 5, error, sizeof error),
        -EBADMSG);
    free (file.bytes);
}

//  The same file with one coefficient changed, of a block of any component; the caller frees it.
static made_file_t
s_with_another_coefficient (const made_file_t *file, uint64_t *random)
{
    struct jpeg_decompress_struct reader;
    struct jpeg_compress_struct writer;
    struct jpeg_error_mgr errors;
    made_file_t changed = { NULL, 0 };
    reader.err = writer.err = jpeg_std_error (&errors);
    jpeg_create_decompress (&reader);
    jpeg_create_compress (&writer);
    jpeg_mem_src (&reader, file->bytes, file->size);
    jpeg_mem_dest (&writer, &changed.bytes, &changed.size);
    jpeg_read_header (&reader, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients (&reader);
    int component = (int) test_below (random, (uint64_t) reader.num_components);
    const jpeg_component_info *info = &reader.comp_info [component];
    //  Mostly at the borders.
    JDIMENSION row = test_below (random, 2)? info->height_in_blocks - 1:
        (JDIMENSION) test_below (random, info->height_in_blocks);
    JDIMENSION column = test_below (random, 2)? info->width_in_blocks - 1:
        (JDIMENSION) test_below (random, info->width_in_blocks);
    JBLOCKARRAY blocks = reader.mem->access_virt_barray ((j_common_ptr) &reader, arrays [component], row, 1,
        TRUE);
    blocks [0] [column] [test_below (random, DCTSIZE2)] ^= 1;
    jpeg_copy_critical_parameters (&reader, &writer);
    writer.optimize_coding = TRUE;
    jpeg_write_coefficients (&writer, arrays);
    jpeg_finish_compress (&writer);
    jpeg_destroy_compress (&writer);
    jpeg_destroy_decompress (&reader);
    return changed;
}

static void
test_any_coefficient (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static const int kinds [] = { MADE_KIND_444, MADE_KIND_420, MADE_KIND_GREY, 4 };
    for (int round = 0; round < EFFORT (200); round++) {
        uint32_t height = 1 + (uint32_t) test_below (&random, 60),
            width = 1 + (uint32_t) test_below (&random, 60);
        made_file_t file = made_jpeg (&made_kinds [kinds [round % 4]], height, width, &random);
        made_file_t other = s_with_another_coefficient (&file, &random);
        char error [ERROR_BYTES];
        assert_int_equal (tile_compare (file.bytes, file.size, other.bytes, other.size, error, sizeof error),
            -EDOM);
        assert_non_null (strstr (error, "coefficients"));
        free (other.bytes);
        free (file.bytes);
    }
}

//  A component's id is what decoders guess colours by.
static void
test_another_id (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_GREY], 20, 30, &random);
    uint8_t *copy = malloc (file.size);
    memcpy (copy, file.bytes, file.size);
    copy [made_frame (copy, file.size) + 10] = 7;
    copy [made_last_scan (&file) + 5] = 7;
    char error [ERROR_BYTES];
    assert_int_equal (tile_compare (file.bytes, file.size, copy, file.size, error, sizeof error), -EDOM);
    assert_non_null (strstr (error, "sampling"));
    free (copy);
    free (file.bytes);
}

//  Decoders smooth what is not exact among the first ten coefficients, one way or another; the others they
//  take as they are.
static void
test_unfinished (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int rough = 1; rough < DCTSIZE2; rough++) {
        made_file_t whole = made_jpeg (&made_kinds [MADE_KIND_GREY], 40, 50, &random), file = { NULL, 0 };
        jpeg_scan_info scans [] = { { 1, { 0 }, 0, 0, 0, 0 }, { 1, { 0 }, 1, rough - 1, 0, 0 },
            { 1, { 0 }, rough, 63, 0, 1 } };
        struct jpeg_decompress_struct reader;
        struct jpeg_compress_struct writer;
        struct jpeg_error_mgr errors;
        reader.err = writer.err = jpeg_std_error (&errors);
        jpeg_create_decompress (&reader);
        jpeg_create_compress (&writer);
        jpeg_mem_src (&reader, whole.bytes, whole.size);
        jpeg_mem_dest (&writer, &file.bytes, &file.size);
        jpeg_read_header (&reader, TRUE);
        jvirt_barray_ptr *arrays = jpeg_read_coefficients (&reader);
        jpeg_copy_critical_parameters (&reader, &writer);
        if (rough == 1)
            scans [1] = scans [2];
        writer.scan_info = scans;
        writer.num_scans = rough == 1? 2: 3;
        jpeg_write_coefficients (&writer, arrays);
        jpeg_finish_compress (&writer);
        jpeg_destroy_compress (&writer);
        jpeg_destroy_decompress (&reader);
        tiled_t tiled;
        char error [ERROR_BYTES];
        int rc = s_tile (file.bytes, file.size, s_every, &tiled, error);
        if (rc != (rough < 10? -EDOM: 0))
            fail_msg ("from coefficient %d on: %d, %s", rough, rc, error);
        if (rc == 0)
            s_assert_equal ("rough", file.bytes, file.size, tiled.bytes, tiled.size);
        free (tiled.bytes);
        free (file.bytes);
        free (whole.bytes);
    }
}

//  Resolutions that are no multiple of each other: no decoder of ours reads them, whole or in part.
static void
test_fractions (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 48, 48, &random);
    file.bytes [made_frame (file.bytes, file.size) + 14] = 0x13;
    tiled_t tiled;
    char error [ERROR_BYTES];
    int rc = s_tile (file.bytes, file.size, s_every, &tiled, error);
    assert_int_equal (rc, -EDOM);
    assert_string_equal (error, "JPEG that cannot be tiled: sampling that no decoder of ours reads");
    free (file.bytes);
}

//  A file that is cut short is damaged, at any length; nothing is left behind.
static void
test_truncated_at_every_length (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    size_t settled = 0;
    for (int kind = 0; kind < MADE_KINDS; kind += 2) {
        made_file_t file = made_jpeg_with (&made_kinds [kind], 36, 40, 30, &random, NULL);
        for (size_t size = 0; size < file.size; size++) {
            tiled_t tiled;
            char error [ERROR_BYTES];
            int rc = s_tile (file.bytes, size, s_every, &tiled, error);
            assert_true (rc == -EBADMSG || (rc == -EDOM && made_kinds [kind].arithmetic));
        }
        free (file.bytes);
        if (kind == 2)
            settled = mallinfo2 ().uordblks;
    }
    assert_true (mallinfo2 ().uordblks < settled + 65536);
}

//  Whatever the bytes: refused, or the pixels are the same.
static void
test_any_damage (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    int good = 0;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < EFFORT (ROUNDS); round++) {
        made_file_t file = made_jpeg_with (&made_kinds [test_below (&random, MADE_KINDS)], 40, 50, 25,
            &random, NULL);
        for (uint64_t count = 1 + test_below (&random, 3); count > 0; count--)
            file.bytes [test_below (&random, file.size)] =
                test_below (&random, 3)? (uint8_t) test_below (&random, 256): 0xff;
        tiled_t tiled;
        char error [ERROR_BYTES];
        if (s_tile (file.bytes, file.size, s_every, &tiled, error) == 0) {
            good++;
            picture_t pictures [2];
            assert_true (jpeg_model (file.bytes, file.size, false, WHOLE, &pictures [0])
                || pictures [0].too_large);
            jpeg_model (tiled.bytes, tiled.size, false, WHOLE, &pictures [1]);
            if (!pictures [0].too_large)
                assert_memory_equal (pictures [0].pixels, pictures [1].pixels,
                    (size_t) pictures [0].height * pictures [0].width * 3);
            free (pictures [0].pixels);
            free (pictures [1].pixels);
        }
        free (tiled.bytes);
        free (file.bytes);
    }
    assert_true (good > EFFORT (ROUNDS) / 20);
}

//  A header that promises more than is allowed costs nothing.
static void
test_bombs (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 40, 50, &random);
    made_set_size (file.bytes, file.size, 65000, 65000);
    tiled_t tiled;
    char error [ERROR_BYTES];
    size_t before = mallinfo2 ().uordblks;
    assert_int_equal (s_tile (file.bytes, file.size, s_every, &tiled, error), -EDOM);
    assert_non_null (strstr (error, "more pixels than the limit"));
    assert_true (mallinfo2 ().uordblks < before + 65536);
    free (file.bytes);
    //  12 bits: libjpeg says no.
    file = made_jpeg (&made_kinds [MADE_KIND_420], 40, 50, &random);
    file.bytes [made_frame (file.bytes, file.size) + 4] = 12;
    assert_int_equal (s_tile (file.bytes, file.size, s_every, &tiled, error), -EDOM);
    free (file.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_coefficients_stay),
        cmocka_unit_test (test_tiled_again),
        cmocka_unit_test (test_layouts),
        cmocka_unit_test (test_layouts_within_a_size),
        cmocka_unit_test (test_metadata_stay),
        cmocka_unit_test (test_several_pictures),
        cmocka_unit_test (test_late_metadata),
        cmocka_unit_test (test_differences),
        cmocka_unit_test (test_any_coefficient),
        cmocka_unit_test (test_another_id),
        cmocka_unit_test (test_unfinished),
        cmocka_unit_test (test_fractions),
        cmocka_unit_test (test_truncated_at_every_length),
        cmocka_unit_test (test_any_damage),
        cmocka_unit_test (test_bombs),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

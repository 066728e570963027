/*  test_decoder -- whole samples: golden files, damaged files, bombs, and what the reasons say.  */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "pipelines.h"
#include "decoder.h"
#include "seed.h"

#define GOLDEN_PIPELINE "[{'op':'resize','size':18},{'op':'center_crop','size':[16,17]},{'share':true}]"

enum { GOLDEN_BYTES = 16 * 17 * 3, FILE_BYTES_MAX = 1 << 17 };

typedef struct {
    uint8_t bytes [FILE_BYTES_MAX];
    size_t size;
} file_t;

static const char *const s_names [] = {
    "colour_444", "colour_420", "colour_422_progressive", "grey", "cmyk", "ycck"
};
enum { NAMES = sizeof s_names / sizeof *s_names };

static void
s_load (file_t *self, const char *name, const char *ending)
{
    char path [1000];
    const char *source = getenv ("TUREEN_SOURCE");
    snprintf (path, sizeof path, "%s/tests/decode/golden/%s.%s", source? source: ".", name, ending);
    FILE *file = fopen (path, "rb");
    if (!file)
        fail_msg ("%s: not there (TUREEN_SOURCE names the source folder)", path);
    self->size = fread (self->bytes, 1, sizeof self->bytes, file);
    fclose (file);
}

//  decoder_run on an exact copy, so that the address sanitizer sees a read behind the end; checks what holds
//  always.
static decoder_status_t
s_run_keyed (decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key, const uint8_t *bytes,
    size_t size, uint8_t *version, char error [ERROR_BYTES])
{
    uint8_t *copy = malloc (size? size: 1);
    if (size)
        memcpy (copy, bytes, size);
    memset (error, 'x', ERROR_BYTES);
    decoder_status_t status = decoder_run (decoder, pipeline, key, copy, size, version, error, ERROR_BYTES);
    assert_non_null (memchr (error, 0, ERROR_BYTES));
    assert_true (status == DECODER_OK || status == DECODER_BAD);
    assert_int_equal (status == DECODER_BAD, *error != 0);
    free (copy);
    return status;
}

static decoder_status_t
s_run (decoder_t *decoder, const pipeline_t *pipeline, const uint8_t *bytes, size_t size, uint8_t *version,
    char error [ERROR_BYTES])
{
    pipeline_key_t key = { .seed = 1 };
    return s_run_keyed (decoder, pipeline, &key, bytes, size, version, error);
}

//  The file must be refused, with a reason that has fragment in it.
static void
s_expect_bad (const char *pipeline_text, const uint8_t *bytes, size_t size, const char *fragment)
{
    char error [ERROR_BYTES];
    const pipeline_t *pipeline = pipeline_of (pipeline_text);
    uint8_t *version = malloc (pipeline_version_bytes (pipeline));
    decoder_t *decoder = decoder_new ();
    assert_int_equal (s_run (decoder, pipeline, bytes, size, version, error), DECODER_BAD);
    if (!strstr (error, fragment))
        fail_msg ("\"%s\" lacks \"%s\"", error, fragment);
    decoder_destroy (&decoder);
    free (version);
    pipeline_destroy (&pipeline);
}

//  The pipelines of make_golden.py, its key, and the lengths of what they make.
static const struct { const char *text; size_t bytes; } s_pipelines [] = {
    { GOLDEN_PIPELINE, GOLDEN_BYTES },
    { "[{'op':'resize','size':[23,29]},{'op':'flip','p':1},{'op':'resize','size':[15,21]},"
      "{'op':'center_crop','size':[19,24]},{'op':'flip','p':1},{'op':'resize','size':17},"
      "{'op':'center_crop','size':[22,16]},{'share':true},{'op':'flip','p':0.75}]", 22 * 16 * 3 },
    { "[{'op':'center_crop','size':[52,27]},{'op':'random_resized_crop','size':[13,14]},{'share':true},"
      "{'op':'flip'},{'op':'flip','p':0.25}]", 13 * 14 * 3 },
};
static const pipeline_key_t s_golden_key = { .seed = 1, .round = 2, .id = 3 };

//  Within what another libjpeg may differ by.
static void
s_assert_alike (const char *name, const uint8_t *bytes, const uint8_t *expected, size_t count)
{
    size_t sum = 0;
    for (size_t index = 0; index < count; index++) {
        int difference = abs (bytes [index] - expected [index]);
        sum += (size_t) difference;
        if (difference > 2)
            fail_msg ("%s: byte %zu is %d for %d", name, index, bytes [index], expected [index]);
    }
    assert_true (sum * 2 <= count);
}

//  What Pillow made of the golden files, at the share point and at the end of each pipeline.
static void
test_golden (void **state)
{
    (void) state;
    static file_t file, expected;
    decoder_t *decoder = decoder_new ();
    for (size_t name = 0; name < NAMES; name++) {
        s_load (&file, s_names [name], "jpg");
        s_load (&expected, s_names [name], "rgb");
        const uint8_t *at = expected.bytes;
        for (size_t index = 0; index < sizeof s_pipelines / sizeof *s_pipelines; index++) {
            char error [ERROR_BYTES];
            size_t bytes = s_pipelines [index].bytes;
            uint8_t version [2000], target [2000];
            const pipeline_t *pipeline = pipeline_of (s_pipelines [index].text);
            assert_int_equal (pipeline_version_bytes (pipeline), bytes);
            decoder_status_t status = s_run_keyed (decoder, pipeline, &s_golden_key, file.bytes, file.size,
                version, error);
            assert_int_equal (status, DECODER_OK);
            pipeline_private (pipeline, &s_golden_key, version, target);
            s_assert_alike (s_names [name], version, at, bytes);
            s_assert_alike (s_names [name], target, at + bytes, bytes);
            at += 2 * bytes;
            pipeline_destroy (&pipeline);
        }
        assert_int_equal (at - expected.bytes, expected.size);
    }
    decoder_destroy (&decoder);
}

//  Bytes that are no JPEG are named for what they look like.
static void
test_not_a_jpeg (void **state)
{
    (void) state;
    static const struct { const char *bytes; size_t size; const char *fragment; } cases [] = {
        { "", 0, "empty" }, { "\x89PNG\r\n\x1a\n", 8, "a PNG image" }, { "GIF89a", 6, "a GIF image" },
        { "RIFF\1\2\3\4WEBPVP8 ", 16, "a WebP image" }, { "BM\1\2", 4, "a BMP image" },
        { "II*\0", 4, "a TIFF image" },
        { "MM\0*", 4, "a TIFF image" }, { "hello, world", 12, "of an unknown kind (12 bytes)" },
        { "\xff", 1, "unknown kind" }, { "\xff\xd8", 2, "unknown kind" },
        { "RIFF\1\2\3\4WEB", 11, "unknown kind" },
        { "\x1f\x8b\x08", 3, "a gzip file" }, { "PK\3\4", 4, "a zip file" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        s_expect_bad ("'eval'", (const uint8_t *) cases [index].bytes, cases [index].size,
            cases [index].fragment);
    s_expect_bad ("'eval'", (const uint8_t *) "\xff\xd8\xff\xd9", 4, "damaged or unsupported JPEG");
}

//  Every length short of the whole file is bad: Pillow, too, takes no file that ends before its image.
static void
test_truncated_at_every_length (void **state)
{
    (void) state;
    static file_t file;
    const pipeline_t *pipeline = pipeline_of (GOLDEN_PIPELINE);
    decoder_t *decoder = decoder_new ();
    for (size_t name = 0; name < NAMES; name++) {
        s_load (&file, s_names [name], "jpg");
        for (size_t size = 0; size <= file.size; size++) {
            char error [ERROR_BYTES];
            uint8_t version [GOLDEN_BYTES];
            decoder_status_t status = s_run (decoder, pipeline, file.bytes, size, version, error);
            assert_int_equal (status, size < file.size? DECODER_BAD: DECODER_OK);
            if (size > 3 && size < file.size && !strstr (error, "truncated JPEG"))
                fail_msg ("%s at %zu: %s", s_names [name], size, error);
        }
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  Bytes behind the image are nobody's business.
static void
test_trailing_bytes (void **state)
{
    (void) state;
    static file_t file;
    char error [ERROR_BYTES];
    uint8_t version [GOLDEN_BYTES], longer [GOLDEN_BYTES];
    const pipeline_t *pipeline = pipeline_of (GOLDEN_PIPELINE);
    decoder_t *decoder = decoder_new ();
    s_load (&file, "colour_420", "jpg");
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size, version, error), DECODER_OK);
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size + 500, longer, error), DECODER_OK);
    assert_memory_equal (version, longer, GOLDEN_BYTES);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  All rows are there, but behind them comes a marker whose end is not: as good as the whole file, for Pillow
//  too.
static void
test_end_marker_lost (void **state)
{
    (void) state;
    static file_t file;
    char error [ERROR_BYTES];
    uint8_t version [GOLDEN_BYTES], whole [GOLDEN_BYTES];
    const pipeline_t *pipeline = pipeline_of (GOLDEN_PIPELINE);
    decoder_t *decoder = decoder_new ();
    s_load (&file, "colour_420", "jpg");
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size, whole, error), DECODER_OK);
    memcpy (file.bytes + file.size - 1, "\xe8\xff\xff", 3);
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size + 2, version, error), DECODER_OK);
    assert_memory_equal (version, whole, GOLDEN_BYTES);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

static void
s_damage (file_t *file, uint64_t *random)
{
    for (uint64_t count = 1 + test_below (random, 6); count > 0; count--)
        file->bytes [test_below (random, file->size)] = (uint8_t) test_below (random, 256);
    if (test_below (random, 4) == 0)
        file->size = test_below (random, file->size);
}

//  Any damage gives a version or a reason; and it never spoils the next sample.
static void
test_random_damage (void **state)
{
    (void) state;
    static file_t file, whole;
    uint64_t random = test_seed ();
    char error [ERROR_BYTES];
    uint8_t expected [GOLDEN_BYTES], version [224 * 224 * 3];
    const pipeline_t *pipelines [] = { pipeline_of (GOLDEN_PIPELINE), pipeline_of ("'train'") };
    decoder_t *decoder = decoder_new ();
    s_load (&whole, "colour_422_progressive", "jpg");
    assert_int_equal (s_run (decoder, pipelines [0], whole.bytes, whole.size, expected, error), DECODER_OK);
    int bad = 0;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < ROUNDS; round++) {
        s_load (&file, s_names [test_below (&random, NAMES)], "jpg");
        s_damage (&file, &random);
        bad += s_run (decoder, pipelines [round % 2], file.bytes, file.size, version, error) == DECODER_BAD;
        if (round % 10)
            continue;
        decoder_status_t status = s_run (decoder, pipelines [0], whole.bytes, whole.size, version, error);
        assert_int_equal (status, DECODER_OK);
        assert_memory_equal (version, expected, GOLDEN_BYTES);
    }
    assert_true (bad > ROUNDS / 10 && bad < ROUNDS);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipelines [0]);
    pipeline_destroy (&pipelines [1]);
}

//  Where the frame header's marker (0xffc0 baseline, 0xffc2 progressive) stands.
static size_t
s_frame (const file_t *file)
{
    size_t at = 2;
    while (at + 9 < file->size) {
        if (file->bytes [at + 1] == 0xc0 || file->bytes [at + 1] == 0xc2)
            return at;
        at += 2 + (size_t) (file->bytes [at + 2] << 8 | file->bytes [at + 3]);
    }
    fail_msg ("no frame header");
    return 0;
}

//  A file that says it is height x width; its data is that of a small image, so libjpeg makes up the rest.
static void
s_load_sized (file_t *file, const char *name, uint32_t height, uint32_t width)
{
    s_load (file, name, "jpg");
    uint8_t *frame = file->bytes + s_frame (file);
    frame [5] = (uint8_t) (height >> 8);
    frame [6] = (uint8_t) height;
    frame [7] = (uint8_t) (width >> 8);
    frame [8] = (uint8_t) width;
}

static void
test_pixel_bombs (void **state)
{
    (void) state;
    static file_t file;
    s_load_sized (&file, "colour_444", 60000, 60000);
    struct mallinfo2 before = mallinfo2 ();
    s_expect_bad ("'eval'", file.bytes, file.size, "more pixels than the limit (60000 x 60000");
    struct mallinfo2 after = mallinfo2 ();
    assert_int_equal (before.hblkhd, after.hblkhd);
    s_load_sized (&file, "grey", 10001, 10000);
    s_expect_bad ("'train'", file.bytes, file.size, "more pixels than the limit");
    s_load_sized (&file, "grey", 65535, 65535);
    s_expect_bad ("'train'", file.bytes, file.size, "damaged or unsupported JPEG");
    s_load_sized (&file, "grey", 0, 10);
    s_expect_bad ("'train'", file.bytes, file.size, "damaged or unsupported JPEG");
    s_load (&file, "colour_444", "jpg");
    file.bytes [s_frame (&file) + 4] = 12;
    s_expect_bad ("'train'", file.bytes, file.size, "damaged or unsupported JPEG");
}

//  An image of allowed size that an operation would blow up; where a crop follows at once, nothing is blown
//  up.
static void
test_resize_bombs (void **state)
{
    (void) state;
    static file_t file;
    s_load_sized (&file, "grey", 16, 65500);
    s_expect_bad ("[{'op':'resize','size':4096},{'op':'flip','p':1},{'op':'center_crop','size':8}]",
        file.bytes, file.size, "65500 x 16 pixels would become one of 16768000 x 4096");
    char error [ERROR_BYTES];
    uint8_t version [64 * 4096 * 3];
    const pipeline_t *pipeline = pipeline_of (
        "[{'op':'resize','size':4096},{'op':'center_crop','size':[64,4096]}]");
    decoder_t *decoder = decoder_new ();
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size, version, error), DECODER_OK);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    s_load_sized (&file, "grey", 65500, 16);
    s_expect_bad ("[{'op':'resize','size':[4096,4096]}]", file.bytes, file.size, "above the limit");
}

//  A progressive file whose last scan comes again and again.
static void
s_repeat_last_scan (file_t *file, int count)
{
    size_t end = file->size - 2, scan = end;
    while (file->bytes [scan] != 0xff || file->bytes [scan + 1] != 0xda)
        scan--;
    size_t length = end - scan;
    assert_true (file->size + length * (size_t) count < FILE_BYTES_MAX);
    for (int index = 0; index < count; index++)
        memcpy (file->bytes + end + length * (size_t) index, file->bytes + scan, length);
    file->size = end + length * (size_t) count;
    file->bytes [file->size++] = 0xff;
    file->bytes [file->size++] = 0xd9;
}

static void
test_scan_bombs (void **state)
{
    (void) state;
    static file_t file;
    char error [ERROR_BYTES];
    uint8_t version [GOLDEN_BYTES];
    s_load (&file, "colour_422_progressive", "jpg");
    s_repeat_last_scan (&file, 80);
    const pipeline_t *pipeline = pipeline_of (GOLDEN_PIPELINE);
    decoder_t *decoder = decoder_new ();
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size, version, error), DECODER_OK);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    //  Each further scan walks all of 3000 x 3000: hundreds would take minutes.
    s_load_sized (&file, "colour_422_progressive", 3000, 3000);
    s_repeat_last_scan (&file, 400);
    time_t begin = time (NULL);
    s_expect_bad (GOLDEN_PIPELINE, file.bytes, file.size, "more than 100 scans");
    assert_true (time (NULL) - begin < 60);
}

//  The shared stage is a function of sample and key; the draw number changes a random one only.
static void
test_key_decides (void **state)
{
    (void) state;
    static file_t file;
    char error [ERROR_BYTES];
    enum { BYTES = 224 * 224 * 3 };
    static uint8_t one [BYTES], two [BYTES];
    s_load (&file, "colour_444", "jpg");
    decoder_t *decoder = decoder_new ();
    for (int random = 0; random < 2; random++) {
        const pipeline_t *pipeline = pipeline_of (random? "'train'": "'eval'");
        for (uint64_t round = 0; round < 20; round++) {
            pipeline_key_t key = { .seed = 5, .id = 3 }, other = { .seed = 5, .id = 3, .round = round };
            s_run_keyed (decoder, pipeline, &key, file.bytes, file.size, one, error);
            s_run_keyed (decoder, pipeline, &other, file.bytes, file.size, two, error);
            assert_int_equal (memcmp (one, two, BYTES) == 0, !random || round == 0);
        }
        pipeline_destroy (&pipeline);
    }
    decoder_destroy (&decoder);
}

//  Sample after sample takes no memory that is not given back.
static void
test_steady_memory (void **state)
{
    (void) state;
    static file_t file;
    char error [ERROR_BYTES];
    static uint8_t version [224 * 224 * 3];
    const pipeline_t *pipeline = pipeline_of ("'train'");
    decoder_t *decoder = decoder_new ();
    size_t settled = 0;
    for (uint64_t round = 0; round < 300; round++) {
        s_load (&file, s_names [round % NAMES], "jpg");
        pipeline_key_t key = { .id = round };
        s_run_keyed (decoder, pipeline, &key, file.bytes, file.size, version, error);
        if (round == 100)
            settled = mallinfo2 ().uordblks;
    }
    assert_true (mallinfo2 ().uordblks < settled + 4096);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_golden),
        cmocka_unit_test (test_not_a_jpeg),
        cmocka_unit_test (test_truncated_at_every_length),
        cmocka_unit_test (test_trailing_bytes),
        cmocka_unit_test (test_end_marker_lost),
        cmocka_unit_test (test_random_damage),
        cmocka_unit_test (test_pixel_bombs),
        cmocka_unit_test (test_resize_bombs),
        cmocka_unit_test (test_scan_bombs),
        cmocka_unit_test (test_key_decides),
        cmocka_unit_test (test_steady_memory),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

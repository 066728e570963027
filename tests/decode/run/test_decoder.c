/*  test_decoder -- whole samples, of one file and of several: golden files, damage and the file that is named
 *  for it, bombs, keys, and samples that are no images. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pipelines.h"
#include "made_jpeg.h"
#include "decoder.h"
#include "from_pictures.h"
#include "image_reader.h"
#include "keyed_random.h"
#include "plan.h"
#include "tensor_reader.h"
#include "seed.h"

#define GOLDEN_PIPELINE "[{'op':'resize','size':18},{'op':'center_crop','size':[16,17]},{'share':true}]"

//  As a recipe for training, in small.
#define CROP_PIPELINE "[{'op':'random_resized_crop','size':32},{'share':true},{'op':'flip'}]"

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

//  Both stages' results are checked in what holds always; an exact copy of each file, so that the address
//  sanitizer sees a read behind its end.
static decoder_status_t
s_run_files (decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char error [ERROR_BYTES])
{
    size_t count = pipeline_files (pipeline);
    decoder_file_t copies [PIPELINE_FIELDS_MAX];
    uint8_t *bytes [PIPELINE_FIELDS_MAX];
    for (size_t file = 0; file < count; file++) {
        size_t size = sample->files [file].size;
        bytes [file] = malloc (size? size: 1);
        if (size)
            memcpy (bytes [file], sample->files [file].bytes, size);
        copies [file] = (decoder_file_t) { .bytes = bytes [file], .size = size };
    }
    decoder_sample_t copy = { .files = copies, .warnings_max = sample->warnings_max };
    memset (error, 'x', ERROR_BYTES);
    decoder_status_t status = decoder_shared (decoder, pipeline, key, &copy, version, file_p, error,
        ERROR_BYTES);
    assert_non_null (memchr (error, 0, ERROR_BYTES));
    assert_true (status == DECODER_OK || status == DECODER_BAD || status == DECODER_UNSUITABLE);
    assert_int_equal (status != DECODER_OK, *error != 0);
    if (status == DECODER_OK)
        from_pictures_compare (decoder, pipeline, key, &copy);
    for (size_t file = 0; file < count; file++)
        free (bytes [file]);
    return status;
}

static decoder_status_t
s_run_keyed (decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key, const uint8_t *bytes,
    size_t size, uint8_t *version, char error [ERROR_BYTES])
{
    decoder_file_t file = { .bytes = bytes, .size = size };
    decoder_sample_t sample = { .files = &file, .warnings_max = UINT32_MAX };
    return s_run_files (decoder, pipeline, key, &sample, version, NULL, error);
}

static decoder_status_t
s_run (decoder_t *decoder, const pipeline_t *pipeline, const uint8_t *bytes, size_t size, uint8_t *version,
    char error [ERROR_BYTES])
{
    pipeline_key_t key = { .seed = 1 };
    return s_run_keyed (decoder, pipeline, &key, bytes, size, version, error);
}

static void
s_expect_words (const char *error, const char *fragment)
{
    if (!strstr (error, fragment))
        fail_msg ("\"%s\" lacks \"%s\"", error, fragment);
}

//  Which answer the file must get, and a fragment of its reason.
static void
s_expect (decoder_status_t expected, const char *pipeline_text, const uint8_t *bytes, size_t size,
    const char *fragment)
{
    char error [ERROR_BYTES];
    const pipeline_t *pipeline = pipeline_of (pipeline_text);
    size_t version_bytes = (pipeline_version_bytes (pipeline) + 63) / 64 * 64;
    uint8_t *version = aligned_alloc (64, version_bytes);
    decoder_t *decoder = decoder_new ();
    decoder_status_t status = s_run (decoder, pipeline, bytes, size, version, error);
    if (status != expected || !strstr (error, fragment))
        fail_msg ("%s: %d for %d, \"%s\" for \"%s\"", pipeline_text, (int) status, (int) expected, error,
            fragment);
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
            uint8_t *targets [] = { target };
            assert_true (decoder_private (decoder, pipeline, &s_golden_key, version, targets));
            s_assert_alike (s_names [name], version, at, bytes);
            s_assert_alike (s_names [name], target, at + bytes, bytes);
            at += 2 * bytes;
            pipeline_destroy (&pipeline);
        }
        assert_int_equal (at - expected.bytes, expected.size);
    }
    decoder_destroy (&decoder);
}

//  Every length short of the whole file is bad, whichever part of it is wanted.
static void
test_truncated_at_every_length (void **state)
{
    (void) state;
    static file_t file;
    const pipeline_t *pipelines [] = {
        pipeline_of (GOLDEN_PIPELINE), pipeline_of ("[{'op':'center_crop','size':[2,3]},{'share':true}]")
    };
    decoder_t *decoder = decoder_new ();
    for (size_t name = 0; name < NAMES; name++) {
        s_load (&file, s_names [name], "jpg");
        for (size_t size = 0; size <= file.size; size++) {
            char error [ERROR_BYTES];
            uint8_t version [GOLDEN_BYTES];
            decoder_status_t status = s_run (decoder, pipelines [size % 2], file.bytes, size, version, error);
            assert_int_equal (status, size < file.size? DECODER_BAD: DECODER_OK);
            if (size > 3 && size < file.size && !strstr (error, "truncated JPEG"))
                fail_msg ("%s at %zu: %s", s_names [name], size, error);
        }
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipelines [0]);
    pipeline_destroy (&pipelines [1]);
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
    const pipeline_t *pipelines [] = { pipeline_of (GOLDEN_PIPELINE), pipeline_of (CROP_PIPELINE) };
    decoder_t *decoder = decoder_new ();
    s_load (&whole, "colour_422_progressive", "jpg");
    assert_int_equal (s_run (decoder, pipelines [0], whole.bytes, whole.size, expected, error), DECODER_OK);
    int bad = 0;
    enum { ROUNDS = 1000 };
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

//  A file that says it is height x width; its data is that of a small image, so libjpeg makes up the rest.
static void
s_load_sized (file_t *file, const char *name, uint32_t height, uint32_t width)
{
    s_load (file, name, "jpg");
    made_set_size (file->bytes, file->size, height, width);
}

//  An image of allowed size that an operation would blow up; where a crop follows at once, nothing is blown
//  up.
static void
test_resize_bombs (void **state)
{
    (void) state;
    static file_t file;
    s_load_sized (&file, "grey", 16, 65500);
    s_expect (DECODER_UNSUITABLE, "[{'op':'resize','size':4096},{'op':'color_jitter','contrast':[2,2]},"
        "{'op':'center_crop','size':8}]", file.bytes, file.size,
        "65500 x 16 pixels would become one of 16768000 x 4096");
    char error [ERROR_BYTES];
    uint8_t version [64 * 4096 * 3];
    const pipeline_t *pipeline = pipeline_of (
        "[{'op':'resize','size':4096},{'op':'center_crop','size':[64,4096]}]");
    decoder_t *decoder = decoder_new ();
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size, version, error), DECODER_OK);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  ---------------------------------------------------------------------------------------------------------
//  Several files

enum { FIELDS = 3, HEIGHT = 40, WIDTH = 50, CROP_BYTES = 20 * 20 * 7 + 128 };
static const pipeline_source_t s_source = {
    .fields = { { "image", false }, { "mask", true }, { "depth", false } }, .count = FIELDS
};
#define FIELDS_PIPELINE "[{'op':'decode','fields':['image','mask','depth'],'max_pixels':2100}," \
    "{'op':'center_crop','size':20},{'share':true}]"

typedef struct {
    made_file_t made [FIELDS];
    decoder_file_t files [FIELDS];
} fields_t;

static void
s_make_fields (fields_t *self)
{
    uint64_t random = test_seed ();
    for (int field = 0; field < FIELDS; field++) {
        const made_kind_t *kind = &made_kinds [field == 1? MADE_KIND_GREY: test_below (&random, MADE_KINDS)];
        self->made [field] = made_jpeg (kind, HEIGHT, WIDTH, &random);
        self->files [field] = (decoder_file_t) { .bytes = self->made [field].bytes,
            .size = self->made [field].size };
    }
}

static void
s_free_fields (fields_t *self)
{
    for (int field = 0; field < FIELDS; field++)
        free (self->made [field].bytes);
}

//  What the sample must be with its file-th file replaced, and that file named for it.
static void
s_expect_file (decoder_status_t expected, const fields_t *fields, size_t file, const uint8_t *bytes,
    size_t size, const char *fragment)
{
    char error [ERROR_BYTES];
    uint8_t version [CROP_BYTES];
    decoder_file_t files [FIELDS] = { fields->files [0], fields->files [1], fields->files [2] };
    decoder_sample_t sample = { .files = files, .warnings_max = UINT32_MAX };
    pipeline_key_t key = { .seed = 1 };
    const pipeline_t *pipeline = pipeline_on (FIELDS_PIPELINE, &s_source);
    decoder_t *decoder = decoder_new ();
    size_t at_fault = SIZE_MAX;
    assert_true (pipeline_version_bytes (pipeline) <= CROP_BYTES);
    assert_int_equal (s_run_files (decoder, pipeline, &key, &sample, version, &at_fault, error), DECODER_OK);
    assert_int_equal (at_fault, SIZE_MAX);
    files [file] = (decoder_file_t) { .bytes = bytes, .size = size };
    assert_int_equal (s_run_files (decoder, pipeline, &key, &sample, version, &at_fault, error), expected);
    assert_int_equal (at_fault, file);
    s_expect_words (error, fragment);
    files [file] = fields->files [file];
    assert_int_equal (s_run_files (decoder, pipeline, &key, &sample, version, &at_fault, error), DECODER_OK);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  With a good image in the file's place that does not go with the others, or with the pipeline.
static void
s_expect_unsuitable (const fields_t *fields, size_t file, bool is_grey, uint32_t height, uint32_t width,
    const char *fragment)
{
    uint64_t random = test_seed ();
    made_file_t made = made_jpeg (&made_kinds [is_grey? MADE_KIND_GREY: MADE_KIND_420], height, width,
        &random);
    s_expect_file (DECODER_UNSUITABLE, fields, file, made.bytes, made.size, fragment);
    free (made.bytes);
}

//  Whichever file is at fault, and for whatever, it is the one that is named.
static void
test_file_at_fault (void **state)
{
    (void) state;
    fields_t fields;
    s_make_fields (&fields);
    for (size_t file = 0; file < FIELDS; file++) {
        s_expect_file (DECODER_BAD, &fields, file, (const uint8_t *) "", 0, "");
        s_expect_file (DECODER_BAD, &fields, file, (const uint8_t *) "hello, world", 12, "");
        s_expect_file (DECODER_BAD, &fields, file, fields.files [file].bytes, fields.files [file].size - 30,
            "truncated");
        s_expect_file (DECODER_BAD, &fields, file, fields.files [file].bytes, 15, "truncated");
        s_expect_file (DECODER_UNSUITABLE, &fields, file, (const uint8_t *) "OggS", 4, "Ogg audio");
    }
    s_expect_unsuitable (&fields, 1, false, HEIGHT, WIDTH, "mask");
    //  All headers are looked at before anything is decoded.
    s_expect_unsuitable (&fields, 1, true, HEIGHT, WIDTH + 1,
        "the mask is 51 x 40 pixels, the image 50 x 40");
    s_expect_unsuitable (&fields, 2, false, HEIGHT - 1, WIDTH,
        "the depth is 50 x 39 pixels, the image 50 x 40");
    s_expect_unsuitable (&fields, 0, false, 1, 2101,
        "the image is 2101 x 1 pixels: more than \"max_pixels\", 2100");
    s_expect_unsuitable (&fields, 2, false, 1, 2101, "the depth is 2101 x 1 pixels");
    s_free_fields (&fields);
}

//  Damage that libjpeg reads past counts as the sample says.
static void
test_warnings (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    uint8_t version [20 * 20 * 3];
    char error [ERROR_BYTES];
    made_file_t made = made_jpeg (&made_kinds [MADE_KIND_444], HEIGHT, WIDTH, &random);
    //  A marker that does not belong in the middle of the data.
    made.bytes [made.size * 3 / 4] = 0xff;
    made.bytes [made.size * 3 / 4 + 1] = 0xd0;
    decoder_file_t file = { .bytes = made.bytes, .size = made.size };
    decoder_sample_t tolerant = { .files = &file, .warnings_max = UINT32_MAX }, strict = { .files = &file };
    pipeline_key_t key = { .seed = 1 };
    const pipeline_t *pipeline = pipeline_of ("[{'op':'resize','size':[20,20]},{'share':true}]");
    decoder_t *decoder = decoder_new ();
    assert_int_equal (s_run_files (decoder, pipeline, &key, &tolerant, version, NULL, error), DECODER_OK);
    assert_int_equal (s_run_files (decoder, pipeline, &key, &strict, version, NULL, error), DECODER_BAD);
    s_expect_words (error, "warning");
    free (made.bytes);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  A crop that an image is too small for names the remedy.
static void
test_too_small (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t made = made_jpeg (&made_kinds [MADE_KIND_444], 30, 20, &random);
    s_expect (DECODER_UNSUITABLE, "[{'op':'random_crop','size':32,'padding':1},{'share':true}]", made.bytes,
        made.size,
        "an image of 20 x 30 pixels, with its padding, is smaller than the random_crop of 32 x 32; "
        "\"pad_if_needed\"");
    free (made.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  Samples that are no images

static void
s_expect_tensor (const char *text, const uint8_t *bytes, size_t size, const uint8_t *expected,
    size_t expected_bytes, decoder_status_t cut_short)
{
    char error [ERROR_BYTES];
    _Alignas (64) uint8_t version [256];
    uint8_t target [256], *targets [] = { target };
    pipeline_key_t key = { .seed = 1, .id = 4 };
    const pipeline_t *pipeline = pipeline_of (text);
    decoder_t *decoder = decoder_new ();
    assert_true (pipeline_version_bytes (pipeline) <= sizeof version);
    assert_int_equal (pipeline_output (pipeline, 0)->bytes, expected_bytes);
    decoder_status_t status = s_run_keyed (decoder, pipeline, &key, bytes, size, version, error);
    if (status)
        fail_msg ("%s: %s", text, error);
    assert_true (decoder_private (decoder, pipeline, &key, version, targets));
    assert_memory_equal (target, expected, expected_bytes);
    assert_int_equal (s_run_keyed (decoder, pipeline, &key, bytes, size - 1, version, error), cut_short);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

enum { ARRAY_BYTES = 92 };

//  1 to 6, as a .npy.
static void
s_make_array (uint8_t array [ARRAY_BYTES])
{
    memset (array, ' ', ARRAY_BYTES);
    memcpy (array, "\x93NUMPY\x01\x00\x46\x00", 10);
    const char *header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
    memcpy (array + 10, header, strlen (header));
    array [79] = '\n';
    memcpy (array + 80, "\1\0\2\0\3\0\4\0\5\0\6", 12);
}

static void
test_tensors (void **state)
{
    (void) state;
    static const uint8_t data [] = { 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0 };
    //  Bytes may be meant to be so many.
    s_expect_tensor ("[{'op':'decode','as':'bytes','length':12}]", data, sizeof data, data, sizeof data,
        DECODER_UNSUITABLE);
    uint8_t array [ARRAY_BYTES];
    s_make_array (array);
    s_expect_tensor ("[{'op':'decode','as':'array','dtype':'int16','shape':[2,3]}]", array, sizeof array,
        data, sizeof data, DECODER_BAD);
}

//  Six frames of 16 bits, 8000 a second.
static const uint8_t s_wav [] =
    "RIFF\x30\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0"
    "data\x0c\0\0\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06";

//  An excerpt of the middle four, and of four from where the key says.
static void
test_audio (void **state)
{
    (void) state;
    if (!strstr (decoder_formats (), "audio"))
        skip ();
    uint8_t version [8], target [8], *targets [] = { target };
    static const uint8_t middle [] = { 2, 0, 3, 0, 4, 0, 5, 0 };
    char error [ERROR_BYTES];
    bool seen [3] = { false };
    decoder_t *decoder = decoder_new ();
    const pipeline_t *pipeline = pipeline_of (
        "[{'op':'decode','as':'audio','dtype':'int16'},{'op':'excerpt','length':4,'place':'center'}]");
    pipeline_key_t key = { .seed = 1 };
    if (s_run_keyed (decoder, pipeline, &key, s_wav, sizeof s_wav, version, error))
        fail_msg ("%s", error);
    assert_true (decoder_private (decoder, pipeline, &key, version, targets));
    assert_memory_equal (target, middle, sizeof middle);
    pipeline_destroy (&pipeline);
    pipeline = pipeline_of ("[{'op':'decode','as':'audio','dtype':'int16'},{'op':'excerpt','length':4}]");
    for (key.id = 0; key.id < 60; key.id++) {
        assert_int_equal (s_run_keyed (decoder, pipeline, &key, s_wav, sizeof s_wav, version, error),
            DECODER_OK);
        keyed_random_t random;
        keyed_random_init (&random, &key, 0, 1);
        assert_int_equal (version [0], 1 + (int) (keyed_random_uniform (&random) * 3));
        assert_int_equal (version [6], version [0] + 3);
        seen [version [0] - 1] = true;
    }
    assert_true (seen [0] && seen [1] && seen [2]);
    pipeline_destroy (&pipeline);
    decoder_destroy (&decoder);
}

//  ---------------------------------------------------------------------------------------------------------
//  Whether the file or the pipeline is at fault

#define AUDIO(more) "[{'op':'decode','as':'audio','dtype':'int16'" more "},{'op':'excerpt','length':4}]"
#define ARRAY(more) "[{'op':'decode','as':'array'," more "}]"

//  A file that one pipeline reads is never bad: any other either reads it too or does not suit it.  A file
//  that no pipeline reads is bad for all, except for those that take bytes as they are.
static void
test_bad_file_or_unsuitable_pipeline (void **state)
{
    (void) state;
    enum { JPEG, PNG, NPY, WAV, PSD, TEXT, EMPTY, FILES };
    static file_t files [FILES];
    static const struct { const char *text; const char *unsuitable [FILES]; bool reads [FILES]; } cases [] = {
        { GOLDEN_PIPELINE, { [NPY] = "a NumPy array", [WAV] = "WAV audio" },
            { [JPEG] = true, [PNG] = true } },
        { "[{'op':'decode','max_pixels':34},{'op':'center_crop','size':2}]",
            { [JPEG] = "more than \"max_pixels\", 34",
            [PNG] = "\"max_pixels\"", [NPY] = "a NumPy array", [WAV] = "WAV audio" }, { false } },
        { "[{'op':'random_crop','size':90},{'share':true}]",
            { [JPEG] = "pad_if_needed", [PNG] = "pad_if_needed",
            [NPY] = "a NumPy array", [WAV] = "WAV audio" }, { false } },
        { ARRAY ("'dtype':'int16','shape':[2,3]"),
            { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [WAV] = "WAV audio" },
            { [NPY] = true } },
        { ARRAY ("'dtype':'int16','shape':[3,2]"),
            { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [WAV] = "WAV audio",
            [NPY] = "shape (2, 3) instead of (3, 2)" }, { false } },
        { ARRAY ("'dtype':'uint16','shape':[2,3]"),
            { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [WAV] = "WAV audio",
            [NPY] = "dtype int16 instead of uint16" }, { false } },
        { AUDIO (""), { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [NPY] = "a NumPy array" },
            { [WAV] = true } },
        { AUDIO (",'rate':8000"), { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [NPY] = "a NumPy array" },
            { [WAV] = true } },
        { AUDIO (",'rate':8001"), { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [NPY] = "a NumPy array",
            [WAV] = "rate: 8000 a second instead of 8001" }, { false } },
        { AUDIO (",'channels':2"), { [JPEG] = "a JPEG image", [PNG] = "a PNG image", [NPY] = "a NumPy array",
            [WAV] = "channels: 1 instead of 2" }, { false } },
        { "[{'op':'decode','as':'bytes','length':92}]", { [JPEG] = "instead of 92", [PNG] = "instead of 92",
            [WAV] = "56 bytes instead of 92", [PSD] = "6 bytes instead of 92", [TEXT] = "instead of 92" },
            { [NPY] = true } },
    };
    s_load (&files [JPEG], "colour_444", "jpg");
    s_load (&files [PNG], "orientation", "png");
    s_make_array (files [NPY].bytes);
    memcpy (files [WAV].bytes, s_wav, sizeof s_wav);
    memcpy (files [PSD].bytes, "8BPS\0\1", 6);
    memcpy (files [TEXT].bytes, "hello, world", 12);
    files [NPY].size = ARRAY_BYTES;
    files [WAV].size = sizeof s_wav;
    files [PSD].size = 6;
    files [TEXT].size = 12;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        for (size_t file = 0; file < FILES; file++) {
            const char *unsuitable = cases [index].unsuitable [file];
            bool is_built = (file != PNG || strstr (decoder_formats (), "PNG"))
                && (file != WAV || strstr (decoder_formats (), "audio"));
            if (is_built)
                s_expect (cases [index].reads [file]? DECODER_OK: unsuitable? DECODER_UNSUITABLE: DECODER_BAD,
                    cases [index].text, files [file].bytes, files [file].size, unsuitable? unsuitable: "");
        }
}

static void
test_formats (void **state)
{
    (void) state;
    const char *formats = decoder_formats ();
    assert_int_equal (strncmp (formats, image_reader_formats (), strlen (image_reader_formats ())), 0);
    s_expect_words (formats, "raw bytes, NumPy .npy");
}

//  ---------------------------------------------------------------------------------------------------------
//  Keys and memory

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

//  All kinds of files, read as images, as masks and with the orientation applied.
static void
test_pictures (void **state)
{
    (void) state;
    static const char *const pngs [] = { "grey_keyed", "keyed", "l", "la", "one", "orientation", "palette",
        "palette4", "rgb", "rgba", "sixteen", "transparent" };
    static const pipeline_source_t fields = { .fields = { { "image", false }, { "mask", true } },
        .count = 2 };
    static const struct { const char *text; const pipeline_source_t *source; bool is_exact; } cases [] = {
        { "[{'op':'random_resized_crop','size':32,'share':true},{'op':'flip'}]", NULL, true },
        { "[{'op':'decode','orientation':true},{'op':'random_resized_crop','size':[9,31],'share':true}]",
            NULL, true },
        { "[{'op':'decode','exact':false},{'op':'random_resized_crop','size':8,'share':true}]", NULL, false },
        { "[{'op':'decode','fields':['image','mask']},{'op':'random_resized_crop','size':8,'share':true}]",
            &fields, true },
        { "[{'op':'decode','fields':['image',{'field':'mask','as':'mask','dtype':'uint16'}]},"
            "{'op':'random_resized_crop','size':8,'share':true}]", &fields, true }
    };
    static file_t file;
    _Alignas (64) static uint8_t version [32 * 32 * 3 + 64];
    char error [ERROR_BYTES];
    size_t kept = 0, files = NAMES + sizeof pngs / sizeof *pngs;
    decoder_t *decoder = decoder_new ();
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const pipeline_t *pipeline;
        if (pipeline_try_on (&pipeline, cases [index].text, cases [index].source, NULL, 0, error))
            fail_msg ("%s: %s", cases [index].text, error);
        assert_int_equal (decoder_picture_kind (pipeline, 0) != DECODER_NO_PICTURE, cases [index].is_exact);
        for (size_t at = 0; at < files; at++) {
            s_load (&file, at < NAMES? s_names [at]: pngs [at - NAMES], at < NAMES? "jpg": "png");
            decoder_file_t both [] = { { .bytes = file.bytes, .size = file.size },
                { .bytes = file.bytes, .size = file.size } };
            decoder_sample_t sample = { .files = both, .warnings_max = UINT32_MAX };
            for (uint64_t seed = 0; seed < 3; seed++) {
                pipeline_key_t key = { .seed = seed, .id = at };
                if (decoder_shared (decoder, pipeline, &key, &sample, version, NULL, error, sizeof error)
                ==  DECODER_OK)
                    kept += from_pictures_compare (decoder, pipeline, &key, &sample);
            }
        }
        pipeline_destroy (&pipeline);
    }
    //  The two kinds of images, and masks of some.
    assert_true (kept > 3 * 2 * files);
    decoder_destroy (&decoder);
}

//  Each view draws for itself, in either stage; what is not random is the same in all.
static void
test_views_differ (void **state)
{
    (void) state;
    static const struct { const char *text; bool differ; } cases [] = {
        { "[{'op':'views','count':2},{'op':'random_resized_crop','size':20},{'share':true}]", true },
        { "[{'op':'center_crop','size':20},{'share':true},{'op':'views','count':2},"
          "{'op':'color_jitter','brightness':0.8}]", true },
        { "[{'op':'random_resized_crop','size':20},{'op':'views','count':2},{'share':true},"
            "{'op':'vertical_flip','p':1}]",
          false },
    };
    static file_t file;
    uint8_t version [2 * 20 * 20 * 3 + 64], one [20 * 20 * 3], two [20 * 20 * 3], *targets [] = { one, two };
    char error [ERROR_BYTES];
    pipeline_key_t key = { .seed = 5 };
    s_load (&file, "colour_444", "jpg");
    decoder_t *decoder = decoder_new ();
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const pipeline_t *pipeline = pipeline_of (cases [index].text);
        assert_int_equal (pipeline_outputs (pipeline), 2);
        assert_int_equal (s_run_keyed (decoder, pipeline, &key, file.bytes, file.size, version, error),
            DECODER_OK);
        assert_true (decoder_private (decoder, pipeline, &key, version, targets));
        assert_int_equal (memcmp (one, two, sizeof one) != 0, cases [index].differ);
        pipeline_destroy (&pipeline);
    }
    decoder_destroy (&decoder);
}

//  What no job wants any more is left, in either stage; the next sample is as ever.
static void
test_abandoned (void **state)
{
    (void) state;
    static const char *const texts [] = {
        "[{'op':'random_resized_crop','size':20},{'op':'gaussian_blur','kernel_size':3,'share':true},"
        "{'share':true},{'op':'views','count':2},{'op':'gaussian_blur','kernel_size':3}]",
        "[{'op':'center_crop','size':[20,30]},{'share':true},{'op':'views','count':2},"
        "{'op':'resize','size':20}]"
    };
    static file_t file;
    uint8_t version [20 * 30 * 3 + 64], before [20 * 30 * 3], target [20 * 30 * 3], other [20 * 30 * 3];
    uint8_t *targets [] = { before, other };
    char error [ERROR_BYTES];
    pipeline_key_t key = { .seed = 5 };
    s_load (&file, "colour_444", "jpg");
    decoder_t *decoder = decoder_new ();
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        const pipeline_t *pipeline = pipeline_of (texts [index]);
        atomic_bool abandoned = false;
        decoder_watch (decoder, &abandoned);
        targets [0] = before;
        assert_int_equal (s_run_keyed (decoder, pipeline, &key, file.bytes, file.size, version, error),
            DECODER_OK);
        assert_true (decoder_private (decoder, pipeline, &key, version, targets));
        atomic_store (&abandoned, true);
        targets [0] = target;
        decoder_file_t whole = { .bytes = file.bytes, .size = file.size };
        decoder_sample_t sample = { .files = &whole, .warnings_max = UINT32_MAX };
        assert_int_equal (decoder_shared (decoder, pipeline, &key, &sample, version, NULL, error,
            sizeof error), DECODER_ABANDONED);
        assert_false (decoder_private (decoder, pipeline, &key, version, targets));
        decoder_watch (decoder, NULL);
        assert_int_equal (s_run_keyed (decoder, pipeline, &key, file.bytes, file.size, version, error),
            DECODER_OK);
        assert_true (decoder_private (decoder, pipeline, &key, version, targets));
        assert_memory_equal (before, target, pipeline_output (pipeline, 0)->bytes);
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

//  Pixels of either stage count.
static void
test_kept_bytes_are_those_of_the_largest (void **state)
{
    (void) state;
    static file_t file;
    static uint8_t version [64 * 64 * 3 + 63], pixels [8 * 8 * 3];
    uint8_t *at = version + (64 - (uintptr_t) version % 64) % 64, *targets [] = { pixels };
    char error [ERROR_BYTES];
    const pipeline_t *pipeline = pipeline_of ("[{'op':'resize','size':[64,64]},{'share':true},"
        "{'op':'resize','size':[500,400]},{'op':'invert'},{'op':'resize','size':[8,8]}]");
    s_load (&file, "colour_444", "jpg");
    decoder_t *decoder = decoder_new ();
    assert_int_equal (decoder_kept_bytes (decoder), 0);
    assert_int_equal (s_run (decoder, pipeline, file.bytes, file.size, at, error), DECODER_OK);
    size_t before = decoder_kept_bytes (decoder);
    assert_in_range (before, 64 * 64, 500 * 400 * 3 - 1);
    assert_true (decoder_private (decoder, pipeline, &(pipeline_key_t) { .seed = 1 }, at, targets));
    assert_in_range (decoder_kept_bytes (decoder), 500 * 400 * 3, 3 * 500 * 400 * 3);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
}

//  Guards: each view's boxes are the file's, moved as that view is, not as the view before.
static void
test_boxes_of_views (void **state)
{
    (void) state;
    enum { HEAD_BYTES = 10, NPY_BYTES = 128, VIEWS = 2, COLUMNS = 5,
        VERSION_BYTES = 20 * 20 * 3 * VIEWS + 512 };
    static const pipeline_source_t source = { .fields = { { "image", false }, { "boxes", false } },
        .count = 2 };
    static const float box [COLUMNS] = { 20, 12, 30, 25, 7 }, moved [COLUMNS] = { 5, 2, 15, 15, 7 };
    _Alignas (64) uint8_t version [VERSION_BYTES];
    uint8_t npy [NPY_BYTES + sizeof box];
    char error [ERROR_BYTES];
    memcpy (npy, "\x93NUMPY\1\0\x76\0", HEAD_BYTES);
    snprintf ((char *) npy + HEAD_BYTES, NPY_BYTES - HEAD_BYTES + 1, "%-117s\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5), }");
    memcpy (npy + NPY_BYTES, box, sizeof box);
    uint64_t random = test_seed ();
    made_file_t made = made_jpeg (&made_kinds [0], HEIGHT, WIDTH, &random);
    decoder_file_t files [] = { { .bytes = made.bytes, .size = made.size },
        { .bytes = npy, .size = sizeof npy } };
    decoder_sample_t sample = { .files = files, .warnings_max = UINT32_MAX };
    pipeline_key_t key = { .seed = 1 };
    const pipeline_t *pipeline = pipeline_on ("[{'op':'decode','fields':['image',{'field':'boxes',"
        "'as':'boxes','shape':[4,5]}]},{'op':'views','count':2},{'op':'center_crop','size':20},"
        "{'share':true}]", &source);
    assert_true (pipeline_version_bytes (pipeline) <= VERSION_BYTES);
    decoder_t *decoder = decoder_new ();
    decoder_status_t status = s_run_files (decoder, pipeline, &key, &sample, version, NULL, error);
    if (status != DECODER_OK)
        fail_msg ("%s", error);
    const plan_t *plan = pipeline_plan (pipeline);
    size_t found = 0;
    for (size_t index = 0; index < plan->plane_count; index++) {
        const uint8_t *plane = version + plan->planes [index].offset;
        int64_t rows;
        if (plan->planes [index].file == 0)
            continue;
        memcpy (&rows, plane, sizeof rows);
        assert_int_equal (rows, 1);
        assert_memory_equal (plane + sizeof rows, moved, sizeof moved);
        found++;
    }
    assert_int_equal (found, VIEWS);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    free (made.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_golden),
        cmocka_unit_test (test_truncated_at_every_length),
        cmocka_unit_test (test_random_damage),
        cmocka_unit_test (test_resize_bombs),
        cmocka_unit_test (test_file_at_fault),
        cmocka_unit_test (test_warnings),
        cmocka_unit_test (test_too_small),
        cmocka_unit_test (test_tensors),
        cmocka_unit_test (test_audio),
        cmocka_unit_test (test_bad_file_or_unsuitable_pipeline),
        cmocka_unit_test (test_formats),
        cmocka_unit_test (test_key_decides), cmocka_unit_test (test_pictures),
        cmocka_unit_test (test_views_differ), cmocka_unit_test (test_boxes_of_views),
        cmocka_unit_test (test_abandoned),
        cmocka_unit_test (test_steady_memory),
        cmocka_unit_test (test_kept_bytes_are_those_of_the_largest)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_pipeline_ragged -- files beside the images: their outputs, their text, and that a sample's images are
 *  what they are without them, wherever the share point is and however many views there are.  */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "pipelines.h"
#include "made_jpeg.h"
#include "decoder.h"
#include "seed.h"

enum { TOKENS_MAX = 12, TEXT_MAX = 9, SIDE = 8, VIEWS = 2, FILES = 4, ROUNDS = 150, NPY_BYTES = 400 };

static const pipeline_source_t s_source = {
    .fields = { { "image", false }, { "tokens", false }, { "text", false }, { "points", false },
        { "tokens_length", false } }, .count = 5
};

#define TOKENS "{'field':'tokens','as':'array','dtype':'int16','shape':[12],'ragged':true}"
#define TEXT "{'field':'text','as':'bytes','length':9,'ragged':true,'truncate':true}"
#define POINTS "{'field':'points','as':'array','dtype':'uint8','shape':[3,2]}"
#define CROP "{'op':'random_resized_crop','size':8}"

static void
s_expect_output (const pipeline_t *self, size_t index, const char *name, dtype_t dtype, size_t bytes,
    bool is_ragged)
{
    const pipeline_output_t *output = pipeline_output (self, index);
    assert_string_equal (output->name, name);
    assert_int_equal (output->dtype, dtype);
    assert_int_equal (output->bytes, bytes);
    assert_int_equal (output->is_ragged, is_ragged);
}

//  Images of all views first; what is ragged has its lengths behind it.
static void
test_outputs (void **state)
{
    (void) state;
    const pipeline_t *self = pipeline_on (
        "[{'op':'decode','fields':['image'," TOKENS "," POINTS "," TEXT "]},"
        "{'op':'views','count':2}," CROP ",{'share':true}]", &s_source);
    assert_int_equal (pipeline_files (self), 4);
    assert_int_equal (pipeline_file (self, 2), 3);
    assert_int_equal (pipeline_outputs (self), 7);
    s_expect_output (self, 0, "image", DTYPE_UINT8, 192, false);
    s_expect_output (self, 1, "image_2", DTYPE_UINT8, 192, false);
    s_expect_output (self, 2, "tokens", DTYPE_INT16, 24, true);
    s_expect_output (self, 3, "tokens_length", DTYPE_INT64, 8, false);
    s_expect_output (self, 4, "points", DTYPE_UINT8, 6, false);
    s_expect_output (self, 5, "text", DTYPE_UINT8, 9, true);
    s_expect_output (self, 6, "text_length", DTYPE_INT64, 8, false);
    assert_int_equal (pipeline_output (self, 3)->dimensions, 0);
    assert_int_equal (pipeline_sample_bytes (self), 2 * 192 + 24 + 8 + 6 + 9 + 8);
    pipeline_destroy (&self);
    //  Boxes follow the views, as images do.
    self = pipeline_on ("[{'op':'decode','fields':['image',{'field':'points','as':'boxes','shape':[3,5]},"
        TEXT "]},{'op':'views','count':2}," CROP ",{'share':true}]", &s_source);
    assert_int_equal (pipeline_outputs (self), 8);
    s_expect_output (self, 1, "image_2", DTYPE_UINT8, 192, false);
    s_expect_output (self, 2, "points", DTYPE_FLOAT32, 60, true);
    s_expect_output (self, 3, "points_length", DTYPE_INT64, 8, false);
    s_expect_output (self, 4, "points_2", DTYPE_FLOAT32, 60, true);
    s_expect_output (self, 5, "points_2_length", DTYPE_INT64, 8, false);
    s_expect_output (self, 6, "text", DTYPE_UINT8, 9, true);
    pipeline_destroy (&self);
    self = pipeline_of ("[{'op':'decode','as':'bytes','length':9,'ragged':true}]");
    assert_int_equal (pipeline_outputs (self), 2);
    s_expect_output (self, 0, "bytes", DTYPE_UINT8, 9, true);
    s_expect_output (self, 1, "bytes_length", DTYPE_INT64, 8, false);
    assert_int_equal (pipeline_version_bytes (self), 17);
    pipeline_destroy (&self);
}

//  What is ragged says so in its text; all else has the text that it always had.
static void
test_texts (void **state)
{
    (void) state;
    static const struct { const char *list; const char *text; } cases [] = {
        { "[{'op':'decode','as':'bytes','length':9,'ragged':false,'truncate':false}]",
          "[{'op':'decode','as':'bytes','length':9},{'share':true}]" },
        { "[{'truncate':true,'ragged':true,'length':9,'as':'bytes','op':'decode'}]",
          "[{'op':'decode','as':'bytes','length':9,'ragged':true,'truncate':true},{'share':true}]" },
        { "[{'op':'decode','fields':[" TOKENS "," TEXT "]}]",
          "[{'op':'decode','as':'image','fields':[" TOKENS "," TEXT "]},{'share':true}]" },
        { "[{'op':'decode','fields':['image'," POINTS "]},{'op':'center_crop','size':8},{'share':true}]",
          "[{'op':'decode','as':'image','fields':['image'," POINTS "],'exact':true,'orientation':false},"
          "{'op':'center_crop','size':[8,8]},{'share':true}]" },
        { "[{'op':'decode','fields':['image',{'field':'points','as':'boxes','shape':[3,4],'truncate':true}]},"
          "{'op':'center_crop','size':8}]",
          "[{'op':'decode','as':'image','fields':['image',{'field':'points','as':'boxes','shape':[3,4],"
          "'min_size':1,'truncate':true}],'exact':true,'orientation':false},"
          "{'op':'center_crop','size':[8,8]},{'share':true}]" },
        { "[{'op':'decode','fields':['image',{'field':'points','as':'boxes','shape':[3,9],'min_size':0.1}]},"
          "{'op':'center_crop','size':8}]",
          "[{'op':'decode','as':'image','fields':['image',{'field':'points','as':'boxes','shape':[3,9],"
          "'min_size':0.1}],'exact':true,'orientation':false},{'op':'center_crop','size':[8,8]},"
          "{'share':true}]" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const pipeline_t *self = pipeline_on (cases [index].list, &s_source);
        assert_string_equal (pipeline_text (self), quoted (cases [index].text));
        const pipeline_t *again = pipeline_on (pipeline_text (self), &s_source);
        assert_string_equal (pipeline_text (again), pipeline_text (self));
        pipeline_destroy (&again);
        pipeline_destroy (&self);
    }
}

//  As many files as there may be, with the longest names and numbers: as many outputs as there may be.
static void
test_longest (void **state)
{
    (void) state;
    static char names [PIPELINE_FIELDS_MAX] [PIPELINE_NAME_BYTES_MAX + 1];
    pipeline_source_t source = { .count = PIPELINE_FIELDS_MAX };
    json_t *fields = json_array ();
    for (size_t field = 0; field < PIPELINE_FIELDS_MAX; field++) {
        memset (names [field], (int) ('a' + field), PIPELINE_NAME_BYTES_MAX);
        source.fields [field].name = names [field];
        json_array_append_new (fields, json_pack ("{s:s, s:s, s:s, s:[i,i,i,i], s:b, s:b}", "field",
            names [field], "as", "array", "dtype", "float32", "shape", 1 << 20, 1, 1, 1, "ragged", 1,
            "truncate", 1));
    }
    json_t *list = json_pack ("[{s:s, s:o}]", "op", "decode", "fields", fields);
    char error [ERROR_BYTES];
    const pipeline_t *self;
    assert_int_equal (pipeline_new (&self, list, &source, NULL, 0, error, sizeof error), 0);
    assert_int_equal (pipeline_outputs (self), PIPELINE_OUTPUTS_MAX);
    assert_int_equal (strlen (pipeline_output (self, 15)->name), PIPELINE_NAME_BYTES_MAX + 7);
    const pipeline_t *again = pipeline_on (pipeline_text (self), &source);
    assert_string_equal (pipeline_text (self), pipeline_text (again));
    pipeline_destroy (&again);
    pipeline_destroy (&self);
    json_decref (list);
    assert_int_equal (pipeline_try_on (&self, "[{'op':'decode','fields':[" TOKENS ",{'field':'tokens_length',"
        "'as':'bytes','length':1}]}]", &s_source, NULL, 0, error), -EINVAL);
    assert_non_null (strstr (error, "operation 1 (decode): makes a second array \"tokens_length\""));
}

//  ---------------------------------------------------------------------------------------------------------
//  Samples

typedef struct {
    decoder_file_t files [FILES];       //  image, tokens, text, points
    uint8_t tokens [NPY_BYTES], points [NPY_BYTES];
    int16_t numbers [2 * TOKENS_MAX];
    char text [2 * TEXT_MAX];
    uint32_t count, letters;
} sample_t;

static size_t
s_npy (uint8_t *target, const char *descr, const char *shape, const void *items, size_t bytes)
{
    memcpy (target, "\x93NUMPY\x01\x00", 8);
    int length = snprintf ((char *) target + 10, NPY_BYTES - 10,
        "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    target [8] = (uint8_t) length;
    target [9] = 0;
    if (bytes)
        memcpy (target + 10 + length, items, bytes);
    return (size_t) length + 10 + bytes;
}

static void
s_make_sample (sample_t *self, uint32_t count, uint32_t letters, const made_file_t *image, uint64_t *random)
{
    char shape [20];
    *self = (sample_t) { .count = count, .letters = letters };
    for (uint32_t index = 0; index < count; index++)
        self->numbers [index] = (int16_t) test_below (random, 65536);
    for (uint32_t index = 0; index < letters; index++)
        self->text [index] = (char) ('a' + test_below (random, 26));
    snprintf (shape, sizeof shape, "(%u,)", count);
    size_t tokens = s_npy (self->tokens, "<i2", shape, self->numbers, count * sizeof (int16_t));
    size_t points = s_npy (self->points, "|u1", "(3, 2)", "\1\2\3\4\5\6", 6);
    self->files [0] = (decoder_file_t) { .bytes = image->bytes, .size = image->size };
    self->files [1] = (decoder_file_t) { .bytes = self->tokens, .size = tokens };
    self->files [2] = (decoder_file_t) { .bytes = (const uint8_t *) self->text, .size = letters };
    self->files [3] = (decoder_file_t) { .bytes = self->points, .size = points };
}

//  Both stages; targets have PIPELINE_OUTPUTS_MAX x 256 bytes.
static decoder_status_t
s_run (decoder_t *decoder, const pipeline_t *pipeline, uint64_t id, const decoder_file_t *files,
    uint8_t targets [PIPELINE_OUTPUTS_MAX] [256], size_t *file_p, char error [ERROR_BYTES])
{
    pipeline_key_t key = { .seed = 7, .round = 3, .id = id };
    decoder_sample_t sample = { .files = files, .warnings_max = UINT32_MAX };
    uint8_t *version = aligned_alloc (64, (pipeline_version_bytes (pipeline) + 63) / 64 * 64);
    memset (version, 0xaa, pipeline_version_bytes (pipeline));
    uint8_t *places [PIPELINE_OUTPUTS_MAX];
    for (size_t output = 0; output < PIPELINE_OUTPUTS_MAX; output++)
        places [output] = targets [output];
    decoder_status_t status = decoder_shared (decoder, pipeline, &key, &sample, version, file_p, error,
        ERROR_BYTES);
    if (!status)
        assert_true (decoder_private (decoder, pipeline, &key, version, places));
    free (version);
    return status;
}

static void
s_expect_rows (const uint8_t *target, const void *items, size_t bytes, size_t room)
{
    uint8_t expected [256] = { 0 };
    memcpy (expected, items, bytes);
    assert_memory_equal (target, expected, room);
}

static void
s_expect_length (const uint8_t *target, int64_t expected)
{
    int64_t length;
    memcpy (&length, target, sizeof length);
    assert_int_equal (length, expected);
}

#define WITH "[{'op':'decode','fields':['image'," TOKENS "," TEXT "," POINTS "]},"
#define ALONE "[{'op':'decode','fields':['image']},"
#define SHARE "{'share':true},"
static const char *const s_rest [] = {
    "{'op':'resize','size':[20,20]}," SHARE "{'op':'views','count':2}," CROP ",{'op':'flip'}]",
    "{'op':'views','count':2}," CROP "," SHARE "{'op':'flip'}]",
    "{'op':'views','count':2}," CROP ",{'op':'flip'},{'share':true}]",
};
enum { RESTS = sizeof s_rest / sizeof *s_rest };

static const pipeline_t *
s_pipeline (const char *begin, const char *rest)
{
    char text [1000];
    snprintf (text, sizeof text, "%s%s", begin, rest);
    return pipeline_on (text, &s_source);
}

//  Beside the images as they are alone, and the rows that were written into the files.
static void
test_samples (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    decoder_t *decoder = decoder_new ();
    const pipeline_t *with [RESTS], *alone [RESTS];
    for (size_t rest = 0; rest < RESTS; rest++) {
        with [rest] = s_pipeline (WITH, s_rest [rest]);
        alone [rest] = s_pipeline (ALONE, s_rest [rest]);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        static sample_t sample;
        static uint8_t found [PIPELINE_OUTPUTS_MAX] [256], images [PIPELINE_OUTPUTS_MAX] [256];
        char error [ERROR_BYTES];
        size_t file = 99, rest = round % RESTS;
        made_file_t image = made_jpeg (&made_kinds [round % 3], 20 + (uint32_t) test_below (&random, 30),
            20 + (uint32_t) test_below (&random, 30), &random);
        s_make_sample (&sample, (uint32_t) test_below (&random, TOKENS_MAX + 3),
            (uint32_t) test_below (&random, TEXT_MAX + 4), &image, &random);
        decoder_status_t status = s_run (decoder, with [rest], round, sample.files, found, &file, error);
        assert_int_equal (s_run (decoder, alone [rest], round, sample.files, images, NULL, error),
            DECODER_OK);
        if (sample.count > TOKENS_MAX) {
            assert_int_equal (status, DECODER_UNSUITABLE);
            assert_int_equal (file, 1);
        }
        else {
            uint32_t letters = sample.letters < TEXT_MAX? sample.letters: TEXT_MAX;
            assert_int_equal (status, DECODER_OK);
            for (size_t view = 0; view < VIEWS; view++)
                if (memcmp (found [view], images [view], SIDE * SIDE * 3))
                    fail_msg ("seed %" PRIu64 ", round %zu: other pixels in view %zu", test_seed (), round,
                        view);
            s_expect_rows (found [2], sample.numbers, sample.count * 2, TOKENS_MAX * 2);
            s_expect_length (found [3], sample.count);
            s_expect_rows (found [4], sample.text, letters, TEXT_MAX);
            s_expect_length (found [5], letters);
            assert_memory_equal (found [6], "\1\2\3\4\5\6", 6);
        }
        free (image.bytes);
    }
    for (size_t rest = 0; rest < RESTS; rest++) {
        pipeline_destroy (&with [rest]);
        pipeline_destroy (&alone [rest]);
    }
    decoder_destroy (&decoder);
}

//  The file at fault is named, whichever it is; and without images there is nothing to be learned or sized.
static void
test_faults (void **state)
{
    (void) state;
    static sample_t sample;
    static uint8_t targets [PIPELINE_OUTPUTS_MAX] [256];
    uint64_t random = test_seed ();
    decoder_t *decoder = decoder_new ();
    const pipeline_t *pipeline = pipeline_on ("[{'op':'decode','fields':[" TOKENS "," TEXT "," POINTS "]}]",
        &s_source);
    const made_file_t none = { NULL, 0 };
    char error [ERROR_BYTES];
    for (size_t fault = 0; fault < 3; fault++) {
        size_t file = 99;
        s_make_sample (&sample, 5, 3, &none, &random);
        assert_int_equal (s_run (decoder, pipeline, 1, sample.files + 1, targets, &file, error), DECODER_OK);
        if (fault == 1)                             //  a text can have no fault but its length, and is cut
            continue;
        sample.files [1 + fault].size--;
        assert_int_equal (s_run (decoder, pipeline, 1, sample.files + 1, targets, &file, error), DECODER_BAD);
        assert_int_equal (file, fault);
        assert_non_null (strstr (error, "truncated .npy"));
    }
    const uint8_t *rows;
    assert_int_equal (decoder_learned (decoder, &rows), 0);
    uint32_t height = 9, width = 9;
    decoder_sample_t whole = { .files = sample.files + 1, .warnings_max = UINT32_MAX };
    assert_int_equal (decoder_size (decoder, pipeline, &whole, &height, &width, error, sizeof error),
        DECODER_OK);
    assert_true (height == 0 && width == 0);
    pipeline_destroy (&pipeline);
    decoder_destroy (&decoder);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_outputs),
        cmocka_unit_test (test_texts),
        cmocka_unit_test (test_longest),
        cmocka_unit_test (test_samples),
        cmocka_unit_test (test_faults),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

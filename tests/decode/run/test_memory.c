/*  test_memory -- every allocation of ours fails once, in turn: a status, no leak, and the decoder is as good
 *  as before; and in the steady state there is none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "failing_memory.h"
#include "pipelines.h"
#include "made_jpeg.h"
#include "decoder.h"
#include "image_reader.h"

//  ---------------------------------------------------------------------------------------------------------
//  Samples and what becomes of them

enum { FILES = 2, VERSION_BYTES_MAX = 1 << 16, OUTPUT_BYTES_MAX = 1 << 15, OUTPUTS = 4 };

static const pipeline_source_t s_source = { .fields = { { "image", false }, { "mask", true } }, .count = 2 };

//  Every kind of operation, every buffer: rooms, rows, both filters, two readers, views in either stage.
#define JITTER "{'op':'color_jitter','contrast':0.5,'saturation':0.5,'share':true}"
static const char *const s_lists [] = {
    "[{'op':'decode','fields':['image','mask']},{'op':'pad','padding':4,'mode':'edge'},"
        "{'op':'resize','size':40}," JITTER ",{'op':'views','count':2},"
        "{'op':'random_crop','size':33,'padding':9,'mode':'reflect'},{'op':'flip','p':1},"
        "{'op':'random_resized_crop','size':31,'interpolation':'bicubic'},{'share':true},{'op':'flip'}]",
    "[{'op':'decode','fields':['image','mask'],'max_pixels':5000},{'share':true},{'op':'pad','padding':3},"
        "{'op':'views','count':2}," JITTER ",{'op':'resize','size':[50,45]},{'op':'vertical_flip','p':1},"
        "{'op':'center_crop','size':[60,30]},{'op':'normalize'},{'op':'layout','layout':'NCHW'}]",
    "[{'op':'views','count':10,'stack':true},{'op':'corner_crop','size':20},{'share':true},{'op':'flip'}]",
    "[{'op':'random_resized_crop','size':31},{'share':true},{'op':'flip'}," JITTER "]",
    "[{'op':'decode','max_pixels':5000},{'op':'pillow_gaussian_blur','share':true},{'share':true},"
        "{'op':'views','count':2},{'op':'aug_mix'},{'op':'resize','size':[50,45]},"
        "{'op':'pillow_gaussian_blur','radius':[1,3]},{'op':'random_perspective','p':1},"
        "{'op':'elastic_transform'}]",
};
enum { LISTS = sizeof s_lists / sizeof *s_lists };

typedef struct {
    made_file_t made [FILES];
    decoder_file_t files [FILES];
    _Alignas (64) uint8_t version [VERSION_BYTES_MAX];
    uint8_t outputs [OUTPUTS] [OUTPUT_BYTES_MAX];
} sample_t;

static void
s_make (sample_t *self, uint64_t *random, uint32_t height, uint32_t width)
{
    static const int kinds [FILES] = { MADE_KIND_420, MADE_KIND_GREY };
    for (int file = 0; file < FILES; file++) {
        self->made [file] = made_jpeg (&made_kinds [kinds [file]], height, width, random);
        self->files [file] = (decoder_file_t) { .bytes = self->made [file].bytes,
            .size = self->made [file].size };
    }
}

static void
s_free (sample_t *self)
{
    for (int file = 0; file < FILES; file++)
        free (self->made [file].bytes);
}

//  Both stages; false: one had no memory.
static bool
s_run (decoder_t *decoder, const pipeline_t *pipeline, sample_t *sample)
{
    char error [ERROR_BYTES];
    pipeline_key_t key = { .seed = 1 };
    decoder_sample_t files = { .files = sample->files, .warnings_max = UINT32_MAX };
    uint8_t *targets [PIPELINE_OUTPUTS_MAX];
    assert_true (pipeline_version_bytes (pipeline) <= VERSION_BYTES_MAX);
    assert_true (pipeline_outputs (pipeline) <= OUTPUTS);
    for (size_t output = 0; output < pipeline_outputs (pipeline); output++) {
        assert_true (pipeline_output (pipeline, output)->bytes <= OUTPUT_BYTES_MAX);
        targets [output] = sample->outputs [output];
    }
    decoder_status_t status = decoder_shared (decoder, pipeline, &key, &files, sample->version, NULL, error,
        sizeof error);
    if (status == DECODER_BAD || status == DECODER_UNSUITABLE)
        fail_msg ("%s", error);
    if (status == DECODER_NO_MEMORY && !strstr (error, "not enough memory"))
        fail_msg ("\"%s\" does not name the want of memory", error);
    return status == DECODER_OK && decoder_private (decoder, pipeline, &key, sample->version, targets);
}

static void
s_compare (const pipeline_t *pipeline, const sample_t *made, const sample_t *expected)
{
    for (size_t output = 0; output < pipeline_outputs (pipeline); output++)
        assert_memory_equal (made->outputs [output], expected->outputs [output],
            pipeline_output (pipeline, output)->bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  The sweep

//  Allocation countdown of pipeline_new, decoder_new and both stages fails; true if there was such a one.
static bool
s_sweep_step (int countdown, const char *text, sample_t *sample, const sample_t *expected)
{
    char error [ERROR_BYTES];
    json_t *list = json_loads (quoted (text), 0, NULL);
    const pipeline_t *pipeline;
    failing_countdown = countdown;
    int rc = pipeline_new (&pipeline, list, &s_source, NULL, 0, error, sizeof error);
    decoder_t *decoder = decoder_new ();
    bool good = rc || !decoder || s_run (decoder, pipeline, sample);
    bool hit = failing_countdown == 0;
    failing_countdown = 0;
    assert_int_equal (hit, rc || !decoder || !good);
    assert_true (rc == 0 || (rc == -ENOMEM && !pipeline && strstr (error, "not enough memory")));
    if (rc == 0 && decoder) {
        assert_true (s_run (decoder, pipeline, sample));
        s_compare (pipeline, sample, expected);
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    json_decref (list);
    return hit;
}

static void
s_sweep (const char *text, sample_t *sample)
{
    static sample_t expected;
    const pipeline_t *pipeline = pipeline_on (text, &s_source);
    decoder_t *decoder = decoder_new ();
    assert_true (s_run (decoder, pipeline, sample));
    memcpy (expected.outputs, sample->outputs, sizeof sample->outputs);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    int countdown = 1;
    while (s_sweep_step (countdown, text, sample, &expected))
        countdown++;
    //  The sweep went through something: the pipeline, the decoder, a reader, what they hold.
    assert_true (countdown > 8);
}

static void
test_each_allocation_fails_once (void **state)
{
    (void) state;
    static sample_t sample;
    uint64_t random = test_seed ();
    s_make (&sample, &random, 60, 70);
    for (int index = 0; index < LISTS; index++)
        s_sweep (s_lists [index], &sample);
    s_free (&sample);
}

//  The rows of an image are those that they are, or there is no memory: a pack has the same bytes wherever it
//  is made.
static void
test_rows_do_not_depend_on_memory (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg (&made_kinds [MADE_KIND_420], 200, 300, &random);
    image_reader_t *reader = image_reader_new ();
    const uint8_t *lent;
    size_t size, found;
    assert_int_equal (image_reader_rows (reader, file.bytes, file.size, &lent, &size), 0);
    assert_true (size > 0);
    uint8_t *expected = malloc (size);
    memcpy (expected, lent, size);
    image_reader_destroy (&reader);
    bool is_hit = true;
    for (int countdown = 1; is_hit; countdown++) {
        reader = image_reader_new ();
        failing_countdown = countdown;
        int rc = image_reader_rows (reader, file.bytes, file.size, &lent, &found);
        is_hit = failing_countdown == 0;
        failing_countdown = 0;
        assert_int_equal (rc, is_hit? -ENOMEM: 0);
        assert_int_equal (found, is_hit? 0: size);
        assert_int_equal (image_reader_rows (reader, file.bytes, file.size, &lent, &found), 0);
        assert_int_equal (found, size);
        assert_memory_equal (lent, expected, size);
        image_reader_destroy (&reader);
    }
    free (expected);
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  The steady state

static void
test_steady_state_allocates_nothing (void **state)
{
    (void) state;
    enum { SAMPLES = 4, ROUNDS = 100 };
    static sample_t samples [SAMPLES];
    uint64_t random = test_seed ();
    for (uint32_t index = 0; index < SAMPLES; index++)
        s_make (&samples [index], &random, 60 - index, 60 + index);
    decoder_t *decoder = decoder_new ();
    for (int index = 0; index < LISTS; index++) {
        const pipeline_t *pipeline = pipeline_on (s_lists [index], &s_source);
        uint64_t settled = 0;
        for (int round = -SAMPLES; round < ROUNDS; round++) {
            assert_true (s_run (decoder, pipeline, &samples [(round + SAMPLES) % SAMPLES]));
            settled = round < 0? failing_count: settled;
        }
        assert_int_equal (failing_count, settled);
        pipeline_destroy (&pipeline);
    }
    decoder_destroy (&decoder);
    for (int index = 0; index < SAMPLES; index++)
        s_free (&samples [index]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_each_allocation_fails_once),
        cmocka_unit_test (test_rows_do_not_depend_on_memory),
        cmocka_unit_test (test_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_memory -- every allocation of ours fails once, in turn: a status, no leak, and the decoder is as good as
 *  before.
 *
 *  The linker puts the functions below in the place of malloc and calloc for our own code, not for libraries'.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pipelines.h"
#include "decoder.h"

void *__real_malloc (size_t bytes);
void *__real_calloc (size_t count, size_t bytes);
void *__wrap_malloc (size_t bytes);
void *__wrap_calloc (size_t count, size_t bytes);

//  Allocations until the one that fails; 0: none does.
static int s_countdown;

static bool
s_fails (void)
{
    if (s_countdown == 0 || --s_countdown > 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *
__wrap_malloc (size_t bytes)
{
    return s_fails ()? NULL: __real_malloc (bytes);
}

void *
__wrap_calloc (size_t count, size_t bytes)
{
    return s_fails ()? NULL: __real_calloc (count, bytes);
}

typedef struct {
    uint8_t bytes [4096];
    size_t size;
} file_t;

static void
s_load (file_t *self, const char *name)
{
    char path [1000];
    const char *source = getenv ("TUREEN_SOURCE");
    snprintf (path, sizeof path, "%s/tests/decode/golden/%s.jpg", source? source: ".", name);
    FILE *file = fopen (path, "rb");
    if (!file)
        fail_msg ("%s: not there (TUREEN_SOURCE names the source folder)", path);
    self->size = fread (self->bytes, 1, sizeof self->bytes, file);
    fclose (file);
}

enum { VERSION_BYTES = 31 * 31 * 3 };
//  Every kind of operation and both buffers between them.
#define LIST "[{'op':'resize','size':40},{'op':'flip','p':1},{'op':'resize','size':35}," \
    "{'op':'flip','p':1},{'op':'center_crop','size':33},{'op':'random_resized_crop','size':31}," \
    "{'share':true}]"

static decoder_status_t
s_run (decoder_t *decoder, const pipeline_t *pipeline, const file_t *file, uint8_t *version)
{
    char error [ERROR_BYTES];
    pipeline_key_t key = { .seed = 1 };
    decoder_status_t status = decoder_run (decoder, pipeline, &key, file->bytes, file->size, version,
        error, sizeof error);
    if (status == DECODER_NO_MEMORY && !strstr (error, "not enough memory"))
        fail_msg ("\"%s\" does not name the want of memory", error);
    return status;
}

//  Allocation countdown of pipeline_new, decoder_new and decoder_run fails; true if there was such a one.
static bool
s_sweep_step (int countdown, const file_t *file, const uint8_t *expected)
{
    char error [ERROR_BYTES];
    uint8_t version [VERSION_BYTES];
    json_t *list = json_loads (quoted (LIST), 0, NULL);
    const pipeline_t *pipeline;
    s_countdown = countdown;
    int rc = pipeline_new (&pipeline, list, error, sizeof error);
    decoder_t *decoder = decoder_new ();
    decoder_status_t status = DECODER_OK;
    if (rc == 0 && decoder)
        status = s_run (decoder, pipeline, file, version);
    bool hit = s_countdown == 0;
    s_countdown = 0;
    assert_int_equal (hit, rc || !decoder || status == DECODER_NO_MEMORY);
    assert_true (rc == 0 || (rc == -ENOMEM && !pipeline && strstr (error, "not enough memory")));
    if (rc == 0 && decoder) {
        assert_int_equal (s_run (decoder, pipeline, file, version), DECODER_OK);
        assert_memory_equal (version, expected, VERSION_BYTES);
    }
    decoder_destroy (&decoder);
    const pipeline_t *held = pipeline;
    pipeline_destroy (&held);
    json_decref (list);
    return hit;
}

static void
test_each_allocation_fails_once (void **state)
{
    (void) state;
    static const char *const names [] = { "colour_420", "cmyk" };
    for (int name = 0; name < 2; name++) {
        file_t file;
        uint8_t expected [VERSION_BYTES];
        s_load (&file, names [name]);
        const pipeline_t *pipeline = pipeline_of (LIST);
        decoder_t *decoder = decoder_new ();
        assert_int_equal (s_run (decoder, pipeline, &file, expected), DECODER_OK);
        decoder_destroy (&decoder);
        pipeline_destroy (&pipeline);
        int countdown = 1;
        while (s_sweep_step (countdown, &file, expected))
            countdown++;
        //  The sweep went through something: three objects, two image buffers, the weights, the rows.
        assert_true (countdown > 12);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_each_allocation_fails_once) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

//  The golden samples of a worker's handshake: each is decoded, not only refused alike, and random operations
//  depend on the number.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "build_check.h"

static size_t s_decoded, s_failed;

decoder_status_t __real_decoder_shared (decoder_t *self, const pipeline_t *pipeline,
    const pipeline_key_t *key, const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error,
    size_t error_bytes);
decoder_status_t __wrap_decoder_shared (decoder_t *self, const pipeline_t *pipeline,
    const pipeline_key_t *key, const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error,
    size_t error_bytes);
decoder_status_t
__wrap_decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error, size_t error_bytes)
{
    decoder_status_t status = __real_decoder_shared (self, pipeline, key, sample, version, file_p, error,
        error_bytes);
    if (status == DECODER_OK)
        s_decoded++;
    else {
        s_failed++;
        print_error ("%s\n", error);
    }
    return status;
}

static void
they_depend_on_the_number (void **state)
{
    (void) state;
    uint64_t one [BUILD_CHECK_SAMPLES], again [BUILD_CHECK_SAMPLES], other [BUILD_CHECK_SAMPLES];
    decoder_t *decoder = decoder_new ();
    assert_true (build_check_make (decoder, 1, one));
    assert_int_equal (s_failed, 0);
    assert_int_equal (s_decoded, BUILD_CHECK_SAMPLES);
    assert_true (build_check_make (decoder, 1, again) && build_check_make (decoder, 2, other));
    assert_memory_equal (one, again, sizeof one);
    size_t differing = 0;
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        differing += one [index] != other [index];
    assert_int_equal (differing, BUILD_CHECK_SAMPLES - 2);           //  but for the inexact one and the array
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        for (size_t before = 0; before < index; before++)
            assert_true (one [index] != one [before]);
    decoder_destroy (&decoder);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (they_depend_on_the_number) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

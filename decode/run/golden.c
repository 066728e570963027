#include "golden.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include "golden_files.h"

enum { ALIGNMENT = 64, ERROR_BYTES = 256, DIGEST_BYTES = 16 };

#define CROP "[{\"op\":\"random_resized_crop\",\"size\":[24,28]},{\"op\":\"flip\"},{\"share\":true}]"
#define COLOUR "[{\"op\":\"resize\",\"size\":[17,23],\"interpolation\":\"bicubic\"}," \
    "{\"op\":\"color_jitter\",\"brightness\":0.4,\"contrast\":0.4,\"saturation\":0.4,\"hue\":0.2}," \
    "{\"share\":true}]"
#define POINTS "[{\"op\":\"resize\",\"size\":[19,22]},{\"op\":\"random_apply\",\"count\":1}," \
    "{\"op\":\"color_jitter\",\"contrast\":0.5},{\"op\":\"equalize\"}," \
    "{\"op\":\"adjust_sharpness\",\"factor\":2.5},{\"op\":\"autocontrast\"}," \
    "{\"op\":\"solarize\",\"threshold\":99.5},{\"op\":\"posterize\",\"bits\":5}," \
    "{\"op\":\"invert\"},{\"op\":\"gaussian_blur\",\"kernel_size\":[7,5]}," \
    "{\"op\":\"pillow_gaussian_blur\"},{\"share\":true}]"
#define MAPS "[{\"op\":\"resize\",\"size\":[26,29]}," \
    "{\"op\":\"random_rotation\",\"degrees\":180,\"interpolation\":\"bilinear\",\"expand\":true}," \
    "{\"op\":\"random_affine\",\"degrees\":20,\"translate\":[0.2,0.1],\"scale\":[0.7,1.4]," \
    "\"shear\":[-9,9,-9,9],\"fill\":[9,99,200]},{\"op\":\"random_perspective\",\"p\":1}," \
    "{\"op\":\"elastic_transform\",\"alpha\":90},"\
    "{\"op\":\"center_crop\",\"size\":24},{\"share\":true}]"
#define POLICIES "[{\"op\":\"rand_augment\",\"num_ops\":4},{\"op\":\"trivial_augment_wide\"}," \
    "{\"op\":\"auto_augment\",\"interpolation\":\"bilinear\"},{\"op\":\"aug_mix\"}," \
    "{\"op\":\"resize\",\"size\":[23,21]},{\"share\":true}]"
#define FAST "[{\"op\":\"decode\",\"exact\":false},{\"op\":\"resize\",\"size\":[12,14]},{\"share\":true}]"
#define ARRAY "[{\"op\":\"decode\",\"as\":\"array\",\"dtype\":\"float32\",\"shape\":[2,12]},{\"share\":true}]"
#define AUDIO "[{\"op\":\"decode\",\"as\":\"audio\",\"rate\":8000}," \
    "{\"op\":\"excerpt\",\"length\":64,\"place\":\"random\"},{\"share\":true}]"

#ifdef TUREEN_SOXR
#define RESAMPLED "[{\"op\":\"decode\",\"as\":\"audio\",\"rate\":11025,\"resample\":true}," \
    "{\"op\":\"excerpt\",\"length\":64,\"place\":\"random\"},{\"share\":true}]"
#else
#define RESAMPLED AUDIO
#endif

typedef struct {
    const char *name, *pipeline;
    const uint8_t *bytes;
    size_t size;
} sample_t;

#define FILE_OF(array) (array), sizeof (array)
static const sample_t s_samples [GOLDEN_SAMPLES] = {
    { "JPEG, random crop", CROP, FILE_OF (s_baseline) },
    { "JPEG, colours", COLOUR, FILE_OF (s_baseline) },
    { "JPEG, point operations", POINTS, FILE_OF (s_baseline) },
    { "JPEG, affine maps", MAPS, FILE_OF (s_baseline) },
    { "JPEG, augmentation policies", POLICIES, FILE_OF (s_baseline) },
    { "JPEG, inexact", FAST, FILE_OF (s_baseline) },
    { "progressive JPEG, random crop", CROP, FILE_OF (s_progressive) },
    { "progressive JPEG, colours", COLOUR, FILE_OF (s_progressive) },
    { "grey JPEG, random crop", CROP, FILE_OF (s_grey) },
    { "PNG, random crop", CROP, FILE_OF (s_png) },
    { "PNG, colours", COLOUR, FILE_OF (s_png) },
    { "array", ARRAY, FILE_OF (s_array) },
    { "audio, random excerpt", AUDIO, FILE_OF (s_wave) },
    { "audio, resampled", RESAMPLED, FILE_OF (s_wave) }
};

const char *
golden_name (size_t index)
{
    assert (index < GOLDEN_SAMPLES);
    return s_samples [index].name;
}

static uint64_t
s_digest (const void *bytes, size_t size)
{
    uint8_t digest [DIGEST_BYTES];
    uint64_t number;
    crypto_generichash (digest, sizeof digest, bytes, size, NULL, 0);
    memcpy (&number, digest, sizeof number);
    return number;
}

static bool
s_decode (decoder_t *decoder, const sample_t *golden, const pipeline_t *pipeline, uint64_t nonce,
    uint64_t *digest_p)
{
    size_t bytes = pipeline_version_bytes (pipeline), room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *version = aligned_alloc (ALIGNMENT, room);
    if (!version)
        return false;
    memset (version, 0, room);
    char error [ERROR_BYTES];
    decoder_file_t file = { .bytes = golden->bytes, .size = golden->size };
    decoder_sample_t sample = { .files = &file, .warnings_max = 0 };
    pipeline_key_t key = { .seed = nonce, .round = 1, .id = (uint64_t) (golden - s_samples) };
    decoder_status_t status = decoder_shared (decoder, pipeline, &key, &sample, version, NULL, error,
        sizeof error);
    *digest_p = status == DECODER_OK? s_digest (version, bytes): s_digest (error, strlen (error));
    free (version);
    return status != DECODER_NO_MEMORY;
}

bool
golden_make (decoder_t *decoder, uint64_t nonce, uint64_t digests [GOLDEN_SAMPLES])
{
    for (size_t index = 0; index < GOLDEN_SAMPLES; index++) {
        const pipeline_t *pipeline;
        char error [ERROR_BYTES];
        json_t *list = json_loads (s_samples [index].pipeline, 0, NULL);
        int rc = list? pipeline_new (&pipeline, list, NULL, NULL, 0, error, sizeof error): -1;
        json_decref (list);
        bool good = rc == 0 && s_decode (decoder, &s_samples [index], pipeline, nonce, &digests [index]);
        //  A pipeline that this build does not know: what it says of it differs from any version.
        if (list && rc && strlen (error)) {
            digests [index] = s_digest (error, strlen (error));
            good = true;
        }
        if (rc == 0)
            pipeline_destroy (&pipeline);
        if (!good)
            return false;
    }
    return true;
}

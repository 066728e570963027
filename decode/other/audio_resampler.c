#include "audio_resampler.h"
#include <assert.h>
#include <stdlib.h>
#include <soxr.h>

enum { AUDIO_RESAMPLER_MAGIC = 0x72736d70 };

struct audio_resampler {
    uint32_t magic;
    soxr_t soxr;
};

audio_resampler_t *
audio_resampler_new (uint32_t from_rate, uint32_t to_rate, uint32_t channels)
{
    assert (from_rate > 0 && to_rate > 0 && channels > 0);
    audio_resampler_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = AUDIO_RESAMPLER_MAGIC;
    soxr_quality_spec_t quality = soxr_quality_spec (SOXR_HQ, 0);
    soxr_io_spec_t numbers = soxr_io_spec (SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    soxr_runtime_spec_t threads = soxr_runtime_spec (1);
    soxr_error_t error = NULL;
    self->soxr = soxr_create (from_rate, to_rate, channels, &error, &numbers, &quality, &threads);
    if (!self->soxr || error)
        audio_resampler_destroy (&self);
    return self;
}

void
audio_resampler_destroy (audio_resampler_t **self_p)
{
    assert (self_p);
    audio_resampler_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == AUDIO_RESAMPLER_MAGIC);
    if (self->soxr)
        soxr_delete (self->soxr);
    self->magic = 0;
    free (self);
}

uint64_t
audio_resampler_frames (uint64_t frames, uint32_t from_rate, uint32_t to_rate)
{
    unsigned __int128 scaled = (unsigned __int128) frames * to_rate;
    return (uint64_t) ((scaled + from_rate / 2) / from_rate);
}

size_t
audio_resampler_run (audio_resampler_t *self, const float *frames, size_t count, size_t *taken_p,
    float *target, size_t room)
{
    assert (self->magic == AUDIO_RESAMPLER_MAGIC);
    size_t made = 0;
    *taken_p = 0;
    soxr_error_t error = soxr_process (self->soxr, count? frames: NULL, count, taken_p, target, room, &made);
    return error? UINT32_MAX: made;
}

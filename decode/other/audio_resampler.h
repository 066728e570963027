/*  audio_resampler -- frames of one rate to frames of another, by libsoxr in its quality HQ, floats.
 *
 *  A stream: of all frames from the first on comes what soxr makes of the whole, whatever the pieces are;
 *  soxr.resample of Python's package of that name makes the same.
 *  Owner: one thread.
 */
#ifndef AUDIO_RESAMPLER_H
#define AUDIO_RESAMPLER_H
#include <stddef.h>
#include <stdint.h>

enum { AUDIO_RESAMPLER_FACTOR_MAX = 256 };      //  from one rate to the other, up or down

typedef struct audio_resampler audio_resampler_t;

//  NULL without memory.
audio_resampler_t *audio_resampler_new (uint32_t from_rate, uint32_t to_rate, uint32_t channels);
void audio_resampler_destroy (audio_resampler_t **self_p);

//  How many frames so many become: frames x to_rate / from_rate, to the nearest, halves up.
uint64_t audio_resampler_frames (uint64_t frames, uint32_t from_rate, uint32_t to_rate);

//  Writes at most `room` frames, channels alternating, and returns how many; *taken_p: so many of the `count`
//  given are used up.  count 0: there are no more, and 0 is the end.  UINT32_MAX: no memory.
size_t audio_resampler_run (audio_resampler_t *self, const float *frames, size_t count, size_t *taken_p,
    float *target, size_t room);

#endif

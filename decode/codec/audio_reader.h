/*  audio_reader -- tensor_reader's part for audio, on libsndfile: excerpts of sounds.
 *
 *  Samples of fixed point are what sf_readf_short and sf_readf_float give: the upper 16 bits, or -1 .. 1.
 *  Those of floating point (Vorbis, Opus, MP3, some WAV) become int16 by x 32767, rounded and cut off at the
 *  ends of the range, where sf_readf_short would wrap round.
 *
 *  A file that ends before its header says is bad, whatever the excerpt.  Other containers and codecs that
 *  libsndfile knows never get to it: each is one more way in for a hostile file.
 *  Any thread.
 */
#ifndef AUDIO_READER_H
#define AUDIO_READER_H
#include <stddef.h>
#include <stdint.h>
#include "decode_request.h"

//  The formats that are read.
#define AUDIO_READER_FORMATS "WAV, RF64, W64, AIFF, AU, CAF, SPHERE, FLAC, Ogg Vorbis, Ogg Opus, MP3"

//  As tensor_reader_audio.
int audio_reader_read (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes,
    size_t size, uint8_t *target, char *error, size_t error_bytes);

#endif

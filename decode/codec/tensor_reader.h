/*  tensor_reader -- samples that are no images: raw bytes of one length, NumPy .npy arrays of one dtype and
 *  shape (or of as many rows as each has), and excerpts of audio files (libsndfile, if the build has it).
 *
 *  Untrusted bytes, as image_reader.h.  Owner: one thread.
 */
#ifndef TENSOR_READER_H
#define TENSOR_READER_H
#include <stddef.h>
#include <stdint.h>
#include "decode_request.h"

//  Each: 0, and the sample as DECODE says in target (of exactly that many bytes); or one of these, and error
//  (always ended) says what was found and what was expected:
//    -EBADMSG  empty, damaged, cut short, or of a kind that nothing here reads: no good, whatever is declared
//    -EDOM     whole, as far as it was looked at, but not what was asked for: an image, an array or audio
//              where another of them is expected; another length, dtype, shape, rate or number of channels
//              than declared; audio that this build does not read
//    -ENOMEM

//  A ragged one has *rows_p rows, at most as many as declared; target has zeros behind them.  Of others
//  *rows_p is the declared number.

//  The file as it is; its length must be the declared one.  A ragged one may be empty.
int tensor_reader_bytes (const decode_tensor_t *decode, const uint8_t *bytes, size_t size, uint8_t *target,
    uint32_t *rows_p, char *error, size_t error_bytes);
//  A .npy of the declared dtype (of either byte order) and shape (C or Fortran order), written in C order,
//  native.
int tensor_reader_array (const decode_tensor_t *decode, const uint8_t *bytes, size_t size, uint8_t *target,
    uint32_t *rows_p, char *error, size_t error_bytes);

//  Where an excerpt of length frames begins in a file of frames: place in [0, 1) of a random one, below 0:
//  the middle.
//  Shorter files are padded with zeros at the end.  target: channels x length, int16 or float32.
int tensor_reader_audio (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes,
    size_t size, uint8_t *target, char *error, size_t error_bytes);
//  The same of a file of audio, in builds with libsndfile (audio_reader.c); for tensor_reader.c alone.
int tensor_reader_excerpt (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes,
    size_t size, uint8_t *target, char *error, size_t error_bytes);

//  What these builds read.
#define TENSOR_READER_AUDIO_FORMATS \
    "WAV, RF64, W64, AIFF, AU, CAF, SPHERE, FLAC, Ogg Vorbis, Ogg Opus, MP3"

#endif

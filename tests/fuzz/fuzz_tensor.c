/*  fuzz_tensor -- any bytes as raw bytes, as a .npy array and as audio: a sample of exactly that size, or a
 *  reason.
 *
 *  The input begins with what is declared: kind, dtype, and four small numbers.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tensor_reader.h"

enum { HEAD_BYTES = 6, ERROR_BYTES = 200 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static void
s_check_answer (int rc, const char *error, size_t error_bytes)
{
    s_require (memchr (error, 0, error_bytes) != NULL);
    s_require (!rc == !*error || error_bytes == 1);
    for (const char *at = error; *at; at++)
        s_require (*at >= ' ' && *at <= '~');
}

//  Every length of room for the reason comes by.
static void
s_read (const decode_tensor_t *decode, const uint8_t *numbers, const uint8_t *data, size_t size)
{
    char error [ERROR_BYTES];
    size_t room = 1 + size % sizeof error, bytes = dtype_bytes (decode->dtype);
    uint32_t length = 1 + numbers [1] * 8u;
    for (uint32_t index = 0; decode->as == DECODE_ARRAY && index < decode->dimensions; index++)
        bytes *= decode->shape [index];
    if (decode->as == DECODE_BYTES)
        bytes = decode->shape [0];
    if (decode->as == DECODE_AUDIO)
        bytes *= (size_t) length * decode->channels;
    uint8_t *target = malloc (bytes);
    s_require (target != NULL);
    double place = numbers [3]? (numbers [3] - 1) / 255.: -1;
    uint32_t rows = 0;
    int rc = decode->as == DECODE_BYTES? tensor_reader_bytes (decode, data, size, target, &rows, error, room):
        decode->as == DECODE_ARRAY? tensor_reader_array (decode, data, size, target, &rows, error, room):
        tensor_reader_audio (decode, length, place, data, size, target, error, room);
    s_check_answer (rc, error, room);
    s_require (rows <= decode->shape [0]);
    s_require (rc || !decode->is_ragged || decode->truncates || decode->as == DECODE_ARRAY || rows == size);
    if (!rc && decode->is_ragged)
        for (size_t at = bytes / decode->shape [0] * rows; at < bytes; at++)
            s_require (target [at] == 0);
    free (target);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES)
        return 0;
    const uint8_t *numbers = data + 2;
    decode_tensor_t decode = { .dtype = DTYPE_UINT8, .dimensions = 1 };
    //  Of old inputs none is.
    decode.is_ragged = data [0] >= 128 && data [0] % 3 < 2;
    decode.truncates = decode.is_ragged && data [0] & 64;
    switch (data [0] % 3) {
    case 0:
        decode.as = DECODE_BYTES;
        decode.shape [0] = 1 + numbers [0];
        break;
    case 1:
        decode.as = DECODE_ARRAY;
        decode.dtype = (dtype_t) (data [1] % DTYPES);
        decode.dimensions = 1 + numbers [0] % 4;
        for (uint32_t index = 0; index < decode.dimensions; index++)
            decode.shape [index] = 1 + (numbers [1 + index % 3] >> 4);
        break;
    default:
        decode.as = DECODE_AUDIO;
        decode.dtype = data [1] % 2? DTYPE_INT16: DTYPE_FLOAT32;
        decode.channels = 1 + numbers [0] % 4;
        decode.rate = numbers [2] < 128? 0: 16000;
        decode.resamples = data [0] >= 128 && decode.rate && decode.dtype == DTYPE_FLOAT32;
        break;
    }
    s_read (&decode, numbers, data + HEAD_BYTES, size - HEAD_BYTES);
    return 0;
}

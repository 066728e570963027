/*  custom -- an operation of the operator's own, as pipelines name it and decoders call it.
 *
 *  `tureen serve --operation NAME=COMMAND` makes them (server/prepare/custom); this folder knows what they
 *  are called and how they are asked, not what stands behind them.  They outlive all pipelines that name
 *  them. Plain data; `run` may be called from any number of threads at once.
 */
#ifndef CUSTOM_H
#define CUSTOM_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CUSTOM_MAX = 8,                     //  of a server
    CUSTOM_CHANNELS = 3,
    CUSTOM_NAME_BYTES_MAX = 32, CUSTOM_IDENTITY_BYTES = 32,
    CUSTOM_ARGUMENTS_BYTES_MAX = 400    //  as canonical text
};

typedef enum {
    CUSTOM_DONE,
    CUSTOM_FAILED,                      //  error says why
    CUSTOM_NO_MEMORY                    //  the same call may go well later
} custom_status_t;

//  One image in, one of the size that was asked for out; both of CUSTOM_CHANNELS bytes a pixel.
typedef struct {
    const uint8_t *pixels;              //  lent
    size_t stride;                      //  bytes from one row to the next
    uint32_t from_height, from_width;   //  of the image
    uint32_t height, width;             //  of the result
    const char *arguments;              //  a JSON object
    uint64_t seed;                      //  below 2^53; 0 unless the operation is random
    uint8_t *target;                    //  rows without gaps
    const atomic_bool *abandoned;       //  true: the call is to end, its result is not looked at; or NULL
    uint64_t took_ns;                   //  added to: processor time of other processes
    char *error;
    size_t error_bytes;
} custom_call_t;

typedef struct custom {
    char name [CUSTOM_NAME_BYTES_MAX + 1];
    char identity [CUSTOM_IDENTITY_BYTES + 1];      //  hexadecimal: another one makes other pixels
    bool is_random;                     //  it wants a seed
    uint32_t number;                    //  among the server's, from 0
    custom_status_t (*run) (const struct custom *self, custom_call_t *call);
    void *context;                      //  of run
} custom_t;

#endif

/*  dtype -- the kinds of numbers that samples and outputs consist of: their names and sizes.  Any thread.  */
#ifndef DTYPE_H
#define DTYPE_H
#include <assert.h>
#include <stddef.h>

//  NumPy's names, and "bfloat16".
typedef enum {
    DTYPE_UINT8, DTYPE_INT8, DTYPE_UINT16, DTYPE_INT16, DTYPE_UINT32, DTYPE_INT32, DTYPE_UINT64, DTYPE_INT64,
    DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64, DTYPE_BOOL, DTYPES
} dtype_t;

static inline const char *
dtype_name (dtype_t dtype)
{
    static const char *const names [DTYPES] = {
        [DTYPE_UINT8] = "uint8", [DTYPE_INT8] = "int8", [DTYPE_UINT16] = "uint16", [DTYPE_INT16] = "int16",
        [DTYPE_UINT32] = "uint32", [DTYPE_INT32] = "int32", [DTYPE_UINT64] = "uint64",
        [DTYPE_INT64] = "int64", [DTYPE_FLOAT16] = "float16", [DTYPE_BFLOAT16] = "bfloat16",
        [DTYPE_FLOAT32] = "float32", [DTYPE_FLOAT64] = "float64", [DTYPE_BOOL] = "bool",
    };
    assert ((size_t) dtype < DTYPES);
    return names [dtype];
}

static inline size_t
dtype_bytes (dtype_t dtype)
{
    static const size_t bytes [DTYPES] = {
        [DTYPE_UINT8] = 1, [DTYPE_INT8] = 1, [DTYPE_UINT16] = 2, [DTYPE_INT16] = 2, [DTYPE_UINT32] = 4,
        [DTYPE_INT32] = 4, [DTYPE_UINT64] = 8, [DTYPE_INT64] = 8, [DTYPE_FLOAT16] = 2, [DTYPE_BFLOAT16] = 2,
        [DTYPE_FLOAT32] = 4, [DTYPE_FLOAT64] = 8, [DTYPE_BOOL] = 1,
    };
    assert ((size_t) dtype < DTYPES);
    return bytes [dtype];
}

#endif

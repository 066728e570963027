//  Names and sizes of the kinds of numbers.

#include "dtype.h"
#include <assert.h>

static const struct { const char *name; size_t bytes; } s_dtypes [DTYPES] = {
    [DTYPE_UINT8] = { "uint8", 1 }, [DTYPE_INT8] = { "int8", 1 },
    [DTYPE_UINT16] = { "uint16", 2 }, [DTYPE_INT16] = { "int16", 2 },
    [DTYPE_UINT32] = { "uint32", 4 }, [DTYPE_INT32] = { "int32", 4 },
    [DTYPE_UINT64] = { "uint64", 8 }, [DTYPE_INT64] = { "int64", 8 },
    [DTYPE_FLOAT16] = { "float16", 2 }, [DTYPE_BFLOAT16] = { "bfloat16", 2 },
    [DTYPE_FLOAT32] = { "float32", 4 }, [DTYPE_FLOAT64] = { "float64", 8 },
    [DTYPE_BOOL] = { "bool", 1 },
};

const char *
dtype_name (dtype_t dtype)
{
    assert ((size_t) dtype < DTYPES);
    return s_dtypes [dtype].name;
}

size_t
dtype_bytes (dtype_t dtype)
{
    assert ((size_t) dtype < DTYPES);
    return s_dtypes [dtype].bytes;
}

/*  dtype -- the kinds of numbers that samples and outputs consist of.  Any thread.  */
#ifndef DTYPE_H
#define DTYPE_H
#include <stddef.h>

//  NumPy's names, and "bfloat16".
typedef enum {
    DTYPE_UINT8, DTYPE_INT8, DTYPE_UINT16, DTYPE_INT16, DTYPE_UINT32, DTYPE_INT32, DTYPE_UINT64, DTYPE_INT64,
    DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64, DTYPE_BOOL, DTYPES
} dtype_t;
const char *dtype_name (dtype_t dtype);
size_t dtype_bytes (dtype_t dtype);

#endif

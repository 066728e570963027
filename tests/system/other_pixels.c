//  A library to be preloaded: of each JPEG's coefficients, and of rows that libjpeg writes, some are other
//  ones.  It stands for a build with another decoder.

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <jpeglib.h>

JDIMENSION
jpeg_read_scanlines (j_decompress_ptr decoder, JSAMPARRAY rows, JDIMENSION most)
{
    static JDIMENSION (*real) (j_decompress_ptr, JSAMPARRAY, JDIMENSION);
    if (!real)
        real = (JDIMENSION (*) (j_decompress_ptr, JSAMPARRAY, JDIMENSION)) dlsym (RTLD_NEXT,
            "jpeg_read_scanlines");
    JDIMENSION count = real (decoder, rows, most);
    for (JDIMENSION row = 0; row < count; row++)
        rows [row][0] ^= 64;
    return count;
}

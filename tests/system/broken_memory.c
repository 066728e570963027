//  A library to be preloaded: while there is a file that BROKEN_MEMORY names, libjpeg finds every image
//  damaged.  It stands for a machine that was sound when it began, and is not any more.

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <jpeglib.h>
#include <jerror.h>

int
jpeg_read_header (j_decompress_ptr decoder, boolean needs_image)
{
    static int (*real) (j_decompress_ptr, boolean);
    const char *path = getenv ("BROKEN_MEMORY");
    if (!real)
        real = (int (*) (j_decompress_ptr, boolean)) dlsym (RTLD_NEXT, "jpeg_read_header");
    if (path && access (path, F_OK) == 0)
        ERREXIT (decoder, JERR_BAD_LENGTH);
    return real (decoder, needs_image);
}

/*  file_kind -- what a file's first bytes say that it is, whatever its name is and whatever this build reads.
 *
 *  So a reader that gets another kind than its own can tell whether the file is no good or the pipeline is.
 *  Any thread.
 */
#ifndef FILE_KIND_H
#define FILE_KIND_H
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FILE_KIND_OTHER,            //  nothing that a pipeline decodes but as raw bytes
    FILE_KIND_JPEG,
    FILE_KIND_PNG,
    FILE_KIND_WEBP,
    FILE_KIND_TIFF,
    FILE_KIND_GIF,
    FILE_KIND_BMP,
    FILE_KIND_PNM,              //  PBM, PGM, PPM
    FILE_KIND_ARRAY,            //  NumPy .npy
    FILE_KIND_AUDIO             //  what audio_reader.c knows
} file_kind_t;

//  *name_p says it for people, behind "the file is": "a JPEG image", "empty"; static.
file_kind_t file_kind (const uint8_t *bytes, size_t size, const char **name_p);

#endif

/*  prepare_write -- one array to a file: NumPy's .npy, or a picture (.ppm, .pgm) to look at.  */
#ifndef PREPARE_WRITE_H
#define PREPARE_WRITE_H
#include <stdbool.h>
#include <stdint.h>
#include "pipeline.h"

typedef enum { PREPARE_NPY, PREPARE_PPM, PREPARE_PPM_PLANAR } prepare_format_t;

//  Whether the array is a picture: 8 bits, height x width with three channels, one or none.
bool prepare_is_picture (const pipeline_output_t *output, prepare_format_t format);
//  ".npy", ".ppm" or ".pgm".
const char *prepare_extension (const pipeline_output_t *output, prepare_format_t format);

//  Writes the file, and the folders that it is in.  bfloat16 becomes uint16, for NumPy has none.  False: said
//  on standard error.
bool prepare_write (const char *path, const pipeline_output_t *output, prepare_format_t format,
    const uint8_t *bytes);

#endif

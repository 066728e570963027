/*  finish -- the last pass over an image: flips, colours, numbers and layout, from a view of 8-bit pixels to
 *  where they are wanted, in one go.  In the shared stage that is the version, in the private one the job's
 *  batch: there the pass is the copy (design: a flip or a cast costs no extra pass).
 *
 *  A value v (0 .. 255) becomes, in 32-bit floats and this order, as torchvision's to_tensor and normalize
 *  have it:
 *      normalised      (v / 255 - mean) / std; of a reciprocal format v * (1 / 255), as torchvision's v2
 *      else            v
 *  and is then rounded to the dtype, to nearest, ties to even.  It depends on value and channel alone, so a
 *  format holds all 256 results of each channel; every version of the inner loops (loops.h) gives the same
 *  bytes.
 *  A format is immutable once made; any thread.
 */
#ifndef FINISH_H
#define FINISH_H
#include <stdbool.h>
#include "colour.h"
#include "dtype.h"
#include "image.h"

enum { FINISH_LANES = 8 };

typedef struct {
    dtype_t dtype;              //  UINT8, FLOAT16, BFLOAT16 or FLOAT32
    bool planar;                //  channels, height, width; else height, width, channels
    bool normalizes;            //  not with DTYPE_UINT8
    bool reciprocal;
    uint32_t channels;          //  written: the source's number, or 1 if the source's three are equal
    float mean [IMAGE_COLOURS];
    float std [IMAGE_COLOURS];  //  > 0
    //  Set by finish_format.
    union {
        float wide [IMAGE_COLOURS] [COLOUR_VALUES];
        uint16_t half [IMAGE_COLOURS] [COLOUR_VALUES];  //  the bits of a float16 or bfloat16
    } table;
    //  What vectors compute instead of looking it up: v * first + second, rounded once, where that gives the
    //  same table, else (v / 255 - first) / second.  Planar: one of them for each plane; else for the first,
    //  second and third FINISH_LANES numbers, in which the channels take turns.
    bool is_linear;
    float large, small;         //  v * large, which is exact or all of it, plus v * small is v / 255, rounded
    float first [IMAGE_COLOURS] [FINISH_LANES];
    float second [IMAGE_COLOURS] [FINISH_LANES];
} finish_format_t;

//  Computes the last fields from those before.
void finish_format (finish_format_t *self);
//  Of one image.
size_t finish_bytes (const finish_format_t *self, uint32_t height, uint32_t width);

//  Sets the box of an image of height x width that was written to target, without gaps, to a value for each
//  channel: rounded to the dtype; of uint8 it is a whole number that fits.
void finish_fill (const finish_format_t *self, uint32_t height, uint32_t width, const image_box_t *box,
    const float values [IMAGE_COLOURS], uint8_t *target);

typedef struct {
    bool across;                //  left and right change places
    bool down;                  //  top and bottom
} finish_flips_t;

//  Writes source, flipped, with the colours of a measured program (NULL: none; sources of three channels
//  only), to target: rows of target_stride bytes (planar: each plane has source->height of them).  row: room
//  for a row of the source; needed where there are colours.  source and target do not overlap.  Large targets
//  are written past the caches; other threads see what is written as they see ordinary stores.
void finish_run (const finish_format_t *self, const image_t *source, finish_flips_t flips,
    const colour_program_t *colours, uint8_t *row, uint8_t *target, size_t target_stride);

#endif

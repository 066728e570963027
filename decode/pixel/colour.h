/*  colour -- brightness, contrast, saturation, hue and grey, as Pillow's ImageEnhance and torchvision's
 *  adjust_hue give them on 8-bit RGB, to the last bit; and the point operations of Pillow's ImageOps.
 *
 *  A *program* is the steps with their factors, already drawn.  A step is *measured* if it depends on the
 *  whole image as it is before that step: contrast on its mean, autocontrast and equalize on its histograms.
 *  colour_measure reads the image once for each such step.
 *  A *pass* is a program made ready for one image: it runs row by row, in place, so that it can be part of
 *  another pass over the image.
 *  Pure functions on what they are given; any thread.
 */
#ifndef COLOUR_H
#define COLOUR_H
#include <stdbool.h>
#include "image.h"

typedef enum {
    COLOUR_BRIGHTNESS,          //  factor >= 0; 1 changes nothing
    COLOUR_CONTRAST,            //  the same
    COLOUR_SATURATION,          //  the same
    COLOUR_HUE,                 //  -0.5 .. 0.5 of the circle; 0 changes nothing, tiny ones round as Pillow's
                                //  HSV does
    COLOUR_GREY,                //  Pillow's convert ("L") in all three channels; no factor
    COLOUR_INVERT,              //  no factor
    COLOUR_POSTERIZE,           //  factor: the upper bits that stay, 0 .. 8
    COLOUR_SOLARIZE,            //  factor: values from here on are inverted
    COLOUR_AUTOCONTRAST,        //  each channel by itself; no factor
    COLOUR_EQUALIZE             //  the same
} colour_kind_t;

typedef struct {
    colour_kind_t kind;
    double factor;
    uint8_t mean;               //  CONTRAST: set by colour_measure
} colour_step_t;

//  COLOUR_TABLES_MAX: of autocontrast and equalize, so many at most.
enum { COLOUR_STEPS_MAX = 40, COLOUR_TABLES_MAX = 2, COLOUR_VALUES = 256 };

//  For each channel, each value's successor.
typedef uint8_t colour_tables_t [IMAGE_COLOURS] [COLOUR_VALUES];

//  Empty when count is 0, whatever else is in it.
typedef struct {
    colour_step_t steps [COLOUR_STEPS_MAX];
    size_t count;
    colour_tables_t tables [COLOUR_TABLES_MAX];     //  set by colour_measure, in the order of the steps
} colour_program_t;

//  Appends a step, unless it changes nothing; false when the program is full.
bool colour_add (colour_program_t *self, colour_kind_t kind, double factor);
//  Whether so many steps more can be appended, one of autocontrast or equalize among them.
bool colour_has_room (const colour_program_t *self, size_t steps);
//  Whether a step of this kind depends on the whole image.
bool colour_is_measured (colour_kind_t kind);
//  Measures the image for the measured steps.  row: room for a row of source.  Does nothing without such
//  steps.
void colour_measure (colour_program_t *self, const image_t *source, uint8_t *row);

//  What depends on one value alone is a table, and tables in a row are one.
typedef struct {
    colour_kind_t kind;         //  BRIGHTNESS stands for every table
    float factor;               //  SATURATION
    int32_t shift;              //  HUE: of 256
    bool is_one;                //  all channels have the first table; the others are not set
    colour_tables_t tables;
} colour_action_t;

typedef struct {
    const struct colour_loops *loops;
    colour_action_t actions [COLOUR_STEPS_MAX];
    size_t count;
} colour_pass_t;

//  Makes the first steps steps of a measured program ready.
void colour_begin (colour_pass_t *self, const colour_program_t *program, size_t steps);
//  Runs them on width RGB pixels, in place.
void colour_run (const colour_pass_t *self, uint8_t *row, uint32_t width);

//  Pillow's ImageEnhance.Sharpness: writes the blend of source with a smooth copy of it to target, rows of
//  stride bytes.  factor >= 0; 0: the smooth copy, 1: the source.  The outermost pixels stay as they are.
//  source and target do not overlap.
void colour_sharpen (const image_t *source, double factor, uint8_t *target, size_t stride);

#endif

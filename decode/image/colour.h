/*  colour -- brightness, contrast, saturation, hue and grey, as Pillow's ImageEnhance and torchvision's
 *  adjust_hue give them on 8-bit RGB, to the last bit.
 *
 *  A *program* is the steps with their factors, already drawn.  A contrast step needs the mean of the whole
 *  image as it is before that step: colour_measure reads the image once for each such step.
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
    COLOUR_GREY                 //  Pillow's convert ("L") in all three channels; no factor
} colour_kind_t;

typedef struct {
    colour_kind_t kind;
    double factor;
    uint8_t mean;               //  CONTRAST: set by colour_measure
} colour_step_t;

enum { COLOUR_STEPS_MAX = 40, COLOUR_VALUES = 256 };

//  Empty when count is 0, whatever else is in it.
typedef struct {
    colour_step_t steps [COLOUR_STEPS_MAX];
    size_t count;
} colour_program_t;

//  Appends a step, unless it changes nothing; false when the program is full.
bool colour_add (colour_program_t *self, colour_kind_t kind, double factor);
//  Finds the mean that every contrast step needs.  row: room for a row of source.  Does nothing without such
//  steps.
void colour_measure (colour_program_t *self, const image_t *source, uint8_t *row);

//  What depends on one value alone is a table, and tables in a row are one.
typedef struct {
    colour_kind_t kind;         //  BRIGHTNESS stands for every table
    float factor;               //  SATURATION
    int32_t shift;              //  HUE: of 256
    uint8_t table [COLOUR_VALUES];
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

#endif

/*  augment -- the augmentation policies of torchvision: which steps chance chooses for a sample, and the
 *  effect of each step.
 *
 *  A step has a kind and a magnitude.  Magnitudes are those of torch.linspace: 32-bit floats, rounded once,
 *  as the newest torch computes them.
 *  Pure functions; any thread.
 */
#ifndef AUGMENT_H
#define AUGMENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "colour.h"
#include "keyed_random.h"
#include "operation.h"
#include "warp.h"

//  In torchvision's order: rand_augment and trivial_augment_wide choose among the first.
typedef enum {
    AUGMENT_IDENTITY,
    AUGMENT_SHEAR_X,
    AUGMENT_SHEAR_Y,
    AUGMENT_TRANSLATE_X,
    AUGMENT_TRANSLATE_Y,
    AUGMENT_ROTATE,
    AUGMENT_BRIGHTNESS,
    AUGMENT_COLOR,
    AUGMENT_CONTRAST,
    AUGMENT_SHARPNESS,
    AUGMENT_POSTERIZE,
    AUGMENT_SOLARIZE,
    AUGMENT_AUTOCONTRAST,
    AUGMENT_EQUALIZE,
    AUGMENT_INVERT,                 //  of auto_augment alone
    AUGMENT_KINDS
} augment_kind_t;

typedef struct {
    augment_kind_t kind;
    double magnitude;               //  of pixels, degrees, bits, a threshold, or how far a factor is from 1
} augment_step_t;

//  The steps for an image of height x width; returns how many.  Order of the draws:
//    rand_augment           for each step its kind; whether it is negative, if it has a sign
//    trivial_augment_wide   the kind; the magnitude, if it has one; whether it is negative, if it has a sign
//    auto_augment           the sub-policy; for each of its steps a number, up to its probability it is done;
//                           for each whether it is positive
size_t augment_draw (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random,
    augment_step_t steps [AUGMENT_STEPS_MAX]);
//  "ShearX": torchvision's word; static.
const char *augment_name (augment_kind_t kind);
//  Whether a step moves pixels; if so, how.
bool augment_warp (const augment_step_t *step, uint32_t height, uint32_t width, warp_t *warp_p);
//  Whether a step is one of colour.h; if so, which.  Neither of both is sharpness, or nothing.
bool augment_colour (const augment_step_t *step, colour_kind_t *kind_p, double *factor_p);

//  What aug_mix mixes: the image as it is, and some chains of steps.  The weights are from Dirichlet
//  distributions, as torchvision draws them: gamma variates (Marsaglia and Tsang, 2000), each over their sum;
//  rounded to 32-bit floats, and so is the product of two.
typedef struct {
    float original;                                 //  the weight of the image as it is
    uint32_t chains;
    float weights [MIX_CHAINS_MAX];
    uint32_t lengths [MIX_CHAINS_MAX];
    augment_step_t steps [MIX_CHAINS_MAX] [MIX_DEPTH_MAX];
} augment_mix_t;

//  Order of the draws: two gamma variates; one for each chain; for each chain how many steps it has, if that
//  is left to chance, and for each step its kind, the number of its magnitude, if it has one, and whether it
//  is negative, if it has a sign.
augment_mix_t augment_mix_draw (const operation_t *mix, uint32_t height, uint32_t width,
    keyed_random_t *random);
//  A gamma variate of shape alpha > 0.
double augment_mix_gamma (double alpha, keyed_random_t *random);

#endif

/*  augment_mix -- the draws of aug_mix: the weights of the image and of some chains of steps, and the steps.
 *
 *  As torchvision's AugMix draws them.  Weights are from Dirichlet distributions: gamma variates (Marsaglia
 *  and Tsang, 2000), each over their sum; rounded to 32-bit floats, and so is the product of two.
 *  Pure functions; any thread.
 */
#ifndef AUGMENT_MIX_H
#define AUGMENT_MIX_H
#include "augment.h"

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

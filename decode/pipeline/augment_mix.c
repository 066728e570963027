#include "augment_mix.h"
#include <assert.h>
#include <math.h>

//  In torchvision's order; the last four only with all operations.
static const augment_kind_t s_kinds [] = {
    AUGMENT_SHEAR_X, AUGMENT_SHEAR_Y, AUGMENT_TRANSLATE_X, AUGMENT_TRANSLATE_Y, AUGMENT_ROTATE,
    AUGMENT_POSTERIZE, AUGMENT_SOLARIZE, AUGMENT_AUTOCONTRAST, AUGMENT_EQUALIZE,
    AUGMENT_BRIGHTNESS, AUGMENT_COLOR, AUGMENT_CONTRAST, AUGMENT_SHARPNESS
};
enum { ALL_KINDS = sizeof s_kinds / sizeof *s_kinds, FEW_KINDS = ALL_KINDS - 4, DEPTH_DRAWN = 3 };

//  In (0, 1].
static double
s_uniform (keyed_random_t *random)
{
    return 1 - keyed_random_uniform (random);
}

static double
s_normal (keyed_random_t *random)
{
    double length = sqrt (-2 * log (s_uniform (random)));
    return length * cos (2 * M_PI * keyed_random_uniform (random));
}

double
augment_mix_gamma (double alpha, keyed_random_t *random)
{
    assert (alpha > 0);
    double d = (alpha < 1? alpha + 1: alpha) - 1.0 / 3, c = 1 / sqrt (9 * d);
    //  More than 95 of 100 tries succeed.
    for (;;) {
        double normal = s_normal (random), cube = 1 + c * normal;
        cube = cube * cube * cube;
        if (cube <= 0)
            continue;
        double least = 0.5 * normal * normal + d - d * cube + d * log (cube);
        if (log (s_uniform (random)) < least)
            return d * cube * (alpha < 1? pow (s_uniform (random), 1 / alpha): 1);
    }
}

static void
s_draw_weights (double alpha, size_t count, keyed_random_t *random, float *weights)
{
    double variates [MIX_CHAINS_MAX], sum = 0;
    assert (count <= MIX_CHAINS_MAX);
    for (size_t index = 0; index < count; index++)
        sum += variates [index] = augment_mix_gamma (alpha, random);
    for (size_t index = 0; index < count; index++)
        weights [index] = (float) (variates [index] / sum);
}

static augment_step_t
s_draw_step (const operation_t *mix, uint32_t height, uint32_t width, keyed_random_t *random)
{
    augment_kind_t kind = s_kinds [keyed_random_below (random, mix->augment.all_kinds? ALL_KINDS: FEW_KINDS)];
    uint32_t level = augment_has_magnitude (kind)?
        (uint32_t) keyed_random_below (random, mix->augment.level): 0;
    double magnitude = augment_magnitude (mix, kind, level, height, width);
    if (augment_is_signed (kind) && keyed_random_below (random, 2))
        magnitude = -magnitude;
    return (augment_step_t) { kind, magnitude };
}

augment_mix_t
augment_mix_draw (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random)
{
    assert (operation->kind == OPERATION_AUG_MIX);
    augment_mix_t mix = { .chains = operation->augment.chains };
    float both [2];
    s_draw_weights (operation->augment.alpha, 2, random, both);
    s_draw_weights (operation->augment.alpha, mix.chains, random, mix.weights);
    mix.original = both [0];
    for (uint32_t chain = 0; chain < mix.chains; chain++) {
        uint32_t depth = operation->augment.depth;
        mix.weights [chain] *= both [1];
        mix.lengths [chain] = depth? depth: 1 + (uint32_t) keyed_random_below (random, DEPTH_DRAWN);
        for (uint32_t step = 0; step < mix.lengths [chain]; step++)
            mix.steps [chain] [step] = s_draw_step (operation, height, width, random);
    }
    return mix;
}

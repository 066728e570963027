#include "augment.h"
#include <assert.h>
#include <math.h>

//  The learnt policies of AutoAugment, as torchvision has them.
//
//  Published with "AutoAugment: Learning Augmentation Strategies from Data" (Cubuk et al., CVPR 2019).  Each
//  of 25 sub-policies is two steps: which, with which probability, and the number of its magnitude.

enum { SUB_POLICIES = 25, SUB_POLICY_STEPS = 2 };

typedef struct {
    augment_kind_t kind;
    double probability;
    uint32_t level;                 //  of 10; 0 of what has none
} policy_step_t;

//  In the order of augment_policy_t.
static const policy_step_t s_policies [AUGMENT_POLICIES] [SUB_POLICIES] [SUB_POLICY_STEPS] = {
    {
        { { AUGMENT_POSTERIZE, 0.4, 8 }, { AUGMENT_ROTATE, 0.6, 9 } },
        { { AUGMENT_SOLARIZE, 0.6, 5 }, { AUGMENT_AUTOCONTRAST, 0.6, 0 } },
        { { AUGMENT_EQUALIZE, 0.8, 0 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_POSTERIZE, 0.6, 7 }, { AUGMENT_POSTERIZE, 0.6, 6 } },
        { { AUGMENT_EQUALIZE, 0.4, 0 }, { AUGMENT_SOLARIZE, 0.2, 4 } },
        { { AUGMENT_EQUALIZE, 0.4, 0 }, { AUGMENT_ROTATE, 0.8, 8 } },
        { { AUGMENT_SOLARIZE, 0.6, 3 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_POSTERIZE, 0.8, 5 }, { AUGMENT_EQUALIZE, 1, 0 } },
        { { AUGMENT_ROTATE, 0.2, 3 }, { AUGMENT_SOLARIZE, 0.6, 8 } },
        { { AUGMENT_EQUALIZE, 0.6, 0 }, { AUGMENT_POSTERIZE, 0.4, 6 } },
        { { AUGMENT_ROTATE, 0.8, 8 }, { AUGMENT_COLOR, 0.4, 0 } },
        { { AUGMENT_ROTATE, 0.4, 9 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_EQUALIZE, 0, 0 }, { AUGMENT_EQUALIZE, 0.8, 0 } },
        { { AUGMENT_INVERT, 0.6, 0 }, { AUGMENT_EQUALIZE, 1, 0 } },
        { { AUGMENT_COLOR, 0.6, 4 }, { AUGMENT_CONTRAST, 1, 8 } },
        { { AUGMENT_ROTATE, 0.8, 8 }, { AUGMENT_COLOR, 1, 2 } },
        { { AUGMENT_COLOR, 0.8, 8 }, { AUGMENT_SOLARIZE, 0.8, 7 } },
        { { AUGMENT_SHARPNESS, 0.4, 7 }, { AUGMENT_INVERT, 0.6, 0 } },
        { { AUGMENT_SHEAR_X, 0.6, 5 }, { AUGMENT_EQUALIZE, 1, 0 } },
        { { AUGMENT_COLOR, 0.4, 0 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_EQUALIZE, 0.4, 0 }, { AUGMENT_SOLARIZE, 0.2, 4 } },
        { { AUGMENT_SOLARIZE, 0.6, 5 }, { AUGMENT_AUTOCONTRAST, 0.6, 0 } },
        { { AUGMENT_INVERT, 0.6, 0 }, { AUGMENT_EQUALIZE, 1, 0 } },
        { { AUGMENT_COLOR, 0.6, 4 }, { AUGMENT_CONTRAST, 1, 8 } },
        { { AUGMENT_EQUALIZE, 0.8, 0 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
    },
    {
        { { AUGMENT_INVERT, 0.1, 0 }, { AUGMENT_CONTRAST, 0.2, 6 } },
        { { AUGMENT_ROTATE, 0.7, 2 }, { AUGMENT_TRANSLATE_X, 0.3, 9 } },
        { { AUGMENT_SHARPNESS, 0.8, 1 }, { AUGMENT_SHARPNESS, 0.9, 3 } },
        { { AUGMENT_SHEAR_Y, 0.5, 8 }, { AUGMENT_TRANSLATE_Y, 0.7, 9 } },
        { { AUGMENT_AUTOCONTRAST, 0.5, 0 }, { AUGMENT_EQUALIZE, 0.9, 0 } },
        { { AUGMENT_SHEAR_Y, 0.2, 7 }, { AUGMENT_POSTERIZE, 0.3, 7 } },
        { { AUGMENT_COLOR, 0.4, 3 }, { AUGMENT_BRIGHTNESS, 0.6, 7 } },
        { { AUGMENT_SHARPNESS, 0.3, 9 }, { AUGMENT_BRIGHTNESS, 0.7, 9 } },
        { { AUGMENT_EQUALIZE, 0.6, 0 }, { AUGMENT_EQUALIZE, 0.5, 0 } },
        { { AUGMENT_CONTRAST, 0.6, 7 }, { AUGMENT_SHARPNESS, 0.6, 5 } },
        { { AUGMENT_COLOR, 0.7, 7 }, { AUGMENT_TRANSLATE_X, 0.5, 8 } },
        { { AUGMENT_EQUALIZE, 0.3, 0 }, { AUGMENT_AUTOCONTRAST, 0.4, 0 } },
        { { AUGMENT_TRANSLATE_Y, 0.4, 3 }, { AUGMENT_SHARPNESS, 0.2, 6 } },
        { { AUGMENT_BRIGHTNESS, 0.9, 6 }, { AUGMENT_COLOR, 0.2, 8 } },
        { { AUGMENT_SOLARIZE, 0.5, 2 }, { AUGMENT_INVERT, 0, 0 } },
        { { AUGMENT_EQUALIZE, 0.2, 0 }, { AUGMENT_AUTOCONTRAST, 0.6, 0 } },
        { { AUGMENT_EQUALIZE, 0.2, 0 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_COLOR, 0.9, 9 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_AUTOCONTRAST, 0.8, 0 }, { AUGMENT_SOLARIZE, 0.2, 8 } },
        { { AUGMENT_BRIGHTNESS, 0.1, 3 }, { AUGMENT_COLOR, 0.7, 0 } },
        { { AUGMENT_SOLARIZE, 0.4, 5 }, { AUGMENT_AUTOCONTRAST, 0.9, 0 } },
        { { AUGMENT_TRANSLATE_Y, 0.9, 9 }, { AUGMENT_TRANSLATE_Y, 0.7, 9 } },
        { { AUGMENT_AUTOCONTRAST, 0.9, 0 }, { AUGMENT_SOLARIZE, 0.8, 3 } },
        { { AUGMENT_EQUALIZE, 0.8, 0 }, { AUGMENT_INVERT, 0.1, 0 } },
        { { AUGMENT_TRANSLATE_Y, 0.7, 9 }, { AUGMENT_AUTOCONTRAST, 0.9, 0 } },
    },
    {
        { { AUGMENT_SHEAR_X, 0.9, 4 }, { AUGMENT_INVERT, 0.2, 0 } },
        { { AUGMENT_SHEAR_Y, 0.9, 8 }, { AUGMENT_INVERT, 0.7, 0 } },
        { { AUGMENT_EQUALIZE, 0.6, 0 }, { AUGMENT_SOLARIZE, 0.6, 6 } },
        { { AUGMENT_INVERT, 0.9, 0 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_EQUALIZE, 0.6, 0 }, { AUGMENT_ROTATE, 0.9, 3 } },
        { { AUGMENT_SHEAR_X, 0.9, 4 }, { AUGMENT_AUTOCONTRAST, 0.8, 0 } },
        { { AUGMENT_SHEAR_Y, 0.9, 8 }, { AUGMENT_INVERT, 0.4, 0 } },
        { { AUGMENT_SHEAR_Y, 0.9, 5 }, { AUGMENT_SOLARIZE, 0.2, 6 } },
        { { AUGMENT_INVERT, 0.9, 0 }, { AUGMENT_AUTOCONTRAST, 0.8, 0 } },
        { { AUGMENT_EQUALIZE, 0.6, 0 }, { AUGMENT_ROTATE, 0.9, 3 } },
        { { AUGMENT_SHEAR_X, 0.9, 4 }, { AUGMENT_SOLARIZE, 0.3, 3 } },
        { { AUGMENT_SHEAR_Y, 0.8, 8 }, { AUGMENT_INVERT, 0.7, 0 } },
        { { AUGMENT_EQUALIZE, 0.9, 0 }, { AUGMENT_TRANSLATE_Y, 0.6, 6 } },
        { { AUGMENT_INVERT, 0.9, 0 }, { AUGMENT_EQUALIZE, 0.6, 0 } },
        { { AUGMENT_CONTRAST, 0.3, 3 }, { AUGMENT_ROTATE, 0.8, 4 } },
        { { AUGMENT_INVERT, 0.8, 0 }, { AUGMENT_TRANSLATE_Y, 0, 2 } },
        { { AUGMENT_SHEAR_Y, 0.7, 6 }, { AUGMENT_SOLARIZE, 0.4, 8 } },
        { { AUGMENT_INVERT, 0.6, 0 }, { AUGMENT_ROTATE, 0.8, 4 } },
        { { AUGMENT_SHEAR_Y, 0.3, 7 }, { AUGMENT_TRANSLATE_X, 0.9, 3 } },
        { { AUGMENT_SHEAR_X, 0.1, 6 }, { AUGMENT_INVERT, 0.6, 0 } },
        { { AUGMENT_SOLARIZE, 0.7, 2 }, { AUGMENT_TRANSLATE_Y, 0.6, 7 } },
        { { AUGMENT_SHEAR_Y, 0.8, 4 }, { AUGMENT_INVERT, 0.8, 0 } },
        { { AUGMENT_SHEAR_X, 0.7, 9 }, { AUGMENT_TRANSLATE_Y, 0.8, 3 } },
        { { AUGMENT_SHEAR_Y, 0.8, 5 }, { AUGMENT_AUTOCONTRAST, 0.7, 0 } },
        { { AUGMENT_SHEAR_X, 0.7, 2 }, { AUGMENT_INVERT, 0.1, 0 } },
    },
};

enum { AUTO_BINS = 10, RANDOM_KINDS = AUGMENT_EQUALIZE + 1 };

typedef struct {
    const char *name;
    bool has_magnitude;
    bool is_signed;
    float most;                     //  the last magnitude of rand_augment and auto_augment; the first is 0
    float wide_most;                //  of trivial_augment_wide
} kind_row_t;

//  Translations of the first two are shares of a side, posterize counts bits, solarize goes from 255 to 0.
static const kind_row_t s_kinds [AUGMENT_KINDS] = {
    [AUGMENT_IDENTITY] = { "Identity", false, false, 0, 0 },
    [AUGMENT_SHEAR_X] = { "ShearX", true, true, 0.3f, 0.99f },
    [AUGMENT_SHEAR_Y] = { "ShearY", true, true, 0.3f, 0.99f },
    [AUGMENT_TRANSLATE_X] = { "TranslateX", true, true, 0, 32 },
    [AUGMENT_TRANSLATE_Y] = { "TranslateY", true, true, 0, 32 },
    [AUGMENT_ROTATE] = { "Rotate", true, true, 30, 135 },
    [AUGMENT_BRIGHTNESS] = { "Brightness", true, true, 0.9f, 0.99f },
    [AUGMENT_COLOR] = { "Color", true, true, 0.9f, 0.99f },
    [AUGMENT_CONTRAST] = { "Contrast", true, true, 0.9f, 0.99f },
    [AUGMENT_SHARPNESS] = { "Sharpness", true, true, 0.9f, 0.99f },
    [AUGMENT_POSTERIZE] = { "Posterize", true, false, 0, 0 },
    [AUGMENT_SOLARIZE] = { "Solarize", true, false, 0, 0 },
    [AUGMENT_AUTOCONTRAST] = { "AutoContrast", false, false, 0, 0 },
    [AUGMENT_EQUALIZE] = { "Equalize", false, false, 0, 0 },
    [AUGMENT_INVERT] = { "Invert", false, false, 0, 0 },
};

const char *
augment_name (augment_kind_t kind)
{
    assert (kind < AUGMENT_KINDS);
    return s_kinds [kind].name;
}

//  ---------------------------------------------------------------------------------------------------------
//  Magnitudes

//  torch.linspace (first, last, bins) [level]: from the nearer end, product and sum rounded together.
static double
s_linspace (float first, float last, uint32_t bins, uint32_t level)
{
    float step = (last - first) / (float) (bins - 1);
    return level < bins / 2? fmaf (step, (float) level, first):
        fmaf (-step, (float) (bins - 1 - level), last);
}

//  The bits that stay: 8 at the first level, less by `most` at the last.
static double
s_bits (uint32_t bins, uint32_t level, double most)
{
    return 8 - rintf ((float) level / (float) ((bins - 1) / most));
}

static float
s_most (const operation_t *operation, augment_kind_t kind, uint32_t height, uint32_t width)
{
    if (operation->kind == OPERATION_TRIVIAL_AUGMENT_WIDE)
        return s_kinds [kind].wide_most;
    uint32_t side = kind == AUGMENT_TRANSLATE_X? width: height;
    if (kind == AUGMENT_TRANSLATE_X || kind == AUGMENT_TRANSLATE_Y)
        return (float) (operation->kind == OPERATION_AUG_MIX? side / 3.0: 150.0 / 331.0 * side);
    return s_kinds [kind].most;
}

//  The magnitude of a kind at a level, without its sign; 0 of a kind that has none.
static double
s_magnitude (const operation_t *operation, augment_kind_t kind, uint32_t level, uint32_t height,
    uint32_t width)
{
    uint32_t bins = operation->kind == OPERATION_AUTO_AUGMENT? AUTO_BINS: operation->augment.bins;
    bool is_wide = operation->kind == OPERATION_TRIVIAL_AUGMENT_WIDE;
    assert (level < bins);
    if (!s_kinds [kind].has_magnitude)
        return 0;
    if (kind == AUGMENT_POSTERIZE)
        return s_bits (bins, level, is_wide? 6: 4) - (operation->kind == OPERATION_AUG_MIX? 4: 0);
    if (kind == AUGMENT_SOLARIZE)
        return operation->augment.unit_threshold? 255 * s_linspace (1, 0, bins, level):
            s_linspace (255, 0, bins, level);
    return s_linspace (0, s_most (operation, kind, height, width), bins, level);
}

//  ---------------------------------------------------------------------------------------------------------
//  Draws

static size_t
s_draw_random (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random,
    augment_step_t *steps)
{
    for (uint32_t index = 0; index < operation->augment.steps; index++) {
        augment_kind_t kind = (augment_kind_t) keyed_random_below (random, RANDOM_KINDS);
        double magnitude = s_magnitude (operation, kind, operation->augment.level, height, width);
        if (s_kinds [kind].is_signed && keyed_random_below (random, 2))
            magnitude = -magnitude;
        steps [index] = (augment_step_t) { kind, magnitude };
    }
    return operation->augment.steps;
}

static size_t
s_draw_trivial (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random,
    augment_step_t *steps)
{
    augment_kind_t kind = (augment_kind_t) keyed_random_below (random, RANDOM_KINDS);
    uint32_t level = s_kinds [kind].has_magnitude?
        (uint32_t) keyed_random_below (random, operation->augment.bins): 0;
    double magnitude = s_magnitude (operation, kind, level, height, width);
    if (s_kinds [kind].is_signed && keyed_random_below (random, 2))
        magnitude = -magnitude;
    steps [0] = (augment_step_t) { kind, magnitude };
    return 1;
}

static size_t
s_draw_auto (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random,
    augment_step_t *steps)
{
    const policy_step_t *policy = s_policies [operation->augment.policy]
        [keyed_random_below (random, SUB_POLICIES)];
    double chances [SUB_POLICY_STEPS];
    bool is_positive [SUB_POLICY_STEPS];
    for (size_t index = 0; index < SUB_POLICY_STEPS; index++)
        chances [index] = keyed_random_uniform (random);
    for (size_t index = 0; index < SUB_POLICY_STEPS; index++)
        is_positive [index] = keyed_random_below (random, 2);
    size_t count = 0;
    for (size_t index = 0; index < SUB_POLICY_STEPS; index++) {
        if (chances [index] > policy [index].probability)
            continue;
        augment_kind_t kind = policy [index].kind;
        double magnitude = s_magnitude (operation, kind, policy [index].level, height, width);
        if (s_kinds [kind].is_signed && !is_positive [index])
            magnitude = -magnitude;
        steps [count++] = (augment_step_t) { kind, magnitude };
    }
    return count;
}

size_t
augment_draw (const operation_t *operation, uint32_t height, uint32_t width, keyed_random_t *random,
    augment_step_t steps [AUGMENT_STEPS_MAX])
{
    if (operation->kind == OPERATION_RAND_AUGMENT)
        return s_draw_random (operation, height, width, random, steps);
    if (operation->kind == OPERATION_TRIVIAL_AUGMENT_WIDE)
        return s_draw_trivial (operation, height, width, random, steps);
    assert (operation->kind == OPERATION_AUTO_AUGMENT);
    return s_draw_auto (operation, height, width, random, steps);
}

//  ---------------------------------------------------------------------------------------------------------
//  Steps

bool
augment_warp (const augment_step_t *step, uint32_t height, uint32_t width, warp_t *warp_p)
{
    static const double corner [2] = { 0, 0 };
    warp_affine_t affine = { .scale = 1 };
    switch (step->kind) {
    case AUGMENT_ROTATE:
        *warp_p = warp_rotate (step->magnitude, false, NULL, height, width);
        return true;
    case AUGMENT_SHEAR_X:
    case AUGMENT_SHEAR_Y:
        affine.center = corner;
        //  torchvision asks for the angle of a shear, in degrees.
        affine.shear [step->kind == AUGMENT_SHEAR_Y] = atan (step->magnitude) * (180 / M_PI);
        break;
    case AUGMENT_TRANSLATE_X:
    case AUGMENT_TRANSLATE_Y:
        affine.translate [step->kind == AUGMENT_TRANSLATE_Y] = trunc (step->magnitude);
        break;
    default:
        return false;
    }
    *warp_p = warp_affine (&affine, height, width);
    return true;
}

bool
augment_colour (const augment_step_t *step, colour_kind_t *kind_p, double *factor_p)
{
    static const colour_kind_t kinds [AUGMENT_KINDS] = {
        [AUGMENT_BRIGHTNESS] = COLOUR_BRIGHTNESS, [AUGMENT_COLOR] = COLOUR_SATURATION,
        [AUGMENT_CONTRAST] = COLOUR_CONTRAST, [AUGMENT_POSTERIZE] = COLOUR_POSTERIZE,
        [AUGMENT_SOLARIZE] = COLOUR_SOLARIZE, [AUGMENT_AUTOCONTRAST] = COLOUR_AUTOCONTRAST,
        [AUGMENT_EQUALIZE] = COLOUR_EQUALIZE, [AUGMENT_INVERT] = COLOUR_INVERT
    };
    //  BRIGHTNESS is 0, as a kind without a row.
    if (step->kind != AUGMENT_BRIGHTNESS && kinds [step->kind] == COLOUR_BRIGHTNESS)
        return false;
    bool is_factor = kinds [step->kind] <= COLOUR_SATURATION;
    *kind_p = kinds [step->kind];
    *factor_p = is_factor? 1 + step->magnitude: step->magnitude;
    return true;
}

//  ---- mixtures

//  In torchvision's order; the last four only with all operations.
static const augment_kind_t s_mix_kinds [] = {
    AUGMENT_SHEAR_X, AUGMENT_SHEAR_Y, AUGMENT_TRANSLATE_X, AUGMENT_TRANSLATE_Y, AUGMENT_ROTATE,
    AUGMENT_POSTERIZE, AUGMENT_SOLARIZE, AUGMENT_AUTOCONTRAST, AUGMENT_EQUALIZE,
    AUGMENT_BRIGHTNESS, AUGMENT_COLOR, AUGMENT_CONTRAST, AUGMENT_SHARPNESS
};
enum { ALL_KINDS = sizeof s_mix_kinds / sizeof *s_mix_kinds, FEW_KINDS = ALL_KINDS - 4, DEPTH_DRAWN = 3 };

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
    uint32_t kinds = mix->augment.all_kinds? ALL_KINDS: FEW_KINDS;
    augment_kind_t kind = s_mix_kinds [keyed_random_below (random, kinds)];
    uint32_t level = s_kinds [kind].has_magnitude?
        (uint32_t) keyed_random_below (random, mix->augment.level): 0;
    double magnitude = s_magnitude (mix, kind, level, height, width);
    if (s_kinds [kind].is_signed && keyed_random_below (random, 2))
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

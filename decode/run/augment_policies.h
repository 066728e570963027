/*  augment_policies -- the learnt policies of AutoAugment, as torchvision has them: for augment.c alone.
 *
 *  Published with "AutoAugment: Learning Augmentation Strategies from Data" (Cubuk et al., CVPR 2019).  Each
 *  of 25 sub-policies is two steps: which, with which probability, and the number of its magnitude.
 */
#ifndef AUGMENT_POLICIES_H
#define AUGMENT_POLICIES_H
#include "augment.h"

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

#endif

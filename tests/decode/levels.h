/*  levels -- runs a test's loops in every version that this machine has (simd.h).  */
#ifndef LEVELS_H
#define LEVELS_H
#include <stdbool.h>
#include <stdlib.h>
#include "simd.h"

//  From now on the loops are level's; false, and nothing done, where the machine or the build lacks it.
static inline bool
levels_use (simd_level_t level)
{
    if (!simd_has (level))
        return false;
    if (level == SIMD_PORTABLE)
        setenv ("TUREEN_SIMD", "portable", 1);
    else
        unsetenv ("TUREEN_SIMD");
    return simd_level () == level;
}

#endif

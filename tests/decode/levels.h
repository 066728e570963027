/*  levels -- runs a test's loops in every version that this machine has (loops.h).  */
#ifndef LEVELS_H
#define LEVELS_H
#include <stdbool.h>
#include <stdlib.h>
#include "loops.h"

//  From now on the loops are level's; false, and nothing done, where the machine or the build lacks it.
static inline bool
levels_use (loops_level_t level)
{
    if (!loops_has (level))
        return false;
    if (level == LOOPS_PORTABLE)
        setenv ("TUREEN_SIMD", "portable", 1);
    else
        unsetenv ("TUREEN_SIMD");
    return loops_level () == level;
}

#endif

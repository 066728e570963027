#include "simd.h"
#include <stdlib.h>
#include <string.h>
#include "loops.h"

int
simd_has (simd_level_t level)
{
#ifdef TUREEN_AVX2
    //  Reads what the compiler's runtime asked the processor at the start.  The loops use FMA, BMI2 and F16C
    //  too; F16C came before AVX2, so it is there.
    if (level == SIMD_AVX2)
        return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma")
            && __builtin_cpu_supports ("bmi2");
#endif
    return level == SIMD_PORTABLE;
}

simd_level_t
simd_level (void)
{
    if (!simd_has (SIMD_AVX2))
        return SIMD_PORTABLE;
    const char *wish = getenv ("TUREEN_SIMD");
    return wish && strcmp (wish, "portable") == 0? SIMD_PORTABLE: SIMD_AVX2;
}

const loops_t *
simd_loops (void)
{
#ifdef TUREEN_AVX2
    if (simd_level () == SIMD_AVX2)
        return &loops_avx2;
#endif
    return &loops_portable;
}

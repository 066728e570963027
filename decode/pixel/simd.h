/*  simd -- which instructions the inner loops may use, asked once a call; every version of a loop gives the
 *  same bytes.
 *
 *  TUREEN_SIMD=portable in the environment keeps to portable C, for tests and for finding faults.
 */
#ifndef SIMD_H
#define SIMD_H

typedef enum { SIMD_PORTABLE, SIMD_AVX2, SIMD_LEVELS } simd_level_t;

//  The best level of this machine that the environment allows.  It looks every time: some tens of
//  nanoseconds, cheap enough for a call a row.  Any thread.
simd_level_t simd_level (void);
//  The inner loops of that level (loops.h).
const struct loops *simd_loops (void);
//  Whether this machine has it, for tests that run every level.
int simd_has (simd_level_t level);

#endif

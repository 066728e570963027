/*  blur_avx2 -- the loops of blur_rows.h, compiled for processors with AVX2.  */
#include "blur_rows.h"

const blur_loops_t blur_loops_avx2 = BLUR_LOOPS;

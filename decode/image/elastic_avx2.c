/*  elastic_avx2 -- the loops of elastic_rows.h, compiled for processors with AVX2, which have FMA.  */
#include "elastic_rows.h"

const elastic_loops_t elastic_loops_avx2 = ELASTIC_LOOPS;

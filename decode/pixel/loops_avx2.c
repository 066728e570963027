/*  loops_avx2 -- the inner loops of blur, colour, elastic and jpeg_entropy, compiled for processors with
 *  AVX2, which have FMA and BMI2.  Those of colour are 2 to 3 times as fast so.
 */
#include "blur_rows.h"
#include "colour_rows.h"
#include "elastic_rows.h"
#include "jpeg_mcu_loops.h"

const blur_loops_t blur_loops_avx2 = BLUR_LOOPS;
const colour_loops_t colour_loops_avx2 = COLOUR_LOOPS;
const elastic_loops_t elastic_loops_avx2 = ELASTIC_LOOPS;
const jpeg_mcu_loops_t jpeg_mcu_loops_avx2 = JPEG_MCU_LOOPS;

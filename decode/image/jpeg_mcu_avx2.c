//  jpeg_mcu_avx2 -- the loops of jpeg_mcu_loops.h, compiled for processors with AVX2, which have BMI2.
#include "jpeg_mcu_loops.h"

const jpeg_mcu_loops_t jpeg_mcu_loops_avx2 = JPEG_MCU_LOOPS;

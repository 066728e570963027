/*  decode_limits -- what bounds the time and memory that one sample may take, whatever its bytes say.  */
#ifndef DECODE_LIMITS_H
#define DECODE_LIMITS_H

enum { DECODER_PIXELS_MAX = 100 * 1000 * 1000, DECODER_SCANS_MAX = 100 };

#endif

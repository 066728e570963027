/*  simulated_amount -- a decimal number, then perhaps K, M, G or T, 1000 each; as simulators take bytes, bits
 *  and counts.  */
#ifndef SIMULATED_AMOUNT_H
#define SIMULATED_AMOUNT_H
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "option.h"

//  False: it is none.
static inline bool
simulated_amount (const char *text, double *amount_p)
{
    static const char units [] = "KMGT";
    size_t length = strlen (text);
    const char *unit = length? strchr (units, text [length - 1]): NULL, *end;
    if (!option_real (text, unit? *unit: '\0', amount_p, &end) || end != text + length + !unit)
        return false;
    *amount_p *= unit? pow (1000, (double) (unit - units + 1)): 1;
    return isfinite (*amount_p);
}

#endif

/*  cluster_published -- the figures of Redox's distributed protocol and of NoPFS's placement beside those of
 *  these models: the papers' own, derived ones, and those of programs and formulas of ours.
 *
 *  Each row has its tolerance: exact where the generator is known (the small case), else what the spread over
 *  seeds and the rounding of the figure allow; none where the paper's text has other parameters than those
 *  that give its table.
 */
#ifndef CLUSTER_PUBLISHED_H
#define CLUSTER_PUBLISHED_H
#include <stdbool.h>
#include <stdint.h>

//  Prints all tables.  The small case has seed 42 whatever `seed` is.  False: a figure is out of its
//  tolerance.
bool cluster_published_print (uint64_t seed);

#endif

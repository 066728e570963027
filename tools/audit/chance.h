/*  chance -- how probable a figure that large is by chance: upper tails of the usual laws; and figures of a
 *  permutation, with their law under chance.
 *
 *  No randomness and no state; any thread.
 */
#ifndef CHANCE_H
#define CHANCE_H
#include <stddef.h>
#include <stdint.h>

//  ---- tails: all are P (X >= what was seen), 0 to 1, to at least six digits down to 1e-290; below that they
//  become 0.

//  A standard normal figure.
double chance_normal (double z);
//  A figure that stands z standard deviations above its mean and has this skewness, by the gamma law with the
//  same three moments (Pearson's type III); exact for chi-squares.  If the skewness is 0 or less, by the
//  normal law, which for a law that leans to the left is too much, never too little.
double chance_skewed (double z, double skewness);
//  A sum of whole places of some of many, all choices of which are equally likely (a rank sum), or of several
//  such sums: how probable it is that it stands so far off its mean, on either side.  In any unit; step: the
//  least that two such sums differ by.  By the normal law with the sum's own variance, which is too much,
//  never too little, where it is below 1e-3 and 20 places or more are chosen from; a tenth more is possible
//  between 1e-3 and 1e-2.
double chance_places (double off, double variance, double step);
//  A figure that follows Student's law with so many degrees of freedom stands that far off 0, on either side.
double chance_student (double t, double degrees);
//  hits of so many trials, each with this probability.  1 where hits is not above the mean.
double chance_binomial (uint64_t trials, double probability, uint64_t hits);
//  hits among drawn of population, of which marked are marked.  1 where hits is not above the mean.
double chance_hypergeometric (uint64_t population, uint64_t marked, uint64_t drawn, uint64_t hits);

//  ---- figures of a permutation: what one order says about another
//
//  relative [i] is the position in the second order of what stands at position i of the first; it must be a
//  permutation of 0 .. count-1.  For two orders of which at least one is a true shuffle, independent of the
//  other, every permutation is equally likely.  The moments beside each figure are those under this law.
//
//  Means and variances are exact for every count; third moments are those of large tables.  What a figure's
//  tail is worth, and from which count on, tests/tools/audit/test_audit.c measures.

enum { CHANCE_TENTHS = 10, CHANCE_BATCH = 64, CHANCE_TWENTIETHS = 20 };

//  A figure; mean, variance and third central moment of it under chance.
typedef struct { double value, mean, variance, third; } chance_figure_t;

//  Adds an independent figure: all four add up.
void chance_add (chance_figure_t *self, const chance_figure_t *other);
//  The same figure in another unit.
chance_figure_t chance_scaled (chance_figure_t self, double factor);
//  P (a figure as large as value or larger) under chance.
double chance_tail (const chance_figure_t *self);

//  Chi-square of the table "tenth of the first" x "tenth of the second".  count >= 10.
chance_figure_t chance_tenths (const uint32_t *relative, size_t count);
//  Pairs that share a batch of CHANCE_BATCH in both orders.  count > CHANCE_BATCH.
chance_figure_t chance_pairs (const uint32_t *relative, size_t count);
//  Rank correlation of the positions.  count >= 2.
chance_figure_t chance_rank (const uint32_t *relative, size_t count);
//  How far apart in the second order neighbours in the first are, on average, in parts of count and with the
//  sign turned: large where neighbours stay near each other.  count >= 3.
chance_figure_t chance_nearness (const uint32_t *relative, size_t count);
//  How many of the first order's last twentieth (count / 20, at least 1) come in the second's first.
size_t chance_tail_to_head (const uint32_t *relative, size_t count);
//  The size of that twentieth.
size_t chance_twentieth (size_t count);

#endif

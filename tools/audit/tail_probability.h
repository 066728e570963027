/*  tail_probability -- how probable a figure that large is by chance: upper tails of the usual laws.
 *
 *  All are P (X >= what was seen), 0 to 1, to at least six digits down to 1e-290; below that they become
 *  0.  They know no randomness and no state.  Any thread.
 */
#ifndef TAIL_PROBABILITY_H
#define TAIL_PROBABILITY_H
#include <stdint.h>

//  A standard normal figure.
double tail_probability_normal (double z);
//  A figure that stands z standard deviations above its mean and has this skewness, by the gamma law with the
//  same three moments (Pearson's type III); exact for chi-squares.  If the skewness is 0 or less, by the
//  normal law, which for a law that leans to the left is too much, never too little.
double tail_probability_skewed (double z, double skewness);
//  A sum of whole places of some of many, all choices of which are equally likely (a rank sum), or of several
//  such sums: how probable it is that it stands so far off its mean, on either side.  In any unit; step: the
//  least that two such sums differ by.  By the normal law with the sum's own variance, which is too much,
//  never too little, where it is below 1e-3 and 20 places or more are chosen from; a tenth more is possible
//  between 1e-3 and 1e-2.
double tail_probability_places (double off, double variance, double step);
//  A figure that follows Student's law with so many degrees of freedom stands that far off 0, on either side.
double tail_probability_student (double t, double degrees);
//  hits of so many trials, each with this probability.  1 where hits is not above the mean.
double tail_probability_binomial (uint64_t trials, double probability, uint64_t hits);
//  hits among drawn of population, of which marked are marked.  1 where hits is not above the mean.
double tail_probability_hypergeometric (uint64_t population, uint64_t marked, uint64_t drawn, uint64_t hits);

#endif

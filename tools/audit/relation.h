/*  relation -- what one order says about another: figures of a permutation, with their law under chance.
 *
 *  relative [i] is the position in the second order of what stands at position i of the first; it must be a
 *  permutation of 0 .. count-1.  For two orders of which at least one is a true shuffle, independent of the
 *  other, every permutation is equally likely.  The moments beside each figure are those under this law.
 *
 *  Means and variances are exact for every count; third moments are those of large tables.  What a figure's
 *  tail is worth, and from which count on, tests/tools/audit/test_audit.c measures.
 *
 *  No state; any thread.
 */
#ifndef RELATION_H
#define RELATION_H
#include <stddef.h>
#include <stdint.h>

enum { RELATION_TENTHS = 10, RELATION_BATCH = 64, RELATION_TWENTIETHS = 20 };

//  A figure; mean, variance and third central moment of it under chance.
typedef struct { double value, mean, variance, third; } relation_t;

//  Adds an independent figure: all four add up.
void relation_add (relation_t *self, const relation_t *other);
//  The same figure in another unit.
relation_t relation_scaled (relation_t self, double factor);
//  P (a figure as large as value or larger) under chance.
double relation_tail (const relation_t *self);

//  Chi-square of the table "tenth of the first" x "tenth of the second".  count >= 10.
relation_t relation_tenths (const uint32_t *relative, size_t count);
//  Pairs that share a batch of RELATION_BATCH in both orders.  count > RELATION_BATCH.
relation_t relation_pairs (const uint32_t *relative, size_t count);
//  Rank correlation of the positions.  count >= 2.
relation_t relation_rank (const uint32_t *relative, size_t count);
//  How far apart in the second order neighbours in the first are, on average, in parts of count and with the
//  sign turned: large where neighbours stay near each other.  count >= 3.
relation_t relation_nearness (const uint32_t *relative, size_t count);
//  How many of the first order's last twentieth (count / 20, at least 1) come in the second's first.
size_t relation_tail_to_head (const uint32_t *relative, size_t count);
//  The size of that twentieth.
size_t relation_twentieth (size_t count);

#endif

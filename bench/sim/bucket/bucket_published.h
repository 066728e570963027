/*  bucket_published -- the figures of NoPFS's and DELI's papers that their models give, derived ones and
 *  those of our own formulas, as tables: the figure, ours, ratio; and what is not derivable.  */
#ifndef BUCKET_PUBLISHED_H
#define BUCKET_PUBLISHED_H
#include <stdint.h>

//  Prints to standard output; takes some seconds.
void bucket_published_print (uint64_t seed);

#endif

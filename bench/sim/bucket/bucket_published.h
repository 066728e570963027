/*  bucket_published -- the figures of NoPFS's and DELI's papers that their models give, as a table: paper,
 *  ours, ratio.  What is not derivable is said below it.  */
#ifndef BUCKET_PUBLISHED_H
#define BUCKET_PUBLISHED_H
#include <stdint.h>

//  Prints to standard output; takes some seconds.
void bucket_published_print (uint64_t seed);

#endif

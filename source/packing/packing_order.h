/*  packing_order -- the order of a pack: that of its samples' keys.  A format: the same seed gives the same
 *  order for ever.
 */
#ifndef PACKING_ORDER_H
#define PACKING_ORDER_H
#include <stdint.h>

//  Which of so many equal ranges of keys the sample's is in; ranges are in the order of keys.
uint32_t packing_bucket (uint64_t seed, uint32_t id, uint32_t buckets);

//  Writes the ids 0 .. count-1 by key.
void packing_order (uint64_t seed, uint32_t count, uint32_t *order);

#endif

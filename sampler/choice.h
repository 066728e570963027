/*  choice -- a uniform id of a set.  */
#ifndef CHOICE_H
#define CHOICE_H
#include <stdint.h>
#include <roaring/roaring.h>

#include "random.h"

enum { CHOICE_NO_ID = 0xffffffff };     //  never a sample: ids are below a 32-bit count

//  The set, which is not run-compressed, has `count` ids, at least 1, all below universe.
uint32_t choice_pick (const roaring_bitmap_t *set, uint64_t count, uint32_t universe, random_t *random);

#endif

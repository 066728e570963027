#include "choice.h"

#include <assert.h>

//  A set with more than one id in 16 is mostly bitset containers: select takes 700 ns there, and a look at
//  whether an id is in it 10 to 30.  Below that they are arrays: select takes 20 ns.
enum { DENSE = 16 };

uint32_t
choice_pick (const roaring_bitmap_t *set, uint64_t count, uint32_t universe, random_t *random)
{
    assert (count > 0);
    uint32_t id = CHOICE_NO_ID;
    if (count * DENSE >= universe) {
        do
            id = (uint32_t) random_below (random, universe);
        while (!roaring_bitmap_contains (set, id));
        return id;
    }
    bool found = roaring_bitmap_select (set, (uint32_t) random_below (random, count), &id);
    assert (found);
    return id;
}

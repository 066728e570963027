#include "lost_samples.h"
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum { WORDS_MORE = 16 };

//  Ids come in any order, so the set grows to its full size in a few steps.
void
lost_samples_add (lost_samples_t *set, uint32_t id)
{
    size_t word = id / 64;
    if (word >= set->room) {
        size_t room = word + word / 8 + WORDS_MORE;
        set->words = xalloc_memory (realloc (set->words, room * sizeof *set->words));
        memset (set->words + set->room, 0, (room - set->room) * sizeof *set->words);
        set->room = room;
    }
    set->words [id / 64] |= 1ull << id % 64;
}

bool
lost_samples_remove (lost_samples_t *set, uint32_t id)
{
    if (id / 64 >= set->room)
        return false;
    uint64_t bit = 1ull << id % 64;
    bool was_there = set->words [id / 64] & bit;
    set->words [id / 64] &= ~bit;
    return was_there;
}

void
lost_samples_clear (lost_samples_t *set)
{
    if (set->words)
        memset (set->words, 0, set->room * sizeof *set->words);
}

void
lost_samples_free (lost_samples_t *set)
{
    free (set->words);
    *set = (lost_samples_t) { .words = NULL };
}

/*  demand -- what one job needs: its data, what of it remains in the present epoch, and its list if any.
 *
 *  Two forms.  A SHARED job under `follow` has a history (history.h), four bytes a sample, and no sets.  All
 *  others have two sets, data and remaining; a list or a seed says in which order.
 *
 *  Invariants, checked by demand_check ():
 *    D1  remaining is a subset of data, and neither set is run-compressed (drawing would be 80 times slower).
 *    D2  remaining_count and epoch_count count the samples of remaining and data, with the repeats of a list.
 *    D3  samples drawn in this epoch, or taken before the job joined in it or by other nodes, and still in
 *        data, plus remaining_count, make epoch_count.
 *    D4  a list's remaining set holds just the ids that occur at or after its cursor, and so does a seeded
 *        order's, less what was taken; what is at the cursor remains.
 *    D5  a list counts for each id the places that are still to come, none for a dropped one, so that no drop
 *        walks the list.  Places of dropped ids are in it until the epoch ends: no other epoch skips them.
 *  Owner: the sampler's thread.
 */
#ifndef DEMAND_H
#define DEMAND_H
#include <stdbool.h>
#include <stdint.h>
#include <roaring/roaring.h>
#include "history.h"
#include "sampler.h"

typedef struct demand demand_t;

//  At the beginning of its first epoch, or where join says that it goes on.  Copies what join lends, as far
//  as it is in readable, which is a set of ids below sample_count that is not run-compressed.  remembers: in
//  the form with a history (SHARED only; some of its data must be readable), for which random says what it
//  cannot know (history_go_on).
//  Never NULL.
demand_t *demand_new (const sampler_join_t *join, const roaring_bitmap_t *readable, uint32_t sample_count,
    bool remembers, random_t *random);
void demand_destroy (demand_t **self_p);

sampler_order_t demand_order (const demand_t *self);
//  Both sets are lent until the next call that changes the demand; NULL where there is a history.
const roaring_bitmap_t *demand_data (const demand_t *self);
const roaring_bitmap_t *demand_remaining (const demand_t *self);
//  NULL where there are sets.
history_t *demand_history (const demand_t *self);
//  Whether id is in the data at all; whether it remains; whether it will in the next epoch.
bool demand_has (const demand_t *self, uint32_t id);
bool demand_needs (const demand_t *self, uint32_t id);
bool demand_needs_next (const demand_t *self, uint32_t id);
//  Whether it is one node's of several: of each epoch, the other nodes' parts count as taken.
bool demand_has_parts (const demand_t *self);
//  Which ids remain, in pieces of DEMAND_PIECE: bit b of bits [index] tells of id
//  DEMAND_PIECE * pieces [index] + b.
enum { DEMAND_PIECE = 8 };
void demand_copy_remaining (const demand_t *self, const uint32_t *pieces, size_t count, uint8_t *bits);
//  The ids that remain, in any order, if there are at most max and they are found quickly; else false.
bool demand_list_remaining (const demand_t *self, uint32_t *ids, size_t max, size_t *count_p);
//  Cuts the data, which are not empty, into parts of equally many ids, or where that takes long into equally
//  long ones: part p is [bounds [p], bounds [p + 1]).  Stays the same while the data do.
void demand_spread (const demand_t *self, uint32_t *bounds, size_t parts);
uint64_t demand_remaining_count (const demand_t *self);
uint64_t demand_epoch_count (const demand_t *self);

//  Whether the order is given: LIST or SEEDED.
bool demand_is_given (const demand_t *self);
//  For a given order: the id that must be drawn next.  Something must remain.
uint32_t demand_next (const demand_t *self);
//  id, which remains (of a given order: which is next), is drawn.
void demand_draw (demand_t *self, uint32_t id);
//  As sampler_occurrence.
uint32_t demand_occurrence (const demand_t *self);
//  As sampler_entered; of pieces of which nothing remains it does not tell.
bool demand_entered (demand_t *self, stream_piece_t *piece);
//  id leaves data and remaining; it may be in neither.
void demand_drop (demand_t *self, uint32_t id);
//  All the data remain again, or the node's part of them.
void demand_epoch_begin (demand_t *self);

//  Aborts at the first invariant that does not hold; there must be nothing that is not in readable.
void demand_check (const demand_t *self, const roaring_bitmap_t *readable);

#endif

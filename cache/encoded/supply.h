/*  supply -- what a job has to draw from: the samples in memory that were read for it (raw_pool.h), a set of
 *  ids of which any can be chosen at random.
 *
 *  The ids lie in an array without gaps, in an order that every change may change; a hash table of places in
 *  the array finds an id.  So all is O(1) on average, and memory goes with the number of ids, not with that
 *  of all samples.
 *
 *  Invariant, checked by supply_check ():
 *    Q1  the table has the place of each id once, and nothing else.
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef SUPPLY_H
#define SUPPLY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  All zero: empty.
typedef struct {
    uint32_t *ids;
    uint32_t count;
    uint32_t *table;            //  the place of an id + 1; 0: free
    uint32_t table_size;        //  a power of two, more than twice the count; or 0
} supply_t;

//  Frees its memory, and leaves it empty.
void supply_clear (supply_t *self);
bool supply_has (const supply_t *self, uint32_t id);
//  The id must not be there.
void supply_add (supply_t *self, uint32_t id);
//  False: it was not there.
bool supply_remove (supply_t *self, uint32_t id);
//  The memory that a supply of so many ids takes at most.
size_t supply_bytes (uint64_t ids);
void supply_check (const supply_t *self);

#endif

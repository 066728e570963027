/*  sampler_list -- the ids that a job of order LIST asks for, in order of delivery, and what the sampler
 *  needs to know of them.
 *
 *  A list may have millions of ids: making it in another thread keeps the sampler's thread free.  It never
 *  changes, and may have many holders.  Any thread.
 */
#ifndef SAMPLER_LIST_H
#define SAMPLER_LIST_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>

//  Made by sampler_list_new, and read by all.
typedef struct {
    atomic_size_t holders;
    uint32_t *ids;
    size_t count;
    uint32_t sample_count;
    uint32_t *times;                //  by id: how often it occurs
    uint32_t *occurrences;          //  by place of a part: how often its id occurs before it, in the other
                                    //  nodes' places too; NULL: not a part
    roaring_bitmap_t *set;          //  all ids that occur
} sampler_list_t;

//  ids: malloc'ed, count > 0 of them, each < sample_count, repeats allowed; the list's from now on.  A node
//  has each step-th place from first < count on; step 1, first 0: all.  NULL: no memory, and ids still are
//  the caller's.
sampler_list_t *sampler_list_new (uint32_t *ids, size_t count, uint32_t sample_count, uint32_t step,
    uint32_t first);
//  A list of all these ids, which stay the caller's.
sampler_list_t *sampler_list_copy (const uint32_t *ids, size_t count, uint32_t sample_count);
//  One more holder: each ends with sampler_list_destroy.
sampler_list_t *sampler_list_hold (sampler_list_t *self);
void sampler_list_destroy (sampler_list_t **self_p);

//  What a list of so many ids holds.
size_t sampler_list_bytes (size_t count, uint32_t sample_count, bool is_part);
//  The list without the ids that are not in kept; it may be empty.  *places_p is a number of self's first
//  places, and becomes how many of them are left.  NULL: no memory.
sampler_list_t *sampler_list_kept (const sampler_list_t *self, const roaring_bitmap_t *kept,
    size_t *places_p);

#endif

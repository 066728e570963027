/*  sampler_list -- the ids that a job of order LIST asks for, in order of delivery, and what the sampler
 *  needs to know of them.
 *
 *  A list may have millions of ids: making it in another thread keeps the sampler's thread free.  It never
 *  changes, and may have many holders.  Any thread.
 */
#ifndef SAMPLER_LIST_H
#define SAMPLER_LIST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>

typedef struct sampler_list sampler_list_t;

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

const uint32_t *sampler_list_ids (const sampler_list_t *self);
size_t sampler_list_count (const sampler_list_t *self);
//  By id: how often it occurs; the list's.
const uint32_t *sampler_list_times (const sampler_list_t *self);
//  By place of a part: how often its id occurs before it, in the other nodes' places too; NULL: not a part.
const uint32_t *sampler_list_occurrences (const sampler_list_t *self);
//  What a list of so many ids holds.
size_t sampler_list_bytes (size_t count, uint32_t sample_count, bool is_part);
//  All ids that occur; the list's.
const roaring_bitmap_t *sampler_list_set (const sampler_list_t *self);
//  The list without the ids that are not in kept; it may be empty.  *places_p is a number of self's first
//  places, and becomes how many of them are left.  NULL: no memory.
sampler_list_t *sampler_list_kept (const sampler_list_t *self, const roaring_bitmap_t *kept,
    size_t *places_p);

#endif

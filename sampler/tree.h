/*  tree -- the dependent sampling tree: what remains to the jobs of a group, split by which jobs share it.
 *
 *  JOADER (Xie et al., NeurIPS 2022), section 4.  The jobs stand on a path, at the places 0 .. n - 1, those
 *  with the least left first.  R_k is what remains to the job at place k.  A vertex V_k and a leaf L_k belong
 *  to each place; all of them are Roaring bitmaps:
 *
 *      V_0 -- V_1 -- V_2 -- ... -- V_(n-1)     R_k = V_0 + V_1 + ... + V_k + L_k
 *       |      |      |               |
 *      L_0    L_1    L_2           L_(n-1)     A_k = V_0 + V_1 + ... + V_k is common to jobs k .. n - 1
 *
 *  The paper's root is V_0, what all jobs share; its left child is L_0, what is left to the first job alone;
 *  its right child is the tree of the other jobs without V_0.  Insertion and deletion are the paper's (4.2).
 *  Three things are added.  A job can be inserted at any place.  Two neighbours can be swapped, so a path
 *  follows the sizes as they change.  And a path in any order, with any sets that keep T1, is a right one:
 *  A_k need not be *all* that the jobs k .. n - 1 have in common.  What it lacks costs sharing, and never
 *  makes a draw less uniform (dsa.h).
 *
 *  A draw changes a vertex and some leaves by one id each.  Insertion, deletion and a swap are operations on
 *  whole sets; nothing walks the ids of a job.
 *
 *  Invariants, checked by tree_check ():
 *    T1  for each place k the sets V_0 .. V_k and L_k are disjoint, and together they are R_k.
 *    T2  the size that is kept of each vertex is right.
 *    T3  the last leaf is empty.
 *    T4  no set is run-compressed (drawing would be 80 times slower).
 *  tree_is_fresh () says whether each A_k is all that the jobs k .. n - 1 have in common.  It is so unless a
 *  tree_raise was left out.
 *  Owner: the sampler's thread.
 */
#ifndef TREE_H
#define TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>
#include "sampler.h"

typedef struct tree tree_t;

enum { TREE_NOWHERE = SAMPLER_JOBS_MAX };

//  Without a job.  Never NULL.
tree_t *tree_new (void);
void tree_destroy (tree_t **self_p);

size_t tree_count (const tree_t *self);
uint32_t tree_job (const tree_t *self, size_t place);
//  TREE_NOWHERE: the job is not on the path.
size_t tree_place (const tree_t *self, uint32_t job);
//  Lent until the next change.
const roaring_bitmap_t *tree_vertex (const tree_t *self, size_t place);
const roaring_bitmap_t *tree_leaf (const tree_t *self, size_t place);
uint64_t tree_vertex_size (const tree_t *self, size_t place);

//  The job, which is not on the path, comes to this place; the jobs from there on move one place back.
//  remaining: what remains to it, copied, not run-compressed; neighbour: to the job now at this place, or to
//  the last one if there is none, NULL without a job.
void tree_insert (tree_t *self, size_t place, uint32_t job, const roaring_bitmap_t *remaining,
    const roaring_bitmap_t *neighbour);
//  The job leaves the path.  What the jobs behind it share can then be raised, from its place on, or from the
//  last place if it was last.
void tree_remove (tree_t *self, uint32_t job);
//  What is in the vertex at this place, and in the leaf of the job before it, moves to that job's vertex; of
//  this, what is also in the leaf before that moves on, and so forth to the front.
void tree_raise (tree_t *self, size_t place);
//  The jobs at place and place + 1 change places.
void tree_swap (tree_t *self, size_t place);

//  The jobs, some of which may not be on the path, draw an id of the vertex at this place.  Those on the path
//  need it.
void tree_draw (tree_t *self, size_t place, uint32_t id, const uint32_t *jobs, size_t count);
//  The job at this place draws an id of its leaf.
void tree_draw_leaf (tree_t *self, size_t place, uint32_t id);
//  id, which may be nowhere, leaves every set.
void tree_drop (tree_t *self, uint32_t id);

//  remaining: by job number, what remains to each job of the path.
void tree_check (const tree_t *self, const roaring_bitmap_t *const *remaining);
bool tree_is_fresh (const tree_t *self);

#endif

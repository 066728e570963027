/*  sharing_tree -- how much of what the jobs of a group still have to draw several of them need: sizes, for
 *  people to look at.  No draw depends on it.
 *
 *  The jobs stand on a path, as in tree.h.  At place k are a vertex, a job, and the job's leaf:
 *
 *      vertex 0 -- vertex 1 -- ... -- vertex n-1
 *         |           |                  |
 *      job, leaf   job, leaf          job, leaf
 *
 *    - A vertex's size counts the samples that all jobs from its place on still have to draw in their epochs,
 *      and that no vertex before it has.  The job before does not need them together with these jobs; a job
 *      further in front may need some.
 *    - A leaf's size counts the rest of what its job has to draw.  Other jobs may need some of it, but not
 *      all of the jobs behind.
 *    - So what a job has to draw is the sum of the vertices up to its place, and its leaf.
 *
 *  Under `dsa` the path is the one that draws (*kept*), and jobs that are not on it now come after it.  Where
 *  no tree is kept, one is made for the answer: the jobs with the least to draw first, equal ones side by
 *  side, and each vertex has all that its jobs have in common.
 *
 *  What a pair of jobs shares is counted by looking at pieces of 8 ids.  Jobs with few ids left are looked at
 *  whole; others get as much of the look each, spread over their data, as the caller allows ids.  If not all
 *  was seen, sizes are *estimates*: those of pairs, and of vertices and leaves of a tree that is not kept.
 *  Where too little of a job was seen to find anything, a size is *not known*.  What remains to a job is
 *  always exact, known sizes add up to it, and for jobs with equal sets they are exact.
 *  Owner: the sampler's thread makes it; then the caller.
 */
#ifndef SHARING_TREE_H
#define SHARING_TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sampler.h"

typedef struct demand demand_t;
typedef struct tree tree_t;

#define SHARING_TREE_UNKNOWN UINT64_MAX

typedef struct {
    uint32_t job;               //  its number in the sampler
    uint64_t remaining;         //  that it has to draw
    uint64_t vertex, leaf;      //  sizes, or SHARING_TREE_UNKNOWN; behind the path 0, and all that remains
} sharing_place_t;

typedef struct {
    bool is_kept;
    uint32_t ids, looked_at;    //  of the data set; fewer looked at: estimates; as many: all sizes are exact
    size_t count;               //  of the jobs
    size_t on_path;             //  the places before are the path's
    sharing_place_t *places;
    uint64_t *common;           //  by pair; sharing_tree_common reads it
} sharing_tree_t;

//  How many ids to look at so that trees together take some two milliseconds, twice that where the
//  processor's cache holds none of it; 64 at least.  weight: the sum of sharing_tree_weight over these trees.
//  A tree of one job weighs nothing, as it needs no look.
uint64_t sharing_tree_weight (size_t jobs);
uint64_t sharing_tree_ids (uint64_t weight);

//  Of these SHARED jobs, at least one, no repeats, as if there were no others.  is_group: they are a whole
//  group, and its kept tree is meant, if there is one.  Looks at about ids_max ids, but at 64 at least.  Not
//  inside a round.
sharing_tree_t *sharing_tree_of (const sampler_t *sampler, const uint32_t *jobs, size_t count, bool is_group,
    uint64_t ids_max);
void sharing_tree_destroy (sharing_tree_t **self_p);
//  Samples that the jobs at two different places both have to draw, or SHARING_TREE_UNKNOWN.
uint64_t sharing_tree_common (const sharing_tree_t *self, size_t place, size_t other);

//  ---- for the sampler

//  demands: by job number; kept: the tree that these jobs draw from, or NULL.
sharing_tree_t *sharing_tree_new (demand_t *const *demands, uint32_t sample_count, const tree_t *kept,
    const uint32_t *jobs, size_t count, uint64_t ids_max);

#endif

/*  cluster_reads -- which blocks each node of a job reads in an epoch.
 *
 *  An epoch's order of all blocks is a function of seed, job and epoch (permutation.h).  The node k of n
 *  reads the run of places floor (k M/n) .. floor ((k + 1) M/n) - 1 of it, one after the other.  When nodes
 *  come or go, what is left of the epoch is cut anew, in the same order.  (The server cuts at samples,
 *  sampler/parts.h; a cut inside a block, one a node, is left out here.)
 *  Owner: one thread.
 */
#ifndef CLUSTER_READS_H
#define CLUSTER_READS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct cluster_reads cluster_reads_t;

cluster_reads_t *cluster_reads_new (uint32_t blocks, uint32_t jobs, uint32_t nodes, uint64_t seed);
void cluster_reads_destroy (cluster_reads_t **self_p);

//  The job's next epoch, cut for these nodes.
void cluster_reads_begin (cluster_reads_t *self, uint32_t job, const uint32_t *nodes, uint32_t count);
//  The next place that the node reads.  False: it has none left.
bool cluster_reads_next (cluster_reads_t *self, uint32_t node, uint32_t *place_p);
uint32_t cluster_reads_block (const cluster_reads_t *self, uint32_t job, uint32_t place);
//  A place that a node has taken goes back to the job, or all that the node has not taken: the next cut has
//  it.
void cluster_reads_return (cluster_reads_t *self, uint32_t job, uint32_t place);
void cluster_reads_return_all (cluster_reads_t *self, uint32_t job, uint32_t node);
//  What was returned is cut for these nodes.
void cluster_reads_cut (cluster_reads_t *self, uint32_t job, const uint32_t *nodes, uint32_t count);

#endif

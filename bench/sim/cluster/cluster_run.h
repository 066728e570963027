/*  cluster_run -- one run of a plan on a virtual clock: nodes read their parts of each epoch through homes.
 *
 *  A node reads its part in order and has `ahead` blocks under way or not yet consumed.  For each block:
 *    - it is the home itself and holds the block: its own cache;
 *    - else it asks the home, unless the home is predicted to take more than `preference` times as long as
 *      the store (the model looks at the queues; a server has to measure).  A home that sends `credit` blocks
 *      to others already refuses.  A home that holds the block sends it; one that has room fetches it for all
 *      that ask meanwhile, keeps it and sends it; a full one says no (`relays`: fetches and sends it);
 *    - refused, told no, or the home has gone: the store.
 *  All nodes of a job begin an epoch together, when all of it is read; jobs do not wait for each other.
 *
 *  Queues: a cache's disk, a node's link in each direction, the store's own rate and that of a node to it,
 *  and the node's ranks.  Each serves one block at a time, in order of arrival, and a block passes from one
 *  to the next as it comes (no queue waits for its last byte).  Links are apart from the way to the store.
 *  Owner: one thread.
 */
#ifndef CLUSTER_RUN_H
#define CLUSTER_RUN_H
#include "cluster_plan.h"

//  Blocks, of all jobs, in their epochs of this number.
typedef struct {
    double seconds;                 //  of the slowest job
    double node_seconds;            //  until a node had read its part, mean
    uint64_t reads;                 //  blocks that were consumed: local + from peers + direct
    uint64_t local, peers, direct;  //  from a node's own cache, from its home, from the store to it
    uint64_t store;                 //  that the store sent: direct, and what homes fetched
    uint64_t handed;                //  that a home got of the home before it
    uint64_t refused, absent;       //  requests: for lack of credit, not there and no room
    uint64_t bypassed;              //  homes that were not asked
    uint64_t lost;                  //  requests to nodes that went
    double out_max, out_mean;       //  blocks that a node sent to others
    double in_max, in_mean;
    double homed_ratio;             //  home of most blocks for its cache: over the mean
    uint64_t least, alone;          //  what the caches leave to the store: together, and with no peers
    uint32_t nodes;                 //  at the epoch's end
} cluster_epoch_t;

//  Looks on: each block that is consumed.  NULL: does not.
typedef void (cluster_watch_fn) (void *context, uint32_t job, uint32_t epoch, uint32_t node, uint32_t block);

//  epochs: plan->epochs of them.
void cluster_run (const cluster_plan_t *plan, uint64_t seed, cluster_epoch_t *epochs,
    cluster_watch_fn *watch, void *context);

#endif

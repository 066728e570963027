/*  cluster_plan -- what cluster_sim is to simulate: nodes with caches, links between them, a store, and jobs.
 *
 *  Bytes are counted in whole blocks: the data are ceil (data / block) blocks.  Times are seconds, rates
 *  bytes a second.
 */
#ifndef CLUSTER_PLAN_H
#define CLUSTER_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLUSTER_NODES_MAX = 20000, CLUSTER_CHANGES_MAX = 64 };

typedef enum { CLUSTER_HOMES, CLUSTER_ALONE } cluster_peers_t;

//  Nodes that come (count > 0) or go (count < 0) once the first job has read so many epochs.
typedef struct {
    double at;
    int32_t count;
} cluster_change_t;

typedef struct {
    cluster_peers_t peers;          //  CLUSTER_ALONE: every node caches for itself
    uint32_t nodes;                 //  that are there at the begin
    uint32_t ranks;                 //  of a node
    uint32_t jobs;                  //  at most `nodes`; node n is job n mod jobs's
    uint32_t epochs;
    double data, block;             //  bytes
    double cache;                   //  of a node
    double larger, larger_factor;   //  the share of nodes with a larger cache, and how much larger it is
    double disk;                    //  rate of a node's cache; 0: no time
    double link, link_delay;        //  of a node, in each direction; one way
    double store, store_node;       //  rates: of all nodes together, of one
    double store_delay;             //  to the first byte
    double rate;                    //  that a rank consumes; 0: no time
    uint32_t ahead;                 //  blocks of a node that are asked for or wait to be consumed
    uint32_t credit;                //  blocks that a home sends to other nodes at a time
    double preference;              //  a home is asked if it is predicted to take at most so many times as
                                    //  long as the store
    bool relays;                    //  a full home fetches what it cannot keep, in place of saying no
    bool hands_over;                //  a new home asks the home before it, in place of the store
    uint32_t slow;                  //  nodes that do all slower
    double slow_factor;             //  by this
    const cluster_change_t *changes;            //  in order of time; lent
    size_t change_count;
} cluster_plan_t;

static inline uint32_t
cluster_plan_blocks (const cluster_plan_t *plan)
{
    double blocks = plan->data / plan->block;
    uint32_t whole = (uint32_t) blocks;
    return whole + (blocks > whole);
}

//  Of all nodes that ever come.
static inline uint32_t
cluster_plan_nodes_max (const cluster_plan_t *plan)
{
    uint32_t present = plan->nodes, most = plan->nodes;
    for (size_t at = 0; at < plan->change_count; at++) {
        present += (uint32_t) plan->changes [at].count;
        most = present > most? present: most;
    }
    return most;
}

//  Blocks that fit into a node's cache.  Larger caches are spread evenly over the nodes.
static inline uint32_t
cluster_plan_capacity (const cluster_plan_t *plan, uint32_t node)
{
    bool is_larger = (uint64_t) ((node + 1) * plan->larger) > (uint64_t) (node * plan->larger);
    double blocks = plan->cache * (is_larger? plan->larger_factor: 1) / plan->block;
    return blocks < UINT32_MAX? (uint32_t) blocks: UINT32_MAX;
}

#endif

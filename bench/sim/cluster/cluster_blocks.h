/*  cluster_blocks -- which node is the home of each block, and which nodes hold it.
 *
 *  Homes (source/peers/homes.h) follow the members: those that come and go.  A home keeps its blocks until
 *  its cache is full and then evicts none, except *strays*: blocks that it holds and that have another home
 *  since a member came or went.  A member that went comes back with what it held.
 *
 *  Without peers every node is the home of all blocks for itself.
 *
 *  Invariants, checked by cluster_blocks_check ():
 *    B1  with peers, a block is held by one node at most;
 *    B2  a node holds at most its capacity;
 *    B3  a block's home is the one that a list of the present members made anew has.
 *  Owner: one thread.
 */
#ifndef CLUSTER_BLOCKS_H
#define CLUSTER_BLOCKS_H
#include <stdbool.h>
#include <stdint.h>
#include "cluster_plan.h"

typedef struct cluster_blocks cluster_blocks_t;

enum { CLUSTER_NO_NODE = UINT32_MAX };

//  No member is present.  The plan is lent.
cluster_blocks_t *cluster_blocks_new (const cluster_plan_t *plan);
void cluster_blocks_destroy (cluster_blocks_t **self_p);

void cluster_blocks_join (cluster_blocks_t *self, uint32_t first, uint32_t count);
void cluster_blocks_leave (cluster_blocks_t *self, uint32_t first, uint32_t count);

//  The home as the node sees it.  CLUSTER_NO_NODE: no member has a cache.
uint32_t cluster_blocks_home (const cluster_blocks_t *self, uint32_t node, uint32_t block);
bool cluster_blocks_holds (const cluster_blocks_t *self, uint32_t node, uint32_t block);
//  With peers: the node that holds it, present or not.  CLUSTER_NO_NODE: none.
uint32_t cluster_blocks_holder (const cluster_blocks_t *self, uint32_t block);
//  Whether the node, which is the block's home, has room for it.
bool cluster_blocks_has_room (const cluster_blocks_t *self, uint32_t node);
//  The node holds the block from now on, if it has room; with peers no other node does then.
void cluster_blocks_keep (cluster_blocks_t *self, uint32_t node, uint32_t block);

//  Blocks that have the node as home, with peers; and that it holds.
uint32_t cluster_blocks_homed (const cluster_blocks_t *self, uint32_t node);
uint32_t cluster_blocks_held (const cluster_blocks_t *self, uint32_t node);
uint32_t cluster_blocks_capacity (const cluster_blocks_t *self, uint32_t node);
bool cluster_blocks_is_present (const cluster_blocks_t *self, uint32_t node);
//  Makes all homes anew: for small plans.
void cluster_blocks_check (const cluster_blocks_t *self);

#endif

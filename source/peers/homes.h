/*  homes -- which member of a cluster keeps a block: rendezvous hashing with weights.
 *
 *  Every member computes the same home of a block from the list of members alone: their ids and weights, in
 *  any order.  Weights are the bytes of the members' caches.  A block is homed at a member with probability
 *  weight / sum of weights.  When a member goes, only its blocks get other homes; when one comes or its
 *  weight grows, blocks move to it alone.
 *
 *  For each block each member has a pseudo-random number u of 64 bits, and the home is the member with the
 *  least -log2 (u / 2^64) / weight: the first of exponential clocks that run as fast as the weights.  Equals
 *  (one pair in 2^40) are decided by u, then by the id.  The result takes integer arithmetic alone: it is the
 *  same in every build, for ever.  tests/source/peers/test_homes.c keeps values of it; a change here moves
 *  blocks, and so is a new partition, not a repair.
 *
 *      u = mix (mix (block) ^ mix (~id))           //  mix: splitmix64's last step; 0 counts as 1
 *
 *  Cost: one u a member and a logarithm for the few members that can still win, because
 *  -ln (u / 2^64) >= 1 - u / 2^64 rules the others out.  Measured: 1.1 us of 16 members, 1.8 us of 100,
 *  11 us of 10,000.
 *  Owner: never changes; any thread.
 */
#ifndef HOMES_H
#define HOMES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t id;                    //  of its name, as xxHash has it; no two members have the same
    uint64_t weight;                //  0: the member is no home
} homes_member_t;

typedef struct homes homes_t;

#define HOMES_NONE SIZE_MAX

//  Copies the members.
homes_t *homes_new (const homes_member_t *members, size_t count);
void homes_destroy (homes_t **self_p);
//  The place in the list of the block's home.  HOMES_NONE: no member has a weight.
size_t homes_of (const homes_t *self, uint64_t block);
//  Whether the block is rather homed at `one` than at `other`; a member without a weight loses.  So a list
//  of homes can follow a newcomer with one question a block.
bool homes_prefers (const homes_member_t *one, const homes_member_t *other, uint64_t block);

#endif

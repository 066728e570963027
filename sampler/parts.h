/*  parts -- the samples that one node draws in an epoch of a job over several nodes.
 *
 *  A job over N nodes needs no coordinator.  On each node the node's own server serves a *part* of what the
 *  whole job still needs, and the part is a function of what all nodes know.  An epoch's parts are made once,
 *  at its *cut*: when it begins, or where a job goes on in the middle of it.
 *
 *  The same data, key, epoch and N give the same parts in every build, for ever: tests/sampler/test_parts.c
 *  keeps values of it, and a change here is a new partition, not a repair.
 *
 *  Numbers are unsigned and wrap.  next (s) is the first number of a splitmix64 with the state s
 *  (random_first).
 *  Samples have places: of a pack their positions in it, of other data their ids.  Places 64 u to 64 u + 63
 *  are *unit* u; with n samples in the data set there are ceil (n / 64).
 *
 *      seed   = next (next (next (key) ^ epoch) ^ N)           //  fixed parts: epoch is 0
 *      order  = permutation_new (seed, 0, units)               //  permutation.h
 *
 *  The samples that remain at the cut are put in a row: unit after unit in this order, inside a unit by
 *  place.  Of r samples the first r mod N nodes get the next floor (r / N) + 1 of the row each, the others
 *  floor (r / N).  So a part is whole units but for its two ends, and each piece that a server reads of a
 *  pack (at most 64 samples, which lie in at most two units) is of use to one node, seldom to two.
 *
 *  Unreadable samples are counted among what remains, because each server knows of others.
 *  Uniform: units are in random order, so each sample is equally likely on each node, in each epoch anew.
 *  Owner: the holder of the struct; it is plain data and may be copied.  Allocations abort when there is no
 *  memory.
 */
#ifndef PARTS_H
#define PARTS_H
#include <stdbool.h>
#include <stdint.h>
#include <roaring/roaring.h>

enum { PARTS_UNIT = 64 };

typedef struct {
    uint32_t nodes;                 //  1: the part is the whole
    uint32_t node;                  //  below nodes
    bool is_fixed;                  //  each epoch has the parts of epoch 0
    uint64_t key;                   //  of the data, the same on all nodes
    const uint32_t *pack_order;     //  the id at each position of a pack; lent; NULL: no pack
} parts_t;

//  The node's part of what remains, which are ids below sample_count.  Yours to free.  Costs 64 bits a unit,
//  and some nanoseconds a sample of what remains.
roaring_bitmap_t *parts_of (const parts_t *self, uint64_t epoch, uint32_t sample_count,
    const roaring_bitmap_t *remaining);
//  The batches that each node sends of an epoch in which so many samples remain at the cut: as many as hold
//  the longest part, or drop_last: as many as the shortest part fills.  batch_size > 0, of all ranks of a
//  node.
uint64_t parts_batches (uint32_t nodes, uint64_t remaining, uint64_t batch_size, bool drop_last);

#endif

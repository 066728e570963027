/*  stream_order -- the order of a `seeded` epoch that a pack can be read for in whole pieces.
 *
 *  A permutation of the job's data that is known ahead, as permutation.h's is, but local: the data, in the
 *  order in which they lie in the pack, are cut into *pieces* of eight neighbours; pieces come in a random
 *  order into a *pool*, and each next id is a random one of the pool.  So a reader that reads pieces as they
 *  enter the pool, and keeps the pool's samples, reads every piece once.
 *
 *  The same seed, epoch, pack, data and pool give the same order in every build, for ever:
 *  tests/sampler/test_stream_order.c keeps values of it, and a change here is a new order, not a repair.
 *
 *  Numbers are unsigned and wrap.  next (s) is the first number of a splitmix64 with the state s
 *  (random_first); n is how many samples the data have, those counted that cannot be read; their *ranks*
 *  0 .. n-1 are in pack order.
 *
 *      state  = next (next (next (seed) ^ epoch) ^ n) ^ pool           //  of the generator for all that
 *      follows:
 *      shift  = below (n)
 *      order  = permutation_new (next number, 0, ceil (n / 8))         //  of the pieces (permutation.h)
 *
 *  Piece k has the ranks (shift + 8 k) mod n to (shift + 8 k + 7) mod n, in this sequence; the last piece
 *  ends at shift + n - 1 and may be shorter.  The pool is a list, empty at first.  For each id in turn, drawn
 *  of them before:
 *
 *      room = min (pool, 128 + 2 drawn)
 *      while there are pieces to come and the list has at most room - 8 entries:
 *          append the members of the next piece in the order of pieces
 *      place = below (entries)
 *      the id is the one at place; the last entry takes its place, and the list is one shorter
 *
 *  below (bound) is random_below.  The room begins small, so that an epoch's first ids do not wait for the
 *  whole pool to be read, and grows by two for each id drawn: twice as many are read as drawn until the pool
 *  is full.
 *
 *  Uniform: turning all ranks by the same amount is the same as another shift, so every sample is equally
 *  likely at every position.  Epochs are independent.  Not an independent shuffle: members of a piece stay
 *  near each other (docs/randomness.md).
 *
 *  Cost: O(1) for each id of a whole data set; of a part, a walk over the bits between neighbours besides.
 *  Memory: four bytes for each sample of the pool; of a part also four for each piece, and a bit for each
 *  sample of the pack.
 *  Owner: the sampler's thread.  Allocations abort when there is no memory.
 */
#ifndef STREAM_ORDER_H
#define STREAM_ORDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>

typedef struct stream_order stream_order_t;

enum {
    STREAM_ORDER_PIECE = 8,             //  of the format, as all of these
    STREAM_ORDER_FIRST_ROOM = 16 * STREAM_ORDER_PIECE,
    STREAM_ORDER_POOL_MIN = STREAM_ORDER_PIECE,
    STREAM_ORDER_POOL_MAX = 1 << 24
};

//  What entered the pool together: neighbours in the pack but for what is not in the data between them, and
//  but for the pack's end, after which its begin follows.
typedef struct {
    uint32_t ids [STREAM_ORDER_PIECE];
    uint32_t count;
} stream_piece_t;

//  pack_order [position] is the id at a position of a pack with so many samples (lent for the order's life).
//  data: not empty, looked at here only; pool from STREAM_ORDER_POOL_MIN to STREAM_ORDER_POOL_MAX.  Epoch 0
//  begins.  Never NULL.
stream_order_t *stream_order_new (const uint32_t *pack_order, uint32_t samples, const roaring_bitmap_t *data,
    uint32_t pool, uint64_t seed);
void stream_order_destroy (stream_order_t **self_p);
//  What one takes, in bytes, at most.
size_t stream_order_bytes (uint32_t samples, uint32_t pool);

//  Another epoch, from its begin; whichever, also the same again.
void stream_order_begin (stream_order_t *self, uint64_t epoch);
//  How many ids are to come in the epoch.
uint32_t stream_order_left (const stream_order_t *self);
//  The next one; some must be left.
uint32_t stream_order_next (stream_order_t *self);
//  Calls visit for each id to come, in order, as if they were drawn.
void stream_order_rest (const stream_order_t *self, void (*visit) (void *context, uint32_t id),
    void *context);
//  The next piece that has entered the pool in this epoch and has not been told of, as they entered; false:
//  none.
bool stream_order_entered (stream_order_t *self, stream_piece_t *piece);

#endif

/*  verify_order -- is a pack's order a shuffle of its source's?  Figures with a known law under a uniform
 *  shuffle.
 *
 *      correlation     of place and id.  Whatever is still partly sorted.
 *      ascents         places followed by a larger id.  Runs, forward or backward.
 *      jumps           sum of the distances of ids from place to place.  Too small: blocks were moved as they
 *                      were.
 *      neighbours      samples next to each other in the source and in the pack.
 *      tenths          a table: tenth of the source, tenth of the pack.  1,000 samples or more.
 *      chunk_mates     neighbours in the source that share a chunk.  A shuffle within a window.
 *      labels          places followed by the same label.  Sources sorted by class.
 *
 *  A figure is a fault if one as far off comes in fewer than 1 shuffle of 10 million; all together less often
 *  than 1 in a million.  Fewer than VERIFY_ORDER_LEAST samples say nothing.  Knows no randomness and no
 *  state.  Any thread.
 */
#ifndef VERIFY_ORDER_H
#define VERIFY_ORDER_H
#include <stdbool.h>
#include <stdint.h>

enum { VERIFY_ORDER_TESTS = 7, VERIFY_ORDER_LEAST = 30 };
#define VERIFY_ORDER_BOUND 1e-7

typedef struct {
    const char *name;                   //  as above
    bool tested;
    double value, expected, spread;     //  its mean and standard deviation
    double p;                           //  of a shuffle being as far off
} verify_figure_t;

typedef struct {
    verify_figure_t figures [VERIFY_ORDER_TESTS];
    uint32_t tested;
    uint32_t faults;
} verify_order_t;

//  order: the id at each of `samples` places, a permutation; labels: by id, NULL for none.  0 or -ENOMEM.
int verify_order (const uint32_t *order, uint32_t samples, uint32_t chunk_samples, const int64_t *labels,
    verify_order_t *result);

#endif

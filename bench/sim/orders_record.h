/*  orders_record -- the ids that one job was given, epoch by epoch, and what its orders tell of each other.
 *
 *  Each id's position in the present epoch is kept, and the positions of the ORDERS_LAGS epochs before.  When
 *  an epoch ends, it is compared with those and the oldest is forgotten, so the room does not grow with the
 *  epochs.
 *  What is measured (design: sampling), over pairs of finished epochs:
 *    - phi2: (chi-square of the 10 x 10 table "tenth of epoch e" x "tenth of epoch e + lag", less 81) /
 *      samples;
 *    - tail to head: samples of the last twentieth that come in the next epoch's first, over the number to
 *      expect;
 *    - pair repeat: pairs that share a batch in both epochs, over the number to expect;
 *    - correlation: Pearson's, of the positions.  Blind to rotated orders: never to be judged by alone.
 *  All are means over pairs: 0 for correlation and phi2, 1 for the ratios, if orders are fresh.
 *
 *  Invariant: an id that is not the job's, that comes twice in an epoch, or misses in a finished one, makes
 *  exactly_once false for good; such an epoch is not measured.
 *  Owner: one thread.  Allocations abort when there is no memory.
 */
#ifndef ORDERS_RECORD_H
#define ORDERS_RECORD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simulated_mean.h"

typedef struct orders_record orders_record_t;

enum {
    ORDERS_LAGS = 6,            //  phi2 is of epochs that are 1 to 6 apart
    ORDERS_BINS = 20            //  of positions, where they are counted over many runs
};

//  Ids [from .. to) that all are in the same jobs' data; number says in which stratum.
typedef struct {
    uint32_t from, to;
    uint32_t number;
} orders_stratum_t;

typedef struct {
    uint32_t from, to;                  //  the job's data: ids [from .. to), at least one
    uint32_t batch;                     //  samples that are consumed together
    uint32_t epochs_max;
    //  Ascending pieces that cover all ids, and the strata they belong to; lent while the record lives.
    const orders_stratum_t *pieces;
    size_t piece_count;
    //  A byte for each id: those not 0 have their positions measured; lent; NULL: none.
    const uint8_t *marked;
    //  Adds each finished epoch: bins [(epoch * samples + id - from) * ORDERS_BINS + bin]; lent; NULL: does
    //  not.
    //  Shared by the threads of several runs.
    _Atomic uint32_t *bins;
} orders_options_t;

//  What was found; the lists are as long as their counts say.
typedef struct {
    bool exactly_once;
    mean_t phi2 [ORDERS_LAGS];
    mean_t tail_to_head;
    mean_t pair_repeat;
    mean_t *correlations;               //  by pair: epochs 0 and 1 first
    size_t correlation_count;
    mean_t *strata;                     //  mean position as a share of the epoch, by stratum number
    size_t stratum_count;
    mean_t marked_position;             //  the same of the marked ids
    mean_t marked_first;                //  marked ids in an epoch's first batch, over the number to expect
    uint32_t epochs;                    //  finished; in merged figures the most that any run finished
} orders_figures_t;

orders_record_t *orders_record_new (const orders_options_t *options);
void orders_record_destroy (orders_record_t **self_p);

//  The job was given id.
void orders_record_deliver (orders_record_t *self, uint32_t id);
//  Its epoch ends, with all of its data given.
void orders_record_epoch_end (orders_record_t *self);
//  It should have finished more epochs than it did: not exactly once either.
void orders_record_fail (orders_record_t *self);

//  The figures, moved out: the caller's to clear.
orders_figures_t orders_record_figures (orders_record_t *self);
//  Adds another run's figures of the same job.
void orders_figures_merge (orders_figures_t *self, const orders_figures_t *other);
void orders_figures_clear (orders_figures_t *self);

//  How many positions of an epoch of so many samples fall into a bin.
uint64_t orders_bin_size (uint64_t samples, uint64_t bins, uint64_t bin);
//  The chi-square of one epoch's bins, gathered over `runs` runs of `samples` samples, as a normal z.  Exact
//  but for Wilson and Hilferty's step from chi-square to normal.
double orders_bins_z (const _Atomic uint32_t *bins, uint64_t samples, uint64_t runs);

#endif

/*  raw_prefetch_share -- memory for compressed samples, divided among tiers.  */
#ifndef RAW_PREFETCH_SHARE_H
#define RAW_PREFETCH_SHARE_H
#include "broker_state.h"

//  Tiers that share memory.
typedef struct {
    size_t tiers [BROKER_DATASETS_MAX];     //  how many, on each data set
    size_t bytes;                           //  for all of them
    size_t least;                           //  each tier has at least so much, or all that its data take
    //  raw_prefetch_division_settle's
    double mean_bytes, level;
} raw_prefetch_division_t;

void raw_prefetch_division_settle (raw_prefetch_division_t *self, const broker_t *broker);
//  Bytes of each tier on this data set, after raw_prefetch_division_settle.
size_t raw_prefetch_division_part (const raw_prefetch_division_t *self, const dataset_t *dataset);

#endif

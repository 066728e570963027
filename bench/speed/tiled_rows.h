/*  tiled_rows -- what a random resized crop costs from tiled JPEGs, beside the untiled originals, in one run
 *  on one thread.
 *
 *  Every way does the same images in turn, a few at a time, so that a slow moment of the machine weighs on
 *  all; a ratio is the median over the rounds.  Before anything is measured, every way has made the same
 *  pixels as the untiled one with the same scales.
 */
#ifndef TILED_ROWS_H
#define TILED_ROWS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "decoder.h"
#include "operation.h"

typedef struct {
    const decoder_file_t *files;    //  good JPEGs, lent; those that cannot be tiled are read as they are
    size_t count;
    const operation_t *crop;        //  the random_resized_crop
    const pipeline_t *exact;        //  with that crop
    const pipeline_t *inexact;      //  the same with scales: "exact": false
    uint32_t rounds;
    bool json;                      //  no table
} tiled_plan_t;

//  Measures, prints the table, and returns the figures (the caller drops them).
json_t *tiled_rows (const tiled_plan_t *plan);

#endif

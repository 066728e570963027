/*  dataset_answer -- what clients are told of data sets: what one is, and its tables, a part at a time (names
 *  of classes and samples, labels); and what STATUS says of all.
 *
 *  A part has as many rows as fit into a bound, at least one if any is left.  Texts are a uint32 length for
 *  each row, then the bytes of all, as on the disk (UTF-8 is not guaranteed).  Labels are the columns'
 *  values, row by row.  Owner: any thread, the catalogue is immutable; for STATUS the broker's.
 */
#ifndef DATASET_ANSWER_H
#define DATASET_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "catalogue.h"
#include "request.h"

enum { DATASET_ANSWER_BYTES_MAX = 256 * 1024, DATASET_ANSWER_TEXT_BYTES_MAX = 128 * 1024 };

typedef struct {
    uint8_t *bytes;             //  malloc'ed, the caller's; NULL: none requested
    size_t size;
    uint32_t count;             //  rows
} dataset_table_t;

//  False: refusal holds the reason (no such label, a row beyond the end, no memory).
bool dataset_answer_table (const catalogue_t *catalogue, const request_table_t *request,
    dataset_table_t *table, refusal_t *refusal);
//  The JSON of DATASET_REPLY; malloc'ed.
char *dataset_answer_text (const catalogue_t *catalogue, const request_table_t *request,
    const dataset_table_t *table);
//  Adds to the data sets of a status object what stands behind them.  sees_all: also figures that other
//  tenants' jobs change.
void dataset_answer_status (broker_t *broker, json_t *status, bool sees_all);

#endif

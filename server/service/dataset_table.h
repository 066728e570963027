/*  dataset_table -- what a data set is, and its tables, a part at a time: names of classes and samples,
 *  labels.
 *
 *  A part has as many rows as fit into a bound, at least one if any is left.  Texts are a uint32 length for
 *  each row, then the bytes of all, as on the disk (UTF-8 is not guaranteed).  Labels are the columns'
 *  values, row by row.  Owner: any thread; the catalogue is immutable.
 */
#ifndef DATASET_TABLE_H
#define DATASET_TABLE_H
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"
#include "request.h"

enum { DATASET_TABLE_BYTES_MAX = 256 * 1024, DATASET_TABLE_TEXT_BYTES_MAX = 128 * 1024 };

typedef struct {
    uint8_t *bytes;             //  malloc'ed, the caller's; NULL: none requested
    size_t size;
    uint32_t count;             //  rows
} dataset_table_t;

//  False: refusal holds the reason (no such label, a row beyond the end, no memory).
bool dataset_table (const catalogue_t *catalogue, const request_table_t *request, dataset_table_t *table,
    refusal_t *refusal);
//  The JSON of DATASET_REPLY; malloc'ed.
char *dataset_table_text (const catalogue_t *catalogue, const request_table_t *request,
    const dataset_table_t *table);

#endif

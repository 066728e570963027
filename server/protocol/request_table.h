/*  request_table -- frame 1 of DATASET, parsed: foreign, as in request.h.  */
#ifndef REQUEST_TABLE_H
#define REQUEST_TABLE_H
#include <stdbool.h>
#include <stdint.h>
#include "request.h"

//  What a client asks of a data set; NONE: only what it is.
typedef enum {
    REQUEST_TABLE_NONE,
    REQUEST_TABLE_CLASSES,
    REQUEST_TABLE_NAMES,
    REQUEST_TABLE_LABEL
} request_table_kind_t;

typedef struct {
    char dataset [REQUEST_NAME_BYTES_MAX + 1];
    request_table_kind_t table;
    char label [REQUEST_NAME_BYTES_MAX + 1];    //  for REQUEST_TABLE_LABEL
    uint64_t first;                             //  row
} request_table_t;

bool request_table (const frame_t *frame, request_table_t *wanted, refusal_t *refusal);

#endif

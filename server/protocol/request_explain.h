/*  request_explain -- frame 1 of EXPLAIN, parsed: foreign, as in request.h.  */
#ifndef REQUEST_EXPLAIN_H
#define REQUEST_EXPLAIN_H
#include <stdbool.h>
#include <stdint.h>
#include "request.h"

typedef struct {
    uint64_t id;
    bool epoch_given;
    uint64_t epoch;
} request_explain_t;

bool request_explain (const frame_t *frame, request_explain_t *explain, refusal_t *refusal);

#endif

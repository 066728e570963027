/*  reply_explained -- the body of EXPLAIN_REPLY.  Any thread.  */
#ifndef REPLY_EXPLAINED_H
#define REPLY_EXPLAINED_H
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

typedef struct {
    uint64_t id, epoch;
    bool is_placed;             //  in a batch; else index, row, prepared_for and is_reused mean nothing, and
                                //  are told as null
    uint64_t index;
    uint32_t row;
    const char *name;           //  bytes that are no UTF-8 are replaced by U+FFFD
    bool has_no_version;        //  it is told as null
    uint32_t version;
    uint32_t prepared_for;
    bool is_reused;
} reply_explained_t;

//  operations: an array, whose reference is taken.  The text is malloc'ed and the caller's; never NULL.
char *reply_explained (const reply_explained_t *explained, json_t *operations);

#endif

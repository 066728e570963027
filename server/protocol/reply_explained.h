/*  reply_explained -- the body of EXPLAIN_REPLY.  Any thread.  */
#ifndef REPLY_EXPLAINED_H
#define REPLY_EXPLAINED_H
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

typedef struct {
    uint64_t id, epoch;
    bool is_placed;             //  in a batch; false: index, row, prepared_for and is_reused are null in the
                                //  reply
    uint64_t index;
    uint32_t row;
    const char *name;           //  bytes that are not UTF-8 become U+FFFD
    bool has_no_version;        //  the version is null in the reply
    uint32_t version;
    uint32_t prepared_for;
    bool is_reused;
} reply_explained_t;

//  operations: an array; takes its reference.  The text is malloc'ed and the caller's; never NULL.
char *reply_explained (const reply_explained_t *explained, json_t *operations);

#endif

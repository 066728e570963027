/*  reply_explained -- the body of EXPLAIN_REPLY.  Any thread.  */
#ifndef REPLY_EXPLAINED_H
#define REPLY_EXPLAINED_H
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

//  Of a sample of a job.
typedef struct {
    uint64_t id, epoch;
    bool is_placed;             //  the job has it in a batch; false: index, row, prepared_for and is_reused
                                //  are null in the reply
    uint64_t index;             //  of the batch, in its epoch
    uint32_t row;               //  of its rank's part, where there are ranks
    bool has_no_version;        //  the version is null in the reply
    uint32_t version;           //  its draw number
    uint32_t prepared_for;      //  jobs that the version has served
    bool is_reused;             //  it existed when this job drew the sample
} reply_explained_t;

//  name: the sample's; bytes that are not UTF-8 become U+FFFD.  operations: an array; takes its reference.
//  The text is malloc'ed and the caller's; never NULL.
char *reply_explained (const reply_explained_t *explained, const char *name, json_t *operations);

#endif

/*  reply -- the JSON bodies that the server sends.  Texts are malloc'ed and the caller's; never NULL.  Any
 *  thread.
 */
#ifndef REPLY_H
#define REPLY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "wire.h"

//  Why a request was refused: code is one of docs/protocol.md's (static text), message is for people.
typedef struct {
    const char *code;
    char message [512];
} refusal_t;

//  Fills a refusal like printf; cuts long texts.  Returns false, so that `return refuse (...)` reads well.
bool refuse (refusal_t *refusal, const char *code, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

enum { REPLY_FIELD_DIMENSIONS_MAX = 4 };

//  One named array of a batch.
typedef struct {
    const char *name;
    const char *dtype;          //  NumPy's name
    uint32_t dimensions;        //  0: one number a sample
    uint32_t shape [REPLY_FIELD_DIMENSIONS_MAX];
    size_t offset;              //  from the slot's begin
    size_t sample_bytes;
    const char *lengths;        //  of a ragged one: the field that says how many each sample has; else NULL
} reply_field_t;

typedef struct {
    uint64_t job;
    uint64_t samples;           //  of one epoch of this job
    uint64_t dataset_samples;
    const char *const *classes; //  class_count names, or NULL; bytes that are not UTF-8 become U+FFFD
    size_t class_count;
    uint32_t batch_size;
    uint32_t slots;
    size_t slot_bytes;
    const reply_field_t *fields;
    size_t field_count;
    const char *ring_path;      //  NULL: inline
    const char *ring_token;
    uint64_t seed;
    const char *fingerprint;
    const char *data;           //  request.h
    const char *run;
    bool forked;
    uint32_t rank, world_size;  //  0 and 1: a job of one process
    uint32_t nodes, node;       //  1 and 0: a job on one node; else also
    uint64_t part_samples, epoch_batches;       //  docs/protocol.md, JOINED
    const char *partition;
    const char *pipeline_text;  //  a JSON array
    uint32_t lease_ms;
} reply_joined_t;

char *reply_joined (const reply_joined_t *joined);
//  With code `version` it lists the server's versions, under the same key in every version of the protocol.
char *reply_error (const char *code, const char *message);
char *reply_ended (const char *reason, const char *message);
char *reply_notice (const char *notice, const char *message);
//  NOTICE `unreadable`; epoch_samples: samples of one epoch of the job from now on; unreadable: the object,
//  taken over.
char *reply_notice_unreadable (const char *message, uint64_t epoch_samples, json_t *unreadable);
//  jobs: how many still exist.
char *reply_draining (uint64_t jobs);
//  ADDING: what is being done, or, of data sets that are there, the lines about them, each with its newline.
char *reply_adding (bool is_ready, const char *text);
//  jobs: how many end with the data set.
char *reply_removed (uint64_t jobs);

//  EXPLAIN_REPLY, of a sample of a job.
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
    char *sharing;              //  a sentence: where the job stands in the sampling tree; NULL: none
} reply_explained_t;

//  name: the sample's; bytes that are not UTF-8 become U+FFFD.  operations: an array; takes its reference.
//  The text is malloc'ed and the caller's; never NULL.
char *reply_explained (const reply_explained_t *explained, const char *name, json_t *operations);

//  Frame 0 of any message of the server.
wire_head_t reply_head (wire_kind_t kind, uint64_t job, uint64_t tag);

#endif

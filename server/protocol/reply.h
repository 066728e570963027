/*  reply -- the JSON bodies that the server sends.  Texts are malloc'ed and the caller's; never NULL.  */
#ifndef REPLY_H
#define REPLY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "wire.h"

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
    const char *data;           //  data_digest.h
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

//  Frame 0 of any message of the server.
wire_head_t reply_head (wire_kind_t kind, uint64_t job, uint64_t tag);

#endif

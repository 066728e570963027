/*  work_message -- what a server and its workers on other machines say to each other, parsed and written.
 *
 *  Both sides take what the other one sends for foreign bytes: bounded, checked with a reason, then used.
 *  docs/protocol.md describes the messages.  No function keeps a pointer into a frame.
 */
#ifndef WORK_MESSAGE_H
#define WORK_MESSAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "request.h"

enum { WORK_TEXT_BYTES = 256, WORK_REASON_BYTES = 768 };

//  WORK_HELLO.
typedef struct {
    uint32_t processors;                //  1 .. WIRE_WORK_PROCESSORS_MAX
    char name [REQUEST_NAME_BYTES_MAX + 1];     //  of its machine, for people
    char libraries [WORK_TEXT_BYTES];
    size_t datasets;                    //  that it reads by itself
    char fingerprints [WIRE_WORK_DATASETS_MAX][WIRE_WORK_FINGERPRINT + 1];
} work_hello_t;
bool work_message_read_hello (const frame_t *frame, work_hello_t *hello, refusal_t *refusal);
//  Malformed texts are replaced.  All texts written here are malloc'ed and the caller's; never NULL.
char *work_message_write_hello (const work_hello_t *hello);

//  WORK_CHALLENGE.
bool work_message_read_challenge (const frame_t *frame, uint64_t *nonce_p, refusal_t *refusal);
char *work_message_write_challenge (uint64_t nonce);

//  WORK_ANSWER: a digest of each golden sample, by name.  One that is not there is 0.
bool work_message_read_answer (const frame_t *frame, const char *const *names, size_t count,
    uint64_t *digests, refusal_t *refusal);
char *work_message_write_answer (const char *const *names, size_t count, const uint64_t *digests);

//  WORK_REFUSED.
bool work_message_read_refused (const frame_t *frame, char reason [WORK_REASON_BYTES], refusal_t *refusal);
char *work_message_write_refused (const char *reason);

//  WORK_PIPELINE: a shared stage by its number, the fields of the data set, and the size of its versions.
//  json: both objects inside are the caller's.
typedef struct {
    uint32_t number;
    uint64_t version_bytes;
    json_t *list;                       //  the operations up to the share point
    json_t *fields;                     //  [["image", false], ["mask", true]]
} work_pipeline_t;
bool work_message_read_pipeline (const frame_t *frame, work_pipeline_t *pipeline, refusal_t *refusal);
void work_message_clear_pipeline (work_pipeline_t *pipeline);
//  shared_text: pipeline_shared_text.  fields is taken over.
char *work_message_write_pipeline (uint32_t number, uint64_t version_bytes, const char *shared_text,
    json_t *fields);

//  WORK_TASK: frames 1 and 2.  The files' sizes and the rows together are what frame 2 has.
bool work_message_read_task (const frame_t *frames, size_t count, wire_work_task_t *task, refusal_t *refusal);

//  WORK_RESULT: frame 1, and of the version's frames the size together.  With rows they are the last frame,
//  and the version has one frame at least.
bool work_message_read_result (const frame_t *frames, size_t count, wire_work_result_t *result,
    uint64_t *bytes_p, refusal_t *refusal);

#endif

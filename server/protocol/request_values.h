/*  request_values -- JSON from outside, and single values of it, each taken within its bounds.  For the files
 *  that read requests; no other file includes this.
 */
#ifndef REQUEST_VALUES_H
#define REQUEST_VALUES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "request.h"

enum { REQUEST_SHOWN_BYTES = 80 };      //  of a foreign value in a message
#define REQUEST_EPOCHS_MAX (UINT64_C (1) << 53)

//  The frame as one JSON object, the caller's; or NULL and the reason.
json_t *request_object (const frame_t *frame, refusal_t *refusal);
//  Refuses the value of a key, and says what was expected and what was found.  Returns false.
bool request_refuse_value (refusal_t *refusal, const char *key, const char *expected, const json_t *value);
//  Refuses a key that is none of the known ones.  Returns false.
bool request_refuse_key (refusal_t *refusal, const char *key, const char *known);

//  The value; false: it is of another type.
bool request_integer (const json_t *value, uint64_t min, uint64_t max, uint64_t *number);
//  The same for a key: into *number_p, or refused with the bounds.  unit: follows the bounds in the message.
bool request_take_integer (const char *key, const json_t *value, uint32_t min, uint32_t max, const char *unit,
    uint32_t *number_p, refusal_t *refusal);
//  A short text without control characters (the parser has checked that it is UTF-8 without a zero).
bool request_text (const json_t *value, size_t bytes_min, char text [REQUEST_NAME_BYTES_MAX + 1]);
//  The index of the word, or -1.
int request_word (const json_t *value, const char *const *words, int count);
//  0 to max, as such digits or as a JSON integer.
bool request_count (const json_t *value, uint64_t max, uint64_t *number_p);
//  So many lower-case hexadecimal digits, and a final zero.
bool request_hexadecimal (const json_t *value, size_t digits, char *text);

//  ---- request_resume.c: the keys of JOIN for a job's position and identity

bool request_take_resume (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_job (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_run (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_instance (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
//  Checks these keys against each other and the other keys.
bool request_check_resume (const request_join_t *join, refusal_t *refusal);

//  ---- request_ranks.c: the keys of JOIN for a job of several processes

bool request_take_world_size (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_rank (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_gather (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_rank_wait (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_check_ranks (const request_join_t *join, refusal_t *refusal);

//  request_parts.c: of a job over several nodes.
bool request_take_nodes (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_node (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
bool request_take_parts (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);
//  "cut" of resume.
bool request_take_cut (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal);
bool request_check_parts (const request_join_t *join, refusal_t *refusal);

//  ---- request_ids.c: id frames

//  Checks size and head; what: names the frame in messages.  The caller checks the form.
bool request_ids_check (const frame_t *frame, const char *what, refusal_t *refusal);
//  For a checked frame: how many numbers it has.
size_t request_ids_count (const frame_t *frame);
enum { REQUEST_IDS_HEAD_BYTES = 8 };    //  before them

#endif

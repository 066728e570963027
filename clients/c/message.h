/*  message -- what a server sends, parsed: bounded, validated with a reason, then used.  And heads to send.
 *
 *  Everything in a frame is foreign; docs/protocol.md describes it.  No function keeps a pointer into a
 *  frame. Unknown kinds, JSON keys and flags are ignored; known ones must be valid.
 */
#ifndef MESSAGE_H
#define MESSAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "tureen.h"
#include "wire.h"

enum {
    MESSAGE_FRAMES_MAX = 5,             //  the longest message: head, batch, ids, step, bytes
    MESSAGE_JSON_BYTES_MAX = 16 << 20,  //  of a server's JSON: class names and status may be long
    MESSAGE_FIELDS_MAX = 64,
    MESSAGE_HEARTBEAT_MS_MAX = 60000
};

typedef struct {
    const uint8_t *data;
    size_t size;
} message_frame_t;

//  A sentence, for people.
typedef struct {
    char text [TUREEN_ERROR_BYTES];
} message_error_t;

//  Fills error like printf, cut to its size.  Returns false, so that `return message_fail (...)` reads well.
bool message_fail (message_error_t *error, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

//  A jansson value that is an integer or a string of decimal digits, at most limit.
struct json_t;
bool message_read_number (const struct json_t *value, uint64_t limit, uint64_t *number_p);

typedef enum {
    MESSAGE_OK,
    MESSAGE_IGNORED,                    //  an unknown kind
    MESSAGE_BROKEN                      //  not Tureen's protocol, or not our version of it
} message_status_t;

//  The head of a message to the server.
wire_head_t message_head (wire_kind_t kind, uint64_t job, uint64_t tag);
//  Reads frame 0 and checks that the kind has its number of frames.
message_status_t message_read_head (const message_frame_t *frames, size_t count, wire_head_t *head,
    message_error_t *error) TUREEN_CHECKED;

//  The content of JOINED, validated: every field of a full batch lies inside a slot, slots x slot_bytes fits
//  a size_t; data and run are well-formed, or ""; rank < world_size <= WIRE_RANKS_MAX, 0 and 1 if an old
//  server sends neither.  Texts are lent until message_joined_destroy.
typedef struct {
    uint32_t magic;
    json_t *root;                       //  owns every text below
    tureen_info_t info;
    tureen_field_t fields [MESSAGE_FIELDS_MAX];
    const char **classes;
    char *pipeline;
    size_t slot_bytes;
    uint32_t heartbeat_ms;
    //  The ring on offer.
    const char *ring_path;              //  of its socket; NULL: inline
    const char *ring_token;             //  of WIRE_TOKEN_BYTES
    size_t ring_bytes;                  //  slots x slot_bytes
} message_joined_t;
//  True and *joined_p the caller's.  JOINED must repeat batch_size as requested.
bool message_read_joined (const message_frame_t *frames, size_t count, uint32_t batch_size,
    message_joined_t **joined_p, message_error_t *error) TUREEN_CHECKED;
void message_joined_destroy (message_joined_t **self_p);
//  The job continues without a ring.
void message_joined_set_inline (message_joined_t *self);

//  A BATCH.  The ids lie in its frames, at any address.
typedef struct {
    wire_batch_t head;                  //  its slot is one of the job's, or WIRE_SLOT_NONE: then the bytes
                                        //  came with it
    const uint8_t *ids;                 //  head.count
    const uint8_t *counts;              //  with ranks: the step's, one for each rank; otherwise NULL
    const uint8_t *step;                //  the ids of the whole step, rank by rank; of a job of one: ids
    size_t step_count;
    size_t payload;                     //  the number of the frame with the bytes; 0: they are in the ring
} message_batch_t;
//  Padding is one id of a step in which this rank has none; everything else is this rank's part of its step.
bool message_read_batch (const message_frame_t *frames, size_t count, const message_joined_t *joined,
    message_batch_t *batch, message_error_t *error) TUREEN_CHECKED;
bool message_read_epoch_end (const message_frame_t *frames, size_t count, wire_epoch_end_t *epoch_end,
    message_error_t *error) TUREEN_CHECKED;

//  ENDED (code is the reason), ERROR (code is the error) and NOTICE (code is the notice).  Cut to these
//  sizes; control characters become blanks.
typedef struct {
    char code [32];
    char text [496];
} message_note_t;
bool message_read_note (const message_frame_t *frames, size_t count, message_note_t *note,
    message_error_t *error) TUREEN_CHECKED;

//  NOTICE `unreadable`: true, how many, and *json_p malloc'ed, the object that lists them.
bool message_read_unreadable (const message_frame_t *frames, size_t count, uint64_t *samples_p, char **json_p,
    message_error_t *error) TUREEN_CHECKED;

//  STATUS_REPLY and EXPLAIN_REPLY: true and *json_p malloc'ed, a JSON object.
bool message_read_object (const message_frame_t *frames, size_t count, char **json_p,
    message_error_t *error) TUREEN_CHECKED;

#endif

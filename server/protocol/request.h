/*  request -- what clients send, parsed: bounded, validated with a reason, then used.
 *
 *  All input here is foreign.  docs/protocol.md describes it.  No function keeps a pointer into a frame.
 */
#ifndef REQUEST_H
#define REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <roaring/roaring.h>
#include "request_recent.h"
#include "wire.h"

typedef struct {
    const uint8_t *data;
    size_t size;
} frame_t;

//  Why a request was refused: code is one of docs/protocol.md's (static text), message is for people.
typedef struct {
    const char *code;
    char message [512];
} refusal_t;

//  Fills a refusal like printf; cuts long texts.  Returns false, so that `return refuse (...)` reads well.
bool refuse (refusal_t *refusal, const char *code, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

typedef enum {
    REQUEST_OK,
    REQUEST_REFUSED,            //  answer ERROR with the refusal and head.tag
    REQUEST_IGNORED             //  another protocol: no answer
} request_status_t;

//  Reads frame 0, and checks kind and number of frames.  On REQUEST_REFUSED head holds job and tag if they
//  could be read, otherwise 0.
request_status_t request_head (const frame_t *frames, size_t count, wire_head_t *head, refusal_t *refusal);

//  Frame 1 of STATUS: an empty object.
bool request_status (const frame_t *frame, refusal_t *refusal);
//  The same of DRAIN.
bool request_drain (const frame_t *frame, refusal_t *refusal);

//  Frame 1 of PROGRESS.
bool request_progress (const frame_t *frame, wire_progress_t *progress, refusal_t *refusal);

enum {
    REQUEST_NAME_BYTES_MAX = 64,
    REQUEST_BATCH_MAX = 65536,
    REQUEST_WINDOW_MAX = 1 << 20,       //  samples: batch_size x slots x world_size
    REQUEST_GATHER_SECONDS = 300, REQUEST_RANK_WAIT_SECONDS = 10    //  defaults
};

typedef enum { REQUEST_SHARED, REQUEST_PRIVATE, REQUEST_LIST, REQUEST_SEEDED } request_order_t;

//  Where a job resumes.
typedef struct {
    bool given;
    char fingerprint [REQUEST_NAME_BYTES_MAX + 1];
    char data [WIRE_DATA_BYTES + 1];
    uint64_t epoch, batches, places;
    uint64_t cut_batches, cut_places;   //  over several nodes: when this epoch's parts were made
} request_resume_t;

//  Frame 1 of JOIN.
typedef struct {
    char dataset [REQUEST_NAME_BYTES_MAX + 1];
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t batch_size;
    uint64_t epochs;            //  0: until the client leaves
    bool drop_last;
    bool on_bad_given, bad_is_fatal;    //  on_bad is "fail"
    json_t *pipeline;           //  one reference, owned by the request; a list or a name, not validated here
    bool order_given;
    request_order_t order;      //  not given: SEEDED with a seed, otherwise SHARED
    uint32_t slots;
    bool inline_only;           //  transport "inline"
    bool seed_given;
    uint64_t seed;
    uint32_t pool;              //  samples; SEEDED only; 0: not given
    char job [REQUEST_NAME_BYTES_MAX + 1];      //  empty: none
    char instance [WIRE_RUN_BYTES + 1], run [WIRE_RUN_BYTES + 1];       //  empty: none
    request_resume_t resume;
    uint32_t world_size;        //  1: not given, or a job of one process
    uint32_t rank;              //  below world_size
    uint32_t gather_seconds, rank_wait_seconds;
    uint32_t nodes;             //  1: not given, or a job on one node
    uint32_t node;              //  below nodes
    bool parts_fixed;           //  parts is "fixed"
    bool subset_given;
    size_t list_frames, taken_frames, recent_frames, cut_frames;
    //  the index of each kind's first frame in the message; 0: none
    size_t subset_first, list_first, taken_first, recent_first, cut_first;
} request_join_t;

//  frames[0] is the head, frames[1] the JSON.  True: the caller calls request_join_clear.  False: nothing to
//  clear.
bool request_join (const frame_t *frames, size_t count, request_join_t *join, refusal_t *refusal);
void request_join_clear (request_join_t *join);

//  Form 1 or 2, ids below sample_count, not empty.  True and *set_p the caller's, without run containers, so
//  that draws are fast.  Takes about 4 ns an id where whole blocks of 65536 are not set: 50 ms for 10
//  million.
bool request_subset (const frame_t *frame, uint32_t sample_count, roaring_bitmap_t **set_p,
    refusal_t *refusal);
//  The samples that an earlier job has taken: form 1 or 2, the frames joined, ids below sample_count.  True
//  and *set_p the caller's, as in request_subset, but it may be empty.  An invalid id is refused as
//  `bad_state`.
bool request_taken (const frame_t *frames, size_t count, uint32_t sample_count, roaring_bitmap_t **set_p,
    refusal_t *refusal);
//  Form 3, the frames joined, ids below sample_count, not empty.  True and *ids_p malloc'ed, with *count_p
//  ids.
bool request_list (const frame_t *frames, size_t count, uint32_t sample_count,
    uint32_t **ids_p, size_t *count_p, refusal_t *refusal);
//  The steps and ends of epochs that a rank received last; frames are the whole message of a join that has
//  such records.  Each record continues the one before, the last ends at resume, ids are below sample_count.
//  True and *records_p malloc'ed, one block with all that it points to.
bool request_recent (const frame_t *frames, const request_join_t *join, uint32_t sample_count,
    broker_record_t **records_p, size_t *count_p, refusal_t *refusal);
//  The size of such a block.
size_t request_recent_bytes (const broker_record_t *records, size_t count, uint32_t world_size);

#endif

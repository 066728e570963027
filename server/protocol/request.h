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
#include "reply.h"
#include "wire.h"

//  ---- where a job's client stands

//  Where a job's client stands, and what its ranks received last (docs/protocol.md, Ranks), as requests say
//  it and the broker keeps it.

//  A position: after so many batches of this epoch, and after all earlier epochs.
typedef struct {
    uint64_t epoch, batches;
} broker_position_t;

typedef struct {
    bool is_end;                    //  end of an epoch; false: a step
    uint64_t epoch;
    uint64_t index;                 //  of the step; of an end: the epoch's steps
    uint64_t samples;               //  of the step; of an end: the epoch's
    const uint64_t *step;           //  of a step: world_size counts, then its ids, rank by rank
} broker_record_t;


//  ---- requests

typedef struct {
    const uint8_t *data;
    size_t size;
} frame_t;

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
//  DRAIN.  now: the jobs do not end their epochs.
bool request_drain (const frame_t *frame, bool *now, refusal_t *refusal);

//  Frame 1 of ADD: words of `tureen serve` about data sets.  Nothing in them is checked but their number and
//  size; none has a zero in it.
enum { REQUEST_WORDS_MAX = 1024, REQUEST_WORD_BYTES_MAX = 8192 };
typedef struct {
    json_t *object;             //  one reference, the request's; the words lie in it
    const char **words;         //  the request's
    size_t count;               //  1 or more
} request_add_t;

//  True: the caller calls request_add_clear.  False: nothing to clear.
bool request_add (const frame_t *frame, request_add_t *add, refusal_t *refusal);
void request_add_clear (request_add_t *add);

//  Frame 1 of PROGRESS.
bool request_progress (const frame_t *frame, wire_progress_t *progress, refusal_t *refusal);

enum {
    REQUEST_NAME_BYTES_MAX = 64,
    REQUEST_PATH_BYTES_MAX = 8192,      //  or address
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
    json_t *path;               //  a string: which one of this name the client means; one reference, owned by
                                //  the request; NULL: not given
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

//  Frame 1 of EXPLAIN.
typedef struct {
    uint64_t id;
    bool epoch_given;
    uint64_t epoch;
} request_explain_t;

bool request_explain (const frame_t *frame, request_explain_t *explain, refusal_t *refusal);

//  Frame 1 of DATASET: what a client asks of a data set; NONE: only what it is.
typedef enum {
    REQUEST_TABLE_NONE,
    REQUEST_TABLE_CLASSES,
    REQUEST_TABLE_NAMES,
    REQUEST_TABLE_LABEL
} request_table_kind_t;

typedef struct {
    char dataset [REQUEST_NAME_BYTES_MAX + 1];
    char path [REQUEST_PATH_BYTES_MAX + 1];     //  as in JOIN; empty: not given
    request_table_kind_t table;
    char label [REQUEST_NAME_BYTES_MAX + 1];    //  for REQUEST_TABLE_LABEL
    uint64_t first;                             //  row
} request_table_t;

bool request_table (const frame_t *frame, request_table_t *wanted, refusal_t *refusal);

//  Frame 1 of REMOVE.
typedef struct {
    char dataset [REQUEST_NAME_BYTES_MAX + 1];
    bool now;                   //  its jobs end
} request_remove_t;

bool request_remove (const frame_t *frame, request_remove_t *wanted, refusal_t *refusal);

//  ---- JSON from outside, and single values of it, each taken within its bounds

//  The frame as one JSON object, the caller's; or NULL and the reason.
json_t *request_object (const frame_t *frame, refusal_t *refusal);
//  An integer for a key: into *number_p, or refused with the bounds, which unit follows in the message.
bool request_take_integer (const char *key, const json_t *value, uint32_t min, uint32_t max, const char *unit,
    uint32_t *number_p, refusal_t *refusal);
//  0 to max, as such digits or as a JSON integer.
bool request_count (const json_t *value, uint64_t max, uint64_t *number_p);
//  So many lower-case hexadecimal digits, and a final zero.
bool request_hexadecimal (const json_t *value, size_t digits, char *text);

//  ---- id frames

//  Checks size and head; what: names the frame in messages.  The caller checks the form.
bool request_ids_check (const frame_t *frame, const char *what, refusal_t *refusal);
//  For a checked frame: how many numbers it has.
size_t request_ids_count (const frame_t *frame);
enum { REQUEST_IDS_HEAD_BYTES = 8 };    //  before them


//  ---- a digest of ids

//  Stands for a job's own ids: which of the data set's samples, and of a list in which order.
//
//  Clients get it, keep it in their states, and compare it with another server's; so the hashed bytes never
//  change.  XXH3, 64 bits, of 8 bytes and then little-endian numbers:
//      a set       "set", 5 zeros; words of 64 bits, bit i of word w for id 64 w + i, up to the last that is
//                  not 0
//      a list      "list", 4 zeros; each id, 32 bits

//  Lower-case hexadecimal, and a final zero.
typedef struct {
    char text [WIRE_DATA_BYTES + 1];
} request_digest_t;

//  For all samples 0 .. sample_count-1.  10 million ids take some 0.2 ms.
request_digest_t request_digest_of_all (uint32_t sample_count);
//  For a set, independent of its containers.  10 million ids take some 20 ms.
request_digest_t request_digest_of_set (const roaring_bitmap_t *set);
request_digest_t request_digest_of_list (const uint32_t *ids, size_t count);
//  XXH3 of bytes that say something else.
request_digest_t request_digest_of_bytes (const void *bytes, size_t size);

#endif

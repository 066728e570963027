/*  wire -- the fixed structures of Tureen's protocol, shared by the server and every C client.
 *
 *  docs/protocol.md is the description; this file is its numbers.  All integers are little-endian and at
 *  their natural alignment, so a NumPy dtype or this struct reads a frame in place (on a little-endian
 *  machine, which is asserted).  tests/golden holds one example of each message, byte for byte.
 */
#ifndef WIRE_H
#define WIRE_H
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Tureen's wire structures are little-endian and read in place"
#endif

enum {
    WIRE_VERSION = 1,
    WIRE_SLOTS_MIN = 3,             //  a window is at least three batches
    WIRE_SLOTS_MAX = 64,            //  one bit each in wire_progress_t.kept
    WIRE_POOL_MIN = 8,              //  samples of a seeded order's pool
    WIRE_POOL_MAX = 1 << 24,
    WIRE_FRAME_BYTES_MAX = 1 << 20, //  the server takes no larger frame
    WIRE_FRAMES_MAX = 130,          //  nor more frames in one message
    WIRE_TOKEN_BYTES = 32,          //  lower-case hexadecimal, sent to the ring's socket
    WIRE_RUN_BYTES = 32,            //  lower-case hexadecimal: a run, or a client object (instance)
    WIRE_RANKS_MAX = 64,            //  processes that take one job together
    WIRE_NODES_MAX = 1024,          //  machines that take one job together, each from its own server
    WIRE_RANK_SECONDS_MAX = 86400,  //  of gather and rank_wait
    WIRE_RECENT_RECORDS_MAX = 256,
    WIRE_RECENT_IDS_MAX = 1 << 20,
    WIRE_DATA_BYTES = 16,           //  lower-case hexadecimal: stands for a job's own ids
    WIRE_WORK_DATASETS_MAX = 32,    //  that a worker reads by itself
    WIRE_WORK_FINGERPRINT = 32,     //  hexadecimal digits
    WIRE_WORK_FILES_MAX = 8,        //  of a sample, for a worker
    WIRE_WORK_PROCESSORS_MAX = 128, //  of one worker, and of all workers of a server together
    WIRE_WORK_PIPELINES_MAX = 256,  //  that a worker keeps: number n takes the place of n - 256
    WIRE_WORK_VERSION_MAX = 64 << 20,       //  bytes; larger ones are made by the server itself
    WIRE_WORK_BEAT_MS = 500,        //  workers: a heartbeat so often, both ways
    WIRE_HEARTBEAT_MS = 1000        //  inline jobs: at least this often, both ways
};

#define WIRE_MAGIC "TURN"

typedef enum {
    //  client to server
    WIRE_JOIN = 1,
    WIRE_INLINE = 2,
    WIRE_PROGRESS = 3,
    WIRE_LEAVE = 4,
    WIRE_STATUS = 5,
    WIRE_HEARTBEAT = 6,             //  and back, to inline jobs
    WIRE_EXPLAIN = 7,
    WIRE_DRAIN = 8,                 //  an operator's
    WIRE_DATASET = 9,
    //  worker to server (docs/workers.md)
    WIRE_WORK_HELLO = 10,
    WIRE_WORK_ANSWER = 11,
    WIRE_WORK_RESULT = 12,
    WIRE_WORK_HEARTBEAT = 13,       //  and back
    WIRE_WORK_GOODBYE = 14,         //  and back
    //  client to server again: an operator's
    WIRE_ADD = 15,
    WIRE_REMOVE = 16,
    //  server to client
    WIRE_JOINED = 129,
    WIRE_BATCH = 130,
    WIRE_EPOCH_END = 131,
    WIRE_ENDED = 132,
    WIRE_STATUS_REPLY = 133,
    WIRE_ERROR = 134,
    WIRE_NOTICE = 135,
    WIRE_EXPLAIN_REPLY = 136,
    WIRE_DRAINING = 137,
    WIRE_DATASET_REPLY = 138,
    //  server to worker
    WIRE_WORK_CHALLENGE = 139,
    WIRE_WORK_WELCOME = 140,
    WIRE_WORK_REFUSED = 141,
    WIRE_WORK_PIPELINE = 142,
    WIRE_WORK_TASK = 143,
    //  server to client again
    WIRE_ADDING = 144,
    WIRE_REMOVED = 145
} wire_kind_t;

//  Frame 0 of every message, both ways.
typedef struct {
    char magic [4];                 //  WIRE_MAGIC
    uint8_t version;                //  WIRE_VERSION
    uint8_t kind;                   //  wire_kind_t
    uint16_t zero;
    uint64_t job;                   //  from JOINED; 0 where none is meant
    uint64_t tag;                   //  the asker's choice, repeated in the answer
} wire_head_t;

//  Frame 1 of PROGRESS.  Says everything the client has done so far, so a later one replaces an earlier one.
typedef struct {
    uint64_t consumed;              //  batches that the user's next () has returned
    uint64_t released;              //  batches 0 .. released-1 are not looked at any more ...
    uint64_t kept;                  //  ... except batches in slots with a bit set here
} wire_progress_t;

enum {                              //  wire_batch_t.flags
    WIRE_BATCH_INLINE = 1,          //  the last frame holds the slot's bytes
    WIRE_BATCH_PADDING = 2          //  of ranks: one sample of the step once more, outside every count
};
#define WIRE_SLOT_NONE UINT32_MAX   //  an inline batch that is in no slot

//  Frame 1 of BATCH.  Frame 2: count ids, uint64 each.  With ranks the step follows: a count for each rank,
//  then the ids.
typedef struct {
    uint64_t sequence;              //  the job's batch number: from 0, never restarts
    uint64_t epoch;                 //  from 0
    uint64_t index;                 //  of the batch in its epoch, from 0
    uint32_t slot;                  //  where in the ring; inline: its bit in kept, nothing else
    uint32_t count;                 //  samples in it, 1 .. batch size
    uint32_t flags;
    uint32_t zero;
} wire_batch_t;

enum { WIRE_EPOCH_LAST = 1 };       //  wire_epoch_end_t.flags: the job's last epoch

//  Frame 1 of EPOCH_END, which follows the epoch's last batch.
typedef struct {
    uint64_t epoch;
    uint64_t samples;               //  delivered in it
    uint64_t batches;
    uint32_t flags;
    uint32_t zero;
} wire_epoch_end_t;

//  The forms of an id set frame: 8 bytes {form, 7 zero bytes}, then uint64 numbers.
typedef enum {
    WIRE_IDS_RANGES = 1,            //  pairs lo, hi: lo .. hi-1; ascending, apart or touching, none empty
    WIRE_IDS_WORDS = 2,             //  up to ceil (samples / 64) words; bit i of word w: id 64 w + i
    WIRE_IDS_LIST = 3,              //  ids in an order that matters, repeats allowed
    WIRE_IDS_RECENT = 4             //  steps of a job with ranks, as records
} wire_ids_form_t;

//  The first of the four numbers with which a record of that form begins.
enum {
    WIRE_RECENT_STEP = 0,           //  then epoch, index, number of ids; a count for each rank, and the ids
    WIRE_RECENT_END = 1             //  then epoch, batches, samples
};

enum {                              //  wire_work_task_t.flags
    WIRE_WORK_LEARN = 1,            //  what is learned of the rows is wanted
    WIRE_WORK_READ = 2              //  the worker reads the files by itself: frame 2 has the rows alone
};

//  Frame 1 of WORK_TASK; its number is the head's tag.  Frame 2: the files' bytes, one after the other, then
//  the rows of the first one (image_reader.h).
typedef struct {
    uint64_t seed, round, id;       //  the key of the random numbers
    uint32_t occurrence;
    uint32_t pipeline;              //  the number of a WORK_PIPELINE
    uint32_t files;
    uint32_t warnings_max;          //  of libjpeg; UINT32_MAX: none are too many
    uint32_t flags;
    uint32_t dataset;               //  READ: its place in WORK_HELLO, from 0
    uint64_t checksum;              //  READ: XXH3-64 of each file, added up, each times its place from 1
    uint64_t rows_bytes;
    uint64_t sizes [WIRE_WORK_FILES_MAX];
} wire_work_task_t;

typedef enum {
    WIRE_WORK_READY,                //  frames 2 and on: the version, cut into WIRE_FRAME_BYTES_MAX
    WIRE_WORK_BAD,                  //  the sample is; frame 2: why, a text
    WIRE_WORK_UNSUITABLE,           //  for the pipeline; frame 2: why
    WIRE_WORK_NO_MEMORY,            //  the worker has none; frame 2: empty
    WIRE_WORK_UNREAD,               //  it cannot read these files; frame 2: empty
    WIRE_WORK_OUTCOMES
} wire_work_outcome_t;

enum { WIRE_WORK_CLIPPED = 1 };     //  wire_work_result_t.flags: READY, and values above 255 became 255

//  Frame 1 of WORK_RESULT; the head's tag is the task's number.
typedef struct {
    uint64_t worker_ns;             //  processor time
    uint64_t held_ns;               //  from the task's arrival to this answer
    uint16_t outcome;               //  wire_work_outcome_t
    uint16_t flags;
    uint32_t file;                  //  at fault
    uint64_t rows_bytes;            //  learned of the first file's rows: the last frame; 0: there is none
} wire_work_result_t;

_Static_assert (sizeof (wire_work_task_t) == 128, "wire layout");
_Static_assert (sizeof (wire_work_result_t) == 32, "wire layout");
_Static_assert (sizeof (wire_head_t) == 24, "wire layout");
_Static_assert (sizeof (wire_progress_t) == 24, "wire layout");
_Static_assert (sizeof (wire_batch_t) == 40, "wire layout");
_Static_assert (sizeof (wire_epoch_end_t) == 32, "wire layout");
_Static_assert (WIRE_SLOTS_MAX <= 64, "kept has 64 bits");

#endif

/*  tureen -- the C client: joins a Tureen server as a training job and reads its batches.
 *
 *      tureen_options_t options = { .dataset = "train", .batch_size = 64, .epochs = 2 };
 *      char error [TUREEN_ERROR_BYTES];
 *      tureen_loader_t *loader = tureen_loader_new (&options, error, sizeof error);
 *      if (!loader) { fprintf (stderr, "%s\n", error); exit (1); }
 *      tureen_batch_t *batch;
 *      for (tureen_event_t event; (event = tureen_loader_next (loader, &batch)) != TUREEN_END;) {
 *          if (event == TUREEN_ERROR) { fprintf (stderr, "%s\n", tureen_loader_error (loader)); break; }
 *          if (event == TUREEN_BATCH) {
 *              tureen_array_t image;
 *              tureen_batch_array (batch, "image", &image);    //  image.shape [0] samples at image.data
 *              tureen_batch_release (&batch);
 *          }
 *      }
 *      tureen_loader_destroy (&loader);
 *
 *  Batches:    each is a set of named arrays: what the pipeline makes ("image" ...), then the data set's
 *              labels.  On the server's host they are views of memory that the server wrote (no copy; yours
 *              to change in place), from another host they own the message they came in.  A batch stays as it
 *              is until you release it, whatever happens to the server meanwhile.
 *  Window:     the server prepares up to options.slots batches ahead of your releases.  Batches may be kept
 *              and released in any order; a user that keeps `slots` of them gets no further one until one is
 *              released.
 *  Threads:    any thread may call any function on a loader or a batch, but tureen_loader_destroy must come
 *              last.  A loader runs one thread of its own for the sockets (and ZeroMQ's), with every signal
 *              blocked; the library handles no signals and has no globals.
 *  Keys:       a server on tcp:// may admit only clients with a key that it knows (options.key,
 *              options.server_key).  A loader keeps them for joining again, and wipes them when it is
 *              destroyed.
 *  Server:     its end is noticed at once on this host, and within ten seconds elsewhere.  The loader looks
 *              for a server by itself (options.rejoin_ms) and joins again where it was: tureen_loader_next
 *              gives what had been delivered, waits, and continues; no sample comes twice, none is missing.
 *              If no server comes back, TUREEN_ERROR, and another loader can use tureen_loader_state.
 *              tureen_loader_new waits in the same way if a server ends before its answer, or has claimed the
 *              endpoint and does not listen yet.
 *  State:      tureen_loader_state tells at any moment what the user has received; a later loader, in another
 *              process or with another server of the same data, continues exactly there (options.state).
 *              A loop that takes batches ahead of its training step takes the state right behind each
 *              tureen_loader_next and keeps the text with the batch: that of the batch trained last is
 *              the state of what was trained, and the batches taken ahead come again.
 *  Ranks:      options.world_size processes take one job together, each with a loader of its own; the job is
 *              dealt to them in steps of a batch for each.  All get equally many batches; if a step has no
 *              sample left for a rank, its batch is padding (tureen_batch_padding).  Each rank's state after
 *              the same step is the same, and can be resumed with any number of ranks.
 *  Nodes:      options.nodes machines take one job together, each from a server of its own with the same
 *              data; no server knows of another.  In each epoch a node gets its part: no sample is in two of
 *              them, and all nodes get equally many batches, padding at the end of a shorter part.  A state
 *              in the middle of an epoch is its node's; tureen_merge_states makes the job's of the states of
 *              all nodes, and any number of nodes resumes that.
 *  Link with   -ltureen  (pkg-config: tureen).
 */
#ifndef TUREEN_H
#define TUREEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUREEN_EXPORT __attribute__ ((visibility ("default")))
#define TUREEN_CHECKED __attribute__ ((warn_unused_result))

enum {
    TUREEN_ERROR_BYTES = 512,       //  no error text is longer, its end included
    TUREEN_DIMENSIONS_MAX = 8       //  of an array
};

typedef struct tureen_loader tureen_loader_t;
typedef struct tureen_batch tureen_batch_t;

typedef enum {
    TUREEN_ORDER_DEFAULT,           //  TUREEN_SEEDED if options.seeded, otherwise TUREEN_SHARED
    TUREEN_SHARED,                  //  random, chosen so that jobs can share the work
    TUREEN_PRIVATE,                 //  random, drawn alone
    TUREEN_LIST,                    //  options.ids as given; without ids: ascending
    TUREEN_SEEDED                   //  random; the same seed gives the same batches again, bit for bit
} tureen_order_t;

typedef enum {
    TUREEN_AUTO,                    //  shared memory if the server can offer it: the default
    TUREEN_INLINE                   //  through the socket, also on the server's host
} tureen_transport_t;

typedef enum {
    TUREEN_BAD_DEFAULT,             //  as the data set is served (--on-bad)
    TUREEN_BAD_DROP,                //  leaves out an unreadable sample, and tureen_loader_notice says so
    TUREEN_BAD_FAIL                 //  an unreadable sample ends the job: TUREEN_ERROR
} tureen_bad_t;

typedef enum {
    TUREEN_PARTS_FRESH,             //  a node has other samples in each epoch: the default
    TUREEN_PARTS_FIXED              //  always the same
} tureen_parts_t;

//  The ids lo to hi-1; an id is a sample's index in the data set.
typedef struct {
    uint64_t lo;
    uint64_t hi;
} tureen_range_t;

//  Each option says what zero means; only `dataset` must be set.  Everything is lent for the call only.
typedef struct {
    const char *endpoint;           //  ipc://PATH, tcp://HOST:PORT; NULL: $TUREEN_ENDPOINT, else the default
    const char *dataset;            //  required
    uint32_t batch_size;            //  1 to 65536; 0: 64
    uint64_t epochs;                //  0: until the loader is destroyed
    bool drop_last;                 //  leave out a last batch that is not full
    const char *pipeline;           //  a recipe's name or a JSON list of operations; NULL: "train"; with
                                    //  order TUREEN_LIST "eval"
    tureen_order_t order;
    const uint64_t *ids;            //  for TUREEN_LIST, repeats allowed; NULL: all, ascending
    size_t id_count;
    const tureen_range_t *subset;   //  ascending, not overlapping; NULL: the whole data set.  Excludes ids
    size_t subset_count;
    uint32_t slots;                 //  the window in batches, 3 to 64; 0: 4
    tureen_transport_t transport;
    bool seeded;                    //  false: the server draws a seed
    uint64_t seed;                  //  for TUREEN_SEEDED's order and augmentation; otherwise for this job's
                                    //  own augmentation
    uint32_t pool;                  //  TUREEN_SEEDED over a pack: reads whole pieces, mixed in a pool of so
                                    //  many samples, 8 to 2^24; another pool gives another order; 0: no pool
    const char *name;               //  for people, in `tureen status`; at most 64 bytes
    int timeout_ms;                 //  how long to wait for the answer; 0: 10 seconds; below 0: EINVAL.  A
                                    //  server that waits for other ranks says so every second, which restarts
                                    //  the time
    const char *state;              //  resume there: the JSON of tureen_loader_state or of Python's
                                    //  state_dict; NULL: at the beginning.  Needs the same data, so the same
                                    //  ids or subset; it has order, seed and pool, which may be left out; all
                                    //  other options may differ
    const char *job;                //  the name of a run, which no other may use at the same time, at most 64
                                    //  bytes: a loader that joins with it and its state ends the run's
                                    //  earlier process
    int rejoin_ms;                  //  how long to look for a server that is gone; 0: 300 seconds; below 0:
                                    //  not at all, its end is TUREEN_ERROR, or tureen_loader_new fails
    uint32_t world_size;            //  processes (ranks) that take one job together, at most 64, each with
                                    //  the same options; above 1 options.job is required, which they find
                                    //  each other by.  0 and 1: this process alone
    uint32_t rank;                  //  which of them this one is, from 0
    uint32_t gather_seconds;        //  ranks: how long the first waits for the last, at most 86400; 0: 300
    int rank_wait_seconds;          //  ranks: how long the others wait for a lost rank, at most 86400; the
                                    //  greatest value of all ranks counts; 0: 10; below 0: not at all
    const char *key;                //  tcp://: the path of this client's certificate (tureen key new), with
                                    //  PATH_secret beside it; NULL: $TUREEN_KEY, or none for an open server.
                                    //  At ipc:// the uid counts instead, and neither key is read
    const char *server_key;         //  required with key: the server's public key, from its log, or the path
                                    //  of its public certificate; NULL: $TUREEN_SERVER_KEY
    void (*waiting) (void *context, const char *text);  //  tureen_loader_new calls it, in its own thread,
                                                        //  when nothing has
                                    //  listened at the endpoint for a second, and where it looks for a server
                                    //  that has ended: what is looked for, and for how long; NULL:
                                    //  tureen_loader_notice tells the latter
    void *waiting_context;          //  handed to it
    tureen_bad_t on_bad;            //  the effect of an unreadable sample in this job's data.  A server that
                                    //  is older than this option refuses it
    uint32_t nodes;                 //  machines that take one job together, at most 1024, each from a server
                                    //  of its own; all give equal batch_size, world_size and data, which
                                    //  nothing checks.  0 and 1: this machine alone
    uint32_t node;                  //  which of them this one is, from 0
    tureen_parts_t parts;           //  with nodes
} tureen_options_t;

//  One named array of every batch.
typedef struct {
    const char *name;
    const char *dtype;              //  NumPy's name: "uint8", "float32", "int64" ...; or "bfloat16", a
                                    //  float32's upper half
    size_t dimensions;              //  of one sample: 0 for one number
    size_t shape [TUREEN_DIMENSIONS_MAX];
    size_t sample_bytes;
    size_t offset;                  //  of the array in a batch
    const char *lengths;            //  ragged (tureen_batch_ragged): the int64 field that says how many of
                                    //  shape [0] rows each sample has, behind which are zeros; else NULL
} tureen_field_t;

//  The server's answer to the first join; job, ring, run and forked may change when the loader joins again.
typedef struct {
    uint64_t job;                   //  the server's number for this job
    uint64_t samples;               //  one epoch of this job, of all its ranks and nodes together
    uint64_t dataset_samples;
    uint32_t batch_size;
    uint32_t slots;
    bool ring;                      //  shared memory; false: inline
    const tureen_field_t *fields;
    size_t field_count;
    const char *const *classes;     //  class_count names, or NULL
    size_t class_count;
    uint64_t seed;                  //  the given one, or the server's: it repeats a seeded run
    const char *fingerprint;        //  of the data set
    const char *data;               //  a digest of this job's ids; "": the server is too old to resume with
    const char *run;                //  the run of the state; "": likewise
    bool forked;                    //  the run of options.state continues elsewhere: this is a run of its own
    const char *pipeline;           //  JSON, as understood by the server
    uint32_t world_size;            //  1: this process alone
    uint32_t rank;
    uint32_t nodes;                 //  1: this machine alone
    uint32_t node;
} tureen_info_t;

//  One array of one batch.  Row-major.
typedef struct {
    void *data;
    const char *dtype;
    size_t dimensions;              //  1 more than the field's
    size_t shape [TUREEN_DIMENSIONS_MAX + 1];   //  shape [0] is the number of samples
    size_t bytes;
} tureen_array_t;

typedef enum {
    TUREEN_BATCH,                   //  *batch_p is yours until tureen_batch_release
    TUREEN_EPOCH_END,               //  all batches of an epoch have been given; tureen_loader_epoch tells
    TUREEN_END,                     //  the last epoch is over; every further call says so again
    TUREEN_ERROR,                   //  tureen_loader_error tells; every further call says so again
    TUREEN_TIMEOUT                  //  tureen_loader_next_within only
} tureen_event_t;

typedef struct {
    uint64_t epoch;                 //  from 0
    uint64_t samples;               //  delivered in it, those of an earlier loader included if options.state
                                    //  resumed it; to all ranks
    uint64_t batches;               //  likewise; with ranks: steps
} tureen_epoch_t;

enum { TUREEN_EPOCH_ANY = -1 };     //  for tureen_loader_explain: the newest batch with the sample

//  Joins: blocks until the server has answered; with ranks until all have joined, gather_seconds at most (so
//  one thread cannot join two ranks).  NULL: error (TUREEN_ERROR_BYTES are enough) has the reason and the
//  remedy, and errno is EINVAL (unusable options, keys among them), ETIMEDOUT (no server answers), ECONNRESET
//  (the server ended before its answer, and was not back within rejoin_ms), EACCES (it does not admit this
//  client: the keys do not match, or the client's is unknown or revoked), ECONNREFUSED (the server refuses;
//  with ranks: one has not come, or asks for something else), EPROTO (another kind of server answers) or
//  another (out of memory, of descriptors).  If options.state leaves nothing (its epoch is options.epochs) no
//  server is asked: the loader gives TUREEN_END, and its info has no fields.
TUREEN_EXPORT tureen_loader_t *tureen_loader_new (const tureen_options_t *options, char *error,
    size_t error_bytes) TUREEN_CHECKED;
//  Leaves the job and frees everything; NULL inside is fine.  Every batch must have been released, because
//  their memory is freed (asserted).  Blocks until the server has confirmed, two seconds at most.  A rank
//  that leaves before its last batch was sent also ends the job for the other ranks.
TUREEN_EXPORT void tureen_loader_destroy (tureen_loader_t **self_p);

//  Blocks for the next event.  *batch_p is set for TUREEN_BATCH and nulled for all else.
TUREEN_EXPORT tureen_event_t tureen_loader_next (tureen_loader_t *self, tureen_batch_t **batch_p)
    TUREEN_CHECKED;
//  The same, but TUREEN_TIMEOUT after timeout_ms (0: at once; below 0: never, as tureen_loader_next).
TUREEN_EXPORT tureen_event_t tureen_loader_next_within (tureen_loader_t *self, tureen_batch_t **batch_p,
    int timeout_ms) TUREEN_CHECKED;

//  The epoch of the last TUREEN_EPOCH_END; all zero before the first.
TUREEN_EXPORT tureen_epoch_t tureen_loader_epoch (const tureen_loader_t *self);
//  Why TUREEN_ERROR; "" when there is none.  Lent until the loader is destroyed, as is all of info.
TUREEN_EXPORT const char *tureen_loader_error (const tureen_loader_t *self);
TUREEN_EXPORT const tureen_info_t *tureen_loader_info (const tureen_loader_t *self);

//  What tureen_loader_next has given so far, as JSON (docs/state.md): 0 and *json_p malloc'ed, the caller's
//  to free.  Local, no round trip, at any moment, after TUREEN_ERROR too.  -ENOMEM; -ENOTSUP: the server is
//  too old to go on with.
TUREEN_EXPORT int tureen_loader_state (tureen_loader_t *self, char **json_p) TUREEN_CHECKED;
//  Makes the state of the whole job of the states of all its nodes: 0 and *json_p malloc'ed, the caller frees
//  it.  Equal states of several ranks of a node may be among them.  Between two epochs the state of any node
//  is the job's.  -ENOMEM; -EINVAL with error filled: a state is damaged, a node's is missing, or they are
//  not of one job and one step; it names the node, and how many samples would come twice.
TUREEN_EXPORT int tureen_merge_states (const char *const *states, size_t count, char **json_p, char *error,
    size_t error_bytes) TUREEN_CHECKED;
//  The oldest notice not yet given: samples cannot be read (about a second after the first was found, and at
//  the end of an epoch that found more), why little is shared, a rank is lost and waited for, the server is
//  gone and looked for, it is back.  malloc'ed, the caller frees it; NULL: none.  Each is given once, so call
//  this now and then.
TUREEN_EXPORT char *tureen_loader_notice (tureen_loader_t *self) TUREEN_CHECKED;
//  The samples of this job's data that cannot be read and are left out: 0 and *json_p malloc'ed, {"count": 2,
//  "samples":
//  [{"id": 17, "reason": "cat/17.jpg: .."}]}, which names the first ten.  Local, no round trip, also after
//  the last event: from the server's messages, complete for the epochs that have ended. -ENOMEM.
TUREEN_EXPORT int tureen_loader_unreadable (tureen_loader_t *self, char **json_p) TUREEN_CHECKED;
//  Asks what was done to a sample of a present or just released batch (with order TUREEN_SEEDED: of any): its
//  file, its version, the random parameters of every operation.  epoch: or TUREEN_EPOCH_ANY.  0 and *json_p
//  malloc'ed (docs/protocol.md, EXPLAIN); or -errno with error filled: -ENOENT (no batch has it), -ETIMEDOUT
//  (no answer within options.timeout_ms), -ECONNREFUSED, -ECONNRESET (the job is over, or the server went
//  away).
TUREEN_EXPORT int tureen_loader_explain (tureen_loader_t *self, uint64_t id, int64_t epoch, char **json_p,
    char *error, size_t error_bytes) TUREEN_CHECKED;
//  The job's figures: 0 and *json_p malloc'ed, {"job": its part of the server's status (docs/operations.md;
//  with the object of tureen_loader_unreadable), "loader": {"wait_seconds": spent in tureen_loader_next,
//  "batches": given, "samples": given, "joins": 1 and more}}; or -errno as in tureen_loader_explain.
TUREEN_EXPORT int tureen_loader_stats (tureen_loader_t *self, char **json_p, char *error,
    size_t error_bytes) TUREEN_CHECKED;

TUREEN_EXPORT uint64_t tureen_batch_epoch (const tureen_batch_t *self);
//  The batch's number in its epoch, from 0; continues from options.state.  With ranks the step's, so the same
//  on all.
TUREEN_EXPORT uint64_t tureen_batch_index (const tureen_batch_t *self);
//  The batch's number in the loader, from 0; never restarts.
TUREEN_EXPORT uint64_t tureen_batch_sequence (const tureen_batch_t *self);
//  The number of samples in it.
TUREEN_EXPORT size_t tureen_batch_count (const tureen_batch_t *self);
//  count sample ids, lent until the release.
TUREEN_EXPORT const uint64_t *tureen_batch_ids (const tureen_batch_t *self);
//  Ranks and nodes: whether the batch is padding: one sample that the job was given elsewhere or before,
//  because none was left for this rank in the step, or none of the epoch for this node.  It counts nowhere
//  and is in no state; it lets all ranks and nodes take equally many steps.
TUREEN_EXPORT bool tureen_batch_padding (const tureen_batch_t *self);
//  The array with this name; array->data is lent until the release.  False (and array all zero): none.
TUREEN_EXPORT bool tureen_batch_array (const tureen_batch_t *self, const char *name, tureen_array_t *array);
//  Of a ragged field the rows that there are, one sample's behind the other's, without the zeros: fills
//  offsets, of tureen_batch_count + 1, so that sample i has the rows offsets [i] to offsets [i + 1] - 1, and
//  copies the rows to values.  values has room for all bytes of tureen_batch_array, whatever an earlier call
//  said of these rows: they lie in memory that the server writes.  NULL: the offsets alone.  False: there is
//  no ragged field of this name.
TUREEN_EXPORT bool tureen_batch_ragged (const tureen_batch_t *self, const char *name, void *values,
    int64_t *offsets) TUREEN_CHECKED;
//  Gives the batch back and nulls *self_p; NULL inside is fine.  In any order, from any thread.
TUREEN_EXPORT void tureen_batch_release (tureen_batch_t **self_p);

//  Asks a server for its state: 0 and *json_p malloc'ed, a JSON object (docs/operations.md explains the
//  keys), the caller frees it; or -errno as in tureen_loader_new, error filled.  endpoint as in the options;
//  timeout_ms 0: 10 seconds; below 0: -EINVAL.  -ETIMEDOUT comes at once if nothing listens at the endpoint.
TUREEN_EXPORT int tureen_status (const char *endpoint, int timeout_ms, char **json_p, char *error,
    size_t error_bytes) TUREEN_CHECKED;

//  The same, with keys: reads endpoint, key, server_key and timeout_ms of the options.
TUREEN_EXPORT int tureen_status_with (const tureen_options_t *options, char **json_p, char *error,
    size_t error_bytes)
    TUREEN_CHECKED;

#ifdef __cplusplus
}
#endif
#endif

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
 *              and released in any order; who keeps `slots` of them gets no further one until one is
 *              released.
 *  Threads:    any thread may call any function on a loader or a batch, but tureen_loader_destroy must come
 *              last.  A loader runs one thread of its own for the sockets (and ZeroMQ's), with every signal
 *              blocked; the library handles no signals and has no globals.
 *  Keys:       a server on tcp:// may let in only clients whose key it knows (options.key,
 *              options.server_key).  A loader keeps them until it is destroyed, for joining again, and wipes
 *              them then.
 *  Server:     its end is noticed at once on this host, and within ten seconds elsewhere.  The loader looks
 *              for it by itself (options.rejoin_ms) and joins again where it was: tureen_loader_next gives
 *              what had been delivered, waits, and goes on; no sample comes twice, none is missing.  When it
 *              is not to be had, TUREEN_ERROR, and tureen_loader_state is good for another loader.
 *              tureen_loader_new looks for a server that ends while it is asked, and for one that has claimed
 *              the endpoint and does not listen yet, in the same way.
 *  State:      tureen_loader_state says at any moment what the user was given; a later loader, in another
 *              process or of another server that serves the same data, goes on just there (options.state).
 *  Ranks:      options.world_size processes take one job together, each with a loader of its own; the job is
 *              dealt to them in steps of a batch for each.  All get equally many batches; where a step has no
 *              sample left for a rank, its batch is padding (tureen_batch_padding).  Each rank's state after
 *              the same step is the same, and goes on with any number of ranks.
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
    TUREEN_ORDER_DEFAULT,           //  TUREEN_SEEDED where options.seeded, else TUREEN_SHARED
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
    TUREEN_BAD_DROP,                //  a sample that cannot be read is left out, and tureen_loader_notice
                                    //  says so
    TUREEN_BAD_FAIL                 //  it ends the job: TUREEN_ERROR
} tureen_bad_t;

//  The ids lo to hi-1; an id is a sample's index in the data set.
typedef struct {
    uint64_t lo;
    uint64_t hi;
} tureen_range_t;

//  What zero means stands beside each; so only `dataset` must be set.  Everything is lent for the call only.
typedef struct {
    const char *endpoint;           //  ipc://PATH, tcp://HOST:PORT; NULL: $TUREEN_ENDPOINT, else the default
    const char *dataset;            //  required
    uint32_t batch_size;            //  1 to 65536; 0: 64
    uint64_t epochs;                //  0: until the loader is destroyed
    bool drop_last;                 //  leave out what does not fill a batch
    const char *pipeline;           //  a recipe's name or a JSON list of operations; NULL: "train"
    tureen_order_t order;
    const uint64_t *ids;            //  for TUREEN_LIST, repeats allowed; NULL: all, ascending
    size_t id_count;
    const tureen_range_t *subset;   //  ascending, not overlapping; NULL: the whole data set.  Excludes ids
    size_t subset_count;
    uint32_t slots;                 //  the window in batches, 3 to 64; 0: 4
    tureen_transport_t transport;
    bool seeded;                    //  false: the server draws a seed
    uint64_t seed;                  //  of TUREEN_SEEDED's order and augmentation; else of this job's own
    uint32_t pool;                  //  TUREEN_SEEDED over a pack: reads whole pieces, mixed in a pool of so
                                    //  many samples, 8 to 2^24; another pool is another order; 0: without one
    const char *name;               //  for people, in `tureen status`; at most 64 bytes
    int timeout_ms;                 //  how long to wait for the answer; 0: 10 seconds; below 0: EINVAL.  A
                                    //  server that waits for other ranks says so every second, and each time
                                    //  it begins anew
    const char *state;              //  go on where it says: the JSON of tureen_loader_state or of Python's
                                    //  state_dict;
                                    //  NULL: at the beginning.  The same data, so the same ids or subset; it
                                    //  gives order, seed and pool, which may be left out; all else may differ
    const char *job;                //  the name of a run that nobody else may use at the same time, at most
                                    //  64 bytes: who joins with it and its state ends what is left of the
                                    //  run's process before
    int rejoin_ms;                  //  how long to look for a server that is gone; 0: 300 seconds; below 0:
                                    //  not at all, its end is TUREEN_ERROR, or tureen_loader_new fails
    uint32_t world_size;            //  processes (ranks) that take one job together, at most 64, each with
                                    //  the same options;
                                    //  above 1 options.job is required: by it they find each other.  0 and 1:
                                    //  this one alone
    uint32_t rank;                  //  which of them this one is, from 0
    uint32_t gather_seconds;        //  ranks: how long the first waits for the last, at most 86400; 0: 300
    int rank_wait_seconds;          //  ranks: how long the others stand still for one that is lost, at most
                                    //  86400; the greatest of what they say counts; 0: 10; below 0: not at
                                    //  all
    const char *key;                //  tcp://: the path of this client's certificate (tureen key new), beside
                                    //  which PATH_secret is; NULL: $TUREEN_KEY, else none: the server is
                                    //  open.  At ipc:// the user counts instead, and neither of the two is
                                    //  read
    const char *server_key;         //  with it the server's public key, which its log names, or the path of
                                    //  its public certificate; NULL: $TUREEN_SERVER_KEY
    void (*waiting) (void *context, const char *text);  //  tureen_loader_new calls it, in its own thread,
                                                        //  when nothing has
                                    //  listened at the endpoint for a second, and where it looks for a server
                                    //  that has ended:
                                    //  what is looked for, and for how long; NULL: tureen_loader_notice tells
                                    //  the latter
    void *waiting_context;          //  handed to it
    tureen_bad_t on_bad;            //  what a sample of this job's data does that cannot be read.  A server
                                    //  that is older than this option refuses it
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
} tureen_field_t;

//  What the server told when it was first joined; job, ring, run and forked may be others after the loader
//  joined again.
typedef struct {
    uint64_t job;                   //  the server's number for this job
    uint64_t samples;               //  one epoch of this job, of all its ranks together
    uint64_t dataset_samples;
    uint32_t batch_size;
    uint32_t slots;
    bool ring;                      //  shared memory; false: inline
    const tureen_field_t *fields;
    size_t field_count;
    const char *const *classes;     //  class_count names, or NULL
    size_t class_count;
    uint64_t seed;                  //  the given one, or what the server drew: it gives a seeded run again
    const char *fingerprint;        //  of the data set
    const char *data;               //  stands for this job's ids; "": the server is too old to go on with
    const char *run;                //  of which the state is, likewise
    bool forked;                    //  options.state was of a run that goes on elsewhere: this is a run of
                                    //  its own
    const char *pipeline;           //  JSON, as the server understood it
    uint32_t world_size;            //  1: this process alone
    uint32_t rank;
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
    uint64_t samples;               //  delivered in it, by the loader before too where options.state went on
                                    //  with one;
                                    //  to all ranks
    uint64_t batches;               //  likewise; with ranks: steps
} tureen_epoch_t;

enum { TUREEN_EPOCH_ANY = -1 };     //  for tureen_loader_explain: the newest batch with the sample

//  Joins: blocks until the server has answered; with ranks until all of them are there, gather_seconds at
//  most (so one thread cannot join two ranks).  NULL: error (TUREEN_ERROR_BYTES are enough) says why and what
//  to do, and errno is EINVAL (unusable options, keys among them), ETIMEDOUT (no server answers), ECONNRESET
//  (the server ended before it had answered, and was not back within rejoin_ms), EACCES (it does not let this
//  client in: the keys do not fit each other, or its own is unknown or revoked), ECONNREFUSED (the server
//  says no; with ranks: one has not come, or asks for something else), EPROTO (what answers is no server of
//  ours) or another (out of memory, of descriptors).
//  With an options.state after which nothing is left (its epoch is options.epochs) no server is asked: the
//  loader gives TUREEN_END, and its info has no fields.
TUREEN_EXPORT tureen_loader_t *tureen_loader_new (const tureen_options_t *options, char *error,
    size_t error_bytes) TUREEN_CHECKED;
//  Leaves the job and frees everything; NULL inside is fine.  Every batch must have been released: their
//  memory goes (asserted).  Blocks until the server has confirmed, two seconds at most.  A rank that leaves
//  before its last batch was sent ends the job of the others too.
TUREEN_EXPORT void tureen_loader_destroy (tureen_loader_t **self_p);

//  Blocks for the next event.  *batch_p is set for TUREEN_BATCH and nulled for all else.
TUREEN_EXPORT tureen_event_t tureen_loader_next (tureen_loader_t *self, tureen_batch_t **batch_p)
    TUREEN_CHECKED;
//  The same, but TUREEN_TIMEOUT after timeout_ms (0: at once; below 0: never, as tureen_loader_next).
TUREEN_EXPORT tureen_event_t tureen_loader_next_within (tureen_loader_t *self, tureen_batch_t **batch_p,
    int timeout_ms) TUREEN_CHECKED;

//  The epoch whose TUREEN_EPOCH_END was given last; all zero before.
TUREEN_EXPORT tureen_epoch_t tureen_loader_epoch (const tureen_loader_t *self);
//  Why TUREEN_ERROR; "" when there is none.  Lent until the loader is destroyed, as is all of info.
TUREEN_EXPORT const char *tureen_loader_error (const tureen_loader_t *self);
TUREEN_EXPORT const tureen_info_t *tureen_loader_info (const tureen_loader_t *self);

//  What tureen_loader_next has given so far, as JSON (docs/state.md): 0 and *json_p malloc'ed, the caller's
//  to free.  Local, no round trip, at any moment, after TUREEN_ERROR too.  -ENOMEM; -ENOTSUP: the server is
//  too old to go on with.
TUREEN_EXPORT int tureen_loader_state (tureen_loader_t *self, char **json_p) TUREEN_CHECKED;
//  The oldest thing that its user should know and was not told: that samples cannot be read (about a second
//  after the first was found, and at the end of an epoch that found more), why little is shared, that a rank
//  is lost and waited for, that the server is gone and looked for, that it is back.  malloc'ed, the caller's
//  to free; NULL: nothing.  Each is given once, so look now and then.
TUREEN_EXPORT char *tureen_loader_notice (tureen_loader_t *self) TUREEN_CHECKED;
//  The samples of this job's data that cannot be read and are left out: 0 and *json_p malloc'ed, {"count": 2,
//  "samples":
//  [{"id": 17, "reason": "cat/17.jpg: .."}]}, which names the first ten.  Local, no round trip, after the
//  last event too: what the server has told, which is all that is missing in the epochs that have ended.
//  -ENOMEM.
TUREEN_EXPORT int tureen_loader_unreadable (tureen_loader_t *self, char **json_p) TUREEN_CHECKED;
//  Asks what was done to a sample of a batch that is at hand, or was until a moment ago (of order
//  TUREEN_SEEDED: of any): its file, its version, the random parameters of every operation.  epoch: or
//  TUREEN_EPOCH_ANY.  0 and *json_p malloc'ed (docs/protocol.md, EXPLAIN); or -errno with error filled:
//  -ENOENT (no batch has it), -ETIMEDOUT (no answer within options.timeout_ms), -ECONNREFUSED, -ECONNRESET
//  (the job is over, or the server went away).
TUREEN_EXPORT int tureen_loader_explain (tureen_loader_t *self, uint64_t id, int64_t epoch, char **json_p,
    char *error, size_t error_bytes) TUREEN_CHECKED;
//  How the job does: 0 and *json_p malloc'ed, {"job": what the server's status says of it
//  (docs/operations.md; with what tureen_loader_unreadable tells), "loader":
//  {"wait_seconds": spent in tureen_loader_next, "batches": given, "samples": given, "joins": 1 and more}};
//  or -errno as tureen_loader_explain has it.
TUREEN_EXPORT int tureen_loader_stats (tureen_loader_t *self, char **json_p, char *error,
    size_t error_bytes) TUREEN_CHECKED;

TUREEN_EXPORT uint64_t tureen_batch_epoch (const tureen_batch_t *self);
//  The batch's number in its epoch, from 0; goes on where options.state was.  With ranks the step's, so the
//  same on all.
TUREEN_EXPORT uint64_t tureen_batch_index (const tureen_batch_t *self);
//  The batch's number in the loader, from 0; never restarts.
TUREEN_EXPORT uint64_t tureen_batch_sequence (const tureen_batch_t *self);
//  The number of samples in it.
TUREEN_EXPORT size_t tureen_batch_count (const tureen_batch_t *self);
//  count sample ids, lent until the release.
TUREEN_EXPORT const uint64_t *tureen_batch_ids (const tureen_batch_t *self);
//  Ranks: is it one sample that another rank has in this step, because none was left for this one?  It counts
//  nowhere, is in no state, and is there so that all ranks take equally many steps.
TUREEN_EXPORT bool tureen_batch_padding (const tureen_batch_t *self);
//  The array called name; array->data is lent until the release.  False (and array all zero): there is none.
TUREEN_EXPORT bool tureen_batch_array (const tureen_batch_t *self, const char *name, tureen_array_t *array);
//  Gives the batch back and nulls *self_p; NULL inside is fine.  In any order, from any thread.
TUREEN_EXPORT void tureen_batch_release (tureen_batch_t **self_p);

//  Asks a server for its state: 0 and *json_p malloc'ed, a JSON object (docs/operations.md explains the
//  keys), the caller's to free; or -errno as tureen_loader_new has it, error filled.  endpoint as in the
//  options; timeout_ms 0: 10 seconds; below 0: -EINVAL.  -ETIMEDOUT comes at once where nothing listens at
//  the endpoint.
TUREEN_EXPORT int tureen_status (const char *endpoint, int timeout_ms, char **json_p, char *error,
    size_t error_bytes) TUREEN_CHECKED;

//  The same, with keys: of the options endpoint, key, server_key and timeout_ms count.
TUREEN_EXPORT int tureen_status_with (const tureen_options_t *options, char **json_p, char *error,
    size_t error_bytes)
    TUREEN_CHECKED;

#ifdef __cplusplus
}
#endif
#endif

/*  broker -- everything that decides: jobs, samplers, the prepared cache's index, credit.
 *
 *  The broker knows no socket, thread or clock.  Events and the time go in; actions come out of broker_next,
 *  and the driver, `tureen serve` or a simulation, carries them out.  The broker never blocks, decodes or
 *  reads a file.
 *
 *      joined, attached, progress, prepared, copied ..     events
 *      broker_advance (broker, now_ms)                     draws what jobs need, hands out work
 *      while (broker_next (broker, &action))               prepare, copy, send ..
 *
 *  A draw takes a row of a batch at once (draw/draw.c).  It finds a version of the sample (version_index.h),
 *  which may have to be prepared first (dispatch/schedule.c).  A worker copies a ready version to its row.  A
 *  batch is sent when all its rows are filled, in drawn order (deliver/draw_send.c).
 *
 *  A turn, broker_advance, runs its phases in one direction: sweep jobs that have ended, admit, draw,
 *  dispatch, fetch, deliver, count.  Each phase stands in a folder that sees only those before it in model,
 *  fetch, dispatch, draw, deliver, admit, report.  It leaves a mark (model/job.h) for a later phase, and
 *  calls none.
 *
 *  No decision depends on a completion: draws and evictions are settled at the draw, as if preparing took no
 *  time.
 *  Completions only move work along.
 *
 *  Invariants, checked by broker_check ():
 *    B1  a job's slots are free, filling, full or sent; at most one is filling.
 *    B2  every row of an unsent batch waits for a version, is being copied, is filled, or is lost with its
 *        rank.
 *    B3  each row that waits for a version or is copied from it pins the version once; so does a worker
 *        that has it.
 *    B4  the version index's invariants of versions and their counts hold (version_index_check).
 *    B5  tasks and reads handed out never exceed their limits, memory never its budget.
 *    B6  a version of a pack's sample holds its bytes while it waits for them, waits for a worker, or is with
 *        a worker; a tier holds each sample that is resident in it (raw_store_check, raw_pool_check).
 *    B7  no two jobs of one tenant that are not over have the same run, or the same job name.
 *    B8  a step is sent to all ranks of its job or to none; while a rank is missing or lacks a step, nothing
 *        is sent to the others.
 *    B9  with several tenants, no tenant exceeds its limits (broker_tenant_t), and figures and texts for one
 *        tenant depend on nothing of another (docs/security.md says what timing reveals).
 *  Owner: one thread.  Start-up and bookkeeping allocations abort when there is no memory; sizes that a
 *  client chooses are refused with a figure.
 */
#ifndef BROKER_H
#define BROKER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <jansson.h>
#include <roaring/roaring.h>
#include "pipeline.h"
#include "prepared.h"
#include "raw_store.h"
#include "request_recent.h"
#include "request.h"
#include "sampler.h"

typedef struct broker broker_t;
typedef struct dataset dataset_t;
typedef struct tenant tenant_t;     //  users that share rights and limits; every job belongs to one
typedef struct job job_t;
typedef struct batch_row batch_row_t;
typedef struct rank rank_t;     //  one of a job's clients; most jobs have one, of number 0

enum {
    BROKER_DATASETS_MAX = 64,
    BROKER_WINDOW_MAX = 1 << 20,    //  samples in all slots of a job
    BROKER_ATTACH_MS = 10000,       //  a job must take its ring or ask for inline within this
    BROKER_LEASE_MS = 90000,        //  an inline job that is silent for so long counts as gone
    BROKER_PATIENCE_MS = 300000,    //  failed reads that may succeed later are retried for so long
    BROKER_GATHER_MS = 200,         //  jobs that join an idle group within this time begin together
    BROKER_RANK_DESCRIPTORS = 3     //  of a rank: its ring, its connections to the ring server and to ZeroMQ
};

typedef struct {
    size_t cache_bytes;
    size_t raw_bytes;               //  for compressed samples of packs; may be 0 if there are none
    uint32_t workers;
    uint32_t customs;               //  operations of the operator's own, prepared by threads of their own
    size_t jobs_bytes_max;          //  all jobs' slots and bookkeeping together
    size_t descriptors_max;         //  for connections of ranks, BROKER_RANK_DESCRIPTORS each; 0: not counted
    sampler_policy_t policy;
    uint64_t seed;                  //  fresh at each start; a simulation's is fixed
    uint32_t gather_ms;             //  BROKER_GATHER_MS
    uint32_t patience_ms;           //  0: BROKER_PATIENCE_MS
    uint32_t job_cost_ms;           //  of processor time that a job's pipeline may take a sample, as foreseen
                                    //  (pipeline_check_cost); 0: without a bound
} broker_options_t;

//  Tasks (PREPARE and COPY) that are handed out at once, at most; and reads.
size_t broker_tasks_max (const broker_t *self);
//  The same if all processors are lent that may be.
size_t broker_tasks_most (const broker_t *self);
//  So many processors of other machines prepare beside the workers from now on, at most BROKER_LENT_MAX: more
//  versions are handed out at once.
enum { BROKER_LENT_MAX = 128 };
void broker_lend (broker_t *self, uint32_t processors);
size_t broker_reads_max (const broker_t *self);
//  As the options say.
uint32_t broker_job_cost_ms (const broker_t *self);
//  What a version of this size costs of the cache's budget: its size, but not less than its bookkeeping.
size_t broker_version_cost (size_t version_bytes);
//  One part in so many of the memory for compressed samples (--raw) is for ranges on their way from the disk;
//  the rest is raw_bytes.  And the inverse: the --raw that gives so many raw_bytes.
enum { BROKER_RAW_PARTS = 8 };
size_t broker_raw_setting (size_t raw_bytes);
//  The least cache_bytes with which versions of this size can be prepared.  hands: broker_hands.
size_t broker_cache_least (uint32_t hands, size_t version_bytes);
//  Versions with one operation of the operator's own that are handed out at once, at most.  They take no
//  worker and count apart, so that an operation that hangs holds up its own jobs alone.
uint32_t broker_custom_max (uint32_t workers);
//  A task is slow if its stage of the pipeline takes longer than this for a sample, as foreseen (pipeline.h).
//  Slow tasks have threads of their own, as many as there are workers, so that the operating system divides
//  the processors between them and the workers.  As many are handed out as this says of workers and lent
//  processors together; while other tenants wait, a tenant has at most its share of one for each.
enum { BROKER_SLOW_MS = 100 };
uint32_t broker_slow_max (uint32_t processors);
//  Whether preparing a version, or copying it to a batch, is slow.  A version with an operation of the
//  operator's own is not: that operation has other threads.
bool broker_prepares_slowly (const pipeline_t *pipeline);
bool broker_copies_slowly (const pipeline_t *pipeline);
//  What may have a version outside the cache's index at once: the workers, and the tasks of so many
//  operations.
uint32_t broker_hands (uint32_t workers, uint32_t customs);

broker_t *broker_new (const broker_options_t *options);
//  Every job must be reclaimed.
void broker_destroy (broker_t **self_p);

//  What happens to a job when a sample of its data cannot be read.
typedef enum {
    BROKER_BAD_DROP,                //  the sample leaves the job's data, and the job is told (NOTICE
                                    //  `unreadable`)
    BROKER_BAD_FAIL                 //  the job ends, and no job with that sample may join
} broker_bad_t;

//  Serves sample_count samples under a name (copied).  on_bad: for jobs that do not choose one.  user is the
//  driver's, untouched.
dataset_t *broker_add_dataset (broker_t *self, const char *name, uint32_t sample_count, broker_bad_t on_bad,
    void *user);
//  What the broker must know of a pack to decide what is read when; all lent for the data set's life.
typedef struct {
    const uint32_t *order;          //  the id at each position
    const uint32_t *breaks;         //  positions that a read may not cross: each volume's first
    size_t break_count;
    size_t (*sample_bytes) (void *user, uint32_t id);
    //  How many samples one read takes, by the cost model now, when pool_samples fit in memory; 1 ..
    //  RAW_PIECE_MAX.
    uint32_t (*piece) (void *user, uint64_t pool_samples);
    //  Whether reading so many samples, of sample_bytes together, one by one is cheaper than a range of
    //  range_bytes; NULL: never.
    bool (*prefers_singles) (void *user, uint32_t samples, size_t sample_bytes, size_t range_bytes);
    void *user;
    raw_policy_t policy;
    uint32_t chunk;                 //  samples
    size_t read_bytes_max;          //  of one read, if it is of several samples
} broker_pack_t;

//  Makes a new data set a pack.  False: options.raw_bytes is too small, below *least_p.
bool broker_set_pack (broker_t *self, dataset_t *dataset, const broker_pack_t *pack, size_t *least_p);
//  NULL: no such name, or this tenant (NULL: any) may not use it.  The tenant cannot tell the two apart.
dataset_t *broker_dataset (broker_t *self, const tenant_t *tenant, const char *name);
//  "train, val": the data sets that the tenant may use, for error messages; malloc'ed, the caller's.
char *broker_dataset_names (const broker_t *self, const tenant_t *tenant);
void *dataset_user (const dataset_t *self);
uint32_t dataset_samples (const dataset_t *self);
const char *dataset_name (const dataset_t *self);
//  The shared stages (pipeline_shared_text) of the tenant's jobs on the data set, as far as a job of this
//  order could share versions with them: each once, at most texts_max.  Lent until the next join or end of a
//  job.  Returns how many.
size_t broker_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max);

enum { BROKER_TENANTS_MAX = 64, BROKER_WEIGHT_MAX = 1000 };
//  All users without a known identity (an open tcp endpoint) count as one user.
#define BROKER_USER_UNKNOWN UINT64_MAX

typedef struct {
    const char *name;               //  copied
    uint32_t weight;                //  1 .. BROKER_WEIGHT_MAX: its part of workers' time and of the cache
                                    //  when they are short
    uint32_t jobs_max;              //  including jobs that wait for ranks; 0: its share by weight of
                                    //  SAMPLER_JOBS_MAX
    size_t batches_bytes_max;       //  of its jobs' batches and bookkeeping; 0: its share by weight of
                                    //  jobs_bytes_max
    size_t cache_bytes_max;         //  0: what other tenants leave
} broker_tenant_t;
//  Further limits follow from the weight: jobs on one data set, connections, compressed samples of jobs with
//  memory of their own for them (a pool, order `private`), and the cache that one pipeline may need at least.
//  A share, unlike a limit that is set, never exceeds what the other shares leave.

//  The broker begins with one tenant, "operator", which may use all data sets.  While it is the only one, it
//  has no limits but the server's.  Call before any job.  broker_allow gives a further tenant its data sets.
tenant_t *broker_add_tenant (broker_t *self, const broker_tenant_t *tenant);
void broker_allow (broker_t *self, tenant_t *tenant, const dataset_t *dataset);
//  Changes an existing tenant, for instance the first one, before any job.  The name stays.
void broker_limit (broker_t *self, tenant_t *tenant, const broker_tenant_t *limits);
//  By its name (NULL: the first tenant).  Returns NULL: no such tenant.
tenant_t *broker_tenant (broker_t *self, const char *name);
const char *tenant_name (const tenant_t *self);
uint32_t tenant_number (const tenant_t *self);          //  in the order in which they were added, from 0, the
                                                        //  operator's
size_t broker_tenants (const broker_t *self);           //  how many there are; 1: only the first
//  The tenant's name for the log; NULL: there is only one.
const char *broker_tenant_label (const broker_t *self, const tenant_t *tenant);
tenant_t *broker_tenant_of (broker_t *self, uint32_t number);
bool tenant_may_use (const tenant_t *self, const dataset_t *dataset);   //  tenant NULL: any
//  The tenant's part of something that is divided by weight: at least 1; all tenants' together are no more
//  than the whole, if that is not less than their number.
uint64_t broker_share (const broker_t *self, const tenant_t *tenant, uint64_t whole);

//  What the tenant has beside its jobs: the number of joins that wait for ranks, and the bytes of those
//  joins, of batches on their way out as messages, and of rings that clients of ended jobs still map.  They
//  count in the budget of jobs, so that peers that read nothing and leave cannot make them pile up.
void broker_outside (broker_t *self, tenant_t *tenant, size_t jobs, size_t bytes);

//  A job over several nodes: which node's part of each epoch this server serves (parts.h).  nodes 0 or 1: one
//  node.
typedef struct {
    uint32_t nodes, node;
    bool is_fixed;                  //  parts_t
    uint64_t key;                   //  parts_t
    uint64_t whole;                 //  samples of one epoch over all nodes, those counted that cannot be read
    //  Of the epoch where the job resumes, when its parts were made: the samples taken before (NULL: none, or
    //  a list) and how many, and the batches that each node had sent.
    roaring_bitmap_t *cut;
    uint64_t cut_samples, cut_batches;
} broker_parts_t;

//  What a client asks for, already parsed; for a job with ranks, what all ranks ask for.
typedef struct {
    tenant_t *tenant;               //  the job's tenant; NULL: the first one
    dataset_t *dataset;
    const pipeline_t *pipeline;     //  held by the job, not taken
    uint32_t world_size;            //  1 .. WIRE_RANKS_MAX
    uint32_t batch_size;            //  of each rank
    uint32_t slots;
    uint64_t epochs;                //  0: until the job leaves
    bool drop_last;
    bool on_bad_given;              //  false: the data set's on_bad applies
    broker_bad_t on_bad;
    sampler_order_t order;
    const roaring_bitmap_t *subset; //  NULL: all the data
    const uint32_t *list;           //  LIST only; NULL: ascending
    size_t list_count;
    sampler_list_t *list_made;      //  the same list, made already, which the job holds; NULL: the ids are
                                    //  copied
    bool order_is_of_seed;          //  SEEDED only because the client gave a seed and no order
    uint64_t seed;
    bool seed_given;                //  by the client
    uint32_t pool;                  //  SEEDED over a pack only: stream_order's; 0: none
    const char *name;
    size_t slot_bytes;              //  of one rank; for the budget of jobs
    const char *data;               //  data_digest.h: stands for the data; copied
    //  Where the job resumes (docs/protocol.md, Resuming); all zero: at the beginning.
    uint64_t epoch;                 //  below epochs
    uint64_t epoch_batches;         //  of that epoch, sent by the earlier job
    const roaring_bitmap_t *taken;  //  of that epoch's samples; NULL: none
    size_t taken_places;            //  LIST with ids: of the list's places
    broker_parts_t parts;           //  cut is lent; of a LIST with ids, list has this node's places only
    //  With ranks: the position of each rank, none beyond the position where the job resumes; recent holds
    //  the steps that they lack, up to that position.  NULL: all ranks are where the job resumes.
    const broker_position_t *positions;
    const broker_record_t *recent;
    size_t recent_count;
    uint32_t rank_wait_seconds;     //  for which the job waits for a lost rank
    //  Identity of job and clients (docs/protocol.md, Identity); each NULL: not said.
    const char *run, *job_name;
    const char *instances [WIRE_RANKS_MAX];     //  of each rank
    const char *fresh_run;          //  an unused run, in case this job needs a new one; never NULL
    uint64_t user;                  //  a number for each of the tenant's users, or BROKER_USER_UNKNOWN
} broker_join_t;

//  Whether broker_join would take the job now, as far as the broker can know; nothing changes.  False:
//  refusal holds the reason.  A join of ranks without positions may come from one rank; it is not refused
//  because nothing is left for it (epoch equals epochs).
bool broker_allows (broker_t *self, const broker_join_t *join, int64_t now_ms, refusal_t *refusal);

//  Makes a new job; each of its ranks waits for broker_attached or broker_inline.  NULL: refusal holds the
//  reason.  The driver then attaches its own data to each rank by rank_set_user.  If the job is accepted, an
//  earlier job of the same run ends first (`fenced`).
job_t *broker_join (broker_t *self, const broker_join_t *join, int64_t now_ms, refusal_t *refusal);
//  Whether two ranks ask for the same job and, at the same step, report the same samples as taken.  Different
//  positions, recent, instances, name, the waits and what only one of them gives do not matter.  False:
//  refusal (`ranks_differ`) says what differs.
bool broker_agree (const broker_join_t *one, uint32_t rank, const broker_join_t *other, uint32_t other_rank,
    refusal_t *refusal);

//  Whether the join is a rank that returns to a job (docs/protocol.md, Losing a rank).
typedef enum {
    BROKER_RETURN_NONE,             //  no such job, or no return: the rank waits for other ranks
    BROKER_RETURN_READY,            //  *job_p, for broker_return
    BROKER_RETURN_REFUSED           //  refusal holds the reason: another user has the name, the rank is
                                    //  present, it asks for something else ..
} broker_return_t;
//  join is the rank's request: instances [rank] is its own, epoch and epoch_batches are its position.
//  Nothing changes.
broker_return_t broker_returns (broker_t *self, const broker_join_t *join, uint32_t rank, int64_t now_ms,
    job_t **job_p, refusal_t *refusal);
//  After BROKER_RETURN_READY, in the same turn: the rank waits for broker_attached or broker_inline, as after
//  a join, and then gets the steps that it lacks.  Refused as `busy` until its earlier client has been
//  reclaimed (ACTION_RECLAIM_RANK).  NULL: refused.
rank_t *broker_return (broker_t *self, job_t *job, uint32_t rank, const broker_join_t *join, int64_t now_ms,
    refusal_t *refusal);

//  The client has its ring, or asks for batches as frames.  Batches begin when this is true of all ranks of
//  the job.
void broker_attached (broker_t *self, rank_t *rank, int64_t now_ms);
void broker_inline (broker_t *self, rank_t *rank, int64_t now_ms);
//  False: impossible numbers, nothing changed, refusal says why.
bool broker_progress (broker_t *self, rank_t *rank, const wire_progress_t *progress, int64_t now_ms,
    refusal_t *refusal);
//  An inline rank is alive.
void broker_heartbeat (broker_t *self, rank_t *rank, int64_t now_ms);
//  The client has left, or died: the broker sends it nothing more.  A job of one rank ends; for a job of
//  several ranks see docs/protocol.md.  If the job continues without the rank, ACTION_RECLAIM_RANK follows
//  when no worker writes for it.  Idempotent.
void broker_left (broker_t *self, rank_t *rank);
void broker_lost (broker_t *self, rank_t *rank, int64_t now_ms);
//  Ends the job with all its ranks: nothing more is sent to them.  ACTION_RECLAIM follows when no worker
//  writes for it.  Idempotent.
void broker_gone (broker_t *self, job_t *job);
//  From now on no epoch begins.  A job that has been sent part of an epoch ends (`stopping`) when it has been
//  sent the whole epoch; any other job ends at once.  In its last epoch a job ends when its clients have
//  taken everything.  No more jobs may join; ranks may return to their jobs.  Permanent, and idempotent.
void broker_drain (broker_t *self);
bool broker_is_draining (const broker_t *self);
//  The server ends a job: SEND_ENDED to each present rank, then as broker_gone.  reason is static; message is
//  copied.
void broker_end (broker_t *self, job_t *job, const char *reason, const char *message);
//  After ACTION_RECLAIM_RANK: the rank's user is NULL, and the rank may come back.
void broker_reclaim_rank (broker_t *self, rank_t *rank);
//  After ACTION_RECLAIM: frees the job with its ranks.
void broker_reclaim (broker_t *self, job_t *job);

//  The result of preparing a version.
typedef enum {
    OUTCOME_READY,
    OUTCOME_BAD,                //  the sample cannot be read: the data set is at fault, and on_bad decides
    OUTCOME_UNSUITABLE,         //  the sample is whole, but the version's shared stage cannot take it: the
                                //  jobs of that stage with the sample in their data end, and no other job
                                //  notices
    OUTCOME_ABANDONED           //  broker_abandon has said that it may be left
} outcome_t;

//  Plain files: the read that ACTION_PREPARE asked for is done, and preparing begins.  Only the statistics of
//  what jobs wait for use it.
void broker_fetched (broker_t *self, version_t *version);
//  Or they could not be read: -errno, and the reason with the file's name.  ACTION_PREPARE is undone: it is
//  issued again, or the sample is bad (server/broker/fetch/patience.h).  Not for lack of memory or
//  descriptors: then the driver waits.
void broker_unread (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms);
//  From now on so many samples of the folder are worth reading at once.  With one tenant the broker reads so
//  many, at most BROKER_FETCHES_MAX and at least enough to keep the workers busy; with several tenants, just
//  enough for that.
enum { BROKER_FETCHES_MAX = 160 };
void broker_set_fetches (broker_t *self, dataset_t *dataset, size_t most);
//  A worker has finished ACTION_PREPARE.  reason: why the version is not ready, with the file's name;
//  otherwise ignored.
void broker_prepared (broker_t *self, version_t *version, outcome_t outcome, const char *reason);
//  Whether ACTION_PREPARE, which is not finished, may be: no job wants the version, nor will one from now on.
bool broker_abandon (broker_t *self, version_t *version);
//  Before broker_prepared or broker_copied: the worker's processor time for the task, for the tenants'
//  shares.  Without this call the estimate counts.
void broker_prepare_took (broker_t *self, version_t *version, uint64_t worker_ns);
void broker_copy_took (broker_t *self, batch_row_t *row, uint64_t worker_ns);
//  A side task of a tenant waits for a worker.  ACTION_SIDE_TASK comes at the tenant's turn, and the driver
//  calls broker_side_task_took when it is done (charged_us: the action's), or broker_side_task_gives_up
//  before that if the driver ends.
void broker_side_task_waits (broker_t *self, tenant_t *tenant);
void broker_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us, uint64_t worker_ns);
void broker_side_task_gives_up (broker_t *self, tenant_t *tenant);
//  Workers' time charged to the tenant, with its part of tasks that served several tenants; and rows of its
//  jobs that wait for a worker.
uint64_t broker_worker_ns (const broker_t *self, const tenant_t *tenant);
size_t tenant_waiting (const tenant_t *self);
//  The read that ACTION_READ asked for is done, with its answer filled in.  The answer is final.
void broker_read (broker_t *self, raw_request_t *request);
//  The read failed: -errno, and the reason with the volume's name.  As broker_unread.
void broker_unread_range (broker_t *self, raw_request_t *request, int rc, const char *reason, int64_t now_ms);
//  A worker has finished ACTION_COPY.
void broker_copied (broker_t *self, batch_row_t *row);

//  Draws what jobs need, hands out work as far as limits allow, ends jobs past their deadlines.
void broker_advance (broker_t *self, int64_t now_ms);
//  When broker_advance wants to be called again without an event, deadlines included; INT64_MAX: never.
int64_t broker_wakeup (const broker_t *self);

typedef enum {
    ACTION_READ,                //  request: read the range of its data set's pack into the memory of its
                                //  samples
    ACTION_PREPARE,             //  version: take its sample's bytes (version_raw) or read its files, run the
                                //  class's shared stage into memory
    ACTION_COPY,                //  row: run the job's private stage from the version into row_slot,
                                //  row_index
    ACTION_SIDE_TASK,           //  tenant, charged_us: let a worker do the oldest task announced by
                                   //  broker_side_task_waits
    ACTION_SEND_BATCH,          //  rank: BATCH from batch and step.  A batch of WIRE_SLOT_NONE goes inline,
                                //  whatever the rank's transport
    ACTION_SEND_EPOCH_END,      //  rank, epoch_end
    ACTION_SEND_ENDED,          //  rank, reason, message; after it the rank is as after broker_gone
    ACTION_SEND_NOTICE,         //  rank, reason (the notice's kind), message; message NULL (`unreadable`):
                                //  the driver asks job_unreadable and job_unreadable_message when it sends
    ACTION_RECLAIM_RANK,        //  rank: free its ring, then broker_reclaim_rank
    ACTION_RECLAIM              //  job: free the resources of its ranks' users, then broker_reclaim
} action_kind_t;

typedef struct {
    action_kind_t kind;
    job_t *job;                 //  the rank's, or RECLAIM's
    rank_t *rank;               //  COPY: the row's
    version_t *version;
    batch_row_t *row;
    raw_request_t *request;
    tenant_t *tenant;           //  SIDE_TASK
    uint32_t charged_us;        //  SIDE_TASK
    wire_batch_t batch;         //  SEND_BATCH
    const uint64_t *step;       //  SEND_BATCH of a job with ranks: step_words numbers, as on the wire; else
                                //  NULL.  Lent until the
    size_t step_words;          //  action is carried out
    wire_epoch_end_t epoch_end;
    const char *reason;         //  SEND_ENDED, SEND_NOTICE; static
    const char *message;        //  lives until the job is reclaimed
} action_t;

//  The next action, in order; false: none.
bool broker_next (broker_t *self, action_t *action);

//  What a task needs to know; none of it changes until the task is back.
dataset_t *version_dataset (const broker_t *self, const version_t *version);
//  The sample's compressed bytes, READY or BAD; NULL: the data set is no pack.
const raw_sample_t *version_raw (const version_t *version);
//  A job that waits for the version, of the tenant if it is not NULL; NULL: none does.  And the tenant that
//  had it prepared, until the task is back.
job_t *version_job (const version_t *self, const tenant_t *tenant);
tenant_t *version_tenant (const broker_t *self, const version_t *version);
dataset_t *request_dataset (const broker_t *self, const raw_request_t *request);
const pipeline_t *version_pipeline (const broker_t *self, const version_t *version);
pipeline_key_t version_key (const broker_t *self, const version_t *version);
job_t *row_job (const batch_row_t *self);
rank_t *row_rank (const batch_row_t *self);
//  In its rank's ring; WIRE_SLOT_NONE: its batch is in no slot.
uint32_t row_slot (const batch_row_t *self);
                                                //  such batch at a time
uint32_t row_index (const batch_row_t *self);   //  row in the rank's batch
uint32_t row_id (const batch_row_t *self);
const version_t *row_version (const batch_row_t *self);
pipeline_key_t row_key (const batch_row_t *self);

void *rank_user (const rank_t *self);           //  NULL until it is set, and after broker_reclaim_rank
void rank_set_user (rank_t *self, void *user, bool is_inline);
job_t *rank_job (const rank_t *self);
uint32_t rank_number (const rank_t *self);
bool rank_is_inline (const rank_t *self);
bool rank_is_there (const rank_t *self);        //  the broker may send to it: it has neither left nor been
                                                //  lost, its job is not over
//  The rows of a batch that ACTION_SEND_BATCH named, by its slot in the rank's ring: the row in the slot of
//  each sample (ascending: rows of unreadable samples are missing) and its id.  At most batch_size; returns
//  how many.
uint32_t rank_batch_rows (const rank_t *self, uint32_t place, uint32_t *rows, uint64_t *ids);
//  Calls visit for each present rank, for heartbeats.
void broker_each_rank (broker_t *self, void (*visit) (void *context, rank_t *rank), void *context);

uint64_t job_id (const job_t *self);
uint32_t job_world_size (const job_t *self);
rank_t *job_rank (job_t *self, uint32_t number);        //  number below the world size
uint64_t job_seed (const job_t *self);
dataset_t *job_dataset (const job_t *self);
tenant_t *job_tenant (const job_t *self);
const pipeline_t *job_pipeline (const job_t *self);
uint64_t job_epoch_samples (const job_t *self);
//  Of a job over several nodes, that has just joined: the samples of this node's part that it has not given
//  yet, as far as known; and the batches of its first epoch, those sent before included.
uint64_t job_part_samples (const job_t *self);
uint64_t job_first_batches (const job_t *self);
uint32_t job_nodes (const job_t *self);
//  Unreadable samples that the job's data leave out: {"count": .., "samples": [{"id", "reason"} ..]}, at most
//  ten of them, in the order found; a new reference.
json_t *job_unreadable (const job_t *self);
//  The same in a sentence; malloc'ed.
char *job_unreadable_message (const job_t *self);
const char *job_run (const job_t *self);        //  lent for the job's life
bool job_is_forked (const job_t *self);         //  it asked for a run that another job continues
bool job_is_over (const job_t *self);           //  broker_gone was called or it ended by itself
//  All jobs that are not over.
void broker_each_job (broker_t *self, void (*visit) (void *context, job_t *job), void *context);
//  How many jobs there are now, and how many have joined since the start.
uint64_t broker_jobs (const broker_t *self);
uint64_t broker_jobs_total (const broker_t *self);
//  NULL: no such job, or it is over.
job_t *broker_job (broker_t *self, uint64_t id);
//  The same by job name, which is unique within a tenant (NULL: the first one); an empty name finds no job.
job_t *broker_named (const broker_t *self, const tenant_t *tenant, const char *name);

//  The object of `tureen status`; a new reference.  tenant: only what this tenant may know; NULL: everything.
json_t *broker_status (broker_t *self, const tenant_t *tenant, int64_t now_ms);

//  A sample that was found bad and has a name (a data set that drops bad samples names the first 100).  Each
//  is reported once; false: no further one.  reason is lent until the broker ends.
bool broker_next_bad (broker_t *self, dataset_t **dataset_p, uint32_t *id_p, const char **reason_p);

//  Reads of a data set have failed for a while, or succeed again.  Each change is reported once; false:
//  nothing new.
typedef struct {
    dataset_t *dataset;
    bool is_over;
    bool is_still;                  //  the storage is at fault, so reads of the data set pause
    const char *reason;             //  of the last failure; lent until the next event
    int64_t lasted_ms;              //  from the first failure to the last one
    int64_t patience_ms;
} broker_trouble_t;
bool broker_next_trouble (broker_t *self, broker_trouble_t *trouble);

void broker_check (broker_t *self);

#endif

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
 *    B2  every place of a batch not yet sent is waiting for a version, being copied, filled, or lost with its
 *        rank.
 *    B3  a version is pinned once for each place that waits for it or is copied from it, and once while a
 *        worker has it.
 *    B4  what the version index promises of versions and their counts (version_index_check).
 *    B5  tasks and reads handed out never exceed their limits, memory never its budget.
 *    B6  a version of a pack's sample has hold of its bytes while it waits for them or for a worker, or a
 *        worker has it; and what is resident in a tier is held for it (raw_store_check, raw_pool_check).
 *    B7  no two jobs of one tenant that are not over have one run, or one job name.
 *    B8  a step is sent to all ranks of its job or to none; while a rank is missing or lacks a step, nothing
 *        is sent to the others.
 *    B9  where there are several tenants, none has more than it may have (broker_tenant_t), and figures and
 *        texts that are for one depend on nothing of another (docs/security.md says what time can tell).
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
typedef struct tenant tenant_t;   //  users that share rights and limits; every job belongs to one
typedef struct job job_t;
typedef struct place place_t;
typedef struct rank rank_t;     //  one of a job's clients; most jobs have one, of number 0

enum {
    BROKER_DATASETS_MAX = 64,
    BROKER_WINDOW_MAX = 1 << 20,    //  samples in all slots of a job
    BROKER_ATTACH_MS = 10000,       //  a job must take its ring or ask for inline within this
    BROKER_LEASE_MS = 90000,        //  an inline job that is silent for so long has left
    BROKER_PATIENCE_MS = 300000,    //  reads that fail, and may not fail again, are made again for so long
    BROKER_GATHER_MS = 200,         //  jobs that join an idle group within this begin together
    BROKER_RANK_DESCRIPTORS = 3     //  of a rank: its ring, the door's connection, ZeroMQ's
};

typedef struct {
    size_t cache_bytes;
    size_t raw_bytes;               //  for compressed samples of packs; may be 0 if there are none
    uint32_t workers;
    size_t jobs_bytes_max;          //  all jobs' slots and bookkeeping together
    size_t descriptors_max;         //  for connections of ranks, BROKER_RANK_DESCRIPTORS each; 0: not counted
    sampler_policy_t policy;
    uint64_t seed;                  //  fresh at each start; a simulation's is fixed
    uint32_t gather_ms;             //  BROKER_GATHER_MS
    uint32_t patience_ms;           //  0: BROKER_PATIENCE_MS
} broker_options_t;

//  Tasks (PREPARE and COPY) that are handed out at once, at most; and reads.
size_t broker_tasks_max (const broker_t *self);
size_t broker_reads_max (const broker_t *self);
//  What a version of this size costs of the cache's budget: its size, but not less than its bookkeeping.
size_t broker_version_cost (size_t version_bytes);
//  Of the memory that a server is given for compressed samples (--raw), one part in so many is for ranges on
//  their way from the disk, the rest is raw_bytes; and back: the setting for so many raw_bytes.
enum { BROKER_RAW_PARTS = 8 };
size_t broker_raw_setting (size_t raw_bytes);
//  The least cache_bytes with which versions of this size can be prepared.
size_t broker_cache_least (uint32_t workers, size_t version_bytes);

broker_t *broker_new (const broker_options_t *options);
//  Every job must be reclaimed.
void broker_destroy (broker_t **self_p);

//  What becomes of a job whose data hold a sample that cannot be read.
typedef enum {
    BROKER_BAD_DROP,                //  it leaves the job's data, and the job is told (NOTICE `unreadable`)
    BROKER_BAD_FAIL                 //  the job ends, and none joins with it
} broker_bad_t;

//  Serves sample_count samples under a name (copied).  on_bad: of jobs that do not say it themselves.  user
//  is the driver's, untouched.
dataset_t *broker_add_dataset (broker_t *self, const char *name, uint32_t sample_count, broker_bad_t on_bad,
    void *user);
//  What the broker must know of a data set that is a pack, to decide what is read when; all lent for its
//  life.
typedef struct {
    const uint32_t *order;          //  the id at each position
    const uint32_t *breaks;         //  positions at which a read must begin anew: volumes' first
    size_t break_count;
    size_t (*sample_bytes) (void *user, uint32_t id);
    //  Samples that are read together, as the cost model says now, where pool_samples fit in memory; 1 ..
    //  RAW_PIECE_MAX.
    uint32_t (*piece) (void *user, uint64_t pool_samples);
    //  Whether so many samples, of sample_bytes together, should rather be read one by one than in a range of
    //  range_bytes;
    //  NULL: never.
    bool (*prefers_singles) (void *user, uint32_t samples, size_t sample_bytes, size_t range_bytes);
    void *user;
    raw_policy_t policy;
    uint32_t chunk;                 //  samples
    size_t read_bytes_max;          //  of one read, if it is of several samples
} broker_pack_t;

//  The data set, of which nothing is known yet, is a pack.  False: options.raw_bytes is too small for it,
//  below *least_p.
bool broker_set_pack (broker_t *self, dataset_t *dataset, const broker_pack_t *pack, size_t *least_p);
//  NULL: no such name, or not for this tenant (NULL: any), which cannot tell the two apart.
dataset_t *broker_dataset (broker_t *self, const tenant_t *tenant, const char *name);
//  "train, val": those that it may use, for error messages; malloc'ed, the caller's.
char *broker_dataset_names (const broker_t *self, const tenant_t *tenant);
void *dataset_user (const dataset_t *self);
uint32_t dataset_samples (const dataset_t *self);
const char *dataset_name (const dataset_t *self);
//  The shared stages (pipeline_shared_text) of the tenant's jobs on the data set that a job of this order
//  could share versions with: each once, at most texts_max of them.  Lent until the next join or end of a
//  job.  Returns how many.
size_t broker_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max);

enum { BROKER_TENANTS_MAX = 64, BROKER_WEIGHT_MAX = 1000 };
//  Of users whose identity is not known (an open tcp endpoint): all are one.
#define BROKER_USER_UNKNOWN UINT64_MAX

typedef struct {
    const char *name;               //  copied
    uint32_t weight;                //  1 .. BROKER_WEIGHT_MAX: its part of workers' time and of the cache
                                    //  when they are short
    uint32_t jobs_max;              //  those whose ranks still gather too; 0: its share by weight of
                                    //  SAMPLER_JOBS_MAX
    size_t batches_bytes_max;       //  of its jobs' batches and bookkeeping; 0: its share by weight of
                                    //  jobs_bytes_max
    size_t cache_bytes_max;         //  0: as much as others leave
} broker_tenant_t;
//  Further limits follow from the weight: jobs on one data set, connections, compressed samples of jobs that
//  have memory of their own for them (a pool, order `private`), and the cache that one pipeline may need at
//  least.  A share, unlike a limit that is set, is never more than what others' leave.

//  The broker has one tenant from birth, "operator", which may use all data sets; as long as there is no
//  other, it has no limits but the server's.  Before any job; the data sets of a further one are what
//  broker_allow says.
tenant_t *broker_add_tenant (broker_t *self, const broker_tenant_t *tenant);
void broker_allow (broker_t *self, tenant_t *tenant, const dataset_t *dataset);
//  Of one that is there, the first one say: before any job.  The name stays.
void broker_limit (broker_t *self, tenant_t *tenant, const broker_tenant_t *limits);
//  By its name; NULL: the first one.  NULL: no such tenant.
tenant_t *broker_tenant (broker_t *self, const char *name);
const char *tenant_name (const tenant_t *self);
uint32_t tenant_number (const tenant_t *self);          //  in the order in which they were added, from 0, the
                                                        //  operator's
size_t broker_tenants (const broker_t *self);           //  how many there are; 1: only the first
tenant_t *broker_tenant_of (broker_t *self, uint32_t number);
bool tenant_may_use (const tenant_t *self, const dataset_t *dataset);   //  tenant NULL: anyone
//  The tenant's part of something that is divided by weight: at least 1; all tenants' together are no more
//  than the whole, if that is not less than their number.
uint64_t broker_share (const broker_t *self, const tenant_t *tenant, uint64_t whole);

//  What the tenant has beside its jobs: how many whose ranks still gather; and bytes of those, of batches
//  that are on their way out as messages, of whatever job, and of rings that clients of ended jobs still
//  have.  They count in the budget of jobs, because a peer that reads nothing and leaves must not make them
//  pile up.
void broker_outside (broker_t *self, tenant_t *tenant, size_t jobs, size_t bytes);

//  What a client asks for, already parsed; of a job with ranks: what all of them ask for.
typedef struct {
    tenant_t *tenant;               //  whose job it is; NULL: the first one's
    dataset_t *dataset;
    const pipeline_t *pipeline;     //  held by the job, not taken
    uint32_t world_size;            //  1 .. WIRE_RANKS_MAX
    uint32_t batch_size;            //  of each rank
    uint32_t slots;
    uint64_t epochs;                //  0: until it leaves
    bool drop_last;
    bool on_bad_given;              //  else the data set's counts
    broker_bad_t on_bad;
    sampler_order_t order;
    const roaring_bitmap_t *subset; //  NULL: all the data
    const uint32_t *list;           //  LIST only; NULL: ascending
    size_t list_count;
    sampler_list_t *list_made;      //  the same, made already: the job holds it; NULL: the ids are copied
    bool order_is_of_seed;          //  SEEDED only because a seed was given, and no order
    uint64_t seed;
    bool seed_given;            //  by the client
    uint32_t pool;                  //  SEEDED over a pack only: stream_order's; 0: none
    const char *name;
    size_t slot_bytes;              //  of one rank; for the budget of jobs
    const char *data;               //  data_digest.h: stands for the data; copied
    //  Where it goes on (docs/protocol.md, Going on); all zero: at the beginning.
    uint64_t epoch;                 //  below epochs
    uint64_t epoch_batches;         //  of that epoch, sent by the job before
    const roaring_bitmap_t *taken;  //  of its samples; NULL: none
    size_t taken_places;            //  LIST with ids: of its places
    //  With ranks, where each of them stands, none further than the job goes on; what they lack is in recent,
    //  which ends there.  NULL: all stand where the job goes on.
    const broker_position_t *positions;
    const broker_record_t *recent;
    size_t recent_count;
    uint32_t rank_wait_seconds;     //  that a lost rank is waited for
    //  Who it is (docs/protocol.md, Who is who); each NULL: not said.
    const char *run, *job_name;
    const char *instances [WIRE_RANKS_MAX];     //  of each rank
    const char *fresh_run;          //  a run that no job has had, should this one need it; never NULL
    uint64_t user;                  //  of the tenant's users: a number for each, or BROKER_USER_UNKNOWN
} broker_join_t;

//  Whether broker_join would take the job now, as far as the broker can know; nothing changes.  False:
//  refusal says why.
//  A join of ranks without positions may be one rank's: that nothing is left for it (epoch equals epochs) is
//  then no reason.
bool broker_allows (broker_t *self, const broker_join_t *join, int64_t now_ms, refusal_t *refusal);

//  A new job, each of whose ranks waits for broker_attached or broker_inline; or NULL and refusal says why.
//  The driver then names what it knows of the ranks' clients by rank_set_user.  An earlier job of the same
//  run ends (`fenced`) before, if this one is taken at all.
job_t *broker_join (broker_t *self, const broker_join_t *join, int64_t now_ms, refusal_t *refusal);
//  Whether two ranks ask for the same, and say the same of what was taken where they stand at the same step;
//  other positions, recent, instances, name, the waits and what only one of them says do not matter.  False:
//  refusal (`ranks_differ`) says what differs.
bool broker_agree (const broker_join_t *one, uint32_t rank, const broker_join_t *other, uint32_t other_rank,
    refusal_t *refusal);

//  Whether the rank of a job that is there comes back (docs/protocol.md, Losing one).
typedef enum {
    BROKER_RETURN_NONE,             //  there is no such job, or it is no return: the rank gathers with others
    BROKER_RETURN_READY,            //  *job_p, for broker_return
    BROKER_RETURN_REFUSED           //  refusal says why: the name is another's, the rank is there, it asks
                                    //  for something else ..
} broker_return_t;
//  join is what the rank asks for: instances [rank] its own, epoch and epoch_batches where it stands.
//  Nothing changes.
broker_return_t broker_returns (broker_t *self, const broker_join_t *join, uint32_t rank, int64_t now_ms,
    job_t **job_p, refusal_t *refusal);
//  After BROKER_RETURN_READY, in the same turn: the rank waits for broker_attached or broker_inline, as after
//  a join, and then gets what it lacks.  What was known of its client before has been reclaimed
//  (ACTION_RECLAIM_RANK): else it is refused as `busy`.
//  NULL: refused.
rank_t *broker_return (broker_t *self, job_t *job, uint32_t rank, const broker_join_t *join, int64_t now_ms,
    refusal_t *refusal);

//  The client has its ring, or asks for batches as frames.  Batches begin when all of the job's ranks have.
void broker_attached (broker_t *self, rank_t *rank, int64_t now_ms);
void broker_inline (broker_t *self, rank_t *rank, int64_t now_ms);
//  False: impossible numbers, nothing changed, refusal says why.
bool broker_progress (broker_t *self, rank_t *rank, const wire_progress_t *progress, int64_t now_ms,
    refusal_t *refusal);
//  A sign of life from an inline rank.
void broker_heartbeat (broker_t *self, rank_t *rank, int64_t now_ms);
//  The client has left, or died: nothing is sent to it any more.  A job of one rank is gone; of more, see
//  docs/protocol.md.
//  ACTION_RECLAIM_RANK follows when no worker writes for it, if the job goes on without it.  Idempotent.
void broker_left (broker_t *self, rank_t *rank);
void broker_lost (broker_t *self, rank_t *rank, int64_t now_ms);
//  The job is thrown out with all its ranks: nothing of it is sent any more.  ACTION_RECLAIM follows when no
//  worker writes for it.  Idempotent.
void broker_gone (broker_t *self, job_t *job);
//  From now on no epoch is begun.  A job ends (`stopping`) as soon as the epoch of which it has been sent
//  something has been sent whole, and at once if it has been sent nothing of one; of a last epoch, as soon as
//  all was taken.  No more jobs may join; ranks may come back to theirs.  For good, and idempotent.
void broker_drain (broker_t *self);
bool broker_is_draining (const broker_t *self);
//  Ends a job for a reason of the server's: SEND_ENDED to each rank that is there, then as broker_gone.
//  reason is static; message is copied.
void broker_end (broker_t *self, job_t *job, const char *reason, const char *message);
//  After ACTION_RECLAIM_RANK: the rank has no user any more, and may come back.
void broker_reclaim_rank (broker_t *self, rank_t *rank);
//  After ACTION_RECLAIM: frees the job with its ranks.
void broker_reclaim (broker_t *self, job_t *job);

//  What became of a version.
typedef enum {
    OUTCOME_READY,
    OUTCOME_BAD,                //  the sample cannot be read: the data set is at fault, and on_bad says what
                                //  follows
    OUTCOME_UNSUITABLE          //  the sample is whole, but not what the version's shared stage declares or
                                //  can do: the jobs of that stage whose data hold it end, and nobody else
                                //  notices
} outcome_t;

//  Of plain files: what ACTION_PREPARE said has been read, and is prepared now.  For the accounts of what
//  jobs wait for alone.
void broker_fetched (broker_t *self, version_t *version);
//  Or they could not be read: -errno, and why, with the file's name.  What ACTION_PREPARE said is undone: it
//  comes again, or the sample is bad (server/broker/draw/patience.h).  Not for want of memory or descriptors:
//  that is the driver's to wait for.
void broker_unread (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms);
//  So many samples of the folder are worth reading at once, from now on.  Where there is one tenant, as many
//  are read, but at most BROKER_FETCHES_MAX, and at least what keeps the workers busy; where there are
//  several, just that.
enum { BROKER_FETCHES_MAX = 160 };
void broker_set_fetches (broker_t *self, dataset_t *dataset, size_t most);
//  A worker is done with what ACTION_PREPARE said.  reason: why it is not ready, with the file's name; else
//  not looked at.
void broker_prepared (broker_t *self, version_t *version, outcome_t outcome, const char *reason);
//  Before broker_prepared, broker_copied: processor time of the worker that it took, for the tenants' shares;
//  not said: what it was thought to take.
void broker_prepare_took (broker_t *self, version_t *version, uint64_t worker_ns);
void broker_copy_took (broker_t *self, place_t *place, uint64_t worker_ns);
//  Something else that a worker is to do for a tenant: when it is its turn, ACTION_SIDE_TASK, and
//  broker_side_task_took when it is done (charged_us: the action's); or broker_side_task_gives_up before, if
//  the driver ends.
void broker_side_task_waits (broker_t *self, tenant_t *tenant);
void broker_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us, uint64_t worker_ns);
void broker_side_task_gives_up (broker_t *self, tenant_t *tenant);
//  Workers' time that the tenant was charged, its part of what served several; and places of its jobs that
//  wait for a worker.
uint64_t broker_worker_ns (const broker_t *self, const tenant_t *tenant);
size_t tenant_waiting (const tenant_t *self);
//  A read is done: what ACTION_READ said, with its answer filled in, and that is final.
void broker_read (broker_t *self, raw_request_t *request);
//  It failed: -errno, and why, with the volume's name.  As broker_unread.
void broker_unread_range (broker_t *self, raw_request_t *request, int rc, const char *reason, int64_t now_ms);
//  A worker is done with what ACTION_COPY said.
void broker_copied (broker_t *self, place_t *place);

//  Draws what jobs need, hands out work that may be handed out, ends jobs whose time is over.
void broker_advance (broker_t *self, int64_t now_ms);
//  When broker_advance wants to be called again without an event, deadlines included; INT64_MAX: never.
int64_t broker_wakeup (const broker_t *self);

typedef enum {
    ACTION_READ,                //  request: read the range of its data set's pack into the memory of its
                                //  samples
    ACTION_PREPARE,             //  version: take its sample's bytes (version_raw) or read its files, run the
                                //  class's shared stage into memory
    ACTION_COPY,                //  place: run the job's private stage from the version into place_slot,
                                //  place_index
    ACTION_SIDE_TASK,              //  tenant, charged_us: let a worker do what waits longest of what
                                   //  broker_side_task_waits was told of
    ACTION_SEND_BATCH,          //  rank: BATCH as it is in batch, and step.  A batch of WIRE_SLOT_NONE goes
                                //  inline, whatever the rank's transport
    ACTION_SEND_EPOCH_END,      //  rank, epoch_end
    ACTION_SEND_ENDED,          //  rank, reason, message; then the driver is as after broker_gone
    ACTION_SEND_NOTICE,         //  rank, reason (the notice's kind), message; message NULL (`unreadable`):
                                //  what job_unreadable and job_unreadable_message say when it is carried out
    ACTION_RECLAIM_RANK,           //  rank: free its ring, then broker_reclaim_rank
    ACTION_RECLAIM                 //  job: free what its ranks' users have, then broker_reclaim
} action_kind_t;

typedef struct {
    action_kind_t kind;
    job_t *job;                 //  the rank's, or RECLAIM's
    rank_t *rank;               //  COPY: the place's
    version_t *version;
    place_t *place;
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

//  What a task needs to know; all of it stays as it is until the task is back.
dataset_t *version_dataset (const broker_t *self, const version_t *version);
//  The sample's compressed bytes, READY or BAD; NULL: the data set is no pack.
const raw_sample_t *version_raw (const version_t *version);
dataset_t *request_dataset (const broker_t *self, const raw_request_t *request);
const pipeline_t *version_pipeline (const broker_t *self, const version_t *version);
pipeline_key_t version_key (const broker_t *self, const version_t *version);
job_t *place_job (const place_t *self);
rank_t *place_rank (const place_t *self);
uint32_t place_slot (const place_t *self);      //  WIRE_SLOT_NONE: of a batch that is in no slot; each rank
                                                //  has one at a time
uint32_t place_index (const place_t *self);     //  row in the rank's batch
uint32_t place_id (const place_t *self);
const version_t *place_version (const place_t *self);
pipeline_key_t place_key (const place_t *self);

void *rank_user (const rank_t *self);           //  NULL until it is set, and after broker_reclaim_rank
void rank_set_user (rank_t *self, void *user, bool is_inline);
job_t *rank_job (const rank_t *self);
uint32_t rank_number (const rank_t *self);
bool rank_is_inline (const rank_t *self);
bool rank_is_there (const rank_t *self);        //  it may be sent to: it has neither left nor been lost, its
                                                //  job is not over
//  The rows of a batch that ACTION_SEND_BATCH named: the row in the slot of each sample (ascending: rows of
//  unreadable samples are missing) and its id.  At most batch_size; returns how many.
uint32_t rank_batch_rows (const rank_t *self, uint32_t slot, uint32_t *rows, uint64_t *ids);
//  All ranks that are there, for heartbeats: calls visit for each.
void broker_each_rank (broker_t *self, void (*visit) (void *context, rank_t *rank), void *context);

uint64_t job_id (const job_t *self);
uint32_t job_world_size (const job_t *self);
rank_t *job_rank (job_t *self, uint32_t number);        //  number below the world size
uint64_t job_seed (const job_t *self);
dataset_t *job_dataset (const job_t *self);
tenant_t *job_tenant (const job_t *self);
const pipeline_t *job_pipeline (const job_t *self);
uint64_t job_epoch_samples (const job_t *self);
//  Samples of the job's data that are left out because they cannot be read: {"count": .., "samples": [{"id",
//  "reason"} ..]}, at most ten of them, as found; a new reference.
json_t *job_unreadable (const job_t *self);
//  The same in a sentence; malloc'ed.
char *job_unreadable_message (const job_t *self);
const char *job_run (const job_t *self);        //  lent for the job's life
bool job_is_forked (const job_t *self);         //  it asked for a run that another job goes on with
bool job_is_over (const job_t *self);           //  broker_gone was called or it ended by itself
//  All jobs that are not over.
void broker_each_job (broker_t *self, void (*visit) (void *context, job_t *job), void *context);
//  How many there are, and how many have joined since the start.
uint64_t broker_jobs (const broker_t *self);
uint64_t broker_jobs_total (const broker_t *self);
//  NULL: no such job, or it is over.
job_t *broker_job (broker_t *self, uint64_t id);
//  The same by its job name, which is one within its tenant (NULL: the first one); names that are not said
//  are nobody's.
job_t *broker_named (const broker_t *self, const tenant_t *tenant, const char *name);

//  The object of `tureen status`; a new reference.  tenant: what this one may know; NULL: everything.
json_t *broker_status (broker_t *self, const tenant_t *tenant, int64_t now_ms);

//  A sample that was found bad and has a name (of a data set that drops them the first 100 have), each told
//  once; false: no further one.  reason is lent until the broker ends.
bool broker_next_bad (broker_t *self, dataset_t **dataset_p, uint32_t *id_p, const char **reason_p);

//  Reads of a data set fail, for a while now, or do so no more; each turn told once; false: nothing new.
typedef struct {
    dataset_t *dataset;
    bool is_over;
    bool is_still;                  //  nothing of it can be read, so the data set stands still
    const char *reason;             //  of the last failure; lent until the next event
    int64_t lasted_ms;              //  from the first failure to the last one
    int64_t patience_ms;
} broker_trouble_t;
bool broker_next_trouble (broker_t *self, broker_trouble_t *trouble);

void broker_check (broker_t *self);

#endif

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
 *  which may have to be prepared first (dispatch/dispatch.c).  A worker copies a ready version to its row.  A
 *  batch is sent when all its rows are filled, in drawn order (send/steps.c).
 *
 *  A turn, broker_advance, runs its phases in one direction: jobs that drain and ranks that are overdue
 *  (life), reads that failed (fetch), draws (draw), tasks and reads handed out (dispatch).  Between them jobs
 *  that have ended are swept, and complete steps are sent (send).  Each folder sees only those before it in
 *  model, fetch, dispatch, draw, send, life, report.  A phase leaves a mark (model/job.h) for a later one,
 *  and calls none.
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
 *    B10 no job is on a removed data set, and nothing refers to the number of one that is gone.
 *  Owner: one thread, in `tureen serve` that of the event loop (run/loop.h).  dataset_*, job_*, rank_*,
 *  tenant_* and explain_* are parts of the broker, and no other thread calls them.
 *  Start-up and bookkeeping allocations abort when there is no memory; sizes that a client chooses are
 *  refused with a figure.
 */
#ifndef BROKER_H
#define BROKER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "fairness.h"
#include "pipeline.h"
#include "random.h"
#include "raw_store.h"
#include "request.h"
#include "sampler.h"
#include "sharing.h"
#include "version_index.h"

typedef struct broker broker_t;
typedef struct dataset dataset_t;
typedef struct tenant tenant_t;     //  users that share rights and limits; every job belongs to one
typedef struct job job_t;
typedef struct batch_row batch_row_t;
typedef struct rank rank_t;     //  one of a job's clients; most jobs have one, of number 0
typedef struct class class_t;       //  of versions (version.h)
typedef struct action action_t;
typedef struct broker_terms broker_terms_t;     //  what a client asks for (job.h)

enum {
    BROKER_DATASETS_MAX = 64,
    BROKER_WINDOW_MAX = 1 << 20,    //  samples in all slots of a job
    BROKER_ATTACH_MS = 10000,       //  a job must take its ring or ask for inline within this
    BROKER_LEASE_MS = 90000,        //  an inline job that is silent for so long counts as gone
    BROKER_PATIENCE_MS = 300000,    //  failed reads that may succeed later are retried for so long
    BROKER_GATHER_MS = 200,         //  jobs that join an idle group within this time begin together
    BROKER_RANK_DESCRIPTORS = 3,    //  of a rank: its ring, its connections to the ring server and to ZeroMQ
    BROKER_TENANTS_MAX = 64,
    BROKER_WEIGHT_MAX = 1000
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

broker_t *broker_new (const broker_options_t *options);
//  Every job must be reclaimed.
void broker_destroy (broker_t **self_p);

//  Whether broker_join would take the job now, as far as the broker can know; nothing changes.  False:
//  refusal holds the reason.  A join of ranks without positions may come from one rank; it is not refused
//  because nothing is left for it (epoch equals epochs).
bool broker_allows (broker_t *self, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal);

//  Makes a new job; each of its ranks waits for broker_attached or broker_inline.  NULL: refusal holds the
//  reason.  The driver then attaches its own data to each rank by rank_set_user.  If the job is accepted, an
//  earlier job of the same run ends first (`fenced`).
job_t *broker_join (broker_t *self, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal);
//  Whether two ranks ask for the same job and, at the same step, report the same samples as taken.  Different
//  positions, recent, instances, name, the waits and what only one of them gives do not matter.  False:
//  refusal (`ranks_differ`) says what differs.
bool broker_agree (const broker_terms_t *one, uint32_t rank, const broker_terms_t *other, uint32_t other_rank,
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
broker_return_t broker_returns (broker_t *self, const broker_terms_t *join, uint32_t rank, int64_t now_ms,
    job_t **job_p, refusal_t *refusal);
//  After BROKER_RETURN_READY, in the same turn: the rank waits for broker_attached or broker_inline, as after
//  a join, and then gets the steps that it lacks.  Refused as `busy` until its earlier client has been
//  reclaimed (ACTION_RECLAIM_RANK).  NULL: refused.
rank_t *broker_return (broker_t *self, job_t *job, uint32_t rank, const broker_terms_t *join, int64_t now_ms,
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
    OUTCOME_ABANDONED           //  version_abandon has said that it may be left
} outcome_t;

//  Plain files: the read that ACTION_PREPARE asked for is done, and preparing begins.  Only the statistics of
//  what jobs wait for use it.
void broker_fetched (broker_t *self, version_t *version);
//  Or they could not be read: -errno, and the reason with the file's name.  ACTION_PREPARE is undone: it is
//  issued again, or the sample is bad (server/broker/fetch/patience.h).  Not for lack of memory or
//  descriptors: then the driver waits.
void broker_unread (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms);
//  A worker has finished ACTION_PREPARE.  reason: why the version is not ready, with the file's name;
//  otherwise ignored.
void broker_prepared (broker_t *self, version_t *version, outcome_t outcome, const char *reason);
//  Before broker_prepared or broker_copied: the worker's processor time for the task, for the tenants'
//  shares.  Without this call the estimate counts.
void broker_prepare_took (broker_t *self, version_t *version, uint64_t worker_ns);
void broker_copy_took (broker_t *self, batch_row_t *row, uint64_t worker_ns);
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

//  What is to be done outside of the broker, in order.
typedef enum {
    ACTION_READ,                //  request: read the range of its data set's pack into the memory of its
                                //  samples
    ACTION_PREPARE,             //  version: take its sample's bytes (version_raw) or read its files, run the
                                //  class's shared stage into memory
    ACTION_FETCH_AHEAD,         //  dataset, id, fields: read these files of the sample, so that the local
                                //  disk has them; no job waits
    ACTION_COPY,                //  row: run the job's private stage from the version into row_slot,
                                //  row_index
    ACTION_SIDE_TASK,           //  tenant, charged_us: let a worker do the oldest task announced by
                                //  tenant_side_task_waits
    ACTION_SEND_BATCH,          //  rank: BATCH from batch and step.  A batch of WIRE_SLOT_NONE goes inline,
                                //  whatever the rank's transport
    ACTION_SEND_EPOCH_END,      //  rank, epoch_end
    ACTION_SEND_ENDED,          //  rank, reason, message; after it the rank is as after broker_gone
    ACTION_SEND_NOTICE,         //  rank, reason (the notice's kind), message; message NULL (`unreadable`):
                                //  the driver asks job_unreadable and job_unreadable_message when it sends
    ACTION_RECLAIM_RANK,        //  rank: free its ring, then broker_reclaim_rank
    ACTION_RECLAIM              //  job: free the resources of its ranks' users, then broker_reclaim
} action_kind_t;

struct action {
    action_kind_t kind;
    job_t *job;                 //  the rank's, or RECLAIM's
    rank_t *rank;               //  COPY: the row's
    version_t *version;
    batch_row_t *row;
    raw_request_t *request;
    dataset_t *dataset;         //  FETCH_AHEAD
    uint32_t id, fields;        //  FETCH_AHEAD; a bit for each field
    tenant_t *tenant;           //  SIDE_TASK
    uint32_t charged_us;        //  SIDE_TASK
    wire_batch_t batch;         //  SEND_BATCH
    const uint64_t *step;       //  SEND_BATCH of a job with ranks: step_words numbers, as on the wire; else
                                //  NULL.  Lent until the
    size_t step_words;          //  action is carried out
    wire_epoch_end_t epoch_end;
    const char *reason;         //  SEND_ENDED, SEND_NOTICE; static
    const char *message;        //  lives until the job is reclaimed
};

//  The next action, in order; false: none.
bool broker_next (broker_t *self, action_t *action);

//  How many jobs there are now, and how many have joined since the start (total_p may be NULL).
uint64_t broker_jobs (const broker_t *self, uint64_t *total_p);
//  The part of `tureen status` that is about jobs, data sets and caches; a new reference.  tenant: only what
//  this tenant may know; NULL: everything.  A new figure goes into report/broker_status.c, or into
//  service_status if it is the server's own; then into http/metrics.c and docs/operations.md, and into
//  tools/top if people should see it.
json_t *broker_status (broker_t *self, const tenant_t *tenant, int64_t now_ms);

void broker_check (broker_t *self);

//  The members are for server/broker alone.
enum { BROKER_MAGIC = 0x62726f6b };

struct broker {
    uint32_t magic;
    //  set at birth
    broker_options_t options;
    uint32_t lent;                          //  processors of other machines
    size_t prepare_most;                    //  the largest prepare_max so far
    size_t prepare_max, copy_max, read_max; //  tasks handed out at once; prepare and read: for each data set
    size_t turns_most;                      //  all tasks handed out at once, so far (budget_measure)
    //  owner only
    random_t random;
    random_t pauses;                        //  for the pauses before retries, which decide nothing else
    version_index_t *version_index;
    prepared_t *prepared;                   //  the version index's
    size_t version_bytes_max;               //  of all existing classes
    tenant_t *tenants [BROKER_TENANTS_MAX];
    size_t tenant_count;
    uint64_t weights;                       //  of all
    dataset_t *datasets [BROKER_DATASETS_MAX];      //  in the order in which they were added
    size_t dataset_count;
    dataset_t *places [BROKER_DATASETS_MAX];        //  the same, by their numbers; NULL: vacant
    size_t full_datasets;                   //  so many may each have all the tasks and reads in flight that
                                            //  one may have (budget_part)
    bool index_is_due;                      //  dispatch measures the index anew (budget_measure)
    class_t *classes;
    job_t *jobs;
    bool draining;                          //  broker_drain was called
    uint64_t next_job;
    size_t rings_bytes, jobs_bytes;
    size_t outside_bytes;                   //  all tenants'
    fairness_t *fairness;                   //  of workers' time; tenants by their numbers
    bool is_memory_kept;                    //  each tenant's part of it, outside of the index, is free or its
                                            //  own
    double prepare_ns, copy_ns, side_task_ns;  //  running means over all tasks, the estimate for a new job
    size_t side_tasks;                      //  handed out
    size_t preparing, copying, reading;     //  handed out
    size_t custom_out [CUSTOM_MAX];         //  of preparing, those with each operation of the operator's own
    size_t custom_made;                     //  of all these, the files are read
    size_t slow_out;                        //  slow tasks, of preparing and copying
    size_t fetching;                        //  of preparing: plain files are being read
    size_t fetching_most;                   //  of fetching, lately: fetch_ahead
    size_t fetched_now;                     //  samples of plain files handed out in this turn
    size_t fetching_bytes;                  //  memory beside the index for these, if there are several data
                                            //  sets
    uint64_t reading_full;                  //  a bit for each data set that has enough reads under way
    sharing_records_t records;
    int64_t shared_ms;                      //  when sharing was judged last
    raw_store_t *raw;                       //  NULL: no data set is a pack
    size_t tier_count, tier_least;          //  bytes that a tier needs at least
    size_t lookahead_reserved;              //  bytes for jobs with a pool, closed to tiers
    job_t *ending, *last_ending;            //  marked: job_end, job_go
    job_t *deliveries, *last_delivery;      //  marked: job_mark_delivery
    action_t *actions;                      //  a ring
    size_t action_first, action_count, action_room;
    int64_t started_ms, wakeup_ms;
    //  counters
    uint64_t prepared_count, delivered_count, bad_count, jobs_total, read_failures;
};

//  Makes broker_wakeup at_ms at the latest.
void broker_wake (broker_t *self, int64_t at_ms);
//  Adds an action, which the caller fills in.
action_t *broker_add_action (broker_t *self, action_kind_t kind, job_t *job);

#endif

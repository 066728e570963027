/*  broker_state -- the broker's structures, for the files that make it up: broker.c (events), broker_jobs.c (joining,
 *  ending), broker_identity.c (who is who), broker_ranks.c (a job's clients: coming, lost, back, leaving), broker_replay.c
 *  (the last steps of jobs with ranks, and what a rank lacks of them), supply.c, raw_prefetch_share.c, holding.c and ahead.c (compressed samples
 *  of packs),
 *  broker_bad.c (samples that cannot be prepared), patience.c (reads that fail, and may not fail again), draw.c (rounds, epochs, places), draw_send.c (sending, padding),
 *  schedule.c (classes, queues of places), dispatch.c (handing out work), broker_tenants.c and broker_limits.c (who may have what), broker_status.c.  Nobody else
 *  includes this.
 *
 *  A job has one rank or several.  What is called a batch here is a *step*: of all ranks together, in one slot number of each
 *  rank's ring.  Of a job with one rank both are the same.
 *
 *  A place's way:
 *
 *        draw             version ready       handed out            worker done
 *      EMPTY -> WAITING -------------> READY ------------> COPYING -------------> FILLED
 *        ^         | unreadable                                                      |
 *        +---------+ (then drawn again, or HOLE when the epoch has nothing left)      | batch released
 *        +---------------------------------------------------------------------------+
 *
 *  The rank of a place may be lost before the step is sent: then it is LOST, and WAITING again, for the same sample, when the
 *  rank is back.  Two kinds of places are in no step's window: a rank's *padding*, and those that it is given *again*.
 */
#ifndef BROKER_STATE_H
#define BROKER_STATE_H
#include "broker.h"
#include "fairness.h"
#include "patience.h"
#include "random.h"
#include "sharing.h"
#include "version_index.h"
#include "tier.h"
#include "waits.h"

typedef struct ahead lookahead_t;

typedef enum {
    PLACE_EMPTY,
    PLACE_WAITING,              //  in its version's waiting list, and until that is handed out in the job's queue
    PLACE_READY,                //  in the job's queue of copies
    PLACE_COPYING,              //  a worker has it
    PLACE_FILLED,
    PLACE_HOLE,                 //  its sample could not be read, and there was no other
    PLACE_LOST                  //  its rank is not there, and neither is what was written for it
} place_state_t;

//  One row of one slot.
struct place {
    job_t *job;
    version_t *version;         //  pinned while WAITING, READY, COPYING; else NULL
    place_t *previous, *next;   //  in the job's queue: wanted or ready
    place_t *next_waiting, *previous_waiting;   //  for the same version, while WAITING
    uint64_t epoch;
    uint32_t id;
    uint32_t occurrence;
    uint32_t slot, index;       //  in the step
    uint32_t rank, row;         //  whose it is, and where in the rank's batch; set when it is taken
    place_state_t state;
    uint32_t charged_us;        //  COPYING: what it is thought to take of a worker
    //  of the version that it got last: kept until the next one, for EXPLAIN
    uint32_t draw;
    uint32_t record;            //  sharing.h
    bool is_reused;             //  that version was there: for a job of its tenant
    uint16_t tenant_jobs;       //  of its tenant that the version had served then; 0: there is one tenant only, and record says it
    bool is_hole;               //  the batch, when it went, lacked this row
};

typedef struct {
    place_t *first, *last;
} place_list_t;

typedef enum {
    SLOT_FREE,
    SLOT_FILLING,               //  draws go here
    SLOT_FULL,                  //  all drawn; sent when every place is filled and its turn has come
    SLOT_SENT
} slot_state_t;

//  One batch in its slot; of a job with ranks, one step.
typedef struct {
    slot_state_t state;
    uint64_t epoch;
    uint32_t planned;           //  samples that it would have, as was known when it was opened
    uint32_t drawn;             //  places in use, from 0 on
    uint32_t open;              //  of them: neither filled nor a hole
    uint32_t holes;
    bool ends_epoch;
    uint64_t index;             //  of its epoch, on the wire; set when sent
    place_t *places;            //  batch_size of them
    //  what was in the slot before it was released, for as long as it is free
    struct { uint64_t epoch, index; uint32_t drawn; } past;
} batch_t;

//  One of the last things that all ranks of a job were sent: a step, or an epoch's end.
typedef struct {
    broker_position_t before;   //  where a client stands that lacks it
    uint64_t samples;           //  of the step; of an end: the epoch's
    uint64_t *step;             //  world_size counts, then the ids, rank by rank; NULL: an end
} record_t;

//  Of a job with ranks; of others all zero.
typedef struct {
    record_t *records;          //  a ring, by number
    uint32_t room;
    uint64_t first, next;       //  numbers
    uint64_t *step_memory;      //  step_room buffers, also a ring
    uint32_t step_room;
    uint64_t steps;             //  that were ever entered
    broker_position_t position; //  after the last record
} replay_t;

//  What is prepared anew of the step that a rank lacks; nothing while used is 0.
typedef struct {
    place_t *places;            //  rank_batch of them; NULL: the job has one rank
    uint32_t used, open;        //  of them; neither filled nor a hole
    bool is_padding;
    //  rows and ids of what was sent last, until the next one is
    uint32_t *rows, *ids;
    uint32_t told;
} again_t;

typedef enum {
    RANK_ATTACHING,             //  neither ring nor inline yet
    RANK_HERE,
    RANK_LOST,                  //  it may come back, and the job stands still until then
    RANK_LEFT                   //  it has had everything, and is gone
} rank_state_t;

//  One of a job's clients.
struct rank {
    job_t *job;
    uint32_t number;
    void *user;
    char instance [WIRE_RUN_BYTES + 1];     //  empty: not said
    rank_state_t state;
    bool is_inline;
    bool left_itself;           //  LEFT: it said so, so it does not come back
    bool reclaiming, reclaimed;       //  not there: ACTION_RECLAIM_RANK was given out, and has been carried out
    int64_t joined_ms, alive_ms;
    bool is_awaited;            //  not there, and may come back:
    int64_t lost_ms, due_ms;    //  LOST: since when; until when it is waited for, though nobody else be there
    uint32_t copying;           //  places of it that a worker has
    //  what was sent to this client and heard of it
    uint64_t sent;              //  batches; the next sequence
    wire_progress_t progress;
    uint64_t held;              //  a bit for each slot: sent, and not released
    uint64_t in_hand;           //  of these: the user's loop has been given them
    uint64_t sequence [WIRE_SLOTS_MAX];     //  of what it holds
    uint32_t rows [WIRE_SLOTS_MAX];         //  samples of that, padding not counted
    uint64_t padded;            //  a bit for each slot: what was sent in it last is padding,
    uint32_t padding_ids [WIRE_SLOTS_MAX];  //  this sample
    place_t padding;            //  of the step that is to be sent next, if the rank has nothing in it
    uint64_t lacks;             //  record that it is sent next; the job's next: none, it is level
    again_t again;
    char *notice;               //  that it was lost
};

typedef enum {
    JOB_ATTACHING,              //  not all ranks have taken their ring or asked for inline
    JOB_RUNNING,
    JOB_DRAWN,                  //  the last epoch is drawn; it stays until it leaves
    JOB_ENDING,                 //  marked: it draws and is sent nothing more, and is swept when the present phase is over
    JOB_OVER                    //  swept; reclaimed when no worker writes for it
} job_state_t;

typedef struct {
    int64_t at_ms;
    uint64_t samples;
} rate_mark_t;

enum { RATE_MARKS = 11 };       //  one a second: a rate over ten seconds

enum { BROKER_MAGIC = 0x62726f6b, JOB_MAGIC = 0x6a6f6220 };

struct job {
    uint32_t magic;
    broker_t *broker;
    job_t *next;
    job_t *next_of_tenant;      //  the same, of its tenant's
    job_t *next_ending;         //  of those marked to end
    job_t *next_delivery;       //  of those marked for delivery
    //  set at birth
    uint64_t id;
    tenant_t *tenant;
    dataset_t *dataset;
    const pipeline_t *pipeline;
    sampler_order_t order;
    uint64_t seed;
    bool seed_given;
    char data [WIRE_DATA_BYTES + 1];
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t world_size;        //  ranks
    uint32_t rank_batch;        //  samples of each in a full step
    uint32_t batch_size;        //  of a full step
    uint32_t slots;
    uint64_t epochs;
    bool drop_last;
    broker_bad_t on_bad;        //  its own, or its data set's
    size_t ring_bytes;          //  of all ranks
    bool order_is_of_seed;      //  as broker_join_t
    size_t memory_bytes;        //  ring and bookkeeping
    place_t *place_memory;
    uint32_t *occurrences;      //  LIST with ids: how often each id came in this epoch; else NULL
    char run [WIRE_RUN_BYTES + 1];
    char job_name [REQUEST_NAME_BYTES_MAX + 1];     //  empty: not said
    uint64_t user;
    bool is_forked, is_resumed;
    //  its clients
    rank_t *ranks;
    bool held_up;               //  a rank is missing or lacks something: nothing is drawn or sent
    uint32_t rank_wait_seconds;
    replay_t replay;
    //  how it stands
    job_state_t state;
    bool is_drained;            //  drain_mark found nothing open
    bool reclaimed;                //  ACTION_RECLAIM was given out
    bool is_marked;             //  for delivery
    bool epoch_end_is_due;      //  its epoch drawn_epoch is over, with no batch left that would carry its end
    uint64_t drawn_epoch;
    const char *end_reason;     //  static; NULL: the server has not ended it
    char *end_message;          //  of SEND_ENDED, with the reason
    consumer_t consumer;        //  what the version index knows of it; sampler_job is SAMPLER_JOB_NONE when over
    tier_t *tier;               //  where its draws look for compressed samples; NULL: it reads them one by one
    bool tier_is_own;           //  and nobody else's
    lookahead_t *ahead;         //  or what its order's pool holds of them; NULL: it has none
    size_t lookahead_bytes_max; //  bytes that this may hold
    uint32_t pool;              //  of its order; 0: it has none
    int64_t joined_ms, start_ms;
    uint64_t epoch;             //  being drawn
    batch_t *batches;           //  one a slot
    uint32_t order_of [WIRE_SLOTS_MAX];     //  slots in drawn order, a ring
    uint32_t order_first, order_count;      //  those not sent
    uint32_t filling;           //  slot, or slots: none
    uint32_t used_slots;        //  not free
    place_list_t wanted;        //  places whose version waits to be handed out, in drawn order
    place_list_t ready;         //  places that wait to be copied
    uint32_t copying;           //  places that a worker has
    double copy_ns;             //  of a worker, running mean
    //  what was sent and heard
    uint64_t sent;              //  batches
    uint32_t in_hand;           //  slots that a user's loop, of any rank, holds on to
    uint64_t released;          //  by all ranks, at least: how far the window has grown
    uint64_t epoch_index;       //  next index of the epoch being sent
    uint64_t epoch_samples;     //  sent of it; both count what the job before had, where one is gone on with
    uint64_t delivered;
    uint64_t consumed_samples;
    uint64_t consumed_epoch, consumed_epoch_samples;    //  the newest that a loop was given samples of; counted as epoch_samples
    uint64_t single_reads, single_bytes;    //  of a pack's samples, each by itself
    rate_mark_t marks [RATE_MARKS];
    uint32_t mark_count;
    waits_t waits;
    sharing_t sharing;
    char *notice;               //  of SEND_NOTICE; NULL: there was none
    //  Of its data, what it does not get because it cannot be read; how many of them its clients have been told of, and since
    //  when there are more (0: not noticed yet).
    roaring_bitmap_t *unreadable;
    uint64_t unreadable_told;
    int64_t unreadable_ms;
    uint64_t notices;           //  number of the one of its data set's trouble that it was told last (patience.h)
};

//  One shared stage on one data set: what the version index's kind is of.  It ends with its kind.
typedef struct class {
    struct class *next;
    version_set_t *kind;
    const tenant_t *tenant;     //  whose job it was made for
    dataset_t *dataset;
    const pipeline_t *pipeline;
    uint64_t seed;              //  fresh for each class, so that one that comes again shows other pixels
    bool is_apart;              //  a `seeded` job's own: seed is the job's, draw numbers are epochs
    size_t version_bytes;       //  broker_version_cost
    double prepare_ns;          //  of a worker, running mean
} class_t;

typedef struct {
    uint32_t id;
    char *reason;
} bad_sample_t;

//  So many are kept with their reason, and shown by status; where jobs of the data set end, all are kept, and else, up to the
//  greater number, the first ones of each job.
enum { BAD_NAMED_MAX = 100, BAD_KEPT_MAX = 4096, BAD_OF_JOB_MAX = 10 };

//  A data set that is a pack.
typedef struct {
    broker_t *broker;
    broker_pack_t given;
    uint32_t *positions;                    //  of each id
    size_t sample_bytes_max;
    uint64_t bytes;                         //  of all samples
    double square_bytes;                    //  the sum of their squares
    tier_t *tier;                           //  of the SHARED jobs that do not draw apart; NULL: there are none
    raw_pool_figures_t last;                //  of the SHARED tier that ended last
    raw_pool_figures_t past;                //  counters of SHARED tiers that have ended
    size_t reading, reading_bytes;          //  requests handed out, and the memory of their samples
    uint64_t reads;                         //  carried out
    uint64_t bytes_read, bytes_handed;      //  from the source, whole blocks; to workers
} raw_prefetch_t;

//  What a tenant wants of the workers, and what it has of what they need; dispatch.c's.
typedef struct {
    job_t *jobs;                            //  newest first
    job_t *prepare_turn, *copy_turn;        //  whose turn it is; NULL: the first job's
    size_t side_tasks;                         //  that wait
    size_t waiting;                         //  these, and places in its jobs' queues
    size_t fetching_of [BROKER_DATASETS_MAX];       //  versions of each data set whose plain files are being read on its turn
    size_t version_bytes_max;               //  of its jobs' classes
    size_t outside_bytes;                   //  of versions with memory, out of the index, that it has hold of
} wants_t;

//  How often something was so.
typedef struct {
    const char *what;                       //  static; NULL: nothing yet, nor in those behind
    uint64_t count;
} counter_t;

enum { COUNTERS_MAX = 32 };

//  What a tenant has.
typedef struct {
    size_t jobs;                            //  not over
    size_t on_dataset [BROKER_DATASETS_MAX];        //  of these, on each
    size_t ranks;                           //  of these
    size_t jobs_bytes;                      //  theirs
    size_t dying_bytes;                     //  of jobs that are over, while a worker writes for them
    size_t outside_jobs, outside_bytes;     //  broker_outside
    size_t tiers, tier_least;               //  supply.c: in so many its jobs read; bytes that one of them needs at least
    size_t lookahead_reserved;                  //  bytes that its jobs with a pool may hold, which tiers may not
} held_t;

struct tenant {
    broker_tenant_t given;
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t number;                        //  its place in the broker's list; 0: the operator
    uint64_t datasets;                      //  a bit for each that it may use
    wants_t wants;
    held_t held;                            //  broker_limits.c's, as are
    counter_t ends [COUNTERS_MAX];          //  of jobs, by the server: for each reason
    uint64_t jobs_total;
    uint64_t past_delivered;                //  by jobs that are over
    uint64_t prepared;                      //  versions that were made for its jobs, alone or with others'
    uint64_t dropped;                       //  places that got another sample because theirs could not be read
};

struct dataset {
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t number;                        //  its place in the broker's list
    raw_prefetch_t *supply;                       //  NULL: plain files
    size_t fetching, fetch_max;             //  versions whose plain files are being read; broker_set_fetches
    uint32_t samples;
    broker_bad_t on_bad;
    void *user;
    sampler_t *sampler;
    job_t *jobs [SAMPLER_JOBS_MAX];         //  by number in the sampler
    bad_sample_t *bad;                      //  in the order in which they were found
    size_t bad_named, bad_room, bad_told;       //  told: broker_next_bad
    patience_t patience;
};

struct broker {
    uint32_t magic;
    //  set at birth
    broker_options_t options;
    size_t prepare_max, copy_max, read_max; //  tasks handed out at once; of a data set to prepare or read, others aside
    //  owner only
    random_t random;
    random_t pauses;                        //  for what decides nothing: how long until a read is made again
    version_index_t *version_index;
    prepared_t *prepared;                   //  the version index's
    size_t version_bytes_max;               //  of all classes there are
    tenant_t *tenants [BROKER_TENANTS_MAX];
    size_t tenant_count;
    uint64_t weights;                       //  of all
    dataset_t *datasets [BROKER_DATASETS_MAX];
    size_t dataset_count;
    class_t *classes;
    job_t *jobs;
    bool draining;                          //  broker_drain was called
    uint64_t next_job;
    size_t rings_bytes, jobs_bytes;
    size_t outside_bytes;                   //  all tenants'
    fairness_t *fairness;                   //  of workers' time; tenants by their numbers
    bool is_memory_kept;                    //  each tenant's part of it, outside of the index, is free or its own
    double prepare_ns, copy_ns, side_task_ns;  //  running means of all, for what is new
    size_t side_tasks;                         //  handed out
    size_t preparing, copying, reading;     //  handed out
    size_t fetching;                        //  of preparing: plain files are being read
    size_t fetching_bytes;                  //  memory beside the index for these, where there are several data sets
    uint64_t reading_full;                  //  data sets, a bit for each, of which enough reads are under way
    sharing_records_t records;
    int64_t shared_ms;                      //  when sharing was judged last
    raw_store_t *raw;                       //  NULL: no data set is a pack
    size_t tier_count, tier_least;          //  bytes that a tier needs at least
    size_t lookahead_reserved;                  //  bytes that jobs with a pool may hold, which tiers may not
    job_t *ending, *last_ending;            //  marked: job_end, job_go
    job_t *deliveries, *last_delivery;      //  marked: job_mark_delivery
    action_t *actions;                      //  a ring
    size_t action_first, action_count, action_room;
    int64_t started_ms, wakeup_ms;
    //  counters
    uint64_t prepared_count, delivered_count, bad_count, jobs_total, read_failures;
};

//  ---- broker.c
void *broker_need (void *memory);           //  aborts on NULL: bookkeeping that cannot fail
action_t *broker_act (broker_t *self, action_kind_t kind, job_t *job);
action_t *broker_act_rank (broker_t *self, action_kind_t kind, rank_t *rank);
//  Batches that the client has had, consumed or thrown away.
uint64_t broker_done (const wire_progress_t *progress);
//  broker_wakeup is at_ms at the latest.
void broker_wake (broker_t *self, int64_t at_ms);

//  The version's class.
const class_t *version_class (const broker_t *self, const version_t *version);

//  ---- job.c: marks, by which a phase tells a later one what is to be done
//  The state of a job changes here only.
void job_move (job_t *job, job_state_t state);
static inline bool
job_has_ended (const job_t *job)
{
    return job->state >= JOB_ENDING;
}
//  The job ends, for a reason of the server's (static; message is copied), or because its clients have gone.  Idempotent.
void job_end (job_t *job, const char *reason, const char *message);
void job_go (job_t *job);
//  There may be something to send to the job's ranks.
void job_mark_delivery (job_t *job);
//  The row is filled or a hole.
void row_done (place_t *row);

//  ---- row_queue.c
//  One more, or one fewer, of the tenant's rows and side tasks waits for a worker.
void tenant_waits (broker_t *self, tenant_t *tenant);
void tenant_waits_no_more (broker_t *self, tenant_t *tenant);
void row_queue_append (place_list_t *list, place_t *place);
void row_queue_remove (place_list_t *list, place_t *place);
//  The version's bytes have come: its rows may be handed out.
void row_queue_arrived (version_t *version);
//  The bytes have gone again: the rows wait for them, unless a worker has the version.
void row_queue_left (version_t *version);
//  The version is ready: the rows that wait for it may be copied.
void row_queue_ready (version_t *version);
//  A worker takes the version, or the row: it leaves its queue.
void row_queue_take_version (version_t *version);
void row_queue_take_copy (place_t *place);

//  ---- broker_bad.c
//  A worker found that the version's sample cannot be read.
void bad_found (broker_t *self, version_t *version, const char *reason);
//  A worker found that the version's sample is not what the version's class asks for.
void unsuitable_found (broker_t *self, version_t *version, const char *reason);
//  Refuses a job whose data hold what is known to be bad, where that is fatal.
bool bad_allows (const broker_join_t *join, refusal_t *refusal);
//  What becomes of the join's job when a sample of its data is bad.
broker_bad_t bad_policy (const broker_join_t *join);
//  The job, which has joined the sampler: what of its data is known to be unreadable.
void bad_join (job_t *job, const broker_join_t *join);
//  Tells the rank, which has come back, what the others were told; or all ranks of the job, if there is more than they were told.
void bad_tell_rank (broker_t *self, rank_t *rank);
void bad_tell (broker_t *self, job_t *job);
//  Once a turn: tells the jobs that have known of some for a second.
void bad_tell_due (broker_t *self, int64_t now_ms);
void bad_forget (dataset_t *dataset);

//  ---- broker_identity.c
//  Who a join is, as things stand.
typedef struct {
    job_t *ghost;               //  ends if the join is taken; NULL: nobody does
    const char *run;            //  the new job's: lent by the join
    bool is_forked;
} identity_t;

//  False: its job name is another's.
bool identity_of (const broker_t *self, const broker_join_t *join, int64_t now_ms, identity_t *identity, refusal_t *refusal);
//  The job, which has its id and is not yet among the others, is of this identity: its ghost ends.
void identity_take (broker_t *self, job_t *job, const broker_join_t *join, const identity_t *identity);
//  Whether a text of a join is said, and a job's or a rank's.
bool identity_is (const char *said, const char *of_job);
//  Whether any of the job's clients is one of the join's.
bool identity_shares_instance (const job_t *job, const broker_join_t *join);
//  Refuses a join because the job has its name.  Returns false.
bool identity_refuse_name (const job_t *job, const broker_join_t *join, int64_t now_ms, refusal_t *refusal);
void identity_check (const broker_t *self);

//  ---- broker_limits.c: what tenants may have, and have
//  Whether there are several, so that nothing of one may be told to another.
bool limits_apply (const broker_t *self);
tenant_t *limits_tenant (const broker_t *self, const broker_join_t *join);
//  Whether its tenant may have one more job; memory_bytes: of it, slot_bytes of a rank's.  As if the ghost had left already.
bool limits_allow (const broker_t *self, const broker_join_t *join, const job_t *ghost, size_t memory_bytes, refusal_t *refusal);
//  Whether its part of the cache, and its setting for that, let it have versions of this size.
bool limits_allow_version (const broker_t *self, const tenant_t *tenant, size_t version_bytes, refusal_t *refusal);
//  Of a new job: its number.
uint64_t limits_new_job (broker_t *self, tenant_t *tenant);
//  A job is there; it is over; it is reclaimed.
void limits_enter (job_t *job);
void limits_leave (job_t *job);
void limits_reclaim (job_t *job);
//  A version is ready: whoever waits for it has had it made.
void limits_prepared (const version_t *version);
void limits_count (counter_t counters [COUNTERS_MAX], const char *what);
json_t *limits_status (const broker_t *self, const tenant_t *tenant);
void limits_check (const broker_t *self);

//  ---- broker_jobs.c
//  ACTION_RECLAIM for a job that is over once no worker writes for it.
void broker_reclaim_when_still (broker_t *self, job_t *job);
//  Takes the marked jobs out of everything: their clients are told, and nothing of them is drawn, read or sent any more.
void jobs_sweep (broker_t *self);
//  At the end of an event or a turn: delivers and sweeps until no job is marked.
void jobs_settle (broker_t *self);

//  ---- broker_ranks.c
//  The ranks of a new job.  False: no memory; ranks_destroy frees what there is.
bool ranks_new (job_t *job, const broker_join_t *join, int64_t now_ms);
void ranks_destroy (job_t *job);
//  What ranks_new takes, and of several ranks what is on its way to them beside their rings: a batch that is given again, ids.
size_t ranks_bytes (const broker_join_t *join);
//  broker_attached, broker_inline, broker_left and broker_lost, up to what is marked.
void ranks_attached (broker_t *self, rank_t *rank, int64_t now_ms);
void ranks_inline (broker_t *self, rank_t *rank, int64_t now_ms);
void ranks_left (broker_t *self, rank_t *rank);
void ranks_lost (broker_t *self, rank_t *rank, int64_t now_ms);
//  The rank, which is there, is lost from now on, and waited for so long.
void ranks_lose (broker_t *self, rank_t *rank, int64_t now_ms, int64_t wait_ms);
//  What users' loops hold on to has changed.
void ranks_count_in_hand (job_t *job);
//  A rank may have become level: the job may go on.
void ranks_settle (broker_t *self, job_t *job);
//  Once a turn: sends steps that have waited for a rank to take what it was given again.
void ranks_send (broker_t *self, job_t *job);
//  A worker has written into the place of a rank that was lost meanwhile.
void ranks_copied_late (broker_t *self, place_t *place);
//  Ends what is overdue of the job: its ranks that do not attach, are silent, or do not come back.
void ranks_end_overdue (broker_t *self, job_t *job, int64_t now_ms);
//  All places of its ranks that are in no step are left; for a job that is over.
void ranks_cancel (broker_t *self, job_t *job);
//  "the job 'name'", or by its number.
enum { RANKS_WHO_BYTES = REQUEST_NAME_BYTES_MAX + 32 };
const char *ranks_job_text (const job_t *job, char text [RANKS_WHO_BYTES]);
void ranks_check (const job_t *job);

//  ---- broker_replay.c: the last steps of jobs with ranks
//  Whether all ranks of the join stand where something is known to go on from.
bool replay_allows (const broker_join_t *join, refusal_t *refusal);
//  Whether any of them lacks something.
bool replay_is_wanted (const broker_join_t *join);
size_t replay_bytes (const broker_join_t *join);
//  Of a new job: takes over what the join knows, and what each rank lacks of it.  False: no memory.
bool replay_new (job_t *job, const broker_join_t *join);
void replay_free (job_t *job);
//  Where the records have this position; false: nowhere.
bool replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p);
//  Steps among the records from this one on.
uint64_t replay_steps_from (const job_t *job, uint64_t number);
//  Enters what is being sent to all ranks.  Returns the step, world_size counts and ids.
const uint64_t *replay_enter_step (job_t *job, uint32_t slot);
void replay_enter_end (job_t *job, const wire_epoch_end_t *end);
//  Sends the rank what it lacks, as far as that can be sent now.
void replay_go_on (broker_t *self, rank_t *rank);
//  Nothing is prepared for it any more.
void replay_stop (broker_t *self, rank_t *rank);
//  Sends the rank what it is given again, if all rows of that are filled or holes.
void replay_deliver (broker_t *self, rank_t *rank);
void replay_check (const job_t *job);

//  ---- broker_drain.c
//  Nothing more is sent of the job: the server takes no new epochs, and none of its is open.
bool drain_is_between (const job_t *job);
//  Once a turn, if the broker drains: marks the jobs of which nothing is open any more; and before anything else of the next turn,
//  when what they were sent has been carried out, ends them.
void drain_mark (broker_t *self);
void drain_end (broker_t *self);

//  ---- draw_start.c
//  All ranks of the job are there for the first time: it runs.
void draw_start (broker_t *self, job_t *job, int64_t now_ms);

//  ---- draw.c
//  Runs the rounds that are due in every group.
void draw_rounds (broker_t *self, int64_t now_ms);
//  The place's sample cannot be read: another takes its place, or a hole.
void draw_again (broker_t *self, place_t *place);
//  Closes epochs that an unreadable sample has emptied.
void draw_settle (broker_t *self, dataset_t *dataset);
//  All ranks are there, and level: draws go on, unless nothing is left to draw of the epoch.
void draw_go_on (broker_t *self, job_t *job);
//  The slot may be drawn into again.
void draw_release (job_t *job, uint32_t slot);
//  A list, or what is a function of a seed, has its order whatever turns out unreadable, and holes instead.
bool draw_keeps_order (const job_t *job);
//  The place gets a version of the sample that it has, which the job has drawn before.
version_t *draw_serve (broker_t *self, place_t *place);
//  The rank's places that are not sent wait for nobody; and, when it is back, for their samples once more.
void draw_lose (broker_t *self, rank_t *rank);
void draw_revive (broker_t *self, rank_t *rank);

//  ---- draw_send.c
//  Sends what is complete and whose turn it is.
void draw_send (broker_t *self, job_t *job);
//  Sends what the marked jobs may be sent, in the order in which they were marked.
void deliver_marked (broker_t *self);
//  A step of which no sample can be read any more, though it was told, or would be padded: the job ends.
void draw_end_unreadable (job_t *job);

//  ---- raw_prefetch_share.c: memory for compressed samples, divided among tiers

//  Tiers that share memory.
typedef struct {
    size_t tiers [BROKER_DATASETS_MAX];     //  how many, on each data set
    size_t bytes;                           //  for all of them
    size_t least;                           //  each has so much, or all that its data take
    //  raw_prefetch_division_settle's
    double mean_bytes, level;
} raw_prefetch_division_t;

void raw_prefetch_division_settle (raw_prefetch_division_t *self, const broker_t *broker);
//  What each of the tiers on this data set has; settled.
size_t raw_prefetch_division_part (const raw_prefetch_division_t *self, const dataset_t *dataset);

//  ---- supply.c: compressed samples of packs
//  What a tier on the data set needs at least.
size_t raw_prefetch_tier_least (const dataset_t *dataset);
//  Whether its tenant has memory for the job's tier, if it needs one of its own, or for its pool; without what the ghost has of it.
bool raw_prefetch_allows (const broker_t *self, const broker_join_t *join, const job_t *ghost, refusal_t *refusal);
//  The job, which has joined sampler and version index, reads from now on.
void raw_prefetch_join (broker_t *self, job_t *job, const broker_join_t *join);
//  It leaves; version index and sampler still know it.
void raw_prefetch_leave (broker_t *self, job_t *job);
//  It has begun another epoch.
void raw_prefetch_epoch_begin (broker_t *self, job_t *job);
//  The sample has been dropped.
void raw_prefetch_forget (broker_t *self, dataset_t *dataset, uint32_t id);
//  Inside an offer to these jobs: the id to commit.
uint32_t raw_prefetch_pick (job_t *const *jobs, consumer_t **consumers, size_t count);
//  It has been committed, and these versions serve the jobs: those that are new get hold of the sample's bytes.
void raw_prefetch_drawn (broker_t *self, job_t *job, uint32_t id, version_t *const *versions, size_t count);
//  Where the tenant's reads stand in the raw store; NULL: those of the data sets' tiers.
uint32_t raw_prefetch_lane (const broker_t *self, const tenant_t *tenant);
//  A read that was handed out is none any more: what it cost counts, its samples have no memory, and it is at rest.
void raw_prefetch_unread (broker_t *self, raw_request_t *request);
//  Hands out reads.  False: the first in line waits for memory.
bool raw_prefetch_dispatch (broker_t *self);
void raw_prefetch_destroy (dataset_t *dataset);
//  sees_all: with what its tier is doing, which has to do with all who use it.
//  Of the job's own tier; null: it has none.
json_t *raw_prefetch_job_status (const job_t *job);
json_t *raw_prefetch_status (const dataset_t *dataset, bool sees_all);
void raw_prefetch_check (broker_t *self);

//  The most that a read of several samples may bring.
size_t raw_prefetch_read_bytes_max (const broker_t *self, const raw_prefetch_t *supply);

//  ---- holding.c: who holds compressed samples, and at whose expense
//  Somebody of the tenant waits for the version, which is not prepared: it gets hold of its bytes, if it has not, and they come
//  by the tenant's lane if not before.  True: they are there, or the data set is no pack.
bool raw_prefetch_want (broker_t *self, const tenant_t *tenant, version_t *version);
//  It needs the bytes no more.  Idempotent.
void raw_prefetch_release (broker_t *self, version_t *version);
//  The sample, held once more.
raw_sample_t *raw_refcount_take (broker_t *self, const dataset_t *dataset, uint32_t id);
//  One hold less, of somebody who has forgotten it already.
void raw_refcount_let_go (broker_t *self, const dataset_t *dataset, raw_sample_t *sample);
//  It is new: a read of it alone.
void raw_refcount_read_alone (broker_t *self, uint32_t lane, const dataset_t *dataset, raw_sample_t *sample);
//  The version, which has no bytes, gets hold of these.
void raw_refcount_attach (broker_t *self, version_t *version, raw_sample_t *sample);

//  ---- ahead.c: what orders with a pool read ahead of their draws
//  Bytes that the job may hold.
size_t lookahead_bound (const broker_join_t *join);
//  The job, which has joined sampler and version index, reads from now on; it may hold so much.
void lookahead_begin (broker_t *self, job_t *job, size_t bytes_max);
//  It leaves; all it holds goes.
void lookahead_end (broker_t *self, job_t *job);
//  Reads what has entered the pool: after a begin, every draw, every drop and at an epoch's begin.
void lookahead_fill (broker_t *self, job_t *job);
//  The sample has been drawn or dropped: it is held no more.  Idempotent.
void lookahead_drop (broker_t *self, job_t *job, uint32_t id);
//  What the epoch has left over (drop_last) is held no more.
void lookahead_clear (broker_t *self, job_t *job);
//  Whether the sample is in its pool.
bool lookahead_holds (const job_t *job, uint32_t id);
size_t lookahead_bytes (const job_t *job);
void lookahead_check (const broker_t *self, const job_t *job);

//  ---- dispatch.c: whose turn it is, and who pays for it
//  The job is its tenant's newest; it is over; nothing of it is left.
void dispatch_join (broker_t *self, job_t *job);
void dispatch_leave (broker_t *self, job_t *job);
void dispatch_reclaim (broker_t *self, job_t *job);
//  Somebody has hold of the version, which has memory; one pin less.
void dispatch_hold (broker_t *self, version_t *version, tenant_t *tenant);
//  For version_index_on_leave: context is the broker.
void dispatch_left (void *context, version_t *version);
void dispatch_unpin (broker_t *self, version_t *version);
//  What the cache's memory must have beside the index, for each worker: the largest version of each tenant there is.
size_t dispatch_beside_bytes (const broker_t *self);
//  And besides, where this much is for the workers, for versions of several data sets whose plain files are being read.
size_t dispatch_fetching_bytes (const broker_t *self, size_t workers_bytes);
//  The version's plain files have been read; a worker is done with it, or with the place.
void dispatch_fetched (broker_t *self, version_t *version);
void dispatch_prepared (broker_t *self, version_t *version);
//  Its plain files could not be read: it gives back its task, and its memory.
void dispatch_unread (broker_t *self, version_t *version);
void dispatch_copied (broker_t *self, place_t *place);
//  Hands out what may be handed out.  False: the cache's memory is all in use, so something waits.
bool dispatch_work (broker_t *self);
void dispatch_check (const broker_t *self);

//  ---- schedule.c
//  Whether the cache has room for versions of the join's shared stage.  Who leaves makes no difference.
bool schedule_allows (const broker_t *self, const broker_join_t *join, refusal_t *refusal);
//  Makes the job, which has joined the sampler and is allowed, a consumer on the class of its shared stage, which is made
//  when it is new.
void schedule_join (broker_t *self, job_t *job);
//  For version_index_on_kind_end: context is the broker, user the class.
void schedule_class_over (void *context, void *user);
//  The place, of the version's sample, gets filled from it.  Takes over a pin.
void schedule_await (place_t *place, version_t *version);
//  Takes a place out of whatever it waits for (not COPYING).
void schedule_cancel (broker_t *self, place_t *place);
//  What jobs there are has changed: so may have what the index may hold.
void schedule_measure (broker_t *self);

#endif

/*  broker_state -- the broker's structures: job, rank, batch, row, tenant, data set; for the files of
 *  server/broker alone.
 *
 *  A job has one rank or several.  A batch here is a *step*: the batches of all ranks together, in the same
 *  slot number of each rank's ring.  With one rank, batch and step are the same.
 *
 *  A row's way:
 *
 *        draw             version ready       handed out            worker done
 *      EMPTY -> WAITING -------------> READY ------------> COPYING -------------> FILLED
 *        ^         | unreadable                                                      |
 *        +---------+ (then drawn again, or HOLE when the epoch has nothing left)      | batch released
 *        +---------------------------------------------------------------------------+
 *
 *  If a rank is lost before the step is sent, its rows are LOST, and WAITING again, for the same samples,
 *  when the rank is back.  Two kinds of rows are in no step's window: a rank's *padding*, and replayed
 *  rows (*again*).
 */
#ifndef BROKER_STATE_H
#define BROKER_STATE_H
#include "broker.h"
#include "fairness.h"
#include "patience_state.h"
#include "random.h"
#include "sharing.h"
#include "version_index.h"
#include "tier.h"
#include "waits.h"
#include "needed.h"

typedef struct ahead lookahead_t;

typedef enum {
    ROW_EMPTY,
    ROW_WAITING,                //  in its version's waiting list; also in the job's queue until the version
                                //  is handed out
    ROW_READY,                  //  in the job's queue of copies
    ROW_COPYING,                //  a worker has it
    ROW_FILLED,
    ROW_HOLE,                   //  its sample could not be read, and no other sample was left
    ROW_LOST                    //  its rank is lost, and so are the pixels written for it
} row_state_t;

//  One row of one slot.
struct batch_row {
    job_t *job;
    version_t *version;         //  pinned while WAITING, READY, COPYING; else NULL
    batch_row_t *previous, *next;   //  in the job's queue: wanted or ready
    batch_row_t *next_waiting, *previous_waiting;   //  for the same version, while WAITING
    uint64_t epoch;
    uint32_t id;
    uint32_t occurrence;
    uint32_t slot, index;       //  in the step
    uint32_t rank, rank_row;    //  its rank, and the row in the rank's batch; set when the row is taken
    row_state_t state;
    uint32_t charged_us;        //  COPYING: the estimate of a worker's time
    //  about the last version of this row, kept until the next one, for EXPLAIN
    uint32_t draw;
    uint32_t record;            //  sharing.h
    bool is_reused;             //  the version existed already, for a job of the same tenant
    uint16_t tenant_jobs;       //  jobs of its tenant that the version had served then; 0: a single tenant,
                                //  record has the number
    bool is_hole;               //  the batch was sent without this row
};

typedef struct {
    batch_row_t *first, *last;
} row_list_t;

typedef enum {
    SLOT_FREE,
    SLOT_FILLING,               //  draws go here
    SLOT_FULL,                  //  all drawn; sent when every row is filled and all earlier batches are
                                //  sent
    SLOT_SENT
} slot_state_t;

//  One batch in its slot; of a job with ranks, one step.
typedef struct {
    slot_state_t state;
    uint64_t epoch;
    uint32_t planned;           //  samples that it should have, by what was known when it was opened
    uint32_t drawn;             //  rows in use, from 0 on
    uint32_t open;              //  of them: neither filled nor a hole
    uint32_t holes;
    bool ends_epoch;
    uint64_t index;             //  of its epoch, on the wire; set when sent
    batch_row_t *rows;          //  batch_size of them
    //  what the slot held before its release, kept while it is free
    struct { uint64_t epoch, index; uint32_t drawn; } past;
} batch_t;

//  One of the last messages to all ranks of a job: a step, or an epoch's end.
typedef struct {
    broker_position_t before;   //  the position of a client that lacks it
    uint64_t samples;           //  of the step; of an end: the epoch's
    uint64_t *step;             //  world_size counts, then the ids, rank by rank; of a list then their
                                //  occurrences; NULL: an end
} record_t;

//  For a job with several ranks; otherwise all zero.
typedef struct {
    record_t *records;          //  a ring, by number
    uint32_t room;
    uint64_t first, next;       //  numbers
    uint64_t *step_memory;      //  step_room buffers, also a ring
    uint32_t step_room;
    uint64_t steps;             //  that were ever entered
    broker_position_t position; //  after the last record
} replay_t;

//  The step that is being prepared again for a rank that lacks it; none while used is 0.
typedef struct {
    batch_row_t *rows;          //  rank_batch of them; NULL: the job has one rank
    uint32_t used, open;        //  of them; neither filled nor a hole
    bool is_padding;
    //  rows and ids of the batch sent last, until the next one is sent
    uint32_t *sent_rows, *ids;
    uint32_t told;
} again_t;

typedef enum {
    RANK_ATTACHING,             //  neither ring nor inline yet
    RANK_HERE,
    RANK_LOST,                  //  it may come back, and the job pauses until then
    RANK_LEFT                   //  it has received everything, and is gone
} rank_state_t;

//  One of a job's clients.
struct rank {
    job_t *job;
    uint32_t number;
    void *user;
    char instance [WIRE_RUN_BYTES + 1];     //  empty: not said
    rank_state_t state;
    bool is_inline;
    bool left_itself;           //  LEFT: it sent LEAVE, so it does not come back
    bool reclaiming, reclaimed;         //  not there: ACTION_RECLAIM_RANK was issued; was carried out
    int64_t joined_ms, alive_ms;
    bool is_awaited;            //  not there, and may come back:
    int64_t lost_ms, due_ms;    //  LOST: since when; until when the job waits for it, even with no other rank
                                //  left
    uint32_t copying;           //  rows of it that a worker has
    //  what was sent to this client and received from it
    uint64_t sent;              //  batches; the next sequence
    wire_progress_t progress;
    uint64_t held;              //  a bit for each slot: sent, and not released
    uint64_t in_hand;           //  of these: in the hands of the user's loop
    //  Where its part of the step in a slot lies in its own ring.  Each rank's user may keep batches of other
    //  steps, and one that is kept must hold up no other rank's ring.
    uint32_t place [WIRE_SLOTS_MAX];
    uint64_t places;            //  a bit for each: it has a part that is not released, or that the user keeps
    uint64_t kept;              //  of these: the user keeps it, beyond batches of later steps
    uint64_t sequence [WIRE_SLOTS_MAX];     //  of the batches that it holds
    uint32_t rows [WIRE_SLOTS_MAX];         //  samples of that, padding not counted
    uint64_t padded;            //  a bit for each slot: what was sent in it last is padding,
    uint32_t padding_ids [WIRE_SLOTS_MAX];  //  this sample
    batch_row_t padding;            //  of the step that is to be sent next, if the rank has nothing in it
    uint64_t lacks;             //  number of the next record to send it; equal to the job's next: it lacks
                                //  none
    again_t again;
    char *notice;               //  that it was lost
    waits_of_rank_t waits;
};

typedef enum {
    JOB_ATTACHING,              //  not all ranks have taken their ring or asked for inline
    JOB_RUNNING,
    JOB_DRAWN,                  //  the last epoch is drawn; it stays until it leaves
    JOB_ENDING,                 //  marked: it draws nothing, gets nothing more, and is swept when the present
                                //  phase is over
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
    batch_row_t *row_memory;
    broker_parts_t parts;       //  nodes 0 or 1: none; without its cut
    uint64_t first_epoch, first_batches, later_batches;     //  with parts: of each epoch, those sent before
                                                            //  the job joined included
    char run [WIRE_RUN_BYTES + 1];
    char job_name [REQUEST_NAME_BYTES_MAX + 1];     //  empty: not said
    uint64_t user;
    bool is_forked, is_resumed;
    //  its clients
    rank_t *ranks;
    bool held_up;               //  a rank is missing or lacks a step: nothing is drawn or sent
    uint32_t rank_wait_seconds;
    replay_t replay;
    //  present state
    job_state_t state;
    bool is_drained;            //  drain_mark found nothing open
    bool reclaimed;             //  ACTION_RECLAIM was issued
    bool is_marked;             //  for delivery
    bool epoch_end_is_due;      //  the epoch drawn_epoch is over, and no batch is left to carry its end
    uint64_t drawn_epoch;
    const char *end_reason;     //  static; NULL: the server has not ended the job
    char *end_message;          //  of SEND_ENDED, with the reason
    consumer_t consumer;        //  the job in the version index; sampler_job is SAMPLER_JOB_NONE when the job
                                //  is over
    tier_t *tier;               //  the tier that serves its draws; NULL: the job reads samples one by one
    bool tier_is_own;           //  no other job uses the tier
    lookahead_t *ahead;         //  or the compressed samples of its order's pool; NULL: none
    size_t lookahead_bytes_max; //  bytes that lookahead may hold
    uint32_t pool;              //  of its order; 0: none
    int64_t joined_ms, start_ms;
    uint64_t epoch;             //  being drawn
    batch_t *batches;           //  one a slot
    uint32_t order_of [WIRE_SLOTS_MAX];     //  slots in drawn order, a ring
    uint32_t order_first, order_count;      //  those not sent
    uint32_t filling;           //  slot, or slots: none
    uint64_t opened;            //  batches of the epoch being drawn that were opened, or sent before the job
                                //  joined
    uint32_t padding_id;        //  with parts: a sample that it was sent
    bool has_padding_id;
    uint32_t used_slots;        //  not free
    row_list_t wanted;          //  rows with a version that waits to be handed out, in drawn order
    row_list_t ready;           //  rows that wait to be copied
    uint32_t copying;           //  rows that a worker has
    double copy_ns;             //  of a worker, running mean
    //  what was sent and received
    uint64_t sent;              //  batches
    uint32_t in_hand;           //  slots that the user's loop of any rank holds
    uint32_t free_places;       //  of the rank with the fewest
    uint64_t released;          //  batches that every rank has released: how far the window has grown
    uint64_t epoch_index;       //  next index of the epoch being sent
    uint64_t epoch_samples;     //  samples sent of it; of a resumed job both include what the earlier job
                                //  received
    uint64_t delivered;
    uint64_t consumed_samples;
    uint64_t consumed_epoch, consumed_epoch_samples;    //  the newest epoch with samples in a user's loop;
                                                        //  counted as epoch_samples
    uint64_t single_reads, single_bytes;                //  of a pack's samples, each by itself
    rate_mark_t marks [RATE_MARKS];
    uint32_t mark_count;
    waits_t waits;
    sharing_t sharing;
    char *notice;               //  of SEND_NOTICE; NULL: none so far
    //  The unreadable samples of its data; how many its clients have been told of, and since when there are
    //  more (0: not noticed yet).
    roaring_bitmap_t *unreadable;
    uint64_t unreadable_told;
    int64_t unreadable_ms;
    uint64_t notices;           //  number of its data set's last notice of failing reads that it was sent
                                //  (patience.h)
};

//  One shared stage on one data set.  It has one version set of the version index, and ends with it.
typedef struct class {
    struct class *next;
    version_set_t *kind;
    const tenant_t *tenant;     //  tenant of the job that it was made for
    dataset_t *dataset;
    const pipeline_t *pipeline;
    uint64_t seed;              //  fresh for each class, so that a class made again gives other pixels
    bool is_apart;              //  of one `seeded` job: seed is the job's, draw numbers are epochs
    size_t version_bytes;       //  broker_version_cost
    double prepare_ns;          //  of a worker, running mean
    const custom_t *custom;     //  the operation of the operator's own in it; NULL: none
} class_t;

typedef struct {
    uint32_t id;
    char *reason;
} bad_sample_t;

//  So many bad samples are kept with their reason, and shown by status.  If a bad sample ends jobs of the
//  data set, all are kept; otherwise the first ones of each job, up to the greater number.
enum { BAD_NAMED_MAX = 100, BAD_KEPT_MAX = 4096, BAD_OF_JOB_MAX = 10 };

//  A data set that is a pack.
typedef struct {
    broker_t *broker;
    broker_pack_t given;
    uint32_t *positions;                    //  of each id
    size_t sample_bytes_max;
    uint64_t bytes;                         //  of all samples
    double square_bytes;                    //  the sum of their squares
    tier_t *tier;                           //  of the SHARED jobs that do not draw apart; NULL: no such job
    raw_pool_figures_t last;                //  of the SHARED tier that ended last
    raw_pool_figures_t past;                //  counters of SHARED tiers that have ended
    size_t reading, reading_bytes;          //  requests handed out, and the memory of their samples
    uint64_t reads;                         //  carried out
    uint64_t bytes_read, bytes_handed;      //  from the source, whole blocks; to workers
    uint64_t memory_bytes;                  //  of drawn samples that were resident
    uint64_t source_bytes, source_ns;       //  of bytes_read, from the disk or the store; the reads' times,
                                            //  of which many pass at once
    uint64_t cached_bytes, cached_ns;       //  of bytes_read, from the local disk's cache of a store
    uint64_t peer_bytes, peer_ns;           //  of bytes_read, from other members of the cluster
    uint64_t gets, slow_gets;               //  how often a store was asked; of these, given up as slow
} raw_prefetch_t;

//  What a tenant wants of the workers, and the memory that it has for their tasks; dispatch.c's.
typedef struct {
    job_t *jobs;                            //  newest first
    job_t *prepare_turn, *copy_turn;        //  the job that is next; NULL: the first one
    size_t side_tasks;                      //  that wait
    size_t waiting;                         //  side tasks, and rows in its jobs' queues
    size_t slow_out;                        //  of its slow tasks, those handed out
    size_t fetching_of [BROKER_DATASETS_MAX];       //  of each data set, versions charged to this tenant
                                                    //  while their plain files are read
    size_t version_bytes_max;               //  of its jobs' classes; of those before, while customs_out > 0
    size_t customs_out;                     //  versions that it holds and operations of the operator's have
    size_t outside_bytes;                   //  of versions with memory, outside the index, that it holds
    bool lacks_memory;                      //  the version that is next has found none in this turn
} wants_t;

//  How often something happened.
typedef struct {
    const char *what;                       //  static; NULL: this entry and all later ones are unused
    uint64_t count;
} counter_t;

enum { COUNTERS_MAX = 32 };

//  What a tenant has.
typedef struct {
    size_t jobs;                            //  not over
    size_t on_dataset [BROKER_DATASETS_MAX];        //  of these, on each
    size_t ranks;                           //  of these
    size_t jobs_bytes;                      //  theirs
    size_t dying_bytes;                     //  of jobs that are over but still written by a worker
    size_t outside_jobs, outside_bytes;     //  broker_outside
    size_t tiers, tier_least;               //  raw_prefetch.c: how many serve its jobs; bytes that one tier
                                            //  needs at least
    size_t lookahead_reserved;              //  bytes for its jobs with a pool, closed to tiers
} held_t;

struct tenant {
    broker_tenant_t given;
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t number;                        //  its place in the broker's list; 0: the operator
    uint64_t datasets;                      //  a bit for each that it may use
    wants_t wants;
    held_t held;                            //  broker_limits.c's, as are
    counter_t ends [COUNTERS_MAX];          //  jobs that the server ended, for each reason
    uint64_t jobs_total;
    uint64_t past_delivered;                //  by jobs that are over
    uint64_t prepared;                      //  versions that were made for its jobs, alone or with others'
    uint64_t dropped;                       //  rows that got another sample because theirs was unreadable
    waits_histogram_t waits;                //  of all its jobs' batches
};

struct dataset {
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t number;                        //  its place in the broker's list
    raw_prefetch_t *prefetch;               //  NULL: plain files
    size_t fetching, fetch_max;             //  versions with plain files being read; broker_set_fetches
    uint32_t samples;
    broker_bad_t on_bad;
    void *user;
    sampler_t *sampler;
    job_t *jobs [SAMPLER_JOBS_MAX];         //  by number in the sampler
    bad_sample_t *bad;                      //  in the order in which they were found
    size_t bad_named, bad_room, bad_told;   //  told: broker_next_bad
    patience_t patience;
};

struct broker {
    uint32_t magic;
    //  set at birth
    broker_options_t options;
    uint32_t lent;                          //  processors of other machines
    size_t prepare_most;                    //  the largest prepare_max so far
    size_t prepare_max, copy_max, read_max; //  tasks handed out at once; prepare and read: for each data set
    //  owner only
    random_t random;
    random_t pauses;                        //  for the pauses before retries, which decide nothing else
    version_index_t *version_index;
    prepared_t *prepared;                   //  the version index's
    size_t version_bytes_max;               //  of all existing classes
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
    bool is_memory_kept;                    //  each tenant's part of it, outside of the index, is free or its
                                            //  own
    double prepare_ns, copy_ns, side_task_ns;  //  running means over all tasks, the estimate for a new job
    size_t side_tasks;                      //  handed out
    size_t preparing, copying, reading;     //  handed out
    size_t custom_out [CUSTOM_MAX];         //  of preparing, those with each operation of the operator's own
    size_t custom_made;                     //  of all these, the files are read
    size_t slow_out;                        //  slow tasks, of preparing and copying
    size_t fetching;                        //  of preparing: plain files are being read
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

action_t *broker_act (broker_t *self, action_kind_t kind, job_t *job);
action_t *broker_act_rank (broker_t *self, action_kind_t kind, rank_t *rank);
//  ACTION_SEND_NOTICE or ACTION_SEND_ENDED to the rank; to each rank that is there.
void broker_tell_rank (rank_t *rank, action_kind_t kind, const char *reason, const char *message);
void broker_tell_ranks (job_t *job, action_kind_t kind, const char *reason, const char *message);
//  Batches that the client has consumed or thrown away.
uint64_t broker_done (const wire_progress_t *progress);
//  prepare_max while so many processors are lent.
size_t broker_prepare_max (const broker_t *self, uint32_t lent);
//  Versions that workers have or wait for, with their files read.
size_t broker_with_workers (const broker_t *self);
//  Makes broker_wakeup at_ms at the latest.
void broker_wake (broker_t *self, int64_t at_ms);

//  The version's class.
const class_t *version_class (const broker_t *self, const version_t *version);

#endif

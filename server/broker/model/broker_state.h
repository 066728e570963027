/*  broker_state -- the broker's structures: job, rank, batch, row, tenant, data set; for the files of
 *  server/broker alone.
 *
 *  A job has one rank or several.  What is called a batch here is a *step*: of all ranks together, in one
 *  slot number of each rank's ring.  Of a job with one rank both are the same.
 *
 *  A place's way:
 *
 *        draw             version ready       handed out            worker done
 *      EMPTY -> WAITING -------------> READY ------------> COPYING -------------> FILLED
 *        ^         | unreadable                                                      |
 *        +---------+ (then drawn again, or HOLE when the epoch has nothing left)      | batch released
 *        +---------------------------------------------------------------------------+
 *
 *  The rank of a place may be lost before the step is sent: then it is LOST, and WAITING again, for the same
 *  sample, when the rank is back.  Two kinds of places are in no step's window: a rank's *padding*, and those
 *  that it is given *again*.
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
    PLACE_EMPTY,
    PLACE_WAITING,              //  in its version's waiting list, and until that is handed out in the job's
                                //  queue
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
    uint16_t tenant_jobs;       //  of its tenant that the version had served then; 0: there is one tenant
                                //  only, and record says it
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
    bool reclaiming, reclaimed;       //  not there: ACTION_RECLAIM_RANK was given out, and has been carried
                                      //  out
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
    JOB_ENDING,                 //  marked: it draws and is sent nothing more, and is swept when the present
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
    consumer_t consumer;        //  what the version index knows of it; sampler_job is SAMPLER_JOB_NONE when
                                //  over
    tier_t *tier;               //  where its draws look for compressed samples; NULL: it reads them one by
                                //  one
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
    uint64_t consumed_epoch, consumed_epoch_samples;    //  the newest that a loop was given samples of;
                                                        //  counted as epoch_samples
    uint64_t single_reads, single_bytes;    //  of a pack's samples, each by itself
    rate_mark_t marks [RATE_MARKS];
    uint32_t mark_count;
    waits_t waits;
    sharing_t sharing;
    char *notice;               //  of SEND_NOTICE; NULL: there was none
    //  Of its data, what it does not get because it cannot be read; how many of them its clients have been
    //  told of, and since when there are more (0: not noticed yet).
    roaring_bitmap_t *unreadable;
    uint64_t unreadable_told;
    int64_t unreadable_ms;
    uint64_t notices;           //  number of the one of its data set's trouble that it was told last
                                //  (patience.h)
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

//  So many are kept with their reason, and shown by status; where jobs of the data set end, all are kept, and
//  else, up to the greater number, the first ones of each job.
enum { BAD_NAMED_MAX = 100, BAD_KEPT_MAX = 4096, BAD_OF_JOB_MAX = 10 };

//  A data set that is a pack.
typedef struct {
    broker_t *broker;
    broker_pack_t given;
    uint32_t *positions;                    //  of each id
    size_t sample_bytes_max;
    uint64_t bytes;                         //  of all samples
    double square_bytes;                    //  the sum of their squares
    tier_t *tier;                           //  of the SHARED jobs that do not draw apart; NULL: there are
                                            //  none
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
    size_t fetching_of [BROKER_DATASETS_MAX];       //  versions of each data set whose plain files are being
                                                    //  read on its turn
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
    size_t tiers, tier_least;               //  supply.c: in so many its jobs read; bytes that one of them
                                            //  needs at least
    size_t lookahead_reserved;                  //  bytes that its jobs with a pool may hold, which tiers may
                                                //  not
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
    uint64_t dropped;                       //  places that got another sample because theirs could not be
                                            //  read
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
    size_t prepare_max, copy_max, read_max; //  tasks handed out at once; of a data set to prepare or read,
                                            //  others aside
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
    bool is_memory_kept;                    //  each tenant's part of it, outside of the index, is free or its
                                            //  own
    double prepare_ns, copy_ns, side_task_ns;  //  running means of all, for what is new
    size_t side_tasks;                         //  handed out
    size_t preparing, copying, reading;     //  handed out
    size_t fetching;                        //  of preparing: plain files are being read
    size_t fetching_bytes;                  //  memory beside the index for these, where there are several
                                            //  data sets
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

action_t *broker_act (broker_t *self, action_kind_t kind, job_t *job);
action_t *broker_act_rank (broker_t *self, action_kind_t kind, rank_t *rank);
//  Batches that the client has had, consumed or thrown away.
uint64_t broker_done (const wire_progress_t *progress);
//  broker_wakeup is at_ms at the latest.
void broker_wake (broker_t *self, int64_t at_ms);

//  The version's class.
const class_t *version_class (const broker_t *self, const version_t *version);

#endif

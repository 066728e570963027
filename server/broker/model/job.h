/*  job -- what one client or its ranks ask for, how far it has come, and marks by which a phase tells a later
 *  one what is to be done.
 *
 *  The members are for server/broker alone.
 */
#ifndef JOB_H
#define JOB_H
#include "broker.h"
#include "dataset.h"
#include "rank.h"
#include "reads.h"
#include "request.h"
#include "row.h"
#include "sharing.h"
#include "tier.h"
#include "version_index.h"
#include "waits.h"

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
struct broker_terms {
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
    const char *data;               //  request.h: stands for the data; copied
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
};

typedef enum {
    JOB_ATTACHING,              //  not all ranks have taken their ring or asked for inline
    JOB_RUNNING,
    JOB_DRAWN,                  //  the last epoch is drawn; it stays until it leaves
    JOB_ENDING,                 //  marked: it draws nothing, gets nothing more, and is swept when the present
                                //  phase is over
    JOB_OVER                    //  swept; reclaimed when no worker writes for it
} job_state_t;

typedef enum {
    SLOT_FREE,
    SLOT_FILLING,               //  draws go here
    SLOT_FULL,                  //  all drawn; sent when every row is filled and all earlier batches are
                                //  sent
    SLOT_SENT
} slot_state_t;

//  What is drawn into a slot, and sent from it.  A batch here is a *step*: the batches of all ranks of the
//  job together, in the same slot number of each rank's ring.  With one rank, batch and step are the same.
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
} replay_record_t;

//  The last steps of a job with several ranks, to be sent again to a rank that lacks them (send/steps.c);
//  otherwise all zero.
typedef struct {
    replay_record_t *records;          //  a ring, by number
    uint32_t room;
    uint64_t first, next;       //  numbers
    uint64_t *step_memory;      //  step_room buffers, also a ring
    uint32_t step_room;
    uint64_t steps;             //  that were ever entered
    broker_position_t position; //  after the last record
} replay_t;

typedef struct {
    int64_t at_ms;
    uint64_t samples;
} rate_mark_t;

enum { RATE_MARKS = 11 };       //  one a second: a rate over ten seconds

enum { JOB_MAGIC = 0x6a6f6220 };

typedef struct lookahead lookahead_t;   //  lookahead.h

//  Each group says which sources write its members, beside job_life.c when the job begins.
struct job {
    uint32_t magic;
    broker_t *broker;
    job_t *next;
    job_t *next_of_tenant;      //  the same, of its tenant's
    job_t *next_ending;         //  of those marked to end
    job_t *next_delivery;       //  of those marked for delivery
    uint64_t id;
    tenant_t *tenant;
    dataset_t *dataset;
    job_state_t state;          //  job_move, by any phase
    rank_t *ranks;              //  its clients: client_life.c
    consumer_t consumer;        //  the job in the version index; sampler_job is SAMPLER_JOB_NONE when the job
                                //  is over
    waits_t waits;              //  waits.c
    sharing_t sharing;          //  sharing.c
    //  What its client or ranks asked for, and what follows from it: job_life.c; it does not change.
    struct {
        const pipeline_t *pipeline;
        sampler_order_t order;
        bool order_is_of_seed;      //  as broker_terms_t
        uint64_t seed;
        bool seed_given;
        uint32_t pool;              //  of its order; 0: none
        char data [WIRE_DATA_BYTES + 1];
        uint32_t world_size;        //  ranks
        uint32_t rank_batch;        //  samples of each in a full step
        uint32_t batch_size;        //  of a full step
        uint32_t slots;
        uint64_t epochs;
        bool drop_last;
        broker_bad_t on_bad;        //  its own, or its data set's
        broker_parts_t parts;       //  nodes 0 or 1: none; without its cut
        uint64_t first_epoch, first_batches, later_batches;     //  with parts: of each epoch, those sent
                                                                //  before the job joined included
        char name [REQUEST_NAME_BYTES_MAX + 1];
        char run [WIRE_RUN_BYTES + 1];
        char job_name [REQUEST_NAME_BYTES_MAX + 1];     //  empty: not said
        uint64_t user;
        bool is_forked, is_resumed;
    } asked;
    //  Its beginning and its end: job_life.c; the reason to end: job.c, for any phase.
    struct {
        int64_t joined_ms;
        size_t ring_bytes;          //  of all ranks
        size_t memory_bytes;        //  ring and bookkeeping
        uint32_t rank_wait_seconds; //  for which it waits for a lost rank: client_life.c
        bool is_drained;            //  job_life_mark_drained found nothing open
        const char *end_reason;     //  static; NULL: the server has not ended the job
        char *end_message;          //  of SEND_ENDED, with the reason
        bool reclaimed;             //  ACTION_RECLAIM was issued
    } life;
    //  The epoch that is drawn, and the batches that draws fill: draw.c.  A batch that is sent leaves the
    //  order, and takes the epoch's end along: steps.c.
    struct {
        int64_t start_ms;           //  of its first draw
        uint64_t epoch;             //  being drawn
        uint64_t opened;            //  batches of the epoch being drawn that were opened, or sent before the
                                    //  job joined
        batch_t *batches;           //  one a slot
        batch_row_t *row_memory;    //  their rows
        uint32_t filling;           //  slot, or slots: none
        uint32_t used_slots;        //  not free
        uint32_t order_of [WIRE_SLOTS_MAX];     //  slots in drawn order, a ring
        uint32_t order_first, order_count;      //  those not sent
        bool epoch_end_is_due;      //  the epoch drawn_epoch is over, and no batch is left to carry its end
        uint64_t drawn_epoch;
    } draw;
    //  What is read of its pack ahead of its draws: raw_prefetch.c and lookahead.c.
    struct {
        tier_t *tier;               //  the tier that serves its draws; NULL: the job reads samples one by one
        bool tier_is_own;           //  no other job uses the tier
        lookahead_t *ahead;         //  or the compressed samples of its order's pool; NULL: none
        size_t lookahead_bytes_max; //  bytes that lookahead may hold
    } fetch;
    //  Its rows on their way to workers and back: dispatch.c, by row.c's queues; broker.c counts those back.
    struct {
        row_list_t wanted;          //  rows with a version that waits to be handed out, in drawn order
        row_list_t ready;           //  rows that wait to be copied
        uint32_t copying;           //  rows that a worker has
        double copy_ns;             //  of a worker, running mean
    } dispatch;
    //  What was sent: steps.c.  What its ranks hold and have given back: broker.c, client_life.c, job.c.
    struct {
        bool is_marked;             //  job_mark_delivery
        bool held_up;               //  a rank is missing or lacks a step: nothing is drawn or sent
        replay_t replay;
        uint64_t epoch_index;       //  next index of the epoch being sent
        uint64_t epoch_samples;     //  samples sent of it; of a resumed job both include what the earlier job
                                    //  received
        uint64_t sent;              //  batches
        uint64_t delivered;         //  samples
        uint32_t in_hand;           //  slots that the user's loop of any rank holds
        uint32_t free_places;       //  of the rank with the fewest
        uint64_t released;          //  batches that every rank has released: how far the window has grown
        uint32_t padding_id;        //  with parts: a sample that it was sent
        bool has_padding_id;
    } delivery;
    //  For status, no decision reads it: broker.c, draw.c.
    struct {
        uint64_t consumed_samples;
        uint64_t consumed_epoch, consumed_epoch_samples;    //  the newest epoch with samples in a user's
                                                            //  loop; counted as epoch_samples
        rate_mark_t marks [RATE_MARKS];
        uint32_t mark_count;
        uint64_t single_reads, single_bytes;                //  of a pack's samples, each by itself
        reads_t reads;
    } counts;
    //  What its clients are told, as notices (docs/protocol.md has their kinds): bad.c `unreadable`,
    //  sharing.c `little_shared`, patience.c `storage`; of a rank client_life.c `rank_lost`.
    struct {
        roaring_bitmap_t *unreadable;   //  samples of its data;
        uint64_t unreadable_told;       //  of how many its clients have been told,
        int64_t unreadable_ms;          //  and since when there are some; 0: not noticed yet
        char *little_shared;            //  of SEND_NOTICE; NULL: none so far
        uint64_t failing_reads;         //  number of its data set's last notice of failing reads that it was
                                        //  sent (patience.h)
    } told;
};

//  For the driver.
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
void job_each (broker_t *self, void (*visit) (void *context, job_t *job), void *context);
//  NULL: no such job, or it is over.
job_t *job_of_id (broker_t *self, uint64_t id);
//  The same by job name, which is unique within a tenant (NULL: the first one); an empty name finds no job.
job_t *job_named (const broker_t *self, const tenant_t *tenant, const char *name);

//  For the broker alone.
void job_move (job_t *self, job_state_t state);
void job_batch_move (batch_t *self, slot_state_t state);
static inline bool
job_has_ended (const job_t *job)
{
    return job->state >= JOB_ENDING;
}
//  The server ends the job, for a reason (static) with a message in printf's format; or its clients have
//  gone.  Idempotent.
void job_end (job_t *job, const char *reason, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
void job_go (job_t *job);
//  ACTION_SEND_NOTICE or ACTION_SEND_ENDED to each rank that is there.
void job_tell_ranks (job_t *job, action_kind_t kind, const char *reason, const char *message);
//  Each rank's first free place in its ring, for its part of the step in the slot; all have one
//  (free_places).
void job_take_places (job_t *job, uint32_t slot);
//  After parts of all ranks were released, kept or given back, or a slot has become free.
void job_measure_places (job_t *job);
//  There may be something to send to the job's ranks.
void job_mark_delivery (job_t *job);
static inline bool
job_has_parts (const job_t *job)
{
    return job->asked.parts.nodes > 1;
}
//  With parts: the batches of an epoch, on all nodes alike.
static inline uint64_t
job_epoch_batches (const job_t *job, uint64_t epoch)
{
    return epoch == job->asked.first_epoch? job->asked.first_batches: job->asked.later_batches;
}
//  The slot of the batch at this place among those that are not sent, in drawn order.
static inline uint32_t
job_unsent_slot (const job_t *job, uint32_t place)
{
    return job->draw.order_of [(job->draw.order_first + place) % WIRE_SLOTS_MAX];
}
//  The epoch of the next batch to be sent.
uint64_t job_sending_epoch (const job_t *job);
//  Ends a job without an open epoch, because the server begins no more epochs.
bool job_is_between_epochs (const job_t *job);

//  ---- how jobs end (life/job_life.c).  A job is marked to end while an event is handled, and swept at the
//  event's end.

//  Once a turn, if the broker drains: marks the jobs without an open epoch.  First in the next turn, when the
//  driver has carried out their last actions: ends them.
void job_life_mark_drained (broker_t *self);
void job_life_end_drained (broker_t *self);
//  Emits ACTION_RECLAIM for a job that is over, once no worker writes for it.
void job_life_reclaim_when_still (broker_t *self, job_t *job);
//  Takes the marked jobs out of everything: their clients are told, and nothing of them is drawn, read or
//  sent any more.
void job_life_sweep (broker_t *self);
//  At the end of an event or a turn: delivers and sweeps until no job is marked.
void job_life_settle (broker_t *self);
void job_life_check (const broker_t *self);

#endif

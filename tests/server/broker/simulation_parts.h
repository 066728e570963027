/*  simulation_parts -- the simulation's structures, for the files that make it up: simulation.c (time,
 *  workers, disks), simulation_clients.c (what clients see and do), simulation_ranks.c (jobs of several
 *  ranks).  No other file includes this.
 */
#ifndef SIMULATION_PARTS_H
#define SIMULATION_PARTS_H
#include "dataset.h"
#include "job.h"
#include "pipeline.h"
#include "simulation.h"

enum { CLIENTS_MAX = 512, GROUPS_MAX = 128, HEAP_MAX = 1 << 16, WAITING_MAX = 2 * WIRE_SLOTS_MAX, BREAKS = 3,
    DISKS = 4, SERVED_MAX = 256, AHEAD_WAITING_MAX = 1024, AHEAD_LOOK_US = 2000 };

typedef enum { EVENT_READ, EVENT_FETCHED, EVENT_PREPARED, EVENT_COPIED, EVENT_SIDE_TASK, EVENT_CONSUME,
    EVENT_AHEAD, EVENT_LOOKED, EVENT_TICK } event_kind_t;

//  A data set; the broker's user.
typedef struct {
    simulation_t *simulation;
    size_t scale;               //  of a pack: its samples are so many times as large
    dataset_t *dataset;         //  NULL: gone
    bool is_removed, is_held;
    bool is_copy;               //  of a folder
} served_t;

typedef struct {
    const served_t *served;     //  READ, FETCHED, PREPARED, COPIED, AHEAD
    int64_t at_us;
    uint64_t order;             //  of equal times: first come, first served
    event_kind_t kind;
    version_t *version;
    uint32_t id;                //  AHEAD
    batch_row_t *row;
    raw_request_t *request;
    tenant_t *tenant;           //  ERRAND
    uint32_t charged_us;        //  ERRAND
    int64_t worker_us;          //  PREPARED, COPIED, ERRAND: what it took; 0: not told
    int client;
} event_t;

//  One connection: a plain job's, or that of one rank of a group.
typedef struct {
    simulated_job_t options;
    const pipeline_t *pipeline;
    job_t *job;                 //  NULL: over
    rank_t *rank;               //  NULL: over, for this client
    const served_t *served;
    uint64_t id;
    bool stopped, finished;
    const char *ended;          //  the server's reason; NULL: it did not end the job
    char *message;
    char *notice;               //  the text of "little_shared"; NULL: none came
    wire_batch_t waiting [WAITING_MAX];
    size_t waiting_first, waiting_count;
    bool busy;                  //  holds a batch
    bool overdue;               //  would have released it, but is stopped
    uint64_t next_sequence, next_epoch, next_index;
    uint64_t slots_used;        //  bits
    uint64_t for_ever;          //  of these: options.kept_for_ever
    uint32_t *written;          //  each row of each slot, and of what is in none: the id that a worker wrote,
                                //  plus one; 0: nothing since it was sent
    wire_progress_t progress;
    seen_epoch_t *epochs;       //  of a rank: what all ranks got, from the steps
    size_t epoch_count;
    uint32_t *occurrences;      //  of each id in the epoch being received
    struct { uint64_t epoch; uint32_t count; } *received;       //  each batch
    size_t received_room;
    char run [WIRE_RUN_BYTES + 1], instance [WIRE_RUN_BYTES + 1];
    //  of a rank
    int group;                  //  -1: a plain job's
    uint32_t number;
    size_t next_record;         //  of its group's, the first that it has not got
    size_t late_records;        //  those before it were sent to others already, when it joined
    bool is_attached, is_inline, is_gone, is_silent;
    bool dies_at_send, died_now;        //  since the broker was last asked what to do
    char *rank_notice;          //  the last text of "rank_lost"
    uint32_t rank_notices;
    char *unreadable;           //  the last text of "unreadable"
    uint32_t storage_notices;
    uint32_t unreadable_notices;
    uint32_t paddings;
} client_t;

//  A job of several ranks.
typedef struct {
    simulated_job_t options;
    job_t *job;                 //  NULL: over
    int clients [WIRE_RANKS_MAX];       //  the newest of each rank
    simulated_state_t begin;    //  where the records begin
    broker_record_t *records;   //  steps and epochs' ends in the order in which they were sent; the steps are
                                //  the group's
    size_t count, room;
    uint64_t remaining;         //  samples of the epoch that is being sent: what has not been
} group_t;

struct simulation {
    simulation_options_t options;
    broker_t *broker;
    dataset_t *dataset;         //  the first one
    served_t served [SERVED_MAX];
    int served_count;
    int64_t now_us;
    event_t heap [HEAP_MAX];
    size_t heap_count;
    uint64_t orders;
    int64_t *worker_free_us;
    bool side_tasks_go_on;      //  a tenant that has had one wants another
    client_t clients [CLIENTS_MAX];
    int client_count;
    group_t groups [GROUPS_MAX];
    int group_count;
    refusal_t refusal;
    size_t memory_peak;
    uint64_t settles, checks;   //  checks: which turns are checked, at random
    random_t runs;
    //  kept files
    simulated_ahead_t ahead;
    roaring_bitmap_t *ahead_reading, *jobs_reading;     //  samples of which the source is being read
    version_t *ahead_waiting [AHEAD_WAITING_MAX];       //  for what is being read ahead
    size_t ahead_waiting_count;
    size_t ahead_looking;                               //  of ahead_reading, not submitted yet
    //  a pack
    uint32_t *pack_order, breaks [BREAKS];
    int64_t disk_free_us [DISKS];
    size_t raw_peak;
    uint64_t samples_read;
};

//  What a client asks for, and what that lends.
typedef struct {
    broker_terms_t join;
    const pipeline_t *pipeline;
    roaring_bitmap_t *subset;
    char fresh_run [WIRE_RUN_BYTES + 1], data [WIRE_DATA_BYTES + 1];
} simulated_ask_t;

//  ---- simulation.c
void simulation_push (simulation_t *self, event_t event);
//  Carries out what the broker has said so far.
void simulation_drain (simulation_t *self);

//  ---- simulation_clients.c
void clients_ask (simulation_t *self, const simulated_job_t *job, simulated_ask_t *ask);
void clients_ask_clear (simulated_ask_t *ask);
//  A new client of the rank, which stands there (NULL: at the beginning); it takes over the ask's pipeline,
//  once only.
client_t *clients_add (simulation_t *self, const simulated_job_t *job, simulated_ask_t *ask, rank_t *rank,
    const simulated_state_t *from);
void clients_attach (simulation_t *self, client_t *client);
//  A worker is to write for it: into a slot that it does not hold, and what its order says.
void clients_check_copy (simulation_t *self, client_t *client, const batch_row_t *row);
void clients_copied (client_t *client, const batch_row_t *row);
void clients_receive (simulation_t *self, client_t *client, const action_t *action);
void clients_receive_end (simulation_t *self, client_t *client, const wire_epoch_end_t *end);
void clients_take (simulation_t *self, int number);
void clients_release (simulation_t *self, int number);
void clients_free (client_t *client);
//  Of a list: the least number of its places that hold so many readable samples.
size_t clients_places (const simulation_t *self, const simulated_job_t *job, uint64_t samples);

//  ---- simulation_ranks.c
int ranks_join (simulation_t *self, const simulated_job_t *job);
//  A batch for a rank.  Its rows hold these ids, which must be the rank's part of the step.
void ranks_receive (simulation_t *self, client_t *client, const action_t *action, const uint64_t *ids,
    uint32_t count);
void ranks_receive_end (simulation_t *self, client_t *client, const wire_epoch_end_t *end);
//  What is copied for it, into no slot, must be of the step that it lacks next.
void ranks_check_late_copy (simulation_t *self, const client_t *client, const batch_row_t *row);
//  A turn is over: all ranks must have got the same.
void ranks_settled (simulation_t *self);
void ranks_over (simulation_t *self, const job_t *job);
void ranks_free (group_t *group);

#endif

/*  simulation -- drives the real broker with made-up clients, workers and time, from one seed.
 *
 *  Workers take the versions in the order in which they are handed out, and take as long as cost_us says for
 *  each id; clients take a batch, hold it for as long as its samples last at their speed, and release it.
 *  Every batch is checked as it arrives: sequence, epoch, index, slot not in use, ids of the job's data, none
 *  twice. broker_check () runs after many events (check).
 *  A client may go on where an earlier one, here or in another simulation, has stopped: then "twice" and the
 *  ends of epochs are judged over both.
 *
 *  A job of several ranks has a client for each rank, numbered one after the other. What such a client has
 *  seen (simulation_epoch, simulation_state) are the steps, as the frames tell them: the same for all ranks,
 *  which is checked, like the form of each step, that a rank's own rows are its part of it, and B8. A rank
 *  that comes back is a new client.
 *  simulation_ranks.c.
 *
 *  Further data sets, with as many samples, come and go at any time.  One that was removed must be told once
 *  (dataset_next_removed), and not while a worker, a disk or a job has anything of it.
 */
#ifndef SIMULATION_H
#define SIMULATION_H
#include "broker.h"
#include "dataset.h"
#include "job.h"
#include "random.h"
#include "tenant.h"

typedef struct simulation simulation_t;

typedef struct {
    uint64_t seed;
    uint32_t samples;
    size_t cache_versions;      //  budget, in versions of one pixel
    uint32_t workers;
    uint32_t gather_ms;
    sampler_policy_t policy;
    broker_bad_t on_bad;
    size_t jobs_bytes;          //  budget of jobs; 0: no end of it
    size_t descriptors;         //  for ranks' connections; 0: no end of them
    bool check;                 //  broker_check () after four events in ten, at random; with all rounds
                                //  (effort.h) after every event
    int64_t (*cost_us) (void *context, uint32_t id);    //  of preparing; NULL: 100
    int64_t (*prepare_us) (void *context, broker_t *broker, const version_t *version);  //  instead of cost_us
    //  Copies take workers, too, in the order in which tasks are handed out, so long; and what tasks took is
    //  told.  NULL: copies take copy_us, side by side, and nothing is told.
    int64_t (*copying_us) (void *context, const batch_row_t *row);
    //  Beside the operator, from number 1 on; may use the data.
    const broker_tenant_t *tenants;
    size_t tenant_count;
    int64_t fetch_us;                                   //  of reading a plain file before it, all at once
    int64_t (*fetch_cost_us) (void *context, const version_t *version);         //  instead
    //  The plain files of the first data set are kept on a local disk, and read ahead: so many reads at once,
    //  with the jobs' own, and room for so many samples.  0: not.
    size_t ahead_depth;
    size_t kept_max;
    bool (*is_aside) (void *context, int64_t now_us);   //  the local disk does not answer; NULL: it does
    int64_t side_task_us;                               //  with copying_us: what simulation_side_task's
                                                           //  take
    int64_t copy_us;                                    //  0: 5
    bool (*readable) (void *context, uint32_t id);      //  NULL: all are
    //  of the readable; NULL: all do
    bool (*suits) (void *context, const broker_t *broker, const version_t *version);
    //  A pack, if raw_bytes is not 0: in an order of its own, breaks near every third of it.  Reads take
    //  read_us (NULL: 300) each, four at once, and finish in any order; damaged samples' bytes never match.
    size_t raw_bytes;
    bool is_folder;             //  nevertheless: only data sets that are added are packs
    raw_policy_t tier;
    uint32_t piece;
    size_t sample_bytes;                                //  on average; sizes differ
    bool avoids_gaps;                                   //  reading more than is needed is slower than reading
                                                        //  the samples one by one
    size_t (*bytes_of) (void *context, uint32_t id);    //  the sizes instead; NULL: made up
    int64_t (*read_us) (void *context, const raw_request_t *request);
    int (*read_rc) (void *context, const raw_request_t *request);       //  -errno: this read fails; NULL:
                                                                        //  none does
    void (*answer) (void *context, raw_request_t *request);     //  adds what it brought from elsewhere; NULL:
                                                                //  all of it is the source's
    bool (*damaged) (void *context, uint32_t id);
    //  -errno: reading the sample fails now, by itself or with others; NULL: none does.
    int (*unread_rc) (void *context, uint32_t id, int64_t now_us);
    uint32_t patience_ms;                               //  0: as without
    //  each copy; NULL: not
    void (*copied) (void *context, broker_t *broker, int client, const batch_row_t *row);
    void *context;
} simulation_options_t;

typedef struct {
    const char *tenant;         //  its name; NULL: the operator
    const char *dataset;        //  its name, lent while the simulation lives; NULL: the first one
    const char *pipeline;       //  JSON; NULL: a random crop to one pixel, shared.  Without a mark it meets
                                //  those present
    uint32_t batch_size, slots;
    size_t slot_bytes;          //  0: 4096
    uint64_t epochs;
    bool drop_last;
    sampler_order_t order;
    uint64_t seed;
    bool order_is_of_seed;
    uint32_t pool;              //  SEEDED over a pack
    uint32_t from, to;          //  data: ids from .. to-1; both 0: all
    const uint32_t *list;
    size_t list_count;
    int64_t sample_us;          //  the client's pace; 0: it consumes at once
    int64_t first_us;           //  the first batch is held so much longer: puts jobs out of phase
    const struct simulated_state *state;        //  where it goes on, copied; NULL: at the beginning
    const char *instance, *job_name;    //  these are lent while it joins; the name of ranks while the
                                        //  simulation lives
    const char *run;            //  NULL: the state's, if there is one
    uid_t uid;
    bool detached;              //  it does not take its ring yet: simulation_attach
    bool is_inline;             //  it asks for its batches as frames
    bool keeps;                 //  every third batch until it is done with the next one
    uint32_t kept_for_ever;     //  so many batches, by each rank those of other steps: by 0 the first, ..
    //  of several ranks
    uint32_t world_size;        //  0, 1: a plain job
    uint32_t rank_wait_seconds;
    bool on_bad_given;          //  else the data set's counts
    broker_bad_t on_bad;
    const int64_t *rank_us;     //  pace of each rank, instead of sample_us; lent while it joins
    const char *const *instances;       //  of each rank; NULL: made up.  Lent while it joins
    //  of several nodes, each a simulation of its own; not of a list
    uint32_t nodes, node;       //  0, 1: one node
    bool parts_fixed;
    const struct simulated_state *cut;  //  where the parts of the state's epoch were made; NULL: at its begin
    const struct simulated_standing *standing;  //  where the ranks of an earlier job stood, instead of state
} simulated_job_t;

//  Where a client stands: all that it has consumed.
typedef struct simulated_state {
    uint64_t epoch, batches;
    uint64_t samples;           //  of the epoch
    size_t places;              //  of a list
    roaring_bitmap_t *taken;    //  NULL: a list's
    char run [WIRE_RUN_BYTES + 1];
} simulated_state_t;

//  Where the ranks of a job stood, each for itself; a record is a step or an epoch's end.
typedef struct simulated_standing {
    const simulation_t *simulation;
    int client;                 //  any rank of that job
    const size_t *records;      //  of each rank: how many it has got
    size_t recent_count;        //  the last so many of the furthest are told
} simulated_standing_t;

//  One finished or unfinished epoch as the client saw it.
typedef struct {
    uint32_t *ids;
    size_t count;
    uint64_t batches;
    size_t before_count, before_batches;        //  consumed by the clients that it goes on with
    size_t before_places;       //  of a list
    roaring_bitmap_t *before;   //  their ids; NULL: none, or a list's
    bool ended;                 //  EPOCH_END came
    uint64_t told_samples;      //  what it said
} seen_epoch_t;

simulation_t *simulation_new (const simulation_options_t *options);
//  For options.readable: context is a uint64_t, bit i of which is set where sample i cannot be read.
bool simulation_is_readable (void *context, uint32_t id);
void simulation_destroy (simulation_t **self_p);
broker_t *simulation_broker (simulation_t *self);
dataset_t *simulation_dataset (simulation_t *self);
int64_t simulation_now_us (const simulation_t *self);
//  Adds a data set, which all tenants may use or the operator alone; its number, which no other gets (the
//  first one's is 0), or -1: there is no memory for the pack.  Every fourth pack has larger samples.
int simulation_add_dataset (simulation_t *self, const char *name, bool is_pack, bool is_for_all);
//  The first data set, a folder (is_folder), is read in pieces from now on.  False: there is no memory for
//  it.
bool simulation_reads_in_pieces (simulation_t *self);
void simulation_remove_dataset (simulation_t *self, int number);
//  Holds it, which it may be once at a time, or gives the hold back.
void simulation_hold_dataset (simulation_t *self, int number, bool is_held);
//  Whether the broker has told that it is gone.
bool simulation_dataset_is_gone (const simulation_t *self, int number);
//  A whole number of the broker's status, by its key.
uint64_t simulation_figure (simulation_t *self, const char *key);

//  A client joins now; its number, or -1 when the broker refused (the reason is in simulation_refusal).  Of
//  several ranks: that of rank 0, the others follow.
int simulation_join (simulation_t *self, const simulated_job_t *job);
//  The same; a refusal fails the test.
int simulation_must_join (simulation_t *self, const simulated_job_t *job);
const refusal_t *simulation_refusal (const simulation_t *self);
//  The client leaves or dies; it stops or goes on consuming.
void simulation_gone (simulation_t *self, int client);
//  The same as the broker tells them apart: it leaves, or is lost.
void simulation_leave (simulation_t *self, int client);
void simulation_lose (simulation_t *self, int client);
//  It is lost as soon as something is sent to it, in the middle of what the broker has to say.
void simulation_dies_at_send (simulation_t *self, int client);
//  An inline client gives no sign of life from now on.
void simulation_silence (simulation_t *self, int client);
//  It does not take its ring until now.
void simulation_attach (simulation_t *self, int client);
//  Where it stands, for a client that joins later; ended by simulation_state_clear.
void simulation_state (const simulation_t *self, int client, simulated_state_t *state);
void simulation_state_clear (simulated_state_t *state);
//  The same after so many of the batches that it has received; of a rank: after so many records.
void simulation_state_after (const simulation_t *self, int client, uint64_t batches,
    simulated_state_t *state);
void simulation_state_at (const simulation_t *self, int client, size_t records, simulated_state_t *state);
//  Batches that it has consumed.
uint64_t simulation_consumed (const simulation_t *self, int client);
//  Its job's number, and its job; NULL: over.
uint64_t simulation_job_id (const simulation_t *self, int client);
job_t *simulation_job (const simulation_t *self, int client);
void simulation_stop (simulation_t *self, int client);
void simulation_continue (simulation_t *self, int client);

//  A rank comes back as a new client.  If it is accepted, *client_p is the new client's number.
typedef struct {
    size_t records;             //  it has got so many
    const char *instance;       //  NULL: that of the rank's last client
    const char *run;            //  NULL: not said
    bool detached, is_inline;
    int64_t sample_us;          //  its pace from now on
    const simulated_job_t *job; //  what it asks for; NULL: what the job asked for
} simulated_return_t;
broker_return_t simulation_return (simulation_t *self, int client, const simulated_return_t *how,
    int *client_p);
//  How many records a rank has got; how many its job has sent; one of them.
size_t simulation_records (const simulation_t *self, int client);
size_t simulation_records_sent (const simulation_t *self, int client);
const broker_record_t *simulation_record (const simulation_t *self, int client, size_t record);
//  The newest client of a rank of the client's job.
int simulation_rank (const simulation_t *self, int client, uint32_t rank);
bool simulation_is_there (const simulation_t *self, int client);
const char *simulation_instance (const simulation_t *self, int client);
//  How often a rank was told of others that were lost, and what it was told last (NULL: nothing).
uint32_t simulation_rank_notices (const simulation_t *self, int client, const char **message_p);
//  How many of its batches were padding.
uint32_t simulation_paddings (const simulation_t *self, int client);
//  What the job would ask of the broker, for calls by hand; ended by simulation_asked_clear.
const broker_terms_t *simulation_asked (simulation_t *self, const simulated_job_t *job);
void simulation_asked_clear (const broker_terms_t *join);

//  The tenant asks for so many side tasks at once, and for another whenever one is done.
void simulation_side_tasks (simulation_t *self, const char *tenant, uint32_t count);
//  Lets time pass until then, or until nothing happens any more (true).
bool simulation_run (simulation_t *self, int64_t until_us);

bool simulation_finished (const simulation_t *self, int client);    //  the last epoch has ended
bool simulation_ended (const simulation_t *self, int client);       //  the server ended the job
//  Why it ended it, lent while the simulation lives; NULL: it did not.
const char *simulation_reason (const simulation_t *self, int client, const char **message_p);
//  What it was told of "little_shared", lent while the simulation lives; NULL: nothing.
const char *simulation_notice (const simulation_t *self, int client);
//  How often it was told that reads of its data fail.
uint32_t simulation_storage_notices (const simulation_t *self, int client);
//  How often it was told that samples of its data cannot be read, and what last (NULL: it was not).
uint32_t simulation_unreadable_notices (const simulation_t *self, int client, const char **message_p);
size_t simulation_epochs (const simulation_t *self, int client);
const seen_epoch_t *simulation_epoch (const simulation_t *self, int client, size_t epoch);
//  A finished epoch has every sample of from .. to-1 once, over all clients that went on with it (none twice
//  was checked on arrival).
void simulation_assert_permutation (const seen_epoch_t *epoch, uint32_t from, uint32_t to);
//  All finished epochs of the client are what its job asked for: its list, or a permutation of its data.
void simulation_assert_epochs (simulation_t *self, int client, const simulated_job_t *job);
//  With ahead_depth.
typedef struct {
    uint32_t *reads;            //  of each sample, how often the source was read for it
    roaring_bitmap_t *kept;     //  samples on the local disk
    uint64_t ahead, ahead_failed;       //  samples that were read ahead, or were to be
    uint64_t jobs_twice;        //  reads that a job began while another read the sample
    size_t reading, reading_most;       //  those under way, now and at most
    size_t under_way, under_way_most;   //  all reads of the source
} simulated_ahead_t;
const simulated_ahead_t *simulation_ahead (const simulation_t *self);
uint64_t simulation_prepared (simulation_t *self);
uint64_t simulation_delivered (simulation_t *self);
size_t simulation_memory_peak (const simulation_t *self);           //  bytes of versions
size_t simulation_raw_peak (const simulation_t *self);              //  bytes of compressed samples
uint64_t simulation_samples_read (const simulation_t *self);        //  of a pack, each time
const uint32_t *simulation_pack_order (const simulation_t *self);   //  the id at each position; lent

#endif

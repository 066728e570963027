/*  dataset -- samples that are served under a name, in files of their own or in a pack.
 *
 *  Data sets are added and removed at any time, while jobs run on others.
 *
 *        dataset_add            dataset_remove             dataset_next_removed
 *      vacant -> served -------------------------> removed -------------------> vacant
 *                           its jobs end,            nothing uses
 *                           its name is free         it any more
 *
 *  The limits of tasks and reads in flight (budget_tasks_most, budget_reads_most) hold for whatever is added:
 *  if there are more data sets than were added before the first turn, and more than a few, each has its part
 *  of them.
 *
 *  The members are for server/broker alone.
 */
#ifndef DATASET_H
#define DATASET_H
#include "broker.h"
#include "raw_store.h"
#include "sampler.h"

//  What happens to a job when a sample of its data cannot be read.
typedef enum {
    BROKER_BAD_DROP,                //  the sample leaves the job's data, and the job is told (NOTICE
                                    //  `unreadable`)
    BROKER_BAD_FAIL                 //  the job ends, and no job with that sample may join
} broker_bad_t;

//  What the broker must know of a pack, or of a folder's copy that is read like one, to decide what is read
//  when; all lent for the data set's life.
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
    //  Bytes from the first one at position `first` to the last at position first + count - 1, where samples
    //  do not lie close together; NULL: they do.
    size_t (*range_bytes) (void *user, uint32_t first, uint32_t count);
    void *user;
    bool is_copy;                   //  of a folder, on this server's disk: another server may have another
                                    //  order, so that no job's own order may follow it
    raw_policy_t policy;
    uint32_t chunk;                 //  samples
    size_t read_bytes_max;          //  of one read, if it is of several samples
} broker_pack_t;

typedef struct {
    uint32_t id;
    char *reason;
} bad_sample_t;

//  So many bad samples are kept with their reason, and shown by status.  If a bad sample ends jobs of the
//  data set, all are kept; otherwise the first ones of each job, up to the greater number.
enum { BAD_NAMED_MAX = 100, BAD_KEPT_MAX = 4096, BAD_OF_JOB_MAX = 10 };

enum { PATIENCE_REASON_BYTES = 512 };

typedef struct resting resting_t;

typedef struct {
    resting_t *first, *last;
    size_t count;
} resting_list_t;

//  What a data set knows of its reads that failed and may not fail again; patience.c changes it.  Nothing but
//  zeros at first.
typedef struct {
    resting_list_t failing;             //  failed reads, in the order of their failures
    resting_list_t held;                //  reads held back while the data set is stopped
    uint32_t row;                       //  different reads that failed since the last success
    bool is_still;
    int64_t still_ms;                   //  since then
    bool is_hopeless;                   //  too many have failed for too long
    bool is_replaced;                   //  the data are not those that were there at the start
    uint32_t rounds;                    //  of probes
    uint32_t probes;                    //  how many may be made now
    int64_t probe_ms;                   //  when the next ones are due
    int64_t counted_ms;                 //  a read's failures before this time are forgotten
    //  what log and jobs are told
    bool is_trouble;                    //  since its first failure, until a while after the last one:
    int64_t since_ms, failed_ms;        //  when these were
    bool was_good;                      //  a read has succeeded since then
    int told;                           //  the last level that the log reported
    bool to_tell;
    char reason [PATIENCE_REASON_BYTES];        //  of the last failure; names the file
    int rc;                             //  its -errno
    char *notice;                       //  what jobs are told,
    uint64_t notices;                   //  and its number
} patience_t;

typedef struct raw_prefetch raw_prefetch_t;     //  raw_prefetch.h
typedef struct fetch_ahead fetch_ahead_t;       //  fetch_ahead.c
typedef struct sharing_picture sharing_picture_t;       //  sharing_view.c

struct dataset {
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t number;                        //  no other data set has it
    bool is_removed;
    size_t holds;                           //  dataset_hold
    raw_prefetch_t *prefetch;               //  NULL: plain files, read one by one
    bool has_files;                         //  versions may be read so: of plain files, and of their copy, if
                                            //  they were under way when it began to be read
    fetch_ahead_t *ahead;                   //  NULL: nothing of it is read before it is drawn, but of packs
    size_t fetching, fetch_max;             //  versions with plain files being read; dataset_set_fetches
    uint32_t samples;
    broker_bad_t on_bad;
    void *user;
    sampler_t *sampler;
    job_t *jobs [SAMPLER_JOBS_MAX];         //  by number in the sampler
    bad_sample_t *bad;                      //  in the order in which they were found
    size_t bad_named, bad_room, bad_told;   //  told: dataset_next_bad
    patience_t patience;
    sharing_picture_t *pictures;            //  sharing trees that were told lately
};

//  How many more may be added.  Removed ones count until dataset_next_removed tells.
size_t dataset_places (const broker_t *self);
//  Serves sample_count samples under a name (copied), which no data set has that is not removed.  on_bad: for
//  jobs that do not choose one.  user is the driver's, untouched.
dataset_t *dataset_add (broker_t *self, const char *name, uint32_t sample_count, broker_bad_t on_bad,
    void *user);
//  Makes a new data set a pack, or has a folder's copy read from now on (broker_pack_t): the jobs that are
//  there go on in their epochs, with what is read in pieces.  False, and nothing changes: options.raw_bytes
//  is too small, below *least_p, for it, or for it beside the packs of the jobs that are there.
bool dataset_set_pack (broker_t *self, dataset_t *dataset, const broker_pack_t *pack, size_t *least_p);
//  No job may join it from now on, its name is free at once, and its jobs end (`removed`).  When nothing uses
//  it any more, dataset_next_removed tells.
void dataset_remove (broker_t *self, dataset_t *dataset);
//  Its jobs that are not over.
size_t dataset_jobs (const dataset_t *self);
//  A removed data set that no job, version, read or task uses any more, nor the driver by dataset_hold: it is
//  freed, and *user_p is the driver's again.  False: none.
bool dataset_next_removed (broker_t *self, void **user_p);
//  The driver uses the data set or its user beside the broker's actions, until it gives this hold back: for a
//  join that waits (which is refused when the data set was removed meanwhile), or a side task.
void dataset_hold (dataset_t *self);
void dataset_let_go (dataset_t *self);
//  NULL: no such name, or this tenant (NULL: any) may not use it.  The tenant cannot tell the two apart.
dataset_t *dataset_named (broker_t *self, const tenant_t *tenant, const char *name);
//  "train, val": the data sets that the tenant may use, for error messages; malloc'ed, the caller's.
char *dataset_names (const broker_t *self, const tenant_t *tenant);
void *dataset_user (const dataset_t *self);
uint32_t dataset_samples (const dataset_t *self);
const char *dataset_name (const dataset_t *self);
//  The shared stages (pipeline_shared_text) of the tenant's jobs on the data set, as far as a job of this
//  order could share versions with them: each once, at most texts_max.  Lent until the next join or end of a
//  job.  Returns how many.
size_t dataset_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max);
//  From now on so many samples of the folder are worth reading at once.  With one tenant the broker reads so
//  many, at most BROKER_FETCHES_MAX and at least enough to keep the workers busy; with several tenants, just
//  enough for that.
enum { BROKER_FETCHES_MAX = 160 };
void dataset_set_fetches (broker_t *self, dataset_t *dataset, size_t most);
dataset_t *dataset_of_request (const broker_t *self, const raw_request_t *request);

//  A sample that was found bad and has a name (a data set that drops bad samples names the first 100).  Each
//  is reported once; false: no further one.  reason is lent until the data set is gone.  Nothing is reported
//  of removed data sets.
bool dataset_next_bad (broker_t *self, dataset_t **dataset_p, uint32_t *id_p, const char **reason_p);

//  Reads of a data set have failed for a while, or succeed again.  Each change is reported once, none of a
//  removed data set; false: nothing new.
typedef struct {
    dataset_t *dataset;
    bool is_over;
    bool is_still;                  //  the storage is at fault, so reads of the data set pause
    const char *reason;             //  of the last failure; lent until the next event
    int64_t lasted_ms;              //  from the first failure to the last one
    int64_t patience_ms;
} broker_trouble_t;
bool dataset_next_trouble (broker_t *self, broker_trouble_t *trouble);

#endif

/*  tenant -- users that share rights and limits; what they may have, and have.
 *
 *  The members are for server/broker alone.
 */
#ifndef TENANT_H
#define TENANT_H
#include "broker.h"
#include "waits.h"

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
} tenant_wants_t;

//  How often something happened.
typedef struct {
    const char *what;                       //  static; NULL: this entry and all later ones are unused
    uint64_t count;
} tenant_counter_t;

enum { COUNTERS_MAX = 32 };

//  What a tenant has.
typedef struct {
    size_t jobs;                            //  not over
    size_t on_dataset [BROKER_DATASETS_MAX];        //  of these, on each
    size_t ranks;                           //  of these
    size_t jobs_bytes;                      //  theirs
    size_t dying_bytes;                     //  of jobs that are over but still written by a worker
    size_t outside_jobs, outside_bytes;     //  tenant_outside
    size_t tiers, tier_least;               //  raw_prefetch.c: how many serve its jobs; bytes that one tier
                                            //  needs at least
    size_t lookahead_reserved;              //  bytes for its jobs with a pool, closed to tiers
} tenant_held_t;

struct tenant {
    broker_tenant_t given;
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t number;                        //  its place in the broker's list; 0: the operator
    uint64_t datasets;                      //  a bit for each that it may use
    tenant_wants_t wants;
    tenant_held_t held;                     //  tenant.c's, as are
    tenant_counter_t ends [COUNTERS_MAX];   //  jobs that the server ended, for each reason
    uint64_t jobs_total;
    uint64_t past_delivered;                //  by jobs that are over
    uint64_t prepared;                      //  versions that were made for its jobs, alone or with others'
    uint64_t dropped;                       //  rows that got another sample because theirs was unreadable
    waits_histogram_t waits;                //  of all its jobs' batches
};

//  The broker begins with one tenant, "operator", which may use all data sets.  While it is the only one, it
//  has no limits but the server's.  Call before any job.  tenant_allow gives a further tenant its data sets,
//  each before it has jobs.
tenant_t *tenant_add (broker_t *self, const broker_tenant_t *tenant);
void tenant_allow (broker_t *self, tenant_t *tenant, const dataset_t *dataset);
//  Changes an existing tenant, for instance the first one, before any job.  The name stays.
void tenant_limit (broker_t *self, tenant_t *tenant, const broker_tenant_t *limits);
//  By its name (NULL: the first tenant).  Returns NULL: no such tenant.
tenant_t *tenant_named (broker_t *self, const char *name);
const char *tenant_name (const tenant_t *self);
uint32_t tenant_number (const tenant_t *self);          //  in the order in which they were added, from 0, the
                                                        //  operator's
size_t tenant_total (const broker_t *self);             //  how many there are; 1: only the first
//  The tenant's name for the log; NULL: there is only one.
const char *tenant_label (const broker_t *self, const tenant_t *tenant);
tenant_t *tenant_of_number (broker_t *self, uint32_t number);
bool tenant_may_use (const tenant_t *self, const dataset_t *dataset);   //  tenant NULL: any
//  The tenant's part of something that is divided by weight: at least 1; all tenants' together are no more
//  than the whole, if that is not less than their number.
uint64_t tenant_share (const broker_t *self, const tenant_t *tenant, uint64_t whole);

//  What the tenant has beside its jobs: the number of joins that wait for ranks, and the bytes of those
//  joins, of batches on their way out as messages, and of rings that clients of ended jobs still map.  They
//  count in the budget of jobs, so that peers that read nothing and leave cannot make them pile up.
void tenant_outside (broker_t *self, tenant_t *tenant, size_t jobs, size_t bytes);

//  A side task of a tenant waits for a worker.  ACTION_SIDE_TASK comes at the tenant's turn, and the driver
//  calls tenant_side_task_took when it is done (charged_us: the action's), or tenant_side_task_gives_up
//  before that if the driver ends.
void tenant_side_task_waits (broker_t *self, tenant_t *tenant);
void tenant_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us, uint64_t worker_ns);
void tenant_side_task_gives_up (broker_t *self, tenant_t *tenant);
//  Workers' time charged to the tenant, with its part of tasks that served several tenants; and rows of its
//  jobs that wait for a worker.
uint64_t tenant_worker_ns (const broker_t *self, const tenant_t *tenant);
size_t tenant_waiting (const tenant_t *self);

//  For the broker alone.
//  One more, or one fewer, of the tenant's rows and side tasks waits for a worker.
void tenant_waits (broker_t *self, tenant_t *tenant);
void tenant_waits_no_more (broker_t *self, tenant_t *tenant);
//  Whether there are several tenants: then no tenant may learn anything of another.
bool tenant_limits_apply (const broker_t *self);
tenant_t *tenant_joining (const broker_t *self, const broker_terms_t *join);
//  Whether the tenant may have one more job, of memory_bytes, as if the ghost had left already.
bool tenant_allows_job (const broker_t *self, const broker_terms_t *join, const job_t *ghost,
    size_t memory_bytes, refusal_t *refusal);
//  Whether the tenant's part and limit of the cache are enough for versions of this size.
bool tenant_allows_version (const broker_t *self, const tenant_t *tenant, size_t version_bytes,
    refusal_t *refusal);
//  The number of a new job.
uint64_t tenant_new_job (broker_t *self, tenant_t *tenant);
//  A job has joined, is over, or is freed.
void tenant_job_enters (job_t *job);
void tenant_job_leaves (job_t *job);
void tenant_job_reclaimed (job_t *job);
//  A version is ready: counts it for the tenants of the rows that wait for it.
void tenant_count_prepared (const version_t *version);
void tenant_count_end (tenant_counter_t counters [COUNTERS_MAX], const char *what);
json_t *tenant_status (const broker_t *self, const tenant_t *tenant);
void tenant_check (const broker_t *self);

#endif

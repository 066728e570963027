/*  version -- what the broker knows of one prepared form of a sample (version_index.h): its class, the shared
 *  stage on a data set that makes it; and the rows that wait for it.  Its functions are in row.c.
 */
#ifndef VERSION_H
#define VERSION_H
#include "broker.h"
#include "pipeline.h"
#include "version_index.h"

//  One shared stage on one data set.  It has one version set of the version index, and ends with it.
typedef struct class {
    struct class *next;
    version_set_t *kind;
    const tenant_t *tenant;     //  tenant of the job that it was made for
    dataset_t *dataset;
    const pipeline_t *pipeline;
    uint64_t seed;              //  fresh for each class, so that a class made again gives other pixels
    bool is_apart;              //  of one `seeded` job: seed is the job's, draw numbers are epochs
    size_t version_bytes;       //  budget_version_cost
    double prepare_ns;          //  of a worker, running mean
    const custom_t *custom;     //  the operation of the operator's own in it; NULL: none
} class_t;

//  The version's class.
static inline const class_t *
version_class (const broker_t *self, const version_t *version)
{
    return version_set_user (version_set_of (self->version_index, version));
}

//  What a task needs to know; none of it changes until the task is back.
static inline dataset_t *
version_dataset (const broker_t *self, const version_t *version)
{
    return version_class (self, version)->dataset;
}
static inline const pipeline_t *
version_pipeline (const broker_t *self, const version_t *version)
{
    return version_class (self, version)->pipeline;
}
pipeline_key_t version_key (const broker_t *self, const version_t *version);
//  The sample's compressed bytes, READY or BAD; NULL: the data set is no pack.
static inline const raw_sample_t *
version_raw (const version_t *version)
{
    return version->raw;
}
//  A job that waits for the version, of the tenant if it is not NULL; NULL: none does.  And the tenant that
//  had it prepared, until the task is back.
job_t *version_job (const version_t *self, const tenant_t *tenant);
tenant_t *version_tenant (const broker_t *self, const version_t *version);
//  Whether ACTION_PREPARE, which is not finished, may be: no job wants the version, nor will one from now on.
bool version_abandon (broker_t *self, version_t *version);

//  For the broker alone.
void version_move (version_t *self, version_state_t state);

#endif

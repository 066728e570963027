/*  index_model -- a simple model of the version index, which knows which jobs have used which version and
 *  which tenants pay for it, and checks of the index against it: counts and the reusable set are computed
 *  from scratch.
 *
 *  For tests that are linked as reusable_versions_log.h says.
 */
#ifndef INDEX_MODEL_H
#define INDEX_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sampler.h"
#include "version_index.h"

enum {
    SAMPLES = 24, SAMPLERS = 2, KINDS = 12, JOBS = 14, BUDGET_VERSIONS = 60,
    VERSIONS_MAX = BUDGET_VERSIONS + JOBS, PINS_MAX = 200, TENANTS = 3
};

_Static_assert (SAMPLES <= 64, "the samples that a job has lost are 64 bits");
_Static_assert (JOBS <= 32, "the jobs that have used a version are 32 bits");

typedef struct {
    version_set_t *kind;                //  NULL: none
    int sampler;
    bool is_random, is_apart;
    uint32_t draws [SAMPLES];           //  above all numbers that versions of the sample have had
} model_kind_t;

typedef struct {
    bool there;
    int sampler, kind;
    sampler_order_t order;
    consumer_t consumer;
    bool drawn [SAMPLES];               //  at some time
    uint64_t lost [VERSION_INDEX_LOST_KINDS];   //  bits of samples: a version that could have served it
} model_job_t;

//  An indexed version.  Draw numbers tell random ones apart; of a deterministic sample there may be two, one
//  of them on the reusable set.
typedef struct {
    const version_t *version;
    uint32_t class, id, draw;
    uint64_t drawn_at;
    const model_kind_t *kind;
    uint32_t users;                     //  bits of jobs
    uint32_t user_count;                //  those that are gone included
    bool is_reusable;                   //  a user followed, be it gone
    bool met;                           //  in the present walk over the index
    bool left;                          //  the index, in this step
    bool thinned;                       //  by the present draw
    uint32_t payer;                     //  then
    uint64_t sharers;
} model_version_t;

//  What the step may do to versions, beside evicting them.
typedef enum { STEP_OTHER, STEP_DRAWS, STEP_FORGETS } step_t;

typedef struct {
    uint64_t seed, random;
    version_index_t *version_index;
    sampler_t *samplers [SAMPLERS];
    model_kind_t kinds [KINDS];
    model_job_t jobs [JOBS];
    model_version_t versions [VERSIONS_MAX];
    size_t version_count;
    version_t *pins [PINS_MAX];
    size_t pin_count;
    uint32_t tenants;                   //  how many there are
    bool was_limited [TENANTS];         //  there was a time when it might not have as much as there is
    uint64_t served, scheduled;
    step_t step;
    uint64_t evictions;                 //  seen so far
    version_index_losses_t losses, tenant_losses [TENANTS];
} model_t;

//  What a job had lost of a sample, when it draws it.
typedef struct {
    bool had [VERSION_INDEX_LOST_KINDS];
} had_t;

//  ---- what the model knows

sampler_t *index_model_sampler (const model_t *model, const model_job_t *job);
bool index_model_follows (const model_t *model, const model_job_t *job);
//  NULL: it does not know this version.
model_version_t *index_model_known (model_t *model, const version_t *version);
bool index_model_may_use (const model_t *model, const model_job_t *job, const model_version_t *version);
//  The tenants that are said to share it; if there is only one tenant, that one.
uint64_t index_model_tenants_of (const model_t *model, const model_version_t *version);
//  Whether a job that it may count has it, and has not used it.
bool index_model_is_wanted (const model_t *model, const model_version_t *version);

//  ---- losses

//  For all jobs of this side that might have used it in this epoch, or, if it is not random, in any.
void index_model_note_loss (model_t *model, const model_version_t *version, bool is_reusable,
    uint64_t sharers);
//  A version has left the index.  One that the present draw has entered is not known yet.
void index_model_left (void *context, version_t *version);
//  What the draw has thinned out, when it is known which jobs have used which version: a drop, unless all
//  have.
void index_model_note_thinned (model_t *model);
//  The job draws the sample: whatever was lost, it gets a version now.
had_t index_model_take_lost (model_job_t *job, uint32_t id);
void index_model_note_new (model_t *model, const model_job_t *job, had_t had);

//  The index is what the model says.
void index_model_check (model_t *model);

#endif

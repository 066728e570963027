/*  explain -- what the broker knows of one sample of a job: where it is, and where the random numbers of both
 *  stages come from.
 *
 *  It knows a sample of a drawn batch until draws reuse the batch's slot.  For a job of order `seeded` it
 *  knows every sample of the data in any epoch, because all follows from the seed.  What the operations do to
 *  the sample depends on its size: a worker finds that (explaining.h).  Owner: the broker's thread.  The
 *  result is the caller's, for any thread.
 */
#ifndef EXPLAIN_H
#define EXPLAIN_H
#include <stdbool.h>
#include <stdint.h>
#include "broker.h"
#include "request_explain.h"

typedef struct {
    uint32_t id;
    uint64_t epoch;
    uint32_t version;           //  its draw number
    bool is_version_told;       //  false: jobs of several tenants influence the number, and none may learn of
                                //  another tenant's
    bool is_placed;             //  the job has it in a batch:
    uint64_t index;             //  of the batch, in its epoch
    uint32_t row;               //  of its rank's part, where there are ranks
    uint32_t prepared_for;      //  jobs that the version has served
    bool is_reused;             //  it existed when this job drew the sample
    const pipeline_t *pipeline; //  held
    pipeline_key_t shared_key, private_key;
} explanation_t;

//  False: refusal holds the reason, and there is nothing to clear.  Searches the job's whole window.
bool broker_explain (broker_t *self, job_t *job, const request_explain_t *request, explanation_t *explanation,
    refusal_t *refusal);
void explanation_clear (explanation_t *self);

#endif

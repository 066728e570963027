/*  explain -- what the broker knows of one sample of a job: where it is, and where the random numbers of both
 *  stages come from.
 *
 *  Of a sample in a batch that was drawn and whose slot has not been drawn into anew; of a job of order
 *  `seeded`, whose samples follow from the seed, of any sample of its data in any epoch.  What the operations
 *  do to it is not known here, because it follows from the sample's size: a worker finds that (explaining.h).
 *  Owner: the broker's thread.  What it fills in is the caller's, for any thread.
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
    bool is_version_told;       //  jobs of several tenants may move it, and nobody is to learn of another's
    bool is_placed;             //  the job has it in a batch:
    uint64_t index;             //  that one's, in its epoch
    uint32_t row;               //  of its rank's part, where there are ranks
    uint32_t prepared_for;      //  jobs that the version has served
    bool is_reused;             //  it was there when this job drew it
    const pipeline_t *pipeline; //  held
    pipeline_key_t shared_key, private_key;
} explanation_t;

//  False: refusal says why, there is nothing to clear.  Looks at the job's whole window.
bool broker_explain (broker_t *self, job_t *job, const request_explain_t *request, explanation_t *explanation,
    refusal_t *refusal);
void explanation_clear (explanation_t *self);

#endif

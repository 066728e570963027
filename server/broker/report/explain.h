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
#include "pipeline.h"
#include "reply.h"
#include "request.h"

typedef struct {
    reply_explained_t reply;
    const pipeline_t *pipeline; //  held
    pipeline_key_t shared_key, private_key;
} explanation_t;

//  False: refusal holds the reason, and there is nothing to clear.  Searches the job's whole window.
bool explain_sample (broker_t *self, job_t *job, const request_explain_t *request, explanation_t *explanation,
    int64_t now_ms, refusal_t *refusal);
void explain_clear (explanation_t *self);

#endif

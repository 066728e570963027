/*  identity -- which job or client a join is.  */
#ifndef IDENTITY_H
#define IDENTITY_H
#include "broker.h"

//  Which job a join is, now.
typedef struct {
    job_t *ghost;               //  the job that ends if the join is accepted; NULL: none
    const char *run;            //  of the new job; lent by the join
    bool is_forked;
} identity_t;

//  False: another job has its name.
bool identity_of (const broker_t *self, const broker_terms_t *join, int64_t now_ms, identity_t *identity,
    refusal_t *refusal);
//  Gives the new job this identity, and marks the ghost to be swept.  The job has its id and is not yet in
//  the list.
void identity_take (job_t *job, const broker_terms_t *join, const identity_t *identity);
//  Whether the join says the text and it equals the job's or the rank's.
bool identity_is (const char *said, const char *of_job);
//  Whether any of the job's clients is one of the join's.
bool identity_shares_instance (const job_t *job, const broker_terms_t *join);
//  Refuses a join because the job has its name.  Returns false.
bool identity_refuse_name (const job_t *job, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal);
void identity_check (const broker_t *self);

#endif

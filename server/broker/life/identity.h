/*  identity -- which job a join continues or replaces, and which of its ranks comes back.  */
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
void identity_check (const broker_t *self);

#endif

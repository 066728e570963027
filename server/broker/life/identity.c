//  Identity (docs/protocol.md): which job a join goes on with, and what becomes of that job if it is still
//  there.
//
//      a job of the run that the join names is there:
//          none                                        the new job has the run
//          of the same user and the same instance      it is the ghost of a client that lost its connection
//          of the same user, both of one job name      it is the ghost of a client that was restarted
//          otherwise                                   the run goes on elsewhere: the new job is a fork, with
//                                                      a run of its own
//      a job of the join's job name is there:
//          of the run that the join names, same user   it is the ghost above
//          of the same user and the same instance, and the join names no run
//                                                      it is the ghost of a join that got no answer
//          otherwise                                   the name is taken
//
//  A job that is over does not count, reclaimed or not; nor does another tenant's job.  So a tenant's job
//  names, and another tenant's state that it has obtained, neither affect nor reveal the other's jobs.  The
//  instances of a job, or of a join, are those of all its ranks: one in common is enough.

#include "identity.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "job.h"
#include "tenant.h"

static bool
s_is_there (const job_t *job)
{
    return job->state != JOB_OVER;
}

bool
identity_is (const char *said, const char *of_job)
{
    return said && *said && strcmp (said, of_job) == 0;
}

//  Among the tenant's jobs.
static job_t *
s_with_run (const broker_t *self, const tenant_t *tenant, const char *run)
{
    job_t *job = self->jobs;
    while (job && !(s_is_there (job) && job->tenant == tenant && identity_is (run, job->run)))
        job = job->next;
    return job;
}

job_t *
job_named (const broker_t *self, const tenant_t *tenant, const char *name)
{
    job_t *job = self->jobs;
    tenant = tenant? tenant: self->tenants [0];
    while (job && !(s_is_there (job) && job->tenant == tenant && identity_is (name, job->job_name)))
        job = job->next;
    return job;
}

bool
identity_shares_instance (const job_t *job, const broker_terms_t *join)
{
    for (uint32_t one = 0; one < join->world_size; one++)
        for (uint32_t other = 0; other < job->world_size; other++)
            if (identity_is (join->instances [one], job->ranks [other].instance))
                return true;
    return false;
}

//  When any of its clients was last heard from.
static int64_t
s_alive_ms (const job_t *job)
{
    int64_t alive_ms = job->joined_ms;
    for (uint32_t number = 0; number < job->world_size; number++)
        if (job->ranks [number].alive_ms > alive_ms)
            alive_ms = job->ranks [number].alive_ms;
    return alive_ms;
}

//  Nothing is told of what another user's job does.
bool
identity_refuse_name (const job_t *job, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    if (job->user != join->user)
        return refuse (refusal, "job_taken", "the job name '%s' is another user's at present: take another",
            join->job_name);
    return refuse (refusal, "job_taken",
        "the job name '%s' is that of job %llu on data set '%s', which joined %lld seconds "
        "ago and was last heard of %lld seconds ago: wait until it has ended, go on with its state, or take "
        "another name",
        join->job_name, (unsigned long long) job->id, job->dataset->name,
        (long long) (now_ms - job->joined_ms) / 1000, (long long) (now_ms - s_alive_ms (job)) / 1000);
}

bool
identity_of (const broker_t *self, const broker_terms_t *join, int64_t now_ms, identity_t *identity,
    refusal_t *refusal)
{
    bool has_run = join->run && *join->run;
    const tenant_t *tenant = tenant_joining (self, join);
    job_t *other = s_with_run (self, tenant, join->run), *named = job_named (self, tenant, join->job_name);
    if (other && (other->user != join->user
    ||  !(identity_shares_instance (other, join) || identity_is (join->job_name, other->job_name))))
        other = NULL;                   //  it does not end, whether or not the join is accepted
    if (named && named != other) {
        if (has_run || named->user != join->user || !identity_shares_instance (named, join))
            return identity_refuse_name (named, join, now_ms, refusal);
        other = named;
    }
    bool is_forked = has_run && !other && s_with_run (self, tenant, join->run);
    *identity = (identity_t) { .ghost = other, .run = has_run && !is_forked? join->run: join->fresh_run,
        .is_forked = is_forked };
    return true;
}

static void
s_fence (job_t *ghost, const job_t *job, const broker_terms_t *join)
{
    if (identity_shares_instance (ghost, join))
        job_end (ghost, "fenced",
            "its client has joined anew, as job %llu, because it had lost this connection",
            (unsigned long long) job->id);
    else
        job_end (ghost, "fenced",
            "the job '%s' was started anew, and goes on as job %llu; if this process still "
            "trains, stop one of the two", ghost->job_name, (unsigned long long) job->id);
}

void
identity_take (job_t *job, const broker_terms_t *join, const identity_t *identity)
{
    assert (identity->run && *identity->run);
    snprintf (job->run, sizeof job->run, "%s", identity->run);
    snprintf (job->job_name, sizeof job->job_name, "%s", join->job_name? join->job_name: "");
    job->user = join->user;
    job->is_forked = identity->is_forked;
    if (identity->ghost)
        s_fence (identity->ghost, job, join);
}

void
identity_check (const broker_t *self)
{
    for (const job_t *job = self->jobs; job; job = job->next) {
        if (!s_is_there (job))
            continue;
        assert (*job->run);
        for (const job_t *other = job->next; other; other = other->next)
            if (s_is_there (other) && other->tenant == job->tenant) {
                assert (!identity_is (job->run, other->run));                           //  B7
                assert (!identity_is (job->job_name, other->job_name));                 //  B7
            }
    }
}

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
#include "bad.h"
#include "job.h"
#include "steps.h"
#include "tenant.h"

//  ---- which job a join is

static bool
s_is_there (const job_t *job)
{
    return job->state != JOB_OVER;
}

//  Whether the join says the text, and it is the job's or the rank's.
static bool
s_matches (const char *said, const char *of_job)
{
    return said && *said && strcmp (said, of_job) == 0;
}

//  Among the tenant's jobs.
static job_t *
s_with_run (const broker_t *self, const tenant_t *tenant, const char *run)
{
    job_t *job = self->jobs;
    while (job && !(s_is_there (job) && job->tenant == tenant && s_matches (run, job->asked.run)))
        job = job->next;
    return job;
}

job_t *
job_named (const broker_t *self, const tenant_t *tenant, const char *name)
{
    job_t *job = self->jobs;
    tenant = tenant? tenant: self->tenants [0];
    while (job && !(s_is_there (job) && job->tenant == tenant && s_matches (name, job->asked.job_name)))
        job = job->next;
    return job;
}

//  Whether any of the job's clients is one of the join's.
static bool
s_shares_instance (const job_t *job, const broker_terms_t *join)
{
    for (uint32_t one = 0; one < join->world_size; one++)
        for (uint32_t other = 0; other < job->asked.world_size; other++)
            if (s_matches (join->instances [one], job->ranks [other].instance))
                return true;
    return false;
}

//  When any of its clients was last heard from.
static int64_t
s_alive_ms (const job_t *job)
{
    int64_t alive_ms = job->life.joined_ms;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (job->ranks [number].alive_ms > alive_ms)
            alive_ms = job->ranks [number].alive_ms;
    return alive_ms;
}

//  Nothing is told of what another user's job does.
static bool
s_refuse_name (const job_t *job, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    if (job->asked.user != join->user)
        return refuse (refusal, "job_taken", "the job name '%s' is another user's at present: take another",
            join->job_name);
    return refuse (refusal, "job_taken",
        "the job name '%s' is that of job %llu on data set '%s', which joined %lld seconds "
        "ago and was last heard of %lld seconds ago: wait until it has ended, go on with its state, or take "
        "another name",
        join->job_name, (unsigned long long) job->id, job->dataset->name,
        (long long) (now_ms - job->life.joined_ms) / 1000, (long long) (now_ms - s_alive_ms (job)) / 1000);
}

bool
identity_of (const broker_t *self, const broker_terms_t *join, int64_t now_ms, identity_t *identity,
    refusal_t *refusal)
{
    bool has_run = join->run && *join->run;
    const tenant_t *tenant = tenant_joining (self, join);
    job_t *other = s_with_run (self, tenant, join->run), *named = job_named (self, tenant, join->job_name);
    if (other && (other->asked.user != join->user
    ||  !(s_shares_instance (other, join) || s_matches (join->job_name, other->asked.job_name))))
        other = NULL;                   //  it does not end, whether or not the join is accepted
    if (named && named != other) {
        if (has_run || named->asked.user != join->user || !s_shares_instance (named, join))
            return s_refuse_name (named, join, now_ms, refusal);
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
    if (s_shares_instance (ghost, join))
        job_end (ghost, "fenced",
            "its client has joined anew, as job %llu, because it had lost this connection",
            (unsigned long long) job->id);
    else
        job_end (ghost, "fenced",
            "the job '%s' was started anew, and goes on as job %llu; if this process still "
            "trains, stop one of the two", ghost->asked.job_name, (unsigned long long) job->id);
}

void
identity_take (job_t *job, const broker_terms_t *join, const identity_t *identity)
{
    assert (identity->run && *identity->run);
    snprintf (job->asked.run, sizeof job->asked.run, "%s", identity->run);
    snprintf (job->asked.job_name, sizeof job->asked.job_name, "%s", join->job_name? join->job_name: "");
    job->asked.user = join->user;
    job->asked.is_forked = identity->is_forked;
    if (identity->ghost)
        s_fence (identity->ghost, job, join);
}

//  ---- whether ranks ask for the same

static const char *
s_text (const char *said)
{
    return said? said: "";
}

//  The requests of two ranks.
typedef struct {
    const broker_terms_t *one, *other;
    uint32_t rank, other_rank;
} pair_t;

static bool
s_same_texts (const pair_t *pair, const char *what, const char *one, const char *other, refusal_t *refusal)
{
    return strcmp (one, other) == 0
        || refuse (refusal, "ranks_differ", "the ranks of job '%s' do not ask for the same: "
        "rank %u has %s %s, rank %u %s %s: give all ranks the same", s_text (pair->one->job_name), pair->rank,
        what, one, pair->other_rank, what, other);
}

static bool
s_same_numbers (const pair_t *pair, const char *what, uint64_t one, uint64_t other, refusal_t *refusal)
{
    char texts [2] [24];
    snprintf (texts [0], sizeof texts [0], "%llu", (unsigned long long) one);
    snprintf (texts [1], sizeof texts [1], "%llu", (unsigned long long) other);
    return s_same_texts (pair, what, texts [0], texts [1], refusal);
}

static uint32_t
s_nodes (const broker_terms_t *join)
{
    return join->parts.nodes > 1? join->parts.nodes: 1;
}

//  For values that are too long, or meaningless to people.
static bool
s_same_unsaid (const pair_t *pair, const char *what, const char *one, const char *other, refusal_t *refusal)
{
    return strcmp (one, other) == 0
        || refuse (refusal, "ranks_differ", "the ranks of job '%s' do not ask for the same: "
        "rank %u has another %s than rank %u: give all ranks the same", s_text (pair->one->job_name),
        pair->rank, what, pair->other_rank);
}

static bool
s_has_run (const broker_terms_t *join)
{
    return *s_text (join->run);
}

//  A job without an end has no epochs here, as in its request.
static bool
s_same_epochs (const pair_t *pair, refusal_t *refusal)
{
    char texts [2] [24] = { "null", "null" };
    if (pair->one->epochs)
        snprintf (texts [0], sizeof texts [0], "%llu", (unsigned long long) pair->one->epochs);
    if (pair->other->epochs)
        snprintf (texts [1], sizeof texts [1], "%llu", (unsigned long long) pair->other->epochs);
    return s_same_texts (pair, "epochs", texts [0], texts [1], refusal);
}

//  Compares what determines the steps' shape.
static bool
s_agree_on_steps (const pair_t *pair, refusal_t *refusal)
{
    const broker_terms_t *one = pair->one, *other = pair->other;
    return s_same_texts (pair, "dataset", one->dataset->name, other->dataset->name, refusal)
        && s_same_numbers (pair, "world_size", one->world_size, other->world_size, refusal)
        && s_same_numbers (pair, "batch_size", one->batch_size, other->batch_size, refusal)
        && s_same_numbers (pair, "slots", one->slots, other->slots, refusal)
        && s_same_epochs (pair, refusal)
        && s_same_texts (pair, "drop_last", one->drop_last? "true": "false",
            other->drop_last? "true": "false", refusal)
        && s_same_texts (pair, "on_bad", bad_policy (one)? "fail": "drop", bad_policy (other)? "fail": "drop",
            refusal);
}

//  Compares what determines their content.
static bool
s_agree_on_samples (const pair_t *pair, refusal_t *refusal)
{
    static const char *const orders [] = { "shared", "private", "list", "seeded" };
    const broker_terms_t *one = pair->one, *other = pair->other;
    return s_same_unsaid (pair, "pipeline", pipeline_text (one->pipeline), pipeline_text (other->pipeline),
        refusal)
        && s_same_texts (pair, "order", orders [one->order], orders [other->order], refusal)
        && s_same_numbers (pair, "pool", one->pool, other->pool, refusal)
        && s_same_numbers (pair, "nodes", s_nodes (one), s_nodes (other), refusal)
        && s_same_numbers (pair, "node", one->parts.node, other->parts.node, refusal)
        && s_same_texts (pair, "parts", one->parts.is_fixed? "fixed": "fresh",
            other->parts.is_fixed? "fixed": "fresh", refusal)
        && s_same_unsaid (pair, "data (subset or list)", s_text (one->data), s_text (other->data), refusal);
}

//  Up to a step all ranks got the same samples.  Two states of one run may differ if the run was resumed
//  twice from an earlier state.
static bool
s_agree_on_taken (const pair_t *pair, refusal_t *refusal)
{
    const broker_terms_t *one = pair->one, *other = pair->other;
    if (one->epoch != other->epoch || one->epoch_batches != other->epoch_batches)
        return true;
    uint64_t counts [2] = { one->taken? roaring_bitmap_get_cardinality (one->taken): 0,
        other->taken? roaring_bitmap_get_cardinality (other->taken): 0 };
    bool is_same = one->taken_places == other->taken_places && counts [0] == counts [1]
        && (counts [0] == 0 || roaring_bitmap_equals (one->taken, other->taken));
    return s_same_unsaid (pair, "state (samples of its epoch that were taken)", "", is_same? "": "other",
        refusal);
}

bool
broker_agree (const broker_terms_t *one, uint32_t rank, const broker_terms_t *other, uint32_t other_rank,
    refusal_t *refusal)
{
    pair_t pair = { one, other, rank, other_rank };
    if (!s_agree_on_steps (&pair, refusal) || !s_agree_on_samples (&pair, refusal)
        || !s_agree_on_taken (&pair, refusal))
        return false;
    if (s_has_run (one) && s_has_run (other) && !s_same_texts (&pair, "run", one->run, other->run, refusal))
        return false;
    return !one->seed_given || !other->seed_given
        || s_same_numbers (&pair, "seed", one->seed, other->seed, refusal);
}

//  ---- ranks that come back to a job that is there (docs/protocol.md, Losing a rank)

//  The job's request, as far as ranks must agree on it.
static broker_terms_t
s_view (const job_t *job)
{
    return (broker_terms_t) {
        .dataset = job->dataset, .pipeline = job->asked.pipeline, .world_size = job->asked.world_size,
        .batch_size = job->asked.rank_batch, .slots = job->asked.slots, .epochs = job->asked.epochs,
        .drop_last = job->asked.drop_last, .on_bad_given = true, .on_bad = job->asked.on_bad,
        .order = job->asked.order, .seed = job->asked.seed, .seed_given = job->asked.seed_given,
        .pool = job->asked.pool, .data = job->asked.data, .parts = job->asked.parts
    };
}

static bool
s_agrees (const job_t *job, const broker_terms_t *join, uint32_t number, refusal_t *refusal)
{
    broker_terms_t view = s_view (job);
    //  steps_replay_find judges the rank's position.
    view.epoch = join->epoch;
    view.epoch_batches = join->epoch_batches;
    view.taken = join->taken;
    view.taken_places = join->taken_places;
    return broker_agree (join, number, &view, number == 0? 1: 0, refusal);
}

//  An unknown client without a run may belong to another run with the same name.
static broker_return_t
s_refuse_stranger (const rank_t *rank, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    const job_t *job = rank->job;
    if (s_has_run (join))
        s_refuse_name (job, join, now_ms, refusal);
    else
    if (rank_is_there (rank))
        refuse (refusal, "job_taken",
            "rank %u of job '%s' is there already (joined %lld seconds ago): another run uses this "
            "name: take another name (job=), or wait until it has ended", rank->number, job->asked.job_name,
            (long long) (now_ms - rank->joined_ms) / 1000);
    else
        refuse (refusal, "job_taken",
            "job '%s' is there, and waits for its rank %u, which was another client: to go on for "
            "that one load a state of this run; else take another name (job=), or wait until it has ended",
            job->asked.job_name, rank->number);
    return BROKER_RETURN_REFUSED;
}

//  The join's rank in a job of the same world size.  The client is known by the run, or as the job's own.
static broker_return_t
s_returns (const rank_t *rank, const broker_terms_t *join, bool is_own, refusal_t *refusal)
{
    uint64_t number;
    if ((rank_is_there (rank) && !is_own) || rank->left_itself)
        return BROKER_RETURN_NONE;
    if (!s_agrees (rank->job, join, rank->number, refusal))
        return BROKER_RETURN_REFUSED;
    return steps_replay_find (rank->job, join->epoch, join->epoch_batches, &number)? BROKER_RETURN_READY:
        BROKER_RETURN_NONE;
}

broker_return_t
broker_returns (broker_t *self, const broker_terms_t *join, uint32_t number, int64_t now_ms, job_t **job_p,
    refusal_t *refusal)
{
    assert (self->magic == BROKER_MAGIC);
    assert (join->world_size > 1 && number < join->world_size);
    *job_p = NULL;
    job_t *job = job_named (self, join->tenant, join->job_name);
    if (!job)
        return BROKER_RETURN_NONE;
    bool is_of_run = s_matches (join->run, job->asked.run);
    if (job->asked.user != join->user) {
        s_refuse_name (job, join, now_ms, refusal);
        return BROKER_RETURN_REFUSED;
    }
    if (job->asked.world_size != join->world_size) {
        if (is_of_run || (!s_has_run (join) && s_shares_instance (job, join)))
            return BROKER_RETURN_NONE;
        s_refuse_name (job, join, now_ms, refusal);
        return BROKER_RETURN_REFUSED;
    }
    rank_t *rank = &job->ranks [number];
    bool is_own = s_matches (join->instances [number], rank->instance);
    if (!is_of_run && !is_own)
        return s_refuse_stranger (rank, join, now_ms, refusal);
    broker_return_t answer = s_returns (rank, join, is_own, refusal);
    if (answer == BROKER_RETURN_READY)
        *job_p = job;
    return answer;
}

//  ---- checks

void
identity_check (const broker_t *self)
{
    for (const job_t *job = self->jobs; job; job = job->next) {
        if (!s_is_there (job))
            continue;
        assert (*job->asked.run);
        for (const job_t *other = job->next; other; other = other->next)
            if (s_is_there (other) && other->tenant == job->tenant) {
                assert (!s_matches (job->asked.run, other->asked.run));                           //  B7
                assert (!s_matches (job->asked.job_name, other->asked.job_name));                 //  B7
            }
    }
}

#include "arrivals.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "admission.h"
#include "connection.h"
#include "join_request.h"
#include "rendezvous.h"
#include "reply.h"

//  A returning rank that waits until its former connection is reclaimed.
typedef struct {
    join_request_t *join_request;
    int64_t since_ms;
} returning_t;

struct arrivals {
    arrivals_options_t options;
    int64_t now_ms;             //  of this turn
    admission_t admission;
    rendezvous_t *rendezvous;
    returning_t returning [ARRIVALS_RETURNING_MAX];
    size_t returning_count;
};

arrivals_t *
arrivals_new (const arrivals_options_t *options)
{
    arrivals_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->admission = (admission_t) { .broker = options->broker, .ring_server = options->ring_server,
        .ring_path = options->ring_path, .log = options->log, .outgoing = options->outgoing };
    self->rendezvous = rendezvous_new (options->router, options->broker, options->log);
    if (!self->rendezvous)
        arrivals_destroy (&self);
    return self;
}

void
arrivals_destroy (arrivals_t **self_p)
{
    arrivals_t *self = *self_p;
    if (!self)
        return;
    rendezvous_destroy (&self->rendezvous);
    for (size_t index = 0; index < self->returning_count; index++)
        join_request_destroy (&self->returning [index].join_request);
    free (self);
    *self_p = NULL;
}

static uint64_t
s_job_of (const rank_t *rank)
{
    return job_id (rank_job (rank));
}

//  Whether the connection may join.
static bool
s_is_free (const arrivals_t *self, const peer_t *peer, const caller_t *caller, refusal_t *refusal)
{
    const rank_t *rank = connection_rank_of_peer (self->options.broker, peer, caller);
    if (rank)
        return refuse (refusal, "already_joined",
            "this connection has job %llu: leave it first, or connect another",
            (unsigned long long) s_job_of (rank));
    const char *name = rendezvous_of (self->rendezvous, peer, caller);
    for (size_t index = 0; index < self->returning_count; index++) {
        const join_request_t *join_request = self->returning [index].join_request;
        if (peer_is (&join_request->peer, peer) && caller_is (&join_request->caller, caller))
            name = join_request->request.job;
    }
    return !name || refuse (refusal, "already_joined",
        "this connection waits for the other ranks of job '%s': close it to give "
        "up, or connect another", name);
}

//  Sends JOINED to the rank.
static void
s_send_joined (arrivals_t *self, rank_t *rank, const join_request_t *join_request, char *text)
{
    const peer_t *peer = &join_request->peer;
    const tenant_t *tenant = join_request->caller.tenant;
    atomic_size_t *account = send_backlog_account (self->options.send_backlog, peer, tenant_number (tenant),
        (size_t) broker_share (self->options.broker, tenant, SEND_BACKLOG_ACCOUNTS_MAX));
    outbox_status_t status = account
        ? outbox_send_counted (self->options.router, peer, WIRE_JOINED, s_job_of (rank), join_request->tag,
            text,
        account)
        : outbox_send_text (self->options.router, peer, WIRE_JOINED, s_job_of (rank), join_request->tag,
            text);
    if (status == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
    else
    if (rank_is_inline (rank) && rank_is_there (rank))      //  the loss of another rank may have ended the
                                                            //  job
        broker_inline (self->options.broker, rank, self->now_ms);
}

//  A job for all requests, one for each rank.
static bool
s_admit (arrivals_t *self, const broker_join_t *join, join_request_t *const *join_requests,
    refusal_t *refusal)
{
    char *texts [WIRE_RANKS_MAX];
    //  Ended jobs must give back memory before a new job takes some: otherwise clients that join and leave
    //  within one turn would exceed the budget.
    self->options.settle (self->options.context);
    job_t *job = admission_run (&self->admission, join, join_requests, self->now_ms, texts, refusal);
    if (!job)
        return false;
    for (uint32_t rank = 0; rank < join->world_size; rank++)
        s_send_joined (self, job_rank (job, rank), join_requests [rank], texts [rank]);
    return true;
}

static void
s_send_error (arrivals_t *self, const join_request_t *join_request, const refusal_t *refusal)
{
    self->options.refused (self->options.context, &join_request->caller, refusal);
    outbox_send_text (self->options.router, &join_request->peer, WIRE_ERROR, 0, join_request->tag,
        reply_error (refusal->code, refusal->message));
}

//  All ranks have joined: sends JOINED, or the refusal, to each.
static void
s_admit_gathered (arrivals_t *self, gathered_t *gathered)
{
    refusal_t refusal;
    if (!s_admit (self, &gathered->join, gathered->join_requests, &refusal)) {
        log_event (self->options.log, LOG_LEVEL_NOTICE, "gathering",
            LOG_FIELDS (LOG_TEXT ("tenant", broker_tenant_label (self->options.broker,
                gathered->join.tenant)),
            LOG_TEXT ("name", gathered->join.job_name), LOG_TEXT ("state", "refused")),
            "the ranks of job '%s' are refused: %s", gathered->join.job_name, refusal.message);
        for (uint32_t rank = 0; rank < gathered->count; rank++)
            s_send_error (self, gathered->join_requests [rank], &refusal);
    }
    gathered_clear (gathered);
}

//  A rank returns to its job.
static bool
s_return (arrivals_t *self, job_t *job, join_request_t *join_request, refusal_t *refusal)
{
    char *text;
    rank_t *rank = admission_return (&self->admission, job, join_request, self->now_ms, &text, refusal);
    if (rank)
        s_send_joined (self, rank, join_request, text);
    return rank != NULL;
}

//  The job with ranks of this name; NULL: none.
static job_t *
s_ranked_job (const arrivals_t *self, const tenant_t *tenant, const char *name)
{
    job_t *job = broker_named (self->options.broker, tenant, name);
    return job && job_world_size (job) > 1? job: NULL;
}

//  The pipeline of the waiting ranks, or of their job; NULL: none.
static const pipeline_t *
s_pipeline_of_ranks (const arrivals_t *self, const tenant_t *tenant, const request_join_t *request)
{
    if (request->world_size == 1)
        return NULL;
    const pipeline_t *waiting = rendezvous_pipeline (self->rendezvous, tenant, request->job);
    const job_t *job = s_ranked_job (self, tenant, request->job);
    return waiting || !job? waiting: job_pipeline (job);
}

//  The server notices the death of a client without a ring only when it sends to it.  A restarted client may
//  join before that, and a dead one must not block it: so the server sends to all ranks of the job.
static void
s_ask (arrivals_t *self, rank_t *rank)
{
    const connection_t *connection = rank_user (rank);
    if (outbox_send (self->options.router, &connection->peer, WIRE_HEARTBEAT, s_job_of (rank), 0, NULL, 0)
        == OUTBOX_GONE) {
        log_event (self->options.log, LOG_LEVEL_NOTICE, "lost",
            LOG_FIELDS (LOG_TEXT ("tenant", broker_tenant_label (self->options.broker,
                job_tenant (rank_job (rank)))),
            LOG_NUMBER ("job", s_job_of (rank)), LOG_NUMBER ("rank", rank_number (rank))),
            "job %llu, rank %u is gone: its connection is closed", (unsigned long long) s_job_of (rank),
            rank_number (rank));
        broker_lost (self->options.broker, rank, self->now_ms);
    }
}

static void
s_ask_all (arrivals_t *self, const tenant_t *tenant, const char *name)
{
    job_t *job = s_ranked_job (self, tenant, name);
    for (uint32_t number = 0; job && number < job_world_size (job); number++)
        if (rank_is_there (job_rank (job, number)))
            s_ask (self, job_rank (job, number));
}

//  Whether a rank returns to an existing job.
typedef enum {
    RETURN_NONE,                //  it does not
    RETURN_DONE,                //  it has returned
    RETURN_REFUSED,
    RETURN_WAITS                //  until its former connection is reclaimed
} return_t;

//  Whether the rank's former connection is not yet reclaimed; ask before memory is made for the new one.
static bool
s_is_unreclaimed (const rank_t *rank)
{
    return rank_user (rank) && !rank_is_there (rank);
}

static return_t
s_try_return (arrivals_t *self, join_request_t *join_request, refusal_t *refusal)
{
    s_ask_all (self, join_request->caller.tenant, join_request->request.job);
    for (int turn = 0; turn < 2; turn++) {
        job_t *job;
        switch (broker_returns (self->options.broker, &join_request->join, join_request->request.rank,
            self->now_ms, &job,
            refusal)) {
        case BROKER_RETURN_NONE:
            return RETURN_NONE;
        case BROKER_RETURN_REFUSED:
            return RETURN_REFUSED;
        case BROKER_RETURN_READY:
            break;
        }
        bool is_unreclaimed = s_is_unreclaimed (job_rank (job, join_request->request.rank));
        if (!is_unreclaimed && s_return (self, job, join_request, refusal))
            return RETURN_DONE;
        if (!is_unreclaimed && strcmp (refusal->code, "busy") != 0)
            return RETURN_REFUSED;
        //  The broker believed the rank present; its former connection may be reclaimed now, and the job with
        //  it.
        self->options.settle (self->options.context);
    }
    return RETURN_WAITS;
}

//  A new job, or one that waits for ranks: refused, the server drains.
static bool
s_refuse_drained (refusal_t *refusal)
{
    return refuse (refusal, "stopping",
        "the server is ending: it takes no new jobs, and ends when the epochs that it has begun are "
        "over");
}

//  Each tenant has its share of the waiting places.
static bool
s_may_wait (const arrivals_t *self, const tenant_t *tenant)
{
    size_t count = 0;
    for (size_t index = 0; index < self->returning_count; index++)
        count += self->returning [index].join_request->caller.tenant == tenant;
    return self->returning_count < ARRIVALS_RETURNING_MAX
        && count < broker_share (self->options.broker, tenant, ARRIVALS_RETURNING_MAX);
}

//  One of several ranks: it returns, at once or when it can, or waits for the others.  False: refused.
static bool
s_take_rank (arrivals_t *self, join_request_t **join_request_p, int64_t since_ms, refusal_t *refusal)
{
    gathered_t gathered;
    return_t status = s_try_return (self, *join_request_p, refusal);
    if (status == RETURN_WAITS && s_may_wait (self, (*join_request_p)->caller.tenant)
    &&  self->now_ms < since_ms + ARRIVALS_PATIENCE_MS) {
        self->returning [self->returning_count++] = (returning_t) { *join_request_p, since_ms };
        *join_request_p = NULL;
        return true;
    }
    if (status == RETURN_WAITS)
        return refuse (refusal, "busy",
            "what rank %u of job '%s' had before is still being put away; try again",
            (*join_request_p)->request.rank, (*join_request_p)->request.job);
    if (status != RETURN_NONE)
        return status == RETURN_DONE;
    if (broker_is_draining (self->options.broker))
        return s_refuse_drained (refusal);
    rendezvous_status_t gathers = rendezvous_add (self->rendezvous, join_request_p, self->now_ms, &gathered,
        refusal);
    if (gathers == RENDEZVOUS_COMPLETE)
        s_admit_gathered (self, &gathered);
    return gathers != RENDEZVOUS_REFUSED;
}

//  A draining server takes back ranks of existing jobs; s_take_rank refuses all other ranks.
static bool
s_may_come (const arrivals_t *self, const join_request_t *join_request, refusal_t *refusal)
{
    return !broker_is_draining (self->options.broker) || join_request->request.world_size > 1
        || s_refuse_drained (refusal);
}

join_request_t *
arrivals_begin (arrivals_t *self, const arrivals_message_t *message, refusal_t *refusal)
{
    self->now_ms = message->now_ms;
    if (!s_is_free (self, message->peer, message->caller, refusal))
        return NULL;
    join_request_t *join_request = join_request_new (message->frames, message->count, message->peer,
        message->tag,
        refusal);
    if (!join_request)
        return NULL;
    if (!s_may_come (self, join_request, refusal)
        || !join_request_place (join_request, self->options.broker, message->caller,
            s_pipeline_of_ranks (self, message->caller->tenant, &join_request->request), refusal))
        join_request_destroy (&join_request);
    return join_request;
}

bool
arrivals_join (arrivals_t *self, join_request_t *join_request, int64_t now_ms, refusal_t *refusal)
{
    self->now_ms = now_ms;
    self->options.settle (self->options.context);
    bool good = s_may_come (self, join_request, refusal) && join_request_complete (join_request, refusal);
    if (good && join_request->request.world_size > 1)
        good = s_take_rank (self, &join_request, now_ms, refusal);
    else
        good = good && rendezvous_leaves_name (self->rendezvous, join_request, now_ms, refusal)
            && s_admit (self, &join_request->join, &join_request, refusal);
    join_request_destroy (&join_request);
    return good;
}

bool
arrivals_act (arrivals_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    returning_t waiting [ARRIVALS_RETURNING_MAX];
    size_t count = self->returning_count;
    memcpy (waiting, self->returning, count * sizeof *waiting);
    self->returning_count = 0;
    for (size_t index = 0; index < count; index++) {
        refusal_t refusal;
        join_request_t *join_request = waiting [index].join_request;
        if (!s_take_rank (self, &join_request, waiting [index].since_ms, &refusal))
            s_send_error (self, join_request, &refusal);
        join_request_destroy (&join_request);
    }
    return count > self->returning_count;
}

//  A client that joined while the server believed its rank present waits with other ranks.  When that rank is
//  lost, the client returns to the job after all.
static bool
s_may_return (void *context, const join_request_t *join_request)
{
    const arrivals_t *self = context;
    job_t *job;
    refusal_t refusal;
    if (broker_returns (self->options.broker, &join_request->join, join_request->request.rank, self->now_ms,
        &job, &refusal)
    !=  BROKER_RETURN_READY)
        return false;
    const rank_t *rank = job_rank (job, join_request->request.rank);
    return !rank_is_there (rank) && !s_is_unreclaimed (rank);
}

void
arrivals_beat (arrivals_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    join_request_t *join_request;
    while ((join_request = rendezvous_take (self->rendezvous, s_may_return, self))) {
        refusal_t refusal;
        self->options.settle (self->options.context);
        if (!s_take_rank (self, &join_request, now_ms, &refusal))
            s_send_error (self, join_request, &refusal);
        join_request_destroy (&join_request);
    }
    rendezvous_beat (self->rendezvous, now_ms);
}

void
arrivals_drain (arrivals_t *self)
{
    rendezvous_stop (self->rendezvous);
}

void
arrivals_stop (arrivals_t *self)
{
    refusal_t refusal;
    refuse (&refusal, "stopping", "the server is ending");
    rendezvous_stop (self->rendezvous);
    while (self->returning_count > 0) {
        join_request_t *join_request = self->returning [--self->returning_count].join_request;
        s_send_error (self, join_request, &refusal);
        join_request_destroy (&join_request);
    }
}

void
arrivals_forget (arrivals_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context)
{
    refusal_t refusal;
    size_t kept = 0;
    refuse (&refusal, "revoked", "the key of its client was revoked");
    rendezvous_forget (self->rendezvous, is_gone, context);
    for (size_t index = 0; index < self->returning_count; index++) {
        returning_t returning = self->returning [index];
        if (is_gone (context, &returning.join_request->caller)) {
            s_send_error (self, returning.join_request, &refusal);
            join_request_destroy (&returning.join_request);
        }
        else
            self->returning [kept++] = returning;
    }
    self->returning_count = kept;
}

size_t
arrivals_count (const arrivals_t *self, const tenant_t *tenant)
{
    return rendezvous_count (self->rendezvous, tenant);
}

size_t
arrivals_bytes (const arrivals_t *self, const tenant_t *tenant)
{
    size_t bytes = rendezvous_bytes (self->rendezvous, tenant);
    for (size_t index = 0; index < self->returning_count; index++) {
        const join_request_t *join_request = self->returning [index].join_request;
        bytes += !tenant || join_request->caller.tenant == tenant? join_request_bytes (join_request): 0;
    }
    return bytes;
}

json_t *
arrivals_status (const arrivals_t *self, const tenant_t *tenant, int64_t now_ms)
{
    return rendezvous_status (self->rendezvous, tenant, now_ms);
}

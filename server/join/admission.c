#include "admission.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "connection.h"
#include "dataset_source.h"
#include "job.h"
#include "machine.h"
#include "rank_gathering.h"
#include "reply.h"
#include "tenant.h"

struct admission {
    admission_options_t options;
    int64_t now_ms;             //  of this turn
    uint64_t keys;              //  given to connections so far
    rank_gathering_t *gathering;
    //  Returning ranks that wait until their former connections are reclaimed.
    join_t *returning [ADMISSION_RETURNING_MAX];
    size_t returning_count;
};

admission_t *
admission_new (const admission_options_t *options)
{
    admission_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->gathering = rank_gathering_new (options->router, options->broker, options->log);
    if (!self->gathering)
        admission_destroy (&self);
    return self;
}

void
admission_destroy (admission_t **self_p)
{
    admission_t *self = *self_p;
    if (!self)
        return;
    rank_gathering_destroy (&self->gathering);
    for (size_t index = 0; index < self->returning_count; index++)
        join_destroy (&self->returning [index]);
    free (self);
    *self_p = NULL;
}

static uint64_t
s_job_of (const rank_t *rank)
{
    return job_id (rank_job (rank));
}

//  Whether the connection has no job, and waits for none.
static bool
s_is_free (const admission_t *self, const peer_t *peer, const caller_t *caller, refusal_t *refusal)
{
    const rank_t *rank = connection_rank_of_peer (self->options.broker, peer, caller);
    if (rank)
        return refuse (refusal, "already_joined",
            "this connection has job %llu: leave it first, or connect another",
            (unsigned long long) s_job_of (rank));
    const char *name = rank_gathering_of (self->gathering, peer, caller);
    for (size_t index = 0; index < self->returning_count; index++) {
        const join_t *join = self->returning [index];
        if (peer_is (&join->peer, peer) && caller_is (&join->caller, caller))
            name = join->request.job;
    }
    return !name || refuse (refusal, "already_joined",
        "this connection waits for the other ranks of job '%s': close it to give "
        "up, or connect another", name);
}

//  ---- memory, token and text of JOINED

//  The job works without a ring; without this line no user would know why it costs more.
static void
s_log_no_ring (const admission_t *self, const join_t *join, int rc)
{
    char why [128];
    if (rc == -EFBIG)
        snprintf (why, sizeof why, "the server's limit of file sizes is %llu bytes: raise it (ulimit -f, "
            "LimitFSIZE=)", (unsigned long long) machine_file_bytes ());
    else
        snprintf (why, sizeof why, "%s%s", strerror (-rc), machine_remedy (-rc));
    log_event (self->options.log, LOG_LEVEL_WARNING, "no_ring",
        LOG_FIELDS (LOG_TEXT ("dataset", join->request.dataset)),
        "a job on '%s' cannot have a ring of %llu bytes, and gets its batches through the socket, which "
        "costs copies: %s",
        join->request.dataset, (unsigned long long) join->request.slots * join->layout.slot_bytes, why);
}

static connection_t *
s_memory (admission_t *self, const join_t *join, refusal_t *refusal)
{
    connection_t *connection;
    int rc = connection_new (&connection, &join->peer, &join->caller, ++self->keys, &join->layout,
        join->request.slots, !join->request.inline_only,
        &self->options.outgoing [tenant_number (join->caller.tenant)]);
    if (rc == 0 && connection->ring_rc)
        s_log_no_ring (self, join, connection->ring_rc);
    if (rc)
        refuse (refusal, "budget",
            "the system has no memory for the job's batches (%u slots of %zu bytes): "
            "take smaller batches or fewer slots", join->request.slots, join->layout.slot_bytes);
    return connection;
}

//  Ring (with a token) or inline (without).  False: no token available, and no memory for inline.
static bool
s_offer (const admission_t *self, const join_t *join, connection_t *connection, char *token,
    refusal_t *refusal)
{
    token [0] = 0;
    uid_t uid = join->caller.uid == (uid_t) -1? geteuid (): join->caller.uid;
    if (connection->ring && ring_server_expect (self->options.ring_server, connection->key, uid,
        ring_descriptor (connection->ring), self->now_ms, token)) {
        token [0] = 0;
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    return true;
}

static char *
s_describe (const admission_t *self, const join_t *join, const rank_t *rank, const char *token)
{
    const job_t *job = rank_job (rank);
    const catalogue_t *catalogue = dataset_source_of (join->terms.dataset)->catalogue;
    uint32_t class_count = catalogue_classes (catalogue);
    const char **classes = class_count? calloc (class_count, sizeof *classes): NULL;
    for (uint32_t label = 0; classes && label < class_count; label++)
        classes [label] = catalogue_class_name (catalogue, label);
    reply_joined_t joined = {
        .job = job_id (job), .samples = job_epoch_samples (job),
        .dataset_samples = dataset_samples (join->terms.dataset),
        .classes = classes, .class_count = classes? class_count: 0,
        .batch_size = join->request.batch_size,
        .slots = join->request.slots, .slot_bytes = join->layout.slot_bytes,
        .fields = join->layout.fields, .field_count = join->layout.count,
        .ring_path = *token? self->options.ring_path: NULL, .ring_token = *token? token: NULL,
        .seed = job_seed (job), .fingerprint = catalogue_fingerprint (catalogue),
        .data = join->digest.text, .run = job_run (job), .forked = job_is_forked (job),
        .rank = rank_number (rank), .world_size = job_world_size (job),
        .nodes = job_nodes (job), .node = join->request.node, .part_samples = job_part_samples (job),
        .epoch_batches = job_first_batches (job), .partition = join->partition.text,
        .pipeline_text = pipeline_text (join->terms.pipeline), .lease_ms = BROKER_LEASE_MS
    };
    char *text = reply_joined (&joined);
    free (classes);
    return text;
}

//  Gives the connection to the rank, and writes JOINED.
static void
s_give (const admission_t *self, const join_t *join, rank_t *rank, connection_t **connection_p,
    const char *token, char **text_p)
{
    *text_p = s_describe (self, join, rank, token);
    rank_set_user (rank, *connection_p, (*connection_p)->ring == NULL);
    *connection_p = NULL;
}

static void
s_log_joined (const admission_t *self, const join_t *join, job_t *job, const broker_terms_t *terms)
{
    const request_join_t *request = &join->request;
    char resumed [64] = "", ranks [64] = "", nodes [64] = "";
    uint32_t world_size = job_world_size (job), rings = 0;
    for (uint32_t rank = 0; rank < world_size; rank++)
        rings += !rank_is_inline (job_rank (job, rank));
    if (terms->epoch || terms->epoch_batches || request->resume.given)
        snprintf (resumed, sizeof resumed, ", goes on in epoch %llu", (unsigned long long) terms->epoch);
    if (world_size > 1)
        snprintf (ranks, sizeof ranks, "%u ranks, ", world_size);
    if (job_nodes (job) > 1)
        snprintf (nodes, sizeof nodes, "node %u of %u, ", request->node, job_nodes (job));
    uint64_t user = join->caller.user;
    log_event (self->options.log, LOG_LEVEL_INFO, "joined",
        LOG_FIELDS (LOG_TEXT ("tenant", tenant_label (self->options.broker, job_tenant (job))),
        LOG_NUMBER ("job", job_id (job)), LOG_NUMBER_IF (user != BROKER_USER_UNKNOWN, "user", user),
        LOG_TEXT ("dataset", request->dataset)),
        "job %llu joined: %s, %s%sbatches of %u, %s%s%s%s", (unsigned long long) job_id (job),
        request->dataset, nodes, ranks, request->batch_size,
        rings == world_size? "ring": rings? "some with a ring": "inline", resumed,
        *terms->name? ", ": "", terms->name);
}

//  Frees what was made for clients of a failed join.
static void
s_let_go (const admission_t *self, connection_t **connections, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++)
        if (connections [rank]) {
            ring_server_forget (self->options.ring_server, connections [rank]->key);
            connection_destroy (&connections [rank]);
        }
}

//  The job that terms describe, with a rank for each of the joins, in their order; texts [rank] is its JOINED
//  (JSON, malloc'ed, the caller's).  NULL: refusal holds the reason, and nothing has changed.
static job_t *
s_make_job (admission_t *self, const broker_terms_t *terms, join_t *const *joins, char **texts,
    refusal_t *refusal)
{
    connection_t *connections [WIRE_RANKS_MAX] = { NULL };
    char tokens [WIRE_RANKS_MAX] [RING_SERVER_TOKEN_BYTES + 1];
    uint32_t count = terms->world_size;
    assert (count <= WIRE_RANKS_MAX);
    //  Memory comes after all other reasons to refuse, so that a refusal costs nothing; then the job, which
    //  may end an earlier one.
    bool good = broker_allows (self->options.broker, terms, self->now_ms, refusal);
    for (uint32_t rank = 0; good && rank < count; rank++)
        good = (connections [rank] = s_memory (self, joins [rank], refusal)) != NULL;
    job_t *job = good? broker_join (self->options.broker, terms, self->now_ms, refusal): NULL;
    good = job != NULL;
    //  From here only a failed small allocation can undo it.
    for (uint32_t rank = 0; good && rank < count; rank++)
        good = s_offer (self, joins [rank], connections [rank], tokens [rank], refusal);
    if (job && !good) {
        broker_gone (self->options.broker, job);
        job = NULL;
    }
    for (uint32_t rank = 0; job && rank < count; rank++)
        s_give (self, joins [rank], job_rank (job, rank), &connections [rank], tokens [rank], &texts [rank]);
    s_let_go (self, connections, count);
    if (job)
        s_log_joined (self, joins [0], job, terms);
    return job;
}

//  The rank returns to its job, after broker_returns; *text_p as above.  NULL: refused.
static rank_t *
s_make_rank (admission_t *self, job_t *job, join_t *join, char **text_p, refusal_t *refusal)
{
    char token [RING_SERVER_TOKEN_BYTES + 1];
    connection_t *connection = s_memory (self, join, refusal);
    if (!connection)
        return NULL;
    rank_t *rank = NULL;
    if (s_offer (self, join, connection, token, refusal))
        rank = broker_return (self->options.broker, job, join->request.rank, &join->terms,
            self->now_ms, refusal);
    if (rank) {
        s_give (self, join, rank, &connection, token, text_p);
        log_event (self->options.log, LOG_LEVEL_INFO, "back",
            LOG_FIELDS (LOG_TEXT ("tenant", tenant_label (self->options.broker, job_tenant (job))),
            LOG_NUMBER ("job", job_id (job)), LOG_NUMBER ("rank", rank_number (rank))),
            "job %llu, rank %u is back: %s, at epoch %llu, step %llu", (unsigned long long) job_id (job),
            rank_number (rank), *token? "ring": "inline", (unsigned long long) join->terms.epoch,
            (unsigned long long) join->terms.epoch_batches);
    }
    s_let_go (self, &connection, 1);
    return rank;
}

//  ---- the answer

//  Sends JOINED to the rank.
static void
s_send_joined (admission_t *self, rank_t *rank, const join_t *join, char *text)
{
    const peer_t *peer = &join->peer;
    const tenant_t *tenant = join->caller.tenant;
    atomic_size_t *account = outbox_backlog_account (self->options.backlog, peer, tenant_number (tenant),
        (size_t) tenant_share (self->options.broker, tenant, OUTBOX_BACKLOG_ACCOUNTS_MAX));
    outbox_status_t status = account
        ? outbox_send_counted (self->options.router, peer, WIRE_JOINED, s_job_of (rank), join->tag, text,
        account)
        : outbox_send_text (self->options.router, peer, WIRE_JOINED, s_job_of (rank), join->tag, text);
    if (status == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
    else
    if (rank_is_inline (rank) && rank_is_there (rank))      //  the loss of another rank may have ended the
                                                            //  job
        broker_inline (self->options.broker, rank, self->now_ms);
}

//  A job for all the joins, one for each rank.
static bool
s_admit (admission_t *self, const broker_terms_t *terms, join_t *const *joins, refusal_t *refusal)
{
    char *texts [WIRE_RANKS_MAX];
    //  Ended jobs must give back memory before a new job takes some: otherwise clients that join and leave
    //  within one turn would exceed the budget.
    self->options.settle (self->options.context);
    job_t *job = s_make_job (self, terms, joins, texts, refusal);
    if (!job)
        return false;
    for (uint32_t rank = 0; rank < terms->world_size; rank++)
        s_send_joined (self, job_rank (job, rank), joins [rank], texts [rank]);
    return true;
}

static void
s_send_error (admission_t *self, const join_t *join, const refusal_t *refusal)
{
    self->options.refused (self->options.context, &join->caller, refusal);
    outbox_send_text (self->options.router, &join->peer, WIRE_ERROR, 0, join->tag,
        reply_error (refusal->code, refusal->message));
}

//  All ranks have joined: sends JOINED, or the refusal, to each, and frees the joins.
static void
s_admit_gathered (admission_t *self, const broker_terms_t *terms, join_t **joins)
{
    refusal_t refusal;
    uint32_t world_size = terms->world_size;
    bool good = s_admit (self, terms, joins, &refusal);
    if (!good)
        log_event (self->options.log, LOG_LEVEL_NOTICE, "gathering",
            LOG_FIELDS (LOG_TEXT ("tenant", tenant_label (self->options.broker, terms->tenant)),
            LOG_TEXT ("name", terms->job_name), LOG_TEXT ("state", "refused")),
            "the ranks of job '%s' are refused: %s", terms->job_name, refusal.message);
    for (uint32_t rank = 0; !good && rank < world_size; rank++)
        s_send_error (self, joins [rank], &refusal);
    //  The terms lie in one of them.
    for (uint32_t rank = 0; rank < world_size; rank++)
        join_destroy (&joins [rank]);
}

//  A rank returns to its job.
static bool
s_return (admission_t *self, job_t *job, join_t *join, refusal_t *refusal)
{
    char *text;
    rank_t *rank = s_make_rank (self, job, join, &text, refusal);
    if (rank)
        s_send_joined (self, rank, join, text);
    return rank != NULL;
}

//  The job with ranks of this name; NULL: none.
static job_t *
s_ranked_job (const admission_t *self, const tenant_t *tenant, const char *name)
{
    job_t *job = job_named (self->options.broker, tenant, name);
    return job && job_world_size (job) > 1? job: NULL;
}

//  The pipeline of the waiting ranks, or of their job; NULL: none.
static const pipeline_t *
s_pipeline_of_ranks (const admission_t *self, const join_t *join)
{
    if (join->request.world_size == 1)
        return NULL;
    const tenant_t *tenant = join->caller.tenant;
    const pipeline_t *waiting = rank_gathering_pipeline (self->gathering, tenant, join->request.job);
    const job_t *job = s_ranked_job (self, tenant, join->request.job);
    return waiting || !job? waiting: job_pipeline (job);
}

//  The server notices the death of a client without a ring only when it sends to it.  A restarted client may
//  join before that, and a dead one must not block it: so the server sends to all ranks of the job.
static void
s_ask (admission_t *self, rank_t *rank)
{
    const connection_t *connection = rank_user (rank);
    if (outbox_send (self->options.router, &connection->peer, WIRE_HEARTBEAT, s_job_of (rank), 0, NULL, 0)
        == OUTBOX_GONE) {
        log_event (self->options.log, LOG_LEVEL_NOTICE, "lost",
            LOG_FIELDS (LOG_TEXT ("tenant", tenant_label (self->options.broker,
                job_tenant (rank_job (rank)))),
            LOG_NUMBER ("job", s_job_of (rank)), LOG_NUMBER ("rank", rank_number (rank))),
            "job %llu, rank %u is gone: its connection is closed", (unsigned long long) s_job_of (rank),
            rank_number (rank));
        broker_lost (self->options.broker, rank, self->now_ms);
    }
}

static void
s_ask_all (admission_t *self, const tenant_t *tenant, const char *name)
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
s_try_return (admission_t *self, join_t *join, refusal_t *refusal)
{
    s_ask_all (self, join->caller.tenant, join->request.job);
    for (int turn = 0; turn < 2; turn++) {
        job_t *job;
        switch (broker_returns (self->options.broker, &join->terms, join->request.rank, self->now_ms, &job,
            refusal)) {
        case BROKER_RETURN_NONE:
            return RETURN_NONE;
        case BROKER_RETURN_REFUSED:
            return RETURN_REFUSED;
        case BROKER_RETURN_READY:
            break;
        }
        bool is_unreclaimed = s_is_unreclaimed (job_rank (job, join->request.rank));
        if (!is_unreclaimed && s_return (self, job, join, refusal))
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
s_may_wait (const admission_t *self, const tenant_t *tenant)
{
    size_t count = 0;
    for (size_t index = 0; index < self->returning_count; index++)
        count += self->returning [index]->caller.tenant == tenant;
    return self->returning_count < ADMISSION_RETURNING_MAX
        && count < tenant_share (self->options.broker, tenant, ADMISSION_RETURNING_MAX);
}

//  One of several ranks: it returns, at once or when it can, or waits for the others.  False: refused.
static bool
s_take_rank (admission_t *self, join_t **join_p, refusal_t *refusal)
{
    join_t *joins [WIRE_RANKS_MAX];
    const broker_terms_t *terms;
    return_t status = s_try_return (self, *join_p, refusal);
    if (status == RETURN_WAITS && s_may_wait (self, (*join_p)->caller.tenant)
    &&  self->now_ms < (*join_p)->since_ms + ADMISSION_PATIENCE_MS) {
        self->returning [self->returning_count++] = *join_p;
        *join_p = NULL;
        return true;
    }
    if (status == RETURN_WAITS)
        return refuse (refusal, "busy",
            "what rank %u of job '%s' had before is still being put away; try again",
            (*join_p)->request.rank, (*join_p)->request.job);
    if (status != RETURN_NONE)
        return status == RETURN_DONE;
    if (broker_is_draining (self->options.broker))
        return s_refuse_drained (refusal);
    rank_gathering_status_t gathers = rank_gathering_add (self->gathering, join_p, self->now_ms, joins,
        &terms, refusal);
    if (gathers == RANK_GATHERING_COMPLETE)
        s_admit_gathered (self, terms, joins);
    return gathers != RANK_GATHERING_REFUSED;
}

//  A draining server takes back ranks of existing jobs; s_take_rank refuses all other ranks.
static bool
s_may_come (const admission_t *self, const join_t *join, refusal_t *refusal)
{
    return !broker_is_draining (self->options.broker) || join->request.world_size > 1
        || s_refuse_drained (refusal);
}

join_t *
admission_begin (admission_t *self, const frame_t *frames, size_t count, const peer_t *peer,
    const caller_t *caller, uint64_t tag, int64_t now_ms, refusal_t *refusal)
{
    self->now_ms = now_ms;
    if (!s_is_free (self, peer, caller, refusal))
        return NULL;
    join_t *join = join_new (frames, count, peer, caller, tag, refusal);
    bool good = join
        && s_may_come (self, join, refusal)
        && join_place (join, self->options.broker, self->options.additions, s_pipeline_of_ranks (self, join),
        refusal);
    if (!good)
        join_destroy (&join);
    return join;
}

bool
admission_join (admission_t *self, join_t *join, const frame_t *frames, int64_t now_ms, refusal_t *refusal)
{
    self->now_ms = now_ms;
    if (frames && !join_read (join, frames, refusal)) {
        join_destroy (&join);
        return false;
    }
    self->options.settle (self->options.context);
    bool good = s_may_come (self, join, refusal) && join_complete (join, refusal);
    join->since_ms = now_ms;
    if (good && join->request.world_size > 1)
        good = s_take_rank (self, &join, refusal);
    else
        good = good && rank_gathering_leaves_name (self->gathering, join, now_ms, refusal)
            && s_admit (self, &join->terms, &join, refusal);
    join_destroy (&join);
    return good;
}

bool
admission_act (admission_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    join_t *waiting [ADMISSION_RETURNING_MAX];
    size_t count = self->returning_count;
    memcpy (waiting, self->returning, count * sizeof *waiting);
    self->returning_count = 0;
    for (size_t index = 0; index < count; index++) {
        refusal_t refusal;
        join_t *join = waiting [index];
        if (!s_take_rank (self, &join, &refusal))
            s_send_error (self, join, &refusal);
        join_destroy (&join);
    }
    return count > self->returning_count;
}

//  A client that joined while the server believed its rank present waits with other ranks.  When that rank is
//  lost, the client returns to the job after all.
static bool
s_may_return (void *context, const join_t *join)
{
    const admission_t *self = context;
    job_t *job;
    refusal_t refusal;
    if (broker_returns (self->options.broker, &join->terms, join->request.rank, self->now_ms, &job, &refusal)
    !=  BROKER_RETURN_READY)
        return false;
    const rank_t *rank = job_rank (job, join->request.rank);
    return !rank_is_there (rank) && !s_is_unreclaimed (rank);
}

void
admission_beat (admission_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    join_t *join;
    while ((join = rank_gathering_take (self->gathering, s_may_return, self))) {
        refusal_t refusal;
        self->options.settle (self->options.context);
        join->since_ms = now_ms;
        if (!s_take_rank (self, &join, &refusal))
            s_send_error (self, join, &refusal);
        join_destroy (&join);
    }
    rank_gathering_beat (self->gathering, now_ms);
}

void
admission_drain (admission_t *self)
{
    rank_gathering_stop (self->gathering);
}

void
admission_stop (admission_t *self)
{
    refusal_t refusal;
    refuse (&refusal, "stopping", "the server is ending");
    rank_gathering_stop (self->gathering);
    while (self->returning_count > 0) {
        join_t *join = self->returning [--self->returning_count];
        s_send_error (self, join, &refusal);
        join_destroy (&join);
    }
}

void
admission_forget (admission_t *self, bool (*is_gone) (void *context, const join_t *join), void *context,
    const refusal_t *refusal)
{
    size_t kept = 0;
    rank_gathering_forget (self->gathering, is_gone, context, refusal);
    for (size_t index = 0; index < self->returning_count; index++) {
        join_t *join = self->returning [index];
        if (is_gone (context, join)) {
            s_send_error (self, join, refusal);
            join_destroy (&join);
        }
        else
            self->returning [kept++] = join;
    }
    self->returning_count = kept;
}

size_t
admission_count (const admission_t *self, const tenant_t *tenant)
{
    return rank_gathering_count (self->gathering, tenant);
}

size_t
admission_count_on (const admission_t *self, const dataset_t *dataset)
{
    return rank_gathering_count_on (self->gathering, dataset);
}

size_t
admission_bytes (const admission_t *self, const tenant_t *tenant)
{
    size_t bytes = rank_gathering_bytes (self->gathering, tenant);
    for (size_t index = 0; index < self->returning_count; index++) {
        const join_t *join = self->returning [index];
        bytes += !tenant || join->caller.tenant == tenant? join_bytes (join): 0;
    }
    return bytes;
}

json_t *
admission_status (const admission_t *self, const tenant_t *tenant, int64_t now_ms)
{
    return rank_gathering_status (self->gathering, tenant, now_ms);
}

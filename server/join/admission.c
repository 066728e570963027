#include "admission.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "connection.h"
#include "reply.h"
#include "rlimits.h"
#include "source.h"

//  The job works without a ring; without this line no user would know why it costs more.
static void
s_log_no_ring (const admission_t *self, const join_request_t *join_request, int rc)
{
    char why [128];
    if (rc == -EFBIG)
        snprintf (why, sizeof why, "the server's limit of file sizes is %llu bytes: raise it (ulimit -f, "
            "LimitFSIZE=)", (unsigned long long) rlimits_file_bytes ());
    else
        snprintf (why, sizeof why, "%s%s", strerror (-rc), rlimits_remedy (-rc));
    log_event (self->log, LOG_LEVEL_WARNING, "no_ring",
        LOG_FIELDS (LOG_TEXT ("dataset", join_request->request.dataset)),
        "a job on '%s' cannot have a ring of %llu bytes, and gets its batches through the socket, which "
        "costs copies: %s",
        join_request->request.dataset,
            (unsigned long long) join_request->request.slots * join_request->layout.slot_bytes, why);
}

static connection_t *
s_memory (admission_t *self, const join_request_t *join_request, refusal_t *refusal)
{
    connection_t *connection;
    int rc = connection_new (&connection, &join_request->peer, &join_request->caller, ++self->keys,
        &join_request->layout,
        join_request->request.slots,
        !join_request->request.inline_only, &self->outgoing [tenant_number (join_request->caller.tenant)]);
    if (rc == 0 && connection->ring_rc)
        s_log_no_ring (self, join_request, connection->ring_rc);
    if (rc)
        refuse (refusal, "budget",
            "the system has no memory for the job's batches (%u slots of %zu bytes): "
            "take smaller batches or fewer slots", join_request->request.slots,
                join_request->layout.slot_bytes);
    return connection;
}

//  Ring (with a token) or inline (without).  False: no token available, and no memory for inline.
static bool
s_offer (const admission_t *self, const join_request_t *join_request, connection_t *connection,
    int64_t now_ms, char *token, refusal_t *refusal)
{
    token [0] = 0;
    uid_t uid = join_request->caller.uid == (uid_t) -1? geteuid (): join_request->caller.uid;
    if (connection->ring && ring_server_expect (self->ring_server, connection->key, uid,
        ring_descriptor (connection->ring), now_ms, token)) {
        token [0] = 0;
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    return true;
}

static char *
s_describe (const admission_t *self, const join_request_t *join_request, const rank_t *rank,
    const char *token)
{
    const job_t *job = rank_job (rank);
    const catalogue_t *catalogue = source_of (join_request->join.dataset)->catalogue;
    uint32_t class_count = catalogue_classes (catalogue);
    const char **classes = class_count? calloc (class_count, sizeof *classes): NULL;
    for (uint32_t label = 0; classes && label < class_count; label++)
        classes [label] = catalogue_class_name (catalogue, label);
    reply_joined_t joined = {
        .job = job_id (job), .samples = job_epoch_samples (job),
            .dataset_samples = dataset_samples (join_request->join.dataset),
        .classes = classes, .class_count = classes? class_count: 0,
            .batch_size = join_request->request.batch_size,
        .slots = join_request->request.slots, .slot_bytes = join_request->layout.slot_bytes,
            .fields = join_request->layout.fields,
        .field_count = join_request->layout.count, .ring_path = *token? self->ring_path: NULL,
        .ring_token = *token? token: NULL, .seed = job_seed (job),
        .fingerprint = catalogue_fingerprint (catalogue),
        .data = join_request->digest.text, .run = job_run (job), .forked = job_is_forked (job),
        .rank = rank_number (rank), .world_size = job_world_size (job),
        .nodes = job_nodes (job), .node = join_request->request.node, .part_samples = job_part_samples (job),
        .epoch_batches = job_first_batches (job), .partition = join_request->partition.text,
        .pipeline_text = pipeline_text (join_request->join.pipeline), .lease_ms = BROKER_LEASE_MS
    };
    char *text = reply_joined (&joined);
    free (classes);
    return text;
}

//  Gives the connection to the rank, and writes JOINED.
static void
s_settle (const admission_t *self, const join_request_t *join_request, rank_t *rank,
    connection_t **connection_p,
    const char *token, char **text_p)
{
    *text_p = s_describe (self, join_request, rank, token);
    rank_set_user (rank, *connection_p, (*connection_p)->ring == NULL);
    *connection_p = NULL;
}

static void
s_log (const admission_t *self, const join_request_t *join_request, job_t *job, const broker_join_t *join)
{
    const request_join_t *request = &join_request->request;
    char resumed [64] = "", ranks [64] = "", nodes [64] = "";
    uint32_t world_size = job_world_size (job), rings = 0;
    for (uint32_t rank = 0; rank < world_size; rank++)
        rings += !rank_is_inline (job_rank (job, rank));
    if (join->epoch || join->epoch_batches || request->resume.given)
        snprintf (resumed, sizeof resumed, ", goes on in epoch %llu", (unsigned long long) join->epoch);
    if (world_size > 1)
        snprintf (ranks, sizeof ranks, "%u ranks, ", world_size);
    if (job_nodes (job) > 1)
        snprintf (nodes, sizeof nodes, "node %u of %u, ", request->node, job_nodes (job));
    uint64_t user = join_request->caller.user;
    log_event (self->log, LOG_LEVEL_INFO, "joined",
        LOG_FIELDS (LOG_TEXT ("tenant", broker_tenant_label (self->broker, job_tenant (job))),
        LOG_NUMBER ("job", job_id (job)), LOG_NUMBER_IF (user != BROKER_USER_UNKNOWN, "user", user),
        LOG_TEXT ("dataset", request->dataset)),
        "job %llu joined: %s, %s%sbatches of %u, %s%s%s%s", (unsigned long long) job_id (job),
        request->dataset, nodes, ranks, request->batch_size,
        rings == world_size? "ring": rings? "some with a ring": "inline", resumed,
        *join->name? ", ": "", join->name);
}

//  Frees what was made for clients of a failed join.
static void
s_let_go (const admission_t *self, connection_t **connections, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++)
        if (connections [rank]) {
            ring_server_forget (self->ring_server, connections [rank]->key);
            connection_destroy (&connections [rank]);
        }
}

job_t *
admission_run (admission_t *self, const broker_join_t *join, join_request_t *const *join_requests,
    int64_t now_ms, char **texts, refusal_t *refusal)
{
    connection_t *connections [WIRE_RANKS_MAX] = { NULL };
    char tokens [WIRE_RANKS_MAX] [RING_SERVER_TOKEN_BYTES + 1];
    uint32_t count = join->world_size;
    assert (count <= WIRE_RANKS_MAX);
    //  Memory comes after all other reasons to refuse, so that a refusal costs nothing; then the job, which
    //  may end an earlier one.
    bool good = broker_allows (self->broker, join, now_ms, refusal);
    for (uint32_t rank = 0; good && rank < count; rank++)
        good = (connections [rank] = s_memory (self, join_requests [rank], refusal)) != NULL;
    job_t *job = good? broker_join (self->broker, join, now_ms, refusal): NULL;
    good = job != NULL;
    //  From here only a failed small allocation can undo it.
    for (uint32_t rank = 0; good && rank < count; rank++)
        good = s_offer (self, join_requests [rank], connections [rank], now_ms, tokens [rank], refusal);
    if (job && !good) {
        broker_gone (self->broker, job);
        job = NULL;
    }
    for (uint32_t rank = 0; job && rank < count; rank++)
        s_settle (self, join_requests [rank], job_rank (job, rank), &connections [rank], tokens [rank],
            &texts [rank]);
    s_let_go (self, connections, count);
    if (job)
        s_log (self, join_requests [0], job, join);
    return job;
}

rank_t *
admission_return (admission_t *self, job_t *job, join_request_t *join_request, int64_t now_ms,
    char **text_p, refusal_t *refusal)
{
    char token [RING_SERVER_TOKEN_BYTES + 1];
    connection_t *connection = s_memory (self, join_request, refusal);
    if (!connection)
        return NULL;
    rank_t *rank = NULL;
    if (s_offer (self, join_request, connection, now_ms, token, refusal))
        rank = broker_return (self->broker, job, join_request->request.rank, &join_request->join,
            now_ms, refusal);
    if (rank) {
        s_settle (self, join_request, rank, &connection, token, text_p);
        log_event (self->log, LOG_LEVEL_INFO, "back",
            LOG_FIELDS (LOG_TEXT ("tenant", broker_tenant_label (self->broker, job_tenant (job))),
            LOG_NUMBER ("job", job_id (job)), LOG_NUMBER ("rank", rank_number (rank))),
            "job %llu, rank %u is back: %s, at epoch %llu, step %llu", (unsigned long long) job_id (job),
            rank_number (rank), *token? "ring": "inline", (unsigned long long) join_request->join.epoch,
            (unsigned long long) join_request->join.epoch_batches);
    }
    s_let_go (self, &connection, 1);
    return rank;
}

#include "admission.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "connection.h"
#include "data_digest.h"
#include "reply.h"
#include "source.h"

//  What a request becomes, piece by piece; all of it is let go at the end, whatever happened.
typedef struct {
    request_join_t request;
    dataset_t *dataset;
    const pipeline_t *pipeline;
    layout_t layout;
    roaring_bitmap_t *subset, *taken;
    uint32_t *list;
    size_t list_count;
    data_digest_t digest;
    uint64_t seed;
    char fresh_run [WIRE_RUN_BYTES + 1];
    broker_join_t join;
    connection_t *connection;
} draft_t;

static const sampler_order_t s_orders [] = {
    [REQUEST_SHARED] = SAMPLER_ORDER_SHARED, [REQUEST_PRIVATE] = SAMPLER_ORDER_PRIVATE,
    [REQUEST_LIST] = SAMPLER_ORDER_LIST, [REQUEST_SEEDED] = SAMPLER_ORDER_SEEDED
};

static bool
s_dataset (const admission_t *self, draft_t *draft, refusal_t *refusal)
{
    draft->dataset = broker_dataset (self->broker, draft->request.dataset);
    if (draft->dataset)
        return true;
    char *names = broker_dataset_names (self->broker);
    refuse (refusal, "unknown_dataset", "no data set '%s'; this server has: %s", draft->request.dataset,
        names);
    free (names);
    return false;
}

//  The pipeline on what the data have.  Where it has no mark, it meets the jobs that are there.
static bool
s_pipeline (draft_t *draft, refusal_t *refusal)
{
    const catalogue_t *catalogue = source_of (draft->dataset)->catalogue;
    pipeline_source_t source = { .count = catalogue_fields (catalogue) };
    for (size_t field = 0; field < source.count; field++)
        source.fields [field] = (pipeline_field_t) { .name = catalogue_field_name (catalogue, field),
            .is_mask = catalogue_field_is_mask (catalogue, field) };
    const char *present [SAMPLER_JOBS_MAX];
    size_t count = broker_shared_texts (draft->dataset, s_orders [draft->request.order], present, SAMPLER_JOBS_MAX);
    char error [400];
    if (pipeline_new (&draft->pipeline, draft->request.pipeline, &source, present, count, error, sizeof error))
        return refuse (refusal, "bad_request", "pipeline: %s", error);
    return true;
}

static bool
s_layout (draft_t *draft, refusal_t *refusal)
{
    uint32_t batch_size = draft->request.batch_size;
    layout_t *layout = &draft->layout;
    layout_status_t status = layout_of (layout, draft->pipeline, source_of (draft->dataset)->catalogue, batch_size);
    const reply_field_t *last = &layout->fields [layout->count - 1];
    if (status == LAYOUT_SAME_NAME)
        return refuse (refusal, "bad_request", "a batch would have two fields called '%s', one of the pipeline's and a label "
            "of data set '%s': rename the label, or leave the field out of the pipeline", last->name,
            draft->request.dataset);
    if (status == LAYOUT_TOO_LARGE)
        return refuse (refusal, "bad_request", "a batch of %u samples of %zu bytes in '%s' is too large", batch_size,
            last->sample_bytes, last->name);
    return true;
}

static bool
s_ids (draft_t *draft, const frame_t *frames, refusal_t *refusal)
{
    const request_join_t *request = &draft->request;
    uint32_t samples = dataset_samples (draft->dataset);
    if (request->subset_given) {
        if (!request_subset (&frames [request->subset_first], samples, &draft->subset, refusal))
            return false;
        draft->digest = data_digest_of_set (draft->subset);
    }
    else
    if (request->list_frames) {
        if (!request_list (&frames [request->list_first], request->list_frames, samples, &draft->list, &draft->list_count,
                refusal))
            return false;
        draft->digest = data_digest_of_list (draft->list, draft->list_count);
    }
    else
        draft->digest = data_digest_of_all (samples);
    return true;
}

//  Before anything of the state is looked at that makes sense for its own data set only.
static bool
s_same_dataset (draft_t *draft, refusal_t *refusal)
{
    const request_resume_t *resume = &draft->request.resume;
    const char *fingerprint = catalogue_fingerprint (source_of (draft->dataset)->catalogue);
    return !resume->given || strcmp (resume->fingerprint, fingerprint) == 0
        || refuse (refusal, "bad_state", "the state is of other data: its fingerprint is %s, data set '%s' has %s: the "
            "files have changed, or it is another data set; begin anew without the state", resume->fingerprint, draft->request.dataset,
            fingerprint);
}

//  What is said of the samples: where the job goes on.  How that fits the job's data else, the broker sees.
static bool
s_resume (draft_t *draft, const frame_t *frames, refusal_t *refusal)
{
    const request_join_t *request = &draft->request;
    if (request->resume.given && strcmp (request->resume.data, draft->digest.text) != 0)
        return refuse (refusal, "bad_state", "the state is of other samples of data set '%s': it says %s, this job's %s are "
            "%s; join with the same %s, or begin anew without the state", request->dataset, request->resume.data,
            draft->list? "list": "samples", draft->digest.text, draft->list? "list": "subset");
    return request->taken_frames == 0 || request_taken (&frames [request->taken_first], request->taken_frames,
        dataset_samples (draft->dataset), &draft->taken, refusal);
}

//  A private stage without a given seed must not repeat that of another job; order `seeded` without one is some
//  order of its own, which the reply tells how to have again.
static bool
s_seed (draft_t *draft, refusal_t *refusal)
{
    draft->seed = draft->request.seed;
    if (!draft->request.seed_given && getrandom (&draft->seed, sizeof draft->seed, 0) != sizeof draft->seed)
        return refuse (refusal, "bad_request", "no random seed to be had; give the job one");
    return true;
}

static bool
s_memory (const admission_t *self, draft_t *draft, refusal_t *refusal)
{
    int rc = connection_new (&draft->connection, self->peer, &draft->layout, draft->request.slots,
        !draft->request.inline_only, self->outgoing);
    if (rc)
        return refuse (refusal, "budget",
            "the system has no memory for the job's batches (%u slots of %zu bytes): "
            "take smaller batches or fewer slots", draft->request.slots, draft->layout.slot_bytes);
    return true;
}

static bool
s_fresh_run (draft_t *draft, refusal_t *refusal)
{
    uint8_t bytes [WIRE_RUN_BYTES / 2];
    if (getrandom (bytes, sizeof bytes, 0) != sizeof bytes)
        return refuse (refusal, "busy", "no random number to be had for a run; try again");
    for (size_t index = 0; index < sizeof bytes; index++)
        snprintf (draft->fresh_run + 2 * index, 3, "%02x", bytes [index]);
    return true;
}

//  The same, in the broker's terms; all lent by the draft.
static bool
s_allowed (const admission_t *self, draft_t *draft, refusal_t *refusal)
{
    draft->join = (broker_join_t) {
        .dataset = draft->dataset, .pipeline = draft->pipeline, .batch_size = draft->request.batch_size,
        .slots = draft->request.slots, .epochs = draft->request.epochs, .drop_last = draft->request.drop_last,
        .order = s_orders [draft->request.order],
        .order_is_of_seed = draft->request.order == REQUEST_SEEDED && !draft->request.order_given,
        .subset = draft->subset, .list = draft->list, .list_count = draft->list_count, .seed = draft->seed,
        .pool = draft->request.pool, .name = draft->request.name,
        .slot_bytes = draft->layout.slot_bytes,
        .epoch = draft->request.resume.epoch, .epoch_batches = draft->request.resume.batches, .taken = draft->taken,
        .taken_places = (size_t) draft->request.resume.places, .run = draft->request.run,
        .instance = draft->request.instance, .job_name = draft->request.job, .fresh_run = draft->fresh_run, .uid = self->uid
    };
    return broker_allows (self->broker, &draft->join, self->now_ms, refusal);
}

static char *
s_describe (const admission_t *self, const draft_t *draft, const job_t *job, const char *token)
{
    const catalogue_t *catalogue = source_of (draft->dataset)->catalogue;
    uint32_t class_count = catalogue_classes (catalogue);
    const char **classes = class_count? calloc (class_count, sizeof *classes): NULL;
    for (uint32_t label = 0; classes && label < class_count; label++)
        classes [label] = catalogue_class_name (catalogue, label);
    reply_joined_t joined = {
        .job = job_id (job), .samples = job_epoch_samples (job),
            .dataset_samples = dataset_samples (draft->dataset),
        .classes = classes, .class_count = classes? class_count: 0, .batch_size = draft->request.batch_size,
        .slots = draft->request.slots, .slot_bytes = draft->layout.slot_bytes, .fields = draft->layout.fields,
        .field_count = draft->layout.count, .ring_path = token? self->ring_path: NULL, .ring_token = token,
        .seed = draft->seed, .fingerprint = catalogue_fingerprint (catalogue),
        .data = draft->digest.text, .run = job_run (job), .forked = job_is_forked (job),
        .pipeline_text = pipeline_text (draft->pipeline), .lease_ms = BROKER_LEASE_MS
    };
    char *text = reply_joined (&joined);
    free (classes);
    return text;
}

static void
s_clear (draft_t *draft)
{
    request_join_clear (&draft->request);
    pipeline_destroy (&draft->pipeline);
    if (draft->subset)
        roaring_bitmap_free (draft->subset);
    if (draft->taken)
        roaring_bitmap_free (draft->taken);
    free (draft->list);
    connection_destroy (&draft->connection);
}

//  Ring or inline: with a token, or without.  False: no token to be had, and no memory to do without.
static bool
s_offer (const admission_t *self, draft_t *draft, job_t *job, char *token, refusal_t *refusal)
{
    connection_t *connection = draft->connection;
    token [0] = 0;
    uid_t uid = self->uid == (uid_t) -1? geteuid (): self->uid;
    if (connection->ring && door_expect (self->door, job_id (job), uid, ring_descriptor (connection->ring), self->now_ms,
            token)) {
        token [0] = 0;
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    return true;
}

static void
s_log (const admission_t *self, const draft_t *draft, const job_t *job, bool has_ring)
{
    const request_join_t *request = &draft->request;
    char resumed [64] = "";
    if (request->resume.given)
        snprintf (resumed, sizeof resumed, ", goes on in epoch %llu", (unsigned long long) request->resume.epoch);
    log_line (self->log, "job %llu joined: %s, batches of %u, %s%s%s%s", (unsigned long long) job_id (job), request->dataset,
        request->batch_size, has_ring? "ring": "inline", resumed, request->name [0]? ", ": "", request->name);
}

job_t *
admission_run (const admission_t *self, const frame_t *frames, size_t count, char **text_p,
    refusal_t *refusal)
{
    draft_t draft = { .dataset = NULL };
    if (!request_join (frames, count, &draft.request, refusal))
        return NULL;
    job_t *job = NULL;
    char token [DOOR_TOKEN_BYTES + 1];
    //  Memory after all else that may be refused, so that this has cost nothing; then the job, which may end an earlier one.
    if (s_dataset (self, &draft, refusal) && s_same_dataset (&draft, refusal) && s_pipeline (&draft, refusal)
    &&  s_layout (&draft, refusal) && s_ids (&draft, frames, refusal) && s_resume (&draft, frames, refusal)
    &&  s_seed (&draft, refusal) && s_fresh_run (&draft, refusal) && s_allowed (self, &draft, refusal)
    &&  s_memory (self, &draft, refusal))
        job = broker_join (self->broker, &draft.join, self->now_ms, refusal);
    //  Only want of a few bytes can undo it now.
    if (job && !s_offer (self, &draft, job, token, refusal)) {
        broker_gone (self->broker, job);
        job = NULL;
    }
    if (job) {
        *text_p = s_describe (self, &draft, job, token [0]? token: NULL);
        job_set_user (job, draft.connection, draft.connection->ring == NULL);
        draft.connection = NULL;
        s_log (self, &draft, job, token [0]);
    }
    s_clear (&draft);
    return job;
}

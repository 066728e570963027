#include "admission.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "connection.h"
#include "reply.h"
#include "source.h"

//  What a request becomes, piece by piece; all of it is let go at the end, whatever happened.
typedef struct {
    request_join_t request;
    dataset_t *dataset;
    const pipeline_t *pipeline;
    layout_t layout;
    roaring_bitmap_t *subset;
    uint32_t *list;
    size_t list_count;
    uint64_t seed;
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
    uint32_t samples = dataset_samples (draft->dataset);
    if (draft->request.subset_given)
        return request_subset (&frames [2], samples, &draft->subset, refusal);
    if (draft->request.list_frames)
        return request_list (&frames [2], draft->request.list_frames, samples, &draft->list,
            &draft->list_count,
            refusal);
    return true;
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

static job_t *
s_enter (const admission_t *self, draft_t *draft, refusal_t *refusal)
{
    broker_join_t join = {
        .dataset = draft->dataset, .pipeline = draft->pipeline, .batch_size = draft->request.batch_size,
        .slots = draft->request.slots, .epochs = draft->request.epochs, .drop_last = draft->request.drop_last,
        .order = s_orders [draft->request.order], .subset = draft->subset, .list = draft->list,
        .list_count = draft->list_count, .seed = draft->seed, .pool = draft->request.pool, .name = draft->request.name,
        .slot_bytes = draft->layout.slot_bytes
    };
    return broker_join (self->broker, &join, self->now_ms, refusal);
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
    free (draft->list);
    connection_destroy (&draft->connection);
}

//  Ring or inline: with a token, or without.  False: no token to be had, and no memory to do without.
static bool
s_offer (const admission_t *self, draft_t *draft, job_t *job, char *token, refusal_t *refusal)
{
    connection_t *connection = draft->connection;
    token [0] = 0;
    if (connection->ring && door_expect (self->door, job_id (job), self->uid,
        ring_descriptor (connection->ring),
            self->now_ms, token)) {
        token [0] = 0;
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    return true;
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
    //  Memory last: what is refused for another reason has cost nothing.
    if (s_dataset (self, &draft, refusal) && s_pipeline (&draft, refusal) && s_layout (&draft, refusal)
    &&  s_ids (&draft, frames, refusal) && s_seed (&draft, refusal))
        job = s_enter (self, &draft, refusal);
    if (job) {
        if (s_memory (self, &draft, refusal) && s_offer (self, &draft, job, token, refusal)) {
            *text_p = s_describe (self, &draft, job, token [0]? token: NULL);
            job_set_user (job, draft.connection, draft.connection->ring == NULL);
            draft.connection = NULL;
            log_line (self->log, "job %llu joined: %s, batches of %u, %s%s%s",
                (unsigned long long) job_id (job),
                draft.request.dataset, draft.request.batch_size, token [0]? "ring": "inline",
                draft.request.name [0]? ", ": "", draft.request.name);
        }
        else {
            broker_gone (self->broker, job);
            job = NULL;
        }
    }
    s_clear (&draft);
    return job;
}

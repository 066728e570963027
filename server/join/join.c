#include "join.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>
#include "budget.h"
#include "dataset_source.h"
#include "job.h"
#include "utf8.h"
#include "xalloc.h"

//  Work of about a millisecond: bytes of frames, or samples of the data set, because a short frame can mean
//  all samples.
enum { LONG_BYTES = 1 << 19, LONG_SAMPLES = 1 << 19 };
enum { PARTITION_TEXT_BYTES = REQUEST_NAME_BYTES_MAX + 3 * WIRE_DATA_BYTES + 128 };

static const sampler_order_t s_orders [] = {
    [REQUEST_SHARED] = SAMPLER_ORDER_SHARED, [REQUEST_PRIVATE] = SAMPLER_ORDER_PRIVATE,
    [REQUEST_LIST] = SAMPLER_ORDER_LIST, [REQUEST_SEEDED] = SAMPLER_ORDER_SEEDED
};

join_t *
join_new (const frame_t *frames, size_t count, const peer_t *peer, const caller_t *caller, uint64_t tag,
    refusal_t *refusal)
{
    join_t *self = calloc (1, sizeof *self);
    if (!self)
        refuse (refusal, "budget", "no memory for the request");
    else
    if (!request_join (frames, count, &self->request, refusal)) {
        free (self);
        self = NULL;
    }
    if (self) {
        self->peer = *peer;
        self->caller = *caller;
        self->tag = tag;
    }
    return self;
}

//  Whether it is the one that the client means.  Another project's may have the name by now.
static bool
s_is_at (const dataset_t *dataset, const char *name, const char *path, refusal_t *refusal)
{
    if (!path)
        return true;
    const catalogue_t *catalogue = dataset_source_of (dataset)->catalogue;
    json_t *text = xalloc_memory (utf8_json_path (catalogue_root (catalogue)));
    bool good = strcmp (json_string_value (text), path) == 0 || refuse (refusal, "unknown_dataset",
        "data set '%s' of this server is %s by now, and this client means %s: add that one under a name of "
        "its own (tureen add)", name, json_string_value (text), path);
    json_decref (text);
    return good;
}

dataset_t *
join_find_dataset (broker_t *broker, const additions_t *additions, const caller_t *caller, const char *name,
    const char *path, refusal_t *refusal)
{
    dataset_t *dataset = dataset_named (broker, caller->tenant, name);
    if (!dataset && additions_allows (additions, caller->tenant, name, refusal)) {
        char *names = dataset_names (broker, caller->tenant);
        refuse (refusal, "unknown_dataset", "no data set '%s'; this server has: %s", name, names);
        free (names);
    }
    return dataset && s_is_at (dataset, name, path, refusal)? dataset: NULL;
}

//  Any user's pipeline is a program: what it may cost is bounded before it runs.
static bool
s_cost (const join_t *self, uint32_t most_ms, refusal_t *refusal)
{
    char error [2 * sizeof refusal->message];
    if (most_ms == 0 || pipeline_check_cost (self->terms.pipeline, most_ms, error, sizeof error) == 0)
        return true;
    return refuse (refusal, "bad_request", "pipeline: %s (the server's --job-cost)", error);
}

//  The pipeline on the data set's fields.  Without a share point it takes that of existing jobs, or of its
//  own job's other ranks.
static bool
s_pipeline (join_t *self, const pipeline_t *like, refusal_t *refusal)
{
    const dataset_source_t *served = dataset_source_of (self->terms.dataset);
    const catalogue_t *catalogue = served->catalogue;
    pipeline_source_t source = { .count = catalogue_fields (catalogue), .customs = served->customs,
        .custom_count = served->custom_count };
    for (size_t field = 0; field < source.count; field++)
        source.fields [field] = (pipeline_field_t) { .name = catalogue_field_name (catalogue, field),
            .is_mask = catalogue_field_is_mask (catalogue, field) };
    const char *present [SAMPLER_JOBS_MAX] = { like? pipeline_shared_text (like): NULL };
    size_t count = like? 1
        : dataset_shared_texts (self->terms.dataset, self->caller.tenant, s_orders [self->request.order],
        present, SAMPLER_JOBS_MAX);
    char error [2 * sizeof refusal->message];           //  if it is too long, refuse marks the cut
    int rc = pipeline_new (&self->terms.pipeline, self->request.pipeline, &source, present, count, error,
        sizeof error);
    if (rc == -ENOMEM)
        return refuse (refusal, "budget",
            "the system has no memory for the job's pipeline: join again when another job has left");
    if (rc)
        return refuse (refusal, "bad_request", "pipeline: %s", error);
    return true;
}

static bool
s_layout (join_t *self, refusal_t *refusal)
{
    uint32_t batch_size = self->request.batch_size;
    layout_t *layout = &self->layout;
    layout_status_t status = layout_of (layout, self->terms.pipeline,
        dataset_source_of (self->terms.dataset)->catalogue, batch_size);
    const reply_field_t *last = &layout->fields [layout->count - 1];
    if (status == LAYOUT_SAME_NAME)
        return refuse (refusal, "bad_request",
            "a batch would have two fields called '%s', one of the pipeline's and a label "
            "of data set '%s': rename the label, or leave the field out of the pipeline", last->name,
            self->request.dataset);
    if (status == LAYOUT_TOO_LARGE)
        return refuse (refusal, "bad_request", "a batch of %u samples of %zu bytes in '%s' is too large",
            batch_size, last->sample_bytes, last->name);
    return true;
}

//  Makes the list in the sampler's form, so that the broker's thread need not go through it.
static bool
s_list (join_t *self, const frame_t *frames, refusal_t *refusal)
{
    uint32_t *ids;
    uint32_t samples = dataset_samples (self->terms.dataset);
    if (!request_list (&frames [self->request.list_first], self->request.list_frames, samples, &ids,
        &self->terms.list_count, refusal))
        return false;
    self->list_whole = self->terms.list_count;
    self->digest = request_digest_of_list (ids, self->list_whole);
    if (self->list_whole < self->request.nodes) {
        free (ids);
        return refuse (refusal, "bad_request", "a list of %zu ids over %u nodes leaves some node none: take "
            "fewer nodes", self->list_whole, self->request.nodes);
    }
    self->terms.list_made = sampler_list_new (ids, self->list_whole, samples, self->request.nodes,
        self->request.node);
    if (!self->terms.list_made) {
        free (ids);
        return refuse (refusal, "budget", "no memory for a list of %zu ids", self->list_whole);
    }
    self->terms.list = self->terms.list_made->ids;
    self->terms.list_count = self->terms.list_made->count;
    return true;
}

static bool
s_ids (join_t *self, const frame_t *frames, refusal_t *refusal)
{
    const request_join_t *request = &self->request;
    uint32_t samples = dataset_samples (self->terms.dataset);
    if (request->subset_given) {
        roaring_bitmap_t *subset;
        if (!request_subset (&frames [request->subset_first], samples, &subset, refusal))
            return false;
        self->terms.subset = subset;
        self->digest = request_digest_of_set (subset);
    }
    else
    if (request->list_frames)
        return s_list (self, frames, refusal);
    else
        self->digest = request_digest_of_all (samples);
    return true;
}

//  Before reading parts of the state that have a meaning for its own data set only.
static bool
s_same_dataset (join_t *self, refusal_t *refusal)
{
    const request_resume_t *resume = &self->request.resume;
    const char *fingerprint = catalogue_fingerprint (dataset_source_of (self->terms.dataset)->catalogue);
    return !resume->given || strcmp (resume->fingerprint, fingerprint) == 0
        || refuse (refusal, "bad_state",
        "the state is of other data: its fingerprint is %s, data set '%s' has %s: the "
            "files have changed, or it is another data set; begin anew without the state",
            resume->fingerprint, self->request.dataset, fingerprint);
}

//  The samples already taken: where the job resumes.  The broker checks how they fit the job's data.
static bool
s_resume (join_t *self, const frame_t *frames, refusal_t *refusal)
{
    const request_join_t *request = &self->request;
    uint32_t samples = dataset_samples (self->terms.dataset);
    if (request->resume.given && strcmp (request->resume.data, self->digest.text) != 0)
        return refuse (refusal, "bad_state",
            "the state is of other samples of data set '%s': it says %s, this job's %s are "
            "%s; join with the same %s, or begin anew without the state", request->dataset,
            request->resume.data,
            self->terms.list? "list": "samples", self->digest.text, self->terms.list? "list": "subset");
    if (request->resume.places > self->list_whole)
        return refuse (refusal, "bad_state",
            "the state is at place %llu of a list, this one has %zu: it is of another list; "
            "begin anew without the state", (unsigned long long) request->resume.places, self->list_whole);
    roaring_bitmap_t *taken = NULL, *cut = NULL;
    if (request->taken_frames
    &&  !request_taken (&frames [request->taken_first], request->taken_frames, samples, &taken, refusal))
        return false;
    self->terms.taken = taken;
    if (request->cut_frames
    &&  !request_taken (&frames [request->cut_first], request->cut_frames, samples, &cut, refusal))
        return false;
    self->terms.parts.cut = cut;
    broker_record_t *recent = NULL;
    if (request->recent_frames
    &&  !request_recent (frames, request, samples, &recent, &self->terms.recent_count, refusal))
        return false;
    self->terms.recent = recent;
    return true;
}

//  A private stage without a given seed must not repeat that of another job.  Order `seeded` without a seed
//  gets a fresh one, which the reply reports so that the job can be repeated.
static bool
s_seed (join_t *self, refusal_t *refusal)
{
    uint64_t *seed = &self->terms.seed;
    *seed = self->request.seed;
    if (!self->request.seed_given && getrandom (seed, sizeof *seed, 0) != sizeof *seed)
        return refuse (refusal, "bad_request", "no random seed to be had; give the job one");
    return true;
}

static bool
s_fresh_run (join_t *self, refusal_t *refusal)
{
    uint8_t bytes [WIRE_RUN_BYTES / 2];
    if (getrandom (bytes, sizeof bytes, 0) != sizeof bytes)
        return refuse (refusal, "busy", "no random number to be had for a run; try again");
    for (size_t index = 0; index < sizeof bytes; index++)
        snprintf (self->fresh_run + 2 * index, 3, "%02x", bytes [index]);
    return true;
}

//  The same number on all nodes, and in each epoch: of the data set's files and the job's data.
static uint64_t
s_parts_key (const join_t *self)
{
    char text [REQUEST_NAME_BYTES_MAX + WIRE_DATA_BYTES + 2];
    snprintf (text, sizeof text, "%s\n%s",
        catalogue_fingerprint (dataset_source_of (self->terms.dataset)->catalogue), self->digest.text);
    return XXH3_64bits (text, strlen (text));
}

static void
s_fill_parts (join_t *self)
{
    const request_join_t *request = &self->request;
    broker_parts_t *parts = &self->terms.parts;
    parts->nodes = request->nodes;
    parts->node = request->node;
    parts->is_fixed = request->parts_fixed;
    parts->key = s_parts_key (self);
    parts->whole = self->terms.list? self->list_whole
        : self->terms.subset? roaring_bitmap_get_cardinality (self->terms.subset)
        : dataset_samples (self->terms.dataset);
    parts->cut_batches = request->resume.cut_batches;
    parts->cut_samples = self->terms.list? request->resume.cut_places
        : parts->cut? roaring_bitmap_get_cardinality (parts->cut): 0;
}

//  The rest of the broker's join; data set, pipeline and ids are set already.
static void
s_fill_join (join_t *self)
{
    const request_join_t *request = &self->request;
    broker_terms_t *terms = &self->terms;
    terms->tenant = self->caller.tenant;
    terms->user = self->caller.user;
    terms->world_size = request->world_size;
    terms->batch_size = request->batch_size;
    terms->slots = request->slots;
    terms->slot_bytes = self->layout.slot_bytes;
    terms->epochs = request->epochs;
    terms->drop_last = request->drop_last;
    terms->on_bad_given = request->on_bad_given;
    terms->on_bad = request->bad_is_fatal? BROKER_BAD_FAIL: BROKER_BAD_DROP;
    terms->order = s_orders [request->order];
    terms->order_is_of_seed = request->order == REQUEST_SEEDED && !request->order_given;
    terms->seed_given = request->seed_given;
    terms->pool = request->pool;
    terms->name = request->name;
    terms->data = self->digest.text;
    terms->epoch = request->resume.epoch;
    terms->epoch_batches = request->resume.batches;
    //  Of a list's places the node has each nodes-th.
    if (request->resume.places > request->node)
        terms->taken_places = (size_t) ((request->resume.places - request->node + request->nodes - 1)
            / request->nodes);
    s_fill_parts (self);
    terms->rank_wait_seconds = request->rank_wait_seconds;
    terms->run = request->run;
    terms->job_name = request->job;
    terms->instances [request->rank] = request->instance;
    terms->fresh_run = self->fresh_run;
}

bool
join_place (join_t *self, broker_t *broker, const additions_t *additions, const pipeline_t *like,
    refusal_t *refusal)
{
    self->terms.dataset = join_find_dataset (broker, additions, &self->caller, self->request.dataset,
        json_string_value (self->request.path), refusal);
    if (self->terms.dataset)
        dataset_hold (self->terms.dataset);
    return self->terms.dataset && s_same_dataset (self, refusal) && s_pipeline (self, like, refusal)
        && s_cost (self, budget_job_cost_ms (broker), refusal) && s_layout (self, refusal);
}

//  Of all that the parts of all nodes are made from (parts.h) where the job begins; without the node.
static request_digest_t
s_partition (const join_t *self)
{
    const request_join_t *request = &self->request;
    const dataset_source_t *source = dataset_source_of (self->terms.dataset);
    char text [PARTITION_TEXT_BYTES];
    request_digest_t cut = { "" }, order = { "" };
    if (self->terms.parts.cut)
        cut = request_digest_of_set (self->terms.parts.cut);
    if (source->pack)
        order = request_digest_of_list (pack_order (source->pack), dataset_samples (self->terms.dataset));
    int size = snprintf (text, sizeof text, "%s\n%s\n%u %s\n%llu %llu %llu %s\n%s",
        catalogue_fingerprint (source->catalogue), self->digest.text, request->nodes,
        request->parts_fixed? "fixed": "fresh",
        (unsigned long long) request->resume.epoch, (unsigned long long) request->resume.cut_batches,
        (unsigned long long) request->resume.cut_places, cut.text, order.text);
    assert (size > 0 && (size_t) size < sizeof text);
    return request_digest_of_bytes (text, (size_t) size);
}

bool
join_read (join_t *self, const frame_t *frames, refusal_t *refusal)
{
    if (!s_ids (self, frames, refusal) || !s_resume (self, frames, refusal))
        return false;
    if (self->request.nodes > 1)
        self->partition = s_partition (self);
    return true;
}

static size_t
s_bytes (const frame_t *frames, size_t count)
{
    size_t bytes = 0;
    for (size_t index = 0; index < count; index++)
        bytes += frames [index].size;
    return bytes;
}

bool
join_is_long (const join_t *self, const frame_t *frames)
{
    const request_join_t *request = &self->request;
    if (!request->list_frames && dataset_samples (self->terms.dataset) > LONG_SAMPLES)
        return true;
    return s_bytes (&frames [request->subset_first],
        request->subset_given) + s_bytes (&frames [request->list_first],
        request->list_frames) + s_bytes (&frames [request->taken_first], request->taken_frames)
        + s_bytes (&frames [request->cut_first], request->cut_frames)
        + s_bytes (&frames [request->recent_first], request->recent_frames) > LONG_BYTES;
}

bool
join_complete (join_t *self, refusal_t *refusal)
{
    bool good = s_seed (self, refusal) && s_fresh_run (self, refusal);
    if (good)
        s_fill_join (self);
    return good;
}

//  The request owns the ids; the broker's join only points to them.
static void
s_drop_data (join_t *self)
{
    if (self->terms.subset)
        roaring_bitmap_free (self->terms.subset);
    sampler_list_destroy (&self->terms.list_made);
    self->terms.subset = NULL;
    self->terms.list = NULL;
    self->terms.list_count = 0;
}

void
join_destroy (join_t **self_p)
{
    join_t *self = *self_p;
    if (!self)
        return;
    if (self->terms.dataset)
        dataset_let_go (self->terms.dataset);
    request_join_clear (&self->request);
    pipeline_destroy (&self->terms.pipeline);
    s_drop_data (self);
    if (self->terms.taken)
        roaring_bitmap_free (self->terms.taken);
    if (self->terms.parts.cut)
        roaring_bitmap_free (self->terms.parts.cut);
    free ((broker_record_t *) self->terms.recent);
    free (self);
    *self_p = NULL;
}

size_t
join_bytes (const join_t *self)
{
    return sizeof *self + (self->terms.subset? roaring_bitmap_size_in_bytes (self->terms.subset): 0)
        + (self->terms.taken? roaring_bitmap_size_in_bytes (self->terms.taken): 0)
        + (self->terms.parts.cut? roaring_bitmap_size_in_bytes (self->terms.parts.cut): 0)
        + (self->terms.list? sampler_list_bytes (self->terms.list_count,
            dataset_samples (self->terms.dataset), self->request.nodes > 1): 0)
        + request_recent_bytes (self->terms.recent, self->terms.recent_count, self->request.world_size);
}

void
join_yield_data (join_t *self, join_t *other)
{
    broker_terms_t *from = &self->terms, *to = &other->terms;
    if (!to->subset && !to->list) {
        to->subset = from->subset;
        to->list = from->list;
        to->list_count = from->list_count;
        to->list_made = from->list_made;
        from->subset = NULL;
        from->list_made = NULL;
    }
    s_drop_data (self);
}

#include "explain.h"
#include <stdlib.h>
#include "job.h"
#include "sharing_view.h"
#include "tenant.h"
#include "version.h"

//  A row that holds the sample, and where its batch is.
typedef struct {
    const batch_row_t *row;     //  NULL: none found yet
    uint64_t epoch, index;
    bool is_past;               //  the slot has been released
} found_t;

//  The number that an unsent batch will have in its epoch.
static uint64_t
s_index_to_be (const job_t *job, uint32_t slot)
{
    const batch_t *batch = &job->draw.batches [slot];
    const batch_t *head = &job->draw.batches [job_unsent_slot (job, 0)];
    uint64_t index = head->epoch == batch->epoch? job->delivery.epoch_index: 0;
    for (uint32_t order = 0; order < job->draw.order_count; order++) {
        uint32_t before = job_unsent_slot (job, order);
        if (before == slot)
            break;
        index += job->draw.batches [before].epoch == batch->epoch;
    }
    return index;
}

static void
s_look_in (const job_t *job, uint32_t slot, const request_explain_t *request, found_t *found)
{
    const batch_t *batch = &job->draw.batches [slot];
    bool is_past = batch->state == SLOT_FREE;
    uint32_t drawn = is_past? batch->past.drawn: batch->drawn;
    uint64_t epoch = is_past? batch->past.epoch: batch->epoch;
    if (drawn == 0 || (request->epoch_given && epoch != request->epoch))
        return;
    uint64_t index = is_past? batch->past.index: batch->state == SLOT_SENT? batch->index:
        s_index_to_be (job, slot);
    if (found->row && (epoch < found->epoch || (epoch == found->epoch && index < found->index)))
        return;
    for (uint32_t at = drawn; at-- > 0;) {
        const batch_row_t *row = &batch->rows [at];
        if (row->id != request->id || (is_past? row->is_hole: row->state == ROW_HOLE))
            continue;
        *found = (found_t) { row, epoch, index, is_past };
        return;
    }
}

//  The row in its rank's batch, holes not counted.
static uint32_t
s_row (const job_t *job, const found_t *found)
{
    const batch_t *batch = &job->draw.batches [found->row->slot];
    uint32_t row = 0;
    for (uint32_t index = found->row->index - found->row->rank_row; index < found->row->index; index++)
        row += !(found->is_past? batch->rows [index].is_hole: batch->rows [index].state == ROW_HOLE);
    return row;
}

static void
s_take_row (const broker_t *self, const job_t *job, const found_t *found, explanation_t *explanation)
{
    const batch_row_t *row = found->row;
    explanation->reply = (reply_explained_t) { .id = row->id, .epoch = found->epoch, .is_placed = true,
        .index = found->index, .row = s_row (job, found), .version = row->draw,
        .prepared_for = sharing_jobs (self, row), .is_reused = row->is_reused };
    explanation->private_key = row_key (row);
}

//  For a `seeded` job everything is known without a draw.
static void
s_take_seeded (const job_t *job, const request_explain_t *request, explanation_t *explanation)
{
    explanation->reply.epoch = request->epoch_given? request->epoch: job->draw.epoch;
    explanation->reply.version = job->consumer.numbers? (uint32_t) explanation->reply.epoch: 0;
    explanation->private_key = (pipeline_key_t) { .seed = job->asked.seed, .round = explanation->reply.epoch,
        .id = request->id };
}

bool
explain_sample (broker_t *self, job_t *job, const request_explain_t *request, explanation_t *explanation,
    int64_t now_ms, refusal_t *refusal)
{
    found_t found = { .row = NULL };
    for (uint32_t slot = 0; slot < job->asked.slots; slot++)
        s_look_in (job, slot, request, &found);
    bool is_any = job->asked.order == SAMPLER_ORDER_SEEDED && request->id < job->dataset->samples
        && sampler_has (job->dataset->sampler, job->consumer.sampler_job, (uint32_t) request->id);
    if (!found.row && job->asked.order == SAMPLER_ORDER_SEEDED && !is_any)
        return refuse (refusal, "unknown_sample", "sample %llu is none of the job's data",
            (unsigned long long) request->id);
    if (!found.row && !is_any)
        return refuse (refusal, "unknown_sample",
            "none of the job's batches holds sample %llu any more, or yet: ask while the "
            "batch is in use, or join with a seed", (unsigned long long) request->id);
    *explanation = (explanation_t) { .reply.id = request->id,
        .pipeline = pipeline_hold (job->asked.pipeline) };
    if (found.row)
        s_take_row (self, job, &found, explanation);
    else
        s_take_seeded (job, request, explanation);
    const class_t *class = version_set_user (job->consumer.kind);
    //  Jobs of several tenants influence the number, and none may learn of another tenant's.
    explanation->reply.has_no_version = self->tenant_count > 1 && !class->is_apart;
    explanation->reply.sharing = sharing_view_words (job, tenant_limits_apply (self)? job->tenant: NULL,
        now_ms);
    explanation->shared_key = (pipeline_key_t) { .seed = class->seed, .round = explanation->reply.version,
        .id = request->id };
    return true;
}

void
explain_clear (explanation_t *self)
{
    pipeline_destroy (&self->pipeline);
    free (self->reply.sharing);
}

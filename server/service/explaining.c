#include "explaining.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dataset_source.h"
#include "decoder.h"
#include "explain.h"
#include "job.h"
#include "reply.h"
#include "tenant.h"

enum { WHAT_BYTES = 256, PATH_BYTES = 4096 };

//  One question.
typedef struct {
    side_task_t side_task;      //  first, so that it leads back here
    bool is_asked;              //  the entry is in use
    explanation_t explanation;
    dataset_t *dataset;         //  held, for its source
    const dataset_source_t *source;
    peer_t peer;
    uint64_t job, tag;
    tenant_t *tenant;           //  of the client that asks: pays for the worker
    //  the answer
    char *text;                 //  NULL: the worker has not begun
    bool is_error;
} question_t;

struct explaining {
    void *router;
    broker_t *broker;
    tasks_t *tasks;
    outbox_backlog_t *backlog;
    question_t questions [EXPLAINING_MAX];
};

//  ---- in a worker

static uint32_t
s_id (const question_t *self)
{
    return (uint32_t) self->explanation.reply.id;
}

static void
s_fail (question_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static void
s_fail (question_t *self, const char *format, ...)
{
    char message [WHAT_BYTES + PATH_BYTES], path [PATH_BYTES];
    catalogue_path (self->source->catalogue, s_id (self), 0, path, sizeof path);
    int used = snprintf (message, sizeof message, "%s: ", path);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (message + used, sizeof message - (size_t) used, format, arguments);
    va_end (arguments);
    self->is_error = true;
    self->text = reply_error ("bad_sample", message);
}

//  False: there is no explanation, and the reason takes its place.
static bool
s_find_size (question_t *self, decoder_t *decoder, decoder_described_t *sample)
{
    const pipeline_t *pipeline = self->explanation.pipeline;
    catalogue_buffer_t buffer = { .bytes = NULL };
    const catalogue_t *catalogue = self->source->catalogue;
    int rc = catalogue_read (catalogue, s_id (self), pipeline_file (pipeline, 0), &buffer);
    if (rc)
        s_fail (self, "cannot be read: %s", catalogue_error (catalogue, pipeline_file (pipeline, 0), rc));
    decoder_file_t file = { .bytes = buffer.bytes, .size = buffer.size };
    decoder_sample_t files = { .files = &file, .warnings_max = self->source->jpeg_warnings_max };
    char what [WHAT_BYTES];
    decoder_status_t status = rc? DECODER_BAD
        : decoder_size (decoder, pipeline, &files, &sample->height, &sample->width, what, sizeof what);
    if (rc == 0 && status)
        s_fail (self, "%s", what);
    free (buffer.bytes);
    return status == DECODER_OK;
}

static void
s_work (side_task_t *side_task, decoder_t *decoder)
{
    question_t *self = (question_t *) side_task;
    decoder_described_t sample = { .shared_key = self->explanation.shared_key,
        .private_key = self->explanation.private_key };
    if (!s_find_size (self, decoder, &sample))
        return;
    char what [WHAT_BYTES], path [PATH_BYTES];
    json_t *operations = decoder_describe (self->explanation.pipeline, &sample, what, sizeof what);
    if (!operations) {
        s_fail (self, "%s", what);
        return;
    }
    catalogue_path (self->source->catalogue, s_id (self), 0, path, sizeof path);
    self->text = reply_explained (&self->explanation.reply, path, operations);
}

//  ---- in the broker's thread

explaining_t *
explaining_new (void *router, broker_t *broker, tasks_t *tasks, outbox_backlog_t *backlog)
{
    explaining_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->router = router;
    self->broker = broker;
    self->tasks = tasks;
    self->backlog = backlog;
    return self;
}

void
explaining_destroy (explaining_t **self_p)
{
    explaining_t *self = *self_p;
    if (!self)
        return;
    for (size_t index = 0; index < EXPLAINING_MAX; index++)
        assert (!self->questions [index].is_asked);
    free (self);
    *self_p = NULL;
}

//  Sends the answer, which takes the text over.
static void
s_send (explaining_t *self, question_t *question)
{
    atomic_size_t *account = outbox_backlog_account (self->backlog, &question->peer,
        tenant_number (question->tenant),
        (size_t) tenant_share (self->broker, question->tenant, OUTBOX_BACKLOG_ACCOUNTS_MAX));
    wire_kind_t kind = question->is_error? WIRE_ERROR: WIRE_EXPLAIN_REPLY;
    //  A failed send is ignored: it is the peer's problem.  There was room when it asked; if other users of
    //  its tenant have taken that since, it is answered all the same: at most EXPLAINING_MAX answers exceed
    //  the limit.
    if (account)
        outbox_send_counted (self->router, &question->peer, kind, question->job, question->tag,
            question->text, account);
    else
        outbox_send_text (self->router, &question->peer, kind, question->job, question->tag, question->text);
}

static void
s_done (side_task_t *side_task)
{
    question_t *question = (question_t *) side_task;
    assert (question->is_asked && (question->text || !side_task->was_done));
    if (side_task->was_done)
        s_send (side_task->context, question);
    explain_clear (&question->explanation);
    dataset_let_go (question->dataset);
    question->is_asked = false;
}

//  A free entry for one more question of the job; NULL: not now.
static question_t *
s_find_room (explaining_t *self, const job_t *job)
{
    question_t *room = NULL;
    size_t of_job = 0, of_tenant = 0;
    for (size_t index = 0; index < EXPLAINING_MAX; index++) {
        question_t *question = &self->questions [index];
        of_job += question->is_asked && question->job == job_id (job);
        of_tenant += question->is_asked && question->tenant == job_tenant (job);
        room = question->is_asked? room: question;
    }
    return of_job < EXPLAINING_OF_JOB_MAX
        && of_tenant < tenant_share (self->broker, job_tenant (job), EXPLAINING_MAX)? room: NULL;
}

bool
explaining_begin (explaining_t *self, job_t *job, const peer_t *peer, uint64_t tag, const frame_t *frame,
    int64_t now_ms, refusal_t *refusal)
{
    request_explain_t request;
    if (!request_explain (frame, &request, refusal))
        return false;
    question_t *question = s_find_room (self, job);
    if (!question)
        return refuse (refusal, "busy",
            "too many samples are being explained at once (at most %d of a job): wait for an answer",
            EXPLAINING_OF_JOB_MAX);
    *question = (question_t) { .side_task = { .work = s_work, .done = s_done, .context = self },
        .dataset = job_dataset (job), .source = dataset_source_of (job_dataset (job)),
        .peer = *peer,
        .job = job_id (job), .tag = tag, .tenant = job_tenant (job) };
    if (!explain_sample (self->broker, job, &request, &question->explanation, now_ms, refusal))
        return false;
    question->is_asked = true;
    dataset_hold (question->dataset);
    tasks_add_side_task (self->tasks, question->tenant, &question->side_task);
    return true;
}

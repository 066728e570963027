#include "ready_tasks.h"
#include <assert.h>
#include <errno.h>
#include <string.h>
#include "broker.h"
#include "pack_index.h"

enum { MEAN_TASKS = 16 };               //  of a running mean

static void
s_put (ready_tasks_t *self, task_t *task, bool is_first)
{
    task->next = is_first? self->first: NULL;
    if (is_first)
        self->first = task;
    else
        *(self->last? &self->last->next: &self->first) = task;
    if (!self->last || !is_first)
        self->last = task;
}

static task_t *
s_take (ready_tasks_t *self)
{
    task_t *task = self->first;
    if (task)
        self->first = task->next;
    if (!self->first)
        self->last = NULL;
    return task;
}

//  ---- what workers report

//  The version came in frames; remote_workers.c has checked their size together.
static void
s_copy_version (task_t *task, const remote_result_t *result)
{
    uint8_t *target = task->memory;
    for (size_t index = 0; index < result->count; index++) {
        memcpy (target, result->frames [index].data, result->frames [index].size);
        target += result->frames [index].size;
    }
}

//  What is learned where the sample was prepared serves wherever it is prepared next.
static void
s_learn (task_t *task, const remote_result_t *result)
{
    if (!task->packed && task->has_room && result->rows.size > 0)
        task->learned = learned_rows_entry (pack_checksum (task->buffers [0].bytes, task->buffers [0].size),
            result->rows.data, result->rows.size);
}

static void
s_done (void *context, void *argument, const remote_result_t *result)
{
    ready_tasks_t *self = context;
    task_t *task = argument;
    if (!result || result->is_starved) {
        s_put (self, task, true);
        return;
    }
    if (result->outcome == OUTCOME_READY) {
        s_copy_version (task, result);
        if (!decoder_is_version (task->pipeline, task->memory)) {
            s_put (self, task, true);           //  as if the worker had been lost
            return;
        }
    }
    task->worker_ns = result->worker_ns;
    if (result->outcome == OUTCOME_READY) {
        s_learn (task, result);
        task->is_clipped = result->is_clipped;
    }
    else
        task_blame (task, result->outcome, result->file, result->what);
    self->finish (self->context, task);
}

static void
s_lends (void *context, uint32_t processors)
{
    ready_tasks_t *self = context;
    broker_lend (self->broker, processors);
}

static void
s_make_golden (side_task_t *side_task, decoder_t *decoder)
{
    ready_tasks_golden_t *golden = (ready_tasks_golden_t *) side_task;
    golden->is_made = golden_make (decoder, golden->nonce, golden->digests);
}

static void
s_check (void *context, uint64_t nonce)
{
    ready_tasks_t *self = context;
    self->golden = (ready_tasks_golden_t) { .side_task = { .work = s_make_golden }, .nonce = nonce };
    self->golden.task.kind = TASK_SIDE_TASK;
    self->golden.task.side_task = &self->golden.side_task;
    pool_submit (self->pool, &self->golden.task);
}

//  ---- handing out

int
ready_tasks_lend (ready_tasks_t *self, void *router, log_t *log)
{
    remote_workers_options_t options = { .router = router, .log = log, .done = s_done, .lends = s_lends,
        .check = s_check, .context = self };
    self->remote = remote_workers_new (&options);
    return self->remote? 0: -ENOMEM;
}

static void
s_submit (ready_tasks_t *self, task_t *task)
{
    self->local += !task->is_slow;
    pool_submit (task->is_slow? self->slow_pool: self->pool, task);
}

static bool
s_give (ready_tasks_t *self, task_t *task)
{
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    if (!remote_workers_have_credit (self->remote, pipeline_version_bytes (task->pipeline)))
        return false;
    task_files (task, files);
    bool is_first = !task->packed && pipeline_file (task->pipeline, 0) == 0;
    bool is_told = is_first && learned_rows_tell (task->told, &files [0]);
    remote_task_t wanted = { .task = task, .pipeline = task->pipeline, .catalogue = task->source->catalogue,
        .key = task->key, .files = pipeline_files (task->pipeline),
        .fingerprint = task->packed? NULL: catalogue_files_fingerprint (task->source->catalogue),
        .learns = is_first && task->has_room && !is_told,
        .sample = { .files = files, .warnings_max = task->source->jpeg_warnings_max } };
    return remote_workers_give (self->remote, &wanted, self->now_ms);
}

static bool
s_has_room (const ready_tasks_t *self)
{
    return !self->remote || !remote_workers_are_there (self->remote)
        || self->local < READY_TASKS_A_THREAD * self->threads;
}

//  The task is out of the queue while it is given: a worker that turns out to be gone puts its tasks there.
static void
s_hand_out (ready_tasks_t *self)
{
    for (task_t *task; (task = s_take (self)); ) {
        if (task->is_slow || s_has_room (self))
            s_submit (self, task);
        else
        if (!s_give (self, task)) {
            s_put (self, task, true);
            //  The last worker may have gone just now.
            if (!s_has_room (self))
                return;
        }
    }
}

static int64_t
s_patience_ns (const ready_tasks_t *self)
{
    return (int64_t) (READY_TASKS_PATIENCE * self->local_ns);
}

//  Threads are idle, or soon will be: they do what workers are late with.
static void
s_take_back (ready_tasks_t *self)
{
    while (self->remote && self->local_ns > 0 && !self->first && self->local < self->threads
    &&  remote_workers_take_back (self->remote, s_patience_ns (self)))
        s_hand_out (self);
}

void
ready_tasks_add (ready_tasks_t *self, task_t *task)
{
    //  A sample that is known to be bad goes through the pool, where it costs nothing.
    bool stays = task->outcome != OUTCOME_READY
        || pipeline_version_bytes (task->pipeline) > WIRE_WORK_VERSION_MAX;
    if (task->is_slow && !stays && self->remote && s_give (self, task))
        return;
    if (stays || task->is_slow || (!self->first && s_has_room (self)))
        s_submit (self, task);
    else {
        s_put (self, task, false);
        s_hand_out (self);
    }
}

void
ready_tasks_hand_out (ready_tasks_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    if (self->remote)
        remote_workers_look (self->remote, now_ms);
    s_hand_out (self);
    s_take_back (self);
}

bool
ready_tasks_done (ready_tasks_t *self, task_t *task)
{
    if (task == &self->golden.task) {
        remote_workers_checked (self->remote, self->golden.is_made? self->golden.digests: NULL,
            self->now_ms);
        return true;
    }
    if (task->kind == TASK_PREPARE) {
        assert (self->local > 0);
        self->local--;
        if (task->outcome == OUTCOME_READY)
            self->local_ns += ((double) task->worker_ns - self->local_ns)
                / (self->local_ns > 0? MEAN_TASKS: 1);
    }
    return false;
}

int64_t
ready_tasks_wakeup (const ready_tasks_t *self)
{
    if (!self->remote)
        return INT64_MAX;
    int64_t wakeup = remote_workers_wakeup (self->remote);
    if (self->first || self->local_ns <= 0 || self->local >= self->threads
    ||  !remote_workers_have_tasks (self->remote))
        return wakeup;
    int64_t back_ms = self->now_ms + 1 + s_patience_ns (self) / 1000000;
    return back_ms < wakeup? back_ms: wakeup;
}

//  ---- the end

task_t *
ready_tasks_drain (ready_tasks_t *self)
{
    if (self->remote)
        remote_workers_stop (self->remote);
    return s_take (self);
}

void
ready_tasks_destroy (ready_tasks_t *self)
{
    remote_workers_destroy (&self->remote);
}

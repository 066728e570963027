#include "ready_tasks.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "broker.h"
#include "budget.h"
#include "pack_index.h"

enum {
    MEAN_TASKS = 16,                    //  of a running mean
    MOST_TASKS = 4096,                  //  in which the most that a task took fades
    NETWORK_NS = 20000000               //  what a sound worker's network and threads may add to a quick task
};

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

static void
s_submit (ready_tasks_t *self, task_t *task)
{
    self->local [task->is_slow]++;
    pool_submit (task->is_slow? self->slow_pool: self->pool, task);
}

//  A thread has carried out the task of a sample that a worker called bad, unless the server ends.
static void
s_judge (ready_tasks_t *self, const task_t *task)
{
    char what [TASK_REASON_BYTES + 80];
    if (task->outcome != OUTCOME_READY || task->is_starved || atomic_load (&task->is_abandoned)
    ||  atomic_load (&task->began_ms) == 0)
        return;
    snprintf (what, sizeof what, "it called a sample bad that a thread of this server prepared (%s)",
        task->reason);
    remote_workers_was_wrong (self->remote, task->accuser, what, self->now_ms);
}

static void
s_done (void *context, void *argument, const remote_result_t *result)
{
    ready_tasks_t *self = context;
    task_t *task = argument;
    if (!result && self->takes_back) {
        s_submit (self, task);
        return;
    }
    if (!result || result->is_starved) {
        s_put (self, task, true);
        return;
    }
    if (result->outcome == OUTCOME_READY) {
        s_copy_version (task, result);
        if (!decoder_is_version (task->pipeline, task->memory)) {
            s_put (self, task, true);           //  as if the worker had been lost
            remote_workers_was_wrong (self->remote, result->worker, "it sent a version that cannot be",
                self->now_ms);
            return;
        }
    }
    task->worker_ns += result->worker_ns;
    if (result->outcome != OUTCOME_READY) {
        //  A bad sample is left out for all jobs, so a thread of this server prepares it first.  It does not
        //  wait in the queue, which other workers take from.
        task_blame (task, OUTCOME_READY, result->file, result->what);
        task->accuser = result->worker;
        s_submit (self, task);
        return;
    }
    //  What is learned where the sample was prepared serves wherever it is prepared next.
    if (!task->packed && task->has_room && result->rows.size > 0)
        task->learned = jpeg_row_index_entry (pack_index_checksum (task->buffers [0].bytes,
            task->buffers [0].size), result->rows.data, result->rows.size);
    task->is_clipped = result->is_clipped;
    self->finish (self->context, task);
}

static void
s_lends (void *context, uint32_t processors)
{
    ready_tasks_t *self = context;
    budget_lend (self->broker, processors);
}

static void
s_make_digests (side_task_t *side_task, decoder_t *decoder)
{
    ready_tasks_build_check_t *check = (ready_tasks_build_check_t *) side_task;
    check->is_made = build_check_make (decoder, check->nonce, check->digests);
}

static void
s_check (void *context, uint64_t nonce)
{
    ready_tasks_t *self = context;
    self->build_check = (ready_tasks_build_check_t) { .side_task = { .work = s_make_digests },
        .nonce = nonce };
    self->build_check.task.kind = TASK_SIDE_TASK;
    self->build_check.task.side_task = &self->build_check.side_task;
    pool_submit (self->pool, &self->build_check.task);
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

static bool
s_give (ready_tasks_t *self, task_t *task)
{
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    if (!remote_workers_have_credit (self->remote, pipeline_version_bytes (task->pipeline),
        self->now_ms))
        return false;
    task_files (task, files);
    bool is_first = !task->packed && pipeline_file (task->pipeline, 0) == 0;
    bool is_told = is_first && jpeg_row_index_tell (task->told, &files [0]);
    remote_task_t wanted = { .task = task, .pipeline = task->pipeline, .catalogue = task->source->catalogue,
        .key = task->key, .files = pipeline_files (task->pipeline),
        .fingerprint = task->packed? NULL: catalogue_files_fingerprint (task->source->catalogue),
        .is_slow = task->is_slow, .learns = is_first && task->has_room && !is_told,
        .sample = { .files = files, .warnings_max = task->source->jpeg_warnings_max } };
    return remote_workers_give (self->remote, &wanted, self->now_ms);
}

static bool
s_has_room (const ready_tasks_t *self)
{
    return !self->remote || !remote_workers_are_there (self->remote)
        || self->local [false] < READY_TASKS_A_THREAD * self->threads;
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

//  INT64_MAX: it is not known yet how long such tasks take here.
static int64_t
s_patience_ns (const ready_tasks_t *self, bool is_slow)
{
    bool is_idle = self->local [is_slow] < self->threads && (is_slow || !self->first);
    int64_t local_ns = (int64_t) self->local_ns [is_slow], most_ns = (int64_t) self->most_ns [is_slow];
    return local_ns == 0? INT64_MAX: is_idle? READY_TASKS_PATIENCE * local_ns:
        READY_TASKS_PATIENCE_BUSY * most_ns + NETWORK_NS;
}

//  This server's threads do what workers are late with.
static void
s_take_back (ready_tasks_t *self)
{
    self->takes_back = true;
    for (int is_slow = 0; self->remote && is_slow < 2; is_slow++)
        while (remote_workers_take_back (self->remote, is_slow, s_patience_ns (self, is_slow)))
            ;
    self->takes_back = false;
}

void
ready_tasks_add (ready_tasks_t *self, task_t *task)
{
    //  A sample that is known to be bad goes through the pool, where it costs nothing.
    bool stays = task->outcome != OUTCOME_READY || task->accuser || task->is_decoded
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
    if (task == &self->build_check.task) {
        remote_workers_checked (self->remote, self->build_check.is_made? self->build_check.digests: NULL,
            self->now_ms);
        return true;
    }
    if (task->kind == TASK_PREPARE && !task->is_custom) {
        double *local_ns = &self->local_ns [task->is_slow], *most_ns = &self->most_ns [task->is_slow],
            took_ns = (double) task->worker_ns;
        assert (self->local [task->is_slow] > 0);
        self->local [task->is_slow]--;
        if (task->accuser)
            s_judge (self, task);
        else
        if (task->outcome == OUTCOME_READY) {
            *local_ns += (took_ns - *local_ns) / (*local_ns > 0? MEAN_TASKS: 1);
            *most_ns -= *most_ns / MOST_TASKS;
            *most_ns = took_ns > *most_ns? took_ns: *most_ns;
        }
    }
    return false;
}

int64_t
ready_tasks_wakeup (const ready_tasks_t *self)
{
    if (!self->remote)
        return INT64_MAX;
    int64_t wakeup = remote_workers_wakeup (self->remote);
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        int64_t back_ms = self->now_ms + 1 + s_patience_ns (self, is_slow) / 1000000;
        if (remote_workers_have_tasks (self->remote, is_slow) && back_ms < wakeup)
            wakeup = back_ms;
    }
    return wakeup;
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

#include "remote_workers.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <zmq.h>
#include "build_check.h"
#include "pack_index.h"
#include "remote_worker.h"
#include "utf8.h"
#include "work_message.h"

enum {
    MAGIC = 0x3e304e5a,
    LOOK_MS = 100,
    ANSWER_MS = 30000,                  //  for the golden samples, its and ours
    REMEMBERED_MS = 60000,              //  a worker that was refused
    DISMISSED_MS = 3600000,             //  one that was dismissed: a person should see it
    //  Of versions on their way back from one worker: a connection may hold some more (receive_quota.h).
    OUT_BYTES_MAX = 2 * WIRE_WORK_VERSION_MAX
};

//  A task that a worker has, until it answers.
typedef struct {
    uint64_t number;                    //  0: the place is free
    void *task;                         //  NULL: it was taken back meanwhile, and the answer will be dropped
    remote_worker_t *worker;
    bool is_slow;
    size_t files;
    size_t dataset;                     //  that the worker reads it from; SIZE_MAX: it was sent
    uint64_t version_bytes;
    int64_t given_ns, given_ms;
    int64_t late_ms;                    //  from then on it is handed out again: set when it was given
} out_t;

typedef struct {
    uint32_t number;                    //  from 1 on; 0: the place is free
    const pipeline_t *pipeline;         //  one reference, so that its address is not another one's
    const catalogue_t *catalogue;       //  its fields
} known_pipeline_t;

//  A pipeline is sent to a worker once, before its first task, and then named by its number.  Both sides keep
//  the last WIRE_WORK_PIPELINES_MAX.  A worker sees the shared stage alone: no private stage and no job.
typedef struct {
    known_pipeline_t all [WIRE_WORK_PIPELINES_MAX];
    uint32_t last;                      //  number
} known_pipelines_t;

struct remote_workers {
    uint32_t magic;
    remote_workers_options_t options;
    remote_worker_t workers [REMOTE_WORKERS_MAX];
    remote_worker_t *checking;          //  its golden samples are being made
    bool is_checking;                   //  even if that worker has gone meanwhile
    uint32_t lent;                      //  processors
    known_pipelines_t pipelines;
    out_t out [REMOTE_WORKERS_TASKS_MAX];       //  number n in the place n % REMOTE_WORKERS_TASKS_MAX
    size_t out_count;
    uint64_t last_worker;               //  number
    uint64_t lost_workers;              //  that worked, and went suddenly
    uint64_t last_number;               //  of a task
    uint64_t oldest [2];                //  no quick task that can be taken back has a number below the first,
                                        //  and no slow one below the second
    int64_t looked_ms, beat_ms;
    bool is_stopped;
};

//  ---- the pipelines that workers know by number

//  The pipeline's entry, made if there is none.  Lent until the next call.
static const known_pipeline_t *
s_find_pipeline (known_pipelines_t *self, const pipeline_t *pipeline, const catalogue_t *catalogue)
{
    for (size_t index = 0; index < WIRE_WORK_PIPELINES_MAX; index++)
        if (self->all [index].pipeline == pipeline && self->all [index].catalogue == catalogue)
            return &self->all [index];
    uint32_t number = ++self->last;
    known_pipeline_t *entry = &self->all [number % WIRE_WORK_PIPELINES_MAX];
    pipeline_destroy (&entry->pipeline);
    *entry = (known_pipeline_t) { number, pipeline_hold (pipeline), catalogue };
    return entry;
}

//  WORK_PIPELINE's text; malloc'ed.
static char *
s_pipeline_text (const known_pipeline_t *entry)
{
    json_t *fields = json_array ();
    for (size_t field = 0; field < catalogue_fields (entry->catalogue); field++)
        json_array_append_new (fields, json_pack ("[s, b]", catalogue_field_name (entry->catalogue, field),
            catalogue_field_is_mask (entry->catalogue, field)));
    return work_message_write_pipeline (entry->number, pipeline_version_bytes (entry->pipeline),
        pipeline_shared_text (entry->pipeline), fields);
}

//  ---- life

static int64_t
s_nanoseconds (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000000000 + time.tv_nsec;
}

remote_workers_t *
remote_workers_new (const remote_workers_options_t *options)
{
    remote_workers_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = MAGIC;
    self->options = *options;
    if (!self->options.nanoseconds)
        self->options.nanoseconds = s_nanoseconds;
    return self;
}

void
remote_workers_destroy (remote_workers_t **self_p)
{
    remote_workers_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC && self->out_count == 0);
    for (size_t index = 0; index < WIRE_WORK_PIPELINES_MAX; index++)
        pipeline_destroy (&self->pipelines.all [index].pipeline);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  ---- the table of workers

static remote_worker_t *
s_find (remote_workers_t *self, const peer_t *peer)
{
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
        if (self->workers [index].state && peer_is (&self->workers [index].peer, peer))
            return &self->workers [index];
    return NULL;
}

//  A free place; else that of a worker that was refused: dismissed ones, which a person should see, go last.
static remote_worker_t *
s_place (remote_workers_t *self)
{
    remote_worker_t *found = NULL;
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        remote_worker_t *worker = &self->workers [index];
        if (worker->state == REMOTE_WORKER_FREE)
            return worker;
        if (worker->state == REMOTE_WORKER_REFUSED && (!found || remote_worker_is_dismissed (found)))
            found = worker;
    }
    return found;
}

static bool
s_has_tasks (const remote_worker_t *worker)
{
    return worker->state == REMOTE_WORKER_WORKING || worker->state == REMOTE_WORKER_STALLED;
}

//  Divides what may be lent: first come, first served.
static void
s_grant (remote_workers_t *self)
{
    uint32_t lent = 0;
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
        lent += s_has_tasks (&self->workers [index])? self->workers [index].granted: 0;
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        remote_worker_t *worker = &self->workers [index];
        if (!s_has_tasks (worker))
            continue;
        uint32_t more = worker->processors - worker->granted, left = WIRE_WORK_PROCESSORS_MAX - lent;
        worker->granted += more < left? more: left;
        lent += more < left? more: left;
    }
    if (lent != self->lent)
        self->options.lends (self->options.context, lent);
    self->lent = lent;
}

//  The worker has answered, or never will: the place is free.
static void
s_free_place (remote_workers_t *self, out_t *out)
{
    assert (out->worker->out > 0 && self->out_count > 0);
    out->worker->out--;
    out->worker->out_bytes -= out->version_bytes;
    self->out_count--;
    *out = (out_t) { .number = 0 };
}

//  The caller may hand the task out at once.  The worker still has it, so the place stays taken.
static void
s_take_back (remote_workers_t *self, out_t *out)
{
    void *task = out->task;
    out->task = NULL;
    self->options.done (self->options.context, task, NULL);
}

static void
s_return_tasks (remote_workers_t *self, remote_worker_t *worker)
{
    for (size_t index = 0; index < REMOTE_WORKERS_TASKS_MAX && worker->out > 0; index++) {
        out_t *out = &self->out [index];
        if (!out->number || out->worker != worker)
            continue;
        void *task = out->task;
        s_free_place (self, out);
        if (!task)
            continue;
        worker->lost++;
        self->options.done (self->options.context, task, NULL);
    }
}

//  The worker gets no tasks any more, and its tasks go back.  In this order: the caller that takes a task
//  back may hand it out at once.
static void
s_leave (remote_workers_t *self, remote_worker_t *worker, remote_worker_state_t state)
{
    if (self->checking == worker)
        self->checking = NULL;
    remote_worker_move (worker, state);
    worker->granted = 0;
    s_return_tasks (self, worker);
    s_grant (self);
}

//  Tasks that it has, and nothing else does by now.
static size_t
s_count_tasks (const remote_workers_t *self, const remote_worker_t *worker)
{
    size_t count = 0;
    for (size_t index = 0; index < REMOTE_WORKERS_TASKS_MAX; index++)
        count += self->out [index].number && self->out [index].worker == worker && self->out [index].task;
    return count;
}

//  It is gone; is_sudden: without a word of its own.
static void
s_lose (remote_workers_t *self, remote_worker_t *worker, bool is_sudden, const char *why)
{
    size_t tasks = s_count_tasks (self, worker);
    self->lost_workers += is_sudden && s_has_tasks (worker);
    if (worker->state != REMOTE_WORKER_REFUSED)
        log_event (self->options.log, LOG_LEVEL_NOTICE, "worker_gone",
            LOG_FIELDS (LOG_TEXT ("worker", worker->name), LOG_NUMBER ("tasks", tasks)),
            "the worker '%s' %s; %zu tasks are handed out again", worker->name, why, tasks);
    s_leave (self, worker, REMOTE_WORKER_FREE);
}

static bool
s_send (remote_workers_t *self, remote_worker_t *worker, wire_kind_t kind, char *text)
{
    return outbox_send_text (self->options.router, &worker->peer, kind, 0, 0, text) == OUTBOX_SENT;
}

static void
s_refuse (remote_workers_t *self, remote_worker_t *worker, const char *reason, int64_t now_ms)
{
    snprintf (worker->reason, sizeof worker->reason, "%s", reason);
    log_event (self->options.log, LOG_LEVEL_WARNING, "worker_refused",
        LOG_FIELDS (LOG_TEXT ("worker", worker->name)), "the worker '%s' is refused: %s", worker->name,
        worker->reason);
    s_send (self, worker, WIRE_WORK_REFUSED, work_message_write_refused (worker->reason));
    worker->begun_ms = now_ms;
    s_leave (self, worker, REMOTE_WORKER_REFUSED);
}

//  Of a worker that was dismissed, started again and dismissed again, the last time is remembered.
static void
s_dismiss (remote_workers_t *self, remote_worker_t *worker, const char *what, int64_t now_ms)
{
    char reason [WORK_REASON_BYTES];
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        remote_worker_t *other = &self->workers [index];
        if (other->state == REMOTE_WORKER_REFUSED && remote_worker_is_dismissed (other)
        &&  other->user == worker->user && strcmp (other->name, worker->name) == 0)
            s_leave (self, other, REMOTE_WORKER_FREE);
    }
    snprintf (reason, sizeof reason, "dismissed, because %d of its results were wrong: look at its memory "
        "and its libraries before you start it again. The last one: %s", REMOTE_WORKER_WRONG_MAX, what);
    s_refuse (self, worker, reason, now_ms);
}

//  ---- the handshake

static bool
s_hello (remote_workers_t *self, const remote_message_t *message, int64_t now_ms, refusal_t *refusal)
{
    work_hello_t hello;
    remote_worker_t *worker = s_find (self, message->peer);
    if (worker)
        return refuse (refusal, "bad_request", "this connection has said hello already");
    if (!work_message_read_hello (&message->frames [1], &hello, refusal))
        return false;
    worker = s_place (self);
    if (!worker)
        return refuse (refusal, "busy", "this server has %d workers, which is the most", REMOTE_WORKERS_MAX);
    *worker = (remote_worker_t) { .number = ++self->last_worker, .peer = *message->peer,
        .user = message->user,
        .processors = hello.processors, .begun_ms = now_ms, .heard_ms = now_ms, .rated_ms = now_ms };
    snprintf (worker->name, sizeof worker->name, "%s", message->label? message->label: hello.name);
    worker->datasets = hello.datasets;
    memcpy (worker->fingerprints, hello.fingerprints, sizeof worker->fingerprints);
    snprintf (worker->libraries, sizeof worker->libraries, "%s", hello.libraries);
    if (getrandom (&worker->nonce, sizeof worker->nonce, 0) != sizeof worker->nonce)
        return refuse (refusal, "busy", "no random number to be had: try again in a moment");
    remote_worker_move (worker, REMOTE_WORKER_CHALLENGED);
    s_send (self, worker, WIRE_WORK_CHALLENGE, work_message_write_challenge (worker->nonce));
    return true;
}

//  Begins the check of the next worker that has answered.
static void
s_check_next (remote_workers_t *self)
{
    for (size_t index = 0; index < REMOTE_WORKERS_MAX && !self->is_checking; index++)
        if (self->workers [index].state == REMOTE_WORKER_CHECKED) {
            self->checking = &self->workers [index];
            self->is_checking = true;
            self->options.check (self->options.context, self->checking->nonce);
        }
}

static bool
s_answer (remote_workers_t *self, remote_worker_t *worker, const remote_message_t *message,
    refusal_t *refusal)
{
    const char *names [BUILD_CHECK_SAMPLES];
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        names [index] = build_check_name (index);
    if (worker->state != REMOTE_WORKER_CHALLENGED)
        return refuse (refusal, "bad_request", "no answer is expected now");
    if (!work_message_read_answer (&message->frames [1], names, BUILD_CHECK_SAMPLES, worker->digests,
            refusal))
        return false;
    remote_worker_move (worker, REMOTE_WORKER_CHECKED);
    s_check_next (self);
    return true;
}

//  "JPEG, colours; PNG, colours": what differs, as far as there is room.  False: nothing.
static bool
s_differs (const remote_worker_t *worker, const uint64_t *digests, char *text, size_t text_bytes)
{
    size_t used = 0;
    text [0] = 0;
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        if (worker->digests [index] != digests [index] && used < text_bytes)
            used += (size_t) snprintf (text + used, text_bytes - used, "%s%s", used? "; ": "",
                build_check_name (index));
    return used > 0;
}

void
remote_workers_checked (remote_workers_t *self, const uint64_t *digests, int64_t now_ms)
{
    remote_worker_t *worker = self->checking;
    char differs [WORK_TEXT_BYTES / 2], reason [WORK_REASON_BYTES], libraries [BUILD_CHECK_LIBRARIES_BYTES];
    self->is_checking = false;
    self->checking = NULL;
    if (worker && !digests)
        s_refuse (self, worker, "the server has no memory for golden samples: try again", now_ms);
    else
    if (worker && s_differs (worker, digests, differs, sizeof differs)) {
        build_check_libraries (libraries);
        snprintf (reason, sizeof reason, "it decodes other pixels than this server (%s): install the "
            "server's build; the worker has %s, the server %s", differs, worker->libraries, libraries);
        s_refuse (self, worker, reason, now_ms);
    }
    else
    if (worker) {
        remote_worker_move (worker, REMOTE_WORKER_WORKING);
        outbox_send (self->options.router, &worker->peer, WIRE_WORK_WELCOME, 0, 0, NULL, 0);
        log_event (self->options.log, LOG_LEVEL_NOTICE, "worker",
            LOG_FIELDS (LOG_TEXT ("worker", worker->name), LOG_NUMBER ("processors", worker->processors)),
            "the worker '%s' lends %u processor%s", worker->name, worker->processors,
            worker->processors == 1? "": "s");
        s_grant (self);
    }
    if (!self->is_stopped)
        s_check_next (self);
}

//  ---- tasks

bool
remote_workers_are_there (const remote_workers_t *self)
{
    return self->lent > 0;
}

//  The worker that will be ready first; NULL: none has credit.
static remote_worker_t *
s_choose (remote_workers_t *self, uint64_t version_bytes, int64_t now_ms)
{
    remote_worker_t *best = NULL;
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        remote_worker_t *worker = &self->workers [index];
        if (worker->out < remote_worker_credit (worker) && now_ms >= worker->rests_until_ms
        &&  worker->out_bytes + version_bytes <= OUT_BYTES_MAX
        &&  (!best || remote_worker_wait_ns (worker) < remote_worker_wait_ns (best)))
            best = worker;
    }
    return best;
}

bool
remote_workers_have_credit (remote_workers_t *self, uint64_t version_bytes, int64_t now_ms)
{
    return !self->is_stopped && s_choose (self, version_bytes, now_ms);
}

static bool
s_tell_pipeline (remote_workers_t *self, remote_worker_t *worker, const known_pipeline_t *entry)
{
    uint32_t *known = &worker->known [entry->number % WIRE_WORK_PIPELINES_MAX];
    if (*known == entry->number)
        return true;
    *known = entry->number;
    return s_send (self, worker, WIRE_WORK_PIPELINE, s_pipeline_text (entry));
}

//  Of the frame with the files, or with the rows alone.
static size_t
s_task_bytes (const remote_task_t *task, bool is_read)
{
    size_t bytes = task->sample.files [0].rows_bytes;
    for (size_t file = 0; !is_read && file < task->files; file++)
        bytes += task->sample.files [file].size;
    return bytes;
}

//  The worker's files may be others, of the same names and sizes.
static uint64_t
s_checksum (const remote_task_t *task)
{
    uint64_t checksum = 0;
    for (size_t file = 0; file < task->files; file++)
        checksum += (file + 1) * pack_index_checksum (task->sample.files [file].bytes,
            task->sample.files [file].size);
    return checksum;
}

//  The bytes are copied: ZeroMQ may still have them when another worker has done the task.
static bool
s_send_task (remote_workers_t *self, remote_worker_t *worker, const remote_task_t *task, uint32_t pipeline,
    size_t dataset)
{
    bool is_read = dataset != SIZE_MAX;
    wire_work_task_t wire = { .seed = task->key.seed, .round = task->key.round, .id = task->key.id,
        .occurrence = task->key.occurrence, .pipeline = pipeline, .files = (uint32_t) task->files,
        .warnings_max = task->sample.warnings_max, .flags = task->learns? WIRE_WORK_LEARN: 0,
        .rows_bytes = task->sample.files [0].rows_bytes };
    zmq_msg_t bytes;
    size_t size = s_task_bytes (task, is_read);
    if (is_read) {
        wire.flags |= WIRE_WORK_READ;
        wire.dataset = (uint32_t) dataset;
        wire.checksum = s_checksum (task);
    }
    if (zmq_msg_init_size (&bytes, size))
        return false;
    uint8_t *target = zmq_msg_data (&bytes);
    for (size_t file = 0; file < task->files; file++) {
        wire.sizes [file] = task->sample.files [file].size;
        if (is_read || wire.sizes [file] == 0)
            continue;
        memcpy (target, task->sample.files [file].bytes, wire.sizes [file]);
        target += wire.sizes [file];
    }
    if (wire.rows_bytes)
        memcpy (target, task->sample.files [0].rows, wire.rows_bytes);
    worker->bytes_sent += size + sizeof wire;
    return outbox_send_message (self->options.router, &worker->peer, WIRE_WORK_TASK,
        self->last_number, &wire, sizeof wire, &bytes) == OUTBOX_SENT;
}

//  A place for a new task; NULL: the table is full.
static out_t *
s_new_number (remote_workers_t *self)
{
    if (self->out_count == REMOTE_WORKERS_TASKS_MAX)
        return NULL;
    out_t *out;
    do
        out = &self->out [++self->last_number % REMOTE_WORKERS_TASKS_MAX];
    while (out->number);
    return out;
}

//  The number of the task of this kind that is out for longest and was not taken back; last_number + 1: there
//  is none.
static uint64_t
s_oldest (const remote_workers_t *self, bool is_slow)
{
    uint64_t number = self->oldest [is_slow];
    for (; number <= self->last_number; number++) {
        const out_t *out = &self->out [number % REMOTE_WORKERS_TASKS_MAX];
        if (out->number == number && out->task && out->is_slow == is_slow)
            break;
    }
    return number;
}

bool
remote_workers_give (remote_workers_t *self, const remote_task_t *task, int64_t now_ms)
{
    assert (task->files > 0 && task->files <= WIRE_WORK_FILES_MAX);
    uint64_t version_bytes = pipeline_version_bytes (task->pipeline);
    assert (version_bytes <= WIRE_WORK_VERSION_MAX);
    remote_worker_t *worker;
    while (!self->is_stopped && (worker = s_choose (self, version_bytes, now_ms))) {
        out_t *out = s_new_number (self);
        if (!out)
            return false;
        const known_pipeline_t *entry = s_find_pipeline (&self->pipelines, task->pipeline,
            task->catalogue);
        size_t dataset = task->fingerprint? remote_worker_dataset (worker, task->fingerprint): SIZE_MAX;
        if (s_tell_pipeline (self, worker, entry)
        &&  s_send_task (self, worker, task, entry->number, dataset)) {
            *out = (out_t) { .number = self->last_number, .task = task->task, .worker = worker,
                .is_slow = task->is_slow, .files = task->files, .dataset = dataset,
                .version_bytes = version_bytes,
                .given_ns = self->options.nanoseconds (), .given_ms = now_ms,
                .late_ms = now_ms + remote_worker_late_ms (worker) };
            worker->out++;
            worker->out_bytes += version_bytes;
            self->out_count++;
            self->oldest [task->is_slow] = s_oldest (self, task->is_slow);  //  each number is passed once
            return true;
        }
        s_lose (self, worker, true, "cannot be sent to any more");
    }
    return false;
}

//  ---- results

static bool
s_is_empty_handed (const wire_work_result_t *wire)
{
    return wire->outcome == WIRE_WORK_NO_MEMORY || wire->outcome == WIRE_WORK_UNREAD;
}

static remote_result_t
s_result (const remote_message_t *message, const wire_work_result_t *wire)
{
    static const outcome_t outcomes [WIRE_WORK_OUTCOMES] = { [WIRE_WORK_READY] = OUTCOME_READY,
        [WIRE_WORK_BAD] = OUTCOME_BAD, [WIRE_WORK_UNSUITABLE] = OUTCOME_UNSUITABLE,
        [WIRE_WORK_NO_MEMORY] = OUTCOME_READY, [WIRE_WORK_UNREAD] = OUTCOME_READY };
    remote_result_t result = { .outcome = outcomes [wire->outcome], .worker_ns = wire->worker_ns,
        .is_starved = s_is_empty_handed (wire),
        .file = wire->file, .is_clipped = wire->flags & WIRE_WORK_CLIPPED,
        .frames = message->frames + 2, .count = message->count - 2 - (wire->rows_bytes > 0) };
    if (wire->rows_bytes > 0)
        result.rows = message->frames [message->count - 1];
    if (result.outcome != OUTCOME_READY)
        utf8_visible (result.frames [0].data, result.frames [0].size, result.what, sizeof result.what);
    return result;
}

//  What is wrong with an answer to this task; NULL: nothing.
static const char *
s_fault (const out_t *out, const wire_work_result_t *wire, uint64_t bytes)
{
    if (wire->outcome == WIRE_WORK_READY && bytes != out->version_bytes)
        return "it sent a version of a wrong size";
    if (wire->file >= out->files)
        return "it blamed a file that the sample does not have";
    return NULL;
}

//  The worker has the data set no more, or not as the server has it: it is sent the bytes, and others too.
//  False: it was sent them before.
static bool
s_send_from_now_on (remote_workers_t *self, remote_worker_t *worker, size_t dataset)
{
    if (dataset == SIZE_MAX || !*worker->fingerprints [dataset])
        return false;
    *worker->fingerprints [dataset] = 0;
    log_event (self->options.log, LOG_LEVEL_WARNING, "worker_data",
        LOG_FIELDS (LOG_TEXT ("worker", worker->name)),
        "the worker '%s' cannot read a data set by itself, or has other files there: it is sent the bytes "
        "from now on", worker->name);
    return true;
}

static bool
s_take_result (remote_workers_t *self, remote_worker_t *worker, const remote_message_t *message,
    int64_t now_ms, refusal_t *refusal)
{
    wire_work_result_t wire;
    uint64_t bytes, number = message->head->tag;
    if (!s_has_tasks (worker))
        return true;                    //  it was refused meanwhile
    if (!work_message_read_result (message->frames, message->count, &wire, &bytes, refusal)) {
        s_refuse (self, worker, refusal->message, now_ms);
        return true;
    }
    out_t *out = &self->out [number % REMOTE_WORKERS_TASKS_MAX];
    bool is_out = number > 0 && out->number == number && out->worker == worker;
    const char *fault = number == 0 || number > self->last_number? "it answered what it was not asked":
        is_out? s_fault (out, &wire, bytes): NULL;
    if (fault) {
        s_refuse (self, worker, fault, now_ms);
        return true;
    }
    worker->bytes_received += bytes + sizeof wire;
    if (worker->state == REMOTE_WORKER_STALLED)
        remote_worker_move (worker, REMOTE_WORKER_WORKING);
    void *task = is_out? out->task: NULL;
    if (!task) {                        //  taken back; or it had the task before it was let in again
        worker->late++;
        if (is_out)
            s_free_place (self, out);
        return true;
    }
    worker->done += !s_is_empty_handed (&wire);
    worker->read += out->dataset != SIZE_MAX && wire.outcome != WIRE_WORK_UNREAD;
    if (wire.outcome == WIRE_WORK_UNREAD)
        s_send_from_now_on (self, worker, out->dataset);
    if (!s_is_empty_handed (&wire))
        remote_worker_learn (worker, (double) (self->options.nanoseconds () - out->given_ns),
            (double) wire.held_ns, (double) wire.worker_ns);
    else
    if (out->dataset == SIZE_MAX)       //  otherwise it will be sent the bytes
        remote_worker_learn_empty_handed (worker, now_ms);
    remote_result_t result = s_result (message, &wire);
    result.worker = worker->number;
    s_free_place (self, out);
    self->options.done (self->options.context, task, &result);
    return true;
}

bool
remote_workers_take (remote_workers_t *self, const remote_message_t *message, int64_t now_ms,
    refusal_t *refusal)
{
    assert (self->magic == MAGIC);
    if (self->is_stopped)
        return refuse (refusal, "stopping", "the server is ending");
    if (message->head->kind == WIRE_WORK_HELLO)
        return s_hello (self, message, now_ms, refusal);
    remote_worker_t *worker = s_find (self, message->peer);
    //  It was given up, stopped for a while: its heartbeat is answered, so that it begins anew.
    if (!worker || worker->user != message->user)
        return message->head->kind != WIRE_WORK_HEARTBEAT
            || refuse (refusal, "unknown_worker", "this connection is no worker's (any more): say hello");
    worker->heard_ms = now_ms;
    switch (message->head->kind) {
    case WIRE_WORK_ANSWER:
        return s_answer (self, worker, message, refusal);
    case WIRE_WORK_RESULT:
        return s_take_result (self, worker, message, now_ms, refusal);
    case WIRE_WORK_GOODBYE:
        outbox_send (self->options.router, &worker->peer, WIRE_WORK_GOODBYE, 0, 0, NULL, 0);
        s_lose (self, worker, false, "says goodbye");
        return true;
    default:
        return true;
    }
}

//  ---- time

static void
s_look_at_tasks (remote_workers_t *self, int64_t now_ms)
{
    for (size_t index = 0; index < REMOTE_WORKERS_TASKS_MAX; index++) {
        out_t *out = &self->out [index];
        if (!out->number || now_ms <= out->late_ms)
            continue;
        remote_worker_t *worker = out->worker;
        remote_worker_move (worker, REMOTE_WORKER_STALLED);
        if (!out->task)
            continue;                   //  it was taken back already
        remote_worker_learn_late (worker, (double) (now_ms - out->given_ms) * 1e6);
        worker->lost++;
        s_take_back (self, out);
    }
}

bool
remote_workers_have_tasks (const remote_workers_t *self, bool is_slow)
{
    return s_oldest (self, is_slow) <= self->last_number;
}

bool
remote_workers_take_back (remote_workers_t *self, bool is_slow, int64_t age_ns)
{
    uint64_t number = self->oldest [is_slow] = s_oldest (self, is_slow);
    out_t *out = &self->out [number % REMOTE_WORKERS_TASKS_MAX];
    if (number > self->last_number || self->options.nanoseconds () - out->given_ns < age_ns)
        return false;
    remote_worker_learn_taken_back (out->worker, out->number, self->last_number);
    s_take_back (self, out);
    return true;
}

void
remote_workers_was_wrong (remote_workers_t *self, uint64_t number, const char *what, int64_t now_ms)
{
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        remote_worker_t *worker = &self->workers [index];
        if (worker->number != number || !s_has_tasks (worker))
            continue;
        //  Its own copy of the data may be damaged, and nothing else of it.
        bool has_data = false;
        for (size_t dataset = 0; dataset < worker->datasets; dataset++)
            has_data |= s_send_from_now_on (self, worker, dataset);
        if (has_data)
            continue;
        worker->wrong++;
        log_event (self->options.log, LOG_LEVEL_WARNING, "worker_wrong",
            LOG_FIELDS (LOG_TEXT ("worker", worker->name), LOG_NUMBER ("wrong", worker->wrong)),
            "the worker '%s' was wrong: %s", worker->name, what);
        if (remote_worker_is_dismissed (worker))
            s_dismiss (self, worker, what, now_ms);
    }
}

static void
s_look_at_worker (remote_workers_t *self, remote_worker_t *worker, bool beats, int64_t now_ms)
{
    bool is_new = worker->state == REMOTE_WORKER_CHALLENGED || worker->state == REMOTE_WORKER_CHECKED;
    remote_worker_rate (worker, now_ms);
    if (worker->state == REMOTE_WORKER_REFUSED) {
        if (now_ms - worker->begun_ms > (remote_worker_is_dismissed (worker)? DISMISSED_MS: REMEMBERED_MS))
            s_leave (self, worker, REMOTE_WORKER_FREE);
    }
    else
    if (is_new && now_ms - worker->begun_ms > ANSWER_MS)
        s_lose (self, worker, true, "does not end its handshake");
    else
    if (!is_new && now_ms - worker->heard_ms > REMOTE_WORKERS_SILENT_MS)
        s_lose (self, worker, true, "is silent");
    else
    if (beats && outbox_send (self->options.router, &worker->peer, WIRE_WORK_HEARTBEAT, 0, 0, NULL, 0)
        == OUTBOX_GONE)
        s_lose (self, worker, true, "is gone: its connection is closed");
}

void
remote_workers_look (remote_workers_t *self, int64_t now_ms)
{
    assert (self->magic == MAGIC);
    if (now_ms < self->looked_ms + LOOK_MS)
        return;
    //  The server itself may have stood still: then what workers said meanwhile waits in the socket.
    if (now_ms > self->looked_ms + REMOTE_WORKERS_SILENT_MS / 2)
        for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
            self->workers [index].heard_ms = now_ms;
    self->looked_ms = now_ms;
    bool beats = now_ms >= self->beat_ms + WIRE_WORK_BEAT_MS;
    if (beats)
        self->beat_ms = now_ms;
    s_look_at_tasks (self, now_ms);
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
        if (self->workers [index].state)
            s_look_at_worker (self, &self->workers [index], beats, now_ms);
}

int64_t
remote_workers_wakeup (const remote_workers_t *self)
{
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
        if (self->workers [index].state)
            return self->looked_ms + LOOK_MS;
    return INT64_MAX;
}

void
remote_workers_revoke (remote_workers_t *self, bool (*is_gone) (void *context, uint64_t user),
    void *context, int64_t now_ms)
{
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        remote_worker_t *worker = &self->workers [index];
        if (worker->state && worker->state != REMOTE_WORKER_REFUSED && is_gone (context, worker->user))
            s_refuse (self, worker, "its key was revoked", now_ms);
    }
}

void
remote_workers_stop (remote_workers_t *self)
{
    self->is_stopped = true;
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
        if (self->workers [index].state)
            s_leave (self, &self->workers [index], REMOTE_WORKER_FREE);
}

//  ---- questions

json_t *
remote_workers_status (const remote_workers_t *self, uint64_t *lost_p)
{
    *lost_p = self->lost_workers;
    json_t *list = json_array ();
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++)
        if (self->workers [index].state)
            json_array_append_new (list, remote_worker_status (&self->workers [index]));
    return list;
}

void
remote_workers_check (const remote_workers_t *self)
{
    assert (self->magic == MAGIC);
    size_t out = 0, counted = 0;
    uint32_t lent = 0;
    for (size_t index = 0; index < REMOTE_WORKERS_MAX; index++) {
        const remote_worker_t *worker = &self->workers [index];
        assert (worker->out > 0 || worker->out_bytes == 0);
        assert (s_has_tasks (worker) || (worker->out == 0 && worker->granted == 0));
        out += worker->out;
        lent += worker->granted;
    }
    for (size_t index = 0; index < REMOTE_WORKERS_TASKS_MAX; index++) {
        assert (!self->out [index].number || self->out [index].number % REMOTE_WORKERS_TASKS_MAX == index);
        counted += self->out [index].number != 0;
    }
    assert (out == self->out_count && counted == self->out_count);
    assert (lent == self->lent && lent <= WIRE_WORK_PROCESSORS_MAX);
}

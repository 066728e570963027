#include "tasks.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "ahead_reads.h"
#include "budget.h"
#include "clock.h"
#include "dataset_source.h"
#include "decoder.h"
#include "job.h"
#include "patience.h"
#include "pool.h"
#include "reads.h"
#include "ready_tasks.h"
#include "task.h"
#include "tenant.h"
#include "version.h"
#include "xalloc.h"

enum {
    RETRY_MS = 20,
    KEYS_LOOK_MS = 1000, LOOK_MS = 200,
    LONG_MS = 1000,                 //  a worker that has prepared for so long stops, if no job wants it
    HANG_MS = 4000,                 //  no read of a copy comes back for so long:
    ASIDE_MS = 8000,                //  its disk is not asked for so long
    BUFFER_KEPT_BYTES = 4 * 1024 * 1024     //  of a file's buffer between two samples
};

//  Threads apart from the workers: those for slow tasks, then those of each operation of the operator's own.
enum { SLOW, CUSTOMS };

struct tasks {
    broker_t *broker;
    device_t **devices;             //  all are open
    size_t *device_buffers;         //  of each, bytes for its ranges
    size_t device_count;
    device_options_t opening;       //  for one more; without a buffer
    size_t buffer_bytes;            //  for ranges on all devices
    int any_done;                   //  an epoll of the devices' descriptors and the pools' apart; -1: none
    pool_t *workers;
    pool_t *apart [CUSTOMS + CUSTOM_MAX];
    size_t apart_count;
    customs_t *customs;
    ahead_reads_t *ahead;           //  NULL: nothing is kept on the local disk
    range_t *ranges, *free_range;
    size_t range_count;
    range_t *more_ranges;           //  made since, by `also`
    //  Tasks that met a shortage, in the order of their retries; they still count as handed out.
    range_t *first_range, *last_range;
    task_t *first_task, *last_task;
    int64_t now_ms;
    uint64_t shortages;
    int64_t looked_ms;              //  for what is abandoned, or hangs
    size_t out_of_copies;           //  ranges of copies that are being read, late ones too
    size_t out;                     //  tasks that were taken and are not given back
    int64_t keys_looked_ms;         //  the devices' keys, last
    size_t keys_looked;             //  devices that this look has seen
    task_t *all;
    task_t *free [TASK_KINDS];      //  by their last kind: tasks with buffers, and tasks that need none
    size_t count, used;             //  of all; those beyond `used` were never taken
    ready_tasks_t ready;
    task_t side_tasks [TASKS_SIDE_TASKS_MAX];       //  with a worker; free ones have no side task
    side_task_t *first_side_task, *last_side_task;  //  that wait, of all tenants
    side_task_t *done_side_task;                    //  in no order
    bool is_stopped;
    data_warnings_t *news;          //  of data sets
};

static void s_finish (void *context, task_t *task);

static int
s_watch (tasks_t *self, int descriptor)
{
    struct epoll_event event = { .events = EPOLLIN };
    return epoll_ctl (self->any_done, EPOLL_CTL_ADD, descriptor, &event)? -errno: 0;
}

static int
s_open_device (tasks_t *self, device_t *device, size_t buffer_bytes, const char **path_p)
{
    size_t count = self->device_count + 1;
    device_t **devices = reallocarray (self->devices, count, sizeof *devices);
    self->devices = devices? devices: self->devices;
    size_t *buffers = reallocarray (self->device_buffers, count, sizeof *buffers);
    self->device_buffers = buffers? buffers: self->device_buffers;
    if (!devices || !buffers)
        return -ENOMEM;
    device_options_t options = self->opening;
    options.buffer_bytes = buffer_bytes;
    int rc = device_open (device, &options, path_p);
    if (rc)
        return rc;
    //  Now it is one of those that are stopped, whatever comes.
    devices [self->device_count] = device;
    buffers [self->device_count++] = buffer_bytes;
    return s_watch (self, device_descriptor (device));
}

int
tasks_open_device (tasks_t *self, device_t *device, const char **path_p)
{
    enum { LEAST_PART = 8 };
    size_t used = 0, part = 0, least = self->buffer_bytes / LEAST_PART;
    *path_p = NULL;
    for (size_t index = 0; index < self->device_count; index++)
        used += self->device_buffers [index];
    if (device_volumes (device) > 0) {
        part = used < self->buffer_bytes? (self->buffer_bytes - used) / 2: 0;
        part = part < least? least: part;
    }
    self->opening.cluster = NULL;
    int rc = s_open_device (self, device, part, path_p);
    if (rc)
        tasks_close_device (self, device);
    return rc;
}

void
tasks_close_device (tasks_t *self, device_t *device)
{
    size_t at = 0;
    while (at < self->device_count && self->devices [at] != device)
        at++;
    if (at == self->device_count)
        return;
    epoll_ctl (self->any_done, EPOLL_CTL_DEL, device_descriptor (device), NULL);
    device_stop (device);
    assert (!device_done (device));
    self->device_count--;
    self->devices [at] = self->devices [self->device_count];
    self->device_buffers [at] = self->device_buffers [self->device_count];
    self->keys_looked = 0;
}

static int
s_start_reading (tasks_t *self, const tasks_options_t *options, const char **path_p)
{
    size_t packed = 0;
    for (size_t index = 0; index < options->device_count; index++)
        packed += device_volumes (options->devices [index]) > 0;
    self->buffer_bytes = options->buffer_bytes;
    self->opening = (device_options_t) {
        //  Twice the tasks that can be handed out at once: a queue is never more than half full.
        .requests_max = 2 * (budget_reads_most (options->broker)
            + (self->count + AHEAD_READS_MAX) * PIPELINE_FIELDS_MAX),
        .no_ring = options->no_ring, .cluster = options->cluster, .finish = task_spread };
    self->any_done = epoll_create1 (EPOLL_CLOEXEC);
    int rc = self->any_done < 0? -errno: 0;
    for (size_t index = 0; rc == 0 && index < options->device_count; index++)
        rc = s_open_device (self, options->devices [index],
            device_volumes (options->devices [index]) > 0? options->buffer_bytes / packed: 0, path_p);
    return rc;
}

static int
s_start_pool (pool_t **pool_p, const char *name, uint32_t threads, size_t tasks_max)
{
    pool_options_t decoders = { .name = name, .threads = threads, .tasks_max = tasks_max,
        .work = task_work, .context_new = decoder_worker_new, .context_destroy = decoder_worker_destroy };
    *pool_p = pool_new (&decoders);
    return *pool_p? 0: -errno;
}

static int
s_start_apart (tasks_t *self, const char *name, uint32_t threads, size_t tasks_max)
{
    pool_t **pool_p = &self->apart [self->apart_count];
    int rc = s_start_pool (pool_p, name, threads, tasks_max);
    if (rc)
        return rc;
    self->apart_count++;
    return s_watch (self, pool_descriptor (*pool_p));
}

//  Each operation of the operator's own has threads of its own: one that hangs leaves all others alone.
static int
s_start_threads (tasks_t *self, uint32_t workers)
{
    size_t customs;
    customs_list (self->customs, &customs);
    int rc = s_start_pool (&self->workers, "tureen-worker", workers,
        2 * (self->count + TASKS_SIDE_TASKS_MAX));
    //  A worker of another machine that is lost gives its tasks back.
    if (rc == 0)
        rc = s_start_apart (self, "tureen-slow", workers, budget_slow_max (workers + BROKER_LENT_MAX));
    for (size_t number = 0; rc == 0 && number < customs; number++)
        rc = s_start_apart (self, "tureen-custom", workers, budget_custom_max (workers));
    return rc;
}

static void s_resume (void *context, task_t *task, bool has_bytes);
static void s_count_read (dataset_source_objects_t *objects, const reader_request_t *request);

static int
s_start_ahead (tasks_t *self, const block_cache_t *cache)
{
    if (!cache)
        return 0;
    ahead_reads_options_t options = { .broker = self->broker, .cache = cache, .resume = s_resume,
        .give_up = s_finish, .count = s_count_read, .context = self };
    self->ahead = ahead_reads_new (&options);
    return self->ahead? s_watch (self, ahead_reads_descriptor (self->ahead)): -errno;
}

static void
s_stop_devices (tasks_t *self)
{
    for (size_t index = 0; index < self->device_count; index++)
        device_stop (self->devices [index]);
}

int
tasks_new (tasks_t **self_p, const tasks_options_t *options, const char **path_p)
{
    *self_p = NULL;
    *path_p = NULL;
    tasks_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->broker = options->broker;
    self->count = budget_tasks_most (options->broker);
    self->customs = options->customs;
    self->any_done = -1;
    size_t range_count = budget_reads_most (options->broker);
    self->all = calloc (self->count, sizeof *self->all);
    self->ranges = calloc (range_count, sizeof *self->ranges);
    int rc = self->all && self->ranges? s_start_reading (self, options, path_p): -ENOMEM;
    if (rc == 0)
        rc = s_start_threads (self, options->workers);
    if (rc == 0)
        rc = s_start_ahead (self, options->cache);
    if (rc == 0) {
        self->range_count = range_count;
        for (size_t index = 0; index < range_count; index++) {
            self->ranges [index].reads_of = READS_OF_RANGE;
            self->ranges [index].next = self->free_range;
            self->free_range = &self->ranges [index];
        }
        self->ready = (ready_tasks_t) { .pool = self->workers, .slow_pool = self->apart [SLOW],
            .threads = options->workers, .broker = options->broker, .finish = s_finish,
            .context = self };
        *self_p = self;
        self = NULL;
    }
    if (self)
        s_stop_devices (self);
    tasks_destroy (&self);
    return rc;
}

int
tasks_lend (tasks_t *self, void *router, log_t *log)
{
    return ready_tasks_lend (&self->ready, router, log);
}

remote_workers_t *
tasks_remote_workers (const tasks_t *self)
{
    return self->ready.remote;
}

void
tasks_destroy (tasks_t **self_p)
{
    tasks_t *self = *self_p;
    if (!self)
        return;
    assert (!self->first_side_task && !self->done_side_task);
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++)
        assert (!self->side_tasks [index].side_task);
    if (self->any_done >= 0)
        close (self->any_done);
    pool_destroy (&self->workers);
    for (size_t index = 0; index < self->apart_count; index++)
        pool_destroy (&self->apart [index]);
    ahead_reads_destroy (&self->ahead);
    ready_tasks_destroy (&self->ready);
    for (size_t index = 0; self->all && index < self->used; index++)
        for (size_t file = 0; file < PIPELINE_FIELDS_MAX; file++)
            free (self->all [index].buffers [file].bytes);
    free (self->all);
    for (size_t index = 0; self->ranges && index < self->range_count; index++)
        free (self->ranges [index].buffer.bytes);
    free (self->ranges);
    for (range_t *range; (range = self->more_ranges); ) {
        self->more_ranges = range->also;
        free (range->buffer.bytes);
        free (range);
    }
    free (self->devices);
    free (self->device_buffers);
    free (self);
    *self_p = NULL;
}

static task_t *
s_take (tasks_t *self, task_kind_t kind, const pipeline_t *pipeline, pipeline_key_t key,
    const dataset_t *dataset)
{
    task_t **list = &self->free [kind];
    if (!*list)
        list = &self->free [kind == TASK_COPY? TASK_PREPARE: TASK_COPY];
    task_t *task = *list;
    if (task)
        *list = task->next;
    else {
        assert (self->used < self->count);          //  the broker hands out no more than budget_tasks_most
        task = &self->all [self->used++];
    }
    task->kind = kind;
    task->pipeline = pipeline_hold (pipeline);
    task->key = key;
    task->source = dataset_source_of (dataset);
    task->outcome = OUTCOME_READY;
    task->told = task->learned = NULL;
    task->has_room = task->is_unread = task->is_starved = task->is_clipped = false;
    task->worker_ns = task->accuser = 0;
    atomic_store (&task->began_ms, 0);
    atomic_store (&task->is_abandoned, false);
    self->out++;
    return task;
}

static void
s_give_back (tasks_t *self, task_t *task)
{
    jpeg_row_index_release (task->told);
    if (task->kind == TASK_PREPARE)
        task_release_pictures (task);
    if (task->learned)
        jpeg_row_index_keep (task->source->rows, task_id (task), task->learned);
    task->is_custom = false;
    self->out--;
    pipeline_destroy (&task->pipeline);
    for (size_t file = 0; file < PIPELINE_FIELDS_MAX; file++)
        if (task->buffers [file].limit > BUFFER_KEPT_BYTES) {
            free (task->buffers [file].bytes);
            task->buffers [file] = (catalogue_buffer_t) { .bytes = NULL };
        }
    task->next = self->free [task->kind];
    self->free [task->kind] = task;
}

static void
s_read_files (task_t *task)
{
    task->unread = pipeline_files (task->pipeline);
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++) {
        task->requests [file] = (reader_request_t) { .kind = READER_FILE, .user = task,
            .catalogue = task->source->catalogue, .id = task_id (task),
            .field = pipeline_file (task->pipeline, file),
            .buffer = &task->buffers [file], .is_afresh = task->version->failures > 0 };
        task->requests [file].pins = dataset_source_pinned_file (task->source, task_id (task),
            task->requests [file].field);
        device_submit (task->source->fields [task->requests [file].field], &task->requests [file]);
    }
}

//  The task's bytes are there, or it is known to be bad.
static void
s_hand_out (tasks_t *self, task_t *task)
{
    const custom_t *custom = pipeline_custom (task->pipeline);
    task->is_custom = custom != NULL;
    task->is_slow = budget_prepares_slowly (task->pipeline);
    if (custom)
        pool_submit (self->apart [CUSTOMS + custom->number], task);
    else
        ready_tasks_add (&self->ready, task);
}

//  Hands the raw store's bytes of the sample to a worker; a damaged sample is reported on the same way.
static void
s_use_packed (tasks_t *self, task_t *task, const raw_sample_t *raw)
{
    char what [TASK_WHAT_BYTES];
    const pack_t *pack = task->source->pack;
    task->packed = raw->memory;
    if (raw->rc && !pack) {
        task_file_error (task->source, 0, raw->rc, what);
        task_blame (task, OUTCOME_BAD, 0, what);
    }
    else
    if (raw->rc) {
        pack_range_t where = pack_sample (pack, task_id (task));
        snprintf (what, sizeof what,
            raw->rc == -EBADMSG? "its bytes in the pack are damaged (volume %u, chunk %u): "
            "`tureen verify` names all that are": "cannot be read from the pack (volume %u, chunk %u): %s",
            where.volume,
            pack_position (pack, task_id (task)) / pack_chunk_samples (pack),
            dataset_source_error (task->source, raw->rc));
        task_blame (task, OUTCOME_BAD, 0, what);
    }
    s_hand_out (self, task);
}

void
tasks_prepare (tasks_t *self, version_t *version)
{
    const broker_t *broker = self->broker;
    task_t *task = s_take (self, TASK_PREPARE, version_pipeline (broker, version),
        version_key (broker, version), version_dataset (broker, version));
    task->version = version;
    task->memory = version->memory;
    task->packed = NULL;
    const raw_sample_t *raw = version_raw (version);
    if (!task->source->pack) {
        task->has_room = jpeg_row_index_has_room (task->source->rows);
        task->told = jpeg_row_index_lend (task->source->rows, task_id (task));
    }
    bool is_here = task_lend_pictures (task, self->now_ms);
    if (raw)
        s_use_packed (self, task, raw);
    else
    if (is_here)
        s_hand_out (self, task);
    else
    if (!self->ahead || !ahead_reads_join (self->ahead, task))
        s_read_files (task);
}

//  The broker hands out no more than budget_reads_most, but ranges that are late are out beside these.
static range_t *
s_take_range (tasks_t *self, raw_request_t *raw)
{
    range_t *range = self->free_range;
    if (range)
        self->free_range = range->next;
    else {
        range = xalloc_memory (calloc (1, sizeof *range));
        range->reads_of = READS_OF_RANGE;
        range->also = self->more_ranges;
        self->more_ranges = range;
    }
    range->raw = raw;
    range->dataset = dataset_of_request (self->broker, raw);
    range->source = dataset_source_of (range->dataset);
    range->space = range->source->space;
    range->is_out = range->was_out = false;
    range->left = range->wrong = range->at = 0;
    return range;
}

static void
s_give_range_back (tasks_t *self, range_t *range)
{
    if (range->buffer.limit > BUFFER_KEPT_BYTES / RAW_PIECE_MAX) {
        free (range->buffer.bytes);
        range->buffer = (catalogue_buffer_t) { .bytes = NULL };
    }
    range->next = self->free_range;
    self->free_range = range;
}

//  ---- a copy of a folder on the local disk

//  The sample's own file: as the cache has it, if it is there and good, else the folder's, which is kept
//  then.  What is damaged is given up.
static void
s_read_own_file (range_t *range)
{
    raw_request_t *raw = range->raw;
    range->at = (uint32_t) __builtin_ctzll (range->left);
    uint32_t id = raw->samples [range->at]->id;
    space_range_t where = space_sample (range->space, id);
    pins_file_t pins = dataset_source_pinned_space (range->source);
    bool is_wrong = range->wrong >> range->at & 1;
    //  Of what is missing, the piece had a hole.
    if (pins.data && range->was_out)
        pins_drop (&pins, where.offset, block_data_units (where.bytes) * BLOCK_DATA_UNIT_BYTES);
    range->device = range->source->fields [0];
    range->request = (reader_request_t) { .kind = READER_FILE, .user = range,
        .catalogue = range->source->catalogue, .id = id, .buffer = &range->buffer,
        .is_afresh = raw->is_afresh || raw->failures > 0 || is_wrong };
    device_submit (range->device, &range->request);
}

static void
s_read_copy (tasks_t *self, range_t *range)
{
    raw_request_t *raw = range->raw;
    dataset_source_t *source = range->source;
    assert (raw->sample_count > 0);
    raw->damaged = 0;
    bool is_alone = raw->sample_count == 1 && !space_has (range->space, raw->samples [0]->id);
    bool is_aside = source->hang.late > 0 || self->now_ms < source->hang.until_ms;
    if (is_alone || is_aside || raw->is_afresh || raw->failures > 0) {
        range->left = UINT64_MAX >> (RAW_PIECE_MAX - raw->sample_count);
        s_read_own_file (range);
        return;
    }
    space_range_t where = space_piece (range->space, raw->first, raw->count);
    range->device = source->volumes [0].device;
    range->request = (reader_request_t) { .kind = READER_RANGE, .user = range,
        .file = source->volumes [0].file, .offset = where.offset, .bytes = where.bytes? where.bytes: 1,
        .pins = dataset_source_pinned_space (source) };
    atomic_store (&range->state, RANGE_OUT);
    range->is_out = true;
    self->out_of_copies++;
    if (source->hang.out++ == 0)
        source->hang.moved_ms = self->now_ms;
    device_submit (range->device, &range->request);
}

void
tasks_fetch_ahead (tasks_t *self, const action_t *action)
{
    ahead_reads_begin (self->ahead, action->dataset, action->id, action->fields);
}

void
tasks_read (tasks_t *self, raw_request_t *raw)
{
    range_t *range = s_take_range (self, raw);
    raw->read_bytes = raw->read_ns = raw->cached_bytes = raw->cached_ns = 0;
    raw->pinned_bytes = raw->saved_ns = raw->peer_bytes = raw->peer_ns = 0;
    raw->gets = raw->slow_gets = 0;
    if (!range->source->pack) {
        s_read_copy (self, range);
        return;
    }
    pack_range_t where = pack_piece (range->source->pack, raw->first, raw->count);
    if (where.bytes == 0)           //  empty files: the header's first byte stands in for nothing
        where = (pack_range_t) { .volume = where.volume, .offset = 0, .bytes = 1 };
    const dataset_source_volume_t *volume = &range->source->volumes [where.volume];
    range->device = volume->device;
    range->request = (reader_request_t) { .kind = READER_RANGE, .user = range, .file = volume->file,
        .offset = where.offset,
        .bytes = where.bytes, .is_afresh = raw->failures > 0 || raw->is_afresh,
        .pins = dataset_source_pinned_volume (range->source, where.volume) };
    device_submit (range->device, &range->request);
}

static void
s_hand_out_copy (tasks_t *self, task_t *task)
{
    pool_submit (budget_copies_slowly (task->pipeline)? self->apart [SLOW]: self->workers, task);
}

void
tasks_copy (tasks_t *self, batch_row_t *row, const layout_t *layout, uint8_t *slot)
{
    job_t *job = row_job (row);
    task_t *task = s_take (self, TASK_COPY, job_pipeline (job), row_key (row), job_dataset (job));
    task->row = row;
    task->prepared = row_version (row)->memory;
    task->outputs = layout->outputs;
    for (size_t field = 0; field < layout->count; field++)
        task->targets [field] = layout_row (layout, field, slot, row_index (row));
    s_hand_out_copy (self, task);
}

//  ---- side tasks, which the broker counts

void
tasks_add_side_task (tasks_t *self, tenant_t *tenant, side_task_t *side_task)
{
    side_task->tenant = tenant;
    side_task->was_done = false;
    side_task->next = NULL;
    *(self->last_side_task? &self->last_side_task->next: &self->first_side_task) = side_task;
    self->last_side_task = side_task;
    tenant_side_task_waits (self->broker, tenant);
}

//  Takes out the oldest that waits of the tenant's, or of all (NULL).  NULL: none.
static side_task_t *
s_take_side_task (tasks_t *self, const tenant_t *tenant)
{
    side_task_t *before = NULL, *side_task = self->first_side_task;
    while (side_task && tenant && side_task->tenant != tenant) {
        before = side_task;
        side_task = side_task->next;
    }
    if (!side_task)
        return NULL;
    *(before? &before->next: &self->first_side_task) = side_task->next;
    if (self->last_side_task == side_task)
        self->last_side_task = before;
    return side_task;
}

void
tasks_start_side_task (tasks_t *self, const tenant_t *tenant, uint32_t charged_us)
{
    side_task_t *side_task = s_take_side_task (self, tenant);
    size_t index = 0;
    while (index < TASKS_SIDE_TASKS_MAX && self->side_tasks [index].side_task)
        index++;
    assert (side_task && index < TASKS_SIDE_TASKS_MAX);
    side_task->charged_us = charged_us;
    self->side_tasks [index].kind = TASK_SIDE_TASK;
    self->side_tasks [index].worker_ns = 0;
    self->side_tasks [index].side_task = side_task;
    pool_submit (self->workers, &self->side_tasks [index]);
}

void
tasks_collect_side_tasks (tasks_t *self)
{
    for (side_task_t *side_task; (side_task = self->done_side_task); ) {
        assert (side_task->was_done || self->is_stopped);
        self->done_side_task = side_task->next;
        tenant_side_task_took (self->broker, side_task->tenant, side_task->charged_us, side_task->worker_ns);
        side_task->done (side_task);
    }
    for (side_task_t *side_task; self->is_stopped && (side_task = s_take_side_task (self, NULL)); ) {
        tenant_side_task_gives_up (self->broker, side_task->tenant);
        side_task->done (side_task);
    }
}

//  ---- what is done

//  Of a copy several reads may be one of the broker's.  What comes from the copy comes from the local disk.
static void
s_add_costs (range_t *range)
{
    reader_request_t *request = &range->request;
    raw_request_t *raw = range->raw;
    uint64_t saved_ns = device_saved_ns (range->device, request);
    if (range->is_out) {
        request->cached_bytes = request->read_bytes;
        request->cached_ns = request->read_bytes? request->wait_ns: 0;
        request->read_bytes = request->wait_ns = 0;
    }
    raw->read_bytes += request->read_bytes;
    raw->read_ns += request->wait_ns;
    raw->cached_bytes += request->cached_bytes;
    raw->cached_ns += request->cached_ns;
    raw->pinned_bytes += request->pinned_bytes;
    raw->saved_ns += saved_ns;
    range->source->saved_ns += saved_ns;
    raw->peer_bytes += request->peer_bytes;
    raw->peer_ns += request->peer_ns;
    raw->gets += request->gets;
    raw->slow_gets += request->slow_gets;
}

//  Gives a range back, whatever its result.
static void
s_end_range (tasks_t *self, range_t *range)
{
    int rc = range->request.rc;
    char reason [TASK_REASON_BYTES];
    range->raw->rc = rc;
    if (rc && rc != -ECANCELED) {
        task_blame_range (range, reason);
        broker_unread_range (self->broker, range->raw, rc, reason, self->now_ms);
    }
    else
        broker_read (self->broker, range->raw);
    s_give_range_back (self, range);
}

//  For lack of memory or descriptors.  All rest equally long, so the list is in order.
static void
s_rest_task (tasks_t *self, task_t *task)
{
    self->shortages++;
    task->due_ms = self->now_ms + RETRY_MS;
    task->next = NULL;
    *(self->first_task? &self->last_task->next: &self->first_task) = task;
    self->last_task = task;
}

static void
s_rest_range (tasks_t *self, range_t *range)
{
    self->shortages++;
    range->due_ms = self->now_ms + RETRY_MS;
    range->next = NULL;
    *(self->first_range? &self->last_range->next: &self->first_range) = range;
    self->last_range = range;
}

static void
s_finish (void *context, task_t *task)
{
    tasks_t *self = context;
    if (task->kind == TASK_SIDE_TASK) {
        task->side_task->worker_ns = task->worker_ns;
        task->side_task->next = self->done_side_task;
        self->done_side_task = task->side_task;
        task->side_task = NULL;
        return;
    }
    if (task->kind == TASK_COPY) {
        broker_copy_took (self->broker, task->row, task->worker_ns);
        broker_copied (self->broker, task->row);
    }
    else {
        broker_prepare_took (self->broker, task->version, task->worker_ns);
        task_note_decoding (task);
        if (task->is_clipped && task->source->warnings)
            data_warnings_note_clipped (task->source->warnings, task_id (task), &self->news);
        broker_prepared (self->broker, task->version,
            atomic_load (&task->is_abandoned)? OUTCOME_ABANDONED: task->outcome, task->reason);
    }
    s_give_back (self, task);
}

//  The file with the most telling failure: a failing storage hides the state of the other files, and a
//  shortage tells nothing.  files: none failed.
static size_t
s_failed_file (const task_t *task, size_t files)
{
    size_t found = files;
    for (size_t file = 0; file < files; file++) {
        patience_kind_t kind = patience_kind (task->requests [file].rc);
        if (kind == PATIENCE_NONE)
            continue;
        patience_kind_t most = found < files? patience_kind (task->requests [found].rc): PATIENCE_NONE;
        if (most == PATIENCE_NONE || (kind != most
            && (kind == PATIENCE_PASSING || most == PATIENCE_SHORTAGE)))
            found = file;
    }
    return found;
}

//  The broker decides whether and when they are read again.
static void
s_unread (tasks_t *self, task_t *task, size_t file, int rc)
{
    char what [TASK_WHAT_BYTES];
    task_file_error (task->source, task->requests [file].field, rc, what);
    task_blame (task, OUTCOME_BAD, file, what);
    broker_unread (self->broker, task->version, rc, task->reason, self->now_ms);
    s_give_back (self, task);
}

//  As many samples are worth reading at once as fill the queues of their devices; and some more, because the
//  next one does not follow a finished one at once.
static void
s_tell_fetches (tasks_t *self, const task_t *task)
{
    size_t files = pipeline_files (task->pipeline), most = 0;
    for (size_t file = 0; file < files; file++) {
        const device_t *device = task->source->fields [task->requests [file].field];
        size_t here = 0;
        for (size_t other = 0; other < files; other++)
            here += task->source->fields [task->requests [other].field] == device;
        size_t samples = (device_depth (device) + here - 1) / here;
        most = samples > most? samples: most;
    }
    dataset_set_fetches (self->broker, version_dataset (self->broker, task->version), most + most / 4);
}

//  For the jobs that wait for it, and its data set.
static void
s_count_reads (const task_t *task)
{
    reads_sum_t sum = { .bytes = 0 };
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++) {
        const reader_request_t *read = &task->requests [file];
        sum.bytes += read->read_bytes + read->cached_bytes + read->peer_bytes + read->pinned_bytes;
        sum.pinned_bytes += read->pinned_bytes;
        sum.saved_ns += device_saved_ns (task->source->fields [read->field], read);
    }
    task->source->saved_ns += sum.saved_ns;
    reads_count (task->version, &sum);
}

//  All files of a task have come back, read or failed.
static void
s_files_done (tasks_t *self, task_t *task)
{
    size_t files = pipeline_files (task->pipeline), failed = s_failed_file (task, files);
    int rc = failed < files? task->requests [failed].rc: 0;
    task->is_unread = patience_kind (rc) == PATIENCE_SHORTAGE;
    if (task->is_unread)
        s_rest_task (self, task);
    else
    if (rc)
        s_unread (self, task, failed, rc);
    else {
        s_tell_fetches (self, task);
        s_count_reads (task);
        broker_fetched (self->broker, task->version);
        s_hand_out (self, task);
    }
}

//  Of a single object, or a file.
static void
s_count_read (dataset_source_objects_t *objects, const reader_request_t *request)
{
    objects->source_bytes += request->read_bytes;
    objects->source_ns += request->read_bytes? request->wait_ns: 0;
    objects->cached_bytes += request->cached_bytes;
    objects->cached_ns += request->cached_ns;
    objects->peer_bytes += request->peer_bytes;
    objects->peer_ns += request->peer_ns;
    objects->gets += request->gets;
    objects->slow_gets += request->slow_gets;
}

//  Of the copy, or of a sample's own file.  A sample that failed beside others is read once more, alone.
static void
s_copy_was_read (tasks_t *self, range_t *range)
{
    reader_request_t *request = &range->request;
    raw_request_t *raw = range->raw;
    uint64_t bit = UINT64_C (1) << range->at;
    if (range->is_out) {
        //  Whatever fails of the copy, the files are there.
        if (request->rc)
            range->left = UINT64_MAX >> (RAW_PIECE_MAX - raw->sample_count);
        range->is_out = false;
        range->was_out = true;
    }
    else {
        const raw_sample_t *sample = raw->samples [range->at];
        range->left &= ~bit;
        if (request->rc == 0 && sample->bytes > 0) {
            memcpy (sample->memory, range->buffer.bytes, sample->bytes);
            //  What is not here and was not found to be wrong may have been left out, for a disk that hangs.
            if (request->is_here || range->wrong & bit)
                space_note (range->space, sample->id, request->is_here? sample->memory: NULL);
        }
        raw->damaged |= request->rc && raw->sample_count > 1? bit: 0;
    }
    if (request->rc != -ECANCELED && range->left) {
        s_read_own_file (range);
        return;
    }
    //  If none could be read, that is the folder's failure rather than theirs (patience.h).
    if (raw->damaged != UINT64_MAX >> (RAW_PIECE_MAX - raw->sample_count) && raw->sample_count > 1
    &&  request->rc != -ECANCELED)
        request->rc = 0;
    s_end_range (self, range);
}

//  Its samples were read by another range meanwhile.
static bool
s_is_late (tasks_t *self, range_t *range)
{
    dataset_source_t *source = range->source;
    if (!range->is_out)
        return false;
    self->out_of_copies--;
    source->hang.out--;
    source->hang.moved_ms = self->now_ms;
    if (atomic_load (&range->state) != RANGE_LATE)
        return false;
    source->hang.late--;
    range->is_out = false;              //  its source may go
    dataset_let_go (range->dataset);
    s_give_range_back (self, range);
    return true;
}

static void
s_range_was_read (tasks_t *self, range_t *range)
{
    if (s_is_late (self, range))
        return;
    if (patience_kind (range->request.rc) == PATIENCE_SHORTAGE && !range->is_out) {
        s_rest_range (self, range);
        return;
    }
    s_add_costs (range);
    if (!range->space)
        s_end_range (self, range);
    else {
        s_count_read (&range->source->objects, &range->request);
        s_copy_was_read (self, range);
    }
}

static void
s_collect_read (tasks_t *self, reader_request_t *request)
{
    if (*(const reads_of_t *) request->user == READS_OF_RANGE) {
        s_range_was_read (self, request->user);
        return;
    }
    if (self->ahead && ahead_reads_take (self->ahead, request, self->now_ms))
        return;
    task_t *task = request->user;
    s_count_read (&dataset_source_of (version_dataset (self->broker, task->version))->objects, request);
    if (--task->unread == 0)
        s_files_done (self, task);
}

//  A task that waited for what was being read ahead.
static void
s_resume (void *context, task_t *task, bool has_bytes)
{
    if (has_bytes)
        s_files_done (context, task);
    else
        s_read_files (task);
}

static void
s_collect_work (tasks_t *self, task_t *task)
{
    if (ready_tasks_done (&self->ready, task))
        return;
    if (task->kind != TASK_SIDE_TASK && task->is_starved)
        s_rest_task (self, task);
    else
        s_finish (self, task);
}

//  Retries tasks that have rested long enough.
static void
s_try_again (tasks_t *self)
{
    task_t *task;
    range_t *range;
    while ((task = self->first_task) && task->due_ms <= self->now_ms) {
        self->first_task = task->next;
        if (task->is_unread)
            s_read_files (task);
        else
        if (task->kind == TASK_PREPARE)
            s_hand_out (self, task);
        else
            s_hand_out_copy (self, task);
    }
    while ((range = self->first_range) && range->due_ms <= self->now_ms) {
        self->first_range = range->next;
        device_submit (range->device, &range->request);
    }
}

//  Whether no job wants the task's result any more.  A version that is nearly made still serves the set's
//  next job; one that takes long, for example in an operation of the operator's own, is not waited for.
static bool
s_is_unwanted (const tasks_t *self, task_t *task, bool at_once)
{
    if (task->kind == TASK_COPY)
        return job_is_over (row_job (task->row));
    int64_t began_ms = atomic_load (&task->began_ms);
    bool is_long = task->is_custom || (began_ms > 0 && clock_now_ms () >= began_ms + LONG_MS);
    return (at_once || is_long) && version_abandon (self->broker, task->version);
}

//  Tells the workers which results no job wants any more.  at_once: versions that are no long work, too.
static void
s_abandon (tasks_t *self, bool at_once)
{
    for (size_t index = 0; index < self->used; index++) {
        task_t *task = &self->all [index];
        if (task->pipeline && !atomic_load (&task->is_abandoned))
            atomic_store (&task->is_abandoned, s_is_unwanted (self, task, at_once));
    }
}

//  The disk of its copy does not answer: its samples' files are read instead.
static void
s_leave_late (tasks_t *self, range_t *range)
{
    int state = RANGE_OUT;
    if (!range->is_out)
        return;
    dataset_source_hang_t *hang = &range->source->hang;
    if (self->now_ms < hang->moved_ms + HANG_MS
    ||  !atomic_compare_exchange_strong (&range->state, &state, RANGE_LATE))
        return;
    hang->late++;
    hang->until_ms = self->now_ms + ASIDE_MS;
    dataset_hold (range->dataset);
    range_t *other = s_take_range (self, range->raw);
    range->raw = NULL;
    other->left = UINT64_MAX >> (RAW_PIECE_MAX - other->raw->sample_count);
    s_read_own_file (other);
}

static void
s_look_for_hangs (tasks_t *self)
{
    if (self->out_of_copies == 0)
        return;
    for (size_t index = 0; index < self->range_count; index++)
        s_leave_late (self, &self->ranges [index]);
    for (range_t *range = self->more_ranges; range; range = range->also)
        s_leave_late (self, range);
}

//  Whether there is something to look at from time to time.
static bool
s_looks (const tasks_t *self)
{
    return self->out > 0 || self->out_of_copies > 0;
}

void
tasks_collect (tasks_t *self, int64_t now_ms)
{
    reader_request_t *request;
    task_t *task;
    self->now_ms = now_ms;
    if (s_looks (self) && now_ms >= self->looked_ms + LOOK_MS) {
        self->looked_ms = now_ms;
        s_abandon (self, false);
        s_look_for_hangs (self);
    }
    s_try_again (self);
    for (size_t index = 0; index < self->device_count; index++)
        while ((request = device_done (self->devices [index])))
            s_collect_read (self, request);
    if (self->ahead)
        ahead_reads_collect (self->ahead, now_ms);
    while ((task = pool_done (self->workers)))
        s_collect_work (self, task);
    for (size_t index = 0; index < self->apart_count; index++)
        while ((task = pool_done (self->apart [index])))
            s_collect_work (self, task);
    ready_tasks_hand_out (&self->ready, now_ms);
}

static bool
s_is_quiet (const tasks_t *self)
{
    bool is_quiet = pool_is_quiet (self->workers);
    is_quiet = (self->ahead && ahead_reads_is_quiet (self->ahead)) || is_quiet;
    for (size_t index = 0; index < self->apart_count; index++)
        is_quiet = pool_is_quiet (self->apart [index]) || is_quiet;
    return is_quiet;
}

int64_t
tasks_wakeup (const tasks_t *self)
{
    int64_t task_ms = self->first_task? self->first_task->due_ms: INT64_MAX;
    int64_t range_ms = self->first_range? self->first_range->due_ms: INT64_MAX;
    int64_t done_ms = s_is_quiet (self)? self->now_ms + POOL_QUIET_MS: INT64_MAX;
    int64_t rest_ms = task_ms < range_ms? task_ms: range_ms;
    int64_t ready_ms = ready_tasks_wakeup (&self->ready);
    int64_t look_ms = s_looks (self)? self->looked_ms + LOOK_MS: INT64_MAX;
    rest_ms = rest_ms < ready_ms? rest_ms: ready_ms;
    rest_ms = rest_ms < look_ms? rest_ms: look_ms;
    return rest_ms < done_ms? rest_ms: done_ms;
}

void
tasks_descriptors (const tasks_t *self, int descriptors [TASKS_DESCRIPTORS])
{
    descriptors [0] = self->any_done;
    descriptors [1] = pool_descriptor (self->workers);
}

//  Gives back undone a task that was read for and cannot be carried out any more.
static void
s_give_up (tasks_t *self, reader_request_t *request)
{
    if (*(const reads_of_t *) request->user == READS_OF_RANGE) {
        range_t *range = request->user;
        if (s_is_late (self, range))
            return;
        request->rc = range->space? -ECANCELED: request->rc;
        s_end_range (self, range);
        return;
    }
    if (self->ahead && ahead_reads_take (self->ahead, request, self->now_ms))
        return;
    task_t *task = request->user;
    if (--task->unread == 0)
        s_finish (self, task);
}

void
tasks_stop (tasks_t *self)
{
    self->is_stopped = true;
    s_abandon (self, true);
    customs_stop (self->customs);
    s_stop_devices (self);
    pool_stop (self->workers);
    for (size_t index = 0; index < self->apart_count; index++)
        pool_stop (self->apart [index]);
    if (self->ahead)
        ahead_reads_stop (self->ahead);
    reader_request_t *request;
    for (size_t index = 0; index < self->device_count; index++)
        while ((request = device_done (self->devices [index])))
            s_give_up (self, request);
    task_t *task;
    while ((task = pool_done (self->workers)) || (task = pool_drain (self->workers)))
        if (!ready_tasks_done (&self->ready, task))
            s_finish (self, task);
    for (size_t index = 0; index < self->apart_count; index++)
        while ((task = pool_done (self->apart [index])) || (task = pool_drain (self->apart [index])))
            s_finish (self, task);
    while ((task = ready_tasks_drain (&self->ready)))
        s_finish (self, task);
    while ((task = self->first_task)) {
        self->first_task = task->next;
        s_finish (self, task);
    }
    range_t *range;
    while ((range = self->first_range)) {
        self->first_range = range->next;
        range->request.rc = -ECANCELED;
        s_end_range (self, range);
    }
}

//  The first device's mode of the kind: a refusal of io_uring holds for all.
const char *
tasks_reading_mode (const tasks_t *self, bool of_stores)
{
    for (size_t index = 0; index < self->device_count; index++)
        if (device_is_store (self->devices [index]) == of_stores)
            return device_mode (self->devices [index]);
    return NULL;
}

bool
tasks_reads_direct (const tasks_t *self)
{
    bool direct = true;
    for (size_t index = 0; index < self->device_count; index++)
        direct = direct && device_is_direct (self->devices [index]);
    return direct;
}

uint64_t
tasks_shortages (const tasks_t *self)
{
    return self->shortages;
}

uint32_t
tasks_depth (const tasks_t *self)
{
    uint32_t depth = 0;
    for (size_t index = 0; index < self->device_count; index++)
        depth += device_depth (self->devices [index]);
    return depth;
}

bool
tasks_next_key_trouble (tasks_t *self, int64_t now_ms, char name [DEVICE_NAME_BYTES], const char **trouble_p)
{
    if (now_ms < self->keys_looked_ms + KEYS_LOOK_MS)
        return false;
    while (self->keys_looked < self->device_count) {
        device_t *device = self->devices [self->keys_looked++];
        if (device_next_key_trouble (device, trouble_p)) {
            device_name (device, name);
            return true;
        }
    }
    self->keys_looked = 0;
    self->keys_looked_ms = now_ms;
    return false;
}

const data_warnings_t *
tasks_next_news (tasks_t *self)
{
    return data_warnings_take_news (&self->news);
}

json_t *
tasks_long_status (const tasks_t *self, const tenant_t *tenant, int64_t now_ms)
{
    json_t *list = json_array ();
    for (size_t index = 0; index < self->used; index++)
        task_describe_long (&self->all [index], self->broker, tenant, now_ms, list);
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++)
        task_describe_long (&self->side_tasks [index], self->broker, tenant, now_ms, list);
    return list;
}

json_t *
tasks_devices_status (const tasks_t *self)
{
    json_t *list = json_array ();
    for (size_t index = 0; index < self->device_count; index++)
        json_array_append_new (list, device_status (self->devices [index]));
    return list;
}

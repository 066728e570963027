#include "ahead_reads.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "dataset.h"
#include "machine.h"
#include "patience.h"
#include "pool.h"

enum {
    MEMORY_PART = 16,
    //  What the cache needs beside the files: blocks of checksums and maps, of each file some.
    ROOM_LEAST_BYTES = 1024 * 1024, ROOM_A_FILE_BYTES = 4 * BLOCK_CACHE_BLOCK_BYTES
};

//  A sample's files.
typedef struct ahead_read {
    reads_of_t reads_of;
    struct ahead_read *next;                //  free
    dataset_t *dataset;                     //  NULL: free
    dataset_source_t *source;
    uint32_t id;
    uint32_t fields;                        //  that jobs read; the looking thread leaves those that are not
                                            //  kept
    uint64_t room_bytes;                    //  that they may take on the local disk
    size_t bytes;                           //  of memory
    //  Where the files are pinned when it begins: the source may get other pins meanwhile (served.h).
    pins_file_t pins [CATALOGUE_FIELDS_MAX];
    reader_request_t requests [CATALOGUE_FIELDS_MAX];           //  by field
    catalogue_buffer_t buffers [CATALOGUE_FIELDS_MAX];
    size_t unread;                          //  of them
    bool is_reading;                        //  the files are known, and are being read
    task_t *waiting;
    int rc;                                 //  of the first that failed
    bool is_of_source;                      //  the source gave some of it, rather than the local disk or pins
} ahead_read_t;

struct ahead_reads {
    ahead_reads_options_t options;
    pool_t *lookers;                        //  one: the local disk may hang
    ahead_read_t *all, *free;
    size_t count;                           //  under way
    uint64_t room_bytes;
    size_t bytes, bytes_most;
    bool is_stopped;
};

static const block_data_t *
s_blocks (const dataset_source_t *source, size_t field)
{
    int rc;
    return catalogue_blocks (source->catalogue, field, &rc);
}

//  ---- in the looking thread

static bool
s_is_kept (const ahead_read_t *read, size_t field)
{
    const dataset_source_t *source = read->source;
    uint64_t bytes = catalogue_file_bytes (source->catalogue, read->id, field),
        place = catalogue_place (source->catalogue, read->id, field);
    //  Without a place, or of an empty file, there is nothing to keep.
    return bytes == 0 || !s_blocks (source, field) || place == CATALOGUE_NO_PLACE
        || (read->pins [field].data && pins_has (&read->pins [field], 0, (size_t) bytes))
        || block_data_has (s_blocks (source, field), place, bytes);
}

static void
s_look (void *context, void *task)
{
    ahead_read_t *read = task;
    (void) context;
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        if (read->fields >> field & 1 && s_is_kept (read, field))
            read->fields &= ~(UINT32_C (1) << field);
}

//  ---- life

size_t
ahead_reads_bytes_most (uint64_t machine_bytes)
{
    return machine_bytes / MEMORY_PART < AHEAD_READS_BYTES? (size_t) machine_bytes / MEMORY_PART:
        AHEAD_READS_BYTES;
}

ahead_reads_t *
ahead_reads_new (const ahead_reads_options_t *options)
{
    ahead_reads_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->bytes_most = ahead_reads_bytes_most (machine_memory_bytes (""));
    self->all = calloc (AHEAD_READS_MAX, sizeof *self->all);
    pool_options_t looking = { .name = "tureen-ahead", .threads = 1, .tasks_max = AHEAD_READS_MAX,
        .work = s_look };
    self->lookers = self->all? pool_new (&looking): NULL;
    if (!self->lookers) {
        free (self->all);
        free (self);
        return NULL;
    }
    for (size_t index = 0; index < AHEAD_READS_MAX; index++) {
        self->all [index].next = self->free;
        self->free = &self->all [index];
    }
    return self;
}

void
ahead_reads_destroy (ahead_reads_t **self_p)
{
    ahead_reads_t *self = *self_p;
    if (!self)
        return;
    assert (self->count == 0);
    pool_destroy (&self->lookers);
    free (self->all);
    free (self);
    *self_p = NULL;
}

int
ahead_reads_descriptor (const ahead_reads_t *self)
{
    return pool_descriptor (self->lookers);
}

bool
ahead_reads_is_quiet (const ahead_reads_t *self)
{
    return pool_is_quiet (self->lookers);
}

//  ---- beginning

static fetch_ahead_load_t
s_load (void *user, uint32_t fields)
{
    const dataset_source_t *source = user;
    fetch_ahead_load_t load = { .depth = SIZE_MAX, .is_complete = true }, none = { .depth = 0 };
    for (size_t field = 0; field < catalogue_fields (source->catalogue); field++) {
        const block_data_t *blocks = s_blocks (source, field);
        if (!(fields >> field & 1) || !blocks)
            continue;
        //  A cluster's reader asks a block's home, which keeps it.
        none.is_away = block_data_is_aside (blocks);
        if (source->shared [field].catalogue || none.is_away || block_data_is_full (blocks))
            return none;
        //  As far as what it takes of the local disk says.
        load.is_complete = load.is_complete && block_data_held_bytes (blocks) >= block_data_bytes (blocks);
        const device_t *device = source->fields [field];
        size_t here = 0, depth = device_source_depth (device), pending = device_pending (device);
        for (size_t other = 0; other < catalogue_fields (source->catalogue); other++)
            here += fields >> other & 1 && source->fields [other] == device;
        size_t samples = depth > here? depth / here: 1;
        load.depth = samples < load.depth? samples: load.depth;
        load.busy = (pending + here - 1) / here > load.busy? (pending + here - 1) / here: load.busy;
    }
    return load;
}

void
ahead_reads_allow (broker_t *broker, dataset_t *dataset)
{
    fetch_ahead_keep (broker, dataset, &(fetch_ahead_driver_t) { .load = s_load,
        .user = dataset_source_of (dataset) });
}

//  Tells the broker, and resumes tasks that wait: the first one with the files, if they came.
static void
s_end (ahead_reads_t *self, ahead_read_t *read, fetch_ahead_result_t result, int64_t now_ms);

void
ahead_reads_begin (ahead_reads_t *self, dataset_t *dataset, uint32_t id, uint32_t fields)
{
    ahead_read_t *read = self->free;
    dataset_source_t *source = dataset_source_of (dataset);
    bool is_large = false;
    uint64_t bytes = 0, room = 0;
    for (size_t field = 0; field < catalogue_fields (source->catalogue); field++)
        if (fields >> field & 1) {
            uint64_t file = catalogue_file_bytes (source->catalogue, id, field);
            is_large = is_large || file > AHEAD_READS_FILE_BYTES;
            bytes += file;
            room += block_data_next (0, file) + ROOM_A_FILE_BYTES;
        }
    is_large = is_large || bytes > self->bytes_most;
    if (!read || is_large || self->is_stopped || self->bytes + bytes > self->bytes_most) {
        fetch_ahead_done (self->options.broker, dataset, id, is_large? FETCH_AHEAD_KEPT:
            FETCH_AHEAD_BUSY, 0);
        return;
    }
    self->free = read->next;
    *read = (ahead_read_t) { .reads_of = READS_AHEAD, .dataset = dataset, .source = source, .id = id,
        .fields = fields,
        .bytes = (size_t) bytes, .room_bytes = room };
    for (size_t field = 0; field < catalogue_fields (source->catalogue); field++)
        read->pins [field] = dataset_source_pinned_file (source, id, field);
    self->count++;
    self->bytes += read->bytes;
    pool_submit (self->lookers, read);
}

//  Whether the local disk has room for the read, beside the others that are under way, those of jobs too.
static bool
s_has_room (const ahead_reads_t *self, const ahead_read_t *read)
{
    block_cache_figures_t figures = block_cache_figures (self->options.cache);
    uint64_t jobs = read->dataset->fetching * read->room_bytes;     //  about
    return figures.bytes + figures.waiting + self->room_bytes + jobs + read->room_bytes + ROOM_LEAST_BYTES
        <= figures.bytes_max;
}

static void
s_read_files (ahead_reads_t *self, ahead_read_t *read)
{
    read->is_reading = true;
    self->room_bytes += read->room_bytes;
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        read->unread += read->fields >> field & 1;
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        if (read->fields >> field & 1) {
            read->requests [field] = (reader_request_t) { .kind = READER_FILE, .user = read,
                .catalogue = read->source->catalogue, .id = read->id, .field = field,
                .buffer = &read->buffers [field],
                .pins = read->pins [field] };
            device_submit (read->source->fields [field], &read->requests [field]);
        }
}

void
ahead_reads_collect (ahead_reads_t *self, int64_t now_ms)
{
    ahead_read_t *read;
    while ((read = pool_done (self->lookers)))
        if (!read->fields)
            s_end (self, read, FETCH_AHEAD_KEPT, now_ms);
        else
        if (!s_has_room (self, read))
            s_end (self, read, FETCH_AHEAD_NO_ROOM, now_ms);
        else
            s_read_files (self, read);
}

//  ---- the end

static ahead_read_t *
s_find (const ahead_reads_t *self, const dataset_source_t *source, uint32_t id)
{
    for (size_t index = 0; self->count > 0 && index < AHEAD_READS_MAX; index++)
        if (self->all [index].dataset && self->all [index].source == source && self->all [index].id == id)
            return &self->all [index];
    return NULL;
}

bool
ahead_reads_join (ahead_reads_t *self, task_t *task)
{
    //  What failed once is read past what is kept.
    ahead_read_t *read = task->version->failures > 0? NULL: s_find (self, task->source, task_id (task));
    if (!read)
        return false;
    task->next = NULL;
    task_t **link = &read->waiting;
    while (*link)
        link = &(*link)->next;
    *link = task;
    return true;
}

//  Gives the files to the task, as if they were its own.  False: it needs others too.
static bool
s_hand_over (ahead_read_t *read, task_t *task)
{
    size_t files = pipeline_files (task->pipeline);
    for (size_t file = 0; file < files; file++)
        if (!(read->fields >> pipeline_file (task->pipeline, file) & 1))
            return false;
    for (size_t file = 0; file < files; file++) {
        size_t field = pipeline_file (task->pipeline, file);
        catalogue_buffer_t buffer = task->buffers [file];
        task->buffers [file] = read->buffers [field];
        read->buffers [field] = buffer;
        task->requests [file] = read->requests [field];
        task->requests [file].user = task;
        task->requests [file].buffer = &task->buffers [file];
    }
    task->unread = 0;
    return true;
}

static void
s_end (ahead_reads_t *self, ahead_read_t *read, fetch_ahead_result_t result, int64_t now_ms)
{
    bool has_files = read->is_reading && result == FETCH_AHEAD_READ;
    for (task_t *task; (task = read->waiting);) {
        read->waiting = task->next;
        if (self->is_stopped) {
            self->options.give_up (self->options.context, task);
            continue;
        }
        bool is_given = has_files && s_hand_over (read, task);
        has_files = has_files && !is_given;         //  the others read what is kept now
        self->options.resume (self->options.context, task, is_given);
    }
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        free (read->buffers [field].bytes);
    self->count--;
    self->bytes -= read->bytes;
    self->room_bytes -= read->is_reading? read->room_bytes: 0;
    dataset_t *dataset = read->dataset;
    uint32_t id = read->id;
    *read = (ahead_read_t) { .reads_of = READS_AHEAD, .next = self->free };
    self->free = read;
    fetch_ahead_done (self->options.broker, dataset, id, result, now_ms);
}

bool
ahead_reads_take (ahead_reads_t *self, reader_request_t *request, int64_t now_ms)
{
    ahead_read_t *read = request->user;
    if (read->reads_of != READS_AHEAD)
        return false;
    dataset_source_objects_t *objects = &read->source->objects;
    self->options.count (objects, request);
    objects->ahead_bytes += request->read_bytes;
    read->rc = read->rc? read->rc: request->rc;
    read->is_of_source = read->is_of_source || request->read_bytes > 0;
    if (--read->unread > 0)
        return true;
    objects->ahead_samples += read->rc == 0 && read->is_of_source;
    //  A file at fault is left to the jobs' own reads (patience.h).
    patience_kind_t kind = patience_kind (read->rc);
    s_end (self, read, kind == PATIENCE_NONE? FETCH_AHEAD_READ: kind == PATIENCE_PASSING
        || kind == PATIENCE_SHORTAGE? FETCH_AHEAD_FAILED: FETCH_AHEAD_KEPT, now_ms);
    return true;
}

void
ahead_reads_stop (ahead_reads_t *self)
{
    ahead_read_t *read;
    self->is_stopped = true;
    pool_stop (self->lookers);
    while ((read = pool_done (self->lookers)) || (read = pool_drain (self->lookers)))
        s_end (self, read, FETCH_AHEAD_FAILED, 0);
}

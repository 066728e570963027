#include "tasks.h"
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "decoder.h"
#include "pool.h"
#include "source.h"

enum {
    PATH_SHOWN_BYTES = 256, WHAT_BYTES = 256, REASON_BYTES = PATH_SHOWN_BYTES + PIPELINE_NAME_BYTES_MAX + WHAT_BYTES + 16,
    RETRY_MS = 20, RETRIES = 100,
    BUFFER_KEPT_BYTES = 4 * 1024 * 1024     //  of a file's buffer between two samples
};

typedef enum { TASK_PREPARE, TASK_COPY, TASK_KINDS } task_kind_t;

typedef struct task {
    struct task *next_free;
    const atomic_bool *stopping;
    task_kind_t kind;
    const pipeline_t *pipeline;     //  one reference
    const source_t *source;
    pipeline_key_t key;
    //  prepare
    version_t *version;             //  the broker's; not looked at by threads
    uint8_t *memory;
    outcome_t outcome;
    char reason [REASON_BYTES];     //  unless it is ready
    //  copy
    place_t *place;                 //  the broker's; not looked at by threads
    const uint8_t *prepared;
    size_t outputs;
    uint8_t *targets [LAYOUT_FIELDS_MAX];   //  the pipeline's outputs, then the labels
    //  kept from sample to sample
    catalogue_buffer_t buffers [PIPELINE_FIELDS_MAX];
} task_t;

struct tasks {
    broker_t *broker;
    pool_t *readers, *workers;
    task_t *all;
    task_t *free [TASK_KINDS];      //  by what they were last: those that have buffers, and those that need none
    size_t count;
    atomic_bool stopping;
};

//  ---- in the threads

static uint32_t
s_id (const task_t *task)
{
    return (uint32_t) task->key.id;
}

//  The path of the file at fault, then what is wrong with it.
static void
s_blame (task_t *task, outcome_t outcome, size_t file, const char *what)
{
    task->outcome = outcome;
    const catalogue_t *catalogue = task->source->catalogue;
    size_t field = pipeline_file (task->pipeline, file);
    char path [PATH_SHOWN_BYTES];
    size_t length = catalogue_path (catalogue, s_id (task), field, path, sizeof path);
    snprintf (task->reason, sizeof task->reason, "%s%s%s%s: %s", field? catalogue_field_name (catalogue, field): "",
        field? ": ": "", path, length >= sizeof path? "...": "", what);
}

static void
s_pause (void)
{
    nanosleep (&(struct timespec) { .tv_nsec = RETRY_MS * 1000000L }, NULL);
}

static bool
s_is_shortage (int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EAGAIN;
}

static bool
s_read_file (task_t *task, size_t file)
{
    const catalogue_t *catalogue = task->source->catalogue;
    size_t field = pipeline_file (task->pipeline, file);
    int rc = catalogue_read (catalogue, s_id (task), field, &task->buffers [file]);
    for (int again = 0; s_is_shortage (rc) && again < RETRIES; again++) {
        s_pause ();
        rc = catalogue_read (catalogue, s_id (task), field, &task->buffers [file]);
    }
    char what [WHAT_BYTES];
    if (rc == -ESTALE)
        s_blame (task, OUTCOME_BAD, file, "changed since the server started");
    else
    if (rc) {
        snprintf (what, sizeof what, "cannot be read: %s", strerror (-rc));
        s_blame (task, OUTCOME_BAD, file, what);
    }
    return rc == 0;
}

static void
s_read (void *context, void *argument)
{
    (void) context;
    task_t *task = argument;
    for (size_t file = 0; file < pipeline_files (task->pipeline) && s_read_file (task, file); file++);
}

static void
s_prepare (decoder_t *decoder, task_t *task)
{
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++)
        files [file] = (decoder_file_t) { task->buffers [file].bytes, task->buffers [file].size };
    decoder_sample_t sample = { .files = files, .warnings_max = task->source->jpeg_warnings_max };
    char what [WHAT_BYTES];
    size_t at_fault = 0;
    decoder_status_t status = DECODER_NO_MEMORY;
    for (int attempt = 0; status == DECODER_NO_MEMORY && attempt <= RETRIES; attempt++) {
        if (attempt)
            s_pause ();
        status = decoder_shared (decoder, task->pipeline, &task->key, &sample, task->memory, &at_fault, what,
            sizeof what);
    }
    if (status != DECODER_OK)
        s_blame (task, status == DECODER_UNSUITABLE? OUTCOME_UNSUITABLE: OUTCOME_BAD, at_fault, what);
}

//  Nobody else is at fault for a copy that finds no memory, and no other copy can stand in for it: it waits.
static void
s_copy (decoder_t *decoder, const task_t *task)
{
    while (!decoder_private (decoder, task->pipeline, &task->key, task->prepared, task->targets)
       &&  !atomic_load (task->stopping))
        s_pause ();
    for (size_t label = 0; label < catalogue_labels (task->source->catalogue); label++)
        catalogue_label_value (task->source->catalogue, label, s_id (task), task->targets [task->outputs + label]);
}

static void
s_work (void *context, void *argument)
{
    task_t *task = argument;
    if (task->kind == TASK_COPY)
        s_copy (context, task);
    else
        s_prepare (context, task);
}

static void *
s_decoder_new (void)
{
    return decoder_new ();
}

static void
s_decoder_destroy (void *context)
{
    decoder_t *decoder = context;
    decoder_destroy (&decoder);
}

//  ---- in the broker's thread

tasks_t *
tasks_new (broker_t *broker, uint32_t workers)
{
    tasks_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->broker = broker;
    atomic_init (&self->stopping, false);
    self->count = broker_tasks_max (broker);
    self->all = calloc (self->count, sizeof *self->all);
    //  Twice what can be out at once: a queue is never more than half full.
    pool_options_t readers = { .name = "tureen-reader", .threads = TASKS_READERS,
        .tasks_max = 2 * self->count,
        .work = s_read };
    pool_options_t decoders = { .name = "tureen-worker", .threads = workers, .tasks_max = 2 * self->count,
        .work = s_work, .context_new = s_decoder_new, .context_destroy = s_decoder_destroy };
    self->readers = self->all? pool_new (&readers): NULL;
    self->workers = self->readers? pool_new (&decoders): NULL;
    if (!self->workers) {
        int error = errno;
        tasks_destroy (&self);
        errno = error;
        return NULL;
    }
    for (size_t index = 0; index < self->count; index++) {
        self->all [index] = (task_t) { .stopping = &self->stopping, .kind = TASK_COPY,
            .next_free = self->free [TASK_COPY] };
        self->free [TASK_COPY] = &self->all [index];
    }
    return self;
}

void
tasks_destroy (tasks_t **self_p)
{
    tasks_t *self = *self_p;
    if (!self)
        return;
    pool_destroy (&self->readers);
    pool_destroy (&self->workers);
    for (size_t index = 0; self->all && index < self->count; index++)
        for (size_t file = 0; file < PIPELINE_FIELDS_MAX; file++)
            free (self->all [index].buffers [file].bytes);
    free (self->all);
    free (self);
    *self_p = NULL;
}

static task_t *
s_take (tasks_t *self, task_kind_t kind, const pipeline_t *pipeline, pipeline_key_t key, const dataset_t *dataset)
{
    task_t **list = &self->free [kind];
    if (!*list)
        list = &self->free [kind == TASK_COPY? TASK_PREPARE: TASK_COPY];
    task_t *task = *list;
    assert (task);                  //  the broker hands out no more than broker_tasks_max
    *list = task->next_free;
    task->kind = kind;
    task->pipeline = pipeline_hold (pipeline);
    task->key = key;
    task->source = source_of (dataset);
    task->outcome = OUTCOME_READY;
    return task;
}

static void
s_give_back (tasks_t *self, task_t *task)
{
    pipeline_destroy (&task->pipeline);
    for (size_t file = 0; file < PIPELINE_FIELDS_MAX; file++)
        if (task->buffers [file].limit > BUFFER_KEPT_BYTES) {
            free (task->buffers [file].bytes);
            task->buffers [file] = (catalogue_buffer_t) { .bytes = NULL };
        }
    task->next_free = self->free [task->kind];
    self->free [task->kind] = task;
}

void
tasks_prepare (tasks_t *self, version_t *version)
{
    const broker_t *broker = self->broker;
    task_t *task = s_take (self, TASK_PREPARE, version_pipeline (broker, version), version_key (broker, version),
        version_dataset (broker, version));
    task->version = version;
    task->memory = version->memory;
    pool_submit (self->readers, task);
}

void
tasks_copy (tasks_t *self, place_t *place, const layout_t *layout, uint8_t *slot)
{
    job_t *job = place_job (place);
    task_t *task = s_take (self, TASK_COPY, job_pipeline (job), place_key (place), job_dataset (job));
    task->place = place;
    task->prepared = place_version (place)->memory;
    task->outputs = layout->outputs;
    for (size_t field = 0; field < layout->count; field++)
        task->targets [field] = layout_row (layout, field, slot, place_index (place));
    pool_submit (self->workers, task);
}

static void
s_finish (tasks_t *self, task_t *task)
{
    if (task->kind == TASK_COPY)
        broker_copied (self->broker, task->place);
    else
        broker_prepared (self->broker, task->version, task->outcome, task->reason);
    s_give_back (self, task);
}

void
tasks_collect (tasks_t *self)
{
    task_t *task;
    while ((task = pool_done (self->readers))) {
        if (task->outcome)
            s_finish (self, task);
        else
            pool_submit (self->workers, task);
    }
    while ((task = pool_done (self->workers)))
        s_finish (self, task);
}

void
tasks_descriptors (const tasks_t *self, int descriptors [TASKS_DESCRIPTORS])
{
    descriptors [0] = pool_descriptor (self->readers);
    descriptors [1] = pool_descriptor (self->workers);
}

void
tasks_stop (tasks_t *self)
{
    atomic_store (&self->stopping, true);
    pool_stop (self->readers);
    pool_stop (self->workers);
    task_t *task;
    while ((task = pool_done (self->readers)) || (task = pool_drain (self->readers))
       ||  (task = pool_done (self->workers)) || (task = pool_drain (self->workers)))
        s_finish (self, task);
}

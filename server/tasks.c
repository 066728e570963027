#include "tasks.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "decoder.h"
#include "pool.h"

enum { PATH_SHOWN_BYTES = 256, WHAT_BYTES = 256, REASON_BYTES = 520, RETRY_MS = 20, RETRIES = 100 };

typedef struct task {
    struct task *next_free;
    enum { TASK_PREPARE, TASK_COPY } kind;
    const pipeline_t *pipeline;     //  one reference
    pipeline_key_t key;
    //  prepare
    version_t *version;             //  the broker's; not looked at by threads
    const catalogue_t *catalogue;
    uint8_t *bytes;                 //  between reader and worker
    size_t size;
    uint8_t *memory;
    char reason [REASON_BYTES];     //  empty: good
    //  copy
    place_t *place;                 //  the broker's; not looked at by threads
    const uint8_t *source;
    uint8_t *image, *label;
    int64_t label_value;
} task_t;

struct tasks {
    broker_t *broker;
    pool_t *readers, *workers;
    task_t *all, *free;
    size_t count;
};

//  ---- in the threads

//  The sample's path, then what is wrong with it.
static void
s_blame (task_t *task, const char *what)
{
    char path [PATH_SHOWN_BYTES];
    size_t length = catalogue_path (task->catalogue, (uint32_t) task->key.id, path, sizeof path);
    snprintf (task->reason, sizeof task->reason, "%s%s: %s", path, length >= sizeof path? "...": "", what);
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

static void
s_read (void *context, void *argument)
{
    (void) context;
    task_t *task = argument;
    uint32_t id = (uint32_t) task->key.id;
    int rc = catalogue_read (task->catalogue, id, &task->bytes, &task->size);
    for (int again = 0; s_is_shortage (rc) && again < RETRIES; again++) {
        s_pause ();
        rc = catalogue_read (task->catalogue, id, &task->bytes, &task->size);
    }
    if (rc == -ESTALE)
        s_blame (task, "changed since the server started");
    else
    if (rc) {
        char what [128];
        snprintf (what, sizeof what, "cannot be read: %s", strerror (-rc));
        s_blame (task, what);
    }
}

static void
s_work (void *context, void *argument)
{
    task_t *task = argument;
    if (task->kind == TASK_COPY) {
        pipeline_private (task->pipeline, &task->key, task->source, task->image);
        memcpy (task->label, &task->label_value, sizeof task->label_value);
        return;
    }
    char what [WHAT_BYTES];
    decoder_status_t status = DECODER_NO_MEMORY;
    for (int attempt = 0; status == DECODER_NO_MEMORY && attempt <= RETRIES; attempt++) {
        if (attempt)
            s_pause ();
        status = decoder_run (context, task->pipeline, &task->key, task->bytes, task->size, task->memory,
            what, sizeof what);
    }
    if (status != DECODER_OK)
        s_blame (task, what);
    free (task->bytes);
    task->bytes = NULL;
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
        self->all [index].next_free = self->free;
        self->free = &self->all [index];
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
    free (self->all);
    free (self);
    *self_p = NULL;
}

static task_t *
s_take (tasks_t *self, const pipeline_t *pipeline, pipeline_key_t key)
{
    task_t *task = self->free;
    assert (task);                  //  the broker hands out no more than broker_tasks_max
    self->free = task->next_free;
    *task = (task_t) { .pipeline = pipeline_hold (pipeline), .key = key };
    return task;
}

static void
s_give_back (tasks_t *self, task_t *task)
{
    pipeline_destroy (&task->pipeline);
    free (task->bytes);
    task->bytes = NULL;
    task->next_free = self->free;
    self->free = task;
}

void
tasks_prepare (tasks_t *self, version_t *version)
{
    task_t *task = s_take (self, version_pipeline (self->broker, version), version_key (self->broker,
        version));
    task->kind = TASK_PREPARE;
    task->version = version;
    task->memory = version->memory;
    task->catalogue = dataset_user (version_dataset (self->broker, version));
    pool_submit (self->readers, task);
}

void
tasks_copy (tasks_t *self, place_t *place, uint8_t *image, uint8_t *label)
{
    job_t *job = place_job (place);
    task_t *task = s_take (self, job_pipeline (job), place_key (place));
    task->kind = TASK_COPY;
    task->place = place;
    task->source = place_version (place)->memory;
    task->image = image;
    task->label = label;
    task->label_value = catalogue_label (dataset_user (job_dataset (job)), place_id (place));
    pool_submit (self->workers, task);
}

static void
s_finish (tasks_t *self, task_t *task)
{
    if (task->kind == TASK_COPY)
        broker_copied (self->broker, task->place);
    else
        broker_prepared (self->broker, task->version, task->reason [0]? task->reason: NULL);
    s_give_back (self, task);
}

void
tasks_collect (tasks_t *self)
{
    task_t *task;
    while ((task = pool_done (self->readers))) {
        if (task->reason [0])
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
    pool_stop (self->readers);
    pool_stop (self->workers);
    task_t *task;
    while ((task = pool_done (self->readers)) || (task = pool_drain (self->readers))
       ||  (task = pool_done (self->workers)) || (task = pool_drain (self->workers)))
        s_finish (self, task);
}

/*  work_task.c -- what `tureen work` gives to its threads: a sample, or golden samples (work.h).  */
#include "work.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "decoder.h"
#include "pack_index.h"

enum { ALIGNMENT = 64, ROOM_KEPT_BYTES = 16 << 20 };

work_task_t *
work_task_new (void)
{
    work_task_t *self = calloc (1, sizeof *self);
    if (self)
        zmq_msg_init (&self->bytes);
    return self;
}

void
work_task_clear (work_task_t *self)
{
    pipeline_destroy (&self->pipeline);
    free (self->rows);
    self->rows = NULL;
    zmq_msg_close (&self->bytes);
    zmq_msg_init (&self->bytes);
    if (self->room > ROOM_KEPT_BYTES) {
        free (self->version);
        self->version = NULL;
        self->room = 0;
    }
}

void
work_task_destroy (work_task_t **self_p)
{
    work_task_t *self = *self_p;
    if (!self)
        return;
    work_task_clear (self);
    zmq_msg_close (&self->bytes);
    for (size_t file = 0; file < WIRE_WORK_FILES_MAX; file++)
        free (self->buffers [file].bytes);
    free (self->version);
    free (self);
    *self_p = NULL;
}

//  Cleared: a version may be smaller than its room, and the rest may be another server's sample.
static bool
s_make_room (work_task_t *task)
{
    size_t room = (task->version_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (room > task->room) {
        free (task->version);
        task->version = aligned_alloc (ALIGNMENT, room);
        task->room = task->version? room: 0;
    }
    if (task->version)
        memset (task->version, 0, room);
    return task->version;
}

//  work_message_read_task has checked that the sizes are those of the bytes.
static void
s_find_files (const work_task_t *task, decoder_file_t files [WIRE_WORK_FILES_MAX])
{
    const uint8_t *bytes = zmq_msg_data ((zmq_msg_t *) &task->bytes);
    assert (task->wire.files <= WIRE_WORK_FILES_MAX);
    for (size_t file = 0; file < task->wire.files; file++) {
        const catalogue_buffer_t *buffer = &task->buffers [file];
        if (task->catalogue) {
            files [file] = (decoder_file_t) { .bytes = buffer->bytes, .size = buffer->size };
            continue;
        }
        files [file] = (decoder_file_t) { .bytes = bytes, .size = task->wire.sizes [file] };
        bytes += task->wire.sizes [file];
    }
    files [0].rows = bytes;
    files [0].rows_bytes = task->wire.rows_bytes;
}

//  For want of memory nothing is learned: the next time will do.
static void
s_learn (decoder_t *decoder, work_task_t *task)
{
    const uint8_t *rows;
    size_t size = decoder_learned (decoder, &rows);
    task->rows = size > 0 && size <= WIRE_FRAME_BYTES_MAX? malloc (size): NULL;
    if (task->rows) {
        memcpy (task->rows, rows, size);
        task->result.rows_bytes = size;
    }
}

//  Whether they could be read, and are the server's.
static bool
s_read_files (work_task_t *task)
{
    uint64_t checksum = 0;
    bool good = task->wire.id < catalogue_samples (task->catalogue);
    for (size_t file = 0; good && file < task->wire.files; file++) {
        catalogue_buffer_t *buffer = &task->buffers [file];
        size_t field = pipeline_file (task->pipeline, file);
        good = field < catalogue_fields (task->catalogue)
            && catalogue_read (task->catalogue, (uint32_t) task->wire.id, field, buffer) == 0;
        if (good)
            checksum += (file + 1) * pack_index_checksum (buffer->bytes, buffer->size);
    }
    return good && checksum == task->wire.checksum;
}

static void
s_prepare (decoder_t *decoder, work_task_t *task)
{
    static const wire_work_outcome_t outcomes [] = { [DECODER_OK] = WIRE_WORK_READY,
        [DECODER_BAD] = WIRE_WORK_BAD, [DECODER_UNSUITABLE] = WIRE_WORK_UNSUITABLE,
        [DECODER_NO_MEMORY] = WIRE_WORK_NO_MEMORY };
    const wire_work_task_t *wire = &task->wire;
    decoder_file_t files [WIRE_WORK_FILES_MAX];
    decoder_sample_t sample = { .files = files, .warnings_max = wire->warnings_max };
    pipeline_key_t key = { .seed = wire->seed, .round = wire->round, .id = wire->id,
        .occurrence = wire->occurrence };
    size_t file = 0;
    task->what [0] = 0;
    task->result = (wire_work_result_t) { .outcome = WIRE_WORK_NO_MEMORY };
    if (task->catalogue && !s_read_files (task)) {
        task->result.outcome = WIRE_WORK_UNREAD;
        return;
    }
    if (!s_make_room (task))
        return;
    s_find_files (task, files);
    decoder_status_t status = decoder_shared (decoder, task->pipeline, &key, &sample, task->version, &file,
        task->what, sizeof task->what);
    task->result.outcome = (uint16_t) outcomes [status];
    task->result.flags = status == DECODER_OK && decoder_clipped (decoder)? WIRE_WORK_CLIPPED: 0;
    task->result.file = status == DECODER_OK? 0: (uint32_t) file;
    if (status == DECODER_OK && (wire->flags & WIRE_WORK_LEARN))
        s_learn (decoder, task);
}

void
work_task_carry_out (void *context, void *argument)
{
    decoder_worker_t *worker = context;
    work_task_t *task = argument;
    if (task->is_build_check)
        task->is_made = build_check_make (worker->decoder, task->nonce, task->digests);
    else
        s_prepare (worker->decoder, task);
    task->result.worker_ns = decoder_worker_charge (worker);
    decoder_worker_renew (worker);
}

#include "task.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "clock.h"
#include "decoder.h"
#include "job.h"
#include "tenant.h"
#include "version.h"

void
task_blame (task_t *task, outcome_t outcome, size_t file, const char *what)
{
    task->outcome = outcome;
    const catalogue_t *catalogue = task->source->catalogue;
    size_t field = pipeline_file (task->pipeline, file);
    char path [TASK_PATH_BYTES];
    size_t length = catalogue_path (catalogue, task_id (task), field, path, sizeof path);
    snprintf (task->reason, sizeof task->reason, "%s%s%s%s: %s",
        field? catalogue_field_name (catalogue, field): "",
        field? ": ": "", path, length >= sizeof path? "...": "", what);
}

void
task_file_error (const dataset_source_t *source, size_t field, int rc, char what [TASK_WHAT_BYTES])
{
    bool is_odd = rc == -EINVAL || rc == -ENXIO;        //  from catalogue_check_file; from a socket
    if (is_odd || rc == -CATALOGUE_CHANGED)
        snprintf (what, TASK_WHAT_BYTES, "%s",
            is_odd? "is no regular file": "changed since the server started");
    else
        snprintf (what, TASK_WHAT_BYTES, "cannot be read: %s",
            catalogue_error (source->catalogue, field, rc));
}

//  Of a copy: what is not here, or not as it was kept, has its own file.
static void
s_spread_copy (range_t *range, const reader_request_t *request)
{
    int state = RANGE_OUT;
    if (!atomic_compare_exchange_strong (&range->state, &state, RANGE_SPREAD))
        return;
    raw_request_t *raw = range->raw;
    for (uint32_t index = 0; index < raw->sample_count; index++) {
        const raw_sample_t *sample = raw->samples [index];
        space_range_t where = space_sample (range->space, sample->id);
        if (where.bytes == 0)
            continue;
        const uint8_t *bytes = request->memory + request->skip + (where.offset - request->offset);
        bool is_here = space_has (range->space, sample->id);
        if (is_here && space_check (range->space, sample->id, bytes)) {
            memcpy (sample->memory, bytes, where.bytes);
            continue;
        }
        range->left |= UINT64_C (1) << index;
        range->wrong |= (uint64_t) is_here << index;
    }
}

void
task_spread (void *context, reader_request_t *request)
{
    (void) context;
    range_t *range = request->user;
    if (range->space) {
        s_spread_copy (range, request);
        return;
    }
    const pack_t *pack = range->source->pack;
    raw_request_t *raw = range->raw;
    for (uint32_t index = 0; index < raw->sample_count; index++) {
        const raw_sample_t *sample = raw->samples [index];
        pack_range_t where = pack_sample (pack, sample->id);
        size_t field;
        if (where.bytes > 0)
            memcpy (sample->memory, request->memory + request->skip + (where.offset - request->offset),
                where.bytes);
        if (pack_check (pack, sample->id, sample->memory, &field))
            continue;
        //  If, read twice, only the rows of its JPEG are damaged, it is decoded without them.
        size_t rows_bytes = pack_rows_bytes (pack, sample->id);
        if (request->is_afresh && field == catalogue_fields (range->source->catalogue))
            memset (sample->memory + where.bytes - rows_bytes, 0, rows_bytes);
        else
            raw->damaged |= UINT64_C (1) << index;
    }
}

void
task_blame_range (const range_t *range, char reason [TASK_REASON_BYTES])
{
    const pack_t *pack = range->source->pack;
    char path [PATH_MAX + TASK_PATH_BYTES];
    if (range->space) {
        char what [TASK_WHAT_BYTES];
        uint32_t id = range->raw->samples [range->at]->id;
        catalogue_path (range->source->catalogue, id, 0, path, TASK_PATH_BYTES);
        task_file_error (range->source, 0, range->request.rc, what);
        snprintf (reason, TASK_REASON_BYTES, "%.*s: %s", TASK_PATH_BYTES - 1, path, what);
        return;
    }
    pack_range_t where = pack_piece (pack, range->raw->first, range->raw->count);
    pack_volume_path (pack, where.volume, path, sizeof path);
    snprintf (reason, TASK_REASON_BYTES, "%s: cannot be read at %llu: %s", strrchr (path, '/') + 1,
        (unsigned long long) where.offset, dataset_source_error (range->source, range->request.rc));
}

//  An explanation or the ids of a join may be any tenant's: only those that see all see it.
void
task_describe_long (const task_t *task, const broker_t *broker, const tenant_t *only, int64_t now_ms,
    json_t *list)
{
    static const char *const stages [] = { "shared", "private", "beside" };
    //  In this order: a worker sets began_ms before it says that it has the task.
    bool is_running = atomic_load (&task->is_running);
    int64_t age_ms = now_ms - atomic_load (&task->began_ms);
    if (!is_running || age_ms <= TASKS_LONG_MS)
        return;
    const job_t *job = NULL;
    const tenant_t *tenant = NULL;
    const dataset_t *dataset = NULL;
    if (task->kind == TASK_COPY)
        job = row_job (task->row);
    if (task->kind == TASK_PREPARE) {
        job = version_job (task->version, only);
        tenant = version_tenant (broker, task->version);
        dataset = version_dataset (broker, task->version);
    }
    if (job) {
        tenant = job_tenant (job);
        dataset = job_dataset (job);
    }
    if (only && tenant != only)
        return;
    const custom_t *custom = task->is_custom? pipeline_custom (task->pipeline): NULL;
    json_t *object = json_object ();
    json_object_set_new (object, "stage", json_string (stages [task->kind]));
    json_object_set_new (object, "operation", custom? json_string (custom->name): json_null ());
    json_object_set_new (object, "dataset", dataset? json_string (dataset_name (dataset)): json_null ());
    json_object_set_new (object, "sample", dataset? json_integer (task_id (task)): json_null ());
    json_object_set_new (object, "job", job? json_integer ((json_int_t) job_id (job)): json_null ());
    json_object_set_new (object, "tenant", tenant && tenant_total (broker) > 1?
        json_string (tenant_name (tenant)): json_null ());
    json_object_set_new (object, "seconds", json_real ((double) age_ms / 1000));
    json_array_append_new (list, object);
}

//  The files of all fields of the data set lie one after the other; behind them, of a pack, where the rows of
//  the first one begin.
static decoder_file_t
s_packed_file (const task_t *task, size_t file)
{
    const catalogue_t *catalogue = task->source->catalogue;
    size_t field = pipeline_file (task->pipeline, file), offset = 0;
    for (size_t before = 0; before < field; before++)
        offset += catalogue_file_bytes (catalogue, task_id (task), before);
    decoder_file_t result = { .bytes = task->packed + offset,
        .size = catalogue_file_bytes (catalogue, task_id (task), field) };
    const pack_t *pack = task->source->pack;
    if (field == 0 && pack) {
        result.rows_bytes = pack_rows_bytes (pack, task_id (task));
        result.rows = task->packed + pack_sample_bytes (pack, task_id (task)) - result.rows_bytes;
    }
    return result;
}

void
task_files (const task_t *task, decoder_file_t files [PIPELINE_FIELDS_MAX])
{
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++)
        files [file] = task->packed? s_packed_file (task, file):
            (decoder_file_t) { .bytes = task->buffers [file].bytes, .size = task->buffers [file].size };
}

//  ---- pictures

bool
task_lend_pictures (task_t *task, int64_t now_ms)
{
    pictures_data_t *data = task->source->pictures;
    size_t files = pipeline_files (task->pipeline), found = 0;
    for (size_t file = 0; file < files; file++) {
        uint32_t kind = decoder_picture_kind (task->pipeline, file);
        task->lent [file] = task->made [file] = NULL;
        task->keeps [file] = false;
        //  What failed before is read anew.
        if (!data || kind == DECODER_NO_PICTURE || task->version->failures > 0)
            continue;
        kind += (uint32_t) pipeline_file (task->pipeline, file) * DECODER_PICTURE_KINDS;
        task->lent [file] = pictures_lend (data, task_id (task), kind, now_ms, &task->keeps [file]);
        found += task->lent [file] != NULL;
    }
    task->is_decoded = found > 0;
    task->is_kept = false;
    return found == files;
}

void
task_release_pictures (task_t *task)
{
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++)
        pictures_release (task->lent [file]);
}

void
task_note_decoding (const task_t *task)
{
    enum { MEAN_TASKS = 16 };
    dataset_source_decoding_t *decoding = &task->source->decoding;
    double took_ns = (double) task->worker_ns, more_ns = took_ns - decoding->whole_ns;
    if (!task->source->pictures || task->outcome != OUTCOME_READY || task->is_kept)
        return;
    if (!task->is_decoded)
        decoding->whole_ns += more_ns / (decoding->whole_ns > 0? MEAN_TASKS: 1);
    else
    if (more_ns < 0)
        decoding->saved_ns += (uint64_t) -more_ns;
}

//  decoder_sample_t's: the picture is kept when the sample has gone well.
static uint8_t *
s_room (void *context, size_t file, const decoder_picture_t *picture)
{
    task_t *task = context;
    picture_pixels_t wanted = { .height = picture->height, .width = picture->width,
        .channels = picture->channels, .is_clipped = picture->is_clipped };
    if (!task->keeps [file])
        return NULL;
    task->made [file] = pictures_make (task->source->pictures, task_id (task),
        (uint32_t) pipeline_file (task->pipeline, file) * DECODER_PICTURE_KINDS
        + decoder_picture_kind (task->pipeline, file), &wanted);
    return task->made [file]? pictures_pixels (task->made [file]).pixels: NULL;
}

static void
s_keep_pictures (task_t *task, bool is_good)
{
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++) {
        pictures_entry_t *made = task->made [file];
        task->made [file] = NULL;
        task->is_kept |= made != NULL;
        if (made)
            (is_good? pictures_keep: pictures_release) (made);
    }
}

static void
s_give_pictures (const task_t *task, decoder_picture_t pictures [PIPELINE_FIELDS_MAX],
    decoder_file_t files [PIPELINE_FIELDS_MAX])
{
    _Static_assert ((int) DECODER_PICTURE_SLACK == (int) PICTURES_SLACK, "what may be read behind them");
    for (size_t file = 0; file < pipeline_files (task->pipeline); file++)
        if (task->lent [file]) {
            picture_pixels_t lent = pictures_pixels (task->lent [file]);
            pictures [file] = (decoder_picture_t) { .pixels = lent.pixels, .height = lent.height,
                .width = lent.width, .channels = lent.channels, .is_clipped = lent.is_clipped };
            files [file].picture = &pictures [file];
        }
}

//  ---- what workers do

static void
s_prepare (decoder_t *decoder, task_t *task)
{
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    decoder_picture_t pictures [PIPELINE_FIELDS_MAX];
    task_files (task, files);
    s_give_pictures (task, pictures, files);
    decoder_sample_t sample = { .files = files, .warnings_max = task->source->jpeg_warnings_max,
        .room = s_room, .context = task };
    //  Only of the first file: the rows of others are not learned.
    bool is_first = pipeline_file (task->pipeline, 0) == 0 && !task->lent [0];
    bool is_told = is_first && jpeg_row_index_tell (task->told, &files [0]);
    bool learns = is_first && (task->has_room || (task->told && !is_told));
    char what [TASK_WHAT_BYTES];
    size_t at_fault = 0;
    decoder_status_t status = decoder_shared (decoder, task->pipeline, &task->key, &sample, task->memory,
        &at_fault, what, sizeof what);
    s_keep_pictures (task, status == DECODER_OK);
    task->is_starved = status == DECODER_NO_MEMORY;
    task->is_clipped = status == DECODER_OK && decoder_clipped (decoder);
    if (learns && status == DECODER_OK)
        task->learned = jpeg_row_index_found (decoder, &files [0], is_told? task->told: NULL);
    if (status != DECODER_OK && !task->is_starved && status != DECODER_ABANDONED)
        task_blame (task, status == DECODER_UNSUITABLE? OUTCOME_UNSUITABLE: OUTCOME_BAD, at_fault, what);
}

static void
s_copy (decoder_t *decoder, task_t *task)
{
    if (!decoder_private (decoder, task->pipeline, &task->key, task->prepared, task->targets)) {
        task->is_starved = !atomic_load (&task->is_abandoned);
        return;
    }
    for (size_t label = 0; label < catalogue_labels (task->source->catalogue); label++)
        catalogue_label_value (task->source->catalogue, label, task_id (task),
            task->targets [task->outputs + label]);
}

static void
s_carry_out (decoder_t *decoder, task_t *task)
{
    if (task->kind == TASK_SIDE_TASK) {
        decoder_watch (decoder, NULL);
        task->side_task->work (task->side_task, decoder);
        task->side_task->was_done = true;
        return;
    }
    decoder_watch (decoder, &task->is_abandoned);
    if (atomic_load (&task->is_abandoned))
        return;
    if (task->kind == TASK_COPY)
        s_copy (decoder, task);
    else
    if (task->outcome == OUTCOME_READY)     //  otherwise its bytes are damaged
        s_prepare (decoder, task);
}

void
task_work (void *context, void *argument)
{
    decoder_worker_t *worker = context;
    task_t *task = argument;
    atomic_store (&task->began_ms, clock_now_ms ());
    atomic_store (&task->is_running, true);
    task->is_starved = false;
    s_carry_out (worker->decoder, task);
    task->worker_ns += decoder_worker_charge (worker);
    atomic_store (&task->is_running, false);
    decoder_worker_renew (worker);
}

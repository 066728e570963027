#include "work.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "decoder.h"
#include "pack_index.h"
#include "utf8.h"


//  ---- a task: what goes to a thread

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


//  ---- a server: its connection and tasks

enum {
    RETRY_MS = 1000, RETRY_LATER_MS = 5000,
    SILENT_MS = 10000,                  //  a server that says nothing for so long is away
    ANSWERED_MS = 90000,                //  the handshake: the server may be busy
    MEAN_TASKS = 16,
    ERROR_BYTES = 512, SHOWN_BYTES = 600
};

void
work_server_init (work_server_t *self)
{
    dealer_message_init (&self->message);
    self->state = WORK_SERVER_AWAY;
}

__attribute__ ((format (printf, 2, 3)))
static void
s_say (const work_server_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    printf ("%s: ", self->address);
    vprintf (format, arguments);
    putchar ('\n');
    fflush (stdout);
    va_end (arguments);
}

//  ---- connections

//  Forgets the connection and what came by it; tasks with threads are dropped when they are done.
static void
s_disconnect (work_server_t *self, work_task_t **free_p)
{
    dealer_message_clear (&self->message);
    dealer_destroy (&self->dealer);
    self->session++;
    for (work_task_t *task; (task = work_server_take (self)); ) {
        work_task_clear (task);
        task->next = *free_p;
        *free_p = task;
    }
    for (size_t index = 0; index < WIRE_WORK_PIPELINES_MAX; index++) {
        pipeline_destroy (&self->pipelines [index].pipeline);
        self->pipelines [index].number = 0;
    }
}

void
work_server_destroy (work_server_t *self)
{
    work_task_t *left = NULL;
    s_disconnect (self, &left);
    while (left) {
        work_task_t *task = left;
        left = task->next;
        work_task_destroy (&task);
    }
    work_task_destroy (&self->build_check);
    credentials_wipe (&self->credentials);
}

static void
s_go_away (work_server_t *self, work_task_t **free_p, int64_t retry_ms)
{
    s_disconnect (self, free_p);
    self->state = WORK_SERVER_AWAY;
    self->retry_ms = retry_ms;
}

static void
s_give_up (work_server_t *self, work_task_t **free_p, const char *reason)
{
    s_say (self, "refused: %s", reason);
    s_disconnect (self, free_p);
    self->state = WORK_SERVER_REFUSED;
}

static bool
s_send (work_server_t *self, wire_kind_t kind, uint64_t tag, const char *text)
{
    wire_head_t head = message_head (kind, 0, tag);
    message_frame_t frame = { .data = (const uint8_t *) text, .size = text? strlen (text): 0 };
    return dealer_send (self->dealer, &head, &frame, text? 1: 0);
}

static void
s_connect (work_server_t *self, int64_t now_ms)
{
    message_error_t error;
    if (dealer_new (&self->dealer, self->context, self->address, &self->credentials, &error)) {
        if (!self->said_away)
            s_say (self, "%s; tried again", error.text);
        self->said_away = true;
        self->retry_ms = now_ms + RETRY_LATER_MS;
        return;
    }
    char *text = work_message_write_hello (&self->hello);
    s_send (self, WIRE_WORK_HELLO, 0, text);
    free (text);
    self->state = WORK_SERVER_ASKED;
    self->heard_ms = now_ms;
    self->beat_ms = now_ms;
}

//  ---- messages

static const pipeline_t *
s_make_pipeline (const json_t *list, const pipeline_source_t *source, char error [ERROR_BYTES])
{
    const pipeline_t *pipeline;
    if (pipeline_new (&pipeline, list, source, NULL, 0, error, ERROR_BYTES) == 0)
        return pipeline;
    //  Images of differing sizes need a private stage that makes one size of them; it is never run here.
    json_t *longer = json_copy ((json_t *) list);
    json_array_append_new (longer, json_pack ("{s:s, s:i}", "op", "center_crop", "size", 1));
    int rc = pipeline_new (&pipeline, longer, source, NULL, 0, error, ERROR_BYTES);
    json_decref (longer);
    return rc? NULL: pipeline;
}

static bool
s_take_source (const json_t *fields, pipeline_source_t *source)
{
    source->count = json_array_size (fields);
    if (source->count == 0 || source->count > PIPELINE_FIELDS_MAX)
        return false;
    for (size_t index = 0; index < source->count; index++) {
        const json_t *field = json_array_get (fields, index), *mask = json_array_get (field, 1);
        const char *name = json_string_value (json_array_get (field, 0));
        if (!name || !json_is_boolean (mask) || strlen (name) > PIPELINE_NAME_BYTES_MAX)
            return false;
        source->fields [index] = (pipeline_field_t) { .name = name, .is_mask = json_is_true (mask) };
    }
    return true;
}

//  False: *refusal says why the server cannot be worked for.
static bool
s_take_pipeline (work_server_t *self, const frame_t *frame, refusal_t *refusal)
{
    work_pipeline_t wanted;
    pipeline_source_t source;
    char error [ERROR_BYTES] = "";
    if (!work_message_read_pipeline (frame, &wanted, refusal))
        return false;
    const pipeline_t *pipeline = s_take_source (wanted.fields, &source)?
        s_make_pipeline (wanted.list, &source, error): NULL;
    uint32_t number = wanted.number;
    bool is_alike = pipeline && pipeline_version_bytes (pipeline) == wanted.version_bytes
        && wanted.version_bytes <= WIRE_WORK_VERSION_MAX;
    work_message_clear_pipeline (&wanted);
    if (!is_alike) {
        pipeline_destroy (&pipeline);
        return refuse (refusal, "pipeline", "this build cannot run the server's pipeline as it does (%s): "
            "install the server's build", *error? error: "its versions have another size");
    }
    size_t place = number % WIRE_WORK_PIPELINES_MAX;
    pipeline_destroy (&self->pipelines [place].pipeline);
    self->pipelines [place].number = number;
    self->pipelines [place].pipeline = pipeline;
    return true;
}

//  The server does not give more than its credit; beyond the bound it is no Tureen server.
static bool
s_take_task (work_server_t *self, const frame_t *frames, uint64_t number, work_task_t **free_p,
    refusal_t *refusal)
{
    wire_work_task_t wire;
    if (!work_message_read_task (frames, self->message.count, &wire, refusal))
        return false;
    size_t place = wire.pipeline % WIRE_WORK_PIPELINES_MAX;
    const pipeline_t *pipeline = self->pipelines [place].pipeline;
    if (!pipeline || self->pipelines [place].number != wire.pipeline
    ||  pipeline_files (pipeline) != wire.files)
        return refuse (refusal, "malformed", "a task of a pipeline that was not sent");
    bool is_read = wire.flags & WIRE_WORK_READ;
    if (is_read && wire.dataset >= self->hello.datasets)
        return refuse (refusal, "malformed", "a task of a data set that this worker does not have");
    if (self->waiting + self->out == WORK_SERVER_TASKS_MAX)
        return refuse (refusal, "malformed", "more tasks than %d at once", WORK_SERVER_TASKS_MAX);
    work_task_t *task = *free_p;
    if (task)
        *free_p = task->next;
    else
        task = work_task_new ();
    if (!task)
        return refuse (refusal, "memory", "no memory for a task");
    task->next = NULL;
    task->server = self;
    task->session = self->session;
    task->arrived_ns = clock_now_ns ();
    task->is_build_check = false;
    task->number = number;
    task->wire = wire;
    task->catalogue = is_read? self->catalogues [wire.dataset]: NULL;
    task->pipeline = pipeline_hold (pipeline);
    task->version_bytes = pipeline_version_bytes (pipeline);
    zmq_msg_move (&task->bytes, &self->message.parts [2]);
    *(self->last? &self->last->next: &self->first) = task;
    self->last = task;
    self->waiting++;
    return true;
}

static bool
s_challenge (work_server_t *self, const frame_t *frame, refusal_t *refusal)
{
    uint64_t nonce;
    if (self->state != WORK_SERVER_ASKED || self->build_check
        || !work_message_read_challenge (frame, &nonce, refusal))
        return refuse (refusal, "malformed", "a challenge that was not expected");
    self->build_check = work_task_new ();
    if (!self->build_check)
        return refuse (refusal, "memory", "no memory for a task");
    self->build_check->server = self;
    self->build_check->session = self->session;
    self->build_check->is_build_check = true;
    self->build_check->nonce = nonce;
    return true;
}

//  What an ERROR means: some pass, the others stay.
static void
s_take_error (work_server_t *self, work_task_t **free_p, int64_t now_ms)
{
    message_note_t note;
    message_error_t error;
    char shown [SHOWN_BYTES];
    if (!message_read_note (self->message.frames, self->message.count, &note, &error)) {
        s_give_up (self, free_p, error.text);
        return;
    }
    bool passes = !strcmp (note.code, "unknown_worker") || !strcmp (note.code, "busy")
        || !strcmp (note.code, "stopping");
    utf8_visible (note.text, strlen (note.text), shown, sizeof shown);
    if (!passes)
        s_give_up (self, free_p, shown);
    else {
        s_say (self, "%s; tried again", shown);
        s_go_away (self, free_p, now_ms + RETRY_MS);
    }
}

static void
s_welcome (work_server_t *self)
{
    if (self->state != WORK_SERVER_ASKED)
        return;
    self->state = WORK_SERVER_WORKING;
    self->said_away = false;
    s_say (self, "lends %u processor%s", self->hello.processors, self->hello.processors == 1? "": "s");
}

//  False: the server sends what cannot be; refusal says what.
static bool
s_take_message (work_server_t *self, work_task_t **free_p, int64_t now_ms, refusal_t *refusal)
{
    frame_t frames [MESSAGE_FRAMES_MAX];
    wire_head_t head;
    char reason [WORK_REASON_BYTES];
    size_t count = self->message.count;
    if (count > MESSAGE_FRAMES_MAX || self->message.frames [0].size != sizeof head)
        return refuse (refusal, "malformed", "a message without a head");
    for (size_t index = 0; index < count; index++)
        frames [index] = (frame_t) { self->message.frames [index].data, self->message.frames [index].size };
    memcpy (&head, frames [0].data, sizeof head);
    if (memcmp (head.magic, WIRE_MAGIC, sizeof head.magic) || head.version != WIRE_VERSION)
        return refuse (refusal, "malformed", "a message of another protocol");
    self->heard_ms = now_ms;
    bool has_body = head.kind == WIRE_WORK_CHALLENGE || head.kind == WIRE_WORK_REFUSED
        || head.kind == WIRE_WORK_PIPELINE;
    if (has_body && count != 2)
        return refuse (refusal, "malformed", "a message of kind %d with %zu frames", head.kind, count);
    switch (head.kind) {
    case WIRE_WORK_CHALLENGE:
        return s_challenge (self, &frames [1], refusal);
    case WIRE_WORK_WELCOME:
        s_welcome (self);
        return true;
    case WIRE_WORK_REFUSED:
        s_give_up (self, free_p, work_message_read_refused (&frames [1], reason, refusal)? reason:
            refusal->message);
        return true;
    case WIRE_WORK_PIPELINE:
        return s_take_pipeline (self, &frames [1], refusal);
    case WIRE_WORK_TASK:
        return s_take_task (self, frames, head.tag, free_p, refusal);
    case WIRE_WORK_GOODBYE:
        self->has_said_goodbye = true;
        return true;
    case WIRE_ERROR:
        s_take_error (self, free_p, now_ms);
        return true;
    default:
        return true;
    }
}

static void
s_receive (work_server_t *self, work_task_t **free_p, int64_t now_ms)
{
    refusal_t refusal;
    while (self->dealer && dealer_receive (self->dealer, &self->message))
        if (!s_take_message (self, free_p, now_ms, &refusal)) {
            s_give_up (self, free_p, refusal.message);
            return;
        }
}

//  ---- turns

static void
s_look_at_connection (work_server_t *self, work_task_t **free_p, int64_t now_ms)
{
    message_error_t why;
    bool is_working = self->state == WORK_SERVER_WORKING;
    if (!is_working && dealer_welcome (self->dealer, &why) != DEALER_WELCOME) {
        //  ZeroMQ does not connect again where a key was refused; it may be allowed meanwhile.
        if (!self->said_away) {
            printf ("%s; tried again\n", why.text);             //  it names the server
            fflush (stdout);
        }
        self->said_away = true;
        s_go_away (self, free_p, now_ms + RETRY_LATER_MS);
        return;
    }
    if (!is_working && !self->said_away && dealer_is_unreached (self->dealer)) {
        s_say (self, "no server answers; tried again");
        self->said_away = true;
    }
    bool is_silent = dealer_was_connected (self->dealer)
        && now_ms - self->heard_ms > (is_working? SILENT_MS: ANSWERED_MS);
    if (!dealer_is_lost (self->dealer) && !is_silent)
        return;
    if (is_working)
        s_say (self, is_silent? "is silent; tried again": "is gone; tried again");
    s_go_away (self, free_p, now_ms + RETRY_MS);
}

void
work_server_turn (work_server_t *self, work_task_t **free_p, int64_t now_ms)
{
    if (self->state == WORK_SERVER_REFUSED)
        return;
    if (!self->dealer && now_ms >= self->retry_ms)
        s_connect (self, now_ms);
    s_receive (self, free_p, now_ms);
    if (self->dealer)
        s_look_at_connection (self, free_p, now_ms);
    //  Unsent ones would pile up while there is no server.
    if (self->dealer && now_ms >= self->beat_ms + WIRE_WORK_BEAT_MS && dealer_was_connected (self->dealer)) {
        self->beat_ms = now_ms;
        s_send (self, WIRE_WORK_HEARTBEAT, 0, NULL);
    }
}

int64_t
work_server_wakeup (const work_server_t *self)
{
    if (self->state == WORK_SERVER_REFUSED)
        return INT64_MAX;
    if (!self->dealer)
        return self->retry_ms;
    //  Before it is connected no heartbeat is due, and its descriptors tell when it is.
    return dealer_was_connected (self->dealer)? self->beat_ms + WIRE_WORK_BEAT_MS: INT64_MAX;
}

work_task_t *
work_server_take (work_server_t *self)
{
    work_task_t *task = self->first;
    if (!task)
        return NULL;
    self->first = task->next;
    if (!self->first)
        self->last = NULL;
    self->waiting--;
    return task;
}

static void
s_answer_build_check (work_server_t *self, const work_task_t *task)
{
    const char *names [BUILD_CHECK_SAMPLES];
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        names [index] = build_check_name (index);
    //  Without memory it stays silent, and the server ends the handshake.
    char *text = task->is_made? work_message_write_answer (names, BUILD_CHECK_SAMPLES, task->digests): NULL;
    if (text)
        s_send (self, WIRE_WORK_ANSWER, 0, text);
    free (text);
}

static void
s_answer (work_server_t *self, work_task_t *task)
{
    message_frame_t frames [WIRE_FRAMES_MAX];
    wire_head_t head = message_head (WIRE_WORK_RESULT, 0, task->number);
    size_t count = 1, left = task->version_bytes;
    const uint8_t *bytes = task->version;
    if (task->result.outcome != WIRE_WORK_READY) {
        bytes = (const uint8_t *) task->what;
        left = strlen (task->what);
    }
    task->result.held_ns = clock_now_ns () - task->arrived_ns;
    frames [0] = (message_frame_t) { (const uint8_t *) &task->result, sizeof task->result };
    do {
        size_t size = left < WIRE_FRAME_BYTES_MAX? left: WIRE_FRAME_BYTES_MAX;
        frames [count++] = (message_frame_t) { bytes, size };
        bytes += size;
        left -= size;
    } while (left > 0);
    if (task->rows)
        frames [count++] = (message_frame_t) { task->rows, task->result.rows_bytes };
    //  A connection that takes nothing is found out by its silence.
    dealer_send (self->dealer, &head, frames, count);
    self->done++;
}

void
work_server_done (work_server_t *self, work_task_t *task)
{
    if (!task->is_build_check)
        self->task_ns += self->task_ns > 0? ((double) task->result.worker_ns - self->task_ns) / MEAN_TASKS:
            (double) task->result.worker_ns;
    if (!self->dealer || task->session != self->session)
        return;
    if (task->is_build_check)
        s_answer_build_check (self, task);
    else
        s_answer (self, task);
}

void
work_server_goodbye (work_server_t *self)
{
    if (self->dealer && self->state == WORK_SERVER_WORKING)
        s_send (self, WIRE_WORK_GOODBYE, 0, NULL);
    else
        self->has_said_goodbye = true;
}

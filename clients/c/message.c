#include "message.h"
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#define MESSAGE_JOINED_MAGIC 0x4a4f4944u

bool
message_fail (message_error_t *error, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error->text, sizeof error->text, format, arguments);
    va_end (arguments);
    return false;
}

//  --------------------------------------------------------------------------
//  Heads

wire_head_t
message_head (wire_kind_t kind, uint64_t job, uint64_t tag)
{
    wire_head_t head = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .kind = (uint8_t) kind, .job = job,
        .tag = tag };
    return head;
}

//  How many frames a message of this kind has; 0: not a kind that a server sends.  BATCH has 3, one more in a
//  job with ranks and one more when inline.
static size_t
s_frames_of (uint8_t kind)
{
    switch (kind) {
        case WIRE_HEARTBEAT:
            return 1;
        case WIRE_JOINED:
        case WIRE_EPOCH_END:
        case WIRE_ENDED:
        case WIRE_STATUS_REPLY:
        case WIRE_ERROR:
        case WIRE_NOTICE:
        case WIRE_EXPLAIN_REPLY:
        case WIRE_DRAINING:
        case WIRE_ADDING:
        case WIRE_REMOVED:
            return 2;
        case WIRE_BATCH:
            return 3;
        default:
            return 0;
    }
}

message_status_t
message_read_head (const message_frame_t *frames, size_t count, wire_head_t *head, message_error_t *error)
{
    if (!count || frames [0].size != sizeof *head || memcmp (frames [0].data, WIRE_MAGIC, 4)) {
        message_fail (error, "what answers there does not speak Tureen's protocol");
        return MESSAGE_BROKEN;
    }
    memcpy (head, frames [0].data, sizeof *head);
    if (head->version != WIRE_VERSION) {
        message_fail (error, "the server speaks version %d of the protocol, this client version %d",
            head->version, WIRE_VERSION);
        return MESSAGE_BROKEN;
    }
    size_t expected = s_frames_of (head->kind);
    if (!expected)
        return MESSAGE_IGNORED;
    if (count != expected && !(head->kind == WIRE_BATCH && count > expected && count <= MESSAGE_FRAMES_MAX)) {
        message_fail (error, "the server sent a message of kind %d with %zu frames", head->kind, count);
        return MESSAGE_BROKEN;
    }
    return MESSAGE_OK;
}

//  --------------------------------------------------------------------------
//  JSON, bounded

//  The object in frame 1; NULL with the reason.
static json_t *
s_load_object (const message_frame_t *frames, size_t count, message_error_t *error)
{
    if (count < 2 || frames [1].size > MESSAGE_JSON_BYTES_MAX) {
        message_fail (error, "the server sent JSON of unusable size");
        return NULL;
    }
    json_error_t trouble;
    json_t *root = json_loadb ((const char *) frames [1].data, frames [1].size, JSON_REJECT_DUPLICATES,
        &trouble);
    if (!root)
        message_fail (error, "the server sent unusable JSON: %s", trouble.text);
    else if (!json_is_object (root)) {
        message_fail (error, "the server sent JSON that is no object");
        json_decref (root);
        root = NULL;
    }
    return root;
}

bool
message_read_number (const json_t *value, uint64_t limit, uint64_t *number_p)
{
    uint64_t number = 0;
    if (json_is_integer (value)) {
        if (json_integer_value (value) < 0)
            return false;
        number = (uint64_t) json_integer_value (value);
    }
    else {
        const char *text = json_string_value (value);
        size_t length = text? json_string_length (value): 0;
        if (length == 0 || length > 20)
            return false;
        for (size_t index = 0; index < length; index++) {
            unsigned digit = (unsigned) text [index] - '0';
            if (digit > 9 || number > (UINT64_MAX - digit) / 10)
                return false;
            number = number * 10 + digit;
        }
    }
    *number_p = number;
    return number <= limit;
}

static bool
s_number_of (const json_t *object, const char *key, uint64_t limit, uint64_t *number_p,
message_error_t *error)
{
    if (message_read_number (json_object_get (object, key), limit, number_p))
        return true;
    return message_fail (error, "the server's answer has no usable \"%s\"", key);
}

//  A text without a zero in it, of 1 to limit bytes.
static const char *
s_text_of (const json_t *object, const char *key, size_t limit, message_error_t *error)
{
    json_t *value = json_object_get (object, key);
    const char *text = json_string_value (value);
    size_t length = text? json_string_length (value): 0;
    if (length > 0 && length <= limit && strlen (text) == length)
        return text;
    message_fail (error, "the server's answer has no usable \"%s\"", key);
    return NULL;
}

//  --------------------------------------------------------------------------
//  JOINED

//  Bytes of one number; 0: an unknown dtype, which is passed on unchecked.
static size_t
s_dtype_bytes (const char *dtype)
{
    static const struct { const char *name; size_t bytes; } known [] = {
        { "bool", 1 }, { "uint8", 1 }, { "int8", 1 }, { "uint16", 2 }, { "int16", 2 }, { "float16", 2 },
        { "bfloat16", 2 }, { "uint32", 4 }, { "int32", 4 }, { "float32", 4 }, { "uint64", 8 }, { "int64", 8 },
        { "float64", 8 }
    };
    for (size_t index = 0; index < sizeof known / sizeof *known; index++)
        if (!strcmp (known [index].name, dtype))
            return known [index].bytes;
    return 0;
}

static bool
s_read_shape (const json_t *shape, tureen_field_t *field, message_error_t *error)
{
    if (!json_is_array (shape) || json_array_size (shape) > TUREEN_DIMENSIONS_MAX)
        return message_fail (error, "field \"%s\" has no usable \"shape\"", field->name);
    field->dimensions = json_array_size (shape);
    size_t item_bytes = s_dtype_bytes (field->dtype);
    size_t bytes = item_bytes? item_bytes: 1;
    for (size_t index = 0; index < field->dimensions; index++) {
        uint64_t extent;
        if (!message_read_number (json_array_get (shape, index), INT32_MAX, &extent) || !extent)
            return message_fail (error, "field \"%s\" has no usable \"shape\"", field->name);
        field->shape [index] = extent;
        if (__builtin_mul_overflow (bytes, extent, &bytes))
            return message_fail (error, "field \"%s\" is too large", field->name);
    }
    if (item_bytes && bytes != field->sample_bytes)
        return message_fail (error, "field \"%s\": \"sample_bytes\" is not its shape's", field->name);
    //  Users read the array through a pointer to its type.
    if (item_bytes && field->offset % item_bytes)
        return message_fail (error, "field \"%s\" is not aligned", field->name);
    return true;
}

static bool
s_read_field (const json_t *value, const message_joined_t *joined, tureen_field_t *field,
message_error_t *error)
{
    uint64_t offset, sample_bytes;
    if (!(field->name = s_text_of (value, "name", 256, error))
    ||  !(field->dtype = s_text_of (value, "dtype", 32, error))
    ||  !s_number_of (value, "offset", joined->slot_bytes, &offset, error)
    ||  !s_number_of (value, "sample_bytes", joined->slot_bytes, &sample_bytes, error))
        return false;
    field->offset = offset;
    field->sample_bytes = sample_bytes;
    if (!s_read_shape (json_object_get (value, "shape"), field, error))
        return false;
    if (json_object_get (value, "lengths") && !(field->lengths = s_text_of (value, "lengths", 256, error)))
        return false;
    size_t bytes;
    if (__builtin_mul_overflow (field->sample_bytes, (size_t) joined->info.batch_size, &bytes)
    ||  bytes > joined->slot_bytes - field->offset)
        return message_fail (error, "field \"%s\" does not fit into a slot", field->name);
    return true;
}

//  That there is such a field, and rows to be counted by it.
static bool
s_check_lengths (const message_joined_t *self, const tureen_field_t *field, message_error_t *error)
{
    bool has_rows = field->lengths && field->dimensions && field->shape [0] > 0;
    for (size_t index = 0; has_rows && index < self->info.field_count; index++) {
        const tureen_field_t *other = &self->fields [index];
        if (!strcmp (other->name, field->lengths) && !strcmp (other->dtype, "int64") && !other->dimensions)
            return true;
    }
    return !field->lengths || message_fail (error, "field \"%s\" has no usable \"lengths\"", field->name);
}

static bool
s_check_name (const message_joined_t *self, size_t field, message_error_t *error)
{
    for (size_t other = 0; other < field; other++)
        if (!strcmp (self->fields [other].name, self->fields [field].name))
            return message_fail (error, "two fields are named \"%s\"", self->fields [field].name);
    return true;
}

static bool
s_read_fields (message_joined_t *self, message_error_t *error)
{
    const json_t *fields = json_object_get (self->root, "fields");
    self->info.field_count = json_array_size (fields);      //  0 if it is no array
    if (!self->info.field_count || self->info.field_count > MESSAGE_FIELDS_MAX)
        return message_fail (error, "the server's answer has no usable \"fields\"");
    for (size_t index = 0; index < self->info.field_count; index++)
        if (!s_read_field (json_array_get (fields, index), self, &self->fields [index], error)
        ||  !s_check_name (self, index, error))
            return false;
    for (size_t index = 0; index < self->info.field_count; index++)
        if (!s_check_lengths (self, &self->fields [index], error))
            return false;
    self->info.fields = self->fields;
    return true;
}

static bool
s_read_classes (message_joined_t *self, message_error_t *error)
{
    const json_t *classes = json_object_get (self->root, "classes");
    size_t count = json_array_size (classes);
    if (!count)
        return true;                    //  left out, or none
    self->classes = calloc (count, sizeof *self->classes);
    if (!self->classes)
        return message_fail (error, "out of memory for %zu class names", count);
    for (size_t index = 0; index < count; index++)
        if (!(self->classes [index] = json_string_value (json_array_get (classes, index))))
            return message_fail (error, "the server's answer has no usable \"classes\"");
    self->info.classes = self->classes;
    self->info.class_count = count;
    return true;
}

//  The offer of a ring, if there is one.
static bool
s_read_ring (message_joined_t *self, message_error_t *error)
{
    const json_t *ring = json_object_get (self->root, "ring");
    if (!json_is_object (ring))
        return true;
    uint64_t bytes;
    const char *path = s_text_of (ring, "path", 4096, error);
    if (!path || !(self->ring_token = s_text_of (ring, "token", WIRE_TOKEN_BYTES, error))
    ||  !s_number_of (ring, "bytes", SIZE_MAX, &bytes, error))
        return false;
    if (strlen (self->ring_token) != WIRE_TOKEN_BYTES)
        return message_fail (error, "the server's answer has no usable \"token\"");
    if (bytes != self->info.slots * self->slot_bytes)
        return message_fail (error, "the ring's \"bytes\" are not slots x slot_bytes");
    self->ring_bytes = bytes;
    self->ring_path = path;
    self->info.ring = true;
    return true;
}

static bool
s_read_sizes (message_joined_t *self, uint32_t batch_size, message_error_t *error)
{
    tureen_info_t *info = &self->info;
    uint64_t batch, slots, slot_bytes;
    if (!s_number_of (self->root, "job", UINT64_MAX, &info->job, error)
    ||  !s_number_of (self->root, "samples", UINT64_MAX, &info->samples, error)
    ||  !s_number_of (self->root, "dataset_samples", UINT64_MAX, &info->dataset_samples, error)
    ||  !s_number_of (self->root, "batch_size", UINT32_MAX, &batch, error)
    ||  !s_number_of (self->root, "slots", WIRE_SLOTS_MAX, &slots, error)
    ||  !s_number_of (self->root, "slot_bytes", SIZE_MAX / WIRE_SLOTS_MAX, &slot_bytes, error)
    ||  !s_number_of (self->root, "seed", UINT64_MAX, &info->seed, error))
        return false;
    if (batch != batch_size)
        return message_fail (error, "the server makes batches of %" PRIu64 ", not %" PRIu32, batch,
        batch_size);
    if (!slots || !slot_bytes || slot_bytes % sizeof (uint64_t))
        return message_fail (error, "the server offers no usable slots");
    info->batch_size = (uint32_t) batch;
    info->slots = (uint32_t) slots;
    self->slot_bytes = slot_bytes;
    return true;
}

//  So many lower-case hexadecimal digits, or "".
static const char *
s_digits_of (const json_t *root, const char *key, size_t count)
{
    const char *text = json_string_value (json_object_get (root, key));
    return text && strlen (text) == count && strspn (text, "0123456789abcdef") == count? text: "";
}

//  Which of how many ranks; a server that knows of none says nothing.
static bool
s_read_rank (message_joined_t *self, message_error_t *error)
{
    uint64_t rank = 0, world_size = 1;
    if ((json_object_get (self->root, "world_size")
        && !s_number_of (self->root, "world_size", WIRE_RANKS_MAX, &world_size, error))
    ||  (json_object_get (self->root, "rank")
        && !s_number_of (self->root, "rank", WIRE_RANKS_MAX, &rank, error)))
        return false;
    if (rank >= world_size)
        return message_fail (error, "the server says rank %" PRIu64 " of %" PRIu64, rank, world_size);
    self->info.rank = (uint32_t) rank;
    self->info.world_size = (uint32_t) world_size;
    return true;
}

//  Likewise of nodes.
static bool
s_read_node (message_joined_t *self, message_error_t *error)
{
    uint64_t node = 0, nodes = 1;
    if ((json_object_get (self->root, "nodes")
        && !s_number_of (self->root, "nodes", WIRE_NODES_MAX, &nodes, error))
    ||  (json_object_get (self->root, "node")
        && !s_number_of (self->root, "node", WIRE_NODES_MAX, &node, error)))
        return false;
    if (node >= nodes)
        return message_fail (error, "the server says node %" PRIu64 " of %" PRIu64, node, nodes);
    self->info.node = (uint32_t) node;
    self->info.nodes = (uint32_t) nodes;
    return true;
}

static bool
s_read_joined (message_joined_t *self, uint32_t batch_size, message_error_t *error)
{
    if (!s_read_sizes (self, batch_size, error) || !s_read_rank (self, error) || !s_read_node (self, error)
    ||  !s_read_fields (self, error)
    ||  !s_read_classes (self, error) || !s_read_ring (self, error))
        return false;
    uint64_t heartbeat_ms;
    if (!message_read_number (json_object_get (self->root, "heartbeat_ms"), MESSAGE_HEARTBEAT_MS_MAX,
        &heartbeat_ms)
    ||  heartbeat_ms == 0)
        heartbeat_ms = WIRE_HEARTBEAT_MS;
    self->heartbeat_ms = (uint32_t) heartbeat_ms;
    const char *fingerprint = json_string_value (json_object_get (self->root, "fingerprint"));
    self->info.fingerprint = fingerprint? fingerprint: "";
    self->info.data = s_digits_of (self->root, "data", WIRE_DATA_BYTES);
    self->info.run = s_digits_of (self->root, "run", WIRE_RUN_BYTES);
    self->info.forked = json_is_true (json_object_get (self->root, "forked"));
    const json_t *pipeline = json_object_get (self->root, "pipeline");
    self->pipeline = pipeline? json_dumps (pipeline, JSON_ENCODE_ANY): NULL;
    self->info.pipeline = self->pipeline? self->pipeline: "[]";
    return true;
}

bool
message_read_joined (const message_frame_t *frames, size_t count, uint32_t batch_size,
    message_joined_t **joined_p, message_error_t *error)
{
    assert (joined_p);
    *joined_p = NULL;
    message_joined_t *self = calloc (1, sizeof *self);
    if (!self)
        return message_fail (error, "out of memory");
    self->magic = MESSAGE_JOINED_MAGIC;
    self->root = s_load_object (frames, count, error);
    if (self->root && s_read_joined (self, batch_size, error)) {
        *joined_p = self;
        self = NULL;
    }
    message_joined_destroy (&self);
    return *joined_p != NULL;
}

void
message_joined_destroy (message_joined_t **self_p)
{
    message_joined_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MESSAGE_JOINED_MAGIC);
    json_decref (self->root);
    free (self->classes);
    free (self->pipeline);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
message_joined_set_inline (message_joined_t *self)
{
    assert (self && self->magic == MESSAGE_JOINED_MAGIC);
    self->ring_path = NULL;
    self->info.ring = false;
}

//  --------------------------------------------------------------------------
//  What follows JOINED

//  Whether a batch is its rank's part of the step.  A batch in no slot repeats what the rank lacked, and
//  holds only what could still be read of it: the same ids in the same order, perhaps not all of them.
static bool
s_is_part (const message_batch_t *batch, const uint8_t *part, uint64_t part_count)
{
    uint64_t found = 0, count = batch->head.count;
    bool is_loose = batch->head.slot == WIRE_SLOT_NONE;
    for (uint64_t place = 0; place < part_count && found < count; place++)
        found += !memcmp (batch->ids + found * sizeof (uint64_t), part + place * sizeof (uint64_t),
            sizeof (uint64_t));
    return found == count && (is_loose || count == part_count);
}

//  The step's frame: a count for each rank, then the ids.
static bool
s_read_step (const message_frame_t *frame, const tureen_info_t *info, message_batch_t *batch,
    message_error_t *error)
{
    uint64_t counts [WIRE_RANKS_MAX], sum = 0, before = 0;
    size_t bytes = info->world_size * sizeof *counts;
    if (frame->size < bytes)
        return message_fail (error, "the server sent a step of %zu bytes for %" PRIu32 " ranks", frame->size,
            info->world_size);
    memcpy (counts, frame->data, bytes);
    for (uint32_t rank = 0; rank < info->world_size; rank++) {
        if (counts [rank] > info->batch_size)
            return message_fail (error, "the server sent a step with %" PRIu64 " samples of one rank",
                counts [rank]);
        sum += counts [rank];
        before += rank < info->rank? counts [rank]: 0;
    }
    if (frame->size - bytes != sum * sizeof (uint64_t))
        return message_fail (error, "the server sent %zu bytes of ids for a step of %" PRIu64 " samples",
            frame->size - bytes, sum);
    batch->counts = frame->data;
    batch->step = frame->data + bytes;
    batch->step_count = sum;
    bool is_padding = batch->head.flags & WIRE_BATCH_PADDING, is_loose = batch->head.slot == WIRE_SLOT_NONE;
    uint64_t own = counts [info->rank];
    if (is_padding? own > 0 && !is_loose: !s_is_part (batch, batch->step + before * sizeof (uint64_t), own))
        return message_fail (error, "the server sent a batch that is not this rank's part of its step");
    return true;
}

//  Padding has one id, of another rank of the step; or the step pads a node's part, and has none.
static bool
s_check_padding (const tureen_info_t *info, const message_batch_t *batch, message_error_t *error)
{
    bool found = info->nodes > 1 && batch->step_count == 0;
    for (size_t place = 0; info->world_size > 1 && place < batch->step_count && !found; place++)
        found = !memcmp (batch->ids, batch->step + place * sizeof (uint64_t), sizeof (uint64_t));
    return (found && batch->head.count == 1) || message_fail (error, "the server sent padding that is none");
}

//  How it came: in the ring, or with the message; which of these is said by the job, but for what is in no
//  slot.
static bool
s_check_way (const message_frame_t *frames, size_t count, const message_joined_t *joined,
    message_batch_t *batch, message_error_t *error)
{
    const tureen_info_t *info = &joined->info;
    bool has_step = info->world_size > 1, carried = batch->head.flags & WIRE_BATCH_INLINE;
    bool loose = has_step && batch->head.slot == WIRE_SLOT_NONE;
    if (!loose && batch->head.slot >= info->slots)
        return message_fail (error, "the server sent a batch in slot %" PRIu32, batch->head.slot);
    if (count != 3u + has_step + carried)
        return message_fail (error, "the server sent a batch of %zu frames", count);
    if (carried && frames [count - 1].size != joined->slot_bytes)
        return message_fail (error, "the server sent a batch of %zu bytes", frames [count - 1].size);
    if (carried != (loose || !info->ring))
        return message_fail (error, "the server sent a batch the wrong way");
    batch->payload = carried? count - 1: 0;
    return true;
}

bool
message_read_batch (const message_frame_t *frames, size_t count, const message_joined_t *joined,
    message_batch_t *batch, message_error_t *error)
{
    const tureen_info_t *info = &joined->info;
    *batch = (message_batch_t) { .counts = NULL };
    wire_batch_t *head = &batch->head;
    if (count < 3 || frames [1].size != sizeof *head)
        return message_fail (error, "the server sent a batch of unusable form");
    memcpy (head, frames [1].data, sizeof *head);
    if (head->count == 0 || head->count > info->batch_size)
        return message_fail (error, "the server sent a batch of %" PRIu32 " samples", head->count);
    if (frames [2].size != head->count * sizeof (uint64_t))
        return message_fail (error, "the server sent %zu bytes of ids for %" PRIu32 " samples",
            frames [2].size, head->count);
    batch->ids = batch->step = frames [2].data;
    bool is_of_node = info->world_size == 1 && info->nodes > 1 && head->flags & WIRE_BATCH_PADDING;
    batch->step_count = is_of_node? 0: head->count;
    return s_check_way (frames, count, joined, batch, error)
        && (info->world_size == 1 || s_read_step (&frames [3], info, batch, error))
        && (!(head->flags & WIRE_BATCH_PADDING) || s_check_padding (info, batch, error));
}

bool
message_read_epoch_end (const message_frame_t *frames, size_t count, wire_epoch_end_t *epoch_end,
    message_error_t *error)
{
    if (count != 2 || frames [1].size != sizeof *epoch_end)
        return message_fail (error, "the server sent an epoch's end of unusable form");
    memcpy (epoch_end, frames [1].data, sizeof *epoch_end);
    return true;
}

//  A foreign text, made fit for a terminal.
static void
s_copy_text (char *target, size_t size, const json_t *value, const char *otherwise)
{
    const char *text = json_string_value (value);
    snprintf (target, size, "%s", text? text: otherwise);
    for (; *target; target++)
        if ((unsigned char) *target < ' ' || *target == 127)
            *target = ' ';
}

bool
message_read_note (const message_frame_t *frames, size_t count, message_note_t *note, message_error_t *error)
{
    json_t *root = s_load_object (frames, count, error);
    if (!root)
        return false;
    static const char *const keys [] = { "error", "reason", "notice" };
    const json_t *code = NULL;
    for (size_t index = 0; index < sizeof keys / sizeof *keys && !code; index++)
        code = json_object_get (root, keys [index]);
    s_copy_text (note->code, sizeof note->code, code, "unknown");
    s_copy_text (note->text, sizeof note->text, json_object_get (root, "message"), "no reason given");
    json_decref (root);
    return true;
}

bool
message_read_unreadable (const message_frame_t *frames, size_t count, uint64_t *samples_p, char **json_p,
    message_error_t *error)
{
    json_t *root = s_load_object (frames, count, error);
    if (!root)
        return false;
    const json_t *told = json_object_get (root, "unreadable");
    *json_p = NULL;
    bool fine = json_is_object (told)
        && message_read_number (json_object_get (told, "count"), UINT64_MAX, samples_p);
    if (fine)
        *json_p = json_dumps (told, JSON_COMPACT);
    else
        message_fail (error, "the notice of unreadable samples does not say how many");
    if (fine && !*json_p)
        message_fail (error, "out of memory");
    json_decref (root);
    return *json_p != NULL;
}

bool
message_read_object (const message_frame_t *frames, size_t count, char **json_p, message_error_t *error)
{
    json_t *root = s_load_object (frames, count, error);
    if (!root)
        return false;
    json_decref (root);
    size_t size = frames [1].size;
    *json_p = malloc (size + 1);
    if (!*json_p)
        return message_fail (error, "out of memory");
    memcpy (*json_p, frames [1].data, size);    //  JSON has no zero in it
    (*json_p) [size] = 0;
    return true;
}

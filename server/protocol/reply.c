#include "reply.h"
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "utf8.h"
#include "xalloc.h"

enum { CLASSES_BYTES_MAX = 256 * 1024 };

bool
refuse (refusal_t *refusal, const char *code, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    refusal->code = code;
    int length = vsnprintf (refusal->message, sizeof refusal->message, format, arguments);
    va_end (arguments);
    if (length >= (int) sizeof refusal->message) {
        //  Marks the cut, and does not cut a character in two.
        size_t end = sizeof refusal->message - 4;
        while (end && ((uint8_t) refusal->message [end] & 0xc0) == 0x80)
            end--;
        memcpy (refusal->message + end, "...", 4);
    }
    return false;
}

//  These fail only for lack of memory.
static void
s_need (bool is_good)
{
    if (!is_good)
        xalloc_failed ();
}

//  Puts value under key; takes the reference.
static void
s_put (json_t *object, const char *key, json_t *value)
{
    s_need (json_object_set_new (object, key, value) == 0);
}

//  Readers that keep numbers in doubles lose digits above 2^53, so 64-bit numbers go as text.
static json_t *
s_number (uint64_t number)
{
    return json_sprintf ("%" PRIu64, number);
}

static json_t *
s_number_if (bool is_known, uint64_t number)
{
    return is_known? s_number (number): json_null ();
}

//  The object as text; ends the object.
static char *
s_finish (json_t *object)
{
    char *text = json_dumps (object, JSON_COMPACT);
    s_need (text != NULL);
    json_decref (object);
    return text;
}

//  The names, or NULL if they would take too much.
static json_t *
s_classes (const reply_joined_t *joined)
{
    if (!joined->classes)
        return NULL;
    json_t *classes = json_array ();
    size_t bytes = 2;
    for (size_t index = 0; index < joined->class_count && bytes <= CLASSES_BYTES_MAX; index++) {
        json_t *name = utf8_json (joined->classes [index]);
        bytes += json_dumpb (name, NULL, 0, JSON_ENCODE_ANY) + (index > 0);
        s_need (json_array_append_new (classes, name) == 0);
    }
    if (bytes > CLASSES_BYTES_MAX) {
        json_decref (classes);
        return NULL;
    }
    return classes;
}

static json_t *
s_field (const reply_field_t *field)
{
    assert (field->dimensions <= REPLY_FIELD_DIMENSIONS_MAX);
    json_t *object = json_object (), *shape = json_array ();
    for (uint32_t index = 0; index < field->dimensions; index++) {
        s_need (json_array_append_new (shape, json_integer (field->shape [index])) == 0);
    }
    s_put (object, "name", utf8_json (field->name));
    s_put (object, "dtype", utf8_json (field->dtype));
    s_put (object, "shape", shape);
    s_put (object, "offset", s_number (field->offset));
    s_put (object, "sample_bytes", s_number (field->sample_bytes));
    if (field->lengths)
        s_put (object, "lengths", utf8_json (field->lengths));
    return object;
}

static json_t *
s_fields (const reply_joined_t *joined)
{
    json_t *fields = json_array ();
    for (size_t index = 0; index < joined->field_count; index++) {
        s_need (json_array_append_new (fields, s_field (&joined->fields [index])) == 0);
    }
    return fields;
}

//  JSON cannot hold a path that is not UTF-8: the client will not find the repaired path, and asks for
//  INLINE.
static json_t *
s_ring (const reply_joined_t *joined)
{
    if (!joined->ring_path)
        return json_null ();
    json_t *ring = json_object ();
    s_put (ring, "path", utf8_json (joined->ring_path));
    s_put (ring, "token", utf8_json (joined->ring_token));
    s_put (ring, "bytes", s_number ((uint64_t) joined->slots * joined->slot_bytes));
    return ring;
}

char *
reply_joined (const reply_joined_t *joined)
{
    json_t *object = json_object ();
    s_put (object, "job", s_number (joined->job));
    s_put (object, "samples", s_number (joined->samples));
    s_put (object, "dataset_samples", s_number (joined->dataset_samples));
    json_t *classes = s_classes (joined);
    if (classes)
        s_put (object, "classes", classes);
    s_put (object, "batch_size", json_integer (joined->batch_size));
    s_put (object, "slots", json_integer (joined->slots));
    s_put (object, "slot_bytes", s_number (joined->slot_bytes));
    s_put (object, "fields", s_fields (joined));
    s_put (object, "ring", s_ring (joined));
    s_put (object, "seed", s_number (joined->seed));
    s_put (object, "fingerprint", utf8_json (joined->fingerprint));
    s_put (object, "data", utf8_json (joined->data));
    s_put (object, "run", utf8_json (joined->run));
    s_put (object, "forked", json_boolean (joined->forked));
    s_put (object, "rank", json_integer (joined->rank));
    s_put (object, "world_size", json_integer (joined->world_size));
    if (joined->nodes > 1) {
        s_put (object, "nodes", json_integer (joined->nodes));
        s_put (object, "node", json_integer (joined->node));
        s_put (object, "part_samples", s_number (joined->part_samples));
        s_put (object, "steps", s_number (joined->epoch_batches));
        s_put (object, "partition", utf8_json (joined->partition));
    }
    json_t *pipeline = json_loads (joined->pipeline_text, 0, NULL);
    assert (json_is_array (pipeline));          //  the server's own text
    s_put (object, "pipeline", pipeline);
    s_put (object, "heartbeat_ms", json_integer (WIRE_HEARTBEAT_MS));
    s_put (object, "lease_ms", json_integer (joined->lease_ms));
    return s_finish (object);
}

static char *
s_two_texts (const char *key, const char *text, const char *message)
{
    json_t *object = json_object ();
    s_put (object, key, utf8_json (text));
    s_put (object, "message", utf8_json (message));
    return s_finish (object);
}

//  Clients of all versions read this one.
char *
reply_error (const char *code, const char *message)
{
    if (strcmp (code, "version") != 0)
        return s_two_texts ("error", code, message);
    json_t *object = json_object (), *versions = json_array ();
    s_put (object, "error", utf8_json (code));
    s_put (object, "message", utf8_json (message));
    json_array_append_new (versions, json_integer (WIRE_VERSION));
    s_put (object, "versions", versions);
    return s_finish (object);
}

char *
reply_ended (const char *reason, const char *message)
{
    return s_two_texts ("reason", reason, message);
}

char *
reply_notice (const char *notice, const char *message)
{
    return s_two_texts ("notice", notice, message);
}

char *
reply_notice_unreadable (const char *message, uint64_t epoch_samples, json_t *unreadable)
{
    json_t *object = json_object ();
    s_put (object, "notice", utf8_json ("unreadable"));
    s_put (object, "message", utf8_json (message));
    s_put (object, "samples", s_number (epoch_samples));
    s_put (object, "unreadable", unreadable);
    return s_finish (object);
}

char *
reply_draining (uint64_t jobs)
{
    return xalloc_text ("{\"draining\":true,\"jobs\":%llu}", (unsigned long long) jobs);
}

//  The lines, without their newlines.
static json_t *
s_lines (const char *text)
{
    json_t *lines = json_array ();
    while (*text) {
        size_t size = strcspn (text, "\n");
        char *line = xalloc_memory (strndup (text, size));
        s_need (json_array_append_new (lines, utf8_json (line)) == 0);
        free (line);
        text += size + (text [size] == '\n');
    }
    return lines;
}

char *
reply_adding (bool is_ready, const char *text)
{
    json_t *object = json_object ();
    s_put (object, "state", utf8_json (is_ready? "ready": "opening"));
    s_put (object, is_ready? "lines": "progress", is_ready? s_lines (text): utf8_json (text));
    return s_finish (object);
}

char *
reply_removed (uint64_t jobs)
{
    return xalloc_text ("{\"jobs\":%llu}", (unsigned long long) jobs);
}

char *
reply_explained (const reply_explained_t *explained, const char *name, json_t *operations)
{
    bool is_placed = explained->is_placed;
    json_t *object = json_object ();
    s_put (object, "id", s_number (explained->id));
    s_put (object, "epoch", s_number (explained->epoch));
    s_put (object, "index", s_number_if (is_placed, explained->index));
    s_put (object, "row", s_number_if (is_placed, explained->row));
    s_put (object, "name", utf8_json (name));
    s_put (object, "version", s_number_if (!explained->has_no_version, explained->version));
    s_put (object, "prepared_for", is_placed? json_integer (explained->prepared_for): json_null ());
    s_put (object, "reused", is_placed? json_boolean (explained->is_reused): json_null ());
    if (explained->sharing)
        s_put (object, "sharing", utf8_json (explained->sharing));
    s_put (object, "operations", operations);
    return s_finish (object);
}

wire_head_t
reply_head (wire_kind_t kind, uint64_t job, uint64_t tag)
{
    wire_head_t head = { .version = WIRE_VERSION, .kind = (uint8_t) kind, .job = job, .tag = tag };
    memcpy (head.magic, WIRE_MAGIC, sizeof head.magic);
    return head;
}

#include "request.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "request_values.h"

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

//  --- Frame 0 ----------------------------------------------------------------------------------------------

static const struct {
    uint8_t kind;
    const char *name;
    size_t frames_min, frames_max;
} s_kinds [] = {
    { WIRE_JOIN, "JOIN", 2, WIRE_FRAMES_MAX },
    { WIRE_INLINE, "INLINE", 1, 1 },
    { WIRE_PROGRESS, "PROGRESS", 2, 2 },
    { WIRE_LEAVE, "LEAVE", 1, 1 },
    { WIRE_STATUS, "STATUS", 2, 2 },
    { WIRE_HEARTBEAT, "HEARTBEAT", 1, 1 },
    { WIRE_EXPLAIN, "EXPLAIN", 2, 2 },
    { WIRE_DRAIN, "DRAIN", 2, 2 },
    { WIRE_DATASET, "DATASET", 2, 2 },
    { WIRE_WORK_HELLO, "WORK_HELLO", 2, 2 },
    { WIRE_WORK_ANSWER, "WORK_ANSWER", 2, 2 },
    { WIRE_WORK_RESULT, "WORK_RESULT", 3, WIRE_FRAMES_MAX },
    { WIRE_WORK_HEARTBEAT, "WORK_HEARTBEAT", 1, 1 },
    { WIRE_WORK_GOODBYE, "WORK_GOODBYE", 1, 1 },
};

static bool
s_check_kind (uint8_t kind, size_t count, refusal_t *refusal)
{
    for (size_t index = 0; index < sizeof s_kinds / sizeof *s_kinds; index++) {
        if (s_kinds [index].kind != kind)
            continue;
        size_t min = s_kinds [index].frames_min, max = s_kinds [index].frames_max;
        if (count >= min && count <= max)
            return true;
        if (min == max)
            return refuse (refusal, "malformed", "%s has %zu frame%s, got %zu",
                s_kinds [index].name, min, min == 1? "": "s", count);
        return refuse (refusal, "malformed", "%s has %zu to %zu frames, got %zu",
            s_kinds [index].name, min, max, count);
    }
    return refuse (refusal, "unknown_kind", "no message to the server has kind %u; there are %d to %d",
        kind, WIRE_JOIN, WIRE_WORK_GOODBYE);
}

static bool
s_check_head (const wire_head_t *head, const frame_t *frame, refusal_t *refusal)
{
    //  The version first: another version may have a head of another size.
    size_t version_at = offsetof (wire_head_t, version);
    if (frame->size > version_at && frame->data [version_at] != WIRE_VERSION)
        return refuse (refusal, "version", "version %u is none of this server's: it speaks version %d",
            frame->data [version_at], WIRE_VERSION);
    if (frame->size != sizeof *head)
        return refuse (refusal, "malformed", "frame 0 (the head) has %zu bytes, got %zu",
            sizeof *head, frame->size);
    if (head->zero != 0)
        return refuse (refusal, "malformed", "bytes 6 and 7 of the head are zero, got %u", head->zero);
    return true;
}

request_status_t
request_head (const frame_t *frames, size_t count, wire_head_t *head, refusal_t *refusal)
{
    *head = (wire_head_t) { 0 };
    if (count == 0 || frames [0].size < sizeof head->magic
        || memcmp (frames [0].data, WIRE_MAGIC, sizeof head->magic) != 0)
        return REQUEST_IGNORED;
    if (frames [0].size >= sizeof *head)
        memcpy (head, frames [0].data, sizeof *head);
    if (s_check_head (head, &frames [0], refusal) && s_check_kind (head->kind, count, refusal))
        return REQUEST_OK;
    return REQUEST_REFUSED;
}

bool
request_progress (const frame_t *frame, wire_progress_t *progress, refusal_t *refusal)
{
    if (frame->size != sizeof *progress)
        return refuse (refusal, "malformed", "frame 1 of PROGRESS has %zu bytes, got %zu",
            sizeof *progress, frame->size);
    memcpy (progress, frame->data, sizeof *progress);
    return true;
}

//  --- The keys of JOIN -------------------------------------------------------------------------------------
//  Each stores its value in join, or refuses it and says what was expected.

static bool
s_take_dataset (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_text (value, 1, join->dataset)
        || request_refuse_value (refusal, key, "a printable text of 1 to 64 bytes", value);
}

static bool
s_take_name (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_text (value, 0, join->name)
        || request_refuse_value (refusal, key, "a printable text of at most 64 bytes", value);
}

static bool
s_take_batch_size (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 1, REQUEST_BATCH_MAX, "", &join->batch_size, refusal);
}

static bool
s_take_epochs (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return json_is_null (value) || request_integer (value, 1, REQUEST_EPOCHS_MAX, &join->epochs)
        || request_refuse_value (refusal, key, "null or an integer from 1 to 2^53", value);
}

static bool
s_take_drop_last (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    join->drop_last = json_is_true (value);
    return json_is_boolean (value) || request_refuse_value (refusal, key, "true or false", value);
}

static bool
s_take_on_bad (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "drop", "fail" };
    int word = request_word (value, words, 2);
    join->on_bad_given = true;
    join->bad_is_fatal = word == 1;
    return word >= 0 || request_refuse_value (refusal, key, "\"drop\" or \"fail\"", value);
}

//  The decoder judges the operations.
static bool
s_take_pipeline (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    if (!json_is_array (value) && !json_is_string (value))
        return request_refuse_value (refusal, key, "a list of operations or the name of a recipe", value);
    json_decref (join->pipeline);
    join->pipeline = json_incref ((json_t *) value);
    return true;
}

static bool
s_take_order (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "shared", "private", "list", "seeded" };
    static const request_order_t orders [] = { REQUEST_SHARED, REQUEST_PRIVATE, REQUEST_LIST,
        REQUEST_SEEDED };
    int word = request_word (value, words, 4);
    if (word < 0)
        return request_refuse_value (refusal, key, "\"shared\", \"private\", \"list\" or \"seeded\"", value);
    join->order = orders [word];
    return join->order_given = true;
}

static bool
s_take_slots (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, WIRE_SLOTS_MIN, WIRE_SLOTS_MAX, "", &join->slots, refusal);
}

static bool
s_take_transport (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "auto", "inline" };
    int word = request_word (value, words, 2);
    join->inline_only = word == 1;
    return word >= 0 || request_refuse_value (refusal, key, "\"auto\" or \"inline\"", value);
}

static bool
s_take_seed (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    join->seed_given = request_count (value, UINT64_MAX, &join->seed);
    return join->seed_given
        || request_refuse_value (refusal, key, "a string of decimal digits, below 2^64", value);
}

//  s_check_pool checks the rest.
static bool
s_take_pool (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, WIRE_POOL_MIN, WIRE_POOL_MAX, ", in samples", &join->pool,
        refusal);
}

//  Notes that a frame of a kind is at a place of the list; false: frames of another kind separate it from
//  earlier ones.
static bool
s_note_frame (size_t place, size_t *first_p, size_t *frames_p)
{
    enum { BEFORE = 2 };            //  head and JSON
    if (*frames_p == 0)
        *first_p = place + BEFORE;
    return (*frames_p)++ + *first_p == place + BEFORE;
}

//  Checks the list by itself; s_check_frames compares it with the other keys and the message.
static bool
s_take_frames (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "subset", "list", "taken", "recent", "cut" };
    enum { SUBSET, LIST, TAKEN, RECENT, CUT, WORDS };
    static const char *const kinds = "\"subset\", \"list\", \"taken\", \"cut\" or \"recent\"";
    if (!json_is_array (value))
        return request_refuse_value (refusal, key,
            "a list of \"subset\", \"list\", \"taken\", \"cut\" or \"recent\"", value);
    size_t index, subset_frames = 0;
    json_t *entry;
    json_array_foreach (value, index, entry) {
        int word = request_word (entry, words, WORDS);
        char place [48];
        snprintf (place, sizeof place, "%s [%zu]", key, index);
        if (word < 0)
            return request_refuse_value (refusal, place, kinds, entry);
        if (word == SUBSET && subset_frames > 0)
            return refuse (refusal, "bad_request", "%s: \"subset\" stands there once at most", place);
        bool follows = word == SUBSET? s_note_frame (index, &join->subset_first, &subset_frames)
            : word == LIST? s_note_frame (index, &join->list_first, &join->list_frames)
            : word == TAKEN? s_note_frame (index, &join->taken_first, &join->taken_frames)
            : word == CUT? s_note_frame (index, &join->cut_first, &join->cut_frames)
            : s_note_frame (index, &join->recent_first, &join->recent_frames);
        if (!follows)
            return refuse (refusal, "bad_request", "%s: \"%s\" must follow the \"%s\" before it", place,
                words [word], words [word]);
    }
    join->subset_given = subset_frames > 0;
    return true;
}

typedef bool (take_fn) (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);

static const struct {
    const char *name;
    take_fn *take;
} s_keys [] = {
    { "dataset", s_take_dataset }, { "batch_size", s_take_batch_size }, { "epochs", s_take_epochs },
    { "drop_last", s_take_drop_last }, { "pipeline", s_take_pipeline }, { "order", s_take_order },
    { "slots", s_take_slots }, { "transport", s_take_transport }, { "seed", s_take_seed },
    { "pool", s_take_pool }, { "name", s_take_name }, { "job", request_take_job },
    { "instance", request_take_instance }, { "run", request_take_run }, { "resume", request_take_resume },
    { "world_size", request_take_world_size }, { "rank", request_take_rank },
    { "gather", request_take_gather },
    { "rank_wait", request_take_rank_wait }, { "nodes", request_take_nodes }, { "node", request_take_node },
    { "parts", request_take_parts }, { "on_bad", s_take_on_bad }, { "frames", s_take_frames },
};
#define KNOWN_KEYS "dataset, batch_size, epochs, drop_last, pipeline, order, slots, transport, seed, pool, " \
    "name, " \
    "job, instance, run, resume, world_size, rank, gather, rank_wait, nodes, node, parts, on_bad, frames"

static bool
s_take (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    for (size_t index = 0; index < sizeof s_keys / sizeof *s_keys; index++)
        if (strcmp (s_keys [index].name, key) == 0)
            return s_keys [index].take (key, value, join, refusal);
    return request_refuse_key (refusal, key, KNOWN_KEYS);
}

//  "pool" beside "order".
static bool
s_check_pool (const request_join_t *join, refusal_t *refusal)
{
    return join->pool == 0 || join->order == REQUEST_SEEDED
        || refuse (refusal, "bad_request",
        "pool: only order \"seeded\" takes it; leave pool out, or join with "
            "order \"seeded\"");
}

//  "frames" beside "order" and beside the frames that arrived.
static bool
s_check_frames (const request_join_t *join, size_t count, refusal_t *refusal)
{
    if (join->list_frames && join->order != REQUEST_LIST)
        return refuse (refusal, "bad_request", "frames: \"list\" needs order \"list\"");
    if (join->list_frames && join->subset_given)
        return refuse (refusal, "bad_request", "frames: \"list\" and \"subset\" exclude each other");
    size_t listed = join->list_frames + join->subset_given + join->taken_frames + join->recent_frames
        + join->cut_frames;
    if (count != 2 + listed)
        return refuse (refusal, "malformed", "frames names %zu, so JOIN has %zu frames; got %zu",
            listed, 2 + listed, count);
    return true;
}

static bool
s_read_join (json_t *object, size_t count, request_join_t *join, refusal_t *refusal)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (!s_take (key, value, join, refusal))
            return false;
    //  A user that gives a seed wants to repeat the whole run, not only its augmentation.
    if (!join->order_given && join->seed_given)
        join->order = REQUEST_SEEDED;
    if (!*join->dataset)
        return refuse (refusal, "bad_request", "dataset is missing: the name of a data set");
    if (!join->batch_size)
        return refuse (refusal, "bad_request", "batch_size is missing: an integer from 1 to 65536");
    return s_check_pool (join, refusal) && s_check_frames (join, count, refusal)
        && request_check_resume (join, refusal)
        && request_check_ranks (join, refusal) && request_check_parts (join, refusal);
}

//  An empty object, reserved for later keys.
static bool
s_check_empty (const frame_t *frame, const char *name, refusal_t *refusal)
{
    json_t *object = request_object (frame, refusal);
    if (!object)
        return false;
    bool empty = json_object_size (object) == 0;
    json_decref (object);
    return empty || refuse (refusal, "bad_request", "%s takes an empty object", name);
}

bool
request_status (const frame_t *frame, refusal_t *refusal)
{
    return s_check_empty (frame, "STATUS", refusal);
}

bool
request_drain (const frame_t *frame, refusal_t *refusal)
{
    return s_check_empty (frame, "DRAIN", refusal);
}

bool
request_join (const frame_t *frames, size_t count, request_join_t *join, refusal_t *refusal)
{
    *join = (request_join_t) { .order = REQUEST_SHARED, .slots = 4, .world_size = 1, .nodes = 1,
        .gather_seconds = REQUEST_GATHER_SECONDS, .rank_wait_seconds = REQUEST_RANK_WAIT_SECONDS };
    if (count < 2)
        return refuse (refusal, "malformed", "JOIN has 2 to %d frames, got %zu", WIRE_FRAMES_MAX, count);
    json_t *object = request_object (&frames [1], refusal);
    bool good = object && s_read_join (object, count, join, refusal);
    json_decref (object);
    if (good && !join->pipeline) {
        join->pipeline = json_string (join->order == REQUEST_LIST? "eval": "train");
        assert (join->pipeline);
    }
    if (!good)
        request_join_clear (join);
    return good;
}

void
request_join_clear (request_join_t *join)
{
    json_decref (join->pipeline);
    join->pipeline = NULL;
}

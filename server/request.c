#include "request.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "utf8.h"

enum {
    JSON_BYTES_MAX = 64 * 1024,
    JSON_LEVELS_MAX = 16,
    SHOWN_BYTES = 80                //  of a foreign value in a message
};
#define EPOCHS_MAX (UINT64_C (1) << 53)

_Static_assert ((int) REQUEST_NAME_BYTES_MAX < (int) SHOWN_BYTES, "a whole name fits a message");

bool
refuse (refusal_t *refusal, const char *code, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    refusal->code = code;
    int length = vsnprintf (refusal->message, sizeof refusal->message, format, arguments);
    va_end (arguments);
    if (length >= (int) sizeof refusal->message) {
        //  Show that it is cut, and do not cut a character in two.
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
        kind, WIRE_JOIN, WIRE_HEARTBEAT);
}

static bool
s_check_head (const wire_head_t *head, const frame_t *frame, refusal_t *refusal)
{
    //  The version first: another one may well have a head of another size.
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

//  --- JSON -------------------------------------------------------------------------------------------------

//  Deepest nesting of brackets outside strings.  Up to the place of the first error, which a parser never
//  passes, this is how deep the parser recurses; so whatever follows is safe to parse.
static size_t
s_levels (const uint8_t *text, size_t size)
{
    size_t level = 0, deepest = 0;
    bool quoted = false;
    for (size_t index = 0; index < size; index++) {
        uint8_t byte = text [index];
        if (quoted && byte == '\\')
            index++;                //  whatever it is, it does not end the string
        else if (byte == '"')
            quoted = !quoted;
        else if (!quoted && (byte == '{' || byte == '['))
            deepest = ++level > deepest? level: deepest;
        else if (!quoted && (byte == '}' || byte == ']') && level)
            level--;
    }
    return deepest;
}

//  The frame as one JSON object, the caller's; or NULL and the reason.
static json_t *
s_object (const frame_t *frame, refusal_t *refusal)
{
    if (frame->size > JSON_BYTES_MAX) {
        refuse (refusal, "malformed", "the JSON has %zu bytes, at most %d are taken",
            frame->size, JSON_BYTES_MAX);
        return NULL;
    }
    if (frame->size && memchr (frame->data, 0, frame->size)) {
        refuse (refusal, "malformed", "the JSON holds a zero byte");
        return NULL;
    }
    size_t levels = s_levels (frame->data, frame->size);
    if (levels > JSON_LEVELS_MAX) {
        refuse (refusal, "malformed", "the JSON nests %zu levels deep, at most %d are taken",
            levels, JSON_LEVELS_MAX);
        return NULL;
    }
    json_error_t error;
    json_t *object = json_loadb (frame->size? (const char *) frame->data: "", frame->size,
        JSON_REJECT_DUPLICATES, &error);
    if (!object) {
        char shown [2 * SHOWN_BYTES];
        utf8_visible (error.text, strlen (error.text), shown, sizeof shown);
        bool overflow = json_error_code (&error) == json_error_numeric_overflow;
        refuse (refusal, "malformed", "no JSON, line %d column %d: %s%s", error.line, error.column, shown,
            overflow? " (a number of 64 bits goes into a string)": "");
    }
    else if (!json_is_object (object)) {
        refuse (refusal, "malformed", "the JSON is no object");
        json_decref (object);
        object = NULL;
    }
    return object;
}

//  Refuses the value of a key, saying what was expected and what was there.  Returns false.
static bool
s_refuse_value (refusal_t *refusal, const char *key, const char *expected, const json_t *value)
{
    char shown [SHOWN_BYTES] = "something else";
    char *text = json_dumps (value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        utf8_visible (text, strlen (text), shown, sizeof shown);
    free (text);
    return refuse (refusal, "bad_request", "%s: expected %s, got %s", key, expected, shown);
}

static bool
s_integer (const json_t *value, uint64_t min, uint64_t max, uint64_t *number)
{
    if (!json_is_integer (value) || json_integer_value (value) < 0)
        return false;
    *number = (uint64_t) json_integer_value (value);
    return *number >= min && *number <= max;
}

//  A short text without control characters (the parser has seen to it that it is UTF-8 and holds no zero).
static bool
s_name (const json_t *value, size_t bytes_min, char name [REQUEST_NAME_BYTES_MAX + 1])
{
    if (!json_is_string (value))
        return false;
    size_t size = json_string_length (value);
    if (size < bytes_min || size > REQUEST_NAME_BYTES_MAX)
        return false;
    //  A control character is what does not show as itself.
    char shown [4 * REQUEST_NAME_BYTES_MAX + 8];
    utf8_visible (json_string_value (value), size, shown, sizeof shown);
    if (strcmp (shown, json_string_value (value)) != 0)
        return false;
    memcpy (name, shown, size + 1);
    return true;
}

//  Which of the words a value is, or -1.
static int
s_word (const json_t *value, const char *const *words, int count)
{
    for (int index = 0; index < count && json_is_string (value); index++)
        if (strcmp (json_string_value (value), words [index]) == 0)
            return index;
    return -1;
}

//  --- The keys of JOIN -------------------------------------------------------------------------------------
//  Each takes its value into join, or says what was expected.

static bool
s_take_dataset (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return s_name (value, 1, join->dataset)
        || s_refuse_value (refusal, key, "a printable text of 1 to 64 bytes", value);
}

static bool
s_take_name (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return s_name (value, 0, join->name)
        || s_refuse_value (refusal, key, "a printable text of at most 64 bytes", value);
}

static bool
s_take_batch_size (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    uint64_t number;
    if (!s_integer (value, 1, REQUEST_BATCH_MAX, &number))
        return s_refuse_value (refusal, key, "an integer from 1 to 65536", value);
    join->batch_size = (uint32_t) number;
    return true;
}

static bool
s_take_epochs (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return json_is_null (value) || s_integer (value, 1, EPOCHS_MAX, &join->epochs)
        || s_refuse_value (refusal, key, "null or an integer from 1 to 2^53", value);
}

static bool
s_take_drop_last (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    join->drop_last = json_is_true (value);
    return json_is_boolean (value) || s_refuse_value (refusal, key, "true or false", value);
}

//  What the operations are is the decoder's to judge.
static bool
s_take_pipeline (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    if (!json_is_array (value) && !json_is_string (value))
        return s_refuse_value (refusal, key, "a list of operations or the name of a recipe", value);
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
    int word = s_word (value, words, 4);
    if (word < 0)
        return s_refuse_value (refusal, key, "\"shared\", \"private\", \"list\" or \"seeded\"", value);
    join->order = orders [word];
    return join->order_given = true;
}

static bool
s_take_slots (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    uint64_t number;
    if (!s_integer (value, WIRE_SLOTS_MIN, WIRE_SLOTS_MAX, &number))
        return s_refuse_value (refusal, key, "an integer from 3 to 64", value);
    join->slots = (uint32_t) number;
    return true;
}

static bool
s_take_transport (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "auto", "inline" };
    int word = s_word (value, words, 2);
    join->inline_only = word == 1;
    return word >= 0 || s_refuse_value (refusal, key, "\"auto\" or \"inline\"", value);
}

//  Digits only, so that no sign, blank or base slips in, and below 2^64.
static bool
s_decimal (const char *text, uint64_t *number_p)
{
    uint64_t number = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9'
            || __builtin_mul_overflow (number, 10, &number)
            || __builtin_add_overflow (number, (uint64_t) (*text - '0'), &number))
            return false;
    }
    *number_p = number;
    return true;
}

static bool
s_take_seed (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    join->seed_given = json_is_string (value)? s_decimal (json_string_value (value), &join->seed)
        : s_integer (value, 0, INT64_MAX, &join->seed);
    return join->seed_given
        || s_refuse_value (refusal, key, "a string of decimal digits, below 2^64", value);
}

//  What it needs else, s_check_pool sees.
static bool
s_take_pool (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    uint64_t number;
    if (!s_integer (value, WIRE_POOL_MIN, WIRE_POOL_MAX, &number))
        return s_refuse_value (refusal, key, "an integer from 8 to 16777216, in samples", value);
    join->pool = (uint32_t) number;
    return true;
}

//  Only what the list says by itself; s_check_frames compares it with the other keys and the message.
static bool
s_take_frames (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "subset", "list" };
    if (!json_is_array (value))
        return s_refuse_value (refusal, key, "a list of \"subset\" or \"list\"", value);
    size_t index;
    json_t *entry;
    json_array_foreach (value, index, entry) {
        int word = s_word (entry, words, 2);
        char place [48];
        snprintf (place, sizeof place, "%s [%zu]", key, index);
        if (word < 0)
            return s_refuse_value (refusal, place, "\"subset\" or \"list\"", entry);
        if (word == 0 && join->subset_given)
            return refuse (refusal, "bad_request", "%s: \"subset\" stands there once at most", place);
        join->subset_given |= word == 0;
        join->list_frames += word == 1;
    }
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
    { "pool", s_take_pool }, { "name", s_take_name }, { "frames", s_take_frames },
};
#define KNOWN_KEYS "dataset, batch_size, epochs, drop_last, pipeline, order, slots, transport, seed, pool, name, " \
    "frames"

static bool
s_take (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    for (size_t index = 0; index < sizeof s_keys / sizeof *s_keys; index++)
        if (strcmp (s_keys [index].name, key) == 0)
            return s_keys [index].take (key, value, join, refusal);
    char shown [SHOWN_BYTES];
    utf8_visible (key, strlen (key), shown, sizeof shown);
    return refuse (refusal, "bad_request", "unknown key '%s'; there are " KNOWN_KEYS, shown);
}

//  "pool" beside "order".
static bool
s_check_pool (const request_join_t *join, refusal_t *refusal)
{
    return join->pool == 0 || join->order == REQUEST_SEEDED
        || refuse (refusal, "bad_request", "pool: only order \"seeded\" takes it; leave pool out, or join with "
            "order \"seeded\"");
}

//  "frames" beside "order" and beside the frames that came.
static bool
s_check_frames (const request_join_t *join, size_t count, refusal_t *refusal)
{
    if (join->list_frames && join->order != REQUEST_LIST)
        return refuse (refusal, "bad_request", "frames: \"list\" needs order \"list\"");
    if (join->list_frames && join->subset_given)
        return refuse (refusal, "bad_request", "frames: \"list\" and \"subset\" exclude each other");
    size_t listed = join->list_frames + join->subset_given;
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
    //  Who gives a seed wants to have the run again, not only its augmentation.
    if (!join->order_given && join->seed_given)
        join->order = REQUEST_SEEDED;
    if (!*join->dataset)
        return refuse (refusal, "bad_request", "dataset is missing: the name of a data set");
    if (!join->batch_size)
        return refuse (refusal, "bad_request", "batch_size is missing: an integer from 1 to 65536");
    return s_check_pool (join, refusal) && s_check_frames (join, count, refusal);
}

bool
request_status (const frame_t *frame, refusal_t *refusal)
{
    json_t *object = s_object (frame, refusal);
    if (!object)
        return false;
    bool empty = json_object_size (object) == 0;
    json_decref (object);
    return empty || refuse (refusal, "bad_request", "STATUS takes an empty object");
}

bool
request_join (const frame_t *frames, size_t count, request_join_t *join, refusal_t *refusal)
{
    *join = (request_join_t) { .order = REQUEST_SHARED, .slots = 4 };
    if (count < 2)
        return refuse (refusal, "malformed", "JOIN has 2 to %d frames, got %zu", WIRE_FRAMES_MAX, count);
    json_t *object = s_object (&frames [1], refusal);
    bool good = object && s_read_join (object, count, join, refusal);
    json_decref (object);
    if (good && !join->pipeline) {
        join->pipeline = json_string ("train");
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

#include "request.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

//  --- Single values ----------------------------------------------------------------------------------------

enum {
    JSON_BYTES_MAX = 64 * 1024,
    JSON_LEVELS_MAX = 16,
    SHOWN_BYTES = 80                //  of a foreign value in a message
};
#define EPOCHS_MAX (UINT64_C (1) << 53)

_Static_assert ((int) REQUEST_NAME_BYTES_MAX < (int) SHOWN_BYTES, "a whole name fits a message");

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
            index++;                //  an escaped character does not end the string
        else if (byte == '"')
            quoted = !quoted;
        else if (!quoted && (byte == '{' || byte == '['))
            deepest = ++level > deepest? level: deepest;
        else if (!quoted && (byte == '}' || byte == ']') && level)
            level--;
    }
    return deepest;
}

json_t *
request_object (const frame_t *frame, refusal_t *refusal)
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

//  Refuses the value of a key, and says what was expected and what was found.  Returns false.
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

//  Refuses a key that is none of the known ones.  Returns false.
static bool
s_refuse_key (refusal_t *refusal, const char *key, const char *known)
{
    char shown [SHOWN_BYTES];
    utf8_visible (key, strlen (key), shown, sizeof shown);
    return refuse (refusal, "bad_request", "unknown key '%s'; there are %s", shown, known);
}

//  The value; false: it is of another type.
static bool
s_integer (const json_t *value, uint64_t min, uint64_t max, uint64_t *number)
{
    if (!json_is_integer (value) || json_integer_value (value) < 0)
        return false;
    *number = (uint64_t) json_integer_value (value);
    return *number >= min && *number <= max;
}

bool
request_take_integer (const char *key, const json_t *value, uint32_t min, uint32_t max, const char *unit,
    uint32_t *number_p, refusal_t *refusal)
{
    uint64_t number;
    if (!s_integer (value, min, max, &number)) {
        char expected [80];
        snprintf (expected, sizeof expected, "an integer from %" PRIu32 " to %" PRIu32 "%s", min, max, unit);
        return s_refuse_value (refusal, key, expected, value);
    }
    *number_p = (uint32_t) number;
    return true;
}

//  A short text without control characters (the parser has checked that it is UTF-8 without a zero).
static bool
s_text (const json_t *value, size_t bytes_min, char name [REQUEST_NAME_BYTES_MAX + 1])
{
    if (!json_is_string (value))
        return false;
    size_t size = json_string_length (value);
    if (size < bytes_min || size > REQUEST_NAME_BYTES_MAX)
        return false;
    //  A control character does not show as itself.
    char shown [4 * REQUEST_NAME_BYTES_MAX + 8];
    utf8_visible (json_string_value (value), size, shown, sizeof shown);
    if (strcmp (shown, json_string_value (value)) != 0)
        return false;
    memcpy (name, shown, size + 1);
    return true;
}

static bool
s_take_text (const char *key, const json_t *value, char text [REQUEST_NAME_BYTES_MAX + 1], refusal_t *refusal)
{
    return s_text (value, 1, text)
        || s_refuse_value (refusal, key, "a printable text of 1 to 64 bytes", value);
}

//  The index of the word, or -1.
static int
s_word (const json_t *value, const char *const *words, int count)
{
    for (int index = 0; index < count && json_is_string (value); index++)
        if (strcmp (json_string_value (value), words [index]) == 0)
            return index;
    return -1;
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

bool
request_count (const json_t *value, uint64_t max, uint64_t *number_p)
{
    return json_is_string (value)? s_decimal (json_string_value (value), number_p) && *number_p <= max
        : s_integer (value, 0, max < INT64_MAX? max: INT64_MAX, number_p);
}

bool
request_hexadecimal (const json_t *value, size_t digits, char *text)
{
    static const char allowed [] = "0123456789abcdef";
    if (!json_is_string (value) || json_string_length (value) != digits
    ||  strspn (json_string_value (value), allowed) != digits)
        return false;
    memcpy (text, json_string_value (value), digits + 1);
    return true;
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
    { WIRE_ADD, "ADD", 2, 2 },
    { WIRE_REMOVE, "REMOVE", 2, 2 },
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
        kind, WIRE_JOIN, WIRE_REMOVE);
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
    return s_take_text (key, value, join->dataset, refusal);
}

//  A path may have any characters.
static bool
s_is_path (const char *key, const json_t *value, refusal_t *refusal)
{
    return (json_is_string (value) && json_string_length (value) >= 1
        && json_string_length (value) <= REQUEST_PATH_BYTES_MAX)
        || s_refuse_value (refusal, key, "a text of 1 to 8192 bytes, as STATUS says it", value);
}

static bool
s_take_path (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    if (!s_is_path (key, value, refusal))
        return false;
    join->path = json_string (json_string_value (value));
    return join->path || refuse (refusal, "budget", "no memory for the request");
}

static bool
s_take_name (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return s_text (value, 0, join->name)
        || s_refuse_value (refusal, key, "a printable text of at most 64 bytes", value);
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

static bool
s_take_on_bad (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "drop", "fail" };
    int word = s_word (value, words, 2);
    join->on_bad_given = true;
    join->bad_is_fatal = word == 1;
    return word >= 0 || s_refuse_value (refusal, key, "\"drop\" or \"fail\"", value);
}

//  The decoder judges the operations.
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
s_take_transport (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "auto", "inline" };
    int word = s_word (value, words, 2);
    join->inline_only = word == 1;
    return word >= 0 || s_refuse_value (refusal, key, "\"auto\" or \"inline\"", value);
}

static bool
s_take_seed (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    join->seed_given = request_count (value, UINT64_MAX, &join->seed);
    return join->seed_given
        || s_refuse_value (refusal, key, "a string of decimal digits, below 2^64", value);
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
        return s_refuse_value (refusal, key,
            "a list of \"subset\", \"list\", \"taken\", \"cut\" or \"recent\"", value);
    size_t index, subset_frames = 0;
    json_t *entry;
    json_array_foreach (value, index, entry) {
        int word = s_word (entry, words, WORDS);
        char place [48];
        snprintf (place, sizeof place, "%s [%zu]", key, index);
        if (word < 0)
            return s_refuse_value (refusal, place, kinds, entry);
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

//  --- A job over several nodes -----------------------------------------------------------------------------
//  docs/protocol.md: Nodes.

static bool
s_take_parts (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "fresh", "fixed" };
    int word = s_word (value, words, 2);
    join->parts_fixed = word == 1;
    return word >= 0 || s_refuse_value (refusal, key, "\"fresh\" or \"fixed\"", value);
}

//  "cut" of resume.
static bool
s_take_cut (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal)
{
    if (!json_is_object (value))
        return s_refuse_value (refusal, key, "an object: batches, places", value);
    const char *inner;
    json_t *entry;
    json_object_foreach ((json_t *) value, inner, entry) {
        char place [SHOWN_BYTES + 24], shown [SHOWN_BYTES];
        utf8_visible (inner, strlen (inner), shown, sizeof shown);
        snprintf (place, sizeof place, "resume.cut.%s", shown);
        uint64_t *number_p = strcmp (inner, "batches") == 0? &resume->cut_batches
            : strcmp (inner, "places") == 0? &resume->cut_places: NULL;
        if (!number_p)
            return refuse (refusal, "bad_request", "resume.cut: unknown key '%s'; there are batches, places",
                shown);
        if (!request_count (entry, EPOCHS_MAX, number_p))
            return s_refuse_value (refusal, place, "a string of decimal digits, at most 2^53", entry);
    }
    return true;
}

static bool
s_check_cut (const request_join_t *join, refusal_t *refusal)
{
    const request_resume_t *resume = &join->resume;
    bool has_cut = join->cut_frames || resume->cut_batches || resume->cut_places;
    if (has_cut && join->nodes == 1)
        return refuse (refusal, "bad_request",
            "resume.cut and frames \"cut\" are of a job over several nodes: give nodes and node");
    if (join->cut_frames && !resume->given)
        return refuse (refusal, "bad_request", "frames: \"cut\" needs resume");
    if (join->cut_frames && join->list_frames)
        return refuse (refusal, "bad_request",
            "frames: of a job that gives a list, resume.cut.places says where the epoch was cut; leave "
            "\"cut\" out");
    if (resume->cut_places > 0 && !join->list_frames)
        return refuse (refusal, "bad_request",
            "resume.cut.places: only of a job that gives a list; frames \"cut\" say what was taken before");
    return (resume->cut_batches <= resume->batches && resume->cut_places <= resume->places)
        || refuse (refusal, "bad_state",
            "resume.cut is behind resume: the parts of an epoch are made before their batches");
}

static bool
s_check_parts (const request_join_t *join, refusal_t *refusal)
{
    if (join->node >= join->nodes)
        return refuse (refusal, "bad_request", "node: %" PRIu32 " of nodes %" PRIu32 ": nodes are counted "
            "from 0%s", join->node, join->nodes, join->nodes == 1?
            "; say in nodes how many take the job together": "");
    if (join->parts_fixed && join->nodes == 1)
        return refuse (refusal, "bad_request",
            "parts: of a job over several nodes: give nodes and node");
    return s_check_cut (join, refusal);
}

//  --- Position and identity --------------------------------------------------------------------------------
//  docs/protocol.md: Resuming, Identity.

//  A number that fits the epoch, batches or places of a job.
static bool
s_take_number (const char *key, const json_t *value, uint64_t *number_p, refusal_t *refusal)
{
    return request_count (value, EPOCHS_MAX, number_p)
        || s_refuse_value (refusal, key, "a string of decimal digits, at most 2^53", value);
}

static bool
s_take_resume_key (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal)
{
    char place [SHOWN_BYTES + 16], shown [SHOWN_BYTES];
    utf8_visible (key, strlen (key), shown, sizeof shown);
    snprintf (place, sizeof place, "resume.%s", shown);
    if (strcmp (key, "fingerprint") == 0)
        return s_text (value, 1, resume->fingerprint) || s_refuse_value (refusal, place,
            "the fingerprint that JOINED told, a printable text of 1 to 64 bytes", value);
    if (strcmp (key, "data") == 0)
        return request_hexadecimal (value, WIRE_DATA_BYTES, resume->data) || s_refuse_value (refusal, place,
            "what JOINED told, 16 lower-case hexadecimal digits", value);
    if (strcmp (key, "epoch") == 0)
        return s_take_number (place, value, &resume->epoch, refusal);
    if (strcmp (key, "batches") == 0)
        return s_take_number (place, value, &resume->batches, refusal);
    if (strcmp (key, "places") == 0)
        return s_take_number (place, value, &resume->places, refusal);
    if (strcmp (key, "cut") == 0)
        return s_take_cut (place, value, resume, refusal);
    return refuse (refusal, "bad_request",
        "resume: unknown key '%s'; there are fingerprint, data, epoch, batches, places, cut", shown);
}

static bool
s_take_resume (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    if (!json_is_object (value))
        return s_refuse_value (refusal, key,
            "an object: fingerprint, data, epoch, batches, places, cut", value);
    request_resume_t *resume = &join->resume;
    const char *inner;
    json_t *entry;
    json_object_foreach ((json_t *) value, inner, entry)
        if (!s_take_resume_key (inner, entry, resume, refusal))
            return false;
    if (!*resume->fingerprint)
        return refuse (refusal, "bad_request",
            "resume.fingerprint is missing: what JOINED told the job that is gone on with");
    if (!*resume->data)
        return refuse (refusal, "bad_request",
            "resume.data is missing: what JOINED told the job that is gone on with");
    if (!json_object_get (value, "epoch"))
        return refuse (refusal, "bad_request",
            "resume.epoch is missing: the first epoch that has not been consumed whole");
    return resume->given = true;
}

static bool
s_take_job (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return s_take_text (key, value, join->job, refusal);
}

static bool
s_take_run (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_hexadecimal (value, WIRE_RUN_BYTES, join->run)
        || s_refuse_value (refusal, key, "what JOINED told, 32 lower-case hexadecimal digits", value);
}

static bool
s_take_instance (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_hexadecimal (value, WIRE_RUN_BYTES, join->instance)
        || s_refuse_value (refusal, key, "32 lower-case hexadecimal digits, drawn at random", value);
}

//  Checks these keys against each other and the other keys.
static bool
s_check_resume (const request_join_t *join, refusal_t *refusal)
{
    if (join->taken_frames && !join->resume.given)
        return refuse (refusal, "bad_request", "frames: \"taken\" needs resume");
    if (join->taken_frames && join->list_frames)
        return refuse (refusal, "bad_request",
            "frames: of a job that gives a list, resume.places says what was taken; leave "
            "\"taken\" out");
    if (join->resume.places > 0 && !join->list_frames)
        return refuse (refusal, "bad_request",
            "resume.places: only of a job that gives a list; frames \"taken\" say which "
            "samples were taken");
    return true;
}

//  --- Processes that take one job together -----------------------------------------------------------------
//  docs/protocol.md: Ranks.

//  Checks these keys against each other and the other keys.
static bool
s_check_ranks (const request_join_t *join, refusal_t *refusal)
{
    uint32_t world_size = join->world_size;
    if (join->rank >= world_size)
        return refuse (refusal, "bad_request",
            "rank: %" PRIu32 " of world_size %" PRIu32 ": ranks are counted from 0%s",
            join->rank, world_size, world_size == 1?
            "; say in world_size how many processes take the job together": "");
    if (world_size > 1 && !*join->job)
        return refuse (refusal, "bad_request",
            "world_size: ranks find each other by their job's name: give `job`");
    uint64_t window = (uint64_t) join->batch_size * join->slots * world_size;
    if (world_size > 1 && window > REQUEST_WINDOW_MAX)
        return refuse (refusal, "bad_request",
            "batch_size x slots x world_size is %" PRIu64 " samples; at most %d: take smaller "
            "batches or fewer slots", window, REQUEST_WINDOW_MAX);
    if (join->recent_frames && world_size == 1)
        return refuse (refusal, "bad_request", "frames: \"recent\" needs ranks: a world_size above 1");
    return !join->recent_frames || join->resume.given
        || refuse (refusal, "bad_request", "frames: \"recent\" needs resume");
}

//  --- JOIN -------------------------------------------------------------------------------------------------

typedef bool (take_fn) (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal);

#define WHOLE(member, least, most, unit) NULL, offsetof (request_join_t, member), least, most, unit
static const struct {
    const char *name;
    take_fn *take;              //  NULL: a whole number goes to this member:
    size_t member;
    uint32_t least, most;
    const char *unit;
} s_keys [] = {
    { "dataset", .take = s_take_dataset }, { "path", .take = s_take_path },
    { "batch_size", WHOLE (batch_size, 1, REQUEST_BATCH_MAX, "") }, { "epochs", .take = s_take_epochs },
    { "drop_last", .take = s_take_drop_last }, { "pipeline", .take = s_take_pipeline },
    { "order", .take = s_take_order }, { "slots", WHOLE (slots, WIRE_SLOTS_MIN, WIRE_SLOTS_MAX, "") },
    { "transport", .take = s_take_transport }, { "seed", .take = s_take_seed },
    { "pool", WHOLE (pool, WIRE_POOL_MIN, WIRE_POOL_MAX, ", in samples") }, { "name", .take = s_take_name },
    { "job", .take = s_take_job }, { "instance", .take = s_take_instance }, { "run", .take = s_take_run },
    { "resume", .take = s_take_resume }, { "world_size", WHOLE (world_size, 1, WIRE_RANKS_MAX, "") },
    { "rank", WHOLE (rank, 0, WIRE_RANKS_MAX - 1, "") },
    { "gather", WHOLE (gather_seconds, 1, WIRE_RANK_SECONDS_MAX, ", in seconds") },
    { "rank_wait", WHOLE (rank_wait_seconds, 0, WIRE_RANK_SECONDS_MAX, ", in seconds") },
    { "nodes", WHOLE (nodes, 1, WIRE_NODES_MAX, "") }, { "node", WHOLE (node, 0, WIRE_NODES_MAX - 1, "") },
    { "parts", .take = s_take_parts }, { "on_bad", .take = s_take_on_bad },
    { "frames", .take = s_take_frames }
};
#define KNOWN_KEYS "dataset, path, batch_size, epochs, drop_last, pipeline, order, slots, transport, seed, " \
    "pool, name, job, instance, run, resume, world_size, rank, gather, rank_wait, nodes, node, parts, " \
    "on_bad, frames"

static bool
s_take_join_key (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    for (size_t index = 0; index < sizeof s_keys / sizeof *s_keys; index++)
        if (strcmp (s_keys [index].name, key) == 0)
            return s_keys [index].take? s_keys [index].take (key, value, join, refusal)
                : request_take_integer (key, value, s_keys [index].least, s_keys [index].most,
                s_keys [index].unit, (uint32_t *) (void *) ((char *) join + s_keys [index].member), refusal);
    return s_refuse_key (refusal, key, KNOWN_KEYS);
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
        if (!s_take_join_key (key, value, join, refusal))
            return false;
    //  A user that gives a seed wants to repeat the whole run, not only its augmentation.
    if (!join->order_given && join->seed_given)
        join->order = REQUEST_SEEDED;
    if (!*join->dataset)
        return refuse (refusal, "bad_request", "dataset is missing: the name of a data set");
    if (!join->batch_size)
        return refuse (refusal, "bad_request", "batch_size is missing: an integer from 1 to 65536");
    return s_check_pool (join, refusal) && s_check_frames (join, count, refusal)
        && s_check_resume (join, refusal)
        && s_check_ranks (join, refusal) && s_check_parts (join, refusal);
}

//  An empty object, reserved for later keys.
bool
request_status (const frame_t *frame, refusal_t *refusal)
{
    json_t *object = request_object (frame, refusal);
    if (!object)
        return false;
    bool empty = json_object_size (object) == 0;
    json_decref (object);
    return empty || refuse (refusal, "bad_request", "STATUS takes an empty object");
}

bool
request_drain (const frame_t *frame, bool *now, refusal_t *refusal)
{
    json_t *object = request_object (frame, refusal);
    if (!object)
        return false;
    const json_t *value = json_object_get (object, "now");
    *now = json_is_true (value);
    bool good = json_object_size (object) == (value? 1: 0) && (!value || json_is_boolean (value));
    json_decref (object);
    return good || refuse (refusal, "bad_request", "DRAIN takes an empty object, or {\"now\": true}");
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
    json_decref (join->path);
    join->pipeline = join->path = NULL;
}

//  --- What ranks received last -----------------------------------------------------------------------------

enum { RECORD_NUMBERS = 4 };            //  at the beginning of each record

//  The records of a message, while they are read.
typedef struct {
    const request_join_t *join;
    uint32_t sample_count;
    const uint64_t *numbers;            //  of all frames
    size_t count, at;                   //  of numbers; those before `at` are read
    broker_position_t position;         //  the end of the previous record
    size_t ids;                         //  of the previous records
} recent_t;

//  The frames' numbers, joined, up to the limit.  NULL and the reason.
static uint64_t *
s_join_frames (const frame_t *frames, size_t count, uint32_t world_size, size_t *numbers_p,
    refusal_t *refusal)
{
    size_t most = WIRE_RECENT_RECORDS_MAX * (RECORD_NUMBERS + (size_t) world_size) + WIRE_RECENT_IDS_MAX,
        total = 0;
    char what [48];
    for (size_t index = 0; index < count; index++) {
        snprintf (what, sizeof what, "recent frame %zu", index);
        if (!request_ids_check (&frames [index], what, refusal))
            return NULL;
        if (frames [index].data [0] != WIRE_IDS_RECENT) {
            refuse (refusal, "bad_request", "%s: expected form %d (recent), got %u", what, WIRE_IDS_RECENT,
                frames [index].data [0]);
            return NULL;
        }
        total += request_ids_count (&frames [index]);
    }
    if (total == 0 || total > most) {
        refuse (refusal, "malformed", "recent: expected records of at most %zu numbers in all, got %zu", most,
            total);
        return NULL;
    }
    uint64_t *numbers = malloc (total * sizeof *numbers);
    if (!numbers)
        refuse (refusal, "budget", "no memory to read %zu numbers of what was received last", total);
    *numbers_p = 0;
    for (size_t index = 0; numbers && index < count; index++) {
        size_t here = request_ids_count (&frames [index]);
        if (here)
            memcpy (numbers + *numbers_p, frames [index].data + REQUEST_IDS_HEAD_BYTES,
                here * sizeof *numbers);
        *numbers_p += here;
    }
    return numbers;
}

//  The counts of a step that has begun, and its ids.
static bool
s_read_step (recent_t *self, size_t index, broker_record_t *record, refusal_t *refusal)
{
    uint32_t world_size = self->join->world_size;
    size_t left = self->count - self->at;
    if (left < world_size || record->samples > left - world_size)
        return refuse (refusal, "malformed",
            "recent record %zu: a step of %" PRIu64 " ids has %" PRIu32 " counts and so many "
            "numbers; %zu are left", index, record->samples, world_size, left);
    const uint64_t *counts = self->numbers + self->at, *ids = counts + world_size;
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < world_size; sum += counts [rank++])
        if (counts [rank] > self->join->batch_size)
            return refuse (refusal, "bad_state",
                "recent record %zu: rank %" PRIu32 " has %" PRIu64 " samples, and batch_size is "
                "%" PRIu32 ": a job goes on so with the same one only", index, rank, counts [rank],
                self->join->batch_size);
    //  Over several nodes a step may be of padding alone.
    if (sum != record->samples || (sum == 0 && self->join->nodes <= 1))
        return refuse (refusal, "malformed",
            "recent record %zu: a step of %" PRIu64 " ids, and its ranks have %" PRIu64, index,
            record->samples, sum);
    for (size_t place = 0; place < record->samples; place++)
        if (ids [place] >= self->sample_count)
            return refuse (refusal, "bad_state",
                "recent record %zu: id %zu is sample %" PRIu64 ", the data set has %" PRIu32
                " samples", index, place, ids [place], self->sample_count);
    record->step = counts;
    self->at += world_size + (size_t) sum;
    self->ids += (size_t) sum;
    return self->ids <= WIRE_RECENT_IDS_MAX
        || refuse (refusal, "malformed", "recent: at most %d ids are taken", WIRE_RECENT_IDS_MAX);
}

//  The next record, and where it ends.
static bool
s_read_record (recent_t *self, size_t index, broker_record_t *record, refusal_t *refusal)
{
    if (self->count - self->at < RECORD_NUMBERS)
        return refuse (refusal, "malformed", "recent record %zu: it begins with %d numbers; %zu are left",
            index, RECORD_NUMBERS, self->count - self->at);
    const uint64_t *head = self->numbers + self->at;
    self->at += RECORD_NUMBERS;
    if (head [0] != WIRE_RECENT_STEP && head [0] != WIRE_RECENT_END)
        return refuse (refusal, "malformed",
            "recent record %zu: expected kind %d (a step) or %d (an epoch's end), got %" PRIu64,
            index, WIRE_RECENT_STEP, WIRE_RECENT_END, head [0]);
    *record = (broker_record_t) { .is_end = head [0] == WIRE_RECENT_END, .epoch = head [1], .index = head [2],
        .samples = head [3] };
    if (record->epoch > EPOCHS_MAX || record->index > EPOCHS_MAX)
        return refuse (refusal, "malformed",
            "recent record %zu: expected an epoch and a number of steps of at most 2^53, got %"
            PRIu64 " and %" PRIu64, index, record->epoch, record->index);
    const broker_position_t *before = &self->position;
    if (index > 0 && (record->epoch != before->epoch || record->index != before->batches))
        return refuse (refusal, "malformed",
            "recent record %zu: it is at epoch %" PRIu64 ", step %" PRIu64 ", and the one "
            "before ended at epoch %" PRIu64 ", step %" PRIu64, index, record->epoch, record->index,
            before->epoch, before->batches);
    self->position = record->is_end? (broker_position_t) { record->epoch + 1, 0 }
        : (broker_position_t) { record->epoch, record->index + 1 };
    return record->is_end || s_read_step (self, index, record, refusal);
}

//  Reads all records; *count_p: how many.
static bool
s_read_all (recent_t *self, broker_record_t *records, size_t *count_p, refusal_t *refusal)
{
    size_t count = 0;
    while (self->at < self->count) {
        if (count == WIRE_RECENT_RECORDS_MAX)
            return refuse (refusal, "malformed", "recent: at most %d records are taken",
                WIRE_RECENT_RECORDS_MAX);
        if (!s_read_record (self, count, &records [count], refusal))
            return false;
        count++;
    }
    *count_p = count;
    const request_resume_t *resume = &self->join->resume;
    return (self->position.epoch == resume->epoch && self->position.batches == resume->batches)
        || refuse (refusal, "bad_request",
            "recent: it ends at epoch %" PRIu64 ", step %" PRIu64 ", and resume says epoch "
            "%" PRIu64 ", step %" PRIu64, self->position.epoch, self->position.batches, resume->epoch,
            resume->batches);
}

//  Copies into one block: the records, then the numbers of their steps.
static broker_record_t *
s_pack (const broker_record_t *records, size_t count, uint32_t world_size)
{
    broker_record_t *packed = malloc (request_recent_bytes (records, count, world_size));
    if (!packed)
        return NULL;
    uint64_t *numbers = (uint64_t *) (void *) (packed + count);
    for (size_t index = 0; index < count; index++) {
        packed [index] = records [index];
        if (records [index].is_end)
            continue;
        size_t here = world_size + (size_t) records [index].samples;
        memcpy (numbers, records [index].step, here * sizeof *numbers);
        packed [index].step = numbers;
        numbers += here;
    }
    return packed;
}

_Static_assert (sizeof (broker_record_t) % sizeof (uint64_t) == 0, "numbers follow the records");

size_t
request_recent_bytes (const broker_record_t *records, size_t count, uint32_t world_size)
{
    size_t bytes = count * sizeof *records;
    for (size_t index = 0; index < count; index++)
        if (!records [index].is_end)
            bytes += (world_size + (size_t) records [index].samples) * sizeof *records [index].step;
    return bytes;
}

bool
request_recent (const frame_t *frames, const request_join_t *join, uint32_t sample_count,
    broker_record_t **records_p, size_t *count_p, refusal_t *refusal)
{
    assert (join->recent_frames > 0);
    *records_p = NULL;
    *count_p = 0;
    recent_t reading = { .join = join, .sample_count = sample_count };
    uint64_t *numbers = s_join_frames (&frames [join->recent_first], join->recent_frames, join->world_size,
        &reading.count, refusal);
    if (!numbers)
        return false;
    reading.numbers = numbers;
    broker_record_t records [WIRE_RECENT_RECORDS_MAX];
    bool good = s_read_all (&reading, records, count_p, refusal);
    if (good && !(*records_p = s_pack (records, *count_p, join->world_size)))
        good = refuse (refusal, "budget", "no memory for %zu records of what was received last", *count_p);
    free (numbers);
    return good;
}

//  --- EXPLAIN ----------------------------------------------------------------------------------------------

static bool
s_take_explain_key (const char *key, const json_t *value, request_explain_t *explain, refusal_t *refusal)
{
    if (strcmp (key, "id") == 0)
        return request_count (value, UINT64_MAX, &explain->id)
            || s_refuse_value (refusal, key, "a sample's id, as a string of decimal digits", value);
    if (strcmp (key, "epoch") == 0) {
        explain->epoch_given = true;
        return request_count (value, EPOCHS_MAX, &explain->epoch)
            || s_refuse_value (refusal, key, "an epoch, from 0 to 2^53, as a string of decimal digits",
                value);
    }
    return s_refuse_key (refusal, key, "id, epoch");
}

static bool
s_read_explain (json_t *object, request_explain_t *explain, refusal_t *refusal)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (!s_take_explain_key (key, value, explain, refusal))
            return false;
    return json_object_get (object, "id") != NULL
        || refuse (refusal, "bad_request", "id: it is missing; expected a sample's id");
}

bool
request_explain (const frame_t *frame, request_explain_t *explain, refusal_t *refusal)
{
    *explain = (request_explain_t) { .id = 0 };
    json_t *object = request_object (frame, refusal);
    bool good = object && s_read_explain (object, explain, refusal);
    json_decref (object);
    return good;
}

//  --- DATASET ----------------------------------------------------------------------------------------------

static bool
s_take_table_key (const char *key, const json_t *value, request_table_t *wanted, refusal_t *refusal)
{
    static const char *const tables [] = { "classes", "names", "label" };
    if (strcmp (key, "dataset") == 0)
        return s_take_text (key, value, wanted->dataset, refusal);
    if (strcmp (key, "path") == 0) {
        bool good = s_is_path (key, value, refusal);
        if (good)
            memcpy (wanted->path, json_string_value (value), json_string_length (value) + 1);
        return good;
    }
    if (strcmp (key, "label") == 0)
        return s_take_text (key, value, wanted->label, refusal);
    if (strcmp (key, "first") == 0)
        return request_count (value, UINT64_MAX, &wanted->first)
            || s_refuse_value (refusal, key, "a row's number, as a string of decimal digits", value);
    if (strcmp (key, "table") == 0) {
        int word = s_word (value, tables, 3);
        wanted->table = (request_table_kind_t) (REQUEST_TABLE_CLASSES + word);
        return word >= 0 || s_refuse_value (refusal, key, "\"classes\", \"names\" or \"label\"", value);
    }
    return s_refuse_key (refusal, key, "dataset, path, table, label, first");
}

static bool
s_read_table (json_t *object, request_table_t *wanted, refusal_t *refusal)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (!s_take_table_key (key, value, wanted, refusal))
            return false;
    if (!*wanted->dataset)
        return refuse (refusal, "bad_request", "dataset is missing: the name of a data set");
    if ((wanted->table == REQUEST_TABLE_LABEL) != (*wanted->label != 0))
        return refuse (refusal, "bad_request", "label: the table \"label\" needs it, and no other has it");
    return wanted->table != REQUEST_TABLE_NONE || wanted->first == 0
        || refuse (refusal, "bad_request", "first: only with a table");
}

bool
request_table (const frame_t *frame, request_table_t *wanted, refusal_t *refusal)
{
    *wanted = (request_table_t) { .table = REQUEST_TABLE_NONE };
    json_t *object = request_object (frame, refusal);
    bool good = object && s_read_table (object, wanted, refusal);
    json_decref (object);
    return good;
}

//  --- ADD and REMOVE ---------------------------------------------------------------------------------------

//  The words of the array, which add->object keeps.
static bool
s_read_words (const json_t *array, request_add_t *add, refusal_t *refusal)
{
    size_t count = json_array_size (array);
    if (count == 0 || count > REQUEST_WORDS_MAX)
        return refuse (refusal, "bad_request", "arguments: expected a list of 1 to %d words, as "
            "`tureen serve` takes them, got %zu", REQUEST_WORDS_MAX, count);
    add->words = calloc (count, sizeof *add->words);
    if (!add->words)
        return refuse (refusal, "budget", "no memory for %zu words", count);
    for (; add->count < count; add->count++) {
        const json_t *word = json_array_get (array, add->count);
        if (!json_is_string (word) || json_string_length (word) > REQUEST_WORD_BYTES_MAX)
            return refuse (refusal, "bad_request", "arguments: word %zu is no text of at most %d bytes",
                add->count + 1, REQUEST_WORD_BYTES_MAX);
        add->words [add->count] = json_string_value (word);
    }
    return true;
}

bool
request_add (const frame_t *frame, request_add_t *add, refusal_t *refusal)
{
    *add = (request_add_t) { .object = request_object (frame, refusal) };
    if (!add->object)
        return false;
    const json_t *array = json_object_get (add->object, "arguments");
    bool good = (json_is_array (array) && json_object_size (add->object) == 1)
        || refuse (refusal, "bad_request", "ADD takes {\"arguments\": [WORD, ...]}");
    good = good && s_read_words (array, add, refusal);
    if (!good)
        request_add_clear (add);
    return good;
}

void
request_add_clear (request_add_t *add)
{
    json_decref (add->object);
    free (add->words);
    *add = (request_add_t) { .object = NULL };
}

static bool
s_take_remove_key (const char *key, const json_t *value, request_remove_t *wanted, refusal_t *refusal)
{
    if (strcmp (key, "dataset") == 0)
        return s_take_text (key, value, wanted->dataset, refusal);
    if (strcmp (key, "now") == 0) {
        wanted->now = json_is_true (value);
        return json_is_boolean (value) || s_refuse_value (refusal, key, "true or false", value);
    }
    return s_refuse_key (refusal, key, "dataset, now");
}

static bool
s_read_remove (json_t *object, request_remove_t *wanted, refusal_t *refusal)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (!s_take_remove_key (key, value, wanted, refusal))
            return false;
    return *wanted->dataset
        || refuse (refusal, "bad_request", "dataset is missing: the name of a data set");
}

bool
request_remove (const frame_t *frame, request_remove_t *wanted, refusal_t *refusal)
{
    *wanted = (request_remove_t) { .now = false };
    json_t *object = request_object (frame, refusal);
    bool good = object && s_read_remove (object, wanted, refusal);
    json_decref (object);
    return good;
}

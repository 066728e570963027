#include "work_message.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { DIGEST_DIGITS = 16 };

static char *
s_text (json_t *object)
{
    char *text = object? json_dumps (object, JSON_COMPACT): NULL;
    assert (text);                      //  some hundred bytes
    json_decref (object);
    return text;
}

//  A text of the sender's, cut to size, fit to be printed.
static bool
s_take_text (const json_t *value, const char *key, char *text, size_t text_bytes, refusal_t *refusal)
{
    if (!json_is_string (value))
        return refuse (refusal, "bad_request", "%s: expected a text", key);
    utf8_visible (json_string_value (value), json_string_length (value), text, text_bytes);
    return true;
}

//  ---- hello

//  Data sets beyond the bound are sent.
static bool
s_take_datasets (const json_t *list, work_hello_t *hello, refusal_t *refusal)
{
    size_t index;
    const json_t *value;
    json_array_foreach (list, index, value) {
        if (index == WIRE_WORK_DATASETS_MAX)
            break;
        if (!request_hexadecimal (value, WIRE_WORK_FINGERPRINT, hello->fingerprints [index]))
            return refuse (refusal, "bad_request", "datasets: expected fingerprints, %d hexadecimal digits",
                WIRE_WORK_FINGERPRINT);
        hello->datasets++;
    }
    return true;
}

bool
work_message_read_hello (const frame_t *frame, work_hello_t *hello, refusal_t *refusal)
{
    *hello = (work_hello_t) { .processors = 0 };
    json_t *object = request_object (frame, refusal);
    //  Further keys are a later version's.
    bool good = object
        && request_take_integer ("processors", json_object_get (object, "processors"), 1,
            WIRE_WORK_PROCESSORS_MAX, "", &hello->processors, refusal)
        && s_take_text (json_object_get (object, "name"), "name", hello->name, sizeof hello->name, refusal)
        && s_take_text (json_object_get (object, "libraries"), "libraries", hello->libraries,
            sizeof hello->libraries, refusal)
        && s_take_datasets (json_object_get (object, "datasets"), hello, refusal);
    json_decref (object);
    return good;
}

char *
work_message_write_hello (const work_hello_t *hello)
{
    char name [sizeof hello->name], libraries [sizeof hello->libraries];
    json_t *datasets = json_array ();
    for (size_t index = 0; index < hello->datasets; index++)
        json_array_append_new (datasets, json_string (hello->fingerprints [index]));
    return s_text (json_pack ("{s:o, s:I, s:s, s:s}", "datasets", datasets,
        "processors", (json_int_t) hello->processors,
        "name", utf8_visible (hello->name, strlen (hello->name), name, sizeof name),
        "libraries", utf8_visible (hello->libraries, strlen (hello->libraries), libraries,
            sizeof libraries)));
}

//  ---- challenge and answer

bool
work_message_read_challenge (const frame_t *frame, uint64_t *nonce_p, refusal_t *refusal)
{
    json_t *object = request_object (frame, refusal);
    bool good = object && (request_count (json_object_get (object, "nonce"), UINT64_MAX, nonce_p)
        || refuse (refusal, "bad_request", "nonce: expected a number, as a string of decimal digits"));
    json_decref (object);
    return good;
}

char *
work_message_write_challenge (uint64_t nonce)
{
    char digits [24];
    snprintf (digits, sizeof digits, "%" PRIu64, nonce);
    return s_text (json_pack ("{s:s}", "nonce", digits));
}

bool
work_message_read_answer (const frame_t *frame, const char *const *names, size_t count,
    uint64_t *digests, refusal_t *refusal)
{
    json_t *object = request_object (frame, refusal), *answers = json_object_get (object, "digests");
    bool good = object && (json_is_object (answers)
        || refuse (refusal, "bad_request", "digests: expected an object"));
    for (size_t index = 0; good && index < count; index++) {
        char digits [DIGEST_DIGITS + 1];
        const json_t *value = json_object_get (answers, names [index]);
        digests [index] = value && request_hexadecimal (value, DIGEST_DIGITS, digits)?
            strtoull (digits, NULL, 16): 0;
    }
    json_decref (object);
    return good;
}

char *
work_message_write_answer (const char *const *names, size_t count, const uint64_t *digests)
{
    json_t *answers = json_object ();
    for (size_t index = 0; index < count; index++) {
        char digits [DIGEST_DIGITS + 1];
        snprintf (digits, sizeof digits, "%016" PRIx64, digests [index]);
        json_object_set_new (answers, names [index], json_string (digits));
    }
    return s_text (json_pack ("{s:o}", "digests", answers));
}

bool
work_message_read_refused (const frame_t *frame, char reason [WORK_REASON_BYTES], refusal_t *refusal)
{
    json_t *object = request_object (frame, refusal);
    bool good = object && s_take_text (json_object_get (object, "reason"), "reason", reason,
        WORK_REASON_BYTES, refusal);
    json_decref (object);
    return good;
}

char *
work_message_write_refused (const char *reason)
{
    char shown [WORK_REASON_BYTES];
    return s_text (json_pack ("{s:s}", "reason", utf8_visible (reason, strlen (reason), shown,
        sizeof shown)));
}

//  ---- pipelines

bool
work_message_read_pipeline (const frame_t *frame, work_pipeline_t *pipeline, refusal_t *refusal)
{
    *pipeline = (work_pipeline_t) { .list = NULL };
    json_t *object = request_object (frame, refusal);
    uint64_t number = 0;
    json_t *list = json_object_get (object, "pipeline"), *fields = json_object_get (object, "fields");
    bool good = object
        && ((request_count (json_object_get (object, "number"), UINT32_MAX, &number)
        && request_count (json_object_get (object, "version_bytes"), UINT64_MAX, &pipeline->version_bytes)
        && json_is_array (list) && json_is_array (fields))
        || refuse (refusal, "bad_request", "a pipeline has number, version_bytes, pipeline and fields"));
    if (good) {
        pipeline->number = (uint32_t) number;
        pipeline->list = json_incref (list);
        pipeline->fields = json_incref (fields);
    }
    json_decref (object);
    return good;
}

void
work_message_clear_pipeline (work_pipeline_t *pipeline)
{
    json_decref (pipeline->list);
    json_decref (pipeline->fields);
    pipeline->list = pipeline->fields = NULL;
}

char *
work_message_write_pipeline (uint32_t number, uint64_t version_bytes, const char *shared_text, json_t *fields)
{
    char digits [24];
    snprintf (digits, sizeof digits, "%" PRIu64, version_bytes);
    json_t *list = json_loads (shared_text, 0, NULL);
    json_array_append_new (list, json_pack ("{s:b}", "share", true));
    return s_text (json_pack ("{s:I, s:s, s:o, s:o}", "number", (json_int_t) number, "version_bytes", digits,
        "pipeline", list, "fields", fields));
}

//  ---- tasks and results

bool
work_message_read_task (const frame_t *frames, size_t count, wire_work_task_t *task, refusal_t *refusal)
{
    if (count != 3 || frames [1].size != sizeof *task)
        return refuse (refusal, "malformed", "a task has a head, %zu bytes and the files", sizeof *task);
    memcpy (task, frames [1].data, sizeof *task);
    if (task->files == 0 || task->files > WIRE_WORK_FILES_MAX)
        return refuse (refusal, "malformed", "a task has 1 to %d files, got %u", WIRE_WORK_FILES_MAX,
            task->files);
    uint64_t left = frames [2].size;
    bool is_read = task->flags & WIRE_WORK_READ;
    for (size_t file = is_read? task->files: 0; file <= task->files; file++) {
        uint64_t size = file < task->files? task->sizes [file]: task->rows_bytes;
        if (size > left)
            return refuse (refusal, "malformed", "the task's files have more bytes than came");
        left -= size;
    }
    return left == 0 || refuse (refusal, "malformed", "the task's files have fewer bytes than came");
}

bool
work_message_read_result (const frame_t *frames, size_t count, wire_work_result_t *result, uint64_t *bytes_p,
    refusal_t *refusal)
{
    *bytes_p = 0;
    if (count < 3 || frames [1].size != sizeof *result)
        return refuse (refusal, "malformed", "a result has a head, %zu bytes and a version", sizeof *result);
    memcpy (result, frames [1].data, sizeof *result);
    if (result->outcome >= WIRE_WORK_OUTCOMES)
        return refuse (refusal, "malformed", "a result has no outcome %u", result->outcome);
    if (result->rows_bytes > 0 && (count < 4 || frames [count - 1].size != result->rows_bytes))
        return refuse (refusal, "malformed", "a result's rows are its last frame, of %" PRIu64 " bytes",
            result->rows_bytes);
    for (size_t index = 2; index < count - (result->rows_bytes > 0); index++)
        *bytes_p += frames [index].size;
    return true;
}

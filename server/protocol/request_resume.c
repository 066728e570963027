//  The keys of JOIN for a job's position and identity (docs/protocol.md: Resuming, Identity).

#include <string.h>
#include "request_values.h"
#include "utf8.h"

static bool
s_take_fingerprint (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal)
{
    return request_text (value, 1, resume->fingerprint)
        || request_refuse_value (refusal, key,
            "the fingerprint that JOINED told, a printable text of 1 to 64 bytes", value);
}

static bool
s_take_data (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal)
{
    return request_hexadecimal (value, WIRE_DATA_BYTES, resume->data)
        || request_refuse_value (refusal, key, "what JOINED told, 16 lower-case hexadecimal digits", value);
}

//  A number that fits the epoch, batches or places of a job.
static bool
s_take_number (const char *key, const json_t *value, uint64_t *number_p, refusal_t *refusal)
{
    return request_count (value, REQUEST_EPOCHS_MAX, number_p)
        || request_refuse_value (refusal, key, "a string of decimal digits, at most 2^53", value);
}

static bool
s_take (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal)
{
    char place [REQUEST_SHOWN_BYTES + 16], shown [REQUEST_SHOWN_BYTES];
    utf8_visible (key, strlen (key), shown, sizeof shown);
    snprintf (place, sizeof place, "resume.%s", shown);
    if (strcmp (key, "fingerprint") == 0)
        return s_take_fingerprint (place, value, resume, refusal);
    if (strcmp (key, "data") == 0)
        return s_take_data (place, value, resume, refusal);
    if (strcmp (key, "epoch") == 0)
        return s_take_number (place, value, &resume->epoch, refusal);
    if (strcmp (key, "batches") == 0)
        return s_take_number (place, value, &resume->batches, refusal);
    if (strcmp (key, "places") == 0)
        return s_take_number (place, value, &resume->places, refusal);
    if (strcmp (key, "cut") == 0)
        return request_take_cut (place, value, resume, refusal);
    return refuse (refusal, "bad_request",
        "resume: unknown key '%s'; there are fingerprint, data, epoch, batches, places, cut", shown);
}

bool
request_take_resume (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    if (!json_is_object (value))
        return request_refuse_value (refusal, key,
            "an object: fingerprint, data, epoch, batches, places, cut", value);
    request_resume_t *resume = &join->resume;
    const char *inner;
    json_t *entry;
    json_object_foreach ((json_t *) value, inner, entry)
        if (!s_take (inner, entry, resume, refusal))
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

bool
request_take_job (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_text (value, 1, join->job)
        || request_refuse_value (refusal, key, "a printable text of 1 to 64 bytes", value);
}

bool
request_take_run (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_hexadecimal (value, WIRE_RUN_BYTES, join->run)
        || request_refuse_value (refusal, key, "what JOINED told, 32 lower-case hexadecimal digits", value);
}

bool
request_take_instance (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_hexadecimal (value, WIRE_RUN_BYTES, join->instance)
        || request_refuse_value (refusal, key, "32 lower-case hexadecimal digits, drawn at random", value);
}

bool
request_check_resume (const request_join_t *join, refusal_t *refusal)
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

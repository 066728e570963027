#include "request_explain.h"
#include <string.h>
#include "request_values.h"

static bool
s_take (const char *key, const json_t *value, request_explain_t *explain, refusal_t *refusal)
{
    if (strcmp (key, "id") == 0)
        return request_count (value, UINT64_MAX, &explain->id)
            || request_refuse_value (refusal, key, "a sample's id, as a string of decimal digits", value);
    if (strcmp (key, "epoch") == 0) {
        explain->epoch_given = true;
        return request_count (value, REQUEST_EPOCHS_MAX, &explain->epoch)
            || request_refuse_value (refusal, key, "an epoch, from 0 to 2^53, as a string of decimal digits",
                value);
    }
    return request_refuse_key (refusal, key, "id, epoch");
}

static bool
s_read (json_t *object, request_explain_t *explain, refusal_t *refusal)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (!s_take (key, value, explain, refusal))
            return false;
    return json_object_get (object, "id") != NULL
        || refuse (refusal, "bad_request", "id: it is missing; expected a sample's id");
}

bool
request_explain (const frame_t *frame, request_explain_t *explain, refusal_t *refusal)
{
    *explain = (request_explain_t) { .id = 0 };
    json_t *object = request_object (frame, refusal);
    bool good = object && s_read (object, explain, refusal);
    json_decref (object);
    return good;
}

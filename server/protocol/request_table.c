#include "request_table.h"
#include <string.h>
#include "request_values.h"

static bool
s_take (const char *key, const json_t *value, request_table_t *wanted, refusal_t *refusal)
{
    static const char *const tables [] = { "classes", "names", "label" };
    if (strcmp (key, "dataset") == 0)
        return request_text (value, 1, wanted->dataset)
            || request_refuse_value (refusal, key, "a printable text of 1 to 64 bytes", value);
    if (strcmp (key, "label") == 0)
        return request_text (value, 1, wanted->label)
            || request_refuse_value (refusal, key, "a printable text of 1 to 64 bytes", value);
    if (strcmp (key, "first") == 0)
        return request_count (value, UINT64_MAX, &wanted->first)
            || request_refuse_value (refusal, key, "a row's number, as a string of decimal digits", value);
    if (strcmp (key, "table") == 0) {
        int word = request_word (value, tables, 3);
        wanted->table = (request_table_kind_t) (REQUEST_TABLE_CLASSES + word);
        return word >= 0 || request_refuse_value (refusal, key, "\"classes\", \"names\" or \"label\"", value);
    }
    return request_refuse_key (refusal, key, "dataset, table, label, first");
}

static bool
s_read (json_t *object, request_table_t *wanted, refusal_t *refusal)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (!s_take (key, value, wanted, refusal))
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
    bool good = object && s_read (object, wanted, refusal);
    json_decref (object);
    return good;
}

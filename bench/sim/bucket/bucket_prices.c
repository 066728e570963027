#include "bucket_prices.h"
#include <jansson.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    const char *name;
    bool is_text;
    size_t offset;
    const char *meaning;
} field_t;

#define AT(member) offsetof (bucket_prices_t, member)
static const field_t s_fields [] = {
    { "name", true, AT (name), "which store and machine" },
    { "date", true, AT (date), "when the figures were right, as in 2026-06" },
    { "source", true, AT (source), "where they are from" },
    { "get_per_1000", false, AT (get_per_1000), "the price of 1,000 GETs" },
    { "list_per_1000", false, AT (list_per_1000), "the price of 1,000 listings" },
    { "transfer_per_gb", false, AT (transfer_per_gb), "the price of 10^9 bytes from the store" },
    { "disk_per_gb_month", false, AT (disk_per_gb_month), "the price of 10^9 bytes of disk for a month" },
    { "machine_per_hour", false, AT (machine_per_hour), "the price of a machine for an hour" }
};
enum { FIELDS = sizeof s_fields / sizeof *s_fields };

static bool
s_take_text (char *place, const json_t *value)
{
    const char *text = json_string_value (value);
    if (!text || !*text || strlen (text) >= BUCKET_PRICES_TEXT_BYTES)
        return false;
    strcpy (place, text);
    return true;
}

static bool
s_take_field (bucket_prices_t *self, const field_t *field, const json_t *value, const char *path,
    char error [OPTION_ERROR_BYTES])
{
    void *place = (char *) self + field->offset;
    if (!value)
        return option_fail (error, "%s: \"%s\" is missing: %s", path, field->name, field->meaning);
    if (field->is_text)
        return s_take_text (place, value)
            || option_fail (error, "%s: \"%s\": expected a text of 1 to %d bytes: %s", path, field->name,
                BUCKET_PRICES_TEXT_BYTES - 1, field->meaning);
    double number = json_is_number (value)? json_number_value (value): -1;
    if (!(number >= 0))
        return option_fail (error, "%s: \"%s\": expected a number from 0 on: %s", path, field->name,
            field->meaning);
    memcpy (place, &number, sizeof number);
    return true;
}

static bool
s_is_field (const char *name)
{
    for (size_t at = 0; at < FIELDS; at++)
        if (strcmp (s_fields [at].name, name) == 0)
            return true;
    return false;
}

static bool
s_take (bucket_prices_t *self, json_t *object, const char *path, char error [OPTION_ERROR_BYTES])
{
    const char *name;
    json_t *value;
    if (!json_is_object (object))
        return option_fail (error, "%s: expected an object of prices, as in bench/sim/bucket/aws.json", path);
    json_object_foreach (object, name, value)
        if (!s_is_field (name))
            return option_fail (error, "%s: \"%s\" is no price; leave it out, see bench/sim/bucket/aws.json",
                path, name);
    for (size_t at = 0; at < FIELDS; at++)
        if (!s_take_field (self, &s_fields [at], json_object_get (object, s_fields [at].name), path, error))
            return false;
    return true;
}

bool
bucket_prices_read (bucket_prices_t *self, const char *path, char error [OPTION_ERROR_BYTES])
{
    json_error_t why;
    json_t *object = json_load_file (path, JSON_REJECT_DUPLICATES, &why);
    if (!object && why.line > 0)
        return option_fail (error, "%s: line %d: %s; expected JSON, as in bench/sim/bucket/aws.json", path,
            why.line, why.text);
    if (!object)
        return option_fail (error, "%s: expected a file of prices, as bench/sim/bucket/aws.json", why.text);
    bool good = s_take (self, object, path, error);
    json_decref (object);
    return good;
}

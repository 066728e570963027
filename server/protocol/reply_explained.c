#include "reply_explained.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "json_text.h"
#include "needed.h"

//  Readers that keep numbers in doubles lose digits above 2^53, so 64-bit numbers go as text.
static json_t *
s_number (bool is_known, uint64_t number)
{
    return is_known? json_sprintf ("%" PRIu64, number): json_null ();
}

char *
reply_explained (const reply_explained_t *explained, const char *name, json_t *operations)
{
    bool is_placed = explained->is_placed;
    json_t *object = json_object ();
    json_object_set_new (object, "id", s_number (true, explained->id));
    json_object_set_new (object, "epoch", s_number (true, explained->epoch));
    json_object_set_new (object, "index", s_number (is_placed, explained->index));
    json_object_set_new (object, "row", s_number (is_placed, explained->row));
    json_object_set_new (object, "name", json_text (name));
    json_object_set_new (object, "version", s_number (!explained->has_no_version, explained->version));
    json_object_set_new (object, "prepared_for",
        is_placed? json_integer (explained->prepared_for): json_null ());
    json_object_set_new (object, "reused", is_placed? json_boolean (explained->is_reused): json_null ());
    json_object_set_new (object, "operations", operations);
    char *text = needed_memory (json_dumps (object, JSON_COMPACT));
    json_decref (object);
    return text;
}

#include "answer.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "utf8.h"

//  What follows returns false where there is no memory for a member.
static bool s_make_visible (json_t *value);

//  Keys are shown too, as names of stages and of labels are.
static bool
s_make_members_visible (json_t *object)
{
    const char *key;
    json_t *member, *shown = json_object ();
    bool is_done = shown;
    json_object_foreach (object, key, member) {
        char *visible = utf8_all_visible (key);
        is_done = is_done && s_make_visible (member) && json_object_set (shown, visible, member) == 0;
        free (visible);
    }
    is_done = is_done && json_object_clear (object) == 0 && json_object_update (object, shown) == 0;
    json_decref (shown);
    return is_done;
}

static bool
s_make_visible (json_t *value)
{
    json_t *member;
    size_t index;
    bool is_done = true;
    if (json_is_string (value)) {
        char *visible = utf8_all_visible (json_string_value (value));
        is_done = json_string_set (value, visible) == 0;
        free (visible);
    }
    json_array_foreach (value, index, member)
        is_done = is_done && s_make_visible (member);
    return is_done && (!json_is_object (value) || s_make_members_visible (value));
}

json_t *
answer_parse (const char *text, char *error, size_t error_bytes)
{
    json_error_t at;
    json_t *answer = json_loads (text, 0, &at);
    if (answer && s_make_visible (answer))
        return answer;
    bool is_json = answer || json_error_code (&at) == json_error_out_of_memory;
    snprintf (error, error_bytes, is_json? "there is no memory for what the server answers":
        "what the server answers is no JSON");
    json_decref (answer);
    return NULL;
}

double
answer_real (const json_t *object, const char *key)
{
    return json_number_value (json_object_get (object, key));
}

const char *
answer_text (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text? text: "";
}

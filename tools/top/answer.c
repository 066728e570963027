#include "answer.h"
#include <stdlib.h>
#include "utf8.h"

static void s_make_visible (json_t *value);

//  Keys are shown too, as names of stages and of labels are.
static void
s_make_members_visible (json_t *object)
{
    const char *key;
    json_t *member, *shown = json_object ();
    json_object_foreach (object, key, member) {
        char *visible = utf8_all_visible (key);
        s_make_visible (member);
        json_object_set (shown, visible, member);
        free (visible);
    }
    json_object_clear (object);
    json_object_update (object, shown);
    json_decref (shown);
}

static void
s_make_visible (json_t *value)
{
    json_t *member;
    size_t index;
    if (json_is_string (value)) {
        char *visible = utf8_all_visible (json_string_value (value));
        json_string_set (value, visible);
        free (visible);
    }
    json_array_foreach (value, index, member)
        s_make_visible (member);
    if (json_is_object (value))
        s_make_members_visible (value);
}

json_t *
answer_parse (const char *text)
{
    json_t *answer = json_loads (text, 0, NULL);
    s_make_visible (answer);
    return answer;
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

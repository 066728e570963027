#include "members_answer.h"
#include "members_state.h"
#include <assert.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { DECODED_BYTES_MAX = 700 };

void
members_answer_code (const char *text, char *room)
{
    assert (sodium_base64_encoded_len (strlen (text), sodium_base64_VARIANT_ORIGINAL)
        <= MEMBERS_ANSWER_CODED_BYTES);
    sodium_bin2base64 (room, MEMBERS_ANSWER_CODED_BYTES, (const uint8_t *) text, strlen (text),
        sodium_base64_VARIANT_ORIGINAL);
}

//  False: it is none, is too long, or has a zero inside.
static bool
s_decode (const json_t *coded, char text [DECODED_BYTES_MAX + 1])
{
    const char *value = json_string_value (coded);
    size_t size = 0;
    if (!value || sodium_base642bin ((uint8_t *) text, DECODED_BYTES_MAX, value, json_string_length (coded),
        NULL, &size, NULL, sodium_base64_VARIANT_ORIGINAL))
        return false;
    text [size] = 0;
    return strlen (text) == size;
}

//  A number as a string of digits.
static bool
s_number (const json_t *value, uint64_t *number_p)
{
    const char *text = json_string_value (value);
    if (!text || !*text || strlen (text) > 19 || strspn (text, "0123456789") != strlen (text))
        return false;
    *number_p = strtoull (text, NULL, 10);
    return true;
}

static bool
s_entry (const json_t *entry, const char *prefix, member_t *member)
{
    char name [DECODED_BYTES_MAX + 1], value [DECODED_BYTES_MAX + 1];
    size_t length = strlen (prefix);
    uint64_t bytes;
    if (!s_decode (json_object_get (entry, "key"), name) || strncmp (name, prefix, length) != 0
    ||  !members_is_name (name + length, strlen (name + length))
    ||  !s_decode (json_object_get (entry, "value"), value))
        return false;
    json_t *said = json_loads (value, JSON_REJECT_DUPLICATES, NULL);
    bool is_member = s_number (json_object_get (said, "bytes"), &bytes);
    json_decref (said);
    if (is_member)
        members_set_member (member, name + length, strlen (name + length), bytes);
    return is_member;
}

static void
s_name_strange (const json_t *entry, char *strange, size_t strange_bytes)
{
    char name [DECODED_BYTES_MAX + 1];
    bool is_text = s_decode (json_object_get (entry, "key"), name);
    if (is_text)
        utf8_mask (name);
    snprintf (strange, strange_bytes, "%s", is_text? name: "(no text)");
}

int
members_answer_range (const char *text, size_t bytes, const char *prefix, member_t *members,
    size_t members_max, size_t *strange_p, char *strange, size_t strange_bytes)
{
    *strange_p = 0;
    *strange = 0;
    json_t *answer = json_loadb (text, bytes, 0, NULL);
    const json_t *header = json_object_get (answer, "header"), *all = json_object_get (answer, "kvs");
    if (!json_is_object (header) || (all && !json_is_array (all))) {
        json_decref (answer);
        return -1;
    }
    size_t count = 0, at;
    const json_t *entry;
    json_array_foreach (all, at, entry)
        if (count < members_max && s_entry (entry, prefix, &members [count]))
            count++;
        else
        if ((*strange_p)++ == 0)
            s_name_strange (entry, strange, strange_bytes);
    json_decref (answer);
    return (int) count;
}

uint64_t
members_answer_number (const char *text, size_t bytes, const char *outer, const char *key)
{
    uint64_t number = 0;
    json_t *answer = json_loadb (text, bytes, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *object = outer? json_object_get (answer, outer): answer;
    if (!s_number (json_object_get (object, key), &number))
        number = 0;
    json_decref (answer);
    return number;
}

bool
members_answer_error (const char *text, size_t bytes, char *error, size_t error_bytes)
{
    json_t *answer = json_loadb (text, bytes, 0, NULL);
    const char *said = json_string_value (json_object_get (answer, "error"));
    said = said? said: json_string_value (json_object_get (answer, "message"));
    snprintf (error, error_bytes, "%s", said? said: "");
    utf8_mask (error);
    json_decref (answer);
    return *error;
}

bool
members_answer_login (const char *user, const char *password, char *room, size_t room_bytes)
{
    json_t *question = json_pack ("{s:s, s:s}", "name", user, "password", password);
    size_t size = question? json_dumpb (question, room, room_bytes - 1, JSON_COMPACT): 0;
    bool has_room = size > 0 && size < room_bytes;
    room [has_room? size: 0] = 0;
    json_decref (question);
    return has_room;
}

bool
members_answer_token (const char *text, size_t bytes, char *token, size_t token_bytes)
{
    json_t *answer = json_loadb (text, bytes, 0, NULL);
    const char *said = json_string_value (json_object_get (answer, "token"));
    bool is_token = said && *said && strlen (said) < token_bytes;
    for (const char *at = said; is_token && *at; at++)
        is_token = *at > ' ' && *at <= '~';
    snprintf (token, token_bytes, "%s", is_token? said: "");
    json_decref (answer);
    return is_token;
}

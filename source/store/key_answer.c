#include "key_answer.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <expat.h>
#include <jansson.h>
#include <sodium.h>
#include "wiped.h"

enum { DEPTH_MAX = 32 };

typedef enum { FIELD_NAME, FIELD_SECRET, FIELD_TOKEN, FIELD_ENDS, FIELD_CODE, FIELDS, FIELD_NONE } field_t;

//  What was found; guarded.
typedef struct {
    char name [ACCESS_KEY_NAME_MAX + 1];
    char secret [ACCESS_KEY_SECRET_MAX + 1];
    char token [ACCESS_KEY_TOKEN_MAX + 1];
    char ends [64];
    char code [KEY_ANSWER_CODE_BYTES];
    size_t used [FIELDS];
    bool is_too_long;
    //  XML: where the parser is
    XML_Parser parser;
    unsigned depth;
    field_t field;
} found_t;

static void
s_add (found_t *self, field_t field, const char *text, size_t bytes)
{
    char *const places [FIELDS] = { self->name, self->secret, self->token, self->ends, self->code };
    static const size_t rooms [FIELDS] = { sizeof ((found_t *) 0)->name, sizeof ((found_t *) 0)->secret,
        sizeof ((found_t *) 0)->token, sizeof ((found_t *) 0)->ends, sizeof ((found_t *) 0)->code };
    size_t *used = &self->used [field];
    if (bytes >= rooms [field] - *used) {
        self->is_too_long = true;
        return;
    }
    memcpy (places [field] + *used, text, bytes);
    *used += bytes;
    places [field] [*used] = 0;
}

//  Letters, digits and '.' of the code, up to the first other character.
static void
s_copy_code (const found_t *self, char code [KEY_ANSWER_CODE_BYTES])
{
    size_t length = strspn (self->code, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.");
    snprintf (code, KEY_ANSWER_CODE_BYTES, "%.*s", (int) length, self->code);
}

static int
s_key (const found_t *self, access_key_t **key_p)
{
    int64_t ends_s = 0;
    if (self->is_too_long || (self->used [FIELD_ENDS] && !key_answer_time (self->ends, &ends_s)))
        return -EBADMSG;
    return access_key_new (key_p, self->name, self->secret, self->token, ends_s);
}


//  -- XML

static void
s_on_begin (void *context, const XML_Char *name, const XML_Char **attributes)
{
    (void) attributes;
    static const char *const names [FIELDS] = { "AccessKeyId", "SecretAccessKey", "SessionToken",
        "Expiration", "Code" };
    found_t *self = context;
    self->field = FIELD_NONE;
    for (field_t field = 0; field < FIELDS; field++)
        if (strcmp (name, names [field]) == 0)
            self->field = field;
    //  A second one would be added to the first.
    if (++self->depth > DEPTH_MAX || (self->field != FIELD_NONE && self->used [self->field]))
        XML_StopParser (self->parser, XML_FALSE);
}

static void
s_on_end (void *context, const XML_Char *name)
{
    (void) name;
    found_t *self = context;
    self->depth--;
    self->field = FIELD_NONE;
}

static void
s_on_text (void *context, const XML_Char *text, int bytes)
{
    found_t *self = context;
    if (self->field != FIELD_NONE)
        s_add (self, self->field, text, (size_t) bytes);
}

//  No answer of STS has one, and entities are defined there.
static void
s_on_doctype (void *context, const XML_Char *name, const XML_Char *system, const XML_Char *open,
    int has_subset)
{
    (void) name, (void) system, (void) open, (void) has_subset;
    found_t *self = context;
    XML_StopParser (self->parser, XML_FALSE);
}

static int
s_parse_xml (found_t *self, const char *text, size_t bytes)
{
    static const XML_Memory_Handling_Suite memory = { wiped_malloc, wiped_realloc, wiped_free };
    self->parser = XML_ParserCreate_MM (NULL, &memory, NULL);
    if (!self->parser)
        return -ENOMEM;
    self->field = FIELD_NONE;
    XML_SetUserData (self->parser, self);
    XML_SetElementHandler (self->parser, s_on_begin, s_on_end);
    XML_SetCharacterDataHandler (self->parser, s_on_text);
    XML_SetStartDoctypeDeclHandler (self->parser, s_on_doctype);
    int rc = XML_Parse (self->parser, text, (int) bytes, 1) == XML_STATUS_OK? 0:
        XML_GetErrorCode (self->parser) == XML_ERROR_NO_MEMORY? -ENOMEM: -EBADMSG;
    XML_ParserFree (self->parser);
    return rc;
}


//  -- JSON

//  What jansson frees is wiped, everywhere in this program: it has one allocator.
static void
s_begin_json (void)
{
    json_set_alloc_funcs (wiped_malloc, wiped_free);
}

static void
s_take (found_t *self, const json_t *object, const char *name, field_t field)
{
    const char *text = json_string_value (json_object_get (object, name));
    if (text && !self->used [field])
        s_add (self, field, text, strlen (text));
}

//  "Code" is "Success" with keys; errors of containers have "code".  What programs print has "SessionToken".
static int
s_parse_json (found_t *self, const char *text, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once (&once, s_begin_json);
    json_error_t error;
    json_t *object = json_loadb (text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code (&error) == json_error_out_of_memory)
        return -ENOMEM;
    s_take (self, object, "AccessKeyId", FIELD_NAME);
    s_take (self, object, "SecretAccessKey", FIELD_SECRET);
    s_take (self, object, "Token", FIELD_TOKEN);
    s_take (self, object, "SessionToken", FIELD_TOKEN);
    s_take (self, object, "Expiration", FIELD_ENDS);
    s_take (self, object, "Code", FIELD_CODE);
    s_take (self, object, "code", FIELD_CODE);
    int rc = json_is_object (object)? 0: -EBADMSG;
    json_decref (object);
    if (strcmp (self->code, "Success") == 0)
        self->used [FIELD_CODE] = 0;
    return rc;
}


//  -- answers

static int
s_answer (int (*parse) (found_t *self, const char *text, size_t bytes), const char *text, size_t bytes,
    access_key_t **key_p, char code [KEY_ANSWER_CODE_BYTES])
{
    assert (text || bytes == 0); assert (key_p); assert (code);
    *key_p = NULL;
    code [0] = 0;
    if (bytes == 0 || bytes > KEY_ANSWER_BYTES_MAX)
        return -EBADMSG;
    found_t *found = wiped_guarded (sizeof *found);
    if (!found)
        return -ENOMEM;
    memset (found, 0, sizeof *found);
    int rc = parse (found, text, bytes);
    bool is_error = rc == 0 && found->used [FIELD_CODE] && !found->used [FIELD_SECRET];
    if (is_error) {
        s_copy_code (found, code);
        rc = -EKEYREJECTED;
    }
    if (rc == 0)
        rc = s_key (found, key_p);
    wiped_guarded_free (found);
    return rc;
}

int
key_answer_xml (const char *text, size_t bytes, access_key_t **key_p, char code [KEY_ANSWER_CODE_BYTES])
{
    return s_answer (s_parse_xml, text, bytes, key_p, code);
}

int
key_answer_json (const char *text, size_t bytes, access_key_t **key_p, char code [KEY_ANSWER_CODE_BYTES])
{
    return s_answer (s_parse_json, text, bytes, key_p, code);
}

bool
key_answer_word (const char *text, size_t bytes, char word [KEY_ANSWER_WORD_BYTES])
{
    assert (text || bytes == 0);
    size_t length = 0;
    while (length < bytes && text [length] != '\n' && text [length] != '\r')
        length++;
    bool is_word = length > 0 && length < KEY_ANSWER_WORD_BYTES;
    for (size_t index = 0; is_word && index < length; index++)
        is_word = text [index] > ' ' && text [index] <= '~';
    snprintf (word, KEY_ANSWER_WORD_BYTES, "%.*s", is_word? (int) length: 0, is_word? text: "");
    return is_word;
}


//  -- times

//  So many digits, and moves on behind them; -1: not there.
static int
s_digits (const char **at_p, unsigned count)
{
    int number = 0;
    for (unsigned index = 0; index < count; index++, (*at_p)++) {
        if (**at_p < '0' || **at_p > '9')
            return -1;
        number = 10 * number + (**at_p - '0');
    }
    return number;
}

//  The part behind one character; -1: not there, or not between least and most.
static int
s_part (const char **at_p, char before, unsigned count, int least, int most)
{
    if (before && *(*at_p)++ != before) {
        (*at_p)--;                      //  it can be the end
        return -1;
    }
    int number = s_digits (at_p, count);
    return number >= least && number <= most? number: -1;
}

//  "Z", or "+01:00": seconds; false: neither.
static bool
s_offset (const char *at, int *offset_s_p)
{
    *offset_s_p = 0;
    if (strcmp (at, "Z") == 0)
        return true;
    int sign = *at == '+'? 1: *at == '-'? -1: 0;
    if (!sign)
        return false;
    at++;
    int hours = s_part (&at, 0, 2, 0, 23), minutes = hours < 0? -1: s_part (&at, ':', 2, 0, 59);
    *offset_s_p = sign * (hours * 3600 + minutes * 60);
    return minutes >= 0 && !*at;
}

bool
key_answer_time (const char *text, int64_t *seconds_p)
{
    assert (text); assert (seconds_p);
    const char *at = text;
    static const struct { char before; unsigned digits; int least, most; } parts [6] = {
        { 0, 4, 1970, 9999 }, { '-', 2, 1, 12 }, { '-', 2, 1, 31 }, { 'T', 2, 0, 23 }, { ':', 2, 0, 59 },
        { ':', 2, 0, 60 } };
    int values [6];
    for (size_t index = 0; index < 6; index++) {
        values [index] = s_part (&at, parts [index].before, parts [index].digits, parts [index].least,
            parts [index].most);
        if (values [index] < 0)
            return false;
    }
    if (*at == '.')
        at += 1 + strspn (at + 1, "0123456789");
    struct tm moment = { .tm_year = values [0] - 1900, .tm_mon = values [1] - 1, .tm_mday = values [2],
        .tm_hour = values [3], .tm_min = values [4], .tm_sec = values [5] };
    int offset_s;
    if (!s_offset (at, &offset_s))
        return false;
    *seconds_p = (int64_t) timegm (&moment) - offset_s;
    return true;
}

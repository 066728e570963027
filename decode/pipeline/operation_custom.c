#include "operation_custom.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES_MAX = CUSTOM_MAX * (CUSTOM_NAME_BYTES_MAX + 4), QUOTE_BYTES_MAX = 41 };

static int
s_complain_unknown (const operation_keys_t *keys, const char *name)
{
    char quoted [QUOTE_BYTES_MAX], there [LIST_BYTES_MAX] = "";
    const pipeline_source_t *source = keys->source;
    for (size_t index = 0; index < source->custom_count; index++)
        operation_keys_append (there, sizeof there, source->customs [index].name, "\"");
    operation_printable (name, quoted, sizeof quoted);
    if (!*there)
        return operation_complain (keys->complaint, "there is no operation \"%s\" here, and none at all: "
            "the operator adds some by `tureen serve --operation %s=COMMAND`", quoted, quoted);
    return operation_complain (keys->complaint, "there is no operation \"%s\" here; expected one of %s",
        quoted, there);
}

static int
s_parse_name (operation_t *self, const operation_keys_t *keys)
{
    const pipeline_source_t *source = keys->source;
    const char *name = json_string_value (json_object_get (keys->object, "name"));
    if (!name)
        return operation_keys_refuse (keys, "name", "the name of an operation of the operator's");
    for (size_t index = 0; index < source->custom_count; index++)
        if (strcmp (source->customs [index].name, name) == 0)
            self->custom.is = &source->customs [index];
    return self->custom.is? 0: s_complain_unknown (keys, name);
}

//  Sorted, so that the order of keys makes no difference.
static int
s_parse_arguments (operation_t *self, const operation_keys_t *keys)
{
    const json_t *given = json_object_get (keys->object, "arguments");
    if (given && !json_is_object (given))
        return operation_keys_refuse (keys, "arguments", "an object, which the operation understands");
    char *text = given? json_dumps (given, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII): strdup ("{}");
    if (!text)
        return -ENOMEM;
    size_t size = strlen (text) + 1;
    bool fits = size <= sizeof self->custom.arguments;
    if (fits)
        memcpy (self->custom.arguments, text, size);
    free (text);
    return fits? 0: operation_keys_refuse (keys, "arguments", "at most %d bytes of JSON",
        CUSTOM_ARGUMENTS_BYTES_MAX);
}

//  A list that has it asks for the very command that made earlier pixels.
static int
s_check_identity (const operation_t *self, const operation_keys_t *keys)
{
    const json_t *given = json_object_get (keys->object, "identity");
    const char *text = json_string_value (given), *own = self->custom.is->identity;
    if (!given || (text && strcmp (text, own) == 0))
        return 0;
    return operation_complain (keys->complaint,
        "\"identity\" is another one: the command behind \"%s\" is not what it was; expected \"%s\", or no "
        "\"identity\" for whatever it is now", self->custom.is->name, own);
}

int
operation_custom_parse (operation_t *self, const operation_keys_t *keys)
{
    int rc = s_parse_name (self, keys);
    rc = rc? rc: operation_keys_size (keys, &self->height, &self->width, NULL);
    rc = rc? rc: s_parse_arguments (self, keys);
    return rc? rc: s_check_identity (self, keys);
}

void
operation_custom_write (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"name\":\"%s\",\"size\":[%u,%u],\"arguments\":%s,\"identity\":\"%s\"",
        self->custom.is->name, self->height, self->width, self->custom.arguments, self->custom.is->identity);
}

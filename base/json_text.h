/*  json_text -- foreign text as a JSON string.  Any thread.  */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H
#include <stdlib.h>
#include <jansson.h>
#include "utf8.h"

//  The text with U+FFFD in place of what is no UTF-8, such as bytes of a file's name.  The caller's; NULL: no
//  memory.
static inline json_t *
json_text (const char *text)
{
    char *repaired = utf8_repaired (text);
    json_t *string = json_string (repaired);
    free (repaired);
    return string;
}

//  A path as status shows it.  The caller's; NULL: no memory.
static inline json_t *
json_text_of_path (const char *path)
{
    json_t *string = json_string (path);
    return string? string: json_string ("(not UTF-8)");
}

#endif

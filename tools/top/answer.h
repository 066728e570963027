//  answer -- values of a server's answer to STATUS, for the commands that show it.  No state.
#ifndef ANSWER_H
#define ANSWER_H
#include <stddef.h>
#include <jansson.h>

//  What a job waits for, as `waits` names it, in the order in which it is shown.
enum { ANSWER_WAITS = 6 };
static const char *const answer_waits [ANSWER_WAITS] = { "draw", "read", "memory", "decode", "copy",
    "client" };

//  Parses an answer, and makes all texts in it visible (utf8.h): names hold anything, and so may a server.
//  NULL, with a sentence in error: it is no JSON, or there is no memory for all of it.
json_t *answer_parse (const char *text, char *error, size_t error_bytes);

//  0: there is no such number.
double answer_real (const json_t *object, const char *key);

//  "": there is no such text.  Lent.
const char *answer_text (const json_t *object, const char *key);

#endif

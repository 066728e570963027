/*  utf8 -- foreign text read, compared, and made fit for JSON and for people.  Any thread.  */
#ifndef UTF8_H
#define UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <jansson.h>

//  Bytes of the well-formed UTF-8 sequence that text begins with: 1 to 4, or 0 where there is none.
size_t utf8_sequence (const void *text, size_t size);

//  The next code point as Python reads file names: a byte that is not part of UTF-8 becomes 0xdc00 + byte.
//  The text must end in a zero or another ASCII character, over which nothing is read.
uint32_t utf8_code_point (const uint8_t **at_p);

//  Whether two names are the same text in two Unicode normal forms: a letter and its accent as one character
//  (NFC), or as two (NFD, as macOS wrote them).  They look the same, and are two files.  Characters beyond
//  the Basic Multilingual Plane are taken as they are.  False where they are the same bytes; what is no UTF-8
//  equals itself alone.
bool utf8_is_other_form (const char *left, const char *right);

//  A copy with U+FFFD in place of every byte that belongs to no sequence.  malloc'ed, the caller's; never
//  NULL.
char *utf8_repaired (const char *text);
//  The same as a JSON string.  The caller's; NULL: no memory.
static inline json_t *
utf8_json (const char *text)
{
    char *repaired = utf8_repaired (text);
    json_t *string = json_string (repaired);
    free (repaired);
    return string;
}

//  A path as status shows it.  The caller's; NULL: no memory.
static inline json_t *
utf8_json_path (const char *path)
{
    json_t *string = json_string (path);
    return string? string: json_string ("(not UTF-8)");
}

//  Unsafe to show is what ends a line, moves a terminal, or turns the writing's direction: controls,
//  separators of lines and paragraphs, Unicode's Bidi_Control, and bytes that are no UTF-8.

//  As utf8_sequence; 0, too, where the sequence is unsafe.
size_t utf8_safe_sequence (const void *text, size_t size);

//  In place: each unsafe character, or byte, becomes '?'.  Returns text.
char *utf8_mask (char *text);

//  Writes text with each unsafe byte as \xNN; what does not fit is cut between characters, marked "...".
//  buffer_bytes >= 8.  Returns buffer, always ended.
char *utf8_visible (const void *text, size_t size, char *buffer, size_t buffer_bytes);
//  The same of all of an ended text: malloc'ed, the caller's; never NULL.
char *utf8_all_visible (const char *text);

#endif

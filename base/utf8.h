/*  utf8 -- foreign text made fit for JSON and for people.  Any thread.  */
#ifndef UTF8_H
#define UTF8_H
#include <stddef.h>

//  Bytes of the well-formed UTF-8 sequence that text begins with: 1 to 4, or 0 where there is none.
size_t utf8_sequence (const void *text, size_t size);

//  A copy with U+FFFD in place of every byte that belongs to no sequence.  malloc'ed, the caller's; never
//  NULL.
char *utf8_repaired (const char *text);

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

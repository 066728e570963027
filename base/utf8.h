/*  utf8 -- foreign text made fit for JSON and for people.  Any thread.  */
#ifndef UTF8_H
#define UTF8_H
#include <stddef.h>

//  Bytes of the well-formed UTF-8 sequence that text begins with: 1 to 4, or 0 where there is none.
size_t utf8_sequence (const void *text, size_t size);

//  A copy with U+FFFD in place of every byte that belongs to no sequence.  malloc'ed, the caller's; never
//  NULL.
char *utf8_repaired (const char *text);

//  Writes text so that it stays on one line and moves no terminal: control characters and bytes that are no
//  UTF-8 become \xNN; what does not fit is cut between characters, marked "...".  buffer_bytes >= 8.  Returns
//  buffer, always ended.
char *utf8_visible (const void *text, size_t size, char *buffer, size_t buffer_bytes);

#endif

/*  words -- sentences put together: the ends of words that are counted, and more text behind a text.  Any
 *  thread.
 */
#ifndef WORDS_H
#define WORDS_H
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

//  "1 epoch", "2 epochs".
static inline const char *
plural (uint64_t count)
{
    return count == 1? "": "s";
}

//  "1 batch", "2 batches".
static inline const char *
plural_es (uint64_t count)
{
    return count == 1? "": "es";
}

//  As printf writes it.  The text has room for `bytes`, its end included; what finds no room is cut off.
__attribute__ ((format (printf, 3, 4)))
static inline void
append (char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen (text);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text + used, bytes - used, format, arguments);
    va_end (arguments);
}

#endif

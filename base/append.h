/*  append -- more text behind a text, as printf writes it.  Any thread.  */
#ifndef APPEND_H
#define APPEND_H
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

//  The text has room for `bytes`, its end included; what finds no room is cut off.
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

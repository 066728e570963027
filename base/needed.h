/*  needed -- memory that the process cannot go on without: bookkeeping of some bytes, bounded by what users
 *  were granted.  Where it is missing the process says so on stderr and aborts; a supervisor starts it anew.
 *  What users ask for by size is refused instead, and never comes here.
 *  Any thread.
 */
#ifndef NEEDED_H
#define NEEDED_H
#include <stdarg.h>

//  Returns memory, which is not NULL.
void *needed_memory (void *memory);
//  A text as printf makes it; the caller frees it.
char *needed_text (const char *format, ...) __attribute__ ((format (printf, 1, 2)));
char *needed_text_of (const char *format, va_list arguments) __attribute__ ((format (printf, 1, 0)));
void needed_failed (void) __attribute__ ((noreturn));

#endif

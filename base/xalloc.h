/*  xalloc -- allocate or abort: for bookkeeping of some bytes, bounded by what users were granted.
 *
 *  Where memory is missing the process says so on stderr and aborts; a supervisor starts the server again.
 *  What users ask for by size is refused instead, and never comes here.
 *  Any thread.
 */
#ifndef XALLOC_H
#define XALLOC_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

//  Returns memory, which is not NULL.
void *xalloc_memory (void *memory);
//  The same for what the budget of jobs has: the message names that (sampler/).
void *xalloc_jobs (void *memory);
//  A text as printf makes it; the caller frees it.
char *xalloc_text (const char *format, ...) __attribute__ ((format (printf, 1, 2)));
char *xalloc_text_of (const char *format, va_list arguments) __attribute__ ((format (printf, 1, 0)));
void xalloc_failed (void) __attribute__ ((noreturn));

//  The one function here that does not abort.  Makes room for one item more than count, each of size bytes:
//  an array's room doubles.  items_p: the array's pointer, NULL at first.  False: there is no memory, and all
//  is as it was.
static inline bool
xalloc_try_grow (void *items_p, size_t count, size_t *room_p, size_t size)
{
    if (count < *room_p)
        return true;
    void *items;
    memcpy (&items, items_p, sizeof items);
    size_t room = *room_p? *room_p * 2: 16;
    void *more = reallocarray (items, room, size);
    if (!more)
        return false;
    memcpy (items_p, &more, sizeof more);
    *room_p = room;
    return true;
}

#endif

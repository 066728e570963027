#include "wiped.h"
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sodium.h>

void *
wiped_malloc (size_t bytes)
{
    return malloc (bytes);
}

void *
wiped_calloc (size_t count, size_t bytes)
{
    return calloc (count, bytes);
}

void *
wiped_realloc (void *memory, size_t bytes)
{
    size_t room = memory? malloc_usable_size (memory): 0;
    if (memory && bytes > 0 && bytes <= room)
        return memory;
    void *larger = malloc (bytes);
    if (larger && memory) {
        memcpy (larger, memory, room < bytes? room: bytes);
        wiped_free (memory);
    }
    return larger;
}

char *
wiped_strdup (const char *text)
{
    size_t bytes = strlen (text) + 1;
    char *copy = malloc (bytes);
    if (copy)
        memcpy (copy, text, bytes);
    return copy;
}

void
wiped_free (void *memory)
{
    if (memory)
        sodium_memzero (memory, malloc_usable_size (memory));
    free (memory);
}

void *
wiped_guarded (size_t bytes)
{
    return sodium_init () >= 0? sodium_malloc (bytes): NULL;
}

char *
wiped_guarded_text (const char *begin, const char *text)
{
    size_t begin_bytes = strlen (begin), bytes = strlen (text) + 1;
    char *copy = wiped_guarded (begin_bytes + bytes);
    if (copy) {
        memcpy (copy, begin, begin_bytes);
        memcpy (copy + begin_bytes, text, bytes);
    }
    return copy;
}

void
wiped_guarded_free (void *memory)
{
    sodium_free (memory);
}

void
wiped_keep_from_core (const char *text)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t) text / page * page, end = (uintptr_t) text + strlen (text) + 1;
    (void) madvise ((void *) begin, end - begin, MADV_DONTDUMP);
}

#include "added_kept.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

enum { BYTES_MAX = 64 * 1024 * 1024 };      //  of a text

typedef struct {
    uint64_t bytes, sum;
} copy_t;

int
added_kept_new (void)
{
    int descriptor = memfd_create ("tureen-added", 0);
    return descriptor < 0? -errno: descriptor;
}

//  Reads the copy's head.  False: there is none.
static bool
s_find (int descriptor, uint64_t *begin_p, copy_t *copy)
{
    return pread (descriptor, begin_p, sizeof *begin_p, 0) == sizeof *begin_p && *begin_p >= sizeof *begin_p
        && pread (descriptor, copy, sizeof *copy, (off_t) *begin_p) == sizeof *copy
        && copy->bytes <= BYTES_MAX;
}

static bool
s_put (int descriptor, const void *bytes, size_t size, uint64_t at)
{
    for (size_t done = 0; done < size;) {
        ssize_t written = pwrite (descriptor, (const char *) bytes + done, size - done, (off_t) (at + done));
        if (written < 0 && errno != EINTR)
            return false;
        done += written > 0? (size_t) written: 0;
    }
    return true;
}

bool
added_kept_write (int descriptor, const char *text, size_t bytes)
{
    copy_t old = { .bytes = 0 }, copy = { .bytes = bytes, .sum = XXH3_64bits (text, bytes) };
    uint64_t old_begin = 0, begin = sizeof begin;
    //  In front of the old copy, if there is room.
    if (s_find (descriptor, &old_begin, &old) && begin + sizeof copy + bytes > old_begin)
        begin = old_begin + sizeof old + old.bytes;
    return s_put (descriptor, &copy, sizeof copy, begin)
        && s_put (descriptor, text, bytes, begin + sizeof copy)
        && s_put (descriptor, &begin, sizeof begin, 0);
}

char *
added_kept_read (int descriptor)
{
    uint64_t begin;
    copy_t copy;
    char *text = s_find (descriptor, &begin, &copy)? calloc (1, copy.bytes + 1): NULL;
    if (!text)
        return NULL;
    ssize_t bytes = pread (descriptor, text, copy.bytes, (off_t) (begin + sizeof copy));
    if (bytes >= 0 && (uint64_t) bytes == copy.bytes && XXH3_64bits (text, copy.bytes) == copy.sum)
        return text;
    free (text);
    return NULL;
}

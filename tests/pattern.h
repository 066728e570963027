/*  pattern -- files of which every byte tells in which file it is and where, for tests that read them.  */
#ifndef PATTERN_H
#define PATTERN_H
#include <stdint.h>
#include <stdio.h>

//  What stands at an offset of a file.
static inline uint8_t
pattern_byte (uint32_t file, uint64_t offset)
{
    uint64_t mixed = (offset / 8 + 1) * 0x9e3779b97f4a7c15u + file * 0xbf58476d1ce4e5b9u;
    return (uint8_t) ((mixed ^ (mixed >> 29)) >> (offset % 8 * 7));
}

static inline void
pattern_write (const char *path, uint32_t file, size_t bytes)
{
    FILE *stream = fopen (path, "w");
    assert_non_null (stream);
    for (size_t offset = 0; offset < bytes; offset++)
        putc (pattern_byte (file, offset), stream);
    assert_int_equal (fclose (stream), 0);
}

#endif

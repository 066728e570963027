#include "utf8.h"
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

//  Length of the sequence and bounds of its second byte, which alone rule out overlong forms, surrogates and
//  what lies above U+10FFFF.
static size_t
s_expected (uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = first == 0xe0? 0xa0: first == 0xf0? 0x90: 0x80;
    *high = first == 0xed? 0x9f: first == 0xf4? 0x8f: 0xbf;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    return first >= 0xf0 && first < 0xf5? 4: 0;
}

size_t
utf8_sequence (const void *text, size_t size)
{
    const uint8_t *bytes = text;
    if (size == 0)
        return 0;
    uint8_t low, high;
    size_t length = s_expected (bytes [0], &low, &high);
    if (length > size)
        return 0;
    for (size_t index = 1; index < length; index++) {
        if (bytes [index] < low || bytes [index] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

char *
utf8_repaired (const char *text)
{
    assert (text);
    size_t size = strlen (text);
    char *copy = xalloc_memory (malloc (3 * size + 1));         //  U+FFFD takes three bytes
    char *next = copy;
    for (size_t index = 0; index < size;) {
        size_t length = utf8_sequence (text + index, size - index);
        memcpy (next, length? text + index: "\xef\xbf\xbd", length? length: 3);
        next += length? length: 3;
        index += length? length: 1;
    }
    *next = 0;
    return copy;
}

//  Marks and controls of the writing's direction are those of Unicode's Bidi_Control.
static bool
s_is_unsafe (const uint8_t *bytes, size_t length)
{
    if (length < 2)
        return length == 0 || bytes [0] < 0x20 || bytes [0] == 0x7f;
    if (length == 2)
        return (bytes [0] == 0xc2 && bytes [1] < 0xa0) || (bytes [0] == 0xd8 && bytes [1] == 0x9c);
    if (length > 3 || bytes [0] != 0xe2)
        return false;
    bool is_mark = bytes [1] == 0x80 && (bytes [2] == 0x8e || bytes [2] == 0x8f),
        is_separator = bytes [1] == 0x80 && bytes [2] >= 0xa8 && bytes [2] <= 0xae,
        is_isolate = bytes [1] == 0x81 && bytes [2] >= 0xa6 && bytes [2] <= 0xa9;
    return is_mark || is_separator || is_isolate;
}

size_t
utf8_safe_sequence (const void *text, size_t size)
{
    size_t length = utf8_sequence (text, size);
    return s_is_unsafe (text, length)? 0: length;
}

char *
utf8_mask (char *text)
{
    char *target = text;
    for (size_t size = strlen (text), index = 0, taken; index < size; index += taken) {
        size_t length = utf8_sequence (text + index, size - index);
        taken = length? length: 1;
        if (s_is_unsafe ((const uint8_t *) text + index, length))
            *target++ = '?';
        else {
            memmove (target, text + index, length);
            target += length;
        }
    }
    *target = 0;
    return text;
}

enum { SHOWN_BYTES = 3 * 4 + 1 };      //  no unsafe character has more than three bytes

//  Writes the first character of text as it shall be seen; sets *taken to its bytes in text.  Returns those
//  written.
static size_t
s_show (const uint8_t *bytes, size_t size, char shown [SHOWN_BYTES], size_t *taken)
{
    size_t length = utf8_sequence (bytes, size);
    *taken = length? length: 1;
    if (!s_is_unsafe (bytes, length)) {
        memcpy (shown, bytes, length);
        return length;
    }
    for (size_t index = 0; index < *taken; index++)
        snprintf (shown + 4 * index, 5, "\\x%02x", bytes [index]);
    return 4 * *taken;
}

char *
utf8_visible (const void *text, size_t size, char *buffer, size_t buffer_bytes)
{
    assert (buffer_bytes >= 8);
    const uint8_t *bytes = text;
    size_t used = 0, cut = 0;       //  cut: the last end of a character that leaves room for the mark
    for (size_t index = 0, taken; index < size; index += taken) {
        char shown [SHOWN_BYTES];
        size_t length = s_show (bytes + index, size - index, shown, &taken);
        if (used + length + 1 > buffer_bytes) {
            memcpy (buffer + cut, "...", 4);
            return buffer;
        }
        memcpy (buffer + used, shown, length);
        used += length;
        if (used + 4 <= buffer_bytes)
            cut = used;
    }
    buffer [used] = 0;
    return buffer;
}

char *
utf8_all_visible (const char *text)
{
    size_t size = strlen (text), room = 4 * size + 8;
    return utf8_visible (text, size, xalloc_memory (malloc (room)), room);
}

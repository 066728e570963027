#include "audio_layout.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "instrument.h"

enum {
    //  A page of Ogg: this, how long its segments are (a byte each), and the segments.
    PAGE_HEAD_BYTES = 27, PAGE_FLAGS_AT = 5, PAGE_SUM_AT = 22, PAGE_SEGMENTS_AT = 26, PAGE_IS_LAST = 4,
    NAME_BYTES_MAX = 16, SPHERE_HEAD_BYTES = 1024, AU_HEAD_BYTES = 12, TAG_HEAD_BYTES = 10, TAG_HAS_FOOT = 16,
    SUMMARY_AT_MAX = 64                 //  of MP3: where "Xing" or "Info" begins at the latest
};
typedef struct {
    audio_layout_t *layout;
    char *error;
    size_t error_bytes;
} reading_t;

//  A format of chunks: a name and a length, then so many bytes, up to the next multiple of alignment.
typedef struct {
    const char *format;
    const char *first;                  //  of the file; and what stands at second_at
    size_t first_bytes;
    const char *second;
    size_t second_at;
    size_t begin;                       //  of the first chunk
    const char *samples;                //  name of the chunk that holds them
    size_t name_bytes, length_bytes;
    bool is_big_endian;
    bool counts_head;                   //  the length is with the name and itself
    size_t alignment;
    uint64_t unknown_min;               //  such a length stands for all that is there
} chunks_t;

//  A length that was not known when the header of a WAV was written is 0xffffffff, or near 0x7fffffff.
static const chunks_t s_chunks [] = {
    { "WAV", "RIFF", 4, "WAVE", 8, 12, "data", 4, 4, false, false, 2, 0x7fff0000 },
    { "RF64", "RF64", 4, "WAVE", 8, 12, "data", 4, 4, false, false, 2, UINT32_MAX },
    { "AIFF", "FORM", 4, "AIFF", 8, 12, "SSND", 4, 4, true, false, 2, UINT64_MAX },
    { "AIFF", "FORM", 4, "AIFC", 8, 12, "SSND", 4, 4, true, false, 2, UINT64_MAX },
    { "CAF", "caff", 4, "", 0, 8, "data", 4, 8, true, false, 1, UINT64_MAX },
    { "W64", "riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1", 14, "wave", 24, 40,
        "data\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a", 16, 8, false, true, 8, UINT64_MAX },
};

static int s_bad (const reading_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static int
s_bad (const reading_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error, self->error_bytes, format, arguments);
    va_end (arguments);
    return -EBADMSG;
}

static bool
s_has (const audio_layout_t *self, size_t place, const char *wanted, size_t length)
{
    return self->size >= length && place <= self->size - length
        && memcmp (self->bytes + place, wanted, length) == 0;
}

static uint64_t
s_number (const uint8_t *bytes, size_t count, bool is_big_endian)
{
    uint64_t number = 0;
    for (size_t index = 0; index < count; index++)
        number = number << 8 | bytes [is_big_endian? index: count - 1 - index];
    return number;
}

static uint32_t
s_little_32 (const uint8_t *bytes)
{
    return (uint32_t) s_number (bytes, 4, false);
}

//  ---------------------------------------------------------------------------------------------------------
//  Chunks

//  What a chunk of no known length has, as the "ds64" of an RF64 tells it; else UINT64_MAX.
static uint64_t
s_long_length (const audio_layout_t *self)
{
    const size_t at = 12, length_at = at + 16;
    return s_has (self, at, "ds64", 4) && self->size >= length_at + 8?
        s_number (self->bytes + length_at, 8, false): UINT64_MAX;
}

//  Checks that the chunk of the samples is whole.  If there is none, libsndfile decides.
static int
s_check_chunks (const reading_t *self, const chunks_t *chunks)
{
    const audio_layout_t *layout = self->layout;
    size_t place = chunks->begin, head_bytes = chunks->name_bytes + chunks->length_bytes;
    while (place < layout->size && layout->size - place >= head_bytes) {
        size_t left = layout->size - place - head_bytes;
        uint64_t length = s_number (layout->bytes + place + chunks->name_bytes, chunks->length_bytes,
            chunks->is_big_endian);
        bool is_unknown = length >= chunks->unknown_min;
        if (chunks->counts_head)
            length = length > head_bytes? length - head_bytes: 0;
        if (s_has (layout, place, chunks->samples, chunks->name_bytes)) {
            if (is_unknown && strcmp (chunks->format, "RF64") == 0) {
                length = s_long_length (layout);
                is_unknown = length == UINT64_MAX;
            }
            return is_unknown || length <= left? 0: s_bad (self, "truncated %s: %zu of %llu bytes of samples",
                chunks->format, left, (unsigned long long) length);
        }
        if (length > left)
            return 0;
        size_t whole = head_bytes + (size_t) length, beyond = whole % chunks->alignment;
        place += whole + (beyond? chunks->alignment - beyond: 0);
    }
    //  libsndfile takes what there is of the length for all of it.
    return s_has (layout, place, chunks->samples, chunks->name_bytes)?
        s_bad (self, "truncated %s: it ends before its samples begin", chunks->format): 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Ogg

INSTRUMENT_ROWS static bool
s_page_is_damaged (const uint8_t *page, size_t bytes, const uint32_t table [256])
{
    uint32_t sum = 0;
    for (size_t index = 0; index < bytes; index++) {
        uint32_t byte = index - PAGE_SUM_AT < sizeof sum? 0: page [index];
        sum = (sum << 8) ^ table [(sum >> 24) ^ byte];
    }
    return sum != s_little_32 (page + PAGE_SUM_AT);
}

//  Of Ogg's checksum, a CRC of 32 bits, highest first.
static void
s_fill_table (uint32_t table [256])
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        table [byte] = byte << 24;
        for (int bit = 0; bit < 8; bit++)
            table [byte] = (table [byte] << 1) ^ (table [byte] >> 31? 0x04c11db7u: 0);
    }
}

//  Bytes of the page that begins the rest of the file; 0: there is none, or not all of it.
static size_t
s_page_bytes (const uint8_t *page, size_t left)
{
    if (left < PAGE_HEAD_BYTES || memcmp (page, "OggS", 5)
        || left - PAGE_HEAD_BYTES < page [PAGE_SEGMENTS_AT])
        return 0;
    size_t bytes = PAGE_HEAD_BYTES + (size_t) page [PAGE_SEGMENTS_AT];
    for (size_t segment = page [PAGE_SEGMENTS_AT]; segment > 0; segment--)
        bytes += page [PAGE_HEAD_BYTES + segment - 1];
    return bytes <= left? bytes: 0;
}

//  Walks over the pages to the one marked as the last.  All of them must be there and undamaged: libogg would
//  leave out a damaged page, and the samples behind it would move up.  Bytes behind the last page are not the
//  file's.
static int
s_check_pages (reading_t *self)
{
    uint32_t table [256];
    bool is_last = false;
    s_fill_table (table);
    for (size_t place = 0, bytes; !is_last; place += bytes) {
        const uint8_t *page = self->layout->bytes + place;
        bytes = s_page_bytes (page, self->layout->size - place);
        if (bytes == 0)
            return s_bad (self, "truncated or damaged Ogg: no page at %zu of %zu bytes", place,
                self->layout->size);
        if (s_page_is_damaged (page, bytes, table))
            return s_bad (self, "damaged Ogg: a wrong checksum at %zu of %zu bytes", place,
                self->layout->size);
        is_last = page [PAGE_FLAGS_AT] & PAGE_IS_LAST;
        if (is_last)
            self->layout->size = place + bytes;
    }
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Others

//  AU: ".snd", where its samples begin, how many bytes they have (all ones: not known); or all of it in the
//  other order.
static int
s_check_au (const reading_t *self)
{
    const audio_layout_t *layout = self->layout;
    bool is_big_endian = s_has (layout, 0, ".snd", 4);
    if (layout->size < AU_HEAD_BYTES)
        return s_bad (self, "truncated AU: no header");
    uint64_t begin = s_number (layout->bytes + 4, 4, is_big_endian);
    uint64_t length = s_number (layout->bytes + 8, 4, is_big_endian);
    if (length == UINT32_MAX || begin + length <= layout->size)
        return 0;
    return s_bad (self, "truncated AU: it ends before its %llu bytes of samples do",
        (unsigned long long) length);
}

//  SPHERE, of NIST: lines of text, in a header of a multiple of SPHERE_HEAD_BYTES.
static void
s_look_at_sphere (audio_layout_t *self)
{
    static const char name [] = "sample_count -i ";
    char head [SPHERE_HEAD_BYTES + 1];
    size_t bytes = self->size < SPHERE_HEAD_BYTES? self->size: SPHERE_HEAD_BYTES;
    memcpy (head, self->bytes, bytes);
    head [bytes] = 0;
    const char *line = strstr (head, name);
    self->frames_min = line? strtoull (line + strlen (name), NULL, 10): 0;
}

//  Bytes of the MPEG frame of layer III that begins at place; 0: there is none, or one of a free bit rate.
static size_t
s_mp3_frame (const audio_layout_t *self, size_t place)
{
    static const uint16_t kilobits [2] [16] = {
        { 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0 },        //  MPEG 2 and 2.5
        { 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0 } };
    static const uint32_t rates [4] = { 44100, 48000, 32000, 0 };
    if (place > self->size || self->size - place < 4)
        return 0;
    const uint8_t *head = self->bytes + place;
    unsigned version = head [1] >> 3 & 3;               //  0: 2.5, 2: 2, 3: 1
    uint32_t rate = rates [head [2] >> 2 & 3] >> (version == 3? 0: version == 2? 1: 2);
    uint32_t bits = kilobits [version == 3] [head [2] >> 4] * 1000u;
    if (head [0] != 0xff || (head [1] & 0xe6) != 0xe2 || version == 1 || !rate || !bits)
        return 0;
    return (version == 3? 144: 72) * bits / rate + (head [2] >> 1 & 1);
}

//  Whether what stands behind the last frame is a tag of a music player's, or padding.
static bool
s_is_mp3_end (const audio_layout_t *self, size_t place)
{
    static const char *const tags [] = { "TAG", "APETAGEX", "LYRICSBEGIN", "ID3" };
    for (size_t index = 0; index < sizeof tags / sizeof *tags; index++)
        if (s_has (self, place, tags [index], strlen (tags [index])))
            return true;
    while (place < self->size && self->bytes [place] == 0)
        place++;
    return place == self->size;
}

//  How many frames follow the first one, as that tells: LAME and others write such a frame.  0: it does not.
static uint32_t
s_mp3_summary (const audio_layout_t *self, size_t first_bytes)
{
    size_t bytes = first_bytes < SUMMARY_AT_MAX? first_bytes: SUMMARY_AT_MAX;
    const uint8_t *mark = memmem (self->bytes, bytes, "Xing", 4);
    mark = mark? mark: memmem (self->bytes, bytes, "Info", 4);
    if (!mark || (size_t) (self->bytes + first_bytes - mark) < 12 || !(mark [7] & 1))
        return 0;
    return (uint32_t) s_number (mark + 8, 4, true);
}

//  Walks over the frames.  All must be there, one behind the other: libmpg123 would look for the next one
//  behind a gap, and the samples behind it would move up.
static int
s_check_mp3 (const reading_t *self)
{
    audio_layout_t *layout = self->layout;
    size_t place = 0, bytes, first = s_mp3_frame (layout, 0);
    uint64_t count = 0;
    for (; (bytes = s_mp3_frame (layout, place)) > 0; place += bytes, count++)
        if (bytes > layout->size - place)
            return s_bad (self, "truncated MP3: no whole frame at %zu of %zu bytes", place, layout->size);
    if (!s_is_mp3_end (layout, place))
        return s_bad (self, "damaged MP3: no frame at %zu of %zu bytes", place, layout->size);
    uint32_t told = first <= layout->size? s_mp3_summary (layout, first): 0;
    layout->has_frame_count = told > 0;
    layout->size = place;
    if (count > told)
        return 0;
    return s_bad (self, "truncated MP3: %llu of %u frames", (unsigned long long) (count? count - 1: 0), told);
}

//  Music players put their tags in front of any format; the length has 7 bits a byte.
static void
s_skip_tags (audio_layout_t *self)
{
    while (s_has (self, 0, "ID3", 3) && self->size >= TAG_HEAD_BYTES) {
        const uint8_t *tag = self->bytes;
        size_t bytes = TAG_HEAD_BYTES + ((size_t) (tag [6] & 127) << 21 | (size_t) (tag [7] & 127) << 14
            | (size_t) (tag [8] & 127) << 7 | (tag [9] & 127)) + (tag [5] & TAG_HAS_FOOT? TAG_HEAD_BYTES: 0);
        bytes = bytes < self->size? bytes: self->size;
        self->bytes += bytes;
        self->size -= bytes;
    }
}

int
audio_layout_read (audio_layout_t *self, const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
{
    assert (self && error && error_bytes > 0);
    *self = (audio_layout_t) { .bytes = bytes, .size = size };
    reading_t reading = { self, error, error_bytes };
    s_skip_tags (self);
    for (size_t index = 0; index < sizeof s_chunks / sizeof *s_chunks; index++) {
        const chunks_t *chunks = &s_chunks [index];
        if (s_has (self, 0, chunks->first, chunks->first_bytes)
        &&  s_has (self, chunks->second_at, chunks->second, strlen (chunks->second))) {
            self->format = chunks->format;
            return s_check_chunks (&reading, chunks);
        }
    }
    self->format = s_has (self, 0, "fLaC", 4)? "FLAC": s_has (self, 0, "OggS", 4)? "Ogg":
        s_has (self, 0, ".snd", 4) || s_has (self, 0, "dns.", 4)? "AU":
        s_has (self, 0, "NIST_1A", 7)? "SPHERE":
        s_mp3_frame (self, 0)? "MP3": NULL;
    if (!self->format)
        return s_bad (&reading, "none of " AUDIO_LAYOUT_FORMATS);
    if (strcmp (self->format, "Ogg") == 0)
        return s_check_pages (&reading);
    if (strcmp (self->format, "AU") == 0)
        return s_check_au (&reading);
    if (strcmp (self->format, "SPHERE") == 0)
        s_look_at_sphere (self);
    return strcmp (self->format, "MP3") == 0? s_check_mp3 (&reading): 0;
}

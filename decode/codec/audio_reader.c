/*  audio_reader.c -- tensor_reader's part for audio, on libsndfile: excerpts of sounds.
 *
 *  Samples of fixed point are what sf_readf_short and sf_readf_float give: the upper 16 bits, or -1 .. 1.
 *  Those of floating point (Vorbis, Opus, MP3, some WAV) become int16 by x 32767, rounded and cut off at the
 *  ends of the range, where sf_readf_short would wrap round.
 *
 *  A file that ends before its header says is bad, whatever the excerpt.  Other containers and codecs that
 *  libsndfile knows never get to it: each is one more way in for a hostile file.
 *  Any thread.
 */
#include "tensor_reader.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sndfile.h>
#ifdef TUREEN_SOXR
#include <soxr.h>
#endif
#include "instrument.h"

//  ---------------------------------------------------------------------------------------------------------
//  The layout: which format a file of sound has by its first bytes, and whether all of it is there, before
//  libsndfile sees it: libsndfile takes what is there for all of it.  Untrusted bytes; nothing is allocated.

typedef struct {
    const uint8_t *bytes;               //  of the sound, lent: behind ID3 tags
    size_t size;                        //  without what stands behind the last page of an Ogg file or
                                        //  the last frame of an MP3
    const char *format;                 //  what people call it; static
    uint64_t frames_min;                //  what a header of SPHERE tells; else 0
    bool has_frame_count;               //  of MP3: its first frame tells how many there are
} audio_layout_t;

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

static int s_odd (const reading_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static int
s_odd (const reading_t *self, const char *format, ...)
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

//  ---- layout: chunks

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
            return is_unknown || length <= left? 0: s_odd (self, "truncated %s: %zu of %llu bytes of samples",
                chunks->format, left, (unsigned long long) length);
        }
        if (length > left)
            return 0;
        size_t whole = head_bytes + (size_t) length, beyond = whole % chunks->alignment;
        place += whole + (beyond? chunks->alignment - beyond: 0);
    }
    //  libsndfile takes what there is of the length for all of it.
    return s_has (layout, place, chunks->samples, chunks->name_bytes)?
        s_odd (self, "truncated %s: it ends before its samples begin", chunks->format): 0;
}

//  ---- layout: ogg

INSTRUMENT_ROWS static bool
s_page_is_damaged (const uint8_t *page, size_t bytes, const uint32_t table [256])
{
    uint32_t sum = 0;
    for (size_t index = 0; index < bytes; index++) {
        uint32_t byte = index - PAGE_SUM_AT < sizeof sum? 0: page [index];
        sum = (sum << 8) ^ table [(sum >> 24) ^ byte];
    }
    return sum != s_number (page + PAGE_SUM_AT, 4, false);
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
            return s_odd (self, "truncated or damaged Ogg: no page at %zu of %zu bytes", place,
                self->layout->size);
        if (s_page_is_damaged (page, bytes, table))
            return s_odd (self, "damaged Ogg: a wrong checksum at %zu of %zu bytes", place,
                self->layout->size);
        is_last = page [PAGE_FLAGS_AT] & PAGE_IS_LAST;
        if (is_last)
            self->layout->size = place + bytes;
    }
    return 0;
}

//  ---- layout: others

//  AU: ".snd", where its samples begin, how many bytes they have (all ones: not known); or all of it in the
//  other order.
static int
s_check_au (const reading_t *self)
{
    const audio_layout_t *layout = self->layout;
    bool is_big_endian = s_has (layout, 0, ".snd", 4);
    if (layout->size < AU_HEAD_BYTES)
        return s_odd (self, "truncated AU: no header");
    uint64_t begin = s_number (layout->bytes + 4, 4, is_big_endian);
    uint64_t length = s_number (layout->bytes + 8, 4, is_big_endian);
    if (length == UINT32_MAX || begin + length <= layout->size)
        return 0;
    return s_odd (self, "truncated AU: it ends before its %llu bytes of samples do",
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
            return s_odd (self, "truncated MP3: no whole frame at %zu of %zu bytes", place, layout->size);
    if (!s_is_mp3_end (layout, place))
        return s_odd (self, "damaged MP3: no frame at %zu of %zu bytes", place, layout->size);
    uint32_t told = first <= layout->size? s_mp3_summary (layout, first): 0;
    layout->has_frame_count = told > 0;
    layout->size = place;
    if (count > told)
        return 0;
    return s_odd (self, "truncated MP3: %llu of %u frames", (unsigned long long) (count? count - 1: 0), told);
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

//  0; or -EBADMSG, and error (always ended) says what the file is not, or what is missing.
static int
s_layout_read (audio_layout_t *self, const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
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
        return s_odd (&reading, "none of " TENSOR_READER_AUDIO_FORMATS);
    if (strcmp (self->format, "Ogg") == 0)
        return s_check_pages (&reading);
    if (strcmp (self->format, "AU") == 0)
        return s_check_au (&reading);
    if (strcmp (self->format, "SPHERE") == 0)
        s_look_at_sphere (self);
    return strcmp (self->format, "MP3") == 0? s_check_mp3 (&reading): 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  The reader

enum {
    BLOCK_ITEMS = 4096,                 //  read at a time, of all channels together
    //  The headers of libsndfile before 1.1 do not have them; such a library refuses MP3.
    FORMAT_MPEG = 0x230000, FORMAT_MPEG_LAYER_III = 0x0082
};

//  The file in memory, for libsndfile to read, and where complaints go.
typedef struct {
    audio_layout_t layout;
    size_t place;
    SNDFILE *file;
    SF_INFO info;
    bool is_float;                      //  its samples are
    uint64_t frames;                    //  that an excerpt is of: the file's, or what they are resampled to
#ifdef TUREEN_SOXR
    soxr_t resampler;                   //  NULL: as they are
    //  Of the file, on their way into it.
    float waiting [BLOCK_ITEMS];
    size_t waiting_from, waiting_frames;
#endif
    char *error;
    size_t error_bytes;
} audio_t;

typedef union {
    float wide [BLOCK_ITEMS];
    int16_t narrow [BLOCK_ITEMS];
    uint8_t bytes [BLOCK_ITEMS * sizeof (float)];
} block_t;

#ifdef TUREEN_SOXR
enum { RESAMPLED_FACTOR_MAX = 256 };    //  from one rate to the other, up or down
static const int64_t s_resampled_frames_max = (int64_t) 1 << 31;     //  a FLAC of a few bytes may say more
#endif

static int s_bad (const audio_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static int
s_bad (const audio_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error, self->error_bytes, format, arguments);
    va_end (arguments);
    return -EBADMSG;
}

//  ---------------------------------------------------------------------------------------------------------
//  What libsndfile calls back

static sf_count_t
s_length (void *self_p)
{
    audio_t *self = self_p;
    return (sf_count_t) self->layout.size;
}

static sf_count_t
s_seek (sf_count_t offset, int whence, void *self_p)
{
    audio_t *self = self_p;
    size_t from = whence == SEEK_SET? 0: whence == SEEK_CUR? self->place: self->layout.size;
    //  Beyond either end nothing can be read: uses the nearest end.
    if (offset < 0)
        self->place = (uint64_t) -(offset + 1) < from? from - (size_t) -(offset + 1) - 1: 0;
    else
        self->place = (uint64_t) offset < self->layout.size - from? from + (size_t) offset: self->layout.size;
    return (sf_count_t) self->place;
}

static sf_count_t
s_read (void *target, sf_count_t count, void *self_p)
{
    audio_t *self = self_p;
    size_t left = self->layout.size - self->place;
    size_t bytes = count < 0? 0: (uint64_t) count < left? (size_t) count: left;
    memcpy (target, self->layout.bytes + self->place, bytes);
    self->place += bytes;
    return (sf_count_t) bytes;
}

static sf_count_t
s_tell (void *self_p)
{
    audio_t *self = self_p;
    return (sf_count_t) self->place;
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening: first bytes -> is all of it there -> libsndfile -> is it what was declared

//  Whether the samples are floating point: kept so, or made by a decoder that computes in it.
static bool
s_is_float (int subtype)
{
    return subtype == SF_FORMAT_FLOAT || subtype == SF_FORMAT_DOUBLE || subtype == SF_FORMAT_VORBIS
        || subtype == SF_FORMAT_OPUS || subtype == FORMAT_MPEG_LAYER_III;
}

static bool
s_is_adpcm (int subtype)
{
    return subtype == SF_FORMAT_IMA_ADPCM || subtype == SF_FORMAT_MS_ADPCM;
}

//  Kinds of samples that are read.  Not GSM, G.72x, DWVW, ALAC and other rare ones of libsndfile's: each is a
//  decoder more for hostile bytes.
static bool
s_is_read (const audio_t *self)
{
    int subtype = self->info.format & SF_FORMAT_SUBMASK;
    switch (self->info.format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
    case SF_FORMAT_RF64:
    case SF_FORMAT_W64:
    case SF_FORMAT_AIFF:
    case SF_FORMAT_AU:
    case SF_FORMAT_CAF:
    case SF_FORMAT_NIST:
        return s_is_float (subtype) || s_is_adpcm (subtype) || subtype == SF_FORMAT_PCM_U8
            || subtype == SF_FORMAT_PCM_S8 || subtype == SF_FORMAT_PCM_16 || subtype == SF_FORMAT_PCM_24
            || subtype == SF_FORMAT_PCM_32 || subtype == SF_FORMAT_ULAW || subtype == SF_FORMAT_ALAW;
    case SF_FORMAT_FLAC:
        return true;
    case SF_FORMAT_OGG:
        return subtype == SF_FORMAT_VORBIS || subtype == SF_FORMAT_OPUS;
    case FORMAT_MPEG:
        return subtype == FORMAT_MPEG_LAYER_III;
    default:
        return false;
    }
}

static int
s_open (audio_t *self, const decode_tensor_t *decode, const uint8_t *bytes, size_t size)
{
    static SF_VIRTUAL_IO calls = { s_length, s_seek, s_read, NULL, s_tell };
    int rc = s_layout_read (&self->layout, bytes, size, self->error, self->error_bytes);
    const char *format = self->layout.format;
    if (rc)
        return rc;
    errno = 0;
    self->file = sf_open_virtual (&calls, SFM_READ, &self->info, self);
    if (!self->file) {                  //  why, is in a variable that all threads share
        rc = errno == ENOMEM? -ENOMEM: -EBADMSG;
        s_bad (self, rc == -ENOMEM? "not enough memory for a file of %s": "damaged or unsupported %s",
            format);
        return rc;
    }
    if (!s_is_read (self))
        return s_bad (self, "unsupported %s: only fixed and floating point, mu law, A law, IMA and Microsoft "
            "ADPCM, FLAC, Vorbis, Opus and MP3 are read", format);
    self->is_float = s_is_float (self->info.format & SF_FORMAT_SUBMASK);
    if ((uint32_t) self->info.channels != decode->channels) {
        s_bad (self, "channels: %d instead of %u", self->info.channels, decode->channels);
        return -EDOM;
    }
    if (decode->rate && !decode->resamples && (uint32_t) self->info.samplerate != decode->rate) {
        s_bad (self, "rate: %d a second instead of %u; \"resample\": true in decode resamples "
            "it", self->info.samplerate, decode->rate);
        return -EDOM;
    }
    if (self->info.frames == SF_COUNT_MAX || self->info.frames < 0 || !self->info.seekable)
        return s_bad (self, "%s that does not say how long it is, or ends before its samples do", format);
    return (uint64_t) self->info.frames >= self->layout.frames_min? 0: s_bad (self,
        "truncated %s: %lld of %llu frames", format, (long long) self->info.frames,
        (unsigned long long) self->layout.frames_min);
}

//  Of the file.
static size_t
s_read_file (audio_t *self, dtype_t dtype, block_t *block, size_t frames)
{
    bool is_narrow = dtype == DTYPE_INT16;
    sf_count_t got = is_narrow && !self->is_float?
        sf_readf_short (self->file, block->narrow, (sf_count_t) frames):
        sf_readf_float (self->file, block->wide, (sf_count_t) frames);
    if (got <= 0)
        return 0;
    size_t items = (size_t) got * (size_t) self->info.channels;
    for (size_t item = 0; is_narrow && self->is_float && item < items; item++) {
        float value = block->wide [item] * INT16_MAX;
        long rounded = value >= INT16_MAX? INT16_MAX: value <= INT16_MIN? INT16_MIN: value != value? 0:
            lrintf (value);
        //  In place: the narrow ones come after what has been read.
        block->narrow [item] = (int16_t) rounded;
    }
    return (size_t) got;
}

#ifdef TUREEN_SOXR
//  A stream: of all frames from the first on comes what soxr makes of the whole, whatever the pieces are.
static size_t
s_read_resampled (audio_t *self, float *target, size_t frames)
{
    size_t channels = (size_t) self->info.channels, taken, made;
    do {
        if (self->waiting_frames == 0) {
            block_t block;
            self->waiting_from = 0;
            self->waiting_frames = s_read_file (self, DTYPE_FLOAT32, &block, BLOCK_ITEMS / channels);
            memcpy (self->waiting, block.wide, self->waiting_frames * channels * sizeof (float));
        }
        bool is_end = self->waiting_frames == 0;
        const float *waiting = self->waiting + self->waiting_from * channels;
        taken = made = 0;
        if (soxr_process (self->resampler, is_end? NULL: waiting, self->waiting_frames, &taken, target,
            frames, &made))
            return 0;                   //  no memory
        self->waiting_from += taken;
        self->waiting_frames -= taken;
        if (is_end && made == 0)
            return 0;
    } while (made == 0);
    return made;
}

//  In libsoxr's quality HQ, floats, as soxr.resample of Python's package of that name.  NULL without memory.
static soxr_t
s_new_resampler (uint32_t from_rate, uint32_t to_rate, uint32_t channels)
{
    soxr_quality_spec_t quality = soxr_quality_spec (SOXR_HQ, 0);
    soxr_io_spec_t numbers = soxr_io_spec (SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    soxr_runtime_spec_t threads = soxr_runtime_spec (1);
    soxr_error_t error = NULL;
    soxr_t soxr = soxr_create (from_rate, to_rate, channels, &error, &numbers, &quality, &threads);
    if (soxr && error) {
        soxr_delete (soxr);
        soxr = NULL;
    }
    return soxr;
}

//  How an excerpt comes to be of another rate than the file.
static int
s_start_resampling (audio_t *self, const decode_tensor_t *decode)
{
    uint32_t rate = (uint32_t) self->info.samplerate, factor = RESAMPLED_FACTOR_MAX;
    if (!decode->resamples || rate == decode->rate)
        return 0;
    if (rate > (uint64_t) decode->rate * factor || decode->rate > (uint64_t) rate * factor
    ||  self->info.frames > s_resampled_frames_max) {
        s_bad (self, "%lld frames of rate %u are not resampled to %u: at most %lld are, to a rate at most %u "
            "times higher or lower", (long long) self->info.frames, rate, decode->rate,
            (long long) s_resampled_frames_max, factor);
        return -EDOM;
    }
    //  To the nearest, halves up.
    self->frames = (uint64_t) (((unsigned __int128) self->info.frames * decode->rate + rate / 2) / rate);
    self->resampler = s_new_resampler (rate, decode->rate, decode->channels);
    //  A FLAC was read at its end.
    if (self->resampler && (self->info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC
    &&  sf_seek (self->file, 0, SEEK_SET) != 0)
        return s_bad (self, "damaged FLAC");
    if (self->resampler)
        return 0;
    s_bad (self, "not enough memory to resample from %u to %u", rate, decode->rate);
    return -ENOMEM;
}
#endif

//  Reads at most frames, by which block_t has room for; how many.
static size_t
s_read_frames (audio_t *self, dtype_t dtype, block_t *block, size_t frames)
{
#ifdef TUREEN_SOXR
    if (self->resampler)
        return s_read_resampled (self, block->wide, frames);
#endif
    return s_read_file (self, dtype, block, frames);
}

//  Whether a frame depends on those before, so that all are read: then it is what a read of the whole file
//  gives.  In a Vorbis stream libsndfile (1.2) also finds wrong frames in the last page, and dereferences
//  NULL where a packet that it seeks past has a mode that there is not.
static bool
s_is_read_through (const audio_t *self)
{
#ifdef TUREEN_SOXR
    if (self->resampler)
        return true;
#endif
    int subtype = self->info.format & SF_FORMAT_SUBMASK;
    return s_is_adpcm (subtype) || subtype == SF_FORMAT_VORBIS || subtype == SF_FORMAT_OPUS
        || subtype == FORMAT_MPEG_LAYER_III;
}

//  The last frame of a FLAC stands for all: where it is missing, some excerpts would be good and some bad.
static int
s_check_end (audio_t *self)
{
    block_t block;
    sf_count_t last = self->info.frames - 1;
    if ((self->info.format & SF_FORMAT_TYPEMASK) != SF_FORMAT_FLAC || last < 0
    ||  (sf_seek (self->file, last, SEEK_SET) == last
    && s_read_frames (self, DTYPE_FLOAT32, &block, 1) == 1))
        return 0;
    return s_bad (self, "truncated or damaged FLAC: it ends before its %lld frames do",
        (long long) self->info.frames);
}

//  How long an MP3 is that has no frame to tell it, libsndfile guesses by the file's size: such a file is
//  decoded to its end to know it.
static int
s_measure_mp3 (audio_t *self)
{
    block_t block;
    sf_count_t frames = 0, room = BLOCK_ITEMS / self->info.channels;
    if ((self->info.format & SF_FORMAT_SUBMASK) != FORMAT_MPEG_LAYER_III || self->layout.has_frame_count)
        return 0;
    for (size_t got = 1; got > 0; frames += (sf_count_t) got)
        got = s_read_frames (self, DTYPE_FLOAT32, &block, (size_t) room);
    self->info.frames = frames;
    return sf_seek (self->file, 0, SEEK_SET) == 0? 0: s_bad (self, "damaged MP3");
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading the excerpt

static uint64_t
s_begin (uint64_t frames, uint32_t length, double place)
{
    if (frames <= length)
        return 0;
    uint64_t spare = frames - length;
    if (place < 0)
        return spare / 2;
    uint64_t begin = (uint64_t) (place * (double) (spare + 1));
    return begin < spare? begin: spare;
}

//  Frames of a block, in which channels alternate, to where each channel has a row of its own.
INSTRUMENT_ROWS static void
s_scatter (const block_t *block, size_t frames, uint32_t channels, size_t item_bytes, uint8_t *target,
    size_t row_bytes)
{
    for (uint32_t channel = 0; channel < channels; channel++) {
        uint8_t *row = target + channel * row_bytes;
        for (size_t frame = 0; frame < frames; frame++) {
            const uint8_t *item = block->bytes + (frame * channels + channel) * item_bytes;
            for (size_t index = 0; index < item_bytes; index++)
                row [frame * item_bytes + index] = item [index];
        }
        instrument_written (row, frames * item_bytes);
    }
}

static bool
s_go_to (audio_t *self, uint64_t begin)
{
    if (!s_is_read_through (self))
        return sf_seek (self->file, (sf_count_t) begin, SEEK_SET) == (sf_count_t) begin;
    block_t block;
    size_t got = 1, room = BLOCK_ITEMS / (size_t) self->info.channels;
    for (uint64_t left = begin; left > 0 && got > 0; left -= got)
        got = s_read_frames (self, DTYPE_FLOAT32, &block, left < room? (size_t) left: room);
    return got > 0;
}

static int
s_read_excerpt (audio_t *self, const decode_tensor_t *decode, uint32_t length, double place, uint8_t *target)
{
    uint64_t frames = self->frames, begin = s_begin (frames, length, place);
    size_t wanted = frames < length? (size_t) frames: length, done = 0;
    size_t item_bytes = dtype_bytes (decode->dtype), row_bytes = length * item_bytes;
    size_t block_frames = BLOCK_ITEMS / decode->channels;
    if (wanted < length)
        memset (target, 0, row_bytes * decode->channels);
    bool is_there = wanted == 0 || s_go_to (self, begin);
    while (is_there && done < wanted) {
        block_t block;
        size_t left = wanted - done;
        size_t got = s_read_frames (self, decode->dtype, &block, left < block_frames? left: block_frames);
        s_scatter (&block, got, decode->channels, item_bytes, target + done * item_bytes, row_bytes);
        done += got;
        is_there = got > 0;
    }
    //  Whatever it read past: that is no sample.
    return is_there && sf_error (self->file) == SF_ERR_NO_ERROR? 0:
        s_bad (self, "damaged, or ends before its %llu frames do: at frame %llu", (unsigned long long) frames,
        (unsigned long long) (begin + done));
}

int
tensor_reader_excerpt (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes,
    size_t size, uint8_t *target, char *error, size_t error_bytes)
{
    assert (decode && (decode->dtype == DTYPE_FLOAT32 || decode->dtype == DTYPE_INT16));
    assert (decode->channels > 0);
    audio_t audio = { .error = error, .error_bytes = error_bytes };
    int rc = s_open (&audio, decode, bytes, size);
    if (rc == 0)
        rc = s_check_end (&audio);
    if (rc == 0)
        rc = s_measure_mp3 (&audio);
    audio.frames = rc == 0? (uint64_t) audio.info.frames: 0;
#ifdef TUREEN_SOXR
    if (rc == 0)
        rc = s_start_resampling (&audio, decode);
#endif
    if (rc == 0)
        rc = s_read_excerpt (&audio, decode, length, place, target);
    if (audio.file)
        sf_close (audio.file);
#ifdef TUREEN_SOXR
    if (audio.resampler)
        soxr_delete (audio.resampler);
#endif
    return rc;
}

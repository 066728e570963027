#include "audio_reader.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sndfile.h>
#include "instrument.h"

enum {
    BLOCK_ITEMS = 4096,                 //  read at a time, of all channels together
    RIFF_BYTES = 12, CHUNK_HEAD_BYTES = 8,
    //  A page of Ogg: this, how long its segments are (a byte each), and the segments.
    PAGE_HEAD_BYTES = 27, PAGE_FLAGS_AT = 5, PAGE_SUM_AT = 22, PAGE_SEGMENTS_AT = 26, PAGE_IS_LAST = 4
};
//  What stands in a WAV for a length that was not known when its header was written: 0xffffffff, or near
//  0x7fffffff.
static const uint32_t s_wav_unknown_min = 0x7fff0000;

//  The file in memory, for libsndfile to read, and where complaints go.
typedef struct {
    const uint8_t *bytes;
    size_t size;
    size_t place;
    SNDFILE *file;
    SF_INFO info;
    bool is_float;                      //  its samples are
    char *error;
    size_t error_bytes;
} audio_t;

typedef union {
    float wide [BLOCK_ITEMS];
    int16_t narrow [BLOCK_ITEMS];
    uint8_t bytes [BLOCK_ITEMS * sizeof (float)];
} block_t;

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

const char *
audio_formats (void)
{
    return "WAV, FLAC, Ogg";
}

//  ---------------------------------------------------------------------------------------------------------
//  What libsndfile calls back

static sf_count_t
s_length (void *self_p)
{
    audio_t *self = self_p;
    return (sf_count_t) self->size;
}

static sf_count_t
s_seek (sf_count_t offset, int whence, void *self_p)
{
    audio_t *self = self_p;
    size_t from = whence == SEEK_SET? 0: whence == SEEK_CUR? self->place: self->size;
    //  Beyond either end nothing can be read: uses the nearest end.
    if (offset < 0)
        self->place = (uint64_t) -(offset + 1) < from? from - (size_t) -(offset + 1) - 1: 0;
    else
        self->place = (uint64_t) offset < self->size - from? from + (size_t) offset: self->size;
    return (sf_count_t) self->place;
}

static sf_count_t
s_read (void *target, sf_count_t count, void *self_p)
{
    audio_t *self = self_p;
    size_t left = self->size - self->place;
    size_t bytes = count < 0? 0: (uint64_t) count < left? (size_t) count: left;
    memcpy (target, self->bytes + self->place, bytes);
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
//  What kind of file is it, and is all of it there?  libsndfile takes what is there for all of it

//  WAV, FLAC or Ogg; NULL: none of them.
static const char *
s_format (const audio_t *self)
{
    if (self->size >= RIFF_BYTES && !memcmp (self->bytes, "RIFF", 4) && !memcmp (self->bytes + 8, "WAVE", 4))
        return "WAV";
    if (self->size >= 4 && !memcmp (self->bytes, "fLaC", 4))
        return "FLAC";
    return self->size >= 4 && !memcmp (self->bytes, "OggS", 4)? "Ogg": NULL;
}

static uint32_t
s_little_32 (const uint8_t *bytes)
{
    return bytes [0] | (uint32_t) bytes [1] << 8 | (uint32_t) bytes [2] << 16 | (uint32_t) bytes [3] << 24;
}

//  Checks that the "data" chunk of a WAV is whole.  If there is none, libsndfile decides.
static int
s_check_chunks (const audio_t *self)
{
    size_t place = RIFF_BYTES;
    while (place < self->size && self->size - place >= CHUNK_HEAD_BYTES) {
        size_t left = self->size - place - CHUNK_HEAD_BYTES;
        uint32_t length = s_little_32 (self->bytes + place + 4);
        if (!memcmp (self->bytes + place, "data", 4))
            return length <= left || length >= s_wav_unknown_min? 0:
                s_bad (self, "truncated WAV: %zu of %u bytes of samples", left, length);
        place += CHUNK_HEAD_BYTES + (size_t) length + length % 2;
    }
    return 0;
}

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
s_check_pages (audio_t *self)
{
    uint32_t table [256];
    bool is_last = false;
    s_fill_table (table);
    for (size_t place = 0, bytes; !is_last; place += bytes) {
        const uint8_t *page = self->bytes + place;
        bytes = s_page_bytes (page, self->size - place);
        if (bytes == 0)
            return s_bad (self, "truncated or damaged Ogg: no page at %zu of %zu bytes", place, self->size);
        if (s_page_is_damaged (page, bytes, table))
            return s_bad (self, "damaged Ogg: a wrong checksum at %zu of %zu bytes", place, self->size);
        is_last = page [PAGE_FLAGS_AT] & PAGE_IS_LAST;
        if (is_last)
            self->size = place + bytes;
    }
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening: first bytes -> is all of it there -> libsndfile -> is it what was declared

//  Kinds of samples that are read: what is fixed or floating point, and the simplest compressed ones.
static bool
s_is_read (audio_t *self)
{
    int subtype = self->info.format & SF_FORMAT_SUBMASK;
    self->is_float = subtype == SF_FORMAT_FLOAT || subtype == SF_FORMAT_DOUBLE || subtype == SF_FORMAT_VORBIS;
    switch (self->info.format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
        return self->is_float || subtype == SF_FORMAT_PCM_U8 || subtype == SF_FORMAT_PCM_16
            || subtype == SF_FORMAT_PCM_24
            || subtype == SF_FORMAT_PCM_32 || subtype == SF_FORMAT_ULAW || subtype == SF_FORMAT_ALAW;
    case SF_FORMAT_FLAC:
        return true;
    case SF_FORMAT_OGG:
        return subtype == SF_FORMAT_VORBIS;
    default:
        return false;
    }
}

static int
s_open (audio_t *self, const decode_tensor_t *decode)
{
    static SF_VIRTUAL_IO calls = { s_length, s_seek, s_read, NULL, s_tell };
    const char *format = s_format (self);
    if (!format)
        return s_bad (self, "neither WAV nor FLAC nor Ogg");
    int rc = !strcmp (format, "WAV")? s_check_chunks (self): !strcmp (format, "Ogg")? s_check_pages (self): 0;
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
        return s_bad (self, "unsupported %s: only fixed and floating point, FLAC and Vorbis are read",
            format);
    if ((uint32_t) self->info.channels != decode->channels) {
        s_bad (self, "channels: %d instead of %u", self->info.channels, decode->channels);
        return -EDOM;
    }
    if (decode->rate && (uint32_t) self->info.samplerate != decode->rate) {
        s_bad (self, "rate: %d a second instead of %u", self->info.samplerate, decode->rate);
        return -EDOM;
    }
    if (self->info.frames == SF_COUNT_MAX || self->info.frames < 0 || !self->info.seekable)
        return s_bad (self, "%s that does not say how long it is, or ends before its samples do", format);
    return 0;
}

//  Reads at most frames, by which block_t has room for; how many.
static size_t
s_read_frames (audio_t *self, dtype_t dtype, block_t *block, size_t frames)
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

//  To frame begin.  Through a Vorbis stream all is read: libsndfile (1.2) finds wrong frames in its last
//  page, and dereferences NULL where a packet that it seeks past has a mode that there is not.
static bool
s_go_to (audio_t *self, uint64_t begin)
{
    if ((self->info.format & SF_FORMAT_SUBMASK) != SF_FORMAT_VORBIS)
        return sf_seek (self->file, (sf_count_t) begin, SEEK_SET) == (sf_count_t) begin;
    block_t block;
    size_t got = 1, room = BLOCK_ITEMS / (size_t) self->info.channels;
    for (uint64_t left = begin; left > 0 && got > 0; left -= got)
        got = s_read_frames (self, DTYPE_FLOAT32, &block, left < room? (size_t) left: room);
    return got > 0;
}

static int
s_read_excerpt (audio_t *self, const decode_tensor_t *decode, uint32_t length, double place,
    uint8_t *target)
{
    uint64_t frames = (uint64_t) self->info.frames, begin = s_begin (frames, length, place);
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
audio_read (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes,
    size_t size, uint8_t *target, char *error, size_t error_bytes)
{
    assert (decode && (decode->dtype == DTYPE_FLOAT32 || decode->dtype == DTYPE_INT16));
    assert (decode->channels > 0);
    audio_t audio = { .bytes = bytes, .size = size, .error = error, .error_bytes = error_bytes };
    int rc = s_open (&audio, decode);
    if (rc == 0)
        rc = s_check_end (&audio);
    if (rc == 0)
        rc = s_read_excerpt (&audio, decode, length, place, target);
    if (audio.file)
        sf_close (audio.file);
    return rc;
}

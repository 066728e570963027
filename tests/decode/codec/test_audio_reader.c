//  test_audio_reader -- excerpts of audio files made by libsndfile; its read of the whole file is the model.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <sndfile.h>
#ifdef TUREEN_SOXR
#include <soxr.h>
#endif
#include "decoder.h"
#include "seed.h"
#include "tensor_reader.h"

enum { FILE_BYTES_MAX = 1 << 19, ERROR_BYTES = 200, CHANNELS_MAX = 3, FRAMES_MAX = 20000, HEADS_MAX = 128 };

//  A file that libsndfile writes or reads.
typedef struct {
    uint8_t bytes [FILE_BYTES_MAX];
    size_t size;
    size_t place;
} file_t;

//  All of one, as libsndfile reads it, channels alternating.
typedef struct {
    float wide [FRAMES_MAX * CHANNELS_MAX];
    int16_t narrow [FRAMES_MAX * CHANNELS_MAX];
    size_t frames;
    size_t channels;
} model_t;

static const struct { const char *name; int format; bool is_float; } s_formats [] = {
    { "WAV, 16 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_16, false },
    { "WAV, 8 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_U8, false },
    { "WAV, 24 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_24, false },
    { "WAV, 32 bits", SF_FORMAT_WAVEX | SF_FORMAT_PCM_32, false },
    { "WAV, float", SF_FORMAT_WAV | SF_FORMAT_FLOAT, true },
    { "WAV, double", SF_FORMAT_WAVEX | SF_FORMAT_DOUBLE, true },
    { "WAV, mu law", SF_FORMAT_WAV | SF_FORMAT_ULAW, false },
    { "WAV, A law", SF_FORMAT_WAV | SF_FORMAT_ALAW, false },
    { "FLAC, 16 bits", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, false },
    { "FLAC, 24 bits", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, false },
    { "Ogg Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, true },
    { "Ogg Opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, true },
    { "MP3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, true },
    { "RF64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, false },
    { "W64", SF_FORMAT_W64 | SF_FORMAT_PCM_24, false },
    { "AIFF", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, false },
    { "AIFF, 8 bits", SF_FORMAT_AIFF | SF_FORMAT_PCM_S8, false },
    { "AIFF-C, float", SF_FORMAT_AIFF | SF_FORMAT_FLOAT, true },
    { "AU", SF_FORMAT_AU | SF_FORMAT_PCM_16, false },
    { "AU, little endian, mu law", SF_FORMAT_AU | SF_FORMAT_ULAW | SF_ENDIAN_LITTLE, false },
    { "CAF", SF_FORMAT_CAF | SF_FORMAT_PCM_16, false },
    { "CAF, double", SF_FORMAT_CAF | SF_FORMAT_DOUBLE, true },
    { "SPHERE", SF_FORMAT_NIST | SF_FORMAT_PCM_16, false },
    { "SPHERE, mu law", SF_FORMAT_NIST | SF_FORMAT_ULAW, false },
    { "WAV, IMA ADPCM", SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, false },
    { "WAV, Microsoft ADPCM", SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM, false }
};
enum { FORMATS = sizeof s_formats / sizeof *s_formats, WAV = 0, WAV_FLOAT = 4, FLAC = 8, VORBIS = 10,
    OPUS = 11, MP3 = 12, ADPCM = FORMATS - 2 };

//  ---------------------------------------------------------------------------------------------------------
//  Files

static sf_count_t
s_length (void *file_p)
{
    return (sf_count_t) ((file_t *) file_p)->size;
}

static sf_count_t
s_seek (sf_count_t offset, int whence, void *file_p)
{
    file_t *file = file_p;
    sf_count_t from = (sf_count_t) (whence == SEEK_SET? 0: whence == SEEK_CUR? file->place: file->size);
    file->place = (size_t) (from + offset);
    return from + offset;
}

static sf_count_t
s_read (void *target, sf_count_t count, void *file_p)
{
    file_t *file = file_p;
    size_t left = file->place < file->size? file->size - file->place: 0,
        bytes = (size_t) count < left? (size_t) count: left;
    memcpy (target, file->bytes + file->place, bytes);
    file->place += bytes;
    return (sf_count_t) bytes;
}

static sf_count_t
s_write (const void *source, sf_count_t count, void *file_p)
{
    file_t *file = file_p;
    assert_true (file->place + (size_t) count <= sizeof file->bytes);
    memcpy (file->bytes + file->place, source, (size_t) count);
    file->place += (size_t) count;
    if (file->place > file->size)
        file->size = file->place;
    return count;
}

static sf_count_t
s_tell (void *file_p)
{
    return (sf_count_t) ((file_t *) file_p)->place;
}

static SF_VIRTUAL_IO s_calls = { s_length, s_seek, s_read, s_write, s_tell };

//  A tune with noise, of the loudness given (1: just not too loud).
static void
s_make (file_t *file, int format, size_t channels, size_t frames, float loudness, uint64_t seed)
{
    static float items [FRAMES_MAX * CHANNELS_MAX];
    for (size_t item = 0; item < frames * channels; item++)
        items [item] = loudness * (0.8f
            * sinf ((float) (item / channels) * 0.05f * (float) (1 + item % channels))
            + (float) test_below (&seed, 1000) / 5001);
    file->size = file->place = 0;
    SF_INFO info = { .samplerate = 16000, .channels = (int) channels, .format = format };
    SNDFILE *sound = sf_open_virtual (&s_calls, SFM_WRITE, &info, file);
    assert_non_null (sound);
    assert_int_equal (sf_writef_float (sound, items, (sf_count_t) frames), frames);
    sf_close (sound);
}

static void
s_read_whole (model_t *model, file_t *file)
{
    for (int is_narrow = 0; is_narrow < 2; is_narrow++) {
        file->place = 0;
        SF_INFO info = { 0 };
        SNDFILE *sound = sf_open_virtual (&s_calls, SFM_READ, &info, file);
        assert_non_null (sound);
        assert_true (info.frames <= FRAMES_MAX && info.channels <= CHANNELS_MAX);
        model->frames = (size_t) info.frames;
        model->channels = (size_t) info.channels;
        assert_int_equal (is_narrow? sf_readf_short (sound, model->narrow, FRAMES_MAX):
            sf_readf_float (sound, model->wide, FRAMES_MAX), info.frames);
        sf_close (sound);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading

//  To a target of exact size and from a copy of exact size, so that the address sanitizer sees what is beside
//  them.
static int
s_excerpt (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes, size_t size,
    uint8_t *target, char error [ERROR_BYTES])
{
    uint8_t *copy = malloc (size? size: 1);
    size_t target_bytes = (decode->dtype == DTYPE_INT16? 2: 4) * (size_t) length * decode->channels;
    uint8_t *exact = malloc (target_bytes);
    if (size)
        memcpy (copy, bytes, size);
    memset (exact, 0xa5, target_bytes);
    memset (error, 'x', ERROR_BYTES);
    int rc = tensor_reader_audio (decode, length, place, copy, size, exact, error, ERROR_BYTES);
    assert_true (rc == 0 || rc == -EBADMSG || rc == -EDOM);
    assert_non_null (memchr (error, 0, ERROR_BYTES));
    assert_int_equal (rc != 0, *error != 0);
    for (const char *at = error; *at; at++)
        assert_true (*at >= ' ' && *at <= '~');
    memcpy (target, exact, target_bytes);
    free (copy);
    free (exact);
    return rc;
}

static decode_tensor_t
s_audio (dtype_t dtype, size_t channels)
{
    return (decode_tensor_t) { .as = DECODE_AUDIO, .dtype = dtype, .channels = (uint32_t) channels };
}

static void
s_expect (int rc, const decode_tensor_t *decode, const uint8_t *bytes, size_t size, const char *fragment)
{
    static uint8_t target [FRAMES_MAX * CHANNELS_MAX * 4];
    char error [ERROR_BYTES];
    int found = s_excerpt (decode, 100, 0, bytes, size, target, error);
    if (found != rc || !strstr (error, fragment))
        fail_msg ("%d for %d, \"%s\" for \"%s\"", found, rc, error, fragment);
}

static void
s_expect_bad (const decode_tensor_t *decode, const uint8_t *bytes, size_t size, const char *fragment)
{
    s_expect (-EBADMSG, decode, bytes, size, fragment);
}

//  What is expected of one sample: zero behind the end; floating point times 32767, cut off, as int16.
static double
s_sample (const model_t *model, bool is_float, bool is_narrow, size_t frame, size_t channel)
{
    if (frame >= model->frames)
        return 0;
    size_t item = frame * model->channels + channel;
    if (!is_narrow)
        return (double) model->wide [item];
    if (!is_float)
        return model->narrow [item];
    return fmax (-32768, fmin (32767, rint ((double) (model->wide [item] * 32767.f))));
}

static void
s_expect_excerpt (const model_t *model, bool is_float, const file_t *file, bool is_narrow, uint32_t length,
    double place, size_t begin)
{
    static uint8_t target [2 * FRAMES_MAX * CHANNELS_MAX * 4];
    char error [ERROR_BYTES];
    decode_tensor_t decode = s_audio (is_narrow? DTYPE_INT16: DTYPE_FLOAT32, model->channels);
    if (s_excerpt (&decode, length, place, file->bytes, file->size, target, error))
        fail_msg ("%s", error);
    for (size_t channel = 0; channel < model->channels; channel++)
        for (size_t frame = 0; frame < length; frame++) {
            size_t item = channel * length + frame;
            const void *items = target;
            double found = is_narrow? (double) ((const int16_t *) items) [item]:
                (double) ((const float *) items) [item];
            double expected = s_sample (model, is_float, is_narrow, begin + frame, channel);
            if (found != expected)
                fail_msg ("place %g: sample %zu of channel %zu is %g for %g", place, frame, channel, found,
                    expected);
        }
}

//  ---------------------------------------------------------------------------------------------------------
//  Cases

//  Excerpts of all lengths are parts of the whole, from where they should be.
static void
test_excerpts_are_parts_of_the_whole (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    uint64_t random = test_seed ();
    for (size_t format = 0; format < FORMATS; format++)
        for (size_t channels = 1; channels <= CHANNELS_MAX; channels++) {
            bool is_float = s_formats [format].is_float;
            size_t frames = 1000 + test_below (&random, 9000);
            if (channels > 2 && (format == MP3 || format >= ADPCM))
                continue;               //  they know stereo at most
            s_make (&file, s_formats [format].format, channels, frames, 1, random);
            s_read_whole (&model, &file);
            if (model.frames < frames)
                fail_msg ("%s: %zu frames of %zu", s_formats [format].name, model.frames, frames);
            frames = model.frames;      //  ADPCM has whole blocks, AIFF an even number of bytes
            for (int round = 0; round < 8; round++) {
                uint32_t length = 1 + (uint32_t) test_below (&random, frames);
                double place = (double) test_below (&random, 1000) / 1000;
                size_t begin = (size_t) (place * (double) (frames - length + 1));
                s_expect_excerpt (&model, is_float, &file, round % 2, length, place, begin);
            }
            uint32_t whole = (uint32_t) frames;
            s_expect_excerpt (&model, is_float, &file, false, 100, -1, (frames - 100) / 2);
            s_expect_excerpt (&model, is_float, &file, true, 100, 0.9999999, frames - 100);
            s_expect_excerpt (&model, is_float, &file, true, 100, 0, 0);
            s_expect_excerpt (&model, is_float, &file, false, whole, 0.7, 0);
            s_expect_excerpt (&model, is_float, &file, true, whole + 50, 0.7, 0);
            s_expect_excerpt (&model, is_float, &file, false, whole + 1, -1, 0);
        }
}

//  Vorbis and floats know numbers beyond 1: as int16 they are cut off, and what is no number is silence.
static void
test_loud_floats (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    static const size_t formats [] = { WAV_FLOAT, VORBIS };
    for (size_t index = 0; index < 2; index++) {
        s_make (&file, s_formats [formats [index]].format, 2, 3000, 3, index);
        s_read_whole (&model, &file);
        s_expect_excerpt (&model, true, &file, true, 3000, 0, 0);
        s_expect_excerpt (&model, true, &file, false, 3000, 0, 0);
    }
    static const float odd [] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 1, -1, 0.5f };
    static const int16_t expected [] = { 0, 32767, -32768, 32767, -32768, 32767, -32767, 16384 };
    s_make (&file, s_formats [WAV_FLOAT].format, 1, 8, 1, 1);
    memcpy (file.bytes + file.size - sizeof odd, odd, sizeof odd);
    uint8_t target [16];
    char error [ERROR_BYTES];
    decode_tensor_t decode = s_audio (DTYPE_INT16, 1);
    assert_int_equal (s_excerpt (&decode, 8, 0, file.bytes, file.size, target, error), 0);
    assert_memory_equal (target, expected, sizeof expected);
}

static void
test_other_than_declared (void **state)
{
    (void) state;
    static file_t file;
    decode_tensor_t decode = s_audio (DTYPE_FLOAT32, 1);
    decode.rate = 44100;
    for (size_t format = 0; format < FORMATS; format++) {
        s_make (&file, s_formats [format].format, 2, 500, 1, 1);
        decode.channels = 1;
        s_expect (-EDOM, &decode, file.bytes, file.size, "channels: 2 instead of 1");
        decode.channels = 2;
        s_expect (-EDOM, &decode, file.bytes, file.size, "rate: 16000 a second instead of 44100");
    }
}

//  Formats that libsndfile would read too, and formats that no pipeline reads.  A format that another
//  pipeline reads counts as readable.
static void
test_other_formats (void **state)
{
    (void) state;
    static file_t file;
    static const struct { int format; const char *fragment; } formats [] = {
        { SF_FORMAT_VOC | SF_FORMAT_PCM_16, "none of WAV, RF64, W64" },
        { SF_FORMAT_SVX | SF_FORMAT_PCM_16, "none of" }, { SF_FORMAT_MAT5 | SF_FORMAT_PCM_16, "none of" },
        { SF_FORMAT_WAV | SF_FORMAT_GSM610, "unsupported WAV" },
        { SF_FORMAT_CAF | SF_FORMAT_ALAC_16, "unsupported CAF" },
        { SF_FORMAT_AU | SF_FORMAT_G721_32, "unsupported AU" },
    };
    decode_tensor_t decode = s_audio (DTYPE_INT16, 1);
    for (size_t index = 0; index < sizeof formats / sizeof *formats; index++) {
        s_make (&file, formats [index].format, 1, 500, 1, 1);
        s_expect_bad (&decode, file.bytes, file.size, formats [index].fragment);
    }
    static const struct { const char *bytes; size_t size; const char *fragment; } cases [] = {
        { "", 0, "none of" }, { "RIFF\4\0\0\0WAV", 11, "none of" },
        { "RIFF\4\0\0\0WAVE", 12, "unsupported WAV" },
        { "RIFF\4\0\0\0AVI LIST", 16, "none of" }, { "fLaC", 4, "unsupported FLAC" },
        { "OggS", 4, "no page at 0 of 4 bytes" },
        { "ID3\3", 4, "none of" }, { "ID3\3\0\0\0\0\0\1.", 11, "none of" },
        { "\xff\xfb\x90\0", 4, "truncated MP3: no whole frame at 0 of 4 bytes" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        s_expect_bad (&decode, (const uint8_t *) cases [index].bytes, cases [index].size,
            cases [index].fragment);
    static const struct { const char *bytes; size_t size; const char *fragment; } others [] = {
        { "\xff\xd8\xff\xe0", 4, "MP3: the file is a JPEG image" }, { "\x89PNG", 4, "a PNG image" },
        { "\x93NUMPY\1\0", 8, "a NumPy array" }
    };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        s_expect (-EDOM, &decode, (const uint8_t *) others [index].bytes, others [index].size,
            others [index].fragment);
}

//  A file that ends too early is bad, wherever the excerpt is (here: at the begin), and wherever in its
//  header it ends.
static void
test_truncations_are_refused (void **state)
{
    (void) state;
    static file_t file;
    uint64_t random = test_seed ();
    for (size_t format = 0; format < FORMATS; format++) {
        s_make (&file, s_formats [format].format, 1 + format % 2, 9000, 1, format);
        decode_tensor_t decode = s_audio (DTYPE_FLOAT32, 1 + format % 2);
        size_t behind = format < FLAC? 1: 2;        //  of an odd number of bytes a WAV's last is padding
        for (int round = 0; round < 60; round++) {
            size_t less = round < 20? behind + (size_t) round:
                behind + test_below (&random, file.size - behind);
            s_expect_bad (&decode, file.bytes, file.size - less, "");
        }
        for (size_t size = 0; size < HEADS_MAX && size < file.size - behind; size++)
            s_expect_bad (&decode, file.bytes, size, "");
    }
}

//  Lengths in headers that are not so.
static void
test_lengths_in_headers (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    decode_tensor_t decode = s_audio (DTYPE_INT16, 1);
    s_make (&file, s_formats [WAV].format, 1, 500, 1, 1);
    s_read_whole (&model, &file);
    assert_memory_equal (file.bytes + 36, "data\xe8\3\0\0", 8);
    file.bytes [40]++;
    s_expect_bad (&decode, file.bytes, file.size, "truncated WAV");
    file.bytes [41] = 0;
    s_expect_excerpt (&model, false, &file, true, 100, 0, 0);
    //  As programs write it that cannot go back to the header.
    memset (file.bytes + 40, 0xff, 4);
    s_expect_excerpt (&model, false, &file, true, 500, 0, 0);
    file.bytes [43] = 0x7f;
    s_expect_excerpt (&model, false, &file, true, 500, 0, 0);
    //  FLAC, of no known length, and of a longer one.
    s_make (&file, s_formats [FLAC].format, 1, 500, 1, 1);
    assert_int_equal (file.bytes [24], 500 >> 8);
    file.bytes [24]++;
    s_expect_bad (&decode, file.bytes, file.size, "ends before its 756 frames do");
    memset (file.bytes + 24, 0, 2);
    s_expect_bad (&decode, file.bytes, file.size, "does not say how long it is");
    memset (file.bytes + 22, 0xff, 4);
    s_expect_bad (&decode, file.bytes, file.size, "ends before its 4294967295 frames do");
}

//  Both have checksums, and what the library makes of a damaged part is no sample.  Of Ogg all is looked at,
//  wherever the excerpt is: without a page in the middle there are others to be had.
static void
test_damage_is_seen (void **state)
{
    (void) state;
    static file_t file;
    uint64_t random = test_seed ();
    static uint8_t target [9000 * 4];
    enum { FLAC_FRAMES = 9000, VORBIS_FRAMES = FRAMES_MAX, VORBIS_LENGTH = 100 };
    static const size_t formats [] = { FLAC, FLAC + 1, VORBIS }, headers [] = { 90, 90, 0 };
    for (int round = 0; round < 90; round++) {
        size_t which = (size_t) round % 3;
        bool is_flac = formats [which] != VORBIS;
        s_make (&file, s_formats [formats [which]].format, 1, is_flac? FLAC_FRAMES: VORBIS_FRAMES, 1, random);
        size_t place = headers [which] + test_below (&random, file.size - headers [which]);
        file.bytes [place] ^= (uint8_t) (1 << test_below (&random, 8));
        decode_tensor_t decode = s_audio (DTYPE_FLOAT32, 1);
        char error [ERROR_BYTES];
        uint32_t length = is_flac? FLAC_FRAMES: VORBIS_LENGTH;
        if (s_excerpt (&decode, length, 0, file.bytes, file.size, target, error) == 0)
            fail_msg ("seed %" PRIu64 ": damage at %zu of %s was not seen", test_seed (), place,
                s_formats [formats [which]].name);
    }
}

//  What stands behind the last page of an Ogg file is not part of it.
static void
test_behind_the_end (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    for (size_t format = 0; format < FORMATS; format++) {
        s_make (&file, s_formats [format].format, 1, 3000, 1, 1);
        s_read_whole (&model, &file);
        memcpy (file.bytes + file.size, "TAG of another program", 22);
        file.size += 22;
        s_expect_excerpt (&model, s_formats [format].is_float, &file, false, 3000, 0, 0);
    }
}

//  Tags of music players in front of a file are no part of it, whatever its format.
static void
test_behind_tags (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    static const uint8_t tag [] = "ID3\3\0\0\0\0\1\2", footed [] = "ID3\4\0\x10\0\0\0\1";
    enum { HEAD = 10, TAG = HEAD + 130, FOOTED = HEAD + 1 + HEAD };
    for (size_t format = 0; format < FORMATS; format++) {
        s_make (&file, s_formats [format].format, 1, 3000, 1, 1);
        s_read_whole (&model, &file);
        memmove (file.bytes + TAG + FOOTED, file.bytes, file.size);
        memset (file.bytes, 'x', TAG + FOOTED);
        memcpy (file.bytes, tag, HEAD);
        memcpy (file.bytes + TAG, footed, HEAD);
        file.size += TAG + FOOTED;
        s_expect_excerpt (&model, s_formats [format].is_float, &file, false, 3000, 0, 0);
    }
}

//  A chunk in front of the samples that does not fill its place, of the formats that have such places.
static void
test_behind_chunks_of_odd_lengths (void **state)
{
    (void) state;
    static const struct { int format; const char *name, *chunk; size_t bytes; const char *why; } cases [] = {
        { SF_FORMAT_WAV, "data", "odd \3\0\0\0abc\0", 12, "truncated WAV: 999 of 1000 bytes of samples" },
        { SF_FORMAT_AIFF, "SSND", "odd \0\0\0\3abc\0", 12, "truncated AIFF: 1007 of 1008 bytes of samples" },
        { SF_FORMAT_W64, "data\xf3", "odd 123456789012\x1b\0\0\0\0\0\0\0abc\0\0\0\0\0", 32,
            "truncated W64: 999 of 1000 bytes of samples" }
    };
    static file_t file;
    decode_tensor_t decode = s_audio (DTYPE_INT16, 1);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_make (&file, cases [index].format | SF_FORMAT_PCM_16, 1, 500, 1, 1);
        uint8_t *samples = memmem (file.bytes, file.size, cases [index].name, strlen (cases [index].name));
        assert_non_null (samples);
        size_t bytes = cases [index].bytes;
        memmove (samples + bytes, samples, file.size - (size_t) (samples - file.bytes));
        memcpy (samples, cases [index].chunk, bytes);
        file.size += bytes;
        s_expect_bad (&decode, file.bytes, file.size - 1, cases [index].why);
    }
}

//  Headers that say more than there is, of the formats that have lengths of their own kind.
static void
test_headers_that_say_too_much (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    decode_tensor_t decode = s_audio (DTYPE_INT16, 1);
    s_make (&file, SF_FORMAT_NIST | SF_FORMAT_PCM_16, 1, 500, 1, 1);
    s_expect_bad (&decode, file.bytes, file.size - 2, "truncated SPHERE: 499 of 500 frames");
    s_make (&file, SF_FORMAT_AU | SF_FORMAT_PCM_16, 1, 500, 1, 1);
    s_read_whole (&model, &file);
    s_expect_bad (&decode, file.bytes, file.size - 1, "truncated AU: it ends before its 1000 bytes");
    memset (file.bytes + 8, 0xff, 4);
    s_expect_excerpt (&model, false, &file, true, 500, 0, 0);
    s_make (&file, SF_FORMAT_RF64 | SF_FORMAT_PCM_16, 1, 500, 1, 1);
    s_expect_bad (&decode, file.bytes, file.size - 1, "truncated RF64: 999 of 1000 bytes of samples");
    s_make (&file, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 1, 9000, 1, 1);
    s_read_whole (&model, &file);
    s_expect_bad (&decode, file.bytes, file.size - 1, "truncated MP3: no whole frame at");
    memset (file.bytes + file.size, 0, 50);
    file.size += 50;
    s_expect_excerpt (&model, true, &file, true, 9000, 0, 0);
    file.bytes [file.size - 1] = 'x';
    s_expect_bad (&decode, file.bytes, file.size, "damaged MP3: no frame at");
    //  The number of frames, behind "Info" and which numbers there are.
    file.size -= 50;
    uint8_t *info = memmem (file.bytes, 64, "Info", 4);
    info = info? info: memmem (file.bytes, 64, "Xing", 4);
    assert_non_null (info);
    info [11]++;
    s_expect_bad (&decode, file.bytes, file.size, "truncated MP3: ");
}

//  Damage anywhere: an answer, in bounds, and nothing on the standard error.
static void
test_damage_is_survived (void **state)
{
    (void) state;
    static file_t file, damaged;
    static uint8_t target [FRAMES_MAX * CHANNELS_MAX * 4];
    uint64_t random = test_seed ();
    FILE *said = tmpfile ();
    int kept = dup (STDERR_FILENO);
    assert_non_null (said);
    dup2 (fileno (said), STDERR_FILENO);
    for (int round = 0; round < 60 * FORMATS; round++) {
        if (round % 60 == 0)
            s_make (&file, s_formats [round / 60].format, 2, 2000, 1, random);
        //  Of damaged MP3 libmpg123 says something, and libsndfile cannot stop it.
        if (round == 60 * (MP3 + 1))
            assert_int_equal (ftruncate (fileno (said), 0), 0);
        damaged = file;
        for (int times = 1 + round % 5; times > 0; times--)
            damaged.bytes [4 + test_below (&random,
                round % 2? 60: file.size - 4)] ^= (uint8_t) (1 << test_below (&random, 8));
        decode_tensor_t decode = s_audio (round % 3? DTYPE_INT16: DTYPE_FLOAT32, 2);
        char error [ERROR_BYTES];
        (void) s_excerpt (&decode, 1500, 0.5, damaged.bytes, damaged.size, target, error);
    }
    fflush (stderr);
    dup2 (kept, STDERR_FILENO);
    close (kept);
    assert_int_equal (fseek (said, 0, SEEK_END), 0);
    assert_int_equal (ftell (said), 0);
    fclose (said);
}

#ifdef TUREEN_SOXR
//  Of every length and format an excerpt is a part of what soxr makes of the whole.
static void
test_resampled_excerpts (void **state)
{
    (void) state;
    static file_t file;
    static model_t model;
    static float whole [2 * FRAMES_MAX * 2];
    static uint8_t target [2 * FRAMES_MAX * 2 * 4];
    soxr_quality_spec_t quality = soxr_quality_spec (SOXR_HQ, 0);
    static const uint32_t rates [] = { 8000, 22050, 11025, 32000, 15999, 16000 };
    uint64_t random = test_seed ();
    for (size_t round = 0; round < 120; round++) {
        size_t format = round % FORMATS, channels = 1 + round % 2;
        size_t frames = round < 60? 1 + round: 1000 + test_below (&random, 9000);
        s_make (&file, s_formats [format].format, channels, frames, 1, random);
        s_read_whole (&model, &file);
        decode_tensor_t decode = s_audio (DTYPE_FLOAT32, channels);
        decode.rate = rates [round % 6];
        decode.resamples = true;
        size_t made = model.frames;
        if (decode.rate == 16000)
            memcpy (whole, model.wide, made * channels * sizeof (float));
        else
            assert_null (soxr_oneshot (16000, decode.rate, (unsigned) channels, model.wide, model.frames,
                NULL,
                whole, 2 * FRAMES_MAX, &made, NULL, &quality, NULL));
        if (made == 0)
            continue;
        uint32_t length = 1 + (uint32_t) test_below (&random, made);
        double place = (double) test_below (&random, 1000) / 1000;
        size_t begin = (size_t) (place * (double) (made - length + 1));
        char error [ERROR_BYTES];
        if (s_excerpt (&decode, length, place, file.bytes, file.size, target, error))
            fail_msg ("%s, %zu frames at %u: %s", s_formats [format].name, frames, decode.rate, error);
        for (size_t item = 0; item < length * channels; item++) {
            float found = ((float *) (void *) target) [item];
            float expected = whole [(begin + item % length) * channels + item / length];
            if (found != expected)
                fail_msg ("%s: sample %zu at %u is %g for %g", s_formats [format].name, item, decode.rate,
                    (double) found, (double) expected);
        }
        s_expect (0, &decode, file.bytes, file.size, "");
    }
    decode_tensor_t decode = s_audio (DTYPE_FLOAT32, 1);
    decode.resamples = true;
    decode.rate = 62;                   //  16000 / 256 is 62.5
    s_make (&file, s_formats [WAV].format, 1, 500, 1, 1);
    s_expect (-EDOM, &decode, file.bytes, file.size, "500 frames of rate 16000 are not resampled to 62");
}
#endif

static void
test_names_what_it_reads (void **state)
{
    (void) state;
    assert_non_null (strstr (decoder_formats (),
        ", audio (WAV, RF64, W64, AIFF, AU, CAF, SPHERE, FLAC, Ogg Vorbis, Ogg Opus, MP3)"));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_excerpts_are_parts_of_the_whole),
        cmocka_unit_test (test_loud_floats),
        cmocka_unit_test (test_other_than_declared),
        cmocka_unit_test (test_other_formats),
        cmocka_unit_test (test_truncations_are_refused),
        cmocka_unit_test (test_lengths_in_headers),
        cmocka_unit_test (test_damage_is_seen),
        cmocka_unit_test (test_behind_the_end),
        cmocka_unit_test (test_behind_tags),
        cmocka_unit_test (test_behind_chunks_of_odd_lengths),
        cmocka_unit_test (test_headers_that_say_too_much),
        cmocka_unit_test (test_damage_is_survived),
#ifdef TUREEN_SOXR
        cmocka_unit_test (test_resampled_excerpts),
#endif
        cmocka_unit_test (test_names_what_it_reads),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

#include "file_kind.h"
#include <assert.h>
#include <stdbool.h>
#include <string.h>

//  Bytes at the begin, and for containers of several kinds some further on.
typedef struct {
    const char *name;
    file_kind_t kind;
    const char *first;
    size_t first_length;
    const char *second;
    size_t second_offset;
    size_t second_length;
} signature_t;

static const signature_t s_signatures [] = {
    { "a JPEG image", FILE_KIND_JPEG, "\xff\xd8\xff", 3, "", 0, 0 },
    { "a PNG image", FILE_KIND_PNG, "\x89PNG", 4, "", 0, 0 },
    { "a NumPy array", FILE_KIND_ARRAY, "\x93NUMPY", 6, "", 0, 0 },
    { "WAV audio", FILE_KIND_AUDIO, "RIFF", 4, "WAVE", 8, 4 },
    { "FLAC audio", FILE_KIND_AUDIO, "fLaC", 4, "", 0, 0 },
    { "Ogg audio", FILE_KIND_AUDIO, "OggS", 4, "", 0, 0 },
    { "RF64 audio", FILE_KIND_AUDIO, "RF64", 4, "WAVE", 8, 4 },
    { "W64 audio", FILE_KIND_AUDIO, "riff\x2e\x91\xcf\x11", 8, "wave", 24, 4 },
    { "AIFF audio", FILE_KIND_AUDIO, "FORM", 4, "AIFF", 8, 4 },
    { "AIFF audio", FILE_KIND_AUDIO, "FORM", 4, "AIFC", 8, 4 },
    { "AU audio", FILE_KIND_AUDIO, ".snd", 4, "", 0, 0 },
    { "AU audio", FILE_KIND_AUDIO, "dns.", 4, "", 0, 0 },
    { "CAF audio", FILE_KIND_AUDIO, "caff", 4, "", 0, 0 },
    { "SPHERE audio", FILE_KIND_AUDIO, "NIST_1A", 7, "", 0, 0 },
    { "audio behind an ID3 tag", FILE_KIND_AUDIO, "ID3", 3, "", 0, 0 },
    //  MPEG 1, 2 and 2.5, with and without a checksum, of layer III.
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xfb", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xfa", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xf3", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xf2", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xe3", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xe2", 2, "", 0, 0 },
    { "a GIF image", FILE_KIND_OTHER, "GIF8", 4, "", 0, 0 },
    { "a WebP image", FILE_KIND_WEBP, "RIFF", 4, "WEBP", 8, 4 },
    { "a BMP image", FILE_KIND_OTHER, "BM", 2, "", 0, 0 },
    { "a TIFF image", FILE_KIND_TIFF, "II*\0", 4, "", 0, 0 },
    { "a TIFF image", FILE_KIND_TIFF, "MM\0*", 4, "", 0, 0 },
    { "a BigTIFF image", FILE_KIND_OTHER, "II+\0", 4, "", 0, 0 },
    { "a BigTIFF image", FILE_KIND_OTHER, "MM\0+", 4, "", 0, 0 },
    { "a gzip file", FILE_KIND_OTHER, "\x1f\x8b", 2, "", 0, 0 },
    { "a zip file", FILE_KIND_OTHER, "PK\3\4", 4, "", 0, 0 },
};

static bool
s_has (const uint8_t *bytes, size_t size, size_t offset, const char *wanted, size_t length)
{
    return size >= offset + length && (length == 0 || memcmp (bytes + offset, wanted, length) == 0);
}

file_kind_t
file_kind (const uint8_t *bytes, size_t size, const char **name_p)
{
    assert (bytes || !size);
    assert (name_p);
    for (size_t index = 0; index < sizeof s_signatures / sizeof *s_signatures; index++) {
        const signature_t *signature = &s_signatures [index];
        if (s_has (bytes, size, 0, signature->first, signature->first_length)
        &&  s_has (bytes, size, signature->second_offset, signature->second, signature->second_length)) {
            *name_p = signature->name;
            return signature->kind;
        }
    }
    *name_p = size? "of an unknown kind": "empty";
    return FILE_KIND_OTHER;
}

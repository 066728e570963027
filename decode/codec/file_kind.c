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

//  The first that fits counts.
static const signature_t s_signatures [] = {
    { "a JPEG image", FILE_KIND_JPEG, "\xff\xd8\xff", 3, "", 0, 0 },
    { "a PNG image", FILE_KIND_PNG, "\x89PNG", 4, "", 0, 0 },
    { "a NumPy array", FILE_KIND_ARRAY, "\x93NUMPY", 6, "", 0, 0 },
    //  A tar begins with the name of a file, and so may with the letters of a kind below: "caffe/1", "BM1".
    { "a tar file", FILE_KIND_OTHER, "", 0, "ustar", 257, 5 },
    { "WAV audio", FILE_KIND_AUDIO, "RIFF", 4, "WAVE", 8, 4 },
    { "FLAC audio", FILE_KIND_AUDIO, "fLaC", 4, "", 0, 0 },
    { "Ogg audio", FILE_KIND_AUDIO, "OggS", 4, "", 0, 0 },
    { "RF64 audio", FILE_KIND_AUDIO, "RF64", 4, "WAVE", 8, 4 },
    { "W64 audio", FILE_KIND_AUDIO, "riff\x2e\x91\xcf\x11", 8, "wave", 24, 4 },
    { "AIFF audio", FILE_KIND_AUDIO, "FORM", 4, "AIFF", 8, 4 },
    { "AIFF audio", FILE_KIND_AUDIO, "FORM", 4, "AIFC", 8, 4 },
    { "AU audio", FILE_KIND_AUDIO, ".snd", 4, "", 0, 0 },
    { "AU audio", FILE_KIND_AUDIO, "dns.", 4, "", 0, 0 },
    { "CAF audio", FILE_KIND_AUDIO, "caff\0\1", 6, "", 0, 0 },
    { "SPHERE audio", FILE_KIND_AUDIO, "NIST_1A", 7, "", 0, 0 },
    { "audio behind an ID3 tag", FILE_KIND_AUDIO, "ID3", 3, "", 0, 0 },
    //  MPEG 1, 2 and 2.5, with and without a checksum, of layer III.
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xfb", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xfa", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xf3", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xf2", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xe3", 2, "", 0, 0 },
    { "MP3 audio", FILE_KIND_AUDIO, "\xff\xe2", 2, "", 0, 0 },
    { "a GIF image", FILE_KIND_GIF, "GIF87a", 6, "", 0, 0 },
    { "a GIF image", FILE_KIND_GIF, "GIF89a", 6, "", 0, 0 },
    { "a WebP image", FILE_KIND_WEBP, "RIFF", 4, "WEBP", 8, 4 },
    { "a TIFF image", FILE_KIND_TIFF, "II*\0", 4, "", 0, 0 },
    { "a TIFF image", FILE_KIND_TIFF, "MM\0*", 4, "", 0, 0 },
    //  Of a BMP's header the length, of which three bytes are 0: a text may well begin with "BM".
    { "a BMP image", FILE_KIND_BMP, "BM", 2, "\0\0\0", 15, 3 },
    { "a BigTIFF image", FILE_KIND_OTHER, "II+\0", 4, "", 0, 0 },
    { "a BigTIFF image", FILE_KIND_OTHER, "MM\0+", 4, "", 0, 0 },
    { "a JPEG 2000 image", FILE_KIND_OTHER, "\0\0\0\x0cjP  \r\n\x87\n", 12, "", 0, 0 },
    { "a JPEG 2000 image", FILE_KIND_OTHER, "\xff\x4f\xff\x51", 4, "", 0, 0 },
    { "a JPEG XL image", FILE_KIND_OTHER, "\0\0\0\x0cJXL \r\n\x87\n", 12, "", 0, 0 },
    { "a JPEG XL image", FILE_KIND_OTHER, "\xff\x0a", 2, "", 0, 0 },
    { "a JPEG XR image", FILE_KIND_OTHER, "II\xbc\x01", 4, "", 0, 0 },
    { "an AVIF image", FILE_KIND_OTHER, "", 0, "ftypavif", 4, 8 },
    { "an AVIF image", FILE_KIND_OTHER, "", 0, "ftypavis", 4, 8 },
    { "a HEIC image", FILE_KIND_OTHER, "", 0, "ftyphei", 4, 7 },
    { "a HEIC image", FILE_KIND_OTHER, "", 0, "ftyphev", 4, 7 },
    { "a HEIF image", FILE_KIND_OTHER, "", 0, "ftypmif1", 4, 8 },
    { "a HEIF image", FILE_KIND_OTHER, "", 0, "ftypmsf1", 4, 8 },
    { "a Canon raw image", FILE_KIND_OTHER, "", 0, "ftypcrx ", 4, 8 },
    { "a QuickTime video", FILE_KIND_OTHER, "", 0, "ftypqt  ", 4, 8 },
    { "MPEG-4 audio", FILE_KIND_OTHER, "", 0, "ftypM4A", 4, 7 },
    { "an MPEG-4 video", FILE_KIND_OTHER, "", 0, "ftyp", 4, 4 },
    { "a Matroska or WebM video", FILE_KIND_OTHER, "\x1a\x45\xdf\xa3", 4, "", 0, 0 },
    { "an AVI video", FILE_KIND_OTHER, "RIFF", 4, "AVI ", 8, 4 },
    { "an animated cursor", FILE_KIND_OTHER, "RIFF", 4, "ACON", 8, 4 },
    { "an icon (ICNS)", FILE_KIND_OTHER, "icns", 4, "", 0, 0 },
    { "a Photoshop image (PSD)", FILE_KIND_OTHER, "8BPS", 4, "", 0, 0 },
    { "a GIMP image (XCF)", FILE_KIND_OTHER, "gimp xcf", 8, "", 0, 0 },
    { "a DirectDraw surface (DDS)", FILE_KIND_OTHER, "DDS ", 4, "", 0, 0 },
    { "an OpenEXR image", FILE_KIND_OTHER, "v/1\1", 4, "", 0, 0 },
    { "a Radiance image (HDR)", FILE_KIND_OTHER, "#?RADIANCE", 10, "", 0, 0 },
    { "a Radiance image (HDR)", FILE_KIND_OTHER, "#?RGBE", 6, "", 0, 0 },
    { "a QOI image", FILE_KIND_OTHER, "qoif", 4, "", 0, 0 },
    { "a FITS image", FILE_KIND_OTHER, "SIMPLE  =", 9, "", 0, 0 },
    { "a DICOM image", FILE_KIND_OTHER, "", 0, "DICM", 128, 4 },
    { "a DjVu document", FILE_KIND_OTHER, "AT&TFORM", 8, "", 0, 0 },
    { "a PDF document", FILE_KIND_OTHER, "%PDF-", 5, "", 0, 0 },
    { "a PostScript document", FILE_KIND_OTHER, "%!PS", 4, "", 0, 0 },
    { "a PAM image", FILE_KIND_OTHER, "P7\n", 3, "", 0, 0 },
    { "a Flash file", FILE_KIND_OTHER, "FWS", 3, "", 0, 0 },
    { "an HDF5 file", FILE_KIND_OTHER, "\x89HDF\r\n\x1a\n", 8, "", 0, 0 },
    { "a Parquet file", FILE_KIND_OTHER, "PAR1", 4, "", 0, 0 },
    { "an Apple double file, which holds no image", FILE_KIND_OTHER, "\0\5\x16\7", 4, "", 0, 0 },
    { "a gzip file", FILE_KIND_OTHER, "\x1f\x8b", 2, "", 0, 0 },
    { "a zip file", FILE_KIND_OTHER, "PK\3\4", 4, "", 0, 0 },
    { "a RAR file", FILE_KIND_OTHER, "Rar!\x1a\7", 6, "", 0, 0 },
    { "a 7-Zip file", FILE_KIND_OTHER, "7z\xbc\xaf\x27\x1c", 6, "", 0, 0 },
    { "an xz file", FILE_KIND_OTHER, "\xfd""7zXZ\0", 6, "", 0, 0 },
    { "a zstd file", FILE_KIND_OTHER, "\x28\xb5\x2f\xfd", 4, "", 0, 0 },
    { "a bzip2 file", FILE_KIND_OTHER, "BZh", 3, "1AY&SY", 4, 6 },
    { "an MPEG video", FILE_KIND_OTHER, "\0\0\1\xba", 4, "", 0, 0 },
    { "an MPEG video", FILE_KIND_OTHER, "\0\0\1\xb3", 4, "", 0, 0 },
};
static bool
s_has (const uint8_t *bytes, size_t size, size_t offset, const char *wanted, size_t length)
{
    return size >= offset + length && (length == 0 || memcmp (bytes + offset, wanted, length) == 0);
}

//  A digit of six, and a white space.
static bool
s_is_pnm (const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes [0] == 'P' && bytes [1] >= '1' && bytes [1] <= '6'
        && (bytes [2] == ' ' || (bytes [2] >= '\t' && bytes [2] <= '\r'));
}

//  An icon, a cursor, or NULL.  A TGA without a palette begins with the same four bytes as a cursor; then it
//  has zeros where an icon and a cursor have the count of their pictures.
static const char *
s_icon (const uint8_t *bytes, size_t size)
{
    enum { COUNT_AT = 4, RESERVED_AT = 9 };
    bool is_icon = s_has (bytes, size, 0, "\0\0\1\0", 4), is_cursor = s_has (bytes, size, 0, "\0\0\2\0", 4);
    if (!(is_icon || is_cursor) || !s_has (bytes, size, RESERVED_AT, "\0", 1)
    ||  s_has (bytes, size, COUNT_AT, "\0\0", 2))
        return NULL;
    return is_icon? "an icon (ICO)": "a cursor (CUR)";
}

//  By what newer ones end with: a TGA begins with nothing that other files may not begin with too.
static bool
s_is_targa (const uint8_t *bytes, size_t size)
{
    static const char end [] = "TRUEVISION-XFILE.";     //  and its 0
    return size >= sizeof end && memcmp (bytes + size - sizeof end, end, sizeof end) == 0;
}

//  A page of markup: what a server sends in place of a file is mostly one.
static const char *
s_markup (const uint8_t *bytes, size_t size)
{
    enum { LOOKED_AT_MAX = 1024 };
    static const struct { const char *text; const char *name; } marks [] = {
        { "<svg", "an SVG image" }, { "<html", "an HTML page" }, { "<!doctype html", "an HTML page" },
    };
    char text [LOOKED_AT_MAX + 1];
    size_t count = size < LOOKED_AT_MAX? size: LOOKED_AT_MAX, at = 0;
    memcpy (text, bytes, count);
    text [count] = 0;
    at += s_has (bytes, size, 0, "\xef\xbb\xbf", 3)? 3: 0;
    at += strspn (text + at, " \t\r\n");
    if (text [at] != '<')
        return NULL;
    for (size_t mark = 0; mark < sizeof marks / sizeof *marks; mark++)
        if (strcasestr (text + at, marks [mark].text))
            return marks [mark].name;
    return "an XML or HTML file";
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
    const char *markup = size? s_markup (bytes, size): NULL, *icon = s_icon (bytes, size);
    if (s_is_pnm (bytes, size)) {
        *name_p = "a PBM, PGM or PPM image";
        return FILE_KIND_PNM;
    }
    *name_p = icon? icon: s_is_targa (bytes, size)? "a TGA image": markup? markup
        : size? "of an unknown kind": "empty";
    return FILE_KIND_OTHER;
}

#include "unreadable.h"
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "image_reader.h"
#include "plural.h"

//  Names of images.  format: as image_reader_formats has it where a build may read it; NULL: none does.
static const struct { const char *extension; const char *format; const char *library; } s_kinds [] = {
    { ".png", "PNG", "libpng" }, { ".webp", "WebP", "libwebp" }, { ".tif", "TIFF", "libtiff" },
    { ".tiff", "TIFF", "libtiff" }, { ".avif", NULL, "" }, { ".heic", NULL, "" }, { ".heif", NULL, "" },
    { ".hif", NULL, "" }, { ".jp2", NULL, "" }, { ".j2k", NULL, "" }, { ".jpx", NULL, "" },
    { ".jxl", NULL, "" }, { ".jxr", NULL, "" }, { ".ico", NULL, "" }, { ".icns", NULL, "" },
    { ".tga", NULL, "" }, { ".psd", NULL, "" }, { ".xcf", NULL, "" }, { ".svg", NULL, "" },
    { ".exr", NULL, "" }, { ".hdr", NULL, "" }, { ".dds", NULL, "" }, { ".qoi", NULL, "" },
    { ".pam", NULL, "" }, { ".pfm", NULL, "" }, { ".pcx", NULL, "" }, { ".dcm", NULL, "" },
    { ".dng", NULL, "" }, { ".nef", NULL, "" }, { ".cr2", NULL, "" }, { ".cr3", NULL, "" },
    { ".arw", NULL, "" },
};
enum { KINDS = sizeof s_kinds / sizeof *s_kinds };

//  The kind of a path that this build does not read; KINDS: none.
static size_t
s_kind (const char *path)
{
    const char *extension = strrchr (path, '.');
    size_t kind = extension? 0: KINDS;
    while (kind < KINDS && strcasecmp (extension, s_kinds [kind].extension))
        kind++;
    bool is_read = kind < KINDS && s_kinds [kind].format
        && strstr (image_reader_formats (), s_kinds [kind].format);
    return is_read? KINDS: kind;
}

//  Counts the field's files by kind.  Neighbours mostly have one extension, for which the table is searched
//  once.
static uint64_t
s_count (const catalogue_t *catalogue, size_t field, uint64_t counts [KINDS])
{
    char path [PATH_MAX], before [16] = "";
    size_t kind = KINDS;
    uint64_t sum = 0;
    for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
        catalogue_path (catalogue, id, field, path, sizeof path);
        const char *extension = strrchr (path, '.');
        if (!extension || strcmp (extension, before)) {
            kind = s_kind (path);
            snprintf (before, sizeof before, "%s", extension? extension: "");
        }
        if (kind < KINDS) {
            counts [kind]++;
            sum++;
        }
    }
    return sum;
}

bool
unreadable_describe (const catalogue_t *catalogue, char *text, size_t size)
{
    assert (text && size > 0);
    uint64_t counts [KINDS] = { 0 }, sum = 0;
    for (size_t field = 0; field < catalogue_fields (catalogue); field++)
        sum += s_count (catalogue, field, counts);
    *text = 0;
    if (sum == 0)
        return false;
    size_t used = (size_t) snprintf (text, size, "this build cannot read %" PRIu64 " file%s as images:",
        sum, plural (sum));
    const char *before = " ";
    for (size_t kind = 0; kind < KINDS && used < size; kind++)
        if (counts [kind] > 0) {
            used += (size_t) snprintf (text + used, size - used, "%s%" PRIu64 " '%s'%s%s%s", before,
                counts [kind], s_kinds [kind].extension, s_kinds [kind].format? " (that needs ": "",
                s_kinds [kind].library, s_kinds [kind].format? ")": "");
            before = ", ";
        }
    if (used < size)
        snprintf (text + used, size - used, ": convert them, for example to PNG, or leave them out");
    return true;
}

#include "prepare_write.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "complain.h"
#include "rlimits.h"
#include "stranger.h"

enum { NPY_ALIGNMENT = 64, NPY_PREFIX_BYTES = 10, HEADER_BYTES = 256 };

static bool
s_make_folders (const char *path)
{
    char folder [PATH_MAX];
    if (strlen (path) >= sizeof folder)
        return complain ("prepare", "%s: %s", path, strerror (ENAMETOOLONG));
    strcpy (folder, path);
    for (char *slash = folder + 1; (slash = strchr (slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir (folder, 0777) && errno != EEXIST)
            return complain ("prepare", "%s: %s", folder, strerror (errno));
        if (stranger_owns (folder))
            return complain ("prepare", "--out: '%s' " STRANGER_WORDS, folder);
    }
    return true;
}

//  An empty file; NULL, and it was said why not.
static FILE *
s_open (const char *path)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    bool is_strange = fd >= 0 && stranger_owns (path);
    struct stat status;
    FILE *file = NULL;
    //  Emptied only now: it may be what a link of another user leads to.
    if (fd >= 0 && !is_strange && fstat (fd, &status) == 0
    &&  (!S_ISREG (status.st_mode) || ftruncate (fd, 0) == 0))
        file = fdopen (fd, "wb");
    if (is_strange)
        complain ("prepare", "--out: '%s' " STRANGER_WORDS, path);
    else
    if (!file)
        complain ("prepare", "%s: %s", path, strerror (errno));
    if (!file && fd >= 0)
        close (fd);
    return file;
}

//  NumPy's type string, little-endian as this machine is.
static const char *
s_descr (dtype_t dtype)
{
    static const char *const texts [DTYPES] = {
        [DTYPE_UINT8] = "|u1", [DTYPE_INT8] = "|i1", [DTYPE_UINT16] = "<u2",
            [DTYPE_INT16] = "<i2",
        [DTYPE_UINT32] = "<u4", [DTYPE_INT32] = "<i4", [DTYPE_UINT64] = "<u8",
            [DTYPE_INT64] = "<i8",
        [DTYPE_FLOAT16] = "<f2", [DTYPE_BFLOAT16] = "<u2", [DTYPE_FLOAT32] = "<f4",
            [DTYPE_FLOAT64] = "<f8",
        [DTYPE_BOOL] = "|b1"
    };
    assert (texts [dtype]);
    return texts [dtype];
}

//  Format 1.0 of numpy.lib.format: magic, version, length, a Python dict padded with spaces, a new line.
static size_t
s_npy_header (const pipeline_output_t *output, char header [HEADER_BYTES])
{
    char shape [HEADER_BYTES / 2] = "";
    size_t used = 0;
    for (uint32_t dimension = 0; dimension < output->dimensions; dimension++)
        used += (size_t) snprintf (shape + used, sizeof shape - used, "%u,", output->shape [dimension]);
    int text = snprintf (header + NPY_PREFIX_BYTES, HEADER_BYTES - NPY_PREFIX_BYTES,
        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", s_descr (output->dtype), shape);
    size_t bytes = ((size_t) text + 1 + NPY_PREFIX_BYTES + NPY_ALIGNMENT - 1) / NPY_ALIGNMENT * NPY_ALIGNMENT;
    assert (text > 0 && bytes < HEADER_BYTES);
    memset (header + NPY_PREFIX_BYTES + text, ' ', bytes - NPY_PREFIX_BYTES - (size_t) text);
    header [bytes - 1] = '\n';
    memcpy (header, "\x93NUMPY\1\0", 8);
    header [8] = (char) (bytes - NPY_PREFIX_BYTES);
    header [9] = 0;
    return bytes;
}

//  ---- pictures

typedef struct {
    uint32_t height, width, channels;
} picture_t;

static picture_t
s_picture (const pipeline_output_t *output, prepare_format_t format)
{
    const uint32_t *shape = output->shape;
    if (output->dimensions == 2)
        return (picture_t) { shape [0], shape [1], 1 };
    if (output->dimensions != 3)
        return (picture_t) { 0 };
    return format == PREPARE_PPM_PLANAR? (picture_t) { shape [1], shape [2], shape [0] }
        : (picture_t) { shape [0], shape [1], shape [2] };
}

bool
prepare_is_picture (const pipeline_output_t *output, prepare_format_t format)
{
    picture_t picture = s_picture (output, format);
    return output->dtype == DTYPE_UINT8 && (picture.channels == 1 || picture.channels == 3);
}

const char *
prepare_extension (const pipeline_output_t *output, prepare_format_t format)
{
    return format == PREPARE_NPY? ".npy": s_picture (output, format).channels == 1? ".pgm": ".ppm";
}

static void
s_write_planes (FILE *file, const picture_t *picture, const uint8_t *bytes)
{
    size_t plane = (size_t) picture->height * picture->width;
    for (size_t pixel = 0; pixel < plane; pixel++)
        for (uint32_t channel = 0; channel < picture->channels; channel++)
            putc (bytes [channel * plane + pixel], file);
}

bool
prepare_write (const char *path, const pipeline_output_t *output, prepare_format_t format,
    const uint8_t *bytes)
{
    if (!s_make_folders (path))
        return false;
    FILE *file = s_open (path);
    if (!file)
        return false;
    if (format == PREPARE_NPY) {
        char header [HEADER_BYTES];
        fwrite (header, 1, s_npy_header (output, header), file);
    }
    else {
        picture_t picture = s_picture (output, format);
        fprintf (file, "P%c\n%u %u\n255\n", picture.channels == 1? '5': '6', picture.width, picture.height);
        if (format == PREPARE_PPM_PLANAR && picture.channels > 1)
            s_write_planes (file, &picture, bytes);
    }
    if (format != PREPARE_PPM_PLANAR || s_picture (output, format).channels == 1)
        fwrite (bytes, 1, output->bytes, file);
    bool good = !ferror (file);
    good = fclose (file) == 0 && good;
    return good || complain ("prepare", "%s: cannot be written: %s%s", path, strerror (errno),
        rlimits_remedy (errno));
}

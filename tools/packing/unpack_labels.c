#include "unpack_labels.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include "utf8.h"

typedef union {
    int64_t whole;
    double real;
} number_t;

typedef struct {
    const catalogue_t *catalogue;
    const bool *wanted;
    uint8_t *value;                     //  room for one value of any label
    FILE *file;
} writer_t;

static bool
s_is_text (const catalogue_label_t *label)
{
    return strcmp (label->dtype, "uint8") == 0;
}

static bool
s_is_real (const catalogue_label_t *label)
{
    return strcmp (label->dtype, "float64") == 0;
}

//  A text's length: it is filled up with zeros, and has none in it.
static size_t
s_take (writer_t *self, size_t index, uint32_t id)
{
    const catalogue_label_t *label = catalogue_label (self->catalogue, index);
    catalogue_label_value (self->catalogue, index, id, self->value);
    return s_is_text (label)? strnlen ((char *) self->value, label->bytes): label->bytes / sizeof (number_t);
}

static number_t
s_number (const writer_t *self, size_t index)
{
    number_t number;
    memcpy (&number, self->value + index * sizeof number, sizeof number);
    return number;
}

bool
unpack_labels_needed (const catalogue_t *catalogue)
{
    return !catalogue_class_is_folder (catalogue);
}


//  ---- which of the two

//  A column is text to TSV for certain if one cell has what no number has.
static bool
s_is_surely_text (writer_t *self, size_t index)
{
    static const char of_numbers [] = " +-.,0123456789aefintyAEFINTY";
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++) {
        size_t length = s_take (self, index, id);
        for (size_t at = 0; self->wanted [id] && at < length; at++)
            if (!strchr (of_numbers, self->value [at]))
                return true;
    }
    return false;
}

static bool
s_has_breaks (writer_t *self, size_t index)
{
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++) {
        size_t length = s_take (self, index, id);
        for (size_t at = 0; at < length; at++)
            if (strchr ("\t\r\n", self->value [at]))
                return true;
    }
    return false;
}

static bool
s_names_have (const writer_t *self, bool (*is_bad) (const char *name))
{
    char path [PATH_MAX];
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++) {
        catalogue_path (self->catalogue, id, 0, path, sizeof path);
        if (is_bad (path))
            return true;
    }
    return false;
}

static bool
s_breaks (const char *name)
{
    return strpbrk (name, "\t\r\n");
}

static bool
s_is_no_utf8 (const char *name)
{
    for (size_t length = strlen (name), step; length > 0; name += step, length -= step)
        if (!(step = utf8_sequence (name, length)))
            return true;
    return false;
}

static bool
s_fits_tsv (writer_t *self)
{
    if (s_names_have (self, s_breaks))
        return false;
    for (size_t index = 0; index < catalogue_labels (self->catalogue); index++) {
        const catalogue_label_t *label = catalogue_label (self->catalogue, index);
        if (s_is_text (label)? s_has_breaks (self, index) || !s_is_surely_text (self, index)
                : label->dimensions && label->shape [0] == 1)
            return false;
    }
    return true;
}

static bool
s_fits_jsonl (writer_t *self)
{
    if (s_names_have (self, s_is_no_utf8))
        return false;
    for (size_t index = 0; index < catalogue_labels (self->catalogue); index++) {
        if (!s_is_real (catalogue_label (self->catalogue, index)))
            continue;
        for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++)
            for (size_t count = s_take (self, index, id), at = 0; at < count; at++)
                if (!isfinite (s_number (self, at).real))
                    return false;
    }
    return true;
}


//  ---- TSV

//  With a point or an exponent, so that it stays a float64.
static void
s_print_real (FILE *file, double real)
{
    char text [40];
    snprintf (text, sizeof text, "%.17g", real);
    fprintf (file, "%s%s", text, strpbrk (text, ".en")? "": ".0");
}

static void
s_print_cell (writer_t *self, size_t index, uint32_t id)
{
    const catalogue_label_t *label = catalogue_label (self->catalogue, index);
    size_t count = s_take (self, index, id);
    fputc ('\t', self->file);
    if (s_is_text (label))
        fwrite (self->value, 1, count, self->file);
    else
        for (size_t at = 0; at < count; at++) {
            if (at)
                fputc (',', self->file);
            if (s_is_real (label))
                s_print_real (self->file, s_number (self, at).real);
            else
                fprintf (self->file, "%" PRId64, s_number (self, at).whole);
        }
}

static void
s_write_tsv (writer_t *self)
{
    fputs ("path", self->file);
    for (size_t index = 0; index < catalogue_labels (self->catalogue); index++)
        fprintf (self->file, "\t%s", catalogue_label (self->catalogue, index)->name);
    fputc ('\n', self->file);
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++) {
        if (!self->wanted [id])
            continue;
        char path [PATH_MAX];
        catalogue_path (self->catalogue, id, 0, path, sizeof path);
        fputs (path, self->file);
        for (size_t index = 0; index < catalogue_labels (self->catalogue); index++)
            s_print_cell (self, index, id);
        fputc ('\n', self->file);
    }
}


//  ---- JSON lines

static json_t *
s_json_number (const writer_t *self, const catalogue_label_t *label, size_t at)
{
    number_t number = s_number (self, at);
    return s_is_real (label)? json_real (number.real): json_integer (number.whole);
}

static json_t *
s_json_value (writer_t *self, size_t index, uint32_t id)
{
    const catalogue_label_t *label = catalogue_label (self->catalogue, index);
    size_t count = s_take (self, index, id);
    if (s_is_text (label))
        return json_stringn ((char *) self->value, count);
    if (!label->dimensions)
        return s_json_number (self, label, 0);
    json_t *list = json_array ();
    for (size_t at = 0; at < count; at++)
        json_array_append_new (list, s_json_number (self, label, at));
    return list;
}

static int
s_write_jsonl (writer_t *self)
{
    int rc = 0;
    for (uint32_t id = 0; rc == 0 && id < catalogue_samples (self->catalogue); id++) {
        if (!self->wanted [id])
            continue;
        char path [PATH_MAX];
        catalogue_path (self->catalogue, id, 0, path, sizeof path);
        json_t *line = json_object ();
        rc = json_object_set_new (line, "path", json_string (path));
        for (size_t index = 0; rc == 0 && index < catalogue_labels (self->catalogue); index++)
            rc = json_object_set_new (line, catalogue_label (self->catalogue, index)->name,
                s_json_value (self, index, id));
        if (rc == 0)
            rc = json_dumpf (line, self->file, JSON_REAL_PRECISION (17));
        json_decref (line);
        fputc ('\n', self->file);
    }
    return rc? -ENOMEM: 0;
}


//  ---- the file

static int
s_open (writer_t *self, int folder_fd, const char *name)
{
    int fd = openat (folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    self->file = fdopen (fd, "w");
    if (self->file)
        return 0;
    close (fd);
    return -ENOMEM;
}

static int
s_write (writer_t *self, int folder_fd, bool tsv, const char *name)
{
    int rc = s_open (self, folder_fd, name);
    if (rc)
        return rc;
    if (tsv)
        s_write_tsv (self);
    else
        rc = s_write_jsonl (self);
    errno = 0;
    if ((fflush (self->file) || ferror (self->file)) && rc == 0)
        rc = errno? -errno: -EIO;
    if (fclose (self->file) && rc == 0)
        rc = -EIO;
    if (rc)
        unlinkat (folder_fd, name, 0);
    return rc;
}

int
unpack_labels_write (const catalogue_t *catalogue, const bool *wanted, int folder_fd, const char **name_p)
{
    assert (catalogue); assert (wanted); assert (name_p);
    writer_t self = { .catalogue = catalogue, .wanted = wanted,
        .value = malloc (CATALOGUE_LABEL_BYTES_MAX + 1) };
    if (!self.value)
        return -ENOMEM;
    bool tsv = s_fits_tsv (&self);
    *name_p = tsv? "labels.tsv": "labels.jsonl";
    int rc = tsv || s_fits_jsonl (&self)? s_write (&self, folder_fd, tsv, *name_p): -EINVAL;
    free (self.value);
    return rc;
}


//  ---- names of classes

bool
unpack_labels_have_names (const catalogue_t *catalogue)
{
    return catalogue_classes (catalogue) > 0 && !catalogue_class_is_folder (catalogue);
}

int
unpack_labels_write_names (const catalogue_t *catalogue, const char *path)
{
    for (uint32_t class = 0; class < catalogue_classes (catalogue); class++)
        if (strpbrk (catalogue_class_name (catalogue, class), "\r\n"))
            return -EINVAL;
    FILE *file = fopen (path, "wxe");
    if (!file)
        return -errno;
    for (uint32_t class = 0; class < catalogue_classes (catalogue); class++)
        fprintf (file, "%s\n", catalogue_class_name (catalogue, class));
    errno = 0;
    int rc = fflush (file) == 0 && !ferror (file)? 0: errno? -errno: -EIO;
    if (fclose (file) && rc == 0)
        rc = -errno;
    if (rc)
        unlink (path);                  //  or the next call finds a file that is there
    return rc;
}

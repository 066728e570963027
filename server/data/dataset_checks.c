#include "dataset_checks.h"
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "image_reader.h"
#include "plural.h"
#include "utf8.h"

//  ---- files that no image pipeline can read

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
dataset_checks_unreadable (const catalogue_t *catalogue, char *text, size_t size)
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

//  ---- classes that differ

enum {
    CLASSES_SHOWN = 3,
    CLASS_BYTES = 80,
    CLASSES_BYTES = CLASSES_SHOWN * (CLASS_BYTES + 4) + 32
};

//  What two have: which classes of each the other lacks, and a class that has two numbers.
typedef struct {
    uint32_t common;
    uint32_t lacked [2];
    char names [2] [CLASSES_BYTES];     //  of some of them
    const char *moved;                  //  NULL: each class that both have has one number
    uint32_t numbers [2];
} difference_t;

static int
s_compare_classes (const void *left, const void *right, void *catalogue)
{
    return strcmp (catalogue_class_name (catalogue, *(const uint32_t *) left),
        catalogue_class_name (catalogue, *(const uint32_t *) right));
}

dataset_checks_classes_t
dataset_checks_classes_of (const catalogue_t *catalogue, const char *name, bool goes_by_others)
{
    dataset_checks_classes_t self = { .catalogue = catalogue, .name = name,
        .count = catalogue_classes (catalogue),
        .goes_by_others = goes_by_others };
    self.sorted = self.count? malloc (self.count * sizeof *self.sorted): NULL;
    self.count = self.sorted? self.count: 0;
    for (uint32_t class = 0; class < self.count; class++)
        self.sorted [class] = class;
    if (self.count)
        qsort_r (self.sorted, self.count, sizeof *self.sorted, s_compare_classes, (void *) catalogue);
    return self;
}

static const char *
s_class_name (const dataset_checks_classes_t *self, uint32_t place)
{
    return catalogue_class_name (self->catalogue, self->sorted [place]);
}

static void
s_note_lacked (difference_t *self, size_t side, const char *name)
{
    char shown [CLASS_BYTES], *list = self->names [side];
    size_t used = strlen (list);
    if (self->lacked [side]++ < CLASSES_SHOWN)
        snprintf (list + used, CLASSES_BYTES - used, "%s'%s'", used? ", ": "",
            utf8_visible (name, strlen (name), shown, sizeof shown));
}

static void
s_compare_splits (difference_t *self, const dataset_checks_classes_t *left,
    const dataset_checks_classes_t *right)
{
    uint32_t a = 0, b = 0;
    *self = (difference_t) { .common = 0 };
    while (a < left->count || b < right->count) {
        int order = a == left->count? 1: b == right->count? -1:
            strcmp (s_class_name (left, a), s_class_name (right, b));
        if (order == 0 && left->sorted [a] != right->sorted [b] && !self->moved) {
            self->moved = s_class_name (left, a);
            self->numbers [0] = left->sorted [a];
            self->numbers [1] = right->sorted [b];
        }
        self->common += order == 0;
        if (order < 0)
            s_note_lacked (self, 1, s_class_name (left, a));
        if (order > 0)
            s_note_lacked (self, 0, s_class_name (right, b));
        a += order <= 0;
        b += order >= 0;
    }
}

static void
s_print_lacked (FILE *text, const difference_t *self, size_t side, const char *name)
{
    if (self->lacked [side] > CLASSES_SHOWN)
        fprintf (text, "; '%s' has no %s and %u more", name, self->names [side],
            self->lacked [side] - CLASSES_SHOWN);
    else
    if (self->lacked [side])
        fprintf (text, "; '%s' has no %s", name, self->names [side]);
}

static void
s_print_difference (FILE *text, const difference_t *self, const char *left, const char *right,
    bool may_go_by_others)
{
    char shown [CLASS_BYTES];
    fprintf (text, "data sets '%s' and '%s' do not have the same classes", left, right);
    s_print_lacked (text, self, 0, left);
    s_print_lacked (text, self, 1, right);
    if (self->moved)
        fprintf (text, "; the label of '%s' is %u in '%s' and %u in '%s'",
            utf8_visible (self->moved, strlen (self->moved), shown, sizeof shown), self->numbers [0], left,
            self->numbers [1], right);
    const char *less = self->lacked [0]? left: right, *more = self->lacked [0]? right: left;
    fprintf (text, ": make an empty folder of each class that is missing (--allow-empty %s=yes)", less);
    if (may_go_by_others && (self->lacked [0] == 0 || self->lacked [1] == 0))
        fprintf (text, ", or number by names (--classes-from %s=%s)", less, more);
}

void
dataset_checks_classes_clear (dataset_checks_classes_t *self)
{
    free (self->sorted);
    *self = (dataset_checks_classes_t) { .sorted = NULL };
}

bool
dataset_checks_classes_compare (const dataset_checks_classes_t *left, const dataset_checks_classes_t *right,
    char **text_p)
{
    difference_t difference;
    size_t size;
    *text_p = NULL;
    s_compare_splits (&difference, left, right);
    //  Of two that are no splits of one set, few names are the same.
    uint32_t least = left->count < right->count? left->count: right->count;
    if (least == 0 || 2 * (uint64_t) difference.common < least)
        return false;
    if (difference.lacked [0] == 0 && difference.lacked [1] == 0 && !difference.moved)
        return true;
    FILE *stream = open_memstream (text_p, &size);
    if (!stream)
        return true;
    s_print_difference (stream, &difference, left->name, right->name, !left->goes_by_others
        && !right->goes_by_others);
    if (fclose (stream)) {
        free (*text_p);
        *text_p = NULL;
    }
    return true;
}

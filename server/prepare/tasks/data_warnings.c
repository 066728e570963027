#include "data_warnings.h"
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "image_reader.h"
#include "utf8.h"
#include "words.h"

enum { DATA_WARNINGS_MAGIC = 0xda7a3a41, SHOWN_BYTES = 300, COUNT_BYTES = 40 };

typedef struct {
    char *text;
    const char *other;
} warning_t;

struct data_warnings {
    uint32_t magic;
    const char *name;
    const catalogue_t *catalogue;
    warning_t *all;
    size_t count;
    uint64_t *clipped;              //  a bit a sample; NULL: none yet
    uint32_t clipped_count;
    uint32_t clipped_first;
    data_warnings_t *next;          //  in a list of news
};

data_warnings_t *
data_warnings_new (const char *name, const catalogue_t *catalogue)
{
    assert (name && catalogue);
    data_warnings_t *self = calloc (1, sizeof *self);
    if (self)
        *self = (data_warnings_t) { .magic = DATA_WARNINGS_MAGIC, .name = name, .catalogue = catalogue };
    return self;
}

void
data_warnings_destroy (data_warnings_t **self_p)
{
    assert (self_p);
    data_warnings_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == DATA_WARNINGS_MAGIC);
    for (size_t index = 0; index < self->count; index++)
        free (self->all [index].text);
    free (self->all);
    free (self->clipped);
    self->magic = 0;
    free (self);
}

const char *
data_warnings_name (const data_warnings_t *self)
{
    return self->name;
}

void
data_warnings_add (data_warnings_t *self, const char *other, const char *text)
{
    assert (self && self->magic == DATA_WARNINGS_MAGIC);
    warning_t *all = reallocarray (self->all, self->count + 1, sizeof *all);
    if (!all)
        return;
    self->all = all;
    all [self->count] = (warning_t) { .text = strdup (text), .other = other };
    self->count += all [self->count].text != NULL;
}

void
data_warnings_forget (data_warnings_t *self, const char *other)
{
    assert (self && self->magic == DATA_WARNINGS_MAGIC);
    size_t kept = 0;
    for (size_t index = 0; index < self->count; index++) {
        warning_t warning = self->all [index];
        if (warning.other && strcmp (warning.other, other) == 0)
            free (warning.text);
        else
            self->all [kept++] = warning;
    }
    self->count = kept;
}

const char *
data_warnings_text (const data_warnings_t *self, size_t index, const char **other_p)
{
    assert (self && self->magic == DATA_WARNINGS_MAGIC);
    if (index >= self->count)
        return NULL;
    *other_p = self->all [index].other;
    return self->all [index].text;
}

void
data_warnings_note_clipped (data_warnings_t *self, uint32_t id, data_warnings_t **news_p)
{
    assert (self && self->magic == DATA_WARNINGS_MAGIC);
    assert (id < catalogue_samples (self->catalogue));
    if (!self->clipped)
        self->clipped = calloc (((size_t) catalogue_samples (self->catalogue) + 63) / 64, sizeof (uint64_t));
    uint64_t bit = UINT64_C (1) << id % 64;
    if (!self->clipped || self->clipped [id / 64] & bit)
        return;
    self->clipped [id / 64] |= bit;
    if (self->clipped_count++ > 0)
        return;
    self->clipped_first = id;
    self->next = *news_p;
    *news_p = self;
}

data_warnings_t *
data_warnings_take_news (data_warnings_t **news_p)
{
    data_warnings_t *first = *news_p;
    if (first)
        *news_p = first->next;
    return first;
}

uint32_t
data_warnings_clipped (const data_warnings_t *self)
{
    assert (self && self->magic == DATA_WARNINGS_MAGIC);
    return self->clipped_count;
}

bool
data_warnings_clipped_text (const data_warnings_t *self, char text [DATA_WARNINGS_TEXT_BYTES])
{
    char path [PATH_MAX], shown [SHOWN_BYTES], count [COUNT_BYTES];
    if (data_warnings_clipped (self) == 0)
        return false;
    size_t length = catalogue_path (self->catalogue, self->clipped_first, 0, path, sizeof path);
    utf8_visible (path, length < sizeof path? length: sizeof path - 1, shown, sizeof shown);
    snprintf (count, sizeof count, " and %u more so far have", self->clipped_count - 1);
    snprintf (text, DATA_WARNINGS_TEXT_BYTES, "'%s'%s 16 bits of grey, and values above 255 became 255, "
        "as by Pillow's convert (\"RGB\"): scale them to 8 bits, or give depths as a field of masks, which "
        "are read as \"uint16\"", shown, self->clipped_count > 1? count: " has");
    return true;
}

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
data_warnings_unreadable (const catalogue_t *catalogue, char *text, size_t size)
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

data_warnings_classes_t
data_warnings_classes_of (const catalogue_t *catalogue, const char *name, bool goes_by_others)
{
    data_warnings_classes_t self = { .catalogue = catalogue, .name = name,
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
s_class_name (const data_warnings_classes_t *self, uint32_t place)
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
s_compare_splits (difference_t *self, const data_warnings_classes_t *left,
    const data_warnings_classes_t *right)
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
data_warnings_classes_clear (data_warnings_classes_t *self)
{
    free (self->sorted);
    *self = (data_warnings_classes_t) { .sorted = NULL };
}

bool
data_warnings_classes_compare (const data_warnings_classes_t *left, const data_warnings_classes_t *right,
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

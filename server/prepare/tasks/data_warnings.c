#include "data_warnings.h"
#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

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

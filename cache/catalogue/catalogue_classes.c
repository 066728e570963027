//  What makes an ImageFolder, by torchvision's rules, in a folder (catalogue_walk.c) and in a list of a
//  store's objects (catalogue_listing.c) alike: names, classes, classes without a sample.

#include "catalogue_state.h"

#include <stdio.h>
#include <string.h>

const char catalogue_image_extensions [] = ".jpg,.jpeg,.png,.ppm,.bmp,.pgm,.tif,.tiff,.webp";

//  -- names

int
catalogue_compare (const char *left, const char *right)
{
    const uint8_t *a = (const uint8_t *) left, *b = (const uint8_t *) right;
    while (*a && *a == *b)
        a++, b++;
    //  Up to two ASCII bytes (or the end) that differ, both decode alike.
    if (*a < 0x80 && *b < 0x80)
        return *a - *b;
    a = (const uint8_t *) left;
    b = (const uint8_t *) right;
    for (;;) {
        uint32_t x = catalogue_code_point (&a), y = catalogue_code_point (&b);
        if (x != y || x == 0)
            return (x > y) - (x < y);
    }
}

//  Folds ASCII only: tolower would ask the locale, and Turkish folds I otherwise.
static char
s_lower (char letter)
{
    return letter >= 'A' && letter <= 'Z'? (char) (letter + ('a' - 'A')): letter;
}

bool
catalogue_is_wanted (const char *name, const char *extensions)
{
    size_t length = strlen (name);
    for (const char *at = extensions; *at; at += *at == ',') {
        size_t size = strcspn (at, ","), same = 0;
        while (size <= length && same < size && s_lower (name [length - size + same]) == s_lower (at [same]))
            same++;
        if (same == size)
            return true;
        at += size;
    }
    return false;
}



//  -- classes

int
catalogue_add_class (const draft_t *draft, const char *name, size_t length)
{
    catalogue_t *self = draft->self;
    uint64_t *classes = catalogue_grown (self->classes, &self->class_limit, self->class_count + 1,
        sizeof *classes);
    if (!classes)
        return catalogue_fail_memory (draft);
    self->classes = classes;
    if (catalogue_add_text (self, NULL, name, length, &classes [self->class_count]))
        return catalogue_fail_memory (draft);
    self->class_count++;
    return 0;
}

int
catalogue_fail_no_classes (const draft_t *draft)
{
    return catalogue_fail (draft, -ENODATA,
        "no class folders in '%s': put the images into one folder for each class, or name them in a "
        "labels.tsv or labels.jsonl there", catalogue_root (draft->self));
}

void
catalogue_note_empty (empty_classes_t *empty, size_t label)
{
    if (empty->count++ < EMPTY_SHOWN_MAX)
        empty->labels [empty->count - 1] = label;
}

//  Packing was stopped before its first journal; catalogue_pack.c handles folders with a journal.
static bool
s_is_begun_pack (const catalogue_t *self)
{
    return self->class_count == 1 && strcmp (self->arena + self->classes [0], PACKING_FOLDER) == 0;
}

int
catalogue_fail_empty (const draft_t *draft, const empty_classes_t *empty)
{
    const catalogue_t *self = draft->self;
    if (s_is_begun_pack (self))
        return catalogue_fail_unfinished (draft);
    char names [EMPTY_SHOWN_MAX * 90] = "";
    size_t used = 0;
    size_t shown = empty->count < EMPTY_SHOWN_MAX? empty->count: EMPTY_SHOWN_MAX;
    for (size_t index = 0; index < shown; index++)
        used += (size_t) snprintf (names + used, sizeof names - used, "%s'%.80s'", index? ", ": "",
            self->arena + self->classes [empty->labels [index]]);
    char more [40] = "";
    if (empty->count > shown)
        snprintf (more, sizeof more, " and %zu more", empty->count - shown);
    bool is_image = !draft->extensions;
    return catalogue_fail (draft, -ENODATA,
        "no %s in %zu of the %zu class folders in '%s': %s%s: remove the %s "
        "or add %ss (%s)", is_image? "image": "file", empty->count, self->class_count,
        catalogue_root (self), names,
        more, empty->count == 1? "folder": "folders", is_image? "image": "file",
        is_image? catalogue_image_extensions: draft->extensions);
}

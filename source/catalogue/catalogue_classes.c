//  What makes an ImageFolder, by torchvision's rules, in a folder (catalogue_walk.c) and in a list of a
//  store's objects (catalogue_listing.c) alike: names, classes, classes without a sample.

#include "catalogue_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "location.h"

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

bool
catalogue_tells_more (const char *file, const char *than)
{
    return location_packer (file) && !location_is_tar (than)
        && (location_is_tar (file) || !location_packer (than));
}

int
catalogue_fail_no_classes (const draft_t *draft, const char *file)
{
    const char *root = catalogue_root (draft->self);
    if (location_is_tar (file))
        return catalogue_fail (draft, -ENODATA, "no class folders in '%s', but tar files, as '%s': make a "
            "pack of all, `tureen pack %s/%s PACK`, and give that; tables and .json files beside them, as "
            "img2dataset writes, are not needed", root, catalogue_shown (file, strlen (file)).text, root,
            draft->self->fields [0].store? "{00000..00099}.tar": "*.tar");
    if (location_packer (file))
        return catalogue_fail (draft, -ENODATA, "no class folders in '%s', but '%s': make a pack, `%s %s "
            "PACK`, and give that", root, catalogue_shown (file, strlen (file)).text, location_packer (file),
            root);
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

static int
s_fail_empty (const draft_t *draft, const empty_classes_t *empty)
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
    bool is_image = !draft->extensions, is_one = empty->count == 1;
    return catalogue_fail (draft, -ENODATA,
        "no %s in %zu of the %zu class folders in '%s': %s%s: remove the %s or add %ss (%s)%s",
        is_image? "image": "file", empty->count, self->class_count, catalogue_root (self), names, more,
        is_one? "folder": "folders", is_image? "image": "file",
        is_image? catalogue_image_extensions: draft->extensions, self->sample_count == 0? "": is_one?
        "; or keep it as a class (--allow-empty), so that later classes keep their numbers":
        "; or keep them as classes (--allow-empty), so that later classes keep their numbers");
}

int
catalogue_judge_classes (const draft_t *draft, const empty_classes_t *empty)
{
    bool may_be = draft->allow_empty && draft->self->sample_count > 0;
    int rc = catalogue_judge_splits (draft, CATALOGUE_SPLITS_OF_FOLDER);
    return rc? rc: empty->count && !may_be? s_fail_empty (draft, empty): 0;
}


//  -- numbers

static const char *
s_class (const catalogue_t *self, size_t class)
{
    return self->arena + self->classes [class];
}

static int
s_compare_classes (const void *left, const void *right, void *of)
{
    return strcmp (s_class (of, *(const uint32_t *) left), s_class (of, *(const uint32_t *) right));
}

//  The classes' numbers in the order of their names' bytes; the caller's.  NULL: no memory.
static uint32_t *
s_sorted (const catalogue_t *of)
{
    uint32_t *sorted = malloc (of->class_count * sizeof *sorted);
    for (uint32_t class = 0; sorted && class < of->class_count; class++)
        sorted [class] = class;
    if (sorted)
        qsort_r (sorted, of->class_count, sizeof *sorted, s_compare_classes, (void *) of);
    return sorted;
}

//  False: there is no class of this name.
static bool
s_find_number (const catalogue_t *of, const uint32_t *sorted, const char *name, uint32_t *number_p)
{
    size_t low = 0, high = of->class_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp (name, s_class (of, sorted [middle]));
        if (order == 0) {
            *number_p = sorted [middle];
            return true;
        }
        low = order > 0? middle + 1: low;
        high = order > 0? high: middle;
    }
    return false;
}

static int
s_take_numbers (const draft_t *draft, const catalogue_t *of)
{
    catalogue_t *self = draft->self;
    if (self->class_count == 0 || of->class_count == 0)
        return catalogue_fail (draft, -EINVAL, "'%s' has no class folders and no names of classes, by which "
            "labels could be numbered: leave out classes-from",
            catalogue_root (self->class_count == 0? self: of));
    uint32_t *sorted = s_sorted (of);
    self->numbers = malloc (self->class_count * sizeof *self->numbers);
    int rc = sorted && self->numbers? 0: catalogue_fail_memory (draft);
    for (size_t class = 0; rc == 0 && class < self->class_count; class++)
        if (!s_find_number (of, sorted, s_class (self, class), &self->numbers [class]))
            rc = catalogue_fail (draft, -EINVAL, "'%s' is no class of '%s', by whose classes labels are "
                "numbered: %s, or leave out classes-from",
                catalogue_shown (s_class (self, class), strlen (s_class (self, class))).text,
                catalogue_root (of), catalogue_class_is_folder (self)? "rename or remove its folder":
                "pack again with that name");
    self->classes_of = of;
    free (sorted);
    return rc;
}

//  Whether a class has no sample.  1, 0 or -ENOMEM.
static int
s_has_empty (const catalogue_t *self)
{
    bool *is_there = calloc (self->class_count + 1, sizeof *is_there);
    if (!is_there)
        return -ENOMEM;
    size_t found = 0;
    for (size_t id = 0; id < self->sample_count && found < self->class_count; id++) {
        uint32_t class = self->directories [self->samples [id].directory].label;
        found += !is_there [class];
        is_there [class] = true;
    }
    free (is_there);
    return found < self->class_count;
}

static int
s_hash_names (const draft_t *draft)
{
    catalogue_t *self = draft->self;
    XXH3_state_t *state = XXH3_createState ();
    if (!state)
        return catalogue_fail_memory (draft);
    XXH3_128bits_reset (state);
    XXH3_128bits_update (state, self->fingerprint, sizeof self->fingerprint);
    for (uint32_t class = 0; class < catalogue_classes (self); class++) {
        const char *name = catalogue_class_name (self, class);
        XXH3_128bits_update (state, name, strlen (name) + 1);
    }
    XXH128_hash_t hash = XXH3_128bits_digest (state);
    XXH3_freeState (state);
    snprintf (self->numbered_fingerprint, sizeof self->numbered_fingerprint, "%016llx%016llx",
        (unsigned long long) hash.high64, (unsigned long long) hash.low64);
    return 0;
}

int
catalogue_number_classes (const draft_t *draft, const catalogue_t *of)
{
    assert (!of || !of->classes_of);
    if (of) {
        int rc = s_take_numbers (draft, of);
        return rc? rc: s_hash_names (draft);
    }
    const catalogue_t *self = draft->self;
    int is_apart = self->class_count == 0? 0: catalogue_class_is_folder (self)? s_has_empty (self): 1;
    return is_apart < 0? catalogue_fail_memory (draft): is_apart? s_hash_names (draft): 0;
}

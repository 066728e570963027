/*  catalogue_listing.c -- how a list of a store's objects becomes a catalogue: an ImageFolder by the rules of
 *  catalogue_classes.c; the classes are the first parts of the objects' names.
 *
 *  happy path:  the list is fetched; the objects in it are put into the order that a walk would find them in
 *               (class, directory, name); one pass makes classes, directories and samples.  When fields and
 *               labels are there too, each sample's object is looked up for its version.
 *  failure:     as in catalogue_classes.c.
 */
#include "catalogue_state.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "store_listing_kept.h"

enum { LIST_PATIENCE_MS = 15000 };      //  a user waits for the server to start

//  An object with a class: "class/directory/name".
typedef struct {
    const char *path;
    size_t class_length, directory_length;
    uint64_t bytes;
} entry_t;

typedef struct {
    draft_t *draft;
    catalogue_t *self;
    const char *extensions;
    entry_t *entries;
    size_t count;
    empty_classes_t empty;
} listing_walk_t;


//  -- order

//  Texts of these lengths, in Python's order.
static int
s_compare_parts (const char *left, size_t left_length, const char *right, size_t right_length)
{
    char a [PATH_MAX], b [PATH_MAX];
    memcpy (a, left, left_length);
    memcpy (b, right, right_length);
    a [left_length] = b [right_length] = 0;
    return catalogue_compare (a, b);
}

static int
s_compare_entries (const void *left, const void *right)
{
    const entry_t *a = left, *b = right;
    bool is_one_folder = a->directory_length == b->directory_length
        && memcmp (a->path, b->path, a->directory_length) == 0;
    if (is_one_folder)
        return catalogue_compare (a->path + a->directory_length, b->path + b->directory_length);
    int order = s_compare_parts (a->path, a->class_length, b->path, b->class_length);
    return order? order: s_compare_parts (a->path, a->directory_length, b->path, b->directory_length);
}

//  A part of a key that no path can have, for people; NULL: none.  An empty one, "a//b", is served as a
//  folder of that name.
static const char *
s_wrong_part (const draft_t *draft, const char *key)
{
    for (const char *at = key; ; at++) {
        size_t size = strcspn (at, "/");
        if ((size == 1 && *at == '.') || (size == 2 && strncmp (at, "..", 2) == 0))
            return "'.' or '..' as a part";
        if (size == 0 && draft->is_to_pack)
            return "an empty part ('//')";
        at += size;
        if (!*at)
            return NULL;
    }
}


//  -- one pass

//  Objects beside the class folders are no samples, as files beside them are none.
static int
s_take_entries (listing_walk_t *walk)
{
    const store_listing_t *listing = &walk->self->fields [0].listing;
    walk->entries = reallocarray (NULL, listing->count + 1, sizeof *walk->entries);
    if (!walk->entries)
        return catalogue_fail_memory (walk->draft);
    const char *beside = "";
    for (size_t index = 0; index < listing->count; index++) {
        const char *path = store_listing_name (listing, &listing->objects [index]);
        const char *slash = strchr (path, '/');
        if (!slash && catalogue_tells_more (path, beside))
            beside = path;
        if (!slash || slash == path)
            continue;
        if (strlen (path) >= PATH_MAX)
            return catalogue_fail_folder (walk->draft, catalogue_root (walk->self), path, -ENAMETOOLONG);
        const char *wrong = s_wrong_part (walk->draft, path);
        if (wrong)
            return catalogue_fail (walk->draft, -EINVAL, "the object '%s' below '%s' has %s of its key, "
                "which is no path of a file: rename it, or move it to another prefix",
                catalogue_shown (path, strlen (path)).text, catalogue_root (walk->self), wrong);
        walk->entries [walk->count++] = (entry_t) { .path = path, .class_length = (size_t) (slash - path),
            .directory_length = (size_t) (strrchr (path, '/') - path),
            .bytes = listing->objects [index].bytes };
    }
    if (walk->count == 0)
        return catalogue_fail_no_classes (walk->draft, beside);
    qsort (walk->entries, walk->count, sizeof *walk->entries, s_compare_entries);
    return 0;
}

static int
s_add_directory (const listing_walk_t *walk, const entry_t *entry)
{
    catalogue_t *self = walk->self;
    directory_t *directories = catalogue_grown (self->directories, &self->directory_limit,
        self->directory_count + 1, sizeof *directories);
    if (!directories)
        return catalogue_fail_memory (walk->draft);
    self->directories = directories;
    directory_t *directory = &directories [self->directory_count];
    *directory = (directory_t) { .label = (uint32_t) self->class_count - 1 };
    if (catalogue_add_text (self, NULL, entry->path, entry->directory_length, &directory->path))
        return catalogue_fail_memory (walk->draft);
    self->directory_count++;
    return 0;
}

static bool
s_differ (const entry_t *before, const entry_t *entry, size_t length_before, size_t length)
{
    return !before || length_before != length || memcmp (before->path, entry->path, length) != 0;
}

//  before: the entry in front of it; NULL: it is the first.
static int
s_add_entry (listing_walk_t *walk, const entry_t *before, const entry_t *entry)
{
    catalogue_t *self = walk->self;
    int rc = 0;
    if (s_differ (before, entry, before? before->class_length: 0, entry->class_length))
        rc = catalogue_add_class (walk->draft, entry->path, entry->class_length);
    if (rc == 0 && s_differ (before, entry, before? before->directory_length: 0, entry->directory_length))
        rc = s_add_directory (walk, entry);
    const char *name = entry->path + entry->directory_length + 1;
    if (rc || !catalogue_is_wanted (name, walk->extensions, &walk->empty))
        return rc;
    if (self->sample_count == UINT32_MAX)
        //  UNTESTED: takes 2^32 objects.
        return catalogue_fail (walk->draft, -EOVERFLOW, "more than %u samples below '%s': serve them in "
            "parts", UINT32_MAX, catalogue_root (self));
    rc = catalogue_add_sample (self, (uint32_t) self->directory_count - 1, name, strlen (name), entry->bytes);
    return rc? catalogue_fail_memory (walk->draft): 0;
}

static int
s_pass (listing_walk_t *walk)
{
    const catalogue_t *self = walk->self;
    size_t first = 0;                   //  of the class's samples
    for (size_t index = 0; index < walk->count; index++) {
        size_t samples = self->sample_count, classes = self->class_count;
        int rc = s_add_entry (walk, index? &walk->entries [index - 1]: NULL, &walk->entries [index]);
        if (rc)
            return rc;
        if (self->class_count == classes)
            continue;
        if (classes > 0 && samples == first)
            catalogue_note_empty (&walk->empty, classes - 1);
        first = samples;
    }
    if (self->sample_count == first)
        catalogue_note_empty (&walk->empty, self->class_count - 1);
    return catalogue_judge_classes (walk->draft, &walk->empty);
}


//  -- all of it

int
catalogue_listing_fetch (draft_t *draft, field_t *field)
{
    char what [500];
    int rc = 0;
    if (!store_lists (field->store))
        return catalogue_fail (draft, -ENOTSUP, "there is no pack at '%s', and a web server does not list "
            "its files: make a pack of them with `tureen pack`, and copy its folder there", field->path);
    if (draft->cache)
        (void) (store_listing_kept_open (&field->list_blocks, field->store, draft->cache) == 0);
    field->list_was_aside = field->list_blocks && block_data_is_aside (field->list_blocks);
    bool is_kept = field->list_blocks && !draft->list_anew
        && store_listing_kept_load (&field->listing, field->list_blocks, &field->listed_s) == 0;
    if (!is_kept)
        rc = store_listing_fetch (&field->listing, field->store, LIST_PATIENCE_MS, draft->progress, what,
            sizeof what);
    if (rc)
        return catalogue_fail (draft, rc, "%s", what);
    field->listed_s = is_kept? field->listed_s: 0;
    draft->has_kept_list = draft->has_kept_list || is_kept;
    if (field->listing.count == 0)
        return catalogue_fail (draft, -ENODATA, "there is nothing at '%s', no pack and no objects: check "
            "the address", field->path);
    if (store_listing_find (&field->listing, "volume-00000.tureen"))
        return catalogue_fail (draft, -ENODATA, "'%s' has a pack's volumes, but not its %s: copy it from "
            "where it is whole, or pack again", field->path, PACK_INDEX_NAME);
    return 0;
}

int
catalogue_listing_walk (draft_t *draft)
{
    listing_walk_t walk = { .draft = draft, .self = draft->self,
        .extensions = draft->extensions? draft->extensions: catalogue_image_extensions };
    int rc = s_take_entries (&walk);
    if (rc == 0)
        rc = s_pass (&walk);
    free (walk.entries);
    return rc;
}

int
catalogue_listing_read (const draft_t *draft, const store_object_t *object, char **text_p)
{
    field_t *field = &draft->self->fields [0];
    const char *name = store_listing_name (&field->listing, object);
    char *url = store_url (field->store, name), *text = malloc (object->bytes + 1);
    transfer_t transfer = { .url = url, .version = store_listing_version (&field->listing, object),
        .bytes = object->bytes, .expected_bytes = object->bytes, .memory = (uint8_t *) text };
    int rc = !url || !text? catalogue_fail_memory (draft): 0;
    if (rc == 0 && object->bytes > 0 && (rc = store_get (field->store, &transfer, 1, LIST_PATIENCE_MS))) {
        char what [500];
        store_explain (field->store, name, &transfer, what, sizeof what);
        catalogue_fail (draft, rc, "%s", what);
    }
    free (url);
    if (rc == 0)
        text [object->bytes] = 0;
    else {
        free (text);
        text = NULL;
    }
    *text_p = text;
    return rc;
}

static int
s_note_versions (draft_t *draft, size_t number)
{
    catalogue_t *self = draft->self;
    field_t *field = &self->fields [number];
    char path [PATH_MAX];
    field->versions = reallocarray (NULL, self->sample_count, sizeof *field->versions);
    if (!field->versions)
        return catalogue_fail_memory (draft);
    for (uint32_t id = 0; id < self->sample_count; id++) {
        catalogue_path (self, id, number, path, sizeof path);
        const store_object_t *object = store_listing_find (&field->listing, path);
        const char *version = store_listing_version (&field->listing, object);
        if (catalogue_add_text (self, NULL, version, strlen (version), &field->versions [id]))
            return catalogue_fail_memory (draft);
    }
    return 0;
}

//  One behind the other, in the order of the samples.
static int
s_place_objects (draft_t *draft, size_t number, block_data_key_t *key, uint64_t *bytes_p)
{
    catalogue_t *self = draft->self;
    field_t *field = &self->fields [number];
    field->places = reallocarray (NULL, self->sample_count, sizeof *field->places);
    if (!field->places)
        return catalogue_fail_memory (draft);
    for (uint32_t id = 0; id < self->sample_count; id++) {
        const char *version = catalogue_version (self, id, number);
        uint64_t bytes = catalogue_file_bytes (self, id, number);
        char *url = catalogue_url (self, id, number);
        if (!url)
            return catalogue_fail_memory (draft);
        block_data_key_add (key, url, version, bytes);
        free (url);
        field->places [id] = *bytes_p;
        //  One beyond the bound is never read.
        *bytes_p = block_data_next (*bytes_p, bytes <= CATALOGUE_SAMPLE_BYTES_MAX? bytes: 0);
        if (!*version)
            field->blocks_rc = -ENODATA;
    }
    return 0;
}

//  Where they cannot be kept, they are read from the store alone, and catalogue_blocks tells why.
static int
s_keep_objects (draft_t *draft, size_t number)
{
    field_t *field = &draft->self->fields [number];
    block_data_key_t key = { { 0, 0 } };
    uint64_t bytes = 0;
    int rc = s_place_objects (draft, number, &key, &bytes);
    if (rc == 0 && field->blocks_rc == 0 && bytes > 0)
        field->blocks_rc = block_data_open (&field->blocks, draft->cache, &key, bytes);
    return rc;
}

int
catalogue_listing_finish (draft_t *draft)
{
    int rc = 0;
    for (size_t number = 0; number < draft->self->field_count; number++) {
        field_t *field = &draft->self->fields [number];
        if (rc == 0 && field->store)
            rc = s_note_versions (draft, number);
        if (rc == 0 && field->store && draft->cache)
            rc = s_keep_objects (draft, number);
        //  Only a list that a catalogue could be made of.
        if (rc == 0 && field->list_blocks && !field->listed_s && !field->list_was_aside)
            store_listing_kept_write (&field->listing, field->list_blocks, time (NULL));
        store_listing_clear (&field->listing);
    }
    return rc;
}

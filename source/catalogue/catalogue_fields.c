/*  catalogue_fields.c -- further fields: for every sample, the file with the same path but for the extension.
 *
 *  The samples are put into a table by directory and stem, once.  Each field's folder is then read directory
 *  by directory, only those with samples, and each entry is looked up: a million samples take a million
 *  look-ups and one fstatat each, in any order.  Files of no sample are skipped.
 */
#include "catalogue_state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

typedef struct {
    draft_t *draft;
    catalogue_t *self;
    lookup_t stems;                 //  the samples
    field_t *field;                 //  the field being read
    uint64_t extension;             //  the last one found, in the arena; most fields have only one
    bool has_extension;
    size_t found;                   //  samples that have the field
} search_t;

typedef struct {
    const catalogue_t *catalogue;
    uint32_t directory;
    const char *name;
    size_t stem;
} wanted_t;

//  -- stems

static bool
s_same (const void *argument, uint32_t item)
{
    const wanted_t *wanted = argument;
    const sample_t *sample = &wanted->catalogue->samples [item];
    const char *name = wanted->catalogue->arena + sample->name;
    return sample->directory == wanted->directory && catalogue_stem (name) == wanted->stem
        && memcmp (name, wanted->name, wanted->stem) == 0;
}

static uint64_t
s_hash (const wanted_t *wanted)
{
    return XXH3_64bits_withSeed (wanted->name, wanted->stem, wanted->directory);
}

static shown_t
s_shown_sample (const catalogue_t *self, int64_t id)
{
    char path [PATH_MAX];
    catalogue_path (self, (uint32_t) id, 0, path, sizeof path);
    return catalogue_shown (path, strlen (path));
}

static int
s_index_samples (search_t *search)
{
    const catalogue_t *self = search->self;
    for (uint32_t id = 0; id < self->sample_count; id++) {
        const char *name = self->arena + self->samples [id].name;
        wanted_t wanted = { self, self->samples [id].directory, name, catalogue_stem (name) };
        uint64_t hash = s_hash (&wanted);
        int64_t twin = catalogue_lookup_find (&search->stems, hash, s_same, &wanted);
        if (twin != LOOKUP_NONE)
            return catalogue_fail (search->draft, -EINVAL,
                "the samples '%s' and '%s' differ in their extension only, "
                "so the file of the field '%s' would belong to both: rename one",
                s_shown_sample (self, twin).text, s_shown_sample (self, id).text, self->fields [1].name);
        if (catalogue_lookup_add (&search->stems, hash, id))
            return catalogue_fail_memory (search->draft);
    }
    return 0;
}


//  -- one field

static int
s_add_extension (search_t *search, const char *extension)
{
    if (search->has_extension && strcmp (search->self->arena + search->extension, extension) == 0)
        return 0;
    if (catalogue_add_text (search->self, NULL, extension, strlen (extension), &search->extension))
        return catalogue_fail_memory (search->draft);
    search->has_extension = true;
    return 0;
}

static int
s_fail_twins (const search_t *search, uint32_t id, const char *name)
{
    char path [PATH_MAX];
    catalogue_path (search->self, id, (size_t) (search->field - search->self->fields), path, sizeof path);
    return catalogue_fail (search->draft, -EINVAL,
        "field '%s': both '%s' and '%s' in '%s' belong to the sample '%s': "
        "remove one", search->field->name, catalogue_shown (path, strlen (path)).text, name,
        search->field->path, s_shown_sample (search->self, id).text);
}

//  Gives the sample its file.
static int
s_match (search_t *search, uint32_t id, const char *name, uint64_t bytes)
{
    catalogue_t *self = search->self;
    companion_t *file = &search->field->files [id];
    if (file->bytes != COMPANION_MISSING)
        return s_fail_twins (search, id, name);
    const char *directory = self->arena + self->directories [self->samples [id].directory].path;
    if (strlen (directory) + 1 + strlen (name) >= PATH_MAX)
        return catalogue_fail_folder (search->draft, search->field->path, directory, -ENAMETOOLONG);
    int rc = s_add_extension (search, name + catalogue_stem (name));
    if (rc)
        return rc;
    *file = (companion_t) { .bytes = bytes, .extension = search->extension };
    self->bytes += bytes;
    progress_tell (search->draft->progress, ++search->found, 0);
    return 0;
}

//  Links are followed.  A dangling link, a folder or a fifo is no file: the sample still lacks one.
static int
s_entry (search_t *search, uint32_t directory, DIR *folder, const struct dirent *item)
{
    if (item->d_type == DT_DIR)
        return 0;
    wanted_t wanted = { search->self, directory, item->d_name, catalogue_stem (item->d_name) };
    int64_t id = catalogue_lookup_find (&search->stems, s_hash (&wanted), s_same, &wanted);
    if (id == LOOKUP_NONE)
        return 0;
    struct stat status;
    if (fstatat (dirfd (folder), item->d_name, &status, 0) != 0)
        return errno == ENOENT || errno == ELOOP || errno == ENOTDIR? 0: -errno;
    return S_ISREG (status.st_mode)? s_match (search, (uint32_t) id, item->d_name, (uint64_t) status.st_size):
        0;
}

//  The same with an object of the field's store: "directory/name".  Of a folder below the directory: nothing.
static int
s_object (search_t *search, uint32_t directory, size_t prefix, const store_object_t *object)
{
    const char *name = store_listing_name (&search->field->listing, object) + prefix;
    wanted_t wanted = { search->self, directory, name, catalogue_stem (name) };
    if (strchr (name, '/'))
        return 0;
    int64_t id = catalogue_lookup_find (&search->stems, s_hash (&wanted), s_same, &wanted);
    return id == LOOKUP_NONE? 0: s_match (search, (uint32_t) id, name, object->bytes);
}

//  The objects of the directory and of those below it stand together in the list.
static int
s_look_through_list (search_t *search, uint32_t directory)
{
    const store_listing_t *listing = &search->field->listing;
    char begin [PATH_MAX + 1];
    const char *path = search->self->arena + search->self->directories [directory].path;
    size_t length = (size_t) snprintf (begin, sizeof begin, "%s%s", path, *path? "/": "");
    int rc = 0;
    for (size_t index = store_listing_from (listing, begin); rc == 0 && index < listing->count; index++) {
        const store_object_t *object = &listing->objects [index];
        if (strncmp (store_listing_name (listing, object), begin, length) != 0)
            break;
        rc = s_object (search, directory, length, object);
    }
    return rc;
}

static int
s_look_through (search_t *search, uint32_t directory)
{
    if (search->field->store)
        return s_look_through_list (search, directory);
    //  Lent for this call only: the arena moves when it grows.
    const catalogue_t *self = search->self;
    uint64_t path = self->directories [directory].path;
    DIR *folder = catalogue_folder_open (search->field->root_fd, self->arena + path);
    //  No such folder: its samples, if any, will turn out to lack a file.
    if (!folder && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (!folder)
        return catalogue_fail_folder (search->draft, search->field->path, self->arena + path, -errno);
    struct dirent *item;
    int rc;
    while ((rc = catalogue_folder_next (folder, &item)) > 0)
        if ((rc = s_entry (search, directory, folder, item)))
            break;
    if (rc && !search->draft->error [0])
        catalogue_fail_folder (search->draft, search->field->path, self->arena + path, rc);
    closedir (folder);
    return rc;
}

//  The path looked for is the sample's, with any extension.
static int
s_fail_missing (const search_t *search, uint32_t first, size_t count)
{
    const catalogue_t *self = search->self;
    const char *directory = self->arena + self->directories [self->samples [first].directory].path;
    const char *name = self->arena + self->samples [first].name;
    return catalogue_fail (search->draft, -ENODATA,
        "field '%s': no file for %zu of the %zu samples, the first is '%s': "
        "there is no '%s/%s%s%s.*': add the files, or take the samples away", search->field->name, count,
        self->sample_count, s_shown_sample (self, first).text, search->field->path,
        catalogue_shown (directory, strlen (directory)).text, *directory? "/": "",
        catalogue_shown (name, catalogue_stem (name)).text);
}

static int
s_check_missing (const search_t *search)
{
    uint32_t first = 0;
    size_t count = 0;
    for (size_t id = search->self->sample_count; id-- > 0; )
        if (search->field->files [id].bytes == COMPANION_MISSING) {
            first = (uint32_t) id;
            count++;
        }
    return count? s_fail_missing (search, first, count): 0;
}

static int
s_find (search_t *search, field_t *field)
{
    catalogue_t *self = search->self;
    search->field = field;
    search->found = 0;
    progress_step (search->draft->progress, &(progress_step_t) { .what = "finding further fields' files",
        .unit = "files", .total = self->sample_count }, 0);
    field->files = reallocarray (NULL, self->sample_count, sizeof *field->files);
    if (!field->files)
        return catalogue_fail_memory (search->draft);
    for (size_t id = 0; id < self->sample_count; id++)
        field->files [id] = (companion_t) { .bytes = COMPANION_MISSING };
    for (uint32_t directory = 0; directory < self->directory_count; directory++) {
        int rc = s_look_through (search, directory);
        if (rc)
            return rc;
    }
    return s_check_missing (search);
}


//  -- all of them

int
catalogue_fields_find (draft_t *draft)
{
    catalogue_t *self = draft->self;
    if (self->field_count == 1)
        return 0;
    search_t search = { .draft = draft, .self = self };
    int rc = s_index_samples (&search);
    for (size_t field = 1; rc == 0 && field < self->field_count; field++)
        rc = s_find (&search, &self->fields [field]);
    free (search.stems.slots);
    return rc;
}

//  A folder, a list or a store becomes a catalogue: what fills it (catalogue_state.h), further fields, the
//  fingerprint.
#include "catalogue_labels.h"
#include "catalogue_places.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>
#include "location.h"

//  ---- options and roots

//  ".wav,.flac"
bool
catalogue_extensions_are_valid (const char *extensions)
{
    for (const char *at = extensions; ; at++) {
        size_t size = strcspn (at, ",");
        if (size < 2 || *at != '.' || strcspn (at, "/ ") < size)
            return false;
        at += size;
        if (!*at)
            return true;
    }
}

static int
s_add_field (const draft_t *draft, const char *name, bool is_mask, const char *path)
{
    catalogue_t *self = draft->self;
    field_t *field = &self->fields [self->field_count];
    field->is_mask = is_mask;
    strcpy (field->name, name);
    field->path = strdup (path);
    if (!field->path)
        return catalogue_fail_memory (draft);
    self->field_count++;
    return 0;
}

static int
s_take_options (draft_t *draft, const catalogue_options_t *options, bool list_anew)
{
    draft->extensions = options->extensions;
    draft->path = options->path;
    draft->labels = options->labels;
    draft->index_only = options->index_only;
    draft->cache = options->cache;
    draft->keep = options->keep;
    draft->list_anew = list_anew;
    draft->progress = options->progress;
    draft->is_to_pack = options->is_to_pack;
    draft->allow_empty = options->allow_empty || options->classes_of;
    if (options->extensions && !catalogue_extensions_are_valid (options->extensions))
        return catalogue_fail (draft, -EINVAL, "'%.80s' is no list of file extensions: "
            "write them with their dots and commas between, like '.wav,.flac'", options->extensions);
    if (options->field_count > CATALOGUE_FIELDS_MAX - 1)
        return catalogue_fail (draft, -EINVAL, "%zu further fields for '%s': give at most %d",
            options->field_count, options->path, CATALOGUE_FIELDS_MAX - 1);
    int rc = s_add_field (draft, "image", false, options->path);
    for (size_t index = 0; rc == 0 && index < options->field_count; index++) {
        const catalogue_field_t *wanted = &options->fields [index];
        if (!catalogue_name_is_valid (wanted->name, strlen (wanted->name)))
            return catalogue_fail (draft, -EINVAL, "a field cannot have the name '%.80s': "
                "use letters, digits and '_', at most %d", wanted->name, CATALOGUE_NAME_BYTES_MAX - 1);
        if (catalogue_name_is_taken (draft->self, wanted->name))
            return catalogue_fail (draft, -EINVAL, "there are two fields '%s': give each a name of its own",
                wanted->name);
        rc = s_add_field (draft, wanted->name, wanted->is_mask, wanted->path);
    }
    return rc;
}

//  A store in place of a folder.
static int
s_open_store (const draft_t *draft, field_t *field)
{
    char what [500];
    if (draft->labels)
        return catalogue_fail (draft, -EINVAL, "a labels file goes with a folder, not with '%s'",
            field->path);
    int rc = store_open (&field->store, field->path, what, sizeof what);
    return rc? catalogue_fail (draft, rc, "%s", what): 0;
}

static int
s_open_root (const draft_t *draft, field_t *field)
{
    if (store_is_meant (field->path))
        return s_open_store (draft, field);
    do
        field->root_fd = open (field->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (field->root_fd < 0 && errno == EINTR);
    struct stat status;
    if (field->root_fd >= 0) {
        bool is_known = fstat (field->root_fd, &status) == 0;
        field->root_inode = is_known? status.st_ino: 0;
        field->root_device = is_known? status.st_dev: 0;
        return 0;
    }
    bool is_first = field == draft->self->fields;
    if (errno == ENOENT)
        return catalogue_fail (draft, -ENOENT, "there is no folder '%s'%s%s: %s", field->path,
            is_first? "": " for the field ", is_first? "": field->name, location_remedy (field->path));
    if (errno == ENOTDIR)
        return catalogue_fail (draft, -ENOTDIR, "'%s' is not a folder: %s", field->path,
            is_first? location_folder_remedy (field->path): "give the folder that holds the field's files");
    return catalogue_fail_folder (draft, field->path, "", -errno);
}

//  Without a labels file: the class is the label.
static int
s_label_by_class (draft_t *draft)
{
    catalogue_t *self = draft->self;
    if (catalogue_name_is_taken (self, "label"))
        return catalogue_fail (draft, -EINVAL,
            "a field cannot have the name 'label', which the class's number has: "
            "choose another");
    column_t *column = &self->columns [self->column_count++];
    *column = (column_t) { .name = "label", .kind = COLUMN_CLASS, .length = 1 };
    catalogue_column_describe (column);
    return catalogue_walk (draft);
}


//  ---- further fields

//  For every sample, the file with the same path but for the extension.
//
//  The samples are put into a table by directory and stem, once.  Each field's folder is then read directory
//  by directory, only those with samples, and each entry is looked up: a million samples take a million
//  look-ups and one fstatat each, in any order.  Files of no sample are skipped.

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
    if (search->field->tags && S_ISREG (status.st_mode))
        search->field->tags [id] = catalogue_places_tag (&status);
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
    bool is_kept = search->draft->cache && !field->store;
    field->tags = is_kept? calloc (self->sample_count + 1, sizeof *field->tags): NULL;
    if (!field->files || (is_kept && !field->tags))
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


//  -- all fields

//  Finds every sample's file in the further fields.  Their roots are open.
static int
s_find_fields (draft_t *draft)
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


//  ---- fingerprint

static void
s_hash_text (XXH3_state_t *state, const char *text)
{
    XXH3_128bits_update (state, text, strlen (text) + 1);
}

static void
s_hash_number (XXH3_state_t *state, uint64_t number)
{
    uint64_t little = htole64 (number);
    XXH3_128bits_update (state, &little, sizeof little);
}

//  For each sample: its path, a zero, its size as 8 little-endian bytes.
static void
s_hash_samples (XXH3_state_t *state, const catalogue_t *self)
{
    for (size_t index = 0; index < self->sample_count; index++) {
        const sample_t *sample = &self->samples [index];
        const char *path = self->arena + self->directories [sample->directory].path;
        XXH3_128bits_update (state, path, strlen (path));
        XXH3_128bits_update (state, "/", *path? 1: 0);
        s_hash_text (state, self->arena + sample->name);
        s_hash_number (state, sample->bytes);
    }
}

//  A further field: with the samples' paths known, only the extensions and sizes are new.
static void
s_hash_field (XXH3_state_t *state, const catalogue_t *self, const field_t *field)
{
    s_hash_text (state, "field");
    s_hash_text (state, field->name);
    s_hash_number (state, field->is_mask);
    for (size_t index = 0; index < self->sample_count; index++) {
        s_hash_text (state, self->arena + field->files [index].extension);
        s_hash_number (state, field->files [index].bytes);
    }
}

static void
s_hash_column (XXH3_state_t *state, const catalogue_t *self, const column_t *column)
{
    s_hash_text (state, "label");
    s_hash_text (state, column->name);
    s_hash_text (state, column->label.dtype);
    s_hash_number (state, column->is_vector? column->length: 0);
    for (size_t index = 0; index < column->value_count; index++)
        if (column->kind == COLUMN_TEXT)
            s_hash_text (state, self->arena + column->values [index].text);
        else
            s_hash_number (state, (uint64_t) column->values [index].whole);     //  the bits, of either kind
}

int
catalogue_hash (catalogue_t *self)
{
    XXH3_state_t *state = XXH3_createState ();
    if (!state)
        return -ENOMEM;
    XXH3_128bits_reset (state);
    s_hash_samples (state, self);
    for (size_t field = 1; field < self->field_count; field++)
        s_hash_field (state, self, &self->fields [field]);
    //  The class follows from the path.
    for (size_t column = 0; column < self->column_count; column++)
        if (self->columns [column].kind != COLUMN_CLASS)
            s_hash_column (state, self, &self->columns [column]);
    if (self->column_count == 0)
        s_hash_text (state, "no labels");           //  otherwise the fingerprint of an ImageFolder of these
                                                    //  files
    catalogue_fingerprint_end (state, self->fingerprint);
    return 0;
}


//  ---- open

//  Gives spare room back.  A realloc that fails to shrink leaves the block as it was.
static void *
s_trimmed (void *items, size_t count, size_t item_bytes)
{
    void *trimmed = count? reallocarray (items, count, item_bytes): NULL;
    return trimmed? trimmed: items;
}

void
catalogue_trim (catalogue_t *self)
{
    self->arena = s_trimmed (self->arena, self->arena_used, 1);
    self->classes = s_trimmed (self->classes, self->class_count, sizeof *self->classes);
    self->directories = s_trimmed (self->directories, self->directory_count,
        sizeof *self->directories);
    self->samples = s_trimmed (self->samples, self->sample_count, sizeof *self->samples);
    for (size_t index = 0; index < self->column_count; index++) {
        column_t *column = &self->columns [index];
        column->values = s_trimmed (column->values, column->value_count, sizeof *column->values);
    }
}

static int
s_fill (draft_t *draft, const catalogue_options_t *options, bool list_anew)
{
    static const labels_reader_t *const label_readers [] = { &catalogue_tsv, &catalogue_jsonl, NULL };
    catalogue_t *self = draft->self;
    int rc = s_take_options (draft, options, list_anew);
    if (rc == 0)
        rc = s_open_root (draft, &self->fields [0]);
    if (rc == 0)
        rc = draft->labels? 0: catalogue_pack_open (draft);
    if (rc)
        return rc > 0? catalogue_judge_splits (draft, CATALOGUE_SPLITS_OF_LIST): rc;
    for (size_t field = 1; rc == 0 && field < self->field_count; field++)
        rc = s_open_root (draft, &self->fields [field]);
    for (size_t field = 0; rc == 0 && field < self->field_count; field++)
        if (self->fields [field].store)
            rc = catalogue_listing_fetch (draft, &self->fields [field]);
    if (rc)
        return rc;
    rc = catalogue_labels_read (draft, label_readers);
    rc = rc > 0? catalogue_judge_splits (draft, CATALOGUE_SPLITS_OF_LIST):
        rc == 0? s_label_by_class (draft): rc;
    if (rc == 0)
        rc = s_find_fields (draft);
    if (rc == 0)
        rc = catalogue_listing_finish (draft);
    if (rc == 0)
        rc = catalogue_hash (self);
    if (rc == 0)
        catalogue_trim (self);
    return rc;
}

//  NULL: *rc_p.  *is_old_p: it failed with a list of objects that was kept.
static catalogue_t *
s_open (const catalogue_options_t *options, bool list_anew, char *error, size_t error_bytes, int *rc_p,
    bool *is_old_p)
{
    catalogue_t *self = catalogue_new ();
    draft_t draft = { .self = self, .error = error, .error_bytes = error_bytes };
    error [0] = 0;
    *rc_p = self? s_fill (&draft, options, list_anew): -ENOMEM;
    if (*rc_p == 0)
        *rc_p = catalogue_number_classes (&draft, options->classes_of);
    *is_old_p = *rc_p && draft.has_kept_list;
    if (*rc_p)
        catalogue_destroy (&self);
    return self;
}

int
catalogue_open (catalogue_t **self_p, const catalogue_options_t *options, char *error, size_t error_bytes)
{
    assert (self_p); assert (options); assert (options->path);
    assert (error); assert (error_bytes > 0);
    int rc;
    bool is_old;
    *self_p = s_open (options, options->list_anew, error, error_bytes, &rc, &is_old);
    //  The objects may have changed since they were listed.
    if (is_old)
        *self_p = s_open (options, true, error, error_bytes, &rc, &is_old);
    if (rc && !error [0])
        snprintf (error, error_bytes, "not enough memory for the catalogue of '%s': free memory",
            options->path);
    return rc;
}

//  A folder, a list or a store becomes a catalogue: catalogue_state.h lists what fills it.
#include "catalogue_labels.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>
#include "fingerprint.h"
#include "location.h"

//  -- options and roots

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
    draft->labels = options->labels;
    draft->index_only = options->index_only;
    draft->cache = options->cache;
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
        field->root_inode = fstat (field->root_fd, &status) == 0? status.st_ino: 0;
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


//  -- fingerprint

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
    fingerprint_end (state, self->fingerprint);
    return 0;
}


//  -- open

void
catalogue_trim (catalogue_t *self)
{
    self->arena = catalogue_trimmed (self->arena, self->arena_used, 1);
    self->classes = catalogue_trimmed (self->classes, self->class_count, sizeof *self->classes);
    self->directories = catalogue_trimmed (self->directories, self->directory_count,
        sizeof *self->directories);
    self->samples = catalogue_trimmed (self->samples, self->sample_count, sizeof *self->samples);
    for (size_t index = 0; index < self->column_count; index++) {
        column_t *column = &self->columns [index];
        column->values = catalogue_trimmed (column->values, column->value_count, sizeof *column->values);
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
        rc = draft->labels? 0: catalogue_pack_read (draft);
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
        rc = catalogue_fields_find (draft);
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

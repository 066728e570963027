/*  pack_source_folder.c -- a folder, or a list: what the catalogue names, read file by file.
 *
 *  failure:  a file that cannot be read ends the packing: left out, it would give every later sample another
 *            id.
 */
#include "pack_source.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "pack.h"
#include "pack_format.h"
#include "store.h"
#include "utf8.h"

enum {
    AHEAD_MAX = STORE_TOGETHER_MAX, AHEAD_BYTES = 64 * 1024 * 1024      //  samples that are read at a time
};

typedef struct {
    catalogue_t *catalogue;
    store_persistence_t persistence;            //  with a store
    char *roots [CATALOGUE_FIELDS_MAX];         //  of each field, for errors and signature
    catalogue_buffer_t buffers [CATALOGUE_FIELDS_MAX] [AHEAD_MAX];
    uint64_t first, end;                        //  the samples in them
    uint64_t id;                                //  the next one
    uint64_t bytes;                             //  of the files passed
} folder_t;

static void
s_destroy (void *state)
{
    folder_t *self = state;
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++) {
        free (self->roots [field]);
        for (size_t index = 0; index < AHEAD_MAX; index++)
            free (self->buffers [field] [index].bytes);
    }
    catalogue_destroy (&self->catalogue);
    free (self);
}

//  -- reading

static const char *
s_remedy (int rc, bool is_in_store)
{
    if (rc == -ENOENT && is_in_store)
        return "it has gone meanwhile; begin anew when nothing writes to the data";
    switch (-rc) {
    case EACCES: return "let this user read it, or take it out of the data";
    case ENOENT: return "mend the link or take it out of the data";
    case ESTALE: case EREMCHG: return "it changed meanwhile; begin anew when nothing writes to the data";
    case EBUSY: case ETIMEDOUT: case ECONNRESET: case ECONNREFUSED: case EHOSTUNREACH: case EKEYREJECTED:
    case EKEYEXPIRED: return "go on with --resume when the store answers again";
    case EINVAL: case ENXIO: return "take it out of the data";
    case EFBIG: return "it is larger than a sample may be (256 MiB); cut it up or take it out of the data";
    case EMFILE: case ENFILE: return "raise the limit of open files";
    case ENOMEM: return "free memory";
    default: return "check the file system, or take it out of the data";
    }
}

static int
s_fail (const folder_t *self, uint32_t id, size_t field, int rc, char *error)
{
    char path [PATH_MAX];
    catalogue_path (self->catalogue, id, field, path, sizeof path);
    snprintf (error, PACK_SOURCE_ERROR_BYTES, "cannot read '%.300s/%.400s' (%s): %s", self->roots [field],
        path,
        rc == -ESTALE? "its size is another": rc == -EINVAL
        || rc == -ENXIO? "it is no regular file": catalogue_error (self->catalogue, field, rc),
        s_remedy (rc, catalogue_store (self->catalogue, field)));
    utf8_mask (error);
    return rc;
}

//  From a folder one after the other; from a store many at the same time, since each takes a round trip.
static size_t
s_samples_ahead (const folder_t *self)
{
    if (!catalogue_store (self->catalogue, 0) || catalogue_pack (self->catalogue))
        return 1;
    uint64_t bytes = 0, left = catalogue_samples (self->catalogue) - self->id;
    size_t count = 0;
    while (count < AHEAD_MAX && count < left && (count == 0 || bytes < AHEAD_BYTES)) {
        for (size_t field = 0; field < catalogue_fields (self->catalogue); field++)
            bytes += catalogue_file_bytes (self->catalogue, (uint32_t) (self->id + count), field);
        count++;
    }
    return count;
}

static int
s_read_ahead (folder_t *self, char *error)
{
    size_t count = s_samples_ahead (self);
    for (size_t field = 0; field < catalogue_fields (self->catalogue); field++) {
        uint32_t failed;
        int rc = catalogue_read_row (self->catalogue, (uint32_t) self->id, count, field,
            self->buffers [field], &self->persistence, &failed);
        if (rc)
            return s_fail (self, failed, field, rc, error);
    }
    self->first = self->id;
    self->end = self->id + count;
    return 0;
}

static int
s_next (void *state, pack_item_t *item, char *error)
{
    folder_t *self = state;
    if (self->id == catalogue_samples (self->catalogue))
        return 0;
    if (self->id < self->first || self->id >= self->end) {
        int rc = s_read_ahead (self, error);
        if (rc)
            return rc;
    }
    item->field_count = catalogue_fields (self->catalogue);
    for (size_t field = 0; field < item->field_count; field++) {
        const catalogue_buffer_t *buffer = &self->buffers [field] [self->id - self->first];
        item->files [field] = buffer->bytes;
        item->bytes [field] = buffer->size;
        self->bytes += buffer->size;
    }
    self->id++;
    return 1;
}

static int
s_skip (void *state, uint64_t count, char *error)
{
    folder_t *self = state;
    if (count > catalogue_samples (self->catalogue) - self->id) {
        snprintf (error, PACK_SOURCE_ERROR_BYTES,
            "there are %u samples in '%.600s', and there were more: begin anew",
            catalogue_samples (self->catalogue), self->roots [0]);
        return -ESTALE;
    }
    for (; count; count--, self->id++)
        for (size_t field = 0; field < catalogue_fields (self->catalogue); field++)
            self->bytes += catalogue_file_bytes (self->catalogue, (uint32_t) self->id, field);
    return 1;
}

static void
s_progress (const void *state, uint64_t *done_p, uint64_t *total_p)
{
    const folder_t *self = state;
    *done_p = self->bytes;
    *total_p = catalogue_bytes (self->catalogue);
}

static const catalogue_t *
s_catalogue (const void *state)
{
    return ((const folder_t *) state)->catalogue;
}

static const pack_source_kind_t s_kind = { s_next, s_skip, s_progress, s_catalogue, s_destroy };


//  -- opening

//  A file's time, or an object's version; a file that cannot be examined has none, and fails when it is read.
static void
s_hash_time (const folder_t *self, XXH3_state_t *hash, uint32_t id, size_t field)
{
    if (catalogue_store (self->catalogue, field) && !catalogue_pack (self->catalogue)) {
        const char *version = catalogue_version (self->catalogue, id, field);
        XXH3_128bits_update (hash, version, strlen (version));
        return;
    }
    char path [2 * PATH_MAX];
    size_t root = (size_t) snprintf (path, PATH_MAX, "%s/", self->roots [field]);
    struct stat status;
    struct timespec time = { 0 };
    if (root < PATH_MAX) {
        catalogue_path (self->catalogue, id, field, path + root, PATH_MAX);
        if (stat (path, &status) == 0)
            time = status.st_mtim;
    }
    int64_t numbers [2] = { time.tv_sec, time.tv_nsec };
    XXH3_128bits_update (hash, numbers, sizeof numbers);
}

//  The fingerprint has names, sizes and labels; times reveal files overwritten with the same size.
static int
s_sign (const folder_t *self, char signature [33])
{
    XXH3_state_t *hash = XXH3_createState ();
    if (!hash)
        return -ENOMEM;
    XXH3_128bits_reset (hash);
    XXH3_128bits_update (hash, catalogue_fingerprint (self->catalogue), 32);
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++)
        for (size_t field = 0; field < catalogue_fields (self->catalogue); field++)
            s_hash_time (self, hash, id, field);
    XXH128_hash_t digest = XXH3_128bits_digest (hash);
    XXH3_freeState (hash);
    snprintf (signature, 33, "%016llx%016llx", (unsigned long long) digest.high64,
        (unsigned long long) digest.low64);
    return 0;
}

//  Where a list's paths begin: in its own folder.
static char *
s_list_root (const char *list)
{
    const char *slash = strrchr (list, '/');
    return !slash? strdup ("."): slash == list? strdup ("/"): strndup (list, (size_t) (slash - list));
}

//  No field or label has the name that stands in a pack for where rows begin.
static int
s_check_names (const catalogue_t *catalogue, char *error)
{
    bool is_taken = false;
    for (size_t field = 0; field < catalogue_fields (catalogue); field++)
        is_taken = is_taken || strcmp (catalogue_field_name (catalogue, field), PACK_ROWS_NAME) == 0;
    for (size_t label = 0; label < catalogue_labels (catalogue); label++)
        is_taken = is_taken || strcmp (catalogue_label (catalogue, label)->name, PACK_ROWS_NAME) == 0;
    if (is_taken)
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "a field or label cannot have the name '%s' in a pack, "
            "which keeps there where the rows of JPEGs begin: give it another name", PACK_ROWS_NAME);
    return is_taken? -EINVAL: 0;
}

static int
s_fill (folder_t *self, const pack_source_options_t *options, char *signature, char *error)
{
    self->persistence = options->store;
    const char *path = options->paths [0];
    struct stat status;
    bool is_list = stat (path, &status) == 0 && !S_ISDIR (status.st_mode);
    char *root = is_list? s_list_root (path): strdup (path);
    if (!root)
        return -ENOMEM;
    catalogue_options_t wanted = { .path = root, .extensions = options->extensions, .fields = options->fields,
        .field_count = options->field_count, .labels = is_list? path: NULL,
        .allow_empty = options->allow_empty, .is_to_pack = true,
        .progress = options->progress };
    int rc = catalogue_open (&self->catalogue, &wanted, error, PACK_SOURCE_ERROR_BYTES);
    free (root);
    if (rc == 0)
        rc = s_check_names (self->catalogue, error);
    if (rc)
        return rc;
    self->roots [0] = strdup (catalogue_root (self->catalogue));    //  of a list of absolute paths it is "/"
    if (!self->roots [0])
        return -ENOMEM;
    //  A pack as the source has its own fields.
    for (size_t field = 1; field < catalogue_fields (self->catalogue); field++) {
        const char *folder = field <= options->field_count? options->fields [field - 1].path: self->roots [0];
        if (!(self->roots [field] = strdup (folder)))
            return -ENOMEM;
    }
    return s_sign (self, signature);
}

int
pack_source_open_folder (pack_source_t **self_p, const pack_source_options_t *options, char *error)
{
    assert (self_p); assert (options); assert (error);
    assert (options->path_count == 1);
    *self_p = NULL;
    error [0] = 0;
    folder_t *self = calloc (1, sizeof *self);
    char signature [33];
    int rc = self? s_fill (self, options, signature, error): -ENOMEM;
    if (rc == 0) {
        *self_p = pack_source_new (&s_kind, self, signature);
        self = NULL;                    //  owned by the source, or destroyed
        rc = *self_p? 0: -ENOMEM;
    }
    if (self)
        s_destroy (self);
    if (rc && !error [0])
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "not enough memory to list '%.600s': free memory",
            options->paths [0]);
    return rc;
}

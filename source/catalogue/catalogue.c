//  The catalogue's life, its answers, and reading a sample; and what its makers share: errors, memory,
//  finding by name, folders and names.  catalogue_open.c makes it.

#include "catalogue_state.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { READ_PATIENCE_MS = 5000 };       //  with a store: a worker's thread waits

//  ---- life

catalogue_t *
catalogue_new (void)
{
    catalogue_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = CATALOGUE_MAGIC;
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        self->fields [field].root_fd = -1;
    return self;
}

char *
catalogue_warning_new (catalogue_t *self)
{
    assert (self->warning_count < CATALOGUE_WARNINGS_MAX);
    return self->warnings [self->warning_count++];
}

void
catalogue_destroy (catalogue_t **self_p)
{
    assert (self_p);
    catalogue_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == CATALOGUE_MAGIC);
    if (self->pack)
        self->packed->detach (self);
    for (size_t index = 0; index < CATALOGUE_FIELDS_MAX; index++) {
        field_t *field = &self->fields [index];
        if (field->root_fd >= 0)
            close (field->root_fd);
        store_destroy (&field->store);
        store_listing_clear (&field->listing);
        block_data_close (&field->list_blocks);
        block_data_close (&field->blocks);
        free (field->places);
        free (field->tags);
        free (field->versions);
        free (field->files);
        free (field->path);
    }
    for (size_t column = 0; column < self->column_count; column++)
        free (self->columns [column].values);
    free (self->samples);
    free (self->directories);
    free (self->classes);
    free (self->numbers);
    free (self->arena);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  ---- questions

static const sample_t *
s_sample (const catalogue_t *self, uint32_t id)
{
    assert (self);
    assert (self->magic == CATALOGUE_MAGIC);
    assert (id < self->sample_count);
    return &self->samples [id];
}

static const field_t *
s_field (const catalogue_t *self, size_t field)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    assert (field < self->field_count);
    return &self->fields [field];
}

static const column_t *
s_column (const catalogue_t *self, size_t label)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    assert (label < self->column_count);
    return &self->columns [label];
}

const struct pack *
catalogue_pack (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->pack;
}

uint32_t
catalogue_samples (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return (uint32_t) self->sample_count;
}

uint32_t
catalogue_classes (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return (uint32_t) (self->classes_of? self->classes_of: self)->class_count;
}

uint64_t
catalogue_bytes (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->bytes;
}

const char *
catalogue_warning (const catalogue_t *self, size_t index)
{
    return index < self->warning_count? self->warnings [index]: NULL;
}

const char *
catalogue_root (const catalogue_t *self)
{
    return s_field (self, 0)->path;
}

const char *
catalogue_folder (const catalogue_t *self, size_t field)
{
    const char *path = s_field (self, field)->path;
    return path? path: catalogue_root (self);
}

dev_t
catalogue_device (const catalogue_t *self, size_t field)
{
    return s_field (self, field)->root_device;
}

const struct store *
catalogue_store (const catalogue_t *self, size_t field)
{
    return s_field (self, field)->store;
}

char *
catalogue_url (const catalogue_t *self, uint32_t id, size_t field)
{
    char path [PATH_MAX];
    catalogue_path (self, id, field, path, sizeof path);
    return store_url (s_field (self, field)->store, path);
}

const char *
catalogue_version (const catalogue_t *self, uint32_t id, size_t field)
{
    return self->arena + s_field (self, field)->versions [id];
}

block_data_t *
catalogue_blocks (const catalogue_t *self, size_t field, int *rc_p)
{
    *rc_p = s_field (self, field)->blocks_rc;
    return self->fields [field].blocks;
}

uint64_t
catalogue_place (const catalogue_t *self, uint32_t id, size_t field)
{
    return s_field (self, field)->places [id];
}

int64_t
catalogue_listed_s (const catalogue_t *self, size_t field)
{
    return s_field (self, field)->listed_s;
}

bool
catalogue_class_is_folder (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    for (size_t column = 0; column < self->column_count; column++)
        if (self->columns [column].kind == COLUMN_CLASS)
            return true;
    return false;
}

const char *
catalogue_class_name (const catalogue_t *self, uint32_t label)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    const catalogue_t *of = self->classes_of? self->classes_of: self;
    assert (label < of->class_count);
    return of->arena + of->classes [label];
}

size_t
catalogue_fields (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->field_count;
}

const char *
catalogue_field_name (const catalogue_t *self, size_t field)
{
    return s_field (self, field)->name;
}

bool
catalogue_field_is_mask (const catalogue_t *self, size_t field)
{
    return s_field (self, field)->is_mask;
}

bool
catalogue_field_is_beside (const catalogue_t *self, size_t field)
{
    return s_field (self, field)->is_beside;
}

size_t
catalogue_path (const catalogue_t *self, uint32_t id, size_t field, char *buffer, size_t size)
{
    const sample_t *sample = s_sample (self, id);
    const field_t *further = s_field (self, field);
    const companion_t *files = further->files;
    const char *directory = self->arena + self->directories [sample->directory].path;
    const char *name = self->arena + sample->name;
    size_t stem = further->is_beside? strcspn (name, "."): files? catalogue_stem (name): strlen (name);
    //  No directory, in a labels file: the sample lies in the root.
    int length = snprintf (buffer, size, "%s%s%.*s%s", directory, *directory? "/": "", (int) stem, name,
        files? self->arena + files [id].extension: "");
    assert (length > 0);
    return (size_t) length;
}

uint64_t
catalogue_file_bytes (const catalogue_t *self, uint32_t id, size_t field)
{
    const sample_t *sample = s_sample (self, id);
    const companion_t *files = s_field (self, field)->files;
    return files? files [id].bytes: sample->bytes;
}

size_t
catalogue_labels (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->column_count;
}

const catalogue_label_t *
catalogue_label (const catalogue_t *self, size_t label)
{
    return &s_column (self, label)->label;
}

//  Where classes are no folders, they are those of the column `label` (tar.h).
static bool
s_is_of_classes (const catalogue_t *self, const column_t *column)
{
    return !catalogue_class_is_folder (self) && column->length == 1 && strcmp (column->name, "label") == 0;
}

void
catalogue_label_value (const catalogue_t *self, size_t label, uint32_t id, uint8_t *target)
{
    assert (target);
    const column_t *column = s_column (self, label);
    const sample_t *sample = s_sample (self, id);
    size_t bytes = column->label.bytes;
    if (column->kind == COLUMN_CLASS) {
        uint32_t class = self->directories [sample->directory].label;
        memcpy (target, &(int64_t) { self->numbers? self->numbers [class]: class }, bytes);
    }
    else
    if (column->kind == COLUMN_TEXT) {
        const char *text = self->arena + column->values [id].text;
        size_t length = strlen (text);
        assert (length <= bytes);
        memcpy (target, text, length);
        memset (target + length, 0, bytes - length);
    }
    else
        memcpy (target, &column->values [id * column->length], bytes);
    //  Numbers of classes, of a pack that was made with their names.
    if (self->numbers && column->kind == COLUMN_WHOLE && s_is_of_classes (self, column)) {
        int64_t class = column->values [id].whole;
        if (class >= 0 && class < (int64_t) self->class_count)
            memcpy (target, &(int64_t) { self->numbers [class] }, bytes);
    }
}

const char *
catalogue_fingerprint (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return *self->numbered_fingerprint? self->numbered_fingerprint: self->fingerprint;
}

const char *
catalogue_files_fingerprint (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->fingerprint;
}


//  ---- reading

int
catalogue_check_file (int fd, uint64_t bytes)
{
    struct stat status;
    if (fstat (fd, &status) != 0)
        return -errno;
    if (!S_ISREG (status.st_mode))
        return -EINVAL;
    return (uint64_t) status.st_size == bytes? 0: -CATALOGUE_CHANGED;
}

int
catalogue_make_room (catalogue_buffer_t *buffer, size_t bytes)
{
    //  In steps, so that files of nearly one size do not make it grow again and again.
    enum { STEP_BYTES = 64 * 1024 };
    if (buffer->bytes && buffer->limit >= bytes)
        return 0;
    size_t limit = (bytes / STEP_BYTES + 1) * STEP_BYTES;
    free (buffer->bytes);
    buffer->bytes = malloc (limit);
    buffer->limit = buffer->bytes? limit: 0;
    return buffer->bytes? 0: -ENOMEM;
}

static int
s_read_plain (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer, uint64_t bytes)
{
    char path [PATH_MAX];
    size_t length = catalogue_path (self, id, field, path, sizeof path);
    assert (length < sizeof path);      //  catalogue_open has refused longer paths
    int fd;
    do
        fd = openat (self->fields [field].root_fd, path, CATALOGUE_OPEN_FLAGS);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return -errno;
    int rc = catalogue_check_file (fd, bytes);
    rc = rc == -CATALOGUE_CHANGED? -ESTALE: rc;
    if (rc == 0)
        rc = catalogue_make_room (buffer, bytes);
    if (rc == 0)
        rc = catalogue_read_at (fd, buffer->bytes, bytes, CATALOGUE_HERE);
    close (fd);
    return rc;
}

static int
s_begin_object (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer,
    transfer_t *transfer)
{
    uint64_t bytes = catalogue_file_bytes (self, id, field);
    int rc = bytes > CATALOGUE_SAMPLE_BYTES_MAX? -EFBIG: catalogue_make_room (buffer, bytes);
    char *url = rc? NULL: catalogue_url (self, id, field);
    *transfer = (transfer_t) { .url = url, .version = catalogue_version (self, id, field), .bytes = bytes,
        .expected_bytes = bytes, .memory = buffer->bytes };
    buffer->size = 0;
    return rc? rc: url? 0: -ENOMEM;
}

//  Of the first one that failed, in *failed_p.
static int
s_read_objects (const catalogue_t *self, uint32_t first, size_t count, size_t field,
    catalogue_buffer_t *buffers, const store_persistence_t *how, const bool *are_here, uint32_t *failed_p)
{
    transfer_t *transfers = calloc (count, sizeof *transfers);
    size_t *indexes = calloc (count, sizeof *indexes), begun = 0;       //  of the transfers
    int rc = transfers && indexes? 0: -ENOMEM;
    *failed_p = first;
    for (size_t index = 0; rc == 0 && index < count; index++) {
        *failed_p = first + (uint32_t) index;
        if (are_here && are_here [index])
            continue;
        indexes [begun] = index;
        rc = s_begin_object (self, *failed_p, field, &buffers [index], &transfers [begun++]);
    }
    if (rc == 0 && begun > 0 && (rc = store_carry_out (self->fields [field].store, transfers, begun, how)))
        for (size_t index = begun; index-- > 0; )
            if (transfers [index].rc) {
                rc = transfers [index].rc;
                *failed_p = first + (uint32_t) indexes [index];
            }
    for (size_t index = 0; index < begun; index++) {
        free ((char *) transfers [index].url);
        buffers [indexes [index]].size = transfers [index].done;
    }
    free (indexes);
    free (transfers);
    return rc;
}

static int
s_read_packed (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer, uint64_t bytes)
{
    int rc = catalogue_make_room (buffer, bytes);
    return rc? rc: self->packed->read (self->pack, id, field, buffer->bytes);
}

int
catalogue_read (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer)
{
    assert (buffer);
    store_persistence_t how = { .patience_ms = READ_PATIENCE_MS };
    buffer->size = 0;
    uint64_t bytes = catalogue_file_bytes (self, id, field);
    if (bytes > CATALOGUE_SAMPLE_BYTES_MAX)
        return -EFBIG;
    int rc = self->pack? s_read_packed (self, id, field, buffer, bytes):
        self->fields [field].store? s_read_objects (self, id, 1, field, buffer, &how, NULL, &id):
        s_read_plain (self, id, field, buffer, bytes);
    buffer->size = rc? 0: bytes;
    return rc;
}

int
catalogue_read_row (const catalogue_t *self, uint32_t first, size_t count, size_t field,
    catalogue_buffer_t *buffers, const store_persistence_t *how, const bool *are_here, uint32_t *failed_p)
{
    if (s_field (self, field)->versions)
        return s_read_objects (self, first, count, field, buffers, how, are_here, failed_p);
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < count; index++) {
        *failed_p = first + (uint32_t) index;
        rc = are_here && are_here [index]? 0: catalogue_read (self, *failed_p, field, &buffers [index]);
    }
    return rc;
}

const char *
catalogue_error (const catalogue_t *self, size_t field, int rc)
{
    return s_field (self, field)->store? transfers_error (rc): strerror (-rc);
}


//  ---- what makers of a catalogue share

//  -- errors

int
catalogue_fail (const draft_t *draft, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (draft->error, draft->error_bytes, format, arguments);
    va_end (arguments);
    utf8_mask (draft->error);
    return rc;
}

int
catalogue_fail_memory (const draft_t *draft)
{
    const char *root = draft->self->fields [0].path;
    return catalogue_fail (draft, -ENOMEM,
        "not enough memory for the catalogue of '%s' (%zu samples so far): "
        "free memory or raise the limit", root? root: "", draft->self->sample_count);
}

int
catalogue_fail_folder (const draft_t *draft, const char *root, const char *path, int rc)
{
    const char *remedy =
        rc == -EACCES? "let this user read and enter it":
        rc == -ENAMETOOLONG? "move it up or shorten its folders' names":
        rc == -EMFILE || rc == -ENFILE? "raise the limit of open files":
        rc == -ENOENT || rc == -ENOTDIR? "it went away meanwhile: try again": "check the file system";
    return catalogue_fail (draft, rc, "cannot read the folder '%s/%s' (%s): %s", root,
        catalogue_shown (path, strlen (path)).text, strerror (-rc), remedy);
}

shown_t
catalogue_shown (const char *text, size_t length)
{
    shown_t shown;
    size_t kept = length < SHOWN_BYTES_MAX? length: SHOWN_BYTES_MAX;
    memcpy (shown.text, text, kept);
    strcpy (shown.text + kept, kept < length? "...": "");
    return shown;
}

size_t
catalogue_common (const char *path, size_t common, const char *other)
{
    size_t same = 0;
    while (same < common && other [same] == path [same])
        same++;
    bool is_whole = (other [same] == 0 || other [same] == '/') && (path [same] == 0 || path [same] == '/');
    //  "cat/x" and "catfish" differ at the slash of the first: all of "cat" is taken back.
    if (!is_whole)
        while (same > 0 && path [--same] != '/')
            continue;
    return same;
}


//  -- memory

void *
catalogue_grown (void *items, size_t *limit_p, size_t needed, size_t item_bytes)
{
    if (needed <= *limit_p)
        return items;
    size_t limit = *limit_p < 32? 64: *limit_p * 2;
    if (limit < needed)
        limit = needed;
    void *grown = reallocarray (items, limit, item_bytes);
    if (grown)
        *limit_p = limit;
    return grown;
}

int
catalogue_add_text (catalogue_t *self, const uint64_t *parent, const char *text, size_t length,
    uint64_t *offset_p)
{
    size_t parent_length = parent? strlen (self->arena + *parent) + 1: 0;
    size_t size = parent_length + length + 1;
    char *arena = catalogue_grown (self->arena, &self->arena_limit, self->arena_used + size, 1);
    if (!arena)
        return -ENOMEM;
    self->arena = arena;
    char *target = arena + self->arena_used;
    if (parent) {
        memcpy (target, arena + *parent, parent_length - 1);
        target [parent_length - 1] = '/';
    }
    memcpy (target + parent_length, text, length);
    target [size - 1] = 0;
    *offset_p = self->arena_used;
    self->arena_used += size;
    return 0;
}

int
catalogue_add_sample (catalogue_t *self, uint32_t directory, const char *name, size_t length, uint64_t bytes)
{
    assert (self->sample_count < UINT32_MAX);
    sample_t *samples = catalogue_grown (self->samples, &self->sample_limit, self->sample_count + 1,
        sizeof *samples);
    if (!samples)
        return -ENOMEM;
    self->samples = samples;
    sample_t *sample = &samples [self->sample_count];
    *sample = (sample_t) { .directory = directory, .bytes = bytes };
    int rc = catalogue_add_text (self, NULL, name, length, &sample->name);
    if (rc == 0) {
        self->sample_count++;
        self->bytes += bytes;
    }
    return rc;
}


//  -- finding by name

int64_t
catalogue_lookup_find (const lookup_t *self, uint64_t hash, catalogue_same_fn *same, const void *wanted)
{
    if (self->slot_count == 0)
        return LOOKUP_NONE;
    for (size_t at = (uint32_t) hash; ; at++) {
        const lookup_slot_t *slot = &self->slots [at & (self->slot_count - 1)];
        if (slot->item == 0)
            return LOOKUP_NONE;
        if (slot->hash == (uint32_t) hash && same (wanted, slot->item - 1))
            return slot->item - 1;
    }
}

static void
s_lookup_put (lookup_t *self, lookup_slot_t entry)
{
    size_t at = entry.hash;
    while (self->slots [at & (self->slot_count - 1)].item)
        at++;
    self->slots [at & (self->slot_count - 1)] = entry;
    self->used++;
}

int
catalogue_lookup_add (lookup_t *self, uint64_t hash, uint32_t item)
{
    assert (item < UINT32_MAX);
    if (2 * (self->used + 1) > self->slot_count) {
        lookup_t grown = { .slot_count = self->slot_count? 2 * self->slot_count: 64 };
        grown.slots = calloc (grown.slot_count, sizeof *grown.slots);
        if (!grown.slots)
            return -ENOMEM;
        for (size_t at = 0; at < self->slot_count; at++)
            if (self->slots [at].item)
                s_lookup_put (&grown, self->slots [at]);
        free (self->slots);
        *self = grown;
    }
    s_lookup_put (self, (lookup_slot_t) { .hash = (uint32_t) hash, .item = item + 1 });
    return 0;
}


//  -- fingerprints

void
catalogue_fingerprint_end (XXH3_state_t *state, char text [33])
{
    XXH128_hash_t hash = XXH3_128bits_digest (state);
    XXH3_freeState (state);
    snprintf (text, 33, "%016llx%016llx", (unsigned long long) hash.high64, (unsigned long long) hash.low64);
}


//  -- files and names

DIR *
catalogue_folder_open (int root_fd, const char *path)
{
    int fd;
    do
        fd = openat (root_fd, *path? path: ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    DIR *folder = fd < 0? NULL: fdopendir (fd);
    if (fd >= 0 && !folder) {
        int saved = errno;
        close (fd);
        errno = saved;
    }
    return folder;
}

int
catalogue_folder_next (DIR *folder, struct dirent **item_p)
{
    do {
        errno = 0;
        *item_p = readdir (folder);
    } while (*item_p && (strcmp ((*item_p)->d_name, ".") == 0 || strcmp ((*item_p)->d_name, "..") == 0));
    return *item_p? 1: -errno;
}

int
catalogue_read_at (int fd, uint8_t *bytes, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size; ) {
        ssize_t count = offset == CATALOGUE_HERE? read (fd, bytes + done, size - done)
            : pread (fd, bytes + done, size - done, (off_t) (offset + done));
        if (count > 0)
            done += (size_t) count;
        else
        if (count == 0)
            return -ESTALE;
        else
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

bool
catalogue_name_is_valid (const char *name, size_t length)
{
    static const char allowed [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    return length > 0 && length < CATALOGUE_NAME_BYTES_MAX && strspn (name, allowed) >= length;
}

bool
catalogue_name_is_taken (const catalogue_t *self, const char *name)
{
    for (size_t field = 0; field < self->field_count; field++)
        if (strcmp (self->fields [field].name, name) == 0)
            return true;
    for (size_t column = 0; column < self->column_count; column++)
        if (strcmp (self->columns [column].name, name) == 0)
            return true;
    return false;
}


//  -- columns

void
catalogue_column_describe (column_t *column)
{
    static const char *const dtypes [] = { [COLUMN_CLASS] = "int64", [COLUMN_WHOLE] = "int64",
        [COLUMN_REAL] = "float64", [COLUMN_TEXT] = "uint8" };
    assert (column->kind != COLUMN_NEW);
    bool is_text = column->kind == COLUMN_TEXT;
    catalogue_label_t *label = &column->label;
    *label = (catalogue_label_t) { .name = column->name, .dtype = dtypes [column->kind] };
    label->dimensions = column->is_vector || is_text;
    label->bytes = is_text? column->longest: column->length * sizeof (value_t);
    if (label->dimensions)
        label->shape [0] = (uint32_t) (is_text? column->longest: column->length);
}

//  What the makers of a catalogue share: errors, memory, finding by name, folders and names.

#include "catalogue_state.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
catalogue_read_whole (int fd, uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size; ) {
        ssize_t count = read (fd, bytes + done, size - done);
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

int
catalogue_read_at (int fd, uint8_t *bytes, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size; ) {
        ssize_t count = pread (fd, bytes + done, size - done, (off_t) (offset + done));
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

uint32_t
catalogue_code_point (const uint8_t **at_p)
{
    static const uint32_t least [] = { 0, 0x80, 0x800, 0x10000 };
    const uint8_t *at = *at_p;
    uint32_t lead = at [0];
    size_t more = lead < 0xc2? 0: lead < 0xe0? 1: lead < 0xf0? 2: lead < 0xf5? 3: 0;
    uint32_t code = more? lead & (0x3fu >> more): lead;
    bool valid = more || lead < 0x80;
    //  The byte at the end is no continuation byte, so this stays inside.
    for (size_t index = 1; valid && index <= more; index++) {
        valid = (at [index] & 0xc0) == 0x80;
        code = code << 6 | (at [index] & 0x3fu);
    }
    if (valid && more)
        valid = code >= least [more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    *at_p = at + (valid? 1 + more: 1);
    return valid? code: 0xdc00 + lead;
}

size_t
catalogue_stem (const char *name)
{
    const char *dot = strrchr (name, '.');
    return dot? (size_t) (dot - name): strlen (name);
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

//  What all kinds of sources share: which kind a path is, and the calls passed on.

#include "pack_source.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "location.h"
#include "store.h"
#include "utf8.h"

enum { PACK_SOURCE_MAGIC = 0x5afe50cc, SIGNATURE_BYTES = 33 };

struct pack_source {
    uint32_t magic;
    const pack_source_kind_t *kind;
    void *state;
    char signature [SIGNATURE_BYTES];
};

static bool
s_ends_in (const char *path, const char *ending)
{
    size_t length = strlen (path), size = strlen (ending);
    return length > size && strcmp (path + length - size, ending) == 0;
}

static bool
s_is_list (const char *path)
{
    return s_ends_in (path, ".tsv") || s_ends_in (path, ".jsonl") || s_ends_in (path, ".txt");
}

bool
pack_source_is_input (const char *path)
{
    assert (path);
    return strcmp (path, "-") == 0;
}

int
pack_source_fail (char *error, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error, PACK_SOURCE_ERROR_BYTES, format, arguments);
    va_end (arguments);
    utf8_mask (error);
    return rc;
}

int
pack_source_open (pack_source_t **self_p, const pack_source_options_t *options, char *error)
{
    assert (self_p); assert (options); assert (error);
    assert (options->paths && options->path_count > 0);
    *self_p = NULL;
    error [0] = 0;
    bool has_files = false;                     //  a folder or a list, which has to be alone
    for (size_t index = 0; index < options->path_count; index++) {
        const char *path = options->paths [index];
        struct stat status;
        bool is_in_store = store_is_meant (path);
        if ((is_in_store && location_is_tar (path)) || pack_source_is_input (path))
            continue;
        if (!is_in_store && stat (path, &status) != 0) {
            int rc = -errno;
            snprintf (error, PACK_SOURCE_ERROR_BYTES, "cannot look at '%.600s' (%s): %s", path,
                strerror (-rc), rc == -EACCES? "let this user enter its folder": location_remedy (path));
            return rc;
        }
        bool is_folder = is_in_store || S_ISDIR (status.st_mode);
        if (!is_folder && !s_is_list (path))
            continue;
        has_files = true;
        if (options->path_count > 1) {
            snprintf (error, PACK_SOURCE_ERROR_BYTES, "'%.600s' is %s, and there are %zu sources: "
                "give it alone; only tar files may be several", path,
                is_folder? "a folder": "a list", options->path_count);
            return -EINVAL;
        }
    }
    const char *misplaced = 
        has_files && options->masks? "masks among members are for tar files: give a folder's as fields":
        has_files && options->classes? "names of classes are for tar files with .cls: a folder has its own":
        !has_files && options->field_count?
            "fields are for folders and lists: a tar file has its own as members": NULL;
    if (misplaced) {
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "'%.600s': %s", options->paths [0], misplaced);
        return -EINVAL;
    }
    return has_files? pack_source_open_folder (self_p, options, error):
        pack_source_open_tar (self_p, options, error);
}

pack_source_t *
pack_source_new (const pack_source_kind_t *kind, void *state, const char *signature)
{
    assert (kind); assert (state);
    assert (signature && strlen (signature) < SIGNATURE_BYTES);
    pack_source_t *self = calloc (1, sizeof *self);
    if (!self) {
        kind->destroy (state);
        return NULL;
    }
    self->magic = PACK_SOURCE_MAGIC;
    self->kind = kind;
    self->state = state;
    strcpy (self->signature, signature);
    return self;
}

void
pack_source_destroy (pack_source_t **self_p)
{
    assert (self_p);
    pack_source_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PACK_SOURCE_MAGIC);
    self->kind->destroy (self->state);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

int
pack_source_next (pack_source_t *self, pack_item_t *item, char *error)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    assert (item); assert (error);
    return self->kind->next (self->state, item, error);
}

int
pack_source_skip (pack_source_t *self, uint64_t count, char *error)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    assert (error);
    return count? self->kind->skip (self->state, count, error): 1;
}

void
pack_source_progress (const pack_source_t *self, uint64_t *done_p, uint64_t *total_p)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    assert (done_p); assert (total_p);
    self->kind->progress (self->state, done_p, total_p);
}

const char *
pack_source_signature (const pack_source_t *self)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    return self->signature;
}

const catalogue_t *
pack_source_catalogue (const pack_source_t *self)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    return self->kind->catalogue (self->state);
}

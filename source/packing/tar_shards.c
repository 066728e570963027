/*  tar_shards.c -- the tar files of a source: here, in object stores and on web servers (tar.h).  */
#include "tar.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>
#include "splits.h"

enum { DIGITS_MAX = 18 };

static int
s_fail_memory (char *error)
{
    return pack_source_fail (error, -ENOMEM, "not enough memory: free memory or raise the limit");
}


//  -- braces

//  "{007..123}" within a text.
typedef struct {
    const char *begin, *end;            //  the braces, with them
    unsigned long long first, last;
    int digits;                         //  as many at least
} brace_t;

static const char *
s_number (const char *text, unsigned long long *number_p, int *digits_p)
{
    size_t length = strspn (text, "0123456789");
    if (length == 0 || length > DIGITS_MAX)
        return NULL;
    *number_p = strtoull (text, NULL, 10);
    *digits_p = (int) length;
    return text + length;
}

static bool
s_find_brace (const char *text, brace_t *brace)
{
    for (const char *at = text; (at = strchr (at, '{')); at++) {
        int first_digits, last_digits;
        const char *end = s_number (at + 1, &brace->first, &first_digits);
        bool is_padded = at [1] == '0' && first_digits > 1;
        if (!end || strncmp (end, "..", 2) != 0)
            continue;
        is_padded = is_padded || end [2] == '0';
        end = s_number (end + 2, &brace->last, &last_digits);
        if (!end || *end != '}')
            continue;
        brace->begin = at;
        brace->end = end + 1;
        brace->digits = !is_padded? 1: first_digits > last_digits? first_digits: last_digits;
        return true;
    }
    return false;
}

static int
s_add (tar_shards_t *self, const char *path, char *error)
{
    if (self->count == TAR_SHARDS_MAX)
        return pack_source_fail (error, -E2BIG, "more than %d tar files: pack them in parts", TAR_SHARDS_MAX);
    if (self->count == self->limit) {
        size_t limit = self->limit? 2 * self->limit: 64;
        tar_shard_t *list = reallocarray (self->list, limit, sizeof *list);
        if (!list)
            return s_fail_memory (error);
        self->list = list;
        self->limit = limit;
    }
    self->list [self->count] = (tar_shard_t) { .path = strdup (path) };
    return self->list [self->count++].path? 0: s_fail_memory (error);
}

//  An address, with all its braces.
static int
s_expand (tar_shards_t *self, const char *text, char *error)
{
    brace_t brace;
    if (!s_find_brace (text, &brace))
        return s_add (self, text, error);
    if (brace.first > brace.last)
        return pack_source_fail (error, -EINVAL, "'%.*s' counts down: write the smaller number first",
            (int) (brace.end - brace.begin), brace.begin);
    size_t bytes = strlen (text) + DIGITS_MAX + 1;
    char *one = malloc (bytes);
    int rc = one? 0: s_fail_memory (error);
    for (unsigned long long number = brace.first; rc == 0 && number <= brace.last; number++) {
        snprintf (one, bytes, "%.*s%0*llu%s", (int) (brace.begin - text), text, brace.digits, number,
            brace.end);
        rc = s_expand (self, one, error);
    }
    free (one);
    return rc;
}


//  -- files

int
tar_shards_fail_open (const char *path, int rc, char *error)
{
    return pack_source_fail (error, rc, "cannot read '%s' (%s): %s", path, strerror (-rc),
        rc == -ENOENT || rc == -ENOTDIR? "check the path":
        rc == -EACCES? "let this user read it":
        rc == -EMFILE || rc == -ENFILE? "raise the limit of open files": "check the file system");
}

static int
s_look_at_file (tar_shard_t *shard, char *error)
{
    struct stat status;
    if (stat (shard->path, &status) != 0)
        return tar_shards_fail_open (shard->path, -errno, error);
    if (!S_ISREG (status.st_mode))
        return pack_source_fail (error, -EINVAL, "'%s' is %s, no tar file: give a file%s", shard->path,
            S_ISDIR (status.st_mode)? "a folder": "a device or fifo",
            S_ISDIR (status.st_mode)? ", or the folder alone": "; write what comes out of it to one first");
    shard->bytes = (uint64_t) status.st_size;
    shard->changed = status.st_mtim;
    return 0;
}


//  A file may be standard input as well, and even then it is read as what comes by a pipe.
static int
s_look_at_input (tar_shards_t *self, tar_shard_t *shard, char *error)
{
    if (self->count > 1)
        return pack_source_fail (error, -EINVAL, "standard input ('-') is one tar file: give it alone");
    if (isatty (STDIN_FILENO))
        return pack_source_fail (error, -EINVAL, "standard input is a terminal: give it a tar file by a "
            "pipe");
    shard->is_input = true;
    free (shard->path);
    shard->path = strdup ("standard input");
    return shard->path? 0: s_fail_memory (error);
}


//  -- objects

//  One store for all objects of a bucket, since each keeps keys and connections.
static int
s_find_store (tar_shards_t *self, tar_shard_t *shard, char *error)
{
    for (size_t index = 0; index < self->store_count && !shard->store; index++)
        if (store_covers (self->stores [index], shard->path))
            shard->store = self->stores [index];
    if (!shard->store) {
        store_t **stores = reallocarray (self->stores, self->store_count + 1, sizeof *stores);
        if (!stores)
            return s_fail_memory (error);
        self->stores = stores;
        int rc = store_open (&shard->store, shard->path, error, PACK_SOURCE_ERROR_BYTES);
        if (rc)
            return rc;
        self->stores [self->store_count++] = shard->store;
    }
    shard->url = store_object_url (shard->store, shard->path);
    return shard->url? 0: s_fail_memory (error);
}

static int
s_fail_object (const tar_shard_t *shard, const transfer_t *transfer, char *error)
{
    if (transfer->rc == -EREMCHG)
        return pack_source_fail (error, -EINVAL, "'%s' is empty, no tar file: check the address",
            shard->path);
    char what [700];
    store_explain_address (shard->store, shard->path, transfer, what, sizeof what);
    return pack_source_fail (error, transfer->rc, "%s%s", what, transfer->rc != -ENOENT? "":
        ". Of object stores and web servers tar files are packed: name each, or count them by {000..099}");
}

//  Sizes and versions of all objects of one store, many at once.
static int
s_look_at_objects (tar_shards_t *self, store_t *store, const store_persistence_t *persistence, char *error)
{
    store_persistence_t how = *persistence;
    how.takes_long = true;              //  with many
    transfer_t *all = calloc (self->count, sizeof *all);
    uint8_t byte;
    if (!all)
        return s_fail_memory (error);
    for (size_t index = 0; index < self->count; index++)
        all [index] = (transfer_t) { .url = self->list [index].url, .bytes = 1,
            .done = self->list [index].store != store, .memory = &byte };
    int rc = store_carry_out (store, all, self->count, &how);
    if (rc == -ECANCELED)
        pack_source_fail (error, rc, "stopped: go on with --resume");
    for (size_t index = 0; index < self->count; index++) {
        tar_shard_t *shard = &self->list [index];
        if (rc && rc != -ECANCELED && all [index].rc) {
            rc = s_fail_object (shard, &all [index], error);
            break;
        }
        if (shard->store != store)
            continue;
        shard->bytes = all [index].object_bytes;
        memcpy (shard->version, all [index].object_version, sizeof shard->version);
    }
    if (rc && !*error)
        rc = s_fail_memory (error);
    free (all);
    return rc;
}


//  -- all of it

//  Fails if two tar files are of two splits by their names, as "train-000.tar" and "val-000.tar" of *.tar.
static int
s_check_splits (const tar_shards_t *self, char *error)
{
    split_name_t before = { .kind = SPLIT_NONE };       //  lists are mostly sorted
    for (size_t index = 0; index < self->count; index++) {
        const char *path = self->list [index].path;
        split_name_t name = splits_read (path, strlen (path));
        if (name.kind && before.kind && name.kind != before.kind && splits_are_of_one (&before, &name))
            return pack_source_fail (error, -EINVAL, "'%.300s' and '%.300s' are of two splits by their "
                "names: pack those of each split alone; if all are meant, send them as one: cat FILE... | "
                "tureen pack - FOLDER", before.text, path);
        before = name.kind? name: before;
    }
    return 0;
}

int
tar_shards_find (tar_shards_t *self, const pack_source_options_t *options, char *error)
{
    assert (self); assert (options && options->path_count > 0); assert (error);
    *self = (tar_shards_t) { .list = NULL };
    error [0] = 0;
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < options->path_count; index++) {
        const char *path = options->paths [index];
        rc = store_is_meant (path)? s_expand (self, path, error): s_add (self, path, error);
    }
    if (rc == 0)
        rc = s_check_splits (self, error);
    for (size_t index = 0; rc == 0 && index < self->count; index++) {
        tar_shard_t *shard = &self->list [index];
        rc = store_is_meant (shard->path)? s_find_store (self, shard, error):
            pack_source_is_input (shard->path)? s_look_at_input (self, shard, error):
            s_look_at_file (shard, error);
    }
    for (size_t index = 0; rc == 0 && index < self->store_count; index++)
        rc = s_look_at_objects (self, self->stores [index], &options->store, error);
    for (size_t index = 0; rc == 0 && index < self->count; index++)
        self->bytes += self->list [index].bytes;
    if (rc)
        tar_shards_clear (self);
    return rc;
}

void
tar_shards_clear (tar_shards_t *self)
{
    assert (self);
    for (size_t index = 0; index < self->count; index++) {
        free (self->list [index].path);
        free (self->list [index].url);
    }
    for (size_t index = 0; index < self->store_count; index++)
        store_destroy (&self->stores [index]);
    free (self->list);
    free (self->stores);
    *self = (tar_shards_t) { .list = NULL };
}

int
tar_shards_sign (const tar_shards_t *self, const pack_source_options_t *options, char signature [33])
{
    XXH3_state_t *state = XXH3_createState ();
    if (!state)
        return -ENOMEM;
    XXH3_128bits_reset (state);
    const char *lists [] = { "tar", options->extensions? options->extensions: "",
        options->masks? options->masks: "", options->classes? options->classes: "" };
    for (size_t index = 0; index < sizeof lists / sizeof lists [0]; index++)
        XXH3_128bits_update (state, lists [index], strlen (lists [index]) + 1);
    for (size_t index = 0; index < self->count; index++) {
        const tar_shard_t *shard = &self->list [index];
        int64_t numbers [] = { (int64_t) shard->bytes, shard->changed.tv_sec, shard->changed.tv_nsec };
        XXH3_128bits_update (state, shard->path, strlen (shard->path) + 1);
        XXH3_128bits_update (state, numbers, sizeof numbers);
        XXH3_128bits_update (state, shard->version, strlen (shard->version));
    }
    if (options->signature)
        XXH3_128bits_update (state, options->signature, strlen (options->signature));
    catalogue_fingerprint_end (state, signature);
    return 0;
}

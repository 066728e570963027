//  The catalogue's life, its answers, and reading a sample; catalogue_walk.c fills it.

#include "catalogue_state.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

enum { CATALOGUE_MAGIC = 0x0ca7a106 };

//  -- open and close

//  For each sample: its path, a zero, its size as 8 little-endian bytes.
static int
s_fingerprint (catalogue_t *self)
{
    XXH3_state_t *state = XXH3_createState ();
    if (!state)
        return -ENOMEM;
    XXH3_128bits_reset (state);
    for (size_t index = 0; index < self->sample_count; index++) {
        const sample_t *sample = &self->samples [index];
        const char *path = self->arena + self->directories [sample->directory].path;
        const char *name = self->arena + sample->name;
        uint64_t bytes = htole64 (sample->bytes);
        XXH3_128bits_update (state, path, strlen (path));
        XXH3_128bits_update (state, "/", 1);
        XXH3_128bits_update (state, name, strlen (name) + 1);
        XXH3_128bits_update (state, &bytes, sizeof bytes);
    }
    XXH128_hash_t hash = XXH3_128bits_digest (state);
    XXH3_freeState (state);
    snprintf (self->fingerprint, sizeof self->fingerprint, "%016llx%016llx",
        (unsigned long long) hash.high64, (unsigned long long) hash.low64);
    return 0;
}

int
catalogue_open (catalogue_t **self_p, const char *path, char *error, size_t error_bytes)
{
    assert (self_p); assert (path);
    assert (error); assert (error_bytes > 0);
    *self_p = NULL;
    error [0] = 0;
    catalogue_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (error, error_bytes, "not enough memory for the catalogue of '%s': free memory", path);
        return -ENOMEM;
    }
    self->magic = CATALOGUE_MAGIC;
    self->root_fd = -1;
    self->root = strdup (path);
    int rc = self->root? catalogue_walk (self, error, error_bytes): -ENOMEM;
    if (rc == 0)
        rc = s_fingerprint (self);
    if (rc && !error [0])
        snprintf (error, error_bytes, "not enough memory for the catalogue of '%s': free memory", path);
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    catalogue_destroy (&self);
    return rc;
}

void
catalogue_destroy (catalogue_t **self_p)
{
    assert (self_p);
    catalogue_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == CATALOGUE_MAGIC);
    if (self->root_fd >= 0)
        close (self->root_fd);
    free (self->samples);
    free (self->directories);
    free (self->classes);
    free (self->arena);
    free (self->root);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- questions

static const sample_t *
s_sample (const catalogue_t *self, uint32_t id)
{
    assert (self);
    assert (self->magic == CATALOGUE_MAGIC);
    assert (id < self->sample_count);
    return &self->samples [id];
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
    return (uint32_t) self->class_count;
}

uint64_t
catalogue_bytes (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->bytes;
}

uint32_t
catalogue_foreign (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->foreign;
}

const char *
catalogue_root (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->root;
}

const char *
catalogue_class_name (const catalogue_t *self, uint32_t label)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    assert (label < self->class_count);
    return self->arena + self->classes [label];
}

size_t
catalogue_path (const catalogue_t *self, uint32_t id, char *buffer, size_t size)
{
    const sample_t *sample = s_sample (self, id);
    int length = snprintf (buffer, size, "%s/%s", self->arena + self->directories [sample->directory].path,
        self->arena + sample->name);
    assert (length > 0);
    return (size_t) length;
}

uint32_t
catalogue_label (const catalogue_t *self, uint32_t id)
{
    return self->directories [s_sample (self, id)->directory].label;
}

uint64_t
catalogue_sample_bytes (const catalogue_t *self, uint32_t id)
{
    return s_sample (self, id)->bytes;
}

const char *
catalogue_fingerprint (const catalogue_t *self)
{
    assert (self && self->magic == CATALOGUE_MAGIC);
    return self->fingerprint;
}


//  -- reading

//  Reads size bytes, no more and no less.  -ESTALE where the file ends before.
static int
s_read_whole (int fd, uint8_t *bytes, size_t size)
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

static int
s_check_file (int fd, uint64_t bytes)
{
    struct stat status;
    if (fstat (fd, &status) != 0)
        return -errno;
    if (!S_ISREG (status.st_mode))
        return -EINVAL;
    return (uint64_t) status.st_size == bytes? 0: -ESTALE;
}

int
catalogue_read (const catalogue_t *self, uint32_t id, uint8_t **bytes_p, size_t *size_p)
{
    assert (bytes_p); assert (size_p);
    const sample_t *sample = s_sample (self, id);
    *bytes_p = NULL;
    *size_p = 0;
    if (sample->bytes > CATALOGUE_SAMPLE_BYTES_MAX)
        return -EFBIG;
    char path [PATH_MAX];
    size_t length = catalogue_path (self, id, path, sizeof path);
    assert (length < sizeof path);      //  the walk saw to that
    int fd;
    do                                  //  a fifo that someone named x.jpg must not make us wait for a writer
        fd = openat (self->root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return -errno;
    uint8_t *bytes = NULL;
    int rc = s_check_file (fd, sample->bytes);
    if (rc == 0 && !(bytes = malloc (sample->bytes? sample->bytes: 1)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = s_read_whole (fd, bytes, sample->bytes);
    close (fd);
    if (rc == 0) {
        *bytes_p = bytes;
        *size_p = sample->bytes;
        bytes = NULL;
    }
    free (bytes);
    return rc;
}

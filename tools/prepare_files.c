#include "prepare_files.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "catalogue.h"
#include "complain.h"
#include "input.h"
#include "location.h"

struct prepare_files {
    size_t count;
    char *const *given;         //  the caller's
    char **paths;               //  absolute, links in the folders resolved, not in the file's own name
    size_t common;              //  bytes of the common folder, its slash included
};

//  What errno says of a path.  Returns false.
static bool
s_complain (const char *path)
{
    if (errno == ENOENT)
        return complain ("prepare", "there is no file '%s': %s", path, location_remedy (path));
    return complain ("prepare", "%s: %s", path, input_error (errno));
}

//  The absolute path of a file: its folder as it really is, then its name.  NULL with errno.
static char *
s_absolute (const char *path)
{
    const char *slash = strrchr (path, '/');
    const char *name = slash? slash + 1: path;
    char folder [PATH_MAX], real [PATH_MAX], *absolute = NULL;
    size_t bytes = slash? (size_t) (slash - path): 0;
    if (bytes >= sizeof folder) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    memcpy (folder, path, bytes);
    folder [bytes] = 0;
    if (!realpath (slash? (bytes? folder: "/"): ".", real))
        return NULL;
    if (asprintf (&absolute, "%s%s%s", real, strcmp (real, "/")? "/": "", name) < 0)
        return NULL;
    struct stat status;
    int rc = stat (absolute, &status)? errno: S_ISREG (status.st_mode)? 0: S_ISDIR (status.st_mode)? EISDIR:
        EINVAL;
    if (rc == 0)
        return absolute;
    free (absolute);
    errno = rc;
    return NULL;
}

//  As many bytes as both begin with, up to and with a slash.
static size_t
s_common (const char *left, const char *right, size_t most)
{
    size_t common = 0;
    for (size_t index = 0; index < most && left [index] == right [index] && left [index]; index++)
        if (left [index] == '/')
            common = index + 1;
    return common;
}

static int
s_compare (const void *left, const void *right)
{
    return strcmp (*(char *const *) left, *(char *const *) right);
}

static bool
s_twice (const prepare_files_t *self)
{
    char **sorted = malloc (self->count * sizeof *sorted);
    assert (sorted);
    memcpy (sorted, self->paths, self->count * sizeof *sorted);
    qsort (sorted, self->count, sizeof *sorted, s_compare);
    bool twice = false;
    for (size_t index = 1; index < self->count && !twice; index++)
        if (strcmp (sorted [index - 1], sorted [index]) == 0)
            twice = !complain ("prepare", "%s: given twice", sorted [index]);
    free (sorted);
    return twice;
}

prepare_files_t *
prepare_files_new (char *const *paths, size_t count)
{
    assert (count > 0);
    prepare_files_t *self = calloc (1, sizeof *self);
    assert (self);
    *self = (prepare_files_t) { .count = count, .given = paths,
        .paths = calloc (count, sizeof *self->paths) };
    assert (self->paths);
    bool good = true;
    for (size_t index = 0; index < count && good; index++) {
        self->paths [index] = s_absolute (paths [index]);
        if (!self->paths [index])
            good = s_complain (paths [index]);
    }
    if (!good || s_twice (self)) {
        prepare_files_destroy (&self);
        return NULL;
    }
    self->common = (size_t) (strrchr (self->paths [0], '/') + 1 - self->paths [0]);
    for (size_t index = 1; index < count; index++)
        self->common = s_common (self->paths [0], self->paths [index], self->common);
    return self;
}

void
prepare_files_destroy (prepare_files_t **self_p)
{
    prepare_files_t *self = *self_p;
    if (!self)
        return;
    for (size_t index = 0; index < self->count; index++)
        free (self->paths [index]);
    free (self->paths);
    free (self);
    *self_p = NULL;
}

const char *
prepare_files_path (const prepare_files_t *self, size_t index)
{
    assert (index < self->count);
    return self->given [index];
}

const char *
prepare_files_name (const prepare_files_t *self, size_t index)
{
    assert (index < self->count);
    return self->paths [index] + self->common;
}

//  Bytes of a name before its extension; a name that begins with its only dot has none.
static size_t
s_stem (const char *name)
{
    const char *dot = strrchr (name, '.');
    return dot && dot != name? (size_t) (dot - name): strlen (name);
}

char *
prepare_files_partner (const prepare_files_t *self, size_t index, const char *folder)
{
    const char *below = prepare_files_name (self, index), *slash = strrchr (below, '/');
    const char *name = slash? slash + 1: below;
    size_t stem = s_stem (name);
    char path [PATH_MAX], *partner = NULL;
    int bytes = snprintf (path, sizeof path, "%s/%.*s", folder, (int) (name - below), below);
    DIR *directory = bytes < (int) sizeof path? opendir (path): NULL;
    bool twice = false;
    for (struct dirent *entry; directory && !twice && (entry = readdir (directory));) {
        if (s_stem (entry->d_name) != stem || memcmp (entry->d_name, name, stem))
            continue;
        twice = partner && !complain ("prepare", "%s and %s%s: two files for %s; expected one", partner, path,
            entry->d_name, self->given [index]);
        if (!partner && asprintf (&partner, "%s%s", path, entry->d_name) < 0)
            partner = NULL;
    }
    if (directory)
        closedir (directory);
    if (!partner)
        complain ("prepare", "%s%.*s.*: no such file; expected one for %s", path, (int) stem, name,
            self->given [index]);
    if (twice) {
        free (partner);
        partner = NULL;
    }
    return partner;
}

uint8_t *
prepare_files_read (const char *path, size_t *size_p)
{
    char *bytes;
    errno = -input_whole (path, CATALOGUE_SAMPLE_BYTES_MAX, &bytes, size_p);
    if (errno)
        s_complain (path);
    return (uint8_t *) bytes;
}

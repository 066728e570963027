#include "disk_data.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "packing.h"

#define EXTENSION ".bin"                //  what is made is no image

enum { CLASSES = 64, ERROR_BYTES = 1024, PACKING_MEMORY_BYTES = 256 << 20 };

//  ---- making it

//  splitmix64: nothing that a disk or a file system could compress.
static void
s_fill (uint8_t *bytes, size_t size, uint64_t *random)
{
    for (size_t at = 0; at < size; at += sizeof (uint64_t)) {
        uint64_t mixed = (*random += 0x9e3779b97f4a7c15u);
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        mixed ^= mixed >> 31;
        memcpy (bytes + at, &mixed, size - at < sizeof mixed? size - at: sizeof mixed);
    }
}

static bool
s_write (const char *path, const uint8_t *bytes, size_t size)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool fine = fd >= 0;
    for (size_t at = 0; fine && at < size;) {
        ssize_t put = write (fd, bytes + at, size - at);
        fine = put > 0 || (put < 0 && errno == EINTR);
        at += put > 0? (size_t) put: 0;
    }
    fine = fd >= 0 && close (fd) == 0 && fine;
    if (!fine)
        disk_complain ("%s: %s", path, strerror (errno));
    return fine;
}

static bool
s_make_folder (const char *path)
{
    if (mkdir (path, 0777) == 0)
        return true;
    disk_complain ("%s: %s", path, strerror (errno));
    return false;
}

static bool
s_make_files (const char *folder, const disk_options_t *options, bool (*stopped) (void *context))
{
    char path [DISK_PATH_BYTES + 64];
    uint64_t random = 1;
    uint8_t *bytes = malloc (options->sample_bytes);
    bool fine = bytes && s_make_folder (folder);
    if (!bytes)
        disk_complain ("no memory for a sample of %llu bytes", (unsigned long long) options->sample_bytes);
    for (uint32_t class = 0; fine && class < CLASSES; class++) {
        snprintf (path, sizeof path, "%s/%02u", folder, class);
        fine = s_make_folder (path);
    }
    for (uint32_t sample = 0; fine && sample < options->samples; sample++) {
        s_fill (bytes, options->sample_bytes, &random);
        snprintf (path, sizeof path, "%s/%02u/%08u" EXTENSION, folder, sample % CLASSES, sample);
        fine = !stopped (NULL) && s_write (path, bytes, options->sample_bytes);
    }
    free (bytes);
    return fine;
}

static bool
s_make_pack (const disk_data_t *self, bool (*stopped) (void *context))
{
    const char *paths [] = { self->plain_path };
    packing_options_t options = {
        .source = { .paths = paths, .path_count = 1, .extensions = EXTENSION },
        .target = self->pack_path, .has_seed = true, .seed = 1, .memory_bytes = PACKING_MEMORY_BYTES,
        .stopped = stopped
    };
    packing_result_t result;
    char error [PACK_SOURCE_ERROR_BYTES];
    int rc = packing_run (&options, &result, error);
    if (rc && rc != -ECANCELED)
        disk_complain ("making the pack: %s", error);
    return rc == 0;
}

static bool
s_make (disk_data_t *self, const disk_options_t *options, bool (*stopped) (void *context))
{
    if ((size_t) snprintf (self->root, sizeof self->root - 16, "%s/disk-bench-XXXXXX", options->folder)
            >= sizeof self->root - 16 || !mkdtemp (self->root)) {
        disk_complain ("--folder '%s': %s", options->folder, strerror (errno));
        self->root [0] = 0;
        return false;
    }
    snprintf (self->plain_path, sizeof self->plain_path, "%.*s/plain", DISK_PATH_BYTES - 16, self->root);
    snprintf (self->pack_path, sizeof self->pack_path, "%.*s/pack", DISK_PATH_BYTES - 16, self->root);
    fprintf (stderr, "making %u files of %llu bytes and their pack in %s\n", options->samples,
        (unsigned long long) options->sample_bytes, self->root);
    return s_make_files (self->plain_path, options, stopped) && s_make_pack (self, stopped);
}

//  ---- opening it

static bool
s_open (catalogue_t **catalogue_p, const char *path, const char *extensions)
{
    char error [ERROR_BYTES];
    catalogue_options_t options = { .path = path, .extensions = extensions };
    int rc = catalogue_open (catalogue_p, &options, error, sizeof error);
    if (rc)
        disk_complain ("%s", error);
    return rc == 0;
}

static bool
s_open_both (disk_data_t *self, const char *extensions)
{
    if (!s_open (&self->plain, self->plain_path, extensions)
        || !s_open (&self->packed, self->pack_path, NULL))
        return false;
    self->pack = catalogue_pack (self->packed);
    if (!self->pack)
        disk_complain ("%s is no pack; make one with: tureen pack %s DIR", self->pack_path, self->plain_path);
    else
    if (strcmp (catalogue_fingerprint (self->plain), catalogue_fingerprint (self->packed)))
        disk_complain ("%s is not the pack of %s: the fingerprints differ", self->pack_path,
            self->plain_path);
    else
        return true;
    return false;
}

bool
disk_data_open (disk_data_t *self, const disk_options_t *options, bool (*stopped) (void *context))
{
    *self = (disk_data_t) { .root = "" };
    if (options->data) {
        snprintf (self->plain_path, sizeof self->plain_path, "%s", options->data);
        snprintf (self->pack_path, sizeof self->pack_path, "%s", options->pack);
    }
    else
    if (!s_make (self, options, stopped))
        return false;
    if (!s_open_both (self, options->data? options->extensions: EXTENSION))
        return false;
    self->bytes = catalogue_bytes (self->packed);
    for (uint32_t volume = 0; volume < pack_volumes (self->pack); volume++)
        self->volume_bytes += pack_volume_bytes (self->pack, volume);
    for (uint32_t id = 0; id < pack_samples (self->pack); id++)
        if (pack_sample_bytes (self->pack, id) > self->sample_bytes_max)
            self->sample_bytes_max = pack_sample_bytes (self->pack, id);
    sync ();                            //  nothing is written back while something is measured
    return true;
}

void
disk_data_close (disk_data_t *self)
{
    catalogue_destroy (&self->plain);
    catalogue_destroy (&self->packed);
    if (!self->root [0])
        return;
    pid_t child = fork ();              //  rm copes with any tree
    if (child == 0) {
        execlp ("rm", "rm", "-rf", "--", self->root, (char *) NULL);
        _exit (127);
    }
    int status = -1;
    if (child < 0 || waitpid (child, &status, 0) != child || status != 0)
        disk_complain ("%s could not be removed", self->root);
    self->root [0] = 0;
}

//  ---- forgetting it

static void
s_drop_caches (void)
{
    int fd = open ("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write (fd, "3", 1) != 1)
        disk_complain ("--drop-caches: /proc/sys/vm/drop_caches: %s", strerror (errno));
    if (fd >= 0)
        close (fd);
}

void
disk_data_forget_pack (const disk_data_t *self, bool drop_caches)
{
    for (uint32_t volume = 0; volume < pack_volumes (self->pack); volume++)
        posix_fadvise (pack_volume_descriptor (self->pack, volume), 0, 0, POSIX_FADV_DONTNEED);
    if (drop_caches)
        s_drop_caches ();
}

void
disk_data_forget_plain (const disk_data_t *self, bool drop_caches)
{
    char name [PATH_MAX];
    int root = open (self->plain_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (uint32_t id = 0; root >= 0 && id < catalogue_samples (self->plain); id++) {
        catalogue_path (self->plain, id, 0, name, sizeof name);
        int fd = openat (root, name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
            close (fd);
        }
    }
    if (root >= 0)
        close (root);
    if (drop_caches)
        s_drop_caches ();
}

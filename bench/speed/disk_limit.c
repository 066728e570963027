#include "disk_limit.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 900, REMOVALS = 50 };

struct disk_limit {
    char path [PATH_BYTES];
};

static bool
s_write (const disk_limit_t *self, const char *name, uint64_t number)
{
    char path [PATH_BYTES + 64], text [32];
    snprintf (path, sizeof path, "%s/%s", self->path, name);
    int length = snprintf (text, sizeof text, "%llu", (unsigned long long) number);
    int fd = open (path, O_WRONLY | O_CLOEXEC);
    bool fine = fd >= 0 && write (fd, text, (size_t) length) == length;
    if (fd >= 0)
        close (fd);
    return fine;
}

//  Where the process's own group is: the memory controller's of version 1, else version 2's, "0::/path".
//  False: neither.
static bool
s_find (char *base, size_t size)
{
    FILE *file = fopen ("/proc/self/cgroup", "r");
    char line [LINE_BYTES];
    bool found = false;
    while (file && !found && fgets (line, sizeof line, file)) {
        line [strcspn (line, "\n")] = 0;
        char *memory = strstr (line, ":memory:");
        if (memory)
            snprintf (base, size, "/sys/fs/cgroup/memory%s", memory + 8);
        else
        if (strncmp (line, "0::", 3) == 0)
            snprintf (base, size, "/sys/fs/cgroup%s", line + 3);
        else
            continue;
        found = access (base, W_OK) == 0;
    }
    if (file)
        fclose (file);
    return found;
}

disk_limit_t *
disk_limit_new (uint64_t limit_bytes, const char **why_p)
{
    char base [PATH_BYTES - 64];
    disk_limit_t *self = calloc (1, sizeof *self);
    assert (self);
    *why_p = "no control group of this process is writable (that needs root, or delegation)";
    if (!s_find (base, sizeof base))
        goto exit;
    snprintf (self->path, sizeof self->path, "%s/disk-bench-%ld", base, (long) getpid ());
    *why_p = "a control group with a limit of memory cannot be made";
    if (mkdir (self->path, 0700)) {
        self->path [0] = 0;
        goto exit;
    }
    if (!s_write (self, "memory.limit_in_bytes", limit_bytes) && !s_write (self, "memory.max", limit_bytes))
        goto exit;
    return self;
exit:
    disk_limit_destroy (&self);
    return NULL;
}

//  Removes the group.  It may be busy for a moment after its last process has gone.
void
disk_limit_destroy (disk_limit_t **self_p)
{
    disk_limit_t *self = *self_p;
    if (!self)
        return;
    for (int removal = 0; self->path [0] && removal < REMOVALS && rmdir (self->path)
        && errno == EBUSY; removal++)
        nanosleep (&(struct timespec) { .tv_nsec = 20 * 1000 * 1000 }, NULL);
    free (self);
    *self_p = NULL;
}

bool
disk_limit_enter (const disk_limit_t *self)
{
    return s_write (self, "cgroup.procs", (uint64_t) getpid ());
}

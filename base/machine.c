#include "machine.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

//  ---- memory and processors

//  The first line of a small file, without its end; false: none.
static bool
s_first_line (const char *path, char *line, int size)
{
    FILE *file = fopen (path, "re");
    if (!file)
        return false;
    bool good = fgets (line, size, file) != NULL;
    fclose (file);
    if (good)
        line [strcspn (line, "\n")] = 0;
    return good;
}

//  One limit in a group's folder, as uint64; "no limit" is UINT64_MAX.
typedef uint64_t (limit_fn) (const char *folder);

static uint64_t
s_bytes_in (const char *folder, const char *name)
{
    char path [PATH_MAX], line [64];
    uint64_t bytes;
    //  "max", or any other text that is no number, is no limit; version 1 writes a huge number instead.
    if (snprintf (path, sizeof path, "%s/%s", folder, name) < (int) sizeof path
        && s_first_line (path, line, sizeof line) && sscanf (line, "%" SCNu64, &bytes) == 1)
        return bytes;
    return UINT64_MAX;
}

static uint64_t
s_memory_v2 (const char *folder)
{
    return s_bytes_in (folder, "memory.max");
}

static uint64_t
s_memory_v1 (const char *folder)
{
    return s_bytes_in (folder, "memory.limit_in_bytes");
}

static uint64_t
s_processors (int64_t quota, int64_t period)
{
    return quota > 0 && period > 0? (uint64_t) ((quota - 1) / period + 1): UINT64_MAX;
}

static uint64_t
s_processors_v2 (const char *folder)
{
    char path [PATH_MAX], line [64];
    int64_t quota, period;
    if (snprintf (path, sizeof path, "%s/cpu.max", folder) < (int) sizeof path
        && s_first_line (path, line, sizeof line)
        && sscanf (line, "%" SCNd64 " %" SCNd64, &quota, &period) == 2)
        return s_processors (quota, period);
    return UINT64_MAX;              //  "max 100000"
}

static uint64_t
s_processors_v1 (const char *folder)
{
    //  A quota of -1 is none, and so is a missing file: read as unsigned and cast back, both are -1.
    return s_processors ((int64_t) s_bytes_in (folder, "cpu.cfs_quota_us"),
        (int64_t) s_bytes_in (folder, "cpu.cfs_period_us"));
}

//  The least limit of a group and of all above it: each of them binds.  Inside a container the group's path
//  may name folders of the host that do not exist there; then the mount's own root is the container's group.
static uint64_t
s_least_upwards (const char *mount, const char *group, limit_fn *limit)
{
    char folder [PATH_MAX];
    int length = snprintf (folder, sizeof folder, "%s%s", mount, group);
    if (length >= (int) sizeof folder || strstr (group, "/.."))
        return limit (mount);
    uint64_t least = UINT64_MAX;
    for (;;) {
        uint64_t here = limit (folder);
        least = here < least? here: least;
        char *slash = strrchr (folder, '/');
        if (!slash || slash < folder + strlen (mount))
            return least;
        *slash = 0;
    }
}

//  Whether a comma-separated list holds a word.
static bool
s_lists (const char *list, const char *word)
{
    size_t size = strlen (word);
    for (const char *at = list; (at = strstr (at, word)); at += size)
        if ((at == list || at [-1] == ',') && (at [size] == 0 || at [size] == ','))
            return true;
    return false;
}

//  Asks each group in /proc/self/cgroup: "0::/path" is version 2, "5:cpu,cpuacct:/path" version 1.
static uint64_t
s_least_of_groups (const char *root, const char *controller, limit_fn *limit_v2, limit_fn *limit_v1)
{
    char path [PATH_MAX], line [PATH_MAX];
    snprintf (path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen (path, "re");
    uint64_t least = UINT64_MAX;
    while (file && fgets (line, sizeof line, file)) {
        line [strcspn (line, "\n")] = 0;
        char *controllers = strchr (line, ':');
        char *group = controllers? strchr (controllers + 1, ':'): NULL;
        if (!group)
            continue;
        *controllers++ = 0;
        *group++ = 0;
        bool unified = !*controllers;
        if (!unified && !s_lists (controllers, controller))
            continue;
        snprintf (path, sizeof path, "%s/sys/fs/cgroup%s%s", root, unified? "": "/", unified? "": controller);
        uint64_t here = s_least_upwards (path, group, unified? limit_v2: limit_v1);
        least = here < least? here: least;
    }
    if (file)
        fclose (file);
    return least;
}

uint64_t
machine_memory_bytes (const char *root)
{
    long pages = sysconf (_SC_PHYS_PAGES), page_bytes = sysconf (_SC_PAGESIZE);
    uint64_t least = pages > 0 && page_bytes > 0? (uint64_t) pages * (uint64_t) page_bytes: UINT64_MAX;
    uint64_t groups = s_least_of_groups (root, "memory", s_memory_v2, s_memory_v1);
    least = groups < least? groups: least;
    struct rlimit limit;
    if (getrlimit (RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < least)
        least = limit.rlim_cur;
    return least? least: 1;
}

uint32_t
machine_processors (const char *root)
{
    cpu_set_t set;
    long count = sched_getaffinity (0, sizeof set, &set) == 0? CPU_COUNT (&set)
        : sysconf (_SC_NPROCESSORS_ONLN);       //  more processors than a cpu_set_t has bits
    uint64_t least = count > 0? (uint64_t) count: 1;
    uint64_t paid = s_least_of_groups (root, "cpu", s_processors_v2, s_processors_v1);
    return (uint32_t) (paid < least? paid: least);
}

//  ---- limits

//  Half of it is enough for all that the tests do; where the usual 8 MiB are allowed nothing is changed.
enum { STACK_BYTES = 1 << 20 };

//  The kernel lets a process's first stack grow up to the limit of the moment; those of threads have the size
//  that the C library saw at the start.
static bool
s_raise_stack (void)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_BYTES)
        return true;
    if (limit.rlim_max < STACK_BYTES) {
        fprintf (stderr, "tureen: the limit of the stack is %llu KiB, and %d are needed: raise it (ulimit "
            "-s, LimitSTACK=)\n", (unsigned long long) limit.rlim_max / 1024, STACK_BYTES / 1024);
        return false;
    }
    limit.rlim_cur = STACK_BYTES;
    setrlimit (RLIMIT_STACK, &limit);
    pthread_attr_t threads;
    pthread_attr_init (&threads);
    pthread_attr_setstacksize (&threads, STACK_BYTES);
    pthread_setattr_default_np (&threads);
    pthread_attr_destroy (&threads);
    return true;
}

bool
machine_begin (void)
{
    signal (SIGXFSZ, SIG_IGN);
    return s_raise_stack ();
}

uint64_t
machine_file_bytes (void)
{
    struct rlimit limit;
    return getrlimit (RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY? UINT64_MAX: limit.rlim_cur;
}

const char *
machine_remedy (int error)
{
    switch (error) {
        case EFBIG:
            return ": raise the limit of file sizes (ulimit -f, LimitFSIZE=), or use another file system";
        case EAGAIN:
            return ": raise the limit of processes and threads (ulimit -u, LimitNPROC=, TasksMax=)";
        case EMFILE:
            return ": raise the limit of open files (ulimit -n, LimitNOFILE=)";
        default:
            return "";
    }
}

enum { LARGE_BYTES = 128 << 20 };       //  more than any buffer of the start

//  The most address space that the process has had so far.
static uint64_t
s_peak_bytes (void)
{
    FILE *file = fopen ("/proc/self/status", "re");
    char line [256];
    uint64_t kilobytes = 0;
    while (file && kilobytes == 0 && fgets (line, sizeof line, file))
        sscanf (line, "VmPeak: %" SCNu64, &kilobytes);
    if (file)
        fclose (file);
    return kilobytes * 1024;
}

//  Whether the limit of address space is so near that it must have refused a thread's stack or a large
//  buffer.
static bool
s_is_at_limit (uint64_t *limit_p)
{
    struct rlimit space, stack;
    if (getrlimit (RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY || getrlimit (RLIMIT_STACK, &stack))
        return false;
    *limit_p = space.rlim_cur;
    uint64_t more = LARGE_BYTES + (stack.rlim_cur == RLIM_INFINITY? 0: stack.rlim_cur);
    return space.rlim_cur < s_peak_bytes () + more;
}

const char *
machine_shortage (int error, char text [MACHINE_SHORTAGE_BYTES])
{
    uint64_t limit;
    if (s_is_at_limit (&limit))
        snprintf (text, MACHINE_SHORTAGE_BYTES,
            "the limit of address space (ulimit -v), %" PRIu64 " MiB, is too low: raise it, or "
            "remove it with `ulimit -v unlimited`", limit >> 20);
    else
    if (error == EAGAIN)
        snprintf (text, MACHINE_SHORTAGE_BYTES,
            "no more threads are to be had: raise the limit of processes and threads "
            "(ulimit -u, LimitNPROC=, TasksMax=), or give fewer --workers");
    else
        snprintf (text, MACHINE_SHORTAGE_BYTES, "%s: free memory, or give fewer --workers", strerror (error));
    return text;
}

//  ---- headroom

bool
machine_leave_headroom (void)
{
    struct rlimit data, addresses;
    if (getrlimit (RLIMIT_DATA, &data) == 0 && data.rlim_cur == RLIM_INFINITY
    &&  getrlimit (RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY)
        return true;
    //  The system counts a mapping that may be written, whether or not a page of it is touched.
    void *memory = mmap (NULL, MACHINE_HEADROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
        -1, 0);
    if (memory == MAP_FAILED)
        return false;
    munmap (memory, MACHINE_HEADROOM_BYTES);
    return true;
}

void *
machine_keep_headroom (void *memory)
{
    if (!memory || machine_leave_headroom ())
        return memory;
    free (memory);
    return NULL;
}

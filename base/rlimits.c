#include "rlimits.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

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
rlimits_begin (void)
{
    signal (SIGXFSZ, SIG_IGN);
    return s_raise_stack ();
}

uint64_t
rlimits_file_bytes (void)
{
    struct rlimit limit;
    return getrlimit (RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY? UINT64_MAX: limit.rlim_cur;
}

const char *
rlimits_remedy (int error)
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

//  ---- headroom

bool
rlimits_leave_headroom (void)
{
    struct rlimit data, addresses;
    if (getrlimit (RLIMIT_DATA, &data) == 0 && data.rlim_cur == RLIM_INFINITY
    &&  getrlimit (RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY)
        return true;
    //  The system counts a mapping that may be written, whether or not a page of it is touched.
    void *memory = mmap (NULL, RLIMITS_HEADROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
        -1, 0);
    if (memory == MAP_FAILED)
        return false;
    munmap (memory, RLIMITS_HEADROOM_BYTES);
    return true;
}

void *
rlimits_keep_headroom (void *memory)
{
    if (!memory || rlimits_leave_headroom ())
        return memory;
    free (memory);
    return NULL;
}

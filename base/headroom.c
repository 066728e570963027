//  The memory that a large buffer leaves to what cannot be refused.

#include "headroom.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

static bool
s_is_limited (int resource)
{
    struct rlimit limit;
    return getrlimit (resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

bool
headroom_is_left (void)
{
    if (!s_is_limited (RLIMIT_DATA) && !s_is_limited (RLIMIT_AS))
        return true;
    //  The system counts a mapping that may be written, whether or not a page of it is touched.
    void *memory = mmap (NULL, HEADROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    munmap (memory, HEADROOM_BYTES);
    return true;
}

void *
headroom_keep (void *memory)
{
    if (!memory || headroom_is_left ())
        return memory;
    free (memory);
    return NULL;
}

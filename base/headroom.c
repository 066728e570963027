//  The memory that a large buffer leaves to what cannot be refused.

#include "headroom.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

bool
headroom_is_left (void)
{
    struct rlimit data, addresses;
    if (getrlimit (RLIMIT_DATA, &data) == 0 && data.rlim_cur == RLIM_INFINITY
    &&  getrlimit (RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY)
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

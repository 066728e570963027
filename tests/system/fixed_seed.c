//  fixed_seed -- a library to preload that makes a server draw the same orders at each start: getrandom gives
//  the same 8 bytes whenever 8 are asked for, as the server asks for its seed.  Keys are longer.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t
getrandom (void *memory, size_t bytes, unsigned int flags)
{
    enum { SEED_BYTES = 8, SEED_BYTE = 7 };
    if (bytes != SEED_BYTES)
        return syscall (SYS_getrandom, memory, bytes, flags);
    memset (memory, SEED_BYTE, bytes);
    return SEED_BYTES;
}

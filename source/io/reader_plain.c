//  Operations by system calls, where there is no ring.

#include "reader_state.h"
#include "catalogue_state.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t
s_read (reader_t *self, reader_request_t *request)
{
    reader_read_t wanted = reader_next_read (self, request);
    struct iovec part = { .iov_base = wanted.memory, .iov_len = wanted.bytes };
    return preadv (reader_descriptor (self, request), &part, 1, (off_t) wanted.offset);
}

static int
s_open (const reader_request_t *request)
{
    char path [PATH_MAX];
    reader_path (request, path);
    return openat (reader_root (request), path, CATALOGUE_OPEN_FLAGS);
}

static int
s_reopen (const reader_t *self, const reader_request_t *request)
{
    int flags;
    const char *path = reader_again_path (self, request, &flags);
    return openat (AT_FDCWD, path, flags);
}

static int
s_carry_out (reader_t *self, reader_request_t *request)
{
    ssize_t result;
    if (request->progress.step == READER_READ)
        result = s_read (self, request);
    else
    if (request->progress.step == READER_OPEN)
        result = s_open (request);
    else
    if (request->progress.step == READER_REOPEN)
        result = s_reopen (self, request);
    else
        result = close (request->progress.descriptor);
    return result < 0? -errno: (int) result;
}

void
reader_plain_run (reader_t *self, reader_request_t *request)
{
    while (reader_advance (self, request, s_carry_out (self, request)))
        ;
    reader_finish (self, request);
}

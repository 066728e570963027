/*  ring.c -- see ring.h.
 *
 *  happy path:  memfd, reserve (fallocate makes it as long as it must be and takes every page), seal, map.
 *  failure:     a ring that does not fit fails in ring_new with a status; nothing is left behind.
 *  on close:    ring_destroy frees the pages under every mapping, ring_leave only unmaps ours.
 */
#include "ring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

//  Since Linux 6.3; older headers lack it, older kernels answer EINVAL.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { RING_MAGIC = 0x0419600d };

struct ring {
    uint32_t magic;
    uint32_t slots;
    size_t slot_bytes;
    size_t bytes;
    int fd;
    uint8_t *memory;                //  NULL: not mapped
};

//  A descriptor or -errno.
static int
s_make_memfd (void)
{
    unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create ("tureen-ring", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create ("tureen-ring", flags);
    return fd < 0? -errno: fd;
}

//  A memfd has no limit but the machine's: beyond that, fallocate would wake the OOM killer before it fails.
//  This check stops absurd sizes; the budget decides on the others.
static int
s_check_size (uint32_t slots, size_t slot_bytes, size_t *bytes_p)
{
    struct sysinfo machine;
    if (__builtin_mul_overflow (slots, slot_bytes, bytes_p) || *bytes_p > INT64_MAX)
        return -ENOMEM;
    if (sysinfo (&machine) == 0 && *bytes_p / machine.mem_unit > machine.totalram)
        return -ENOMEM;
    return 0;
}

static int
s_fallocate (const ring_t *self, int mode)
{
    int rc;
    do
        rc = fallocate (self->fd, mode, 0, (off_t) self->bytes);
    while (rc != 0 && errno == EINTR);
    return rc? -errno: 0;
}

static int
s_map (ring_t *self)
{
    void *memory = mmap (NULL, self->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    self->memory = memory;
    return 0;
}

int
ring_new (ring_t **self_p, uint32_t slots, size_t slot_bytes)
{
    assert (self_p);
    assert (slots > 0); assert (slot_bytes > 0);
    assert (slot_bytes % (size_t) sysconf (_SC_PAGESIZE) == 0);
    *self_p = NULL;
    size_t bytes;
    int rc = s_check_size (slots, slot_bytes, &bytes);
    if (rc)
        return rc;
    ring_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (ring_t) { .magic = RING_MAGIC, .slots = slots, .slot_bytes = slot_bytes, .bytes = bytes };
    self->fd = s_make_memfd ();
    rc = self->fd < 0? self->fd: 0;
    //  Reserve now: lack of memory must show here, not as SIGBUS in a worker.
    if (rc == 0)
        rc = s_fallocate (self, 0);
    //  Without SEAL a client could add FUTURE_WRITE, and then no hole could be punched.
    if (rc == 0 && fcntl (self->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        rc = -errno;
    if (rc == 0)
        rc = s_map (self);
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    ring_leave (&self);                 //  no other process maps it: the pages go with the descriptor
    return rc;
}

void
ring_destroy (ring_t **self_p)
{
    assert (self_p);
    ring_t *self = *self_p;
    if (self) {
        assert (self->magic == RING_MAGIC);
        //  UNTESTED: the seals rule out all failures but lack of kernel memory; then the client's end frees
        //  the pages.
        s_fallocate (self, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    }
    ring_leave (self_p);
}

void
ring_leave (ring_t **self_p)
{
    assert (self_p);
    ring_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == RING_MAGIC);
    if (self->memory)
        munmap (self->memory, self->bytes);
    if (self->fd >= 0)
        close (self->fd);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

uint8_t *
ring_slot (ring_t *self, uint32_t slot)
{
    assert (self && self->magic == RING_MAGIC);
    assert (slot < self->slots);
    return self->memory + slot * self->slot_bytes;
}

size_t
ring_bytes (const ring_t *self)
{
    assert (self && self->magic == RING_MAGIC);
    return self->bytes;
}

int
ring_descriptor (const ring_t *self)
{
    assert (self && self->magic == RING_MAGIC);
    return self->fd;
}

//  ---- rings of ended jobs that clients still have and may read

static ring_t *
s_take_out (ring_closing_t *self, size_t index)
{
    ring_t *ring = self->rings [index].ring;
    self->count--;
    memmove (&self->rings [index], &self->rings [index + 1], (self->count - index) * sizeof self->rings [0]);
    return ring;
}

static size_t
s_count (const ring_closing_t *self, uint32_t tenant)
{
    size_t count = 0;
    for (size_t index = 0; index < self->count; index++)
        count += self->rings [index].tenant == tenant;
    return count;
}

//  The tenant's oldest ring; if it has none, because other tenants exceed their shares, the oldest of all.
static void
s_end_oldest (ring_closing_t *self, ring_server_t *ring_server, uint32_t tenant)
{
    size_t index = 0;
    while (index < self->count && self->rings [index].tenant != tenant)
        index++;
    index = index < self->count? index: 0;
    ring_server_forget (ring_server, self->rings [index].key);
    ring_t *oldest = s_take_out (self, index);
    ring_destroy (&oldest);
}

void
ring_closing_keep (ring_closing_t *self, ring_server_t *ring_server, uint64_t key, uint32_t tenant,
    size_t rings_max, ring_t **ring_p)
{
    if (self->count == RING_CLOSING_MAX || s_count (self, tenant) >= rings_max)
        s_end_oldest (self, ring_server, tenant);
    self->rings [self->count].key = key;
    self->rings [self->count].tenant = tenant;
    self->rings [self->count++].ring = *ring_p;
    *ring_p = NULL;
}

size_t
ring_closing_bytes (const ring_closing_t *self, uint32_t tenant)
{
    size_t bytes = 0;
    for (size_t index = 0; index < self->count; index++)
        bytes += self->rings [index].tenant == tenant? ring_bytes (self->rings [index].ring): 0;
    return bytes;
}

void
ring_closing_end (ring_closing_t *self, uint64_t key)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->rings [index].key == key) {
            ring_t *ring = s_take_out (self, index);
            ring_destroy (&ring);
            return;
        }
}

void
ring_closing_leave (ring_closing_t *self)
{
    while (self->count > 0) {
        ring_t *ring = s_take_out (self, self->count - 1);
        ring_leave (&ring);
    }
}

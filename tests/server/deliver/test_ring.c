/*  The ring: memory that is reserved when made, that cannot be resized, and that a dead client cannot
 *  keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring.h"
#include "scratch.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { SLOTS = 5, SLOT_BYTES = 3 * 4096, BYTES = SLOTS * SLOT_BYTES };

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

//  -- calls that fail when told to

static bool old_kernel;                 //  knows no MFD_NOEXEC_SEAL
static unsigned int interruptions;      //  of fallocate that are still to come

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (int, -1, fcntl, (int fd, int command, int argument), (fd, command, argument))
FAULT_CALL (void *, MAP_FAILED, mmap, (void *at, size_t size, int access, int flags, int fd, off_t offset),
    (at, size, access, flags, fd, offset))

int __real_memfd_create (const char *name, unsigned int flags);
int __wrap_memfd_create (const char *name, unsigned int flags);
int
__wrap_memfd_create (const char *name, unsigned int flags)
{
    if (old_kernel && (flags & MFD_NOEXEC_SEAL)) {
        errno = EINVAL;
        return -1;
    }
    return fault_strikes ()? -1: __real_memfd_create (name, flags);
}

int __real_fallocate (int fd, int mode, off_t offset, off_t size);
int __wrap_fallocate (int fd, int mode, off_t offset, off_t size);
int
__wrap_fallocate (int fd, int mode, off_t offset, off_t size)
{
    if (interruptions) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return fault_strikes ()? -1: __real_fallocate (fd, mode, offset, size);
}


//  -- what every case begins and ends with

//  Mappings of ring memory in this process.
static int
mappings (void)
{
    FILE *maps = fopen ("/proc/self/maps", "r");
    char line [1024];
    int count = 0;
    while (maps && fgets (line, sizeof line, maps))
        count += strstr (line, "tureen-ring") != NULL;
    if (maps)
        fclose (maps);
    return count;
}

static int
begin (void **state)
{
    scratch_folder_t *scratch = calloc (1, sizeof *scratch);
    *state = scratch;
    old_kernel = false;
    interruptions = 0;
    return scratch && scratch_begin (scratch) && mappings () == 0? 0: -1;
}

static int
end (void **state)
{
    fault_disarm ();
    bool clean = scratch_end (*state);
    clean &= mappings () == 0;
    free (*state);
    return clean? 0: -1;
}

static ring_t *
new_ring (void)
{
    ring_t *ring;
    assert_int_equal (ring_new (&ring, SLOTS, SLOT_BYTES), 0);
    assert_non_null (ring);
    return ring;
}

//  The pages that a file has, in bytes.
static long
held_bytes (int fd)
{
    struct stat status;
    assert_int_equal (fstat (fd, &status), 0);
    return status.st_blocks * 512;
}

//  Another mapping, as a client's.
static uint8_t *
map (int fd)
{
    uint8_t *memory = mmap (NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true (memory != MAP_FAILED);
    return memory;
}


//  -- cases

//  Slots lie end to end, zeroed, in the memory that the descriptor stands for.
static void
test_slots_lie_end_to_end (void **state)
{
    (void) state;
    ring_t *ring = new_ring ();
    assert_int_equal (ring_bytes (ring), BYTES);
    uint8_t *client = map (ring_descriptor (ring));
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        uint8_t *memory = ring_slot (ring, slot);
        assert_ptr_equal (memory, ring_slot (ring, 0) + slot * SLOT_BYTES);
        for (size_t at = 0; at < SLOT_BYTES; at++)
            assert_int_equal (memory [at], 0);
        memset (memory, (int) slot + 1, SLOT_BYTES);
        assert_int_equal (client [slot * SLOT_BYTES], slot + 1);
        assert_int_equal (client [(slot + 1) * SLOT_BYTES - 1], slot + 1);
    }
    munmap (client, BYTES);
    ring_destroy (&ring);
    assert_null (ring);
    ring_destroy (&ring);
    ring_leave (&ring);
}

//  No write to it can fail later: the pages are there at once.
static void
test_reserved_when_made (void **state)
{
    (void) state;
    ring_t *ring = new_ring ();
    assert_true (held_bytes (ring_descriptor (ring)) >= BYTES);
    ring_destroy (&ring);
}

//  A client cannot cut the file under the server, lengthen it, or keep it from being emptied.
static void
test_client_cannot_resize_or_seal (void **state)
{
    (void) state;
    for (int old = 0; old < 2; old++) {
        old_kernel = old;
        ring_t *ring = new_ring ();
        int fd = ring_descriptor (ring);
        assert_int_equal (fcntl (fd, F_GET_SEALS, 0) & ~F_SEAL_EXEC,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal (fcntl (fd, F_GETFD, 0) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal (ftruncate (fd, 0), -1);
        assert_int_equal (errno, EPERM);
        assert_int_equal (ftruncate (fd, BYTES + 4096), -1);
        assert_int_equal (errno, EPERM);
        assert_int_equal (fcntl (fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
        assert_int_equal (errno, EPERM);
        ring_destroy (&ring);
    }
}

//  The client's mapping outlives the ring and holds nothing.
static void
test_destroy_empties_the_clients_mapping (void **state)
{
    (void) state;
    ring_t *ring = new_ring ();
    int fd = dup (ring_descriptor (ring));
    uint8_t *client = map (fd);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        memset (ring_slot (ring, slot), 0xa5, SLOT_BYTES);
    assert_int_equal (client [BYTES - 1], 0xa5);
    interruptions = 3;
    ring_destroy (&ring);
    assert_int_equal (held_bytes (fd), 0);
    for (size_t at = 0; at < BYTES; at += 512)
        assert_int_equal (client [at], 0);
    munmap (client, BYTES);
    close (fd);
}

//  What was delivered stays readable when the server ends in good order.
static void
test_leave_keeps_the_pages (void **state)
{
    (void) state;
    ring_t *ring = new_ring ();
    int fd = dup (ring_descriptor (ring));
    uint8_t *client = map (fd);
    memset (ring_slot (ring, SLOTS - 1), 0xa5, SLOT_BYTES);
    ring_leave (&ring);
    assert_null (ring);
    assert_int_equal (client [BYTES - 1], 0xa5);
    assert_true (held_bytes (fd) >= BYTES);
    munmap (client, BYTES);
    close (fd);
}

//  More than the machine has, and more than a number holds: told at once, without trying.
static void
test_absurd_sizes (void **state)
{
    (void) state;
    ring_t *ring = (ring_t *) 1;
    assert_int_equal (ring_new (&ring, 64, (size_t) 1 << 44), -ENOMEM);
    assert_null (ring);
    assert_int_equal (ring_new (&ring, UINT32_MAX, (size_t) 1 << 40), -ENOMEM);
    assert_null (ring);
}

//  No descriptor to be had, with the system's own limit.
static void
test_out_of_descriptors (void **state)
{
    (void) state;
    struct rlimit limit, none;
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    ring_t *ring = (ring_t *) 1;
    int rc = ring_new (&ring, SLOTS, SLOT_BYTES);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    assert_int_equal (rc, -EMFILE);
    assert_null (ring);
}

static void
test_reserving_is_interrupted (void **state)
{
    (void) state;
    interruptions = 5;
    ring_t *ring = new_ring ();
    assert_int_equal (interruptions, 0);
    assert_true (held_bytes (ring_descriptor (ring)) >= BYTES);
    ring_destroy (&ring);
}

//  Each call fails in turn: its code comes back and nothing stays (the teardown counts).
static void
test_new_with_faults (void **state)
{
    (void) state;
    static const int errors [] = { ENOSPC, ENOMEM, EMFILE, ENOSYS };
    for (size_t index = 0; index < sizeof errors / sizeof errors [0]; index++) {
        unsigned int nth = 0;
        bool struck = true;
        while (struck) {
            ring_t *ring = (ring_t *) 1;
            fault_arm (++nth, errors [index], true);
            int rc = ring_new (&ring, SLOTS, SLOT_BYTES);
            struck = fault_disarm ();
            assert_int_equal (rc, !struck? 0: nth == 1? -ENOMEM: -errors [index]);
            assert_int_equal (ring == NULL, struck);
            ring_destroy (&ring);
            assert_int_equal (mappings (), 0);
        }
        assert_int_equal (nth, 6);      //  calloc, memfd_create, fallocate, fcntl, mmap were hit
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_slots_lie_end_to_end, begin, end),
        cmocka_unit_test_setup_teardown (test_reserved_when_made, begin, end),
        cmocka_unit_test_setup_teardown (test_client_cannot_resize_or_seal, begin, end),
        cmocka_unit_test_setup_teardown (test_destroy_empties_the_clients_mapping, begin, end),
        cmocka_unit_test_setup_teardown (test_leave_keeps_the_pages, begin, end),
        cmocka_unit_test_setup_teardown (test_absurd_sizes, begin, end),
        cmocka_unit_test_setup_teardown (test_out_of_descriptors, begin, end),
        cmocka_unit_test_setup_teardown (test_reserving_is_interrupted, begin, end),
        cmocka_unit_test_setup_teardown (test_new_with_faults, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  Operations through io_uring.
 *
 *  happy path:     turn: completions -> reader_advance -> the request's next operation, or done; what waits
 *                  is begun, up to `depth`; all new operations go to the kernel with one call, which also
 *                  waits where it may.
 *  failure modes:  no ring at birth: reader_ring_open says why.  A submission refused for lack of memory is
 *                  retried.  If it is refused for another reason, or for too long, the ring is given up: the
 *                  reader waits for the kernel's operations, and does all others by system calls.
 *  on close:       at most the poll of the wake descriptor is in flight, which ends with the ring.
 *
 *  Every request in flight has at most one operation in the ring, and user data names it; the wake's poll has
 *  0.
 */

#include "reader_state.h"
#include "catalogue_state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_ENTRIES = 2 * READER_DEPTH_MAX,
    FAILED_SUBMISSIONS_MAX = 100,           //  a millisecond apart
    BREAK_POLL_MS = 10
};

_Static_assert (RING_ENTRIES > READER_DEPTH_MAX + 1,
    "an entry for every request in flight and one for the wake");

//  -- life

static int
s_probe (struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring (ring);
    if (!probe)
        return -ENOSYS;
    bool good = io_uring_opcode_supported (probe, IORING_OP_READ)
        && io_uring_opcode_supported (probe, IORING_OP_OPENAT)
        && io_uring_opcode_supported (probe, IORING_OP_CLOSE)
            && io_uring_opcode_supported (probe, IORING_OP_POLL_ADD);
    io_uring_free_probe (probe);
    return good? 0: -ENOSYS;
}

//  A sandbox may allow the ring's creation and refuse its use: test it now.
static int
s_try (struct io_uring *ring)
{
    struct io_uring_sqe *entry = io_uring_get_sqe (ring);
    assert (entry);
    io_uring_prep_nop (entry);
    int rc;
    do
        rc = io_uring_submit_and_wait (ring, 1);
    while (rc == -EINTR);
    struct io_uring_cqe *completion;
    if (rc >= 0)
        rc = io_uring_wait_cqe (ring, &completion);
    if (rc == 0) {
        rc = completion->res;
        io_uring_cqe_seen (ring, completion);
    }
    return rc;
}

int
reader_ring_open (reader_t *self)
{
    int rc = io_uring_queue_init (RING_ENTRIES, &self->ring, 0);
    if (rc)
        return rc;
    self->has_ring = true;
    rc = s_probe (&self->ring);
    if (rc == 0)
        rc = s_try (&self->ring);
    if (rc == 0) {
        self->paths = calloc (RING_ENTRIES, sizeof *self->paths);       //  touched where files are opened,
                                                                        //  only there
        rc = self->paths? 0: -ENOMEM;
    }
    if (rc)
        reader_ring_close (self);
    return rc;
}

void
reader_ring_close (reader_t *self)
{
    if (self->has_ring)
        io_uring_queue_exit (&self->ring);
    self->has_ring = false;
    free (self->paths);
    self->paths = NULL;
}

void
reader_ring_register (reader_t *self)
{
    if (self->file_count == 0)
        return;
    int *descriptors = calloc (self->file_count, sizeof *descriptors);
    if (!descriptors)
        return;
    for (size_t file = 0; file < self->file_count; file++)
        descriptors [file] = self->files [file].descriptor;
    //  If registration is refused, operations use the descriptors, which costs a look-up each time.
    int rc = io_uring_register_files (&self->ring, descriptors, (unsigned int) self->file_count);
    self->files_registered = rc == 0;
    free (descriptors);
}


void
reader_ring_update (reader_t *self, uint32_t file)
{
    if (self->has_ring && self->files_registered
    &&  io_uring_register_files_update (&self->ring, file, &self->files [file].descriptor, 1) < 0)
        self->files_registered = false;
}


//  -- entries

static struct io_uring_sqe *
s_entry (reader_t *self)
{
    struct io_uring_sqe *entry = io_uring_get_sqe (&self->ring);
    assert (entry);                     //  RING_ENTRIES is enough
    return entry;
}

static void
s_prepare_read (reader_t *self, reader_request_t *request, struct io_uring_sqe *entry)
{
    reader_read_t wanted = reader_next_read (self, request);
    bool registered = self->files_registered && request->kind == READER_RANGE;
    int descriptor = registered? (int) request->file: reader_descriptor (self, request);
    io_uring_prep_read (entry, descriptor, wanted.memory, wanted.bytes, wanted.offset);
    if (registered)
        entry->flags |= IOSQE_FIXED_FILE;
}

static void
s_prepare (reader_t *self, reader_request_t *request)
{
    struct io_uring_sqe *entry = s_entry (self);
    if (request->progress.step == READER_READ)
        s_prepare_read (self, request, entry);
    else
    if (request->progress.step == READER_OPEN) {
        char *path = self->paths [entry - self->ring.sq.sqes];
        reader_path (request, path);
        io_uring_prep_openat (entry, reader_root (request), path, CATALOGUE_OPEN_FLAGS, 0);
    }
    else
    if (request->progress.step == READER_REOPEN) {
        int flags;
        const char *path = reader_again_path (self, request, &flags);
        io_uring_prep_openat (entry, AT_FDCWD, path, flags, 0);
    }
    else
        io_uring_prep_close (entry, request->progress.descriptor);
    //  An operation that would block goes to a kernel thread, which may wait.
    if (request->progress.again)
        entry->flags |= IOSQE_ASYNC;
    io_uring_sqe_set_data (entry, request);
}

static void
s_arm_wake (reader_t *self, int descriptor)
{
    assert (self->wake_descriptor == -1 || self->wake_descriptor == descriptor);
    self->wake_descriptor = descriptor;
    self->woken = false;
    if (self->wake_armed)
        return;
    struct io_uring_sqe *entry = s_entry (self);
    io_uring_prep_poll_add (entry, descriptor, POLLIN);
    io_uring_sqe_set_data (entry, NULL);
    self->wake_armed = true;
}


//  -- completions

//  The next one: true, and *request_p NULL for the wake's.
static bool
s_completion (reader_t *self, reader_request_t **request_p, int *result_p)
{
    struct io_uring_cqe *completion;
    if (io_uring_peek_cqe (&self->ring, &completion) != 0)
        return false;
    *request_p = io_uring_cqe_get_data (completion);
    *result_p = completion->res;
    io_uring_cqe_seen (&self->ring, completion);
    if (!*request_p) {
        self->wake_armed = false;
        self->woken = true;             //  an error too: the caller looks for itself
    }
    return true;
}

static void
s_reap (reader_t *self)
{
    reader_request_t *request;
    int result;
    while (s_completion (self, &request, &result)) {
        if (!request)
            continue;
        self->failed_submissions = 0;
        if (reader_advance (self, request, result))
            s_prepare (self, request);
        else
            reader_finish (self, request);
    }
}

static void
s_fill (reader_t *self)
{
    while (self->in_flight < self->depth && self->waiting.count > 0) {
        reader_request_t *request = reader_first (&self->waiting);
        if (reader_start (self, request))
            s_prepare (self, request);
    }
}


//  -- the kernel

//  Requests with an operation that the kernel has not taken.
static reader_list_t
s_not_taken (reader_t *self)
{
    reader_list_t list = { 0 };
    struct io_uring_sq *queue = &self->ring.sq;
    for (unsigned int left = io_uring_sq_ready (&self->ring); left > 0; left--) {
        struct io_uring_sqe *entry = &queue->sqes [(queue->sqe_tail - left) & queue->ring_mask];
        reader_request_t *request = (reader_request_t *) (uintptr_t) entry->user_data;
        if (request)
            reader_append (&list, request);
    }
    return list;
}

//  No more of the ring.
static void
s_break (reader_t *self, int rc)
{
    reader_list_t left = s_not_taken (self);
    size_t taken = self->in_flight - left.count;
    reader_request_t *request;
    while (taken > 0) {
        struct pollfd item = { .fd = self->ring.ring_fd, .events = POLLIN };
        poll (&item, 1, BREAK_POLL_MS);
        int result;
        while (s_completion (self, &request, &result)) {
            if (!request)
                continue;
            taken--;
            if (reader_advance (self, request, result))
                reader_append (&left, request);
            else
                reader_finish (self, request);
        }
    }
    reader_ring_close (self);
    snprintf (self->mode, sizeof self->mode, "preadv (io_uring: %s)", strerror (-rc));
    while ((request = reader_first (&left)))
        reader_plain_run (self, request);
}

static void
s_enter (reader_t *self, bool wait)
{
    int rc = wait? io_uring_submit_and_wait (&self->ring, 1): io_uring_submit (&self->ring);
    if (rc >= 0)
        self->failed_submissions = 0;
    else
    if ((rc == -EAGAIN || rc == -EBUSY) && ++self->failed_submissions < FAILED_SUBMISSIONS_MAX) {
        struct pollfd item = { .fd = self->ring.ring_fd, .events = POLLIN };
        poll (&item, 1, 1);             //  completed operations give memory back
    }
    else
    if (rc != -EINTR)
        s_break (self, rc);
}

void
reader_ring_turn (reader_t *self)
{
    s_reap (self);
    s_fill (self);
    if (io_uring_sq_ready (&self->ring) > 0)
        s_enter (self, false);
}

void
reader_ring_wait (reader_t *self, int wake_descriptor)
{
    bool wakes = wake_descriptor >= 0;
    s_reap (self);
    s_fill (self);
    if (wakes)
        s_arm_wake (self, wake_descriptor);
    while (self->has_ring && (self->in_flight > 0 || wakes) && self->done.count == 0
        && !(wakes && self->woken)) {
        s_enter (self, true);
        if (self->has_ring) {
            s_reap (self);
            s_fill (self);
        }
    }
    if (self->has_ring && io_uring_sq_ready (&self->ring) > 0)
        s_enter (self, false);
}

//  The reader's life, its files, and its two lists; the operations of reader_step.c through io_uring, or by
//  system calls one after the other.

#include "reader_step.h"
#include "catalogue_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "clock.h"

enum {
    READER_MAGIC = 0x0ead0e12,
    ALIGN_LEAST_BYTES = 512,                //  smaller blocks would save nothing that counts
    RING_ENTRIES = 2 * READER_DEPTH_MAX,
    FAILED_SUBMISSIONS_MAX = 100,           //  a millisecond apart
    BREAK_POLL_MS = 10
};

_Static_assert (RING_ENTRIES > READER_DEPTH_MAX + 2,
    "an entry for every request in flight, one for the wake and one for looks");

typedef struct {
    reader_request_t *first, *last;
    size_t count;
} reader_list_t;

struct reader {
    uint32_t magic;
    //  set at birth, the files before the first request
    bool no_direct;
    bool begun;                         //  no more files
    reader_file_t *files;
    size_t file_count, file_limit;      //  limit 0: another reader's files, or none
    const reader_backend_t *backend;    //  NULL: files
    void *backend_state;
    //  owner only
    char mode [96];
    uint32_t depth;
    uint32_t in_flight;                 //  begun and not done, without those that are looked for
    reader_list_t waiting, done;
    reader_looks_t *looks;              //  on the local disk
    reader_list_t missed;               //  were looked for, and are not there
    bool is_cancelled;                  //  what is looked for now is not read elsewhere
    //  the ring, if there is one
    bool has_ring;
    bool files_registered;
    bool wake_armed;                    //  a poll of wake_descriptor is in the ring
    bool woken;
    bool looks_armed;                   //  as is one of the looks' descriptor
    int wake_descriptor;                //  -1: none so far
    unsigned int failed_submissions;    //  in a row
    struct io_uring ring;
    char (*paths) [PATH_MAX];           //  one for each entry of the submission queue, until the kernel has
                                        //  taken it
};

//  -- lists

static void
s_append (reader_list_t *list, reader_request_t *request)
{
    request->next = NULL;
    if (list->first)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

static reader_request_t *
s_first (reader_list_t *list)
{
    reader_request_t *request = list->first;
    if (request) {
        list->first = request->next;
        list->count--;
        request->next = NULL;
    }
    return request;
}

//  NULL: a sample's.
static reader_file_t *
s_file (const reader_t *self, const reader_request_t *request)
{
    return request->kind == READER_RANGE? &self->files [request->file]: NULL;
}

//  It is in flight from now on.
static void
s_fly (reader_t *self, reader_request_t *request)
{
    self->in_flight++;
    request->in_flight = self->in_flight;
    request->progress.began_ns = clock_now_ns ();
}

reader_request_t *
reader_begin (reader_t *self)
{
    reader_request_t *request = s_first (&self->waiting);
    if (request)
        s_fly (self, request);
    return request;
}

void
reader_finish (reader_t *self, reader_request_t *request)
{
    assert (self->in_flight > 0);
    self->in_flight--;
    request->wait_ns = clock_now_ns () - request->progress.began_ns;
    if (!self->backend)
        reader_step_keep (request, s_file (self, request));
    s_append (&self->done, request);
}


//  -- operations

//  Looks for it on the local disk.  True: that is under way.
static bool
s_look (reader_t *self, reader_request_t *request)
{
    reader_look_t *look = &request->progress.look;
    look->user = request;
    if (!self->has_ring)
        reader_looks_wait (look);
    else
    if (reader_looks_begin (self->looks, look)) {
        self->in_flight--;
        return true;
    }
    return false;
}

//  True: carry out the request's first operation; false: it is done already, or is being looked for.
static bool
s_start (reader_t *self, reader_request_t *request)
{
    reader_file_t *file = s_file (self, request);
    bool goes_on = reader_step_begin (request, file);
    if (goes_on && request->progress.step == READER_LOOK) {
        if (s_look (self, request))
            return false;
        goes_on = reader_step_looked (request, file);
    }
    if (!goes_on)
        reader_finish (self, request);
    return goes_on;
}

//  What was looked for is done, or waits until it may be read.
static void
s_take_looks (reader_t *self)
{
    reader_look_t *look;
    while ((look = reader_looks_take (self->looks))) {
        reader_request_t *request = look->user;
        if (!reader_step_looked (request, s_file (self, request))) {
            self->in_flight++;
            reader_finish (self, request);
        }
        else
        if (self->is_cancelled) {
            request->rc = -ECANCELED;
            s_append (&self->done, request);
        }
        else
            s_append (&self->missed, request);
    }
}

//  True: carry out the next one.  The ring is told if a registered file was replaced.
static bool
s_advance (reader_t *self, reader_request_t *request, int result)
{
    reader_file_t *file = s_file (self, request);
    bool goes_on = reader_step_advance (request, file, result);
    if (request->progress.is_replaced && file && self->has_ring && self->files_registered
    &&  io_uring_register_files_update (&self->ring, request->file, &file->descriptor, 1) < 0)
        self->files_registered = false;
    request->progress.is_replaced = false;
    return goes_on;
}


//  -- system calls, where there is no ring

static int
s_carry_out (reader_t *self, reader_request_t *request)
{
    ssize_t result;
    const reader_file_t *file = s_file (self, request);
    char path [PATH_MAX];
    int flags;
    if (request->progress.step == READER_READ) {
        reader_read_t wanted = reader_step_read (request, file);
        struct iovec part = { .iov_base = wanted.memory, .iov_len = wanted.bytes };
        result = preadv (reader_step_descriptor (request, file), &part, 1, (off_t) wanted.offset);
    }
    else
    if (request->progress.step == READER_OPEN) {
        reader_step_path (request, path);
        result = openat (reader_step_root (request), path, CATALOGUE_OPEN_FLAGS);
    }
    else
    if (request->progress.step == READER_REOPEN) {
        const char *again = reader_step_again (request, file, &flags);
        result = openat (AT_FDCWD, again, flags);
    }
    else
        result = close (request->progress.descriptor);
    return result < 0? -errno: (int) result;
}

//  Carries out all operations from the present one on, and finishes the request.
static void
s_run_plain (reader_t *self, reader_request_t *request)
{
    while (s_advance (self, request, s_carry_out (self, request)))
        ;
    reader_finish (self, request);
}

//  Of a ring that was lost: what is still looked for.  False: nothing is.
static bool
s_wait_for_looks (reader_t *self, int wake_descriptor)
{
    if (reader_looks_under_way (self->looks) == 0)
        return false;
    struct pollfd items [] = { { .fd = reader_looks_descriptor (self->looks), .events = POLLIN },
        { .fd = wake_descriptor, .events = POLLIN } };
    poll (items, 2, -1);                //  passes over a descriptor of -1
    s_take_looks (self);
    return true;
}

//  Reads the waiting requests here, one after the other.
static void
s_wait_plain (reader_t *self, int wake_descriptor)
{
    reader_request_t *request = s_first (&self->missed);
    if (request) {
        s_fly (self, request);
        s_run_plain (self, request);
        return;
    }
    if (s_wait_for_looks (self, wake_descriptor))
        return;
    request = reader_begin (self);
    if (!request) {
        struct pollfd item = { .fd = wake_descriptor, .events = POLLIN };
        if (wake_descriptor >= 0)
            poll (&item, 1, -1);
    }
    else
    if (s_start (self, request))
        s_run_plain (self, request);
}


//  -- io_uring
//
//  happy path:     turn: completions -> reader_step_advance -> the request's next operation, or done; what
//                  waits is begun, up to `depth`; all new operations go to the kernel with one call, which
//                  also waits where it may.
//  failure modes:  no ring at birth: s_open_ring says why.  A submission refused for lack of memory is
//                  retried.  If it is refused for another reason, or for too long, the ring is given up: the
//                  reader waits for the kernel's operations, and does all others by system calls.
//  on close:       at most the polls of the wake descriptor and of looks are in flight, which end with the
//                  ring.
//
//  Every request in flight has at most one operation in the ring, and user data names it; the wake's poll has
//  0, and that of the looks has these.

//  -- ring: life

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

static void
s_close_ring (reader_t *self)
{
    if (self->has_ring)
        io_uring_queue_exit (&self->ring);
    self->has_ring = false;
    free (self->paths);
    self->paths = NULL;
}

//  0, or -errno and there is no ring.
static int
s_open_ring (reader_t *self)
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
        s_close_ring (self);
    return rc;
}

//  Before the first request: all files are there.
static void
s_register_files (reader_t *self)
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

//  -- ring: entries

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
    const reader_file_t *file = s_file (self, request);
    reader_read_t wanted = reader_step_read (request, file);
    bool registered = self->files_registered && file;
    int descriptor = registered? (int) request->file: reader_step_descriptor (request, file);
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
        reader_step_path (request, path);
        io_uring_prep_openat (entry, reader_step_root (request), path, CATALOGUE_OPEN_FLAGS, 0);
    }
    else
    if (request->progress.step == READER_REOPEN) {
        int flags;
        const char *path = reader_step_again (request, s_file (self, request), &flags);
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

static void
s_arm_looks (reader_t *self)
{
    if (self->looks_armed || reader_looks_under_way (self->looks) == 0)
        return;
    struct io_uring_sqe *entry = s_entry (self);
    io_uring_prep_poll_add (entry, reader_looks_descriptor (self->looks), POLLIN);
    io_uring_sqe_set_data (entry, self->looks);
    self->looks_armed = true;
}


//  -- ring: completions

//  The next one: true, and *request_p NULL for the polls'.
static bool
s_completion (reader_t *self, reader_request_t **request_p, int *result_p)
{
    struct io_uring_cqe *completion;
    if (io_uring_peek_cqe (&self->ring, &completion) != 0)
        return false;
    void *data = io_uring_cqe_get_data (completion);
    bool is_look = data == self->looks;
    *request_p = is_look? NULL: data;
    *result_p = completion->res;
    io_uring_cqe_seen (&self->ring, completion);
    if (is_look)
        self->looks_armed = false;
    if (!data) {
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
        if (s_advance (self, request, result))
            s_prepare (self, request);
        else
            reader_finish (self, request);
    }
    s_take_looks (self);
}

static void
s_fill (reader_t *self)
{
    reader_request_t *request;
    while (self->in_flight < self->depth && (request = s_first (&self->missed))) {
        s_fly (self, request);
        s_prepare (self, request);
    }
    size_t done = self->done.count;
    //  One that is done at once was pinned or in the page cache: reads go on between copies.
    while (self->in_flight + self->missed.count < self->depth && reader_looks_have_room (self->looks)
        && self->done.count == done && (request = reader_begin (self)))
        if (s_start (self, request))
            s_prepare (self, request);
}


//  -- ring: the kernel

//  Requests with an operation that the kernel has not taken.
static reader_list_t
s_not_taken (reader_t *self)
{
    reader_list_t list = { 0 };
    struct io_uring_sq *queue = &self->ring.sq;
    for (unsigned int left = io_uring_sq_ready (&self->ring); left > 0; left--) {
        struct io_uring_sqe *entry = &queue->sqes [(queue->sqe_tail - left) & queue->ring_mask];
        reader_request_t *request = (reader_request_t *) (uintptr_t) entry->user_data;
        if (request && entry->user_data != (uintptr_t) self->looks)
            s_append (&list, request);
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
            if (s_advance (self, request, result))
                s_append (&left, request);
            else
                reader_finish (self, request);
        }
    }
    s_close_ring (self);
    snprintf (self->mode, sizeof self->mode, "preadv (io_uring: %s)", strerror (-rc));
    while ((request = s_first (&left)))
        s_run_plain (self, request);
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

//  Takes completed operations and keeps `depth` requests in flight.  Never waits.
static void
s_turn_ring (reader_t *self)
{
    s_reap (self);
    s_fill (self);
    if (io_uring_sq_ready (&self->ring) > 0)
        s_enter (self, false);
}

//  The same until a request is done or the descriptor is readable.
static void
s_wait_ring (reader_t *self, int wake_descriptor)
{
    bool wakes = wake_descriptor >= 0;
    s_reap (self);
    s_fill (self);
    if (wakes)
        s_arm_wake (self, wake_descriptor);
    while (self->has_ring && (self->in_flight > 0 || reader_looks_under_way (self->looks) > 0 || wakes)
        && self->done.count == 0 && !(wakes && self->woken)) {
        s_arm_looks (self);
        s_enter (self, true);
        if (self->has_ring) {
            s_reap (self);
            s_fill (self);
        }
    }
    if (self->has_ring && io_uring_sq_ready (&self->ring) > 0)
        s_enter (self, false);
}


//  -- life

int
reader_new (reader_t **self_p, const reader_options_t *options)
{
    assert (self_p); assert (options);
    assert (options->depth > 0 && options->depth <= READER_DEPTH_MAX);
    *self_p = NULL;
    reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->looks = reader_looks_new ();
    if (!self->looks) {
        free (self);
        return -ENOMEM;
    }
    self->magic = READER_MAGIC;
    self->depth = options->depth;
    self->no_direct = options->no_direct;
    self->wake_descriptor = -1;
    if (options->files_of) {
        self->files = options->files_of->files;
        self->file_count = options->files_of->file_count;
        self->begun = true;
    }
    assert (!options->store == !options->backend);
    if (options->store) {
        self->backend = options->backend;
        snprintf (self->mode, sizeof self->mode, "%s", self->backend->mode ());
        int rc = self->backend->open (&self->backend_state, self, options);
        if (rc == 0)
            *self_p = self;
        else {
            reader_looks_destroy (&self->looks);
            free (self);
        }
        return rc;
    }
    int rc = options->no_ring? -ECANCELED: s_open_ring (self);
    if (rc == 0)
        strcpy (self->mode, "io_uring");
    else
        snprintf (self->mode, sizeof self->mode, "preadv (io_uring: %s)",
            options->no_ring? "not wanted": strerror (-rc));
    *self_p = self;
    return 0;
}

void
reader_destroy (reader_t **self_p)
{
    assert (self_p);
    reader_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == READER_MAGIC);
    assert (reader_pending (self) == 0 && self->done.count == 0);
    s_close_ring (self);
    if (self->backend)
        self->backend->close (self->backend_state);
    reader_looks_destroy (&self->looks);
    //  A reader with another reader's files leaves closing to that one.
    for (size_t file = 0; self->file_limit > 0 && file < self->file_count; file++) {
        if (self->files [file].descriptor >= 0)
            close (self->files [file].descriptor);
        free (self->files [file].path);
    }
    if (self->file_limit > 0)
        free (self->files);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- files

//  What direct reads of the file must be aligned to.
static unsigned int
s_align (int descriptor)
{
    unsigned int align = 0;
#ifdef STATX_DIOALIGN
    struct statx status = { .stx_mask = 0 };
    if (statx (descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0
    &&  status.stx_mask & STATX_DIOALIGN)
        align = status.stx_dio_offset_align > status.stx_dio_mem_align? status.stx_dio_offset_align:
            status.stx_dio_mem_align;
#endif
    bool is_usable = align >= ALIGN_LEAST_BYTES && align < READER_ALIGN_BYTES
        && (align & (align - 1)) == 0;
    return is_usable? align: READER_ALIGN_BYTES;
}

static int
s_open (const char *path, int flags)
{
    int descriptor;
    do
        descriptor = open (path, O_RDONLY | O_CLOEXEC | flags);
    while (descriptor < 0 && errno == EINTR);
    return descriptor < 0? -errno: descriptor;
}

//  Room for one file more; NULL: no memory.
static reader_file_t *
s_new_file (reader_t *self)
{
    if (self->file_count == self->file_limit) {
        size_t limit = self->file_limit? self->file_limit * 2: 16;
        reader_file_t *files = realloc (self->files, limit * sizeof *files);
        if (!files)
            return NULL;
        self->files = files;
        self->file_limit = limit;
    }
    return &self->files [self->file_count];
}

int
reader_add_object (reader_t *self, const char *url, const char *version, uint32_t *file_p)
{
    assert (self && self->magic == READER_MAGIC); assert (self->backend && !self->begun);
    assert (url); assert (version && strlen (version) < TRANSFER_VERSION_BYTES);
    reader_file_t *file = s_new_file (self);
    if (!file)
        return -ENOMEM;
    *file = (reader_file_t) { .descriptor = -1, .path = strdup (url) };
    if (!file->path)
        return -ENOMEM;
    atomic_init (&file->direct, true);          //  no page cache is passed through
    atomic_init (&file->align, READER_ALIGN_BYTES);
    strcpy (file->version, version);
    *file_p = (uint32_t) self->file_count++;
    return 0;
}

void
reader_keep_object (reader_t *self, uint32_t file, const reader_blocks_t *blocks)
{
    assert (self && self->magic == READER_MAGIC); assert (file < self->file_count);
    self->files [file].blocks = *blocks;
}

int
reader_add (reader_t *self, const char *path, uint32_t *file_p)
{
    assert (self && self->magic == READER_MAGIC);
    assert (path); assert (file_p); assert (!self->begun && !self->backend);
    reader_file_t *file = s_new_file (self);
    if (!file)
        return -ENOMEM;
    bool direct = !self->no_direct;
    int descriptor = direct? s_open (path, O_DIRECT): -EINVAL;
    if (descriptor == -EINVAL) {
        direct = false;
        descriptor = s_open (path, 0);
        //  Ranges come in no order, and each is read as a whole: read-ahead would be useless.
        if (descriptor >= 0)
            posix_fadvise (descriptor, 0, 0, POSIX_FADV_RANDOM);
    }
    if (descriptor < 0)
        return descriptor;
    struct stat status;
    int rc = fstat (descriptor, &status)? -errno: 0;
    file->blocks = (reader_blocks_t) { .data = NULL };
    file->path = rc? NULL: strdup (path);
    if (!file->path) {
        close (descriptor);
        return rc? rc: -ENOMEM;
    }
    file->bytes = (uint64_t) status.st_size;
    file->inode = status.st_ino;
    file->descriptor = descriptor;
    atomic_init (&file->direct, direct);
    atomic_init (&file->align, s_align (descriptor));
    *file_p = (uint32_t) self->file_count++;
    return 0;
}


//  -- requests

static void
s_check_range (const reader_t *self, const reader_request_t *request)
{
    assert (request->file < self->file_count);
    assert (request->bytes > 0);
    assert (request->memory);
    assert ((uintptr_t) request->memory % READER_ALIGN_BYTES == 0);
}

void
reader_submit (reader_t *self, reader_request_t *request)
{
    assert (self && self->magic == READER_MAGIC);
    assert (request);
    if (request->kind == READER_RANGE)
        s_check_range (self, request);
    else
        assert (request->catalogue && request->buffer);
    if (!self->begun) {
        self->begun = true;
        if (self->has_ring)
            s_register_files (self);
    }
    request->rc = 0;
    request->skip = 0;
    request->read_bytes = 0;
    request->wait_ns = 0;
    request->cached_bytes = request->cached_ns = 0;
    request->peer_bytes = request->peer_ns = 0;
    request->pinned_bytes = 0;
    request->gets = request->slow_gets = 0;
    request->in_flight = 0;
    self->is_cancelled = false;
    request->progress = (reader_progress_t) { .descriptor = -1 };
    s_append (&self->waiting, request);
}

void
reader_wait (reader_t *self, int wake_descriptor)
{
    assert (self && self->magic == READER_MAGIC);
    if (self->done.count > 0)
        return;
    if (self->backend)
        self->backend->wait (self->backend_state, wake_descriptor);
    else
    if (self->has_ring)
        s_wait_ring (self, wake_descriptor);
    else
        s_wait_plain (self, wake_descriptor);
}

reader_request_t *
reader_take (reader_t *self)
{
    assert (self && self->magic == READER_MAGIC);
    //  Here too, so that a caller busy with what was read keeps the disk busy, and times stay true.
    if (self->backend)
        self->backend->turn (self->backend_state);
    if (self->has_ring)
        s_turn_ring (self);
    return s_first (&self->done);
}

void
reader_cancel (reader_t *self)
{
    reader_request_t *request;
    self->is_cancelled = true;
    while ((request = s_first (&self->waiting)) || (request = s_first (&self->missed))) {
        request->rc = -ECANCELED;
        s_append (&self->done, request);
    }
    if (self->backend)
        self->backend->cancel (self->backend_state);
}

bool
reader_is_direct (const reader_t *self, uint32_t file)
{
    return atomic_load (&reader_file (self, file)->direct);
}

size_t
reader_pending (const reader_t *self)
{
    bool has_own = !self->backend;      //  what a back end looks for is in flight
    return self->in_flight + self->waiting.count + self->missed.count
        + (has_own? reader_looks_under_way (self->looks): 0);
}

void
reader_set_depth (reader_t *self, uint32_t depth)
{
    assert (depth > 0 && depth <= READER_DEPTH_MAX);
    self->depth = depth;
}

const char *
reader_mode (const reader_t *self)
{
    return self->mode;
}

bool
reader_is_concurrent (const reader_t *self)
{
    return self->has_ring || self->backend;
}

uint32_t
reader_local_depth (const reader_t *self)
{
    return reader_looks_depth (self->looks);
}


//  -- for back ends

uint32_t
reader_in_flight (const reader_t *self)
{
    return self->in_flight;
}

uint32_t
reader_depth (const reader_t *self)
{
    return self->depth;
}

bool
reader_has_done (const reader_t *self)
{
    return self->done.count > 0;
}

reader_looks_t *
reader_looks (const reader_t *self)
{
    return self->looks;
}

reader_file_t *
reader_file (const reader_t *self, uint32_t file)
{
    assert (file < self->file_count);
    return &self->files [file];
}

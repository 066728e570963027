//  The reader's life, its files, and its two lists; reader_state.h lists the other files.

#include "reader_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "clock.h"

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
    self->magic = READER_MAGIC;
    self->depth = options->depth;
    self->no_direct = options->no_direct;
    self->wake_descriptor = -1;
    if (options->files_of) {
        self->files = options->files_of->files;
        self->file_count = options->files_of->file_count;
        self->begun = true;
    }
    if (options->store) {
        int rc = reader_store_open (self, options);
        if (rc == 0)
            *self_p = self;
        else
            free (self);
        return rc;
    }
    int rc = options->no_ring? -ECANCELED: reader_ring_open (self);
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
    assert (self->in_flight == 0 && self->waiting.count == 0 && self->done.count == 0);
    reader_ring_close (self);
    reader_store_close (self);
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
    assert (self && self->magic == READER_MAGIC); assert (self->transfers && !self->begun);
    assert (url); assert (version && strlen (version) < TRANSFER_VERSION_BYTES);
    reader_file_t *file = s_new_file (self);
    if (!file)
        return -ENOMEM;
    *file = (reader_file_t) { .descriptor = -1, .path = strdup (url) };
    if (!file->path)
        return -ENOMEM;
    atomic_init (&file->direct, true);          //  no page cache is passed through
    strcpy (file->version, version);
    *file_p = (uint32_t) self->file_count++;
    return 0;
}

void
reader_keep_object (reader_t *self, uint32_t file, const reader_blocks_t *blocks)
{
    assert (self && self->magic == READER_MAGIC); assert (self->transfers && file < self->file_count);
    self->files [file].blocks = *blocks;
}

int
reader_add (reader_t *self, const char *path, uint32_t *file_p)
{
    assert (self && self->magic == READER_MAGIC);
    assert (path); assert (file_p); assert (!self->begun && !self->transfers);
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
    file->path = rc? NULL: strdup (path);
    if (!file->path) {
        close (descriptor);
        return rc? rc: -ENOMEM;
    }
    file->bytes = (uint64_t) status.st_size;
    file->inode = status.st_ino;
    file->descriptor = descriptor;
    atomic_init (&file->direct, direct);
    *file_p = (uint32_t) self->file_count++;
    return 0;
}

bool
reader_is_direct (const reader_t *self, uint32_t file)
{
    assert (file < self->file_count);
    return atomic_load (&self->files [file].direct);
}

size_t
reader_span (uint64_t offset, size_t bytes)
{
    enum { BLOCK = READER_ALIGN_BYTES };
    return (size_t) ((offset + bytes + BLOCK - 1) / BLOCK * BLOCK - offset / BLOCK * BLOCK);
}


//  -- requests

void
reader_append (reader_list_t *list, reader_request_t *request)
{
    request->next = NULL;
    if (list->first)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

reader_request_t *
reader_first (reader_list_t *list)
{
    reader_request_t *request = list->first;
    if (request) {
        list->first = request->next;
        list->count--;
        request->next = NULL;
    }
    return request;
}

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
            reader_ring_register (self);
    }
    request->rc = 0;
    request->skip = 0;
    request->read_bytes = 0;
    request->wait_ns = 0;
    request->cached_bytes = request->cached_ns = 0;
    request->peer_bytes = request->peer_ns = 0;
    request->gets = request->slow_gets = 0;
    request->in_flight = 0;
    request->progress = (reader_progress_t) { .descriptor = -1 };
    reader_append (&self->waiting, request);
}

bool
reader_start (reader_t *self, reader_request_t *request)
{
    self->in_flight++;
    request->in_flight = self->in_flight;
    request->progress.began_ns = clock_now_ns ();
    if (reader_begin (self, request))
        return true;
    reader_finish (self, request);
    return false;
}

void
reader_finish (reader_t *self, reader_request_t *request)
{
    assert (self->in_flight > 0);
    self->in_flight--;
    request->wait_ns = clock_now_ns () - request->progress.began_ns;
    reader_append (&self->done, request);
}

//  Reads the waiting requests here, one after the other.
static void
s_plain_wait (reader_t *self, int wake_descriptor)
{
    reader_request_t *request = reader_first (&self->waiting);
    if (!request) {
        struct pollfd item = { .fd = wake_descriptor, .events = POLLIN };
        if (wake_descriptor >= 0)
            poll (&item, 1, -1);
    }
    else
    if (reader_start (self, request))
        reader_plain_run (self, request);
}

void
reader_wait (reader_t *self, int wake_descriptor)
{
    assert (self && self->magic == READER_MAGIC);
    if (self->done.count > 0)
        return;
    if (self->transfers)
        reader_store_wait (self, wake_descriptor);
    else
    if (self->has_ring)
        reader_ring_wait (self, wake_descriptor);
    else
        s_plain_wait (self, wake_descriptor);
}

reader_request_t *
reader_take (reader_t *self)
{
    assert (self && self->magic == READER_MAGIC);
    //  Here too, so that a caller busy with what was read keeps the disk busy, and times stay true.
    if (self->transfers)
        reader_store_turn (self);
    if (self->has_ring)
        reader_ring_turn (self);
    return reader_first (&self->done);
}

void
reader_cancel (reader_t *self)
{
    reader_request_t *request;
    while ((request = reader_first (&self->waiting))) {
        request->rc = -ECANCELED;
        reader_append (&self->done, request);
    }
    if (self->transfers)
        reader_store_cancel (self);
}

size_t
reader_pending (const reader_t *self)
{
    return self->in_flight + self->waiting.count;
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
    return self->has_ring || self->transfers;
}

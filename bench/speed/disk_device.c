#include "disk_device.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"

enum { DEPTH_MAX = 256 };

struct disk_device {
    int *files;                         //  by volume
    uint32_t file_count;
    bool is_direct, has_ring, ring_live;
    struct io_uring ring;
};

uint64_t
disk_random_below (uint64_t *state, uint64_t bound)
{
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (mixed ^ (mixed >> 31)) % bound;
}

//  ---- ranges

static void
s_add (disk_ranges_t *self, uint32_t volume, uint64_t begin, uint64_t end)
{
    begin = begin / PACK_BLOCK_BYTES * PACK_BLOCK_BYTES;
    end = (end + PACK_BLOCK_BYTES - 1) / PACK_BLOCK_BYTES * PACK_BLOCK_BYTES;
    disk_range_t range = { .offset = begin, .volume = volume, .bytes = (uint32_t) (end - begin) };
    self->ranges [self->count++] = range;
    if (range.bytes > self->bytes_max)
        self->bytes_max = range.bytes;
}

static disk_ranges_t
s_room (uint64_t count)
{
    disk_ranges_t self = { .ranges = calloc (count, sizeof *self.ranges) };
    if (!self.ranges) {
        disk_complain ("no memory for a list of %llu ranges", (unsigned long long) count);
        abort ();
    }
    return self;
}

disk_ranges_t
disk_ranges_sequential (const disk_data_t *data, uint32_t request_bytes)
{
    uint32_t volumes = pack_volumes (data->pack);
    disk_ranges_t self = s_room (data->volume_bytes / request_bytes + volumes);
    for (uint32_t volume = 0; volume < volumes; volume++) {
        uint64_t bytes = pack_volume_bytes (data->pack, volume);
        for (uint64_t offset = 0; offset < bytes; offset += request_bytes)
            s_add (&self, volume, offset,
                offset + (bytes - offset < request_bytes? bytes - offset: request_bytes));
    }
    return self;
}

disk_ranges_t
disk_ranges_pieces (const disk_data_t *data, uint32_t piece, uint64_t seed)
{
    const pack_t *pack = data->pack;
    disk_ranges_t self = s_room (pack_samples (pack) / piece + pack_volumes (pack));
    for (uint32_t volume = 0; volume < pack_volumes (pack); volume++) {
        uint32_t end = pack_volume_first (pack, volume + 1);
        for (uint32_t first = pack_volume_first (pack, volume); first < end; first += piece) {
            pack_range_t range = pack_piece (pack, first, end - first < piece? end - first: piece);
            s_add (&self, volume, range.offset, range.offset + range.bytes);
        }
    }
    for (size_t place = self.count; place-- > 1;) {
        size_t other = disk_random_below (&seed, place + 1);
        disk_range_t range = self.ranges [place];
        self.ranges [place] = self.ranges [other];
        self.ranges [other] = range;
    }
    return self;
}

//  ---- the device

static int
s_open_volume (disk_device_t *self, const char *path)
{
    int fd = self->is_direct? open (path, O_RDONLY | O_CLOEXEC | O_DIRECT): -1;
    if (fd < 0) {
        self->is_direct = false;
        fd = open (path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        disk_complain ("%s: %s", path, strerror (errno));
    return fd;
}

disk_device_t *
disk_device_new (const disk_data_t *data, const disk_options_t *options)
{
    disk_device_t *self = calloc (1, sizeof *self);
    assert (self);
    self->is_direct = !options->no_direct;
    self->files = calloc (pack_volumes (data->pack), sizeof *self->files);
    assert (self->files);
    self->ring_live = !options->no_ring && io_uring_queue_init (DEPTH_MAX, &self->ring, 0) == 0;
    self->has_ring = self->ring_live;
    for (; self->file_count < pack_volumes (data->pack); self->file_count++) {
        char path [DISK_PATH_BYTES + 64];
        pack_volume_path (data->pack, self->file_count, path, sizeof path);
        self->files [self->file_count] = s_open_volume (self, path);
        if (self->files [self->file_count] < 0) {
            disk_device_destroy (&self);
            break;
        }
    }
    return self;
}

void
disk_device_destroy (disk_device_t **self_p)
{
    disk_device_t *self = *self_p;
    if (!self)
        return;
    if (self->ring_live)
        io_uring_queue_exit (&self->ring);
    while (self->file_count-- > 0)
        close (self->files [self->file_count]);
    free (self->files);
    free (self);
    *self_p = NULL;
}

bool
disk_device_is_direct (const disk_device_t *self)
{
    return self->is_direct;
}

bool
disk_device_has_ring (const disk_device_t *self)
{
    return self->has_ring;
}

//  ---- reading: what both ways share

typedef struct {
    disk_device_t *device;
    const disk_ranges_t *ranges;
    double deadline;
    uint8_t *memory;                    //  bytes_max for each read in flight
    atomic_size_t next;
    atomic_uint_fast64_t bytes;
    atomic_int error;                   //  -errno; the first one
} work_t;

//  The next range; NULL: none, or no time.
static const disk_range_t *
s_next (work_t *self)
{
    if (atomic_load (&self->error) || clock_seconds (CLOCK_MONOTONIC) >= self->deadline)
        return NULL;
    size_t place = atomic_fetch_add (&self->next, 1);
    return place < self->ranges->count? &self->ranges->ranges [place]: NULL;
}

//  What read or the ring gave for it.
static void
s_done (work_t *self, const disk_range_t *range, ssize_t got)
{
    if (got == (ssize_t) range->bytes)
        atomic_fetch_add (&self->bytes, range->bytes);
    else
        atomic_store (&self->error, got < 0? (int) got: -ESTALE);
}

//  ---- by the ring

static bool
s_submit (work_t *self, const disk_range_t **slots, size_t slot)
{
    slots [slot] = s_next (self);
    if (!slots [slot])
        return false;
    struct io_uring_sqe *sqe = io_uring_get_sqe (&self->device->ring);
    assert (sqe);
    io_uring_prep_read (sqe, self->device->files [slots [slot]->volume],
        self->memory + slot * self->ranges->bytes_max, slots [slot]->bytes, slots [slot]->offset);
    io_uring_sqe_set_data64 (sqe, slot);
    return true;
}

static void
s_read_by_ring (work_t *self, uint32_t depth)
{
    const disk_range_t *slots [DEPTH_MAX];
    size_t in_flight = 0;
    for (size_t slot = 0; slot < depth; slot++)
        in_flight += s_submit (self, slots, slot);
    while (in_flight > 0) {
        int rc = io_uring_submit_and_wait (&self->device->ring, 1);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) {
            atomic_store (&self->error, rc);
            return;                     //  the ring is of no use any more, nor is the run
        }
        struct io_uring_cqe *cqe;
        while (io_uring_peek_cqe (&self->device->ring, &cqe) == 0) {
            size_t slot = cqe->user_data;
            s_done (self, slots [slot], cqe->res);
            io_uring_cqe_seen (&self->device->ring, cqe);
            in_flight -= !s_submit (self, slots, slot);
        }
    }
}

//  ---- by threads

typedef struct {
    work_t *work;
    uint8_t *memory;
    pthread_t thread;
} reader_thread_t;

static void *
s_run (void *argument)
{
    const reader_thread_t *self = argument;
    for (const disk_range_t *range; (range = s_next (self->work));) {
        ssize_t got;
        do
            got = pread (self->work->device->files [range->volume], self->memory, range->bytes,
            (off_t) range->offset);
        while (got < 0 && errno == EINTR);
        s_done (self->work, range, got < 0? -errno: got);
    }
    return NULL;
}

static void
s_read_by_threads (work_t *self, uint32_t depth)
{
    reader_thread_t threads [DEPTH_MAX];
    uint32_t count = 0;
    for (; count < depth; count++) {
        threads [count] = (reader_thread_t) { .work = self,
            .memory = self->memory + (size_t) count * self->ranges->bytes_max };
        int rc = pthread_create (&threads [count].thread, NULL, s_run, &threads [count]);
        if (rc) {
            atomic_store (&self->error, -rc);
            break;
        }
    }
    while (count-- > 0)
        pthread_join (threads [count].thread, NULL);
}

bool
disk_device_read (disk_device_t *self, const disk_ranges_t *ranges, uint32_t depth, double seconds,
    disk_result_t *result)
{
    assert (depth > 0);
    assert (depth <= DEPTH_MAX);
    work_t work = { .device = self, .ranges = ranges };
    atomic_init (&work.next, 0);
    atomic_init (&work.bytes, 0);
    atomic_init (&work.error, 0);
    work.memory = aligned_alloc (PACK_BLOCK_BYTES, (size_t) ranges->bytes_max * depth);
    if (!work.memory) {
        disk_complain ("no memory for %u reads of %u bytes", depth, ranges->bytes_max);
        return false;
    }
    memset (work.memory, 1, (size_t) ranges->bytes_max * depth);        //  there before the clock runs
    double begin = clock_seconds (CLOCK_MONOTONIC);
    work.deadline = begin + seconds;
    if (self->has_ring)
        s_read_by_ring (&work, depth);
    else
        s_read_by_threads (&work, depth);
    *result = (disk_result_t) { .bytes = atomic_load (&work.bytes),
        .seconds = clock_seconds (CLOCK_MONOTONIC) - begin };
    int error = atomic_load (&work.error);
    if (error)
        disk_complain ("reading a volume: %s", strerror (-error));
    free (work.memory);
    return !error;
}

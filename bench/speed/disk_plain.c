#include "disk_plain.h"
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "clock.h"
#include "disk_limit.h"
#include "reading.h"

enum { FILES_AT_ONCE = 64, RING_BYTES = 8 << 20, OWN_BYTES = 16 << 20 };

typedef struct {
    reader_request_t request;
    catalogue_buffer_t buffer;
} file_t;

typedef struct {
    const disk_data_t *data;
    reading_t *reading;
    uint32_t *ids, count;
    uint32_t next, out, delivered;
    file_t files [FILES_AT_ONCE];
    uint8_t *ring;
    size_t ring_at, ring_bytes;
    uint64_t bytes;
    bool failed;
} run_t;

static void
s_shuffle (uint32_t *ids, uint32_t count, uint64_t seed)
{
    for (uint32_t place = count; place-- > 1;) {
        uint32_t other = (uint32_t) disk_random_below (&seed, place + 1), id = ids [place];
        ids [place] = ids [other];
        ids [other] = id;
    }
}

static void
s_submit (run_t *self, file_t *file)
{
    file->request = (reader_request_t) {
        .kind = READER_FILE, .user = file, .catalogue = self->data->plain, .id = self->ids [self->next++],
        .buffer = &file->buffer
    };
    self->out++;
    reading_submit (self->reading, &file->request);
}

static void
s_deliver (run_t *self, const file_t *file)
{
    if (file->request.rc) {
        if (!self->failed)
            disk_complain ("file %u: %s", file->request.id, strerror (-file->request.rc));
        self->failed = true;
        return;
    }
    if (self->ring_at + file->buffer.size > self->ring_bytes)
        self->ring_at = 0;
    if (file->buffer.size)
        memcpy (self->ring + self->ring_at, file->buffer.bytes, file->buffer.size);
    self->ring_at += file->buffer.size;
    self->bytes += file->buffer.size;
    self->delivered++;
}

//  Until all are there, or the time is over; what is under way then is waited for, and counts.
static void
s_read (run_t *self, double deadline)
{
    for (size_t file = 0; file < FILES_AT_ONCE && self->next < self->count; file++)
        s_submit (self, &self->files [file]);
    while (self->out > 0) {
        reader_request_t *request = reading_done (self->reading);
        if (!request) {
            struct pollfd wait = { .fd = reading_descriptor (self->reading), .events = POLLIN };
            poll (&wait, 1, 1000);
            continue;
        }
        self->out--;
        s_deliver (self, request->user);
        if (self->next < self->count && !self->failed && clock_seconds (CLOCK_MONOTONIC) < deadline)
            s_submit (self, request->user);
    }
}

static bool
s_open (run_t *self, const disk_options_t *options, uint64_t order_seed, uint64_t seed)
{
    uint32_t samples = catalogue_samples (self->data->plain);
    self->ids = malloc (samples * sizeof *self->ids);
    self->ring_bytes = self->data->sample_bytes_max > RING_BYTES? self->data->sample_bytes_max: RING_BYTES;
    self->ring = malloc (self->ring_bytes);
    assert (self->ids && self->ring);
    memset (self->ring, 1, self->ring_bytes);
    for (uint32_t id = 0; id < samples; id++)
        self->ids [id] = id;
    s_shuffle (self->ids, samples, order_seed);
    s_shuffle (self->ids, self->count, seed);
    reading_options_t reading = {
        .requests_max = 2 * FILES_AT_ONCE, .depth = options->depth? options->depth: FILES_AT_ONCE,
        .no_ring = options->no_ring
    };
    const char *path;
    int rc = reading_new (&self->reading, &reading, &path);
    if (rc)
        disk_complain ("the reading thread: %s", strerror (-rc));
    return rc == 0;
}

bool
disk_plain_read (const disk_data_t *data, const disk_options_t *options, uint64_t order_seed, uint64_t seed,
    uint32_t *count_p, disk_result_t *result)
{
    run_t *self = calloc (1, sizeof *self);
    assert (self);
    self->data = data;
    self->count = *count_p;
    bool fine = s_open (self, options, order_seed, seed);
    if (fine) {
        double begin = clock_seconds (CLOCK_MONOTONIC);
        s_read (self, begin + options->seconds);
        *result = (disk_result_t) { .bytes = self->bytes,
            .seconds = clock_seconds (CLOCK_MONOTONIC) - begin };
        *count_p = self->next;
        fine = !self->failed;
        reading_stop (self->reading);
    }
    reading_destroy (&self->reading);
    for (size_t file = 0; file < FILES_AT_ONCE; file++)
        free (self->files [file].buffer.bytes);
    free (self->ids);
    free (self->ring);
    free (self);
    return fine;
}

//  ---- with little memory

typedef struct {
    disk_result_t result;
    bool fine;
} answer_t;

static answer_t
s_read_twice (const disk_data_t *data, const disk_options_t *options, uint64_t seed)
{
    uint32_t count = catalogue_samples (data->plain);
    answer_t answer = { .fine = false };
    answer.fine = disk_plain_read (data, options, seed, seed + 1, &count, &answer.result)
        && disk_plain_read (data, options, seed, seed + 2, &count, &answer.result);
    return answer;
}

bool
disk_plain_read_limited (const disk_data_t *data, const disk_options_t *options, uint64_t limit_bytes,
    uint64_t seed, disk_result_t *result, const char **why_p)
{
    int ends [2];
    uint64_t own_bytes = OWN_BYTES + 2 * (FILES_AT_ONCE + 1) * (uint64_t) data->sample_bytes_max;
    disk_limit_t *limit = disk_limit_new (limit_bytes + own_bytes, why_p);
    if (!limit)
        return false;
    answer_t answer = { .fine = false };
    *why_p = "the process that reads under the limit did not live to its end: the limit is too low";
    pid_t child = pipe (ends)? -1: fork ();
    if (child == 0) {
        if (disk_limit_enter (limit))
            answer = s_read_twice (data, options, seed);
        _exit (write (ends [1], &answer, sizeof answer) != sizeof answer);
    }
    if (child > 0) {
        close (ends [1]);
        if (read (ends [0], &answer, sizeof answer) != sizeof answer)
            answer.fine = false;
        close (ends [0]);
        waitpid (child, NULL, 0);
    }
    disk_limit_destroy (&limit);
    *result = answer.result;
    return answer.fine;
}

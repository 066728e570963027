#include "disk_packed.h"
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "raw_pool.h"
#include "raw_store.h"
#include "reading.h"

//  As the server has it: an eighth of the memory for ranges on their way; of the rest three quarters for what
//  is resident; the piece chosen for so many reads at once; a look at the model after so many reads.
enum {
    BUFFER_PART = 8, RESIDENT_PARTS = 3, PARTS = 4, READS_TOGETHER = 16, DEPTH_MAX = 128,
        OBSERVED_A_TURN = 32,
    WINDOW_MAX = 1024, WINDOW_MIN = 16, REQUESTS_MAX = 512, RING_BYTES = 32 << 20, TRIES = 64
};
#define BUFFER_BYTES_MAX ((size_t) 64 << 20)

//  A read on its way.
typedef struct range {
    reader_request_t request;
    raw_request_t *raw;
    struct range *next_free;
} range_t;

typedef struct {
    //  set at birth
    const disk_data_t *data;
    const disk_options_t *options;
    cost_t *cost;
    uint32_t samples, window_max;
    size_t read_bytes_max;
    const char **paths;                 //  of the volumes
    uint32_t *breaks;
    //  owner only
    uint64_t random;
    raw_pool_t *pool;
    raw_store_t *store;
    reading_t *reading;
    bool *is_drawn, *is_open;           //  by id
    uint32_t open;                      //  drawn or not
    uint32_t cursor;                    //  all before it are drawn
    range_t *ranges, *free_range;
    uint32_t out;                       //  ranges not free
    raw_sample_t *window [WINDOW_MAX];  //  drawn and not delivered, a ring
    uint64_t drawn, delivered;
    uint8_t *ring;
    size_t ring_at, ring_bytes;
    uint64_t bytes, read_bytes;         //  of samples that have arrived; from the disk
    uint32_t observed, depth;
    bool failed;
} run_t;

//  ---- what the pool asks

static size_t
s_sample_bytes (void *context, uint32_t id)
{
    const run_t *self = context;
    return pack_sample_bytes (self->data->pack, id);
}

//  One job, 0, of one epoch.
static raw_need_t
s_need (void *context, uint32_t job, uint32_t id)
{
    (void) job;
    const run_t *self = context;
    return self->is_drawn [id]? RAW_UNNEEDED: RAW_NEEDED;
}

static void
s_set_open (void *context, uint32_t job, uint32_t id, bool open)
{
    (void) job;
    run_t *self = context;
    self->open += open != self->is_open [id]? open? 1: (uint32_t) -1: 0;
    self->is_open [id] = open;
}

static uint64_t
s_unopened (void *context, uint32_t job)
{
    (void) job;
    const run_t *self = context;
    return self->samples - self->open;
}

static bool
s_goes_on (void *context, uint32_t job)
{
    (void) context;
    (void) job;
    return false;
}

static uint64_t
s_random_below (void *random, uint64_t bound)
{
    return disk_random_below (random, bound);
}

static uint32_t
s_position (void *context, uint32_t source, uint32_t id)
{
    (void) source;
    const run_t *self = context;
    return pack_position (self->data->pack, id);
}

//  ---- in the reading thread

static void
s_spread (void *context, reader_request_t *request)
{
    const run_t *self = context;
    raw_request_t *raw = ((range_t *) request->user)->raw;
    for (uint32_t index = 0; index < raw->sample_count; index++) {
        const raw_sample_t *sample = raw->samples [index];
        pack_range_t where = pack_sample (self->data->pack, sample->id);
        size_t field;
        if (where.bytes > 0)
            memcpy (sample->memory, request->memory + request->skip + (where.offset - request->offset),
                where.bytes);
        if (!pack_check (self->data->pack, sample->id, sample->memory, &field))
            raw->damaged |= UINT64_C (1) << index;
    }
}

//  ---- reads

//  Cut where the reader's buffers have no room for more; what lies between the samples is read too.
static void
s_request (run_t *self, const raw_read_t *read)
{
    raw_sample_t *samples [RAW_PIECE_MAX];
    uint32_t count = 0;
    size_t reach = 0;
    for (uint32_t index = 0; index < read->count; index++) {
        uint32_t id = pack_order (self->data->pack) [read->first + index];
        reach += pack_sample_bytes (self->data->pack, id);
        if (!(read->keep >> index & 1))
            continue;
        if (count > 0 && reach > self->read_bytes_max) {
            raw_store_request (self->store, 0, 0, samples, count);
            count = 0;
        }
        raw_sample_t *sample = raw_store_hold (self->store, 0, id, pack_sample_bytes (self->data->pack, id));
        if (count == 0)
            reach = sample->bytes;
        samples [count++] = sample;
    }
    if (count > 0)
        raw_store_request (self->store, 0, 0, samples, count);
}

static void
s_schedule (run_t *self)
{
    raw_read_t read;
    while (raw_pool_next (self->pool, &read))
        s_request (self, &read);
}

static void
s_submit (run_t *self)
{
    raw_request_t *raw;
    while (self->free_range && (raw = raw_store_next (self->store))) {
        range_t *range = self->free_range;
        self->free_range = range->next_free;
        self->out++;
        pack_range_t where = pack_piece (self->data->pack, raw->first, raw->count);
        range->raw = raw;
        range->request = (reader_request_t) {
            .kind = READER_RANGE, .user = range, .file = where.volume, .offset = where.offset,
            .bytes = where.bytes
        };
        reading_submit (self->reading, &range->request);
    }
}

static void
s_learn (run_t *self, const reader_request_t *request)
{
    cost_observe (self->cost, request->read_bytes, request->wait_ns, request->in_flight);
    if (++self->observed % OBSERVED_A_TURN)
        return;
    self->depth = cost_depth (self->cost, request->read_bytes, DEPTH_MAX);
    reading_set_depth (self->reading, self->depth);
}

static void
s_arrived (void *context, raw_sample_t *sample)
{
    run_t *self = context;
    self->bytes += sample->bytes;
    if (sample->state == RAW_SAMPLE_BAD && !self->failed) {
        disk_complain ("sample %u of the pack: %s", sample->id, strerror (-sample->rc));
        self->failed = true;
    }
}

static bool
s_collect (run_t *self)
{
    bool any = false;
    for (reader_request_t *request; (request = reading_done (self->reading)); any = true) {
        range_t *range = request->user;
        if (request->rc == 0)
            s_learn (self, request);
        range->raw->rc = request->rc;
        range->raw->read_bytes = request->read_bytes;
        self->read_bytes += request->read_bytes;
        raw_store_done (self->store, range->raw, s_arrived, self);
        range->next_free = self->free_range;
        self->free_range = range;
        self->out--;
    }
    return any;
}

//  ---- draws and deliveries

//  Uniform among what is resident.  All of it is needed, unless all samples fit: then they stay, and at the
//  end of the pass few are.  Nothing resident: what is needed is read by itself.
static uint32_t
s_pick (run_t *self)
{
    uint32_t count = raw_pool_resident_count (self->pool);
    for (int attempt = 0; attempt < TRIES && count > 0; attempt++) {
        uint32_t id = raw_pool_resident_at (self->pool, (uint32_t) disk_random_below (&self->random, count));
        if (!self->is_drawn [id])
            return id;
    }
    while (self->is_drawn [self->cursor])
        self->cursor++;
    return self->cursor;
}

static void
s_draw (run_t *self)
{
    uint32_t id = s_pick (self);
    self->is_drawn [id] = true;
    raw_sample_t *sample;
    if (raw_pool_take (self->pool, id)) {
        sample = raw_store_find (self->store, 0, id);           //  the pool's hold is the window's now
        if (raw_pool_is_resident (self->pool, id))
            raw_store_hold (self->store, 0, id, sample->bytes);
    }
    else {
        sample = raw_store_hold (self->store, 0, id, pack_sample_bytes (self->data->pack, id));
        if (sample->state == RAW_SAMPLE_AWAITED && !sample->request)
            raw_store_request (self->store, 0, 0, &sample, 1);
    }
    assert (sample);
    self->window [self->drawn++ % WINDOW_MAX] = sample;
    s_schedule (self);
}

//  In the order of the draws; what is not there yet is waited for.
static bool
s_deliver (run_t *self)
{
    bool any = false;
    while (self->delivered < self->drawn) {
        raw_sample_t *sample = self->window [self->delivered % WINDOW_MAX];
        if (sample->state == RAW_SAMPLE_AWAITED)
            break;
        if (self->ring_at + sample->bytes > self->ring_bytes)
            self->ring_at = 0;
        if (sample->state == RAW_SAMPLE_READY && sample->bytes)
            memcpy (self->ring + self->ring_at, sample->memory, sample->bytes);
        self->ring_at += sample->bytes;
        self->delivered++;
        raw_store_drop (self->store, sample);
        any = true;
    }
    return any;
}

static void
s_sleep (const run_t *self)
{
    struct pollfd wait = { .fd = reading_descriptor (self->reading), .events = POLLIN };
    poll (&wait, 1, 1000);
}

static void
s_read (run_t *self, double seconds, disk_result_t *result)
{
    double begin = clock_seconds (CLOCK_MONOTONIC), deadline = begin + seconds;
    while (self->delivered < self->samples && !self->failed && clock_seconds (CLOCK_MONOTONIC) < deadline) {
        while (self->drawn < self->samples && self->drawn - self->delivered < self->window_max)
            s_draw (self);
        s_submit (self);
        bool any = s_collect (self);
        if (!s_deliver (self) && !any)
            s_sleep (self);
    }
    *result = (disk_result_t) { .bytes = self->bytes, .seconds = clock_seconds (CLOCK_MONOTONIC) - begin };
}

//  ---- opening and closing

static size_t
s_buffer_bytes (const disk_data_t *data, uint64_t limit_bytes)
{
    size_t least = 2 * reader_span (PACK_BLOCK_BYTES - 1, data->sample_bytes_max),
        part = limit_bytes / BUFFER_PART;
    return part < least? least: part < BUFFER_BYTES_MAX? part: least < BUFFER_BYTES_MAX? BUFFER_BYTES_MAX:
        least;
}

static size_t
s_resident_bytes (const disk_data_t *data, uint64_t limit_bytes)
{
    return (limit_bytes - s_buffer_bytes (data, limit_bytes)) / PARTS * RESIDENT_PARTS;
}

uint64_t
disk_packed_least (const disk_data_t *data)
{
    return 2 * (uint64_t) BUFFER_PART * (data->sample_bytes_max + PACK_BLOCK_BYTES)
        + PARTS * WINDOW_MIN * data->sample_bytes_max;
}

uint32_t
disk_packed_piece (const disk_data_t *data, const disk_options_t *options, const cost_t *cost,
    uint64_t limit_bytes)
{
    if (options->piece)
        return options->piece;
    double sample_bytes = (double) data->bytes / pack_samples (data->pack);
    uint64_t pool_samples = (uint64_t) ((double) s_resident_bytes (data, limit_bytes) / sample_bytes);
    return cost_piece (cost, sample_bytes, READS_TOGETHER, pool_samples, 1, RAW_PIECE_MAX);
}

static bool
s_open_reading (run_t *self, size_t buffer_bytes)
{
    uint32_t volumes = pack_volumes (self->data->pack);
    self->paths = calloc (volumes, sizeof *self->paths);
    self->breaks = calloc (volumes, sizeof *self->breaks);
    assert (self->paths && self->breaks);
    for (uint32_t volume = 0; volume < volumes; volume++) {
        char *path = malloc (DISK_PATH_BYTES + 64);
        assert (path);
        pack_volume_path (self->data->pack, volume, path, DISK_PATH_BYTES + 64);
        self->paths [volume] = path;
        self->breaks [volume] = pack_volume_first (self->data->pack, volume);
    }
    reading_options_t options = {
        .paths = self->paths, .path_count = volumes, .buffer_bytes = buffer_bytes,
        .requests_max = REQUESTS_MAX,
        .depth = self->depth, .no_ring = self->options->no_ring, .no_direct = self->options->no_direct,
        .finish = s_spread,
        .context = self
    };
    const char *path = NULL;
    int rc = reading_new (&self->reading, &options, &path);
    if (rc)
        disk_complain ("%s: %s", path? path: "the reading thread", strerror (-rc));
    return rc == 0;
}

static void
s_open_pool (run_t *self, uint64_t limit_bytes, uint32_t piece)
{
    raw_pool_options_t options = {
        .ops = &raw_stream_ops, .samples = self->samples, .order = pack_order (self->data->pack),
        .breaks = self->breaks,
        .break_count = pack_volumes (self->data->pack), .sample_bytes = s_sample_bytes, .need = s_need,
        .open = s_set_open, .unopened = s_unopened, .goes_on = s_goes_on, .context = self,
        .random_below = s_random_below, .random = &self->random,
        .limit_bytes = s_resident_bytes (self->data, limit_bytes),
        .piece = piece
    };
    self->pool = raw_pool_new (&options);
    raw_pool_join (self->pool, 0);
    self->store = raw_store_new (limit_bytes - s_buffer_bytes (self->data, limit_bytes));
    raw_store_on_position (self->store, s_position, self);
}

static bool
s_open (run_t *self, uint64_t limit_bytes, uint32_t piece)
{
    size_t buffer_bytes = s_buffer_bytes (self->data, limit_bytes);
    size_t window_bytes = limit_bytes - buffer_bytes - s_resident_bytes (self->data, limit_bytes);
    size_t window = window_bytes / (self->data->sample_bytes_max + 1);
    self->window_max = window < WINDOW_MIN? WINDOW_MIN: window < WINDOW_MAX? (uint32_t) window: WINDOW_MAX;
    self->read_bytes_max = buffer_bytes / 2 - PACK_BLOCK_BYTES;
    double piece_bytes = piece * (double) self->data->bytes / self->samples;
    self->depth = self->options->depth? self->options->depth: cost_depth (self->cost, (uint64_t) piece_bytes,
        DEPTH_MAX);
    self->cost->depth_set = self->options->depth;
    self->ring_bytes = self->data->sample_bytes_max > RING_BYTES? self->data->sample_bytes_max: RING_BYTES;
    self->ring = malloc (self->ring_bytes);
    self->ranges = calloc (REQUESTS_MAX, sizeof *self->ranges);
    self->is_drawn = calloc (self->samples, sizeof *self->is_drawn);
    self->is_open = calloc (self->samples, sizeof *self->is_open);
    assert (self->ring && self->ranges && self->is_drawn && self->is_open);
    memset (self->ring, 1, self->ring_bytes);
    for (size_t range = 0; range < REQUESTS_MAX; range++) {
        self->ranges [range].next_free = self->free_range;
        self->free_range = &self->ranges [range];
    }
    if (!s_open_reading (self, buffer_bytes))
        return false;
    s_open_pool (self, limit_bytes, piece);
    return true;
}

//  Waits for reads under way; then nothing is held.
static void
s_drain (run_t *self)
{
    while (self->out > 0)
        if (!s_collect (self))
            s_sleep (self);
    for (; self->delivered < self->drawn; self->delivered++)
        raw_store_drop (self->store, self->window [self->delivered % WINDOW_MAX]);
    for (uint32_t id = 0; id < self->samples; id++)
        if (raw_pool_is_resident (self->pool, id))
            raw_store_drop (self->store, raw_store_find (self->store, 0, id));
    reading_stop (self->reading);
}

static void
s_close (run_t *self)
{
    if (self->pool)
        s_drain (self);
    reading_destroy (&self->reading);
    raw_pool_destroy (&self->pool);
    raw_store_destroy (&self->store);
    free (self->is_drawn);
    free (self->is_open);
    for (uint32_t volume = 0; self->paths && volume < pack_volumes (self->data->pack); volume++)
        free ((void *) (uintptr_t) self->paths [volume]);
    free (self->paths);
    free (self->breaks);
    free (self->ranges);
    free (self->ring);
    free (self);
}

bool
disk_packed_read (const disk_data_t *data, const disk_options_t *options, uint64_t limit_bytes,
    uint32_t piece, cost_t *cost, uint64_t seed, disk_result_t *result, disk_packed_notes_t *notes)
{
    assert (limit_bytes >= disk_packed_least (data));
    run_t *self = calloc (1, sizeof *self);
    assert (self);
    self->data = data;
    self->options = options;
    self->cost = cost;
    self->random = seed;
    self->samples = pack_samples (data->pack);
    bool fine = s_open (self, limit_bytes, piece);
    if (fine) {
        s_read (self, options->seconds, result);
        *notes = (disk_packed_notes_t) {
            .depth = self->depth, .read_amplification = (double) self->read_bytes / (double) self->bytes
        };
        fine = !self->failed;
    }
    s_close (self);
    return fine;
}

//  Measures a source: latency, bandwidth and requests a second, by reads of its own files.

#include "cost.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "clock.h"

enum {
    BLOCK = 4096, MIB = 1024 * 1024, TOGETHER_MAX = 16, READS_MAX = 32,
    PHASE_NS = 12 * 1000 * 1000         //  a phase's time, once it has the reads that it must have
};

typedef struct {
    uint32_t threads;
    size_t bytes;
    uint32_t reads_min, reads_max;      //  of all threads
    bool is_wide;                       //  only if the earlier reads took hardly longer than a block's
} phase_t;

//  The most important phase comes first: limit_ms may end the probe.  A store with a long latency shows its
//  bandwidth only to many large reads at once.
static const phase_t s_phases [] = {
    { 1, BLOCK, 2, 16, false }, { 1, 2 * MIB, 1, 8, false }, { 4, 2 * MIB, 4, READS_MAX, false },
    { 4, BLOCK, 8, READS_MAX, false }, { 8, 4 * MIB, 8, 8, true },
    { TOGETHER_MAX, 8 * MIB, TOGETHER_MAX, TOGETHER_MAX, true }
};

typedef struct {
    uint64_t bytes, nanoseconds;
    uint32_t in_flight;
} sight_t;

//  Set at birth; then shared by the threads of a phase.
typedef struct {
    const cost_source_t *source;        //  NULL: fd
    int fd;
    uint64_t size;
    bool direct;
    uint64_t deadline;
    const phase_t *phase;
    uint64_t phase_end;
    atomic_uint begun, in_flight;
    atomic_int error;                   //  -errno of a read
    sight_t sights [READS_MAX];
} probe_t;

typedef struct {
    probe_t *probe;
    pthread_t thread;
    uint8_t *memory;
    uint64_t random;
} prober_t;

//  splitmix64: random enough for places to read.
static uint64_t
s_random_below (uint64_t *state, uint64_t bound)
{
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (mixed ^ (mixed >> 31)) % bound;
}

//  A place at which so many bytes end before the file does, if it is that long.
static uint64_t
s_offset (const probe_t *self, size_t bytes, uint64_t *random)
{
    return self->size <= bytes? 0: s_random_below (random, (self->size - bytes) / BLOCK + 1) * BLOCK;
}

//  Bytes read, or -errno.
static ssize_t
s_read (const probe_t *self, uint8_t *memory, size_t bytes, uint64_t offset)
{
    ssize_t got;
    if (self->source) {
        size_t wanted = bytes < self->size - offset? bytes: (size_t) (self->size - offset);
        int rc = self->source->read (self->source->context, memory, wanted, offset);
        return rc? rc: (ssize_t) wanted;
    }
    do
        got = pread (self->fd, memory, bytes, (off_t) offset);
    while (got < 0 && errno == EINTR);
    return got < 0? -errno: got;
}

static void
s_sight (probe_t *self, prober_t *prober, uint32_t read)
{
    size_t bytes = self->phase->bytes;
    uint64_t offset = s_offset (self, bytes, &prober->random);
    if (!self->source && !self->direct) //  past the page cache, as far as possible
        posix_fadvise (self->fd, (off_t) offset, (off_t) bytes, POSIX_FADV_DONTNEED);
    uint32_t in_flight = atomic_fetch_add (&self->in_flight, 1) + 1;
    uint64_t begin = clock_now_ns ();
    ssize_t got = s_read (self, prober->memory, bytes, offset);
    self->sights [read] = (sight_t) { .bytes = got > 0? (uint64_t) got: 0,
        .nanoseconds = clock_now_ns () - begin, .in_flight = in_flight };
    atomic_fetch_sub (&self->in_flight, 1);
    if (got < 0)
        atomic_store (&self->error, (int) got);
}

static bool
s_goes_on (const probe_t *self, uint32_t read)
{
    uint64_t now = clock_now_ns ();
    return read < self->phase->reads_max && now < self->deadline && !atomic_load (&self->error)
        && (read < self->phase->reads_min || now < self->phase_end);
}

static void *
s_run (void *argument)
{
    prober_t *prober = argument;
    probe_t *self = prober->probe;
    for (uint32_t read; (read = atomic_fetch_add (&self->begun, 1), s_goes_on (self, read));)
        s_sight (self, prober, read);
    return NULL;
}

//  One of them is this thread; threads that cannot be started are left out.
static int
s_phase (probe_t *self, const phase_t *phase, cost_t *cost)
{
    uint8_t *memory = aligned_alloc (BLOCK, phase->threads * phase->bytes);
    if (!memory)
        return -ENOMEM;
    self->phase = phase;
    self->phase_end = clock_now_ns () + PHASE_NS;
    atomic_init (&self->begun, 0);
    for (uint32_t read = 0; read < READS_MAX; read++)
        self->sights [read] = (sight_t) { 0 };
    prober_t probers [TOGETHER_MAX];
    uint32_t started = 1;
    for (uint32_t index = 0; index < phase->threads; index++) {
        prober_t *prober = &probers [index];
        *prober = (prober_t) { .probe = self, .memory = memory + index * phase->bytes };
        if (getrandom (&prober->random, sizeof prober->random, 0) != sizeof prober->random)
            prober->random = clock_now_ns () + index;
    }
    while (started < phase->threads
        && !pthread_create (&probers [started].thread, NULL, s_run, &probers [started]))
        started++;
    s_run (&probers [0]);
    while (--started > 0)
        pthread_join (probers [started].thread, NULL);
    for (uint32_t read = 0; read < READS_MAX; read++)
        if (self->sights [read].bytes)
            cost_observe (cost, self->sights [read].bytes, self->sights [read].nanoseconds,
                self->sights [read].in_flight);
    free (memory);
    return 0;
}

//  The mean of the phase's reads; 0: it had none.
static uint64_t
s_mean_ns (const probe_t *self)
{
    uint64_t sum = 0, count = 0;
    for (uint32_t read = 0; read < READS_MAX; read++)
        if (self->sights [read].bytes) {
            sum += self->sights [read].nanoseconds;
            count++;
        }
    return count? sum / count: 0;
}

//  Some file systems refuse O_DIRECT when a file is opened, others when it is read.
static int
s_open (probe_t *self, const char *path)
{
    _Alignas (BLOCK) uint8_t block [BLOCK];
    self->direct = true;
    self->fd = open (path, O_RDONLY | O_CLOEXEC | O_DIRECT | O_NONBLOCK);
    if (self->fd >= 0 && s_read (self, block, BLOCK, 0) == -EINVAL) {
        close (self->fd);
        self->fd = -1;
        errno = EINVAL;
    }
    if (self->fd < 0 && errno == EINVAL) {
        self->direct = false;
        self->fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    struct stat status;
    if (self->fd < 0 || fstat (self->fd, &status))
        return -errno;
    self->size = (uint64_t) status.st_size;
    return !S_ISREG (status.st_mode)? -EINVAL: self->size == 0? -ENODATA: 0;
}

//  0, or -errno; *cost: the measurement.
static int
s_measure (probe_t *self, cost_t *cost)
{
    uint64_t block_ns = 0, large_ns = 0;
    if (!self->source && !self->direct)
        posix_fadvise (self->fd, 0, 0, POSIX_FADV_RANDOM);
    for (size_t index = 0; index < sizeof s_phases / sizeof *s_phases; index++) {
        const phase_t *phase = &s_phases [index];
        bool is_of_use = self->size >= phase->threads * phase->bytes && large_ns < 2 * block_ns;
        if (phase->is_wide && !is_of_use)
            continue;
        int rc = s_phase (self, phase, cost);
        if (rc && !phase->is_wide)
            return rc;
        if (index == 0)
            block_ns = s_mean_ns (self);
        else
        if (phase->bytes > BLOCK && phase->threads > 1)
            large_ns = s_mean_ns (self);
    }
    int error = atomic_load (&self->error);
    return error? error: cost->observed? 0: -ETIME;
}

//  The probe is open.
static int
s_probe (probe_t *probe, cost_t *self, uint32_t limit_ms)
{
    probe->deadline = clock_now_ns () + (uint64_t) limit_ms * 1000000u;
    atomic_init (&probe->in_flight, 0);
    atomic_init (&probe->error, 0);
    cost_t cost = cost_assumed ();
    int rc = s_measure (probe, &cost);
    if (rc)
        return rc;
    cost_anchor (&cost);
    cost.depth_set = self->depth_set;
    *self = cost;
    return 0;
}

int
cost_probe (cost_t *self, const char *path, uint32_t limit_ms)
{
    assert (path);
    probe_t probe = { .fd = -1 };
    int rc = s_open (&probe, path);
    if (rc == 0)
        rc = s_probe (&probe, self, limit_ms);
    if (probe.fd >= 0)
        close (probe.fd);
    return rc;
}

int
cost_probe_source (cost_t *self, const cost_source_t *source, uint32_t limit_ms)
{
    assert (source && source->read && source->size_bytes > 0);
    probe_t probe = { .source = source, .fd = -1, .size = source->size_bytes };
    return s_probe (&probe, self, limit_ms);
}

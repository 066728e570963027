/*  Packing: the order is a full shuffle, the pack holds what the source holds whatever memory and buckets
 *  were, and whatever fails or kills it on the way, --resume ends with the same bytes.
 *
 *  The statistics take seeds 0, 1, 2 ..: fixed, so that they pass or fail for ever; their bounds would be
 *  passed by chance in fewer than 1e-5 of all choices of seeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pack.h"
#include "packing.h"
#include "packing_layout.h"
#include "packing_order.h"
#include "effort.h"
#include "scratch.h"
#include "seed.h"

#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <sys/file.h>
#include <sys/statvfs.h>

enum {
    KILLED = 77,
    SWEEP_STEP = EFFORT (10) > 1? 1: 10       //  every call, or every tenth
};

//  ---- calls that fail, or end the process, when told to

static bool is_killing;                 //  the fault ends the process instead
static unsigned int calls;              //  in all

static bool
strikes (void)
{
    calls++;
    bool struck = fault_strikes ();
    if (struck && is_killing)
        _exit (KILLED);
    return struck;
}

#define CALL(type, failure, name, parameters, arguments) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        return strikes ()? (failure): __real_##name arguments; \
    }

CALL (int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
CALL (int, -1, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
CALL (int, -1, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
CALL (int, -1, ftruncate, (int fd, off_t size), (fd, size))
CALL (ssize_t, -1, pread, (int fd, void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
CALL (void *, NULL, malloc, (size_t size), (size))
CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
CALL (void *, NULL, reallocarray, (void *items, size_t count, size_t size), (items, count, size))

//  What is written and not made durable.  Nobody pulls the plug here, so these need no disk.
enum { DESCRIPTORS = 1024 };
static bool is_dirty [DESCRIPTORS];
static unsigned int broken_words;       //  journals that spoke of what was not durable

int __wrap_fsync (int fd);
int
__wrap_fsync (int fd)
{
    is_dirty [fd] = false;
    return strikes ()? -1: 0;
}

int __wrap_fdatasync (int fd);
int
__wrap_fdatasync (int fd)
{
    return __wrap_fsync (fd);
}

int __real_close (int fd);
int __wrap_close (int fd);
int
__wrap_close (int fd)
{
    if (fd >= 0 && is_dirty [fd]) {
        broken_words++;
        is_dirty [fd] = false;
    }
    return __real_close (fd);
}

int __real_renameat (int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat (int from_fd, const char *from, int to_fd, const char *to);
int
__wrap_renameat (int from_fd, const char *from, int to_fd, const char *to)
{
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        broken_words += is_dirty [fd];
    return strikes ()? -1: __real_renameat (from_fd, from, to_fd, to);
}

int __real_openat (int fd, const char *path, int flags, mode_t mode);
int __wrap_openat (int fd, const char *path, int flags, mode_t mode);
int
__wrap_openat (int fd, const char *path, int flags, mode_t mode)
{
    return strikes ()? -1: __real_openat (fd, path, flags, mode);
}

//  A write that is struck has written half.
static size_t write_limit;
ssize_t __real_pwrite (int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t size, off_t offset);
ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t size, off_t offset)
{
    is_dirty [fd] = true;
    if (write_limit && size > write_limit)
        size = write_limit;
    if (fault.countdown == 1 && size > 1)
        __real_pwrite (fd, bytes, size / 2, offset);
    return strikes ()? -1: __real_pwrite (fd, bytes, size, offset);
}

static uint64_t free_blocks;            //  0: as it is
int __real_fstatvfs (int fd, struct statvfs *status);
int __wrap_fstatvfs (int fd, struct statvfs *status);
int
__wrap_fstatvfs (int fd, struct statvfs *status)
{
    int rc = strikes ()? -1: __real_fstatvfs (fd, status);
    if (rc == 0 && free_blocks)
        status->f_bavail = free_blocks;
    return rc;
}

//  ---- a source

static int
begin (void **state)
{
    scratch_t *scratch = calloc (1, sizeof *scratch);
    *state = scratch;
    is_killing = false;
    write_limit = 0;
    free_blocks = 0;
    alarm (600);
    return scratch && scratch_begin (scratch)? 0: -1;
}

static int
end (void **state)
{
    fault_disarm ();
    bool clean = scratch_end (*state);
    free (*state);
    return clean? 0: -1;
}

static const char *
in (void *state, const char *name)
{
    static char paths [16] [PATH_MAX];
    static unsigned int turn;
    char *path = paths [turn++ % 16];
    snprintf (path, PATH_MAX, "%s/%s", ((scratch_t *) state)->path, name);
    return path;
}

static void
make_file (const char *path, size_t size, uint64_t seed)
{
    uint8_t *bytes = malloc (size + 8);
    assert_non_null (bytes);
    for (size_t index = 0; index < size; index += 8) {
        uint64_t number = test_below (&seed, UINT64_MAX);
        memcpy (bytes + index, &number, 8);
    }
    FILE *file = fopen (path, "wb");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    assert_int_equal (fclose (file), 0);
    free (bytes);
}

typedef struct {
    uint32_t samples;
    size_t longest;
    bool has_masks;
} source_t;

//  DIR/cN/NNN.jpg, most of them small, a few as large as may be and a few empty; masks beside them.
static void
make_source (void *state, const source_t *source, uint64_t seed)
{
    char path [PATH_MAX];
    assert_int_equal (mkdir (in (state, "data"), 0700), 0);
    assert_int_equal (mkdir (in (state, "masks"), 0700), 0);
    for (uint32_t id = 0; id < source->samples; id++) {
        if (id % 100 == 0)
            for (int folder = 0; folder <= source->has_masks; folder++) {
                snprintf (path, sizeof path, "%s/c%03u", in (state, folder? "masks": "data"), id / 100);
                assert_int_equal (mkdir (path, 0700), 0);
            }
        size_t size = test_below (&seed, 16) == 0? test_below (&seed, source->longest + 1):
            test_below (&seed, 2000);
        snprintf (path, sizeof path, "%s/c%03u/%05u.jpg", in (state, "data"), id / 100, id);
        make_file (path, test_below (&seed, 20) == 0? 0: size, seed);
        snprintf (path, sizeof path, "%s/c%03u/%05u.png", in (state, "masks"), id / 100, id);
        if (source->has_masks)
            make_file (path, test_below (&seed, 300), seed + 1);
    }
}

typedef struct {
    const char *path;
    catalogue_field_t field;
    packing_options_t options;
    char error [PACK_SOURCE_ERROR_BYTES];
    packing_result_t result;
} job_t;

static void
prepare (void *state, job_t *self, const source_t *source, const char *target)
{
    *self = (job_t) { .path = in (state, "data"), .field = { "mask", true, in (state, "masks") } };
    self->options = (packing_options_t) {
        .source = { .paths = &self->path, .path_count = 1, .fields = &self->field,
        .field_count = source->has_masks },
        .target = target, .volume_bytes = 1 << 20, .has_seed = true, .seed = 1,
        .memory_bytes = PACKING_MEMORY_BYTES_MIN
    };
}

static int
run (job_t *self)
{
    return packing_run (&self->options, &self->result, self->error);
}

static void
run_well (job_t *self)
{
    memset (is_dirty, 0, sizeof is_dirty);
    broken_words = 0;
    int rc = run (self);
    if (rc)
        fail_msg ("%d: %s", rc, self->error);
    assert_string_equal (self->error, "");
    assert_int_equal (broken_words, 0);
}

static void
assert_refused (job_t *self, int code, const char *what, const char *remedy)
{
    int rc = run (self);
    if (rc != code || !strstr (self->error, what) || !strstr (self->error, remedy))
        fail_msg ("%d, not %d: '%s', not '%s', '%s'", rc, code, self->error, what, remedy);
}

static int
remove_one (const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void) status; (void) type; (void) place;
    return remove (path);
}

static void
remove_all (const char *path)
{
    assert_int_equal (nftw (path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void
assert_same_file (const char *left, const char *right)
{
    FILE *files [2] = { fopen (left, "rb"), fopen (right, "rb") };
    if (!files [0] || !files [1])
        fail_msg ("%s or %s is not there", left, right);
    static uint8_t bytes [2] [1 << 16];
    for (size_t size = 1; size; ) {
        size = fread (bytes [0], 1, sizeof bytes [0], files [0]);
        if (fread (bytes [1], 1, sizeof bytes [1], files [1]) != size
            || memcmp (bytes [0], bytes [1], size) != 0)
            fail_msg ("%s and %s differ", left, right);
    }
    fclose (files [0]);
    fclose (files [1]);
}

//  Both folders hold the same files, no folders among them, with the same bytes.
static void
assert_same (const char *left, const char *right)
{
    char paths [2] [PATH_MAX];
    assert_int_equal (scratch_entries (left), scratch_entries (right));
    DIR *folder = opendir (left);
    assert_non_null (folder);
    const struct dirent *item;
    while ((item = readdir (folder))) {
        if (item->d_name [0] == '.')
            continue;
        snprintf (paths [0], PATH_MAX, "%s/%s", left, item->d_name);
        snprintf (paths [1], PATH_MAX, "%s/%s", right, item->d_name);
        assert_same_file (paths [0], paths [1]);
    }
    closedir (folder);
}

static catalogue_t *
open_catalogue (const catalogue_options_t *options)
{
    catalogue_t *catalogue;
    char error [PACK_SOURCE_ERROR_BYTES];
    if (catalogue_open (&catalogue, options, error, sizeof error))
        fail_msg ("%s", error);
    return catalogue;
}

//  The pack is the source: names, labels, and bytes of every file.
static void
assert_holds (const job_t *job)
{
    catalogue_options_t wanted = { .path = job->path, .fields = job->options.source.fields,
        .field_count = job->options.source.field_count };
    catalogue_options_t packed = { .path = job->options.target };
    catalogue_t *source = open_catalogue (&wanted), *pack = open_catalogue (&packed);
    assert_non_null (catalogue_pack (pack));
    assert_string_equal (catalogue_fingerprint (source), catalogue_fingerprint (pack));
    assert_int_equal (catalogue_samples (source), catalogue_samples (pack));
    assert_int_equal (catalogue_fields (source), catalogue_fields (pack));
    catalogue_buffer_t left = { 0 }, right = { 0 };
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < catalogue_samples (source); id++)
        for (size_t field = 0; field < catalogue_fields (source); field++) {
            assert_int_equal (catalogue_read (source, id, field, &left), 0);
            assert_int_equal (catalogue_read (pack, id, field, &right), 0);
            assert_int_equal (left.size, right.size);
            assert_memory_equal (left.bytes, right.bytes, left.size);
            bytes += left.size;
        }
    assert_int_equal (job->result.bytes, bytes);
    assert_int_equal (job->result.samples, catalogue_samples (source));
    assert_int_equal (job->result.volumes, pack_volumes (catalogue_pack (pack)));
    //  Beside the index nothing but volumes.
    assert_int_equal (scratch_entries (job->options.target), job->result.volumes + 1);
    free (left.bytes);
    free (right.bytes);
    catalogue_destroy (&source);
    catalogue_destroy (&pack);
}


//  ---- the order

//  |z| of a chi-square, by Wilson and Hilferty.
static double
chi_square_z (double chi_square, double freedom)
{
    double share = 2 / (9 * freedom);
    return fabs ((cbrt (chi_square / freedom) - 1 + share) / sqrt (share));
}

//  Every id is as likely at every position.
static void
test_order_has_each_id_anywhere (void **state)
{
    (void) state;
    enum { SAMPLES = 40, SEEDS = EFFORT (40000) };
    static uint32_t table [SAMPLES] [SAMPLES];
    memset (table, 0, sizeof table);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t order [SAMPLES];
        packing_order (seed, SAMPLES, order);
        for (uint32_t position = 0; position < SAMPLES; position++)
            table [order [position]] [position]++;
    }
    double expected = (double) SEEDS / SAMPLES, sum = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        for (uint32_t position = 0; position < SAMPLES; position++)
            sum += pow (table [id] [position] - expected, 2) / expected;
    //  Rows and columns are exact, which takes the degrees; and a permutation's cells are scaled by (N-1)/N.
    double z = chi_square_z (sum * (SAMPLES - 1) / SAMPLES, pow (SAMPLES - 1, 2));
    print_message ("id x position: z = %.2f\n", z);
    assert_true (z < 4.5);
}

//  All orders of few samples come equally often.
static void
test_order_is_any_order (void **state)
{
    (void) state;
    enum { SAMPLES = 5, ORDERS = 120, SEEDS = EFFORT (240000) };
    uint32_t counts [3125] = { 0 };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t order [SAMPLES], code = 0;
        packing_order (seed, SAMPLES, order);
        for (uint32_t position = 0; position < SAMPLES; position++)
            code = code * SAMPLES + order [position];
        counts [code]++;
    }
    double expected = (double) SEEDS / ORDERS, sum = 0;
    uint32_t seen = 0;
    for (uint32_t code = 0; code < 3125; code++)
        if (counts [code]) {
            seen++;
            sum += pow (counts [code] - expected, 2) / expected;
        }
    assert_int_equal (seen, ORDERS);
    double z = chi_square_z (sum, ORDERS - 1);
    print_message ("orders: z = %.2f\n", z);
    assert_true (z < 4.5);
}

//  Neighbours in the source, and the classes of a sorted source, meet as often as chance has it.
static void
test_order_tears_neighbours_apart (void **state)
{
    (void) state;
    enum { SAMPLES = 1000, CLASS = 100, SEEDS = EFFORT (2000) };
    uint64_t neighbours = 0, mates = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t order [SAMPLES];
        packing_order (seed, SAMPLES, order);
        for (uint32_t position = 1; position < SAMPLES; position++) {
            uint32_t a = order [position - 1], b = order [position];
            neighbours += a + 1 == b || b + 1 == a;
            mates += a / CLASS == b / CLASS;
        }
    }
    double wanted = 2.0 * (SAMPLES - 1) / SAMPLES * SEEDS, share = (double) (CLASS - 1) / (SAMPLES - 1);
    double z = ((double) neighbours - wanted) / sqrt (wanted);
    double mates_wanted = share * (SAMPLES - 1) * SEEDS;
    double mates_z = ((double) mates - mates_wanted) / sqrt (mates_wanted * (1 - share));
    print_message ("neighbours: z = %.2f, of one class: z = %.2f\n", z, mates_z);
    assert_true (fabs (z) < 4.5);
    assert_true (fabs (mates_z) < 4.5);
}

//  Buckets are ranges of the order, whatever their number, and of about one size.
static void
test_buckets_are_ranges_of_the_order (void **state)
{
    (void) state;
    enum { SAMPLES = 5000 };
    static uint32_t order [SAMPLES];
    static const uint32_t counts [] = { 1, 2, 3, 7, 64, 1000, 8192 };
    packing_order (99, SAMPLES, order);
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++) {
        uint32_t last = 0, size = 0, largest = 0;
        for (uint32_t position = 0; position < SAMPLES; position++) {
            uint32_t bucket = packing_bucket (99, order [position], counts [index]);
            assert_true (bucket >= last && bucket < counts [index]);
            size = bucket == last? size + 1: 1;
            largest = size > largest? size: largest;
            last = bucket;
        }
        double mean = (double) SAMPLES / counts [index];
        assert_true (largest < mean + 6 * sqrt (mean) + 6);
    }
}

//  The order is a format: other seeds would be another one.
static void
test_order_is_golden (void **state)
{
    (void) state;
    uint32_t order [8];
    packing_order (42, 8, order);
    static const uint32_t golden [8] = { 6, 7, 4, 5, 3, 0, 1, 2 };
    assert_memory_equal (order, golden, sizeof golden);
}


//  ---- the layout

static uint64_t
bytes_of (const void *context, uint32_t id)
{
    return ((const uint64_t *) context) [id];
}

//  Property: places and volumes are those of the words of pack_format.h, followed one by one.
static void
test_layout_follows_the_format (void **state)
{
    (void) state;
    enum { SAMPLES_MAX = 2000 };
    static uint64_t bytes [SAMPLES_MAX];
    static uint32_t order [SAMPLES_MAX];
    static pack_place_t places [SAMPLES_MAX];
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (200); round++, seed++) {
        uint64_t random = seed;
        uint32_t samples = 1 + (uint32_t) test_below (&random, SAMPLES_MAX);
        uint32_t chunk = 64 * (1 + (uint32_t) test_below (&random, 3));
        uint64_t volume_bytes = 4096 * (1 + test_below (&random, 100)),
            longest = 1 + test_below (&random, 20000);
        for (uint32_t id = 0; id < samples; id++)
            bytes [id] = test_below (&random, longest);
        packing_order (seed, samples, order);
        packing_layout_t layout = { samples, chunk, volume_bytes, order, bytes_of, bytes };
        pack_volume_t *volumes;
        uint32_t count;
        assert_int_equal (packing_layout (&layout, places, &volumes, &count), 0);
        uint32_t volume = 0;
        uint64_t at = 4096;
        for (uint32_t position = 0; position < samples; position++) {
            if (position % chunk == 0) {
                while (at % 4096)
                    at++;
                if (at > volume_bytes && position) {
                    assert_int_equal (volumes [volume].bytes, at);
                    volume++;
                    at = 4096;
                }
                if (at == 4096)
                    assert_int_equal (volumes [volume].first <= position, true);
            }
            const pack_place_t *place = &places [order [position]];
            if (place->offset != at || place->volume != volume || place->position != position)
                fail_msg ("seed %" PRIu64 ", position %u: %u+%" PRIu64 ", not %u+%" PRIu64, seed, position,
                    place->volume, place->offset, volume, at);
            at += bytes [order [position]];
        }
        assert_int_equal (count, volume + 1);
        assert_int_equal (volumes [volume].bytes, (at + 4095) / 4096 * 4096);
        for (uint32_t index = 0; index < count; index++)
            assert_int_equal (places [order [volumes [index].first]].offset, 4096);
        free (volumes);
    }
}


//  ---- whole packs

//  Property: whatever memory, buckets and the lengths of writes, the pack is the same, and it is the source.
static void
test_pack_is_the_source (void **state)
{
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (10); round++, seed++) {
        print_message ("TEST_SEED=%" PRIu64 "\n", seed);
        uint64_t random = seed;
        source_t source = { 1 + (uint32_t) test_below (&random, 700), 200000, test_below (&random, 2) };
        make_source (*state, &source, random);
        job_t job;
        prepare (*state, &job, &source, in (*state, "one"));
        job.options.seed = seed;
        job.options.chunk_samples = 64 * (1 + (uint32_t) test_below (&random, 3));
        run_well (&job);
        assert_int_equal (job.result.seed, seed);
        assert_holds (&job);
        for (int other = 0; other < 3; other++) {
            job_t again;
            prepare (*state, &again, &source, in (*state, "two"));
            again.options.seed = seed;
            again.options.chunk_samples = job.options.chunk_samples;
            again.options.buckets = 1 + (uint32_t) test_below (&random, 50);
            again.options.memory_bytes += test_below (&random, 4 << 20);
            write_limit = other == 2? 1 + test_below (&random, 5000): 0;
            run_well (&again);
            write_limit = 0;
            assert_same (in (*state, "one"), in (*state, "two"));
            remove_all (in (*state, "two"));
        }
        remove_all (in (*state, "one"));
        remove_all (in (*state, "data"));
        remove_all (in (*state, "masks"));
    }
}

//  All samples in one bucket that is many times the memory: it is taken in runs.
static void
test_bucket_beyond_memory (void **state)
{
    source_t source = { 300, 500000, true };
    make_source (*state, &source, test_seed ());
    job_t job;
    prepare (*state, &job, &source, in (*state, "one"));
    run_well (&job);
    assert_holds (&job);
    assert_true (job.result.bytes > 3 * (uint64_t) PACKING_MEMORY_BYTES_MIN);
    prepare (*state, &job, &source, in (*state, "two"));
    job.options.buckets = 1;
    run_well (&job);
    assert_same (in (*state, "one"), in (*state, "two"));
}

//  A drawn seed is told, and gives the same pack again.
static void
test_seed_is_drawn (void **state)
{
    source_t source = { 200, 3000, false };
    make_source (*state, &source, 3);
    job_t job;
    prepare (*state, &job, &source, in (*state, "one"));
    job.options.has_seed = false;
    run_well (&job);
    uint64_t seed = job.result.seed;
    prepare (*state, &job, &source, in (*state, "two"));
    job.options.has_seed = false;
    run_well (&job);
    assert_true (job.result.seed != seed);
    remove_all (in (*state, "two"));
    prepare (*state, &job, &source, in (*state, "two"));
    job.options.seed = seed;
    run_well (&job);
    assert_same (in (*state, "one"), in (*state, "two"));
}


//  ---- going on

typedef struct {
    unsigned int countdown;
} stop_t;

static bool
stop_after (void *context)
{
    stop_t *stop = context;
    return stop->countdown == 0 || --stop->countdown == 0;
}

//  Property: stopped wherever, any number of times, with any memory, it ends with the same bytes.
static void
test_stopped_and_resumed (void **state)
{
    uint64_t random = test_seed ();
    source_t source = { 400, 60000, true };
    make_source (*state, &source, random);
    job_t job;
    prepare (*state, &job, &source, in (*state, "one"));
    run_well (&job);
    for (int round = 0; round < EFFORT (20); round++) {
        unsigned int stops = 0;
        int rc;
        uint32_t buckets = 1 + (uint32_t) test_below (&random, 20);
        do {
            stop_t stop = { 1 + (unsigned int) test_below (&random, 500) };
            job_t again;
            prepare (*state, &again, &source, in (*state, "two"));
            again.options.resume = true;
            again.options.has_seed = stops == 0 || test_below (&random, 2);
            again.options.buckets = buckets;
            again.options.memory_bytes += test_below (&random, 1 << 20);
            again.options.volume_bytes = stops? 0: again.options.volume_bytes;
            again.options.stopped = stop_after;
            again.options.context = &stop;
            rc = run (&again);
            if (rc && rc != -ECANCELED)
                fail_msg ("%s", again.error);
            if (rc) {
                assert_non_null (strstr (again.error, "--resume"));
                assert_int_not_equal (access (in (*state, "two/index.tureen"), F_OK), 0);
                stops++;
            }
            else
                assert_int_equal (again.result.resumed, stops > 0);
        } while (rc);
        assert_same (in (*state, "one"), in (*state, "two"));
        remove_all (in (*state, "two"));
    }
}

//  What was written behind the journal's word, as far as it came.
static void
add_garbage (void *state, uint64_t *random)
{
    static const char *const names [] = { "two/packing/bucket-00000", "two/packing/bucket-00001",
        "two/packing/table", "two/packing/journal.new", "two/index.tureen.partial" };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        if (test_below (random, 2) || access (in (state, names [index]), F_OK) != 0)
            continue;
        FILE *file = fopen (in (state, names [index]), "ab");
        assert_non_null (file);
        for (uint64_t count = test_below (random, 5000); count; count--)
            putc ((int) test_below (random, 256), file);
        fclose (file);
    }
}

//  In a process of its own, which is killed at the nth call.
static void
run_and_kill (job_t *job, unsigned int nth)
{
    pid_t child = fork ();
    if (child == 0) {
        is_killing = true;
        fault_arm (nth, 0, false);
        _exit (run (job) == 0? 0: 1);
    }
    int status = -1;
    waitpid (child, &status, 0);
    assert_int_equal (WEXITSTATUS (status), KILLED);
}

//  Killed at every call there is, with that call done by half: it is no pack then, and going on makes the
//  same one.
static void
test_killed_at_every_call (void **state)
{
    uint64_t random = test_seed ();
    source_t source = { 80, 60000, false };
    make_source (*state, &source, random);
    job_t job;
    prepare (*state, &job, &source, in (*state, "one"));
    job.options.buckets = 2;
    calls = 0;
    run_well (&job);
    unsigned int all = calls;
    assert_true (all > 100);
    for (unsigned int nth = 1; nth <= all; nth += SWEEP_STEP) {
        job_t again;
        prepare (*state, &again, &source, in (*state, "two"));
        again.options.buckets = 2;
        run_and_kill (&again, nth);
        if (access (in (*state, "two/index.tureen"), F_OK) == 0)
            assert_same_file (in (*state, "one/index.tureen"), in (*state, "two/index.tureen"));
        add_garbage (*state, &random);
        again.options.resume = true;
        run_well (&again);
        assert_same (in (*state, "one"), in (*state, "two"));
        remove_all (in (*state, "two"));
    }
    print_message ("%u calls\n", all);
}

//  Every call fails once, and for ever: refused in words, nothing leaks, and going on makes the same pack.
static void
test_every_call_fails (void **state)
{
    static const int errors [] = { ENOSPC, EIO, EMFILE };
    source_t source = { 80, 60000, false };
    make_source (*state, &source, test_seed ());
    job_t job;
    prepare (*state, &job, &source, in (*state, "one"));
    job.options.buckets = 2;
    run_well (&job);
    size_t descriptors = scratch_descriptors ();
    for (int forever = 0; forever < 2; forever++)
        for (unsigned int nth = 1, reached = 1; reached; nth += forever? 3 * SWEEP_STEP: SWEEP_STEP) {
            job_t again;
            prepare (*state, &again, &source, in (*state, "two"));
            again.options.buckets = 2;
            fault_arm (nth, errors [nth % 3], forever);
            int rc = run (&again);
            reached = fault_disarm ();
            if ((rc == 0) != (strlen (again.error) == 0) || (reached && rc == 0 && forever))
                fail_msg ("call %u: %d '%s'", nth, rc, again.error);
            if (rc && access (in (*state, "two/index.tureen"), F_OK) == 0)
                assert_same_file (in (*state, "one/index.tureen"), in (*state, "two/index.tureen"));
            if (scratch_descriptors () != descriptors)
                fail_msg ("call %u: a descriptor is left open after '%s'", nth, again.error);
            again.options.resume = true;
            run_well (&again);
            assert_same (in (*state, "one"), in (*state, "two"));
            remove_all (in (*state, "two"));
        }
}


//  Stops after so many samples of both passes.
static void
run_until (job_t *job, unsigned int samples)
{
    stop_t stop = { samples };
    job->options.stopped = stop_after;
    job->options.context = &stop;
    assert_int_equal (run (job), -ECANCELED);
    job->options.stopped = NULL;
}


//  ---- refusals

static void
test_targets_that_cannot_be (void **state)
{
    source_t source = { 120, 3000, true };
    make_source (*state, &source, 5);
    job_t job;
    prepare (*state, &job, &source, in (*state, "pack"));
    run_well (&job);
    assert_refused (&job, -EEXIST, "is a pack already", "choose another folder");
    job.options.resume = true;
    run_well (&job);
    assert_true (job.result.was_finished);
    assert_int_equal (job.result.samples, 120);
    assert_int_equal (job.result.chunks, 2);
    job.options.seed = 2;
    assert_refused (&job, -EINVAL, "begun with seed 1", "give that or none");
    prepare (*state, &job, &source, in (*state, "half"));
    run_until (&job, 50);
    assert_refused (&job, -EEXIST, "is an unfinished pack", "--resume");
    assert_int_equal (mkdir (in (*state, "full"), 0700), 0);
    make_file (in (*state, "full/a"), 3, 1);
    prepare (*state, &job, &source, in (*state, "full"));
    assert_refused (&job, -EEXIST, "holds something that is no pack", "an empty folder");
    job.options.target = in (*state, "full/a");
    assert_refused (&job, -ENOTDIR, "is not a folder", "another name");
    job.options.target = in (*state, "nowhere/pack");
    assert_refused (&job, -ENOENT, "cannot make", "its parent is not there");
    job.options.target = in (*state, "data/c000/pack");
    assert_refused (&job, -EINVAL, "which is to be packed", "a folder outside");
    job.options.target = in (*state, "data/");
    assert_refused (&job, -EEXIST, "holds something", "");
    job.options.target = in (*state, "masks/pack/");
    assert_refused (&job, -EINVAL, "which is to be packed", "a folder outside");
    assert_int_equal (mkdir (in (*state, "empty"), 0700), 0);
    job.options.target = in (*state, "empty");
    run_well (&job);
}

static void
test_a_second_process_is_refused (void **state)
{
    source_t source = { 120, 3000, false };
    make_source (*state, &source, 5);
    job_t job;
    prepare (*state, &job, &source, in (*state, "pack"));
    run_until (&job, 50);
    int fd = open (in (*state, "pack"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal (flock (fd, LOCK_EX | LOCK_NB), 0);
    job.options.resume = true;
    assert_refused (&job, -EBUSY, "another process", "wait for it");
    close (fd);
    run_well (&job);
    assert_holds (&job);
}

static void
test_what_was_begun_is_kept_to (void **state)
{
    source_t source = { 120, 3000, false };
    make_source (*state, &source, 5);
    job_t job;
    prepare (*state, &job, &source, in (*state, "pack"));
    job.options.chunk_samples = 100;
    assert_refused (&job, -EINVAL, "a multiple of 64", "");
    job.options.chunk_samples = 0;
    job.options.memory_bytes = 1000;
    assert_refused (&job, -EINVAL, "too few", "");
    job.options.memory_bytes = PACKING_MEMORY_BYTES_MIN;
    run_until (&job, 200);
    job.options.resume = true;
    job.options.seed = 2;
    assert_refused (&job, -EINVAL, "begun with seed 1", "give that or none");
    job.options.seed = 1;
    job.options.chunk_samples = 128;
    assert_refused (&job, -EINVAL, "chunks of 64", "give that or none");
    job.options.chunk_samples = 64;
    //  Written over by as many bytes.
    struct timespec times [2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    assert_int_equal (utimensat (AT_FDCWD, in (*state, "data/c001/00101.jpg"), times, 0), 0);
    assert_refused (&job, -ESTALE, "changed since", "begin anew");
}

static void
test_no_room (void **state)
{
    source_t source = { 120, 3000, false };
    make_source (*state, &source, 5);
    job_t job;
    prepare (*state, &job, &source, in (*state, "pack"));
    free_blocks = 1;
    assert_refused (&job, -ENOSPC, "MiB free", "free room");
    assert_int_equal (access (in (*state, "pack"), F_OK), -1);          //  nothing was begun, nothing is left
    assert_int_equal (mkdir (in (*state, "pack"), 0700), 0);
    assert_refused (&job, -ENOSPC, "MiB free", "free room");
    assert_int_equal (rmdir (in (*state, "pack")), 0);                  //  it was there, and is as it was
    free_blocks = 0;
    job.options.resume = true;
    run_well (&job);
    assert_holds (&job);
}

//  Bytes that all files below take on the disk.
static uint64_t
s_taken (const char *folder)
{
    DIR *directory = opendir (folder);
    uint64_t bytes = 0;
    assert_non_null (directory);
    for (struct dirent *entry; (entry = readdir (directory));) {
        char path [PATH_MAX];
        struct stat status;
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0
            || lstat (path, &status) != 0)
            continue;
        bytes += S_ISDIR (status.st_mode)? s_taken (path): (uint64_t) status.st_blocks * 512;
    }
    closedir (directory);
    return bytes;
}

static uint64_t most_taken;

static void
s_look_at_room (void *context, const packing_progress_t *progress)
{
    const job_t *job = context;
    (void) progress;
    uint64_t taken = s_taken (job->options.target);
    most_taken = taken > most_taken? taken: most_taken;
}

//  What is asked for before it begins is what it takes, and little more, of few samples and of many, in one
//  bucket or several.
static void
test_the_room_that_is_asked_for_is_what_it_takes (void **state)
{
    const struct { source_t source; uint32_t buckets; } cases [] = {
        { { 40, 300, false }, 0 }, { { 40, 40000, false }, 1 }, { { 600, 4000, true }, 4 },
        { { 1500, 100, false }, 2 }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char name [32];
        scratch_t *scratch = *state, inner = *scratch;
        snprintf (name, sizeof name, "%zu", index);
        assert_int_equal (mkdir (in (*state, name), 0700), 0);
        assert_true (strlen (scratch->path) + strlen (name) + 1 < sizeof inner.path);
        strcpy (inner.path, in (*state, name));
        make_source (&inner, &cases [index].source, 5);
        job_t job;
        prepare (&inner, &job, &cases [index].source, in (&inner, "pack"));
        job.options.buckets = cases [index].buckets;
        free_blocks = 1;
        assert_refused (&job, -ENOSPC, "MiB free", "free room");
        free_blocks = 0;
        double asked = 0;
        const char *text = strstr (job.error, "takes about ");
        assert_true (text && sscanf (text, "takes about %lf:", &asked) == 1);
        asked *= 1 << 20;
        most_taken = 0;
        job.options.progress = s_look_at_room;
        job.options.context = &job;
        run_well (&job);
        s_look_at_room (&job, NULL);
        if (asked < (double) most_taken - 60000 || asked > 1.5 * (double) most_taken + 200000)
            fail_msg ("case %zu: %.0f bytes were asked for, and %llu taken", index, asked,
                (unsigned long long) most_taken);
    }
}

//  A sample that memory has no room for is told with the figure that it takes, and that is enough.
static void
test_sample_beyond_memory (void **state)
{
    source_t source = { 20, 3000, false };
    make_source (*state, &source, 5);
    make_file (in (*state, "data/c000/00007.jpg"), 3000000, 1);
    job_t job;
    prepare (*state, &job, &source, in (*state, "pack"));
    assert_refused (&job, -EFBIG, "sample 7 has 3000000 bytes", "at least 6000000");
    job.options.resume = true;
    job.options.memory_bytes = 6000000;
    run_until (&job, 22);                   //  in pass 2, before the first sample
    job.options.memory_bytes = PACKING_MEMORY_BYTES_MIN;
    assert_refused (&job, -EFBIG, "sample 7 has 3000048 bytes", "give --memory");
    job.options.memory_bytes = 6000096;
    run_well (&job);
    assert_holds (&job);
}

static void
flip (const char *path, long at)
{
    FILE *file = fopen (path, "r+b");
    assert_non_null (file);
    fseek (file, at, SEEK_SET);
    int byte = getc (file);
    fseek (file, at, SEEK_SET);
    putc (byte ^ 1, file);
    fclose (file);
}

//  What a disk did to the work done so far is told, and never packed.
static void
test_damage_is_told (void **state)
{
    source_t source = { 120, 30000, false };
    make_source (*state, &source, 5);
    static const struct { const char *name; int code; } cases [] = {
        { "pack/packing/bucket-00000", -EBADMSG }, { "pack/packing/table", 0 },
        { "pack/packing/journal", -EBADMSG }
    };
    for (size_t index = 0; index < 3; index++)
        for (int cut = 0; cut < 2; cut++) {
            job_t job;
            prepare (*state, &job, &source, in (*state, "pack"));
            job.options.buckets = 1;
            run_until (&job, 123);          //  in pass 2, before the first sample
            if (cut)
                assert_int_equal (truncate (in (*state, cases [index].name), 20), 0);
            else
                flip (in (*state, cases [index].name), 40);
            job.options.resume = true;
            int rc = run (&job);
            if (rc == 0 || !strstr (job.error, "begin anew")
                    || (!cut && cases [index].code && rc != cases [index].code))
                fail_msg ("%s, %d: %d '%s'", cases [index].name, cut, rc, job.error);
            assert_int_not_equal (access (in (*state, "pack/index.tureen"), F_OK), 0);
            remove_all (in (*state, "pack"));
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_order_has_each_id_anywhere),
        cmocka_unit_test (test_order_is_any_order),
        cmocka_unit_test (test_order_tears_neighbours_apart),
        cmocka_unit_test (test_buckets_are_ranges_of_the_order),
        cmocka_unit_test (test_order_is_golden),
        cmocka_unit_test (test_layout_follows_the_format),
        cmocka_unit_test_setup_teardown (test_pack_is_the_source, begin, end),
        cmocka_unit_test_setup_teardown (test_bucket_beyond_memory, begin, end),
        cmocka_unit_test_setup_teardown (test_seed_is_drawn, begin, end),
        cmocka_unit_test_setup_teardown (test_stopped_and_resumed, begin, end),
        cmocka_unit_test_setup_teardown (test_killed_at_every_call, begin, end),
        cmocka_unit_test_setup_teardown (test_every_call_fails, begin, end),
        cmocka_unit_test_setup_teardown (test_targets_that_cannot_be, begin, end),
        cmocka_unit_test_setup_teardown (test_a_second_process_is_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_what_was_begun_is_kept_to, begin, end),
        cmocka_unit_test_setup_teardown (test_no_room, begin, end),
        cmocka_unit_test_setup_teardown (test_the_room_that_is_asked_for_is_what_it_takes, begin, end),
        cmocka_unit_test_setup_teardown (test_sample_beyond_memory, begin, end),
        cmocka_unit_test_setup_teardown (test_damage_is_told, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

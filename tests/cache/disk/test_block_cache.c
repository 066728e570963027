//  The cache on the local disk: never a wrong byte, never more than its bound, whatever servers that share
//  it, a failing disk, damage or a kill do.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <time.h>
#include "block_cache.h"
#include "block_data.h"
#include "effort.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum { UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 700, BYTES = UNITS * UNIT - 1000, ERROR_BYTES = 600 };

FAULT_CALL (ssize_t, -1, pwrite, (int descriptor, const void *memory, size_t bytes, off_t offset),
    (descriptor, memory, bytes, offset))

static uint8_t s_truth [UNITS * UNIT], s_memory [UNITS * UNIT];

typedef struct {
    scratch_folder_t scratch;
    char folder [80];
} world_t;

//  -- what the tests share

static int
s_begin (void **state)
{
    static world_t world;
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (1, at);
    if (!scratch_begin (&world.scratch))
        return -1;
    snprintf (world.folder, sizeof world.folder, "%s/cache", world.scratch.path);
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    return scratch_end (&world->scratch)? 0: -1;
}

static block_cache_t *
s_cache (const world_t *world, uint64_t bytes_max)
{
    char error [ERROR_BYTES];
    block_cache_t *cache;
    if (block_cache_open (&cache, world->folder, bytes_max, error, sizeof error))
        fail_msg ("%s", error);
    return cache;
}

static block_data_key_t
s_key (unsigned int number)
{
    char url [40];
    block_data_key_t key = { { 0, 0 } };
    snprintf (url, sizeof url, "https://host/%u", number);
    block_data_key_add (&key, url, "\"1\"", BYTES);
    return key;
}

static block_data_t *
s_data (block_cache_t *cache, unsigned int number)
{
    block_data_key_t key = s_key (number);
    block_data_t *data;
    assert_int_equal (block_data_open (&data, cache, &key, BYTES), 0);
    return data;
}

static void
s_path (const world_t *world, unsigned int number, const char *file, char path [200])
{
    block_data_key_t key = s_key (number);
    snprintf (path, 200, "%s/%016llx%016llx/%s", world->folder, (unsigned long long) key.words [1],
        (unsigned long long) key.words [0], file);
}

static bool
s_is_there (const world_t *world, unsigned int number)
{
    char path [200];
    s_path (world, number, "data", path);
    return access (path, F_OK) == 0;
}

//  As du counts.
static uint64_t
s_disk_bytes (const char *folder)
{
    struct stat status;
    uint64_t bytes = lstat (folder, &status) == 0? (uint64_t) status.st_blocks * 512: 0;
    DIR *stream = opendir (folder);
    for (const struct dirent *item; stream && (item = readdir (stream));) {
        char path [400];
        snprintf (path, sizeof path, "%s/%s", folder, item->d_name);
        if (item->d_name [0] == '.')
            continue;
        if (lstat (path, &status) == 0 && S_ISDIR (status.st_mode))
            bytes += s_disk_bytes (path);
        else
            bytes += (uint64_t) status.st_blocks * 512;
    }
    if (stream)
        closedir (stream);
    return bytes;
}

static void
s_damage (const world_t *world, unsigned int number, const char *file, uint64_t offset)
{
    char path [200];
    s_path (world, number, file, path);
    int descriptor = open (path, O_RDWR);
    assert_true (descriptor >= 0);
    uint8_t byte = 0;
    assert_int_equal (pread (descriptor, &byte, 1, (off_t) offset), 1);
    byte ^= 0x10;
    assert_int_equal (pwrite (descriptor, &byte, 1, (off_t) offset), 1);
    close (descriptor);
}

typedef struct {
    uint64_t offset;
    size_t bytes;
} range_t;

static range_t
s_range (uint64_t *random, uint64_t units_most)
{
    uint64_t first = test_below (random, UNITS), count = 1 + test_below (random, units_most);
    uint64_t end = (first + count) * UNIT;
    end = end < BYTES? end: BYTES;
    return (range_t) { .offset = first * UNIT, .bytes = (size_t) (end - first * UNIT) };
}

//  Whatever is said to be here is right.
static block_data_gap_t
s_read (block_data_t *data, range_t range)
{
    memset (s_memory, 0xee, range.bytes);
    block_data_gap_t gap = block_data_read (data, range.offset, range.bytes, s_memory);
    assert_true (gap.begin <= gap.end && gap.end <= range.bytes);
    assert_memory_equal (s_memory, s_truth + range.offset, gap.begin);
    assert_memory_equal (s_memory + gap.end, s_truth + range.offset + gap.end, range.bytes - gap.end);
    return gap;
}

static void
s_store (block_data_t *data, range_t range, bool is_afresh)
{
    block_data_store (data, range.offset, range.bytes, s_truth + range.offset, is_afresh);
}


//  -- beside a model

typedef enum { NONE, HERE, DAMAGED } unit_t;

//  The gap that the model expects, and drops of damaged units that the cache has noticed.
static void
s_check_read (block_data_t *data, unit_t *model, range_t range, uint64_t seed)
{
    size_t first = (size_t) (range.offset / UNIT), count = (range.bytes + UNIT - 1) / UNIT, begin = 0, end;
    while (begin < count && model [first + begin] == HERE)
        begin++;
    for (end = count; end > begin && model [first + end - 1] == HERE; end--);
    size_t begin_bytes = begin * UNIT < range.bytes? begin * UNIT: range.bytes,
        end_bytes = begin == count? range.bytes: end * UNIT < range.bytes? end * UNIT: range.bytes;
    block_data_gap_t gap = s_read (data, range);
    if (gap.begin != begin_bytes || gap.end != end_bytes)
        fail_msg ("seed %" PRIu64 ": %zu .. %zu is missing of %zu, not %zu .. %zu", seed, gap.begin, gap.end,
            range.bytes, begin_bytes, end_bytes);
    for (size_t unit = first; unit < first + count; unit++)
        if (model [unit] == DAMAGED && !block_data_has (data, unit * UNIT, 1))
            model [unit] = NONE;
}

static void
s_check_store (block_data_t *data, unit_t *model, range_t range, bool is_afresh)
{
    s_store (data, range, is_afresh);
    for (uint64_t unit = range.offset / UNIT; unit * UNIT < range.offset + range.bytes; unit++)
        if (model [unit] == NONE || is_afresh)
            model [unit] = HERE;
}

//  Guards: what was stored is here, in both servers, and nothing else; damage is seen; what is read afresh is
//  right again.
static void
test_two_servers_beside_a_model (void **state)
{
    const world_t *world = *state;
    uint64_t seed = test_seed ();
    for (unsigned int round = 0; round < EFFORT (30); round++, seed++) {
        uint64_t random = seed;
        unit_t model [UNITS] = { NONE };
        block_cache_t *caches [2] = { s_cache (world, 64 << 20), s_cache (world, 64 << 20) };
        block_data_t *servers [2] = { s_data (caches [0], round), s_data (caches [1], round) };
        for (unsigned int step = 0; step < 300; step++) {
            unsigned int which = (unsigned int) test_below (&random, 2);
            range_t range = s_range (&random, test_below (&random, 4)? 20: UNITS);
            uint64_t choice = test_below (&random, 20);
            if (choice < 8)
                s_check_read (servers [which], model, range, seed);
            else
            if (choice < 16)
                s_check_store (servers [which], model, range, choice == 8);
            else
            if (choice < 18 && model [range.offset / UNIT] == HERE) {
                s_damage (world, round, "data", range.offset + test_below (&random, 1000));
                model [range.offset / UNIT] = DAMAGED;
            }
            else
            if (choice == 19) {                         //  a restart
                block_data_close (&servers [which]);
                servers [which] = s_data (caches [which], round);
            }
        }
        for (unsigned int which = 0; which < 2; which++) {
            s_check_read (servers [which], model, (range_t) { 0, BYTES }, seed);
            block_data_close (&servers [which]);
            block_cache_close (&caches [which]);
        }
    }
}

//  Guards: a key for each address, version and size.
static void
test_keys_differ (void **state)
{
    (void) state;
    block_data_key_t keys [5] = { { { 0, 0 } } };
    block_data_key_add (&keys [1], "u", "v", 1);
    block_data_key_add (&keys [2], "u", "v", 2);
    block_data_key_add (&keys [3], "u", "w", 1);
    block_data_key_add (&keys [4], "uv", "", 1);
    for (size_t one = 0; one < 5; one++)
        for (size_t other = 0; other < one; other++)
            assert_memory_not_equal (&keys [one], &keys [other], sizeof keys [one]);
    assert_int_equal (block_data_next (4096, 1), 8192);
    assert_int_equal (block_data_next (4096, 4096), 8192);
}


//  -- the bound

//  Guards: the disk never holds more than the bound, to the byte, with two servers that fill several data
//  sets; and the cache is nearly full at the end.
static void
test_never_beyond_the_bound (void **state)
{
    const world_t *world = *state;
    uint64_t random = test_seed (), most = (3 << 20) + 12345;
    block_cache_t *caches [2] = { s_cache (world, most), s_cache (world, most) };
    block_data_t *data [4];
    for (unsigned int number = 0; number < 4; number++)
        data [number] = s_data (caches [number % 2], number / 2);
    for (unsigned int step = 0; step < EFFORT (900); step++) {
        unsigned int which = (unsigned int) test_below (&random, 4);
        range_t range = s_range (&random, test_below (&random, 2)? 3: 100);
        if (test_below (&random, 10) == 0 && block_data_has (data [which], range.offset, 1)) {
            s_damage (world, which / 2, "data", range.offset);
            s_read (data [which], range);
        }
        s_store (data [which], range, test_below (&random, 10) == 0);
        uint64_t bytes = s_disk_bytes (world->folder), said = block_cache_figures (caches [which % 2]).bytes;
        if (bytes > said || said > most)
            fail_msg ("seed %" PRIu64 ", step %u: %" PRIu64 " bytes of %" PRIu64 ", said to be %" PRIu64,
                test_seed (), step, bytes, most, said);
    }
    sync ();                            //  the file system's maps are on the disk now
    assert_in_range (s_disk_bytes (world->folder), most - 200000, most);
    for (unsigned int number = 0; number < 4; number++)
        block_data_close (&data [number]);
    for (unsigned int which = 0; which < 2; which++) {
        assert_int_equal (block_cache_figures (caches [which]).failure, 0);
        block_cache_close (&caches [which]);
    }
}

//  When it was used last.
static void
s_set_time (const world_t *world, unsigned int number, time_t seconds, long nanoseconds)
{
    char path [200];
    struct timespec times [2] = { { seconds, nanoseconds }, { seconds, nanoseconds } };
    s_path (world, number, "lock", path);
    assert_int_equal (utimensat (AT_FDCWD, path, times, 0), 0);
}

//  Guards: for new data the data set goes that was not used for longest; those in use stay, and a smaller
//  bound removes at the start.
static void
test_the_longest_unused_goes_first (void **state)
{
    const world_t *world = *state;
    uint64_t most = 11 << 20;
    block_cache_t *cache = s_cache (world, most), *other = s_cache (world, most);
    block_data_t *data [5];
    for (unsigned int number = 0; number < 3; number++) {
        data [number] = s_data (cache, number);
        s_store (data [number], (range_t) { 0, BYTES }, false);
        assert_true (block_data_has (data [number], 0, BYTES));
    }
    for (unsigned int number = 0; number < 3; number++)
        block_data_close (&data [number]);
    s_set_time (world, 0, 900, 0);
    s_set_time (world, 1, 1001, 5);
    s_set_time (world, 2, 1000, 900);
    data [0] = s_data (other, 0);                       //  in use by another server, and used last
    data [3] = s_data (cache, 3);
    s_store (data [3], (range_t) { 0, BYTES }, false);
    assert_true (block_data_has (data [3], 0, BYTES));
    assert_false (s_is_there (world, 2));
    assert_true (s_is_there (world, 1));
    data [4] = s_data (cache, 4);
    s_store (data [4], (range_t) { 0, BYTES }, false);
    assert_true (block_data_has (data [4], 0, BYTES));
    assert_false (s_is_there (world, 1));
    assert_int_equal (s_read (data [0], (range_t) { 0, BYTES }).begin, BYTES);
    assert_in_range (s_disk_bytes (world->folder), 3 * BYTES, most);
    block_data_close (&data [0]);
    block_data_close (&data [3]);
    block_data_close (&data [4]);
    s_set_time (world, 0, 2000, 1);
    s_set_time (world, 3, 2000, 2);
    s_set_time (world, 4, 2000, 3);
    block_cache_close (&other);
    block_cache_close (&cache);
    cache = s_cache (world, 7 << 20);
    assert_false (s_is_there (world, 0));
    assert_true (s_is_there (world, 3) && s_is_there (world, 4));
    assert_true (s_disk_bytes (world->folder) <= 7 << 20);
    block_cache_close (&cache);
}

//  Guards: a data set for which there is no room is refused, and others go on.
static void
test_full_of_data_in_use (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world, 1 << 20);
    block_data_t *data = s_data (cache, 0), *none;
    s_store (data, (range_t) { 0, BYTES }, false);
    block_data_key_t key = s_key (1);
    assert_int_equal (block_data_open (&none, cache, &key, BYTES), -ENOSPC);
    assert_null (none);
    assert_int_equal (block_cache_figures (cache).failure, 0);
    assert_in_range (s_read (data, (range_t) { 0, BYTES }).begin, (1 << 20) - 80000, 1 << 20);
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: a server that knows of fewer bytes of the same data (its list of them is older) cuts off nothing
//  of what another one keeps, and both read what they know of.
static void
test_a_server_that_knows_of_less (void **state)
{
    const world_t *world = *state;
    block_data_key_t key = s_key (0);
    for (int is_open = 0; is_open < 2; is_open++) {
        block_cache_t *caches [2] = { s_cache (world, 8 << 20), s_cache (world, 8 << 20) };
        block_data_t *data = s_data (caches [0], 0), *less;
        s_store (data, (range_t) { 0, BYTES }, false);
        if (!is_open)
            block_data_close (&data);
        assert_int_equal (block_data_open (&less, caches [1], &key, 100 * UNIT), 0);
        block_data_gap_t gap = s_read (less, (range_t) { 0, 100 * UNIT });
        assert_int_equal (gap.begin, gap.end);
        block_data_close (&less);
        if (!is_open)
            data = s_data (caches [0], 0);
        gap = s_read (data, (range_t) { 0, BYTES });
        assert_int_equal (gap.begin, gap.end);
        assert_int_equal (block_cache_figures (caches [0]).damaged, 0);
        block_data_close (&data);
        for (int cache = 0; cache < 2; cache++)
            block_cache_close (&caches [cache]);
    }
}

//  Guards: a server that finds the cache full says so as soon as it has something to keep.
static void
test_full_from_the_start (void **state)
{
    const world_t *world = *state;
    for (int turn = 0; turn < 2; turn++) {
        block_cache_t *cache = s_cache (world, 1 << 20);
        block_data_t *data = s_data (cache, 0);
        s_store (data, (range_t) { 0, BYTES }, false);
        assert_true (block_data_is_full (data));
        block_data_close (&data);
        block_cache_close (&cache);
    }
}

//  Guards: whether all of a data set has room beside what others have.
static void
test_room_for_all (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world, BYTES);
    block_data_t *first = s_data (cache, 0), *second;
    assert_false (block_data_fits (first));
    block_data_close (&first);
    block_cache_close (&cache);
    cache = s_cache (world, 2 * BYTES);
    first = s_data (cache, 1);
    second = s_data (cache, 2);
    assert_true (block_data_fits (first) && block_data_fits (second));
    s_store (first, (range_t) { 0, BYTES }, false);
    assert_true (block_data_fits (first));
    assert_false (block_data_fits (second));
    block_data_close (&first);
    block_data_close (&second);
    block_cache_close (&cache);
}


//  -- what goes wrong

static void
s_refuse (const char *folder, int rc, const char *remedy)
{
    char error [ERROR_BYTES];
    block_cache_t *cache;
    assert_int_equal (block_cache_open (&cache, folder, 1 << 20, error, sizeof error), rc);
    assert_null (cache);
    assert_non_null (strstr (error, folder));
    if (!strstr (error, remedy))
        fail_msg ("'%s' is not in: %s", remedy, error);
}

//  Guards: folders that cannot be a cache are refused with the reason, and nothing in them is touched.
static void
test_folders_that_are_refused (void **state)
{
    const world_t *world = *state;
    char path [200];
    assert_int_equal (mkdir (world->folder, 0700), 0);
    snprintf (path, sizeof path, "%s/letter", world->folder);
    pattern_write (path, 1, 10);
    s_refuse (world->folder, -ENOTEMPTY, "give a folder that is empty");
    assert_int_equal (scratch_entries (world->folder), 1);
    s_refuse (path, -ENOTDIR, "give a folder");
    assert_int_equal (unlink (path), 0);
    assert_int_equal (chmod (world->folder, 0770), 0);
    s_refuse (world->folder, -EPERM, "chmod go-w");
    assert_int_equal (chmod (world->folder, 0700), 0);
    snprintf (path, sizeof path, "%s/none/cache", world->folder);
    s_refuse (path, -ENOENT, "or make it");
    if (geteuid () != 0) {
        assert_int_equal (chmod (world->folder, 0500), 0);
        s_refuse (world->folder, -EACCES, "may write to");
        assert_int_equal (chmod (world->folder, 0700), 0);
        s_refuse ("/", -EPERM, "another user");
    }
    snprintf (path, sizeof path, "%s/usage", world->folder);
    pattern_write (path, 1, 16);
    s_refuse (world->folder, -ENOTEMPTY, "is of something else");
    assert_int_equal (scratch_entries (world->folder), 1);
    //  An empty one is that of a server which was killed at its first start, if nothing else is there.
    char strange [200];
    snprintf (strange, sizeof strange, "%s/strange", world->folder);
    pattern_write (strange, 1, 16);
    assert_int_equal (truncate (path, 0), 0);
    s_refuse (world->folder, -ENOTEMPTY, "is of something else");
    assert_int_equal (unlink (strange), 0);
    block_cache_t *cache = s_cache (world, 1 << 20);
    assert_int_equal (block_cache_figures (cache).damaged, 0);
    block_cache_close (&cache);
    //  One that is cut within the word it begins with is a cache's still.
    assert_int_equal (truncate (path, 3), 0);
    pattern_write (strange, 1, 16);
    cache = s_cache (world, 1 << 20);
    block_cache_close (&cache);
}

//  Guards: damage to each file costs reads, never a wrong byte.
static void
test_damaged_files (void **state)
{
    const world_t *world = *state;
    static const struct { const char *file; uint64_t offset; size_t missing; } damages [] = {
        { "sums", 4096 + 4 * 10, UNIT }, { "data", 0, UNIT }, { "data", BYTES - 1, BYTES % UNIT },
        { "sums", 0, BYTES }            //  the head
    };
    for (size_t index = 0; index < sizeof damages / sizeof *damages; index++) {
        block_cache_t *cache = s_cache (world, 8 << 20);
        block_data_t *data = s_data (cache, 0);
        s_store (data, (range_t) { 0, BYTES }, false);
        assert_int_equal (s_read (data, (range_t) { 0, BYTES }).begin, BYTES);
        block_data_close (&data);
        s_damage (world, 0, damages [index].file, damages [index].offset);
        data = s_data (cache, 0);
        block_data_gap_t gap = s_read (data, (range_t) { 0, BYTES });
        assert_int_equal (gap.end - gap.begin, damages [index].missing);
        s_store (data, (range_t) { 0, BYTES }, false);
        assert_int_equal (s_read (data, (range_t) { 0, BYTES }).begin, BYTES);
        block_data_close (&data);
        block_cache_close (&cache);
    }
}

//  What a disk, or a person, may do to a file.
static const char *
s_harm (const char *path, uint64_t *random)
{
    static const char *const kinds [] = { "a bit", "zeros", "other bytes", "cut", "longer", "removed",
        "another version" };
    size_t kind = test_below (random, sizeof kinds / sizeof *kinds);
    struct stat status;
    int descriptor = open (path, O_RDWR);
    assert_true (descriptor >= 0);
    assert_int_equal (fstat (descriptor, &status), 0);
    //  Half of the harm is at the begin, where the records are.
    uint64_t size = (uint64_t) status.st_size, near = size < 24? size: 24,
        at = near == 0? 0: test_below (random, test_below (random, 2)? near: size);
    uint8_t bytes [64];
    size_t count = 1 + test_below (random, sizeof bytes);
    for (size_t index = 0; index < count; index++)
        bytes [index] = kind == 1? 0: (uint8_t) test_below (random, 256);
    count = kind == 1 || kind == 2? (at + count <= size? count: (size_t) (size - at)): 1;
    if (kind == 0 && size > 0) {
        assert_int_equal (pread (descriptor, bytes, 1, (off_t) at), 1);
        bytes [0] ^= (uint8_t) (1 << test_below (random, 8));
    }
    if (kind <= 2 && size > 0)
        assert_int_equal (pwrite (descriptor, bytes, count, (off_t) at), count);
    if (kind == 3 || kind == 4)
        assert_int_equal (ftruncate (descriptor, (off_t) (kind == 3? at: size + 1 + at)), 0);
    if (kind == 5)
        assert_int_equal (unlink (path), 0);
    if (kind == 6 && size >= 8)         //  the format's last digit
        assert_int_equal (pwrite (descriptor, "9", 1, 7), 1);
    close (descriptor);
    return kinds [kind];
}

//  Guards: whatever is done to a file, while a server has the cache or not, the cache opens, says nothing
//  wrong, keeps its bound, and is whole again once it has been stored again.
static void
test_harm_to_every_file (void **state)
{
    const world_t *world = *state;
    uint64_t random = test_seed (), most = 4 << 20;
    static const char *const files [] = { "usage", "data", "sums", "lock" };
    for (unsigned int round = 0; round < EFFORT (400); round++) {
        size_t file = test_below (&random, 4);
        bool is_open = test_below (&random, 2);
        block_cache_t *cache = s_cache (world, most);
        block_data_t *data = s_data (cache, 0);
        s_store (data, (range_t) { 0, BYTES }, false);
        if (!is_open) {
            block_data_close (&data);
            block_cache_close (&cache);
        }
        char path [200];
        if (file == 0)
            snprintf (path, sizeof path, "%s/usage", world->folder);
        else
            s_path (world, 0, files [file], path);
        const char *kind = s_harm (path, &random);
        if (is_open) {
            s_read (data, (range_t) { 0, BYTES });
            s_store (data, (range_t) { 0, BYTES }, false);
            s_store (data, s_range (&random, 30), true);
            s_read (data, (range_t) { 0, BYTES });
            block_data_close (&data);
            block_cache_close (&cache);
        }
        cache = s_cache (world, most);
        data = s_data (cache, 0);
        //  A read notices damage at both ends of the gap.
        for (unsigned int turn = 0; turn < 100 && s_read (data, (range_t) { 0, BYTES }).begin < BYTES; turn++)
            s_store (data, (range_t) { 0, BYTES }, false);
        block_cache_figures_t figures = block_cache_figures (cache);
        if (s_read (data, (range_t) { 0, BYTES }).begin != BYTES || figures.failure
        ||  s_disk_bytes (world->folder) > figures.bytes || figures.bytes > most)
            fail_msg ("seed %" PRIu64 ", round %u: %s, %s: failure %d, %" PRIu64 " of %" PRIu64, test_seed (),
                round, files [file], kind, figures.failure, s_disk_bytes (world->folder), figures.bytes);
        block_data_close (&data);
        block_cache_close (&cache);
    }
}

//  Guards: damage of the count is seen and counted, while a server has the cache too.
static void
test_a_damaged_count (void **state)
{
    const world_t *world = *state;
    char path [200];
    snprintf (path, sizeof path, "%s/usage", world->folder);
    block_cache_t *cache = s_cache (world, 8 << 20);
    block_data_t *data = s_data (cache, 0);
    s_store (data, (range_t) { 0, BYTES }, false);
    for (unsigned int bit = 0; bit < 24 * 8; bit++) {
        uint8_t bytes [24];
        int descriptor = open (path, O_RDWR);
        assert_int_equal (pread (descriptor, bytes, sizeof bytes, 0), sizeof bytes);
        bytes [bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal (pwrite (descriptor, bytes, sizeof bytes, 0), sizeof bytes);
        close (descriptor);
        s_read (data, (range_t) { 0, UNIT });
        assert_int_equal (block_cache_figures (cache).bytes, 0);
        s_store (data, (range_t) { 0, UNIT }, true);
        block_cache_figures_t figures = block_cache_figures (cache);
        assert_int_equal (figures.damaged, bit + 1);
        assert_int_equal (figures.failure, 0);
        uint64_t taken = s_disk_bytes (world->folder);
        assert_in_range (figures.bytes, taken, taken + (64 << 10));
    }
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: what was kept, and what else lies in the folder, counts as soon as it is opened again, though the
//  count itself is nonsense.
static void
test_all_counts_when_it_is_opened_again (void **state)
{
    const world_t *world = *state;
    static const uint8_t nonsense [24] = { 0xff, 0xee };
    char usage [200], strange [200];
    snprintf (usage, sizeof usage, "%s/usage", world->folder);
    snprintf (strange, sizeof strange, "%s/strange", world->folder);
    block_cache_t *cache = s_cache (world, 8 << 20);
    block_data_t *data = s_data (cache, 0);
    s_store (data, (range_t) { 0, BYTES }, false);
    uint64_t held = block_data_held_bytes (data);
    assert_true (held >= BYTES);
    for (int turn = 0; turn < 2; turn++) {
        block_data_close (&data);
        block_cache_close (&cache);
        int descriptor = open (turn? strange: usage, O_RDWR | O_CREAT, 0600);
        assert_true (descriptor >= 0);
        assert_int_equal (turn? pwrite (descriptor, s_truth, 256 << 10, 0):
            pwrite (descriptor, nonsense, sizeof nonsense, 0), turn? 256 << 10: sizeof nonsense);
        assert_int_equal (fsync (descriptor), 0);
        close (descriptor);
        cache = s_cache (world, 8 << 20);
        uint64_t taken = s_disk_bytes (world->folder);
        assert_in_range (block_cache_figures (cache).bytes, taken, taken + (64 << 10));
        data = s_data (cache, 0);
        assert_int_equal (block_data_held_bytes (data), held);
    }
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: a head that is damaged while its data set is open counts the data set once.
static void
test_a_damaged_head (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world, 8 << 20);
    block_data_t *data = s_data (cache, 0);
    s_store (data, (range_t) { 0, BYTES / UNIT / 2 * UNIT }, false);
    s_damage (world, 0, "sums", 8);
    s_store (data, (range_t) { 0, BYTES }, false);
    uint64_t taken = s_disk_bytes (world->folder);
    assert_in_range (block_cache_figures (cache).bytes, taken, taken + (64 << 10));
    assert_int_equal (block_cache_figures (cache).damaged, 1);
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: files of an earlier build are no damage; what they hold is read again.
static void
test_an_earlier_build (void **state)
{
    const world_t *world = *state;
    char paths [2] [200];
    snprintf (paths [0], sizeof paths [0], "%s/usage", world->folder);
    s_path (world, 0, "sums", paths [1]);
    block_cache_t *cache = s_cache (world, 8 << 20);
    block_data_t *data = s_data (cache, 0);
    s_store (data, (range_t) { 0, BYTES }, false);
    block_data_close (&data);
    block_cache_close (&cache);
    for (size_t index = 0; index < 2; index++) {
        int descriptor = open (paths [index], O_RDWR);
        assert_int_equal (pwrite (descriptor, index == 0? "tureenU1": "tureenB1", 8, 0), 8);
        close (descriptor);
    }
    cache = s_cache (world, 8 << 20);
    data = s_data (cache, 0);
    assert_int_equal (s_read (data, (range_t) { 0, BYTES }).begin, 0);
    assert_int_equal (block_cache_figures (cache).damaged, 0);
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: a unit that is whole, but in another's place, is not here.
static void
test_units_that_are_mixed_up (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world, 8 << 20);
    block_data_t *data = s_data (cache, 0);
    s_store (data, (range_t) { 0, BYTES }, false);
    char path [200];
    uint8_t unit [UNIT];
    static const struct { const char *file; off_t begin; size_t bytes; } files [] = {
        { "data", 0, UNIT }, { "sums", 4096, 4 } };
    for (size_t index = 0; index < 2; index++) {
        size_t bytes = files [index].bytes;
        off_t from = files [index].begin + 7 * (off_t) bytes, to = files [index].begin + 3 * (off_t) bytes;
        s_path (world, 0, files [index].file, path);
        int descriptor = open (path, O_RDWR);
        assert_int_equal (pread (descriptor, unit, bytes, from), bytes);
        assert_int_equal (pwrite (descriptor, unit, bytes, to), bytes);
        close (descriptor);
    }
    block_data_gap_t gap = s_read (data, (range_t) { 0, BYTES });
    assert_int_equal (gap.begin, 3 * UNIT);
    assert_int_equal (gap.end, 4 * UNIT);
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: a write that fails, once or for ever, ends the writing, and reading goes on with right bytes.
static void
s_sweep_writes (const world_t *world, int error, bool forever)
{
    uint64_t random = test_seed ();
    for (unsigned int nth = 1, number = 0; ; nth++, number++) {
        block_cache_t *cache = s_cache (world, 6 << 20);
        block_data_t *data = s_data (cache, number);
        s_store (data, (range_t) { 0, 100 * UNIT }, false);
        fault_arm (nth, error, forever);
        for (unsigned int step = 0; step < 12; step++) {
            s_store (data, s_range (&random, 300), step % 3 == 2);
            s_read (data, s_range (&random, UNITS));
        }
        bool struck = fault_disarm ();
        int failure = block_cache_figures (cache).failure;
        if (failure != (struck? -error: 0))
            fail_msg ("write %u failed: %d, noted %d", nth, struck, failure);
        s_read (data, (range_t) { 0, BYTES });
        assert_true (s_disk_bytes (world->folder) <= 6 << 20);
        block_data_close (&data);
        block_cache_close (&cache);
        cache = s_cache (world, 6 << 20);               //  a restart writes again
        data = s_data (cache, number);
        //  A read notices damage at both ends of the gap.
        for (unsigned int turn = 0; turn < 100 && s_read (data, (range_t) { 0, BYTES }).begin < BYTES; turn++)
            s_store (data, (range_t) { 0, BYTES }, false);
        assert_int_equal (s_read (data, (range_t) { 0, BYTES }).begin, BYTES);
        block_data_close (&data);
        block_cache_close (&cache);
        if (!struck)
            break;
    }
}

static void
test_writes_that_fail (void **state)
{
    s_sweep_writes (*state, ENOSPC, false);
    s_sweep_writes (*state, ENOSPC, true);
    s_sweep_writes (*state, EIO, false);
}

//  Guards: an error at the start has words, and leaves nothing open.
static void
test_starts_that_fail (void **state)
{
    const world_t *world = *state;
    for (unsigned int nth = 1; ; nth++) {
        char error [ERROR_BYTES];
        block_cache_t *cache;
        fault_arm (nth, ENOSPC, false);
        int rc = block_cache_open (&cache, world->folder, 1 << 20, error, sizeof error);
        if (!fault_disarm ()) {
            block_cache_close (&cache);
            break;
        }
        assert_int_equal (rc, -ENOSPC);
        assert_non_null (strstr (error, "free room"));
        assert_non_null (strstr (error, strerror (ENOSPC)));
    }
    block_cache_t *cache = s_cache (world, 1 << 20);
    block_data_key_t key = s_key (0);
    for (unsigned int nth = 1; ; nth++) {
        block_data_t *data;
        fault_arm (nth, ENOSPC, false);
        int rc = block_data_open (&data, cache, &key, BYTES);
        bool struck = fault_disarm ();
        block_data_close (&data);
        if (!struck)
            break;
        assert_true (rc == -ENOSPC || rc == 0);
    }
    block_cache_close (&cache);
}

//  Guards: a server that is killed at any moment leaves a cache in which all that is here is right, and that
//  is not larger than it says.
static void
test_killed_at_any_moment (void **state)
{
    const world_t *world = *state;
    uint64_t random = test_seed (), most = 2 << 20;
    for (unsigned int round = 0; round < EFFORT (60); round++) {
        block_cache_t *cache = s_cache (world, most);
        pid_t child = fork ();
        if (child == 0) {
            block_data_t *data = s_data (cache, round);
            for (;;)
                s_store (data, s_range (&random, 30), test_below (&random, 5) == 0);
        }
        nanosleep (&(struct timespec) { .tv_nsec = (long) (1 + test_below (&random, 15000)) * 1000 }, NULL);
        kill (child, SIGKILL);
        assert_int_equal (waitpid (child, NULL, 0), child);
        //  Before anything is measured anew.
        block_cache_look (cache, false);
        assert_true (s_disk_bytes (world->folder) <= block_cache_figures (cache).bytes);
        block_data_t *data = s_data (cache, round);
        for (uint64_t unit = 0; unit < UNITS; unit++) {
            range_t range = { unit * UNIT, unit + 1 < UNITS? UNIT: BYTES - unit * UNIT };
            s_read (data, range);
        }
        assert_true (s_disk_bytes (world->folder) <= most);
        block_data_close (&data);
        block_cache_close (&cache);
    }
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_two_servers_beside_a_model),
        CASE (test_keys_differ),
        CASE (test_never_beyond_the_bound),
        CASE (test_the_longest_unused_goes_first),
        CASE (test_a_server_that_knows_of_less),
        CASE (test_full_of_data_in_use),
        CASE (test_full_from_the_start),
        CASE (test_room_for_all),
        CASE (test_folders_that_are_refused),
        CASE (test_damaged_files),
        CASE (test_harm_to_every_file),
        CASE (test_a_damaged_count),
        CASE (test_all_counts_when_it_is_opened_again),
        CASE (test_a_damaged_head),
        CASE (test_an_earlier_build),
        CASE (test_units_that_are_mixed_up),
        CASE (test_writes_that_fail),
        CASE (test_starts_that_fail),
        CASE (test_killed_at_any_moment)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

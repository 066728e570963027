//  A cache's folder from outside: what a list says, what a check finds and throws away, and nothing else;
//  what a drop leaves alone; and what a later Tureen has written stays as it is.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "block_data.h"
#include "block_folder.h"
#include "effort.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum { UNIT = BLOCK_DATA_UNIT_BYTES, FILES = 40, FILE_UNITS_MAX = 6, UNITS = FILES * FILE_UNITS_MAX + 300,
    ERROR_BYTES = 700, FORMAT_AT = 7 };

static uint8_t s_truth [UNITS * UNIT], s_memory [UNITS * UNIT];

typedef struct {
    scratch_folder_t scratch;
    char folder [80];
} world_t;

static int
s_begin (void **state)
{
    static world_t world;
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (3, at);
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
s_cache (const world_t *world)
{
    char error [ERROR_BYTES];
    block_cache_t *cache;
    if (block_cache_open (&cache, world->folder, 64 << 20, error, sizeof error))
        fail_msg ("%s", error);
    return cache;
}

static block_cache_t *
s_guest (const world_t *world)
{
    char error [ERROR_BYTES];
    block_cache_t *cache;
    if (block_cache_open_guest (&cache, world->folder, error, sizeof error))
        fail_msg ("%s", error);
    return cache;
}

static block_data_key_t
s_key (unsigned int number)
{
    char url [40];
    block_data_key_t key = { { 0, 0 } };
    snprintf (url, sizeof url, "/folder/%u", number);
    block_data_key_add (&key, url, "1", 0);
    return key;
}

static block_data_t *
s_data (block_cache_t *cache, unsigned int number)
{
    block_data_key_t key = s_key (number);
    block_data_t *data;
    assert_int_equal (block_data_open (&data, cache, &key, sizeof s_truth), 0);
    return data;
}

static int
s_open (const world_t *world, unsigned int number, const char *file)
{
    char path [200];
    block_data_key_t key = s_key (number);
    snprintf (path, sizeof path, "%s/%016llx%016llx/%s", world->folder, (unsigned long long) key.words [1],
        (unsigned long long) key.words [0], file);
    int descriptor = open (path, O_RDWR);
    assert_true (descriptor >= 0);
    return descriptor;
}

static void
s_change (int descriptor, uint64_t offset)
{
    uint8_t byte;
    assert_int_equal (pread (descriptor, &byte, 1, (off_t) offset), 1);
    byte ^= 0x20;
    assert_int_equal (pwrite (descriptor, &byte, 1, (off_t) offset), 1);
}

typedef struct {
    block_folder_entry_t *entries;
    size_t count;
} list_t;

static list_t
s_list (block_cache_t *cache)
{
    list_t list;
    assert_int_equal (block_folder_list (cache, &list.entries, &list.count), 0);
    return list;
}

static struct timespec
s_used (const world_t *world, unsigned int number)
{
    struct stat status;
    int lock = s_open (world, number, "lock");
    assert_int_equal (fstat (lock, &status), 0);
    close (lock);
    return status.st_mtim;
}


//  -- lists

//  Guards: names, kinds, sizes and users are those of the data sets; what was noted first stays; a damaged
//  note, and none, are an unknown data set, of which nothing is lost.
static void
test_lists (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world);
    block_data_t *files = s_data (cache, 0), *volumes = s_data (cache, 1), *other = s_data (cache, 2);
    block_data_key_t key = s_key (7);
    block_data_note (files, BLOCK_NOTE_FILES, "/b", 12, 34 * UNIT, &(block_data_list_t) { .key = &key,
        .generation = 5 });
    block_data_note (volumes, BLOCK_NOTE_VOLUMES, "s3://a", 3, sizeof s_truth, NULL);
    block_data_note (NULL, BLOCK_NOTE_VOLUMES, "none", 3, 4, NULL);
    block_data_store (volumes, 0, 10 * UNIT, s_truth, false);
    block_data_store (other, 0, 5 * UNIT, s_truth, false);
    block_data_close (&files);
    block_cache_t *guest = s_guest (world);
    list_t list = s_list (guest);
    assert_int_equal (list.count, 3);
    const block_folder_entry_t *unknown = &list.entries [0], *one = &list.entries [2],
        *two = &list.entries [1];
    assert_int_equal (unknown->note.kind, BLOCK_NOTE_UNKNOWN);
    assert_true (unknown->is_open && unknown->held_bytes == 5 * UNIT && unknown->bytes == sizeof s_truth);
    assert_string_equal (two->note.name, "/b");
    assert_true (!two->is_open && two->held_bytes == 0 && two->note.count == 12 && two->bytes == 34 * UNIT);
    assert_memory_equal (two->note.list, key.words, sizeof key.words);
    assert_int_equal (two->note.generation, 5);
    assert_string_equal (one->note.name, "s3://a");
    assert_true (one->is_open && one->held_bytes == 10 * UNIT && one->taken_bytes >= 10 * UNIT);
    assert_true (one->used_s > 0 && one->note.made_s > 0);
    free (list.entries);

    //  Another name, as of another spelling; made_s stays.
    int sums = s_open (world, 1, "sums");
    block_note_t note;
    assert_true (block_data_read_note (sums, &note));
    int64_t made_s = note.made_s;
    block_data_note (volumes, BLOCK_NOTE_VOLUMES, "s3://other", 3, sizeof s_truth, NULL);
    assert_true (block_data_read_note (sums, &note) && note.made_s == made_s);
    assert_string_equal (note.name, "s3://other");
    s_change (sums, 64 + 100);
    assert_false (block_data_read_note (sums, &note));
    assert_int_equal (note.kind, BLOCK_NOTE_UNKNOWN);
    close (sums);
    assert_int_equal (block_data_read (volumes, 0, 10 * UNIT, s_memory).begin, 10 * UNIT);
    assert_int_equal (block_cache_figures (cache).damaged, 0);
    block_data_close (&volumes);
    block_data_close (&other);
    block_cache_close (&guest);
    block_cache_close (&cache);
}

static void
s_refuse (const world_t *world, int rc, const char *reason)
{
    char error [ERROR_BYTES];
    block_cache_t *cache;
    assert_int_equal (block_cache_open_guest (&cache, world->folder, error, sizeof error), rc);
    assert_null (cache);
    if (!strstr (error, reason) || !fault_has_words (error))
        fail_msg ("'%s' is not in: %s", reason, error);
}

//  Guards: what is no cache, or another user's, is said to be that, and nothing is made there.
static void
test_folders_that_are_refused (void **state)
{
    const world_t *world = *state;
    char path [200];
    s_refuse (world, -ENOENT, "there is no cache");
    assert_int_not_equal (access (world->folder, F_OK), 0);
    assert_int_equal (mkdir (world->folder, 0700), 0);
    s_refuse (world, -ENOENT, "--disk DIR=BYTES");
    snprintf (path, sizeof path, "%s/usage", world->folder);
    pattern_write (path, 1, 100);
    s_refuse (world, -ENOTEMPTY, "there is no cache");
    assert_int_equal (scratch_entries (world->folder), 1);
    //  Nor is it written to.
    struct stat status;
    assert_int_equal (truncate (path, 0), 0);
    s_refuse (world, -ENOTEMPTY, "there is no cache");
    assert_int_equal (stat (path, &status), 0);
    assert_int_equal (status.st_size, 0);
    assert_int_equal (unlink (path), 0);
    assert_int_equal (scratch_entries (world->folder), 0);
    if (geteuid () == 0) {
        assert_int_equal (chown (world->folder, 12345, 12345), 0);
        s_refuse (world, -EPERM, "run this as that user");
    }
}


//  -- guests

//  Guards: a guest reads what is there, makes and keeps nothing, and leaves the time of the last use.
static void
test_a_guest_changes_nothing (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world);
    block_data_t *data = s_data (cache, 0);
    block_data_store (data, 0, 10 * UNIT, s_truth, false);
    block_data_close (&data);
    block_cache_close (&cache);
    int lock = s_open (world, 0, "lock");
    assert_int_equal (futimens (lock, (struct timespec []) { { .tv_sec = 5 }, { .tv_sec = 5 } }), 0);
    close (lock);
    cache = s_guest (world);
    block_data_key_t key = s_key (1);
    assert_int_equal (block_data_open (&data, cache, &key, UNIT), -ENOENT);
    data = s_data (cache, 0);
    assert_int_equal (block_data_read (data, 0, 10 * UNIT, s_memory).begin, 10 * UNIT);
    assert_memory_equal (s_memory, s_truth, 10 * UNIT);
    block_data_store (data, 10 * UNIT, 10 * UNIT, s_truth + 10 * UNIT, false);
    assert_false (block_data_has_some (data, 10 * UNIT, 10 * UNIT));
    assert_false (block_data_drop (data, 0, UNIT));
    assert_true (block_data_has (data, 0, 10 * UNIT));
    //  Not one that a server makes room by.
    block_cache_t *server = s_cache (world);
    list_t list = s_list (server);
    uint64_t freed;
    assert_true (list.count == 1 && list.entries [0].is_open);
    assert_int_equal (block_folder_drop (server, list.entries, 1, &freed), -EBUSY);
    free (list.entries);
    block_cache_close (&server);
    block_data_close (&data);
    block_cache_close (&cache);
    assert_int_equal (s_used (world, 0).tv_sec, 5);
}


//  -- checks

typedef struct {
    block_folder_file_t files [FILES];
    uint64_t random;
    bool is_here [UNITS], is_damaged [UNITS];
    uint64_t held, damaged;
} model_t;

//  Files, or objects, of which some are kept, or only their first units are: a server was killed.
static void
s_fill (model_t *self, block_data_t *data, bool have_owners)
{
    uint64_t place = 0;
    for (size_t index = 0; index < FILES; index++) {
        block_folder_file_t *file = &self->files [index];
        *file = (block_folder_file_t) { .owner = have_owners? 1000 + index: 0, .place = place,
            .bytes = 1 + test_below (&self->random, FILE_UNITS_MAX * UNIT) };
        place = block_data_next (place, file->bytes);
        uint64_t bytes = file->bytes, kind = test_below (&self->random, 4);
        if (kind == 0)
            continue;
        if (kind == 1 && bytes > UNIT)
            bytes = UNIT;
        if (have_owners)
            block_data_store_owned (data, file->owner, file->place, bytes, s_truth + file->place);
        else
            block_data_store (data, file->place, bytes, s_truth + file->place, false);
        for (uint64_t unit = file->place / UNIT; unit * UNIT < file->place + bytes; unit++)
            self->is_here [unit] = true;
    }
    for (size_t unit = 0; unit < UNITS; unit++)
        self->held += self->is_here [unit];
}

//  Of a unit: a bit of its bytes, or of its checksum.
static void
s_harm (model_t *self, const world_t *world)
{
    int data = s_open (world, 0, "data"), sums = s_open (world, 0, "sums");
    for (uint64_t unit = 0; unit < UNITS; unit++) {
        if (!self->is_here [unit] || test_below (&self->random, 6) > 0)
            continue;
        if (test_below (&self->random, 2))
            s_change (data, unit * UNIT);
        else
            s_change (sums, UNIT + 4 * unit + test_below (&self->random, 3));
        self->is_damaged [unit] = true;
        self->damaged++;
    }
    close (data);
    close (sums);
}

//  What is left is what was not damaged, and it is right.
static void
s_look (const model_t *self, const world_t *world, bool have_owners)
{
    block_cache_t *cache = s_cache (world);
    block_data_t *data = s_data (cache, 0);
    for (size_t index = 0; index < FILES; index++) {
        const block_folder_file_t *file = &self->files [index];
        bool is_whole = true;
        for (uint64_t unit = file->place / UNIT; unit * UNIT < file->place + file->bytes; unit++) {
            bool is_here = self->is_here [unit] && !self->is_damaged [unit];
            assert_int_equal (block_data_has (data, unit * UNIT, 1), is_here);
            is_whole = is_whole && is_here;
        }
        bool is_read = have_owners? block_data_read_owned (data, file->owner, file->place, file->bytes,
            s_memory): block_data_read (data, file->place, file->bytes, s_memory).begin == file->bytes;
        assert_int_equal (is_read, is_whole);
        if (is_read)
            assert_memory_equal (s_memory, s_truth + file->place, file->bytes);
    }
    assert_int_equal (block_cache_figures (cache).damaged, 0);
    block_data_close (&data);
    block_cache_close (&cache);
}

//  Guards: of files and of objects of any size, a check finds each damaged unit, throws it away, and leaves
//  the rest; a second one finds nothing.
static void
s_check_damage (const world_t *world, uint64_t seed, bool have_owners, bool is_noted, bool is_in_use)
{
    static model_t model;
    model = (model_t) { .random = seed };
    block_cache_t *cache = s_cache (world);
    block_data_t *data = s_data (cache, 0);
    if (is_noted)
        block_data_note (data, have_owners? BLOCK_NOTE_FILES: BLOCK_NOTE_OBJECTS, "/a", FILES, 0, NULL);
    s_fill (&model, data, have_owners);
    if (!is_in_use)
        block_data_close (&data);
    s_harm (&model, world);
    block_cache_t *guest = s_guest (world);
    list_t list = s_list (guest);
    assert_true (list.count == 1 && list.entries [0].is_open == is_in_use);
    for (int turn = 0; turn < 2; turn++) {
        block_folder_check_t check;
        assert_int_equal (block_folder_check (guest, list.entries, have_owners? model.files: NULL,
            have_owners? FILES: 0, NULL, NULL, &check), 0);
        assert_true (check.is_checked);
        assert_int_equal (check.held, turn == 0? model.held: model.held - model.damaged);
        assert_int_equal (check.damaged, turn == 0? model.damaged: 0);
        assert_int_equal (check.unowned, 0);
    }
    free (list.entries);
    block_cache_close (&guest);
    block_data_close (&data);
    block_cache_close (&cache);
    s_look (&model, world, have_owners);
    cache = s_cache (world);
    list = s_list (cache);
    uint64_t freed, before = block_cache_figures (cache).bytes;
    assert_int_equal (block_folder_drop (cache, list.entries, 1, &freed), 0);
    assert_true (freed > 0 && before - freed == block_cache_figures (cache).bytes);
    free (list.entries);
    block_cache_close (&cache);
    assert_int_equal (scratch_entries (world->folder), 1);
}

static void
test_damage_is_found (void **state)
{
    const world_t *world = *state;
    uint64_t random = test_seed ();
    for (unsigned int round = 0; round < EFFORT (40); round++) {
        uint64_t seed = test_below (&random, UINT64_MAX);
        s_check_damage (world, seed, round % 2, round % 4 < 2 || round % 2, round % 3 == 0);
    }
}

//  Guards: files without their list are not judged, and nothing of them is thrown away; with a list, what
//  belongs to no file goes, unless a server has the data set open, or it lies behind all files of the list.
static void
test_owners_that_are_not_known (void **state)
{
    const world_t *world = *state;
    for (int is_noted = 0; is_noted < 2; is_noted++) {
        static model_t model;
        model = (model_t) { .random = test_seed () };
        block_cache_t *cache = s_cache (world);
        block_data_t *data = s_data (cache, 0);
        if (is_noted)
            block_data_note (data, BLOCK_NOTE_FILES, "/a", FILES, 0, NULL);
        s_fill (&model, data, true);
        block_cache_t *guest = s_guest (world);
        list_t list = s_list (guest);
        block_folder_check_t check;
        assert_int_equal (block_folder_check (guest, list.entries, NULL, 0, NULL, NULL, &check), 0);
        assert_false (check.is_checked);
        assert_int_equal (check.damaged + check.held, 0);
        //  The first half of the files has gone, and the last ones have come since the list was read.
        enum { GONE = FILES / 2, LISTED = FILES - 5 };
        const block_folder_file_t *listed = model.files + GONE, *next = &model.files [LISTED];
        uint64_t gone = 0, judged = 0;
        for (uint64_t unit = 0; unit < next->place / UNIT; unit++) {
            gone += model.is_here [unit] && unit * UNIT < listed->place;
            judged += model.is_here [unit];
        }
        assert_true (gone > 0 && model.held > judged);
        for (int turn = 0; turn < 3; turn++) {
            assert_int_equal (block_folder_check (guest, list.entries, listed, LISTED - GONE, NULL, NULL,
                &check), 0);
            assert_int_equal (check.unowned, turn < 2? gone: 0);
            assert_int_equal (check.damaged, 0);
            assert_int_equal (check.held, turn < 2? judged: judged - gone);
            if (turn == 0) {
                block_data_close (&data);
                s_look (&model, world, true);
            }
        }
        data = s_data (cache, 0);
        for (uint64_t unit = 0; unit < UNITS; unit++)
            assert_int_equal (block_data_has (data, unit * UNIT, 1), model.is_here [unit]
                && unit * UNIT >= listed->place);
        block_data_close (&data);
        uint64_t freed;
        assert_int_equal (block_folder_drop (guest, list.entries, 1, &freed), 0);
        free (list.entries);
        block_cache_close (&guest);
        block_cache_close (&cache);
    }
}


//  -- what has owners

//  Guards: of a file that is kept, what is damaged while its checksum is whole, and what was cut off, is read
//  at its source once: then it is here again.
static void
test_what_has_an_owner_is_mended (void **state)
{
    const world_t *world = *state;
    enum { OWNER = 77, FIRST = 3, BYTES = 9 * UNIT - 100 };
    const uint8_t *truth = s_truth + FIRST * UNIT;
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        block_cache_t *cache = s_cache (world);
        block_data_t *data = s_data (cache, 0);
        block_data_store_owned (data, OWNER, FIRST * UNIT, BYTES, truth);
        assert_true (block_data_read_owned (data, OWNER, FIRST * UNIT, BYTES, s_memory));
        int file = s_open (world, 0, "data");
        if (is_cut)
            assert_int_equal (ftruncate (file, (FIRST + 5) * UNIT + 10), 0);
        else {
            s_change (file, (FIRST + 2) * UNIT + 7);
            s_change (file, FIRST * UNIT + BYTES - 1);
        }
        close (file);
        assert_false (block_data_read_owned (data, OWNER, FIRST * UNIT, BYTES, s_memory));
        block_data_store_owned (data, OWNER, FIRST * UNIT, BYTES, truth);
        memset (s_memory, 0, BYTES);
        assert_true (block_data_read_owned (data, OWNER, FIRST * UNIT, BYTES, s_memory));
        assert_memory_equal (s_memory, truth, BYTES);
        assert_int_equal (block_cache_figures (cache).damaged, is_cut? 4: 2);
        //  What is here is not written again.
        struct stat before, after;
        file = s_open (world, 0, "data");
        assert_int_equal (futimens (file, (struct timespec []) { { .tv_sec = 5 }, { .tv_sec = 5 } }), 0);
        assert_int_equal (fstat (file, &before), 0);
        block_data_store_owned (data, OWNER, FIRST * UNIT, BYTES, truth);
        assert_int_equal (fstat (file, &after), 0);
        assert_int_equal (after.st_mtim.tv_sec, before.st_mtim.tv_sec);
        close (file);
        block_data_drop (data, 0, sizeof s_truth);
        block_data_close (&data);
        block_cache_close (&cache);
    }
}


//  -- drops

//  Guards: all or none; what servers use stays.
static void
test_drops (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world);
    block_data_t *used = s_data (cache, 0), *other = s_data (cache, 1);
    //  The one that could go is the first.
    block_data_note (used, BLOCK_NOTE_FILES, "/b", 1, UNIT, NULL);
    block_data_note (other, BLOCK_NOTE_FILES, "/a", 1, UNIT, NULL);
    block_data_store (other, 0, 50 * UNIT, s_truth, false);
    block_data_close (&other);
    list_t list = s_list (cache);
    uint64_t freed;
    assert_int_equal (block_folder_drop (cache, list.entries, 2, &freed), -EBUSY);
    assert_true (!list.entries [0].is_open && list.entries [1].is_open && freed == 0);
    assert_int_equal (scratch_entries (world->folder), 3);
    assert_int_equal (block_folder_drop (cache, list.entries, 1, &freed), 0);
    assert_true (freed >= 50 * UNIT);
    free (list.entries);
    block_data_store (used, 0, 3 * UNIT, s_truth, false);
    assert_true (block_data_has (used, 0, 3 * UNIT));
    block_data_close (&used);
    block_cache_close (&cache);
}


//  Guards: what has gone since it was listed, because a server made room, keeps nothing else from going.
static void
test_what_has_gone_meanwhile (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world);
    for (unsigned int number = 0; number < 3; number++) {
        block_data_t *data = s_data (cache, number);
        block_data_store (data, 0, 10 * UNIT, s_truth, false);
        block_data_close (&data);
    }
    list_t list = s_list (cache);
    uint64_t freed;
    assert_int_equal (list.count, 3);
    assert_int_equal (block_folder_drop (cache, &list.entries [1], 1, &freed), 0);
    assert_int_equal (block_folder_drop (cache, list.entries, 3, &freed), 0);
    assert_true (freed >= 20 * UNIT);
    free (list.entries);
    list = s_list (cache);
    assert_int_equal (list.count, 0);
    free (list.entries);
    block_cache_close (&cache);
}


//  -- later formats

//  As a later Tureen would write it: another format, and the sum of what stands before it.
static void
s_make_newer (int descriptor, size_t sum_at)
{
    uint8_t record [64];
    assert_int_equal (pread (descriptor, record, sizeof record, 0) >= (ssize_t) sum_at + 8, true);
    record [FORMAT_AT]++;
    uint64_t sum = XXH3_64bits (record, sum_at);
    memcpy (record + sum_at, &sum, sizeof sum);
    assert_int_equal (pwrite (descriptor, record, sum_at + 8, 0), sum_at + 8);
}

static void
s_read_all (const char *path, uint8_t bytes [32])
{
    int descriptor = open (path, O_RDONLY);
    memset (bytes, 0, 32);
    assert_true (pread (descriptor, bytes, 32, 0) > 0);
    close (descriptor);
}

//  Guards: a cache, or a data set, of a later Tureen is refused in words, and stays byte for byte as it is;
//  a server that runs while a later one takes the folder over writes nothing more.
static void
test_a_later_tureen (void **state)
{
    const world_t *world = *state;
    block_cache_t *cache = s_cache (world);
    block_data_t *data = s_data (cache, 0);
    block_data_store (data, 0, 10 * UNIT, s_truth, false);
    block_data_close (&data);
    int sums = s_open (world, 0, "sums");
    s_make_newer (sums, 24);
    block_data_key_t key = s_key (0);
    assert_int_equal (block_data_open (&data, cache, &key, sizeof s_truth), -ENOTSUP);
    list_t list = s_list (cache);
    block_folder_check_t check;
    assert_true (list.count == 1 && list.entries [0].is_newer);
    assert_int_equal (block_folder_check (cache, list.entries, NULL, 0, NULL, NULL, &check), -ENOTSUP);
    free (list.entries);
    assert_true (block_cache_is_newer (sums));
    close (sums);
    assert_int_equal (block_cache_figures (cache).damaged, 0);

    data = s_data (cache, 1);
    char path [200], error [ERROR_BYTES];
    snprintf (path, sizeof path, "%s/usage", world->folder);
    int usage = open (path, O_RDWR);
    s_make_newer (usage, 16);
    close (usage);
    uint8_t before [32], after [32];
    s_read_all (path, before);
    block_data_store (data, 0, 10 * UNIT, s_truth, false);
    assert_false (block_data_has_some (data, 0, 10 * UNIT));
    assert_int_equal (block_cache_figures (cache).failure, -ENOTSUP);
    block_data_close (&data);
    block_cache_close (&cache);
    for (int as_guest = 0; as_guest < 2; as_guest++) {
        assert_int_equal (as_guest? block_cache_open_guest (&cache, world->folder, error, sizeof error):
            block_cache_open (&cache, world->folder, 64 << 20, error, sizeof error), -ENOTSUP);
        assert_non_null (strstr (error, "a later Tureen has written it"));
    }
    s_read_all (path, after);
    assert_memory_equal (before, after, sizeof before);

    //  Another format with a wrong sum is damage, as any other.
    usage = open (path, O_RDWR);
    s_change (usage, 9);
    close (usage);
    cache = s_cache (world);
    assert_int_equal (block_cache_figures (cache).damaged, 1);
    block_cache_close (&cache);
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_lists),
        CASE (test_folders_that_are_refused),
        CASE (test_a_guest_changes_nothing),
        CASE (test_damage_is_found),
        CASE (test_owners_that_are_not_known),
        CASE (test_what_has_an_owner_is_mended),
        CASE (test_drops),
        CASE (test_what_has_gone_meanwhile),
        CASE (test_a_later_tureen)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

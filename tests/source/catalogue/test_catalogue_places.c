//  Which part of the local disk's cache each file of a folder has: a file that stays as it is keeps its part,
//  whatever becomes of others; and no file gets another one's bytes, whatever becomes of the list.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "catalogue_places.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, FILES = 40, CLASSES = 4, BYTES_MAX = 3 * UNIT, ROUNDS = 60, SERVERS = 2,
    ERROR_BYTES = 600
};

//  Of the space of a list.
#define LIST_BYTES (INT64_C (1) << 31)

//  A file as it was at some time.
typedef struct {
    bool is_there;
    uint32_t content;
    size_t bytes;
    int64_t changed;
} file_t;

//  A server: its cache, and the data set as it was when it walked through the folder.
typedef struct {
    block_cache_t *cache;
    catalogue_t *catalogue;
    file_t walked [FILES];
    bool is_stored [FILES];
} server_t;

typedef struct {
    scratch_folder_t scratch;
    server_t servers [SERVERS];
    file_t files [FILES];
    catalogue_keep_t keep;
    uint64_t random;
    uint32_t contents;
    int64_t time;
} world_t;

//  The type of the data's file system; 0: as it is.
static uint32_t s_type;

int __real_fstatfs (int fd, struct statfs *status);
int __wrap_fstatfs (int fd, struct statfs *status);

int
__wrap_fstatfs (int fd, struct statfs *status)
{
    int rc = __real_fstatfs (fd, status);
    if (s_type)
        status->f_type = (__typeof__ (status->f_type)) s_type;
    return rc;
}

//  The process ends when the first file is given up.
static bool s_ends;
//  Or the disk does not answer when lists are to be given up; or files, but for so many times before.
static bool s_keeps_lists;
static size_t s_drops_left;

bool __real_block_data_drop (block_data_t *self, uint64_t offset, uint64_t bytes);
bool __wrap_block_data_drop (block_data_t *self, uint64_t offset, uint64_t bytes);

bool
__wrap_block_data_drop (block_data_t *self, uint64_t offset, uint64_t bytes)
{
    bool is_list = (int64_t) block_data_bytes (self) >= LIST_BYTES;
    if (s_ends && !is_list)
        _exit (77);
    if (is_list? s_keeps_lists: s_drops_left == 0)
        return false;
    s_drops_left -= !is_list;
    return __real_block_data_drop (self, offset, bytes);
}

static void
s_path (const world_t *world, size_t file, char path [200])
{
    snprintf (path, 200, "%s/data/c%zu/f%02zu.jpg", world->scratch.path, file % CLASSES, file);
}

//  Writes the file anew, with a time of its own.
static void
s_write (world_t *world, size_t file, size_t bytes)
{
    char path [200];
    s_path (world, file, path);
    world->files [file] = (file_t) { .is_there = true, .content = ++world->contents, .bytes = bytes,
        .changed = ++world->time };
    pattern_write (path, world->contents, bytes);
    struct timespec times [2] = { { .tv_sec = world->time }, { .tv_sec = world->time } };
    assert_int_equal (utimensat (AT_FDCWD, path, times, 0), 0);
}

static void
s_remove (world_t *world, size_t file)
{
    char path [200];
    s_path (world, file, path);
    if (world->files [file].is_there)
        assert_int_equal (unlink (path), 0);
    world->files [file].is_there = false;
}

static void
s_open (world_t *world, server_t *server)
{
    char data [100], error [ERROR_BYTES];
    snprintf (data, sizeof data, "%s/data", world->scratch.path);
    catalogue_destroy (&server->catalogue);
    catalogue_options_t options = { .path = data, .cache = server->cache, .keep = world->keep,
        .allow_empty = true };
    if (catalogue_open (&server->catalogue, &options, error, sizeof error))
        fail_msg ("%s", error);
    memcpy (server->walked, world->files, sizeof world->files);
}

static void
s_start (world_t *world, server_t *server, uint64_t bytes)
{
    char folder [100], error [ERROR_BYTES];
    snprintf (folder, sizeof folder, "%s/cache", world->scratch.path);
    if (block_cache_open (&server->cache, folder, bytes, error, sizeof error))
        fail_msg ("%s", error);
    s_open (world, server);
}

static void
s_stop (server_t *server)
{
    catalogue_destroy (&server->catalogue);
    block_cache_close (&server->cache);
}

static int
s_begin (void **state)
{
    static world_t world;
    world = (world_t) { .random = test_seed (), .time = 1000, .keep = CATALOGUE_KEEP_ALL };
    s_type = 0;
    s_keeps_lists = false;
    s_drops_left = SIZE_MAX;
    char path [200];
    if (!scratch_begin (&world.scratch))
        return -1;
    snprintf (path, sizeof path, "%s/data", world.scratch.path);
    assert_int_equal (mkdir (path, 0700), 0);
    for (size_t number = 0; number < CLASSES; number++) {
        snprintf (path, sizeof path, "%s/data/c%zu", world.scratch.path, number);
        assert_int_equal (mkdir (path, 0700), 0);
    }
    for (size_t file = 0; file < FILES; file++)
        s_write (&world, file, 1 + test_below (&world.random, BYTES_MAX));
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    for (size_t number = 0; number < SERVERS; number++)
        s_stop (&world->servers [number]);
    return scratch_end (&world->scratch)? 0: -1;
}

static size_t
s_file (const catalogue_t *catalogue, uint32_t id)
{
    char path [200];
    unsigned folder, file;
    catalogue_path (catalogue, id, 0, path, sizeof path);
    assert_int_equal (sscanf (path, "c%u/f%u.jpg", &folder, &file), 2);
    return file;
}

//  Whether the sample's bytes are there; if they are, they are those of the file that the server saw.
static bool
s_is_here (const server_t *server, uint32_t id)
{
    int rc;
    static uint8_t memory [BYTES_MAX];
    block_data_t *blocks = catalogue_blocks (server->catalogue, 0, &rc);
    const file_t *file = &server->walked [s_file (server->catalogue, id)];
    assert_non_null (blocks);
    assert_int_equal (catalogue_file_bytes (server->catalogue, id, 0), file->bytes);
    if (!block_data_read_owned (blocks, catalogue_owner (server->catalogue, id, 0), catalogue_place (
        server->catalogue, id, 0), file->bytes, memory))
        return false;
    for (size_t at = 0; at < file->bytes; at++)
        if (memory [at] != pattern_byte (file->content, at))
            fail_msg ("sample %u has another file's bytes (TEST_SEED=%" PRIu64 ")", id, test_seed ());
    return true;
}

//  As a reader does it: what is not there is read of the folder, and kept if it is what the server saw.
static void
s_read (const world_t *world, server_t *server, uint32_t id)
{
    int rc;
    static uint8_t memory [BYTES_MAX];
    char path [200];
    size_t number = s_file (server->catalogue, id);
    if (s_is_here (server, id)) {
        server->is_stored [number] = true;
        return;
    }
    s_path (world, number, path);
    int fd = open (path, O_RDONLY);
    if (fd < 0)
        return;
    ssize_t bytes = read (fd, memory, sizeof memory);
    bool is_unchanged = catalogue_places_is_unchanged (server->catalogue, id, 0, fd);
    const file_t *seen = &server->walked [number], *now = &world->files [number];
    assert_int_equal (is_unchanged, seen->changed == now->changed && seen->bytes == now->bytes);
    server->is_stored [number] = is_unchanged;
    if (is_unchanged)
        block_data_store_owned (catalogue_blocks (server->catalogue, 0, &rc), catalogue_owner (
            server->catalogue, id, 0), catalogue_place (server->catalogue, id, 0), (size_t) bytes, memory);
    close (fd);
}

static void
s_read_all (const world_t *world, server_t *server)
{
    for (uint32_t id = 0; id < catalogue_samples (server->catalogue); id++)
        s_read (world, server, id);
}

//  So many samples are there.
static size_t
s_here (const server_t *server)
{
    size_t here = 0;
    for (uint32_t id = 0; id < catalogue_samples (server->catalogue); id++)
        here += s_is_here (server, id);
    return here;
}

//  Parts are behind one another, in units.
static void
s_assert_parts_are_apart (const server_t *server)
{
    const catalogue_t *catalogue = server->catalogue;
    int rc;
    uint64_t bytes = block_data_bytes (catalogue_blocks (catalogue, 0, &rc));
    for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
        uint64_t begin = catalogue_place (catalogue, id, 0), end = block_data_next (begin,
            catalogue_file_bytes (catalogue, id, 0));
        assert_true (begin % UNIT == 0 && end <= bytes);
        for (uint32_t other = 0; other < id; other++) {
            uint64_t place = catalogue_place (catalogue, other, 0);
            assert_true (end <= place || block_data_next (place, catalogue_file_bytes (catalogue, other, 0))
                <= begin);
        }
    }
}

static void
test_later_servers_find_what_stays_as_it_is (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    s_start (world, server, 8 << 20);
    s_assert_parts_are_apart (server);
    assert_int_equal (s_here (server), 0);
    s_read_all (world, server);
    assert_int_equal (s_here (server), FILES);
    s_stop (server);
    s_start (world, server, 8 << 20);
    assert_int_equal (s_here (server), FILES);
    s_write (world, 3, 2 * UNIT);
    s_write (world, 4, world->files [4].bytes);         //  the same size: its time tells
    s_remove (world, 5);
    s_open (world, server);
    assert_int_equal (catalogue_samples (server->catalogue), FILES - 1);
    assert_int_equal (s_here (server), FILES - 3);
    s_assert_parts_are_apart (server);
}

//  Files that lie together are of different classes, which a piece that is read as a whole wants.
static void
test_parts_are_in_random_order (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    s_start (world, server, 8 << 20);
    size_t rises = 0;
    for (uint32_t id = 1; id < FILES; id++)
        rises += catalogue_place (server->catalogue, id, 0) > catalogue_place (server->catalogue, id - 1, 0);
    //  Of 39 neighbours half rise; below 8 or above 31 falls to less than one order in 10,000,000.
    assert_in_range (rises, 8, 31);
}

//  Changes of the folder, starts of two servers and reads, in any order, beside a model that knows what each
//  server saw.
static void
test_any_order_of_changes_and_starts (void **state)
{
    world_t *world = *state;
    for (size_t number = 0; number < SERVERS; number++)
        s_start (world, &world->servers [number], 8 << 20);
    for (size_t round = 0; round < ROUNDS; round++) {
        server_t *server = &world->servers [test_below (&world->random, SERVERS)];
        for (size_t changes = test_below (&world->random, 4); changes > 0; changes--) {
            size_t file = 1 + test_below (&world->random, FILES - 1);
            if (test_below (&world->random, 3) == 0)
                s_remove (world, file);
            else
                s_write (world, file, 1 + test_below (&world->random, BYTES_MAX));
        }
        if (test_below (&world->random, 3) == 0) {
            bool was_stored [FILES];
            file_t before [FILES];
            memcpy (was_stored, server->is_stored, sizeof was_stored);
            memcpy (before, server->walked, sizeof before);
            s_open (world, server);
            s_assert_parts_are_apart (server);
            for (uint32_t id = 0; id < catalogue_samples (server->catalogue); id++) {
                size_t file = s_file (server->catalogue, id);
                server->is_stored [file] = was_stored [file]
                    && before [file].changed == server->walked [file].changed;
            }
        }
        s_read_all (world, server);
        for (uint32_t id = 0; id < catalogue_samples (server->catalogue); id++) {
            size_t number = s_file (server->catalogue, id);
            const file_t *now = &world->files [number];
            if (now->is_there && now->changed == server->walked [number].changed
            &&  server->is_stored [number] && !s_is_here (server, id))
                fail_msg ("sample %u is not kept (TEST_SEED=%" PRIu64 ")", id, test_seed ());
        }
    }
    assert_int_equal (block_cache_figures (world->servers [0].cache).damaged, 0);
}

//  Every list that is in the cache, in both of its slots: a file `data` is one by its length.
static void
s_damage_lists (const world_t *world)
{
    char pattern [120];
    glob_t found;
    struct stat status;
    snprintf (pattern, sizeof pattern, "%s/cache/*/data", world->scratch.path);
    assert_int_equal (glob (pattern, 0, NULL, &found), 0);
    size_t damaged = 0;
    for (size_t index = 0; index < found.gl_pathc; index++) {
        int fd = open (found.gl_pathv [index], O_RDWR);
        assert_true (fd >= 0 && fstat (fd, &status) == 0);
        bool is_list = status.st_size == LIST_BYTES;
        for (off_t slot = 0; is_list && slot < 2; slot++)
            assert_int_equal (pwrite (fd, "damage", 6, (slot << 30) + 100), 6);
        damaged += is_list;
        close (fd);
    }
    globfree (&found);
    assert_int_equal (damaged, 1);
}

//  The files get parts anew, where other files' bytes of the same length lie: these are no one's.
static void
test_a_damaged_list_gives_no_file_other_bytes (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    s_start (world, server, 8 << 20);
    s_read_all (world, server);
    s_stop (server);
    s_damage_lists (world);
    for (size_t file = 0; file < FILES; file += 2)
        s_write (world, file, BYTES_MAX);
    s_start (world, server, 8 << 20);
    assert_true (s_here (server) < FILES);
    s_read_all (world, server);
    s_read_all (world, server);
    assert_int_equal (s_here (server), FILES);
    assert_int_equal (block_cache_figures (server->cache).damaged, 1);        //  the list alone
}

//  A folder that changes a great deal does not let the space grow without end.
static void
test_a_space_that_is_mostly_given_up_is_left (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    int rc;
    s_start (world, server, 8 << 20);
    uint64_t bound = 2 * FILES * BYTES_MAX + (UINT64_C (1) << 26) + FILES * BYTES_MAX;
    uint64_t most = 0;
    for (size_t round = 0; round < 400; round++) {
        for (size_t file = 0; file < FILES; file++)
            s_write (world, file, BYTES_MAX);
        s_open (world, server);
        uint64_t bytes = block_data_bytes (catalogue_blocks (server->catalogue, 0, &rc));
        most = bytes > most? bytes: most;
        assert_true (bytes <= bound);
        if (bytes < most)
            return;
    }
    fail_msg ("the space has %" PRIu64 " bytes, and was never left", most);
}

//  How many data sets of files of the cache have these results of catalogue_places_load.
static size_t
s_load_all (const world_t *world, int expected)
{
    char folder [100], error [ERROR_BYTES];
    block_cache_t *guest;
    block_folder_entry_t *entries;
    size_t count, found = 0;
    snprintf (folder, sizeof folder, "%s/cache", world->scratch.path);
    assert_int_equal (block_cache_open_guest (&guest, folder, error, sizeof error), 0);
    assert_int_equal (block_folder_list (guest, &entries, &count), 0);
    for (size_t index = 0; index < count; index++) {
        const block_note_t *note = &entries [index].note;
        block_data_key_t key = { { note->list [0], note->list [1] } };
        block_data_list_t list = { .key = &key, .generation = note->generation };
        block_folder_file_t *files = NULL;
        size_t file_count;
        if (note->kind == BLOCK_NOTE_FILES)
            found += catalogue_places_load (&files, &file_count, guest, &list) == expected;
        free (files);
    }
    free (entries);
    block_cache_close (&guest);
    return found;
}

//  The list is not taken for that of a space which was left, while a server still reads that one.
static void
test_a_space_that_was_left_has_no_list (void **state)
{
    world_t *world = *state;
    char path [200];
    s_path (world, 0, path);
    assert_int_equal (truncate (path, (INT64_C (1) << 26) + (1 << 24)), 0);
    s_start (world, &world->servers [0], 8 << 20);
    assert_int_equal (s_load_all (world, 0), 1);
    s_write (world, 0, BYTES_MAX);
    s_start (world, &world->servers [1], 8 << 20);
    assert_int_equal (s_load_all (world, 0), 1);
    assert_int_equal (s_load_all (world, -ESTALE), 1);
}

//  What was kept of files that have changed or gone takes no room any more.
static void
test_what_has_changed_makes_room (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    int rc;
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    s_start (world, server, 8 << 20);
    s_read_all (world, server);
    uint64_t full = block_data_held_bytes (catalogue_blocks (server->catalogue, 0, &rc));
    for (size_t file = 0; file < FILES / 2; file++)
        s_write (world, file, BYTES_MAX);
    for (size_t file = FILES / 2; file < FILES - 1; file++)
        s_remove (world, file);
    s_stop (server);
    s_start (world, server, 8 << 20);
    s_stop (server);
    s_start (world, server, 8 << 20);
    uint64_t held = block_data_held_bytes (catalogue_blocks (server->catalogue, 0, &rc));
    assert_true (full > FILES * BYTES_MAX && held < full - (FILES - 2) * BYTES_MAX);
}

//  So too where the disk does not answer after some of it: a later start gives up the rest.
static void
test_what_could_not_be_given_up_goes_later (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    int rc;
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    s_start (world, server, 8 << 20);
    s_read_all (world, server);
    uint64_t full = block_data_held_bytes (catalogue_blocks (server->catalogue, 0, &rc));
    for (size_t file = 0; file < FILES; file += 2)
        s_remove (world, file);
    for (size_t turn = 0; turn < 4; turn++) {
        s_drops_left = turn < 3? turn: SIZE_MAX;
        s_stop (server);
        s_start (world, server, 8 << 20);
        assert_int_equal (s_here (server), FILES / 2);
    }
    s_stop (server);
    s_start (world, server, 8 << 20);
    uint64_t held = block_data_held_bytes (catalogue_blocks (server->catalogue, 0, &rc));
    assert_true (full > FILES * BYTES_MAX && held < full - (FILES / 2 - 1) * BYTES_MAX);
}

//  Of two whole lists the newer one counts, in whichever slot it is: what was kept since is found.
static void
test_the_newer_list_counts (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    s_keeps_lists = true;
    s_start (world, server, 8 << 20);
    for (size_t turn = 0; turn < 4; turn++) {
        s_read_all (world, server);
        s_stop (server);
        s_start (world, server, 8 << 20);
        assert_int_equal (s_here (server), FILES);
        s_write (world, turn, 1 + test_below (&world->random, BYTES_MAX));
        s_open (world, server);
        assert_int_equal (s_here (server), FILES - 1);
    }
}

//  Files of network file systems are kept, others if that is wanted.
static void
test_which_files_are_kept (void **state)
{
    world_t *world = *state;
    //  ext4, NFS, SMB 2, FUSE
    static const uint32_t types [] = { 0xef53, 0x6969, 0xfe534d42, 0x65735546 };
    s_start (world, &world->servers [0], 8 << 20);
    for (catalogue_keep_t keep = CATALOGUE_KEEP_FAR; keep <= CATALOGUE_KEEP_NONE; keep++)
        for (size_t type = 0; type < 4; type++) {
            bool is_kept = keep == CATALOGUE_KEEP_ALL || (keep == CATALOGUE_KEEP_FAR && type > 0);
            int rc;
            world->keep = keep;
            s_type = types [type];
            s_open (world, &world->servers [0]);
            assert_int_equal (catalogue_blocks (world->servers [0].catalogue, 0, &rc) != NULL, is_kept);
            assert_int_equal (rc, is_kept? 0: -CATALOGUE_NOT_KEPT);
        }
}

//  A cache that is full of other data in use: nothing is kept, and nothing of theirs goes.
static void
test_a_cache_without_room (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    s_start (world, server, BLOCK_CACHE_LEAST_BYTES);
    s_read_all (world, server);
    assert_true (s_here (server) <= FILES);
    assert_true (block_cache_figures (server->cache).bytes <= BLOCK_CACHE_LEAST_BYTES);
}

//  A full cache, and some files that change: all others are still there.  At each bound the last units of
//  room lie elsewhere.
static void
test_a_full_cache_keeps_the_others (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    for (uint64_t room = 0; room < 12; room++) {
        s_start (world, server, (FILES / 2) * (uint64_t) BYTES_MAX + (1 << 20) + room * UNIT);
        for (int epoch = 0; epoch < 2; epoch++)
            s_read_all (world, server);
        size_t before = s_here (server);
        s_stop (server);
        s_write (world, room, BYTES_MAX);
        s_start (world, server, (FILES / 2) * (uint64_t) BYTES_MAX + (1 << 20) + room * UNIT);
        assert_true (s_here (server) + 1 >= before);
        s_stop (server);
    }
}

//  A start that is killed while it gives up what has changed: a later one goes on.
static void
test_a_start_that_is_killed (void **state)
{
    world_t *world = *state;
    server_t *server = &world->servers [0];
    int rc;
    uint64_t held [2];
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    s_start (world, server, 8 << 20);
    s_read_all (world, server);
    held [0] = block_data_held_bytes (catalogue_blocks (server->catalogue, 0, &rc));
    s_stop (server);
    for (size_t file = 0; file < FILES; file++)
        s_write (world, file, BYTES_MAX);
    fflush (NULL);
    pid_t child = fork ();
    if (child == 0) {
        s_ends = true;
        s_start (world, server, 8 << 20);
        _exit (1);
    }
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (WEXITSTATUS (status), 77);
    s_start (world, server, 8 << 20);
    s_read_all (world, server);
    s_stop (server);
    s_start (world, server, 8 << 20);
    held [1] = block_data_held_bytes (catalogue_blocks (server->catalogue, 0, &rc));
    assert_in_range (held [1], held [0] / 2, held [0] + 16 * UNIT);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_later_servers_find_what_stays_as_it_is, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_parts_are_in_random_order, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_any_order_of_changes_and_starts, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_damaged_list_gives_no_file_other_bytes, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_space_that_is_mostly_given_up_is_left, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_space_that_was_left_has_no_list, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_what_has_changed_makes_room, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_what_could_not_be_given_up_goes_later, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_the_newer_list_counts, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_which_files_are_kept, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_cache_without_room, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_full_cache_keeps_the_others, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_start_that_is_killed, s_begin, s_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

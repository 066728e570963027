//  A folder's space on the local disk, read like a pack: whatever becomes of the space under the server, what
//  is taken from it are the sample's own bytes.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "block_data.h"
#include "catalogue_places.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"
#include "space.h"

enum { UNIT = BLOCK_DATA_UNIT_BYTES, FILES = 64, BYTES_MAX = 3 * UNIT, ROUNDS = 200, ERROR_BYTES = 600 };

typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    catalogue_t *catalogue;
    block_data_t *blocks;               //  the catalogue's
    space_t *space;
    size_t bytes [FILES];
    bool is_good [FILES];               //  what the space has of each
    uint64_t random;
} world_t;

static void
s_path (const world_t *world, uint32_t file, char path [200])
{
    snprintf (path, 200, "%s/data/c/f%02u.jpg", world->scratch.path, file);
}

//  Empty files, and files that end with a unit, too.
static size_t
s_size (world_t *world, uint32_t file)
{
    return file % 16 == 3? 0: file % 16 == 4? 2 * UNIT: 1 + test_below (&world->random, BYTES_MAX);
}

static void
s_open (world_t *world)
{
    char path [200], error [ERROR_BYTES];
    int rc;
    snprintf (path, sizeof path, "%s/cache", world->scratch.path);
    if (!world->cache && block_cache_open (&world->cache, path, 8 << 20, error, sizeof error))
        fail_msg ("%s", error);
    catalogue_destroy (&world->catalogue);
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    catalogue_options_t options = { .path = path, .cache = world->cache, .keep = CATALOGUE_KEEP_ALL };
    if (catalogue_open (&world->catalogue, &options, error, sizeof error))
        fail_msg ("%s", error);
    world->blocks = catalogue_blocks (world->catalogue, 0, &rc);
    assert_non_null (world->blocks);
    assert_int_equal (catalogue_samples (world->catalogue), FILES);
}

static int
s_begin (void **state)
{
    static world_t world;
    world = (world_t) { .random = test_seed () };
    char path [200];
    if (!scratch_begin (&world.scratch))
        return -1;
    snprintf (path, sizeof path, "%s/data", world.scratch.path);
    assert_int_equal (mkdir (path, 0700), 0);
    snprintf (path, sizeof path, "%s/data/c", world.scratch.path);
    assert_int_equal (mkdir (path, 0700), 0);
    for (uint32_t file = 0; file < FILES; file++) {
        s_path (&world, file, path);
        world.bytes [file] = s_size (&world, file);
        pattern_write (path, file, world.bytes [file]);
    }
    s_open (&world);
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    space_destroy (&world->space);
    catalogue_destroy (&world->catalogue);
    block_cache_close (&world->cache);
    return scratch_end (&world->scratch)? 0: -1;
}

//  Ids are those of the files: they are sorted by name.
static void
s_fill (const world_t *world, uint32_t id, uint8_t memory [BYTES_MAX])
{
    for (size_t at = 0; at < world->bytes [id]; at++)
        memory [at] = pattern_byte (id, at);
}

//  As a reader does it.
static void
s_keep (world_t *world, uint32_t id)
{
    uint8_t memory [BYTES_MAX];
    s_fill (world, id, memory);
    if (world->bytes [id] > 0)
        block_data_store_owned (world->blocks, catalogue_owner (world->catalogue, id, 0),
            catalogue_place (world->catalogue, id, 0), world->bytes [id], memory);
    world->is_good [id] = true;
}

static void
s_keep_all (world_t *world)
{
    for (uint32_t id = 0; id < FILES; id++)
        s_keep (world, id);
}

//  Reads a piece as a whole: each sample that is taken has its own bytes, and each that is good is taken.
static void
s_check_piece (const world_t *world, uint32_t first, uint32_t count)
{
    static uint8_t memory [FILES * BYTES_MAX];
    char path [200];
    space_range_t range = space_piece (world->space, first, count);
    assert_true (range.offset + range.bytes <= space_bytes (world->space) && range.bytes <= sizeof memory);
    assert_true (space_path (world->space, path, sizeof path) < sizeof path);
    int fd = open (path, O_RDONLY);
    assert_true (fd >= 0);
    assert_int_equal (pread (fd, memory, range.bytes, (off_t) range.offset), range.bytes);
    close (fd);
    for (uint32_t position = first; position < first + count; position++) {
        uint32_t id = space_order (world->space) [position];
        space_range_t where = space_sample (world->space, id);
        const uint8_t *bytes = memory + (where.offset - range.offset);
        assert_int_equal (where.bytes, world->bytes [id]);
        bool is_taken = space_has (world->space, id) && space_check (world->space, id, bytes);
        if (where.bytes > 0 && is_taken != world->is_good [id])
            fail_msg ("sample %u is %staken (TEST_SEED=%" PRIu64 ")", id, is_taken? "": "not ", test_seed ());
        for (size_t at = 0; is_taken && at < where.bytes; at++)
            assert_int_equal (bytes [at], pattern_byte (id, at));
    }
}

//  Another file's bytes with their own checksums, as another server leaves them that has seen a newer file.
static void
s_replace (world_t *world, uint32_t id)
{
    uint8_t memory [BYTES_MAX];
    s_fill (world, id, memory);
    memory [0] ^= 1;
    block_data_store_owned (world->blocks, catalogue_owner (world->catalogue, id, 0) ^ 2,
        catalogue_place (world->catalogue, id, 0), world->bytes [id], memory);
}

static void
s_damage (const world_t *world, uint32_t id)
{
    char path [200];
    space_path (world->space, path, sizeof path);
    int fd = open (path, O_RDWR);
    off_t place = (off_t) catalogue_place (world->catalogue, id, 0) + (off_t) world->bytes [id] - 1;
    uint8_t byte;
    assert_int_equal (pread (fd, &byte, 1, place), 1);
    byte ^= 64;
    assert_int_equal (pwrite (fd, &byte, 1, place), 1);
    close (fd);
}

static void
s_drop (const world_t *world, uint32_t id)
{
    block_data_drop (world->blocks, catalogue_place (world->catalogue, id, 0), world->bytes [id]);
}

static void
test_any_part_may_be_damaged_or_gone (void **state)
{
    world_t *world = *state;
    s_keep_all (world);
    assert_int_equal (space_new (&world->space, world->catalogue, NULL), 0);
    assert_int_equal (space_missing (world->space), 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        uint32_t first = (uint32_t) test_below (&world->random, FILES),
            count = 1 + (uint32_t) test_below (&world->random, FILES - first),
            id = (uint32_t) test_below (&world->random, FILES);
        s_check_piece (world, first, count);
        uint64_t what = test_below (&world->random, 4);
        if (world->bytes [id] == 0 || !world->is_good [id])
            continue;
        if (what == 0)
            s_replace (world, id);
        else
        if (what == 1)
            s_drop (world, id);
        else
        if (what == 2)
            s_damage (world, id);
        world->is_good [id] = what == 3;
        s_check_piece (world, 0, FILES);
        //  It is read of its own file, and kept again.  A reader of the unit finds damage.
        if (test_below (&world->random, 2)) {
            uint8_t memory [BYTES_MAX];
            s_drop (world, id);
            s_keep (world, id);
            s_fill (world, id, memory);
            space_note (world->space, id, memory);
        }
        else
        if (what < 3 && test_below (&world->random, 2)) {
            //  There was no room for it.
            uint32_t missing = space_missing (world->space);
            bool was_here = space_has (world->space, id);
            space_note (world->space, id, NULL);
            assert_false (space_has (world->space, id));
            assert_int_equal (space_missing (world->space), missing + was_here);
        }
    }
}

static void
test_pieces_are_in_the_order_of_places (void **state)
{
    world_t *world = *state;
    bool was_there [FILES] = { false };
    s_keep_all (world);
    assert_int_equal (space_new (&world->space, world->catalogue, NULL), 0);
    uint64_t end = 0, units = 0;
    for (uint32_t position = 0; position < FILES; position++) {
        uint32_t id = space_order (world->space) [position];
        space_range_t range = space_sample (world->space, id);
        assert_false (was_there [id]);
        was_there [id] = true;
        assert_int_equal (range.offset, end);           //  no file has gone
        end = block_data_next (range.offset, range.bytes);
        units += block_data_units (range.bytes) * UNIT;
        assert_int_equal (space_piece (world->space, 0, position + 1).bytes, range.offset + range.bytes);
    }
    assert_int_equal (space_unit_bytes (world->space), units);
}

//  A few may be missing: their own files have them.
static void
test_most_must_be_there (void **state)
{
    world_t *world = *state;
    assert_int_equal (space_new (&world->space, world->catalogue, NULL), -ENODATA);
    assert_null (world->space);
    s_keep_all (world);
    uint32_t ids [] = { 1, 9, 17, 33, 41 };
    for (size_t index = 0; index < 5; index++) {
        s_drop (world, ids [index]);
        world->is_good [ids [index]] = false;
        int rc = space_new (&world->space, world->catalogue, NULL);
        assert_int_equal (rc, index < 4? 0: -ENODATA);
        if (rc)
            continue;
        assert_int_equal (space_missing (world->space), index + 1);
        s_check_piece (world, 0, FILES);
        space_destroy (&world->space);
    }
}

//  A later server finds the same; a file that has changed is missing, and lies behind all others.
static void
test_a_later_server (void **state)
{
    world_t *world = *state;
    char path [200];
    s_keep_all (world);
    s_path (world, 7, path);
    pattern_write (path, 7, world->bytes [7] += 5);
    s_open (world);
    world->is_good [7] = false;
    assert_int_equal (space_new (&world->space, world->catalogue, NULL), 0);
    assert_int_equal (space_missing (world->space), 1);
    assert_int_equal (space_order (world->space) [FILES - 1], 7);
    s_check_piece (world, 0, FILES);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_any_part_may_be_damaged_or_gone, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_pieces_are_in_the_order_of_places, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_most_must_be_there, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_later_server, s_begin, s_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

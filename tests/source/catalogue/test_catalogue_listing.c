//  A list of objects in the cache on the local disk: it is what was kept last, or none.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "catalogue_state.h"
#include "scratch.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, HEAD_BYTES = 64, OBJECTS = 500, NAME_BYTES = 20, DIGITS = 100000000,
    ERROR_BYTES = 600
};

//  Two servers of one folder.
typedef struct {
    scratch_folder_t scratch;
    block_cache_t *caches [2];
    store_t *store;
    block_data_t *blocks [2];
} world_t;

static block_data_t *
s_open (block_cache_t *cache, const store_t *store)
{
    block_data_t *blocks;
    assert_int_equal (catalogue_listing_open (&blocks, store, cache), 0);
    assert_non_null (blocks);
    return blocks;
}

static store_t *
s_store (const char *address)
{
    store_t *store;
    char error [ERROR_BYTES];
    if (store_open (&store, address, error, sizeof error))
        fail_msg ("%s", error);
    return store;
}

static int
s_begin (void **state)
{
    static world_t world;
    char folder [80], error [ERROR_BYTES];
    if (!scratch_begin (&world.scratch))
        return -1;
    snprintf (folder, sizeof folder, "%s/cache", world.scratch.path);
    world.store = s_store ("http://127.0.0.1:9/a");
    for (size_t server = 0; server < 2; server++) {
        if (block_cache_open (&world.caches [server], folder, 8 << 20, error, sizeof error))
            fail_msg ("%s", error);
        world.blocks [server] = s_open (world.caches [server], world.store);
    }
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    for (size_t server = 0; server < 2; server++) {
        block_data_close (&world->blocks [server]);
        block_cache_close (&world->caches [server]);
    }
    store_destroy (&world->store);
    return scratch_end (&world->scratch)? 0: -1;
}

//  So many objects, other ones for another number; lent until the next call.
static const store_listing_t *
s_listing (size_t count, unsigned number)
{
    static store_object_t objects [OBJECTS];
    static char text [OBJECTS * NAME_BYTES];
    static store_listing_t listing;
    listing = (store_listing_t) { .text = text, .objects = objects, .count = count };
    for (size_t index = 0; index < count; index++) {
        char *name = text + index * NAME_BYTES;
        snprintf (name, NAME_BYTES, "%08u.jpg", (unsigned) (index % DIGITS));
        snprintf (name + 13, NAME_BYTES - 13, "\"%u\"", number);
        objects [index] = (store_object_t) { .name = index * NAME_BYTES, .version = index * NAME_BYTES + 13,
            .bytes = index * number };
    }
    listing.text_used = count * NAME_BYTES;
    return &listing;
}

//  Loads it in a server, and compares it.  expected: NULL: there is none.
static void
s_assert_kept (block_data_t *blocks, const store_listing_t *expected, int64_t expected_s)
{
    store_listing_t listing = { 0 };
    int64_t listed_s = 0;
    assert_int_equal (catalogue_listing_load (&listing, blocks, &listed_s), expected? 0: -ENODATA);
    assert_int_equal (listing.count, expected? expected->count: 0);
    assert_int_equal (listing.text_used, expected? expected->text_used: 0);
    if (expected) {
        assert_int_equal (listed_s, expected_s);
        assert_memory_equal (listing.objects, expected->objects, expected->count * sizeof (store_object_t));
        assert_memory_equal (listing.text, expected->text, expected->text_used);
    }
    store_listing_clear (&listing);
}

//  Guards: the list that another server kept last is loaded, long or short; of another store, none.
static void
test_the_last_list_is_loaded (void **state)
{
    const world_t *world = *state;
    static const size_t counts [] = { 1, OBJECTS, 0, 92, 93, 94, 3 };       //  92 fill a unit
    s_assert_kept (world->blocks [1], NULL, 0);
    for (unsigned round = 0; round < sizeof counts / sizeof *counts; round++) {
        const store_listing_t *listing = s_listing (counts [round], round);
        catalogue_listing_keep (listing, world->blocks [round % 2], 1000 + round);
        s_assert_kept (world->blocks [0], listing, 1000 + round);
        s_assert_kept (world->blocks [1], listing, 1000 + round);
    }
    store_t *store = s_store ("http://127.0.0.1:9/b");
    block_data_t *blocks = s_open (world->caches [0], store);
    s_assert_kept (blocks, NULL, 0);
    block_data_close (&blocks);
    store_destroy (&store);
}

static void
s_read (block_data_t *blocks, size_t bytes, uint8_t *memory)
{
    block_data_gap_t gap = block_data_read (blocks, 0, bytes, memory);
    assert_int_equal (gap.begin, gap.end);
}

//  Guards: a byte that is wrong, wherever it is, or a unit that is missing or of another list: there is no
//  list.
static void
test_a_list_that_is_not_whole_is_none (void **state)
{
    const world_t *world = *state;
    static uint8_t memory [8 * UNIT], other [8 * UNIT];
    block_data_t *blocks = world->blocks [0];
    const store_listing_t *listing = s_listing (OBJECTS, 2);
    size_t bytes = HEAD_BYTES + listing->count * sizeof (store_object_t) + listing->text_used,
        whole = block_data_next (0, bytes);
    catalogue_listing_keep (listing, blocks, 5);
    s_read (blocks, whole, other);
    listing = s_listing (OBJECTS, 1);
    catalogue_listing_keep (listing, blocks, 5);
    s_read (blocks, whole, memory);
    //  In the head: the kind, both sizes and the checksum, not the time between them.
    for (size_t at = 0; at < bytes; at += at < HEAD_BYTES? 1: 211) {
        if ((at >= 24 && at < 32) || (at >= 48 && at < HEAD_BYTES))
            continue;
        for (uint8_t bit = 1; bit > 0; bit = (uint8_t) (bit << 1)) {
            memory [at] ^= bit;
            block_data_store (blocks, at / UNIT * UNIT, UNIT, memory + at / UNIT * UNIT, true);
            memory [at] ^= bit;
            s_assert_kept (blocks, NULL, 0);
        }
        block_data_store (blocks, at / UNIT * UNIT, UNIT, memory + at / UNIT * UNIT, true);
    }
    for (size_t unit = 0; unit < whole; unit += UNIT) {
        s_assert_kept (blocks, listing, 5);
        block_data_drop (blocks, unit, UNIT);
        s_assert_kept (blocks, NULL, 0);
        block_data_store (blocks, unit, UNIT, other + unit, true);
        s_assert_kept (blocks, NULL, 0);
        block_data_store (blocks, unit, UNIT, memory + unit, true);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_the_last_list_is_loaded, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_list_that_is_not_whole_is_none, s_begin, s_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

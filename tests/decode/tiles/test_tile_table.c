/*  test_tile_table -- the segments of tiled JPEGs: found, and of damaged files not.  */
#include "levels.h"
#include "tiles.h"

//  A file cut short at any length is found out, whatever the window.
static void
test_truncated_at_every_length (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    tile_table_t table = { .count = 0 };
    for (int kind = 0; kind < 6; kind++) {
        tiled_t tiled = tiles_make (&made_kinds [kind], 60, 80,
            tiles_layouts [(unsigned) kind % TILES_LAYOUTS], &random);
        for (size_t size = 0; size < tiled.size; size++) {
            uint8_t *cut = malloc (size + !size);
            memcpy (cut, tiled.bytes, size);
            tile_frame_t frame;
            const char *reason;
            if (tile_frame_read (&frame, cut, size, &reason))
                assert_int_equal (tile_table_scan (&table, &frame, cut, size), TILE_TABLE_DAMAGED);
            else
                assert_true (*reason);
            free (cut);
        }
        free (tiled.bytes);
    }
    tile_table_free (&table);
}

//  The model: from marker to marker, byte by byte.
static void
s_assert_begins (const tile_table_t *table, const tiles_t *tiles)
{
    size_t at = tiles->frame.scan;
    for (uint32_t index = 0; index < table->count; index++) {
        assert_int_equal (table->begins [index], at);
        while (tiles->bytes [at] != 0xff || tiles->bytes [at + 1] == 0)
            at++;
        at += TILE_MARKER_BYTES;
    }
    assert_int_equal (table->begins [table->count], at);
    assert_int_equal (tiles->bytes [at - 1], 0xd9);
}

static void
test_tables_found (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    tile_table_t portable = { .count = 0 };
    for (int round = 0; round < 200; round++) {
        const made_kind_t *kind = &made_kinds [test_below (&random, 6)];
        uint32_t height = 1 + (uint32_t) test_below (&random, 60),
            width = 1 + (uint32_t) test_below (&random, 200);
        tiled_t tiled = tiles_make (kind, height, width, tiles_layouts [test_below (&random, TILES_LAYOUTS)],
            &random);
        tiles_t tiles;
        tiles_open (&tiles, tiled.bytes, tiled.size);
        assert_int_equal (tiles.table.count, tiled.segments);
        assert_true (levels_use (SIMD_PORTABLE));
        assert_int_equal (tile_table_scan (&portable, &tiles.frame, tiles.bytes, tiles.size), TILE_TABLE_OK);
        assert_int_equal (portable.count, tiles.table.count);
        s_assert_begins (&portable, &tiles);
        s_assert_begins (&tiles.table, &tiles);
        levels_use (SIMD_AVX2);
        tiles_close (&tiles);
        free (tiled.bytes);
    }
    tile_table_free (&portable);
}

//  Markers out of turn, in the way of a marker, or missing: damaged, for both loops.
static void
test_markers_out_of_turn (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static const uint8_t codes [] = { 0xd0, 0xd3, 0xd9, 0xda, 0xff, 0x01, 0xc4, 0x00 };
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_444], 64, 64, tiles_layouts [0], &random);
    for (int round = 0; round < 400; round++) {
        tiles_t tiles;
        tiles_open (&tiles, tiled.bytes, tiled.size);
        uint32_t segment = (uint32_t) test_below (&random, tiles.table.count);
        uint8_t *code = tiles.bytes + tiles.table.begins [segment + 1] - 1,
            new = codes [(unsigned) round % sizeof codes];
        if (*code != new) {
            *code = new;
            assert_int_equal (tile_table_scan (&tiles.table, &tiles.frame, tiles.bytes, tiles.size),
                TILE_TABLE_DAMAGED);
            assert_true (levels_use (SIMD_PORTABLE));
            assert_int_equal (tile_table_scan (&tiles.table, &tiles.frame, tiles.bytes, tiles.size),
                TILE_TABLE_DAMAGED);
            levels_use (SIMD_AVX2);
        }
        tiles_close (&tiles);
    }
    free (tiled.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_truncated_at_every_length),
        cmocka_unit_test (test_tables_found),
        cmocka_unit_test (test_markers_out_of_turn),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

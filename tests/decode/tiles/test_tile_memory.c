/*  test_tile_memory -- every allocation of ours fails once, in turn: a status and nothing left behind; and
 *  windows of a size that was there before allocate nothing.
 */
#include <errno.h>
#include "failing_memory.h"
#include "tile_original.h"
#include "tile_window.h"
#include "tiles.h"

//  Of transcoding.
static void
test_each_allocation_of_transcoding (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    //  So large that the output grows while it is written.
    made_file_t file = made_jpeg_with (&made_kinds [MADE_KIND_444], 300, 400, 95, &random, NULL);
    int rc = -ENOMEM;
    int failures = 0;
    for (; rc; failures++) {
        tiled_t tiled;
        char error [400] = "";
        failing_countdown = failures + 1;
        rc = tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error, sizeof error);
        failing_countdown = 0;
        if (rc == 0)
            free (tiled.bytes);
        else if (rc != -ENOMEM || !strstr (error, "no "))
            fail_msg ("allocation %d: %d, %s", failures + 1, rc, error);
    }
    assert_true (failures > 4);
    free (file.bytes);
}

//  Of keeping an original and of giving it back.  tiled is as it was where there was no memory.
static void
test_each_allocation_of_originals (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    made_file_t file = made_jpeg_with (&made_kinds [MADE_KIND_444], 300, 400, 95, &random, NULL);
    tiled_t tiled;
    char error [400] = "";
    assert_int_equal (tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error, sizeof error),
        0);
    const size_t before = tiled.size;
    int rc = -ENOMEM, failures = 0;
    for (; rc; failures++) {
        failing_countdown = failures + 1;
        rc = tile_original_keep (file.bytes, file.size, &tiled, error, sizeof error);
        failing_countdown = 0;
        if (rc && (rc != -ENOMEM || !strstr (error, "no ") || tiled.size != before))
            fail_msg ("allocation %d: %d, %s", failures + 1, rc, error);
    }
    assert_true (failures > 8);
    uint8_t *original;
    size_t original_bytes;
    for (rc = -ENOMEM, failures = 0; rc; failures++) {
        failing_countdown = failures + 1;
        rc = tile_original_restore (tiled.bytes, tiled.size, &original, &original_bytes, error, sizeof error);
        failing_countdown = 0;
        if (rc && (rc != -ENOMEM || !strstr (error, "no ")))
            fail_msg ("allocation %d: %d, %s", failures + 1, rc, error);
    }
    assert_true (failures > 4);
    assert_int_equal (original_bytes, file.size);
    assert_memory_equal (original, file.bytes, file.size);
    free (original);
    free (tiled.bytes);
    free (file.bytes);
}

//  Of a table and of a window: the same call goes well the next time, and then for ever without memory.
static void
test_each_allocation_of_windows (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    tiled_t tiled = tiles_make (&made_kinds [MADE_KIND_420], 100, 200, tiles_layouts [0], &random);
    tile_frame_t frame;
    const char *reason;
    assert_true (tile_frame_read (&frame, tiled.bytes, tiled.size, &reason));
    tile_table_t table = { .count = 0 };
    scratch_t room = { NULL, 0 };
    tile_window_t window;
    image_request_t request = { .box = { 10, 10, 60, 60 } };
    failing_countdown = 1;
    assert_int_equal (tile_table_scan (&table, &frame, tiled.bytes, tiled.size), TILE_TABLE_NO_MEMORY);
    assert_int_equal (tile_table_scan (&table, &frame, tiled.bytes, tiled.size), TILE_TABLE_OK);
    failing_countdown = 1;
    assert_false (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
    assert_true (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
    uint64_t before = failing_count;
    for (uint32_t round = 0; round < 100; round++) {
        request.box = (image_box_t) { round % 40, round % 100, 40, 40 };
        assert_int_equal (tile_table_scan (&table, &frame, tiled.bytes, tiled.size), TILE_TABLE_OK);
        assert_true (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
    }
    assert_int_equal (failing_count, before);
    tile_table_free (&table);
    scratch_free (&room);
    free (tiled.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_each_allocation_of_transcoding),
        cmocka_unit_test (test_each_allocation_of_originals),
        cmocka_unit_test (test_each_allocation_of_windows),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_tile_memory -- every allocation of ours fails once, in turn: a status and nothing left behind; and windows of a size
 *  that was there before allocate nothing.
 *
 *  The linker puts the functions below in the place of the C library's for our own code, not for libraries'.
 */
#include <errno.h>
#include "tile_window.h"
#include "tiles.h"

void *__real_malloc (size_t bytes);
void *__real_calloc (size_t count, size_t bytes);
void *__real_realloc (void *memory, size_t bytes);
void *__real_aligned_alloc (size_t alignment, size_t bytes);
void *__wrap_malloc (size_t bytes);
void *__wrap_calloc (size_t count, size_t bytes);
void *__wrap_realloc (void *memory, size_t bytes);
void *__wrap_aligned_alloc (size_t alignment, size_t bytes);

//  Allocations until the one that fails; 0: none does.
static int s_countdown;
//  Allocations so far.
static uint64_t s_count;

static bool
s_fails (void)
{
    s_count++;
    return s_countdown > 0 && --s_countdown == 0;
}

void *
__wrap_malloc (size_t bytes)
{
    return s_fails ()? NULL: __real_malloc (bytes);
}

void *
__wrap_calloc (size_t count, size_t bytes)
{
    return s_fails ()? NULL: __real_calloc (count, bytes);
}

void *
__wrap_realloc (void *memory, size_t bytes)
{
    return s_fails ()? NULL: __real_realloc (memory, bytes);
}

void *
__wrap_aligned_alloc (size_t alignment, size_t bytes)
{
    return s_fails ()? NULL: __real_aligned_alloc (alignment, bytes);
}

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
        s_countdown = failures + 1;
        rc = tile_transcode (file.bytes, file.size, tiles_layouts [0], &tiled, error, sizeof error);
        s_countdown = 0;
        if (rc == 0)
            free (tiled.bytes);
        else if (rc != -ENOMEM || !strstr (error, "no "))
            fail_msg ("allocation %d: %d, %s", failures + 1, rc, error);
    }
    assert_true (failures > 4);
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
    s_countdown = 1;
    assert_int_equal (tile_table_scan (&table, &frame, tiled.bytes, tiled.size), TILE_TABLE_NO_MEMORY);
    assert_int_equal (tile_table_scan (&table, &frame, tiled.bytes, tiled.size), TILE_TABLE_OK);
    s_countdown = 1;
    assert_false (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
    assert_true (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
    uint64_t before = s_count;
    for (uint32_t round = 0; round < 100; round++) {
        request.box = (image_box_t) { round % 40, round % 100, 40, 40 };
        assert_int_equal (tile_table_scan (&table, &frame, tiled.bytes, tiled.size), TILE_TABLE_OK);
        assert_true (tile_window_write (&window, &frame, &table, tiled.bytes, &request, &room));
    }
    assert_int_equal (s_count, before);
    tile_table_free (&table);
    scratch_free (&room);
    free (tiled.bytes);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_each_allocation_of_transcoding),
        cmocka_unit_test (test_each_allocation_of_windows),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

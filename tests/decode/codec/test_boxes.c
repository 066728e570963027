//  Boxes follow their image: each step by itself, on numbers that floats hold exactly.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "boxes.h"

enum { ROWS_MAX = 4, COLUMNS = 5 };

static const decode_tensor_t s_tensor = { .as = DECODE_BOXES, .dtype = DTYPE_FLOAT32, .dimensions = 2,
    .shape = { ROWS_MAX, COLUMNS }, .is_ragged = true };
static float s_rows [ROWS_MAX] [COLUMNS];

//  Two boxes in an image of 20 x 30, with a class each; in the two rows behind them is what was there before.
static boxes_t
s_take (void)
{
    static const float rows [2] [COLUMNS] = { { 5, 4, 25, 16, 7 }, { 0, 1, 2, 3, 8 } };
    memset (s_rows, 0x55, sizeof s_rows);
    return boxes_take (&s_tensor, (const uint8_t *) rows, 2, 20, 30, (uint8_t *) s_rows);
}

static void
s_check (const boxes_t *boxes, uint32_t height, uint32_t width, const float expected [ROWS_MAX] [COLUMNS])
{
    assert_true (boxes->height == height && boxes->width == width);
    for (size_t row = 0; row < ROWS_MAX; row++)
        for (size_t column = 0; column < COLUMNS; column++)
            if (fabsf (s_rows [row] [column] - expected [row] [column]) > 0)
                fail_msg ("row %zu, column %zu: %g, not %g", row, column, (double) s_rows [row] [column],
                    (double) expected [row] [column]);
}

//  Guards: a crop clips to the part that is taken, a pad to the image with its border.
static void
test_crops_and_pads (void **state)
{
    (void) state;
    boxes_t boxes = s_take ();
    boxes_move (&boxes, 2, 3, 10, 8);
    s_check (&boxes, 10, 8, (const float [ROWS_MAX] [COLUMNS]) { { 2, 2, 8, 10, 7 }, { 0, 0, 0, 1, 8 } });
    boxes = s_take ();
    boxes_move (&boxes, -6, -1, 40, 50);
    s_check (&boxes, 40, 50, (const float [ROWS_MAX] [COLUMNS]) { { 6, 10, 26, 22, 7 }, { 1, 7, 3, 9, 8 } });
}

static void
test_stretched_and_mirrored (void **state)
{
    (void) state;
    boxes_t boxes = s_take ();
    boxes_stretch (&boxes, 10, 60);
    s_check (&boxes, 10, 60, (const float [ROWS_MAX] [COLUMNS]) { { 10, 2, 50, 8, 7 },
        { 0, .5f, 4, 1.5f, 8 } });
    boxes = s_take ();
    boxes_mirror (&boxes, true);
    s_check (&boxes, 20, 30, (const float [ROWS_MAX] [COLUMNS]) { { 5, 4, 25, 16, 7 }, { 28, 1, 30, 3, 8 } });
    boxes = s_take ();
    boxes_mirror (&boxes, false);
    s_check (&boxes, 20, 30, (const float [ROWS_MAX] [COLUMNS]) { { 5, 4, 25, 16, 7 }, { 0, 17, 2, 19, 8 } });
}

//  Guards: a quarter turn about the upper left corner; where the image expands, all of it stays.
static void
test_turned (void **state)
{
    (void) state;
    boxes_map_t map = { .matrix = { 0, -1, 0, 1, 0, 0, 0, 0, 1 }, .expands = true };
    boxes_t boxes = s_take ();
    boxes_map (&boxes, &map, 30, 20);
    s_check (&boxes, 30, 20, (const float [ROWS_MAX] [COLUMNS]) { { 4, 5, 16, 25, 7 }, { 17, 0, 19, 2, 8 } });
    map.expands = false;
    map.matrix [2] = 10;
    boxes = s_take ();
    boxes_map (&boxes, &map, 20, 30);
    s_check (&boxes, 20, 30, (const float [ROWS_MAX] [COLUMNS]) { { 0, 5, 6, 20, 7 }, { 7, 0, 9, 2, 8 } });
}

//  Guards: what is too small in one direction, or no number, is left out; the rest moves up.
static void
test_the_end (void **state)
{
    (void) state;
    boxes_t boxes = s_take ();
    boxes_end (&boxes, 2);
    assert_int_equal (boxes.count, 2);
    s_check (&boxes, 20, 30, (const float [ROWS_MAX] [COLUMNS]) { { 5, 4, 25, 16, 7 }, { 0, 1, 2, 3, 8 } });
    boxes = s_take ();
    s_rows [0] [3] = 5.75f;
    boxes_end (&boxes, 2);
    assert_int_equal (boxes.count, 1);
    s_check (&boxes, 20, 30, (const float [ROWS_MAX] [COLUMNS]) { { 0, 1, 2, 3, 8 } });
    boxes = s_take ();
    s_rows [0] [0] = NAN;
    s_rows [1] [1] = 2;
    boxes_end (&boxes, 1);
    assert_int_equal (boxes.count, 1);
    s_check (&boxes, 20, 30, (const float [ROWS_MAX] [COLUMNS]) { { 0, 2, 2, 3, 8 } });
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_crops_and_pads), cmocka_unit_test (test_stretched_and_mirrored),
        cmocka_unit_test (test_turned), cmocka_unit_test (test_the_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

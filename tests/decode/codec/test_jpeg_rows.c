/*  test_jpeg_rows -- points survive being written and read; bytes that are not theirs are refused, or give
 *  points that a decoder can use without harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <inttypes.h>
#include <cmocka.h>
#include "jpeg_rows.h"
#include "seed.h"

enum { DC_MAX = 1 << 30 };

typedef struct {
    jpeg_rows_image_t image;
    jpeg_rows_shape_t shape;
    jpeg_point_t *points;
    uint8_t *bytes;
    size_t size;
} made_rows_t;

static int32_t
s_any_dc (uint64_t *random)
{
    int64_t range = test_below (random, 8)? 2000: DC_MAX;
    return (int32_t) ((int64_t) test_below (random, (uint64_t) (2 * range + 1)) - range);
}

static made_rows_t
s_make (uint64_t *random)
{
    made_rows_t made = { .image = {
        .columns = 1 + test_below (random, 40), .rows = 1 + test_below (random, 30),
        .components = 1 + (unsigned) test_below (random, JPEG_ROWS_COMPONENTS_MAX) } };
    made.image.scan_bytes = test_below (random, 100000);        //  decides how many points a row has
    made.shape = jpeg_rows_shape_of (&made.image);
    made.points = calloc (made.shape.points, sizeof *made.points);
    for (size_t index = 1; index < made.shape.points; index++) {
        uint64_t most = test_below (random, 20)? 40000: UINT64_C (1) << 33;
        made.points [index].bit = made.points [index - 1].bit + 1 + test_below (random, most);
        for (unsigned component = 0; component < made.image.components; component++)
            made.points [index].dc [component] = s_any_dc (random);
    }
    made.image.scan_bytes = made.points [made.shape.points - 1].bit / 8 + 1;
    size_t most = jpeg_rows_bytes_max (&made.image, made.shape.points);
    uint8_t *room = malloc (most);
    made.size = jpeg_rows_encode (&made.image, &made.shape, made.points, made.shape.points, room);
    assert_true (made.size <= most);
    made.bytes = realloc (room, made.size);
    return made;
}

static void
s_free (made_rows_t *made)
{
    free (made->points);
    free (made->bytes);
}

//  How many points of the image the bytes are; 0: of none.  A decoder can use them without harm.
static size_t
s_take (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image, jpeg_point_t **points_p)
{
    jpeg_rows_shape_t shape;
    *points_p = NULL;
    if (!jpeg_rows_shape (bytes, size, image, &shape))
        return 0;
    assert_true (shape.step > 0 && shape.step <= image->columns);
    assert_int_equal (shape.points, image->rows * shape.row_points);
    jpeg_point_t *points = calloc (shape.points, sizeof *points);
    size_t count = jpeg_rows_decode (bytes, size, image, points);
    assert_true (count <= shape.points);
    for (size_t index = 0; index < count; index++) {
        assert_true (index == 0? points [0].bit == 0: points [index].bit > points [index - 1].bit);
        assert_true (points [index].bit < image->scan_bytes * 8);
        for (unsigned component = 0; component < JPEG_ROWS_COMPONENTS_MAX; component++)
            assert_true (points [index].dc [component] >= -DC_MAX && points [index].dc [component] <= DC_MAX);
    }
    *points_p = points;
    return count;
}

static void
test_round_trip (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (int round = 0; round < 300; round++) {
        made_rows_t made = s_make (&random);
        jpeg_point_t *points;
        assert_int_equal (s_take (made.bytes, made.size, &made.image, &points), made.shape.points);
        assert_memory_equal (points, made.points, made.shape.points * sizeof *points);
        free (points);
        s_free (&made);
    }
}

static void
s_assert_refused (const made_rows_t *made, size_t size, const jpeg_rows_image_t *image)
{
    jpeg_point_t *points;
    assert_int_equal (s_take (made->bytes, size, image, &points), 0);
    free (points);
}

//  The first points of an image are as good as all.  Bytes that end within one are not.
static void
test_first_points (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 100; round++) {
        made_rows_t made = s_make (&random);
        size_t ends = 0;
        for (size_t size = 0; size < made.size; size++) {
            jpeg_point_t *points;
            size_t count = s_take (made.bytes, size, &made.image, &points);
            assert_true (count == 0 || count == ends + 1);
            if (count > 0)
                assert_memory_equal (points, made.points, count * sizeof *points);
            ends += count > 0;
            free (points);
        }
        assert_int_equal (ends, made.shape.points - 1);
        s_free (&made);
    }
}

//  Lengthened, of another version, or of an image of other sides.
static void
test_others_are_refused (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 100; round++) {
        made_rows_t made = s_make (&random);
        made.bytes = realloc (made.bytes, made.size + 1);
        made.bytes [made.size] = 0;
        s_assert_refused (&made, made.size + 1, &made.image);
        jpeg_rows_image_t other = made.image;
        other.rows--;
        if (other.rows > 0)
            s_assert_refused (&made, made.size, &other);
        other = made.image;
        other.columns = made.shape.step - 1;
        if (other.columns > 0)
            s_assert_refused (&made, made.size, &other);
        other = made.image;
        other.scan_bytes = made.points [made.shape.points - 1].bit / 8;
        if (made.shape.points > 1)
            s_assert_refused (&made, made.size, &other);
        made.bytes [0]++;
        s_assert_refused (&made, made.size, &made.image);
        s_free (&made);
    }
}

//  Any bytes, and points in which bits are turned.
static void
test_any_bytes_do_no_harm (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    unsigned taken = 0;
    for (int round = 0; round < 20000; round++) {
        made_rows_t made = s_make (&random);
        jpeg_point_t *points;
        for (uint64_t count = 1 + test_below (&random, 3); count > 0; count--)
            made.bytes [test_below (&random, made.size)] ^= (uint8_t) (1 << test_below (&random, 8));
        if (test_below (&random, 2) == 0)
            made.image.scan_bytes += test_below (&random, 100);
        taken += s_take (made.bytes, made.size, &made.image, &points) > 0;
        free (points);
        s_free (&made);
    }
    print_message ("%u taken\n", taken);
    assert_true (taken > 100);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_round_trip), cmocka_unit_test (test_first_points),
        cmocka_unit_test (test_others_are_refused), cmocka_unit_test (test_any_bytes_do_no_harm) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

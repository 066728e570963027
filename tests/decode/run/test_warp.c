/*  test_warp -- the maps of random_rotation, random_affine and random_perspective: that they undo the map as
 *  it is defined, and that the draws have torchvision's distributions.
 *
 *  Distributions are compared by chi-square with BINS - 1 = 19 degrees of freedom: one stays under LIMIT but
 *  for 2e-6 of all seeds, so the 14 of a run raise a false alarm in fewer than 1e-4 of runs.
 */
#include <float.h>
#include <math.h>
#include <string.h>
#include "pipelines.h"
#include "seed.h"
#include "warp.h"

enum { DRAWS = 20000, BINS = 20, ROUNDS = 500 };
static const double LIMIT = 62;

static keyed_random_t
s_stream (uint64_t id)
{
    pipeline_key_t key = { .seed = test_seed (), .id = id };
    keyed_random_t random;
    keyed_random_init (&random, &key, 0, 3);
    return random;
}

//  Whether values, each from 0 to below 1, are uniform.
static void
s_check_uniform (const char *name, const double *values)
{
    uint32_t counts [BINS] = { 0 };
    double sum = 0, expected = (double) DRAWS / BINS;
    for (size_t index = 0; index < DRAWS; index++) {
        if (!(values [index] >= 0 && values [index] < 1))
            fail_msg ("seed %" PRIu64 ": %s %g", test_seed (), name, values [index]);
        counts [(size_t) (values [index] * BINS)]++;
    }
    for (size_t bin = 0; bin < BINS; bin++)
        sum += (counts [bin] - expected) * (counts [bin] - expected) / expected;
    print_message ("%s: chi-square %.1f of %d bins, seed %" PRIu64 "\n", name, sum, BINS, test_seed ());
    if (sum > LIMIT)
        fail_msg ("seed %" PRIu64 ": %s has chi-square %g", test_seed (), name, sum);
}

//  Independent of each other: of two, the sum modulo 1 is uniform too.
static void
s_check_pair (const char *name, const double *one, const double *other)
{
    static double sums [DRAWS];
    for (size_t index = 0; index < DRAWS; index++)
        sums [index] = fmod (one [index] + other [index], 1);
    s_check_uniform (name, sums);
}

static void
test_draws_are_uniform (void **state)
{
    (void) state;
    static double angles [DRAWS], across [DRAWS], down [DRAWS], scales [DRAWS], shears [2] [DRAWS],
        turns [DRAWS];
    operation_t affine = { .kind = OPERATION_RANDOM_AFFINE, .affine = {
        .degrees = { -30, 70 }, .translate = { 0.25, 0.5 }, .scale = { 0.5, 2 },
        .shear = { -10, 20, 3, 4 } } };
    operation_t rotation = { .kind = OPERATION_RANDOM_ROTATION, .rotation = { .degrees = { 10, 350 } } };
    //  So large that rounding to whole pixels does not show.
    const double height = 40000, width = 80000;
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id), again = random, second = s_stream (id + DRAWS);
        warp_affine_t drawn = warp_draw_affine (&affine, (uint32_t) height, (uint32_t) width, &random);
        for (int draw = 0; draw < 6; draw++)
            keyed_random_next (&again);
        assert_int_equal (again.used, random.used);
        assert_true (drawn.translate [0] == rint (drawn.translate [0]));
        assert_null (drawn.center);
        angles [id] = (drawn.angle + 30) / 100;
        across [id] = (drawn.translate [0] + 0.25 * width + 0.5) / (0.5 * width + 1);
        down [id] = (drawn.translate [1] + 0.5 * height + 0.5) / (height + 1);
        scales [id] = (drawn.scale - 0.5) / 1.5;
        shears [0] [id] = (drawn.shear [0] + 10) / 30;
        shears [1] [id] = drawn.shear [1] - 3;
        turns [id] = (warp_draw_angle (&rotation, &second) - 10) / 340;
    }
    s_check_uniform ("angle", angles);
    s_check_uniform ("across", across);
    s_check_uniform ("down", down);
    s_check_uniform ("scale", scales);
    s_check_uniform ("shear across", shears [0]);
    s_check_uniform ("shear down", shears [1]);
    s_check_uniform ("rotation", turns);
    s_check_pair ("angle and across", angles, across);
    s_check_pair ("across and down", across, down);
    s_check_pair ("scale and angle", scales, angles);
    s_check_pair ("shears", shears [0], shears [1]);
    s_check_pair ("rotation and angle", turns, angles);
}

//  Few pixels: every whole number of the range comes, the ends half as often.
static void
test_translations_are_whole (void **state)
{
    (void) state;
    operation_t affine = { .kind = OPERATION_RANDOM_AFFINE, .affine = { .translate = { 0.3, 0 },
        .scale = { 1, 1 } } };
    uint32_t counts [7] = { 0 };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id);
        warp_affine_t drawn = warp_draw_affine (&affine, 10, 10, &random);
        assert_true (fabs (drawn.translate [0]) <= 3);
        assert_true (drawn.translate [1] == 0 && drawn.scale == 1 && drawn.angle == 0);
        counts [(int) drawn.translate [0] + 3]++;
    }
    for (int place = 0; place < 7; place++) {
        double expected = DRAWS / (place % 6? 6.0: 12.0);
        //  Beyond 5.5 deviations: once in 2e7 runs.
        if (fabs (counts [place] - expected) > 5.5 * sqrt (expected))
            fail_msg ("seed %" PRIu64 ": %d comes %u times", test_seed (), place - 3, counts [place]);
    }
}

static double
s_between (uint64_t *random, double least, double most)
{
    return least + (most - least) * (double) test_below (random, 1 << 30) / (1 << 30);
}

//  Whether a point goes from (x, y) to (to_x, to_y).
static void
s_check_point (const boxes_map_t *map, double x, double y, double to_x, double to_y, double slack)
{
    const float *m = map->matrix;
    double by = m [6] * x + m [7] * y + m [8];
    assert_true (fabs ((m [0] * x + m [1] * y + m [2]) / by - to_x) < slack);
    assert_true (fabs ((m [3] * x + m [4] * y + m [5]) / by - to_y) < slack);
}

//  A matrix undoes: shear about the centre, turn clockwise, scale, and then translate; boxes are moved so.
static void
test_affine_undoes_the_map (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    const double degree = acos (-1) / 180;
    for (int round = 0; round < ROUNDS; round++) {
        const double center [2] = { s_between (&random, -50, 50), s_between (&random, -50, 50) };
        warp_affine_t affine = { .angle = s_between (&random, -400, 400),
            .scale = s_between (&random, 0.2, 5),
            .translate = { rint (s_between (&random, -9, 9)), rint (s_between (&random, -9, 9)) },
            .shear = { s_between (&random, -60, 60), s_between (&random, -60, 60) }, .center = center };
        warp_t warp = warp_affine (&affine, 30, 40);
        assert_int_equal (warp.kind, WARP_MATRIX);
        double x = s_between (&random, 0, 40), y = s_between (&random, 0, 30);
        double from_x = x - center [0], from_y = y - center [1];
        from_x -= tan (affine.shear [0] * degree) * from_y;
        from_y -= tan (affine.shear [1] * degree) * from_x;
        double turn = affine.angle * degree;
        double to_x = affine.scale * (cos (turn) * from_x - sin (turn) * from_y) + center [0]
            + affine.translate [0];
        double to_y = affine.scale * (sin (turn) * from_x + cos (turn) * from_y) + center [1]
            + affine.translate [1];
        assert_true (fabs (warp.matrix [0] * to_x + warp.matrix [1] * to_y + warp.matrix [2] - x) < 1e-8);
        assert_true (fabs (warp.matrix [3] * to_x + warp.matrix [4] * to_y + warp.matrix [5] - y) < 1e-8);
        s_check_point (&warp.points, x, y, to_x, to_y, 0.01);
    }
}

//  Every corner of the turned image is in the result, which is no larger than it must be.
static void
test_expanded_rotations_hold_all (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t height = 1 + (uint32_t) test_below (&random, 300);
        uint32_t width = 1 + (uint32_t) test_below (&random, 300);
        double angle = s_between (&random, -400, 400), turn = angle * acos (-1) / 180;
        warp_t warp = warp_rotate (angle, true, NULL, height, width);
        double wide = fabs (width * cos (turn)) + fabs (height * sin (turn));
        double tall = fabs (width * sin (turn)) + fabs (height * cos (turn));
        assert_true (warp.width + 1e-9 >= wide && warp.width < wide + 2);
        assert_true (warp.height + 1e-9 >= tall && warp.height < tall + 2);
        assert_true (hypot (height, width) + 2 >= warp.width);
    }
}

//  Guards: an expanded image is as large as Pillow 9.4's, to the pixel.
static void
test_expanded_rotations_have_pillows_sizes (void **state)
{
    (void) state;
    static const struct {
        double angle;
        bool has_center;
        double center [2];
        uint32_t from [2], to [2];          //  height, width
    } s_sizes [] = {
        { 312.64, false, { 0, 0 }, { 25, 9 }, { 25, 25 } },
        { 70.88, true, { 28, -8 }, { 13, 15 }, { 19, 19 } },
        { 336.89, false, { 0, 0 }, { 28, 25 }, { 36, 35 } },
        { 294.67, true, { 30, 13 }, { 21, 6 }, { 15, 23 } },
        { 91, false, { 0, 0 }, { 32, 32 }, { 34, 34 } }, { 334.68, true, { 34, 55 }, { 50, 9 }, { 51, 31 } },
        { 189, false, { 0, 0 }, { 39, 8 }, { 41, 16 } }, { 122.67, true, { 8, 33 }, { 7, 29 }, { 29, 23 } },
        { 33.15, false, { 0, 0 }, { 46, 19 }, { 50, 43 } },
        { 11.78, true, { 32, 16 }, { 60, 5 }, { 61, 18 } },
        { 341.93, false, { 0, 0 }, { 48, 10 }, { 50, 26 } }, { 223, true, { 43, 27 }, { 12, 8 }, { 16, 15 } }
    };
    for (size_t index = 0; index < sizeof s_sizes / sizeof *s_sizes; index++) {
        warp_t warp = warp_rotate (s_sizes [index].angle, true,
            s_sizes [index].has_center? s_sizes [index].center: NULL, s_sizes [index].from [0],
            s_sizes [index].from [1]);
        assert_int_equal (warp.height, s_sizes [index].to [0]);
        assert_int_equal (warp.width, s_sizes [index].to [1]);
    }
}

//  The map, of nine numbers of 32 bits, takes a point there, but for what the rounding of these numbers makes
//  of it: a thin image has a denominator near 0.
static void
s_check_rounded (const double map [9], const double from [2], const double to [2])
{
    double terms [3];
    for (size_t row = 0; row < 3; row++)
        terms [row] = fabs (map [3 * row] * from [0]) + fabs (map [3 * row + 1] * from [1])
            + fabs (map [3 * row + 2]);
    double by = map [6] * from [0] + map [7] * from [1] + map [8];
    for (size_t axis = 0; axis < 2; axis++) {
        const double *row = map + 3 * axis;
        double off = row [0] * from [0] + row [1] * from [1] + row [2] - to [axis] * by;
        assert_true (fabs (off) <= FLT_EPSILON * (terms [axis] + fabs (to [axis]) * terms [2]));
    }
}

//  The corners of the image are shown where they were to go, and boxes move as the map says; where three
//  corners are in a line, nothing is done.
static void
test_perspective_moves_the_corners (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    int done = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t height = 2 + (uint32_t) test_below (&random, 300);
        uint32_t width = 2 + (uint32_t) test_below (&random, 300);
        operation_t perspective = { .kind = OPERATION_RANDOM_PERSPECTIVE,
            .probability = 1, .perspective = { .distortion = s_between (&random, 0, 0.9) } };
        keyed_random_t stream = s_stream ((uint64_t) round);
        warp_corners_t to = warp_draw_corners (&perspective, height, width, &stream);
        warp_t warp = warp_perspective (&to, height, width);
        const double from [4] [2] = { { 0, 0 }, { width - 1, 0 }, { width - 1, height - 1 },
            { 0, height - 1 } };
        done += warp.kind == WARP_MATRIX;
        for (size_t corner = 0; corner < 4 && warp.kind == WARP_MATRIX; corner++) {
            const double *m = warp.matrix, *v = warp.vanishing;
            const double map [9] = { m [0], m [1], m [2], m [3], m [4], m [5], v [0], v [1], 1 };
            const double at [2] = { (double) to.corners [corner] [0], (double) to.corners [corner] [1] };
            double back [9], by = v [0] * at [0] + v [1] * at [1] + 1;
            const double shown [2] = { (m [0] * at [0] + m [1] * at [1] + m [2]) / by,
                (m [3] * at [0] + m [4] * at [1] + m [5]) / by };
            s_check_rounded (map, at, from [corner]);
            for (size_t index = 0; index < 9; index++)
                back [index] = (double) warp.points.matrix [index];
            s_check_rounded (back, shown, at);
        }
    }
    assert_true (done > ROUNDS * 9 / 10);
    const warp_corners_t line = { { { 0, 0 }, { 10, 5 }, { 20, 10 }, { 0, 9 } } };
    const warp_corners_t same = { { { 0, 0 }, { 29, 0 }, { 29, 19 }, { 0, 19 } } };
    assert_int_equal (warp_perspective (&line, 20, 30).kind, WARP_NOTHING);
    assert_int_equal (warp_perspective (&same, 1, 30).kind, WARP_NOTHING);
    assert_int_equal (warp_perspective (&same, 20, 1).kind, WARP_NOTHING);
    warp_t identity = warp_perspective (&same, 20, 30);
    assert_true (identity.matrix [0] == 1 && identity.matrix [4] == 1 && identity.vanishing [0] == 0);
}

//  Quarters of a turn move pixels; with a centre they are computed as any other.
static void
test_turns (void **state)
{
    (void) state;
    const double center [2] = { 3, 4 };
    warp_t none = warp_rotate (-720, false, NULL, 5, 7), half = warp_rotate (180, true, NULL, 5, 7);
    assert_int_equal (none.kind, WARP_NOTHING);
    assert_int_equal (half.kind, WARP_HALF_TURN);
    assert_true (half.height == 5 && half.width == 7);
    warp_t quarter = warp_rotate (90, true, NULL, 5, 7);
    assert_true (quarter.is_exact && quarter.height == 7 && quarter.width == 5);
    assert_false (warp_rotate (90, false, NULL, 5, 7).is_exact);
    assert_true (warp_rotate (270, false, NULL, 7, 7).is_exact);
    assert_int_equal (warp_rotate (0, false, center, 5, 7).kind, WARP_MATRIX);
    assert_false (warp_rotate (180, false, center, 5, 7).is_exact);
    //  Boxes are turned in the same way, counter-clockwise, and expanded behind that.
    s_check_point (&quarter.points, 3.5, 0, 1, 2.5, 1e-6);
    s_check_point (&half.points, 1, 2, 6, 3, 1e-6);
    assert_true (quarter.points.expands && half.points.expands && !none.points.expands);
    s_check_point (&none.points, 1, 2, 1, 2, 1e-6);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_draws_are_uniform),
        cmocka_unit_test (test_translations_are_whole),
        cmocka_unit_test (test_affine_undoes_the_map),
        cmocka_unit_test (test_expanded_rotations_hold_all),
        cmocka_unit_test (test_expanded_rotations_have_pillows_sizes),
        cmocka_unit_test (test_perspective_moves_the_corners),
        cmocka_unit_test (test_turns),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

/*  test_geometry -- which pixels an operation takes, against naive models: exactly, given the random numbers;
 *  and whether what is drawn has torchvision's distributions.
 *
 *  Boxes of random_resized_crop are compared with a second model that has its own generator, by two-sample
 *  chi-square; all else, by chi-square, with what torchvision's code says.  A run makes fewer than 40 such
 *  tests of up to BINS - 1 = 29 degrees of freedom; each stays under LIMIT = 83 but for 1e-6 of all seeds:
 *  with the z-tests below (5.5, 4e-8 each) a false alarm in fewer than 1e-4 of runs.
 */
#include <math.h>
#include <string.h>
#include "pipelines.h"
#include "geometry.h"
#include "seed.h"

enum { BOXES = 60000, BINS = 30, SMALL = 20 };
static const double LIMIT = 83;

static keyed_random_t
s_stream (uint64_t seed, uint64_t id, uint32_t view, uint32_t place)
{
    pipeline_key_t key = { .seed = seed, .id = id };
    keyed_random_t random;
    keyed_random_init (&random, &key, view, place);
    return random;
}

//  ---------------------------------------------------------------------------------------------------------
//  random_resized_crop

typedef struct {
    uint32_t height, width;
    double scale [2], ratio [2];
} setting_t;

static const setting_t s_settings [] = {
    { 375, 500, { 0.08, 1 }, { 3. / 4, 4. / 3 } },
    { 90, 700, { 0.08, 1 }, { 3. / 4, 4. / 3 } },       //  many tries fail, most boxes are the middle one
    { 640, 427, { 0.3, 0.4 }, { 0.5, 0.6 } },
    { 7, 5, { 0.2, 1 }, { 0.25, 4 } },                  //  rounding to whole pixels shows
};

typedef double property_t (const image_box_t *box, const setting_t *setting);

static double
s_unit (uint64_t *state)
{
    return (double) test_below (state, (uint64_t) 1 << 52) / (double) ((uint64_t) 1 << 52);
}

//  The model: as the documentation of torchvision tells it, by trial in floating point and Python's rounding
//  by hand.
static double
s_half_even (double value)
{
    double below = floor (value), rest = value - below;
    return rest > 0.5 || (rest == 0.5 && fmod (below, 2) == 1)? below + 1: below;
}

static image_box_t
s_model (const setting_t *setting, uint64_t *state)
{
    double height = setting->height, width = setting->width;
    for (int attempt = 1; attempt <= 10; attempt++) {
        double area;
        do                              //  by rejection, where the code under test maps an interval
            area = s_unit (state);
        while (area < setting->scale [0] || area > setting->scale [1]);
        area *= height * width;
        double ratio = setting->ratio [0] * pow (setting->ratio [1] / setting->ratio [0], s_unit (state));
        double h = s_half_even (sqrt (area / ratio)), w = s_half_even (h > 0? sqrt (area * ratio): 0);
        if (h < 1 || w < 1 || h > height || w > width)
            continue;
        return (image_box_t) {
            .top = (uint32_t) test_below (state, (uint64_t) (height - h) + 1),
            .left = (uint32_t) test_below (state, (uint64_t) (width - w) + 1),
            .height = (uint32_t) h, .width = (uint32_t) w
        };
    }
    double h = height, w = width;
    if (width / height < setting->ratio [0])
        h = s_half_even (width / setting->ratio [0]);
    if (width / height > setting->ratio [1])
        w = s_half_even (height * setting->ratio [1]);
    return (image_box_t) {
        .top = (uint32_t) floor ((height - h) / 2), .left = (uint32_t) floor ((width - w) / 2),
        .height = (uint32_t) h, .width = (uint32_t) w
    };
}

static double
s_area (const image_box_t *box, const setting_t *setting)
{
    return (double) box->height * box->width / setting->height / setting->width;
}

static double
s_aspect (const image_box_t *box, const setting_t *setting)
{
    (void) setting;
    return 0.5 + log ((double) box->width / box->height) / 4;
}

static double
s_top (const image_box_t *box, const setting_t *setting)
{
    return (double) box->top / (setting->height - box->height + 1);
}

static double
s_left (const image_box_t *box, const setting_t *setting)
{
    return (double) box->left / (setting->width - box->width + 1);
}

static void
s_count (uint32_t bins [BINS], double value)
{
    int bin = (int) (value * BINS);
    bins [bin < 0? 0: bin >= BINS? BINS - 1: bin]++;
}

//  Of two samples of one size; bins with few are taken together.
static double
s_chi_square (const uint32_t one [BINS], const uint32_t two [BINS])
{
    double chi = 0, rest_one = 0, rest_two = 0;
    for (int bin = 0; bin < BINS; bin++) {
        double a = one [bin], b = two [bin];
        if (a + b < SMALL) {
            rest_one += a;
            rest_two += b;
        }
        else
            chi += (a - b) * (a - b) / (a + b);
    }
    if (rest_one + rest_two >= SMALL)
        chi += (rest_one - rest_two) * (rest_one - rest_two) / (rest_one + rest_two);
    return chi;
}

static void
s_compare (const setting_t *setting, const image_box_t *ours, const image_box_t *theirs)
{
    static const struct { const char *name; property_t *property; } properties [] = {
        { "area", s_area }, { "aspect", s_aspect }, { "top", s_top }, { "left", s_left }
    };
    for (size_t index = 0; index < 4; index++) {
        uint32_t one [BINS] = { 0 }, two [BINS] = { 0 };
        for (int box = 0; box < BOXES; box++) {
            s_count (one, properties [index].property (&ours [box], setting));
            s_count (two, properties [index].property (&theirs [box], setting));
        }
        double chi = s_chi_square (one, two);
        if (chi > LIMIT)
            fail_msg ("seed %" PRIu64 ", %u x %u: %s: chi-square %g", test_seed (), setting->height,
                setting->width, properties [index].name, chi);
    }
}

static operation_t
s_operation (const setting_t *setting)
{
    operation_t operation = { .kind = OPERATION_RANDOM_RESIZED_CROP, .height = 1, .width = 1 };
    memcpy (operation.random_resized_crop.scale, setting->scale, sizeof setting->scale);
    memcpy (operation.random_resized_crop.ratio, setting->ratio, sizeof setting->ratio);
    return operation;
}

static image_box_t
s_box (const operation_t *operation, uint32_t height, uint32_t width, uint64_t seed, uint64_t id)
{
    keyed_random_t random = s_stream (seed, id, 0, 0);
    return geometry_random_box (operation, height, width, &random);
}

static void
test_boxes_are_distributed_like_the_model (void **state)
{
    (void) state;
    static image_box_t ours [BOXES], theirs [BOXES];
    uint64_t model_state = test_seed () ^ 0x5bd1e995;
    for (size_t index = 0; index < sizeof s_settings / sizeof *s_settings; index++) {
        operation_t operation = s_operation (&s_settings [index]);
        for (int box = 0; box < BOXES; box++) {
            ours [box] = s_box (&operation, s_settings [index].height, s_settings [index].width,
                test_seed () + index, (uint64_t) box);
            theirs [box] = s_model (&s_settings [index], &model_state);
        }
        s_compare (&s_settings [index], ours, theirs);
    }
}

//  Any image and any allowed parameters: the box is inside and not empty.
static void
test_boxes_are_inside (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 100000; round++) {
        uint32_t height = 1 + (uint32_t) test_below (&random, round % 2? 5: 65500);
        uint32_t width = 1 + (uint32_t) test_below (&random, round % 3? 5: 65500);
        setting_t setting = {
            .scale = { 1e-9 + s_unit (&random), 1 }, .ratio = { 0.01 + 99 * s_unit (&random), 100 }
        };
        if (setting.scale [0] > 1 || round % 5 == 0)
            setting.scale [0] = setting.scale [1] = 1e-9;
        if (round % 7 == 0)
            setting.ratio [1] = setting.ratio [0] = 0.01;
        operation_t operation = s_operation (&setting);
        image_box_t box = s_box (&operation, height, width, test_seed (), (uint64_t) round);
        if (!box.height || !box.width || box.top + box.height > height || box.left + box.width > width)
            fail_msg ("seed %" PRIu64 ", round %d: %u x %u at %u, %u of %u x %u", test_seed (), round,
                box.height, box.width, box.top, box.left, height, width);
    }
}

//  The key decides, nothing else; another draw number gives another box (of 187,500 and more, all but
//  always).
static void
test_boxes_follow_from_the_key (void **state)
{
    (void) state;
    operation_t operation = s_operation (&s_settings [0]);
    int same = 0;
    for (uint64_t id = 0; id < 1000; id++) {
        image_box_t one = s_box (&operation, 375, 500, 1, id), two = s_box (&operation, 375, 500, 1, id);
        assert_memory_equal (&one, &two, sizeof one);
        image_box_t other = s_box (&operation, 375, 500, 2, id);
        same += memcmp (&one, &other, sizeof one) == 0;
    }
    assert_true (same <= 2);
}

//  The fallback of ten failed tries, in numbers worked out by hand.
static void
test_middle_boxes (void **state)
{
    (void) state;
    setting_t setting = { .scale = { 1, 1 }, .ratio = { 0.75, 0.75 } };
    operation_t operation = s_operation (&setting);
    image_box_t wide = s_box (&operation, 100, 400, 1, 1), tall = s_box (&operation, 400, 99, 1, 1);
    image_box_t wide_expected = { .top = 0, .left = 162, .height = 100, .width = 75 };
    image_box_t tall_expected = { .top = 134, .left = 0, .height = 132, .width = 99 };
    assert_memory_equal (&wide, &wide_expected, sizeof wide);
    assert_memory_equal (&tall, &tall_expected, sizeof tall);
    //  134.7 rows and 75.8 columns: rounded, not cut.
    tall = s_box (&operation, 400, 101, 1, 1);
    wide = s_box (&operation, 101, 400, 1, 1);
    assert_int_equal (tall.height, 135);
    assert_int_equal (wide.width, 76);
}

//  ---------------------------------------------------------------------------------------------------------
//  Sizes and windows

//  torchvision's _compute_resized_output_size, in Python's arithmetic: quotients as doubles, then cut.
static void
s_resize_model (const operation_t *resize, double height, double width, double *new_height_p,
    double *new_width_p)
{
    double short_side = fmin (height, width), long_side = fmax (height, width),
        most = resize->resize.side_max;
    double new_short = resize->height, new_long = trunc (new_short * long_side / short_side);
    if (most > 0 && new_long > most) {
        new_short = fmax (trunc (most * new_short / new_long), 1);
        new_long = most;
    }
    *new_height_p = width <= height? new_long: new_short;
    *new_width_p = width <= height? new_short: new_long;
}

static void
test_resize_by_the_shorter_side (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 100000; round++) {
        uint32_t range = round % 3? 70000: 12, size = 1 + (uint32_t) test_below (&random, round % 2? 4096: 9);
        uint32_t height = 1 + (uint32_t) test_below (&random, range),
            width = 1 + (uint32_t) test_below (&random, range);
        operation_t resize = { .kind = OPERATION_RESIZE, .height = size, .width = size };
        resize.resize.shorter_side = true;
        if (round % 4 == 0)
            resize.resize.side_max = size + 1 + (uint32_t) test_below (&random, 4096);
        uint32_t new_height, new_width;
        double expected_height, expected_width;
        geometry_resize (&resize, height, width, &new_height, &new_width);
        s_resize_model (&resize, height, width, &expected_height, &expected_width);
        if (new_height != expected_height || new_width != expected_width)
            fail_msg ("seed %" PRIu64 ", round %d: %u of %u x %u is %u x %u", test_seed (), round, size,
                height, width, new_height, new_width);
    }
}

//  In numbers worked out by torchvision; and what would overflow, or be nothing.
static void
test_resize_in_numbers (void **state)
{
    (void) state;
    static const struct { uint32_t size, most, height, width, new_height, new_width; } cases [] = {
        { 256, 0, 375, 500, 256, 341 }, { 256, 0, 500, 375, 341, 256 }, { 256, 300, 375, 500, 225, 300 },
        { 256, 300, 375, 375, 256, 256 }, { 7, 8, 1, 1000, 1, 8 }, { 7, 8, 1000, 1, 8, 1 },
        { 4096, 0, 1, 100000000, 4096, UINT32_MAX }, { 100, 101, 1, 100000000, 1, 101 },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        operation_t resize = { .kind = OPERATION_RESIZE, .height = cases [index].size,
            .width = cases [index].size };
        resize.resize.shorter_side = true;
        resize.resize.side_max = cases [index].most;
        uint32_t height, width;
        geometry_resize (&resize, cases [index].height, cases [index].width, &height, &width);
        assert_int_equal (height, cases [index].new_height);
        assert_int_equal (width, cases [index].new_width);
    }
    operation_t both = { .kind = OPERATION_RESIZE, .height = 9, .width = 4 };
    uint32_t height, width;
    geometry_resize (&both, 1, 77, &height, &width);
    assert_int_equal (height, 9);
    assert_int_equal (width, 4);
}

//  Offsets of the centre crop: Python rounds halves to even, and pads the smaller side left and above.
static void
test_center_crops (void **state)
{
    (void) state;
    static const struct { uint32_t crop, side, from, to, length; } cases [] = {
        { 224, 224, 0, 0, 224 }, { 224, 225, 0, 0, 224 }, { 224, 226, 1, 0, 224 }, { 224, 227, 2, 0, 224 },
        { 224, 229, 2, 0, 224 }, { 224, 231, 4, 0, 224 }, { 224, 223, 0, 0, 223 }, { 224, 222, 0, 1, 222 },
        { 224, 221, 0, 1, 221 }, { 224, 1, 0, 111, 1 }, { 1, 65500, 32750, 0, 1 },
        { 1, 4, 2, 0, 1 }, { 1, 2, 0, 0, 1 },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        geometry_window_t crop = geometry_center_crop (cases [index].crop, 10, cases [index].side, 10);
        assert_int_equal (crop.height, cases [index].crop);
        assert_int_equal (crop.from.top, cases [index].from);
        assert_int_equal (crop.to_top, cases [index].to);
        assert_int_equal (crop.from.height, cases [index].length);
        crop = geometry_center_crop (10, cases [index].crop, 10, cases [index].side);
        assert_int_equal (crop.width, cases [index].crop);
        assert_int_equal (crop.from.left, cases [index].from);
        assert_int_equal (crop.to_left, cases [index].to);
        assert_int_equal (crop.from.width, cases [index].length);
    }
}

//  The model of padding: a row of the source's indices (-1: the fill) that really grows, one pixel at a time.
enum { ROW_MAX = 400 };

typedef struct {
    int pixels [ROW_MAX];
    int length;
} row_t;

//  The pixel that comes next beyond the end of a row, of which the part of `side` that begins at `begin` is
//  mirrored.
static int
s_next_pixel (const row_t *row, pad_mode_t mode, int begin, int side, int distance)
{
    if (mode == PAD_CONSTANT)
        return -1;
    if (mode == PAD_EDGE || side == 1)
        return row->pixels [begin + side - 1];
    //  Walk: forwards and backwards over the part, as often as it takes.
    int at = side - 1, step = -1;
    for (int walked = mode == PAD_REFLECT? 0: 1; walked < distance; walked++) {
        if (at + step < 0 || at + step >= side) {
            step = -step;
            if (mode == PAD_SYMMETRIC)
                continue;
        }
        at += step;
    }
    return row->pixels [begin + at];
}

static void
s_turn (row_t *row)
{
    for (int index = 0; index < row->length / 2; index++) {
        int pixel = row->pixels [index];
        row->pixels [index] = row->pixels [row->length - 1 - index];
        row->pixels [row->length - 1 - index] = pixel;
    }
}

//  Pads the end, turns the row round, pads the other end, turns it back.
static void
s_pad_model (row_t *row, pad_mode_t mode, int before, int behind)
{
    int side = row->length, begin = 0;
    for (int end = 0; end < 2; end++) {
        int count = end? before: behind, length = row->length;
        assert_true (length + count < ROW_MAX);
        for (int distance = 1; distance <= count; distance++)
            row->pixels [row->length++] = s_next_pixel (row, mode, begin, side, distance);
        s_turn (row);
        begin = row->length - begin - side;
    }
}

//  What a window shows along one axis, by geometry_border.
static void
s_check_row (const row_t *expected, int at, pad_mode_t mode, uint32_t length, uint32_t side,
    uint32_t from, uint32_t count, uint32_t to, int round)
{
    for (uint32_t index = 0; index < length; index++) {
        int64_t source = (int64_t) from - to + index;
        int64_t shown = geometry_border (mode, source, side);
        bool is_inside = index >= to && index < to + count;
        if (shown != expected->pixels [at + (int) index] || is_inside != (source >= 0 && source < side))
            fail_msg ("seed %" PRIu64 ", round %d, mode %d: pixel %u of %u, side %u: %d for %d", test_seed (),
                round, (int) mode, index, length, side, (int) shown, expected->pixels [at + (int) index]);
    }
}

static row_t
s_row (uint32_t side)
{
    row_t row = { .length = (int) side };
    for (uint32_t index = 0; index < side; index++)
        row.pixels [index] = (int) index;
    return row;
}

static operation_t
s_padding (operation_kind_t kind, uint64_t *random)
{
    operation_t pad = { .kind = kind };
    pad.pad.mode = (pad_mode_t) test_below (random, 4);
    for (size_t end = 0; end < 4; end++)
        pad.pad.border [end] = (uint32_t) test_below (random, test_below (random, 3)? 6: 40);
    return pad;
}

//  Borders of all modes, wider than the image too.
static void
test_pads (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 3000; round++) {
        operation_t pad = s_padding (OPERATION_PAD, &random);
        const uint32_t *border = pad.pad.border;
        uint32_t height = 1 + (uint32_t) test_below (&random, 9),
            width = 1 + (uint32_t) test_below (&random, 9);
        geometry_window_t window = geometry_pad (&pad, height, width);
        row_t down = s_row (height), across = s_row (width);
        s_pad_model (&down, pad.pad.mode, (int) border [1], (int) border [3]);
        s_pad_model (&across, pad.pad.mode, (int) border [0], (int) border [2]);
        assert_int_equal (window.height, down.length);
        assert_int_equal (window.width, across.length);
        s_check_row (&down, 0, pad.pad.mode, window.height, height,
            window.from.top, window.from.height, window.to_top, round);
        s_check_row (&across, 0, pad.pad.mode, window.width, width,
            window.from.left, window.from.width, window.to_left, round);
    }
}

//  torchvision's forward () of RandomCrop on one axis, with the place taken from the same stream.
static int
s_random_crop_model (row_t *row, const operation_t *crop, bool is_down, uint32_t side)
{
    const uint32_t *border = crop->pad.border;
    int wanted = (int) (is_down? crop->height: crop->width);
    *row = s_row (side);
    s_pad_model (row, crop->pad.mode, (int) border [is_down? 1: 0], (int) border [is_down? 3: 2]);
    int missing = wanted - row->length;
    if (missing > 0 && crop->pad.if_needed)
        s_pad_model (row, crop->pad.mode, missing, missing);
    return row->length - wanted;
}

static void
test_random_crops (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 1;
    int impossible = 0, beside = 0;
    for (int round = 0; round < 6000; round++) {
        operation_t crop = s_padding (OPERATION_RANDOM_CROP, &random);
        crop.height = 1 + (uint32_t) test_below (&random, 20);
        crop.width = 1 + (uint32_t) test_below (&random, 20);
        crop.pad.if_needed = test_below (&random, 2);
        if (round % 3 == 0 || (crop.pad.if_needed && crop.pad.mode >= PAD_REFLECT))
            memset (crop.pad.border, 0, sizeof crop.pad.border);
        uint32_t height = 1 + (uint32_t) test_below (&random, 30),
            width = 1 + (uint32_t) test_below (&random, 30);
        keyed_random_t ours = s_stream (test_seed (), (uint64_t) round, 0, 0), theirs = ours;
        row_t down, across;
        int down_room = s_random_crop_model (&down, &crop, true, height);
        int across_room = s_random_crop_model (&across, &crop, false, width);
        geometry_window_t window;
        bool is_possible = geometry_random_crop (&crop, height, width, &ours, &window);
        assert_int_equal (is_possible, down_room >= 0 && across_room >= 0);
        impossible += !is_possible;
        if (!is_possible)
            continue;
        bool draws = down_room > 0 || across_room > 0;
        int top = draws? (int) keyed_random_below (&theirs, (uint64_t) down_room + 1): 0;
        int left = draws? (int) keyed_random_below (&theirs, (uint64_t) across_room + 1): 0;
        assert_true (keyed_random_next (&ours) == keyed_random_next (&theirs));     //  as many draws
        beside += !window.from.height || !window.from.width;
        s_check_row (&down, top, crop.pad.mode, window.height, height,
            window.from.top, window.from.height, window.to_top, round);
        s_check_row (&across, left, crop.pad.mode, window.width, width,
            window.from.left, window.from.width, window.to_left, round);
    }
    assert_true (impossible > 100);
    assert_true (beside > 100);
}

//  Chi-square against a uniform distribution over cells.
static void
s_check_even (const char *what, const uint32_t *counts, size_t cells, double draws)
{
    double expected = draws / (double) cells, chi = 0;
    for (size_t cell = 0; cell < cells; cell++)
        chi += (counts [cell] - expected) * (counts [cell] - expected) / expected;
    if (chi > LIMIT)
        fail_msg ("seed %" PRIu64 ": %s: chi-square %g of %zu cells", test_seed (), what, chi, cells);
}

//  Every place is as likely as another, padding and what was padded because it was needed included.
static void
test_random_crops_are_uniform (void **state)
{
    (void) state;
    enum { DRAWS = 30000, PLACES = 11 };
    static const struct { uint32_t side, border; bool if_needed; } cases [] = {
        { 18, 0, false }, { 10, 4, false }, { 13, 0, false }, { 3, 0, true }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        operation_t crop = { .kind = OPERATION_RANDOM_CROP, .height = 8, .width = 8 };
        uint32_t side = cases [index].side, border = cases [index].border, tops [BINS] = { 0 },
            lefts [BINS] = { 0 };
        uint32_t missing = cases [index].if_needed? 8 - side: 0,
            places = side + 2 * (border + missing) - 8 + 1;
        for (size_t end = 0; end < 4; end++)
            crop.pad.border [end] = border;
        crop.pad.if_needed = cases [index].if_needed;
        for (uint64_t id = 0; id < DRAWS; id++) {
            keyed_random_t random = s_stream (test_seed () + index, id, 1, 2);
            geometry_window_t window;
            assert_true (geometry_random_crop (&crop, side, side, &random, &window));
            uint32_t top = window.from.top - window.to_top + border + missing;
            uint32_t left = window.from.left - window.to_left + border + missing;
            assert_true (top < places && left < places);
            tops [top]++;
            lefts [left]++;
        }
        s_check_even ("top", tops, places, DRAWS);
        s_check_even ("left", lefts, places, DRAWS);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Chances and colours

static operation_t
s_chance (operation_kind_t kind, double probability)
{
    return (operation_t) { .kind = kind, .probability = probability };
}

//  The share is p: |z| above 5.5 comes once in 2e7 runs of a case.  0 and 1 draw nothing.
static void
test_chances (void **state)
{
    (void) state;
    enum { DRAWS = 20000 };
    static const operation_kind_t kinds [] = {
        OPERATION_FLIP, OPERATION_VERTICAL_FLIP, OPERATION_GRAYSCALE, OPERATION_INVERT, OPERATION_POSTERIZE,
        OPERATION_SOLARIZE, OPERATION_AUTOCONTRAST, OPERATION_EQUALIZE, OPERATION_ADJUST_SHARPNESS
    };
    static const double probabilities [] = { 0, 0.03, 0.5, 0.8, 1 };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t index = 0; index < 5; index++) {
            double p = probabilities [index];
            operation_t operation = s_chance (kinds [kind], p);
            int happened = 0;
            for (uint64_t id = 0; id < DRAWS; id++) {
                keyed_random_t random = s_stream (test_seed (), id, 0, (uint32_t) kind), before = random;
                happened += geometry_happens (&operation, &random);
                if (p > 0 && p < 1)
                    keyed_random_next (&before);
                assert_int_equal (before.used, random.used);
            }
            if (fabs (happened - DRAWS * p) > 5.5 * sqrt (DRAWS * p * (1 - p)))
                fail_msg ("seed %" PRIu64 ", kind %zu, p %g: %d", test_seed (), kind, p, happened);
        }
}

//  One key, one answer; another epoch, occurrence, view or place, an independent one.
static void
test_chances_follow_from_the_key (void **state)
{
    (void) state;
    enum { IDS = 2000, OTHERS = 4 };
    operation_t flip = s_chance (OPERATION_FLIP, 0.5);
    int agree [OTHERS] = { 0 };
    for (uint64_t id = 0; id < IDS; id++) {
        pipeline_key_t key = { .seed = test_seed (), .id = id }, epoch = key, again = key;
        epoch.round = 1;
        again.occurrence = 1;
        keyed_random_t one, same, others [OTHERS];
        keyed_random_init (&one, &key, 0, 3);
        keyed_random_init (&same, &key, 0, 3);
        keyed_random_init (&others [0], &epoch, 0, 3);
        keyed_random_init (&others [1], &again, 0, 3);
        keyed_random_init (&others [2], &key, 1, 3);
        keyed_random_init (&others [3], &key, 0, 4);
        bool flipped = geometry_happens (&flip, &one);
        assert_int_equal (flipped, geometry_happens (&flip, &same));
        for (int other = 0; other < OTHERS; other++)
            agree [other] += flipped == geometry_happens (&flip, &others [other]);
    }
    for (int other = 0; other < OTHERS; other++)
        assert_true (fabs (agree [other] - IDS / 2.) < 5.5 * sqrt (IDS / 4.));
}

static operation_t
s_jitter (void)
{
    operation_t jitter = { .kind = OPERATION_COLOR_JITTER };
    static const double least [JITTER_KINDS] = { 0.6, 0, 0.9, -0.5 },
        most [JITTER_KINDS] = { 1.4, 3, 2.1, 0.2 };
    memcpy (jitter.jitter.least, least, sizeof least);
    memcpy (jitter.jitter.most, most, sizeof most);
    return jitter;
}

//  All 24 orders are equally likely, and each factor is uniform between its ends, whatever the order.
static void
test_jitter (void **state)
{
    (void) state;
    enum { DRAWS = 24000, ORDERS = 256, CELLS = 20 };
    operation_t jitter = s_jitter ();
    uint32_t orders [ORDERS] = { 0 }, factors [JITTER_KINDS] [CELLS] = { { 0 } }, firsts [CELLS] = { 0 },
        all [24];
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (test_seed (), id, 0, 5);
        colour_program_t program = { .count = 0 };
        assert_true (geometry_jitter (&jitter, &random, &program));
        assert_int_equal (program.count, JITTER_KINDS);
        uint32_t order = 0;
        for (size_t step = 0; step < JITTER_KINDS; step++) {
            size_t kind = program.steps [step].kind;
            assert_true (kind < JITTER_KINDS);
            double least = jitter.jitter.least [kind], most = jitter.jitter.most [kind];
            double place = (program.steps [step].factor - least) / (most - least);
            assert_true (place >= 0 && place < 1);
            factors [kind] [(int) (place * CELLS)]++;
            firsts [(int) (place * CELLS)] += step == 0;
            order = order * 4 + (uint32_t) kind;
        }
        orders [order]++;
    }
    size_t seen = 0;
    for (size_t order = 0; order < ORDERS; order++)
        if (orders [order]) {
            assert_true (seen < 24);
            all [seen++] = orders [order];
        }
    assert_int_equal (seen, 24);
    s_check_even ("order", all, 24, DRAWS);
    s_check_even ("first factor", firsts, CELLS, DRAWS);
    for (size_t kind = 0; kind < JITTER_KINDS; kind++)
        s_check_even ("factor", factors [kind], CELLS, DRAWS);
}

//  What is off draws no factor; the draws come in the order that is written down; a full program is refused.
static void
test_jitter_draws (void **state)
{
    (void) state;
    operation_t jitter = s_jitter ();
    jitter.jitter.least [JITTER_BRIGHTNESS] = jitter.jitter.most [JITTER_BRIGHTNESS] = 1;
    jitter.jitter.least [JITTER_HUE] = jitter.jitter.most [JITTER_HUE] = 0;
    for (uint64_t id = 0; id < 100; id++) {
        keyed_random_t random = s_stream (test_seed (), id, 0, 5), model = random;
        colour_program_t program = { .count = 1 };
        assert_true (geometry_jitter (&jitter, &random, &program));
        assert_int_equal (program.count, 3);
        int place [JITTER_KINDS], left [] = { 0, 1, 2, 3 };
        for (int step = 0; step < 4; step++) {
            int chosen = (int) keyed_random_below (&model, (uint64_t) (4 - step));
            place [left [chosen]] = step;
            memmove (left + chosen, left + chosen + 1, sizeof *left * (size_t) (3 - chosen));
        }
        double contrast = 3 * keyed_random_uniform (&model),
            saturation = 0.9 + 1.2 * keyed_random_uniform (&model);
        bool contrast_first = place [JITTER_CONTRAST] < place [JITTER_SATURATION];
        assert_int_equal (program.steps [1].kind, contrast_first? COLOUR_CONTRAST: COLOUR_SATURATION);
        assert_int_equal (program.steps [2].kind, contrast_first? COLOUR_SATURATION: COLOUR_CONTRAST);
        assert_true (fabs (program.steps [contrast_first? 1: 2].factor - contrast) < 1e-12);
        assert_true (fabs (program.steps [contrast_first? 2: 1].factor - saturation) < 1e-12);
        assert_true (keyed_random_next (&random) == keyed_random_next (&model));
    }
    colour_program_t full = { .count = COLOUR_STEPS_MAX - 1 };
    keyed_random_t random = s_stream (1, 1, 0, 0);
    assert_false (geometry_jitter (&jitter, &random, &full));
}

//  Guards: random_erasing as often as p says, at any place, and of any area and ratio of their ranges.
static void
test_erasing (void **state)
{
    (void) state;
    enum { DRAWS = 20000, SIDE = 20, PLACES = 11 };
    operation_t square = { .kind = OPERATION_RANDOM_ERASING,
        .probability = 0.7, .erase = { .scale = { 0.25, 0.25 }, .ratio = { 1, 1 } } };
    operation_t any = { .kind = OPERATION_RANDOM_ERASING,
        .probability = 1, .erase = { .scale = { 0.1, 0.5 }, .ratio = { 0.5, 2 } } };
    uint32_t tops [PLACES] = { 0 }, lefts [PLACES] = { 0 }, shares [BINS] = { 0 }, ratios [BINS] = { 0 };
    uint32_t done = 0;
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (test_seed (), id, 0, 6), other = s_stream (test_seed (), id, 1, 6);
        image_box_t box;
        if (geometry_erasing (&square, SIDE, SIDE, &random, &box)) {
            assert_true (box.height == SIDE / 2 && box.width == SIDE / 2);
            tops [box.top]++;
            lefts [box.left]++;
            done++;
        }
        //  So large that rounding to whole pixels does not show, and that all fit.
        assert_true (geometry_erasing (&any, 100000, 100000, &other, &box));
        double share = (double) box.height * box.width / 1e10, ratio = (double) box.height / box.width;
        shares [(size_t) fmin (fmax ((share - 0.1) / 0.4 * BINS, 0), BINS - 1)]++;
        ratios [(size_t) fmin (fmax ((log (ratio) / log (2) + 1) / 2 * BINS, 0), BINS - 1)]++;
    }
    if (fabs (done - DRAWS * 0.7) > 5.5 * sqrt (DRAWS * 0.7 * 0.3))
        fail_msg ("seed %" PRIu64 ": erased %u times", test_seed (), done);
    s_check_even ("top", tops, PLACES, done);
    s_check_even ("left", lefts, PLACES, done);
    s_check_even ("share of the area", shares, BINS, DRAWS);
    s_check_even ("ratio", ratios, BINS, DRAWS);
    keyed_random_t random = s_stream (test_seed (), 1, 0, 6);
    image_box_t box;
    geometry_erasing (&any, 1, 1, &random, &box);
    assert_true (box.height == 0 || box.width == 0);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_boxes_are_distributed_like_the_model),
        cmocka_unit_test (test_boxes_are_inside),
        cmocka_unit_test (test_boxes_follow_from_the_key),
        cmocka_unit_test (test_middle_boxes),
        cmocka_unit_test (test_resize_by_the_shorter_side),
        cmocka_unit_test (test_resize_in_numbers),
        cmocka_unit_test (test_center_crops),
        cmocka_unit_test (test_pads),
        cmocka_unit_test (test_random_crops),
        cmocka_unit_test (test_random_crops_are_uniform),
        cmocka_unit_test (test_chances),
        cmocka_unit_test (test_chances_follow_from_the_key),
        cmocka_unit_test (test_jitter),
        cmocka_unit_test (test_jitter_draws),
        cmocka_unit_test (test_erasing),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

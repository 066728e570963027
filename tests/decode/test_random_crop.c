/*  test_random_crop -- the boxes of random_resized_crop against a second, naive model with its own generator.
 *
 *  Both draw BOXES boxes; two-sample chi-square over the bins of a property.  A run makes 16 such tests of up
 *  to BINS - 1 = 29 degrees of freedom; each stays under LIMIT = 83 but for 1e-6 of all seeds: a false alarm
 *  in fewer than 1e-4 of runs.
 */
#include <math.h>
#include <string.h>
#include "pipelines.h"
#include "geometry.h"
#include "seed.h"

enum { BOXES = 60000, BINS = 30, SMALL = 20 };
static const double LIMIT = 83;

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
    memcpy (operation.scale, setting->scale, sizeof operation.scale);
    memcpy (operation.ratio, setting->ratio, sizeof operation.ratio);
    return operation;
}

static image_box_t
s_box (const operation_t *operation, uint32_t height, uint32_t width, uint64_t seed, uint64_t id)
{
    pipeline_key_t key = { .seed = seed, .id = id };
    keyed_random_t random;
    keyed_random_init (&random, &key, 0);
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
        geometry_crop_t crop = geometry_center_crop (cases [index].crop, 10, cases [index].side, 10);
        assert_int_equal (crop.from.top, cases [index].from);
        assert_int_equal (crop.to_top, cases [index].to);
        assert_int_equal (crop.from.height, cases [index].length);
        crop = geometry_center_crop (10, cases [index].crop, 10, cases [index].side);
        assert_int_equal (crop.from.left, cases [index].from);
        assert_int_equal (crop.to_left, cases [index].to);
        assert_int_equal (crop.from.width, cases [index].length);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_boxes_are_distributed_like_the_model),
        cmocka_unit_test (test_boxes_are_inside),
        cmocka_unit_test (test_boxes_follow_from_the_key),
        cmocka_unit_test (test_middle_boxes),
        cmocka_unit_test (test_center_crops),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

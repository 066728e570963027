/*  test_pipeline_cost -- what is foreseen of a pipeline's processor time: it follows pixels, views, fields
 *  and parameters, and what is refused is named.  How near it is to the truth, bench/speed/operation_costs
 *  says.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "pipelines.h"

#define SHARED "{'op':'resize','size':[64,64]},{'share':true},"

static const pipeline_source_t s_fields = {
    .fields = { { "image", false }, { "depth", false } }, .count = 2
};

static double
s_private_ms (const char *operations)
{
    char text [4096];
    snprintf (text, sizeof text, "[" SHARED "%s]", operations);
    const pipeline_t *pipeline = pipeline_of (text);
    double ms = pipeline_private_ms (pipeline);
    pipeline_destroy (&pipeline);
    return ms;
}

//  Asserts that the costly operations cost that many times what the cheap ones do, but for rounding.
static void
s_assert_times (const char *costly, const char *cheap, double times)
{
    double most = s_private_ms (costly), least = s_private_ms (cheap);
    assert_true (least > 0);
    if (fabs (most / least - times) > 1e-9)
        fail_msg ("%s: %g ms is not %g times %g ms of %s", costly, most, times, least, cheap);
}

static void
test_it_follows_pixels_views_and_parameters (void **state)
{
    (void) state;
    s_assert_times ("{'op':'invert'},{'op':'invert'}", "{'op':'invert'}", 2);
    s_assert_times ("{'op':'center_crop','size':[640,1280]}", "{'op':'center_crop','size':[64,128]}", 100);
    s_assert_times ("{'op':'flip','p':0.01}", "{'op':'flip','p':1}", 1);
    s_assert_times ("{'op':'rand_augment','num_ops':6}", "{'op':'rand_augment','num_ops':2}", 3);
    assert_true (s_private_ms ("{'op':'gaussian_blur','kernel_size':101}")
        > 4 * s_private_ms ("{'op':'gaussian_blur','kernel_size':5}"));
    assert_true (s_private_ms ("{'op':'elastic_transform','sigma':31}")
        > 2 * s_private_ms ("{'op':'elastic_transform','sigma':1}"));
    assert_true (s_private_ms ("{'op':'aug_mix','mixture_width':8,'chain_depth':8}")
        > 4 * s_private_ms ("{'op':'aug_mix'}"));
    assert_true (s_private_ms ("{'op':'views','count':10},{'op':'invert'}")
        >= 10 * s_private_ms ("{'op':'invert'}"));
}

//  Of a choice the costliest part counts, whatever its chances, also of one in another's part.
static void
test_a_choice_costs_its_costliest_part (void **state)
{
    (void) state;
    static const char *const parts = "{'op':'invert'},{'op':'flip'},{'op':'elastic_transform'}";
    char text [1000];
    snprintf (text, sizeof text, "{'op':'random_choice','counts':[1,1,1],'p':[9,9,1]},%s", parts);
    s_assert_times (text, "{'op':'elastic_transform'}", 1);
    snprintf (text, sizeof text, "{'op':'random_choice','counts':[4,1]},"
        "{'op':'random_choice','counts':[1,1,1]},%s,{'op':'invert'}", parts);
    s_assert_times (text, "{'op':'elastic_transform'}", 1);
    snprintf (text, sizeof text, "{'op':'random_order','counts':[1,1,1]},%s", parts);
    s_assert_times (text, parts, 1);
    snprintf (text, sizeof text, "{'op':'random_apply','count':3,'p':0.1},%s", parts);
    s_assert_times (text, parts, 1);
}

//  Pictures of which only the data know the size count as a million pixels each, or as max_pixels.
static void
test_pictures_of_any_size (void **state)
{
    (void) state;
    const pipeline_t *any = pipeline_of ("[{'op':'invert'},{'op':'resize','size':[8,8]},{'share':true}]");
    const pipeline_t *large = pipeline_of ("[{'op':'resize','size':[1024,1024]},{'op':'invert'},"
        "{'op':'resize','size':[8,8]},{'share':true}]");
    const pipeline_t *small = pipeline_of ("[{'op':'decode','max_pixels':10000},{'op':'invert'},"
        "{'op':'resize','size':[8,8]},{'share':true}]");
    assert_true (pipeline_shared_ms (any) > 2 && pipeline_shared_ms (any) < pipeline_shared_ms (large));
    assert_true (pipeline_shared_ms (small) < pipeline_shared_ms (any) / 50);
    assert_true (pipeline_private_ms (any) == 0);
    pipeline_destroy (&any);
    pipeline_destroy (&large);
    pipeline_destroy (&small);
    const pipeline_t *raw = pipeline_of ("[{'op':'decode','as':'bytes','length':10}]");
    assert_true (pipeline_shared_ms (raw) == 0 && pipeline_private_ms (raw) == 0);
    pipeline_destroy (&raw);
}

static void
test_each_field_counts (void **state)
{
    (void) state;
    const pipeline_t *one = pipeline_of ("[{'op':'resize','size':[64,64]},{'share':true},{'op':'invert'}]");
    const pipeline_t *two = pipeline_on ("[{'op':'decode','fields':['image','depth']},"
        "{'op':'resize','size':[64,64]},{'share':true},{'op':'invert'}]", &s_fields);
    assert_true (fabs (pipeline_private_ms (two) - 2 * pipeline_private_ms (one)) < 1e-12);
    pipeline_destroy (&one);
    pipeline_destroy (&two);
}

//  The standard recipes are a hundredth of what is allowed, and what stopped a server is far beyond it.
static void
test_what_is_refused_is_named (void **state)
{
    (void) state;
    char error [400], text [4096];
    static const char *const recipes [] = { "'train'", "'eval'" };
    for (size_t index = 0; index < 2; index++) {
        const pipeline_t *recipe = pipeline_of (recipes [index]);
        assert_int_equal (pipeline_check_cost (recipe, 10, error, sizeof error), 0);
        assert_string_equal (error, "");
        pipeline_destroy (&recipe);
    }
    size_t length = (size_t) snprintf (text, sizeof text, "[" SHARED "{'op':'views','count':10},"
        "{'op':'resize','size':[4096,4096]}");
    for (int index = 0; index < 12; index++)
        length += (size_t) snprintf (text + length, sizeof text - length, ",{'op':'elastic_transform'}");
    snprintf (text + length, sizeof text - length, ",{'op':'resize','size':[8,8]}]");
    const pipeline_t *attack = pipeline_of (text);
    double ms = pipeline_shared_ms (attack) + pipeline_private_ms (attack);
    assert_true (ms > 100 * 1000);
    assert_int_equal (pipeline_check_cost (attack, 1000, error, sizeof error), -E2BIG);
    assert_non_null (strstr (error, "operation 5 (elastic_transform): takes about "));
    assert_non_null (strstr (error, "expected 1000 ms at most for the whole pipeline"));
    assert_int_equal (pipeline_check_cost (attack, ms, error, sizeof error), 0);
    pipeline_destroy (&attack);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_it_follows_pixels_views_and_parameters),
        cmocka_unit_test (test_a_choice_costs_its_costliest_part),
        cmocka_unit_test (test_pictures_of_any_size),
        cmocka_unit_test (test_each_field_counts),
        cmocka_unit_test (test_what_is_refused_is_named)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

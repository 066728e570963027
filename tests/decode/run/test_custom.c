//  Operations of the operator's own in lists: which lists share versions, and what is refused.  What they do
//  to pixels: tests/system/test_system_operation.py.

#include "pipelines.h"
#include <errno.h>

static const custom_t s_customs [] = { { .name = "one", .identity = "1111", .number = 0 },
    { .name = "dice", .identity = "2222", .is_random = true, .number = 1 } };
static const custom_t s_changed [] = { { .name = "one", .identity = "3333", .number = 0 } };

static pipeline_source_t
s_source (const custom_t *customs, size_t count)
{
    return (pipeline_source_t) { .fields = { { "image", false }, { "mask", true } }, .count = 2,
        .customs = customs, .custom_count = count };
}

static const pipeline_t *
s_of (const char *text)
{
    pipeline_source_t source = s_source (s_customs, 2);
    return pipeline_on (text, &source);
}

static void
s_assert_refused (const char *text, const char *wanted)
{
    const pipeline_t *self;
    char error [ERROR_BYTES];
    pipeline_source_t source = s_source (s_customs, 2);
    assert_int_equal (pipeline_try_on (&self, text, &source, NULL, 0, error), -EINVAL);
    assert_string_equal (error, wanted);
}

//  Guards: the order and the spelling of arguments make no difference; their values, and the command behind
//  the name, do.
static void
test_which_lists_share_versions (void **state)
{
    (void) state;
    pipeline_source_t changed = s_source (s_changed, 1);
    const pipeline_t *first = s_of ("[{'op':'custom','name':'one','size':9,'arguments':{'b':1,'a':[2]}}]"),
        *same = s_of ("[{'arguments':{'a':[2],'b':1},'size':[9,9.0],'op':'custom','name':'one'}]"),
        *other = s_of ("[{'op':'custom','name':'one','size':9,'arguments':{'b':2,'a':[2]}}]"),
        *new = pipeline_on ("[{'op':'custom','name':'one','size':9,'arguments':{'b':1,'a':[2]}}]", &changed);
    assert_non_null (strstr (pipeline_text (first), quoted ("{'op':'custom','name':'one','size':[9,9],"
        "'arguments':{'a':[2],'b':1},'identity':'1111'},{'share':true}]")));
    assert_string_equal (pipeline_shared_text (first), pipeline_shared_text (same));
    assert_string_not_equal (pipeline_shared_text (first), pipeline_shared_text (other));
    assert_string_not_equal (pipeline_shared_text (first), pipeline_shared_text (new));
    //  Its own text is a list for the same command, and for no other.
    const pipeline_t *again = s_of (pipeline_text (first)), *none;
    char error [ERROR_BYTES];
    assert_string_equal (pipeline_text (first), pipeline_text (again));
    assert_int_equal (pipeline_try_on (&none, pipeline_text (first), &changed, NULL, 0, error), -EINVAL);
    assert_non_null (strstr (error, "\"identity\" is another one: the command behind \"one\" is not what it "
        "was; expected \"3333\""));
    const pipeline_t *all [] = { first, same, other, new, again };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        pipeline_destroy (&all [index]);
}

static void
test_what_a_list_says (void **state)
{
    (void) state;
    const pipeline_t *fixed = s_of ("[{'op':'custom','name':'one','size':[4,5]},{'op':'flip'}]"),
        *random = s_of ("[{'op':'custom','name':'dice','size':[4,5],'share':true}]"),
        *without = s_of ("[{'op':'resize','size':[4,5]}]");
    assert_ptr_equal (pipeline_custom (fixed), &s_customs [0]);
    assert_ptr_equal (pipeline_custom (random), &s_customs [1]);
    assert_null (pipeline_custom (without));
    assert_false (pipeline_shared_is_random (fixed));
    assert_true (pipeline_shared_is_random (random));
    assert_int_equal (pipeline_version_bytes (fixed), 4 * 5 * 3);
    assert_int_equal (pipeline_output (fixed, 0)->shape [0], 4);
    pipeline_destroy (&fixed);
    pipeline_destroy (&random);
    pipeline_destroy (&without);
}

static void
test_what_is_refused (void **state)
{
    (void) state;
    s_assert_refused ("[{'op':'custom','size':4}]",
        "operation 1 (custom): \"name\" is missing; expected the name of an operation of the operator's");
    s_assert_refused ("[{'op':'custom','name':'two','size':4}]",
        "operation 1 (custom): there is no operation \"two\" here; expected one of \"one\", \"dice\"");
    s_assert_refused ("[{'op':'decode','fields':['image','mask']},{'op':'custom','name':'one','size':4}]",
        "operation 2 (custom): not supported with masks; expected \"fields\" of decode without them");
    s_assert_refused ("[{'op':'decode','fields':['image',{'field':'mask','as':'boxes','shape':[5,4]}]},"
        "{'op':'custom','name':'one','size':4}]",
        "operation 2 (custom): not supported with boxes, which do not follow it; expected a list without "
        "it, or the field read \"as\": \"array\"");
    s_assert_refused ("[{'op':'custom','name':'one','size':4},{'op':'custom','name':'one','size':4}]",
        "operation 2 (custom): a second one; expected one at most");
    s_assert_refused ("[{'op':'center_crop','size':9},{'share':true},{'op':'custom','name':'one','size':4}]",
        "operation 3 (custom): not supported behind {\"share\": true}; expected it before the mark");
    s_assert_refused ("[{'op':'random_apply','count':1},{'op':'custom','name':'one','size':4}]",
        "operation 2 (custom): not supported in a random_apply; expected operations that keep the size and "
        "the channels of an image");
    const pipeline_t *self;
    char error [ERROR_BYTES];
    assert_int_equal (pipeline_try (&self, "[{'op':'custom','name':'two','size':4}]", error), -EINVAL);
    assert_non_null (strstr (error, "there is no operation \"two\" here, and none at all"));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_which_lists_share_versions),
        cmocka_unit_test (test_what_a_list_says),
        cmocka_unit_test (test_what_is_refused)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

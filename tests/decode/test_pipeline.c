/*  test_pipeline -- which lists are accepted, what they mean as text, and what the refusals say.  */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "pipelines.h"
#include "seed.h"

#define SHARE "{'share':true}"
#define TRAIN_CROP "{'op':'random_resized_crop','size':[224,224],'scale':[0.08,1]," \
    "'ratio':[0.75,1.3333333333333333]}"
#define CROP "{'op':'center_crop','size':[8,8]}"

//  The two recipes are ordinary lists with a name.
static void
test_recipes (void **state)
{
    (void) state;
    const pipeline_t *train = pipeline_of ("'train'");
    assert_string_equal (pipeline_text (train),
        quoted ("[" TRAIN_CROP "," SHARE ",{'op':'flip','p':0.5}]"));
    assert_string_equal (pipeline_shared_text (train), quoted ("[" TRAIN_CROP "]"));
    assert_true (pipeline_shared_is_random (train));
    assert_int_equal (pipeline_version_bytes (train), 224 * 224 * 3);
    const pipeline_t *eval = pipeline_of ("'eval'");
    assert_string_equal (pipeline_text (eval),
        quoted ("[{'op':'resize','size':256},{'op':'center_crop','size':[224,224]}," SHARE "]"));
    assert_false (pipeline_shared_is_random (eval));
    const pipeline_output_t *output = pipeline_output (eval);
    assert_string_equal (output->dtype, "uint8");
    assert_int_equal (output->dimensions, 3);
    assert_int_equal (output->shape [0], 224);
    assert_int_equal (output->shape [1], 224);
    assert_int_equal (output->shape [2], 3);
    assert_int_equal (output->bytes, 224 * 224 * 3);
    pipeline_destroy (&train);
    assert_null (train);
    pipeline_destroy (&train);
    pipeline_destroy (&eval);
}

//  Lists of the same meaning: in every row all texts must become the first one's.
static const char *const s_same [] [6] = {
    { "'train'",
      "[{'op':'random_resized_crop','size':224}," SHARE ",{'op':'flip'}]",
      "[{'size':[224.0,224],'op':'random_resized_crop'}," SHARE ",{'p':0.5,'op':'flip'}]",
      "[{'op':'random_resized_crop','scale':[8e-2,1.0],'size':2.24e2}," SHARE ",{'op':'flip','p':5e-1}]",
      "[{'ratio':[0.750,1.33333333333333333333],'op':'random_resized_crop','size':224},"
          SHARE ",{'op':'flip'}]" },
    { "'eval'",
      "[{'op':'resize','size':256},{'op':'center_crop','size':224}]",
      "[{'size':256.0,'op':'resize'},{'op':'center_crop','size':[224,224]}," SHARE "]" },
    { "[" CROP "," SHARE ",{'op':'flip','p':0}]",
      "[" CROP "," SHARE ",{'op':'flip','p':-0.0}]",
      "[" CROP "," SHARE ",{'op':'flip','p':0e5}]" },
    { "[" CROP ",{'op':'flip','p':0.3}]",
      "[" CROP "," SHARE ",{'op':'flip','p':0.3}]",
      "[" CROP ",{'op':'flip','p':0.30000000000000000001}]" },
    { "[{'op':'resize','size':[10,10]}]",
      "[{'op':'resize','size':[10,1e1]}," SHARE "]" },
};

static void
test_same_meaning_same_text (void **state)
{
    (void) state;
    for (size_t row = 0; row < sizeof s_same / sizeof *s_same; row++)
        for (size_t other = 0; other < 6 && s_same [row] [other]; other++) {
            const pipeline_t *first = pipeline_of (s_same [row] [0]);
            const pipeline_t *second = pipeline_of (s_same [row] [other]);
            assert_string_equal (pipeline_text (first), pipeline_text (second));
            assert_string_equal (pipeline_shared_text (first), pipeline_shared_text (second));
            pipeline_destroy (&first);
            pipeline_destroy (&second);
        }
}

//  A canonical text is a list like any other, and its own canonical text.
static void
test_text_reads_back (void **state)
{
    (void) state;
    static const char *const lists [] = {
        "'train'", "'eval'", "[" CROP ",{'op':'flip','p':0.1},{'op':'flip','p':0.1234567890123456789}]",
        "[" CROP ",{'op':'flip','p':1e-300},{'op':'flip','p':0.99999999999999989}]",
        "[{'op':'random_resized_crop','size':3,'scale':[1e-9,1],'ratio':[0.01,100]}," SHARE "]",
    };
    for (size_t index = 0; index < sizeof lists / sizeof *lists; index++) {
        const pipeline_t *first = pipeline_of (lists [index]);
        const pipeline_t *second = pipeline_of (pipeline_text (first));
        assert_string_equal (pipeline_text (first), pipeline_text (second));
        pipeline_destroy (&first);
        pipeline_destroy (&second);
    }
}

//  Different shared stages: no two texts may be equal.
static void
test_other_meaning_other_text (void **state)
{
    (void) state;
    static const char *const lists [] = {
        "'train'", "'eval'", "[" CROP "]", "[{'op':'center_crop','size':[8,9]}]",
        "[{'op':'center_crop','size':[9,8]}]", "[{'op':'resize','size':[8,8]}]",
        "[{'op':'resize','size':8}," CROP "]", "[{'op':'resize','size':[8,8]}," CROP "]",
        "[" CROP ",{'op':'flip','p':0.1}," SHARE "]",
        "[" CROP ",{'op':'flip','p':0.10000000000000002}," SHARE "]",
        "[{'op':'flip','p':0.1}," CROP "," SHARE "]",
        "[{'op':'random_resized_crop','size':224,'ratio':[0.75,1.3333333333333335]}," SHARE "]",
        "[{'op':'random_resized_crop','size':224,'scale':[0.09,1]}," SHARE "]",
    };
    enum { LISTS = sizeof lists / sizeof *lists };
    for (size_t one = 0; one < LISTS; one++)
        for (size_t two = 0; two < one; two++) {
            const pipeline_t *first = pipeline_of (lists [one]), *second = pipeline_of (lists [two]);
            assert_string_not_equal (pipeline_shared_text (first), pipeline_shared_text (second));
            pipeline_destroy (&first);
            pipeline_destroy (&second);
        }
}

//  What comes behind the mark does not keep two jobs from sharing.
static void
test_private_stage_is_not_in_the_shared_text (void **state)
{
    (void) state;
    const pipeline_t *first = pipeline_of ("[" CROP "," SHARE ",{'op':'flip'}]");
    const pipeline_t *second = pipeline_of ("[" CROP "," SHARE "]");
    assert_string_equal (pipeline_shared_text (first), pipeline_shared_text (second));
    assert_string_not_equal (pipeline_text (first), pipeline_text (second));
    pipeline_destroy (&first);
    pipeline_destroy (&second);
}

//  Without a mark, all up to the first random operation is shared; a flip that always or never flips is not
//  random.
static void
test_mark_by_default (void **state)
{
    (void) state;
    const pipeline_t *self = pipeline_of (
        "[" CROP ",{'op':'flip','p':1},{'op':'flip'},{'op':'flip','p':0}]");
    assert_string_equal (pipeline_shared_text (self), quoted ("[" CROP ",{'op':'flip','p':1}]"));
    assert_false (pipeline_shared_is_random (self));
    pipeline_destroy (&self);
    self = pipeline_of ("[" CROP ",{'op':'flip','p':0.5}," SHARE "]");
    assert_true (pipeline_shared_is_random (self));
    pipeline_destroy (&self);
}

//  The size at the share point follows from every operation before it.
static void
test_output_size (void **state)
{
    (void) state;
    static const struct { const char *text; uint32_t height, width; } cases [] = {
        { "[{'op':'resize','size':[3,4096]}]", 3, 4096 },
        { "[" CROP ",{'op':'resize','size':[3,5]},{'op':'flip'}]", 3, 5 },
        { "[{'op':'center_crop','size':[30,70]},{'op':'resize','size':20}]", 20, 46 },
        { "[{'op':'center_crop','size':[70,30]},{'op':'resize','size':20}]", 46, 20 },
        { "[{'op':'center_crop','size':[70,30]},{'op':'flip','p':1},{'op':'resize','size':30}]", 70, 30 },
        { "[{'op':'random_resized_crop','size':[1,2]}," SHARE "]", 1, 2 },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const pipeline_t *self = pipeline_of (cases [index].text);
        assert_int_equal (pipeline_output (self)->shape [0], cases [index].height);
        assert_int_equal (pipeline_output (self)->shape [1], cases [index].width);
        assert_int_equal (pipeline_version_bytes (self), cases [index].height * cases [index].width * 3);
        pipeline_destroy (&self);
    }
}

//  Every refusal names the operation, its place and what was expected.
static const struct { const char *text; const char *fragments [3]; } s_refused [] = {
    { "7", { "the pipeline: expected a list", "'train'" } },
    { "null", { "expected a list" } },
    { "{'op':'flip'}", { "expected a list" } },
    { "'Train'", { "unknown recipe 'Train'", "'eval'" } },
    { "'\\u00e9\\n'", { "unknown recipe '??" } },
    { "[]", { "differ in size", "center_crop" } },
    { "[" SHARE "]", { "differ in size" } },
    { "[{'op':'resize','size':256}," SHARE "]", { "differ in size", "[height, width]" } },
    { "[{'op':'flip'}]", { "differ in size" } },
    { "[" SHARE "," CROP "]", { "operation 2 (center_crop)", "not supported behind {'share': true}" } },
    { "[" CROP "," SHARE ",{'op':'random_resized_crop','size':4}]", { "operation 3 (random_resized_crop)" } },
    { "[{'op':'random_resized_crop','size':4},{'op':'flip'}]",
        { "operation 1 (random_resized_crop)", "unless {'share': true}" } },
    { "[{'op':'flip'}," CROP "]", { "operation 2 (center_crop)", "first random operation" } },
    { "[" CROP "," SHARE "," SHARE "]", { "operation 3", "a second" } },
    { "[" CROP ",{'share':false}]", { "operation 2", "expected {'share': true}" } },
    { "[" CROP ",{'share':true,'op':'flip'}]", { "operation 2", "nothing else" } },
    { "[" CROP ",{'share':1}]", { "operation 2", "expected {'share': true}" } },
    { "['flip']", { "operation 1: expected an object" } },
    { "[" CROP ",null]", { "operation 2: expected an object" } },
    { "[{}]", { "operation 1: 'op' is missing" } },
    { "[{'op':1}]", { "operation 1: 'op' is not valid", "string" } },
    { "[" CROP ",{'op':'blur'}]", { "operation 2: unknown operation 'blur'",
        "supported: resize, center_crop, random_resized_crop, flip" } },
    { "[{'op':'decode'}]", { "unknown operation 'decode'" } },
    { "[{'op':'center_crop','size':8,'pad':1}]", { "operation 1 (center_crop): unknown key 'pad'",
        "expected 'op', 'size'" } },
    { "[{'op':'flip','size':8}]", { "operation 1 (flip): unknown key 'size'", "expected 'op', 'p'" } },
    { "[{'op':'random_resized_crop','p':8}]", { "'op', 'size', 'scale', 'ratio'" } },
    { "[{'op':'center_crop'}]", { "operation 1 (center_crop): 'size' is missing", "from 1 to 4096" } },
    { "[{'op':'resize'}]", { "operation 1 (resize): 'size' is missing" } },
    { "[{'op':'center_crop','size':0}]", { "(center_crop): 'size' is not valid", "[height, width]" } },
    { "[{'op':'center_crop','size':4097}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':-1}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':1.5}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':'8'}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':true}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':null}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8,8,8]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8,0]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8,9223372036854775807]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':1e300}]", { "'size' is not valid" } },
    { "[{'op':'flip','p':1.0000001}]", { "operation 1 (flip): 'p' is not valid", "from 0 to 1" } },
    { "[{'op':'flip','p':-1e-9}]", { "'p' is not valid" } },
    { "[{'op':'flip','p':'0.5'}]", { "'p' is not valid" } },
    { "[{'op':'flip','p':true}]", { "'p' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0.5,0.4]}]",
        { "(random_resized_crop): 'scale' is not valid", "0 < least <= most <= 1" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0,1]}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0.1,1.1]}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':0.5}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0.5]}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[2,1]}]",
        { "'ratio' is not valid", "width to height" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[0.009,1]}]", { "'ratio' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[1,101]}]", { "'ratio' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[1,null]}]", { "'ratio' is not valid" } },
    { "[{'op':'center_crop','size':[1,4096]},{'op':'resize','size':2}]",
        { "operation 2 (resize)", "2 x 8192", "up to 4096" } },
};

static void
test_refused (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_refused / sizeof *s_refused; index++) {
        char error [ERROR_BYTES];
        const pipeline_t *self = (const pipeline_t *) &error;
        if (pipeline_try (&self, s_refused [index].text, error) != -EINVAL || self)
            fail_msg ("%s: accepted", s_refused [index].text);
        for (size_t piece = 0; piece < 3 && s_refused [index].fragments [piece]; piece++)
            if (!strstr (error, quoted (s_refused [index].fragments [piece])))
                fail_msg ("%s: \"%s\" lacks \"%s\"", s_refused [index].text, error,
                    s_refused [index].fragments [piece]);
    }
}

//  A list of the longest length and the longest texts is accepted, with the mark or without, and so is its
//  own text (which has the mark always); one operation more is not.
static void
test_longest_list (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    json_t *list = json_array (), *flip = json_pack ("{s:s, s:f}", "op", "flip", "p", 0.12345678901234567);
    for (int index = 1; index < PIPELINE_OPERATIONS_MAX; index++)
        json_array_append_new (list, json_pack ("{s:s, s:[i,i], s:[f,f], s:[f,f]}",
            "op", "random_resized_crop", "size", 4096, 4096,
            "scale", 0.12345678901234567, 0.98765432109876543,
            "ratio", 0.12345678901234567, 99.876543210987654));
    json_array_append_new (list, json_pack ("{s:b}", "share", 1));
    json_array_append (list, flip);
    const pipeline_t *self;
    assert_int_equal (pipeline_new (&self, list, error, sizeof error), 0);
    assert_true (strlen (pipeline_text (self)) > 31 * 100);
    const pipeline_t *held = self;
    pipeline_destroy (&held);
    json_array_append (list, flip);
    assert_int_equal (pipeline_new (&self, list, error, sizeof error), -EINVAL);
    assert_string_equal (error, "operation 34: one too many; expected 32 operations at most");
    json_array_clear (list);
    json_array_append_new (list, json_pack ("{s:s, s:[i,i]}", "op", "resize", "size", 4, 4));
    while (json_array_size (list) < PIPELINE_OPERATIONS_MAX)
        json_array_append (list, flip);
    assert_int_equal (pipeline_new (&self, list, error, sizeof error), 0);
    const pipeline_t *again = pipeline_of (pipeline_text (self));
    assert_string_equal (pipeline_text (self), pipeline_text (again));
    held = self;
    pipeline_destroy (&held);
    pipeline_destroy (&again);
    json_decref (flip);
    json_decref (list);
}

//  A message that does not fit is cut, ended and nothing is written behind it.
static void
test_short_error_room (void **state)
{
    (void) state;
    json_t *list = json_pack ("[{s:s}]", "op", "blur\xc3\xa9");
    for (size_t room = 1; room < 120; room++) {
        char error [128];
        memset (error, 'x', sizeof error);
        const pipeline_t *self;
        assert_int_equal (pipeline_new (&self, list, error, room), -EINVAL);
        assert_non_null (memchr (error, 0, room));
        assert_int_equal (error [room], 'x');
        for (const char *at = error; *at; at++)
            assert_true (*at >= ' ' && *at <= '~');
    }
    json_decref (list);
}

//  Threads that hold and let go at once: the last one frees, nobody earlier (the sanitizers watch).
static void *
s_hold_and_destroy (void *argument)
{
    const pipeline_t *self = argument;
    for (int index = 0; index < 10000; index++) {
        const pipeline_t *held = pipeline_hold (self);
        if (pipeline_version_bytes (held) != 192)
            return argument;
        pipeline_destroy (&held);
    }
    pipeline_destroy (&self);
    return NULL;
}

static void
test_holders (void **state)
{
    (void) state;
    enum { THREADS = 4 };
    pthread_t threads [THREADS];
    const pipeline_t *self = pipeline_of ("[" CROP "]");
    for (int index = 0; index < THREADS; index++)
        assert_int_equal (pthread_create (&threads [index], NULL, s_hold_and_destroy,
            (void *) (uintptr_t) pipeline_hold (self)), 0);
    pipeline_destroy (&self);
    for (int index = 0; index < THREADS; index++) {
        void *wrong;
        pthread_join (threads [index], &wrong);
        assert_null (wrong);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_recipes),
        cmocka_unit_test (test_same_meaning_same_text),
        cmocka_unit_test (test_text_reads_back),
        cmocka_unit_test (test_other_meaning_other_text),
        cmocka_unit_test (test_private_stage_is_not_in_the_shared_text),
        cmocka_unit_test (test_mark_by_default),
        cmocka_unit_test (test_output_size),
        cmocka_unit_test (test_refused),
        cmocka_unit_test (test_longest_list),
        cmocka_unit_test (test_short_error_room),
        cmocka_unit_test (test_holders),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

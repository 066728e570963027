/*  test_pipeline -- which lists are accepted, what they mean as text, as planes and as outputs, and where the
 *  share point is.
 *  test_pipeline_refused has the others, test_pipeline_texts the text of each operation.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "pipelines.h"
#include "plan.h"
#include "seed.h"

#define SHARE "{'share':true}"
#define DECODE "{'op':'decode','as':'image','fields':['image'],'exact':true,'orientation':false}"
#define BOUNDED "{'op':'decode','as':'image','fields':['image']," \
    "'exact':true,'orientation':false,'max_pixels':5000}"
#define INEXACT "{'op':'decode','as':'image','fields':['image']," \
    "'exact':false,'orientation':false,'max_pixels':5000}"
#define TRAIN_CROP "{'op':'random_resized_crop','size':[224,224],'scale':[0.08,1]," \
    "'ratio':[0.75,1.3333333333333333],'interpolation':'bilinear'}"
#define CROP "{'op':'center_crop','size':[8,8]}"
#define NORMALIZE "{'op':'normalize','mean':[0.485,0.456,0.406],'std':[0.229,0.224,0.225]}"

//  An image, two masks and a second image: what the tests of fields are about.
static const pipeline_source_t s_fields = {
    .fields = { { "image", false }, { "mask", true }, { "depth", false }, { "edges_2", true } }, .count = 4
};

//  The two recipes are ordinary lists with a name.
static void
test_recipes (void **state)
{
    (void) state;
    const pipeline_t *train = pipeline_of ("'train'");
    assert_string_equal (pipeline_text (train),
        quoted ("[" DECODE "," TRAIN_CROP "," SHARE ",{'op':'flip','p':0.5}]"));
    assert_string_equal (pipeline_shared_text (train), quoted ("[" DECODE "," TRAIN_CROP "]"));
    assert_true (pipeline_shared_is_random (train));
    assert_int_equal (pipeline_version_bytes (train), 224 * 224 * 3);
    const pipeline_t *eval = pipeline_of ("'eval'");
    assert_string_equal (pipeline_text (eval),
        quoted ("[" DECODE ",{'op':'resize','size':256,'interpolation':'bilinear'},"
        "{'op':'center_crop','size':[224,224]}," SHARE "]"));
    assert_false (pipeline_shared_is_random (eval));
    assert_int_equal (pipeline_outputs (eval), 1);
    const pipeline_output_t *output = pipeline_output (eval, 0);
    assert_string_equal (output->name, "image");
    assert_int_equal (output->dtype, DTYPE_UINT8);
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

//  ---------------------------------------------------------------------------------------------------------
//  Texts

static void
test_written_without_images (void **state)
{
    (void) state;
    static const struct { const char *sent, *written; } cases [] = {
        { "[{'op':'decode','as':'bytes','length':12}]",
            "[{'op':'decode','as':'bytes','length':12}," SHARE "]" },
        { "[{'op':'decode','as':'array','dtype':'int16','shape':[1,2.0,3,4]}," SHARE "]",
          "[{'op':'decode','as':'array','dtype':'int16','shape':[1,2,3,4]}," SHARE "]" },
        { "[{'op':'decode','as':'audio'},{'op':'excerpt','length':5}]",
            "[{'op':'decode','as':'audio','dtype':'float32',"
          "'channels':1},{'op':'excerpt','length':5,'place':'random'}," SHARE "]" },
        { "[{'op':'decode','as':'audio','dtype':'int16','channels':2,'rate':16000},"
          "{'op':'excerpt','length':5,'place':'center','share':true}," SHARE "]",
          "[{'op':'decode','as':'audio','dtype':'int16','channels':2,'rate':16000},"
          "{'op':'excerpt','length':5,'place':'center'}," SHARE "]" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const pipeline_t *self = pipeline_of (cases [index].sent);
        assert_string_equal (pipeline_text (self), quoted (cases [index].written));
        assert_int_equal (pipeline_shared_is_random (self), index == 2);
        pipeline_destroy (&self);
    }
}

//  Lists of the same meaning: in every row all texts must become the first one's.
static const char *const s_same [] [6] = {
    { "'train'",
      "[{'op':'random_resized_crop','size':224}," SHARE ",{'op':'flip'}]",
      "[{'op':'random_resized_crop','size':224,'share':true},{'op':'flip'}]",
      "[{'op':'decode','as':'image'},{'size':[224.0,224],'op':'random_resized_crop'},"
      "" SHARE ",{'p':0.5,'op':'flip'}]",
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
    { "[" CROP ",{'op':'flip','p':0.3,'share':true}," SHARE "]",
      "[" CROP ",{'op':'flip','p':0.3}," SHARE "]",
      "[" CROP ",{'op':'flip','p':0.3,'share':true}]" },
    { "[{'op':'resize','size':[10,10]}]",
      "[{'op':'resize','size':[10,1e1]}," SHARE "]" },
    { "[{'op':'decode','max_pixels':5000}," SHARE "," CROP "]", "[" BOUNDED "," SHARE "," CROP "]" },
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

//  Different shared stages: no two texts may be equal.
static void
test_other_meaning_other_text (void **state)
{
    (void) state;
    static const char *const lists [] = {
        "'train'", "'eval'", "[" CROP "]", "[{'op':'center_crop','size':[8,9]}]",
        "[{'op':'center_crop','size':[9,8]}]", "[{'op':'resize','size':[8,8]}]",
        "[{'op':'resize','size':8}," CROP "]", "[{'op':'resize','size':[8,8]}," CROP "]",
        "[{'op':'resize','size':8,'max_size':9}," CROP "]",
        "[{'op':'resize','size':8,'interpolation':'nearest'}," CROP "]",
        "[" CROP ",{'op':'flip','p':0.1}," SHARE "]",
        "[" CROP ",{'op':'flip','p':0.10000000000000002}," SHARE "]",
        "[{'op':'flip','p':0.1}," CROP "," SHARE "]", "[{'op':'vertical_flip','p':0.1}," CROP "," SHARE "]",
        "[{'op':'random_resized_crop','size':224,'ratio':[0.75,1.3333333333333335]}," SHARE "]",
        "[{'op':'random_resized_crop','size':224,'scale':[0.09,1]}," SHARE "]",
        "[{'op':'decode','orientation':true}," CROP "]", "[{'op':'decode','exact':false}," CROP "]",
        "[{'op':'decode','max_pixels':9}," CROP "]", "[" CROP ",{'op':'views','count':2}," SHARE "]",
        "[" CROP ",{'op':'views','count':3}," SHARE "]", "[" CROP ",{'op':'grayscale'}]",
        "[" CROP ",{'op':'grayscale','channels':3}]", "[" CROP ",{'op':'pad','padding':[0,1]}]",
        "[" CROP ",{'op':'pad','padding':[1,0]}]", "[" CROP ",{'op':'pad','padding':[1,0],'fill':1}]",
        "[" CROP ",{'op':'pad','padding':[1,0],'mask_fill':1}]",
        "[" CROP ",{'op':'pad','padding':[1,0],'mode':'edge'}]",
        "[{'op':'decode','as':'bytes','length':3}]",
        "[{'op':'decode','as':'array','dtype':'uint8','shape':[3]}]",
        "[{'op':'decode','as':'array','dtype':'uint8','shape':[3,1]}]",
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
    const pipeline_t *first = pipeline_of ("[" CROP "," SHARE ",{'op':'flip'}," NORMALIZE "]");
    const pipeline_t *second = pipeline_of ("[" CROP "," SHARE "]");
    assert_string_equal (pipeline_shared_text (first), pipeline_shared_text (second));
    assert_string_not_equal (pipeline_text (first), pipeline_text (second));
    pipeline_destroy (&first);
    pipeline_destroy (&second);
}

//  ---------------------------------------------------------------------------------------------------------
//  The share point

//  What stands before it, given the list and what is present; operations counted with decode.
static const struct { const char *list, *present; size_t shared_count; bool is_random; } s_inferred [] = {
    { "[" CROP ",{'op':'flip','p':1},{'op':'flip'},{'op':'flip','p':0}]", NULL, 3, false },
    { "[" CROP ",{'op':'flip','share':true},{'op':'flip'}]", NULL, 3, true },
    { "[" CROP ",{'op':'flip','share':true},{'op':'flip'}]", "[" DECODE "," CROP "]", 2, false },
    { "[" CROP ",{'op':'flip','share':true},{'op':'flip'}]", "[" DECODE "," CROP ",{'op':'flip','p':0.5}]", 3,
        true },
    { "[" CROP ",{'op':'flip','share':true},{'op':'flip'}]",
      "[" DECODE "," CROP ",{'op':'flip','p':0.5},{'op':'flip','p':0.5}]", 3, true },
    { "[" CROP ",{'op':'flip','share':true},{'op':'flip'}]", "[" DECODE "," CROP ",{'op':'flip','p':0.25}]",
        3, true },
    { "[" CROP ",{'op':'flip','share':true},{'op':'flip'}]", "[" DECODE "," CROP, 3, true },
    { "[" CROP ",{'op':'flip'}]", "[" DECODE "," CROP ",{'op':'flip','p':0.5}]", 2, false },
    { "[" CROP ",{'op':'flip','p':0.5}," SHARE "]", "[" DECODE "," CROP "]", 3, true },
    { "[" CROP "," NORMALIZE "]", NULL, 2, false },
    { "[" CROP ",{'op':'views','count':2},{'op':'flip'}]", NULL, 2, false },
    { "[" CROP ",{'op':'views','count':2},{'op':'flip','share':true}]", NULL, 4, true },
    { "[" BOUNDED "," CROP "]", "[" BOUNDED "]", 1, false },
    { "[" BOUNDED "," CROP "]", "[" DECODE "]", 2, false },
    { "[" INEXACT "," CROP "]", "[" INEXACT "]", 2, false },    //  not for others to say: pixels depend on
                                                                 //  it
    { "[" INEXACT "," CROP "," SHARE ",{'op':'flip','p':1}]", NULL, 2, false },
    { "[" BOUNDED ",{'op':'random_resized_crop','size':4}]", NULL, 1, false },
    { "[" BOUNDED ",{'op':'resize','size':8}," CROP "]", "[" BOUNDED "]", 3, false },  //  may not be private
    { "[{'op':'resize','size':8,'max_size':9},{'op':'flip'}," CROP "]", NULL, 2, false },
    { "[{'op':'color_jitter','brightness':[0.5,0.5]}," CROP "]", NULL, 3, false },  //  always the same
    { "[" CROP ",{'op':'color_jitter','brightness':[0.5,0.5],'contrast':[2,2]}]", NULL, 2, false },
    { "[" CROP ",{'op':'grayscale','p':0.5}]", NULL, 2, false },
    { "[{'op':'decode','as':'audio'},{'op':'excerpt','length':4}]",
      "[{'op':'decode','as':'audio','dtype':'float32','channels':1}]", 2, true },
};

static void
test_share_point (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_inferred / sizeof *s_inferred; index++) {
        const char *list = s_inferred [index].list, *present = s_inferred [index].present;
        char error [ERROR_BYTES], text [1000] = "";
        strcpy (text, present? quoted (present): "");
        const char *texts [] = { "[]", text, "" };
        const pipeline_t *self;
        if (pipeline_try_on (&self, list, NULL, texts, present? 3: 0, error))
            fail_msg ("%s: %s", list, error);
        if (pipeline_plan (self)->shared_count != s_inferred [index].shared_count
        ||  pipeline_shared_is_random (self) != s_inferred [index].is_random)
            fail_msg ("case %zu, %s: %s", index, list, pipeline_text (self));
        assert_string_equal (error, "");
        pipeline_destroy (&self);
    }
}

//  The model: every place for a mark is tried, as an explicit one; a place counts if what is before it says
//  so itself.
static const struct { const char *text; bool is_shareable; } s_pool [] = {
    { CROP, true }, { "{'op':'flip'}", false }, { "{'op':'flip','share':true}", true },
    { "{'op':'flip','p':0}", true },
    { "{'op':'resize','size':9}", true }, { "{'op':'resize','size':9,'max_size':12}", true },
    { "{'op':'views','count':2}", true }, { "{'op':'random_crop','size':5,'pad_if_needed':true}", false },
    { "{'op':'random_crop','size':5,'share':true}", true }, { "{'op':'pad','padding':2}", true },
    { "{'op':'color_jitter','hue':0.1}", false }, { "{'op':'grayscale'}", true },
    { "{'op':'resize','size':[8,7]}", true },
    { "{'op':'layout','layout':'NCHW'}", false }, { "{'op':'cast','dtype':'float16'}", false },
};
enum { POOL = sizeof s_pool / sizeof *s_pool, CHOSEN_MAX = 6 };

//  The list with a mark behind `mark` operations (none: SIZE_MAX).
static void
s_join (char text [1000], const char *decode, const size_t *chosen, size_t count, size_t mark)
{
    strcpy (text, "[");
    strcat (text, decode);
    for (size_t index = 0; index <= count; index++) {
        if (index == mark)
            strcat (text, "," SHARE);
        if (index < count)
            strcat (strcat (text, ","), s_pool [chosen [index]].text);
    }
    strcat (text, "]");
}

//  The shared texts of the places that count, the longest first; how many.
static size_t
s_places (const char *decode, const size_t *chosen, size_t count, char places [CHOSEN_MAX + 1] [1000])
{
    size_t found = 0;
    for (size_t mark = count + 1; mark-- > 0;) {
        bool counts = !mark || !strstr (s_pool [chosen [mark - 1]].text, "views");
        for (size_t index = 0; index < mark; index++)
            counts = counts && s_pool [chosen [index]].is_shareable;
        char text [1000], error [ERROR_BYTES];
        s_join (text, decode, chosen, count, mark);
        const pipeline_t *self;
        if (!counts || pipeline_try (&self, text, error))
            continue;
        strcpy (places [found++], pipeline_shared_text (self));
        pipeline_destroy (&self);
    }
    return found;
}

static void
test_share_point_like_the_model (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    size_t accepted = 0, by_present = 0;
    for (int round = 0; round < 4000; round++) {
        static char places [CHOSEN_MAX + 1] [1000];
        size_t count = 1 + test_below (&random, CHOSEN_MAX), chosen [CHOSEN_MAX];
        for (size_t index = 0; index < count; index++)
            chosen [index] = test_below (&random, test_below (&random, 4)? POOL - 2: POOL);
        const char *decode = test_below (&random, 2)? BOUNDED: DECODE;
        size_t found = s_places (decode, chosen, count, places);
        //  One of the places, and what is none.
        const char *present [] = { "[{'op':'decode'}]", found? places [test_below (&random, found)]: "]" };
        size_t present_count = test_below (&random, 3);
        char text [1000], error [ERROR_BYTES];
        s_join (text, decode, chosen, count, SIZE_MAX);
        const pipeline_t *self;
        int rc = pipeline_try_on (&self, text, NULL, present, present_count, error);
        if (!rc != (found > 0) || (rc && !*error))
            fail_msg ("seed %" PRIu64 ", round %d: %s: %zu places, %d %s", test_seed (), round, text, found,
                rc, error);
        if (rc)
            continue;
        const char *expected = present_count == 2? present [1]: places [0];
        if (strcmp (pipeline_shared_text (self), expected))
            fail_msg ("seed %" PRIu64 ", round %d: %s: %s for %s", test_seed (), round, text,
                pipeline_shared_text (self), expected);
        accepted++;
        by_present += expected != places [0] && strcmp (expected, places [0]);
        pipeline_destroy (&self);
    }
    assert_true (accepted > 400);
    assert_true (by_present > 40);
}

//  An operation's random numbers do not depend on where the share point is, nor on whether decode was
//  written.
static void
test_places_are_counted_without_the_mark (void **state)
{
    (void) state;
    static const char *const lists [] = {
        "[" CROP ",{'op':'flip'},{'op':'flip'}]",
        "[{'op':'decode'}," CROP "," SHARE ",{'op':'flip'},{'op':'flip'}]",
        "[" CROP ",{'op':'flip'}," SHARE ",{'op':'flip'}]",
        "[" CROP ",{'op':'flip'},{'op':'flip'}," SHARE "]",
    };
    for (size_t index = 0; index < sizeof lists / sizeof *lists; index++) {
        const pipeline_t *self = pipeline_of (lists [index]);
        const plan_t *plan = pipeline_plan (self);
        assert_int_equal (plan->count, 4);
        for (size_t place = 0; place < plan->count; place++)
            assert_int_equal (plan->operations [place].place, place);
        assert_int_equal (plan->operations [3].kind, OPERATION_FLIP);
        pipeline_destroy (&self);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Planes and outputs

//  The size of the output follows from every operation.
static void
test_output_size (void **state)
{
    (void) state;
    static const struct { const char *text; uint32_t height, width; } cases [] = {
        { "[{'op':'resize','size':[3,4096]}]", 3, 4096 },
        { "[" CROP ",{'op':'resize','size':[3,5]},{'op':'flip'}]", 3, 5 },
        { "[{'op':'center_crop','size':[30,70]},{'op':'resize','size':20}]", 20, 46 },
        { "[{'op':'center_crop','size':[70,30]},{'op':'resize','size':20}]", 46, 20 },
        { "[{'op':'center_crop','size':[70,30]},{'op':'resize','size':20,'max_size':40}]", 40, 17 },
        { "[{'op':'center_crop','size':[70,30]},{'op':'flip','p':1},{'op':'resize','size':30}]", 70, 30 },
        { "[{'op':'random_resized_crop','size':[1,2]}," SHARE "]", 1, 2 },
        { "[{'op':'random_crop','size':[1,2]}," SHARE "]", 1, 2 },
        { "[{'op':'center_crop','size':[1,2]},{'op':'pad','padding':[1,2,3,4]}]", 7, 6 },
        { "[" CROP ",{'op':'pad','padding':7,'mode':'reflect'}," SHARE ",{'op':'center_crop','size':9}]", 9,
            9 },
        { "[" CROP ",{'op':'pad','padding':8,'mode':'symmetric'}]", 24, 24 },
        { "[" CROP "," SHARE ",{'op':'random_crop','size':[10,8],'padding':[0,1]}]", 10, 8 },
        { "[" CROP ",{'op':'random_crop','size':200,'pad_if_needed':true,'mode':'reflect'}]", 200, 200 },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const pipeline_t *self = pipeline_of (cases [index].text);
        assert_int_equal (pipeline_output (self, 0)->shape [0], cases [index].height);
        assert_int_equal (pipeline_output (self, 0)->shape [1], cases [index].width);
        assert_int_equal (pipeline_plan (self)->output_size.height, cases [index].height);
        assert_int_equal (pipeline_plan (self)->output_size.width, cases [index].width);
        pipeline_destroy (&self);
    }
}

//  One output in a line: name, dtype, shape, bytes.
static void
s_describe (const pipeline_t *self, char text [1000])
{
    size_t all = 0;
    *text = 0;
    for (size_t index = 0; index < pipeline_outputs (self); index++) {
        const pipeline_output_t *output = pipeline_output (self, index);
        char *at = text + strlen (text);
        at += sprintf (at, "%s%s %s", index? "; ": "", output->name, dtype_name (output->dtype));
        for (uint32_t axis = 0; axis < output->dimensions; axis++)
            at += sprintf (at, "%s%u", axis? "x": " ", output->shape [axis]);
        sprintf (at, " %zu", output->bytes);
        all += output->bytes;
    }
    assert_int_equal (all, pipeline_sample_bytes (self));
}

#define FOUR "{'op':'decode','fields':['image','edges_2','depth']}"

static const struct { const char *text, *outputs; } s_outputs [] = {
    { "[" CROP ",{'op':'layout','layout':'NCHW'}]", "image uint8 3x8x8 192" },
    { "[" CROP ",{'op':'layout','layout':'NHWC'}]", "image uint8 8x8x3 192" },
    { "[" CROP ",{'op':'cast','dtype':'float16'}]", "image float16 8x8x3 384" },
    { "[" CROP ",{'op':'cast','dtype':'uint8'}]", "image uint8 8x8x3 192" },
    { "[" CROP "," NORMALIZE "]", "image float32 8x8x3 768" },
    { "[" CROP "," NORMALIZE ",{'op':'layout','layout':'NCHW'},{'op':'cast','dtype':'bfloat16'}]",
      "image bfloat16 3x8x8 384" },
    { "[" CROP ",{'op':'cast','dtype':'float32'}," NORMALIZE "]", "image float32 8x8x3 768" },
    { "[" CROP ",{'op':'grayscale'}]", "image uint8 8x8x1 64" },
    { "[" CROP ",{'op':'grayscale'},{'op':'grayscale','p':0.5},{'op':'layout','layout':'NCHW'}]",
        "image uint8 1x8x8 64" },
    { "[" CROP ",{'op':'grayscale'},{'op':'grayscale','channels':3}]", "image uint8 8x8x3 192" },
    { "[" CROP ",{'op':'grayscale'},{'op':'normalize','mean':1}]", "image float32 8x8x1 256" },
    { "[{'op':'views','count':3}," CROP "]",
        "image uint8 8x8x3 192; image_2 uint8 8x8x3 192; image_3 uint8 8x8x3 192" },
    { "[" FOUR "," CROP "," NORMALIZE ",{'op':'layout','layout':'NCHW'}]",
      "image float32 3x8x8 768; edges_2 uint8 8x8 64; depth float32 3x8x8 768" },
    { "[{'op':'decode','fields':['depth','mask']}," CROP ",{'op':'grayscale'},"
        "" SHARE ",{'op':'views','count':2}]",
      "depth uint8 8x8x1 64; mask uint8 8x8 64; depth_2 uint8 8x8x1 64; mask_2 uint8 8x8 64" },
    { "[{'op':'decode','fields':['image',{'field':'depth','as':'mask','dtype':'uint16'},"
        "{'field':'edges_2','as':'mask','dtype':'uint16'}]}," CROP "]",
      "image uint8 8x8x3 192; depth uint16 8x8 128; edges_2 uint16 8x8 128" },
    { "[{'op':'decode','fields':['image',{'field':'depth','as':'mask'}]}," CROP "]",
      "image uint8 8x8x3 192; depth uint8 8x8 64" },
    { "[{'op':'decode','as':'bytes','length':7}]", "bytes uint8 7 7" },
    { "[{'op':'decode','as':'array','dtype':'float64','shape':[2,3,4]}]", "array float64 2x3x4 192" },
    { "[{'op':'decode','as':'audio','channels':2},{'op':'excerpt','length':5}]", "audio float32 2x5 40" },
    { "[{'op':'decode','as':'audio','dtype':'int16'},{'op':'excerpt','length':5}," SHARE "]",
        "audio int16 1x5 10" },
};

static void
test_outputs (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_outputs / sizeof *s_outputs; index++) {
        const pipeline_t *self = pipeline_on (s_outputs [index].text, &s_fields);
        char text [1000];
        s_describe (self, text);
        if (strcmp (text, s_outputs [index].outputs))
            fail_msg ("%s: %s for %s", s_outputs [index].text, text, s_outputs [index].outputs);
        pipeline_destroy (&self);
    }
}

//  Planes as "file/view offset+bytes"; a mask has an m.
static const struct { const char *text, *planes; size_t bytes; } s_planes [] = {
    { "[" CROP "]", "0/0 0+192", 192 },
    { "[" FOUR "," CROP "]", "0/0 0+192; 1/0m 192+64; 2/0 256+192", 448 },
    { "[" FOUR ",{'op':'center_crop','size':[3,5]},{'op':'views','count':2},{'op':'flip'}," SHARE "]",
      "0/0 0+45; 1/0m 64+15; 2/0 128+45; 0/1 192+45; 1/1m 256+15; 2/1 320+45", 365 },
    { "[" FOUR ",{'op':'center_crop','size':[3,5]}," SHARE ",{'op':'views','count':2},{'op':'flip'}]",
      "0/0 0+45; 1/0m 64+15; 2/0 128+45", 173 },
    { "[{'op':'decode','max_pixels':10,'fields':['image','mask']}," SHARE "," CROP "]",
        "0/0 0+94; 1/0m 128+74", 202 },
    { "[{'op':'resize','size':7,'max_size':9}," SHARE "," CROP "]", "0/0 0+253", 253 },
    { "[{'op':'resize','size':7,'max_size':9},{'op':'flip','p':1},{'op':'pad','padding':[1,2,3,4]},"
        "" SHARE "," CROP "]",
      "0/0 0+595", 595 },
    { "[{'op':'decode','as':'array','dtype':'int64','shape':[5]}]", "0/0 0+40", 40 },
    { "[{'op':'decode','as':'bytes','length':1073741824}]", "0/0 0+1073741824", 1073741824 },
    { "[{'op':'decode','as':'audio','channels':3,'dtype':'int16'},{'op':'excerpt','length':5}]", "0/0 0+30",
        30 },
};

static void
test_planes (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_planes / sizeof *s_planes; index++) {
        const pipeline_t *self = pipeline_on (s_planes [index].text, &s_fields);
        const plan_t *plan = pipeline_plan (self);
        char text [1000] = "", *at = text;
        for (size_t plane = 0; plane < plan->plane_count; plane++)
            at += sprintf (at, "%s%zu/%u%s %zu+%zu", plane? "; ": "", plan->planes [plane].file,
                plan->planes [plane].view,
                plan->planes [plane].is_mask? "m": "", plan->planes [plane].offset,
                plan->planes [plane].bytes);
        if (strcmp (text, s_planes [index].planes))
            fail_msg ("%s: %s for %s", s_planes [index].text, text, s_planes [index].planes);
        assert_int_equal (pipeline_version_bytes (self), s_planes [index].bytes);
        pipeline_destroy (&self);
    }
}

//  What is read of the source, and what the plan says beside its planes.
static void
test_plan (void **state)
{
    (void) state;
    const pipeline_t *self = pipeline_on ("[{'op':'decode','fields':['depth','mask','image']}," CROP "," SHARE
        ",{'op':'flip'},{'op':'views','count':4},{'op':'random_crop','size':[5,4]}," NORMALIZE "]",
        &s_fields);
    const plan_t *plan = pipeline_plan (self);
    assert_int_equal (pipeline_files (self), 3);
    assert_int_equal (pipeline_file (self, 0), 2);
    assert_int_equal (pipeline_file (self, 1), 1);
    assert_int_equal (pipeline_file (self, 2), 0);
    assert_int_equal (plan->count, 6);
    assert_int_equal (plan->shared_count, 2);
    assert_int_equal (plan->views_at, 3);
    assert_int_equal (plan->views, 4);
    assert_int_equal (plan->shared_size.height, 8);
    assert_int_equal (plan->output_size.height, 5);
    assert_int_equal (plan->output_size.width, 4);
    assert_int_equal (plan->format.dtype, DTYPE_FLOAT32);
    assert_true (plan->format.normalizes);
    assert_false (plan->format.planar);
    assert_int_equal (plan->format.channels, 3);
    assert_true (plan->format.mean [1] == 0.456f && plan->format.std [2] == 0.225f);
    pipeline_destroy (&self);
    self = pipeline_on ("[{'op':'decode','max_pixels':9}," SHARE "," CROP "]", &s_fields);
    plan = pipeline_plan (self);
    assert_int_equal (pipeline_files (self), 1);
    assert_int_equal (plan->views_at, plan->count);
    assert_int_equal (plan->views, 1);
    assert_int_equal (plan->shared_size.height, 0);
    assert_true (plan->format.std [0] == 1 && plan->format.dtype == DTYPE_UINT8 && !plan->format.normalizes);
    pipeline_destroy (&self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Limits

//  The longest text of one operation.
static void
test_longest_text (void **state)
{
    (void) state;
    static const double low = -3123.4567890123456, high = 3123.4567890123456, share = 0.12345678901234567;
    char error [ERROR_BYTES];
    json_t *affine = json_pack ("{s:s, s:[f,f], s:[f,f], s:[f,f], s:[f,f,f,f], s:[f,f], s:s, s:[i,i,i], s:i}",
        "op", "random_affine", "degrees", low, high, "translate", share, share, "scale", share,
        987.65432109876543, "shear", low, high, low, high, "center", low, high, "interpolation", "bilinear",
        "fill", 255, 255, 255, "mask_fill", 255);
    json_t *list = json_pack ("[{s:s, s:[i,i]}, o]", "op", "center_crop", "size", 4096, 4096, affine);
    const pipeline_t *self;
    assert_int_equal (pipeline_new (&self, list, NULL, NULL, 0, error, sizeof error), 0);
    const pipeline_t *again = pipeline_of (pipeline_text (self));
    assert_string_equal (pipeline_text (self), pipeline_text (again));
    pipeline_destroy (&again);
    pipeline_destroy (&self);
    json_decref (list);
}

//  A list of the longest length and the longest texts is accepted, with the mark or without, and so is its
//  own text (which has the mark always); one operation more is not.
static void
test_longest_list (void **state)
{
    (void) state;
    static const double third = 0.12345678901234567;
    char error [ERROR_BYTES];
    json_t *list = json_array (), *flip = json_pack ("{s:s, s:f}", "op", "flip", "p", third);
    for (int index = 2; index < PIPELINE_OPERATIONS_MAX; index++)
        json_array_append_new (list,
            json_pack ("{s:s, s:[f,f], s:[f,f], s:[f,f], s:[f,f]}", "op", "color_jitter",
            "brightness", third, 98.765432109876543, "contrast", third, 98.765432109876543,
            "saturation", third, 98.765432109876543, "hue", -third, third));
    json_array_insert_new (list, 0, json_pack ("{s:s, s:[i,i]}", "op", "center_crop", "size", 4096, 4096));
    json_array_append_new (list, json_pack ("{s:b}", "share", 1));
    const pipeline_t *self;
    assert_int_equal (pipeline_new (&self, list, NULL, NULL, 0, error, sizeof error), 0);
    assert_true (strlen (pipeline_text (self)) > 30 * 180);
    const pipeline_t *again = pipeline_of (pipeline_text (self));
    assert_string_equal (pipeline_text (self), pipeline_text (again));
    pipeline_destroy (&again);
    pipeline_destroy (&self);
    json_array_append (list, flip);
    assert_int_equal (pipeline_new (&self, list, NULL, NULL, 0, error, sizeof error), -EINVAL);
    assert_string_equal (error,
        "operation 33 (flip): one too many; expected 31 operations at most beside decode");
    json_array_clear (list);
    json_array_append_new (list, json_pack ("{s:s, s:[i,i]}", "op", "resize", "size", 4, 4));
    while (json_array_size (list) < PIPELINE_OPERATIONS_MAX - 1)
        json_array_append (list, flip);
    assert_int_equal (pipeline_new (&self, list, NULL, NULL, 0, error, sizeof error), 0);
    again = pipeline_of (pipeline_text (self));
    assert_string_equal (pipeline_text (self), pipeline_text (again));
    pipeline_destroy (&self);
    pipeline_destroy (&again);
    json_decref (flip);
    json_decref (list);
}

//  As many fields with as long names as there may be, in as many views; one byte more is too long.
static void
test_longest_names (void **state)
{
    (void) state;
    static char names [PIPELINE_FIELDS_MAX] [PIPELINE_NAME_BYTES_MAX + 2];
    pipeline_source_t source = { .count = PIPELINE_FIELDS_MAX };
    json_t *fields = json_array ();
    for (size_t field = 0; field < PIPELINE_FIELDS_MAX; field++) {
        memset (names [field], (int) ('a' + field), PIPELINE_NAME_BYTES_MAX);
        source.fields [field] = (pipeline_field_t) { names [field], field % 2 };
        json_array_append_new (fields, json_string (names [field]));
    }
    json_t *list = json_pack ("[{s:s, s:O, s:b, s:b, s:i}, {s:s, s:i}, {s:s, s:i}]", "op", "decode", "fields",
        fields,
        "exact", 0, "orientation", 0, "max_pixels", 100000000, "op", "center_crop", "size", 5, "op", "views",
        "count", 2);
    char error [ERROR_BYTES];
    const pipeline_t *self;
    assert_int_equal (pipeline_new (&self, list, &source, NULL, 0, error, sizeof error), 0);
    assert_int_equal (pipeline_outputs (self), PIPELINE_OUTPUTS_MAX);
    assert_int_equal (strlen (pipeline_output (self, 15)->name), PIPELINE_NAME_BYTES_MAX + 2);
    assert_memory_equal (pipeline_output (self, 15)->name, names [7], PIPELINE_NAME_BYTES_MAX);
    assert_string_equal (pipeline_output (self, 15)->name + PIPELINE_NAME_BYTES_MAX, "_2");
    const pipeline_t *again = pipeline_on (pipeline_text (self), &source);
    assert_string_equal (pipeline_text (self), pipeline_text (again));
    pipeline_destroy (&again);
    pipeline_destroy (&self);
    names [3] [PIPELINE_NAME_BYTES_MAX] = 'x';
    assert_int_equal (pipeline_new (&self, list, &source, NULL, 0, error, sizeof error), -EINVAL);
    assert_string_equal (error, "the name of field 4 of the data is not valid; "
        "expected letters, digits and underscores, 64 at most");
    json_decref (list);
    json_decref (fields);
}

static void
test_dtypes (void **state)
{
    (void) state;
    static const struct { dtype_t dtype; const char *name; size_t bytes; } dtypes [] = {
        { DTYPE_UINT8, "uint8", 1 }, { DTYPE_INT8, "int8", 1 }, { DTYPE_UINT16, "uint16", 2 },
        { DTYPE_INT16, "int16", 2 }, { DTYPE_UINT32, "uint32", 4 }, { DTYPE_INT32, "int32", 4 },
        { DTYPE_UINT64, "uint64", 8 }, { DTYPE_INT64, "int64", 8 }, { DTYPE_FLOAT16, "float16", 2 },
        { DTYPE_BFLOAT16, "bfloat16", 2 }, { DTYPE_FLOAT32, "float32", 4 },
        { DTYPE_FLOAT64, "float64", 8 },
        { DTYPE_BOOL, "bool", 1 },
    };
    assert_int_equal (sizeof dtypes / sizeof *dtypes, DTYPES);
    for (size_t index = 0; index < DTYPES; index++) {
        assert_string_equal (dtype_name (dtypes [index].dtype), dtypes [index].name);
        assert_int_equal (dtype_bytes (dtypes [index].dtype), dtypes [index].bytes);
    }
}

//  Threads that hold and release at once: the last one frees, and none before it (the sanitizers watch).
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
        cmocka_unit_test (test_written_without_images),
        cmocka_unit_test (test_same_meaning_same_text),
        cmocka_unit_test (test_other_meaning_other_text),
        cmocka_unit_test (test_private_stage_is_not_in_the_shared_text),
        cmocka_unit_test (test_share_point),
        cmocka_unit_test (test_share_point_like_the_model),
        cmocka_unit_test (test_places_are_counted_without_the_mark),
        cmocka_unit_test (test_output_size),
        cmocka_unit_test (test_outputs),
        cmocka_unit_test (test_planes),
        cmocka_unit_test (test_plan),
        cmocka_unit_test (test_longest_text),
        cmocka_unit_test (test_longest_list),
        cmocka_unit_test (test_longest_names),
        cmocka_unit_test (test_dtypes),
        cmocka_unit_test (test_holders),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

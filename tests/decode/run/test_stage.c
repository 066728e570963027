/*  test_stage -- random pipelines, on random images with masks and views, beside a simple model
 *  (stage_model.h); where the share point is makes no difference; what is decoded and computed is no more
 *  than what is needed.
 */
#include "from_pictures.h"
#include "pipelines.h"
#include "list_operations.h"
#include "made_jpeg.h"
#include "stage_model.h"
#include "stage.h"

enum { LISTS = 250, SAMPLES = 2, SIDE_MIN = 20, SIDE_MAX = 80, TEXT_BYTES = 4096, OPERATIONS = 6 };

static const pipeline_source_t s_source = {
    .fields = { { "image", false }, { "mask", true }, { "depth", false } }, .count = 3
};

//  ---------------------------------------------------------------------------------------------------------
//  Lists

typedef struct {
    char operations [OPERATIONS + 5] [600];
    size_t count;
    char decode [200];
} list_t;

static void
s_append (list_t *self, const char *text)
{
    snprintf (self->operations [self->count++], sizeof *self->operations, "%s", text);
}

//  fields: of the source, how many.
static void
s_make_list (list_t *self, uint64_t *random, uint32_t fields)
{
    static const char *const names [] = { "'image'", "'image','mask'", "'image','mask','depth'" };
    self->count = 0;
    snprintf (self->decode, sizeof self->decode, "{'op':'decode','fields':[%s]%s}", names [fields - 1],
        test_below (random, 2)? "": ",'max_pixels':6400");
    uint32_t steps = list_between (random, 1, OPERATIONS), sizing = list_between (random, 1, steps);
    uint32_t views = list_between (random, 0, 2 * steps);
    for (uint32_t step = 1; step <= steps; step++) {
        size_t bytes = sizeof *self->operations;
        char *text = self->operations [self->count++];
        if (step == sizing || test_below (random, 4) == 0)
            list_write_sizing (random, text, bytes);
        else
            list_write_other (random, text, bytes);
        if (step == views)
            s_append (self, test_below (random, 2)? "{'op':'views','count':2}": "{'op':'views','count':3}");
    }
    if (test_below (random, 3) == 0)
        s_append (self, "{'op':'normalize','mean':[0.4,0.5,0.6],'std':[0.2,0.25,0.3]}");
    if (test_below (random, 3) == 0)
        s_append (self, test_below (random, 2)? "{'op':'cast','dtype':'float16'}":
            "{'op':'cast','dtype':'bfloat16'}");
    if (test_below (random, 3) == 0)
        s_append (self, "{'op':'random_erasing','p':0.8,'value':77}");
    if (test_below (random, 3) == 0)
        s_append (self, "{'op':'layout','layout':'NCHW'}");
}

//  mark: behind how many operations it stands; count of them and above: there is none.  NULL: it is refused.
static const pipeline_t *
s_pipeline (const list_t *self, size_t mark)
{
    static char text [TEXT_BYTES];
    size_t length = (size_t) snprintf (text, sizeof text, "[%s", self->decode);
    for (size_t index = 0; index < self->count; index++)
        length += (size_t) snprintf (text + length, sizeof text - length, "%s,%s",
            index == mark? ",{'share':true}": "", self->operations [index]);
    snprintf (text + length, sizeof text - length, "]");
    char error [ERROR_BYTES];
    const pipeline_t *pipeline;
    pipeline_try_on (&pipeline, text, &s_source, NULL, 0, error);
    return pipeline;
}

//  ---------------------------------------------------------------------------------------------------------
//  Samples

typedef struct {
    made_file_t made [PIPELINE_FIELDS_MAX];
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    uint32_t count;
} sample_t;

static void
s_make_sample (sample_t *self, uint64_t *random, uint32_t fields, uint32_t height, uint32_t width)
{
    self->count = fields;
    for (uint32_t field = 0; field < fields; field++) {
        bool is_mask = s_source.fields [field].is_mask;
        const made_kind_t *kind = &made_kinds [is_mask? MADE_KIND_GREY: test_below (random, MADE_KINDS)];
        self->made [field] = made_jpeg (kind, height, width, random);
        self->files [field] = (decoder_file_t) { .bytes = self->made [field].bytes,
            .size = self->made [field].size };
    }
}

static void
s_free_sample (sample_t *self)
{
    for (uint32_t field = 0; field < self->count; field++)
        free (self->made [field].bytes);
}

//  What a pipeline makes of a sample.
typedef struct {
    const pipeline_t *pipeline;
    uint8_t *version;
    uint8_t *targets [PIPELINE_OUTPUTS_MAX];
} made_t;

static void
s_made_begin (made_t *self, const pipeline_t *pipeline)
{
    self->pipeline = pipeline;
    size_t bytes = (pipeline_version_bytes (pipeline) + 63) / 64 * 64;
    self->version = aligned_alloc (64, bytes);
    memset (self->version, 0xa5, bytes);
    for (size_t output = 0; output < pipeline_outputs (pipeline); output++)
        self->targets [output] = malloc (pipeline_output (pipeline, output)->bytes);
}

static void
s_made_end (made_t *self)
{
    free (self->version);
    for (size_t output = 0; output < pipeline_outputs (self->pipeline); output++)
        free (self->targets [output]);
}

static decoder_status_t
s_shared (decoder_t *decoder, const made_t *made, const pipeline_key_t *key, const sample_t *sample,
    char *error)
{
    decoder_sample_t files = { .files = sample->files, .warnings_max = UINT32_MAX };
    size_t file = SIZE_MAX;
    decoder_status_t status = decoder_shared (decoder, made->pipeline, key, &files, made->version, &file,
        error, ERROR_BYTES);
    assert_int_equal (status == DECODER_OK, *error == 0);
    assert_int_equal (status == DECODER_OK, file == SIZE_MAX);
    if (status == DECODER_OK)
        assert_int_equal (from_pictures_compare (decoder, made->pipeline, key, &files),
            decoder_picture_kind (made->pipeline, 0) == DECODER_NO_PICTURE? 0: sample->count);
    return status;
}

//  ---------------------------------------------------------------------------------------------------------
//  Beside the model

static void
s_compare_plane (const made_t *made, const plan_plane_t *plane, const model_image_t *expected)
{
    const plan_t *plan = pipeline_plan (made->pipeline);
    const uint8_t *pixels = made->version + plane->offset;
    plan_size_t size = plan->shared_size;
    if (size.height == 0) {
        memcpy (&size, pixels, sizeof size);
        pixels += PLAN_HEADER_BYTES;
    }
    assert_int_equal (size.height, expected->height);
    assert_int_equal (size.width, expected->width);
    if (memcmp (pixels, expected->pixels, image_bytes (size.height, size.width, expected->channels)))
        fail_msg ("%s: the version differs, file %zu, view %u", pipeline_text (made->pipeline), plane->file,
            plane->view);
}

//  False: the model says that the sample is bad.
static bool
s_compare_versions (const made_t *made, model_t model, const sample_t *sample, bool good)
{
    const plan_t *plan = model.plan;
    bool expected_good = true;
    for (size_t index = 0; index < plan->plane_count; index++) {
        const plan_plane_t *plane = &plan->planes [index];
        model.view = plane->view;
        model.is_mask = plane->is_mask;
        model_image_t expected = model_run (&model, &sample->files [plane->file], plan->shared_count);
        expected_good = expected_good && expected.pixels;
        if (good && expected.pixels)
            s_compare_plane (made, plane, &expected);
        free (expected.pixels);
    }
    return expected_good;
}

static void
s_compare_outputs (const made_t *made, model_t model, const sample_t *sample)
{
    for (size_t output = 0; output < pipeline_outputs (made->pipeline); output++) {
        size_t file = output % sample->count, bytes;
        model.view = (uint32_t) (output / sample->count);
        model.is_mask = s_source.fields [file].is_mask;
        model_image_t image = model_run (&model, &sample->files [file], model.plan->count);
        uint8_t *expected = model_output (&model, &image, &bytes);
        assert_int_equal (bytes, pipeline_output (made->pipeline, output)->bytes);
        if (memcmp (expected, made->targets [output], bytes))
            fail_msg ("%s: output %zu differs", pipeline_text (made->pipeline), output);
        free (expected);
        free (image.pixels);
    }
}

typedef struct {
    unsigned refused, bad, headers, views_shared, views_private, good;
} tally_t;

static void
s_try_sample (decoder_t *decoder, const pipeline_t *pipeline, uint32_t fields, uint64_t *random,
    tally_t *tally)
{
    const plan_t *plan = pipeline_plan (pipeline);
    char error [ERROR_BYTES];
    sample_t sample;
    made_t made;
    model_t model = { .plan = plan, .shared = { 1, 2, test_below (random, 1000), 0 },
        .private = { 5, 6, test_below (random, 1000), 1 } };
    s_make_sample (&sample, random, fields, list_between (random, SIDE_MIN, SIDE_MAX),
        list_between (random, SIDE_MIN, SIDE_MAX));
    s_made_begin (&made, pipeline);
    bool good = s_shared (decoder, &made, &model.shared, &sample, error) == DECODER_OK;
    bool expected = s_compare_versions (&made, model, &sample, good);
    if (good != expected || (!good && !strstr (error, "\"pad_if_needed\"")))
        fail_msg ("%s: %s is bad: %s", pipeline_text (pipeline), good? "no sample": "a sample", error);
    if (good && !decoder_private (decoder, pipeline, &model.private, made.version, made.targets))
        fail_msg ("%s: no memory", pipeline_text (pipeline));
    if (good)
        s_compare_outputs (&made, model, &sample);
    tally->good += good;
    tally->bad += !good;
    tally->headers += good && plan->shared_size.height == 0;
    tally->views_shared += good && plan->views_at < plan->shared_count;
    tally->views_private += good && plan->views_at >= plan->shared_count && plan->views > 1;
    s_made_end (&made);
    s_free_sample (&sample);
}

//  Every byte of versions and batches is the model's, whatever is put off, cut short, shared or decoded in
//  part.
static void
test_random_pipelines (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    tally_t tally = { 0 };
    decoder_t *decoder = decoder_new ();
    for (unsigned lists = 0; lists < LISTS; seed++) {
        uint64_t random = seed;
        list_t list;
        uint32_t fields = list_between (&random, 1, 3);
        s_make_list (&list, &random, fields);
        const pipeline_t *pipeline = s_pipeline (&list, test_below (&random, list.count + 2));
        tally.refused += !pipeline;
        if (!pipeline)
            continue;
        for (unsigned sample = 0; sample < SAMPLES; sample++)
            s_try_sample (decoder, pipeline, fields, &random, &tally);
        pipeline_destroy (&pipeline);
        lists++;
    }
    print_message ("%u lists refused; samples: %u good, %u bad, %u with headers, %u and %u with views\n",
        tally.refused, tally.good, tally.bad, tally.headers, tally.views_shared, tally.views_private);
    assert_true (tally.good > LISTS && tally.bad > 0 && tally.headers > LISTS / 20);
    assert_true (tally.views_shared > LISTS / 10 && tally.views_private > LISTS / 20);
    decoder_destroy (&decoder);
}

//  What chance seldom makes: more colours than a program holds, crops that lie in the border, views that part
//  behind what is pending, one channel of three equal ones.
static void
test_rare_pipelines (void **state)
{
    (void) state;
    #define JITTER "{'op':'color_jitter','brightness':0.4,'contrast':0.4,'saturation':0.4,'hue':0.1},"
    #define JITTERS JITTER JITTER JITTER JITTER JITTER JITTER
    static const char *const lists [] = {
        JITTERS JITTERS "{'op':'center_crop','size':20}",
        "{'op':'random_crop','size':9,'padding':90,'fill':[1,2,3],'mask_fill':4}",
        "{'op':'random_crop','size':[9,7],'padding':90,'mode':'edge'}",
        "{'op':'flip','p':1},{'op':'random_crop','size':[7,9],'padding':90,'mode':'reflect'}",
        "{'op':'resize','size':33},{'op':'random_crop','size':[100,110],'padding':[90,0],'mode':'symmetric'}",
        "{'op':'resize','size':40},{'op':'vertical_flip','p':1}," JITTER "{'op':'views','count':3},"
        "{'op':'random_crop',"
            "'size':20,'padding':7,'fill':9}," JITTER "{'op':'resize','size':[30,31]},"
            "{'op':'pad','padding':2}",
        "{'op':'center_crop','size':[70,20]},{'op':'views','count':2},{'op':'random_resized_crop','size':30},"
        "{'op':'flip'}",
        "{'op':'center_crop','size':[20,70]},{'op':'grayscale'},{'op':'normalize','mean':0.5},"
        "{'op':'layout','layout':'NCHW'}",
        "{'op':'center_crop','size':[20,70]},{'op':'grayscale'}",
        "{'op':'center_crop','size':[20,70]},{'op':'grayscale'},{'share':true},"
        "{'op':'resize','size':[30,31]}",
        "{'op':'resize','size':[1,1]},{'op':'resize','size':[50,3]},{'op':'center_crop','size':1}",
        "{'op':'center_crop','size':[70,20]},{'op':'random_resized_crop','size':30,'pillow13':true},"
        "{'op':'center_crop','size':[28,20]},{'op':'resize','size':[9,20],'pillow13':true}",
    };
    uint64_t random = test_seed ();
    tally_t tally = { 0 };
    decoder_t *decoder = decoder_new ();
    for (size_t index = 0; index < sizeof lists / sizeof *lists; index++)
        for (uint32_t shared = 0; shared < 2; shared++) {
            char text [TEXT_BYTES];
            bool marked = strstr (lists [index], "{'share':true}");
            snprintf (text, sizeof text,
                "[{'op':'decode','fields':['image','mask'],'max_pixels':6400},%s%s%s]",
                shared || marked? "": "{'share':true},", lists [index], shared
                && !marked? ",{'share':true}": "");
            const pipeline_t *pipeline;
            char error [ERROR_BYTES];
            //  Some may stand on one side of the mark only; one has a mark.
            if (pipeline_try_on (&pipeline, text, &s_source, NULL, 0, error) == 0)
                for (unsigned sample = 0; sample < 4; sample++)
                    s_try_sample (decoder, pipeline, 2, &random, &tally);
            pipeline_destroy (&pipeline);
        }
    assert_true (tally.good > 40);
    decoder_destroy (&decoder);
}

//  ---------------------------------------------------------------------------------------------------------
//  The share point

//  One key for both stages, as a job of order seeded has: then the batch does not say where the share point
//  is.
static void
test_share_point_makes_no_difference (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    decoder_t *decoder = decoder_new ();
    unsigned compared = 0;
    for (unsigned round = 0; round < 150; round++, seed++) {
        uint64_t random = seed;
        list_t list;
        sample_t sample;
        s_make_list (&list, &random, 2);
        s_make_sample (&sample, &random, 2, list_between (&random, 50, SIDE_MAX),
            list_between (&random, 50, SIDE_MAX));
        pipeline_key_t key = { .seed = seed, .id = 3 };
        made_t first = { NULL, NULL, { NULL } };
        for (size_t mark = 0; mark <= list.count; mark++) {
            const pipeline_t *pipeline = s_pipeline (&list, mark);
            if (!pipeline)
                continue;
            char error [ERROR_BYTES];
            made_t made;
            s_made_begin (&made, pipeline);
            bool good = s_shared (decoder, &made, &key, &sample, error) == DECODER_OK
                && decoder_private (decoder, pipeline, &key, made.version, made.targets);
            for (size_t output = 0; first.pipeline && good
                && output < pipeline_outputs (pipeline); output++) {
                assert_memory_equal (made.targets [output], first.targets [output],
                    pipeline_output (pipeline, output)->bytes);
                compared++;
            }
            if (good && !first.pipeline)
                first = made;
            else {
                s_made_end (&made);
                pipeline_destroy (&pipeline);
            }
        }
        if (first.pipeline) {
            s_made_end (&first);
            pipeline_destroy (&first.pipeline);
        }
        s_free_sample (&sample);
    }
    assert_true (compared > 100);
    decoder_destroy (&decoder);
}

//  ---------------------------------------------------------------------------------------------------------
//  No more than is needed

static passage_t
s_passage (stage_t *stage, const pipeline_t *pipeline, const pipeline_key_t *key, uint32_t height,
    uint32_t width)
{
    static char error [ERROR_BYTES];
    const plan_t *plan = pipeline_plan (pipeline);
    passage_t passage = {
        .stage = stage, .plan = plan, .key = key, .room = STAGE_NO_ROOM, .kept = STAGE_NO_ROOM,
        .mixed = STAGE_NO_ROOM, .error = error, .error_bytes = sizeof error
    };
    picture_init (&passage.picture, height, width, IMAGE_COLOURS);
    stage_choose (&passage, 1, plan->count);
    return passage;
}

static const pipeline_key_t s_key = { .seed = 7 };

//  What a list asks for of an image of 100 x 200 before it has pixels.
static picture_need_t
s_need (const char *text, stage_status_t expected)
{
    stage_t stage;
    assert_true (stage_init (&stage));
    const pipeline_t *pipeline = pipeline_of (text);
    passage_t passage = s_passage (&stage, pipeline, &s_key, 100, 200);
    assert_int_equal (stage_run (&passage), expected);
    pipeline_destroy (&pipeline);
    stage_free (&stage);
    return passage.need;
}

static void
s_assert_box (const picture_need_t *need, uint32_t top, uint32_t left, uint32_t height, uint32_t width)
{
    assert_int_equal (need->box.top, top);
    assert_int_equal (need->box.left, left);
    assert_int_equal (need->box.height, height);
    assert_int_equal (need->box.width, width);
}

//  Crops are looked for behind whatever can wait; a contrast is of the whole image.
static void
test_only_what_is_needed_is_decoded (void **state)
{
    (void) state;
    picture_need_t need = s_need ("[{'op':'center_crop','size':[20,30]},{'share':true}]", STAGE_DONE);
    s_assert_box (&need, 40, 85, 20, 30);
    need = s_need ("[{'op':'pad','padding':[1,0,0,0]},{'op':'center_crop','size':20},{'share':true}]",
        STAGE_WAITS);
    s_assert_box (&need, 0, 0, 100, 200);
    need = s_need ("[{'op':'center_crop','size':[20,30]},{'op':'flip','p':1},{'op':'color_jitter','hue':0.1},"
        "{'op':'random_crop','size':[8,10],'padding':0},{'share':true}]", STAGE_DONE);
    assert_int_equal (need.box.height, 8);
    assert_true (need.box.top >= 40 && need.box.left >= 85 && need.box.left + need.box.width <= 115);
    need = s_need ("[{'op':'color_jitter','contrast':0.5},{'op':'center_crop','size':[20,30]},"
        "{'share':true}]", STAGE_WAITS);
    s_assert_box (&need, 0, 0, 100, 200);
    need = s_need ("[{'op':'center_crop','size':[120,30]},{'share':true}]", STAGE_WAITS);
    s_assert_box (&need, 0, 85, 100, 30);
    need = s_need ("[{'op':'center_crop','size':[10,30]},{'op':'random_crop','size':20,'padding':[0,10],"
        "'mode':'edge'},"
        "{'share':true}]", STAGE_WAITS);
    assert_int_equal (need.box.width, 20);
    need = s_need ("[{'op':'resize','size':50},{'op':'center_crop','size':10},{'share':true}]", STAGE_DONE);
    s_assert_box (&need, 39, 89, 22, 22);
    assert_true (need.down >= 1 && need.across >= 1);
}

//  Runs a list on an image of one row that is long enough to become too large, with many keys; all end alike.
static void
s_try_crops (const char *text, stage_status_t expected)
{
    enum { LENGTH = 2000, CROPS = 40 };
    static uint8_t pixels [LENGTH * 3], made [64 * 64 * 3];
    for (size_t index = 0; index < sizeof pixels; index++)
        pixels [index] = (uint8_t) index;
    image_t image = { pixels, sizeof pixels, 1, LENGTH, 3 };
    const pipeline_t *pipeline = pipeline_of (text);
    for (uint64_t id = 0; id < CROPS; id++) {
        stage_t stage;
        assert_true (stage_init (&stage));
        pipeline_key_t key = { .id = id };
        passage_t passage = s_passage (&stage, pipeline, &key, 1, LENGTH);
        picture_of (&passage.picture, &image);
        assert_int_equal (stage_run (&passage), expected);
        if (expected == STAGE_DONE)
            assert_int_equal (stage_draw (&passage, stage_plain (&stage, IMAGE_COLOURS), made),
                STAGE_DONE);
        stage_free (&stage);
    }
    pipeline_destroy (&pipeline);
}

//  Whether an image is fit does not depend on where the crop is drawn, in the image, the border or both.
static void
test_crops_are_fit_wherever_they_lie (void **state)
{
    (void) state;
    #define CROP_OF(border) "{'op':'random_crop','size':64,'padding':[0,200]," border "},{'share':true}]"
    s_try_crops ("[{'op':'resize','size':256}," CROP_OF ("'fill':1"), STAGE_DONE);
    s_try_crops ("[{'op':'resize','size':256}," CROP_OF ("'mode':'edge'"), STAGE_DONE);
    s_try_crops ("[{'op':'resize','size':256}," CROP_OF ("'mode':'reflect'"), STAGE_DONE);
    s_try_crops ("[{'op':'resize','size':256}," CROP_OF ("'mode':'symmetric'"), STAGE_DONE);
    //  A contrast is of the whole image.
    #define CONTRAST "{'op':'color_jitter','contrast':[2,2]},"
    s_try_crops ("[{'op':'resize','size':256}," CONTRAST CROP_OF ("'fill':1"), STAGE_UNSUITABLE);
    s_try_crops ("[{'op':'resize','size':256}," CONTRAST CROP_OF ("'mode':'edge'"), STAGE_UNSUITABLE);
}

//  The same crop, from the left of a flipped image.
static void
test_flipped_crops_are_mirrored (void **state)
{
    (void) state;
    const char *plain = "[{'op':'resize','size':[100,201]},{'op':'center_crop','size':[20,30]},"
        "{'share':true}]";
    picture_need_t need = s_need (plain, STAGE_DONE);
    assert_true (need.box.width < 40);
    //  100 x 200 by 33 leaves an odd rest: 83 before it, 84 behind it, to even.
    need = s_need ("[{'op':'center_crop','size':[100,33]},{'share':true}]", STAGE_DONE);
    s_assert_box (&need, 0, 84, 100, 33);
    need = s_need ("[{'op':'flip','p':1},{'op':'center_crop','size':[100,33]},{'share':true}]", STAGE_DONE);
    s_assert_box (&need, 0, 83, 100, 33);
}

//  A smaller scale is asked for only where every view can do with it.
static void
test_scale_that_is_asked_for (void **state)
{
    (void) state;
    picture_need_t need =
        s_need ("[{'op':'decode','exact':false},{'op':'resize','size':[25,40]},{'share':true}]", STAGE_DONE);
    image_request_t request = picture_request (&need);
    assert_int_equal (request.least_height, 25);
    assert_int_equal (request.least_width, 40);
    picture_need_t whole =
        s_need ("[{'op':'decode','exact':false},{'op':'center_crop','size':[25,40]},{'share':true}]",
        STAGE_DONE);
    need = picture_need_both (&need, &whole);
    request = picture_request (&need);
    assert_int_equal (request.least_height, 0);
    need = s_need ("[{'op':'decode','exact':false},{'op':'resize','size':[25,40],'interpolation':'nearest'},"
        "{'share':true}]", STAGE_DONE);
    request = picture_request (&need);
    assert_int_equal (request.least_height, 0);
    need = s_need ("[{'op':'decode','exact':false},{'op':'resize','size':50},{'op':'center_crop','size':10},"
        "{'share':true}]", STAGE_DONE);
    request = picture_request (&need);
    assert_int_equal (request.least_height, need.box.height / 2);
}

//  A resize that would hold too much between its passes is made in pieces, with the same result.
static void
test_resize_in_pieces (void **state)
{
    (void) state;
    enum { HEIGHT = 90, WIDTH = 70, BYTES = 41 * 37 * 3 };
    static const uint64_t limits [] = { DECODER_PIXELS_MAX, 3000, 700, 90, 1 };
    static uint8_t pixels [HEIGHT * WIDTH * 3], whole [BYTES], made [BYTES];
    uint64_t random = test_seed ();
    for (size_t index = 0; index < sizeof pixels; index++)
        pixels [index] = (uint8_t) test_below (&random, 256);
    const pipeline_t *pipeline = pipeline_of ("[{'op':'resize','size':[41,60],'interpolation':'bicubic'},"
        "{'op':'center_crop','size':[41,37]},{'share':true}]");
    enum { LIMITS = sizeof limits / sizeof *limits };
    for (size_t trial = 0; trial < 2 * LIMITS; trial++) {
        uint32_t channels = trial < LIMITS? IMAGE_COLOURS: 1;
        bool is_first = trial % LIMITS == 0;
        stage_t stage;
        assert_true (stage_init (&stage));
        stage.between_max = limits [trial % LIMITS];
        passage_t passage = s_passage (&stage, pipeline, &s_key, HEIGHT, WIDTH);
        image_t image = { pixels, WIDTH * channels, HEIGHT, WIDTH, channels };
        picture_of (&passage.picture, &image);
        assert_int_equal (stage_run (&passage), STAGE_DONE);
        assert_int_equal (stage_draw (&passage, stage_plain (&stage, channels), is_first? whole: made),
            STAGE_DONE);
        if (!is_first)
            assert_memory_equal (made, whole, BYTES / IMAGE_COLOURS * channels);
        stage_free (&stage);
    }
    pipeline_destroy (&pipeline);
}

//  ---------------------------------------------------------------------------------------------------------
//  Not exact

//  A resize by a scale that JPEG has is then no more than decoding at that scale: every pixel shows whether
//  the crop before it and the crop behind it were taken at the right place.  A mask is exact all the same.
static void
test_inexact_is_decoded_smaller (void **state)
{
    (void) state;
    enum { HEIGHT = 400, WIDTH = 376, SCALE = 8 };
    static const struct { const char *text; image_box_t box; } cases [] = {
        { "{'op':'resize','size':[50,47]}", { 0, 0, 50, 47 } },
        { "{'op':'resize','size':[50,47]},{'op':'center_crop','size':[40,31]}", { 5, 8, 40, 31 } },
        { "{'op':'center_crop','size':[304,328]},{'op':'resize','size':[38,41],'interpolation':'bicubic'}",
          { 6, 3, 38, 41 } },
        { "{'op':'center_crop','size':[304,328]},{'op':'views','count':2},{'op':'resize','size':[38,41]},"
          "{'op':'random_crop','size':[38,41],'padding':0}", { 6, 3, 38, 41 } },
    };
    uint64_t random = test_seed ();
    decoder_t *decoder = decoder_new ();
    for (unsigned round = 0; round < 12; round++) {
        const char *text = cases [round % 4].text;
        const image_box_t *box = &cases [round % 4].box;
        sample_t sample;
        s_make_sample (&sample, &random, 2, HEIGHT, WIDTH);
        list_t list = { .count = 1 };
        snprintf (list.decode, sizeof list.decode, "{'op':'decode','fields':['image','mask'],'exact':false}");
        snprintf (list.operations [0], sizeof list.operations [0], "%s,{'share':true}", text);
        made_t made;
        char error [ERROR_BYTES];
        pipeline_key_t key = { .seed = round };
        s_made_begin (&made, s_pipeline (&list, 1));
        model_t model = { .plan = pipeline_plan (made.pipeline), .shared = key, .is_mask = true };
        assert_int_equal (s_shared (decoder, &made, &key, &sample, error), DECODER_OK);
        for (size_t index = 0; index < model.plan->plane_count; index++) {
            const plan_plane_t *plane = &model.plan->planes [index];
            model_image_t expected = plane->is_mask?
                model_run (&model, &sample.files [1], model.plan->shared_count)
                : model_decode_scaled (&sample.files [0], HEIGHT / SCALE, WIDTH / SCALE);
            image_t view = model_view (&expected);
            if (!plane->is_mask)
                view = image_part (&view, box);
            for (uint32_t row = 0; row < box->height; row++)
                if (memcmp (made.version + plane->offset + row * image_bytes (1, box->width, plane->channels),
                    image_at (&view, row, 0), image_bytes (1, box->width, plane->channels)))
                    fail_msg ("%s: round %u, row %u of plane %zu differs", text, round, row, index);
            free (expected.pixels);
        }
        s_made_end (&made);
        pipeline_destroy (&made.pipeline);
        s_free_sample (&sample);
    }
    decoder_destroy (&decoder);
}

static void
s_assert_near (double found, double expected)
{
    assert_true (found > expected - 1e-9 && found < expected + 1e-9);
}

//  What was decoded at half the scale, and more than was asked for, lies where it should, to fractions of a
//  pixel.
static void
test_scaled_spans (void **state)
{
    (void) state;
    picture_t picture;
    picture_init (&picture, 100, 200, 3);
    picture_narrow (&picture, &(image_box_t) { 11, 40, 60, 80 });
    picture_resize (&picture, RESIZE_BILINEAR, false, 20, 16);
    picture_narrow (&picture, &(image_box_t) { 5, 4, 10, 8 });
    //  The window is of rows 11 + 15 to 11 + 45 and of columns 40 + 20 to 40 + 60.
    image_request_t request = { .box = { 21, 51, 45, 65 } };
    uint8_t pixel = 0;
    image_pixels_t pixels = { { &pixel, 120, 23, 33, 3 }, 0.5, 0.5, 22.5, 32.5 };
    picture_supply (&picture, &request, &pixels);
    picture_resample_t resample = picture_resample (&picture);
    assert_int_equal (resample.down.side, 23);
    assert_int_equal (resample.across.side, 33);
    assert_int_equal (resample.down.count, 10);
    assert_int_equal (resample.across.full, 8);
    s_assert_near (resample.down.from, 0.5 + (26 - 21) / 2.);
    s_assert_near (resample.down.length, 15);
    s_assert_near (resample.across.from, 0.5 + (60 - 51) / 2.);
    s_assert_near (resample.across.length, 20);
    //  Pixels that end within the window: what is beyond them is not there.
    pixels.image.height = 15;
    picture_supply (&picture, &request, &pixels);
    resample = picture_resample (&picture);
    s_assert_near (resample.down.from + resample.down.length, 15);
}

//  As Pillow 13 does it: 6,000 sizes that were tried fit the rule.
static void
test_more_than_twice_as_many_rows (void **state)
{
    (void) state;
    static const struct { uint32_t height, width, new_height, new_width; bool down_first; } cases [] = {
        { 100, 100, 49, 75, true }, { 100, 100, 50, 75, false },        //  51 and 50 rows for 25 columns
        { 100, 100, 99, 100, true }, { 100, 100, 100, 200, false }, { 100, 100, 99, 200, true },
        { 100, 100, 101, 300, false }, { 83, 40, 36, 44, true }, { 375, 500, 224, 224, false }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        for (int pillow13 = 0; pillow13 < 2; pillow13++) {
            picture_t picture;
            picture_init (&picture, cases [index].height, cases [index].width, 3);
            picture_resize (&picture, RESIZE_BILINEAR, pillow13, cases [index].new_height,
                cases [index].new_width);
            assert_int_equal (picture.down_first, pillow13 && cases [index].down_first);
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_random_pipelines),
        cmocka_unit_test (test_rare_pipelines),
        cmocka_unit_test (test_share_point_makes_no_difference),
        cmocka_unit_test (test_only_what_is_needed_is_decoded),
        cmocka_unit_test (test_crops_are_fit_wherever_they_lie),
        cmocka_unit_test (test_flipped_crops_are_mirrored),
        cmocka_unit_test (test_scale_that_is_asked_for),
        cmocka_unit_test (test_resize_in_pieces),
        cmocka_unit_test (test_inexact_is_decoded_smaller),
        cmocka_unit_test (test_scaled_spans),
        cmocka_unit_test (test_more_than_twice_as_many_rows),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

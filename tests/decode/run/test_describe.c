/*  test_describe -- what decoder_describe says of a sample against what was really done with it: an image in
 *  which every pixel says where it is goes through the stage, and what comes out must lie where the
 *  description has it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "augment.h"
#include "blur.h"
#include "colour.h"
#include "decoder.h"
#include "keyed_random.h"
#include "pipelines.h"
#include "plan.h"
#include "remap.h"
#include "seed.h"
#include "warp.h"

enum { HEIGHT = 37, WIDTH = 53, KEYS = 60, VERSION_MAX = 1 << 16, OUTPUT_MAX = 1 << 14 };

//  The share point stands before what is tested, so that a version can be made here: no codec rounds its
//  pixels.
#define OPEN "{'op':'decode','max_pixels':4000},{'share':true},"

typedef struct {
    const pipeline_t *pipeline;
    decoder_t *decoder;
    uint8_t version [VERSION_MAX] __attribute__ ((aligned (64)));
    uint8_t outputs [PIPELINE_OUTPUTS_MAX] [OUTPUT_MAX];
    decoder_described_t sample;
    json_t *operations;
} trial_t;

//  Red is the row, green the column, blue 200.
static void
s_fill_positions (uint8_t *pixel)
{
    for (uint32_t row = 0; row < HEIGHT; row++)
        for (uint32_t column = 0; column < WIDTH; column++, pixel += 3)
            memcpy (pixel, (uint8_t [3]) { (uint8_t) (row + 1), (uint8_t) (column + 1), 200 }, 3);
}

static trial_t *
s_trial (const char *text)
{
    trial_t *self = aligned_alloc (64, (sizeof *self + 63) / 64 * 64);
    assert_non_null (self);
    memset (self, 0, sizeof *self);
    self->pipeline = pipeline_of (text);
    self->decoder = decoder_new ();
    assert_non_null (self->decoder);
    assert_true (pipeline_version_bytes (self->pipeline) <= VERSION_MAX);
    memcpy (self->version, &(plan_size_t) { HEIGHT, WIDTH }, sizeof (plan_size_t));
    s_fill_positions (self->version + PLAN_HEADER_BYTES);
    return self;
}

static void
s_end (trial_t *self)
{
    json_decref (self->operations);
    pipeline_destroy (&self->pipeline);
    decoder_destroy (&self->decoder);
    free (self);
}

static void
s_describe (trial_t *self, uint64_t seed)
{
    char error [ERROR_BYTES];
    self->sample = (decoder_described_t) { .height = HEIGHT, .width = WIDTH,
        .shared_key = { .seed = seed, .round = 3, .id = 5 },
        .private_key = { .seed = seed + 1, .round = 7, .id = 5, .occurrence = (uint32_t) seed % 3 } };
    json_decref (self->operations);
    self->operations = decoder_describe (self->pipeline, &self->sample, error, sizeof error);
    if (!self->operations)
        fail_msg ("%s", error);
}

//  Runs the private stage for real, and describes it.
static void
s_run (trial_t *self, uint64_t seed)
{
    uint8_t *targets [PIPELINE_OUTPUTS_MAX];
    for (size_t output = 0; output < pipeline_outputs (self->pipeline); output++) {
        assert_true (pipeline_output (self->pipeline, output)->bytes <= OUTPUT_MAX);
        targets [output] = self->outputs [output];
    }
    s_describe (self, seed);
    assert_true (decoder_private (self->decoder, self->pipeline, &self->sample.private_key, self->version,
        targets));
}

//  The parameters of the operation in a view; of several, the first.
static const json_t *
s_parameters (const trial_t *self, const char *op, json_int_t view)
{
    size_t index;
    json_t *entry;
    json_array_foreach (self->operations, index, entry)
        if (strcmp (json_string_value (json_object_get (entry, "op")), op) == 0
        &&  json_integer_value (json_object_get (entry, "view")) == view)
            return json_object_get (entry, "parameters");
    fail_msg ("no %s in view %d", op, (int) view);
    return NULL;
}

static int
s_whole (const json_t *parameters, const char *key)
{
    assert_true (json_is_integer (json_object_get (parameters, key)));
    return (int) json_integer_value (json_object_get (parameters, key));
}

static const uint8_t *
s_pixel (const trial_t *self, size_t output, uint32_t row, uint32_t column)
{
    const pipeline_output_t *shape = pipeline_output (self->pipeline, output);
    return self->outputs [output] + ((size_t) row * shape->shape [1] + column) * shape->shape [2];
}

//  Whether each pixel of the output is that of the image which the window says; outside it, black.
static void
s_assert_window (const trial_t *self, size_t output, const json_t *window, bool across, bool down)
{
    const pipeline_output_t *shape = pipeline_output (self->pipeline, output);
    assert_int_equal (s_whole (window, "height"), shape->shape [0]);
    assert_int_equal (s_whole (window, "width"), shape->shape [1]);
    for (uint32_t y = 0; y < shape->shape [0]; y++)
        for (uint32_t x = 0; x < shape->shape [1]; x++) {
            int row = s_whole (window, "top") + (int) (down? shape->shape [0] - 1 - y: y);
            int column = s_whole (window, "left") + (int) (across? shape->shape [1] - 1 - x: x);
            bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;
            const uint8_t *pixel = s_pixel (self, output, y, x);
            assert_int_equal (pixel [0], inside? row + 1: 0);
            assert_int_equal (pixel [1], inside? column + 1: 0);
        }
}

//  Guards: crops and borders lie where they are said to, for many keys, which take many places.
static void
test_windows (void **state)
{
    (void) state;
    static const struct { const char *op, *text; bool is_random; } cases [] = {
        { "center_crop", "[" OPEN "{'op':'center_crop','size':[20,31]}]", false },
        { "center_crop", "[" OPEN "{'op':'center_crop','size':[60,70]}]", false },
        { "random_crop", "[" OPEN "{'op':'random_crop','size':[16,18],'pad_if_needed':true}]", true },
        { "random_crop", "[" OPEN "{'op':'random_crop','size':[30,50],'padding':[3,5,7,9],"
            "'pad_if_needed':true}]", true },
        { "random_crop", "[" OPEN "{'op':'random_crop','size':[45,64],'pad_if_needed':true}]", true },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        trial_t *trial = s_trial (cases [index].text);
        int least = INT32_MAX, most = INT32_MIN;
        for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
            s_run (trial, seed);
            const json_t *window = s_parameters (trial, cases [index].op, 0);
            s_assert_window (trial, 0, window, false, false);
            int left = s_whole (window, "left");
            least = left < least? left: least;
            most = left > most? left: most;
        }
        assert_int_equal (most > least, cases [index].is_random);
        s_end (trial);
    }
}

//  Guards: pad and resize tell the size behind them, which what follows begins with.
static void
test_sizes (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'pad','padding':[1,2,3,4]},{'op':'resize','size':[20,30]},"
        "{'op':'center_crop','size':[10,10]}]");
    s_run (trial, 1);
    assert_int_equal (s_whole (s_parameters (trial, "decode", 0), "height"), HEIGHT);
    const json_t *pad = s_parameters (trial, "pad", 0), *crop = s_parameters (trial, "center_crop", 0);
    assert_int_equal (s_whole (pad, "height"), HEIGHT + 6);
    assert_int_equal (s_whole (pad, "width"), WIDTH + 4);
    assert_int_equal (s_whole (pad, "top"), -2);
    assert_int_equal (s_whole (pad, "left"), -1);
    assert_int_equal (s_whole (s_parameters (trial, "resize", 0), "width"), 30);
    assert_int_equal (s_whole (crop, "top"), 5);
    assert_int_equal (s_whole (crop, "left"), 10);
    s_end (trial);
    trial = s_trial ("[" OPEN "{'op':'resize','size':20,'max_size':25},{'op':'center_crop','size':[10,10]}]");
    s_run (trial, 1);
    assert_int_equal (s_whole (s_parameters (trial, "resize", 0), "width"), 25);
    assert_int_equal (s_whole (s_parameters (trial, "resize", 0), "height"), 20 * 25 / (20 * WIDTH / HEIGHT));
    s_end (trial);
}

//  Guards: a crop that is resized shows the box that it is said to take: its gradient runs from edge to edge.
static void
test_random_resized_crop (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'random_resized_crop','size':[9,9]}]");
    int flips [2] = { 0 };
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        const json_t *box = s_parameters (trial, "random_resized_crop", 0);
        double top = s_whole (box, "top"), left = s_whole (box, "left");
        double down = s_whole (box, "height") / 9.0, across = s_whole (box, "width") / 9.0;
        //  The middle of output pixel i is that of source pixel (i + 0.5) x scale - 0.5; of the edges'
        //  neighbours on only.
        for (uint32_t at = 2; at < 7; at++) {
            const uint8_t *pixel = s_pixel (trial, 0, at, at);
            assert_true (fabs (pixel [0] - (top + (at + 0.5) * down + 0.5)) <= 1);
            assert_true (fabs (pixel [1] - (left + (at + 0.5) * across + 0.5)) <= 1);
        }
        flips [0] += top > 0;
        flips [1] += left > 0;
    }
    assert_true (flips [0] > 0 && flips [1] > 0);
    s_end (trial);
}

//  Guards: the interpolation that is said to be drawn is the one that is done; each is, and the box stays.
static void
test_random_interpolation (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'random_resized_crop','size':[9,9],'interpolation':'random'}]");
    trial_t *fixed [2] = {
        s_trial ("[" OPEN "{'op':'random_resized_crop','size':[9,9],'interpolation':'bilinear'}]"),
        s_trial ("[" OPEN "{'op':'random_resized_crop','size':[9,9],'interpolation':'bicubic'}]")
    };
    int drawn [2] = { 0 }, differ = 0;
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        s_run (fixed [0], seed);
        s_run (fixed [1], seed);
        const char *said = json_string_value (json_object_get (
            s_parameters (trial, "random_resized_crop", 0), "interpolation"));
        assert_non_null (said);
        bool is_bicubic = strcmp (said, "bicubic") == 0;
        assert_true (is_bicubic || strcmp (said, "bilinear") == 0);
        assert_memory_equal (trial->outputs [0], fixed [is_bicubic]->outputs [0], 9 * 9 * 3);
        differ += memcmp (fixed [0]->outputs [0], fixed [1]->outputs [0], 9 * 9 * 3) != 0;
        drawn [is_bicubic]++;
    }
    assert_true (drawn [0] > KEYS / 5 && drawn [1] > KEYS / 5 && differ > KEYS / 2);
    s_end (trial);
    s_end (fixed [0]);
    s_end (fixed [1]);
}

//  Guards: both flips, each by its own chance.
static void
test_flips (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'center_crop','size':[20,31]},{'op':'flip'},"
        "{'op':'vertical_flip','p':0.3}]");
    int seen [2] [2] = { { 0 } };
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        bool across = json_is_true (json_object_get (s_parameters (trial, "flip", 0), "flipped"));
        bool down = json_is_true (json_object_get (s_parameters (trial, "vertical_flip", 0), "flipped"));
        s_assert_window (trial, 0, s_parameters (trial, "center_crop", 0), across, down);
        seen [across] [down]++;
    }
    assert_true (seen [0] [0] && seen [1] [0] && seen [0] [1]);
    s_end (trial);
}

static colour_kind_t
s_colour (const char *name)
{
    static const char *const names [] = { "brightness", "contrast", "saturation", "hue" };
    static const colour_kind_t kinds [] = { COLOUR_BRIGHTNESS, COLOUR_CONTRAST, COLOUR_SATURATION,
        COLOUR_HUE };
    size_t index = 0;
    while (index < 3 && strcmp (names [index], name))
        index++;
    return kinds [index];
}

//  Guards: the steps that are told, done one after the other on the image, give what the stage gave, to the
//  last bit; so do their order and their factors.
static void
test_colours (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'center_crop','size':[20,31]},"
        "{'op':'color_jitter','brightness':0.4,'contrast':0.4,'saturation':0.4,'hue':0.1},"
        "{'op':'grayscale','p':0.4},{'op':'equalize'},{'op':'posterize','bits':5}]");
    static uint8_t pixels [20 * 31 * 3], row [31 * 3];
    int grey = 0, equalized = 0, first [4] = { 0 };
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        const json_t *window = s_parameters (trial, "center_crop", 0);
        for (uint32_t y = 0; y < 20; y++)
            for (uint32_t x = 0; x < 31; x++)
                memcpy (pixels + (y * 31 + x) * 3,
                    (uint8_t [3]) { (uint8_t) (s_whole (window, "top") + (int) y + 1),
                    (uint8_t) (s_whole (window, "left") + (int) x + 1), 200 }, 3);
        colour_program_t program = { .count = 0 };
        size_t index;
        json_t *step;
        json_array_foreach (json_object_get (s_parameters (trial, "color_jitter", 0), "steps"), index, step) {
            colour_kind_t kind = s_colour (json_string_value (json_object_get (step, "step")));
            first [kind] += index == 0;
            assert_true (colour_add (&program, kind, json_real_value (json_object_get (step, "factor"))));
        }
        if (json_is_true (json_object_get (s_parameters (trial, "grayscale", 0), "grey"))) {
            assert_true (colour_add (&program, COLOUR_GREY, 1));
            grey++;
        }
        if (json_is_true (json_object_get (s_parameters (trial, "equalize", 0), "done"))) {
            assert_true (colour_add (&program, COLOUR_EQUALIZE, 0));
            equalized++;
        }
        if (json_is_true (json_object_get (s_parameters (trial, "posterize", 0), "done")))
            assert_true (colour_add (&program, COLOUR_POSTERIZE, 5));
        image_t image = { pixels, image_bytes (1, 31, 3), 20, 31, 3 };
        colour_measure (&program, &image, row);
        colour_pass_t pass;
        colour_begin (&pass, &program, program.count);
        for (uint32_t y = 0; y < 20; y++)
            colour_run (&pass, pixels + y * 31 * 3, 31);
        assert_memory_equal (pixels, trial->outputs [0], sizeof pixels);
    }
    assert_true (grey > 0 && grey < KEYS);
    assert_true (equalized > 0 && equalized < KEYS);
    assert_true (first [0] && first [1] && first [2] && first [3]);
    s_end (trial);
}

static double
s_real (const json_t *value)
{
    assert_true (json_is_real (value));
    return json_real_value (value);
}

//  The maps that are told, done one after the other; *image is their result.
static void
s_warp_as_told (const trial_t *trial, image_t *image)
{
    static uint8_t turned [1 << 16], moved [1 << 16];
    const json_t *rotation = s_parameters (trial, "random_rotation", 0);
    const json_t *affine = s_parameters (trial, "random_affine", 0);
    const json_t *shear = json_object_get (affine, "shear"), *by = json_object_get (affine, "translate");
    warp_t turn = warp_rotate (s_real (json_object_get (rotation, "angle")), true, NULL, HEIGHT, WIDTH);
    assert_int_equal (turn.kind, WARP_MATRIX);
    assert_int_equal (s_whole (rotation, "height"), turn.height);
    assert_int_equal (s_whole (rotation, "width"), turn.width);
    remap_affine_t map = { .fill = { 7, 7, 7 }, .height = turn.height, .width = turn.width };
    memcpy (map.matrix, turn.matrix, sizeof map.matrix);
    remap_affine (&map, image, turned);
    warp_affine_t drawn = { .angle = s_real (json_object_get (affine, "angle")),
        .scale = s_real (json_object_get (affine, "scale")),
        .translate = { (double) json_integer_value (json_array_get (by, 0)),
            (double) json_integer_value (json_array_get (by, 1)) },
        .shear = { s_real (json_array_get (shear, 0)), s_real (json_array_get (shear, 1)) } };
    warp_t move = warp_affine (&drawn, turn.height, turn.width);
    map = (remap_affine_t) { .is_bilinear = true, .height = turn.height, .width = turn.width };
    memcpy (map.matrix, move.matrix, sizeof map.matrix);
    *image = (image_t) { turned, turn.width * 3, turn.height, turn.width, 3 };
    remap_affine (&map, image, moved);
    image->pixels = moved;
}

//  Guards: the angle that is told, the size and the map of a rotation and of an affine map, give the image
//  of the stage.
static void
test_warps (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'random_rotation','degrees':180,'expand':true,'fill':7},"
        "{'op':'random_affine','degrees':20,'translate':[0.2,0.1],'scale':[0.7,1.4],'shear':[-9,9,-9,9],"
        "'interpolation':'bilinear'},{'op':'center_crop','size':[20,31]}]");
    static uint8_t pixels [HEIGHT * WIDTH * 3];
    s_fill_positions (pixels);
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        image_t image = { pixels, WIDTH * 3, HEIGHT, WIDTH, 3 };
        s_warp_as_told (trial, &image);
        const json_t *window = s_parameters (trial, "center_crop", 0);
        int top = s_whole (window, "top"), left = s_whole (window, "left");
        for (int y = 0; y < 20; y++)
            for (int x = 0; x < 31; x++) {
                bool inside = top + y >= 0 && top + y < (int) image.height && left + x >= 0
                    && left + x < (int) image.width;
                const uint8_t black [3] = { 0 };
                const uint8_t *pixel = inside? image_at (&image, (uint32_t) (top + y), (uint32_t) (left + x)):
                    black;
                assert_memory_equal (s_pixel (trial, 0, (uint32_t) y, (uint32_t) x), pixel, 3);
            }
    }
    s_end (trial);
}

//  Guards: the sigma and the radius that are told give the image of the stage.
static void
test_blurs (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'gaussian_blur','kernel_size':[5,3]},"
        "{'op':'pillow_gaussian_blur','radius':[0,9]},"
        "{'op':'random_crop','size':[37,53],'pad_if_needed':true}]");
    static uint8_t pixels [HEIGHT * WIDTH * 3], blurred [2] [HEIGHT * WIDTH * 3];
    s_fill_positions (pixels);
    scratch_t room = { NULL, 0 };
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        double sigma = s_real (json_object_get (s_parameters (trial, "gaussian_blur", 0), "sigma"));
        double radius = s_real (json_object_get (s_parameters (trial, "pillow_gaussian_blur", 0), "radius"));
        image_t image = { pixels, WIDTH * 3, HEIGHT, WIDTH, 3 };
        blur_kernel_t across = blur_kernel (5, sigma), down = blur_kernel (3, sigma);
        blur_convolve (&image, &across, &down, blurred [0]);
        image.pixels = blurred [0];
        assert_true (blur_boxes (&image, radius, &room, blurred [1]));
        assert_memory_equal (blurred [1], trial->outputs [0], sizeof pixels);
    }
    scratch_free (&room);
    s_end (trial);
}

//  Guards: the corners that are told give the image of the stage; without any nothing was done.
static void
test_perspectives (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'random_perspective','p':0.6,'interpolation':'nearest'},"
        "{'op':'random_crop','size':[37,53],'pad_if_needed':true}]");
    static uint8_t pixels [HEIGHT * WIDTH * 3], mapped [HEIGHT * WIDTH * 3];
    s_fill_positions (pixels);
    int done = 0;
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        const json_t *told = s_parameters (trial, "random_perspective", 0);
        const json_t *corners = json_object_get (told, "endpoints");
        bool is_done = json_is_true (json_object_get (told, "done"));
        assert_int_equal (json_array_size (corners), is_done? 4: 0);
        memcpy (mapped, pixels, sizeof mapped);
        warp_corners_t to;
        for (size_t corner = 0; is_done && corner < 4; corner++)
            for (size_t axis = 0; axis < 2; axis++)
                to.corners [corner] [axis] =
                    json_integer_value (json_array_get (json_array_get (corners, corner), axis));
        if (is_done) {
            warp_t warp = warp_perspective (&to, HEIGHT, WIDTH);
            assert_int_equal (warp.kind, WARP_MATRIX);
            remap_affine_t map = { .is_perspective = true, .height = HEIGHT, .width = WIDTH };
            memcpy (map.matrix, warp.matrix, sizeof map.matrix);
            memcpy (map.vanishing, warp.vanishing, sizeof map.vanishing);
            remap_affine (&map, &(image_t) { pixels, WIDTH * 3, HEIGHT, WIDTH, 3 }, mapped);
            done++;
        }
        assert_memory_equal (mapped, trial->outputs [0], sizeof mapped);
    }
    assert_true (done > 0 && done < KEYS);
    s_end (trial);
}

//  Guards: the box that is told is erased, and nothing beside it.
static void
test_erasing (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'center_crop','size':[20,31]},"
        "{'op':'random_erasing','p':0.7,'value':7}]");
    int erased = 0;
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        const json_t *box = s_parameters (trial, "random_erasing", 0);
        int top = s_whole (box, "top"), left = s_whole (box, "left");
        int bottom = top + s_whole (box, "height"), right = left + s_whole (box, "width");
        erased += bottom > top && right > left;
        for (int y = 0; y < 20; y++)
            for (int x = 0; x < 31; x++) {
                bool inside = y >= top && y < bottom && x >= left && x < right;
                //  Blue is 200 everywhere else.
                assert_int_equal (s_pixel (trial, 0, (uint32_t) y, (uint32_t) x) [2], inside? 7: 200);
            }
    }
    assert_true (erased > 0 && erased < KEYS);
    s_end (trial);
}

//  The steps that are told, done one after the other; in place, where they move nothing.
static void
s_augment_as_told (const json_t *steps, image_t *image, uint8_t *pixels, uint8_t *room)
{
    size_t index;
    json_t *told;
    json_array_foreach (steps, index, told) {
        const char *name = json_string_value (json_object_get (told, "step"));
        augment_step_t step = { .magnitude = s_real (json_object_get (told, "magnitude")) };
        while (strcmp (augment_name (step.kind), name))
            step.kind++;
        colour_program_t program = { .count = 0 };
        colour_pass_t pass;
        warp_t warp;
        colour_kind_t kind;
        double factor;
        remap_affine_t map = { .height = HEIGHT, .width = WIDTH };
        size_t bytes = sizeof (uint8_t) * HEIGHT * WIDTH * 3;
        memcpy (room, pixels, bytes);
        if (augment_warp (&step, HEIGHT, WIDTH, &warp)) {
            memcpy (map.matrix, warp.matrix, sizeof map.matrix);
            assert_true (warp.kind != WARP_HALF_TURN);
            if (warp.kind == WARP_MATRIX)
                remap_affine (&map, image, room);
        }
        else
        if (step.kind == AUGMENT_SHARPNESS)
            colour_sharpen (image, 1 + step.magnitude, room, WIDTH * 3);
        else
        if (augment_colour (&step, &kind, &factor)) {
            uint8_t row [WIDTH * 3];
            assert_true (colour_add (&program, kind, factor));
            colour_measure (&program, image, row);
            colour_begin (&pass, &program, program.count);
            for (size_t y = 0; y < HEIGHT; y++)
                colour_run (&pass, room + y * WIDTH * 3, WIDTH);
        }
        memcpy (pixels, room, bytes);
    }
}

//  Guards: the steps of a policy that are told give the image of the stage.
static void
test_policies (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'rand_augment','num_ops':3},"
        "{'op':'random_crop','size':[37,53],'pad_if_needed':true}]");
    static uint8_t pixels [HEIGHT * WIDTH * 3], room [HEIGHT * WIDTH * 3];
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        s_fill_positions (pixels);
        image_t image = { pixels, WIDTH * 3, HEIGHT, WIDTH, 3 };
        s_augment_as_told (json_object_get (s_parameters (trial, "rand_augment", 0), "steps"), &image, pixels,
            room);
        assert_memory_equal (pixels, trial->outputs [0], sizeof pixels);
    }
    s_end (trial);
}

//  Guards: the weights and the chains of a mixture that are told give the image of the stage.
static void
test_mixtures (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'aug_mix','severity':9,'interpolation':'nearest'},"
        "{'op':'random_crop','size':[37,53],'pad_if_needed':true}]");
    static uint8_t pixels [HEIGHT * WIDTH * 3], room [HEIGHT * WIDTH * 3];
    static float sums [HEIGHT * WIDTH * 3];
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        const json_t *told = s_parameters (trial, "aug_mix", 0);
        s_fill_positions (pixels);
        for (size_t at = 0; at < sizeof pixels; at++)
            sums [at] = (float) s_real (json_object_get (told, "weight")) * pixels [at];
        size_t index;
        json_t *chain;
        json_array_foreach (json_object_get (told, "chains"), index, chain) {
            image_t image = { pixels, WIDTH * 3, HEIGHT, WIDTH, 3 };
            s_fill_positions (pixels);
            s_augment_as_told (json_object_get (chain, "steps"), &image, pixels, room);
            for (size_t at = 0; at < sizeof pixels; at++)
                sums [at] += (float) s_real (json_object_get (chain, "weight")) * pixels [at];
        }
        assert_int_equal (index, 3);
        for (size_t at = 0; at < sizeof pixels; at++)
            assert_int_equal (trial->outputs [0] [at], (uint8_t) sums [at]);
    }
    s_end (trial);
}

//  Guards: what is told of a view's corner is its window; of the sixth one on, that it is flipped.
static void
test_corners (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'center_crop','size':[30,40]},{'op':'views','count':2},"
        "{'op':'corner_crop','size':[16,18]}]");
    s_run (trial, 1);
    for (uint32_t view = 0; view < 2; view++) {
        const json_t *corner = s_parameters (trial, "corner_crop", view);
        assert_int_equal (s_whole (corner, "top"), 0);
        assert_int_equal (s_whole (corner, "left"), (int) view * (40 - 18));
        assert_true (json_is_false (json_object_get (corner, "flipped")));
    }
    s_end (trial);
    const pipeline_t *pipeline = pipeline_on ("[{'op':'resize','size':[40,30]},{'op':'views','count':10,"
        "'stack':true},{'op':'corner_crop','size':[9,7]},{'share':true}]", NULL);
    char error [ERROR_BYTES];
    decoder_described_t sample = { .height = HEIGHT, .width = WIDTH };
    json_t *operations = decoder_describe (pipeline, &sample, error, sizeof error);
    assert_int_equal (json_array_size (operations), 3 + 10);
    const json_t *last = json_object_get (json_array_get (operations, 3 + 6), "parameters");
    assert_true (json_is_true (json_object_get (last, "flipped")));
    assert_int_equal (s_whole (last, "left"), 0);       //  the upper right one of the flipped image
    json_decref (operations);
    assert_int_equal (pipeline_outputs (pipeline), 1);
    const pipeline_output_t *output = pipeline_output (pipeline, 0);
    assert_string_equal (output->name, "image");
    assert_int_equal (output->dimensions, 4);
    assert_int_equal (output->shape [0], 10);
    assert_int_equal (output->bytes, 10 * 9 * 7 * 3);
    pipeline_destroy (&pipeline);
}

//  Guards: views draw by themselves, what stands before them is told once, and stages and fields have their
//  names; masks have no colours.
static void
test_views_and_fields (void **state)
{
    (void) state;
    trial_t *trial = s_trial ("[" OPEN "{'op':'flip'},{'op':'views','count':2},"
        "{'op':'random_crop','size':[16,18],'pad_if_needed':true},"
        "{'op':'normalize','mean':0.5,'std':0.5},{'op':'cast','dtype':'float32'}]");
    s_describe (trial, 1);
    assert_int_equal (json_array_size (trial->operations), 3 + 2 * 3);
    assert_string_equal (json_string_value (json_object_get (json_array_get (trial->operations, 0), "stage")),
        "shared");
    assert_string_equal (json_string_value (json_object_get (json_array_get (trial->operations, 1), "stage")),
        "private");
    s_end (trial);
    trial = s_trial ("[" OPEN "{'op':'flip'},{'op':'views','count':2},{'op':'random_crop','size':[16,18],"
        "'pad_if_needed':true}]");
    int differ = 0;
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        s_run (trial, seed);
        bool across = json_is_true (json_object_get (s_parameters (trial, "flip", 0), "flipped"));
        for (uint32_t view = 0; view < 2; view++) {
            const json_t *window = s_parameters (trial, "random_crop", view);
            json_t *mirrored = json_deep_copy (window);
            //  The flip comes first, so a crop of the flipped image is the flipped one of the other side.
            if (across)
                json_object_set_new (mirrored, "left", json_integer (WIDTH - 18 - s_whole (window, "left")));
            s_assert_window (trial, view, mirrored, across, false);
            json_decref (mirrored);
        }
        differ += !json_equal (s_parameters (trial, "random_crop", 0),
            s_parameters (trial, "random_crop", 1));
    }
    assert_true (differ > KEYS / 2);
    s_end (trial);
    pipeline_source_t source = { .fields = { { "image", false }, { "mask", true } }, .count = 2 };
    const pipeline_t *pipeline =
        pipeline_on ("[{'op':'decode','fields':['image','mask'],'max_pixels':4000},{'share':true},"
        "{'op':'color_jitter','hue':0.2},{'op':'center_crop','size':[8,8]}]", &source);
    char error [ERROR_BYTES];
    decoder_described_t sample = { .height = HEIGHT, .width = WIDTH };
    json_t *operations = decoder_describe (pipeline, &sample, error, sizeof error);
    assert_int_equal (json_array_size (operations), 2 + 1 + 2);
    assert_string_equal (json_string_value (json_object_get (json_array_get (operations, 4), "field")),
        "mask");
    json_decref (operations);
    pipeline_destroy (&pipeline);
}

//  Guards: the shared stage is described with the shared key: its crop is taken again from what would be
//  decoded.
static void
test_shared_stage (void **state)
{
    (void) state;
    static const char list [] = "{'op':'random_resized_crop','size':[9,9]}";
    char shared [200], private [200];
    snprintf (shared, sizeof shared, "[%s,{'share':true}]", list);
    snprintf (private, sizeof private, "[{'op':'decode','max_pixels':4000},{'share':true},%s]", list);
    trial_t *one = s_trial (shared), *other = s_trial (private);
    for (uint64_t seed = test_seed (); seed < test_seed () + KEYS; seed++) {
        char error [ERROR_BYTES];
        s_describe (one, seed);
        decoder_described_t sample = one->sample;
        sample.private_key = sample.shared_key;
        sample.shared_key = (pipeline_key_t) { .seed = 0 };
        json_t *moved = decoder_describe (other->pipeline, &sample, error, sizeof error);
        assert_true (json_equal (s_parameters (one, "random_resized_crop", 0),
            json_object_get (json_array_get (moved, 1), "parameters")));
        json_decref (moved);
    }
    s_end (one);
    s_end (other);
}

//  Guards: what cannot be done is told, not described.
static void
test_unsuitable (void **state)
{
    (void) state;
    const pipeline_t *pipeline = pipeline_of ("[{'op':'random_crop','size':[64,64]},{'share':true}]");
    char error [ERROR_BYTES];
    decoder_described_t sample = { .height = HEIGHT, .width = WIDTH };
    assert_null (decoder_describe (pipeline, &sample, error, sizeof error));
    assert_non_null (strstr (error, "smaller than the random_crop of 64 x 64"));
    pipeline_destroy (&pipeline);
}

//  Guards: an excerpt's place is the number that the reader is given.
static void
test_excerpt (void **state)
{
    (void) state;
    const pipeline_t *pipeline = pipeline_of ("[{'op':'decode','as':'audio','channels':1,'dtype':'float32'},"
        "{'op':'excerpt','length':100,'place':'random'},{'share':true}]");
    decoder_described_t sample = { .shared_key = { .seed = 1, .id = 2 } };
    char error [ERROR_BYTES];
    json_t *operations = decoder_describe (pipeline, &sample, error, sizeof error);
    keyed_random_t random;
    keyed_random_init (&random, &sample.shared_key, 0, 1);
    const json_t *entry = json_array_get (operations, 1);
    assert_string_equal (json_string_value (json_object_get (entry, "field")), "audio");
    double place = json_real_value (json_object_get (json_object_get (entry, "parameters"), "place"));
    assert_true (place == keyed_random_uniform (&random));
    json_decref (operations);
    pipeline_destroy (&pipeline);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_windows),
        cmocka_unit_test (test_sizes),
        cmocka_unit_test (test_random_resized_crop),
        cmocka_unit_test (test_random_interpolation),
        cmocka_unit_test (test_flips),
        cmocka_unit_test (test_colours),
        cmocka_unit_test (test_warps),
        cmocka_unit_test (test_blurs),
        cmocka_unit_test (test_perspectives),
        cmocka_unit_test (test_policies),
        cmocka_unit_test (test_mixtures),
        cmocka_unit_test (test_erasing),
        cmocka_unit_test (test_corners),
        cmocka_unit_test (test_views_and_fields),
        cmocka_unit_test (test_shared_stage),
        cmocka_unit_test (test_unsuitable),
        cmocka_unit_test (test_excerpt)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

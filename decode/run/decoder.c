#include "decoder.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "augment.h"
#include "boxes.h"
#include "geometry.h"
#include "image_reader.h"
#include "jpeg_reader.h"
#include "keyed_random.h"
#include "plan.h"
#include "stage.h"
#include "tensor_reader.h"
#include "warp.h"

//  ---- boxes follow their image

//  Which operations of a list move the boxes of an image, and how: those that move its pixels, with the same
//  draws.
//
//  Pure functions; any thread.  Only for files of decode/.

static void
s_enter_window (boxes_t *boxes, const geometry_window_t *window)
{
    boxes_move (boxes, (int64_t) window->from.top - window->to_top,
        (int64_t) window->from.left - window->to_left, window->height, window->width);
}

//  Where image and crop have one size, and there is no padding, torchvision does not even clip.
static bool
s_crops_nothing (const boxes_t *boxes, const operation_t *crop)
{
    const uint32_t *border = crop->pad.border;
    return crop->height == boxes->height && crop->width == boxes->width
        && !border [0] && !border [1] && !border [2] && !border [3];
}

static void
s_random_crop (boxes_t *boxes, const operation_t *crop, keyed_random_t *random)
{
    geometry_window_t window;
    //  Where the crop does not fit, the image's stage has found the sample unsuitable.
    bool fits = geometry_random_crop (crop, boxes->height, boxes->width, random, &window);
    assert (fits);
    if (!s_crops_nothing (boxes, crop))
        s_enter_window (boxes, &window);
}

//  Turned by no angle at all, boxes are clipped all the same, as by torchvision; a perspective that is not
//  done leaves them alone.
static void
s_warp (boxes_t *boxes, const warp_t *warp)
{
    if (warp->kind != WARP_NOTHING || !warp->is_perspective)
        boxes_map (boxes, &warp->points, warp->height, warp->width);
}

static void
s_augment (boxes_t *boxes, const operation_t *operation, keyed_random_t *random)
{
    augment_step_t steps [AUGMENT_STEPS_MAX];
    size_t count = augment_draw (operation, boxes->height, boxes->width, random, steps);
    warp_t warp;
    for (size_t index = 0; index < count; index++)
        if (augment_warp (&steps [index], boxes->height, boxes->width, &warp))
            s_warp (boxes, &warp);
}

static void
s_step (boxes_t *boxes, const operation_t *operation, keyed_random_t *random)
{
    geometry_window_t window;
    image_box_t box;
    warp_t warp;
    uint32_t height, width;
    switch (operation->kind) {
    case OPERATION_RESIZE:
        geometry_resize (operation, boxes->height, boxes->width, &height, &width);
        boxes_stretch (boxes, height, width);
        break;
    case OPERATION_CENTER_CROP:
        window = geometry_center_crop (operation->height, operation->width, boxes->height, boxes->width);
        s_enter_window (boxes, &window);
        break;
    case OPERATION_PAD:
        window = geometry_pad (operation, boxes->height, boxes->width);
        s_enter_window (boxes, &window);
        break;
    case OPERATION_RANDOM_CROP:
        s_random_crop (boxes, operation, random);
        break;
    case OPERATION_RANDOM_RESIZED_CROP:
        box = geometry_random_box (operation, boxes->height, boxes->width, random);
        boxes_move (boxes, box.top, box.left, box.height, box.width);
        boxes_stretch (boxes, operation->height, operation->width);
        break;
    case OPERATION_FLIP:
    case OPERATION_VERTICAL_FLIP:
        if (geometry_happens (operation, random))
            boxes_mirror (boxes, operation->kind == OPERATION_FLIP);
        break;
    case OPERATION_RANDOM_ROTATION:
    case OPERATION_RANDOM_AFFINE:
    case OPERATION_RANDOM_PERSPECTIVE:
        warp = warp_draw (operation, boxes->height, boxes->width, random);
        s_warp (boxes, &warp);
        break;
    case OPERATION_RAND_AUGMENT:
    case OPERATION_TRIVIAL_AUGMENT_WIDE:
    case OPERATION_AUTO_AUGMENT:
        s_augment (boxes, operation, random);
        break;
    default:
        break;
    }
}

//  The operations [begin, end), all of them before or behind the views' parting.
static void
s_follow (boxes_t *boxes, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    geometry_chosen_t chosen = geometry_choose (plan->operations, begin, end, key, view);
    for (size_t index = 0; index < chosen.count; index++) {
        const operation_t *operation = &plan->operations [chosen.operations [index]];
        keyed_random_t random = stage_random (operation, key, view);
        s_step (boxes, operation, &random);
    }
}

//  Moves boxes as the operations [begin, end) of the plan, a stage, move the image in a view.  The image's
//  own stage has done them.
static void
s_boxes_follow (boxes_t *boxes, const plan_t *plan, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    size_t parts = plan->views_at < end? plan->views_at + 1: end;
    parts = parts < begin? begin: parts;
    s_follow (boxes, plan, begin, parts, key, 0);
    s_follow (boxes, plan, parts, end, key, view);
}


//  ---- the decoder

enum { DECODER_MAGIC = 0x6465636f };

struct decoder {
    uint32_t magic;
    //  One for each file of a sample: all headers are looked at before anything is decoded.
    image_reader_t *readers [PIPELINE_FIELDS_MAX];
    size_t read_bytes;          //  the most pixels that a reader has given
    bool has_clipped;           //  of the sample that was prepared last
    bool has_read;              //  the readers have read the sample that was prepared last
    stage_t stage;
};

decoder_t *
decoder_new (void)
{
    decoder_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = DECODER_MAGIC;
    if (!stage_init (&self->stage)) {
        decoder_destroy (&self);
        errno = ENOMEM;
    }
    return self;
}

void
decoder_destroy (decoder_t **self_p)
{
    decoder_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == DECODER_MAGIC);
    for (size_t file = 0; file < PIPELINE_FIELDS_MAX; file++)
        if (self->readers [file])
            image_reader_destroy (&self->readers [file]);
    stage_free (&self->stage);
    self->magic = 0;
    free (self);
}

size_t
decoder_kept_bytes (const decoder_t *self)
{
    return self->read_bytes + stage_kept_bytes (&self->stage);
}

//  ---------------------------------------------------------------------------------------------------------
//  One field on its way through a stage, in all its views

typedef struct {
    passage_t passages [PIPELINE_VIEWS_MAX];
    size_t count;                   //  of them: one until the views part
    size_t views;                   //  in the end
    size_t end;                     //  of the stage's operations
    const finish_format_t *format;
    plan_size_t size;               //  of what is written; 0: any, and it is written before it
    uint8_t *targets [PIPELINE_VIEWS_MAX];
    size_t target_bytes;            //  room in each
} field_t;

//  A stage is the operations [begin, end) of the plan.  What is written, and where to, is the caller's to
//  say.
static void
s_field_begin (field_t *self, const passage_t *first, size_t begin, size_t end)
{
    const plan_t *plan = first->plan;
    bool parts = plan->views_at >= begin && plan->views_at < end;
    self->count = 1;
    self->views = parts? plan->views: 1;
    self->end = end;
    passage_t *passage = &self->passages [0];
    *passage = *first;
    stage_choose (passage, begin, parts? plan->views_at + 1: end);
    passage->room = passage->kept = passage->mixed = STAGE_NO_ROOM;
}

//  Runs what the views have in common; all of them begin with what comes of it.
static stage_status_t
s_run_common (field_t *self)
{
    passage_t *first = &self->passages [0];
    if (self->count == self->views)
        return STAGE_DONE;
    stage_status_t status = stage_run (first);
    if (status)
        return status;
    first->kept = first->room;
    for (self->count = 1; self->count < self->views; self->count++) {
        self->passages [self->count] = *first;
        self->passages [self->count].view = (uint32_t) self->count;
    }
    for (size_t view = 0; view < self->count; view++)
        stage_choose (&self->passages [view], first->plan->views_at + 1, self->end);
    return STAGE_DONE;
}

//  Which pixels of the source the field needs, as far as that can be said without them.
static stage_status_t
s_look_ahead (field_t *self, picture_need_t *need)
{
    stage_status_t status = s_run_common (self);
    *need = self->passages [0].need;
    for (size_t index = 0; index < self->count && status == STAGE_DONE; index++) {
        passage_t *passage = &self->passages [index];
        status = stage_run (passage);
        *need = index? picture_need_both (need, &passage->need): passage->need;
        if (status == STAGE_WAITS)
            status = STAGE_DONE;
    }
    return status == STAGE_WAITS? STAGE_DONE: status;
}

//  Of a stage that ends at end: the shared one has none.  It is among the last of a list.
static const operation_t *
s_erasing (const plan_t *plan, size_t end)
{
    const operation_t *operations = plan->operations;
    for (size_t index = end; index > 0 && operations [index - 1].kind >= OPERATION_NORMALIZE; index--)
        if (operations [index - 1].kind == OPERATION_RANDOM_ERASING)
            return &operations [index - 1];
    return NULL;
}

static stage_status_t
s_write (field_t *self, size_t view)
{
    passage_t *passage = &self->passages [view];
    uint8_t *target = self->targets [view];
    plan_size_t size = { picture_height (&passage->picture), picture_width (&passage->picture) };
    bool has_header = self->size.height == 0;
    size_t header_bytes = has_header? PLAN_HEADER_BYTES: 0;
    assert (has_header || size.height == self->size.height);
    assert (has_header || size.width == self->size.width);
    assert (header_bytes + finish_bytes (self->format, size.height, size.width) <= self->target_bytes);
    if (has_header) {
        memset (target, 0, PLAN_HEADER_BYTES);
        memcpy (target, &size, sizeof size);
    }
    stage_status_t status = stage_draw (passage, self->format, target + header_bytes);
    const operation_t *erasing = passage->is_mask? NULL: s_erasing (passage->plan, self->end);
    if (erasing && !status)
        stage_erase (passage, erasing, self->format, target + header_bytes);
    return status;
}

//  Once there are pixels.  One view after the other: they use the same rooms.
static stage_status_t
s_field_finish (field_t *self)
{
    stage_status_t status = s_run_common (self);
    for (size_t view = 0; view < self->count && status == STAGE_DONE; view++) {
        status = stage_run (&self->passages [view]);
        if (status == STAGE_DONE)
            status = s_write (self, view);
    }
    assert (status != STAGE_WAITS);
    return status;
}

static const plan_plane_t *
s_plane (const plan_t *plan, size_t file, uint32_t view)
{
    const plan_plane_t *plane = plan->planes;
    while (plane->file != file || plane->view != view)
        plane++;
    assert (plane < plan->planes + plan->plane_count);
    return plane;
}

//  ---------------------------------------------------------------------------------------------------------
//  The shared stage

typedef struct {
    decoder_t *decoder;
    const pipeline_t *pipeline;
    const plan_t *plan;
    const pipeline_key_t *key;
    const decoder_sample_t *sample;
    uint8_t *version;
    size_t file;                    //  that is being worked on
    uint32_t height;                //  of the images, all of them
    uint32_t width;
    char *error;
    size_t error_bytes;
} shared_t;

static decoder_status_t
s_status (int rc)
{
    return rc == 0? DECODER_OK: rc == -ENOMEM? DECODER_NO_MEMORY: rc == -EDOM? DECODER_UNSUITABLE:
        DECODER_BAD;
}

static decoder_status_t
s_stage_status (stage_status_t status)
{
    return status == STAGE_DONE? DECODER_OK: status == STAGE_NO_MEMORY? DECODER_NO_MEMORY:
        status == STAGE_ABANDONED? DECODER_ABANDONED: DECODER_UNSUITABLE;
}

//  What people call the file: its field's name.
static const char *
s_file_name (const shared_t *self, size_t file)
{
    return pipeline_output (self->pipeline, s_plane (self->plan, file, 0)->output)->name;
}

static decoder_status_t
s_check_size (shared_t *self, uint32_t height, uint32_t width)
{
    uint64_t pixels_max = self->plan->operations [0].decode.pixels_max;
    if (pixels_max && (uint64_t) height * width > pixels_max) {
        snprintf (self->error, self->error_bytes, "the %s is %u x %u pixels: more than \"max_pixels\", %llu",
            s_file_name (self, self->file), width, height, (unsigned long long) pixels_max);
        return DECODER_UNSUITABLE;
    }
    if (self->file > 0 && (height != self->height || width != self->width)) {
        snprintf (self->error, self->error_bytes,
            "the %s is %u x %u pixels, the %s %u x %u: fields must have one size",
            s_file_name (self, self->file), width, height, s_file_name (self, 0), self->width, self->height);
        return DECODER_UNSUITABLE;
    }
    self->height = height;
    self->width = width;
    return DECODER_OK;
}

uint32_t
decoder_picture_kind (const pipeline_t *pipeline, size_t file)
{
    enum { MASK = 1, WIDE = 2, ORIENTATION = 4 };
    _Static_assert ((int) DECODER_PICTURE_SLACK == (int) SCRATCH_SLACK, "vectors may touch so much");
    const plan_t *plan = pipeline_plan (pipeline);
    const decode_request_t *decode = &plan->operations [0].decode;
    if (file >= decode->image_count || !decode->exact)
        return DECODER_NO_PICTURE;
    const plan_plane_t *plane = s_plane (plan, file, 0);
    return (plane->is_mask? MASK: 0) | (plane->channels == IMAGE_WIDE? WIDE: 0)
        | (decode->orientation? ORIENTATION: 0);
}

static decoder_status_t
s_open (shared_t *self)
{
    image_reader_t **reader = &self->decoder->readers [self->file];
    const decoder_file_t *file = &self->sample->files [self->file];
    const plan_plane_t *plane = s_plane (self->plan, self->file, 0);
    if (file->picture) {
        assert (file->picture->channels == plane->channels);
        self->decoder->has_clipped |= file->picture->is_clipped;
        return s_check_size (self, file->picture->height, file->picture->width);
    }
    image_reader_options_t options = {
        .is_mask = plane->is_mask, .is_wide = plane->is_mask && plane->channels == IMAGE_WIDE,
        .is_field = self->plan->operations [0].decode.fields [self->file] > 0,
        .orientation = self->plan->operations [0].decode.orientation,
        .warnings_max = self->sample->warnings_max,
        .rows = file->rows, .rows_bytes = file->rows_bytes
    };
    if (!*reader)
        *reader = image_reader_new ();
    if (!*reader) {
        snprintf (self->error, self->error_bytes, "not enough memory for a decoder");
        return DECODER_NO_MEMORY;
    }
    uint32_t height, width;
    decoder_status_t status = s_status (image_reader_open (*reader, &options, file->bytes, file->size,
        &height, &width, self->error, self->error_bytes));
    if (!status && !options.is_mask && !options.is_field && image_reader_clips (file->bytes, file->size))
        self->decoder->has_clipped = true;
    return status? status: s_check_size (self, height, width);
}

//  Of a whole picture.
static image_pixels_t
s_part_of (const decoder_picture_t *picture, const image_request_t *request)
{
    assert (request->least_height == 0);
    image_t image = { picture->pixels, image_bytes (1, picture->width, picture->channels), picture->height,
        picture->width, picture->channels };
    return (image_pixels_t) { .image = image_part (&image, &request->box), .height = request->box.height,
        .width = request->box.width };
}

//  All of it, if the sample's owner has room for that.
static decoder_status_t
s_decode_file (shared_t *self, const image_request_t *request, image_pixels_t *pixels)
{
    const decoder_sample_t *sample = self->sample;
    const plan_plane_t *plane = s_plane (self->plan, self->file, 0);
    bool is_own = self->plan->operations [0].decode.fields [self->file] == 0 && !plane->is_mask;
    decoder_picture_t picture = { .height = self->height, .width = self->width,
        .channels = plane->channels, .is_clipped = is_own && self->decoder->has_clipped };
    bool is_asked = sample->room && decoder_picture_kind (self->pipeline, self->file) != DECODER_NO_PICTURE;
    uint8_t *room = is_asked? sample->room (sample->context, self->file, &picture): NULL;
    image_request_t all = { .box = { .height = picture.height, .width = picture.width } };
    decoder_status_t status = s_status (image_reader_read (self->decoder->readers [self->file],
        room? &all: request, pixels, self->error, self->error_bytes));
    if (status || !room)
        return status;
    size_t row_bytes = image_bytes (1, picture.width, picture.channels);
    for (uint32_t row = 0; row < picture.height; row++)
        memcpy (room + row * row_bytes, image_at (&pixels->image, row, 0), row_bytes);
    picture.pixels = room;
    *pixels = s_part_of (&picture, request);
    return status;
}

//  Finds the pixels that the field's views need.
static decoder_status_t
s_read (shared_t *self, field_t *field)
{
    picture_need_t need;
    decoder_status_t status = s_stage_status (s_look_ahead (field, &need));
    if (status)
        return status;
    image_request_t request = picture_request (&need);
    const decoder_picture_t *picture = self->sample->files [self->file].picture;
    image_pixels_t pixels;
    if (picture)
        pixels = s_part_of (picture, &request);
    else
        status = s_decode_file (self, &request, &pixels);
    size_t bytes = status? 0: image_bytes (pixels.image.height, pixels.image.width, pixels.image.channels);
    if (bytes > self->decoder->read_bytes)
        self->decoder->read_bytes = bytes;
    for (size_t index = 0; index < field->count && !status; index++)
        picture_supply (&field->passages [index].picture, &request, &pixels);
    return status;
}

static decoder_status_t
s_make_planes (shared_t *self)
{
    const plan_t *plan = self->plan;
    stage_t *stage = &self->decoder->stage;
    const plan_plane_t *plane = s_plane (plan, self->file, 0);
    passage_t passage = {
        .stage = stage, .plan = plan, .key = self->key, .is_mask = plane->is_mask,
        .error = self->error, .error_bytes = self->error_bytes
    };
    picture_init (&passage.picture, self->height, self->width, plane->channels);
    field_t field;
    s_field_begin (&field, &passage, 1, plan->shared_count);
    field.format = stage_plain (stage, plane->channels);
    field.size = plan->shared_size;
    field.target_bytes = plane->bytes;
    for (uint32_t view = 0; view < field.views; view++)
        field.targets [view] = self->version + s_plane (plan, self->file, view)->offset;
    decoder_status_t status = s_read (self, &field);
    return status? status: s_stage_status (s_field_finish (&field));
}

static decoder_status_t
s_shared_images (shared_t *self)
{
    decoder_status_t status = DECODER_OK;
    size_t files = self->plan->operations [0].decode.image_count;
    for (self->file = 0; self->file < files; self->file++) {
        status = s_open (self);
        if (status)
            return status;
    }
    for (self->file = 0; self->file < files; self->file++) {
        status = s_make_planes (self);
        if (status)
            return status;
    }
    return DECODER_OK;
}

static decoder_status_t
s_shared_audio (shared_t *self)
{
    const plan_t *plan = self->plan;
    const decode_tensor_t *decode = &plan->operations [0].decode.tensors [0];
    const decoder_file_t *file = &self->sample->files [0];
    const operation_t *excerpt = &plan->operations [1];
    assert (plan->shared_count > 1 && excerpt->kind == OPERATION_EXCERPT);
    keyed_random_t random;
    keyed_random_init (&random, self->key, 0, excerpt->place);
    double place = excerpt->excerpt.random? keyed_random_uniform (&random): -1;
    return s_status (tensor_reader_audio (decode, excerpt->excerpt.length, place, file->bytes, file->size,
        self->version, self->error, self->error_bytes));
}

//  The file's plane: of a ragged one the number of its rows, then the rows.
static decoder_status_t
s_shared_tensor (shared_t *self)
{
    const plan_plane_t *plane = s_plane (self->plan, self->file, 0);
    const decode_tensor_t *tensor = plane->tensor;
    const decoder_file_t *file = &self->sample->files [self->file];
    uint8_t *target = self->version + plane->offset;
    uint32_t rows;
    if (tensor->as == DECODE_AUDIO)
        return s_shared_audio (self);
    uint8_t *items = target + (tensor->is_ragged? PLAN_COUNT_BYTES: 0);
    int rc = (tensor->as == DECODE_BYTES? tensor_reader_bytes: tensor_reader_array) (tensor, file->bytes,
        file->size, items, &rows, self->error, self->error_bytes);
    if (!rc && tensor->is_ragged) {
        int64_t count = rows;
        _Static_assert (sizeof count == PLAN_COUNT_BYTES, "a count is an item of its output");
        memcpy (target, &count, sizeof count);
    }
    return s_status (rc);
}

//  Each view's boxes, from the file's, which stand in the first one's plane.
static void
s_move_boxes (shared_t *self)
{
    const plan_t *plan = self->plan;
    const plan_plane_t *first = s_plane (plan, self->file, 0);
    const uint8_t *from = self->version + first->offset;
    int64_t rows;
    memcpy (&rows, from, sizeof rows);
    for (size_t index = plan->plane_count; index-- > 0;) {
        const plan_plane_t *plane = &plan->planes [index];
        uint8_t *target = self->version + plane->offset;
        if (plane->file != self->file)
            continue;
        memcpy (target, &rows, sizeof rows);
        boxes_t boxes = boxes_take (plane->tensor, from + PLAN_COUNT_BYTES, (uint32_t) rows, self->height,
            self->width, target + PLAN_COUNT_BYTES);
        s_boxes_follow (&boxes, plan, 1, plan->shared_count, self->key, plane->view);
    }
}

static decoder_status_t
s_shared_tensors (shared_t *self)
{
    const decode_request_t *decode = &self->plan->operations [0].decode;
    decoder_status_t status = DECODER_OK;
    for (self->file = decode->image_count; self->file < decode->field_count; self->file++) {
        status = s_shared_tensor (self);
        if (status)
            break;
        if (decode->tensors [self->file].as == DECODE_BOXES)
            s_move_boxes (self);
    }
    return status;
}

void
decoder_watch (decoder_t *self, const atomic_bool *abandoned)
{
    assert (self->magic == DECODER_MAGIC);
    self->stage.abandoned = abandoned;
}

decoder_status_t
decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error, size_t error_bytes)
{
    assert (self->magic == DECODER_MAGIC);
    assert (key && sample && version && error && error_bytes > 0);
    *error = 0;
    shared_t shared = {
        .decoder = self, .pipeline = pipeline, .plan = pipeline_plan (pipeline), .key = key, .sample = sample,
        .version = version, .error = error, .error_bytes = error_bytes
    };
    self->has_clipped = false;
    decoder_status_t status = s_shared_images (&shared);
    if (!status)
        status = s_shared_tensors (&shared);
    self->has_read = shared.plan->operations [0].decode.image_count && status == DECODER_OK
        && !sample->files [0].picture;
    if (status && file_p)
        *file_p = shared.file;
    return status;
}

bool
decoder_clipped (const decoder_t *self)
{
    assert (self->magic == DECODER_MAGIC);
    return self->has_clipped;
}

size_t
decoder_learned (decoder_t *self, const uint8_t **rows_p)
{
    assert (self->magic == DECODER_MAGIC);
    return self->has_read? image_reader_learned (self->readers [0], rows_p): 0;
}

uint64_t
decoder_custom_ns (decoder_t *self)
{
    assert (self->magic == DECODER_MAGIC);
    uint64_t took_ns = self->stage.custom_ns;
    self->stage.custom_ns = 0;
    return took_ns;
}

decoder_status_t
decoder_size (decoder_t *self, const pipeline_t *pipeline, const decoder_sample_t *sample, uint32_t *height_p,
    uint32_t *width_p, char *error, size_t error_bytes)
{
    assert (self->magic == DECODER_MAGIC);
    assert (sample && height_p && width_p && error && error_bytes > 0);
    *error = 0;
    *height_p = *width_p = 0;
    shared_t shared = {
        .decoder = self, .pipeline = pipeline, .plan = pipeline_plan (pipeline), .sample = sample,
        .error = error,
        .error_bytes = error_bytes
    };
    if (!shared.plan->operations [0].decode.image_count)
        return DECODER_OK;
    decoder_status_t status = s_open (&shared);
    *height_p = shared.height;
    *width_p = shared.width;
    return status;
}

//  ---------------------------------------------------------------------------------------------------------
//  The private stage

//  A plane of the version, as an image.
static image_t
s_version_image (const plan_t *plan, const plan_plane_t *plane, const uint8_t *version)
{
    plan_size_t size = plan->shared_size;
    const uint8_t *pixels = version + plane->offset;
    if (size.height == 0) {
        memcpy (&size, pixels, sizeof size);
        pixels += PLAN_HEADER_BYTES;
    }
    return (image_t) { pixels, image_bytes (1, size.width, plane->channels), size.height, size.width,
        plane->channels };
}

//  images: how many fields of a view are some.
static bool
s_private_image (decoder_t *self, const plan_t *plan, const pipeline_key_t *key, const plan_plane_t *plane,
    const uint8_t *version, size_t images, uint8_t *const *targets)
{
    const finish_format_t *plain = stage_plain (&self->stage, plane->channels);
    const finish_format_t *format = plane->is_mask? plain: &plan->format;
    passage_t passage = {
        .stage = &self->stage, .plan = plan, .key = key, .is_mask = plane->is_mask, .view = plane->view
    };
    image_t image = s_version_image (plan, plane, version);
    picture_of (&passage.picture, &image);
    field_t field;
    s_field_begin (&field, &passage, plan->shared_count, plan->count);
    field.format = format;
    field.size = plan->output_size;
    field.target_bytes = finish_bytes (format, field.size.height, field.size.width);
    for (size_t view = 0; view < field.views; view++)
        field.targets [view] = plan->stacks?
            targets [plane->output] + (plane->view + view) * field.target_bytes:
            targets [plane->output + view * images];
    stage_status_t status = s_field_finish (&field);
    assert (status != STAGE_UNSUITABLE);    //  the plan allows no operation there that an image can be unfit
                                            //  for
    return status == STAGE_DONE;
}

//  Of one plane: its view's, or those of all views, if these part only now.
static void
s_private_boxes (const plan_t *plan, const pipeline_key_t *key, const plan_plane_t *plane,
    const uint8_t *version, uint8_t *const *targets)
{
    bool parts = plan->views_at >= plan->shared_count && plan->views_at < plan->count;
    image_t image = s_version_image (plan, s_plane (plan, 0, plane->view), version);
    const uint8_t *from = version + plane->offset;
    int64_t rows;
    memcpy (&rows, from, sizeof rows);
    for (uint32_t view = 0; view < (parts? plan->views: 1); view++) {
        size_t output = plane->output + 2 * view;
        boxes_t boxes = boxes_take (plane->tensor, from + PLAN_COUNT_BYTES, (uint32_t) rows, image.height,
            image.width, targets [output]);
        s_boxes_follow (&boxes, plan, plan->shared_count, plan->count, key, plane->view + view);
        boxes_end (&boxes, plane->tensor->size_min);
        int64_t kept = boxes.count;
        memcpy (targets [output + 1], &kept, sizeof kept);
    }
}

//  As it is in the version.
static void
s_private_tensor (const pipeline_t *pipeline, const plan_plane_t *plane, const uint8_t *version,
    uint8_t *const *targets)
{
    const uint8_t *from = version + plane->offset;
    if (plane->tensor->is_ragged) {
        memcpy (targets [plane->output + 1], from, PLAN_COUNT_BYTES);
        from += PLAN_COUNT_BYTES;
    }
    memcpy (targets [plane->output], from, pipeline_output (pipeline, plane->output)->bytes);
}

bool
decoder_is_version (const pipeline_t *pipeline, const uint8_t *version)
{
    const plan_t *plan = pipeline_plan (pipeline);
    for (size_t index = 0; index < plan->plane_count; index++) {
        const plan_plane_t *plane = &plan->planes [index];
        if (plane->tensor && plane->tensor->is_ragged) {
            int64_t rows;
            memcpy (&rows, version + plane->offset, sizeof rows);
            if (rows < 0 || rows > (int64_t) plane->tensor->shape [0])
                return false;
        }
        if (!plane->tensor && plan->shared_size.height == 0) {
            plan_size_t size;
            memcpy (&size, version + plane->offset, sizeof size);
            uint64_t room = (plane->bytes - PLAN_HEADER_BYTES) / plane->channels;
            if (size.height == 0 || size.width == 0 || (uint64_t) size.height * size.width > room)
                return false;
        }
    }
    return true;
}

bool
decoder_private (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *version, uint8_t *const *targets)
{
    assert (self->magic == DECODER_MAGIC);
    assert (key && version && targets);
    const plan_t *plan = pipeline_plan (pipeline);
    size_t images = plan->operations [0].decode.image_count;
    bool good = true;
    for (size_t index = 0; index < plan->plane_count && good; index++) {
        const plan_plane_t *plane = &plan->planes [index];
        if (plane->tensor && plane->tensor->as == DECODE_BOXES)
            s_private_boxes (plan, key, plane, version, targets);
        else if (plane->tensor)
            s_private_tensor (pipeline, plane, version, targets);
        else
            good = s_private_image (self, plan, key, plane, version, images, targets);
    }
    return good;
}

//  ---------------------------------------------------------------------------------------------------------
//  What this build reads

#ifdef TUREEN_SNDFILE
#define AUDIO_FORMATS ", audio (" TENSOR_READER_AUDIO_FORMATS ")"
#else
#define AUDIO_FORMATS ""
#endif

bool
decoder_has_entropy (void)
{
    jpeg_reader_t *reader = jpeg_reader.new ();
    bool has_it = reader && jpeg_reader_is_fast (reader);
    jpeg_reader.destroy (reader);
    return has_it;
}

const char *
decoder_formats (void)
{
    return IMAGE_READER_FORMATS ", raw bytes, NumPy .npy" AUDIO_FORMATS;
}

#include "stage.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "augment.h"
#include "blur.h"
#include "decoder.h"
#include "geometry.h"
#include "instrument.h"
#include "remap.h"
#include "warp.h"

bool
stage_init (stage_t *self)
{
    *self = (stage_t) { .resize = resize_new (), .between_max = DECODER_PIXELS_MAX };
    for (uint32_t channels = 1; channels <= IMAGE_COLOURS; channels++) {
        finish_format_t *plain = &self->plain [channels - 1];
        *plain = (finish_format_t) { .dtype = DTYPE_UINT8, .channels = channels };
        finish_format (plain);
    }
    return self->resize;
}

void
stage_free (stage_t *self)
{
    if (self->resize)
        resize_destroy (&self->resize);
    for (int room = 0; room < STAGE_ROOMS; room++)
        scratch_free (&self->rooms [room]);
    scratch_free (&self->sums);
    scratch_free (&self->row);
}

size_t
stage_kept_bytes (const stage_t *self)
{
    size_t bytes = self->sums.bytes + self->row.bytes + resize_kept_bytes (self->resize);
    for (int room = 0; room < STAGE_ROOMS; room++)
        bytes += self->rooms [room].bytes;
    return bytes;
}

const finish_format_t *
stage_plain (const stage_t *self, uint32_t channels)
{
    assert (channels > 0 && channels <= IMAGE_COLOURS);
    return &self->plain [channels - 1];
}

//  ---------------------------------------------------------------------------------------------------------
//  Reasons to stop

static stage_status_t
s_wait (passage_t *self)
{
    self->need = picture_need (&self->picture, self->plan->operations [0].decode.exact);
    return STAGE_WAITS;
}

static stage_status_t
s_no_memory (const passage_t *self)
{
    snprintf (self->error, self->error_bytes,
        "not enough memory for the pipeline on an image of %u x %u pixels",
        picture_width (&self->picture), picture_height (&self->picture));
    return STAGE_NO_MEMORY;
}

static stage_status_t
s_check_size (const passage_t *self, uint64_t height, uint64_t width)
{
    if (height <= DECODER_PIXELS_MAX && width <= DECODER_PIXELS_MAX && height * width <= DECODER_PIXELS_MAX)
        return STAGE_DONE;
    const picture_t *picture = &self->picture;
    snprintf (self->error, self->error_bytes,
        "an image of %u x %u pixels would become one of %llu x %llu: above the limit of %d pixels",
        picture->box.width, picture->box.height, (unsigned long long) width, (unsigned long long) height,
        DECODER_PIXELS_MAX);
    return STAGE_UNSUITABLE;
}

//  Asked before all that costs much: before a room is opened, and before a view is drawn.
static bool
s_is_abandoned (const passage_t *self)
{
    const atomic_bool *abandoned = self->stage->abandoned;
    return abandoned && atomic_load_explicit (abandoned, memory_order_relaxed);
}

//  ---------------------------------------------------------------------------------------------------------
//  From a picture to pixels

//  Opens a room that holds nothing which is needed still.
static stage_status_t
s_open_room (const passage_t *self, uint32_t height, uint32_t width, int *room_p)
{
    stage_status_t status = s_check_size (self, height, width);
    if (!status && s_is_abandoned (self))
        status = STAGE_ABANDONED;
    if (status)
        return status;
    int room = 0;
    while (room == self->kept || room == self->mixed || room == self->room)
        room++;
    assert (room < STAGE_ROOMS);
    *room_p = room;
    if (!scratch_need (&self->stage->rooms [room], image_bytes (height, width, self->picture.channels)))
        return s_no_memory (self);
    return STAGE_DONE;
}

//  From now on the picture is the image in room.
static void
s_enter (passage_t *self, int room, uint32_t height, uint32_t width)
{
    uint32_t channels = self->picture.channels;
    image_t image = { self->stage->rooms [room].data, image_bytes (1, width, channels), height, width,
        channels };
    picture_of (&self->picture, &image);
    self->room = room;
}

//  Resizes a window, in pieces where what is between the resize's passes would be above the limit: it never
//  fails for the shape of an image, which the private stage could not say.
static bool
s_resize_piece (passage_t *self, const picture_resample_t *resample, uint8_t *target, size_t stride)
{
    resize_filter_t filter = self->picture.filter;
    bool down_first = self->picture.down_first;
    uint32_t first, rows, columns;
    resize_needs (filter, &resample->down, &first, &rows);
    resize_needs (filter, &resample->across, &first, &columns);
    uint64_t between = down_first? (uint64_t) resample->down.count * columns:
        (uint64_t) rows * resample->across.count;
    bool is_pixel = resample->down.count == 1 && resample->across.count == 1;
    if (between <= self->stage->between_max || is_pixel)
        return resize_run (self->stage->resize, filter, down_first, &resample->have, resample->top,
            resample->left, &resample->down, &resample->across, target, stride);
    picture_resample_t piece = *resample;
    bool by_rows = piece.down.count > 1;
    resize_span_t *span = by_rows? &piece.down: &piece.across;
    uint32_t whole = span->count, half = whole / 2;
    span->count = half;
    if (!s_resize_piece (self, &piece, target, stride))
        return false;
    span->begin += half;
    span->count = whole - half;
    return s_resize_piece (self, &piece, target + half * (by_rows? stride: self->picture.channels), stride);
}

//  Writes the resized image, before flips and colours.
static stage_status_t
s_write_resized (passage_t *self, uint8_t *target)
{
    picture_resample_t resample = picture_resample (&self->picture);
    size_t stride = image_bytes (1, self->picture.window.width, self->picture.channels);
    return s_resize_piece (self, &resample, target, stride)? STAGE_DONE: s_no_memory (self);
}

//  Resizes into a room; flips and colours stay to be done.
static stage_status_t
s_resize_pixels (passage_t *self)
{
    picture_t *picture = &self->picture;
    uint32_t height = picture->window.height, width = picture->window.width;
    int room;
    stage_status_t status = s_open_room (self, height, width, &room);
    if (!status)
        status = s_write_resized (self, self->stage->rooms [room].data);
    if (status)
        return status;
    finish_flips_t flips = picture->flips;
    colour_program_t colours = picture->colours;
    s_enter (self, room, height, width);
    picture->flips = flips;
    picture->colours = colours;
    return STAGE_DONE;
}

//  Flips and colours a picture that is not resized, into target.
static stage_status_t
s_write_finished (passage_t *self, const finish_format_t *format, uint8_t *target, size_t stride)
{
    picture_t *picture = &self->picture;
    scratch_t *row = &self->stage->row;
    image_t image = picture_pixels (picture);
    colour_program_t *colours = picture->colours.count? &picture->colours: NULL;
    if (colours) {
        if (!scratch_need (row, image_bytes (1, image.width, image.channels)))
            return s_no_memory (self);
        colour_measure (colours, &image, row->data);
    }
    finish_run (format, &image, picture->flips, colours, row->data, target, stride);
    return STAGE_DONE;
}

//  Computes all that is pending, so that the picture is pixels and nothing more.
static stage_status_t
s_settle (passage_t *self)
{
    picture_t *picture = &self->picture;
    if (picture_is_plain (picture))
        return STAGE_DONE;
    if (!picture_has_pixels (picture))
        return s_wait (self);
    stage_status_t status = picture->resizes? s_resize_pixels (self): STAGE_DONE;
    if (status || picture_is_plain (picture))
        return status;
    uint32_t height = picture_height (picture), width = picture_width (picture);
    int room;
    status = s_open_room (self, height, width, &room);
    if (!status)
        status = s_write_finished (self, stage_plain (self->stage, picture->channels),
            self->stage->rooms [room].data, image_bytes (1, width, picture->channels));
    if (!status)
        s_enter (self, room, height, width);
    return status;
}

//  How an operation that cannot be described comes to pixels: it calls this, opens a room (s_open_room),
//  writes its result there and enters it (s_enter).  Reasons to stop go to the passage's error.  s_settle is
//  not enough: a picture with nothing pending may have no pixels yet.
static stage_status_t
s_need_pixels (passage_t *self)
{
    stage_status_t status = s_settle (self);
    return status || picture_has_pixels (&self->picture)? status: s_wait (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  The end of a stage

//  Whether pixels become what they are, but for flips and colours.
static bool
s_format_is_plain (const finish_format_t *format, uint32_t channels)
{
    return format->dtype == DTYPE_UINT8 && format->channels == channels
        && (!format->planar || channels == 1);
}

stage_status_t
stage_draw (passage_t *self, const finish_format_t *format, uint8_t *target)
{
    picture_t *picture = &self->picture;
    assert (picture_has_pixels (picture));
    if (s_is_abandoned (self))
        return STAGE_ABANDONED;
    bool is_last = !picture->flips.across && !picture->flips.down && picture->colours.count == 0
        && s_format_is_plain (format, picture->channels);
    if (picture->resizes && is_last)
        return s_write_resized (self, target);
    stage_status_t status = picture->resizes? s_resize_pixels (self): STAGE_DONE;
    if (status)
        return status;
    size_t pixel_bytes = dtype_bytes (format->dtype) * (format->planar? 1: format->channels);
    return s_write_finished (self, format, target, picture_width (picture) * pixel_bytes);
}

void
stage_erase (const passage_t *self, const operation_t *erasing, const finish_format_t *format,
    uint8_t *target)
{
    uint32_t height = picture_height (&self->picture), width = picture_width (&self->picture);
    keyed_random_t random = stage_random (erasing, self->key, self->view);
    image_box_t box;
    if (geometry_erasing (erasing, height, width, &random, &box))
        finish_fill (format, height, width, &box, erasing->erase.value, target);
}

//  ---------------------------------------------------------------------------------------------------------
//  Crops and borders

static stage_status_t
s_narrow (passage_t *self, const image_box_t *box)
{
    picture_t *picture = &self->picture;
    if (box->height == picture_height (picture) && box->width == picture_width (picture))
        return STAGE_DONE;
    if (!picture_may_narrow (picture)) {
        stage_status_t status = s_settle (self);
        if (status)
            return status;
    }
    picture_narrow (picture, box);
    return STAGE_DONE;
}

//  What a border is made of.
typedef struct {
    pad_mode_t mode;
    uint8_t fill [IMAGE_COLOURS];   //  of a mask, the first
} border_t;

//  A pixel of it: of a mask of 16 bits the upper byte is 0.
static void
s_fill (const passage_t *self, const uint8_t colours [IMAGE_COLOURS], uint8_t value,
    uint8_t fill [IMAGE_COLOURS])
{
    memcpy (fill, colours, IMAGE_COLOURS);
    if (self->is_mask) {
        fill [0] = value;
        fill [1] = 0;
    }
}

static border_t
s_border (const passage_t *self, const operation_t *operation)
{
    border_t border = { .mode = PAD_CONSTANT };
    if (operation->kind == OPERATION_CENTER_CROP)
        return border;
    border.mode = operation->pad.mode;
    s_fill (self, operation->pad.fill, operation->pad.mask_fill, border.fill);
    return border;
}

//  A row of the fill, in the stage's row.
static bool
s_fill_row (const passage_t *self, const border_t *border, uint32_t width)
{
    uint32_t channels = self->picture.channels;
    if (!scratch_need (&self->stage->row, image_bytes (1, width, channels)))
        return false;
    uint8_t *pixel = self->stage->row.data;
    for (uint32_t column = 0; column < width; column++, pixel += channels)
        memcpy (pixel, border->fill, channels);
    return true;
}

static bool
s_is_empty (const image_box_t *box)
{
    return box->height == 0 || box->width == 0;
}

//  Fills target but for where the window's source goes.
static void
s_write_fill (const passage_t *self, const geometry_window_t *window, uint8_t *target)
{
    const uint8_t *row = self->stage->row.data;
    uint32_t channels = self->picture.channels;
    size_t row_bytes = image_bytes (1, window->width, channels);
    for (uint32_t index = 0; index < window->height; index++, target += row_bytes) {
        bool beside = index >= window->to_top && index - window->to_top < window->from.height;
        if (!beside || s_is_empty (&window->from)) {
            memcpy (target, row, row_bytes);
            continue;
        }
        size_t before = image_bytes (1, window->to_left, channels);
        size_t until = before + image_bytes (1, window->from.width, channels);
        memcpy (target, row, before);
        memcpy (target + until, row + until, row_bytes - until);
    }
}

static stage_status_t
s_pad_with_fill (passage_t *self, const geometry_window_t *window, const border_t *border)
{
    picture_t *picture = &self->picture;
    bool empty = s_is_empty (&window->from);
    //  A crop that lies in the border needs nothing of the image, but whether that is fit is no matter of
    //  chance.
    stage_status_t status = !empty? s_narrow (self, &window->from)
        : picture_may_narrow (picture)? STAGE_DONE: s_settle (self);
    if (!status && !picture_has_pixels (picture))
        status = s_wait (self);
    if (!status && !empty && picture->resizes)
        status = s_resize_pixels (self);
    int room;
    if (!status)
        status = s_open_room (self, window->height, window->width, &room);
    if (status)
        return status;
    if (!s_fill_row (self, border, window->width))
        return s_no_memory (self);
    uint8_t *target = self->stage->rooms [room].data;
    size_t stride = image_bytes (1, window->width, picture->channels);
    s_write_fill (self, window, target);
    if (!empty)
        status = s_write_finished (self, stage_plain (self->stage, picture->channels),
            target + window->to_top * stride + image_bytes (1, window->to_left, picture->channels), stride);
    if (!status)
        s_enter (self, room, window->height, window->width);
    return status;
}

//  Which row or column of the source is shown at `at`, counted from the source's first.
static uint32_t
s_shown_at (pad_mode_t mode, int64_t at, uint32_t side)
{
    int64_t source = geometry_border (mode, at, side);
    assert (source >= 0 && source < side);
    return (uint32_t) source;
}

INSTRUMENT_ROWS static void
s_copy_columns (const uint8_t *row, const uint32_t *columns, uint32_t width, uint32_t channels,
    uint8_t *target)
{
    for (uint32_t index = 0; index < width; index++)
        for (uint32_t channel = 0; channel < channels; channel++)
            *target++ = row [(size_t) columns [index] * channels + channel];
}

//  The span from the first to the last row or column of the source that a window shows.  The window's first
//  one is at `first`.
static void
s_shown_span (pad_mode_t mode, int64_t first, uint32_t count, uint32_t side, uint32_t *begin_p,
    uint32_t *length_p)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t index = 0; index < count; index++) {
        uint32_t shown = s_shown_at (mode, first + index, side);
        least = shown < least? shown: least;
        most = shown > most? shown: most;
    }
    *begin_p = least;
    *length_p = most + 1 - least;
}

//  Edge, reflect and symmetric: pixels of the source, some of them perhaps beside what the crop takes.  Only
//  what the window shows is computed, because the window's size is known to be allowed.  Otherwise the same
//  sample could be readable or not, depending on where the crop falls.
static stage_status_t
s_pad_with_pixels (passage_t *self, const geometry_window_t *window, const border_t *border)
{
    uint32_t height = picture_height (&self->picture), width = picture_width (&self->picture);
    int64_t top = (int64_t) window->from.top - window->to_top,
        left = (int64_t) window->from.left - window->to_left;
    image_box_t shown;
    s_shown_span (border->mode, top, window->height, height, &shown.top, &shown.height);
    s_shown_span (border->mode, left, window->width, width, &shown.left, &shown.width);
    stage_status_t status = s_narrow (self, &shown);
    if (!status && !picture_has_pixels (&self->picture))
        status = s_wait (self);
    int room = STAGE_NO_ROOM;
    if (!status)
        status = s_settle (self);
    if (!status)
        status = s_open_room (self, window->height, window->width, &room);
    if (status)
        return status;
    scratch_t *row = &self->stage->row;
    if (!scratch_need (row, window->width * sizeof (uint32_t)))
        return s_no_memory (self);
    image_t image = picture_pixels (&self->picture);
    uint32_t *columns = row->data;
    for (uint32_t index = 0; index < window->width; index++)
        columns [index] = s_shown_at (border->mode, left + index, width) - shown.left;
    uint8_t *target = self->stage->rooms [room].data;
    size_t row_bytes = image_bytes (1, window->width, image.channels);
    for (uint32_t index = 0; index < window->height; index++, target += row_bytes) {
        uint32_t source = s_shown_at (border->mode, top + index, height) - shown.top;
        s_copy_columns (image_at (&image, source, 0), columns, window->width, image.channels, target);
        instrument_written (target, row_bytes);
    }
    s_enter (self, room, window->height, window->width);
    return STAGE_DONE;
}

static stage_status_t
s_take (passage_t *self, const operation_t *operation, const geometry_window_t *window)
{
    if (window->from.height == window->height && window->from.width == window->width)
        return s_narrow (self, &window->from);
    border_t border = s_border (self, operation);
    stage_status_t status = s_check_size (self, window->height, window->width);
    if (status)
        return status;
    return border.mode == PAD_CONSTANT? s_pad_with_fill (self, window, &border)
        : s_pad_with_pixels (self, window, &border);
}

//  ---------------------------------------------------------------------------------------------------------
//  The operations

keyed_random_t
stage_random (const operation_t *operation, const pipeline_key_t *key, uint32_t view)
{
    keyed_random_t random;
    keyed_random_init (&random, key, view, operation->place);
    return random;
}

static keyed_random_t
s_random (const passage_t *self, const operation_t *operation)
{
    return stage_random (operation, self->key, self->view);
}

//  Of the whole picture.
static stage_status_t
s_resize_to (passage_t *self, resize_filter_t filter, bool pillow13, uint32_t height, uint32_t width)
{
    picture_t *picture = &self->picture;
    if (height == picture_height (picture) && width == picture_width (picture))
        return STAGE_DONE;
    stage_status_t status = s_settle (self);
    if (!status)
        picture_resize (picture, self->is_mask? RESIZE_NEAREST: filter, pillow13, height, width);
    return status;
}

static stage_status_t
s_resize (passage_t *self, const operation_t *operation)
{
    uint32_t height, width;
    geometry_resize (operation, picture_height (&self->picture), picture_width (&self->picture), &height,
        &width);
    //  A line of pixels that became longer than 32 bits can say.
    if (height == UINT32_MAX || width == UINT32_MAX)
        return s_check_size (self, height, width);
    return s_resize_to (self, operation->resize.filter, operation->resize.pillow13, height, width);
}

//  Of a crop at the middle, or a pad.
static stage_status_t
s_window (passage_t *self, const operation_t *operation)
{
    uint32_t height = picture_height (&self->picture), width = picture_width (&self->picture);
    geometry_window_t window = operation->kind == OPERATION_PAD? geometry_pad (operation, height, width)
        : geometry_center_crop (operation->height, operation->width, height, width);
    return s_take (self, operation, &window);
}

static stage_status_t
s_random_crop (passage_t *self, const operation_t *operation)
{
    uint32_t height = picture_height (&self->picture), width = picture_width (&self->picture);
    keyed_random_t random = s_random (self, operation);
    geometry_window_t window;
    if (geometry_random_crop (operation, height, width, &random, &window))
        return s_take (self, operation, &window);
    snprintf (self->error, self->error_bytes,
        "an image of %u x %u pixels, with its padding, is smaller than the "
        "random_crop of %u x %u; \"pad_if_needed\": true pads such images", width, height, operation->width,
        operation->height);
    return STAGE_UNSUITABLE;
}

static stage_status_t
s_corner_crop (passage_t *self, const operation_t *operation)
{
    uint32_t height = picture_height (&self->picture), width = picture_width (&self->picture);
    image_box_t box;
    bool is_mirrored;
    if (!geometry_corner_crop (operation, self->view, height, width, &box, &is_mirrored)) {
        snprintf (self->error, self->error_bytes,
            "an image of %u x %u pixels is smaller than the corner_crop of %u x %u", width, height,
            operation->width, operation->height);
        return STAGE_UNSUITABLE;
    }
    stage_status_t status = s_narrow (self, &box);
    if (!status && is_mirrored)
        picture_flip (&self->picture, !operation->corner.mirrors_down, operation->corner.mirrors_down);
    return status;
}

static stage_status_t
s_random_resized_crop (passage_t *self, const operation_t *operation)
{
    keyed_random_t random = s_random (self, operation);
    image_box_t box = geometry_random_box (operation, picture_height (&self->picture),
        picture_width (&self->picture), &random);
    resize_filter_t filter = geometry_random_filter (operation, &random);
    stage_status_t status = s_narrow (self, &box);
    return status? status: s_resize_to (self, filter, operation->random_resized_crop.pillow13,
        operation->height, operation->width);
}

static stage_status_t
s_flip (passage_t *self, const operation_t *operation)
{
    keyed_random_t random = s_random (self, operation);
    bool across = operation->kind == OPERATION_FLIP;
    if (geometry_happens (operation, &random))
        picture_flip (&self->picture, across, !across);
    return STAGE_DONE;
}

//  Makes room for so many steps more among the colours.
static stage_status_t
s_make_room (passage_t *self, size_t steps)
{
    return colour_has_room (&self->picture.colours, steps)? STAGE_DONE: s_settle (self);
}

static stage_status_t
s_colour (passage_t *self, const operation_t *operation)
{
    if (self->is_mask)
        return STAGE_DONE;
    stage_status_t status = s_make_room (self, JITTER_KINDS);
    if (status)
        return status;
    keyed_random_t random = s_random (self, operation);
    bool fits = geometry_colour (operation, &random, &self->picture.colours);
    assert (fits);
    return STAGE_DONE;
}

//  The picture's pixels, and a room for what is made of them.
static stage_status_t
s_open_beside (passage_t *self, uint32_t height, uint32_t width, image_t *image_p, int *room_p)
{
    stage_status_t status = s_need_pixels (self);
    if (!status)
        status = s_open_room (self, height, width, room_p);
    if (!status)
        *image_p = picture_pixels (&self->picture);
    return status;
}

static stage_status_t
s_sharpen (passage_t *self, double factor)
{
    picture_t *picture = &self->picture;
    if (self->is_mask || factor == 1)
        return STAGE_DONE;
    uint32_t height = picture_height (picture), width = picture_width (picture);
    int room;
    image_t image;
    stage_status_t status = s_open_beside (self, height, width, &image, &room);
    if (status)
        return status;
    colour_sharpen (&image, factor, self->stage->rooms [room].data,
        image_bytes (1, width, picture->channels));
    s_enter (self, room, height, width);
    return STAGE_DONE;
}

//  Maps the whole picture into a room.
static stage_status_t
s_map (passage_t *self, const operation_t *operation, const warp_t *warp)
{
    remap_affine_t affine = { .is_bilinear = operation->edge.is_bilinear && !warp->is_exact && !self->is_mask,
        .height = warp->height, .width = warp->width };
    memcpy (affine.matrix, warp->matrix, sizeof affine.matrix);
    affine.is_perspective = warp->is_perspective;
    memcpy (affine.vanishing, warp->vanishing, sizeof affine.vanishing);
    s_fill (self, operation->edge.fill, operation->edge.mask_fill, affine.fill);
    int room;
    image_t image;
    stage_status_t status = s_check_size (self, warp->height, warp->width);
    if (!status)
        status = s_open_beside (self, warp->height, warp->width, &image, &room);
    if (status)
        return status;
    remap_affine (&affine, &image, self->stage->rooms [room].data);
    s_enter (self, room, warp->height, warp->width);
    return STAGE_DONE;
}

static stage_status_t
s_warp (passage_t *self, const operation_t *operation, const warp_t *warp)
{
    if (warp->kind == WARP_MATRIX)
        return s_map (self, operation, warp);
    if (warp->kind == WARP_HALF_TURN)
        picture_flip (&self->picture, true, true);
    return STAGE_DONE;
}

static stage_status_t
s_draw_warp (passage_t *self, const operation_t *operation)
{
    keyed_random_t random = s_random (self, operation);
    warp_t warp = warp_draw (operation, picture_height (&self->picture), picture_width (&self->picture),
        &random);
    return s_warp (self, operation, &warp);
}

static stage_status_t
s_elastic (passage_t *self, const operation_t *operation)
{
    uint32_t height = picture_height (&self->picture), width = picture_width (&self->picture);
    int room;
    image_t image;
    stage_status_t status = s_open_beside (self, height, width, &image, &room);
    if (status)
        return status;
    scratch_t *field = &self->stage->sums;
    if (!scratch_need (field, warp_field_floats (height, width) * sizeof (float)))
        return s_no_memory (self);
    keyed_random_t random = s_random (self, operation);
    warp_draw_field (operation, height, width, &random, field->data);
    remap_elastic_t elastic = { .across = field->data,
        .is_bilinear = operation->edge.is_bilinear && !self->is_mask };
    elastic.down = elastic.across + (size_t) height * width;
    s_fill (self, operation->edge.fill, operation->edge.mask_fill, elastic.fill);
    remap_elastic (&elastic, &image, self->stage->rooms [room].data);
    s_enter (self, room, height, width);
    return STAGE_DONE;
}

static stage_status_t
s_augment_step (passage_t *self, const operation_t *operation, const augment_step_t *step)
{
    picture_t *picture = &self->picture;
    warp_t warp;
    colour_kind_t kind;
    double factor;
    if (augment_warp (step, picture_height (picture), picture_width (picture), &warp))
        return s_warp (self, operation, &warp);
    if (self->is_mask)
        return STAGE_DONE;
    if (step->kind == AUGMENT_SHARPNESS)
        return s_sharpen (self, 1 + step->magnitude);
    if (!augment_colour (step, &kind, &factor))
        return STAGE_DONE;
    stage_status_t status = s_make_room (self, 1);
    if (status)
        return status;
    bool fits = colour_add (&picture->colours, kind, factor);
    assert (fits);
    return STAGE_DONE;
}

static stage_status_t
s_augment (passage_t *self, const operation_t *operation)
{
    keyed_random_t random = s_random (self, operation);
    augment_step_t steps [AUGMENT_STEPS_MAX];
    size_t count = augment_draw (operation, picture_height (&self->picture), picture_width (&self->picture),
        &random, steps);
    stage_status_t status = STAGE_DONE;
    for (size_t index = 0; index < count && !status; index++)
        status = s_augment_step (self, operation, &steps [index]);
    return status;
}

INSTRUMENT_ROWS static void
s_add_row (float *restrict sums, const uint8_t *row, float weight, bool is_first, size_t count)
{
    if (is_first)
        for (size_t index = 0; index < count; index++)
            sums [index] = weight * (float) row [index];
    else
        for (size_t index = 0; index < count; index++)
            sums [index] += weight * (float) row [index];
}

//  sums: a float for each value of the image, row by row.  The first image sets them, others are added, and
//  each step is rounded, as torch adds them up.
static void
s_add_to_mixture (float *sums, const image_t *image, float weight, bool is_first)
{
    size_t count = (size_t) image->width * image->channels;
    for (uint32_t row = 0; row < image->height; row++, sums += count) {
        s_add_row (sums, image_at (image, row, 0), weight, is_first, count);
        instrument_written (sums, count * sizeof *sums);
    }
}

//  count values, from 0 to below 256, cut to whole numbers.
INSTRUMENT_ROWS static void
s_write_mixture (const float *sums, size_t count, uint8_t *target)
{
    //  Weights that were rounded may add up to a little more than 1: 255 stays 255.
    for (size_t index = 0; index < count; index++)
        target [index] = (uint8_t) (int32_t) sums [index];
    instrument_written (target, count);
}

//  Adds a chain of steps to the sums, beginning anew with the passage's image.
static stage_status_t
s_mix_chain (const passage_t *self, const operation_t *operation, const augment_mix_t *mix, uint32_t index)
{
    passage_t chain = *self;
    chain.mixed = self->room;
    stage_status_t status = STAGE_DONE;
    for (uint32_t step = 0; step < mix->lengths [index] && !status; step++)
        status = s_augment_step (&chain, operation, &mix->steps [index] [step]);
    if (!status)
        status = s_settle (&chain);
    if (status)
        return status;
    image_t image = picture_pixels (&chain.picture);
    s_add_to_mixture (self->stage->sums.data, &image, mix->weights [index], false);
    return STAGE_DONE;
}

static stage_status_t
s_aug_mix (passage_t *self, const operation_t *operation)
{
    picture_t *picture = &self->picture;
    uint32_t height = picture_height (picture), width = picture_width (picture);
    stage_status_t status = self->is_mask? STAGE_DONE: s_need_pixels (self);
    if (self->is_mask || status)
        return status;
    keyed_random_t random = s_random (self, operation);
    augment_mix_t mix = augment_mix_draw (operation, height, width, &random);
    size_t count = image_bytes (height, width, picture->channels);
    if (!scratch_need (&self->stage->sums, count * sizeof (float)))
        return s_no_memory (self);
    image_t image = picture_pixels (picture);
    s_add_to_mixture (self->stage->sums.data, &image, mix.original, true);
    for (uint32_t chain = 0; chain < mix.chains && !status; chain++)
        status = s_mix_chain (self, operation, &mix, chain);
    int room;
    if (!status)
        status = s_open_room (self, height, width, &room);
    if (status)
        return status;
    s_write_mixture (self->stage->sums.data, count, self->stage->rooms [room].data);
    s_enter (self, room, height, width);
    return STAGE_DONE;
}

static stage_status_t
s_adjust_sharpness (passage_t *self, const operation_t *operation)
{
    keyed_random_t random = s_random (self, operation);
    return geometry_happens (operation, &random)? s_sharpen (self, operation->point.factor): STAGE_DONE;
}

static stage_status_t
s_blur (passage_t *self, const operation_t *operation)
{
    picture_t *picture = &self->picture;
    if (self->is_mask)
        return STAGE_DONE;
    keyed_random_t random = s_random (self, operation);
    double drawn = geometry_blur (operation, &random);
    uint32_t height = picture_height (picture), width = picture_width (picture);
    int room;
    image_t image;
    stage_status_t status = s_open_beside (self, height, width, &image, &room);
    if (status)
        return status;
    uint8_t *target = self->stage->rooms [room].data;
    if (operation->kind == OPERATION_GAUSSIAN_BLUR) {
        blur_kernel_t across = blur_kernel (operation->blur.kernel [0], drawn);
        blur_kernel_t down = blur_kernel (operation->blur.kernel [1], drawn);
        blur_convolve (&image, &across, &down, target);
    }
    else
    if (!blur_boxes (&image, drawn, &self->stage->row, target))
        return s_no_memory (self);
    s_enter (self, room, height, width);
    return STAGE_DONE;
}

uint64_t
stage_custom_seed (const operation_t *operation, keyed_random_t *random)
{
    return operation->custom.is->is_random? keyed_random_next (random) >> 11: 0;
}

static stage_status_t
s_custom (passage_t *self, const operation_t *operation)
{
    int room;
    image_t image;
    stage_status_t status = s_open_beside (self, operation->height, operation->width, &image, &room);
    if (status)
        return status;
    keyed_random_t random = s_random (self, operation);
    assert (image.channels == CUSTOM_CHANNELS);
    custom_call_t call = { .pixels = image.pixels, .stride = image.stride, .from_height = image.height,
        .from_width = image.width, .height = operation->height, .width = operation->width,
        .arguments = operation->custom.arguments, .seed = stage_custom_seed (operation, &random),
        .target = self->stage->rooms [room].data, .abandoned = self->stage->abandoned,
        .error = self->error, .error_bytes = self->error_bytes };
    custom_status_t done = operation->custom.is->run (operation->custom.is, &call);
    self->stage->custom_ns += call.took_ns;
    if (done == CUSTOM_NO_MEMORY)
        return s_no_memory (self);
    if (done == CUSTOM_FAILED)
        return STAGE_UNSUITABLE;
    s_enter (self, room, operation->height, operation->width);
    return STAGE_DONE;
}

static stage_status_t
s_step (passage_t *self, const operation_t *operation)
{
    switch (operation->kind) {
    case OPERATION_VIEWS:
        //  What the views have in common is computed once, but for what costs each of them nothing.
        return self->picture.resizes || self->picture.colours.count > 0? s_settle (self): STAGE_DONE;
    case OPERATION_RESIZE:
        return s_resize (self, operation);
    case OPERATION_CENTER_CROP:
    case OPERATION_PAD:
        return s_window (self, operation);
    case OPERATION_CORNER_CROP:
        return s_corner_crop (self, operation);
    case OPERATION_RANDOM_RESIZED_CROP:
        return s_random_resized_crop (self, operation);
    case OPERATION_RANDOM_CROP:
        return s_random_crop (self, operation);
    case OPERATION_CUSTOM:
        return s_custom (self, operation);
    case OPERATION_FLIP:
    case OPERATION_VERTICAL_FLIP:
        return s_flip (self, operation);
    case OPERATION_COLOR_JITTER:
    case OPERATION_GRAYSCALE:
    case OPERATION_INVERT:
    case OPERATION_POSTERIZE:
    case OPERATION_SOLARIZE:
    case OPERATION_AUTOCONTRAST:
    case OPERATION_EQUALIZE:
        return s_colour (self, operation);
    case OPERATION_ADJUST_SHARPNESS:
        return s_adjust_sharpness (self, operation);
    case OPERATION_GAUSSIAN_BLUR:
    case OPERATION_PILLOW_GAUSSIAN_BLUR:
        return s_blur (self, operation);
    case OPERATION_RANDOM_ROTATION:
    case OPERATION_RANDOM_AFFINE:
    case OPERATION_RANDOM_PERSPECTIVE:
        return s_draw_warp (self, operation);
    case OPERATION_ELASTIC_TRANSFORM:
        return s_elastic (self, operation);
    case OPERATION_RAND_AUGMENT:
    case OPERATION_TRIVIAL_AUGMENT_WIDE:
    case OPERATION_AUTO_AUGMENT:
        return s_augment (self, operation);
    case OPERATION_AUG_MIX:
        return s_aug_mix (self, operation);
    case OPERATION_RANDOM_APPLY:
    case OPERATION_RANDOM_CHOICE:
    case OPERATION_RANDOM_ORDER:
        return STAGE_DONE;          //  what they are about comes behind them, as chosen
    case OPERATION_NORMALIZE:
    case OPERATION_CAST:
    case OPERATION_LAYOUT:
    case OPERATION_RANDOM_ERASING:
        return STAGE_DONE;          //  in the format of what is drawn last, or in that (stage_erase)
    case OPERATION_DECODE:
    case OPERATION_EXCERPT:
    case OPERATION_KINDS:
        break;                      //  none of them is an operation on images
    }
    assert (false);
    return STAGE_UNSUITABLE;
}

void
stage_choose (passage_t *self, size_t begin, size_t end)
{
    self->chosen = geometry_choose (self->plan->operations, begin, end, self->key, self->view);
    self->next = 0;
}

stage_status_t
stage_run (passage_t *self)
{
    while (self->next < self->chosen.count) {
        picture_t before = self->picture;
        stage_status_t status = s_step (self, &self->plan->operations [self->chosen.operations [self->next]]);
        //  What waits is done again from its beginning.
        if (status == STAGE_WAITS)
            self->picture = before;
        if (status)
            return status;
        self->next++;
    }
    if (!picture_has_pixels (&self->picture))
        s_wait (self);
    return STAGE_DONE;
}

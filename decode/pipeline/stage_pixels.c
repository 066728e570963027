#include "stage_pixels.h"
#include <assert.h>
#include <stdio.h>
#include "decoder.h"

//  ---------------------------------------------------------------------------------------------------------
//  Reasons to stop

stage_status_t
stage_pixels_wait (passage_t *self)
{
    self->need = picture_need (&self->picture, self->plan->operations [0].decode.exact);
    return STAGE_WAITS;
}

stage_status_t
stage_pixels_no_memory (const passage_t *self)
{
    snprintf (self->error, self->error_bytes,
        "not enough memory for the pipeline on an image of %u x %u pixels",
        picture_width (&self->picture), picture_height (&self->picture));
    return STAGE_NO_MEMORY;
}

stage_status_t
stage_pixels_check (const passage_t *self, uint64_t height, uint64_t width)
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
bool
stage_pixels_is_abandoned (const passage_t *self)
{
    const atomic_bool *abandoned = self->stage->abandoned;
    return abandoned && atomic_load_explicit (abandoned, memory_order_relaxed);
}

//  ---------------------------------------------------------------------------------------------------------
//  From a picture to pixels

//  Opens a room that holds nothing which is needed still.
stage_status_t
stage_pixels_open_room (const passage_t *self, uint32_t height, uint32_t width, int *room_p)
{
    stage_status_t status = stage_pixels_check (self, height, width);
    if (!status && stage_pixels_is_abandoned (self))
        status = STAGE_ABANDONED;
    if (status)
        return status;
    int room = 0;
    while (room == self->kept || room == self->mixed || room == self->room)
        room++;
    assert (room < STAGE_ROOMS);
    *room_p = room;
    if (!scratch_need (&self->stage->rooms [room], image_bytes (height, width, self->picture.channels)))
        return stage_pixels_no_memory (self);
    return STAGE_DONE;
}

//  From now on the picture is the image in room.
void
stage_pixels_enter (passage_t *self, int room, uint32_t height, uint32_t width)
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
stage_status_t
stage_pixels_write_resized (passage_t *self, uint8_t *target)
{
    picture_resample_t resample = picture_resample (&self->picture);
    size_t stride = image_bytes (1, self->picture.window.width, self->picture.channels);
    return s_resize_piece (self, &resample, target, stride)? STAGE_DONE: stage_pixels_no_memory (self);
}

//  Resizes into a room; flips and colours stay to be done.
stage_status_t
stage_pixels_resize (passage_t *self)
{
    picture_t *picture = &self->picture;
    uint32_t height = picture->window.height, width = picture->window.width;
    int room;
    stage_status_t status = stage_pixels_open_room (self, height, width, &room);
    if (!status)
        status = stage_pixels_write_resized (self, self->stage->rooms [room].data);
    if (status)
        return status;
    finish_flips_t flips = picture->flips;
    colour_program_t colours = picture->colours;
    stage_pixels_enter (self, room, height, width);
    picture->flips = flips;
    picture->colours = colours;
    return STAGE_DONE;
}

//  Flips and colours a picture that is not resized, into target.
stage_status_t
stage_pixels_write_finished (passage_t *self, const finish_format_t *format, uint8_t *target, size_t stride)
{
    picture_t *picture = &self->picture;
    scratch_t *row = &self->stage->row;
    image_t image = picture_pixels (picture);
    colour_program_t *colours = picture->colours.count? &picture->colours: NULL;
    if (colours) {
        if (!scratch_need (row, image_bytes (1, image.width, image.channels)))
            return stage_pixels_no_memory (self);
        colour_measure (colours, &image, row->data);
    }
    finish_run (format, &image, picture->flips, colours, row->data, target, stride);
    return STAGE_DONE;
}

//  Computes all that is pending, so that the picture is pixels and nothing more.
stage_status_t
stage_pixels_settle (passage_t *self)
{
    picture_t *picture = &self->picture;
    if (picture_is_plain (picture))
        return STAGE_DONE;
    if (!picture_has_pixels (picture))
        return stage_pixels_wait (self);
    stage_status_t status = picture->resizes? stage_pixels_resize (self): STAGE_DONE;
    if (status || picture_is_plain (picture))
        return status;
    uint32_t height = picture_height (picture), width = picture_width (picture);
    int room;
    status = stage_pixels_open_room (self, height, width, &room);
    if (!status)
        status = stage_pixels_write_finished (self, stage_plain (self->stage, picture->channels),
            self->stage->rooms [room].data, image_bytes (1, width, picture->channels));
    if (!status)
        stage_pixels_enter (self, room, height, width);
    return status;
}

stage_status_t
stage_pixels_need (passage_t *self)
{
    stage_status_t status = stage_pixels_settle (self);
    return status || picture_has_pixels (&self->picture)? status: stage_pixels_wait (self);
}

/*  stage_pixels -- how the operations of a stage come to pixels: a picture's description becomes pixels in
 *  one of the stage's rooms.
 *
 *  An operation that cannot be described calls stage_pixels_need, opens a room, writes its result there and
 *  enters it.  Reasons to stop are written to the passage's error.  Only for the files of a stage.
 */
#ifndef STAGE_PIXELS_H
#define STAGE_PIXELS_H
#include "stage.h"

//  STAGE_WAITS, and the passage's need.
stage_status_t stage_pixels_wait (passage_t *self);
stage_status_t stage_pixels_no_memory (const passage_t *self);
//  Whether an image may be that large.
stage_status_t stage_pixels_check (const passage_t *self, uint64_t height, uint64_t width);

//  Whether no job wants the result any more: STAGE_ABANDONED.
bool stage_pixels_is_abandoned (const passage_t *self);

//  Opens a room for an image of the picture's channels: one that holds nothing which is needed still.
stage_status_t stage_pixels_open_room (const passage_t *self, uint32_t height, uint32_t width, int *room_p);
//  From now on the picture is the image in room, with rows without gaps.
void stage_pixels_enter (passage_t *self, int room, uint32_t height, uint32_t width);

//  Writes the resized image, before flips and colours.
stage_status_t stage_pixels_write_resized (passage_t *self, uint8_t *target);
//  Flips and colours a picture that is not resized, into target.
stage_status_t stage_pixels_write_finished (passage_t *self, const finish_format_t *format, uint8_t *target,
    size_t stride);
//  Resizes into a room; flips and colours stay to be done.
stage_status_t stage_pixels_resize (passage_t *self);
//  Computes all that is pending, so that the picture is pixels and nothing more.  A picture with nothing
//  pending may have no pixels yet.
stage_status_t stage_pixels_settle (passage_t *self);
//  The same, and it has pixels.
stage_status_t stage_pixels_need (passage_t *self);

#endif

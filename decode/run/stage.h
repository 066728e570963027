/*  stage -- runs a range of a plan's operations on one field of one view: on a picture (picture.h), for as
 *  long as its description can take them, and on pixels in the stage's own rooms where it cannot.
 *
 *  A passage may begin before its source has pixels: it runs until it needs some, or to its end, and can say
 *  then which ones.  A caller with several passages from one source asks all of them before reading it.  The
 *  same operation draws the same numbers whenever it is run, so all fields of a view agree, and a passage
 *  that waited runs the operation again.
 *
 *  Only for files of decode/.  Owner: one thread.  The rooms are kept, so the steady state allocates nothing.
 */
#ifndef STAGE_H
#define STAGE_H
#include <stdbool.h>
#include "geometry.h"
#include "keyed_random.h"
#include "picture.h"
#include "plan.h"

//  Where images stand between operations: the one that the views part from, the one that a mixture is of, the
//  present one, and the next.
enum { STAGE_ROOMS = 4, STAGE_NO_ROOM = -1 };

typedef struct {
    resize_t *resize;
    scratch_t rooms [STAGE_ROOMS];
    scratch_t sums;                 //  floats: the sums of a mixture, a field of displacements
    scratch_t row;                  //  one row's pixels, or which column each of its pixels is from
    finish_format_t plain [IMAGE_COLOURS];      //  pixels as they are, of so many channels, less one
    const atomic_bool *abandoned;   //  decoder_watch's
    uint64_t custom_ns;             //  processor time of the operator's processes, since it was asked for
    uint64_t between_max;           //  pixels between the passes of a resize: DECODER_PIXELS_MAX, less in
                                    //  tests
} stage_t;

typedef enum {
    STAGE_DONE,
    STAGE_WAITS,                    //  for pixels
    STAGE_UNSUITABLE,               //  no such operation on an image of this size; error says why
    STAGE_NO_MEMORY,                //  error says so
    STAGE_ABANDONED                 //  no job wants the result any more
} stage_status_t;

typedef struct {
    stage_t *stage;
    const plan_t *plan;
    const pipeline_key_t *key;
    bool is_mask;
    uint32_t view;
    geometry_chosen_t chosen;       //  the operations to run, from next on
    size_t next;
    picture_t picture;
    picture_need_t need;            //  set by stage_run while the picture has no pixels
    int room;                       //  in which picture's pixels are
    int kept;                       //  that must not be written: other passages begin with what is in it
    int mixed;                      //  another one: a mixture begins anew with what is in it
    char *error;
    size_t error_bytes;
} passage_t;

//  False without memory; stage_free is due all the same.  Nothing but zeros is a stage that may be freed.
bool stage_init (stage_t *self);
void stage_free (stage_t *self);
//  Of the buffers that it keeps from one passage to the next.
size_t stage_kept_bytes (const stage_t *self);
//  Pixels as they are: the format of what is between operations, and in versions.
const finish_format_t *stage_plain (const stage_t *self, uint32_t channels);

//  Where an operation's random numbers come from, in a view; what stands before the views part has view 0.
keyed_random_t stage_random (const operation_t *operation, const pipeline_key_t *key, uint32_t view);
//  From now on the operations [begin, end) of the plan are to be run, for the passage's view.
void stage_choose (passage_t *self, size_t begin, size_t end);
//  What an operation of the operator's own is given: a double holds it.
uint64_t stage_custom_seed (const operation_t *operation, keyed_random_t *random);
//  Runs the operations from next on, as far as it gets.
stage_status_t stage_run (passage_t *self);
//  Writes what the picture shows to target, rows without gaps; it has pixels.
stage_status_t stage_draw (passage_t *self, const finish_format_t *format, uint8_t *target);
//  Erases a box of the drawn image, as chance has it.
void stage_erase (const passage_t *self, const operation_t *erasing, const finish_format_t *format,
    uint8_t *target);

#endif

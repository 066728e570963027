/*  picture -- an image that is described and not yet computed: a part of a source, perhaps resized and of
 *  that a part, then flipped, then with other colours.
 *
 *  Crops, flips, colours and one resize change the description alone, so what a crop drops is never computed,
 *  and often not decoded either: a picture can be described before its source has pixels, and then says which
 *  of them it needs.
 *  What does not fit into the description any more must be computed first (stage.h): a resize of what is
 *  flipped, coloured or resized already, and a crop behind a measured step (colour.h), which is about
 *  the image before the crop.
 *
 *  Only for files of decode/.  Owner: the function that declares it; pixels are lent.
 */
#ifndef PICTURE_H
#define PICTURE_H
#include "colour.h"
#include "finish.h"
#include "image.h"
#include "image_codec.h"
#include "resize.h"

typedef struct {
    //  The source, and what there is of it: the box `shown`, which lies in have as image_reader.h says.
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    image_box_t shown;
    image_pixels_t have;            //  have.image.pixels is NULL while there are none
    //  What is taken of it.
    image_box_t box;                //  of the source
    bool resizes;                   //  whether that becomes full_height x full_width, of which window is
                                    //  taken
    resize_filter_t filter;
    bool down_first;                //  of resize_run
    uint32_t full_height;
    uint32_t full_width;
    image_box_t window;
    //  What becomes of that.
    finish_flips_t flips;
    colour_program_t colours;       //  not measured
} picture_t;

//  Which pixels of its source a picture needs, and at which scale it can do with them: this many of them for
//  each of the source, 1 for all.
typedef struct {
    image_box_t box;
    double down;
    double across;
} picture_need_t;

//  All of a source, which has no pixels yet.
void picture_init (picture_t *self, uint32_t height, uint32_t width, uint32_t channels);
//  All of an image.
void picture_of (picture_t *self, const image_t *image);
//  Gives the source its pixels: what came when request was read.
void picture_supply (picture_t *self, const image_request_t *request, const image_pixels_t *pixels);

//  The image's size as it is described now.
uint32_t picture_height (const picture_t *self);
uint32_t picture_width (const picture_t *self);
bool picture_has_pixels (const picture_t *self);
//  Whether it is pixels of its source, and nothing else: then it may be resized.
bool picture_is_plain (const picture_t *self);
bool picture_may_narrow (const picture_t *self);

//  The part of it in box, which is not empty; where it may be narrowed.
void picture_narrow (picture_t *self, const image_box_t *box);
//  Of a plain one.  pillow13: rows first where the image loses more than twice as many rows as columns.
void picture_resize (picture_t *self, resize_filter_t filter, bool pillow13, uint32_t height, uint32_t width);
void picture_flip (picture_t *self, bool across, bool down);

//  exact: at full scale, whatever it is resized to.
picture_need_t picture_need (const picture_t *self, bool exact);
//  What serves both.
picture_need_t picture_need_both (const picture_need_t *one, const picture_need_t *other);
image_request_t picture_request (const picture_need_t *need);

//  The pixels of a picture that is not resized, before flips and colours.
image_t picture_pixels (const picture_t *self);
//  What resize_run needs for one that is: what there is of the source, where, and the spans.
typedef struct {
    image_t have;
    uint32_t top;
    uint32_t left;
    resize_span_t down;
    resize_span_t across;
} picture_resample_t;
picture_resample_t picture_resample (const picture_t *self);

#endif

/*  resize -- resampling as Pillow's Image.resize does it, to the last bit.
 *
 *  BILINEAR and BICUBIC with anti-aliasing: separable, in fixed point: first every needed row is resampled to
 *  the new width and rounded to 8 bits, then the columns to the new height; or, down_first, the other way
 *  round, as Pillow has it from 13 on for some shapes.  The filter is stretched by the shrinking factor where
 *  the image shrinks.  NEAREST: the pixel in which the middle falls (for masks: no new
 *  values).
 *
 *  Along each axis a *span* of the source becomes the whole result, of which a window is computed: each of
 *  its pixels is the same as if all were.  So a caller that crops the result, or has decoded only the needed
 *  pixels, says so and pays for no more.  Pixels outside the source are never read.
 *
 *  The inner loops exist in portable C and for AVX2, chosen at run time (loops.h); both give the same bytes.
 *  Owner: one thread; buffers are kept from call to call.
 */
#ifndef RESIZE_H
#define RESIZE_H
#include <stdbool.h>
#include "image.h"

typedef enum { RESIZE_NEAREST, RESIZE_BILINEAR, RESIZE_BICUBIC } resize_filter_t;

//  One axis.  All in pixels.
typedef struct {
    uint32_t side;              //  of the source: the filter is cut off there
    double from;                //  the span of the source that becomes the whole result: 0 and side for a
                                //  plain
    double length;              //      resize; fractions where the source was decoded at another scale
    uint32_t full;              //  side of the whole result
    uint32_t begin;             //  the window of it that is computed: begin + count <= full, count > 0
    uint32_t count;
} resize_span_t;

typedef struct resize resize_t;

//  NULL without memory.
resize_t *resize_new (void);
void resize_destroy (resize_t **self_p);
//  Of the pixels between the passes, which it keeps from one call to the next.
size_t resize_kept_bytes (const resize_t *self);

//  A plain resize of a whole side to full.
resize_span_t resize_whole (uint32_t side, uint32_t full);
//  The source pixels that the window needs: [*first_p, *first_p + *count_p), inside [0, side).
void resize_needs (resize_filter_t filter, const resize_span_t *span, uint32_t *first_p, uint32_t *count_p);

//  Writes down->count rows of across->count pixels to target, and nothing beside them.  have is what there is
//  of the source, which holds at least what both axes need: its upper left pixel is (top, left) of the
//  source.  It does not overlap target.  Between the passes there are as many rows as down needs, each of
//  across->count pixels: for a narrow and high image that may be far more than source and result.
//  down_first: down->count rows of as many pixels as across needs.  False if there is no memory.
bool resize_run (resize_t *self, resize_filter_t filter, bool down_first, const image_t *have, uint32_t top,
    uint32_t left, const resize_span_t *down, const resize_span_t *across, uint8_t *target,
    size_t target_stride)
    __attribute__ ((warn_unused_result));

#endif

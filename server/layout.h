/*  layout -- where a batch's fields lie in a slot.  Pure arithmetic, the same for ring and inline.  */
#ifndef LAYOUT_H
#define LAYOUT_H
#include <stddef.h>
#include <stdint.h>
#include "pipeline.h"
#include "reply.h"

enum { LAYOUT_FIELDS = 2, LAYOUT_IMAGE = 0, LAYOUT_LABEL = 1 };

//  Fields of a batch: first the image, at the slot's begin and so page-aligned, then the label (int64).
typedef struct {
    reply_field_t fields [LAYOUT_FIELDS];
    size_t slot_bytes;          //  a multiple of the page size
} layout_t;

layout_t layout_of (const pipeline_output_t *image, uint32_t batch_size);
//  Where a row of a field lies in a slot that begins at slot.
uint8_t *layout_row (const layout_t *self, size_t field, uint8_t *slot, uint32_t row);

#endif

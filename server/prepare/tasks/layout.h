/*  layout -- where a batch's fields lie in a slot.  Pure arithmetic, the same for ring and inline.  */
#ifndef LAYOUT_H
#define LAYOUT_H
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"
#include "pipeline.h"
#include "reply.h"

enum { LAYOUT_FIELDS_MAX = PIPELINE_OUTPUTS_MAX + CATALOGUE_LABELS_MAX };

//  Fields of a batch: first the pipeline's outputs, the first of them at the slot's begin and so
//  page-aligned, then the catalogue's labels.  Each field's offset is a multiple of 64.
typedef struct {
    reply_field_t fields [LAYOUT_FIELDS_MAX];   //  names are the pipeline's and the catalogue's
    size_t outputs;
    size_t count;
    size_t slot_bytes;          //  a multiple of the page size
} layout_t;

typedef enum {
    LAYOUT_OK,
    LAYOUT_TOO_LARGE,           //  slots of such batches cannot be counted in a size_t
    LAYOUT_SAME_NAME            //  two fields have one name: the last of *self
} layout_status_t;

layout_status_t layout_of (layout_t *self, const pipeline_t *pipeline, const catalogue_t *catalogue,
    uint32_t batch_size);
//  Where a row of a field lies in a slot that begins at slot.
uint8_t *layout_row (const layout_t *self, size_t field, uint8_t *slot, uint32_t row);

#endif

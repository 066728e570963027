#include "layout.h"
#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include "wire.h"

enum { FIELD_ALIGNMENT = 64, SLOT_ALIGNMENT = 4096 };

//  So that the bytes of all slots of a job, each aligned, fit into a size_t.
static const size_t s_slot_bytes_max = SIZE_MAX / 2 / WIRE_SLOTS_MAX - SLOT_ALIGNMENT;

_Static_assert ((int) REPLY_FIELD_DIMENSIONS_MAX >= (int) PIPELINE_DIMENSIONS_MAX,
    "a field has an output's sides");
_Static_assert ((int) REPLY_FIELD_DIMENSIONS_MAX >= (int) CATALOGUE_DIMENSIONS_MAX,
    "a field has a label's sides");

static size_t
s_align (size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static bool
s_is_taken (const layout_t *self, const char *name)
{
    for (size_t field = 0; field < self->count; field++)
        if (strcmp (self->fields [field].name, name) == 0)
            return true;
    return false;
}

//  Appends a field.
static layout_status_t
s_append (layout_t *self, reply_field_t field, const uint32_t *shape, uint32_t batch_size)
{
    bool is_taken = s_is_taken (self, field.name);
    assert (self->count < LAYOUT_FIELDS_MAX);
    assert (field.dimensions <= REPLY_FIELD_DIMENSIONS_MAX);
    for (uint32_t side = 0; side < field.dimensions; side++)
        field.shape [side] = shape [side];
    field.offset = self->slot_bytes;
    self->fields [self->count++] = field;
    if (is_taken)
        return LAYOUT_SAME_NAME;
    if (self->slot_bytes > s_slot_bytes_max
        || field.sample_bytes > (s_slot_bytes_max - self->slot_bytes) / batch_size)
        return LAYOUT_TOO_LARGE;
    self->slot_bytes = s_align (self->slot_bytes + field.sample_bytes * batch_size, FIELD_ALIGNMENT);
    return LAYOUT_OK;
}

layout_status_t
layout_of (layout_t *self, const pipeline_t *pipeline, const catalogue_t *catalogue, uint32_t batch_size)
{
    *self = (layout_t) { .outputs = pipeline_outputs (pipeline) };
    layout_status_t status = LAYOUT_OK;
    for (size_t index = 0; index < self->outputs && status == LAYOUT_OK; index++) {
        const pipeline_output_t *output = pipeline_output (pipeline, index);
        reply_field_t field = { .name = output->name, .dtype = dtype_name (output->dtype),
            .dimensions = output->dimensions, .sample_bytes = output->bytes,
            .lengths = output->is_ragged? pipeline_output (pipeline, index + 1)->name: NULL };
        status = s_append (self, field, output->shape, batch_size);
    }
    for (size_t index = 0; index < catalogue_labels (catalogue) && status == LAYOUT_OK; index++) {
        const catalogue_label_t *label = catalogue_label (catalogue, index);
        reply_field_t field = { .name = label->name, .dtype = label->dtype, .dimensions = label->dimensions,
            .sample_bytes = label->bytes };
        status = s_append (self, field, label->shape, batch_size);
    }
    self->slot_bytes = s_align (self->slot_bytes, SLOT_ALIGNMENT);
    return status;
}

uint8_t *
layout_row (const layout_t *self, size_t field, uint8_t *slot, uint32_t row)
{
    return slot + self->fields [field].offset + row * self->fields [field].sample_bytes;
}

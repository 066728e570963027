#include "layout.h"

enum { FIELD_ALIGNMENT = 64, SLOT_ALIGNMENT = 4096 };

static size_t
s_align (size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

layout_t
layout_of (const pipeline_output_t *image, uint32_t batch_size)
{
    layout_t self = { .slot_bytes = 0 };
    reply_field_t *first = &self.fields [LAYOUT_IMAGE];
    *first = (reply_field_t) { .name = "image", .dtype = image->dtype, .dimensions = image->dimensions,
        .sample_bytes = image->bytes };
    for (uint32_t dimension = 0; dimension < image->dimensions; dimension++)
        first->shape [dimension] = image->shape [dimension];
    size_t end = s_align (image->bytes * batch_size, FIELD_ALIGNMENT);
    self.fields [LAYOUT_LABEL] = (reply_field_t) { .name = "label", .dtype = "int64", .dimensions = 0,
        .offset = end, .sample_bytes = sizeof (int64_t) };
    self.slot_bytes = s_align (end + sizeof (int64_t) * batch_size, SLOT_ALIGNMENT);
    return self;
}

uint8_t *
layout_row (const layout_t *self, size_t field, uint8_t *slot, uint32_t row)
{
    return slot + self->fields [field].offset + row * self->fields [field].sample_bytes;
}

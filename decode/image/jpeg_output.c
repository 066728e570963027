#include "jpeg_output.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES_MIN = 65536 };

static void
s_reserve (jpeg_output_t *self, size_t room)
{
    if (self->size_max && self->room > self->size_max)
        jpeg_trouble (self->trouble, -EDOM, "more bytes than there were");
    uint8_t *bytes = realloc (self->bytes, room);
    if (!bytes)
        jpeg_trouble (self->trouble, -ENOMEM, "no room for the tiled file");
    self->bytes = bytes;
    self->room = room;
}

void
jpeg_output_begin (jpeg_output_t *self, jpeg_trouble_t *trouble)
{
    self->trouble = trouble;
    self->size = 0;
}

uint8_t *
jpeg_output_extend (jpeg_output_t *self, size_t count)
{
    if (count > self->room - self->size)
        s_reserve (self, 2 * (self->size + count));
    self->size += count;
    return self->bytes + (self->size - count);
}

void
jpeg_output_append (jpeg_output_t *self, const uint8_t *bytes, size_t count)
{
    if (count)
        memcpy (jpeg_output_extend (self, count), bytes, count);
}

//  ---- as libjpeg's destination

static jpeg_output_t *
s_output (j_compress_ptr info)
{
    return (jpeg_output_t *) info->dest;
}

static void
s_offer (jpeg_output_t *self)
{
    if (self->room - self->size < OUTPUT_BYTES_MIN)
        s_reserve (self, 2 * (self->size + OUTPUT_BYTES_MIN));
    self->target.next_output_byte = self->bytes + self->size;
    self->target.free_in_buffer = self->room - self->size;
}

static void
s_init_destination (j_compress_ptr info)
{
    s_offer (s_output (info));
}

//  libjpeg means the whole buffer, whatever it says is free.
static boolean
s_empty_output_buffer (j_compress_ptr info)
{
    jpeg_output_t *self = s_output (info);
    self->size = self->room;
    s_offer (self);
    return TRUE;
}

static void
s_term_destination (j_compress_ptr info)
{
    jpeg_output_t *self = s_output (info);
    self->size = self->room - self->target.free_in_buffer;
}

void
jpeg_output_open (jpeg_output_t *self, struct jpeg_compress_struct *writer, jpeg_coefficients_t *coefficients)
{
    jpeg_destroy_compress (writer);
    *writer = (struct jpeg_compress_struct) { .err = &self->trouble->manager };
    jpeg_create_compress (writer);
    writer->mem->max_memory_to_use = 0;         //  whatever JPEGMEM says
    self->target = (struct jpeg_destination_mgr) { .init_destination = s_init_destination,
        .empty_output_buffer = s_empty_output_buffer, .term_destination = s_term_destination };
    writer->dest = &self->target;
    jpeg_copy_critical_parameters (&coefficients->info, writer);
    writer->write_JFIF_header = FALSE;
    writer->write_Adobe_marker = FALSE;
    writer->restart_in_rows = 0;
}

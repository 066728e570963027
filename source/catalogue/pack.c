//  An open pack's answers, and reading a sample of it; catalogue_pack.c opens it.

#include "pack_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

const pack_t *
catalogue_pack (const catalogue_t *catalogue)
{
    assert (catalogue && catalogue->magic == CATALOGUE_MAGIC);
    return catalogue->pack;
}

static void
s_check_self (const pack_t *self)
{
    assert (self);
    assert (self->magic == PACK_MAGIC);
}

static const pack_place_t *
s_place (const pack_t *self, uint32_t id)
{
    s_check_self (self);
    assert (id < self->header->samples);
    return &self->places [id];
}

static const pack_volume_t *
s_volume (const pack_t *self, uint32_t volume)
{
    s_check_self (self);
    assert (volume < self->volume_count);
    return &self->volumes [volume];
}

static bool
s_is_said (const catalogue_t *catalogue, uint64_t text)
{
    for (size_t class = 0; class < catalogue->class_count; class++)
        if (catalogue->classes [class] == text)
            return true;
    for (size_t index = 0; index < catalogue->column_count; index++) {
        const column_t *column = &catalogue->columns [index];
        for (size_t value = 0; column->kind == COLUMN_TEXT && value < column->value_count; value++)
            if (column->values [value].text == text)
                return true;
    }
    return false;
}

//  The last text, if it looks like a note and is not a label or class that does; paths and file names never
//  do.
void
pack_take_note (pack_t *self)
{
    const catalogue_t *catalogue = self->catalogue;
    const char *arena = catalogue->arena;
    size_t at = catalogue->arena_used - 1, length = strlen (PACK_NOTE_BEGIN);
    while (at > 0 && arena [at - 1])
        at--;
    if (strncmp (arena + at, PACK_NOTE_BEGIN, length) == 0 && !s_is_said (catalogue, at))
        self->note = arena + at + length;
}

const char *
pack_note (const pack_t *self)
{
    s_check_self (self);
    return self->note;
}

uint32_t
pack_samples (const pack_t *self)
{
    s_check_self (self);
    return (uint32_t) self->header->samples;
}

uint64_t
pack_bytes (const pack_t *self)
{
    s_check_self (self);
    return self->header->bytes;
}

uint32_t
pack_chunk_samples (const pack_t *self)
{
    s_check_self (self);
    return self->header->chunk_samples;
}

const uint32_t *
pack_order (const pack_t *self)
{
    s_check_self (self);
    return self->order;
}

uint32_t
pack_position (const pack_t *self, uint32_t id)
{
    return s_place (self, id)->position;
}

uint32_t
pack_volumes (const pack_t *self)
{
    s_check_self (self);
    return self->volume_count;
}

uint32_t
pack_volume_first (const pack_t *self, uint32_t volume)
{
    s_check_self (self);
    return volume == self->volume_count? (uint32_t) self->header->samples: s_volume (self, volume)->first;
}

int
pack_volume_descriptor (const pack_t *self, uint32_t volume)
{
    s_volume (self, volume);
    assert (self->descriptors && self->descriptors [volume] >= 0);
    return self->descriptors [volume];
}

size_t
pack_volume_path (const pack_t *self, uint32_t volume, char *buffer, size_t size)
{
    s_volume (self, volume);
    int length = snprintf (buffer, size, "%s/" PACK_VOLUME_NAME, catalogue_root (self->catalogue), volume);
    assert (length > 0);
    return (size_t) length;
}

const store_t *
pack_store (const pack_t *self)
{
    s_check_self (self);
    return self->catalogue->fields [0].store;
}

const char *
pack_volume_url (const pack_t *self, uint32_t volume)
{
    s_volume (self, volume);
    assert (self->objects);
    return self->objects [volume].url;
}

const char *
pack_volume_version (const pack_t *self, uint32_t volume)
{
    s_volume (self, volume);
    assert (self->objects);
    return self->objects [volume].version;
}

uint64_t
pack_volume_bytes (const pack_t *self, uint32_t volume)
{
    return s_volume (self, volume)->bytes;
}

//  No sum of file sizes overflows: pack_validate has added them up.
size_t
pack_sample_bytes (const pack_t *self, uint32_t id)
{
    s_place (self, id);
    size_t bytes = 0;
    for (size_t file = 0; file < self->file_count; file++)
        bytes += pack_file_bytes (self, id, file);
    return bytes;
}

size_t
pack_rows_bytes (const pack_t *self, uint32_t id)
{
    s_place (self, id);
    return self->has_rows? pack_file_bytes (self, id, self->file_count - 1): 0;
}

pack_range_t
pack_sample (const pack_t *self, uint32_t id)
{
    const pack_place_t *place = s_place (self, id);
    return (pack_range_t) { .volume = place->volume, .offset = place->offset,
        .bytes = pack_sample_bytes (self, id) };
}

pack_range_t
pack_piece (const pack_t *self, uint32_t first, uint32_t count)
{
    s_check_self (self);
    assert (count > 0);
    assert (first < self->header->samples && count <= self->header->samples - first);
    pack_range_t piece = pack_sample (self, self->order [first]);
    pack_range_t last = pack_sample (self, self->order [first + count - 1]);
    assert (last.volume == piece.volume);
    piece.bytes = last.offset + last.bytes - piece.offset;
    return piece;
}

bool
pack_check (const pack_t *self, uint32_t id, const uint8_t *bytes, size_t *field_p)
{
    s_place (self, id);
    for (size_t file = 0; file < self->file_count; file++) {
        size_t size = pack_file_bytes (self, id, file);
        if (XXH3_64bits (bytes, size) != self->checksums [id * self->file_count + file]) {
            *field_p = file;
            return false;
        }
        bytes += size;
    }
    return true;
}

int
pack_read (const pack_t *self, uint32_t id, size_t field, uint8_t *target)
{
    const pack_place_t *place = s_place (self, id);
    const catalogue_t *catalogue = self->catalogue;
    uint64_t offset = place->offset;
    for (size_t before = 0; before < field; before++)
        offset += catalogue_file_bytes (catalogue, id, before);
    size_t size = catalogue_file_bytes (catalogue, id, field);
    int rc = self->objects? pack_read_volume (self, place->volume, target, size, offset, false):
        catalogue_read_at (self->descriptors [place->volume], target, size, offset);
    if (rc)
        return rc;
    return XXH3_64bits (target, size) == self->checksums [id * self->file_count + field]? 0: -EBADMSG;
}

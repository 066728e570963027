//  An open pack's answers, reading a sample of it, and its end; pack_open.c opens it.

#include "pack_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

enum { READ_PATIENCE_MS = 5000 };       //  with a store: a worker's thread waits

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

pack_volume_header_t
pack_volume_header (uint32_t volume, const uint8_t *pack)
{
    pack_volume_header_t header = { .version = PACK_VERSION, .volume = volume };
    memcpy (header.magic, PACK_VOLUME_MAGIC, sizeof header.magic);
    memcpy (header.pack, pack, sizeof header.pack);
    header.checksum = XXH3_64bits (&header, offsetof (pack_volume_header_t, checksum));
    return header;
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
    int length = snprintf (buffer, size, "%s/" PACK_VOLUME_NAME, self->catalogue->fields [0].path, volume);
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

block_data_t *
pack_blocks (const pack_t *self, int *rc_p)
{
    *rc_p = self->blocks_rc;
    return self->blocks;
}

uint64_t
pack_volume_place (const pack_t *self, uint32_t volume)
{
    uint64_t place = 0;
    for (uint32_t before = 0; before < volume; before++)
        place = block_data_next (place, self->volumes [before].bytes);
    return place;
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
pack_read_volume (const pack_t *self, uint32_t volume, uint8_t *target, size_t size, uint64_t offset,
    bool is_afresh)
{
    //  Several at once: one connection alone is slow.
    enum { PARTS = 8, LEAST_BYTES = 512 * 1024 };
    transfer_t parts [PARTS];
    size_t step = (size + PARTS - 1) / PARTS, count = 0;
    step = step < LEAST_BYTES? LEAST_BYTES: step;
    for (size_t at = 0; at < size; at += step)
        parts [count++] = (transfer_t) { .url = self->objects [volume].url,
            .version = self->objects [volume].version, .offset = offset + at,
            .bytes = size - at < step? size - at: step, .memory = target + at, .is_afresh = is_afresh };
    return store_get (self->catalogue->fields [0].store, parts, count, READ_PATIENCE_MS);
}

int
pack_read (const pack_t *self, uint32_t id, size_t field, uint8_t *target)
{
    const pack_place_t *place = s_place (self, id);
    uint64_t offset = place->offset;
    for (size_t before = 0; before < field; before++)
        offset += pack_file_bytes (self, id, before);
    size_t size = pack_file_bytes (self, id, field);
    int rc = self->objects? pack_read_volume (self, place->volume, target, size, offset, false):
        catalogue_read_at (self->descriptors [place->volume], target, size, offset);
    if (rc)
        return rc;
    return XXH3_64bits (target, size) == self->checksums [id * self->file_count + field]? 0: -EBADMSG;
}

void
pack_detach (catalogue_t *catalogue)
{
    pack_t *self = catalogue->pack;
    if (!self)
        return;
    assert (self->magic == PACK_MAGIC);
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        catalogue->fields [field].files = NULL;
    for (size_t column = 0; column < catalogue->column_count; column++)
        catalogue->columns [column].values = NULL;
    catalogue->samples = NULL;
    catalogue->directories = NULL;
    catalogue->classes = NULL;
    catalogue->arena = NULL;
    for (uint32_t volume = 0; self->descriptors && volume < self->volume_count; volume++)
        if (self->descriptors [volume] >= 0)
            close (self->descriptors [volume]);
    free (self->descriptors);
    for (uint32_t volume = 0; self->objects && volume < self->volume_count; volume++)
        free (self->objects [volume].url);
    free (self->objects);
    block_data_close (&self->blocks);
    block_data_close (&self->index_blocks);
    if (self->index)
        munmap (self->index, self->index_bytes);
    self->magic = 0;
    free (self);
    catalogue->pack = NULL;
}

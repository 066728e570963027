/*  small_pack -- a packer for tests, as short as docs/format.md allows: it holds nothing but pack_index_write
 *  in common with the real one.  Failures abort with the line.
 */
#ifndef SMALL_PACK_H
#define SMALL_PACK_H
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pack.h"
#include "pack_index.h"
#include "seed.h"

#define SMALL_PACK_NEED(condition) \
    do \
        if (!(condition)) { \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort (); \
        } \
    while (0)

typedef struct {
    const char *folder;                 //  is there
    uint32_t chunk_samples;
    uint64_t volume_bytes;              //  no chunk begins above it
    uint64_t seed;                      //  also of the pack's id
    const char *note;                   //  NULL: none
} small_pack_options_t;

typedef struct {
    const small_pack_options_t *options;
    const catalogue_t *catalogue;
    uint8_t pack [PACK_ID_BYTES];
    uint32_t *order;
    pack_place_t *places;
    uint64_t *checksums;
    pack_volume_t *volumes;
    uint32_t volume_count;
    int fd;                             //  of the last volume
    uint64_t at;                        //  in it
} small_pack_t;

static inline void
small_pack_put (small_pack_t *self, const void *bytes, size_t size)
{
    SMALL_PACK_NEED (size == 0 || write (self->fd, bytes, size) == (ssize_t) size);
    self->at += size;
}

static inline void
small_pack_fill_block (small_pack_t *self)
{
    static const uint8_t zeros [PACK_BLOCK_BYTES];
    if (self->at % PACK_BLOCK_BYTES)
        small_pack_put (self, zeros, PACK_BLOCK_BYTES - self->at % PACK_BLOCK_BYTES);
}

static inline void
small_pack_end_volume (small_pack_t *self)
{
    small_pack_fill_block (self);
    self->volumes [self->volume_count - 1].bytes = self->at;
    close (self->fd);
}

static inline void
small_pack_begin_volume (small_pack_t *self, uint32_t position)
{
    char path [4200];
    snprintf (path, sizeof path, "%s/" PACK_VOLUME_NAME, self->options->folder, self->volume_count);
    self->fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    SMALL_PACK_NEED (self->fd >= 0);
    self->volumes [self->volume_count] = (pack_volume_t) { .first = position };
    self->at = 0;
    pack_volume_header_t header = pack_volume_header (self->volume_count++, self->pack);
    small_pack_put (self, &header, sizeof header);
    small_pack_fill_block (self);
}

static inline void
small_pack_put_sample (small_pack_t *self, uint32_t position)
{
    uint32_t id = self->order [position];
    size_t fields = catalogue_fields (self->catalogue);
    self->places [id] = (pack_place_t) { .offset = self->at, .volume = self->volume_count - 1,
        .position = position };
    for (size_t field = 0; field < fields; field++) {
        catalogue_buffer_t buffer = { 0 };
        SMALL_PACK_NEED (catalogue_read (self->catalogue, id, field, &buffer) == 0);
        self->checksums [id * fields + field] = pack_index_checksum (buffer.bytes, buffer.size);
        small_pack_put (self, buffer.bytes, buffer.size);
        free (buffer.bytes);
    }
}

//  All but the index.
static inline void
small_pack_begin (small_pack_t *self, const catalogue_t *catalogue, const small_pack_options_t *options)
{
    uint32_t samples = catalogue_samples (catalogue);
    uint64_t random = options->seed;
    *self = (small_pack_t) { .options = options, .catalogue = catalogue };
    self->order = calloc (samples, sizeof *self->order);
    self->places = calloc (samples, sizeof *self->places);
    self->checksums = calloc (samples * catalogue_fields (catalogue), sizeof *self->checksums);
    self->volumes = calloc (samples, sizeof *self->volumes);
    for (size_t at = 0; at < PACK_ID_BYTES; at++)
        self->pack [at] = (uint8_t) test_below (&random, 256);
    for (uint32_t id = 0; id < samples; id++) {
        uint32_t other = (uint32_t) test_below (&random, id + 1);
        self->order [id] = self->order [other];
        self->order [other] = id;
    }
    for (uint32_t position = 0; position < samples; position++) {
        if (position % options->chunk_samples == 0 && position > 0)
            small_pack_fill_block (self);
        if (position % options->chunk_samples == 0 && (position == 0 || self->at > options->volume_bytes)) {
            if (position > 0)
                small_pack_end_volume (self);
            small_pack_begin_volume (self, position);
        }
        small_pack_put_sample (self, position);
    }
    small_pack_end_volume (self);
}

static inline int
small_pack_index (const small_pack_t *self, char *error, size_t error_bytes)
{
    pack_index_t index = { .catalogue = self->catalogue, .note = self->options->note,
        .chunk_samples = self->options->chunk_samples, .pack = self->pack,
        .seed = self->options->seed, .order = self->order, .places = self->places,
        .checksums = self->checksums,
        .volumes = self->volumes, .volume_count = self->volume_count };
    return pack_index_write (self->options->folder, &index, error, error_bytes);
}

static inline void
small_pack_end (small_pack_t *self)
{
    free (self->order);
    free (self->places);
    free (self->checksums);
    free (self->volumes);
}

#endif

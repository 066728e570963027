//  sort_pack PACK FOLDER [NOTE]: the same pack with its samples in the order of their ids, and with another
//  note; `tureen verify` must find both.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "catalogue.h"
#include "pack.h"
#include "pack_index.h"

enum { ERROR_BYTES = 1024 };

typedef struct {
    const catalogue_t *catalogue;
    const char *note;
    uint32_t samples, chunk;
    FILE *file;
    uint64_t at;
    uint32_t *order;
    pack_place_t *places;
    uint64_t *checksums;
    catalogue_buffer_t buffer;
} sort_t;

static int
s_write (sort_t *self, const void *bytes, size_t size)
{
    self->at += size;
    return size == 0 || fwrite (bytes, size, 1, self->file) == 1? 0: -1;
}

static int
s_pad (sort_t *self)
{
    static const uint8_t zeros [PACK_BLOCK_BYTES];
    return s_write (self, zeros, (PACK_BLOCK_BYTES - self->at % PACK_BLOCK_BYTES) % PACK_BLOCK_BYTES);
}

static int
s_copy (sort_t *self, uint32_t id)
{
    size_t fields = catalogue_fields (self->catalogue);
    int rc = id % self->chunk == 0? s_pad (self): 0;
    self->order [id] = id;
    self->places [id] = (pack_place_t) { .offset = self->at, .position = id };
    for (size_t field = 0; rc == 0 && field < fields; field++) {
        rc = catalogue_read (self->catalogue, id, field, &self->buffer);
        self->checksums [id * fields + field] = pack_index_checksum (self->buffer.bytes, self->buffer.size);
        if (rc == 0)
            rc = s_write (self, self->buffer.bytes, self->buffer.size);
    }
    return rc;
}

static int
s_sort (sort_t *self, const char *folder, char *error)
{
    static const uint8_t pack [PACK_ID_BYTES] = "sorted";
    char path [4096];
    snprintf (path, sizeof path, "%s/" PACK_VOLUME_NAME, folder, 0u);
    self->file = fopen (path, "we");
    pack_volume_header_t header = pack_volume_header (0, pack);
    int rc = self->file? s_write (self, &header, sizeof header): -1;
    if (rc == 0)
        rc = s_pad (self);
    for (uint32_t id = 0; rc == 0 && id < self->samples; id++)
        rc = s_copy (self, id);
    if (rc == 0)
        rc = s_pad (self);
    if (self->file && fclose (self->file))
        rc = -1;
    pack_volume_t volume = { .bytes = self->at };
    pack_index_t index = { .catalogue = self->catalogue, .note = self->note, .chunk_samples = self->chunk,
        .pack = pack,
        .order = self->order,
        .places = self->places, .checksums = self->checksums, .volumes = &volume, .volume_count = 1 };
    return rc? rc: pack_index_write (folder, &index, error, ERROR_BYTES);
}

int
main (int argc, char **argv)
{
    char error [ERROR_BYTES] = "usage: sort_pack PACK FOLDER [NOTE]";
    catalogue_t *catalogue = NULL;
    catalogue_options_t options = { .path = argc >= 3? argv [1]: "" };
    int rc = argc == 3 || argc == 4? catalogue_open (&catalogue, &options, error, sizeof error): -1;
    if (rc == 0 && catalogue_pack (catalogue)) {
        sort_t sort = { .catalogue = catalogue, .note = argv [3], .samples = catalogue_samples (catalogue),
            .chunk = pack_chunk_samples (catalogue_pack (catalogue)) };
        sort.order = calloc (sort.samples, sizeof *sort.order);
        sort.places = calloc (sort.samples, sizeof *sort.places);
        sort.checksums = calloc (sort.samples * catalogue_fields (catalogue), sizeof *sort.checksums);
        rc = sort.order && sort.places && sort.checksums? s_sort (&sort, argv [2], error): -1;
        free (sort.order);
        free (sort.places);
        free (sort.checksums);
        free (sort.buffer.bytes);
    }
    catalogue_destroy (&catalogue);
    if (rc)
        fprintf (stderr, "sort_pack: %s\n", error);
    return rc? 1: 0;
}

/*  fuzz_pack -- any bytes as the index of a pack: refused with a sentence, or a catalogue with consistent
 *  answers.
 *
 *  Checksums are made right first, and if a first byte of the input says so the extents too, so that the
 *  checks behind them are reached.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "catalogue_state.h"
#include "pack.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

//  Sections one behind the other, as long as they say.
static void
s_line_up (pack_header_t *header)
{
    uint64_t end = PACK_BLOCK_BYTES;
    for (int section = 0; section < PACK_SECTIONS; section++) {
        header->sections [section].offset = pack_aligned (end, PACK_SECTION_ALIGN);
        end = header->sections [section].offset + header->sections [section].bytes;
    }
}

static void
s_seal (uint8_t *bytes, size_t size, int lines_up)
{
    pack_header_t *header = (pack_header_t *) bytes;
    memcpy (header->magic, PACK_INDEX_MAGIC, sizeof header->magic);
    if (lines_up)
        s_line_up (header);
    for (int section = 0; section < PACK_SECTIONS; section++) {
        pack_extent_t *extent = &header->sections [section];
        if (extent->offset <= size && extent->bytes <= size - extent->offset)
            extent->checksum = XXH3_64bits (bytes + extent->offset, extent->bytes);
    }
    header->checksum = XXH3_64bits (header, offsetof (pack_header_t, checksum));
}

static void
s_check_paths (const catalogue_t *self)
{
    for (uint32_t id = 0; id < catalogue_samples (self); id++)
        for (size_t field = 0; field < catalogue_fields (self); field++) {
            char path [5000];
            size_t length = catalogue_path (self, id, field, path, sizeof path);
            s_require (length > 0 && length < 4096 && *path != '/' && path [length - 1] != '/');
            s_require (!strstr (path, "//") && strncmp (path, "../", 3) && !strstr (path, "/../")
                && strcmp (path, ".."));
            s_require (length < 3 || strcmp (path + length - 3, "/.."));
        }
}

static void
s_check_labels (const catalogue_t *self)
{
    uint8_t *value = malloc (CATALOGUE_LABEL_BYTES_MAX + 1);
    s_require (value != NULL);
    for (uint32_t label = 0; label < catalogue_classes (self); label++)
        s_require (strlen (catalogue_class_name (self, label)) < 4096);
    for (size_t index = 0; index < catalogue_labels (self); index++) {
        const catalogue_label_t *label = catalogue_label (self, index);
        s_require (label->bytes > 0 && label->bytes <= CATALOGUE_LABEL_BYTES_MAX && label->dimensions <= 1);
        s_require (strlen (label->name) > 0 && strlen (label->name) < CATALOGUE_NAME_BYTES_MAX);
        for (uint32_t id = 0; id < catalogue_samples (self); id++) {
            value [label->bytes] = 0x5a;
            catalogue_label_value (self, index, id, value);
            s_require (value [label->bytes] == 0x5a);
        }
    }
    free (value);
}

//  Every sample in one place, all of them in their volumes, none in another's bytes.
static void
s_check_places (const catalogue_t *self)
{
    const pack_t *pack = catalogue_pack (self);
    uint64_t total = 0;
    for (uint32_t volume = 0; volume < pack_volumes (pack); volume++) {
        uint64_t end = PACK_BLOCK_BYTES;
        s_require (pack_volume_first (pack, volume) < pack_volume_first (pack, volume + 1));
        for (uint32_t at = pack_volume_first (pack, volume); at < pack_volume_first (pack, volume + 1);
            at++) {
            uint32_t id = pack_order (pack) [at];
            pack_range_t range = pack_sample (pack, id);
            s_require (pack_position (pack, id) == at && range.volume == volume && range.offset >= end);
            s_require (at % pack_chunk_samples (pack) || range.offset % PACK_BLOCK_BYTES == 0);
            end = range.offset + range.bytes;
            total += range.bytes;
            s_require (end >= range.offset && end <= pack_volume_bytes (pack, volume));
            s_require (pack_piece (pack, at, 1).bytes == range.bytes);
        }
    }
    s_require (total == pack_bytes (pack));
}

//  A sample's files are those of its fields, and its rows.
static void
s_check_files (const catalogue_t *self)
{
    const pack_t *pack = catalogue_pack (self);
    uint64_t total = 0;
    for (uint32_t id = 0; id < catalogue_samples (self); id++) {
        size_t bytes = 0;
        for (size_t field = 0; field < catalogue_fields (self); field++)
            bytes += catalogue_file_bytes (self, id, field);
        s_require (bytes + pack_rows_bytes (pack, id) == pack_sample_bytes (pack, id));
        total += bytes;
    }
    s_require (total == catalogue_bytes (self));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t *bytes = malloc (size);
    catalogue_t *self = catalogue_new ();
    s_require (bytes && self);
    memcpy (bytes, data + 1, --size);
    if (size >= PACK_BLOCK_BYTES)
        s_seal (bytes, size, *data & 1);
    strcpy (self->fields [0].name, "image");
    self->fields [0].path = strdup ("/pack");
    self->field_count = 1;
    //  Every length of room for the sentence comes by.
    char error [300];
    draft_t draft = { .self = self, .error = error, .error_bytes = 1 + size % sizeof error };
    *error = 0;
    int rc = pack_attach (&draft, "/pack/index.tureen", bytes, size);
    s_require (memchr (error, 0, draft.error_bytes) != NULL);
    s_require (rc == 0? !*error: rc < 0 && (*error || draft.error_bytes == 1));
    if (rc == 0) {
        s_check_paths (self);
        s_check_labels (self);
        s_check_places (self);
        s_check_files (self);
    }
    catalogue_destroy (&self);
    free (bytes);
    return 0;
}

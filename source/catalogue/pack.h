/*  pack -- an open pack: where each sample's bytes are, and what they must hash to.
 *
 *  Opened by catalogue_open, which finds index.tureen in a folder; catalogue_pack gives it.  The index is
 *  read and wholly validated then: checksums of header and sections, every offset, length, position and name;
 *  so nothing read from it later needs a check.  What no check at that time can see is damage to the volumes'
 *  samples: pack_check sees it.
 *
 *  Immutable; any thread may use it.
 */
#ifndef PACK_H
#define PACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "block_data.h"
#include "catalogue.h"
#include "pack_format.h"
#include "store.h"

typedef struct pack pack_t;             //  catalogue_pack gives it

//  A range of a volume, in bytes.
typedef struct {
    uint32_t volume;
    uint64_t offset;
    size_t bytes;
} pack_range_t;

//  PACK_ID_BYTES, which each volume has in its header; lent.
const uint8_t *pack_id (const pack_t *self);
//  What the writer noted of how it was made: a JSON object, as the writer wrote it; NULL: nothing.  Lent.
const char *pack_note (const pack_t *self);
uint32_t pack_samples (const pack_t *self);
uint32_t pack_chunk_samples (const pack_t *self);
//  The id at each position; lent.
const uint32_t *pack_order (const pack_t *self);
uint32_t pack_position (const pack_t *self, uint32_t id);
uint32_t pack_volumes (const pack_t *self);
//  Position of the volume's first sample; for volume == pack_volumes: pack_samples.
uint32_t pack_volume_first (const pack_t *self, uint32_t volume);
//  Of a pack in a folder: open for reading, buffered; lent.  Readers that want O_DIRECT open it again through
//  /proc/self/fd or by pack_volume_path.
int pack_volume_descriptor (const pack_t *self, uint32_t volume);
//  The path to show and to open again: ROOT/volume-00003.tureen.  Returns the full length, as snprintf.
size_t pack_volume_path (const pack_t *self, uint32_t volume, char *buffer, size_t size);
//  The object store or web server that the pack is in; NULL: a folder.  Lent.
const store_t *pack_store (const pack_t *self);
//  Of a pack in a store, opened without index_only: the volume's URL, and the ETag that it had then, "" if it
//  had none.  Lent.
const char *pack_volume_url (const pack_t *self, uint32_t volume);
const char *pack_volume_version (const pack_t *self, uint32_t volume);
uint64_t pack_volume_bytes (const pack_t *self, uint32_t volume);
//  The size of a volume in a store, as it is now: 0 or -errno.
int pack_object_bytes (const pack_t *self, uint32_t volume, uint64_t *bytes_p);
//  Opened with a cache: where its volumes are kept on the local disk; lent.  NULL: nowhere, and *rc_p is 0
//  (no cache), -ENODATA (the store gives a volume no ETag), -CATALOGUE_NOT_KEPT (catalogue.h), or why not
//  (block_data_open).
block_data_t *pack_blocks (const pack_t *self, int *rc_p);
//  Where the volume begins there.
uint64_t pack_volume_place (const pack_t *self, uint32_t volume);

//  Reads bytes of a volume of a pack in a store, some parts at once; waits some seconds where the store
//  fails.  is_afresh: past the caches on the way.  0 or -errno (transfers.h).  Any thread.
int pack_read_volume (const pack_t *self, uint32_t volume, uint8_t *target, size_t size, uint64_t offset,
    bool is_afresh);
//  Where all files of a sample are, one after the other.
pack_range_t pack_sample (const pack_t *self, uint32_t id);
//  Bytes of all samples' files; catalogue_bytes are those of the fields alone.
uint64_t pack_bytes (const pack_t *self);
//  Bytes of all files of a sample: those of its fields, and last where the rows of field 0's JPEG begin.
size_t pack_sample_bytes (const pack_t *self, uint32_t id);
//  The last of these bytes, for image_reader_options_t; 0: nothing is known, or it is no JPEG.
size_t pack_rows_bytes (const pack_t *self, uint32_t id);
//  From the first byte of position `first` to the last of position first + count - 1 (count > 0, one volume),
//  with the padding of chunks that end in between.
pack_range_t pack_piece (const pack_t *self, uint32_t first, uint32_t count);
//  Whether these bytes (pack_sample_bytes of them) are the sample's.  *field_p: the first field that is not;
//  catalogue_fields: the rows.
bool pack_check (const pack_t *self, uint32_t id, const uint8_t *bytes, size_t *field_p);

//  A volume's header with its checksum; it is followed by zeros up to PACK_BLOCK_BYTES.
pack_volume_header_t pack_volume_header (uint32_t volume, const uint8_t *pack);

struct draft;                           //  catalogue_state.h

//  Makes the draft's catalogue that of a lent index (pack_index_check).  0, or -errno and a sentence; then
//  destroy the catalogue.  For pack.c and its fuzz target.
int pack_attach (struct draft *draft, const char *path, const uint8_t *bytes, size_t size);

#endif

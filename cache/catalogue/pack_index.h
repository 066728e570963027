/*  pack_index -- writes index.tureen, the last act of packing, and the header of a volume.
 *
 *  pack_index_write streams section after section to PACK_INDEX_PARTIAL, makes it durable, reads it back by
 *  the very code that will open it, renames it to PACK_INDEX_NAME and makes the folder durable.  So a folder
 *  holds no index or a good one; killed on the way it holds PACK_INDEX_PARTIAL at most, which the next call
 *  overwrites.  Volumes are to be durable before.
 *
 *  Owner: one thread; blocks for as long as a disk does.
 */
#ifndef PACK_INDEX_H
#define PACK_INDEX_H
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"
#include "pack_format.h"

#define PACK_INDEX_PARTIAL "index.tureen.partial"

//  Arrays are lent for the call.
typedef struct {
    const catalogue_t *catalogue;       //  of the source; may be a pack's
    //  Of a file as it lies in the volumes; NULL: as the catalogue says.
    uint64_t (*file_bytes) (const void *context, uint32_t id, size_t field);
    const void *context;
    const char *note;                   //  a JSON object (PACK_NOTE_BEGIN); NULL: none but what the
                                        //  catalogue's pack has
    uint32_t chunk_samples;
    const uint8_t *pack;                //  PACK_ID_BYTES, as in the volumes' headers
    uint64_t seed;
    const uint32_t *order;              //  the id at each position
    const pack_place_t *places;         //  by id
    const uint64_t *checksums;          //  XXH3-64 of each file: [id * catalogue_fields + field]
    const pack_volume_t *volumes;       //  bytes of the whole file, the last chunk's padding included; first
                                        //  position
    uint32_t volume_count;
} pack_index_t;

//  0; or -errno and error (always ended) says what is wrong and the remedy: -EBADMSG when what was given does
//  not hold together, or what writing says.  On failure PACK_INDEX_NAME is not there, or as it was; but where
//  only the folder could not be made durable at the end, it is there and whole, and a power cut may still
//  take it away.
int pack_index_write (const char *folder, const pack_index_t *index, char *error, size_t error_bytes);

//  What an index of so many volumes takes on a disk, its note aside; some bytes more at most.
uint64_t pack_index_bytes (const catalogue_t *catalogue, uint64_t volumes);

//  A volume's header with its checksum; it is followed by zeros up to PACK_BLOCK_BYTES.
pack_volume_header_t pack_volume_header (uint32_t volume, const uint8_t *pack);

//  XXH3-64, as of a sample's file: what pack_index_t's checksums are to be.
uint64_t pack_checksum (const void *bytes, size_t size);

#endif

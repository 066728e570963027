/*  pack_index -- writes index.tureen, the last act of packing.
 *
 *  pack_index_write streams section after section to PACK_INDEX_PARTIAL, makes it durable, reads it back by
 *  the very code that will open it, renames it to PACK_INDEX_NAME and makes the folder durable.  So a folder
 *  holds no index or a good one; if the process is killed, it holds PACK_INDEX_PARTIAL at most, which the
 *  next call overwrites.  Make the volumes durable before.
 *
 *  Owner: one thread; blocks for as long as a disk does.
 */
#ifndef PACK_INDEX_H
#define PACK_INDEX_H
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"
#include "pack.h"

#define PACK_INDEX_PARTIAL "index.tureen.partial"

//  Arrays are lent for the call.
typedef struct {
    const catalogue_t *catalogue;       //  of the source; may be a pack's
    const char *note;                   //  a JSON object (PACK_NOTE_BEGIN); NULL: only the note of the
                                        //  catalogue's pack, if any
    uint32_t chunk_samples;
    const uint8_t *pack;                //  PACK_ID_BYTES, as in the volumes' headers
    uint64_t seed;
    const uint32_t *order;              //  the id at each position
    const pack_place_t *places;         //  by id
    const uint32_t *rows_bytes;         //  by id: of where the rows of its JPEG begin (PACK_ROWS_NAME); NULL:
                                        //  of none
    const uint64_t *checksums;          //  XXH3-64 of each file: [id * files + file]; files are the
                                        //  catalogue's fields, and the rows
    const pack_volume_t *volumes;       //  bytes of the whole file, the last chunk's padding included; first
                                        //  position
    uint32_t volume_count;
} pack_index_t;

//  0; or -errno with fault and remedy in error (always terminated): -EBADMSG when the arguments contradict
//  each other, or an error of writing.  On failure PACK_INDEX_NAME is unchanged.  Exception: if only the
//  folder could not be made durable at the end, it is complete, and a power cut may still remove it.
int pack_index_write (const char *folder, const pack_index_t *index, char *error, size_t error_bytes);

//  The size of an index of so many volumes on a disk, with rows; some bytes more at most.
uint64_t pack_index_bytes (const catalogue_t *catalogue, uint64_t volumes);

//  XXH3-64 of a sample's file, for pack_index_t's checksums.
uint64_t pack_checksum (const void *bytes, size_t size);

#endif

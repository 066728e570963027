/*  pack_index -- index.tureen: whether one is sound, and writing one, the last act of packing.
 *
 *  pack_index_check reads nothing: it looks through bytes, all of them, and the catalogue points into them.
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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"
#include "pack_format.h"

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
uint64_t pack_index_checksum (const void *bytes, size_t size);


//  ---- an index that is there: for pack.c and its fuzz target

//  What it holds; all points into its bytes.
typedef struct {
    const pack_header_t *header;
    size_t file_count;                  //  of a sample: the catalogue's fields, and the rows of its JPEG
    bool has_rows;
    const pack_place_t *places;
    const uint64_t *checksums;
    const uint32_t *order;
    const pack_volume_t *volumes;
    uint32_t volume_count;
    const char *note;                   //  behind PACK_NOTE_BEGIN; NULL: none
} pack_contents_t;

struct draft;                           //  catalogue_state.h

//  Looks through a lent index: its bytes, aligned as by malloc, and its path for errors.  The draft's
//  catalogue, of which field 0 has its path and root, points into it from now on, until pack_index_detach,
//  also after a failure: 0, or -errno and a sentence.
int pack_index_check (struct draft *draft, const char *path, const uint8_t *bytes, size_t size,
    pack_contents_t *contents);
void pack_index_detach (catalogue_t *catalogue);

//  In the folder of field 0's root: a whole index, in pages of its own that are read-only, to be unmapped;
//  an empty one has the room of an uint64_t.  0, or -errno and a sentence.
int pack_index_read (const struct draft *draft, const char *name, void **memory_p, uint64_t *bytes_p);
//  A regular file there, open, and its size; the same.
int pack_index_open_file (const struct draft *draft, const char *name, int *fd_p, uint64_t *bytes_p);
//  The sentence on one that cannot be read.
int pack_index_fail_file (const struct draft *draft, const char *name, int rc);

#endif

/*  pack_state -- a pack's structure, and what its files share; for them and the catalogue's alone.
 *
 *      pack.c              answers; reading a sample
 *      pack_validate.c     is the index what docs/format.md says?  The catalogue then points into it
 *      pack_open.c         a folder or a store becomes an open pack: the index read, volumes opened
 *      pack_index.c        writes the index
 */
#ifndef PACK_STATE_H
#define PACK_STATE_H
#include "catalogue_state.h"
#include "pack.h"

enum { PACK_MAGIC = 0x7ac4ed01 };

//  A volume in a store.
typedef struct {
    char *url;
    char version [TRANSFER_VERSION_BYTES];      //  its ETag when the pack was opened
} pack_object_t;

struct pack {
    uint32_t magic;
    const catalogue_t *catalogue;       //  the catalogue that it belongs to
    void *index;                        //  its pages; NULL: lent bytes
    size_t index_bytes;
    const pack_header_t *header;
    size_t file_count;                  //  of a sample: the catalogue's fields, and the rows of its JPEG
    bool has_rows;
    const pack_place_t *places;
    const uint64_t *checksums;
    const uint32_t *order;
    const pack_volume_t *volumes;
    uint32_t volume_count;
    const char *note;                   //  behind PACK_NOTE_BEGIN; NULL: none
    int *descriptors;                   //  by volume; -1: not open.  NULL: none yet, or in a store
    pack_object_t *objects;             //  by volume, in a store
    block_data_t *blocks, *index_blocks;        //  on the local disk; NULL: nowhere
    int blocks_rc;                      //  why not
};

//  Makes draft->self the catalogue of a lent index: its bytes, aligned as by malloc, and its path for errors.
//  Field 0 has its path and root.  0, or -errno and a sentence; then destroy the catalogue.
int pack_validate (draft_t *draft, const char *path, const uint8_t *bytes, size_t size);
//  The same with an index file in the folder of field 0's root, which is read whole.
int pack_load (draft_t *draft, const char *name);
//  The size of a volume in a store, as it is now: 0 or -errno.
int pack_object_bytes (const pack_t *self, uint32_t volume, uint64_t *bytes_p);
//  Frees the index, closes the volumes, and clears all pointers into them.  For catalogue_destroy.
void pack_detach (catalogue_t *catalogue);
//  A whole file of a sample, into room for its bytes.  As catalogue_read.
int pack_read (const pack_t *self, uint32_t id, size_t field, uint8_t *target);

//  Of one of a sample's files.
static inline size_t
pack_file_bytes (const pack_t *self, uint32_t id, size_t file)
{
    const catalogue_t *catalogue = self->catalogue;
    return file? catalogue->fields [file].files [id].bytes: catalogue->samples [id].bytes;
}

//  Bytes rounded up to a multiple of unit, a power of two.
static inline uint64_t
pack_aligned (uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

#endif

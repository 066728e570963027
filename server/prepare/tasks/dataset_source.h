/*  dataset_source -- what stands behind a data set of the broker's (its dataset_user): files, a pack, or
 *  files of which the local disk has a copy that is read like a pack (space.h); where they lie, and how they
 *  are judged.
 */
#ifndef DATASET_SOURCE_H
#define DATASET_SOURCE_H
#include <stdint.h>
#include "broker.h"
#include "catalogue.h"
#include "data_warnings.h"
#include "dataset.h"
#include "device.h"
#include "jpeg_row_index.h"
#include "pack.h"
#include "pictures.h"
#include "pins.h"
#include "space.h"
#include "pipeline.h"

typedef struct {
    device_t *device;
    uint32_t file;                  //  the device's number of it
} dataset_source_volume_t;

//  Single objects of a store: from where their bytes came, and how long that took, each read its own time.
typedef struct {
    uint64_t source_bytes, source_ns;   //  the store
    uint64_t cached_bytes, cached_ns;   //  the local disk's cache
    uint64_t peer_bytes, peer_ns;       //  other members of the cluster
    uint64_t gets, slow_gets;           //  all; of these, given up as far slower than others
    uint64_t ahead_samples, ahead_bytes;        //  of what the source gave, before a job had drawn it
} dataset_source_objects_t;

//  The disk of the copy does not answer: until when it is not asked.
typedef struct {
    int64_t moved_ms;               //  when a read of it came back last, or the first under way began
    size_t out, late;               //  reads under way; of these, no longer waited for
    int64_t until_ms;
} dataset_source_hang_t;

//  What decoded pictures save of the workers' time.
typedef struct {
    double whole_ns;                //  of a preparation without one, a running mean; 0: none was seen
    uint64_t saved_ns;              //  about
} dataset_source_decoding_t;

//  A field of single objects that other members keep too.
typedef struct {
    const catalogue_t *catalogue;
    size_t number;
} dataset_source_field_t;

typedef struct {
    catalogue_t *catalogue;
    uint32_t jpeg_warnings_max;     //  libjpeg warnings beyond which a file is bad; UINT32_MAX: none are too
                                    //  many
    const custom_t *customs;        //  operations of the operator's own, of the server; lent
    size_t custom_count;
    const pack_t *pack;             //  the catalogue's; NULL: plain files
    space_t *space;                 //  of plain files: their copy, which is read in pieces; the source's;
                                    //  NULL: they are read one by one
    int64_t space_since_ms;         //  clock_now_ms
    dataset_source_hang_t hang;     //  the broker's thread's
    int64_t listed_ms;              //  clock_now_ms when it was listed
    data_warnings_t *warnings;      //  the source's; NULL in tests
    jpeg_row_index_t *rows;         //  of plain files; the source's; NULL: they are not learned
    device_t *fields [CATALOGUE_FIELDS_MAX];        //  of plain files: the device of each field
    dataset_source_field_t shared [CATALOGUE_FIELDS_MAX];       //  of plain files
    pins_data_t *pins;              //  of all its files; the source's; NULL: none
    pins_data_t *old_pins;          //  of its files one by one, before they were read in pieces; the source's
    uint64_t saved_ns;              //  by pins, of its devices' time; the broker's thread's, as the next
    pictures_data_t *pictures;      //  of its samples; the source's; NULL: none
    dataset_source_decoding_t decoding;
    dataset_source_objects_t objects;
    dataset_source_volume_t *volumes;   //  of a pack, or the one of the copy; the source's
    uint32_t *breaks;               //  positions at which they begin; the source's
    uint32_t piece_set;             //  samples, set by the user; 0: the cost model decides
} dataset_source_t;

static inline dataset_source_t *
dataset_source_of (const dataset_t *dataset)
{
    return dataset_user (dataset);
}

//  The device of the data set's part with this number, from 0 on; parts may share one.  NULL: no such part.
static inline device_t *
dataset_source_device (const dataset_source_t *self, size_t part)
{
    if (self->pack)
        return part < pack_volumes (self->pack)? self->volumes [part].device: NULL;
    if (self->space && part == 0)
        return self->volumes [0].device;
    part -= self->space? 1: 0;
    return part < catalogue_fields (self->catalogue)? self->fields [part]: NULL;
}

//  Where a volume of its pack is pinned.
static inline pins_file_t
dataset_source_pinned_volume (const dataset_source_t *self, uint32_t volume)
{
    return (pins_file_t) { .data = self->pins, .number = volume,
        .bytes = pack_volume_bytes (self->pack, volume) };
}

//  Where the copy is pinned: under a number that no file has.
static inline pins_file_t
dataset_source_pinned_space (const dataset_source_t *self)
{
    return (pins_file_t) { .data = self->pins, .number = (uint64_t) CATALOGUE_FIELDS_MAX << 32,
        .bytes = space_bytes (self->space) };
}

//  Where a sample's file is pinned.
static inline pins_file_t
dataset_source_pinned_file (const dataset_source_t *self, uint32_t id, size_t field)
{
    return (pins_file_t) { .data = self->pins, .number = (uint64_t) field << 32 | id,
        .bytes = catalogue_file_bytes (self->catalogue, id, field) };
}

//  How many kinds of pictures a sample may have: the files of its fields, and how each is read.
enum { DATASET_SOURCE_PICTURE_KINDS = CATALOGUE_FIELDS_MAX * DECODER_PICTURE_KINDS };

//  What the local disk keeps of a field, or of the pack; NULL: nothing.
static inline const block_data_t *
dataset_source_blocks (const dataset_source_t *self, size_t part)
{
    int rc;
    return self->pack? pack_blocks (self->pack, &rc): catalogue_blocks (self->catalogue, part, &rc);
}

//  Whether any of it is kept on the local disk, and what that takes there.
static inline bool
dataset_source_is_kept (const dataset_source_t *self, uint64_t *held_p)
{
    bool is_kept = false;
    size_t parts = self->pack? 1: catalogue_fields (self->catalogue);
    *held_p = 0;
    for (size_t part = 0; part < parts; part++) {
        const block_data_t *blocks = dataset_source_blocks (self, part);
        is_kept = is_kept || blocks;
        *held_p += blocks? block_data_held_bytes (blocks): 0;
    }
    return is_kept;
}

//  Why some of it cannot be kept there, which showed after the start; 0: all can, or may be yet.
static inline int
dataset_source_kept_failure (const dataset_source_t *self)
{
    int rc = 0;
    size_t parts = self->pack? 1: catalogue_fields (self->catalogue);
    for (size_t part = 0; part < parts && !rc; part++) {
        const block_data_t *blocks = dataset_source_blocks (self, part);
        rc = blocks? block_data_failure (blocks): 0;
    }
    return rc;
}

//  What rc, of a read, says; not of a shortage.
static inline const char *
dataset_source_error (const dataset_source_t *self, int rc)
{
    return rc == -CATALOGUE_CHANGED? "the volume shrank": catalogue_error (self->catalogue, 0, rc);
}

#endif

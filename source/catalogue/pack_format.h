/*  pack_format -- the bytes of a pack: volumes of chunks, and the index that says what is where.
 *  docs/format.md draws it.
 *
 *  A pack is a folder:
 *      index.tureen            everything but the samples' bytes; read and validated when opened
 *      volume-00000.tureen     a header of PACK_BLOCK_BYTES, then chunks; about PACK_VOLUME_BYTES each
 *      volume-00001.tureen ..
 *
 *  The samples of the source are shuffled once, all of them.  A sample's *id* is its index in the source, its
 *  *position* that in the shuffled order.  Positions 0 .. chunk-1 are the first chunk, and so on; a chunk
 *  begins at a multiple of PACK_BLOCK_BYTES, its samples lie one after the other without gaps, zeros fill up
 *  its last block; it is never cut by the end of a volume.  A sample's files lie one after the other as well:
 *  field 0, field 1 ..
 *
 *  All numbers are little-endian.  The index: a header of PACK_BLOCK_BYTES, then sections, each at a multiple
 *  of PACK_SECTION_ALIGN, zeros between; each is an array of one of the records below, and nothing follows
 *  the last.
 *  The index is written last, to another name, made durable, and renamed: a folder without it is not a pack.
 */
#ifndef PACK_FORMAT_H
#define PACK_FORMAT_H
#include <stdint.h>

enum {
    PACK_VERSION = 1,
    PACK_BLOCK_BYTES = 4096,            //  of headers, and what chunks are aligned to: O_DIRECT takes it
                                        //  everywhere
    PACK_SECTION_ALIGN = 64,
    PACK_CHUNK_SAMPLES = 64,            //  default; --chunk: multiples of it up to PACK_CHUNK_SAMPLES_MAX
    PACK_CHUNK_SAMPLES_MAX = 4096,
    PACK_ID_BYTES = 16,
    PACK_NAME_BYTES = 64,               //  of a field or a label, with zeros behind it
    PACK_FINGERPRINT_BYTES = 40         //  32 digits, zeros behind them
};

#define PACK_VOLUME_BYTES (UINT64_C (1) << 30)  //  no chunk begins above it
#define PACKING_FOLDER "packing"                        //  of an unfinished pack, beside its volumes
#define PACKING_JOURNAL PACKING_FOLDER "/journal"       //  a target with it is unfinished; catalogue_open
                                                        //  says so
#define PACK_INDEX_NAME "index.tureen"
#define PACK_VOLUME_NAME "volume-%05u.tureen"
enum { PACK_VOLUME_NAME_BYTES = 40 };
//  The last field, if it has this name and is no mask, is none that jobs see: its files say of field 0's
//  JPEGs where the rows begin in the coded data, for the decoder; empty where nothing is known.
#define PACK_ROWS_NAME "jpeg_rows"
#define PACK_ROWS_EXTENSION ".rows"
//  If the arena's last text begins so and is no label's and no class's, it is the writer's note on how the
//  pack was made.  A JSON object follows.
#define PACK_NOTE_BEGIN "/tureen "
#define PACK_INDEX_MAGIC "TUREENI1"
#define PACK_VOLUME_MAGIC "TUREENV1"

//  At the begin of each volume; zeros up to PACK_BLOCK_BYTES.
typedef struct {
    char magic [8];
    uint32_t version;
    uint32_t volume;                    //  its number, from 0
    uint8_t pack [PACK_ID_BYTES];       //  the index's
    uint64_t checksum;                  //  XXH3-64 of what stands before
} pack_volume_header_t;

typedef enum {
    PACK_ARENA,                         //  bytes: texts, each ended by a zero, known by their offset in it
    PACK_CLASSES,                       //  uint64_t: names, in the arena
    PACK_DIRECTORIES,                   //  pack_directory_t
    PACK_SAMPLES,                       //  pack_sample_t, by id
    PACK_FIELDS,                        //  pack_field_t, by field
    PACK_COMPANIONS,                    //  pack_companion_t: all of field 1 by id, then all of field 2 ..
    PACK_COLUMNS,                       //  pack_column_t, by label
    PACK_VALUES,                        //  8 bytes each: all of the first column that has values, by id, then
                                        //  the next ..
    PACK_PLACES,                        //  pack_place_t, by id
    PACK_CHECKSUMS,                     //  uint64_t: XXH3-64 of each file, by id, then by field
    PACK_ORDER,                         //  uint32_t: the id at each position
    PACK_VOLUMES,                       //  pack_volume_t
    PACK_SECTIONS
} pack_section_t;

typedef struct {
    uint64_t offset, bytes;             //  in the index file
    uint64_t checksum;                  //  XXH3-64 of the bytes
} pack_extent_t;

//  At the begin of the index; zeros up to PACK_BLOCK_BYTES.
typedef struct {
    char magic [8];
    uint32_t version;
    uint32_t chunk_samples;
    uint8_t pack [PACK_ID_BYTES];       //  a hash of its contents: identifies its volumes
    uint64_t samples;
    uint64_t bytes;                     //  of all samples' files
    uint64_t seed;                      //  of the shuffle
    char fingerprint [PACK_FINGERPRINT_BYTES];      //  the source's, so that a job's state fits source and
                                                    //  pack
    pack_extent_t sections [PACK_SECTIONS];
    uint64_t checksum;                  //  XXH3-64 of what stands before
} pack_header_t;

typedef struct {
    uint64_t path;                      //  in the arena, relative to the root; "" is the root
    uint32_t label;
    uint32_t zero;
} pack_directory_t;

typedef struct {
    uint64_t name;                      //  in the arena
    uint64_t bytes;
    uint32_t directory;
    uint32_t zero;
} pack_sample_t;

typedef struct {
    char name [PACK_NAME_BYTES];
    uint32_t is_mask;
    uint32_t is_beside;                 //  1: of a tar; see pack_companion_t
} pack_field_t;

//  A sample's file in a further field: the sample's directory and stem, and this extension.  The stem ends at
//  the last dot of the sample's name; where is_beside is 1, at the first, as in WebDataset, and the file lies
//  in the sample's own folder.
typedef struct {
    uint64_t bytes;
    uint64_t extension;                 //  in the arena, with its dot
} pack_companion_t;

typedef struct {
    char name [PACK_NAME_BYTES];
    uint32_t kind;                      //  column_kind_t
    uint32_t is_vector;
    uint64_t length;                    //  values of a sample
    uint64_t longest;                   //  text: bytes, without the zero
} pack_column_t;

typedef struct {
    uint64_t offset;                    //  in the volume, of the sample's first file
    uint32_t volume;
    uint32_t position;
} pack_place_t;

typedef struct {
    uint64_t bytes;                     //  of the whole file
    uint32_t first;                     //  position of its first sample
    uint32_t zero;
} pack_volume_t;

_Static_assert (sizeof (pack_volume_header_t) == 40 && sizeof (pack_header_t) == 392
    && sizeof (pack_extent_t) == 24, "headers are drawn in docs/format.md");
_Static_assert (sizeof (pack_directory_t) == 16 && sizeof (pack_sample_t) == 24 && sizeof (pack_field_t) == 72
    && sizeof (pack_companion_t) == 16 && sizeof (pack_column_t) == 88 && sizeof (pack_place_t) == 16
    && sizeof (pack_volume_t) == 16, "records are drawn in docs/format.md");
_Static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mapped as it is");

//  Bytes rounded up to a multiple of unit, a power of two.
static inline uint64_t
pack_aligned (uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

#endif

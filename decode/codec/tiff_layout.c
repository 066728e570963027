#include "tiff_layout.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tiff.h>
#include "image_request.h"

enum { HEADER_BYTES = 8, ENTRY_BYTES = 12, INLINE_BYTES = 4, TILE_UNIT = 16, TAG_WINDOWS_PHOTO = 0xbc01 };
enum { SHARED_MAX = 16 };               //  writers may keep equal tiles once; so often decoding takes no time

static const struct { uint32_t number, otherwise; } s_tags [TAGS] = {
    [TAG_WIDTH] = { TIFFTAG_IMAGEWIDTH, 0 }, [TAG_HEIGHT] = { TIFFTAG_IMAGELENGTH, 0 },
    [TAG_BITS] = { TIFFTAG_BITSPERSAMPLE, 1 }, [TAG_COMPRESSION] = { TIFFTAG_COMPRESSION, COMPRESSION_NONE },
    [TAG_PHOTOMETRIC] = { TIFFTAG_PHOTOMETRIC, UINT32_MAX },
    [TAG_ORDER] = { TIFFTAG_FILLORDER, FILLORDER_MSB2LSB }, [TAG_STRIPS] = { TIFFTAG_STRIPOFFSETS, 0 },
    [TAG_TURN] = { TIFFTAG_ORIENTATION, 1 }, [TAG_SAMPLES] = { TIFFTAG_SAMPLESPERPIXEL, 1 },
    [TAG_STRIP_HEIGHT] = { TIFFTAG_ROWSPERSTRIP, UINT32_MAX },
    [TAG_STRIP_BYTES] = { TIFFTAG_STRIPBYTECOUNTS, 0 },
    [TAG_PLANES] = { TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG }, [TAG_PALETTE] = { TIFFTAG_COLORMAP, 0 },
    [TAG_TILE_WIDTH] = { TIFFTAG_TILEWIDTH, 0 }, [TAG_TILE_HEIGHT] = { TIFFTAG_TILELENGTH, 0 },
    [TAG_TILES] = { TIFFTAG_TILEOFFSETS, 0 }, [TAG_TILE_BYTES] = { TIFFTAG_TILEBYTECOUNTS, 0 },
    [TAG_EXTRA] = { TIFFTAG_EXTRASAMPLES, EXTRASAMPLE_UNASSALPHA },
    [TAG_FORMAT] = { TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT }, [TAG_PREDICTOR] = { TIFFTAG_PREDICTOR, 1 }
};

//  Photometric interpretation, bits (any of these), samples, how many of them are extra.
static const struct { uint32_t photometric, bits, samples, extra; } s_kinds [] = {
    { PHOTOMETRIC_MINISWHITE, 1 | 2 | 4 | 8, 1, 0 }, { PHOTOMETRIC_MINISBLACK, 1 | 2 | 4 | 8 | 16, 1, 0 },
    { PHOTOMETRIC_MINISBLACK, 8, 2, 1 }, { PHOTOMETRIC_PALETTE, 1 | 2 | 4 | 8, 1, 0 },
    { PHOTOMETRIC_RGB, 8 | 16, 3, 0 }, { PHOTOMETRIC_RGB, 8 | 16, 4, 0 }, { PHOTOMETRIC_RGB, 8 | 16, 4, 1 },
    { PHOTOMETRIC_YCBCR, 8, 3, 0 }
};

//  Where a reason goes.
typedef struct {
    char *text;
    size_t bytes;
} reason_t;

static int s_bad (reason_t reason, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static int
s_bad (reason_t reason, const char *format, ...)
{
    va_list values;
    va_start (values, format);
    vsnprintf (reason.text, reason.bytes, format, values);
    va_end (values);
    return -EBADMSG;
}

//  ---------------------------------------------------------------------------------------------------------
//  Tags

//  A number of count bytes, which are there.
static uint32_t
s_number (const tiff_layout_t *self, size_t place, uint32_t count)
{
    uint32_t number = 0;
    for (uint32_t index = 0; index < count; index++)
        number = number << 8 | self->bytes [place + (*self->bytes == 'M'? index: count - 1 - index)];
    return number;
}

uint32_t
tiff_layout_value (const tiff_layout_t *self, tiff_tag_t tag, uint32_t index)
{
    const tiff_field_t *field = &self->fields [tag];
    return index >= field->count? s_tags [tag].otherwise:
        s_number (self, field->place + (size_t) index * field->unit_bytes, field->unit_bytes);
}

//  The tag of a number, or TAGS; and whether it may have more than one value.
static tiff_tag_t
s_tag (uint32_t number, bool *is_list_p)
{
    tiff_tag_t tag = 0;
    while (tag < TAGS && s_tags [tag].number != number)
        tag++;
    *is_list_p = tag == TAG_STRIPS || tag == TAG_STRIP_BYTES || tag == TAG_TILES || tag == TAG_TILE_BYTES
        || tag == TAG_PALETTE || tag == TAG_BITS || tag == TAG_FORMAT;
    return tag;
}

//  An entry of the directory.  Pillow ends its look at tags where a value is not in the file, whatever tag it
//  is, and refuses resolutions that are no numbers.
static int
s_take_entry (tiff_layout_t *self, size_t place, reason_t reason)
{
    static const uint8_t type_bytes [] = { 0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8 };
    uint32_t number = s_number (self, place, 2), type = s_number (self, place + 2, 2);
    tiff_field_t field = { place + HEADER_BYTES, s_number (self, place + 4, 4),
        type < sizeof type_bytes? type_bytes [type]: 0 };
    uint64_t bytes = (uint64_t) field.count * field.unit_bytes;
    if (bytes > INLINE_BYTES) {
        field.place = s_number (self, field.place, 4);
        self->value_bytes += bytes;
    }
    if (bytes > self->size || field.place > self->size - bytes)
        return s_bad (reason, "damaged or truncated TIFF: the values of tag %u lie beyond its end", number);
    if (self->value_bytes > self->size)
        return s_bad (reason, "damaged TIFF: the values of its tags have more bytes than the file");
    bool is_list, is_resolution = number == TIFFTAG_XRESOLUTION || number == TIFFTAG_YRESOLUTION;
    tiff_tag_t tag = s_tag (number, &is_list);
    bool is_odd = tag == TAGS? number == TAG_WINDOWS_PHOTO || (is_resolution && type != TIFF_RATIONAL):
        (type != TIFF_SHORT && (type != TIFF_LONG || tag == TAG_PALETTE)) || field.count == 0
        || (field.count > 1 && !is_list) || self->fields [tag].count;
    if (is_odd)
        return s_bad (reason, "damaged or unsupported TIFF: tag %u comes twice, or its values are of a type "
            "or number that is not read (type %u, %u values)", number, type, field.count);
    if (tag < TAGS)
        self->fields [tag] = field;
    return 0;
}

static int
s_read_tags (tiff_layout_t *self, reason_t reason)
{
    size_t place = self->size < HEADER_BYTES? SIZE_MAX: s_number (self, 4, 4);
    size_t left = place > self->size? 0: self->size - place;
    //  Entries stand between their number, of two bytes, and the place of the next directory, of four.
    if (left < 2 || left < 2 + (size_t) s_number (self, place, 2) * ENTRY_BYTES + 4)
        return s_bad (reason, "damaged or truncated TIFF: its tags lie beyond its end");
    int rc = 0;
    for (uint32_t entry = 0, entries = s_number (self, place, 2); rc == 0 && entry < entries; entry++)
        rc = s_take_entry (self, place + 2 + (size_t) entry * ENTRY_BYTES, reason);
    return rc;
}

//  ---------------------------------------------------------------------------------------------------------
//  Kinds

//  Whether all values are the same, and there is one, or one for each sample.
static bool
s_is_even (const tiff_layout_t *self, tiff_tag_t tag)
{
    uint32_t count = self->fields [tag].count;
    for (uint32_t index = 1; index < count; index++)
        if (tiff_layout_value (self, tag, index) != tiff_layout_value (self, tag, 0))
            return false;
    return count <= 1 || count == self->samples;
}

//  Whether libtiff decodes such pixels as Pillow does.
static bool
s_is_known_compression (const tiff_layout_t *self)
{
    bool is_palette = self->photometric == PHOTOMETRIC_PALETTE;
    uint32_t order = tiff_layout_value (self, TAG_ORDER, 0);
    switch (self->compression) {
    case COMPRESSION_CCITTFAX4:
        return self->bits == 1 && !is_palette && (order == FILLORDER_MSB2LSB || order == FILLORDER_LSB2MSB);
    case COMPRESSION_JPEG:
        return self->bits == 8 && !is_palette && self->samples % 2 && order == FILLORDER_MSB2LSB;
    case COMPRESSION_NONE: case COMPRESSION_LZW: case COMPRESSION_PACKBITS:
    case COMPRESSION_ADOBE_DEFLATE: case COMPRESSION_DEFLATE:
        return self->photometric != PHOTOMETRIC_YCBCR && order == FILLORDER_MSB2LSB;
    default:
        return false;
    }
}

//  Whether pixels of this kind of image come as Pillow's.
static bool
s_is_known_kind (const tiff_layout_t *self)
{
    uint32_t planes = tiff_layout_value (self, TAG_PLANES, 0);
    uint32_t extra = tiff_layout_value (self, TAG_EXTRA, 0);
    bool is_rgb = self->photometric == PHOTOMETRIC_RGB, is_known = false;
    //  Pillow reads other planes wrong, where they are not compressed.
    bool has_planes = self->bits == 8 && ((is_rgb && self->samples == 3)
        || (self->samples == 1 && self->photometric != PHOTOMETRIC_MINISWHITE));
    for (size_t kind = 0; kind < sizeof s_kinds / sizeof *s_kinds; kind++)
        is_known |= self->photometric == s_kinds [kind].photometric && self->samples == s_kinds [kind].samples
            && (self->bits & s_kinds [kind].bits) && (self->bits & (self->bits - 1)) == 0
            && self->fields [TAG_EXTRA].count == s_kinds [kind].extra;
    return is_known && s_is_known_compression (self) && s_is_even (self, TAG_BITS)
        && s_is_even (self, TAG_FORMAT) && tiff_layout_value (self, TAG_FORMAT, 0) == SAMPLEFORMAT_UINT
        && (planes == PLANARCONFIG_CONTIG || (planes == PLANARCONFIG_SEPARATE && has_planes))
        && (extra == EXTRASAMPLE_UNASSALPHA || (is_rgb && extra == EXTRASAMPLE_UNSPECIFIED)
            || (is_rgb && extra == EXTRASAMPLE_ASSOCALPHA && self->bits == 8));
}

static int
s_read_kind (tiff_layout_t *self, reason_t reason)
{
    self->compression = tiff_layout_value (self, TAG_COMPRESSION, 0);
    self->photometric = tiff_layout_value (self, TAG_PHOTOMETRIC, 0);
    self->bits = tiff_layout_value (self, TAG_BITS, 0);
    self->samples = tiff_layout_value (self, TAG_SAMPLES, 0);
    self->is_planar = tiff_layout_value (self, TAG_PLANES, 0) == PLANARCONFIG_SEPARATE && self->samples > 1;
    self->is_premultiplied = tiff_layout_value (self, TAG_EXTRA, 0) == EXTRASAMPLE_ASSOCALPHA;
    if (!s_is_known_kind (self))
        return s_bad (reason, "unsupported TIFF (photometric %d, %u x %u bits, format %u, extra %u, "
            "compression %u, planes %u): docs/pipeline.md lists the kinds that are read",
            (int) self->photometric, self->samples, self->bits, tiff_layout_value (self, TAG_FORMAT, 0),
            tiff_layout_value (self, TAG_EXTRA, 0), self->compression,
            tiff_layout_value (self, TAG_PLANES, 0));
    uint32_t palette = self->fields [TAG_PALETTE].count;
    if (self->photometric == PHOTOMETRIC_PALETTE && palette != (uint32_t) IMAGE_COLOURS << self->bits)
        return s_bad (reason, "damaged TIFF: its palette has %u numbers, of %u", palette,
            (uint32_t) IMAGE_COLOURS << self->bits);
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Sizes and places

static int
s_read_size (tiff_layout_t *self, reason_t reason)
{
    const tiff_field_t *fields = self->fields;
    bool has_strips = fields [TAG_STRIPS].count || fields [TAG_STRIP_BYTES].count;
    self->is_tiled = fields [TAG_TILES].count || fields [TAG_TILE_BYTES].count
        || fields [TAG_TILE_WIDTH].count || fields [TAG_TILE_HEIGHT].count;
    uint64_t height = self->height = tiff_layout_value (self, TAG_HEIGHT, 0);
    uint64_t width = self->width = tiff_layout_value (self, TAG_WIDTH, 0);
    uint64_t rows = tiff_layout_value (self, self->is_tiled? TAG_TILE_HEIGHT: TAG_STRIP_HEIGHT, 0);
    uint64_t columns = self->is_tiled? tiff_layout_value (self, TAG_TILE_WIDTH, 0): width;
    if (!self->is_tiled && rows > height)
        rows = height;
    if (!rows || !columns || !height || !width || has_strips == self->is_tiled
    ||  (self->is_tiled && (rows % TILE_UNIT || columns % TILE_UNIT)))
        return s_bad (reason, "damaged TIFF: it must have pixels, and either strips, or tiles with sides "
            "that 16 divides");
    uint64_t down = (height + rows - 1) / rows, across = (width + columns - 1) / columns;
    uint64_t stride = (columns * self->bits * (self->is_planar? 1: self->samples) + 7) / 8;
    if (down * rows > DECODER_PIXELS_MAX || across * columns > DECODER_PIXELS_MAX
    ||  down * rows * across * columns > DECODER_PIXELS_MAX
    ||  stride * rows > DECODER_PIXELS_MAX * (uint64_t) IMAGE_COLOURS)
        return s_bad (reason, "TIFF with more pixels than the limit (%u x %u, in parts of %u x %u)",
            self->width, self->height, (uint32_t) columns, (uint32_t) rows);
    self->block_height = (uint32_t) rows;
    self->block_width = (uint32_t) columns;
    self->block_stride = (size_t) stride;
    self->blocks = (uint32_t) (down * across) * (self->is_planar? self->samples: 1);
    return 0;
}

size_t
tiff_layout_block_bytes (const tiff_layout_t *self, uint32_t block)
{
    uint32_t down = (self->height + self->block_height - 1) / self->block_height;
    uint32_t left = self->height - block % down * self->block_height;
    return self->block_stride * (!self->is_tiled && left < self->block_height? left: self->block_height);
}

//  The fewest bytes in a file that may give so many: LZW makes at most 3,839 bytes of 12 bits, deflate and
//  PackBits less.  So few bytes of a file make no memory taken for many pixels.
static size_t
s_least (const tiff_layout_t *self, size_t bytes)
{
    switch (self->compression) {
    case COMPRESSION_NONE: return bytes;
    case COMPRESSION_JPEG: case COMPRESSION_CCITTFAX4: return 1;
    default: return bytes / 4096 + 1;
    }
}

static int
s_check_blocks (const tiff_layout_t *self, reason_t reason)
{
    tiff_tag_t places = self->is_tiled? TAG_TILES: TAG_STRIPS;
    tiff_tag_t sizes = self->is_tiled? TAG_TILE_BYTES: TAG_STRIP_BYTES;
    if (self->fields [places].count != self->blocks || self->fields [sizes].count != self->blocks)
        return s_bad (reason, "damaged TIFF: %u strips or tiles are needed, there are %u places and %u sizes",
            self->blocks, self->fields [places].count, self->fields [sizes].count);
    uint64_t bytes = 0;
    for (uint32_t block = 0; block < self->blocks; block++) {
        uint32_t place = tiff_layout_value (self, places, block);
        uint32_t size = tiff_layout_value (self, sizes, block);
        if (size > self->size || place > self->size - size
        ||  size < s_least (self, tiff_layout_block_bytes (self, block)))
            return s_bad (reason, "damaged or truncated TIFF: strip or tile %u (%u bytes at %u) lies beyond "
                "the file's end, or is too short", block, size, place);
        bytes += size;
    }
    if (bytes > SHARED_MAX * (uint64_t) self->size)
        return s_bad (reason, "damaged TIFF: its strips or tiles have more than %d times the bytes of the "
            "file", SHARED_MAX);
    return 0;
}

const uint8_t *
tiff_layout_data (const tiff_layout_t *self, uint32_t block, size_t *bytes_p)
{
    *bytes_p = tiff_layout_value (self, self->is_tiled? TAG_TILE_BYTES: TAG_STRIP_BYTES, block);
    return self->bytes + tiff_layout_value (self, self->is_tiled? TAG_TILES: TAG_STRIPS, block);
}

int
tiff_layout_read (tiff_layout_t *self, const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
{
    assert (self && (bytes || !size) && error && error_bytes > 0);
    *self = (tiff_layout_t) { .bytes = bytes, .size = size };
    reason_t reason = { error, error_bytes };
    int rc = s_read_tags (self, reason);
    if (rc == 0)
        rc = s_read_kind (self, reason);
    if (rc == 0)
        rc = s_read_size (self, reason);
    return rc == 0? s_check_blocks (self, reason): rc;
}

//  image_reader's part for TIFF, on libtiff: the same two steps, the same results as Pillow.
//
//  Pixels are what Image.open (...).convert ("RGB") gives of the first page: 16 bits of grey are cut to 255,
//  of colours the upper 8 are taken; alpha is dropped (premultiplied colours are divided by it first), colour
//  profiles are not looked at.  A mask is grey or has a palette, as for PNG.
//  The layout below says which kinds are read: all tags of pixels are looked at before libtiff does.  libtiff
//  decodes strips and tiles, and finds its tables.  It allocates no more at once than a multiple of the
//  file's size; pixels take no more than DECODER_PIXELS_MAX allows.
//  All of the image is decoded, whatever the box: so a file is good or bad for every job alike.  Damage that
//  libtiff only warns of makes it bad; libjpeg's warnings do so beyond the number allowed, as in a JPEG.
//  libtiff's complaints come by handlers of this one file: nothing global, nothing on stderr.

#include "image_codec.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <zlib.h>
#include "instrument.h"
#include "orientation.h"

//  ---------------------------------------------------------------------------------------------------------
//  The layout
//
//  What the tags of a TIFF's first page say of its pixels: which kind, how many, where.
//
//  Pillow reads the tags itself, libtiff does too, and each mends in its own way what looks odd.  So nothing
//  odd is taken: a tag of pixels stands once, with values of a type and number that writers use, in the file;
//  tiles have sides that 16 divides; there are as many strips or tiles as the size needs, each with a place
//  and a size, inside the file, and long enough where it is not compressed.  Values of tags, and strips or
//  tiles, may not use the same bytes again and again, since each costs memory or time.
//  Kinds: grey and palettes of 1, 2, 4 and 8 bits, grey of 16, grey and alpha of 8, RGB and RGBA of 8 and 16,
//  YCbCr of 8 by JPEG; separate planes of RGB of 8; uncompressed, LZW, deflate, PackBits, JPEG (8 bits, no
//  alpha), fax group 4 (1 bit).  Others are bad, and the reason says what they are.
//  Plain data, which lends the file's bytes.  Nothing is allocated.

//  The tags that are looked at.
typedef enum { TAG_WIDTH, TAG_HEIGHT, TAG_BITS, TAG_COMPRESSION, TAG_PHOTOMETRIC, TAG_ORDER, TAG_STRIPS,
    TAG_TURN, TAG_SAMPLES, TAG_STRIP_HEIGHT, TAG_STRIP_BYTES, TAG_PLANES, TAG_PALETTE, TAG_TILE_WIDTH,
    TAG_TILE_HEIGHT, TAG_TILES, TAG_TILE_BYTES, TAG_EXTRA, TAG_FORMAT, TAG_PREDICTOR, TAGS } tiff_tag_t;

typedef struct {
    size_t place;                       //  in the file, of the first value
    uint32_t count, unit_bytes;         //  0: the tag is missing
} tiff_field_t;

typedef struct {
    const uint8_t *bytes;               //  the file, lent
    size_t size;
    uint64_t value_bytes;               //  of all tags, known or not, that lie outside of the directory
    tiff_field_t fields [TAGS];
    uint32_t height, width;
    uint32_t compression, photometric, bits, samples;
    bool is_tiled;
    bool is_planar;                     //  a block has one sample of each pixel
    bool is_premultiplied;
    uint32_t block_height, block_width; //  of a tile, or of a strip: a block
    uint32_t blocks;
    size_t block_stride;                //  bytes from row to row
} tiff_layout_t;

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

static int s_odd (reason_t reason, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static int
s_odd (reason_t reason, const char *format, ...)
{
    va_list values;
    va_start (values, format);
    vsnprintf (reason.text, reason.bytes, format, values);
    va_end (values);
    return -EBADMSG;
}

//  ---- layout: tags

//  A number of count bytes, which are there.
static uint32_t
s_number (const tiff_layout_t *self, size_t place, uint32_t count)
{
    uint32_t number = 0;
    for (uint32_t index = 0; index < count; index++)
        number = number << 8 | self->bytes [place + (*self->bytes == 'M'? index: count - 1 - index)];
    return number;
}

//  A tag's value; of one that is missing, what holds then.
static uint32_t
s_layout_value (const tiff_layout_t *self, tiff_tag_t tag, uint32_t index)
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
        return s_odd (reason, "damaged or truncated TIFF: the values of tag %u lie beyond its end", number);
    if (self->value_bytes > self->size)
        return s_odd (reason, "damaged TIFF: the values of its tags have more bytes than the file");
    bool is_list, is_resolution = number == TIFFTAG_XRESOLUTION || number == TIFFTAG_YRESOLUTION;
    tiff_tag_t tag = s_tag (number, &is_list);
    bool is_odd = tag == TAGS? number == TAG_WINDOWS_PHOTO || (is_resolution && type != TIFF_RATIONAL):
        (type != TIFF_SHORT && (type != TIFF_LONG || tag == TAG_PALETTE)) || field.count == 0
        || (field.count > 1 && !is_list) || self->fields [tag].count;
    if (is_odd)
        return s_odd (reason, "damaged or unsupported TIFF: tag %u comes twice, or its values are of a type "
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
        return s_odd (reason, "damaged or truncated TIFF: its tags lie beyond its end");
    int rc = 0;
    for (uint32_t entry = 0, entries = s_number (self, place, 2); rc == 0 && entry < entries; entry++)
        rc = s_take_entry (self, place + 2 + (size_t) entry * ENTRY_BYTES, reason);
    return rc;
}

//  ---- layout: kinds

//  Whether all values are the same, and there is one, or one for each sample.
static bool
s_is_even (const tiff_layout_t *self, tiff_tag_t tag)
{
    uint32_t count = self->fields [tag].count;
    for (uint32_t index = 1; index < count; index++)
        if (s_layout_value (self, tag, index) != s_layout_value (self, tag, 0))
            return false;
    return count <= 1 || count == self->samples;
}

//  Whether libtiff decodes such pixels as Pillow does.
static bool
s_is_known_compression (const tiff_layout_t *self)
{
    bool is_palette = self->photometric == PHOTOMETRIC_PALETTE;
    uint32_t order = s_layout_value (self, TAG_ORDER, 0);
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
    uint32_t planes = s_layout_value (self, TAG_PLANES, 0);
    uint32_t extra = s_layout_value (self, TAG_EXTRA, 0);
    bool is_rgb = self->photometric == PHOTOMETRIC_RGB, is_known = false;
    //  Pillow reads other planes wrong, where they are not compressed.
    bool has_planes = self->bits == 8 && ((is_rgb && self->samples == 3)
        || (self->samples == 1 && self->photometric != PHOTOMETRIC_MINISWHITE));
    for (size_t kind = 0; kind < sizeof s_kinds / sizeof *s_kinds; kind++)
        is_known |= self->photometric == s_kinds [kind].photometric && self->samples == s_kinds [kind].samples
            && (self->bits & s_kinds [kind].bits) && (self->bits & (self->bits - 1)) == 0
            && self->fields [TAG_EXTRA].count == s_kinds [kind].extra;
    return is_known && s_is_known_compression (self) && s_is_even (self, TAG_BITS)
        && s_is_even (self, TAG_FORMAT) && s_layout_value (self, TAG_FORMAT, 0) == SAMPLEFORMAT_UINT
        && (planes == PLANARCONFIG_CONTIG || (planes == PLANARCONFIG_SEPARATE && has_planes))
        && (extra == EXTRASAMPLE_UNASSALPHA || (is_rgb && extra == EXTRASAMPLE_UNSPECIFIED)
            || (is_rgb && extra == EXTRASAMPLE_ASSOCALPHA && self->bits == 8));
}

static int
s_read_kind (tiff_layout_t *self, reason_t reason)
{
    self->compression = s_layout_value (self, TAG_COMPRESSION, 0);
    self->photometric = s_layout_value (self, TAG_PHOTOMETRIC, 0);
    self->bits = s_layout_value (self, TAG_BITS, 0);
    self->samples = s_layout_value (self, TAG_SAMPLES, 0);
    self->is_planar = s_layout_value (self, TAG_PLANES, 0) == PLANARCONFIG_SEPARATE && self->samples > 1;
    self->is_premultiplied = s_layout_value (self, TAG_EXTRA, 0) == EXTRASAMPLE_ASSOCALPHA;
    if (!s_is_known_kind (self))
        return s_odd (reason, "unsupported TIFF (photometric %d, %u x %u bits, format %u, extra %u, "
            "compression %u, planes %u): docs/pipeline.md lists the kinds that are read",
            (int) self->photometric, self->samples, self->bits, s_layout_value (self, TAG_FORMAT, 0),
            s_layout_value (self, TAG_EXTRA, 0), self->compression, s_layout_value (self, TAG_PLANES, 0));
    uint32_t palette = self->fields [TAG_PALETTE].count;
    if (self->photometric == PHOTOMETRIC_PALETTE && palette != (uint32_t) IMAGE_COLOURS << self->bits)
        return s_odd (reason, "damaged TIFF: its palette has %u numbers, of %u", palette,
            (uint32_t) IMAGE_COLOURS << self->bits);
    return 0;
}

//  ---- layout: sizes and places

static int
s_read_size (tiff_layout_t *self, reason_t reason)
{
    const tiff_field_t *fields = self->fields;
    bool has_strips = fields [TAG_STRIPS].count || fields [TAG_STRIP_BYTES].count;
    self->is_tiled = fields [TAG_TILES].count || fields [TAG_TILE_BYTES].count
        || fields [TAG_TILE_WIDTH].count || fields [TAG_TILE_HEIGHT].count;
    uint64_t height = self->height = s_layout_value (self, TAG_HEIGHT, 0);
    uint64_t width = self->width = s_layout_value (self, TAG_WIDTH, 0);
    uint64_t rows = s_layout_value (self, self->is_tiled? TAG_TILE_HEIGHT: TAG_STRIP_HEIGHT, 0);
    uint64_t columns = self->is_tiled? s_layout_value (self, TAG_TILE_WIDTH, 0): width;
    if (!self->is_tiled && rows > height)
        rows = height;
    if (!rows || !columns || !height || !width || has_strips == self->is_tiled
    ||  (self->is_tiled && (rows % TILE_UNIT || columns % TILE_UNIT)))
        return s_odd (reason, "damaged TIFF: it must have pixels, and either strips, or tiles with sides "
            "that 16 divides");
    uint64_t down = (height + rows - 1) / rows, across = (width + columns - 1) / columns;
    uint64_t stride = (columns * self->bits * (self->is_planar? 1: self->samples) + 7) / 8;
    if (down * rows > DECODER_PIXELS_MAX || across * columns > DECODER_PIXELS_MAX
    ||  down * rows * across * columns > DECODER_PIXELS_MAX
    ||  stride * rows > DECODER_PIXELS_MAX * (uint64_t) IMAGE_COLOURS)
        return s_odd (reason, "TIFF with more pixels than the limit (%u x %u, in parts of %u x %u)",
            self->width, self->height, (uint32_t) columns, (uint32_t) rows);
    self->block_height = (uint32_t) rows;
    self->block_width = (uint32_t) columns;
    self->block_stride = (size_t) stride;
    self->blocks = (uint32_t) (down * across) * (self->is_planar? self->samples: 1);
    return 0;
}

//  The bytes of a block once decoded: the last strip has the rows that are left, a tile has all of its rows.
static size_t
s_layout_block_bytes (const tiff_layout_t *self, uint32_t block)
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
        return s_odd (reason, "damaged TIFF: %u strips or tiles are needed, there are %u places and %u sizes",
            self->blocks, self->fields [places].count, self->fields [sizes].count);
    uint64_t bytes = 0;
    for (uint32_t block = 0; block < self->blocks; block++) {
        uint32_t place = s_layout_value (self, places, block);
        uint32_t size = s_layout_value (self, sizes, block);
        if (size > self->size || place > self->size - size
        ||  size < s_least (self, s_layout_block_bytes (self, block)))
            return s_odd (reason, "damaged or truncated TIFF: strip or tile %u (%u bytes at %u) lies beyond "
                "the file's end, or is too short", block, size, place);
        bytes += size;
    }
    if (bytes > SHARED_MAX * (uint64_t) self->size)
        return s_odd (reason, "damaged TIFF: its strips or tiles have more than %d times the bytes of the "
            "file", SHARED_MAX);
    return 0;
}

//  0, or -EBADMSG with the reason.
static int
s_layout_read (tiff_layout_t *self, const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
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

//  ---------------------------------------------------------------------------------------------------------
//  The reader

enum {
    TIFF_READER_MAGIC = 0x74696666, VALUES = 256, COMPLAINT_BYTES = 160,
    //  What libtiff may allocate at once: its tables, of numbers in the file, and what it reads of the file.
    TABLE_GROWTH = 8, TABLE_BYTES = 1024 * 1024
};

typedef struct {
    uint32_t magic;
    TIFF *tiff;                         //  of one file, from open to the end of read; else NULL
    char complaint [COMPLAINT_BYTES];   //  libtiff's last words about it; "": none
    uint32_t warnings, warnings_max;    //  of libjpeg's
    bool is_odd;                        //  libtiff warned of pixels
    const uint8_t *bytes;               //  the file, and how far libtiff has read it
    size_t size, place;
    bool is_mask;
    bool is_wide;                       //  a mask of 16 bits
    tiff_layout_t layout;
    uint8_t table [VALUES] [IMAGE_COLOURS];     //  what values of one sample of at most 8 bits mean
    scratch_t block, pixels;
} tiff_reader_t;

//  ---------------------------------------------------------------------------------------------------------
//  What libtiff calls back

static tmsize_t
s_read_bytes (thandle_t handle, void *target, tmsize_t count)
{
    tiff_reader_t *self = handle;
    size_t left = self->size - self->place;
    size_t taken = count < 0? 0: (size_t) count < left? (size_t) count: left;
    if (taken)
        memcpy (target, self->bytes + self->place, taken);
    self->place += taken;
    return (tmsize_t) taken;
}

static tmsize_t
s_write_bytes (thandle_t handle, void *source, tmsize_t count)
{
    (void) handle, (void) source, (void) count;
    return 0;
}

static toff_t
s_seek (thandle_t handle, toff_t offset, int whence)
{
    tiff_reader_t *self = handle;
    toff_t wanted = whence == SEEK_END? self->size + offset: offset;        //  SEEK_CUR is never asked for
    self->place = wanted < self->size? (size_t) wanted: self->size;
    return wanted;
}

static int
s_close_nothing (thandle_t handle)
{
    (void) handle;
    return 0;
}

static toff_t
s_size (thandle_t handle)
{
    return ((tiff_reader_t *) handle)->size;
}

//  1: libtiff tells its global handler nothing.
static int
s_complain (TIFF *tiff, void *handle, const char *module, const char *format, va_list values)
{
    (void) tiff, (void) module;
    tiff_reader_t *self = handle;
    vsnprintf (self->complaint, COMPLAINT_BYTES, format, values);
    for (char *at = self->complaint; *at; at++)     //  it may quote the file
        if (*at < ' ' || *at > '~')
            *at = '?';
    return 1;
}

//  libjpeg's are of what can be read past, as in any JPEG; others of pixels that libtiff leaves out.
static int
s_warn (TIFF *tiff, void *handle, const char *module, const char *format, va_list values)
{
    tiff_reader_t *self = handle;
    if (module && strcmp (module, "JPEGLib") == 0)
        self->warnings++;
    else
        self->is_odd = true;
    return s_complain (tiff, handle, module, format, values);
}

//  ---------------------------------------------------------------------------------------------------------
//  Life

static void *
s_reader_new (void)
{
    tiff_reader_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = TIFF_READER_MAGIC;
    return self;
}

static void
s_close (tiff_reader_t *self)
{
    if (self->tiff)
        TIFFClose (self->tiff);
    self->tiff = NULL;
}

static void
s_reader_destroy (void *reader)
{
    tiff_reader_t *self = reader;
    if (!self)
        return;
    assert (self->magic == TIFF_READER_MAGIC);
    s_close (self);
    scratch_free (&self->block);
    scratch_free (&self->pixels);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening

static int
s_no_memory (const tiff_reader_t *self, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "not enough memory for a TIFF of %u x %u pixels", self->layout.width,
        self->layout.height);
    return -ENOMEM;
}

static int
s_bad (const char *reason, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "damaged or truncated TIFF: %s", reason);
    return -EBADMSG;
}

static int
s_open_file (tiff_reader_t *self, char *error, size_t error_bytes)
{
    const tiff_layout_t *layout = &self->layout;
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc ();
    if (!options)
        return s_no_memory (self, error, error_bytes);
    errno = 0;
    TIFFOpenOptionsSetMaxSingleMemAlloc (options, (tmsize_t) (self->size * TABLE_GROWTH + TABLE_BYTES));
    TIFFOpenOptionsSetErrorHandlerExtR (options, s_complain, self);
    TIFFOpenOptionsSetWarningHandlerExtR (options, s_warn, self);
    self->tiff = TIFFClientOpenExt ("TIFF", "rc", self, s_read_bytes, s_write_bytes, s_seek, s_close_nothing,
        s_size, NULL, NULL, options);
    TIFFOpenOptionsFree (options);
    if (!self->tiff)                        //  libtiff tells no reason; the C library leaves its own
        return errno == ENOMEM? s_no_memory (self, error, error_bytes):
            s_bad (self->complaint, error, error_bytes);
    if (layout->photometric == PHOTOMETRIC_YCBCR)
        TIFFSetField (self->tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    //  UNTESTED: no tag is known by which libtiff comes to another size.
    tmsize_t bytes = layout->is_tiled? TIFFTileSize (self->tiff): TIFFStripSize (self->tiff);
    return TIFFIsTiled (self->tiff) == layout->is_tiled
        && (size_t) bytes == layout->block_stride * layout->block_height? 0:
        s_bad ("its tags contradict each other", error, error_bytes);
}

//  What the values of one sample mean; of one bit a mask has truth values.
static void
s_fill_table (tiff_reader_t *self)
{
    const tiff_layout_t *layout = &self->layout;
    uint32_t highest = (1u << layout->bits) - 1;
    bool is_palette = layout->photometric == PHOTOMETRIC_PALETTE;
    bool is_truth = self->is_mask && layout->bits == 1;
    for (uint32_t value = 0; value <= highest; value++)
        for (uint32_t colour = 0; colour < IMAGE_COLOURS; colour++) {
            uint32_t grey = layout->photometric == PHOTOMETRIC_MINISWHITE? highest - value: value;
            self->table [value] [colour] = (uint8_t) (self->is_wide && colour? 0:
                !is_palette? is_truth? grey: grey * UINT8_MAX / highest:
                self->is_mask? value:
                s_layout_value (layout, TAG_PALETTE, colour * (highest + 1) + value) >> 8);
        }
}

//  Refuses where a mask would lose what it stands for, or a depth in a field of images what is above 255.
static int
s_check_kind (const tiff_layout_t *layout, const image_reader_options_t *options, char *error,
    size_t error_bytes)
{
    bool is_single = layout->samples == 1, is_deep = is_single && layout->bits > 8;
    if (options->is_mask && !is_single)
        snprintf (error, error_bytes, "a mask must be grey or have a palette: this TIFF has %u samples",
            layout->samples);
    else
    if (is_deep && !options->is_wide && (options->is_mask || options->is_field))
        snprintf (error, error_bytes, "%s: this TIFF has %u bits of grey; \"as\": \"mask\", \"dtype\": "
            "\"uint16\" reads them", options->is_mask? "a mask of \"uint8\" has at most 8 bits":
            "an image has 8 bits, and values above 255 would become 255", layout->bits);
    else
        return 0;
    return -EDOM;
}

static int
s_reader_open (void *reader, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    tiff_reader_t *self = reader;
    assert (self->magic == TIFF_READER_MAGIC);
    s_close (self);
    self->bytes = bytes;
    self->size = size;
    self->place = 0;
    self->is_mask = options->is_mask;
    self->is_wide = options->is_wide;
    self->warnings_max = options->warnings_max;
    *self->complaint = '\0';
    const tiff_layout_t *layout = &self->layout;
    int rc = s_layout_read (&self->layout, bytes, size, error, error_bytes);
    *height_p = layout->height;
    *width_p = layout->width;
    bool has_values = layout->samples == 1 && layout->bits <= 8;
    rc = rc? rc: s_check_kind (layout, options, error, error_bytes);
    if (rc == 0)
        rc = s_open_file (self, error, error_bytes);
    if (rc)
        s_close (self);
    else
    if (has_values)
        s_fill_table (self);
    return rc;
}

static bool
s_reader_clips (const uint8_t *bytes, size_t size)
{
    tiff_layout_t layout;
    char reason [COMPLAINT_BYTES];
    return s_layout_read (&layout, bytes, size, reason, sizeof reason) == 0 && layout.samples == 1
        && layout.bits > 8;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading: strip by strip, or tile by tile -> rows of RGB, or of a mask's values

static uint32_t
s_channels (const tiff_reader_t *self)
{
    return !self->is_mask? IMAGE_COLOURS: self->is_wide? IMAGE_WIDE: 1;
}

//  As Pillow: 16 bits of grey are cut to 255, of a colour the upper 8 are taken; premultiplied colours are
//  divided by alpha.
static uint8_t
s_colour (const tiff_layout_t *layout, const uint8_t *from, uint32_t colour)
{
    bool is_grey = layout->photometric == PHOTOMETRIC_MINISBLACK;
    uint32_t index = is_grey? 0: colour, value = from [index];
    if (layout->bits == 16) {
        uint16_t wide;
        memcpy (&wide, from + index * sizeof wide, sizeof wide);
        value = is_grey? wide: wide >> 8;
    }
    else
    if (layout->is_premultiplied)
        value = from [3]? value * UINT8_MAX / from [3]: 0;
    return (uint8_t) (value < UINT8_MAX? value: UINT8_MAX);
}

INSTRUMENT_ROWS static void
s_convert_row (const tiff_reader_t *self, const uint8_t *row, uint32_t count, uint8_t *target)
{
    const tiff_layout_t *layout = &self->layout;
    uint32_t channels = s_channels (self), bits = layout->bits, samples = layout->samples;
    instrument_written (target, (size_t) count * channels);
    if (bits == 8 && samples == 3 && !layout->is_planar) {
        memcpy (target, row, (size_t) count * IMAGE_COLOURS);
        return;
    }
    for (uint32_t column = 0; column < count; column++, target += channels)
        if (layout->is_planar)
            *target = row [column];
        else
        if (samples == 1 && bits > 8 && self->is_wide)
            memcpy (target, row + (size_t) column * IMAGE_WIDE, IMAGE_WIDE);
        else
        if (samples == 1 && bits <= 8) {
            size_t bit = (size_t) column * bits;
            uint32_t value = (uint32_t) row [bit / 8] >> (8 - bits - bit % 8) & ((1u << bits) - 1);
            memcpy (target, self->table [value], channels);
        }
        else
            for (uint32_t colour = 0; colour < channels; colour++)
                target [colour] = s_colour (layout, row + (size_t) column * samples * bits / 8, colour);
}

//  libtiff takes deflated data that give too much, and then not all that they should have given.  So they are
//  inflated here; undoing predictors and swapping bytes is libtiff's.
static bool
s_fill_block (tiff_reader_t *self, uint32_t block, size_t size)
{
    const tiff_layout_t *layout = &self->layout;
    if (layout->compression == COMPRESSION_ADOBE_DEFLATE || layout->compression == COMPRESSION_DEFLATE) {
        size_t deflated = s_layout_value (layout, layout->is_tiled? TAG_TILE_BYTES: TAG_STRIP_BYTES, block);
        const uint8_t *data = layout->bytes
            + s_layout_value (layout, layout->is_tiled? TAG_TILES: TAG_STRIPS, block);
        uLongf inflated = size;
        if (uncompress (self->block.data, &inflated, data, deflated) != Z_OK || inflated != size)
            return false;
        if (layout->bits <= 8 && s_layout_value (layout, TAG_PREDICTOR, 0) == PREDICTOR_NONE)
            return true;
    }
    tmsize_t wanted = (tmsize_t) size, count = layout->is_tiled?
        TIFFReadEncodedTile (self->tiff, block, self->block.data, wanted):
        TIFFReadEncodedStrip (self->tiff, block, self->block.data, wanted);
    return count == wanted && !self->is_odd;
}

//  The block of which the upper left pixel is at (top, left).
static bool
s_read_block (tiff_reader_t *self, uint32_t block, uint32_t top, uint32_t left, uint8_t *pixels)
{
    const tiff_layout_t *layout = &self->layout;
    if (!s_fill_block (self, block, s_layout_block_bytes (layout, block)))
        return false;
    size_t stride = (size_t) layout->width * s_channels (self);
    const uint8_t *data = self->block.data;
    uint32_t rows = layout->height - top, columns = layout->width - left;
    rows = rows < layout->block_height? rows: layout->block_height;
    columns = columns < layout->block_width? columns: layout->block_width;
    for (uint32_t row = 0; row < rows; row++)
        s_convert_row (self, data + row * layout->block_stride, columns,
            pixels + (top + row) * stride + (size_t) left * s_channels (self));
    return true;
}

static int
s_decode (tiff_reader_t *self, char *error, size_t error_bytes)
{
    const tiff_layout_t *layout = &self->layout;
    if (!scratch_need (&self->pixels, image_bytes (layout->height, layout->width, s_channels (self)))
    ||  !scratch_need (&self->block, layout->block_stride * layout->block_height))
        return s_no_memory (self, error, error_bytes);
    errno = 0;
    self->warnings = 0;
    self->is_odd = false;
    *self->complaint = '\0';
    uint32_t block = 0;
    for (uint32_t plane = 0; block < layout->blocks; plane++)
        for (uint32_t top = 0; top < layout->height; top += layout->block_height)
            for (uint32_t left = 0; left < layout->width; left += layout->block_width)
                if (!s_read_block (self, block++, top, left, (uint8_t *) self->pixels.data + plane))
                    return errno == ENOMEM? s_no_memory (self, error, error_bytes): s_bad (*self->complaint?
                        self->complaint: "a strip or tile does not give its pixels", error, error_bytes);
    return self->warnings <= self->warnings_max? 0: s_bad (self->complaint, error, error_bytes);
}

static int
s_reader_read (void *reader, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    tiff_reader_t *self = reader;
    assert (self->magic == TIFF_READER_MAGIC);
    assert (self->tiff);
    const image_box_t *box = &request->box;
    uint32_t height = self->layout.height, width = self->layout.width;
    int rc = s_decode (self, error, error_bytes);
    s_close (self);
    if (rc)
        return rc;
    uint32_t channels = s_channels (self);
    image_t whole = { self->pixels.data, (size_t) width * channels, height, width, channels };
    *pixels = (image_pixels_t) { .image = image_part (&whole, box), .height = box->height,
        .width = box->width };
    return 0;
}

//  The file itself is laid out as an EXIF block is.
static image_notes_t
s_reader_notes (const void *reader)
{
    const tiff_reader_t *self = reader;
    assert (self->magic == TIFF_READER_MAGIC);
    image_block_t file = { self->bytes, self->size };
    return (image_notes_t) { file, orientation_tiff_xmp (file) };
}

const image_codec_t tiff_reader = {
    .new = s_reader_new,
    .destroy = s_reader_destroy,
    .open = s_reader_open,
    .read = s_reader_read,
    .clips = s_reader_clips,
    .notes = s_reader_notes,
};

#include "tiff_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include "decode_limits.h"

enum {
    TIFF_READER_MAGIC = 0x74696666, VALUES = 256, COMPLAINT_BYTES = 160, TILE_UNIT = 16,
    //  The least that libtiff may allocate at once, for its tables, whatever the size of the file.
    ALLOCATION_BYTES_LEAST = 1024 * 1024,
    TABLE_GROWTH = 8                    //  of bytes in the file to 64-bit numbers
};

//  libtiff reads past tags that are cut short, and takes a missing palette for grey; Pillow refuses the file.
#define IO_ERROR "IO error during reading"

struct tiff_reader {
    uint32_t magic;
    TIFF *tiff;                         //  of one file, from open to the end of read; else NULL
    char complaint [COMPLAINT_BYTES];   //  libtiff's last words about it; "": none
    bool is_cut;                        //  values of a tag lie beyond the file's end
    const uint8_t *bytes;               //  the file, and how far it has been read
    size_t size;
    size_t place;
    //  The image
    bool is_mask;
    bool is_premultiplied;
    uint32_t height, width;
    uint32_t block_height, block_width; //  of a tile, or of a strip
    uint16_t photometric, bits, samples;
    uint8_t table [VALUES] [IMAGE_COLOURS];     //  what values of one sample of at most 8 bits mean
    scratch_t block;
    scratch_t pixels;
};

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

//  Of warnings and errors, which come behind them.  1: libtiff tells its global handler nothing.
static int
s_complain (TIFF *tiff, void *handle, const char *module, const char *format, va_list values)
{
    (void) tiff, (void) module;
    tiff_reader_t *self = handle;
    vsnprintf (self->complaint, COMPLAINT_BYTES, format, values);
    self->is_cut |= strncmp (format, IO_ERROR, strlen (IO_ERROR)) == 0;
    for (char *at = self->complaint; *at; at++)     //  it may quote the file
        if (*at < ' ' || *at > '~')
            *at = '?';
    return 1;
}

//  ---------------------------------------------------------------------------------------------------------
//  Life

tiff_reader_t *
tiff_reader_new (void)
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

void
tiff_reader_destroy (tiff_reader_t **self_p)
{
    assert (self_p);
    tiff_reader_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
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
    snprintf (error, error_bytes, "not enough memory for a TIFF of %zu bytes", self->size);
    return -ENOMEM;
}

static void
s_open_file (tiff_reader_t *self)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc ();
    if (!options)
        return;
    size_t most = self->size * TABLE_GROWTH + ALLOCATION_BYTES_LEAST;
    TIFFOpenOptionsSetMaxSingleMemAlloc (options, (tmsize_t) most);
    TIFFOpenOptionsSetErrorHandlerExtR (options, s_complain, self);
    TIFFOpenOptionsSetWarningHandlerExtR (options, s_complain, self);
    self->tiff = TIFFClientOpenExt ("TIFF", "rc", self, s_read_bytes, s_write_bytes, s_seek, s_close_nothing,
        s_size, NULL, NULL, options);
    TIFFOpenOptionsFree (options);
}

//  What the values of one sample mean, for photometric and bits; false: the palette is missing.
static bool
s_fill_table (tiff_reader_t *self)
{
    uint16_t *palette [IMAGE_COLOURS] = { NULL };
    bool is_palette = self->photometric == PHOTOMETRIC_PALETTE;
    if (is_palette && !TIFFGetField (self->tiff, TIFFTAG_COLORMAP, &palette [0], &palette [1], &palette [2]))
        return false;
    uint32_t highest = (1u << self->bits) - 1;
    bool is_truth = self->is_mask && self->bits == 1;
    for (uint32_t value = 0; value <= highest; value++)
        for (uint32_t colour = 0; colour < IMAGE_COLOURS; colour++) {
            uint32_t grey = self->photometric == PHOTOMETRIC_MINISWHITE? highest - value: value;
            self->table [value] [colour] = (uint8_t) (!is_palette? is_truth? grey: grey * UINT8_MAX / highest:
                self->is_mask? value: palette [colour] [value] >> 8);
        }
    return true;
}

//  Whether pixels of this kind of image come as Pillow's.
static bool
s_is_known_kind (tiff_reader_t *self, uint16_t extra_count, const uint16_t *extra)
{
    if (self->photometric == PHOTOMETRIC_SEPARATED)
        return self->bits == 8 && self->samples == 4 && extra_count == 0;
    if (self->photometric == PHOTOMETRIC_RGB) {
        self->is_premultiplied = extra_count == 1 && extra [0] == EXTRASAMPLE_ASSOCALPHA;
        return self->bits == 8 && ((self->samples == 3 && extra_count == 0)
            || (self->samples == 4 && extra_count <= 1));
    }
    if (self->photometric > PHOTOMETRIC_PALETTE || self->samples != 1 || extra_count)
        return false;
    if (self->bits == 16)
        return self->photometric == PHOTOMETRIC_MINISBLACK;
    return self->bits == 1 || self->bits == 2 || self->bits == 4 || self->bits == 8;
}

static int
s_check_kind (tiff_reader_t *self, char *error, size_t error_bytes)
{
    uint16_t compression, planes, order, format, extra_count = 0, *extra = NULL;
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_BITSPERSAMPLE, &self->bits);
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_SAMPLESPERPIXEL, &self->samples);
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_PLANARCONFIG, &planes);
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_FILLORDER, &order);
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted (self->tiff, TIFFTAG_EXTRASAMPLES, &extra_count, &extra);
    self->is_premultiplied = false;
    bool has_meaning = TIFFGetField (self->tiff, TIFFTAG_PHOTOMETRIC, &self->photometric);
    bool is_known = has_meaning && s_is_known_kind (self, extra_count, extra)
        && (planes == PLANARCONFIG_CONTIG || self->samples == 1) && order == FILLORDER_MSB2LSB
        && format == SAMPLEFORMAT_UINT
        && (compression == COMPRESSION_NONE || compression == COMPRESSION_LZW
            || compression == COMPRESSION_PACKBITS || compression == COMPRESSION_ADOBE_DEFLATE
            || compression == COMPRESSION_DEFLATE);
    if (!is_known) {
        snprintf (error, error_bytes, "unsupported TIFF (photometric %d, %u x %u bits, %u extra, sample "
            "format %u, compression %u, planes %u, fill order %u): supported are grey and palettes of 1 to 8 "
            "bits, grey of 16, RGB, RGBA and CMYK of 8, interleaved; uncompressed, LZW, deflate or PackBits",
            has_meaning? self->photometric: -1, self->samples, self->bits, extra_count, format, compression,
            planes, order);
        return -EBADMSG;
    }
    if (self->is_mask && (self->samples > 1 || self->bits > 8)) {
        snprintf (error, error_bytes, "a mask must be grey or have a palette, with at most 8 bits: this TIFF "
            "has %u samples of %u bits", self->samples, self->bits);
        return -EDOM;
    }
    if (self->samples > 1 || self->bits > 8 || s_fill_table (self))
        return 0;
    snprintf (error, error_bytes, "damaged TIFF: it has no palette");
    return -EBADMSG;
}

//  Before anything is allocated for pixels: those of the image, and of its tiles with what they overhang.
static int
s_check_size (tiff_reader_t *self, char *error, size_t error_bytes)
{
    self->height = self->width = self->block_height = self->block_width = 0;
    TIFFGetField (self->tiff, TIFFTAG_IMAGELENGTH, &self->height);
    TIFFGetField (self->tiff, TIFFTAG_IMAGEWIDTH, &self->width);
    uint64_t height = self->height, width = self->width;
    if (TIFFIsTiled (self->tiff)) {
        TIFFGetField (self->tiff, TIFFTAG_TILELENGTH, &self->block_height);
        TIFFGetField (self->tiff, TIFFTAG_TILEWIDTH, &self->block_width);
        if (self->block_height % TILE_UNIT || self->block_width % TILE_UNIT)
            self->block_height = 0;
    }
    else {
        self->block_width = self->width;
        TIFFGetFieldDefaulted (self->tiff, TIFFTAG_ROWSPERSTRIP, &self->block_height);
        if (self->block_height > height)
            self->block_height = self->height;
    }
    if (!height || !width || !self->block_height || !self->block_width) {
        snprintf (error, error_bytes, "damaged TIFF: no pixels, or tiles with sides that 16 does not divide");
        return -EBADMSG;
    }
    uint64_t down = (height + self->block_height - 1) / self->block_height * self->block_height;
    uint64_t across = (width + self->block_width - 1) / self->block_width * self->block_width;
    if (down <= DECODER_PIXELS_MAX && across <= DECODER_PIXELS_MAX && down * across <= DECODER_PIXELS_MAX)
        return 0;
    snprintf (error, error_bytes, "TIFF with more pixels than the limit (%u x %u, in parts of %u x %u)",
        self->width, self->height, self->block_width, self->block_height);
    return -EBADMSG;
}

int
tiff_reader_open (tiff_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    assert (self);
    assert (self->magic == TIFF_READER_MAGIC);
    assert (options && (bytes || !size) && height_p && width_p && error && error_bytes > 0);
    s_close (self);
    self->bytes = bytes;
    self->size = size;
    self->place = 0;
    self->is_mask = options->is_mask;
    *self->complaint = '\0';
    self->is_cut = false;
    errno = 0;
    s_open_file (self);
    if (!self->tiff && errno == ENOMEM)     //  the C library's: libtiff tells no reason
        return s_no_memory (self, error, error_bytes);
    if (!self->tiff || self->is_cut) {
        s_close (self);
        snprintf (error, error_bytes, "damaged or truncated TIFF: %s", self->complaint);
        return -EBADMSG;
    }
    int rc = s_check_size (self, error, error_bytes);
    if (rc == 0)
        rc = s_check_kind (self, error, error_bytes);
    if (rc)
        s_close (self);
    *height_p = self->height;
    *width_p = self->width;
    return rc;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading

//  Pillow's: of ink, white less black, less the ink's rounded share of that.
static void
s_convert_colour (const tiff_reader_t *self, const uint8_t *from, uint8_t *target)
{
    for (uint32_t colour = 0; colour < IMAGE_COLOURS; colour++) {
        uint32_t value = from [colour];
        if (self->photometric == PHOTOMETRIC_SEPARATED) {
            uint32_t white = UINT8_MAX - from [3], share = value * white + 128;
            value = white - ((share + (share >> 8)) >> 8);
        }
        else
        if (self->is_premultiplied)
            value = from [3]? value * UINT8_MAX / from [3]: 0;
        target [colour] = (uint8_t) (value < UINT8_MAX? value: UINT8_MAX);
    }
}

static void
s_convert_row (const tiff_reader_t *self, const uint8_t *row, uint32_t count, uint8_t *target)
{
    uint32_t channels = self->is_mask? 1: IMAGE_COLOURS, bits = self->bits;
    for (uint32_t column = 0; column < count; column++, target += channels)
        if (self->samples > 1)
            s_convert_colour (self, row + (size_t) column * self->samples, target);
        else
        if (bits == 16) {
            uint16_t value;
            memcpy (&value, row + (size_t) column * sizeof value, sizeof value);
            memset (target, value < UINT8_MAX? value: UINT8_MAX, channels);
        }
        else {
            size_t bit = (size_t) column * bits;
            uint32_t value = (uint32_t) row [bit / 8] >> (8 - bits - bit % 8) & ((1u << bits) - 1);
            memcpy (target, self->table [value], channels);
        }
}

//  The strip or tile that begins at (top, left).
static bool
s_read_block (tiff_reader_t *self, uint32_t top, uint32_t left, size_t block_stride)
{
    uint8_t *block = self->block.data;
    uint32_t rows = self->height - top < self->block_height? self->height - top: self->block_height;
    uint32_t columns = self->width - left < self->block_width? self->width - left: self->block_width;
    bool is_tile = TIFFIsTiled (self->tiff);
    tmsize_t size = (tmsize_t) (block_stride * (is_tile? self->block_height: rows));
    tmsize_t count = is_tile?
        TIFFReadEncodedTile (self->tiff, TIFFComputeTile (self->tiff, left, top, 0, 0), block, size):
        TIFFReadEncodedStrip (self->tiff, TIFFComputeStrip (self->tiff, top, 0), block, size);
    if (count != size)
        return false;
    size_t channels = self->is_mask? 1: IMAGE_COLOURS;
    uint8_t *target = self->pixels.data;
    for (uint32_t row = 0; row < rows; row++)
        s_convert_row (self, block + row * block_stride, columns,
            target + ((size_t) (top + row) * self->width + left) * channels);
    return true;
}

static int
s_decode (tiff_reader_t *self, char *error, size_t error_bytes)
{
    size_t block_stride = ((size_t) self->block_width * self->samples * self->bits + 7) / 8;
    size_t channels = self->is_mask? 1: IMAGE_COLOURS;
    if (!scratch_need (&self->pixels, (size_t) self->width * self->height * channels)
    ||  !scratch_need (&self->block, block_stride * self->block_height))
        return s_no_memory (self, error, error_bytes);
    errno = 0;
    for (uint32_t top = 0; top < self->height; top += self->block_height)
        for (uint32_t left = 0; left < self->width; left += self->block_width)
            if (!s_read_block (self, top, left, block_stride)) {
                if (errno == ENOMEM)
                    return s_no_memory (self, error, error_bytes);
                snprintf (error, error_bytes, "damaged or truncated TIFF: %s",
                    *self->complaint? self->complaint: "a strip or tile is too short");
                return -EBADMSG;
            }
    return 0;
}

int
tiff_reader_read (tiff_reader_t *self, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    assert (self);
    assert (self->magic == TIFF_READER_MAGIC);
    assert (self->tiff);
    assert (request && pixels && error && error_bytes > 0);
    const image_box_t *box = &request->box;
    assert (box->height > 0 && box->height <= self->height && box->top <= self->height - box->height);
    assert (box->width > 0 && box->width <= self->width && box->left <= self->width - box->width);
    int rc = s_decode (self, error, error_bytes);
    s_close (self);
    if (rc)
        return rc;
    uint32_t channels = self->is_mask? 1: IMAGE_COLOURS;
    size_t stride = (size_t) self->width * channels;
    uint8_t *first = self->pixels.data;
    first += box->top * stride + (size_t) box->left * channels;
    *pixels = (image_pixels_t) {
        .image = { first, stride, box->height, box->width, channels },
        .height = box->height,
        .width = box->width
    };
    return 0;
}

const uint8_t *
tiff_reader_exif (const tiff_reader_t *self, size_t *size_p)
{
    assert (self);
    assert (self->magic == TIFF_READER_MAGIC);
    assert (size_p);
    *size_p = self->size;
    return self->bytes;
}

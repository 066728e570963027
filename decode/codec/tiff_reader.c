#include "tiff_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <zlib.h>
#include "instrument.h"
#include "tiff_layout.h"

enum {
    TIFF_READER_MAGIC = 0x74696666, VALUES = 256, COMPLAINT_BYTES = 160,
    //  What libtiff may allocate at once: its tables, of numbers in the file, and what it reads of the file.
    TABLE_GROWTH = 8, TABLE_BYTES = 1024 * 1024
};

struct tiff_reader {
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
                tiff_layout_value (layout, TAG_PALETTE, colour * (highest + 1) + value) >> 8);
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
    self->is_wide = options->is_wide;
    self->warnings_max = options->warnings_max;
    *self->complaint = '\0';
    const tiff_layout_t *layout = &self->layout;
    int rc = tiff_layout_read (&self->layout, bytes, size, error, error_bytes);
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

bool
tiff_reader_clips (const uint8_t *bytes, size_t size)
{
    tiff_layout_t layout;
    char reason [COMPLAINT_BYTES];
    return tiff_layout_read (&layout, bytes, size, reason, sizeof reason) == 0 && layout.samples == 1
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
        size_t deflated;
        const uint8_t *data = tiff_layout_data (layout, block, &deflated);
        uLongf inflated = size;
        if (uncompress (self->block.data, &inflated, data, deflated) != Z_OK || inflated != size)
            return false;
        if (layout->bits <= 8 && tiff_layout_value (layout, TAG_PREDICTOR, 0) == PREDICTOR_NONE)
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
    if (!s_fill_block (self, block, tiff_layout_block_bytes (layout, block)))
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

int
tiff_reader_read (tiff_reader_t *self, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    assert (self);
    assert (self->magic == TIFF_READER_MAGIC);
    assert (self->tiff);
    assert (request && pixels && error && error_bytes > 0);
    const image_box_t *box = &request->box;
    uint32_t height = self->layout.height, width = self->layout.width;
    assert (box->height > 0 && box->height <= height && box->top <= height - box->height);
    assert (box->width > 0 && box->width <= width && box->left <= width - box->width);
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

const uint8_t *
tiff_reader_exif (const tiff_reader_t *self, size_t *size_p)
{
    assert (self);
    assert (self->magic == TIFF_READER_MAGIC);
    assert (size_p);
    *size_p = self->size;
    return self->bytes;
}

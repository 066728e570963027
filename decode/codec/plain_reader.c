#include "plain_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "plain_image.h"

enum { PLAIN_READER_MAGIC = 0x706c6169 };

typedef struct {
    const char *name;
    const char *(*open) (plain_image_t *self);
    const char *(*decode) (const plain_image_t *self, uint8_t *target);
} format_t;

struct plain_reader {
    uint32_t magic;
    const format_t *format;             //  of the image that is open; else NULL
    plain_image_t image;
    bool is_mask;
    bool is_field;
    scratch_t decoded;                  //  all of the image: values or colours
    scratch_t pixels;                   //  of the box, where decoded has values
};

static const format_t s_formats [] = {
    [FILE_KIND_GIF] = { "GIF", plain_gif_open, plain_gif_decode },
    [FILE_KIND_BMP] = { "BMP", plain_bmp_open, plain_bmp_decode },
    [FILE_KIND_PNM] = { "PBM, PGM or PPM", plain_pnm_open, plain_pnm_decode },
};

plain_reader_t *
plain_reader_new (void)
{
    plain_reader_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = PLAIN_READER_MAGIC;
    return self;
}

void
plain_reader_destroy (plain_reader_t **self_p)
{
    assert (self_p);
    plain_reader_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == PLAIN_READER_MAGIC);
    scratch_free (&self->decoded);
    scratch_free (&self->pixels);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening

static int
s_check (const plain_reader_t *self, char *error, size_t error_bytes)
{
    const plain_image_t *image = &self->image;
    const char *name = self->format->name;
    if (image->height == 0 || image->width == 0) {
        snprintf (error, error_bytes, "damaged %s: an image without pixels (%u x %u)", name, image->width,
            image->height);
        return -EBADMSG;
    }
    if ((uint64_t) image->height * image->width > DECODER_PIXELS_MAX) {
        snprintf (error, error_bytes, "%s with more pixels than the limit (%u x %u pixels)", name,
            image->width, image->height);
        return -EBADMSG;
    }
    if (self->is_mask && (!image->has_values || image->is_deep)) {
        snprintf (error, error_bytes, "a mask must be grey or have a palette, with at most 8 bits: this %s "
            "%s", name, image->is_deep? "has more": "is in colour");
        return -EDOM;
    }
    if (self->is_field && image->is_deep) {
        snprintf (error, error_bytes, "an image has 8 bits, and values above 255 would become 255: this %s "
            "has 16 bits of grey; \"as\": \"mask\", \"dtype\": \"uint16\" reads them of a PNG or a TIFF",
            name);
        return -EDOM;
    }
    return 0;
}

int
plain_reader_open (plain_reader_t *self, file_kind_t kind, const image_reader_options_t *options,
    const uint8_t *bytes, size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    assert (self);
    assert (self->magic == PLAIN_READER_MAGIC);
    assert (options && bytes && height_p && width_p && error && error_bytes > 0);
    assert (kind == FILE_KIND_GIF || kind == FILE_KIND_BMP || kind == FILE_KIND_PNM);
    self->format = &s_formats [kind];
    self->image = (plain_image_t) { .bytes = bytes, .size = size };
    self->is_mask = options->is_mask;
    self->is_field = options->is_field;
    const char *wrong = self->format->open (&self->image);
    if (wrong)
        snprintf (error, error_bytes, "damaged or unsupported %s: %s", self->format->name, wrong);
    int rc = wrong? -EBADMSG: s_check (self, error, error_bytes);
    if (rc)
        self->format = NULL;
    *height_p = self->image.height;
    *width_p = self->image.width;
    return rc;
}

bool
plain_reader_clips (file_kind_t kind, const uint8_t *bytes, size_t size)
{
    plain_image_t image = { .bytes = bytes, .size = size };
    return kind == FILE_KIND_PNM && !plain_pnm_open (&image) && image.is_deep;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading: all pixels -> the colours of those in the box

static int
s_decode (plain_reader_t *self, const image_box_t *box, char *error, size_t error_bytes)
{
    const plain_image_t *image = &self->image;
    size_t bytes = image_bytes (image->height, image->width, image->has_values? 1: IMAGE_COLOURS);
    bool looks_up = image->has_values && !self->is_mask;
    if (!scratch_need (&self->decoded, bytes)
    ||  (looks_up && !scratch_need (&self->pixels, image_bytes (box->height, box->width, IMAGE_COLOURS)))) {
        snprintf (error, error_bytes, "not enough memory for a %s of %u x %u pixels", self->format->name,
            image->width, image->height);
        return -ENOMEM;
    }
    memset (self->decoded.data, 0, bytes);
    const char *wrong = self->format->decode (image, self->decoded.data);
    if (wrong)
        snprintf (error, error_bytes, "damaged or truncated %s: %s", self->format->name, wrong);
    return wrong? -EBADMSG: 0;
}

static image_t
s_look_up (const plain_reader_t *self, const image_t *values)
{
    uint8_t *target = self->pixels.data;
    for (uint32_t row = 0; row < values->height; row++)
        for (uint32_t column = 0; column < values->width; column++, target += IMAGE_COLOURS)
            memcpy (target, self->image.colours [*image_at (values, row, column)], IMAGE_COLOURS);
    return (image_t) { self->pixels.data, (size_t) values->width * IMAGE_COLOURS, values->height,
        values->width, IMAGE_COLOURS };
}

int
plain_reader_read (plain_reader_t *self, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    assert (self);
    assert (self->magic == PLAIN_READER_MAGIC);
    assert (self->format);
    assert (request && pixels && error && error_bytes > 0);
    const image_box_t *box = &request->box;
    const plain_image_t *image = &self->image;
    assert (box->height > 0 && box->height <= image->height && box->top <= image->height - box->height);
    assert (box->width > 0 && box->width <= image->width && box->left <= image->width - box->width);
    int rc = s_decode (self, box, error, error_bytes);
    self->format = NULL;
    if (rc)
        return rc;
    uint32_t channels = image->has_values? 1: IMAGE_COLOURS;
    image_t whole = { self->decoded.data, (size_t) image->width * channels, image->height, image->width,
        channels };
    image_t part = image_part (&whole, box);
    *pixels = (image_pixels_t) { .image = image->has_values && !self->is_mask? s_look_up (self, &part): part,
        .height = box->height, .width = box->width };
    return 0;
}

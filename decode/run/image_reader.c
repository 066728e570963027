#include "image_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "file_kind.h"
#include "jpeg_reader.h"
#include "orientation.h"

enum { IMAGE_READER_MAGIC = 0x696d6167 };

//  JPEG first: more is asked of it.
static const struct { const image_codec_t *codec; unsigned kinds; } s_codecs [] = {
    { &jpeg_reader, 1 << FILE_KIND_JPEG },
    { &plain_reader, 1 << FILE_KIND_GIF | 1 << FILE_KIND_BMP | 1 << FILE_KIND_PNM },
#ifdef TUREEN_PNG
    { &png_reader, 1 << FILE_KIND_PNG },
#endif
#ifdef TUREEN_WEBP
    { &webp_reader, 1 << FILE_KIND_WEBP },
#endif
#ifdef TUREEN_TIFF
    { &tiff_reader, 1 << FILE_KIND_TIFF },
#endif
};

enum { JPEG, CODECS = sizeof s_codecs / sizeof *s_codecs };

struct image_reader {
    uint32_t magic;
    void *readers [CODECS];
    //  The image that is open.
    size_t codec;               //  CODECS: none is
    file_kind_t kind;
    orientation_t orientation;
    bool was_jpeg;              //  the image that was read last
    uint32_t height;            //  as it is stored
    uint32_t width;
    scratch_t turned;
};

image_reader_t *
image_reader_new (void)
{
    image_reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = IMAGE_READER_MAGIC;
    self->codec = CODECS;
    for (size_t codec = 0; codec < CODECS && self; codec++)
        if (!(self->readers [codec] = s_codecs [codec].codec->new ()))
            image_reader_destroy (&self);
    return self;
}

void
image_reader_destroy (image_reader_t **self_p)
{
    image_reader_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == IMAGE_READER_MAGIC);
    int error = errno;          //  image_reader_new's
    for (size_t codec = 0; codec < CODECS; codec++)
        s_codecs [codec].codec->destroy (self->readers [codec]);
    scratch_free (&self->turned);
    self->magic = 0;
    free (self);
    errno = error;
}

//  ---------------------------------------------------------------------------------------------------------
//  What is read

const char *
image_reader_formats (void)
{
    return IMAGE_READER_FORMATS;
}

//  What another pipeline reads is as good as it was.
static int
s_refuse (file_kind_t kind, const char *name, size_t size, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "not an image that this build reads: the file is %s (%zu bytes); it reads "
        "%s", name, size, image_reader_formats ());
    return kind == FILE_KIND_ARRAY || kind == FILE_KIND_AUDIO? -EDOM: -EBADMSG;
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening

//  CODECS: none reads files of this kind.
static size_t
s_codec_of (file_kind_t kind)
{
    size_t codec = 0;
    while (codec < CODECS && !(s_codecs [codec].kinds >> kind & 1))
        codec++;
    return codec;
}

//  Pillow turns a TIFF in any case, by its own tag.
static orientation_t
s_orientation (const image_reader_t *self, const image_reader_options_t *options)
{
    const image_codec_t *codec = s_codecs [self->codec].codec;
    image_notes_t notes = { { NULL, 0 }, { NULL, 0 } };
    if (codec->notes && (options->orientation || self->kind == FILE_KIND_TIFF))
        notes = codec->notes (self->readers [self->codec]);
    if (!options->orientation)
        notes.xmp = (image_block_t) { NULL, 0 };
    return orientation_of_number (orientation_number (notes.exif, notes.xmp));
}

int
image_reader_open (image_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    assert (self->magic == IMAGE_READER_MAGIC);
    assert (error && error_bytes > 0);
    const char *name;
    file_kind_t kind = file_kind (bytes, size, &name);
    size_t codec = s_codec_of (kind);
    self->codec = CODECS;
    if (options->is_wide && (kind == FILE_KIND_JPEG || kind == FILE_KIND_WEBP || kind == FILE_KIND_GIF
    ||  kind == FILE_KIND_BMP || kind == FILE_KIND_PNM)) {
        snprintf (error, error_bytes, "a mask of \"uint16\" must be a PNG or a TIFF: the file is %s", name);
        return -EDOM;
    }
    int rc = codec == CODECS? s_refuse (kind, name, size, error, error_bytes):
        s_codecs [codec].codec->open (self->readers [codec], options, bytes, size, &self->height,
            &self->width, error, error_bytes);
    if (rc)
        return rc;
    self->codec = codec;
    self->kind = kind;
    self->orientation = s_orientation (self, options);
    *height_p = self->orientation.swaps? self->width: self->height;
    *width_p = self->orientation.swaps? self->height: self->width;
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading

//  Where the wanted box is in the view, once that is turned.
static void
s_turn_place (orientation_t orientation, const image_pixels_t *stored, image_pixels_t *turned)
{
    double top = orientation.down? stored->image.height - stored->top - stored->height: stored->top;
    double left = orientation.across? stored->image.width - stored->left - stored->width: stored->left;
    turned->top = orientation.swaps? left: top;
    turned->left = orientation.swaps? top: left;
    turned->height = orientation.swaps? stored->width: stored->height;
    turned->width = orientation.swaps? stored->height: stored->width;
}

static int
s_turn (image_reader_t *self, const image_pixels_t *stored, image_pixels_t *turned, char *error,
    size_t error_bytes)
{
    const image_t *image = &stored->image;
    if (!scratch_need (&self->turned, image_bytes (image->height, image->width, image->channels))) {
        snprintf (error, error_bytes, "not enough memory to turn an image of %u x %u pixels", image->width,
            image->height);
        return -ENOMEM;
    }
    uint32_t height = self->orientation.swaps? image->width: image->height;
    uint32_t width = self->orientation.swaps? image->height: image->width;
    size_t stride = image_bytes (1, width, image->channels);
    orientation_turn (self->orientation, image, self->turned.data, stride);
    turned->image = (image_t) { self->turned.data, stride, height, width, image->channels };
    s_turn_place (self->orientation, stored, turned);
    return 0;
}

int
image_reader_read (image_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes)
{
    assert (self->magic == IMAGE_READER_MAGIC);
    assert (self->codec < CODECS);
    assert (error && error_bytes > 0);
    orientation_t orientation = self->orientation;
    image_request_t wanted = *request;
    wanted.box = orientation_stored_box (orientation, &request->box, self->height, self->width);
    const image_box_t *box = &wanted.box;
    assert (box->height > 0 && box->height <= self->height && box->top <= self->height - box->height);
    assert (box->width > 0 && box->width <= self->width && box->left <= self->width - box->width);
    if (orientation.swaps && request->least_height > 0) {
        wanted.least_height = request->least_width > 0? request->least_width: 1;
        wanted.least_width = request->least_height;
    }
    image_pixels_t stored;
    int rc = s_codecs [self->codec].codec->read (self->readers [self->codec], &wanted,
        orientation_turns (orientation)? &stored: pixels, error, error_bytes);
    self->was_jpeg = self->codec == JPEG;
    self->codec = CODECS;           //  read once
    if (rc == 0 && orientation_turns (orientation))
        rc = s_turn (self, &stored, pixels, error, error_bytes);
    return rc;
}

bool
image_reader_clips (const uint8_t *bytes, size_t size)
{
    const char *name;
    size_t codec = s_codec_of (file_kind (bytes, size, &name));
    return codec < CODECS && s_codecs [codec].codec->clips && s_codecs [codec].codec->clips (bytes, size);
}

int
image_reader_rows (image_reader_t *self, const uint8_t *bytes, size_t size, const uint8_t **rows_p,
    size_t *rows_bytes_p)
{
    assert (self->magic == IMAGE_READER_MAGIC);
    const char *name;
    self->codec = CODECS;
    *rows_p = NULL;
    *rows_bytes_p = 0;
    return file_kind (bytes, size, &name) == FILE_KIND_JPEG?
        jpeg_reader_rows (self->readers [JPEG], bytes, size, rows_p, rows_bytes_p): 0;
}

size_t
image_reader_learned (image_reader_t *self, const uint8_t **rows_p)
{
    assert (self->magic == IMAGE_READER_MAGIC);
    return self->was_jpeg? jpeg_reader_learned (self->readers [JPEG], rows_p): 0;
}

#include "image_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "file_kind.h"
#include "jpeg_reader.h"
#include "orientation.h"
#include "plain_reader.h"
#ifdef TUREEN_PNG
#include "png_reader.h"
#endif
#ifdef TUREEN_WEBP
#include "webp_reader.h"
#endif
#ifdef TUREEN_TIFF
#include "tiff_reader.h"
#endif

enum { IMAGE_READER_MAGIC = 0x696d6167 };

struct image_reader {
    uint32_t magic;
    jpeg_reader_t *jpeg;
    plain_reader_t *plain;
#ifdef TUREEN_PNG
    png_reader_t *png;
#endif
#ifdef TUREEN_WEBP
    webp_reader_t *webp;
#endif
#ifdef TUREEN_TIFF
    tiff_reader_t *tiff;
#endif
    //  The image that is open.
    file_kind_t kind;           //  FILE_KIND_OTHER: none is
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
    self->jpeg = jpeg_reader_new ();
    self->plain = self->jpeg? plain_reader_new (): NULL;
    bool is_whole = self->plain;
#ifdef TUREEN_PNG
    self->png = is_whole? png_reader_new (): NULL;
    is_whole = self->png;
#endif
#ifdef TUREEN_WEBP
    self->webp = is_whole? webp_reader_new (): NULL;
    is_whole = self->webp;
#endif
#ifdef TUREEN_TIFF
    self->tiff = is_whole? tiff_reader_new (): NULL;
    is_whole = self->tiff;
#endif
    if (!is_whole)
        image_reader_destroy (&self);
    return self;
}

void
image_reader_destroy (image_reader_t **self_p)
{
    assert (self_p);
    image_reader_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == IMAGE_READER_MAGIC);
    int error = errno;          //  image_reader_new's
    jpeg_reader_destroy (&self->jpeg);
    plain_reader_destroy (&self->plain);
#ifdef TUREEN_PNG
    png_reader_destroy (&self->png);
#endif
#ifdef TUREEN_WEBP
    webp_reader_destroy (&self->webp);
#endif
#ifdef TUREEN_TIFF
    tiff_reader_destroy (&self->tiff);
#endif
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

//  Of no metadata that Pillow looks at.
static bool
s_is_plain (file_kind_t kind)
{
    return kind == FILE_KIND_GIF || kind == FILE_KIND_BMP || kind == FILE_KIND_PNM;
}

//  The EXIF block of the open image, NULL if there is none.
static const uint8_t *
s_exif (const image_reader_t *self, size_t *size_p)
{
#ifdef TUREEN_PNG
    if (self->kind == FILE_KIND_PNG)
        return png_reader_exif (self->png, size_p);
#endif
#ifdef TUREEN_WEBP
    if (self->kind == FILE_KIND_WEBP)
        return webp_reader_exif (self->webp, size_p);
#endif
#ifdef TUREEN_TIFF
    if (self->kind == FILE_KIND_TIFF)
        return tiff_reader_exif (self->tiff, size_p);
#endif
    return jpeg_reader_exif (self->jpeg, size_p);
}

//  Its XMP packet.
static image_block_t
s_xmp (const image_reader_t *self)
{
#ifdef TUREEN_PNG
    if (self->kind == FILE_KIND_PNG)
        return png_reader_xmp (self->png);
#endif
#ifdef TUREEN_WEBP
    if (self->kind == FILE_KIND_WEBP)
        return webp_reader_xmp (self->webp);
#endif
#ifdef TUREEN_TIFF
    if (self->kind == FILE_KIND_TIFF) {
        image_block_t file;
        file.bytes = tiff_reader_exif (self->tiff, &file.size);
        return orientation_tiff_xmp (file);
    }
#endif
    return jpeg_reader_xmp (self->jpeg);
}

//  Pillow turns a TIFF in any case, by its own tag.
static orientation_t
s_orientation (const image_reader_t *self, const image_reader_options_t *options)
{
    image_block_t exif = { NULL, 0 }, xmp = { NULL, 0 };
    if (s_is_plain (self->kind))
        return orientation_of_number (1);
    if (options->orientation || self->kind == FILE_KIND_TIFF)
        exif.bytes = s_exif (self, &exif.size);
    if (options->orientation)
        xmp = s_xmp (self);
    return orientation_of_number (orientation_number (exif, xmp));
}

int
image_reader_open (image_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    assert (self);
    assert (self->magic == IMAGE_READER_MAGIC);
    assert (error && error_bytes > 0);
    const char *name;
    file_kind_t kind = file_kind (bytes, size, &name);
    self->kind = FILE_KIND_OTHER;
    int rc;
    if (options->is_wide && (kind == FILE_KIND_JPEG || kind == FILE_KIND_WEBP || s_is_plain (kind))) {
        snprintf (error, error_bytes, "a mask of \"uint16\" must be a PNG or a TIFF: the file is %s", name);
        return -EDOM;
    }
    if (kind == FILE_KIND_JPEG)
        rc = jpeg_reader_open (self->jpeg, options, bytes, size, &self->height, &self->width, error,
            error_bytes);
    else if (s_is_plain (kind))
        rc = plain_reader_open (self->plain, kind, options, bytes, size, &self->height, &self->width, error,
            error_bytes);
#ifdef TUREEN_PNG
    else if (kind == FILE_KIND_PNG)
        rc = png_reader_open (self->png, options, bytes, size, &self->height, &self->width, error,
            error_bytes);
#endif
#ifdef TUREEN_WEBP
    else if (kind == FILE_KIND_WEBP)
        rc = webp_reader_open (self->webp, options, bytes, size, &self->height, &self->width, error,
            error_bytes);
#endif
#ifdef TUREEN_TIFF
    else if (kind == FILE_KIND_TIFF)
        rc = tiff_reader_open (self->tiff, options, bytes, size, &self->height, &self->width, error,
            error_bytes);
#endif
    else
        rc = s_refuse (kind, name, size, error, error_bytes);
    if (rc)
        return rc;
    self->kind = kind;
    self->orientation = s_orientation (self, options);
    *height_p = self->orientation.swaps? self->width: self->height;
    *width_p = self->orientation.swaps? self->height: self->width;
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading

static int
s_read (image_reader_t *self, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    if (s_is_plain (self->kind))
        return plain_reader_read (self->plain, request, pixels, error, error_bytes);
#ifdef TUREEN_PNG
    if (self->kind == FILE_KIND_PNG)
        return png_reader_read (self->png, request, pixels, error, error_bytes);
#endif
#ifdef TUREEN_WEBP
    if (self->kind == FILE_KIND_WEBP)
        return webp_reader_read (self->webp, request, pixels, error, error_bytes);
#endif
#ifdef TUREEN_TIFF
    if (self->kind == FILE_KIND_TIFF)
        return tiff_reader_read (self->tiff, request, pixels, error, error_bytes);
#endif
    return jpeg_reader_read (self->jpeg, request, pixels, error, error_bytes);
}

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
    assert (self);
    assert (self->magic == IMAGE_READER_MAGIC);
    assert (self->kind != FILE_KIND_OTHER);
    assert (error && error_bytes > 0);
    orientation_t orientation = self->orientation;
    image_request_t wanted = *request;
    wanted.box = orientation_stored_box (orientation, &request->box, self->height, self->width);
    if (orientation.swaps && request->least_height > 0) {
        wanted.least_height = request->least_width > 0? request->least_width: 1;
        wanted.least_width = request->least_height;
    }
    image_pixels_t stored;
    int rc = s_read (self, &wanted, orientation_turns (orientation)? &stored: pixels, error, error_bytes);
    self->was_jpeg = self->kind == FILE_KIND_JPEG;
    self->kind = FILE_KIND_OTHER;   //  read once
    if (rc == 0 && orientation_turns (orientation))
        rc = s_turn (self, &stored, pixels, error, error_bytes);
    return rc;
}

bool
image_reader_clips (const uint8_t *bytes, size_t size)
{
    const char *name;
    file_kind_t kind = file_kind (bytes, size, &name);
#ifdef TUREEN_PNG
    if (kind == FILE_KIND_PNG)
        return png_reader_clips (bytes, size);
#endif
#ifdef TUREEN_TIFF
    if (kind == FILE_KIND_TIFF)
        return tiff_reader_clips (bytes, size);
#endif
    return plain_reader_clips (kind, bytes, size);
}

int
image_reader_rows (image_reader_t *self, const uint8_t *bytes, size_t size, const uint8_t **rows_p,
    size_t *rows_bytes_p)
{
    assert (self->magic == IMAGE_READER_MAGIC);
    const char *name;
    self->kind = FILE_KIND_OTHER;
    *rows_p = NULL;
    *rows_bytes_p = 0;
    return file_kind (bytes, size, &name) == FILE_KIND_JPEG?
        jpeg_reader_rows (self->jpeg, bytes, size, rows_p, rows_bytes_p): 0;
}

size_t
image_reader_learned (image_reader_t *self, const uint8_t **rows_p)
{
    assert (self->magic == IMAGE_READER_MAGIC);
    return self->was_jpeg? jpeg_reader_learned (self->jpeg, rows_p): 0;
}

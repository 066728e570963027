//  image_reader's part for WebP, on libwebp: the same two steps, the same results as Pillow.
//
//  Pixels are what Image.open (...).convert ("RGB") gives: alpha is dropped, not blended; colour profiles are
//  not looked at.  Of an animation it is the first image, and what that leaves of the canvas is black.  All
//  of the image is decoded, whatever the box: so a file is good or bad for every job alike.
//  A file that ends early is bad, as it is for Pillow.  No WebP is a mask.

#include "image_codec.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

enum { WEBP_READER_MAGIC = 0x77656270 };

typedef struct {
    uint32_t magic;
    WebPDemuxer *chunks;                //  of one image, from open to the end of read; else NULL
    WebPIterator frame;                 //  its first image, while there are chunks
    uint32_t height, width;             //  of the canvas
    image_block_t exif, xmp;            //  the chunks, lent from the file
    scratch_t pixels;
} webp_reader_t;

static void *
s_reader_new (void)
{
    webp_reader_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = WEBP_READER_MAGIC;
    return self;
}

static void
s_close (webp_reader_t *self)
{
    if (!self->chunks)
        return;
    WebPDemuxReleaseIterator (&self->frame);
    WebPDemuxDelete (self->chunks);
    self->chunks = NULL;
}

static void
s_reader_destroy (void *reader)
{
    webp_reader_t *self = reader;
    if (!self)
        return;
    assert (self->magic == WEBP_READER_MAGIC);
    s_close (self);
    scratch_free (&self->pixels);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening

static image_block_t
s_find (const webp_reader_t *self, const char name [5])
{
    WebPChunkIterator chunk;
    image_block_t block = { NULL, 0 };
    if (!WebPDemuxGetChunk (self->chunks, name, 1, &chunk))
        return block;
    block = (image_block_t) { chunk.chunk.bytes, chunk.chunk.size };
    WebPDemuxReleaseChunkIterator (&chunk);
    return block;
}

static int
s_check (const webp_reader_t *self, const image_reader_options_t *options, char *error, size_t error_bytes)
{
    const WebPIterator *frame = &self->frame;
    if ((uint64_t) self->width * self->height > DECODER_PIXELS_MAX) {
        snprintf (error, error_bytes, "WebP with more pixels than the limit (%u x %u pixels)", self->width,
            self->height);
        return -EBADMSG;
    }
    if (options->is_mask) {
        snprintf (error, error_bytes, "a mask must be grey or have a palette: a WebP is in colour");
        return -EDOM;
    }
    bool is_inside = frame->x_offset >= 0 && frame->y_offset >= 0 && frame->width > 0 && frame->height > 0
        && (uint64_t) frame->x_offset + (uint64_t) frame->width <= self->width
        && (uint64_t) frame->y_offset + (uint64_t) frame->height <= self->height;
    if (is_inside && frame->complete)
        return 0;
    snprintf (error, error_bytes, "damaged or truncated WebP: its image is not whole");
    return -EBADMSG;
}

static int
s_reader_open (void *reader, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    webp_reader_t *self = reader;
    assert (self->magic == WEBP_READER_MAGIC);
    s_close (self);
    errno = 0;
    self->chunks = WebPDemux (&(WebPData) { bytes, size });
    //  The library tells no reason; it allocates by the C library, which leaves its own.
    if (!self->chunks && errno == ENOMEM) {
        snprintf (error, error_bytes, "not enough memory for a WebP");
        return -ENOMEM;
    }
    self->frame = (WebPIterator) { .frame_num = 0 };
    if (!self->chunks || !WebPDemuxGetFrame (self->chunks, 1, &self->frame)) {
        s_close (self);
        snprintf (error, error_bytes, "damaged or truncated WebP: its parts do not fit into the file");
        return -EBADMSG;
    }
    *height_p = self->height = WebPDemuxGetI (self->chunks, WEBP_FF_CANVAS_HEIGHT);
    *width_p = self->width = WebPDemuxGetI (self->chunks, WEBP_FF_CANVAS_WIDTH);
    self->exif = s_find (self, "EXIF");
    self->xmp = s_find (self, "XMP ");
    int rc = s_check (self, options, error, error_bytes);
    if (rc)
        s_close (self);
    return rc;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading

static const char *
s_reason (VP8StatusCode status)
{
    switch (status) {
    case VP8_STATUS_BITSTREAM_ERROR: return "its coded data make no sense";
    case VP8_STATUS_NOT_ENOUGH_DATA: return "its coded data end early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it needs a newer decoder";
    default: return "it cannot be decoded";
    }
}

static int
s_no_memory (const webp_reader_t *self, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "not enough memory for a WebP of %u x %u pixels", self->width,
        self->height);
    return -ENOMEM;
}

//  The first image, at its place on the canvas.
static int
s_decode (const webp_reader_t *self, size_t stride, char *error, size_t error_bytes)
{
    const WebPIterator *frame = &self->frame;
    uint8_t *canvas = self->pixels.data;
    size_t first = (size_t) frame->y_offset * stride + (size_t) frame->x_offset * IMAGE_COLOURS;
    WebPDecoderConfig config;
    bool is_set = WebPInitDecoderConfig (&config);
    assert (is_set);                    //  else the library's binary interface is another than its header's
    (void) is_set;
    if ((uint32_t) frame->width != self->width || (uint32_t) frame->height != self->height)
        memset (canvas, 0, stride * self->height);
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = canvas + first;
    config.output.u.RGBA.stride = (int) stride;
    config.output.u.RGBA.size = stride * self->height - first;
    VP8StatusCode status = WebPDecode (frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer (&config.output);
    if (status == VP8_STATUS_OK)
        return 0;
    if (status == VP8_STATUS_OUT_OF_MEMORY)
        return s_no_memory (self, error, error_bytes);
    snprintf (error, error_bytes, "damaged or unsupported WebP: %s", s_reason (status));
    return -EBADMSG;
}

static int
s_reader_read (void *reader, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    webp_reader_t *self = reader;
    assert (self->magic == WEBP_READER_MAGIC);
    assert (self->chunks);
    const image_box_t *box = &request->box;
    size_t stride = (size_t) self->width * IMAGE_COLOURS;
    bool has_room = scratch_need (&self->pixels, stride * self->height);
    int rc = has_room? s_decode (self, stride, error, error_bytes): s_no_memory (self, error, error_bytes);
    s_close (self);
    if (rc)
        return rc;
    uint8_t *first = self->pixels.data;
    first += box->top * stride + (size_t) box->left * IMAGE_COLOURS;
    *pixels = (image_pixels_t) {
        .image = { first, stride, box->height, box->width, IMAGE_COLOURS },
        .height = box->height,
        .width = box->width
    };
    return 0;
}

static image_notes_t
s_reader_notes (const void *reader)
{
    const webp_reader_t *self = reader;
    assert (self->magic == WEBP_READER_MAGIC);
    return (image_notes_t) { self->exif, self->xmp };
}

const image_codec_t webp_reader = {
    .new = s_reader_new,
    .destroy = s_reader_destroy,
    .open = s_reader_open,
    .read = s_reader_read,
    .notes = s_reader_notes,
};

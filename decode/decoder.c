#include "decoder.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "geometry.h"
#include "image.h"
#include "jpeg_reader.h"
#include "keyed_random.h"
#include "operation.h"
#include "resize.h"

enum { DECODER_MAGIC = 0x6465636f };

struct decoder {
    uint32_t magic;
    jpeg_reader_t *jpeg;
    resize_t resize;
    scratch_t between [2];      //  images between operations, in turn
};

//  One sample on its way through the shared stage.
typedef struct {
    decoder_t *decoder;
    const pipeline_key_t *key;
    image_t image;              //  as it is now: a view of what the last operation wrote
    uint8_t *version;           //  where the last one writes
    unsigned turn;
    char *error;
    size_t error_bytes;
    bool no_memory;             //  why it did not go on
} passage_t;

decoder_t *
decoder_new (void)
{
    decoder_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = DECODER_MAGIC;
    resize_clear (&self->resize);
    self->jpeg = jpeg_reader_new ();
    if (!self->jpeg)
        decoder_destroy (&self);
    return self;
}

void
decoder_destroy (decoder_t **self_p)
{
    assert (self_p);
    decoder_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == DECODER_MAGIC);
    jpeg_reader_destroy (&self->jpeg);
    resize_free (&self->resize);
    free (self->between [0].data);
    free (self->between [1].data);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  What the bytes are

typedef struct {
    const char *name;
    size_t offset;
    size_t length;
    const char *bytes;
} signature_t;

static const signature_t s_signatures [] = {
    { "a PNG image", 0, 4, "\x89PNG" },
    { "a GIF image", 0, 4, "GIF8" },
    { "a WebP image", 8, 4, "WEBP" },
    { "a BMP image", 0, 2, "BM" },
    { "a TIFF image", 0, 4, "II*\0" },
    { "a TIFF image", 0, 4, "MM\0*" },
    { "a gzip file", 0, 2, "\x1f\x8b" },
    { "a zip file", 0, 4, "PK\3\4" },
};

static bool
s_begins (const uint8_t *bytes, size_t size, size_t offset, const char *expected, size_t length)
{
    return size >= offset + length && memcmp (bytes + offset, expected, length) == 0;
}

//  True for a JPEG; otherwise says what the bytes look like.
static bool
s_is_jpeg (const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
{
    if (s_begins (bytes, size, 0, "\xff\xd8\xff", 3))
        return true;
    const char *name = size? "of an unknown kind": "empty";
    for (size_t index = 0; index < sizeof s_signatures / sizeof *s_signatures; index++) {
        const signature_t *signature = &s_signatures [index];
        if (s_begins (bytes, size, signature->offset, signature->bytes, signature->length)) {
            name = signature->name;
            break;
        }
    }
    snprintf (error, error_bytes, "not a JPEG: the file is %s (%zu bytes); only JPEG is supported",
        name, size);
    return false;
}

//  ---------------------------------------------------------------------------------------------------------
//  The operations

static bool
s_check_pixels (passage_t *self, uint32_t height, uint32_t width)
{
    if ((uint64_t) height * width <= DECODER_PIXELS_MAX)
        return true;
    snprintf (self->error, self->error_bytes,
        "an image of %u x %u pixels would become one of %u x %u: above the limit of %d pixels",
        self->image.width, self->image.height, width, height, DECODER_PIXELS_MAX);
    return false;
}

static bool
s_no_memory (passage_t *self)
{
    snprintf (self->error, self->error_bytes,
        "not enough memory for the pipeline on an image of %u x %u pixels",
        self->image.width, self->image.height);
    self->no_memory = true;
    return false;
}

//  Where the next image goes: the version for the last one, else the buffer that the present one is not in.
static uint8_t *
s_target (passage_t *self, bool last, uint32_t height, uint32_t width)
{
    if (last)
        return self->version;
    if (!s_check_pixels (self, height, width))
        return NULL;
    scratch_t *between = &self->decoder->between [self->turn ^= 1];
    if (!scratch_need (between, image_bytes (height, width)))
        s_no_memory (self);
    return between->data;
}

static void
s_advance (passage_t *self, const uint8_t *pixels, uint32_t height, uint32_t width)
{
    self->image = (image_t) { pixels, image_bytes (1, width), height, width };
}

//  Resizes to full_height x full_width and keeps the crop of that: the crop's other pixels are never
//  computed.
static bool
s_resize (passage_t *self, bool last, uint32_t full_height, uint32_t full_width, const geometry_crop_t *crop,
    uint32_t height, uint32_t width)
{
    resize_t *resize = &self->decoder->resize;
    uint8_t *target = s_target (self, last, height, width);
    if (!target)
        return false;
    //  Between its passes, too, no image may be above the limit.
    if (!s_check_pixels (self, resize_rows (&self->image, full_height, &crop->from), crop->from.width))
        return false;
    size_t stride = image_bytes (1, width);
    if (crop->from.height < height || crop->from.width < width)
        memset (target, 0, image_bytes (height, width));
    if (!resize_run (resize, &self->image, full_height, full_width, &crop->from,
        target + crop->to_top * stride + image_bytes (1, crop->to_left), stride))
        return s_no_memory (self);
    s_advance (self, target, height, width);
    return true;
}

//  The whole of a resize: a crop that crops nothing.
static bool
s_resize_whole (passage_t *self, bool last, uint32_t height, uint32_t width)
{
    geometry_crop_t all = { .from = { .height = height, .width = width } };
    return s_resize (self, last, height, width, &all, height, width);
}

static bool
s_resize_and_crop (passage_t *self, bool last, const operation_t *resize, const operation_t *crop)
{
    uint32_t full_height, full_width;
    geometry_resize (resize, self->image.height, self->image.width, &full_height, &full_width);
    if (!crop)
        return s_resize_whole (self, last, full_height, full_width);
    geometry_crop_t window = geometry_center_crop (crop->height, crop->width, full_height, full_width);
    return s_resize (self, last, full_height, full_width, &window, crop->height, crop->width);
}

static void
s_narrow (image_t *image, const image_box_t *box)
{
    image->pixels = image_at (image, box->top, box->left);
    image->height = box->height;
    image->width = box->width;
}

static bool
s_center_crop (passage_t *self, bool last, const operation_t *crop)
{
    geometry_crop_t window = geometry_center_crop (crop->height, crop->width,
        self->image.height, self->image.width);
    uint8_t *target = s_target (self, last, crop->height, crop->width);
    if (!target)
        return false;
    size_t stride = image_bytes (1, crop->width);
    if (window.from.height < crop->height || window.from.width < crop->width)
        memset (target, 0, image_bytes (crop->height, crop->width));
    s_narrow (&self->image, &window.from);
    image_copy (&self->image, target + window.to_top * stride + image_bytes (1, window.to_left), stride);
    s_advance (self, target, crop->height, crop->width);
    return true;
}

static bool
s_random_resized_crop (passage_t *self, bool last, const operation_t *crop)
{
    keyed_random_t random;
    keyed_random_init (&random, self->key, crop->place);
    image_box_t box = geometry_random_box (crop, self->image.height, self->image.width, &random);
    s_narrow (&self->image, &box);
    return s_resize_whole (self, last, crop->height, crop->width);
}

static bool
s_flip (passage_t *self, bool last, const operation_t *flip)
{
    bool flips = geometry_flips (flip, self->key);
    if (!flips && !last)
        return true;
    uint32_t height = self->image.height, width = self->image.width;
    uint8_t *target = s_target (self, last, height, width);
    if (!target)
        return false;
    (flips? image_copy_flipped: image_copy) (&self->image, target, image_bytes (1, width));
    s_advance (self, target, height, width);
    return true;
}

//  Runs the first of operations, or the first two where they are done as one; returns how many, 0 for a
//  failure.
static size_t
s_step (passage_t *self, const operation_t *operations, size_t count)
{
    bool last = count == 1, done = false;
    switch (operations->kind) {
    case OPERATION_RESIZE:
        if (count > 1 && operations [1].kind == OPERATION_CENTER_CROP)
            return s_resize_and_crop (self, count == 2, operations, operations + 1)? 2: 0;
        done = s_resize_and_crop (self, last, operations, NULL);
        break;
    case OPERATION_CENTER_CROP:
        done = s_center_crop (self, last, operations);
        break;
    case OPERATION_RANDOM_RESIZED_CROP:
        done = s_random_resized_crop (self, last, operations);
        break;
    case OPERATION_FLIP:
        done = s_flip (self, last, operations);
        break;
    }
    return done;
}

decoder_status_t
decoder_run (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *bytes, size_t size, uint8_t *version, char *error, size_t error_bytes)
{
    assert (self);
    assert (self->magic == DECODER_MAGIC);
    assert (key && version && error && error_bytes > 0);
    *error = 0;
    passage_t passage = {
        .decoder = self, .key = key, .version = version, .error = error, .error_bytes = error_bytes
    };
    if (!s_is_jpeg (bytes, size, error, error_bytes))
        return DECODER_BAD;
    int rc = jpeg_reader_run (self->jpeg, bytes, size, &passage.image, error, error_bytes);
    if (rc)
        return rc == -ENOMEM? DECODER_NO_MEMORY: DECODER_BAD;
    size_t count, done = 0;
    const operation_t *operations = pipeline_shared_operations (pipeline, &count);
    while (done < count) {
        size_t steps = s_step (&passage, operations + done, count - done);
        if (!steps)
            return passage.no_memory? DECODER_NO_MEMORY: DECODER_BAD;
        done += steps;
    }
    assert (passage.image.pixels == version);
    return DECODER_OK;
}

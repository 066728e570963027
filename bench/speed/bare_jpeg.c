#include "bare_jpeg.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <jpeglib.h>

struct bare_jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    scratch_t pixels;
};

bare_jpeg_t *
bare_jpeg_new (void)
{
    bare_jpeg_t *self = calloc (1, sizeof *self);
    assert (self);
    self->info.err = jpeg_std_error (&self->errors);        //  an error ends the program
    jpeg_create_decompress (&self->info);
    return self;
}

void
bare_jpeg_destroy (bare_jpeg_t **self_p)
{
    bare_jpeg_t *self = *self_p;
    if (!self)
        return;
    jpeg_destroy_decompress (&self->info);
    scratch_free (&self->pixels);
    free (self);
    *self_p = NULL;
}

static void
s_begin (bare_jpeg_t *self, const uint8_t *bytes, size_t size)
{
    jpeg_mem_src (&self->info, bytes, size);
    jpeg_read_header (&self->info, TRUE);
}

void
bare_jpeg_size (bare_jpeg_t *self, const uint8_t *bytes, size_t size, uint32_t *height_p, uint32_t *width_p)
{
    s_begin (self, bytes, size);
    *height_p = self->info.image_height;
    *width_p = self->info.image_width;
    jpeg_abort_decompress (&self->info);
}

void
bare_jpeg_coefficients (bare_jpeg_t *self, const uint8_t *bytes, size_t size)
{
    s_begin (self, bytes, size);
    jpeg_read_coefficients (&self->info);
    jpeg_abort_decompress (&self->info);
}

static image_t
s_read (bare_jpeg_t *self, uint32_t height)
{
    struct jpeg_decompress_struct *info = &self->info;
    image_t image = { .stride = image_bytes (1, info->output_width, IMAGE_COLOURS), .height = height,
        .width = info->output_width, .channels = IMAGE_COLOURS };
    bool room = scratch_need (&self->pixels, image.stride * height);
    assert (room);
    image.pixels = self->pixels.data;
    for (uint32_t row = 0; row < height;) {
        JSAMPROW rows = (uint8_t *) self->pixels.data + row * image.stride;
        row += jpeg_read_scanlines (info, &rows, 1);
    }
    return image;
}

image_t
bare_jpeg_full (bare_jpeg_t *self, const uint8_t *bytes, size_t size)
{
    s_begin (self, bytes, size);
    self->info.out_color_space = JCS_RGB;
    jpeg_start_decompress (&self->info);
    image_t image = s_read (self, self->info.output_height);
    jpeg_finish_decompress (&self->info);
    return image;
}

image_t
bare_jpeg_box (bare_jpeg_t *self, const uint8_t *bytes, size_t size, const image_box_t *box)
{
    s_begin (self, bytes, size);
    self->info.out_color_space = JCS_RGB;
    jpeg_start_decompress (&self->info);
    JDIMENSION left = box->left, width = box->width;
    jpeg_crop_scanline (&self->info, &left, &width);
    if (box->top)
        jpeg_skip_scanlines (&self->info, box->top);
    image_t image = s_read (self, box->height);
    jpeg_abort_decompress (&self->info);
    image_box_t inner = { .left = box->left - left, .height = box->height, .width = box->width };
    return image_part (&image, &inner);
}

//  ---- the resize

enum { PRECISION = 22 };

//  For each pixel of the result: the first pixel of the source that counts, how many do, and their weights.
typedef struct {
    uint32_t taps_max;
    uint32_t *from;
    uint32_t *taps;
    int32_t *weights;           //  taps_max each
} weights_t;

static void
s_weigh (weights_t *self, uint32_t side, uint32_t full, uint32_t at, double *exact)
{
    double scale = (double) side / full, reach = scale < 1? 1: scale, middle = (at + 0.5) * scale, sum = 0;
    int from = (int) (middle - reach + 0.5), to = (int) (middle + reach + 0.5);
    from = from < 0? 0: from;
    to = to > (int) side? (int) side: to;
    for (int pixel = from; pixel < to; pixel++) {
        double distance = (pixel - middle + 0.5) / reach;
        distance = distance < 0? -distance: distance;
        exact [pixel - from] = distance < 1? 1 - distance: 0;
        sum += exact [pixel - from];
    }
    for (int tap = 0; tap < to - from; tap++)
        self->weights [at * self->taps_max + (uint32_t) tap] =
            (int32_t) (exact [tap] / sum * (1 << PRECISION) + 0.5);
    self->from [at] = (uint32_t) from;
    self->taps [at] = (uint32_t) (to - from);
}

static weights_t
s_weights (uint32_t side, uint32_t full)
{
    weights_t self = { .taps_max = 2 * (side / full + 2) };
    self.from = malloc (full * sizeof *self.from);
    self.taps = malloc (full * sizeof *self.taps);
    self.weights = malloc ((size_t) full * self.taps_max * sizeof *self.weights);
    double *exact = malloc (self.taps_max * sizeof *exact);
    assert (self.from && self.taps && self.weights && exact);
    for (uint32_t at = 0; at < full; at++)
        s_weigh (&self, side, full, at, exact);
    free (exact);
    return self;
}

static void
s_free_weights (weights_t *self)
{
    free (self->from);
    free (self->taps);
    free (self->weights);
}

//  One pixel of the result from pixels that are step bytes apart.
static void
s_sum (const weights_t *weights, uint32_t at, const uint8_t *pixel, size_t step, uint8_t *target)
{
    const int32_t *weight = weights->weights + (size_t) at * weights->taps_max;
    int32_t sums [IMAGE_COLOURS] = { 1 << (PRECISION - 1), 1 << (PRECISION - 1), 1 << (PRECISION - 1) };
    for (uint32_t tap = 0; tap < weights->taps [at]; tap++, pixel += step)
        for (int channel = 0; channel < IMAGE_COLOURS; channel++)
            sums [channel] += pixel [channel] * weight [tap];
    for (int channel = 0; channel < IMAGE_COLOURS; channel++)
        target [channel] = (uint8_t) (sums [channel] >> PRECISION);
}

void
scalar_resize (const image_t *source, uint32_t height, uint32_t width, uint8_t *target)
{
    weights_t across = s_weights (source->width, width), down = s_weights (source->height, height);
    size_t row_bytes = image_bytes (1, width, IMAGE_COLOURS);
    uint8_t *between = malloc (row_bytes * source->height);
    assert (between);
    for (uint32_t row = 0; row < source->height; row++)
        for (uint32_t column = 0; column < width; column++)
            s_sum (&across, column, image_at (source, row, across.from [column]), IMAGE_COLOURS,
                between + row * row_bytes + column * IMAGE_COLOURS);
    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++)
            s_sum (&down, row, between + down.from [row] * row_bytes + column * IMAGE_COLOURS, row_bytes,
                target + row * row_bytes + column * IMAGE_COLOURS);
    free (between);
    s_free_weights (&across);
    s_free_weights (&down);
}

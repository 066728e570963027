/*  jpeg_model -- the simple model of the JPEG tests: all of an image, by libjpeg's plainest calls.  */
#ifndef JPEG_MODEL_H
#define JPEG_MODEL_H
#include <setjmp.h>
#include "made_jpeg.h"

//  Larger images are left out.
#ifndef JPEG_MODEL_PIXELS_MAX
#define JPEG_MODEL_PIXELS_MAX (100 * 1000)
#endif

typedef struct {
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    bool all_rows;
} model_t;

typedef struct {
    uint8_t *pixels;
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    long warnings;
    bool too_large;             //  for a test
} picture_t;

static inline void
model_error (j_common_ptr info)
{
    longjmp (((model_t *) info->err)->escape, 1);
}

static inline void
model_message (j_common_ptr info, int level)
{
    info->err->num_warnings += level < 0;
}

static inline boolean
model_fill (j_decompress_ptr info)
{
    model_t *self = (model_t *) info->err;
    longjmp (self->escape, self->all_rows? 2: 1);
}

static inline void
model_skip (j_decompress_ptr info, long bytes)
{
    if (bytes > 0 && (size_t) bytes > info->src->bytes_in_buffer)
        model_fill (info);
    info->src->next_input_byte += bytes > 0? bytes: 0;
    info->src->bytes_in_buffer -= bytes > 0? (size_t) bytes: 0;
}

static inline void
model_nothing (j_decompress_ptr info)
{
    (void) info;
}

//  a x b / 255, rounded.
static inline int
model_times (int a, int b)
{
    return (a * b * 2 + 255) / 510;
}

static inline INSTRUMENT_ROWS void
model_row (const uint8_t *row, picture_t *picture, uint32_t y, int components)
{
    uint8_t *at = picture->pixels + (size_t) y * picture->width * picture->channels;
    if (components != 4) {
        memcpy (at, row, (size_t) picture->width * picture->channels);
        return;
    }
    for (uint32_t x = 0; x < picture->width; x++, row += 4)
        for (int ink = 0; ink < 3; ink++)
            *at++ = (uint8_t) (row [3] - model_times (255 - row [ink], row [3]));
}

static inline void
model_read (struct jpeg_decompress_struct *info, model_t *self, bool is_mask, unsigned scale,
    picture_t *picture)
{
    jpeg_read_header (info, TRUE);
    int components = info->num_components;
    picture->too_large = (uint64_t) info->image_height * info->image_width > JPEG_MODEL_PIXELS_MAX;
    if (picture->too_large)
        longjmp (self->escape, 1);
    if ((components != 1 && components != 3 && components != 4) || (is_mask && components != 1))
        longjmp (self->escape, 1);
    info->out_color_space = components == 4? JCS_CMYK: is_mask? JCS_GRAYSCALE: JCS_RGB;
    info->scale_num = scale;
    info->scale_denom = 8;
    jpeg_start_decompress (info);
    picture->height = info->output_height;
    picture->width = info->output_width;
    picture->channels = is_mask? 1: 3;
    picture->pixels = calloc (picture->height, (size_t) picture->width * picture->channels);
    uint8_t *row = (*info->mem->alloc_large) ((j_common_ptr) info, JPOOL_IMAGE,
        (size_t) info->output_width * 4);
    while (info->output_scanline < info->output_height) {
        uint32_t y = info->output_scanline;
        jpeg_read_scanlines (info, &row, 1);
        model_row (row, picture, y, components);
    }
    self->all_rows = true;
    jpeg_finish_decompress (info);
}

//  False if the file is bad; the caller frees the picture's pixels in either case.
static inline bool
jpeg_model (const uint8_t *bytes, size_t size, bool is_mask, unsigned scale, picture_t *picture)
{
    *picture = (picture_t) { .pixels = NULL };
    struct jpeg_decompress_struct info;
    model_t self = { .all_rows = false };
    struct jpeg_source_mgr source = {
        .next_input_byte = bytes, .bytes_in_buffer = size, .init_source = model_nothing,
        .fill_input_buffer = model_fill, .skip_input_data = model_skip,
        .resync_to_restart = jpeg_resync_to_restart, .term_source = model_nothing
    };
    info.err = jpeg_std_error (&self.errors);
    self.errors.error_exit = model_error;
    self.errors.emit_message = model_message;
    jpeg_create_decompress (&info);
    info.src = &source;
    volatile bool good = true;
    switch (setjmp (self.escape)) {
    case 0:
        model_read (&info, &self, is_mask, scale, picture);
        break;
    case 1:
        good = false;
        break;
    }
    picture->warnings = self.errors.num_warnings;
    jpeg_destroy_decompress (&info);
    return good;
}

#endif

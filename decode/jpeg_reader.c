#include "jpeg_reader.h"
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>
#include "decoder.h"

enum { JPEG_READER_MAGIC = 0x6a706567, ROWS_AT_ONCE = 16 };
//  What setjmp returns; 0 is the first time.
enum { ESCAPE_BAD = 1, ESCAPE_WHOLE = 2, ESCAPE_NO_MEMORY = 3 };

struct jpeg_reader {
    uint32_t magic;
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;             //  every complaint leaves through it
    bool all_rows_read;
    char *error;                //  lent for one run
    size_t error_bytes;
    scratch_t pixels;
    scratch_t inks;             //  one row of CMYK
};

//  ---------------------------------------------------------------------------------------------------------
//  What libjpeg calls back

static jpeg_reader_t *
s_reader (j_common_ptr info)
{
    jpeg_reader_t *self = info->client_data;
    assert (self->magic == JPEG_READER_MAGIC);
    return self;
}

//  libjpeg's own complaint, in its words.
static void
s_error_exit (j_common_ptr info)
{
    jpeg_reader_t *self = s_reader (info);
    char message [JMSG_LENGTH_MAX];
    info->err->format_message (info, message);
    bool no_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;     //  UNTESTED: libjpeg's own allocations
    snprintf (self->error, self->error_bytes, "%s: %s", no_memory? "no memory": "damaged or unsupported JPEG",
        message);
    longjmp (self->escape, no_memory? ESCAPE_NO_MEMORY: ESCAPE_BAD);
}

//  Warnings are damage that libjpeg reads past; traces are of no use here.
static void
s_emit_message (j_common_ptr info, int level)
{
    (void) info;
    (void) level;
}

//  What is missing behind the last row is not missed, by Pillow neither: damage there can hide the end
//  marker.
static void
s_truncated (j_decompress_ptr info)
{
    jpeg_reader_t *self = s_reader ((j_common_ptr) info);
    if (self->all_rows_read)
        longjmp (self->escape, ESCAPE_WHOLE);
    snprintf (self->error, self->error_bytes, "truncated JPEG: the file ends before the image does");
    longjmp (self->escape, ESCAPE_BAD);
}

static void
s_no_source_work (j_decompress_ptr info)
{
    (void) info;
}

//  All bytes were there from the begin, so whoever asks for more has come to the end.
static boolean
s_fill_input_buffer (j_decompress_ptr info)
{
    s_truncated (info);
    return FALSE;
}

static void
s_skip_input_data (j_decompress_ptr info, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t) bytes > info->src->bytes_in_buffer)
        s_truncated (info);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t) bytes;
}

//  Called for each row of blocks of each scan: a small file may hold scans without end.
static void
s_progress (j_common_ptr info)
{
    jpeg_reader_t *self = s_reader (info);
    if (self->info.input_scan_number <= DECODER_SCANS_MAX)
        return;
    snprintf (self->error, self->error_bytes, "JPEG with more than %d scans", DECODER_SCANS_MAX);
    longjmp (self->escape, ESCAPE_BAD);
}

//  ---------------------------------------------------------------------------------------------------------
//  Life

jpeg_reader_t *
jpeg_reader_new (void)
{
    jpeg_reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    char unused [JMSG_LENGTH_MAX];
    self->magic = JPEG_READER_MAGIC;
    self->error = unused;
    self->error_bytes = sizeof unused;
    self->info.err = jpeg_std_error (&self->errors);
    self->errors.error_exit = s_error_exit;
    self->errors.emit_message = s_emit_message;
    self->info.client_data = self;
    if (setjmp (self->escape)) {        //  UNTESTED: libjpeg found no memory for its own state
        jpeg_reader_destroy (&self);
        errno = ENOMEM;
        return NULL;
    }
    jpeg_create_decompress (&self->info);
    self->source.init_source = s_no_source_work;
    self->source.fill_input_buffer = s_fill_input_buffer;
    self->source.skip_input_data = s_skip_input_data;
    self->source.resync_to_restart = jpeg_resync_to_restart;
    self->source.term_source = s_no_source_work;
    self->progress.progress_monitor = s_progress;
    self->info.src = &self->source;
    self->info.progress = &self->progress;
    return self;
}

void
jpeg_reader_destroy (jpeg_reader_t **self_p)
{
    assert (self_p);
    jpeg_reader_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == JPEG_READER_MAGIC);
    jpeg_destroy_decompress (&self->info);
    free (self->pixels.data);
    free (self->inks.data);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading: header -> checks -> rows -> what stands behind them

static void
s_fail (jpeg_reader_t *self, const char *what)
{
    snprintf (self->error, self->error_bytes, "%s (%u x %u pixels, %d components)", what,
        self->info.image_width, self->info.image_height, self->info.num_components);
    longjmp (self->escape, ESCAPE_BAD);
}

static void
s_no_memory (jpeg_reader_t *self)
{
    snprintf (self->error, self->error_bytes, "not enough memory for an image of %u x %u pixels",
        self->info.image_width, self->info.image_height);
    longjmp (self->escape, ESCAPE_NO_MEMORY);
}

static void
s_read_header (jpeg_reader_t *self)
{
    struct jpeg_decompress_struct *info = &self->info;
    jpeg_read_header (info, TRUE);
    if ((uint64_t) info->image_width * info->image_height > DECODER_PIXELS_MAX)
        s_fail (self, "JPEG with more pixels than the limit");
    if (info->num_components != 1 && info->num_components != 3 && info->num_components != 4)
        s_fail (self, "unsupported JPEG: neither grey, colour nor CMYK");
    info->out_color_space = info->num_components == 4? JCS_CMYK: JCS_RGB;
    if (!scratch_need (&self->pixels, image_bytes (info->image_height, info->image_width))
    ||  !scratch_need (&self->inks, (size_t) info->image_width * 4))
        s_no_memory (self);
}

static void
s_read_rows (jpeg_reader_t *self, uint8_t *pixels, size_t stride)
{
    struct jpeg_decompress_struct *info = &self->info;
    while (info->output_scanline < info->output_height) {
        JSAMPROW rows [ROWS_AT_ONCE];
        JDIMENSION left = info->output_height - info->output_scanline;
        JDIMENSION count = left < ROWS_AT_ONCE? left: ROWS_AT_ONCE;
        for (JDIMENSION index = 0; index < count; index++)
            rows [index] = pixels + (info->output_scanline + index) * stride;
        jpeg_read_scanlines (info, rows, count);
    }
}

//  a x b / 255, rounded, as Pillow computes it.
static inline uint32_t
s_times (uint32_t a, uint32_t b)
{
    uint32_t product = a * b + 128;
    return (product + (product >> 8)) >> 8;
}

//  Files hold inks inverted (255 is no ink), as Adobe writes them; Pillow takes all files for such.
static void
s_inks_to_rgb (const uint8_t *restrict inks, uint32_t width, uint8_t *restrict pixels)
{
    for (uint32_t column = 0; column < width; column++, inks += 4, pixels += IMAGE_CHANNELS) {
        uint32_t light = inks [3];
        for (unsigned channel = 0; channel < IMAGE_CHANNELS; channel++)
            pixels [channel] = (uint8_t) (light - s_times (255u - inks [channel], light));
    }
}

static void
s_read_inks (jpeg_reader_t *self, uint8_t *pixels, size_t stride)
{
    struct jpeg_decompress_struct *info = &self->info;
    while (info->output_scanline < info->output_height) {
        uint8_t *target = pixels + info->output_scanline * stride;
        JSAMPROW row = self->inks.data;
        jpeg_read_scanlines (info, &row, 1);
        s_inks_to_rgb (row, info->output_width, target);
    }
}

static void
s_read (jpeg_reader_t *self, image_t *image)
{
    struct jpeg_decompress_struct *info = &self->info;
    s_read_header (self);
    jpeg_start_decompress (info);
    *image = (image_t) {
        .pixels = self->pixels.data,
        .stride = image_bytes (1, info->output_width),
        .height = info->output_height,
        .width = info->output_width
    };
    if (info->out_color_space == JCS_CMYK)
        s_read_inks (self, self->pixels.data, image->stride);
    else
        s_read_rows (self, self->pixels.data, image->stride);
    self->all_rows_read = true;
    jpeg_finish_decompress (info);
}

int
jpeg_reader_run (jpeg_reader_t *self, const uint8_t *bytes, size_t size, image_t *image,
    char *error, size_t error_bytes)
{
    assert (self);
    assert (self->magic == JPEG_READER_MAGIC);
    assert (error && error_bytes > 0);
    self->error = error;
    self->error_bytes = error_bytes;
    self->source.next_input_byte = bytes;
    self->source.bytes_in_buffer = size;
    self->all_rows_read = false;
    switch (setjmp (self->escape)) {
    case 0:
        s_read (self, image);
        return 0;
    case ESCAPE_WHOLE:
        jpeg_abort_decompress (&self->info);
        return 0;
    case ESCAPE_NO_MEMORY:
        jpeg_abort_decompress (&self->info);
        return -ENOMEM;
    default:
        jpeg_abort_decompress (&self->info);
        return -EBADMSG;
    }
}

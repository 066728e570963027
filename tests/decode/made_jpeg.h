//  made_jpeg -- JPEG files for the decode tests, made by libjpeg: every kind of sampling, scan and coding.
#ifndef MADE_JPEG_H
#define MADE_JPEG_H
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include "instrument.h"
#include "seed.h"

typedef enum { MADE_SEQUENTIAL, MADE_PROGRESSIVE, MADE_SEPARATE_SCANS, MADE_ROUGH } made_scans_t;

typedef struct {
    const char *name;
    J_COLOR_SPACE space;
    int across;                 //  sampling factors of the first component (and of the fourth); the others
                                //  have 1
    int down;
    made_scans_t scans;         //  MADE_ROUGH: progressive, and ends before its coefficients are exact
    bool arithmetic;
    unsigned restart;           //  interval in blocks; 0: none
} made_kind_t;

static const made_kind_t made_kinds [] = {
    { "4:4:4", JCS_YCbCr, 1, 1, MADE_SEQUENTIAL, false, 0 },
    { "4:2:2", JCS_YCbCr, 2, 1, MADE_SEQUENTIAL, false, 0 },
    { "4:2:0", JCS_YCbCr, 2, 2, MADE_SEQUENTIAL, false, 0 },
    { "4:4:0", JCS_YCbCr, 1, 2, MADE_SEQUENTIAL, false, 0 },
    { "4:1:1", JCS_YCbCr, 4, 1, MADE_SEQUENTIAL, false, 0 },
    { "4:1:0", JCS_YCbCr, 4, 2, MADE_SEQUENTIAL, false, 0 },
    { "2 x 4", JCS_YCbCr, 2, 4, MADE_SEQUENTIAL, false, 0 },
    { "3 x 1", JCS_YCbCr, 3, 1, MADE_SEQUENTIAL, false, 0 },
    { "RGB", JCS_RGB, 1, 1, MADE_SEQUENTIAL, false, 0 },
    { "grey", JCS_GRAYSCALE, 1, 1, MADE_SEQUENTIAL, false, 0 },
    { "grey 2 x 2", JCS_GRAYSCALE, 2, 2, MADE_SEQUENTIAL, false, 0 },
    { "CMYK", JCS_CMYK, 1, 1, MADE_SEQUENTIAL, false, 0 },
    { "YCCK", JCS_YCCK, 1, 1, MADE_SEQUENTIAL, false, 0 },
    { "YCCK 4:2:0", JCS_YCCK, 2, 2, MADE_SEQUENTIAL, false, 0 },
    { "4:2:0 restarts", JCS_YCbCr, 2, 2, MADE_SEQUENTIAL, false, 3 },
    { "4:4:4 restarts", JCS_YCbCr, 1, 1, MADE_SEQUENTIAL, false, 1 },
    { "4:2:0 arithmetic", JCS_YCbCr, 2, 2, MADE_SEQUENTIAL, true, 0 },
    { "4:2:2 arithmetic restarts", JCS_YCbCr, 2, 1, MADE_SEQUENTIAL, true, 2 },
    { "4:4:4 progressive", JCS_YCbCr, 1, 1, MADE_PROGRESSIVE, false, 0 },
    { "4:2:2 progressive", JCS_YCbCr, 2, 1, MADE_PROGRESSIVE, false, 0 },
    { "4:2:0 progressive", JCS_YCbCr, 2, 2, MADE_PROGRESSIVE, false, 5 },
    { "4:4:0 progressive", JCS_YCbCr, 1, 2, MADE_PROGRESSIVE, false, 0 },
    { "grey progressive", JCS_GRAYSCALE, 1, 1, MADE_PROGRESSIVE, false, 0 },
    { "YCCK progressive", JCS_YCCK, 1, 1, MADE_PROGRESSIVE, false, 0 },
    { "4:2:0 progressive arithmetic", JCS_YCbCr, 2, 2, MADE_PROGRESSIVE, true, 0 },
    { "4:2:0 separate scans", JCS_YCbCr, 2, 2, MADE_SEPARATE_SCANS, false, 0 },
    { "4:1:1 separate scans", JCS_YCbCr, 4, 1, MADE_SEPARATE_SCANS, false, 2 },
    { "4:2:0 rough", JCS_YCbCr, 2, 2, MADE_ROUGH, false, 0 },
    { "4:4:4 rough", JCS_YCbCr, 1, 1, MADE_ROUGH, false, 0 },
};
enum { MADE_KINDS = sizeof made_kinds / sizeof *made_kinds };
enum { MADE_KIND_444 = 0, MADE_KIND_420 = 2, MADE_KIND_GREY = 9, MADE_KIND_RESTARTS = 15,
    MADE_KIND_PROGRESSIVE = 20, MADE_KIND_SEPARATE = 25 };

typedef struct {
    uint8_t *bytes;
    unsigned long size;
} made_file_t;

//  Rows of waves, edges and noise: what shows a wrong neighbour.
static inline INSTRUMENT_ROWS void
made_paint (uint8_t *row, uint32_t y, uint32_t width, int components, uint64_t *random)
{
    for (uint32_t x = 0; x < width; x++)
        for (int component = 0; component < components; component++) {
            uint32_t wave = 3 * x * (uint32_t) (component + 1) + y * (uint32_t) (7 - component);
            uint32_t value = (x / 11 + y / 5) % 3? wave % 200: (uint32_t) (255 * (component & 1));
            *row++ = (uint8_t) (value + test_below (random, 40));
        }
}

static const jpeg_scan_info made_separate [] = {
    { 1, { 0 }, 0, 63, 0, 0 }, { 1, { 1 }, 0, 63, 0, 0 }, { 1, { 2 }, 0, 63, 0, 0 },
};
static const jpeg_scan_info made_rough [] = { { 3, { 0, 1, 2 }, 0, 0, 0, 1 }, { 1, { 0 }, 1, 5, 0, 2 } };

static inline void
made_set_scans (struct jpeg_compress_struct *info, made_scans_t scans)
{
    if (scans == MADE_PROGRESSIVE)
        jpeg_simple_progression (info);
    if (scans == MADE_SEPARATE_SCANS) {
        info->scan_info = made_separate;
        info->num_scans = 3;
    }
    if (scans == MADE_ROUGH) {
        info->scan_info = made_rough;
        info->num_scans = 2;
    }
}

static inline int
made_components (const made_kind_t *kind)
{
    return kind->space == JCS_GRAYSCALE? 1: kind->space == JCS_CMYK || kind->space == JCS_YCCK? 4: 3;
}

//  A file of that kind; the caller frees its bytes.  with: written behind the first marker (NULL: nothing).
static inline made_file_t
made_jpeg_with (const made_kind_t *kind, uint32_t height, uint32_t width, int quality, uint64_t *random,
    const made_file_t *with)
{
    made_file_t file = { NULL, 0 };
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    info.err = jpeg_std_error (&errors);
    jpeg_create_compress (&info);
    jpeg_mem_dest (&info, &file.bytes, &file.size);
    info.image_height = height;
    info.image_width = width;
    info.input_components = made_components (kind);
    info.in_color_space = info.input_components == 1? JCS_GRAYSCALE: info.input_components == 3? JCS_RGB:
        JCS_CMYK;
    jpeg_set_defaults (&info);
    jpeg_set_colorspace (&info, kind->space);
    jpeg_set_quality (&info, quality, TRUE);
    for (int component = 0; component < info.num_components; component++) {
        bool fine = component == 0 || component == 3;
        info.comp_info [component].h_samp_factor = fine? kind->across: 1;
        info.comp_info [component].v_samp_factor = fine? kind->down: 1;
    }
    info.arith_code = kind->arithmetic;
    info.restart_interval = kind->restart;
    made_set_scans (&info, kind->scans);
    jpeg_start_compress (&info, TRUE);
    if (with)
        jpeg_write_marker (&info, JPEG_APP0 + 1, with->bytes, (unsigned) with->size);
    uint8_t *row = malloc ((size_t) width * 4);
    for (uint32_t y = 0; y < height; y++) {
        made_paint (row, y, width, info.input_components, random);
        jpeg_write_scanlines (&info, &row, 1);
    }
    jpeg_finish_compress (&info);
    jpeg_destroy_compress (&info);
    free (row);
    return file;
}

static inline made_file_t
made_jpeg (const made_kind_t *kind, uint32_t height, uint32_t width, uint64_t *random)
{
    return made_jpeg_with (kind, height, width, 60 + (int) test_below (random, 40), random, NULL);
}

//  The file with extra bytes at at.
static inline void
made_insert (made_file_t *self, size_t at, const void *bytes, size_t count)
{
    self->bytes = realloc (self->bytes, self->size + count);
    memmove (self->bytes + at + count, self->bytes + at, self->size - at);
    memcpy (self->bytes + at, bytes, count);
    self->size += count;
}

//  Where the frame header's marker stands: 0xc4 are tables, the others up to 0xca that libjpeg writes are
//  frames.
static inline size_t
made_frame (const uint8_t *bytes, size_t size)
{
    size_t at = 2;
    while (bytes [at + 1] < 0xc0 || bytes [at + 1] > 0xca || bytes [at + 1] == 0xc4) {
        at += 2 + (size_t) (bytes [at + 2] << 8 | bytes [at + 3]);
        assert (at + 9 < size);
    }
    return at;
}

//  Makes a file say that it is height x width; its data stay those of another image.
static inline void
made_set_size (uint8_t *bytes, size_t size, uint32_t height, uint32_t width)
{
    uint8_t *frame = bytes + made_frame (bytes, size);
    frame [5] = (uint8_t) (height >> 8);
    frame [6] = (uint8_t) height;
    frame [7] = (uint8_t) (width >> 8);
    frame [8] = (uint8_t) width;
}

static inline void
made_insert_marker (made_file_t *file, size_t at, uint8_t code, const char *text, size_t size)
{
    uint8_t *marker = malloc (4 + size);
    memcpy (marker, (const uint8_t []) { 0xff, code, (uint8_t) ((size + 2) >> 8), (uint8_t) (size + 2) }, 4);
    memcpy (marker + 4, text, size);
    made_insert (file, at, marker, 4 + size);
    free (marker);
}

//  Where the last scan begins.
static inline size_t
made_last_scan (const made_file_t *file)
{
    size_t at = file->size - 2;
    while (file->bytes [at] != 0xff || file->bytes [at + 1] != 0xda)
        at--;
    return at;
}

#endif

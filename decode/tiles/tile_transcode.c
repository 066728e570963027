#include "tile_transcode.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "jpeg_output.h"
#include "marker_walk.h"
#include "tile_frame.h"
#include "tile_table.h"

enum { THOUSAND = 1000, BLOCK = 8, SOI_BYTES = 2, SETS = 2 };
//  No number of MCUs of a row, which are at most 8192, has more divisors.
enum { INTERVALS_MAX = 64 };

//  All that one call holds; whatever of it there is goes at the end.
typedef struct {
    jpeg_trouble_t trouble;
    const uint8_t *bytes;               //  the original, lent
    size_t size;
    jpeg_coefficients_t original;
    jpeg_coefficients_t copy;
    struct jpeg_compress_struct writer;
    const uint8_t *tail;                //  behind the original's end marker
    size_t tail_bytes;
    jpeg_output_t output;               //  metadata, then what libjpeg has written, then the tail
    uint32_t interval;
    tile_table_t table;
} job_t;

//  ---- metadata

//  What stands behind the end marker may be a picture of its own; an index of such says where, which would
//  not be right any more.
static void
s_survey (job_t *self)
{
    marker_walk_t walk = marker_walk_begin (self->bytes, self->size);
    while (marker_walk_metadata (&walk)) {
        if (walk.in_scans)
            jpeg_trouble (&self->trouble, -EDOM, "metadata behind a scan's header");
        bool is_index = walk.code == MARKER_APP_FIRST + 2 && walk.segment_bytes >= 8
            && memcmp (walk.segment + 4, "MPF", 4) == 0;
        if (is_index)
            jpeg_trouble (&self->trouble, -EDOM, "several pictures in one file");
    }
    if (!walk.ended)
        jpeg_trouble (&self->trouble, -EDOM, "markers that cannot be told apart");
    self->tail = self->bytes + walk.at;
    self->tail_bytes = self->size - walk.at;
}

static void
s_append_metadata (job_t *self)
{
    marker_walk_t walk = marker_walk_begin (self->bytes, self->size);
    while (marker_walk_metadata (&walk))
        jpeg_output_append (&self->output, walk.segment, walk.segment_bytes);
}

static bool
s_same_metadata (const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes)
{
    marker_walk_t left = marker_walk_begin (one, one_bytes), right = marker_walk_begin (other, other_bytes);
    bool more;
    do {
        more = marker_walk_metadata (&left);
        if (more != marker_walk_metadata (&right))
            return false;
        if (more && (left.in_scans != right.in_scans || left.segment_bytes != right.segment_bytes
        ||  memcmp (left.segment, right.segment, left.segment_bytes) != 0))
            return false;
    } while (more);
    size_t tail_bytes = one_bytes - left.at;
    return tail_bytes == other_bytes - right.at
        && (!tail_bytes || memcmp (one + left.at, other + right.at, tail_bytes) == 0);
}

//  ---- writing

//  Leaves the whole tiled file in output.  What libjpeg writes begins with two bytes that metadata stand
//  behind.
static void
s_write (job_t *self, uint32_t interval)
{
    jpeg_output_t *output = &self->output;
    self->interval = interval;
    jpeg_output_begin (output, &self->trouble);
    jpeg_output_append (output, self->bytes, SOI_BYTES);
    s_append_metadata (self);
    //  libjpeg's own begin takes the place of the last two of them, which come back.
    size_t begin = output->size - SOI_BYTES;
    uint8_t last [SOI_BYTES];
    memcpy (last, output->bytes + begin, SOI_BYTES);
    output->size = begin;
    jpeg_output_open (output, &self->writer, &self->original);
    self->writer.optimize_coding = TRUE;
    self->writer.restart_interval = interval;
    jpeg_write_coefficients (&self->writer, self->original.arrays);
    jpeg_finish_compress (&self->writer);
    memcpy (output->bytes + begin, last, SOI_BYTES);
    jpeg_output_append (output, self->tail, self->tail_bytes);
}

static uint32_t
s_mcu_width (const struct jpeg_decompress_struct *info)
{
    return info->num_components == 1? BLOCK: BLOCK * (uint32_t) info->max_h_samp_factor;
}

//  MCUs of a row.
static uint32_t
s_columns (const struct jpeg_decompress_struct *info)
{
    uint32_t side = s_mcu_width (info);
    return (info->image_width + side - 1) / side;
}

//  The largest interval that divides columns, up to most.
static uint32_t
s_divisor (uint32_t columns, uint32_t most)
{
    uint32_t interval = most < 1? 1: most < columns? most: columns;
    while (columns % interval)
        interval--;
    return interval;
}

//  Whether the file, written so, is within the limit.
static bool
s_fits (job_t *self, uint32_t interval, uint32_t thousandths)
{
    s_write (self, interval);
    return (uint64_t) self->output.size * THOUSAND <= (uint64_t) self->size * thousandths;
}

//  Segments that are wider are fewer, and cost less: mostly the narrowest fit, and where the widest do not,
//  nothing else does.  Between them the place is halved, for each try writes the whole file.
static void
s_write_within (job_t *self, uint32_t columns, uint32_t thousandths)
{
    uint32_t intervals [INTERVALS_MAX],
        least = s_divisor (columns, TILE_SPAN_LEAST / s_mcu_width (&self->original.info));
    size_t count = 0;
    for (uint32_t interval = least; interval <= columns; interval++)
        if (columns % interval == 0)
            intervals [count++] = interval;
    if (s_fits (self, least, thousandths) || count == 1 || !s_fits (self, columns, thousandths))
        return;
    size_t wide = count - 1;                    //  fits
    for (size_t narrow = 0; wide - narrow > 1;) {
        size_t middle = (narrow + wide) / 2;
        if (s_fits (self, intervals [middle], thousandths))
            wide = middle;
        else
            narrow = middle;
    }
    if (self->interval != intervals [wide])
        s_write (self, intervals [wide]);
}

static void
s_write_tiled (job_t *self, tile_layout_t layout)
{
    uint32_t columns = s_columns (&self->original.info), number = layout.number;
    switch (layout.rule) {
    case TILE_EVERY_MCU:
        s_write (self, 1);
        return;
    case TILE_COLUMNS:
        s_write (self, s_divisor (columns, number > 1? columns / number: columns));
        return;
    case TILE_SPAN:
        s_write (self, s_divisor (columns, number / s_mcu_width (&self->original.info)));
        return;
    case TILE_WITHIN:
        s_write_within (self, columns, number);
        return;
    }
    assert (false);
}

//  ---- checking

//  Whether the other file has all that the original has.
static void
s_compare (job_t *self, const uint8_t *bytes, size_t size)
{
    const char *what;
    jpeg_coefficients_read (&self->copy, &self->trouble, bytes, size, TILE_PIXELS_MAX);
    if (!jpeg_coefficients_same (&self->original, &self->copy, &what))
        jpeg_trouble (&self->trouble, -EDOM, what);
    if (!s_same_metadata (self->bytes, self->size, bytes, size))
        jpeg_trouble (&self->trouble, -EDOM, "metadata");
}

//  The result is what windows are cut from, and it is what the original was.
static void
s_check (job_t *self)
{
    tile_frame_t frame;
    const char *what;
    if (!tile_frame_read (&frame, self->output.bytes, self->output.size, &what))
        jpeg_trouble (&self->trouble, -EDOM, what);
    tile_table_status_t status = tile_table_scan (&self->table, &frame, self->output.bytes,
        self->output.size);
    if (status)             //  UNTESTED: libjpeg writes the markers that it is told to
        jpeg_trouble (&self->trouble, status == TILE_TABLE_NO_MEMORY? -ENOMEM: -EDOM,
            "restart markers are missing");
    s_compare (self, self->output.bytes, self->output.size);
}

static void
s_free (job_t *self)
{
    jpeg_coefficients_free (&self->original);
    jpeg_coefficients_free (&self->copy);
    jpeg_destroy_compress (&self->writer);
    tile_table_free (&self->table);
    free (self->output.bytes);
    free (self);
}

static job_t *
s_begin (const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
{
    assert (error && error_bytes > 0);
    job_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (error, error_bytes, "no memory");
        return NULL;
    }
    jpeg_trouble_init (&self->trouble, error, error_bytes);
    self->bytes = bytes;
    self->size = size;
    return self;
}

int
tile_transcode (const uint8_t *bytes, size_t size, tile_layout_t layout, tiled_t *tiled_p, char *error,
    size_t error_bytes)
{
    job_t *self = s_begin (bytes, size, error, error_bytes);
    if (!self)
        return -ENOMEM;
    if (setjmp (self->trouble.escape) == 0) {
        jpeg_coefficients_read (&self->original, &self->trouble, bytes, size, TILE_PIXELS_MAX);
        s_survey (self);
        s_write_tiled (self, layout);
        s_check (self);
        *tiled_p = (tiled_t) { self->output.bytes, self->output.size, self->interval, self->table.count,
            self->original.info.progressive_mode };
        self->output.bytes = NULL;
    }
    int rc = self->trouble.rc;
    s_free (self);
    return rc;
}

uint64_t
tile_transcode_memory (const uint8_t *bytes, size_t size)
{
    char error [JMSG_LENGTH_MAX];
    job_t *self = s_begin (bytes, size, error, sizeof error);
    if (!self)
        return 0;
    if (setjmp (self->trouble.escape) == 0)
        jpeg_coefficients_begin (&self->original, &self->trouble, bytes, size, TILE_PIXELS_MAX);
    uint64_t memory = self->trouble.rc? 0: SETS * jpeg_coefficients_memory (&self->original);
    s_free (self);
    return memory;
}

int
tile_compare (const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes, char *error,
    size_t error_bytes)
{
    job_t *self = s_begin (one, one_bytes, error, error_bytes);
    if (!self)
        return -ENOMEM;
    if (setjmp (self->trouble.escape) == 0) {
        jpeg_coefficients_read (&self->original, &self->trouble, one, one_bytes, TILE_PIXELS_MAX);
        s_compare (self, other, other_bytes);
    }
    int rc = self->trouble.rc;
    s_free (self);
    return rc;
}

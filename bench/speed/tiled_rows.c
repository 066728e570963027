#include "tiled_rows.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "geometry.h"
#include "jpeg_reader.h"
#include "marker_walk.h"
#include "median.h"
#include "picture.h"
#include "resize.h"
#include "tile_original.h"
#include "tile_window.h"

enum { SIDE = 224, ERROR_BYTES = 400, CHUNK = 20, ROUNDS_MAX = 1000 };

typedef enum { UNTILED, ROWS, THREE, NINE, SPAN_24, SPAN_48, SPAN_64, EVERY,
    WITHIN_1005, WITHIN_1010, WITHIN_1030, AUTO, ORIGINALS, LAYOUTS } layout_name_t;

static const struct {
    const char *name;
    tile_layout_t layout;
} s_layouts [LAYOUTS] = {
    [UNTILED] = { "untiled", { TILE_COLUMNS, 0 } },
    [ROWS] = { "whole rows", { TILE_COLUMNS, 1 } },
    [THREE] = { "3 segments a row or more", { TILE_COLUMNS, 3 } },
    [NINE] = { "9 segments a row or more", { TILE_COLUMNS, 9 } },
    [SPAN_24] = { "up to 24 pixels", { TILE_SPAN, 24 } },
    [SPAN_48] = { "up to 48 pixels", { TILE_SPAN, 48 } },
    [SPAN_64] = { "up to 64 pixels", { TILE_SPAN, 64 } },
    [EVERY] = { "every MCU", { TILE_EVERY_MCU, 0 } },
    [WITHIN_1005] = { "within 1.005 of each file", { TILE_WITHIN, 1005 } },
    [WITHIN_1010] = { "within 1.01 of each file", { TILE_WITHIN, 1010 } },
    [WITHIN_1030] = { "within 1.03 of each file", { TILE_WITHIN, 1030 } },
    [AUTO] = { "auto", { TILE_WITHIN, TILE_AUTO_THOUSANDTHS } },
    [ORIGINALS] = { "auto, originals kept", { TILE_WITHIN, TILE_AUTO_THOUSANDTHS } },
};

//  How pixels are made.
typedef enum { WHOLE, EXACT, SCALED } reading_t;
//  How far: with the resize or without it, or by the project's own decoder, which finds out by itself what is
//  tiled.
typedef enum { RESIZED, UNRESIZED, DECODER } extent_t;

typedef struct {
    const char *name;
    layout_name_t layout;
    reading_t reading;
    extent_t extent;
} way_t;

static const way_t s_ways [] = {
    { "full decode, resize", UNTILED, WHOLE, RESIZED },
    { "partial decode, resize", UNTILED, EXACT, RESIZED },
    { "partial decode, DCT scale, resize", UNTILED, SCALED, RESIZED },
    { "tiled, whole rows", ROWS, SCALED, RESIZED },
    { "tiled, >= 3 segments a row", THREE, SCALED, RESIZED },
    { "tiled, >= 9 segments a row", NINE, SCALED, RESIZED },
    { "tiled, up to 24 pixels", SPAN_24, SCALED, RESIZED },
    { "tiled, up to 48 pixels", SPAN_48, SCALED, RESIZED },
    { "tiled, up to 64 pixels", SPAN_64, SCALED, RESIZED },
    { "tiled, every MCU", EVERY, SCALED, RESIZED },
    { "tiled, within 1.005", WITHIN_1005, SCALED, RESIZED },
    { "tiled, within 1.01", WITHIN_1010, SCALED, RESIZED },
    { "tiled, within 1.03", WITHIN_1030, SCALED, RESIZED },
    { "tiled, auto", AUTO, SCALED, RESIZED },
    { "tiled, auto, originals kept", ORIGINALS, SCALED, RESIZED },
    { "tiled, auto, exact", AUTO, EXACT, RESIZED },
    { "no resize: partial decode", UNTILED, EXACT, UNRESIZED },
    { "no resize: partial decode, DCT scale", UNTILED, SCALED, UNRESIZED },
    { "no resize: tiled, every MCU", EVERY, SCALED, UNRESIZED },
    { "no resize: tiled, up to 24 pixels", SPAN_24, SCALED, UNRESIZED },
    { "no resize: tiled, auto", AUTO, SCALED, UNRESIZED },
    { "decoder, train: untiled", UNTILED, EXACT, DECODER },
    { "decoder, train: tiled, auto", AUTO, EXACT, DECODER },
    { "decoder, train, exact false: untiled", UNTILED, SCALED, DECODER },
    { "decoder, train, exact false: tiled, auto", AUTO, SCALED, DECODER },
};
enum { WAYS = sizeof s_ways / sizeof *s_ways };

//  The one from the originals.
static size_t
s_untiled (reading_t reading, extent_t extent)
{
    size_t way = 0;
    while (s_ways [way].layout != UNTILED || s_ways [way].reading != reading || s_ways [way].extent != extent)
        way++;
    return way;
}

typedef struct {
    const tiled_plan_t *plan;
    tiled_t *samples [LAYOUTS];         //  bytes NULL: stays as it is
    jpeg_reader_t *reader;
    resize_t *resize;
    decoder_t *decoder;
    tile_table_t table;
    scratch_t room;
    _Alignas (64) uint8_t target [SIDE * SIDE * IMAGE_COLOURS];
    uint64_t round;
    double seconds [WAYS] [ROUNDS_MAX];
} rows_t;

static double
s_now (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

//  ---- one image

static void
s_open (rows_t *self, const uint8_t *bytes, size_t size, uint32_t *height_p, uint32_t *width_p)
{
    const image_reader_options_t options = { .warnings_max = UINT32_MAX };
    char error [ERROR_BYTES];
    int rc = jpeg_reader_open (self->reader, &options, bytes, size, height_p, width_p, error, sizeof error);
    assert (rc == 0);
}

//  What the crop of this round takes of an image: described, and without pixels yet.
static picture_t
s_picture (const rows_t *self, size_t index, uint32_t height, uint32_t width)
{
    pipeline_key_t key = { .round = self->round, .id = index };
    keyed_random_t random;
    keyed_random_init (&random, &key, 0, self->plan->crop->place);
    image_box_t box = geometry_random_box (self->plan->crop, height, width, &random);
    picture_t picture;
    picture_init (&picture, height, width, IMAGE_COLOURS);
    picture_narrow (&picture, &box);
    picture_resize (&picture, RESIZE_BILINEAR, SIDE, SIDE);
    return picture;
}

static image_request_t
s_request (const picture_t *picture, reading_t reading)
{
    picture_need_t need = picture_need (picture, reading != SCALED);
    image_request_t request = picture_request (&need);
    if (reading == WHOLE)
        request.box = (image_box_t) { 0, 0, picture->height, picture->width };
    return request;
}

static void
s_read (rows_t *self, const image_request_t *request, image_pixels_t *pixels)
{
    char error [ERROR_BYTES];
    int rc = jpeg_reader_read (self->reader, request, pixels, error, sizeof error);
    assert (rc == 0);
}

static image_request_t
s_read_untiled (rows_t *self, const way_t *way, size_t index, picture_t *picture, image_pixels_t *pixels)
{
    const decoder_file_t *file = &self->plan->files [index];
    uint32_t height, width;
    s_open (self, file->bytes, file->size, &height, &width);
    *picture = s_picture (self, index, height, width);
    image_request_t request = s_request (picture, way->reading);
    s_read (self, &request, pixels);
    return request;
}

//  Nothing is known of the file beforehand.
static image_request_t
s_read_tiled (rows_t *self, const way_t *way, size_t index, picture_t *picture, image_pixels_t *pixels)
{
    const tiled_t *tiled = &self->samples [way->layout] [index];
    tile_frame_t frame;
    tile_window_t window;
    const char *reason;
    bool good = tile_frame_read (&frame, tiled->bytes, tiled->size, &reason);
    assert (good);
    tile_table_status_t status = tile_table_scan (&self->table, &frame, tiled->bytes, tiled->size);
    assert (status == TILE_TABLE_OK);
    *picture = s_picture (self, index, frame.height, frame.width);
    image_request_t request = s_request (picture, way->reading);
    good = tile_window_write (&window, &frame, &self->table, tiled->bytes, &request, &self->room);
    assert (good);
    uint32_t height, width;
    s_open (self, window.bytes, window.size, &height, &width);
    image_request_t inner = tile_window_request (&window, &request);
    s_read (self, &inner, pixels);
    return request;
}

//  As in the server: the same bytes in, the same version out.
static void
s_prepare_version (rows_t *self, const way_t *way, size_t index)
{
    const tiled_t *tiled = &self->samples [way->layout] [index];
    decoder_file_t file = self->plan->files [index];
    if (way->layout != UNTILED && tiled->bytes)
        file = (decoder_file_t) { tiled->bytes, tiled->size };
    decoder_sample_t sample = { .files = &file, .warnings_max = UINT32_MAX };
    pipeline_key_t key = { .round = self->round, .id = index };
    const pipeline_t *pipeline = way->reading == EXACT? self->plan->exact: self->plan->inexact;
    char error [ERROR_BYTES];
    decoder_status_t status = decoder_shared (self->decoder, pipeline, &key, &sample, self->target, NULL,
        error, sizeof error);
    assert (status == DECODER_OK);
}

static void
s_prepare (rows_t *self, const way_t *way, size_t index)
{
    if (way->extent == DECODER) {
        s_prepare_version (self, way, index);
        return;
    }
    picture_t picture;
    image_pixels_t pixels;
    bool is_tiled = way->layout != UNTILED && self->samples [way->layout] [index].bytes;
    image_request_t request = is_tiled? s_read_tiled (self, way, index, &picture, &pixels)
        : s_read_untiled (self, way, index, &picture, &pixels);
    if (way->extent != RESIZED)
        return;
    picture_supply (&picture, &request, &pixels);
    picture_resample_t resample = picture_resample (&picture);
    bool good = resize_run (self->resize, RESIZE_BILINEAR, &resample.have, resample.top, resample.left,
        &resample.down, &resample.across, self->target, image_bytes (1, SIDE, IMAGE_COLOURS));
    assert (good);
}

//  ---- all of them

//  Returns how many files stay as they are.
static size_t
s_tile (rows_t *self, layout_name_t layout)
{
    size_t refused = 0;
    for (size_t index = 0; index < self->plan->count; index++) {
        const decoder_file_t *file = &self->plan->files [index];
        tiled_t *tiled = &self->samples [layout] [index];
        char error [ERROR_BYTES];
        int rc = tile_transcode (file->bytes, file->size, s_layouts [layout].layout, tiled, error,
            sizeof error);
        if (rc == 0 && layout == ORIGINALS
            && tile_original_keep (file->bytes, file->size, tiled, error, sizeof error)) {
            free (tiled->bytes);
            rc = -1;
        }
        if (rc) {
            *tiled = (tiled_t) { .bytes = NULL };
            refused++;
        }
    }
    return refused;
}

//  The same pixels, whichever way.
static void
s_check (rows_t *self)
{
    uint8_t *models = malloc (2 * sizeof self->target);
    assert (models);
    for (size_t index = 0; index < self->plan->count; index++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            s_prepare (self, &s_ways [s_untiled (scaled? SCALED: EXACT, RESIZED)], index);
            memcpy (models + (size_t) scaled * sizeof self->target, self->target, sizeof self->target);
        }
        for (size_t way = 0; way < WAYS; way++) {
            if (s_ways [way].extent == UNRESIZED)
                continue;
            s_prepare (self, &s_ways [way], index);
            const uint8_t *model = models + (size_t) (s_ways [way].reading == SCALED) * sizeof self->target;
            if (memcmp (self->target, model, sizeof self->target) == 0)
                continue;
            fprintf (stderr, "decode_bench: image %zu: other pixels: %s\n", index, s_ways [way].name);
            exit (1);
        }
    }
    free (models);
}

static void
s_measure (rows_t *self)
{
    size_t count = self->plan->count;
    for (uint32_t round = 0; round < self->plan->rounds; round++) {
        self->round = round;
        for (size_t begin = 0; begin < count; begin += CHUNK)
            for (size_t way = 0; way < WAYS; way++) {
                double started = s_now ();
                for (size_t index = begin; index < begin + CHUNK && index < count; index++)
                    s_prepare (self, &s_ways [way], index);
                self->seconds [way] [round] += s_now () - started;
            }
        fprintf (stderr, "\rtiled: round %u of %u", round + 1, self->plan->rounds);
    }
    fputs ("\r                              \r", stderr);
}

//  ---- the report

static double
s_milliseconds (const rows_t *self, size_t way)
{
    double values [ROUNDS_MAX];
    memcpy (values, self->seconds [way], self->plan->rounds * sizeof *values);
    return 1000 * median_of (values, self->plan->rounds) / (double) self->plan->count;
}

//  How much faster than the best untiled way that goes as far.
static double
s_ratio (const rows_t *self, size_t way)
{
    double ratios [ROUNDS_MAX];
    extent_t extent = s_ways [way].extent;
    size_t exact = s_untiled (EXACT, extent), scaled = s_untiled (SCALED, extent);
    size_t best = s_milliseconds (self, exact) < s_milliseconds (self, scaled)? exact: scaled;
    if (extent == DECODER)      //  whether scales are used is for the pipeline to say
        best = s_untiled (s_ways [way].reading, extent);
    for (uint32_t round = 0; round < self->plan->rounds; round++)
        ratios [round] = self->seconds [best] [round] / self->seconds [way] [round];
    return median_of (ratios, self->plan->rounds);
}

typedef struct {
    double size;                //  to the originals'
    double bare;                //  the same, but the tiled ones' without their metadata
    double segments;            //  an image
} sizes_t;

static size_t
s_metadata_bytes (const decoder_file_t *file)
{
    marker_walk_t walk = marker_walk_begin (file->bytes, file->size);
    size_t sum = 0;
    while (marker_walk_metadata (&walk))
        sum += walk.segment_bytes;
    return sum;
}

static sizes_t
s_sizes (const rows_t *self, layout_name_t layout)
{
    double original = 0, tiled = 0, metadata = 0, segments = 0;
    for (size_t index = 0; index < self->plan->count; index++) {
        const tiled_t *sample = &self->samples [layout] [index];
        size_t size = self->plan->files [index].size;
        original += (double) size;
        tiled += (double) (sample->bytes? sample->size: size);
        metadata += (double) s_metadata_bytes (&self->plan->files [index]);
        segments += sample->segments;
    }
    return (sizes_t) { tiled / original, (tiled - metadata) / original,
        segments / (double) self->plan->count };
}

static json_t *
s_report (const rows_t *self, size_t refused)
{
    json_t *figures = json_object (), *ways = json_object (), *layouts = json_object ();
    const tiled_plan_t *plan = self->plan;
    if (!plan->json)
        printf ("%zu images, random resized crop to %d, %u rounds, one thread, processor time; %zu not "
            "tiled\n"
            "%-40s %9s %7s %9s %7s\n", plan->count, SIDE, plan->rounds, refused, "", "images/s", "ms",
            "to best", "size");
    for (size_t way = 0; way < WAYS; way++) {
        double time = s_milliseconds (self, way), ratio = s_ratio (self, way);
        double size = s_sizes (self, s_ways [way].layout).size;
        if (!plan->json)
            printf ("%-40s %9.0f %7.4f %9.3f %7.4f\n", s_ways [way].name, 1000 / time, time, ratio, size);
        json_object_set_new (ways, s_ways [way].name,
            json_pack ("{s:f,s:f,s:f}", "ms", time, "to_best_untiled", ratio, "size", size));
    }
    if (!plan->json)
        printf ("\n%-40s %9s %9s %9s\n", "layout", "segments", "size", "bare");
    for (layout_name_t layout = UNTILED + 1; layout < LAYOUTS; layout++) {
        sizes_t sizes = s_sizes (self, layout);
        if (!plan->json)
            printf ("%-40s %9.0f %9.4f %9.4f\n", s_layouts [layout].name, sizes.segments, sizes.size,
                sizes.bare);
        json_object_set_new (layouts, s_layouts [layout].name,
            json_pack ("{s:f,s:f,s:f}", "segments", sizes.segments,
            "size", sizes.size, "without_metadata", sizes.bare));
    }
    json_object_set_new (figures, "not_tiled", json_integer ((json_int_t) refused));
    json_object_set_new (figures, "ways", ways);
    json_object_set_new (figures, "layouts", layouts);
    return figures;
}

static void
s_close (rows_t *self)
{
    for (layout_name_t layout = UNTILED; layout < LAYOUTS; layout++) {
        for (size_t index = 0; index < self->plan->count; index++)
            free (self->samples [layout] [index].bytes);
        free (self->samples [layout]);
    }
    jpeg_reader_destroy (&self->reader);
    resize_destroy (&self->resize);
    decoder_destroy (&self->decoder);
    tile_table_free (&self->table);
    scratch_free (&self->room);
    free (self);
}

json_t *
tiled_rows (const tiled_plan_t *plan)
{
    assert (plan->rounds <= ROUNDS_MAX);
    rows_t *self = aligned_alloc (_Alignof (rows_t), sizeof (rows_t));
    assert (self);
    memset (self, 0, sizeof *self);
    self->plan = plan;
    self->reader = jpeg_reader_new ();
    self->resize = resize_new ();
    self->decoder = decoder_new ();
    assert (self->reader && self->resize && self->decoder);
    size_t refused = 0;
    for (layout_name_t layout = UNTILED; layout < LAYOUTS; layout++) {
        self->samples [layout] = calloc (plan->count, sizeof (tiled_t));
        assert (self->samples [layout]);
        if (layout != UNTILED)
            refused = s_tile (self, layout);
    }
    s_check (self);
    s_measure (self);
    json_t *figures = s_report (self, refused);
    s_close (self);
    return figures;
}

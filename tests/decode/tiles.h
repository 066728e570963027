/*  tiles -- tiled JPEGs for the tests: made, opened, in every layout.  */
#ifndef TILES_H
#define TILES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "made_jpeg.h"
#include "tile_table.h"
#include "tile_transcode.h"

static const tile_layout_t tiles_layouts [] = {
    { TILE_EVERY_MCU, 0 }, { TILE_COLUMNS, 1 }, { TILE_COLUMNS, 2 }, { TILE_COLUMNS, 3 }, { TILE_COLUMNS, 9 },
    { TILE_SPAN, 16 }, { TILE_SPAN, 24 }, { TILE_SPAN, 50 }, { TILE_WITHIN, 1000 },
    { TILE_WITHIN, 1060 }, { TILE_WITHIN, 9000 },
};
enum { TILES_LAYOUTS = sizeof tiles_layouts / sizeof *tiles_layouts };

//  A tiled file in memory of its very size, so that the address sanitizer sees a read behind its end.
typedef struct {
    uint8_t *bytes;
    size_t size;
    tile_frame_t frame;
    tile_table_t table;
} tiles_t;

static inline void
tiles_open (tiles_t *self, const uint8_t *bytes, size_t size)
{
    *self = (tiles_t) { .bytes = malloc (size), .size = size };
    memcpy (self->bytes, bytes, size);
    const char *reason;
    if (!tile_frame_read (&self->frame, self->bytes, size, &reason))
        fail_msg ("not tiled: %s", reason);
    assert_int_equal (tile_table_scan (&self->table, &self->frame, self->bytes, size), TILE_TABLE_OK);
}

static inline void
tiles_close (tiles_t *self)
{
    tile_table_free (&self->table);
    free (self->bytes);
}

//  A made file, tiled; the caller frees its bytes.
static inline tiled_t
tiles_make (const made_kind_t *kind, uint32_t height, uint32_t width, tile_layout_t layout, uint64_t *random)
{
    made_file_t file = made_jpeg (kind, height, width, random);
    tiled_t tiled;
    char error [400];
    assert_int_equal (tile_transcode (file.bytes, file.size, layout, &tiled, error, sizeof error), 0);
    free (file.bytes);
    return tiled;
}

//  Where real ones are; globfree when done.  False: nowhere.
static inline bool
tiles_photographs (glob_t *found)
{
    const char *root = getenv ("TUREEN_SOURCE");
    char pattern [1000];
    snprintf (pattern, sizeof pattern, "%s/../shared/data/photos/*/*", root? root: ".");
    *found = (glob_t) { .gl_pathc = 0 };
    return glob (pattern, 0, NULL, found) == 0;
}

#endif

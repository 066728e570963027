#include "tiling.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "catalogue.h"
#include "file_kind.h"
#include "tile_frame.h"
#include "tile_original.h"
#include "tile_table.h"
#include "tile_transcode.h"

enum { ERROR_BYTES = 256 };

//  ---- the setting

static tile_layout_t
s_layout (uint32_t tile)
{
    uint32_t pixels = packing_tile_layout (tile);
    return pixels == PACKING_TILE_AUTO? (tile_layout_t) { TILE_WITHIN, TILE_AUTO_THOUSANDTHS }
        : (tile_layout_t) { TILE_SPAN, pixels };
}


//  ---- one file

static bool
s_is_jpeg (const uint8_t *bytes, size_t size)
{
    const char *name;
    return file_kind (bytes, size, &name) == FILE_KIND_JPEG;
}

uint64_t
tiling_memory (const uint8_t *bytes, size_t size)
{
    return s_is_jpeg (bytes, size)? tile_transcode_memory (bytes, size): 0;
}

int
tiling_is_tiled (const uint8_t *bytes, size_t size)
{
    tile_frame_t frame;
    tile_table_t table = { .count = 0 };
    const char *reason;
    if (!s_is_jpeg (bytes, size) || !tile_frame_read (&frame, bytes, size, &reason))
        return 0;
    tile_table_status_t status = tile_table_scan (&table, &frame, bytes, size);
    tile_table_free (&table);
    return status == TILE_TABLE_NO_MEMORY? -ENOMEM: status == TILE_TABLE_OK;
}

//  Why a good file, perhaps, is of no kind that can be tiled.  The words are decode's, and may become others:
//  what is not known is OTHER, and the tests have one file for each of these.
static tiling_mark_t
s_reason (const char *error)
{
    static const struct { const char *words; tiling_mark_t mark; } reasons [] = {
        { "arithmetic coding", TILING_CODING }, { "Unsupported", TILING_CODING },
        { "ends before its coefficients are exact", TILING_UNFINISHED },
        { "several pictures", TILING_SEVERAL }, { "more pixels than the limit", TILING_PIXELS },
        { "more bytes than a sample may have", TILING_BYTES },
        { "not come back byte for byte", TILING_NO_WAY_BACK }, { "metadata behind", TILING_METADATA }
    };
    for (size_t index = 0; index < sizeof reasons / sizeof *reasons; index++)
        if (strstr (error, reasons [index].words))
            return reasons [index].mark;
    return TILING_OTHER;
}

//  rc: why it cannot be transcoded.
static int
s_keep (const uint8_t *bytes, size_t size, int rc, const char *error, uint32_t tile, tiling_file_t *file)
{
    if (tile & PACKING_TILE_ORIGINALS && tile_original_is_kept (bytes, size))
        return -EEXIST;
    file->mark = rc == -EBADMSG? TILING_DAMAGED: s_reason (error);
    int is_tiled = tiling_is_tiled (bytes, size);
    if (is_tiled > 0)
        file->mark = file->mark == TILING_DAMAGED? TILING_DAMAGED_TILED: TILING_WAS_TILED;
    return is_tiled < 0? is_tiled: 0;
}

int
tiling_convert (const uint8_t *bytes, size_t size, uint32_t tile, tiling_file_t *file)
{
    assert (tile != PACKING_TILE_OFF);
    *file = (tiling_file_t) { .mark = TILING_NO_JPEG };
    if (!s_is_jpeg (bytes, size))
        return 0;
    char error [ERROR_BYTES];
    tiled_t tiled = { .bytes = NULL };
    int rc = tile_transcode (bytes, size, s_layout (tile), &tiled, error, sizeof error);
    if (rc == 0 && tile & PACKING_TILE_ORIGINALS)
        rc = tile_original_keep (bytes, size, &tiled, error, sizeof error);
    if (rc) {
        free (tiled.bytes);
        return rc == -ENOMEM? rc: s_keep (bytes, size, rc, error, tile, file);
    }
    if (tiled.size > CATALOGUE_SAMPLE_BYTES_MAX) {      //  UNTESTED: takes a JPEG of 256 MiB
        free (tiled.bytes);
        return s_keep (bytes, size, -EDOM, "more bytes than a sample may have", tile, file);
    }
    uint8_t *trimmed = realloc (tiled.bytes, tiled.size);       //  there was room for more: others wait for
                                                                //  memory
    *file = (tiling_file_t) { trimmed? trimmed: tiled.bytes, tiled.size,
        tiled.was_progressive? TILING_TILED_PROGRESSIVE: TILING_TILED };
    return 0;
}


//  ---- what is told

static const char *const s_reasons [TILING_MARKS] = {
    [TILING_WAS_TILED] = "tiled as they came", [TILING_NO_JPEG] = "no JPEG",
        [TILING_DAMAGED] = "damaged JPEG",
    [TILING_CODING] = "arithmetic, lossless or 12-bit coding",
        [TILING_UNFINISHED] = "progressive without its last scans",
    [TILING_SEVERAL] = "several pictures in one file", [TILING_PIXELS] = "too many pixels",
    [TILING_BYTES] = "too many bytes when tiled", [TILING_OTHER] = "another kind of JPEG",
    [TILING_NO_WAY_BACK] = "would not come back byte for byte",
    [TILING_METADATA] = "metadata behind the picture's data",
    [TILING_DAMAGED_TILED] = "damaged JPEG, tiled as it came"
};

typedef struct {
    packing_mark_t all, made, progressive, kept;
} sums_t;

static void
s_add (packing_mark_t *sum, packing_mark_t mark)
{
    sum->files += mark.files;
    sum->source_bytes += mark.source_bytes;
    sum->bytes += mark.bytes;
}

static sums_t
s_sums (const packing_result_t *result)
{
    sums_t sums = { .progressive = result->marks [TILING_TILED_PROGRESSIVE] };
    for (int mark = 0; mark < PACKING_MARKS_MAX; mark++) {
        bool is_made = mark == TILING_TILED || mark == TILING_TILED_PROGRESSIVE;
        s_add (&sums.all, result->marks [mark]);
        s_add (is_made? &sums.made: &sums.kept, result->marks [mark]);
    }
    return sums;
}

static void
s_print_sizes (FILE *stream, packing_mark_t mark)
{
    fprintf (stream, "%.1f MB before, %.1f MB after", (double) mark.source_bytes / 1e6,
        (double) mark.bytes / 1e6);
    if (mark.source_bytes)
        fprintf (stream, " (%.4f)", (double) mark.bytes / (double) mark.source_bytes);
}

void
tiling_print (FILE *stream, const packing_result_t *result)
{
    sums_t sums = s_sums (result);
    char text [PACKING_TILE_BYTES];
    fprintf (stream, "--tile %s: %" PRIu64 " of %" PRIu64 " files became tiled JPEGs: ",
        packing_tile_text (result->tile, text), sums.made.files, sums.all.files);
    s_print_sizes (stream, sums.made);
    fprintf (stream, "\n  the same pixels and metadata to the last bit, %s\n",
        result->tile & PACKING_TILE_ORIGINALS
        ? "and the originals' bytes: `tureen unpack` gives those":
        "not the same bytes: `tureen unpack` gives the tiled files");
    if (sums.progressive.files) {
        fprintf (stream, "  %" PRIu64 " of them were progressive and are baseline now: ",
            sums.progressive.files);
        s_print_sizes (stream, sums.progressive);
        fputc ('\n', stream);
    }
    if (sums.kept.files)
        fprintf (stream, "  %" PRIu64 " stayed as they are:", sums.kept.files);
    const char *between = " ";
    for (int mark = 0; mark < TILING_MARKS; mark++)
        if (s_reasons [mark] && result->marks [mark].files) {
            fprintf (stream, "%s%" PRIu64 " %s", between, result->marks [mark].files, s_reasons [mark]);
            between = ", ";
        }
    if (sums.kept.files)
        fputc ('\n', stream);
}

json_t *
tiling_json (const packing_result_t *result)
{
    sums_t sums = s_sums (result);
    json_t *kept = json_object ();
    for (int mark = 0; mark < TILING_MARKS; mark++)
        if (s_reasons [mark] && result->marks [mark].files)
            json_object_set_new (kept, s_reasons [mark],
                json_integer ((json_int_t) result->marks [mark].files));
    return json_pack ("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "originals",
        (result->tile & PACKING_TILE_ORIGINALS) != 0, "files", (json_int_t) sums.all.files,
        "tiled", (json_int_t) sums.made.files, "source_bytes", (json_int_t) sums.made.source_bytes,
        "bytes", (json_int_t) sums.made.bytes, "progressive", (json_int_t) sums.progressive.files,
        "progressive_source_bytes", (json_int_t) sums.progressive.source_bytes,
        "progressive_bytes", (json_int_t) sums.progressive.bytes, "kept", kept);
}

//  Numbers and words that need no escaping.
void
tiling_note (void *context, const packing_result_t *result, char note [PACKING_NOTE_BYTES])
{
    (void) context;
    sums_t sums = s_sums (result);
    char text [PACKING_TILE_BYTES];
    char originals [40] = "";
    if (result->tile & PACKING_TILE_ORIGINALS)
        snprintf (originals, sizeof originals, ",\"originals\":%" PRIu64, sums.made.files);
    snprintf (note, PACKING_NOTE_BYTES, "{\"tile\":\"%s\",\"files\":%" PRIu64 ",\"tiled\":%" PRIu64 "%s}",
        packing_tile_text (packing_tile_layout (result->tile), text), sums.all.files,
        sums.made.files + result->marks [TILING_WAS_TILED].files + result->marks [TILING_DAMAGED_TILED].files,
        originals);
}

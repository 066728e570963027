#include "pack_tiling.h"
#include <stdio.h>
#include <string.h>

#include <jansson.h>

//  A pack may come from strangers: a note of another form is ignored, and does no harm.
pack_tiling_t
pack_tiling (const char *note)
{
    pack_tiling_t noted = { .is_tiled = false };
    if (!note || strnlen (note, PACKING_NOTE_BYTES) == PACKING_NOTE_BYTES)
        return noted;
    json_t *object = json_loads (note, JSON_REJECT_DUPLICATES, NULL);
    const char *text = NULL;
    json_int_t files = -1, tiled = -1, originals = -1;
    uint32_t tile = 0;
    bool fits = object && json_unpack (object, "{s:s, s:I, s:I, s?I}", "tile", &text, "files", &files,
        "tiled", &tiled,
            "originals", &originals) == 0
        && packing_tile_parse (text, &tile) && tile != PACKING_TILE_OFF && files >= 0 && tiled >= 0
            && tiled <= files
        && originals >= -1 && originals <= tiled;
    if (fits) {
        noted = (pack_tiling_t) { .is_tiled = true, .originals = originals >= 0, .files = (uint64_t) files,
            .tiled = (uint64_t) tiled,
            .original_files = originals > 0? (uint64_t) originals: 0 };
        snprintf (noted.tile, sizeof noted.tile, "%s", text);
    }
    json_decref (object);
    return noted;
}

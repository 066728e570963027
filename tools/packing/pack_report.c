#include "pack_report.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "image_reader.h"
#include "location.h"
#include "pack.h"
#include "packing.h"
#include "utf8.h"

//  ---- opening

static bool
s_has (const char *folder, const char *name)
{
    char path [PATH_MAX];
    int length = snprintf (path, sizeof path, "%s/%s", folder, name);
    return length < (int) sizeof path && access (path, F_OK) == 0;
}

catalogue_t *
pack_report_open (const char *path, progress_t *progress, int *status_p,
    char error [PACK_REPORT_ERROR_BYTES])
{
    char first [40];
    snprintf (first, sizeof first, PACK_VOLUME_NAME, 0u);
    *status_p = 2;
    catalogue_t *catalogue = NULL;
    bool is_in_store = store_is_meant (path);
    if (!is_in_store && access (path, F_OK) != 0) {
        if (errno == ENOENT)
            snprintf (error, PACK_REPORT_ERROR_BYTES, "there is no folder '%.600s': %s", path,
                location_remedy (path));
        else
            snprintf (error, PACK_REPORT_ERROR_BYTES, "cannot look at '%.600s' (%s): check the path", path,
                strerror (errno));
        return NULL;
    }
    if (!is_in_store && !s_has (path, PACK_INDEX_NAME) && !s_has (path, first)
    &&  !s_has (path, PACKING_FOLDER)) {
        snprintf (error, PACK_REPORT_ERROR_BYTES,
            "'%.600s' is no pack: give the folder that `tureen pack` made", path);
        return NULL;
    }
    catalogue_options_t options = { .path = path, .index_only = true, .progress = progress };
    int rc = catalogue_open (&catalogue, &options, error, PACK_REPORT_ERROR_BYTES);
    progress_clear (progress);
    //  Of a store, only what its index says can be damage; all else is that it does not answer.
    *status_p = rc && (!is_in_store || rc == -EBADMSG)? 1: 2;
    if (catalogue && !catalogue_pack (catalogue)) {
        snprintf (error, PACK_REPORT_ERROR_BYTES,
            "'%.600s' is no pack: give the folder that `tureen pack` made", path);
        catalogue_destroy (&catalogue);
    }
    return catalogue;
}


//  ---- damage

const char *
pack_report_name (const catalogue_t *catalogue, uint32_t id, size_t field,
    char buffer [PACK_REPORT_NAME_BYTES])
{
    char path [PATH_MAX];
    size_t length = catalogue_path (catalogue, id, field, path, sizeof path);
    return utf8_visible (path, length < sizeof path? length: sizeof path - 1, buffer, PACK_REPORT_NAME_BYTES);
}

void
pack_report_sample (FILE *stream, const catalogue_t *catalogue, const pack_scan_sample_t *sample)
{
    char name [PACK_REPORT_NAME_BYTES];
    assert (sample->damage);
    fprintf (stream, PACK_VOLUME_NAME ": chunk %" PRIu32 ": sample %" PRIu32 " '%s': %s: %s\n",
        sample->volume, sample->chunk,
        sample->id, pack_report_name (catalogue, sample->id, sample->field, name),
        catalogue_field_name (catalogue, sample->field), sample->damage);
}

void
pack_report_volume (FILE *stream, const catalogue_t *catalogue, uint32_t volume, const char *damage,
    bool is_lost)
{
    fprintf (stream, PACK_VOLUME_NAME ": %s", volume, damage);
    if (is_lost) {
        const pack_t *pack = catalogue_pack (catalogue);
        uint32_t first = pack_volume_first (pack, volume), end = pack_volume_first (pack, volume + 1);
        uint32_t chunk = pack_chunk_samples (pack);
        fprintf (stream, end - first == 1? ": its %" PRIu32 " sample is lost, chunk %" PRIu32:
            ": all its %" PRIu32 " samples are lost, chunks %" PRIu32 " to %" PRIu32, end - first,
            first / chunk,
            (end - 1) / chunk);
    }
    fputc ('\n', stream);
}

//  The writer's note on the pack (docs/format.md).
void
pack_report_tiled (FILE *stream, const catalogue_t *catalogue)
{
    const char *note = pack_note (catalogue_pack (catalogue));
    if (note && strstr (note, "\"tile\""))
        fprintf (stream, "an earlier version made this pack with --tile: its JPEGs have the pixels of the "
            "originals and other bytes; pack the source again for those\n");
}

//  ---- how far

void
pack_report_begin (pack_report_meter_t *self, const char *what, const pack_t *pack)
{
    self->began = progress_seconds (&self->progress);
    self->bytes = self->samples = 0;
    progress_step (&self->progress, &(progress_step_t) { .what = what, .beside = "samples",
        .total = pack_bytes (pack) }, 0);
}

double
pack_report_seconds (const pack_report_meter_t *self)
{
    return progress_seconds (&self->progress) - self->began;
}

void
pack_report_read (pack_report_meter_t *self, uint64_t bytes)
{
    self->bytes += bytes;
    progress_tell (&self->progress, self->bytes, ++self->samples);
}

//  ---- values that images lose

void
pack_report_name_clipped (pack_report_clipped_t *self, const catalogue_t *catalogue)
{
    char name [PACK_REPORT_NAME_BYTES];
    if (self->count && !*self->name)
        strcpy (self->name, pack_report_name (catalogue, self->first, 0, name));
}

void
pack_report_note_clipped (pack_report_clipped_t *self, const catalogue_t *catalogue, uint32_t id,
    const uint8_t *bytes, size_t size)
{
    if (!image_reader_clips (bytes, size))
        return;
    if (self->count++ == 0)
        self->first = id;
    if (catalogue)
        pack_report_name_clipped (self, catalogue);
}

bool
pack_report_clipped_text (const pack_report_clipped_t *self, char text [PACK_REPORT_CLIPPED_BYTES])
{
    if (self->count == 0)
        return false;
    snprintf (text, PACK_REPORT_CLIPPED_BYTES, "%" PRIu64 " sample%s 16 bits of grey, of which values above "
        "255 become 255 when they are read as images, as by Pillow's convert (\"RGB\"); the first is '%s': "
        "scale them to 8 bits, or give depths as a field of masks, which are read as \"uint16\"", self->count,
        self->count == 1? " has": "s have", self->name);
    return true;
}

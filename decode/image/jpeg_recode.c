#include "jpeg_recode.h"
#include <errno.h>
#include "marker_walk.h"

enum { SEGMENT_HEAD_BYTES = 4, SHIFT_MAX = 13 };

void
jpeg_recode_open (jpeg_recode_t *self, jpeg_output_t *output, jpeg_coefficients_t *coefficients)
{
    self->trouble = output->trouble;
    self->coefficients = coefficients;
    jpeg_output_open (output, &self->writer, coefficients);
}

void
jpeg_recode_free (jpeg_recode_t *self)
{
    jpeg_coefficients_free (&self->header);
    jpeg_destroy_compress (&self->writer);
}

static int
s_component (const jpeg_recode_t *self, uint8_t id)
{
    const struct jpeg_decompress_struct *info = &self->coefficients->info;
    for (int index = 0; index < info->num_components; index++)
        if (info->comp_info [index].component_id == id)
            return index;
    return -1;
}

//  One scan's header: its components with their tables, and which coefficients it has.
static bool
s_read_scan (jpeg_recode_t *self, const uint8_t *segment, size_t bytes)
{
    size_t count = bytes > SEGMENT_HEAD_BYTES? segment [SEGMENT_HEAD_BYTES]: 0;
    if (count == 0 || count > MAX_COMPS_IN_SCAN || bytes < SEGMENT_HEAD_BYTES + 1 + 2 * count + 3
    ||  self->script_count == DECODER_SCANS_MAX)
        return false;
    jpeg_scan_info *scan = &self->script [self->script_count++];
    *scan = (jpeg_scan_info) { .comps_in_scan = (int) count, .Ss = 0, .Se = DCTSIZE2 - 1 };
    const uint8_t *at = segment + SEGMENT_HEAD_BYTES + 1, *behind = at + 2 * count;
    //  In others these say nothing, and libjpeg wants them right.
    bool is_progressive = self->header.info.progressive_mode;
    if (is_progressive) {
        scan->Ss = behind [0];
        scan->Se = behind [1];
        scan->Ah = behind [2] >> 4;
        scan->Al = behind [2] & 15;
        if (scan->Ss > scan->Se || scan->Se >= DCTSIZE2 || scan->Ah > SHIFT_MAX || scan->Al > SHIFT_MAX)
            return false;
    }
    for (size_t index = 0; index < count; index++, at += 2) {
        int component = s_component (self, at [0]);
        if (component < 0)
            return false;
        scan->component_index [index] = component;
        jpeg_component_info *info = &self->writer.comp_info [component];
        //  A scan names tables that it has no use for as well.
        if (!is_progressive || (scan->Ss == 0 && scan->Ah == 0))
            info->dc_tbl_no = at [1] >> 4 & (NUM_HUFF_TBLS - 1);
        if (!is_progressive || scan->Ss > 0)
            info->ac_tbl_no = at [1] & (NUM_HUFF_TBLS - 1);
    }
    return true;
}

static void
s_copy_table (jpeg_recode_t *self, JHUFF_TBL **target, const JHUFF_TBL *table)
{
    if (!table)
        return;
    if (!*target)
        *target = jpeg_alloc_huff_table ((j_common_ptr) &self->writer);
    **target = *table;
    (*target)->sent_table = FALSE;
}

//  As the original's header says, and with the method.  The writer is open.
static void
s_prepare (jpeg_recode_t *self, const uint8_t *around, size_t around_bytes, bool is_optimal)
{
    struct jpeg_compress_struct *writer = &self->writer;
    const struct jpeg_decompress_struct *header = &self->header.info;
    writer->restart_interval = header->restart_interval;
    writer->optimize_coding = is_optimal;
    marker_walk_t walk = marker_walk_begin (around, around_bytes);
    while (marker_walk_next (&walk))
        if (walk.code == MARKER_SOS && !s_read_scan (self, walk.segment, walk.segment_bytes))
            jpeg_trouble (self->trouble, -EDOM, "a scan of a kind that cannot be written");
    writer->scan_info = self->script;
    writer->num_scans = self->script_count;
    for (int index = 0; !writer->optimize_coding && index < NUM_HUFF_TBLS; index++) {
        s_copy_table (self, &writer->dc_huff_tbl_ptrs [index], header->dc_huff_tbl_ptrs [index]);
        s_copy_table (self, &writer->ac_huff_tbl_ptrs [index], header->ac_huff_tbl_ptrs [index]);
    }
}

void
jpeg_recode_write (jpeg_recode_t *self, const uint8_t *around, size_t around_bytes, bool is_optimal)
{
    jpeg_coefficients_open (&self->header, self->trouble, around, around_bytes);
    s_prepare (self, around, around_bytes, is_optimal);
    jpeg_write_coefficients (&self->writer, self->coefficients->arrays);
    jpeg_finish_compress (&self->writer);
}

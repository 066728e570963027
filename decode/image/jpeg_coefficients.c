#include "jpeg_coefficients.h"
#include <errno.h>
#include <string.h>
#include <jerror.h>
#include "decode_limits.h"

//  Coefficients that decoders make up where a progressive file ends before they are exact, and the first.
enum { SMOOTHED_LAST = 9 };

//  ---- complaints

static void
s_error_exit (j_common_ptr info)
{
    jpeg_trouble_t *self = (jpeg_trouble_t *) info->err;
    char message [JMSG_LENGTH_MAX];
    info->err->format_message (info, message);
    int code = info->err->msg_code;
    bool other = code == JERR_SOF_UNSUPPORTED || code == JERR_BAD_PRECISION || !info->is_decompressor;
    jpeg_trouble (self, code == JERR_OUT_OF_MEMORY? -ENOMEM: other? -EDOM: -EBADMSG, message);
}

//  Warnings (level -1): no coefficients to rely on.
static void
s_emit_message (j_common_ptr info, int level)
{
    if (level < 0)
        s_error_exit (info);
}

void
jpeg_trouble_init (jpeg_trouble_t *self, char *error, size_t error_bytes)
{
    *self = (jpeg_trouble_t) { .error = error, .error_bytes = error_bytes };
    jpeg_std_error (&self->manager);
    self->manager.error_exit = s_error_exit;
    self->manager.emit_message = s_emit_message;
    *error = 0;
}

void
jpeg_trouble (jpeg_trouble_t *self, int rc, const char *text)
{
    const char *kind = rc == -ENOMEM? "no memory": rc == -EDOM? "JPEG that cannot be tiled": "damaged JPEG";
    snprintf (self->error, self->error_bytes, "%s: %s", kind, text);
    self->rc = rc;
    longjmp (self->escape, 1);
}

//  ---- the source: all bytes are there

static jpeg_trouble_t *
s_trouble (j_decompress_ptr info)
{
    return (jpeg_trouble_t *) info->err;
}

static void
s_no_work (j_decompress_ptr info)
{
    (void) info;
}

static boolean
s_fill_input_buffer (j_decompress_ptr info)
{
    jpeg_trouble (s_trouble (info), -EBADMSG, "the file ends before the image does");
}

static void
s_skip_input_data (j_decompress_ptr info, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t) bytes > info->src->bytes_in_buffer)
        s_fill_input_buffer (info);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t) bytes;
}

//  Called for each row of blocks of each scan: a small file may hold scans without end.
static void
s_progress (j_common_ptr info)
{
    j_decompress_ptr self = (j_decompress_ptr) info;
    if (self->input_scan_number > DECODER_SCANS_MAX)
        jpeg_trouble (s_trouble (self), -EDOM, "more scans than the limit");
}

//  ---- reading

static void
s_check_header (struct jpeg_decompress_struct *info, uint64_t pixels_max)
{
    jpeg_trouble_t *trouble = s_trouble (info);
    if (info->arith_code)
        jpeg_trouble (trouble, -EDOM, "arithmetic coding");
    if (info->num_components != 1 && info->num_components != 3 && info->num_components != 4)
        jpeg_trouble (trouble, -EDOM, "neither grey, colour nor CMYK");
    if ((uint64_t) info->image_width * info->image_height > pixels_max)
        jpeg_trouble (trouble, -EDOM, "more pixels than the limit");
    for (int index = 0; index < info->num_components; index++)
        if (info->max_h_samp_factor % info->comp_info [index].h_samp_factor
        ||  info->max_v_samp_factor % info->comp_info [index].v_samp_factor)
            jpeg_trouble (trouble, -EDOM, "sampling that no decoder of ours reads");
}

//  Whatever else a scan may have left open.
static void
s_check_whole (struct jpeg_decompress_struct *info)
{
    jpeg_trouble_t *trouble = s_trouble (info);
    for (int component = 0; component < info->num_components; component++) {
        if (!info->comp_info [component].quant_table)
            jpeg_trouble (trouble, -EDOM, "a component without a scan");
        for (int index = 0; info->progressive_mode && index <= SMOOTHED_LAST; index++)
            if (info->coef_bits [component] [index] != 0)
                jpeg_trouble (trouble, -EDOM, "progressive, and ends before its coefficients are exact");
    }
}

void
jpeg_coefficients_open (jpeg_coefficients_t *self, jpeg_trouble_t *trouble, const uint8_t *bytes, size_t size)
{
    self->source = (struct jpeg_source_mgr) {
        .next_input_byte = bytes, .bytes_in_buffer = size, .init_source = s_no_work, .term_source = s_no_work,
        .fill_input_buffer = s_fill_input_buffer, .skip_input_data = s_skip_input_data,
        .resync_to_restart = jpeg_resync_to_restart
    };
    self->progress.progress_monitor = s_progress;
    self->info.err = &trouble->manager;
    jpeg_create_decompress (&self->info);
    self->info.mem->max_memory_to_use = 0;      //  as much as there is, whatever JPEGMEM in the environment
                                                //  says
    self->info.src = &self->source;
    self->info.progress = &self->progress;
    jpeg_read_header (&self->info, TRUE);
}

void
jpeg_coefficients_begin (jpeg_coefficients_t *self, jpeg_trouble_t *trouble, const uint8_t *bytes,
    size_t size, uint64_t pixels_max)
{
    jpeg_coefficients_open (self, trouble, bytes, size);
    s_check_header (&self->info, pixels_max);
}

static uint64_t
s_up (JDIMENSION number, int unit)
{
    return ((uint64_t) number + (uint64_t) unit - 1) / (uint64_t) unit * (uint64_t) unit;
}

//  In whole MCUs.
uint64_t
jpeg_coefficients_memory (const jpeg_coefficients_t *self)
{
    uint64_t blocks = 0;
    for (int index = 0; index < self->info.num_components; index++) {
        const jpeg_component_info *component = &self->info.comp_info [index];
        blocks += s_up (component->width_in_blocks, component->h_samp_factor)
            * s_up (component->height_in_blocks, component->v_samp_factor);
    }
    return blocks * sizeof (JBLOCK);
}

void
jpeg_coefficients_read (jpeg_coefficients_t *self, jpeg_trouble_t *trouble, const uint8_t *bytes, size_t size,
    uint64_t pixels_max)
{
    jpeg_coefficients_begin (self, trouble, bytes, size, pixels_max);
    self->arrays = jpeg_read_coefficients (&self->info);
    s_check_whole (&self->info);
}

void
jpeg_coefficients_free (jpeg_coefficients_t *self)
{
    jpeg_destroy_decompress (&self->info);
}

//  ---- comparing

static bool
s_same_component (const jpeg_component_info *one, const jpeg_component_info *other)
{
    return one->component_id == other->component_id
        && one->h_samp_factor == other->h_samp_factor && one->v_samp_factor == other->v_samp_factor
        && one->width_in_blocks == other->width_in_blocks && one->height_in_blocks == other->height_in_blocks;
}

static bool
s_same_blocks (jpeg_coefficients_t *one, jpeg_coefficients_t *other, int component)
{
    const jpeg_component_info *info = &one->info.comp_info [component];
    for (JDIMENSION row = 0; row < info->height_in_blocks; row++) {
        jpeg_coefficients_t *both [2] = { one, other };
        JBLOCKARRAY blocks [2];
        for (int index = 0; index < 2; index++) {
            struct jpeg_decompress_struct *self = &both [index]->info;
            blocks [index] = self->mem->access_virt_barray ((j_common_ptr) self,
                both [index]->arrays [component], row, 1, FALSE);
        }
        if (memcmp (*blocks [0], *blocks [1], info->width_in_blocks * sizeof **blocks [0]) != 0)
            return false;
    }
    return true;
}

bool
jpeg_coefficients_same (jpeg_coefficients_t *one, jpeg_coefficients_t *other, const char **what_p)
{
    const struct jpeg_decompress_struct *left = &one->info, *right = &other->info;
    *what_p = "size or number of components";
    if (left->image_width != right->image_width || left->image_height != right->image_height
    ||  left->num_components != right->num_components)
        return false;
    *what_p = "meaning of the colours";
    if (left->jpeg_color_space != right->jpeg_color_space)
        return false;
    for (int component = 0; component < left->num_components; component++) {
        const jpeg_component_info *mine = &left->comp_info [component],
            *yours = &right->comp_info [component];
        *what_p = "sampling";
        if (!s_same_component (mine, yours))
            return false;
        *what_p = "quantisation";
        if (memcmp (mine->quant_table->quantval, yours->quant_table->quantval,
            sizeof mine->quant_table->quantval) != 0)
            return false;
        *what_p = "coefficients";
        if (!s_same_blocks (one, other, component))
            return false;
    }
    return true;
}

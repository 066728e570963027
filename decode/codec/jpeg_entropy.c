#include "jpeg_entropy.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define JPEG_INTERNALS
#include <jpegint.h>
#include "image.h"
#include "jpeg_rows.h"
#include "loops.h"

enum { JPEG_ENTROPY_MAGIC = 0x6a656e74, TABLES = NUM_HUFF_TBLS };
//  No DC value of so many blocks overflows (JPEG_DC_MAX).
enum { BLOCKS_WITHOUT_OVERFLOW = 1 << 15 };

struct jpeg_entropy {
    struct jpeg_entropy_decoder asked;      //  first: libjpeg's pointer to it is the pointer to this
    uint32_t magic;
    jpeg_lookup_t dc [TABLES], ac [TABLES];
    const jpeg_loops_t *loops;
    jpeg_coded_t coded;         //  the segment that is read
    scratch_t scan;             //  its bytes without stuffing and restart markers
    scratch_t ends;             //  size_t: where restart intervals end in it
    scratch_t room;             //  for points
    size_t segments;            //  restart intervals; 1 without
    size_t segment;             //  being read
    size_t segment_mcus;
    size_t mcus;                //  of the scan
    size_t read;                //  MCUs that are walked, decoded or jumped over
    size_t asked_for;           //  MCUs
    size_t column, columns;     //  of the next MCU that is asked for
    size_t first_column, last_column;       //  wanted
    bool is_judged;
    bool may_jump;
    bool has_failed;
    const uint8_t *file;        //  the scan, as it is stored, lent
    size_t file_bytes;
    //  A scan without restarts has points (jpeg_rows.h).  What is read begins at one of them, and ends behind
    //  the last wanted MCU of its row, or, from the last known point on, with the scan: the tail.
    jpeg_rows_image_t image;
    jpeg_rows_shape_t shape;
    jpeg_point_t *points;       //  NULL: there are restarts
    size_t told, known;         //  the first of them: by the caller; and those that were passed in the tail
    size_t tail;                //  the point with which it, or the part, begins
    bool is_tail;
    size_t next_mcu;            //  that is behind the part; in the tail, at which a point becomes known;
                                //  SIZE_MAX: none
    scratch_t rows;             //  encoded
};

//  ---------------------------------------------------------------------------------------------------------
//  Segments: the scan, or its restart intervals

static void
s_begin_segment (jpeg_entropy_t *self, size_t segment)
{
    const size_t *ends = self->ends.data;
    const uint8_t *scan = self->scan.data;
    memset (self->coded.last_dc, 0, sizeof self->coded.last_dc);
    self->coded.bits = (jpeg_bits_t) { .at = scan + (segment? ends [segment - 1]: 0) };
    self->coded.end = scan + ends [segment];
    self->segment = segment;
    self->read = segment * self->segment_mcus;
}

//  No bit was read from behind the segment; if all of it was read, no byte is left over.
static bool
s_is_segment_sound (const jpeg_entropy_t *self)
{
    ptrdiff_t left = (self->coded.end - self->coded.bits.at) * 8 + (ptrdiff_t) self->coded.bits.count;
    return left >= 0 && (!self->is_judged || left < 8);
}

//  The MCU at which a point stands, and the last point that does not stand behind an MCU.
static size_t
s_point_mcu (const jpeg_entropy_t *self, size_t point)
{
    return point / self->shape.row_points * self->columns + point % self->shape.row_points * self->shape.step;
}

static bool
s_advance (jpeg_entropy_t *self, size_t mcu)
{
    size_t count = mcu - self->read;
    self->read = mcu;
    return self->loops->walk (&self->coded, count);
}

static void
s_await_point (jpeg_entropy_t *self)
{
    self->next_mcu = self->points && self->known < self->shape.points? s_point_mcu (self, self->known):
        SIZE_MAX;
}

//  In the tail, the points on the way become known.  Their positions are those in the unstuffed tail.
static bool
s_walk_to (jpeg_entropy_t *self, size_t mcu)
{
    while (self->next_mcu <= mcu) {
        if (!s_advance (self, self->next_mcu))
            return false;
        jpeg_point_t *point = &self->points [self->known++];
        const jpeg_bits_t *bits = &self->coded.bits;
        point->bit = (uint64_t) (bits->at - (uint8_t *) self->scan.data) * 8 - bits->count;
        for (unsigned component = 0; component < MAX_COMPS_IN_SCAN; component++)
            point->dc [component] = (int32_t) self->coded.last_dc [component];
        s_await_point (self);
    }
    return s_advance (self, mcu);
}

//  Copies coded data without its stuffing, up to the next marker or the end; returns where that is.
static const uint8_t *
s_unstuff (const uint8_t *at, const uint8_t *end, uint8_t **target_p)
{
    const uint8_t *marker;
    uint8_t *target = *target_p;
    for (; (marker = memchr (at, 0xff, (size_t) (end - at))); at = marker + 2) {
        memcpy (target, at, (size_t) (marker - at));
        target += marker - at;
        if (marker + 1 == end || marker [1] != 0)
            break;
        *target++ = 0xff;
    }
    if (!marker) {
        memcpy (target, at, (size_t) (end - at));
        target += end - at;
    }
    *target_p = target;
    return marker? marker: end;
}

//  To a known point.
static void
s_begin_at (jpeg_entropy_t *self, size_t first)
{
    size_t row = first / self->shape.row_points;
    size_t behind = row * self->shape.row_points + self->last_column / self->shape.step + 1;
    const jpeg_point_t *point = &self->points [first];
    const uint8_t *end = self->file + self->file_bytes;
    self->is_tail = behind >= self->known || behind <= first;       //  a later row is wanted
    //  The byte in which the point behind is, and a stuffing one behind that.
    if (!self->is_tail && self->points [behind].bit / 8 + 2 < self->file_bytes)
        end = self->file + self->points [behind].bit / 8 + 2;
    uint8_t *target = self->scan.data;
    s_unstuff (self->file + point->bit / 8, end, &target);
    memset (target, 0, JPEG_BYTES_BEHIND);
    self->coded.bits = (jpeg_bits_t) { .at = self->scan.data };
    jpeg_bits_load (&self->coded.bits);
    jpeg_bits_drop (&self->coded.bits, point->bit % 8);
    self->coded.end = target;
    for (unsigned component = 0; component < MAX_COMPS_IN_SCAN; component++)
        self->coded.last_dc [component] = point->dc [component];
    self->read = s_point_mcu (self, first);
    self->tail = first;
    if (self->is_tail)
        s_await_point (self);
    else
        self->next_mcu = s_point_mcu (self, behind);
}

//  To the MCU of that number, in a scan without restarts.
static bool
s_go_by_points (jpeg_entropy_t *self, size_t mcu)
{
    if (mcu == self->read && mcu < self->next_mcu)
        return true;            //  as most are
    size_t point = mcu / self->columns * self->shape.row_points + mcu % self->columns / self->shape.step;
    point = point < self->told? point: self->told - 1;
    if (!self->is_tail && (self->read < s_point_mcu (self, point) || mcu >= self->next_mcu))
        s_begin_at (self, point);
    return s_walk_to (self, mcu);
}

//  To the MCU of that number, over restarts.
static bool
s_go_to (jpeg_entropy_t *self, size_t mcu)
{
    if (self->points)
        return s_go_by_points (self, mcu);
    size_t wanted = mcu / self->segment_mcus;
    while (self->segment < wanted) {
        if (!self->may_jump && !s_walk_to (self, (self->segment + 1) * self->segment_mcus))
            return false;
        if (!s_is_segment_sound (self))
            return false;
        s_begin_segment (self, self->may_jump? wanted: self->segment + 1);
    }
    return s_walk_to (self, mcu);
}

//  To the MCU of that number, and its coefficients.
static bool
s_decode_mcu (jpeg_entropy_t *self, size_t number, JBLOCKROW *mcu)
{
    if (!s_go_to (self, number))
        return false;
    self->read++;
    return self->loops->decode (&self->coded, mcu);
}

//  libjpeg asks for the next MCU; mcu NULL: it skips it.  True, always: there is no more data to wait for.
static boolean
s_answer (j_decompress_ptr info, JBLOCKROW *mcu)
{
    jpeg_entropy_t *self = (jpeg_entropy_t *) info->entropy;
    size_t number = self->asked_for++, column = self->column++;
    if (self->column == self->columns)
        self->column = 0;
    if (!mcu || column < self->first_column || column > self->last_column || self->has_failed)
        return TRUE;
    self->has_failed = !s_decode_mcu (self, number, mcu);
    return TRUE;
}

//  ---------------------------------------------------------------------------------------------------------
//  An image

//  Copies the scan without its stuffing, and notes where its segments end.  False: other markers follow than
//  its restarts, in order, and the end of the image.
static bool
s_take_scan (jpeg_entropy_t *self)
{
    const uint8_t *at = self->file, *end = at + self->file_bytes;
    uint8_t *target = self->scan.data;
    size_t *ends = self->ends.data;
    for (size_t segment = 0; segment < self->segments; segment++) {
        at = s_unstuff (at, end, &target);
        ends [segment] = (size_t) (target - (uint8_t *) self->scan.data);
        bool is_last = segment + 1 == self->segments;
        if (end - at < 2 || at [1] != (is_last? JPEG_EOI: JPEG_RST0 + (int) segment % 8))
            return false;
        at += 2;
    }
    memset (target, 0, JPEG_BYTES_BEHIND);
    return true;
}

static void
s_take_codes (jpeg_entropy_t *self, const struct jpeg_decompress_struct *info)
{
    self->coded.block_count = (unsigned) info->blocks_in_MCU;
    for (unsigned index = 0; index < self->coded.block_count; index++) {
        int component = info->MCU_membership [index];
        int dc = info->cur_comp_info [component]->dc_tbl_no, ac = info->cur_comp_info [component]->ac_tbl_no;
        self->coded.blocks [index] = (jpeg_block_t) { &self->dc [dc], &self->ac [ac], (unsigned) component };
        const JHUFF_TBL *dc_code = info->dc_huff_tbl_ptrs [dc], *ac_code = info->ac_huff_tbl_ptrs [ac];
        jpeg_lookup_build (&self->dc [dc], dc_code->bits, dc_code->huffval, true);
        jpeg_lookup_build (&self->ac [ac], ac_code->bits, ac_code->huffval, false);
    }
}

static bool
s_is_taken (const struct jpeg_decompress_struct *info)
{
    return !info->progressive_mode && !info->arith_code && info->data_precision == 8
        && !info->inputctl->has_multiple_scans && info->comps_in_scan == info->num_components
        && info->Ss == 0 && info->Se == JPEG_BLOCK - 1 && info->Ah == 0 && info->Al == 0
        && info->unread_marker == 0 && info->blocks_in_MCU <= JPEG_MCU_BLOCKS_MAX;
}

//  Points of a scan without restarts: those that the caller tells, or the first alone.  False: no memory.
static bool
s_take_points (jpeg_entropy_t *self, const struct jpeg_decompress_struct *info, const uint8_t *rows,
    size_t rows_bytes)
{
    self->image = (jpeg_rows_image_t) { .columns = self->columns, .rows = info->MCU_rows_in_scan,
        .components = (unsigned) info->comps_in_scan, .scan_bytes = self->file_bytes };
    self->points = NULL;
    self->tail = 0;
    if (self->segments > 1)
        return true;
    bool is_told = jpeg_rows_shape (rows, rows_bytes, &self->image, &self->shape);
    if (!is_told)
        self->shape = jpeg_rows_shape_of (&self->image);
    if (!scratch_need (&self->room, self->shape.points * sizeof (jpeg_point_t)))
        return false;
    self->points = self->room.data;
    self->points [0] = (jpeg_point_t) { .bit = 0 };
    self->told = is_told? jpeg_rows_decode (rows, rows_bytes, &self->image, self->points): 1;
    self->told = self->told > 0? self->told: 1;
    self->known = self->told;
    return true;
}

//  Without points that were told, all is tail.
static void
s_begin (jpeg_entropy_t *self)
{
    self->has_failed = false;
    self->asked_for = self->column = 0;
    self->loops = &loops_chosen ()->jpeg;
    self->is_tail = self->points && self->told == 1;
    s_await_point (self);
    if (!self->points || self->told == 1) {
        s_begin_segment (self, 0);
        return;
    }
    size_t first = self->first_column / self->shape.step;
    s_begin_at (self, first < self->told? first: self->told - 1);
}

int
jpeg_entropy_attach (jpeg_entropy_t *self, j_decompress_ptr info, bool is_judged, const uint8_t *rows,
    size_t rows_bytes)
{
    assert (self->magic == JPEG_ENTROPY_MAGIC);
    if (!s_is_taken (info))
        return 0;
    size_t size = info->src->bytes_in_buffer;
    self->file = info->src->next_input_byte;
    self->file_bytes = size;
    self->columns = info->MCUs_per_row;
    self->mcus = self->columns * info->MCU_rows_in_scan;
    self->segment_mcus = info->restart_interval? info->restart_interval: self->mcus;
    self->segments = (self->mcus + self->segment_mcus - 1) / self->segment_mcus;
    if (self->segments > size)      //  each ends with a marker
        return 0;
    if (!scratch_need (&self->scan, size + JPEG_BYTES_BEHIND)
    ||  !scratch_need (&self->ends, self->segments * sizeof (size_t))
    ||  !s_take_points (self, info, rows, is_judged? 0: rows_bytes))
        return -ENOMEM;
    if ((!self->points || self->told == 1) && !s_take_scan (self))
        return 0;
    s_take_codes (self, info);
    self->is_judged = is_judged;
    self->may_jump = !is_judged && self->segment_mcus <= BLOCKS_WITHOUT_OVERFLOW / JPEG_MCU_BLOCKS_MAX;
    self->first_column = info->master->first_iMCU_col;
    self->last_column = info->master->last_iMCU_col;
    s_begin (self);
    self->asked = (struct jpeg_entropy_decoder) { .start_pass = info->entropy->start_pass,
        .decode_mcu = s_answer };
    info->entropy = &self->asked;
    return 1;
}

bool
jpeg_entropy_finish (jpeg_entropy_t *self)
{
    assert (self->magic == JPEG_ENTROPY_MAGIC);
    if (self->has_failed)
        return false;
    bool goes_on = self->is_judged && self->read < self->mcus;
    if (goes_on && !(s_go_to (self, self->mcus - 1) && s_walk_to (self, self->mcus)))
        return false;
    return s_is_segment_sound (self);
}

//  Positions in the tail without stuffing become those in the file.
static void
s_place_points (jpeg_entropy_t *self)
{
    const uint8_t *at = self->file + self->points [self->tail].bit / 8;
    uint64_t byte = 0;          //  of the tail without stuffing: the one at `at`
    for (jpeg_point_t *point = self->points + self->told; point < self->points + self->known; point++) {
        for (; byte < point->bit / 8; byte++)
            at += at [0] == 0xff? 2: 1;     //  a stuffing one follows
        point->bit = (uint64_t) (at - self->file) * 8 + point->bit % 8;
    }
}

int
jpeg_entropy_rows (jpeg_entropy_t *self, const uint8_t **rows_p, size_t *rows_bytes_p)
{
    assert (self->magic == JPEG_ENTROPY_MAGIC);
    *rows_bytes_p = 0;
    if (!self->points || self->known == self->told)
        return 0;
    if (!scratch_need (&self->rows, jpeg_rows_bytes_max (&self->image, self->known)))
        return -ENOMEM;
    s_place_points (self);
    self->told = self->known;
    *rows_p = self->rows.data;
    *rows_bytes_p = jpeg_rows_encode (&self->image, &self->shape, self->points, self->known, self->rows.data);
    return 0;
}

jpeg_entropy_t *
jpeg_entropy_new (void)
{
    jpeg_entropy_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = JPEG_ENTROPY_MAGIC;
    return self;
}

void
jpeg_entropy_destroy (jpeg_entropy_t **self_p)
{
    jpeg_entropy_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == JPEG_ENTROPY_MAGIC);
    scratch_free (&self->scan);
    scratch_free (&self->ends);
    scratch_free (&self->room);
    scratch_free (&self->rows);
    self->magic = 0;
    free (self);
}

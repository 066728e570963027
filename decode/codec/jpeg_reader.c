#include "jpeg_reader.h"
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>
#include "instrument.h"
#include "jpeg_entropy.h"

enum { JPEG_READER_MAGIC = 0x6a706567, ROWS_AT_ONCE = 16 };
//  What setjmp returns; 0 is the first time.
enum { ESCAPE_BAD = 1, ESCAPE_WHOLE = 2, ESCAPE_NO_MEMORY = 3, ESCAPE_UNSUITABLE = 4, ESCAPE_AGAIN = 5 };
enum { SCALE_WHOLE = JPEG_READER_SCALE_WHOLE, SCALED_MARGIN = JPEG_READER_SCALED_MARGIN };
//  Fewer columns than these libjpeg may scale up in another way than those of the whole image.
enum { COLUMNS_MIN = 32 };
//  Where rows begin, modulo ROW_ALIGNMENT: nowhere where a vector of 16 or 32 bytes would.  libjpeg-turbo
//  writes aligned rows past the caches (movntdq), and the next pass waits for the pixels (measured: 8 % of
//  the time of decoding and one pass; compared with rows without gaps, some of them aligned, 1 %).
enum { ROW_ALIGNMENT = 64, ROW_OFFSET = 8 };
//  Coefficients that block smoothing makes up where a progressive file ends before they are exact.
enum { SMOOTHED_LAST = 9 };

struct jpeg_reader {
    uint32_t magic;
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jpeg_entropy_t *entropy;    //  NULL: libjpeg reads every image by itself
    bool is_attached;           //  `entropy` decodes the image that is read
    bool is_plain;              //  libjpeg reads the opened image by itself
    const uint8_t *bytes;       //  lent from open to read
    size_t size;
    jmp_buf escape;             //  every complaint leaves through it
    bool opened;                //  info is there: a header is read, and nothing behind it
    bool all_rows_read;
    image_reader_options_t options;
    char warning [JMSG_LENGTH_MAX];     //  the first of this image
    image_block_t exif, xmp;    //  the first EXIF block and the last XMP packet, lent with the bytes
    char *error;                //  lent for one call
    size_t error_bytes;
    scratch_t pixels;
    scratch_t inks;             //  one row of CMYK
};

//  ---------------------------------------------------------------------------------------------------------
//  What libjpeg calls back

static jpeg_reader_t *
s_reader (j_common_ptr info)
{
    jpeg_reader_t *self = info->client_data;
    assert (self->magic == JPEG_READER_MAGIC);
    return self;
}

//  libjpeg's own complaint, in its words.
static void
s_error_exit (j_common_ptr info)
{
    jpeg_reader_t *self = s_reader (info);
    char message [JMSG_LENGTH_MAX];
    info->err->format_message (info, message);
    bool no_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;     //  UNTESTED: libjpeg's own allocations
    snprintf (self->error, self->error_bytes, "%s: %s", no_memory? "no memory": "damaged or unsupported JPEG",
        message);
    longjmp (self->escape, no_memory? ESCAPE_NO_MEMORY: ESCAPE_BAD);
}

//  Warnings (level -1) are damage that libjpeg reads past; traces are of no use here.
static void
s_emit_message (j_common_ptr info, int level)
{
    if (level >= 0)
        return;
    jpeg_reader_t *self = s_reader (info);
    if (info->err->num_warnings++ == 0)
        info->err->format_message (info, self->warning);
    uint32_t allowed = self->options.warnings_max;
    if (allowed == UINT32_MAX || info->err->num_warnings <= (long) allowed)
        return;
    snprintf (self->error, self->error_bytes, "damaged JPEG: %ld libjpeg warnings, %u allowed; the first: %s",
        info->err->num_warnings, allowed, self->warning);
    longjmp (self->escape, ESCAPE_BAD);
}

//  What is missing behind the last row is not missed, by Pillow neither: damage there can hide the end
//  marker.
static void
s_truncated (j_decompress_ptr info)
{
    jpeg_reader_t *self = s_reader ((j_common_ptr) info);
    if (self->all_rows_read)
        longjmp (self->escape, ESCAPE_WHOLE);
    snprintf (self->error, self->error_bytes, "truncated JPEG: the file ends before the image does");
    longjmp (self->escape, ESCAPE_BAD);
}

static void
s_no_source_work (j_decompress_ptr info)
{
    (void) info;
}

//  All bytes were there from the start, so a request for more means the end.
static boolean
s_fill_input_buffer (j_decompress_ptr info)
{
    s_truncated (info);
    return FALSE;
}

static void
s_skip_input_data (j_decompress_ptr info, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t) bytes > info->src->bytes_in_buffer)
        s_truncated (info);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t) bytes;
}

//  An APP1 marker, behind its code: remembers where the first EXIF block is, and the last XMP packet, as
//  Pillow.  (jpeg_save_markers would copy all of them, and in time that grows with the square of their
//  number.)
static boolean
s_read_app1 (j_decompress_ptr info)
{
    enum { LENGTH_BYTES = 2 };
    static const char xmp_name [] = "http://ns.adobe.com/xap/1.0/";     //  and its 0
    jpeg_reader_t *self = s_reader ((j_common_ptr) info);
    if (info->src->bytes_in_buffer < LENGTH_BYTES)
        s_truncated (info);
    const uint8_t *at = info->src->next_input_byte;
    long length = (at [0] << 8 | at [1]) - LENGTH_BYTES;
    s_skip_input_data (info, LENGTH_BYTES);
    bool is_there = length >= 5 && info->src->bytes_in_buffer >= (size_t) length;
    bool is_exif = is_there && memcmp (at + LENGTH_BYTES, "Exif", 5) == 0;
    bool is_xmp = is_there && length >= (long) sizeof xmp_name
        && memcmp (at + LENGTH_BYTES, xmp_name, sizeof xmp_name) == 0;
    if (is_exif && self->options.orientation && !self->exif.bytes)
        self->exif = (image_block_t) { at + LENGTH_BYTES, (size_t) length };
    if (is_xmp && self->options.orientation)
        self->xmp = (image_block_t) { at + LENGTH_BYTES + sizeof xmp_name,
            (size_t) length - sizeof xmp_name };
    s_skip_input_data (info, length);
    return TRUE;
}

//  Called for each row of blocks of each scan: a small file may hold scans without end.
static void
s_progress (j_common_ptr info)
{
    jpeg_reader_t *self = s_reader (info);
    if (self->info.input_scan_number <= DECODER_SCANS_MAX)
        return;
    snprintf (self->error, self->error_bytes, "JPEG with more than %d scans", DECODER_SCANS_MAX);
    longjmp (self->escape, ESCAPE_BAD);
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening: header -> checks.  libjpeg's object is made anew for each image (measured: 0.1 us), because
//  jpeg_abort leaves the tables of the last one in it, and a damaged file that lacks some would be decoded
//  with those.

static void
s_fail (jpeg_reader_t *self, int escape, const char *what)
{
    snprintf (self->error, self->error_bytes, "%s (%u x %u pixels, %d components)", what,
        self->info.image_width, self->info.image_height, self->info.num_components);
    longjmp (self->escape, escape);
}

static void
s_no_memory (jpeg_reader_t *self)
{
    snprintf (self->error, self->error_bytes, "not enough memory for an image of %u x %u pixels",
        self->info.image_width, self->info.image_height);
    longjmp (self->escape, ESCAPE_NO_MEMORY);
}

static void
s_open (jpeg_reader_t *self)
{
    struct jpeg_decompress_struct *info = &self->info;
    self->source.next_input_byte = self->bytes;
    self->source.bytes_in_buffer = self->size;
    self->exif = self->xmp = (image_block_t) { NULL, 0 };
    self->all_rows_read = false;
    jpeg_create_decompress (info);
    info->mem->max_memory_to_use = 0;       //  a JPEGMEM in the environment would make files bad
    jpeg_set_marker_processor (info, JPEG_APP0 + 1, s_read_app1);
    info->src = &self->source;
    info->progress = &self->progress;
    jpeg_read_header (info, TRUE);
    if ((uint64_t) info->image_width * info->image_height > DECODER_PIXELS_MAX)
        s_fail (self, ESCAPE_BAD, "JPEG with more pixels than the limit");
    if (info->num_components != 1 && info->num_components != 3 && info->num_components != 4)
        s_fail (self, ESCAPE_BAD, "unsupported JPEG: neither grey, colour nor CMYK");
    if (self->options.is_mask && info->num_components != 1)
        s_fail (self, ESCAPE_UNSUITABLE,
            "a mask must be grey or have a palette: this is a JPEG with colours");
    info->out_color_space = info->num_components == 4? JCS_CMYK: self->options.is_mask? JCS_GRAYSCALE:
        JCS_RGB;
}

static int
s_leave (jpeg_reader_t *self, int rc)
{
    jpeg_destroy_decompress (&self->info);
    self->opened = false;
    return rc;
}

static int
s_reader_open (void *reader, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    jpeg_reader_t *self = reader;
    assert (self->magic == JPEG_READER_MAGIC);
    assert (error && error_bytes > 0);
    if (self->opened)
        s_leave (self, 0);
    self->options = *options;
    self->bytes = bytes;
    self->size = size;
    self->is_plain = false;
    self->error = error;
    self->error_bytes = error_bytes;
    switch (setjmp (self->escape)) {
    case 0:
        s_open (self);
        self->opened = true;
        *height_p = self->info.image_height;
        *width_p = self->info.image_width;
        return 0;
    case ESCAPE_NO_MEMORY:      //  UNTESTED: libjpeg's own allocations
        return s_leave (self, -ENOMEM);
    case ESCAPE_UNSUITABLE:
        return s_leave (self, -EDOM);
    default:
        return s_leave (self, -EBADMSG);
    }
}

bool
jpeg_reader_is_fast (const jpeg_reader_t *self)
{
    assert (self->magic == JPEG_READER_MAGIC);
    return self->entropy;
}

bool
jpeg_reader_was_fast (const jpeg_reader_t *self)
{
    assert (self->magic == JPEG_READER_MAGIC);
    return self->is_attached && !self->is_plain;
}

static image_notes_t
s_reader_notes (const void *reader)
{
    const jpeg_reader_t *self = reader;
    assert (self->magic == JPEG_READER_MAGIC);
    return (image_notes_t) { self->exif, self->xmp };
}

//  ---------------------------------------------------------------------------------------------------------
//  What of the image: scale, window, and which shortcuts give the pixels of the whole

//  At how many eighths of its size a request is read: 8, 4, 2 or 1.  Between these, libjpeg is slower than
//  without scaling.
static unsigned
s_scale (const image_request_t *request)
{
    unsigned scale = request->least_height? 1: SCALE_WHOLE;
    while (scale < SCALE_WHOLE
        && ((uint64_t) request->box.height * scale < (uint64_t) request->least_height * SCALE_WHOLE
            || (uint64_t) request->box.width * scale < (uint64_t) request->least_width * SCALE_WHOLE))
        scale *= 2;
    return scale;
}

//  The part of a side of size pixels that is wanted; rounded outwards and with a margin, if it is scaled.
static void
s_span (uint32_t begin, uint32_t length, unsigned scale, uint32_t size, uint32_t *begin_p, uint32_t *length_p)
{
    uint32_t margin = scale < SCALE_WHOLE? SCALED_MARGIN: 0;
    uint32_t first = (uint32_t) ((uint64_t) begin * scale / SCALE_WHOLE);
    uint32_t end = (uint32_t) (((uint64_t) (begin + length) * scale + SCALE_WHOLE - 1) / SCALE_WHOLE)
        + margin;
    first -= first < margin? first: margin;
    *begin_p = first;
    *length_p = (end < size? end: size) - first;
}

//  The box in rows and columns of libjpeg's output.
static image_box_t
s_window (const jpeg_reader_t *self, const image_box_t *box, unsigned scale)
{
    image_box_t window;
    s_span (box->top, box->height, scale, self->info.output_height, &window.top, &window.height);
    s_span (box->left, box->width, scale, self->info.output_width, &window.left, &window.width);
    return window;
}

//  A progressive file that ends before all coefficients are exact: libjpeg smooths it, and where columns or
//  rows are left out, it looks at other blocks than in the whole image.
static bool
s_is_smoothed (const struct jpeg_decompress_struct *info)
{
    if (!info->progressive_mode || !info->coef_bits)
        return false;
    for (int component = 0; component < info->num_components; component++)
        for (int coefficient = 1; coefficient <= SMOOTHED_LAST; coefficient++)
            if (info->coef_bits [component] [coefficient])
                return true;
    return false;
}

//  libjpeg-turbo before 3.0 takes a wrong width for colours that are scaled up in part by the DCT, in part
//  behind it.
static bool
s_is_mixed (const struct jpeg_decompress_struct *info, unsigned scale)
{
    return scale < SCALE_WHOLE && (info->max_h_samp_factor > 2 || info->max_v_samp_factor > 2);
}

//  Lets libjpeg decode only the columns of window, and what it needs beside them; returns the first column.
static uint32_t
s_crop (struct jpeg_decompress_struct *info, const image_box_t *window)
{
    JDIMENSION left = window->left, right = left + window->width;
    //  Smooth upsampling of the colours looks at the neighbours.
    if (info->max_h_samp_factor > 1) {
        left -= left > 0;
        right += right < info->output_width;
    }
    if (right - left < COLUMNS_MIN) {
        right = info->output_width - left < COLUMNS_MIN? info->output_width: left + COLUMNS_MIN;
        left = right < COLUMNS_MIN? 0: right - COLUMNS_MIN < left? right - COLUMNS_MIN: left;
    }
    JDIMENSION width = right - left;
    jpeg_crop_scanline (info, &left, &width);       //  moves left to where a block begins
    return left;
}

//  Whether the rest of the image can be left undecoded: only if it could not make the image bad.  In a single
//  scan nothing can, if the next marker but for restarts is the end: libjpeg does not read on behind that, so
//  it never runs out of bytes, and of damaged data it complains by warnings only.
static bool
s_may_stop (jpeg_reader_t *self)
{
    if (jpeg_has_multiple_scans (&self->info))
        return true;            //  all of it was decoded before the first row
    if (self->options.warnings_max != UINT32_MAX)
        return false;
    if (self->info.unread_marker == JPEG_EOI)
        return true;
    if (self->info.unread_marker && (self->info.unread_marker & ~7) != JPEG_RST0)
        return false;
    const uint8_t *at = self->source.next_input_byte, *end = at + self->source.bytes_in_buffer;
    while ((at = memchr (at, 0xff, (size_t) (end - at)))) {
        while (at < end && *at == 0xff)
            at++;
        if (at == end)
            return false;
        if (*at != 0 && (*at & ~7) != JPEG_RST0)
            return *at == JPEG_EOI;
    }
    return false;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading rows

//  a x b / 255, rounded, as Pillow computes it.
static inline uint32_t
s_times (uint32_t a, uint32_t b)
{
    uint32_t product = a * b + 128;
    return (product + (product >> 8)) >> 8;
}

//  Files hold inks inverted (255 is no ink), as Adobe writes them; Pillow takes all files for such.
static INSTRUMENT_ROWS void
s_inks_to_rgb (const uint8_t *restrict inks, uint32_t width, uint8_t *restrict pixels)
{
    instrument_written (pixels, image_bytes (1, width, IMAGE_COLOURS));
    for (uint32_t column = 0; column < width; column++, inks += 4, pixels += IMAGE_COLOURS) {
        uint32_t light = inks [3];
        for (unsigned channel = 0; channel < IMAGE_COLOURS; channel++)
            pixels [channel] = (uint8_t) (light - s_times (255u - inks [channel], light));
    }
}

static void
s_read_inks (jpeg_reader_t *self, uint32_t rows, uint8_t *target, size_t stride)
{
    for (; rows > 0; rows--, target += stride) {
        JSAMPROW row = self->inks.data;
        jpeg_read_scanlines (&self->info, &row, 1);
        if (stride)
            s_inks_to_rgb (row, self->info.output_width, target);
    }
}

//  The next rows, to target; with a stride of 0 they are lost.
static void
s_read_rows (jpeg_reader_t *self, uint32_t rows, uint8_t *target, size_t stride)
{
    struct jpeg_decompress_struct *info = &self->info;
    if (info->out_color_space == JCS_CMYK) {
        s_read_inks (self, rows, target, stride);
        return;
    }
    while (rows > 0) {
        JSAMPROW pointers [ROWS_AT_ONCE];
        uint32_t count = rows < ROWS_AT_ONCE? rows: ROWS_AT_ONCE;
        for (uint32_t index = 0; index < count; index++)
            pointers [index] = target + index * stride;
        count = jpeg_read_scanlines (info, pointers, count);
        target += count * stride;
        rows -= count;
    }
}

//  Room for the window's rows, and for one more that is of no use.
static uint8_t *
s_room (jpeg_reader_t *self, uint32_t height, size_t stride)
{
    if (!scratch_need (&self->pixels, (height + (size_t) 1) * stride + ROW_OFFSET)
    ||  !scratch_need (&self->inks, (size_t) self->info.output_width * 4))
        s_no_memory (self);
    return (uint8_t *) self->pixels.data + ROW_OFFSET;
}

static void
s_read (jpeg_reader_t *self, const image_request_t *request, image_pixels_t *pixels)
{
    struct jpeg_decompress_struct *info = &self->info;
    unsigned scale = s_scale (request);
    info->scale_num = scale;
    info->scale_denom = SCALE_WHOLE;
    jpeg_start_decompress (info);
    image_box_t window = s_window (self, &request->box, scale);
    bool smoothed = s_is_smoothed (info);
    uint32_t left = smoothed || s_is_mixed (info, scale)? 0: s_crop (info, &window);
    int attached = self->entropy && !self->is_plain?
        jpeg_entropy_attach (self->entropy, info, self->options.warnings_max != UINT32_MAX,
        self->options.rows, self->options.rows_bytes): 0;
    if (attached < 0)
        s_no_memory (self);
    self->is_attached = attached > 0;
    uint32_t channels = self->options.is_mask? 1: IMAGE_COLOURS;
    size_t row_bytes = image_bytes (1, info->output_width, channels);
    size_t stride = (row_bytes + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    uint8_t *rows = s_room (self, window.height, stride), *unused = rows + window.height * stride;
    if (smoothed)
        s_read_rows (self, window.top, unused, 0);
    else if (window.top > 0)
        jpeg_skip_scanlines (info, window.top);
    s_read_rows (self, window.height, rows, stride);
    *pixels = (image_pixels_t) {
        .image = { rows + (size_t) (window.left - left) * channels, stride, window.height, window.width,
        channels },
        .top = (double) request->box.top * scale / SCALE_WHOLE - window.top,
        .left = (double) request->box.left * scale / SCALE_WHOLE - window.left,
        .height = (double) request->box.height * scale / SCALE_WHOLE,
        .width = (double) request->box.width * scale / SCALE_WHOLE
    };
    if (self->is_attached) {
        if (!jpeg_entropy_finish (self->entropy))
            longjmp (self->escape, ESCAPE_AGAIN);
        return;
    }
    if (s_may_stop (self))
        return;
    s_read_rows (self, info->output_height - info->output_scanline, unused, 0);
    self->all_rows_read = true;
    jpeg_finish_decompress (info);
}

static int
s_reader_read (void *reader, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    jpeg_reader_t *self = reader;
    assert (self->magic == JPEG_READER_MAGIC);
    assert (self->opened);
    self->error = error;
    self->error_bytes = error_bytes;
    switch (setjmp (self->escape)) {
    case ESCAPE_AGAIN:          //  something is wrong with the file: libjpeg judges it
        jpeg_destroy_decompress (&self->info);
        self->is_plain = true;
        s_open (self);
        s_read (self, request, pixels);
        return s_leave (self, 0);
    case 0:
        s_read (self, request, pixels);
        return s_leave (self, 0);
    case ESCAPE_WHOLE:
        return s_leave (self, 0);
    case ESCAPE_NO_MEMORY:
        return s_leave (self, -ENOMEM);
    default:
        return s_leave (self, -EBADMSG);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Where rows begin

//  All points of the opened image; nothing where they cannot be known.  Of several scans libjpeg would decode
//  the whole image, and hold its coefficients, before jpeg_entropy refuses them.  0 or -ENOMEM.
static int
s_find_rows (jpeg_reader_t *self, const uint8_t **rows_p, size_t *rows_bytes_p)
{
    if (jpeg_has_multiple_scans (&self->info))
        return 0;
    jpeg_start_decompress (&self->info);
    int attached = jpeg_entropy_attach (self->entropy, &self->info, true, NULL, 0);
    bool is_sound = attached > 0 && jpeg_entropy_finish (self->entropy);
    return is_sound? jpeg_entropy_rows (self->entropy, rows_p, rows_bytes_p): attached < 0? attached: 0;
}

size_t
jpeg_reader_learned (jpeg_reader_t *self, const uint8_t **rows_p)
{
    size_t bytes;
    bool is_known = jpeg_reader_was_fast (self) && jpeg_entropy_rows (self->entropy, rows_p, &bytes) == 0;
    return is_known? bytes: 0;
}

int
jpeg_reader_rows (jpeg_reader_t *self, const uint8_t *bytes, size_t size, const uint8_t **rows_p,
    size_t *rows_bytes_p)
{
    const image_reader_options_t options = { .warnings_max = 0 };
    char error [JMSG_LENGTH_MAX];
    uint32_t height, width;
    *rows_p = NULL;
    *rows_bytes_p = 0;
    if (!self->entropy)
        return 0;
    int rc = s_reader_open (self, &options, bytes, size, &height, &width, error, sizeof error);
    if (rc)
        return rc == -ENOMEM? rc: 0;
    switch (setjmp (self->escape)) {
    case 0:
        return s_leave (self, s_find_rows (self, rows_p, rows_bytes_p));
    case ESCAPE_NO_MEMORY:
        return s_leave (self, -ENOMEM);
    default:
        return s_leave (self, 0);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Life

//  A small colour JPEG, made by libjpeg.  False: no memory.  Else the caller frees *bytes_p.
static bool
s_make (jpeg_reader_t *self, uint8_t **bytes_p, unsigned long *size_p)
{
    enum { SIDE = 80 };
    struct jpeg_compress_struct info = { .err = &self->errors, .client_data = self };
    *bytes_p = NULL;
    *size_p = 0;
    if (setjmp (self->escape)) {        //  UNTESTED: libjpeg's own allocations
        jpeg_destroy_compress (&info);
        free (*bytes_p);
        return false;
    }
    jpeg_create_compress (&info);
    jpeg_mem_dest (&info, bytes_p, size_p);
    info.image_height = info.image_width = SIDE;
    info.input_components = IMAGE_COLOURS;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults (&info);
    jpeg_start_compress (&info, TRUE);
    for (uint32_t y = 0; y < SIDE; y++) {
        uint8_t pixels [SIDE * IMAGE_COLOURS];
        for (uint32_t at = 0; at < sizeof pixels; at++)
            pixels [at] = (uint8_t) (at * at / 7 + y * at);
        JSAMPROW row = pixels;
        jpeg_write_scanlines (&info, &row, 1);
    }
    jpeg_finish_compress (&info);
    jpeg_destroy_compress (&info);
    return true;
}

//  A checksum of a box in the middle of the file, or -errno.
static int64_t
s_sum_box (jpeg_reader_t *self, const uint8_t *bytes, size_t size, bool is_plain)
{
    const image_reader_options_t options = { .warnings_max = 0 };
    const image_request_t request = { .box = { 35, 37, 20, 20 } };
    char error [JMSG_LENGTH_MAX];
    uint32_t height, width;
    image_pixels_t pixels;
    int rc = s_reader_open (self, &options, bytes, size, &height, &width, error, sizeof error);
    self->is_plain = is_plain;
    if (rc == 0)
        rc = s_reader_read (self, &request, &pixels, error, sizeof error);
    int64_t sum = rc;
    for (uint32_t y = 0; y < request.box.height && rc == 0; y++)
        for (uint32_t at = 0; at < request.box.width * IMAGE_COLOURS; at++)
            sum = (sum * 31 + image_at (&pixels.image, y, 0) [at]) % INT32_MAX;
    return sum;
}

//  The entropy decoder stands on libjpeg's inner structures.  A program can run with another libjpeg than the
//  one that it was compiled for; so the decoder is used only if a box has the pixels that libjpeg alone
//  gives.  -ENOTSUP: it has not.  Costs 0.2 milliseconds.
static int
s_try (jpeg_reader_t *self)
{
    uint8_t *bytes;
    unsigned long size;
    char error [JMSG_LENGTH_MAX];
    self->error = error;
    self->error_bytes = sizeof error;
    if (!s_make (self, &bytes, &size))
        return -ENOMEM;
    int64_t expected = s_sum_box (self, bytes, size, true), found = s_sum_box (self, bytes, size, false);
    free (bytes);
    if (expected == -ENOMEM || found == -ENOMEM)
        return -ENOMEM;
    return found == expected && self->is_attached? 0: -ENOTSUP;
}

static void
s_reader_destroy (void *reader)
{
    jpeg_reader_t *self = reader;
    if (!self)
        return;
    assert (self->magic == JPEG_READER_MAGIC);
    jpeg_destroy_decompress (&self->info);
    jpeg_entropy_destroy (&self->entropy);
    scratch_free (&self->pixels);
    scratch_free (&self->inks);
    self->magic = 0;
    free (self);
}

static void *
s_reader_new (void)
{
    jpeg_reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = JPEG_READER_MAGIC;
    self->info.err = jpeg_std_error (&self->errors);
    self->info.client_data = self;
    self->errors.error_exit = s_error_exit;
    self->errors.emit_message = s_emit_message;
    self->source.init_source = s_no_source_work;
    self->source.fill_input_buffer = s_fill_input_buffer;
    self->source.skip_input_data = s_skip_input_data;
    self->source.resync_to_restart = jpeg_resync_to_restart;
    self->source.term_source = s_no_source_work;
    self->progress.progress_monitor = s_progress;
    const char *wish = getenv ("TUREEN_JPEG");
    if (wish && strcmp (wish, "libjpeg") == 0)
        return self;
    self->entropy = jpeg_entropy_new ();
    int rc = self->entropy? s_try (self): -ENOMEM;
    if (rc)
        jpeg_entropy_destroy (&self->entropy);
    if (rc == -ENOMEM) {
        s_reader_destroy (self);
        errno = ENOMEM;
        return NULL;
    }
    return self;
}

const image_codec_t jpeg_reader = {
    .new = s_reader_new,
    .destroy = s_reader_destroy,
    .open = s_reader_open,
    .read = s_reader_read,
    .notes = s_reader_notes,
};

//  image_reader's part for PNG, on libpng: the same two steps, the same results as Pillow.
//
//  Pixels are what Image.open (...).convert ("RGB") gives: alpha and transparency are dropped, not blended;
//  of 16 bits the high byte is kept, but 16-bit grey (Pillow's mode I) is clipped to 255; gamma, colour
//  profiles and texts are not looked at.  Of an animation it is the first image.
//
//  Damage: a wrong checksum in the chunks before the image data is bad, and so is a file that ends before its
//  image data do, whatever the box; one that merely lacks what stands behind them is not.  Where a CRC of the
//  image data is wrong all rows are read, and zlib's checksum of these decides.  Data with right checksums
//  that cannot be inflated, which no accident makes, are seen as far as the box needs them.  Critical chunks
//  that PNG does not have are stepped over.  Pillow agrees, but that it does without the last few bytes of
//  the image data, and fills up with black where they end with a row too early (docs/decoding.md).  No side
//  may be above SIDE_MAX: rows cost time, too.

#include "image_codec.h"
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST          //  what is read is const
#include <png.h>
#include <zlib.h>
#include "instrument.h"

enum { SIDE_MAX = 1000 * 1000 };
enum {
    PNG_READER_MAGIC = 0x706e6772, SIGNATURE_BYTES = 8, VALUES = 256,
    //  A chunk: length and name, its content, and a checksum.
    CHUNK_HEAD_BYTES = 8, CHUNK_SUM_BYTES = 4, SIZE_AT = SIGNATURE_BYTES + CHUNK_HEAD_BYTES
};
//  What setjmp returns; 0 is the first time.
enum { ESCAPE_BAD = 1, ESCAPE_TRUNCATED = 2, ESCAPE_UNSUITABLE = 3 };

enum { TEXT_XMP, TEXT_EXIF, TEXTS, TEXT_BYTES_MAX = 1 << 20, CHUNK_NAME_BYTES = 4 };
static const char *const s_keywords [TEXTS] = { "XML:com.adobe.xmp", "Raw profile type exif" };

//  The two texts that say how the image is turned, found where Pillow finds them: the XMP packet, and EXIF
//  data in hexadecimal digits, each in a chunk tEXt, zTXt or iTXt; of several the last.  A text is inflated
//  once, and up to TEXT_BYTES_MAX, where Pillow ends too; a text that is longer or damaged is ignored.
typedef struct {
    //  What s_unpack_texts found.  Lent until the next file.
    image_block_t xmp;
    image_block_t exif;
    //  The texts as they stand in the file.
    struct { image_block_t text; bool is_deflated; } noted [TEXTS];
    scratch_t unpacked [TEXTS];
} texts_t;

typedef struct {
    uint32_t magic;
    png_structp png;                    //  of one image, from open to the end of read; else NULL
    png_infop info;
    jmp_buf escape;                     //  every complaint leaves through it
    bool no_memory;                     //  an allocation of libpng's failed
    char *error;                        //  lent for one call
    size_t error_bytes;
    const uint8_t *bytes;               //  the file, and how far it has been read
    size_t size;
    size_t place;
    //  The file
    bool is_whole;                      //  there is an IEND chunk, and nothing before it is damaged that may
                                        //  be image data
    bool has_wrong_sum;                 //  a chunk of image data has another CRC than written
    bool has_unknown;                   //  a critical chunk that PNG's specification does not have
    image_block_t exif;
    texts_t texts;
    //  The image
    bool is_mask;
    bool is_wide;                       //  a mask of 16 bits
    bool is_deep;                       //  its samples have 16 bits, in the file and as they come
    bool is_field;
    bool has_values;                    //  one channel, of grey values or indices, where table says what they
                                        //  mean
    uint32_t height;
    uint32_t width;
    uint32_t passes;                    //  more than one of an interlaced image
    uint8_t table [VALUES] [IMAGE_COLOURS];
    image_box_t box;
    scratch_t pixels;
} png_reader_t;

//  ---------------------------------------------------------------------------------------------------------
//  What libpng calls back

static void s_complain (png_structp png, png_const_charp message) __attribute__ ((noreturn));

//  libpng's own complaint, in its words.
static void
s_complain (png_structp png, png_const_charp message)
{
    png_reader_t *self = png_get_error_ptr (png);
    assert (self->magic == PNG_READER_MAGIC);
    snprintf (self->error, self->error_bytes, "damaged or unsupported PNG: %s", message);
    longjmp (self->escape, ESCAPE_BAD);
}

//  libpng warns of things that it reads past: comments too long for it, odd colour profiles.
static void
s_warn (png_structp png, png_const_charp message)
{
    (void) png;
    (void) message;
}

static png_voidp
s_allocate (png_structp png, png_alloc_size_t bytes)
{
    png_reader_t *self = png_get_mem_ptr (png);
    void *memory = malloc (bytes);
    if (!memory)
        self->no_memory = true;
    return memory;
}

static void
s_release (png_structp png, png_voidp memory)
{
    (void) png;
    free (memory);
}

static void
s_read_bytes (png_structp png, png_bytep target, size_t count)
{
    png_reader_t *self = png_get_io_ptr (png);
    if (count > self->size - self->place)
        longjmp (self->escape, ESCAPE_TRUNCATED);
    memcpy (target, self->bytes + self->place, count);
    self->place += count;
}

//  A critical chunk that libpng does not know is stepped over, as by Pillow.
static int
s_skip_chunk (png_structp png, png_unknown_chunkp chunk)
{
    enum { IS_DONE = 1 };
    (void) png;
    (void) chunk;
    return IS_DONE;
}

//  16-bit grey, in place, to 8 bits.
INSTRUMENT_ROWS static void
s_clip_values (png_structp png, png_row_infop row, png_bytep bytes)
{
    (void) png;
    for (png_uint_32 column = 0; column < row->width; column++)
        bytes [column] = bytes [column * 2]? UINT8_MAX: bytes [column * 2 + 1];
    instrument_written (bytes, row->width);
}

//  The image's header is the first chunk: after the signature, its length, its name and two sides.
static bool
s_reader_clips (const uint8_t *bytes, size_t size)
{
    enum { DEPTH_AT = 24, COLOUR_AT = 25 };
    return size > COLOUR_AT && bytes [DEPTH_AT] == 16 && bytes [COLOUR_AT] == PNG_COLOR_TYPE_GRAY;
}

//  ---------------------------------------------------------------------------------------------------------
//  Texts

//  Before a file's first chunk.
static void
s_forget_texts (texts_t *self)
{
    self->xmp = self->exif = (image_block_t) { NULL, 0 };
    for (int text = 0; text < TEXTS; text++)
        self->noted [text].text = (image_block_t) { NULL, 0 };
}

//  Steps over a part of the block that ends with a 0; false: there is no 0.
static bool
s_skip_part (image_block_t *block)
{
    const uint8_t *end = block->size > 0? memchr (block->bytes, 0, block->size): NULL;
    if (!end)
        return false;
    size_t part = (size_t) (end - block->bytes) + 1;
    *block = (image_block_t) { end + 1, block->size - part };
    return true;
}

//  From behind the keyword to the text; false: the chunk is damaged.
static bool
s_find_text (const uint8_t *name, image_block_t *block, bool *is_deflated_p)
{
    *is_deflated_p = false;
    if (memcmp (name, "tEXt", CHUNK_NAME_BYTES) == 0)
        return true;
    bool is_international = memcmp (name, "iTXt", CHUNK_NAME_BYTES) == 0;
    size_t flags = is_international? 2: 1;          //  whether it is deflated, and the method: 0
    if (block->size < flags)
        return false;
    *is_deflated_p = !is_international || block->bytes [0];
    bool is_known = !*is_deflated_p || block->bytes [flags - 1] == 0;
    *block = (image_block_t) { block->bytes + flags, block->size - flags };
    //  The language, and the keyword in it.
    return is_known && (!is_international || (s_skip_part (block) && s_skip_part (block)));
}

//  Any chunk: its name and then its content of length bytes, which are lent until s_unpack_texts.
static void
s_note_text (texts_t *self, const uint8_t *name, size_t length)
{
    if (memcmp (name, "tEXt", CHUNK_NAME_BYTES) && memcmp (name, "zTXt", CHUNK_NAME_BYTES)
    &&  memcmp (name, "iTXt", CHUNK_NAME_BYTES))
        return;
    for (int text = 0; text < TEXTS; text++) {
        size_t keyword_bytes = strlen (s_keywords [text]) + 1;
        if (length < keyword_bytes || memcmp (name + CHUNK_NAME_BYTES, s_keywords [text], keyword_bytes))
            continue;
        image_block_t block = { name + CHUNK_NAME_BYTES + keyword_bytes, length - keyword_bytes };
        bool is_deflated;
        if (s_find_text (name, &block, &is_deflated)) {
            self->noted [text].text = block;
            self->noted [text].is_deflated = is_deflated;
        }
    }
}

//  A stream that ends early gives what there is of it, as Pillow has it.
static int
s_inflate (image_block_t *block, scratch_t *target)
{
    z_stream stream = { .next_in = block->bytes, .avail_in = (uInt) block->size };
    if (!scratch_need (target, TEXT_BYTES_MAX + 1))
        return -ENOMEM;
    int rc = inflateInit (&stream);
    if (rc == Z_OK) {
        stream.next_out = target->data;
        stream.avail_out = TEXT_BYTES_MAX + 1;
        rc = inflate (&stream, Z_SYNC_FLUSH);
        inflateEnd (&stream);
    }
    bool is_text = (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
        && stream.total_out <= TEXT_BYTES_MAX;
    *block = is_text? (image_block_t) { target->data, stream.total_out }: (image_block_t) { NULL, 0 };
    return rc == Z_MEM_ERROR? -ENOMEM: 0;
}

static int
s_digit (uint8_t letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 'a' - 'A';
    return letter >= 'a' && letter <= 'f'? letter - 'a' + 10: -1;
}

//  Behind three lines (empty, "exif", a length that is not read) the digits, with white space between bytes.
static int
s_read_digits (image_block_t *block, scratch_t *target)
{
    enum { LINES = 3 };
    const uint8_t *at = block->bytes, *end = at + block->size;
    for (int line = 0; line < LINES && at; line++) {
        const uint8_t *line_end = memchr (at, '\n', (size_t) (end - at));
        at = line_end? line_end + 1: NULL;
    }
    *block = (image_block_t) { NULL, 0 };
    if (!at || at == end)
        return 0;
    if (!scratch_need (target, (size_t) (end - at) / 2 + 1))
        return -ENOMEM;
    uint8_t *bytes = target->data;
    size_t count = 0;
    while (at < end) {
        int high = s_digit (*at), low = end - at > 1? s_digit (at [1]): -1;
        if (high >= 0 && low >= 0) {
            bytes [count++] = (uint8_t) (high << 4 | low);
            at++;
        }
        else
        if (!memchr (" \t\n\v\f\r", *at, 6))
            return 0;
        at++;
    }
    *block = (image_block_t) { bytes, count };
    return 0;
}

//  After the last chunk: 0, or -ENOMEM.
static int
s_unpack_texts (texts_t *self)
{
    scratch_t digits = { NULL, 0 };
    image_block_t xmp = self->noted [TEXT_XMP].text, exif = self->noted [TEXT_EXIF].text;
    int rc = 0;
    if (xmp.bytes && self->noted [TEXT_XMP].is_deflated)
        rc = s_inflate (&xmp, &self->unpacked [TEXT_XMP]);
    if (!rc && exif.bytes && self->noted [TEXT_EXIF].is_deflated)
        rc = s_inflate (&exif, &digits);
    if (!rc && exif.bytes)
        rc = s_read_digits (&exif, &self->unpacked [TEXT_EXIF]);
    scratch_free (&digits);
    if (rc)
        return rc;
    self->xmp = xmp;
    self->exif = exif;
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Life

static void *
s_reader_new (void)
{
    png_reader_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = PNG_READER_MAGIC;
    return self;
}

//  libpng's state holds what one image left behind: it is made anew for each.
static void
s_close (png_reader_t *self)
{
    png_destroy_read_struct (&self->png, &self->info, NULL);
}

static void
s_reader_destroy (void *reader)
{
    png_reader_t *self = reader;
    if (!self)
        return;
    assert (self->magic == PNG_READER_MAGIC);
    s_close (self);
    scratch_free (&self->pixels);
    for (int text = 0; text < TEXTS; text++)
        scratch_free (&self->texts.unpacked [text]);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening: chunks by their lengths -> size -> libpng's look at the chunks before the image data

static bool
s_truncated (const png_reader_t *self)
{
    snprintf (self->error, self->error_bytes, "truncated PNG: the file ends before the image does");
    return false;
}

static bool
s_is_chunk (const uint8_t *head, const char *name)
{
    return memcmp (head + sizeof (uint32_t), name, sizeof (uint32_t)) == 0;
}

//  Critical by its name, and none of the four.
static bool
s_is_unknown (const uint8_t *head)
{
    uint8_t letter = head [sizeof (uint32_t)];
    return letter >= 'A' && letter <= 'Z' && !s_is_chunk (head, "IHDR") && !s_is_chunk (head, "PLTE")
        && !s_is_chunk (head, "IDAT") && !s_is_chunk (head, "IEND");
}

//  Whether the content is what was written; head: of a chunk that is there in full.
static bool
s_is_sound (const uint8_t *head, size_t length)
{
    uLong sum = crc32 (0, head + sizeof (uint32_t), (uInt) (sizeof (uint32_t) + length));
    return sum == png_get_uint_32 (head + CHUNK_HEAD_BYTES + length);
}

//  Walks over the chunks and finds what is to be known of a file before it is read: whether it has an end, so
//  that unwanted rows need not be read to judge it; and where its EXIF data are.  False: it ends amid the
//  image data, or a critical chunk before these is damaged.  If a checksum of these or behind them is wrong,
//  all rows are read, so that zlib's checksum of the rows decides, as in Pillow.
static bool
s_survey (png_reader_t *self)
{
    self->is_whole = false;
    self->has_unknown = false;
    self->has_wrong_sum = false;
    self->exif = (image_block_t) { NULL, 0 };
    s_forget_texts (&self->texts);
    size_t place = SIGNATURE_BYTES;
    bool has_data = false, is_sound = true, has_end = false;
    while (!has_end && self->size - place >= CHUNK_HEAD_BYTES) {
        const uint8_t *head = self->bytes + place;
        size_t length = png_get_uint_32 (head), left = self->size - place - CHUNK_HEAD_BYTES;
        if (left < CHUNK_SUM_BYTES || left - CHUNK_SUM_BYTES < length)
            return !s_is_chunk (head, "IDAT") || s_truncated (self);
        if (s_is_chunk (head, "eXIf"))
            self->exif = (image_block_t) { head + CHUNK_HEAD_BYTES, length };
        s_note_text (&self->texts, head + sizeof (uint32_t), length);
        bool is_data = s_is_chunk (head, "IDAT");
        has_data |= is_data;
        has_end = s_is_chunk (head, "IEND");
        self->has_unknown |= s_is_unknown (head);
        bool is_critical = head [sizeof (uint32_t)] >= 'A' && head [sizeof (uint32_t)] <= 'Z';
        if ((has_data || is_critical) && !s_is_sound (head, length)) {
            if (!has_data) {
                snprintf (self->error, self->error_bytes, "damaged PNG: CRC error before the image data");
                return false;
            }
            is_sound = false;               //  of another chunk the name may have been IDAT
            self->has_wrong_sum |= is_data;
        }
        place += CHUNK_HEAD_BYTES + length + CHUNK_SUM_BYTES;
    }
    self->is_whole = has_end && is_sound;
    return true;
}

static bool
s_is_png (const png_reader_t *self)
{
    if (self->size >= SIGNATURE_BYTES && png_sig_cmp (self->bytes, 0, SIGNATURE_BYTES) == 0)
        return true;
    snprintf (self->error, self->error_bytes, "not a PNG");
    return false;
}

//  By the header alone, before libpng has seen anything; where that is missing, libpng will say so.
static bool
s_check_size (png_reader_t *self)
{
    self->height = self->width = 0;
    if (self->size < SIZE_AT + 2 * sizeof (uint32_t))
        return true;
    self->width = png_get_uint_32 (self->bytes + SIZE_AT);
    self->height = png_get_uint_32 (self->bytes + SIZE_AT + sizeof (uint32_t));
    bool is_long = self->width > SIDE_MAX || self->height > SIDE_MAX;
    if (!is_long && (uint64_t) self->width * self->height <= DECODER_PIXELS_MAX)
        return true;
    snprintf (self->error, self->error_bytes, "PNG with %s than the limit (%u x %u pixels)",
        is_long? "a longer side": "more pixels", self->width, self->height);
    return false;
}

//  What values stand for: grey of fewer bits is scaled to 8; in colour, indices are looked up.  As Pillow: of
//  one bit a mask has truth values.  What lies beyond the palette's end is black (before Pillow 10.1 it was
//  grey: the index three times).
static void
s_fill_table (png_reader_t *self, int colour_type, int depth)
{
    bool is_palette = colour_type == PNG_COLOR_TYPE_PALETTE;
    bool is_scaled = depth < 8 && !is_palette && !(self->is_mask && depth == 1);
    int largest = is_scaled? (1 << depth) - 1: UINT8_MAX;
    for (int value = 0; value < VALUES; value++)
        memset (self->table [value], value <= largest? value * UINT8_MAX / largest: 0, IMAGE_COLOURS);
    for (int value = 0; self->is_wide && value < VALUES; value++)
        self->table [value] [1] = 0;        //  the upper byte
    png_colorp palette;
    int count = 0;
    if (is_palette && !self->is_mask)
        png_get_PLTE (self->png, self->info, &palette, &count);
    if (is_palette && !self->is_mask)
        memset (self->table, 0, sizeof self->table);
    for (int value = 0; value < count; value++) {
        self->table [value] [0] = palette [value].red;
        self->table [value] [1] = palette [value].green;
        self->table [value] [2] = palette [value].blue;
    }
}

//  Rows come as bytes: three channels of colour, or one of values.
static void
s_ask_for_bytes (png_reader_t *self, int colour_type, int depth)
{
    if (depth < 8)
        png_set_packing (self->png);
    if (self->is_deep)
        png_set_swap (self->png);           //  the lower byte first
    else
    if (depth > 8 && colour_type == PNG_COLOR_TYPE_GRAY) {
        png_set_read_user_transform_fn (self->png, s_clip_values);
        png_set_user_transform_info (self->png, NULL, 8, 1);
    }
    else
    if (depth > 8)
        png_set_strip_16 (self->png);
    if (colour_type & PNG_COLOR_MASK_ALPHA)
        png_set_strip_alpha (self->png);
    self->passes = (uint32_t) png_set_interlace_handling (self->png);
    png_read_update_info (self->png, self->info);
    assert (png_get_rowbytes (self->png, self->info)
        == (size_t) self->width * (self->is_deep? IMAGE_WIDE: self->has_values? 1: IMAGE_COLOURS));
}

//  Leaves where a mask would lose what it stands for, or a depth in a field of images what is above 255.
static void
s_check_kind (png_reader_t *self, int colour_type, int depth)
{
    bool is_colour = !self->has_values, has_alpha = colour_type & PNG_COLOR_MASK_ALPHA;
    bool is_grey = !is_colour && !has_alpha;
    bool is_clipped = depth > 8 && !self->is_wide && (self->is_mask || (self->is_field && is_grey));
    if (self->is_mask && (is_colour || has_alpha))
        snprintf (self->error, self->error_bytes, "a mask must be grey or have a palette, without alpha: "
            "this PNG %s", is_colour? "is in colour": "has alpha");
    else
    if (is_clipped)
        snprintf (self->error, self->error_bytes, "%s: this PNG has 16 bits of grey; \"as\": \"mask\", "
            "\"dtype\": \"uint16\" reads them", self->is_mask? "a mask of \"uint8\" has at most 8 bits":
            "an image has 8 bits, and values above 255 would become 255");
    else
        return;
    longjmp (self->escape, ESCAPE_UNSUITABLE);
}

static void
s_start (png_reader_t *self)
{
    self->info = png_create_info_struct (self->png);
    if (!self->info)
        longjmp (self->escape, ESCAPE_BAD);     //  for want of memory
    png_set_read_fn (self->png, self, s_read_bytes);
    //  All chunks but those of the image itself are skipped, none is inflated or kept.  So there is no need
    //  for a limit on their length, which would refuse files for a long comment; nothing may be cached.
    png_set_keep_unknown_chunks (self->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_chunk_cache_max (self->png, 1);
    png_set_chunk_malloc_max (self->png, PNG_UINT_31_MAX);
    png_set_user_limits (self->png, SIDE_MAX, SIDE_MAX);
    //  Not for every file: libpng copies chunks for it.
    if (self->has_unknown)
        png_set_read_user_chunk_fn (self->png, self, s_skip_chunk);
    //  Where a CRC of the image data is wrong, zlib's checksum behind the last row must be right; libpng
    //  would only warn of it.
    png_set_crc_action (self->png, self->has_wrong_sum? PNG_CRC_QUIET_USE: PNG_CRC_ERROR_QUIT,
        PNG_CRC_ERROR_QUIT);
    png_set_benign_errors (self->png, !self->has_wrong_sum);
    png_read_info (self->png, self->info);
    int colour_type = png_get_color_type (self->png, self->info);
    int depth = png_get_bit_depth (self->png, self->info);
    self->height = png_get_image_height (self->png, self->info);
    self->width = png_get_image_width (self->png, self->info);
    self->has_values = colour_type == PNG_COLOR_TYPE_PALETTE || !(colour_type & PNG_COLOR_MASK_COLOR);
    self->is_deep = self->is_wide && depth > 8;
    s_check_kind (self, colour_type, depth);
    s_fill_table (self, colour_type, depth);
    s_ask_for_bytes (self, colour_type, depth);
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading: rows of bytes, those of the box are kept -> values looked up

static uint32_t
s_channels (const png_reader_t *self)
{
    return !self->is_mask? IMAGE_COLOURS: self->is_wide? IMAGE_WIDE: 1;
}

//  Values stand in the last part of their row of several channels, where s_look_up can spread them in place.
static size_t
s_shift (const png_reader_t *self)
{
    return self->has_values && !self->is_deep? (size_t) self->width * (s_channels (self) - 1): 0;
}

static size_t
s_stride (const png_reader_t *self)
{
    return (size_t) self->width * s_channels (self);
}

//  What stands below the box is not read, unless the file may be cut short: then all of it must be there.
static void
s_read_rows (png_reader_t *self)
{
    const image_box_t *box = &self->box;
    uint8_t *pixels = self->pixels.data;
    for (uint32_t pass = 0; pass < self->passes; pass++) {
        bool is_last = pass + 1 == self->passes;
        uint32_t rows = is_last && self->is_whole? box->top + box->height: self->height;
        for (uint32_t row = 0; row < rows; row++) {
            bool is_wanted = row >= box->top && row - box->top < box->height;
            uint8_t *target = is_wanted? pixels + (row - box->top) * s_stride (self) + s_shift (self): NULL;
            png_read_row (self->png, target, NULL);
        }
    }
}

//  Looks up the colours of columns, in place: no value is overwritten before it was read.
INSTRUMENT_ROWS static void
s_look_up (const png_reader_t *self, uint8_t *row)
{
    const uint8_t *values = row + s_shift (self);
    uint32_t channels = s_channels (self);
    uint32_t left = self->box.left, right = left + self->box.width;
    for (uint32_t column = left; column < right; column++) {
        const uint8_t *colour = self->table [values [column]];
        for (uint32_t channel = 0; channel < channels; channel++)
            row [(size_t) column * channels + channel] = colour [channel];
    }
    instrument_written (row + (size_t) left * channels, (size_t) (right - left) * channels);
}

//  ---------------------------------------------------------------------------------------------------------
//  Both steps, and where they end

static int
s_no_memory (const png_reader_t *self)
{
    snprintf (self->error, self->error_bytes, "not enough memory for a PNG of %u x %u pixels", self->width,
        self->height);
    return -ENOMEM;
}

static int
s_run (png_reader_t *self, void (*step) (png_reader_t *self), char *error, size_t error_bytes)
{
    self->error = error;
    self->error_bytes = error_bytes;
    *error = 0;
    switch (setjmp (self->escape)) {
    case 0:
        step (self);
        return 0;
    case ESCAPE_TRUNCATED:
        s_truncated (self);
        return -EBADMSG;
    case ESCAPE_UNSUITABLE:
        return -EDOM;
    default:
        return self->no_memory? s_no_memory (self): -EBADMSG;
    }
}

static int
s_reader_open (void *reader, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    png_reader_t *self = reader;
    assert (self->magic == PNG_READER_MAGIC);
    s_close (self);
    self->bytes = bytes;
    self->size = size;
    self->place = 0;
    self->is_mask = options->is_mask;
    self->is_wide = options->is_wide;
    self->is_field = options->is_field;
    self->no_memory = false;
    self->error = error;
    self->error_bytes = error_bytes;
    if (!s_is_png (self) || !s_check_size (self) || !s_survey (self))
        return -EBADMSG;
    if (options->orientation && s_unpack_texts (&self->texts))
        return s_no_memory (self);
    if (!self->exif.bytes)
        self->exif = self->texts.exif;
    self->png = png_create_read_struct_2 (PNG_LIBPNG_VER_STRING, self, s_complain, s_warn, self, s_allocate,
        s_release);
    if (!self->png)
        return s_no_memory (self);
    int rc = s_run (self, s_start, error, error_bytes);
    if (rc)
        s_close (self);
    *height_p = self->height;
    *width_p = self->width;
    return rc;
}

static int
s_reader_read (void *reader, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    png_reader_t *self = reader;
    assert (self->magic == PNG_READER_MAGIC);
    assert (self->png);
    const image_box_t *box = &request->box;
    self->box = *box;
    uint32_t channels = s_channels (self);
    bool has_room = scratch_need (&self->pixels, s_stride (self) * box->height);
    int rc = has_room? s_run (self, s_read_rows, error, error_bytes): s_no_memory (self);
    s_close (self);
    if (rc)
        return rc;
    uint8_t *first = self->pixels.data;
    //  Not where values stand for themselves.
    bool is_plain = self->is_mask && !self->is_wide && self->table [1] [0] == 1;
    if (self->has_values && !self->is_deep && !is_plain)
        for (uint32_t row = 0; row < box->height; row++)
            s_look_up (self, first + row * s_stride (self));
    *pixels = (image_pixels_t) {
        .image = { first + (size_t) box->left * channels, s_stride (self), box->height, box->width,
        channels },
        .height = box->height,
        .width = box->width
    };
    return 0;
}

//  EXIF is the content of the eXIf chunk.  Of several the last, before the image data or behind, as Pillow
//  has it.  Without that chunk, and with the option orientation: the EXIF data of a text.
static image_notes_t
s_reader_notes (const void *reader)
{
    const png_reader_t *self = reader;
    assert (self->magic == PNG_READER_MAGIC);
    return (image_notes_t) { self->exif, self->texts.xmp };
}

const image_codec_t png_reader = {
    .new = s_reader_new,
    .destroy = s_reader_destroy,
    .open = s_reader_open,
    .read = s_reader_read,
    .clips = s_reader_clips,
    .notes = s_reader_notes,
};

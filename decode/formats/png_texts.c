#include "png_texts.h"
#include <errno.h>
#include <string.h>
#define ZLIB_CONST          //  what is read is const
#include <zlib.h>

enum { XMP, EXIF, TEXTS, NAME_BYTES = 4 };
static const char *const s_keywords [TEXTS] = { "XML:com.adobe.xmp", "Raw profile type exif" };

void
png_texts_forget (png_texts_t *self)
{
    self->xmp = self->exif = (image_block_t) { NULL, 0 };
    for (int text = 0; text < TEXTS; text++)
        self->noted [text].text = (image_block_t) { NULL, 0 };
}

void
png_texts_free (png_texts_t *self)
{
    png_texts_forget (self);
    for (int text = 0; text < TEXTS; text++)
        scratch_free (&self->unpacked [text]);
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
    if (memcmp (name, "tEXt", NAME_BYTES) == 0)
        return true;
    bool is_international = memcmp (name, "iTXt", NAME_BYTES) == 0;
    size_t flags = is_international? 2: 1;          //  whether it is deflated, and the method: 0
    if (block->size < flags)
        return false;
    *is_deflated_p = !is_international || block->bytes [0];
    bool is_known = !*is_deflated_p || block->bytes [flags - 1] == 0;
    *block = (image_block_t) { block->bytes + flags, block->size - flags };
    //  The language, and the keyword in it.
    return is_known && (!is_international || (s_skip_part (block) && s_skip_part (block)));
}

void
png_texts_note (png_texts_t *self, const uint8_t *name, size_t length)
{
    if (memcmp (name, "tEXt", NAME_BYTES) && memcmp (name, "zTXt", NAME_BYTES)
    &&  memcmp (name, "iTXt", NAME_BYTES))
        return;
    for (int text = 0; text < TEXTS; text++) {
        size_t keyword_bytes = strlen (s_keywords [text]) + 1;
        if (length < keyword_bytes || memcmp (name + NAME_BYTES, s_keywords [text], keyword_bytes))
            continue;
        image_block_t block = { name + NAME_BYTES + keyword_bytes, length - keyword_bytes };
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
    if (!scratch_need (target, PNG_TEXTS_BYTES_MAX + 1))
        return -ENOMEM;
    int rc = inflateInit (&stream);
    if (rc == Z_OK) {
        stream.next_out = target->data;
        stream.avail_out = PNG_TEXTS_BYTES_MAX + 1;
        rc = inflate (&stream, Z_SYNC_FLUSH);
        inflateEnd (&stream);
    }
    bool is_text = (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
        && stream.total_out <= PNG_TEXTS_BYTES_MAX;
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

int
png_texts_unpack (png_texts_t *self)
{
    scratch_t digits = { NULL, 0 };
    image_block_t xmp = self->noted [XMP].text, exif = self->noted [EXIF].text;
    int rc = 0;
    if (xmp.bytes && self->noted [XMP].is_deflated)
        rc = s_inflate (&xmp, &self->unpacked [XMP]);
    if (!rc && exif.bytes && self->noted [EXIF].is_deflated)
        rc = s_inflate (&exif, &digits);
    if (!rc && exif.bytes)
        rc = s_read_digits (&exif, &self->unpacked [EXIF]);
    scratch_free (&digits);
    if (rc)
        return rc;
    self->xmp = xmp;
    self->exif = exif;
    return 0;
}

//  BMP: Windows' and OS/2's headers; 1, 4 and 8 bits with a palette, 16, 24 and 32 bits, and run lengths of 4
//  and 8.

#include "plain_image.h"
#include <string.h>

enum { FILE_HEAD_BYTES = 14, OS2_HEAD_BYTES = 12, HEAD_BYTES = 40, MASKS = 4 };
enum { RAW, RLE8, RLE4, BITFIELDS };
static const char s_ends_early [] = "the file ends before the image does";

//  ---------------------------------------------------------------------------------------------------------
//  Opening: header -> order of colours -> palette

static bool
s_has_room (const plain_image_t *self, uint64_t at, uint64_t bytes)
{
    return at <= self->size && bytes <= self->size - at;
}

//  The masks for red, green, blue and alpha that Pillow 13 knows, and the bytes that they mean.
static const struct { uint32_t bits; uint32_t masks [MASKS]; uint8_t order [IMAGE_COLOURS]; } s_layouts [] = {
    { 32, { 0xff0000, 0xff00, 0xff, 0 }, { 2, 1, 0 } },
    { 32, { 0xff000000, 0xff0000, 0xff00, 0 }, { 3, 2, 1 } },
    { 32, { 0xff000000, 0xff00, 0xff, 0 }, { 3, 1, 0 } },
    { 32, { 0xff000000, 0xff0000, 0xff00, 0xff }, { 3, 2, 1 } },
    { 32, { 0xff, 0xff00, 0xff0000, 0xff000000 }, { 0, 1, 2 } },
    { 32, { 0xff0000, 0xff00, 0xff, 0xff000000 }, { 2, 1, 0 } },
    { 32, { 0xff000000, 0xff00, 0xff, 0xff0000 }, { 3, 1, 0 } },
    { 32, { 0, 0, 0, 0 }, { 2, 1, 0 } },
    { 24, { 0xff0000, 0xff00, 0xff, 0 }, { 2, 1, 0 } },
    //  Of 16 bits: six for green, or five.
    { 16, { 0xf800, 0x7e0, 0x1f, 0 }, { 6, 0, 0 } },
    { 16, { 0x7c00, 0x3e0, 0x1f, 0 }, { 5, 0, 0 } },
};

//  *table_p: where the palette is; masks behind a short header push it back.
static const char *
s_read_masks (plain_image_t *self, uint32_t head_bytes, size_t *table_p)
{
    const uint8_t *masks = self->bytes + FILE_HEAD_BYTES + HEAD_BYTES;
    size_t count = head_bytes >= HEAD_BYTES + MASKS * 4? MASKS: MASKS - 1;
    if (!s_has_room (self, FILE_HEAD_BYTES + HEAD_BYTES, count * 4))
        return s_ends_early;
    if (head_bytes == HEAD_BYTES)
        *table_p += count * 4;
    for (size_t index = 0; index < sizeof s_layouts / sizeof *s_layouts; index++) {
        bool same = self->bits == s_layouts [index].bits;
        for (size_t mask = 0; mask < count && (self->bits == 32 || mask < MASKS - 1); mask++)
            same = same && plain_little (masks + mask * 4, 4) == s_layouts [index].masks [mask];
        if (count < MASKS && s_layouts [index].masks [MASKS - 1])
            same = false;
        if (same) {
            memcpy (self->order, s_layouts [index].order, sizeof self->order);
            return NULL;
        }
    }
    return "its bit fields have an order that Pillow does not read either";
}

static const char *
s_read_palette (plain_image_t *self, uint32_t head_bytes, uint32_t colours, size_t table)
{
    size_t entry = head_bytes == OS2_HEAD_BYTES? 3: 4;
    if (colours == 0)
        colours = 1u << self->bits;
    if (colours > PLAIN_VALUES)
        return "its palette has more than 256 colours";
    if (!s_has_room (self, table, colours * entry))
        return s_ends_early;
    //  A palette behind the header moves the pixels where the file says that they begin there.
    if (self->place == (size_t) FILE_HEAD_BYTES + head_bytes || self->place == 0)
        self->place = table + colours * entry;
    for (uint32_t value = 0; value < colours; value++)
        for (int channel = 0; channel < IMAGE_COLOURS; channel++)
            self->colours [value] [channel] = self->bytes [table + value * entry + (size_t) (2 - channel)];
    self->has_values = true;
    return NULL;
}

//  Rows are filled up to whole words of 32 bits.
static uint64_t
s_stride (const plain_image_t *self)
{
    return ((uint64_t) self->width * self->bits + 31) / 32 * 4;
}

static const char *
s_check (plain_image_t *self, uint32_t head_bytes, uint32_t colours)
{
    size_t table = (size_t) FILE_HEAD_BYTES + head_bytes;
    const char *wrong = NULL;
    static const uint8_t blue_first [IMAGE_COLOURS] = { 2, 1, 0 };
    memcpy (self->order, blue_first, sizeof self->order);
    if (self->bits == 16)
        self->order [0] = 5;
    if (self->bits != 1 && self->bits != 4 && self->bits != 8 && self->bits != 16 && self->bits != 24
    &&  self->bits != 32)
        return "its pixels have neither 1, 4, 8, 16, 24 nor 32 bits";
    if (self->kind > BITFIELDS)
        return "it holds a JPEG, a PNG or another compression";
    if ((self->kind == RLE8 && self->bits != 8) || (self->kind == RLE4 && self->bits != 4))
        return "its run lengths do not fit its bits";
    if (self->kind == BITFIELDS)
        wrong = s_read_masks (self, head_bytes, &table);
    if (!wrong && self->bits <= 8)
        wrong = s_read_palette (self, head_bytes, colours, table);
    if (self->place == 0)
        self->place = table;
    if (wrong || self->kind == RLE8 || self->kind == RLE4)
        return wrong;
    uint64_t last = ((uint64_t) self->width * self->bits + 7) / 8;
    return self->height > 0 && !s_has_room (self, self->place, s_stride (self) * (self->height - 1) + last)?
        s_ends_early: NULL;
}

const char *
plain_bmp_open (plain_image_t *self)
{
    if (self->size < FILE_HEAD_BYTES + OS2_HEAD_BYTES)
        return s_ends_early;
    const uint8_t *head = self->bytes + FILE_HEAD_BYTES;
    uint32_t head_bytes = plain_little (head, 4);
    self->place = plain_little (self->bytes + 10, 4);
    if (head_bytes == OS2_HEAD_BYTES) {
        self->width = plain_little (head + 4, 2);
        self->height = plain_little (head + 6, 2);
        self->bits = plain_little (head + 10, 2);
        return s_check (self, head_bytes, 0);
    }
    if (head_bytes != 40 && head_bytes != 52 && head_bytes != 56 && head_bytes != 64 && head_bytes != 108
    &&  head_bytes != 124)
        return "its header has a length that no BMP has";
    if (!s_has_room (self, FILE_HEAD_BYTES, head_bytes))
        return s_ends_early;
    self->width = plain_little (head + 4, 4);
    self->height = plain_little (head + 8, 4);
    self->is_top_down = head [11] == UINT8_MAX;
    if (self->is_top_down)
        self->height = 0 - self->height;
    self->bits = plain_little (head + 14, 2);
    self->kind = plain_little (head + 16, 4);
    //  Sizes are the reader's business; here they must not overflow.
    if (self->width > INT32_MAX || self->height > INT32_MAX)
        return "its sides are negative";
    return s_check (self, head_bytes, plain_little (head + 32, 4));
}

//  ---------------------------------------------------------------------------------------------------------
//  Decoding

static uint8_t *
s_row (const plain_image_t *self, uint8_t *target, uint32_t row)
{
    size_t bytes = (size_t) self->width * (self->has_values? 1: IMAGE_COLOURS);
    return target + (self->is_top_down? row: self->height - 1 - row) * bytes;
}

static void
s_decode_16 (const plain_image_t *self, const uint8_t *source, uint8_t *target)
{
    uint32_t green_bits = self->order [0], greens = (1u << green_bits) - 1;
    for (uint32_t column = 0; column < self->width; column++, source += 2, target += IMAGE_COLOURS) {
        uint32_t pixel = plain_little (source, 2);
        target [0] = (uint8_t) ((pixel >> (5 + green_bits) & 31) * UINT8_MAX / 31);
        target [1] = (uint8_t) ((pixel >> 5 & greens) * UINT8_MAX / greens);
        target [2] = (uint8_t) ((pixel & 31) * UINT8_MAX / 31);
    }
}

static void
s_decode_row (const plain_image_t *self, const uint8_t *source, uint8_t *target)
{
    uint32_t bits = self->bits;
    if (bits == 16)
        s_decode_16 (self, source, target);
    else
    if (bits <= 8)
        for (uint32_t column = 0; column < self->width; column++) {
            uint32_t at = column * bits % 8;
            target [column] = (uint8_t) (source [(size_t) column * bits / 8] >> (8 - bits - at)
                & ((1u << bits) - 1));
        }
    else
        for (uint32_t column = 0; column < self->width; column++, source += bits / 8)
            for (int channel = 0; channel < IMAGE_COLOURS; channel++)
                *target++ = source [self->order [channel]];
}

//  Run lengths: a position in the image's pixels, and in its row, as Pillow 13 counts.
typedef struct {
    const plain_image_t *image;
    uint8_t *target;
    size_t place;               //  in the file
    size_t done;                //  pixels
    size_t count;               //  of all pixels
    size_t column;
} runs_t;

static void
s_put (runs_t *self, uint8_t value)
{
    if (self->done >= self->count)
        return;
    size_t width = self->image->width;
    s_row (self->image, self->target, (uint32_t) (self->done / width)) [self->done % width] = value;
    self->done++;
}

static void
s_put_run (runs_t *self, size_t count, uint8_t byte)
{
    size_t left = self->column < self->image->width? self->image->width - self->column: 0;
    count = count < left? count: left;
    bool is_small = self->image->kind == RLE4;
    for (size_t index = 0; index < count; index++)
        s_put (self, is_small? index % 2? byte & 15: byte >> 4: byte);
    self->column += count;
}

//  Pixels as they are, filled up to an even place in the file; false: the file ends.
static bool
s_put_values (runs_t *self, size_t count)
{
    const plain_image_t *image = self->image;
    size_t left = self->count - self->done, wanted = count < left? count: left;
    size_t bytes = image->kind == RLE4? (wanted + 1) / 2: wanted;
    if (!s_has_room (image, self->place, bytes))
        return false;
    const uint8_t *source = image->bytes + self->place;
    for (size_t index = 0; index < wanted; index++)
        s_put (self, image->kind == RLE8? source [index]: index % 2? source [index / 2] & 15:
            source [index / 2] >> 4);
    self->column += count;
    self->place += bytes;
    self->place += self->place % 2;
    return true;
}

//  One of the marks behind a 0; false: the image ends here.
static bool
s_obey (runs_t *self, uint8_t mark)
{
    const plain_image_t *image = self->image;
    size_t width = image->width, skipped = 0;
    if (mark == 1)
        return false;
    if (mark > 2)
        return s_put_values (self, mark);
    if (mark == 2) {
        if (!s_has_room (image, self->place, 2))
            return false;
        skipped = image->bytes [self->place] + image->bytes [self->place + 1] * width;
        self->place += 2;
    }
    else
        skipped = (width - self->done % width) % width;
    //  What is skipped stays 0.
    self->done += skipped < self->count - self->done? skipped: self->count - self->done;
    self->column = mark == 2? self->done % width: 0;
    return true;
}

static const char *
s_decode_runs (const plain_image_t *self, uint8_t *target)
{
    runs_t runs = { .image = self, .target = target, .place = self->place,
        .count = (size_t) self->width * self->height };
    while (runs.done < runs.count && s_has_room (self, runs.place, 2)) {
        uint8_t count = self->bytes [runs.place], byte = self->bytes [runs.place + 1];
        runs.place += 2;
        if (count > 0)
            s_put_run (&runs, count, byte);
        else
        if (!s_obey (&runs, byte))
            break;
    }
    return runs.done < runs.count? "its run lengths end before the image does": NULL;
}

const char *
plain_bmp_decode (const plain_image_t *self, uint8_t *target)
{
    if (self->kind == RLE8 || self->kind == RLE4)
        return s_decode_runs (self, target);
    for (uint32_t row = 0; row < self->height; row++)
        s_decode_row (self, self->bytes + self->place + row * s_stride (self), s_row (self, target, row));
    return NULL;
}

//  image_reader's part for the formats that need no library, BMP, PNM and the first picture of a GIF: the
//  same two steps, the same results as Pillow.
//
//  Pixels are what Image.open (...).convert ("RGB") gives: palettes are looked up (an index beyond the end
//  of a palette is black), transparency and alpha are dropped, 16 bits of grey are cut to 255.  A mask is
//  grey or has a palette, as for PNG.
//  All of the image is decoded, whatever the box: so a file is good or bad for every job alike.

#include "image_codec.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "file_kind.h"

enum { PLAIN_VALUES = 256 };

//  An image of a format that is read without a library: what its header says.  The functions of the formats
//  return NULL, or words for what is wrong with the file.  Untrusted bytes: whatever they are, time and
//  memory are bounded by the file's size and the size of the image.
typedef struct {
    const uint8_t *bytes;       //  the file, lent
    size_t size;
    //  What open finds.
    uint32_t height;
    uint32_t width;
    bool has_values;            //  decode gives a byte a pixel, of which colours says what it means; else
                                //  IMAGE_COLOURS bytes
    bool is_deep;               //  the values were cut to 8 bits
    uint8_t colours [PLAIN_VALUES] [IMAGE_COLOURS];
    //  Of the format
    size_t place;               //  of the pixels in the file
    uint32_t bits;              //  BMP: of a pixel; GIF: of a code without those that codes add
    uint32_t kind;              //  BMP: the compression; PNM: the digit of its magic number
    uint32_t largest;           //  PNM: the value for white
    uint8_t order [IMAGE_COLOURS];  //  BMP of 24 and 32 bits: which byte is red, green, blue
    bool is_top_down;           //  BMP
    bool is_interlaced;         //  GIF
    uint8_t around;             //  GIF: the value beside its first picture
    image_box_t box;            //  GIF: of the first picture
} plain_image_t;

static const char s_ends_early [] = "the file ends before the image does";

static uint32_t
s_little (const uint8_t *bytes, size_t count)
{
    uint32_t number = 0;
    while (count-- > 0)
        number = number << 8 | bytes [count];
    return number;
}

//  Values are grey.
static void
s_grey (plain_image_t *self)
{
    for (int value = 0; value < PLAIN_VALUES; value++)
        for (int channel = 0; channel < IMAGE_COLOURS; channel++)
            self->colours [value] [channel] = (uint8_t) value;
}

//  ---------------------------------------------------------------------------------------------------------
//  BMP: Windows' and OS/2's headers; 1, 4 and 8 bits with a palette, 16, 24 and 32 bits, and run lengths of 4
//  and 8.

enum { FILE_HEAD_BYTES = 14, OS2_HEAD_BYTES = 12, BMP_HEAD_BYTES = 40, MASKS = 4 };
enum { RAW, RLE8, RLE4, BITFIELDS };

//  ---- BMP: opening: header -> order of colours -> palette

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
    const uint8_t *masks = self->bytes + FILE_HEAD_BYTES + BMP_HEAD_BYTES;
    size_t count = head_bytes >= BMP_HEAD_BYTES + MASKS * 4? MASKS: MASKS - 1;
    if (!s_has_room (self, FILE_HEAD_BYTES + BMP_HEAD_BYTES, count * 4))
        return s_ends_early;
    if (head_bytes == BMP_HEAD_BYTES)
        *table_p += count * 4;
    for (size_t index = 0; index < sizeof s_layouts / sizeof *s_layouts; index++) {
        bool same = self->bits == s_layouts [index].bits;
        for (size_t mask = 0; mask < count && (self->bits == 32 || mask < MASKS - 1); mask++)
            same = same && s_little (masks + mask * 4, 4) == s_layouts [index].masks [mask];
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
s_bmp_palette (plain_image_t *self, uint32_t head_bytes, uint32_t colours, size_t table)
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
s_bmp_check (plain_image_t *self, uint32_t head_bytes, uint32_t colours)
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
        wrong = s_bmp_palette (self, head_bytes, colours, table);
    if (self->place == 0)
        self->place = table;
    if (wrong || self->kind == RLE8 || self->kind == RLE4)
        return wrong;
    uint64_t last = ((uint64_t) self->width * self->bits + 7) / 8;
    return self->height > 0 && !s_has_room (self, self->place, s_stride (self) * (self->height - 1) + last)?
        s_ends_early: NULL;
}

//  bytes and size are set, all else is 0; so for the other formats.
static const char *
s_bmp_open (plain_image_t *self)
{
    if (self->size < FILE_HEAD_BYTES + OS2_HEAD_BYTES)
        return s_ends_early;
    const uint8_t *head = self->bytes + FILE_HEAD_BYTES;
    uint32_t head_bytes = s_little (head, 4);
    self->place = s_little (self->bytes + 10, 4);
    if (head_bytes == OS2_HEAD_BYTES) {
        self->width = s_little (head + 4, 2);
        self->height = s_little (head + 6, 2);
        self->bits = s_little (head + 10, 2);
        return s_bmp_check (self, head_bytes, 0);
    }
    if (head_bytes != 40 && head_bytes != 52 && head_bytes != 56 && head_bytes != 64 && head_bytes != 108
    &&  head_bytes != 124)
        return "its header has a length that no BMP has";
    if (!s_has_room (self, FILE_HEAD_BYTES, head_bytes))
        return s_ends_early;
    self->width = s_little (head + 4, 4);
    self->height = s_little (head + 8, 4);
    self->is_top_down = head [11] == UINT8_MAX;
    if (self->is_top_down)
        self->height = 0 - self->height;
    self->bits = s_little (head + 14, 2);
    self->kind = s_little (head + 16, 4);
    //  Sizes are the reader's business; here they must not overflow.
    if (self->width > INT32_MAX || self->height > INT32_MAX)
        return "its sides are negative";
    return s_bmp_check (self, head_bytes, s_little (head + 32, 4));
}

//  ---- BMP: decoding

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
        uint32_t pixel = s_little (source, 2);
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
            uint32_t byte = source [(size_t) column * bits / 8];
            target [column] = (uint8_t) (byte >> (8 - bits - at) & ((1u << bits) - 1));
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
s_bmp_put (runs_t *self, uint8_t value)
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
        s_bmp_put (self, is_small? index % 2? byte & 15: byte >> 4: byte);
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
        s_bmp_put (self, image->kind == RLE8? source [index]: index % 2? source [index / 2] & 15:
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

//  All of the image, to target, which has room for it and holds zeros; so for the other formats.
static const char *
s_bmp_decode (const plain_image_t *self, uint8_t *target)
{
    if (self->kind == RLE8 || self->kind == RLE4)
        return s_decode_runs (self, target);
    for (uint32_t row = 0; row < self->height; row++)
        s_decode_row (self, self->bytes + self->place + row * s_stride (self), s_row (self, target, row));
    return NULL;
}

//  ---------------------------------------------------------------------------------------------------------
//  The first picture of a GIF.

enum { GIF_HEAD_BYTES = 13, PICTURE_BYTES = 9, CODE_BITS_MAX = 12, CODES = 1 << CODE_BITS_MAX };
static const char s_gif_ends_early [] = "the file ends before its first picture does";

//  ---- GIF: opening: header -> blocks up to the first picture

//  A palette of 2 .. 256 colours at self->place.  Values beyond its end are black.  A palette that is a ramp
//  of grey changes nothing, as Pillow has it: values are themselves, or what the palette before says.
static bool
s_gif_palette (plain_image_t *self, uint8_t flags)
{
    size_t count = (size_t) 2 << (flags & 7);
    if (self->size - self->place < count * IMAGE_COLOURS)
        return false;
    bool is_ramp = true;
    for (size_t index = 0; index < count * IMAGE_COLOURS; index++)
        is_ramp = is_ramp && self->bytes [self->place + index] == index / IMAGE_COLOURS;
    if (!is_ramp) {
        memset (self->colours, 0, sizeof self->colours);
        memcpy (self->colours, self->bytes + self->place, count * IMAGE_COLOURS);
    }
    self->place += count * IMAGE_COLOURS;
    return true;
}

//  An extension: one block says which value is transparent, all others are stepped over.
static bool
s_read_extension (plain_image_t *self)
{
    enum { CONTROL = 0xf9, CONTROL_BYTES = 4 };
    if (self->place >= self->size)
        return false;
    bool is_control = self->bytes [self->place++] == CONTROL;
    while (self->place < self->size) {
        const uint8_t *block = self->bytes + self->place;
        if (self->size - self->place <= *block)
            return false;
        self->place += 1 + (size_t) *block;
        if (*block == 0)
            return true;
        if (is_control && *block >= CONTROL_BYTES && block [1] & 1)
            self->around = block [CONTROL_BYTES];
        is_control = false;
    }
    return false;
}

static const char *
s_read_picture (plain_image_t *self)
{
    if (self->size - self->place < PICTURE_BYTES)
        return s_gif_ends_early;
    const uint8_t *head = self->bytes + self->place;
    self->box = (image_box_t) { s_little (head + 2, 2), s_little (head, 2),
        s_little (head + 6, 2), s_little (head + 4, 2) };
    self->is_interlaced = head [8] & 64;
    self->place += PICTURE_BYTES;
    if (head [8] & 128 && !s_gif_palette (self, head [8]))
        return s_gif_ends_early;
    if (self->place >= self->size)
        return s_gif_ends_early;
    self->bits = self->bytes [self->place++];
    if (self->bits < 1 || self->bits > 8)
        return "its codes have no length that a GIF has";
    //  A picture that is larger than the screen makes that larger, as Pillow has it.
    uint32_t bottom = self->box.top + self->box.height, right = self->box.left + self->box.width;
    self->height = self->height > bottom? self->height: bottom;
    self->width = self->width > right? self->width: right;
    return self->box.height == 0 || self->box.width == 0? "its first picture is empty": NULL;
}

static const char *
s_gif_open (plain_image_t *self)
{
    if (self->size < GIF_HEAD_BYTES)
        return s_gif_ends_early;
    self->width = s_little (self->bytes + 6, 2);
    self->height = s_little (self->bytes + 8, 2);
    self->has_values = true;
    self->place = GIF_HEAD_BYTES;
    s_grey (self);
    if (self->bytes [10] & 128 && !s_gif_palette (self, self->bytes [10]))
        return s_gif_ends_early;
    while (self->place < self->size) {
        uint8_t block = self->bytes [self->place++];
        if (block == ',')
            return s_read_picture (self);
        if (block == ';')
            return "it has no picture";
        if (block == '!' && !s_read_extension (self))
            return s_gif_ends_early;
    }
    return s_gif_ends_early;
}

//  ---- GIF: decoding: blocks -> codes -> strings of values -> rows

typedef struct {
    const plain_image_t *image;
    size_t place;               //  in the file
    size_t block;               //  bytes left of the block
    uint32_t held;              //  bits that no code has taken, and how many
    uint32_t held_bits;
    uint32_t row, column, pass;
    uint8_t *target;
    //  Each code from the second behind the marks on is the string of another one, and a value.
    uint16_t before [CODES];
    uint8_t last [CODES];
} codes_t;

//  The next code; -1: there are no more bytes.
static int
s_gif_next (codes_t *self, uint32_t bits)
{
    const plain_image_t *image = self->image;
    while (self->held_bits < bits) {
        if (self->block == 0) {
            if (self->place >= image->size || image->bytes [self->place] == 0)
                return -1;
            self->block = image->bytes [self->place++];
        }
        if (self->place >= image->size)
            return -1;
        self->held |= (uint32_t) image->bytes [self->place++] << self->held_bits;
        self->held_bits += 8;
        self->block--;
    }
    int code = (int) (self->held & ((1u << bits) - 1));
    self->held >>= bits;
    self->held_bits -= bits;
    return code;
}

//  The row behind this one; the rows of an interlaced picture come in four passes.
static void
s_next_row (codes_t *self)
{
    static const struct { uint32_t first, step; } passes [] = { { 0, 8 }, { 4, 8 }, { 2, 4 }, { 1, 2 } };
    enum { PASSES = sizeof passes / sizeof *passes };
    self->column = 0;
    if (!self->image->is_interlaced) {
        self->row++;
        return;
    }
    self->row += passes [self->pass].step;
    while (self->row >= self->image->box.height && ++self->pass < PASSES)
        self->row = passes [self->pass].first;
}

//  One value; false: the picture is full.
static bool
s_gif_put (codes_t *self, uint8_t value)
{
    const image_box_t *box = &self->image->box;
    if (self->row >= box->height)
        return false;
    self->target [(size_t) (box->top + self->row) * self->image->width + box->left + self->column] = value;
    if (++self->column == box->width)
        s_next_row (self);
    return true;
}

//  The string of a code; its first value, which the string of the next code may need.
static uint8_t
s_put_string (codes_t *self, uint32_t code, uint32_t marks)
{
    uint8_t string [CODES];
    size_t at = CODES;
    for (; code >= marks; code = self->before [code])
        string [--at] = self->last [code];
    uint8_t first = (uint8_t) code;
    bool has_room = s_gif_put (self, first);
    for (; has_room && at < CODES; at++)
        has_room = s_gif_put (self, string [at]);
    return first;
}

static const char *
s_gif_decode_codes (codes_t *self)
{
    const uint32_t clear = 1u << self->image->bits, end = clear + 1;
    uint32_t bits = self->image->bits + 1, next = end + 1;
    int old = -1;
    uint8_t first = 0;
    while (self->row < self->image->box.height) {
        int code = s_gif_next (self, bits);
        if (code < 0)
            return s_gif_ends_early;
        uint32_t number = (uint32_t) code;
        if (number == end)
            return "its codes end before its first picture does";
        if (number == clear) {
            bits = self->image->bits + 1;
            next = end + 1;
            old = -1;
            continue;
        }
        if (number > next || (old < 0 && number >= clear) || (number == next && next >= CODES))
            return "a code stands for nothing";
        //  A new string: the old one and a value, which is the first of this code's string.
        if (old >= 0 && number == next) {
            self->before [next] = (uint16_t) old;
            self->last [next] = first;
        }
        first = s_put_string (self, number, clear);
        if (old >= 0 && next < CODES) {
            self->before [next] = (uint16_t) old;
            self->last [next] = first;
            next++;
            if (next == 1u << bits && bits < CODE_BITS_MAX)
                bits++;
        }
        old = code;
    }
    return NULL;
}

static const char *
s_gif_decode (const plain_image_t *self, uint8_t *target)
{
    codes_t codes = { .image = self, .place = self->place, .target = target };
    if (self->around)
        memset (target, self->around, (size_t) self->height * self->width);
    return s_gif_decode_codes (&codes);
}

//  ---------------------------------------------------------------------------------------------------------
//  PBM, PGM and PPM, as text and as bytes: P1 .. P6.

enum { TOKEN_MAX = 10, LARGEST = 65535 };
static const char s_no_number [] = "there is something else where a number is expected";

static bool
s_is_space (uint8_t letter)
{
    return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

//  The next character that is not in a comment; -1: there is none.  A comment does not end a number, as
//  Pillow has it.
static int
s_pnm_next (const plain_image_t *self, size_t *place)
{
    const uint8_t *bytes = self->bytes;
    while (*place < self->size && bytes [*place] == '#') {
        while (*place < self->size && bytes [*place] != '\n' && bytes [*place] != '\r')
            ++*place;
        *place += *place < self->size;
    }
    return *place < self->size? bytes [(*place)++]: -1;
}

//  A number and one white space behind it.
static const char *
s_read_number (const plain_image_t *self, size_t *place, uint32_t *number_p)
{
    int letter = s_pnm_next (self, place);
    while (letter >= 0 && s_is_space ((uint8_t) letter))
        letter = s_pnm_next (self, place);
    if (letter < 0)
        return s_ends_early;
    uint64_t number = 0;
    for (int digits = 0; letter >= 0 && !s_is_space ((uint8_t) letter); digits++) {
        if (letter < '0' || letter > '9' || digits >= TOKEN_MAX)
            return s_no_number;
        number = number * 10 + (uint64_t) (letter - '0');
        letter = s_pnm_next (self, place);
    }
    if (number > UINT32_MAX)
        return "a number is too large";
    *number_p = (uint32_t) number;
    return NULL;
}

//  As bytes; 0: as text.
static uint64_t
s_row_bytes (const plain_image_t *self)
{
    if (self->kind == 4)
        return ((uint64_t) self->width + 7) / 8;
    return (uint64_t) self->width * (self->kind == 6? IMAGE_COLOURS: 1) * (self->largest > UINT8_MAX? 2: 1);
}

static const char *
s_pnm_open (plain_image_t *self)
{
    self->kind = (uint32_t) (self->bytes [1] - '0');
    self->place = 3;                //  behind "P6" and one white space, which made it a PNM
    self->largest = 1;
    const char *wrong = s_read_number (self, &self->place, &self->width);
    if (!wrong)
        wrong = s_read_number (self, &self->place, &self->height);
    if (!wrong && self->kind != 1 && self->kind != 4)
        wrong = s_read_number (self, &self->place, &self->largest);
    if (wrong)
        return wrong;
    if (self->largest == 0 || self->largest > LARGEST)
        return "its largest value is not in 1 .. 65535";
    self->has_values = self->kind != 3 && self->kind != 6;
    self->is_deep = self->has_values && self->largest > UINT8_MAX;
    s_grey (self);
    if (self->kind == 1 || self->kind == 4)
        memset (self->colours [1], UINT8_MAX, IMAGE_COLOURS);
    //  The first tests bound the product in the last one.
    bool is_there = self->kind < 4 || (s_row_bytes (self) <= self->size && self->height <= self->size
        && s_row_bytes (self) * self->height <= self->size - self->place);
    return is_there? NULL: s_ends_early;
}

//  A value as Pillow scales it: doubles, halves to the even number; grey of more than 8 bits is scaled to 16
//  and then cut.
static uint8_t
s_scaled (const plain_image_t *self, uint32_t value)
{
    double most = self->is_deep? LARGEST: UINT8_MAX;
    double scaled = rint ((double) value / self->largest * most);
    return scaled < UINT8_MAX? (uint8_t) scaled: UINT8_MAX;
}

static const char *
s_decode_text (const plain_image_t *self, uint8_t *target, size_t count)
{
    size_t place = self->place;
    for (size_t index = 0; index < count; index++) {
        uint32_t value;
        const char *wrong = s_read_number (self, &place, &value);
        if (wrong)
            return wrong;
        if (value > self->largest)
            return "a value is larger than the header says";
        target [index] = s_scaled (self, value);
    }
    return NULL;
}

//  Digits with or without space between them; 1 is black.
static const char *
s_decode_bits_of_text (const plain_image_t *self, uint8_t *target, size_t count)
{
    size_t place = self->place;
    for (size_t index = 0; index < count;) {
        int letter = s_pnm_next (self, &place);
        if (letter < 0)
            return s_ends_early;
        if (s_is_space ((uint8_t) letter))
            continue;
        if (letter != '0' && letter != '1')
            return s_no_number;
        target [index++] = letter == '0';
    }
    return NULL;
}

static const char *
s_pnm_decode (const plain_image_t *self, uint8_t *target)
{
    size_t row_values = (size_t) self->width * (self->has_values? 1: IMAGE_COLOURS);
    size_t count = row_values * self->height;
    if (self->kind == 1)
        return s_decode_bits_of_text (self, target, count);
    if (self->kind < 4)
        return s_decode_text (self, target, count);
    const uint8_t *source = self->bytes + self->place;
    if (self->kind == 4)
        for (size_t index = 0; index < count; index++) {
            size_t row = index / self->width, column = index % self->width;
            target [index] = !(source [row * s_row_bytes (self) + column / 8] >> (7 - column % 8) & 1);
        }
    else
    if (self->largest == UINT8_MAX)
        memcpy (target, source, count);
    else
        for (size_t index = 0; index < count; index++)
            target [index] = s_scaled (self, self->largest <= UINT8_MAX? source [index]:
                (uint32_t) (source [index * 2] << 8 | source [index * 2 + 1]));
    return NULL;
}

//  ---------------------------------------------------------------------------------------------------------
//  The reader

enum { PLAIN_READER_MAGIC = 0x706c6169 };

typedef struct {
    const char *name;
    const char *(*open) (plain_image_t *self);
    const char *(*decode) (const plain_image_t *self, uint8_t *target);
} format_t;

typedef struct {
    uint32_t magic;
    const format_t *format;             //  of the image that is open; else NULL
    plain_image_t image;
    bool is_mask;
    bool is_field;
    scratch_t decoded;                  //  all of the image: values or colours
    scratch_t pixels;                   //  of the box, where decoded has values
} plain_reader_t;

static const format_t s_formats [] = {
    [FILE_KIND_GIF] = { "GIF", s_gif_open, s_gif_decode },
    [FILE_KIND_BMP] = { "BMP", s_bmp_open, s_bmp_decode },
    [FILE_KIND_PNM] = { "PBM, PGM or PPM", s_pnm_open, s_pnm_decode },
};

static void *
s_reader_new (void)
{
    plain_reader_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = PLAIN_READER_MAGIC;
    return self;
}

static void
s_reader_destroy (void *reader)
{
    plain_reader_t *self = reader;
    if (!self)
        return;
    assert (self->magic == PLAIN_READER_MAGIC);
    scratch_free (&self->decoded);
    scratch_free (&self->pixels);
    self->magic = 0;
    free (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Opening

static int
s_check (const plain_reader_t *self, char *error, size_t error_bytes)
{
    const plain_image_t *image = &self->image;
    const char *name = self->format->name;
    if (image->height == 0 || image->width == 0) {
        snprintf (error, error_bytes, "damaged %s: an image without pixels (%u x %u)", name, image->width,
            image->height);
        return -EBADMSG;
    }
    if ((uint64_t) image->height * image->width > DECODER_PIXELS_MAX) {
        snprintf (error, error_bytes, "%s with more pixels than the limit (%u x %u pixels)", name,
            image->width, image->height);
        return -EBADMSG;
    }
    if (self->is_mask && (!image->has_values || image->is_deep)) {
        snprintf (error, error_bytes, "a mask must be grey or have a palette, with at most 8 bits: this %s "
            "%s", name, image->is_deep? "has more": "is in colour");
        return -EDOM;
    }
    if (self->is_field && image->is_deep) {
        snprintf (error, error_bytes, "an image has 8 bits, and values above 255 would become 255: this %s "
            "has 16 bits of grey; \"as\": \"mask\", \"dtype\": \"uint16\" reads them of a PNG or a TIFF",
            name);
        return -EDOM;
    }
    return 0;
}

static int
s_reader_open (void *reader, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
{
    plain_reader_t *self = reader;
    assert (self->magic == PLAIN_READER_MAGIC);
    const char *name;
    file_kind_t kind = file_kind (bytes, size, &name);
    assert (kind == FILE_KIND_GIF || kind == FILE_KIND_BMP || kind == FILE_KIND_PNM);
    self->format = &s_formats [kind];
    self->image = (plain_image_t) { .bytes = bytes, .size = size };
    self->is_mask = options->is_mask;
    self->is_field = options->is_field;
    const char *wrong = self->format->open (&self->image);
    if (wrong)
        snprintf (error, error_bytes, "damaged or unsupported %s: %s", self->format->name, wrong);
    int rc = wrong? -EBADMSG: s_check (self, error, error_bytes);
    if (rc)
        self->format = NULL;
    *height_p = self->image.height;
    *width_p = self->image.width;
    return rc;
}

static bool
s_reader_clips (const uint8_t *bytes, size_t size)
{
    const char *name;
    plain_image_t image = { .bytes = bytes, .size = size };
    return file_kind (bytes, size, &name) == FILE_KIND_PNM && !s_pnm_open (&image) && image.is_deep;
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading: all pixels -> the colours of those in the box

static int
s_decode (plain_reader_t *self, const image_box_t *box, char *error, size_t error_bytes)
{
    const plain_image_t *image = &self->image;
    size_t bytes = image_bytes (image->height, image->width, image->has_values? 1: IMAGE_COLOURS);
    bool looks_up = image->has_values && !self->is_mask;
    if (!scratch_need (&self->decoded, bytes)
    ||  (looks_up && !scratch_need (&self->pixels, image_bytes (box->height, box->width, IMAGE_COLOURS)))) {
        snprintf (error, error_bytes, "not enough memory for a %s of %u x %u pixels", self->format->name,
            image->width, image->height);
        return -ENOMEM;
    }
    memset (self->decoded.data, 0, bytes);
    const char *wrong = self->format->decode (image, self->decoded.data);
    if (wrong)
        snprintf (error, error_bytes, "damaged or truncated %s: %s", self->format->name, wrong);
    return wrong? -EBADMSG: 0;
}

static image_t
s_look_up (const plain_reader_t *self, const image_t *values)
{
    uint8_t *target = self->pixels.data;
    for (uint32_t row = 0; row < values->height; row++)
        for (uint32_t column = 0; column < values->width; column++, target += IMAGE_COLOURS)
            memcpy (target, self->image.colours [*image_at (values, row, column)], IMAGE_COLOURS);
    return (image_t) { self->pixels.data, (size_t) values->width * IMAGE_COLOURS, values->height,
        values->width, IMAGE_COLOURS };
}

static int
s_reader_read (void *reader, const image_request_t *request, image_pixels_t *pixels, char *error,
    size_t error_bytes)
{
    plain_reader_t *self = reader;
    assert (self->magic == PLAIN_READER_MAGIC);
    assert (self->format);
    const image_box_t *box = &request->box;
    const plain_image_t *image = &self->image;
    int rc = s_decode (self, box, error, error_bytes);
    self->format = NULL;
    if (rc)
        return rc;
    uint32_t channels = image->has_values? 1: IMAGE_COLOURS;
    image_t whole = { self->decoded.data, (size_t) image->width * channels, image->height, image->width,
        channels };
    image_t part = image_part (&whole, box);
    *pixels = (image_pixels_t) { .image = image->has_values && !self->is_mask? s_look_up (self, &part): part,
        .height = box->height, .width = box->width };
    return 0;
}

const image_codec_t plain_reader = {
    .new = s_reader_new,
    .destroy = s_reader_destroy,
    .open = s_reader_open,
    .read = s_reader_read,
    .clips = s_reader_clips,
};

//  The first picture of a GIF.

#include "plain_image.h"
#include <string.h>

enum { HEAD_BYTES = 13, PICTURE_BYTES = 9, CODE_BITS_MAX = 12, CODES = 1 << CODE_BITS_MAX };
static const char s_ends_early [] = "the file ends before its first picture does";

//  ---------------------------------------------------------------------------------------------------------
//  Opening: header -> blocks up to the first picture

//  A palette of 2 .. 256 colours at self->place.  Values beyond its end are black.  A palette that is a ramp
//  of grey changes nothing, as Pillow has it: values are themselves, or what the palette before says.
static bool
s_read_palette (plain_image_t *self, uint8_t flags)
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
        return s_ends_early;
    const uint8_t *head = self->bytes + self->place;
    self->box = (image_box_t) { plain_little (head + 2, 2), plain_little (head, 2),
        plain_little (head + 6, 2), plain_little (head + 4, 2) };
    self->is_interlaced = head [8] & 64;
    self->place += PICTURE_BYTES;
    if (head [8] & 128 && !s_read_palette (self, head [8]))
        return s_ends_early;
    if (self->place >= self->size)
        return s_ends_early;
    self->bits = self->bytes [self->place++];
    if (self->bits < 1 || self->bits > 8)
        return "its codes have no length that a GIF has";
    //  A picture that is larger than the screen makes that larger, as Pillow has it.
    uint32_t bottom = self->box.top + self->box.height, right = self->box.left + self->box.width;
    self->height = self->height > bottom? self->height: bottom;
    self->width = self->width > right? self->width: right;
    return self->box.height == 0 || self->box.width == 0? "its first picture is empty": NULL;
}

const char *
plain_gif_open (plain_image_t *self)
{
    if (self->size < HEAD_BYTES)
        return s_ends_early;
    self->width = plain_little (self->bytes + 6, 2);
    self->height = plain_little (self->bytes + 8, 2);
    self->has_values = true;
    self->place = HEAD_BYTES;
    plain_grey (self);
    if (self->bytes [10] & 128 && !s_read_palette (self, self->bytes [10]))
        return s_ends_early;
    while (self->place < self->size) {
        uint8_t block = self->bytes [self->place++];
        if (block == ',')
            return s_read_picture (self);
        if (block == ';')
            return "it has no picture";
        if (block == '!' && !s_read_extension (self))
            return s_ends_early;
    }
    return s_ends_early;
}

//  ---------------------------------------------------------------------------------------------------------
//  Decoding: blocks -> codes -> strings of values -> rows

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
s_next (codes_t *self, uint32_t bits)
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
s_put (codes_t *self, uint8_t value)
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
    bool has_room = s_put (self, first);
    for (; has_room && at < CODES; at++)
        has_room = s_put (self, string [at]);
    return first;
}

static const char *
s_decode (codes_t *self)
{
    const uint32_t clear = 1u << self->image->bits, end = clear + 1;
    uint32_t bits = self->image->bits + 1, next = end + 1;
    int old = -1;
    uint8_t first = 0;
    while (self->row < self->image->box.height) {
        int code = s_next (self, bits);
        if (code < 0)
            return s_ends_early;
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

const char *
plain_gif_decode (const plain_image_t *self, uint8_t *target)
{
    codes_t codes = { .image = self, .place = self->place, .target = target };
    if (self->around)
        memset (target, self->around, (size_t) self->height * self->width);
    return s_decode (&codes);
}

//  PBM, PGM and PPM, as text and as bytes: P1 .. P6.

#include "plain_image.h"
#include <math.h>
#include <string.h>

enum { TOKEN_MAX = 10, LARGEST = 65535 };
static const char s_ends_early [] = "the file ends before the image does";
static const char s_no_number [] = "there is something else where a number is expected";

static bool
s_is_space (uint8_t letter)
{
    return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

//  The next character that is not in a comment; -1: there is none.  A comment does not end a number, as
//  Pillow has it.
static int
s_next (const plain_image_t *self, size_t *place)
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
    int letter = s_next (self, place);
    while (letter >= 0 && s_is_space ((uint8_t) letter))
        letter = s_next (self, place);
    if (letter < 0)
        return s_ends_early;
    uint64_t number = 0;
    for (int digits = 0; letter >= 0 && !s_is_space ((uint8_t) letter); digits++) {
        if (letter < '0' || letter > '9' || digits >= TOKEN_MAX)
            return s_no_number;
        number = number * 10 + (uint64_t) (letter - '0');
        letter = s_next (self, place);
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

const char *
plain_pnm_open (plain_image_t *self)
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
    plain_grey (self);
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
        int letter = s_next (self, &place);
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

const char *
plain_pnm_decode (const plain_image_t *self, uint8_t *target)
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

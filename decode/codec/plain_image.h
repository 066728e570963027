/*  plain_image -- an image of a format that is read without a library: what its header says, and the three
 *  formats' two functions.
 *
 *  Each function returns NULL, or words for what is wrong with the file.  Untrusted bytes: whatever they are,
 *  time and memory are bounded by the file's size and the size of the image.
 *  Only for plain_reader.c and the files of the formats.
 */
#ifndef PLAIN_IMAGE_H
#define PLAIN_IMAGE_H
#include "image.h"

enum { PLAIN_VALUES = 256 };

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

//  bytes and size are set, all else is 0.
const char *plain_bmp_open (plain_image_t *self);
const char *plain_pnm_open (plain_image_t *self);
const char *plain_gif_open (plain_image_t *self);
//  All of the image, to target, which has room for it and holds zeros.
const char *plain_bmp_decode (const plain_image_t *self, uint8_t *target);
const char *plain_pnm_decode (const plain_image_t *self, uint8_t *target);
const char *plain_gif_decode (const plain_image_t *self, uint8_t *target);

static inline uint32_t
plain_little (const uint8_t *bytes, size_t count)
{
    uint32_t number = 0;
    while (count-- > 0)
        number = number << 8 | bytes [count];
    return number;
}

//  Values are grey.
static inline void
plain_grey (plain_image_t *self)
{
    for (int value = 0; value < PLAIN_VALUES; value++)
        for (int channel = 0; channel < IMAGE_COLOURS; channel++)
            self->colours [value] [channel] = (uint8_t) value;
}

#endif

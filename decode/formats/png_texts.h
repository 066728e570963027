/*  png_texts -- the two texts of a PNG that say how its image is turned, found where Pillow finds them: the
 *  XMP packet ("XML:com.adobe.xmp") and EXIF data in hexadecimal digits ("Raw profile type exif"), each in a
 *  chunk tEXt, zTXt or iTXt; of several the last.
 *
 *  Untrusted bytes: a text is inflated once, and up to PNG_TEXTS_BYTES_MAX, where Pillow ends too; one that
 *  is longer or damaged is none.
 *  Owner: one png_reader.
 */
#ifndef PNG_TEXTS_H
#define PNG_TEXTS_H
#include "image_request.h"

enum { PNG_TEXTS_BYTES_MAX = 1 << 20 };

typedef struct {
    //  What unpack found.  Lent until the next forget.
    image_block_t xmp;
    image_block_t exif;
    //  The texts as they stand in the file.
    struct { image_block_t text; bool is_deflated; } noted [2];
    scratch_t unpacked [2];
} png_texts_t;

//  Before a file's first chunk.
void png_texts_forget (png_texts_t *self);
//  Any chunk: its name and then its content of length bytes, which are lent until unpack.
void png_texts_note (png_texts_t *self, const uint8_t *name, size_t length);
//  After the last chunk: 0, or -ENOMEM.
int png_texts_unpack (png_texts_t *self) __attribute__ ((warn_unused_result));
void png_texts_free (png_texts_t *self);

#endif

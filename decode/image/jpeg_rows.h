/*  jpeg_rows -- where the rows of a JPEG begin in its coded data, so that a decoder need not read those
 *  before.
 *
 *  Huffman codes can be read from the scan's beginning only, because nothing says where another one begins,
 *  and because of each DC value only the difference to the block before is coded.  A *point* is both: a
 *  position in the scan, and the DC values before it.  There is one where each row of MCUs begins, and one
 *  every `step` MCUs in it.
 *
 *  Of an image without restart intervals.  docs/format.md draws the bytes: about 7 for each point.  They may
 *  come from anywhere: what is decoded lies inside the scan, in ascending order, and has the image's shape;
 *  whether it is of just this image cannot be seen.
 *  Any thread; no state.
 */
#ifndef JPEG_ROWS_H
#define JPEG_ROWS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JPEG_ROWS_VERSION = 1, JPEG_ROWS_COMPONENTS_MAX = 4 };

typedef struct {
    uint64_t bit;               //  from the scan's first byte in the file, stuffing included; the highest bit
                                //  of a byte comes first
    int32_t dc [JPEG_ROWS_COMPONENTS_MAX];      //  by component: of the last block before
} jpeg_point_t;

//  The image, in MCUs.
typedef struct {
    size_t columns;
    size_t rows;
    unsigned components;
    size_t scan_bytes;          //  in the file, from its first byte to at least its last
} jpeg_rows_image_t;

typedef struct {
    size_t step;                //  MCUs from one point to the next in a row
    size_t row_points;
    size_t points;              //  of the image
} jpeg_rows_shape_t;

//  With one point for each row's `step` MCUs; step at most image->columns.
jpeg_rows_shape_t jpeg_rows_shape_of (const jpeg_rows_image_t *image, size_t step);

//  The bytes of so many points take at most this.
size_t jpeg_rows_bytes_max (const jpeg_rows_image_t *image, const jpeg_rows_shape_t *shape);
//  Writes them to target; returns how many.
size_t jpeg_rows_encode (const jpeg_rows_image_t *image, const jpeg_rows_shape_t *shape,
    const jpeg_point_t *points, uint8_t *target);

//  How many points the bytes have, at most as many as there are bytes.  False: they are of no such image, or
//  of a later version, or there are none.
bool jpeg_rows_shape (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image,
    jpeg_rows_shape_t *shape);
//  The points, after jpeg_rows_shape.  False: the bytes are of no such image.
bool jpeg_rows_decode (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image,
    jpeg_point_t *points);

#endif

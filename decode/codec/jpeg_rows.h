/*  jpeg_rows -- where the rows of a JPEG begin in its coded data, so that a decoder need not read those
 *  before.
 *
 *  Huffman codes can be read from the scan's beginning only, because nothing says where another one begins,
 *  and because of each DC value only the difference to the block before is coded.  A *point* is both: a
 *  position in the scan, and the DC values before it.  There is one where each row of MCUs begins, and one
 *  every `step` MCUs in it; of an image that was read in part, the first of them are known.
 *
 *  For images without restart intervals.  docs/format.md draws the bytes: about 7 for each point.  They may
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

//  A point for about each KiB of the scan, at least one for each row.
jpeg_rows_shape_t jpeg_rows_shape_of (const jpeg_rows_image_t *image);

//  The bytes of so many points take at most this.
size_t jpeg_rows_bytes_max (const jpeg_rows_image_t *image, size_t points);
//  Writes the first `count` points of an image to target; returns how many bytes.
size_t jpeg_rows_encode (const jpeg_rows_image_t *image, const jpeg_rows_shape_t *shape,
    const jpeg_point_t *points, size_t count, uint8_t *target);

//  How the bytes' points stand in the image.  False: they are of no such image, or of a later version, or
//  there are none.
bool jpeg_rows_shape (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image,
    jpeg_rows_shape_t *shape);
//  After jpeg_rows_shape, the points, with room for all of the image: how many there are; 0: the bytes are of
//  no such image.
size_t jpeg_rows_decode (const uint8_t *bytes, size_t size, const jpeg_rows_image_t *image,
    jpeg_point_t *points);

#endif

/*  jpeg_recode -- the coded data of a JPEG once more, bit by bit, from its coefficients and what stands
 *  around its scans.
 *
 *  Huffman coding leaves an encoder little freedom: with the same tables nearly every one writes the same
 *  bits (ITU-T T.81, F.1.2 and G.1.2).  Whether this one did is for the caller to see.
 *
 *  Only for files of decode/.  Owner: one thread.
 */
#ifndef JPEG_RECODE_H
#define JPEG_RECODE_H
#include "decode_limits.h"
#include "jpeg_output.h"

typedef struct {
    jpeg_trouble_t *trouble;
    jpeg_coefficients_t *coefficients;      //  lent
    jpeg_coefficients_t header;
    struct jpeg_compress_struct writer;
    jpeg_scan_info script [DECODER_SCANS_MAX];
    int script_count;
} jpeg_recode_t;

//  self is all zero.  Behind what is in output there is going to be a JPEG; the writer has the tables of
//  Annex K by now.
void jpeg_recode_open (jpeg_recode_t *self, jpeg_output_t *output, jpeg_coefficients_t *coefficients);
//  Writes it.  around: the other file without coded data and metadata, up to its end.  With the tables that
//  it has before its first scan, or with such as libjpeg finds best for each scan; progressive files have
//  only the latter.
void jpeg_recode_write (jpeg_recode_t *self, const uint8_t *around, size_t around_bytes, bool is_optimal);
void jpeg_recode_free (jpeg_recode_t *self);

#endif

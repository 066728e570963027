/*  jpeg_output -- bytes that grow, and that libjpeg writes a file behind.
 *
 *  Lack of memory leaves through the trouble (jpeg_coefficients.h).  Only for files of decode/.  Owner: one
 *  thread.
 */
#ifndef JPEG_OUTPUT_H
#define JPEG_OUTPUT_H
#include "jpeg_coefficients.h"

typedef struct {
    struct jpeg_destination_mgr target;     //  first: libjpeg knows only this
    jpeg_trouble_t *trouble;
    uint8_t *bytes;                         //  the owner frees them
    size_t size;
    size_t room;
    size_t size_max;                        //  no more room is made; 0: any
} jpeg_output_t;

//  self is all zero, or has been used for another file before, whose bytes are dropped.
void jpeg_output_begin (jpeg_output_t *self, jpeg_trouble_t *trouble);
//  Room for so many bytes more, which the caller fills: where they are, until the next call.
uint8_t *jpeg_output_extend (jpeg_output_t *self, size_t count);
void jpeg_output_append (jpeg_output_t *self, const uint8_t *bytes, size_t count);

//  Where writer, which is all zero or of another file before, writes to: behind what is there.  The same
//  components, quantisation and sampling as the coefficients; no marker with metadata of libjpeg's own.
void jpeg_output_open (jpeg_output_t *self, struct jpeg_compress_struct *writer,
    jpeg_coefficients_t *coefficients);

#endif

/*  jpeg_coefficients -- what a JPEG is made of, before it becomes pixels: read from bytes, and compared.
 *
 *  libjpeg's complaints, warnings among them, leave by longjmp through a trouble, which several of libjpeg's
 *  objects share.
 *  Only for files of decode/.  Owner: one thread.
 */
#ifndef JPEG_COEFFICIENTS_H
#define JPEG_COEFFICIENTS_H
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jpeglib.h>

//  Where complaints go: rc and error are set, and escape is taken.
typedef struct {
    struct jpeg_error_mgr manager;      //  first: libjpeg knows only this
    jmp_buf escape;
    int rc;
    char *error;
    size_t error_bytes;
} jpeg_trouble_t;

typedef struct {
    struct jpeg_decompress_struct info;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jvirt_barray_ptr *arrays;           //  one of each component
} jpeg_coefficients_t;

//  error_bytes > 0.
void jpeg_trouble_init (jpeg_trouble_t *self, char *error, size_t error_bytes);
//  Takes the escape.
_Noreturn void jpeg_trouble (jpeg_trouble_t *self, int rc, const char *text);

//  Its header, up to the first scan; nothing but that is looked at.  What it leaves behind is for
//  jpeg_coefficients_free, too.
void jpeg_coefficients_open (jpeg_coefficients_t *self, jpeg_trouble_t *trouble, const uint8_t *bytes,
    size_t size);
//  The same, and it complains of what its header already says cannot be tiled, and of more pixels.
void jpeg_coefficients_begin (jpeg_coefficients_t *self, jpeg_trouble_t *trouble, const uint8_t *bytes,
    size_t size, uint64_t pixels_max);
//  How many bytes all its coefficients take, of an open one.
uint64_t jpeg_coefficients_memory (const jpeg_coefficients_t *self);
//  All coefficients of a file of at most pixels_max pixels.  Complains of whatever is not whole or cannot be
//  tiled; what it leaves behind, then too, is for jpeg_coefficients_free, which takes zeros as well.
void jpeg_coefficients_read (jpeg_coefficients_t *self, jpeg_trouble_t *trouble, const uint8_t *bytes,
    size_t size, uint64_t pixels_max);
void jpeg_coefficients_free (jpeg_coefficients_t *self);

//  Whether both mean the same pixels; else *what_p (static) says what differs.
bool jpeg_coefficients_same (jpeg_coefficients_t *one, jpeg_coefficients_t *other, const char **what_p);

#endif

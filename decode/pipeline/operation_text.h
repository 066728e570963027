/*  operation_text -- writes canonical text: what operation_write puts together, piece by piece.
 *
 *  All that is written fits into OPERATION_TEXT_BYTES_MAX, or it is our bug.
 */
#ifndef OPERATION_TEXT_H
#define OPERATION_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include "pipeline.h"

typedef struct {
    char *text;
    size_t length;
    const pipeline_source_t *source;    //  its fields are named
} operation_text_t;

void operation_text_put (operation_text_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
//  The shortest decimal that reads back as the same double (is_float: the same float).
void operation_text_number (operation_text_t *self, double number, bool is_float);
//  ,"key":[a,b]
void operation_text_pair (operation_text_t *self, const char *key, const double pair [2]);
//  ,"key":true
void operation_text_flag (operation_text_t *self, const char *key, bool flag);

#endif

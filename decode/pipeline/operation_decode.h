/*  operation_decode -- what stands at the beginning of a list: decode with its four kinds of samples, and
 *  excerpt.
 *
 *  Rows of operation.c's table; no other file calls them.
 */
#ifndef OPERATION_DECODE_H
#define OPERATION_DECODE_H
#include "operation_keys.h"
#include "operation_text.h"

//  decode checks for unknown keys itself: which there are depends on "as".
int operation_decode_parse (operation_t *self, const operation_keys_t *keys);
void operation_decode_write (const operation_t *self, operation_text_t *text);
int operation_excerpt_parse (operation_t *self, const operation_keys_t *keys);
void operation_excerpt_write (const operation_t *self, operation_text_t *text);

#endif

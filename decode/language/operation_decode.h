/*  operation_decode -- the operation at the beginning of a list: decode, with its four kinds of samples.
 *
 *  A row of operation.c's table; no other file calls it.
 */
#ifndef OPERATION_DECODE_H
#define OPERATION_DECODE_H
#include "operation.h"

//  decode checks for unknown keys itself: which there are depends on "as".
int operation_decode_parse (operation_t *self, const entry_t *entry);
void operation_decode_write (const operation_t *self, entry_text_t *text);

#endif

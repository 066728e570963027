/*  operation_blur -- parses and writes the two Gaussian blurs.  Called by operation.c's table alone.  */
#ifndef OPERATION_BLUR_H
#define OPERATION_BLUR_H
#include "operation_keys.h"
#include "operation_text.h"

int operation_blur_parse (operation_t *self, const operation_keys_t *keys);
void operation_blur_write (const operation_t *self, operation_text_t *text);
int operation_blur_parse_pillow (operation_t *self, const operation_keys_t *keys);
void operation_blur_write_pillow (const operation_t *self, operation_text_t *text);

#endif

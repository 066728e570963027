/*  operation_augment -- parses and writes the augmentation policies.
 *
 *  Rows of operation.c's table.
 */
#ifndef OPERATION_AUGMENT_H
#define OPERATION_AUGMENT_H
#include "operation_keys.h"
#include "operation_text.h"

int operation_augment_parse_random (operation_t *self, const operation_keys_t *keys);
void operation_augment_write_random (const operation_t *self, operation_text_t *text);
int operation_augment_parse_trivial (operation_t *self, const operation_keys_t *keys);
void operation_augment_write_trivial (const operation_t *self, operation_text_t *text);
int operation_augment_parse_auto (operation_t *self, const operation_keys_t *keys);
void operation_augment_write_auto (const operation_t *self, operation_text_t *text);
int operation_augment_parse_mix (operation_t *self, const operation_keys_t *keys);
void operation_augment_write_mix (const operation_t *self, operation_text_t *text);

#endif

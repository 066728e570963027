/*  operation_custom -- the keys and the canonical text of {"op": "custom"}: an operation of the operator's
 *  own, by its name.
 */
#ifndef OPERATION_CUSTOM_H
#define OPERATION_CUSTOM_H
#include "operation_keys.h"
#include "operation_text.h"

int operation_custom_parse (operation_t *self, const operation_keys_t *keys);
void operation_custom_write (const operation_t *self, operation_text_t *text);

#endif

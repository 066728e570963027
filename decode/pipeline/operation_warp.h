/*  operation_warp -- parses and writes the operations that turn, shear, scale and bend an image.
 *
 *  Rows of operation.c's table.
 */
#ifndef OPERATION_WARP_H
#define OPERATION_WARP_H
#include "operation_keys.h"
#include "operation_text.h"

//  "interpolation", "fill" and "mask_fill": how a map fills its result.
int operation_warp_parse_edge (operation_t *self, const operation_keys_t *keys);
void operation_warp_write_edge (const operation_t *self, operation_text_t *text);

int operation_warp_parse_rotation (operation_t *self, const operation_keys_t *keys);
void operation_warp_write_rotation (const operation_t *self, operation_text_t *text);
int operation_warp_parse_perspective (operation_t *self, const operation_keys_t *keys);
void operation_warp_write_perspective (const operation_t *self, operation_text_t *text);
int operation_warp_parse_elastic (operation_t *self, const operation_keys_t *keys);
void operation_warp_write_elastic (const operation_t *self, operation_text_t *text);
int operation_warp_parse_affine (operation_t *self, const operation_keys_t *keys);
void operation_warp_write_affine (const operation_t *self, operation_text_t *text);
//  Whether some range has room between its ends, or elastic_transform moves anything.
bool operation_warp_is_random (const operation_t *self);

#endif

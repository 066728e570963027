/*  operation_colour -- parses and writes the operations that change colours and leave every pixel in its
 *  place.
 *
 *  Rows of operation.c's table.
 */
#ifndef OPERATION_COLOUR_H
#define OPERATION_COLOUR_H
#include "operation_keys.h"
#include "operation_text.h"

int operation_colour_parse_jitter (operation_t *self, const operation_keys_t *keys);
void operation_colour_write_jitter (const operation_t *self, operation_text_t *text);
//  Random are the order of two steps, and a factor with room between least and most.
bool operation_colour_jitter_is_random (const operation_t *self);
int operation_colour_parse_grayscale (operation_t *self, const operation_keys_t *keys);
void operation_colour_write_grayscale (const operation_t *self, operation_text_t *text);

//  Of invert, autocontrast and equalize.
int operation_colour_parse_point (operation_t *self, const operation_keys_t *keys);
void operation_colour_write_point (const operation_t *self, operation_text_t *text);
int operation_colour_parse_posterize (operation_t *self, const operation_keys_t *keys);
void operation_colour_write_posterize (const operation_t *self, operation_text_t *text);
int operation_colour_parse_solarize (operation_t *self, const operation_keys_t *keys);
void operation_colour_write_solarize (const operation_t *self, operation_text_t *text);
int operation_colour_parse_sharpness (operation_t *self, const operation_keys_t *keys);
void operation_colour_write_sharpness (const operation_t *self, operation_text_t *text);

#endif

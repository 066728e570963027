/*  operation_group -- parses and writes the operations that are about those behind them: random_apply,
 *  random_choice, random_order.
 *
 *  A group has parts, each of so many operations; they stand behind it, part by part.  A group may stand in
 *  a part of another, with all that it is about.
 */
#ifndef OPERATION_GROUP_H
#define OPERATION_GROUP_H
#include "operation_keys.h"
#include "operation_text.h"

int operation_group_parse_apply (operation_t *self, const operation_keys_t *keys);
void operation_group_write_apply (const operation_t *self, operation_text_t *text);
int operation_group_parse_choice (operation_t *self, const operation_keys_t *keys);
void operation_group_write_choice (const operation_t *self, operation_text_t *text);
int operation_group_parse_order (operation_t *self, const operation_keys_t *keys);
void operation_group_write_order (const operation_t *self, operation_text_t *text);

//  Whether it is one of the three.
bool operation_group_is (const operation_t *self);
//  Of any operation: how many behind it it is about.
size_t operation_group_span (const operation_t *self);
//  Of a choice or an order: whether chance has more than one way.
bool operation_group_is_random (const operation_t *self);

#endif

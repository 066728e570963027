/*  chosen -- which operations of a list chance leaves to a sample, and in which order: random_apply,
 *  random_choice and random_order.
 *
 *  Every operation draws its own numbers from its place in the list, wherever these put it.
 *  Pure functions; any thread.
 */
#ifndef CHOSEN_H
#define CHOSEN_H
#include "keyed_random.h"
#include "operation.h"

//  Indices in the list, groups among them before what they are about.
typedef struct {
    uint8_t operations [PIPELINE_OPERATIONS_MAX];
    size_t count;
} chosen_t;

//  Of [begin, end), which no group crosses, in a view.
chosen_t chosen_draw (const operation_t *operations, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view);
//  The draw of a random_choice: its part.
uint32_t chosen_part (const operation_t *choice, keyed_random_t *random);
//  The draws of a random_order: its parts in their order; a draw takes one of those that are left.
void chosen_order (const operation_t *order, keyed_random_t *random, uint32_t parts [GROUP_PARTS_MAX]);

#endif

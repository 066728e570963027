/*  state -- the state of a job, as docs/state.md has it: read, checked, written; and the states of all nodes
 *  of a job merged (tureen_merge_states).
 *
 *  Input is foreign: bounded, validated with a reason, then used.  The text of a state has no secrets and no
 *  pointers; this client and the Python client read each other's states.
 */
#ifndef STATE_H
#define STATE_H
#include "message.h"
#include "position.h"
#include "tureen.h"
#include "wire.h"

enum { STATE_VERSION = 1, STATE_TEXT_BYTES = 256 };

//  Which part of the epoch a state is of, in a job over several nodes.
typedef struct {
    uint32_t nodes;                     //  0: none: the state is that of the whole job
    uint32_t node;
    tureen_parts_t parts;
    position_cut_t cut;
} state_part_t;

typedef struct {
    char dataset [STATE_TEXT_BYTES];
    char fingerprint [STATE_TEXT_BYTES];
    char data [WIRE_DATA_BYTES + 1];
    char run [WIRE_RUN_BYTES + 1];
    uint64_t samples;                   //  of the data set
    tureen_order_t order;               //  none but the four
    uint64_t seed;
    uint32_t pool;
    uint64_t epoch;
    uint64_t batches;
    position_taken_t taken;
    state_part_t part;
} state_t;

//  True and *self filled, for state_clear; false: error says what is wrong with the text, and nothing is to
//  be cleared.
bool state_read (state_t *self, const char *text, message_error_t *error) TUREEN_CHECKED;
//  The text, malloc'ed; NULL: no memory, or a text in it that is no UTF-8.
char *state_write (const state_t *self) TUREEN_CHECKED;
void state_clear (state_t *self);

//  The name of an order, as JOIN and the state have it.
const char *state_order_name (tureen_order_t order);
//  Likewise of parts.
const char *state_parts_name (tureen_parts_t parts);

#endif

/*  window -- what one joining gave: the ring, and as many batches as it has slots.  A rank may get some more,
 *  in no slot: the steps that it lacks from before its coming.
 *
 *  A loader that joins again gets a new one; the old one stays until the last of its batches, received
 *  before, is released.
 *  The ring's socket stays open with it: a living server would take its end for the client's, and empty the
 *  ring.
 *
 *  Invariants, under the handover's mutex:
 *    W1  used counts the batches that are QUEUED or GIVEN.
 *    W2  released <= consumed, in the numbers of this joining; neither goes back.
 *    W3  a window that is retired and not used is destroyed.
 */
#ifndef WINDOW_H
#define WINDOW_H
#include <stdbool.h>
#include <stdint.h>
#include "attach.h"
#include "batch.h"
#include "message.h"

typedef struct window window_t;

//  Batches in no slot that are in use at a time.  A server sends no more than a window's worth and a few.
enum { WINDOW_LOOSE_MAX = 2 * WIRE_SLOTS_MAX };

struct window {
    uint32_t magic;
    //  Set at birth.
    message_joined_t *joined;
    bool lends_joined;                  //  the handover keeps it
    attach_t *attach;                   //  NULL: inline
    uint64_t sequence_base;             //  how many of the loader's batches came before this window's first
    uint32_t slots;
    uint64_t *ids;                      //  of all batches
    tureen_batch_t batches [WIRE_SLOTS_MAX];
    //  The courier's.
    tureen_batch_t *loose [WINDOW_LOOSE_MAX];   //  each with its ids behind it
    size_t loose_count;
    //  Shared, under the handover's mutex.
    bool retired;
    uint32_t used;
    uint64_t consumed;                  //  as PROGRESS has it
    uint64_t looked;                    //  `consumed` as the courier last saw it
    uint64_t released;
    window_t *next;                     //  among the retired
};

//  Takes over *joined_p and *attach_p (NULL inside: none).  base: the ring's first byte, NULL: inline.  NULL:
//  no memory, and both are still the caller's.
window_t *window_new (handover_t *handover, message_joined_t **joined_p, attach_t **attach_p, uint8_t *base,
    uint64_t sequence_base);
void window_destroy (window_t **self_p);

//  The batch of that slot, or a new one for WIRE_SLOT_NONE; NULL: it is not free, or no memory.
tureen_batch_t *window_free (window_t *self, uint32_t slot);

//  The bits of batches in slots that the user still has although a later one was released.
uint64_t window_kept (const window_t *self);

#endif

/*  batch -- one batch of the window: where its ids and bytes are.  handover.h says which thread may touch it
 *  at which time.
 */
#ifndef BATCH_H
#define BATCH_H
#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>
#include "handover.h"
#include "tureen.h"
#include "wire.h"

#define BATCH_MAGIC 0x42544348u         //  while GIVEN
#define BATCH_MAGIC_IDLE 0x62746368u    //  while FREE or QUEUED: the user must not use it

struct window;

typedef enum { BATCH_FREE, BATCH_QUEUED, BATCH_GIVEN } batch_state_t;

struct tureen_batch {
    uint32_t magic;
    batch_state_t state;                //  under the handover's mutex
    //  Set when the job is joined.
    handover_t *handover;
    struct window *window;              //  the window that it belongs to
    const tureen_info_t *info;
    uint64_t *ids;                      //  room for batch_size
    uint64_t *step;                     //  room for the ids of all ranks; with one rank: ids
    uint8_t *ring;                      //  this slot's; NULL: inline, or in no slot
    size_t slot_bytes;
    //  Set by batch_fill.
    wire_batch_t head;                  //  its sequence is the window's
    size_t step_count;
    uint64_t sequence;                  //  the loader's
    uint8_t *data;
    uint8_t *copy;                      //  inline, if the message is not aligned
    zmq_msg_t message;                  //  inline; else empty
};

//  How many ids a batch needs room for.
size_t batch_room (const tureen_info_t *info);
//  Makes a FREE batch of zeroed memory; ring and ids (batch_room of them) are lent.
void batch_init (tureen_batch_t *self, handover_t *handover, struct window *window,
    const message_joined_t *joined, uint64_t *ids, uint8_t *ring);
//  Fills a FREE batch; payload (NULL for the ring) is moved from.  False: no memory for a copy, and nothing
//  is changed.
bool batch_fill (tureen_batch_t *self, const message_batch_t *from, zmq_msg_t *payload);
//  Drops what the batch owns of its message.
void batch_clear (tureen_batch_t *self);

#endif

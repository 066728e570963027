/*  peer_patience -- how long a question to another member is waited for: some times as long as questions
 *  usually take, within bounds.
 *
 *  Where all members are slow, as with empty caches, patience grows: a question that was given up counts as
 *  twice what is usual.  Not as the time that it was waited for: a member that loses every second answer
 *  would make patience grow for ever.
 *
 *  Times are nanoseconds, of a clock that stands still while the owner does not look (clock.h).
 *  Owner: one thread.  No errors.
 */
#ifndef PEER_PATIENCE_H
#define PEER_PATIENCE_H
#include <stdint.h>

typedef struct {
    uint64_t typical_ns;                //  from a question to its answer: a mean that fades
    uint64_t store_ns;                  //  the same of reads of the store; 0: there was none
} peer_patience_t;

peer_patience_t peer_patience_new (void);
//  A question was answered after so long.
void peer_patience_learn (peer_patience_t *self, uint64_t nanoseconds);
//  One was given up; nothing changes where it is at its bound.
void peer_patience_grow (peer_patience_t *self);
//  A read of the store took so long.
void peer_patience_learn_store (peer_patience_t *self, uint64_t nanoseconds);
//  How long a question may take: FACTOR times as long as others, or STORE_FACTOR times as long as this server
//  needs for a read of the store, since a home that does not have the bytes reads them there too.
uint64_t peer_patience_ns (const peer_patience_t *self);

#endif

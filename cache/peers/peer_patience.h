/*  peer_patience -- how long a question to another member is waited for: some times as long as questions
 *  usually take, within bounds.
 *
 *  Where all members are slow, as with empty caches, patience grows: a question that was given up counts as
 *  twice what is usual.  Not as the time that it was waited for: a member that loses every second answer
 *  would make patience grow for ever.
 *
 *  It has a clock of its own, which counts only the time in which the owner looked: a pause counts as no
 *  longer than the owner meant to wait.  If the owner's thread stands still, answers lie unread, and that is
 *  no fault of the members that sent them.
 *
 *  Times are nanoseconds.  Owner: one thread.  No errors.
 */
#ifndef PEER_PATIENCE_H
#define PEER_PATIENCE_H
#include <stdint.h>

typedef struct {
    uint64_t now_ns;                    //  of its own clock
    uint64_t seen_ns;                   //  of the system's clock, when the owner looked last
    uint64_t typical_ns;                //  from a question to its answer: a mean that fades
    uint64_t store_ns;                  //  the same of reads of the store; 0: there was none
} peer_patience_t;

void peer_patience_begin (peer_patience_t *self, uint64_t system_ns);
//  The owner looks, having meant to wait at most so long since it did before.
void peer_patience_look (peer_patience_t *self, uint64_t system_ns, uint64_t pause_ns);
//  A question was answered after so long.
void peer_patience_learn (peer_patience_t *self, uint64_t nanoseconds);
//  One was given up.
void peer_patience_grow (peer_patience_t *self);
//  A read of the store took so long.
void peer_patience_learn_store (peer_patience_t *self, uint64_t nanoseconds);
//  How long a question may take: FACTOR times as long as others, or STORE_FACTOR times as long as this server
//  needs for a read of the store, since a home that does not have the bytes reads them there too.
uint64_t peer_patience_ns (const peer_patience_t *self);

#endif

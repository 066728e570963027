/*  peers -- a reader's view of the other members: which one is the home of a block, asking it, and doing what
 *  the own peer server asks for.
 *
 *  happy path:     peers_choose says PEERS_PEER .. peers_ask .. peers_descriptors readable .. peers_take
 *                  (is_answered, the bytes are there)
 *  failure modes:  a question that gets no bytes comes back with is_answered false: the store is to be read.
 *                  So does one that takes far longer than others (peers_timeout_t).
 *                  A member that answers nothing for SILENT_MS, or to which no question can be sent, is away:
 *                  it is pinged, and its blocks come from the store.  After AWAY_MS its blocks have other
 *                  homes.  Where questions were given up, a pong does not bring it back: it has to answer
 *                  one of them.
 *  The choice:     the home, unless it would take more than PREFERENCE times as long as the store and more
 *                  than SOON_SECONDS, which reading ahead covers (peers_meter_t; docs/cluster_cache.md says
 *                  why not simply the quicker one).
 *  Owner: the reader's thread.
 */
#ifndef PEERS_H
#define PEERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cluster.h"

typedef struct peers peers_t;

enum { PEERS_QUESTIONS_MAX = 256 };

typedef enum {
    PEERS_HERE,                     //  this server is the home: what is read of the store is to be kept
    PEERS_BEFORE,                   //  so it is, perhaps since a little while: ask the home before, and keep
                                    //  what it gives, or else what is read of the store
    PEERS_PEER,                     //  ask
    PEERS_STORE                     //  read the store, and keep nothing
} peers_way_t;

//  Some units of a block.
typedef struct peer_question {
    size_t data;                    //  peers_data
    uint64_t object, offset;
    size_t bytes;
    uint8_t *memory;                //  of the caller until it is taken or dropped
    void *user;
    //  the answer
    bool is_answered;
    uint64_t nanoseconds;           //  from the question to the answer
    //  the reader's
    uint64_t number, began_ns;
    size_t member;
    bool is_before;
} peer_question_t;

//  store: store_name.  NULL with errno.
peers_t *peers_new (cluster_t *cluster, const char *store);
void peers_destroy (peers_t **self_p);
//  The data set's place in the cluster; SIZE_MAX: it is not kept in common.
size_t peers_data (const peers_t *self, const block_data_t *blocks);

//  Descriptors of which one is readable when there may be something to take, or to fetch; returns how many.
enum { PEERS_DESCRIPTORS_MAX = MEMBERS_MAX + 1 };
size_t peers_descriptors (const peers_t *self, int descriptors [PEERS_DESCRIPTORS_MAX]);
//  How long that may be waited for, called just before; below 0: without a limit.
int peers_patience_ms (peers_t *self);

//  By which way `bytes` of this block (its number in the address space) should come; PEERS_PEER and
//  PEERS_BEFORE: member is set in the question, for peers_ask.
peers_way_t peers_choose (peers_t *self, size_t data, uint64_t block, size_t bytes,
    peer_question_t *question);
//  At most PEERS_QUESTIONS_MAX at once.  False: it cannot be asked now, and the store is to be read.
bool peers_ask (peers_t *self, peer_question_t *question);
//  One that is done, NULL: none.  Never waits.
peer_question_t *peers_take (peers_t *self);
//  Gives up a question that was asked and not taken.
void peers_drop (peers_t *self, const peer_question_t *question);
//  Removes a block from the cache on the local disk that has another home now, if there is one.  None while
//  the cache is aside.
bool peers_make_room (peers_t *self, size_t data);
//  These bytes turned out damaged: their home, if it is another member, drops them.
void peers_renew (peers_t *self, size_t data, uint64_t object, uint64_t offset, size_t bytes);
//  A read of the store begins; it has ended after so long, and so much came: for the choice, and for how long
//  a member may take that reads the store itself.
void peers_store_begin (peers_t *self, size_t bytes);
void peers_store_end (peers_t *self, size_t begun, size_t came, uint64_t nanoseconds);

//  What the own peer server wants fetched; NULL: nothing.
cluster_fetch_t *peers_next_fetch (peers_t *self);
//  It is done.
void peers_fetched (peers_t *self, cluster_fetch_t *fetch, peer_reason_t reason);
//  Any thread: the member with this name as the reader knows it; false: it does not.
bool peers_look (peers_t *self, const char *name, peer_state_t *state, peer_figures_t *figures);


//  ---- how long a read and a question take: for peers.c and tests.  Plain data; one owner; no errors.

//  How long one more read by some way would take: bytes under way, over the rate measured.  A way is the
//  store, or a peer.  Its rate is what came over the time in which something was under way, and recent
//  seconds weigh most.  The reader's own queue is in the prediction: a way that looks quick but has a long
//  queue is not (docs/cluster_cache.md).  { 0 } at first.
typedef struct {
    uint64_t queued;                //  bytes under way
    uint64_t busy_since_ns;         //  since the last byte counted; if something is under way
    double bytes, seconds;          //  that came, and the busy time for them; both fade
} peers_meter_t;

void peers_meter_begin (peers_meter_t *self, uint64_t bytes, uint64_t now_ns);
//  What was begun has ended, and so many bytes of it came.
void peers_meter_end (peers_meter_t *self, uint64_t begun, uint64_t came, uint64_t now_ns);
//  Seconds until so many more bytes would be here; 0: nothing was measured yet.
double peers_meter_predict (const peers_meter_t *self, uint64_t bytes, uint64_t now_ns);
//  Nothing is known of it any more.
void peers_meter_forget (peers_meter_t *self);

//  How long a question to another member may take: some times as long as questions usually take, within
//  bounds.  Where all members are slow, as with empty caches, the timeout grows: a question that was given up
//  counts as twice what is usual.  Not as the time that it was waited for: a member that loses every second
//  answer would make the timeout grow for ever.  Times are of a clock that stands still while the owner does
//  not look (clock.h).
typedef struct {
    uint64_t typical_ns;            //  from a question to its answer: a mean that fades
    uint64_t store_ns;              //  the same of reads of the store; 0: there was none
} peers_timeout_t;

peers_timeout_t peers_timeout_new (void);
//  A question was answered after so long.
void peers_timeout_learn (peers_timeout_t *self, uint64_t nanoseconds);
//  One was given up; nothing changes where it is at its bound.
void peers_timeout_grow (peers_timeout_t *self);
//  A read of the store took so long.
void peers_timeout_learn_store (peers_timeout_t *self, uint64_t nanoseconds);
//  How long a question may take: FACTOR times as long as others, or STORE_FACTOR times as long as this server
//  needs for a read of the store, since a home that does not have the bytes reads them there too.
uint64_t peers_timeout_ns (const peers_timeout_t *self);

#endif

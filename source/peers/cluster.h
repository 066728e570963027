/*  cluster -- this server among those that keep blocks of stores for each other (docs/cluster_cache.md).
 *
 *  Each block of a data set's address space (block_data.h) has one home among the members (homes.h).  A
 *  reader (peers.h) that needs a block asks its home.  The home's peer server (cluster.c) gives it from its
 *  pins (pins.h) and the cache on its local disk, or has its own reader fetch it from the store first, once
 *  for all.  Here is what the peer server and the readers of one server share: the members, the data sets,
 *  the keys, and the messages between servers.
 *
 *  happy path:     cluster_new .. cluster_add .. peers_new, by each store's reader .. cluster_start ..
 *                  cluster_stop .. peers_destroy .. cluster_destroy
 *  failure modes:  none to a job: what no peer gives comes from the store.
 *
 *  Threads: one makes and ends it; what readers call is said there.
 */
#ifndef CLUSTER_H
#define CLUSTER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "block_data.h"
#include "exchange.h"
#include "members.h"
#include "pins.h"

struct catalogue;
typedef struct cluster cluster_t;

//  ---- messages between servers

//  A question is one frame, peer_question_frame_t.  An answer is a frame, peer_answer_frame_t, and behind a
//  PEER_BYTES two more: a checksum of 32 bits for each unit (block_data.h), and the bytes.  The member that
//  asked checks them, so a home does not look at what it gives.  Little-endian.
//
//      GET     asks the home of a block for some units of it           -> BYTES, or NO with a reason
//      PING    asks whether the server is there                        -> PONG
//      RENEW   says that some units turned out damaged: the home drops them.  No answer.
//
//  An object has a number within its data set: of a pack its volume, of single objects the sample's id.

enum {
    PEER_WIRE_MAGIC = 0x72505554,       //  "TUPr"
    PEER_WIRE_VERSION = 1,
    PEER_BLOCK_BYTES = 4 * 1024 * 1024  //  of a data set's address space (block_data.h); has one home
};

typedef enum { PEER_GET = 1, PEER_PING, PEER_RENEW } peer_question_kind_t;
typedef enum { PEER_BYTES = 1, PEER_NO, PEER_PONG } peer_answer_kind_t;

//  Why a home gives nothing.  All mean that the store is to be asked.
typedef enum {
    PEER_REASON_NONE,
    PEER_REASON_BUSY,                   //  it has enough questions
    PEER_REASON_FULL,                   //  it does not have them, and has no room to keep them
    PEER_REASON_NOT_HOME,               //  nor is it their home, as it sees the members
    PEER_REASON_UNKNOWN_DATA,           //  it does not serve the data set, or has another version of it
    PEER_REASON_FAILED,                 //  the store did not give them to it
    PEER_REASON_INVALID,                //  the question makes no sense
    PEER_REASONS
} peer_reason_t;

typedef struct {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t number;                    //  chosen by the asking member; comes back
    uint64_t key [2];                   //  of the data set
    uint64_t object, offset, bytes;     //  bytes: at most PEER_BLOCK_BYTES
} peer_question_frame_t;

typedef struct {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t number;
    uint32_t reason, zero;
} peer_answer_frame_t;

_Static_assert (sizeof (peer_question_frame_t) == 56, "no padding");
_Static_assert (sizeof (peer_answer_frame_t) == 24, "no padding");

//  Whether the frame is a question, or an answer, of this version; then it is in *question or *answer.  Any
//  thread.
bool cluster_read_question (const void *frame, size_t size, peer_question_frame_t *question);
bool cluster_read_answer (const void *frame, size_t size, peer_answer_frame_t *answer);


//  ---- the cluster

//  A pack, or a field of single objects.
typedef struct {
    const block_data_t *blocks;     //  where it is kept here; lent; its key tells members which data it is
    const char *store;              //  store_name, lent: the reader that fetches it
    uint64_t objects;               //  how many; an object's number is below
    //  Where the object begins in the address space, and its size.  Any thread.
    void (*find) (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes);
    const void *context;
    uint32_t first_file;            //  of a pack: the reader's number of the first volume; the others follow
    const struct catalogue *catalogue;          //  of single objects; NULL: a pack
    size_t field;
    pins_data_t *pins;              //  where its objects are pinned; lent until cluster_stop; NULL: nowhere
    uint64_t first_pinned;          //  the pins' number of its first object; the others follow
} cluster_data_t;

typedef struct {
    members_t *members;             //  lent
    const char *name;               //  HOST:PORT of this server; lent for the call
    const char *public_key, *secret_key;        //  Z85, of all members; lent for the call; NULL: no
                                                //  encryption, and only this machine's own members
} cluster_options_t;

enum { CLUSTER_KEY_CHARS = 40 };
enum { CLUSTER_FETCHES_MAX = 16 };      //  at once

//  What the peer server asks of a reader: all of the range, as the home of its block.
typedef struct cluster_fetch {
    const cluster_data_t *data;
    uint64_t object, offset;
    size_t bytes;
    uint8_t *memory;
    peer_reason_t reason;           //  PEER_REASON_NONE: the bytes are there
    void *user;                     //  the peer server's
} cluster_fetch_t;

//  NULL: no memory.
cluster_t *cluster_new (const cluster_options_t *options);
void cluster_destroy (cluster_t **self_p);
//  All before the first reader.  False: no memory.
bool cluster_add (cluster_t *self, const cluster_data_t *data);
//  Starts the peer server: 0; or -errno, and in error what is wrong and how to mend it.
int cluster_start (cluster_t *self, char *error, size_t error_bytes);
//  No peer is given anything any more.  Before the readers end.
void cluster_stop (cluster_t *self);
//  What `status` shows of it.
json_t *cluster_status (cluster_t *self);


//  ---- for readers (peers.c)

//  Questions that a reader put to a member, and what became of them.
typedef struct {
    uint64_t blocks, bytes, nanoseconds;        //  that it gave; from question to answer
    uint64_t refused [PEER_REASONS];
    uint64_t late;                  //  no answer in time
    uint64_t damaged;               //  the bytes did not match their checksum
    uint64_t slower;                //  not asked, since the store is much quicker
} peer_figures_t;

typedef enum { PEER_UNKNOWN, PEER_HERE, PEER_AWAY } peer_state_t;

typedef struct {
    exchange_t *fetches;            //  cluster_fetch_t, to the reader
    //  The member with this name as the reader knows it; false: it does not.  Any thread.
    bool (*look) (void *context, const char *name, peer_state_t *state, peer_figures_t *figures);
    void *context;                  //  lent
} cluster_reader_t;

//  From now on the reader fetches what lies in this store.  Before the start.  False: no memory.
bool cluster_join (cluster_t *self, const char *store, const cluster_reader_t *reader);
//  A reader has done this fetch.
void cluster_fetched (cluster_t *self, cluster_fetch_t *fetch);
members_t *cluster_members (const cluster_t *self);
//  Z85, lent; "": there are no keys.
const char *cluster_public_key (const cluster_t *self);
const char *cluster_secret_key (const cluster_t *self);
//  Data sets have places, in the order in which they were added.  Lent.
size_t cluster_data_count (const cluster_t *self);
const cluster_data_t *cluster_data (const cluster_t *self, size_t place);
//  SIZE_MAX: none has this key.
size_t cluster_find (const cluster_t *self, const uint64_t key [2]);
//  Whether there may be blocks here that have another home now: then a full cache has room.  Any thread.
bool cluster_has_foreign (const cluster_t *self, size_t place);
void cluster_set_foreign (cluster_t *self, size_t place, bool has_foreign);

#endif

/*  service_play -- a real service and broker, with the socket, the door, the workers and the users made up:
 *  messages go in by service_take, what is sent is written down.
 *
 *  Workers do what they are given when play_turn says so; a sample is never looked at.  Two data sets:
 *  `train`, which tenants a and b may use, and `secret`, which is b's alone; PLAY_SAMPLES samples each.
 */
#ifndef SERVICE_PLAY_H
#define SERVICE_PLAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "additions.h"
#include "broker.h"
#include "ring_server.h"
#include "service.h"
#include "wire.h"

enum { PLAY_SAMPLES = 48, PLAY_SENT_MAX = 4096, PLAY_TEXT_BYTES = 1600 };

//  Users: of the operator, of a (two), of b, of no tenant.  With keys: a's user K1, revoked by play_revoke.
enum { PLAY_ROOT = 0, PLAY_A1 = 1, PLAY_A2 = 2, PLAY_B = 3, PLAY_STRANGER = 9, PLAY_KEY = 100 };

typedef struct {
    peer_t peer;
    wire_kind_t kind;
    uint64_t job, tag;
    size_t size;
    bool has_bytes;                         //  a batch: its samples came with it
    char text [PLAY_TEXT_BYTES];            //  as far as it fits; of a batch, the structure and its ids
} play_sent_t;

//  A ring that the ring server waits for a client of, or that a client has.
typedef struct {
    uint64_t key;                           //  JOINED's token is this number
    uid_t uid;
    int descriptor;                         //  lent
    bool is_attached, is_parted;
} play_ring_t;

typedef struct play play_t;

//  with_tenants: a and b; else the operator is alone.
play_t *play_new (bool with_tenants);
//  The same beside a real ROUTER, lent, from which service_receive takes messages.
play_t *play_new_at (bool with_tenants, void *router);
//  Ends the service; everything must be gone.
void play_destroy (play_t **self_p);
service_t *play_service (play_t *self);
broker_t *play_broker (play_t *self);
int64_t play_now_ms (const play_t *self);

//  From now on every caller has a worker's key.  And how many messages of workers were let through.
void play_be_worker (play_t *self);
size_t play_worker_messages (const play_t *self);

//  The routing id number so and so, as ZeroMQ makes them.
peer_t play_peer (uint32_t number);
//  A message of this user by this connection.
void play_say (play_t *self, uint32_t peer, uint32_t user, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size);
void play_say_text (play_t *self, uint32_t peer, uint32_t user, wire_kind_t kind, uint64_t job, uint64_t tag,
    const char *text);
void play_say_frames (play_t *self, uint32_t peer, uint32_t user, const frame_t *frames, size_t count);
//  Serves what waits, and lets workers, broker and time go on: so many milliseconds.
void play_turn (play_t *self, int64_t milliseconds);
//  What a request costs the thread from now on, in nanoseconds.
void play_cost (play_t *self, uint64_t nanoseconds);
//  Workers finish nothing until they are told to go on; at the end, side tasks are given back undone.
void play_rest (play_t *self, bool at_rest);
//  The key is no more.
size_t play_revoke (play_t *self);
//  Sending to this connection fails from now on.
void play_close (play_t *self, uint32_t peer);
//  The ring with this key; NULL: the ring server does not know it, or has forgotten it.  And how many it
//  knows.
const play_ring_t *play_ring (play_t *self, uint64_t key);
size_t play_rings (const play_t *self);
//  The client of a ring has taken it, or has closed its connection: the service hears of it in its next turn.
void play_ring_event (play_t *self, ring_server_event_kind_t kind, uint64_t key);
//  The ring server makes so many more tokens, and fails for all others.  And how often it has failed.
void play_allow_rings (play_t *self, size_t count);
size_t play_refused_rings (const play_t *self);
//  There is no memory for batches that go through the socket.
void play_lack_memory (play_t *self, bool has_no_memory);
//  The sample cannot be read.
void play_spoil (play_t *self, uint32_t id);
//  What the next ADDs are answered: READY with this text at first.  And the words of the last one, with a
//  blank between; "": none came.
void play_add (play_t *self, additions_state_t state, const char *text);
//  A data set of this name is being opened again; lent; NULL: none.
void play_await (play_t *self, const char *name);
const char *play_added (const play_t *self);
//  The server's data sets are those that it began with.
void play_fix_datasets (play_t *self);
//  Texts stay unread (counted) from now on, or are all read now.
void play_stop_reading (play_t *self);
void play_read_all (play_t *self);

//  What was sent to a connection and of this kind last (0: of any); NULL: nothing.  And how many.
const play_sent_t *play_last (const play_t *self, uint32_t peer, wire_kind_t kind);
size_t play_count (const play_t *self, uint32_t peer, wire_kind_t kind);
//  The first that was sent with this tag, to any connection; NULL: none.
const play_sent_t *play_sent_with (const play_t *self, uint64_t tag);
void play_forget_sent (play_t *self);
//  STATUS of this user, whole; the caller's reference.
json_t *play_status (play_t *self, uint32_t user);
//  The log so far.
const char *play_log (play_t *self);

#endif

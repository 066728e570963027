/*  fake_server -- a small server for the client's tests: a ROUTER and a Unix socket that hands out a memfd.
 *
 *  It plays one job at a time, by docs/protocol.md and a plan: epochs of ascending ids (or shuffled, or a
 *  list's), every byte of a sample a function of its id.  A job continues where its JOIN says.  A killed
 *  client may come back, if the plan says so.  Of a job with ranks it plays one rank's part; the steps
 *  contain what the other ranks would get, which are not there.  A slot is written again exactly when
 *  PROGRESS allows it.  In the ring the fake fills freed slots with FAKE_POISON first, so that a client that
 *  releases too early sees it.  The plan says what the fake does wrong.
 *
 *  Owner: the test's thread; the fake runs one of its own.
 */
#ifndef FAKE_SERVER_H
#define FAKE_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire.h"

typedef struct fake_server fake_server_t;

enum { FAKE_PIXELS = 48, FAKE_POISON = 0xdb, FAKE_JOB = 7, FAKE_RECENT_MAX = 4096 };

typedef enum {
    FAKE_NOTHING,
    FAKE_DIE,               //  all sockets close
    FAKE_DIE_RING,          //  the ring's socket closes, the ROUTER stays: a server that is wedged in its end
    FAKE_STOP,              //  ENDED "stopping", then all sockets close
    FAKE_SILENT,            //  nothing is sent any more, nothing closes
    FAKE_SEND_NONSENSE,     //  a frame that is not Tureen's
    FAKE_SEND_HELD_SLOT,    //  a batch into the slot of the batch before
    FAKE_SEND_BAD_SEQUENCE,
    FAKE_SEND_LONG_COUNT,   //  a batch of more samples than its ids
    FAKE_SEND_BAD_JSON,
    FAKE_SEND_UNKNOWN,      //  a kind from the future, and an answer for another job: to be ignored
    FAKE_SEND_ERROR,        //  unknown_job
    FAKE_SEND_MANY_FRAMES,
    FAKE_END_SILENT,        //  ENDED "silent"; the job is gone, the server stays
    FAKE_END_FENCED,        //  ENDED "fenced", likewise
    FAKE_END_RANK_LOST,     //  ENDED "rank_lost", likewise
    FAKE_END_REVOKED,       //  ENDED "revoked", likewise
    FAKE_END_REMOVED,       //  ENDED "removed", likewise
    FAKE_SEND_REVOKED,      //  ERROR "revoked" to a message of the job, which is gone
    FAKE_DRAIN,             //  ENDED "stopping", and the server stays
    FAKE_SEND_OTHERS,       //  a batch that is another rank's part of its step
    FAKE_NOTICE             //  NOTICE; the job goes on
} fake_deed_t;

typedef enum {
    FAKE_RING,
    FAKE_RING_WRONG_PATH,
    FAKE_RING_NO_DESCRIPTOR,
    FAKE_RING_SHORT,        //  a memfd that is smaller than it should be
    FAKE_RING_REFUSES,      //  accepts, and closes
    FAKE_NO_RING            //  inline from the start
} fake_ring_t;

//  At which step of a join the server dies.
typedef enum {
    FAKE_AT_NONE,
    FAKE_AT_JOIN,           //  it has heard the JOIN and answers nothing
    FAKE_AT_JOINED,         //  it has sent JOINED
    FAKE_AT_TOKEN           //  it has read the token of the ring and hands nothing over
} fake_step_t;

//  Both NULL: an open server.
typedef struct {
    const char *secret;         //  the server's key, Z85
    const char *allowed;        //  the public key of the one client that it admits; NULL: any.  At ipc:// it
                                //  then admits no client
} fake_keys_t;

typedef struct {
    uint64_t samples;
    uint64_t epochs;            //  0: no end
    uint32_t slots;             //  0: as the client asks
    fake_ring_t ring;
    fake_deed_t deed;           //  after deed_batches batches
    uint64_t deed_batches;
    uint32_t heartbeat_ms;      //  0: 1000
    uint64_t deed_times;        //  0: once; else so often, each time after deed_batches batches of the job
                                //  that is there
    uint32_t revive_ms;         //  after FAKE_DIE and FAKE_STOP it listens again; 0: it stays dead
    fake_step_t die_at;         //  as FAKE_DIE, at that step ...
    uint64_t die_times;         //  ... of so many joins
    bool unborn;                //  it does not listen yet: as if it had died, until it is revived
    uint64_t mute_joins;        //  so many JOINs are heard and not answered, once it has joined
    uint64_t mute_tokens;       //  so many tokens are taken, and no ring is handed over
    bool forks;                 //  a job that comes back is a run of its own
    bool shuffle;               //  another order for each job and epoch
    bool has_bad;               //  the sample `bad` cannot be read
    uint64_t bad;
    const char *refuse;         //  ERROR with this message instead of JOINED ...
    const char *refuse_code;    //  ... and this code; NULL: unknown_dataset ...
    uint64_t refuse_after;      //  ... once it has joined so many times ...
    uint64_t refuse_times;      //  ... so often; 0: for ever
    const char *joined;         //  this JSON instead of a proper one
    const char *status;         //  the answer to STATUS; NULL: a short one
    bool deaf;                  //  answers nothing
    uint64_t gathering;         //  so many NOTICEs `gathering` before each JOINED ...
    uint32_t gathering_ms;      //  ... with so much time between
    bool tcp;                   //  it listens at tcp://127.0.0.1, at the same port in all its lives
    fake_keys_t keys [2];       //  in its first life, and when it was revived
    uint64_t loose;             //  of a job with ranks: so many batches come in no slot, once it was joined
                                //  again
} fake_plan_t;

//  What it saw.
typedef struct {
    uint64_t joins;
    uint64_t inlines;
    uint64_t progresses;
    uint64_t leaves;
    uint64_t heartbeats;
    uint64_t statuses;
    uint64_t wrong;             //  messages that the protocol forbids
    uint64_t sent;              //  batches
    uint64_t ring_closed;
    wire_progress_t progress;   //  the last one
    char join [4096];           //  the last JOIN's JSON
    uint64_t join_frames;
    uint64_t id_bytes;          //  of all its id frames
    uint64_t refusals;
    uint64_t deaths;
    char run [33], instance [33];   //  of the last JOIN; "": none
    uint64_t instances;         //  JOINs with another instance than the one before
    uint64_t gatherings;        //  NOTICEs sent
    uint64_t loose;             //  batches sent in no slot
    uint64_t resume_epoch, resume_batches;      //  of the last JOIN
    uint64_t recent [FAKE_RECENT_MAX];          //  likewise: its records, joined
    size_t recent_count;
} fake_seen_t;

//  Listens at a path or a port of its own; aborts where the system fails.
fake_server_t *fake_new (const fake_plan_t *plan);
void fake_destroy (fake_server_t **self_p);
const char *fake_endpoint (const fake_server_t *self);
fake_seen_t fake_seen (fake_server_t *self);
//  Does it as soon as it can.
void fake_do (fake_server_t *self, fake_deed_t deed);

//  The byte that every pixel of this sample has.
uint8_t fake_pixel (uint64_t id);

#endif

/*  courier_state -- the courier's structure, and what its two files know of each other.
 *
 *      courier.c        the thread: sends, polls, receives, keeps time
 *      courier_join.c   joins, loses the server, looks for it and joins again
 */
#ifndef COURIER_STATE_H
#define COURIER_STATE_H
#include <pthread.h>
#include "address.h"
#include "attach.h"
#include "courier.h"
#include "dealer.h"
#include "rejoin.h"
#include "stream.h"

//  What may follow what:
//
//         +------------------------+
//         |                        v
//      JOINING ---> RUNNING <--> AWAY --> OVER
//         |          |   |                 ^ ^
//         |          |   +--> FAILED ------+ |
//         |          |           |         | |
//         |          +-----------+-> LEAVING |
//         +----------------------------------+
typedef enum { JOINING, RUNNING, AWAY, FAILED, LEAVING, OVER, PHASES } phase_t;

struct courier {
    uint32_t magic;
    pthread_t thread;
    bool started;
    //  Set at birth.
    handover_t *handover;
    inquiry_t *inquiry;
    const joining_t *joining;
    char address [ADDRESS_BYTES];
    credentials_t credentials;
    int timeout_ms;
    //  The thread's own.
    phase_t phase;
    void *context;                      //  ZeroMQ's, of all dealers
    dealer_t *dealer;                   //  NULL: no connection (AWAY, between two tries)
    attach_t *attach;                   //  the present window's, lent; NULL: none
    uint64_t join_tag;                  //  of the last JOIN
    uint64_t job;                       //  0: not joined
    char run [WIRE_RUN_BYTES + 1];
    bool inline_only;                   //  a received ring could not be mapped
    bool inlined;
    uint32_t heartbeat_ms;
    course_t *received;
    stream_t stream;
    rejoin_t rejoin;
    wire_progress_t told;               //  the last PROGRESS
    int64_t deadline_ms;                //  of JOINING, LEAVING, and a try in AWAY
    int busy_tries;                     //  JOINING: how often the server was busy
    int64_t again_ms;                   //  JOINING: when to send JOIN again; 0: it is sent
    bool gathering;                     //  the server has our JOIN, and waits for other ranks
    int64_t stop_ms;                    //  AWAY: when the user asked to stop; 0: not yet
    bool heard;                         //  a message of the server since ticked_ms
    int64_t ticked_ms;                  //  when silence_ms was counted last
    int64_t silence_ms;                 //  how long the server has been silent while we listened
    int64_t beat_ms;                    //  our last HEARTBEAT
    int64_t lost_ms;                    //  when we saw the server's end; 0: alive, as far as we know
    const char *lost_how;
    dealer_message_t message;
};

//  --- courier.c

void courier_move (courier_t *self, phase_t next);
//  The job is lost, or cannot be joined: why becomes the user's error.
void courier_fail (courier_t *self, int rc, const message_error_t *why);
//  The same, with the address added; only for our own reasons, the server's texts stay as they are.
void courier_fail_at (courier_t *self, int rc, const char *what);
//  Sends a message of one frame, for the present job.  False: no room.
bool courier_send (courier_t *self, wire_kind_t kind);

//  --- courier_join.c

//  On a new dealer, or after LEAVE on the same.  0, or -errno and why.
int courier_send_join (courier_t *self, message_error_t *why) TUREEN_CHECKED;
//  Takes self->message, the JOINED that answers it.
void courier_take_joined (courier_t *self);
//  Whether the user has the loader.  Before that, tureen_loader_new reports an end.
bool courier_has_joined (const courier_t *self);
//  The server is gone; how: half a sentence.  Looks for a server if that may help, otherwise ends.
bool courier_can_go_on (const courier_t *self);
void courier_go_away (courier_t *self, const char *how);
//  The server waits for other ranks, named in text: it is alive.
void courier_wait_for_ranks (courier_t *self, const char *text);
//  AWAY: a try to join again failed; NULL: no server answered.
void courier_postpone (courier_t *self, const char *why);
//  AWAY: looks for the server, until the user stops.
void courier_seek (courier_t *self, const handover_view_t *view, int64_t now_ms);

#endif

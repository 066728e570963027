/*  ring_play -- what tests of the ring server begin and end with, and its clients: what they send, what they
 *  are sent, and what the server tells of them.  After cmocka.h.
 */
#ifndef RING_PLAY_H
#define RING_PLAY_H
#include "ring_server.h"
#include "scratch.h"

enum { NOW = 1000000 };

typedef struct {
    scratch_folder_t scratch;
    char path [100];
    ring_server_t *ring_server;
    int descriptor;                 //  what is handed out: a file
} ring_play_t;

int ring_play_begin (void **state);
//  The socket file is gone and nothing is left open.
int ring_play_end (void **state);

//  Connects.
int ring_play_knock (const ring_play_t *self);
void ring_play_say (int fd, const char *text, size_t size);
//  Connects and sends a token.
int ring_play_knock_with (const ring_play_t *self, const char *token);
//  What the client has been sent: its descriptor; -1: closed; -2: nothing.
int ring_play_hear (int fd);
//  The client got the descriptor and nothing else.
void ring_play_assert_handed (const ring_play_t *self, int fd);

void ring_play_assert_event (ring_play_t *self, int64_t now_ms, ring_server_event_kind_t kind, uint64_t job);
//  Nothing to tell, and nothing that would wake the caller.
void ring_play_assert_quiet (ring_play_t *self, int64_t now_ms);
void ring_play_expect (ring_play_t *self, uint64_t job, char token [RING_SERVER_TOKEN_BYTES + 1]);
//  A client that is in.
int ring_play_attach (ring_play_t *self, uint64_t job);
//  This admits no client, nothing is told, and the client finds its connection closed.
void ring_play_assert_shut_out (ring_play_t *self, int fd, int64_t now_ms);

#endif

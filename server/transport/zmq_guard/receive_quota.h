/*  receive_quota -- what ZeroMQ has received from each peer and the server has not taken yet, and that it
 *  does not grow without a bound.
 *
 *  libzmq bounds the size of a frame and the number of a connection's messages, but not the number of a
 *  message's frames: it holds a message that never ends until memory runs out, and does not report it
 *  before its end.  So the calls by which ZeroMQ accepts, receives and closes (libc_interpose.c) record here
 *  what they do, and the server records what it takes.  A frame counts with its body and
 *  RECEIVE_QUOTA_FRAME_BYTES, which is more than ZeroMQ and the server need for it.  A connection over its
 *  own or its user's limit gets ECONNRESET, as if the peer had reset it.  So does one with a message of
 *  RECEIVE_QUOTA_FRAMES_MAX frames.
 *
 *  Without encryption this is exact: when the server has taken everything, nothing is held.  Under CURVE the
 *  ends of messages, and heartbeats, look like any frame: when the server takes a message, the connection
 *  counts as empty.
 *
 *  A process has a single quota, because the functions in front of the C library's have no argument to select
 *  one.  Threads: a descriptor's accept, receive and close come from one, ZeroMQ's; receive_quota_taken and
 *  receive_quota_settled from the server's.
 */
#ifndef RECEIVE_QUOTA_H
#define RECEIVE_QUOTA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECEIVE_QUOTA_FRAME_BYTES = 1024,
    RECEIVE_QUOTA_BODY_MAX = (1 << 20) + 64,            //  ZeroMQ takes no larger ones (client_socket.c)
    RECEIVE_QUOTA_FRAMES_MAX = 1024                     //  no valid message has more than 130; up to this
                                                       //  limit a client with more gets an error
};
//  For a connection: the largest message, and some more.  For a user: the server sets it at its start, at
//  least this.
#define RECEIVE_QUOTA_CONNECTION_MAX ((size_t) 160 << 20)
#define RECEIVE_QUOTA_USER_LEAST ((size_t) 512 << 20)
//  All tcp peers are one user here.
#define RECEIVE_QUOTA_REMOTE UINT64_MAX

//  Call it before any peer connects.
void receive_quota_set_limits (size_t connection_max, size_t user_max);

//  ---- ZeroMQ's side
//  A connection of this user has the descriptor from now on.
void receive_quota_accepted (int fd, uint64_t user);
//  The connection's number in order of acceptance, from 1; UINT64_MAX: none, or not yet recorded.  Any
//  thread.
uint64_t receive_quota_arrival (int fd);
//  Whether the connection may receive: false if it is over a limit.  Always true for a descriptor that was
//  not accepted.
bool receive_quota_may_receive (int fd);
void receive_quota_received (int fd, const void *bytes, size_t size);
void receive_quota_closed (int fd);

//  ---- the server's side
//  The server has taken a message of so many frames and bytes (without the routing id) of this user, which
//  came by the descriptor:
//  -1, or another connection's descriptor, if the connection is closed.
void receive_quota_taken (uint64_t user, int fd, size_t frames, size_t bytes);
//  The server has found that there is nothing more to take.
void receive_quota_settled (void);

//  Bytes that all connections hold now; and how often a connection could not receive.
size_t receive_quota_bytes (void);
uint64_t receive_quota_resets (void);

#endif

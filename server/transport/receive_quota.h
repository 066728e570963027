/*  receive_quota -- what ZeroMQ has received from each peer and the server has not taken yet, and that it
 *  does not grow without a bound.
 *
 *  libzmq bounds the frames of a message in size and the messages of a connection in number, but not the
 *  frames of a message: one that never ends is held until the memory is gone, and nobody is told of it before
 *  its end.  So the calls by which ZeroMQ accepts, receives and closes (syscalls.c) write here what they do,
 *  and the server writes what it takes.  A frame counts with its body and RECEIVE_QUOTA_FRAME_BYTES, which is
 *  more than it costs ZeroMQ and the server to hold and take.  Who would have more than its connection, or
 *  its user with all connections together, may have, cannot receive: to ZeroMQ that is a peer that has reset
 *  its connection.  So is one whose message has RECEIVE_QUOTA_FRAMES_MAX frames.
 *
 *  Without encryption this is exact, and nothing is held when all has been taken.  Under CURVE ends of
 *  messages and heartbeats cannot be told from frames: what a connection holds is taken to be nothing when a
 *  message of it is taken.
 *
 *  There is one in a process, because the functions that stand in front of the C library's have no argument
 *  that could say which.
 *  Threads: a descriptor's accept, receive and close come from one, ZeroMQ's; receive_quota_taken and
 *  receive_quota_settled from the server's.
 */
#ifndef RECEIVE_QUOTA_H
#define RECEIVE_QUOTA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECEIVE_QUOTA_FRAME_BYTES = 1024,
    RECEIVE_QUOTA_BODY_MAX = (1 << 20) + 64,           //  ZeroMQ takes no larger ones (gate.c)
    RECEIVE_QUOTA_FRAMES_MAX = 1024                    //  130 are the most that make sense; more are told so,
                                                       //  up to this
};
//  One message of the largest, and some.  All of a user: what the server says at its start, but no less than
//  this.
#define RECEIVE_QUOTA_CONNECTION_MAX ((size_t) 160 << 20)
#define RECEIVE_QUOTA_USER_LEAST ((size_t) 512 << 20)
//  Whoever comes by tcp is one user here.
#define RECEIVE_QUOTA_REMOTE UINT64_MAX

//  Before anybody connects.
void receive_quota_set_limits (size_t connection_max, size_t user_max);

//  ---- ZeroMQ's side
//  A connection of this user has the descriptor from now on.
void receive_quota_accepted (int fd, uint64_t user);
//  Which connection this is of all that were accepted, the first is 1; UINT64_MAX: none, or not yet written
//  down.  Any thread.
uint64_t receive_quota_arrival (int fd);
//  Before it receives: false if it has too much.  A descriptor that was not accepted may always.
bool receive_quota_may_receive (int fd);
void receive_quota_received (int fd, const void *bytes, size_t size);
void receive_quota_closed (int fd);

//  ---- the server's side
//  The server has taken a message of so many frames and bytes (without the routing id) of this user, which
//  came by the descriptor:
//  -1, or one that is another connection's now, if it is closed.
void receive_quota_taken (uint64_t user, int fd, size_t frames, size_t bytes);
//  The server has found that there is nothing more to take.
void receive_quota_settled (void);

//  What is held now of all; and how often somebody could not receive.
size_t receive_quota_bytes (void);
uint64_t receive_quota_resets (void);

#endif

/*  ledger -- what ZeroMQ has received from each peer and the server has not taken yet, and that it does not grow without a bound.
 *
 *  libzmq bounds the frames of a message in size and the messages of a connection in number, but not the frames of a message: one that
 *  never ends is held until the memory is gone, and nobody is told of it before its end.  So the calls by which ZeroMQ
 *  accepts, receives and closes (syscalls.c) write here what they do, and the server writes what it takes.  Who would have
 *  more than its connection, or its user with all connections together, may have, cannot receive: to ZeroMQ that is a peer that
 *  has reset its connection, and what was held is gone.
 *
 *  There is one in a process, because the functions that stand in front of the C library's have no argument that could say which.
 *  Threads: any; all counts are atomic.
 */
#ifndef LEDGER_H
#define LEDGER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  A message has 130 frames of 1 MiB at most (WIRE_FRAMES_MAX): so many bytes are one, and most of the next.
#define LEDGER_CONNECTION_MAX ((size_t) 256 << 20)
#define LEDGER_USER_MAX ((size_t) 512 << 20)
//  Whoever comes by tcp is one user here.
#define LEDGER_REMOTE UINT64_MAX

//  For tests; before anybody connects.
void ledger_set_limits (size_t connection_max, size_t user_max);

//  ---- ZeroMQ's side
//  A connection of this user has the descriptor from now on.
void ledger_accepted (int fd, uint64_t user);
//  Before it receives: false if that would be too much.  A descriptor that was not accepted may always.
bool ledger_may_receive (int fd);
void ledger_received (int fd, size_t bytes);
void ledger_closed (int fd);

//  ---- the server's side
//  A frame of this size, as it was on the wire.
size_t ledger_frame_bytes (size_t size, bool is_curve);
//  The server has taken so many bytes that came by the descriptor; if that was closed meanwhile, this does nothing.
void ledger_taken (int fd, size_t bytes);

//  What is held now of all, hands that were shaken included (some hundred bytes each); and how often somebody could not receive.
size_t ledger_bytes (void);
uint64_t ledger_resets (void);

#endif

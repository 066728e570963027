/*  headroom -- the memory that a large buffer leaves to what cannot be refused.
 *
 *  Where the system limits a process (ulimit -d, ulimit -v), large buffers may take all of it.  The next
 *  message then has none, and ZeroMQ ends the process.  So a large buffer is kept only where the system would
 *  give HEADROOM_BYTES more.  Otherwise a sample waits for its memory, and a join is refused.
 *  Any thread.  Two threads that ask at the same time may both be told that nothing is left.
 */
#ifndef HEADROOM_H
#define HEADROOM_H
#include <stdbool.h>

//  Some dozens of connections with their queues, and the bookkeeping of as many requests.
enum { HEADROOM_BYTES = 2 << 20 };

//  True without a system call that changes anything where the process has no limit.
bool headroom_is_left (void);

//  memory, which is malloc's; NULL where it is NULL, or where no headroom is left: then it is freed.
void *headroom_keep (void *memory);

#endif

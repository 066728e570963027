/*  rlimits -- the limits that the system sets to this process (ulimit, systemd's Limit...=), as far as all
 *  commands have to do with them.
 *
 *  Reaching a limit is an error with words, in the place where it is reached, and no death by a signal.
 *  Any thread, but rlimits_begin.
 */
#ifndef RLIMITS_H
#define RLIMITS_H
#include <stdbool.h>
#include <stdint.h>

//  At the beginning of main, before there is a second thread.  A file that would become larger than is
//  allowed is EFBIG from now on, not SIGXFSZ; stacks of this and all other threads are as large as the code
//  needs.  False: the hard limit of the stack does not allow that, which was said.
bool rlimits_begin (void);

//  The most bytes that a file may have; UINT64_MAX: no limit.  A ring is a file too.
uint64_t rlimits_file_bytes (void);

//  What can be done where a system call failed with error (errno's) because of a limit: ": " and half a
//  sentence, to stand behind strerror's words; "" where no limit is the cause.
const char *rlimits_remedy (int error);

//  ---- headroom: the memory that a large buffer leaves to what cannot be refused
//
//  Where the system limits a process (ulimit -d, ulimit -v), large buffers may take all of it.  The next
//  message then has none, and ZeroMQ ends the process.  So a large buffer is kept only where the system would
//  give RLIMITS_HEADROOM_BYTES more.  Otherwise a sample waits for its memory, and a join is refused.
//  Two threads that ask at the same time may both be told that nothing is left.

//  Some dozens of connections with their queues, and the bookkeeping of as many requests.
enum { RLIMITS_HEADROOM_BYTES = 2 << 20 };

//  True without a system call that changes anything where the process has no limit.
bool rlimits_leave_headroom (void);

//  memory, which is malloc's; NULL where it is NULL, or where no headroom is left: then it is freed.
void *rlimits_keep_headroom (void *memory);

#endif

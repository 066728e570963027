/*  machine -- what this process may use of the computer, and what to do where that is not enough: memory and
 *  processors, container limits included, and the limits that the system sets (ulimit, systemd's Limit...=).
 *
 *  Reaching a limit is an error with words, in the place where it is reached, and no death by a signal.
 *  root is put before /proc and /sys: "" for the real ones, a folder of files in tests.
 *  Any thread, but machine_begin.
 */
#ifndef MACHINE_H
#define MACHINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  Least of physical memory, the memory limits of every control group this process is in (version 2 and 1),
//  and RLIMIT_AS.  Never 0.
uint64_t machine_memory_bytes (const char *root);

//  Processors that this thread may run on, at most what its control groups' processor time pays for (rounded
//  up).  Never 0.
uint32_t machine_processors (const char *root);

//  At the beginning of main, before there is a second thread.  A file that would become larger than is
//  allowed is EFBIG from now on, not SIGXFSZ; stacks of this and all other threads are as large as the code
//  needs.  False: the hard limit of the stack does not allow that, which was said.
bool machine_begin (void);

//  The most bytes that a file may have; UINT64_MAX: no limit.  A ring is a file too.
uint64_t machine_file_bytes (void);

//  What can be done where a system call failed with error (errno's) because of a limit: ": " and half a
//  sentence, to stand behind strerror's words; "" where no limit is the cause.
const char *machine_remedy (int error);

//  The cause, and the remedy, if the process got no memory (ENOMEM) or no thread (EAGAIN); text has this much
//  room.  Returns text.
enum { MACHINE_SHORTAGE_BYTES = 256 };
const char *machine_shortage (int error, char text [MACHINE_SHORTAGE_BYTES]);

//  ---- headroom: the memory that a large buffer leaves to what cannot be refused
//
//  Where the system limits a process (ulimit -d, ulimit -v), large buffers may take all of it.  The next
//  message then has none, and ZeroMQ ends the process.  So a large buffer is kept only where the system would
//  give MACHINE_HEADROOM_BYTES more.  Otherwise a sample waits for its memory, and a join is refused.
//  Two threads that ask at the same time may both be told that nothing is left.

//  Some dozens of connections with their queues, and the bookkeeping of as many requests.
enum { MACHINE_HEADROOM_BYTES = 2 << 20 };

//  True without a system call that changes anything where the process has no limit.
bool machine_leave_headroom (void);

//  memory, which is malloc's; NULL where it is NULL, or where no headroom is left: then it is freed.
void *machine_keep_headroom (void *memory);

#endif

/*  rlimits -- the limits that the system sets to this process (ulimit, systemd's Limit...=), as far as all
 *  commands have to do with them.
 *
 *  Reaching a limit is an error with words, in the place where it is reached, and no death by a signal.
 *  Owner: the thread of main.
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

#endif

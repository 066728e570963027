/*  key_program -- runs the program that a profile names for its keys (credential_process), and takes what it
 *  prints.
 *
 *  The command is one of /bin/sh, runs as this user with this environment and no input, and gets a process
 *  group of its own.
 *  on close:       a program that takes too long is killed with its group.
 *  Plain function; any thread, also one that blocks all signals.
 */
#ifndef KEY_PROGRAM_H
#define KEY_PROGRAM_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_PROGRAM_SAID_BYTES = 500 };     //  enough for what is said

//  0: it ended with status 0, and the first *used_p bytes of output are what it printed.  Otherwise in what
//  (always ended) what happened, for people, with the last line of its standard error if there is one:
//  -EKEYREJECTED it ended otherwise; -ETIMEDOUT limit_ms are over; -ECANCELED is_stopped is true, which is
//  looked at ten times a second; -EBADMSG it printed more than output_bytes; or -errno of starting it.
int key_program_run (const char *command, const atomic_bool *is_stopped, int64_t limit_ms, char *output,
    size_t output_bytes, size_t *used_p, char *what, size_t what_bytes);

#endif

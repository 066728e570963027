/*  custom_process -- one process of the operator's command: started, asked, ended.
 *
 *  The protocol is in docs/operation.md.  Pixels lie in memory that both have mapped (a memfd that cannot be
 *  made smaller), messages are JSON in packets of a socket pair.  Whatever the process writes to its standard
 *  output and error is read away, and the last line of it is kept for people.
 *
 *  happy path:     start: posix_spawn, sandbox, execve, greeting .. call: question, answer .. destroy
 *  failure modes:  no greeting, no answer in time, the process ends, an answer that is none: the process is
 *                  broken, and only good for custom_process_destroy, which kills it.
 *  on close:       `stop` becomes readable: what waits ends at once, as broken.  A call that is abandoned has
 *                  a second left.
 *
 *  What comes from the process is foreign.  Owner: one thread at a time.
 */
#ifndef CUSTOM_PROCESS_H
#define CUSTOM_PROCESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pipeline.h"

typedef struct custom_process custom_process_t;

enum { CUSTOM_PROCESS_GREETING_BYTES_MAX = 256, CUSTOM_PROCESS_WORDS_MAX = 64 };

typedef struct {
    //  The command, lent: the path of the executable, and its words, at most CUSTOM_PROCESS_WORDS_MAX.
    char *path, **words;
    size_t word_count;
    uint64_t memory_bytes;              //  of its address space
    int64_t start_ms, call_ms;          //  the longest it may take
    int stop;                           //  a descriptor, lent
} custom_process_options_t;

//  options: lent for the life of the process.  CUSTOM_DONE and *self_p greeted; else *self_p NULL and error
//  says why.
custom_status_t custom_process_start (custom_process_t **self_p, const custom_process_options_t *options,
    char *error, size_t error_bytes);
//  Kills the process and waits for its end.
void custom_process_destroy (custom_process_t **self_p);
//  What it said of itself, as canonical JSON; lent.  And whether that has "random": true.
const char *custom_process_greeting (const custom_process_t *self);
bool custom_process_is_random (const custom_process_t *self);
custom_status_t custom_process_call (custom_process_t *self, custom_call_t *call);
bool custom_process_is_broken (const custom_process_t *self);
//  It is broken because another process has killed it: most likely the kernel, for want of memory.
bool custom_process_was_killed (const custom_process_t *self);

#endif

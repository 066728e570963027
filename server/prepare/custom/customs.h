/*  customs -- the operations of the operator's own that a server has, with their processes.
 *
 *  Each operation has a pool of processes (custom_process.h): as many as are asked at once, started when
 *  there is none free, and kept.
 *
 *  A call that fails ends its process, and is made once more, alone: by a new process, and with no other call
 *  of the operation under way.  So neither what earlier samples have left in a process nor what other
 *  processes take at the time is blamed on the sample.  What was killed, as the kernel does when memory is
 *  short, is tried for longer, with pauses of 0.1 s, 0.2 s and so on up to 5 s.
 *
 *  Files of the command that change: processes that run are what they were, and serve on; none is started,
 *  and calls wait for one that runs.  They fail when there is none left.
 *
 *  custom_t.run may be called by any number of threads; a process ends with the thread that started it, so
 *  they live until customs_close.  Everything else: one thread.
 */
#ifndef CUSTOMS_H
#define CUSTOMS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "pipeline.h"

typedef struct customs customs_t;

enum { CUSTOMS_TEXT_BYTES = 256 };

typedef struct {
    const char *name, *command;         //  copied
} customs_command_t;

typedef struct {
    const customs_command_t *commands;
    size_t count;                       //  at most CUSTOM_MAX
    uint64_t memory_bytes;              //  of the address space of each process
    uint32_t seconds;                   //  the longest that a call may take
    int end;                            //  a descriptor: readable, nothing is started any more; -1: none
} customs_options_t;

//  Starts a process of each, which must greet.  0; -EINVAL and which one does not, and why; -EINTR: `end`.
int customs_open (customs_t **self_p, const customs_options_t *options, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
//  *count_p of them, by their numbers; lent until customs_close.  self NULL: none.
const custom_t *customs_list (const customs_t *self, size_t *count_p);
//  Calls fail at once from now on, those under way too.
void customs_stop (customs_t *self);
//  Ends the processes.  No call may be under way, and no pipeline may name an operation.
void customs_close (customs_t **self_p);

//  {"name", "identity", "random", "processes", "calls", "failures", "restarts", "seconds", "cpu_seconds",
//  "last_failure", "changed"} of each; a new reference.  self NULL: an empty list.
json_t *customs_status (customs_t *self);
//  An operation that has failed since it was asked about last, once in ten seconds each: how often, and why
//  the last time; or of which files have changed: no times, and what that means.  False: none.
bool customs_next_news (customs_t *self, int64_t now_ms, const char **name_p, uint64_t *times_p,
    char text [CUSTOMS_TEXT_BYTES]);

#endif

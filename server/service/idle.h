/*  idle -- the end of a server that no job needs any more (--until-idle).
 *
 *  The time also counts from the server's start, with a longer limit: a script that starts a server for a job
 *  needs a while to import its libraries.  Knows no clock.  Owner: the broker's thread.
 */
#ifndef IDLE_H
#define IDLE_H
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

enum { IDLE_START_MS = 60000 };     //  until the first job has joined, at least

typedef struct {
    int64_t limit_ms;               //  0: the server never ends by itself
    int64_t since_ms;               //  without a job
    uint64_t jobs_total;            //  that had joined at the last look
} idle_t;

//  limit_ms: time without a job, after the last one; 0: no limit.
void idle_begin (idle_t *self, int64_t limit_ms, int64_t now_ms);
//  jobs: how many there are now; jobs_total: how many joined since the start.  True: the server should end.
bool idle_look (idle_t *self, uint64_t jobs, uint64_t jobs_total, int64_t now_ms);
//  When to call idle_look again if nothing happens; INT64_MAX: never.
int64_t idle_due_ms (const idle_t *self, uint64_t jobs);
//  {"seconds": limit, "left": seconds or null while there are jobs}, or null without a limit; a new
//  reference.
json_t *idle_status (const idle_t *self, uint64_t jobs, int64_t now_ms);

#endif

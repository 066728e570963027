/*  supervise -- keeps a server running: it is a child of this process, and is started again when it has died.
 *
 *  happy path:     the child ends by itself -> its exit status is ours
 *  failure modes:  the child dies of a signal, its own abort included: it is restarted after a pause, which
 *                  doubles from SUPERVISE_PAUSE_MS to SUPERVISE_PAUSE_MS_MAX and is reset after
 *                  SUPERVISE_GOOD_MS of life.  The number of restarts is unlimited.  A child that ends by
 *                  itself is never restarted: it would fail the same way.  Nor is one that has told that it
 *                  ends (supervise_tell_end) and dies on its way.
 *  on close:       passes on SIGTERM, SIGINT and SIGHUP (unless ignored: nohup), and waits for the child.
 *                  When this process is killed, the kernel kills the child, so that no process holds the
 *                  endpoint.
 *
 *  The child is a new execution of the same program: memory is laid out anew each time, which a fork alone
 *  would not do.
 *  Owner: the process's only thread.
 */
#ifndef SUPERVISE_H
#define SUPERVISE_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "log.h"

enum { SUPERVISE_PAUSE_MS = 200, SUPERVISE_PAUSE_MS_MAX = 30000, SUPERVISE_GOOD_MS = 60000 };

typedef struct {
    const char *path;           //  the program; NULL: this one
    char *const *argv;          //  its arguments, from argv [0]
    int64_t pause_ms;           //  the first pause; 0: SUPERVISE_PAUSE_MS
    int kept;                   //  a descriptor that each child inherits, for what it keeps for the next one;
                                //  below 0: none
    log_t *log;
} supervise_options_t;

//  Runs the child until it ends by itself or a signal asks for its end; blocks.  The exit status: the
//  child's; 0 if it died of the signal that was passed on to it; 1 if it died otherwise after that, or no
//  process could be made; 127 if the program cannot be executed.
int supervise_run (const supervise_options_t *options);

//  The pause before the next start, after a pause of before_ms (0: none) and then a life of so long.
int64_t supervise_pause_ms (int64_t first_ms, int64_t before_ms, int64_t lived_ms);

//  What the supervisor has left to its child.
typedef struct {
    pid_t supervisor;           //  0: this process has none
    uint64_t restarts;          //  how many children were started before it
    int kept;                   //  of the options; its own children do not inherit it; -1: none
} supervised_t;

//  In the child.  Removes the variable from the environment, so it works only once.
supervised_t supervise_child (void);

//  The child ends by itself: if it dies on its way, the supervisor starts no other one.
void supervise_tell_end (const supervised_t *self);

#endif

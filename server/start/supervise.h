/*  supervise -- keeps a server running: it is a child of this process, and is started again when it has died.
 *
 *  happy path:     the child ends by itself -> its exit status is ours
 *  failure modes:  it dies of a signal, its own abort included: it is started again after a pause, which
 *                  doubles from SUPERVISE_PAUSE_MS to SUPERVISE_PAUSE_MS_MAX and is the first one again after
 *                  SUPERVISE_GOOD_MS of life.
 *                  There is no last time.  A child that ends by itself is never started again: it would find
 *                  what it found.
 *  on close:       SIGTERM, SIGINT and SIGHUP (unless it is ignored: nohup) are passed on, and the child is
 *                  waited for.  When this process dies without a word, the kernel kills the child, so that
 *                  nobody holds the endpoint.
 *
 *  The child is a new execution of the same program: memory is laid out anew each time, which a fork alone
 *  would not do.
 *  Owner: the process's only thread.
 */
#ifndef SUPERVISE_H
#define SUPERVISE_H
#include <stdbool.h>
#include <stdint.h>
#include "log.h"

enum { SUPERVISE_PAUSE_MS = 200, SUPERVISE_PAUSE_MS_MAX = 30000, SUPERVISE_GOOD_MS = 60000 };

typedef struct {
    const char *path;           //  what is executed; NULL: this very program
    char *const *argv;          //  its arguments, from argv [0]
    int64_t pause_ms;           //  the first pause; 0: SUPERVISE_PAUSE_MS
    log_t *log;
} supervise_options_t;

//  Runs it until it ends by itself or a signal asks for it; blocks.  The exit status: the child's, 0 where it
//  died of the signal that was passed on to it, 1 where it died otherwise while it was to end, or no process
//  is to be had for it, 127 where that cannot be executed.
int supervise_run (const supervise_options_t *options);

//  The pause before the next start, after one of before_ms (0: there was none) and then so much of life.
int64_t supervise_pause_ms (int64_t first_ms, int64_t before_ms, int64_t lived_ms);

//  In the child: true, and how often one was started before it.  False: nobody supervises this process.  What
//  says so is removed from the environment, so once only.
bool supervise_is_child (uint64_t *restarts_p);

#endif

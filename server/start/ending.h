/*  ending -- a server that is to end is gone after ENDING_MS, whatever a thread of it still does.
 *
 *  happy path:     ending_begin; the server stops its threads and closes its parts; ending_end.
 *  failure modes:  a thread that does not end, in an operation on a huge image or in a read of a disk that
 *                  hangs, keeps the server's own thread waiting for it.  Then a thread of this file gives the
 *                  endpoints back and calls _exit: what must last has been written by then, or is as a crash
 *                  leaves it, which costs no job a sample.
 *
 *  Owner: the thread that ends the server.
 */
#ifndef ENDING_H
#define ENDING_H
#include <pthread.h>
#include <stdbool.h>
#include "log.h"
#include "serve_endpoints.h"

enum { ENDING_MS = 5000 };

typedef struct {
    log_t *log;                         //  lent; the owner writes no line while it waits for threads
    serve_endpoints_t *endpoints;       //  lent
    int status;                         //  for _exit
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_watched;                    //  the thread runs
    bool is_done, is_late;              //  one of them at most, under the mutex
} ending_t;

//  From now on the process has ENDING_MS.  Without memory for a thread nothing is watched.
void ending_begin (ending_t *self, log_t *log, serve_endpoints_t *endpoints, int status);
//  All is closed but the endpoints.  Does not return if the time is over.
void ending_end (ending_t *self);

#endif

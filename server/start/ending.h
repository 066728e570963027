/*  ending -- ends the server's process in ENDING_MS from when it began to end, even if a thread still works.
 *
 *  happy path:     ending_begin; the server stops its threads and closes its parts; ending_end.
 *  failure modes:  a worker may be in an operation on a huge image, and a reading thread in a read of a disk
 *                  that hangs; the server's own thread waits for it.  Then a thread of this file gives the
 *                  endpoints back and calls _exit.  Files are as a crash leaves them; no job loses a sample.
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

//  From now on the process has ENDING_MS.  If no thread can be had, it has as long as it takes.
void ending_begin (ending_t *self, log_t *log, serve_endpoints_t *endpoints, int status);
//  The server has closed all but the endpoints.  Does not return if the time is over.  Does nothing for one
//  that never began, all zeros.
void ending_end (ending_t *self);

#endif

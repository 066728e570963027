/*  serve -- `tureen serve`, and three parts of its start and end: the server claims its endpoints, makes its
 *  tenants, and watches that its end takes no longer than it may.
 *
 *  Endpoints: where the settings say that it listens, on ipc, on tcp, or on both.  With both, the kernel
 *  names the users on ipc and keys name those on tcp (client_socket.h), and all clients of this machine get
 *  their batches through the ring server beside the ipc socket.
 *
 *  Plain data; { 0 }: nothing is claimed.  Owner: the thread that starts and ends the server.
 */
#ifndef SERVE_H
#define SERVE_H
#include <pthread.h>
#include <stdbool.h>
#include "endpoint.h"
#include "log.h"
#include "options.h"
#include "tenants.h"

//  Opens the data sets, listens, and runs until SIGTERM, SIGINT or SIGHUP.  argv[0] is "serve", and argv[-1]
//  the program's name, as in main: with --supervise all of it is executed again.  Exit status: 0 ended by a
//  signal, until-idle or a drain, 1 could not start or continue (the reason is on stderr), 2 unusable
//  arguments.
int serve_command (int argc, char **argv);


//  ---- endpoints

typedef struct {
    endpoint_t *ipc, *tcp;              //  NULL: not there; after a claim that succeeded, not both
} serve_endpoints_t;

//  Claims what options->listen names, for the clients that the options admit.  0; or as endpoint_claim, and
//  the reason is on standard error.
int serve_endpoints_claim (serve_endpoints_t *self, const options_t *options);
//  Whether another program has the port of tcp now; addresses that only ZeroMQ knows count as free.
bool serve_endpoints_is_port_taken (const serve_endpoints_t *self);
//  When all sockets listen.  False: the reason is on standard error.
bool serve_endpoints_share (const serve_endpoints_t *self);
void serve_endpoints_release (serve_endpoints_t *self);

//  For ZeroMQ's bind; NULL: not there.  Lent, as the ring server's path.
const char *serve_endpoints_ipc (const serve_endpoints_t *self);
const char *serve_endpoints_tcp (const serve_endpoints_t *self);
const char *serve_endpoints_ring_path (const serve_endpoints_t *self);


//  ---- tenants

//  The tenants of the settings become the broker's, and their users the callers that the server knows.

//  The broker must have its data sets and no jobs.  broker and keys (NULL: none) are lent; the caller
//  destroys the result.
//  NULL: no memory.
tenants_t *serve_tenants (broker_t *broker, const options_t *options, const client_keys_t *keys)
    __attribute__ ((warn_unused_result));


//  ---- an end that is not waited for too long

//  Ends the server's process in SERVE_ENDING_MS from when it began to end, even if a thread still works.
//
//  happy path:     serve_ending_begin; the server stops its threads and closes its parts; serve_ending_end.
//  failure modes:  a worker may be in an operation on a huge image, and a reading thread in a read of a disk
//                  that hangs; the server's own thread waits for it.  Then a thread of this file gives the
//                  endpoints back and calls _exit.  Files are as a crash leaves them; no job loses a sample.
//
//  Owner: the thread that ends the server.

enum { SERVE_ENDING_MS = 5000 };

typedef struct {
    log_t *log;                         //  lent; the owner writes no line while it waits for threads
    serve_endpoints_t *endpoints;       //  lent
    int status;                         //  for _exit
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_watched;                    //  the thread runs
    bool is_done, is_late;              //  one of them at most, under the mutex
} serve_ending_t;

//  From now on the process has SERVE_ENDING_MS.  If no thread can be had, it has as long as it takes.
void serve_ending_begin (serve_ending_t *self, log_t *log, serve_endpoints_t *endpoints, int status);
//  The server has closed all but the endpoints.  Does not return if the time is over.  Does nothing for one
//  that never began, all zeros.
void serve_ending_end (serve_ending_t *self);

#endif

/*  work_server -- one server that `tureen work` lends processors to: connection, handshake and tasks.
 *
 *  happy path:     HELLO -> CHALLENGE -> golden samples (a task) -> ANSWER -> WELCOME; PIPELINE and TASK ->
 *                  waiting tasks, which the owner takes in turn -> RESULT
 *  failure modes:  a connection that is lost, a server that is silent or knows nothing of this worker: a new
 *                  connection, for ever.  REFUSED, and ERRORs that stay: no more.
 *  on close:       work_server_goodbye, and a second for the server to hear it.
 *
 *  All foreign bytes come in here.  Owner: the network thread.
 */
#ifndef WORK_SERVER_H
#define WORK_SERVER_H
#include "address.h"
#include "credentials.h"
#include "dealer.h"
#include "work_task.h"

enum { WORK_SERVER_TASKS_MAX = 8 * WIRE_WORK_PROCESSORS_MAX };

typedef enum {
    WORK_SERVER_AWAY,                   //  no connection: a new one at retry_ms
    WORK_SERVER_ASKED,                  //  HELLO is sent
    WORK_SERVER_WORKING,
    WORK_SERVER_REFUSED                 //  for good
} work_server_state_t;

typedef struct work_server {
    //  set by the owner
    char address [ADDRESS_BYTES];
    uint32_t weight;
    const char *server_key;             //  NULL: $TUREEN_SERVER_KEY, or none
    credentials_t credentials;
    void *context;                      //  lent: for dealers
    work_hello_t hello;
    catalogue_t *const *catalogues;     //  lent: those of hello, in its order
    //  this file's
    work_server_state_t state;
    dealer_t *dealer;
    dealer_message_t message;
    uint64_t session;
    int64_t retry_ms, heard_ms, beat_ms;
    bool said_away;                     //  the line that it is not there
    bool has_said_goodbye;              //  the server has
    struct { uint32_t number; const pipeline_t *pipeline; } pipelines [WIRE_WORK_PIPELINES_MAX];
    work_task_t *first, *last;          //  waiting
    size_t waiting, out;                //  out: with the threads
    double task_ns;                     //  a running mean; 0: unknown
    uint64_t done;
    work_task_t *golden;                //  to be submitted; the owner takes it
} work_server_t;

void work_server_init (work_server_t *self);
void work_server_destroy (work_server_t *self);

//  Connects, receives, sends heartbeats; never blocks.  Finished and dropped tasks go into *free_p, new ones
//  come from there.
void work_server_turn (work_server_t *self, work_task_t **free_p, int64_t now_ms);
//  When to call it at the latest.
int64_t work_server_wakeup (const work_server_t *self);
//  The oldest task that waits; NULL: none.
work_task_t *work_server_take (work_server_t *self);
//  A thread has done the task: it is answered, unless the connection is another one.
void work_server_done (work_server_t *self, work_task_t *task);
void work_server_goodbye (work_server_t *self);

#endif

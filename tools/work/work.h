/*  work -- the parts of `tureen work`: tasks for its threads, and the servers that it lends processors to.
 *
 *  happy path:     HELLO -> CHALLENGE -> golden samples (a task) -> ANSWER -> WELCOME; PIPELINE and TASK ->
 *                  waiting tasks, which the owner takes in turn -> RESULT
 *  failure modes:  a connection that is lost, a server that is silent or knows nothing of this worker: a new
 *                  connection, for ever.  REFUSED, and ERRORs that stay: no more.
 *  on close:       work_server_goodbye, and a second for the server to hear it.
 *
 *  All foreign bytes come in by work_server_turn.  Owner: the network thread; a task is a thread's from
 *  pool_submit until pool_done.
 */
#ifndef WORK_H
#define WORK_H
#include <stdint.h>
#include <zmq.h>
#include "address.h"
#include "build_check.h"
#include "catalogue.h"
#include "credentials.h"
#include "dealer.h"
#include "pipeline.h"
#include "work_message.h"

//  ---- a task: a sample to prepare, or the golden samples of a build check

struct work_server;

typedef struct work_task {
    struct work_task *next;             //  free, or waiting
    struct work_server *server;
    uint64_t session;                   //  of the server's connections: answers of earlier ones are dropped
    uint64_t arrived_ns;                //  clock.h
    bool is_build_check;
    uint64_t nonce, digests [BUILD_CHECK_SAMPLES];   //  of a build check
    bool is_made;
    //  a sample
    uint64_t number;
    wire_work_task_t wire;
    const pipeline_t *pipeline;         //  one reference
    zmq_msg_t bytes;                    //  frame 2
    const catalogue_t *catalogue;       //  lent: the files are read from there; NULL: bytes has them
    wire_work_result_t result;
    char what [WORK_TEXT_BYTES];        //  unless it is ready: why
    size_t version_bytes;
    uint8_t *rows;                      //  learned, result.rows_bytes of them; NULL: none
    uint64_t payers, estimate_ns;       //  fairness.h
    //  kept from task to task
    uint8_t *version;
    size_t room;
    catalogue_buffer_t buffers [WIRE_WORK_FILES_MAX];
} work_task_t;

//  NULL: no memory.  The bytes are an empty message.
work_task_t *work_task_new (void);
void work_task_destroy (work_task_t **self_p);
//  Gives up what belongs to one sample.
void work_task_clear (work_task_t *self);

//  For the pool: carries out a task with a thread's memory (decoder_worker_new).
void work_task_carry_out (void *worker, void *task);

//  ---- a server: connection, handshake and tasks

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
    work_task_t *build_check;           //  to be submitted; the owner takes it
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

/*  work_task -- what `tureen work` gives to its threads: a sample to prepare, or golden samples.
 *
 *  A task is a thread's from pool_submit until pool_done; otherwise the network thread's.
 */
#ifndef WORK_TASK_H
#define WORK_TASK_H
#include <stdint.h>
#include <zmq.h>
#include "catalogue.h"
#include "golden.h"
#include "pipeline.h"
#include "work_message.h"

struct work_server;

typedef struct work_task {
    struct work_task *next;             //  free, or waiting
    struct work_server *server;
    uint64_t session;                   //  of the server's connections: answers of earlier ones are dropped
    uint64_t arrived_ns;                //  clock.h
    bool is_golden;
    uint64_t nonce, digests [GOLDEN_SAMPLES];   //  golden
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

//  For the pool: a thread's memory, and carrying out a task with it.
void *work_task_worker_new (void);
void work_task_worker_destroy (void *worker);
void work_task_carry_out (void *worker, void *task);

#endif

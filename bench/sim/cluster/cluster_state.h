/*  cluster_state -- what a run of cluster_sim consists of, for its own files.  */
#ifndef CLUSTER_STATE_H
#define CLUSTER_STATE_H
#include "cluster_blocks.h"
#include "cluster_queue.h"
#include "cluster_reads.h"
#include "cluster_run.h"

typedef struct {
    uint32_t job;
    bool is_present;
    uint32_t generation;            //  how often it went
    double slowness;
    double disk, out, in, store, work;          //  the moments from which each of these is free
    uint32_t asked;                 //  requests that are not consumed
    uint32_t sending;               //  to others
    double finished;                //  when it had read its part
} cluster_node_t;

//  A node wants a block; or a home does, for those that wait.
typedef struct {
    uint32_t node, block;
    uint32_t place, epoch;          //  of the job
    uint32_t server, server_generation;         //  CLUSTER_NO_NODE: the store
    uint32_t next;                  //  waits for the same flight, or is free
    uint32_t first_waiter, last_waiter;         //  of a flight; last: unless first is CLUSTER_NO_REQUEST
    bool is_used, is_flight;
    bool is_dead;                   //  its node went
    bool has_credit;                //  of the server
    double ready;                   //  when the last byte leaves the queue before
} cluster_request_t;

typedef struct {
    uint32_t epoch;                 //  plan->epochs: it is done
    uint32_t left;                  //  blocks that are not consumed
    double begun;
} cluster_job_t;

typedef enum { CLUSTER_AT_HOME, CLUSTER_STORE, CLUSTER_OUT, CLUSTER_IN, CLUSTER_ARRIVE, CLUSTER_CONSUMED }
    cluster_kind_t;

enum { CLUSTER_NO_REQUEST = UINT32_MAX };

typedef struct {
    const cluster_plan_t *plan;
    uint32_t blocks, node_count;    //  node_count: that ever come
    uint32_t present;               //  nodes 0 .. present - 1
    double now, store;              //  store: the moment from which it is free
    cluster_queue_t queue;
    cluster_blocks_t *caches;
    cluster_reads_t *reads;
    cluster_node_t *nodes;
    cluster_job_t *jobs;
    cluster_request_t *requests;
    size_t request_count, request_room;
    uint32_t free_request;
    uint32_t *flights;              //  by block: the request that fetches it, plus 1; NULL without peers
    cluster_epoch_t *epochs;
    uint32_t *sent, *received;      //  [epoch] [node]: blocks over links
    double *node_seconds;           //  by epoch: of all nodes
    uint64_t *node_epochs;          //  by epoch: how many nodes
    cluster_watch_fn *watch;
    void *context;
} cluster_state_t;

//  ---- cluster_flow.c: a block's way

//  The node asks for as many blocks as it may.
void cluster_flow_fill (cluster_state_t *self, uint32_t node);
//  Carries out the event.  CLUSTER_NO_REQUEST, or the request that is consumed: the caller frees it.
uint32_t cluster_flow_step (cluster_state_t *self, const cluster_event_t *event);
void cluster_flow_free (cluster_state_t *self, uint32_t request);

#endif

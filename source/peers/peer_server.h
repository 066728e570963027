/*  peer_server -- gives other members the blocks of which this server is the home.
 *
 *  A thread with a ROUTER of its own.  It reads what is in the cache on the local disk; the rest it has the
 *  store's reader fetch (cluster_fetch_t), which keeps it and reads each block once, however many members
 *  ask.
 *
 *  Bounds:         GIVEN_MAX answers of up to 4 MiB at once, of one member at most MEMBER_GIVEN_MAX while
 *                  others wait; QUESTIONS_MAX questions wait, of one member MEMBER_QUESTIONS_MAX; beyond
 *                  that the answer is PEER_REASON_BUSY.  The thread, and ZeroMQ's that sends, give way to all
 *                  others of this machine (nice + NICER), so that the server's own jobs lose little.
 *  Keys:           with keys, CURVE admits those that have the server's own key pair: the members have one
 *                  and no client has it.
 *  failure modes:  a question that makes no sense gets PEER_REASON_INVALID; what is no question, nothing.
 */
#ifndef PEER_SERVER_H
#define PEER_SERVER_H
#include <stddef.h>
#include <stdint.h>
#include "cluster.h"

typedef struct peer_server peer_server_t;

typedef struct {
    uint64_t blocks, bytes;             //  given
    uint64_t fetched;                   //  of the blocks, those that had to be read of the store first
    uint64_t refused [PEER_REASONS];
    uint64_t rejected;                  //  connections without the right key
    size_t waiting;                     //  questions
} peer_server_figures_t;

//  Binds to the port of the cluster's name and starts the thread.  0; or -errno, *self_p NULL and in error
//  what is wrong and how to mend it.
int peer_server_new (peer_server_t **self_p, cluster_t *cluster, char *error, size_t error_bytes);
//  Ends the thread; fetches that readers still have are theirs until they come back through the cluster.
void peer_server_stop (peer_server_t *self);
//  After all readers have ended.
void peer_server_destroy (peer_server_t **self_p);
//  Any thread.
peer_server_figures_t peer_server_figures (peer_server_t *self);

#endif

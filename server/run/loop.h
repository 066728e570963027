/*  loop -- the event loop of a server: it polls for messages, the ring server, results, questions of viewers
 *  and the time, and sees to all of them, each turn in the same order, until the server ends.  Beside that
 *  it looks at what comes often or matters to the operator, and logs it.
 *
 *  Owner: the broker's thread.
 */
#ifndef LOOP_H
#define LOOP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "additions.h"
#include "growth.h"
#include "block_cache.h"
#include "client_keys.h"
#include "client_socket.h"
#include "connection_limit.h"
#include "customs.h"
#include "dataset.h"
#include "http_server.h"
#include "log.h"
#include "members.h"
#include "ring_server.h"
#include "served.h"
#include "service.h"
#include "tasks.h"
#include "tenants.h"

//  An event that may come a thousand times, as the log reports it.
typedef struct {
    uint64_t count;
    int64_t at_ms;                      //  when it was logged last
} loop_told_t;

typedef struct {
    //  the caller's; lent
    broker_t *broker;
    tasks_t *tasks;
    service_t *service;
    additions_t *additions;
    growth_t *growth;
    ring_server_t *ring_server;
    client_socket_t *client_socket;
    connection_limit_t *connection_limit;
    const tenants_t *tenants;
    client_keys_t *keys;                //  NULL: on ipc, or open
    customs_t *customs;                 //  NULL: none, as the next three
    block_cache_t *block_cache;
    members_t *members;
    http_server_t *http_server;
    served_sets_t *sets;
    const char *const *viewers;         //  of it, behind the operator: tenants by name
    int64_t idle_limit_ms;              //  0: the server never ends by itself
    int signals;                        //  a descriptor, readable when the server is to end
    size_t waiting_bytes_max;           //  of one user, as the receive quota has it
    log_t *log;
    //  the loop's; zeros at first
    int64_t memory_ms;                  //  when it looked last how much memory this process may use
    loop_told_t turned_away;            //  by the connection limit
    loop_told_t resets;                 //  of the receive quota
    loop_told_t shortages;              //  of memory and descriptors
    loop_told_t damaged;                //  in the cache on the local disk
    loop_told_t set_aside;              //  that cache
    bool is_set_aside;                  //  that was logged
    bool block_cache_failed;            //  that was logged
    bool members_have_trouble;          //  that was logged
} loop_t;

//  Until a signal or an operator asks for the end, no job is left (--until-idle), or the server is drained.
//  Returns its time then, for calls of its parts afterwards: it stands still where this thread does.
int64_t loop_run (loop_t *self);

#endif

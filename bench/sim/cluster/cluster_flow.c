//  A block's way from a cache or the store to the node that reads it.  cluster_run.h says which way it takes.

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "cluster_state.h"

//  ---- requests

static uint32_t
s_new (cluster_state_t *self)
{
    uint32_t number = self->free_request;
    if (number != CLUSTER_NO_REQUEST)
        self->free_request = self->requests [number].next;
    else {
        if (self->request_count == self->request_room) {
            self->request_room = self->request_room? 2 * self->request_room: 1024;
            self->requests = realloc (self->requests, self->request_room * sizeof *self->requests);
            assert (self->requests);
        }
        number = (uint32_t) self->request_count++;
    }
    self->requests [number] = (cluster_request_t) {
        .is_used = true, .server = CLUSTER_NO_NODE, .first_waiter = CLUSTER_NO_REQUEST
    };
    return number;
}

void
cluster_flow_free (cluster_state_t *self, uint32_t request)
{
    assert (self->requests [request].is_used);
    self->requests [request].is_used = false;
    self->requests [request].next = self->free_request;
    self->free_request = request;
}

static cluster_epoch_t *
s_figures (cluster_state_t *self, const cluster_request_t *request)
{
    return &self->epochs [request->epoch];
}

static void
s_add (cluster_state_t *self, double time, cluster_kind_t kind, uint32_t request)
{
    cluster_queue_add (&self->queue, time, kind, request);
}

//  A queue serves a block for so long; returns when it begins to.
static double
s_serve (double *free_at, double now, double seconds)
{
    double begin = fmax (*free_at, now);
    *free_at = begin + seconds;
    return begin;
}

static bool
s_server_is_there (const cluster_state_t *self, const cluster_request_t *request)
{
    const cluster_node_t *server = &self->nodes [request->server];
    return server->is_present && server->generation == request->server_generation;
}

static void
s_release_credit (cluster_state_t *self, cluster_request_t *request)
{
    if (request->has_credit && s_server_is_there (self, request)) {
        assert (self->nodes [request->server].sending > 0);
        self->nodes [request->server].sending--;
    }
    request->has_credit = false;
}

//  ---- the store

static void
s_ask_store (cluster_state_t *self, uint32_t number, double at)
{
    cluster_request_t *request = &self->requests [number];
    s_release_credit (self, request);
    request->server = CLUSTER_NO_NODE;
    s_add (self, at + self->plan->store_delay, CLUSTER_STORE, number);
}

static void
s_send_from_store (cluster_state_t *self, uint32_t number)
{
    const cluster_request_t *request = &self->requests [number];
    cluster_node_t *node = &self->nodes [request->node];
    double block = self->plan->block;
    double begin = s_serve (&self->store, self->now, block / self->plan->store);
    s_serve (&node->store, begin, block / self->plan->store_node * node->slowness);
    s_figures (self, request)->store++;
    s_add (self, fmax (self->store, node->store), CLUSTER_ARRIVE, number);
}

//  ---- a peer

//  With the node's own queues: with a slow link they are the longest (docs/cluster_cache.md).
static bool
s_is_too_slow (const cluster_state_t *self, uint32_t reader, uint32_t home)
{
    const cluster_plan_t *plan = self->plan;
    const cluster_node_t *server = &self->nodes [home];
    double disk = plan->disk > 0? fmax (server->disk - self->now, 0) + plan->block / plan->disk: 0;
    const cluster_node_t *node = &self->nodes [reader];
    double peer = 2 * plan->link_delay + disk + fmax (fmax (server->out, node->in) - self->now, 0)
        + plan->block / plan->link * server->slowness;
    double store = plan->store_delay + fmax (fmax (self->store, node->store) - self->now, 0)
        + plan->block / fmin (plan->store, plan->store_node);
    return peer > plan->preference * store;
}

static void
s_ask_peer (cluster_state_t *self, uint32_t number, uint32_t server)
{
    cluster_request_t *request = &self->requests [number];
    request->server = server;
    request->server_generation = self->nodes [server].generation;
    s_add (self, self->now + self->plan->link_delay, CLUSTER_AT_HOME, number);
}

//  From the memory of a home that has just fetched it, or from its disk.
static void
s_send (cluster_state_t *self, uint32_t number, bool is_on_disk)
{
    cluster_request_t *request = &self->requests [number];
    cluster_node_t *server = &self->nodes [request->server];
    double begin = self->now;
    request->ready = self->now;
    if (is_on_disk && self->plan->disk > 0) {
        begin = s_serve (&server->disk, self->now, self->plan->block / self->plan->disk * server->slowness);
        request->ready = server->disk;
    }
    if (request->server == request->node)
        s_add (self, request->ready, CLUSTER_ARRIVE, number);
    else
        s_add (self, begin, CLUSTER_OUT, number);
}

static void
s_go_out (cluster_state_t *self, uint32_t number)
{
    cluster_request_t *request = &self->requests [number];
    cluster_node_t *server = &self->nodes [request->server];
    double begin = s_serve (&server->out, self->now,
        self->plan->block / self->plan->link * server->slowness);
    request->ready = fmax (request->ready, server->out);
    s_add (self, begin + self->plan->link_delay, CLUSTER_IN, number);
}

static void
s_come_in (cluster_state_t *self, uint32_t number)
{
    const cluster_request_t *request = &self->requests [number];
    cluster_node_t *node = &self->nodes [request->node];
    s_serve (&node->in, self->now, self->plan->block / self->plan->link * node->slowness);
    s_add (self, fmax (node->in, request->ready + self->plan->link_delay), CLUSTER_ARRIVE, number);
}

//  ---- a home fetches

//  The block's flight to this home.  CLUSTER_NO_REQUEST: none.
static uint32_t
s_flight (const cluster_state_t *self, uint32_t home, uint32_t block)
{
    if (!self->flights || self->flights [block] == 0)
        return CLUSTER_NO_REQUEST;
    const cluster_request_t *flight = &self->requests [self->flights [block] - 1];
    return flight->node == home && !flight->is_dead? self->flights [block] - 1: CLUSTER_NO_REQUEST;
}

//  CLUSTER_NO_REQUEST: an earlier home's flight is still under way.
static uint32_t
s_flight_new (cluster_state_t *self, uint32_t home, const cluster_request_t *first)
{
    uint32_t block = first->block, epoch = first->epoch, holder = cluster_blocks_holder (self->caches, block);
    if (self->flights [block])
        return CLUSTER_NO_REQUEST;
    uint32_t number = s_new (self);
    cluster_request_t *flight = &self->requests [number];
    flight->node = home;
    flight->block = block;
    flight->epoch = epoch;
    flight->is_flight = true;
    self->flights [block] = number + 1;
    if (self->plan->hands_over && holder != CLUSTER_NO_NODE && self->nodes [holder].is_present)
        s_ask_peer (self, number, holder);
    else
        s_ask_store (self, number, self->now);
    return number;
}

static void
s_wait (cluster_state_t *self, uint32_t number, uint32_t flight)
{
    cluster_request_t *of = &self->requests [flight];
    if (of->first_waiter == CLUSTER_NO_REQUEST)
        of->first_waiter = number;
    else
        self->requests [of->last_waiter].next = number;
    of->last_waiter = number;
    self->requests [number].next = CLUSTER_NO_REQUEST;
}

//  Those that wait are sent the block; or, if the home went, ask the store.
static void
s_flight_end (cluster_state_t *self, uint32_t number)
{
    cluster_request_t *flight = &self->requests [number];
    uint32_t waiter = flight->first_waiter;
    self->flights [flight->block] = 0;
    if (!flight->is_dead && cluster_blocks_home (self->caches, flight->node, flight->block) == flight->node)
        cluster_blocks_keep (self->caches, flight->node, flight->block);
    while (waiter != CLUSTER_NO_REQUEST) {
        cluster_request_t *request = &self->requests [waiter];
        uint32_t next = request->next;
        if (request->is_dead) {
            s_release_credit (self, request);
            cluster_flow_free (self, waiter);
        }
        else
        if (flight->is_dead) {
            s_figures (self, request)->lost++;
            s_ask_store (self, waiter, self->now);
        }
        else
            s_send (self, waiter, false);
        waiter = next;
    }
    cluster_flow_free (self, number);
}

//  ---- a home is asked

//  The server has not the block.  False: it says no.
static bool
s_fetch (cluster_state_t *self, uint32_t number)
{
    const cluster_request_t *request = &self->requests [number];
    uint32_t server = request->server, flight = s_flight (self, server, request->block);
    if (request->is_flight || !self->flights
        || cluster_blocks_home (self->caches, server, request->block) != server)
        return false;
    if (flight == CLUSTER_NO_REQUEST
        && (cluster_blocks_has_room (self->caches, server)
            || (self->plan->relays && server != request->node)))
        flight = s_flight_new (self, server, &self->requests [number]);
    if (flight == CLUSTER_NO_REQUEST)
        return false;
    s_wait (self, number, flight);
    return true;
}

static void
s_be_asked (cluster_state_t *self, uint32_t number)
{
    cluster_request_t *request = &self->requests [number];
    cluster_node_t *server = &self->nodes [request->server];
    bool is_remote = request->server != request->node;
    double reply = self->now + (is_remote? self->plan->link_delay: 0);
    if (is_remote && server->sending >= self->plan->credit) {
        s_figures (self, request)->refused++;
        s_ask_store (self, number, reply);
        return;
    }
    request->has_credit = is_remote;
    server->sending += is_remote;
    if (cluster_blocks_holds (self->caches, request->server, request->block)) {
        s_send (self, number, true);
        return;
    }
    if (s_fetch (self, number))
        return;
    request = &self->requests [number];             //  requests may have moved
    s_figures (self, request)->absent += is_remote;
    s_ask_store (self, number, reply);
}

//  ---- the node

static void
s_ask (cluster_state_t *self, uint32_t number)
{
    cluster_request_t *request = &self->requests [number];
    uint32_t home = cluster_blocks_home (self->caches, request->node, request->block);
    if (home == CLUSTER_NO_NODE)
        s_ask_store (self, number, self->now);
    else
    if (home == request->node) {
        request->server = home;
        request->server_generation = self->nodes [home].generation;
        s_be_asked (self, number);
    }
    else
    if (s_is_too_slow (self, request->node, home)) {
        s_figures (self, request)->bypassed++;
        s_ask_store (self, number, self->now);
    }
    else
        s_ask_peer (self, number, home);
}

void
cluster_flow_fill (cluster_state_t *self, uint32_t node)
{
    uint32_t place, job = self->nodes [node].job;
    while (self->nodes [node].asked < self->plan->ahead && cluster_reads_next (self->reads, node, &place)) {
        uint32_t number = s_new (self);
        cluster_request_t *request = &self->requests [number];
        request->node = node;
        request->place = place;
        request->block = cluster_reads_block (self->reads, job, place);
        request->epoch = self->jobs [job].epoch;
        self->nodes [node].asked++;
        s_ask (self, number);
    }
}

static void
s_count_arrival (cluster_state_t *self, const cluster_request_t *request)
{
    cluster_epoch_t *figures = s_figures (self, request);
    size_t row = (size_t) request->epoch * self->node_count;
    bool is_remote = request->server != CLUSTER_NO_NODE && request->server != request->node;
    if (is_remote) {
        self->sent [row + request->server]++;
        self->received [row + request->node]++;
    }
    if (request->is_flight) {
        figures->handed += is_remote;
        return;
    }
    figures->local += request->server == request->node;
    figures->peers += is_remote;
    figures->direct += request->server == CLUSTER_NO_NODE;
}

//  Whether the request is consumed at once.
static bool
s_arrive (cluster_state_t *self, uint32_t number)
{
    cluster_request_t *request = &self->requests [number];
    cluster_node_t *node = &self->nodes [request->node];
    s_count_arrival (self, request);
    s_release_credit (self, request);
    if (request->is_flight) {
        s_flight_end (self, number);
        return false;
    }
    //  Without peers the node keeps what it reads.
    if (!self->flights)
        cluster_blocks_keep (self->caches, request->node, request->block);
    if (self->plan->rate <= 0)
        return true;
    s_serve (&node->work, self->now,
        self->plan->block / (self->plan->rate * self->plan->ranks) * node->slowness);
    s_add (self, node->work, CLUSTER_CONSUMED, number);
    return false;
}

//  The request's node, or the node that sends it the block, went.  False: neither did.
static bool
s_is_cut_off (cluster_state_t *self, uint32_t number, uint32_t kind)
{
    cluster_request_t *request = &self->requests [number];
    if (request->is_dead) {
        s_release_credit (self, request);
        if (request->is_flight)
            s_flight_end (self, number);
        else
            cluster_flow_free (self, number);
        return true;
    }
    bool is_sent = kind == CLUSTER_AT_HOME || kind == CLUSTER_OUT || kind == CLUSTER_IN;
    if (!is_sent || s_server_is_there (self, request))
        return false;
    s_figures (self, request)->lost++;
    request->has_credit = false;
    s_ask_store (self, number, self->now);
    return true;
}

uint32_t
cluster_flow_step (cluster_state_t *self, const cluster_event_t *event)
{
    uint32_t number = event->subject;
    self->now = event->time;
    if (s_is_cut_off (self, number, event->kind))
        return CLUSTER_NO_REQUEST;
    switch ((cluster_kind_t) event->kind) {
    case CLUSTER_AT_HOME:
        s_be_asked (self, number);
        break;
    case CLUSTER_STORE:
        s_send_from_store (self, number);
        break;
    case CLUSTER_OUT:
        s_go_out (self, number);
        break;
    case CLUSTER_IN:
        s_come_in (self, number);
        break;
    case CLUSTER_ARRIVE:
        return s_arrive (self, number)? number: CLUSTER_NO_REQUEST;
    case CLUSTER_CONSUMED:
        return number;
    }
    return CLUSTER_NO_REQUEST;
}

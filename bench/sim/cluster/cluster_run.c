#include "cluster_run.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "cluster_state.h"
#include "simulated_memory.h"

enum { CHECKED_MAX = 20000000 };    //  blocks times nodes, for homes that are made anew at the end

//  ---- jobs and their epochs

static uint32_t
s_job_nodes (const cluster_state_t *self, uint32_t job, uint32_t *nodes)
{
    uint32_t count = 0;
    for (uint32_t node = 0; node < self->present; node++)
        if (self->nodes [node].job == job)
            nodes [count++] = node;
    return count;
}

static void
s_fill_all (cluster_state_t *self, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        self->nodes [nodes [at]].finished = self->now;
        cluster_flow_fill (self, nodes [at]);
    }
}

static void
s_begin_epoch (cluster_state_t *self, uint32_t job)
{
    uint32_t *nodes = simulated_alloc (self->present, sizeof *nodes);
    uint32_t count = s_job_nodes (self, job, nodes);
    self->jobs [job].left = self->blocks;
    self->jobs [job].begun = self->now;
    cluster_reads_begin (self->reads, job, nodes, count);
    s_fill_all (self, nodes, count);
    free (nodes);
}

//  What caches of these sizes leave to the store: with homes, and each node alone.
static void
s_count_limits (cluster_state_t *self, uint32_t epoch)
{
    cluster_epoch_t *figures = &self->epochs [epoch];
    uint64_t held = 0, homed = 0, jobs = self->plan->jobs;
    double ratio = 0, alone = 0;
    for (uint32_t node = 0; node < self->present; node++) {
        uint32_t capacity = cluster_blocks_capacity (self->caches, node);
        held += capacity;
        homed += cluster_blocks_homed (self->caches, node);
        if (capacity > 0)
            ratio = fmax (ratio, cluster_blocks_homed (self->caches, node) / (double) capacity);
        alone += (capacity < self->blocks? 1 - capacity / (double) self->blocks: 0) / self->present;
    }
    figures->homed_ratio = homed > 0? ratio * (double) held / (double) homed: NAN;
    held = held < self->blocks? held: self->blocks;
    figures->least = jobs * (self->blocks - held) + (epoch == 0? held: 0);
    double all = (double) (jobs * self->blocks);
    figures->alone = epoch == 0? jobs * self->blocks: (uint64_t) (alone * all + .5);
    figures->nodes = self->present;
}

static void
s_end_epoch (cluster_state_t *self, uint32_t number)
{
    cluster_job_t *job = &self->jobs [number];
    cluster_epoch_t *figures = &self->epochs [job->epoch];
    figures->seconds = fmax (figures->seconds, self->now - job->begun);
    for (uint32_t node = 0; node < self->present; node++)
        if (self->nodes [node].job == number) {
            self->node_seconds [job->epoch] += self->nodes [node].finished - job->begun;
            self->node_epochs [job->epoch]++;
        }
    if (number == 0)
        s_count_limits (self, job->epoch);
    if (++job->epoch < self->plan->epochs)
        s_begin_epoch (self, number);
}

//  ---- nodes come and go

//  All jobs cut what is left of their epochs anew.
static void
s_cut_all (cluster_state_t *self)
{
    uint32_t *nodes = simulated_alloc (self->present, sizeof *nodes);
    for (uint32_t job = 0; job < self->plan->jobs; job++) {
        if (self->jobs [job].epoch == self->plan->epochs)
            continue;
        uint32_t count = s_job_nodes (self, job, nodes);
        for (uint32_t at = 0; at < count; at++)
            cluster_reads_return_all (self->reads, job, nodes [at]);
        cluster_reads_cut (self->reads, job, nodes, count);
        for (uint32_t at = 0; at < count; at++)
            cluster_flow_fill (self, nodes [at]);
    }
    free (nodes);
}

static void
s_leave (cluster_state_t *self, uint32_t count)
{
    assert (count < self->present);
    self->present -= count;
    for (uint32_t node = self->present; node < self->present + count; node++) {
        self->nodes [node].is_present = false;
        self->nodes [node].generation++;
        self->nodes [node].asked = self->nodes [node].sending = 0;
        cluster_reads_return_all (self->reads, self->nodes [node].job, node);
    }
    for (size_t number = 0; number < self->request_count; number++) {
        cluster_request_t *request = &self->requests [number];
        bool is_its = request->node >= self->present && request->node < self->present + count;
        if (!request->is_used || request->is_dead || !is_its)
            continue;
        request->is_dead = true;
        if (!request->is_flight)
            cluster_reads_return (self->reads, self->nodes [request->node].job, request->place);
    }
    cluster_blocks_leave (self->caches, self->present, count);
}

static void
s_join (cluster_state_t *self, uint32_t count)
{
    for (uint32_t node = self->present; node < self->present + count; node++) {
        cluster_node_t *joined = &self->nodes [node];
        joined->is_present = true;
        joined->disk = joined->out = joined->in = joined->store = joined->work = self->now;
        joined->finished = self->now;
    }
    cluster_blocks_join (self->caches, self->present, count);
    self->present += count;
}

//  Once the first job has read enough.  Returns the number of the next change.
static size_t
s_change (cluster_state_t *self, size_t next)
{
    const cluster_plan_t *plan = self->plan;
    const cluster_job_t *first = &self->jobs [0];
    double read = first->epoch + 1 - first->left / (double) self->blocks;
    for (; next < plan->change_count && read >= plan->changes [next].at; next++) {
        int32_t count = plan->changes [next].count;
        if (count < 0)
            s_leave (self, (uint32_t) -count);
        else
            s_join (self, (uint32_t) count);
        s_cut_all (self);
    }
    return next;
}

//  ---- running

static void
s_consume (cluster_state_t *self, uint32_t number)
{
    cluster_request_t request = self->requests [number];
    cluster_node_t *node = &self->nodes [request.node];
    cluster_job_t *job = &self->jobs [node->job];
    assert (request.epoch == job->epoch && job->left > 0 && node->asked > 0);
    if (self->watch)
        self->watch (self->context, node->job, request.epoch, request.node, request.block);
    self->epochs [request.epoch].reads++;
    job->left--;
    node->asked--;
    node->finished = self->now;
    cluster_flow_free (self, number);
    cluster_flow_fill (self, request.node);
}

static void
s_play (cluster_state_t *self)
{
    cluster_event_t event;
    size_t next = 0;
    for (uint32_t job = 0; job < self->plan->jobs; job++)
        s_begin_epoch (self, job);
    while (cluster_queue_next (&self->queue, &event)) {
        uint32_t consumed = cluster_flow_step (self, &event);
        if (consumed == CLUSTER_NO_REQUEST)
            continue;
        uint32_t job = self->nodes [self->requests [consumed].node].job;
        s_consume (self, consumed);
        if (job == 0)
            next = s_change (self, next);
        if (self->jobs [job].left == 0)
            s_end_epoch (self, job);
    }
}

static void
s_set_up (cluster_state_t *self, uint64_t seed)
{
    const cluster_plan_t *plan = self->plan;
    self->blocks = cluster_plan_blocks (plan);
    self->node_count = cluster_plan_nodes_max (plan);
    assert (plan->jobs > 0 && plan->jobs <= plan->nodes && self->blocks > 0);
    self->free_request = CLUSTER_NO_REQUEST;
    self->caches = cluster_blocks_new (plan);
    self->reads = cluster_reads_new (self->blocks, plan->jobs, self->node_count, seed);
    self->nodes = simulated_alloc (self->node_count, sizeof *self->nodes);
    self->jobs = simulated_alloc (plan->jobs, sizeof *self->jobs);
    size_t cells = (size_t) plan->epochs * self->node_count;
    self->sent = simulated_alloc (cells, sizeof *self->sent);
    self->received = simulated_alloc (cells, sizeof *self->received);
    self->node_seconds = simulated_alloc (plan->epochs, sizeof *self->node_seconds);
    self->node_epochs = simulated_alloc (plan->epochs, sizeof *self->node_epochs);
    if (plan->peers == CLUSTER_HOMES)
        self->flights = simulated_alloc (self->blocks, sizeof *self->flights);
    for (uint32_t node = 0; node < self->node_count; node++) {
        self->nodes [node].job = node % plan->jobs;
        self->nodes [node].slowness = node < plan->slow? plan->slow_factor: 1;
    }
    s_join (self, plan->nodes);
}

static void
s_count_links (cluster_state_t *self, uint32_t epoch)
{
    cluster_epoch_t *figures = &self->epochs [epoch];
    size_t row = (size_t) epoch * self->node_count;
    for (uint32_t node = 0; node < self->node_count; node++) {
        figures->out_max = fmax (figures->out_max, self->sent [row + node]);
        figures->out_mean += self->sent [row + node] / (double) figures->nodes;
        figures->in_max = fmax (figures->in_max, self->received [row + node]);
        figures->in_mean += self->received [row + node] / (double) figures->nodes;
    }
    figures->node_seconds = self->node_seconds [epoch] / (double) self->node_epochs [epoch];
}

//  Everything that was begun is over.
static void
s_check (const cluster_state_t *self)
{
    for (size_t number = 0; number < self->request_count; number++)
        assert (!self->requests [number].is_used);
    for (uint32_t node = 0; node < self->node_count; node++)
        assert (self->nodes [node].asked == 0 && self->nodes [node].sending == 0);
    for (uint32_t epoch = 0; epoch < self->plan->epochs; epoch++)
        assert (self->epochs [epoch].reads == (uint64_t) self->blocks * self->plan->jobs);
    if ((uint64_t) self->blocks * self->node_count <= CHECKED_MAX)
        cluster_blocks_check (self->caches);
}

static void
s_tear_down (cluster_state_t *self)
{
    cluster_queue_clear (&self->queue);
    cluster_blocks_destroy (&self->caches);
    cluster_reads_destroy (&self->reads);
    free (self->nodes);
    free (self->jobs);
    free (self->requests);
    free (self->flights);
    free (self->sent);
    free (self->received);
    free (self->node_seconds);
    free (self->node_epochs);
}

void
cluster_run (const cluster_plan_t *plan, uint64_t seed, cluster_epoch_t *epochs, cluster_watch_fn *watch,
    void *context)
{
    cluster_state_t self = { .plan = plan, .epochs = epochs, .watch = watch, .context = context };
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++)
        epochs [epoch] = (cluster_epoch_t) { .seconds = 0 };
    s_set_up (&self, seed);
    s_play (&self);
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++)
        s_count_links (&self, epoch);
    s_check (&self);
    s_tear_down (&self);
}

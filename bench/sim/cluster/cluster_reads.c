#include "cluster_reads.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "permutation.h"
#include "simulated_memory.h"

//  Places [first .. end).
typedef struct { uint32_t first, end; } span_t;

typedef struct {
    span_t *spans;
    size_t count, room;
} spans_t;

typedef struct {
    uint64_t epoch;                 //  of the next begin
    permutation_t order;
    spans_t returned;
} job_t;

struct cluster_reads {
    uint32_t blocks, job_count, node_count;
    uint64_t seed;
    job_t *jobs;
    spans_t *nodes;                 //  each with its next span last
};

static void
s_push (spans_t *self, uint32_t first, uint32_t end)
{
    if (self->count == self->room) {
        self->room = self->room? 2 * self->room: 1;
        self->spans = realloc (self->spans, self->room * sizeof *self->spans);
        assert (self->spans);
    }
    self->spans [self->count++] = (span_t) { .first = first, .end = end };
}

cluster_reads_t *
cluster_reads_new (uint32_t blocks, uint32_t jobs, uint32_t nodes, uint64_t seed)
{
    cluster_reads_t *self = simulated_alloc (1, sizeof *self);
    self->blocks = blocks;
    self->job_count = jobs;
    self->node_count = nodes;
    self->seed = seed;
    self->jobs = simulated_alloc (jobs, sizeof *self->jobs);
    self->nodes = simulated_alloc (nodes, sizeof *self->nodes);
    return self;
}

void
cluster_reads_destroy (cluster_reads_t **self_p)
{
    assert (self_p);
    cluster_reads_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t node = 0; node < self->node_count; node++)
        free (self->nodes [node].spans);
    for (uint32_t job = 0; job < self->job_count; job++)
        free (self->jobs [job].returned.spans);
    free (self->nodes);
    free (self->jobs);
    free (self);
    *self_p = NULL;
}

//  ---- cutting

static int
s_compare (const void *one, const void *other)
{
    uint32_t left = ((const span_t *) one)->first, right = ((const span_t *) other)->first;
    return left < right? -1: left > right;
}

//  The next span is the last.
static void
s_turn (spans_t *self)
{
    for (size_t low = 0, high = self->count; low + 1 < high; low++, high--) {
        span_t kept = self->spans [low];
        self->spans [low] = self->spans [high - 1];
        self->spans [high - 1] = kept;
    }
}

//  In order, in runs of equal length.
void
cluster_reads_cut (cluster_reads_t *self, uint32_t job, const uint32_t *nodes, uint32_t count)
{
    spans_t *row = &self->jobs [job].returned;
    uint64_t all = 0, dealt = 0;
    size_t at = 0;
    qsort (row->spans, row->count, sizeof *row->spans, s_compare);
    for (size_t span = 0; span < row->count; span++)
        all += row->spans [span].end - row->spans [span].first;
    for (uint32_t node = 0; node < count; node++) {
        uint64_t end = all * (node + 1) / count;
        spans_t *mine = &self->nodes [nodes [node]];
        assert (mine->count == 0);
        while (dealt < end) {
            span_t *span = &row->spans [at];
            uint64_t left = span->end - span->first, wanted = end - dealt;
            uint32_t taken = (uint32_t) (left < wanted? left: wanted);
            s_push (mine, span->first, span->first + taken);
            span->first += taken;
            dealt += taken;
            at += span->first == span->end;
        }
        s_turn (mine);
    }
    row->count = 0;
}

void
cluster_reads_begin (cluster_reads_t *self, uint32_t job, const uint32_t *nodes, uint32_t count)
{
    job_t *of = &self->jobs [job];
    assert (of->returned.count == 0);
    of->order = permutation_new (self->seed + job, of->epoch++, self->blocks);
    s_push (&of->returned, 0, self->blocks);
    cluster_reads_cut (self, job, nodes, count);
}

void
cluster_reads_return (cluster_reads_t *self, uint32_t job, uint32_t place)
{
    s_push (&self->jobs [job].returned, place, place + 1);
}

void
cluster_reads_return_all (cluster_reads_t *self, uint32_t job, uint32_t node)
{
    spans_t *spans = &self->nodes [node];
    for (size_t at = 0; at < spans->count; at++)
        s_push (&self->jobs [job].returned, spans->spans [at].first, spans->spans [at].end);
    spans->count = 0;
}

//  ---- reading

bool
cluster_reads_next (cluster_reads_t *self, uint32_t node, uint32_t *place_p)
{
    spans_t *spans = &self->nodes [node];
    if (spans->count == 0)
        return false;
    span_t *span = &spans->spans [spans->count - 1];
    *place_p = span->first++;
    spans->count -= span->first == span->end;
    return true;
}

uint32_t
cluster_reads_block (const cluster_reads_t *self, uint32_t job, uint32_t place)
{
    return permutation_at (&self->jobs [job].order, place);
}

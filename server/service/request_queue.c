#include "request_queue.h"
#include <assert.h>
#include <stdlib.h>
#include "fairness.h"

enum { BUCKETS = 256 };

_Static_assert ((int) WAITING_LINES_MAX <= (int) FAIRNESS_USERS_MAX, "each line takes turns");

typedef struct {
    waiting_t *first, *last;
    waiting_t *held;            //  the line's first request, while it is held
    size_t count, small_bytes, large_bytes;
    //  Counts of requests by connection, in hash buckets that several connections may share; and of those
    //  with is_first.
    uint16_t of [BUCKETS], firsts [BUCKETS];
} line_t;

struct request_queue {
    fairness_t *turns;          //  of the lines; those wait that have requests and hold none
    size_t count, large_bytes;
    line_t lines [WAITING_LINES_MAX];
};

request_queue_t *
request_queue_new (void)
{
    request_queue_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->turns = fairness_new (1);
    for (size_t number = 0; self->turns && number < WAITING_LINES_MAX; number++)
        fairness_add (self->turns, 1);
    if (!self->turns)
        request_queue_destroy (&self);
    return self;
}

void
request_queue_destroy (request_queue_t **self_p)
{
    request_queue_t *self = *self_p;
    if (!self)
        return;
    assert (self->count == 0);
    fairness_destroy (&self->turns);
    free (self);
    *self_p = NULL;
}

static size_t
s_bucket (uint64_t connection)
{
    return (size_t) (connection * UINT64_C (0x9e3779b97f4a7c15) >> 56);
}

static bool
s_is_large (const waiting_t *request)
{
    return request->bytes > WAITING_SMALL_BYTES;
}

//  ---- in and out of a line

static bool
s_waits (const line_t *line)
{
    return line->count > 0 && !line->held;
}

static void
s_count (request_queue_t *self, line_t *line, const waiting_t *request, bool comes)
{
    size_t bucket = s_bucket (request->connection), one = comes? 1: SIZE_MAX;
    size_t bytes = comes? request->bytes: 0 - request->bytes;
    self->count += one;
    line->count += one;
    line->of [bucket] = (uint16_t) (line->of [bucket] + one);
    line->firsts [bucket] = (uint16_t) (line->firsts [bucket] + (request->is_first? one: 0));
    *(s_is_large (request)? &line->large_bytes: &line->small_bytes) += bytes;
    self->large_bytes += s_is_large (request)? bytes: 0;
    if (s_waits (line))
        fairness_wait (self->turns, request->line);
    else
        fairness_rest (self->turns, request->line);
}

static void
s_append (request_queue_t *self, line_t *line, waiting_t *request)
{
    request->before = line->last;
    request->after = NULL;
    *(line->last? &line->last->after: &line->first) = request;
    line->last = request;
    s_count (self, line, request, true);
}

static waiting_t *
s_remove (request_queue_t *self, waiting_t *request)
{
    line_t *line = &self->lines [request->line];
    *(request->before? &request->before->after: &line->first) = request->after;
    *(request->after? &request->after->before: &line->last) = request->before;
    request->before = request->after = NULL;
    s_count (self, line, request, false);
    return request;
}

//  ---- requests that arrive

static bool
s_fits (const request_queue_t *self, const line_t *line, const waiting_t *request)
{
    if (!s_is_large (request))
        return line->small_bytes + request->bytes <= WAITING_LINE_BYTES_MAX;
    return (line->large_bytes == 0 || line->large_bytes + request->bytes <= WAITING_LINE_LARGE_MAX)
        && (self->large_bytes == 0 || self->large_bytes + request->bytes <= WAITING_LARGE_MAX);
}

//  The newest small request of the connection with the most; NULL: none has at least two more than the new
//  request's connection.
static waiting_t *
s_find_greedy (line_t *line, const waiting_t *request)
{
    size_t most = 0;
    for (size_t bucket = 1; bucket < BUCKETS; bucket++)
        most = line->of [bucket] > line->of [most]? bucket: most;
    if (line->of [most] < line->of [s_bucket (request->connection)] + 2)
        return NULL;
    waiting_t *found = line->last;
    while (found && (s_bucket (found->connection) != most || s_is_large (found) || found == line->held))
        found = found->before;
    return found;
}

waiting_t *
request_queue_put (request_queue_t *self, uint32_t number, uint32_t weight, waiting_t *request)
{
    assert (number < WAITING_LINES_MAX && weight > 0);
    line_t *line = &self->lines [number];
    waiting_t *gives_way = NULL;
    request->line = number;
    if (line->of [s_bucket (request->connection)] >= WAITING_CONNECTION_MAX)
        return request;
    if (line->count == WAITING_LINE_MAX || !s_fits (self, line, request)) {
        gives_way = s_is_large (request)? NULL: s_find_greedy (line, request);
        if (!gives_way || line->small_bytes - gives_way->bytes + request->bytes > WAITING_LINE_BYTES_MAX)
            return request;
        s_remove (self, gives_way);
    }
    fairness_set_weight (self->turns, number, weight);
    if (line->count == 0)
        fairness_forgive (self->turns, number, WAITING_DEBT_MAX);
    s_append (self, line, request);
    return gives_way;
}

//  ---- requests that leave

bool
request_queue_has_next (const request_queue_t *self)
{
    return fairness_waiting (self->turns) != 0;
}

waiting_t *
request_queue_take (request_queue_t *self)
{
    uint32_t number;
    if (!fairness_next (self->turns, 0, &number))
        return NULL;
    //  Charged when it is known how long it took.
    fairness_serve (self->turns, number, 0, 0, 0);
    return s_remove (self, self->lines [number].first);
}

void
request_queue_hold (request_queue_t *self, waiting_t *request)
{
    line_t *line = &self->lines [request->line];
    assert (!line->held);
    request->before = NULL;
    request->after = line->first;
    *(line->first? &line->first->before: &line->last) = request;
    line->first = line->held = request;
    s_count (self, line, request, true);
}

void
request_queue_release (request_queue_t *self, waiting_t *request)
{
    line_t *line = &self->lines [request->line];
    assert (line->held == request && line->first == request);
    line->held = NULL;
    s_remove (self, request);
}

waiting_t *
request_queue_take_if (request_queue_t *self, bool (*is_gone) (void *context, const waiting_t *request),
    void *context)
{
    for (size_t number = 0; self->count > 0 && number < WAITING_LINES_MAX; number++)
        for (waiting_t *request = self->lines [number].first; request; request = request->after)
            if (request != self->lines [number].held && is_gone (context, request))
                return s_remove (self, request);
    return NULL;
}

void
request_queue_charge (request_queue_t *self, uint32_t number, uint32_t weight, uint64_t cost)
{
    assert (number < WAITING_LINES_MAX && weight > 0);
    fairness_set_weight (self->turns, number, weight);
    fairness_done (self->turns, UINT64_C (1) << number, 0, cost);
}

//  ---- queries

static bool
s_find (const line_t *line, uint64_t connection, bool firsts_only)
{
    for (const waiting_t *request = line->first; request; request = request->after)
        if (request->connection == connection && (request->is_first || !firsts_only))
            return true;
    return false;
}

bool
request_queue_holds_back (const request_queue_t *self, uint32_t line, uint64_t connection)
{
    return self->lines [line].firsts [s_bucket (connection)] > 0
        && s_find (&self->lines [line], connection, true);
}

bool
request_queue_has (const request_queue_t *self, uint32_t line, uint64_t connection)
{
    return self->lines [line].of [s_bucket (connection)] > 0
        && s_find (&self->lines [line], connection, false);
}

size_t
request_queue_count (const request_queue_t *self)
{
    return self->count;
}

size_t
request_queue_line_count (const request_queue_t *self, uint32_t line)
{
    return self->lines [line].count;
}

size_t
request_queue_bytes (const request_queue_t *self)
{
    size_t bytes = self->large_bytes;
    for (size_t number = 0; number < WAITING_LINES_MAX; number++)
        bytes += self->lines [number].small_bytes;
    return bytes;
}

static void
s_check_line (const request_queue_t *self, const line_t *line, uint32_t number)
{
    size_t count = 0, small_bytes = 0, large_bytes = 0, large = 0;
    uint16_t of [BUCKETS] = { 0 }, firsts [BUCKETS] = { 0 };
    for (const waiting_t *request = line->first; request; request = request->after) {
        assert (request->line == number && (request->after? request->after->before: line->last) == request);
        count++;
        large += s_is_large (request);
        *(s_is_large (request)? &large_bytes: &small_bytes) += request->bytes;
        of [s_bucket (request->connection)]++;
        firsts [s_bucket (request->connection)] =
            (uint16_t) (firsts [s_bucket (request->connection)] + request->is_first);
    }
    assert (count == line->count && small_bytes == line->small_bytes && large_bytes == line->large_bytes);
    assert (count <= WAITING_LINE_MAX && small_bytes <= WAITING_LINE_BYTES_MAX);
    assert (large <= 1 || large_bytes <= WAITING_LINE_LARGE_MAX);
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        assert (of [bucket] == line->of [bucket] && firsts [bucket] == line->firsts [bucket]);
        assert (of [bucket] <= WAITING_CONNECTION_MAX);
    }
    assert (!line->held || line->held == line->first);
    assert ((fairness_waiting (self->turns) >> number & 1) == s_waits (line));
}

void
request_queue_check (const request_queue_t *self)
{
    size_t count = 0, large_bytes = 0;
    for (uint32_t number = 0; number < WAITING_LINES_MAX; number++) {
        s_check_line (self, &self->lines [number], number);
        count += self->lines [number].count;
        large_bytes += self->lines [number].large_bytes;
    }
    assert (count == self->count && large_bytes == self->large_bytes);
}

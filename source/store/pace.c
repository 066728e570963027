#include "pace.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

//  With fewer values nothing is usual yet.  With half as many, 8 of 520 GETs of a quiet store were asked
//  again (test_pace, seed 11305).
enum { FEW = 8 };

//  What is assumed until something is usual: a second, and a MiB a second.
static const double s_assumed [2] = { 1000, 1000.0 / (1024 * 1024) };

//  Answers of at least these sizes.
static const uint64_t s_sizes [PACE_SIZES] = { 0, 64 << 10, 512 << 10, 4 << 20 };

pace_t
pace_new (void)
{
    return (pace_t) { .beside = 1, .allowed = 1 };
}


//  -- what is usual

static int
s_compare (const void *left, const void *right)
{
    double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

static void
s_learn (pace_values_t *self, double value)
{
    double sorted [PACE_KEPT];
    self->values [self->count++ % PACE_KEPT] = value;
    size_t count = self->count < PACE_KEPT? (size_t) self->count: PACE_KEPT;
    memcpy (sorted, self->values, count * sizeof *sorted);
    qsort (sorted, count, sizeof *sorted, s_compare);
    self->usual = sorted [(count * 9 - 1) / 10];
}

static size_t
s_size (uint64_t bytes)
{
    size_t size = PACE_SIZES - 1;
    while (bytes < s_sizes [size])
        size--;
    return size;
}

static double
s_usual (const pace_values_t *self, double assumed)
{
    return self->count >= FEW? self->usual: fmax (self->usual, assumed);
}

//  Of a byte in an answer of this size, by its own kind or the next one that is known: smaller ones first,
//  which take longer.  Where no size is known, learned [0] is of small answers, with the time of their bytes
//  (or, seldom, of the first bytes of a few larger answers).
static double
s_usual_byte (const pace_t *self, uint64_t bytes)
{
    size_t size = s_size (bytes);
    for (size_t known = size; known > 0; known--)
        if (self->learned [known].count >= FEW)
            return self->learned [known].usual;
    for (size_t known = size + 1; known < PACE_SIZES; known++)
        if (self->learned [known].count >= FEW)
            return self->learned [known].usual;
    if (size == 0)
        return self->learned [0].count >= FEW? 0: s_assumed [1];
    return s_usual (&self->learned [size], s_assumed [1]);
}

//  What a try may take before it is asked again.
static double
s_limit_ms (const pace_t *self, const pace_request_t *request)
{
    uint64_t bytes = request->bytes? request->bytes: request->came;
    double usual = s_usual (&self->learned [0], s_assumed [0]) + s_usual_byte (self, bytes) * (double) bytes,
        busier = fmax ((double) self->under_way / self->beside, 1);
    return ldexp (PACE_SLACK_MS + PACE_TIMES * usual * busier, (int) request->tries);
}


//  -- requests

static void
s_begin_try (pace_request_t *request, pace_time_t time)
{
    request->came = request->mark_bytes = 0;
    request->began_ms = time.now_ms;
    request->mark_ms = time.patient_ms;
    request->first_ms = -1;
}

void
pace_begin (pace_t *self, pace_request_t *request, pace_time_t time)
{
    if (self->under_way++ == 0)
        self->moved_ms = time.now_ms;
    s_begin_try (request, time);
}

void
pace_again (pace_request_t *request, uint64_t bytes, pace_time_t time)
{
    request->bytes = bytes;
    request->tries++;
    s_begin_try (request, time);
}

void
pace_move (pace_request_t *request, uint64_t came, pace_time_t time)
{
    if (request->first_ms < 0 && came > 0)
        request->first_ms = time.now_ms;
    request->came = came;
    uint64_t enough = (uint64_t) PACE_STILL_BYTES * request->patience_ms / 1000;
    if (came < request->mark_bytes || came - request->mark_bytes >= enough) {
        request->mark_bytes = came;
        request->mark_ms = time.patient_ms;
    }
}

pace_verdict_t
pace_judge (pace_t *self, const pace_request_t *request, pace_time_t time)
{
    const int64_t now_ms = time.now_ms;
    if (time.patient_ms - request->mark_ms >= request->patience_ms)
        return PACE_STILL;
    if (request->is_never_again || (double) (now_ms - request->began_ms) <= s_limit_ms (self, request))
        return PACE_WAIT;
    bool is_idle = now_ms - self->moved_ms >= PACE_IDLE_MS;
    if (self->allowed < (is_idle? 1 - PACE_OWED: 1))
        return PACE_WAIT;
    self->allowed--;
    self->moved_ms = now_ms;
    return PACE_AGAIN;
}

void
pace_end (pace_t *self, const pace_request_t *request, bool is_good, int64_t now_ms)
{
    assert (self->under_way > 0);
    self->beside += ((double) self->under_way - self->beside) / 8;
    self->under_way--;
    if (!is_good || request->is_never_again || request->came == 0)
        return;
    size_t size = s_size (request->came);
    int64_t first_ms = size > 0? request->first_ms: now_ms;
    s_learn (&self->learned [0], (double) (first_ms - request->began_ms));
    if (size > 0)
        s_learn (&self->learned [size], (double) (now_ms - request->first_ms) / (double) request->came);
    self->allowed = fmin (self->allowed + PACE_SHARE, PACE_SAVED);
    self->moved_ms = now_ms;
}

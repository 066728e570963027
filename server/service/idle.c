#include "idle.h"

void
idle_begin (idle_t *self, int64_t limit_ms, int64_t now_ms)
{
    *self = (idle_t) { .limit_ms = limit_ms, .since_ms = now_ms };
}

static int64_t
s_end_ms (const idle_t *self)
{
    bool is_starting = self->jobs_total == 0 && self->limit_ms < IDLE_START_MS;
    return self->since_ms + (is_starting? IDLE_START_MS: self->limit_ms);
}

bool
idle_look (idle_t *self, uint64_t jobs, uint64_t jobs_total, int64_t now_ms)
{
    //  A job may have joined and left since the last look.
    if (jobs > 0 || jobs_total != self->jobs_total)
        self->since_ms = now_ms;
    self->jobs_total = jobs_total;
    return self->limit_ms > 0 && jobs == 0 && now_ms >= s_end_ms (self);
}

int64_t
idle_due_ms (const idle_t *self, uint64_t jobs)
{
    return self->limit_ms > 0 && jobs == 0? s_end_ms (self): INT64_MAX;
}

json_t *
idle_status (const idle_t *self, uint64_t jobs, int64_t now_ms)
{
    if (self->limit_ms == 0)
        return json_null ();
    int64_t left_ms = s_end_ms (self) - now_ms;
    return json_pack ("{s:f,s:o}", "seconds", (double) self->limit_ms / 1000, "left",
        jobs? json_null (): json_real (left_ms > 0? (double) left_ms / 1000: 0));
}

//  Jobs that are started together begin together.

#include "draw_start.h"
#include "job.h"

//  Jobs that are started together should begin together: the first of an idle group waits a moment for the
//  others, because dependent sampling can share only what two jobs need at the same time.
void
draw_start (broker_t *self, job_t *job, int64_t now_ms)
{
    job_move (job, job->epochs && job->epoch >= job->epochs? JOB_DRAWN: JOB_RUNNING);
    job->start_ms = now_ms;
    if (job->state == JOB_DRAWN || job->order != SAMPLER_ORDER_SHARED)
        return;
    int64_t first = INT64_MAX;
    sampler_t *sampler = job->dataset->sampler;
    for (size_t group = 0; group < sampler_group_count (sampler); group++) {
        size_t count;
        const uint32_t *members = sampler_group (sampler, group, &count);
        bool mine = false;
        int64_t start = INT64_MAX;
        for (size_t index = 0; index < count; index++) {
            const job_t *other = job->dataset->jobs [members [index]];
            mine |= other == job;
            if (other != job && other->state == JOB_RUNNING && other->start_ms < start)
                start = other->start_ms;
        }
        if (mine)
            first = start;
    }
    if (first == INT64_MAX)
        job->start_ms = now_ms + self->options.gather_ms;
    else
    if (first > now_ms)
        job->start_ms = first;
}

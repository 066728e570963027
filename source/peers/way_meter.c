#include "way_meter.h"
#include <assert.h>

//  Seconds of busy time after which half of what was measured has faded.
#define HALF_SECONDS 2.0

static double
s_busy_seconds (const way_meter_t *self, uint64_t now_ns)
{
    return self->queued > 0 && now_ns > self->busy_since_ns? (double) (now_ns - self->busy_since_ns) / 1e9: 0;
}

void
way_meter_begin (way_meter_t *self, uint64_t bytes, uint64_t now_ns)
{
    if (self->queued == 0)
        self->busy_since_ns = now_ns;
    self->queued += bytes;
}

void
way_meter_end (way_meter_t *self, uint64_t begun, uint64_t came, uint64_t now_ns)
{
    assert (begun <= self->queued);
    self->seconds += s_busy_seconds (self, now_ns);
    self->bytes += (double) came;
    self->busy_since_ns = now_ns;
    self->queued -= begun;
    if (self->seconds > HALF_SECONDS) {
        self->seconds /= 2;
        self->bytes /= 2;
    }
}

double
way_meter_predict (const way_meter_t *self, uint64_t bytes, uint64_t now_ns)
{
    double seconds = self->seconds + s_busy_seconds (self, now_ns);
    if (seconds <= 0 || (self->bytes <= 0 && self->seconds <= 0))
        return 0;
    //  A way by which nothing came yet gets slower with every moment.
    double came = self->bytes > 1? self->bytes: 1;
    return ((double) self->queued + (double) bytes) * seconds / came;
}

void
way_meter_forget (way_meter_t *self)
{
    self->bytes = self->seconds = 0;
}

#include "simulated_workers.h"

#include <assert.h>
#include <stdlib.h>

#include "simulated_memory.h"

//  A binary heap of the times when the workers get free; the next one to get free is the first.
struct simulated_workers {
    size_t count;
    double free_at [];
};

simulated_workers_t *
simulated_workers_new (size_t count)
{
    assert (count > 0);
    simulated_workers_t *self = simulated_alloc (1, sizeof *self + count * sizeof *self->free_at);
    self->count = count;
    return self;
}

void
simulated_workers_destroy (simulated_workers_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

double
simulated_workers_finish (simulated_workers_t *self, double now, double duration)
{
    double *heap = self->free_at;
    double finish = (heap [0] > now? heap [0]: now) + duration;
    size_t place = 0;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child + 1 < self->count && heap [child + 1] < heap [child])
            child++;
        if (child >= self->count || heap [child] >= finish)
            break;
        heap [place] = heap [child];
        place = child;
    }
    heap [place] = finish;
    return finish;
}

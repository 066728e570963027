/*  simulated_workers -- so many workers that prepare one sample each at a time, first come, first served.
 *  Owner: one thread.
 */
#ifndef SIMULATED_WORKERS_H
#define SIMULATED_WORKERS_H
#include <stddef.h>

typedef struct simulated_workers simulated_workers_t;

//  count > 0, all idle.  Never NULL.
simulated_workers_t *simulated_workers_new (size_t count);
void simulated_workers_destroy (simulated_workers_t **self_p);
//  When a task that comes now and takes `duration` is done.  now never falls from call to call.
double simulated_workers_finish (simulated_workers_t *self, double now, double duration);

#endif

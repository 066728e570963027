/*  last_hour -- the last hour of a server: samples a second and waits, of all and of each job.
 *
 *  A point each LAST_HOUR_STEP_MS, LAST_HOUR_POINTS of them.  Jobs that have gone stay until their place is
 *  needed by another one.  So it takes some megabytes at most, whatever happens.
 *
 *  Owner: one thread.
 */
#ifndef LAST_HOUR_H
#define LAST_HOUR_H
#include <stdint.h>
#include <jansson.h>

typedef struct last_hour last_hour_t;

enum { LAST_HOUR_STEP_MS = 5000, LAST_HOUR_POINTS = 720, LAST_HOUR_JOBS = 192 };

//  NULL: no memory.
last_hour_t *last_hour_new (void);
void last_hour_destroy (last_hour_t **self_p);

//  The next point, of what operators see.  now_ms: of a clock that goes on; day_ms: since 1970.
void last_hour_add (last_hour_t *self, const json_t *status, int64_t now_ms, int64_t day_ms);

//  What a tenant's viewer may see (NULL: all).  {"times": [seconds of the day, ..], "delivered": [samples a
//  second, ..], "prepared": the same, for operators; "jobs": [{"job", "name", "dataset", "tenant", "gone"}]}.
//  A new reference; NULL: no memory.
json_t *last_hour_of_all (const last_hour_t *self, const char *tenant);
//  {"times", "consumed": samples a second that the loop took, "draw", "read", ..: of each
//  second, the part that it waited for that}; null where the job was not there.  NULL: no such job, or not
//  this tenant's.
json_t *last_hour_of_job (const last_hour_t *self, const char *tenant, uint64_t job);

#endif

/*  metrics -- a server's status as Prometheus reads it: the text format 0.0.4, or OpenMetrics 1.0.
 *
 *  Totals since the start as counters, what is there now as gauges, in base units (seconds, bytes); how long
 *  batches were waited for as a histogram.  The status is what a viewer may see (service_status), so its
 *  metrics are, too.  A job that has gone is no series of its own any more: its samples are in those of
 *  number="gone".  So there are some twenty series for each present job, data set, device, tenant and worker.
 *
 *  No I/O; any thread.
 */
#ifndef METRICS_H
#define METRICS_H
#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

//  Yours to free, with its size; NULL: no memory.
char *metrics_text (const json_t *status, bool is_open_metrics, size_t *size_p);
//  Of an answer with such a text.
const char *metrics_type (bool is_open_metrics);

#endif

/*  cluster_queue -- the events of a virtual clock, earliest first; those of one moment in the order in which
 *  they were added.  A heap with four children a place.
 *  Owner: one thread.
 */
#ifndef CLUSTER_QUEUE_H
#define CLUSTER_QUEUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    double time;
    uint64_t number;                //  cluster_queue_add's
    uint32_t kind, subject;         //  the caller's
} cluster_event_t;

//  { 0 }: empty.
typedef struct {
    cluster_event_t *events;
    size_t count, room;
    uint64_t added;
} cluster_queue_t;

void cluster_queue_add (cluster_queue_t *self, double time, uint32_t kind, uint32_t subject);
//  False: there is none.
bool cluster_queue_next (cluster_queue_t *self, cluster_event_t *event_p);
void cluster_queue_clear (cluster_queue_t *self);

#endif

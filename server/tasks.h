/*  tasks -- carries out what the broker wants prepared and copied: reader threads, worker threads, and the way between.
 *
 *  happy path:     PREPARE -> reader (files to bytes) -> worker (bytes to version) -> broker_prepared
 *                  COPY -> worker (version and labels to batch) -> broker_copied
 *  failure modes:  a file that cannot be read or decoded, or does not suit the pipeline: broker_prepared with the reason, path
 *                  first.  Out of descriptors or memory is the server's trouble, not the sample's: the thread waits and tries
 *                  again, for two seconds before it gives a sample up, and for as long as it takes before a copy.
 *  on close:       tasks_stop; what was begun is finished (a copy that still waits is given up: its job is over), the
 *                  rest is given back undone.
 *
 *  A task holds all that its thread needs.  Owner: the broker's thread.
 */
#ifndef TASKS_H
#define TASKS_H
#include <stdint.h>
#include "broker.h"
#include "layout.h"

typedef struct tasks tasks_t;

enum { TASKS_READERS = 4 };

//  Threads for a broker of `workers` workers.  NULL with errno.
tasks_t *tasks_new (broker_t *broker, uint32_t workers);
//  tasks_stop must have been called.
void tasks_destroy (tasks_t **self_p);

//  dataset_user of every data set is its source_t (source.h).
void tasks_prepare (tasks_t *self, version_t *version);
//  The row of the place, in the slot that begins at slot.
void tasks_copy (tasks_t *self, place_t *place, const layout_t *layout, uint8_t *slot);
//  Tells the broker what is done.  Never blocks.
void tasks_collect (tasks_t *self);
//  Readable when tasks_collect has something to do.
enum { TASKS_DESCRIPTORS = 2 };
void tasks_descriptors (const tasks_t *self, int descriptors [TASKS_DESCRIPTORS]);
//  Ends the threads and gives every task back to the broker, so that jobs that are over can be buried.  No job may be
//  running.
void tasks_stop (tasks_t *self);

#endif

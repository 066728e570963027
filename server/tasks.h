/*  tasks -- carries out what the broker wants prepared and copied: reader threads, worker threads, and the way between.
 *
 *  happy path:     PREPARE -> reader (file to bytes) -> worker (bytes to version) -> broker_prepared
 *                  COPY -> worker (version to batch) -> broker_copied
 *  failure modes:  a file that cannot be read or decoded: broker_prepared with the reason, path first.  Out
 *  of
 *                  descriptors or memory is the server's trouble, not the sample's: the thread waits and tries again
 *                  for two seconds before it gives the sample up.
 *  on close:       tasks_stop; what was begun is finished, the rest is given back undone.
 *
 *  A task holds all that its thread needs.  Owner: the broker's thread.
 */
#ifndef TASKS_H
#define TASKS_H
#include <stdint.h>
#include "broker.h"
#include "catalogue.h"

typedef struct tasks tasks_t;

enum { TASKS_READERS = 4 };

//  Threads for a broker of `workers` workers.  NULL with errno.
tasks_t *tasks_new (broker_t *broker, uint32_t workers);
//  tasks_stop must have been called.
void tasks_destroy (tasks_t **self_p);

//  dataset_user of every data set is its catalogue.
void tasks_prepare (tasks_t *self, version_t *version);
//  image and label: where the row goes.
void tasks_copy (tasks_t *self, place_t *place, uint8_t *image, uint8_t *label);
//  Tells the broker what is done.  Never blocks.
void tasks_collect (tasks_t *self);
//  Readable when tasks_collect has something to do.
enum { TASKS_DESCRIPTORS = 2 };
void tasks_descriptors (const tasks_t *self, int descriptors [TASKS_DESCRIPTORS]);
//  Ends the threads and gives every task back to the broker, so that jobs that are over can be buried.
void tasks_stop (tasks_t *self);

#endif

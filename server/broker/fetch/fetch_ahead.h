/*  fetch_ahead -- plain files, or single objects of a store, that are read before any job has drawn them, to
 *  be kept on the local disk: as many at once as their device's cost model has beside the jobs' own reads.
 *
 *  A job reads its own draws, at most as many as its batches hold, and nothing while it pauses.  Where a read
 *  takes long, that leaves most of the device unused.  So samples that a running job still needs in its
 *  epoch, and that are not kept, are read meanwhile.  A draw of one of them then finds it on the local disk.
 *
 *  Which samples: uniformly at random of those.  No draw looks at what is kept, so orders are the same with
 *  this and without.  No other choice saves more: each of them is drawn next with the same probability.
 *
 *      to read --> reading --> known             the local disk has it, or did not take it
 *         |           |   ^
 *         |           +--------> to read         failed, no room: later, after a pause
 *         +--> known                             a job reads it by itself
 *
 *  A sample is known by its id, whichever of its fields were read.  A job that asks for a further field makes
 *  all unknown again; what is kept of these samples is found by a look, and not read again.
 *
 *  A job's own read comes first.  Devices read in the order of submission.  So a place is left free for each
 *  read that jobs have had under way at the same time lately, up to half of all: then the next batch's reads
 *  begin at once.  Jobs of all data sets count, which may be on one device.  While jobs pause, these places
 *  are given up one by one.
 *  What is being read ahead when a job wants it is not read twice: the driver waits for it.
 *
 *  Nothing is read ahead while no job of the data set waits for reads and all workers have something to do.
 *
 *  failure modes:  none to a job.  A read that fails counts nowhere, and reading ahead pauses, then tries
 *                  one read at a time until one succeeds.  It pauses also while reads of the data set fail
 *                  (patience.h), and while the local disk is full, or does not answer.
 *  Owner: the broker's thread.
 */
#ifndef FETCH_AHEAD_H
#define FETCH_AHEAD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "dataset.h"

enum { FETCH_AHEAD_MAX = 128 };         //  samples of a data set, at once

//  Samples, each of some fields.
typedef struct {
    size_t depth;                   //  that the devices read best at once; 0: nothing can be kept now
    bool is_away;                   //  since the local disk does not answer: asked again
    bool is_complete;               //  all is kept: asked before anything is read
    size_t busy;                    //  that are under way there, of all data sets
} fetch_ahead_load_t;

typedef struct {
    fetch_ahead_load_t (*load) (void *user, uint32_t fields);       //  a bit for each field
    void *user;
} fetch_ahead_driver_t;

//  A new data set of plain files is kept on the local disk.
void fetch_ahead_keep (broker_t *self, dataset_t *dataset, const fetch_ahead_driver_t *driver);
void fetch_ahead_destroy (dataset_t *dataset);
//  The job has begun to run, or another epoch: there may be more to read.
void fetch_ahead_begin (const job_t *job);
//  The sample's files are read for a job now.
void fetch_ahead_taken (broker_t *self, dataset_t *dataset, uint32_t id);
//  Once a turn, after tasks were handed out.
void fetch_ahead_pass (broker_t *self, int64_t now_ms);
//  Samples that are being read.
size_t fetch_ahead_reading (const dataset_t *dataset);
void fetch_ahead_check (const dataset_t *dataset);

typedef enum {
    FETCH_AHEAD_READ,               //  from the source
    FETCH_AHEAD_KEPT,               //  it was on the local disk already, or is left to the jobs' own reads
    FETCH_AHEAD_BUSY,               //  there is no memory for it now
    FETCH_AHEAD_NO_ROOM,            //  the local disk has none for it
    FETCH_AHEAD_FAILED
} fetch_ahead_result_t;

//  The read that ACTION_FETCH_AHEAD asked for has ended.
void fetch_ahead_done (broker_t *self, dataset_t *dataset, uint32_t id, fetch_ahead_result_t result,
    int64_t now_ms);

#endif

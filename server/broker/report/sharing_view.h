/*  sharing_view -- the sampling trees of a data set's jobs, as status and EXPLAIN tell them (sharing_tree.h).
 *
 *  A viewer that may see everything gets a tree for each group of jobs that draw together.  A tenant gets one
 *  tree of all its own jobs, made as if there were no others: neither its sizes nor its form tell of another
 *  tenant's jobs.
 *
 *  The broker's thread makes a *picture* when a viewer's status or EXPLAIN needs it, and keeps it for
 *  SHARING_VIEW_MS, so that both tell the same and a viewer costs no more than a picture of each data set in
 *  that time, unless jobs come or go.  All pictures of an answer together look at so many ids, and tell so
 *  many pairs, that an answer about 128 jobs takes some milliseconds (sampler_bench --only views).  Every
 *  viewer has a budget of its own.  Owner: the broker's thread.
 */
#ifndef SHARING_VIEW_H
#define SHARING_VIEW_H
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "dataset.h"

enum { SHARING_VIEW_MS = 1000, SHARING_VIEW_JOBS_MAX = 128 };

//  What one answer may spend on each tree.
typedef struct {
    uint64_t ids_max;
    size_t pair_jobs;           //  the number of jobs of which the pairs are told
} sharing_view_room_t;

//  Of an answer about all data sets.  tenant: the viewer's; NULL: it sees everything.
sharing_view_room_t sharing_view_room (const broker_t *self, const tenant_t *tenant);
//  Adds `sharing_trees` and `drawing_alone` to the data set's object.
void sharing_view_describe (dataset_t *dataset, const tenant_t *tenant, sharing_view_room_t room,
    int64_t now_ms, json_t *object);
//  A sentence: where the job stands, and how much it shares with each.  tenant as above.  malloc'ed, the
//  caller's.
char *sharing_view_words (const job_t *job, const tenant_t *tenant, int64_t now_ms);
size_t sharing_view_kept (const dataset_t *dataset);        //  pictures
//  Frees the pictures of a data set that is to go.
void sharing_view_forget (dataset_t *dataset);

#endif

/*  ahead_reads -- carries out what the broker reads ahead (fetch_ahead.h): files or objects that come to the
 *  local disk before a job draws them.
 *
 *  happy path:     ahead_reads_begin -> a thread looks at which files are not kept, on the local disk and in
 *                  pins -> these are read, through the devices' queues as any other; the reader keeps them ->
 *                  fetch_ahead_done
 *                  A task for a sample that is being read ahead waits, and takes over the bytes: no file is
 *                  read twice (ahead_reads_join).
 *  failure modes:  a read that fails, for any reason: tasks that wait read by themselves.
 *  on close:       ahead_reads_stop, after the devices are stopped; what is under way comes back undone.
 *
 *  Memory: the files of at most ahead_reads_bytes_most, and none that is larger than AHEAD_READS_FILE_BYTES:
 *  its bytes take longer than the latency that this hides.
 *  Owner: the broker's thread.
 */
#ifndef AHEAD_READS_H
#define AHEAD_READS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "dataset_source.h"
#include "fetch_ahead.h"
#include "task.h"

typedef struct ahead_reads ahead_reads_t;

//  Samples of all data sets, of each FETCH_AHEAD_MAX at most.
enum { AHEAD_READS_MAX = 2 * FETCH_AHEAD_MAX };
enum { AHEAD_READS_BYTES = 128 * 1024 * 1024, AHEAD_READS_FILE_BYTES = 4 * 1024 * 1024 };

//  Of a machine, or container, with so much memory.
size_t ahead_reads_bytes_most (uint64_t machine_bytes);

typedef struct {
    broker_t *broker;
    const block_cache_t *cache;         //  lent
    //  A task that waited has its bytes, if has_bytes; else it has to read them.
    void (*resume) (void *context, task_t *task, bool has_bytes);
    //  At the end: it is given back undone.
    void (*give_up) (void *context, task_t *task);
    //  A read has come back, and counts.
    void (*count) (dataset_source_objects_t *objects, const reader_request_t *request);
    void *context;
} ahead_reads_options_t;

//  The new data set, of plain files, is kept, in whole or in part: fetch_ahead_keep.
void ahead_reads_allow (broker_t *broker, dataset_t *dataset);

//  NULL with errno: no memory, or no thread can be had.
ahead_reads_t *ahead_reads_new (const ahead_reads_options_t *options);
//  ahead_reads_stop must have been called.
void ahead_reads_destroy (ahead_reads_t **self_p);
//  ACTION_FETCH_AHEAD.
void ahead_reads_begin (ahead_reads_t *self, dataset_t *dataset, uint32_t id, uint32_t fields);
//  Whether the task's files are being read ahead.  Then the task waits until `resume`.
bool ahead_reads_join (ahead_reads_t *self, task_t *task);
//  Whether the request, which a device has given back, is one of these; then it is taken.
bool ahead_reads_take (ahead_reads_t *self, reader_request_t *request, int64_t now_ms);
//  Takes what the thread has looked at.
void ahead_reads_collect (ahead_reads_t *self, int64_t now_ms);
int ahead_reads_descriptor (const ahead_reads_t *self);
bool ahead_reads_is_quiet (const ahead_reads_t *self);
void ahead_reads_stop (ahead_reads_t *self);

#endif

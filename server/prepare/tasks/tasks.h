/*  tasks -- carries out what the broker wants read, prepared and copied: reading, worker threads, and the way
 *  between.
 *
 *  happy path:     READ -> reading (a range of a pack to its samples' memory, checked) -> broker_read
 *                  PREPARE -> reading (files to bytes; a pack's are there) -> worker (bytes to version) ->
 *                  broker_prepared
 *                  FETCH_AHEAD -> ahead_reads.h -> fetch_ahead_done
 *                  COPY -> worker (version and labels to batch) -> broker_copied
 *                  tasks_add_side_task .. SIDE_TASK -> worker -> tasks_collect_side_tasks: done
 *  failure modes:  a file that cannot be decoded, or does not suit the pipeline: broker_prepared with the
 *                  reason, path first.
 *                  A read that failed: broker_unread, which decides.  A lack of descriptors or memory is not
 *                  the sample's fault: the task is retried every 20 ms while it lasts, and occupies no thread
 *                  meanwhile.
 *                  An operation of the operator's own (customs.h) may take long or hang: versions with it are
 *                  prepared by threads of its own, and never by workers.  Slow tasks (BROKER_SLOW_MS) have
 *                  threads, too: a worker that has one keeps a hundred samples of other jobs waiting.
 *                  A job may end while a worker prepares or copies for it, which may take minutes: the worker
 *                  leaves a copy, and a version that no other job wants if that has taken a second already.
 *  on close:       tasks_stop; workers leave what they have begun, and the rest is given back undone.
 *
 *  Each task reports its worker's processor time to the broker (broker_prepare_took ..); reading takes none.
 *
 *  A task contains all that its thread needs.  Owner: the broker's thread.
 */
#ifndef TASKS_H
#define TASKS_H
#include <stdint.h>
#include "broker.h"
#include "customs.h"
#include "data_warnings.h"
#include "dataset.h"
#include "decoder.h"
#include "device.h"
#include "layout.h"
#include "remote_workers.h"

typedef struct tasks tasks_t;

//  Other work for a worker, for a tenant that pays for it: an explanation, the ids of a long join.  Embedded
//  in the caller's structure; the tasks own it from tasks_add_side_task until done.
typedef struct side_task {
    void (*work) (struct side_task *self, decoder_t *decoder);      //  in a worker's thread, with its decoder
    void (*done) (struct side_task *self);      //  in the broker's thread, at the end; it may add side tasks
    void *context;              //  the caller's
    //  the tasks':
    bool was_done;              //  a worker has done it
    uint64_t worker_ns;         //  processor time that it took, when it is done
    tenant_t *tenant;
    uint32_t charged_us;
    struct side_task *next;
} side_task_t;
enum { TASKS_SIDE_TASKS_MAX = 80 };

typedef struct {
    broker_t *broker;
    uint32_t workers;
    device_t *const *devices;       //  the data sets' devices; each lent, opened and stopped here
    size_t device_count;
    cluster_t *cluster;             //  device_options_t's
    const block_cache_t *cache;     //  on the local disk, of plain files; lent; NULL: none
    customs_t *customs;             //  lent until tasks_destroy, stopped here; NULL: none
    size_t buffer_bytes;            //  for ranges on their way, of all devices together
    bool no_ring;                   //  as if the kernel refused io_uring
} tasks_options_t;

//  Starts the threads.  0 or -errno; *path_p is the path that cannot be opened, or NULL for another reason.
int tasks_new (tasks_t **self_p, const tasks_options_t *options, const char **path_p);
//  One more device, whenever data are added: lent until tasks_close_device or tasks_destroy.  Its ranges have
//  half of the memory for them that no other device has, but at least an eighth of all of it, or their
//  largest.  As tasks_new.
int tasks_open_device (tasks_t *self, device_t *device, const char **path_p)
    __attribute__ ((warn_unused_result));
//  Stops it.  No task or read may use it.  One that was not opened is left alone.
void tasks_close_device (tasks_t *self, device_t *device);
//  tasks_stop must have been called.
void tasks_destroy (tasks_t **self_p);

//  From now on workers on other machines may prepare too (docs/workers.md); router and log are lent until
//  tasks_stop.  0 or -ENOMEM.
int tasks_lend (tasks_t *self, void *router, log_t *log) __attribute__ ((warn_unused_result));
//  The workers, for their messages and `status`; NULL: tasks_lend was not called.
remote_workers_t *tasks_remote_workers (const tasks_t *self);

//  dataset_user of every data set is its dataset_source_t (dataset_source.h).
void tasks_read (tasks_t *self, raw_request_t *raw);
void tasks_prepare (tasks_t *self, version_t *version);
//  ACTION_FETCH_AHEAD, of a data set with ahead_reads_allow.
void tasks_fetch_ahead (tasks_t *self, const action_t *action);
//  The row of its batch, in the slot that begins at slot.
void tasks_copy (tasks_t *self, batch_row_t *row, const layout_t *layout, uint8_t *slot);
//  The side task waits for its tenant's turn; a tenant's begin in the order in which they were added.  The
//  modules that add them bound their number: TASKS_SIDE_TASKS_MAX together.
void tasks_add_side_task (tasks_t *self, tenant_t *tenant, side_task_t *side_task);
//  ACTION_SIDE_TASK: hands the tenant's oldest one to a worker.
void tasks_start_side_task (tasks_t *self, const tenant_t *tenant, uint32_t charged_us);
//  Calls done for side tasks that tasks_collect has found done.  After tasks_stop for all: those not begun
//  are given up.
void tasks_collect_side_tasks (tasks_t *self);
//  Reports finished tasks to the broker, and retries those that are due.  Never blocks.
void tasks_collect (tasks_t *self, int64_t now_ms);
//  When tasks_collect has something to retry, or may find tasks done of which no descriptor tells yet;
//  INT64_MAX: never.
int64_t tasks_wakeup (const tasks_t *self);
//  Readable when tasks_collect has something to do.
enum { TASKS_DESCRIPTORS = 2 };
void tasks_descriptors (const tasks_t *self, int descriptors [TASKS_DESCRIPTORS]);
//  Ends the threads and gives every task back to the broker, so that jobs that are over can be reclaimed.  No
//  job may be running.  Waits for the operation that each thread is in.
void tasks_stop (tasks_t *self);

//  How files are read, "io_uring" or "preadv (io_uring: ..)", or how stores are, "libcurl/7.88.1"; NULL:
//  there are none.  Whether all volumes of packs in folders are read past the page cache; and how many reads
//  may be under way at once, of all devices.
const char *tasks_reading_mode (const tasks_t *self, bool of_stores);
bool tasks_reads_direct (const tasks_t *self);
uint32_t tasks_depth (const tasks_t *self);
//  The next news of a store's keys, looked for once a second: *trouble_p says why they are not renewed, or is
//  "" when they are again.  False: no more.  name: of the device.
bool tasks_next_key_trouble (tasks_t *self, int64_t now_ms, char name [DEVICE_NAME_BYTES],
    const char **trouble_p);
//  The next data set of which a sample was clipped for the first time; NULL: no more.
const data_warnings_t *tasks_next_news (tasks_t *self);
//  Tasks that a thread of this server has had for more than TASKS_LONG_MS, in no order: of the tenant's jobs,
//  or all (NULL).  {"stage", "operation", "dataset", "sample", "job", "tenant", "seconds"}, as
//  docs/operations.md explains.
enum { TASKS_LONG_MS = 10000 };
json_t *tasks_long_status (const tasks_t *self, const tenant_t *tenant, int64_t now_ms);
//  device_status of each device.
json_t *tasks_devices_status (const tasks_t *self);
//  How often a task was retried because memory or descriptors were short.
uint64_t tasks_shortages (const tasks_t *self);

#endif

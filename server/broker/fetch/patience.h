/*  patience -- reads that failed and may succeed later: which are read again and when, and data sets that
 *  stand still.
 *
 *  A read is of one version's plain files, or of a range of a pack (raw_request_t).  A failed one is of one
 *  kind (patience_kind):
 *      SHORTAGE    the server lacks memory or descriptors, and the data may be fine: tasks.c waits as long as
 *                  that lasts
 *      PASSING     the storage fails: EIO, ETIMEDOUT, ESTALE ..  The sample is bad when that lasts for
 *                  patience_ms
 *      LASTING     the file is gone, or may not be read.  Looked at twice, LOOK_AGAIN_MS apart; then the
 *                  sample is bad
 *      DAMAGED     the storage answers, and the file is another: cut, grown, a folder in its place.  Likewise
 *      REPLACED    an object store has another version, or none: which others it has replaced is not known.
 *                  Looked at twice, too; then the jobs that wait for reads end (`storage`), and no sample is
 *                  marked
 *  A sample that was read and cannot be decoded is bad at once.  A wrong checksum is read once more
 *  (raw_store.h).
 *
 *  A failed read rests: it takes no task, no memory and no place in a queue, and is retried after a pause
 *  that doubles.
 *
 *  When STILL_ROW different reads in a row have failed, DAMAGED ones not counted, the storage is at fault and
 *  not a file: the data set pauses.  Meanwhile only damage makes a sample bad, and new reads are held back.
 *  Now and then one failed read and one held read are tried as probes.  The first success ends the pause, and
 *  all reads begin anew, in their order.  If none succeeds for patience_ms, or if more than FAILING_MAX reads
 *  fail for so long while others succeed, the jobs that wait for reads end (`storage`) and no sample is
 *  marked.
 *
 *      fails                       due, or probed             succeeds
 *   READ -----> resting, failing ----------------> READ again ---------> as if nothing had been
 *     ^  held back                     ^               | fails
 *     +---------- resting, held        +---------------+---> bad, by the rules above
 *
 *  Draws and the order of delivery do not depend on any of this.
 *  Owner: the broker's thread.
 */
#ifndef PATIENCE_H
#define PATIENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "dataset.h"

typedef enum { PATIENCE_NONE, PATIENCE_SHORTAGE, PATIENCE_PASSING, PATIENCE_LASTING,
    PATIENCE_DAMAGED, PATIENCE_REPLACED } patience_kind_t;

//  rc: 0 or -errno, as the reader gives it.
patience_kind_t patience_kind (int rc);

//  Whether a read of the data set must be held back (patience_hold_..).  The second: a read is being made.
bool patience_holds (const dataset_t *dataset);
void patience_made (dataset_t *dataset);
//  Holds back a queued version of plain files, or a request just handed out.
void patience_hold_version (broker_t *self, version_t *version);
void patience_hold_request (broker_t *self, raw_request_t *request);
//  A read of the version's plain files has failed.  True: its sample is bad now.  False: the version has no
//  worker any more, and rests until the retry if any row waits for it.
bool patience_gives_up (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms);
void patience_rest (broker_t *self, version_t *version, int rc, int64_t now_ms);
//  The same of a range.  True: its read is over, because its samples are bad or are read one by one.
bool patience_ends_range (broker_t *self, raw_request_t *request, int rc, const char *reason, int64_t now_ms);
void patience_rest_range (broker_t *self, raw_request_t *request, int rc, int64_t now_ms);
//  No row waits for the version any more.  Idempotent.
void patience_leave (broker_t *self, version_t *version);
//  A read of the data set has succeeded.
void patience_good (dataset_t *dataset);
//  Once a turn: retries due reads, ends jobs that wait in vain, and tells jobs of failing reads.
void patience_pass (broker_t *self, int64_t now_ms);
//  Whether the job waits for a read of a data set with failing reads.
bool patience_stops (const job_t *job);
//  null, or an object; a new reference.
json_t *patience_status (const broker_t *self, const dataset_t *dataset, int64_t now_ms);
//  No job is there.
void patience_end (broker_t *self, dataset_t *dataset);
void patience_check (const dataset_t *dataset);

#endif

/*  patience -- reads that failed and may not fail again: what is read again and when, and when a data set
 *  stands still.
 *
 *  A read is of one version's plain files, or of a range of a pack (raw_request_t).  What a failed one says
 *  (patience_kind):
 *      SHORTAGE    the server lacks memory or descriptors.  Says nothing of the data: tasks.c waits for as
 *                  long as it lasts
 *      PASSING     the storage fails: EIO, ETIMEDOUT, ESTALE ..  The sample is bad when that lasts for
 *                  patience_ms
 *      LASTING     the file is gone, or may not be read.  Looked at twice, LOOK_AGAIN_MS apart; then the
 *                  sample is bad
 *      DAMAGED     the storage answers, and the file is another: cut, grown, a folder in its place.  Likewise
 *  What was decoded, and is no good, is bad at once.  What lacks its checksum is read once more
 *  (raw_store.h).
 *
 *  A read that failed rests: it takes no task, no memory and no place in line, and is made again after a
 *  pause that doubles.
 *
 *  When STILL_ROW different reads in a row have failed, DAMAGED ones not counted, it is the storage and not a
 *  file: the data set stands still.  Then no sample becomes bad but for damage; reads that come up are held
 *  back; and now and then one that failed and one that was held back are made.  The first that succeeds ends
 *  it, and all begin anew.  If none does for patience_ms, or if more than FAILING_MAX reads fail for so long
 *  while others succeed, the jobs that wait for reads end (`storage`) and no sample is marked.
 *
 *      fails                       due, or probed             succeeds
 *   READ -----> resting, failing ----------------> READ again ---------> as if nothing had been
 *     ^  held back                     ^               | fails
 *     +---------- resting, held        +---------------+---> bad, by the rules above
 *
 *  What is drawn, and in which order it is delivered, does not depend on any of this.
 *  Owner: the broker's thread.
 */
#ifndef PATIENCE_H
#define PATIENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "patience_state.h"

typedef enum { PATIENCE_NONE, PATIENCE_SHORTAGE, PATIENCE_PASSING, PATIENCE_LASTING,
    PATIENCE_DAMAGED } patience_kind_t;

//  rc: 0 or -errno, as the reader gives it.
patience_kind_t patience_kind (int rc);

//  Whether a read of the data set is to be held back (patience_hold) rather than made; and: it is made.
bool patience_holds (const dataset_t *dataset);
void patience_made (dataset_t *dataset);
//  A queued version of plain files, or a request just handed out.
void patience_hold_version (broker_t *self, version_t *version);
void patience_hold_request (broker_t *self, raw_request_t *request);
//  A read of the version's plain files has failed.  True: its sample is bad now.  False: the version, which
//  no worker has any more, is to rest until it is read again, if any row waits for it.
bool patience_gives_up (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms);
void patience_rest (broker_t *self, version_t *version, int rc, int64_t now_ms);
//  No row waits for the version any more.  Idempotent.
void patience_leave (broker_t *self, version_t *version);
//  A read of the data set has succeeded.
void patience_good (dataset_t *dataset);
//  Once a turn: what is due is read again, who waits in vain is ended, and what there is to tell is told.
void patience_pass (broker_t *self, int64_t now_ms);
//  Whether the job waits for a read of a data set that has trouble.
bool patience_stops (const job_t *job);
//  null, or an object; a new reference.
json_t *patience_status (const broker_t *self, const dataset_t *dataset, int64_t now_ms);
//  No job is there.
void patience_end (broker_t *self, dataset_t *dataset);
void patience_check (const broker_t *self, const dataset_t *dataset);

#endif

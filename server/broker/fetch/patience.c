#include "patience.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "catalogue.h"
#include "job.h"
#include "utf8.h"
#include "version.h"
#include "xalloc.h"

enum {
    STILL_ROW = 4, FAILING_MAX = 64,
    PROBES = 2,                                 //  one that failed, one that was held back
    PAUSE_MS = 20, PAUSE_MAX_MS = 2000, DOUBLINGS_MAX = 7,      //  PAUSE_MS << DOUBLINGS_MAX is beyond
                                                                //  PAUSE_MAX_MS
    LOOK_AGAIN_MS = 1000,
    WHOLE_TRIES = 3,                            //  of a range, before its samples are read one by one
    TELL_MS = 1500, CALM_MS = 3000,             //  failing reads are reported after so long; after so long
                                                //  without a failure they are over
    MS_A_SECOND = 1000
};

//  The level that the log has reported.
enum { TOLD_NOTHING, TOLD_FAILING, TOLD_STILL };

//  A version or a request.
struct resting {
    resting_t *previous, *next;
    version_t *version;
    raw_request_t *request;
    int64_t due_ms;
    bool is_held;
};

patience_kind_t
patience_kind (int rc)
{
    switch (-rc) {
    case 0:
        return PATIENCE_NONE;
    case EMFILE: case ENFILE: case ENOMEM: case ENOBUFS: case EAGAIN: case EINTR: case ECANCELED:
        return PATIENCE_SHORTAGE;
    //  Errors of a device, in the block layer's terms; of a network file system; of a file system in a
    //  process.
    case EIO: case ENODATA: case EILSEQ: case EBADE: case EREMOTEIO: case ENOLINK: case ENOMEDIUM: case EBUSY:
    case ETIMEDOUT: case ETIME: case ESTALE: case ENOTCONN: case ESHUTDOWN: case EPIPE: case ECONNRESET:
    case ECONNABORTED:
    case ECONNREFUSED: case ENETDOWN: case ENETUNREACH: case ENETRESET: case EHOSTDOWN: case EHOSTUNREACH:
    case ENONET:
    case ECOMM: case EPROTO: case ENOLCK: case EKEYEXPIRED: case EKEYREVOKED: case EKEYREJECTED: case ENOKEY:
        return PATIENCE_PASSING;
    case EREMCHG:
        return PATIENCE_REPLACED;
    case CATALOGUE_CHANGED: case EINVAL: case EFBIG: case EISDIR: case ENOTDIR: case ELOOP: case ENAMETOOLONG:
        return PATIENCE_DAMAGED;
    default:
        return PATIENCE_LASTING;
    }
}

//  ---- lists

static void
s_append (resting_list_t *list, resting_t *item)
{
    item->previous = list->last;
    item->next = NULL;
    if (list->last)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
    list->count++;
}

//  Takes the item out and frees it.
static void
s_remove (resting_list_t *list, resting_t *item)
{
    if (item->previous)
        item->previous->next = item->next;
    else
        list->first = item->next;
    if (item->next)
        item->next->previous = item->previous;
    else
        list->last = item->previous;
    list->count--;
    if (item->version)
        item->version->resting = NULL;
    free (item);
}

static resting_t *
s_rest (patience_t *patience, version_t *version, raw_request_t *request, bool is_held, int64_t due_ms)
{
    resting_t *item = xalloc_memory (calloc (1, sizeof *item));
    *item = (resting_t) { .version = version, .request = request, .is_held = is_held, .due_ms = due_ms };
    if (version) {
        assert (!version->resting);
        version->resting = item;
    }
    s_append (is_held? &patience->held: &patience->failing, item);
    return item;
}

//  It may be read now.
static void
s_wake (broker_t *self, resting_list_t *list, resting_t *item)
{
    version_t *version = item->version;
    raw_request_t *request = item->request;
    s_remove (list, item);
    if (version)
        row_queue_arrived (version);
    else
        raw_store_retry (self->raw, request);
}

//  Those that are due, in their order.  Each request is put in front of all others, so begin with the last.
static void
s_wake_due (broker_t *self, resting_list_t *list, int64_t now_ms)
{
    for (resting_t *item = list->last, *previous; item; item = previous) {
        previous = item->previous;
        if (item->due_ms > now_ms)
            broker_wake (self, item->due_ms);
        else
        if (item->request)
            s_wake (self, list, item);
    }
    for (resting_t *item = list->first, *next; item; item = next) {
        next = item->next;
        if (item->version && item->due_ms <= now_ms)
            s_wake (self, list, item);
    }
}

void
patience_leave (broker_t *self, version_t *version)
{
    resting_t *item = version->resting;
    patience_t *patience = &version_dataset (self, version)->patience;
    if (item)
        s_remove (item->is_held? &patience->held: &patience->failing, item);
    version->failures = 0;
}

//  ---- pausing

bool
patience_holds (const dataset_t *dataset)
{
    return dataset->patience.is_still && dataset->patience.probes == 0;
}

void
patience_made (dataset_t *dataset)
{
    if (dataset->patience.is_still) {
        assert (dataset->patience.probes > 0);
        dataset->patience.probes--;
    }
}

void
patience_hold_version (broker_t *self, version_t *version)
{
    row_queue_left (version);
    s_rest (&version_dataset (self, version)->patience, version, NULL, true, 0);
}

void
patience_hold_request (broker_t *self, raw_request_t *request)
{
    raw_store_rest (self->raw, request);
    s_rest (&dataset_of_request (self, request)->patience, NULL, request, true, 0);
}

static void
s_forget_failures (resting_t *item)
{
    *(item->version? &item->version->failures: &item->request->failures) = 0;
}

//  The failures until now were the storage's, and count for no read any more: neither for those that rest,
//  which may have failed before they were held back, nor for those that are out (counted_ms).
static void
s_go_on (patience_t *patience)
{
    patience->is_still = patience->is_hopeless = patience->is_replaced = false;
    patience->row = patience->rounds = patience->probes = 0;
    patience->counted_ms = patience->failed_ms + 1;
    for (resting_t *item = patience->failing.first; item; item = item->next) {
        item->due_ms = 0;
        s_forget_failures (item);
    }
    for (resting_t *item = patience->held.first; item; item = item->next)
        s_forget_failures (item);
}

void
patience_good (dataset_t *dataset)
{
    patience_t *patience = &dataset->patience;
    if (patience->is_still)
        s_go_on (patience);
    patience->row = 0;
    patience->was_good = true;
}

//  A pause that doubles, with jitter.
static int64_t
s_pause_ms (broker_t *self, uint32_t times)
{
    int64_t pause_ms = (int64_t) PAUSE_MS << (times < DOUBLINGS_MAX? times: DOUBLINGS_MAX);
    pause_ms = pause_ms < PAUSE_MAX_MS? pause_ms: PAUSE_MAX_MS;
    return pause_ms + (int64_t) random_below (&self->pauses, (uint64_t) pause_ms / 4 + 1);
}

//  ---- failures

static int64_t
s_patience_ms (const broker_t *self)
{
    return self->options.patience_ms > 0? self->options.patience_ms: BROKER_PATIENCE_MS;
}

//  Counts a failure of a read, of which these are the failures and the time of the first one.
static void
s_note (broker_t *self, patience_t *patience, int rc, uint32_t *failures, int64_t *first_ms,
    const char *reason, int64_t now_ms)
{
    if (*first_ms < patience->counted_ms)
        *failures = 0;
    if ((*failures)++ == 0)
        *first_ms = now_ms;
    snprintf (patience->reason, sizeof patience->reason, "%s", reason);
    patience->rc = rc;
    if (!patience->is_trouble) {
        patience->is_trouble = true;
        patience->since_ms = now_ms;
    }
    patience->failed_ms = now_ms;
    patience->was_good = false;
    self->read_failures++;
    if (*failures > 1 || patience_kind (rc) == PATIENCE_DAMAGED)
        return;
    if (++patience->row >= STILL_ROW && !patience->is_still) {
        patience->is_still = true;
        patience->still_ms = now_ms;
        patience->probe_ms = now_ms + s_pause_ms (self, 0);
    }
}

//  Whether to give up a read with so many failures since then.
static bool
s_gives_up (const broker_t *self, patience_t *patience, int rc, uint32_t failures, int64_t first_ms,
    int64_t now_ms)
{
    if (patience_kind (rc) == PATIENCE_REPLACED) {
        patience->is_replaced = patience->is_replaced || (failures > 1 && now_ms - first_ms >= LOOK_AGAIN_MS);
        return false;
    }
    if (patience_kind (rc) == PATIENCE_DAMAGED
        || (patience_kind (rc) == PATIENCE_LASTING && !patience->is_still))
        return failures > 1 && now_ms - first_ms >= LOOK_AGAIN_MS;
    if (patience->is_still)
        return false;
    if (now_ms - first_ms < s_patience_ms (self))
        return false;
    patience->is_hopeless = patience->is_hopeless || patience->failing.count > FAILING_MAX;
    return !patience->is_hopeless;
}

//  When to retry; at the latest when patience ends.
static int64_t
s_due_ms (broker_t *self, int rc, uint32_t failures, int64_t first_ms, int64_t now_ms)
{
    if (patience_kind (rc) != PATIENCE_PASSING)
        return now_ms + LOOK_AGAIN_MS;
    int64_t due_ms = now_ms + s_pause_ms (self, failures - 1), last_ms = first_ms + s_patience_ms (self);
    return due_ms < last_ms || last_ms <= now_ms? due_ms: last_ms;
}

bool
patience_gives_up (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms)
{
    patience_t *patience = &version_dataset (self, version)->patience;
    s_note (self, patience, rc, &version->failures, &version->failed_ms, reason, now_ms);
    return s_gives_up (self, patience, rc, version->failures, version->failed_ms, now_ms);
}

void
patience_rest (broker_t *self, version_t *version, int rc, int64_t now_ms)
{
    if (version->waiting) {
        version_move (version, VERSION_READING);
        s_rest (&version_dataset (self, version)->patience, version, NULL, false,
            s_due_ms (self, rc, version->failures, version->failed_ms, now_ms));
    }
    else {
        version_move (version, VERSION_IDLE);
        version->failures = 0;
    }
}

//  Whether to read the samples of a range one by one now.
static bool
s_splits (const patience_t *patience, const raw_request_t *request, int rc)
{
    if (request->sample_count == 1)
        return false;
    if (patience_kind (rc) == PATIENCE_DAMAGED)
        return true;
    return !patience->is_still && (patience_kind (rc) == PATIENCE_LASTING
        || request->failures >= WHOLE_TRIES);
}

bool
patience_ends_range (broker_t *self, raw_request_t *request, int rc, const char *reason, int64_t now_ms)
{
    patience_t *patience = &dataset_of_request (self, request)->patience;
    s_note (self, patience, rc, &request->failures, &request->failed_ms, reason, now_ms);
    bool is_split = s_splits (patience, request, rc);
    if (is_split && patience_kind (rc) != PATIENCE_PASSING)
        request->failures = 0;                  //  nothing is known of the single samples
    bool is_final = (request->sample_count == 1 || patience_kind (rc) == PATIENCE_REPLACED)
        && s_gives_up (self, patience, rc, request->failures, request->failed_ms, now_ms);
    return is_split || is_final;
}

void
patience_rest_range (broker_t *self, raw_request_t *request, int rc, int64_t now_ms)
{
    s_rest (&dataset_of_request (self, request)->patience, NULL, request, false,
        s_due_ms (self, rc, request->failures, request->failed_ms, now_ms));
}

//  ---- patience that ends

//  A version of plain files that are being read has a worker already.
static bool
s_waits (const batch_row_t *row)
{
    const version_t *version = row->version;
    return row->state == ROW_WAITING && (version->state == VERSION_READING
        || (version->state == VERSION_WORKING && !version->raw && !version->is_fetched));
}

//  Whether the job waits for bytes of a sample.
static bool
s_waits_for_reads (const job_t *job)
{
    for (size_t index = 0; index < (size_t) job->asked.batch_size * job->asked.slots; index++)
        if (s_waits (&job->draw.row_memory [index]))
            return true;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        for (uint32_t row = 0; rank->again.rows && row < job->asked.rank_batch; row++)
            if (s_waits (&rank->again.rows [row]))
                return true;
        if (s_waits (&rank->padding))
            return true;
    }
    return false;
}

static bool
s_is_waited_for (const dataset_t *dataset)
{
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++)
        if (dataset->jobs [number] && !job_has_ended (dataset->jobs [number])
            && s_waits_for_reads (dataset->jobs [number]))
            return true;
    return false;
}

bool
patience_stops (const job_t *job)
{
    const patience_t *patience = &job->dataset->patience;
    return (patience->is_still || patience->failing.count > 0) && s_waits_for_reads (job);
}

//  What ends the last failure.
static const char *
s_remedy (int rc)
{
    switch (-rc) {
    case EKEYEXPIRED: case EKEYREVOKED: case EKEYREJECTED: case ENOKEY:
        return "give the server new keys (those of its environment by a new start) and join again";
    case EACCES: case EPERM:
        return "let the server's user read it and join again";
    default:
        return "bring the storage back and join again, or start the server with more --patience";
    }
}

static char *
s_end_message (const broker_t *self, const dataset_t *dataset)
{
    const patience_t *patience = &dataset->patience;
    if (patience->is_replaced)
        return xalloc_text ("data set '%s' is not the one that the server found at its start: %s. No sample "
            "is marked as bad: bring the old objects back and join again, or start the server anew for the "
            "new ones (single objects with --listing %s=anew)", dataset->name, patience->reason,
            dataset->name);
    return xalloc_text (
        "data set '%s' could not be read for %lld s: %s. No sample is marked as bad: %s", dataset->name,
        (long long) (s_patience_ms (self) / MS_A_SECOND), patience->reason, s_remedy (patience->rc));
}

//  Nothing was read for so long, or other data: the jobs that wait end.  Reads that other jobs wait for are
//  still tried.
static void
s_end_jobs (broker_t *self, dataset_t *dataset, int64_t now_ms)
{
    patience_t *patience = &dataset->patience;
    char *message = s_end_message (self, dataset);
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        job_t *job = dataset->jobs [number];
        if (job && s_waits_for_reads (job))
            job_end (job, "storage", "%s", message);
    }
    free (message);
    s_go_on (patience);
    for (resting_t *item = patience->failing.first; item; item = item->next)
        item->due_ms = now_ms + s_pause_ms (self, DOUBLINGS_MAX);
}

//  ---- time

//  One failed read, then one that was held back.
static void
s_probe (broker_t *self, patience_t *patience, int64_t now_ms)
{
    patience->probes = PROBES;
    patience->probe_ms = now_ms + s_pause_ms (self, ++patience->rounds);
    if (patience->held.first)
        s_wake (self, &patience->held, patience->held.first);
    if (patience->failing.first)
        s_wake (self, &patience->failing, patience->failing.first);
}

//  ---- telling

static int
s_level (const patience_t *patience)
{
    return patience->is_still? TOLD_STILL: patience->failing.count > 0? TOLD_FAILING: TOLD_NOTHING;
}

//  Jobs that wait and have not been told: they may have joined since.
static void
s_tell_jobs (dataset_t *dataset)
{
    const patience_t *patience = &dataset->patience;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        job_t *job = dataset->jobs [number];
        if (!job || job_has_ended (job) || job->told.failing_reads == patience->notices
            || !s_waits_for_reads (job))
            continue;
        job->told.failing_reads = patience->notices;
        job_tell_ranks (job, ACTION_SEND_NOTICE, "storage", patience->notice);
    }
}

static void
s_say (patience_t *patience, const dataset_t *dataset, int level, int64_t patience_ms)
{
    bool is_still = level == TOLD_STILL;
    patience->told = level;
    patience->to_tell = true;
    patience->notices++;
    free (patience->notice);                    //  the action that used it has been carried out
    patience->notice = xalloc_text (
        "%s data set '%s' %s: %s; it is tried again for %lld s, and the job waits",
        is_still? "the": "a read of", dataset->name, is_still? "stands still": "fails", patience->reason,
        (long long) (patience_ms / MS_A_SECOND));
}

//  The log gets lasting failures once, again when they get worse, and their end; a job is told as soon as it
//  waits.
static void
s_tell (broker_t *self, dataset_t *dataset, int64_t now_ms)
{
    patience_t *patience = &dataset->patience;
    if (!patience->is_trouble)
        return;
    int level = s_level (patience);
    bool is_over = level == TOLD_NOTHING && (patience->was_good || !s_is_waited_for (dataset));
    if (level > patience->told && now_ms - patience->since_ms < TELL_MS)
        broker_wake (self, patience->since_ms + TELL_MS);
    else
    if (level > patience->told)
        s_say (patience, dataset, level, s_patience_ms (self));
    else
    if (is_over && now_ms - patience->failed_ms < CALM_MS)
        broker_wake (self, patience->failed_ms + CALM_MS);
    else
    if (is_over) {
        patience->to_tell = patience->told != TOLD_NOTHING;
        patience->told = TOLD_NOTHING;
        patience->is_trouble = false;
    }
    if (level != TOLD_NOTHING && patience->told != TOLD_NOTHING)
        s_tell_jobs (dataset);
}

static void
s_pass (broker_t *self, dataset_t *dataset, int64_t now_ms)
{
    patience_t *patience = &dataset->patience;
    if (patience->is_still && patience->failing.count + patience->held.count == 0
        && !s_is_waited_for (dataset))
        s_go_on (patience);
    int64_t end_ms = patience->still_ms + s_patience_ms (self);
    if (patience->is_hopeless || patience->is_replaced || (patience->is_still && now_ms >= end_ms))
        s_end_jobs (self, dataset, now_ms);
    if (patience->is_still && now_ms >= patience->probe_ms)
        s_probe (self, patience, now_ms);
    if (patience->is_still)
        broker_wake (self, patience->probe_ms < end_ms? patience->probe_ms: end_ms);
    else {
        s_wake_due (self, &patience->held, now_ms);
        s_wake_due (self, &patience->failing, now_ms);
    }
    s_tell (self, dataset, now_ms);
}

void
patience_pass (broker_t *self, int64_t now_ms)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        if (self->datasets [index]->patience.is_trouble)
            s_pass (self, self->datasets [index], now_ms);
}

//  ---- questions

bool
dataset_next_trouble (broker_t *self, broker_trouble_t *trouble)
{
    for (size_t index = 0; index < self->dataset_count; index++) {
        dataset_t *dataset = self->datasets [index];
        patience_t *patience = &dataset->patience;
        if (dataset->is_removed || !patience->to_tell)
            continue;
        patience->to_tell = false;
        *trouble = (broker_trouble_t) { .dataset = dataset, .is_over = patience->told == TOLD_NOTHING,
            .is_still = patience->told == TOLD_STILL, .reason = patience->reason,
            .lasted_ms = patience->failed_ms - patience->since_ms, .patience_ms = s_patience_ms (self) };
        return true;
    }
    return false;
}

json_t *
patience_status (const broker_t *self, const dataset_t *dataset, int64_t now_ms)
{
    const patience_t *patience = &dataset->patience;
    if (s_level (patience) == TOLD_NOTHING && patience->told == TOLD_NOTHING)
        return json_null ();
    int64_t until_ms = s_level (patience) == TOLD_NOTHING? patience->failed_ms: now_ms;
    return json_pack ("{s:b,s:I,s:f,s:f,s:o}", "still", patience->is_still,
        "failing", (json_int_t) patience->failing.count,
        "seconds", (double) (until_ms - patience->since_ms) / MS_A_SECOND,
        "patience", (double) s_patience_ms (self) / MS_A_SECOND, "reason",
        utf8_json (patience->reason));
}

void
patience_end (broker_t *self, dataset_t *dataset)
{
    patience_t *patience = &dataset->patience;
    resting_list_t *lists [] = { &patience->failing, &patience->held };
    for (size_t index = 0; index < sizeof lists / sizeof *lists; index++)
        while (lists [index]->first) {
            raw_request_t *request = lists [index]->first->request;
            assert (request);                   //  no row waits for a version
            s_remove (lists [index], lists [index]->first);
            bool is_wanted = raw_store_retry (self->raw, request);
            assert (!is_wanted);
        }
    free (patience->notice);
}

static size_t
s_check_list (const resting_list_t *list, bool is_held)
{
    size_t count = 0;
    for (const resting_t *item = list->first; item; item = item->next) {
        assert (item->is_held == is_held && !item->version == (item->request != NULL));
        if (item->version)
            assert (item->version->resting == item && item->version->state == VERSION_READING
                && item->version->waiting);
        else
            assert (item->request->handed_out);
        count++;
    }
    assert (count == list->count);
    return count;
}

void
patience_check (const dataset_t *dataset)
{
    const patience_t *patience = &dataset->patience;
    size_t resting = s_check_list (&patience->failing, false) + s_check_list (&patience->held, true);
    assert (patience->is_trouble || (resting == 0 && !patience->is_still));
    assert (patience->is_still || (patience->probes == 0 && patience->rounds == 0));
}

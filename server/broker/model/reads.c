#include "reads.h"
#include "job.h"

static void
s_add (reads_sum_t *self, const reads_sum_t *read)
{
    self->bytes += read->bytes;
    self->pinned_bytes += read->pinned_bytes;
    self->saved_ns += read->saved_ns;
}

static void
s_count_row (const batch_row_t *row, const reads_sum_t *read)
{
    reads_t *reads = &row->job->counts.reads;
    reads_epoch_t *epoch = &reads->epochs [row->epoch % 2];
    s_add (&reads->all, read);
    if (epoch->epoch < row->epoch)
        *epoch = (reads_epoch_t) { .epoch = row->epoch };
    if (epoch->epoch == row->epoch)
        s_add (&epoch->sum, read);
}

//  Whether a row before this one is of the same job.
static bool
s_is_counted (const version_t *version, const batch_row_t *row)
{
    const batch_row_t *before = version->waiting;
    while (before != row && before->job != row->job)
        before = before->next_waiting;
    return before != row;
}

void
reads_count (const version_t *version, const reads_sum_t *read)
{
    for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
        if (!s_is_counted (version, row))
            s_count_row (row, read);
}

void
reads_divide (const raw_request_t *request)
{
    uint64_t all = request->read_bytes + request->cached_bytes + request->peer_bytes + request->pinned_bytes,
        bytes = 0;
    for (uint32_t index = 0; index < request->sample_count; index++)
        bytes += request->samples [index]->bytes;
    for (uint32_t index = 0; index < request->sample_count; index++) {
        raw_sample_t *sample = request->samples [index];
        double part = bytes? (double) sample->bytes / (double) bytes: 0;
        sample->pinned_part = all? (float) ((double) request->pinned_bytes / (double) all): 0;
        sample->saved_seconds = (float) (part * (double) request->saved_ns / 1e9);
        sample->is_uncounted = true;
    }
}

void
reads_count_raw (const version_t *version)
{
    raw_sample_t *sample = version->raw;
    if (!sample->is_uncounted)
        return;
    sample->is_uncounted = false;
    reads_sum_t read = { .bytes = sample->bytes,
        .pinned_bytes = (uint64_t) (sample->pinned_part * (double) sample->bytes + 0.5),
        .saved_ns = (uint64_t) (sample->saved_seconds * 1e9) };
    reads_count (version, &read);
}

//  The epoch of which its loop has samples, or where nothing is known of that the newest one.
static const reads_epoch_t *
s_epoch (const job_t *job)
{
    const reads_epoch_t *epochs = job->counts.reads.epochs;
    const reads_epoch_t *now = &epochs [job->counts.consumed_epoch % 2],
        *other = &epochs [(job->counts.consumed_epoch + 1) % 2];
    return now->epoch == job->counts.consumed_epoch || now->epoch > other->epoch? now: other;
}

json_t *
reads_status (const job_t *job)
{
    const reads_sum_t *all = &job->counts.reads.all;
    const reads_epoch_t *epoch = s_epoch (job);
    return json_pack ("{s:I, s:I, s:f, s:I, s:I, s:I, s:f}", "bytes", (json_int_t) all->bytes,
        "pinned_bytes", (json_int_t) all->pinned_bytes, "saved_seconds", (double) all->saved_ns / 1e9,
        "epoch", (json_int_t) epoch->epoch, "epoch_bytes", (json_int_t) epoch->sum.bytes,
        "epoch_pinned_bytes", (json_int_t) epoch->sum.pinned_bytes, "epoch_saved_seconds",
        (double) epoch->sum.saved_ns / 1e9);
}

/*  fuzz_request -- any message to the server, through everything that reads requests.
 *
 *  The input is a sequence of frames, each two bytes of length (little-endian) and then so many bytes; the
 *  last may be cut.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "request.h"
#include "work_message.h"

enum { SAMPLES = 70001, FRAMES = WIRE_FRAMES_MAX + 1 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}

//  Frames in memory of their own, so that a read beyond one is seen.
static size_t
s_split (const uint8_t *data, size_t size, frame_t *frames, uint8_t **copies)
{
    size_t count = 0;
    while (size >= 2 && count < FRAMES) {
        size_t length = data [0] | (size_t) data [1] << 8;
        data += 2;
        size -= 2;
        length = length < size? length: size;
        copies [count] = malloc (length? length: 1);
        s_require (copies [count]);
        memcpy (copies [count], data, length);
        frames [count] = (frame_t) { .data = copies [count], .size = length };
        count++;
        data += length;
        size -= length;
    }
    return count;
}

static void
s_try_ids (const frame_t *frames, const request_join_t *join)
{
    refusal_t refusal = { 0 };
    roaring_bitmap_t *set = NULL;
    uint32_t *ids = NULL;
    size_t count = 0;
    if (join->subset_given) {
        if (request_subset (&frames [join->subset_first], SAMPLES, &set, &refusal)) {
            s_require (!roaring_bitmap_is_empty (set) && roaring_bitmap_maximum (set) < SAMPLES);
            roaring_statistics_t statistics;
            roaring_bitmap_statistics (set, &statistics);
            s_require (statistics.n_run_containers == 0);
            roaring_bitmap_free (set);
        }
        else
            s_require (refusal.code && *refusal.message);
    }
    if (join->list_frames) {
        if (request_list (&frames [join->list_first], join->list_frames, SAMPLES, &ids, &count, &refusal))
            for (size_t index = 0; index < count; index++)
                s_require (ids [index] < SAMPLES);
        else
            s_require (refusal.code && *refusal.message);
    }
    free (ids);
    if (join->taken_frames) {
        if (request_taken (&frames [join->taken_first], join->taken_frames, SAMPLES, &set, &refusal)) {
            s_require (roaring_bitmap_is_empty (set) || roaring_bitmap_maximum (set) < SAMPLES);
            roaring_bitmap_free (set);
        }
        else
            s_require (refusal.code && *refusal.message);
    }
}

//  Records that go on from each other, with ids that there are, as many as the counts say.
static void
s_try_recent (const frame_t *frames, const request_join_t *join)
{
    refusal_t refusal = { 0 };
    broker_record_t *records;
    size_t count;
    if (!request_recent (frames, join, SAMPLES, &records, &count, &refusal)) {
        s_require (refusal.code && *refusal.message && !records);
        return;
    }
    broker_position_t at = { 0 };
    s_require (count > 0 && count <= WIRE_RECENT_RECORDS_MAX);
    for (size_t index = 0; index < count; index++) {
        const broker_record_t *record = &records [index];
        s_require (index == 0 || (record->epoch == at.epoch && record->index == at.batches));
        at = (broker_position_t) { record->epoch + record->is_end, record->is_end? 0: record->index + 1 };
        uint64_t sum = 0;
        for (uint32_t rank = 0; !record->is_end && rank < join->world_size; rank++) {
            s_require (record->step [rank] <= join->batch_size);
            sum += record->step [rank];
        }
        s_require (record->is_end || (sum > 0 && sum == record->samples));
        for (uint64_t place = 0; !record->is_end && place < sum; place++)
            s_require (record->step [join->world_size + place] < SAMPLES);
    }
    s_require (at.epoch == join->resume.epoch && at.batches == join->resume.batches);
    free (records);
}

//  What is said of earlier jobs is bounded, and hexadecimal where it is copied further.
static void
s_check_resume (const request_join_t *join)
{
    const request_resume_t *resume = &join->resume;
    s_require ((!join->taken_frames && !join->cut_frames) || resume->given);
    s_require (join->nodes >= 1 && join->nodes <= WIRE_NODES_MAX && join->node < join->nodes);
    s_require ((!join->cut_frames && !join->parts_fixed) || join->nodes > 1);
    s_require (!resume->given || (*resume->fingerprint && strlen (resume->data) == WIRE_DATA_BYTES));
    s_require (resume->epoch <= UINT64_C (1) << 53 && resume->batches <= UINT64_C (1) << 53);
    s_require (!*join->run || strlen (join->run) == WIRE_RUN_BYTES);
    s_require (!*join->instance || strlen (join->instance) == WIRE_RUN_BYTES);
    s_require (strlen (join->job) <= REQUEST_NAME_BYTES_MAX);
}

//  A JOIN with ranks has a name for its job.  Its rank exists, and the rank's job is not too large.
static void
s_check_ranks (const request_join_t *join)
{
    s_require (join->world_size >= 1 && join->world_size <= WIRE_RANKS_MAX && join->rank < join->world_size);
    s_require (join->gather_seconds >= 1 && join->gather_seconds <= WIRE_RANK_SECONDS_MAX);
    s_require (join->rank_wait_seconds <= WIRE_RANK_SECONDS_MAX);
    if (join->world_size > 1) {
        s_require (*join->job);
        s_require ((uint64_t) join->batch_size * join->slots * join->world_size <= REQUEST_WINDOW_MAX);
    }
    s_require (!join->recent_frames || (join->world_size > 1 && join->resume.given));
}

static void
s_try_join (const frame_t *frames, size_t count)
{
    request_join_t join;
    refusal_t refusal = { 0 };
    if (!request_join (frames, count, &join, &refusal)) {
        s_require (refusal.code && *refusal.message);
        return;
    }
    s_require (*join.dataset && join.batch_size && join.batch_size <= REQUEST_BATCH_MAX);
    s_require (join.slots >= WIRE_SLOTS_MIN && join.slots <= WIRE_SLOTS_MAX);
    s_require (join.pipeline);
    s_require (count == 2 + join.list_frames + join.subset_given + join.taken_frames + join.recent_frames
        + join.cut_frames);
    s_check_resume (&join);
    s_check_ranks (&join);
    s_try_ids (frames, &join);
    if (join.recent_frames)
        s_try_recent (frames, &join);
    request_join_clear (&join);
}

//  What workers send to servers, and what these send to them.
static void
s_try_work (const frame_t *frames, size_t count)
{
    static const char *const names [] = { "JPEG", "PNG" };
    refusal_t refusal;
    work_hello_t hello;
    work_pipeline_t pipeline;
    wire_work_task_t task;
    wire_work_result_t result;
    uint64_t digests [2], nonce, bytes;
    char reason [WORK_REASON_BYTES];
    if (work_message_read_hello (&frames [1], &hello, &refusal))
        s_require (hello.processors >= 1 && hello.processors <= WIRE_WORK_PROCESSORS_MAX);
    work_message_read_answer (&frames [1], names, 2, digests, &refusal);
    work_message_read_challenge (&frames [1], &nonce, &refusal);
    if (work_message_read_refused (&frames [1], reason, &refusal))
        s_require (strlen (reason) < sizeof reason);
    if (work_message_read_pipeline (&frames [1], &pipeline, &refusal)) {
        s_require (json_is_array (pipeline.list) && json_is_array (pipeline.fields));
        work_message_clear_pipeline (&pipeline);
    }
    if (work_message_read_task (frames, count, &task, &refusal)) {
        bytes = task.rows_bytes;
        for (size_t file = 0; file < task.files && !(task.flags & WIRE_WORK_READ); file++)
            bytes += task.sizes [file];
        s_require (task.files >= 1 && task.files <= WIRE_WORK_FILES_MAX && bytes == frames [2].size);
    }
    if (work_message_read_result (frames, count, &result, &bytes, &refusal))
        s_require (result.outcome < WIRE_WORK_OUTCOMES);
}

static void
s_try_add (const frame_t *frame)
{
    refusal_t refusal = { 0 };
    request_add_t add;
    if (!request_add (frame, &add, &refusal)) {
        s_require (refusal.code && *refusal.message);
        return;
    }
    s_require (add.count >= 1 && add.count <= REQUEST_WORDS_MAX);
    for (size_t word = 0; word < add.count; word++)
        s_require (strlen (add.words [word]) <= REQUEST_WORD_BYTES_MAX);
    request_add_clear (&add);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    frame_t frames [FRAMES] = { { 0 } };
    uint8_t *copies [FRAMES] = { 0 };
    size_t count = s_split (data, size, frames, copies);
    wire_head_t head;
    refusal_t refusal = { 0 };
    request_status_t status = request_head (frames, count, &head, &refusal);
    s_require (status != REQUEST_REFUSED || (refusal.code && *refusal.message));
    wire_progress_t progress;
    if (status == REQUEST_OK && head.kind == WIRE_PROGRESS)
        request_progress (&frames [1], &progress, &refusal);
    if (status == REQUEST_OK && head.kind == WIRE_JOIN)
        s_try_join (frames, count);
    request_explain_t explain;
    if (status == REQUEST_OK && head.kind == WIRE_EXPLAIN)
        s_require (request_explain (&frames [1], &explain, &refusal)? explain.epoch <= UINT64_C (1) << 53:
            *refusal.message);
    request_table_t wanted;
    if (status == REQUEST_OK && head.kind == WIRE_DATASET)
        s_require (request_table (&frames [1], &wanted, &refusal)? *wanted.dataset: *refusal.message);
    if (status == REQUEST_OK && head.kind == WIRE_ADD)
        s_try_add (&frames [1]);
    request_remove_t removal;
    if (status == REQUEST_OK && head.kind == WIRE_REMOVE)
        s_require (request_remove (&frames [1], &removal, &refusal)? *removal.dataset: *refusal.message);
    if (status == REQUEST_OK && head.kind >= WIRE_WORK_HELLO && head.kind <= WIRE_WORK_GOODBYE && count > 1)
        s_try_work (frames, count);
    for (size_t index = 0; index < count; index++)
        free (copies [index]);
    return 0;
}

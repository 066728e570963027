//  What processes that take one job together say in JOIN (docs/protocol.md: Ranks): the keys, and the frames
//  "recent".

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "request_values.h"

bool
request_take_world_size (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 1, WIRE_RANKS_MAX, "", &join->world_size, refusal);
}

//  request_check_ranks checks that the rank exists.
bool
request_take_rank (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 0, WIRE_RANKS_MAX - 1, "", &join->rank, refusal);
}

bool
request_take_gather (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 1, WIRE_RANK_SECONDS_MAX, ", in seconds", &join->gather_seconds,
        refusal);
}

bool
request_take_rank_wait (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 0, WIRE_RANK_SECONDS_MAX, ", in seconds",
        &join->rank_wait_seconds, refusal);
}

//  Checks these keys against each other and the other keys.
bool
request_check_ranks (const request_join_t *join, refusal_t *refusal)
{
    uint32_t world_size = join->world_size;
    if (join->rank >= world_size)
        return refuse (refusal, "bad_request",
            "rank: %" PRIu32 " of world_size %" PRIu32 ": ranks are counted from 0%s",
            join->rank, world_size, world_size == 1?
            "; say in world_size how many processes take the job together": "");
    if (world_size > 1 && !*join->job)
        return refuse (refusal, "bad_request",
            "world_size: ranks find each other by their job's name: give `job`");
    uint64_t window = (uint64_t) join->batch_size * join->slots * world_size;
    if (world_size > 1 && window > REQUEST_WINDOW_MAX)
        return refuse (refusal, "bad_request",
            "batch_size x slots x world_size is %" PRIu64 " samples; at most %d: take smaller "
            "batches or fewer slots", window, REQUEST_WINDOW_MAX);
    if (join->recent_frames && world_size == 1)
        return refuse (refusal, "bad_request", "frames: \"recent\" needs ranks: a world_size above 1");
    return !join->recent_frames || join->resume.given
        || refuse (refusal, "bad_request", "frames: \"recent\" needs resume");
}

//  ---- recent

enum { RECORD_NUMBERS = 4 };            //  at the beginning of each record

//  The records of a message, while they are read.
typedef struct {
    const request_join_t *join;
    uint32_t sample_count;
    const uint64_t *numbers;            //  of all frames
    size_t count, at;                   //  of numbers; those before `at` are read
    broker_position_t position;         //  the end of the previous record
    size_t ids;                         //  of the previous records
} recent_t;

//  The frames' numbers, joined, up to the limit.  NULL and the reason.
static uint64_t *
s_join_frames (const frame_t *frames, size_t count, uint32_t world_size, size_t *numbers_p,
    refusal_t *refusal)
{
    size_t most = WIRE_RECENT_RECORDS_MAX * (RECORD_NUMBERS + (size_t) world_size) + WIRE_RECENT_IDS_MAX,
        total = 0;
    char what [48];
    for (size_t index = 0; index < count; index++) {
        snprintf (what, sizeof what, "recent frame %zu", index);
        if (!request_ids_check (&frames [index], what, refusal))
            return NULL;
        if (frames [index].data [0] != WIRE_IDS_RECENT) {
            refuse (refusal, "bad_request", "%s: expected form %d (recent), got %u", what, WIRE_IDS_RECENT,
                frames [index].data [0]);
            return NULL;
        }
        total += request_ids_count (&frames [index]);
    }
    if (total == 0 || total > most) {
        refuse (refusal, "malformed", "recent: expected records of at most %zu numbers in all, got %zu", most,
            total);
        return NULL;
    }
    uint64_t *numbers = malloc (total * sizeof *numbers);
    if (!numbers)
        refuse (refusal, "budget", "no memory to read %zu numbers of what was received last", total);
    *numbers_p = 0;
    for (size_t index = 0; numbers && index < count; index++) {
        size_t here = request_ids_count (&frames [index]);
        if (here)
            memcpy (numbers + *numbers_p, frames [index].data + REQUEST_IDS_HEAD_BYTES,
                here * sizeof *numbers);
        *numbers_p += here;
    }
    return numbers;
}

//  The counts of a step that has begun, and its ids.
static bool
s_read_step (recent_t *self, size_t index, broker_record_t *record, refusal_t *refusal)
{
    uint32_t world_size = self->join->world_size;
    size_t left = self->count - self->at;
    if (left < world_size || record->samples > left - world_size)
        return refuse (refusal, "malformed",
            "recent record %zu: a step of %" PRIu64 " ids has %" PRIu32 " counts and so many "
            "numbers; %zu are left", index, record->samples, world_size, left);
    const uint64_t *counts = self->numbers + self->at, *ids = counts + world_size;
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < world_size; sum += counts [rank++])
        if (counts [rank] > self->join->batch_size)
            return refuse (refusal, "bad_state",
                "recent record %zu: rank %" PRIu32 " has %" PRIu64 " samples, and batch_size is "
                "%" PRIu32 ": a job goes on so with the same one only", index, rank, counts [rank],
                self->join->batch_size);
    //  Over several nodes a step may be of padding alone.
    if (sum != record->samples || (sum == 0 && self->join->nodes <= 1))
        return refuse (refusal, "malformed",
            "recent record %zu: a step of %" PRIu64 " ids, and its ranks have %" PRIu64, index,
            record->samples, sum);
    for (size_t place = 0; place < record->samples; place++)
        if (ids [place] >= self->sample_count)
            return refuse (refusal, "bad_state",
                "recent record %zu: id %zu is sample %" PRIu64 ", the data set has %" PRIu32
                " samples", index, place, ids [place], self->sample_count);
    record->step = counts;
    self->at += world_size + (size_t) sum;
    self->ids += (size_t) sum;
    return self->ids <= WIRE_RECENT_IDS_MAX
        || refuse (refusal, "malformed", "recent: at most %d ids are taken", WIRE_RECENT_IDS_MAX);
}

//  The next record, and where it ends.
static bool
s_read_record (recent_t *self, size_t index, broker_record_t *record, refusal_t *refusal)
{
    if (self->count - self->at < RECORD_NUMBERS)
        return refuse (refusal, "malformed", "recent record %zu: it begins with %d numbers; %zu are left",
            index, RECORD_NUMBERS, self->count - self->at);
    const uint64_t *head = self->numbers + self->at;
    self->at += RECORD_NUMBERS;
    if (head [0] != WIRE_RECENT_STEP && head [0] != WIRE_RECENT_END)
        return refuse (refusal, "malformed",
            "recent record %zu: expected kind %d (a step) or %d (an epoch's end), got %" PRIu64,
            index, WIRE_RECENT_STEP, WIRE_RECENT_END, head [0]);
    *record = (broker_record_t) { .is_end = head [0] == WIRE_RECENT_END, .epoch = head [1], .index = head [2],
        .samples = head [3] };
    if (record->epoch > REQUEST_EPOCHS_MAX || record->index > REQUEST_EPOCHS_MAX)
        return refuse (refusal, "malformed",
            "recent record %zu: expected an epoch and a number of steps of at most 2^53, got %"
            PRIu64 " and %" PRIu64, index, record->epoch, record->index);
    const broker_position_t *before = &self->position;
    if (index > 0 && (record->epoch != before->epoch || record->index != before->batches))
        return refuse (refusal, "malformed",
            "recent record %zu: it is at epoch %" PRIu64 ", step %" PRIu64 ", and the one "
            "before ended at epoch %" PRIu64 ", step %" PRIu64, index, record->epoch, record->index,
            before->epoch, before->batches);
    self->position = record->is_end? (broker_position_t) { record->epoch + 1, 0 }
        : (broker_position_t) { record->epoch, record->index + 1 };
    return record->is_end || s_read_step (self, index, record, refusal);
}

//  Reads all records; *count_p: how many.
static bool
s_read_all (recent_t *self, broker_record_t *records, size_t *count_p, refusal_t *refusal)
{
    size_t count = 0;
    while (self->at < self->count) {
        if (count == WIRE_RECENT_RECORDS_MAX)
            return refuse (refusal, "malformed", "recent: at most %d records are taken",
                WIRE_RECENT_RECORDS_MAX);
        if (!s_read_record (self, count, &records [count], refusal))
            return false;
        count++;
    }
    *count_p = count;
    const request_resume_t *resume = &self->join->resume;
    return (self->position.epoch == resume->epoch && self->position.batches == resume->batches)
        || refuse (refusal, "bad_request",
            "recent: it ends at epoch %" PRIu64 ", step %" PRIu64 ", and resume says epoch "
            "%" PRIu64 ", step %" PRIu64, self->position.epoch, self->position.batches, resume->epoch,
            resume->batches);
}

//  Copies into one block: the records, then the numbers of their steps.
static broker_record_t *
s_pack (const broker_record_t *records, size_t count, uint32_t world_size)
{
    broker_record_t *packed = malloc (request_recent_bytes (records, count, world_size));
    if (!packed)
        return NULL;
    uint64_t *numbers = (uint64_t *) (void *) (packed + count);
    for (size_t index = 0; index < count; index++) {
        packed [index] = records [index];
        if (records [index].is_end)
            continue;
        size_t here = world_size + (size_t) records [index].samples;
        memcpy (numbers, records [index].step, here * sizeof *numbers);
        packed [index].step = numbers;
        numbers += here;
    }
    return packed;
}

_Static_assert (sizeof (broker_record_t) % sizeof (uint64_t) == 0, "numbers follow the records");

size_t
request_recent_bytes (const broker_record_t *records, size_t count, uint32_t world_size)
{
    size_t bytes = count * sizeof *records;
    for (size_t index = 0; index < count; index++)
        if (!records [index].is_end)
            bytes += (world_size + (size_t) records [index].samples) * sizeof *records [index].step;
    return bytes;
}

bool
request_recent (const frame_t *frames, const request_join_t *join, uint32_t sample_count,
    broker_record_t **records_p, size_t *count_p, refusal_t *refusal)
{
    assert (join->recent_frames > 0);
    *records_p = NULL;
    *count_p = 0;
    recent_t reading = { .join = join, .sample_count = sample_count };
    uint64_t *numbers = s_join_frames (&frames [join->recent_first], join->recent_frames, join->world_size,
        &reading.count, refusal);
    if (!numbers)
        return false;
    reading.numbers = numbers;
    broker_record_t records [WIRE_RECENT_RECORDS_MAX];
    bool good = s_read_all (&reading, records, count_p, refusal);
    if (good && !(*records_p = s_pack (records, *count_p, join->world_size)))
        good = refuse (refusal, "budget", "no memory for %zu records of what was received last", *count_p);
    free (numbers);
    return good;
}

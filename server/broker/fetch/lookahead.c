//  Orders with a pool (stream_order.h): samples that enter the pool are read in whole pieces and held until
//  they are drawn.
//
//  happy path:     a piece enters -> its samples are held, with one read for neighbours -> drawn: the
//                  versions that are prepared from a sample hold it instead
//  failure modes:  a sample without room in the job's memory is not held, and is read alone when it is drawn.
//                  So is a sample with a version in the cache that is evicted meanwhile.  The worker that
//                  prepares a damaged sample finds it.
//  on close:       all holds are given back; reads under way end by themselves.

#include "lookahead.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "raw_prefetch.h"
#include "raw_refcount.h"
#include "xalloc.h"

//  Room above the mean, because samples differ in size: a quarter for a part of the data above the mean, and
//  so many standard deviations of a pool's sum, but at most so many of the largest samples.
enum { MEAN_PARTS = 4, ROOM_PARTS = 5, DEVIATIONS = 6, LARGEST = 64 };

_Static_assert ((int) WIRE_POOL_MIN == (int) STREAM_ORDER_POOL_MIN
    && (int) WIRE_POOL_MAX == (int) STREAM_ORDER_POOL_MAX, "what a request may ask for can be had");
_Static_assert ((int) STREAM_ORDER_PIECE <= (int) RAW_PIECE_MAX, "a read may bring a piece");

size_t
lookahead_bound (const broker_terms_t *join)
{
    const dataset_t *dataset = join->dataset;
    const raw_prefetch_t *prefetch = dataset->prefetch;
    uint64_t samples = join->subset? roaring_bitmap_get_cardinality (join->subset): dataset->samples;
    uint64_t pool = join->pool < samples? join->pool: samples;
    uint64_t mean = prefetch->bytes / dataset->samples + 1;
    uint64_t spread = (uint64_t) (DEVIATIONS
        * sqrt ((double) pool * prefetch->square_bytes / dataset->samples));
    uint64_t largest = LARGEST * (uint64_t) prefetch->sample_bytes_max;
    uint64_t bytes = pool * mean / MEAN_PARTS * ROOM_PARTS + (spread < largest? spread: largest);
    return (size_t) (bytes < prefetch->bytes? bytes: prefetch->bytes);
}

size_t
lookahead_bytes (const job_t *job)
{
    return job->fetch.ahead? job->fetch.ahead->bytes: 0;
}

//  ---- reading pieces

//  The samples of a piece that one read brings.
typedef struct {
    raw_sample_t *samples [STREAM_ORDER_PIECE];
    uint32_t count;
    uint32_t last;              //  its position
    size_t bytes;               //  from the first one to it
} range_t;

static void
s_request (broker_t *self, uint32_t lane, const dataset_t *dataset, range_t *range)
{
    if (range->count > 0)
        raw_store_request (self->raw, lane, dataset->number, range->samples, range->count);
    range->count = 0;
}

//  Whether a volume begins after one position and at or before another.
static bool
s_is_broken (const raw_prefetch_t *prefetch, uint32_t after, uint32_t position)
{
    size_t low = 0, high = prefetch->given.break_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (prefetch->given.breaks [middle] <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low < prefetch->given.break_count && prefetch->given.breaks [low] <= position;
}

static size_t
s_bytes_at (const raw_prefetch_t *prefetch, uint32_t position)
{
    return prefetch->given.sample_bytes (prefetch->given.user, prefetch->given.order [position]);
}

//  Bytes from the range's end to this position's sample, included; 0: the sample does not belong to the
//  range.  A gap is read through unless a second read behind it is quicker.
static size_t
s_reach (const raw_prefetch_t *prefetch, const range_t *range, uint32_t position)
{
    const broker_pack_t *given = &prefetch->given;
    if (range->count == 0 || position <= range->last || position > range->last + RAW_PIECE_MAX
    ||  s_is_broken (prefetch, range->last, position))
        return 0;
    size_t most = given->read_bytes_max, bytes = 0;
    for (uint32_t between = range->last + 1; between <= position; between++) {
        bytes += s_bytes_at (prefetch, between);
        if (range->bytes + bytes > most)
            return 0;
    }
    size_t last = s_bytes_at (prefetch, range->last);
    bool parts = position > range->last + 1 && given->prefers_singles
        && given->prefers_singles (given->user, 2, last + s_bytes_at (prefetch, position), last + bytes);
    return parts? 0: bytes;
}

//  Puts a new sample into the range, or into one that begins with it.
static void
s_add (broker_t *self, uint32_t lane, const dataset_t *dataset, range_t *range, raw_sample_t *sample)
{
    uint32_t position = dataset->prefetch->positions [sample->id];
    size_t reach = s_reach (dataset->prefetch, range, position);
    if (reach > 0)
        range->bytes += reach;
    else {
        s_request (self, lane, dataset, range);
        range->bytes = sample->bytes;
    }
    range->last = position;
    range->samples [range->count++] = sample;
}

//  Whether the sample is worth holding, and there is room for it.
static bool
s_is_wanted (const broker_t *self, job_t *job, uint32_t id, size_t bytes)
{
    consumer_t *consumer = &job->consumer;
    return sampler_needs (job->dataset->sampler, consumer->sampler_job, id)
        && job->fetch.ahead->bytes + bytes <= job->fetch.lookahead_bytes_max
        && !version_index_serves (self->version_index, &consumer, 1, id);
}

static void
s_read_piece (broker_t *self, job_t *job, const stream_piece_t *piece)
{
    range_t range = { .count = 0 };
    lookahead_t *ahead = job->fetch.ahead;
    const dataset_t *dataset = job->dataset;
    uint32_t lane = raw_refcount_lane (self, job->tenant);
    for (uint32_t index = 0; index < piece->count; index++) {
        uint32_t id = piece->ids [index];
        size_t bytes = s_bytes_at (dataset->prefetch, dataset->prefetch->positions [id]);
        if (!s_is_wanted (self, job, id, bytes) || !roaring_bitmap_add_checked (ahead->held, id))
            continue;
        ahead->bytes += bytes;
        raw_sample_t *sample = raw_store_hold (self->raw, dataset->number, id, bytes);
        if (raw_sample_is_new (sample))
            s_add (self, lane, dataset, &range, sample);
    }
    s_request (self, lane, dataset, &range);
}

//  Reads the samples that have entered the pool.
static void
s_fill (broker_t *self, job_t *job)
{
    stream_piece_t piece;
    while (sampler_entered (job->dataset->sampler, job->consumer.sampler_job, &piece))
        s_read_piece (self, job, &piece);
}

//  ---- letting go

static void
s_let_go (broker_t *self, job_t *job, uint32_t id)
{
    raw_sample_t *sample = raw_store_find (self->raw, job->dataset->number, id);
    assert (sample);
    assert (job->fetch.ahead->bytes >= sample->bytes);
    job->fetch.ahead->bytes -= sample->bytes;
    raw_refcount_let_go (self, job->dataset, sample);
}

void
lookahead_drop (broker_t *self, job_t *job, uint32_t id)
{
    if (roaring_bitmap_remove_checked (job->fetch.ahead->held, id))
        s_let_go (self, job, id);
    s_fill (self, job);
}

static void
s_clear (broker_t *self, job_t *job)
{
    roaring_uint32_iterator_t ids;
    roaring_bitmap_t *held = job->fetch.ahead->held;
    job->fetch.ahead->held = xalloc_memory (roaring_bitmap_create ());
    for (roaring_init_iterator (held, &ids); ids.has_value; roaring_advance_uint32_iterator (&ids))
        s_let_go (self, job, ids.current_value);
    roaring_bitmap_free (held);
    assert (job->fetch.ahead->bytes == 0);
}

void
lookahead_epoch_begin (broker_t *self, job_t *job)
{
    s_clear (self, job);
    s_fill (self, job);
}

//  ---- life

void
lookahead_begin (broker_t *self, job_t *job, size_t bytes_max)
{
    assert (!job->fetch.ahead);
    job->fetch.ahead = xalloc_memory (calloc (1, sizeof *job->fetch.ahead));
    job->fetch.ahead->held = xalloc_memory (roaring_bitmap_create ());
    job->fetch.lookahead_bytes_max = bytes_max;
    s_fill (self, job);
}

void
lookahead_end (broker_t *self, job_t *job)
{
    s_clear (self, job);
    roaring_bitmap_free (job->fetch.ahead->held);
    free (job->fetch.ahead);
    job->fetch.ahead = NULL;
    job->fetch.lookahead_bytes_max = 0;
}

void
lookahead_check (const broker_t *self, const job_t *job)
{
    size_t bytes = 0;
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (job->fetch.ahead->held, &ids); ids.has_value;
        roaring_advance_uint32_iterator (&ids)) {
        const raw_sample_t *sample = raw_store_find (self->raw, job->dataset->number, ids.current_value);
        assert (sample && sample->holds > 0);                                   //  B6
        assert (sampler_needs (job->dataset->sampler, job->consumer.sampler_job, ids.current_value));
        bytes += sample->bytes;
    }
    assert (bytes == job->fetch.ahead->bytes);
    assert (bytes <= job->fetch.lookahead_bytes_max);
}

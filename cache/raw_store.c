#include "raw_store.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STORE_MAGIC = 0x72617773, BUCKETS_MIN = 1024, PASSED_OVER_MAX = 256 };

typedef struct {
    raw_request_t *first, *last;        //  in line
    size_t part, bytes;
    uint32_t passed_over;               //  how often there was no memory for its first one
} lane_t;

struct raw_store {
    uint32_t magic;
    //  set at birth
    size_t budget_bytes;
    uint32_t (*position) (void *context, uint32_t source, uint32_t id);
    void *position_context;
    //  owner only
    raw_sample_t **buckets;             //  by hash of source and id
    size_t bucket_count;                //  a power of two
    size_t sample_count;
    size_t memory_bytes;
    lane_t lanes [RAW_LANES_MAX];
    uint32_t lane_count;                //  none from here on has been used
    uint32_t turn;                      //  the lane that comes first
    size_t queued, handed_out;
};

static void *
s_need (void *memory)
{
    if (!memory) {
        fprintf (stderr, "tureen: no memory for the bookkeeping of compressed samples\n");
        abort ();
    }
    return memory;
}

//  ---- finding

static size_t
s_bucket (const raw_store_t *self, uint32_t source, uint32_t id)
{
    uint64_t key = ((uint64_t) source << 32 | id) * UINT64_C (0x9e3779b97f4a7c15);
    return (size_t) (key >> 32) & (self->bucket_count - 1);
}

static void
s_grow (raw_store_t *self)
{
    raw_sample_t **before = self->buckets;
    size_t count = self->bucket_count;
    self->bucket_count *= 2;
    self->buckets = s_need (calloc (self->bucket_count, sizeof *self->buckets));
    for (size_t bucket = 0; bucket < count; bucket++)
        for (raw_sample_t *sample = before [bucket], *next; sample; sample = next) {
            next = sample->chain;
            raw_sample_t **head = &self->buckets [s_bucket (self, sample->source, sample->id)];
            sample->chain = *head;
            *head = sample;
        }
    free (before);
}

raw_sample_t *
raw_store_find (const raw_store_t *self, uint32_t source, uint32_t id)
{
    assert (self->magic == STORE_MAGIC);
    raw_sample_t *sample = self->buckets [s_bucket (self, source, id)];
    while (sample && (sample->source != source || sample->id != id))
        sample = sample->chain;
    return sample;
}

//  ---- life

raw_store_t *
raw_store_new (size_t budget_bytes)
{
    assert (budget_bytes > 0);
    raw_store_t *self = s_need (calloc (1, sizeof *self));
    *self = (raw_store_t) { .magic = STORE_MAGIC, .budget_bytes = budget_bytes, .bucket_count = BUCKETS_MIN };
    self->buckets = s_need (calloc (self->bucket_count, sizeof *self->buckets));
    return self;
}

void
raw_store_destroy (raw_store_t **self_p)
{
    raw_store_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == STORE_MAGIC);
    assert (self->sample_count == 0);
    assert (self->handed_out == 0);
    for (uint32_t lane = 0; lane < self->lane_count; lane++)
        for (raw_request_t *request = self->lanes [lane].first, *next; request; request = next) {
            next = request->next;
            free (request);
        }
    free (self->buckets);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
raw_store_on_position (raw_store_t *self, uint32_t (*position) (void *context, uint32_t source, uint32_t id),
    void *context)
{
    self->position = position;
    self->position_context = context;
}

//  ---- holding

raw_sample_t *
raw_store_hold (raw_store_t *self, uint32_t source, uint32_t id, size_t bytes)
{
    raw_sample_t *sample = raw_store_find (self, source, id);
    if (!sample) {
        if (self->sample_count == self->bucket_count)
            s_grow (self);
        sample = s_need (calloc (1, sizeof *sample));
        raw_sample_t **head = &self->buckets [s_bucket (self, source, id)];
        *sample = (raw_sample_t) { .source = source, .id = id, .bytes = bytes, .chain = *head };
        *head = sample;
        self->sample_count++;
    }
    sample->holds++;
    return sample;
}

static void
s_free_memory (raw_store_t *self, raw_sample_t *sample)
{
    if (!sample->memory)
        return;
    free (sample->memory);
    sample->memory = NULL;
    self->memory_bytes -= sample->bytes;
    self->lanes [sample->lane].bytes -= sample->bytes;
}

static void
s_leave_request (raw_sample_t *sample)
{
    raw_request_t *request = sample->request;
    uint32_t index = 0;
    while (request->samples [index] != sample)
        index++;
    request->samples [index] = request->samples [--request->sample_count];
    sample->request = NULL;
}

static void
s_forget (raw_store_t *self, raw_sample_t *sample)
{
    raw_sample_t **link = &self->buckets [s_bucket (self, sample->source, sample->id)];
    while (*link != sample)
        link = &(*link)->chain;
    *link = sample->chain;
    s_free_memory (self, sample);
    self->sample_count--;
    free (sample);
}

void
raw_store_drop (raw_store_t *self, raw_sample_t *sample)
{
    assert (self->magic == STORE_MAGIC);
    assert (sample->holds > 0);
    if (--sample->holds > 0)
        return;
    if (sample->request && sample->request->handed_out)
        return;                         //  somebody writes its memory: it goes when that is done
    if (sample->request)
        s_leave_request (sample);
    s_forget (self, sample);
}

//  ---- reads

static lane_t *
s_lane (raw_store_t *self, uint32_t lane)
{
    assert (lane < RAW_LANES_MAX);
    if (lane >= self->lane_count)
        self->lane_count = lane + 1;
    return &self->lanes [lane];
}

void
raw_store_part (raw_store_t *self, uint32_t lane, size_t bytes)
{
    assert (self->magic == STORE_MAGIC);
    s_lane (self, lane)->part = bytes;
}

//  In line, behind the others of its lane.
static void
s_queue (raw_store_t *self, raw_request_t *request)
{
    lane_t *lane = s_lane (self, request->lane);
    if (lane->last)
        lane->last->next = request;
    else
        lane->first = request;
    lane->last = request;
    self->queued++;
}

void
raw_store_request (raw_store_t *self, uint32_t lane, uint32_t source, uint32_t first, uint32_t count,
    raw_sample_t *const *samples, uint32_t sample_count)
{
    assert (self->magic == STORE_MAGIC);
    assert (sample_count > 0 && sample_count <= RAW_PIECE_MAX);
    raw_request_t *request = s_need (calloc (1, sizeof *request));
    *request = (raw_request_t) { .lane = lane, .source = source, .first = first, .count = count, .sample_count = sample_count };
    for (uint32_t index = 0; index < sample_count; index++) {
        assert (raw_sample_is_new (samples [index]));
        request->samples [index] = samples [index];
        samples [index]->request = request;
    }
    s_queue (self, request);
}

static bool
s_is_queued (const raw_sample_t *sample)
{
    return sample && sample->request && !sample->request->handed_out;
}

void
raw_store_also (raw_store_t *self, uint32_t lane, const raw_sample_t *sample)
{
    assert (self->magic == STORE_MAGIC);
    if (!s_is_queued (sample) || sample->request->lane == lane)
        return;
    raw_request_t *request = s_need (calloc (1, sizeof *request));
    *request = (raw_request_t) { .lane = lane, .source = sample->source, .also = sample->id + 1 };
    s_queue (self, request);
}

void
raw_store_count (raw_store_t *self, raw_sample_t *sample, uint32_t lane)
{
    assert (self->magic == STORE_MAGIC);
    lane_t *home = s_lane (self, lane);
    sample->home = lane + 1;
    if (!sample->memory)
        return;
    self->lanes [sample->lane].bytes -= sample->bytes;
    home->bytes += sample->bytes;
    sample->lane = lane;
}

static void
s_take_first (raw_store_t *self, lane_t *lane)
{
    lane->first = lane->first->next;
    if (!lane->first)
        lane->last = NULL;
    lane->passed_over = 0;
    self->queued--;
}

//  The range that the samples left in the request need: what is no longer wanted at its ends is not read.
static void
s_trim (const raw_store_t *self, raw_request_t *request)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t index = 0; index < request->sample_count; index++) {
        uint32_t position = self->position (self->position_context, request->source, request->samples [index]->id);
        first = position < first? position: first;
        last = position > last? position: last;
    }
    request->first = first;
    request->count = last - first + 1;
}

static size_t
s_bytes (const raw_request_t *request)
{
    size_t bytes = 0;
    for (uint32_t index = 0; index < request->sample_count; index++)
        bytes += request->samples [index]->bytes;
    return bytes;
}

//  What is kept for other lanes.
static size_t
s_kept_bytes (const raw_store_t *self, const lane_t *than)
{
    size_t kept = 0;
    for (const lane_t *lane = self->lanes; lane < self->lanes + self->lane_count; lane++)
        kept += lane != than && lane->part > lane->bytes? lane->part - lane->bytes: 0;
    return kept;
}

static bool
s_is_waited_for (const lane_t *lane)
{
    return lane->passed_over >= PASSED_OVER_MAX;
}

static bool
s_has_memory_for (const raw_store_t *self, const lane_t *lane, size_t bytes)
{
    if (self->memory_bytes == 0)
        return true;
    //  What is larger than the part is read one by one.
    bool is_its_turn = lane->bytes == 0 || lane->bytes + bytes <= lane->part || s_is_waited_for (lane);
    size_t kept = is_its_turn? 0: s_kept_bytes (self, lane);
    return self->memory_bytes + bytes + kept <= self->budget_bytes;
}

static bool
s_give_memory (raw_store_t *self, raw_request_t *request)
{
    uint32_t given = 0;
    for (; given < request->sample_count; given++) {
        raw_sample_t *sample = request->samples [given];
        sample->memory = malloc (sample->bytes? sample->bytes: 1);
        if (!sample->memory)
            break;
        sample->lane = sample->home? sample->home - 1: request->lane;
        self->memory_bytes += sample->bytes;
        self->lanes [sample->lane].bytes += sample->bytes;
    }
    bool all = given == request->sample_count;
    for (uint32_t index = 0; !all && index < given; index++)
        s_free_memory (self, request->samples [index]);
    return all;
}

//  Whether the sample stands in lane 0, which can go on.
static bool
s_comes_anyway (const raw_store_t *self, const raw_sample_t *sample)
{
    const lane_t *lane = &self->lanes [0];
    return s_is_queued (sample) && sample->request->lane == 0
        && (lane->first->sample_count == 0 || s_has_memory_for (self, lane, s_bytes (lane->first)));
}

//  The lane's first request that still brings something; NULL: none now.
static raw_request_t *
s_first (raw_store_t *self, lane_t *lane)
{
    raw_request_t *request;
    while ((request = lane->first) && request->sample_count == 0) {
        raw_sample_t *sample = request->also? raw_store_find (self, request->source, request->also - 1): NULL;
        if (s_is_queued (sample) && s_comes_anyway (self, sample))
            return NULL;
        if (s_is_queued (sample)) {
            s_leave_request (sample);
            request->samples [request->sample_count++] = sample;
            sample->request = request;
            request->also = 0;
            return request;
        }
        s_take_first (self, lane);
        free (request);
    }
    return request;
}

//  The lane's next request, if there is memory; NULL: none, or there is not.
static raw_request_t *
s_next (raw_store_t *self, lane_t *lane)
{
    raw_request_t *request = s_first (self, lane);
    if (!request) {
        lane->passed_over = 0;
        return NULL;
    }
    if (!s_has_memory_for (self, lane, s_bytes (request)) || !s_give_memory (self, request)) {
        lane->passed_over += !s_is_waited_for (lane);
        return NULL;
    }
    s_take_first (self, lane);
    request->next = NULL;
    request->handed_out = true;
    s_trim (self, request);
    self->handed_out++;
    return request;
}

void
raw_store_hurry (raw_store_t *self)
{
    assert (self->magic == STORE_MAGIC);
    for (uint32_t lane = 0; lane < self->lane_count; lane++)
        self->lanes [lane].passed_over = self->lanes [lane].first? PASSED_OVER_MAX: 0;
}

raw_request_t *
raw_store_next (raw_store_t *self)
{
    assert (self->magic == STORE_MAGIC);
    for (uint32_t step = 0; step < self->lane_count; step++) {
        lane_t *lane = &self->lanes [(self->turn + step) % self->lane_count];
        raw_request_t *request = s_next (self, lane);
        if (request)
            self->turn = request->lane + 1;
        if (request || s_is_waited_for (lane))
            return request;
    }
    return NULL;
}

//  One of several that could not be read together: by itself.
static void
s_read_alone (raw_store_t *self, uint32_t lane, raw_sample_t *sample)
{
    s_free_memory (self, sample);
    uint32_t position = self->position (self->position_context, sample->source, sample->id);
    raw_store_request (self, lane, sample->source, position, 1, &sample, 1);
}

void
raw_store_done (raw_store_t *self, raw_request_t *request, void (*arrived) (void *context, raw_sample_t *sample),
    void *context)
{
    assert (self->magic == STORE_MAGIC);
    assert (request->handed_out && self->handed_out > 0);
    self->handed_out--;
    for (uint32_t index = 0; index < request->sample_count; index++) {
        raw_sample_t *sample = request->samples [index];
        sample->request = NULL;
        if (sample->holds == 0) {
            s_forget (self, sample);
            continue;
        }
        if (request->rc && request->sample_count > 1) {
            s_read_alone (self, request->lane, sample);
            continue;
        }
        sample->rc = request->rc? request->rc: request->damaged >> index & 1? -EBADMSG: 0;
        sample->state = sample->rc? RAW_SAMPLE_BAD: RAW_SAMPLE_READY;
        if (sample->rc)
            s_free_memory (self, sample);
        arrived (context, sample);
    }
    free (request);
}

//  ---- questions

size_t
raw_store_bytes (const raw_store_t *self)
{
    return self->memory_bytes;
}

size_t
raw_store_budget (const raw_store_t *self)
{
    return self->budget_bytes;
}

size_t
raw_store_samples (const raw_store_t *self)
{
    return self->sample_count;
}

size_t
raw_store_queued (const raw_store_t *self)
{
    return self->queued;
}

void
raw_store_check (const raw_store_t *self)
{
    assert (self->magic == STORE_MAGIC);
    size_t bytes = 0, samples = 0, in_memory = 0, queued = 0, of_lanes [RAW_LANES_MAX] = { 0 };
    for (uint32_t lane = 0; lane < self->lane_count; lane++)
        for (const raw_request_t *request = self->lanes [lane].first; request; request = request->next) {
            assert (request->lane == lane && !request->handed_out);
            queued++;
        }
    assert (queued == self->queued);                                                            //  R4
    for (size_t bucket = 0; bucket < self->bucket_count; bucket++)
        for (const raw_sample_t *sample = self->buckets [bucket]; sample; sample = sample->chain) {
            bytes += sample->memory? sample->bytes: 0;
            of_lanes [sample->lane] += sample->memory? sample->bytes: 0;
            in_memory += sample->memory != NULL;
            samples++;
            assert (sample->holds > 0 || (sample->request && sample->request->handed_out));     //  R2
            assert ((sample->state == RAW_SAMPLE_AWAITED) == (sample->request != NULL));        //  R3
            uint32_t found = 0;
            for (uint32_t index = 0; sample->request && index < sample->request->sample_count; index++)
                found += sample->request->samples [index] == sample;
            assert (found == (sample->request != NULL));                                        //  R3
        }
    for (uint32_t lane = 0; lane < RAW_LANES_MAX; lane++)
        assert (of_lanes [lane] == self->lanes [lane].bytes);                                   //  R4
    assert (samples == self->sample_count);
    assert (bytes == self->memory_bytes);                                                       //  R1
    assert (bytes <= self->budget_bytes || in_memory <= RAW_PIECE_MAX);                         //  R1
}

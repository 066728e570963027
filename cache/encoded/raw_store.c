#include "raw_store.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"
#include "xalloc.h"

enum { STORE_MAGIC = 0x72617773, BUCKETS_MIN = 1024, PASSED_OVER_MAX = 256 };

//  Requests of one source.
typedef struct {
    raw_request_t *first, *last;
} line_t;

typedef struct {
    line_t lines [RAW_SOURCES_MAX];
    uint64_t occupied;                  //  a bit for each line that is not empty
    uint32_t turn;                      //  the line that is next
    size_t part, alone, bytes;          //  alone <= part
    uint32_t passed_over;               //  how often there was no memory for its first request
    bool is_short;                      //  at the last look there was no memory
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
    size_t sample_count, samples_of [RAW_SOURCES_MAX];
    size_t memory_bytes;
    lane_t lanes [RAW_LANES_MAX];
    uint32_t lane_count;                //  lanes from here on were never used
    uint32_t turn;                      //  the lane that is next
    uint64_t held_back;                 //  sources
    size_t queued, handed_out;
};

static uint64_t
s_source_bit (uint32_t source)
{
    return UINT64_C (1) << source;
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
    self->buckets = xalloc_memory (calloc (self->bucket_count, sizeof *self->buckets));
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
    raw_store_t *self = xalloc_memory (calloc (1, sizeof *self));
    *self = (raw_store_t) { .magic = STORE_MAGIC, .budget_bytes = budget_bytes, .bucket_count = BUCKETS_MIN };
    self->buckets = xalloc_memory (calloc (self->bucket_count, sizeof *self->buckets));
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
    for (uint32_t source = 0; source < RAW_SOURCES_MAX; source++)
        raw_store_forget (self, source);
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
    assert (source < RAW_SOURCES_MAX);
    raw_sample_t *sample = raw_store_find (self, source, id);
    if (!sample) {
        if (self->sample_count == self->bucket_count)
            s_grow (self);
        sample = xalloc_memory (calloc (1, sizeof *sample));
        raw_sample_t **head = &self->buckets [s_bucket (self, source, id)];
        *sample = (raw_sample_t) { .source = source, .id = id, .bytes = bytes, .chain = *head };
        *head = sample;
        self->sample_count++;
        self->samples_of [source]++;
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
    self->lanes [raw_sample_lane (sample)].bytes -= sample->bytes;
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
    self->samples_of [sample->source]--;
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
        return;                         //  a reader writes its memory: it is freed when that is done
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
raw_store_part (raw_store_t *self, uint32_t number, size_t bytes, size_t alone_bytes)
{
    assert (self->magic == STORE_MAGIC);
    assert (number > 0 && alone_bytes <= bytes);
    lane_t *lane = s_lane (self, number);
    lane->part = bytes;
    lane->alone = alone_bytes;
}

static void
s_bring (raw_request_t *request, raw_sample_t *sample)
{
    request->samples [request->sample_count++] = sample;
    sample->request = request;
}

//  Queues it behind the others of its source in its lane.
static void
s_queue (raw_store_t *self, raw_request_t *request)
{
    lane_t *lane = s_lane (self, request->lane);
    line_t *line = &lane->lines [request->source];
    if (line->last)
        line->last->next = request;
    else
        line->first = request;
    line->last = request;
    lane->occupied |= s_source_bit (request->source);
    self->queued++;
}

//  Queues it before the others.
static void
s_queue_first (raw_store_t *self, raw_request_t *request)
{
    lane_t *lane = s_lane (self, request->lane);
    line_t *line = &lane->lines [request->source];
    request->next = line->first;
    line->first = request;
    if (!line->last)
        line->last = request;
    lane->occupied |= s_source_bit (request->source);
    self->queued++;
}

void
raw_store_request (raw_store_t *self, uint32_t lane, uint32_t source, raw_sample_t *const *samples,
    uint32_t count)
{
    assert (self->magic == STORE_MAGIC);
    assert (count > 0 && count <= RAW_PIECE_MAX);
    raw_request_t *request = xalloc_memory (calloc (1, sizeof *request));
    *request = (raw_request_t) { .lane = lane, .source = source };
    for (uint32_t index = 0; index < count; index++) {
        assert (raw_sample_is_new (samples [index]));
        s_bring (request, samples [index]);
        if (samples [index]->home == 0)
            samples [index]->home = lane + 1;
    }
    s_queue (self, request);
}

static uint64_t
s_bit (uint32_t lane)
{
    return lane == 0? 0: UINT64_C (1) << (lane - 1);
}

static bool
s_is_queued (const raw_sample_t *sample)
{
    return sample && sample->request && !sample->request->handed_out;
}

//  A place in the queue that reads nothing by itself.
static raw_request_t *
s_new_place (raw_sample_t *sample, uint32_t lane)
{
    raw_request_t *request = xalloc_memory (calloc (1, sizeof *request));
    *request = (raw_request_t) { .lane = lane, .source = sample->source, .also = sample->id + 1 };
    sample->stands |= s_bit (lane);
    return request;
}

void
raw_store_also (raw_store_t *self, uint32_t lane, raw_sample_t *sample)
{
    assert (self->magic == STORE_MAGIC);
    if (!sample->request)
        return;
    sample->asked |= s_bit (lane);
    if (s_is_queued (sample) && sample->request->lane != lane && !(sample->stands & s_bit (lane)))
        s_queue (self, s_new_place (sample, lane));
}

void
raw_store_count (raw_store_t *self, raw_sample_t *sample, uint32_t lane)
{
    assert (self->magic == STORE_MAGIC);
    lane_t *home = s_lane (self, lane);
    if (sample->memory) {
        self->lanes [raw_sample_lane (sample)].bytes -= sample->bytes;
        home->bytes += sample->bytes;
    }
    sample->home = lane + 1;
}

static void
s_take_first (raw_store_t *self, lane_t *lane, uint32_t source)
{
    line_t *line = &lane->lines [source];
    line->first = line->first->next;
    if (!line->first) {
        line->last = NULL;
        lane->occupied &= ~s_source_bit (source);
    }
    lane->passed_over = 0;
    self->queued--;
}

//  The range of the samples left in the request: unwanted samples at its ends are not read.
static void
s_trim (const raw_store_t *self, raw_request_t *request)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t index = 0; index < request->sample_count; index++) {
        uint32_t position = self->position (self->position_context, request->source,
            request->samples [index]->id);
        first = position < first? position: first;
        last = position > last? position: last;
    }
    request->first = first;
    request->count = last - first + 1;
}

static lane_t *
s_home (raw_store_t *self, const raw_sample_t *sample)
{
    return &self->lanes [raw_sample_lane (sample)];
}

//  The memory kept for lanes: the unused rests of their parts.
static size_t
s_kept_bytes (const raw_store_t *self)
{
    size_t kept = 0;
    for (const lane_t *lane = self->lanes; lane < self->lanes + self->lane_count; lane++)
        kept += lane->part > lane->bytes? lane->part - lane->bytes: 0;
    return kept;
}

bool
raw_store_has_room (const raw_store_t *self, const raw_sample_t *sample)
{
    assert (self->magic == STORE_MAGIC);
    uint32_t lane = raw_sample_lane (sample);
    bool is_early = sample->stands & s_bit (lane) && self->lanes [lane].is_short;
    return !is_early && self->memory_bytes + s_kept_bytes (self) <= self->budget_bytes;
}

static size_t
s_bytes (const raw_request_t *request)
{
    size_t bytes = 0;
    for (uint32_t index = 0; index < request->sample_count; index++)
        bytes += request->samples [index]->bytes;
    return bytes;
}

//  The memory that would be kept if the request's samples had memory.
static size_t
s_kept_beside (raw_store_t *self, const raw_request_t *request)
{
    for (uint32_t index = 0; index < request->sample_count; index++)
        s_home (self, request->samples [index])->bytes += request->samples [index]->bytes;
    size_t kept = s_kept_bytes (self);
    for (uint32_t index = 0; index < request->sample_count; index++)
        s_home (self, request->samples [index])->bytes -= request->samples [index]->bytes;
    return kept;
}

static bool
s_is_waited_for (const lane_t *lane)
{
    return lane->passed_over >= PASSED_OVER_MAX;
}

//  Whether there is memory without touching the memory kept for lanes.
static bool
s_fits (raw_store_t *self, const raw_request_t *request)
{
    return self->memory_bytes + s_bytes (request) + s_kept_beside (self, request) <= self->budget_bytes;
}

//  Whether all its samples count on the lane and fit into its part; or it is the lane's first request.
static bool
s_is_in_part (raw_store_t *self, const lane_t *lane, const raw_request_t *request)
{
    for (uint32_t index = 0; index < request->sample_count; index++)
        if (s_home (self, request->samples [index]) != lane)
            return false;
    return lane != self->lanes && (lane->bytes == 0 || lane->bytes + s_bytes (request) <= lane->part);
}

//  Whether there is so much memory; a request larger than the budget is read alone.
static bool
s_is_there (const raw_store_t *self, size_t bytes)
{
    return self->memory_bytes == 0 || self->memory_bytes + bytes <= self->budget_bytes;
}

//  Memory within a lane's part is kept for it; if others use it for a while, the lane is the first to get it
//  back.
static bool
s_has_memory_for (raw_store_t *self, const lane_t *lane, const raw_request_t *request)
{
    bool is_its_turn = s_is_in_part (self, lane, request) || s_is_waited_for (lane);
    return s_is_there (self, s_bytes (request))
        && (self->memory_bytes == 0 || is_its_turn || s_fits (self, request));
}

static bool
s_give_memory (raw_store_t *self, raw_request_t *request)
{
    uint32_t given = 0;
    for (; given < request->sample_count; given++) {
        raw_sample_t *sample = request->samples [given];
        sample->memory = machine_keep_headroom (malloc (sample->bytes? sample->bytes: 1));
        if (!sample->memory)
            break;
        self->memory_bytes += sample->bytes;
        s_home (self, sample)->bytes += sample->bytes;
    }
    bool all = given == request->sample_count;
    for (uint32_t index = 0; !all && index < given; index++)
        s_free_memory (self, request->samples [index]);
    return all;
}

void
raw_store_forget (raw_store_t *self, uint32_t source)
{
    assert (self->magic == STORE_MAGIC);
    assert (self->samples_of [source] == 0);
    for (lane_t *lane = self->lanes; lane < self->lanes + self->lane_count; lane++)
        for (raw_request_t *request; (request = lane->lines [source].first);) {
            assert (request->sample_count == 0);
            s_take_first (self, lane, source);
            free (request);
        }
}

bool
raw_store_has (const raw_store_t *self, uint32_t source)
{
    bool is_queued = false;
    for (const lane_t *lane = self->lanes; lane < self->lanes + self->lane_count; lane++)
        is_queued = is_queued || lane->lines [source].first;
    return is_queued || self->samples_of [source] > 0;
}

//  ---- samples with places in several lanes

//  Another lane takes the sample out of a tenant's request: the sample keeps its place in the queue.
static void
s_leave_place (raw_store_t *self, raw_request_t *request, raw_sample_t *sample)
{
    line_t *line = &self->lanes [request->lane].lines [request->source];
    if (request->lane == 0 || sample->stands & s_bit (request->lane))
        return;
    if (request->sample_count == 0) {
        request->also = sample->id + 1;
        sample->stands |= s_bit (request->lane);
        return;
    }
    raw_request_t *place = s_new_place (sample, request->lane);
    place->next = request->next;
    request->next = place;
    line->last = line->last == request? place: line->last;
    self->queued++;
}

//  Takes over all samples of the other request, and leaves it empty in its lane.
static void
s_take_over (raw_request_t *request, raw_request_t *other)
{
    for (uint32_t index = 0; index < other->sample_count; index++)
        s_bring (request, other->samples [index]);
    other->sample_count = 0;
}

//  A request for the sample alone, counted on the lane.
static void
s_take_alone (raw_store_t *self, raw_request_t *request, raw_sample_t *sample)
{
    raw_request_t *other = sample->request;
    s_leave_request (sample);
    s_leave_place (self, other, sample);
    s_bring (request, sample);
    sample->home = request->lane + 1;
}

//  Whether a lane may take a sample out of another lane's request; always if the sample is alone in its
//  request.
static bool
s_may_take_alone (raw_store_t *self, const lane_t *lane, const raw_sample_t *sample)
{
    const raw_request_t *request = sample->request;
    bool is_own = &self->lanes [request->lane] == lane && request->sample_count == 1
        && s_fits (self, request);
    return s_is_there (self, sample->bytes)
        && (is_own || lane->bytes == 0 || lane->bytes + sample->bytes <= lane->alone
            || s_is_waited_for (lane));
}

//  False: not now.  A request of lane 0 is read as a whole, if there is memory for that.
static bool
s_fetch (raw_store_t *self, const lane_t *lane, raw_request_t *request, raw_sample_t *sample)
{
    if (sample->request->lane == 0 && s_fits (self, sample->request))
        s_take_over (request, sample->request);
    else
    if (s_may_take_alone (self, lane, sample))
        s_take_alone (self, request, sample);
    else
        return false;
    request->also = 0;
    sample->stands &= ~s_bit (request->lane);
    return true;
}

//  ---- handing out

//  The line's first request that still has samples; NULL: none now.
static raw_request_t *
s_first (raw_store_t *self, lane_t *lane, uint32_t source)
{
    raw_request_t *request;
    while ((request = lane->lines [source].first) && request->sample_count == 0) {
        raw_sample_t *sample = request->also? raw_store_find (self, request->source, request->also - 1): NULL;
        if (s_is_queued (sample))
            return s_fetch (self, lane, request, sample)? request: NULL;
        if (sample)
            sample->stands &= ~s_bit (request->lane);
        s_take_first (self, lane, source);
        free (request);
    }
    return request;
}

//  Beside other lanes no request of lane 0 claims a turn: its first request moves to the end, so that emptied
//  requests are reached and freed.
static void
s_let_pass (raw_store_t *self, uint32_t source)
{
    lane_t *lane = &self->lanes [0];
    line_t *line = &lane->lines [source];
    raw_request_t *request = line->first;
    if (self->lane_count == 1)
        return;
    lane->turn = source + 1;
    if (request == line->last)
        return;
    line->first = request->next;
    request->next = NULL;
    line->last->next = request;
    line->last = request;
}

//  Of these, the next one in turn.
static uint32_t
s_turn (const lane_t *lane, uint64_t sources)
{
    assert (sources);
    uint64_t behind = lane->turn < RAW_SOURCES_MAX? sources >> lane->turn << lane->turn: 0;
    return (uint32_t) __builtin_ctzll (behind? behind: sources);
}

//  The lane's next request, if there is memory; NULL: no request, or no memory.
static raw_request_t *
s_next (raw_store_t *self, lane_t *lane)
{
    raw_request_t *request = NULL;
    uint64_t sources;
    uint32_t source = 0;
    //  Lines without a request that still has samples are empty after this.
    while ((sources = lane->occupied & ~self->held_back)) {
        source = s_turn (lane, sources);
        request = s_first (self, lane, source);
        if (lane->lines [source].first)
            break;
    }
    lane->is_short = false;
    if (!sources) {
        lane->passed_over = 0;
        return NULL;
    }
    lane->turn = source;
    if (!request || !s_has_memory_for (self, lane, request) || !s_give_memory (self, request)) {
        //  No row waits yet for requests of lane 0 alone; and a lane with much of its part has work to
        //  continue with.
        bool counts = lane != self->lanes && lane->bytes <= lane->alone;
        lane->passed_over += counts && !s_is_waited_for (lane);
        lane->is_short = true;
        if (lane == self->lanes)
            s_let_pass (self, source);
        return NULL;
    }
    s_take_first (self, lane, source);
    lane->turn = source + 1;
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
        self->lanes [lane].passed_over = self->lanes [lane].occupied? PASSED_OVER_MAX: 0;
}

void
raw_store_hold_back (raw_store_t *self, uint64_t sources)
{
    assert (self->magic == STORE_MAGIC);
    self->held_back = sources;
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

//  By itself, on the lane on which it counts: first there, if it has no place in the queue.
static raw_request_t *
s_read_alone (raw_store_t *self, raw_sample_t *sample)
{
    raw_request_t *request = xalloc_memory (calloc (1, sizeof *request));
    *request = (raw_request_t) { .lane = raw_sample_lane (sample), .source = sample->source, .count = 1,
        .first = self->position (self->position_context, sample->source, sample->id) };
    s_free_memory (self, sample);
    s_bring (request, sample);
    if (request->lane == 0 || sample->stands & s_bit (request->lane))
        s_queue (self, request);
    else
        s_queue_first (self, request);
    return request;
}

//  The sample is queued again: also in the lanes that had asked for it.
static void
s_ask_again (raw_store_t *self, raw_sample_t *sample)
{
    for (uint32_t lane = 1; lane < self->lane_count; lane++)
        if (sample->asked & s_bit (lane))
            raw_store_also (self, lane, sample);
}

//  One sample of several that could not be read together, or a damaged one.
static void
s_read_failed (raw_store_t *self, raw_sample_t *sample, const raw_request_t *failed)
{
    raw_request_t *request = s_read_alone (self, sample);
    request->failed_ms = failed->failed_ms;
    request->failures = failed->failures;
    request->is_afresh = sample->was_damaged;
    s_ask_again (self, sample);
}

void
raw_store_rest (raw_store_t *self, raw_request_t *request)
{
    assert (self->magic == STORE_MAGIC);
    assert (request->handed_out);
    for (uint32_t index = 0; index < request->sample_count; index++)
        s_free_memory (self, request->samples [index]);
}

//  Frees samples without a hold; false: no sample is left.
static bool
s_forget_unheld (raw_store_t *self, raw_request_t *request)
{
    uint32_t kept = 0;
    for (uint32_t index = 0; index < request->sample_count; index++) {
        raw_sample_t *sample = request->samples [index];
        if (sample->holds > 0)
            request->samples [kept++] = sample;
        else {
            sample->request = NULL;
            s_forget (self, sample);
        }
    }
    request->sample_count = kept;
    return kept > 0;
}

bool
raw_store_retry (raw_store_t *self, raw_request_t *request)
{
    assert (self->magic == STORE_MAGIC);
    assert (request->handed_out && self->handed_out > 0);
    self->handed_out--;
    if (!s_forget_unheld (self, request)) {
        free (request);
        return false;
    }
    request->handed_out = false;
    request->rc = 0;
    request->damaged = request->read_bytes = request->read_ns = 0;
    request->cached_bytes = request->cached_ns = request->pinned_bytes = request->saved_ns = 0;
    request->peer_bytes = request->peer_ns = 0;
    request->gets = request->slow_gets = 0;
    s_queue_first (self, request);
    for (uint32_t index = 0; index < request->sample_count; index++)
        s_ask_again (self, request->samples [index]);
    return true;
}

void
raw_store_again (raw_store_t *self, raw_sample_t *sample)
{
    assert (self->magic == STORE_MAGIC);
    assert (sample->state == RAW_SAMPLE_READY && !sample->request);
    sample->state = RAW_SAMPLE_AWAITED;
    s_read_alone (self, sample);
}

void
raw_store_done (raw_store_t *self, raw_request_t *request,
    void (*arrived) (void *context, raw_sample_t *sample), void *context)
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
        bool is_damaged = request->rc == 0 && request->damaged >> index & 1;
        if ((request->rc && request->sample_count > 1) || (is_damaged && !sample->was_damaged)) {
            sample->was_damaged = sample->was_damaged || is_damaged;
            s_read_failed (self, sample, request);
            continue;
        }
        sample->rc = request->rc? request->rc: is_damaged? -EBADMSG: 0;
        sample->state = sample->rc? RAW_SAMPLE_BAD: RAW_SAMPLE_READY;
        sample->asked = 0;
        sample->was_damaged = false;
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
raw_store_samples (const raw_store_t *self)
{
    return self->sample_count;
}

size_t
raw_store_queued (const raw_store_t *self)
{
    return self->queued;
}

//  ---- checks

//  How many requests are in its lines.
static size_t
s_check_lane (const raw_store_t *self, uint32_t number)
{
    const lane_t *lane = &self->lanes [number];
    size_t queued = 0;
    for (uint32_t source = 0; source < RAW_SOURCES_MAX; source++) {
        const line_t *line = &lane->lines [source];
        assert (!line->first == !(lane->occupied & s_source_bit (source)));
        for (const raw_request_t *request = line->first; request; request = request->next) {
            assert (request->lane == number && request->source == source);
            assert (!request->handed_out && !(request->also && request->sample_count > 0));
            assert (request->next || request == line->last);
            queued++;
        }
    }
    return queued;
}

void
raw_store_check (const raw_store_t *self)
{
    assert (self->magic == STORE_MAGIC);
    size_t bytes = 0, samples = 0, in_memory = 0, queued = 0, parts = 0, of_lanes [RAW_LANES_MAX] = { 0 };
    size_t samples_of [RAW_SOURCES_MAX] = { 0 };
    for (uint32_t lane = 0; lane < self->lane_count; lane++)
        queued += s_check_lane (self, lane);
    assert (queued == self->queued);                                                            //  R4
    for (size_t bucket = 0; bucket < self->bucket_count; bucket++)
        for (const raw_sample_t *sample = self->buckets [bucket]; sample; sample = sample->chain) {
            bytes += sample->memory? sample->bytes: 0;
            if (sample->memory)
                of_lanes [raw_sample_lane (sample)] += sample->bytes;
            in_memory += sample->memory != NULL;
            samples++;
            samples_of [sample->source]++;
            assert (sample->holds > 0 || (sample->request && sample->request->handed_out));     //  R2
            assert ((sample->state == RAW_SAMPLE_AWAITED) == (sample->request != NULL));        //  R3
            uint32_t found = 0;
            for (uint32_t index = 0; sample->request && index < sample->request->sample_count; index++)
                found += sample->request->samples [index] == sample;
            assert (found == (sample->request != NULL));                                        //  R3
        }
    for (uint32_t lane = 0; lane < RAW_LANES_MAX; lane++) {
        assert (of_lanes [lane] == self->lanes [lane].bytes);                                   //  R4
        parts += self->lanes [lane].part;
    }
    assert (parts <= self->budget_bytes);                                                       //  R5
    assert (samples == self->sample_count);
    assert (memcmp (samples_of, self->samples_of, sizeof samples_of) == 0);
    assert (bytes == self->memory_bytes);                                                       //  R1
    assert (bytes <= self->budget_bytes || in_memory <= RAW_PIECE_MAX);                         //  R1
}

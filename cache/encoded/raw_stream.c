//  The raw pool's policy `stream`: every piece of the pack once a pass, in random order.
//
//  A *pass* takes the positions as a ring, cuts it at a random place and from there on every `piece` samples,
//  and looks at each piece once, in uniformly random order, drawn one by one.  So no sample is nearer to an
//  edge than others.  Looking at a piece makes its needed samples resident that are not: one read from the
//  first to the last of them, or several if a break or the pack's end lies in between.  A resident sample
//  that is needed now and by a next epoch is marked to stay *again* when it is taken, because this pass does
//  not come back.  When all pieces have been looked at, the next pass begins.
//
//  Room is counted in samples, not in bytes: otherwise a large sample in memory would leave room for fewer
//  others and be drawn sooner.  The count is such that the samples stay below the limit almost surely
//  (raw_pool_capacity), beside a piece of the largest ones.  If they do not, a piece waits for room in bytes:
//  memory never exceeds the limit.
//
//  Ramp.  The limit is not used at once: otherwise a job's first batch, drawn uniformly from the residents,
//  would wait until gigabytes are read.  At first there is room for RAMP_PIECES pieces, and for one sample
//  more with each draw, so that two are read for one drawn, until memory is full.  The ramp starts again when
//  no sample is resident and none to be read, and continues when the limit is raised.
//
//  Hold.  If all samples fit below the limit, none leaves when it is taken, nor by a sweep while any is
//  needed: data that fit in memory are read once.  Then the ramp grows by two samples a draw, because takes
//  make no room.
//
//  Samples of slow jobs are not evicted for others: they would be read again, and nearly as many would come
//  back with each piece (two jobs on disjoint data, one of them stopped: every second sample of a piece is
//  its own).  `need`, which knows the jobs, decides which job gets less.
//
//  Cost.  Looking at a piece asks `need` of its samples.  A call of raw_pool_next looks at no more than LOOKS
//  pieces in vain (LOOKS_FEW while less is resident than RAMP_PIECES pieces, LOOKS_STARVING while nothing
//  is), so a draw costs some hundreds of look-ups if jobs need hardly any samples, at most some thousands,
//  and otherwise those of one piece.  So memory is filled for jobs that need 1 % of a pack or more; from 0.1
//  % on there are some RAMP_PIECES pieces to draw from, below that often only the last one found.  After a
//  pass that found nothing, while no need grew, the next begins when a need grows.  A pass's begin clears a
//  bit a sample.  Memory: 4 bytes a piece, two bits a sample.
//
//  Owner: the broker's thread.

#include "raw_policy.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum {
    RAMP_PIECES = 16,
    LOOKS = 16, LOOKS_FEW = 128, LOOKS_STARVING = 1024  //  8 samples a piece: 6 us .. 0.4 ms, at 50 ns for a
                                                        //  look-up
};

typedef struct {
    raw_pool_t *pool;
    //  set at birth
    uint32_t samples;
    //  owner only
    uint32_t piece, piece_count;
    size_t piece_bytes_max;
    bool hold;
    uint64_t capacity;                  //  samples that may be resident
    uint64_t ramp;                      //  samples that the ramp allows now; <= capacity
    uint32_t shift;
    uint32_t *pieces;                   //  numbers of pieces: first those still to come, in no order
    uint32_t to_come;
    uint32_t cut_first;                 //  the piece being read: its first position ..
    uint64_t cut_keep;                  //  .. and its new residents that raw_pool_next has not returned yet
    bool begun;                         //  a pass, since birth or restart
    uint64_t *looked;                   //  by position: its piece has been looked at in this pass
    uint64_t *again;                    //  by position: resident, and stays when it is taken
    bool found;                         //  found a needed sample in this pass
    bool grew;                          //  a need has grown since this pass began
    bool quiet;                         //  no piece has a needed sample until a need grows
} stream_t;

static uint64_t
s_least (uint64_t a, uint64_t b)
{
    return a < b? a: b;
}

static void
s_ramp_begin (stream_t *self)
{
    self->ramp = s_least ((uint64_t) RAMP_PIECES * self->piece, self->capacity);
}

//  If all samples fit, the last piece need not leave room for one of the largest.
static void
s_measure (stream_t *self)
{
    size_t limit_bytes = self->pool->figures.limit_bytes;
    self->hold = self->pool->all_bytes <= limit_bytes;
    if (self->hold)
        self->capacity = (uint64_t) self->samples + self->piece;
    else if (self->piece_bytes_max > limit_bytes)
        self->capacity = 0;
    else
        self->capacity = self->piece + raw_pool_capacity (self->pool, limit_bytes - self->piece_bytes_max);
    self->pool->figures.resident_max = self->capacity;
}

static size_t
s_words (const stream_t *self)
{
    return ((size_t) self->samples + 63) / 64;
}

static void
s_set_piece (stream_t *self, uint32_t piece)
{
    self->piece = piece;
    self->piece_count = (self->samples - 1) / piece + 1;
    self->piece_bytes_max = piece * self->pool->sample_bytes_max;
    self->pool->figures.piece = piece;
    size_t bytes = self->piece_count * sizeof *self->pieces;
    self->pieces = xalloc_memory (realloc (self->pieces, bytes));
    for (uint32_t number = 0; number < self->piece_count; number++)
        self->pieces [number] = number;
}

static void *
s_make (raw_pool_t *pool)
{
    const raw_pool_options_t *options = &pool->options;
    assert (options->piece >= 1 && options->piece <= RAW_PIECE_MAX);
    stream_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->pool = pool;
    self->samples = options->samples;
    s_set_piece (self, options->piece);
    self->looked = xalloc_memory (calloc (s_words (self), 8));
    self->again = xalloc_memory (calloc (s_words (self), 8));
    self->found = true;                 //  before the first pass: as if there had been one
    s_measure (self);
    s_ramp_begin (self);
    return self;
}

//  Pieces may be of one sample.
static size_t
s_bytes (uint32_t samples, uint32_t chunk)
{
    (void) chunk;
    return sizeof (stream_t) + samples * sizeof (uint32_t) + 2 * (samples / 64 + 1) * sizeof (uint64_t);
}

static void
s_destroy (void *policy)
{
    stream_t *self = policy;
    free (self->again);
    free (self->looked);
    free (self->pieces);
    free (self);
}

//  ---- bits by position

static bool
s_has_bit (const uint64_t *bits, uint32_t position)
{
    return bits [position / 64] >> position % 64 & 1;
}

static void
s_set_bit (uint64_t *bits, uint32_t position)
{
    bits [position / 64] |= UINT64_C (1) << position % 64;
}

static void
s_clear_bit (uint64_t *bits, uint32_t position)
{
    bits [position / 64] &= ~(UINT64_C (1) << position % 64);
}

//  ---- pieces

//  The pack is cut as a ring, with every cut equally likely: so no sample is nearer to a piece's edge than
//  others.
static uint32_t
s_piece_first (const stream_t *self, uint32_t number)
{
    return (uint32_t) ((self->shift + (uint64_t) number * self->piece) % self->samples);
}

static uint32_t
s_piece_samples (const stream_t *self, uint32_t number)
{
    return (uint32_t) s_least (self->piece, self->samples - (uint64_t) number * self->piece);
}

static uint32_t
s_position (const stream_t *self, uint32_t first, uint32_t index)
{
    return (uint32_t) (((uint64_t) first + index) % self->samples);
}

static void
s_pass_begin (stream_t *self)
{
    self->shift = (uint32_t) raw_pool_random (self->pool, self->samples);
    self->to_come = self->piece_count;
    memset (self->looked, 0, s_words (self) * 8);
    self->found = self->grew = false;
    self->begun = true;
    self->pool->figures.passes++;
}

//  One of the pieces still to come, each as likely: an incremental Fisher-Yates shuffle.
static uint32_t
s_piece_draw (stream_t *self)
{
    uint32_t index = (uint32_t) raw_pool_random (self->pool, self->to_come), number = self->pieces [index];
    self->pieces [index] = self->pieces [--self->to_come];
    self->pieces [self->to_come] = number;
    return number;
}

//  The pass has come to the sample: true if it becomes resident.
static bool
s_sample_look (stream_t *self, uint32_t position)
{
    uint32_t id = self->pool->options.order [position];
    raw_need_t need = raw_pool_need (self->pool, id);
    s_set_bit (self->looked, position);
    if (raw_pool_is_resident (self->pool, id)) {
        if (need == RAW_NEEDED_BOTH)
            s_set_bit (self->again, position);
        return false;
    }
    if (need != RAW_UNNEEDED)
        raw_pool_enter (self->pool, id);
    return need != RAW_UNNEEDED;
}

//  Looks at a piece; true: it is to be read.
static bool
s_piece_look (stream_t *self, uint32_t number)
{
    uint32_t count = s_piece_samples (self, number);
    self->cut_first = s_piece_first (self, number);
    for (uint32_t index = 0; index < count; index++)
        if (s_sample_look (self, s_position (self, self->cut_first, index)))
            self->cut_keep |= UINT64_C (1) << index;
    return self->cut_keep;
}

//  The first break behind the position, or the end.
static uint32_t
s_stop (const stream_t *self, uint32_t position)
{
    const raw_pool_options_t *options = &self->pool->options;
    size_t low = 0, high = options->break_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (options->breaks [middle] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < options->break_count? options->breaks [low]: self->samples;
}

//  The next read of the piece, up to the next break.
static raw_read_t
s_cut (stream_t *self)
{
    uint32_t index = (uint32_t) __builtin_ctzll (self->cut_keep),
        first = s_position (self, self->cut_first, index);
    uint32_t most = s_stop (self, first) - first;
    uint64_t keep = self->cut_keep >> index & (most < 64? (UINT64_C (1) << most) - 1: ~UINT64_C (0));
    self->cut_keep &= ~(keep << index);
    return (raw_read_t) { .first = first, .count = 64 - (uint32_t) __builtin_clzll (keep), .keep = keep };
}

//  ---- room

static bool
s_has_room (const stream_t *self)
{
    const raw_pool_figures_t *figures = &self->pool->figures;
    return figures->resident + self->piece <= self->ramp
        && (self->hold || figures->resident_bytes + self->piece_bytes_max <= figures->limit_bytes);
}

//  ---- the policy's functions

//  Whether there is a piece to look at, in this pass or in the next one, which begins then.
static bool
s_pass_goes_on (stream_t *self)
{
    if (self->to_come)
        return true;
    if (!self->found && !self->grew) {
        self->quiet = true;
        if (self->pool->figures.resident == 0)
            s_ramp_begin (self);
        return false;
    }
    s_pass_begin (self);
    return true;
}

//  Pieces that may be looked at in vain: the fewer residents, the more pieces.
static int
s_looks (const stream_t *self)
{
    uint64_t resident = self->pool->figures.resident;
    if (resident == 0)
        return LOOKS_STARVING;
    return resident < (uint64_t) RAMP_PIECES * self->piece? LOOKS_FEW: LOOKS;
}

static bool
s_next (void *policy, raw_read_t *read)
{
    stream_t *self = policy;
    int looks = s_looks (self);
    bool all_there = self->pool->figures.resident == self->samples;
    while (!self->cut_keep && !all_there && !self->quiet && looks-- && s_has_room (self)
        && s_pass_goes_on (self))
        self->found |= s_piece_look (self, s_piece_draw (self));
    if (!self->cut_keep)
        return false;
    *read = s_cut (self);
    return true;
}

static bool
s_is_behind (const void *policy, uint32_t id)
{
    const stream_t *self = policy;
    return s_has_bit (self->looked, self->pool->positions [id]);
}

static void
s_needs_grew (void *policy)
{
    stream_t *self = policy;
    self->grew = true;
    self->quiet = false;
}

static bool
s_stays (void *policy, uint32_t id, raw_need_t need)
{
    stream_t *self = policy;
    bool again = s_has_bit (self->again, self->pool->positions [id]);
    s_clear_bit (self->again, self->pool->positions [id]);
    //  The job that it was kept for may have left.
    return self->hold || (again && need != RAW_UNNEEDED);
}

static bool
s_holds (const void *policy)
{
    const stream_t *self = policy;
    return self->hold;
}

static bool
s_wants (const void *policy, raw_need_t need)
{
    (void) policy;
    return need != RAW_UNNEEDED;
}

static void
s_was_drawn (void *policy, uint32_t id, raw_need_t need)
{
    stream_t *self = policy;
    assert (self->cut_keep == 0);       //  raw_pool_next was called until it returned false
    self->ramp = s_least (self->ramp + (self->hold? 2: 1), self->capacity);
    bool resident = raw_pool_is_resident (self->pool, id);
    //  If a version served it, it stays only for the next epoch now.
    if (resident && need == RAW_NEEDED_NEXT)
        s_clear_bit (self->again, self->pool->positions [id]);
    if (!resident && need != RAW_UNNEEDED)
        s_needs_grew (self);
}

static void
s_has_left (void *policy, uint32_t id)
{
    stream_t *self = policy;
    s_clear_bit (self->again, self->pool->positions [id]);
}

static void
s_restart (void *policy)
{
    stream_t *self = policy;
    self->begun = false;
    self->to_come = 0;
    self->cut_keep = 0;
    memset (self->looked, 0, s_words (self) * 8);
    s_ramp_begin (self);
    s_needs_grew (self);
}

static void
s_limit_changed (void *policy)
{
    stream_t *self = policy;
    s_measure (self);
    self->ramp = s_least (self->ramp, self->capacity);
    s_needs_grew (self);                //  samples that leave for a smaller limit may still be needed
}

//  The pass that is under way ends: its pieces would be of the old size.
static void
s_piece_changed (void *policy, uint32_t piece)
{
    stream_t *self = policy;
    if (piece == self->piece)
        return;
    assert (self->cut_keep == 0);
    s_set_piece (self, piece);
    self->begun = false;
    self->to_come = 0;
    memset (self->looked, 0, s_words (self) * 8);
    s_limit_changed (self);
}

//  W2: each sample that no piece to come holds has been looked at, and no other; and only residents stay
//  again.
static void
s_check (const void *policy)
{
    const stream_t *self = policy;
    size_t bytes = self->samples;
    uint8_t *to_come = xalloc_memory (calloc (bytes, 1));
    for (uint32_t place = 0; place < self->to_come; place++)
        for (uint32_t index = 0; index < s_piece_samples (self, self->pieces [place]); index++)
            to_come [s_position (self, s_piece_first (self, self->pieces [place]), index)]++;
    for (uint32_t position = 0; position < self->samples; position++) {
        bool resident = raw_pool_is_resident (self->pool, self->pool->options.order [position]);
        assert (to_come [position] + s_has_bit (self->looked, position) == (self->begun? 1: 0));
        assert (resident || !s_has_bit (self->again, position));
    }
    free (to_come);
    assert (self->ramp <= self->capacity);
}

const raw_policy_ops_t raw_stream_ops = {
    .make = s_make,
    .destroy = s_destroy,
    .bytes = s_bytes,
    .next = s_next,
    .is_behind = s_is_behind,
    .stays = s_stays,
    .was_drawn = s_was_drawn,
    .has_left = s_has_left,
    .wants = s_wants,
    .holds = s_holds,
    .needs_grew = s_needs_grew,
    .restart = s_restart,
    .limit_changed = s_limit_changed,
    .piece_changed = s_piece_changed,
    .check = s_check,
};

#include "history.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum {
    HISTORY_MAGIC = 0x4157022d,
    //  A sample's bits, from the top: whether it is drawn, then its class of each lag, the latest first.  The
    //  age class is counted from 1, so that an absent sample is zero: what a sparse job never touches costs
    //  no memory.
    ABSENT = 0, AGE_SHIFT = 26,
    //  A proposal takes this many tries on average before what remains is listed.
    LATE = 64,
    //  Data with fewer than one id in so many are walked by the list, not by the bits.
    SPARSE = 64
};

#define AGE_ONE (UINT32_C (1) << AGE_SHIFT)
#define DRAWN (UINT32_C (1) << 31)

//  The classes of one lag: where they stand in the bits, and how many values the bits can have there.
typedef struct { uint8_t shift, mask, values; } lag_t;

static const lag_t s_lags [HISTORY_LAGS] = {
    { AGE_SHIFT, 31, HISTORY_AGES + 2 }, { 22, 15, HISTORY_TENTHS + 1 }, { 18, 15, HISTORY_TENTHS + 1 },
    { 15, 7, HISTORY_FIFTHS + 1 }, { 12, 7, HISTORY_FIFTHS + 1 }, { 9, 7, HISTORY_FIFTHS + 1 },
    { 6, 7, HISTORY_FIFTHS + 1 }, { 3, 7, HISTORY_FIFTHS + 1 }, { 0, 7, HISTORY_FIFTHS + 1 }
};

//  In place of a twentieth of the epoch; as it moves on, it becomes HISTORY_TENTHS, and then HISTORY_FIFTHS:
//  the last value of each lag.
enum { ELSEWHERE = HISTORY_AGES, VALUES_MAX = HISTORY_AGES + 2 };

_Static_assert (HISTORY_AGES == 2 * HISTORY_TENTHS && HISTORY_TENTHS == 2 * HISTORY_FIFTHS
    && ELSEWHERE + 1 < 32 && HISTORY_TENTHS < 16 && HISTORY_FIFTHS < 8, "five bits, four, three");
_Static_assert (VALUES_MAX <= 32, "a bit each");

//  The quotas of one lag, by the value of its bits.
typedef struct {
    uint32_t sizes [VALUES_MAX];
    uint32_t drawn [VALUES_MAX];
    float widths [VALUES_MAX];          //  what it may be off, but for sqrt (share * (1 - share))
    uint32_t allowed, easy;             //  a bit each
} quota_t;

struct history {
    uint32_t magic;
    //  Set at birth.
    uint32_t low, span;                 //  the data lie in [low, low + span)
    uint32_t *sparse;                   //  all ids of sparse data, dropped ones too; else NULL
    size_t sparse_count;
    //  Changed by draws and drops.
    uint32_t *states;                   //  of id low + index
    uint64_t size, remaining;
    uint64_t drawn;                     //  in this epoch, dropped since or not
    uint64_t left_out;                  //  of this epoch, likewise
    uint32_t *late;                     //  what remains and some of what did; NULL: not late yet
    size_t late_count;
    quota_t quotas [HISTORY_LAGS];
    uint64_t epochs;
};

//  ------------------------------------------------------------------------------------------------
//  Bits

static bool
s_remains (uint32_t state)
{
    return state != ABSENT && state < DRAWN;
}

//  The value of a lag's bits: for lag 0, the last epoch, the age class + 1.
static uint32_t
s_value (uint32_t state, size_t lag)
{
    return state >> s_lags [lag].shift & s_lags [lag].mask;
}

//  What a sample's bits become if it is drawn in this twentieth of the epoch, or ELSEWHERE: each lag's class
//  moves on by one lag, where it may be told less finely.
static uint32_t
s_when_drawn (uint32_t state, uint32_t now)
{
    uint32_t tenths = (s_value (state, 0) - 1) / 2 << s_lags [1].shift | s_value (state,
        1) << s_lags [2].shift;
    uint32_t fifths = s_value (state,
        2) / 2 << s_lags [3].shift | (state & ((UINT32_C (1) << s_lags [2].shift) - 1)) >> 3;
    return DRAWN | (now + 1) << AGE_SHIFT | tenths | fifths;
}

static uint32_t
s_at (const history_t *self, uint32_t id)
{
    uint32_t index = id - self->low;            //  wraps for ids below
    return index < self->span? self->states [index]: ABSENT;
}

//  ------------------------------------------------------------------------------------------------
//  Life

//  For the sizes of now, when nothing is drawn.  An epoch's table of n samples is fresh up to a chi-square of
//  81 + 0.02 n: so large data may be further off than chance is.  A lag's table has the samples that were
//  drawn here then, not elsewhere.
static void
s_set_widths (history_t *self)
{
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++) {
        quota_t *quota = &self->quotas [lag];
        uint64_t known = self->remaining - quota->sizes [s_lags [lag].values - 1];
        double growth = sqrt (1 + HISTORY_FRESH * (double) known / HISTORY_FREEDOM);
        for (uint32_t value = 0; value < s_lags [lag].values; value++)
            quota->widths [value] = (float) ((lag? HISTORY_SLACK_OLDER: HISTORY_SLACK) * growth
                * sqrt (quota->sizes [value]));
    }
}

history_t *
history_new (const roaring_bitmap_t *data, uint32_t sample_count)
{
    history_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = HISTORY_MAGIC;
    self->size = self->remaining = roaring_bitmap_get_cardinality (data);
    assert (self->size > 0);
    self->low = roaring_bitmap_minimum (data);
    uint32_t high = roaring_bitmap_maximum (data);
    assert (high < sample_count);
    self->span = high - self->low + 1;
    self->states = xalloc_jobs (calloc (self->span, sizeof *self->states));
    uint32_t *ids = xalloc_jobs (malloc (self->size * sizeof *ids));
    roaring_bitmap_to_uint32_array (data, ids);
    for (size_t index = 0; index < self->size; index++)
        self->states [ids [index] - self->low] = AGE_ONE;
    if (self->size < self->span / SPARSE) {
        self->sparse = ids;
        self->sparse_count = self->size;
    }
    else
        free (ids);
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
        self->quotas [lag].sizes [s_value (AGE_ONE, lag)] = (uint32_t) self->size;
    s_set_widths (self);
    history_settle (self);
    return self;
}

//  Sparse ids and the late list are short.
size_t
history_bytes (uint32_t sample_count)
{
    size_t short_lists = sample_count / SPARSE + sample_count / LATE + 2;
    return sizeof (history_t) + (sample_count + short_lists) * sizeof (uint32_t);
}

void
history_go_on (history_t *self, const roaring_bitmap_t *taken, random_t *random)
{
    assert (self->magic == HISTORY_MAGIC);
    assert (self->epochs == 0 && self->drawn == 0);
    uint64_t count = roaring_bitmap_get_cardinality (taken);
    uint32_t *ids = xalloc_jobs (malloc ((count + 1) * sizeof *ids));
    roaring_bitmap_to_uint32_array (taken, ids);
    for (uint64_t place = 0; place < count; place++) {
        uint64_t other = place + random_below (random, count - place);
        uint32_t id = ids [other];
        ids [other] = ids [place];
        history_draw (self, id);
    }
    free (ids);
}

void
history_leave_out (history_t *self, const roaring_bitmap_t *ids)
{
    assert (self->magic == HISTORY_MAGIC);
    assert (self->drawn == 0 && !self->late);
    roaring_uint32_iterator_t each;
    for (roaring_init_iterator (ids, &each); each.has_value; roaring_advance_uint32_iterator (&each)) {
        uint32_t id = each.current_value, state = s_at (self, id);
        if (!s_remains (state))
            continue;
        for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
            self->quotas [lag].sizes [s_value (state, lag)]--;
        self->states [id - self->low] = s_when_drawn (state, ELSEWHERE);
        self->remaining--;
        self->left_out++;
    }
    s_set_widths (self);
}

void
history_destroy (history_t **self_p)
{
    history_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == HISTORY_MAGIC);
    free (self->states);
    free (self->sparse);
    free (self->late);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

bool
history_has (const history_t *self, uint32_t id)
{
    return s_at (self, id) != ABSENT;
}

bool
history_needs (const history_t *self, uint32_t id)
{
    return s_remains (s_at (self, id));
}

void
history_copy_remaining (const history_t *self, const uint32_t *pieces, size_t count, uint8_t *bits)
{
    enum { PIECE = 8, AHEAD = 12 };
    for (size_t index = 0; index < count; index++) {
        if (index + AHEAD < count)
            history_prefetch (self, PIECE * pieces [index + AHEAD]);
        uint32_t first = PIECE * pieces [index], place = first - self->low;     //  wraps for ids below
        uint32_t found = 0;
        if (place < self->span && self->span - place >= PIECE)
            for (uint32_t bit = 0; bit < PIECE; bit++)
                found |= (uint32_t) s_remains (self->states [place + bit]) << bit;
        else
            for (uint32_t bit = 0; bit < PIECE; bit++)
                found |= (uint32_t) s_remains (s_at (self, first + bit)) << bit;
        bits [index] = (uint8_t) found;
    }
}

bool
history_list_remaining (const history_t *self, uint32_t *ids, size_t max, size_t *count_p)
{
    const uint32_t *list = self->late? self->late: self->sparse;
    size_t listed = self->late? self->late_count: self->sparse? self->sparse_count: self->span, found = 0;
    if (listed > 4 * max)
        return false;
    for (size_t index = 0; index < listed; index++) {
        uint32_t id = list? list [index]: self->low + (uint32_t) index;
        if (history_needs (self, id))
            ids [found++] = id;
    }
    assert (found <= max);
    *count_p = found;
    return true;
}

void
history_spread (const history_t *self, uint32_t *bounds, size_t parts)
{
    for (size_t part = 0; part < parts; part++)
        bounds [part] = self->sparse? self->sparse [self->sparse_count * part / parts]:
            self->low + (uint32_t) ((uint64_t) self->span * part / parts);
    bounds [parts] = self->sparse? self->sparse [self->sparse_count - 1] + 1: self->low + self->span;
}

void
history_prefetch (const history_t *self, uint32_t id)
{
    if (id - self->low < self->span)
        __builtin_prefetch (self->states + (id - self->low));
}

uint64_t
history_size (const history_t *self)
{
    return self->size;
}

uint64_t
history_remaining (const history_t *self)
{
    return self->remaining;
}

uint64_t
history_drawn (const history_t *self)
{
    return self->drawn;
}

void
history_each (const history_t *self, void (*visit) (void *context, uint32_t id), void *context)
{
    size_t count = self->sparse? self->sparse_count: self->span;
    for (size_t index = 0; index < count; index++) {
        uint32_t id = self->sparse? self->sparse [index]: self->low + (uint32_t) index;
        if (s_at (self, id) != ABSENT)
            visit (context, id);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Proposals

static void
s_list_late (history_t *self)
{
    self->late = xalloc_jobs (malloc (self->remaining * sizeof *self->late));
    self->late_count = 0;
    size_t count = self->sparse? self->sparse_count: self->span;
    for (size_t index = 0; index < count; index++) {
        uint32_t id = self->sparse? self->sparse [index]: self->low + (uint32_t) index;
        if (history_needs (self, id))
            self->late [self->late_count++] = id;
    }
    assert (self->late_count == self->remaining);
}

uint32_t
history_propose (history_t *self, random_t *random)
{
    assert (self->remaining > 0);
    if (!self->late && self->remaining * LATE < self->span)
        s_list_late (self);
    if (!self->late)
        for (;;) {
            uint32_t index = (uint32_t) random_below (random, self->span);
            if (s_remains (self->states [index]))
                return self->low + index;
        }
    for (;;) {
        size_t place = (size_t) random_below (random, self->late_count);
        uint32_t id = self->late [place];
        if (history_needs (self, id))
            return id;
        self->late [place] = self->late [--self->late_count];       //  drawn or dropped since
    }
}

//  ------------------------------------------------------------------------------------------------
//  Quotas

//  Which classes are not too far ahead; if one is too far behind, and strict, only such ones.
static void
s_settle_quota (const history_t *self, quota_t *quota, uint32_t values, bool strict)
{
    float share = (float) self->drawn / (float) (self->drawn + self->remaining);
    float spread = sqrtf (share * (1 - share));
    uint32_t ahead = 0, nearly = 0, behind = 0;
    for (uint32_t value = 0; value < values; value++) {
        float due = (float) quota->sizes [value] * share, lead = (float) quota->drawn [value] - due;
        float most = fminf (quota->widths [value] * spread, HISTORY_EARLY * due) + HISTORY_LEAST;
        ahead |= (uint32_t) (lead >= most) << value;
        nearly |= (uint32_t) (lead >= most * HISTORY_EASE) << value;
        behind |= (uint32_t) (lead < -most && quota->drawn [value] < quota->sizes [value]) << value;
    }
    quota->allowed = strict && behind? behind: ~ahead;
    quota->easy = strict && behind? behind: ~nearly;
}

void
history_settle (history_t *self)
{
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
        if (lag < self->epochs)
            s_settle_quota (self, &self->quotas [lag], s_lags [lag].values, lag == 0);
        else
            self->quotas [lag].allowed = self->quotas [lag].easy = ~UINT32_C (0);
}

bool
history_allows (const history_t *self, uint32_t id)
{
    uint32_t state = s_at (self, id);
    assert (s_remains (state));
    uint32_t allowed = 1;
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
        allowed &= self->quotas [lag].allowed >> s_value (state, lag);
    return allowed;
}

uint32_t
history_age (const history_t *self, uint32_t id)
{
    return s_value (s_at (self, id), 0) - 1;
}

bool
history_allows_easily (const history_t *self, uint32_t id)
{
    uint32_t state = s_at (self, id);
    assert (s_remains (state));
    uint32_t easy = 1;
    for (size_t lag = 0; lag < HISTORY_EASE_LAGS; lag++)
        easy &= self->quotas [lag].easy >> s_value (state, lag);
    return easy;
}

//  ------------------------------------------------------------------------------------------------
//  Changes

void
history_draw (history_t *self, uint32_t id)
{
    assert (self->magic == HISTORY_MAGIC);
    uint32_t state = s_at (self, id);
    assert (s_remains (state));
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
        self->quotas [lag].drawn [s_value (state, lag)]++;
    uint64_t now = self->drawn * HISTORY_AGES / (self->drawn + self->remaining);
    self->states [id - self->low] = s_when_drawn (state, (uint32_t) now);
    self->drawn++;
    self->remaining--;
}

//  A drawn sample's class is known no more: it stays among what has been drawn, in its class and altogether.
void
history_drop (history_t *self, uint32_t id)
{
    assert (self->magic == HISTORY_MAGIC);
    uint32_t state = s_at (self, id);
    if (state == ABSENT)
        return;
    self->states [id - self->low] = ABSENT;
    self->size--;
    if (s_remains (state)) {
        for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
            self->quotas [lag].sizes [s_value (state, lag)]--;
        self->remaining--;
    }
}

void
history_epoch_begin (history_t *self)
{
    assert (self->magic == HISTORY_MAGIC);
    memset (self->quotas, 0, sizeof self->quotas);
    size_t count = self->sparse? self->sparse_count: self->span;
    for (size_t index = 0; index < count; index++) {
        uint32_t *state = &self->states [self->sparse? self->sparse [index] - self->low: index];
        if (*state == ABSENT)
            continue;
        *state = (s_remains (*state)? s_when_drawn (*state, HISTORY_AGES - 1): *state) & (DRAWN - 1);
        for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
            self->quotas [lag].sizes [s_value (*state, lag)]++;
    }
    free (self->late);
    self->late = NULL;
    self->late_count = 0;
    self->remaining = self->size;
    self->drawn = self->left_out = 0;
    s_set_widths (self);
    self->epochs++;
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

void
history_check (const history_t *self)
{
    assert (self->magic == HISTORY_MAGIC);
    uint64_t remaining = 0, drawn = 0, left [HISTORY_LAGS] [VALUES_MAX] = { 0 };
    size_t count = self->sparse? self->sparse_count: self->span;
    for (size_t index = 0; index < count; index++) {
        uint32_t state = self->states [self->sparse? self->sparse [index] - self->low: index];
        if (!s_remains (state)) {
            drawn += state != ABSENT;
            continue;
        }
        remaining++;
        for (size_t lag = 0; lag < HISTORY_LAGS; lag++)
            left [lag] [s_value (state, lag)]++;
    }
    assert (remaining == self->remaining && drawn <= self->drawn + self->left_out);    //  H1
    assert (remaining + drawn == self->size);                                                   //  H1
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++) {
        const quota_t *quota = &self->quotas [lag];
        uint64_t draws = 0;
        for (uint32_t value = 0; value < s_lags [lag].values; value++) {
            assert (left [lag] [value] == quota->sizes [value] - quota->drawn [value]);         //  H1
            draws += quota->drawn [value];
        }
        assert (draws == self->drawn);                                                          //  H1
    }
    uint64_t listed = 0;
    for (size_t place = 0; place < self->late_count; place++)
        listed += history_needs (self, self->late [place]);
    assert (!self->late || listed == remaining);                                                //  H2
}

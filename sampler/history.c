#include "history.h"
#include "need.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HISTORY_MAGIC = 0x4157022d,
    CLASSES = HISTORY_AGES * HISTORY_OLDER,
    //  The bytes.  Absent is zero, so that what a sparse job never touches costs no memory.
    ABSENT = 0, REMAINING = 1, DRAWN = REMAINING + CLASSES, STATES = DRAWN + CLASSES,
    //  A proposal takes this many tries on average before what remains is listed.
    LATE = 64,
    //  Data with fewer than one id in so many are walked by the list, not by the bytes.
    SPARSE = 64
};

_Static_assert (STATES <= 256, "a byte a sample");

typedef struct {
    uint32_t sizes [HISTORY_AGES];
    uint32_t drawn [HISTORY_AGES];
    float widths [HISTORY_AGES];        //  what it may be ahead, but for sqrt (share * (1 - share))
    uint32_t allowed, easy;             //  a bit each
} quota_t;

struct history {
    uint32_t magic;
    //  Set at birth.
    uint32_t low, span;                 //  the data lie in [low, low + span)
    uint32_t *sparse;                   //  all ids of sparse data, dropped ones too; else NULL
    size_t sparse_count;
    //  Changed by draws and drops.
    uint8_t *states;                    //  of id low + index
    uint64_t size, remaining;
    uint64_t drawn;                     //  in this epoch, dropped since or not
    uint32_t *late;                     //  what remains and some of what did; NULL: not late yet
    size_t late_count;
    quota_t ages, older;
    uint64_t epochs;
};

//  ------------------------------------------------------------------------------------------------
//  Bytes

static bool
s_remains (uint8_t state)
{
    return state >= REMAINING && state < DRAWN;
}

static uint32_t
s_age (uint8_t state)
{
    return (uint32_t) (state - REMAINING) / HISTORY_OLDER;
}

static uint32_t
s_older (uint8_t state)
{
    return (uint32_t) (state - REMAINING) % HISTORY_OLDER;
}

static uint8_t
s_state (uint32_t base, uint32_t age, uint32_t older)
{
    return (uint8_t) (base + age * HISTORY_OLDER + older);
}

//  What a sample's byte becomes if it is drawn in this twentieth of the epoch.
static uint8_t
s_when_drawn (uint8_t state, uint32_t now)
{
    return s_state (DRAWN, now, s_age (state) * HISTORY_OLDER / HISTORY_AGES);
}

static uint8_t
s_at (const history_t *self, uint32_t id)
{
    uint32_t index = id - self->low;            //  wraps for ids below
    return index < self->span? self->states [index]: ABSENT;
}

//  ------------------------------------------------------------------------------------------------
//  Life

//  Sizes of the classes, anew.
static void
s_count_classes (history_t *self, const uint64_t counts [STATES])
{
    memset (&self->ages, 0, sizeof self->ages);
    memset (&self->older, 0, sizeof self->older);
    for (uint32_t state = REMAINING; state < DRAWN; state++) {
        self->ages.sizes [s_age ((uint8_t) state)] += (uint32_t) counts [state];
        self->older.sizes [s_older ((uint8_t) state)] += (uint32_t) counts [state];
    }
    for (uint32_t class = 0; class < HISTORY_AGES; class++) {
        double age = self->ages.sizes [class], older = self->older.sizes [class];
        double slack = fmin (HISTORY_SLACK * sqrt (age), HISTORY_MOST * age);
        self->ages.widths [class] = (float) fmax (slack, HISTORY_SHARE * age);
        self->older.widths [class] = (float) fmin (HISTORY_SLACK * sqrt (older), HISTORY_MOST * older);
    }
}

history_t *
history_new (const roaring_bitmap_t *data, uint32_t sample_count)
{
    history_t *self = sampler_need (calloc (1, sizeof *self));
    self->magic = HISTORY_MAGIC;
    self->size = self->remaining = roaring_bitmap_get_cardinality (data);
    assert (self->size > 0);
    self->low = roaring_bitmap_minimum (data);
    uint32_t high = roaring_bitmap_maximum (data);
    assert (high < sample_count);
    self->span = high - self->low + 1;
    self->states = sampler_need (calloc (self->span, 1));
    uint32_t *ids = sampler_need (malloc (self->size * sizeof *ids));
    roaring_bitmap_to_uint32_array (data, ids);
    for (size_t index = 0; index < self->size; index++)
        self->states [ids [index] - self->low] = REMAINING;
    if (self->size < self->span / SPARSE) {
        self->sparse = ids;
        self->sparse_count = self->size;
    }
    else
        free (ids);
    uint64_t counts [STATES] = { [REMAINING] = self->size };
    s_count_classes (self, counts);
    history_settle (self);
    return self;
}

void
history_go_on (history_t *self, const roaring_bitmap_t *taken, random_t *random)
{
    assert (self->magic == HISTORY_MAGIC);
    assert (self->epochs == 0 && self->drawn == 0);
    uint64_t count = roaring_bitmap_get_cardinality (taken);
    uint32_t *ids = sampler_need (malloc ((count + 1) * sizeof *ids));
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
history_destroy (history_t **self_p)
{
    assert (self_p);
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
history_epochs (const history_t *self)
{
    return self->epochs;
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
    self->late = sampler_need (malloc (self->remaining * sizeof *self->late));
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
s_settle_quota (const history_t *self, quota_t *quota, uint32_t classes, bool strict)
{
    float share = (float) self->drawn / (float) (self->drawn + self->remaining);
    float spread = sqrtf (share * (1 - share));
    uint32_t ahead = 0, nearly = 0, behind = 0;
    for (uint32_t class = 0; class < classes; class++) {
        float lead = (float) quota->drawn [class] - (float) quota->sizes [class] * share;
        float most = quota->widths [class] * spread + 1;        //  a class of a few samples can move at all
        ahead |= (uint32_t) (lead >= most) << class;
        nearly |= (uint32_t) (lead >= most * HISTORY_EASE) << class;
        behind |= (uint32_t) (lead < -most && quota->drawn [class] < quota->sizes [class]) << class;
    }
    quota->allowed = strict && behind? behind: ~ahead;
    quota->easy = strict && behind? behind: ~nearly;
}

void
history_settle (history_t *self)
{
    if (self->epochs == 0) {
        self->ages.allowed = self->older.allowed = self->ages.easy = self->older.easy = ~UINT32_C (0);
        return;
    }
    s_settle_quota (self, &self->ages, HISTORY_AGES, true);
    s_settle_quota (self, &self->older, HISTORY_OLDER, false);
}

bool
history_allows (const history_t *self, uint32_t id)
{
    uint8_t state = s_at (self, id);
    assert (s_remains (state));
    return self->ages.allowed >> s_age (state) & self->older.allowed >> s_older (state) & 1;
}

bool
history_allows_easily (const history_t *self, uint32_t id)
{
    uint8_t state = s_at (self, id);
    assert (s_remains (state));
    return self->ages.easy >> s_age (state) & self->older.easy >> s_older (state) & 1;
}

//  ------------------------------------------------------------------------------------------------
//  Changes

void
history_draw (history_t *self, uint32_t id)
{
    assert (self->magic == HISTORY_MAGIC);
    uint8_t state = s_at (self, id);
    assert (s_remains (state));
    self->ages.drawn [s_age (state)]++;
    self->older.drawn [s_older (state)]++;
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
    uint8_t state = s_at (self, id);
    if (state == ABSENT)
        return;
    self->states [id - self->low] = ABSENT;
    self->size--;
    if (s_remains (state)) {
        self->ages.sizes [s_age (state)]--;
        self->older.sizes [s_older (state)]--;
        self->remaining--;
    }
}

void
history_epoch_begin (history_t *self)
{
    assert (self->magic == HISTORY_MAGIC);
    uint8_t next [256] = { ABSENT };
    for (uint32_t state = REMAINING; state < DRAWN; state++) {
        next [state] = (uint8_t) (s_when_drawn ((uint8_t) state, HISTORY_AGES - 1) - DRAWN + REMAINING);
        next [state + CLASSES] = (uint8_t) state;
    }
    uint64_t counts [STATES] = { 0 };
    size_t count = self->sparse? self->sparse_count: self->span;
    for (size_t index = 0; index < count; index++) {
        uint8_t *state = &self->states [self->sparse? self->sparse [index] - self->low: index];
        *state = next [*state];
        counts [*state]++;
    }
    s_count_classes (self, counts);
    free (self->late);
    self->late = NULL;
    self->late_count = 0;
    self->remaining = self->size;
    self->drawn = 0;
    self->epochs++;
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

void
history_check (const history_t *self)
{
    assert (self->magic == HISTORY_MAGIC);
    uint64_t remaining = 0, drawn = 0, draws = 0, ages [HISTORY_AGES] = { 0 }, older [HISTORY_AGES] = { 0 };
    for (uint32_t index = 0; index < self->span; index++) {
        uint8_t state = self->states [index];
        if (s_remains (state)) {
            remaining++;
            ages [s_age (state)]++;
            older [s_older (state)]++;
        }
        else
            drawn += state != ABSENT;
    }
    assert (remaining == self->remaining && drawn <= self->drawn);                              //  H1
    assert (remaining + drawn == self->size);                                                   //  H1
    for (uint32_t class = 0; class < HISTORY_AGES; class++) {
        assert (ages [class] == self->ages.sizes [class] - self->ages.drawn [class]);           //  H1
        assert (older [class] == self->older.sizes [class] - self->older.drawn [class]);        //  H1
        draws += self->ages.drawn [class];
    }
    assert (draws == self->drawn);                                                              //  H1
    uint64_t listed = 0;
    for (size_t place = 0; place < self->late_count; place++)
        listed += history_needs (self, self->late [place]);
    assert (!self->late || listed == remaining);                                                //  H2
}

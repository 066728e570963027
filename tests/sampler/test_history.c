/*  Guards: exactly once over epochs, the classes that quotas look at, the rule itself, and that it keeps
 *  orders fresh.
 *
 *  A simple model keeps for every sample when it was drawn in the last HISTORY_LAGS epochs, and recomputes
 *  everything from that at every step.  The data lie around the ends of Roaring containers, dense and sparse.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <setjmp.h>
#include <cmocka.h>

#include "history.h"
#include "effort.h"
#include "seed.h"
#include "statistics.h"

enum { WORLDS = EFFORT (120), SAMPLES = 200000, STEPS = 900, POOL = 320, NEVER = 0xffffffff };

//  ------------------------------------------------------------------------------------------------
//  The model

//  The position-th of size draws; size 0: not drawn.
typedef struct { uint32_t position, size; } moment_t;

typedef struct {
    uint32_t id;
    bool there;                 //  not dropped
    bool began;                 //  was there when the epoch began, and not dropped before its draw
    moment_t now;               //  when it was drawn in this epoch
    moment_t before [HISTORY_LAGS];     //  and in those before, the last one first
} sample_t;

typedef struct {
    uint64_t seed, random;
    sample_t samples [POOL];    //  ids ascending
    size_t count;
    uint64_t epochs;
    uint32_t first_sizes [HISTORY_LAGS] [HISTORY_AGES];     //  of the classes when the epoch began
    uint64_t first_count;       //  samples that were there then
    uint64_t judged, unsure, unsure_of_ease;
    history_t *history;
} world_t;

static uint64_t
s_size (const world_t *self)
{
    uint64_t size = 0;
    for (size_t place = 0; place < self->count; place++)
        size += self->samples [place].there;
    return size;
}

static bool
s_remains (const sample_t *sample)
{
    return sample->there && sample->now.size == 0;
}

static uint64_t
s_remaining (const world_t *self)
{
    uint64_t remaining = 0;
    for (size_t place = 0; place < self->count; place++)
        remaining += s_remains (&self->samples [place]);
    return remaining;
}

//  In this epoch, dropped since or not.
static uint64_t
s_drawn (const world_t *self)
{
    uint64_t drawn = 0;
    for (size_t place = 0; place < self->count; place++)
        drawn += self->samples [place].began && self->samples [place].now.size > 0;
    return drawn;
}

static uint32_t
s_classes (size_t lag)
{
    return lag == 0? HISTORY_AGES: lag <= 2? HISTORY_TENTHS: HISTORY_FIFTHS;
}

//  Which part of the epoch (lag 0: the last one) it was drawn in: twentieth, tenth or fifth.
static uint32_t
s_class (const sample_t *sample, size_t lag)
{
    moment_t moment = sample->before [lag];
    return moment.size? (uint32_t) ((uint64_t) moment.position * s_classes (lag) / moment.size): 0;
}

static void
s_model_begins (world_t *self)
{
    memset (self->first_sizes, 0, sizeof self->first_sizes);
    self->first_count = s_size (self);
    for (size_t place = 0; place < self->count; place++) {
        sample_t *sample = &self->samples [place];
        sample->began = sample->there;
        for (size_t lag = 0; sample->there && lag < HISTORY_LAGS; lag++)
            self->first_sizes [lag] [s_class (sample, lag)]++;
    }
}

static void
s_epoch_begin (world_t *self)
{
    for (size_t place = 0; place < self->count; place++) {
        sample_t *sample = &self->samples [place];
        memmove (sample->before + 1, sample->before, sizeof *sample->before * (HISTORY_LAGS - 1));
        //  What was left out counts as the end.
        sample->before [0] = sample->now.size? sample->now: (moment_t) { HISTORY_AGES - 1, HISTORY_AGES };
        sample->now = (moment_t) { 0, 0 };
    }
    self->epochs++;
    s_model_begins (self);
    history_epoch_begin (self->history);
}

static void
s_draw (world_t *self, sample_t *sample)
{
    uint64_t drawn = s_drawn (self);
    sample->now = (moment_t) { (uint32_t) drawn, (uint32_t) (drawn + s_remaining (self)) };
    history_draw (self->history, sample->id);
}

static void
s_drop (world_t *self, sample_t *sample)
{
    sample->began = sample->began && (sample->now.size > 0 || !sample->there);
    sample->there = false;
    history_drop (self->history, sample->id);
}

//  ------------------------------------------------------------------------------------------------
//  The rule

typedef struct { uint32_t allowed, easy; bool is_unsure, is_unsure_of_ease; } verdict_t;

//  By the header's words, in double: where a class is within rounding of a limit, nothing is said.
static verdict_t
s_judge (const world_t *self, size_t lag)
{
    uint32_t sizes [HISTORY_AGES] = { 0 }, drawn [HISTORY_AGES] = { 0 };
    for (size_t place = 0; place < self->count; place++) {
        const sample_t *sample = &self->samples [place];
        sizes [s_class (sample, lag)] += sample->began;
        drawn [s_class (sample, lag)] += sample->began && sample->now.size > 0;
    }
    double share = (double) s_drawn (self) / (double) (s_drawn (self) + s_remaining (self));
    double slack = (lag? HISTORY_SLACK_OLDER:
        HISTORY_SLACK) * sqrt (1 + 0.02 * (double) self->first_count / 81);
    verdict_t verdict = { .allowed = 0 };
    uint32_t ahead = 0, nearly = 0, behind = 0;
    for (uint32_t class = 0; class < s_classes (lag); class++) {
        double due = sizes [class] * share, lead = drawn [class] - due;
        double deviation = sqrt (self->first_sizes [lag] [class] * share * (1 - share));
        double most = fmin (slack * deviation, 0.2 * due) + 0.25;
        verdict.is_unsure |= fabs (lead - most) < 1e-3 || fabs (lead + most) < 1e-3;
        verdict.is_unsure_of_ease |= fabs (lead - 0.75 * most) < 1e-3;
        ahead |= (uint32_t) (lead > most) << class;
        nearly |= (uint32_t) (lead > 0.75 * most) << class;
        behind |= (uint32_t) (lead < -most && drawn [class] < sizes [class]) << class;
    }
    verdict.allowed = lag == 0 && behind? behind: ~ahead;
    verdict.easy = lag == 0 && behind? behind: ~nearly;
    return verdict;
}

//  The first of so many lags at which the sample's class is not in the masks; count: none.
static size_t
s_first_barred (const uint32_t masks [HISTORY_LAGS], const sample_t *sample, size_t count)
{
    size_t lag = 0;
    while (lag < count && (masks [lag] >> s_class (sample, lag) & 1))
        lag++;
    return lag;
}

static void
s_compare_allowed (world_t *self)
{
    if (s_remaining (self) == 0)
        return;
    uint32_t allowed [HISTORY_LAGS], easy [HISTORY_LAGS];
    bool unsure = false, unsure_of_ease = false;
    for (size_t lag = 0; lag < HISTORY_LAGS; lag++) {
        verdict_t verdict = lag < self->epochs? s_judge (self, lag):
            (verdict_t) { .allowed = UINT32_MAX, .easy = UINT32_MAX };
        allowed [lag] = verdict.allowed;
        easy [lag] = verdict.easy;
        unsure |= verdict.is_unsure;
        unsure_of_ease |= verdict.is_unsure_of_ease;
    }
    history_settle (self->history);
    self->judged++;
    self->unsure += unsure;
    self->unsure_of_ease += unsure_of_ease;
    if (unsure)
        return;
    for (size_t place = 0; place < self->count; place++) {
        const sample_t *sample = &self->samples [place];
        if (!s_remains (sample))
            continue;
        size_t lag = s_first_barred (allowed, sample, HISTORY_LAGS);
        if (history_allows (self->history, sample->id) != (lag == HISTORY_LAGS))
            fail_msg ("seed %" PRIu64 ": epoch %" PRIu64 ", %" PRIu64 " of %" PRIu64 " left: id %u should "
                "%sbe allowed (lag %zu, class %u)", self->seed, self->epochs, s_remaining (self),
                s_size (self), sample->id,
                lag == HISTORY_LAGS? "": "not ", lag + 1, lag == HISTORY_LAGS? 0: s_class (sample, lag));
        lag = s_first_barred (easy, sample, HISTORY_EASE_LAGS);
        if (!unsure_of_ease
        &&  history_allows_easily (self->history, sample->id) != (lag == HISTORY_EASE_LAGS))
            fail_msg ("seed %" PRIu64 ": epoch %" PRIu64 ": id %u should %sbe allowed easily", self->seed,
                self->epochs, sample->id, lag == HISTORY_EASE_LAGS? "": "not ");
    }
}

//  ------------------------------------------------------------------------------------------------
//  Comparing

typedef struct { const world_t *world; size_t place; } visit_t;

static void
s_visit (void *context, uint32_t id)
{
    visit_t *visit = context;
    const world_t *self = visit->world;
    while (visit->place < self->count && !self->samples [visit->place].there)
        visit->place++;
    if (visit->place == self->count || self->samples [visit->place++].id != id)
        fail_msg ("seed %" PRIu64 ": id %u is visited out of turn", self->seed, id);
}

//  An id that the data never had.
static void
s_compare_stranger (const world_t *self, uint32_t id)
{
    for (size_t place = 0; place < self->count; place++)
        if (self->samples [place].id == id)
            return;
    if (history_has (self->history, id) || history_needs (self->history, id))
        fail_msg ("seed %" PRIu64 ": id %u was never in the data", self->seed, id);
}

static void
s_compare (world_t *self)
{
    history_check (self->history);
    assert_int_equal (history_size (self->history), s_size (self));
    assert_int_equal (history_remaining (self->history), s_remaining (self));
    for (size_t place = 0; place < self->count; place++) {
        const sample_t *sample = &self->samples [place];
        if (history_has (self->history, sample->id) != sample->there
                || history_needs (self->history, sample->id) != s_remains (sample))
            fail_msg ("seed %" PRIu64 ": id %u and its model differ", self->seed, sample->id);
        s_compare_stranger (self, sample->id + (place % 2? 1: UINT32_MAX));
    }
    s_compare_stranger (self, 0);
    s_compare_stranger (self, SAMPLES - 1);
    s_compare_stranger (self, NEVER);
    visit_t visit = { self, 0 };
    history_each (self->history, s_visit, &visit);
    while (visit.place < self->count && !self->samples [visit.place].there)
        visit.place++;
    assert_int_equal (visit.place, self->count);
    s_compare_allowed (self);
}

//  ------------------------------------------------------------------------------------------------
//  Schedules

//  One sample, a range or a range with holes, at a container's end or at one of the ends of all ids; or
//  sparse.
static roaring_bitmap_t *
s_make_data (world_t *self)
{
    const uint32_t starts [] = { 0, 65536 - POOL / 2, 65535, 65536, 131072 - 3, SAMPLES - POOL };
    uint32_t start = starts [test_below (&self->random, sizeof starts / sizeof *starts)];
    uint64_t shape = test_below (&self->random, 8);
    uint32_t count = shape == 0? 1: 2 + (uint32_t) test_below (&self->random, POOL - 1);
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t place = 0; place < count; place++)
        if (shape < 4 || test_below (&self->random, 3))
            roaring_bitmap_add (data, start + place);
    if (shape == 7 || roaring_bitmap_is_empty (data)) {         //  sparse: also walked by the list
        roaring_bitmap_clear (data);
        start = 65536 - (uint32_t) test_below (&self->random, 20000);
        for (uint32_t place = 0; place < count; place++)
            roaring_bitmap_add (data, start + (uint32_t) test_below (&self->random, 30000));
        roaring_bitmap_add (data, 65535);
        roaring_bitmap_add (data, 65536);
    }
    return data;
}

static void
s_new_world (world_t *self)
{
    roaring_bitmap_t *data = s_make_data (self);
    while (roaring_bitmap_get_cardinality (data) > POOL)
        roaring_bitmap_remove (data, roaring_bitmap_minimum (data));
    uint32_t ids [POOL];
    self->count = roaring_bitmap_get_cardinality (data);
    roaring_bitmap_to_uint32_array (data, ids);
    for (size_t place = 0; place < self->count; place++)
        self->samples [place] = (sample_t) { .id = ids [place], .there = true };
    s_model_begins (self);
    if (test_below (&self->random, 2))
        roaring_bitmap_run_optimize (data);
    //  The tightest bound that the ids allow, or the loosest.
    self->history = history_new (data, test_below (&self->random, 2)? ids [self->count - 1] + 1: SAMPLES);
    roaring_bitmap_free (data);
}

//  Some remaining sample: proposed, the first, or any; the first makes classes run ahead as far as they may.
static sample_t *
s_choose (world_t *self)
{
    uint64_t how = test_below (&self->random, 4);
    random_t random = random_from_seed (self->random);
    uint32_t proposed = history_propose (self->history, &random);
    size_t start = how == 0? 0: test_below (&self->random, self->count);
    for (size_t step = 0; step < self->count; step++) {
        sample_t *sample = &self->samples [(start + step) % self->count];
        if (how == 1? sample->id == proposed && s_remains (sample): s_remains (sample))
            return sample;
    }
    fail_msg ("seed %" PRIu64 ": id %u was proposed, and does not remain", self->seed, proposed);
    return NULL;
}

static void
s_step (world_t *self, uint64_t drops, uint64_t breaks)
{
    if (test_below (&self->random, 1000) < drops)
        s_drop (self, &self->samples [test_below (&self->random, self->count)]);        //  perhaps once more
    else
    if (s_remaining (self) == 0 || test_below (&self->random, 1000) < breaks)
        s_epoch_begin (self);
    else
        s_draw (self, s_choose (self));
}

//  Any remaining sample may be drawn at any step, any sample dropped, any epoch left unfinished.
static void
test_history_and_its_model_agree (void **state)
{
    (void) state;
    static const uint64_t s_drops [] = { 0, 0, 3, 30, 500 }, s_breaks [] = { 0, 0, 5, 40 };
    uint64_t judged = 0, unsure = 0, unsure_of_ease = 0;
    for (uint64_t seed = test_seed (), n = 0; n < WORLDS; n++, seed++) {
        world_t self = { .seed = seed, .random = seed };
        s_new_world (&self);
        uint64_t drops = s_drops [test_below (&self.random, 5)],
            breaks = s_breaks [test_below (&self.random, 4)];
        s_compare (&self);
        for (int step = 0; step < STEPS && s_size (&self) > 0; step++) {
            s_step (&self, drops, breaks);
            if (self.samples [self.count - 1].id - self.samples [0].id < 1000 || step % 16 == 0)
                s_compare (&self);
        }
        s_compare (&self);
        judged += self.judged;
        unsure += self.unsure;
        unsure_of_ease += self.unsure_of_ease;
        history_destroy (&self.history);
        assert_null (self.history);
    }
    //  A rule that is hardly looked at is not tested.
    assert_true (unsure * 20 < judged);
    assert_true (unsure_of_ease * 2 < judged);
}

//  All samples are dropped, drawn ones and others: what is left is empty, and a next epoch as well.
static void
test_data_may_vanish (void **state)
{
    (void) state;
    for (uint32_t stride = 1; stride <= 100; stride += 99) {
        roaring_bitmap_t *data = roaring_bitmap_from_range (65000, 65000 + 100 * stride, stride);
        history_t *history = history_new (data, SAMPLES);
        for (uint32_t rank = 0; rank < 40; rank++)
            history_draw (history, 65000 + rank * stride);
        for (uint32_t rank = 0; rank < 100; rank++) {
            history_drop (history, 65000 + rank * stride);
            history_drop (history, 65000 + rank * stride);
            history_drop (history, 64999 + rank * stride);      //  never there, where stride is not 1
            history_settle (history);
            history_check (history);
            assert_int_equal (history_size (history), 99 - rank);
            assert_int_equal (history_remaining (history), rank < 40? 60: 99 - rank);
        }
        history_epoch_begin (history);
        history_settle (history);
        history_check (history);
        assert_int_equal (history_remaining (history), 0);
        roaring_bitmap_free (data);
        history_destroy (&history);
    }
}

//  A first epoch knows nothing of the past, so in whatever order it is drawn, everything is allowed.
static void
test_a_first_epoch_has_no_quotas (void **state)
{
    (void) state;
    enum { FIRST = 2000 };
    roaring_bitmap_t *data = roaring_bitmap_from_range (65000, 65000 + FIRST, 1);
    history_t *history = history_new (data, SAMPLES);
    for (uint32_t id = 65000; id < 65000 + FIRST; id++) {
        history_settle (history);
        for (uint32_t other = id; other < 65000 + FIRST; other += 37)
            assert_true (history_allows (history, other));
        history_draw (history, id);
        if (id % 3 == 0)
            history_drop (history, id);         //  what has been drawn, so that fewer seem to have been
    }
    history_epoch_begin (history);
    bool barred = false;                        //  but the second has: this very order is barred soon
    for (uint32_t id = 65000; id < 65000 + FIRST / 10 && !barred; id++) {
        history_settle (history);
        if (!history_has (history, id))
            continue;
        barred = !history_allows (history, id);
        history_draw (history, id);
    }
    assert_true (barred);
    roaring_bitmap_free (data);
    history_destroy (&history);
}

//  ------------------------------------------------------------------------------------------------
//  Proposals

enum { LEFT = 100, PROPOSALS = EFFORT (200) * LEFT };

static int
s_by_id (const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *) one, b = *(const uint32_t *) other;
    return (a > b) - (a < b);
}

//  z of many proposals over the LEFT ids that remain, which are sorted here.
static double
s_propose (history_t *history, uint32_t *left, random_t *random, uint64_t seed)
{
    uint64_t counts [LEFT] = { 0 };
    qsort (left, LEFT, sizeof *left, s_by_id);
    for (int proposal = 0; proposal < PROPOSALS; proposal++) {
        uint32_t id = history_propose (history, random);
        const uint32_t *found = bsearch (&id, left, LEFT, sizeof *left, s_by_id);
        if (!found)
            fail_msg ("seed %" PRIu64 ": id %u does not remain", seed, id);
        counts [found - left]++;
    }
    history_check (history);
    return statistics_z_of_chi_square (statistics_chi_square_even (counts, LEFT), LEFT - 1);
}

//  Every stride-th id; LEFT of all remain, but for `gone` which go when proposals have begun, by draw or
//  drop.
static double
s_propose_among (uint32_t count, uint32_t stride, uint32_t gone, uint64_t seed)
{
    const uint32_t first = 65536 - 5;
    roaring_bitmap_t *data = roaring_bitmap_from_range (first, first + (uint64_t) count * stride, stride);
    history_t *history = history_new (data, UINT32_MAX);
    roaring_bitmap_free (data);
    uint32_t *ids = malloc (count * sizeof *ids);
    for (uint32_t rank = 0; rank < count; rank++)
        ids [rank] = first + rank * stride;
    for (uint32_t rank = 0; rank < count; rank++) {
        uint32_t other = rank + (uint32_t) test_below (&seed, count - rank), id = ids [rank];
        ids [rank] = ids [other];
        ids [other] = id;
    }
    for (uint32_t rank = LEFT + gone; rank < count; rank++)
        history_draw (history, ids [rank]);
    random_t random = random_from_seed (seed);
    for (uint32_t rank = LEFT + gone; rank-- > LEFT; ) {
        history_propose (history, &random);
        if (rank % 3)
            history_draw (history, ids [rank]);
        else
            history_drop (history, ids [rank]);
    }
    double z = s_propose (history, ids, &random, seed);
    history_destroy (&history);
    free (ids);
    return z;
}

//  Whether the data are dense or sparse, and early in an epoch or late, when what remains is listed.
static void
test_proposals_are_uniform (void **state)
{
    (void) state;
    static const struct { uint32_t count, stride, gone; } s_cases [] = {
        { 100, 1, 0 }, { 130, 1, 30 },                  //  nothing drawn yet; early
        { 6300, 1, 0 }, { 6400, 1, 0 }, { 6500, 1, 0 }, //  about to be listed, and just listed
        { 20000, 1, 0 }, { 20000, 1, 150 },             //  late; and listed entries go
        { 100, 64, 0 }, { 100, 66, 0 }, { 100, 30, 0 }, //  on both sides of sparse
        { 3000, 1000, 0 }, { 3000, 1000, 2900 }, { 100, 20000000, 0 },
    };
    enum { CASES = sizeof s_cases / sizeof *s_cases };
    uint64_t seed = test_seed ();
    for (size_t n = 0; n < CASES; n++) {
        double z = s_propose_among (s_cases [n].count, s_cases [n].stride, s_cases [n].gone, seed + n);
        if (z > statistics_z_limit (CASES))
            fail_msg ("seed %" PRIu64 ": case %zu: z = %f", seed, n, z);
    }
}

//  How many random numbers were drawn between two states.
static uint64_t
s_numbers (random_t from, random_t to)
{
    uint64_t numbers = 0;
    for (; from.state != to.state; numbers++)
        random_next (&from);
    return numbers;
}

//  Some dozen tries at most on average, and just one when all but one of many are gone: by draws, or by
//  drops.
static void
test_proposals_take_few_tries (void **state)
{
    (void) state;
    enum { MANY = 100000, EACH = 50 };
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, MANY, 1);
    history_t *history = history_new (data, MANY);
    roaring_bitmap_free (data);
    random_t random = random_from_seed (test_seed ());
    for (uint32_t id = 0; id < MANY; id++) {
        if (id % 500 == 0 || id > MANY - 4) {
            history_propose (history, &random);     //  may list what remains
            random_t before = random;
            for (int proposal = 0; proposal < EACH; proposal++)
                history_propose (history, &random);
            uint64_t numbers = s_numbers (before, random);
            if (numbers > EACH * 64 * 2 || (id == MANY - 1 && numbers > 2 * EACH))
                fail_msg ("seed %" PRIu64 ": %" PRIu64 " tries at %u of %u", test_seed (), numbers, id, MANY);
        }
        if (id % 2)
            history_draw (history, id);
        else
            history_drop (history, id);
    }
    history_destroy (&history);
}

//  ------------------------------------------------------------------------------------------------
//  Fresh

enum { COUNT = 4000, TRIES = 64, TABLES = 10, STALE_TABLES = EFFORT (10) };

//  What a job is offered, of what remains: anything; one order for ever; the last epoch's order backwards;
//  or, from OFFER_EARLIER on, the order of so many epochs before.
typedef enum { OFFER_ANY, OFFER_FIXED, OFFER_MIRRORED, OFFER_EARLIER,
    OFFERS = OFFER_EARLIER + HISTORY_LAGS } offer_t;

typedef struct {
    history_t *history;
    uint32_t orders [1 + HISTORY_LAGS] [COUNT];         //  this epoch's, the last one's ...
    uint32_t first;                                     //  before it, all that is on offer is drawn
} runner_t;

static uint32_t
s_offered (const runner_t *self, offer_t offer, uint32_t step)
{
    return offer == OFFER_FIXED? step: offer == OFFER_MIRRORED? self->orders [1] [COUNT - 1 - step]:
        self->orders [1 + offer - OFFER_EARLIER] [step];
}

//  The first allowed one of what is on offer; as in follow_pick any, if there is none.
static uint32_t
s_take (runner_t *self, offer_t offer, random_t *random)
{
    history_settle (self->history);
    if (offer != OFFER_ANY)
        while (!history_needs (self->history, s_offered (self, offer, self->first)))
            self->first++;
    for (uint32_t step = self->first; offer != OFFER_ANY && step < COUNT; step++) {
        uint32_t id = s_offered (self, offer, step);
        if (history_needs (self->history, id) && history_allows (self->history, id))
            return id;
    }
    uint32_t id = history_propose (self->history, random);
    for (int tries = 0; tries < TRIES && !history_allows (self->history, id); tries++)
        id = history_propose (self->history, random);
    return id;
}

//  Chi-square of the table "tenth of an order" x "part of an earlier one".
static double
s_table (const uint32_t *order, const uint32_t *earlier, uint32_t parts)
{
    uint64_t table [100] = { 0 };
    uint32_t places [COUNT];
    for (uint32_t position = 0; position < COUNT; position++)
        places [earlier [position]] = position;
    for (uint32_t position = 0; position < COUNT; position++)
        table [position * 10 / COUNT * parts + places [order [position]] * parts / COUNT]++;
    return statistics_chi_square_even (table, 10 * parts);
}

//  As many as quotas tell apart, but no more than ten.
static uint32_t
s_parts (size_t lag)
{
    return s_classes (lag) < 10? s_classes (lag): 10;
}

static double
s_freedom (size_t lag)
{
    return 9 * (s_parts (lag) - 1.0);
}

typedef struct { double sums [HISTORY_LAGS]; } tables_t;    //  by lag

//  HISTORY_LAGS epochs of anything, and then so many of what is on offer.
static tables_t
s_run (offer_t offer, int epochs, uint64_t seed)
{
    runner_t self;
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, COUNT, 1);
    self.history = history_new (data, COUNT);
    roaring_bitmap_free (data);
    random_t random = random_from_seed (seed);
    tables_t tables = { { 0 } };
    for (int epoch = -HISTORY_LAGS; epoch < epochs; epoch++) {
        self.first = 0;
        for (uint32_t position = 0; position < COUNT; position++) {
            self.orders [0] [position] = s_take (&self, epoch < 0? OFFER_ANY: offer, &random);
            history_draw (self.history, self.orders [0] [position]);
        }
        for (size_t lag = 0; epoch >= 0 && lag < HISTORY_LAGS; lag++)
            tables.sums [lag] += s_table (self.orders [0], self.orders [1 + lag], s_parts (lag));
        history_epoch_begin (self.history);
        memmove (self.orders [1], self.orders [0], sizeof self.orders [0] * HISTORY_LAGS);
    }
    history_destroy (&self.history);
    return tables;
}

//  A job that takes any allowed proposal is fresher than independent shuffles: at lag 1 by some ten
//  deviations, at the later ones together by six.  So three are asked for, which shuffles reach once in 400
//  runs.
static void
test_allowed_proposals_are_fresher_than_shuffles (void **state)
{
    (void) state;
    enum { RUNS = 2 };
    double last = 0, earlier = 0, freedom = 0;
    for (uint64_t seed = test_seed (); seed < test_seed () + RUNS; seed++) {
        tables_t tables = s_run (OFFER_ANY, TABLES, seed);
        last += tables.sums [0];
        for (size_t lag = 1; lag < HISTORY_LAGS; lag++) {
            earlier += tables.sums [lag];
            freedom += s_freedom (lag) * TABLES;
        }
    }
    double z = statistics_z_of_chi_square (last, s_freedom (0) * TABLES * RUNS);
    double z_earlier = statistics_z_of_chi_square (earlier, freedom);
    if (z > -3 || z_earlier > -3)
        fail_msg ("seed %" PRIu64 ": z = %f, at later lags %f", test_seed (), z, z_earlier);
}

//  Whatever is on offer, what is taken is fresh at every lag, as far as classes tell.
static void
test_a_stale_offer_makes_no_stale_order (void **state)
{
    (void) state;
    for (int offer = OFFER_FIXED; offer < OFFERS; offer++) {
        tables_t tables = s_run ((offer_t) offer, STALE_TABLES, test_seed ());
        for (size_t lag = 0; lag < HISTORY_LAGS; lag++) {
            double phi2 = (tables.sums [lag] / STALE_TABLES - s_freedom (lag)) / COUNT;
            print_message ("%s%.4f%s", lag? " ": "phi2 by lag: ", phi2, lag + 1 < HISTORY_LAGS? "": "\n");
            if (phi2 > 0.02)
                fail_msg ("seed %" PRIu64 ": offer %d, lag %zu: phi2 %f", test_seed (), offer, lag + 1, phi2);
        }
    }
}

//  ------------------------------------------------------------------------------------------------
//  Memory

//  What is allocated now, large blocks too.
static size_t
s_allocated (void)
{
    struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
}

//  Four bytes a sample of dense data, and a sixteenth of a byte for the late list.
static void
test_a_dense_sample_costs_four_bytes (void **state)
{
    (void) state;
    enum { MANY = 2000000 };
    size_t before = s_allocated ();
    void *probe = malloc (MANY);
    assert_non_null (probe);
    bool counts = s_allocated () >= before + MANY;
    free (probe);
    if (!counts)
        skip ();                                //  a sanitizer's malloc
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, MANY, 1);
    before = s_allocated ();
    history_t *history = history_new (data, MANY);
    assert_in_range (s_allocated () - before, 4 * MANY, 4 * MANY + 8192);
    random_t random = random_from_seed (test_seed ());
    for (uint32_t id = 0; id < MANY; id++) {
        if (id % 1000 == 0)
            history_propose (history, &random);
        history_draw (history, id);
    }
    assert_in_range (s_allocated () - before, 4 * MANY, 4 * MANY + MANY / 16 + 8192);
    history_epoch_begin (history);
    assert_in_range (s_allocated () - before, 4 * MANY, 4 * MANY + 8192);
    history_destroy (&history);
    assert_true (s_allocated () <= before);
    roaring_bitmap_free (data);
}

//  ------------------------------------------------------------------------------------------------

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_history_and_its_model_agree),
        cmocka_unit_test (test_data_may_vanish),
        cmocka_unit_test (test_a_first_epoch_has_no_quotas),
        cmocka_unit_test (test_proposals_are_uniform),
        cmocka_unit_test (test_proposals_take_few_tries),
        cmocka_unit_test (test_allowed_proposals_are_fresher_than_shuffles),
        cmocka_unit_test (test_a_stale_offer_makes_no_stale_order),
        cmocka_unit_test (test_a_dense_sample_costs_four_bytes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}

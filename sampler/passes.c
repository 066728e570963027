#include "passes.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "permutation.h"
#include "sampler.h"
#include "xalloc.h"

enum {
    PASSES_MAGIC = 0x9a55e5,
    ORDERS = 16,                //  orders of passes that are kept: jobs are in a few at a time
    TRIES = 256,                //  proposals for a sample to be drawn alone
    //  How many draws off an epoch's end is expected until there is a new plan: this part of the data, and
    //  more.
    OFF_PART = 32, OFF_LEAST = 64,
    MEASURED_PART = 8,          //  of the data, is drawn until that is looked at (but a newcomer's pace)
    //  Draws that a job may be ahead in its last pass.  One that is further ahead fills the cache with
    //  versions that all the others still need, which stay while those in use leave.
    AHEAD = 8,
    LATE_PART = 64,             //  of the data, is drawn after the epoch's expected end at most
    NO_ID = 0xffffffff
};

//  What a job that is one sample off takes more or fewer of, as a part: it is back in some dozen draws.
#define CORRECTION 0.06
//  In the last pass all has to be taken: there, what it draws alone for each sample that it is too far ahead.
#define AHEAD_CORRECTION 0.03

typedef enum { COIN_KEEP, COIN_TAKE } coin_t;

typedef struct {
    uint64_t pass;              //  0: none
    permutation_t order;
} order_t;

//  A job's epoch, or what is left of it.
typedef struct {
    history_t *history;
    void (*skip) (void *context, uint32_t id, int change);
    void *context;
    uint64_t cursor, end;       //  places
    uint64_t first, last;       //  passes
    uint32_t from, to;          //  where the epoch begins in the first pass, and ends in the last one
    double keep, keep_absent;   //  the chance to be kept for the last pass: with a place there, and without
    //  The chances of what has a place in the first pass and is not kept: where the last plan of the epoch
    //  before was followed, and of what came before that plan or on another node.
    double take, take_else;
    double alone, alone_last;   //  the part of the first pass's draws, and of the last one's, that are alone
    uint32_t tail_age;          //  ages from here on are those of samples that came in the first pass already
    uint32_t planned_age;       //  ages from here on are those of samples that came by that plan
    double tail_part;           //  of the data, came in the first pass already,
    double tail_late;           //  of what the job drew in the epoch before (one node of several: more),
    double tail_planned;        //  and of what came by that plan
    uint64_t mixed;             //  the last pass that an epoch was not walked as planned in; 0: none
    bool is_alone;              //  till the clock leaves that pass, all is drawn alone
    uint64_t drawn_before, planned;             //  what had come, and what remained, when the plan was made
    uint64_t tail;              //  what remained when the cursor came to the last pass
    //  Places that the clock moves for each of the job's draws; 0: not known yet.  A job may draw many at a
    //  time, so clocks are compared where it draws after others have.
    double pace;
    double clock_then, clock_now;               //  when measuring began (0: not yet); when others last drew
    uint64_t drawn, drawn_now;                  //  draws since it began; those till then
    double clock_left;                          //  after the job's last draw
    bool is_first;                              //  it is the job's first epoch here
    bool is_resumed;                            //  and was begun elsewhere, or before
    uint64_t epochs;            //  begun here
    uint64_t size;              //  what remained when the epoch began, or a sample
    uint32_t picked;            //  NO_ID: nothing
    uint64_t picked_place, place;
} plan_t;

struct passes {
    uint32_t magic;
    //  Set at birth.
    uint32_t sample_count;
    uint64_t seed;
    //  Owner only.
    order_t orders [ORDERS];    //  of pass p: at p % ORDERS
    double clock;               //  a place
    uint64_t samples;           //  of all jobs' epochs
    uint32_t jobs;
    plan_t *plans [SAMPLER_JOBS_MAX];           //  NULL: not here
};

passes_t *
passes_new (uint32_t sample_count, uint64_t seed)
{
    passes_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = PASSES_MAGIC;
    self->sample_count = sample_count;
    self->seed = seed;
    self->clock = sample_count;
    return self;
}

void
passes_destroy (passes_t **self_p)
{
    passes_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PASSES_MAGIC);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        free (self->plans [job]);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

bool
passes_has (const passes_t *self, uint32_t job)
{
    return self->plans [job] != NULL;
}

uint32_t
passes_jobs (const passes_t *self)
{
    return self->jobs;
}

uint64_t
passes_place (const passes_t *self, uint32_t job)
{
    return self->plans [job]->place;
}

bool
passes_comes (const passes_t *self, uint32_t job, uint64_t place)
{
    return self->plans [job]->cursor <= place;
}

//  ------------------------------------------------------------------------------------------------
//  Passes and coins

static const permutation_t *
s_order (passes_t *self, uint64_t pass)
{
    order_t *order = &self->orders [pass % ORDERS];
    if (order->pass != pass)
        *order = (order_t) { pass, permutation_new (self->seed, pass, self->sample_count) };
    return &order->order;
}

static uint32_t
s_position (passes_t *self, uint64_t pass, uint32_t id)
{
    return permutation_position (s_order (self, pass), id);
}

//  Falls with this chance, for all jobs alike; the same coin falls with a smaller chance only where it falls
//  with a greater one.
static bool
s_falls (const passes_t *self, coin_t coin, uint64_t pass, uint32_t id, double chance)
{
    uint64_t bits = random_mix (random_mix (random_mix (self->seed + coin) ^ pass) ^ id);
    return (double) (bits >> 11) * 0x1p-53 < chance;
}

//  Whether the sample is kept for the last pass.
static bool
s_is_kept (passes_t *self, const plan_t *plan, uint32_t id, double more)
{
    if (plan->to == 0 && plan->keep_absent == 0)
        return false;
    bool is_there = s_position (self, plan->last, id) < plan->to;
    return s_falls (self, COIN_KEEP, plan->last, id, is_there? plan->keep * more: plan->keep_absent);
}

//  ------------------------------------------------------------------------------------------------
//  An epoch's plan

//  Of the job; before it is known, of the average one, which has PASSES_EPOCH passes an epoch.
static double
s_pace (const passes_t *self, const plan_t *plan)
{
    return plan->pace > 0? plan->pace:
        (double) PASSES_EPOCH * self->sample_count * self->jobs / (double) self->samples;
}

//  For all that remains.  has_tail: in the first pass the job drew at the end of the epoch before.
static void
s_plan (passes_t *self, plan_t *plan, bool has_tail)
{
    uint32_t samples = self->sample_count;
    double pace = s_pace (self, plan);
    //  Where the clock will be then: a job that is ahead is so no more when its epoch ends.
    uint64_t end = (uint64_t) (self->clock + (double) history_remaining (plan->history) * pace);
    plan->end = end > plan->cursor? end: plan->cursor + 1;
    plan->first = plan->cursor / samples;
    plan->last = plan->end / samples;
    plan->from = (uint32_t) (plan->cursor % samples);
    plan->to = (uint32_t) (plan->end % samples);
    plan->drawn_before = history_drawn (plan->history);
    plan->planned = history_remaining (plan->history);
    plan->tail = 0;
    if (!has_tail)
        plan->tail_part = plan->tail_late = plan->tail_planned = 0;
    plan->tail_age = HISTORY_AGES;
    plan->keep = plan->keep_absent = plan->alone = 0;
    plan->take = plan->take_else = 1;
    double length = (double) (plan->end - plan->cursor) / samples;
    plan->alone_last = fmax (0, 1 - length);
    if (plan->first == plan->last)
        return;
    double rest = 1 - (double) plan->from / samples, part = (double) plan->to / samples;
    plan->keep = fmin (1, 1 / length);
    plan->keep_absent = length < 1? (part / length - part) / (1 - part): 0;
    uint64_t whole = plan->last - plan->first - 1;
    if (whole == 0) {
        plan->alone = 1 - rest;
        return;
    }
    plan->tail_age = (uint32_t) lround ((1 - plan->tail_late) * HISTORY_AGES);
    //  As many as have these ages.
    double rounded = 1 - (double) plan->tail_age / HISTORY_AGES;
    plan->alone = plan->tail_late > 0? plan->tail_part * rounded / plan->tail_late: 0;
    plan->take_else = 1 / (rest + (double) whole);
    plan->take = (1 - plan->tail_planned) * plan->take_else;
}

//  Since measuring began.
static void
s_measure_pace (plan_t *plan)
{
    if (plan->drawn_now > 0)
        plan->pace = (plan->clock_now - plan->clock_then) / (double) plan->drawn_now;
}

//  A job that is behind goes on from the clock.
static void
s_catch_up (const passes_t *self, plan_t *plan)
{
    uint64_t clock = (uint64_t) self->clock;
    plan->cursor = plan->cursor < clock? clock: plan->cursor;
    plan->picked = NO_ID;
}

static void
s_count_size (passes_t *self, plan_t *plan)
{
    self->samples -= plan->size;
    plan->size = history_remaining (plan->history);
    plan->size += plan->size == 0;
    self->samples += plan->size;
}

void
passes_join (passes_t *self, uint32_t job, history_t *history, bool goes_on)
{
    assert (self->magic == PASSES_MAGIC);
    assert (!self->plans [job]);
    plan_t *plan = self->plans [job] = xalloc_jobs (calloc (1, sizeof *plan));
    plan->history = history;
    plan->is_first = true;
    plan->is_resumed = plan->is_alone = goes_on;
    self->jobs++;
    s_count_size (self, plan);
    s_catch_up (self, plan);
    if (goes_on)
        plan->mixed = plan->cursor / self->sample_count;
    s_plan (self, plan, false);
}

void
passes_leave (passes_t *self, uint32_t job)
{
    assert (self->magic == PASSES_MAGIC);
    assert (self->plans [job]);
    self->jobs--;
    self->samples -= self->plans [job]->size;
    free (self->plans [job]);
    self->plans [job] = NULL;
}

void
passes_on_skip (passes_t *self, uint32_t job, void (*skip) (void *context, uint32_t id, int change),
    void *context)
{
    assert (self->plans [job]);
    self->plans [job]->skip = skip;
    self->plans [job]->context = context;
}

void
passes_epoch_begin (passes_t *self, uint32_t job)
{
    assert (self->magic == PASSES_MAGIC);
    plan_t *plan = self->plans [job];
    double before = (double) plan->drawn_before, planned = fmax (1, (double) plan->planned);
    plan->tail_part = (double) plan->tail / fmax (1, (double) history_size (plan->history));
    plan->tail_late = (double) plan->tail / (before + planned);
    plan->tail_planned = (double) plan->tail / planned;
    plan->planned_age = (uint32_t) lround (before / (before + planned) * HISTORY_AGES);
    s_count_size (self, plan);
    s_measure_pace (plan);
    //  Of a job that is alone nothing is measured: that begins when others come.
    plan->clock_then = self->jobs > 1? plan->clock_now: 0;
    plan->drawn -= plan->drawn_now;
    plan->drawn_now = 0;
    //  What was drawn before may have been kept for this pass, or for another one.
    if (plan->is_resumed)
        plan->mixed = plan->last;
    plan->is_first = plan->is_resumed = false;
    plan->epochs++;
    //  What was drawn alone late in the epoch before has places till there.
    if (plan->cursor >= plan->last * self->sample_count && plan->cursor < plan->end)
        plan->cursor = plan->end;
    s_catch_up (self, plan);
    uint64_t pass = plan->cursor / self->sample_count;
    plan->is_alone = pass == plan->mixed;
    s_plan (self, plan, pass == plan->last && !plan->is_alone);
}

//  ------------------------------------------------------------------------------------------------
//  Draws

//  Whether a sample that remains is drawn alone, if any is where the cursor is.
static bool
s_may_come_alone (passes_t *self, const plan_t *plan, uint64_t pass, uint32_t id)
{
    if (pass == plan->last) {
        uint32_t position = s_position (self, pass, id);
        return position >= plan->to || (pass == plan->first && position < plan->from);
    }
    uint32_t age = history_age (plan->history, id);
    bool has_gone = plan->last - plan->first > 1? age >= plan->tail_age && age < HISTORY_AGES:
        s_position (self, pass, id) < plan->from;
    return has_gone && !s_is_kept (self, plan, id, 1);
}

static uint32_t
s_pick_alone (passes_t *self, const plan_t *plan, uint64_t pass, random_t *random)
{
    for (int tries = 0; tries < TRIES; tries++) {
        uint32_t id = history_propose (plan->history, random);
        if (s_may_come_alone (self, plan, pass, id))
            return id;
    }
    return NO_ID;
}

//  Whether a sample that remains is taken at its place in this pass.
static bool
s_takes (passes_t *self, const plan_t *plan, uint64_t pass, uint32_t id, double fewer)
{
    if (pass == plan->last)
        return true;
    bool is_whole = pass > plan->first;
    bool is_next = pass + 1 == plan->last;
    if (s_is_kept (self, plan, id, is_next? 2 - fewer: 1))
        return false;
    if (is_whole && is_next)
        return true;
    double chance = 1 / (double) (plan->last - pass);
    if (!is_whole) {
        uint32_t age = history_age (plan->history, id);
        chance = age >= plan->planned_age && age < HISTORY_AGES? plan->take: plan->take_else;
    }
    return chance >= 1 || s_falls (self, COIN_TAKE, pass, id, chance * fewer);
}

static void
s_tell (const plan_t *plan, uint32_t id, int change)
{
    if (plan->skip)
        plan->skip (plan->context, id, change);
}

//  Plans the rest of an epoch.  may_have_tail: while the job is in the pass that the epoch began in, that one
//  has the samples that the job drew there before.
static void
s_plan_anew (passes_t *self, plan_t *plan, bool may_have_tail)
{
    s_tell (plan, PASSES_ALL, -1);
    s_measure_pace (plan);
    s_catch_up (self, plan);
    s_plan (self, plan, may_have_tail && plan->cursor / self->sample_count == plan->first);
    s_tell (plan, PASSES_ALL, +1);
}

//  The pace has changed, or was not known yet, or the job stood still: the epoch will not end where it was
//  expected to.
static void
s_plan_anew_if_off (passes_t *self, plan_t *plan)
{
    if (self->clock == plan->clock_left)
        return;
    //  A newcomer draws its first batches at once.
    if (plan->clock_then == 0) {
        plan->clock_then = self->clock;
        plan->drawn = 0;
    }
    //  It stood still for longer than an epoch takes it: that says nothing of its pace.
    double stood = self->clock - plan->clock_left, pace = s_pace (self, plan);
    if (plan->drawn > 0 && stood > (double) plan->size * pace)
        plan->clock_then += stood;
    plan->clock_now = self->clock;
    plan->drawn_now = plan->drawn;
    if (plan->is_alone || plan->drawn < (plan->is_first? 0: plan->size / MEASURED_PART) + 2 * OFF_LEAST)
        return;
    pace = (plan->clock_now - plan->clock_then) / (double) plan->drawn;
    double end = self->clock + (double) history_remaining (plan->history) * pace;
    //  Ahead by more than the rest of the epoch: no plan is better until the clock has come nearer.
    if (end <= (double) plan->cursor && plan->end <= plan->cursor + 1)
        return;
    if (fabs (end - (double) plan->end) < (double) (plan->size / OFF_PART + OFF_LEAST) * pace)
        return;
    s_plan_anew (self, plan, true);
    //  Where the last pass stays the same, what came before the new plan was kept for it by another chance.
    //  The next epoch hardly knows of that (docs/randomness.md), and drawing that pass alone, too, takes up
    //  to a seventh more preparations.
    plan->mixed = plan->first;
}

//  The epoch before tells of the rest of the pass that it ended in where it was not walked as planned: what
//  has a place left there was drawn late.  So nothing is taken there, and the walk begins in the next pass.
static void
s_walk_again_if_over (passes_t *self, plan_t *plan)
{
    if ((uint64_t) self->clock / self->sample_count <= plan->mixed)
        return;
    plan->is_alone = false;
    s_plan_anew (self, plan, false);
}

//  A job that is too far ahead in its last pass now and then draws alone what has its place there still
//  before it.  What has none there is not to come late without being noticed.
static uint32_t
s_pick_if_too_far (passes_t *self, const plan_t *plan, random_t *random)
{
    uint64_t pass = plan->cursor / self->sample_count;
    double pace = s_pace (self, plan);
    double ahead = ((double) plan->cursor - self->clock) / pace;
    if (pass != plan->last || ahead <= AHEAD || random_real (random) >= AHEAD_CORRECTION * (ahead - AHEAD))
        return NO_ID;
    uint32_t id = history_propose (plan->history, random);
    return s_position (self, pass, id) < plan->to? id: NO_ID;
}

//  Walks to the next sample that is taken at its place.  A job that is behind the clock takes fewer of what
//  it may take or leave, one that is ahead more.  What it draws alone stays the same part of its draws: that
//  is what the epoch before took in this pass, and it would come early or late altogether.
static uint32_t
s_walk (passes_t *self, plan_t *plan)
{
    double pace = s_pace (self, plan);
    for (; plan->cursor < plan->end; plan->cursor++) {
        uint64_t pass = plan->cursor / self->sample_count;
        uint32_t id = permutation_at (s_order (self, pass), (uint32_t) (plan->cursor % self->sample_count));
        if (!history_needs (plan->history, id))
            continue;
        double behind = (self->clock - (double) plan->cursor) / pace;
        if (s_takes (self, plan, pass, id, fmin (2, fmax (0, 1 - CORRECTION * behind))))
            return id;
        s_tell (plan, id, -1);
        plan->cursor++;
        s_tell (plan, id, +1);
        plan->cursor--;
    }
    return NO_ID;
}

uint32_t
passes_pick (passes_t *self, uint32_t job, random_t *random)
{
    assert (self->magic == PASSES_MAGIC);
    plan_t *plan = self->plans [job];
    if (plan->picked != NO_ID && history_needs (plan->history, plan->picked))
        return plan->picked;
    s_plan_anew_if_off (self, plan);
    if (plan->is_alone)
        s_walk_again_if_over (self, plan);
    plan->picked_place = PASSES_NO_PLACE;
    if (plan->is_alone)
        return plan->picked = history_propose (plan->history, random);
    uint64_t pass = plan->cursor / self->sample_count;
    bool is_whole = pass > plan->first && pass < plan->last;
    double alone = is_whole? 0: pass == plan->last? plan->alone_last: plan->alone;
    plan->picked = NO_ID;
    //  From a random number of its own, which equal jobs have in common.
    random_t own = random_from_seed (random_mix (random_mix (self->seed ^ plan->cursor) + plan->epochs)
        ^ history_remaining (plan->history));
    if (alone > 0 && plan->cursor < plan->end && random_real (&own) < alone)
        plan->picked = s_pick_alone (self, plan, pass, &own);
    if (plan->picked == NO_ID)
        plan->picked = s_pick_if_too_far (self, plan, &own);
    if (plan->picked == NO_ID) {
        plan->picked = s_walk (self, plan);
        plan->picked_place = plan->cursor;
    }
    //  The epoch is longer than was expected.
    if (plan->picked == NO_ID) {
        plan->picked = history_propose (plan->history, random);
        plan->picked_place = PASSES_NO_PLACE;
        if (history_remaining (plan->history) > plan->size / LATE_PART)
            plan->mixed = plan->last;
    }
    return plan->picked;
}

void
passes_draw (passes_t *self, uint32_t job, uint32_t id)
{
    assert (self->magic == PASSES_MAGIC);
    plan_t *plan = self->plans [job];
    bool was_picked = id == plan->picked;
    plan->place = was_picked? plan->picked_place: PASSES_NO_PLACE;
    if (!plan->is_alone && plan->tail == 0 && plan->cursor / self->sample_count == plan->last)
        plan->tail = history_remaining (plan->history) + 1;
    if (was_picked && plan->place != PASSES_NO_PLACE)
        plan->cursor++;
    plan->picked = NO_ID;
    plan->drawn++;
    plan->clock_left = self->clock += (double) PASSES_EPOCH * self->sample_count / (double) self->samples;
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

void
passes_check (const passes_t *self)
{
    assert (self->magic == PASSES_MAGIC);
    uint32_t jobs = 0;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        const plan_t *plan = self->plans [job];
        if (!plan)
            continue;
        jobs++;
        assert (plan->first <= plan->last && plan->cursor <= plan->end + 1);            //  P1
        assert (plan->cursor >= plan->first * self->sample_count + plan->from);         //  P1
    }
    assert (jobs == self->jobs);
}

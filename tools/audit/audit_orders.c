//  The tests of one job: is each order uniform, and does it tell nothing of the next?

#include "audit.h"
#include <math.h>
#include <stdlib.h>
#include "audit_state.h"
#include "tail_probability.h"

//  An order that correlates that much with the ids, and in which none comes further before its turn than this
//  part of the epoch, is called buffered.
#define AUDIT_BUFFERED_RANK 0.5
#define AUDIT_BUFFERED_REACH 0.8

//  Whether what the trial found, be it significant or not, is little enough to be called fresh.
static bool
s_is_fresh (const trial_t *trial)
{
    switch (trial->made.kind) {
        case AUDIT_STALE:
        case AUDIT_OWN_STALE: return trial->value <= AUDIT_PHI2_FRESH;
        case AUDIT_STAYING: return trial->value <= AUDIT_STAY_FRESH;
        //  Tenths that follow each other so much bring as many pairs with them.
        case AUDIT_PAIRS: return trial->value <= AUDIT_PAIRS_FRESH;
        case AUDIT_TAIL_TO_HEAD: return trial->value <= AUDIT_HEADS_FRESH;
        default: return false;
    }
}

void
audit_push_trial (audit_t *self, const trial_t *trial)
{
    if (!audit_grow (self, &self->trials, self->trial_count, &self->trial_room, sizeof *self->trials))
        return;
    trial_t *kept = &self->trials [self->trial_count++];
    *kept = *trial;
    kept->fresh = s_is_fresh (trial);
}

//  --------------------------------------------------------------------------
//  Figures over epochs

void
audit_series_add (series_t *self, const moments_t *moments, bool tested)
{
    moments_add (&self->all, moments);
    self->all_count++;
    if (tested) {
        moments_add (&self->tested, moments);
        self->tested_count++;
    }
}

static audit_figure_t
s_figure (const moments_t *sum, size_t count)
{
    double n = count? (double) count: 1;
    return (audit_figure_t) { .count = count, .value = sum->value / n, .expected = sum->mean / n,
        .spread = sqrt (sum->variance) / n };
}

//  Adds a test of the moments to those made; kind, job, look, epoch and before are the caller's.
static void
s_try (audit_t *self, trial_t trial, const moments_t *sum, size_t count)
{
    audit_figure_t figure = s_figure (sum, count);
    trial.value = figure.value;
    trial.expected = figure.expected;
    trial.spread = figure.spread;
    trial.made.p = moments_tail (sum);
    audit_push_trial (self, &trial);
}

void
audit_see (audit_t *self, trial_t trial, series_t *series, const moments_t *moments, bool tested)
{
    audit_series_add (series, moments, tested);
    if (tested)
        s_try (self, trial, moments, 1);
}

audit_figure_t
audit_series_end (audit_t *self, trial_t trial, const series_t *series)
{
    trial.made.pooled = true;
    if (series->tested_count > 1)
        s_try (self, trial, &series->tested, series->tested_count);
    return s_figure (&series->all, series->all_count);
}

moments_t
audit_phi2 (const uint32_t *relative, size_t count)
{
    double degrees = (RELATION_TENTHS - 1) * (RELATION_TENTHS - 1);
    moments_t tenths = relation_tenths (relative, count);
    tenths.value -= degrees;
    tenths.mean -= degrees;
    return moments_scaled (tenths, 1 / (double) count);
}

//  --------------------------------------------------------------------------
//  What one order says about another

//  Sets self->relative for the ids that both have; returns their number.  A NULL second: the ids ascending.
static size_t
s_relate (audit_t *self, const job_t *job, const epoch_t *first, const epoch_t *second)
{
    size_t second_count = second? second->count: job->universe_count, common = 0;
    for (size_t rank = 0; rank < job->universe_count; rank++)
        self->place [rank] = second? AUDIT_NONE: (uint32_t) rank;
    for (size_t place = 0; place < second_count; place++) {
        self->mark [place] = 0;
        if (second)
            self->place [second->ids [place]] = (uint32_t) place;
    }
    for (size_t place = 0; place < first->count; place++) {
        uint32_t found = self->place [first->ids [place]];
        if (found != AUDIT_NONE) {
            self->mark [found] = 1;
            self->relative [common++] = found;
        }
    }
    if (common == second_count)
        return common;
    //  Positions among the common ids: given which these are, all their orders are equally likely.
    for (size_t place = 0, below = 0; place < second_count; place++) {
        size_t counts = self->mark [place];
        self->mark [place] = (uint32_t) below;
        below += counts;
    }
    for (size_t index = 0; index < common; index++)
        self->relative [index] = self->mark [self->relative [index]];
    return common;
}

const epoch_t *
audit_later (const job_t *job, size_t index, uint64_t lag)
{
    const epoch_t *epoch = &job->epochs [index];
    for (size_t next = index + 1; next < job->count && job->epochs [next].number - epoch->number <= lag;
        next++)
        if (job->epochs [next].number - epoch->number == lag)
            return epoch->finished && job->epochs [next].finished? &job->epochs [next]: NULL;
    return NULL;
}

//  --------------------------------------------------------------------------
//  Each epoch and a later one

//  The last twentieth in the first: hits, and how many there might have been; laws are exact.
typedef struct { uint64_t hits, drawn; double mean, variance, tested_mean; uint64_t tested_hits, tested_drawn;
    size_t count, tested_count; } heads_t;

typedef struct {
    audit_t *audit;
    size_t job;
    series_t phi2 [AUDIT_LAGS], pairs;
    heads_t heads;
    uint64_t shared_drops;      //  ids that two epochs after each other both lack
    double shared_drops_mean;
    size_t drop_pairs;
} sequence_t;

static trial_t
s_trial (const sequence_t *self, audit_kind_t kind, look_t look, const epoch_t *epoch, const epoch_t *before)
{
    return (trial_t) { .made = { .kind = kind, .job = self->job }, .look = look, .other = self->job,
        .epoch = epoch? epoch->number: 0, .before = before? before->number: 0 };
}

static void
s_see_tenths (sequence_t *self, const epoch_t *before, const epoch_t *epoch, size_t count, bool tested)
{
    if (count < AUDIT_TENTHS_LEAST)
        return;
    moments_t phi2 = audit_phi2 (self->audit->relative, count);
    audit_see (self->audit, s_trial (self, AUDIT_STALE, LOOK_PHI2, epoch, before),
        &self->phi2 [epoch->number - before->number - 1], &phi2, tested);
}

static void
s_see_pairs (sequence_t *self, const epoch_t *before, const epoch_t *epoch, size_t count, bool tested)
{
    if (count < AUDIT_PAIRS_LEAST)
        return;
    moments_t pairs = relation_pairs (self->audit->relative, count);
    pairs = moments_scaled (pairs, 1 / pairs.mean);
    audit_see (self->audit, s_trial (self, AUDIT_PAIRS, LOOK_PAIRS, epoch, before), &self->pairs, &pairs,
        tested);
}

static void
s_see_heads (sequence_t *self, const epoch_t *before, const epoch_t *epoch, size_t count, bool tested)
{
    if (count < AUDIT_TAIL_LEAST)
        return;
    heads_t *heads = &self->heads;
    size_t part = relation_twentieth (count), hits = relation_tail_to_head (self->audit->relative, count);
    double n = (double) count, share = (double) part / n, mean = (double) part * share;
    double variance = mean * (1 - share) * (n - (double) part) / (n - 1);
    heads->hits += hits;
    heads->mean += mean;
    heads->variance += variance;
    heads->count++;
    if (!tested)
        return;
    heads->tested_hits += hits;
    heads->tested_drawn += part;
    heads->tested_mean += mean;
    heads->tested_count++;
    trial_t trial = s_trial (self, AUDIT_TAIL_TO_HEAD, LOOK_TAIL_TO_HEAD, epoch, before);
    trial.value = (double) hits / mean;
    trial.expected = 1;
    trial.spread = sqrt (variance) / mean;
    trial.made.p = tail_probability_hypergeometric (count, part, part, hits);
    audit_push_trial (self->audit, &trial);
}

static void
s_see_drops (sequence_t *self, const job_t *job, size_t common)
{
    double dropped = (double) job->dropped;
    if (!job->dropped)
        return;
    self->shared_drops += common + 2 * job->dropped - (size_t) job->shown.samples;
    self->shared_drops_mean += dropped * dropped / (double) job->shown.samples;
    self->drop_pairs++;
}

//  An order that is found again as a whole has a finding of its own, which says more; and what it has to do
//  with others has been tested with the one that it repeats.
bool
audit_is_tested (const epoch_t *before, const epoch_t *epoch)
{
    return before->same == AUDIT_KINDS && epoch->same == AUDIT_KINDS;
}

static void
s_see_epochs (sequence_t *self, const job_t *job, size_t index, uint64_t lag)
{
    const epoch_t *before = &job->epochs [index], *epoch = audit_later (job, index, lag);
    if (!epoch)
        return;
    bool tested = audit_is_tested (before, epoch);
    size_t count = s_relate (self->audit, job, before, epoch);
    s_see_tenths (self, before, epoch, count, tested);
    if (lag > 1)
        return;
    s_see_pairs (self, before, epoch, count, tested);
    s_see_heads (self, before, epoch, count, tested);
    s_see_drops (self, job, count);
}

//  A sum of hypergeometric counts is a sum of independent yes-or-noes; above its mean such a sum's tail is at
//  most the binomial one's (Hoeffding 1956).
static void
s_end_heads (sequence_t *self, audit_figure_t *figure)
{
    const heads_t *heads = &self->heads;
    figure->count = heads->count;
    if (heads->count == 0)
        return;
    figure->value = (double) heads->hits / heads->mean;
    figure->expected = 1;
    figure->spread = sqrt (heads->variance) / heads->mean;
    if (heads->tested_count < 2)
        return;
    trial_t trial = s_trial (self, AUDIT_TAIL_TO_HEAD, LOOK_TAIL_TO_HEAD, NULL, NULL);
    trial.made.pooled = true;
    trial.value = (double) heads->tested_hits / heads->tested_mean;
    trial.expected = 1;
    trial.spread = figure->spread;
    //  The bound holds from one above the mean on.
    trial.made.p = (double) heads->tested_hits < heads->tested_mean + 1? 1:
        tail_probability_binomial (heads->tested_drawn, heads->tested_mean / (double) heads->tested_drawn,
            heads->tested_hits);
    audit_push_trial (self->audit, &trial);
}

//  Does drop_last leave out the same samples again and again?
static void
s_end_drops (sequence_t *self, const job_t *job)
{
    if (self->drop_pairs == 0)
        return;
    uint64_t chances = self->drop_pairs * job->dropped;
    trial_t trial = s_trial (self, AUDIT_MISSING, LOOK_DROPPED, NULL, NULL);
    trial.made.pooled = true;
    trial.value = (double) self->shared_drops;
    trial.expected = self->shared_drops_mean;
    trial.made.p = (double) self->shared_drops < self->shared_drops_mean + 1? 1:
        tail_probability_binomial (chances, self->shared_drops_mean / (double) chances, self->shared_drops);
    audit_push_trial (self->audit, &trial);
}

static void
s_compare_epochs (audit_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    sequence_t sequence = { .audit = self, .job = job_index };
    for (uint64_t lag = 1; lag <= AUDIT_LAGS; lag++) {
        for (size_t index = 0; index < job->count; index++)
            s_see_epochs (&sequence, job, index, lag);
        trial_t trial = s_trial (&sequence, AUDIT_STALE, LOOK_PHI2, NULL, NULL);
        trial.epoch = lag;              //  pooled: the distance
        job->shown.phi2 [lag - 1] = audit_series_end (self, trial, &sequence.phi2 [lag - 1]);
    }
    job->shown.pair_repeat = audit_series_end (self, s_trial (&sequence, AUDIT_PAIRS, LOOK_PAIRS, NULL, NULL),
        &sequence.pairs);
    s_end_heads (&sequence, &job->shown.t5h5);
    s_end_drops (&sequence, job);
}

//  --------------------------------------------------------------------------
//  Each epoch and the ids

typedef struct { series_t tenths, rank, nearness, pairs; } ids_series_t;

//  How many places before its turn an id comes at most; of a buffer over sorted data this is the buffer.
static double
s_reach (const uint32_t *relative, size_t count, bool descending)
{
    double reach = 0;
    for (size_t place = 0; place < count; place++) {
        double turn = descending? (double) (count - 1 - relative [place]): (double) relative [place];
        reach = fmax (reach, turn - (double) place);
    }
    return reach;
}

//  Both signs are faults: the p is of either.
static void
s_try_rank (audit_t *self, trial_t trial, const moments_t *sum, size_t count)
{
    audit_figure_t figure = s_figure (sum, count);
    trial.look = LOOK_ID_RANK;
    trial.value = figure.value;
    trial.spread = figure.spread;
    trial.made.p = 2 * tail_probability_normal (fabs (sum->value) / sqrt (sum->variance));
    audit_push_trial (self, &trial);
}

//  Returns whether it looks buffered.
static bool
s_see_ids (audit_t *self, const job_t *job, const epoch_t *epoch, trial_t trial, ids_series_t *series)
{
    size_t count = s_relate (self, job, epoch, NULL);
    const uint32_t *relative = self->relative;
    bool tested = epoch->same == AUDIT_KINDS;
    if (count < AUDIT_RANK_LEAST)
        return false;
    moments_t rank = relation_rank (relative, count), nearness = relation_nearness (relative, count);
    trial.reach = s_reach (relative, count, rank.value < 0);
    bool buffered = fabs (rank.value) >= AUDIT_BUFFERED_RANK
        && trial.reach <= AUDIT_BUFFERED_REACH * (double) count;
    if (buffered)
        trial.made.kind = AUDIT_BUFFERED;
    audit_series_add (&series->rank, &rank, tested);
    if (tested)
        s_try_rank (self, trial, &rank, 1);
    //  In a joined order neighbours are of different ranks, but perhaps of one node, which has few samples.
    trial.look = LOOK_ID_NEARNESS;
    if (!job->parts)
        audit_see (self, trial, &series->nearness, &nearness, tested);
    if (count >= AUDIT_TENTHS_LEAST) {
        moments_t phi2 = audit_phi2 (relative, count);
        trial.look = LOOK_ID_TENTHS;
        audit_see (self, trial, &series->tenths, &phi2, tested);
    }
    if (count >= AUDIT_PAIRS_LEAST) {
        moments_t pairs = relation_pairs (relative, count);
        pairs = moments_scaled (pairs, 1 / pairs.mean);
        trial.look = LOOK_ID_PAIRS;
        audit_see (self, trial, &series->pairs, &pairs, tested);
    }
    return buffered;
}

static void
s_compare_ids (audit_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    ids_series_t series = { 0 };
    trial_t trial = { .made = { .kind = AUDIT_UNSHUFFLED, .job = job_index }, .other = job_index };
    bool buffered = true;
    for (size_t index = 0; index < job->count; index++) {
        trial.epoch = job->epochs [index].number;
        buffered &= s_see_ids (self, job, &job->epochs [index], trial, &series);
    }
    trial.made.pooled = true;
    if (buffered)
        trial.made.kind = AUDIT_BUFFERED;
    if (series.rank.tested_count > 1)
        s_try_rank (self, trial, &series.rank.tested, series.rank.tested_count);
    job->shown.id_correlation = s_figure (&series.rank.all, series.rank.all_count);
    trial.look = LOOK_ID_NEARNESS;
    audit_series_end (self, trial, &series.nearness);
    trial.look = LOOK_ID_TENTHS;
    job->shown.id_phi2 = audit_series_end (self, trial, &series.tenths);
    trial.look = LOOK_ID_PAIRS;
    audit_series_end (self, trial, &series.pairs);
}

//  --------------------------------------------------------------------------
//  One order as a whole, found again

static size_t
s_smallest (const epoch_t *epoch)
{
    size_t smallest = 0;
    for (size_t place = 1; place < epoch->count; place++)
        if (epoch->ids [place] < epoch->ids [smallest])
            smallest = place;
    return smallest;
}

//  Hashes of the order as a ring, forwards and backwards from the smallest id.
static void
s_hash_epoch (const job_t *job, epoch_t *epoch)
{
    size_t smallest = epoch->count? s_smallest (epoch): 0, count = epoch->count;
    for (size_t step = 0; step < count; step++) {
        uint32_t ahead = epoch->ids [(smallest + step) % count];
        uint32_t back = epoch->ids [(smallest + count - step) % count];
        epoch->hash = audit_mix (epoch->hash + job->universe [ahead] + 1);
        epoch->hash_back = audit_mix (epoch->hash_back + job->universe [back] + 1);
    }
}

//  Is one order the other's, begun elsewhere, and perhaps backwards?
static bool
s_is_turned (const epoch_t *epoch, const epoch_t *earlier, bool back)
{
    size_t count = epoch->count, place = s_smallest (epoch), other = s_smallest (earlier);
    if (earlier->count != count)
        return false;
    for (size_t step = 0; step < count; step++) {
        size_t there = back? other + count - step: other + step;
        if (epoch->ids [(place + step) % count] != earlier->ids [there % count])
            return false;
    }
    return true;
}

//  AUDIT_KINDS: it is another order.
static audit_kind_t
s_likeness (const epoch_t *epoch, const epoch_t *earlier)
{
    if (s_is_turned (epoch, earlier, false))
        return epoch->ids [0] == earlier->ids [0]? AUDIT_REPEATED: AUDIT_ROTATED;
    return s_is_turned (epoch, earlier, true)? AUDIT_REVERSED: AUDIT_KINDS;
}

//  Ascending or descending, begun anywhere: in a ring there is one step the other way.
static const char *
s_sorted_how (const epoch_t *epoch)
{
    size_t down = 0, count = epoch->count;
    for (size_t place = 0; place < count; place++)
        down += epoch->ids [(place + 1) % count] < epoch->ids [place];
    if (down == 1)
        return epoch->ids [0] < epoch->ids [count - 1]? "ascending": "ascending, begun in the middle";
    if (down == count - 1)
        return epoch->ids [0] > epoch->ids [count - 1]? "descending": "descending, begun in the middle";
    return NULL;
}

typedef struct { uint64_t key; size_t index; } keyed_t;

static int
s_compare_keyed (const void *one, const void *two)
{
    const keyed_t *first = one, *second = two;
    if (first->key != second->key)
        return first->key < second->key? -1: 1;
    return first->index < second->index? -1: first->index > second->index;
}

//  Marks the epochs that repeat an earlier one.  Epochs with equal hashes are compared as a whole.
static void
s_find_repeats (audit_t *self, job_t *job)
{
    keyed_t *keyed = calloc (job->count? job->count: 1, sizeof *keyed);
    size_t count = 0;
    for (size_t index = 0; keyed && index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        if (epoch->finished && epoch->count >= AUDIT_SAME_LEAST)
            keyed [count++] = (keyed_t) { epoch->hash < epoch->hash_back? epoch->hash: epoch->hash_back,
                index };
    }
    if (keyed)
        qsort (keyed, count, sizeof *keyed, s_compare_keyed);
    self->out_of_memory |= !keyed;
    for (size_t index = 0, first = 0; index < count; index++) {
        first = keyed [index].key == keyed [first].key? first: index;
        epoch_t *epoch = &job->epochs [keyed [index].index];
        const epoch_t *earlier = &job->epochs [keyed [first].index];
        audit_kind_t kind = first == index? AUDIT_KINDS: s_likeness (epoch, earlier);
        if (kind == AUDIT_KINDS)
            continue;
        epoch->same_as = earlier->number;
        if (epoch->same != AUDIT_SORTED)
            epoch->same = kind;
    }
    free (keyed);
}

//  The p of all these findings of a job: true shuffles of count samples, two of which, or one and the
//  ascending one, are the same ring, forwards or backwards.
static double
s_same_p (size_t epochs, size_t count)
{
    double n = (double) count, pairs = (double) epochs * (double) (epochs + 1) / 2;
    return fmin (1, exp (log (2 * n * pairs) - lgamma (n + 1)));
}

static void
s_find_same (audit_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    size_t least = SIZE_MAX, count = 0;
    for (size_t index = 0; index < job->count; index++) {
        epoch_t *epoch = &job->epochs [index];
        s_hash_epoch (job, epoch);
        if (epoch->count < AUDIT_SAME_LEAST)
            continue;
        least = epoch->count < least? epoch->count: least;
        count++;
        epoch->sorted_how = s_sorted_how (epoch);
        epoch->same = epoch->sorted_how? AUDIT_SORTED: AUDIT_KINDS;
    }
    s_find_repeats (self, job);
    if (count == 0)
        return;
    trial_t trial = { .made = { .kind = AUDIT_REPEATED, .job = job_index, .pooled = true }, .look = LOOK_SAME,
        .other = job_index };
    trial.made.p = 1;
    for (size_t index = 0; index < job->count; index++)
        if (job->epochs [index].same != AUDIT_KINDS)
            trial.made.p = s_same_p (count, least);
    audit_push_trial (self, &trial);
}

void
audit_orders (audit_t *self, size_t job)
{
    s_find_same (self, job);
    s_compare_epochs (self, job);
    s_compare_ids (self, job);
}
